//! Faults that the queues of the switches make meaningless: pauses that no switch obeys.

use super::fabric::{Fabric, NodeKind};
use super::host;
use super::scenario::{FaultKind, Scenario, Transport};
use crate::config::qos::{Qos, QosPort};
use crate::tm::{CLASSES, FlowControl};
use wireyard_tables::time::Time;

/// The way out where a switch obeys no pauses.
const WAY_OUT: &str = "`switch: { qos: { preset: onyx_roce } }` has priority flow control";

/// Faults that need pauses which the host's switch does not obey, each with the reason.
pub(super) fn problems(scenario: &Scenario, queues: &[(usize, Qos)]) -> Vec<(usize, String)> {
    let faults = scenario.faults.iter().enumerate();
    let wrong = faults.filter_map(|(index, fault)| {
        let problem = match fault.kind {
            FaultKind::PauseStorm { host, priority } => storm(scenario, queues, (host, priority)),
            FaultKind::SlowReceiver { host } => slow(scenario, queues, host),
            FaultKind::EcnOff if !queues.iter().any(|(_, qos)| marks(qos)) => Some(
                "no queue of a switch has a marking curve, so that switching marks off changes nothing: give the \
                 switches curves, or leave this fault out"
                    .to_owned(),
            ),
            FaultKind::LinkDown { reroute_after: Some(after), .. }
                if fault.at + after >= Time::ZERO + scenario.duration =>
            {
                Some(format!(
                    "switches would choose other routes {after} after the cut, when the run of {} is over: give a \
                     shorter reroute_after, or leave it out",
                    scenario.duration
                ))
            }
            FaultKind::EcnOff | FaultKind::LinkDown { .. } | FaultKind::Thresholds(_) => None,
        };
        Some((index, problem?))
    });
    wrong.collect()
}

/// The port of the switch that a host is joined to.
fn port_to<'q>(fabric: &Fabric, queues: &'q [(usize, Qos)], host: usize) -> Option<&'q QosPort> {
    let link = *fabric.nodes[host].links.first()?;
    let switch = fabric.far(link, host);
    if fabric.nodes[switch].kind != NodeKind::Switch {
        return None;
    }
    let (_, qos) = queues.iter().find(|(node, _)| *node == switch)?;
    let number = fabric.port(switch, link);
    qos.ports.iter().find(|port| port.number == number)
}

/// Whether a queue has a marking curve.
fn marks(qos: &Qos) -> bool {
    qos.ports.iter().any(|port| port.tm.queues.iter().any(|queue| queue.wred.is_some()))
}

/// Priorities whose pauses a port obeys, one bit each.
fn obeyed(port: &QosPort) -> u8 {
    match port.tm.flow_control.mode {
        FlowControl::Off => 0,
        FlowControl::Pause => u8::MAX,
        FlowControl::Pfc => port.tm.flow_control.enabled,
    }
}

/// Which priorities these are, in words.
fn listed(priorities: u8) -> String {
    let each: Vec<String> =
        (0..8).filter(|n| priorities & 1 << n != 0).map(|n: u8| n.to_string()).collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

fn storm(
    scenario: &Scenario,
    queues: &[(usize, Qos)],
    (host, priority): (usize, u8),
) -> Option<String> {
    let name = &scenario.fabric.nodes[host].name;
    if scenario.host.is_infiniband() {
        return Some(format!(
            "`{name}` would send pauses, and InfiniBand has none: switches would drop them; leave this fault out"
        ));
    }
    let port = port_to(&scenario.fabric, queues, host)?;
    let obeys = obeyed(port);
    if obeys & 1 << priority != 0 {
        return None;
    }
    let known = listed(obeys);
    let way_out = if obeys == 0 { WAY_OUT } else { "give one of these as `priority`" };
    Some(format!(
        "a storm of priority {priority} changes nothing: of the priorities of the switch's port to `{name}`, pauses \
         stop {known}; {way_out}"
    ))
}

/// A host that takes nothing pauses its switch for the lossless classes of its adapter; a switch that does not obey
/// would send on, into an adapter that is full.
fn slow(scenario: &Scenario, queues: &[(usize, Qos)], host: usize) -> Option<String> {
    let fabric = &scenario.fabric;
    // A scenario may be made to lose.
    if scenario.host.is_infiniband() || scenario.fails.is_some() {
        return None;
    }
    let obeys = obeyed(port_to(fabric, queues, host)?);
    let link = fabric.nodes[host].links.first()?;
    let qos = host::queues(scenario.host_of(host), &fabric.links[*link].setup).ok()?;
    let wire = qos.ports.first()?;
    let control = &wire.tm.flow_control;
    let data = scenario.flows.iter().filter(|flow| flow.to == host).map(|flow| {
        let sender = scenario.sender(flow);
        let (dscp, pcp) = match sender.transport {
            Transport::RoceV2 => (sender.data_dscp, u8::MAX),
            _ => (u8::MAX, sender.data_pcp),
        };
        wire.classifier.group(wire.classifier.class(dscp, pcp))
    });
    let pauses = |group: &u8| {
        let of_group = (0..CLASSES).filter(|p| control.priority_to_group[*p] == *group);
        of_group.filter(|p| control.enabled & 1 << p != 0).map(|p| 1 << p).sum::<u8>()
    };
    let lossless = |group: &u8| wire.tm.groups[usize::from(*group)].lossless.is_some();
    let missing = data.filter(lossless).map(|group| pauses(&group) & !obeys).find(|p| *p != 0)?;
    let name = &fabric.nodes[host].name;
    Some(format!(
        "`{name}` would pause priority {} of its switch, which does not obey: its adapter would lose packets of a \
         lossless class; {WAY_OUT}",
        listed(missing)
    ))
}
