//! Two result folders side by side: which figures differ, by how much, and whether that is significant.
//!
//! A folder has one run, or one of many seeds (`seeds.csv`). If both have two seeds in common, the runs of these are
//! compared in pairs, which removes the common effect of the seed; otherwise all of them as two samples. Of many figures
//! some differ by chance: Holm's procedure over those that differ decides which are significant.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::folder::{FileError, Folder};
use crate::report::student::{self, Difference};
use crate::report::{Axis, Column, Layer, Plot, Report, Table, Unit, stats};
use wireyard_pipeline::diag::safe::shown;

/// Most bytes of a file of results.
const BYTES_MAX: u64 = 256 << 20;

/// A folder that holds no results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// There is no such folder.
    #[error("{}: no folder of results (`wireyard lab ... -o DIR` writes one)", shown(.0))]
    NoFolder(PathBuf),
    /// It has no file of results.
    #[error("{}: neither seeds.csv nor report.json is there", shown(.0))]
    NoResults(PathBuf),
    /// Its `seeds.csv` is something else.
    #[error("{}/seeds.csv: not a table of seeds", shown(.0))]
    NotSeeds(PathBuf),
    /// Its `report.json` has another format.
    #[error("{}/report.json: not the report of a run; of a study, compare folders that `wireyard lab SCENARIO -o DIR` wrote", shown(.0))]
    NotReport(PathBuf),
    /// The operating system's error.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The figures of a folder: by name, the unit and a value for each seed.
struct Results {
    name: String,
    seeds: Vec<String>,
    figures: Vec<(String, Unit, Vec<f64>)>,
    folder: Folder,
    /// Each run has a folder of its own.
    is_sweep: bool,
}

impl Results {
    /// Leaves out the runs of other seeds; returns those.
    fn keep(&mut self, seeds: &[String]) -> Vec<String> {
        let place = |seed: &String| self.seeds.iter().position(|known| known == seed);
        let places: Vec<usize> = seeds.iter().filter_map(place).collect();
        for (_, _, values) in &mut self.figures {
            *values = places.iter().map(|place| values[*place]).collect();
        }
        let all = std::mem::replace(&mut self.seeds, seeds.to_vec());
        all.into_iter().filter(|seed| !seeds.contains(seed)).collect()
    }

    /// `Slowdown by size` of the first run: bytes, p50 and p99.
    fn by_size(&self) -> Vec<(f64, f64, f64)> {
        let run = match (self.is_sweep, self.seeds.first()) {
            (true, Some(seed)) => format!("seed-{seed}/"),
            _ => String::new(),
        };
        let text = self.folder.read(&format!("{run}tables/slowdown-by-size.csv"), BYTES_MAX);
        text.map(|text| points(&text)).unwrap_or_default()
    }
}

/// Leaves out the runs whose seed the other has not, if two or more have; returns whether the runs are pairs.
fn pair(a: &mut Results, b: &mut Results, report: &mut Report) -> bool {
    let common: Vec<String> =
        a.seeds.iter().filter(|seed| b.seeds.contains(seed)).cloned().collect();
    if a.seeds == b.seeds || common.len() < 2 {
        return a.seeds == b.seeds;
    }
    let left = [("A", a.keep(&common)), ("B", b.keep(&common))];
    let left = left.iter().filter(|(_, seeds)| !seeds.is_empty());
    let left: Vec<String> =
        left.map(|(letter, seeds)| format!("seed {} of {letter}", seeds.join(", "))).collect();
    if !left.is_empty() {
        report.fact("left out", format!("{}: the other has no such run", left.join(" and ")));
    }
    true
}

