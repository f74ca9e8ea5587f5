//! The graphs of parser and controls with coordinates, and the number of sampled packets through their nodes.
//!
//! They are those of `wireyard graph`, of the program that the engine runs. Packets are sampled only while hits are
//! requested ([`Control::sample`]); a new program has new graphs, with another number.

use std::sync::Arc;

use serde_json::{Value, json};
use wireyard_pipeline::graph::layout::layout;
use wireyard_pipeline::graph::{Graph, NodeKind, control_graph, parser_graph, svg};
use wireyard_pipeline::ids::{BlockId, ErrorId, Id, StateId, TableId};
use wireyard_pipeline::ir::{Body, Half, Program, Term};

use super::Result;
use crate::control::{Control, ControlError};
use crate::core::Samples;

/// The graphs of the last request.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    /// Counts programs.
    number: u64,
    /// The program, as it was loaded.
    source: Option<Arc<Program>>,
    samples: Option<Arc<Samples>>,
}

impl Graphs {
    /// The number of the graphs of a program.
    fn number(&mut self, source: &Arc<Program>) -> u64 {
        if !self.source.as_ref().is_some_and(|known| Arc::ptr_eq(known, source)) {
            (self.number, self.source) = (self.number + 1, Some(Arc::clone(source)));
        }
        self.number
    }

    /// The graphs, drawn.
    ///
    /// # Errors
    /// None yet.
    pub(super) fn drawn(&mut self, control: &Control) -> Result<Value> {
        let (source, program) = control.program_forms();
        let number = self.number(&source);
        let parser = parser_graph(&program);
        let nodes = parser.nodes.iter().map(|_| Value::Null).collect();
        Ok(json!({
            "number": number,
            "program": program.name,
            "parser": drawn(&parser, nodes),
            "ingress": control_drawn(&program, "ingress", &program.ingress),
            "egress": control_drawn(&program, "egress", &program.egress),
        }))
    }

    /// The number of sampled packets through each node, in the order of the nodes; sampling continues for some seconds.
    ///
    /// # Errors
    /// A worker does not answer.
    pub(super) fn hits(&mut self, control: &Control) -> Result<Value> {
        let refusal = match control.sample(self.samples.clone()) {
            Ok(samples) => {
                self.samples = Some(samples);
                None
            }
            Err(ControlError::FailedPrecondition(why)) => Some(why),
            Err(error) => return Err(error),
        };
        let (source, _) = control.program_forms();
        let number = self.number(&source);
        let samples = self.samples.as_deref().filter(|it| Arc::ptr_eq(it.source(), &source));
        let mut hits = samples.map_or(json!({}), hits);
        (hits["number"], hits["paused"]) = (number.into(), refusal.into());
        hits["time_ns"] = control.now().as_ns().into();
        Ok(hits)
    }
}

fn control_drawn(program: &Program, name: &str, body: &Body) -> Value {
    let graph = control_graph(program, name, body);
    let tables = body.blocks.iter().map(|block| match block.term {
        Term::Apply { table, .. } => program.tables[table].name.clone().into(),
        _ => Value::Null,
    });
    drawn(&graph, tables.collect())
}

/// Nodes with their centres and sizes and the tables that they apply, edges with their points.
fn drawn(graph: &Graph, tables: Vec<Value>) -> Value {
    let sizes = svg::sizes(graph);
    let places = layout(graph, &sizes);
    let nodes = graph.nodes.iter().zip(&sizes).zip(&places.nodes).zip(tables);
    let nodes = nodes.map(|(((node, size), (x, y)), table)| {
        let kind = match node.kind {
            NodeKind::Plain => "plain",
            NodeKind::Table => "table",
            NodeKind::Branch => "branch",
            NodeKind::Terminal => "terminal",
        };
        json!({
            "kind": kind, "lines": node.lines, "x": x, "y": y, "width": size.width, "height": size.height, "table": table,
        })
    });
    let edges = graph.edges.iter().zip(&places.edges);
    let edges = edges.map(|(edge, points)| {
        json!({ "from": edge.from, "to": edge.to, "label": edge.label, "points": points })
    });
    json!({
        "title": graph.title, "width": places.width, "height": places.height,
        "nodes": nodes.collect::<Value>(), "edges": edges.collect::<Value>(),
    })
}

fn hits(samples: &Samples) -> Value {
    let program = samples.program();
    let graph = parser_graph(program);
    let states = program.parser.states.len();
    let parser = graph.nodes.iter().enumerate().map(|(at, node)| match at < states {
        true => samples.state(StateId::new(at)),
        false => end(samples, node.lines.first().map_or("", String::as_str)),
    });
    let blocks = |half: Half| -> Value {
        let count = program.control(half).blocks.len();
        (0..count).map(|at| samples.block(half, BlockId::new(at))).collect()
    };
    let tables = program.tables.iter().enumerate().map(|(at, table)| {
        let (hits, misses) = samples.table(TableId::new(at));
        json!({ "table": table.name, "hits": hits, "misses": misses })
    });
    let of = |half: Half| {
        let sampled = samples.sampled(half);
        json!({ "passes": samples.passes(half), "sampled": sampled })
    };
    json!({
        "parser": parser.collect::<Value>(),
        "ingress": blocks(Half::Ingress),
        "egress": blocks(Half::Egress),
        "tables": tables.collect::<Value>(),
        "samples": { "ingress": of(Half::Ingress), "egress": of(Half::Egress) },
    })
}

/// Packets that came to an end of the parser, by its name in the graph.
fn end(samples: &Samples, name: &str) -> u64 {
    let errors = || samples.program().errors.iter().enumerate();
    match name.strip_prefix("reject ") {
        None => samples.accepted(),
        Some(error) => {
            let found = errors().find(|(_, known)| *known == error);
            found.map_or(0, |(at, _)| samples.refused(ErrorId::new(at)))
        }
    }
}
