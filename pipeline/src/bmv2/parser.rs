//! The parser: states, their extractions and transitions.

use std::collections::HashMap;

use num_bigint::BigInt;

use super::Import;
use super::code::Code;
use super::expr::Expr;
use super::json::Json;
use super::model::unknown;
use crate::ir::SourceSpan;

impl<'j> Import<'j, '_> {
    /// The parser of the program.
    pub(super) fn parser(&mut self, code: &mut Code) {
        let parsers = self.reader.list(self.json, "parsers");
        let Some(parser) = parsers.first() else {
            self.reader.error(self.json.span, "the program has no parser");
            return;
        };
        let span = parser.place("name");
        let states = self.reader.list(parser, "parse_states");
        let first = parser.text_of("init_state").unwrap_or("start");
        let mut idents: HashMap<&str, String> = HashMap::new();
        for state in states {
            let Some(name) = self.reader.text_at(state, "name") else { continue };
            let ident = match name == "start" && first == "start" {
                true => "start".to_owned(),
                false => self.model.names.fresh(name),
            };
            if idents.insert(name, ident).is_some() {
                let text = format!("the state `{}` is here twice", crate::syntax::shown(name));
                self.reader.report.error(crate::diag::codes::TWICE, state.place("name"), text);
            }
        }
        code.put(
            "parser ParserImpl(packet_in packet, out Headers hdr, inout Metadata meta, inout standard_metadata_t standard_metadata) {",
            span,
        );
        self.name_value_sets();
        let mut body = Code::default();
        match idents.get(first) {
            Some(ident) if ident == "start" => {}
            Some(ident) => {
                let place = parser.place("init_state");
                body.put(&format!("state start {{ transition {ident}; }}"), place);
            }
            None => {
                unknown::<()>(
                    &mut self.reader,
                    parser.place("init_state"),
                    "parser state",
                    first,
                    idents.keys().copied(),
                );
            }
        }
        for state in states {
            let Some(ident) = state.text_of("name").and_then(|name| idents.get(name)) else {
                continue;
            };
            body.put(&format!("state {ident} {{"), state.place("name"));
            for op in self.reader.list(state, "parser_ops") {
                self.parser_op(op, &mut body);
            }
            self.transitions(state, &idents, &mut body);
            body.put("}", state.place("name"));
        }
        // The states have the keys of the sets.
        self.value_sets(code);
        code.append(body);
        code.put("}", span);
    }

    fn parser_op(&mut self, json: &'j Json, code: &mut Code) {
        let Some(op) = self.reader.text_at(json, "op") else { return };
        let span = json.place("op");
        let args = self.reader.list(json, "parameters");
        let text = match (op, args) {
            ("extract", [header]) => self.extract(header, None),
            ("extract_VL", [header, length]) => self.extract(header, Some(length)),
            ("set", [_, _]) => return self.primitive(json, code),
            ("primitive", [inner]) => return self.primitive(inner, code),
            ("verify", [condition, error]) => self.verify(condition, error, span),
            ("advance", [bits]) => {
                let mut translator = self.translator();
                let value =
                    translator.read(bits).and_then(|value| translator.as_number(value, bits.span));
                value
                    .and_then(|value| translator.modular(&value, 32, bits.span))
                    .map(|bits| format!("packet.advance({bits});"))
            }
            ("shift", [bytes]) => {
                let bytes = self.reader.count(bytes);
                bytes.map(|bytes| {
                    format!("packet.advance(32w{});", (u64::from(bytes) * 8) & 0xffff_ffff)
                })
            }
            (
                "extract" | "extract_VL" | "set" | "primitive" | "verify" | "advance" | "shift",
                _,
            ) => {
                let text = format!("`{op}` has {} parameters here", args.len());
                self.reader.refuse(span, text)
            }
            (other, _) => {
                let shown = crate::syntax::shown(other);
                self.reader
                    .unsupported(span, format!("the parser operation `{shown}` is not supported"))
            }
        };
        if let Some(text) = text {
            code.put(&text, span);
        }
    }

    fn extract(&mut self, header: &'j Json, length: Option<&'j Json>) -> Option<String> {
        let kind = self.reader.text_at(header, "type")?;
        let value = self.reader.need(header, "value")?;
        let path = match kind {
            "regular" => {
                let name = self.reader.text(value)?;
                self.model.instance(name, value.span, &mut self.reader)?.path.clone()
            }
            "stack" => {
                let name = self.reader.text(value)?;
                match self.model.stacks.get(name) {
                    Some(stack) => format!("{}.next", stack.path),
                    None => {
                        let known = self.model.stacks.keys().map(String::as_str);
                        return unknown(&mut self.reader, value.span, "header stack", name, known);
                    }
                }
            }
            "union_stack" => {
                let (stack, member) = self.reader.pair(value)?;
                let (path, ident, _) = self.translator().union_member(stack, member, value.span)?;
                format!("{path}.next.{ident}")
            }
            other => {
                let shown = crate::syntax::shown(other);
                self.reader
                    .error(header.place("type"), format!("what is `{shown}`?"))
                    .help("`regular`, `stack` or `union_stack`");
                return None;
            }
        };
        if path.is_empty() {
            return self.reader.refuse(value.span, "metadata is not extracted");
        }
        let Some(length) = length else { return Some(format!("packet.extract({path});")) };
        let mut translator = self.translator();
        let value = translator.read(length)?;
        let value = translator.as_number(value, length.span)?;
        let bits = translator.modular(&value, 32, length.span)?;
        Some(format!("packet.extract({path}, {bits});"))
    }

    fn verify(&mut self, condition: &'j Json, error: &'j Json, span: SourceSpan) -> Option<String> {
        let mut translator = self.translator();
        let value = translator.read(condition)?;
        let condition = translator.truth(value, span)?;
        let Expr::Number(number) = translator.read(error)? else {
            return self.reader.unsupported(error.span, "a computed error is not supported");
        };
        let name = u32::try_from(&number).ok().and_then(|number| self.model.errors.get(&number));
        match name {
            Some(name) => Some(format!("verify({condition}, error.{name});")),
            None => self.reader.refuse(error.span, format!("`errors` has none of number {number}")),
        }
    }

    fn transitions(&mut self, state: &'j Json, idents: &HashMap<&str, String>, code: &mut Code) {
        let span = state.place("name");
        let mut keys: Vec<(String, u32)> = Vec::new();
        for key in self.reader.list(state, "transition_key") {
            let mut translator = self.translator();
            let read = translator.read(key).and_then(|value| translator.as_number(value, key.span));
            let Some(read) = read.and_then(|value| translator.exact(&value, key.span)) else {
                return;
            };
            keys.push(read);
        }
        let (mut cases, mut otherwise) = (Code::default(), None);
        for one in self.reader.list(state, "transitions") {
            let to = match one.get("next_state") {
                None => "accept".to_owned(),
                Some(next) => {
                    let Some(name) = self.reader.text(next) else { continue };
                    match idents.get(name) {
                        Some(ident) => ident.clone(),
                        None => {
                            unknown::<()>(
                                &mut self.reader,
                                next.span,
                                "parser state",
                                name,
                                idents.keys().copied(),
                            );
                            continue;
                        }
                    }
                }
            };
            let value = one.get("value");
            let is_default = one.text_of("type") == Some("default")
                || value.is_none_or(|value| value.as_text() == Some("default"));
            if is_default {
                otherwise.get_or_insert((to, one.place("next_state")));
                continue;
            }
            let Some(value) = value else { continue };
            let set = match one.text_of("type") {
                Some("parse_vset") => {
                    let widths: Vec<u32> = keys.iter().map(|(_, bits)| *bits).collect();
                    self.value_set(one, value, &widths)
                }
                _ => self.key_values(one, value, &keys),
            };
            if let Some(set) = set {
                cases.put(&format!("{set}: {to};"), value.span);
            }
        }
        // No case and no default: the packet is accepted, as in bmv2.
        let (to, place) = otherwise.unwrap_or(("accept".to_owned(), span));
        if cases.pieces.is_empty() || keys.is_empty() {
            code.put(&format!("transition {to};"), place);
            return;
        }
        let keys: Vec<String> = keys.into_iter().map(|(text, _)| text).collect();
        code.put(
            &format!("transition select({}) {{", keys.join(", ")),
            state.place("transition_key"),
        );
        code.append(cases);
        code.put(&format!("default: {to};"), place);
        code.put("}", span);
    }

    /// Values and masks, concatenated, each in whole bytes.
    fn key_values(&mut self, one: &Json, value: &Json, keys: &[(String, u32)]) -> Option<String> {
        let value = self.reader.hex(value)?;
        let mask = match one.get("mask") {
            Some(mask) => Some(self.reader.hex(mask)?),
            None => None,
        };
        let mask = mask.filter(|mask| *mask != BigInt::from(-1));
        let mut shift = 0_u32;
        let mut sets = Vec::new();
        for (_, bits) in keys.iter().rev() {
            let ones = (BigInt::from(1) << *bits) - 1;
            let part = |of: &BigInt| (of >> shift) & &ones;
            let mask = mask.as_ref().map_or(ones.clone(), part);
            let value = part(&value) & &mask;
            sets.push(if mask == BigInt::ZERO {
                "_".to_owned()
            } else if mask == ones {
                format!("{bits}w{value}")
            } else {
                format!("{bits}w{value} &&& {bits}w{mask}")
            });
            shift = shift.saturating_add(bits.next_multiple_of(8));
        }
        sets.reverse();
        match sets.len() {
            0 => None,
            1 => sets.pop(),
            _ => Some(format!("({})", sets.join(", "))),
        }
    }
}
