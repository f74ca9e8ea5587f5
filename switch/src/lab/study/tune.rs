//! A search for the best setting in a stated number of runs.
//!
//! The first half of the budget is a Latin hypercube over all ranges; each of the following rounds draws one in a box
//! of half the width around the best so far. The last quarter compares the best with the unchanged scenario, over seeds
//! that the search did not use: the best of many is partly so by chance, which that comparison excludes.
//!
//! Keys with a list of values are not searched: they are the conditions under which a setting must be good. Each
//! setting runs under all of them, and its value is the mean of its ratios to the unchanged scenario under the same
//! condition with the same seed.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use super::points::{self, Axis as Key, Point, Sample, Values, latin};
use super::records::Record;
use super::runner::Runner;
use super::{Goal, Study};
use crate::report::unit::digits;
use crate::report::{Axis, Cell, Column, Layer, Plot, Report, Table, Unit, stats, student};

/// Rounds after the first.
const ROUNDS: u32 = 3;
/// Offset of the seeds of the last comparison.
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
    /// All keys have lists.
    #[error("no key has a range (`from`, `to`): there is nothing to search")]
    NoRange,
    /// The denominator of ratios is zero, for this figure.
    #[error("`{0}` is 0 under one of the conditions as it is written: no ratio to it can be taken")]
    Zero(String),
    /// The scenario as it is written has no such figure under a condition.
    #[error(
        "the scenario as it is written has no `{figure}` under {condition}: no setting can be compared with it there; \
         let it run longer, or leave the condition out"
    )]
    NotWritten {
        /// The figure.
        figure: String,
        /// The condition.
        condition: String,
    },
    /// Too few runs.
    #[error(
        "a budget of {budget} runs with {runs} runs for each setting (seeds and conditions) is too small: at least {least}"
    )]
    Budget {
        /// Runs that are allowed.
        budget: u32,
        /// Runs of each setting.
        runs: u32,
        /// Runs that are needed.
        least: u32,
    },
    /// The scenario as it is written has no such figure at all.
    #[error(
        "the scenario as it is written has no `{0}`: no setting can be compared with it; let it run longer"
    )]
    NothingWritten(String),
    /// Too many combinations of the values of lists.
    #[error(
        "{conditions} conditions, all combinations of the listed values, with a budget of {budget} runs: list fewer values"
    )]
    Conditions {
        /// Combinations.
        conditions: u64,
        /// Runs that are allowed.
        budget: u32,
    },
    /// No setting has the figure with all seeds.
    #[error("no setting has the figure in all of its runs: let it run longer")]
    NothingMeasured,
    /// Why one of the runs failed.
    #[error("nothing could be measured; one run failed with: {0}")]
    Failed(String),
    /// A file of the study changed.
    #[error(transparent)]
    Changed(#[from] super::Changed),
    /// It was stopped.
    #[error("stopped: a search that was not finished has no result")]
    Stopped,
}

/// Values of the goal's figure by condition and seed.
type Measured = BTreeMap<(usize, u64), f64>;

/// A study in the form of a search: the keys with lists come first.
struct Search<'r> {
    runner: &'r Runner<'r>,
    goal: &'r Goal,
    /// Keys with lists.
    lists: &'r [Key],
    /// Keys that are searched.
    keys: &'r [Key],
    /// Values of the keys with lists; one without values if there is no such key.
    conditions: Vec<Point>,
    /// The unit of the goal's figure, from the first run that has it.
    unit: OnceLock<Unit>,
    jobs: usize,
    stop: &'r AtomicBool,
    /// Called after each run.
    ran: &'r (dyn Fn() + Sync),
}

/// The division of the budget.
struct Shares {
    /// Settings of the first round.
    first: u32,
    /// Settings of each later round.
    each: u32,
    /// Seeds of the last comparison.
    last: u32,
    /// Runs of a setting.
    runs: u32,
}

