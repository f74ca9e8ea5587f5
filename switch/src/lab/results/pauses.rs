//! Senders, receivers and causes of pauses: pauses as a tree from their roots.
//!
//! A switch pauses a neighbour when one of its priority groups is full. The group is filled by a queue of this switch:
//! if that queue is itself stopped by a pause from further downstream, this pause is a consequence of that one;
//! otherwise the queue is the root. So pauses of one congestion form a tree, whose leaves are the hosts that were
//! stopped.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_tables::time::Time;

use super::Window;
use crate::lab::checks::port_name;
use crate::lab::fabric::NodeKind;
use crate::lab::sampler::seconds;
use crate::lab::scenario::FaultKind;
use crate::ports::PortNumber;
use crate::report::{Column, Report, Table, Unit};

/// Lines of the tree.
const LINES_MAX: usize = 200;

/// One direction of pauses: node and port that sent them.
type Sender = (usize, PortNumber);

/// The cause of a pause: a port of the node with a deep queue, [`OUTSIDE`] for none; and whether that queue was itself
/// paused.
type Cause = (PortNumber, bool);

/// The cause if a host accepts no more, for any reason.
const OUTSIDE: PortNumber = PortNumber(0);

/// Sums of the pauses of one sender after the warm-up.
#[derive(Clone, Debug, Default)]
struct Edge {
    count: u64,
    first: Option<Time>,
    stopped_s: f64,
    /// How long it stopped its neighbour for each cause, in seconds.
    causes: BTreeMap<Cause, f64>,
    /// Some of them are caused by the fault `pause_storm`.
    is_storm: bool,
}

impl Edge {
    /// A pause from one instant to another, clipped to the measured time.
    fn add(&mut self, (begin, end): (Time, Time), (from, to): (Time, Time), cause: Option<Cause>) {
        if end <= from && begin < from || begin > to {
            return;
        }
        self.count += u64::from(begin >= from);
        let (begin, end) = (begin.max(from), end.min(to));
        self.first = Some(self.first.map_or(begin, |first| first.min(begin)));
        let stopped_s = end.since(begin).as_ps() as f64 / 1e12;
        self.stopped_s += stopped_s;
        if let Some(cause) = cause {
            *self.causes.entry(cause).or_default() += stopped_s;
        }
    }

    /// The cause that stopped its neighbour for the longest time; of equals the first port.
    fn main_cause(&self) -> Option<Cause> {
        let longer =
            |a: &(&Cause, &f64), b: &(&Cause, &f64)| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0));
        self.causes.iter().max_by(longer).map(|(cause, _)| *cause)
    }
}

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let edges = edges(window);
    let main = |(sender, edge): (&Sender, &Edge)| Some((sender.0, edge.main_cause()?));
    let causes = edges.iter().filter_map(main);
    let roots = causes.filter(|(_, (_, stopped))| !stopped).map(|(node, (port, _))| (node, port));
    let roots: BTreeSet<(usize, PortNumber)> = roots.collect();
    report.figure("pauses.roots", roots.len() as f64, Unit::Count);
    let depth = edges.keys().map(|sender| depth(window, &edges, *sender, 0)).max().unwrap_or(0);
    report.figure("pauses.depth", depth as f64, Unit::Count);
    if edges.is_empty() {
        return;
    }
    let mut table = Table::new(
        "Who paused whom, and why",
        "After the warm-up. A line is a switch (or host) that asked its neighbour to stop, and what made it for the longest time. Root: the \
         queue that filled it was free to send, and too slow; or a host that took no more. Below a root are the pauses that followed \
         from it, further in for each hop.",
        vec![
            Column::words("who paused whom"),
            Column::words("because of"),
            Column::numbers("pauses", Unit::Count),
            Column::numbers("first", Unit::Seconds),
            Column::numbers("stopped", Unit::Seconds),
        ],
    );
    for (sender, edge) in &edges {
        if let Some((port, false)) = edge.main_cause() {
            line(&mut table, window, &edges, (*sender, port, 0));
        }
    }
    // Consequences of a pause that is not in the measured time.
    for (sender, edge) in &edges {
        if let Some((port, true)) = edge.main_cause() {
            let far = far_end(window, (sender.0, port));
            if far.is_none_or(|far| !edges.contains_key(&far)) {
                line(&mut table, window, &edges, (*sender, port, 0));
            }
        }
    }
    report.tables.push(table);
}

/// The port at the other end of a port's link.
fn far_end(window: &Window<'_>, (node, port): Sender) -> Option<Sender> {
    let fabric = &window.lab.scenario.fabric;
    let link = fabric.nodes[node].link(port)?;
    let far = fabric.far(link, node);
    Some((far, fabric.port(far, link)))
}

