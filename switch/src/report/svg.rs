//! Plots to SVG: pictures that stand alone, scale to a phone, and print in black and white.
//!
//! Written here and not with a plotting crate, because the picture is small (axes, lines, bands, bars) and its
//! requirements are beyond those: a width that follows the page, text that stays text, dashes beside colours, one
//! number format for all forms of a report, and the same bytes for the same data.

mod diagram;
mod heat;
mod scale;
mod shapes;

use std::fmt::Write;

use super::plot::{Axis, Layer, Plot, Timeline};
pub use diagram::diagram;
pub use heat::heat_map;
use scale::Scale;

/// The drawing's own units; the page stretches it to its width. Not much wider than a phone, so that text is legible
/// there.
pub(super) const WIDTH: f64 = 400.0;
pub(super) const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
const LEGEND_LINE: f64 = 15.0;
/// Between the name of the axis and the legend.
const LEGEND_GAP: f64 = 8.0;

/// Dark enough for text on white, distinguishable by the colour-blind (after Okabe and Ito).
pub(super) const COLOURS: [&str; 8] =
    ["#0b5c97", "#b8500a", "#00745a", "#8a3a72", "#6b5b00", "#1b8fc4", "#7a1f1f", "#444444"];
/// The same colours on a dark page: as light as text on it.
pub(super) const DARK_COLOURS: [&str; 8] =
    ["#5b9fe0", "#f0954f", "#4fc9a6", "#d98cc2", "#d0bd45", "#8be0ff", "#e87f7f", "#bbbbbb"];
const DASHES: [&str; 4] = ["", "6 2", "2 2", "8 2 2 2"];

/// Most names in a legend; more would be longer than the picture.
const LEGEND_MAX: usize = 10;

/// Text that is safe inside SVG and HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with one decimal, without `-0`.
pub(super) fn at(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0 + 0.0;
    format!("{rounded}")
}

/// The n-th style: colour and dashes.
pub(super) fn style(index: usize) -> String {
    let colour = COLOURS[index % COLOURS.len()];
    match DASHES[index / COLOURS.len() % DASHES.len()] {
        "" => format!("stroke=\"{colour}\""),
        dashes => format!("stroke=\"{colour}\" stroke-dasharray=\"{dashes}\""),
    }
}

/// The number of a layer's style: references have their own.
fn style_index(plot: &Plot, index: usize) -> usize {
    let is_reference = |layer: &&Layer| matches!(layer, Layer::Reference { .. });
    match plot.layers.get(index).filter(is_reference) {
        Some(_) => plot.layers[..index].iter().filter(is_reference).count(),
        None => index,
    }
}

/// The drawing of a plot.
pub fn plot(plot: &Plot) -> String {
    let legend = legend(plot);
    let height = HEIGHT + legend.height;
    let xs = shapes::xs(&plot.layers);
    // The x axis ends where the data end; the y axis at a round number.
    let last = xs.iter().copied().filter(|x| x.is_finite()).reduce(f64::max);
    let across = Axis { to: plot.x.to.or(last), ..plot.x.clone() };
    let x = Scale::new(&across, xs, (LEFT, WIDTH - RIGHT));
    let y = Scale::new(&plot.y, shapes::ys(&plot.layers), (HEIGHT - BOTTOM, TOP));
    let mut out = open(&plot.title, height);
    grid(&mut out, &x, &y);
    if plot.layers.iter().all(shapes::is_empty) {
        let (middle, line) = (at((LEFT + WIDTH) / 2.0), at(HEIGHT / 2.0));
        let _ = write!(
            out,
            "<text x=\"{middle}\" y=\"{line}\" text-anchor=\"middle\">nothing was measured</text>"
        );
    }
    for (index, layer) in plot.layers.iter().enumerate() {
        shapes::layer(&mut out, layer, style_index(plot, index), &x, &y);
    }
    axis_names(&mut out, &plot.x, &x, Some((&plot.y, &y)));
    out.push_str(&legend.text);
    out.push_str("</svg>");
    out
}