/// Searches; returns the report. Calls `ran` after each run.
///
/// # Errors
/// A study that cannot be searched, or a budget that is too small.
pub fn tune(
    runner: &Runner<'_>,
    budget: u32,
    jobs: usize,
    stop: &AtomicBool,
    ran: &(dyn Fn() + Sync),
) -> Result<Report, TuneError> {
    let goal = runner.study.goal.as_ref().ok_or(TuneError::NoGoal)?;
    let is_list = |axis: &Key| matches!(axis.values, Values::List(_));
    let (lists, keys): (Vec<Key>, Vec<Key>) = runner.study.axes.iter().cloned().partition(is_list);
    if keys.is_empty() {
        return Err(TuneError::NoRange);
    }
    let axes = [lists.as_slice(), &keys].concat();
    let study = &Study { axes, ..runner.study.clone() };
    let runner = &Runner { study, ..runner.clone() };
    let (lists, keys) = study.axes.split_at(lists.len());
    let conditions = points::count(lists, Sample::Grid);
    if conditions > u64::from(budget) {
        return Err(TuneError::Conditions { conditions, budget });
    }
    let conditions = points::all(lists, Sample::Grid, study.seed);
    let search =
        Search { runner, goal, lists, keys, conditions, unit: OnceLock::new(), jobs, stop, ran };
    let shares = search.shares(budget)?;
    let unseen: Vec<u64> =
        (0..u64::from(shares.last)).map(|n| study.seed.wrapping_add(UNSEEN + n)).collect();
    // First: without it a whole budget would be spent for settings that nothing can be compared with.
    let written = search.written(&unseen)?;
    let (tried, mut spent) = search.rounds(&shares)?;
    let winner = best(&tried, goal).cloned().ok_or(TuneError::NothingMeasured)?;
    let point = points::point(search.keys, &winner.parts);
    let tuned = search.values(&[point], &unseen)?.0.remove(0);
    spent += 2 * shares.last * search.conditions.len() as u32;
    report(&search, (&tried, &winner), (&written, &tuned), (budget, spent))
}

