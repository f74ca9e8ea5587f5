//! From a program to pictures: a node for each parser state, and for each block of a control.

use super::svg::short;
use super::{Graph, NodeKind};
use crate::ids::{BlockId, Id};
use crate::ir::{Body, ParserOp, Pattern, Program, SourceSpan, Target, Term, Transition, decl};

/// Longest line of a node.
const LINE_CHARS: usize = 44;
/// Most lines of a block; more are summed up.
const LINES_MAX: usize = 12;

/// The parser as a graph of states.
pub fn parser_graph(program: &Program) -> Graph {
    let parser = &program.parser;
    let mut graph = Graph { title: format!("{}: parser", program.name), ..Graph::default() };
    for state in &parser.states {
        let mut lines = vec![state.name.clone()];
        lines.extend(state.ops.iter().filter_map(|op| parser_line(program, op)));
        graph.node(NodeKind::Plain, lines);
    }
    let mut ends = Vec::new();
    for (id, state) in parser.states.entries() {
        for (target, label) in transitions(program, &state.next) {
            let to = match target {
                Target::State(next) => next.index(),
                Target::Accept => end(&mut graph, &mut ends, "accept".into()),
                Target::Reject(error) => {
                    end(&mut graph, &mut ends, format!("reject {}", program.errors[error]))
                }
            };
            graph.edge(id.index(), to, label);
        }
    }
    graph
}

fn end(graph: &mut Graph, ends: &mut Vec<(String, usize)>, name: String) -> usize {
    if let Some((_, node)) = ends.iter().find(|(known, _)| *known == name) {
        return *node;
    }
    let node = graph.node(NodeKind::Terminal, vec![name.clone()]);
    ends.push((name, node));
    node
}

fn parser_line(program: &Program, op: &ParserOp) -> Option<String> {
    match op {
        ParserOp::Extract(instance) => {
            Some(format!("extract {}", program.instances[*instance].name))
        }
        ParserOp::ExtractNext(stack) => Some(format!("extract {}", program.stacks[*stack].name)),
        ParserOp::ExtractAt(instance, _) => {
            Some(format!("extract_at {}", program.instances[*instance].name))
        }
        ParserOp::BodyEnd(at) => {
            let place = text(program, program.exprs[*at].span);
            Some(short(&format!("body_end {place}"), LINE_CHARS))
        }
        ParserOp::Verify(cond, _) => {
            let condition = text(program, program.exprs[*cond].span);
            Some(short(&format!("verify {condition}"), LINE_CHARS))
        }
        ParserOp::Advance(_) => Some("advance".into()),
        ParserOp::Set(..) | ParserOp::SetValid(_) | ParserOp::SetInvalid(_) => None,
    }
}

fn transitions(program: &Program, next: &Transition) -> Vec<(Target, String)> {
    match next {
        Transition::To(target) => vec![(*target, String::new())],
        Transition::Select { cases, default, .. } => cases
            .iter()
            .map(|case| {
                let patterns: Vec<String> =
                    case.patterns.iter().map(|pattern| pattern_text(program, pattern)).collect();
                (case.to, patterns.join(" "))
            })
            .chain([(*default, "default".into())])
            .collect(),
    }
}

fn pattern_text(program: &Program, pattern: &Pattern) -> String {
    match pattern {
        Pattern::Any => "_".into(),
        Pattern::Value(value) => format!("{value:#x}"),
        Pattern::Mask { value, mask } => format!("{value:#x} &&& {mask:#x}"),
        Pattern::Range { low, high } => format!("{low}..{high}"),
        Pattern::Set(set) => format!("@{}", program.value_sets[*set].name),
    }
}

/// A control as a graph of blocks.
pub fn control_graph(program: &Program, name: &str, body: &Body) -> Graph {
    let mut graph = Graph { title: format!("{}: {name}", program.name), ..Graph::default() };
    for block in &body.blocks {
        let mut lines: Vec<String> = Vec::new();
        for op in &block.ops {
            let line = short(&text(program, op.span), LINE_CHARS);
            if !line.is_empty() && lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        if lines.len() > LINES_MAX {
            let more = lines.len() - LINES_MAX + 1;
            lines.truncate(LINES_MAX - 1);
            lines.push(format!("({more} more)"));
        }
        let kind = match &block.term {
            Term::Apply { table, .. } => {
                lines.push(format!("apply {}", program.tables[*table].name));
                NodeKind::Table
            }
            Term::Branch { cond, .. } => {
                let condition = text(program, program.exprs[*cond].span);
                lines.push(short(&format!("if {condition}"), LINE_CHARS));
                NodeKind::Branch
            }
            Term::Switch { value, .. } => {
                let value = text(program, program.exprs[*value].span);
                lines.push(short(&format!("switch {value}"), LINE_CHARS));
                NodeKind::Branch
            }
            Term::Jump(_) => NodeKind::Plain,
            Term::Return | Term::Exit => {
                lines.push(if name == "ingress" { "to the queue" } else { "out" }.into());
                NodeKind::Terminal
            }
            Term::Drop(reason) => {
                lines.push(format!("drop {}", reason_text(program, *reason)));
                NodeKind::Terminal
            }
            Term::Punt(reason) => {
                lines.push(format!("punt {}", program.reasons[*reason]));
                NodeKind::Terminal
            }
        };
        graph.node(kind, lines);
    }
    for (id, block) in body.blocks.entries() {
        for (to, label) in labelled(program, &block.term) {
            graph.edge(id.index(), to.index(), label);
        }
    }
    graph
}

fn reason_text(program: &Program, reason: crate::ids::ReasonId) -> &str {
    if reason == decl::BuiltinReason::Dropped.id() { "" } else { &program.reasons[reason] }
}

fn labelled(program: &Program, term: &Term) -> Vec<(BlockId, String)> {
    match term {
        Term::Jump(to) => vec![(*to, String::new())],
        Term::Branch { then, otherwise, .. } => {
            vec![(*then, "yes".into()), (*otherwise, "no".into())]
        }
        Term::Switch { cases, default, .. } => cases
            .iter()
            .map(|(value, to)| (*to, format!("{value:#x}")))
            .chain([(*default, "default".into())])
            .collect(),
        Term::Apply { by_action, hit, miss, .. } if hit == miss && by_action.is_empty() => {
            vec![(*hit, String::new())]
        }
        Term::Apply { by_action, hit, miss, .. } => by_action
            .iter()
            .map(|(action, to)| (*to, program.actions[*action].name.clone()))
            .chain([(*hit, "hit".into()), (*miss, "miss".into())])
            .collect(),
        Term::Return | Term::Exit | Term::Drop(_) | Term::Punt(_) => Vec::new(),
    }
}

/// The source text of a span, on one line.
fn text(program: &Program, span: Option<SourceSpan>) -> String {
    let Some(span) = span else { return String::new() };
    let source = program.files.get(span.file).map_or("", |file| file.text.as_str());
    let written = source.get(span.start as usize..span.end as usize).unwrap_or("");
    written.split_whitespace().collect::<Vec<_>>().join(" ")
}
