//! The statistics of several workers as those of one switch.
//!
//! A queue and a group are at one worker only, but packets that a queue refused are counted at the worker that received
//! them too; queues, ledgers, a port's own counters, pools and notices are sums. The counts of the program are the same for all
//! workers, which share its state. Peaks of pools are sums of the peaks of their parts, which may have been at
//! different times.

use super::{
    NotificationReport, PoolReport, PortQueues, PortReport, QueueReport, QueueingReport, Statistics,
};

/// Figures of two workers, as one: counts are added, a condition holds where it holds at one of them.
pub(super) trait Merge {
    fn merge(&mut self, other: &Self);
}

impl Merge for u32 {
    fn merge(&mut self, other: &u32) {
        *self += other;
    }
}

impl Merge for u64 {
    fn merge(&mut self, other: &u64) {
        *self += other;
    }
}

impl Merge for bool {
    fn merge(&mut self, other: &bool) {
        *self |= other;
    }
}

/// Adds counters by name.
macro_rules! add {
    ($mine:expr, $theirs:expr, $($count:ident),+) => { $($mine.$count += $theirs.$count;)+ };
}

/// Merges each of `theirs` into the one of `mine` with the same key, or appends it.
fn merge_each<T: Clone, K: PartialEq>(
    mine: &mut Vec<T>,
    theirs: &[T],
    key: impl Fn(&T) -> K,
    merge: impl Fn(&mut T, &T),
) {
    for other in theirs {
        match mine.iter_mut().find(|one| key(one) == key(other)) {
            Some(one) => merge(one, other),
            None => mine.push(other.clone()),
        }
    }
}

impl Statistics {
    /// Adds the counts of another worker of the same switch.
    pub fn merge(&mut self, other: &Statistics) {
        self.total.merge(&other.total);
        self.cpu.merge(&other.cpu);
        merge_each(&mut self.ports, &other.ports, |port| port.port, PortReport::merge);
        match (&mut self.removed, &other.removed) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => mine.clone_from(theirs),
            (Some(_), None) => {}
        }
        if let (Some(mine), Some(theirs)) = (&mut self.queueing, &other.queueing) {
            mine.merge(theirs);
        }
        match (&mut self.notification, &other.notification) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, theirs) => *mine = mine.or(*theirs),
        }
        self.lost_digests += other.lost_digests;
        self.captures.extend(other.captures.iter().cloned());
    }
}

impl PortReport {
    fn merge(&mut self, other: &PortReport) {
        self.ledger.merge(&other.ledger);
        // Each worker counts for its own queues of the link.
        self.medium.add(&other.medium);
        self.faults = match (self.faults, other.faults) {
            (Some(mine), Some(theirs)) => Some(mine.and(&theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

impl QueueingReport {
    fn merge(&mut self, other: &QueueingReport) {
        for (mine, theirs) in self.pools.iter_mut().zip(&other.pools) {
            mine.merge(theirs);
        }
        for theirs in &other.ports {
            if let Some(mine) = self.ports.iter_mut().find(|mine| mine.port == theirs.port) {
                mine.merge(theirs);
            }
        }
    }
}

impl PoolReport {
    fn merge(&mut self, other: &PoolReport) {
        add!(self, other, reserved_bytes, shared_bytes, headroom_bytes, peak_bytes);
    }
}

impl PortQueues {
    fn merge(&mut self, other: &PortQueues) {
        merge_each(&mut self.queues, &other.queues, |queue| queue.queue, QueueReport::merge);
        self.groups.extend(other.groups.iter().cloned());
        self.pauses.extend(other.pauses.iter().cloned());
        add!(self, other, pauses_ignored, control_sent);
        merge_each(&mut self.drops, &other.drops, |drop| drop.0, |mine, theirs| mine.1 += theirs.1);
    }
}

impl NotificationReport {
    fn merge(&mut self, other: &NotificationReport) {
        add!(self, other, reported, cnp_sent, cnp_suppressed, cnp_no_qp_pair);
        add!(self, other, ignored, evicted, not_transport, unbuildable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(refused: u64) -> QueueReport {
        QueueReport { queue: 3, refused, ..QueueReport::default() }
    }

    /// The owner's queue let nothing in: it trimmed everything, and had a storm.
    #[test]
    fn trims_and_storms_are_those_of_the_owner() {
        let owner = QueueReport { trimmed: 5, trim_dropped: 2, storms: 1, ..queue(7) };
        for (mut one, other) in [(queue(4), owner.clone()), (owner, queue(4))] {
            one.merge(&other);
            let counts = (one.refused, one.trimmed, one.trim_dropped, one.storms, one.paused);
            assert_eq!(counts, (11, 5, 2, 1, false));
        }
    }
}
