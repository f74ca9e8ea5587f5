//! `lab sweep`, `lab merge`, `lab tune`: studies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, codes};
use wireyard_pipeline::source::Loader;

use super::super::args::{MergeArgs, SweepArgs, TuneArgs};
use super::super::load::show;
use super::super::{Failure, Status, complain, print, print_json, say};
use super::about;
use crate::lab::output;
use crate::lab::study::cluster::Array;
use crate::lab::study::records::{self, Head, PartFile, Results, merge as merged};
use crate::lab::study::runner::Runner;
use crate::lab::study::{Point, Study, read, summary, tune as search};
use crate::library::LIBRARIES;
use crate::live::progress::Progress;
use crate::report::{self, Report, text};
use crate::sync;

fn study(path: &Path) -> Result<Study, Failure> {
    read::read(path, &Loader::new(Vec::new(), LIBRARIES)).map_err(|rejected| {
        show(&rejected.diagnostics, &rejected.files);
        format!("{}: nothing was run", shown(path)).into()
    })
}

fn jobs(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.map_or_else(all, usize::from)
}

pub(super) fn sweep(args: &SweepArgs) -> Result<Status, Failure> {
    let study = study(&args.study)?;
    let folder = args.output.clone().unwrap_or_else(|| PathBuf::from(&study.name));
    let (engine, about) = (args.engine, about(args.engine));
    let runner = Runner { study: &study, engine, about };
    check_figures(&runner)?;
    let array = |parts| Array {
        name: &study.name,
        study: &args.study,
        output: &folder,
        engine: engine.name(),
        jobs: args.jobs,
        parts,
    };
    if let (Some(parts), Some(image), Some(claim)) = (args.kubernetes, &args.image, &args.claim) {
        print(&array(parts).kubernetes(image, claim)?);
        return Ok(Status::Success);
    }
    if let Some(parts) = args.slurm {
        let program = std::env::current_exe()?;
        records::check(&folder, &Head::of(&study))?;
        let (tasks, merge) = array(parts).submit(&program)?;
        say(&format!(
            "job {tasks}: {parts} tasks; job {merge} merges them into {} after the last",
            shown(&folder)
        ));
        return Ok(Status::Success);
    }
    let mut progress = Progress::start(args.quiet)?;
    let stop = progress.stop_flag();
    if let Some((point, seed)) = args.only {
        return only(&runner, (point, seed), &stop, args.json);
    }
    runs(args, &runner, &folder, &stop, &mut progress)
}

/// Checks that the runs will have the figures that the study refers to, before hours of runs.
fn check_figures(runner: &Runner<'_>) -> Result<(), Failure> {
    let Some((number, near)) = runner.unknown_figure() else { return Ok(()) };
    let study = runner.study;
    let message = format!("there is no figure `{}` in its scenario", study.figures[number]);
    let mut found = Diagnostics::new();
    let error = found.error(codes::UNKNOWN, study.places[number], message);
    if let Some(near) = near {
        error.help(format!("did you mean `{near}`?"));
    }
    show(&found, &study.files);
    Err(format!("{}: nothing was run", shown(&study.path)).into())
}

/// The runs that are done, in this part or in one of another division, and whether each has figures.
fn known(
    args: &SweepArgs,
    file: &PartFile,
    folder: &Path,
    part: (u32, u32),
) -> Result<BTreeMap<(usize, u64), bool>, Failure> {
    let mut known = BTreeMap::new();
    for record in file.done.iter().chain(&records::of_other_divisions(folder, part)?) {
        *known.entry((record.point, record.seed)).or_default() |= record.failed.is_none();
    }
    known.retain(|_, is_measured| *is_measured || !args.retry_failed);
    Ok(known)
}

/// Warns that results are of several builds.
fn of_builds<'b>(builds: impl Iterator<Item = &'b String>) {
    let builds: Vec<&str> = builds.map(String::as_str).collect();
    say(&format!(
        "warning: the results are of the builds {}: they may not belong together",
        builds.join(" and ")
    ));
}