/// The drawing of a timeline.
pub fn timeline(timeline: &Timeline) -> String {
    const ROW: f64 = 18.0;
    let height = TOP + timeline.rows.len() as f64 * ROW + BOTTOM;
    // The widest of the usual system fonts has 0.6 em for a letter.
    let longest = timeline.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 7.2 + 12.0).clamp(LEFT, WIDTH / 2.0);
    let axis = Axis {
        from: Some(timeline.range.0),
        to: Some(timeline.range.1),
        ..Axis::new("time", super::Unit::Seconds)
    };
    let x = Scale::new(&axis, Vec::new(), (left, WIDTH - RIGHT));
    let mut out = open(&timeline.title, height);
    let floor = height - BOTTOM;
    for (place, text) in x.ticks() {
        let (place, middle) = (at(place), label_middle(place, &text));
        let _ = write!(
            out,
            "<line class=\"g\" x1=\"{place}\" x2=\"{place}\" y1=\"{TOP}\" y2=\"{}\" \
             stroke=\"#ddd\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            at(floor),
            at(middle),
            at(floor + 15.0)
        );
    }
    for (index, row) in timeline.rows.iter().enumerate() {
        let top = TOP + index as f64 * ROW;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><line x1=\"{}\" x2=\"{}\" \
             y1=\"{1}\" y2=\"{1}\" stroke=\"#eee\"/>",
            at(left - 6.0),
            at(top + 12.0),
            escaped(&row.name),
            at(left),
            at(WIDTH - RIGHT)
        );
        shapes::spans(&mut out, &row.spans, &x, (top + 3.0, ROW - 6.0), index);
    }
    let (title_x, title_y) = (at((left + WIDTH - RIGHT) / 2.0), at(height - 6.0));
    let _ = write!(
        out,
        "<text x=\"{title_x}\" y=\"{title_y}\" text-anchor=\"middle\">time ({})</text></svg>",
        x.unit_name()
    );
    out
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#1a1a1a\"><title>{}</title>",
        at(height),
        escaped(title)
    )
}

/// The middle of a label below an axis: at its tick, or left of it where it would be cut off. The widest of the
/// usual system fonts has 0.6 em for a letter.
fn label_middle(place: f64, text: &str) -> f64 {
    place.min(WIDTH - text.chars().count() as f64 * 3.6)
}

fn grid(out: &mut String, x: &Scale, y: &Scale) {
    let (left, right, floor) = (at(LEFT), at(WIDTH - RIGHT), HEIGHT - BOTTOM);
    for (place, text) in y.ticks() {
        let _ = write!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{0}\" y2=\"{0}\" stroke=\"#ddd\"/>\
             <text x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{text}</text>",
            at(place),
            at(LEFT - 5.0),
            at(place + 4.0)
        );
    }
    for (place, text) in x.ticks() {
        let _ = write!(
            out,
            "<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#888\"/>\
             <text x=\"{4}\" y=\"{3}\" text-anchor=\"middle\">{text}</text>",
            at(place),
            at(floor),
            at(floor + 4.0),
            at(floor + 16.0),
            at(label_middle(place, &text))
        );
    }
    let _ = write!(
        out,
        "<line x1=\"{left}\" x2=\"{right}\" y1=\"{0}\" y2=\"{0}\" stroke=\"#888\"/>",
        at(floor)
    );
}

fn axis_names(out: &mut String, axis: &Axis, x: &Scale, vertical: Option<(&Axis, &Scale)>) {
    let named = |axis: &Axis, scale: &Scale| match scale.unit_name() {
        "" => escaped(&axis.name),
        unit => format!("{} ({unit})", escaped(&axis.name)),
    };
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        at((LEFT + WIDTH - RIGHT) / 2.0),
        at(HEIGHT - 6.0),
        named(axis, x)
    );
    if let Some((axis, scale)) = vertical {
        let middle = at((TOP + HEIGHT - BOTTOM) / 2.0);
        let _ = write!(
            out,
            "<text x=\"12\" y=\"{middle}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 12 {middle})\">{}</text>",
            named(axis, scale)
        );
    }
}

struct Legend {
    text: String,
    height: f64,
}

/// Names below the picture, as many per line as fit.
fn legend(plot: &Plot) -> Legend {
    let mut text = String::new();
    let (mut x, mut line) = (LEFT, 0.0);
    let shown = plot.layers.iter().enumerate().take(LEGEND_MAX);
    let more = plot.layers.len().saturating_sub(LEGEND_MAX);
    let entries = shown.map(|(index, layer)| (Some((index, layer)), layer.name().to_owned()));
    let rest = (more > 0).then(|| (None, format!("and {more} more")));
    for (mark, name) in entries.chain(rest) {
        // The widest of the usual system fonts has 0.6 em for a letter.
        let width = 36.0 + name.chars().count() as f64 * 7.2;
        if x + width > WIDTH - RIGHT && x > LEFT {
            (x, line) = (LEFT, line + 1.0);
        }
        let y = HEIGHT + LEGEND_GAP + line * LEGEND_LINE + 8.0;
        if let Some((index, layer)) = mark {
            shapes::key(&mut text, layer, style_index(plot, index), x, y - 4.0);
        }
        let _ =
            write!(text, "<text x=\"{}\" y=\"{}\">{}</text>", at(x + 24.0), at(y), escaped(&name));
        x += width;
    }
    Legend { text, height: LEGEND_GAP + (line + 1.0) * LEGEND_LINE }
}

#[cfg(test)]
mod tests;
