//! The load of a scenario on the machine that carries its frames, and the factor by which it is slowed down for that.

use super::super::fabric::Fabric;
use super::super::scenario::Scenario;

/// Frames that all cables together carry in a wall-clock second.
///
/// Measured (`time wireyard lab programs/lab/live.yaml --live`, processor time by `live.frames`): 11 to 16 us for each,
/// devices and kernel included, so that 60,000 to 90,000 fill a processor. The rest is reserve for other load.
pub const FRAMES_PER_SECOND: f64 = 40_000.0;
/// Ethernet, IPv4, UDP, BTH, ICRC; FCS, preamble and gap.
const AROUND_PAYLOAD_BYTES: u64 = 58 + 24;

/// Wall-clock seconds for a second of the scenario that this machine should manage.
pub fn dilation(scenario: &Scenario) -> u64 {
    (frames_per_second(scenario) / FRAMES_PER_SECOND).ceil().max(1.0) as u64
}

/// Frames on all links in a second of the scenario, when every flow has an equal share of the links on its path.
fn frames_per_second(scenario: &Scenario) -> f64 {
    let fabric = &scenario.fabric;
    let routes: Vec<_> =
        scenario.flows.iter().map(|flow| way(fabric, flow.from, flow.to)).collect();
    let mut flows = vec![[0u32; 2]; fabric.links.len()];
    for &(link, side) in routes.iter().flatten() {
        flows[link][side] += 1;
    }
    let payload = scenario.host.path_mtu.get();
    let bits = 8.0 * (payload + AROUND_PAYLOAD_BYTES) as f64;
    let acknowledged = 1.0 + 1.0 / f64::from(scenario.host.acks_every());
    let frames = |way: &Vec<(usize, usize)>| {
        let share = |&(link, side): &(usize, usize)| {
            fabric.links[link].setup.rate.get() as f64 / f64::from(flows[link][side])
        };
        let rate = way.iter().map(share).fold(f64::INFINITY, f64::min);
        if rate.is_finite() { rate / bits * way.len() as f64 * acknowledged } else { 0.0 }
    };
    routes.iter().map(frames).sum()
}

/// The links of a path, each with the end at which it is entered.
fn way(fabric: &Fabric, from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut node = from;
    let mut directed = |link: usize| {
        let side = usize::from(fabric.links[link].ends[0] != node);
        node = fabric.far(link, node);
        (link, side)
    };
    fabric.way(from, to).unwrap_or_default().into_iter().map(&mut directed).collect()
}
