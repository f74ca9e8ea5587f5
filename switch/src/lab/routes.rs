//! Forwarding tables of lab switches, as the text of an entries file.
//!
//! The routes come from the topology, shortest first; several equally short ones become a group, from which the program
//! chooses. Hosts with adjacent addresses and the same next hops share a prefix, unless it covers a host with other
//! next hops or none: the number of entries grows with the different next hops, not with the hosts. The text is treated
//! as every entries file: it is parsed, checked against the program, and loaded.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use wireyard_pipeline::ir::Program;

use super::addresses::{host_ip, host_lid, host_mac, mac_text, port_mac};
use super::fabric::{Fabric, NodeKind};
use super::scenario::{Scenario, Transport};
use crate::ports::PortNumber;
use crate::roce::telemetry::rate_code;
use crate::units::Dilation;

/// The target of entries.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The transport of the hosts.
    pub transport: Transport,
    /// The program has the table [`INTERFACES`].
    pub has_interfaces: bool,
    /// The program has the table [`CLASSES`].
    pub has_classes: bool,
    /// The program has the table [`LINKS`]; the dilation of the links.
    pub telemetry: Option<Dilation>,
}

impl Target {
    /// Switches of this program in a scenario.
    pub fn new(scenario: &Scenario, program: &Program) -> Target {
        let has = |name: &str| program.tables.iter().any(|table| table.name == name);
        Target {
            transport: scenario.host.transport,
            has_interfaces: has(INTERFACES),
            has_classes: has(CLASSES),
            telemetry: has(LINKS).then_some(scenario.host.dilation),
        }
    }
}

/// The table of routed ports, as `rocev2_lossless` has it; a program that routes on every port needs none.
pub const INTERFACES: &str = "interfaces";
/// The table that puts acknowledgements and CNPs into classes of their own.
pub const CLASSES: &str = "transport_class";
/// The table of links whose telemetry goes into packets, as `hpcc_int` has it.
pub const LINKS: &str = "links";
/// Numbers of switches in telemetry have 12 bits; 0 would be no number.
const NUMBERS: usize = 0xfff;

/// The code of each link of a switch, 0 for a rate without one, whose telemetry is not used.
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

/// Every port of a switch, as one that is routed.
fn routed_ports(fabric: &Fabric, switch: usize) -> String {
    let mut out = format!("  {INTERFACES}:\n");
    for number in fabric.nodes[switch].ports() {
        let mac = mac_text(port_mac(switch, number));
        let _ = writeln!(
            out,
            "    - {{ match: {{ std.ingress_port: {number} }}, priority: 10, action: routed_port({mac}) }}"
        );
    }
    out
}

/// All routes of a topology, computed once.
pub struct Routes {
    hosts: Vec<usize>,
    /// By node; a host has none.
    switches: Vec<Ways>,
}

/// The routes of one switch to the hosts.
#[derive(Clone, Debug, Default)]
struct Ways {
    /// Sets of ports with the same destinations, each once.
    sets: Vec<Vec<PortNumber>>,
    /// By host, in the order of hosts: the set that leads there; [`NOWHERE`] without a route.
    to: Vec<u16>,
}

/// No route.
const NOWHERE: u16 = u16::MAX;
/// Bits of a host's address that are its own, after 10.0.
const HOST_BITS: u32 = 16;

impl Ways {
    /// The number of a set of ports.
    fn set(&mut self, ports: Vec<PortNumber>) -> u16 {
        let known = self.sets.iter().position(|set| *set == ports);
        let set = known.unwrap_or_else(|| {
            self.sets.push(ports);
            self.sets.len() - 1
        });
        set as u16
    }

    /// Hosts with a route, and the ports that lead there.
    fn each<'a>(&'a self, hosts: &'a [usize]) -> impl Iterator<Item = (usize, &'a [PortNumber])> {
        let pairs = hosts.iter().zip(&self.to);
        pairs.filter_map(|(host, set)| Some((*host, self.sets.get(usize::from(*set))?.as_slice())))
    }
}

/// By node: the set of ports that leads from a switch to a node, which is not that switch.
fn sets(fabric: &Fabric, to: usize, switches: &mut [Ways]) -> Vec<u16> {
    let hops = fabric.hops(to);
    let mut sets = vec![NOWHERE; fabric.nodes.len()];
    for switch in fabric.switches().filter(|&switch| switch != to && hops[switch].is_some()) {
        let leading = fabric.leading(switch, &hops);
        let ports = leading.map(|link| fabric.port(switch, link)).collect();
        sets[switch] = switches[switch].set(ports);
    }
    sets
}

