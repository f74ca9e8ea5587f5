//! Parts of constants: what was written for them, or the default of their type where `...` stands.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::tree::*;
use super::check::Checker;
use super::{Const, Def, Type};

/// What a constant, or a part of one, is.
enum Part {
    Written(Expr),
    /// `...` stands for it.
    Default(Type),
}

impl Checker<'_> {
    /// Notes the value of a part of a constant.
    pub(super) fn fold_part(&mut self, expr: &Expr) {
        let known = match self.constant_part(expr) {
            Some(Part::Written(part)) => self.consts.get(&part.id).cloned(),
            Some(Part::Default(ty)) => default_value(&ty),
            None => None,
        };
        if let Some(known) = known {
            self.consts.insert(expr.id, known);
        }
    }

    fn constant_part(&self, expr: &Expr) -> Option<Part> {
        match &*expr.kind {
            ExprKind::Name(..) => match self.defs.get(&expr.id)? {
                Def::Decl(decl) => match &decl.kind {
                    DeclKind::Const(_, value) => self.constant_part(value),
                    _ => None,
                },
                Def::Param(_) => None,
            },
            ExprKind::Cast(_, value) => match self.constant_part(value)? {
                Part::Written(inner) if !is_list(&inner) => None,
                part => Some(part),
            },
            ExprKind::Member(of, name) => {
                let part = self.constant_part(of)?;
                let Type::Struct(ty) = self.known(&self.noted(of)) else { return None };
                let at = ty.fields.iter().position(|(field, _)| *field == name.value)?;
                self.element(part, (at, &name.value), &ty.fields.get(at)?.1)
            }
            ExprKind::Index(of, index) => {
                let part = self.constant_part(of)?;
                let Const::Int(at) = self.consts.get(&index.id)? else { return None };
                let at = usize::try_from(at).ok()?;
                let ty = match self.known(&self.noted(of)) {
                    Type::Stack(element, size) if at < size as usize => Type::clone(&element),
                    Type::Tuple(parts) => parts.get(at)?.clone(),
                    Type::List(element) => Type::clone(&element),
                    _ => return None,
                };
                self.element(part, (at, ""), &ty)
            }
            ExprKind::Dots => Some(Part::Default(self.known(&self.noted(expr)))),
            _ => Some(Part::Written(expr.clone())),
        }
    }

    /// The field or element of a part at this position, or of this name, whose type is this.
    fn element(&self, part: Part, (at, name): (usize, &str), ty: &Type) -> Option<Part> {
        let default = || Part::Default(self.known(ty));
        let Part::Written(whole) = part else { return Some(default()) };
        match &*whole.kind {
            ExprKind::Record(fields, dots) => {
                match fields.iter().find(|(field, _)| *field.value == *name) {
                    Some((_, value)) => self.constant_part(value),
                    None => dots.then(default),
                }
            }
            ExprKind::List(items, dots) => match items.get(at) {
                Some(item) => self.constant_part(item),
                None => dots.then(default),
            },
            _ => None,
        }
    }
}

fn is_list(expr: &Expr) -> bool {
    matches!(&*expr.kind, ExprKind::List(..) | ExprKind::Record(..))
}

/// The default of a type that is one value (P4-16, default values).
fn default_value(ty: &Type) -> Option<Const> {
    match ty {
        Type::Bit(_) | Type::Int(_) | Type::Enum(_, Some(_)) => Some(Const::Int(BigInt::ZERO)),
        Type::Bool => Some(Const::Bool(false)),
        Type::Error => Some(Const::Error("NoError".into())),
        Type::Enum(decl, None) => {
            let DeclKind::Enum(_, members) = &decl.kind else { return None };
            members.first().map(|(first, _)| Const::Enum(decl.id, Rc::clone(&first.value)))
        }
        Type::New(_, base) => default_value(base),
        _ => None,
    }
}
