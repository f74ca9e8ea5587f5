//! Value sets of the parser: their width is in the JSON, their keys are in the states that select on them, and the
//! match kinds are in P4Info.

use super::Import;
use super::code::Code;
use super::json::Json;
use super::model::unknown;
use super::names::quoted;
use crate::p4info::{self, Info};
use num_bigint::BigInt;

/// Members of a value set without a P4Info that gives its size.
const VALUE_SET_SIZE: i32 = 1024;

/// A value set: its name in the P4 text, its width, and the widths of the keys that it is looked up with.
#[derive(Debug)]
pub(super) struct ValueSet {
    ident: String,
    bits: u32,
    keys: Vec<u32>,
}

impl<'j> Import<'j, '_> {
    /// Assigns their names, before the states.
    pub(super) fn name_value_sets(&mut self) {
        for one in self.reader.list(self.json, "parse_vsets") {
            let Some(name) = self.reader.text_at(one, "name") else { continue };
            let Some(bits) = self.reader.count_at(one, "compressed_bitwidth") else { continue };
            let set = ValueSet { ident: self.model.names.fresh(name), bits, keys: Vec::new() };
            self.value_sets.insert(name.to_owned(), set);
        }
    }

    /// Declares them, once their keys are known.
    pub(super) fn value_sets(&mut self, code: &mut Code) {
        for one in self.reader.list(self.json, "parse_vsets") {
            let Some(name) = one.text_of("name") else { continue };
            let Some(ValueSet { ident, bits, keys }) = self.value_sets.get(name) else { continue };
            let described = described(self.described, name);
            let size = described.map_or(VALUE_SET_SIZE, |one| one.size.max(1));
            let (name, span) = (quoted(&format!(".{name}")), one.place("name"));
            let fields = described.map_or(&[][..], |one| &one.fields);
            let mut ty = format!("bit<{bits}>");
            let mut kind = String::new();
            match (keys.as_slice(), fields) {
                ([] | [_], [only]) => kind = format!("@match({}) ", only.kind),
                ([] | [_], _) => {}
                (keys, fields) => {
                    let field = |(at, bits): (usize, &u32)| {
                        let given = fields.get(at).filter(|_| fields.len() == keys.len());
                        let says = given.map(|field| {
                            format!("@match({}) @name({}) ", field.kind, quoted(&field.field.name))
                        });
                        format!("{}bit<{bits}> f{at};", says.unwrap_or_default())
                    };
                    let fields: Vec<String> = keys.iter().enumerate().map(field).collect();
                    ty = self.model.names.fresh(&format!("{ident}_t"));
                    self.types.put(&format!("struct {ty} {{ {} }}", fields.join(" ")), span);
                }
            }
            code.put(&format!("{kind}@name({name}) value_set<{ty}>({size}) {ident};"), span);
        }
    }

    /// The value set of a transition whose state has keys of these widths.
    pub(super) fn value_set(&mut self, one: &Json, value: &Json, keys: &[u32]) -> Option<String> {
        let name = self.reader.text(value)?;
        if let Some(mask) = one.get("mask") {
            let mask = self.reader.hex(mask)?;
            // p4c writes zeros for no mask.
            if mask != BigInt::ZERO && mask != BigInt::from(-1) {
                let text = "a value set with a mask is not supported";
                return self.reader.unsupported(one.place("mask"), text);
            }
        }
        let Some(set) = self.value_sets.get_mut(name) else {
            let known = self.value_sets.keys().map(String::as_str);
            return unknown(&mut self.reader, value.span, "value set", name, known);
        };
        if keys.iter().sum::<u32>() != set.bits {
            let bits = set.bits;
            let text =
                format!("the value set has {bits} bits, and the keys of the state have others");
            return self.reader.refuse(value.span, text);
        }
        if set.keys.is_empty() {
            set.keys = keys.to_vec();
        }
        if set.keys != keys {
            let text = "a value set for keys of different widths is not supported";
            return self.reader.unsupported(value.span, text);
        }
        Some(set.ident.clone())
    }
}

fn described<'i>(info: Option<&'i Info>, name: &str) -> Option<&'i p4info::ValueSet> {
    info?.value_sets.iter().find(|one| one.preamble.name == name)
}
