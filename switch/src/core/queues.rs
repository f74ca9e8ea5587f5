//! Queues, groups, pools and pauses as serializable reports with names.

use serde::Serialize;
use wireyard_tables::time::Time;

use super::manager::{Manager, port_id};
use super::merge::Merge;
use super::ports::Ports;
use crate::device::notify::Notifier;
use crate::ports::PortNumber;
use crate::tm::{
    CLASSES, DropReason, FlowControl, GroupStatus, PoolId, PoolUse, PortStatus, QueueStatus,
};

/// All counts of the traffic manager.
#[derive(Clone, Debug, Serialize)]
pub struct QueueingReport {
    /// Buffer pools, in the order of their names.
    pub pools: Vec<PoolReport>,
    /// Ports, in the order in which they were added.
    pub ports: Vec<PortQueues>,
}

/// A buffer pool.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "each is its name in the report")]
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
    pub port: PortNumber,
    /// Bits per second; `None` for a port without a rate, which sends at once.
    pub rate_bps: Option<u64>,
    /// Queues that packets were offered to, that are paused, or that had a storm.
    pub queues: Vec<QueueReport>,
    /// Priority groups that packets were in.
    pub groups: Vec<GroupReport>,
    /// Priorities with pauses; one without a number for 802.3 PAUSE.
    pub pauses: Vec<PauseReport>,
    /// Received pauses for a priority, or of a kind, that this port does not honour.
    pub pauses_ignored: u64,
    /// MAC control frames sent.
    pub control_sent: u64,
    /// Drops by reason, where not zero.
    pub drops: Vec<(&'static str, u64)>,
}

