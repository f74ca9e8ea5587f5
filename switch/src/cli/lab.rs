//! `lab`: scenarios in virtual time.

mod study;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, Files, codes, suggest};
use wireyard_pipeline::source::Loader;

use super::args::{CompareArgs, LabArgs, LabCommand, VERSION};
use super::load::show;
use super::{Failure, Status, complain, ended, print, print_json, say};
use crate::folder::Folder;
use crate::lab::build::{self, Options};
use crate::lab::results::About;
use crate::lab::scenario::{self, Scenario};
use crate::lab::sweep::{self, CheckError, Run};
use crate::lab::{Lab, LabError, Outcome, Pulse, compare, live, output, partition};
use crate::library::{self, LIBRARIES};
use crate::live::progress::{Progress, pace};
use crate::program::EngineKind;
use crate::report::expect::ExpectError;
use crate::report::{json, text};
use crate::sync;

/// Reasons for which a program does not take the entries of a topology.
const REASONS_SHOWN: usize = 8;
/// Figures in a list of choices.
const FIGURES_SHOWN: usize = 16;

pub(super) fn run(args: &LabArgs) -> Status {
    let done = match (&args.command, &args.scenario) {
        (Some(LabCommand::Compare(compare)), _) => compared(compare),
        (Some(LabCommand::Sweep(args)), _) => study::sweep(args),
        (Some(LabCommand::Merge(args)), _) => study::merge(args),
        (Some(LabCommand::Tune(args)), _) => study::tune(args),
        (None, Some(path)) => return scenario_run(args, path),
        (None, None) => Err("a scenario is needed".into()),
    };
    ended(done)
}

fn compared(args: &CompareArgs) -> Result<Status, Failure> {
    if let Some(folder) = &args.output
        && let Some(input) = [&args.a, &args.b].into_iter().find(|a| output::is_of(folder, a))
    {
        let text =
            "is compared, and would be replaced by the comparison: name another folder with -o";
        return Err(format!("{}: it {text}", shown(input)).into());
    }
    let report = compare::compare(&args.a, &args.b)?;
    if let Some(folder) = &args.output {
        output::replace(folder, &report, &[])?;
    }
    match args.json {
        true => print_json(&json::value(&report)),
        false => print(&text::summary(&report)),
    }
    Ok(Status::Success)
}

fn scenario_run(args: &LabArgs, wanted: &Path) -> Status {
    let loader = Loader::new(Vec::new(), LIBRARIES);
    let path = library::scenario_path(wanted);
    let (mut scenario, files) = match scenario::read(&path, &loader) {
        Ok(read) => read,
        Err(rejected) => {
            show(&rejected.diagnostics, &rejected.files);
            complain(&format!("{}: nothing was run", shown(wanted)));
            if path == wanted && !path.exists() {
                let known = library::scenarios();
                let near = wanted.to_str().and_then(|name| suggest(name, known.iter().copied()));
                say(&match near {
                    Some(near) => format!("did you mean `{near}`, which is inside wireyard?"),
                    None => format!("inside wireyard are the scenarios {}", known.join(", ")),
                });
            }
            return Status::Wrong;
        }
    };
    scenario.max_state = args.limits.max_state();
    ended(start(args, Arc::new(scenario).with_seed(args.seed), &files))
}

/// The description of the engine for reports.
fn about(engine: EngineKind) -> About {
    About { version: VERSION.to_owned(), engine: engine.name().to_owned() }
}

