//! When each entry was last hit. The reader writes, the owner of the table scans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counter::atomics;
use crate::entry::Slot;
use crate::time::Time;

/// Last-hit times by slot, in picoseconds. Several workers may hit one entry; the last store wins,
/// which is off by no more than the time between two workers' bursts.
#[derive(Debug)]
pub struct LastHits {
    times: Box<[AtomicU64]>,
}

impl LastHits {
    pub(crate) fn new(capacity: u32) -> LastHits {
        LastHits { times: atomics(capacity as usize) }
    }

    /// Records a hit.
    #[inline(always)]
    pub fn touch(&self, slot: Slot, now: Time) {
        if let Some(time) = self.times.get(slot.0 as usize) {
            time.store(now.as_ps(), Relaxed);
        }
    }

    /// The last hit, or the insertion if there was none.
    pub fn last(&self, slot: Slot) -> Time {
        let time = self.times.get(slot.0 as usize);
        Time::from_ps(time.map_or(0, |time| time.load(Relaxed)))
    }

    /// The array, for code that records hits by itself: word `i` belongs to slot `i`.
    pub fn as_ptr(&self) -> *const AtomicU64 {
        self.times.as_ptr()
    }
}
