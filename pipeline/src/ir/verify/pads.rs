//! Pads: the inputs of their length and condition.
//!
//! Egress locates the pad of a packet by computing its length again. So it may depend only on what is the same in
//! egress as in ingress: headers in front of the body, the validity of headers, carried metadata, and the emitted
//! length.

use super::Verifier;
use crate::ids::*;
use crate::ir::eval::operands;
use crate::ir::{AfterBody, ExprKind, Program, StdField};

/// The first operand that a pad may not depend on.
pub fn pad_must_not_read(program: &Program, id: ExprId) -> Option<ExprId> {
    let kind = &program.exprs.get(id)?.kind;
    let in_front = |instance: &InstanceId| program.deparser.emit.contains(instance);
    let fine = match kind {
        ExprKind::Field(instance, _)
        | ExprKind::Element { instance, .. }
        | ExprKind::Bytes(instance, _)
        | ExprKind::HeaderLength(instance) => in_front(instance),
        ExprKind::StackLast(stack, _) | ExprKind::StackDepth(stack) => {
            program.stacks.get(*stack).is_some_and(|stack| in_front(&stack.first))
        }
        ExprKind::Meta(meta) => {
            program.metadata.get(*meta).is_some_and(|meta| meta.carried_at.is_some())
        }
        ExprKind::Std(field) => matches!(field, StdField::EmitLength | StdField::BodyLength),
        ExprKind::Local(_) | ExprKind::Lookahead { .. } | ExprKind::Cursor => false,
        ExprKind::Body | ExprKind::SameBytes(..) => false,
        _ => true,
    };
    if !fine {
        return Some(id);
    }
    operands(kind).into_iter().find_map(|part| pad_must_not_read(program, part))
}

impl Verifier<'_> {
    pub(super) fn pads(&mut self) {
        let program = self.program;
        for item in &program.deparser.after {
            let AfterBody::Pad { bytes, when, .. } = item else { continue };
            for value in [*bytes].into_iter().chain(*when) {
                if let Some(part) = pad_must_not_read(program, value) {
                    self.found.push(format!("deparser: a pad reads {part}, unknown in egress"));
                }
            }
        }
    }
}
