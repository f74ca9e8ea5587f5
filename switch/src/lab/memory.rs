//! Packet memory of a lab: one for all its devices, large enough for the packets that the scenario can have in flight;
//! and the report of its holders when it is full.
//!
//! A packet takes a chunk wherever it is: in a queue of a switch or an adapter, or on a link. The window of each flow
//! limits the packets, so the memory follows from the flows; the system allocates pages on first use.

use wireyard_pipeline::packet::{BUF_INDEX_MASK, MemoryConfig, MemoryError, PacketMemory};

use super::checks::Violation;
use super::engine::Lab;
use super::fabric::NodeKind;
use super::host;
use super::scenario::Scenario;
use crate::roce::telemetry::TELEMETRY_BYTES;
use crate::tm::PortId;
use crate::units::Bytes;

/// Bytes before a frame in packet memory.
const HEADROOM: u32 = 256;
/// Headers in front of a payload and CRCs behind it, at most: Ethernet, VLAN, IP, UDP, BTH, RETH, ICRC.
const HEADERS_MAX: u64 = 128;
/// Most bytes that follow a frame: telemetry that its receiver sends back.
const TRAILER_MAX: u64 = TELEMETRY_BYTES as u64;
/// Least and greatest number of chunks.
const CHUNKS: (u64, u64) = (1 << 14, BUF_INDEX_MASK as u64 + 1);
/// Most bytes of packet memory. Fixed, and not what the system gives: a run has the same results on every machine.
const MEMORY_MAX: u64 = 4 << 30;
/// Chunks for each packet of a window: the packet, its repeat, and their answers.
const PER_PACKET: u64 = 4;
/// Chunks for each node beside its flows: CNPs, pauses, and its free list.
const PER_NODE: u64 = 256;
/// Chunks that a node takes or returns at once. A thread runs many nodes: few, so that a chunk is reused while it is in
/// the cache.
const BATCH: u32 = 4;

/// The packet memory of a scenario.
///
/// # Errors
/// The system refuses this much memory.
pub(super) fn make(scenario: &Scenario) -> Result<PacketMemory, MemoryError> {
    let (config, frame) = config(scenario);
    PacketMemory::with_batch(config, BATCH, (frame + TRAILER_MAX) as u32)
}

/// Its number of chunks and their length; the longest frame.
fn config(scenario: &Scenario) -> (MemoryConfig, u64) {
    let packets = scenario.host_setups().map(|host| host.path_mtu.get());
    let frame = packets.max().unwrap_or(0) + HEADERS_MAX;
    let mut config = MemoryConfig::for_frames(chunks(scenario) as u32, frame as u32, HEADROOM);
    config.chunks = config.chunks.min((MEMORY_MAX / u64::from(config.chunk_bytes)) as u32);
    (config, frame)
}

/// Chunks for all packets that the flows can have in flight.
fn chunks(scenario: &Scenario) -> u64 {
    let windows = scenario.flows.iter().map(|flow| host::window_packets(scenario, flow));
    let packets = windows.fold(0u64, u64::saturating_add);
    let nodes = scenario.fabric.nodes.len() as u64;
    packets.saturating_mul(PER_PACKET).saturating_add(PER_NODE * nodes).clamp(CHUNKS.0, CHUNKS.1)
}

/// Number of packets, their bytes, and their main holders.
#[derive(Default)]
struct Held {
    packets: u64,
    bytes: u64,
    most: Option<(u64, u64, String)>,
}

impl Held {
    fn add(&mut self, name: String, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        if packets > self.most.as_ref().map_or(0, |most| most.0) {
            self.most = Some((packets, bytes, name));
        }
    }

    fn words(&self, place: &str) -> Option<String> {
        let (packets, bytes, name) = self.most.as_ref()?;
        let (all, most) = (Bytes::new(self.bytes), Bytes::new(*bytes));
        Some(format!(
            "{} packets ({all}) {place}, most in `{name}`: {packets} ({most})",
            self.packets
        ))
    }
}

impl Lab {
    /// The violation if a device found no memory for a packet: later results have no meaning.
    pub(super) fn out_of_memory(&mut self) -> Option<Violation> {
        (self.mem.refused() > 0).then(|| Violation::new("memory", self.now(), self.who_holds()))
    }

    fn who_holds(&mut self) -> String {
        let fabric = &self.scenario.fabric;
        let (mut switches, mut adapters) = (Held::default(), Held::default());
        let mut links = Held::default();
        for (node, core) in fabric.nodes.iter().zip(&mut self.cores) {
            let view = core.view(self.now);
            let ports = (0..=u16::MAX).map_while(|id| view.port(PortId(id)));
            let bytes = ports.flat_map(|port| port.queues).map(|queue| queue.bytes).sum();
            let held = match node.kind {
                NodeKind::Switch => &mut switches,
                NodeKind::Host => &mut adapters,
            };
            held.add(node.name.clone(), core.queued() as u64, bytes);
        }
        for (link, directions) in self.links.iter().enumerate() {
            let under_way = directions.iter().map(|direction| direction.under_way());
            let (packets, bytes) =
                under_way.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            links.add(fabric.link_name(link), packets, bytes);
        }
        let held =
            [switches.words("in switches"), adapters.words("in adapters"), links.words("on links")];
        let held: Vec<String> = held.into_iter().flatten().collect();
        let MemoryConfig { chunks, chunk_bytes, .. } = self.mem.config();
        format!(
            "packet memory is full, its {chunks} chunks of {chunk_bytes} B hold {}: make the `window` or the messages of flows \
             smaller, buffer pools smaller, links shorter or slower, or packets larger",
            held.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wireyard_pipeline::source::Loader;

    use super::*;
    use crate::lab::scenario;
    use crate::library::LIBRARIES;

    #[test]
    fn memory_follows_the_windows_of_flows() {
        let with = |flow: &str| {
            let text = format!(
                "lab: x\nduration: 1 ms\nlink: {{ mtu: 9000 B }}\ntopology: {{ incast: {{ senders: 8 }} }}\nflows: {{ from: senders, to: sink, {flow} }}\n"
            );
            let path = Path::new("memory.yaml");
            let loader = Loader::in_memory([(path, text)], LIBRARIES);
            scenario::read(path, &loader).expect("the scenario reads").0
        };
        let few = with("size: 100 KB");
        assert_eq!(chunks(&few), CHUNKS.0);
        let more = with("message: 4 MB");
        assert_eq!(chunks(&more), 8 * 2 * 3907 * PER_PACKET + 10 * PER_NODE);
        let most = with("message: 1 GB");
        assert_eq!(chunks(&most), CHUNKS.1);
        // Longer chunks are fewer, on every machine the same number.
        let mut long = most;
        long.host.path_mtu = Bytes::new(4096);
        let MemoryConfig { chunks, chunk_bytes, .. } = config(&long).0;
        assert_eq!((chunks, chunk_bytes), (1 << 19, 8192));
    }
}
