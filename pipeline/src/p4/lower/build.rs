//! Pieces of the tree.

use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::super::types::Type;
use super::env::{Members, Val};
use super::{Lower, Place};
use crate::ast::{Ast, AstBin, AstExpr, AstUn, Path, PathPart, Sp, StmtKind};
use crate::ir::SourceSpan;
use crate::ir::layout::ones;

/// `a.b.c`.
pub(super) fn path(parts: &[&str], span: SourceSpan) -> Path {
    let parts = parts.iter().map(|part| PathPart::Name(Sp::new((*part).to_owned(), span)));
    Path { parts: parts.collect() }
}

/// `a.b.c` as an expression.
pub(super) fn named(parts: &[&str], span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Path(path(parts, span)), span)
}

/// A number with its width.
pub(super) fn number(value: u128, bits: u32, span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Number { value, bits: (bits > 0).then_some(bits) }, span)
}

pub(super) fn binary(op: AstBin, left: AstExpr, right: AstExpr, span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Binary(op, Box::new(left), Box::new(right)), span)
}

/// `value == number`.
pub(super) fn is(value: AstExpr, wanted: u128, bits: u32, span: SourceSpan) -> AstExpr {
    binary(AstBin::Eq, value, number(wanted, bits, span), span)
}

pub(super) fn unary(op: AstUn, value: AstExpr, span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Unary(op, Box::new(value)), span)
}

pub(super) fn not(value: AstExpr) -> AstExpr {
    let span = value.span;
    unary(AstUn::Not, value, span)
}

pub(super) fn mux(condition: AstExpr, then: AstExpr, other: AstExpr, span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Mux(Box::new(condition), Box::new(then), Box::new(other)), span)
}

/// `bit<N>(value)`.
pub(super) fn cast(bits: u32, value: AstExpr) -> AstExpr {
    let span = value.span;
    if let Ast::Number { value: known, bits: Some(_) } = value.value {
        return number(known & ones(bits), bits, span);
    }
    Sp::new(Ast::Cast(Sp::new(u64::from(bits), span), Box::new(value)), span)
}

pub(super) fn slice(value: AstExpr, high: u32, low: u32, span: SourceSpan) -> AstExpr {
    let bound = |bit: u32| Box::new(number(u128::from(bit), 0, span));
    Sp::new(Ast::Slice { value: Box::new(value), high: bound(high), low: bound(low) }, span)
}

pub(super) fn call(name: &str, args: Vec<AstExpr>, span: SourceSpan) -> AstExpr {
    Sp::new(Ast::Call(Sp::new(name.to_owned(), span), args), span)
}

/// Whether the packet came to this pass by this path: `std.packet_path == path.name`.
pub(super) fn path_is(name: &str, span: SourceSpan) -> AstExpr {
    binary(AstBin::Eq, named(&["std", "packet_path"], span), named(&["path", name], span), span)
}

/// The bits of a number in its type, as an unsigned one.
pub(super) fn unsigned(value: &BigInt, bits: u32) -> Option<u128> {
    let mut value = value.clone();
    if value.sign() == Sign::Minus {
        value += BigInt::from(1) << bits;
    }
    u128::try_from(&value).ok()
}

/// True for a number that is written.
pub(super) fn known(value: &AstExpr) -> Option<u128> {
    match &value.value {
        Ast::Number { value, .. } => Some(*value),
        Ast::Bool(value) => Some(u128::from(*value)),
        _ => None,
    }
}

/// Width of computed indices of stacks and arrays.
pub(super) const INDEX_BITS: u32 = 32;

impl Lower<'_> {
    /// A new field of metadata.
    pub(super) fn new_meta(&mut self, wanted: &str, bits: u32, span: SourceSpan) -> AstExpr {
        let prefix = self.env.prefix().to_owned();
        let name = self.names.fresh(wanted, &prefix);
        let ty = crate::ast::TypeRef::Bits(Sp::new(u64::from(bits), span));
        let decl = crate::ast::MetaDecl { ty, carried: false };
        self.unit.metadata.push((Sp::new(name.clone(), span), decl));
        named(&["meta", &name], span)
    }

    /// Keeps a value as it is now, unless it is known.
    pub(super) fn keep(&mut self, value: AstExpr) -> AstExpr {
        if known(&value).is_some() {
            return value;
        }
        let span = value.span;
        let name = self.names.value();
        self.push(StmtKind::Let(Sp::new(name.clone(), span), value), span);
        named(&[&name], span)
    }

    /// The same of a number of so many bits, also from state to state of a parser.
    pub(super) fn keep_number(&mut self, value: AstExpr, bits: u32) -> AstExpr {
        if self.place != super::Place::Parser || known(&value).is_some() {
            return self.keep(value);
        }
        let span = value.span;
        let kept = self.new_meta("value", bits, span);
        self.set(&kept, cast(bits, value), span);
        kept
    }

    /// A number of `bits` bits in fewer; `beyond` where it does not fit.
    pub(super) fn narrowed(
        &mut self,
        value: AstExpr,
        (bits, fewer): (u32, u32),
        beyond: u128,
        span: SourceSpan,
    ) -> AstExpr {
        let value = self.keep_number(value, bits);
        let high = slice(value.clone(), bits - 1, fewer, span);
        let is_beyond = binary(AstBin::Ne, high, number(0, bits - fewer, span), span);
        mux(is_beyond, number(beyond, fewer, span), cast(fewer, value), span)
    }

    /// A value as it is now, in storage of its own.
    pub(super) fn copied(&mut self, value: &Val, ty: &Type, name: &str, span: SourceSpan) -> Val {
        let copy = self.storage(ty, name, span);
        self.assign(&copy, value, ty, span);
        copy
    }

    /// A value as it is now: numbers are kept, headers copied. A parser keeps no number from state to state, so there all is copied.
    pub(super) fn keep_all(&mut self, value: &Val, ty: &Type) -> Val {
        self.kept(value, ty, self.place == Place::Parser)
    }

    /// The same of a number.
    pub(super) fn number_kept(&mut self, value: AstExpr, ty: &Type) -> AstExpr {
        match self.keep_all(&Val::Scalar(value.clone()), ty) {
            Val::Scalar(kept) => kept,
            _ => value,
        }
    }

    /// The same, with the numbers in storage or not.
    pub(super) fn kept(&mut self, value: &Val, ty: &Type, stored: bool) -> Val {
        match value {
            Val::Scalar(scalar) if known(scalar).is_some() => self.sized(value.clone(), ty),
            Val::Scalar(scalar) if stored || super::hash::is_bytes(ty) => {
                self.copied(value, ty, "value", scalar.span)
            }
            Val::Scalar(scalar) => Val::Scalar(self.keep(scalar.clone())),
            Val::Struct(fields) => Val::Struct(self.kept_parts(fields, ty, stored)),
            Val::Literal(Some(fields)) => Val::Literal(Some(self.kept_parts(fields, ty, stored))),
            Val::Header(header) => {
                self.copied(value, &Type::Struct(header.ty.clone()), "value", self.span)
            }
            Val::Union(_) | Val::Stack(_) | Val::Choice(_) if !ty.is_any() => {
                self.copied(value, ty, "value", self.span)
            }
            other => other.clone(),
        }
    }

    fn kept_parts(&mut self, fields: &Members, ty: &Type, stored: bool) -> Members {
        let kept = fields.iter().map(|(name, value)| {
            let of = super::storage::part(ty, name).unwrap_or(Type::Any);
            (name.clone(), self.kept(value, &of, stored))
        });
        Rc::new(kept.collect())
    }
}
