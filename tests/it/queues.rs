//! The device with real queues, from outside: marking, pauses, schedulers, delays, copies.
//!
//! Everything is in virtual time: the same run gives the same bytes.

mod delays;
mod links;
pub(crate) mod marking;
mod notices;
pub(crate) mod pauses;
mod trimming;

pub(crate) use pauses::pfc;

use std::fs;

use wireyard_pipeline::packet::MemoryConfig;
use wireyard_switch::core::Core;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_tests::binary::run;
use wireyard_tests::wires::{Far, Line, open_line};
use wireyard_tests::workspace_root;

/// Priority 3 is lossless between these ports, everything else is not.
pub(super) fn lossless_config(ports: &str) -> String {
    pauses::config("auto", ports)
}

/// A device that runs a program of the library, or a file, with this `switch.yaml`.
pub(crate) fn device(program: &str, config: &str, numbers: &[u16]) -> Core {
    device_on(program, config, numbers, EngineKind::Auto)
}

/// The same on an engine.
fn device_on(program: &str, config: &str, numbers: &[u16], engine: EngineKind) -> Core {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("switch.yaml");
    fs::write(&path, config).expect("a file");
    let program = workspace_root().join("programs").join(program);
    let place = Place { program, config: Some(path), ..Place::default() };
    let loaded = load(&place).unwrap_or_else(|rejected| panic!("{rejected}"));
    let memory = MemoryConfig { chunks: 8192, chunk_bytes: 2048, headroom_bytes: 256 };
    let options = DeviceOptions { engine, memory, ..DeviceOptions::default() };
    let mut core = loaded.device(options).expect("a device");
    let numbers: Vec<_> = numbers.iter().copied().map(PortNumber).collect();
    loaded.set_queues(&mut core, &numbers).unwrap_or_else(|why| panic!("{why}"));
    core
}

/// The same with open ports 1 to `ports`.
pub(crate) fn device_with_ports(program: &str, config: &str, ports: u16) -> (Core, Vec<Far>) {
    let numbers: Vec<u16> = (1..=ports).collect();
    with_ports(device(program, config, &numbers), &numbers)
}

/// A device with these ports, open.
fn with_ports(mut core: Core, numbers: &[u16]) -> (Core, Vec<Far>) {
    let mut fars = Vec::new();
    for &number in numbers {
        let (near, far): (Line, Far) = open_line();
        core.add_port(PortNumber(number), Box::new(near)).expect("a free number");
        fars.push(far);
    }
    (core, fars)
}