/// Omits a figure that only some configurations have.
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Defines a report, with each figure and its source in one line; of two workers it is summed figure by figure.
macro_rules! report {
    (
        $(#[$meta:meta])* $report:ident: $number:ident of $status:ident: $source:ty {
            $($(#[$doc:meta])* $field:ident: $type:ty = $read:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Serialize)]
        #[expect(missing_docs, reason = "each is its name in the report")]
        pub struct $report {
            pub $number: u8,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $report {
            fn of($number: u8, $status: &$source) -> $report {
                $report { $number, $($field: $read,)* }
            }
        }

        impl Merge for $report {
            fn merge(&mut self, other: &$report) {
                $(self.$field.merge(&other.$field);)*
            }
        }
    };
}

report! {
    /// A queue; counts are packets unless named otherwise.
    QueueReport: queue of of: QueueStatus {
        waiting: u32 = of.packets,
        waiting_bytes: u64 = of.bytes,
        peak_bytes: u64 = of.peak_bytes,
        admitted: u64 = of.counters.admitted.packets,
        sent: u64 = of.counters.departed.packets,
        sent_bytes: u64 = of.counters.departed.bytes,
        /// Sent at once, without waiting in the queue.
        passed: u64 = of.counters.passed.packets,
        passed_bytes: u64 = of.counters.passed.bytes,
        /// Dropped after they were queued.
        dropped: u64 = of.counters.dropped.packets,
        /// Not admitted.
        refused: u64 = of.counters.refused.packets,
        /// ECN-capable packets that the congestion point examined.
        eligible: u64 = of.wred.unwrap_or_default().eligible,
        /// Of `eligible`, sent with a mark that the program has written.
        marked: u64 = of.wred.unwrap_or_default().written,
        /// Of `eligible`, chosen by the WRED curve to be marked.
        mark_decisions: u64 = of.wred.unwrap_or_default().marked,
        wred_dropped: u64 = of.wred.unwrap_or_default().dropped,
        /// Cut to their headers and offered to the queue for trimmed packets; not part of `refused`.
        #[serde(skip_serializing_if = "is_zero")]
        trimmed: u64 = of.counters.trimmed.packets,
        /// Of `trimmed`, those for which that queue had no room; it counts them as refused.
        #[serde(skip_serializing_if = "is_zero")]
        trim_dropped: u64 = of.counters.trim_dropped.packets,
        paused: bool = of.paused,
        /// Storms that the watchdog detected.
        storms: u64 = of.watchdog.detected,
    }
}

report! {
    /// A priority group.
    GroupReport: group of of: GroupStatus {
        bytes: u64 = of.account.total(),
        peak_bytes: u64 = of.account.peak,
        peak_headroom_bytes: u64 = of.account.peak_headroom,
        xoff_at_bytes: u64 = of.xoff_at_bytes,
        /// XOFF is in effect towards the peer.
        stopped: bool = of.xoff,
        admitted: u64 = of.counters.admitted.packets,
        refused: u64 = of.counters.refused.packets,
        xoff: u64 = of.counters.xoff,
        xon: u64 = of.counters.xon,
        /// Packets that arrived later after XOFF than a peer that honours it would send them.
        not_honoured: u64 = of.counters.not_honoured,
    }
}

/// Pauses of one priority.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "each is its name in the report")]
pub struct PauseReport {
    /// `None` for the whole link, by 802.3 PAUSE.
    pub priority: Option<u8>,
    /// Frames with a non-zero time, refreshes included.
    pub sent: u64,
    /// Frames with time zero.
    pub resumes_sent: u64,
    pub received: u64,
    pub resumes_received: u64,
    /// Time spent paused so far.
    pub paused_ns: u64,
}

/// Outcomes of reported congestion.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "each is its name in the report")]
pub struct NotificationReport {
    /// Marked packets that programs reported.
    pub reported: u64,
    pub cnp_sent: u64,
    /// Not sent: in an interval in which one was sent already, apart from the one sent at its end.
    pub cnp_suppressed: u64,
    /// The sender's queue pair is unknown.
    pub cnp_no_qp_pair: u64,
    /// CNPs, acknowledgements and multicast, for which no CNP is sent.
    pub ignored: u64,
    /// Intervals ended early because too many flows were marked.
    pub evicted: u64,
    /// Packets that are not RoCE or InfiniBand transport.
    pub not_transport: u64,
    pub unbuildable: u64,
}

impl QueueingReport {
    /// Queues, groups, pools and pauses; `None` without `qos:`.
    pub(super) fn of(ports: &Ports, manager: &mut Manager, now: Time) -> Option<QueueingReport> {
        if !manager.configured {
            return None;
        }
        let view = manager.tm.view(now);
        let pools: Vec<PoolUse> = (0..=u8::MAX).map_while(|id| view.pool(PoolId(id))).collect();
        let there = ports.iter().enumerate().filter(|(_, slot)| slot.present);
        let of_ports: Vec<(usize, PortNumber, PortStatus)> = there
            .filter_map(|(slot, port)| Some((slot, port.number, view.port(port_id(slot))?)))
            .collect();
        let pools = manager.pool_names().zip(pools).map(|(name, used)| PoolReport {
            name: name.to_owned(),
            reserved_bytes: used.reserved,
            shared_bytes: used.shared,
            headroom_bytes: used.headroom,
            peak_bytes: used.peak,
        });
        let ports = of_ports.iter().map(|(slot, number, status)| {
            let whole_link = manager.flow_control(*slot) == FlowControl::Pause;
            port_queues(*number, manager.rate_bps(*slot), status, whole_link)
        });
        Some(QueueingReport { pools: pools.collect(), ports: ports.collect() })
    }
}

impl NotificationReport {
    /// Outcomes of reported congestion; `None` when none was reported.
    pub(super) fn of(notifier: Option<&Notifier>) -> Option<NotificationReport> {
        let counters = notifier?.counters();
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
}

fn port_queues(
    number: PortNumber,
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

/// A queue that packets were in, or that was kept from sending.
fn queue_report(q: u8, status: &PortStatus) -> Option<QueueReport> {
    let queue = &status.queues[usize::from(q)];
    let counters = &queue.counters;
    let turned_away = counters.refused.packets + counters.trimmed.packets;
    let seen = counters.admitted.packets + counters.passed.packets + turned_away;
    let is_shown = seen > 0 || queue.paused || queue.watchdog.detected > 0;
    is_shown.then(|| QueueReport::of(q, queue))
}

/// A group that packets were in.
fn group_report(g: u8, status: &PortStatus) -> Option<GroupReport> {
    let group = &status.groups[usize::from(g)];
    let counters = &group.counters;
    (counters.admitted.packets + counters.refused.packets > 0).then(|| GroupReport::of(g, group))
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
