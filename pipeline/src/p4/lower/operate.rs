//! Operators: signed numbers, structs and conditions whose sides do something are made of simpler ones.

use super::super::tree::*;
use super::super::types::Type;
use super::build::{binary, cast, is, known, mux, not, number, slice, unary};
use super::env::Val;
use super::{Lower, Place, wide};
use crate::ast::{Ast, AstBin, AstExpr, AstUn, Sp, StmtKind};
use crate::ir::SourceSpan;
use crate::ir::layout::ones;

impl Lower<'_> {
    pub(super) fn unary(&mut self, operator: Unary, operand: &Expr, span: SourceSpan) -> AstExpr {
        if self.type_of(operand).has_no_bits() {
            self.eval(operand);
            return number(0, 0, span);
        }
        let value = self.scalar(operand);
        match operator {
            Unary::Not => match known(&value) {
                Some(value) => number(u128::from(value == 0), 1, span),
                None => unary(AstUn::Not, value, span),
            },
            Unary::Complement => unary(AstUn::Complement, value, span),
            Unary::Minus if wide::is_wide(&self.type_of(operand)) => {
                self.no_wide(&self.type_of(operand), span);
                value
            }
            Unary::Minus => unary(AstUn::Negate, value, span),
            Unary::Plus => value,
        }
    }

    pub(super) fn binary(&mut self, expr: &Expr, op: Binary, left: &Expr, right: &Expr) -> AstExpr {
        let span = expr.span;
        if matches!(op, Binary::Op(AstBin::LogicalAnd | AstBin::LogicalOr)) {
            return self.logical(op, left, right, span);
        }
        let left_ty = self.type_of(left);
        let [a, b] = self.each_in_order([left, right]);
        if matches!(op, Binary::Op(AstBin::Eq | AstBin::Ne)) {
            let equal = self.equal(&a, &b, &left_ty, span);
            return if op == Binary::Op(AstBin::Eq) { equal } else { not(equal) };
        }
        let right_ty = self.type_of(right);
        if left_ty.has_no_bits() || right_ty.has_no_bits() {
            let of = |value, ty: &Type| (!ty.has_no_bits()).then_some(value);
            return self.without_bits(op, of(a, &left_ty), of(b, &right_ty), span);
        }
        let (Val::Scalar(a), Val::Scalar(b)) = (a, b) else {
            self.unsupported(span, "this operator is not supported here");
            return number(0, 1, span);
        };
        let (a, b) = match op {
            Binary::Op(AstBin::Concat) if wide::is_wide(&self.type_of(expr)) => {
                let bits = [&left_ty, &right_ty].map(|ty| self.bits(ty, span));
                (wide::sized(a, bits[0], span), wide::sized(b, bits[1], span))
            }
            _ => (a, b),
        };
        let ty = if matches!(op, Binary::Op(AstBin::Shl | AstBin::Shr | AstBin::Concat)) {
            left_ty
        } else {
            self.wider(left_ty, right)
        };
        self.operate(op, a, b, &ty, span)
    }

    /// An operator where a side has no bits (`bit<0>`, P4-16 1.2.5, section 7.1.6.2), and is `None` here; such a number is 0.
    fn without_bits(
        &mut self,
        op: Binary,
        a: Option<Val>,
        b: Option<Val>,
        span: SourceSpan,
    ) -> AstExpr {
        match op {
            Binary::Op(AstBin::Le | AstBin::Ge) => number(1, 1, span),
            Binary::Op(AstBin::Lt | AstBin::Gt) => number(0, 1, span),
            Binary::Op(AstBin::Concat) => match a.or(b) {
                Some(side) => self.number_in(&side, span),
                None => number(0, 0, span),
            },
            Binary::Op(AstBin::Shl | AstBin::Shr) => match a {
                Some(shifted) => self.number_in(&shifted, span),
                None => number(0, 0, span),
            },
            _ => number(0, 0, span),
        }
    }

    /// The type of the side that has a width.
    fn wider(&self, left: Type, right: &Expr) -> Type {
        if matches!(left, Type::Integer) { self.type_of(right) } else { left }
    }

    /// An operator on two numbers; `ty` is the type of the left one.
    pub(super) fn operate(
        &mut self,
        op: Binary,
        a: AstExpr,
        b: AstExpr,
        ty: &Type,
        span: SourceSpan,
    ) -> AstExpr {
        let bits = self.bits(ty, span);
        let is_signed = matches!(ty.base(), Type::Int(_));
        if let Some(value) = self.calculated(op, &a, &b, ty, span) {
            return value;
        }
        if wide::is_wide(ty) {
            return self.operate_wide(op, a, b, ty, span);
        }
        match op {
            Binary::Div => self.divide(a, b, bits, span),
            Binary::Op(AstBin::Shr) if is_signed => self.shift_signed(a, b, bits, span),
            Binary::Op(op @ (AstBin::SatAdd | AstBin::SatSub)) if is_signed => {
                self.saturate(op, a, b, bits, span)
            }
            Binary::Op(op @ (AstBin::Lt | AstBin::Le | AstBin::Gt | AstBin::Ge)) if is_signed => {
                let signed =
                    |value: AstExpr| Sp::new(Ast::Signed(Box::new(value.clone())), value.span);
                binary(op, signed(a), signed(b), span)
            }
            Binary::Op(op) => binary(op, a, b, span),
        }
    }

    /// The value, where both sides are known.
    fn calculated(
        &mut self,
        op: Binary,
        a: &AstExpr,
        b: &AstExpr,
        ty: &Type,
        span: SourceSpan,
    ) -> Option<AstExpr> {
        let (x, y) = (known(a)?, known(b)?);
        if self.bits(ty, span) == 0 || op == Binary::Op(AstBin::Concat) {
            return None;
        }
        let back = |value: u128| super::super::types::wrapped(&value.into(), ty);
        let is_shift = matches!(op, Binary::Op(AstBin::Shl | AstBin::Shr));
        let right = if is_shift { y.into() } else { back(y) };
        let Some(value) = super::super::types::calculate(op, &back(x), &right, ty) else {
            if matches!(op, Binary::Div | Binary::Op(AstBin::Rem)) {
                self.report.error(crate::diag::codes::P4_TYPE, span, "division by zero");
            }
            return None;
        };
        let compares = matches!(op, Binary::Op(AstBin::Lt | AstBin::Le | AstBin::Gt | AstBin::Ge));
        match self.constant(&value, if compares { &Type::Bool } else { ty }, span) {
            Val::Scalar(value) => Some(value),
            _ => None,
        }
    }

    /// Division by a constant ([`quotient`]).
    fn divide(&mut self, a: AstExpr, b: AstExpr, bits: u32, span: SourceSpan) -> AstExpr {
        let by = match known(&b) {
            Some(by) if by != 0 => by,
            _ => {
                self.unsupported(span, "division by anything but a constant")
                    .note("there is no division in the data plane");
                return a;
            }
        };
        let is_once = self.place == Place::Parser || by.is_power_of_two();
        let a = if is_once { a } else { self.keep(a) };
        quotient(a, by, bits, span)
    }

    /// A shift that keeps the sign.
    fn shift_signed(&mut self, a: AstExpr, by: AstExpr, bits: u32, span: SourceSpan) -> AstExpr {
        let a = if self.place == Place::Parser { a } else { self.keep(a) };
        let sign = is(slice(a.clone(), bits - 1, bits - 1, span), 1, 1, span);
        let complement = |value: AstExpr| unary(AstUn::Complement, value, span);
        let negative = complement(binary(AstBin::Shr, complement(a.clone()), by.clone(), span));
        mux(sign, negative, binary(AstBin::Shr, a, by, span), span)
    }

    /// Saturating addition of signed numbers, in one bit more.
    fn saturate(
        &mut self,
        op: AstBin,
        a: AstExpr,
        b: AstExpr,
        bits: u32,
        span: SourceSpan,
    ) -> AstExpr {
        if bits >= 128 {
            self.unsupported(span, "saturating arithmetic on 128 signed bits");
            return a;
        }
        let a = self.extended(a, bits, bits + 1, span);
        let b = self.extended(b, bits, bits + 1, span);
        let op = if op == AstBin::SatAdd { AstBin::Add } else { AstBin::Sub };
        let sum = binary(op, a, b, span);
        let sum = self.keep_number(sum, bits + 1);
        let top = || slice(sum.clone(), bits, bits - 1, span);
        let top_is = |value: u128| is(top(), value, 2, span);
        let most = number((1 << (bits - 1)) - 1, bits, span);
        let least = number(1 << (bits - 1), bits, span);
        let exact = slice(sum.clone(), bits - 1, 0, span);
        mux(top_is(0b01), most, mux(top_is(0b10), least, exact, span), span)
    }

    fn logical(&mut self, op: Binary, left: &Expr, right: &Expr, span: SourceSpan) -> AstExpr {
        let a = self.scalar(left);
        let is_and = op == Binary::Op(AstBin::LogicalAnd);
        if let Some(value) = known(&a) {
            return if (value != 0) == is_and {
                self.scalar(right)
            } else {
                number(u128::from(!is_and), 1, span)
            };
        }
        if self.place == Place::Parser && self.changes_something(right) {
            return self.logical_in_states(is_and, a, right, span);
        }
        let (b, before) = self.apart(|lower| lower.scalar(right));
        if before.is_empty() {
            let op = if is_and { AstBin::LogicalAnd } else { AstBin::LogicalOr };
            return match known(&b) {
                Some(value) if (value != 0) == is_and => a,
                _ => binary(op, a, b, span),
            };
        }
        // The right side has an effect, so it runs only if its value is needed.
        if self.place == Place::Parser {
            return self.logical_in_states(is_and, a, right, span);
        }
        let result = self.new_meta("condition", 1, span);
        self.set(&result, a, span);
        let ((), then) = self.apart(|lower| {
            lower.out = before;
            lower.set(&result, b, span);
        });
        let condition = if is_and { result.clone() } else { not(result.clone()) };
        self.push(StmtKind::If(condition, then, Vec::new()), span);
        result
    }

    /// The same with a state for the right side.
    fn logical_in_states(
        &mut self,
        is_and: bool,
        a: AstExpr,
        right: &Expr,
        span: SourceSpan,
    ) -> AstExpr {
        let result = self.new_meta("condition", 1, span);
        self.set(&result, a.clone(), span);
        let does = |lower: &mut Self, holds: bool| {
            if holds == is_and {
                let b = lower.scalar(right);
                lower.set(&result, b, span);
            }
        };
        self.branches(a, does, span);
        result
    }

    /// Whether two values are equal, part by part.
    pub(super) fn equal(&mut self, a: &Val, b: &Val, ty: &Type, span: SourceSpan) -> AstExpr {
        let truth = |value: bool| number(u128::from(value), 1, span);
        match (a, b) {
            (Val::Scalar(a), Val::Scalar(b))
                if wide::is_wide(ty)
                    && !matches!((&a.value, &b.value), (Ast::Path(_), Ast::Path(_))) =>
            {
                wide::equal(a, b, self.bits(ty, span), span)
            }
            (Val::Scalar(a), Val::Scalar(b)) => match (known(a), known(b)) {
                (Some(x), Some(y)) => truth(x == y),
                (None, Some(_))
                    if matches!(&b.value, Ast::Number { bits: None, .. })
                        && self.bits(ty, span) > 0 =>
                {
                    let bits = self.bits(ty, span);
                    binary(AstBin::Eq, a.clone(), cast(bits, b.clone()), span)
                }
                _ => binary(AstBin::Eq, a.clone(), b.clone(), span),
            },
            (Val::Struct(x), Val::Struct(y)) | (Val::Union(x), Val::Union(y)) => {
                self.all_equal(x, y, ty, span)
            }
            (Val::Header(x), Val::Header(y)) => {
                let (left, right) = (self.is_valid(x, span), self.is_valid(y, span));
                let (x, y) = (self.header_fields(x, span), self.header_fields(y, span));
                let same = self.all_equal(&x, &y, ty, span);
                let both = binary(AstBin::LogicalAnd, left.clone(), right.clone(), span);
                let none = binary(AstBin::LogicalAnd, not(left), not(right), span);
                let both = binary(AstBin::LogicalAnd, both, same, span);
                binary(AstBin::LogicalOr, none, both, span)
            }
            (Val::Header(x), Val::Literal(fields)) | (Val::Literal(fields), Val::Header(x)) => {
                let valid = self.is_valid(x, span);
                match fields {
                    None => not(valid),
                    Some(fields) => {
                        let x = self.header_fields(x, span);
                        let same = self.all_equal(&x, fields, ty, span);
                        binary(AstBin::LogicalAnd, valid, same, span)
                    }
                }
            }
            (Val::Literal(None), Val::Literal(None)) => truth(true),
            (Val::Literal(Some(x)), Val::Literal(Some(y))) => self.all_equal(x, y, ty, span),
            (Val::Literal(_), Val::Literal(_)) => truth(false),
            (Val::Union(members), Val::Literal(None))
            | (Val::Literal(None), Val::Union(members)) => {
                let mut all = truth(true);
                for (_, member) in members.iter() {
                    let same = self.equal(member, &Val::Literal(None), &Type::Any, span);
                    all = both(all, same, span);
                }
                all
            }
            (Val::Stack(_), Val::Stack(_) | Val::Struct(_)) | (Val::Struct(_), Val::Stack(_)) => {
                let (a, b) = (self.listed(a, span), self.listed(b, span));
                self.equal(&a, &b, ty, span)
            }
            (Val::Nothing, _) | (_, Val::Nothing) => truth(true),
            _ => {
                self.unsupported(span, "these cannot be compared");
                truth(false)
            }
        }
    }

    fn all_equal(
        &mut self,
        a: &[(std::rc::Rc<str>, Val)],
        b: &[(std::rc::Rc<str>, Val)],
        ty: &Type,
        span: SourceSpan,
    ) -> AstExpr {
        let mut all = number(1, 1, span);
        for (at, (name, left)) in a.iter().enumerate() {
            let found = b.iter().find(|(known, _)| known == name).or_else(|| b.get(at));
            let Some((_, right)) = found else { continue };
            let of = super::storage::part(ty, name).unwrap_or(Type::Any);
            let same = self.equal(left, right, &of, span);
            all = both(all, same, span);
        }
        all
    }
}

