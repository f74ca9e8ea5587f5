//! A snapshot of all counters of a device, the only source of the table, JSON and metrics.

use serde::Serialize;

use super::ports::ingress_of;
use super::{Core, NotificationReport, PortReport, ProgramReport, QueueingReport};
use crate::recorder::RecorderReport;
use crate::stats::{ControllersReport, Ledger, LedgerReport, LinuxReport, StorageReport};

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

impl Statistics {
    /// All counters of a device now. Walks the queues and tables and makes system calls; not for every packet.
    pub fn of(core: &mut Core) -> Statistics {
        let all = Statistics::of_worker(core);
        Statistics { program: core.generation().map(|current| ProgramReport::of(current)), ..all }
    }

    /// Like [`Statistics::of`] without the counts of the program, which all workers share and any thread can read while
    /// packets pass ([`ProgramReport::of`]): tables and counters may be large.
    pub(crate) fn of_worker(core: &mut Core) -> Statistics {
        core.sync(core.now);
        let ports = PortReport::all(core);
        let total = core.report();
        let of_ports: u64 = ports.iter().map(|port| port.ledger.queued).sum();
        let removed = removed_report(core);
        let of_removed = removed.as_ref().map_or(0, |report| report.queued);
        let queued = total.queued.saturating_sub(of_ports + of_removed);
        Statistics {
            cpu: LedgerReport::new(&core.ports.cpu, &core.outcomes.reasons, queued),
            total,
            removed,
            ports,
            program: None,
            queueing: QueueingReport::of(&core.ports, &mut core.manager, core.now),
            notification: NotificationReport::of(core.device.notifier.as_ref()),
            lost_digests: core.device.digests_lost,
            linux: None,
            controllers: None,
            storage: None,
            captures: core.recording.reports(),
        }
    }
}

impl PortReport {
    /// The ledgers of the ports of a device, with their own counters, in slot order.
    pub fn all(core: &mut Core) -> Vec<PortReport> {
        let queued = queued_by_ingress(core);
        let reasons = &core.outcomes.reasons;
        let there = core.ports.iter_mut().zip(queued).filter(|(slot, _)| slot.present);
        there.map(|(slot, n)| slot.report(reasons, n)).collect()
    }
}

/// Packets inside by ingress port, in slot order.
fn queued_by_ingress(core: &mut Core) -> Vec<u64> {
    let mut waiting = Vec::new();
    for slot in core.ports.iter() {
        waiting.extend(slot.backlog_from.iter().copied());
    }
    let waits = core.ingress.again.iter().chain(&core.egress.departing);
    waiting.extend(waits.map(ingress_of));
    waiting.extend(core.manager.tm.packets().map(ingress_of));
    core.mesh.count_handed(&mut |number| waiting.push(number));
    let mut counts = vec![0; core.ports.len()];
    for number in waiting {
        if let Some(slot) = core.ports.ledger_of(number) {
            counts[slot] += 1;
        }
    }
    counts
}

/// The sum of the ledgers of removed ports; `None` when there are none.
fn removed_report(core: &mut Core) -> Option<LedgerReport> {
    let queued = queued_by_ingress(core);
    let gone = core.ports.iter().zip(queued).filter(|(slot, _)| !slot.present);
    let (mut ledger, mut waiting, mut some) = (Ledger::default(), 0, false);
    for (slot, queued) in gone {
        ledger.merge(&slot.ledger);
        waiting += queued;
        some = true;
    }
    some.then(|| LedgerReport::new(&ledger, &core.outcomes.reasons, waiting))
}
