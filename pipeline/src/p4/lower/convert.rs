//! Values in the width and form of another type.

use super::super::tree::Expr;
use super::super::types::Type;
use super::build::{binary, cast, is, known, mux, number};
use super::env::Val;
use super::storage::part;
use super::{Lower, wide};
use crate::ast::{Ast, AstBin, AstExpr};
use crate::ir::SourceSpan;
use crate::ir::layout::{VALUE_BITS_MAX, ones};

impl Lower<'_> {
    /// `(T) value`.
    pub(super) fn cast(&mut self, expr: &Expr, value: &Expr) -> Val {
        let to = self.type_of(expr);
        let mut from = self.type_of(value);
        let inner = self.eval(value);
        let scalar = match &inner {
            Val::Scalar(scalar) => scalar.clone(),
            // A struct with one field.
            Val::Struct(fields)
                if fields.len() == 1
                    && matches!(to.base(), Type::Bit(_) | Type::Int(_) | Type::Bool) =>
            {
                from = part(&from, &fields[0].0).unwrap_or(from);
                match &fields[0].1 {
                    Val::Scalar(scalar) => scalar.clone(),
                    _ => return inner,
                }
            }
            Val::Nothing if from.has_no_bits() => return self.default_value(&to, expr.span),
            _ => return inner,
        };
        if to.has_no_bits() {
            return Val::Nothing;
        }
        Val::Scalar(self.convert(scalar, &from, &to, expr.span))
    }

    /// A number in the width of another type.
    pub(super) fn convert(
        &mut self,
        value: AstExpr,
        from: &Type,
        to: &Type,
        span: SourceSpan,
    ) -> AstExpr {
        let (a, b) = (self.bits(from, span), self.bits(to, span));
        if a == b || b == 0 {
            return value;
        }
        if a == 0 {
            return match known(&value) {
                Some(number_value) => cast(b, number(number_value, VALUE_BITS_MAX, span)),
                None => cast(b, value),
            };
        }
        if matches!(from.base(), Type::Int(_)) && b > a {
            return self.extended(value, a, b, span);
        }
        if a.max(b) > VALUE_BITS_MAX {
            return wide::resized(value, a, b, span);
        }
        cast(b, value)
    }

    /// A signed number in a larger width.
    pub(super) fn extended(
        &mut self,
        value: AstExpr,
        from: u32,
        to: u32,
        span: SourceSpan,
    ) -> AstExpr {
        if let Some(value) = known(&value) {
            return wide::constant(&wide::signed(value, from), to, span);
        }
        let value = if matches!(value.value, Ast::Path(_)) {
            value
        } else {
            self.number_kept(value, &Type::Bit(from))
        };
        let sign = wide::bits_of(&value, (from - 1, from - 1), span);
        let negative = is(sign, 1, 1, span);
        let high_bits = |bits| {
            mux(negative.clone(), number(ones(bits), bits, span), number(0, bits, span), span)
        };
        let high = wide::slices(to - from).map(|(high, low)| high_bits(high - low + 1));
        let value = wide::sized(value, from, span);
        high.chain([value])
            .reduce(|high, low| binary(AstBin::Concat, high, low, span))
            .unwrap_or_else(|| number(0, to, span))
    }
}
