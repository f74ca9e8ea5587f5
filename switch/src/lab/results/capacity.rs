//! The rate of the bottleneck, and whether each of its senders can take a fair share of it.

use std::collections::BTreeMap;

use super::Window;
use super::flows::{active_s, all_active_s};
use crate::lab::sampler::QueueKey;
use crate::report::Unit;
use crate::units::BitsPerSec;

/// The least rate of a queue's link, of its port and of the queue itself, on the wire; `None` where the port has no
/// link.
pub(super) fn capacity(window: &Window<'_>, (node, port, queue): QueueKey) -> Option<BitsPerSec> {
    let fabric = &window.lab.scenario().fabric;
    let link = fabric.nodes[node].link(port)?;
    let core = &window.lab.cores[node];
    let of_queue =
        core.ports().traffic_port(port).and_then(|id| core.manager().tm.max_rate(id, queue));
    of_queue.into_iter().chain([fabric.links[link].setup.rate]).min()
}

/// Whether the links of the senders of these flows can fill the bottleneck, each with a fair share.
///
/// # Errors
/// Why they cannot.
pub(super) fn filled(
    window: &Window<'_>,
    flows: &[usize],
    capacity: BitsPerSec,
) -> Result<(), String> {
    let scenario = window.lab.scenario();
    let rate_of = |host: usize| {
        let link = scenario.fabric.nodes[host].links.first();
        link.map_or(0.0, |link| scenario.fabric.links[*link].setup.rate.get() as f64)
    };
    let whole = all_active_s(window);
    // By sender: flows in progress, averaged over the measured time. All of them share its link.
    let mut under_way: BTreeMap<usize, f64> =
        flows.iter().map(|flow| (scenario.flows[*flow].from, 0.0)).collect();
    for (spec, status) in scenario.flows.iter().zip(&window.lab.last) {
        if let Some(sum) = under_way.get_mut(&spec.from) {
            *sum += active_s(window, status) / whole;
        }
    }
    let capacity = capacity.get() as f64;
    if under_way.keys().map(|host| rate_of(*host)).sum::<f64>() <= capacity {
        return Err("the links of its senders carry no more than the bottleneck does".into());
    }
    let fair = capacity / flows.len() as f64;
    let slow = under_way.into_iter().find(|(host, flows)| rate_of(*host) < fair * flows.max(1.0));
    match slow {
        Some((host, _)) => Err(format!(
            "the link of {} does not carry a fair share of the bottleneck, {}, for each of its flows",
            scenario.fabric.nodes[host].name,
            Unit::BitRate.show(fair)
        )),
        None => Ok(()),
    }
}
