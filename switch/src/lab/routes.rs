//! Forwarding tables of lab switches, as the text of an entries file.
//!
//! The routes come from the topology, shortest first; where several are equally short they make a group, and the program
//! chooses. The text goes the way of every entries file: it is parsed, checked against the program, and loaded.

use std::collections::BTreeMap;
use std::fmt::Write;

use wireyard_pipeline::ir::Program;

use super::addresses::{host_ip, host_lid, host_mac, mac_text, port_mac};
use super::fabric::Fabric;
use super::scenario::{Scenario, Transport};
use crate::roce::telemetry::rate_code;
use crate::units::Dilation;

/// What entries are for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// How hosts send.
    pub transport: Transport,
    /// The program has the table [`LINKS`]; how much slower links are than they are written.
    pub telemetry: Option<Dilation>,
}

impl Target {
    /// Switches of this program in a scenario.
    pub fn new(scenario: &Scenario, program: &Program) -> Target {
        let measures = program.tables.iter().any(|table| table.name == LINKS);
        let telemetry = measures.then_some(scenario.host.dilation);
        Target { transport: scenario.host.transport, telemetry }
    }
}

/// The table of links whose telemetry goes into packets, as `hpcc_int` has it.
pub const LINKS: &str = "links";
/// Numbers of switches in telemetry have 12 bits; 0 would be no number.
const NUMBERS: usize = 0xfff;

/// The code of each link of a switch, 0 for a rate without one: what is written then is not used.
fn measured(fabric: &Fabric, switch: usize, dilation: Dilation) -> String {
    let mut out = format!("  {LINKS}:\n");
    for (index, &link) in fabric.nodes[switch].links.iter().enumerate() {
        let rate = dilation.undone(fabric.links[link].setup.rate).get();
        let (port, number) = (index + 1, switch % NUMBERS + 1);
        let code = rate_code(rate).unwrap_or(0);
        let _ = writeln!(
            out,
            "    - {{ match: {{ std.egress_port: {port} }}, action: \"measure({number}, {code})\" }}"
        );
    }
    out
}

/// All routes of a topology, computed once.
pub struct Routes {
    /// By switch, by host: ports that lead there; a host without a way is left out.
    ports: BTreeMap<usize, Vec<(usize, Vec<u16>)>>,
}

impl Routes {
    /// The routes to every host.
    pub fn new(fabric: &Fabric) -> Routes {
        let mut ports: BTreeMap<usize, Vec<(usize, Vec<u16>)>> = BTreeMap::new();
        for host in fabric.hosts() {
            let hops = fabric.hops(host);
            for switch in fabric.switches().filter(|&switch| hops[switch].is_some()) {
                let leading = fabric.leading(switch, &hops);
                let leading = leading.map(|link| fabric.port(switch, link)).collect();
                ports.entry(switch).or_default().push((host, leading));
            }
        }
        Routes { ports }
    }

    /// The entries file of a switch.
    pub fn entries(&self, fabric: &Fabric, switch: usize, to: &Target) -> String {
        match to.transport {
            Transport::RoceV2 => self.routed(fabric, switch, to.telemetry),
            Transport::RoceV1 => self.bridged(switch),
            Transport::Infiniband => self.by_lid(switch),
        }
    }

    /// Ports that lead from a switch to each host; a host without a way is left out.
    fn ports(&self, switch: usize) -> &[(usize, Vec<u16>)] {
        self.ports.get(&switch).map_or(&[], Vec::as_slice)
    }

    /// Every port is an interface of a router, every host a route; programs like `rocev2_lossless`.
    fn routed(&self, fabric: &Fabric, switch: usize, telemetry: Option<Dilation>) -> String {
        let links = &fabric.nodes[switch].links;
        let mut out = "entries:\n  interfaces:\n".to_owned();
        for number in 1..=links.len() as u16 {
            let mac = mac_text(port_mac(switch, number));
            let _ = writeln!(
                out,
                "    - {{ match: {{ std.ingress_port: {number} }}, priority: 10, action: routed_port({mac}) }}"
            );
        }
        // Hosts that are reached the same way share a next hop.
        let mut hops: Vec<Vec<u16>> = Vec::new();
        out += "  routes4:\n";
        for &(host, ref ports) in self.ports(switch) {
            let known = hops.iter().position(|hop| *hop == *ports);
            let hop = known.unwrap_or_else(|| {
                hops.push(ports.clone());
                hops.len() - 1
            });
            let ip = host_ip(host);
            let _ = writeln!(
                out,
                "    - {{ match: {{ ipv4.dst: {ip}/32 }}, action: via({}) }}",
                hop + 1
            );
        }
        out += "  next_hops:\n";
        for (index, ports) in hops.iter().enumerate() {
            let target = match ports.as_slice() {
                [port] => format!("member({port})"),
                _ => format!("group({})", index + 1),
            };
            let _ = writeln!(
                out,
                "    - {{ match: {{ meta.next_hop: {} }}, action: {target} }}",
                index + 1
            );
        }
        out += TRANSPORT_CLASSES;
        if let Some(dilation) = telemetry {
            out += &measured(fabric, switch, dilation);
        }
        out += "members:\n  next_hops:\n";
        for (index, &link) in links.iter().enumerate() {
            let number = index as u16 + 1;
            let far = fabric.far(link, switch);
            let to = match fabric.nodes[far].kind {
                super::fabric::NodeKind::Host => host_mac(far),
                super::fabric::NodeKind::Switch => port_mac(far, fabric.port(far, link)),
            };
            let (from, to) = (mac_text(port_mac(switch, number)), mac_text(to));
            let _ = writeln!(out, "    {number}: send({number}, 0, {from}, {to})");
        }
        let groups: Vec<(usize, &Vec<u16>)> =
            hops.iter().enumerate().filter(|(_, ports)| ports.len() > 1).collect();
        if !groups.is_empty() {
            out += "groups:\n  next_hops:\n";
        }
        for (index, ports) in groups {
            let members: Vec<String> = ports.iter().map(u16::to_string).collect();
            let _ = writeln!(out, "    {}: [{}]", index + 1, members.join(", "));
        }
        out
    }

    /// Every host's MAC address by its port; of several routes the first, as a bridge has it.
    fn bridged(&self, switch: usize) -> String {
        let mut out = "entries:\n  fdb:\n".to_owned();
        for &(host, ref ports) in self.ports(switch) {
            let mac = mac_text(host_mac(host));
            let _ = writeln!(
                out,
                "    - {{ match: {{ meta.vid: 0, ethernet.dst: {mac} }}, action: forward({}) }}",
                ports[0]
            );
        }
        out
    }

    /// Linear forwarding by LID; equal routes are dealt out by LID, as subnet managers do.
    fn by_lid(&self, switch: usize) -> String {
        let mut out = "entries:\n  lft:\n".to_owned();
        for &(host, ref ports) in self.ports(switch) {
            let lid = host_lid(host);
            let port = ports[usize::from(lid) % ports.len()];
            let _ =
                writeln!(out, "    - {{ match: {{ lrh.dlid: {lid} }}, action: forward({port}) }}");
        }
        out
    }
}

/// CNPs and acknowledgements in classes of their own, as `rocev2_lossless` is delivered.
const TRANSPORT_CLASSES: &str = "  transport_class:
    - { match: { bth.opcode: 0x81..0x81 }, priority: 1, action: class(6) }
    - { match: { bth.opcode: 0x11..0x12 }, priority: 1, action: class(5) }
";
