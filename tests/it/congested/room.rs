//! Packets beside bytes: packet memory of `run` is as large as the buffer, and its bound has a name.

use std::process::Command;
use std::time::{Duration, Instant};

use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::binary::{Ended, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip, workspace_root};

use super::{LATEST, ask, counters, dropped, queue};
use crate::queues::{frame, pfc};
use crate::rig::{Wire, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const PORTS: [&str; 3] = ["1=raw:sw1", "2=raw:sw2", "3=raw:sw3"];
/// The smallest frame, without its check sequence.
const SMALL: usize = 60;

/// 12 MB for one queue; port 2 is slow, port 3 has no rate.
fn config(slots: &str) -> String {
    format!(
        "ports: {{ 1: {{}}, 2: {{ rate: 10Mbps, pfc_enable: [0], priority_groups: {{ 0: lossless }} }}, 3: {{}} }}
qos:{slots}
  allow_lossy_headroom: true
  buffer_pools: {{ in: {{ direction: ingress, size: 12 MB }}, out: {{ direction: egress, size: 12 MB }} }}
  buffer_profiles:
    ingress_lossy: {{ pool: in, static_th: 12 MB }}
    egress_lossy: {{ pool: out, static_th: 12 MB }}
    lossless: {{ pool: in, static_th: 1 MB, headroom: 1 MB, xon_at: 500 KB }}
"
    )
}

struct Rig {
    _network: PrivateNetwork,
    _folder: tempfile::TempDir,
    switch: Switch,
    hosts: [Wire; 3],
    sent: u32,
}

impl Rig {
    fn new(test: &str, slots: &str) -> Option<Rig> {
        let network = private_network(test)?;
        (1..=3).for_each(|n| veth(&format!("sw{n}"), &format!("host{n}")));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("switch.yaml");
        std::fs::write(&file, config(slots)).unwrap();
        let switch = Switch::on(PROGRAM, &PORTS, &["--config", file.to_str().unwrap(), "--json"]);
        let mut hosts = [1, 2, 3].map(|n| Wire::open(&format!("raw:host{n}")));
        // Every address is learned, so that nothing is flooded.
        for n in [2, 3] {
            hosts[n - 1].send(&[frame(n as u8, 1, 0, 0, 0, 100)]);
            assert_eq!(hosts[0].receive(1).len(), 1);
        }
        while !hosts[2].receive_unexpected().is_empty() {}
        Some(Rig { _network: network, _folder: folder, switch, hosts, sent: 0 })
    }

    /// Sends so many of the smallest frames to a port that stands still; the switch has taken all.
    fn fill(&mut self, count: u32) {
        let begun = u64::from(self.sent);
        let before = ask(&self.switch)["total"]["received"].as_u64().unwrap();
        let mut paused = None;
        while self.sent < count {
            if paused.is_none_or(|at: Instant| at.elapsed() > Duration::from_millis(500)) {
                // It lasts for 3.4 s at this rate.
                self.hosts[1].send(&[pfc(0, u16::MAX).to_vec()]);
                paused = Some(Instant::now());
            }
            let until = (self.sent + 512).min(count);
            let burst: Vec<_> = (self.sent..until).map(|n| frame(1, 2, 0, 0, n, SMALL)).collect();
            self.hosts[0].send(&burst);
            self.sent = until;
            let (wanted, deadline) = (before + u64::from(until) - begun, Instant::now() + LATEST);
            loop {
                let report = ask(&self.switch);
                if report["total"]["received"].as_u64() >= Some(wanted) {
                    break;
                }
                assert!(Instant::now() < deadline, "{until} were sent: {report:#}");
            }
        }
    }

    /// What comes out once the port goes on, up to a last frame.
    fn drain(&mut self, count: u64) {
        self.hosts[1].send(&[pfc(0, 0).to_vec()]);
        let (mut got, mut deadline) = (0, Instant::now() + LATEST);
        while got < count {
            let more = self.hosts[1].take();
            assert!(Instant::now() < deadline, "{got} of {count} came");
            if more > 0 {
                (got, deadline) = (got + more, Instant::now() + LATEST);
            }
        }
    }
}

/// More of the smallest frames wait than packet memory had before it was made for the buffer; none is lost.
#[test]
fn a_buffer_full_of_small_frames_is_held() {
    const COUNT: u32 = 20_000;
    let test = "a_buffer_full_of_small_frames_is_held";
    let Some(mut rig) = Rig::new(test, "\n  packet_slots: 28000") else { return };
    rig.fill(COUNT);
    let waiting = queue(&ask(&rig.switch), 1, 0)["waiting"].as_u64().unwrap();
    assert!(waiting > 19_000, "{waiting} wait");
    rig.drain(COUNT.into());
    let report = counters(&rig.switch.end("INT"));
    assert_eq!(dropped(&report, None), 0, "{report:#}");
    for port in report["ports"].as_array().unwrap() {
        assert_eq!(port["medium"]["rx_no_memory"], 0, "{port:#}");
        assert_eq!(port["medium"]["rx_kernel_drops"], 0, "{port:#}");
    }
}

/// Beyond the bound, which is three quarters where a port is lossless, packets are refused by name, packet memory does not run out, and what goes elsewhere is not held up.
#[test]
fn more_packets_than_slots_are_refused_by_name() {
    const COUNT: u32 = 9_000;
    let Some(mut rig) = Rig::new("more_packets_than_slots_are_refused_by_name", "") else { return };
    rig.fill(COUNT);
    let elsewhere: Vec<_> = (0..200).map(|n| frame(1, 3, 0, 0, n, SMALL)).collect();
    rig.hosts[0].send(&elsewhere);
    assert!(rig.hosts[2].receive(200) == elsewhere, "what passes needs no slot");
    let refused = dropped(&ask(&rig.switch), Some("no_slot"));
    assert!(refused > 0 && refused <= u64::from(COUNT - 8_192 * 3 / 4), "{refused} refused");
    rig.drain(u64::from(COUNT) - refused);
    let report = counters(&rig.switch.end("INT"));
    assert_eq!(dropped(&report, None), refused, "{report:#}");
    for port in report["ports"].as_array().unwrap() {
        assert_eq!(port["medium"]["rx_no_memory"], 0, "{port:#}");
    }
}

/// Memory that the system does not give: said with what asked for it, and nothing starts.
#[test]
fn packet_memory_that_is_refused_is_told() {
    let test = "packet_memory_that_is_refused_is_told";
    if !has_tool("prlimit") {
        return skip(test, "there is no `prlimit` (Debian package util-linux)");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.yaml");
    std::fs::write(&file, config("\n  packet_slots: 1000000")).unwrap();
    let mut command = Command::new("prlimit");
    command.arg(format!("--as={}", 1u64 << 30)).arg(wireyard()).args(["run", PROGRAM]);
    command.args(["--port", "1=raw:no-such-port", "--config"]).arg(&file);
    let ended = command.current_dir(workspace_root()).output().expect("prlimit runs");
    let expected =
        ["packet memory: the system has no", "`packet_slots` of `qos:`: 1000000 packets"];
    Ended::of(&ended).expect(2, &expected);
}
