//! The checks, each with its numbers.
//!
//! Refused: reserved and headroom beyond the pool; a threshold over its pool; XON not below XOFF; headroom below the
//! formula; a lossless class whose queue drops before PFC can act; PFC for a priority whose group is not lossless.
//! Warned: configurations that can lose packets only under conditions outside this switch.

use crate::tm::{CLASSES, FlowControl, Limit, LosslessConfig, PoolConfig, Xon};
use crate::units::Bytes;

use super::report::{GroupReport, PoolReport};
use super::resolve::{GroupPlan, PortPlan, Resolver};
use super::{PoolDirection, total};

mod flow;
mod queues;

/// Bytes of a lossless group at which its peer is stopped and resumed.
#[derive(Clone, Copy)]
struct PauseLevels {
    /// XON, when only this group uses the shared part of the pool.
    xon_at: u64,
    /// XOFF, when only this group uses it.
    xoff_at: u64,
    /// XOFF, when all lossless groups of the pool are full.
    xoff_full: u64,
}

fn b(bytes: u64) -> Bytes {
    Bytes::new(bytes)
}

/// Bytes that each of `n` equal accounts holds at its threshold: x = alpha (S - n x), so x = S alpha / (1 + n alpha).
fn with_others((numerator, denominator): (u32, u32), shared: u64, n: u64) -> u64 {
    let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
    let x = u128::from(shared) * numerator / (denominator + u128::from(n) * numerator);
    u64::try_from(x).unwrap_or(u64::MAX)
}

