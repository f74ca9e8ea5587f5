//! `graph`: the parser and control graphs as a picture.

use wireyard_pipeline::graph::{Graph, control_graph, dot, parser_graph, svg};

use super::args::{GraphArgs, GraphKind};
use super::load::load;
use super::{Status, complain, say};

pub(super) fn run(args: &GraphArgs) -> Status {
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
    let text = match args.output.extension().and_then(|e| e.to_str()) {
        Some("svg") => svg::write(&graphs),
        Some("dot") => dot::write(&graphs),
        _ => {
            complain(&format!("{}: name the file .svg or .dot", args.output.display()));
            return Status::Wrong;
        }
    };
    if let Err(error) = std::fs::write(&args.output, text) {
        complain(&format!("{}: {error}", args.output.display()));
        return Status::Wrong;
    }
    say(&format!("wrote {}", args.output.display()));
    Status::Success
}
