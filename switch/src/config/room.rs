//! Packet memory for a buffer and its ports: how many packets wait at once in a live switch, how many chunks rings
//! hold, and the total of chunks.
//!
//! A buffer counts bytes, packet memory counts packets: every packet up to [`CHUNK_BYTES`] takes a chunk of that size.
//! So a switch that should hold its buffer full of small frames needs many chunks. The system allocates their pages on
//! first use, but a port that pins its memory (AF_XDP) needs all of them: by default there is a bound, which
//! `packet_slots` changes. Longer packets have large chunks, which no port pins: there are as many of them as packets
//! may wait.
//!
//! The rings have a common bound: the more ports may be AF_XDP, the smaller the rings of each. A port with a lossless
//! class needs a ring for the frames that its peer sends while this process is not scheduled; other ports need less.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_tables::time::Span;

use super::SwitchConfig;
use crate::config::qos::{CATCH_UP_FRAMES, PACKET_SLOTS_MAX, PoolReport, Qos, QosPort};
use crate::ports::xdp::rings::{CHUNKS_MIN, RECEIVE_DEFAULT, RECEIVE_MAX, chunks_for, entries_of};
use crate::ports::{PortNumber, PortSpec, Spread};
use crate::units::Bytes;

/// Bytes of a chunk: a frame of an MTU of 1,500 with its headroom, and room to grow.
pub const CHUNK_BYTES: u32 = 2048;
/// The smallest frame, without its check sequence.
const FRAME_BYTES_MIN: u64 = 60;
/// A frame of a lossless class on its link: RDMA with a path MTU of 1,024 bytes.
const FRAME_BYTES_LOSSLESS: u64 = 1100;
/// How long a process that is ready may not be scheduled, for the rings of a lossless class.
const NOT_RUN: Span = Span::from_ms(50);
/// Default of the packets that wait at once.
const PACKETS_DEFAULT: u32 = 8192;
/// Packets that wait behind ports of a switch without queues.
const PACKETS_PLAIN: u32 = 3072;
/// Chunks that the rings of all ports hold together, unless their minimum is more.
const RING_CHUNKS: u32 = 13_312;
/// Least number of ports with rings for which room is kept if ports may be added later; twice the initial number if
/// that is more.
const RING_PORTS_LATER: u32 = 8;
/// Free chunks that a worker keeps for itself.
const CHUNKS_PER_WORKER: u32 = 128;
/// Chunks that packet memory can have.
const CHUNKS_MAX: u32 = 1 << 20;
/// Chunks of packets between a port and its queue.
const CHUNKS_BETWEEN: u32 = 1024;

/// The least packet memory of a live switch: the packets between a port and its queue.
pub const MEMORY_MIN: Bytes = Bytes::new(CHUNKS_BETWEEN as u64 * CHUNK_BYTES as u64);

/// The holders of chunks beside the packets that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Queues of ports that are or may be AF_XDP, by port, and their requested receive entries.
    pub ring_ports: Vec<(PortNumber, Option<u32>)>,
    /// Ports of this kind that may come later.
    pub later: u32,
    /// Workers.
    pub workers: u32,
    /// Requested bytes of packet memory.
    pub memory: Option<Bytes>,
}

impl Holders {
    /// For these ports of any kind, with one worker.
    pub fn of_any(numbers: impl IntoIterator<Item = PortNumber>) -> Holders {
        let ring_ports = numbers.into_iter().map(|number| (number, None)).collect();
        Holders { ring_ports, later: 0, workers: 1, memory: None }
    }

    /// For these ports; with `more`, others may be added later.
    pub fn of(specs: &[(PortNumber, PortSpec)], more: bool) -> Holders {
        Holders::spread(specs, more, Spread::ONE)
    }

    /// The same where several workers serve a port: each queue has rings of its own.
    pub fn spread(specs: &[(PortNumber, PortSpec)], more: bool, spread: Spread) -> Holders {
        let rings = |(number, spec): &(PortNumber, PortSpec)| {
            let queues = spread.queues(spec, spec.kind).min(spread.workers);
            std::iter::repeat_n((*number, spec.ring), queues as usize)
        };
        let ring_ports = specs.iter().filter(|(_, spec)| spec.kind.takes("ring"));
        let ring_ports: Vec<_> = ring_ports.flat_map(rings).collect();
        let now = ring_ports.len() as u32;
        let later = if more { RING_PORTS_LATER.max(2 * now) - now } else { 0 };
        Holders { ring_ports, later, workers: 1, memory: None }
    }

