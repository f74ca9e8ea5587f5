//! Every packet test of `programs/` on every engine at every level, and each program checked without a warning.

use std::path::PathBuf;

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::stf::run::{Outcome, run_file};
use wireyard_tests::workspace_root;

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(workspace_root().join("programs"))
        .expect("the programs")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.join("program.yaml").is_file())
        .collect();
    folders.sort();
    folders
}

fn scripts(folder: &PathBuf) -> Vec<PathBuf> {
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a program")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "stf"))
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn every_program_is_clean_and_loads() {
    for folder in folders() {
        let place = Place { program: folder.clone(), ..Place::default() };
        let loaded = load(&place).unwrap_or_else(|e| panic!("{}:\n{e}", folder.display()));
        assert!(loaded.warnings.is_empty(), "{}: {:?}", folder.display(), loaded.warnings);
        if let Err(error) = loaded.device(DeviceOptions::small()) {
            panic!("{}: {error}", folder.display());
        }
    }
}

/// Every engine at every optimisation level.
fn ways() -> impl Iterator<Item = (EngineKind, u8)> {
    let levels = || 0..=LEVEL_MAX;
    EngineKind::ALL.into_iter().flat_map(move |engine| levels().map(move |level| (engine, level)))
}

#[test]
fn every_packet_test_passes() {
    let mut failures = Vec::new();
    let mut packets_sent = 0;
    for folder in folders() {
        let scripts = scripts(&folder);
        assert!(!scripts.is_empty(), "{} has no packet test", folder.display());
        for script in scripts {
            for (engine, level) in ways() {
                match run_file(&script, engine, level, &Place::default()) {
                    Outcome::Passed { packets } => packets_sent += packets,
                    Outcome::Failed(report) | Outcome::Malformed(report) => {
                        failures.push(format!("{report} on {} at level {level}", engine.name()));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(packets_sent > 200, "only {packets_sent} packets were sent");
}
