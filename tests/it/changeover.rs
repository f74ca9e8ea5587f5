//! `wireyard run --engine auto` goes over from the interpreter to compiled code while it forwards.
//!
//! The program numbers packets, so that one that is lost, done twice or done by an engine with a state of its own is
//! seen. Most of it is an action that no packet of the test runs: it makes the compiler slow, and the
//! interpreter's time is seconds instead of milliseconds. What runs is what the switch reports between two bursts. Needs root;
//! skips loudly otherwise.

use std::fmt::Write;
use std::time::{Duration, Instant};

use wireyard_tests::live::Switch;

use crate::congested::{ask, counters, dropped};
use crate::rig::{Wire, private_network, veth};

/// Lines of the action that is only compiled.
const LINES: usize = 6000;
/// Frames on their way at a time.
const WINDOW: u32 = 64;
/// Frames that the last engine forwards before the test ends.
const AFTERWARDS: u32 = 2000;
/// The longest that compiling may take, on a machine that builds something else.
const LATEST: Duration = Duration::from_secs(400);

const CONTROLS: &str = "ingress:
  - let n = seen[0]
  - seen[0] = n + 1
  - tag.seen = n
  - tag.mixed = tag.sent * 0x9e3779b1 ^ n
  - apply: ways
  - if: ethernet.ether_type == 0xffff
    then: [ never(), 'tag.mixed = meta.wide[31:0]' ]
egress:
  - let n = left[0]
  - left[0] = n + 1
  - tag.left = n
deparser:
  emit: [ethernet, tag]
";

/// The folder of the program, its entries and this configuration.
fn program(config: &str) -> tempfile::TempDir {
    let mut text = String::from(
        "pipeline: changeover
include: [ethernet]
headers:
  tag_t: { fields: { sent: 32, seen: 32, mixed: 32, left: 32 } }
instances: { tag: tag_t }
registers: { seen: { bits: 32, size: 1 }, left: { bits: 32, size: 1 } }
metadata: { wide: 128 }
parser:
  start: { extract: ethernet, next: tag }
  tag: { extract: tag }
tables:
  ways: { key: { std.ingress_port: exact }, actions: [out, nop], default: nop, size: 4, counters: true }
actions:
  out: { params: { to: port }, do: [ std.egress_port = to ] }
  never:
    do:
",
    );
    for n in 0..LINES {
        let _ = writeln!(text, "      - meta.wide = meta.wide * {} + bit<128>(tag.sent)", n + 3);
    }
    text.push_str(CONTROLS);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("program.yaml", &text).expect("writes");
    let entries = "entries:\n  ways: [{ match: { std.ingress_port: 1 }, action: out(2) }]\n";
    write("entries.yaml", entries).expect("writes");
    write("switch.yaml", config).expect("writes");
    folder
}

/// The n-th frame: as it is sent, or as it arrives.
fn frame(n: u32, arrives: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    let words = if arrives { [n, n, n.wrapping_mul(0x9e37_79b1) ^ n, n] } else { [n, 0, 0, 0] };
    words.iter().for_each(|word| frame.extend(word.to_be_bytes()));
    frame.resize(60, n as u8);
    frame
}

/// Frames on their way through a switch, at most [`WINDOW`] at a time.
struct Stream {
    from: Wire,
    to: Wire,
    sent: u32,
    arrived: u32,
}

impl Stream {
    /// Fills the window and takes what arrived, which must be what comes next.
    fn turn(&mut self) {
        let more = self.arrived + WINDOW - self.sent;
        self.from.send(&(0..more).map(|n| frame(self.sent + n, false)).collect::<Vec<_>>());
        self.sent += more;
        self.take(1 + WINDOW / 4);
    }

    fn take(&mut self, count: u32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let until = self.arrived + count;
        while self.arrived < until {
            assert!(Instant::now() < deadline, "frame {} does not arrive", self.arrived);
            if let Some(bytes) = self.to.next() {
                assert_eq!(bytes, frame(self.arrived, true), "frame {}", self.arrived);
                self.arrived += 1;
            }
        }
    }
}

/// Forwards until all code is made, asking for counters all the time, and checks that every frame is the one that an engine
/// without a change would have sent.
fn goes_over(test: &str, config: &str) {
    let Some(_network) = private_network(test) else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = program(config);
    let switch = Switch::on(
        folder.path().to_str().expect("a path"),
        &["1=raw:sw1", "2=raw:sw2"],
        &["--engine", "auto", "--json"],
    );
    let (from, to) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let mut stream = Stream { from, to, sent: 0, arrived: 0 };
    // Engines in the order in which they were seen, with how many frames had arrived when each was seen first.
    let mut seen: Vec<(String, u32)> = Vec::new();
    let deadline = Instant::now() + LATEST;
    loop {
        stream.turn();
        let report = ask(&switch);
        let engine = report["program"]["engine"].as_str().expect("an engine");
        if seen.last().is_none_or(|(last, _)| last != engine) {
            seen.push((engine.to_owned(), stream.arrived));
        }
        let (last, since) = seen.last().expect("just pushed");
        if last == "jit" && stream.arrived - since > AFTERWARDS {
            break;
        }
        assert!(Instant::now() < deadline, "no compiled code: {seen:?}");
    }
    let rest = stream.sent - stream.arrived;
    stream.take(rest);
    assert!(stream.to.receive_unexpected().is_empty(), "more than was sent");
    let order: Vec<&str> = seen.iter().map(|(engine, _)| engine.as_str()).collect();
    // The codes of lower levels may be there too shortly to be seen.
    assert!(matches!(order[..], ["interp", "jit"] | ["interp", "jit_baseline", "jit"]), "{seen:?}");
    assert!(seen[0].1 > 0, "the interpreter forwarded");
    let report = counters(&switch.end("INT"));
    let total = &report["total"];
    assert_eq!((&total["received"], &total["sent"]), (&stream.sent.into(), &stream.sent.into()));
    assert_eq!(dropped(&report, None), 0, "{total}");
    assert_eq!(report["program"]["tables"][0]["hit_packets"], stream.sent, "one count for all");
    eprintln!("{test}: {seen:?}, {} frames", stream.sent);
}

/// Without queues egress is right behind ingress: a packet is done by one engine.
#[test]
fn auto_goes_over_while_it_forwards() {
    goes_over("auto_goes_over_while_it_forwards", "ports: {}\n");
}

/// Behind a slow port packets always wait: some did ingress by the interpreter and do egress by compiled code.
#[test]
fn auto_goes_over_while_packets_wait() {
    let config = "ports: { 1: { rate: 1Gbps }, 2: { rate: 20Mbps } }\nqos: { preset: plain }\n";
    goes_over("auto_goes_over_while_packets_wait", config);
}
