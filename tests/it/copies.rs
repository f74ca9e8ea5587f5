//! Programs whose copies are copied again: what one received frame can become is bounded, and `run` ends when it is told to.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use wireyard_tests::binary::{Ended, run};
use wireyard_tests::live::Switch;

use crate::rig::{Wire, private_network, veth};
use crate::run::write_pcap;

/// Egress whose mirror copy is mirrored again; port 2 is the session's.
const CLONES: &str = "egress: [ clone(5) ]\n";
/// Members of a group that all go round again.
const ROUNDS: &str = "egress: [ recirculate() ]\n";

/// A copy that goes round again is no copy in its next pass (PSA, `egress_rid`).
#[test]
fn the_number_of_a_copy_ends_with_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let program = "\
pipeline: example
include: [ethernet]
parser: { start: { extract: ethernet, next: accept } }
ingress:
  - if: std.packet_path == path.recirculate
    then: [ std.egress_port = 3 ]
    else: [ std.multicast_group = 1 ]
egress:
  - \"ethernet.src = bit<48>(std.instance)\"
  - if: std.packet_path == path.multicast
    then: [ recirculate() ]
";
    let script = "\
program program.yaml
mc_mgrp_create 1
mc_node_create 5 2
mc_node_associate 1 0
packet 1 020000000002 020000000001 88b5 00
expect 3 020000000002 000000000000 88b5 00 $
";
    fs::write(folder.path().join("program.yaml"), program).unwrap();
    let path = folder.path().join("again.stf");
    fs::write(&path, script).unwrap();
    run(&["test", path.to_str().unwrap()]).expect(0, &[]);
}

/// A folder with a program that sends to port 2, or to a group of four of its copies.
fn write_program(folder: &Path, egress: &str) {
    let to = if egress == CLONES { "std.egress_port = 2" } else { "std.multicast_group = 1" };
    let program = format!("pipeline: example\ningress: [ {to} ]\n{egress}");
    fs::write(folder.join("program.yaml"), program).unwrap();
    let members: Vec<String> = (0..4).map(|n| format!("{{ port: 2, instance: {n} }}")).collect();
    let entries = format!(
        "mirror_sessions: {{ 5: {{ port: 2 }} }}\nmulticast_groups: {{ 1: [ {} ] }}\n",
        members.join(", ")
    );
    fs::write(folder.join("entries.yaml"), entries).unwrap();
}

fn total(ended: &Ended) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON counters");
    report["total"].clone()
}

/// Copies that were not made, and packets that ended, for want of budget.
fn drops(total: &serde_json::Value) -> Option<u64> {
    let reasons = total["dropped"].as_array()?;
    reasons.iter().find(|reason| reason[0] == "too_many_copies")?[1].as_u64()
}

/// What becomes of one frame: copies made, sent, and not made.
fn expected(egress: &str) -> (u64, u64, u64) {
    // Each clone halves the budget; four members quarter it, and each of 4096 packets wants four again.
    if egress == CLONES { (13, 13, 1) } else { (4095, 0, 4096) }
}

#[track_caller]
fn check_total(total: &serde_json::Value, egress: &str, frames: u64) {
    let (generated, sent, dropped) = expected(egress);
    assert_eq!(total["generated"], generated * frames, "{total:#}");
    assert_eq!(total["sent"], sent * frames, "{total:#}");
    assert_eq!(drops(total), Some(dropped * frames), "{total:#}");
    assert_eq!((&total["balanced"], &total["queued"]), (&true.into(), &0.into()), "{total:#}");
}

#[test]
fn one_frame_ends_in_a_replay() {
    for (egress, more) in [(CLONES, ""), (ROUNDS, ""), (CLONES, "ports: { 2: { rate: 10Gbps } }")] {
        let folder = tempfile::tempdir().unwrap();
        write_program(folder.path(), egress);
        if !more.is_empty() {
            fs::write(folder.path().join("switch.yaml"), more).unwrap();
        }
        let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
        write_pcap(&input, &[vec![0x55; 60]]);
        let (input, output) = (format!("1={}", input.display()), format!("2={}", output.display()));
        let program = folder.path().to_str().unwrap();
        for engine in ["interp", "jit"] {
            let ended = run(&[
                "replay", program, "--in", &input, "--out", &output, "--engine", engine, "--json",
            ]);
            ended.expect(0, &[]);
            check_total(&total(&ended), egress, 1);
        }
        let ended = run(&["check", program]);
        ended.expect(0, &["warning[W0108]"]);
    }
}

#[test]
fn a_live_switch_forwards_on_and_ends_when_told() {
    let Some(_network) = private_network("a live switch under copies") else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    for egress in [CLONES, ROUNDS] {
        for workers in ["1", "2"] {
            let folder = tempfile::tempdir().unwrap();
            write_program(folder.path(), egress);
            let program = folder.path().to_str().unwrap();
            let ports = ["1=raw:sw1", "2=raw:sw2"];
            let switch = Switch::on(program, &ports, &["--json", "--workers", workers]);
            let mut host = Wire::open("raw:host1");
            let mut sink = Wire::open("raw:host2");
            let mut left = 0;
            for _ in 0..200 {
                host.send(&[vec![0x55; 60]]);
                left += sink.take();
            }
            // The first frame has become all that it may: on a busy machine that takes its time.
            let deadline = Instant::now() + Duration::from_secs(10);
            while egress == CLONES && left < 13 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
                left += sink.take();
            }
            let ended = switch.end("TERM");
            let total = total(ended.expect(0, &[]));
            // Of the rounds, more may wait at the end than half a second passes on.
            let is_bounded = drops(&total) > Some(0) || egress == ROUNDS;
            assert!(is_bounded, "{total:#}");
            assert!(total["generated"].as_u64() <= Some(200 * 4096), "{total:#}");
            assert_eq!(total["balanced"], true, "{total:#}");
        }
    }
}
