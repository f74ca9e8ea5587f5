//! PFC between two switches on veth: `one` sends at 100 Mbit/s to `two`, which has a quarter of that for the lossless class.
//!
//! How long `one` takes to obey a pause on this machine is measured first and put into the headroom formula of `two`.
//!
//! ```text
//! host1 -- sw1 [one] ab == ba [two] sw2 -- host2   the lossless class, 25 Mbit/s
//!                             [two] sw3 -- host3   another class, not limited
//! ```

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip};

use super::{LATEST, ask, counters, dropped, queue, receive_until};
use crate::emitted::tshark;
use crate::queues::frame;
use crate::queues::pauses::pfc;
use crate::rig::{Wire, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const LOSSLESS: u8 = 26;
const OTHER: u8 = 0;
/// Bytes of a packet in memory, and on the wire with FCS, preamble and gap.
const BYTES: usize = 1000;
const WIRE_BYTES: u64 = 1024;
/// Of the link between the switches: 12.5 bytes in a microsecond.
const LINK_MBIT: u64 = 100;
/// Packets of the lossless class on their way at once; 2 MB wait in `one`, whatever `two` has room for.
const WINDOW: u32 = 2000;
const TOTAL: u32 = 8000;
/// `two` says XOFF here.
const XOFF_BYTES: u64 = 60_000;

fn network(test: &str) -> Option<PrivateNetwork> {
    for tool in ["tcpdump", "tshark"] {
        if !has_tool(tool) {
            skip(test, &format!("there is no `{tool}`"));
            return None;
        }
    }
    let network = private_network(test)?;
    for (switch, host) in [("sw1", "host1"), ("ab", "ba"), ("sw2", "host2"), ("sw3", "host3")] {
        veth(switch, host);
    }
    Some(network)
}

fn start(config: &str, ports: &[&str]) -> Switch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.yaml");
    std::fs::write(&path, config).unwrap();
    let mut arguments = vec![PROGRAM, "--json", "--config", path.to_str().unwrap()];
    ports.iter().for_each(|port| arguments.extend(["--port", port]));
    Switch::start(&arguments)
}

