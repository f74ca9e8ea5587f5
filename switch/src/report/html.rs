//! One page of HTML with everything in it: no script, no font, no picture from elsewhere.
//!
//! Pictures are side by side on a desk, one below the other on a phone, two in a row in print. On a phone a row of a
//! table becomes a list of its cells with their headings, so that nothing is cut. In dark mode the page is dark, and
//! lines and text of pictures are lighter; print is always on white.

use std::fmt::Write;

use super::svg::{self, escaped};
use super::{Report, Table};

/// Rows of a table that are on the page; the others would make it too large for a phone.
const ROWS_MAX: usize = 1000;

const STYLE: &str = "
:root{color-scheme:light dark}
body{margin:0 auto;padding:1rem;max-width:68rem;font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
figure{margin:0;break-inside:avoid}figcaption{font-size:.9rem;color:#333}figure h2{margin:.5rem 0}
svg{width:100%;height:auto;display:block;background:#fff}
.grid{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th{border-bottom:2px solid #888}.w{text-align:left}
ul{list-style:none;padding:0}li{padding:.1rem 0}.pass b{color:#00604a}.fail b{color:#a3170d}.skip b{color:#7a5200}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;font-size:.9rem}dd{margin:0;overflow-wrap:anywhere}
@media screen and (max-width:40rem){dl{grid-template-columns:1fr}dt{font-weight:600}
th,td{white-space:normal;padding:.2rem .3rem}
.many,.many tbody,.many tr,.many td{display:block}.many tr:first-child{display:none}.many tr{padding:.4rem 0;border-bottom:1px solid #888}
.many td,.many td.w{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.05rem 0;text-align:right;overflow-wrap:anywhere}
.many td::before{content:attr(data-h);text-align:left;white-space:nowrap}}
@media screen and (prefers-color-scheme:dark){body{color:#e4e4e4;background:#151515}figcaption{color:#bbb}th,td{border-color:#3a3a3a}
.pass b{color:#5fd0ae}.fail b{color:#ff8f80}.skip b{color:#e8b64c}}
@media print{:root{color-scheme:light}body{max-width:none;font-size:11px}.grid{grid-template-columns:1fr 1fr}h2{break-after:avoid}.wide{overflow:visible}}
";

/// The page.
pub fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}{}</style></head><body>\n<h1>{title}</h1>\n",
        dark_pictures()
    );
    for paragraph in report.about.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let _ = writeln!(out, "<p>{}</p>", escaped(paragraph.trim()));
    }
    verdicts(&mut out, report);
    let (headline, tables) = report.tables.split_at(report.tables.len().min(1));
    headline.iter().for_each(|table| self::table(&mut out, table));
    pictures(&mut out, report);
    tables.iter().for_each(|table| self::table(&mut out, table));
    out.push_str("<h2>To run it again</h2><dl>");
    for (name, value) in &report.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    }
    out.push_str("</dl>\n</body></html>\n");
    out
}

/// Pictures on a dark page: their colours are attributes, over which rules of the page take precedence. Cells of heat
/// maps stay as they are.
fn dark_pictures() -> String {
    let mut out = "@media screen and (prefers-color-scheme:dark){svg{background:none;fill:#e4e4e4}\
                   svg [stroke=\"#ddd\"]{stroke:#3a3a3a}svg [stroke=\"#eee\"]{stroke:#2c2c2c}\
                   svg [fill=\"#fff\"]{fill:#151515}"
        .to_owned();
    for (light, dark) in svg::COLOURS.iter().zip(svg::DARK_COLOURS) {
        let _ = write!(
            out,
            "svg [stroke=\"{light}\"]{{stroke:{dark}}}svg [fill=\"{light}\"]{{fill:{dark}}}"
        );
    }
    out + "}\n"
}

fn verdicts(out: &mut String, report: &Report) {
    if report.verdicts.is_empty() {
        return;
    }
    let _ = write!(out, "<h2>{}</h2><ul>", report.headline());
    for verdict in &report.verdicts {
        let (class, word) = match (verdict.skipped, verdict.passed) {
            (true, _) => ("skip", "SKIP"),
            (false, true) => ("pass", "holds"),
            (false, false) => ("fail", "FAILS"),
        };
        let _ = write!(
            out,
            "<li class=\"{class}\"><b>{word}</b> {}: {}</li>",
            escaped(&verdict.name),
            escaped(&verdict.found)
        );
    }
    out.push_str("</ul>\n");
}

fn pictures(out: &mut String, report: &Report) {
    let networks = report.diagrams.iter();
    let networks = networks.map(|d| (&d.id, &d.title, &d.caption, svg::diagram(d)));
    let plots = report.plots.iter().map(|p| (&p.id, &p.title, &p.caption, svg::plot(p)));
    let lines = report.timelines.iter().map(|t| (&t.id, &t.title, &t.caption, svg::timeline(t)));
    let maps = report.heat_maps.iter().map(|m| (&m.id, &m.title, &m.caption, svg::heat_map(m)));
    out.push_str("<div class=\"grid\">\n");
    for (id, title, caption, picture) in networks.chain(maps).chain(plots).chain(lines) {
        let _ = writeln!(
            out,
            "<figure id=\"{}\"><h2>{}</h2><div class=\"wide\">{picture}</div><figcaption>{}</figcaption></figure>",
            escaped(id),
            escaped(title),
            escaped(caption)
        );
    }
    out.push_str("</div>\n");
}

fn table(out: &mut String, table: &Table) {
    let class = |column: usize| match table.columns[column].unit {
        None => " class=\"w\"",
        Some(_) => "",
    };
    // More columns than fit on a phone.
    let many = if table.columns.len() > 4 { " class=\"many\"" } else { "" };
    let _ = write!(out, "<h2>{}</h2><div class=\"wide\"><table{many}><tr>", escaped(&table.title));
    for (index, column) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(index), escaped(&column.name));
    }
    out.push_str("</tr>");
    for row in 0..table.rows.len().min(ROWS_MAX) {
        out.push_str("\n<tr>");
        for column in 0..table.columns.len() {
            let text = escaped(&table.shown(row, column));
            let heading = escaped(&table.columns[column].name);
            let _ = write!(out, "<td{} data-h=\"{heading}\">{text}</td>", class(column));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>\n");
    if table.rows.len() > ROWS_MAX {
        let more = table.rows.len() - ROWS_MAX;
        let _ = writeln!(out, "<p>{more} more rows are in the table's CSV file.</p>");
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escaped(&table.note));
    }
}
