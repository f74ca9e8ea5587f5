//! Nodes, links and routes: the topology as a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wireyard_tables::time::Span;

use crate::ports::PortNumber;
use crate::ports::faults::chance::FaultSetup;
use crate::units::{BitsPerSec, Bytes, Probability};

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives.
    Host,
    /// Forwards.
    Switch,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// Its links, in the order of its ports: port n is `links[n - 1]`.
    pub links: Vec<usize>,
}

/// The properties of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSetup {
    /// Bit rate.
    pub rate: BitsPerSec,
    /// From the last bit leaving to the last bit arriving.
    pub delay: Span,
    /// Longest frame, without its check sequence.
    pub mtu: Bytes,
    /// Frames that never arrive.
    pub loss: Probability,
    /// Frames that arrive with a bit wrong.
    pub corruption: Probability,
    /// Frames that arrive late.
    pub reordering: Probability,
    /// Delay of a reordered frame.
    pub reorder_by: Span,
}

impl LinkSetup {
    /// A link of which nothing is stated: 100 Gbit/s, 1 us, 9216 bytes, and no faults.
    pub(super) const PLAIN: LinkSetup = LinkSetup {
        rate: BitsPerSec::gbit(100),
        delay: Span::from_us(1),
        mtu: Bytes::new(9216),
        loss: Probability::ZERO,
        corruption: Probability::ZERO,
        reordering: Probability::ZERO,
        reorder_by: Span::from_us(10),
    };

    /// The faults of frames on the link, and its delay.
    pub(super) fn faults(&self, seed: u64) -> FaultSetup {
        FaultSetup {
            loss: self.loss,
            corruption: self.corruption,
            duplication: Probability::ZERO,
            reordering: self.reordering,
            reorder_by: self.reorder_by,
            delay: self.delay,
            seed,
        }
    }

    #[cfg(test)]
    /// 100 Gbit/s, 1 us, 1500 bytes, and no faults.
    pub(super) fn clean() -> LinkSetup {
        LinkSetup { mtu: Bytes::new(1500), reorder_by: Span::ZERO, ..LinkSetup::PLAIN }
    }
}

/// A link between two ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Nodes at its ends.
    pub ends: [usize; 2],
    /// Its properties.
    pub setup: LinkSetup,
}

/// A topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Links.
    pub links: Vec<Link>,
    /// Links without routes.
    pub avoided: BTreeSet<usize>,
    /// Names for several nodes: `senders`.
    pub groups: BTreeMap<String, Vec<usize>>,
    /// The queue under test of the scenario: a switch, and the neighbour it sends to.
    pub bottleneck: Option<(usize, usize)>,
    /// Nodes have the numbers of a topology file: node K is `nK`.
    pub is_numbered: bool,
}

impl Node {
    /// The numbers of its ports, in the order of its links.
    pub fn ports(&self) -> impl Iterator<Item = PortNumber> + use<> {
        (1..=self.links.len() as u16).map(PortNumber)
    }

    /// The link of a port.
    pub fn link(&self, port: PortNumber) -> Option<usize> {
        self.links.get(usize::from(port.0).checked_sub(1)?).copied()
    }
}

impl Fabric {
    /// Adds a node.
    pub fn add(&mut self, name: impl Into<String>, kind: NodeKind) -> usize {
        self.nodes.push(Node { name: name.into(), kind, links: Vec::new() });
        self.nodes.len() - 1
    }

    /// Joins two nodes.
    pub fn join(&mut self, a: usize, b: usize, setup: LinkSetup) -> usize {
        let link = self.links.len();
        self.links.push(Link { ends: [a, b], setup });
        self.nodes[a].links.push(link);
        self.nodes[b].links.push(link);
        link
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The link between two nodes, the first if there are several.
    pub fn between(&self, a: usize, b: usize) -> Option<usize> {
        self.links.iter().position(|link| link.ends == [a, b] || link.ends == [b, a])
    }

    /// The name of a link: `h1-s1`.
    pub fn link_name(&self, link: usize) -> String {
        let [a, b] = self.links[link].ends;
        format!("{}-{}", self.nodes[a].name, self.nodes[b].name)
    }

    /// The other end of a link.
    pub fn far(&self, link: usize, node: usize) -> usize {
        let [a, b] = self.links[link].ends;
        if a == node { b } else { a }
    }

    /// The port number of a link at a node.
    pub fn port(&self, node: usize, link: usize) -> PortNumber {
        let place = self.nodes[node].links.iter().position(|known| *known == link);
        place.map_or(PortNumber(0), |index| PortNumber(index as u16 + 1))
    }

    /// Hosts in order.
    pub fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        let is_host = |(_, node): &(usize, &Node)| node.kind == NodeKind::Host;
        self.nodes.iter().enumerate().filter(is_host).map(|(index, _)| index)
    }

