//! `graph`: the parser and control graphs as a picture.

use std::path::Path;

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::graph::{Graph, control_graph, dot, parser_graph, svg};

use super::args::{GraphArgs, GraphFormat, GraphKind};
use super::load::load;
use super::output::{is_standard, write};
use super::{Status, complain};

pub(super) fn run(args: &GraphArgs) -> Status {
    let output = args.output.as_path();
    let Some(format) = args.format.or_else(|| GraphFormat::of(output)) else {
        complain(&match is_standard(output) {
            true => "-o -: name the format too: --format svg or --format dot".to_owned(),
            false => format!("{}: name the file .svg or .dot, or add --format", shown(output)),
        });
        return Status::Wrong;
    };
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
    let text = match format {
        GraphFormat::Svg => svg::write(&graphs),
        GraphFormat::Dot => dot::write(&graphs),
    };
    write(Some(output), text.as_bytes(), true, &loaded.sources())
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
