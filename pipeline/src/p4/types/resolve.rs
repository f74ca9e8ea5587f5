//! Names and types that are written.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::tree::*;
use super::check::{Checker, Name};
use super::infer::{substitute, type_arguments};
use super::{Const, StructType, Type};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// Most parts of a type, so that types that double with each declaration stay small: fields, elements and type arguments, of all that is in it.
const PARTS_MAX: usize = 1 << 14;

/// Takes the parts of a type from those that are left; false where there are not enough.
fn takes(ty: &Type, left: &mut usize) -> bool {
    let all = |types: &[Type], left: &mut usize| types.iter().all(|ty| takes(ty, left));
    match ty {
        Type::Struct(of) => {
            all(&of.args, left) && of.fields.iter().all(|(_, field)| takes(field, left))
        }
        Type::Tuple(parts) => all(parts, left),
        Type::Extern(_, args) | Type::Parser(_, args) | Type::Control(_, args) => all(args, left),
        Type::Stack(of, size) => {
            let mut one = *left;
            let fits = takes(of, &mut one);
            let parts = (*left - one).saturating_mul(*size as usize);
            *left = left.saturating_sub(parts);
            fits && *left > 0
        }
        Type::List(of) => takes(of, left),
        _ => {
            *left = left.saturating_sub(1);
            *left > 0
        }
    }
}