    /// Switches in order.
    pub fn switches(&self) -> impl Iterator<Item = usize> + '_ {
        let is_switch = |(_, node): &(usize, &Node)| node.kind == NodeKind::Switch;
        self.nodes.iter().enumerate().filter(is_switch).map(|(index, _)| index)
    }

    /// Number of links on the shortest path from each node to `host`; `None` if there is no path. Routes lead through
    /// switches only.
    pub fn hops(&self, host: usize) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.nodes.len()];
        hops[host] = Some(0);
        let mut line = VecDeque::from([(host, 0)]);
        while let Some((node, near)) = line.pop_front() {
            // A host forwards nothing.
            if node != host && self.nodes[node].kind == NodeKind::Host {
                continue;
            }
            for &link in self.nodes[node].links.iter().filter(|link| !self.avoided.contains(link)) {
                let far = self.far(link, node);
                if hops[far].is_none() {
                    hops[far] = Some(near + 1);
                    line.push_back((far, near + 1));
                }
            }
        }
        hops
    }

    /// By node, switches between it and the nearest host: 0 for hosts and switches with hosts.
    pub fn tiers(&self) -> Vec<u32> {
        let mut tiers: Vec<Option<u32>> = vec![None; self.nodes.len()];
        let mut line: VecDeque<(usize, u32)> = VecDeque::new();
        for (host, _) in self.nodes.iter().enumerate().filter(|(_, n)| n.kind == NodeKind::Host) {
            tiers[host] = Some(0);
            line.push_back((host, 0));
        }
        while let Some((node, tier)) = line.pop_front() {
            let above = if self.nodes[node].kind == NodeKind::Host { tier } else { tier + 1 };
            for &link in &self.nodes[node].links {
                let far = self.far(link, node);
                if tiers[far].is_none() {
                    tiers[far] = Some(above);
                    line.push_back((far, above));
                }
            }
        }
        tiers.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Links from a node towards the host of `hops`: all that are first on a shortest path, in the order of ports.
    pub fn leading<'a>(
        &'a self,
        node: usize,
        hops: &'a [Option<u32>],
    ) -> impl Iterator<Item = usize> + 'a {
        let leads = move |link: &usize| {
            let far = self.far(*link, node);
            let passes = hops[far] == Some(0) || self.nodes[far].kind == NodeKind::Switch;
            let open = !self.avoided.contains(link);
            open && passes && hops[node].is_some() && hops[far].map(|hops| hops + 1) == hops[node]
        };
        self.nodes[node].links.iter().copied().filter(leads)
    }

    /// Links on one shortest path, the first of equals.
    pub fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let hops = self.hops(to);
        let (mut node, mut way) = (from, Vec::new());
        while node != to {
            let link = self.leading(node, &hops).next()?;
            way.push(link);
            node = self.far(link, node);
        }
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two leaves, two spines, two hosts on each leaf.
    fn leaf_spine() -> Fabric {
        let mut fabric = Fabric::default();
        let leaves = [0, 1].map(|n| fabric.add(format!("leaf{n}"), NodeKind::Switch));
        let spines = [0, 1].map(|n| fabric.add(format!("spine{n}"), NodeKind::Switch));
        for leaf in leaves {
            for spine in spines {
                fabric.join(leaf, spine, LinkSetup::clean());
            }
            for n in 0..2 {
                let host = fabric.add(format!("h{leaf}{n}"), NodeKind::Host);
                fabric.join(leaf, host, LinkSetup::clean());
            }
        }
        fabric
    }

    #[test]
    fn tiers_are_counted_from_the_hosts() {
        let fabric = leaf_spine();
        let tier = |name: &str| fabric.tiers()[fabric.find(name).unwrap()];
        assert_eq!(["h00", "leaf1", "spine0"].map(tier), [0, 0, 1]);
    }

    #[test]
    fn every_shortest_way_is_known_and_none_leads_through_a_host() {
        let mut fabric = leaf_spine();
        let (from, to) = (fabric.find("h00").unwrap(), fabric.find("h11").unwrap());
        let routes = |fabric: &Fabric| {
            let leaf = fabric.find("leaf0").unwrap();
            fabric.leading(leaf, &fabric.hops(to)).count()
        };
        assert_eq!(routes(&fabric), 2, "over either spine");
        assert_eq!(fabric.way(from, to).unwrap().len(), 4);
        // A second link of a host to the other leaf is no path for others.
        let (host, leaf) = (fabric.find("h01").unwrap(), fabric.find("leaf1").unwrap());
        fabric.join(host, leaf, LinkSetup::clean());
        assert_eq!(routes(&fabric), 2);
        let alone = fabric.add("alone", NodeKind::Host);
        assert_eq!(fabric.way(alone, to), None);
    }
}
