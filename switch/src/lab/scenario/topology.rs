//! Generators of topologies, and topologies written out.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::diag::{Files, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;

use super::quantity::{bounded, chance, rate, size, span};
use super::sheets::Sheets;
use super::{hpcc, shapes};
use crate::lab::fabric::{Fabric, LinkSetup, NodeKind};
use crate::units::Bytes;

/// Most nodes of a lab, links of it, and links of one node.
const NODES_MAX: u64 = 1 << 12;
const LINKS_MAX: u64 = 1 << 14;
const NODE_LINKS_MAX: u64 = 1 << 10;
/// Most rows in forwarding tables: every switch has every host. A fat tree of k = 16 has 327,680.
const WAYS_MAX: u64 = 1 << 19;
/// Longest frame: lengths of IP are numbers of 16 bits.
const FRAME_MAX: Bytes = Bytes::new(u16::MAX as u64);

/// The size of a topology, computed before anything is built.
#[derive(Clone, Copy, Default)]
struct Extent {
    hosts: u64,
    switches: u64,
    links: u64,
    /// Links of the node that has the most.
    widest: u64,
}

impl Extent {
    fn of(fabric: &Fabric) -> Extent {
        let widest = fabric.nodes.iter().map(|node| node.links.len()).max();
        Extent {
            hosts: fabric.hosts().count() as u64,
            switches: fabric.switches().count() as u64,
            links: fabric.links.len() as u64,
            widest: widest.unwrap_or(0) as u64,
        }
    }

    /// Checks that a lab can be so large; excess is reported.
    fn fits(self, decoder: &mut Decoder<'_>, span: SourceSpan) -> bool {
        let nodes = self.hosts + self.switches;
        let found = [
            (nodes, NODES_MAX, "nodes"),
            (self.links, LINKS_MAX, "links"),
            (self.widest, NODE_LINKS_MAX, "links of one switch"),
            (self.hosts * self.switches, WAYS_MAX, "rows in forwarding tables, switches x hosts"),
        ];
        let mut fits = true;
        for (_, most, what) in found.into_iter().filter(|(found, most, _)| found > most) {
            let Extent { hosts, switches, links, widest } = self;
            let message = format!("this topology is too large: at most {most} {what}");
            decoder.diagnostics.error(codes::LIMIT, span, message).note(format!(
                "it has {hosts} hosts, {switches} switches and {links} links, {widest} at one node"
            ));
            fits = false;
        }
        fits
    }
}

/// A link that differs from `base` in the keys that are present.
pub(super) fn link(decoder: &mut Decoder<'_>, node: &Node, base: &LinkSetup) -> Option<LinkSetup> {
    let fields = decoder.map(node, &shapes::LINK)?;
    Some(differing(decoder, &fields, base))
}

fn differing(decoder: &mut Decoder<'_>, fields: &Fields<'_>, base: &LinkSetup) -> LinkSetup {
    let mut link = *base;
    let set = |name| fields.get(name);
    if let Some(found) = set("rate").and_then(|node| rate(decoder, node)) {
        link.rate = found;
    }
    if let Some(found) = set("delay").and_then(|node| span(decoder, node)) {
        link.delay = found;
    }
    if let Some(found) = set("mtu").and_then(|node| size(decoder, node, "frames")) {
        link.mtu = found;
        if found > FRAME_MAX {
            let message = format!("frames of {found}: at most {} B", FRAME_MAX.get());
            let span = set("mtu").map_or(fields.span, |node| node.span);
            decoder.diagnostics.error(codes::LIMIT, span, message);
        }
    }
    if let Some(found) = set("loss").and_then(|node| chance(decoder, node)) {
        link.loss = found;
    }
    if let Some(found) = set("corruption").and_then(|node| chance(decoder, node)) {
        link.corruption = found;
    }
    if let Some(found) = set("reordering").and_then(|node| chance(decoder, node)) {
        link.reordering = found;
    }
    if let Some(found) = set("reorder_by").and_then(|node| span(decoder, node)) {
        link.reorder_by = found;
    }
    link
}

