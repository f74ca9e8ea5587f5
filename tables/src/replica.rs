//! Two copies of a value, left and right: readers have one, the writer changes the other.
//!
//! Publishing swaps them; nothing is copied and no reader waits. The copy that readers have left is brought up to date
//! when it is needed next, by replaying the changes it lacks. It is free once the last snapshot that holds it is
//! dropped, which `Arc::get_mut` checks without unsafe code. The cost: memory for two copies, and every change is made
//! twice.
//!
//! The writer waits for the slowest reader, within a bound. A reader that holds an old snapshot for longer does not
//! block the writer: it clones the current copy and leaves the old one to the reader. It also clones where that is
//! cheaper: for a value with few entries, and after a batch that changed a large part of a value. There is one copy until
//! the first change, and again after a set was frozen: that change clones, also where a thread that forwards makes it.
//!
//! A thread that forwards packets does not wait ([`Replica::is_ready`]): it puts its change off while a reader has the
//! old copy, and clones after the same time on its own clock.

use std::sync::Arc;
use std::time::Duration;

use crate::time::{Span, Time};

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

/// Whether a writer waits for a reader that has the copy it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// About 50 ms, then it clones: for the control plane.
    Waits,
    /// It clones at once: for threads that forward, which ask [`Replica::is_ready`] before.
    Never,
}

/// The copy that readers had before.
#[derive(Debug)]
struct Back<V, L> {
    value: Arc<V>,
    /// What it lacks.
    missed: Option<L>,
    /// See [`Replica::is_kept`].
    is_kept: bool,
}

#[derive(Debug)]
pub(crate) struct Replica<V: Replay> {
    front: Arc<V>,
    /// A set that was replaced has the front until its last packet has left: there is no use in waiting for that.
    is_kept: bool,
    /// `None` until the first change.
    back: Option<Back<V, V::Log>>,
    /// Since when the changes of a thread that forwards were put off: a reader has had the back at least since then.
    put_off_since: Option<Time>,
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
/// How long a thread that forwards puts changes off for a stuck reader.
const PUT_OFF_MOST: Span = Span::from_ms(50);

impl<V: Replay> Replica<V> {
    pub(crate) fn new(value: V) -> Replica<V> {
        let front = Arc::new(value);
        Replica { front, is_kept: false, back: None, put_off_since: None, impatient_clones: 0 }
    }

    /// The same front for a set that takes no more writes, but keeps its readers.
    pub(crate) fn frozen(&mut self) -> Replica<V> {
        self.is_kept = true;
        Replica {
            front: self.front.clone(),
            is_kept: true,
            back: None,
            put_off_since: None,
            impatient_clones: 0,
        }
    }

    /// Continues with this value, of which no reader has a copy.
    pub(crate) fn restart(&mut self, value: V) {
        let impatient_clones = self.impatient_clones;
        *self = Replica { impatient_clones, ..Replica::new(value) };
    }

    /// The copy that readers have.
    pub(crate) fn front(&self) -> &Arc<V> {
        &self.front
    }

    /// Whether a thread that forwards may publish at this time: false while a reader has the copy that is needed, for
    /// [`PUT_OFF_MOST`] at most.
    pub(crate) fn is_ready(&mut self, now: Time) -> bool {
        let is_small = self.front.size() < SMALL;
        let Some(back) = self.back.as_mut().filter(|back| !back.is_kept && !is_small) else {
            return true;
        };
        // Workers leave a copy with their next burst. Once it was put off, a change does not cost that much again.
        let looks = if self.put_off_since.is_some() { 1 } else { SPINS };
        for _ in 0..looks {
            if Arc::get_mut(&mut back.value).is_some() {
                return true;
            }
            std::hint::spin_loop();
        }
        now.since(*self.put_off_since.get_or_insert(now)) >= PUT_OFF_MOST
    }

    /// Applies the changes to the other copy, which becomes the front.
    pub(crate) fn publish(&mut self, log: V::Log, patience: Patience) {
        let mut next = self.writable_back(patience);
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
        let is_kept = std::mem::take(&mut self.is_kept);
        self.back = Some(if large_change {
            Back { value: Arc::new(V::clone(&self.front)), missed: None, is_kept: false }
        } else {
            Back { value: old, missed: Some(log), is_kept }
        });
    }

    /// Applies the changes to the front itself, if no reader has it pinned: then there is no second copy before the
    /// next change.
    pub(crate) fn publish_alone(&mut self, log: V::Log) {
        match (Arc::get_mut(&mut self.front), &self.back) {
            (Some(front), None) => front.replay(&log),
            _ => self.publish(log, Patience::Waits),
        }
    }

    /// The only reference to a copy that equals the front.
    fn writable_back(&mut self, patience: Patience) -> Arc<V> {
        self.put_off_since = None;
        if let Some(Back { mut value, missed, is_kept }) = self.back.take() {
            let attempts = match patience {
                Patience::Never => 1,
                Patience::Waits if is_kept => 1,
                Patience::Waits if self.front.size() < SMALL => SPINS,
                Patience::Waits => SPINS + YIELDS + NAPS,
            };
            for attempt in 0..attempts {
                if let Some(back) = Arc::get_mut(&mut value) {
                    if let Some(log) = missed {
                        back.replay(&log);
                    }
                    return value;
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
