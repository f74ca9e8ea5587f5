//! Many ports on one switch: every one of them hears, and none takes the packet memory of another.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::Duration;

use serde_json::Value;
use wireyard_switch::ports::veth;
use wireyard_tests::live::Switch;

use crate::rig::{Wire, private_network};

const PROGRAM: &str = "programs/rocev2_lossless";
const SOON: Duration = Duration::from_secs(20);
/// Of nobody, so that it is flooded.
const UNKNOWN: u16 = 0xfff0;

pub(crate) fn cables(count: usize) {
    for n in 1..=count {
        veth::create([&format!("sw{n}"), &format!("host{n}")], 1500).expect("a cable");
    }
}

fn frame(from: u16, to: u16) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x88, 0xb5]);
    bytes[4..6].copy_from_slice(&to.to_be_bytes());
    bytes[10..12].copy_from_slice(&from.to_be_bytes());
    bytes
}

fn report(switch: Switch) -> Value {
    serde_json::from_str(&switch.end("INT").expect(0, &[]).out).expect("JSON counters")
}

fn resident_kibibytes(switch: &Switch) -> u64 {
    let memory = std::fs::read_to_string(format!("/proc/{}/status", switch.pid())).unwrap();
    let resident = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("memory");
    resident.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A switch with queues at its defaults, of which AF_XDP pins all packet memory but its large chunks.
#[test]
fn two_xdp_ports_with_queues_take_less_than_48_mebibytes() {
    let test = "two_xdp_ports_with_queues_take_less_than_48_mebibytes";
    let Some(_network) = private_network(test) else { return };
    cables(1);
    // A port of large frames beside one of an MTU of 1,500.
    veth::create(["sw2", "host2"], 9000).expect("a cable");
    let config = ["--config", "programs/rocev2_lossless/lossless.yaml", "--json"];
    let switch = Switch::on(PROGRAM, &["1=xdp:sw1", "2=xdp:sw2"], &config);
    let mut hosts = [1, 2].map(|n| Wire::open(&format!("raw:host{n}")));
    for len in [60, 1000, 9014] {
        let mut frame = frame(2, UNKNOWN);
        frame.resize(len, 7);
        for _ in 0..4 {
            hosts[1].send(&vec![frame.clone(); 50]);
        }
    }
    assert_eq!(hosts[0].receive(400).len(), 400, "those of 9,014 bytes are too long there");
    let maps = std::fs::read_to_string(format!("/proc/{}/smaps", switch.pid())).unwrap();
    let sizes = maps.lines().filter_map(|line| line.strip_prefix("Rss:"));
    let sizes = sizes.map(|size| size.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
    let kibibytes = sizes.max().expect("packet memory is the largest mapping");
    assert!((40 << 10..=48 << 10).contains(&kibibytes), "{kibibytes} KiB");
    let report = report(switch);
    assert_eq!(report["ports"][0]["medium"]["tx_too_long"], 200, "{report:#}");
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
}

/// Each port gets a frame in and one out.
fn every_port_hears(test: &str, kind: &str, count: usize) {
    let Some(_network) = private_network(test) else { return };
    cables(count);
    let ports: Vec<String> = (1..=count).map(|n| format!("{n}={kind}:sw{n}")).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let switch = Switch::on(PROGRAM, &ports, &["--json"]);
    let open = |n| Wire::with_chunks(&format!("raw:host{n}"), 64);
    let mut hosts: Vec<Wire> = (1..=count).map(open).collect();
    hosts[0].send(&[frame(1, UNKNOWN)]);
    for (n, host) in hosts.iter_mut().enumerate().skip(1) {
        assert_eq!(host.receive(1), [frame(1, UNKNOWN)], "out of port {}", n + 1);
    }
    for n in 1..count {
        let hello = frame(n as u16 + 1, 1);
        hosts[n].send(std::slice::from_ref(&hello));
        assert_eq!(hosts[0].receive(1), [hello], "port {} hears", n + 1);
    }
    let kibibytes = resident_kibibytes(&switch);
    assert!(kibibytes < 100 << 10, "{kibibytes} KiB for {count} ports");
    let report = report(switch);
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
    let all = report["ports"].as_array().unwrap();
    assert_eq!(all.len(), count);
    for port in all {
        assert_eq!(port["medium"]["rx_frames"], 1, "{port:#}");
        assert_eq!(port["medium"]["rx_no_memory"], 0, "{port:#}");
        assert_eq!(port["name"].as_str().map(|name| name.starts_with(kind)), Some(true));
    }
}

#[test]
fn sixty_four_xdp_ports_hear() {
    every_port_hears("sixty_four_xdp_ports_hear", "xdp", 64);
}

#[test]
fn two_hundred_and_fifty_six_raw_ports_hear() {
    every_port_hears("two_hundred_and_fifty_six_raw_ports_hear", "raw", 256);
}

/// A port that comes later has its share too; one that cannot have its least gets the numbers in its error, and the others go on.
#[test]
fn a_port_that_comes_later_has_its_share_or_is_told() {
    let Some(_network) = private_network("a_port_that_comes_later_has_its_share_or_is_told") else {
        return;
    };
    cables(6);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports.yaml");
    let write = |xdp: usize| {
        let port = |n: usize| {
            let kind = if n <= 2 { "raw" } else { "xdp" };
            format!("{n}: {{ interface: '{kind}:sw{n}' }}")
        };
        let ports: Vec<String> = (1..=2 + xdp).map(port).collect();
        std::fs::write(&file, format!("ports: {{ {} }}\n", ports.join(", "))).unwrap();
    };
    write(0);
    // 4,096 chunks are kept for packets, and 384 are three times the least of a port.
    let more = ["--ports", file.to_str().unwrap(), "--packet-memory", "8960KiB", "--json"];
    let mut switch = Switch::start(&[&[PROGRAM], more.as_slice()].concat());
    write(3);
    switch.signal("HUP");
    switch.await_text("port 5 (xdp:sw5) was added", SOON);
    let mut hosts: Vec<Wire> = (1..=5).map(|n| Wire::open(&format!("raw:host{n}"))).collect();
    hosts[0].send(&[frame(1, UNKNOWN)]);
    for n in 1..5 {
        assert_eq!(hosts[n].receive(1), [frame(1, UNKNOWN)], "out of port {}", n + 1);
        let hello = frame(n as u16 + 1, 1);
        hosts[n].send(std::slice::from_ref(&hello));
        assert_eq!(hosts[0].receive(1), [hello], "port {} hears", n + 1);
    }
    write(4);
    switch.signal("HUP");
    let expected = "its rings need 128 chunks of packet memory at least (64 to receive, 64 to send); of 4480 chunks (8960 KiB) 0 are left";
    switch.await_text(expected, SOON);
    switch.await_text("--packet-memory 9216KiB", SOON);
    let hello = frame(5, 1);
    hosts[4].send(std::slice::from_ref(&hello));
    assert_eq!(hosts[0].receive(1), [hello], "the others go on");
    assert_eq!(report(switch)["total"]["balanced"], true);
}
