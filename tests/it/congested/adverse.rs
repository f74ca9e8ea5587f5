//! What peers and cables do to a lossless switch, on veth: a storm of pauses, a peer that obeys none, an interface that goes down with
//! a full queue. Each is reported, counted and bounded, and the third port loses nothing by it.

use std::time::{Duration, Instant};

use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::live::Switch;

use super::{LATEST, ask, counters, dropped, queue, receive_until};
use crate::queues::{frame, lossless_config, pfc};
use crate::rig::{Wire, ip, private_network, veth};

const LOSSLESS: u8 = 26;
const OTHER: u8 = 0;
/// A pause of 65,535 quanta lasts for 3.4 s on port 2, a frame of 1000 bytes for 0.8 ms.
const PORTS: &str = "{ 1: { rate: 1Gbps }, 2: { rate: 10Mbps }, 3: { rate: 1Gbps } }";

struct Rig {
    _network: PrivateNetwork,
    _folder: tempfile::TempDir,
    switch: Switch,
    hosts: [Wire; 3],
    others: u32,
}

impl Rig {
    /// A switch with ports of this kind that knows where everybody is. `settings` go to the defaults of ports.
    fn new(test: &str, kind: &str, settings: &str) -> Option<Rig> {
        let network = private_network(test)?;
        (1..=3).for_each(|n| veth(&format!("sw{n}"), &format!("host{n}")));
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("switch.yaml");
        std::fs::write(&config, lossless_config(PORTS) + settings).unwrap();
        let ports = [1, 2, 3].map(|n| format!("{n}={kind}:sw{n}"));
        let ports = ports.each_ref().map(String::as_str);
        let more = ["--config", config.to_str().unwrap(), "--json"];
        let switch = Switch::on("programs/rocev2_lossless", &ports, &more);
        let hosts = [1, 2, 3].map(|n| Wire::open(&format!("raw:host{n}")));
        let mut rig = Rig { _network: network, _folder: folder, switch, hosts, others: 0 };
        for n in [2, 3] {
            rig.hosts[usize::from(n) - 1].send(&[frame(n, 1, OTHER, 0, 0, 100)]);
            receive_until(&mut rig.hosts[0], |bytes| bytes[11] == n);
        }
        Some(rig)
    }

    /// Sends lossless frames to port 2.
    fn load(&mut self, numbers: std::ops::Range<u32>) {
        let frames: Vec<_> = numbers.map(|n| frame(1, 2, LOSSLESS, 0, n, 1000)).collect();
        self.hosts[0].send(&frames);
    }

    /// Traffic from port 1 to port 3: all of it arrives, in order.
    fn others_pass(&mut self) {
        let first = self.others;
        self.others += 100;
        let frames: Vec<_> = (first..self.others).map(|n| frame(1, 3, OTHER, 0, n, 200)).collect();
        self.hosts[0].send(&frames);
        let mut got = Vec::new();
        receive_until(&mut self.hosts[2], |bytes| {
            // Frames to addresses that were not known yet came here too.
            if bytes[5] == 3 && bytes[11] == 1 {
                got.push(bytes);
            }
            got.len() == frames.len()
        });
        assert!(got == frames, "in order and unharmed");
    }

    /// Waits until the device has dropped so many for a reason.
    fn await_drops(&self, reason: &str, count: u64) {
        let deadline = Instant::now() + LATEST;
        loop {
            let report = ask(&self.switch);
            if dropped(&report, Some(reason)) >= count {
                break;
            }
            assert!(Instant::now() < deadline, "{count} {reason}: {report:#}");
        }
    }
}

/// The watchdog tells of a storm, drops what is stuck under its name, and tells when it is over.
#[test]
fn a_pause_storm_is_told_dropped_and_over() {
    let watchdog = "    pfcwd: { detection_time: 200 ms, restoration_time: 200 ms, \
                    poll_interval: 100 ms, action: drop }\n";
    let test = "congested::a_pause_storm_is_told_dropped_and_over";
    let Some(mut rig) = Rig::new(test, "raw", watchdog) else { return };
    rig.hosts[1].send(&[pfc(3, u16::MAX).to_vec()]);
    // What follows the pause shows that it was read.
    rig.hosts[1].send(&[frame(2, 1, OTHER, 0, 1, 100)]);
    receive_until(&mut rig.hosts[0], |bytes| bytes[11] == 2);
    rig.load(0..50);
    let storm = "port 2 (raw:sw2): queue 3 is kept paused by its peer (PFC storm)";
    rig.switch.await_text(storm, LATEST);
    rig.await_drops("watchdog_storm", 50);
    rig.others_pass();
    rig.hosts[1].send(&[pfc(3, 0).to_vec()]);
    rig.switch.await_text("port 2 (raw:sw2): the PFC storm on queue 3 is over", LATEST);
    rig.load(50..60);
    let mut got = 0;
    receive_until(&mut rig.hosts[1], |bytes| {
        got += u32::from(bytes[5] == 2 && bytes.len() == 1000);
        got == 10
    });
    let report = counters(&rig.switch.end("INT"));
    assert_eq!(queue(&report, 1, 3)["storms"], 1, "{report:#}");
    assert_eq!(dropped(&report, None), 50, "{report:#}");
}

