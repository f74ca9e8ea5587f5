//! Checks the use of intrinsic metadata, and the operations that only one control may do. An action is checked for
//! every control that reaches it, by a call or by a table.

use super::cx::Cx;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::std_meta::Access;
use crate::ir::verify::{op_exprs, op_target, pad_must_not_read};
use crate::ir::*;
use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, Walker};
use std::collections::BTreeSet;

/// A part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Parser,
    /// The parser of egress.
    EgressParser,
    Ingress,
    Egress,
}

impl Region {
    fn name(self) -> &'static str {
        match self {
            Region::Parser => "the parser",
            Region::EgressParser => "the parser of egress",
            Region::Ingress => "ingress",
            Region::Egress => "egress",
        }
    }

    fn within(self, access: Access) -> bool {
        match self {
            Region::Parser => access.parser,
            Region::Ingress => access.ingress,
            Region::Egress | Region::EgressParser => access.egress,
        }
    }
}

/// What a region contains: expressions and operations of all bodies that it reaches.
#[derive(Default)]
struct Reach {
    exprs: BTreeSet<ExprId>,
    ops: Vec<OpAt>,
    /// Metadata that the parser assigns.
    metadata: BTreeSet<MetaId>,
}

impl Cx<'_> {
    /// Checks the parser, both controls and what is evaluated beside them.
    pub(crate) fn check_access(&mut self) {
        let (parser, again) = self.parser_reach();
        self.check_region(Region::Parser, &parser);
        self.check_region(Region::EgressParser, &again);
        let ingress = self.control_reach(&self.ir.ingress);
        self.check_region(Region::Ingress, &ingress);
        let egress = self.control_reach(&self.ir.egress);
        self.check_region(Region::Egress, &egress);
        self.check_not_carried(&egress, &again);
        self.check_pads();
        let beside = self.beside_reach();
        self.check_region(Region::Ingress, &beside);
        self.check_region(Region::Egress, &beside);
    }

    /// What the parsers of ingress and of egress contain.
    fn parser_reach(&self) -> (Reach, Reach) {
        let (mut ingress, mut egress) = (Reach::default(), Reach::default());
        let graph = self.ir.parser.graph();
        let mut of_egress = BTreeSet::new();
        if let Some(entry) = self.ir.parser.egress {
            of_egress.extend(Dfs::new(&graph, NodeIndex::new(entry.index())).iter(&graph));
        }
        for (id, state) in self.ir.parser.states.entries() {
            let again = of_egress.contains(&NodeIndex::new(id.index()));
            let reach = if again { &mut egress } else { &mut ingress };
            for op in &state.ops {
                if let ParserOp::Set(LValue::Meta(meta), _) = op {
                    reach.metadata.insert(*meta);
                }
                match op {
                    ParserOp::ExtractAt(_, expr)
                    | ParserOp::Advance(expr)
                    | ParserOp::BodyEnd(expr)
                    | ParserOp::Set(_, expr)
                    | ParserOp::Verify(expr, _) => self.add_expr(*expr, reach),
                    ParserOp::Extract(_)
                    | ParserOp::ExtractNext(_)
                    | ParserOp::SetValid(_)
                    | ParserOp::SetInvalid(_) => {}
                }
            }
            if let Transition::Select { keys, .. } = &state.next {
                keys.iter().for_each(|key| self.add_expr(*key, reach));
            }
        }
        (ingress, egress)
    }

    /// Expressions that are evaluated around ingress and egress: checksums, CRCs, pads, QoS.
    fn beside_reach(&self) -> Reach {
        let mut reach = Reach::default();
        let ir = &self.ir;
        let covers = ir.checksums.iter().map(|c| (&c.over, c.when));
        for (over, when) in covers.chain(ir.crcs.iter().map(|c| (&c.over, c.when))) {
            when.iter().for_each(|when| self.add_expr(*when, &mut reach));
            for item in over {
                if let Covered::Value(value) = item {
                    self.add_expr(*value, &mut reach);
                }
            }
        }
        for item in &ir.deparser.after {
            if let AfterBody::Pad { bytes, when, .. } = item {
                self.add_expr(*bytes, &mut reach);
                when.iter().for_each(|when| self.add_expr(*when, &mut reach));
            }
        }
        for (value, valid) in [ir.qos.dscp, ir.qos.pcp].into_iter().flatten() {
            self.add_expr(value, &mut reach);
            self.add_expr(valid, &mut reach);
        }
        reach
    }

    /// Egress computes the length of a pad again, from what is available there.
    fn check_pads(&mut self) {
        let mut wrong = Vec::new();
        for item in &self.ir.deparser.after {
            if let AfterBody::Pad { bytes, when, .. } = item {
                let values = [*bytes].into_iter().chain(*when);
                wrong.extend(values.filter_map(|value| pad_must_not_read(&self.ir, value)));
            }
        }
        for part in wrong {
            let Some(span) = self.ir.exprs.get(part).and_then(|expr| expr.span) else { continue };
            let text = "a pad cannot depend on this";
            let note = "egress computes the pad again: from headers in front of the body, which \
                        headers are there, carried metadata, `std.emit_length`, `std.body_length`";
            self.report.error(codes::ACCESS, span, text).note(note);
        }
    }

    fn control_reach(&self, body: &Body) -> Reach {
        let mut reach = Reach::default();
        let mut actions = BTreeSet::new();
        let mut open = Vec::new();
        self.add_body(body, &mut reach, &mut open);
        while let Some(action) = open.pop() {
            if actions.insert(action)
                && let Some(action) = self.ir.actions.get(action)
            {
                self.add_body(&action.body, &mut reach, &mut open);
            }
        }
        reach
    }

    fn add_body(&self, body: &Body, reach: &mut Reach, open: &mut Vec<ActionId>) {
        for block in &body.blocks {
            for op in &block.ops {
                op_exprs(&op.op).into_iter().for_each(|expr| self.add_expr(expr, reach));
                if let Op::Call(action, _) = &op.op {
                    open.push(*action);
                }
                reach.ops.push(op.clone());
            }
            match &block.term {
                Term::Branch { cond, .. } => self.add_expr(*cond, reach),
                Term::Switch { value, .. } => self.add_expr(*value, reach),
                Term::Apply { table, .. } => {
                    let Some(table) = self.ir.tables.get(*table) else { continue };
                    table.keys.iter().for_each(|key| self.add_expr(key.value, reach));
                    for key in table.selector.iter().flat_map(|selector| &selector.keys) {
                        self.add_expr(*key, reach);
                    }
                    open.extend(table.actions.iter().chain([&table.default.action]));
                }
                _ => {}
            }
        }
    }

    fn add_expr(&self, id: ExprId, reach: &mut Reach) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if let Some(expr) = self.ir.exprs.get(id)
                && reach.exprs.insert(id)
            {
                open.extend(eval::operands(&expr.kind));
            }
        }
    }

    fn check_region(&mut self, region: Region, reach: &Reach) {
        for id in &reach.exprs {
            let Some(expr) = self.ir.exprs.get(*id) else { continue };
            let (ExprKind::Std(field), Some(span)) = (&expr.kind, expr.span) else { continue };
            let parses_again = self.ir.parser.egress.is_some() && region == Region::Egress;
            if parses_again && *field == StdField::ParserError {
                continue;
            }
            if !region.within(field.readers()) {
                let text = format!("`std.{}` is not known in {}", field.name(), region.name());
                let note = format!("it is read by {}", who(field.readers()));
                let found = self.report.error(codes::ACCESS, span, text).note(note);
                if region == Region::Egress && field.readers().ingress {
                    let (name, bits) = (field.name(), field.bits());
                    found.help(format!(
                        "declare metadata `{name}: {{ bits: {bits}, carried: true }}` and assign it in ingress"
                    ));
                }
            }
        }
        for OpAt { op, span } in &reach.ops {
            let Some(span) = *span else { continue };
            if let Some(LValue::Std(field)) = op_target(op)
                && !region.within(field.writers())
            {
                let text =
                    format!("`std.{}` cannot be assigned in {}", field.name(), region.name());
                let note = match who(field.writers()) {
                    "nobody" => "the device sets it".to_string(),
                    who => format!("it is assigned by {who}"),
                };
                self.report.error(codes::ACCESS, span, text).note(note);
            }
            let refused = match op {
                Op::Resubmit { .. } if region != Region::Ingress => {
                    Some("`resubmit()` is for ingress; from egress, `recirculate()`".to_string())
                }
                Op::Extern { external, .. } => self.refused_extern(*external, region),
                _ => None,
            };
            if let Some(text) = refused {
                self.report.error(codes::ACCESS, span, text);
            }
        }
    }

    fn refused_extern(&self, external: ExternId, region: Region) -> Option<String> {
        let known = self.ir.externs.get(external)?;
        let (ingress, egress) = known.controls;
        let allowed = if region == Region::Ingress { ingress } else { egress };
        (!allowed).then(|| format!("`{}` cannot be called in {}", known.name, region.name()))
    }

    /// Warns of metadata that is always zero in egress.
    fn check_not_carried(&mut self, egress: &Reach, parser: &Reach) {
        let mut written: BTreeSet<MetaId> = egress
            .ops
            .iter()
            .filter_map(|op| match op_target(&op.op) {
                Some(LValue::Meta(id)) => Some(*id),
                _ => None,
            })
            .collect();
        written.extend(&parser.metadata);
        for id in egress.exprs.union(&parser.exprs) {
            let Some(expr) = self.ir.exprs.get(*id) else { continue };
            let (ExprKind::Meta(meta), Some(span)) = (&expr.kind, expr.span) else { continue };
            let Some(known) = self.ir.metadata.get(*meta) else { continue };
            // A front end that sets an origin carries all that egress reads.
            if known.carried_at.is_some() || written.contains(meta) || self.ir.origin.is_some() {
                continue;
            }
            let name = &known.name;
            let text = format!("`meta.{name}` is always 0 in egress");
            let help = format!("declare it `{name}: {{ bits: {}, carried: true }}`", known.bits);
            self.report
                .warning(codes::NOT_CARRIED, span, text)
                .note("only metadata declared `carried` crosses the queue")
                .help(help);
        }
    }
}

fn who(access: Access) -> &'static str {
    match (access.parser, access.ingress, access.egress) {
        (true, _, _) => "the parser, ingress and egress",
        (false, true, true) => "ingress and egress",
        (false, true, false) => "ingress",
        (false, false, true) => "egress",
        (false, false, false) => "nobody",
    }
}