impl Routes {
    /// The routes to every host. All hosts of one switch have the same routes, so the search is done once for each such
    /// switch.
    pub fn new(fabric: &Fabric) -> Routes {
        let mut switches = vec![Ways::default(); fabric.nodes.len()];
        // By switch with hosts, by switch: the set that leads there.
        let mut racks: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for host in fabric.hosts() {
            let links = fabric.nodes[host].links.iter().copied();
            let mut links = links.filter(|link| !fabric.avoided.contains(link));
            let first = links.next().map(|link| (link, fabric.far(link, host)));
            let rack = first.filter(|(_, far)| {
                links.next().is_none() && fabric.nodes[*far].kind == NodeKind::Switch
            });
            let Some((link, rack)) = rack else {
                let sets = sets(fabric, host, &mut switches);
                fabric.switches().for_each(|switch| switches[switch].to.push(sets[switch]));
                continue;
            };
            let sets = racks.entry(rack).or_insert_with(|| sets(fabric, rack, &mut switches));
            for switch in fabric.switches() {
                let set = match switch == rack {
                    true => switches[rack].set(vec![fabric.port(rack, link)]),
                    false => sets[switch],
                };
                switches[switch].to.push(set);
            }
        }
        Routes { hosts: fabric.hosts().collect(), switches }
    }

    /// The entries file of a switch.
    pub fn entries(&self, fabric: &Fabric, switch: usize, to: &Target) -> String {
        match to.transport {
            Transport::RoceV2 => self.routed(fabric, switch, to),
            Transport::RoceV1 => self.bridged(switch),
            Transport::Infiniband => self.by_lid(switch),
        }
    }

    /// Ports that lead from a switch to each host; a host without a route is left out.
    fn ports(&self, switch: usize) -> impl Iterator<Item = (usize, &[PortNumber])> {
        self.switches[switch].each(&self.hosts)
    }