    /// Chunks that the rings of each port request, those of ports that are added later last.
    fn wants(&self, ports: &[QosPort]) -> (Vec<(PortNumber, u32)>, u32) {
        let lossless = |number: PortNumber| {
            let port = ports.iter().find(|port| port.number == number)?;
            lossless_entries(port)
        };
        let want = |(number, asked): &(PortNumber, Option<u32>)| {
            let entries = asked.or_else(|| lossless(*number)).unwrap_or(RECEIVE_DEFAULT);
            (*number, chunks_for(entries))
        };
        let wants: Vec<(PortNumber, u32)> = self.ring_ports.iter().map(want).collect();
        let later = wants.iter().map(|(_, chunks)| *chunks).max();
        (wants, later.unwrap_or(chunks_for(RECEIVE_DEFAULT)))
    }
}

/// Entries for receiving of a port with a lossless class: for the frames that its peer sends while this process is not
/// scheduled, and for the burst of a peer that itself was not scheduled.
fn lossless_entries(port: &QosPort) -> Option<u32> {
    let rate = port.tm.rate.filter(|_| port.tm.groups.iter().any(|g| g.lossless.is_some()))?;
    let bytes = u128::from(rate.get()) * u128::from(NOT_RUN.as_ns()) / 8_000_000_000;
    let frames = u32::try_from(bytes / u128::from(FRAME_BYTES_LOSSLESS)).unwrap_or(RECEIVE_MAX);
    Some(frames.saturating_add(CATCH_UP_FRAMES).clamp(RECEIVE_DEFAULT, RECEIVE_MAX))
}

/// The packet memory of a live switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Number of smallest frames that fit into the pools.
    pub pool_packets: u64,
    /// Packets that wait at once; more are refused as `no_slot`.
    pub packets: u32,
    /// Chunks that no ring holds.
    pub kept: u32,
    /// Chunks of packet memory, those that ports hold among them.
    pub chunks: u32,
    /// Bytes of these chunks.
    pub memory_bytes: u64,
    /// Large chunks beside them, whose pages the system allocates on first use.
    pub large_chunks: u32,
    /// Chunks of the rings of each queue of a port.
    #[serde(skip)]
    pub rings: Vec<(PortNumber, u32)>,
    /// Chunks of the rings of a port that comes later.
    #[serde(skip)]
    pub later: u32,
}

impl Room {
    /// Packets that these pools hold, charged in cells of `cell_bytes` (0: in bytes), and those that wait at once,
    /// `asked` if configured.
    fn packets(pools: &[PoolReport], cell_bytes: u64, asked: Option<u32>) -> (u64, u32) {
        let charge = FRAME_BYTES_MIN.next_multiple_of(cell_bytes.max(1));
        let bytes = |direction| {
            let pools = pools.iter().filter(|pool| pool.direction == direction);
            pools.map(|pool| pool.size_bytes).sum::<u64>()
        };
        // A packet is in a pool of each direction.
        let pool_packets = bytes("ingress").min(bytes("egress")) / charge;
        let wanted = u32::try_from(pool_packets).unwrap_or(u32::MAX).max(1);
        let packets = asked.unwrap_or(wanted.min(PACKETS_DEFAULT)).clamp(1, PACKET_SLOTS_MAX);
        (pool_packets, packets)
    }

    /// Of a switch without queues.
    pub fn plain(holders: &Holders) -> Room {
        Room::for_packets((0, PACKETS_PLAIN), &[], holders)
    }

