//! Runs of a study, several at a time.
//!
//! A run that cannot be read, built or finished, or that breaks a check, is recorded with its reason, and the others
//! continue.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::source::Loader;

use super::records::Record;
use super::{Changed, Point, Study};
use crate::lab::build::Options;
use crate::lab::results::About;
use crate::lab::{Outcome, parallel, scenario, sweep};
use crate::library::LIBRARIES;
use crate::program::EngineKind;
use crate::sync;

/// Points at each end of a study that are built for the names of their figures, until one can be.
const TRIED_MAX: usize = 8;

/// The inputs of a run.
#[derive(Clone, Debug)]
pub struct Runner<'s> {
    /// The study.
    pub study: &'s Study,
    /// The engine.
    pub engine: EngineKind,
    /// For reports.
    pub about: About,
}

impl Runner<'_> {
    /// The number of the first figure of the study that neither its first nor its last point that can be built has, with
    /// the nearest existing name.
    pub fn unknown_figure(&self) -> Option<(usize, Option<String>)> {
        let points = &self.study.points;
        // A point that cannot be built fails by itself: the nearest that can stands for it.
        let first = points.iter().take(TRIED_MAX).find_map(|point| self.known_figures(point));
        let last = points.iter().rev().take(TRIED_MAX).find_map(|point| self.known_figures(point));
        let known = [first, last].into_iter().flatten().reduce(|a, b| [a, b].concat())?;
        let asked = &self.study.figures;
        let unknown = asked.iter().position(|name| !known.contains(name))?;
        let near = suggest(&asked[unknown], known.iter().map(String::as_str));
        Some((unknown, near.map(str::to_owned)))
    }

    fn known_figures(&self, point: &Point) -> Option<Vec<String>> {
        let scenario = Arc::new(self.scenario(point).ok()?);
        // With the seed of its first run: the names of flows that are drawn are those of a seed.
        let seed = self.study.seeds.first().copied();
        let options = Options { engine: self.engine, seed, workers: 1, captures: false };
        sweep::figure_names(&scenario, options, &self.about).ok()
    }

    /// The scenario of a point.
    fn scenario(&self, point: &Point) -> Result<scenario::Scenario, String> {
        let loader = Loader::new(Vec::new(), LIBRARIES);
        let (path, files) = (&self.study.scenario, self.study.files.clone());
        let read = scenario::read_changed(path, &loader, files, &self.study.changes(point));
        read.map(|(scenario, _)| scenario).map_err(|rejected| rejected.to_string())
    }

    /// One run; `None` if it was stopped.
    pub fn one(
        &self,
        (number, point): (usize, &Point),
        seed: u64,
        stop: &AtomicBool,
    ) -> Option<Record> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.measure((number, point), seed, stop)));
        let ran = ran
            .unwrap_or_else(|_| Err("the run panicked: this is a mistake in Wireyard".to_owned()));
        ran.unwrap_or_else(|why| {
            let (figures, units) = (BTreeMap::new(), BTreeMap::new());
            let failed = Some(why);
            Some(Record { point: number, seed, failed, passed: false, figures, units })
        })
    }

    fn measure(
        &self,
        (number, point): (usize, &Point),
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Record>, String> {
        let scenario = Arc::new(self.scenario(point)?);
        let options =
            Options { engine: self.engine, seed: Some(seed), workers: 1, captures: false };
        let run =
            sweep::run(&scenario, options, &self.about, &mut |_| !stop.load(Ordering::Relaxed));
        let run = run.map_err(|error| error.to_string())?;
        match run.outcome {
            Outcome::Interrupted => return Ok(None),
            Outcome::Failed(violation) if scenario.fails.as_deref() != Some(violation.check) => {
                return Err(format!(
                    "check {} failed at {}: {}",
                    violation.check, violation.at, violation.what
                ));
            }
            _ => {}
        }
        let unknown = self.study.figures.iter().find(|name| run.report.find(name).is_none());
        if let Some(name) = unknown {
            return Err(format!("there is no figure `{name}` in this scenario"));
        }
        let finite = run.report.figures.iter().filter(|figure| figure.value.is_finite());
        let figures = finite.map(|figure| (figure.name.clone(), figure.value)).collect();
        let shown = self.study.figures.iter().filter_map(|name| run.report.find(name));
        let units = shown.map(|figure| (figure.name.clone(), figure.unit.name().to_owned()));
        Ok(Some(Record {
            point: number,
            seed,
            failed: None,
            passed: run.report.passed(),
            figures,
            units: units.collect(),
        }))
    }

    /// Does runs, `jobs` at a time; calls `take` with each when it is over.
    ///
    /// # Errors
    /// The error of `take`, or a file of the study that changed; no run begins after that.
    pub fn all<E: Send + From<Changed>>(
        &self,
        runs: &[(usize, &Point, u64)],
        jobs: usize,
        stop: &AtomicBool,
        take: &mut (dyn FnMut(Record) -> Result<(), E> + Send),
    ) -> Result<(), E> {
        let take = Mutex::new((take, None));
        parallel::each(jobs, runs.len(), |index| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let (number, point, seed) = runs[index];
            let Some(record) = self.one((number, point), seed, stop) else {
                return ControlFlow::Break(());
            };
            let changed = self.study.changed();
            let mut taking = sync::lock(&take);
            // Behind an error nothing is taken: what stores the runs may have stopped in the middle of one.
            if taking.1.is_some() {
                return ControlFlow::Break(());
            }
            let taken = changed.map_or_else(|| (taking.0)(record), |why| Err(why.into()));
            match taken {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    taking.1 = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        take.into_inner().unwrap_or_else(PoisonError::into_inner).1.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::lab::study::read;

    #[derive(Debug)]
    struct Full;

    impl From<Changed> for Full {
        fn from(_: Changed) -> Full {
            Full
        }
    }

    /// Runs that fail at once, as their scenario is not on the disk, end while the first is being stored.
    #[test]
    fn nothing_is_taken_behind_an_error() {
        let study = "study: s\nscenario: none.yaml\nvary: { link.delay: [1 us, 2 us, 3 us, 4 us] }\nfigures: f\n";
        let scenario = "lab: n\nduration: 1 ms\nlink: { rate: 25 Gbit/s, delay: 1 us }\n\
                        topology: { incast: { senders: 2 } }\nflows: { from: senders, to: sink, size: 10 KB }\n";
        let files = [("/nowhere/s.yaml", study), ("/nowhere/none.yaml", scenario)];
        let loader = Loader::in_memory(files, LIBRARIES);
        let study = read::read(Path::new("/nowhere/s.yaml"), &loader).unwrap();
        let about = About { version: String::new(), engine: String::new() };
        let runner = Runner { study: &study, engine: EngineKind::Interp, about };
        let runs: Vec<(usize, &Point, u64)> =
            study.points.iter().enumerate().map(|(number, point)| (number, point, 1)).collect();
        let mut taken = 0;
        let ended = runner.all(&runs, 2, &AtomicBool::new(false), &mut |_| {
            taken += 1;
            std::thread::sleep(Duration::from_millis(100));
            Err(Full)
        });
        assert!(ended.is_err());
        assert_eq!(taken, 1);
    }
}
