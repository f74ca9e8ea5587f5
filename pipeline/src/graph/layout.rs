//! Places for nodes: layers from top to bottom, few crossings, straight long edges.
//!
//! The method of Sugiyama, Tagawa and Toda (1981) in its simplest useful form: edges that close a cycle are reversed
//! temporarily, layers come from the longest path, an edge that spans several layers gets a bend in each, the order
//! inside a layer follows the mean place of the neighbours (a fixed number of sweeps), and x coordinates move towards
//! the neighbours as far as the order permits. Everything is in whole units and deterministic.

use super::Graph;

/// Size of a node to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Width.
    pub width: i32,
    /// Height.
    pub height: i32,
}

/// The coordinates of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Centre of each node.
    pub nodes: Vec<(i32, i32)>,
    /// Points of each edge, from node to node, through its bends.
    pub edges: Vec<Vec<(i32, i32)>>,
    /// Width of the picture.
    pub width: i32,
    /// Height of the picture.
    pub height: i32,
}

const GAP_X: i32 = 36;
const GAP_Y: i32 = 64;
const BEND_WIDTH: i32 = 24;
const SWEEPS: usize = 12;

/// A node or a bend of a long edge.
struct Item {
    width: i32,
    height: i32,
    layer: usize,
    x: i32,
    up: Vec<usize>,
    down: Vec<usize>,
}

/// Lays a graph out; `sizes` has one size for each node.
pub fn layout(graph: &Graph, sizes: &[Size]) -> Layout {
    if graph.nodes.is_empty() {
        return Layout::default();
    }
    let turned = turned_edges(graph);
    let layers = layers_of(graph, &turned);
    let (mut items, chains) = items_of(graph, sizes, &turned, &layers);
    let mut order = initial_order(&items);
    for sweep in 0..SWEEPS {
        sort_layers(&mut order, &items, sweep % 2 == 0);
    }
    place(&mut order, &mut items);
    finish(graph, &turned, items, &order, &chains)
}

/// True for each edge that closes a cycle (or is a loop).
fn turned_edges(graph: &Graph) -> Vec<bool> {
    let mut out = vec![Vec::new(); graph.nodes.len()];
    for (e, edge) in graph.edges.iter().enumerate() {
        out[edge.from].push(e);
    }
    let mut turned = vec![false; graph.edges.len()];
    let mut state = vec![0u8; graph.nodes.len()];
    for root in 0..graph.nodes.len() {
        if state[root] != 0 {
            continue;
        }
        state[root] = 1;
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            let Some(&e) = out[node].get(next) else {
                state[node] = 2;
                continue;
            };
            stack.push((node, next + 1));
            let to = graph.edges[e].to;
            match state[to] {
                0 => {
                    state[to] = 1;
                    stack.push((to, 0));
                }
                1 => turned[e] = true,
                _ => {}
            }
        }
    }
    turned
}

/// The edge's ends with the upper one first; `None` for a loop.
fn ends(graph: &Graph, turned: &[bool], e: usize) -> Option<(usize, usize)> {
    let edge = &graph.edges[e];
    if edge.from == edge.to {
        return None;
    }
    Some(if turned[e] { (edge.to, edge.from) } else { (edge.from, edge.to) })
}

