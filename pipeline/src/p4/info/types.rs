//! Types as P4Info has them.

use num_bigint::BigInt;

use super::super::tree::*;
use super::super::types::{Const, Type};
use super::ids::{others, text_of};
use super::walk::Walk;
use super::{NamedType, Param, TypeRef};

/// A number in so many bits, most significant byte first.
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
    let name = text_of(&decl.annotations, "name");
    name.unwrap_or_else(|| decl.name.value.to_string()).trim_start_matches('.').to_owned()
}

impl Walk<'_> {
    /// A type, its names noted.
    pub(super) fn type_ref(&mut self, ty: &Type) -> TypeRef {
        match ty {
            Type::Bit(bits) => TypeRef::Bits(*bits),
            Type::Int(bits) => TypeRef::Signed(*bits),
            Type::Varbit(bits) => TypeRef::Variable(*bits),
            Type::Error => TypeRef::Error,
            Type::Tuple(parts) | Type::Listed(parts, _) => {
                TypeRef::Tuple(parts.iter().map(|part| self.type_ref(part)).collect())
            }
            Type::New(decl, base) => {
                let name = type_name(decl);
                if !self.info.types.contains_key(&name) {
                    let known = self.new_type(decl, base);
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
                    let mut fields = Vec::new();
                    for (name, ty) in &of.fields {
                        self.member(name, ty, is_header, &mut fields);
                    }
                    let known = if is_header {
                        NamedType::Header(fields)
                    } else {
                        NamedType::Struct(fields)
                    };
                    self.info.types.insert(name.clone(), known);
                }
                if is_header { TypeRef::Header(name) } else { TypeRef::Struct(name) }
            }
            _ => TypeRef::Bool,
        }
    }

    /// A field; a struct in a header is its fields.
    fn member(&mut self, name: &str, ty: &Type, flat: bool, into: &mut Vec<(String, TypeRef)>) {
        match ty {
            Type::Struct(of) if flat => {
                for (inner, ty) in &of.fields {
                    self.member(&format!("{name}.{inner}"), ty, flat, into);
                }
            }
            ty => {
                let ty = if flat && !matches!(ty, Type::Varbit(_)) {
                    ty.bits().map_or(TypeRef::Bool, TypeRef::Bits)
                } else {
                    self.type_ref(ty)
                };
                into.push((name.to_owned(), ty));
            }
        }
    }

    fn new_type(&mut self, decl: &Decl, base: &Type) -> NamedType {
        match translation(decl) {
            Some((uri, bits)) => NamedType::Translated(uri, bits),
            None => NamedType::New(self.type_ref(base)),
        }
    }

    /// Bits that a controller gives for a value, and the name of its type.
    pub(super) fn width(&mut self, ty: &Type) -> (u32, Option<String>) {
        match ty {
            Type::New(decl, _) => {
                let TypeRef::New(name) = self.type_ref(ty) else { return (0, None) };
                let bits = match translation(decl) {
                    Some((_, bits)) => bits.unwrap_or(0),
                    None => self.plain_bits(ty),
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
            other => (other.bits().unwrap_or(0), None),
        }
    }

    fn plain_bits(&self, ty: &Type) -> u32 {
        match ty {
            Type::New(decl, base) => match translation(decl) {
                Some((_, bits)) => bits.unwrap_or(0),
                None => self.plain_bits(base),
            },
            other => other.bits().unwrap_or(0),
        }
    }

    /// A parameter of an action, a field of a header.
    pub(super) fn param(
        &mut self,
        id: u32,
        name: &str,
        annotations: &[Annotation],
        ty: &Type,
    ) -> Param {
        let (bits, type_name) = self.width(ty);
        let id = super::ids::number_of(annotations, "id").unwrap_or(id);
        let name = text_of(annotations, "name").unwrap_or_else(|| name.to_owned());
        Param { id, name, bits, type_name, annotations: others(annotations, &[]) }
    }
}

/// What `@p4runtime_translation` says: the URI, and the bits for the controller (`None`: a text).
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
