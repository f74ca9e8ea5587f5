//! Queues, groups, pools and pauses as numbers with names, for people and programs.

use serde::Serialize;

use super::Core;
use super::manager::port_id;
use crate::tm::{CLASSES, DropReason, FlowControl, PortStatus};

/// Everything the traffic manager counted.
#[derive(Clone, Debug, Serialize)]
pub struct QueueingReport {
    /// Buffer pools, in the order of their names.
    pub pools: Vec<PoolReport>,
    /// Ports, in the order in which they were added.
    pub ports: Vec<PortQueues>,
}

/// A buffer pool.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct PoolReport {
    pub name: String,
    pub reserved_bytes: u64,
    pub shared_bytes: u64,
    pub headroom_bytes: u64,
    pub peak_bytes: u64,
}

/// A port's queues, groups and pauses.
#[derive(Clone, Debug, Serialize)]
pub struct PortQueues {
    /// Port number.
    pub port: u16,
    /// Bits per second; `None` sends at once.
    pub rate_bps: Option<u64>,
    /// Queues that packets were in.
    pub queues: Vec<QueueReport>,
    /// Priority groups that packets were in.
    pub groups: Vec<GroupReport>,
    /// Priorities with pauses.
    pub pauses: Vec<PauseReport>,
    /// Received pauses for a priority, or of a kind, that this port does not honour.
    pub pauses_ignored: u64,
    /// MAC control frames sent.
    pub control_sent: u64,
    /// Drops by reason, where there are any.
    pub drops: Vec<(&'static str, u64)>,
}

/// One queue; packets unless named otherwise.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct QueueReport {
    pub queue: u8,
    pub waiting: u32,
    pub waiting_bytes: u64,
    pub peak_bytes: u64,
    pub admitted: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Sent at once, without waiting here.
    pub passed: u64,
    /// Dropped after they were queued.
    pub dropped: u64,
    /// Not admitted.
    pub refused: u64,
    /// ECN-capable packets that the congestion point looked at.
    pub eligible: u64,
    /// Of these, marked: the program wrote it, and they left.
    pub marked: u64,
    /// Of these, chosen by the curve to be marked.
    pub mark_decisions: u64,
    pub wred_dropped: u64,
    pub paused: bool,
    /// Storms that the watchdog found.
    pub storms: u64,
}

/// One priority group.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct GroupReport {
    pub group: u8,
    pub bytes: u64,
    pub peak_bytes: u64,
    pub peak_headroom_bytes: u64,
    pub xoff_at_bytes: u64,
    /// The peer is told to stop.
    pub stopped: bool,
    pub admitted: u64,
    pub refused: u64,
    pub xoff: u64,
    pub xon: u64,
    /// Packets that came later after XOFF than a peer that honours it would send.
    pub not_honoured: u64,
}

/// Pauses of one priority.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct PauseReport {
    /// `None`: the whole link, by 802.3 PAUSE.
    pub priority: Option<u8>,
    /// Frames with a time, refreshes included.
    pub sent: u64,
    /// Frames with time zero.
    pub resumes_sent: u64,
    pub received: u64,
    pub resumes_received: u64,
    /// Time spent paused, up to the last change.
    pub paused_ns: u64,
}

/// What became of reported congestion.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct NotificationReport {
    /// Marked packets that programs reported.
    pub reported: u64,
    pub cnp_sent: u64,
    /// Never answered: in an interval that was answered already, beside the one that is answered at its end.
    pub cnp_suppressed: u64,
    /// The sender's queue pair is not known.
    pub cnp_no_qp_pair: u64,
    /// CNPs, acknowledgements and multicast: never answered.
    pub ignored: u64,
    /// Intervals ended early because too many flows were marked.
    pub evicted: u64,
    /// Packets that are no RoCE or InfiniBand transport.
    pub not_transport: u64,
    pub unbuildable: u64,
}

impl Core {
    /// Queues, groups, pools and pauses; `None` without a configuration of queues.
    pub fn queueing_report(&self) -> Option<QueueingReport> {
        if !self.manager.configured {
            return None;
        }
        let pools = self.manager.pool_names().enumerate().filter_map(|(index, name)| {
            let used = self.manager.tm.pool(crate::tm::PoolId(u8::try_from(index).ok()?))?;
            Some(PoolReport {
                name: name.to_owned(),
                reserved_bytes: used.reserved,
                shared_bytes: used.shared,
                headroom_bytes: used.headroom,
                peak_bytes: used.peak,
            })
        });
        let there = self.slots.iter().enumerate().filter(|(_, slot)| slot.present);
        let ports = there.filter_map(|(slot, port)| {
            let status = self.manager.tm.port(port_id(slot))?;
            let whole_link = self.manager.flow_control(slot) == FlowControl::Pause;
            Some(port_queues(port.number, self.manager.rate_bps(slot), &status, whole_link))
        });
        Some(QueueingReport { pools: pools.collect(), ports: ports.collect() })
    }

