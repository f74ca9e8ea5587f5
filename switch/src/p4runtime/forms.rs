//! The form of fields and data in messages: the numbers of match fields, parameters and metadata, and the types of
//! digests and registers.
//!
//! A program in YAML has its fields in order, as numbers. One in P4 may give fields their own numbers (`@id`), a text
//! instead of a number (`@p4runtime_translation` with `string`), and data the structure of its types. Such a text is
//! the decimal form of the number: there is no dictionary, so that a text has the same meaning in every switch and
//! after every start.

use std::collections::BTreeMap;

use wireyard_pipeline::ids::{HeaderId, Id};
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::p4info::{Info, NamedType, Object, ObjectKind, Origin, Param, TypeRef};

use super::proto::p4::v1 as p4;
use super::translate::{Result, bits};
use super::value::shortest;
use crate::control::invalid;
use p4::p4_data::Data;

/// A match field, a parameter of an action, or a field of a controller header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its number.
    pub id: u32,
    /// Controllers write it as a text.
    pub is_text: bool,
}

impl Field {
    /// Parses the value of a bytestring.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::control::ControlError::OutOfRange); [`InvalidArgument`] for a text that is not a decimal
    /// number.
    ///
    /// [`InvalidArgument`]: crate::control::ControlError::InvalidArgument
    pub fn read(self, bytes: &[u8], width: u32, what: impl Fn() -> String) -> Result<u128> {
        if !self.is_text {
            return bits(bytes, width, what);
        }
        let text = std::str::from_utf8(bytes).ok();
        let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(value) = digits.and_then(|digits| digits.parse::<u128>().ok()) else {
            let text = String::from_utf8_lossy(bytes);
            return invalid(format!(
                "{}: the text {text:?} is no decimal number, which is how this switch translates texts",
                what()
            ));
        };
        bits(&value.to_be_bytes(), width, what)
    }

    /// The bytestring of a value.
    pub fn write(self, value: u128) -> Vec<u8> {
        if self.is_text { value.to_string().into_bytes() } else { shortest(value) }
    }
}

/// The index in the declarations of the field with this number.
pub fn find(fields: &[Field], id: u32) -> Option<usize> {
    fields.iter().position(|field| field.id == id)
}

/// The forms of a program's objects, in the order of its declarations.
#[derive(Clone, Debug, Default)]
pub struct Forms {
    /// Keys by table.
    pub keys: Vec<Vec<Field>>,
    /// Parameters by action.
    pub params: Vec<Vec<Field>>,
    /// Fields by header type.
    pub metadata: Vec<Vec<Field>>,
    /// Keys by value set.
    pub members: Vec<Vec<Field>>,
    digests: Vec<Option<TypeRef>>,
    registers: Vec<Option<TypeRef>>,
    types: BTreeMap<String, NamedType>,
}

fn plain(count: usize) -> Vec<Field> {
    (1..).take(count).map(|id| Field { id, is_text: false }).collect()
}

/// Fields as in P4Info; plain ones if the program has a different number.
fn fields<'a>(info: &Info, params: impl Iterator<Item = &'a Param>, count: usize) -> Vec<Field> {
    let is_text = |param: &Param| {
        let named = param.type_name.as_ref().and_then(|name| info.types.get(name));
        matches!(named, Some(NamedType::Translated(_, None)))
    };
    let found = params.map(|param| Field { id: param.id, is_text: is_text(param) });
    let found: Vec<Field> = found.collect();
    if found.len() == count { found } else { plain(count) }
}

/// Objects of this name: those of different kinds may have the same name.
fn objects<'a>(info: &'a Info, full: Option<&'a String>) -> impl Iterator<Item = &'a Object> {
    info.objects.iter().filter(move |one| Some(&one.preamble.name) == full)
}

impl Forms {
    /// The forms of a program.
    pub fn of(program: &Program) -> Forms {
        let mut forms = Forms {
            keys: program.tables.iter().map(|table| plain(table.keys.len())).collect(),
            params: program.actions.iter().map(|action| plain(action.params.len())).collect(),
            metadata: program
                .headers
                .iter()
                .map(|header| plain(header.declared().count()))
                .collect(),
            members: program.value_sets.iter().map(|set| plain(set.keys.len())).collect(),
            digests: vec![None; program.digests.len()],
            registers: vec![None; program.registers.len()],
            types: BTreeMap::new(),
        };
        if let Some(origin) = &program.origin {
            forms.of_source(program, origin);
        }
        forms
    }

