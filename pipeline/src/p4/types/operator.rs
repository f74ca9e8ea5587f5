//! Operators: their types and, where the operands are known, their values.

use num_bigint::{BigInt, Sign};

use super::super::tree::*;
use super::check::Checker;
use super::{Const, Type};
use crate::diag::codes;

/// The value in the width of its type: unsigned from 0, signed around 0.
pub(in crate::p4) fn wrapped(value: &BigInt, ty: &Type) -> BigInt {
    let (bits, signed) = match ty.base() {
        Type::Bit(bits) => (*bits, false),
        Type::Int(bits) => (*bits, true),
        _ => return value.clone(),
    };
    if bits == 0 {
        return BigInt::ZERO;
    }
    let span = BigInt::from(1) << bits;
    let mut low = value % &span;
    if low.sign() == Sign::Minus {
        low += &span;
    }
    if signed && low >= BigInt::from(1) << (bits - 1) {
        low -= span;
    }
    low
}

/// The limits of a type.
fn limits(ty: &Type) -> Option<(BigInt, BigInt)> {
    let one = BigInt::from(1);
    match ty.base() {
        Type::Bit(bits) => Some((BigInt::ZERO, (one << *bits) - 1)),
        Type::Int(bits) if *bits > 0 => {
            let half = one << (*bits - 1);
            Some((-half.clone(), half - 1))
        }
        _ => None,
    }
}

/// Whether a type cuts a number. A negative one for an unsigned type is its two's complement, which programs write on purpose.
pub(super) fn is_cut(value: &BigInt, ty: &Type) -> bool {
    limits(ty).is_some_and(|(low, high)| {
        let least = if low.sign() == Sign::NoSign { -&high - 1 } else { low };
        *value > high || *value < least
    })
}

/// Most bits of a constant `int`, which has no width of its own.
const NUMBER_BITS_MAX: u64 = 1 << 18;
/// Most bytes of a constant string.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// The value of an operation on two numbers; `ty` is the type of the result. `None`: it has none, or too many bits.
pub(in crate::p4) fn calculate(
    operator: Binary,
    left: &BigInt,
    right: &BigInt,
    ty: &Type,
) -> Option<Const> {
    use AstBin::*;
    use Binary::{Div, Op};
    let shift = |value: &BigInt| u32::try_from(value).ok().filter(|by| *by <= 1 << 16);
    let value = match operator {
        Op(Add) => left + right,
        Op(Sub) => left - right,
        Op(Mul) => left * right,
        Div | Op(Rem) if *right == BigInt::ZERO => return None,
        Div => left / right,
        Op(Rem) => left % right,
        Op(SatAdd | SatSub) => {
            let exact = if operator == Op(SatAdd) { left + right } else { left - right };
            let (low, high) = limits(ty)?;
            exact.clamp(low, high)
        }
        Op(And) => left & right,
        Op(Or) => left | right,
        Op(Xor) => left ^ right,
        Op(Shl | Shr) if right.sign() == Sign::Minus => return None,
        Op(Shl) => match (shift(right), ty.base()) {
            (Some(by), _) => left << by,
            // All bits have left.
            (None, Type::Bit(_) | Type::Int(_)) => BigInt::ZERO,
            (None, _) => return None,
        },
        Op(Shr) => match shift(right) {
            Some(by) => left >> by,
            None if left.sign() == Sign::Minus => BigInt::from(-1),
            None => BigInt::ZERO,
        },
        Op(Eq) => return Some(Const::Bool(left == right)),
        Op(Ne) => return Some(Const::Bool(left != right)),
        Op(Lt) => return Some(Const::Bool(left < right)),
        Op(Le) => return Some(Const::Bool(left <= right)),
        Op(Gt) => return Some(Const::Bool(left > right)),
        Op(Ge) => return Some(Const::Bool(left >= right)),
        Op(LogicalAnd | LogicalOr | Concat) => return None,
    };
    (value.bits() <= NUMBER_BITS_MAX).then(|| Const::Int(wrapped(&value, ty)))
}

