//! Runs the differential machine for long.
//!
//! `cargo run --release -p wireyard-tests --example differ -- --seed 1 --count 10000 [--packets N] [--out DIR]`
//!
//! Every case that differs is made small and written to the folder (default `tests/data/regressions`); the
//! exit status is 1 then. `--file F` runs one file again, `--show` prints why programs are refused.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use wireyard_tests::differ::run::{Outcome, Seen, run};
use wireyard_tests::differ::{Case, file, generate, shrink};

/// A panic is a difference too.
fn outcome(case: &Case) -> Outcome {
    let ended = catch_unwind(AssertUnwindSafe(|| run(case)));
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Outcome::Differ(format!("panic: {text}"))
    })
}

#[derive(Default)]
struct Totals {
    executions: u64,
    seen: Seen,
    agreed: u64,
    refused: BTreeMap<String, u64>,
    differed: Vec<u64>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    if let Some(path) = after("--file") {
        let case = file::read(path.as_ref()).unwrap_or_else(|why| panic!("{why}"));
        let ended = outcome(&case);
        println!("{ended:?}");
        return if matches!(ended, Outcome::Agree { .. }) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let number =
        |name: &str, default: u64| after(name).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (first, count) = (number("--seed", 0), number("--count", 1000));
    let folder = after("--out").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/regressions"),
        PathBuf::from,
    );
    let packets = after("--packets").and_then(|n| n.parse().ok());
    let mut totals = Totals::default();
    for seed in first..first + count {
        one(seed, packets, &folder, &mut totals);
        if (seed - first + 1).is_multiple_of(500) {
            let Totals { executions, agreed, differed, .. } = &totals;
            println!(
                "up to seed {seed}: {agreed} programs, {executions} executions, differed: {differed:?}"
            );
        }
    }
    let Totals { executions, seen, agreed, refused, differed } = &totals;
    println!(
        "seeds {first} to {}: {agreed} programs agree in {executions} executions, {} were refused, {} differ: \
         {differed:?}\n{seen:?}",
        first + count - 1,
        refused.values().sum::<u64>(),
        differed.len(),
    );
    if args.iter().any(|arg| arg == "--show") {
        let mut reasons: Vec<_> = refused.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        reasons.iter().for_each(|(why, count)| println!("{count} {why}"));
    }
    if differed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, packets: Option<usize>, folder: &std::path::Path, totals: &mut Totals) {
    let case = generate::case_of(seed, packets);
    match outcome(&case) {
        Outcome::Agree { executions, seen } => {
            totals.executions += executions;
            totals.seen += seen;
            totals.agreed += 1;
        }
        Outcome::Refused(why) => {
            let line = why.lines().find(|l| l.starts_with("error")).unwrap_or(&why).to_owned();
            *totals.refused.entry(line).or_default() += 1;
            if std::env::args().any(|arg| arg == "--show") {
                println!("seed {seed} is refused: {why}");
            }
        }
        Outcome::Differ(report) => {
            totals.differed.push(seed);
            println!("seed {seed} differs: {report}");
            let small =
                shrink::shrink(&case, &mut |case| matches!(outcome(case), Outcome::Differ(_)));
            let Outcome::Differ(now) = outcome(&small) else { return };
            let path = folder.join(format!("seed_{seed}.json"));
            let note = format!("seed {seed}: {now}");
            match std::fs::write(&path, file::write(&small, &note)) {
                Ok(()) => println!("written to {}:\n{now}", path.display()),
                Err(error) => println!("{}: {error}", path.display()),
            }
        }
    }
}
