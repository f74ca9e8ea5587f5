//! Packet slots and the queues threaded through them.
//!
//! One slab of slots for the whole traffic manager, allocated once; a queue is a singly linked list of slots. A slot
//! that is not in a queue is in the free list or in the hold store.

use wireyard_tables::prefetch::prefetch;
use wireyard_tables::time::{Span, Time};

use super::id::{CLASSES, Color, DropReason};
use super::shared::SharedCharge;
use super::{Config, Departure, Trim};

/// The index of no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What the traffic manager needs about an arriving packet. It reads no header: ingress provides these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its ingress port, whose priority group is charged.
    pub ingress: super::PortId,
    /// Priority group of that port, 0 to 7.
    pub group: u8,
    /// Its egress port.
    pub egress: super::PortId,
    /// Queue of that port, 0 to 7.
    pub queue: u8,
    /// Drop precedence.
    pub color: Color,
    /// True if the packet may be marked (ECN-capable transport).
    pub ect: bool,
    /// Frame bytes in memory.
    pub bytes: u32,
    /// Charge, time and order of the offer.
    pub terms: Terms,
}

/// Charge, time and order of an offered packet; by default it is released at once, is charged itself, and others
/// follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// What is charged for its memory.
    pub charge: Charge,
    /// When it may enter its queue.
    pub release: Release,
    /// No other packet arrives at this instant: this one may depart now. Otherwise the scheduler chooses among all that
    /// arrived.
    pub last: bool,
    /// Egress processing leaves it unchanged: it can neither be dropped nor change its length after the queue.
    pub unchanged: bool,
}

/// What is charged for the memory of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Its own ingress group; also for a copy that is held.
    #[default]
    Own,
    /// It is a copy: the memory was charged ([`Tm::charge_shared`](super::Tm::charge_shared)); its ingress port and
    /// group are those of the charge.
    Shared(SharedCharge),
    /// It is a copy whose memory was refused.
    Refused(DropReason),
    /// No group: a MAC control frame of the port's own, to [`CONTROL_QUEUE`](super::CONTROL_QUEUE), before everything
    /// else and never paused.
    Control,
}

/// When a packet may enter its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Now.
    #[default]
    Immediate,
    /// At this instant.
    At(Time),
    /// After this many later packets of its queue, or after a timeout.
    AfterPackets {
        /// Packets to wait for; 0 counts as 1.
        packets: u32,
        /// Longest time to wait.
        timeout: Span,
    },
}

/// The slot taken for a packet: [`Tm::put`](super::Tm::put).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSlot(pub(crate) u32);

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is refused and counted; the caller drops it.
    Refused(DropReason),
    /// Its queue has no room and trims: the caller cuts the packet and offers it again
    /// ([`Tm::offer_trimmed`](super::Tm::offer_trimmed)).
    Trims(Trim),
    /// It is queued: the caller puts it into the slot.
    Queued(PacketSlot),
    /// It departs now.
    Departs(Departure),
}

/// The memory that a packet occupies: none of the buffer's (control frames), its own, or one shared with its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    None,
    Own { charged: u32 },
    Shared(SharedCharge),
}

/// Memory charged for a frame: whole cells if the buffer has cells.
pub(crate) fn charge(bytes: u32, cell_bytes: u32) -> u32 {
    match cell_bytes {
        0 => bytes,
        cell => bytes.div_ceil(cell).saturating_mul(cell),
    }
}

/// The depth of a queue: bytes up to 4 GiB and packets up to 65,535; saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Frame bytes.
    pub bytes: u32,
    /// Packets.
    pub packets: u16,
}

/// The state of a queued packet, without the packet: 32 bytes, because a laboratory has many of them. Its charge is
/// computed from its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    ingress: super::PortId,
    egress: super::PortId,
    queue: u8,
    /// [`USED`], [`ECT`], [`MARKED`], the colour and the group.
    flags: u8,
    packets_at_enqueue: u16,
    bytes: u32,
    /// [`NO_MEMORY`], [`OWN_MEMORY`], or the index of a shared one.
    memory: u32,
    bytes_at_enqueue: u32,
    next: u32,
    pub(crate) enqueued_at: Time,
}

const _: () = assert!(size_of::<Slot>() == 32);

