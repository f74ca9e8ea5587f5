//! Engines, which run a program over bursts of packets.
//!
//! An engine implements [`Engine`] over bursts of [`crate::exec`]'s packets; it uses no socket and no clock, `now` is
//! an argument. The interpreter and the compiled engine are two of them; nothing here depends on either.
//!
//! # Helpers of generated code
//! Everything with an effect outside the packet is a method that both engines call: [`State`]'s `count`, `meter`,
//! `lock`, `unlock`, `register`, `value_set_contains` and its statistics, [`Worker`]'s `random` and `learn`,
//! [`crate::externs`], and [`Device`]. Generated code reaches them through `extern "C"` wrappers that take a pointer to
//! the [`Context`] and integers: a value wider than 64 bits as two words, low first. It may do these inline: count in
//! its lane (`CounterArray::lane_ptr`), look a table up (`TableView`), read and write [`Descriptor`] and [`Intrinsic`]
//! at their `repr(C)` offsets. Tables of one pass are one version: an engine pins once for a packet or a burst, and
//! pins again after a packet that learned.

use crate::exec::{Decision, Descriptor, Intrinsic, OpenPorts};
use crate::ids::{DigestId, ExternId};
use crate::ir::Program;
use crate::packet::PacketMemory;
use crate::state::{State, Worker};
use crate::trace::TraceSink;
use std::sync::Arc;
use wireyard_tables::time::Time;

/// An engine's state for the length of a burst.
pub struct Context<'a> {
    /// Run-time state of the program.
    pub state: &'a State,
    /// This worker's part of it, made by [`State::worker`].
    pub worker: &'a mut Worker,
    /// Packet memory of this worker.
    pub memory: &'a mut PacketMemory,
    /// The device.
    pub device: &'a mut dyn Device,
    /// The sink of packet traces, if any.
    pub trace: Option<&'a mut dyn TraceSink>,
}

/// A running program: packets in, verdicts out. Packets of a burst are processed one after the other, in order; each
/// reads the registers and tables as the one before left them.
pub trait Engine: Send + Sync + std::fmt::Debug {
    /// Its display name: `interp`, `jit`; `jit_baseline` is code of a lower level, until the best is there.
    fn name(&self) -> &'static str;

    /// The program that it runs, after the passes of its optimisation level.
    fn program(&self) -> &Arc<Program>;

    /// Parser, ingress, deparser, over each packet with the intrinsic metadata of the same index.
    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]);

    /// Egress, deparser.
    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]);

    /// Ingress of each packet, and egress right behind it where it [is plain](Decision::is_plain).
    /// [`Intrinsic::egress_done`] is 1 for the packets that did both, and the decisions of egress are in their
    /// metadata; of their descriptors only the packet, the egress port and the flags are valid. The other packets are
    /// as [`Engine::ingress`] leaves them.
    ///
    /// The device sets the queue metadata that egress reads (there is no queue) beforehand. A packet's egress
    /// comes before the ingress of the next one.
    fn fused(
        &self,
        cx: &mut Context<'_>,
        packets: &mut [Descriptor],
        meta: &mut [Intrinsic],
        open: &OpenPorts,
    ) {
        for (packet, meta) in packets.iter_mut().zip(meta) {
            let (packet, meta) = (std::slice::from_mut(packet), std::slice::from_mut(meta));
            self.ingress(cx, packet, meta);
            if Decision::is_plain(&packet[0], &meta[0], open) {
                self.egress(cx, packet, meta);
                meta[0].egress_done = 1;
            }
        }
    }
}

/// Functions of the device that a program may call during a pass.
pub trait Device {
    /// A digest for the control plane; `values` has one for each field.
    fn digest(&mut self, program: &Arc<Program>, digest: DigestId, values: &[u128]);

    /// A call of an extern that the device registered. Returns the result, 0 if it has none.
    fn call(
        &mut self,
        external: ExternId,
        args: &[u128],
        packet: &Descriptor,
        bytes: &[u8],
        now: Time,
    ) -> u128;
}

/// A device that has no externs and discards digests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevice;

impl Device for NoDevice {
    fn digest(&mut self, _: &Arc<Program>, _: DigestId, _: &[u128]) {}

    fn call(&mut self, _: ExternId, _: &[u128], _: &Descriptor, _: &[u8], _: Time) -> u128 {
        0
    }
}
