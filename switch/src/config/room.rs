//! Packet memory for a buffer: how many packets wait at once in a live switch, and the chunks that takes.
//!
//! A buffer counts bytes, packet memory counts packets: the smallest frame takes a chunk as the longest does. So a switch that
//! should hold its buffer full of small frames needs many chunks. Their pages are taken from the system when a packet first lies
//! there, but a port that pins its memory (AF_XDP) takes them all: by default there is a bound, and `packet_slots` moves it.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use wireyard_pipeline::packet::MemoryConfig;

use super::SwitchConfig;
use crate::config::qos::{PACKET_SLOTS_MAX, PoolReport, Qos};
use crate::units::Bytes;

/// The smallest frame, without its check sequence.
const FRAME_BYTES_MIN: u64 = 60;
/// Packets that wait at once where `packet_slots` does not say: 128 MiB of chunks of 16 KiB.
const PACKETS_DEFAULT: u32 = 8192;
/// Chunks that a port holds beside the queues, at most: two rings of AF_XDP.
const CHUNKS_PER_PORT: u32 = 4096;
/// Ports that hold so many; where there are more, their rings are smaller.
const PORTS_MAX: usize = 8;
/// Chunks of packets between a port and its queue.
const CHUNKS_BETWEEN: u32 = 1024;

/// What a live switch keeps its packets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Smallest frames that the pools hold.
    pub pool_packets: u64,
    /// Packets that wait at once; more are refused as `no_slot`.
    pub packets: u32,
    /// Chunks of packet memory, those that ports hold among them.
    pub chunks: u32,
    /// Bytes of packet memory.
    pub memory_bytes: u64,
}

impl Room {
    /// For these pools, charged in cells of so many bytes (0: in bytes), `asked` packets and so many ports.
    fn of(pools: &[PoolReport], cell_bytes: u64, asked: Option<u32>, ports: usize) -> Room {
        let charge = FRAME_BYTES_MIN.next_multiple_of(cell_bytes.max(1));
        let bytes = |direction| {
            let pools = pools.iter().filter(|pool| pool.direction == direction);
            pools.map(|pool| pool.size_bytes).sum::<u64>()
        };
        // A packet is in a pool of each direction.
        let pool_packets = bytes("ingress").min(bytes("egress")) / charge;
        let wanted = u32::try_from(pool_packets).unwrap_or(u32::MAX).max(1);
        let packets = asked.unwrap_or(wanted.min(PACKETS_DEFAULT)).clamp(1, PACKET_SLOTS_MAX);
        let chunks = packets + CHUNKS_BETWEEN + CHUNKS_PER_PORT * ports.clamp(1, PORTS_MAX) as u32;
        let memory = MemoryConfig { chunks, ..MemoryConfig::default() };
        let memory_bytes = u64::from(chunks) * u64::from(memory.chunk_bytes);
        Room { pool_packets, packets, chunks, memory_bytes }
    }

    /// The packet memory.
    pub fn memory(&self) -> MemoryConfig {
        MemoryConfig { chunks: self.chunks, ..MemoryConfig::default() }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.memory_bytes.div_ceil(1 << 20);
        write!(
            f,
            "packets: {} wait at once in `run`, in {mebibytes} MiB of packet memory; the pools hold {} of {}",
            self.packets,
            self.pool_packets,
            Bytes::new(FRAME_BYTES_MIN)
        )?;
        if self.pool_packets > u64::from(self.packets) {
            write!(f, " (`packet_slots` in `qos:` says how many may)")?;
        }
        Ok(())
    }
}

impl SwitchConfig {
    /// What a live switch with these ports keeps its packets in; `None` where nothing is said about queues, or contradictions are.
    pub fn room(&self, numbers: &[u16]) -> Option<Room> {
        let qos = self.queues(numbers)?.ok()?;
        let asked = self.qos.as_ref().and_then(|qos| qos.packet_slots);
        let cell = u64::from(qos.tm.cell_bytes);
        Some(Room::of(&pools_in_use(&qos), cell, asked, qos.ports.len()))
    }
}

/// Pools that a queue or a group of a port has a share in: a preset has others too.
fn pools_in_use(qos: &Qos) -> Vec<PoolReport> {
    let groups =
        qos.ports.iter().flat_map(|port| port.tm.groups.iter().map(|group| &group.account));
    let queues =
        qos.ports.iter().flat_map(|port| port.tm.queues.iter().map(|queue| &queue.account));
    let used: BTreeSet<u8> = groups.chain(queues).map(|account| account.pool.0).collect();
    let numbered = (0..=u8::MAX).zip(&qos.report.pools);
    numbered.filter(|(number, _)| used.contains(number)).map(|(_, pool)| pool.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(ingress: u64, egress: u64) -> Vec<PoolReport> {
        let pool = |direction: &'static str, size_bytes| PoolReport {
            name: direction.to_owned(),
            direction,
            size_bytes,
            reserved_bytes: 0,
            headroom_bytes: 0,
            shared_bytes: size_bytes,
        };
        vec![pool("ingress", ingress), pool("egress", egress)]
    }

    #[test]
    fn memory_holds_what_the_buffer_promises_within_a_bound() {
        let small = Room::of(&pools(60_000, 120_000), 0, None, 2);
        assert_eq!((small.pool_packets, small.packets), (1000, 1000));
        assert_eq!(small.chunks, 1000 + 1024 + 2 * 4096);
        let cells = Room::of(&pools(96_000, 96_000), 96, None, 2);
        assert_eq!(cells.packets, 1000, "a cell is the least that is charged");
        let large = Room::of(&pools(12_000_000, 12_000_000), 0, None, 2);
        assert_eq!((large.pool_packets, large.packets), (200_000, 8192));
        let asked = Room::of(&pools(12_000_000, 12_000_000), 0, Some(200_000), 64);
        assert_eq!((asked.packets, asked.chunks), (200_000, 200_000 + 1024 + 8 * 4096));
        assert_eq!(asked.memory_bytes, u64::from(asked.chunks) << 14);
        let most = Room::of(&pools(1 << 40, 1 << 40), 0, Some(PACKET_SLOTS_MAX), 64);
        assert!(most.chunks <= 1 << 20, "more than packet memory has");
    }
}
