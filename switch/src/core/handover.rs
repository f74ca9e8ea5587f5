//! Several workers on one device: packets that leave by another worker's port, and frames received on a queue of a port
//! that belongs to another worker.
//!
//! Every worker has a [`Core`] of its own on the same packet memory, program and tables. Each port belongs to one of
//! them, its owner: its priority groups are charged and its pauses decided there, and its queues, egress and
//! transmission are there. It is received there too, unless several workers serve the port. A packet that ingress sends
//! to a port of another worker goes through a single-producer ring ([`mesh`](super::mesh)) and is offered to that
//! worker's traffic manager. The charge of its priority group stays with the worker of its ingress port and comes back
//! through a second ring when the packet has left ([`crate::tm`], shared).
//!
//! Packets of one flow are received on one queue of a port and go through the same rings, so their order is kept. A
//! worker whose ring to another is nearly full receives nothing from its ports: packets then wait outside of the
//! switch. This module has no threads: [`crate::live`] runs, wakes and stops the workers.
//!
//! # Ports that several workers serve
//!
//! Workers other than the owner may have a receive queue and a transmit queue of a link; the worker that receives a
//! frame runs its ingress.
//!
//! With queues (`qos:`), packets that ingress let through go to the owner of their ingress port, through a ring of its
//! own, and the owner continues as if it had received them: class, copies, another pass, the charge of the priority
//! group, the queue. PAUSE and PFC frames go there too. So every account and every pause is at one worker. At most
//! [`UNCHARGED_MAX`](super::UNCHARGED_MAX) frames of each other worker are received and not charged yet; packets that
//! ingress dropped or punted end at the worker that received them.
//!
//! Without queues nothing is charged: the worker itself continues, and sends by its own transmit queue of the egress
//! port, where it has one.
//!
//! The order inside a flow is that of its receive queue: the kernel, the network card or the sender assigns all frames
//! of a flow to one queue, and from there on all take the same rings.

use wireyard_pipeline::exec::{BURST_MAX, Decision, Descriptor, Intrinsic, Verdict};
use wireyard_pipeline::trace::TraceSink;

use super::Core;
use super::dispatch::{Pass, will_not_leave};
use super::manager::DEVICE_ORIGINATED;
use super::mesh::{Handed, Served};
use super::ports::{egress_of, ingress_of};
use crate::ports::RxFrame;
use crate::stats::DeviceReason;
use crate::tm::{Charge, DropReason, Terms};

/// Packets that one poll takes from each of the other workers.
const TAKE_MAX: usize = 4 * BURST_MAX;

impl Core {
    /// Sends a packet to the worker that owns its egress port.
    pub(super) fn hand_to(&mut self, worker: u8, packet: Descriptor, terms: Terms) {
        let (ports, cuts, manager) = (&self.ports, &self.ingress.cuts, &mut self.manager);
        let charge = match manager.charge_remote(self.now, ports, cuts, worker, &packet, terms) {
            Ok(charge) => charge,
            Err(reason) => {
                manager.count_refused(ports, cuts, &packet, terms, reason);
                return self.refuse(packet, self.manager.reason(reason));
            }
        };
        let wire_len = self.ingress.cuts.wire_len(&packet);
        let handed = Handed { packet, wire_len, terms, charge };
        if let Some(Handed { packet, charge, .. }) = self.mesh.push(worker, handed) {
            if let Some(charge) = charge {
                self.manager.tm.release_shared(self.now, charge);
            }
            self.refuse(packet, DeviceReason::WorkerBusy.index());
        }
    }

    /// Takes from the other workers: returned charges, packets for ports of this worker, and packets that they received
    /// on queues of its ports. Returns the number of packets.
    pub(super) fn take_handed(&mut self) -> usize {
        self.copies.made = 0;
        self.mesh.share_few_slots(&mut self.manager.tm);
        let mut taken = 0;
        for worker in 0..self.mesh.workers() {
            self.mesh.exchange_charges(worker, self.now, &mut self.manager.tm);
            for _ in 0..TAKE_MAX {
                let Some(handed) = self.mesh.next_handed(worker) else { break };
                self.take_over(worker, handed);
                taken += 1;
            }
            taken += self.take_served(worker);
        }
        taken
    }