const NO_MEMORY: u32 = u32::MAX;
const OWN_MEMORY: u32 = u32::MAX - 1;
/// The slot holds a packet.
const USED: u8 = 1;
/// The packet is ECN-capable.
const ECT: u8 = 2;
/// The packet was marked at enqueue.
const MARKED: u8 = 4;
/// The colour: two bits.
const COLOR_SHIFT: u8 = 3;
/// The priority group: three bits.
const GROUP_SHIFT: u8 = 5;
const _: () = assert!(CLASSES == 8);

impl Slot {
    const FREE: Slot = Slot {
        ingress: super::PortId(0),
        egress: super::PortId(0),
        queue: 0,
        flags: 0,
        packets_at_enqueue: 0,
        bytes: 0,
        memory: NO_MEMORY,
        bytes_at_enqueue: 0,
        next: NONE,
        enqueued_at: Time::ZERO,
    };

    /// Fills the slot for an admitted packet, not marked so far.
    #[inline]
    pub(crate) fn fill(&mut self, arrival: &Arrival, memory: Memory) {
        (self.ingress, self.egress) = (arrival.ingress, arrival.egress);
        self.queue = arrival.queue;
        let (color, group) = ((arrival.color as u8) << COLOR_SHIFT, arrival.group << GROUP_SHIFT);
        self.flags = USED | if arrival.ect { ECT } else { 0 } | color | group;
        self.bytes = arrival.bytes;
        self.memory = match memory {
            Memory::None => NO_MEMORY,
            Memory::Own { .. } => OWN_MEMORY,
            Memory::Shared(memory) => memory.0,
        };
    }

    /// The packet's arrival, with default terms.
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival {
            ingress: self.ingress,
            group: self.flags >> GROUP_SHIFT,
            egress: self.egress,
            queue: self.queue,
            color: Color::of_bits(self.flags >> COLOR_SHIFT),
            ect: self.flags & ECT != 0,
            bytes: self.bytes,
            terms: Terms::default(),
        }
    }

    /// The memory that it occupies, in a buffer with cells of this size.
    pub(crate) fn memory(&self, cell_bytes: u32) -> Memory {
        match self.memory {
            NO_MEMORY => Memory::None,
            OWN_MEMORY => Memory::Own { charged: charge(self.bytes, cell_bytes) },
            index => Memory::Shared(SharedCharge(index)),
        }
    }

    /// Bytes charged to the egress view.
    pub(crate) fn charged(&self, cell_bytes: u32) -> u32 {
        if self.memory == NO_MEMORY { 0 } else { charge(self.bytes, cell_bytes) }
    }

    /// Frame bytes.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The depth of the queue when the packet entered it, without the packet.
    pub(crate) fn depth_at_enqueue(&self) -> QueueDepth {
        QueueDepth { bytes: self.bytes_at_enqueue, packets: self.packets_at_enqueue }
    }

    /// Records that it enters its queue now.
    pub(crate) fn enter(&mut self, now: Time, depth: QueueDepth) {
        self.enqueued_at = now;
        (self.bytes_at_enqueue, self.packets_at_enqueue) = (depth.bytes, depth.packets);
    }

    /// True if it was marked at enqueue.
    pub(crate) fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    pub(crate) fn set_marked(&mut self, marked: bool) {
        self.flags = self.flags & !MARKED | if marked { MARKED } else { 0 };
    }
}

/// Number of slots up to which room for all is reserved at once.
const RESERVED_MAX: usize = 1 << 15;
/// Slots for which a device with more of them reserves room at first.
const RESERVED_FIRST: usize = 1 << 10;

/// Slots beside those of packets, for MAC control frames: a pause must leave when packets have taken all others.
const CONTROL_SLOTS: u32 = 64;

/// Numbers of slots in use from which on groups stop for lack of them, and below which they may resume: somewhat lower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLevels {
    pub(crate) stop: u32,
    pub(crate) resume: u32,
}

impl SlotLevels {
    /// Slots are few, however many are in use.
    pub(crate) const ALWAYS: SlotLevels = SlotLevels { stop: 0, resume: 0 };

    pub(crate) fn of(config: &Config) -> SlotLevels {
        let stop = config.stop_at_slots;
        SlotLevels { stop, resume: stop - stop / 16 }
    }
}

/// All packet slots. Room for all of them is reserved when the first packet waits, and its pages are touched on first
/// use: a device that is mostly idle costs little memory. A device that may have more than [`RESERVED_MAX`], as a
/// laboratory has thousands, begins with [`RESERVED_FIRST`] and doubles: with huge pages the first touch of a large
/// reservation costs 2 MiB.
#[derive(Clone, Debug)]
pub(crate) struct Slab<P> {
    slots: Vec<Slot>,
    /// The packets, at the same indices: in a separate list, so that neither pads the other.
    packets: Vec<P>,
    /// All slots, those for control frames included.
    capacity: usize,
    /// Slots in use at which no further packet gets one.
    limit: u32,
    free: u32,
    used: u32,
}

