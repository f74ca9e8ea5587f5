//! Heat maps: a cell for each pair of values, darker for larger ones, with the number in it.

use std::fmt::Write;

use super::{WIDTH, at, escaped, open};
use crate::report::HeatMap;
use crate::report::unit::digits;

const ROW: f64 = 24.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;
/// The widest of the usual system fonts has 0.6 em for a letter.
const LETTER: f64 = 7.2;

/// The drawing of a heat map.
pub fn heat_map(map: &HeatMap) -> String {
    let (columns, rows) = (&map.x.1, &map.y.1);
    let longest = rows.iter().chain([&map.y.0]).map(|text| text.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * LETTER + 10.0).min(WIDTH / 3.0);
    let (wide, floor) =
        ((WIDTH - left - 4.0) / columns.len().max(1) as f64, TOP + rows.len() as f64 * ROW);
    let finite = || map.cells.iter().flatten().copied().filter(|value| value.is_finite());
    let (least, most) =
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (factor, unit) = map.unit.scale(if most.is_finite() { most } else { 0.0 });
    let mut out = open(&map.title, floor + BOTTOM);
    for (row, (name, cells)) in rows.iter().zip(&map.cells).enumerate() {
        let top = TOP + row as f64 * ROW;
        let place = at(top + 16.0);
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{place}\" text-anchor=\"end\">{}</text>",
            at(left - 5.0),
            escaped(name)
        );
        for (column, &value) in cells.iter().enumerate() {
            let x = left + column as f64 * wide;
            let part = if most > least { (value - least) / (most - least) } else { 0.0 };
            let (colour, ink) = colours(part);
            let text = if value.is_finite() { digits(value / factor, 3) } else { "-".to_owned() };
            let size = (wide / (text.chars().count().max(1) as f64 * 0.62)).clamp(5.0, 11.0);
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{place}\" text-anchor=\"middle\" font-size=\"{}\" fill=\"{ink}\">{text}</text>",
                at(x),
                at(top),
                at(wide - 1.0),
                at(ROW - 1.0),
                at(x + wide / 2.0),
                at(size)
            );
        }
    }
    // As many headings as there is room for.
    let widest =
        columns.iter().map(|text| text.chars().count()).max().unwrap_or(1) as f64 * LETTER + 6.0;
    let every = (widest / wide).ceil().max(1.0) as usize;
    for (column, name) in columns.iter().enumerate().step_by(every) {
        let x = left + (column as f64 + 0.5) * wide;
        let (x, y) = (at(x), at(floor + 15.0));
        let _ = write!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
            escaped(name)
        );
    }
    let (middle, last) = (at((left + WIDTH) / 2.0), at(floor + 34.0));
    let unit = if unit.is_empty() { String::new() } else { format!("; {unit}") };
    let names = format!("{} across, {} down{unit}", escaped(&map.x.0), escaped(&map.y.0));
    let _ = write!(
        out,
        "<text x=\"{middle}\" y=\"{last}\" text-anchor=\"middle\">{names}</text></svg>"
    );
    out
}

/// From white to the darkest blue of the other pictures, and a legible text colour; grey without a measurement.
fn colours(part: f64) -> (String, &'static str) {
    if !part.is_finite() {
        return ("#eeeeee".to_owned(), "#1a1a1a");
    }
    let mix = |from: f64, to: f64| (from + (to - from) * part).round() as u8;
    let colour =
        format!("#{:02x}{:02x}{:02x}", mix(240.0, 11.0), mix(246.0, 92.0), mix(252.0, 151.0));
    (colour, if part > 0.55 { "#ffffff" } else { "#1a1a1a" })
}
