//! Expressions.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::tree::*;
use super::check::{Checker, Name};
use super::operator::wrapped;
use super::{Const, Def, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// The type of an expression, which is noted.
    pub(super) fn value(&mut self, expr: &Expr) -> Type {
        let ty = self.kind(expr);
        let ty = self.known(&ty);
        self.note(expr, ty)
    }

    /// An expression for which a type is expected.
    pub(super) fn value_as(&mut self, expr: &Expr, want: &Type) -> bool {
        self.value(expr);
        self.fit(expr, want)
    }

    fn kind(&mut self, expr: &Expr) -> Type {
        match &*expr.kind {
            ExprKind::Number(value, width) => self.number(expr, value, *width),
            ExprKind::Bool(value) => {
                self.consts.insert(expr.id, Const::Bool(*value));
                Type::Bool
            }
            ExprKind::Text(text) => {
                self.consts.insert(expr.id, Const::Text(text.clone()));
                Type::Text
            }
            ExprKind::Name(name, global) => self.name(expr, name, *global),
            ExprKind::Type(ty) => Type::Name(Rc::new(self.resolve(ty))),
            ExprKind::Member(of, name) => self.member(expr, of, name),
            ExprKind::Index(of, index) => {
                let ty = self.index(of, index);
                self.fold_part(expr);
                ty
            }
            ExprKind::Slice(of, high, low) => self.slice(expr, of, high, low),
            ExprKind::PlusSlice(of, base, width) => self.plus_slice(expr, of, base, width),
            ExprKind::Call { callee, types, args } => self.call(expr, callee, types, args),
            ExprKind::Unary(operator, operand) => self.unary(expr, *operator, operand),
            ExprKind::Binary(operator, left, right) => self.binary(expr, *operator, left, right),
            ExprKind::Mux(condition, then, other) => self.mux(expr, condition, then, other),
            ExprKind::Cast(ty, value) => self.cast(expr, ty, value),
            ExprKind::List(items, dots) => {
                let types = items.iter().map(|item| self.value(item)).collect();
                Type::Listed(Rc::new(types), *dots)
            }
            ExprKind::Tuple(items) => {
                let types = items.iter().map(|item| self.value(item)).collect();
                Type::Listed(Rc::new(types), false)
            }
            ExprKind::Record(fields, dots) => self.record(fields, *dots),
            ExprKind::Invalid => Type::Invalid,
            ExprKind::Dots | ExprKind::Any | ExprKind::Poison => Type::Any,
            ExprKind::Mask(value, mask) => self.mask(expr, value, mask),
            ExprKind::Range(low, high) => self.range(expr, low, high),
        }
    }

    fn number(&mut self, expr: &Expr, value: &BigInt, width: Option<(u32, bool)>) -> Type {
        let ty = match width {
            None => Type::Integer,
            Some((bits, false)) => Type::Bit(bits),
            Some((0, true)) => {
                self.type_error(expr.span, "a signed number has at least 1 bit");
                Type::Int(1)
            }
            Some((bits, true)) => Type::Int(bits),
        };
        self.cut(expr, value, &ty);
        ty
    }

    fn record(&mut self, fields: &[(Ident, Expr)], dots: bool) -> Type {
        let mut types: Vec<(Rc<str>, Type)> = Vec::new();
        for (name, value) in fields {
            if types.iter().any(|(known, _)| *known == name.value) {
                let text = format!("`{}` is given twice", name.value);
                self.error(codes::TWICE, name.span, text);
            }
            let ty = self.value(value);
            types.push((name.value.clone(), ty));
        }
        Type::Record(Rc::new(types), dots)
    }

    fn name(&mut self, expr: &Expr, name: &Ident, global: bool) -> Type {
        let found = self.find(&name.value, global).map(<[Name]>::to_vec);
        let Some(first) = found.as_ref().and_then(|names| names.first()) else {
            if self.match_kinds.contains(&name.value) {
                self.consts.insert(expr.id, Const::Enum(u32::MAX, name.value.clone()));
                return Type::MatchKind;
            }
            self.unknown("", name);
            return Type::Any;
        };
        match first.clone() {
            Name::Param(id, _, ty) => {
                self.defs.insert(expr.id, Def::Param(id));
                ty
            }
            Name::TypeVar(ty) => Type::Name(Rc::new(ty)),
            Name::Decl(decl) => {
                self.defs.insert(expr.id, Def::Decl(decl.clone()));
                self.decl_value(expr, &decl)
            }
        }
    }

    /// The type of a declared thing as a value.
    fn decl_value(&mut self, expr: &Expr, decl: &Rc<Decl>) -> Type {
        match &decl.kind {
            DeclKind::Const(_, value) => {
                if let Some(known) = self.consts.get(&value.id).cloned() {
                    self.consts.insert(expr.id, known);
                }
                self.declared.get(&decl.id).cloned().unwrap_or(Type::Any)
            }
            DeclKind::Variable(..) | DeclKind::Instance { .. } => {
                self.declared.get(&decl.id).cloned().unwrap_or(Type::Any)
            }
            DeclKind::ValueSet(..) => {
                let of = self.declared.get(&decl.id).cloned().unwrap_or(Type::Any);
                Type::Set(Rc::new(of))
            }
            DeclKind::Action { .. } => Type::Action(decl.clone()),
            DeclKind::Table(_) => Type::Table(decl.clone()),
            DeclKind::Function(_) => Type::Function(decl.clone()),
            _ => {
                let ty = self.type_of_decl(decl, Vec::new(), expr.span);
                Type::Name(Rc::new(ty))
            }
        }
    }

    fn index(&mut self, of: &Expr, index: &Expr) -> Type {
        let ty = self.value(of);
        self.value(index);
        let at = self.noted(index);
        let at = self.known(&at);
        let is_number =
            matches!(at.base(), Type::Bit(_) | Type::Int(_) | Type::Integer | Type::Any)
                && !matches!(at, Type::New(..));
        if !is_number {
            self.type_error(index.span, format!("an index is a number, not {at}"));
        }
        let known = match self.consts.get(&index.id) {
            Some(Const::Int(value)) => Some(value.clone()),
            _ => None,
        };
        let size = match self.known(&ty) {
            Type::Stack(of, size) => (size as usize, (*of).clone()),
            Type::Tuple(parts) | Type::Listed(parts, _) => {
                let Some(at) = known.as_ref() else {
                    self.error(
                        codes::NOT_CONSTANT,
                        index.span,
                        "the index of a tuple must be known",
                    );
                    return Type::Any;
                };
                let part = usize::try_from(at).ok().and_then(|at| parts.get(at)).cloned();
                (parts.len(), part.unwrap_or(Type::Any))
            }
            Type::Any => return Type::Any,
            other => {
                self.type_error(of.span, format!("{other} has no elements"));
                return Type::Any;
            }
        };
        if let Some(at) = known
            && !usize::try_from(&at).is_ok_and(|at| at < size.0)
        {
            let text = format!("{at} is outside: there are {} elements", size.0);
            self.error(codes::BAD_INDEX, index.span, text);
        }
        size.1
    }

    fn sliceable(&mut self, of: &Expr) -> Option<u32> {
        let ty = self.value(of);
        match self.known(&ty) {
            Type::Any => None,
            ty => match if let Type::Enum(_, Some(base)) = &ty { (**base).clone() } else { ty } {
                Type::Bit(bits) | Type::Int(bits) => Some(bits),
                Type::Integer if self.consts.contains_key(&of.id) => Some(crate::p4::WIDTH_MAX),
                other => {
                    self.type_error(of.span, format!("{other} has no bits to slice"));
                    None
                }
            },
        }
    }

    fn slice(&mut self, expr: &Expr, of: &Expr, high: &Expr, low: &Expr) -> Type {
        let bits = self.sliceable(of);
        let high_at = self.slice_bound(high);
        let low_at = self.slice_bound(low);
        let (Some(bits), Some(top), Some(bottom)) = (bits, high_at, low_at) else {
            return Type::Any;
        };
        let (top, bottom) = match (u32::try_from(&top), u32::try_from(&bottom)) {
            (Ok(top), Ok(bottom)) if top < bits && bottom <= top => (top, bottom),
            (Ok(top), Ok(bottom)) if top < bottom && bottom < bits => {
                self.error(codes::BAD_SLICE, high.span, "the higher bit of a slice comes first")
                    .help(format!("write `[{bottom}:{top}]`"));
                return Type::Any;
            }
            (_, Ok(bottom)) if bottom < bits => {
                let text = format!("bit {top} is outside of [{}:{bottom}]", bits - 1);
                self.error(codes::BAD_SLICE, high.span, text);
                return Type::Any;
            }
            _ => {
                let text = format!("bit {bottom} is outside of a value of {bits} bits");
                self.error(codes::BAD_SLICE, low.span, text);
                return Type::Any;
            }
        };
        if let Some(Const::Int(value)) = self.consts.get(&of.id) {
            let part = wrapped(&(value >> bottom), &Type::Bit(top - bottom + 1));
            self.consts.insert(expr.id, Const::Int(part));
        }
        Type::Bit(top - bottom + 1)
    }

    fn slice_bound(&mut self, bound: &Expr) -> Option<BigInt> {
        if self.is_bit_number(bound) {
            self.constant_number(bound, "a bit of a slice")
        } else {
            None
        }
    }

    /// Types what counts bits, and reports it where it is no number.
    fn is_bit_number(&mut self, bound: &Expr) -> bool {
        let ty = self.value(bound);
        let ty = self.known(&ty);
        let fits = matches!(ty.base(), Type::Bit(_) | Type::Int(_) | Type::Integer | Type::Any);
        if !fits {
            self.type_error(bound.span, format!("a bit of a slice is a number, not {ty}"));
        }
        fits
    }

    fn plus_slice(&mut self, expr: &Expr, of: &Expr, base: &Expr, width: &Expr) -> Type {
        let bits = self.sliceable(of);
        let is_number = self.is_bit_number(base);
        let Some(width_bits) = self.constant_number(width, "the width of a slice") else {
            return Type::Any;
        };
        let Ok(width_bits) = u32::try_from(&width_bits) else {
            self.error(codes::BAD_SLICE, width.span, "this is no width");
            return Type::Any;
        };
        if width_bits == 0 || bits.is_some_and(|bits| width_bits > bits) {
            self.error(codes::BAD_SLICE, width.span, "this is no width of a slice here");
            return Type::Any;
        }
        if !is_number {
            return Type::Any;
        }
        if matches!(self.noted(of), Type::Integer) && !self.consts.contains_key(&base.id) {
            let text = "a number without a width has a slice where its first bit is known";
            self.type_error(base.span, text);
            return Type::Any;
        }
        if let (Some(Const::Int(at)), Some(bits)) = (self.consts.get(&base.id), bits) {
            let fits = u32::try_from(at).is_ok_and(|at| at <= bits - width_bits);
            if !fits {
                let text =
                    format!("{width_bits} bits from {at} on are outside of a value of {bits} bits");
                self.error(codes::BAD_SLICE, base.span, text);
                return Type::Any;
            }
        }
        if let (Some(Const::Int(value)), Some(Const::Int(base))) =
            (self.consts.get(&of.id), self.consts.get(&base.id))
            && let Ok(base) = u32::try_from(base)
        {
            let part = wrapped(&(value >> base), &Type::Bit(width_bits));
            self.consts.insert(expr.id, Const::Int(part));
        }
        Type::Bit(width_bits)
    }

    fn mux(&mut self, expr: &Expr, condition: &Expr, then: &Expr, other: &Expr) -> Type {
        self.value_as(condition, &Type::Bool);
        let a = self.value(then);
        let b = self.value(other);
        let (a, b) = (self.known(&a), self.known(&b));
        let is_first_open = matches!(a, Type::Integer) && !matches!(b, Type::Integer);
        let takes_second = is_first_open || matches!(b, Type::Enum(..));
        let ty = if takes_second || !self.converts(other, &b, &a) {
            self.converts(then, &a, &b).then_some(b.clone())
        } else {
            Some(a.clone())
        };
        let Some(ty) = ty else {
            self.type_error(expr.span, format!("the branches do not agree: {a} and {b}"));
            return Type::Any;
        };
        if let Some(Const::Bool(holds)) = self.consts.get(&condition.id)
            && let Some(value) = self.consts.get(&if *holds { then } else { other }.id).cloned()
        {
            self.consts.insert(expr.id, value);
        } else if matches!(ty, Type::Integer) {
            let text = "this number has no width, and is not known when the program is compiled";
            self.type_error(expr.span, text);
            return Type::Any;
        }
        ty
    }

    fn cast(&mut self, expr: &Expr, ty: &TypeExpr, value: &Expr) -> Type {
        let want = self.declared_type(ty);
        let got = self.value(value);
        if want.is_any() || got.is_any() {
            return want;
        }
        // A cast cuts a number on purpose.
        if let (Type::Integer, Some(Const::Int(number))) = (&got, self.consts.get(&value.id)) {
            let number = wrapped(number, &want);
            self.consts.insert(value.id, Const::Int(number));
        }
        if !self.casts(value, &want) {
            let (got, want) = (self.known(&got), self.known(&want));
            self.type_error(expr.span, format!("{got} cannot be cast to {want}"));
            return want;
        }
        let value = match (self.consts.get(&value.id), want.base()) {
            (Some(Const::Int(value)), Type::Bool) => Some(Const::Bool(*value != BigInt::ZERO)),
            (Some(Const::Int(value)), _) => Some(Const::Int(wrapped(value, &want))),
            (Some(Const::Bool(value)), Type::Bit(_)) => {
                Some(Const::Int(BigInt::from(u8::from(*value))))
            }
            (Some(other), _) => Some(other.clone()),
            (None, _) => None,
        };
        if let Some(value) = value {
            self.consts.insert(expr.id, value);
        }
        want
    }

    fn mask(&mut self, expr: &Expr, value: &Expr, mask: &Expr) -> Type {
        let a = self.value(value);
        let b = self.value(mask);
        self.set_of(expr, value, mask, &a, &b, "&&&")
    }

    fn range(&mut self, expr: &Expr, low: &Expr, high: &Expr) -> Type {
        let a = self.value(low);
        let b = self.value(high);
        self.set_of(expr, low, high, &a, &b, "..")
    }

    fn set_of(
        &mut self,
        expr: &Expr,
        left: &Expr,
        right: &Expr,
        a: &Type,
        b: &Type,
        sign: &str,
    ) -> Type {
        let (a, b) = (self.known(a), self.known(b));
        if a.is_any() || b.is_any() {
            return Type::Any;
        }
        let is_number =
            |ty: &Type| matches!(ty.base(), Type::Bit(_) | Type::Int(_) | Type::Integer);
        let below = |ty: &Type| {
            if let Type::Enum(_, Some(base)) = ty { (**base).clone() } else { ty.clone() }
        };
        let (a, b) = (below(&a), below(&b));
        let fits = is_number(&a)
            && is_number(&b)
            && if matches!(a, Type::Integer) {
                self.converts(left, &a, &b)
            } else {
                self.converts(right, &b, &a)
            };
        if !fits {
            self.type_error(expr.span, format!("`{sign}` cannot be applied to {a} and {b}"));
            return Type::Any;
        }
        if sign == ".."
            && let (Some(Const::Int(low)), Some(Const::Int(high))) =
                (self.consts.get(&left.id), self.consts.get(&right.id))
            && low > high
            && !self.is_loop_range
        {
            let text = format!("the range {low}..{high} is empty");
            self.type_error(expr.span, text).help("the lower end comes first");
        }
        let of = self.noted(left);
        let of = if matches!(of, Type::Integer) { b } else { of };
        Type::Set(Rc::new(of))
    }
}
