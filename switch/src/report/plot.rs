//! Pictures as data: what is drawn, not how.

use super::Unit;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Where it must begin, if not at the least value.
    pub from: Option<f64>,
    /// Where it must end, if not at the largest value.
    pub to: Option<f64>,
}

impl Axis {
    /// An axis as wide as the values.
    pub fn new(name: &str, unit: Unit) -> Axis {
        Axis { name: name.to_owned(), unit, from: None, to: None }
    }

    /// An axis that begins at zero.
    pub fn from_zero(name: &str, unit: Unit) -> Axis {
        Axis { from: Some(0.0), ..Axis::new(name, unit) }
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
    /// What to see in it; may be empty.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, back to front.
    pub layers: Vec<Layer>,
}

/// A row of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is about.
    pub name: String,
    /// (begin, end, share of it in which the thing was so), in order; seconds.
    pub spans: Vec<(f64, f64, f64)>,
}

/// When things were so: one row for each thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Name for links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What to see in it; may be empty.
    pub caption: String,
    /// Begin and end of the time axis, seconds.
    pub range: (f64, f64),
    /// The rows.
    pub rows: Vec<Row>,
}
