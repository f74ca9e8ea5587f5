//! Assignments, part by part.

use std::rc::Rc;

use super::super::types::Type;
use super::build::{binary, known, named, number};
use super::env::{Choice, Header, Members, Val};
use super::need::Need;
use super::standard::Half;
use super::storage::part;
use super::{Lower, Place, wide};
use crate::ast::{Ast, AstBin, AstExpr, Path, PathPart, Size, Sp, StmtKind};
use crate::ir::SourceSpan;

impl Lower<'_> {
    /// `place = value` for one number.
    pub(super) fn set(&mut self, place: &AstExpr, value: AstExpr, span: SourceSpan) {
        if *place == value || self.is_device_set(place) || is_nowhere(place) {
            return;
        }
        match &place.value {
            Ast::Path(path) if self.place == Place::Parser && self.last_of(path).is_some() => {
                if let Some(choice) = self.last_of(path) {
                    let (to, from) = (Val::Choice(Rc::new(choice)), Val::Scalar(value));
                    self.assign(&to, &from, &Type::Any, span);
                }
            }
            Ast::Path(path) => {
                let to = Sp::new(path.clone(), place.span);
                self.push(StmtKind::Assign(to, None, value), span);
            }
            Ast::Slice { value: of, high, low } => match &of.value {
                Ast::Path(path) => {
                    let to = Sp::new(path.clone(), of.span);
                    let bounds = ((**high).clone(), (**low).clone());
                    self.push(StmtKind::Assign(to, Some(bounds), value), span);
                }
                Ast::Slice { value: inner, low: below, .. } => {
                    let base = known(below).unwrap_or(0);
                    let bound =
                        |bit: &AstExpr| Box::new(number(known(bit).unwrap_or(0) + base, 0, span));
                    let merged =
                        Ast::Slice { value: inner.clone(), high: bound(high), low: bound(low) };
                    self.set(&Sp::new(merged, place.span), value, span);
                }
                _ => self.not_written(span),
            },
            _ => self.not_written(span),
        }
    }

    /// What a field of the last element of a stack is, for a parser that writes it: that field of the element whose number it has.
    fn last_of(&self, path: &Path) -> Option<Choice> {
        let [PathPart::Name(stack), PathPart::Name(last), PathPart::Name(field)] =
            path.parts.as_slice()
        else {
            return None;
        };
        if last.value != "last" {
            return None;
        }
        let (_, decl) = self.unit.instances.iter().find(|(name, _)| name.value == stack.value)?;
        let Some(Size::Number(size)) = &decl.stack else { return None };
        let span = stack.span;
        let depth = named(&[&stack.value, "depth"], span);
        let at = binary(AstBin::Sub, depth, number(1, 32, span), span);
        let element = |at: u64| {
            let index = PathPart::Index(number(at.into(), 0, span));
            let parts = vec![path.parts[0].clone(), index, PathPart::Name(field.clone())];
            Val::Scalar(Sp::new(Ast::Path(Path { parts }), span))
        };
        Some(Choice { at, elements: (0..size.value).map(element).collect() })
    }

    fn not_written(&mut self, span: SourceSpan) {
        self.unsupported(span, "this cannot be written")
            .note("the device sets it, or it is computed when it is read");
    }

    /// True for standard metadata that the device sets: the next round has storage for it.
    fn is_device_set(&mut self, place: &AstExpr) -> bool {
        let whole = match &place.value {
            Ast::Slice { value, .. } => value,
            _ => place,
        };
        let in_parser = self.place == Place::Parser;
        let found = self.device_set.iter().find(|(need, value)| {
            value == whole && matches!(need, Need::Written(Half::Parser, _)) == in_parser
        });
        let Some((need, _)) = found else { return false };
        let need = need.clone();
        self.need(need);
        true
    }

    /// `to = from` for values of one type.
    pub(super) fn assign(&mut self, to: &Val, from: &Val, ty: &Type, span: SourceSpan) {
        if let Val::Header(header) = to {
            self.touch(header);
        }
        match (to, from) {
            (Val::Choice(choice), _) => {
                self.with_chosen(choice, span, |lower, one| lower.assign(one, from, ty, span));
            }
            (_, Val::Choice(choice)) => match self.read(choice, span) {
                value @ Val::Scalar(_) => self.assign(to, &value, ty, span),
                _ => self.with_chosen(choice, span, |lower, one| lower.assign(to, one, ty, span)),
            },
            (Val::Scalar(place), Val::Scalar(value)) => {
                self.assign_scalar(place, value, ty, span);
            }
            (Val::Scalar(place), Val::Applied(hit)) => self.set(place, hit.clone(), span),
            (Val::Struct(fields), Val::Struct(values)) => {
                let values = self.values_before(to, values, ty);
                self.assign_parts(fields, &values, ty, span);
            }
            (Val::Header(header), Val::Header(other)) => {
                if header.path != other.path && self.place == Place::Parser {
                    self.copy_in_parser(header, other, ty, span);
                } else if header.path != other.path {
                    let to = Sp::new(header.path.clone(), span);
                    let value = Sp::new(Ast::Path(other.path.clone()), span);
                    self.push(StmtKind::Assign(to, None, value), span);
                }
            }
            (Val::Header(header), Val::Literal(None)) => {
                self.procedure("set_invalid", header, span)
            }
            (Val::Header(header), Val::Literal(Some(values)) | Val::Struct(values)) => {
                self.header_literal(header, values, span);
            }
            (Val::Union(members), Val::Union(others)) => {
                for ((_, member), (_, other)) in members.iter().zip(others.iter()) {
                    self.assign(member, other, ty, span);
                }
            }
            (Val::Union(_), Val::Literal(None)) => self.invalidate(to, span),
            (Val::Stack(stack), Val::Stack(other)) => self.copy_stack(stack, other, span),
            (Val::Stack(_), Val::Struct(values)) => {
                let values = self.values_before(to, values, ty);
                let Val::Struct(elements) = self.listed(to, span) else { return };
                self.assign_parts(&elements, &values, ty, span);
            }
            (Val::Struct(_), Val::Stack(_)) => {
                let from = self.listed(from, span);
                self.assign(to, &from, ty, span);
            }
            (Val::Nothing | Val::Literal(None), _) | (_, Val::Nothing) => {}
            _ => {
                self.unsupported(span, "this assignment is not supported");
            }
        }
    }

    /// Values of a list as they are before the place that they go to is written.
    fn values_before(&mut self, to: &Val, values: &Members, ty: &Type) -> Members {
        let from = Val::Struct(values.clone());
        if values.len() < 2 || !self.overlap(to, &from) {
            return values.clone();
        }
        match self.keep_all(&from, ty) {
            Val::Struct(kept) => kept,
            _ => values.clone(),
        }
    }

    fn assign_scalar(&mut self, place: &AstExpr, value: &AstExpr, ty: &Type, span: SourceSpan) {
        // A parser copies numbers only.
        let is_copied = self.place != Place::Parser && is_path(place) && is_path(value);
        if wide::is_wide(ty) && !is_copied {
            let bits = self.bits(ty, span);
            return self.assign_wide(place, value, bits, span);
        }
        let bits = match &value.value {
            Ast::Number { bits: None, .. } => self.bits(ty, span),
            _ => 0,
        };
        let value = match known(value) {
            Some(known) if bits > 0 => number(known, bits, value.span),
            _ => value.clone(),
        };
        self.set(place, value, span);
    }

    /// Fields by their names, or else in their order.
    pub(super) fn assign_parts(
        &mut self,
        fields: &[(Rc<str>, Val)],
        values: &[(Rc<str>, Val)],
        ty: &Type,
        span: SourceSpan,
    ) {
        for (at, (name, field)) in fields.iter().enumerate() {
            let found = values.iter().find(|(known, _)| known == name).or_else(|| values.get(at));
            let Some((_, value)) = found else { continue };
            let of = part(ty, name).unwrap_or(Type::Any);
            self.assign(field, value, &of, span);
        }
    }

    fn header_literal(&mut self, header: &Rc<Header>, values: &[(Rc<str>, Val)], span: SourceSpan) {
        let ty = Type::Struct(header.ty.clone());
        let whole = Val::Header(header.clone());
        let given = Val::Struct(Rc::new(values.to_vec()));
        let given = if self.overlap(&whole, &given) { self.keep_all(&given, &ty) } else { given };
        self.procedure("set_valid", header, span);
        let Val::Struct(values) = &given else { return };
        let fields = self.header_fields(header, span);
        self.assign_parts(&fields, values, &ty, span);
    }

    /// Whether writing one value may change the other.
    pub(super) fn overlap(&self, a: &Val, b: &Val) -> bool {
        let mut written = Vec::new();
        roots(a, &mut written);
        // A member of a union that becomes valid makes the others invalid.
        for (_, members) in &self.unit.unions {
            if members.iter().any(|member| written.contains(&member.value)) {
                written.extend(members.iter().map(|member| member.value.clone()));
            }
        }
        let mut read = Vec::new();
        roots(b, &mut read);
        written.iter().any(|name| read.contains(name))
    }
}