    fn for_packets(
        (pool_packets, packets): (u64, u32),
        ports: &[QosPort],
        holders: &Holders,
    ) -> Room {
        let kept = packets + CHUNKS_BETWEEN + CHUNKS_PER_WORKER * (holders.workers.max(1) - 1);
        let (mut rings, mut later) = holders.wants(ports);
        let asked = holders.memory.map(|bytes| {
            u32::try_from(bytes.get() / u64::from(CHUNK_BYTES)).unwrap_or(u32::MAX).max(1)
        });
        let bound = asked.map_or(RING_CHUNKS, |chunks| chunks.saturating_sub(kept));
        let all = |rings: &[(PortNumber, u32)], later: u32| {
            let now: u64 = rings.iter().map(|(_, chunks)| u64::from(*chunks)).sum();
            now + u64::from(later) * u64::from(holders.later)
        };
        let wanted = all(&rings, later);
        if wanted > u64::from(bound) {
            let part = |chunks: &mut u32| {
                let part = u64::from(*chunks) * u64::from(bound) / wanted;
                *chunks = (part as u32).max(CHUNKS_MIN);
            };
            rings.iter_mut().map(|(_, chunks)| chunks).chain([&mut later]).for_each(part);
        }
        let of_rings = u32::try_from(all(&rings, later)).unwrap_or(u32::MAX);
        let chunks = asked.unwrap_or(kept.saturating_add(of_rings)).min(CHUNKS_MAX);
        let memory_bytes = u64::from(chunks) * u64::from(CHUNK_BYTES);
        Room {
            pool_packets,
            packets,
            kept,
            chunks,
            memory_bytes,
            large_chunks: packets,
            rings,
            later,
        }
    }

    /// The packet memory, without its large chunks.
    pub fn memory(&self) -> MemoryConfig {
        MemoryConfig { chunks: self.chunks, chunk_bytes: CHUNK_BYTES, ..MemoryConfig::default() }
    }

