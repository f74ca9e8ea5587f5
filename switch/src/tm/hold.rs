//! Packets that wait outside the queues: until an instant, or until n later packets of their group
//! have passed (deliberate reordering), whichever comes first.
//!
//! They occupy ingress memory and a packet slot, but no queue. Bounded: when the store is full, packets are refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wireyard_tables::time::{Deadline, Time};

/// Maximum number of packets held by count at the same time; more are refused, so that the scan stays short.
pub(crate) const COUNTED_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Counted {
    group: u32,
    remaining: u32,
    slot: u32,
    sequence: u64,
}

/// The store of waiting packets, by slot number.
#[derive(Clone, Debug)]
pub(crate) struct Holds {
    /// Earliest first; ties in order of arrival. Entries of packets released by count are stale and
    /// recognised by their sequence number.
    timed: BinaryHeap<Reverse<(Time, u64, u32)>>,
    counted: Vec<Counted>,
    /// Sequence number of the packet that waits in a slot, by slot; 0 for none. Empty until a packet waits: most
    /// devices never delay one.
    waiting: Vec<u64>,
    slots: usize,
    next_sequence: u64,
    held: usize,
    capacity: usize,
}

impl Holds {
    /// A store of `capacity` packets among `slots` slots.
    pub(crate) fn new(capacity: usize, slots: usize) -> Holds {
        Holds {
            timed: BinaryHeap::new(),
            counted: Vec::new(),
            waiting: Vec::new(),
            slots,
            next_sequence: 1,
            held: 0,
            capacity,
        }
    }

    pub(crate) fn has_room(&self, counted: bool) -> bool {
        self.held < self.capacity && (!counted || self.counted.len() < COUNTED_MAX)
    }

    /// True while a packet is held by count.
    #[inline]
    pub(crate) fn is_counting(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Slots of the packets that wait here.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.waiting).filter(|(_, sequence)| **sequence != 0).map(|(slot, _)| slot)
    }

    /// Keeps `slot` until `until`, or until `after.1` packets of group `after.0` passed.
    pub(crate) fn insert(&mut self, slot: u32, until: Time, after: Option<(u32, u32)>) {
        if self.waiting.is_empty() {
            self.waiting = vec![0; self.slots];
            self.timed.reserve_exact(2 * self.capacity);
            self.counted.reserve_exact(COUNTED_MAX.min(self.capacity));
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        if let Some(waiting) = self.waiting.get_mut(slot as usize) {
            *waiting = sequence;
            self.held += 1;
        }
        if self.timed.len() >= 2 * self.capacity {
            self.remove_stale();
        }
        self.timed.push(Reverse((until, sequence, slot)));
        if let Some((group, remaining)) = after {
            self.counted.push(Counted { group, remaining: remaining.max(1), slot, sequence });
        }
    }

    /// Removes the entries of packets released by count. At least half are, where more packets are timed than are
    /// held, so that this costs each packet a constant.
    fn remove_stale(&mut self) {
        let waiting = &self.waiting;
        self.timed.retain(|Reverse((_, sequence, slot))| {
            waiting.get(*slot as usize).is_some_and(|waits| waits == sequence)
        });
    }

    /// When the first timed packet is due.
    pub(crate) fn first(&self) -> Deadline {
        self.timed.peek().map(|Reverse((at, _, _))| *at).into()
    }

    /// Takes a packet that is due by `at`, the earliest instant here; `None` where only stale entries are due then.
    pub(crate) fn due(&mut self, at: Time) -> Option<u32> {
        while self.first().is_by(at) {
            let Reverse((_, sequence, slot)) = self.timed.pop()?;
            if self.release(slot, sequence) {
                self.counted.retain(|counted| counted.sequence != sequence);
                return Some(slot);
            }
        }
        None
    }

    /// Counts a packet of `group`; appends the held packets that it releases to `released`.
    pub(crate) fn pass(&mut self, group: u32, released: &mut Vec<u32>) {
        for counted in &mut self.counted {
            if counted.group == group {
                counted.remaining = counted.remaining.saturating_sub(1);
            }
        }
        let mut at = 0;
        while let Some(counted) = self.counted.get(at).copied() {
            if counted.remaining == 0 {
                self.counted.remove(at);
                if self.release(counted.slot, counted.sequence) {
                    released.push(counted.slot);
                }
            } else {
                at += 1;
            }
        }
    }

    fn release(&mut self, slot: u32, sequence: u64) -> bool {
        match self.waiting.get_mut(slot as usize) {
            Some(waiting) if *waiting == sequence => {
                *waiting = 0;
                self.held -= 1;
                true
            }
            _ => false,
        }
    }
}
