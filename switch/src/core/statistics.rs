//! Everything that a device counted, as one value: the table, JSON and metrics print this and nothing else.

use serde::Serialize;

use super::{Core, NotificationReport, PortReport, ProgramReport, QueueingReport};
use crate::recorder::RecorderReport;
use crate::stats::{Ledger, LedgerReport};

/// A snapshot of all counters of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// Where all packets went.
    pub total: LedgerReport,
    /// The part of it that no port has: packets of the control plane.
    pub cpu: LedgerReport,
    /// The part of ports that were removed, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<LedgerReport>,
    /// The part of each port, with the port's own counters.
    pub ports: Vec<PortReport>,
    /// What the program counted itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramReport>,
    /// Queues, groups, pools and pauses, where a configuration of queues was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<QueueingReport>,
    /// What became of reported congestion, where any was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<NotificationReport>,
    /// Capture files, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<RecorderReport>,
}

impl Core {
    /// All counters now. Walks the queues and asks the system; not for every packet.
    pub fn statistics(&mut self) -> Statistics {
        let ports = self.port_reports();
        let total = self.report();
        let of_ports: u64 = ports.iter().map(|port| port.ledger.queued).sum();
        let removed = self.removed_report();
        let of_removed = removed.as_ref().map_or(0, |report| report.queued);
        let queued = total.queued.saturating_sub(of_ports + of_removed);
        Statistics {
            cpu: LedgerReport::new(&self.cpu, &self.reasons, queued),
            total,
            removed,
            ports,
            program: self.generation().map(|generation| ProgramReport::of(generation)),
            queueing: self.queueing_report(),
            notification: self.notification_report(),
            captures: self.recorder_reports(),
        }
    }

    /// The ledger of everything.
    pub fn ledger(&self) -> Ledger {
        let mut total = self.cpu.clone();
        for slot in &self.slots {
            total.merge(&slot.ledger);
        }
        total
    }

    /// The ledger with names, and whether it balances.
    pub fn report(&self) -> LedgerReport {
        LedgerReport::new(&self.ledger(), &self.reasons, self.queued() as u64)
    }

    /// The ledgers of the ports, with their own counters.
    pub fn port_reports(&mut self) -> Vec<PortReport> {
        let queued = self.queued_by_ingress();
        let reasons = &self.reasons;
        let there = self.slots.iter_mut().zip(queued).filter(|(slot, _)| slot.present);
        there.map(|(slot, n)| slot.report(reasons, n)).collect()
    }

    /// Packets inside by the port they came in by, in slot order.
    pub(super) fn queued_by_ingress(&mut self) -> Vec<u64> {
        let mut waiting = Vec::new();
        for slot in &self.slots {
            waiting.extend(slot.waiting());
        }
        waiting.extend(self.again.iter().map(|(descriptor, _)| descriptor.ingress_port));
        waiting.extend(self.to_cpu.iter().map(|descriptor| descriptor.ingress_port));
        waiting.extend(self.manager.tm.packets().map(|descriptor| descriptor.ingress_port));
        self.count_handed(&mut |number| waiting.push(number));
        let mut counts = vec![0; self.slots.len()];
        for number in waiting {
            if let Some(slot) = self.slot(number).or_else(|| self.removed_slot(number)) {
                counts[slot] += 1;
            }
        }
        counts
    }

    /// Drops booked so far for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.ledger().dropped_for(&self.reasons, reason)
    }

    /// Every reason that something was or may be dropped or consumed for; those of a program when its first packet came.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.names()
    }

    /// Packets consumed so far for a reason.
    pub fn consumed(&self, reason: &str) -> u64 {
        self.ledger().consumed_for(&self.reasons, reason)
    }
}
