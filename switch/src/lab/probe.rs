//! Which flows go through a port: by the topology if that leaves no choice, otherwise by one packet of the flow through
//! switches like those of the run, so that their program chooses.
//!
//! This is done outside of a run. There is no answer if a switch's choice depends on earlier packets, or if packets of
//! a flow take several paths.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use wireyard_pipeline::packet::MemoryConfig;
use wireyard_tables::time::Time;

use super::addresses::port_mac;
use super::build::{link_type, with_entries};
use super::engine::Lab;
use super::fabric::{Fabric, NodeKind};
use super::host;
use super::scenario::FaultKind;
use crate::ports::PortNumber;
use crate::program::{DeviceOptions, EngineKind};
use crate::sandbox::Sandbox;

/// Flows that are followed at most.
const FOLLOWED_MAX: usize = 1024;

/// A port of a switch as its node and link.
type Out = (usize, usize);

/// Whether the shortest paths of a flow go through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    None,
    Some,
    All,
}

/// Whether the paths from a host go through a port; `hops` is for their end.
fn reach(fabric: &Fabric, hops: &[Option<u32>], from: usize, (node, link): Out) -> Reach {
    let mut level = vec![from];
    while !level.is_empty() {
        if level.contains(&node) && fabric.leading(node, hops).any(|known| known == link) {
            let is_only = level.len() == 1 && fabric.leading(node, hops).count() == 1;
            return if is_only { Reach::All } else { Reach::Some };
        }
        let far = |node: &usize| {
            let node = *node;
            fabric.leading(node, hops).map(move |link| fabric.far(link, node)).collect::<Vec<_>>()
        };
        let mut next: Vec<usize> = level.iter().flat_map(far).collect();
        next.sort_unstable();
        next.dedup();
        level = next;
    }
    Reach::None
}

/// By flow: whether it goes through a port of a switch, or a host.
///
/// # Errors
/// Why that is unknown.
pub(super) fn crossing(lab: &Lab, (node, port): (usize, PortNumber)) -> Result<Vec<bool>, String> {
    let (scenario, fabric) = (lab.scenario(), &lab.scenario().fabric);
    let link = fabric.nodes[node].link(port);
    let out = (node, link.ok_or("the bottleneck has no link")?);
    let (mut hops, mut known) = (BTreeMap::new(), BTreeMap::new());
    let reaches = scenario.flows.iter().map(|flow| {
        *known.entry((flow.from, flow.to)).or_insert_with(|| {
            let hops = hops.entry(flow.to).or_insert_with(|| fabric.hops(flow.to));
            reach(fabric, hops, flow.from, out)
        })
    });
    let reaches: Vec<Reach> = reaches.collect();
    let open = reaches.iter().filter(|reach| **reach == Reach::Some).count();
    if open > 0 {
        followable(lab, open)?;
    }
    let mut probe = Probe { lab, switches: BTreeMap::new() };
    let crosses = |(flow, reach): (usize, Reach)| match reach {
        Reach::None => Ok(false),
        Reach::All => Ok(true),
        Reach::Some => Ok(probe.follow(flow)?.contains(&out)),
    };
    reaches.into_iter().enumerate().map(crosses).collect()
}

/// Whether one packet now takes the path of all packets of a flow.
fn followable(lab: &Lab, flows: usize) -> Result<(), String> {
    let scenario = lab.scenario();
    let reroutes =
        |kind: &FaultKind| matches!(kind, FaultKind::LinkDown { reroute_after: Some(_), .. });
    if scenario.faults.iter().any(|fault| reroutes(&fault.kind)) {
        return Err("routes changed, and flows with them".into());
    }
    if scenario.flows.iter().any(|flow| scenario.sender(flow).spray > 1) {
        return Err("packets of a flow take several ways".into());
    }
    if lab.balances() {
        return Err("switches choose the way of a flow by what they have seen".into());
    }
    match flows > FOLLOWED_MAX {
        true => Err(format!("{flows} flows have several ways, and {FOLLOWED_MAX} are followed")),
        false => Ok(()),
    }
}

