//! Access to the state of a device: a snapshot of all its counters (the only source of the table, JSON and metrics),
//! its queues, and packets and messages for subscribers.

use serde::Serialize;
use wireyard_pipeline::exec::Descriptor;
use wireyard_tables::time::Time;

use super::ports::ingress_of;
use super::{
    Core, DroppedPacket, EntriesShown, NotificationReport, PortReport, ProgramReport, PuntedPacket,
    QueueingReport, TableEntries, entries_of,
};
use crate::ports::PortNumber;
use crate::recorder::RecorderReport;
use crate::stats::{ControllersReport, Ledger, LedgerReport, LinuxReport, StorageReport};
use crate::tm::{PortStatus, View};

/// A snapshot of all counters of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// Outcomes of all packets.
    pub total: LedgerReport,
    /// The part of the control plane's packets, which belong to no port.
    pub cpu: LedgerReport,
    /// The part of removed ports, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<LedgerReport>,
    /// The part of each port, with the port's own counters.
    pub ports: Vec<PortReport>,
    /// Counts of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramReport>,
    /// Queues, groups, pools and pauses; `None` without `qos:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<QueueingReport>,
    /// Outcomes of reported congestion; `None` when none was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<NotificationReport>,
    /// Digests lost because their readers had no room.
    #[serde(skip_serializing_if = "super::queues::is_zero")]
    pub lost_digests: u64,
    /// Synchronisation with the kernel, where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<LinuxReport>,
    /// P4Runtime controllers, where the server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<ControllersReport>,
    /// The store of the controllers' writes, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageReport>,
    /// Capture files, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<RecorderReport>,
}

impl Core {
    /// All counters now. Walks the queues and tables and makes system calls; not for every packet.
    pub fn statistics(&mut self) -> Statistics {
        Statistics { program: self.program_report(), ..self.own_statistics() }
    }

    /// The counts of the program.
    pub(crate) fn program_report(&self) -> Option<ProgramReport> {
        self.generation().map(|generation| ProgramReport::of(generation))
    }

    /// Like [`Core::statistics`] without the counts of the program, which any thread can read while packets pass
    /// ([`ProgramReport::of`]): tables and counters may be large.
    pub(crate) fn own_statistics(&mut self) -> Statistics {
        self.sync(self.now);
        let ports = self.port_reports();
        let total = self.report();
        let of_ports: u64 = ports.iter().map(|port| port.ledger.queued).sum();
        let removed = self.removed_report();
        let of_removed = removed.as_ref().map_or(0, |report| report.queued);
        let queued = total.queued.saturating_sub(of_ports + of_removed);
        Statistics {
            cpu: LedgerReport::new(&self.ports.cpu, &self.outcomes.reasons, queued),
            total,
            removed,
            ports,
            program: None,
            queueing: self.queueing_report(),
            notification: self.notification_report(),
            lost_digests: self.device.digests_lost,
            linux: None,
            controllers: None,
            storage: None,
            captures: self.recording.reports(),
        }
    }

    /// The ledger with names of reasons, and whether it balances.
    pub fn report(&self) -> LedgerReport {
        LedgerReport::new(&self.ports.ledger(), &self.outcomes.reasons, self.queued() as u64)
    }

    /// The ledgers of the ports, with their own counters.
    pub fn port_reports(&mut self) -> Vec<PortReport> {
        let queued = self.queued_by_ingress();
        let reasons = &self.outcomes.reasons;
        let there = self.ports.iter_mut().zip(queued).filter(|(slot, _)| slot.present);
        there.map(|(slot, n)| slot.report(reasons, n)).collect()
    }

    /// Packets inside by ingress port, in slot order.
    pub(super) fn queued_by_ingress(&mut self) -> Vec<u64> {
        let mut waiting = Vec::new();
        for slot in self.ports.iter() {
            waiting.extend(slot.backlog_from.iter().copied());
        }
        let waits = self.ingress.again.iter().chain(&self.egress.departing);
        waiting.extend(waits.map(ingress_of));
        waiting.extend(self.manager.tm.packets().map(ingress_of));
        self.mesh.count_handed(&mut |number| waiting.push(number));
        let mut counts = vec![0; self.ports.len()];
        for number in waiting {
            if let Some(slot) = self.ports.ledger_of(number) {
                counts[slot] += 1;
            }
        }
        counts
    }

