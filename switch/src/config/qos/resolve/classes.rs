//! The settings of a port about its classes: buffer profiles, congestion points, schedulers.

use crate::tm::{
    AccountConfig, CLASSES, Curve, DecideAt, GroupConfig, Limit, LosslessConfig, NotEct, PoolId,
    QueueConfig, Service, ServiceConfig, Trim, WredConfig, Xon,
};
use crate::units::{Bytes, PoolAlpha};

use super::super::headroom::{Headroom, HeadroomInput};
use super::super::{
    CurveSection, DecideAtWord, DiscardWord, HeadroomSize, NotEctWord, PoolDirection, PortSection,
    ProfileSection, SchedulerType,
};
use super::{GroupPlan, Resolver, shaper};

/// SONiC's default of `SWITCH_TRIMMING` `size`.
const TRIM_SIZE: Bytes = Bytes::new(128);
/// A frame of 64 bytes with FCS: the headers of RoCEv2 over IPv4 fit.
const TRIM_SIZE_MIN: Bytes = Bytes::new(60);
const TRIM_SIZE_MAX: Bytes = Bytes::new(9_216);

/// The profile of queues without another.
const EGRESS_LOSSY: &str = "egress_lossy";
/// Keys of maps, with their plurals.
const GROUPS: (&str, &str) = ("priority group", "priority groups");
const QUEUES: (&str, &str) = ("queue", "queues");

/// The queues of a port, and the names of what they use.
pub(super) struct QueuesPlan {
    pub(super) queues: [QueueConfig; CLASSES],
    pub(super) buffer_names: [String; CLASSES],
    pub(super) wred_names: [Option<String>; CLASSES],
    pub(super) scheduler_names: [Option<String>; CLASSES],
}

impl<'a> Resolver<'a> {
    /// Account and section of a profile; a wrong profile becomes one that admits nothing.
    fn profile(
        &mut self,
        place: &str,
        name: &str,
        direction: PoolDirection,
    ) -> Option<(AccountConfig, &'a ProfileSection)> {
        let config = self.config;
        let place = format!("{place}, profile \"{name}\"");
        let Some(profile) = config.buffer_profiles.get(name) else {
            let known: Vec<&str> = config.buffer_profiles.keys().map(String::as_str).collect();
            self.refuse(
                &place,
                format!("there is no such buffer profile; known: {}", known.join(", ")),
            );
            return None;
        };
        let Some(pool) = self.pools.iter().position(|(pool, _)| *pool == profile.pool) else {
            let known: Vec<&str> = self.pools.iter().map(|(name, _)| *name).collect();
            let (pool, known) = (&profile.pool, known.join(", "));
            let message = format!("there is no pool \"{pool}\"; known: {known}");
            self.refuse(&format!("{place}, pool"), message);
            return None;
        };
        if self.pools[pool].1.direction != direction {
            let wanted =
                if direction == PoolDirection::Ingress { "an ingress" } else { "an egress" };
            let message = format!("pool \"{}\" is not {wanted} pool", profile.pool);
            self.refuse(&format!("{place}, pool"), message);
            return None;
        }
        let alpha = match profile.dynamic_th.map(PoolAlpha::power_of_two) {
            Some(None) => {
                let message = "dynamic_th goes from -10 to 10 (alpha = 2^n)";
                self.refuse(&format!("{place}, dynamic_th"), message.to_owned());
                return None;
            }
            Some(alpha) => alpha,
            None => None,
        };
        let limit = match (profile.pool_alpha, alpha, profile.static_th) {
            (Some(alpha), None, None) | (None, Some(alpha), None) => Limit::Dynamic(alpha),
            (None, None, Some(bytes)) => Limit::Static(bytes.get()),
            _ => {
                let message = "exactly one of pool_alpha, dynamic_th, static_th must be given";
                self.refuse(&place, message.to_owned());
                return None;
            }
        };
        self.idle_keys(&place, profile, direction);
        let pool = PoolId(u8::try_from(pool).unwrap_or(0));
        let reserved_bytes = profile.reserved.get();
        Some((AccountConfig { pool, reserved_bytes, limit }, profile))
    }

    /// Refuses keys that mean nothing in this profile: who wrote them expects an effect.
    fn idle_keys(&mut self, place: &str, profile: &ProfileSection, direction: PoolDirection) {
        let why = match (direction, profile.headroom) {
            (PoolDirection::Egress, _) => {
                "belongs to a lossless priority group, and this profile is for queues"
            }
            (PoolDirection::Ingress, None) => "means nothing without headroom",
            (PoolDirection::Ingress, Some(_)) => return,
        };
        let keys = [
            ("headroom", profile.headroom.is_some()),
            ("xon_at", profile.xon_at.is_some()),
            ("xon_below_xoff", profile.xon_below_xoff.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, is_given)| *is_given) {
            self.refuse(&format!("{place}, {key}"), format!("{key} {why}: leave it out"));
        }
    }

