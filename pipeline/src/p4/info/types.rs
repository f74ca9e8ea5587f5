//! Types as P4Info has them.

use num_bigint::BigInt;

use super::super::tree::*;
use super::super::types::{Const, StructType, Type};
use super::ids::{control_name, text_of};
use super::notes::{documentation, others};
use super::walk::Walk;
use super::{NamedType, Param, TypeRef};

/// A number with this number of bits, most significant byte first.
pub(super) fn bytes(value: &BigInt, bits: u32) -> Vec<u8> {
    let modulus = BigInt::from(1) << bits;
    let mut value = value % &modulus;
    if value.sign() == num_bigint::Sign::Minus {
        value += modulus;
    }
    let (_, found) = value.to_bytes_be();
    let len = bits.div_ceil(8).max(1) as usize;
    let mut all = vec![0; len.saturating_sub(found.len())];
    all.extend(found.iter().skip(found.len().saturating_sub(len)));
    all
}

/// The name that a controller has for a type.
fn type_name(decl: &Decl) -> String {
    control_name(&decl.annotations, &decl.name.value)
}

/// The fields of a header, those of structs in it instead of the structs. If it has some, names are paths and `@name` means nothing.
pub(super) fn flat_fields(of: &StructType) -> Vec<(String, Vec<Annotation>, Type)> {
    let DeclKind::Struct(inner) = &of.decl.kind else { return Vec::new() };
    let has_structs = of.fields.iter().any(|(_, ty)| matches!(ty, Type::Struct(_)));
    let mut found = Vec::new();
    for (field, (plain, ty)) in inner.fields.iter().zip(&of.fields) {
        match ty {
            Type::Struct(of) => flattened(of, plain, &mut found),
            ty if has_structs => {
                found.push((plain.to_string(), without_name(&field.annotations), ty.clone()));
            }
            ty => {
                let name = control_name(&field.annotations, plain);
                found.push((name, field.annotations.clone(), ty.clone()));
            }
        }
    }
    found
}

fn flattened(of: &StructType, path: &str, into: &mut Vec<(String, Vec<Annotation>, Type)>) {
    let DeclKind::Struct(inner) = &of.decl.kind else { return };
    for (field, (plain, ty)) in inner.fields.iter().zip(&of.fields) {
        let path = format!("{path}.{plain}");
        match ty {
            Type::Struct(of) => flattened(of, &path, into),
            ty => into.push((path, without_name(&field.annotations), ty.clone())),
        }
    }
}

fn without_name(annotations: &[Annotation]) -> Vec<Annotation> {
    annotations.iter().filter(|one| &*one.name.value != "name").cloned().collect()
}

