//! Fields that have bytes and no value, a variable part or one of more than 128 bits: which field a path names, and whether two
//! have the same bytes.

use super::Val;
use crate::ast::{Ast, AstExpr, FieldDecl, Name, Path, PathPart};
use crate::check::cx::{Cx, InstanceRef};
use crate::check::scope::Symbol;
use crate::ids::*;
use crate::ir::{BinOp, ExprKind, FieldLayout, SourceSpan, UnOp};

/// A field that has bytes and no value, as a path names it.
enum Named<'p> {
    One(InstanceId, FieldId),
    /// Of the element with this number.
    Element(StackId, &'p AstExpr, FieldId),
    /// Of a header that is never valid in this program.
    Absent,
}

/// The same with the number of the element as an expression.
#[derive(Clone, Copy)]
pub(crate) enum BytesField {
    One(InstanceId, FieldId),
    /// Of the element whose number is computed for each packet.
    Element(StackId, ExprId, FieldId),
    /// Of a header that is never valid in this program: it has no bytes.
    Absent,
}

impl Cx<'_> {
    /// The field with bytes that a path names; `None`, and nothing reported, for all else.
    fn named_bytes<'p>(&mut self, path: &'p Path) -> Option<Named<'p>> {
        let (PathPart::Name(first), rest) = path.parts.split_first()? else { return None };
        let bound = self.env.bound(&first.value).to_string();
        if self.env.local(&first.value).is_some() {
            return None;
        }
        let Some(Symbol::Instance(index)) = self.scope.symbol(&bound) else { return None };
        match (self.instance_ref(index), rest) {
            (Some(InstanceRef::One(id)), [PathPart::Name(name)]) => {
                self.bytes_of(id, name).map(|field| Named::One(id, field))
            }
            (Some(InstanceRef::Stack(id)), [PathPart::Index(at), PathPart::Name(name)]) => {
                let first = self.ir.stacks.get(id)?.first;
                self.bytes_of(first, name).map(|field| Named::Element(id, at, field))
            }
            (None, [PathPart::Name(name)] | [PathPart::Index(_), PathPart::Name(name)]) => {
                self.is_declared_as_bytes(index, name).then_some(Named::Absent)
            }
            _ => None,
        }
    }

    fn bytes_of(&self, instance: InstanceId, name: &Name) -> Option<FieldId> {
        let header = self.ir.headers.get(self.ir.instances.get(instance)?.header)?;
        let (field, known) = header.fields.entries().find(|(_, f)| f.name == name.value)?;
        matches!(known.layout, FieldLayout::Variable { .. } | FieldLayout::Opaque { .. })
            .then_some(field)
    }

    /// The same of a header that is never valid, and has no layout.
    fn is_declared_as_bytes(&mut self, index: usize, name: &Name) -> bool {
        let declared = self.scope.instances.get(index);
        let header = declared.and_then(|one| self.scope.headers.get(one.header.value.as_str()));
        let mut fields = header.into_iter().flat_map(|header| &header.decl.fields);
        match fields.find(|(known, _)| known.value == name.value) {
            Some((_, FieldDecl::Variable { .. })) => true,
            Some((_, FieldDecl::Bits(ty))) => {
                self.width(ty).is_some_and(|width| width.bits > super::BITS_MAX.into())
            }
            _ => false,
        }
    }

    /// The field with bytes that a path names, with the errors of the number of an element, and a warning for a header that is never
    /// valid. `None` where there is none, and `Some(Err(()))` where an error was reported.
    pub(crate) fn bytes_field(
        &mut self,
        path: &Path,
        span: SourceSpan,
    ) -> Option<Result<BytesField, ()>> {
        let found = match self.named_bytes(path)? {
            Named::One(instance, field) => BytesField::One(instance, field),
            Named::Element(stack, index, field) => match self.element_at(stack, index) {
                None => return Some(Err(())),
                Some(Err(index)) => BytesField::Element(stack, index, field),
                Some(Ok(element)) => BytesField::One(element, field),
            },
            Named::Absent => {
                if let Some((PathPart::Name(first), rest)) = path.parts.split_first() {
                    self.warn_absent(&first.value, rest, span);
                }
                BytesField::Absent
            }
        };
        Some(Ok(found))
    }

    /// `a == b` and `a != b` of fields that have bytes and no value; `None` for all else.
    pub(super) fn compare_bytes(
        &mut self,
        op: BinOp,
        left: &AstExpr,
        right: &AstExpr,
        span: SourceSpan,
    ) -> Option<Val> {
        let (Ast::Path(a), Ast::Path(b)) = (&left.value, &right.value) else { return None };
        if !matches!(op, BinOp::Eq | BinOp::Ne) {
            return None;
        }
        self.named_bytes(a).and(self.named_bytes(b))?;
        let sides = (self.bytes_field(a, left.span)?, self.bytes_field(b, right.span)?);
        let (Ok(a), Ok(b)) = sides else { return Some(Val::Poison) };
        let same = self.same_bytes(a, b, span);
        Some(Val::Typed(match op {
            BinOp::Eq => same,
            _ => self.node(ExprKind::Unary(UnOp::Not, same), 1, span),
        }))
    }

    /// A header that is not valid has no bytes, so it equals one that is not valid either. An element outside of its stack equals
    /// nothing.
    fn same_bytes(&mut self, a: BytesField, b: BytesField, span: SourceSpan) -> ExprId {
        match (a, b) {
            (BytesField::Element(stack, index, field), other) => {
                self.each_of_element(stack, index, 1, span, &mut |cx, id| {
                    cx.same_bytes(BytesField::One(id, field), other, span)
                })
            }
            (one, element @ BytesField::Element(..)) => self.same_bytes(element, one, span),
            (BytesField::One(a, field), BytesField::One(b, other)) => {
                self.node(ExprKind::SameBytes((a, field), (b, other)), 1, span)
            }
            (BytesField::Absent, BytesField::Absent) => self.constant(1, 1, span),
            (BytesField::One(id, _), BytesField::Absent)
            | (BytesField::Absent, BytesField::One(id, _)) => {
                let valid = self.node(ExprKind::Valid(id), 1, span);
                self.node(ExprKind::Unary(UnOp::Not, valid), 1, span)
            }
        }
    }
}
