//! Fields that have bytes and no value, a variable part or one of more than 128 bits: which field a path names, and whether two
//! have the same bytes.

use super::Val;
use super::path::Target;
use crate::ast::{Ast, AstExpr, FieldDecl, Name, Path, PathPart};
use crate::check::cx::{Cx, InstanceRef};
use crate::check::header::FIELDS_MAX;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::layout::VALUE_BITS_MAX;
use crate::ir::{BinOp, Display, ExprKind, Field, FieldLayout, SourceSpan, UnOp};

/// A field that has bytes and no value, as a path names it.
enum Named<'p> {
    One(InstanceId, FieldId),
    /// Of the element with this number.
    Element(StackId, &'p AstExpr, FieldId),
    /// Of a header that is never valid in this program: its width in bits, 0 of a variable field.
    Absent(u32),
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
                self.declared_bytes(index, name).map(Named::Absent)
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

    /// The width in bits of such a field of a header that is never valid, and has no layout: 0 of a variable one.
    fn declared_bytes(&mut self, index: usize, name: &Name) -> Option<u32> {
        let header = self.scope.instances.get(index)?.header;
        let header = self.scope.headers.get(header.value.as_str())?;
        let mut fields = header.decl.fields.iter();
        match fields.find(|(known, _)| known.value == name.value)? {
            (_, FieldDecl::Variable { .. }) => Some(0),
            (_, FieldDecl::Bits(ty)) => {
                let bits = self.width(ty)?.bits;
                u32::try_from(bits).ok().filter(|bits| *bits > VALUE_BITS_MAX)
            }
            _ => None,
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
            Named::Absent(_) => {
                if let Some((PathPart::Name(first), rest)) = path.parts.split_first() {
                    self.warn_absent(&first.value, rest, span);
                }
                BytesField::Absent
            }
        };
        Some(Ok(found))
    }

    /// What `a.key[255:192]` of a field over 128 bits names: a part that has a value. `None`, and nothing reported, for all else, and
    /// `Some(None)` where an error was reported.
    pub(crate) fn part(
        &mut self,
        path: &Path,
        (high, low): (&AstExpr, &AstExpr),
        span: SourceSpan,
    ) -> Option<Option<Target>> {
        let whole = self.named_bytes(path)?;
        let bits = match &whole {
            Named::One(id, field) => self.wide_bits(*id, *field)?,
            Named::Element(stack, _, field) => {
                self.wide_bits(self.ir.stacks.get(*stack)?.first, *field)?
            }
            Named::Absent(0) => return None,
            Named::Absent(bits) => *bits,
        };
        Some(self.part_of(whole, path, (high, low), bits, span))
    }

    fn part_of(
        &mut self,
        whole: Named<'_>,
        path: &Path,
        (high, low): (&AstExpr, &AstExpr),
        bits: u32,
        span: SourceSpan,
    ) -> Option<Target> {
        let (high, low) = self.slice_bounds(high, low)?;
        if !self.slice_fits(high, low, bits, span) {
            return None;
        }
        let width = high - low + 1;
        if width > VALUE_BITS_MAX {
            let text = format!("a slice has at most {VALUE_BITS_MAX} bits, not {width}");
            return self.report.refuse(codes::BAD_SLICE, span, text);
        }
        match whole {
            Named::One(id, field) => {
                Some(Target::Field(id, self.part_field(id, field, (high, low), span)?, width))
            }
            Named::Element(stack, index, field) => {
                let first = self.ir.stacks.get(stack)?.first;
                let part = self.part_field(first, field, (high, low), span)?;
                Some(match self.element_at(stack, index)? {
                    Ok(element) => Target::Field(element, part, width),
                    Err(index) => Target::ElementField(stack, index, part, width),
                })
            }
            Named::Absent(_) => {
                if let Some((PathPart::Name(first), rest)) = path.parts.split_first() {
                    self.warn_absent(&first.value, rest, span);
                }
                Some(Target::Absent(width))
            }
        }
    }

    /// The width of a field over 128 bits; `None` for a variable one, whose length is that of the packet.
    fn wide_bits(&self, instance: InstanceId, field: FieldId) -> Option<u32> {
        let header = self.ir.headers.get(self.ir.instances.get(instance)?.header)?;
        match header.fields.get(field)?.layout {
            FieldLayout::Opaque { bytes, .. } => Some(bytes * 8),
            _ => None,
        }
    }

    /// The field that stands for these bits of a wide one, in all headers of its type.
    fn part_field(
        &mut self,
        instance: InstanceId,
        whole: FieldId,
        (high, low): (u32, u32),
        span: SourceSpan,
    ) -> Option<FieldId> {
        let id = self.ir.instances.get(instance)?.header;
        if let Some(found) = self.parts.get(&(id, whole, high, low)) {
            return Some(*found);
        }
        let header = &mut self.ir.headers[id];
        if header.fields.len() >= FIELDS_MAX {
            let text = format!(
                "`{}` has more than {FIELDS_MAX} fields and different slices of fields",
                header.name
            );
            return self.report.refuse(codes::LIMITS, span, text);
        }
        let known = header.fields.get(whole)?;
        let FieldLayout::Opaque { byte, bytes } = known.layout else { return None };
        let name = format!("{}[{high}:{low}]", known.name);
        let (bit, bits) = ((byte + bytes) * 8 - 1 - high, high - low + 1);
        let layout = FieldLayout::Run { bit, bits };
        let part = Field { name, bits, layout, display: Display::Hex, part_of: Some(whole) };
        let part = header.fields.push(part);
        self.parts.insert((id, whole, high, low), part);
        Some(part)
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
