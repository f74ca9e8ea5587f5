//! The state of a traffic manager at an instant: depths, watermarks, counters, waits between ports.
//!
//! Frames that meet an empty traffic manager are accounted later, and the end of a frame that no packet waits for
//! causes no event. So counters are read through [`Tm::view`] only, which handles both; readers need not.

use wireyard_tables::time::{Span, Time};

use super::Tm;
use super::buffer::{AccountUse, PoolUse};
use super::id::{CLASSES, Count, DropReason, PoolId, PortId};
use super::pfc::{FlowControl, PauseCounters, WaitEdge};
use super::port::{GroupCounters, QueueCounters};
use super::queue::Arrival;
use super::scheduler::{bits, mask};
use super::watchdog::WatchdogCounters;
use super::wred::WredCounters;

/// One queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Packets waiting.
    pub packets: u32,
    /// Bytes waiting.
    pub bytes: u64,
    /// Highest bytes waiting since the last clear.
    pub peak_bytes: u64,
    /// Its egress view of the buffer; includes the frame on the wire.
    pub account: AccountUse,
    /// Counters.
    pub counters: QueueCounters,
    /// Congestion point, if any.
    pub wred: Option<WredCounters>,
    /// Stopped by a received pause.
    pub paused: bool,
    /// Watchdog; zero without one.
    pub watchdog: WatchdogCounters,
}

/// One priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its ingress view of the buffer.
    pub account: AccountUse,
    /// Occupancy at which XOFF is sent, at the current level of the pool.
    pub xoff_at_bytes: u64,
    /// XOFF is in effect towards the peer.
    pub xoff: bool,
    /// Counters.
    pub counters: GroupCounters,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Queues.
    pub queues: [QueueStatus; CLASSES],
    /// Priority groups.
    pub groups: [GroupStatus; CLASSES],
    /// Pauses.
    pub pauses: PauseCounters,
    /// Watchdog, if any.
    pub watchdog: Option<[WatchdogCounters; CLASSES]>,
    /// MAC control frames of the port's own.
    pub control: QueueCounters,
    /// Drops by reason, in the order of [`DropReason::ALL`].
    pub drops: [Count; DropReason::ALL.len()],
}

/// A traffic manager at an instant.
#[derive(Clone, Copy)]
pub struct View<'a, P> {
    pub(super) tm: &'a Tm<P>,
    now: Time,
}

impl<P: Default> Tm<P> {
    /// The state at `now`: timers due by then have run, and all departures are accounted.
    pub fn view(&mut self, now: Time) -> View<'_, P> {
        self.advance(now);
        self.flush(now);
        View { tm: self, now }
    }
}

impl<P: Default> View<'_, P> {
    /// Packets dropped so far, of all ports.
    pub fn dropped_packets(&self) -> u64 {
        self.tm.ports.iter().flat_map(|port| &port.drops).map(|count| count.packets).sum()
    }

    /// Bytes waiting in a queue; 0 if there is no such queue.
    pub fn queue_bytes(&self, port: PortId, queue: u8) -> u64 {
        self.tm.queue_bytes(port, queue)
    }

    /// Occupancy of a pool.
    pub fn pool(&self, pool: PoolId) -> Option<PoolUse> {
        self.tm.pools.get(usize::from(pool.0)).map(|pool| pool.used)
    }

    /// The full status of a port.
    pub fn port(&self, id: PortId) -> Option<PortStatus> {
        let port = self.tm.ports.get(id.index())?;
        let queues = std::array::from_fn(|q| {
            let queue = &port.queues[q];
            QueueStatus {
                packets: queue.fifo.packets,
                bytes: queue.fifo.bytes,
                peak_bytes: queue.peak_bytes,
                account: queue.account.used,
                counters: queue.counters,
                wred: queue.wred.as_ref().map(|wred| wred.counters),
                paused: port.paused & 1 << q != 0,
                watchdog: port.watchdog.as_ref().map(|w| w.counters[q]).unwrap_or_default(),
            }
        });
        let groups = std::array::from_fn(|g| {
            let group = &port.groups[g];
            let pool = self.tm.pools.get(usize::from(group.account.config.pool.0));
            GroupStatus {
                account: group.account.used,
                xoff_at_bytes: pool.map_or(0, |pool| group.account.xoff_at_bytes(pool)),
                xoff: group.xoff,
                counters: group.counters,
            }
        });
        Some(PortStatus {
            queues,
            groups,
            pauses: PauseCounters { paused: self.paused_time(id, self.now)?, ..port.pauses },
            watchdog: port.watchdog.as_ref().map(|watchdog| watchdog.counters),
            control: port.control_counters,
            drops: port.drops,
        })
    }

    /// Packets that a queue's congestion point has marked; 0 without one.
    pub fn marked(&self, port: PortId, queue: u8) -> u64 {
        let port = self.tm.ports.get(port.index());
        let wred = port.and_then(|port| port.queues.get(usize::from(queue))?.wred.as_ref());
        wred.map_or(0, |wred| wred.counters.marked)
    }

    /// Time that each priority of a port has been paused so far; pauses in force count up to `until`.
    pub fn paused_time(&self, port: PortId, until: Time) -> Option<[Span; CLASSES]> {
        let port = self.tm.ports.get(port.index())?;
        Some(std::array::from_fn(|p| {
            let since = port.pause_rx.paused_since(p as u8);
            let since = since.map_or(Span::ZERO, |at| until.since(at));
            port.pauses.paused[p] + since
        }))
    }

    /// The waits between ports at this instant; walks the paused queues, not for the forwarding path.
    pub fn wait_edges(&self) -> Vec<WaitEdge> {
        let mut edges = Vec::new();
        for (e, egress) in self.tm.ports.iter().enumerate() {
            for queue in bits(egress.backlog & egress.paused & !egress.ignore_pause) {
                let mut held = std::collections::BTreeMap::<(PortId, u8), u64>::new();
                for slot in egress.queues[usize::from(queue)].fifo.iter(&self.tm.slots) {
                    let Arrival { ingress, group, bytes, .. } = slot.arrival();
                    *held.entry((ingress, group)).or_default() += u64::from(bytes);
                }
                for ((ingress, group), bytes) in held {
                    let Some(port) = self.tm.ports.get(ingress.index()) else { continue };
                    let flow = &port.config.flow_control;
                    let whole_link = flow.mode == FlowControl::Pause;
                    let priorities = match whole_link {
                        true if port.pause_tx.stopped == 0 => 0,
                        true => u8::MAX,
                        false => {
                            port.pause_tx.stopped & mask(|p| flow.priority_to_group[p] == group)
                        }
                    };
                    if priorities != 0 {
                        let egress = PortId(e as u16);
                        let edge =
                            WaitEdge { ingress, priorities, whole_link, egress, queue, bytes };
                        edges.push(edge);
                    }
                }
            }
        }
        edges
    }
}
