//! Packet generators of a device: exact in virtual time, through `replay` and `run`, and refused where they cannot be.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::core::PortReport;
use wireyard_tables::time::Time;
use wireyard_tests::binary::run;
use wireyard_tests::capture;
use wireyard_tests::live::Switch;
use wireyard_tests::wires::Fabric;

use crate::queues::{device_with_ports, frame};
use crate::rig::{Wire, private_network, veth};
use crate::run::write_pcap;

/// Forwards what was generated to port 2, and nothing else; the time of entry goes into the source address.
const PROGRAM: &str = "pipeline: generated
include: [ethernet]
parser:
  start: { extract: ethernet }
ingress:
  - if: std.packet_path != path.generated
    then: [ drop not_generated ]
  - \"ethernet.src = std.ingress_ns[47:0]\"
  - std.egress_port = 2
";

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("generated.yaml");
    std::fs::write(&path, PROGRAM).unwrap();
    path
}

/// 60 bytes that end with `last`, in hexadecimal.
fn hex(last: u8) -> String {
    format!("020000000002 020000000001 88b5 {}{last:02x}", "00".repeat(45))
}

fn generators() -> String {
    format!(
        "ports: {{ 1: {{}}, 2: {{}} }}
generators:
  - {{ port: 1, frame: {}, period: 10 us, count: 4, start: 3 us }}
  - {{ port: 2, frame: {}, period: 7 us, count: 2 }}
",
        hex(1),
        hex(2)
    )
}

/// Time of entry in microseconds, and the last byte.
fn seen(bytes: &[u8]) -> (u64, u8) {
    let ns = bytes[6..12].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    (ns / 1000, bytes[59])
}

const EXPECTED: [(u64, u8); 6] = [(0, 2), (3, 1), (7, 2), (13, 1), (23, 1), (33, 1)];

#[test]
fn generated_frames_enter_when_they_are_due() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let (core, fars) = device_with_ports(path.to_str().unwrap(), &generators(), 2);
    let mut fabric = Fabric::new(vec![core]);
    fars[0].send(Time::from_ns(5_000), &frame(1, 2, 0, 0, 0, 100));
    fabric.run_until(Time::from_ns(1_000_000));
    let sent = fars[1].take();
    assert_eq!(sent.iter().map(|f| seen(&f.bytes)).collect::<Vec<_>>(), EXPECTED);
    assert!(
        sent.iter().all(|f| f.start.as_ns() / 1000 == seen(&f.bytes).0),
        "no time passes inside"
    );
    let reports = PortReport::all(&mut fabric.cores[0]);
    let generated: Vec<u64> = reports.iter().map(|port| port.ledger.generated).collect();
    assert_eq!(generated, [4, 2], "booked where they entered");
    let report = fabric.cores[0].report();
    assert_eq!((report.received, report.generated, report.sent), (1, 6, 6));
    assert_eq!(fabric.cores[0].report().dropped_for("not_generated"), 1);
    fabric.check();
}

/// At one instant they come in the order in which they are written.
#[test]
fn generators_of_one_instant_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let config = generators().replace("count: 4, start: 3 us", "count: 2");
    let config = config.replace("period: 7 us", "period: 10 us");
    let (core, fars) = device_with_ports(path.to_str().unwrap(), &config, 2);
    let mut fabric = Fabric::new(vec![core]);
    fabric.run_until(Time::from_ns(1_000_000));
    let sent: Vec<_> = fars[1].take().iter().map(|f| seen(&f.bytes)).collect();
    assert_eq!(sent, [(0, 1), (0, 2), (10, 1), (10, 2)]);
}

/// Replays one frame at time zero and one at 20 us through these generators.
fn replayed(folder: &Path, config: &str) -> (Vec<(u64, u8)>, Value) {
    let path = |name: &str| folder.join(name);
    let config_path = path("switch.yaml");
    std::fs::write(&config_path, config).unwrap();
    let other = frame(1, 2, 0, 0, 0, 100);
    write_pcap(&path("in.pcap"), &vec![other; 21]);
    let input = format!("1={}", path("in.pcap").display());
    let output = format!("2={}", path("out.pcap").display());
    let (program, config) = (program(folder), config_path.to_str().unwrap());
    let ended = run(&[
        "replay",
        program.to_str().unwrap(),
        "--config",
        config,
        "--json",
        "--in",
        &input,
        "--out",
        &output,
    ]);
    ended.expect(0, &[]);
    let frames = capture::read(&path("out.pcap")).unwrap().records;
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["total"]["balanced"], true, "{report}");
    (frames.iter().map(|(bytes, _)| seen(bytes)).collect(), report)
}

/// Those that end run to their end, also behind the input; those without an end stop with the input, at 20 us.
#[test]
fn generators_run_in_replay() {
    let folder = tempfile::tempdir().unwrap();
    let (frames, report) = replayed(folder.path(), &generators());
    assert_eq!(frames, EXPECTED);
    assert_eq!(
        (&report["total"]["generated"], &report["total"]["received"]),
        (&6.into(), &21.into())
    );
    let (frames, _) = replayed(folder.path(), &generators().replace(", count: 2", ""));
    let endless: Vec<u64> = frames.iter().filter(|(_, n)| *n == 2).map(|(at, _)| *at).collect();
    assert_eq!(endless, [0, 7, 14]);
    assert_eq!(frames.len(), 4 + 3);
}

