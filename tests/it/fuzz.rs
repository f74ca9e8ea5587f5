//! Every fuzz target for a bounded time, with inputs of a seed, and what was found once.
//!
//! `WIREYARD_FUZZ_INPUTS=100000` runs so many inputs of each, `WIREYARD_FUZZ_TARGET=stf` one target, `WIREYARD_SEED=7` another seed.
//! Under libFuzzer: `./ci.sh fuzz TARGET SECONDS`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wireyard_tests::differ::run::compiled;
use wireyard_tests::fuzz::engines::case;
use wireyard_tests::fuzz::{TARGETS, inputs, target};
use wireyard_tests::seeds::{self, number};
use wireyard_tests::workspace_root;

/// How long a target takes of an ordinary run, at most.
const LONGEST: Duration = Duration::from_secs(3);
/// Inputs of a target, however long they take.
const FEWEST: usize = 5;

/// Does an input; one that breaks a promise is kept as a file.
fn attempt(name: &str, run: fn(&[u8]), input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(input))) {
        let path =
            std::env::temp_dir().join(format!("wireyard-fuzz-{name}.{}", std::process::id()));
        fs::write(&path, input).expect("the input is kept");
        eprintln!("{name}: the input is {}: move it to tests/data/fuzz/{name}", path.display());
        std::panic::resume_unwind(panic);
    }
}

/// Inputs of a seed for one target.
fn bounded(name: &str) {
    let chosen = std::env::var("WIREYARD_FUZZ_TARGET").ok();
    if chosen.is_some_and(|chosen| chosen != name) {
        return;
    }
    let (target, asked) = (target(name).expect("a target"), number("WIREYARD_FUZZ_INPUTS"));
    let count = asked.map_or(target.inputs, |count| count as usize);
    let (began, mut ran) = (Instant::now(), 0);
    for input in inputs(target, seeds::first(), count) {
        attempt(name, target.run, &input);
        ran += 1;
        if asked.is_none() && ran >= FEWEST && began.elapsed() > LONGEST {
            break;
        }
    }
    eprintln!("{name}: {ran} inputs in {:?}", began.elapsed());
    assert!(ran >= FEWEST.min(count), "{ran} inputs");
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                bounded(stringify!($name));
            }
        )*

        /// Each target has a run here and a file for libFuzzer.
        #[test]
        fn every_target_is_run() {
            let here: BTreeSet<&str> = [$(stringify!($name)),*].into();
            let all: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here, all);
            let manifest = fs::read_to_string(workspace_root().join("tests/fuzz/Cargo.toml")).unwrap();
            for name in all {
                let file = workspace_root().join(format!("tests/fuzz/targets/{name}.rs"));
                let text = fs::read_to_string(&file).unwrap_or_default();
                assert!(text.contains(&format!("fuzz::run({name:?}, data)")), "{}", file.display());
                assert!(manifest.contains(&format!("name = {name:?}")), "{name} is not in Cargo.toml");
            }
        }
    };
}

targets! { program p4 config scenario stf capture packets engines tables endpoints control }

/// Bytes make programs that the front end accepts, mostly: what it refuses runs on no engine.
#[test]
fn most_random_programs_are_accepted() {
    const INPUTS: usize = 60;
    let target = target("engines").expect("a target");
    let refused = inputs(target, 1, INPUTS).filter(|data| compiled(&case(data)).is_err()).count();
    assert!(refused * 5 <= INPUTS, "{refused} of {INPUTS} are refused");
}

/// What was found once stays right.
#[test]
fn findings_stay_mended() {
    for target in &TARGETS {
        let folder = workspace_root().join("tests/data/fuzz").join(target.name);
        let files =
            fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let mut paths: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", folder.display());
        for path in paths {
            eprintln!("{}", path.display());
            (target.run)(&fs::read(&path).unwrap());
        }
    }
}
