//! Lines, steps, bands and bars on two scales.

use std::fmt::Write;

use super::scale::Scale;
use super::{COLOURS, at, style};
use crate::report::plot::Layer;

/// Most columns of a line; in each the first, least, most and last value are drawn.
const COLUMNS: usize = 480;

/// Dashes of references, which have one colour.
const REFERENCE_DASHES: [&str; 3] = ["5 3", "1.5 3", "8 3 1.5 3"];

/// The n-th style of references.
fn reference(index: usize) -> String {
    let dashes = REFERENCE_DASHES[index % REFERENCE_DASHES.len()];
    format!("stroke=\"{}\" stroke-dasharray=\"{dashes}\"", COLOURS[7])
}

/// Every x of the layers.
pub(super) fn xs(layers: &[Layer]) -> Vec<f64> {
    layers.iter().flat_map(|layer| points(layer).into_iter().map(|(x, _)| x)).collect()
}

/// Every y of the layers, intervals included.
pub(super) fn ys(layers: &[Layer]) -> Vec<f64> {
    layers.iter().flat_map(|layer| points(layer).into_iter().map(|(_, y)| y)).collect()
}

/// True when there is nothing to draw.
pub(super) fn is_empty(layer: &Layer) -> bool {
    points(layer).iter().all(|(_, y)| !y.is_finite())
}

fn points(layer: &Layer) -> Vec<(f64, f64)> {
    match layer {
        Layer::Line { points, .. }
        | Layer::Steps { points, .. }
        | Layer::Reference { points, .. } => points.clone(),
        Layer::Band { points, .. } => {
            points.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]).collect()
        }
        Layer::Measured { points, .. } => {
            points.iter().flat_map(|&(x, low, _, high)| [(x, low), (x, high)]).collect()
        }
    }
}

/// Draws a layer in the n-th style.
pub(super) fn layer(out: &mut String, layer: &Layer, index: usize, x: &Scale, y: &Scale) {
    match layer {
        Layer::Line { points, .. } => {
            let d = line_commands(&thinned(points), x, y);
            stroke(out, &d, &style(index), 1.3);
        }
        Layer::Steps { points, .. } => {
            let d = step_commands(&thinned(points), x, y);
            stroke(out, &d, &style(index), 1.5);
        }
        Layer::Reference { points, .. } => {
            let d = line_commands(points, x, y);
            stroke(out, &d, &reference(index), 1.5);
        }
        Layer::Band { points, .. } => {
            let colour = COLOURS[index % COLOURS.len()];
            let is_gap = |p: &(f64, f64, f64)| !p.1.is_finite() || !p.2.is_finite();
            points.split(is_gap).for_each(|part| area(out, part, colour, x, y));
        }
        Layer::Measured { points, .. } => measured(out, points, index, x, y),
    }
}

/// The mark of a layer in the legend.
pub(super) fn key(out: &mut String, layer: &Layer, index: usize, left: f64, line: f64) {
    let look = match layer {
        Layer::Reference { .. } => reference(index),
        Layer::Band { .. } => {
            let colour = COLOURS[index % COLOURS.len()];
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"18\" height=\"8\" fill=\"{colour}\" fill-opacity=\"0.18\"/>",
                at(left),
                at(line - 4.0)
            );
            return;
        }
        Layer::Measured { .. } => {
            let colour = COLOURS[index % COLOURS.len()];
            let (cx, cy) = (at(left + 9.0), at(line));
            let _ = write!(out, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"3\" fill=\"{colour}\"/>");
            return;
        }
        _ => style(index),
    };
    let _ = write!(
        out,
        "<line x1=\"{}\" x2=\"{}\" y1=\"{2}\" y2=\"{2}\" {look} stroke-width=\"2\"/>",
        at(left),
        at(left + 18.0),
        at(line)
    );
}

