//! A lab at one instant, in a few sums over the whole run so far, for observers.

use super::engine::Lab;
use super::host;
use crate::tm::CLASSES;
use crate::units::Bytes;

/// Sums over all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Bytes in the fullest queue of a switch.
    pub queue: Bytes,
    /// Marks by switches.
    pub marked: u64,
    /// CNPs that senders received.
    pub cnps: u64,
    /// XOFFs that switches sent.
    pub xoffs: u64,
    /// Packets dropped by any device.
    pub dropped: u64,
    /// Payload that arrived with other bytes than those sent.
    pub wrong_bytes: u64,
    /// Sum of the rates of all reaction points, bit/s.
    pub rate_bps: f64,
}

impl Lab {
    /// The present state.
    pub fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let fabric = &self.scenario.fabric;
        for node in fabric.switches() {
            let core = &mut self.cores[node];
            for port in fabric.nodes[node].ports() {
                let Some(id) = core.ports().traffic_port(port) else { continue };
                for queue in 0..CLASSES as u8 {
                    let bytes = Bytes::new(core.manager().tm.queue_bytes(id, queue));
                    snapshot.queue = snapshot.queue.max(bytes);
                    snapshot.marked += core.view(self.now).marked(id, queue);
                }
                let status = core.view(self.now).port(id);
                snapshot.xoffs += status.map_or(0, |status| status.pauses.tx_xoff.iter().sum());
            }
        }
        snapshot.dropped = self.cores.iter().map(|core| core.ports().ledger().dropped()).sum();
        snapshot.wrong_bytes =
            self.flows.iter().map(|flow| host::wrong_bytes(flow, &mut self.cores)).sum();
        for status in self.statuses() {
            snapshot.cnps += status.cnps;
            snapshot.rate_bps += status.rate.map_or(0.0, |rate| rate.rate_bps);
        }
        snapshot
    }
}