    /// The ports, with the computed entries of their rings where none are configured.
    pub fn with_rings(&self, specs: &[(PortNumber, PortSpec)]) -> Vec<(PortNumber, PortSpec)> {
        let ring = |number: PortNumber| self.rings.iter().find(|(known, _)| *known == number);
        let mut specs = specs.to_vec();
        for (number, spec) in &mut specs {
            let chunks = ring(*number).map(|(_, chunks)| *chunks);
            spec.ring = chunks.map(entries_of).or(spec.ring);
        }
        specs
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
    /// The packet memory of a live switch with these ports; `None` without queues in the configuration, or with
    /// contradictions. Without `holders` the ports may be of any kind.
    pub fn room(&self, numbers: &[PortNumber], holders: Option<&Holders>) -> Option<Room> {
        let qos = self.queues(numbers)?.ok()?;
        let asked = self.qos.as_ref().and_then(|qos| qos.packet_slots);
        let cell = u64::from(qos.tm.cell_bytes);
        let any = Holders::of_any(qos.ports.iter().map(|port| port.number));
        let packets = Room::packets(&pools_in_use(&qos), cell, asked);
        Some(Room::for_packets(packets, &qos.ports, holders.unwrap_or(&any)))
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
    use wireyard_pipeline::diag::{Diagnostics, Files};
    use wireyard_pipeline::source::Loader;

    use super::*;

    fn config(text: &str) -> SwitchConfig {
        let loader = Loader::in_memory([("switch.yaml", text)], &[]);
        let (mut files, mut found) = (Files::new(), Diagnostics::new());
        let read = SwitchConfig::read("switch.yaml".as_ref(), &loader, &mut files, &mut found);
        read.unwrap_or_else(|| panic!("{:?}", found.sorted()))
    }

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
        let of = |pools: &[PoolReport], cell, asked, ports| {
            let packets = Room::packets(pools, cell, asked);
            Room::for_packets(packets, &[], &Holders::of_any((1..=ports).map(PortNumber)))
        };
        let small = of(&pools(60_000, 120_000), 0, None, 2);
        assert_eq!((small.pool_packets, small.packets), (1000, 1000));
        assert_eq!((small.kept, small.chunks), (1000 + 1024, 1000 + 1024 + 2 * 1280));
        let cells = of(&pools(96_000, 96_000), 96, None, 2);
        assert_eq!(cells.packets, 1000, "a cell is the least that is charged");
        let large = of(&pools(12_000_000, 12_000_000), 0, None, 2);
        assert_eq!((large.pool_packets, large.packets), (200_000, 8192));
        let asked = of(&pools(12_000_000, 12_000_000), 0, Some(200_000), 64);
        assert_eq!((asked.packets, asked.chunks), (200_000, 200_000 + 1024 + 13_312));
        assert_eq!(asked.memory_bytes, u64::from(asked.chunks) << 11);
        let most = of(&pools(1 << 40, 1 << 40), 0, Some(PACKET_SLOTS_MAX), 60_000);
        assert_eq!(most.chunks, 1 << 20, "more packet memory cannot have");
    }

    #[test]
    fn only_ports_with_rings_take_memory_and_many_take_little_each() {
        let specs = |kind: &str, count: u16| -> Vec<(PortNumber, PortSpec)> {
            let spec = |n| PortSpec::parse(&format!("{kind}veth{n}")).unwrap();
            (1..=count).map(|n| (PortNumber(n), spec(n))).collect()
        };
        let chunks =
            |kind, count, more| Room::plain(&Holders::of(&specs(kind, count), more)).chunks;
        assert_eq!([2, 256].map(|count| chunks("raw:", count, false)), [4096; 2]);
        let xdp = [1, 2, 8, 64, 128].map(|count| chunks("xdp:", count, false) - 4096);
        assert_eq!(xdp, [1280, 2560, 10_240, 13_312, 128 * 128]);
        assert_eq!(chunks("", 8, false), chunks("xdp:", 8, false), "a bare name may be AF_XDP");
        // There is room for ports that are added later, so the first ones do not get all.
        assert_eq!(chunks("raw:", 2, true), 4096 + 10_240);
        assert_eq!(Holders::of(&specs("xdp:", 6), true).later, 6);
        let two = specs("xdp:", 2);
        let asked =
            Holders { memory: Some(Bytes::new(8 << 20)), workers: 3, ..Holders::of(&two, false) };
        let room = Room::plain(&asked);
        assert_eq!((room.chunks, room.kept), (4096, 4096 + 256), "less than packets want");
        assert_eq!(
            room.rings,
            [(PortNumber(1), 128), (PortNumber(2), 128)],
            "ports are refused with the numbers"
        );
    }

    #[test]
    fn a_lossless_port_has_a_ring_for_what_comes_while_the_process_is_not_run() {
        let text = "ports: { 1: { rate: 1Gbps }, 2: { rate: 10Gbps }, 3: { rate: 1Gbps, pfc_enable: [], priority_groups: { default: ingress_lossy } }, 4: { rate: 1Gbps } }\n\
                    qos: { preset: onyx_roce, allow_lossy_headroom: true }\n";
        let config = config(text);
        let specs = |texts: &[&str]| -> Vec<(PortNumber, PortSpec)> {
            let spec = |(n, text): (u16, &&str)| (PortNumber(n), PortSpec::parse(text).unwrap());
            (1..).zip(texts).map(spec).collect()
        };
        let rings = |texts: &[&str], memory: Option<u64>| {
            let specs = specs(texts);
            let memory = memory.map(Bytes::new);
            let holders = Holders { memory, ..Holders::of(&specs, false) };
            let numbers: Vec<PortNumber> = specs.iter().map(|(number, _)| *number).collect();
            let room = config.room(&numbers, Some(&holders)).unwrap();
            let rings = room.with_rings(&specs).iter().map(|(_, spec)| spec.ring).collect();
            (room, rings)
        };
        let of = |entries: &[u32]| entries.iter().map(|n| Some(*n)).collect::<Vec<_>>();
        // 50 ms of frames of 1,100 bytes, and 512 that arrive at once.
        let (_, one): (Room, Vec<Option<u32>>) = rings(&["xdp:a"], None);
        assert_eq!(one, of(&[5681 + 512]));
        let (all, several) = rings(&["xdp:a", "xdp:b", "xdp:c", "raw:d"], Some(400 << 20));
        assert_eq!(several, [&of(&[5681 + 512, 56_818 + 512, 1024])[..], &[None]].concat());
        assert_eq!(all.memory_bytes, 400 << 20);
        let (_, given) = rings(&["xdp:a,ring=2000", "xdp:b,ring=64"], None);
        assert_eq!(given, of(&[2000, 64]));
    }

    /// The figure of README: the memory that AF_XDP pins for a switch at its defaults.
    #[test]
    fn two_lossless_ports_take_less_than_48_mebibytes() {
        let text = "ports: { 1: { rate: 100Gbps }, 2: { rate: 100Gbps } }\nqos: { preset: onyx_roce, allow_lossy_headroom: true }\n";
        let room = config(text).room(&[PortNumber(1), PortNumber(2)], None).unwrap();
        assert_eq!((room.packets, room.chunks), (8192, 8192 + 1024 + 13_312));
        assert!(room.memory_bytes <= 48 << 20);
    }
}
