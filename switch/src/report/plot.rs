//! Pictures as data, independent of their drawing.

use super::Unit;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Where it must begin, if not at the least value.
    pub from: Option<f64>,
    /// Where it must end, if not at the largest value.
    pub to: Option<f64>,
    /// Equal ratios are equally far apart; only for values above zero.
    pub is_logarithmic: bool,
}

impl Axis {
    /// An axis as wide as the values.
    pub fn new(name: &str, unit: Unit) -> Axis {
        Axis { name: name.to_owned(), unit, from: None, to: None, is_logarithmic: false }
    }

    /// An axis that begins at zero.
    pub fn from_zero(name: &str, unit: Unit) -> Axis {
        Axis { from: Some(0.0), ..Axis::new(name, unit) }
    }

    /// An axis for these values: logarithmic where the largest is many times the smallest, otherwise from zero.
    pub fn fitting(name: &str, unit: Unit, values: &[f64]) -> Axis {
        const MANY: f64 = 30.0;
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let least = finite().fold(f64::INFINITY, f64::min);
        let most = finite().fold(0.0, f64::max);
        match least > 0.0 && most >= MANY * least {
            true => Axis { is_logarithmic: true, ..Axis::new(name, unit) },
            false => Axis::from_zero(name, unit),
        }
    }
}

/// Something drawn over the axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// Points joined by straight lines; a NaN leaves a gap.
    Line {
        /// Name in the legend.
        name: String,
        /// Points in order of x.
        points: Vec<(f64, f64)>,
    },
    /// Points joined by steps: each value holds until the next.
    Steps {
        /// Name in the legend.
        name: String,
        /// Points in order of x.
        points: Vec<(f64, f64)>,
    },
    /// A reference, drawn dashed.
    Reference {
        /// Name in the legend.
        name: String,
        /// Points in order of x.
        points: Vec<(f64, f64)>,
    },
    /// The area between two curves, as of the middle nine tenths of many lines.
    Band {
        /// Name in the legend.
        name: String,
        /// (x, low, high) in order of x; a NaN leaves a gap.
        points: Vec<(f64, f64, f64)>,
    },
    /// Measured values with their intervals.
    Measured {
        /// Name in the legend.
        name: String,
        /// (x, low, value, high) in order of x.
        points: Vec<(f64, f64, f64, f64)>,
    },
}

impl Layer {
    /// Name in the legend.
    pub fn name(&self) -> &str {
        match self {
            Layer::Line { name, .. }
            | Layer::Steps { name, .. }
            | Layer::Reference { name, .. }
            | Layer::Band { name, .. }
            | Layer::Measured { name, .. } => name,
        }
    }
}

/// Curves over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Name for links and files: letters, digits, dashes.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The caption; may be empty.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The layers, back to front.
    pub layers: Vec<Layer>,
}

/// A row of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the row.
    pub name: String,
    /// (begin, end, share of it in which the state was active), in order; seconds.
    pub spans: Vec<(f64, f64, f64)>,
}

/// Periods of states: one row for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Name for links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The caption; may be empty.
    pub caption: String,
    /// Begin and end of the time axis, seconds.
    pub range: (f64, f64),
    /// The rows.
    pub rows: Vec<Row>,
}

/// A value for each pair of two keys' values.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Name for links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The caption; may be empty.
    pub caption: String,
    /// The key across, and its values.
    pub x: (String, Vec<String>),
    /// The key down, and its values.
    pub y: (String, Vec<String>),
    /// Unit of the values.
    pub unit: Unit,
    /// Rows of cells; NaN without a measurement.
    pub cells: Vec<Vec<f64>>,
}

/// Nodes in layers, and the links between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// Name for links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The caption; may be empty.
    pub caption: String,
    /// Rows of node names, from top to bottom.
    pub layers: Vec<Vec<String>>,
    /// Links by the names of their ends, and whether it is the link under test.
    pub links: Vec<(String, String, bool)>,
}