impl Resolver<'_> {
    /// Divides each pool into reserved, headroom and shared.
    pub(super) fn size_pools(&mut self, plans: &[PortPlan]) {
        let pools = self.pools.clone();
        for (number, (name, pool)) in pools.into_iter().enumerate() {
            let place = format!("pool {name}");
            let mine = |account: &crate::tm::AccountConfig| usize::from(account.pool.0) == number;
            let ingress = pool.direction == PoolDirection::Ingress;
            let groups = plans.iter().flat_map(|plan| &plan.groups).filter(|_| ingress);
            let groups: Vec<&GroupPlan> =
                groups.filter(|plan| mine(&plan.config.account)).collect();
            let queues = plans.iter().flat_map(|plan| &plan.tm.queues).filter(|_| !ingress);
            let reserved = match ingress {
                true => total(groups.iter().map(|plan| plan.config.account.reserved_bytes)),
                false => total(
                    queues
                        .filter(|queue| mine(&queue.account))
                        .map(|queue| queue.account.reserved_bytes),
                ),
            };
            let each = groups.iter().filter_map(|plan| plan.config.lossless);
            let sum = total(each.map(|lossless| lossless.headroom_bytes));
            let headroom = pool.shared_headroom.map_or(sum, Bytes::get);
            if headroom < sum {
                let message = format!(
                    "shared headroom {} is below the sum of the groups' {}: lossless only while not all \
                     of them are paused at once",
                    b(headroom),
                    b(sum)
                );
                self.warn(&place, message);
            }
            let size = pool.size.get();
            let used = reserved.saturating_add(headroom);
            if used >= size && size > 0 && used > 0 {
                let message = format!(
                    "reserved {} + headroom {} = {} leave nothing of {}; make the pool larger, or \
                     cables, MTU or the number of lossless groups smaller",
                    b(reserved),
                    b(headroom),
                    b(used),
                    b(size)
                );
                self.refuse(&place, message);
            }
            if !ingress && pool.shared_headroom.is_some() {
                let message = "shared_headroom belongs to lossless priority groups, and this pool is for queues: leave \
                               it out";
                self.refuse(&format!("{place}, shared_headroom"), message.to_owned());
            }
            if size == 0 || size >= 1 << 44 {
                self.refuse(&place, format!("size {} is not between 1 B and 16 TiB", b(size)));
            }
            let shared = size.saturating_sub(used);
            self.pool_configs.push(PoolConfig { shared_bytes: shared, headroom_bytes: headroom });
            self.report.pools.push(PoolReport {
                name: name.to_owned(),
                direction: if ingress { "ingress" } else { "egress" },
                size_bytes: size,
                reserved_bytes: reserved,
                headroom_bytes: headroom,
                shared_bytes: shared,
            });
        }
    }

    /// Runs every check and fills the report.
    pub(super) fn check(&mut self, plans: &[PortPlan]) {
        for plan in plans {
            for (number, group) in plan.groups.iter().enumerate() {
                let place = format!("port {}, priority group {number}", plan.number);
                let profile = format!("{place}, profile \"{}\"", group.profile);
                let account = group.config.account;
                self.check_limit(&profile, account.limit, account.pool.0);
                if let Some(lossless) = group.config.lossless {
                    self.check_lossless(&place, plan, number, &lossless, plans);
                }
            }
            for (number, queue) in plan.tm.queues.iter().enumerate() {
                let place = format!("port {}, queue {number}", plan.number);
                let profile = format!("{place}, profile \"{}\"", plan.buffer_names[number]);
                self.check_limit(&profile, queue.account.limit, queue.account.pool.0);
                self.check_trim(&place, plan, number);
                self.check_curves(plan, number);
            }
            self.check_rates(plan);
            self.check_flow_control(plan);
        }
        self.check_overcommitment(plans);
    }

    fn pool_of(&self, pool: u8) -> (String, PoolConfig) {
        let number = usize::from(pool);
        let name = self.pools.get(number).map_or("", |(name, _)| name).to_owned();
        (name, self.pool_configs.get(number).copied().unwrap_or_default())
    }

    fn check_limit(&mut self, place: &str, limit: Limit, pool: u8) {
        let (name, _) = self.pool_of(pool);
        let size = self.pools.get(usize::from(pool)).map_or(0, |(_, pool)| pool.size.get());
        if let Limit::Static(bytes) = limit
            && bytes > size
        {
            let message = format!("threshold {} is over the {} of pool {name}", b(bytes), b(size));
            self.refuse(&format!("{place}, static_th"), message);
        }
    }

    fn check_lossless(
        &mut self,
        place: &str,
        plan: &PortPlan,
        number: usize,
        lossless: &LosslessConfig,
        plans: &[PortPlan],
    ) {
        let group = &plan.groups[number];
        let account = group.config.account;
        let (_, pool) = self.pool_of(account.pool.0);
        let xoff_at = account.alone(pool.shared_bytes);
        let peers = plans.iter().flat_map(|plan| &plan.groups);
        let peers =
            peers.filter(|p| p.config.lossless.is_some() && p.config.account.pool == account.pool);
        let full = match account.limit {
            Limit::Static(bytes) => bytes,
            Limit::Dynamic(alpha) => {
                with_others(alpha.terms(), pool.shared_bytes, peers.count() as u64)
            }
        };
        let xoff_full = account.reserved_bytes.saturating_add(full);
        let xon_at = lossless.xon.at(xoff_at);
        let levels = PauseLevels { xon_at, xoff_at, xoff_full };
        let profile = format!("{place}, profile \"{}\"", group.profile);
        self.check_xon(&profile, lossless.xon, levels);
        self.check_most_headroom(&profile, lossless.headroom_bytes, account.pool.0);
        self.check_slots(place, plan, xoff_at.saturating_add(lossless.headroom_bytes));
        let needed = group.needed.as_ref().map(|needed| needed.bytes);
        self.check_headroom(place, lossless.headroom_bytes, group.least);
        if !group.is_auto && (group.least..needed.unwrap_or(0)).contains(&lossless.headroom_bytes) {
            let message = format!(
                "headroom {} is enough for hardware; a peer that is a process needs {}: write headroom: auto, or peer: \
                 hardware where it is a card or a switch",
                b(lossless.headroom_bytes),
                b(needed.unwrap_or(0))
            );
            self.warn(place, message);
        }
        let flow = &plan.tm.flow_control;
        let priorities: Vec<u8> = (0..CLASSES as u8)
            .filter(|p| flow.enabled & 1 << p != 0)
            .filter(|p| usize::from(flow.priority_to_group[usize::from(*p)]) == number)
            .collect();
        if flow.mode == FlowControl::Off || (flow.mode == FlowControl::Pfc && priorities.is_empty())
        {
            let message =
                "is lossless, but no enabled PFC priority pauses it: nothing stops the peer";
            self.warn(place, message.to_owned());
        }
        self.check_egress_of(place, plan, number, plans);
        self.report.groups.push(GroupReport {
            port: plan.number.to_string(),
            group: number as u8,
            profile: group.profile.clone(),
            priorities,
            reserved_bytes: account.reserved_bytes,
            xoff_at_bytes: xoff_at,
            xoff_at_full_bytes: xoff_full,
            xon_at_bytes: xon_at,
            headroom_bytes: lossless.headroom_bytes,
            headroom_needed_bytes: needed,
            headroom_parts: group.needed.as_ref().map_or(Vec::new(), |needed| needed.parts.clone()),
        });
    }

    fn check_xon(&mut self, place: &str, xon: Xon, levels: PauseLevels) {
        let PauseLevels { xon_at, xoff_at, xoff_full } = levels;
        let key = match xon {
            Xon::AtBytes(_) => "xon_at",
            Xon::BelowXoff(_) => "xon_below_xoff",
        };
        let place = &format!("{place}, {key}");
        if xon_at >= xoff_at {
            let message = format!(
                "XON at {} is not below XOFF at {}; the peer would be resumed where it is paused",
                b(xon_at),
                b(xoff_at)
            );
            self.refuse(place, message);
        } else if xon_at >= xoff_full && matches!(xon, Xon::AtBytes(_)) {
            let message = format!(
                "XON at {} is above XOFF at {} when all lossless groups are full: no hysteresis then; \
                 use xon_below_xoff with a dynamic threshold",
                b(xon_at),
                b(xoff_full)
            );
            self.warn(place, message);
        }
    }

    /// Groups that share their headroom can each use at most all of it, and no pool has more than its size.
    fn check_most_headroom(&mut self, place: &str, headroom: u64, pool: u8) {
        let Some(&(name, pool)) = self.pools.get(usize::from(pool)) else { return };
        if headroom > pool.size.get() && pool.shared_headroom.is_some() {
            let message =
                format!("headroom {} is more than the {} of pool {name}", b(headroom), pool.size);
            self.refuse(&format!("{place}, headroom"), message);
        }
    }

    fn check_headroom(&mut self, place: &str, headroom: u64, needed: u64) {
        if headroom < needed {
            let message = format!(
                "headroom {} is below the {} that rate, cable, MTU and peer response need ({} short); \
                 write headroom: auto, or allow_lossy_headroom: true to accept losses",
                b(headroom),
                b(needed),
                b(needed - headroom)
            );
            self.lossy(place, message);
        }
    }

    /// A group's bytes up to the end of its headroom must be possible packets: without a slot one is refused before
    /// PFC acts. Live devices stop their peers before slots run out (`tm::Config::stop_at_slots`).
    fn check_slots(&mut self, place: &str, plan: &PortPlan, bytes: u64) {
        let slots = self.config.packet_slots.map_or(u64::MAX, u64::from);
        let frames = bytes / plan.mtu.get().max(1);
        if frames > slots && self.config.live.is_none() {
            let message = format!(
                "XOFF and headroom are {}, which is {frames} frames of {} and more of shorter ones, but packet_slots \
                 has room for {slots}: packets are refused before the peer is paused; write more packet_slots",
                b(bytes),
                plan.mtu
            );
            self.lossy(place, message);
        }
    }

    /// The queues that carry a lossless group must have room for all that the group's pool can admit, or they drop
    /// silently before PFC acts (as in the HPCC simulator).
    fn check_egress_of(&mut self, place: &str, plan: &PortPlan, group: usize, plans: &[PortPlan]) {
        let ingress = self.pools.get(usize::from(plan.groups[group].config.account.pool.0));
        let Some(ingress) = ingress.map(|(_, pool)| pool.size.get()) else { return };
        for tc in 0..CLASSES {
            if usize::from(plan.classifier.tc_to_group[tc]) != group {
                continue;
            }
            let queue = usize::from(plan.classifier.tc_to_queue[tc]);
            for egress in plans {
                let account = egress.tm.queues[queue].account;
                let (pool, config) = self.pool_of(account.pool.0);
                let holds = account.alone(config.shared_bytes);
                if holds < ingress {
                    let message = format!(
                        "its packets wait in queue {queue} of port {}, which drops beyond {} (pool {pool}), \
                         less than the {} its ingress pool admits; give that queue a static threshold and \
                         pool of at least that size",
                        egress.number,
                        b(holds),
                        b(ingress)
                    );
                    return self.lossy(place, message);
                }
            }
        }
    }

    /// Thresholds that together exceed the pool: the frame that crosses XOFF may find it full.
    fn check_overcommitment(&mut self, plans: &[PortPlan]) {
        for number in 0..self.pools.len() {
            let (name, pool) = self.pool_of(number as u8);
            let mut sum = 0u64;
            let mut lossy_alpha = false;
            for plan in plans {
                for group in &plan.groups {
                    if usize::from(group.config.account.pool.0) != number {
                        continue;
                    }
                    match (group.config.account.limit, group.config.lossless) {
                        (Limit::Static(bytes), Some(_)) => {
                            sum = sum.saturating_add(bytes).saturating_add(plan.mtu.get());
                        }
                        (_, None) => lossy_alpha = true,
                        _ => {}
                    }
                }
            }
            let place = format!("pool {name}");
            if sum > pool.shared_bytes {
                let message = format!(
                    "static XOFF thresholds with one frame each add up to {}, more than the shared {}: \
                     when all fill at once, the frame that crosses XOFF is taken from headroom",
                    b(sum),
                    b(pool.shared_bytes)
                );
                self.warn(&place, message);
            }
            let has_lossless = plans.iter().flat_map(|plan| &plan.groups).any(|group| {
                usize::from(group.config.account.pool.0) == number
                    && group.config.lossless.is_some()
            });
            if has_lossless
                && lossy_alpha
                && self.pools[number].1.direction == PoolDirection::Ingress
            {
                let message = "lossless and lossy groups share it: lossy traffic can make lossless groups \
                               pause early; give lossy groups a pool of their own";
                self.warn(&place, message.to_owned());
            }
        }
    }
}
