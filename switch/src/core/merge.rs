//! The statistics of several workers as those of one switch.
//!
//! A queue and a group are at one worker only, but packets that a queue refused are counted at the worker that received
//! them too; queues, ledgers, a port's own counters, pools and notices are sums. The counts of the program are the same for all
//! workers, which share its state. Peaks of pools are sums of the peaks of their parts, which may have been at
//! different times.

use super::{
    NotificationReport, PoolReport, PortQueues, PortReport, QueueReport, QueueingReport, Statistics,
};

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

impl QueueReport {
    /// One of the two workers has the packets of the queue; the other has only refused some.
    fn merge(&mut self, other: &QueueReport) {
        // Without `..`: a new figure is not forgotten.
        let QueueReport {
            queue: _,
            paused,
            waiting,
            waiting_bytes,
            peak_bytes,
            admitted,
            sent,
            sent_bytes,
            passed,
            dropped,
            refused,
            eligible,
            marked,
            mark_decisions,
            wred_dropped,
            trimmed,
            trim_dropped,
            storms,
        } = *other;
        self.waiting += waiting;
        self.waiting_bytes += waiting_bytes;
        self.peak_bytes += peak_bytes;
        self.admitted += admitted;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.passed += passed;
        self.dropped += dropped;
        self.refused += refused;
        self.eligible += eligible;
        self.marked += marked;
        self.mark_decisions += mark_decisions;
        self.wred_dropped += wred_dropped;
        self.trimmed += trimmed;
        self.trim_dropped += trim_dropped;
        self.storms += storms;
        self.paused |= paused;
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

    fn queue(refused: u64) -> QueueReport {
        QueueReport {
            queue: 3,
            waiting: 0,
            waiting_bytes: 0,
            peak_bytes: 0,
            admitted: 0,
            sent: 0,
            sent_bytes: 0,
            passed: 0,
            dropped: 0,
            refused,
            eligible: 0,
            marked: 0,
            mark_decisions: 0,
            wred_dropped: 0,
            trimmed: 0,
            trim_dropped: 0,
            paused: false,
            storms: 0,
        }
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
