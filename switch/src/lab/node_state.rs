//! Facts about a node that the run has without polling it: its wires, and the distance of others.
//!
//! They follow from the fabric alone, except for the instant of an end point, which is stored here. Arrivals are in the
//! [`arrival_index`](super::arrival_index), by the places that are assigned here.

use std::ops::Range;

use wireyard_tables::time::{Deadline, Span};

use super::fabric::{Fabric, NodeKind};
use super::part::Far;
use super::partition::Layout;

/// A node between two polls.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    /// The places of its ports in the arrival index; a host has one, however many links lead to it.
    pub(super) wires: Range<usize>,
    /// Least time of a frame to it.
    pub(super) nearest: Span,
    /// The only neighbour, if it is in the same partition, and the least time of a frame to it.
    pub(super) gate: Option<(usize, Span)>,
    /// The next event of its end point; `None` for a switch.
    pub(super) end_point: Option<Deadline>,
}

/// The nodes of a partition.
pub(super) fn all(fabric: &Fabric, layout: &Layout, part: usize) -> Vec<NodeState> {
    let node_state = |&node: &usize| {
        let links = &fabric.nodes[node].links;
        let is_host = fabric.nodes[node].kind == NodeKind::Host;
        let ports = if is_host { links.len().min(1) } else { links.len() };
        let neighbour = match links[..] {
            [link] => Some(fabric.far(link, node)),
            _ => None,
        };
        let neighbour = neighbour.filter(|&neighbour| layout.of[neighbour].0 == part);
        let first = layout.places[node];
        NodeState {
            wires: first..first + ports,
            nearest: nearest(fabric, node),
            gate: neighbour.map(|neighbour| (layout.of[neighbour].1, nearest(fabric, neighbour))),
            end_point: is_host.then_some(Deadline::NOW),
        }
    };
    layout.parts[part].iter().map(node_state).collect()
}

fn nearest(fabric: &Fabric, node: usize) -> Span {
    let links = fabric.nodes[node].links.iter();
    links.map(|&link| fabric.links[link].setup.delay).min().unwrap_or(Span::ZERO)
}

/// By place in a partition: the destination of a frame that this port sends.
pub(super) fn far_ends(fabric: &Fabric, layout: &Layout, part: usize) -> Vec<Far> {
    let ends = layout.parts[part].iter().flat_map(|&node| {
        fabric.nodes[node].links.iter().map(move |&link| {
            let far = fabric.far(link, node);
            let (there, number) = layout.of[far];
            let place = match there == part {
                true => layout.place(far, fabric.port(far, link)),
                false => direction(fabric, link, node),
            };
            Far { part: there as u32, node: number as u32, place }
        })
    });
    ends.collect()
}

/// The number of the direction of a link that leads from a node.
fn direction(fabric: &Fabric, link: usize, from: usize) -> usize {
    2 * link + usize::from(fabric.links[link].ends[0] != from)
}
