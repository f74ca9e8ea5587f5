//! Implicit conversions: which expressions are permitted for an expected type.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::tree::*;
use super::check::Checker;
use super::operator::{is_cut, wrapped};
use super::{Const, StructType, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// Checks that an expression that was typed is permitted where `want` is expected, and notes its type there.
    pub(super) fn fit(&mut self, expr: &Expr, want: &Type) -> bool {
        let got = self.noted(expr);
        if self.converts(expr, &got, want) {
            return true;
        }
        let (got, want) = (self.known(&got), self.known(want));
        if !self.misfit_part(expr, &want) {
            let text = format!("expected {want}, found {got}");
            let are_bits = |ty: &Type| matches!(ty.base(), Type::Bit(_) | Type::Int(_));
            let error = self.type_error(expr.span, text);
            if are_bits(&got) && are_bits(&want) {
                error.help(format!("a cast changes the width: `({want}) ..`"));
            } else if matches!(want, Type::Bool) && are_bits(&got) {
                error.help("compare it: `.. != 0`");
            } else if matches!((&want, &got), (Type::Bool, Type::Integer)) {
                error.help("write `true` or `false`");
            } else if matches!((&want, &got), (Type::Bit(1), Type::Bool)) {
                error.help("a cast makes a bit of it: `(bit<1>) ..`");
            }
        }
        false
    }

    /// Reports the first part of a value that is written down which does not fit; false where that is none.
    fn misfit_part(&mut self, expr: &Expr, want: &Type) -> bool {
        let wants: Vec<(Rc<str>, Type)> = match want {
            Type::Struct(ty) if ty.kind != StructKind::Union => ty.fields.clone(),
            Type::Tuple(types) => {
                let numbered = types.iter().enumerate();
                numbered.map(|(at, ty)| (at.to_string().into(), ty.clone())).collect()
            }
            _ => return false,
        };
        let items: Vec<(Option<Ident>, Expr)> = match &*expr.kind {
            ExprKind::List(items, _) | ExprKind::Tuple(items) => {
                items.iter().map(|item| (None, item.clone())).collect()
            }
            ExprKind::Record(items, _) if matches!(want, Type::Struct(_)) => {
                items.iter().map(|(name, item)| (Some(name.clone()), item.clone())).collect()
            }
            _ => return false,
        };
        for (at, (name, item)) in items.iter().enumerate() {
            let found = match name {
                Some(name) => wants.iter().find(|(known, _)| *known == name.value),
                None => wants.get(at),
            };
            let Some((field, of)) = found else {
                let text = match name {
                    Some(name) => format!("{want} has no field `{}`", name.value),
                    None => format!("{want} has {} parts", wants.len()),
                };
                self.type_error(name.as_ref().map_or(item.span, |name| name.span), text);
                return true;
            };
            let got = self.noted(item);
            if self.converts(item, &got, of) {
                continue;
            }
            if !self.misfit_part(item, of) {
                let (got, of) = (self.known(&got), self.known(of));
                let text = format!("`{field}` of {want} is {of}, found {got}");
                self.type_error(item.span, text);
            }
            return true;
        }
        let is_given = |(at, (field, _)): &(usize, &(Rc<str>, Type))| {
            items.get(*at).is_some_and(|(name, _)| name.is_none())
                || items
                    .iter()
                    .any(|(name, _)| name.as_ref().is_some_and(|one| one.value == *field))
        };
        let Some((_, (missing, _))) = wants.iter().enumerate().find(|one| !is_given(one)) else {
            return false;
        };
        self.type_error(expr.span, format!("`{missing}` of {want} is missing"));
        true
    }

    /// As [`Checker::fit`], without the message.
    pub(super) fn converts(&mut self, expr: &Expr, got: &Type, want: &Type) -> bool {
        let (got, want) = (self.known(got), self.known(want));
        if matches!(&*expr.kind, ExprKind::Dots) {
            self.note(expr, want);
            return true;
        }
        if got.is_any() || want.is_any() {
            return true;
        }
        let done = match (&got, &want) {
            (Type::Integer, Type::Bit(_) | Type::Int(_)) => {
                self.literal(expr, &want);
                true
            }
            // As p4c has it (sonic-pins writes it so); P4-16 requires a cast.
            (Type::Integer, Type::New(_, base)) if is_number(base) => {
                self.literal(expr, base);
                true
            }
            (Type::Enum(_, Some(base)), Type::Bit(_) | Type::Int(_)) => {
                let base = (**base).clone();
                self.unify(&base, &want)
            }
            (Type::Invalid, Type::Struct(ty)) => ty.kind != StructKind::Struct,
            (Type::Listed(parts, dots), _) => self.list_converts(expr, parts, *dots, &want),
            (Type::Record(fields, dots), Type::Struct(ty)) if ty.kind != StructKind::Union => {
                self.record_converts(expr, fields, *dots, ty)
            }
            (Type::Set(inner), Type::Set(of)) => {
                let (inner, of) = (inner.clone(), of.clone());
                return self.converts(expr, &inner, &of);
            }
            _ => return self.unify(&got, &want),
        };
        if done {
            self.note(expr, want);
        }
        done
    }

    /// A number that takes a width: it must be known, and is cut to fit.
    fn literal(&mut self, expr: &Expr, want: &Type) {
        if let Some(Const::Int(value)) = self.consts.get(&expr.id).cloned() {
            self.cut(expr, &value, want);
        }
        // Operands of infinite precision below take the width too where the value is not known.
        if !self.consts.contains_key(&expr.id)
            && let ExprKind::Mux(_, then, other) = &*expr.kind
        {
            self.converts(then, &Type::Integer, want);
            self.converts(other, &Type::Integer, want);
        }
    }

    /// Notes the value of a number of this type, with a warning where it is not what is written.
    pub(super) fn cut(&mut self, expr: &Expr, value: &BigInt, ty: &Type) {
        let cut = wrapped(value, ty);
        if is_cut(value, ty) {
            let text = format!("{value} does not fit into {ty}: it is cut to {cut}");
            self.report.warning(codes::NUMBER_CUT, expr.span, text);
        }
        self.consts.insert(expr.id, Const::Int(cut));
    }

    fn list_converts(&mut self, expr: &Expr, parts: &[Type], dots: bool, want: &Type) -> bool {
        let wants: Vec<Type> = match want {
            Type::Tuple(types) => types.to_vec(),
            Type::Struct(ty) if ty.kind != StructKind::Union => {
                ty.fields.iter().map(|(_, ty)| ty.clone()).collect()
            }
            Type::Stack(of, size) => vec![(**of).clone(); *size as usize],
            Type::List(of) => vec![(**of).clone(); parts.len()],
            Type::Listed(types, _) => types.to_vec(),
            Type::Infer(_) => {
                let tuple = Type::Tuple(Rc::new(parts.to_vec()));
                return self.unify(&tuple, want);
            }
            _ => return false,
        };
        let fits = parts.len() == wants.len() || dots && parts.len() < wants.len();
        let items = match &*expr.kind {
            ExprKind::List(items, _) | ExprKind::Tuple(items) => items.clone(),
            _ => return fits && parts.iter().zip(&wants).all(|(got, want)| self.unify(got, want)),
        };
        fits && items.iter().zip(&wants).all(|(item, want)| {
            let got = self.noted(item);
            self.converts(item, &got, want)
        })
    }

    fn record_converts(
        &mut self,
        expr: &Expr,
        fields: &[(Rc<str>, Type)],
        dots: bool,
        want: &StructType,
    ) -> bool {
        let is_known = |name: &Rc<str>| want.fields.iter().any(|(known, _)| known == name);
        if !fields.iter().all(|(name, _)| is_known(name)) {
            return false;
        }
        if !dots && fields.len() != want.fields.len() {
            return false;
        }
        let ExprKind::Record(items, _) = &*expr.kind else {
            return fields.iter().all(|(name, got)| {
                let of = want.fields.iter().find(|(known, _)| known == name);
                of.is_some_and(|(_, of)| self.unify(got, of))
            });
        };
        let items = items.clone();
        items.iter().all(|(name, item)| {
            let of = want.fields.iter().find(|(known, _)| *known == name.value);
            let got = self.noted(item);
            of.is_some_and(|(_, of)| self.converts(item, &got, &of.clone()))
        })
    }

    /// Whether `(want) value` is a cast that there is. Both types are known.
    pub(super) fn casts(&mut self, expr: &Expr, want: &Type) -> bool {
        let got = self.noted(expr);
        let got = self.known(&got);
        let want = self.known(want);
        if self.converts(expr, &got, &want) {
            return true;
        }
        match (&got, &want) {
            (Type::Bit(a), Type::Bool) => *a == 1,
            (Type::Bool, Type::Bit(a)) => *a == 1,
            (Type::Integer, Type::Bool) => {
                matches!(self.consts.get(&expr.id), Some(Const::Int(value)) if *value == BigInt::ZERO || *value == BigInt::from(1))
            }
            (Type::Bit(_), Type::Bit(_)) | (Type::Int(_), Type::Int(_)) => true,
            // The sign or the width changes, not both (P4-16, explicit casts).
            (Type::Bit(a), Type::Int(b)) | (Type::Int(a), Type::Bit(b)) => a == b,
            (Type::Bit(_) | Type::Int(_), Type::Integer) => true,
            (Type::New(_, base), _) if !matches!(want, Type::New(..)) => {
                let base = (**base).clone();
                self.unify(&base, &want)
            }
            (_, Type::New(_, base)) => {
                let base = (**base).clone();
                if let Type::New(_, below) = &got
                    && self.unify(&below.clone(), &want)
                {
                    // From a type of this type.
                    return true;
                }
                self.converts(expr, &got, &base)
            }
            // Between an enum and the type of its values, not to or from another width (P4-16 1.2.5, section 8.5).
            (Type::Enum(_, Some(base)), _) => {
                let base = (**base).clone();
                let want = if let Type::Enum(_, Some(of)) = &want { &**of } else { &want };
                self.unify(&base, want)
            }
            (_, Type::Enum(_, Some(base))) => {
                let base = (**base).clone();
                match got {
                    Type::Integer => self.converts(expr, &got, &base),
                    _ => self.unify(&got, &base),
                }
            }
            // A struct with one field of the type.
            (Type::Struct(ty), _) if ty.fields.len() == 1 && ty.kind == StructKind::Struct => {
                matches!((&ty.fields[0].1, &want), (Type::Bit(a), Type::Bit(b)) if a == b)
            }
            _ => false,
        }
    }
}

/// Whether it has a width, below its names.
fn is_number(ty: &Type) -> bool {
    matches!(ty.base(), Type::Bit(_) | Type::Int(_))
}