/// Layer of each node: the longest path from a root.
fn layers_of(graph: &Graph, turned: &[bool]) -> Vec<usize> {
    let mut layers = vec![0usize; graph.nodes.len()];
    // Without the turned edges there is no cycle, so the longest path has fewer edges than nodes.
    for _ in 0..graph.nodes.len() {
        let mut changed = false;
        for e in 0..graph.edges.len() {
            if let Some((up, down)) = ends(graph, turned, e)
                && layers[down] <= layers[up]
            {
                layers[down] = layers[up] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    layers
}

/// Items for nodes (same index) and bends, and the chain of items of each edge.
fn items_of(
    graph: &Graph,
    sizes: &[Size],
    turned: &[bool],
    layers: &[usize],
) -> (Vec<Item>, Vec<Vec<usize>>) {
    let mut items: Vec<Item> = (0..graph.nodes.len())
        .map(|n| Item {
            width: sizes[n].width,
            height: sizes[n].height,
            layer: layers[n],
            x: 0,
            up: Vec::new(),
            down: Vec::new(),
        })
        .collect();
    let mut chains = Vec::with_capacity(graph.edges.len());
    for e in 0..graph.edges.len() {
        let Some((up, down)) = ends(graph, turned, e) else {
            chains.push(Vec::new());
            continue;
        };
        let mut chain = vec![up];
        for layer in layers[up] + 1..layers[down] {
            items.push(Item {
                width: BEND_WIDTH,
                height: 0,
                layer,
                x: 0,
                up: Vec::new(),
                down: Vec::new(),
            });
            chain.push(items.len() - 1);
        }
        chain.push(down);
        for pair in chain.windows(2) {
            items[pair[0]].down.push(pair[1]);
            items[pair[1]].up.push(pair[0]);
        }
        chains.push(chain);
    }
    (items, chains)
}

fn initial_order(items: &[Item]) -> Vec<Vec<usize>> {
    let layers = items.iter().map(|item| item.layer).max().unwrap_or(0) + 1;
    let mut order = vec![Vec::new(); layers];
    for (i, item) in items.iter().enumerate() {
        order[item.layer].push(i);
    }
    order
}

/// Sorts every layer by the mean position of its neighbours above (or below).
fn sort_layers(order: &mut [Vec<usize>], items: &[Item], from_above: bool) {
    let mut position = vec![0i64; items.len()];
    for layer in order.iter() {
        for (p, &item) in layer.iter().enumerate() {
            position[item] = p as i64;
        }
    }
    let layers: Vec<usize> =
        if from_above { (0..order.len()).collect() } else { (0..order.len()).rev().collect() };
    for l in layers {
        let key = |item: usize| {
            let near = if from_above { &items[item].up } else { &items[item].down };
            if near.is_empty() {
                return position[item] * 1000;
            }
            near.iter().map(|&n| position[n]).sum::<i64>() * 1000 / near.len() as i64
        };
        order[l].sort_by_key(|&item| key(item));
        for (p, &item) in order[l].iter().enumerate() {
            position[item] = p as i64;
        }
    }
}

/// x coordinates: packed first, then pulled towards the neighbours' middle, order kept.
fn place(order: &mut [Vec<usize>], items: &mut [Item]) {
    for layer in order.iter() {
        let mut x = 0;
        for &item in layer {
            items[item].x = x + items[item].width / 2;
            x += items[item].width + GAP_X;
        }
    }
    for sweep in 0..SWEEPS * 2 {
        let from_above = sweep % 2 == 0;
        for l in 0..order.len() {
            let l = if from_above { l } else { order.len() - 1 - l };
            pull(&order[l], items, from_above);
        }
    }
}

fn pull(layer: &[usize], items: &mut [Item], from_above: bool) {
    let desired: Vec<i32> = layer
        .iter()
        .map(|&item| {
            let near = if from_above { &items[item].up } else { &items[item].down };
            let mut xs: Vec<i32> = near.iter().map(|&n| items[n].x).collect();
            xs.sort_unstable();
            match xs.len() {
                0 => items[item].x,
                n => (xs[(n - 1) / 2] + xs[n / 2]) / 2,
            }
        })
        .collect();
    // Left to right every item at its desired place or right of its neighbour; right to left the same; the
    // mean of two feasible placements is feasible.
    let room = |a: usize, b: usize, items: &[Item]| {
        (items[layer[a]].width + items[layer[b]].width) / 2 + GAP_X
    };
    let mut right = desired.clone();
    for i in 1..layer.len() {
        right[i] = right[i].max(right[i - 1] + room(i - 1, i, items));
    }
    let mut left = desired;
    for i in (1..layer.len()).rev() {
        left[i - 1] = left[i - 1].min(left[i] - room(i - 1, i, items));
    }
    for (i, &item) in layer.iter().enumerate() {
        items[item].x = (left[i] + right[i]) / 2;
    }
}

/// y coordinates, the origin at the top left, and the points of the edges.
fn finish(
    graph: &Graph,
    turned: &[bool],
    mut items: Vec<Item>,
    order: &[Vec<usize>],
    chains: &[Vec<usize>],
) -> Layout {
    let left = items.iter().map(|item| item.x - item.width / 2).min().unwrap_or(0);
    let mut y = GAP_Y / 2;
    let mut centre = Vec::with_capacity(order.len());
    for layer in order {
        let height = layer.iter().map(|&item| items[item].height).max().unwrap_or(0);
        centre.push(y + height / 2);
        y += height + GAP_Y;
    }
    for item in &mut items {
        item.x += GAP_X / 2 - left;
    }
    let point = |item: usize, edge: i32| {
        (items[item].x, centre[items[item].layer] + edge * items[item].height / 2)
    };
    let edges = chains
        .iter()
        .enumerate()
        .map(|(e, chain)| {
            let mut points: Vec<(i32, i32)> = match chain.as_slice() {
                [] => loop_points(point(graph.edges[e].from, 0), &items[graph.edges[e].from]),
                [up, bends @ .., down] => [point(*up, 1)]
                    .into_iter()
                    .chain(bends.iter().map(|&bend| point(bend, 0)))
                    .chain([point(*down, -1)])
                    .collect(),
                [_] => Vec::new(),
            };
            if turned[e] && !chain.is_empty() {
                points.reverse();
            }
            points
        })
        .collect();
    Layout {
        nodes: (0..graph.nodes.len()).map(|n| point(n, 0)).collect(),
        edges,
        width: items.iter().map(|item| item.x + item.width / 2).max().unwrap_or(0) + GAP_X,
        height: y - GAP_Y / 2,
    }
}

/// A loop leaves the node on its right side and comes back lower.
fn loop_points((x, y): (i32, i32), item: &Item) -> Vec<(i32, i32)> {
    let (side, quarter) = (x + item.width / 2, item.height / 4);
    vec![(side, y - quarter), (side + GAP_X / 2, y), (side, y + quarter)]
}

#[cfg(test)]
mod tests {
    use super::super::NodeKind;
    use super::*;
    use proptest::prelude::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::default();
        for n in 0..nodes {
            graph.node(NodeKind::Plain, vec![n.to_string()]);
        }
        for &(from, to) in edges {
            graph.edge(from, to, "");
        }
        graph
    }

    #[test]
    fn an_edge_goes_down_and_a_back_edge_up() {
        let sizes = [Size { width: 40, height: 20 }; 3];
        let laid = layout(&graph(3, &[(0, 1), (1, 2), (2, 0)]), &sizes);
        assert!(laid.nodes[0].1 < laid.nodes[1].1 && laid.nodes[1].1 < laid.nodes[2].1);
        let back = &laid.edges[2];
        assert!(back[0].1 > back[back.len() - 1].1);
    }

    proptest! {
        #[test]
        fn nodes_never_overlap(
            nodes in 1usize..40,
            edges in proptest::collection::vec((0usize..40, 0usize..40), 0..120),
        ) {
            let edges: Vec<_> = edges.iter().map(|(a, b)| (a % nodes, b % nodes)).collect();
            let graph = graph(nodes, &edges);
            let sizes: Vec<Size> =
                (0..nodes).map(|n| Size { width: 30 + n as i32 * 7 % 90, height: 20 }).collect();
            let laid = layout(&graph, &sizes);
            for a in 0..nodes {
                for b in 0..a {
                    let apart_x = (laid.nodes[a].0 - laid.nodes[b].0).abs()
                        >= (sizes[a].width + sizes[b].width) / 2;
                    let apart_y = (laid.nodes[a].1 - laid.nodes[b].1).abs() >= 20;
                    prop_assert!(apart_x || apart_y, "{a} and {b}");
                }
            }
            for (edge, points) in graph.edges.iter().zip(&laid.edges) {
                prop_assert!(points.len() >= 2, "{edge:?}");
            }
        }
    }
}
