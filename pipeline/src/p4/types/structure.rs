//! Types that a program declares: enums, `type`, structs, headers, unions; and what each can hold.

use std::rc::Rc;

use super::super::tree::*;
use super::check::{Checker, Name};
use super::{Const, StructType, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// A number without a width that is a member's value is not cut to the type of the enum (P4-16 7.2.4).
    fn must_be_held(&mut self, value: &Expr, below: &Type) {
        let (Type::Integer, Some(Const::Int(number))) =
            (self.noted(value), self.consts.get(&value.id).cloned())
        else {
            return;
        };
        if !below.is_any() && super::wrapped(&number, below.unwrapped()) != number {
            self.type_error(value.span, format!("{number} is no value of {below}"));
        }
    }

    pub(super) fn enumeration(
        &mut self,
        decl: &Rc<Decl>,
        base: Option<&TypeExpr>,
        members: &[(Ident, Option<Expr>)],
    ) {
        let below = base.map(|base| {
            let ty = self.resolve(base);
            if !matches!(ty.unwrapped(), Type::Bit(_) | Type::Int(_) | Type::Any)
                || matches!(ty, Type::New(..))
            {
                self.type_error(
                    base.span,
                    format!("an enum is made of bit<..> or int<..>, not of {ty}"),
                );
            }
            Rc::new(ty)
        });
        self.declared.insert(decl.id, Type::Enum(decl.clone(), below.clone()));
        self.bind(&decl.name, Name::Decl(decl.clone()));
        for (at, (name, value)) in members.iter().enumerate() {
            if members[..at].iter().any(|(known, _)| known.value == name.value) {
                self.twice(name);
            }
            match (value, &below) {
                (Some(value), Some(below)) => {
                    let below = (**below).clone();
                    self.value(value);
                    self.must_be_held(value, &below);
                    if self.fit(value, &below) && !self.consts.contains_key(&value.id) {
                        let text =
                            "the value of a member must be known when the program is compiled";
                        self.error(codes::NOT_CONSTANT, value.span, text);
                    }
                }
                (Some(value), None) => {
                    let text = "only an enum of bit<..> or int<..> has values";
                    self.type_error(value.span, text);
                }
                (None, Some(_)) => {
                    let text = format!("`{}` needs a value", name.value);
                    self.type_error(name.span, text);
                }
                (None, None) => {}
            }
        }
    }

    pub(super) fn new_type(&mut self, decl: &Rc<Decl>, of: &TypeExpr) {
        let base = self.declared_type(of);
        let fits =
            matches!(base, Type::Bit(_) | Type::Int(_) | Type::Bool | Type::New(..) | Type::Any);
        if !fits {
            self.type_error(of.span, format!("`type` cannot be made of {base}"));
        }
        self.declared.insert(decl.id, Type::New(decl.clone(), Rc::new(base)));
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    pub(super) fn structure(&mut self, decl: &Rc<Decl>, inner: &StructDecl) {
        self.open();
        let args = self.bind_type_params(&inner.type_params);
        let mut fields: Vec<(Rc<str>, Type)> = Vec::new();
        for field in &inner.fields {
            self.annotations(&field.annotations);
            if fields.iter().any(|(known, _)| *known == field.name.value) {
                self.twice(&field.name);
                continue;
            }
            let mut ty = self.declared_type(&field.ty);
            if !self.may_be_field(inner.kind, &ty) {
                let what = match inner.kind {
                    StructKind::Struct => "a struct",
                    StructKind::Header => "a header",
                    StructKind::Union => "a header union",
                };
                self.type_error(field.ty.span, format!("{what} cannot hold a field of {ty}"));
                ty = Type::Any;
            }
            fields.push((field.name.value.clone(), ty));
        }
        self.close();
        let kind = inner.kind;
        let ty = Type::Struct(Rc::new(StructType { decl: decl.clone(), kind, args, fields }));
        self.declared.insert(decl.id, ty);
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    pub(super) fn may_be_field(&self, kind: StructKind, ty: &Type) -> bool {
        let anything = matches!(ty, Type::Any | Type::Var(..));
        match (kind, ty) {
            _ if anything => true,
            (StructKind::Union, Type::Struct(of)) => {
                of.kind == StructKind::Header && self.may_be_fields(of)
            }
            (StructKind::Union, _) => false,
            (StructKind::Header, Type::Struct(of)) => {
                // No varbit: a struct in a header has a size (P4-16 1.2.5, section 7.2.2).
                of.kind == StructKind::Struct
                    && of.fields.iter().all(|(_, ty)| {
                        !matches!(ty, Type::Varbit(_)) && self.may_be_field(kind, ty)
                    })
            }
            (StructKind::Header, Type::New(_, base)) => self.may_be_field(kind, base),
            (StructKind::Header, Type::Bool | Type::Bit(_) | Type::Int(_) | Type::Varbit(_)) => {
                true
            }
            (StructKind::Header, Type::Enum(_, base)) => base.is_some(),
            (StructKind::Header, Type::Stack(of, _)) => {
                matches!(&**of, Type::Bit(_) | Type::Int(_) | Type::Bool)
            }
            (StructKind::Header, _) => false,
            // Type arguments may be in any of them.
            (StructKind::Struct, Type::Struct(of)) => self.may_be_fields(of),
            (StructKind::Struct, Type::Stack(of, _)) => self.may_be_field(kind, of),
            (StructKind::Struct, _) => {
                self.may_hold(ty) && !matches!(ty, Type::Integer | Type::Text | Type::List(_))
            }
        }
    }

    fn may_be_fields(&self, of: &StructType) -> bool {
        of.fields.iter().all(|(_, ty)| self.may_be_field(of.kind, ty))
    }

    /// Whether a value can be of this type.
    pub(super) fn may_hold(&self, ty: &Type) -> bool {
        !matches!(
            ty,
            Type::Void
                | Type::MatchKind
                | Type::Extern(..)
                | Type::Parser(..)
                | Type::Control(..)
                | Type::Package(..)
                | Type::Infer(_)
        )
    }
}