impl Checker<'_> {
    pub(super) fn unary(&mut self, expr: &Expr, operator: Unary, operand: &Expr) -> Type {
        let got = self.value(operand);
        let base = self.known(&got);
        let base = match &base {
            Type::Enum(_, Some(under)) => (**under).clone(),
            other => other.clone(),
        };
        let fits = match operator {
            Unary::Not => matches!(base, Type::Bool),
            Unary::Complement => matches!(base, Type::Bit(_) | Type::Int(_)),
            Unary::Minus | Unary::Plus => {
                matches!(base, Type::Bit(_) | Type::Int(_) | Type::Integer)
            }
        };
        if base.is_any() {
            return Type::Any;
        }
        if !fits {
            let sign = match operator {
                Unary::Not => "!",
                Unary::Complement => "~",
                Unary::Minus => "-",
                Unary::Plus => "+",
            };
            self.type_error(expr.span, format!("`{sign}` cannot be applied to {got}"));
            return Type::Any;
        }
        let value = match (operator, self.consts.get(&operand.id)) {
            (Unary::Not, Some(Const::Bool(value))) => Some(Const::Bool(!value)),
            (Unary::Minus, Some(Const::Int(value))) => Some(Const::Int(wrapped(&-value, &base))),
            (Unary::Plus, Some(Const::Int(value))) => Some(Const::Int(value.clone())),
            (Unary::Complement, Some(Const::Int(value))) => {
                Some(Const::Int(wrapped(&(-value - 1), &base)))
            }
            _ => None,
        };
        if let Some(value) = value {
            self.consts.insert(expr.id, value);
        }
        base
    }

    pub(super) fn binary(&mut self, expr: &Expr, op: Binary, left: &Expr, right: &Expr) -> Type {
        let a = self.value(left);
        let b = self.value(right);
        let (a, b) = (self.known(&a), self.known(&b));
        if a.is_any() || b.is_any() {
            let is_bool = is_comparison(op)
                || matches!(op, Binary::Op(AstBin::LogicalAnd | AstBin::LogicalOr));
            return if is_bool { Type::Bool } else { Type::Any };
        }
        let ty = match op {
            Binary::Op(AstBin::LogicalAnd | AstBin::LogicalOr) => logical(&a, &b),
            Binary::Op(AstBin::Shl | AstBin::Shr) => self.shift(right, &a, &b),
            Binary::Op(AstBin::Concat) => concat(&a, &b),
            Binary::Op(AstBin::Eq | AstBin::Ne) => self.equality(left, right, &a, &b),
            Binary::Op(AstBin::Lt | AstBin::Le | AstBin::Gt | AstBin::Ge) => {
                self.numbers(left, right, &a, &b).map(|_| Type::Bool)
            }
            Binary::Op(AstBin::SatAdd | AstBin::SatSub) => {
                self.numbers(left, right, &a, &b).filter(|ty| !matches!(ty, Type::Integer))
            }
            Binary::Op(
                AstBin::And | AstBin::Or | AstBin::Xor | AstBin::Add | AstBin::Sub | AstBin::Mul,
            ) => self.numbers(left, right, &a, &b),
            Binary::Div | Binary::Op(AstBin::Rem) => self.division(left, right, &a, &b),
        };
        let Some(ty) = ty else {
            let text = format!("`{}` cannot be applied to {a} and {b}", op.symbol());
            let error = self.type_error(expr.span, text);
            if matches!(op, Binary::Op(AstBin::Shl | AstBin::Shr)) && matches!(a, Type::Integer) {
                error.help("give the number on the left a width, as in 8w1");
            }
            return if is_comparison(op) { Type::Bool } else { Type::Any };
        };
        self.calculated(expr, op, left, right, &ty);
        ty
    }

    pub(super) fn shift(&mut self, right: &Expr, a: &Type, b: &Type) -> Option<Type> {
        // By how much has no sign, unless it is known (P4-16 8.7).
        let is_known = self.consts.contains_key(&right.id);
        let by = match under(b) {
            Type::Int(_) => is_known,
            other => matches!(other, Type::Bit(_) | Type::Integer),
        };
        let of = matches!(under(a), Type::Bit(_) | Type::Int(_) | Type::Integer);
        if let Some(Const::Int(value)) = self.consts.get(&right.id)
            && value.sign() == Sign::Minus
        {
            self.type_error(right.span, "a shift by a negative number");
            return Some(under(a).clone());
        }
        if matches!(a, Type::Integer) && !self.consts.contains_key(&right.id) {
            return None;
        }
        (by && of).then(|| under(a).clone())
    }

    pub(super) fn division(
        &mut self,
        left: &Expr,
        right: &Expr,
        a: &Type,
        b: &Type,
    ) -> Option<Type> {
        for expr in [left, right] {
            let value = self.consts.get(&expr.id);
            if matches!(value, Some(Const::Int(value)) if value.sign() == Sign::Minus) {
                self.type_error(expr.span, "division of negative numbers is not defined");
                return self.numbers(left, right, a, b);
            }
        }
        let ty = self.numbers(left, right, a, b)?;
        if matches!(ty, Type::Int(_)) {
            return None;
        }
        for (side, expr) in [(false, left), (true, right)] {
            let Some(Const::Int(value)) = self.consts.get(&expr.id).cloned() else { continue };
            if value.sign() == Sign::Minus {
                self.type_error(expr.span, "division of negative numbers is not defined");
            } else if side && value == BigInt::ZERO {
                self.type_error(expr.span, "division by zero");
            }
        }
        Some(ty)
    }

    /// Both sides as numbers of one type.
    fn numbers(&mut self, left: &Expr, right: &Expr, a: &Type, b: &Type) -> Option<Type> {
        let (a, b) = (under(a).clone(), under(b).clone());
        let is_number = |ty: &Type| matches!(ty, Type::Bit(_) | Type::Int(_) | Type::Integer);
        if !is_number(&a) || !is_number(&b) {
            return None;
        }
        match (&a, &b) {
            (Type::Integer, Type::Integer) => Some(Type::Integer),
            (Type::Integer, _) => {
                self.converts(left, &a, &b);
                Some(b)
            }
            (_, Type::Integer) => {
                self.converts(right, &b, &a);
                Some(a)
            }
            _ => self.unify(&a, &b).then_some(a),
        }
    }

    fn equality(&mut self, left: &Expr, right: &Expr, a: &Type, b: &Type) -> Option<Type> {
        if let (Type::ActionRun(x), Type::ActionRun(y)) = (a, b) {
            return (x.id == y.id).then_some(Type::Bool);
        }
        let comparable = |ty: &Type| {
            !matches!(
                ty,
                Type::Extern(..)
                    | Type::Parser(..)
                    | Type::Control(..)
                    | Type::Package(..)
                    | Type::Table(_)
                    | Type::Action(_)
                    | Type::Function(_)
                    | Type::Method
                    | Type::Name(_)
                    | Type::Applied(_)
                    | Type::Set(_)
                    | Type::Void
                    | Type::MatchKind
            )
        };
        if !comparable(a) || !comparable(b) {
            return None;
        }
        if matches!((a, b), (Type::Invalid, Type::Invalid)) {
            return None;
        }
        let both_lists = matches!(a, Type::Listed(..) | Type::Record(..))
            && matches!(b, Type::Listed(..) | Type::Record(..));
        if both_lists {
            return self.lists_equal(a, b).then_some(Type::Bool);
        }
        let fits = self.converts(right, b, a) || self.converts(left, a, b);
        if fits {
            return Some(Type::Bool);
        }
        // A serializable enum is compared as the number that it is.
        if matches!(
            (a, b),
            (Type::Enum(_, Some(_)), Type::Integer) | (Type::Integer, Type::Enum(_, Some(_)))
        ) {
            return self.numbers(left, right, a, b).map(|_| Type::Bool);
        }
        let (x, y) = (under(a), under(b));
        let both = matches!((x, y), (Type::Bit(_), Type::Bit(_)) | (Type::Int(_), Type::Int(_)));
        (both && x.bits() == y.bits() && !matches!((a, b), (Type::New(..), _) | (_, Type::New(..))))
            .then_some(Type::Bool)
    }

    fn lists_equal(&mut self, a: &Type, b: &Type) -> bool {
        match (a, b) {
            (Type::Listed(a, _), Type::Listed(b, _)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.parts_equal(a, b))
            }
            (Type::Record(a, _), Type::Record(b, _)) => {
                a.len() == b.len()
                    && a.iter().all(|(name, a)| {
                        let found = b.iter().find(|(known, _)| known == name);
                        found.is_some_and(|(_, b)| self.parts_equal(a, b))
                    })
            }
            _ => false,
        }
    }

    fn parts_equal(&mut self, a: &Type, b: &Type) -> bool {
        let is_number = |ty: &Type| matches!(ty, Type::Bit(_) | Type::Int(_));
        self.unify(a, b)
            || matches!(a, Type::Integer) && is_number(b)
            || matches!(b, Type::Integer) && is_number(a)
            || self.lists_equal(a, b)
    }

    fn calculated(&mut self, expr: &Expr, op: Binary, left: &Expr, right: &Expr, ty: &Type) {
        let (a, b) = (self.consts.get(&left.id), self.consts.get(&right.id));
        let value = match (a, b) {
            (Some(Const::Int(_)), Some(Const::Int(b)))
                if matches!(op, Binary::Op(AstBin::Shl))
                    && matches!(ty.base(), Type::Integer)
                    && *b > BigInt::from(1 << 16) =>
            {
                let text = "a shift of a constant by more than 65,536 bits";
                self.report.refuse(codes::LIMIT, right.span, text)
            }
            (Some(Const::Int(a)), Some(Const::Int(b))) if op == Binary::Op(AstBin::Concat) => {
                let low = self.noted(right).base().bits().unwrap_or(0);
                let high = wrapped(a, &Type::Bit(self.noted(left).base().bits().unwrap_or(0)));
                let joined = (high << low) | wrapped(b, &Type::Bit(low));
                Some(Const::Int(wrapped(&joined, ty)))
            }
            (Some(Const::Int(a)), Some(Const::Int(b))) => {
                let value = calculate(op, a, b, ty);
                if value.is_none()
                    && matches!(op, Binary::Op(AstBin::Add | AstBin::Sub | AstBin::Mul))
                {
                    let text = format!("a constant of more than {NUMBER_BITS_MAX} bits");
                    self.error(codes::LIMIT, expr.span, text);
                    // Some value, so that what is made of it is no error too.
                    Some(Const::Int(BigInt::ZERO))
                } else {
                    value
                }
            }
            (Some(Const::Text(a)), Some(Const::Text(b)))
                if op == Binary::Op(AstBin::Concat) && a.len() + b.len() > TEXT_BYTES_MAX =>
            {
                let text = format!("a constant string of more than {TEXT_BYTES_MAX} bytes");
                self.error(codes::LIMIT, expr.span, text);
                Some(Const::Text("".into()))
            }
            (Some(Const::Text(a)), Some(Const::Text(b))) if op == Binary::Op(AstBin::Concat) => {
                Some(Const::Text(format!("{a}{b}").into()))
            }
            (Some(Const::Bool(a)), Some(Const::Bool(b))) => match op {
                Binary::Op(AstBin::LogicalAnd) => Some(Const::Bool(*a && *b)),
                Binary::Op(AstBin::LogicalOr) => Some(Const::Bool(*a || *b)),
                Binary::Op(AstBin::Eq) => Some(Const::Bool(a == b)),
                Binary::Op(AstBin::Ne) => Some(Const::Bool(a != b)),
                _ => None,
            },
            (Some(a), Some(b)) if op == Binary::Op(AstBin::Eq) => Some(Const::Bool(a == b)),
            (Some(a), Some(b)) if op == Binary::Op(AstBin::Ne) => Some(Const::Bool(a != b)),
            (Some(Const::Bool(false)), _) if op == Binary::Op(AstBin::LogicalAnd) => {
                Some(Const::Bool(false))
            }
            (Some(Const::Bool(true)), _) if op == Binary::Op(AstBin::LogicalOr) => {
                Some(Const::Bool(true))
            }
            _ => None,
        };
        if let Some(value) = value {
            self.consts.insert(expr.id, value);
        }
    }
}

fn is_comparison(op: Binary) -> bool {
    use AstBin::*;
    matches!(op, Binary::Op(Eq | Ne | Lt | Le | Gt | Ge))
}

/// The number below a serializable enum.
fn under(ty: &Type) -> &Type {
    if let Type::Enum(_, Some(base)) = ty { base } else { ty }
}

fn concat(a: &Type, b: &Type) -> Option<Type> {
    match (under(a), under(b)) {
        (Type::Bit(a), Type::Bit(b) | Type::Int(b)) => Some(Type::Bit(a + b)),
        (Type::Int(a), Type::Bit(b) | Type::Int(b)) => Some(Type::Int(a + b)),
        (Type::Text, Type::Text) => Some(Type::Text),
        _ => None,
    }
}

/// The type of `&&` and `||`.
fn logical(a: &Type, b: &Type) -> Option<Type> {
    (matches!(a, Type::Bool) && matches!(b, Type::Bool)).then_some(Type::Bool)
}