fn is_path(value: &AstExpr) -> bool {
    matches!(value.value, Ast::Path(_))
}

/// A field of an element that is not there: it reads as a number, and writing it does nothing.
fn is_nowhere(place: &AstExpr) -> bool {
    match &place.value {
        Ast::Slice { value, .. } => is_nowhere(value),
        _ => known(place).is_some(),
    }
}

/// Storage that a value is made of: the first names of paths, of metadata the second too.
pub(super) fn roots(value: &Val, found: &mut Vec<String>) {
    match value {
        Val::Scalar(scalar) => scalar.value.paths(&mut |path| root(path, found)),
        Val::Struct(fields) | Val::Union(fields) | Val::Literal(Some(fields)) => {
            fields.iter().for_each(|(_, value)| roots(value, found));
        }
        Val::Header(header) => header.path.paths(&mut |path| root(path, found)),
        Val::Stack(stack) => {
            found.push(stack.name.clone());
            stack.elements.iter().for_each(|value| roots(value, found));
        }
        Val::Choice(choice) => {
            choice.at.value.paths(&mut |path| root(path, found));
            choice.elements.iter().for_each(|value| roots(value, found));
        }
        _ => {}
    }
}

/// The storage that a path is in.
fn root(path: &Path, found: &mut Vec<String>) {
    let name = |at: usize| match path.parts.get(at) {
        Some(PathPart::Name(name)) => name.value.as_str(),
        _ => "",
    };
    match name(0) {
        space @ ("meta" | "std") => found.push(format!("{space}.{}", name(1))),
        // Numbers with names.
        "path" | "error" => {}
        first => found.push(first.to_owned()),
    }
}
