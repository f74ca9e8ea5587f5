//! `headroom: auto` if the peer is a process: as much headroom for its delay as the pool has room for.
//!
//! A process responds in milliseconds, which at high rates are more bytes than a buffer has. The headroom for hardware
//! is always granted, and a shortage of the rest is reported: the limit is half of the pool, or the part that the
//! thresholds leave.

use crate::tm::{Limit, PoolId};
use crate::units::Bytes;

use super::super::PoolDirection;
use super::{GroupPlan, PortPlan, Resolver};

impl Resolver<'_> {
    /// Lowers the headroom of `auto` groups to the room in their pools.
    pub(super) fn fit_headroom(&mut self, plans: &mut [PortPlan]) {
        for number in 0..self.pools.len() {
            let (name, pool) = self.pools[number];
            let id = PoolId(u8::try_from(number).unwrap_or(u8::MAX));
            if pool.direction != PoolDirection::Ingress {
                continue;
            }
            let groups = plans.iter().flat_map(|plan| plan.groups.iter().map(move |g| (plan, g)));
            let (mut held, mut threshold, mut extra) = (0u64, 0u64, 0u64);
            for (plan, group) in groups.filter(|(_, group)| group.config.account.pool == id) {
                let account = group.config.account;
                held = held.saturating_add(account.reserved_bytes);
                let Some(lossless) = group.config.lossless else { continue };
                if let Limit::Static(bytes) = account.limit {
                    threshold = threshold.max(bytes.saturating_add(plan.mtu.get()));
                }
                let more = more_of_a_process(plan, group);
                held = held.saturating_add(lossless.headroom_bytes - more);
                extra = extra.saturating_add(more);
            }
            let half = pool.size.get() / 2;
            let most = pool.shared_headroom.map_or(half, Bytes::get);
            let most = most.min(pool.size.get().saturating_sub(threshold));
            let room = most.saturating_sub(held);
            if extra > room {
                self.lower(plans, id, name, (room, extra));
            }
        }
    }

    /// Gives the groups of a pool this share of the headroom that a process needs beyond that of hardware.
    fn lower(&mut self, plans: &mut [PortPlan], pool: PoolId, name: &str, share: (u64, u64)) {
        for plan in plans {
            let (rate, process) = (plan.tm.rate, plan.process);
            for number in 0..plan.groups.len() {
                let more = more_of_a_process(plan, &plan.groups[number]);
                let group = &mut plan.groups[number];
                let Some(lossless) = group.config.lossless.as_mut() else { continue };
                if group.config.account.pool != pool || more == 0 {
                    continue;
                }
                let part = u128::from(more) * u128::from(share.0) / u128::from(share.1.max(1));
                let needed = lossless.headroom_bytes;
                lossless.headroom_bytes = needed - more + u64::try_from(part).unwrap_or(more);
                let given = Bytes::new(lossless.headroom_bytes);
                plan.tm.groups[number] = group.config;
                let (Some(rate), Some(process)) = (rate, process) else { continue };
                let message = format!(
                    "headroom {given} of the {} that a peer which is a process needs, if it answers {process} late at \
                     {rate}: packets that come later after XOFF are lost; make pool {name} larger or the rate lower, or \
                     write peer: hardware where it is a card or a switch",
                    Bytes::new(needed)
                );
                self.warn(&format!("port {}, priority group {number}", plan.number), message);
            }
        }
    }
}

/// The additional headroom of an `auto` group because its peer is a process.
fn more_of_a_process(plan: &PortPlan, group: &GroupPlan) -> u64 {
    let headroom = group.config.lossless.map_or(0, |lossless| lossless.headroom_bytes);
    let counts = group.is_auto && plan.process.is_some();
    if counts { headroom.saturating_sub(group.least) } else { 0 }
}
