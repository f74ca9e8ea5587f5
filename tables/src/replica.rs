//! Two copies of a value, left and right: readers have one, the writer changes the other.
//!
//! Publishing swaps them; nothing is copied and no reader waits. The copy that readers have left is brought up to date
//! when it is needed next, by replaying the changes it lacks. It is free once the last snapshot that holds it is
//! dropped, which `Arc::get_mut` checks without unsafe code. The cost: memory for two copies, and every change is made
//! twice.
//!
//! The writer waits for the slowest reader, within a bound. A reader that holds an old snapshot for longer does not
//! block the writer: it clones the current copy and leaves the old one to the reader. It also clones where that is
//! cheaper: for a value with few entries, and after a batch that changed a large part of a value.

use std::sync::Arc;
use std::time::Duration;

/// A value whose changes can be repeated on a copy.
pub(crate) trait Replay: Clone {
    /// Changes.
    type Log: Length;
    /// Applies them; cannot fail.
    fn replay(&mut self, log: &Self::Log);
    /// Number of entries, to judge what a clone costs.
    fn size(&self) -> usize;
}

/// Number of changes in a log.
pub(crate) trait Length {
    fn len(&self) -> usize;
}

#[derive(Debug)]
pub(crate) struct Replica<V: Replay> {
    front: Arc<V>,
    /// The other copy and what it lacks; `None` until the first change.
    back: Option<(Arc<V>, Option<V::Log>)>,
    /// Times the writer gave up waiting for a reader and cloned.
    pub(crate) impatient_clones: u64,
}

/// Below this many entries a clone is cheaper than yielding the processor.
const SMALL: usize = 256;
const SPINS: u32 = 64;
const YIELDS: u32 = 256;
/// Sleeps of [`NAP`] before the writer stops waiting for a stuck reader: about 50 ms in all.
const NAPS: u32 = 500;
const NAP: Duration = Duration::from_micros(100);

impl<V: Replay> Replica<V> {
    pub(crate) fn new(value: V) -> Replica<V> {
        Replica { front: Arc::new(value), back: None, impatient_clones: 0 }
    }

    /// The same front for a set that takes no more writes.
    pub(crate) fn frozen(&self) -> Replica<V> {
        Replica { front: self.front.clone(), back: None, impatient_clones: 0 }
    }

    /// The copy that readers have.
    pub(crate) fn front(&self) -> &Arc<V> {
        &self.front
    }

    /// Applies the changes to the other copy, which becomes the front.
    pub(crate) fn publish(&mut self, log: V::Log) {
        let mut next = self.writable_back();
        match Arc::get_mut(&mut next) {
            Some(value) => value.replay(&log),
            None => {
                // Cannot happen: writable_back hands out the only reference. It is correct all the same.
                let mut value = V::clone(&next);
                value.replay(&log);
                next = Arc::new(value);
            }
        }
        let large_change = log.len() > SMALL && log.len() * 4 > next.size();
        let old = std::mem::replace(&mut self.front, next);
        self.back = Some(if large_change {
            (Arc::new(V::clone(&self.front)), None)
        } else {
            (old, Some(log))
        });
    }

    /// Applies the changes to the front itself, if no reader has it pinned: then there is no second copy before the
    /// next change.
    pub(crate) fn publish_alone(&mut self, log: V::Log) {
        match (Arc::get_mut(&mut self.front), &self.back) {
            (Some(front), None) => front.replay(&log),
            _ => self.publish(log),
        }
    }

    /// The only reference to a copy that equals the front.
    fn writable_back(&mut self) -> Arc<V> {
        if let Some((mut back, missed)) = self.back.take() {
            let attempts = if self.front.size() < SMALL { SPINS } else { SPINS + YIELDS + NAPS };
            for attempt in 0..attempts {
                if let Some(value) = Arc::get_mut(&mut back) {
                    if let Some(log) = missed {
                        value.replay(&log);
                    }
                    return back;
                }
                match attempt {
                    0..SPINS => std::hint::spin_loop(),
                    n if n < SPINS + YIELDS => std::thread::yield_now(),
                    _ => std::thread::sleep(NAP),
                }
            }
            self.impatient_clones += 1;
        }
        Arc::new(V::clone(&self.front))
    }
}
