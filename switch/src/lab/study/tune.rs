//! A search for the best setting in a stated number of runs.
//!
//! The first half of the budget is a Latin hypercube over all ranges; each of the following rounds draws one in a box of half the width around the
//! best so far. The last quarter compares the best with the scenario as it is written, over seeds that the search did not see: what is
//! chosen among many is better by chance too, and that comparison has none of it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::points::{self, Point, Values, latin};
use super::records::Record;
use super::runner::Runner;
use super::{Goal, Study};
use crate::report::{Axis, Column, Layer, Plot, Report, Table, Unit, stats, student};

/// Rounds after the first.
const ROUNDS: u32 = 3;
/// Seeds of the last comparison begin so much later.
const UNSEEN: u64 = 1_000_000;

/// A setting that was tried.
#[derive(Clone, Debug)]
struct Tried {
    parts: Vec<f64>,
    labels: Vec<String>,
    round: u32,
    mean: f64,
}

/// Why a search has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The study has none.
    #[error("a search needs a `goal`: `goal: min FIGURE`")]
    NoGoal,
    /// Of this key.
    #[error("`{0}` has a list of values: a search needs ranges (`from`, `to`)")]
    List(String),
    /// Too few runs.
    #[error(
        "a budget of {budget} runs with {seeds} seeds for each setting is too small: at least {least}"
    )]
    Budget {
        /// Runs that are allowed.
        budget: u32,
        /// Seeds of each setting.
        seeds: u32,
        /// Runs that are needed.
        least: u32,
    },
    /// No setting has the figure with all seeds.
    #[error("no setting could be measured: every run failed")]
    NothingMeasured,
    /// Why one of the runs failed.
    #[error("every run failed, one with: {0}")]
    Failed(String),
    /// Somebody stopped it.
    #[error("stopped: a search that was not finished has no result")]
    Stopped,
}

/// Searches; gives the report.
///
/// # Errors
/// What cannot be searched, or a budget that is too small.
pub fn tune(
    runner: &Runner<'_>,
    budget: u32,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<Report, TuneError> {
    let study = runner.study;
    let goal = study.goal.as_ref().ok_or(TuneError::NoGoal)?;
    if let Some(axis) = study.axes.iter().find(|axis| matches!(axis.values, Values::List(_))) {
        return Err(TuneError::List(axis.key.clone()));
    }
    let seeds = study.seeds.len() as u32;
    let last = (budget / 8).max(2);
    let first = (budget / 2) / seeds;
    let each = budget.saturating_sub(first * seeds + 2 * last) / ROUNDS / seeds;
    if first < 2 || each < 1 {
        return Err(TuneError::Budget { budget, seeds, least: 16 * seeds + 16 });
    }
    let mut tried: Vec<Tried> = Vec::new();
    let mut spent = 0;
    for round in 0..=ROUNDS {
        let count = if round == 0 { first } else { each };
        let width = 0.5f64.powi(round as i32);
        let centre = best(&tried, goal).map(|best| best.parts.clone());
        let drawn =
            latin(study.axes.len(), count as usize, study.seed.wrapping_add(u64::from(round)));
        let parts: Vec<Vec<f64>> =
            drawn.iter().map(|parts| around(parts, centre.as_deref(), width)).collect();
        let settings: Vec<Point> =
            parts.iter().map(|parts| points::point(&study.axes, parts)).collect();
        let means = means(runner, &settings, goal, (&study.seeds, jobs), stop)?;
        spent += count * seeds;
        for ((parts, point), mean) in parts.into_iter().zip(settings).zip(means) {
            tried.push(Tried { parts, labels: point.labels, round, mean });
        }
    }
    let winner = best(&tried, goal).cloned().ok_or(TuneError::NothingMeasured)?;
    let unseen: Vec<u64> =
        (0..u64::from(last)).map(|n| study.seed.wrapping_add(UNSEEN + n)).collect();
    let point = points::point(&study.axes, &winner.parts);
    let tuned = values(runner, &[point], goal, (&unseen, jobs), stop)?.remove(0);
    let plain = Study { axes: Vec::new(), ..study.clone() };
    let plain = Runner { study: &plain, ..runner.clone() };
    let nothing = Point { labels: Vec::new(), nodes: Vec::new() };
    let written = values(&plain, &[nothing], goal, (&unseen, jobs), stop)?.remove(0);
    spent += 2 * last;
    Ok(report(study, goal, (&tried, &winner), (&written, &tuned), (budget, spent)))
}

fn best<'t>(tried: &'t [Tried], goal: &Goal) -> Option<&'t Tried> {
    let measured = tried.iter().filter(|one| one.mean.is_finite());
    measured.min_by(|a, b| goal.cost(a.mean).total_cmp(&goal.cost(b.mean)))
}

/// Parts of all ranges, or of a box around a centre.
fn around(parts: &[f64], centre: Option<&[f64]>, width: f64) -> Vec<f64> {
    let Some(centre) = centre else { return parts.to_vec() };
    let within = |(part, middle): (&f64, &f64)| {
        let low = (middle - width / 2.0).clamp(0.0, 1.0 - width);
        low + part * width
    };
    parts.iter().zip(centre).map(within).collect()
}

