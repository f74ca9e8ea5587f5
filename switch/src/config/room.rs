//! Packet memory for a buffer and its ports: how many packets wait at once in a live switch, how many chunks rings hold, and the
//! chunks that takes.
//!
//! A buffer counts bytes, packet memory counts packets: the smallest frame takes a chunk as the longest does. So a switch that
//! should hold its buffer full of small frames needs many chunks. Their pages are taken from the system when a packet first lies
//! there, but a port that pins its memory (AF_XDP) takes them all: by default there is a bound, and `packet_slots` moves it.
//! Rings have a bound together: the more ports there are that may be AF_XDP, the smaller are the rings of each.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use wireyard_pipeline::packet::MemoryConfig;

use super::SwitchConfig;
use crate::config::qos::{PACKET_SLOTS_MAX, PoolReport, Qos};
use crate::ports::xdp::rings::{RINGS, entries_for};
use crate::ports::{PortKind, PortSpec};
use crate::units::Bytes;

/// The smallest frame, without its check sequence.
const FRAME_BYTES_MIN: u64 = 60;
/// Packets that wait at once where `packet_slots` does not say: 128 MiB of chunks of 16 KiB.
const PACKETS_DEFAULT: u32 = 8192;
/// Packets that wait behind ports of a switch without queues.
const PACKETS_PLAIN: u32 = 3072;
/// Chunks that the rings of all ports hold together, unless that is less than their least.
const RING_CHUNKS: u32 = 8192;
/// Ports with rings for which there is room where ports may come later, at least; and twice as many as there are first.
const RING_PORTS_LATER: u32 = 8;
/// Free chunks that a worker keeps for itself.
const CHUNKS_PER_WORKER: u32 = 128;
/// Chunks that packet memory can have.
const CHUNKS_MAX: u32 = 1 << 20;
/// Chunks of packets between a port and its queue.
const CHUNKS_BETWEEN: u32 = 1024;

/// Who holds chunks beside the packets that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Ports that are or may be AF_XDP, those that may come later among them.
    pub ring_ports: u32,
    /// Workers.
    pub workers: u32,
    /// Bytes of packet memory that were asked for.
    pub memory: Option<Bytes>,
}

impl Holders {
    /// Of so many ports of any kind, with one worker.
    pub fn of_any(ports: usize) -> Holders {
        Holders { ring_ports: ports as u32, workers: 1, memory: None }
    }

    /// Of these ports; `more` may come later.
    pub fn of(specs: &[(u16, PortSpec)], more: bool) -> Holders {
        let has_rings = |spec: &PortSpec| matches!(spec.kind, PortKind::Xdp | PortKind::Auto);
        let now = specs.iter().filter(|(_, spec)| has_rings(spec)).count() as u32;
        let ring_ports = if more { (2 * now).max(RING_PORTS_LATER) } else { now };
        Holders { ring_ports, workers: 1, memory: None }
    }
}

/// What a live switch keeps its packets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Smallest frames that the pools hold.
    pub pool_packets: u64,
    /// Packets that wait at once; more are refused as `no_slot`.
    pub packets: u32,
    /// Chunks that no ring holds.
    pub kept: u32,
    /// Chunks of packet memory, those that ports hold among them.
    pub chunks: u32,
    /// Bytes of packet memory.
    pub memory_bytes: u64,
}

impl Room {
    /// For these pools, charged in cells of so many bytes (0: in bytes), `asked` packets and these holders.
    fn of(pools: &[PoolReport], cell_bytes: u64, asked: Option<u32>, holders: &Holders) -> Room {
        let charge = FRAME_BYTES_MIN.next_multiple_of(cell_bytes.max(1));
        let bytes = |direction| {
            let pools = pools.iter().filter(|pool| pool.direction == direction);
            pools.map(|pool| pool.size_bytes).sum::<u64>()
        };
        // A packet is in a pool of each direction.
        let pool_packets = bytes("ingress").min(bytes("egress")) / charge;
        let wanted = u32::try_from(pool_packets).unwrap_or(u32::MAX).max(1);
        let packets = asked.unwrap_or(wanted.min(PACKETS_DEFAULT)).clamp(1, PACKET_SLOTS_MAX);
        Room::for_packets(pool_packets, packets, holders)
    }