    fn take_over(&mut self, worker: u8, handed: Handed) {
        let Handed { mut packet, wire_len, terms, charge: remote } = handed;
        // It may be trimmed or refused before its egress, which both need its program.
        if packet.flags & DEVICE_ORIGINATED == 0 {
            self.executor.join(packet.generation);
        }
        packet.cut = self.ingress.cuts.number(wire_len, packet.len);
        let charge = match remote {
            None => Charge::Own,
            Some(remote) => match self.manager.tm.borrow_shared(worker, remote) {
                Some(memory) => Charge::Shared(memory),
                None => {
                    self.mesh.give_back(worker, remote);
                    Charge::Refused(DropReason::NoSlot)
                }
            },
        };
        let port = egress_of(&packet);
        self.enqueue(&mut packet, port, Terms { charge, last: false, unchanged: false, ..terms });
        self.manager.release_copies(self.now, charge);
    }

    /// Runs ingress on the burst and sends its packets to the owner of their ingress port.
    pub(super) fn ingress_for(&mut self, owner: u8, trace: Option<&mut dyn TraceSink>) {
        let packets = self.ingress.burst.len();
        if packets == 0 {
            return;
        }
        let (mut burst, mut meta) = self.ingress.take_burst();
        self.ingress(Pass::First { last: false }, &mut burst, &mut meta[..packets], trace);
        for (packet, intrinsic) in burst.drain(..).zip(&mut meta) {
            self.give_to_owner(owner, packet, std::mem::take(intrinsic));
        }
        self.after_pass();
        (self.ingress.burst, self.ingress.meta) = (burst, meta);
    }

    fn give_to_owner(&mut self, owner: u8, packet: Descriptor, intrinsic: Intrinsic) {
        if intrinsic.original.is_none()
            && let Decision::NotForwarded(verdict @ (Verdict::Drop | Verdict::Punt), reason) =
                Decision::of(&intrinsic)
        {
            return self.not_forwarded(packet, verdict, reason);
        }
        // Keeps the packet's program until the owner has handled it.
        self.executor.count_in(packet.generation, 1);
        let wire_len = self.ingress.cuts.wire_len(&packet);
        let served = Served::Packet { packet, intrinsic, wire_len };
        if let Some(Served::Packet { packet, mut intrinsic, .. }) =
            self.mesh.push_served(owner, served)
        {
            intrinsic.original.take().into_iter().for_each(|buf| self.mem.free(buf));
            will_not_leave(&self.executor, &packet);
            let reason = DeviceReason::WorkerBusy.index();
            match Decision::of(&intrinsic) {
                Decision::NotForwarded(..) => self.drop_packet(packet, reason),
                _ => self.refuse(packet, reason),
            }
        }
    }

    /// Sends a PAUSE or PFC frame to the worker whose queues it stops.
    pub(super) fn mac_control_for(&mut self, owner: u8, slot: usize, frame: RxFrame) {
        let port = self.ports[slot].number;
        let served = Served::MacControl { port, frame };
        if let Some(Served::MacControl { frame, .. }) = self.mesh.push_served(owner, served) {
            self.mem.free(frame.buf);
            self.ports[slot].ledger.drop(DeviceReason::WorkerBusy.index());
        }
    }

    /// Takes frames that another worker received on queues of this worker's ports, while there is room for their
    /// results. Returns the number of frames.
    pub(super) fn take_served(&mut self, worker: u8) -> usize {
        for taken in 0..TAKE_MAX {
            // The rings to owners do not count: nothing goes there from here, and two workers that serve each other's
            // ports would block each other.
            if self.mesh.handover_is_crowded() || self.copies.are_enough(self.ingress.again.len()) {
                return taken;
            }
            let Some(served) = self.mesh.next_served(worker) else { return taken };
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