    /// The sum of the ledgers of removed ports; `None` when there are none.
    fn removed_report(&mut self) -> Option<LedgerReport> {
        let queued = self.queued_by_ingress();
        let gone = self.ports.iter().zip(queued).filter(|(slot, _)| !slot.present);
        let (mut ledger, mut waiting, mut some) = (Ledger::default(), 0, false);
        for (slot, queued) in gone {
            ledger.merge(&slot.ledger);
            waiting += queued;
            some = true;
        }
        some.then(|| LedgerReport::new(&ledger, &self.outcomes.reasons, waiting))
    }

    /// Queues, groups, pools and pauses; `None` without `qos:`.
    pub fn queueing_report(&mut self) -> Option<QueueingReport> {
        QueueingReport::of(&self.ports, &mut self.manager, self.now)
    }

    /// Outcomes of reported congestion; `None` when none was reported.
    pub fn notification_report(&self) -> Option<NotificationReport> {
        NotificationReport::of(self.device.notifier.as_ref())
    }

    /// Bytes that wait in a queue of a port; `None` when there is no such port.
    pub fn queue_bytes(&self, number: PortNumber, queue: u8) -> Option<u64> {
        Some(self.manager.tm.queue_bytes(self.ports.traffic_port(number)?, queue))
    }

    /// The traffic manager's counters of a port.
    pub fn port_status(&mut self, number: PortNumber) -> Option<PortStatus> {
        let id = self.ports.traffic_port(number)?;
        self.view(self.now).port(id)
    }

    /// Checks all invariants of the traffic manager's accounts; slow.
    ///
    /// # Errors
    /// An account that does not add up.
    pub fn audit_queues(&mut self) -> Result<(), crate::tm::AuditError> {
        self.view(self.now).audit()
    }

    /// The counts of the entries of the program's tables.
    pub fn entry_counters(&self, shown: EntriesShown) -> Vec<TableEntries> {
        self.generation().map_or_else(Vec::new, |generation| entries_of(generation, shown))
    }

    /// Drops so far for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.ports.ledger().dropped_for(&self.outcomes.reasons, reason)
    }

    /// All reasons for which packets were or may be dropped or consumed; those of a program from its first use on.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.outcomes.reasons.names()
    }

    /// Packets consumed so far for a reason.
    pub fn consumed(&self, reason: &str) -> u64 {
        self.ports.ledger().consumed_for(&self.outcomes.reasons, reason)
    }

    /// The traffic manager at `now`: counters, watermarks, waits between ports.
    pub fn view(&mut self, now: Time) -> View<'_, Descriptor> {
        self.sync(now);
        self.manager.tm.view(now)
    }

    /// Collects packets for the control plane from now on; [`Core::take_punted`] returns them.
    pub fn listen_to_punts(&mut self) {
        self.outcomes.punted.get_or_insert_with(Vec::new);
    }

    /// Packets for the control plane since the last call.
    pub fn take_punted(&mut self) -> Vec<PuntedPacket> {
        self.outcomes.punted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Collects dropped packets from now on; [`Core::take_dropped`] returns them. Only to show which packets they were:
    /// the ledger counts without it.
    pub fn listen_to_drops(&mut self) {
        self.outcomes.dropped.get_or_insert_with(Vec::new);
    }

    /// Packets dropped since the last call.
    pub fn take_dropped(&mut self) -> Vec<DroppedPacket> {
        self.outcomes.dropped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Number of packets inside: in queues, held, waiting for a port, or for another pass.
    pub fn queued(&self) -> usize {
        let passes = self.ingress.again.len() + self.egress.departing.len();
        passes + self.manager.queued() + self.ports.waiting() + self.mesh.waiting()
    }
}
