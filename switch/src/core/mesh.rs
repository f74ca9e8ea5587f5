//! The rings between the workers of a device: packets, frames and charges that one worker gives to another.
//!
//! Each pair of workers has three single-producer rings in each direction: packets for the other's ports, frames received
//! on queues of the other's ports, and charges to return. What goes through them, and when, is in
//! [`handover`](super::handover).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic};
use wireyard_tables::time::Time;

use super::ports::ingress_of;
use crate::ports::{PortNumber, RxFrame};
use crate::tm::{SharedCharge, Terms, Tm};

/// Maximum number of workers of a device.
pub const WORKERS_MAX: usize = 64;
/// Capacity of a ring between two workers, in packets or in charges to return.
const RING: usize = 1024;
/// Capacity in frames of a ring to the owner of their port, which has not charged them yet.
pub(crate) const UNCHARGED_MAX: usize = 512;

/// A packet on its way to the worker of its egress port.
pub(super) struct Handed {
    pub(super) packet: Descriptor,
    /// Bytes on the wire, of a truncated capture record too; the number in the descriptor is valid for the sender only.
    pub(super) wire_len: u32,
    pub(super) terms: Terms,
    /// The charge of its priority group, where groups are charged.
    pub(super) charge: Option<SharedCharge>,
}

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

/// This worker's ends of the rings that it shares with another worker.
struct Peer {
    packets: Producer<Handed>,
    handed: Consumer<Handed>,
    /// Packets received on queues of the other worker's ports. A separate ring: the packets of `handed` are always
    /// taken, so both rings empty.
    served: Producer<Served>,
    /// Packets that the other worker received on queues of this worker's ports.
    received: Consumer<Served>,
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

/// One worker's rings to and from the others; none in a device with one worker.
#[derive(Default)]
pub struct Mesh {
    me: usize,
    /// By worker number; `None` at this worker's own. Empty in a device with one worker.
    peers: Vec<Option<Peer>>,
    /// Workers, one bit each by number, that packets or charges were sent to since [`Mesh::take_wakes`].
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
        if workers < 2 {
            return vec![Mesh::default()];
        }
        let few_slots = Arc::<AtomicU64>::default();
        let place = |me| Mesh { me, few_slots: Arc::clone(&few_slots), ..Mesh::default() };
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

    /// True where there are other workers.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Number of workers of the device; 0 in a device with one worker.
    pub(super) fn workers(&self) -> u8 {
        self.peers.len() as u8
    }

    fn peer(&mut self, worker: u8) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(worker))?.as_mut()
    }

    /// True while packets or charges of other workers wait here, or a charge is to be returned.
    pub fn has_pending(&self) -> bool {
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

    /// Workers, one bit each by number, that got something to do since the last call and have to be woken.
    pub fn take_wakes(&mut self) -> u64 {
        std::mem::take(&mut self.wakes)
    }

    /// Sends a packet to the worker of its egress port; returns it where there is no room.
    pub(super) fn push(&mut self, worker: u8, handed: Handed) -> Option<Handed> {
        let Some(peer) = self.peer(worker) else { return Some(handed) };
        if let Err(PushError::Full(handed)) = peer.packets.push(handed) {
            return Some(handed);
        }
        self.wakes |= 1 << worker;
        None
    }

    /// Sends a frame to the owner of its ingress port; returns it where there is no room. There is room: nothing is
    /// received unless the ring has space for a burst ([`Mesh::is_crowded`]).
    pub(super) fn push_served(&mut self, owner: u8, served: Served) -> Option<Served> {
        let Some(peer) = self.peer(owner) else { return Some(served) };
        if let Err(PushError::Full(served)) = peer.served.push(served) {
            return Some(served);
        }
        self.wakes |= 1 << owner;
        None
    }

    /// The next packet from another worker for a port of this worker.
    pub(super) fn next_handed(&mut self, worker: u8) -> Option<Handed> {
        self.peer(worker)?.handed.pop().ok()
    }

    /// The next frame that another worker received on a queue of this worker's ports.
    pub(super) fn next_served(&mut self, worker: u8) -> Option<Served> {
        self.peer(worker)?.received.pop().ok()
    }

    /// Returns a charge to the worker that made it.
    pub(super) fn give_back(&mut self, worker: u8, charge: SharedCharge) {
        if let Some(peer) = self.peer(worker)
            && let Err(PushError::Full(charge)) = peer.charges.push(charge)
        {
            peer.to_return.push_back(charge);
        }
        self.wakes |= 1 << worker;
    }

    /// Returns the charges for which the ring to a worker had no room, and releases those that it has returned.
    pub(super) fn exchange_charges(&mut self, worker: u8, now: Time, tm: &mut Tm<Descriptor>) {
        while let Some(charge) = self.peer(worker).and_then(Peer::next_return) {
            self.give_back(worker, charge);
        }
        while let Some(charge) = self.peer(worker).and_then(|peer| peer.returned.pop().ok()) {
            tm.release_shared(now, charge);
        }
    }

    /// Publishes whether packet slots are few here, and takes over whether they are at another worker.
    pub(super) fn share_few_slots(&mut self, tm: &mut Tm<Descriptor>) {
        let (mine, has_few) = (1 << self.me, tm.has_few_slots(self.has_few));
        // Relaxed: it is a level, which orders nothing else.
        if has_few != self.has_few {
            self.has_few = has_few;
            match has_few {
                true => self.few_slots.fetch_or(mine, Ordering::Relaxed),
                false => self.few_slots.fetch_and(!mine, Ordering::Relaxed),
            };
        }
        let others_have_few = self.few_slots.load(Ordering::Relaxed) & !mine != 0;
        if others_have_few != self.others_have_few {
            self.others_have_few = others_have_few;
            tm.set_few_elsewhere(others_have_few);
        }
    }
}

fn pair() -> (Peer, Peer) {
    let (there, from_one) = RingBuffer::new(RING);
    let (back, from_other) = RingBuffer::new(RING);
    let (served_there, received_from_one) = RingBuffer::new(UNCHARGED_MAX);
    let (served_back, received_from_other) = RingBuffer::new(UNCHARGED_MAX);
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