/// Reads a topology. `base` is the default link.
pub(super) fn read(
    decoder: &mut Decoder<'_>,
    node: &Node,
    base: LinkSetup,
    (sheets, files): (&Sheets, &Files),
) -> Option<Fabric> {
    let fields = decoder.map(node, &shapes::TOPOLOGY)?;
    let generators =
        ["incast", "dumbbell", "parking_lot", "leaf_spine", "fat_tree", "ring", "file"];
    let chosen: Vec<&str> =
        generators.into_iter().filter(|name| fields.get(name).is_some()).collect();
    let mut fabric = match chosen.as_slice() {
        [] => Fabric::default(),
        ["file"] => {
            let file = fields.get("file")?;
            decoder.word(file)?;
            let id = sheets.text_of(decoder, file)?;
            hpcc::topology(decoder, (id, files[id].text.as_str()), &base)?
        }
        [one] => generated(decoder, one, fields.get(one)?, base)?,
        [one, other, ..] => {
            decoder.exclude(&fields, one, other);
            return None;
        }
    };
    written(decoder, &fields, base, &mut fabric)?;
    if fabric.links.is_empty() {
        let choices = generators.join("`, `");
        let error =
            decoder.diagnostics.error(codes::SCENARIO, fields.span, "a topology without links");
        error.help(format!("take one of `{choices}`, or write `hosts`, `switches` and `links`"));
        return None;
    }
    Some(fabric)
}

fn generated(
    decoder: &mut Decoder<'_>,
    kind: &str,
    node: &Node,
    base: LinkSetup,
) -> Option<Fabric> {
    let shape = match kind {
        "incast" => &shapes::INCAST,
        "dumbbell" => &shapes::DUMBBELL,
        "parking_lot" => &shapes::PARKING_LOT,
        "leaf_spine" => &shapes::LEAF_SPINE,
        "fat_tree" => &shapes::FAT_TREE,
        _ => &shapes::RING,
    };
    let fields = decoder.map(node, shape)?;
    let special = |decoder: &mut Decoder<'_>, name| match fields.get(name) {
        Some(node) => link(decoder, node, &base),
        None => Some(base),
    };
    let count = |decoder: &mut Decoder<'_>, name, least| {
        bounded(decoder, fields.get(name)?, name, (least, NODES_MAX)).map(|n| n as usize)
    };
    let fits = |decoder: &mut Decoder<'_>, hosts, switches, links, widest| {
        let extent = [hosts, switches, links, widest].map(|count: usize| count as u64);
        let [hosts, switches, links, widest] = extent;
        Extent { hosts, switches, links, widest }.fits(decoder, node.span).then_some(())
    };
    Some(match kind {
        "incast" => {
            // The receiver's link is one of the switch's.
            let most = (1, NODE_LINKS_MAX - 1);
            let senders = bounded(decoder, fields.get("senders")?, "senders", most)? as usize;
            fits(decoder, senders + 1, 1, senders + 1, senders + 1)?;
            incast(senders, base, special(decoder, "last_hop")?)
        }
        "dumbbell" => {
            let pairs = count(decoder, "pairs", 1)?;
            fits(decoder, 2 * pairs, 2, 2 * pairs + 1, pairs + 1)?;
            dumbbell(pairs, base, special(decoder, "middle")?)
        }
        "parking_lot" => {
            let hops = count(decoder, "hops", 1)?;
            fits(decoder, 2 * hops + 2, hops + 1, 3 * hops + 2, 4)?;
            parking_lot(hops, base, special(decoder, "middle")?)
        }
        "leaf_spine" => {
            let leaves = count(decoder, "leaves", 1)?;
            let (spines, hosts) = (count(decoder, "spines", 1)?, count(decoder, "hosts", 1)?);
            let (links, widest) = (leaves * (spines + hosts), leaves.max(spines + hosts));
            fits(decoder, leaves * hosts, leaves + spines, links, widest)?;
            leaf_spine(leaves, spines, hosts, base, special(decoder, "uplink")?)
        }
        "fat_tree" => {
            let k = bounded(decoder, fields.get("k")?, "k", (2, 16))? as usize;
            if !k.is_multiple_of(2) {
                let span = fields.get("k")?.span;
                return decoder.refuse(codes::SCENARIO, span, "k of a fat tree is even");
            }
            fat_tree(k, base)
        }
        _ => {
            let switches = count(decoder, "switches", 3)?;
            fits(decoder, switches, switches, 2 * switches, 3)?;
            ring(switches, base)
        }
    })
}

