//! Keys of hosts without effect: of headers that their transport does not have, or about CNPs that nobody gets.

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::{Node, NodeKind};

use super::{HostSetup, Scenario, Transport};
use crate::roce::rp::program::Marks;

/// Keys about CNPs.
const OF_CNPS: &[&str] = &["cnp_dscp", "cnp_interval", "cnp_per"];
/// Keys about an IP header.
const OF_IP: &[&str] = &["data_dscp", "cnp_dscp", "ecn"];

/// The same of flows.
const OF_IP_IN_FLOWS: &[&str] = &["dscp", "ecn"];

/// Refuses them in `host` and `hosts`, where they are written.
pub(super) fn check(decoder: &mut Decoder<'_>, fields: &Fields<'_>, scenario: &Scenario) {
    let (keys, why) = match scenario.host.transport {
        Transport::RoceV1 => (OF_CNPS, "with `transport: rocev1`, which has no marks".to_owned()),
        Transport::Infiniband => {
            (OF_IP, "with `transport: infiniband`, whose frames have no IP header".to_owned())
        }
        Transport::RoceV2 => match without_cnps(scenario) {
            Some(why) => (OF_CNPS, why),
            None => return,
        },
    };
    if scenario.host.transport == Transport::Infiniband {
        for node in ["flows", "collectives"].into_iter().filter_map(|key| fields.get(key)) {
            items(node).iter().for_each(|node| refuse(decoder, node, OF_IP_IN_FLOWS, &why));
        }
    }
    let own = fields.get("hosts").map_or(&[][..], items);
    for node in fields.get("host").into_iter().chain(own) {
        refuse(decoder, node, keys, &why);
    }
}

/// The items of a list, or the single one.
fn items(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

fn refuse(decoder: &mut Decoder<'_>, node: &Node, keys: &[&str], why: &str) {
    let NodeKind::Map(map) = &node.kind else { return };
    let written = map.pairs.iter().map(|(key, _)| key);
    for key in written.filter(|key| keys.contains(&key.scalar.text.as_str())) {
        let message = format!("`{}` means nothing {why}", key.scalar.text);
        decoder.diagnostics.error(codes::SCENARIO, key.span, message).help("leave it out");
    }
}

/// Why nobody in the scenario gets CNPs.
fn without_cnps(scenario: &Scenario) -> Option<String> {
    let all = |is_it: fn(&HostSetup) -> bool| {
        scenario.host_setups().all(is_it)
            && scenario.flows.iter().all(|flow| is_it(&scenario.sender(flow)))
    };
    if all(|host| !gets_cnps(host)) {
        let control = scenario.host.rate_control.as_str();
        return Some(format!("with `{control}`, whose receivers send no CNPs"));
    }
    let none = all(|host| !gets_cnps(host) || !host.ecn);
    none.then(|| "with `ecn: false`: nothing is marked, so that nobody sends CNPs".to_owned())
}

fn gets_cnps(host: &HostSetup) -> bool {
    host.rate_program.as_ref().is_none_or(|of| of.notification().marks == Marks::Cnp)
}
