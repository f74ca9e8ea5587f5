//! Inference: variables for types, and what makes two types one.

use std::rc::Rc;

use super::check::Checker;
use super::{StructType, Type};

/// The type with what is known of its variables in place.
pub(super) fn resolved(infers: &[Option<Type>], ty: &Type) -> Type {
    map(ty, &|one| match one {
        Type::Infer(id) => infers.get(*id as usize)?.as_ref().map(|known| resolved(infers, known)),
        _ => None,
    })
}

/// The type with these type parameters replaced.
pub(in crate::p4) fn substitute(ty: &Type, with: &[(u32, Type)]) -> Type {
    if with.is_empty() {
        return ty.clone();
    }
    map(ty, &|one| match one {
        Type::Var(id, _) => with.iter().find(|(var, _)| var == id).map(|(_, ty)| ty.clone()),
        _ => None,
    })
}

/// The type parameters of a declaration, with types in their places. What is noted of it (`Checked::declared`) is a tuple of the
/// parameters, of a struct the struct itself.
pub(in crate::p4) fn type_arguments(noted: Option<&Type>, types: &[Type]) -> Vec<(u32, Type)> {
    let params: &[Type] = match noted {
        Some(Type::Tuple(params)) => params,
        Some(Type::Struct(of)) => &of.args,
        _ => &[],
    };
    let pairs = params.iter().zip(types);
    pairs
        .filter_map(|(param, ty)| match param {
            Type::Var(id, _) => Some((*id, ty.clone())),
            _ => None,
        })
        .collect()
}

/// Replaces parts of a type, outermost first.
fn map(ty: &Type, with: &dyn Fn(&Type) -> Option<Type>) -> Type {
    if let Some(found) = with(ty) {
        return found;
    }
    let all = |types: &[Type]| Rc::new(types.iter().map(|one| map(one, with)).collect::<Vec<_>>());
    match ty {
        Type::Struct(inner) if !inner.args.is_empty() => Type::Struct(Rc::new(StructType {
            decl: inner.decl.clone(),
            kind: inner.kind,
            args: inner.args.iter().map(|one| map(one, with)).collect(),
            fields: inner.fields.iter().map(|(name, ty)| (name.clone(), map(ty, with))).collect(),
        })),
        Type::Stack(of, size) => Type::Stack(Rc::new(map(of, with)), *size),
        Type::Tuple(parts) => Type::Tuple(all(parts)),
        Type::List(of) => Type::List(Rc::new(map(of, with))),
        Type::Set(of) => Type::Set(Rc::new(map(of, with))),
        Type::Name(of) => Type::Name(Rc::new(map(of, with))),
        Type::Listed(parts, dots) => Type::Listed(all(parts), *dots),
        Type::Record(fields, dots) => {
            let fields = fields.iter().map(|(name, ty)| (name.clone(), map(ty, with))).collect();
            Type::Record(Rc::new(fields), *dots)
        }
        Type::Extern(decl, args) => Type::Extern(decl.clone(), all(args)),
        Type::Parser(decl, args) => Type::Parser(decl.clone(), all(args)),
        Type::Control(decl, args) => Type::Control(decl.clone(), all(args)),
        Type::Package(decl, args) => Type::Package(decl.clone(), all(args)),
        other => other.clone(),
    }
}

impl Checker<'_> {
    /// A type to be found out.
    pub(super) fn fresh(&mut self) -> Type {
        self.infers.push(None);
        Type::Infer(self.infers.len() as u32 - 1)
    }

    /// The type as far as it is known.
    pub(super) fn known(&self, ty: &Type) -> Type {
        resolved(&self.infers, ty)
    }

    fn occurs(&self, id: u32, ty: &Type) -> bool {
        let found = std::cell::Cell::new(false);
        let ty = self.known(ty);
        map(&ty, &|one| {
            if matches!(one, Type::Infer(other) if *other == id) {
                found.set(true);
            }
            None
        });
        found.get()
    }

    /// Makes both the same type, if they can be.
    pub(super) fn unify(&mut self, left: &Type, right: &Type) -> bool {
        let (left, right) = (self.known(left), self.known(right));
        match (&left, &right) {
            (Type::Any, _) | (_, Type::Any) => true,
            (Type::Infer(a), Type::Infer(b)) if a == b => true,
            (Type::Infer(id), other) | (other, Type::Infer(id)) => {
                if self.occurs(*id, other) {
                    return false;
                }
                if let Some(slot) = self.infers.get_mut(*id as usize) {
                    *slot = Some(other.clone());
                }
                true
            }
            (Type::Stack(a, n), Type::Stack(b, m)) => n == m && self.unify(a, b),
            (Type::List(a), Type::List(b)) | (Type::Set(a), Type::Set(b)) => self.unify(a, b),
            (Type::Tuple(a), Type::Tuple(b)) => self.unify_all(a, b),
            (Type::Struct(a), Type::Struct(b)) => {
                a.decl.id == b.decl.id && self.unify_all(&a.args.clone(), &b.args.clone())
            }
            (Type::Extern(a, x), Type::Extern(b, y))
            | (Type::Parser(a, x), Type::Parser(b, y))
            | (Type::Control(a, x), Type::Control(b, y))
            | (Type::Package(a, x), Type::Package(b, y)) => {
                a.id == b.id && self.unify_all(&x.clone(), &y.clone())
            }
            _ => same(&left, &right),
        }
    }

    pub(super) fn unify_all(&mut self, left: &[Type], right: &[Type]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(a, b)| self.unify(a, b))
    }
}

/// The same type, without parts that would have to be compared one by one.
fn same(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Bit(a), Type::Bit(b))
        | (Type::Int(a), Type::Int(b))
        | (Type::Varbit(a), Type::Varbit(b)) => a == b,
        (Type::Enum(a, _), Type::Enum(b, _)) | (Type::New(a, _), Type::New(b, _)) => a.id == b.id,
        (Type::Var(a, _), Type::Var(b, _)) => a == b,
        (Type::Action(a), Type::Action(b)) | (Type::Table(a), Type::Table(b)) => a.id == b.id,
        (Type::Bool, Type::Bool)
        | (Type::Integer, Type::Integer)
        | (Type::Error, Type::Error)
        | (Type::MatchKind, Type::MatchKind)
        | (Type::Text, Type::Text)
        | (Type::Invalid, Type::Invalid)
        | (Type::Void, Type::Void) => true,
        _ => false,
    }
}