fn incast(senders: usize, base: LinkSetup, last_hop: LinkSetup) -> Fabric {
    let mut fabric = Fabric::default();
    let switch = fabric.add("s1", NodeKind::Switch);
    let mut group = Vec::new();
    for n in 1..=senders {
        let host = fabric.add(format!("h{n}"), NodeKind::Host);
        fabric.join(host, switch, base);
        group.push(host);
    }
    let sink = fabric.add("sink", NodeKind::Host);
    fabric.join(switch, sink, last_hop);
    fabric.groups.insert("senders".to_owned(), group);
    fabric.bottleneck = Some((switch, sink));
    fabric
}

fn dumbbell(pairs: usize, base: LinkSetup, middle: LinkSetup) -> Fabric {
    let mut fabric = Fabric::default();
    let (s1, s2) = (fabric.add("s1", NodeKind::Switch), fabric.add("s2", NodeKind::Switch));
    fabric.join(s1, s2, middle);
    for (group, letter, switch) in [("left", "a", s1), ("right", "b", s2)] {
        let mut members = Vec::new();
        for n in 1..=pairs {
            let host = fabric.add(format!("{letter}{n}"), NodeKind::Host);
            fabric.join(host, switch, base);
            members.push(host);
        }
        fabric.groups.insert(group.to_owned(), members);
    }
    fabric.bottleneck = Some((s1, s2));
    fabric
}

/// `long` crosses every hop to `end`; `xN` enters and `yN` leaves at hop N.
fn parking_lot(hops: usize, base: LinkSetup, middle: LinkSetup) -> Fabric {
    let mut fabric = Fabric::default();
    let switches: Vec<usize> =
        (1..=hops + 1).map(|n| fabric.add(format!("s{n}"), NodeKind::Switch)).collect();
    for pair in switches.windows(2) {
        fabric.join(pair[0], pair[1], middle);
    }
    let host = |fabric: &mut Fabric, name: String, switch| {
        let host = fabric.add(name, NodeKind::Host);
        fabric.join(host, switch, base);
        host
    };
    host(&mut fabric, "long".to_owned(), switches[0]);
    host(&mut fabric, "end".to_owned(), switches[hops]);
    let (mut enter, mut leave) = (Vec::new(), Vec::new());
    for n in 1..=hops {
        enter.push(host(&mut fabric, format!("x{n}"), switches[n - 1]));
        leave.push(host(&mut fabric, format!("y{n}"), switches[n]));
    }
    fabric.groups.insert("enter".to_owned(), enter);
    fabric.groups.insert("leave".to_owned(), leave);
    fabric.bottleneck = Some((switches[0], switches[1]));
    fabric
}

fn leaf_spine(
    leaves: usize,
    spines: usize,
    hosts: usize,
    base: LinkSetup,
    uplink: LinkSetup,
) -> Fabric {
    let mut fabric = Fabric::default();
    let spine: Vec<usize> =
        (1..=spines).map(|n| fabric.add(format!("spine{n}"), NodeKind::Switch)).collect();
    for n in 1..=leaves {
        let leaf = fabric.add(format!("leaf{n}"), NodeKind::Switch);
        for &spine in &spine {
            fabric.join(leaf, spine, uplink);
        }
        for h in 1..=hosts {
            let host = fabric.add(format!("h{}", (n - 1) * hosts + h), NodeKind::Host);
            fabric.join(leaf, host, base);
        }
    }
    fabric
}