impl<P: Default> Slab<P> {
    /// Slots for `limit` packets.
    pub(crate) fn new(limit: u32) -> Slab<P> {
        let limit = limit.min(OWN_MEMORY - 1 - CONTROL_SLOTS);
        let capacity = (limit + CONTROL_SLOTS) as usize;
        Slab { slots: Vec::new(), packets: Vec::new(), capacity, limit, free: NONE, used: 0 }
    }

    /// All slots, those for control frames included.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// True if no packet gets a slot; a control frame may.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Takes a free slot, still without a packet; one for a control frame where the slab is full.
    #[inline]
    pub(crate) fn take_empty(&mut self) -> Option<u32> {
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else { return self.take_new() };
        self.free = slot.next;
        slot.next = NONE;
        slot.flags = USED;
        self.used += 1;
        Some(index)
    }

    /// Takes a slot that was never used.
    fn take_new(&mut self) -> Option<u32> {
        if self.slots.len() == self.capacity {
            return None;
        }
        if self.slots.len() == self.slots.capacity() {
            let room = match self.capacity {
                few @ ..=RESERVED_MAX => few,
                most => (2 * self.slots.len()).clamp(RESERVED_FIRST, most),
            };
            let more = room - self.slots.len();
            self.slots.reserve_exact(more);
            self.packets.reserve_exact(more);
        }
        self.slots.push(Slot { flags: USED, ..Slot::FREE });
        self.packets.push(P::default());
        self.used += 1;
        Some(self.slots.len() as u32 - 1)
    }

    /// Puts a packet into its slot.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, packet: P) {
        if let Some(place) = self.packets.get_mut(index as usize) {
            *place = packet;
        }
    }

    /// Frees a slot and returns its packet; `None` if it had none.
    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) -> Option<P> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.flags & USED == 0 {
            return None;
        }
        slot.flags = 0;
        slot.next = self.free;
        self.free = index;
        self.used -= 1;
        self.packets.get_mut(index as usize).map(std::mem::take)
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = &P> {
        let pairs = self.slots.iter().zip(&self.packets);
        pairs.filter(|(slot, _)| slot.flags & USED != 0).map(|(_, packet)| packet)
    }
}

impl<P> Slab<P> {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }
}

/// A first-in first-out queue of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo { head: NONE, tail: NONE, packets: 0, bytes: 0 };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(crate) fn depth(&self) -> QueueDepth {
        QueueDepth {
            bytes: u32::try_from(self.bytes).unwrap_or(u32::MAX),
            packets: u16::try_from(self.packets).unwrap_or(u16::MAX),
        }
    }

    #[inline]
    pub(crate) fn push<P>(&mut self, slab: &mut Slab<P>, index: u32) {
        let Some(slot) = slab.get_mut(index) else { return };
        slot.next = NONE;
        self.bytes += u64::from(slot.bytes);
        self.packets += 1;
        match slab.get_mut(self.tail) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    #[inline]
    pub(crate) fn pop<P>(&mut self, slab: &Slab<P>) -> Option<u32> {
        let index = self.head;
        let slot = slab.get(index)?;
        self.head = slot.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.bytes -= u64::from(slot.bytes);
        self.packets -= 1;
        self.prefetch(slab);
        Some(index)
    }

    /// The packet that leaves next.
    #[inline]
    pub(crate) fn first<'a, P>(&self, slab: &'a Slab<P>) -> Option<&'a P> {
        slab.packets.get(self.head as usize)
    }

    /// Prefetches the slot and the packet behind the head, for when the head leaves: in a long queue they were last
    /// accessed long ago.
    #[inline]
    fn prefetch<P>(&self, slab: &Slab<P>) {
        let Some(head) = slab.get(self.head) else { return };
        let next = head.next as usize;
        if let (Some(slot), Some(packet)) = (slab.slots.get(next), slab.packets.get(next)) {
            prefetch(slot);
            prefetch(packet);
        }
    }

    /// The slots from head to tail.
    pub(crate) fn iter<'a, P>(&self, slab: &'a Slab<P>) -> impl Iterator<Item = &'a Slot> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let slot = slab.get(at)?;
            at = slot.next;
            Some(slot)
        })
    }
}
