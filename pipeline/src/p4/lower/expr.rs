//! Expressions.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Callee, Const, Def, Type};
use super::build::{
    INDEX_BITS, binary, call, cast, known, mux, named, not, number, slice, unsigned,
};
use super::choice::of_each;
use super::env::Val;
use super::need::Need;
use super::storage::enum_bits;
use super::walk::{self, Met};
use super::{Lower, Place, wide};
use crate::ast::{AstBin, AstExpr, StmtKind};
use crate::ir::SourceSpan;
use crate::ir::layout::VALUE_BITS_MAX;

impl Lower<'_> {
    /// A value that is one number.
    pub(super) fn scalar(&mut self, expr: &Expr) -> AstExpr {
        let value = self.eval(expr);
        self.number_in(&value, expr.span)
    }

    pub(super) fn number_in(&mut self, value: &Val, span: SourceSpan) -> AstExpr {
        match value {
            Val::Scalar(value) => value.clone(),
            Val::Applied(hit) => hit.clone(),
            Val::Nothing => number(0, 1, span),
            _ => {
                self.unsupported(span, "this is not one number");
                number(0, 1, span)
            }
        }
    }

    /// The place of an expression that can be written, else its value.
    pub(super) fn place_of(&mut self, expr: &Expr) -> Val {
        let ty = self.type_of(expr);
        if matches!(&*expr.kind, ExprKind::Name(name, _) if &*name.value == "PSA_PORT_RECIRCULATE")
        {
            self.need(Need::Recirculates);
        }
        if let Some(value) = self.checked.consts.get(&expr.id).cloned() {
            return self.constant(&value, &ty, expr.span);
        }
        match &*expr.kind {
            ExprKind::Name(name, _) => self.name(expr, name),
            ExprKind::Member(of, name) => self.member(expr, of, name),
            ExprKind::Index(of, index) => self.index(of, index),
            ExprKind::Slice(of, high, low) => {
                let value = self.place_of(of);
                let (high, low) = (self.known_number(high), self.known_number(low));
                self.slice_of(&value, &self.type_of(of), (high as u32, low as u32), expr.span)
            }
            ExprKind::PlusSlice(of, base, width) => self.plus_slice(expr, of, base, width),
            ExprKind::Call { callee, args, .. } => self.call(expr, callee, args),
            ExprKind::Unary(operator, operand) => {
                Val::Scalar(self.unary(*operator, operand, expr.span))
            }
            ExprKind::Binary(operator, left, right) => {
                Val::Scalar(self.binary(expr, *operator, left, right))
            }
            ExprKind::Mux(condition, then, other) => self.mux(expr, condition, then, other),
            ExprKind::Cast(_, value) => self.cast(expr, value),
            ExprKind::List(items, _) | ExprKind::Tuple(items) => self.list(&ty, items, expr.span),
            ExprKind::Record(fields, _) => self.record(&ty, fields, expr.span),
            ExprKind::Invalid => Val::Literal(None),
            ExprKind::Text(text) => Val::Text(text.clone()),
            ExprKind::Dots => self.default_value(&ty, expr.span),
            ExprKind::Any => self.unused(&ty, expr.span),
            _ => {
                self.unsupported(expr.span, "this expression is not supported here");
                Val::Nothing
            }
        }
    }

    /// Storage for an `out` argument `_`.
    fn unused(&mut self, ty: &Type, span: SourceSpan) -> Val {
        self.storage(ty, "unused", span)
    }

    /// A number that is known when the program is compiled.
    pub(super) fn known_number(&mut self, expr: &Expr) -> u128 {
        if let Some(Const::Int(value)) = self.checked.consts.get(&expr.id) {
            return u128::try_from(value).unwrap_or(0);
        }
        match self.eval(expr) {
            Val::Scalar(value) => match known(&value) {
                Some(value) => value,
                None => {
                    self.unsupported(expr.span, "this must be known when the program is compiled");
                    0
                }
            },
            _ => 0,
        }
    }

    pub(super) fn constant(&mut self, value: &Const, ty: &Type, span: SourceSpan) -> Val {
        match value {
            Const::Int(value) => {
                let bits = match ty.base() {
                    Type::Bit(bits) | Type::Int(bits) => *bits,
                    Type::Bool => 1,
                    _ => 0,
                };
                if bits == 0 && !matches!(ty.base(), Type::Integer | Type::Any) {
                    return Val::Nothing;
                }
                match unsigned(value, bits.max(1)) {
                    Some(value) => Val::Scalar(number(value, bits, span)),
                    None if wide::is_wide(ty) => Val::Scalar(wide::constant(value, bits, span)),
                    None => {
                        let text = format!("the number {value} has more than 128 bits");
                        self.unsupported(span, text);
                        Val::Scalar(number(0, bits.min(128), span))
                    }
                }
            }
            Const::Bool(value) => Val::Scalar(number(u128::from(*value), 1, span)),
            Const::Text(text) => Val::Text(text.clone()),
            Const::Error(name) => Val::Scalar(self.error_value(name, span)),
            Const::Enum(decl, name) => {
                let (found, bits) = match ty {
                    Type::Enum(known, _) if known.id == *decl => match &known.kind {
                        DeclKind::Enum(_, members) => {
                            let found = members.iter().position(|(one, _)| one.value == *name);
                            (found, enum_bits(known))
                        }
                        _ => (None, 8),
                    },
                    _ => (None, 8),
                };
                Val::Scalar(number(found.unwrap_or(0) as u128, bits, span))
            }
        }
    }

    /// Zero of a type, as `...` means.
    pub(super) fn default_value(&mut self, ty: &Type, span: SourceSpan) -> Val {
        match ty {
            Type::Struct(of) if of.kind == StructKind::Struct => {
                let fields =
                    of.fields.iter().map(|(name, ty)| (name.clone(), self.default_value(ty, span)));
                Val::Struct(Rc::new(fields.collect()))
            }
            Type::Struct(_) => Val::Literal(None),
            Type::Tuple(parts) => {
                let parts = parts
                    .iter()
                    .enumerate()
                    .map(|(at, ty)| (at.to_string().into(), self.default_value(ty, span)));
                Val::Struct(Rc::new(parts.collect()))
            }
            Type::Stack(of, size) => {
                let parts =
                    (0..*size).map(|at| (at.to_string().into(), self.default_value(of, span)));
                Val::Struct(Rc::new(parts.collect()))
            }
            Type::Error => Val::Scalar(named(&["error", "none"], span)),
            other => {
                let bits = self.bits(other, span);
                Val::Scalar(number(0, bits, span))
            }
        }
    }

    fn name(&mut self, expr: &Expr, name: &Ident) -> Val {
        match self.checked.defs.get(&expr.id).cloned() {
            Some(Def::Param(id)) => self.env.find(id).unwrap_or(Val::Nothing),
            Some(Def::Decl(decl)) => self.declared_value(&decl),
            _ => {
                self.unsupported(expr.span, format!("`{}` is not supported here", name.value));
                Val::Nothing
            }
        }
    }

    /// What a declaration stands for.
    pub(super) fn declared_value(&mut self, decl: &Rc<Decl>) -> Val {
        if let Some(found) = self.env.find(decl.id) {
            return found;
        }
        match &decl.kind {
            DeclKind::Const(_, value) => self.eval(value),
            DeclKind::Action { .. } => Val::Action(self.root.clone()),
            DeclKind::Instance { args, .. } => {
                let outer = std::mem::replace(&mut self.env, self.root.clone());
                let value = self.instance(decl, args);
                self.root.bind(decl.id, value.clone());
                self.env = outer;
                value
            }
            _ => Val::Nothing,
        }
    }

    /// A slice of a number, or of each that is chosen among.
    fn slice_of(
        &mut self,
        value: &Val,
        ty: &Type,
        (high, low): (u32, u32),
        span: SourceSpan,
    ) -> Val {
        match value {
            Val::Scalar(value) if wide::is_wide(ty) && high - low < VALUE_BITS_MAX => {
                Val::Scalar(wide::bits_of(value, (high, low), span))
            }
            Val::Scalar(value) => Val::Scalar(slice(value.clone(), high, low, span)),
            Val::Choice(choice) => of_each(choice, |one| self.slice_of(one, ty, (high, low), span)),
            _ => {
                self.unsupported(span, "this is not one number");
                Val::Nothing
            }
        }
    }

    fn member(&mut self, expr: &Expr, of: &Expr, name: &Ident) -> Val {
        let value = self.eval(of);
        self.member_of(&value, expr, name)
    }

    fn member_of(&mut self, value: &Val, expr: &Expr, name: &Ident) -> Val {
        self.note_zero(value, &name.value, name.span);
        match value {
            Val::Choice(choice) => of_each(choice, |one| self.member_of(one, expr, name)),
            Val::Struct(fields) | Val::Union(fields) | Val::Literal(Some(fields)) => {
                let found = fields.iter().find(|(known, _)| *known == name.value);
                found.map_or(Val::Nothing, |(_, value)| value.clone())
            }
            Val::Header(header) => {
                let found =
                    header.ty.fields.iter().find(|(known, _)| *known == name.value).cloned();
                let Some((_, ty)) = found else { return Val::Nothing };
                self.header_part(header, &name.value, &ty, expr.span)
            }
            Val::Literal(None) => {
                let ty = self.type_of(expr);
                self.default_value(&ty, expr.span)
            }
            Val::Stack(stack) => self.member_of_stack(stack, &name.value, expr.span),
            Val::Moving(stack, true, None) => {
                Val::Moving(stack.clone(), true, Some(name.value.clone()))
            }
            Val::Moving(_, true, Some(_)) => {
                self.unsupported(
                    expr.span,
                    "a field of the union that `next` names: it is extracted, and read as `last`",
                );
                Val::Nothing
            }
            Val::Moving(stack, false, member) => {
                self.last_of_unions(expr, stack, member.as_ref(), &name.value)
            }
            Val::Applied(hit) => match &*name.value {
                "hit" => Val::Scalar(hit.clone()),
                "miss" => Val::Scalar(not(hit.clone())),
                _ => {
                    self.unsupported(expr.span, "`action_run` stands in `switch` only");
                    Val::Nothing
                }
            },
            _ => Val::Nothing,
        }
    }

    fn index(&mut self, of: &Expr, index: &Expr) -> Val {
        let value = self.eval(of);
        let at = self.scalar(index);
        self.index_of(&value, at, index)
    }

    /// An element. One that is not there, as in an iteration of a loop that no packet takes, is an invalid header that nothing is written to.
    fn index_of(&mut self, value: &Val, at: AstExpr, index: &Expr) -> Val {
        if let (Val::Stack(stack), Some(at)) = (value, known(&at))
            && at >= stack.size.into()
        {
            return Val::Literal(None);
        }
        let elements: Vec<Val> = match value {
            Val::Choice(choice) => {
                return of_each(choice, |one| self.index_of(one, at.clone(), index));
            }
            Val::Struct(fields) => fields.iter().map(|(_, value)| value.clone()).collect(),
            Val::Stack(stack) if self.place == Place::Parser => self.elements_of(stack, index.span),
            Val::Stack(stack) => stack.elements.clone(),
            _ => Vec::new(),
        };
        if known(&at).is_none() && !elements.is_empty() {
            let ty = self.type_of(index);
            let at = self.index_in_32_bits(at, &ty, index.span);
            return self.choice(at, elements);
        }
        match value {
            Val::Stack(stack) => {
                let ty = self.type_of(index);
                let wide = self.bits(&ty, index.span) > INDEX_BITS && known(&at).is_none();
                let at = if wide { self.index_in_32_bits(at, &ty, index.span) } else { at };
                let at =
                    if known(&at).is_none() && self.out_of_path(&at) { self.keep(at) } else { at };
                self.element(stack, at, index.span)
            }
            Val::Struct(fields) => {
                let found = known(&at).and_then(|at| fields.get(at as usize));
                found.map_or(Val::Nothing, |(_, value)| value.clone())
            }
            _ => Val::Nothing,
        }
    }

    /// A computed index in 32 bits: one that does not fit is outside of all that has elements.
    fn index_in_32_bits(&mut self, at: AstExpr, ty: &Type, span: SourceSpan) -> AstExpr {
        match self.bits(ty, span) {
            INDEX_BITS => at,
            0..INDEX_BITS => cast(INDEX_BITS, at),
            bits => self.narrowed(at, (bits, INDEX_BITS), u32::MAX.into(), span),
        }
    }

    /// An index that is an expression of its own is kept first, since it may be written many times.
    fn out_of_path(&self, at: &AstExpr) -> bool {
        !matches!(at.value, crate::ast::Ast::Path(_)) && self.place != Place::Parser
    }

    fn plus_slice(&mut self, expr: &Expr, of: &Expr, base: &Expr, width: &Expr) -> Val {
        let width = self.known_number(width) as u32;
        let values = self.each_in_order([of, base]);
        let [value, base] = values.map(|one| self.number_in(&one, expr.span));
        let ty = self.type_of(of);
        if let Some(low) = known(&base) {
            let bounds = (low as u32 + width - 1, low as u32);
            return self.slice_of(&Val::Scalar(value), &ty, bounds, expr.span);
        }
        if wide::is_wide(&ty) {
            self.no_wide(&ty, expr.span);
            return Val::Scalar(number(0, width, expr.span));
        }
        let moved = binary(AstBin::Shr, value, base, expr.span);
        Val::Scalar(slice(moved, width - 1, 0, expr.span))
    }

    fn mux(&mut self, expr: &Expr, condition: &Expr, then: &Expr, other: &Expr) -> Val {
        let mut condition = self.scalar(condition);
        if let Some(holds) = known(&condition) {
            return self.eval(if holds != 0 { then } else { other });
        }
        let ty = self.type_of(expr);
        // Each slice of the value gets the condition.
        if wide::is_wide(&ty) {
            condition = self.keep_number(condition, 1);
        }
        let changes = [then, other].into_iter().any(|one| self.changes_something(one));
        if self.place == Place::Parser && changes {
            return self.mux_in_states(expr, condition, then, other);
        }
        let (a, before_a) = self.apart(|lower| lower.eval(then));
        let (b, before_b) = self.apart(|lower| lower.eval(other));
        if before_a.is_empty()
            && before_b.is_empty()
            && let (Val::Scalar(a), Val::Scalar(b)) = (&a, &b)
        {
            return Val::Scalar(mux(condition, a.clone(), b.clone(), expr.span));
        }
        if self.place == Place::Parser {
            return self.mux_in_states(expr, condition, then, other);
        }
        let to = self.storage(&ty, "chosen", expr.span);
        let ((), then) = self.apart(|lower| {
            lower.out = before_a;
            lower.assign(&to, &a, &ty, expr.span);
        });
        let ((), other) = self.apart(|lower| {
            lower.out = before_b;
            lower.assign(&to, &b, &ty, expr.span);
        });
        self.push(StmtKind::If(condition, then, other), expr.span);
        to
    }

    /// The same in a parser, where only one side may run or there is more than one number: a state for each side.
    fn mux_in_states(&mut self, expr: &Expr, condition: AstExpr, then: &Expr, other: &Expr) -> Val {
        let ty = self.type_of(expr);
        let to = self.storage(&ty, "chosen", expr.span);
        let does = |lower: &mut Self, holds: bool| {
            let value = lower.eval(if holds { then } else { other });
            lower.assign(&to, &value, &ty, expr.span);
        };
        self.branches(condition, does, expr.span);
        to
    }

    /// What `does` makes of an expression. `first` runs if that does something, which stands behind what `first` makes.
    pub(super) fn behind<T>(
        &mut self,
        expr: &Expr,
        does: impl FnOnce(&mut Self) -> T,
        first: &mut dyn FnMut(&mut Self),
    ) -> T {
        if self.place == Place::Parser {
            // What it does may be states.
            if self.changes_something(expr) {
                first(self);
            }
            return does(self);
        }
        let (value, before) = self.apart(does);
        if !before.is_empty() {
            first(self);
            self.out.extend(before);
        }
        value
    }

    /// Whether a function in this expression writes its arguments.
    pub(super) fn changes_something(&self, expr: &Expr) -> bool {
        walk::in_expr(expr, &mut |met| {
            let Met::Expr(call) = met else { return false };
            let Some(Callee::Decl(decl)) =
                self.checked.calls.get(&call.id).map(|info| &info.callee)
            else {
                return false;
            };
            matches!(&decl.kind, DeclKind::Function(of) if of.params.iter().any(super::arguments::writes))
        })
    }

    /// Values of expressions, the first first: what one does is not seen in those before it.
    pub(super) fn in_order<'e>(&mut self, items: impl Iterator<Item = &'e Expr>) -> Vec<Val> {
        let mut values: Vec<(Val, Type)> = Vec::new();
        for item in items {
            let mut first = |lower: &mut Self| {
                for (value, ty) in &mut values {
                    *value = lower.keep_all(value, ty);
                }
            };
            let value = self.behind(item, |lower| lower.eval(item), &mut first);
            values.push((value, self.type_of(item)));
        }
        values.into_iter().map(|(value, _)| value).collect()
    }

    /// The same for as many as there are.
    pub(super) fn each_in_order<const N: usize>(&mut self, items: [&Expr; N]) -> [Val; N] {
        let mut values = self.in_order(items.into_iter()).into_iter();
        std::array::from_fn(|_| values.next().unwrap_or(Val::Nothing))
    }

    fn list(&mut self, ty: &Type, items: &[Expr], span: SourceSpan) -> Val {
        let values = self.in_order(items.iter());
        let names: Vec<(Rc<str>, Type)> = match ty {
            Type::Struct(of) => of.fields.clone(),
            Type::Tuple(parts) | Type::Listed(parts, _) => parts
                .iter()
                .enumerate()
                .map(|(at, ty)| (at.to_string().into(), ty.clone()))
                .collect(),
            Type::Stack(of, size) => {
                (0..*size).map(|at| (at.to_string().into(), (**of).clone())).collect()
            }
            _ => (0..values.len()).map(|at| (at.to_string().into(), Type::Any)).collect(),
        };
        let mut values = values.into_iter();
        let fields = names.iter().map(|(name, ty)| {
            (name.clone(), values.next().unwrap_or_else(|| self.default_value(ty, span)))
        });
        let fields = Rc::new(fields.collect());
        if ty.is_header() { Val::Literal(Some(fields)) } else { Val::Struct(fields) }
    }

    fn record(&mut self, ty: &Type, given: &[(Ident, Expr)], span: SourceSpan) -> Val {
        let values = self.in_order(given.iter().map(|(_, value)| value));
        let names = given.iter().map(|(name, _)| name.value.clone());
        let values: Vec<(Rc<str>, Val)> = names.zip(values).collect();
        let Type::Struct(of) = ty else { return Val::Struct(Rc::new(values)) };
        let fields = of.fields.iter().map(|(name, ty)| {
            let found =
                values.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            (name.clone(), found.unwrap_or_else(|| self.default_value(ty, span)))
        });
        let fields = Rc::new(fields.collect());
        if ty.is_header() { Val::Literal(Some(fields)) } else { Val::Struct(fields) }
    }

    /// `lookahead<T>()`: the bits from here on, part by part.
    pub(super) fn lookahead(&mut self, ty: &Type, at: &mut u32, span: SourceSpan) -> Val {
        match ty {
            Type::New(_, base) => self.lookahead(base, at, span),
            Type::Struct(of) if of.kind != StructKind::Union => {
                let parts =
                    of.fields.iter().map(|(name, ty)| (name.clone(), self.lookahead(ty, at, span)));
                let fields = Rc::new(parts.collect());
                if ty.is_header() { Val::Literal(Some(fields)) } else { Val::Struct(fields) }
            }
            Type::Tuple(parts) => {
                let parts = parts
                    .iter()
                    .enumerate()
                    .map(|(n, ty)| (n.to_string().into(), self.lookahead(ty, at, span)));
                Val::Struct(Rc::new(parts.collect()))
            }
            Type::Stack(of, size) => {
                let parts =
                    (0..*size).map(|n| (n.to_string().into(), self.lookahead(of, at, span)));
                Val::Struct(Rc::new(parts.collect()))
            }
            other => {
                let bits = self.bits(other, span);
                if bits > 128 {
                    self.unsupported(
                        span,
                        format!("`lookahead` of {bits} bits at once: at most 128"),
                    );
                }
                let args = vec![
                    number(u128::from(bits.min(128)), 0, span),
                    number(u128::from(*at), 0, span),
                ];
                *at += bits;
                Val::Scalar(call("lookahead", args, span))
            }
        }
    }
}