/// The comparison of two folders.
///
/// # Errors
/// A path that is not a folder of results.
pub fn compare(a: &Path, b: &Path) -> Result<Report, CompareError> {
    let (mut a, mut b) = (read(a)?, read(b)?);
    let mut report = Report { title: format!("{} and {}", a.name, b.name), ..Report::default() };
    report.fact("A", format!("{}, {} runs", a.name, a.seeds.len()));
    report.fact("B", format!("{}, {} runs", b.name, b.seeds.len()));
    let paired = pair(&mut a, &mut b, &mut report);
    let how = match (paired, a.seeds.len().min(b.seeds.len())) {
        (_, 0 | 1) => "one run says nothing of chance: give both folders several seeds (`--seeds`)",
        (true, _) => "runs with the same seed in pairs (Student's t)",
        (false, _) => "two samples, because no two seeds are in both (Welch's t)",
    };
    report.fact("how", how);
    let known: BTreeMap<&str, &(String, Unit, Vec<f64>)> =
        b.figures.iter().map(|figure| (figure.0.as_str(), figure)).collect();
    let (mut rows, mut chances) = (Vec::new(), Vec::new());
    for (name, unit, first) in &a.figures {
        let Some((_, _, second)) = known.get(name.as_str()) else { continue };
        let (first, second) = measured(first, second, paired);
        let difference = difference(&first, &second, paired);
        let means = (stats::mean(&first), stats::mean(&second));
        if !means.0.is_finite() || !means.1.is_finite() {
            continue;
        }
        // Most figures that are the same in both are settings and counts of what cannot happen, about which there is no
        // question.
        if means.0 != means.1 || difference.p < 1.0 {
            rows.push((name, *unit, means, difference, (first.len(), second.len())));
            chances.push(if difference.p.is_nan() { 1.0 } else { difference.p });
        }
    }
    let counts = student::holm(&chances);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|place| (!counts[*place], *place));
    let mut table = table();
    for place in order {
        let (name, unit, means, difference, runs) = &rows[place];
        let relative = |value: f64| value / means.0.abs();
        table.rows.push(vec![
            (*name).clone().into(),
            unit.show_mean(means.0).into(),
            unit.show_mean(means.1).into(),
            relative(means.1 - means.0).into(),
            relative(difference.half_width).into(),
            difference.p.into(),
            if counts[place] { "yes" } else { "no" }.into(),
            match (paired, *runs) {
                (true, (pairs, _)) => pairs.to_string(),
                (false, (a, b)) => format!("{a}, {b}"),
            }
            .into(),
        ]);
    }
    if rows.is_empty() {
        table.note = "No figure differs.".to_owned();
    }
    let significant = counts.iter().filter(|counts| **counts).count();
    report.figure("compare.figures", rows.len() as f64, Unit::Count);
    report.figure("compare.significant", significant as f64, Unit::Count);
    report.tables.push(table);
    report.plots.extend(by_size(&a, &b));
    Ok(report)
}

fn table() -> Table {
    Table::new(
        "Differences",
        "B against A, as a part of A; the interval is that of the difference, 95 %. Significant: Holm's procedure at 5 % over the figures shown, \
         so that a chance difference among them is as rare as that. Fewer than 5 runs that all differ by the same have no p: their \
         variance is not known. Runs: those that have the figure, of pairs those in which both have it; all \
         numbers of a row are of these. Figures that are the same in both are left out.",
        vec![
            Column::words("figure"),
            Column::words("A"),
            Column::words("B"),
            Column::numbers("difference", Unit::Share),
            Column::numbers("+-", Unit::Share),
            Column::numbers("p", Unit::Plain),
            Column::words("significant"),
            Column::words("runs"),
        ],
    )
}

/// The values that are compared: of pairs those in which both are measured.
fn measured(a: &[f64], b: &[f64], paired: bool) -> (Vec<f64>, Vec<f64>) {
    let is_measured = |value: &f64| value.is_finite();
    match paired {
        true => {
            let pairs = a.iter().copied().zip(b.iter().copied());
            pairs.filter(|(a, b)| is_measured(a) && is_measured(b)).unzip()
        }
        false => {
            let [a, b] = [a, b].map(|all| all.iter().copied().filter(is_measured).collect());
            (a, b)
        }
    }
}

fn difference(a: &[f64], b: &[f64], paired: bool) -> Difference {
    match (a.len().min(b.len()), paired) {
        (0 | 1, _) => Difference { mean: f64::NAN, half_width: f64::NAN, p: f64::NAN },
        (_, true) => student::paired(a, b),
        (_, false) => student::independent(a, b),
    }
}