/// A RoCEv2 frame of `len` bytes from host `from` to host `to`, with this DSCP and ECN field.
pub(crate) fn frame(from: u8, to: u8, dscp: u8, ecn: u8, psn: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip_len = (len - 14) as u16;
    bytes[14..24].copy_from_slice(&[0x45, dscp << 2 | ecn, 0, 0, 0, 0, 0x40, 0, 64, 17]);
    bytes[16..18].copy_from_slice(&ip_len.to_be_bytes());
    bytes[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, to]);
    let sum = !checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes[34..38].copy_from_slice(&[0xc0, 0, 0x12, 0xb7]);
    bytes[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    // BTH: RC SEND only, destination QP 0x11.
    bytes[42..54].copy_from_slice(&[4, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 0]);
    bytes[51..54].copy_from_slice(&psn.to_be_bytes()[1..]);
    bytes
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// True if the IPv4 header says that congestion was met, and its checksum is right.
pub(crate) fn is_ce(frame: &[u8]) -> bool {
    assert_eq!(checksum(&frame[14..34]), 0xffff, "the header checksum of {frame:02x?}");
    frame[15] & 3 == 3
}

/// `check` prints the thresholds, refuses contradictions with their numbers, and points at mistakes.
#[test]
fn check_prints_thresholds_and_refuses_contradictions() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, more: &[&str]| {
        let path = folder.path().join("switch.yaml");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let mut arguments = vec!["check", "programs/rocev2_lossless", "--config", path];
        arguments.extend(more);
        run(&arguments)
    };
    let good = "ports: { 1: { rate: 100Gbps, cable: 40 m }, 2: { rate: 25Gbps } }\n\
                qos: { preset: sonic_azure }\n";
    let shown = check(good, &[]).expect(0, &[]).out.clone();
    assert!(shown.contains("port 1 priority group 3 (ingress_lossless): xoff at"), "{shown}");
    assert!(shown.contains("port 2 queue 4 (AZURE_LOSSLESS): kmin 1 MiB, kmax 2 MiB"), "{shown}");
    let packets = "packets: 8192 wait at once in `run`, in 44 MiB of packet memory; the pools hold";
    assert!(shown.contains(packets), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&check(good, &["--json"]).out).unwrap();
    // 5 ms of 100 Gbit/s are 62.5 MB: a live peer is a process unless it is said to be none.
    assert!(json["queues"]["groups"][0]["headroom_bytes"].as_u64() > Some(1_000_000), "{json:#}");
    assert!(shown.contains("62500000  a peer that is a process"), "{shown}");
    assert!(shown.contains("that a peer which is a process needs"), "{shown}");
    let hardware = good.replace("40 m", "40 m, peer: hardware");
    let hardware = check(&hardware, &["--json"]).out;
    let hardware: serde_json::Value = serde_json::from_str(&hardware).unwrap();
    assert_eq!(hardware["queues"]["groups"][0]["headroom_bytes"], 50_176, "{hardware:#}");
    assert_eq!(json["packets"]["chunks"], 8192 + 1024 + 13_312, "{json:#}");
    // Of 96,000 B only the pools in use count; without `qos:` nothing is said.
    let few = "ports: { 1: { rate: 1Gbps } }\nqos: { cell: 96 B, buffer_pools: { \
               ingress_lossy_pool: { direction: ingress, size: 96 KB }, other: { direction: ingress, size: 1 MB } } }\n";
    let packets = "packets: 1000 wait at once in `run`, in 7 MiB of packet memory; the pools hold 1000 of 60 B\n";
    let shown_few = check(few, &[]).expect(0, &[]).out.clone();
    assert!(shown_few.contains(packets), "{shown_few}");
    assert!(!check("ports: { 1: {} }\n", &[]).expect(0, &[]).out.contains("packets:"));
    for slots in ["0", "1000001"] {
        let text = good.replace("azure }", &format!("azure, packet_slots: {slots} }}"));
        let refused = check(&text, &[]).expect(1, &[]).out.clone();
        assert!(refused.contains("error: packet_slots: "), "{refused}");
        assert!(refused.contains(&format!("{slots}: give 1 to 1000000")), "{refused}");
    }

    let small = good.replace(
        "preset: sonic_azure }",
        "preset: sonic_azure, buffer_profiles: { ingress_lossless: { pool: ingress_lossless_pool, \
         static_th: 100 KB, headroom: 10 KB, xon_at: 50 KB } } }",
    );
    let refused = check(&small, &[]).expect(1, &[]).out.clone();
    assert!(refused.contains("error: port 1, priority group 3"), "{refused}");
    assert!(refused.contains("headroom 10 KB is below the 50176 B"), "{refused}");

    let here = |text: &str, place: &str, message: &str| {
        check(text, &[]).expect(1, &[place, message]);
    };
    here(&good.replace("40 m", "40"), "switch.yaml:1:37", "\"40\": missing unit");
    here(&good.replace("rate: 25", "rat: 25"), "switch.yaml:1:50", "did you mean `rate`?");
    here(&good.replace("azure", "azur"), "switch.yaml:2:16", "did you mean `sonic_azure`?");

    // The same without a program.
    let alone = |text: &str| {
        let path = folder.path().join("switch.yaml");
        fs::write(&path, text).unwrap();
        run(&["check", "--config", path.to_str().unwrap()])
    };
    let queues = |out: &str| {
        out.lines()
            .filter(|line| line.contains(": ") && !line.contains("warnings"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let hardware = good.replace("azure }", "azure, port_defaults: { peer: hardware } }");
    let (ended, shown) = (alone(&hardware), check(&hardware, &[]).expect(0, &[]).out.clone());
    assert_eq!(queues(&ended.expect(0, &[]).out), queues(&shown), "as with a program");
    assert!(
        ended.out.ends_with("switch.yaml: 2 ports, with queues; 0 warnings\n"),
        "{}",
        ended.out
    );
    let refused = alone(&small);
    let refused = refused.expect(1, &["queues that cannot be"]);
    assert!(refused.out.contains("headroom 10 KB is below the 50176 B"), "{}", refused.out);
    let counts = refused.out.lines().last().unwrap_or_default();
    assert!(counts.contains(" error") && counts.ends_with("warnings"), "{counts}");
    alone(&good.replace("rate: 25", "rat: 25")).expect(1, &["switch.yaml:1:50", "`rate`?"]);
    // A program that is not there is not missed.
    alone("program: no-such.yaml\n").expect(0, &[]);
    run(&["check"]).expect(2, &["PROGRAM"]);
    run(&["check", "--config", "no-such.yaml"]).expect(2, &["no-such.yaml"]);
}
