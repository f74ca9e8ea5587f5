//! The settings of a study: all combinations, or points drawn from them.

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::source::node::Node;

use crate::lab::workload::sizes::{below, uniform};
use crate::report::unit::digits;
use crate::tm::random::Stream;
use crate::units;

/// Purpose of the streams that draw points, with the number of the axis.
const POINTS: u64 = 0x706f_696e << 32;

/// A key that varies.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Path in the scenario.
    pub key: String,
    /// Its parts, with their places.
    pub path: Vec<Sp<String>>,
    /// Its values.
    pub values: Values,
}

/// Values of a key.
#[derive(Clone, Debug)]
pub enum Values {
    /// These.
    List(Vec<Node>),
    /// A range.
    Range(Range),
}

/// A range of numbers with one unit.
#[derive(Clone, Debug)]
pub struct Range {
    /// First and last.
    pub ends: (f64, f64),
    /// The unit after the number.
    pub unit: String,
    /// Even ratios instead of even steps.
    pub is_logarithmic: bool,
    /// Whole numbers only: the key takes no others.
    pub is_whole: bool,
    /// Points of a grid.
    pub steps: u32,
    /// Its place in the file; errors of its values are shown there.
    pub place: Node,
}

impl Range {
    /// The value at a part of the range, as text of a scenario.
    pub fn at(&self, part: f64) -> String {
        let (from, to) = self.ends;
        let value = match self.is_logarithmic {
            true => from * (to / from).powf(part),
            false => from + (to - from) * part,
        };
        self.text(if self.is_whole { format!("{value:.0}") } else { digits(value, 4) })
    }

    fn text(&self, number: String) -> String {
        if self.unit.is_empty() { number } else { units::rounded(&number, &self.unit) }
    }

    /// The same as a node at the place of the range.
    pub fn node(&self, part: f64) -> Node {
        self.node_of(self.at(part))
    }

    /// Some numbers inside of it, as nodes: those that are whole, and those that are not.
    pub fn probes(&self) -> [Vec<Node>; 2] {
        let (from, to) = self.ends;
        let (low, high) = (from.min(to), from.max(to));
        let whole = [low.ceil(), ((low + high) / 2.0).round(), high.floor()];
        let whole = whole.into_iter().filter(|value| (low..=high).contains(value));
        let inside = [0.1, 0.3, 0.5, 0.7, 0.9].map(|part| low + (high - low) * part);
        let apart = |value: f64| if value.fract() == 0.0 { value + 0.5 } else { value };
        let inside = inside.into_iter().map(apart).filter(|value| low < *value && *value < high);
        let node = |value: f64| self.node_of(self.text(value.to_string()));
        [whole.map(node).collect(), inside.map(node).collect()]
    }

    fn node_of(&self, text: String) -> Node {
        let mut node = self.place.clone();
        node.kind = wireyard_pipeline::source::node::NodeKind::Scalar(
            wireyard_pipeline::source::node::Scalar { text, start: None, plain: true, flow: false },
        );
        node
    }
}

/// The choice of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Every combination of lists and steps.
    Grid,
    /// This many points, each key drawn independently.
    Random(u32),
    /// This many points, with one in each of as many parts of each key (McKay, Beckman, Conover 1979).
    LatinHypercube(u32),
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Point {
    /// Values by axis, as words.
    pub labels: Vec<String>,
    /// Values by axis.
    pub nodes: Vec<Node>,
}

/// The words of a value.
pub fn label(node: &Node, place: usize) -> String {
    node.text().map_or_else(|| format!("#{}", place + 1), |text| text.text.to_owned())
}

fn value(axis: &Axis, part: f64) -> (String, Node) {
    match &axis.values {
        Values::List(nodes) => {
            let place = ((part * nodes.len() as f64) as usize).min(nodes.len() - 1);
            (label(&nodes[place], place), nodes[place].clone())
        }
        Values::Range(range) => (range.at(part), range.node(part)),
    }
}

/// A point from a part of each axis.
pub fn point(axes: &[Axis], parts: &[f64]) -> Point {
    let (labels, nodes) = axes.iter().zip(parts).map(|(axis, part)| value(axis, *part)).unzip();
    Point { labels, nodes }
}

/// Values of an axis in a grid.
fn steps(axis: &Axis) -> Vec<(String, Node)> {
    match &axis.values {
        Values::List(nodes) => nodes
            .iter()
            .enumerate()
            .map(|(place, node)| (label(node, place), node.clone()))
            .collect(),
        Values::Range(range) => {
            let last = f64::from((range.steps - 1).max(1));
            let part = |n: u32| f64::from(n) / last;
            let mut steps: Vec<(String, Node)> =
                (0..range.steps).map(|n| (range.at(part(n)), range.node(part(n)))).collect();
            // A narrow range has fewer whole numbers than steps.
            steps.dedup_by(|one, before| one.0 == before.0);
            steps
        }
    }
}

/// Points of a grid, computed before they are created.
pub fn count(axes: &[Axis], sample: Sample) -> u64 {
    let of = |axis: &Axis| match &axis.values {
        Values::List(nodes) => nodes.len() as u64,
        Values::Range(range) => u64::from(range.steps),
    };
    match sample {
        Sample::Grid => axes.iter().map(of).fold(1, u64::saturating_mul),
        Sample::Random(count) | Sample::LatinHypercube(count) => count.into(),
    }
}

/// All points.
pub fn all(axes: &[Axis], sample: Sample, seed: u64) -> Vec<Point> {
    match sample {
        Sample::Grid => {
            let mut points = vec![Point { labels: Vec::new(), nodes: Vec::new() }];
            for axis in axes {
                let steps = steps(axis);
                let with = |point: &Point, step: &(String, Node)| {
                    let mut point = point.clone();
                    point.labels.push(step.0.clone());
                    point.nodes.push(step.1.clone());
                    point
                };
                points = points
                    .iter()
                    .flat_map(|point| {
                        steps.iter().map(|step| with(point, step)).collect::<Vec<_>>()
                    })
                    .collect();
            }
            points
        }
        Sample::Random(count) => {
            let mut streams: Vec<Stream> = streams(axes.len(), seed);
            (0..count)
                .map(|_| point(axes, &streams.iter_mut().map(uniform).collect::<Vec<_>>()))
                .collect()
        }
        Sample::LatinHypercube(count) => {
            latin(axes.len(), count as usize, seed).iter().map(|parts| point(axes, parts)).collect()
        }
    }
}

fn streams(axes: usize, seed: u64) -> Vec<Stream> {
    (0..axes as u64).map(|axis| Stream::new(seed, POINTS + axis)).collect()
}

/// Parts of each axis for each of `count` points.
pub fn latin(axes: usize, count: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut points = vec![Vec::with_capacity(axes); count];
    for mut stream in streams(axes, seed) {
        let mut order: Vec<usize> = (0..count).collect();
        for n in (1..count).rev() {
            order.swap(n, below(&mut stream, n + 1));
        }
        for (point, place) in points.iter_mut().zip(order) {
            point.push((place as f64 + uniform(&mut stream)) / count as f64);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latin_hypercube_has_one_point_in_each_part_of_each_axis() {
        let points = latin(3, 20, 7);
        for axis in 0..3 {
            let mut parts: Vec<usize> =
                points.iter().map(|point| (point[axis] * 20.0) as usize).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..20).collect::<Vec<_>>());
        }
        assert_eq!(points, latin(3, 20, 7));
        assert_ne!(points, latin(3, 20, 8));
    }
}
