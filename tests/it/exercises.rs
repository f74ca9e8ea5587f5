//! Programs like the exercises of P4's tutorials: a tunnel, marks of congestion, telemetry in the packet, several ways, a firewall, a
//! calculator, routes that the sender writes, probes.
//!
//! They are written here, after what the exercises are to do. Each has a packet test, which is done in memory on every engine, and with real
//! frames between hosts of Mininet around a switch that is started as bmv2's is and gets program and entries by P4Runtime.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::program::{EngineKind, Place};
use wireyard_switch::stf::run::{Outcome, run_file};
use wireyard_tests::binary::{run, wireyard};
use wireyard_tests::{skip, workspace_root};

use crate::rig::{ip, private_network};

const FOLDER: &str = "data/exercises";
/// Those whose ports have no rate, so that they can be done with real frames.
const LIVE: [&str; 7] =
    ["basic_tunnel", "calc", "firewall", "link_monitor", "load_balance", "mri", "source_routing"];

#[test]
fn exercises_pass_their_packet_tests_on_every_engine() {
    let entries = fs::read_dir(FOLDER).expect("the exercises");
    let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "stf"));
    assert_eq!(scripts.len(), 9, "{scripts:?}");
    for script in scripts {
        for (engine, level) in
            [(EngineKind::Interp, 0), (EngineKind::Jit, 0), (EngineKind::Jit, LEVEL_MAX)]
        {
            match run_file(&script, engine, level, &Place::default()) {
                Outcome::Passed { packets } => assert!(packets >= 3, "{}", script.display()),
                other => panic!("{}, {engine:?} {level}: {other:?}", script.display()),
            }
        }
    }
}

#[test]
fn exercises_pass_with_frames_of_mininet() {
    let test = "exercises in Mininet";
    let python = workspace_root().join("target/tools/shell/bin/python");
    if !python.exists() {
        return skip(test, "p4runtime-shell is not there (`./ci.sh tools` installs it)");
    }
    let has = Command::new("/usr/bin/python3").args(["-c", "import mininet.net"]).output();
    if !has.is_ok_and(|done| done.status.success()) {
        return skip(test, "Mininet is not there (Debian: mininet)");
    }
    let Some(_network) = private_network(test) else { return };
    ip("link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(wireyard(), path("simple_switch_grpc")).unwrap();
    for name in LIVE {
        let source = format!("tests/{FOLDER}/{name}.p4");
        run(&["p4info", &source, "-o", &path(&format!("{name}.txt"))]).expect(0, &[]);
        run(&["pack", &source, "-o", &path(&format!("{name}.bin"))]).expect(0, &[]);
    }
    let done = Command::new("timeout")
        .args(["120", "/usr/bin/python3"])
        .arg(format!("tests/{FOLDER}/mininet_exercises.py"))
        .arg(folder.path())
        .arg(python)
        .args(LIVE)
        .current_dir(workspace_root())
        .output()
        .expect("python runs");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let log = fs::read_to_string(path("switch.log")).unwrap_or_default();
    assert!(done.status.success() && out.contains("done"), "{out}{err}{log}");
}
