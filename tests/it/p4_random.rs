//! Random P4 programs: each engine at every level sends what an evaluator of the tree says, from the P4 source and from its YAML.
//!
//! `WIREYARD_P4_PROGRAMS=5000` runs more of them, `WIREYARD_FIRST_SEED` begins elsewhere, `WIREYARD_SEED=17` with
//! `WIREYARD_P4_PROGRAMS=1` runs one again.

use std::fs;
use std::path::Path;

use wireyard_pipeline::ast::print::units;
use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_pipeline::source::{Loader, parse_program};
use wireyard_switch::program::{EngineKind, Place};
use wireyard_switch::stf::run::{Outcome, PORTS_OF_P4, run_file};
use wireyard_tests::differ::random::Random;
use wireyard_tests::p4::{Made, random};
use wireyard_tests::seeds;

/// Runs the script with the program on every engine and level; what does not pass, with the way that it ran.
fn fails(folder: &Path, program: &str, script: &str) -> Option<String> {
    let path = folder.join("random.stf");
    fs::write(&path, format!("program {program}\n{script}")).expect("writes");
    let mut ways =
        (0..=LEVEL_MAX).flat_map(|level| [(EngineKind::Interp, level), (EngineKind::Jit, level)]);
    ways.find_map(|(engine, level)| match run_file(&path, engine, level, &Place::default()) {
        Outcome::Passed { .. } => None,
        Outcome::Failed(why) | Outcome::Malformed(why) => {
            Some(format!("{program}, {} at level {level}: {why}", engine.name()))
        }
    })
}

/// What is wrong with a program, through both doors.
fn wrong(folder: &Path, made: &Made) -> Option<String> {
    let source = folder.join("random.p4");
    fs::write(&source, &made.source).expect("writes");
    if let Some(why) = fails(folder, "random.p4", &made.script) {
        return Some(why);
    }
    let parsed = parse_program(&source, &Loader::new(Vec::new(), &[])).expect("it ran");
    fs::write(folder.join("random.yaml"), units(&parsed.units)).expect("writes");
    let ports: Vec<String> = (0..PORTS_OF_P4).map(|port| port.to_string()).collect();
    let script = format!("ports {}\n{}", ports.join(" "), made.script);
    fails(folder, "random.yaml", &script)
}

#[test]
fn random_p4_programs_do_what_their_evaluator_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let seed = seeds::first();
    let count = seeds::number("WIREYARD_P4_PROGRAMS").unwrap_or(30);
    for seed in seed..seed + count {
        let made = random(&mut Random::new(seed), 6);
        if let Some(why) = wrong(folder.path(), &made) {
            panic!(
                "{why}\n{}\n{}\nagain: WIREYARD_SEED={seed} WIREYARD_P4_PROGRAMS=1 cargo test -p wireyard-tests --test it random_p4",
                made.source, made.script
            );
        }
    }
}