    /// Every port is an interface of a router, every host a route; programs like `rocev2_lossless`.
    fn routed(&self, fabric: &Fabric, switch: usize, target: &Target) -> String {
        let links = &fabric.nodes[switch].links;
        let mut out = "entries:\n".to_owned();
        if target.has_interfaces {
            out += &routed_ports(fabric, switch);
        }
        let Ways { sets: hops, to } = &self.switches[switch];
        out += "  routes4:\n";
        for (address, len, hop) in prefixes(&self.hosts, to) {
            let _ = writeln!(
                out,
                "    - {{ match: {{ ipv4.dst: {address}/{len} }}, action: via({}) }}",
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
        if target.has_classes {
            out += TRANSPORT_CLASSES;
        }
        if let Some(dilation) = target.telemetry {
            out += &measured(fabric, switch, dilation);
        }
        out += "members:\n  next_hops:\n";
        for (number, &link) in fabric.nodes[switch].ports().zip(links) {
            let far = fabric.far(link, switch);
            let to = match fabric.nodes[far].kind {
                NodeKind::Host => host_mac(far),
                NodeKind::Switch => port_mac(far, fabric.port(far, link)),
            };
            let (from, to) = (mac_text(port_mac(switch, number)), mac_text(to));
            let _ = writeln!(out, "    {number}: send({number}, 0, {from}, {to})");
        }
        let groups: Vec<(usize, &Vec<PortNumber>)> =
            hops.iter().enumerate().filter(|(_, ports)| ports.len() > 1).collect();
        if !groups.is_empty() {
            out += "groups:\n  next_hops:\n";
        }
        for (index, ports) in groups {
            let members: Vec<String> = ports.iter().map(PortNumber::to_string).collect();
            let _ = writeln!(out, "    {}: [{}]", index + 1, members.join(", "));
        }
        out
    }

    /// Every host's MAC address by its port; of several routes the first, as a bridge has it.
    fn bridged(&self, switch: usize) -> String {
        let mut out = "entries:\n  fdb:\n".to_owned();
        for (host, ports) in self.ports(switch) {
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
        for (host, ports) in self.ports(switch) {
            let lid = host_lid(host);
            let port = ports[usize::from(lid) % ports.len()];
            let _ =
                writeln!(out, "    - {{ match: {{ lrh.dlid: {lid} }}, action: forward({port}) }}");
        }
        out
    }
}

/// The fewest disjoint prefixes that route every host correctly: address, length and set.
fn prefixes(hosts: &[usize], to: &[u16]) -> Vec<(Ipv4Addr, u32, u16)> {
    let mut found = Vec::new();
    let ways: Vec<(usize, u16)> = hosts.iter().copied().zip(to.iter().copied()).collect();
    cover(&ways, 0, HOST_BITS, &mut found);
    found
}

/// Covers the hosts of a block of `2^bits` addresses, in order, that begins with the one of node `first`.
fn cover(ways: &[(usize, u16)], first: usize, bits: u32, found: &mut Vec<(Ipv4Addr, u32, u16)>) {
    let Some(&(_, set)) = ways.first() else { return };
    if ways.iter().all(|way| way.1 == set) {
        if set != NOWHERE {
            found.push((host_ip(first), 32 - bits, set));
        }
        return;
    }
    // Two hosts at least: a block of one address has one.
    let half = first + (1 << (bits - 1));
    let (low, high) = ways.split_at(ways.partition_point(|way| way.0 < half));
    cover(low, first, bits - 1, found);
    cover(high, half, bits - 1, found);
}

/// CNPs and acknowledgements in classes of their own, as in `rocev2_lossless`.
const TRANSPORT_CLASSES: &str = "  transport_class:
    - { match: { bth.opcode: 0x81..0x81 }, priority: 1, action: class(6) }
    - { match: { bth.opcode: 0x11..0x12 }, priority: 1, action: class(5) }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::random::Stream;

    /// The route of an address as a switch looks it up: by the longest prefix.
    fn found(prefixes: &[(Ipv4Addr, u32, u16)], host: usize) -> u16 {
        let address = u32::from(host_ip(host));
        let covers = |&&(prefix, len, _): &&(Ipv4Addr, u32, u16)| {
            u32::from(prefix) >> (32 - len) == address >> (32 - len)
        };
        let mut all = prefixes.iter().filter(covers);
        let way = all.next().map_or(NOWHERE, |prefix| prefix.2);
        assert_eq!(all.next(), None, "one prefix inside of another");
        way
    }

    /// Three racks and two spines, a spare link cut, one host whose link is cut: as a search for each host finds them.
    #[test]
    fn a_rack_is_reached_as_each_of_its_hosts_is() {
        use super::super::fabric::LinkSetup;
        let mut fabric = Fabric::default();
        let spines = [0, 1].map(|n| fabric.add(format!("spine{n}"), NodeKind::Switch));
        let mut cut = Vec::new();
        for rack in 0..3 {
            let leaf = fabric.add(format!("leaf{rack}"), NodeKind::Switch);
            let up = spines.map(|spine| fabric.join(leaf, spine, LinkSetup::clean()));
            cut.extend((rack == 1).then_some(up[0]));
            for n in 0..3 {
                let host = fabric.add(format!("h{rack}{n}"), NodeKind::Host);
                let link = fabric.join(leaf, host, LinkSetup::clean());
                cut.extend(((rack, n) == (2, 1)).then_some(link));
            }
        }
        for avoided in [Vec::new(), cut] {
            fabric.avoided = avoided.into_iter().collect();
            let routes = Routes::new(&fabric);
            for switch in fabric.switches() {
                let mut found = routes.ports(switch);
                for host in fabric.hosts() {
                    let hops = fabric.hops(host);
                    let leading = fabric.leading(switch, &hops);
                    let ports: Vec<PortNumber> =
                        leading.map(|link| fabric.port(switch, link)).collect();
                    if hops[switch].is_some() {
                        assert_eq!(found.next(), Some((host, &ports[..])), "switch {switch}");
                    }
                }
                assert_eq!(found.next(), None);
            }
        }
    }

    #[test]
    fn every_host_has_its_way_and_neighbours_share_a_prefix() {
        let mut stream = Stream::new(11, 11);
        for run in 0..200u32 {
            let mut hosts: Vec<usize> = Vec::new();
            let mut to = Vec::new();
            let mut node = 0;
            for _ in 0..1 + stream.next_u32() % 40 {
                // Runs of hosts with one route, with switches between them.
                let way = [NOWHERE, 0, 1, 2][stream.next_u32() as usize % 4];
                for _ in 0..1 + stream.next_u32() % 20 {
                    hosts.push(node);
                    to.push(way);
                    node += 1 + (stream.next_u32() % 3) as usize * (run % 2) as usize;
                }
            }
            let prefixes = prefixes(&hosts, &to);
            for (host, way) in hosts.iter().zip(&to) {
                assert_eq!(found(&prefixes, *host), *way, "host {host} of run {run}");
            }
            assert!(prefixes.len() <= hosts.len());
        }
        // A rack below one port, all other hosts above.
        let (hosts, mut to): (Vec<usize>, Vec<u16>) = ((64..1088).collect(), vec![0; 1024]);
        (0..8).for_each(|n| to[128 + n] = 1 + n as u16);
        assert_eq!(prefixes(&hosts, &to).len(), 8 + 8);
    }
}
