//! Studies: one scenario with many settings, many seeds, on many processors or machines.
//!
//! A study names a scenario, keys of it that vary, and how points are chosen among their values; every point runs with
//! every seed. The points follow from the study alone, so a run that was killed can be resumed, parts of it can run on
//! different machines, and the report is the same bytes whichever machine computed each run. A run that fails is a
//! result too: it is listed, and the others continue.
//!
//! * [`read`]: the file. [`points`]: its settings. `change`: replaces keys of a scenario.
//! * [`runner`]: runs, several at a time. [`records`]: the stored results of each, and the merge of parts.
//! * [`summary`]: the report. [`tune`]: a search for the best setting. [`cluster`]: job arrays.

pub(super) mod change;
pub mod cluster;
pub mod points;
pub mod read;
pub mod records;
pub mod runner;
pub mod summary;
pub mod tune;

use std::path::PathBuf;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::Files;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::Node;

pub use points::{Axis, Point, Sample};

/// Smaller or larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smaller.
    Min,
    /// Larger.
    Max,
}

/// A figure and its direction or target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The figure.
    pub figure: String,
    /// Which direction is better.
    pub direction: Direction,
}

impl Goal {
    /// `min flows.slowdown_p99`.
    pub fn parse(text: &str) -> Option<Goal> {
        let (word, figure) = text.split_once(' ')?;
        let direction = match word {
            "min" => Direction::Min,
            "max" => Direction::Max,
            _ => return None,
        };
        let figure = figure.trim().to_owned();
        (!figure.is_empty()).then_some(Goal { figure, direction })
    }

    /// As it is written.
    pub fn text(&self) -> String {
        let word = if self.direction == Direction::Min { "min" } else { "max" };
        format!("{word} {}", self.figure)
    }

    /// The cost of a value: less is better, whatever the direction.
    pub fn cost(&self, value: f64) -> f64 {
        if self.direction == Direction::Min { value } else { -value }
    }
}

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// Its question.
    pub about: String,
    /// Its file.
    pub path: PathBuf,
    /// The scenario's file.
    pub scenario: PathBuf,
    /// Keys that vary.
    pub axes: Vec<Axis>,
    /// The choice of points.
    pub sample: Sample,
    /// Seed of the random points, and of the first run of each point.
    pub seed: u64,
    /// Runs of each point.
    pub seeds: Vec<u64>,
    /// Figures that the report shows.
    pub figures: Vec<String>,
    /// The criterion of the best setting.
    pub goal: Option<Goal>,
    /// Two goals that conflict.
    pub pareto: Vec<Goal>,
    /// By figure: its place in the file.
    pub places: Vec<SourceSpan>,
    /// The points.
    pub points: Vec<Point>,
    /// The study's and the scenario's files, for messages.
    pub files: Files,
    /// A hash of everything that determines results: files and version.
    pub fingerprint: String,
    /// The files on the disk that a run reads, each with a hash.
    pub sources: Vec<(PathBuf, String)>,
}

/// A file of a study that changed while it ran.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: it changed while the study ran, and results of two versions do not belong together: run the study again in \
     another folder, or put the file back", shown(.0)
)]
pub struct Changed(pub PathBuf);

impl Study {
    /// The first of its files that is another than at the start: each run reads them again.
    pub fn changed(&self) -> Option<Changed> {
        let is_other =
            |(path, mark): &&(PathBuf, String)| read::of_file(path).as_ref() != Some(mark);
        self.sources.iter().find(is_other).map(|(path, _)| Changed(path.clone()))
    }

    /// All runs, in their order: point and seed.
    pub fn runs(&self) -> Vec<(usize, u64)> {
        let of = |point: usize| self.seeds.iter().map(move |seed| (point, *seed));
        (0..self.points.len()).flat_map(of).collect()
    }

    /// The keys to replace in the scenario of a point, with their values.
    pub fn changes(&self, point: &Point) -> Vec<(Vec<Sp<String>>, Node)> {
        let keys = self.axes.iter().map(|axis| axis.path.clone());
        keys.zip(point.nodes.iter().cloned()).collect()
    }
}
