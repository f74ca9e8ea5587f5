//! The ledger: the account of every packet.
//!
//! For every ingress port, and so in total: received + generated = sent + dropped (by reason) + consumed (by reason) +
//! queued. The core counts each event once, on the packet's ingress port; `queued` is counted in the queues themselves,
//! so that the identity is a check and not a definition. Copies (multicast, mirror) and frames the device originates
//! are `generated`.

mod steered;

use serde::Serialize;

pub use steered::{ControllersReport, DigestReport, RequestReport, StorageReport};

/// Index of a reason in [`Reasons`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonIndex(pub u32);

/// Names of reasons, numbered in the order of their first use.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    names: Vec<String>,
}

impl Reasons {
    /// The index of a name, new or known. Linear: done when a program is loaded, not per packet.
    pub fn intern(&mut self, name: &str) -> ReasonIndex {
        if let Some(known) = self.names.iter().position(|n| n == name) {
            return ReasonIndex(known as u32);
        }
        self.names.push(name.to_owned());
        ReasonIndex(self.names.len() as u32 - 1)
    }

    /// The name.
    pub fn name(&self, index: ReasonIndex) -> &str {
        self.names.get(index.0 as usize).map_or("unknown", String::as_str)
    }

    /// Every name, in the order of their indices.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Packets between a device and the kernel on top of it, and the kernel's entries in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinuxReport {
    /// Punted packets that the kernel received.
    pub packets_to_kernel: u64,
    /// Punted packets of a port without an interface, or whose interface was down.
    pub packets_refused_by_kernel: u64,
    /// Punted packets lost because they arrived faster than they were received.
    pub packets_lost: u64,
    /// Packets of the kernel that were passed to ports.
    pub packets_from_kernel: u64,
    /// Packets of the kernel for which there was no packet memory or port.
    pub packets_not_sent: u64,
    /// Losses of route notifications, after which everything was read again.
    pub news_lost: u64,
    /// Times that everything was read.
    pub resyncs: u64,
    /// Updates of tables that were refused.
    pub writes_refused: u64,
    /// Neighbours in the kernel's table.
    pub neighbours: u64,
    /// IPv4 prefixes in the table: routes and neighbours.
    pub routes4: u64,
    /// IPv6 prefixes in the table.
    pub routes6: u64,
    /// Next hops in use.
    pub next_hops: u64,
    /// Sets of next hops that share traffic.
    pub groups: u64,
    /// Routes that the kernel follows itself, as the tables cannot.
    pub routes_of_kernel: u64,
    /// Prefixes that the table refused.
    pub routes_missing: u64,
}

/// Packets of one ingress port; the counters of every packet come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ledger {
    /// Taken from the port.
    pub received: u64,
    /// Handed to an egress port.
    pub sent: u64,
    /// Copies made of them, and frames originated for them.
    pub generated: u64,
    dropped: Vec<u64>,
    consumed: Vec<u64>,
}

impl Ledger {
    /// Books a drop.
    pub fn drop(&mut self, reason: ReasonIndex) {
        add(&mut self.dropped, reason, 1);
    }

    /// Counts a packet that ended at the device itself.
    pub fn consume(&mut self, reason: ReasonIndex) {
        add(&mut self.consumed, reason, 1);
    }

    /// Drops for every reason.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Consumed for every reason.
    pub fn consumed(&self) -> u64 {
        self.consumed.iter().sum()
    }

    /// Adds another ledger.
    pub fn merge(&mut self, other: &Ledger) {
        self.received += other.received;
        self.generated += other.generated;
        self.sent += other.sent;
        for (index, &count) in other.dropped.iter().enumerate() {
            add(&mut self.dropped, ReasonIndex(index as u32), count);
        }
        for (index, &count) in other.consumed.iter().enumerate() {
            add(&mut self.consumed, ReasonIndex(index as u32), count);
        }
    }

    /// Packets that must be queued for the identity to be true; `None` if more left than arrived.
    pub fn outstanding(&self) -> Option<u64> {
        (self.received + self.generated).checked_sub(self.sent + self.dropped() + self.consumed())
    }

    /// Reasons with a count, in the order of their indices.
    pub fn drops<'a>(&'a self, reasons: &'a Reasons) -> impl Iterator<Item = (&'a str, u64)> {
        named(&self.dropped, reasons)
    }

    /// Reasons with a count, in the order of their indices.
    pub fn consumptions<'a>(
        &'a self,
        reasons: &'a Reasons,
    ) -> impl Iterator<Item = (&'a str, u64)> {
        named(&self.consumed, reasons)
    }
}

fn add(counts: &mut Vec<u64>, reason: ReasonIndex, count: u64) {
    let index = reason.0 as usize;
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] += count;
}

fn named<'a>(counts: &'a [u64], reasons: &'a Reasons) -> impl Iterator<Item = (&'a str, u64)> {
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| (reasons.name(ReasonIndex(index as u32)), *count))
}

