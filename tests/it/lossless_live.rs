//! Two `wireyard run` switches at their defaults, one behind the other over veth: a lossless class under PFC loses nothing.
//!
//! The sender offers twice what the last link takes, and obeys pauses as a process does: when it is run. Half a second by default;
//! `WIREYARD_LOSSLESS_SECONDS=60` is the long form.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use wireyard_tests::binary::Ended;
use wireyard_tests::live::Switch;

use crate::rig::{Wire, private_network, veth};

/// Everything from port 1 is in class 3 and goes to port 2.
const PROGRAM: &str = "\
pipeline: example
ingress:
  - if: std.ingress_port == 1
    then: [ std.traffic_class = 3, std.egress_port = 2 ]
    else: [ std.egress_port = 1 ]
";
/// Bytes of a frame without FCS: RoCEv2 with 1024 bytes of payload.
const FRAME: usize = 1082;
/// What the sender offers: a link of 1 Gbit/s.
const FRAME_TIME: Duration = Duration::from_nanos((FRAME as u64 + 24) * 8);
/// Frames that the sender sends late at once.
const BURST_MAX: u32 = 64;
const QUANTUM: Duration = Duration::from_nanos(512);

fn seconds() -> f64 {
    let asked = std::env::var("WIREYARD_LOSSLESS_SECONDS").ok();
    asked.map_or(0.5, |text| text.parse().expect("a number of seconds"))
}

fn switch(folder: &Path, name: &str, ports: [&str; 2], rate: &str) -> Switch {
    let config = folder.join(format!("{name}.yaml"));
    let text = format!(
        "ports: {{ 1: {{ rate: 1Gbps }}, 2: {{ rate: {rate} }} }}\nqos: {{ preset: onyx_roce }}\n"
    );
    fs::write(&config, text).unwrap();
    let program = folder.join("program.yaml");
    fs::write(&program, PROGRAM).unwrap();
    let ports = [format!("1={}", ports[0]), format!("2={}", ports[1])];
    Switch::on(
        program.to_str().unwrap(),
        &[&ports[0], &ports[1]],
        &["--config", config.to_str().unwrap(), "--json"],
    )
}

/// How long priority 3 is paused by this frame, if it is one that says so.
fn pause(frame: &[u8]) -> Option<Duration> {
    let is_pfc = frame.get(12..16) == Some(&[0x88, 0x08, 0x01, 0x01]);
    let enabled = is_pfc && frame.get(17).is_some_and(|vector| vector & 1 << 3 != 0);
    let quanta = u16::from_be_bytes([*frame.get(24)?, *frame.get(25)?]);
    enabled.then(|| QUANTUM * u32::from(quanta))
}

/// A sender that obeys pauses, and a receiver that looks at the order.
struct Hosts {
    source: Wire,
    sink: Wire,
    next: Instant,
    paused_until: Instant,
    sent: u64,
    received: u64,
    missing: u64,
}

impl Hosts {
    fn turn(&mut self, sends: bool) {
        for frame in self.source.poll().expect("the port works") {
            let bytes = self.source.bytes(frame);
            if let Some(time) = pause(&bytes) {
                self.paused_until = Instant::now() + time;
            }
        }
        for frame in self.sink.poll().expect("the port works") {
            let bytes = self.sink.bytes(frame);
            if bytes.len() == FRAME {
                let number = u64::from_be_bytes(bytes[20..28].try_into().unwrap());
                self.missing += number - self.received - self.missing;
                self.received += 1;
            }
        }
        let now = Instant::now();
        if !sends || now < self.paused_until {
            self.next = now;
            return;
        }
        self.next = self.next.max(now.checked_sub(FRAME_TIME * BURST_MAX).unwrap_or(now));
        let mut burst = Vec::new();
        while self.next <= now {
            let mut frame = vec![0; FRAME];
            frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            frame[20..28].copy_from_slice(&self.sent.to_be_bytes());
            self.sent += 1;
            self.next += FRAME_TIME;
            burst.push(frame);
        }
        self.source.send(&burst);
    }
}

/// Counters of a switch that lost nothing.
fn check_lossless(ended: &Ended, name: &str) -> serde_json::Value {
    let report: serde_json::Value =
        serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON counters");
    let dropped = &report["total"]["dropped"];
    assert_eq!(dropped.as_array().map(Vec::len), Some(0), "{name}: {dropped}");
    for port in report["ports"].as_array().unwrap() {
        assert_eq!(port["medium"]["rx_kernel_drops"], 0, "{name}: {port:#}");
    }
    report
}

fn pauses_sent(report: &serde_json::Value, port: usize) -> u64 {
    let pauses = report["queueing"]["ports"][port]["pauses"].as_array().unwrap();
    pauses.iter().filter_map(|pause| pause["sent"].as_u64()).sum()
}

#[test]
fn a_lossless_class_between_live_switches_loses_nothing() {
    let Some(_network) = private_network("two live switches under PFC") else { return };
    veth("source", "a1");
    veth("a2", "b1");
    veth("b2", "sink");
    let folder = tempfile::tempdir().unwrap();
    let second = switch(folder.path(), "second", ["b1", "b2"], "500Mbps");
    let first = switch(folder.path(), "first", ["a1", "a2"], "1Gbps");
    let mut hosts = Hosts {
        source: Wire::open("raw:source"),
        sink: Wire::open("raw:sink"),
        next: Instant::now(),
        paused_until: Instant::now(),
        sent: 0,
        received: 0,
        missing: 0,
    };
    let end = Instant::now() + Duration::from_secs_f64(seconds());
    while Instant::now() < end {
        hosts.turn(true);
    }
    // What waits leaves: two buffers of 16 MB at half a gigabit.
    let deadline = Instant::now() + Duration::from_secs(5);
    while hosts.received < hosts.sent && Instant::now() < deadline {
        hosts.turn(false);
    }
    let (first, second) = (first.end("TERM"), second.end("TERM"));
    let counts = (hosts.sent, hosts.received, hosts.missing);
    println!("sent {}, received {}, missing {}; {}", counts.0, counts.1, counts.2, first.err);
    let (first, second) = (check_lossless(&first, "first"), check_lossless(&second, "second"));
    assert_eq!((hosts.received, hosts.missing), (hosts.sent, 0), "{first:#} {second:#}");
    assert!(hosts.sent > 1000, "{counts:?}");
    // Where the machine let the sender offer more than the last link takes.
    let offered = FRAME_TIME.as_secs_f64() * hosts.sent as f64;
    if seconds() >= 2.0 && offered > 0.7 * seconds() {
        assert!(pauses_sent(&second, 0) > 0, "the first switch was never paused: {second:#}");
        assert!(pauses_sent(&first, 0) > 0, "the sender was never paused: {first:#}");
    }
}
