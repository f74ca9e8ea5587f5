//! Several runs of one scenario, on several processors: the same results in the same order, whichever processor
//! computes them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::build::Options;
use super::checks::Violation;
use super::engine::{Lab, Outcome, Pulse};
use super::error::LabError;
use super::failure_trace;
use super::foreign;
use super::parallel;
use super::queues::{self, Wrong};
use super::results::{self, About, BadExpectation};
use super::scenario::Scenario;
use crate::ports::sys::heap;
use crate::program::EngineKind;
use crate::report::{Cell, Column, Figure, Report, Table, Unit, stats};
use crate::sync;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// The trace of the packet that broke a check.
    pub packet_trace: Option<String>,
    /// Its report, with verdicts.
    pub report: Report,
    /// Captures by name of the link, if they were asked for.
    pub captures: Vec<(String, Vec<u8>)>,
    /// Entries files of the switches.
    pub entries: Vec<(String, String)>,
    /// The results in the columns of other simulators, by name of the file.
    pub foreign: Vec<(&'static str, String)>,
}

/// Builds a lab and checks every expectation against a report without measurements: names and units must be valid.
///
/// # Errors
/// A part that cannot be built, or an invalid expectation.
pub fn check(scenario: &Arc<Scenario>, options: Options, about: &About) -> Result<(), CheckError> {
    queues::check(scenario).map_err(CheckError::Queues)?;
    let (lab, mut report) = without_measurements(scenario, options, about)?;
    results::judge(&mut report, &lab).map_err(CheckError::Expect)
}

/// The names of the figures that a report of the scenario has.
///
/// # Errors
/// A part that cannot be built.
pub fn figure_names(
    scenario: &Arc<Scenario>,
    options: Options,
    about: &About,
) -> Result<Vec<String>, CheckError> {
    let (_, report) = without_measurements(scenario, options, about)?;
    Ok(report.figures.into_iter().map(|figure| figure.name).collect())
}

fn without_measurements(
    scenario: &Arc<Scenario>,
    options: Options,
    about: &About,
) -> Result<(Lab, Report), CheckError> {
    // No packet will run: so nothing is compiled for it, except with an engine requested by name.
    let engine = match options.engine {
        EngineKind::Auto => EngineKind::Interp,
        chosen => chosen,
    };
    let options = Options { engine, workers: 1, ..options };
    let mut lab = Lab::new(Arc::clone(scenario), options).map_err(CheckError::Build)?;
    let report = results::report(&mut lab, &Outcome::Complete, about);
    Ok((lab, report))
}

/// Why a scenario cannot be run.
#[derive(Debug)]
pub enum CheckError {
    /// Queues that contradict themselves, the links or the packets; with their places.
    Queues(Vec<Wrong>),
    /// A device cannot be built.
    Build(LabError),
    /// Expectations that are invalid for the report.
    Expect(Vec<BadExpectation>),
}

/// Runs a scenario once. The memory of the process so far is put into large pages where the system has them.
///
/// # Errors
/// A part that cannot be built.
pub fn run(
    scenario: &Arc<Scenario>,
    options: Options,
    about: &About,
    pulse: &mut dyn FnMut(Pulse) -> bool,
) -> Result<Run, LabError> {
    let scenario = &scenario.with_seed(options.seed);
    let mut lab = Lab::new(Arc::clone(scenario), options)?;
    heap::use_large_pages();
    let mut outcome = lab.run(pulse);
    if let Outcome::Failed(Violation { check: "memory" | "progress", .. }) = &outcome
        && options.workers > 1
    {
        // Between two samples partitions are not at the same instant: their state then depends on their threads.
        lab = Lab::new(Arc::clone(scenario), Options { workers: 1, ..options })?;
        outcome = lab.run(pulse);
    }
    let packet_trace = match &outcome {
        Outcome::Failed(violation) if scenario.fails.as_deref() != Some(violation.check) => {
            failure_trace::of(&mut lab, options, violation, pulse)
        }
        _ => None,
    };
    let mut report = results::report(&mut lab, &outcome, about);
    if !matches!(outcome, Outcome::Interrupted) {
        results::judge_run(&mut report, &lab);
    }
    Ok(Run {
        seed: options.seed.unwrap_or(scenario.seed),
        outcome,
        packet_trace,
        report,
        foreign: foreign::files(&lab),
        captures: lab.captures(),
        entries: lab.entries().to_vec(),
    })
}

