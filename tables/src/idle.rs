//! When each entry was last hit. Readers write, the writer of the table scans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counter::atomics;
use crate::entry::Slot;
use crate::time::Time;

/// Last-hit times by slot, in nanoseconds, as packets have them. Several workers may hit one entry; the last store
/// wins, which is off by no more than the time between two workers' bursts.
#[derive(Debug)]
pub struct LastHits {
    times_ns: Box<[AtomicU64]>,
}

impl LastHits {
    pub(crate) fn new(capacity: u32) -> LastHits {
        LastHits { times_ns: atomics(capacity as usize) }
    }

    /// Records a hit. Rounds up to a whole nanosecond, so that no entry expires early.
    #[inline(always)]
    pub fn touch(&self, slot: Slot, now: Time) {
        if let Some(time_ns) = self.times_ns.get(slot.0 as usize) {
            time_ns.store(now.as_ps().div_ceil(1_000), Relaxed);
        }
    }

    /// The last hit, or the insertion if there was none.
    pub fn last(&self, slot: Slot) -> Time {
        let time_ns = self.times_ns.get(slot.0 as usize);
        Time::from_ns(time_ns.map_or(0, |time_ns| time_ns.load(Relaxed)))
    }

    /// The array, for generated code that records hits without a call: word `i`, in nanoseconds, belongs to slot `i`.
    pub fn as_ptr(&self) -> *const AtomicU64 {
        self.times_ns.as_ptr()
    }
}
