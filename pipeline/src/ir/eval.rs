//! The results of the operators: the definition that folding and engines share.
//!
//! Operands are below two to their width; results are too.

use super::Program;
use super::expr::{BinOp, Expr, ExprKind, UnOp};
use super::layout::ones;
use crate::ids::*;

/// The operators on one word size, generated for each.
macro_rules! operators {
    ($word:ty, $signed:ty, $unary:ident, $binary:ident, $ones:path) => {
        /// A unary operator on a value of `bits` bits that fits the word.
        #[inline]
        pub fn $unary(op: UnOp, value: $word, bits: u32) -> $word {
            match op {
                UnOp::Not => (value == 0).into(),
                UnOp::Complement => !value & $ones(bits),
                UnOp::Negate => value.wrapping_neg() & $ones(bits),
            }
        }

        /// A binary operator on values that fit the word, whose left one has `bits` bits.
        #[inline]
        pub fn $binary(op: BinOp, left: $word, right: $word, bits: u32) -> $word {
            let count = || u32::try_from(right).ok();
            let signed = |value: $word| {
                let up = <$word>::BITS - bits.clamp(1, <$word>::BITS);
                ((value << up) as $signed) >> up
            };
            match op {
                BinOp::Add => left.wrapping_add(right) & $ones(bits),
                BinOp::Sub => left.wrapping_sub(right) & $ones(bits),
                BinOp::Mul => left.wrapping_mul(right) & $ones(bits),
                BinOp::Rem => left.checked_rem(right).unwrap_or(0),
                BinOp::SatAdd => left.saturating_add(right).min($ones(bits)),
                BinOp::SatSub => left.saturating_sub(right),
                BinOp::And => left & right,
                BinOp::Or => left | right,
                BinOp::Xor => left ^ right,
                BinOp::Shl => count().and_then(|n| left.checked_shl(n)).unwrap_or(0) & $ones(bits),
                BinOp::Shr => count().and_then(|n| left.checked_shr(n)).unwrap_or(0),
                BinOp::Eq => (left == right).into(),
                BinOp::Ne => (left != right).into(),
                BinOp::Lt => (left < right).into(),
                BinOp::Le => (left <= right).into(),
                BinOp::SignedLt => (signed(left) < signed(right)).into(),
                BinOp::SignedLe => (signed(left) <= signed(right)).into(),
                BinOp::LogicalAnd => left & right & 1,
                BinOp::LogicalOr => (left | right) & 1,
            }
        }
    };
}

operators!(u128, i128, unary, binary, ones);
operators!(u64, i64, unary_word, binary_word, ones_word);

/// `bits` ones, for 1 to 64.
#[inline]
pub const fn ones_word(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
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

/// Whether evaluating it may end the pass or the parser: an array index, a lookahead.
pub fn may_end(exprs: &IdVec<ExprId, Expr>, id: ExprId) -> bool {
    let kind = &exprs[id].kind;
    matches!(kind, ExprKind::Element { .. } | ExprKind::Lookahead { .. })
        || operands(kind).into_iter().any(|operand| may_end(exprs, operand))
}

/// True if `wanted` is true of a part of the expression.
pub fn reads(program: &Program, expr: ExprId, wanted: &dyn Fn(&ExprKind) -> bool) -> bool {
    let mut open = vec![expr];
    while let Some(id) = open.pop() {
        let Some(kind) = program.exprs.get(id).map(|expr| &expr.kind) else { continue };
        if wanted(kind) {
            return true;
        }
        open.extend(operands(kind));
    }
    false
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
        | ExprKind::HeaderLength(_)
        | ExprKind::Bytes(..)
        | ExprKind::Body
        | ExprKind::SameBytes(..) => Vec::new(),
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

    proptest::proptest! {
        #[test]
        fn a_narrow_operator_is_the_wide_one(
            left: u64, right: u64, bits in 1u32..=64, small: bool,
        ) {
            let (left, right) = (left & ones_word(bits), right & ones_word(bits));
            let right = if small { (right % 70) & ones_word(bits) } else { right };
            for op in ALL {
                let wide = binary(op, left.into(), right.into(), bits);
                proptest::prop_assert_eq!(u128::from(binary_word(op, left, right, bits)), wide);
            }
            for op in [UnOp::Not, UnOp::Complement, UnOp::Negate] {
                let wide = unary(op, left.into(), bits);
                proptest::prop_assert_eq!(u128::from(unary_word(op, left, bits)), wide);
            }
        }
    }

    const ALL: [BinOp; 19] = {
        use BinOp::*;
        [
            Add, Sub, Mul, Rem, SatAdd, SatSub, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, SignedLt,
            SignedLe, LogicalAnd, LogicalOr,
        ]
    };

    #[test]
    fn wraps_saturates_and_compares_signed() {
        assert_eq!(binary(BinOp::Add, 0xff, 1, 8), 0);
        assert_eq!(binary(BinOp::Rem, 0xff, 16, 8), 15);
        assert_eq!(binary(BinOp::Rem, 0xff, 0, 8), 0);
        assert_eq!(binary(BinOp::SatAdd, 0xff, 1, 8), 0xff);
        assert_eq!(binary(BinOp::SatAdd, u128::MAX, 1, 128), u128::MAX);
        assert_eq!(binary(BinOp::SatSub, 1, 2, 8), 0);
        assert_eq!(binary(BinOp::SignedLt, 0xff, 1, 8), 1);
        assert_eq!(binary(BinOp::Lt, 0xff, 1, 8), 0);
        assert_eq!(binary(BinOp::Shl, 1, 8, 8), 0);
        assert_eq!(binary(BinOp::Shr, 0x80, u128::MAX, 8), 0);
        assert_eq!(unary(UnOp::Negate, 1, 16), 0xffff);
        assert_eq!(binary(BinOp::SignedLt, 1 << 127, 0, 128), 1);
    }
}
