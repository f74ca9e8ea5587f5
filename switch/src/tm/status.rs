//! What programs, control and reports can read: depths, watermarks, counters.

use wireyard_tables::time::{Span, Time};

use super::Tm;
use super::admit::resume_group;
use super::buffer::{AccountConfig, AccountUse, Limit, LosslessConfig, PoolConfig, PoolUse, Xon};
use super::id::{CLASSES, Count, DropReason, PoolId, PortId};
use super::pfc::{FlowControlConfig, PauseCounters};
use super::port::{GroupCounters, QueueCounters};
use super::watchdog::WatchdogCounters;
use super::wred::{MarkingHistogram, Wred, WredConfig, WredCounters};
use crate::units::BitsPerSec;

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
    /// Occupancy at which XOFF is sent, with the pool as it is now.
    pub xoff_at_bytes: u64,
    /// The peer is asked to stop.
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

impl<P: Default> Tm<P> {
    /// Packets that were dropped so far, of all ports.
    pub fn dropped_packets(&self) -> u64 {
        self.ports.iter().flat_map(|port| &port.drops).map(|count| count.packets).sum()
    }

    /// Bytes waiting in a queue; 0 if there is no such queue. Cheap: for metadata of programs.
    pub fn queue_bytes(&self, port: PortId, queue: u8) -> u64 {
        let port = self.ports.get(port.index());
        port.and_then(|port| port.queues.get(usize::from(queue)))
            .map_or(0, |queue| queue.fifo.bytes)
    }

    /// Occupancy of a pool.
    pub fn pool(&self, pool: PoolId) -> Option<PoolUse> {
        self.pools.get(usize::from(pool.0)).map(|pool| pool.used)
    }

    /// Packets held, queued or delayed, and free slots.
    pub fn slots(&self) -> (u32, u32) {
        (self.slots.used(), self.config.packet_slots.saturating_sub(self.slots.used()))
    }

    /// Every packet in it: queued, held or delayed, in the order of their slots. For reports.
    pub fn packets(&self) -> impl Iterator<Item = &P> {
        self.slots.packets()
    }