/// The goal's figure of each setting, by seed.
fn values(
    runner: &Runner<'_>,
    settings: &[Point],
    goal: &Goal,
    (seeds, jobs): (&[u64], usize),
    stop: &AtomicBool,
) -> Result<Vec<BTreeMap<u64, f64>>, TuneError> {
    let runs: Vec<(usize, &Point, u64)> = settings
        .iter()
        .enumerate()
        .flat_map(|(number, point)| seeds.iter().map(move |seed| (number, point, *seed)))
        .collect();
    let mut found = vec![BTreeMap::new(); settings.len()];
    let mut failed = None;
    runner.all(&runs, jobs, stop, &mut |record: Record| {
        match (record.figures.get(&goal.figure), record.failed) {
            (Some(value), None) => {
                found[record.point].insert(record.seed, *value);
            }
            (_, why) => failed = why.or(failed.take()),
        }
        Ok(())
    })?;
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(TuneError::Stopped);
    }
    match failed.filter(|_| found.iter().all(BTreeMap::is_empty)) {
        Some(why) => Err(TuneError::Failed(why)),
        None => Ok(found),
    }
}

/// Means over all seeds; not a number where a run failed.
fn means(
    runner: &Runner<'_>,
    settings: &[Point],
    goal: &Goal,
    (seeds, jobs): (&[u64], usize),
    stop: &AtomicBool,
) -> Result<Vec<f64>, TuneError> {
    let values = values(runner, settings, goal, (seeds, jobs), stop)?;
    let mean = |of: BTreeMap<u64, f64>| match of.len() == seeds.len() {
        true => stats::mean(&of.into_values().collect::<Vec<_>>()),
        false => f64::NAN,
    };
    Ok(values.into_iter().map(mean).collect())
}

fn report(
    study: &Study,
    goal: &Goal,
    (tried, winner): (&[Tried], &Tried),
    (written, tuned): (&BTreeMap<u64, f64>, &BTreeMap<u64, f64>),
    (budget, spent): (u32, u32),
) -> Report {
    let mut report = Report {
        title: format!("{}: {}", study.name, goal.text()),
        about: study.about.clone(),
        ..Report::default()
    };
    let names = study.axes.iter().zip(&winner.labels);
    let setting: Vec<String> =
        names.map(|(axis, value)| format!("{}: {value}", axis.key)).collect();
    report.fact("best", setting.join(", "));
    report.fact("budget", format!("{spent} of {budget} runs"));
    let both = |of: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>| {
        of.iter()
            .filter(|(seed, _)| other.contains_key(seed))
            .map(|(_, value)| *value)
            .collect::<Vec<_>>()
    };
    let (before, after) = (both(written, tuned), both(tuned, written));
    let difference = student::paired(&before, &after);
    let (old, new) = (stats::mean(&before), stats::mean(&after));
    report.figure("tune.written", old, Unit::Plain);
    report.figure("tune.best", new, Unit::Plain);
    report.figure("tune.change", (new - old) / old.abs(), Unit::Share);
    report.figure("tune.p", difference.p, Unit::Plain);
    report.figure("tune.runs", f64::from(spent), Unit::Count);
    let is_better = goal.cost(new) < goal.cost(old) && difference.p < 0.05;
    let found = format!(
        "{} {} as written, {} tuned: {} +- {}, p {}, over {} seeds that the search did not see",
        goal.figure,
        crate::report::unit::digits(old, 4),
        crate::report::unit::digits(new, 4),
        Unit::Share.show((new - old) / old.abs()),
        Unit::Share.show(difference.half_width / old.abs()),
        crate::report::unit::digits(difference.p, 3),
        before.len()
    );
    report.verdict("better than as written", is_better, found);
    report.tables.push(settings(study, goal, tried));
    let points = tried
        .iter()
        .zip(1..)
        .map(|(one, n)| (f64::from(n), one.mean, one.mean, one.mean))
        .collect();
    report.plots.push(Plot {
        id: "search".to_owned(),
        title: "The search".to_owned(),
        caption: format!("{} of each setting, in the order in which they were tried.", goal.figure),
        x: Axis::new("setting", Unit::Count),
        y: Axis::new(&goal.figure, Unit::Plain),
        layers: vec![Layer::Measured { name: "settings".to_owned(), points }],
    });
    report
}

/// All settings, best first.
fn settings(study: &Study, goal: &Goal, tried: &[Tried]) -> Table {
    let mut columns = vec![Column::numbers("round", Unit::Count)];
    columns.extend(study.axes.iter().map(|axis| Column::words(&axis.key)));
    columns.push(Column::numbers("mean", Unit::Plain));
    let mut ranked: Vec<&Tried> = tried.iter().collect();
    ranked.sort_by(|a, b| {
        let cost =
            |one: &Tried| if one.mean.is_finite() { goal.cost(one.mean) } else { f64::INFINITY };
        cost(a).total_cmp(&cost(b))
    });
    let rows = ranked.iter().map(|one| {
        let mut row = vec![u64::from(one.round + 1).into()];
        row.extend(one.labels.iter().map(|label| label.clone().into()));
        row.push(one.mean.into());
        row
    });
    let note = "Best first; of the first round over all ranges, then in boxes of half the width around the best so far.".to_owned();
    Table { title: "Settings tried".to_owned(), note, columns, rows: rows.collect() }
}
