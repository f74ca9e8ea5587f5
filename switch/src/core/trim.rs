//! Trimming: cuts a packet that its queue refused, and offers the rest to the queue for trimmed packets.
//!
//! Headers stay complete, whatever the size: egress finds them by the validity mask. Bytes behind the body (an ICRC,
//! padding) are removed; a trailer that a program declares as a header is then not there. Frames of the device's own
//! are not cut, as no program processes them.

use wireyard_pipeline::exec::{Descriptor, flags};

use super::Core;
use super::manager::DEVICE_ORIGINATED;
use crate::tm::{Arrival, Terms, Trim};

/// Decisions that a test makes in place of the traffic manager.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandIn {
    /// Any decision is set.
    pub(super) is_on: bool,
    mark: bool,
    trim_bytes: Option<u32>,
}

impl StandIn {
    /// Sets a congestion mark before egress on every ECN-capable packet.
    pub fn mark(&mut self, on: bool) {
        self.mark = on;
        self.is_on = on || self.trim_bytes.is_some();
    }

    /// Trims every packet to `bytes` before egress; `None` trims none.
    pub fn trim(&mut self, bytes: Option<u32>) {
        self.trim_bytes = bytes;
        self.is_on = self.mark || bytes.is_some();
    }
}

impl Core {
    /// Applies the decisions of a test before egress; true marks the packet.
    #[cold]
    pub(super) fn stand_in(&mut self, packet: &mut Descriptor) -> bool {
        let StandIn { mark, trim_bytes, .. } = self.stand_in;
        if let Some(bytes) = trim_bytes {
            self.cut(packet, bytes);
        }
        mark && packet.flags & flags::ECT != 0
    }

    /// Trims and offers again a packet for this slot's port that was refused as `arrival`.
    #[cold]
    pub(super) fn trim(
        &mut self,
        slot: usize,
        packet: &mut Descriptor,
        arrival: &Arrival,
        trim: Trim,
    ) {
        let is_own = packet.flags & DEVICE_ORIGINATED != 0;
        if !is_own {
            self.cut(packet, trim.bytes);
        }
        // It never departs by itself as the last of a burst: it does egress with those that need no link time.
        let terms = Terms { last: false, unchanged: false, ..arrival.terms };
        let bytes = self.ingress.cuts.frame_bytes(packet);
        let again = Arrival { queue: trim.queue, bytes, terms, ..*arrival };
        let offered = self.manager.tm.offer_trimmed(self.now, arrival.queue, &again);
        self.accept(slot, packet, offered);
    }

    /// Cuts a packet to `bytes` of its frame; a shorter one stays whole.
    pub(super) fn cut(&mut self, packet: &mut Descriptor, bytes: u32) {
        if self.ingress.cuts.frame_bytes(packet) <= bytes.max(packet.body_off.into()) {
            return;
        }
        let generation = self.executor.generation(packet.generation);
        packet.trim(bytes, generation.map_or(0, |known| known.program.trailers()));
        // A capture record that has fewer bytes is still missing the rest.
        packet.cut = self.ingress.cuts.number(bytes.max(packet.len), packet.len);
    }
}
