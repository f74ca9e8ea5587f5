//! CSV (RFC 4180): a header line with units, numbers in base units, empty cells without a measurement.

use std::fmt::Write;

use super::{Cell, Report, Table};

/// A field, quoted where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

/// All series, one line for each sample.
pub fn series(report: &Report) -> String {
    let mut out = "time (seconds)".to_owned();
    for series in &report.series {
        let _ = write!(out, ",{}", field(&format!("{} ({})", series.name, series.unit.name())));
    }
    out.push('\n');
    for (index, time) in report.sample_times.iter().enumerate() {
        out.push_str(&number(*time));
        for series in &report.series {
            out.push(',');
            out.push_str(&number(series.values.get(index).copied().unwrap_or(f64::NAN)));
        }
        out.push('\n');
    }
    out
}

/// A table.
pub fn table(table: &Table) -> String {
    let heading = |column: &super::Column| match column.unit {
        Some(unit) => field(&format!("{} ({})", column.name, unit.name())),
        None => field(&column.name),
    };
    let headings: Vec<String> = table.columns.iter().map(heading).collect();
    let mut out = headings.join(",") + "\n";
    for row in &table.rows {
        let cell = |cell: &Cell| match cell {
            Cell::Text(text) => field(text),
            Cell::Number(value) => number(*value),
            Cell::Empty => String::new(),
        };
        let cells: Vec<String> = row.iter().map(cell).collect();
        out += &(cells.join(",") + "\n");
    }
    out
}