    pub(super) fn groups(
        &mut self,
        place: &str,
        section: &PortSection,
        input: Option<&HeadroomInput>,
    ) -> Vec<GroupPlan> {
        let key = format!("{place}, priority_groups");
        let names: [Option<String>; CLASSES] =
            self.spread_or_refuse(&key, section.priority_groups.as_ref(), GROUPS);
        let mut plans = Vec::with_capacity(CLASSES);
        for (number, name) in names.into_iter().enumerate() {
            let name = name.unwrap_or_else(|| "ingress_lossy".to_owned());
            let place = format!("{place}, priority group {number}");
            let found = self.profile(&place, &name, PoolDirection::Ingress);
            let needed = input.map(HeadroomInput::compute);
            if found.is_some_and(|(_, profile)| profile.discard == DiscardWord::Trim) {
                let message = format!(
                    "profile \"{name}\" has discard: trim, which is for queues (queue_buffers): a priority \
                     group that refuses a packet has no room for a part of it either"
                );
                self.refuse(&place, message);
            }
            let (account, lossless) = match found {
                Some((account, profile)) => {
                    let place = format!("{place}, profile \"{name}\"");
                    (account, self.lossless(&place, profile, needed.as_ref()))
                }
                None => (refused_account(), None),
            };
            let needed = needed.filter(|_| lossless.is_some());
            let is_auto =
                found.is_some_and(|(_, profile)| profile.headroom == Some(HeadroomSize::Auto));
            plans.push(GroupPlan {
                profile: name,
                config: GroupConfig { account, lossless },
                needed,
                least: input.map_or(0, |input| input.of_hardware().compute().bytes),
                is_auto,
            });
        }
        plans
    }

    fn lossless(
        &mut self,
        place: &str,
        profile: &ProfileSection,
        needed: Option<&Headroom>,
    ) -> Option<LosslessConfig> {
        let headroom_bytes = match (profile.headroom?, needed) {
            (HeadroomSize::Bytes(bytes), _) => bytes.get(),
            (HeadroomSize::Auto, Some(needed)) => needed.bytes,
            (HeadroomSize::Auto, None) => {
                let message =
                    "headroom: auto needs a rate; give the port a rate or write the bytes";
                self.refuse(&format!("{place}, headroom"), message.to_owned());
                0
            }
        };
        let xon = match (profile.xon_at, profile.xon_below_xoff) {
            (Some(at), None) => Xon::AtBytes(at.get()),
            (None, Some(below)) => Xon::BelowXoff(below.get()),
            _ => {
                let message = "a lossless profile has exactly one of xon_at and xon_below_xoff";
                self.refuse(place, message.to_owned());
                return None;
            }
        };
        Some(LosslessConfig { headroom_bytes, xon })
    }

    pub(super) fn queues(&mut self, place: &str, section: &PortSection) -> QueuesPlan {
        let config = self.config;
        let key = |what: &str| format!("{place}, {what}");
        let buffers: [Option<String>; CLASSES] =
            self.spread_or_refuse(&key("queue_buffers"), section.queue_buffers.as_ref(), QUEUES);
        let wreds: [Option<String>; CLASSES] =
            self.spread_or_refuse(&key("queue_wred"), section.queue_wred.as_ref(), QUEUES);
        let schedulers: [Option<String>; CLASSES] = self.spread_or_refuse(
            &key("queue_schedulers"),
            section.queue_schedulers.as_ref(),
            QUEUES,
        );
        let queues = std::array::from_fn(|q| {
            let place = format!("{place}, queue {q}");
            let buffer = buffers[q].as_deref().unwrap_or(EGRESS_LOSSY);
            let account = self.profile(&place, buffer, PoolDirection::Egress);
            let wred = wreds[q].as_ref().and_then(|name| match config.wred_profiles.get(name) {
                Some(profile) => {
                    let place = format!("wred profile \"{name}\"");
                    let mut curve = |section: &Option<CurveSection>| {
                        section.and_then(|section| self.curve(&place, &section))
                    };
                    Some(WredConfig {
                        curves: [
                            curve(&profile.green),
                            curve(&profile.yellow),
                            curve(&profile.red),
                        ],
                        decide_at: match profile.decide_at {
                            DecideAtWord::Dequeue => DecideAt::Dequeue,
                            DecideAtWord::Enqueue => DecideAt::Enqueue,
                        },
                        not_ect: match profile.not_ect {
                            NotEctWord::Drop => NotEct::Drop,
                            NotEctWord::Pass => NotEct::Pass,
                        },
                    })
                }
                None => {
                    self.refuse(&place, format!("there is no wred profile \"{name}\""));
                    None
                }
            });
            let service = self.service(&place, schedulers[q].as_deref());
            let trim = account.and_then(|(_, profile)| self.trim(&place, buffer, q, profile));
            QueueConfig {
                service,
                account: account.map_or(refused_account(), |found| found.0),
                wred,
                trim,
            }
        });
        let buffer_names = buffers.map(|name| name.unwrap_or_else(|| EGRESS_LOSSY.to_owned()));
        QueuesPlan { queues, buffer_names, wred_names: wreds, scheduler_names: schedulers }
    }