    fn of_source(&mut self, program: &Program, origin: &Origin) {
        let info = &origin.info;
        self.types.clone_from(&info.types);
        for (table, keys) in program.tables.iter().zip(&mut self.keys) {
            let full = origin.tables.get(&table.name);
            if let Some(known) = info.tables.iter().find(|one| Some(&one.preamble.name) == full) {
                *keys = fields(info, known.keys.iter().map(|key| &key.field), keys.len());
            }
        }
        for (set, members) in program.value_sets.iter().zip(&mut self.members) {
            let full = origin.value_sets.get(&set.name);
            let known = info.value_sets.iter().find(|one| Some(&one.preamble.name) == full);
            if let Some(known) = known {
                *members = fields(info, known.fields.iter().map(|key| &key.field), members.len());
            }
        }
        for (action, params) in program.actions.iter().zip(&mut self.params) {
            let full = origin.actions.get(&action.name);
            if let Some(known) = info.actions.iter().find(|one| Some(&one.preamble.name) == full) {
                *params = fields(info, known.params.iter(), params.len());
            }
        }
        for (header, metadata) in program.headers.iter().zip(&mut self.metadata) {
            let Some(controller) = header.controller else { continue };
            let mut all = info.controller_headers.iter();
            if let Some((_, known)) = all.find(|(one, _)| one.name == controller.name()) {
                *metadata = fields(info, known.iter(), metadata.len());
            }
        }
        for (digest, ty) in program.digests.iter().zip(&mut self.digests) {
            *ty = objects(info, origin.digests.get(&digest.name)).find_map(|one| match &one.kind {
                ObjectKind::Digest(ty) => Some(ty.clone()),
                _ => None,
            });
        }
        for (register, ty) in program.registers.iter().zip(&mut self.registers) {
            *ty =
                objects(info, origin.objects.get(&register.name)).find_map(|one| match &one.kind {
                    ObjectKind::Register(ty, ..) => Some(ty.clone()),
                    _ => None,
                });
        }
    }

    /// Fields of a header.
    pub fn of_header(&self, header: HeaderId) -> &[Field] {
        &self.metadata[header.index()]
    }

    /// The values of a digest as a message.
    pub fn digest(&self, digest: usize, values: &[u128]) -> p4::P4Data {
        let typed = self.digests.get(digest).and_then(Option::as_ref);
        typed.and_then(|ty| self.data(ty, values)).unwrap_or_else(|| structure(values))
    }

    /// The cells of a register as a message.
    pub fn register(&self, register: usize, values: &[u128]) -> p4::P4Data {
        let typed = self.registers.get(register).and_then(Option::as_ref);
        if let (Some(ty), [high, low]) = (typed, values)
            && wide(ty).is_some()
        {
            return bitstring(high << CELL_BITS | low);
        }
        typed.and_then(|ty| self.data(ty, values)).unwrap_or_else(|| match values {
            [value] => bitstring(*value),
            values => structure(values),
        })
    }

    /// The values of a register's cells in a message, as bytestrings; `None` if the message has a different structure.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::control::ControlError::OutOfRange): the value of a register of more than one cell is empty
    /// or too wide. `what` names the register.
    pub fn cells(
        &self,
        register: usize,
        data: &p4::P4Data,
        count: usize,
        what: impl Fn() -> String,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let typed = self.registers.get(register).and_then(Option::as_ref);
        let Some(ty) = typed else { return Ok(untyped(data, count)) };
        let mut found = Vec::new();
        if self.flat(ty, data, &mut found).is_none() {
            return Ok(None);
        }
        if let (Some(width), [bytes], 2) = (wide(ty), found.as_slice(), count) {
            let value = bits(bytes, width, what)?;
            let halves = [value >> CELL_BITS, value & u128::from(u64::MAX)];
            return Ok(Some(halves.map(shortest).into()));
        }
        Ok((found.len() == count).then_some(found))
    }

    /// Values in the structure of a type; `None` if the type has a different number of them.
    fn data(&self, ty: &TypeRef, values: &[u128]) -> Option<p4::P4Data> {
        let mut values = values.iter().copied();
        let data = self.shaped(ty, &mut values)?;
        values.next().is_none().then_some(data)
    }

    fn shaped(&self, ty: &TypeRef, values: &mut impl Iterator<Item = u128>) -> Option<p4::P4Data> {
        let data = match ty {
            TypeRef::Bits(_) | TypeRef::Signed(_) => Data::Bitstring(shortest(values.next()?)),
            TypeRef::Bool => Data::Bool(values.next()? != 0),
            TypeRef::Numbers(_) => Data::EnumValue(shortest(values.next()?)),
            TypeRef::New(name) => match self.types.get(name)? {
                NamedType::New(base) => return self.shaped(base, values),
                NamedType::Translated(_, bits) => {
                    let field = Field { id: 0, is_text: bits.is_none() };
                    Data::Bitstring(field.write(values.next()?))
                }
                _ => return None,
            },
            TypeRef::Struct(name) => {
                let NamedType::Struct(fields) = self.types.get(name)? else { return None };
                Data::Struct(self.list(fields.iter().map(|(_, ty)| ty), values)?)
            }
            TypeRef::Tuple(parts) => Data::Tuple(self.list(parts.iter(), values)?),
            TypeRef::Header(_) | TypeRef::Variable(_) | TypeRef::Error | TypeRef::Enum(_) => {
                return None;
            }
        };
        Some(p4::P4Data { data: Some(data) })
    }