    /// What became of reported congestion; `None` when none was reported.
    pub fn notification_report(&self) -> Option<NotificationReport> {
        let counters = self.device.notifier.as_ref()?.counters();
        let (np, not_transport) = (counters.np, counters.not_transport);
        (np.ce_seen + not_transport > 0).then_some(NotificationReport {
            reported: np.ce_seen + not_transport,
            cnp_sent: np.cnp_sent,
            cnp_suppressed: np.cnp_suppressed,
            cnp_no_qp_pair: np.cnp_no_qp_pair,
            ignored: np.ignored,
            evicted: np.evicted,
            not_transport,
            unbuildable: counters.unbuildable,
        })
    }

    /// Bytes that wait in a queue of a port; `None` when there is no such port.
    pub fn queue_bytes(&self, number: u16, queue: u8) -> Option<u64> {
        Some(self.manager.tm.queue_bytes(port_id(self.slot(number)?), queue))
    }

    /// The traffic manager's counters of a port.
    pub fn port_status(&self, number: u16) -> Option<PortStatus> {
        self.manager.tm.port(port_id(self.slot(number)?))
    }

    /// Checks every identity of the traffic manager; slow.
    ///
    /// # Errors
    /// A number that does not add up.
    pub fn audit_queues(&self) -> Result<(), crate::tm::AuditError> {
        self.manager.tm.audit()
    }
}

fn port_queues(
    number: u16,
    rate_bps: Option<u64>,
    status: &PortStatus,
    whole_link: bool,
) -> PortQueues {
    let classes = || 0..CLASSES as u8;
    let queues = classes().filter_map(|q| queue_report(q, status));
    let groups = classes().filter_map(|g| group_report(g, status));
    let pauses = classes().filter_map(|p| pause_report(p, status, whole_link));
    let drops = DropReason::ALL.iter().zip(&status.drops);
    let drops = drops.filter(|(_, count)| count.packets > 0);
    PortQueues {
        port: number,
        rate_bps,
        queues: queues.collect(),
        groups: groups.collect(),
        pauses: pauses.collect(),
        pauses_ignored: status.pauses.rx_ignored,
        control_sent: status.control.departed.packets + status.control.passed.packets,
        drops: drops.map(|(reason, count)| (reason.name(), count.packets)).collect(),
    }
}

fn queue_report(q: u8, status: &PortStatus) -> Option<QueueReport> {
    let queue = &status.queues[usize::from(q)];
    let counters = &queue.counters;
    let wred = queue.wred.unwrap_or_default();
    let storms = status.watchdog.map_or(0, |counters| counters[usize::from(q)].detected);
    let seen = counters.admitted.packets + counters.passed.packets + counters.refused.packets;
    (seen > 0 || queue.paused || storms > 0).then_some(QueueReport {
        queue: q,
        waiting: queue.packets,
        waiting_bytes: queue.bytes,
        peak_bytes: queue.peak_bytes,
        admitted: counters.admitted.packets,
        sent: counters.departed.packets,
        sent_bytes: counters.departed.bytes,
        passed: counters.passed.packets,
        dropped: counters.dropped.packets,
        refused: counters.refused.packets,
        eligible: wred.eligible,
        marked: wred.written,
        mark_decisions: wred.marked,
        wred_dropped: wred.dropped,
        paused: queue.paused,
        storms,
    })
}

fn group_report(g: u8, status: &PortStatus) -> Option<GroupReport> {
    let group = &status.groups[usize::from(g)];
    let counters = &group.counters;
    (counters.admitted.packets + counters.refused.packets > 0).then(|| GroupReport {
        group: g,
        bytes: group.account.total(),
        peak_bytes: group.account.peak,
        peak_headroom_bytes: group.account.peak_headroom,
        xoff_at_bytes: group.xoff_at_bytes,
        stopped: group.xoff,
        admitted: counters.admitted.packets,
        refused: counters.refused.packets,
        xoff: counters.xoff,
        xon: counters.xon,
        not_honoured: counters.not_honoured,
    })
}

fn pause_report(p: u8, status: &PortStatus, whole_link: bool) -> Option<PauseReport> {
    let (index, pauses) = (usize::from(p), &status.pauses);
    let report = PauseReport {
        priority: (!whole_link).then_some(p),
        sent: pauses.tx_xoff[index],
        resumes_sent: pauses.tx_xon[index],
        received: pauses.rx_xoff[index],
        resumes_received: pauses.rx_xon[index],
        paused_ns: pauses.paused[index].as_ns(),
    };
    let frames = report.sent + report.resumes_sent + report.received + report.resumes_received;
    (frames > 0).then_some(report)
}
