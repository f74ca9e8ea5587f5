//! What the rivals share: packets in one block of memory, counts by reason, and a hash map.
//!
//! A rival does what its program does to every packet of the bench: it parses with the same checks, asks the
//! same tables (their contents are data, as for the program, only their shapes are code), counts where the
//! program counts and checks its indices, notes hits in tables that age, gives a verdict with a reason and counts
//! drops by reason, and marks. What it leaves out is said where it is left out: packets of the bench do not
//! need it. It is free to do the rest as it likes: one function, no descriptor, no passes, tables that nobody
//! changes while it runs, memory that nobody shares. Tables have the program's hash, a folded multiplication
//! with a seed.

use crate::rig::{CHUNK_BYTES, HEADERS, Input, Output, data_off};
use wireyard_tables::hash::Seed;

/// A packet as a program for one purpose keeps it.
pub(crate) struct HandPacket {
    /// Offset of its first byte in the block.
    pub(crate) at: u32,
    pub(crate) len: u32,
    pub(crate) in_port: u16,
    /// Where it goes; [`DROPPED`] for nowhere.
    pub(crate) out_port: u16,
    /// Why not, as an index of the rival's own reasons.
    pub(crate) reason: u8,
    pub(crate) mark: bool,
    /// It may be marked, where the program says so.
    pub(crate) ect: bool,
    pub(crate) now_ns: u64,
}

/// What a rival decides: a port, or a reason to drop.
pub(crate) type Decided = Result<u16, u8>;

/// Notes a decision, and counts a drop.
#[inline(always)]
pub(crate) fn decide(packet: &mut HandPacket, len: u32, decided: Decided, drops: &mut [Count]) {
    match decided {
        Ok(port) => packet.out_port = port,
        Err(reason) => {
            (packet.out_port, packet.reason) = (DROPPED, reason);
            if let Some(drops) = drops.get_mut(usize::from(reason)) {
                count(drops, len);
            }
        }
    }
}

/// The port of a packet that is not forwarded.
pub(crate) const DROPPED: u16 = u16::MAX;

/// Packets and bytes.
pub(crate) type Count = [u64; 2];

#[inline(always)]
pub(crate) fn count(counter: &mut Count, len: u32) {
    counter[0] += 1;
    counter[1] += u64::from(len);
}

/// A program written by hand.
pub(crate) trait Hand {
    /// Does everything to a burst: what comes in and what goes out.
    fn burst(&mut self, memory: &mut [u8], packets: &mut [HandPacket]);
    /// Packets and bytes by the names of the program's counters, to be compared.
    fn counters(&self) -> Vec<(&'static str, Vec<Count>)>;
    /// Packets and bytes that were dropped or punted, by the program's names of reasons.
    fn drops(&self) -> Vec<(&'static str, Count)>;
}

/// A rival with its packets.
pub(crate) struct HandRig {
    memory: Vec<u8>,
    packets: Vec<HandPacket>,
    inputs: Vec<Input>,
}

impl HandRig {
    pub(crate) fn new(inputs: &[Input]) -> HandRig {
        let packet = |(n, input): (usize, &Input)| HandPacket {
            at: (n * CHUNK_BYTES + data_off(n)) as u32,
            len: input.bytes.len() as u32,
            in_port: input.port,
            out_port: DROPPED,
            reason: 0,
            mark: input.mark,
            ect: false,
            now_ns: 0,
        };
        let packets: Vec<HandPacket> = inputs.iter().enumerate().map(packet).collect();
        let mut memory = vec![0; inputs.len() * CHUNK_BYTES];
        for (packet, input) in packets.iter().zip(inputs) {
            memory[packet.at as usize..][..input.bytes.len()].copy_from_slice(&input.bytes);
        }
        HandRig { memory, packets, inputs: inputs.to_vec() }
    }

    pub(crate) fn run(&mut self, hand: &mut dyn Hand) {
        for packets in self.packets.chunks_mut(64) {
            hand.burst(&mut self.memory, packets);
        }
    }

    pub(crate) fn outputs(&mut self, hand: &mut dyn Hand) -> Vec<Output> {
        self.run(hand);
        let output = |packet: &HandPacket| Output {
            port: (packet.out_port != DROPPED).then_some(packet.out_port),
            bytes: self.memory[packet.at as usize..][..packet.len as usize].to_vec(),
        };
        self.packets.iter().map(output).collect()
    }

    pub(crate) fn restore(&mut self) {
        for (n, (packet, input)) in self.packets.iter_mut().zip(&self.inputs).enumerate() {
            packet.at = (n * CHUNK_BYTES + data_off(n)) as u32;
            packet.len = input.bytes.len() as u32;
            let headers = input.bytes.len().min(HEADERS);
            self.memory[packet.at as usize..][..headers].copy_from_slice(&input.bytes[..headers]);
        }
    }
}

/// Reads at fixed places of a packet.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A checksum after a word of what it covers changed (RFC 1624).
#[inline(always)]
pub(crate) fn follow(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// The checksum of a header.
pub(crate) fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// The hash of the program's tables, of one word and of two.
#[inline(always)]
fn hash<const WORDS: usize>(key: &[u64; WORDS], seed: Seed) -> u64 {
    wireyard_tables::hash::hash(key, seed)
}

/// Keys of some words to words, open addressing at a quarter of occupancy.
pub(crate) struct WordMap<const WORDS: usize> {
    /// Key and value; a value of [`FREE`] is free.
    cells: Vec<([u64; WORDS], u64)>,
    shift: u32,
    seed: Seed,
}

/// No value of a map.
const FREE: u64 = u64::MAX;

impl<const WORDS: usize> WordMap<WORDS> {
    pub(crate) fn new(entries: &[([u64; WORDS], u64)]) -> WordMap<WORDS> {
        let size = (entries.len() * 4).next_power_of_two().max(8);
        let (cells, shift) = (vec![([0; WORDS], FREE); size], 64 - size.ilog2());
        let mut map = WordMap {
            cells,
            shift,
            seed: Seed(std::hint::black_box([0x9216_d5d9_8979_fb1b, 0xd131_0ba6_98df_b5ad])),
        };
        for (key, value) in entries {
            let mut at = map.home(key);
            while map.cells[at].1 != FREE {
                at = (at + 1) % size;
            }
            map.cells[at] = (*key, *value);
        }
        map
    }

    #[inline(always)]
    fn home(&self, key: &[u64; WORDS]) -> usize {
        (hash(key, self.seed) >> self.shift) as usize
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: [u64; WORDS]) -> Option<u64> {
        let mut at = self.home(&key);
        loop {
            let (found, value) = self.cells.get(at)?;
            if *found == key && *value != FREE {
                return Some(*value);
            }
            if *value == FREE {
                return None;
            }
            at = (at + 1) & (self.cells.len() - 1);
        }
    }
}
