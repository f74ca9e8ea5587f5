//! Which operations and expressions have code, and which are steps of the interpreter.
//!
//! Generic code does both. Path-specialised code has no header vector that the interpreter could work on, so one such
//! step anywhere in a control is reason enough not to generate it.

use super::facts::bodies;
use super::{Control, Form};
use crate::ids::*;
use crate::ir::eval::operands;
use crate::ir::verify::op_exprs;
use crate::ir::{Body, ExprKind, FieldLayout, Half, LValue, Op, ParserOp, Program, StdField, Term};
use crate::jit::compiled::Facts;
use crate::jit::emit::headers::is_unrolled;
use crate::jit::error::NotSupported;

/// For which form of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) enum Shape {
    Generic,
    PathSpecialised,
}

/// A target that code assigns.
fn is_simple(program: &Program, to: &LValue) -> bool {
    match to {
        LValue::Element { .. } => false,
        LValue::Field(instance, field) | LValue::FieldSlice { instance, field, .. } => {
            let header = &program.headers[program.instances[*instance].header];
            matches!(header.fields[*field].layout, FieldLayout::Run { .. } | FieldLayout::Pieces(_))
        }
        LValue::Meta(_) | LValue::Std(_) | LValue::Local(_) => true,
    }
}

/// The name of an operation that the interpreter does in this shape; `None` where it has code.
pub(in crate::jit) fn step(
    program: &Program,
    facts: &Facts,
    op: &Op,
    shape: Shape,
) -> Option<&'static str> {
    let (generic, locks) = (shape == Shape::Generic, facts.several_workers);
    match op {
        Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => {
            (!is_simple(program, to)).then_some("an assignment to an element of an array")
        }
        Op::Call(..) | Op::Count(..) | Op::Digest(..) | Op::Learn { .. } => None,
        Op::Recirculate | Op::MarkWritten => None,
        Op::SetInvalid(_) => None,
        Op::SetValid(instance) if !generic || is_unrolled(program, *instance) => None,
        Op::SetValid(_) => Some("set_valid of a long header, or one of variable length"),
        Op::RegisterLoad { locked, .. } | Op::RegisterStore { locked, .. } if *locked && locks => {
            Some("an update of a register that workers share")
        }
        Op::RegisterLoad { register, .. } if program.registers[*register].size == 0 => {
            Some("a register without entries")
        }
        Op::RegisterLoad { .. } | Op::RegisterStore { .. } => None,
        Op::Resubmit { .. } | Op::UpdateCrc(_) if generic => None,
        Op::Resubmit { .. } => Some("resubmit"),
        Op::UpdateCrc(_) => Some("an update of a CRC"),
        Op::CopyHeader { to, .. } if generic && is_unrolled(program, *to) => None,
        Op::CopyHeader { .. } => Some("a copy of a header"),
        Op::CopyBytes { .. } => Some("a copy of a field without a value"),
        Op::PushFront(..) | Op::PopFront(..) => Some("push_front or pop_front"),
        Op::Clone(_) => Some("clone"),
        Op::Truncate(_) => Some("truncate"),
        Op::Extern { .. } => Some("an extern of the device"),
    }
}

/// The name of the operator that the interpreter must evaluate in an expression.
fn expression(program: &Program, id: ExprId, shape: Shape) -> Option<&'static str> {
    let kind = &program.exprs[id].kind;
    match kind {
        ExprKind::Element { .. } => return Some("an element of an array"),
        ExprKind::Bytes(..) | ExprKind::Body => return Some("a hash of bytes"),
        ExprKind::SameBytes(..) => return Some("a comparison of bytes"),
        ExprKind::Std(StdField::EmitLength) if shape == Shape::Generic => {
            return Some("the length of the packet as it leaves");
        }
        _ => {}
    }
    operands(kind).into_iter().find_map(|part| expression(program, part, shape))
}

/// All steps of the interpreter in a body.
fn of_body(program: &Program, facts: &Facts, body: &Body, shape: Shape) -> Vec<&'static str> {
    let mut steps = Vec::new();
    for block in &body.blocks {
        for op in &block.ops {
            steps.extend(step(program, facts, &op.op, shape));
            let parts = op_exprs(&op.op);
            steps.extend(parts.into_iter().filter_map(|part| expression(program, part, shape)));
        }
        let parts = match &block.term {
            Term::Branch { cond, .. } => vec![*cond],
            Term::Switch { value, .. } => vec![*value],
            Term::Apply { table, .. } => {
                let table = &program.tables[*table];
                let selector = table.selector.iter().flat_map(|selector| &selector.keys).copied();
                table.keys.iter().map(|key| key.value).chain(selector).collect()
            }
            _ => Vec::new(),
        };
        steps.extend(parts.into_iter().filter_map(|part| expression(program, part, shape)));
    }
    steps
}

/// Steps of the interpreter in the generic code of a control, around it, and of the parser before ingress.
pub(super) fn interpreted(program: &Program, facts: &Facts, half: Half) -> Vec<&'static str> {
    let bodies = bodies(program, half).into_iter();
    let mut steps: Vec<_> =
        bodies.flat_map(|body| of_body(program, facts, body, Shape::Generic)).collect();
    let states = program.parser.states.iter().filter(|_| half == Half::Ingress);
    for op in states.flat_map(|state| &state.ops) {
        steps.extend(match op {
            ParserOp::Set(_, value) | ParserOp::Verify(value, _) => {
                expression(program, *value, Shape::Generic)
            }
            ParserOp::Extract(id) if program.instances[*id].variable_bits.is_none() => None,
            ParserOp::Extract(_) => Some("extract of a header of variable length"),
            ParserOp::ExtractNext(_) => Some("extract of a stack element"),
            ParserOp::ExtractAt(..) => Some("extract of a trailer"),
            ParserOp::SetInvalid(_) => None,
            ParserOp::SetValid(_) => Some("set_valid in the parser"),
            ParserOp::Advance(_) => Some("advance"),
            ParserOp::BodyEnd(_) => Some("the end of the body"),
        });
    }
    let control = Control::generic(program, half);
    steps.extend((!control.start_has_code()).then_some("the start of a pass"));
    steps.extend((!control.end_has_code(facts)).then_some("the end of a pass"));
    steps.sort_unstable();
    steps.dedup();
    steps
}

impl Control<'_> {
    /// Checks that all of the control has path-specialised code.
    pub(super) fn has_code(&self, facts: &Facts) -> Form<()> {
        let bodies = bodies(self.program, self.half).into_iter();
        let mut steps =
            bodies.flat_map(|body| of_body(self.program, facts, body, Shape::PathSpecialised));
        steps.next().map_or(Ok(()), |what| Err(NotSupported::Operation(what).into()))
    }

    /// Checks that an expression of the parser has path-specialised code.
    pub(super) fn can_evaluate(&self, id: ExprId) -> Form<()> {
        let step = expression(self.program, id, Shape::PathSpecialised);
        step.map_or(Ok(()), |what| Err(NotSupported::Operation(what).into()))
    }

    /// Checks that what the traffic manager is given about a packet, at the end of ingress, has path-specialised code.
    pub(super) fn can_evaluate_qos(&self) -> Form<()> {
        let qos = [self.program.qos.dscp, self.program.qos.pcp].into_iter().flatten();
        let mut values = qos.flat_map(|(value, present)| [value, present]);
        match self.half {
            Half::Ingress => values.try_for_each(|value| self.can_evaluate(value)),
            Half::Egress => Ok(()),
        }
    }
}
