//! Pieces of the tree.

use num_bigint::{BigInt, Sign};

use super::super::types::Type;
use super::Lower;
use super::env::Val;
use crate::ast::{Ast, AstBin, AstExpr, AstUn, Path, PathPart, Sp, StmtKind};
use crate::ir::SourceSpan;

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
        let mask = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
        return number(known & mask, bits, span);
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
    pub(super) fn keep(&mut self, value: AstExpr, bits: u32) -> AstExpr {
        if known(&value).is_some() {
            return value;
        }
        let span = value.span;
        let name = self.names.fresh("value", "");
        let value = if bits > 0 { value } else { cast(bits, value) };
        self.push(StmtKind::Let(Sp::new(name.clone(), span), value), span);
        named(&[&name], span)
    }

    /// Keeps all numbers of a value as they are now.
    pub(super) fn keep_all(&mut self, value: &Val, ty: &Type) -> Val {
        match value {
            Val::Scalar(scalar) if super::hash::is_bytes(ty) => {
                let span = scalar.span;
                let copy = self.storage(ty, "value", span);
                self.assign(&copy, value, ty, span);
                copy
            }
            Val::Scalar(scalar) => {
                let bits = self.bits(ty, scalar.span);
                Val::Scalar(self.keep(scalar.clone(), bits))
            }
            Val::Struct(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| {
                        let of = super::storage::part(ty, name).unwrap_or(Type::Any);
                        (name.clone(), self.keep_all(value, &of))
                    })
                    .collect();
                Val::Struct(std::rc::Rc::new(fields))
            }
            other => other.clone(),
        }
    }
}
