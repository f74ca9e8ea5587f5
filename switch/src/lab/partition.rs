//! Which nodes of a lab run together, and how far ahead of each other the partitions may run.
//!
//! A host is beside its switch, because they exchange most; a switch whose hosts are more than a partition's share of
//! the work is separated from them. Nodes that a very short link joins are never separated, because then neither could
//! run ahead of the other. The work of a node is estimated from the flows, in packets; an estimate that is wrong
//! costs time and changes no result.

use wireyard_tables::time::{Span, Time};

use super::fabric::{Fabric, NodeKind};
use super::scenario::{FlowSpec, Scenario};

use crate::ports::PortNumber;

/// Partitions exchange their clocks once in the delay of the link between them, which costs them a microsecond or more:
/// nodes with a shorter link run together.
const LOOKAHEAD_MIN: Span = Span::from_ns(50);
/// Work of a packet at its sender or receiver, where 2 is that of a switch.
const AT_HOST: u64 = 3;
const AT_SWITCH: u64 = 2;

/// The assignment of nodes to partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// By partition: its nodes, in order.
    pub(super) parts: Vec<Vec<usize>>,
    /// By node: its partition, and its number there.
    pub(super) of: Vec<(usize, usize)>,
    /// By node: the place of its first port in the arrival index of its partition.
    pub(super) places: Vec<usize>,
    /// By partition that sends, by partition that receives: the least time of a frame; [`Span::MAX`] without a link.
    pub(super) lookahead: Vec<Vec<Span>>,
}

impl Layout {
    /// All nodes in one partition.
    pub(super) fn one(fabric: &Fabric) -> Layout {
        Layout::of(fabric, &vec![0; fabric.nodes.len()])
    }

    /// Partitions by number for each node.
    pub(super) fn of(fabric: &Fabric, chosen: &[usize]) -> Layout {
        let count = chosen.iter().max().map_or(1, |most| most + 1);
        let mut parts = vec![Vec::new(); count];
        let (mut of, mut places) = (Vec::new(), Vec::new());
        let mut next = vec![0; count];
        for (node, &part) in chosen.iter().enumerate() {
            of.push((part, parts[part].len()));
            parts[part].push(node);
            places.push(next[part]);
            next[part] += fabric.nodes[node].links.len();
        }
        let mut lookahead = vec![vec![Span::MAX; count]; count];
        for link in &fabric.links {
            let [a, b] = link.ends.map(|node| chosen[node]);
            for (from, to) in [(a, b), (b, a)].into_iter().filter(|(from, to)| from != to) {
                lookahead[from][to] = lookahead[from][to].min(link.setup.delay);
            }
        }
        Layout { parts, of, places, lookahead }
    }

    /// The place of a port of a node in the arrival index of its partition.
    pub(super) fn place(&self, node: usize, port: PortNumber) -> usize {
        self.places[node] + usize::from(port.0) - 1
    }
}

/// The layout of a scenario for `workers` workers.
pub(super) fn plan(scenario: &Scenario, workers: usize) -> Layout {
    let fabric = &scenario.fabric;
    if workers < 2 {
        return Layout::one(fabric);
    }
    let atoms = atoms(fabric, &work(scenario), workers);
    let chosen = assign(fabric, &atoms, workers);
    // Partitions without a node are left out.
    let mut numbers: Vec<usize> = chosen.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let dense: Vec<usize> =
        chosen.iter().map(|part| numbers.binary_search(part).unwrap_or(0)).collect();
    Layout::of(fabric, &dense)
}

/// Number of workers that a scenario can use, at most `wanted`, and the reason if fewer.
pub fn workers(scenario: &Scenario, wanted: usize) -> (usize, Option<String>) {
    let can = plan(scenario, wanted).parts.len();
    let why = (can < wanted).then(|| {
        let fabric = &scenario.fabric;
        let short = fabric.links.iter().position(|link| link.setup.delay < LOOKAHEAD_MIN);
        let reason = match short {
            Some(link) => format!(
                "nodes that are joined by a link of less than {LOOKAHEAD_MIN}, as `{}`, run together",
                fabric.link_name(link)
            ),
            None => format!("its {} nodes cannot share the work further", fabric.nodes.len()),
        };
        format!("{wanted} workers are too many for it, {can} run: {reason}")
    });
    (can, why)
}

/// By node, what it has to do.
fn work(scenario: &Scenario) -> Vec<u64> {
    let fabric = &scenario.fabric;
    let mut work = vec![1u64; fabric.nodes.len()];
    let over = Time::ZERO + scenario.duration;
    let own = |host: usize| fabric.nodes[host].links.first().map(|&link| fabric.far(link, host));
    let mut passing = 0u64;
    let count_by_sender = count_by_sender(&scenario.flows, fabric.nodes.len());
    for flow in &scenario.flows {
        let packet = scenario.host_of(flow.from).path_mtu.get().max(1);
        let line = fabric.nodes[flow.from].links.first();
        let rate = line.map_or(0, |&link| fabric.links[link].setup.rate.get());
        // Bytes that the link carries until the end, shared by the flows of the host.
        let most =
            u128::from(rate) * u128::from(over.since(flow.start).as_ps()) / 8_000_000_000_000;
        let most = most as u64 / count_by_sender[flow.from].max(1);
        let asked = flow.size.map(|size| size.get().saturating_mul(flow.rounds.into()));
        let packets = asked.map_or(most, |asked| asked.min(most)) / packet + 1;
        for host in [flow.from, flow.to] {
            work[host] = work[host].saturating_add(AT_HOST * packets);
        }
        let (first, last) = (own(flow.from), own(flow.to));
        for switch in first.into_iter().chain(last.filter(|_| last != first)) {
            work[switch] = work[switch].saturating_add(AT_SWITCH * packets);
        }
        if first != last {
            passing = passing.saturating_add(AT_SWITCH * packets);
        }
    }
    // Switches without hosts share what passes, as if each had an equal part.
    let has_host = |node: usize| {
        let mut far = fabric.nodes[node].links.iter().map(|&link| fabric.far(link, node));
        far.any(|far| fabric.nodes[far].kind == NodeKind::Host)
    };
    let upper: Vec<usize> = fabric.switches().filter(|&node| !has_host(node)).collect();
    for &node in &upper {
        work[node] = work[node].saturating_add(2 * passing / upper.len() as u64);
    }
    work
}