/// The results of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Runs that ended by themselves, in the order of the seeds.
    pub runs: Vec<Run>,
    /// Seeds whose runs were stopped or not begun: they have no measurements.
    pub left: Vec<u64>,
}

/// Runs a scenario with each seed, `jobs` at a time. `pulse` gets the place of a seed among `seeds` and how far its run is; all runs end
/// when it returns false.
///
/// # Errors
/// A part that cannot be built.
pub fn run_all(
    scenario: &Arc<Scenario>,
    options: Options,
    seeds: &[u64],
    jobs: usize,
    about: &About,
    pulse: &(dyn Fn(usize, Pulse) -> bool + Sync),
) -> Result<Sweep, LabError> {
    let done: Mutex<Vec<Option<Result<Run, LabError>>>> =
        Mutex::new(seeds.iter().map(|_| None).collect());
    let stopped = AtomicBool::new(false);
    let stop = || stopped.store(true, Ordering::Relaxed);
    let is_stopped = || stopped.load(Ordering::Relaxed);
    parallel::each(jobs, seeds.len(), |index| {
        let options = Options { seed: Some(seeds[index]), ..options };
        let mut last = None;
        let mut go_on = |now: Pulse| {
            last = Some(now);
            if !pulse(index, now) {
                stop();
            }
            !is_stopped()
        };
        let result = run(scenario, options, about, &mut go_on);
        // What cannot be built for one seed cannot for another. A run may end before its time.
        if result.is_err()
            || last.is_some_and(|last| !pulse(index, Pulse { now: last.end, ..last }))
        {
            stop();
        }
        sync::lock(&done)[index] = Some(result);
        if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut sweep = Sweep { runs: Vec::new(), left: Vec::new() };
    for (&seed, result) in seeds.iter().zip(done) {
        match result.transpose()? {
            Some(run) if run.outcome != Outcome::Interrupted => sweep.runs.push(run),
            _ => sweep.left.push(seed),
        }
    }
    Ok(sweep)
}

/// Figures with the same meaning in all runs: those of single drawn flows are left out.
fn figures(runs: &[Run]) -> impl Iterator<Item = &Figure> {
    let drawn: BTreeSet<&String> = runs.iter().flat_map(|run| &run.report.drawn).collect();
    let all = runs.first().into_iter().flat_map(|run| &run.report.figures);
    all.filter(move |figure| !drawn.contains(&figure.name))
}

/// Differences of figures between runs.
pub fn spread(runs: &[Run]) -> Table {
    let mut table = Table::new(
        format!("Figures of {} runs", runs.len()),
        "One row for each figure that is not the same in all runs, or that is expected; deviation: the sample \
         standard deviation, as a part of the mean.",
        vec![
            Column::words("figure"),
            Column::words("least"),
            Column::words("mean"),
            Column::words("largest"),
            Column::numbers("deviation", Unit::Share),
        ],
    );
    for figure in figures(runs) {
        let of = |run: &Run| run.report.find(&figure.name).map_or(f64::NAN, |f| f.value);
        let values: Vec<f64> = runs.iter().map(of).filter(|value| value.is_finite()).collect();
        let mut verdicts = runs.iter().flat_map(|run| &run.report.verdicts);
        let expected = verdicts.any(|verdict| verdict.name == figure.name);
        let (least, most) = (stats::smallest(&values), stats::largest(&values));
        if values.is_empty() || least == most && !expected {
            continue;
        }
        let mean = stats::mean(&values);
        table.rows.push(vec![
            figure.name.clone().into(),
            figure.unit.show(least).into(),
            figure.unit.show_mean(mean).into(),
            figure.unit.show(most).into(),
            (stats::sample_deviation(&values) / mean.abs()).into(),
        ]);
    }
    table
}

/// Every figure in its base unit, with a column for each seed, for other programs.
pub fn by_seed(runs: &[Run]) -> Table {
    let mut columns = vec![Column::words("figure"), Column::words("unit")];
    let names = runs.iter().map(|run| format!("seed {}", run.seed));
    let names = names.chain(["least", "mean", "largest", "deviation"].map(str::to_owned));
    // The unit has a column of its own: it differs by row.
    columns.extend(names.map(|name| Column { name, unit: None }));
    let mut table = Table::new("seeds", "", columns);
    for figure in figures(runs) {
        let of = |run: &Run| run.report.find(&figure.name).map_or(f64::NAN, |f| f.value);
        let values: Vec<f64> = runs.iter().map(of).collect();
        let there: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let mut row: Vec<Cell> = vec![figure.name.clone().into(), figure.unit.name().into()];
        row.extend(values.into_iter().map(Cell::from));
        let of_all = [stats::smallest(&there), stats::mean(&there), stats::largest(&there)];
        row.extend(of_all.into_iter().chain([stats::sample_deviation(&there)]).map(Cell::from));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wireyard_pipeline::source::Loader;
    use wireyard_tables::time::Span;

    use super::*;
    use crate::lab::scenario;
    use crate::library::LIBRARIES;

    /// A run whose flows are done before its time is over is over.
    #[test]
    fn the_progress_of_every_run_reaches_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.yaml");
        let text = "lab: short\nduration: 1 s\nlink: { rate: 10 Gbit/s, delay: 1 us }\n\
                    host: { rate_control: fixed }\ntopology: { incast: { senders: 2 } }\n\
                    flows: { from: senders, to: sink, size: 10 KB }\n";
        std::fs::write(&path, text).unwrap();
        let (scenario, _) = scenario::read(&path, &Loader::new(Vec::new(), LIBRARIES)).unwrap();
        let about = About { version: String::new(), engine: String::new() };
        let options = Options { engine: EngineKind::Interp, ..Options::default() };
        let seen = Mutex::new(vec![false; 3]);
        let pulse = |index: usize, pulse: Pulse| {
            sync::lock(&seen)[index] = pulse.now == pulse.end;
            true
        };
        let ended = run_all(&Arc::new(scenario), options, &[5, 6, 7], 2, &about, &pulse).unwrap();
        assert!(ended.runs.iter().all(|run| run.outcome == Outcome::Drained));
        assert_eq!(*sync::lock(&seen), [true; 3]);
    }

    /// A sweep stopped before the first run and one stopped later alike report only runs that ended.
    #[test]
    fn a_sweep_that_is_stopped_has_only_the_runs_that_ended() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs/lab/incast.yaml");
        let (mut scenario, _) = scenario::read(&path, &Loader::new(Vec::new(), LIBRARIES)).unwrap();
        (scenario.duration, scenario.warm_up) = (Span::from_us(50), Span::ZERO);
        (scenario.expect, scenario.faults) = (Vec::new(), Vec::new());
        let scenario = Arc::new(scenario);
        let about = About { version: String::new(), engine: String::new() };
        let sweep = |goes_on: bool| {
            let options = Options { engine: EngineKind::Interp, ..Options::default() };
            run_all(&scenario, options, &[5, 6, 7], 2, &about, &|_, _| goes_on).unwrap()
        };
        let stopped = sweep(false);
        assert!(stopped.runs.is_empty());
        assert_eq!(stopped.left, [5, 6, 7]);
        let whole = sweep(true);
        assert_eq!(whole.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [5, 6, 7]);
        assert!(whole.left.is_empty());
        let text = crate::report::csv::table(&by_seed(&whole.runs));
        let mut lines = text.lines();
        let heading = "figure,unit,seed 5,seed 6,seed 7,least,mean,largest,deviation";
        assert_eq!(lines.next(), Some(heading));
        let time = lines.find(|line| line.starts_with("run.time,")).unwrap();
        assert_eq!(time, "run.time,seconds,0.00005,0.00005,0.00005,0.00005,0.00005,0.00005,0");
    }
}