/// Al-Fares et al. 2008: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.
fn fat_tree(k: usize, base: LinkSetup) -> Fabric {
    let half = k / 2;
    let mut fabric = Fabric::default();
    let core: Vec<usize> =
        (1..=half * half).map(|n| fabric.add(format!("core{n}"), NodeKind::Switch)).collect();
    let mut hosts = 0;
    for pod in 1..=k {
        let above: Vec<usize> =
            (1..=half).map(|n| fabric.add(format!("agg{pod}.{n}"), NodeKind::Switch)).collect();
        for (n, &switch) in above.iter().enumerate() {
            for &core in &core[n * half..(n + 1) * half] {
                fabric.join(switch, core, base);
            }
        }
        for n in 1..=half {
            let edge = fabric.add(format!("edge{pod}.{n}"), NodeKind::Switch);
            for &above in &above {
                fabric.join(edge, above, base);
            }
            for _ in 0..half {
                hosts += 1;
                let host = fabric.add(format!("h{hosts}"), NodeKind::Host);
                fabric.join(edge, host, base);
            }
        }
    }
    fabric
}

fn ring(count: usize, base: LinkSetup) -> Fabric {
    let mut fabric = Fabric::default();
    let switches: Vec<usize> =
        (1..=count).map(|n| fabric.add(format!("s{n}"), NodeKind::Switch)).collect();
    for n in 0..count {
        fabric.join(switches[n], switches[(n + 1) % count], base);
    }
    for (n, &switch) in switches.iter().enumerate() {
        let host = fabric.add(format!("h{}", n + 1), NodeKind::Host);
        fabric.join(host, switch, base);
    }
    fabric
}

/// Nodes and links by name, added to what was generated.
fn written(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    base: LinkSetup,
    fabric: &mut Fabric,
) -> Option<()> {
    let mut lonely = nodes(decoder, fields, fabric)?;
    let mut names = BTreeMap::new();
    (0..fabric.links.len()).for_each(|link| _ = other_of_name(fabric, link, &mut names));
    for item in fields.get("links").map(|node| decoder.one_or_more(node, "a link")).unwrap_or(&[]) {
        let Some(link_fields) = decoder.map(item, &shapes::JOINED_LINK) else { continue };
        let setup = differing(decoder, &link_fields, &base);
        let Some(ends) = link_fields.get("ends") else { continue };
        let (place, Some((a, b))) = (ends.span, two_nodes(decoder, ends, fabric)) else { continue };
        let host = |&node: &usize| fabric.nodes[node].kind == NodeKind::Host;
        if let Some(host) =
            [a, b].into_iter().filter(host).find(|&n| !fabric.nodes[n].links.is_empty())
        {
            let name = &fabric.nodes[host].name;
            let message = format!("a second link of `{name}`: a host has one");
            let way_out = "make two hosts of it, or join it to a switch that has both links";
            decoder.diagnostics.error(codes::SCENARIO, place, message).help(way_out);
            continue;
        }
        let link = fabric.join(a, b, setup);
        if let Some((name, other)) = other_of_name(fabric, link, &mut names) {
            let ends = [other, link].map(|link| {
                let [a, b] = fabric.links[link].ends.map(|node| fabric.nodes[node].name.as_str());
                format!("`{a}` and `{b}`")
            });
            let message =
                format!("`{name}` would name two links: of {}, and of {}", ends[0], ends[1]);
            let error = decoder.diagnostics.error(codes::SCENARIO, place, message);
            error.help("give one of these nodes another name");
            continue;
        }
        if fabric.links.len() as u64 > LINKS_MAX {
            break;
        }
    }
    lonely.retain(|(node, _)| fabric.nodes[*node].links.is_empty());
    if decoder.diagnostics.has_errors() {
        // A link that is wrong is why.
        lonely.clear();
    }
    for (node, span) in lonely {
        let message = format!("`{}` has no link", fabric.nodes[node].name);
        decoder.diagnostics.error(codes::SCENARIO, span, message);
    }
    if !Extent::of(fabric).fits(decoder, fields.span) {
        return None;
    }
    if let Some(node) = fields.get("bottleneck") {
        let (switch, neighbour) = two_nodes(decoder, node, fabric)?;
        let joined = fabric.between(switch, neighbour).is_some();
        if fabric.nodes[switch].kind != NodeKind::Switch || !joined {
            let message = "a bottleneck is a switch and the neighbour that it sends to";
            return decoder.refuse(codes::SCENARIO, node.span, message);
        }
        fabric.bottleneck = Some((switch, neighbour));
    }
    Some(())
}

