//! Settings of queues, priority groups and ports that are read and changed at run time, and cheap reads of current
//! state. Counters and other status are in [`view`](super::view).

use wireyard_tables::time::Time;

use super::Tm;
use super::buffer::{AccountConfig, Limit, LosslessConfig, PoolConfig, Xon};
use super::id::PortId;
use super::pfc::FlowControlConfig;
use super::queue::SlotLevels;
use super::wred::{MarkingHistogram, Wred, WredConfig};
use crate::units::BitsPerSec;

impl<P: Default> Tm<P> {
    /// Bytes waiting in a queue; 0 if there is no such queue. Cheap: for metadata of programs.
    pub fn queue_bytes(&self, port: PortId, queue: u8) -> u64 {
        let port = self.ports.get(port.index());
        port.and_then(|port| port.queues.get(usize::from(queue)))
            .map_or(0, |queue| queue.fifo.bytes)
    }

    /// Number of packets inside (queued, held or delayed), and of free slots.
    pub fn slots(&self) -> (u32, u32) {
        (self.slots.used(), self.config.packet_slots.saturating_sub(self.slots.used()))
    }

    /// True from where the slots kept for packets after XOFF come into use; `had`, until somewhat fewer are in use.
    pub fn has_few_slots(&self, had: bool) -> bool {
        let SlotLevels { stop, resume } = SlotLevels::of(&self.config);
        self.slots.used() >= if had { resume } else { stop }
    }

    /// Stops groups as if slots were few here: packets that are charged here may wait at another worker, where they
    /// are.
    pub fn set_few_elsewhere(&mut self, few: bool) {
        self.flush(self.now);
        self.deferred.invalidate();
        self.levels = if few { SlotLevels::ALWAYS } else { SlotLevels::of(&self.config) };
    }

    /// All packets inside: queued, held or delayed, in the order of their slots. For reports.
    pub fn packets(&self) -> impl Iterator<Item = &P> {
        self.slots.packets()
    }

    /// True while a packet is held by count.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.holds.is_counting()
    }

    /// True while packets for this port depart at once, without queueing.
    pub fn passes(&self, port: PortId) -> bool {
        self.ports.get(port.index()).is_some_and(|port| port.passes)
    }

    /// Priority groups of a port that are lossless, bit n for group n.
    pub fn lossless_groups(&self, port: PortId) -> u8 {
        let groups = self.ports.get(port.index()).map(|port| &port.groups);
        let lossless = groups.into_iter().flatten().map(|group| group.lossless.is_some());
        lossless.enumerate().fold(0, |mask, (g, is)| mask | u8::from(is) << g)
    }

    /// Counts marks by depth in the buckets of `histogram` from now on; `None` stops it.
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

    /// Changes the congestion point of a queue that has one; its counters and its random stream continue.
    pub fn set_wred(&mut self, port: PortId, queue: u8, config: WredConfig) {
        if let Some(wred) = self.wred_mut(port, queue) {
            wred.config = config;
        }
    }

    /// The rate of a port's link; `None` for a port without a rate, which sends at once.
    pub fn rate(&self, port: PortId) -> Option<BitsPerSec> {
        self.ports.get(port.index())?.config.rate
    }

    /// The lowest of a port's rate, its shaper's and that of one of its queues; `None` without any of them.
    pub fn max_rate(&self, port: PortId, queue: u8) -> Option<BitsPerSec> {
        let config = &self.ports.get(port.index())?.config;
        let of_queue = config.queues.get(usize::from(queue))?.service.max;
        let shaped = [config.max, of_queue].into_iter().flatten().map(|shaper| shaper.rate);
        config.rate.into_iter().chain(shaped).min()
    }

    /// Changes the rate of a port that has one, from its next frame on. False if it has none. A pause quantum keeps its
    /// length, which both ends of the link must agree on.
    pub fn set_rate(&mut self, now: Time, port: PortId, rate: BitsPerSec) -> bool {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return false };
        let has_one = entry.config.rate.is_some();
        if has_one {
            entry.link.round_up();
            entry.config.flow_control.quantum_rate = entry.quantum_rate();
            entry.config.rate = Some(rate);
        }
        has_one
    }

    /// The threshold of a priority group.
    pub fn group_limit(&self, port: PortId, group: u8) -> Option<Limit> {
        let group = self.ports.get(port.index())?.groups.get(usize::from(group))?;
        Some(group.account.config.limit)
    }

    /// Changes the threshold of a priority group. A group over its new threshold sends XOFF with the next packet; one
    /// that is under it again resumes at once, unless slots are few.
    pub fn set_group_limit(&mut self, now: Time, port: PortId, group: u8, limit: Limit) {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return };
        let Some(changed) = entry.groups.get_mut(usize::from(group)) else { return };
        changed.account.config.limit = limit;
        self.resume(now, port, group);
    }

    /// Headroom and XON of a lossless priority group; `None` if it is lossy.
    pub fn group_lossless(&self, port: PortId, group: u8) -> Option<LosslessConfig> {
        self.ports.get(port.index())?.groups.get(usize::from(group))?.lossless
    }

    /// The share of a priority group in its pool, and the sizes of the pool.
    pub fn group_share(&self, port: PortId, group: u8) -> Option<(AccountConfig, PoolConfig)> {
        let group = self.ports.get(port.index())?.groups.get(usize::from(group))?;
        let account = group.account.config;
        Some((account, self.pools.get(usize::from(account.pool.0))?.config))
    }

    /// Changes the XON of a lossless priority group; a group at or below it resumes at once, unless slots are few.
    pub fn set_group_xon(&mut self, now: Time, port: PortId, group: u8, xon: Xon) {
        self.flush(now);
        self.deferred.invalidate();
        let Some(entry) = self.ports.get_mut(port.index()) else { return };
        let changed = entry.groups.get_mut(usize::from(group));
        let Some(lossless) = changed.and_then(|group| group.lossless.as_mut()) else { return };
        lossless.xon = xon;
        self.resume(now, port, group);
    }

    /// The flow control of a port.
    pub fn flow_control(&self, port: PortId) -> Option<FlowControlConfig> {
        Some(self.ports.get(port.index())?.config.flow_control)
    }

    /// Counts a departure with the mark that was decided for it.
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