    /// True while a packet is held until others have passed.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.holds.is_counting()
    }

    /// Number of ports ever added.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// True while packets for this port go out at once, without queueing.
    pub fn passes(&self, port: PortId) -> bool {
        self.ports.get(port.index()).is_some_and(|port| port.passes)
    }

    /// Everything readable about a port.
    pub fn port(&self, id: PortId) -> Option<PortStatus> {
        let port = self.ports.get(id.index())?;
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
            let pool = self.pools.get(usize::from(group.account.config.pool.0));
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
            pauses: port.pauses,
            watchdog: port.watchdog.as_ref().map(|watchdog| watchdog.counters),
            control: port.control_counters,
            drops: port.drops,
        })
    }

    /// Packets that a queue's congestion point has marked; 0 without one.
    pub fn marked(&self, port: PortId, queue: u8) -> u64 {
        let port = self.ports.get(port.index());
        let wred = port.and_then(|port| port.queues.get(usize::from(queue))?.wred.as_ref());
        wred.map_or(0, |wred| wred.counters.marked)
    }

    /// Priority groups of a port that are lossless, bit n for group n.
    pub fn lossless_groups(&self, port: PortId) -> u8 {
        let groups = self.ports.get(port.index()).map(|port| &port.groups);
        let lossless = groups.into_iter().flatten().map(|group| group.lossless.is_some());
        lossless.enumerate().fold(0, |mask, (g, is)| mask | u8::from(is) << g)
    }

    /// Time that each priority of a port has been kept from sending, up to now.
    pub fn paused_time(&self, port: PortId, now: Time) -> Option<[Span; CLASSES]> {
        let port = self.ports.get(port.index())?;
        Some(std::array::from_fn(|p| {
            let since = port.pause_rx.paused_since(p as u8).map_or(Span::ZERO, |at| now.since(at));
            port.pauses.paused[p] + since
        }))
    }

    /// Counts marks by depth from now on, in these buckets; without them, no longer.
    pub fn observe_marking(
        &mut self,
        port: PortId,
        queue: u8,
        histogram: Option<MarkingHistogram>,
    ) {
        if let Some(wred) = self.wred_mut(port, queue) {
            wred.histogram = histogram;
        }
    }

    /// Marks by depth, since [`Tm::observe_marking`].
    pub fn marking(&self, port: PortId, queue: u8) -> Option<&MarkingHistogram> {
        let port = self.ports.get(port.index())?;
        port.queues.get(usize::from(queue))?.wred.as_ref()?.histogram.as_ref()
    }

    /// The congestion point of a queue, as configured.
    pub fn wred(&self, port: PortId, queue: u8) -> Option<WredConfig> {
        let port = self.ports.get(port.index())?;
        port.queues.get(usize::from(queue))?.wred.as_ref().map(|wred| wred.config)
    }

    /// Changes the congestion point of a queue that has one; its counters and its randomness go on.
    pub fn set_wred(&mut self, port: PortId, queue: u8, config: WredConfig) {
        if let Some(wred) = self.wred_mut(port, queue) {
            wred.config = config;
        }
    }

    /// The rate of a port's link; `None` sends at once.
    pub fn rate(&self, port: PortId) -> Option<BitsPerSec> {
        self.ports.get(port.index())?.config.rate
    }

    /// Changes the rate of a port that has one, from its next frame on. False: it has none.
    pub fn set_rate(&mut self, now: Time, port: PortId, rate: BitsPerSec) -> bool {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return false };
        let has_one = entry.config.rate.is_some();
        if has_one {
            entry.config.rate = Some(rate);
        }
        has_one
    }

    /// The threshold of a priority group.
    pub fn group_limit(&self, port: PortId, group: u8) -> Option<Limit> {
        let group = self.ports.get(port.index())?.groups.get(usize::from(group))?;
        Some(group.account.config.limit)
    }

    /// Changes the threshold of a priority group. One that is over its new threshold asks for a pause with the next packet;
    /// one that is under it again resumes at once.
    pub fn set_group_limit(&mut self, now: Time, port: PortId, group: u8, limit: Limit) {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return };
        let Some(group) = entry.groups.get_mut(usize::from(group)) else { return };
        group.account.config.limit = limit;
        let Some(pool) = self.pools.get(usize::from(group.account.config.pool.0)) else { return };
        if resume_group(group, pool, false) {
            self.say_flow_control(now, port);
        }
    }

    /// What makes a priority group lossless, if it is.
    pub fn group_lossless(&self, port: PortId, group: u8) -> Option<LosslessConfig> {
        self.ports.get(port.index())?.groups.get(usize::from(group))?.lossless
    }

    /// The share of a priority group in its pool, and the sizes of that.
    pub fn group_share(&self, port: PortId, group: u8) -> Option<(AccountConfig, PoolConfig)> {
        let group = self.ports.get(port.index())?.groups.get(usize::from(group))?;
        let account = group.account.config;
        Some((account, self.pools.get(usize::from(account.pool.0))?.config))
    }

    /// Changes when a lossless priority group lets its peer go on; one that is low enough does so at once.
    pub fn set_group_xon(&mut self, now: Time, port: PortId, group: u8, xon: Xon) {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return };
        let Some(group) = entry.groups.get_mut(usize::from(group)) else { return };
        let Some(lossless) = &mut group.lossless else { return };
        lossless.xon = xon;
        let Some(pool) = self.pools.get(usize::from(group.account.config.pool.0)) else { return };
        if resume_group(group, pool, false) {
            self.say_flow_control(now, port);
        }
    }

    /// The flow control of a port.
    pub fn flow_control(&self, port: PortId) -> Option<FlowControlConfig> {
        Some(self.ports.get(port.index())?.config.flow_control)
    }

    /// Counts a departure that carries the mark which was decided for it.
    pub fn mark_written(&mut self, port: PortId, queue: u8) {
        if let Some(wred) = self.wred_mut(port, queue) {
            wred.counters.written += 1;
        }
    }

    fn wred_mut(&mut self, port: PortId, queue: u8) -> Option<&mut Wred> {
        let port = self.ports.get_mut(port.index())?;
        port.queues.get_mut(usize::from(queue))?.wred.as_mut()
    }

    /// Sets all watermarks (pools, groups, queues) to the present occupancy: clear-on-read for a caller
    /// that has just read.
    pub fn clear_watermarks(&mut self) {
        self.flush(self.now);
        for pool in &mut self.pools {
            pool.used.peak = pool.used.shared + pool.used.headroom + pool.used.reserved;
        }
        for port in &mut self.ports {
            for queue in &mut port.queues {
                queue.peak_bytes = queue.fifo.bytes;
                queue.account.used.peak = queue.account.used.total();
            }
            for group in &mut port.groups {
                group.account.used.peak = group.account.used.total();
                group.account.used.peak_headroom = group.account.used.headroom;
            }
        }
    }
}