crate::tm::id::reasons! {
    /// Reasons of the device itself, beside those of the program.
    DeviceReason {
        /// Dropped: the program chose a port that does not exist.
        NoSuchPort = "no_such_port",
        /// Dropped: the multicast group does not exist.
        NoSuchGroup = "no_such_group",
        /// Dropped: the multicast group has no port for this packet.
        EmptyGroup = "empty_group",
        /// Dropped (the copy): the mirror session does not exist.
        NoSuchSession = "no_such_session",
        /// Dropped: packet memory has no free chunk for a copy.
        NoMemory = "no_memory",
        /// Dropped: resubmitted or recirculated too often.
        TooManyPasses = "too_many_passes",
        /// Dropped: copies of copies beyond the budget of the received packet.
        TooManyCopies = "too_many_copies",
        /// Dropped: the egress port had no room for it (its own counters have the reason).
        TxFull = "tx_full",
        /// Consumed: PAUSE or PFC, which ends at the port (IEEE 802.3 clause 31).
        MacControl = "mac_control",
        /// Consumed: sent to the CPU port by `std.egress_port`.
        ToCpu = "to_cpu",
        /// Consumed and ignored: a MAC control frame of a wrong length.
        MacControlLength = "mac_control_length",
        /// Consumed and ignored: a MAC control frame to another address than 01:80:c2:00:00:01.
        MacControlAddress = "mac_control_address",
        /// Consumed and ignored: a MAC control frame that is neither PAUSE nor PFC.
        MacControlOpcode = "mac_control_opcode",
        /// Consumed and ignored: a PFC frame for more than eight priorities.
        PfcVector = "pfc_vector",
        /// Dropped: the worker of the egress port did not keep up (copies only: other packets are no longer received
        /// then).
        WorkerBusy = "worker_busy",
        /// Dropped: the egress port was removed while the packet was queued for it.
        PortRemoved = "port_removed",
    }
}

impl DeviceReason {
    /// Its index in every [`Reasons`] made by [`device_reasons`].
    pub fn index(self) -> ReasonIndex {
        ReasonIndex(self as u32)
    }
}

/// Reasons with those of the device first.
pub fn device_reasons() -> Reasons {
    let mut reasons = Reasons::default();
    for reason in DeviceReason::ALL {
        let index = reasons.intern(reason.name());
        debug_assert_eq!(index, reason.index());
    }
    reasons
}

/// A ledger with names, for output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerReport {
    /// Taken from the port.
    pub received: u64,
    /// Copies and own frames.
    pub generated: u64,
    /// Handed to an egress port.
    pub sent: u64,
    /// Dropped, by reason.
    pub dropped: Vec<(String, u64)>,
    /// Consumed, by reason.
    pub consumed: Vec<(String, u64)>,
    /// In the device now.
    pub queued: u64,
    /// Whether the identity is true.
    pub balanced: bool,
}

impl LedgerReport {
    /// Adds names to a ledger; `queued` was counted in the queues.
    pub fn new(ledger: &Ledger, reasons: &Reasons, queued: u64) -> LedgerReport {
        let owned = |(name, count): (&str, u64)| (name.to_owned(), count);
        LedgerReport {
            received: ledger.received,
            generated: ledger.generated,
            sent: ledger.sent,
            dropped: ledger.drops(reasons).map(owned).collect(),
            consumed: ledger.consumptions(reasons).map(owned).collect(),
            queued,
            balanced: ledger.outstanding() == Some(queued),
        }
    }

    /// Packets dropped for this reason.
    pub fn dropped_for(&self, reason: &str) -> u64 {
        count_of(&self.dropped, reason)
    }

    /// Packets consumed for this reason.
    pub fn consumed_for(&self, reason: &str) -> u64 {
        count_of(&self.consumed, reason)
    }

    /// Packets dropped, for all reasons.
    pub fn dropped_packets(&self) -> u64 {
        sum(&self.dropped)
    }

    /// Packets consumed, for all reasons.
    pub fn consumed_packets(&self) -> u64 {
        sum(&self.consumed)
    }

    /// Adds the counts of another worker for the same port.
    pub fn merge(&mut self, other: &LedgerReport) {
        self.received += other.received;
        self.generated += other.generated;
        self.sent += other.sent;
        self.queued += other.queued;
        add_named(&mut self.dropped, &other.dropped);
        add_named(&mut self.consumed, &other.consumed);
        let ended = self.sent + self.dropped_packets() + self.consumed_packets() + self.queued;
        self.balanced = self.received + self.generated == ended;
    }
}

fn count_of(counts: &[(String, u64)], reason: &str) -> u64 {
    counts.iter().find(|(name, _)| name == reason).map_or(0, |(_, count)| *count)
}

fn sum(counts: &[(String, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn add_named(counts: &mut Vec<(String, u64)>, more: &[(String, u64)]) {
    for (name, count) in more {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known += count,
            None => counts.push((name.clone(), *count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_checked_not_assumed() {
        let mut reasons = device_reasons();
        let ttl = reasons.intern("ttl_expired");
        let mut ledger = Ledger { received: 5, generated: 1, ..Ledger::default() };
        ledger.sent = 3;
        ledger.drop(ttl);
        ledger.consume(DeviceReason::MacControl.index());
        assert_eq!(ledger.outstanding(), Some(1));
        let report = LedgerReport::new(&ledger, &reasons, 1);
        assert!(report.balanced);
        assert!(!LedgerReport::new(&ledger, &reasons, 0).balanced);
        assert_eq!((report.dropped_for("ttl_expired"), report.consumed_for("ttl_expired")), (1, 0));
        assert_eq!(reasons.intern("ttl_expired"), ttl);
        ledger.sent = 9;
        assert_eq!(ledger.outstanding(), None);
    }
}