/// A peer that goes on in spite of pauses: paused, counted, and what is beyond the headroom dropped by name.
#[test]
fn a_peer_that_ignores_pauses_loses_its_own_packets() {
    let test = "a_peer_that_ignores_pauses_loses_its_own_packets";
    let Some(mut rig) = Rig::new(test, "raw", "") else { return };
    // XOFF is at 100 KB. Port 2 stands still meanwhile: on a busy machine its queue would drain as fast as it is filled.
    let (mut sent, deadline) = (0, Instant::now() + LATEST);
    loop {
        rig.hosts[1].send(&[pfc(3, u16::MAX).to_vec()]);
        rig.load(sent..sent + 50);
        rig.others_pass();
        sent += 50;
        let report = ask(&rig.switch);
        if dropped(&report, Some("headroom_exhausted")) > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{sent} sent: {report:#}");
    }
    let mut pauses = 0;
    receive_until(&mut rig.hosts[0], |bytes| {
        pauses += u32::from(bytes[12..16] == [0x88, 0x08, 0x01, 0x01]);
        pauses > 0
    });
    let ended = rig.switch.end("INT");
    let report = counters(&ended);
    let groups = report["queueing"]["ports"][0]["groups"].as_array().expect("groups");
    let group = groups.iter().find(|group| group["group"] == 3).expect("a lossless group");
    assert!(group["not_honoured"].as_u64() > Some(0), "{group:#}");
    assert!(group["xoff"].as_u64() > Some(0), "{group:#}");
    let lost = dropped(&report, Some("headroom_exhausted"));
    assert_eq!(group["refused"], lost, "the group refused what was dropped: {group:#}");
    let of_others = report["queueing"]["ports"][2]["queues"].as_array().expect("queues");
    let refused = |queue: &serde_json::Value| queue["refused"] == 0 && queue["dropped"] == 0;
    assert!(of_others.iter().all(refused), "{of_others:#?}");
}

/// What was queued for an interface that goes down is dropped by name; it works again when it is back.
#[test]
fn an_interface_that_goes_down_with_a_full_queue_takes_nothing_along() {
    for kind in ["raw", "xdp"] {
        let test = "an_interface_that_goes_down_with_a_full_queue_takes_nothing_along";
        let Some(mut rig) = Rig::new(test, kind, "") else { return };
        rig.hosts[1].send(&[pfc(3, u16::MAX).to_vec()]);
        rig.hosts[1].send(&[frame(2, 1, OTHER, 0, 1, 100)]);
        receive_until(&mut rig.hosts[0], |bytes| bytes[11] == 2);
        rig.load(0..60);
        rig.others_pass();
        assert_eq!(queue(&ask(&rig.switch), 1, 3)["waiting"], 60, "{kind}");
        ip("link set sw2 down");
        rig.switch.await_text(&format!("port 2 ({kind}:sw2) is down"), LATEST);
        rig.await_drops("port_down", 60);
        rig.others_pass();
        ip("link set sw2 up");
        rig.switch.await_text(&format!("port 2 ({kind}:sw2) is up"), LATEST);
        // A port that was away may lose what comes first: a kernel says that a link is up before it carries.
        let (mut back, deadline) = (false, Instant::now() + LATEST);
        let mut sent = 60;
        while !back {
            assert!(Instant::now() < deadline, "{kind}: nothing passes");
            rig.load(sent..sent + 1);
            sent += 1;
            let until = Instant::now() + Duration::from_millis(100);
            while !back && Instant::now() < until {
                let came = rig.hosts[1].next();
                back = came.is_some_and(|bytes| bytes[5] == 2 && bytes.len() == 1000);
            }
        }
        let report = counters(&rig.switch.end("INT"));
        assert!(dropped(&report, Some("port_down")) >= 60, "{kind}: {report:#}");
        assert_eq!(queue(&report, 2, 0)["refused"], 0, "{kind}");
    }
}