    /// Of a switch without queues.
    pub fn plain(holders: &Holders) -> Room {
        Room::for_packets(0, PACKETS_PLAIN, holders)
    }

    fn for_packets(pool_packets: u64, packets: u32, holders: &Holders) -> Room {
        let kept = packets + CHUNKS_BETWEEN + CHUNKS_PER_WORKER * (holders.workers.max(1) - 1);
        let entries = entries_for(holders.ring_ports, RING_CHUNKS);
        let rings = RINGS.saturating_mul(entries).saturating_mul(holders.ring_ports);
        let chunk_bytes = u64::from(MemoryConfig::default().chunk_bytes);
        let chunks = match holders.memory {
            Some(bytes) => u32::try_from(bytes.get() / chunk_bytes).unwrap_or(u32::MAX).max(1),
            None => kept.saturating_add(rings),
        };
        let chunks = chunks.min(CHUNKS_MAX);
        let memory_bytes = u64::from(chunks) * chunk_bytes;
        Room { pool_packets, packets, kept, chunks, memory_bytes }
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
    /// Ports may be of any kind where `holders` does not say.
    pub fn room(&self, numbers: &[u16], holders: Option<&Holders>) -> Option<Room> {
        let qos = self.queues(numbers)?.ok()?;
        let asked = self.qos.as_ref().and_then(|qos| qos.packet_slots);
        let cell = u64::from(qos.tm.cell_bytes);
        let any = Holders::of_any(qos.ports.len());
        Some(Room::of(&pools_in_use(&qos), cell, asked, holders.unwrap_or(&any)))
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
        let any = |ports| Holders::of_any(ports);
        let small = Room::of(&pools(60_000, 120_000), 0, None, &any(2));
        assert_eq!((small.pool_packets, small.packets), (1000, 1000));
        assert_eq!((small.kept, small.chunks), (1000 + 1024, 1000 + 1024 + 2 * 2048));
        let cells = Room::of(&pools(96_000, 96_000), 96, None, &any(2));
        assert_eq!(cells.packets, 1000, "a cell is the least that is charged");
        let large = Room::of(&pools(12_000_000, 12_000_000), 0, None, &any(2));
        assert_eq!((large.pool_packets, large.packets), (200_000, 8192));
        let asked = Room::of(&pools(12_000_000, 12_000_000), 0, Some(200_000), &any(64));
        assert_eq!((asked.packets, asked.chunks), (200_000, 200_000 + 1024 + 8192));
        assert_eq!(asked.memory_bytes, u64::from(asked.chunks) << 14);
        let most = Room::of(&pools(1 << 40, 1 << 40), 0, Some(PACKET_SLOTS_MAX), &any(60_000));
        assert_eq!(most.chunks, 1 << 20, "more packet memory cannot have");
    }

    #[test]
    fn only_ports_with_rings_take_memory_and_many_take_little_each() {
        let specs = |kind: &str, count: u16| -> Vec<(u16, PortSpec)> {
            let spec = |n| PortSpec::parse(&format!("{kind}veth{n}")).unwrap();
            (1..=count).map(|n| (n, spec(n))).collect()
        };
        let chunks =
            |kind, count, more| Room::plain(&Holders::of(&specs(kind, count), more)).chunks;
        assert_eq!([2, 256].map(|count| chunks("raw:", count, false)), [4096; 2]);
        let xdp = [1, 2, 8, 64, 128].map(|count| chunks("xdp:", count, false) - 4096);
        assert_eq!(xdp, [2048, 4096, 8192, 8192, 128 * 128]);
        assert_eq!(chunks("", 8, false), chunks("xdp:", 8, false), "a bare name may be AF_XDP");
        // Ports that come later find room, and the first ones do not have it all.
        assert_eq!(chunks("raw:", 2, true), 4096 + 8192);
        assert_eq!(Holders::of(&specs("xdp:", 6), true).ring_ports, 12);
        let asked = Holders { memory: Some(Bytes::new(64 << 20)), workers: 3, ring_ports: 2 };
        let room = Room::plain(&asked);
        assert_eq!(
            (room.chunks, room.kept),
            (4096, 4096 + 256),
            "less than rings and packets want"
        );
    }
}
