//! The differential machine for a bounded time, and everything it ever found.

use std::time::{Duration, Instant};

use wireyard_tests::differ::run::{Outcome, run};
use wireyard_tests::differ::{file, generate};
use wireyard_tests::workspace_root;

/// How long the machine runs here. `cargo run --example differ` runs it for long.
const TIME: Duration = Duration::from_secs(30);

#[test]
fn random_programs_do_the_same_on_every_engine_at_every_level() {
    let first: u64 = std::env::var("WIREYARD_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let start = Instant::now();
    let (mut agreed, mut refused, mut executions) = (0, 0, 0);
    for seed in first.. {
        match run(&generate::case(seed)) {
            Outcome::Agree { executions: more, .. } => {
                agreed += 1;
                executions += more;
            }
            Outcome::Refused(_) => refused += 1,
            Outcome::Differ(report) => panic!("seed {seed}: {report}"),
        }
        if start.elapsed() > TIME {
            break;
        }
    }
    println!("{agreed} programs agree in {executions} executions, {refused} were refused");
    assert!(agreed >= 5, "only {agreed} programs ran, {refused} were refused");
    assert!(refused * 10 <= agreed, "{refused} of {agreed} programs were refused");
}

#[test]
fn what_was_found_once_stays_right() {
    let folder = workspace_root().join("tests/data/regressions");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of regressions") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case = file::read(&path).unwrap_or_else(|why| panic!("{why}"));
        match run(&case) {
            Outcome::Agree { .. } => {}
            other => wrong.push(format!("{}: {other:?}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