fn edges(window: &Window<'_>) -> BTreeMap<Sender, Edge> {
    let mut edges: BTreeMap<Sender, Edge> = BTreeMap::new();
    for node in 0..window.lab.cores.len() {
        asked(window, node, &mut edges);
    }
    storms(window, &mut edges);
    edges.retain(|_, edge| edge.count > 0 || edge.stopped_s > 0.0);
    edges
}

/// Pauses that the traffic manager of a node sent.
fn asked(window: &Window<'_>, node: usize, edges: &mut BTreeMap<Sender, Edge>) {
    let measured = (window.lab.measured_from(), window.lab.measured_to());
    let is_host = window.lab.scenario.fabric.nodes[node].kind == NodeKind::Host;
    let mut since: BTreeMap<(PortNumber, u8), (Time, Option<Cause>)> = BTreeMap::new();
    let priorities = |mask: u8| (0..8u8).filter(move |priority| mask & 1 << priority != 0);
    for event in window.lab.cores[node].manager().tm.pause_log() {
        let Some(port) = window.lab.linked_port(node, event.port) else { continue };
        for priority in priorities(event.resumed) {
            if let Some((begun, cause)) = since.remove(&(port, priority)) {
                edges.entry((node, port)).or_default().add((begun, event.at), measured, cause);
            }
        }
        // Packets in an adapter wait for its host.
        let of_queue = |(id, stopped)| Some((window.lab.linked_port(node, id)?, stopped));
        let cause = if is_host { Some((OUTSIDE, false)) } else { event.cause.and_then(of_queue) };
        for priority in priorities(event.stopped) {
            since.entry((port, priority)).or_insert((event.at, cause));
        }
    }
    for ((port, _), (begun, cause)) in since {
        edges.entry((node, port)).or_default().add((begun, measured.1), measured, cause);
    }
}

/// Pauses of hosts with a broken adapter, by the frames that arrived from them.
fn storms(window: &Window<'_>, edges: &mut BTreeMap<Sender, Edge>) {
    let measured = (window.lab.measured_from(), window.lab.measured_to());
    for fault in &window.lab.scenario.faults {
        let FaultKind::PauseStorm { host, priority } = fault.kind else { continue };
        let sender = (host, PortNumber(1));
        let Some((node, port)) = far_end(window, sender) else { continue };
        let edge = edges.entry(sender).or_default();
        edge.is_storm = true;
        let received = window.lab.cores[node].manager().tm.received_pauses().iter();
        let received = received.filter(|of| window.lab.linked_port(node, of.port) == Some(port));
        let mut received =
            received.filter(|of| of.at >= fault.at && of.stopped >> priority & 1 == 1);
        let Some(first) = received.next() else { continue };
        let mut pause = (first.at, first.at + first.lasts);
        for next in received {
            if next.at > pause.1 {
                edge.add(pause, measured, Some((OUTSIDE, false)));
                pause.0 = next.at;
            }
            pause.1 = next.at + next.lasts;
        }
        edge.add(pause, measured, Some((OUTSIDE, false)));
    }
}

/// Hops from the root to this pause.
fn depth(
    window: &Window<'_>,
    edges: &BTreeMap<Sender, Edge>,
    sender: Sender,
    seen: usize,
) -> usize {
    let cause = edges.get(&sender).and_then(Edge::main_cause);
    match cause {
        Some((port, true)) if seen < edges.len() => match far_end(window, (sender.0, port)) {
            Some(far) if edges.contains_key(&far) => 1 + depth(window, edges, far, seen + 1),
            _ => 1,
        },
        _ => 1,
    }
}

fn line(
    table: &mut Table,
    window: &Window<'_>,
    edges: &BTreeMap<Sender, Edge>,
    (sender, cause, level): (Sender, PortNumber, usize),
) {
    let (fabric, edge) = (&window.lab.scenario.fabric, &edges[&sender]);
    if table.rows.len() >= LINES_MAX || level > edges.len() {
        return;
    }
    let is_root = level == 0 && edge.main_cause().is_some_and(|(_, stopped)| !stopped);
    let why = match cause {
        OUTSIDE if edge.is_storm => "root: a storm of pauses".to_owned(),
        OUTSIDE => format!("root: {} takes no more", fabric.nodes[sender.0].name),
        port if is_root => format!("root: queue {}", port_name(fabric, sender.0, port)),
        port => format!("{} was paused", port_name(fabric, sender.0, port)),
    };
    table.rows.push(vec![
        format!("{}{}", "> ".repeat(level), port_name(fabric, sender.0, sender.1)).into(),
        why.into(),
        edge.count.into(),
        edge.first.map_or(f64::NAN, seconds).into(),
        edge.stopped_s.into(),
    ]);
    // The neighbour whose queue this pause stopped: its own pauses because of that queue.
    let Some(stopped) = far_end(window, sender) else { return };
    for (other, next) in edges {
        if other.0 == stopped.0 && next.main_cause() == Some((stopped.1, true)) {
            line(table, window, edges, (*other, stopped.1, level + 1));
        }
    }
}