fn start(args: &LabArgs, scenario: Arc<Scenario>, files: &Files) -> Result<Status, Failure> {
    let (engine, about) = (args.engine, about(args.engine));
    let workers = workers(args, &scenario);
    let captures = args.output.is_some();
    let options = Options { engine, seed: args.seed, workers, captures };
    if let Err(error) = sweep::check(&scenario, options, &about) {
        return refuse(error, &scenario, files);
    }
    if args.live {
        live::check(&scenario)?;
    }
    let weaknesses: Vec<String> =
        build::weaknesses(&scenario).into_iter().map(|weakness| weakness.to_string()).collect();
    for weakness in &weaknesses {
        say(&format!("warning: {weakness}"));
    }
    if args.check {
        if args.json {
            print_json(&serde_json::json!({ "warnings": weaknesses }));
        }
        say(&format!("{}: nothing is wrong with it", shown(&scenario.path)));
        return Ok(Status::Success);
    }
    if let Some(folder) = &args.output {
        output::prepare(folder)?;
    }
    let mut progress = Progress::start(args.quiet)?;
    let first = args.seed.unwrap_or(scenario.seed);
    let mut left = Vec::new();
    let runs = if args.live {
        vec![run_live(args, &scenario, options, &about, &mut progress)?]
    } else if args.seeds > 1 {
        let seeds: Vec<u64> = (0..args.seeds).map(|n| first.wrapping_add(n)).collect();
        let shown = Mutex::new((&mut progress, vec![0.0; seeds.len()]));
        let pulse = |index: usize, pulse: Pulse| {
            let (progress, shares) = &mut *sync::lock(&shown);
            shares[index] = pulse.now.as_ps() as f64 / pulse.end.as_ps().max(1) as f64;
            progress.pulse_all(shares)
        };
        let sweep = sweep::run_all(&scenario, options, &seeds, args.jobs.into(), &about, &pulse)?;
        left = sweep.left;
        sweep.runs
    } else {
        let pulse = &mut |pulse: Pulse| progress.pulse(pulse.now, pulse.end);
        vec![sweep::run(&scenario, options, &about, pulse)?]
    };
    progress.clear();
    if !left.is_empty() {
        let seeds: Vec<String> = left.iter().map(u64::to_string).collect();
        complain(&format!("stopped: no figures of seed {}", seeds.join(", ")));
    }
    if runs.is_empty() {
        return Ok(Status::Failed);
    }
    tell_speed(&runs, progress.seconds());
    let status = finish(args, &runs, scenario.fails.as_deref())?;
    Ok(if left.is_empty() { status } else { Status::Failed })
}

/// Workers of a run: the requested number, if the topology can be partitioned.
fn workers(args: &LabArgs, scenario: &Scenario) -> usize {
    let (workers, why) = match args.live {
        true => (
            1,
            (args.workers > 1).then(|| "one worker runs it: a live run has one clock".to_owned()),
        ),
        false => partition::workers(scenario, args.workers.into()),
    };
    if let Some(why) = why {
        say(&why);
    }
    workers
}

/// In real time, after a run in virtual time if both are compared.
fn run_live(
    args: &LabArgs,
    scenario: &Arc<Scenario>,
    options: Options,
    about: &About,
    progress: &mut Progress,
) -> Result<Run, Failure> {
    let dilation = args.dilate.unwrap_or_else(|| live::load::dilation(scenario));
    let mut in_virtual = None;
    if args.compare.is_some() {
        let mut run = sweep::run(scenario, options, about, &mut |p| progress.pulse(p.now, p.end))?;
        if matches!(run.outcome, Outcome::Interrupted) {
            return Ok(run);
        }
        in_virtual = Some(std::mem::take(&mut run.report));
        progress.again();
    }
    let lasts_s = scenario.duration.as_ps() as f64 / 1e12 * dilation as f64;
    progress.clear();
    say(&format!(
        "live: {dilation} times slower, {lasts_s:.1} s where the machine keeps up; time in which it does not run this is added"
    ));
    let pulse = &mut |p: Pulse, _: &mut Lab| progress.pulse(p.now, p.end);
    let plan = live::Plan { dilation, most: args.seconds.map(Duration::from_secs) };
    let (mut run, found) = live::run(scenario, options, plan, about, pulse)?;
    let command = run.report.facts.iter_mut().find(|(name, _)| name == "command");
    if let (Some(seconds), Some((_, command))) = (args.seconds, command) {
        *command += &format!(" --seconds {seconds}");
    }
    let ran_s = run.report.find("run.time").map_or(f64::NAN, |figure| figure.value);
    let asked_s = scenario.duration.as_ps() as f64 / 1e12;
    if args.seconds.is_some() && run.outcome == Outcome::Complete && ran_s < asked_s {
        progress.clear();
        say(&format!(
            "ended after --seconds: the report is of {:.3} ms of {:.3} ms",
            ran_s * 1e3,
            asked_s * 1e3
        ));
    }
    if let (Some(report), Some(percent)) = (in_virtual, args.compare) {
        live::against::fill(&mut run.report, &report, &found, percent);
    }
    Ok(run)
}

