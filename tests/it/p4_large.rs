//! Programs with more metadata between ingress and egress than a descriptor holds: one of our own, and the large ones of `../shared/p4`.

use std::fs;
use std::path::Path;

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::program::EngineKind;
use wireyard_switch::stf::run::{Outcome, run_file};
use wireyard_tests::{shared, skip};

/// Runs a script on every engine and level.
fn passes_everywhere(script: &Path) {
    for engine in [EngineKind::Interpreter, EngineKind::Jit] {
        for level in 0..=LEVEL_MAX {
            match run_file(script, engine, level, &[]) {
                Outcome::Passed { .. } => {}
                Outcome::Failed(text) | Outcome::Malformed(text) => {
                    panic!("{}, {} at level {level}: {text}", script.display(), engine.name())
                }
            }
        }
    }
}

/// Queues, clones of both controls, groups, both ways to enter again.
#[test]
fn more_metadata_than_the_descriptor_holds_goes_with_every_copy() {
    passes_everywhere("data/carried/carried.stf".as_ref());
}

/// A program of the collection passes a script of ours.
fn passes(program: &str, script: &str) {
    let Some(folder) = shared().map(|shared| shared.join("p4")).filter(|p4| p4.is_dir()) else {
        return skip(script, "no p4c collection in ../shared/p4");
    };
    let made = tempfile::tempdir().expect("a folder");
    let path = made.path().join(script);
    let text = fs::read_to_string(format!("data/p4/{script}")).expect("the script");
    let program = folder.join("large").join(program);
    fs::write(&path, format!("program {}\n{text}", program.display())).expect("writes");
    passes_everywhere(&path);
}

#[test]
fn fabric_passes_packet_tests() {
    passes("fabric/fabric.p4", "fabric.stf");
}

#[test]
fn up4_passes_packet_tests() {
    passes("up4/up4.p4", "up4.stf");
}
