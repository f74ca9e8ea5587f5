//! Thresholds that change while a lab runs: marking curves and XOFF levels, switched off or changed for a time.
//!
//! The thresholds in force are always the configured ones with every present fault applied, in the order of the
//! scenario; so faults may overlap and end in any order. Queues without a congestion point get none, and lossy groups
//! no XOFF.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_tables::time::Time;

use super::engine::Lab;
use super::sampler::QueueKey;
use super::scenario::{Fault, FaultKind, Scenario, Tuning};
use crate::config::qos::Qos;
use crate::ports::PortNumber;
use crate::tm::{CLASSES, Curve, Limit, WredConfig};
use crate::units::Bytes;

/// The configured thresholds, and the faults in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Thresholds {
    wred: BTreeMap<QueueKey, WredConfig>,
    /// By node, port and priority group.
    limits: BTreeMap<QueueKey, Limit>,
    active: Vec<usize>,
    known: bool,
}

impl Lab {
    /// Applies the begin or the end of a fault that changes thresholds.
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
                    // Invalid curves were refused before the run.
                    let set = |curve: Curve| tuned(curve, tuning).unwrap_or(curve);
                    WredConfig { curves: config.curves.map(|curve| curve.map(set)), ..config }
                }
                _ => config,
            });
            let core = &mut self.cores[node];
            if let Some(id) = core.ports().traffic_port(port) {
                core.manager_mut().tm.set_wred(id, queue, config);
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
            if let Some(id) = core.ports().traffic_port(port) {
                core.manager_mut().tm.set_group_limit(now, id, group, limit);
            }
        }
        let switches: Vec<usize> = self.scenario.fabric.switches().collect();
        switches.into_iter().for_each(|node| self.wake(node));
    }

    fn learn_thresholds(&mut self) {
        self.thresholds.known = true;
        for node in self.scenario.fabric.switches() {
            let core = &self.cores[node];
            for port in self.scenario.fabric.nodes[node].ports() {
                let Some(id) = core.ports().traffic_port(port) else { continue };
                for class in 0..CLASSES as u8 {
                    let key = (node, port, class);
                    if let Some(config) = core.manager().tm.wred(id, class) {
                        self.thresholds.wred.insert(key, config);
                    }
                    let lossless = core.manager().tm.lossless_groups(id) & 1 << class != 0;
                    if let Some(limit) =
                        core.manager().tm.group_limit(id, class).filter(|_| lossless)
                    {
                        self.thresholds.limits.insert(key, limit);
                    }
                }
            }
        }
    }
}

/// A curve with the changes of a fault.
///
/// # Errors
/// Why the result is no curve, as text.
fn tuned(curve: Curve, tuning: &Tuning) -> Result<Curve, String> {
    let (kmin, kmax, pmax) = curve.parts();
    let bytes = |own: Option<Bytes>, old: u64| own.map_or(old, Bytes::get);
    let (kmin, kmax) = (bytes(tuning.kmin, kmin), bytes(tuning.kmax, kmax));
    Curve::new(kmin, kmax, tuning.pmax.unwrap_or(pmax)).ok_or_else(|| {
        let (kmin, kmax) = (Bytes::new(kmin), Bytes::new(kmax));
        format!("the marking curve would be from kmin {kmin} to kmax {kmax}")
    })
}

/// A queue of a port and the priority group of the same class.
struct Place {
    node: usize,
    port: PortNumber,
    class: u8,
    curves: Vec<Curve>,
    is_lossless: bool,
}

impl Place {
    fn is_meant_by(&self, tuning: &Tuning) -> bool {
        tuning.is_about(self.node, self.port, self.class)
    }

    fn is_changed_by(&self, tuning: &Tuning) -> bool {
        tuning.has_curve() && !self.curves.is_empty()
            || tuning.xoff_at.is_some() && self.is_lossless
    }
}

fn places(queues: &[(usize, Qos)]) -> impl Iterator<Item = Place> + '_ {
    let ports =
        queues.iter().flat_map(|(node, qos)| qos.ports.iter().map(move |port| (*node, port)));
    ports.flat_map(|(node, port)| {
        (0..CLASSES).map(move |class| {
            let wred = port.tm.queues[class].wred;
            let curves = wred.map_or([None; 3], |wred| wred.curves).into_iter().flatten().collect();
            let is_lossless = port.tm.groups[class].lossless.is_some();
            Place { node, port: port.number, class: class as u8, curves, is_lossless }
        })
    })
}

/// A fault that changes thresholds, and its place in the scenario.
type Tuned<'a> = (usize, &'a Fault, &'a Tuning);

/// Changes of thresholds by the faults of a scenario that are invalid for these queues of its switches: by fault, as
/// text.
pub(super) fn problems(scenario: &Scenario, queues: &[(usize, Qos)]) -> BTreeMap<usize, String> {
    let faults = scenario.faults.iter().enumerate();
    let tunings: Vec<Tuned<'_>> = faults
        .filter_map(|(index, fault)| match &fault.kind {
            FaultKind::Thresholds(tuning) => Some((index, fault, tuning)),
            _ => None,
        })
        .collect();
    let (mut found, mut met) = (BTreeMap::new(), BTreeSet::new());
    // Queues are many, but their different curves few.
    let mut tried = BTreeSet::new();
    for place in places(queues).take_while(|_| !tunings.is_empty()) {
        let is_here = |(.., tuning): &&Tuned<'_>| place.is_meant_by(tuning);
        let here: Vec<Tuned<'_>> = tunings.iter().filter(is_here).copied().collect();
        let changes = |(.., tuning): &&Tuned<'_>| place.is_changed_by(tuning);
        met.extend(here.iter().filter(changes).map(|(index, ..)| *index));
        let who: Vec<usize> = here.iter().map(|(index, ..)| *index).collect();
        for &curve in &place.curves {
            let (kmin, kmax, _) = curve.parts();
            if tried.insert((kmin, kmax, who.clone())) {
                contradictions(curve, &here, &mut found);
            }
        }
    }
    for (index, ..) in tunings.iter().filter(|(index, ..)| !met.contains(index)) {
        found.entry(*index).or_insert_with(|| NOTHING.to_owned());
    }
    found
}

const NOTHING: &str =
    "this changes nothing: what it is about has no marking curve, or is not lossless";

/// Invalid curves that result when faults change this one. Faults may overlap, so every instant at which one begins or
/// ends is tried.
fn contradictions(curve: Curve, faults: &[Tuned<'_>], found: &mut BTreeMap<usize, String>) {
    let instants = faults.iter().flat_map(|(_, fault, _)| [Some(fault.at), fault.until]);
    for now in instants.flatten().collect::<BTreeSet<Time>>() {
        let lasts = |fault: &Fault| fault.at <= now && fault.until.is_none_or(|until| until > now);
        let mut curve = curve;
        for (index, _, tuning) in faults.iter().filter(|(_, fault, _)| lasts(fault)) {
            match tuned(curve, tuning) {
                Ok(next) => curve = next,
                Err(problem) => {
                    found.entry(*index).or_insert(problem);
                }
            }
        }
    }
}
