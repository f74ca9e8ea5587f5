//! The statistics of several workers as those of one switch.
//!
//! A queue and a group are at one worker only, but packets that a queue refused are counted at the worker that received
//! them too; queues, ledgers, a port's own counters, pools and notices are sums. The counts of the program are the same for all
//! workers, which share its state. Peaks of pools are sums of the peaks of their parts, which may have been at
//! different times.

use super::{NotificationReport, PoolReport, PortQueues, PortReport, QueueingReport, Statistics};

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

impl Statistics {
    /// Adds the counts of another worker of the same switch.
    pub fn merge(&mut self, other: &Statistics) {
        self.total.merge(&other.total);
        self.cpu.merge(&other.cpu);
        for theirs in &other.ports {
            match self.ports.iter_mut().find(|mine| mine.port == theirs.port) {
                Some(mine) => mine.merge(theirs),
                None => self.ports.push(theirs.clone()),
            }
        }
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
        self.reserved_bytes += other.reserved_bytes;
        self.shared_bytes += other.shared_bytes;
        self.headroom_bytes += other.headroom_bytes;
        self.peak_bytes += other.peak_bytes;
    }
}

impl PortQueues {
    fn merge(&mut self, other: &PortQueues) {
        for theirs in &other.queues {
            match self.queues.iter_mut().find(|mine| mine.queue == theirs.queue) {
                Some(mine) => mine.merge(theirs),
                None => self.queues.push(theirs.clone()),
            }
        }
        self.groups.extend(other.groups.iter().cloned());
        self.pauses.extend(other.pauses.iter().cloned());
        self.pauses_ignored += other.pauses_ignored;
        self.control_sent += other.control_sent;
        for (name, count) in &other.drops {
            match self.drops.iter_mut().find(|(mine, _)| mine == name) {
                Some((_, mine)) => *mine += count,
                None => self.drops.push((name, *count)),
            }
        }
    }
}

impl NotificationReport {
    fn merge(&mut self, other: &NotificationReport) {
        self.reported += other.reported;
        self.cnp_sent += other.cnp_sent;
        self.cnp_suppressed += other.cnp_suppressed;
        self.cnp_no_qp_pair += other.cnp_no_qp_pair;
        self.ignored += other.ignored;
        self.evicted += other.evicted;
        self.not_transport += other.not_transport;
        self.unbuildable += other.unbuildable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::QueueReport;

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
