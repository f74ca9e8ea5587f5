//! Reports: one model of measurements, and its output formats.
//!
//! A [`Report`] is plain data: figures with names and units, verdicts, tables, plots, time series. The source of the
//! measurements (the laboratory, the demonstration) fills it; [`text`], [`json`], [`csv`], [`parquet`] and [`html`]
//! write it, independent of that source. Values are in base units (bytes, bit/s, seconds, shares of one); only the
//! formats choose KB or %. Nothing here reads a clock or a file, so the same measurements result in the same bytes.

pub mod csv;
pub mod expect;
pub mod html;
pub mod json;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod plot;
pub mod stats;
pub mod student;
pub mod svg;
pub mod text;
pub mod unit;

pub use plot::{Axis, Diagram, HeatMap, Layer, Plot, Row, Timeline};
pub use unit::Unit;

/// A number that an expectation can refer to: `bottleneck.queue_mean`.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Words with dots between, unique in a report.
    pub name: String,
    /// The value in the base unit; NaN if not measured.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// A check or an expectation, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The check, or the condition.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// It could not be judged: it neither passed nor failed.
    pub skipped: bool,
    /// The result, with the numbers; or why it was not judged.
    pub found: String,
}

impl Verdict {
    /// True if it was judged and failed.
    pub fn failed(&self) -> bool {
        !self.passed && !self.skipped
    }
}

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word.
    Text(String),
    /// A number in the unit of its column.
    Number(f64),
    /// Empty.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The unit of its numbers; `None` for a column of words.
    pub unit: Option<Unit>,
}

impl Column {
    /// A column of words.
    pub fn words(name: &str) -> Column {
        Column { name: name.to_owned(), unit: None }
    }

    /// A column of numbers.
    pub fn numbers(name: &str, unit: Unit) -> Column {
        Column { name: name.to_owned(), unit: Some(unit) }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Remarks for the reader; may be empty.
    pub note: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows; `note` may be empty.
    pub fn new(title: impl Into<String>, note: impl Into<String>, columns: Vec<Column>) -> Table {
        Table { title: title.into(), note: note.into(), columns, rows: Vec::new() }
    }

    /// The text of a cell, `-` if it is empty.
    pub fn shown(&self, row: usize, column: usize) -> String {
        match self.rows.get(row).and_then(|cells| cells.get(column)) {
            Some(Cell::Text(text)) => text.clone(),
            Some(Cell::Number(number)) if number.is_finite() => {
                let unit = self.columns.get(column).and_then(|column| column.unit);
                unit.unwrap_or(Unit::Plain).show(*number)
            }
            _ => "-".to_owned(),
        }
    }
}

/// A quantity sampled over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Words with dots between, unique in a report: `queue.s1.2.3.bytes`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// One value for each sample instant of the report; NaN where there is none.
    pub values: Vec<f64>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The title of the run.
    pub title: String,
    /// Its description, in a paragraph or two.
    pub about: String,
    /// The data needed to repeat the run: seed, build, parameters.
    pub facts: Vec<(String, String)>,
    /// Figures, in the order of report.
    pub figures: Vec<Figure>,
    /// Names of figures with another meaning for each seed: they are neither combined nor compared.
    pub drawn: Vec<String>,
    /// Checks, then expectations.
    pub verdicts: Vec<Verdict>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Rows of intervals over time.
    pub timelines: Vec<Timeline>,
    /// Maps over two keys.
    pub heat_maps: Vec<HeatMap>,
    /// Pictures of networks, before all others.
    pub diagrams: Vec<Diagram>,
    /// Instants of the samples, in seconds.
    pub sample_times: Vec<f64>,
    /// The sampled series.
    pub series: Vec<Series>,
}

impl Report {
    /// Adds a figure.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: Unit) {
        self.figures.push(Figure { name: name.into(), value, unit });
    }

    /// The figure of this name.
    pub fn find(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.to_owned(), value.into()));
    }

    /// Adds a verdict.
    pub fn verdict(&mut self, name: impl Into<String>, passed: bool, found: impl Into<String>) {
        let (name, found) = (name.into(), found.into());
        self.verdicts.push(Verdict { name, passed, skipped: false, found });
    }

    /// Adds a verdict that could not be judged.
    pub fn skip(&mut self, name: impl Into<String>, why: impl Into<String>) {
        let (name, found) = (name.into(), why.into());
        self.verdicts.push(Verdict { name, passed: false, skipped: true, found });
    }

    /// True when no check and no expectation fails.
    pub fn passed(&self) -> bool {
        !self.verdicts.iter().any(Verdict::failed)
    }

    /// The outcome of all verdicts in a sentence.
    pub fn headline(&self) -> String {
        let failed = self.verdicts.iter().filter(|verdict| verdict.failed()).count();
        let skipped = self.verdicts.iter().filter(|verdict| verdict.skipped).count();
        let all = self.verdicts.len();
        match (failed, skipped) {
            (0, 0) => "All checks and expectations hold".to_owned(),
            (0, n) => {
                format!("{n} of {all} checks and expectations were not judged, the others hold")
            }
            (n, 0) => format!("{n} of {all} checks and expectations fail"),
            (n, m) => format!("{n} of {all} checks and expectations fail, {m} were not judged"),
        }
    }
}

#[cfg(test)]
mod tests;