/// Adds the nodes that are written; returns them, with their places.
fn nodes(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    fabric: &mut Fabric,
) -> Option<Vec<(usize, SourceSpan)>> {
    let mut added = Vec::new();
    let mut known: BTreeSet<String> = fabric.nodes.iter().map(|node| node.name.clone()).collect();
    for (key, kind) in [("hosts", NodeKind::Host), ("switches", NodeKind::Switch)] {
        let Some(list) = fields.get(key) else { continue };
        for name in decoder.each(list, "a name", Decoder::word) {
            let is_group = name.value == "hosts" || fabric.groups.contains_key(&name.value);
            if name.value.is_empty() || is_group {
                let message = match is_group {
                    true => format!("`{}` is the name of a group of hosts", name.value),
                    false => "a node needs a name".to_owned(),
                };
                // It is added all the same: what joins it is right.
                decoder.diagnostics.error(codes::SCENARIO, name.span, message);
            }
            if !known.insert(name.value.clone()) {
                let message = format!("there is a node `{}` already", name.value);
                decoder.diagnostics.error(codes::TWICE, name.span, message);
                continue;
            }
            added.push((fabric.add(name.value, kind), name.span));
        }
    }
    let all_fit = fabric.nodes.len() as u64 <= NODES_MAX;
    (all_fit || Extent::of(fabric).fits(decoder, fields.span)).then_some(added)
}

/// A link by the names of its ends: `h1-s1`.
pub(super) fn link_named(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<usize> {
    let name = decoder.word(node)?;
    let found = (0..fabric.links.len()).find(|&link| names_of(fabric, link).contains(&name.value));
    if found.is_none() {
        let names: Vec<String> = (0..fabric.links.len()).map(|n| fabric.link_name(n)).collect();
        decoder
            .diagnostics
            .error(codes::UNKNOWN, name.span, format!("there is no link `{}`", name.value))
            .note("a link is named by its ends, as in `h1-s1`")
            .did_you_mean(&name.value, names.iter().map(String::as_str));
    }
    found
}

/// Adds the names of a link to those known; returns one that a link between other nodes has, and that link.
fn other_of_name(
    fabric: &Fabric,
    link: usize,
    known: &mut BTreeMap<String, usize>,
) -> Option<(String, usize)> {
    let ends = |link: usize| BTreeSet::from(fabric.links[link].ends);
    let others = names_of(fabric, link).map(|name| {
        let other = *known.entry(name.clone()).or_insert(link);
        (ends(other) != ends(link)).then_some((name, other))
    });
    others.into_iter().flatten().next()
}

fn names_of(fabric: &Fabric, link: usize) -> [String; 2] {
    let [a, b] = fabric.links[link].ends.map(|node| fabric.nodes[node].name.as_str());
    [format!("{a}-{b}"), format!("{b}-{a}")]
}

fn two_nodes(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<(usize, usize)> {
    let items = decoder.items(node, "two nodes")?;
    let [a, b] = items else {
        return decoder.refuse(codes::WRONG_TYPE, node.span, "two different nodes are needed");
    };
    let (one, other) = (node_named(decoder, a, fabric), node_named(decoder, b, fabric));
    let (one, other) = (one?, other?);
    if one == other {
        return decoder.refuse(codes::WRONG_TYPE, node.span, "two different nodes are needed");
    }
    Some((one, other))
}

/// The node with this name.
pub(super) fn node_named(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<usize> {
    let name = decoder.word(node)?;
    let found = fabric.find(&name.value);
    if found.is_none() {
        decoder
            .diagnostics
            .error(codes::UNKNOWN, name.span, format!("there is no node `{}`", name.value))
            .did_you_mean(&name.value, fabric.nodes.iter().map(|node| node.name.as_str()));
    }
    found
}
