//! The parser graph and the control graphs as pictures: Graphviz text, or SVG laid out here.
//!
//! The model is nodes with a few lines of text and edges with a label; [`layout`] places them, [`svg`] and [`dot`]
//! write them. It is not a general drawing tool: graphs are small (a layer is a handful of nodes), top to bottom, and
//! the same program has the same picture.

pub mod dot;
mod labels;
pub mod layout;
mod model;
pub mod svg;

pub use model::{control_graph, parser_graph};

/// The kind of a node, for its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A parser state or a block of operations.
    Plain,
    /// A table that is applied.
    Table,
    /// A condition.
    Branch,
    /// Where the graph starts or ends.
    Terminal,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Text, a line each.
    pub lines: Vec<String>,
    /// Shape.
    pub kind: NodeKind,
}

/// An edge between nodes, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// From this node.
    pub from: usize,
    /// To this node.
    pub to: usize,
    /// Its meaning; may be empty.
    pub label: String,
}

/// A picture to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Title.
    pub title: String,
    /// Nodes; the first is the entry.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Adds a node and returns its index.
    pub fn node(&mut self, kind: NodeKind, lines: Vec<String>) -> usize {
        self.nodes.push(Node { lines, kind });
        self.nodes.len() - 1
    }

    /// Adds an edge; a second edge between the same nodes adds its label to the first.
    pub fn edge(&mut self, from: usize, to: usize, label: impl Into<String>) {
        let label = label.into();
        let same = self.edges.iter_mut().find(|edge| edge.from == from && edge.to == to);
        match same {
            Some(edge) if !label.is_empty() => {
                if !edge.label.is_empty() {
                    edge.label.push_str(", ");
                }
                edge.label.push_str(&label);
            }
            Some(_) => {}
            None => self.edges.push(Edge { from, to, label }),
        }
    }
}
