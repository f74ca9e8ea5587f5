//! Programs with more metadata between ingress and egress than a descriptor holds: one of our own, and the large ones of `../shared/p4`.

use std::fs;
use std::path::PathBuf;

use wireyard_tests::binary::run;
use wireyard_tests::scripts::passes_everywhere;
use wireyard_tests::{shared, skip};

/// Queues, clones of both controls, groups, both ways to enter again.
#[test]
fn more_metadata_than_the_descriptor_holds_goes_with_every_copy() {
    passes_everywhere("data/carried/carried.stf".as_ref());
}

/// The large programs of the collection.
fn large() -> Option<PathBuf> {
    shared().map(|shared| shared.join("p4/large")).filter(|large| large.is_dir())
}

/// A program of the collection passes a script of ours.
fn passes(program: &str, script: &str) {
    let Some(folder) = large() else {
        return skip(script, "no p4c collection in ../shared/p4");
    };
    let made = tempfile::tempdir().expect("a folder");
    let path = made.path().join(script);
    let text = fs::read_to_string(format!("data/p4/{script}")).expect("the script");
    let program = folder.join(program);
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

/// Each step of the interpreter in generic code costs more than the code around it, and nobody sees it in the packets.
#[test]
fn large_programs_leave_little_to_the_interpreter() {
    let Some(folder) = large() else {
        let test = "large_programs_leave_little_to_the_interpreter";
        return skip(test, "no p4c collection in ../shared/p4");
    };
    for (program, ingress) in [("fabric/fabric.p4", "none"), ("up4/up4.p4", "clone")] {
        let path = folder.join(program);
        let dump = run(&["dump", "--stage", "plan", path.to_str().expect("UTF-8")]);
        let steps = dump.out.lines().filter_map(|line| {
            line.trim().strip_prefix("generic code, steps of the interpreter: ")
        });
        assert_eq!(steps.collect::<Vec<_>>(), [ingress, "none"], "{program}: {}", dump.err);
    }
}
