//! Trimming: cuts a packet that its queue refused, and offers what is left to the queue for trimmed packets.
//!
//! Headers stay whole, whatever the size: egress finds them by the validity mask. What was behind the body (an ICRC, padding) is gone; a
//! program that keeps such a trailer as a header does not see it. Frames of the device's own go whole: no program looks at them.

use wireyard_pipeline::exec::{Descriptor, flags};

use super::Core;
use super::manager::DEVICE_ORIGINATED;
use crate::tm::{Arrival, Offered, Terms, Trim};

/// Decisions of the traffic manager that a test makes in its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandIn {
    /// There is one.
    pub(super) is_on: bool,
    mark: bool,
    trim_bytes: Option<u32>,
}

impl StandIn {
    /// Egress sees a congestion mark on every packet that may be marked.
    pub fn mark(&mut self, on: bool) {
        self.mark = on;
        self.is_on = on || self.trim_bytes.is_some();
    }

    /// Every packet is trimmed to so many bytes in front of egress.
    pub fn trim(&mut self, bytes: Option<u32>) {
        self.trim_bytes = bytes;
        self.is_on = self.mark || bytes.is_some();
    }
}

impl Core {
    /// What a test decides about a packet in front of egress; true marks it.
    #[cold]
    pub(super) fn stand_in(&mut self, packet: &mut Descriptor) -> bool {
        let StandIn { mark, trim_bytes, .. } = self.stand_in;
        if let Some(bytes) = trim_bytes {
            self.cut(packet, bytes);
        }
        mark && packet.flags & flags::ECT != 0
    }

    /// A packet for this slot's port that was refused as `arrival`.
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
        // Of a burst it is none that departs by itself: egress follows with those that need no time on a link.
        let terms = Terms { last: false, unchanged: false, ..arrival.terms };
        let bytes = self.ingress.cuts.frame_bytes(packet);
        let again = Arrival { queue: trim.queue, bytes, terms, ..*arrival };
        match self.manager.tm.offer_trimmed(self.now, arrival.queue, &again) {
            Offered::Departs(_) if is_own => self.hand_over(slot, packet, self.now, self.now),
            Offered::Departs(_) => self.egress.departing.push(std::mem::take(packet)),
            Offered::Queued(place) => self.manager.tm.put(place, std::mem::take(packet)),
            Offered::Refused(reason) => {
                self.refuse(std::mem::take(packet), self.manager.reason(reason));
            }
            Offered::Trims(_) => unreachable!("what was trimmed is not trimmed again"),
        }
    }

    /// Cuts a packet to `bytes` of its frame; a shorter one stays whole.
    pub(super) fn cut(&mut self, packet: &mut Descriptor, bytes: u32) {
        if self.ingress.cuts.frame_bytes(packet) <= bytes.max(packet.body_off.into()) {
            return;
        }
        let generation = self.executor.generation(packet.generation);
        packet.trim(bytes, generation.map_or(0, |known| known.program.trailers()));
        // Of a capture record that has less than that, the rest of it is missing still.
        let missing = bytes.saturating_sub(packet.len);
        packet.cut = self.ingress.cuts.number(missing);
    }
}
