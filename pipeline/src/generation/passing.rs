//! Packets of a program between ingress and egress, counted by each worker for itself.
//!
//! Every packet is counted twice. So no two workers write to one line of memory, and no instruction is locked: each has
//! a pair of counts that only it writes, and who asks adds them up. `tests/models` runs this file through every order
//! of its steps.

use super::sync::{AtomicU64, Ordering};

/// The counts of one worker; on lines of its own, of which processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    entered: AtomicU64,
    left: AtomicU64,
}

/// The counts of all workers. A packet may be counted out by another worker than counted it in.
#[derive(Debug)]
pub(super) struct Passing(Box<[Lane]>);

impl Passing {
    /// No packets, for so many workers.
    pub(super) fn new(workers: usize) -> Passing {
        Passing((0..workers).map(|_| Lane::default()).collect())
    }

    /// Worker `lane` counts packets in, before another worker can have them.
    #[inline]
    pub(super) fn enter(&self, lane: usize, packets: u64) {
        let lane = &self.0[lane];
        lane.entered.store(lane.entered.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
    }

    /// Worker `lane` counts packets out.
    #[inline]
    pub(super) fn leave(&self, lane: usize, packets: u64) {
        let lane = &self.0[lane];
        // Release: who reads that all have left, and frees the program, does so after this worker's last use.
        lane.left.store(lane.left.load(Ordering::Relaxed) + packets, Ordering::Release);
    }

    /// Packets inside; 0 only if all that ever entered have left. While workers run, one that leaves may still count.
    pub(super) fn inside(&self) -> u64 {
        // First those that left: each of them was counted in before, which the second sum then includes.
        let left: u64 = self.0.iter().map(|lane| lane.left.load(Ordering::Acquire)).sum();
        let entered: u64 = self.0.iter().map(|lane| lane.entered.load(Ordering::Acquire)).sum();
        debug_assert!(entered >= left, "{left} left, {entered} entered");
        entered.saturating_sub(left)
    }
}
