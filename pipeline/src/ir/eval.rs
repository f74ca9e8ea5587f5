//! What the operators compute: the definition that folding and engines share.
//!
//! Operands are below two to their width; results are too.

use super::expr::{BinOp, Expr, ExprKind, UnOp};
use super::layout::ones;
use crate::ids::*;

/// A unary operator on a value of `bits` bits.
pub fn unary(op: UnOp, value: u128, bits: u32) -> u128 {
    match op {
        UnOp::Not => u128::from(value == 0),
        UnOp::Complement => !value & ones(bits),
        UnOp::Negate => value.wrapping_neg() & ones(bits),
    }
}

/// A binary operator on values whose left one has `bits` bits.
pub fn binary(op: BinOp, left: u128, right: u128, bits: u32) -> u128 {
    let mask = ones(bits);
    match op {
        BinOp::Add => left.wrapping_add(right) & mask,
        BinOp::Sub => left.wrapping_sub(right) & mask,
        BinOp::Mul => left.wrapping_mul(right) & mask,
        BinOp::SatAdd => left.saturating_add(right).min(mask),
        BinOp::SatSub => left.saturating_sub(right),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => shift_count(right).and_then(|n| left.checked_shl(n)).unwrap_or(0) & mask,
        BinOp::Shr => shift_count(right).and_then(|n| left.checked_shr(n)).unwrap_or(0),
        BinOp::Eq => u128::from(left == right),
        BinOp::Ne => u128::from(left != right),
        BinOp::Lt => u128::from(left < right),
        BinOp::Le => u128::from(left <= right),
        BinOp::SignedLt => u128::from(signed(left, bits) < signed(right, bits)),
        BinOp::SignedLe => u128::from(signed(left, bits) <= signed(right, bits)),
        BinOp::LogicalAnd => left & right & 1,
        BinOp::LogicalOr => (left | right) & 1,
    }
}

fn shift_count(value: u128) -> Option<u32> {
    u32::try_from(value).ok()
}

/// A value of `bits` bits as two's complement.
pub fn signed(value: u128, bits: u32) -> i128 {
    let up = 128 - bits.clamp(1, 128);
    ((value << up) as i128) >> up
}

/// The value of an expression that reads nothing; `None` when it reads something. A part that is
/// not evaluated (the right side of `0 && x`, the other arm of a choice) may read.
pub fn constant(exprs: &IdVec<ExprId, Expr>, id: ExprId) -> Option<u128> {
    let expr = exprs.get(id)?;
    match &expr.kind {
        ExprKind::Const(value) => Some(*value),
        ExprKind::Unary(op, value) => {
            let bits = exprs.get(*value)?.bits;
            Some(unary(*op, constant(exprs, *value)?, bits))
        }
        ExprKind::Binary(op, left, right) => {
            let bits = exprs.get(*left)?.bits;
            let value = constant(exprs, *left)?;
            match (op, value) {
                (BinOp::LogicalAnd, 0) => Some(0),
                (BinOp::LogicalOr, 1) => Some(1),
                _ => Some(binary(*op, value, constant(exprs, *right)?, bits)),
            }
        }
        ExprKind::Slice { value, high, low } => {
            Some(constant(exprs, *value)? >> low & ones(high - low + 1))
        }
        ExprKind::Concat(high, low) => {
            let bits = exprs.get(*low)?.bits;
            let high = constant(exprs, *high)?.checked_shl(bits).unwrap_or(0);
            Some(high | constant(exprs, *low)?)
        }
        ExprKind::Cast(value) => Some(constant(exprs, *value)? & ones(expr.bits)),
        ExprKind::Mux(cond, then, otherwise) => {
            let taken = if constant(exprs, *cond)? != 0 { then } else { otherwise };
            constant(exprs, *taken)
        }
        _ => None,
    }
}

/// The expressions that an expression is made of, in the order of evaluation.
pub fn operands(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Const(_)
        | ExprKind::Field(..)
        | ExprKind::StackLast(..)
        | ExprKind::StackDepth(_)
        | ExprKind::Valid(_)
        | ExprKind::Meta(_)
        | ExprKind::Std(_)
        | ExprKind::Local(_)
        | ExprKind::Lookahead { .. }
        | ExprKind::Cursor
        | ExprKind::HeaderLength(_) => Vec::new(),
        ExprKind::Element { index, .. } => vec![*index],
        ExprKind::Unary(_, value) | ExprKind::Cast(value) => vec![*value],
        ExprKind::Slice { value, .. } => vec![*value],
        ExprKind::Binary(_, left, right) | ExprKind::Concat(left, right) => vec![*left, *right],
        ExprKind::Mux(cond, then, otherwise) => vec![*cond, *then, *otherwise],
        ExprKind::Hash(_, values) => values.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_saturates_and_compares_signed() {
        assert_eq!(binary(BinOp::Add, 0xff, 1, 8), 0);
        assert_eq!(binary(BinOp::SatAdd, 0xff, 1, 8), 0xff);
        assert_eq!(binary(BinOp::SatAdd, u128::MAX, 1, 128), u128::MAX);
        assert_eq!(binary(BinOp::SatSub, 1, 2, 8), 0);
        assert_eq!(binary(BinOp::SignedLt, 0xff, 1, 8), 1);
        assert_eq!(binary(BinOp::Lt, 0xff, 1, 8), 0);
        assert_eq!(binary(BinOp::Shl, 1, 8, 8), 0);
        assert_eq!(binary(BinOp::Shr, 0x80, u128::MAX, 8), 0);
        assert_eq!(unary(UnOp::Negate, 1, 16), 0xffff);
        assert_eq!(signed(1 << 127, 128), i128::MIN);
    }
}