fn count_by_sender(flows: &[FlowSpec], nodes: usize) -> Vec<u64> {
    let mut count = vec![0; nodes];
    flows.iter().filter(|flow| flow.size.is_none()).for_each(|flow| count[flow.from] += 1);
    count
}

/// Nodes that run together in every layout, and their work.
#[derive(Clone, Debug, Default)]
struct Atom {
    nodes: Vec<usize>,
    work: u64,
    /// Has a host.
    is_leaf: bool,
}

/// Hosts with their switch, if that is not too much for one partition; every other node alone.
fn atoms(fabric: &Fabric, work: &[u64], workers: usize) -> Vec<Atom> {
    let mut roots: Vec<usize> = (0..fabric.nodes.len()).collect();
    for link in fabric.links.iter().filter(|link| link.setup.delay < LOOKAHEAD_MIN) {
        unite(&mut roots, link.ends);
    }
    let mut tied = roots.clone();
    for host in fabric.hosts() {
        if let Some(&link) = fabric.nodes[host].links.first() {
            unite(&mut roots, [host, fabric.far(link, host)]);
        }
    }
    let share = work.iter().sum::<u64>() / workers as u64;
    let together = gather(fabric, work, &mut roots);
    let apart = gather(fabric, work, &mut tied);
    // Hosts of a switch that has more than its share go to partitions with room.
    let mut atoms: Vec<Atom> = Vec::new();
    for atom in together {
        match atom.work > share + share / 8 {
            true => atoms
                .extend(apart.iter().filter(|part| atom.nodes.contains(&part.nodes[0])).cloned()),
            false => atoms.push(atom),
        }
    }
    atoms
}

fn root(roots: &mut [usize], mut node: usize) -> usize {
    while roots[node] != node {
        roots[node] = roots[roots[node]];
        node = roots[node];
    }
    node
}

fn unite(roots: &mut [usize], [a, b]: [usize; 2]) {
    let (a, b) = (root(roots, a), root(roots, b));
    roots[a.max(b)] = a.min(b);
}

/// The sets, in the order of their first nodes.
fn gather(fabric: &Fabric, work: &[u64], roots: &mut [usize]) -> Vec<Atom> {
    let mut by_root: Vec<Atom> = vec![Atom::default(); fabric.nodes.len()];
    for node in 0..fabric.nodes.len() {
        let atom = &mut by_root[root(roots, node)];
        atom.nodes.push(node);
        atom.work = atom.work.saturating_add(work[node]);
        atom.is_leaf |= fabric.nodes[node].kind == NodeKind::Host;
    }
    by_root.into_iter().filter(|atom| !atom.nodes.is_empty()).collect()
}

/// By node, its partition: hosts and their switches in their order, in even shares; then each other switch to the
/// partition of most of its links, if there is room.
fn assign(fabric: &Fabric, atoms: &[Atom], workers: usize) -> Vec<usize> {
    let mut chosen = vec![usize::MAX; fabric.nodes.len()];
    let mut load = vec![0u64; workers];
    let total = |leaf: bool| -> u64 {
        atoms.iter().filter(|atom| atom.is_leaf == leaf).map(|atom| atom.work).sum()
    };
    let (leaves, all) = (total(true), total(true) + total(false));
    let mut done = 0u64;
    for atom in atoms.iter().filter(|atom| atom.is_leaf) {
        // The position of its middle in a sequence of all.
        let middle = u128::from(done + atom.work / 2) * workers as u128;
        let part = (middle / u128::from(leaves.max(1))).min(workers as u128 - 1) as usize;
        done += atom.work;
        load[part] += atom.work;
        atom.nodes.iter().for_each(|&node| chosen[node] = part);
    }
    let share = all / workers as u64;
    for atom in atoms.iter().filter(|atom| !atom.is_leaf) {
        let mut near = vec![0usize; workers];
        let links = atom.nodes.iter().flat_map(|&node| {
            fabric.nodes[node].links.iter().map(move |&link| fabric.far(link, node))
        });
        for part in links.map(|far| chosen[far]).filter(|part| *part < workers) {
            near[part] += 1;
        }
        let has_room = |part: usize| load[part] + atom.work <= share + atom.work / 2;
        let rank = |part: usize| (!has_room(part), std::cmp::Reverse(near[part]), load[part]);
        let part = (0..workers).min_by_key(|&part| rank(part)).unwrap_or(0);
        load[part] += atom.work;
        atom.nodes.iter().for_each(|&node| chosen[node] = part);
    }
    chosen
}