#[test]
fn generators_run_live() {
    let Some(_network) = private_network("generators_run_live") else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let text = generators()
        .replace("10 us, count: 4", "2 ms, count: 50")
        .replace("7 us, count: 2", "7 ms");
    std::fs::write(&config, text).unwrap();
    let path = program(folder.path());
    let mut host2 = Wire::open("raw:host2");
    let switch = Switch::on(
        path.to_str().unwrap(),
        &["1=raw:sw1", "2=raw:sw2"],
        &["--config", config.to_str().unwrap(), "--json"],
    );
    let (mut frames, begin) = (Vec::new(), Instant::now());
    while frames.iter().filter(|(_, n)| *n == 1).count() < 50 {
        assert!(begin.elapsed() < Duration::from_secs(10), "{frames:?}");
        frames.extend(host2.next().map(|bytes| seen(&bytes)));
    }
    let ended = switch.end("INT");
    let due = |n: u8| frames.iter().filter(move |(_, of)| *of == n).map(|(at, _)| *at);
    assert!(due(1).eq((0..50).map(|n| 3 + n * 2000)), "{frames:?}");
    assert!(due(2).eq((0..due(2).count() as u64).map(|n| n * 7000)), "{frames:?}");
    let report: Value = serde_json::from_str(&ended.expect(0, &[]).out).unwrap();
    assert_eq!(report["total"]["balanced"], true, "{report}");
    assert_eq!(report["ports"][0]["ledger"]["generated"], 50, "{report}");
}

#[test]
fn what_cannot_be_generated_is_refused_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let path = program(folder.path());
    let refused = |from: &str, to: &str, texts: &[&str]| {
        let text = generators();
        assert!(text.contains(from), "{from}");
        std::fs::write(&config, text.replacen(from, to, 1)).unwrap();
        let arguments = ["check", path.to_str().unwrap(), "--config", config.to_str().unwrap()];
        run(&arguments).expect(1, texts);
    };
    refused("10 us", "0 us", &["switch.yaml:3:", "a period is above zero"]);
    refused("10 us", "10", &["switch.yaml:3:", "\"10\": missing unit"]);
    refused("88b5 ", "88b ", &["switch.yaml:3:", "119 digits are no whole number of bytes"]);
    refused("88b5", "88x5", &["switch.yaml:3:", "`x` is no hexadecimal digit"]);
    refused(
        &hex(1),
        "0200",
        &["switch.yaml:3:", "a frame has 14 to 9216 bytes without FCS, not 2"],
    );
    refused("period", "perod", &["switch.yaml:3:", "did you mean `period`?"]);
    std::fs::write(&config, generators().replacen("port: 1", "port: 9", 1)).unwrap();
    // The command line may still add the port.
    run(&["check", path.to_str().unwrap(), "--config", config.to_str().unwrap()])
        .shows(&["`ports` has no port 9", "switch.yaml:3:"]);
    write_pcap(&folder.path().join("in.pcap"), &[]);
    let input = format!("1={}", folder.path().join("in.pcap").display());
    let arguments =
        ["replay", path.to_str().unwrap(), "--config", config.to_str().unwrap(), "--in", &input];
    run(&arguments).expect(2, &["generator 1: there is no port 9", "switch.yaml:3:"]);
}

/// A generator is a peer that sends: also its PAUSE and PFC frames end at the port (802.3 clause 31).
#[test]
fn a_generated_pause_stops_the_port_and_goes_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let pause = "0180c2000001 020000000009 8808 0001 ffff".replace(' ', "") + &"00".repeat(42);
    let config = format!(
        "ports: {{ 1: {{ rate: 10Gbps, flow_control: pause, peer: hardware }}, 2: {{ rate: 10Gbps, flow_control: pause, peer: hardware }} }}
generators:
  - {{ port: 2, frame: {pause}, period: 1 ms, count: 1 }}
  - {{ port: 1, frame: {}, period: 1 us, count: 1, start: 1 us }}
",
        hex(1)
    );
    let (core, fars) = device_with_ports(path.to_str().unwrap(), &config, 2);
    let mut fabric = Fabric::new(vec![core]);
    fabric.run_until(Time::from_ns(1_000_000));
    assert_eq!(fars[1].take().len(), 0, "65535 quanta of 51.2 ns are 3.3 ms");
    fabric.run_until(Time::from_ns(5_000_000));
    let sent = fars[1].take();
    assert_eq!(sent.iter().map(|f| seen(&f.bytes)).collect::<Vec<_>>(), [(1, 1)]);
    assert!(sent[0].start.as_ns() > 3_300_000, "{:?}", sent[0].start);
    let report = fabric.cores[0].report();
    assert_eq!((report.received, report.generated, report.sent), (0, 2, 1));
    fabric.check();
}