fn by_size(a: &Results, b: &Results) -> Option<Plot> {
    let (a, b) = (a.by_size(), b.by_size());
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut layers = Vec::new();
    let mut all = (Vec::new(), Vec::new());
    for (letter, of) in [("A", &a), ("B", &b)] {
        let p50 = of.iter().map(|point| (point.0, point.1)).collect();
        let p99 = of.iter().map(|point| (point.0, point.2)).collect();
        layers.push(Layer::Line { name: format!("{letter} p50"), points: p50 });
        layers.push(Layer::Line { name: format!("{letter} p99"), points: p99 });
        all.0.extend(of.iter().map(|point| point.0));
        all.1.extend(of.iter().flat_map(|point| [point.1, point.2]));
    }
    Some(Plot {
        id: "slowdown-by-size".to_owned(),
        title: "Slowdown by size of the flow".to_owned(),
        caption: "How many times longer flows take than on an empty network, by their size, of the first run of both.".to_owned(),
        x: Axis::fitting("size up to", Unit::Bytes, &all.0),
        y: Axis::fitting("slowdown", Unit::Plain, &all.1),
        layers,
    })
}

fn read(path: &Path) -> Result<Results, CompareError> {
    if !path.is_dir() {
        return Err(CompareError::NoFolder(path.to_owned()));
    }
    let folder = Folder::make(path)?;
    let name = shown(path).into_owned();
    let (seeds, figures, is_sweep) = match folder.read("seeds.csv", BYTES_MAX) {
        Some(text) => {
            let not_seeds = || CompareError::NotSeeds(path.to_owned());
            let (seeds, figures) = of_seeds(&text).ok_or_else(not_seeds)?;
            (seeds, figures, true)
        }
        None => {
            let text = folder.read("report.json", BYTES_MAX);
            let text = text.ok_or_else(|| CompareError::NoResults(path.to_owned()))?;
            let not_report = || CompareError::NotReport(path.to_owned());
            let (seed, figures) = of_report(&text).ok_or_else(not_report)?;
            (vec![seed], figures, false)
        }
    };
    Ok(Results { name, seeds, figures, folder, is_sweep })
}

type Figures = Vec<(String, Unit, Vec<f64>)>;

fn of_seeds(text: &str) -> Option<(Vec<String>, Figures)> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.split(',').collect();
    let seeds: Vec<String> =
        head.iter().filter_map(|cell| Some(cell.strip_prefix("seed ")?.to_owned())).collect();
    if head.first() != Some(&"figure") || seeds.is_empty() {
        return None;
    }
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let values = cells.get(2..2 + seeds.len())?;
        let values = values.iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        Some((cells[0].to_owned(), Unit::by_name(cells[1])?, values))
    };
    let figures = lines.map(row).collect::<Option<Figures>>()?;
    Some((seeds, figures))
}

fn of_report(text: &str) -> Option<(String, Figures)> {
    let report: Value = serde_json::from_str(text).ok()?;
    let seed = report["facts"]["seed"].as_str()?.to_owned();
    let drawn = report["drawn"].as_array().map_or(&[][..], Vec::as_slice);
    let all = report["figures"].as_object()?.iter();
    let all = all.filter(|(name, _)| !drawn.iter().any(|drawn| drawn == name.as_str()));
    let figures = all.map(|(name, figure)| {
        let unit = Unit::by_name(figure["unit"].as_str()?)?;
        Some((name.clone(), unit, vec![figure["value"].as_f64().unwrap_or(f64::NAN)]))
    });
    Some((seed, figures.collect::<Option<Figures>>()?))
}

/// Bytes, p50 and p99 of a table `Slowdown by size`.
fn points(text: &str) -> Vec<(f64, f64, f64)> {
    let row = |line: &str| {
        let cells: Vec<f64> =
            line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        Some((*cells.first()?, *cells.get(2)?, *cells.get(4)?))
    };
    text.lines().skip(1).filter_map(row).collect()
}
