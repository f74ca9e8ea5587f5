//! Completion in the shell, with names of the switch that runs, and of programs inside the binary.

use std::path::Path;
use std::process::Command;

use wireyard_tests::binary::{Ended, wireyard};

use super::{PROGRAM, rig};
use crate::rig::private_network;

/// What fish is offered for these words, the last of which is not complete.
fn offered(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(wireyard());
    command.args(["--", "wireyard"]).args(words).env("COMPLETE", "fish");
    let ended = Ended::of(&command.env("WIREYARD_RUN_DIR", folder).output().expect("it runs"));
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
    let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    ended.out.lines().map(word).collect()
}

#[test]
fn names_of_the_running_switch_are_offered() {
    let Some(_network) = private_network("completion") else { return };
    let rig = rig(PROGRAM, &[]);
    let folder = rig.switch.run_folder();
    assert_eq!(offered(folder, &["table", "add", "f"]), ["fdb", "fixed"]);
    assert_eq!(offered(folder, &["table", "add", "acl", "ethernet.s"]), ["ethernet.src="]);
    assert_eq!(offered(folder, &["table", "add", "acl", "ethernet.src=1", "lea"]), ["learn_it"]);
    assert_eq!(offered(folder, &["register", "dump", "s"]), ["seen"]);
    assert_eq!(offered(folder, &["counter", "clear", "p"]), ["ports"]);
    assert_eq!(offered(folder, &["port", "down", ""])[..2], ["1", "2"]);
    assert_eq!(offered(folder, &["table", "list", "--switch", "con"]), ["controlled"]);
    rig.switch.end("TERM").expect(0, &[]);
    let empty = tempfile::tempdir().unwrap();
    let tables = offered(empty.path(), &["table", "add", "f"]);
    assert!(tables.is_empty(), "without a switch there are no names: {tables:?}");
}

#[test]
fn programs_and_scenarios_inside_the_binary_are_offered_beside_paths() {
    let folder = tempfile::tempdir().unwrap();
    let offered = |words: &[&str]| offered(folder.path(), words);
    for command in ["run", "check", "graph", "test"] {
        assert_eq!(offered(&[command, "l2_s"]), ["l2_switch"], "{command}");
    }
    assert_eq!(offered(&["lab", "dumbb"]), ["dumbbell"]);
    let paths = offered(&["run", "data/bmv2/basic.p"]);
    assert_eq!(paths, ["data/bmv2/basic.p4"]);
}
