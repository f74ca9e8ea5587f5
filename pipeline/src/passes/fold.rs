//! Folds constants, and the branches that depend on them.
//!
//! Only operands that are never evaluated are removed: the right side of `0 && x`, but no part that a packet would
//! evaluate, because an array index out of range is an effect.

use crate::ids::*;
use crate::ir::expr::{BinOp, ExprKind};
use crate::ir::{Body, Program, Term, eval};

/// Runs; true when something changed.
pub(super) fn run(program: &mut Program) -> bool {
    let mut changed = exprs(program);
    let constant = |id: ExprId| match program.exprs.get(id).map(|expr| &expr.kind) {
        Some(ExprKind::Const(value)) => Some(*value),
        _ => None,
    };
    changed |= body(&mut program.ingress, &constant);
    changed |= body(&mut program.egress, &constant);
    for action in program.actions.iter_mut() {
        changed |= body(&mut action.body, &constant);
    }
    changed
}

/// Operands have smaller ids, so that one pass in order of ids is enough.
fn exprs(program: &mut Program) -> bool {
    let mut changed = false;
    for id in program.exprs.ids() {
        let Some(expr) = program.exprs.get(id) else { continue };
        if matches!(expr.kind, ExprKind::Const(_)) {
            continue;
        }
        let kind = match eval::constant(&program.exprs, id) {
            Some(value) => Some(ExprKind::Const(value)),
            None => simpler(program, &expr.kind, expr.bits),
        };
        if let Some(kind) = kind {
            // The id is one of this list.
            program.exprs[id].kind = kind;
            changed = true;
        }
    }
    changed
}

/// The operand that an expression is equal to, if nothing else of it is evaluated.
fn simpler(program: &Program, kind: &ExprKind, bits: u32) -> Option<ExprKind> {
    let known = |id: ExprId| eval::constant(&program.exprs, id);
    let same = match kind {
        ExprKind::Mux(cond, then, otherwise) => {
            if known(*cond)? != 0 {
                *then
            } else {
                *otherwise
            }
        }
        ExprKind::Binary(BinOp::LogicalAnd, left, right) if known(*left) == Some(1) => *right,
        ExprKind::Binary(BinOp::LogicalOr, left, right) if known(*left) == Some(0) => *right,
        ExprKind::Binary(BinOp::LogicalAnd, left, right) if known(*right) == Some(1) => *left,
        ExprKind::Binary(BinOp::LogicalOr, left, right) if known(*right) == Some(0) => *left,
        ExprKind::Cast(value) | ExprKind::Slice { value, low: 0, .. } => *value,
        _ => return None,
    };
    let expr = program.exprs.get(same)?;
    (expr.bits == bits).then(|| expr.kind.clone())
}

fn body(body: &mut Body, constant: &dyn Fn(ExprId) -> Option<u128>) -> bool {
    let mut changed = false;
    for block in body.blocks.iter_mut() {
        let to = match &block.term {
            Term::Branch { then, otherwise, .. } if then == otherwise => None,
            Term::Branch { cond, then, otherwise } => {
                constant(*cond).map(|value| if value != 0 { *then } else { *otherwise })
            }
            Term::Switch { value, cases, default } => constant(*value).map(|value| {
                let case = cases.iter().find(|(known, _)| *known == value);
                case.map_or(*default, |(_, to)| *to)
            }),
            _ => None,
        };
        if let Some(to) = to {
            block.term = Term::Jump(to);
            changed = true;
        }
    }
    if changed {
        super::dead_blocks::prune(body);
    }
    changed
}
