//! Ports that several workers serve: frames received on a queue of a port that belongs to another worker.
//!
//! A port belongs to one worker, its owner, with its accounts, its pauses, its queues in the traffic manager and its
//! shaper. Other workers may have a receive queue and a transmit queue of the link; the worker that receives a frame
//! runs its ingress.
//!
//! With queues (`qos:`), packets that ingress let through go to the owner of their ingress port, through a ring of its
//! own, and the owner continues as if it had received them: class, copies, another pass, the charge of the priority
//! group, the queue. PAUSE and PFC frames go there too. So every account and every pause is at one worker. At most
//! [`RING`] frames of each other worker are received and not charged yet; packets that ingress dropped or punted end at
//! the worker that received them.
//!
//! Without queues nothing is charged: the worker itself continues, and sends by its own transmit queue of the egress
//! port, where it has one.
//!
//! The order inside a flow is that of its receive queue: the kernel, the network card or the sender assigns all frames
//! of a flow to one queue, and from there on all take the same rings.

use rtrb::PushError;
use wireyard_pipeline::exec::{Decision, Descriptor, Intrinsic};
use wireyard_pipeline::trace::TraceSink;

use super::dispatch::Pass;
use super::handover::{Mesh, Peer, TAKE_MAX};
use super::ports::ingress_of;
use super::{Core, DeviceError};
use crate::ports::{Port, PortNumber, RxFrame};
use crate::stats::DeviceReason;
use crate::tm::Terms;

/// Capacity in frames of a ring to the owner of their port, which has not charged them yet.
pub(crate) const RING: usize = 512;

/// A frame that a worker received on a queue of another worker's port.
pub(super) enum Served {
    /// A packet after ingress, with the decision of ingress.
    Packet {
        packet: Descriptor,
        intrinsic: Intrinsic,
        /// Bytes on the wire, of a truncated record too; the number in the descriptor is valid for the sender only.
        wire_len: u32,
    },
    /// A PAUSE or PFC frame.
    MacControl { port: PortNumber, frame: RxFrame },
}

impl Served {
    /// Its ingress port.
    pub(super) fn ingress_port(&self) -> PortNumber {
        match self {
            Served::Packet { packet, .. } => ingress_of(packet),
            Served::MacControl { port, .. } => *port,
        }
    }
}

impl Core {
    /// Adds a queue of a port that belongs to another worker: this worker receives from it, and without `qos:` sends by
    /// it.
    ///
    /// # Errors
    /// As [`Core::add_port`].
    pub fn add_queue(
        &mut self,
        number: PortNumber,
        worker: u8,
        queue: Box<dyn Port>,
    ) -> Result<(), DeviceError> {
        self.add_port(number, queue)?;
        if let Some(slot) = self.ports.find(number) {
            self.ports[slot].worker = Some(worker);
            self.ports[slot].has_queue = true;
        }
        Ok(())
    }

    /// The other worker that keeps the accounts of a slot's port; `None` if this worker keeps them.
    #[inline]
    pub(super) fn owner_elsewhere(&self, slot: usize) -> Option<u8> {
        self.ports[slot].worker.filter(|_| self.manager.configured)
    }

    /// Runs ingress on the burst and sends its packets to the owner of their ingress port.
    pub(super) fn ingress_for(&mut self, owner: u8, trace: Option<&mut dyn TraceSink>) {
        let packets = self.ingress.burst.len();
        if packets == 0 {
            return;
        }
        let (mut burst, mut meta) = self.take_burst();
        self.ingress(Pass::First { last: false }, &mut burst, &mut meta[..packets], trace);
        for (packet, intrinsic) in burst.drain(..).zip(&mut meta) {
            self.give_to_owner(owner, packet, std::mem::take(intrinsic));
        }
        self.after_pass();
        (self.ingress.burst, self.ingress.meta) = (burst, meta);
    }

