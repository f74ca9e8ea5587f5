//! Trimming: cuts a packet that its queue refused, and offers the rest to the queue for trimmed packets.
//!
//! Headers stay complete, whatever the size: egress finds them by the validity mask. Bytes behind the body (an ICRC,
//! padding) are removed; a trailer that a program declares as a header is then not there. Frames of the device's own
//! are not cut, as no program processes them.

use wireyard_pipeline::exec::{Descriptor, flags};
use wireyard_pipeline::generation::Executor;

use super::cuts::CutRecords;

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

    /// Applies the decisions of a test before egress; true marks the packet.
    #[inline]
    pub(super) fn apply(
        self,
        cuts: &mut CutRecords,
        executor: &Executor,
        packet: &mut Descriptor,
    ) -> bool {
        self.is_on && self.decide(cuts, executor, packet)
    }

    #[cold]
    fn decide(self, cuts: &mut CutRecords, executor: &Executor, packet: &mut Descriptor) -> bool {
        if let Some(bytes) = self.trim_bytes {
            cuts.trim(executor, packet, bytes);
        }
        self.mark && packet.flags & flags::ECT != 0
    }
}

impl CutRecords {
    /// Cuts a packet to `bytes` of its frame; a shorter one stays whole.
    pub(super) fn trim(&mut self, executor: &Executor, packet: &mut Descriptor, bytes: u32) {
        if self.frame_bytes(packet) <= bytes.max(packet.body_off.into()) {
            return;
        }
        let generation = executor.generation(packet.generation);
        packet.trim(bytes, generation.map_or(0, |known| known.program.trailers()));
        // A capture record that has fewer bytes is still missing the rest.
        packet.cut = self.number(bytes.max(packet.len), packet.len);
    }
}
