//! Expressions that are nowhere wider than 64 bits, as the interpreter evaluates them: a node has what can be computed
//! beforehand (the place of a field, masks, widths).
//!
//! The rest, and every wide expression, is evaluated from the IR itself; the operators share their source.

use crate::ids::*;
use crate::ir::eval::{ones_word, operands};
use crate::ir::{BinOp, ExprKind, Program, UnOp};
use crate::phv::{QuickField, bit};

/// A node by [`ExprId`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// Evaluated from the IR.
    General,
    Const(u64),
    Field(QuickField),
    /// The bit of an instance.
    Valid(u64),
    Meta(MetaId),
    Local(LocalId),
    Unary {
        op: UnOp,
        value: ExprId,
        bits: u32,
    },
    /// `bits` is the width of the left operand.
    Binary {
        op: BinOp,
        left: ExprId,
        right: ExprId,
        bits: u32,
    },
    Slice {
        value: ExprId,
        low: u32,
        mask: u64,
    },
    Concat {
        high: ExprId,
        low: ExprId,
        low_bits: u32,
    },
    Mux {
        cond: ExprId,
        then: ExprId,
        otherwise: ExprId,
    },
}

/// The nodes of a program; operands come before their node.
pub(super) fn nodes(program: &Program, fields: &[Box<[Option<QuickField>]>]) -> Box<[Node]> {
    let mut narrow: Vec<bool> = Vec::with_capacity(program.exprs.len());
    let mut nodes = Vec::with_capacity(program.exprs.len());
    for expr in &program.exprs {
        let parts = operands(&expr.kind);
        let fits = parts.iter().all(|part| narrow.get(part.index()).copied().unwrap_or(false));
        narrow.push(expr.bits <= 64 && fits);
        nodes.push(match expr.bits <= 64 && fits {
            true => node(program, fields, &expr.kind, expr.bits),
            false => Node::General,
        });
    }
    nodes.into()
}

fn node(
    program: &Program,
    fields: &[Box<[Option<QuickField>]>],
    kind: &ExprKind,
    bits: u32,
) -> Node {
    let width = |id: &ExprId| program.exprs[*id].bits;
    match kind {
        ExprKind::Const(value) => Node::Const(*value as u64),
        ExprKind::Field(instance, field) => {
            fields[instance.index()][field.index()].map_or(Node::General, Node::Field)
        }
        ExprKind::Valid(instance) => Node::Valid(bit(*instance)),
        ExprKind::Meta(meta) => Node::Meta(*meta),
        ExprKind::Local(local) => Node::Local(*local),
        ExprKind::Unary(op, value) => Node::Unary { op: *op, value: *value, bits },
        ExprKind::Binary(op, left, right) => {
            Node::Binary { op: *op, left: *left, right: *right, bits: width(left) }
        }
        ExprKind::Slice { value, high, low } => {
            Node::Slice { value: *value, low: *low, mask: ones_word(high - low + 1) }
        }
        ExprKind::Cast(value) => Node::Slice { value: *value, low: 0, mask: ones_word(bits) },
        ExprKind::Concat(high, low) => {
            Node::Concat { high: *high, low: *low, low_bits: width(low) }
        }
        ExprKind::Mux(cond, then, otherwise) => {
            Node::Mux { cond: *cond, then: *then, otherwise: *otherwise }
        }
        _ => Node::General,
    }
}
