//! Interfaces with a queueing discipline of tc(8): a switch with bmv2's arguments has its rate, `run` names what its ports bypass.
//!
//! On veth pairs in a private namespace; needs root, `ip` and `tc`, and skips loudly otherwise.

use std::process::Command;
use std::time::{Duration, Instant};

use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip};

use crate::rig::{Wire, private_network, veth};

/// Writes into its one byte whether ten packets were in front of a packet in its queue.
const PROGRAM: &str = "#include <v1model.p4>
header seen_t { bit<8> deep; }
struct H { seen_t seen; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.seen); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 2; } }
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { if (s.enq_qdepth >= 10) { h.seen.deep = 1; } }
}
control D(packet_out p, in H h) { apply { p.emit(h.seen); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

const PACKETS: usize = 30;
/// On the wire with FCS, preamble and gap: 8 ms at 1 Mbit/s.
const BYTES: usize = 976;
const PACKET_MS: u64 = 8;

fn tc(arguments: &str) -> bool {
    let done = Command::new("tc").args(arguments.split_whitespace()).output().expect("tc runs");
    // A kernel may be built without the discipline.
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() || err.contains("qdisc kind is unknown"),
        "tc {arguments}: {err}"
    );
    done.status.success()
}

/// The two ways in which Mininet and people limit a rate.
const SHAPERS: [&[&str]; 2] = [
    &[
        "qdisc add dev b1 root handle 5: htb default 1",
        "class add dev b1 parent 5: classid 5:1 htb rate 1mbit burst 15k",
    ],
    &["qdisc add dev b1 root tbf rate 1mbit burst 15k latency 1s"],
];

#[test]
fn a_switch_of_bmv2s_arguments_has_the_rates_of_its_interfaces() {
    let test = "rates of interfaces";
    if !has_tool("tc") {
        return skip(test, "there is no `tc` (Debian package iproute2)");
    }
    for shaper in SHAPERS {
        let Some(_network) = private_network(test) else { return };
        veth("a0", "a1");
        veth("b0", "b1");
        if !shaper.iter().all(|words| tc(words)) {
            skip(test, "this kernel has no htb or tbf");
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("deep.p4").display().to_string();
        std::fs::write(&program, PROGRAM).expect("writes");
        let address = ["--grpc-server-addr", "127.0.0.1:0"];
        let ports = ["-i", "1@a1", "-i", "2@b1"];
        let switch =
            Switch::simple_switch_grpc(&[&[program.as_str()], &ports[..], &address].concat());
        assert!(
            switch.err().contains("port 2: 1 Mbit/s with a queue of 96 KB"),
            "{}",
            switch.err()
        );
        let (mut near, mut far) = (Wire::open("raw:a0"), Wire::open("raw:b0"));
        let begun = Instant::now();
        near.send(&vec![vec![0; BYTES]; PACKETS]);
        let came = far.receive(PACKETS);
        // The bucket of the port lets the first nine leave at once.
        let least = Duration::from_millis((PACKETS as u64 - 12) * PACKET_MS);
        assert!(begun.elapsed() > least, "{:?}", begun.elapsed());
        let deep: Vec<u8> = came.iter().map(|frame| frame[0]).collect();
        assert_eq!((deep.len(), deep[0], deep[PACKETS - 1]), (PACKETS, 0, 1), "{deep:?}");
        switch.end("TERM").expect(0, &[]);
    }
}

#[test]
fn a_discipline_that_ports_bypass_is_named() {
    let test = "disciplines that are bypassed";
    if !has_tool("tc") {
        return skip(test, "there is no `tc` (Debian package iproute2)");
    }
    let Some(_network) = private_network(test) else { return };
    veth("a0", "a1");
    veth("b0", "b1");
    // A discipline without a rate of its own: no class is the default.
    if !tc("qdisc add dev b1 root htb") {
        return skip(test, "this kernel has no htb");
    }
    let ports = ["1=raw:a1", "2=raw:b1"];
    let warned = |more: &[&str]| {
        let switch = Switch::on("l2_switch", &ports, more);
        let err = switch.err();
        switch.end("TERM").expect(0, &[]);
        err
    };
    let err = warned(&[]);
    assert!(err.contains("b1 (htb)") && err.contains("the other end of the link"), "{err}");
    if !(tc("qdisc del dev b1 root") && tc(SHAPERS[1][0])) {
        return skip(test, "this kernel has no tbf");
    }
    let err = warned(&[]);
    let remedy =
        "b1 (tbf), which neither shapes nor delays them: write `rate: 1 Mbit/s` for port 2";
    assert!(err.contains(remedy) && !err.contains("a1 ("), "{err}");
    // The program's own configuration has no queues.
    let err = warned(&["--rates-of-interfaces"]);
    assert!(err.contains("port 2: 1 Mbit/s with a queue of 96 KB"), "{err}");
    assert!(!err.contains("neither shapes"), "{err}");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("switch.yaml").display().to_string();
    let warned_with = |text: &str, more: &[&str]| {
        std::fs::write(&config, text).expect("writes");
        warned(&[&["--config", &config], more].concat())
    };
    let err = warned_with("ports: { 2: { rate: 1 Mbit/s } }\n", &[]);
    assert!(!err.contains("tbf"), "{err}");
    // Who configures queues configures their rates: none is added to them.
    let err = warned_with("ports: { 1: { rate: 5 Mbit/s } }\n", &["--rates-of-interfaces"]);
    assert!(err.contains(remedy) && !err.contains("queue of 96 KB"), "{err}");
    // What else the file has stays.
    let frame = format!("02000000000202000000000188b5{:092x}", 7);
    let generator = format!("generators: [{{ port: 1, frame: '{frame}', period: 20 ms }}]\n");
    let mut far = Wire::open("raw:b0");
    let err = warned_with(&generator, &["--rates-of-interfaces"]);
    assert!(err.contains("queue of 96 KB"), "{err}");
    let frames = far.receive(1);
    assert!(!frames.is_empty());
    assert_eq!((frames[0].len(), frames[0][59]), (60, 7));
}
