//! Several workers on one device: packets that leave by another worker's port.
//!
//! Every worker has a [`Core`] of its own on the same packet memory, program and tables. Each port belongs to one of
//! them, its owner: its priority groups are charged and its pauses decided there, and its queues, egress and
//! transmission are there. It is received there too, unless several workers serve the port ([`super::served`]). A
//! packet that ingress sends to a port of another worker goes through a single-producer ring and is offered to that
//! worker's traffic manager. The charge of its priority group stays with the worker of its ingress port and comes back
//! through a second ring when the packet has left ([`crate::tm`], borrow).
//!
//! Packets of one flow are received on one queue of a port and go through the same rings, so their order is kept. A
//! worker whose ring to another is nearly full receives nothing from its ports: packets then wait outside of the
//! switch. This module has no threads: [`crate::live`] runs, wakes and stops the workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use wireyard_pipeline::exec::{BURST_MAX, Descriptor};

use super::manager::{DEVICE_ORIGINATED, port_id};
use super::ports::{egress_of, ingress_of};
use super::served::{self, Served};
use super::{Core, DeviceError};
use crate::ports::PortNumber;
use crate::ports::absent::AbsentPort;
use crate::stats::DeviceReason;
use crate::tm::{Charge, DropReason, PortId, Release, SharedCharge, Terms};

/// Maximum number of workers of a device.
pub const WORKERS_MAX: usize = 64;
/// Capacity of a ring between two workers, in packets or in charges to return.
const RING: usize = 1024;
/// Packets that one poll takes from each of the other workers.
pub(super) const TAKE_MAX: usize = 4 * BURST_MAX;

/// A packet on its way to the worker of its egress port.
struct Handed {
    packet: Descriptor,
    /// Bytes on the wire, of a truncated capture record too; the number in the descriptor is valid for the sender only.
    wire_len: u32,
    terms: Terms,
    /// The charge of its priority group, where groups are charged.
    charge: Option<SharedCharge>,
}

/// This worker's ends of the rings that it shares with another worker.
pub(super) struct Peer {
    packets: Producer<Handed>,
    handed: Consumer<Handed>,
    /// Packets received on queues of the other worker's ports. A separate ring: the packets of `handed` are always
    /// taken, so both rings empty.
    pub(super) served: Producer<Served>,
    /// Packets that the other worker received on queues of this worker's ports.
    pub(super) received: Consumer<Served>,
    charges: Producer<SharedCharge>,
    /// Charges for which the ring had no room: each copy of a packet returns one, and copies can be many.
    to_return: VecDeque<SharedCharge>,
    returned: Consumer<SharedCharge>,
}

impl Peer {
    /// The oldest charge to return, while there is room for it.
    fn next_return(&mut self) -> Option<SharedCharge> {
        if self.charges.is_full() { None } else { self.to_return.pop_front() }
    }
}

/// One worker's rings to and from the others.
pub struct Mesh {
    me: usize,
    /// By worker number; `None` at this worker's own.
    peers: Vec<Option<Peer>>,
    /// Workers, one bit each by number, that packets or charges were sent to since [`Core::take_wakes`].
    wakes: u64,
    /// Workers that have few packet slots left, one bit each by number: a packet takes a slot where its egress port
    /// is, and its peer is stopped where its ingress port is.
    few_slots: Arc<AtomicU64>,
    /// This worker's bit, and whether there was another.
    has_few: bool,
    others_have_few: bool,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mesh").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Mesh {
    /// One `Mesh` for each of `workers` workers, in order of their numbers.
    pub fn of(workers: usize) -> Vec<Mesh> {
        let few_slots = Arc::<AtomicU64>::default();
        let place = |me| Mesh {
            me,
            peers: Vec::new(),
            wakes: 0,
            few_slots: Arc::clone(&few_slots),
            has_few: false,
            others_have_few: false,
        };
        let mut meshes: Vec<Mesh> = (0..workers).map(place).collect();
        for mesh in &mut meshes {
            mesh.peers.resize_with(workers, || None);
        }
        for one in 0..workers {
            for other in one + 1..workers {
                let (mine, theirs) = pair();
                meshes[one].peers[other] = Some(mine);
                meshes[other].peers[one] = Some(theirs);
            }
        }
        meshes
    }

    /// The number of this worker.
    pub fn me(&self) -> usize {
        self.me
    }

