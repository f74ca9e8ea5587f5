//! Registers: the language has cells of up to 64 bits, several in an entry, so a wider number is two of them and a struct one for each field.

use super::super::types::Type;
use super::Lower;
use super::build::{binary, known, number, path, slice};
use super::env::{Object, Val};
use super::externs::is_outside;
use super::names::Fields;
use crate::ast::{self, Ast, AstBin, AstExpr, PathPart, Sp};
use crate::ir::SourceSpan;
use crate::ir::layout::{VALUE_BITS_MAX, ones};
use std::rc::Rc;
use std::vec::IntoIter;

/// Most bits of a cell.
const CELL_BITS_MAX: u32 = 64;
impl Lower<'_> {
    /// The cells of an entry: names and bits.
    fn register_cells(&mut self, ty: &Type, span: SourceSpan) -> Vec<(String, u32)> {
        let named = match ty.unwrapped() {
            Type::Struct(of) => Fields::of(of),
            _ => Fields::default(),
        };
        let mut numbers = Vec::new();
        self.register_numbers(ty, "", span, &mut numbers);
        let own: Vec<String> = numbers.iter().map(|(path, _)| named.name(path)).collect();
        let mut cells: Vec<(String, u32)> = Vec::new();
        for ((path, bits), name) in numbers.iter().zip(&own) {
            let Some(high @ 1..) = bits.checked_sub(CELL_BITS_MAX) else {
                let name = if path.is_empty() { "value" } else { name };
                cells.push((name.to_owned(), *bits));
                continue;
            };
            for (half, bits) in [("high", high), ("low", CELL_BITS_MAX)] {
                let whole =
                    if path.is_empty() { half.to_owned() } else { format!("{name}_{half}") };
                let mut name = whole;
                while own.contains(&name) || cells.iter().any(|(known, _)| *known == name) {
                    name.push('_');
                }
                cells.push((name, bits));
            }
        }
        cells
    }

    /// The numbers of an entry: where they are in the source, and bits.
    fn register_numbers(
        &mut self,
        ty: &Type,
        path: &str,
        span: SourceSpan,
        into: &mut Vec<(String, u32)>,
    ) {
        if let Type::Struct(of) = ty.unwrapped() {
            for (field, ty) in &of.fields {
                let inner =
                    if path.is_empty() { field.to_string() } else { format!("{path}.{field}") };
                self.register_numbers(ty, &inner, span, into);
            }
            return;
        }
        let bits = self.bits(ty, span);
        if bits > VALUE_BITS_MAX {
            let text = format!("a register of {bits} bits: at most {VALUE_BITS_MAX}");
            self.unsupported(span, text);
            return;
        }
        into.push((path.to_owned(), bits));
    }

    /// The declaration of a register with these entries.
    pub(super) fn new_register(&mut self, name: Sp<String>, ty: &Type, size: u64) {
        let span = name.span;
        let cell = |(name, bits)| {
            (Sp::new(name, span), ast::TypeRef::Bits(Sp::new(u64::from(bits), span)))
        };
        let cells = self.register_cells(ty, span).into_iter().map(cell).collect();
        let decl = ast::RegisterDecl { cells, size: ast::Size::new(size, span) };
        self.unit.registers.push((name, decl));
    }

    /// The cells of an entry, as places.
    fn entry(
        &mut self,
        object: &Object,
        ty: &Type,
        index: AstExpr,
        span: SourceSpan,
    ) -> IntoIter<AstExpr> {
        let cells = self.register_cells(ty, span);
        if is_outside(object, &index) {
            let zeros = cells.into_iter().map(|(_, bits)| number(0, bits, span));
            return zeros.collect::<Vec<_>>().into_iter();
        }
        let index = match cells.len() {
            0 | 1 => index,
            _ if known(&index).is_some() => index,
            _ => self.keep(index),
        };
        let several = cells.len() > 1;
        let place = |(name, _): (String, u32)| {
            let mut path = path(&[&object.name], span);
            path.parts.push(PathPart::Index(index.clone()));
            if several {
                path.parts.push(PathPart::Name(Sp::new(name, span)));
            }
            Sp::new(Ast::Path(path), span)
        };
        cells.into_iter().map(place).collect::<Vec<_>>().into_iter()
    }

    /// What an entry has now.
    pub(super) fn read_register(
        &mut self,
        object: &Object,
        index: AstExpr,
        span: SourceSpan,
    ) -> Val {
        let ty = object.types.first().cloned().unwrap_or(Type::Any);
        let mut cells = self.entry(object, &ty, index, span);
        self.read_cells(&ty, &mut cells, span)
    }

    fn read_cells(&mut self, ty: &Type, cells: &mut IntoIter<AstExpr>, span: SourceSpan) -> Val {
        if let Type::Struct(of) = ty.unwrapped() {
            let fields = of.fields.iter();
            let read = fields.map(|(name, ty)| (name.clone(), self.read_cells(ty, cells, span)));
            return Val::Struct(Rc::new(read.collect()));
        }
        let Some(first) = cells.next() else { return Val::Nothing };
        let bits = self.bits(ty, span);
        let value = self.effect(first, span);
        if bits <= CELL_BITS_MAX {
            return Val::Scalar(value);
        }
        let Some(low) = cells.next() else { return Val::Nothing };
        let low = self.effect(low, span);
        Val::Scalar(binary(AstBin::Concat, value, low, span))
    }

    /// Writes an entry.
    pub(super) fn write_register(
        &mut self,
        object: &Object,
        index: AstExpr,
        value: Val,
        span: SourceSpan,
    ) {
        let ty = object.types.first().cloned().unwrap_or(Type::Any);
        let value = self.sized(value, &ty);
        let mut cells = self.entry(object, &ty, index, span);
        self.write_cells(&ty, &value, &mut cells, span);
    }

    fn write_cells(
        &mut self,
        ty: &Type,
        value: &Val,
        cells: &mut IntoIter<AstExpr>,
        span: SourceSpan,
    ) {
        if let (Type::Struct(of), Val::Struct(values)) = (ty.unwrapped(), value) {
            for (at, (name, ty)) in of.fields.iter().enumerate() {
                let found = values.iter().find(|(known, _)| known == name);
                let found = found.or_else(|| values.get(at));
                let value = found.map_or(Val::Nothing, |(_, value)| value.clone());
                self.write_cells(ty, &value, cells, span);
            }
            return;
        }
        let Some(first) = cells.next() else { return };
        let bits = self.bits(ty, span);
        let wide = bits > CELL_BITS_MAX;
        let low = if wide { cells.next() } else { None };
        let Val::Scalar(value) = value else { return };
        let Some(low) = low else {
            return self.assign(&Val::Scalar(first), &Val::Scalar(value.clone()), ty, span);
        };
        let value = match known(value) {
            Some(known) => number(known, bits, span),
            None => self.keep(value.clone()),
        };
        self.set(&first, part(&value, bits - 1, CELL_BITS_MAX, span), span);
        self.set(&low, part(&value, CELL_BITS_MAX - 1, 0, span), span);
    }
}

/// A slice, of a known number too.
fn part(value: &AstExpr, high: u32, low: u32, span: SourceSpan) -> AstExpr {
    let bits = high - low + 1;
    match known(value) {
        Some(value) => number(value >> low & ones(bits), bits, span),
        None => slice(value.clone(), high, low, span),
    }
}