/// The configuration of `two` with this headroom, and the bytes of it. It is a process on the same machine as its peer: what
/// holds for the peer's response holds for its own interfaces.
fn two(headroom: &str, response: Duration) -> (String, u64) {
    let response = response.as_micros();
    let text = format!(
        "ports:
  1: {{ rate: {LINK_MBIT}Mbps, mtu: 1518 B, peer_response: {response} us, interface_delay: {response} us }}
  2: {{ rate: 25Mbps, mtu: 1518 B }}
  3: {{ rate: 1Gbps, mtu: 1518 B }}
qos:
  preset: onyx_roce
  allow_lossy_headroom: true
  buffer_profiles:
    ingress_lossless: {{ pool: ingress_lossless_pool, static_th: {XOFF_BYTES} B, headroom: {headroom}, xon_at: 30 KB }}
"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.yaml");
    std::fs::write(&path, &text).unwrap();
    let checked = run(&["check", PROGRAM, "--json", "--config", path.to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&checked.expect(0, &[]).out).unwrap();
    let group = &shown["queues"]["groups"][0];
    assert_eq!((&group["port"], &group["group"]), (&"1".into(), &3.into()), "{group}");
    (text, group["headroom_bytes"].as_u64().unwrap())
}

fn is_lossless(bytes: &[u8]) -> bool {
    bytes[15] >> 2 == LOSSLESS
}

fn packets(to: u8, class: u8, numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers.map(|n| frame(1, to, class, 2, n, BYTES)).collect()
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([0, bytes[51], bytes[52], bytes[53]])
}

/// How long the first switch still sends after a pause was sent to it, by the bytes that come: the longest of ten tries.
fn measure_response(host1: &mut Wire) -> Duration {
    let mut peer = Wire::open("raw:ba");
    let (mut longest, packets_each) = (0, 500);
    for attempt in 0..10 {
        host1.send(&packets(2, LOSSLESS, 0..packets_each));
        let mut came = 0;
        receive_until(&mut peer, |bytes| {
            came += u64::from(is_lossless(&bytes));
            came >= 5
        });
        came += peer.take();
        // What follows the pause into the switch shows that it was obeyed; what follows the packets, that no more come.
        peer.send(&[pfc(3, u16::MAX).to_vec(), frame(2, 1, OTHER, 0, attempt, BYTES)]);
        receive_until(host1, |bytes| number(&bytes) == attempt);
        host1.send(&packets(2, OTHER, attempt..attempt + 1));
        let mut after = 0;
        receive_until(&mut peer, |bytes| {
            after += u64::from(is_lossless(&bytes));
            !is_lossless(&bytes)
        });
        longest = longest.max(after);
        peer.send(&[pfc(3, 0).to_vec()]);
        came += after;
        while came < u64::from(packets_each) {
            receive_until(&mut peer, |_| true);
            came += 1;
        }
    }
    peer.close();
    Duration::from_nanos(longest * WIRE_BYTES * 8000 / LINK_MBIT)
}

/// tcpdump of MAC control frames that arrive at an interface.
struct Dump {
    child: Child,
    path: std::path::PathBuf,
}

impl Dump {
    fn start(interface: &str, path: std::path::PathBuf) -> Dump {
        let errors = path.with_extension("log");
        let mut command = Command::new("tcpdump");
        command.args(["-n", "-U", "-Q", "in", "-i", interface, "-Z", "root", "-w"]).arg(&path);
        command.arg("ether proto 0x8808").stdout(Stdio::null());
        let child = command.stderr(std::fs::File::create(&errors).unwrap()).spawn();
        let dump = Dump { child: child.expect("tcpdump starts"), path };
        let deadline = Instant::now() + LATEST;
        while !std::fs::read_to_string(&errors).unwrap().contains("listening on") {
            assert!(Instant::now() < deadline, "tcpdump does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        dump
    }

    /// Pause time of priority 3 in each frame, as tshark reads it.
    fn pauses(mut self, expected: u64) -> Vec<u64> {
        let deadline = Instant::now() + LATEST;
        let columns = ["eth.dst", "macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3"];
        let rows = loop {
            let rows = tshark(&self.path, "macc", &columns);
            if rows.len() as u64 >= expected || Instant::now() > deadline {
                break rows;
            }
        };
        let _ = self.child.kill();
        let _ = self.child.wait();
        let value = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap_or_else(|_| panic!("`{text}`")),
        };
        let mut times = Vec::new();
        for row in rows {
            assert_eq!(row[0], "01:80:c2:00:00:01", "{row:?}");
            assert_eq!((value(&row[1]), value(&row[2])), (0x0101, 1 << 3), "{row:?}");
            times.push(value(&row[3]));
        }
        times
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hosts, and what they sent and saw.
struct Hosts {
    one: Wire,
    two: Wire,
    three: Wire,
    sent: u32,
    others_sent: u32,
    received: Vec<u32>,
    /// Packets of the lossless class that the second switch is known to have lost.
    lost: u32,
    others: u32,
}

impl Hosts {
    /// Lets both switches learn where everybody is.
    fn meet(&mut self) {
        for (host, n) in [(&mut self.two, 2), (&mut self.three, 3)] {
            host.send(&[frame(n, 1, OTHER, 0, u32::from(n), 100)]);
            receive_until(&mut self.one, |bytes| bytes[11] == n);
        }
        self.one.send(&[frame(1, 2, OTHER, 0, 0, 100), frame(1, 3, OTHER, 0, 0, 100)]);
        receive_until(&mut self.two, |bytes| bytes[5] == 2);
        receive_until(&mut self.three, |bytes| bytes[5] == 3);
    }

    fn look(&mut self) {
        for frame in self.two.poll().expect("the port works") {
            let bytes = self.two.bytes(frame);
            if is_lossless(&bytes) {
                self.received.push(number(&bytes));
            }
        }
        for frame in self.three.poll().expect("the port works") {
            let bytes = self.three.bytes(frame);
            self.others += u32::from(!is_lossless(&bytes) && bytes[5] == 3);
        }
    }

    /// Packets of the lossless class that arrived or were lost. What was lost behind the last that came is known from the switch only.
    fn done(&self) -> u32 {
        let last = self.received.last().map_or(0, |last| last + 1);
        last.max(self.received.len() as u32 + self.lost)
    }

    /// Sends as many packets as may be on their way, and of the other class one for sixteen.
    fn fill(&mut self) {
        while self.sent < TOTAL && self.sent - self.done() + 16 <= WINDOW {
            self.one.send(&packets(2, LOSSLESS, self.sent..self.sent + 16));
            self.one.send(&packets(3, OTHER, self.others_sent..self.others_sent + 1));
            (self.sent, self.others_sent) = (self.sent + 16, self.others_sent + 1);
        }
    }

    /// Goes on until so many packets of the lossless class arrived or were lost in the second switch.
    fn overload(&mut self, done: u32, switch: &Switch) {
        let mut deadline = Instant::now() + LATEST;
        while self.done() < done {
            let before = self.received.len();
            self.fill();
            let end = Instant::now() + Duration::from_millis(100);
            while Instant::now() < end && self.received.len() < before + 50 {
                self.look();
            }
            if self.received.len() > before {
                deadline = Instant::now() + LATEST;
                continue;
            }
            self.lost = dropped(&ask(switch), None) as u32;
            assert!(Instant::now() < deadline, "{} of {} came", self.received.len(), self.sent);
        }
    }

    /// The second host stops the lossless class altogether: the first switch is paused, and the other class goes on.
    fn stop_the_sink(&mut self, one: &Switch, two: &Switch) {
        let longest = Duration::from_nanos(u64::from(u16::MAX) * 512 * 1000 / 25);
        let (mut paused_at, deadline) = (Instant::now(), Instant::now() + LATEST);
        self.two.send(&[pfc(3, u16::MAX).to_vec()]);
        let before = loop {
            // A pause ends by itself, and a report may take longer on a busy machine.
            if paused_at.elapsed() > longest / 4 {
                paused_at = Instant::now();
                self.two.send(&[pfc(3, u16::MAX).to_vec()]);
            }
            self.fill();
            self.look();
            let report = ask(one);
            if queue(&report, 1, 3)["paused"] == true {
                break report;
            }
            self.lost = dropped(&ask(two), None) as u32;
            assert!(Instant::now() < deadline, "the first switch is not paused: {report:#}");
        };
        let wanted = self.others_sent + 100;
        self.one.send(&packets(3, OTHER, self.others_sent..wanted));
        self.others_sent = wanted;
        while self.others < wanted {
            if paused_at.elapsed() > longest / 4 {
                paused_at = Instant::now();
                self.two.send(&[pfc(3, u16::MAX).to_vec()]);
            }
            self.look();
            assert!(Instant::now() < deadline, "{} of {wanted}", self.others);
        }
        let after = ask(one);
        for (report, when) in [(&before, "before"), (&after, "after")] {
            let waiting = queue(report, 1, 3)["waiting"].as_u64();
            assert!(waiting > Some(500), "{when}: {waiting:?} packets wait");
        }
        assert_eq!(queue(&after, 1, 0)["paused"], false);
        self.two.send(&[pfc(3, 0).to_vec()]);
    }
}

/// What the second switch has, and what came of it.
struct Outcome {
    headroom_bytes: u64,
    one: Value,
    two: Value,
    received: Vec<u32>,
    pauses: Vec<u64>,
}

/// `TOTAL` packets through both, always as many as fit; the first switch is there already.
fn overload(one: Switch, host1: Wire, (config, headroom_bytes): (String, u64)) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let dump = Dump::start("ab", folder.path().join("pauses.pcap"));
    let before = ask(&one);
    let two = start(&config, &["1=xdp:ba", "2=raw:sw2", "3=raw:sw3"]);
    let mut hosts = Hosts {
        one: host1,
        two: Wire::open("raw:host2"),
        three: Wire::open("raw:host3"),
        sent: 0,
        others_sent: 0,
        received: Vec::new(),
        lost: 0,
        others: 0,
    };
    hosts.meet();
    hosts.overload(TOTAL / 2, &two);
    hosts.stop_the_sink(&one, &two);
    hosts.overload(TOTAL, &two);
    while hosts.others < hosts.others_sent {
        receive_until(&mut hosts.three, |bytes| bytes[5] == 3);
        hosts.others += 1;
    }
    let (one, two) = (counters(&one.end("INT")), counters(&two.end("INT")));
    let sent = said(&two, 0, "sent") + said(&two, 0, "resumes_sent");
    let pauses = dump.pauses(sent);
    let heard = |name| said(&one, 1, name) - said(&before, 1, name);
    // Both count the same frames, and so does the wire.
    assert_eq!(said(&two, 0, "sent"), heard("received"));
    assert_eq!(said(&two, 0, "resumes_sent"), heard("resumes_received"));
    let stops = pauses.iter().filter(|time| **time != 0).count() as u64;
    assert_eq!((stops, pauses.len() as u64), (said(&two, 0, "sent"), sent));
    Outcome { headroom_bytes, one, two, received: hosts.received, pauses }
}

/// A counter of the pauses of priority 3, the only one that has any.
fn said(report: &Value, port: usize, name: &str) -> u64 {
    let pauses = report["queueing"]["ports"][port]["pauses"].as_array().expect("pauses");
    assert!(pauses.iter().all(|known| known["priority"] == 3), "{pauses:?}");
    pauses.iter().map(|known| known[name].as_u64().expect("a count")).sum()
}

/// The first switch, and how long it takes to obey.
fn first() -> (Switch, Wire, Duration) {
    let config = format!(
        "ports: {{ 1: {{ rate: 1Gbps, mtu: 1518 B }}, 2: {{ rate: {LINK_MBIT}Mbps, mtu: 1518 B }} }}\nqos: {{ preset: onyx_roce }}\n"
    );
    let one = start(&config, &["1=raw:sw1", "2=raw:ab"]);
    let mut host1 = Wire::open("raw:host1");
    let response = measure_response(&mut host1);
    (one, host1, response)
}

/// What a process may wait for its processor among others; ten tries need not have met it.
const TIME_SLICES: Duration = Duration::from_millis(10);

/// With headroom by the formula for the measured response nothing is lost. Where this machine was slower than when it was
/// measured, the packets lost say so, and it is tried once more with three times the response.
#[test]
fn nothing_is_lost_between_two_switches() {
    let test = "nothing_is_lost_between_two_switches";
    for more in [1, 3] {
        let Some(_network) = network(test) else { return };
        let (one, host1, response) = first();
        let room = two("auto", response.max(TIME_SLICES) * more);
        let done = overload(one, host1, room);
        let groups = done.two["queueing"]["ports"][0]["groups"].as_array().expect("groups");
        let group = groups.iter().find(|known| known["group"] == 3).expect("the lossless group");
        eprintln!(
            "{test}: {response:?} measured, {} B of headroom, {} frames of PFC, {group}",
            done.headroom_bytes,
            done.pauses.len()
        );
        if dropped(&done.two, Some("headroom_exhausted")) > 0 && more == 1 {
            continue;
        }
        assert_eq!((dropped(&done.one, None), dropped(&done.two, None)), (0, 0));
        assert_eq!(done.received, (0..TOTAL).collect::<Vec<_>>());
        assert!(group["peak_headroom_bytes"].as_u64() <= Some(done.headroom_bytes), "{group}");
        assert!(group["peak_bytes"].as_u64() > Some(XOFF_BYTES), "{group}");
        assert!(done.pauses.len() > 40, "{} frames of PFC", done.pauses.len());
        return;
    }
}

/// Without headroom packets are lost, by name, so it is the headroom that keeps them.
#[test]
fn without_headroom_packets_are_lost_by_name() {
    let Some(_network) = network("without_headroom_packets_are_lost_by_name") else { return };
    let (one, host1, response) = first();
    let done = overload(one, host1, two("0 B", response));
    let lost = dropped(&done.two, Some("headroom_exhausted"));
    assert!(lost > 0, "{:#}", done.two);
    assert_eq!((dropped(&done.one, None), dropped(&done.two, None)), (0, lost));
    assert_eq!(done.received.len() as u64 + lost, u64::from(TOTAL));
}
