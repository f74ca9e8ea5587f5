//! Who paused whom, and why: pauses as a tree from their roots.
//!
//! A switch asks a neighbour to stop when one of its priority groups is full. What fills it is a queue of this switch: if that queue is
//! itself stopped by a pause from further down, this pause follows from that one; if not, the queue is the root. So pauses of one
//! congestion make a tree, whose leaves are the hosts that stood still.

use std::collections::BTreeMap;

use wireyard_tables::time::Time;

use super::Window;
use crate::lab::checks::port_name;
use crate::report::{Column, Report, Table, Unit};

/// Lines of the tree.
const LINES_MAX: usize = 200;

/// One direction in which pauses went: node and port that sent them.
type Sender = (usize, u16);

/// What the pauses of one sender came to.
#[derive(Clone, Debug, Default)]
struct Edge {
    count: u64,
    first: Time,
    stopped_s: f64,
    /// How often each port of the node was the cause, and whether it was stopped itself.
    causes: BTreeMap<(u16, bool), u64>,
}

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let edges = edges(window);
    let roots = edges.values().flat_map(|edge| edge.causes.keys()).filter(|(_, stopped)| !stopped);
    report.figure("pauses.roots", roots.count() as f64, Unit::Count);
    let depth = edges.keys().map(|sender| depth(window, &edges, *sender, 0)).max().unwrap_or(0);
    report.figure("pauses.depth", depth as f64, Unit::Count);
    if edges.is_empty() {
        return;
    }
    let mut table = Table {
        title: "Who paused whom, and why".to_owned(),
        note: "A line is a switch (or host) that asked its neighbour to stop. Root: the queue that filled it was free to send, and too slow. \
               Below a root are the pauses that followed from it, further in for each hop."
            .to_owned(),
        columns: vec![
            Column::words("who paused whom"),
            Column::words("because of"),
            Column::numbers("pauses", Unit::Count),
            Column::numbers("first", Unit::Seconds),
            Column::numbers("stopped", Unit::Seconds),
        ],
        rows: Vec::new(),
    };
    for (sender, edge) in &edges {
        let Some((port, stopped)) = main_cause(edge) else { continue };
        if !stopped {
            line(&mut table, window, &edges, (*sender, port, 0));
        }
    }
    // What follows from a pause that nobody is on record for, as of a broken adapter.
    for (sender, edge) in &edges {
        if let Some((port, true)) = main_cause(edge) {
            let far = far_end(window, (sender.0, port));
            if far.is_none_or(|far| !edges.contains_key(&far)) {
                line(&mut table, window, &edges, (*sender, port, 0));
            }
        }
    }
    report.tables.push(table);
}

/// The port that was the cause most often.
fn main_cause(edge: &Edge) -> Option<(u16, bool)> {
    edge.causes
        .iter()
        .max_by_key(|(cause, count)| (**count, std::cmp::Reverse(**cause)))
        .map(|(cause, _)| *cause)
}

/// The port at the other end of a port's link.
fn far_end(window: &Window<'_>, (node, port): Sender) -> Option<Sender> {
    let fabric = &window.lab.scenario.fabric;
    let link = *fabric.nodes[node].links.get(usize::from(port).checked_sub(1)?)?;
    let far = fabric.far(link, node);
    Some((far, fabric.port(far, link)))
}

fn edges(window: &Window<'_>) -> BTreeMap<Sender, Edge> {
    let mut edges: BTreeMap<Sender, Edge> = BTreeMap::new();
    let mut since: BTreeMap<(Sender, u8), Time> = BTreeMap::new();
    let end = window.lab.now();
    for (node, core) in window.lab.cores.iter().enumerate() {
        let ports = window.lab.scenario.fabric.nodes[node].links.len() as u16;
        for event in core.traffic().pause_log() {
            let Some(number) =
                (1..=ports).find(|port| core.traffic_port(*port) == Some(event.port))
            else {
                continue;
            };
            let cause = event.cause.and_then(|cause| {
                (1..=ports).find(|port| core.traffic_port(*port) == Some(cause.0))
            });
            let edge = edges.entry((node, number)).or_default();
            for priority in (0..8u8).filter(|priority| event.stopped & 1 << priority != 0) {
                since.entry(((node, number), priority)).or_insert(event.at);
            }
            for priority in (0..8u8).filter(|priority| event.resumed & 1 << priority != 0) {
                let begun = since.remove(&((node, number), priority));
                edge.stopped_s +=
                    begun.map_or(0.0, |begun| event.at.since(begun).as_ps() as f64 / 1e12);
            }
            if event.stopped == 0 {
                continue;
            }
            if edge.count == 0 {
                edge.first = event.at;
            }
            edge.count += u64::from(event.stopped.count_ones());
            if let (Some(port), Some((_, stopped))) = (cause, event.cause) {
                *edge.causes.entry((port, stopped)).or_default() += 1;
            }
        }
    }
    for ((sender, _), begun) in since {
        let edge = edges.entry(sender).or_default();
        edge.stopped_s += end.since(begun).as_ps() as f64 / 1e12;
    }
    edges.retain(|_, edge| edge.count > 0);
    edges
}

/// Hops from the root to this pause.
fn depth(
    window: &Window<'_>,
    edges: &BTreeMap<Sender, Edge>,
    sender: Sender,
    seen: usize,
) -> usize {
    let cause = edges.get(&sender).and_then(main_cause);
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
    (sender, cause, level): (Sender, u16, usize),
) {
    let (fabric, edge) = (&window.lab.scenario.fabric, &edges[&sender]);
    if table.rows.len() >= LINES_MAX || level > edges.len() {
        return;
    }
    let is_root = level == 0 && main_cause(edge).is_some_and(|(_, stopped)| !stopped);
    let queue = port_name(fabric, sender.0, cause);
    let why = if is_root { format!("root: queue {queue}") } else { format!("{queue} was paused") };
    table.rows.push(vec![
        format!("{}{}", "> ".repeat(level), port_name(fabric, sender.0, sender.1)).into(),
        why.into(),
        edge.count.into(),
        crate::lab::sampler::seconds(edge.first).into(),
        edge.stopped_s.into(),
    ]);
    // The neighbour whose queue this pause stopped: its own pauses because of that queue.
    let Some(stopped) = far_end(window, sender) else { return };
    for (other, next) in edges {
        if other.0 == stopped.0 && main_cause(next) == Some((stopped.1, true)) {
            line(table, window, edges, (*other, stopped.1, level + 1));
        }
    }
}
