//! Broken packets through every program on both engines: nothing panics, every packet is accounted
//! for, no packet memory is lost, and the engines agree on every byte that leaves.
//!
//! The packets are those of the program's own tests and of `../shared/reference/vectors.json`, each
//! whole and mutated at random (from a fixed seed). A packet that panics is printed in hexadecimal.

use std::path::Path;

use wireyard_tests::differ::random::Random;
use wireyard_tests::fuzz::devices::Pair;
use wireyard_tests::fuzz::packets::ports;
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

/// A device for each engine of this program.
fn devices(program: &Path) -> Pair {
    let loaded = scripts::loaded(program);
    let name = program.file_name().unwrap().to_string_lossy();
    Pair::new(&name, &loaded, &ports(&loaded)).unwrap_or_else(|error| panic!("{error}"))
}

/// A packet as it is and mutated, into every port.
fn hammer(pair: &mut Pair, packet: &[u8], dice: &mut Random, mutations: usize) {
    for port in pair.ports().to_vec() {
        pair.send(port, packet);
    }
    for _ in 0..mutations {
        let port = pair.ports()[dice.below(pair.ports().len())];
        pair.send(port, &mutate(dice, packet));
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
        let mut pair = devices(&program);
        let mut dice = Random::new(1);
        for packet in own_packets(&program) {
            hammer(&mut pair, &packet, &mut dice, MUTATIONS);
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
        let mut pair = devices(&program);
        let mut dice = Random::new(2);
        for packet in &vectors {
            hammer(&mut pair, packet, &mut dice, MUTATIONS);
        }
        packets += pair.finish();
    }
    assert!(packets > 8_000, "{packets} packets");
}

/// One program that reads every header, with many more mutations of each packet.
#[test]
fn every_header_broken_many_times() {
    let program = workspace_root().join("programs/parse_all");
    let mut pair = devices(&program);
    let mut dice = Random::new(3);
    for packet in own_packets(&program) {
        hammer(&mut pair, &packet, &mut dice, MANY_MUTATIONS);
    }
    assert!(pair.finish() > 1_000);
}
