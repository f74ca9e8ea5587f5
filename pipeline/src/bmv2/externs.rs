//! Primitives of `simple_switch` that reach beyond the packet: counters, meters, registers, hashes, digests, clones.

use std::collections::HashMap;

use super::Import;
use super::action::store;
use super::expr::{Expr, Translator};
use super::json::Json;
use super::model::unknown;
use super::names::quoted;
use crate::ir::SourceSpan;

/// Hash algorithms that both have.
const ALGORITHMS: [&str; 8] =
    ["crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16"];

/// Objects with state, by the names of the JSON.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) counters: HashMap<String, String>,
    pub(super) meters: HashMap<String, String>,
    /// With the bits of a cell.
    pub(super) registers: HashMap<String, (String, u32)>,
    /// Counters of entries, by the table.
    pub(super) direct_counters: HashMap<String, String>,
    /// Meters of entries, by their own name.
    pub(super) direct_meters: HashMap<String, DirectMeter>,
}

/// A meter of entries.
#[derive(Clone)]
pub(super) struct DirectMeter {
    pub(super) ident: String,
    /// The target of the colour, as P4 text.
    pub(super) target: Option<String>,
}

impl<'j> Import<'j, '_> {
    /// Declares counters, meters and registers.
    pub(super) fn objects(&mut self) {
        for one in self.reader.list(self.json, "counter_arrays") {
            let Some(name) = self.reader.text_at(one, "name") else { continue };
            let (ident, span) = (self.model.names.fresh(name), one.place("name"));
            if one.is("is_direct") {
                let Some(table) = self.reader.text_at(one, "binding") else { continue };
                self.direct_counter(name, &ident, span);
                self.objects.direct_counters.insert(table.to_owned(), ident);
                continue;
            }
            let Some(size) = self.reader.count_at(one, "size") else { continue };
            let text = format!("counter({size}, CounterType.packets_and_bytes) {ident};");
            self.top.put(&format!("@name({}) {text}", quoted(name)), span);
            self.objects.counters.insert(name.to_owned(), ident);
        }
        for one in self.reader.list(self.json, "meter_arrays") {
            self.meter(one);
        }
        for one in self.reader.list(self.json, "register_arrays") {
            let Some(name) = self.reader.text_at(one, "name") else { continue };
            let (Some(size), Some(bits)) =
                (self.reader.count_at(one, "size"), self.reader.count_at(one, "bitwidth"))
            else {
                continue;
            };
            if bits == 0 || bits > super::PARAM_BITS_MAX {
                self.reader.error(one.place("bitwidth"), format!("a register of {bits} bits"));
                continue;
            }
            let (ident, span) = (self.model.names.fresh(name), one.place("name"));
            let text = format!("@name({}) register<bit<{bits}>>({size}) {ident};", quoted(name));
            self.top.put(&text, span);
            self.objects.registers.insert(name.to_owned(), (ident, bits));
        }
        for one in self.reader.list(self.json, "extern_instances") {
            let kind = one.text_of("type").unwrap_or("unknown");
            let text = format!(
                "the extern `{}` is not supported: only what v1model has",
                crate::syntax::shown(kind)
            );
            self.reader.unsupported::<()>(one.place("type"), text);
        }
    }

    pub(super) fn direct_counter(&mut self, name: &str, ident: &str, span: SourceSpan) {
        let text = format!("direct_counter(CounterType.packets_and_bytes) {ident};");
        self.top.put(&format!("@name({}) {text}", quoted(name)), span);
    }

    fn meter(&mut self, one: &'j Json) {
        let Some(name) = self.reader.text_at(one, "name") else { return };
        let Some(kind) = self.reader.text_at(one, "type") else { return };
        if !matches!(kind, "bytes" | "packets") {
            self.reader.error(one.place("type"), "a meter counts `bytes` or `packets`");
            return;
        }
        let (ident, span) = (self.model.names.fresh(name), one.place("name"));
        if !one.is("is_direct") {
            let Some(size) = self.reader.count_at(one, "size") else { return };
            let text = format!("@name({}) meter({size}, MeterType.{kind}) {ident};", quoted(name));
            self.top.put(&text, span);
            self.objects.meters.insert(name.to_owned(), ident);
            return;
        }
        let target =
            one.get("result_target").and_then(|target| self.model.field(target, &mut self.reader));
        let (target, bits) = match target {
            Some(super::model::Place::Data { text, bits, .. }) => (Some(text), bits),
            _ => (None, 2),
        };
        let text =
            format!("@name({}) direct_meter<bit<{bits}>>(MeterType.{kind}) {ident};", quoted(name));
        self.top.put(&text, span);
        self.objects.direct_meters.insert(name.to_owned(), DirectMeter { ident, target });
    }

    /// The P4 name of an object that a parameter names.
    fn object<T: Clone>(
        &mut self,
        arg: &Json,
        what: &str,
        all: impl Fn(&Objects) -> &HashMap<String, T>,
    ) -> Option<T> {
        let name = self.reader.text_at(arg, "value")?;
        all(&self.objects).get(name).cloned().or_else(|| {
            let known = all(&self.objects).keys().map(String::as_str);
            unknown(&mut self.reader, arg.place("value"), what, name, known)
        })
    }

    /// P4 text of a number in `bits` bits; in its own width, where none is given.
    fn number(&mut self, arg: &'j Json, bits: Option<u32>) -> Option<String> {
        let mut translator = self.translator();
        let value = translator.read(arg)?;
        let value = translator.as_number(value, arg.span)?;
        match bits {
            Some(bits) => translator.modular(&value, bits, arg.span),
            None => translator.exact(&value, arg.span).map(|(text, _)| text),
        }
    }

    /// P4 text of the index of a counter, meter or register.
    fn index(&mut self, arg: &'j Json) -> Option<String> {
        let mut translator = self.translator();
        let value = translator.read(arg)?;
        let value = translator.as_number(value, arg.span)?;
        translator.index(&value, arg.span)
    }

    /// A place for a number, and its bits.
    fn target(&mut self, arg: &'j Json) -> Option<(String, u32)> {
        match self.translator().read(arg)? {
            Expr::Data { text, bits, .. } => Some((text, bits)),
            _ => self.reader.refuse(arg.span, "a field must stand here"),
        }
    }

    pub(super) fn extern_call(
        &mut self,
        op: &str,
        args: &'j [Json],
        span: SourceSpan,
    ) -> Option<String> {
        match op {
            "count" => {
                let name = self.object(&args[0], "counter array", |all| &all.counters)?;
                let index = self.index(&args[1])?;
                Some(format!("{name}.count({index});"))
            }
            "execute_meter" => {
                let name = self.object(&args[0], "meter array", |all| &all.meters)?;
                let index = self.index(&args[1])?;
                let (to, _) = self.target(&args[2])?;
                Some(format!("{name}.execute_meter({index}, {to});"))
            }
            "register_read" => self.register_read(args, span),
            "register_write" => {
                let (name, bits) = self.object(&args[0], "register array", |all| &all.registers)?;
                let index = self.index(&args[1])?;
                let value = self.number(&args[2], Some(bits))?;
                Some(format!("{name}.write({index}, {value});"))
            }
            "modify_field_rng_uniform" => {
                let (to, bits) = self.target(&args[0])?;
                let (low, high) =
                    (self.number(&args[1], Some(bits))?, self.number(&args[2], Some(bits))?);
                Some(format!("random({to}, {low}, {high});"))
            }
            "modify_field_with_hash_based_offset" => {
                let (to, _) = self.target(&args[0])?;
                let base = self.number(&args[1], None)?;
                let (algorithm, inputs, _) = self.calculation(&args[2])?;
                let most = self.number(&args[3], None)?;
                Some(format!("hash({to}, HashAlgorithm.{algorithm}, {base}, {inputs}, {most});"))
            }
            "generate_digest" => self.digest(args),
            "clone_ingress_pkt_to_egress" => self.clone(args, "I2E"),
            "clone_egress_pkt_to_egress" => self.clone(args, "E2E"),
            "truncate" => Some(format!("truncate({});", self.number(&args[0], Some(32))?)),
            "resubmit" | "recirculate" => {
                let list = match args.first() {
                    Some(list) => self.field_list(list)?.0,
                    None => 0,
                };
                Some(format!("{op}_preserving_field_list(8w{list});"))
            }
            _ => None,
        }
    }

    fn register_read(&mut self, args: &'j [Json], span: SourceSpan) -> Option<String> {
        let to = self.translator().read(&args[0])?;
        let (name, bits) = self.object(&args[1], "register array", |all| &all.registers)?;
        let index = self.index(&args[2])?;
        if let Expr::Data { text, bits: wide, .. } = &to
            && *wide == bits
        {
            return Some(format!("{name}.read({text}, {index});"));
        }
        self.locals += 1;
        let local = format!("cell_{}", self.locals);
        let value = Expr::Data { text: local.clone(), bits, signed: false };
        let set = store(&mut self.translator(), &to, &value, span)?;
        Some(format!("{{ bit<{bits}> {local}; {name}.read({local}, {index}); {set} }}"))
    }

    /// A calculation that a parameter or a checksum names: its algorithm, its inputs as a list, whether the payload is
    /// among them.
    pub(super) fn calculation(&mut self, arg: &Json) -> Option<(&'static str, String, bool)> {
        let named = if arg.as_text().is_some() { arg } else { self.reader.need(arg, "value")? };
        let name = self.reader.text(named)?;
        let all = self.reader.list(self.json, "calculations");
        let Some(found) = all.iter().find(|one| one.text_of("name") == Some(name)) else {
            let known = all.iter().filter_map(|one| one.text_of("name"));
            return unknown(&mut self.reader, named.span, "calculation", name, known);
        };
        let algorithm = self.reader.text_at(found, "algo")?;
        let Some(algorithm) = ALGORITHMS.into_iter().find(|known| *known == algorithm) else {
            let text = format!(
                "the hash algorithm `{}` is not supported",
                crate::syntax::shown(algorithm)
            );
            return self.reader.unsupported(found.place("algo"), text);
        };
        let (mut inputs, mut payload) = (Vec::new(), false);
        for input in self.reader.list(found, "input") {
            if input.text_of("type") == Some("payload") {
                payload = true;
                continue;
            }
            // A calculation is of no action, so it has no parameters; nor has a list to learn.
            let mut translator = Translator { params: &[], ..self.translator() };
            let value = translator.read(input)?;
            inputs.push(match value {
                Expr::Header(path, _) | Expr::Variable(path) => path,
                Expr::Loose(..) => {
                    let text = "a header that is neither extracted nor sent, in a hash";
                    return self.reader.unsupported(input.span, text);
                }
                Expr::Number(number) => {
                    let bits = translator.reader.count_at(input, "bitwidth")?;
                    if bits == 0 {
                        continue;
                    }
                    translator.modular(&Expr::Number(number), bits, input.span)?
                }
                value => {
                    let value = translator.as_number(value, input.span)?;
                    translator.exact(&value, input.span)?.0
                }
            });
        }
        Some((algorithm, format!("{{ {} }}", inputs.join(", ")), payload))
    }

    /// The fields of a digest, by the number of its list.
    fn digest(&mut self, args: &'j [Json]) -> Option<String> {
        let receiver = self.number(&args[0], Some(32))?;
        let (number, list) = self.numbered(&args[1], "learn_lists")?;
        let Some(list) = list else {
            return self.reader.refuse(args[1].span, format!("there is no list {number} to learn"));
        };
        let name = list.text_of("name").unwrap_or("digest");
        let (mut fields, mut values) = (String::new(), Vec::new());
        let mut names = super::names::Names::default();
        for element in self.reader.list(list, "elements") {
            let mut translator = Translator { params: &[], ..self.translator() };
            let value = translator.read(element)?;
            let value = translator.as_number(value, element.span)?;
            let (text, bits) = translator.exact(&value, element.span)?;
            let place = element.get("value").filter(|_| element.text_of("type") == Some("field"));
            let field =
                place.and_then(|place| self.reader.pair(place)).map_or("field", |(_, field)| field);
            fields.push_str(&format!("bit<{bits}> {}; ", names.field(field)));
            values.push(text);
        }
        let ident = match self.digests.get(&number) {
            Some(ident) => ident.clone(),
            None => {
                let ident = self.model.names.fresh(name);
                let text = format!("@name({}) struct {ident} {{ {fields}}}", quoted(name));
                self.types.put(&text, list.place("name"));
                self.digests.insert(number, ident.clone());
                ident
            }
        };
        Some(format!("digest<{ident}>({receiver}, {{ {} }});", values.join(", ")))
    }

    /// A list that a number names; `None` where there is none of this number.
    fn numbered(&mut self, arg: &'j Json, lists: &str) -> Option<(u32, Option<&'j Json>)> {
        let Expr::Number(number) = self.translator().read(arg)? else {
            return self.reader.unsupported(arg.span, "a computed list of fields is not supported");
        };
        let Ok(number) = u32::try_from(&number) else {
            return self.reader.refuse(arg.span, "not the number of a list");
        };
        let all = self.reader.list(self.json, lists);
        let found = all
            .iter()
            .find(|one| one.get("id").and_then(|id| self.reader.count(id)) == Some(number));
        Some((number, found))
    }

    /// A list of fields that a copy keeps: its number, and whether it has any.
    fn field_list(&mut self, arg: &'j Json) -> Option<(u32, bool)> {
        let (number, list) = self.numbered(arg, "field_lists")?;
        if number > 255 {
            return self.reader.unsupported(arg.span, "a list of fields above 255");
        }
        let Some(list) = list else { return Some((number, false)) };
        let mut keeps = false;
        for element in self.reader.list(list, "elements") {
            if element.text_of("type") != Some("field") {
                self.reader.unsupported::<()>(element.span, "only fields can be kept by a copy");
                continue;
            }
            if let Some(field) = self.reader.need(element, "value") {
                self.model.keep(field, number, &mut self.reader);
                keeps = true;
            }
        }
        Some((number, keeps))
    }

    fn clone(&mut self, args: &'j [Json], kind: &str) -> Option<String> {
        let session = self.number(&args[0], Some(32))?;
        let list = match args.get(1) {
            Some(list) => self.field_list(list)?,
            None => (0, false),
        };
        Some(match list {
            (number, true) => {
                format!("clone_preserving_field_list(CloneType.{kind}, {session}, 8w{number});")
            }
            (_, false) => format!("clone(CloneType.{kind}, {session});"),
        })
    }
}