impl Search<'_> {
    fn is_relative(&self) -> bool {
        self.conditions.len() > 1
    }

    /// The unit of the goal's figure.
    fn unit(&self) -> Unit {
        self.unit.get().copied().unwrap_or(Unit::Plain)
    }

    /// What settings are compared by, and its unit.
    fn value(&self) -> (String, Unit) {
        match self.is_relative() {
            true => (format!("{}, as a part of as written", self.goal.figure), Unit::Plain),
            false => (self.goal.figure.clone(), self.unit()),
        }
    }

    fn shares(&self, budget: u32) -> Result<Shares, TuneError> {
        let conditions = self.conditions.len() as u32;
        let runs = (self.runner.study.seeds.len() as u32).saturating_mul(conditions);
        shares(budget, runs, conditions).ok_or_else(|| {
            let enough =
                (budget.max(runs)..=u32::MAX).find(|n| shares(*n, runs, conditions).is_some());
            TuneError::Budget { budget, runs, least: enough.unwrap_or(u32::MAX) }
        })
    }

    /// All settings that were tried, and the number of runs.
    fn rounds(&self, shares: &Shares) -> Result<(Vec<Tried>, u32), TuneError> {
        let study = self.runner.study;
        let (written, mut spent) = match self.is_relative() {
            true => (Some(self.means(&self.written(&study.seeds)?)?), shares.runs),
            false => (None, 0),
        };
        let (mut tried, mut failed) = (Vec::<Tried>::new(), None);
        for round in 0..=ROUNDS {
            let count = if round == 0 { shares.first } else { shares.each };
            let width = 0.5f64.powi(round as i32);
            let centre = best(&tried, self.goal).map(|best| best.parts.clone());
            let drawn =
                latin(self.keys.len(), count as usize, study.seed.wrapping_add(u64::from(round)));
            let parts: Vec<Vec<f64>> =
                drawn.iter().map(|parts| around(parts, centre.as_deref(), width)).collect();
            let settings: Vec<Point> =
                parts.iter().map(|parts| points::point(self.keys, parts)).collect();
            let (values, why) = self.values(&settings, &study.seeds)?;
            failed = failed.or(why);
            spent += count * shares.runs;
            for ((parts, point), values) in parts.into_iter().zip(settings).zip(values) {
                let mean = match values.len() == shares.runs as usize {
                    true => mean(&values, written.as_deref()),
                    false => f64::NAN,
                };
                tried.push(Tried { parts, labels: point.labels, round, mean });
            }
        }
        match failed.filter(|_| best(&tried, self.goal).is_none()) {
            Some(why) => Err(TuneError::Failed(why)),
            None => Ok((tried, spent)),
        }
    }

    /// The mean under each condition, which others are divided by.
    fn means(&self, written: &Measured) -> Result<Vec<f64>, TuneError> {
        let mean = |condition| {
            let here = written.iter().filter(|((at, _), _)| *at == condition);
            match stats::mean(&here.map(|(_, value)| *value).collect::<Vec<_>>()).abs() {
                0.0 => Err(TuneError::Zero(self.goal.figure.clone())),
                mean if mean.is_nan() => Err(TuneError::NotWritten {
                    figure: self.goal.figure.clone(),
                    condition: self.condition(condition),
                }),
                mean => Ok(mean),
            }
        };
        (0..self.conditions.len()).map(mean).collect()
    }

    /// A condition in words.
    fn condition(&self, condition: usize) -> String {
        let labels = self.lists.iter().zip(&self.conditions[condition].labels);
        let words: Vec<String> =
            labels.map(|(key, label)| format!("{} = {label}", key.key)).collect();
        words.join(", ")
    }

    /// The unchanged scenario, under each condition. It has the figure under each of them, or there is nothing to
    /// compare with.
    fn written(&self, seeds: &[u64]) -> Result<Measured, TuneError> {
        let study = Study { axes: self.lists.to_vec(), ..self.runner.study.clone() };
        let runner = Runner { study: &study, ..self.runner.clone() };
        let (mut found, failed) = self.measure(&runner, &self.conditions, seeds)?;
        let written = found.remove(0);
        match failed.filter(|_| written.is_empty()) {
            Some(why) => return Err(TuneError::Failed(why)),
            None if self.is_relative() => drop(self.means(&written)?),
            None if written.is_empty() => {
                return Err(TuneError::NothingWritten(self.goal.figure.clone()));
            }
            None => {}
        }
        Ok(written)
    }

    /// The goal's figure of each setting, and why one of the runs failed.
    fn values(
        &self,
        settings: &[Point],
        seeds: &[u64],
    ) -> Result<(Vec<Measured>, Option<String>), TuneError> {
        let under = |setting: &Point| {
            let of = |condition: &Point| Point {
                labels: [condition.labels.as_slice(), &setting.labels].concat(),
                nodes: [condition.nodes.as_slice(), &setting.nodes].concat(),
            };
            self.conditions.iter().map(of).collect::<Vec<_>>()
        };
        let points: Vec<Point> = settings.iter().flat_map(under).collect();
        self.measure(self.runner, &points, seeds)
    }

    /// Runs points, as many for each setting as there are conditions; and why one of the runs failed.
    fn measure(
        &self,
        runner: &Runner<'_>,
        points: &[Point],
        seeds: &[u64],
    ) -> Result<(Vec<Measured>, Option<String>), TuneError> {
        let conditions = self.conditions.len();
        let with = |(number, point)| seeds.iter().map(move |seed| (number, point, *seed));
        let runs: Vec<(usize, &Point, u64)> = points.iter().enumerate().flat_map(with).collect();
        let mut found = vec![Measured::new(); points.len() / conditions];
        let mut failed = None;
        runner.all(&runs, self.jobs, self.stop, &mut |record: Record| {
            (self.ran)();
            let unit = record.units.get(&self.goal.figure).and_then(|name| Unit::by_name(name));
            if let Some(unit) = unit {
                self.unit.get_or_init(|| unit);
            }
            match (record.figures.get(&self.goal.figure), record.failed) {
                (Some(value), None) => {
                    let key = (record.point % conditions, record.seed);
                    found[record.point / conditions].insert(key, *value);
                }
                (_, why) => failed = why.or(failed.take()),
            }
            Ok::<(), TuneError>(())
        })?;
        if self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(TuneError::Stopped);
        }
        Ok((found, failed))
    }
}