    fn list<'t>(
        &self,
        types: impl Iterator<Item = &'t TypeRef>,
        values: &mut impl Iterator<Item = u128>,
    ) -> Option<p4::P4StructLike> {
        let mut members = Vec::new();
        for ty in types {
            members.push(self.shaped(ty, &mut *values)?);
        }
        Some(p4::P4StructLike { members })
    }

    /// The inverse of [`Forms::data`], as bytestrings.
    fn flat(&self, ty: &TypeRef, data: &p4::P4Data, into: &mut Vec<Vec<u8>>) -> Option<()> {
        match (ty, data.data.as_ref()?) {
            (TypeRef::Bits(_) | TypeRef::Signed(_), Data::Bitstring(bytes))
            | (TypeRef::Numbers(_), Data::EnumValue(bytes)) => into.push(bytes.clone()),
            (TypeRef::Bool, Data::Bool(value)) => into.push(vec![u8::from(*value)]),
            (TypeRef::New(name), found) => match (self.types.get(name)?, found) {
                (NamedType::New(base), _) => self.flat(base, data, into)?,
                (NamedType::Translated(_, Some(_)), Data::Bitstring(bytes)) => {
                    into.push(bytes.clone());
                }
                _ => return None,
            },
            (TypeRef::Struct(name), Data::Struct(list)) => {
                let NamedType::Struct(fields) = self.types.get(name)? else { return None };
                if fields.len() != list.members.len() {
                    return None;
                }
                for ((_, ty), data) in fields.iter().zip(&list.members) {
                    self.flat(ty, data, into)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// Bits of a cell: a longer number is in two cells, the high one first.
const CELL_BITS: u32 = 64;

/// The bits of a number that is longer than a cell.
fn wide(ty: &TypeRef) -> Option<u32> {
    match ty {
        TypeRef::Bits(bits) | TypeRef::Signed(bits) if *bits > CELL_BITS => Some(*bits),
        _ => None,
    }
}

/// The values of cells of a program in YAML.
fn untyped(data: &p4::P4Data, count: usize) -> Option<Vec<Vec<u8>>> {
    let members = match &data.data {
        Some(Data::Bitstring(_)) if count == 1 => std::slice::from_ref(data),
        Some(Data::Struct(all)) if count > 1 => all.members.as_slice(),
        _ => &[],
    };
    let bytes = |one: &p4::P4Data| match &one.data {
        Some(Data::Bitstring(bytes)) => Some(bytes.clone()),
        _ => None,
    };
    (members.len() == count).then(|| members.iter().map(bytes).collect())?
}

fn bitstring(value: u128) -> p4::P4Data {
    p4::P4Data { data: Some(Data::Bitstring(shortest(value))) }
}

/// Numbers as a structure.
fn structure(values: &[u128]) -> p4::P4Data {
    let members = values.iter().map(|value| bitstring(*value)).collect();
    p4::P4Data { data: Some(Data::Struct(p4::P4StructLike { members })) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ControlError;

    #[test]
    fn a_register_of_two_cells_is_one_number_with_a_width() {
        let registers = vec![Some(TypeRef::Bits(100))];
        let forms = Forms { registers, ..Forms::default() };
        let cells = |bytes: &[u8]| {
            let data = p4::P4Data { data: Some(Data::Bitstring(bytes.to_vec())) };
            forms.cells(0, &data, 2, || "register wide".into())
        };
        let value = [&[0x0f][..], &[0xff; 12]].concat();
        let halves = [vec![0x0f, 0xff, 0xff, 0xff, 0xff], vec![0xff; 8]];
        assert_eq!(cells(&value), Ok(Some(halves.to_vec())));
        let wide = [&[0x1f][..], &[0xff; 12]].concat();
        for wrong in [&wide[..], &[], &[1; 17]] {
            let found = cells(wrong).unwrap_err();
            assert!(matches!(found, ControlError::OutOfRange(_)), "{found}");
        }
        let text = cells(&wide).unwrap_err().to_string();
        assert_eq!(text, "register wide: the value has 101 bits, but only 100 fit");
    }
}