    fn give_to_owner(&mut self, owner: u8, packet: Descriptor, intrinsic: Intrinsic) {
        if intrinsic.original.is_none() {
            match Decision::of(&intrinsic) {
                Decision::Drop(reason) => return self.drop_for(packet, reason),
                Decision::Punt(reason) => return self.punt_for(packet, reason),
                _ => {}
            }
        }
        // Keeps the packet's program until the owner has handled it.
        self.will_leave(&packet, 1);
        let wire_len = self.ingress.cuts.wire_len(&packet);
        let served = Served::Packet { packet, intrinsic, wire_len };
        if let Err(Served::Packet { packet, mut intrinsic, .. }) = self.push_served(owner, served) {
            intrinsic.original.take().into_iter().for_each(|buf| self.mem.free(buf));
            self.will_not_leave(&packet);
            let reason = DeviceReason::WorkerBusy.index();
            match Decision::of(&intrinsic) {
                Decision::Drop(_) | Decision::Punt(_) | Decision::Resubmit => {
                    self.drop_packet(packet, reason);
                }
                _ => self.refuse(packet, reason),
            }
        }
    }

    /// Sends a PAUSE or PFC frame to the worker whose queues it stops.
    pub(super) fn mac_control_for(&mut self, owner: u8, slot: usize, frame: RxFrame) {
        let port = self.ports[slot].number;
        let served = Served::MacControl { port, frame };
        if let Err(Served::MacControl { frame, .. }) = self.push_served(owner, served) {
            self.mem.free(frame.buf);
            self.ports[slot].ledger.drop(DeviceReason::WorkerBusy.index());
        }
    }

    /// There is room: nothing is received unless the ring has space for a burst ([`Mesh::is_crowded`]).
    #[expect(clippy::result_large_err, reason = "a frame that finds no room comes back")]
    fn push_served(&mut self, owner: u8, served: Served) -> Result<(), Served> {
        let Some(mesh) = &mut self.mesh else { return Err(served) };
        let Some(peer) = mesh.peer(owner) else { return Err(served) };
        peer.served.push(served).map_err(|PushError::Full(served)| served)?;
        mesh.wake(owner);
        Ok(())
    }

    /// Takes frames that another worker received on queues of this worker's ports, while there is room for their
    /// results. Returns the number of frames.
    pub(super) fn take_served(&mut self, worker: u8) -> usize {
        for taken in 0..TAKE_MAX {
            // The rings to owners do not count: nothing goes there from here, and two workers that serve each other's
            // ports would block each other.
            let is_crowded = self.mesh.as_ref().is_some_and(Mesh::handover_is_crowded);
            if is_crowded || self.copies.are_enough(self.ingress.again.len()) {
                return taken;
            }
            let Some(served) = self.pop(worker, |peer: &mut Peer| peer.received.pop().ok()) else {
                return taken;
            };
            match served {
                Served::Packet { packet, intrinsic, wire_len } => {
                    self.go_on_with(packet, intrinsic, wire_len);
                }
                Served::MacControl { port, frame } => match self.ports.find(port) {
                    Some(slot) => self.mac_control_received(slot, frame),
                    None => {
                        self.mem.free(frame.buf);
                        self.ports.account_drop(port, DeviceReason::PortRemoved.index());
                    }
                },
            }
        }
        TAKE_MAX
    }

    /// Executes the decision of ingress at another worker.
    fn go_on_with(&mut self, mut packet: Descriptor, mut intrinsic: Intrinsic, wire_len: u32) {
        let generation = packet.generation;
        self.executor.join(generation);
        packet.cut = self.ingress.cuts.number(wire_len, packet.len);
        let from = self.ports.find(ingress_of(&packet));
        self.manager.classify(from, &mut packet, &intrinsic);
        // It is not the last packet of its instant, so it does not depart here.
        self.after_ingress(&mut packet, &mut intrinsic, Terms::default());
        self.executor.count_out(generation);
    }
}
