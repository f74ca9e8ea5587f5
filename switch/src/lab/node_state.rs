//! What the run knows of a node without asking it: where its wires end, and how near others are.
//!
//! It follows from the fabric alone, but for the instant of an end point, which the run keeps here. What arrives when is on the
//! [`arrival_index`](super::arrival_index), by the places that are given out here.

use std::ops::Range;

use wireyard_tables::time::{Span, Time};

use super::fabric::{Fabric, NodeKind};

/// A node between two polls.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    /// The places of its ports in the arrival index; a host has one, whatever links lead to it.
    pub(super) wires: Range<usize>,
    /// No frame takes less time to it.
    pub(super) nearest: Span,
    /// The only neighbour, and what no frame takes less time than to that one.
    pub(super) gate: Option<(usize, Span)>,
    /// When its end point has something to do; a switch has none.
    pub(super) end_point: Option<Time>,
}

/// All nodes; `places` are the first ones of each in the arrival index.
pub(super) fn all(fabric: &Fabric, places: &[usize]) -> Vec<NodeState> {
    let node_state = |node: usize| {
        let links = &fabric.nodes[node].links;
        let is_host = fabric.nodes[node].kind == NodeKind::Host;
        let ports = if is_host { links.len().min(1) } else { links.len() };
        let neighbour = match links[..] {
            [link] => Some(fabric.far(link, node)),
            _ => None,
        };
        NodeState {
            wires: places[node]..places[node] + ports,
            nearest: nearest(fabric, node),
            gate: neighbour.map(|neighbour| (neighbour, nearest(fabric, neighbour))),
            end_point: is_host.then_some(Time::ZERO),
        }
    };
    (0..fabric.nodes.len()).map(node_state).collect()
}

fn nearest(fabric: &Fabric, node: usize) -> Span {
    let links = fabric.nodes[node].links.iter();
    links.map(|&link| fabric.links[link].setup.delay).min().unwrap_or(Span::ZERO)
}

/// By place: where a frame that this port sends arrives, and the node there.
pub(super) fn far_ends(fabric: &Fabric, places: &[usize]) -> Vec<(usize, usize)> {
    let ends = (0..fabric.nodes.len()).flat_map(|node| {
        fabric.nodes[node].links.iter().map(move |&link| {
            let far = fabric.far(link, node);
            (places[far] + usize::from(fabric.port(far, link)) - 1, far)
        })
    });
    ends.collect()
}