/// Shows what is wrong at its place.
fn refuse(error: CheckError, scenario: &Scenario, files: &Files) -> Result<Status, Failure> {
    let mut found = Diagnostics::new();
    let wrong = match error {
        CheckError::Build(error) => {
            let Some(span) = error.place(scenario) else { return Err(error.into()) };
            let located = found.error(codes::SCENARIO, span, error.to_string());
            if let LabError::Entries { source, .. } = &error {
                for one in source.diagnostics.iter().take(REASONS_SHOWN) {
                    located.note(format!("it says: {}", one.message));
                }
                located
                    .help("what a switch program must have: programs/lab/reference.md, Switches");
            }
            show(&found, files);
            return Err("switches that cannot be built: nothing was run".into());
        }
        CheckError::Queues(wrong) => {
            for (span, problem) in wrong {
                match span {
                    Some(span) => {
                        found.error(codes::SCENARIO, span, problem);
                    }
                    None => complain(&problem),
                }
            }
            show(&found, files);
            return Err("queues that cannot be: nothing was run".into());
        }
        CheckError::Expect(wrong) => wrong,
    };
    for bad in wrong {
        let span = scenario.expect[bad.index].span;
        match &bad.error {
            ExpectError::NoFigure(name) => {
                let known = || bad.known.iter().map(String::as_str);
                let error = found.error(codes::UNKNOWN, span, bad.error.to_string());
                error.did_you_mean(name, known());
                if let Some(near) = of_the_same(name, known()) {
                    error.note(format!("there are {near}"));
                }
            }
            other => {
                found.error(codes::SCENARIO, span, other.to_string());
            }
        }
    }
    show(&found, files);
    Err("expectations that cannot be asked: nothing was run".into())
}

/// Figures similar to an unknown one: those with the most parts of its name in common, if they are few.
fn of_the_same<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let dots = name.match_indices('.').map(|(at, _)| &name[..=at]);
    let of = |part: &str| known.clone().filter(|known| known.starts_with(part)).collect::<Vec<_>>();
    let found = dots.map(of).rfind(|found| !found.is_empty())?;
    (found.len() <= FIGURES_SHOWN).then(|| format!("`{}`", found.join("`, `")))
}

/// Reports the speed of the runs: on standard error, because it differs each time.
fn tell_speed(runs: &[Run], seconds: f64) {
    let sum = |name: &str| -> f64 {
        let values = runs.iter().filter_map(|run| run.report.find(name));
        values.fold(0.0, |sum, figure| sum + figure.value)
    };
    let virtual_s = sum("run.time");
    let per_second = |name: &str| short_count(sum(name) / seconds);
    say(&format!(
        "{:.3} ms in {seconds:.2} s: {}; {} data packets delivered per second, {} events per second",
        virtual_s * 1e3,
        pace(virtual_s, seconds),
        per_second("run.delivered"),
        per_second("run.events"),
    ));
}

/// Three digits of a count, with the word behind them that it needs.
fn short_count(count: f64) -> String {
    match count {
        999_500.0.. => format!("{:.2} million", count / 1e6),
        9_999.5.. => format!("{:.0} thousand", count / 1e3),
        _ => format!("{count:.0}"),
    }
}

/// Writes all results into the requested folder, in place of the previous ones.
fn write(args: &LabArgs, runs: &[Run]) -> Result<(), Failure> {
    let Some(folder) = &args.output else { return Ok(()) };
    output::clear(folder)?;
    let open = Folder::make(folder)?;
    for run in runs {
        let below = match args.seeds {
            1 => String::new(),
            _ => format!("seed-{}/", run.seed),
        };
        let written = output::write(&open, &below, run)?;
        say(&format!("{written} files in {}", shown(&folder.join(&below))));
    }
    if args.seeds > 1 {
        output::write_seeds(&open, &sweep::by_seed(runs))?;
    }
    Ok(())
}

/// Writes and prints what runs found, and where a check broke that is not the one that is meant to.
fn finish(args: &LabArgs, runs: &[Run], meant: Option<&str>) -> Result<Status, Failure> {
    write(args, runs)?;
    for run in runs {
        if let Outcome::Failed(violation) = &run.outcome
            && meant != Some(violation.check)
        {
            complain(&format!(
                "check {} failed at {} with seed {}: {}",
                violation.check, violation.at, run.seed, violation.what
            ));
            if let Some(trace) = &run.packet_trace {
                say(trace.trim_end());
            }
        }
    }
    match (args.json, runs) {
        (true, [run]) if args.seeds == 1 => print_json(&json::value(&run.report)),
        (true, runs) => {
            print_json(&runs.iter().map(|run| json::value(&run.report)).collect::<Vec<_>>());
        }
        (false, [run]) if args.seeds == 1 => print(&text::summary(&run.report)),
        (false, runs) => {
            print(&text::table(&sweep::spread(runs)));
            for run in runs {
                let failed: Vec<String> = run
                    .report
                    .verdicts
                    .iter()
                    .filter(|verdict| verdict.failed())
                    .map(|verdict| format!("{}: {}", verdict.name, verdict.found))
                    .collect();
                let word = if failed.is_empty() { "PASS" } else { "FAIL" };
                let line = format!("{word}  seed {} {}", run.seed, failed.join("; "));
                print(&format!("{}\n", line.trim_end()));
            }
        }
    }
    let passed = runs.iter().all(|run| run.report.passed());
    Ok(if passed { Status::Success } else { Status::Failed })
}
