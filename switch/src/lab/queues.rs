//! Queues of the lab's switches: a scenario's `qos` with its links, and their contradictions.
//!
//! Thresholds are computed only in [`crate::config::qos`]. This adds the data of the scenario: rate, cable and longest
//! frame of each port, and the check that a queue has room for a packet of the hosts. An error of many ports is
//! reported once.

use std::collections::BTreeSet;

use wireyard_pipeline::ir::SourceSpan;

use super::build::cable;
use super::scenario::{HostSetup, Scenario, Transport};
use super::{fault_effects, host, thresholds};
use crate::config::qos::{PortLink, PortSection, Problem, Qos, Report};
use crate::host::WIRE_PORT;
use crate::ports::PortNumber;
use crate::tm::AccountConfig;
use crate::units::{BitsPerSec, Bytes};

/// The queues of a switch: those of the scenario, with rate, cable and longest frame of every link.
///
/// # Errors
/// Contradictions, with their numbers.
pub fn switch_qos(scenario: &Scenario, node: usize) -> Result<Qos, Box<Report>> {
    let (fabric, transport) = (&scenario.fabric, scenario.host.transport);
    let mut config = scenario.switch.qos.clone();
    let mut links = Vec::new();
    for (index, &link) in fabric.nodes[node].links.iter().enumerate() {
        let setup = &fabric.links[link].setup;
        let number = PortNumber((index + 1) as u16);
        let name = number.to_string();
        let section = PortSection {
            cable: Some(cable(setup.delay)),
            mtu: Some(Bytes::new(setup.mtu.get() + 4)),
            ..wire_overhead(transport)
        };
        // The scenario's own keys take precedence over the link's values, and its defaults over these.
        let own = config.ports.get(&name).cloned().unwrap_or_default();
        let own = own.over(&config.port_defaults).over(&section);
        config.ports.insert(name, own);
        links.push(PortLink { number, rate: Some(setup.rate) });
    }
    config.resolve(&links)
}

/// The overhead of a frame of this transport on a link: on Ethernet the defaults, on InfiniBand none, as its end points
/// count it.
pub(super) fn wire_overhead(transport: Transport) -> PortSection {
    if transport != Transport::Infiniband {
        return PortSection::default();
    }
    let nothing = Some(Bytes::new(0));
    PortSection {
        preamble_and_gap: nothing,
        fcs: nothing,
        min_frame: Some(Bytes::new(1)),
        ..PortSection::default()
    }
}

/// A problem, with its place.
pub type Wrong = (Option<SourceSpan>, String);

/// Checks the queues of a scenario's switches and hosts, also with faults that change them; each problem has its number
/// of occurrences.
///
/// # Errors
/// The problems.
pub fn check(scenario: &Scenario) -> Result<(), Vec<Wrong>> {
    let fabric = &scenario.fabric;
    let (mut found, mut queues) = (Vec::new(), Vec::new());
    for node in fabric.switches() {
        let problems = match switch_qos(scenario, node) {
            Ok(qos) => {
                let mut problems = too_small(&qos, scenario);
                problems.extend(other_rates(&qos, |port| {
                    let link = fabric.nodes[node].link(port)?;
                    Some(fabric.links[link].setup.rate)
                }));
                queues.push((node, qos));
                problems
            }
            Err(report) => report.problems,
        };
        add(&mut found, &fabric.nodes[node].name, problems);
    }
    let mut wrong = with_span(found, scenario.switch.qos_span);
    let mut found = Vec::new();
    let mut links = BTreeSet::new();
    for node in fabric.hosts() {
        let Some(&link) = fabric.nodes[node].links.first() else { continue };
        let setup = &fabric.links[link].setup;
        let own = scenario.hosts.contains_key(&node).then_some(node);
        if !links.insert((setup.rate.get(), setup.delay, setup.mtu, own)) {
            continue;
        }
        let wire = |port| (port == WIRE_PORT).then_some(setup.rate);
        let problems = match host::queues(scenario.host_of(node), setup) {
            Ok(qos) => other_rates(&qos, wire),
            Err(problems) => problems,
        };
        add(&mut found, &fabric.nodes[node].name, problems);
    }
    wrong.extend(with_span(found, scenario.host.qos_span));
    let faults = thresholds::problems(scenario, &queues).into_iter();
    for (fault, problem) in faults.chain(fault_effects::problems(scenario, &queues)) {
        wrong.push((Some(scenario.faults[fault].span), problem));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Adds the problems of one device; equal ones are counted.
fn add(found: &mut Vec<(Problem, usize)>, name: &str, problems: Vec<Problem>) {
    for Problem { place, message, .. } in problems {
        match found.iter_mut().find(|(known, _)| known.message == message) {
            Some((_, times)) => *times += 1,
            None => found.push((Problem::new(&format!("{name}, {place}"), message), 1)),
        }
    }
}

fn with_span(found: Vec<(Problem, usize)>, span: Option<SourceSpan>) -> Vec<Wrong> {
    let words = found.into_iter().map(|(problem, times)| match times {
        1 => problem.to_string(),
        _ => format!("{} (and {} more): {}", problem.place, times - 1, problem.message),
    });
    words.map(|words| (span, words)).collect()
}

/// Ports whose rate is not that of their link.
fn other_rates(qos: &Qos, link: impl Fn(PortNumber) -> Option<BitsPerSec>) -> Vec<Problem> {
    let other = qos.ports.iter().filter_map(|port| {
        let (rate, link) = (port.tm.rate?, link(port.number)?);
        let message = format!(
            "the rate is {rate}, and that of its link {link}: leave `rate` out, `max_rate` makes a port slower"
        );
        (rate != link).then(|| Problem::new(&format!("port {}", port.number), message))
    });
    other.collect()
}

/// Queues and priority groups of data that do not hold one full packet.
fn too_small(qos: &Qos, scenario: &Scenario) -> Vec<Problem> {
    let mut found = Vec::new();
    for setup in scenario.host_setups() {
        for problem in too_small_for(qos, setup) {
            if found.iter().all(|known: &Problem| known.message != problem.message) {
                found.push(problem);
            }
        }
    }
    found
}

fn too_small_for(qos: &Qos, setup: &HostSetup) -> Vec<Problem> {
    let (dscp, pcp) = match setup.transport {
        Transport::RoceV2 => (setup.data_dscp, u8::MAX),
        Transport::RoceV1 => (u8::MAX, setup.data_pcp),
        Transport::Infiniband => (u8::MAX, u8::MAX),
    };
    let frame = setup.frame();
    let mut found = Vec::new();
    for port in &qos.ports {
        let class = port.classifier.class(dscp, pcp);
        let (queue, group) = (port.classifier.queue(class), port.classifier.group(class));
        let sides = [
            (format!("queue {queue}"), port.tm.queues[usize::from(queue)].account),
            (format!("priority group {group}"), port.tm.groups[usize::from(group)].account),
        ];
        for (what, account) in sides {
            let holds = holds(qos, &account);
            if holds < frame.get() {
                let message = format!(
                    "holds {}, and a full packet of the hosts has {}: none would ever pass",
                    Bytes::new(holds),
                    frame
                );
                found.push(Problem::new(&format!("port {}, {what}", port.number), message));
            }
        }
    }
    found
}

/// Bytes that fit into an account while its pool is otherwise empty.
fn holds(qos: &Qos, account: &AccountConfig) -> u64 {
    let pool = qos.tm.pools.get(usize::from(account.pool.0));
    let shared = pool.map_or(0, |pool| pool.shared_bytes);
    account.alone(shared)
}
