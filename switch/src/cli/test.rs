//! `test`: packet tests on every engine, at one level or all.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::args::TestArgs;
use super::{Status, complain, print, print_json};
use crate::library;
use crate::program::{EngineKind, Place};
use crate::stf::run::{Outcome, run_file};
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::passes::LEVEL_MAX;

pub(super) fn run(args: &TestArgs) -> Status {
    let mut scripts = Vec::new();
    for path in &args.paths {
        if let Err(message) = collect(path, &mut scripts) {
            complain(&message);
            return Status::Wrong;
        }
    }
    if scripts.is_empty() {
        let paths: Vec<_> = args.paths.iter().map(|path| shown(path)).collect();
        let paths = paths.join(", ");
        complain(&format!(
            "{paths}: no .stf file there: a test is a script beside a program (programs/STF.md)"
        ));
        return Status::Wrong;
    }
    let ways = ways(args);
    let place = Place {
        include: args.sources.include.clone(),
        defines: args.sources.defines.clone(),
        max_state: args.limits.max_state(),
        ..Place::default()
    };
    let mut worst = Status::Success;
    let (mut passed, mut failed) = (0, 0);
    let mut rows = Vec::new();
    for script in &scripts {
        for (at, (engine, level)) in ways.iter().enumerate() {
            let outcome = run_file(script, *engine, *level, &place);
            let name = format!("{} [{} at level {level}]", shown(script), engine.name());
            let text = match &outcome {
                Outcome::Passed { packets } => {
                    passed += 1;
                    format!("ok    {name} {packets} packets\n")
                }
                Outcome::Failed(report) => {
                    failed += 1;
                    worst = if worst == Status::Wrong { worst } else { Status::Failed };
                    format!("FAIL  {name}\n{report}\n")
                }
                Outcome::Malformed(message) => {
                    failed += 1;
                    worst = Status::Wrong;
                    let name = if at == 0 { shown(script).into_owned() } else { name };
                    format!("ERROR {name}\n{message}\n")
                }
            };
            if args.json {
                rows.push(serde_json::json!({
                    "script": shown(script), "engine": engine.name(), "opt_level": level,
                    "passed": matches!(outcome, Outcome::Passed { .. }), "report": text,
                }));
            } else {
                print(&text);
            }
            // What cannot be read is the same for every engine and level.
            if matches!(outcome, Outcome::Malformed(_)) {
                break;
            }
        }
    }
    if args.json {
        print_json(&rows);
    } else {
        print(&format!("{passed} passed, {failed} failed\n"));
    }
    worst
}

/// Engines and levels for each script.
fn ways(args: &TestArgs) -> Vec<(EngineKind, u8)> {
    let engines = args.engine.map_or(EngineKind::ALL.to_vec(), |engine| vec![engine]);
    let levels = if args.every_level { 0..=LEVEL_MAX } else { args.opt_level..=args.opt_level };
    engines
        .into_iter()
        .flat_map(|engine| levels.clone().map(move |level| (engine, level)))
        .collect()
}

/// The message for a path where nothing is.
fn not_there(path: &Path) -> String {
    let programs = library::programs();
    let near = path.to_str().and_then(|name| suggest(name, programs.iter().copied()));
    let near = near.map_or(String::new(), |near| {
        format!(": did you mean `{near}`, which is inside wireyard?")
    });
    format!("{}: there is no such script or folder{near}", shown(path))
}

/// A script, or every script below a folder, in the order of their names, or those of a program inside the binary. Links
/// to folders below it are not followed: they may lead in a circle.
fn collect(path: &Path, scripts: &mut Vec<PathBuf>) -> Result<(), String> {
    let inside = library::program_path(path);
    if inside != path {
        let program = path.to_string_lossy();
        let names = library::files_of(&program).into_iter().map(|(name, _)| name);
        let tests = names.filter(|name| name.ends_with(".stf"));
        scripts.extend(tests.map(|name| inside.join(name)));
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", shown(path));
    let kind = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_there(path),
        _ => failed(error),
    })?;
    if kind.is_file() {
        scripts.push(path.to_owned());
        return Ok(());
    }
    if !kind.is_dir() {
        return Err(format!("{}: neither a script nor a folder of scripts", shown(path)));
    }
    let mut entries = std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    for (entry, kind) in entries {
        if kind.is_dir() {
            collect(&entry, scripts)?;
        } else if entry.extension().is_some_and(|e| e == "stf") && !entry.is_dir() {
            scripts.push(entry);
        }
    }
    Ok(())
}
