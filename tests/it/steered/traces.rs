//! `trace --live`: packets that pass a switch, by a filter, whatever else passes; and how it ends.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::binary::wireyard;
use wireyard_tests::workspace_root;

use super::{A, B, PROGRAM, Rig, frame, rig};
use crate::rig::private_network;

const C: [u8; 6] = [2, 0, 0, 0, 0, 0xc];

/// A trace that has begun: another one is refused.
struct Trace(Child);

impl Trace {
    fn begin(rig: &Rig, arguments: &[&str]) -> Trace {
        let mut command = Command::new(wireyard());
        command.args(["trace", "--live"]).args(arguments);
        command.env("WIREYARD_RUN_DIR", rig.switch.run_folder()).current_dir(workspace_root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let trace = Trace(command.spawn().expect("the command starts"));
        let deadline = Instant::now() + Duration::from_secs(10);
        let probe = ["trace", "--live", "--filter", "std.packet_length == 0", "--seconds", "0.001"];
        while !rig.switch.command(&probe).err.contains("a trace of packets goes on") {
            assert!(Instant::now() < deadline, "no trace goes on");
        }
        trace
    }

    /// What it printed, and what it complained of, when it has ended by itself.
    fn ended(mut self) -> (String, String) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let status = loop {
            match self.0.try_wait().expect("a child") {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    let _ = self.0.kill();
                    panic!("it does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        self.0.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        assert_eq!(status.code(), Some(0), "{err}");
        (out, err)
    }

    fn passes(self) -> Vec<Value> {
        let lines = self.ended().0;
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn kinds(pass: &Value) -> Vec<&str> {
    pass["events"].as_array().into_iter().flatten().filter_map(|e| e["event"].as_str()).collect()
}

/// Packet number and pass of each line.
fn numbers(passes: &[Value]) -> Vec<(u64, &str)> {
    let number = |pass: &Value| pass["packet"].as_u64().unwrap_or(0);
    passes.iter().map(|pass| (number(pass), pass["pass"].as_str().unwrap_or(""))).collect()
}

fn traced_with(more: &[&str]) {
    let mut rig = rig(PROGRAM, more);
    rig.does("table default fdb forward 2");
    let (wanted, other) = (frame(A, B), frame(A, C));
    let filter = "ethernet.src == 02:00:00:00:00:0b && std.ingress_port == 1";
    let trace = Trace::begin(&rig, &["--filter", filter, "--count", "2", "--json"]);
    // In one burst, so that packets around those that are wanted have their port and, about, their time.
    let burst = [&other, &other, &wanted, &other, &wanted, &other, &wanted].map(Vec::clone);
    rig.wires[0].send(&burst);
    let passes = trace.passes();
    assert_eq!(rig.wires[1].receive(7), burst, "what is traced leaves as the others do, in order");
    let mut found = numbers(&passes);
    found.sort_unstable();
    assert_eq!(found, [(1, "egress"), (1, "ingress"), (2, "egress"), (2, "ingress")]);
    for pass in &passes {
        let text = pass.to_string();
        assert!(text.contains("02:00:00:00:00:0b"), "{text}");
        assert!(!text.contains("02:00:00:00:00:0c") && pass["text"].is_null(), "{text}");
    }
    let ingress = passes.iter().find(|pass| pass["pass"] == "ingress").expect("one");
    for kind in ["extract", "apply", "action", "verdict"] {
        assert!(kinds(ingress).contains(&kind), "{kind}: {:?}", kinds(ingress));
    }
    // What nobody traces any more passes, and counts go on.
    assert_eq!(rig.passes(&wanted), std::slice::from_ref(&wanted));
    let stats = rig.switch.objects(&["stats"]).remove(0);
    assert_eq!(stats["total"]["balanced"], true, "{stats}");
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn packets_that_meet_a_filter_are_traced_through_both_passes() {
    let Some(_network) = private_network("traces") else { return };
    traced_with(&[]);
}

#[test]
fn packets_are_traced_through_two_workers() {
    let Some(_network) = private_network("traces of workers") else { return };
    traced_with(&["--workers", "2"]);
}

/// Copies of a group, and one as the packet was received; egress changes what it writes, so that each copy gets memory of its own.
const COPIES: &str = "\
pipeline: copied
include: [ethernet]
parser: { start: { extract: ethernet } }
ingress: [ ethernet.dst = 7, std.multicast_group = 5, clone(3) ]
egress: [ ethernet.ether_type = 0x9999 ]
deparser: { emit: [ethernet] }
";

#[test]
fn copies_are_traced_with_their_packet() {
    let Some(_network) = private_network("traces of copies") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("copied.yaml");
    std::fs::write(&program, COPIES).unwrap();
    let mut rig = rig(program.to_str().unwrap(), &[]);
    rig.does("multicast set 5 1:1 2:2 2:3");
    rig.does("mirror set 3 port=2");
    let trace = Trace::begin(&rig, &["--filter", "ethernet.src == 02:00:00:00:00:0b", "--json"]);
    rig.wires[0].send(&[frame(A, C), frame(A, B), frame(A, B)]);
    let passes = trace.passes();
    let mut found = numbers(&passes);
    found.sort_unstable();
    let egress = (1, "egress");
    assert_eq!(
        found,
        [egress, egress, egress, egress, (1, "ingress")],
        "3 of the group, 1 mirrored"
    );
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_trace_ends_by_ctrl_c_its_time_its_program_and_not_by_a_rate() {
    let Some(_network) = private_network("ends of traces") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table default fdb forward 2");
    let packet = frame(A, B);
    // Ctrl-C, after which another one can begin.
    let trace = Trace::begin(&rig, &["--filter", "std.packet_length == 99"]);
    let pid = trace.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().is_ok_and(|s| s.success()));
    let notes = "note: waits for a packet that meets the filter, 60 s at most; Ctrl-C ends it\n\
                 note: 0 of 1 packets met the filter until it was interrupted\n";
    assert_eq!(trace.ended(), (String::new(), notes.to_owned()));
    let deadline = Instant::now() + Duration::from_secs(5);
    let short = ["trace", "--live", "--seconds", "0.2"];
    let ended = loop {
        let ended = rig.switch.command(&short);
        if ended.status == Some(0) {
            break ended;
        }
        assert!(Instant::now() < deadline, "{}", ended.err);
    };
    assert!(ended.err.contains("0 of 1 packets came in 0.2 s"), "{}", ended.err);
    // Two looks a second: of ten packets, two are traced, and the others are reported and forwarded.
    let arguments = ["--rate", "2", "--count", "5", "--seconds", "0.5"];
    let trace = Trace::begin(&rig, &arguments);
    rig.wires[0].send(&vec![packet.clone(); 10]);
    assert_eq!(rig.wires[1].receive(10).len(), 10);
    let (out, err) = trace.ended();
    assert_eq!(out.matches(", ingress\n").count(), 2, "{out}");
    assert!(err.contains("8 packets that might have met it were not looked at"), "{err}");
    // Another program.
    let trace = Trace::begin(&rig, &["--filter", "std.packet_length == 99"]);
    rig.does(&format!("swap {PROGRAM}"));
    let mut child = trace.0;
    let status = child.wait().expect("a child");
    let mut err = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    assert_eq!(status.code(), Some(2), "{err}");
    assert!(err.contains("the program was replaced"), "{err}");
    rig.passes(&packet);
    for (filter, reason) in
        [("ethernet.scr == 1", "did you mean ethernet.src?"), ("ethernet.src ==", "filter:")]
    {
        let refused = rig.switch.command(&["trace", "--live", "--filter", filter]);
        assert_eq!(refused.status, Some(2));
        assert!(refused.err.contains(reason), "{}", refused.err);
    }
    rig.refuses("trace --live --count 0", "give 1 to 10000");
    rig.refuses("trace --live --hex 00", "cannot be used with");
    rig.refuses("trace --live --port 2", "cannot be used with");
    rig.refuses("trace --count 2 --hex 00 programs/l2_switch", "--live");
    rig.switch.end("TERM").expect(0, &[]);
}