/// Bars of a timeline row; the height is the share of the span in that state.
pub(super) fn spans(
    out: &mut String,
    spans: &[(f64, f64, f64)],
    x: &Scale,
    (top, height): (f64, f64),
    index: usize,
) {
    let mut path = String::new();
    for &(begin, end, share) in spans.iter().filter(|span| span.2 > 0.0) {
        let (left, right) = (x.place(begin), x.place(end));
        let tall = (height * share.clamp(0.0, 1.0)).max(1.0);
        let (width, tall_text) = (at((right - left).max(0.3)), at(tall));
        let _ = write!(path, "M{} {}h{width}v-{tall_text}h-{width}z", at(left), at(top + height));
    }
    if !path.is_empty() {
        let _ = write!(out, "<path d=\"{path}\" fill=\"{}\"/>", COLOURS[index % COLOURS.len()]);
    }
}

/// The area between the lower and the upper values.
fn area(out: &mut String, points: &[(f64, f64, f64)], colour: &str, x: &Scale, y: &Scale) {
    let mut band = String::new();
    let upper = points.iter().map(|p| (p.0, p.2));
    let lower = points.iter().rev().map(|p| (p.0, p.1));
    for (n, (px, py)) in upper.chain(lower).enumerate() {
        let letter = if n == 0 { 'M' } else { 'L' };
        let _ = write!(band, "{letter}{} {}", at(x.place(px)), at(y.place(py)));
    }
    if !band.is_empty() {
        let _ = write!(out, "<path d=\"{band}z\" fill=\"{colour}\" fill-opacity=\"0.18\"/>");
    }
}

fn measured(out: &mut String, points: &[(f64, f64, f64, f64)], index: usize, x: &Scale, y: &Scale) {
    let colour = COLOURS[index % COLOURS.len()];
    let band: Vec<_> = points.iter().map(|p| (p.0, p.1, p.3)).collect();
    area(out, &band, colour, x, y);
    for &(px, _, value, _) in points {
        let (cx, cy) = (at(x.place(px)), at(y.place(value)));
        let _ = write!(out, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.2\" fill=\"{colour}\"/>");
    }
}

/// Path commands that join the points by lines; a value that is not finite leaves a gap (SVG 2, section 9.3).
fn line_commands(points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    commands(points, x, y, |px, py| format!("L{px} {py}"))
}

/// The same, each value kept until the next one.
fn step_commands(points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    commands(points, x, y, |px, py| format!("H{px}V{py}"))
}

fn commands(
    points: &[(f64, f64)],
    x: &Scale,
    y: &Scale,
    join: impl Fn(&str, &str) -> String,
) -> String {
    let mut d = String::new();
    let mut is_joined = false;
    for &(px, py) in points {
        if !py.is_finite() {
            is_joined = false;
            continue;
        }
        let (px, py) = (at(x.place(px)), at(y.place(py)));
        d += &if is_joined { join(&px, &py) } else { format!("M{px} {py}") };
        is_joined = true;
    }
    d
}

fn stroke(out: &mut String, d: &str, look: &str, width: f64) {
    let _ = write!(
        out,
        "<path d=\"{d}\" fill=\"none\" {look} stroke-width=\"{width}\" stroke-linejoin=\"round\"/>"
    );
}

/// No more points than can be distinguished: of each column the first, least, most and last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 4 * COLUMNS {
        return points.to_vec();
    }
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let column = |x: f64| ((x - first) / (last - first) * COLUMNS as f64) as usize;
    let mut kept = Vec::with_capacity(4 * COLUMNS);
    let mut start = 0;
    while start < points.len() {
        let here = column(points[start].0);
        let length = points[start..].iter().take_while(|(x, _)| column(*x) == here).count().max(1);
        let part = &points[start..start + length];
        let by_y = |a: &usize, b: &usize| part[*a].1.total_cmp(&part[*b].1);
        let measured = || (0..length).filter(|n| part[*n].1.is_finite());
        let least = measured().min_by(by_y).unwrap_or(0);
        let most = measured().max_by(by_y).unwrap_or(0);
        // A value that is not finite leaves a gap behind the last in front of it.
        let gap = (0..length).find(|n| !part[*n].1.is_finite()).unwrap_or(0);
        let mut chosen = [0, least, most, gap, length - 1];
        chosen.sort_unstable();
        for (n, &i) in chosen.iter().enumerate() {
            if n == 0 || chosen[n - 1] != i {
                kept.push(part[i]);
            }
        }
        start += length;
    }
    kept
}