    /// The trimming of this queue.
    fn trim(
        &mut self,
        place: &str,
        name: &str,
        number: usize,
        profile: &ProfileSection,
    ) -> Option<Trim> {
        let place = format!("{place}, profile \"{name}\"");
        if profile.discard == DiscardWord::Drop {
            if profile.trim_size.or(profile.trim_queue.map(|_| Bytes::ZERO)).is_some() {
                let message = "trim_size and trim_queue mean nothing without discard: trim";
                self.refuse(&place, message.to_owned());
            }
            return None;
        }
        let size = profile.trim_size.unwrap_or(TRIM_SIZE);
        if !(TRIM_SIZE_MIN..=TRIM_SIZE_MAX).contains(&size) {
            let message = format!("trim_size {size}: give {TRIM_SIZE_MIN} to {TRIM_SIZE_MAX}");
            self.refuse(&format!("{place}, trim_size"), message);
            return None;
        }
        let Some(queue) = profile.trim_queue.filter(|queue| usize::from(*queue) < CLASSES) else {
            let message = "discard: trim needs trim_queue, the queue that trimmed packets take: 0 to 7, \
                           usually one of strict priority";
            self.refuse(&place, message.to_owned());
            return None;
        };
        if usize::from(queue) == number {
            let message = format!(
                "trim_queue {queue} is the queue itself: what is trimmed would wait behind what had no \
                 room; name another"
            );
            self.refuse(&format!("{place}, trim_queue"), message);
            return None;
        }
        Some(Trim { bytes: u32::try_from(size.get()).unwrap_or(u32::MAX), queue })
    }

    fn curve(&mut self, place: &str, section: &CurveSection) -> Option<Curve> {
        let curve = Curve::new(section.kmin.get(), section.kmax.get(), section.pmax);
        if curve.is_none() {
            let message = match section.kmin > section.kmax {
                true => format!("kmin {} is above kmax {}", section.kmin, section.kmax),
                false => format!("kmax {} is above 2147483647 B", section.kmax),
            };
            self.refuse(place, message);
        }
        curve
    }

    fn service(&mut self, place: &str, name: Option<&str>) -> ServiceConfig {
        let Some(name) = name else { return ServiceConfig::default() };
        let Some(section) = self.config.schedulers.get(name) else {
            self.refuse(place, format!("there is no scheduler \"{name}\""));
            return ServiceConfig::default();
        };
        let value = |key: &str| format!("scheduler \"{name}\", {key}");
        let service = match (section.kind, section.weight) {
            (SchedulerType::Strict, None) => Service::Strict,
            (SchedulerType::Strict, Some(_)) => {
                let message = "a weight means nothing to a scheduler of type strict: leave it out";
                self.refuse(&value("weight"), message.to_owned());
                Service::Strict
            }
            (SchedulerType::Dwrr, Some(0)) => {
                self.refuse(&value("weight"), "a weight is 1 to 65535".to_owned());
                Service::Dwrr { weight: 1 }
            }
            (SchedulerType::Dwrr, weight) => Service::Dwrr { weight: weight.unwrap_or(1) },
        };
        for (key, rate, burst) in [
            ("min_burst", section.min_rate, section.min_burst),
            ("max_burst", section.max_rate, section.max_burst),
        ] {
            self.burst_of_a_rate(&value(key), rate, burst);
        }
        let min = shaper(section.min_rate, section.min_burst);
        let max = shaper(section.max_rate, section.max_burst);
        if let (Some(min), Some(max)) = (min, max)
            && min.rate > max.rate
        {
            let (min, max) = (min.rate, max.rate);
            self.refuse(&value("min_rate"), format!("min_rate {min} is above max_rate {max}"));
        }
        ServiceConfig { service, min, max }
    }
}

/// A placeholder for an account whose profile was refused; it never reaches a traffic manager.
fn refused_account() -> AccountConfig {
    AccountConfig { pool: PoolId(0), reserved_bytes: 0, limit: Limit::Static(0) }
}