/// The division of a budget, with so many runs of each setting; `None` if it is too small.
fn shares(budget: u32, runs: u32, conditions: u32) -> Option<Shares> {
    let last = (budget / 8 / conditions).max(2);
    let first = budget / 2 / runs;
    let written = if conditions > 1 { runs } else { 0 };
    let used = [(first, runs), (2 * last, conditions), (written, 1)];
    let used = used.iter().map(|(count, each)| u64::from(*count) * u64::from(*each)).sum();
    let rest = u64::from(budget).saturating_sub(used);
    let each = (rest / u64::from(ROUNDS) / u64::from(runs)) as u32;
    (first >= 2 && each >= 1).then_some(Shares { first, each, last, runs })
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

fn report(
    search: &Search<'_>,
    (tried, winner): (&[Tried], &Tried),
    (written, tuned): (&Measured, &Measured),
    (budget, spent): (u32, u32),
) -> Result<Report, TuneError> {
    let (study, goal) = (search.runner.study, search.goal);
    let mut report = Report {
        title: format!("{}: {}", study.name, goal.text()),
        about: study.about.clone(),
        ..Report::default()
    };
    let names = search.keys.iter().zip(&winner.labels);
    let setting: Vec<String> =
        names.map(|(axis, value)| format!("{}: {value}", axis.key)).collect();
    report.fact("best", setting.join(", "));
    report.fact("budget", format!("{spent} of {budget} runs"));
    let (mut before, mut after) = both(written, tuned);
    let seeds = before.len() / search.conditions.len();
    let (value, unit) = search.value();
    let mut what = value.clone();
    if search.is_relative() {
        let means = search.means(written)?;
        (before, after) = both(&parts(written, &means), &parts(tuned, &means));
        let conditions = search.conditions.len();
        what = format!("{what}, under {conditions} conditions");
    }
    // A run without the figure is no better one: its flows did not finish, or it broke a check.
    let without = written.keys().filter(|key| !tuned.contains_key(key)).count();
    let difference = student::paired(&before, &after);
    let (old, new) = (stats::mean(&before), stats::mean(&after));
    report.figure("tune.written", old, unit);
    report.figure("tune.best", new, unit);
    report.figure("tune.change", (new - old) / old.abs(), Unit::Share);
    report.figure("tune.p", difference.p, Unit::Plain);
    report.figure("tune.runs", f64::from(spent), Unit::Count);
    let is_better = goal.cost(new) < goal.cost(old) && difference.p < 0.05 && without == 0;
    let mut found = format!("{what}: {}", compared((&before, &after), unit, seeds));
    if without > 0 {
        found += &format!("; {without} runs of the tuned setting have no {}", goal.figure);
    }
    report.verdict("better than as written", is_better, found);
    if search.is_relative() {
        report.tables.push(conditions(search, written, tuned));
    }
    report.tables.push(settings(search, tried));
    let points = tried
        .iter()
        .zip(1..)
        .map(|(one, n)| (f64::from(n), one.mean, one.mean, one.mean))
        .collect();
    report.plots.push(Plot {
        id: "search".to_owned(),
        title: "The search".to_owned(),
        caption: format!("{what} of each setting, in the order in which they were tried."),
        x: Axis::new("setting", Unit::Count),
        y: Axis::new(&value, unit),
        layers: vec![Layer::Measured { name: "settings".to_owned(), points }],
    });
    Ok(report)
}

/// The last comparison in words.
fn compared((before, after): (&[f64], &[f64]), unit: Unit, seeds: usize) -> String {
    if before.is_empty() {
        return "no pair of runs to compare".to_owned();
    }
    let difference = student::paired(before, after);
    let (old, new) = (stats::mean(before), stats::mean(after));
    let p = match difference.p.is_nan() {
        true => "no p (too few runs, which all differ by the same)".to_owned(),
        false => format!("p {}", digits(difference.p, 3)),
    };
    format!(
        "{} as written, {} tuned: {} +- {}, {p}, over {seeds} seeds that the search did not see",
        unit.show_mean(old),
        unit.show_mean(new),
        Unit::Share.show((new - old) / old.abs()),
        Unit::Share.show(difference.half_width / old.abs()),
    )
}

/// Values as parts of the means of others under the same condition. One mean for all seeds: the mean of ratios to single runs is above 1
/// where nothing differs but chance.
fn parts(values: &Measured, means: &[f64]) -> Measured {
    values.iter().map(|(key, value)| (*key, value / means[key.0])).collect()
}

/// The mean of values, or of their parts.
fn mean(values: &Measured, means: Option<&[f64]>) -> f64 {
    let values = means.map_or_else(|| values.clone(), |means| parts(values, means));
    stats::mean(&values.into_values().collect::<Vec<_>>())
}

/// Values that both have, in the same order.
fn both(a: &Measured, b: &Measured) -> (Vec<f64>, Vec<f64>) {
    a.iter().filter_map(|(key, value)| Some((*value, *b.get(key)?))).unzip()
}

/// The last comparison under each condition.
fn conditions(search: &Search<'_>, written: &Measured, tuned: &Measured) -> Table {
    let lists = search.lists.iter();
    let mut columns: Vec<Column> = lists.map(|axis| Column::words(&axis.key)).collect();
    columns.extend(["as written", "tuned"].map(|name| Column::numbers(name, search.unit())));
    columns.push(Column::numbers("change", Unit::Share));
    columns.push(Column::numbers("p", Unit::Plain));
    let rows = search.conditions.iter().enumerate().map(|(number, condition)| {
        let of = |values: &Measured| -> Measured {
            let here = values.iter().filter(|((at, _), _)| *at == number);
            here.map(|(key, value)| (*key, *value)).collect()
        };
        let (before, after) = both(&of(written), &of(tuned));
        let (old, new) = (stats::mean(&before), stats::mean(&after));
        let mut row: Vec<Cell> =
            condition.labels.iter().map(|label| label.clone().into()).collect();
        let p = student::paired(&before, &after).p;
        row.extend([old, new, (new - old) / old.abs(), p].map(Cell::from));
        row
    });
    let note = format!("Means of {} over seeds that the search did not see.", search.goal.figure);
    Table { title: "Under each condition".to_owned(), note, columns, rows: rows.collect() }
}

/// All settings, best first.
fn settings(search: &Search<'_>, tried: &[Tried]) -> Table {
    let goal = search.goal;
    let mut columns = vec![Column::numbers("round", Unit::Count)];
    columns.extend(search.keys.iter().map(|axis| Column::words(&axis.key)));
    let (value, unit) = search.value();
    columns.push(Column::numbers(&format!("mean of {value}"), unit));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_budget_of_less_than_the_least_is_refused() {
        let least = |runs, conditions| (1..).find(|n| shares(*n, runs, conditions).is_some());
        assert_eq!((least(1, 1), least(2, 1)), (Some(13), Some(18)));
    }

    #[test]
    fn what_cannot_be_compared_has_no_probability() {
        assert_eq!(compared((&[], &[]), Unit::Plain, 0), "no pair of runs to compare");
        assert!(
            compared((&[3.0, 3.0], &[2.0, 2.0]), Unit::Plain, 2).contains("no p (too few runs")
        );
        assert!(compared((&[3.0; 5], &[2.0; 5]), Unit::Plain, 5).contains(", p 0, over 5 seeds"));
        let in_time = compared((&[3e-6; 5], &[2e-6; 5]), Unit::Seconds, 5);
        assert!(in_time.starts_with("3 us as written, 2 us tuned"), "{in_time}");
    }
}