/// The runs of a part that are not done, and the report if the part is the whole study.
fn runs(
    args: &SweepArgs,
    runner: &Runner<'_>,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<Status, Failure> {
    let study = runner.study;
    let part = args.shard.unwrap_or((1, 1));
    let head = Head::of(study);
    let others = records::check(folder, &head)?;
    if !others.is_empty() {
        of_builds(others.iter().chain([&head.build]));
    }
    let mut file = PartFile::open(folder, &head, part)?;
    let known = known(args, &file, folder, part)?;
    let all = study.runs();
    let mine = all
        .iter()
        .enumerate()
        .filter(|(n, _)| *n as u32 % part.1 == part.0 - 1)
        .map(|(_, run)| *run);
    let mine: Vec<(usize, u64)> = mine.collect();
    let left: Vec<(usize, &Point, u64)> = mine
        .iter()
        .filter(|run| !known.contains_key(run))
        .map(|(point, seed)| (*point, &study.points[*point], *seed))
        .collect();
    let (count, before) = (mine.len(), mine.len() - left.len());
    let mut done = before;
    let mut failed = mine.iter().filter(|run| known.get(run) == Some(&false)).count();
    if done > 0 && !args.quiet {
        say(&format!("{done} of {count} runs were done before"));
    }
    progress.runs((before, done, count));
    runner.all(&left, jobs(args.jobs), stop, &mut |record| {
        done += 1;
        if let Some(why) = &record.failed {
            failed += 1;
            progress.clear();
            let first = why.lines().next().unwrap_or_default();
            complain(&format!(
                "point {} with seed {} failed: {first}",
                record.point + 1,
                record.seed
            ));
        }
        progress.runs((before, done, count));
        file.add(&record)
    })?;
    progress.clear();
    if !args.quiet {
        say(&format!("{done} of {count} runs in {:.1} s", progress.seconds()));
    }
    if args.shard.is_some() {
        say(&format!(
            "part {} of {} in {}; `wireyard lab merge` puts the parts together",
            part.0,
            part.1,
            shown(folder)
        ));
        if done < count {
            // Not the status of a run that failed: the part is started again where a cluster ended it.
            return Err(format!("{} runs are left: the same command goes on", count - done).into());
        }
        return Ok(if failed == 0 { Status::Success } else { Status::Failed });
    }
    let results = merged(&[folder.to_owned()])?;
    written(&results, folder, args.json)
}

/// One run alone.
fn only(
    runner: &Runner<'_>,
    (point, seed): (usize, u64),
    stop: &AtomicBool,
    is_json: bool,
) -> Result<Status, Failure> {
    let count = runner.study.points.len();
    let found = runner
        .study
        .points
        .get(point - 1)
        .ok_or_else(|| format!("there is no point {point}: there are {count}"))?;
    let Some(record) = runner.one((point - 1, found), seed, stop) else {
        return Ok(Status::Failed);
    };
    let keys = runner.study.axes.iter().zip(&found.labels);
    if !is_json {
        keys.clone().for_each(|(axis, label)| print(&format!("{}: {label}\n", axis.key)));
    }
    if let Some(why) = record.failed {
        complain(why.trim_end());
        return Ok(Status::Failed);
    }
    if is_json {
        let setting: serde_json::Map<String, serde_json::Value> =
            keys.map(|(axis, label)| (axis.key.clone(), label.clone().into())).collect();
        let (passed, figures) = (record.passed, record.figures);
        print_json(
            &json!({ "point": point, "seed": seed, "setting": setting, "passed": passed, "figures": figures }),
        );
        return Ok(if passed { Status::Success } else { Status::Failed });
    }
    record.figures.iter().for_each(|(name, value)| print(&format!("{name} {value}\n")));
    Ok(if record.passed { Status::Success } else { Status::Failed })
}

/// Writes the report of results into a folder.
fn written(results: &Results, folder: &Path, is_json: bool) -> Result<Status, Failure> {
    let (report, runs) = summary::report(results);
    output::replace(folder, &report, &[("runs.csv", runs)])?;
    printed(&report, is_json)
}

fn printed(report: &Report, is_json: bool) -> Result<Status, Failure> {
    match is_json {
        true => print_json(&report::json::value(report)),
        false => print(&text::summary(report)),
    }
    Ok(if report.passed() { Status::Success } else { Status::Failed })
}

pub(super) fn merge(args: &MergeArgs) -> Result<Status, Failure> {
    let results = merged(&args.folders)?;
    if results.builds.len() > 1 {
        of_builds(results.builds.iter());
    }
    written(&results, &args.output, args.json)
}

pub(super) fn tune(args: &TuneArgs) -> Result<Status, Failure> {
    let study = study(&args.study)?;
    let (engine, about) = (args.engine, about(args.engine));
    let progress = Progress::start(args.quiet)?;
    let stop = progress.stop_flag();
    let runner = Runner { study: &study, engine, about };
    check_figures(&runner)?;
    // Runs that are over, of the budget; a search may need fewer.
    let shown_runs = Mutex::new((progress, 0));
    let ran = || {
        let mut shown_runs = sync::lock(&shown_runs);
        let (progress, done) = &mut *shown_runs;
        *done += 1;
        progress.runs((0, *done, args.budget as usize));
    };
    if let Some(folder) = &args.output {
        output::prepare(folder)?;
    }
    let report = search::tune(&runner, args.budget, jobs(args.jobs), &stop, &ran);
    sync::lock(&shown_runs).0.clear();
    let report = report?;
    let status = printed(&report, args.json)?;
    if let Some(folder) = &args.output {
        output::replace(folder, &report, &[])?;
    }
    Ok(status)
}
