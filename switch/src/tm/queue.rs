//! Packet slots and the queues threaded through them.
//!
//! One slab of slots for the whole traffic manager, allocated once; a queue is a singly linked list
//! of slots. A slot not in a queue is on the free list, or belongs to the hold store.

use wireyard_tables::time::Time;

use super::id::Color;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What an arriving packet asks for. The traffic manager knows no header: ingress tells it this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Port it came in on, whose priority group is charged.
    pub ingress: super::PortId,
    /// Priority group of that port, 0 to 7.
    pub group: u8,
    /// Port it leaves by.
    pub egress: super::PortId,
    /// Queue of that port, 0 to 7.
    pub queue: u8,
    /// Drop precedence.
    pub color: Color,
    /// True if the packet may be marked (ECN-capable transport).
    pub ect: bool,
    /// Frame bytes in memory.
    pub bytes: u32,
}

/// Whose memory a packet occupies: none of the buffer's (control frames), its own, or one shared
/// with its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    None,
    Own { charged: u32 },
    Shared(u32),
}

/// A packet in the traffic manager.
#[derive(Clone, Debug)]
pub(crate) struct Slot<P> {
    pub(crate) packet: Option<P>,
    pub(crate) arrival: Arrival,
    pub(crate) memory: Memory,
    /// Bytes charged to the egress view.
    pub(crate) charged: u32,
    pub(crate) enqueued_at: Time,
    /// Bytes of the queue when the packet arrived, without it.
    pub(crate) depth_at_enqueue: u64,
    /// Marked at enqueue.
    pub(crate) marked: bool,
    next: u32,
}

/// All packet slots.
#[derive(Clone, Debug)]
pub(crate) struct Slab<P> {
    slots: Vec<Slot<P>>,
    free: u32,
    used: u32,
}

impl<P> Slab<P> {
    pub(crate) fn new(capacity: u32) -> Slab<P> {
        let capacity = capacity.min(NONE - 1);
        let slot = |index: u32| Slot {
            packet: None,
            arrival: Arrival::default(),
            memory: Memory::None,
            charged: 0,
            enqueued_at: Time::ZERO,
            depth_at_enqueue: 0,
            marked: false,
            next: if index + 1 < capacity { index + 1 } else { NONE },
        };
        let slots: Vec<Slot<P>> = (0..capacity).map(slot).collect();
        Slab { free: if capacity == 0 { NONE } else { 0 }, slots, used: 0 }
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// Takes a free slot; the packet comes back if there is none.
    pub(crate) fn take(&mut self, packet: P) -> Result<u32, P> {
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else { return Err(packet) };
        self.free = slot.next;
        slot.next = NONE;
        slot.packet = Some(packet);
        self.used += 1;
        Ok(index)
    }

    /// Frees a slot and returns its packet; `None` if it held none.
    pub(crate) fn give_back(&mut self, index: u32) -> Option<P> {
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet.take()?;
        slot.next = self.free;
        self.free = index;
        self.used -= 1;
        Some(packet)
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = &P> {
        self.slots.iter().filter_map(|slot| slot.packet.as_ref())
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Slot<P>> {
        self.slots.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot<P>> {
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

    pub(crate) fn push<P>(&mut self, slab: &mut Slab<P>, index: u32) {
        let Some(slot) = slab.get_mut(index) else { return };
        slot.next = NONE;
        self.bytes += u64::from(slot.arrival.bytes);
        self.packets += 1;
        match slab.get_mut(self.tail) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    pub(crate) fn pop<P>(&mut self, slab: &Slab<P>) -> Option<u32> {
        let index = self.head;
        let slot = slab.get(index)?;
        self.head = slot.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.bytes -= u64::from(slot.arrival.bytes);
        self.packets -= 1;
        Some(index)
    }

    /// The slots from head to tail.
    pub(crate) fn iter<'a, P>(&self, slab: &'a Slab<P>) -> impl Iterator<Item = &'a Slot<P>> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let slot = slab.get(at)?;
            at = slot.next;
            Some(slot)
        })
    }
}
