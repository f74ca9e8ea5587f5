//! `graph`: the parser and control graphs as a picture.

use std::path::Path;

use serde_json::{Value, json};
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::graph::{
    Edge, Graph, Node, NodeKind, control_graph, dot, parser_graph, svg,
};

use super::args::{GraphArgs, GraphFormat, GraphKind};
use super::load::load;
use super::output::{is_standard, write};
use super::{Status, complain};

pub(super) fn run(args: &GraphArgs) -> Status {
    let output = args.output.as_deref().unwrap_or(Path::new("-"));
    let format = args.format.or_else(|| GraphFormat::of(output));
    if format.is_none() && !args.json {
        complain(&match is_standard(output) {
            true => "-o -: name the format too: --format svg or --format dot".to_owned(),
            false => format!("{}: name the file .svg or .dot, or add --format", shown(output)),
        });
        return Status::Wrong;
    }
    if args.json && GraphFormat::of(output).is_some() {
        complain(&format!("{}: --json writes JSON: name the file otherwise", shown(output)));
        return Status::Wrong;
    }
    let Some(loaded) = load(&args.program) else { return Status::Wrong };
    let program = &loaded.program;
    let wanted = |kind| args.only.is_none_or(|only| only == kind);
    let mut graphs: Vec<Graph> = Vec::new();
    if wanted(GraphKind::Parser) {
        graphs.push(parser_graph(program));
    }
    if wanted(GraphKind::Ingress) {
        graphs.push(control_graph(program, "ingress", &program.ingress));
    }
    if wanted(GraphKind::Egress) {
        graphs.push(control_graph(program, "egress", &program.egress));
    }
    let text = match format.filter(|_| !args.json) {
        Some(GraphFormat::Svg) => svg::write(&graphs),
        Some(GraphFormat::Dot) => dot::write(&graphs),
        None => format!("{:#}\n", Value::from_iter(graphs.iter().map(value))),
    };
    write(Some(output), text.as_bytes(), true, &loaded.sources())
}

/// A graph for programs; edges refer to nodes by their index.
fn value(graph: &Graph) -> Value {
    let node = |node: &Node| {
        let kind = match node.kind {
            NodeKind::Plain => "plain",
            NodeKind::Table => "table",
            NodeKind::Branch => "branch",
            NodeKind::Terminal => "terminal",
        };
        json!({ "kind": kind, "lines": node.lines })
    };
    let edge = |edge: &Edge| json!({ "from": edge.from, "to": edge.to, "label": edge.label });
    json!({
        "graph": graph.title,
        "nodes": Value::from_iter(graph.nodes.iter().map(node)),
        "edges": Value::from_iter(graph.edges.iter().map(edge)),
    })
}

impl GraphFormat {
    /// The format that the name of a file has.
    fn of(file: &Path) -> Option<GraphFormat> {
        match file.extension()?.to_str()? {
            "svg" => Some(GraphFormat::Svg),
            "dot" => Some(GraphFormat::Dot),
            _ => None,
        }
    }
}
