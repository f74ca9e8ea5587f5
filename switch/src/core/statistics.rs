//! Everything that a device counted, as one value: the table, JSON and metrics print this and nothing else.

use serde::Serialize;

use super::{Core, NotificationReport, PortReport, QueueingReport};
use crate::recorder::RecorderReport;
use crate::stats::LedgerReport;

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
            queueing: self.queueing_report(),
            notification: self.notification_report(),
            captures: self.recorder_reports(),
        }
    }
}
