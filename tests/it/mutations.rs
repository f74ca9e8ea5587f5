//! Broken packets through every program on both engines: nothing panics, every packet is accounted
//! for, no packet memory is lost, and the engines agree on every byte that leaves.
//!
//! The packets are those of the program's own tests and of `../shared/reference/vectors.json`, each
//! whole and mutated at random (from a fixed seed). A packet that panics is printed in hexadecimal.

use std::path::Path;

use wireyard_switch::ports::LinkType;
use wireyard_switch::program::{DeviceOptions, EngineKind};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::{Span, Time};
use wireyard_tests::differ::random::Random;
use wireyard_tests::{scripts, shared, skip, workspace_root};

use crate::packets::bytes;

/// Mutations of every packet, besides the packet itself.
const MUTATIONS: usize = 6;
/// Mutations of every packet of the test that runs one program long.
const MANY_MUTATIONS: usize = 60;

/// A packet with one to three things wrong, most of them in the headers.
fn mutate(dice: &mut Random, packet: &[u8]) -> Vec<u8> {
    let mut out = packet.to_vec();
    for _ in 0..=dice.below(3) {
        let near = out.len().min(96);
        let at = if dice.below(4) == 0 { dice.below(out.len()) } else { dice.below(near) };
        match dice.below(7) {
            0 | 1 => flip(&mut out, at, 1 << dice.below(8)),
            2 => set(&mut out, at, dice.bits() as u8),
            3 => set(&mut out, at, [0x00, 0xff, 0x7f, 0x80][dice.below(4)]),
            4 => out.truncate(dice.below(out.len())),
            5 => out.extend((0..dice.below(70)).map(|n| n as u8)),
            _ => {
                let last = (at + dice.below(40)).min(out.len());
                out.drain(at.min(last)..last);
            }
        }
    }
    out
}

fn flip(packet: &mut [u8], at: usize, mask: u8) {
    if let Some(byte) = packet.get_mut(at) {
        *byte ^= mask;
    }
}

fn set(packet: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = packet.get_mut(at) {
        *byte = value;
    }
}

/// Says which packet it was when the device panics.
struct Witness<'a>(&'a str, u16, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.2.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{}: packet into port {}: {hex}", self.0, self.1);
        }
    }
}

/// One device for each engine, fed the same.
struct Pair {
    name: String,
    ports: Vec<u16>,
    devices: Vec<(EngineKind, Sandbox, u32)>,
    now: Time,
    sent: u64,
}

impl Pair {
    fn new(program: &Path) -> Pair {
        let loaded = scripts::loaded(program);
        let mut ports = scripts::ports(&loaded);
        for extra in 1..=4 {
            if ports.iter().all(|(number, _)| *number != extra) {
                ports.push((extra, LinkType::Ethernet));
            }
        }
        let device = |engine| {
            let options = DeviceOptions { engine, ..DeviceOptions::small() };
            let core = loaded.device(options).unwrap_or_else(|error| panic!("{error}"));
            let mut sandbox = Sandbox::new(core, &ports).unwrap();
            sandbox.core.listen_to_punts();
            let free = sandbox.core.memory().free_chunks();
            (engine, sandbox, free)
        };
        let devices = EngineKind::ALL.map(device).into();
        let numbers = ports.iter().map(|(number, _)| *number).collect();
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        Pair { name, ports: numbers, devices, now: Time::ZERO, sent: 0 }
    }

    fn send(&mut self, port: u16, packet: &[u8]) {
        let _witness = Witness(&self.name, port, packet);
        self.now += Span::from_us(1);
        // What the traffic manager decides is not this test's matter; half of the packets are marked.
        let mark = self.sent % 2 == 1;
        self.sent += 1;
        let mut outcomes = Vec::new();
        for (_, device, _) in &mut self.devices {
            device.core.stand_in.mark(mark);
            device.core.stand_in.trim((self.sent % 5 == 0).then_some(64));
            assert!(device.send(port, packet, self.now, None), "port {port} takes a packet");
            let punted: Vec<_> =
                device.core.take_punted().into_iter().map(|p| (p.reason, p.bytes)).collect();
            outcomes.push((device.received(), punted));
        }
        assert_eq!(outcomes[0], outcomes[1], "the engines differ");
    }

    /// The account of every device is whole, and the engines' are equal.
    fn finish(mut self) -> u64 {
        // Whatever a program delays has left by then.
        self.now += Span::from_us(10_000_000);
        let mut reports = Vec::new();
        for (engine, device, free) in &mut self.devices {
            device.settle(self.now, None);
            device.received();
            let report = device.core.report();
            let place = format!("{} on {}", self.name, engine.name());
            assert!(report.balanced && report.queued == 0, "{place}: {report:?}");
            assert_eq!(device.core.memory().free_chunks(), *free, "{place}: chunks are lost");
            reports.push(format!("{report:?}"));
        }
        assert_eq!(reports[0], reports[1], "{}", self.name);
        self.sent
    }

    /// A packet as it is and mutated, into every port.
    fn hammer(&mut self, packet: &[u8], dice: &mut Random, mutations: usize) {
        for port in self.ports.clone() {
            self.send(port, packet);
        }
        for _ in 0..mutations {
            let port = self.ports[dice.below(self.ports.len())];
            self.send(port, &mutate(dice, packet));
        }
    }
}

/// The packets of the program's own tests.
fn own_packets(program: &Path) -> Vec<Vec<u8>> {
    let all = scripts::scripts(program).into_iter().flat_map(|path| scripts::sent(&path).packets);
    all.map(|(_, bytes)| bytes).collect()
}

/// The frames of the reference; none where `../shared` is not there.
fn vectors() -> Vec<Vec<u8>> {
    let Some(shared) = shared() else { return Vec::new() };
    let text = std::fs::read_to_string(shared.join("reference/vectors.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys = ["hex", "hex_driver_tail", "hex_doc_tail"];
    let frames = all["vectors"].as_array().unwrap().iter();
    frames.flat_map(|v| keys.iter().filter_map(|key| v[*key].as_str()).map(bytes)).collect()
}

#[test]
fn broken_packets_through_every_program() {
    let mut packets = 0;
    for program in scripts::programs() {
        let mut pair = Pair::new(&program);
        let mut dice = Random::new(1);
        for packet in own_packets(&program) {
            pair.hammer(&packet, &mut dice, MUTATIONS);
        }
        packets += pair.finish();
    }
    assert!(packets > 4_000, "{packets} packets");
}

#[test]
fn every_vector_broken_through_every_program() {
    let vectors = vectors();
    if vectors.is_empty() {
        return skip("every_vector_broken_through_every_program", "../shared is not there");
    }
    let mut packets = 0;
    for program in scripts::programs() {
        let mut pair = Pair::new(&program);
        let mut dice = Random::new(2);
        for packet in &vectors {
            pair.hammer(packet, &mut dice, MUTATIONS);
        }
        packets += pair.finish();
    }
    assert!(packets > 8_000, "{packets} packets");
}

/// One program that reads every header, with many more mutations of each packet.
#[test]
fn every_header_broken_many_times() {
    let program = workspace_root().join("programs/parse_all");
    let mut pair = Pair::new(&program);
    let mut dice = Random::new(3);
    for packet in own_packets(&program) {
        pair.hammer(&packet, &mut dice, MANY_MUTATIONS);
    }
    assert!(pair.finish() > 1_000);
}
