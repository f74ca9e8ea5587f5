//! Random packets, some with right checksums.

use serde_json::Value;

use super::random::Random;
use super::rig::MEMORY;
use super::{At, Origin, Packet};

/// How often the checksum of the first header is right, where it can be.
const RIGHT_PERCENT: usize = 60;

/// So many packets for a program. Where they lie may be odd.
pub(super) fn random(random: &mut Random, program: &Value, count: usize, odd: bool) -> Vec<Packet> {
    let mut packets: Vec<Packet> = (0..count).map(|_| packet(random, odd)).collect();
    if let Some((bytes, at)) = first_sum(program) {
        for packet in &mut packets {
            if let Some(header) = packet.bytes.get_mut(..bytes)
                && random.chance(RIGHT_PERCENT)
            {
                put_sum(header, at);
            }
        }
    }
    packets
}

fn packet(random: &mut Random, odd: bool) -> Packet {
    let (chunk, headroom) = (MEMORY.chunk_bytes as usize, MEMORY.headroom_bytes as usize);
    let long = odd && random.chance(1);
    let len = match random.below(8) {
        _ if long => random.pick(&[chunk - headroom, chunk, chunk - 1]),
        0 | 1 => random.below(40),
        2 => random.below(20),
        3 => random.below(8),
        _ => 30 + random.below(150),
    };
    let few = random.chance(70);
    let byte = |random: &mut Random| match few && random.chance(70) {
        true => random.below(4) as u8,
        false => random.bits() as u8,
    };
    let bytes = match random.chance(12) {
        true => Vec::new(),
        false => (0..len.max(1)).map(|_| byte(random)).collect(),
    };
    let at = match odd && random.chance(20) {
        true => random.pick(&[At::End, At::End, At::Start]),
        false => At::Headroom,
    };
    let held = odd && random.chance(5);
    let from =
        random.pick(&[Origin::Link, Origin::Link, Origin::Link, Origin::Cpu, Origin::Generator]);
    Packet { port: 1 + random.below(3) as u16, mark: random.chance(30), at, held, from, bytes }
}

/// Bytes of the first header, and the place of its checksum, if both are fixed and of whole words.
fn first_sum(program: &Value) -> Option<(usize, usize)> {
    let (mut bits, mut at) = (0, None);
    for (name, width) in program["headers"]["h0"]["fields"].as_object()? {
        if name == "sum" {
            at = Some(bits / 8);
        }
        bits += width.as_u64()? as usize;
    }
    (bits % 16 == 0).then_some((bits / 8, at?))
}

/// Writes the checksum of a header into it.
fn put_sum(header: &mut [u8], at: usize) {
    header[at..at + 2].fill(0);
    let words = header.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut sum: u32 = words.map(u32::from).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