/// Switches as they were when the lab was built, built when a packet arrives.
struct Probe<'l> {
    lab: &'l Lab,
    switches: BTreeMap<usize, Sandbox>,
}

impl Probe<'_> {
    /// The ports through which a packet of a flow passes, from its host on.
    fn follow(&mut self, flow: usize) -> Result<Vec<Out>, String> {
        let scenario = self.lab.scenario();
        let (spec, fabric) = (&scenario.flows[flow], &scenario.fabric);
        let lost = || "a flow's way is not known".to_owned();
        let mut frame = host::probe(scenario, spec, &self.lab.flows[flow]).ok_or_else(lost)?;
        let mut link = *fabric.nodes[spec.from].links.first().ok_or_else(lost)?;
        let (mut node, mut ways) = (fabric.far(link, spec.from), vec![(spec.from, link)]);
        while node != spec.to {
            if fabric.nodes[node].kind == NodeKind::Host || ways.len() > fabric.nodes.len() {
                return Err(lost());
            }
            let switch = self.switch(node)?;
            switch.send(fabric.port(node, link), &frame, Time::ZERO, None);
            let mut sent = switch.received();
            let (port, bytes) = sent.pop().filter(|_| sent.is_empty()).ok_or_else(lost)?;
            link = fabric.nodes[node].link(port).ok_or_else(lost)?;
            ways.push((node, link));
            (node, frame) = (fabric.far(link, node), bytes);
        }
        Ok(ways)
    }

    fn switch(&mut self, node: usize) -> Result<&mut Sandbox, String> {
        let place = match self.switches.entry(node) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(place) => place,
        };
        let scenario = self.lab.scenario();
        let description = &scenario.fabric.nodes[node];
        let mut entries = self.lab.entries().iter();
        let (name, text) =
            entries.find(|entry| entry.0 == description.name).ok_or("a switch without entries")?;
        let made = || -> Result<Sandbox, Box<dyn std::error::Error>> {
            let loaded = with_entries(&self.lab.base, name, text)?;
            let memory = MemoryConfig::for_frames(16, 9216, 256);
            let engine = EngineKind::Interp;
            let options = DeviceOptions { engine, memory, ..DeviceOptions::default() };
            let mut core = loaded.device(options)?;
            let numbers = description.ports();
            numbers.for_each(|number| core.ports_mut().set_mac(number, port_mac(node, number)));
            let kind = link_type(scenario.host.transport);
            let ports: Vec<_> = description.ports().map(|number| (number, kind)).collect();
            Ok(Sandbox::new(core, &ports)?)
        };
        Ok(place.insert(made().map_err(|error| error.to_string())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::fabric::LinkSetup;

    #[test]
    fn a_way_has_a_direction_and_a_choice_is_no_certainty() {
        let mut fabric = Fabric::default();
        let leaves = [0, 1].map(|n| fabric.add(format!("leaf{n}"), NodeKind::Switch));
        let spines = [0, 1].map(|n| fabric.add(format!("spine{n}"), NodeKind::Switch));
        let hosts = leaves.map(|leaf| {
            let host = fabric.add(format!("h{leaf}"), NodeKind::Host);
            (host, fabric.join(leaf, host, LinkSetup::clean()))
        });
        let up = spines.map(|spine| {
            leaves.iter().for_each(|leaf| {
                fabric.join(*leaf, spine, LinkSetup::clean());
            });
            fabric.between(leaves[0], spine).unwrap()
        });
        let [(a, _), (b, last)] = hosts;
        let (there, back) = (fabric.hops(b), fabric.hops(a));
        assert_eq!(reach(&fabric, &there, a, (leaves[1], last)), Reach::All);
        assert_eq!(reach(&fabric, &back, b, (leaves[1], last)), Reach::None);
        for link in up {
            assert_eq!(reach(&fabric, &there, a, (leaves[0], link)), Reach::Some);
            assert_eq!(reach(&fabric, &back, b, (leaves[0], link)), Reach::None);
        }
    }
}
