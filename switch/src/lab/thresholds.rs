//! Thresholds that change while a lab runs: marking curves and XOFF levels, switched off or set otherwise for a while.
//!
//! What is in force is always what is configured with every fault of this instant applied to it, in the order of the scenario; so
//! faults may overlap and end in any order. Queues without a congestion point get none, and lossy groups no XOFF.

use std::collections::BTreeMap;

use super::engine::Lab;
use super::sampler::QueueKey;
use super::scenario::{FaultKind, Tuning};
use crate::tm::{CLASSES, Curve, Limit, WredConfig};

/// What was configured, and which faults change it now.
#[derive(Clone, Debug, Default)]
pub(super) struct Thresholds {
    wred: BTreeMap<QueueKey, WredConfig>,
    /// By node, port and priority group.
    limits: BTreeMap<QueueKey, Limit>,
    active: Vec<usize>,
    known: bool,
}

impl Lab {
    /// A fault that changes thresholds begins or ends.
    pub(super) fn retune(&mut self, fault: usize, begins: bool) {
        if !self.thresholds.known {
            self.learn_thresholds();
        }
        self.thresholds.active.retain(|active| *active != fault);
        if begins {
            self.thresholds.active.push(fault);
            self.thresholds.active.sort_unstable();
        }
        let kinds: Vec<FaultKind> = self
            .thresholds
            .active
            .iter()
            .map(|&fault| self.scenario.faults[fault].kind.clone())
            .collect();
        for (&(node, port, queue), configured) in &self.thresholds.wred {
            let config = kinds.iter().fold(*configured, |config, kind| match kind {
                FaultKind::EcnOff => WredConfig { curves: [None; 3], ..config },
                FaultKind::Thresholds(tuning) if tuning.is_about(node, port, queue) => {
                    WredConfig { curves: config.curves.map(|curve| tuned(curve, tuning)), ..config }
                }
                _ => config,
            });
            let core = &mut self.cores[node];
            if let Some(id) = core.traffic_port(port) {
                core.traffic_mut().set_wred(id, queue, config);
            }
        }
        let now = self.now();
        for (&(node, port, group), configured) in &self.thresholds.limits {
            let limit = kinds.iter().fold(*configured, |limit, kind| match kind {
                FaultKind::Thresholds(tuning) if tuning.is_about(node, port, group) => {
                    tuning.xoff_at.map_or(limit, |bytes| Limit::Static(bytes.get()))
                }
                _ => limit,
            });
            let core = &mut self.cores[node];
            if let Some(id) = core.traffic_port(port) {
                core.traffic_mut().set_group_limit(now, id, group, limit);
            }
        }
        let switches: Vec<usize> = self.scenario.fabric.switches().collect();
        switches.into_iter().for_each(|node| self.wake(node));
    }

    fn learn_thresholds(&mut self) {
        self.thresholds.known = true;
        for node in self.scenario.fabric.switches() {
            let core = &self.cores[node];
            for port in 1..=self.scenario.fabric.nodes[node].links.len() as u16 {
                let Some(id) = core.traffic_port(port) else { continue };
                for class in 0..CLASSES as u8 {
                    let key = (node, port, class);
                    if let Some(config) = core.traffic().wred(id, class) {
                        self.thresholds.wred.insert(key, config);
                    }
                    let lossless = core.traffic().lossless_groups(id) & 1 << class != 0;
                    if let Some(limit) = core.traffic().group_limit(id, class).filter(|_| lossless)
                    {
                        self.thresholds.limits.insert(key, limit);
                    }
                }
            }
        }
    }
}

/// A curve with what the fault says; what would be no curve leaves it.
fn tuned(curve: Option<Curve>, tuning: &Tuning) -> Option<Curve> {
    let (kmin, kmax, pmax) = curve?.parts();
    let bytes =
        |own: Option<crate::units::Bytes>, old: u64| own.map_or(old, crate::units::Bytes::get);
    let (kmin, kmax) = (bytes(tuning.kmin, kmin), bytes(tuning.kmax, kmax));
    Curve::new(kmin, kmax, tuning.pmax.unwrap_or(pmax)).or(curve)
}