impl Walk<'_> {
    /// A type, its names noted.
    pub(super) fn type_ref(&mut self, ty: &Type) -> TypeRef {
        match ty {
            Type::Bit(bits) => TypeRef::Bits(*bits),
            Type::Int(bits) => TypeRef::Signed(*bits),
            Type::Varbit(bits) => TypeRef::Variable(*bits),
            Type::Error => {
                self.note_errors();
                TypeRef::Error
            }
            Type::Tuple(parts) | Type::Listed(parts, _) => {
                TypeRef::Tuple(parts.iter().map(|part| self.type_ref(part)).collect())
            }
            Type::New(decl, base) => {
                let name = type_name(decl);
                if !self.info.types.contains_key(&name) {
                    let known = match translation(decl) {
                        Some((uri, bits)) => NamedType::Translated(uri, bits),
                        // What it is in the end: types in between are not listed.
                        None => NamedType::New(self.type_ref(base.unwrapped())),
                    };
                    self.info.types.insert(name.clone(), known);
                }
                TypeRef::New(name)
            }
            Type::Enum(decl, base) => {
                let name = type_name(decl);
                let DeclKind::Enum(_, members) = &decl.kind else { return TypeRef::Enum(name) };
                let Some(bits) = base.as_ref().and_then(|base| base.bits()) else {
                    let members = members.iter().map(|(name, _)| name.value.to_string()).collect();
                    self.info.types.insert(name.clone(), NamedType::Enum(members));
                    return TypeRef::Enum(name);
                };
                let value =
                    |value: &Option<Expr>| match self.checked.consts.get(&value.as_ref()?.id) {
                        Some(Const::Int(value)) => Some(bytes(value, bits)),
                        _ => None,
                    };
                let member = |(name, given): &(Ident, Option<Expr>)| {
                    Some((name.value.to_string(), value(given)?))
                };
                let members = members.iter().filter_map(member).collect();
                self.info.types.insert(name.clone(), NamedType::Numbers(bits, members));
                TypeRef::Numbers(name)
            }
            Type::Struct(of) => {
                let mut name = type_name(&of.decl);
                if text_of(&of.decl.annotations, "name").is_none() {
                    of.args.iter().for_each(|arg| name += &suffix(arg));
                }
                let is_header = of.kind == StructKind::Header;
                if !self.info.types.contains_key(&name) {
                    let known = self.members(of);
                    self.info.types.insert(name.clone(), known);
                }
                if is_header { TypeRef::Header(name) } else { TypeRef::Struct(name) }
            }
            _ => TypeRef::Bool,
        }
    }

    fn members(&mut self, of: &StructType) -> NamedType {
        if of.kind == StructKind::Header {
            let field = |(name, _, ty): (String, _, Type)| {
                let ty = match ty.base() {
                    Type::Varbit(bits) => TypeRef::Variable(*bits),
                    Type::Int(bits) => TypeRef::Signed(*bits),
                    ty => ty.bits().map_or(TypeRef::Bool, TypeRef::Bits),
                };
                (name, ty)
            };
            return NamedType::Header(flat_fields(of).into_iter().map(field).collect());
        }
        let DeclKind::Struct(inner) = &of.decl.kind else { return NamedType::Struct(Vec::new()) };
        let mut fields = Vec::new();
        for (field, (name, ty)) in inner.fields.iter().zip(&of.fields) {
            fields.push((control_name(&field.annotations, name), self.type_ref(ty)));
        }
        NamedType::Struct(fields)
    }

    /// Lists the members of `error`.
    fn note_errors(&mut self) {
        if !self.info.errors.is_empty() {
            return;
        }
        for decl in &self.checked.decls {
            if let DeclKind::Errors(names) = &decl.kind {
                self.info.errors.extend(names.iter().map(|name| name.value.to_string()));
            }
        }
    }

    /// Bits of a value for a controller, and the name of its type.
    pub(super) fn width(&mut self, ty: &Type) -> (u32, Option<String>) {
        match ty {
            Type::New(decl, _) => {
                let TypeRef::New(name) = self.type_ref(ty) else { return (0, None) };
                let bits = match translation(decl) {
                    Some((_, bits)) => bits.unwrap_or(0),
                    None => ty.bits().unwrap_or(0),
                };
                (bits, Some(name))
            }
            Type::Enum(_, None) => {
                let TypeRef::Enum(name) = self.type_ref(ty) else { return (0, None) };
                (0, Some(name))
            }
            Type::Enum(_, Some(base)) => {
                self.type_ref(ty);
                (base.bits().unwrap_or(0), None)
            }
            Type::Error => {
                self.note_errors();
                (0, None)
            }
            other => (other.bits().unwrap_or(0), None),
        }
    }

    /// A parameter of an action, a field of a header.
    pub(super) fn param(
        &mut self,
        id: u32,
        name: String,
        annotations: &[Annotation],
        known: &[&str],
        ty: &Type,
    ) -> Param {
        let (bits, type_name) = self.width(ty);
        let (doc, annotations) = (documentation(annotations), others(annotations, known));
        Param { id, name, bits, type_name, doc, annotations }
    }
}

/// The content of `@p4runtime_translation`: the URI, and the bits for the controller (`None`: a text).
fn translation(decl: &Decl) -> Option<(String, Option<u32>)> {
    let all = annotation(&decl.annotations, "p4runtime_translation")?;
    let words: Vec<&str> = all.text.split(',').map(str::trim).collect();
    let uri = words.first()?.trim_matches('"').to_owned();
    let bits =
        words.get(1).map(|bits| bits.trim_start_matches("bit<").trim_end_matches('>').trim());
    Some((uri, bits.and_then(|bits| bits.parse().ok())))
}

fn suffix(ty: &Type) -> String {
    match ty {
        Type::Bit(bits) => format!("_bit{bits}"),
        Type::Int(bits) => format!("_int{bits}"),
        Type::Bool => "_bool".into(),
        Type::Struct(of) => format!("_{}", of.decl.name.value),
        Type::New(decl, _) | Type::Enum(decl, _) => format!("_{}", decl.name.value),
        _ => String::new(),
    }
}