    pub(super) fn peer(&mut self, worker: u8) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(worker))?.as_mut()
    }

    /// True while packets or charges of other workers wait here, or a charge is to be returned.
    pub(super) fn has_pending(&self) -> bool {
        let waits = |peer: &Peer| {
            peer.handed.slots() + peer.received.slots() + peer.returned.slots() > 0
                || !peer.to_return.is_empty()
        };
        self.others().any(waits)
    }

    /// True while a ring has no room for another burst: then nothing more is received.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.others().any(|peer| peer.packets.slots().min(peer.served.slots()) < BURST_MAX)
    }

    /// True while a ring to the worker of an egress port has no room for another burst. The receiving worker always
    /// empties those rings, so two workers cannot wait for each other.
    #[inline]
    pub(super) fn handover_is_crowded(&self) -> bool {
        self.others().any(|peer| peer.packets.slots() < BURST_MAX)
    }

    /// Calls `add` with the ingress port of each packet in the rings to this worker.
    pub(super) fn count_handed(&mut self, add: &mut dyn FnMut(PortNumber)) {
        for peer in self.peers.iter_mut().flatten() {
            let waiting = peer.handed.slots();
            if let Ok(chunk) = peer.handed.read_chunk(waiting) {
                let (first, second) = chunk.as_slices();
                first.iter().chain(second).for_each(|handed| add(ingress_of(&handed.packet)));
            }
            let waiting = peer.received.slots();
            if let Ok(chunk) = peer.received.read_chunk(waiting) {
                let (first, second) = chunk.as_slices();
                first.iter().chain(second).for_each(|served| add(served.ingress_port()));
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten()
    }

    /// Number of packets from other workers that were not taken yet.
    pub(super) fn waiting(&self) -> usize {
        self.others().map(|peer| peer.handed.slots() + peer.received.slots()).sum()
    }

    /// Notes that `worker` has something to do.
    pub(super) fn wake(&mut self, worker: u8) {
        self.wakes |= 1 << worker;
    }
}

fn pair() -> (Peer, Peer) {
    let (there, from_one) = RingBuffer::new(RING);
    let (back, from_other) = RingBuffer::new(RING);
    let (served_there, received_from_one) = RingBuffer::new(served::RING);
    let (served_back, received_from_other) = RingBuffer::new(served::RING);
    let (charges_there, charges_from_one) = RingBuffer::new(RING);
    let (charges_back, charges_from_other) = RingBuffer::new(RING);
    let one = Peer {
        packets: there,
        handed: from_other,
        served: served_there,
        received: received_from_other,
        charges: charges_there,
        to_return: VecDeque::new(),
        returned: charges_from_other,
    };
    let other = Peer {
        packets: back,
        handed: from_one,
        served: served_back,
        received: received_from_one,
        charges: charges_back,
        to_return: VecDeque::new(),
        returned: charges_from_one,
    };
    (one, other)
}

impl Core {
    /// Makes this device one worker of several. To be called before ports are added.
    pub fn join(&mut self, mesh: Mesh) {
        self.mesh = Some(mesh);
    }

    /// Adds a port that belongs to another worker, with `place` in its stead.
    ///
    /// # Errors
    /// As [`Core::add_port`].
    pub fn add_elsewhere(
        &mut self,
        number: PortNumber,
        worker: u8,
        place: AbsentPort,
    ) -> Result<(), DeviceError> {
        self.add_port(number, Box::new(place))?;
        if let Some(slot) = self.ports.find(number) {
            self.ports[slot].worker = Some(worker);
        }
        Ok(())
    }

    /// Workers, one bit each by number, that got something to do since the last call and have to be woken.
    pub fn take_wakes(&mut self) -> u64 {
        self.mesh.as_mut().map_or(0, |mesh| std::mem::take(&mut mesh.wakes))
    }

    /// True while packets or charges of other workers wait here, or a charge is to be returned.
    pub fn has_pending(&self) -> bool {
        self.mesh.as_ref().is_some_and(Mesh::has_pending)
    }

    /// Sends a packet to the worker that owns its egress port.
    pub(super) fn hand_to(&mut self, worker: u8, packet: Descriptor, terms: Terms) {
        let charge = match self.charge_remote(worker, &packet, terms) {
            Ok(charge) => charge,
            Err(reason) => {
                self.count_refused(&packet, terms, reason);
                return self.refuse(packet, self.manager.reason(reason));
            }
        };
        let wire_len = self.ingress.cuts.wire_len(&packet);
        let handed = Handed { packet, wire_len, terms, charge };
        let Some(mesh) = &mut self.mesh else { return };
        let pushed = match mesh.peer(worker) {
            Some(peer) => peer.packets.push(handed).map_err(|rtrb::PushError::Full(handed)| handed),
            None => Err(handed),
        };
        match pushed {
            Ok(()) => mesh.wakes |= 1 << worker,
            Err(Handed { packet, charge, .. }) => {
                if let Some(charge) = charge {
                    self.manager.tm.release_shared(self.now, charge);
                }
                self.refuse(packet, DeviceReason::WorkerBusy.index());
            }
        }
    }

    /// Charges the priority group of a packet that will wait at another worker; copies that are charged together have
    /// one charge, but held copies have charges of their own. `None`: nothing is charged here, as `worker` owns the
    /// ingress port too and charges it.
    fn charge_remote(
        &mut self,
        worker: u8,
        packet: &Descriptor,
        terms: Terms,
    ) -> Result<Option<SharedCharge>, DropReason> {
        if !self.manager.configured {
            return Ok(None);
        }
        match terms.charge {
            Charge::Refused(reason) => return Err(reason),
            Charge::Shared(memory) if terms.release == Release::Immediate => {
                return Ok(self.manager.tm.retain_shared(memory).then_some(memory));
            }
            Charge::Shared(_) | Charge::Own | Charge::Control => {}
        }
        let from = self.ports.find(ingress_of(packet));
        if from.is_some_and(|slot| self.ports[slot].worker == Some(worker)) {
            return Ok(None);
        }
        let ingress = from.filter(|slot| self.ports.is_here(*slot)).map_or(PortId(0), port_id);
        let (group, bytes) = (packet.priority_group % 8, self.ingress.cuts.frame_bytes(packet));
        self.manager.tm.charge_shared(self.now, ingress, group, bytes).map(Some)
    }

    /// Counts a packet that its priority group refused at the egress queue it was for, in this worker: a queue's
    /// counters are the sum over all workers.
    fn count_refused(&mut self, packet: &Descriptor, terms: Terms, reason: DropReason) {
        let Some(to) = self.ports.find(egress_of(packet)) else { return };
        // Copies that were refused together are not counted at queues.
        if matches!(terms.charge, Charge::Refused(_)) {
            return;
        }
        let (from, bytes) =
            (self.ports.charged_slot(ingress_of(packet)), self.ingress.cuts.frame_bytes(packet));
        let arrival = self.manager.arrival(packet, from, to, bytes, terms);
        self.manager.tm.count_refusal(&arrival, reason);
    }

    /// Takes from the other workers: returned charges, packets for ports of this worker, and packets that they received
    /// on queues of its ports. Returns the number of packets.
    pub(super) fn take_handed(&mut self) -> usize {
        self.copies.made = 0;
        self.share_few_slots();
        let workers = self.mesh.as_ref().map_or(0, |mesh| mesh.peers.len());
        let mut taken = 0;
        for worker in 0..workers as u8 {
            while let Some(charge) = self.pop(worker, Peer::next_return) {
                self.give_back(worker, charge);
            }
            while let Some(charge) = self.pop(worker, |peer| peer.returned.pop().ok()) {
                self.manager.tm.release_shared(self.now, charge);
            }
            for _ in 0..TAKE_MAX {
                let Some(handed) = self.pop(worker, |peer| peer.handed.pop().ok()) else { break };
                self.take_over(worker, handed);
                taken += 1;
            }
            taken += self.take_served(worker);
        }
        taken
    }

    /// Publishes whether packet slots are few here, and takes over whether they are at another worker.
    fn share_few_slots(&mut self) {
        let Some(mesh) = &mut self.mesh else { return };
        let tm = &mut self.manager.tm;
        let (mine, has_few) = (1 << mesh.me, tm.has_few_slots(mesh.has_few));
        // Relaxed: it is a level, which orders nothing else.
        if has_few != mesh.has_few {
            mesh.has_few = has_few;
            match has_few {
                true => mesh.few_slots.fetch_or(mine, Ordering::Relaxed),
                false => mesh.few_slots.fetch_and(!mine, Ordering::Relaxed),
            };
        }
        let others_have_few = mesh.few_slots.load(Ordering::Relaxed) & !mine != 0;
        if others_have_few != mesh.others_have_few {
            mesh.others_have_few = others_have_few;
            tm.set_few_elsewhere(others_have_few);
        }
    }

    pub(super) fn pop<T>(
        &mut self,
        worker: u8,
        take: impl FnOnce(&mut Peer) -> Option<T>,
    ) -> Option<T> {
        self.mesh.as_mut()?.peer(worker).and_then(take)
    }

    fn take_over(&mut self, worker: u8, handed: Handed) {
        let Handed { mut packet, wire_len, terms, charge: remote } = handed;
        // It may be trimmed or refused before its egress, which both need its program.
        if packet.flags & DEVICE_ORIGINATED == 0 {
            self.executor.join(packet.generation);
        }
        packet.cut = self.ingress.cuts.number(wire_len, packet.len);
        let charge = match remote.map(|remote| self.manager.tm.borrow_shared(worker, remote)) {
            None => Charge::Own,
            Some(Some(memory)) => Charge::Shared(memory),
            Some(None) => Charge::Refused(DropReason::NoSlot),
        };
        let port = egress_of(&packet);
        self.enqueue(&mut packet, port, Terms { charge, last: false, unchanged: false, ..terms });
        if let (Some(remote), Charge::Refused(_)) = (remote, charge) {
            self.give_back(worker, remote);
        }
        self.manager.release_copies(self.now, charge);
    }

    /// Returns a charge to the worker that made it.
    pub(super) fn give_back(&mut self, worker: u8, charge: SharedCharge) {
        let Some(mesh) = &mut self.mesh else { return };
        if let Some(peer) = mesh.peer(worker)
            && let Err(rtrb::PushError::Full(charge)) = peer.charges.push(charge)
        {
            peer.to_return.push_back(charge);
        }
        mesh.wakes |= 1 << worker;
    }
}