/// `a` divided by a constant that is not 0: what is left without the remainder is a multiple, which is divided by shifting and by
/// multiplication with the inverse of the odd part. `a` is read twice, but for powers of two.
pub(super) fn quotient(a: AstExpr, by: u128, bits: u32, span: SourceSpan) -> AstExpr {
    let zeros = by.trailing_zeros();
    let shifted = |value: AstExpr| match zeros {
        0 => value,
        _ => binary(AstBin::Shr, value, number(zeros.into(), 32, span), span),
    };
    let odd = by >> zeros;
    if odd == 1 {
        return shifted(a);
    }
    let rest = binary(AstBin::Rem, a.clone(), number(by, bits, span), span);
    let multiple = shifted(binary(AstBin::Sub, a, rest, span));
    binary(AstBin::Mul, multiple, number(inverse(odd) & ones(bits), bits, span), span)
}

/// The inverse of an odd number modulo 2^128: each step doubles the bits that are right (Newton; Warren, Hacker's Delight, 10-16).
fn inverse(odd: u128) -> u128 {
    (0..7).fold(odd, |x, _| x.wrapping_mul(2u128.wrapping_sub(odd.wrapping_mul(x))))
}

/// `a && b`, without what is known to hold.
pub(super) fn both(a: AstExpr, b: AstExpr, span: SourceSpan) -> AstExpr {
    match (known(&a), known(&b)) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => binary(AstBin::LogicalAnd, a, b, span),
    }
}