impl Checker<'_> {
    /// The type that is written, where `_` stands for none.
    pub(super) fn declared_type(&mut self, ty: &TypeExpr) -> Type {
        if let Some(span) = dont_care(ty) {
            let text = "`_` is a type only among the type arguments of a call or an instance";
            self.type_error(span, text);
        }
        self.resolve(ty)
    }

    /// The type that is written; one with too many parts is an error.
    pub(super) fn resolve(&mut self, ty: &TypeExpr) -> Type {
        let found = self.written(ty);
        let mut left = PARTS_MAX;
        if takes(&found, &mut left) {
            return found;
        }
        let text = format!("a type of more than {PARTS_MAX} parts");
        self.error(codes::LIMIT, ty.span, text)
            .note("fields, elements and type arguments are counted, in each other too");
        Type::Any
    }

    fn written(&mut self, ty: &TypeExpr) -> Type {
        match &ty.value {
            TypeKind::Name { name, args, global } => self.named_type(name, args, *global),
            TypeKind::Bit(width) => Type::Bit(self.width(width, 0)),
            TypeKind::Int(width) => Type::Int(self.width(width, 1)),
            TypeKind::Varbit(width) => Type::Varbit(self.width(width, 0)),
            TypeKind::Bool => Type::Bool,
            TypeKind::Integer => Type::Integer,
            TypeKind::Error => Type::Error,
            TypeKind::MatchKind => Type::MatchKind,
            TypeKind::Text => Type::Text,
            TypeKind::Void => Type::Void,
            TypeKind::Any => self.fresh(),
            TypeKind::Tuple(parts) => {
                let parts: Vec<Type> = parts.iter().map(|part| self.resolve(part)).collect();
                self.no_blocks(&parts, ty.span);
                Type::Tuple(Rc::new(parts))
            }
            TypeKind::List(of) => Type::List(Rc::new(self.resolve(of))),
            TypeKind::Stack(of, size) => self.stack(of, size),
        }
    }

    fn stack(&mut self, of: &TypeExpr, size: &Expr) -> Type {
        let element = self.resolve(of);
        let number = self.constant_number(size, "the size of a stack");
        let Some(number) = number else { return Type::Any };
        let (is_number, is_made) = (
            matches!(element, Type::Bit(_) | Type::Int(_) | Type::Bool | Type::Error),
            matches!(element, Type::Struct(_) | Type::Enum(..) | Type::New(..) | Type::Tuple(_)),
        );
        if !is_number && !is_made && !matches!(element, Type::Any | Type::Var(..)) {
            let text = format!("an array cannot have elements of {element}");
            self.type_error(of.span, text);
            return Type::Any;
        }
        self.stack_of_size(element, &number, size.span)
    }

    /// A number of elements of a type.
    pub(super) fn stack_of(&mut self, element: Type, size: &Expr) -> Option<Type> {
        let number = self.constant_number(size, "the size of an array")?;
        Some(self.stack_of_size(element, &number, size.span))
    }

    fn stack_of_size(&mut self, element: Type, number: &BigInt, span: SourceSpan) -> Type {
        match u32::try_from(number) {
            Ok(number @ 1..=65_535) => Type::Stack(Rc::new(element), number),
            _ => {
                self.type_error(span, format!("a stack cannot have {number} elements"));
                Type::Any
            }
        }
    }

    /// A number of bits.
    fn width(&mut self, width: &Expr, least: u32) -> u32 {
        let Some(number) = self.constant_number(width, "a width") else { return 1 };
        match u32::try_from(&number) {
            Ok(bits) if bits >= least && bits <= crate::p4::WIDTH_MAX => bits,
            _ => {
                let text = format!("{number} is no width");
                let most = crate::p4::WIDTH_MAX;
                self.type_error(width.span, text)
                    .note(format!("widths are {least} to {most} bits"));
                1
            }
        }
    }

    /// The value of an expression that must be known now.
    pub(super) fn constant_number(&mut self, expr: &Expr, what: &str) -> Option<BigInt> {
        let ty = self.value(expr);
        if ty.is_any() {
            return None;
        }
        match self.consts.get(&expr.id) {
            Some(Const::Int(value)) => Some(value.clone()),
            _ => {
                let text =
                    format!("{what} must be a number that is known when the program is compiled");
                self.report.refuse(codes::NOT_CONSTANT, expr.span, text)
            }
        }
    }

    fn named_type(&mut self, name: &Ident, args: &[TypeExpr], global: bool) -> Type {
        let found = self.find(&name.value, global).and_then(|names| names.first().cloned());
        let args: Vec<Type> = args.iter().map(|arg| self.resolve(arg)).collect();
        match found {
            Some(Name::TypeVar(ty)) => {
                if !args.is_empty() {
                    let text = format!("`{}` takes no type arguments", name.value);
                    self.type_error(name.span, text);
                }
                ty
            }
            Some(Name::Decl(decl)) => self.type_of_decl(&decl, args, name.span),
            Some(Name::Param(..)) => {
                self.type_error(name.span, format!("`{}` is no type", name.value));
                Type::Any
            }
            None => {
                self.unknown("type ", name);
                Type::Any
            }
        }
    }

    /// The type that a declaration is.
    pub(super) fn type_of_decl(
        &mut self,
        decl: &Rc<Decl>,
        args: Vec<Type>,
        span: SourceSpan,
    ) -> Type {
        let params = match &decl.kind {
            DeclKind::Struct(inner) => inner.type_params.len(),
            DeclKind::Extern(inner) => inner.type_params.len(),
            DeclKind::Parser(inner) => inner.type_params.len(),
            DeclKind::Control(inner) => inner.type_params.len(),
            DeclKind::Package { type_params, .. } => type_params.len(),
            _ => 0,
        };
        if !args.is_empty() && args.len() != params {
            let text =
                format!("`{}` takes {params} type arguments, not {}", decl.name.value, args.len());
            self.type_error(span, text);
            return Type::Any;
        }
        if matches!(decl.kind, DeclKind::Struct(_) | DeclKind::Extern(_)) {
            self.no_blocks(&args, span);
        }
        if args.is_empty() && params != 0 && matches!(decl.kind, DeclKind::Struct(_)) {
            let text = format!("`{}` needs {params} type arguments", decl.name.value);
            self.type_error(span, text).help(format!("write them: `{}<..>`", decl.name.value));
            return Type::Any;
        }
        let args = if args.is_empty() { (0..params).map(|_| self.fresh()).collect() } else { args };
        match &decl.kind {
            DeclKind::Struct(inner) => self.struct_type(decl, inner, args, span),
            DeclKind::Extern(_) => Type::Extern(decl.clone(), Rc::new(args)),
            DeclKind::Parser(_) => Type::Parser(decl.clone(), Rc::new(args)),
            DeclKind::Control(_) => Type::Control(decl.clone(), Rc::new(args)),
            DeclKind::Package { .. } => Type::Package(decl.clone(), Rc::new(args)),
            DeclKind::Enum(..) | DeclKind::Typedef(_) | DeclKind::NewType(_) => {
                self.declared.get(&decl.id).cloned().unwrap_or(Type::Any)
            }
            _ => {
                self.type_error(span, format!("`{}` is no type", decl.name.value));
                Type::Any
            }
        }
    }

    /// Parsers, controls and externs are no parts of values.
    pub(super) fn no_blocks(&mut self, types: &[Type], span: SourceSpan) {
        let wrong = types.iter().map(|ty| self.known(ty)).find(|ty| {
            matches!(
                ty,
                Type::Parser(..)
                    | Type::Control(..)
                    | Type::Package(..)
                    | Type::Extern(..)
                    | Type::Void
            )
        });
        if let Some(wrong) = wrong {
            self.type_error(span, format!("{wrong} cannot be part of a value"));
        }
    }

    /// A struct with its arguments: what was noted when it was declared, its parameters replaced.
    fn struct_type(
        &mut self,
        decl: &Rc<Decl>,
        inner: &StructDecl,
        args: Vec<Type>,
        span: SourceSpan,
    ) -> Type {
        let Some(Type::Struct(generic)) = self.declared.get(&decl.id).cloned() else {
            return Type::Any;
        };
        if inner.type_params.is_empty() {
            return Type::Struct(generic);
        }
        let with = type_arguments(self.declared.get(&decl.id), &args);
        let fields: Vec<(Rc<str>, Type)> =
            generic.fields.iter().map(|(name, ty)| (name.clone(), substitute(ty, &with))).collect();
        let wrong = fields
            .iter()
            .find(|(_, ty)| !matches!(ty, Type::Infer(_)) && !self.may_be_field(inner.kind, ty));
        if let Some((name, ty)) = wrong {
            let text = format!("`{}.{name}` cannot be {ty}", decl.name.value);
            self.type_error(span, text);
        }
        Type::Struct(Rc::new(StructType { decl: decl.clone(), kind: inner.kind, args, fields }))
    }
}

/// Where `_` is in a type.
fn dont_care(ty: &TypeExpr) -> Option<SourceSpan> {
    match &ty.value {
        TypeKind::Any => Some(ty.span),
        TypeKind::Name { args, .. } | TypeKind::Tuple(args) => args.iter().find_map(dont_care),
        TypeKind::List(of) | TypeKind::Stack(of, _) => dont_care(of),
        _ => None,
    }
}
