//! `run --ports FILE`: ports come and go while packets flow, and a bad file changes nothing.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

mod changes;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_switch::ports::{LinkType, PortNumber, memory};
use wireyard_tables::time::Time;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;

use crate::queues;
use crate::rig::{Wire, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const SOON: Duration = Duration::from_secs(10);
const TWO: &str = "ports: { 1: { interface: 'raw:sw1' }, 2: { interface: 'raw:sw2' } }\n";

struct Rig {
    _network: PrivateNetwork,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(test: &str) -> Option<Rig> {
        let network = private_network(test)?;
        (1..=3).for_each(|n| veth(&format!("sw{n}"), &format!("host{n}")));
        let rig = Rig { _network: network, folder: tempfile::tempdir().unwrap() };
        rig.write(TWO);
        Some(rig)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ports.yaml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn start(&self, more: &[&str]) -> Switch {
        let file = self.file();
        Switch::start(&[&[PROGRAM, "--ports", file.to_str().unwrap(), "--json"], more].concat())
    }
}

fn three(kind: &str) -> String {
    TWO.replace(" }\n", &format!(", 3: {{ interface: '{kind}:sw3' }} }}\n"))
}

fn report(switch: Switch) -> Value {
    let ended = switch.end("INT");
    serde_json::from_str(&ended.expect(0, &[]).out).expect("JSON counters")
}

/// Sends from host 1 to host 2 and sees every frame arrive, in order.
fn exchange(host1: &mut Wire, host2: &mut Wire, from: u32) {
    let frames: Vec<_> = (from..from + 50).map(|n| queues::frame(1, 2, 0, 0, n, 100)).collect();
    host1.send(&frames);
    let got = host2.receive(frames.len());
    assert!(got == frames, "{} of {} frames", got.len(), frames.len());
}

/// A third port is added under traffic and removed again; between the two others nothing is lost.
#[test]
fn a_port_comes_and_goes_under_traffic() {
    let Some(rig) = Rig::new("a_port_comes_and_goes_under_traffic") else { return };
    for kind in ["raw", "xdp"] {
        rig.write(TWO);
        let mut switch = rig.start(&[]);
        let mut hosts: Vec<Wire> = (1..=3).map(|n| Wire::open(&format!("raw:host{n}"))).collect();
        let [host1, host2, host3] = hosts.as_mut_slice() else { unreachable!() };
        // Both addresses are learned, so that nothing is flooded.
        host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
        assert_eq!(host1.receive(1).len(), 1);
        let mut sent = 0;
        let mut traffic = |switch: &mut Switch, text: &str| {
            let deadline = Instant::now() + SOON;
            while !switch.err().contains(text) {
                assert!(Instant::now() < deadline, "no `{text}` in {}", switch.err());
                exchange(host1, host2, sent);
                sent += 50;
            }
        };
        traffic(&mut switch, " runs on ");
        rig.write(&three(kind));
        switch.signal("HUP");
        traffic(&mut switch, &format!("port 3 ({kind}:sw3) was added"));
        let hello = queues::frame(3, 9, 0, 0, 7, 100);
        host3.send(std::slice::from_ref(&hello));
        assert_eq!(host1.receive(1), std::slice::from_ref(&hello), "{kind}: port 3 is heard");
        assert_eq!(host2.receive(1), [hello]);
        let mut host1_to_3 = |n: u32| host1.send(&[queues::frame(1, 3, 0, 0, n, 100)]);
        host1_to_3(1);
        assert_eq!(host3.receive(1).len(), 1, "{kind}: port 3 is spoken to");
        rig.write(TWO);
        switch.signal("HUP");
        switch.await_text(&format!("port 3 ({kind}:sw3) was removed"), SOON);
        host1_to_3(2);
        exchange(host1, host2, sent);
        assert!(host3.receive_unexpected().is_empty(), "{kind}: it is gone");
        let report = report(switch);
        assert_eq!(report["total"]["balanced"], true, "{report:#}");
        assert_eq!(report["removed"]["received"], 1, "{report:#}");
        assert_eq!(report["removed"]["balanced"], true);
        assert_eq!(report["ports"].as_array().map(Vec::len), Some(2));
        // The frame to an address that was learned behind port 3.
        let dropped = report["total"]["dropped"].as_array().unwrap();
        assert_eq!(dropped, serde_json::json!([["no_such_port", 1]]).as_array().unwrap(), "{kind}");
    }
}

/// A switch whose ports all went waits for the next file.
#[test]
fn a_switch_without_ports_goes_on() {
    let Some(rig) = Rig::new("a_switch_without_ports_goes_on") else { return };
    let mut switch = rig.start(&[]);
    switch.await_text(" runs on ", SOON);
    rig.write("ports: {}\n");
    switch.signal("HUP");
    switch.await_text("port 2 (raw:sw2) was removed", SOON);
    // Links, and whether all input has ended, are looked at five times a second.
    std::thread::sleep(Duration::from_millis(500));
    rig.write(TWO);
    switch.signal("HUP");
    switch.await_text("port 2 (raw:sw2) was added", SOON);
    let mut hosts: Vec<Wire> = (1..=2).map(|n| Wire::open(&format!("raw:host{n}"))).collect();
    let [host1, host2] = hosts.as_mut_slice() else { unreachable!() };
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    exchange(host1, host2, 0);
    assert_eq!(report(switch)["total"]["balanced"], true);
}

/// What waits for a port that is removed is dropped under its own name; the number can be used again.
#[test]
fn queued_packets_of_a_removed_port_are_named() {
    let Some(rig) = Rig::new("queued_packets_of_a_removed_port_are_named") else { return };
    let config = rig.folder.path().join("switch.yaml");
    // A frame of 1250 bytes takes 0.1 s.
    std::fs::write(&config, "ports: { 1: {}, 2: {}, 3: { rate: 100kbps } }\nqos: {}\n").unwrap();
    rig.write(&three("raw"));
    let mut switch = rig.start(&["--config", config.to_str().unwrap()]);
    let mut hosts: Vec<Wire> = (1..=3).map(|n| Wire::open(&format!("raw:host{n}"))).collect();
    let [host1, host2, host3] = hosts.as_mut_slice() else { unreachable!() };
    host3.send(&[queues::frame(3, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    assert_eq!(host2.receive(1).len(), 1, "flooded");
    host1.send(&(0..30).map(|n| queues::frame(1, 3, 0, 0, n, 1250)).collect::<Vec<_>>());
    assert!(!host3.receive(2).is_empty());
    rig.write(TWO);
    switch.signal("HUP");
    switch.await_text("port 3 (raw:sw3) was removed", SOON);
    rig.write(&three("raw"));
    switch.signal("HUP");
    switch.await_text("port 3 (raw:sw3) was added", SOON);
    while !host3.receive_unexpected().is_empty() {}
    host1.send(&[queues::frame(1, 3, 0, 0, 99, 1250)]);
    let last = host3.receive(1);
    assert_eq!(last, [queues::frame(1, 3, 0, 0, 99, 1250)], "the number is used again");
    let report = report(switch);
    let total = &report["total"];
    assert_eq!(total["balanced"], true, "{total}");
    let dropped = total["dropped"].as_array().unwrap();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(dropped[0][0], "port_removed");
    let named = dropped[0][1].as_u64().unwrap();
    assert!((20..30).contains(&named), "{named}");
    // 30 and the one after, the greeting and its copy: all are accounted for.
    assert_eq!(total["sent"].as_u64().unwrap() + named, 33, "{total}");
    assert!(report.get("removed").is_none(), "port 3 has its ledger again: {report:#}");
}

/// Without queues too: what a port had no room for is dropped under that name, and its memory comes back.
#[test]
fn frames_behind_a_full_port_are_named() {
    let mut core = queues::device("rocev2_lossless", "", &[]);
    let chunks = core.memory().free_chunks();
    let mut hosts = Vec::new();
    for number in [1, 2] {
        let (near, far) = memory::pair(core.memory(), ("near", "far"), LinkType::Ethernet, 4);
        core.add_port(PortNumber(number), Box::new(near)).unwrap();
        hosts.push(far);
    }
    for n in 0..20 {
        assert!(hosts[0].send_bytes(core.memory(), &queues::frame(1, 2, 0, 0, n, 100)));
        core.poll(Time::from_ns(u64::from(n)), None);
    }
    assert_eq!(core.queued(), 16, "four are on the link");
    assert!(core.remove_port(Time::from_ns(20), PortNumber(2)).unwrap().is_none());
    assert_eq!((core.queued(), core.report().dropped_for("port_removed")), (0, 16));
    assert_eq!(hosts[1].receive_bytes(core.memory()).len(), 4);
    let report = core.report();
    assert!(report.balanced && report.sent == 4, "{report:?}");
    assert_eq!(core.memory().free_chunks(), chunks);
}

/// A file with an error, a port that cannot be opened: reported, and everything goes on as before.
#[test]
fn a_bad_file_changes_nothing() {
    let Some(rig) = Rig::new("a_bad_file_changes_nothing") else { return };
    let mut switch = rig.start(&[]);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 100)]);
    assert_eq!(host1.receive(1).len(), 1);
    let bad = [
        (
            "ports: { 1: { interface: 'raw:sw1' }, 2: { interfac: x } }\n",
            "did you mean `interface`?",
        ),
        ("ports: [1, 2\n", "ports.yaml:"),
        (
            "ports: { 1: { interface: 'raw:sw1' }, 4: { interface: 'raw:sw9' } }\n",
            "no such interface",
        ),
        ("ports: { 1: { interface: 'rwa:sw1' } }\n", "did you mean `raw`"),
        ("ports: { 1: { interface: 'raw:sw1' }, 2: {} }\n", "port 2 has no `interface`"),
        (
            "ports: { 1: { interface: 'raw:sw1' }, 2: { interface: 'raw:sw1' } }\n",
            "is port 1 already",
        ),
        ("ports: { 65533: { interface: 'raw:sw1' } }\n", "not a port number: use 0 to 65532"),
        ("ports: { 1: { interface: 'raw:sw1', rate: 1Gbps } }\n", "write them in switch.yaml"),
        ("program: x.yaml\n", "only `ports` is read here"),
        ("ports: {}\nlinux: { mirror: true }\n", "only `ports` is read here"),
        ("ports: {}\ncongestion_notification: { interval: 10 us }\n", "only `ports` is read here"),
        // What an editor leaves for a moment.
        ("", "it is empty: write `ports: {}`"),
    ];
    for (n, (text, why)) in bad.iter().enumerate() {
        rig.write(text);
        switch.signal("HUP");
        switch.await_text(why, SOON);
        let deadline = Instant::now() + SOON;
        while switch.err().matches("no port was changed").count() <= n {
            assert!(Instant::now() < deadline, "{}", switch.err());
        }
        exchange(&mut host1, &mut host2, 50 * n as u32);
    }
    assert_eq!(switch.err().matches("no port was changed").count(), bad.len(), "{}", switch.err());
    rig.write(TWO);
    switch.signal("HUP");
    switch.await_text("no port changed", SOON);
    let report = report(switch);
    assert_eq!(report["ports"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["total"]["received"], 50 * bad.len() as u64 + 1);
}

/// What cannot be is said before anything starts.
#[test]
fn bad_arguments_start_nothing() {
    run(&["run", PROGRAM, "--ports", "no-such.yaml"]).expect(2, &["no-such.yaml"]);
    let both = ["run", PROGRAM, "--ports", "x.yaml", "--port", "1=raw:x"];
    run(&both).expect(2, &["cannot be used with"]);
}
