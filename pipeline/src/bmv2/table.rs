//! Tables: keys, actions, entries, and their implementations.

use std::collections::HashMap;

use num_bigint::BigInt;

use wireyard_tables::MatchKind;

use super::Import;
use super::code::Code;
use super::json::{Json, Value};
use super::model::{Place, unknown};
use super::names::quoted;
use crate::ir::SourceSpan;

/// A key of a table.
struct Key {
    text: String,
    kind: String,
    /// The kind of its values.
    of: Of,
}

/// The kind of a key's values.
#[derive(Clone, Copy)]
enum Of {
    Bits(u32),
    Bool,
    Error,
}

/// An action profile.
pub(super) struct Profile {
    ident: String,
    /// Fields that select a member.
    selects: Vec<String>,
}

impl<'j> Import<'j, '_> {
    /// Declares the action profiles of a pipeline.
    pub(super) fn profiles(
        &mut self,
        pipeline: &'j Json,
        code: &mut Code,
    ) -> HashMap<String, Profile> {
        let mut found = HashMap::new();
        for one in self.reader.list(pipeline, "action_profiles") {
            let Some(name) = self.reader.text_at(one, "name") else { continue };
            let size = one.get("max_size").and_then(|size| self.reader.count(size)).unwrap_or(1024);
            let (ident, span) = (self.model.names.fresh(name), one.place("name"));
            let full = quoted(&format!(".{name}"));
            let mut selects = Vec::new();
            match one.get("selector") {
                None => code.put(&format!("@name({full}) action_profile({size}) {ident};"), span),
                Some(selector) => {
                    let Some(algorithm) = self.reader.text_at(selector, "algo") else { continue };
                    let algorithm = super::names::word(algorithm);
                    let text = format!(
                        "@name({full}) action_selector(HashAlgorithm.{algorithm}, {size}, 32w16) {ident};"
                    );
                    code.put(&text, selector.place("algo"));
                    for input in self.reader.list(selector, "input") {
                        let mut translator = self.translator();
                        let value = translator
                            .read(input)
                            .and_then(|value| translator.as_number(value, input.span));
                        if let Some((text, _)) =
                            value.and_then(|value| translator.exact(&value, input.span))
                        {
                            selects.push(text);
                        }
                    }
                }
            }
            found.insert(name.to_owned(), Profile { ident, selects });
        }
        found
    }

    /// Declares a table; its name in P4.
    pub(super) fn table(
        &mut self,
        json: &'j Json,
        own: &[usize],
        profiles: &HashMap<String, Profile>,
        code: &mut Code,
    ) -> Option<String> {
        let name = self.reader.text_at(json, "name")?;
        let (ident, span) = (self.model.names.fresh(name), json.place("name"));
        let hidden = if self.is_hidden(json) { "@hidden " } else { "" };
        let text = format!("{hidden}@name({}) table {ident} {{", quoted(&format!(".{name}")));
        code.put(&text, span);
        let profile = match json.text_of("action_profile") {
            Some(wanted) => {
                let found = profiles.get(wanted);
                if found.is_none() {
                    let known = profiles.keys().map(String::as_str);
                    unknown::<()>(
                        &mut self.reader,
                        json.place("action_profile"),
                        "action profile",
                        wanted,
                        known,
                    );
                }
                found
            }
            None => None,
        };
        let keys = self.keys(json, profile, code)?;
        code.put("actions = {", span);
        let mut written: Vec<usize> = Vec::new();
        for at in own {
            let action = &self.actions[*at];
            if !written.contains(&action.same) {
                written.push(action.same);
                code.put(&format!("{};", action.ident), json.place("actions"));
            }
        }
        code.put("}", span);
        self.default_entry(json, code);
        self.entries(json, &keys, code);
        if let Some(size) =
            json.get("max_size").and_then(|size| self.reader.count(size)).filter(|size| *size > 0)
        {
            code.put(&format!("size = {size};"), json.place("max_size"));
        }
        self.table_state(json, name, code);
        if let Some(profile) = profile {
            code.put(&format!("implementation = {};", profile.ident), json.place("action_profile"));
        }
        code.put("}", span);
        Some(ident)
    }

    /// Per-entry state of a table: age, counters, meters.
    fn table_state(&mut self, json: &Json, name: &str, code: &mut Code) {
        let span = json.place("name");
        if json.is("support_timeout") {
            code.put("support_timeout = true;", json.place("support_timeout"));
        }
        if json.is("with_counters") {
            let counter = match self.objects.direct_counters.get(name) {
                Some(counter) => counter.clone(),
                None => {
                    let own = format!("{name}.counter");
                    let counter = self.model.names.fresh(&own);
                    self.direct_counter(&own, &counter, span);
                    counter
                }
            };
            code.put(&format!("counters = {counter};"), json.place("with_counters"));
        }
        if let Some(meter) = json.text_of("direct_meters") {
            match self.objects.direct_meters.get(meter) {
                Some(meter) => {
                    code.put(&format!("meters = {};", meter.ident), json.place("direct_meters"))
                }
                None => {
                    let known = self.objects.direct_meters.keys().map(String::as_str);
                    unknown::<()>(
                        &mut self.reader,
                        json.place("direct_meters"),
                        "direct meter",
                        meter,
                        known,
                    );
                }
            }
        }
    }

    fn keys(
        &mut self,
        json: &'j Json,
        profile: Option<&Profile>,
        code: &mut Code,
    ) -> Option<Vec<Key>> {
        let mut keys = Vec::new();
        let list = self.reader.list(json, "key");
        for one in list {
            let mut key = self.key(one)?;
            let name = match one.text_of("name") {
                Some(name) => name.to_owned(),
                None => match one.get("target").map(|target| &target.value) {
                    Some(Value::Text(name)) => name.clone(),
                    Some(Value::List(parts)) => {
                        let parts: Vec<&str> = parts.iter().filter_map(Json::as_text).collect();
                        parts.join(".")
                    }
                    _ => "key".to_owned(),
                },
            };
            // The JSON has `ternary` for both kinds.
            if key.kind == "ternary" && self.is_optional(json, &name) {
                key.kind = "optional".to_owned();
            }
            keys.push((key, name, one.place("target")));
        }
        let selects: &[String] = profile.map_or(&[], |profile| &profile.selects);
        if keys.is_empty() && selects.is_empty() {
            return Some(Vec::new());
        }
        code.put("key = {", json.place("key"));
        for (key, name, span) in &keys {
            code.put(&format!("{} : {} @name({});", key.text, key.kind, quoted(name)), *span);
        }
        for select in selects {
            code.put(&format!("{select} : selector;"), json.place("action_profile"));
        }
        code.put("}", json.place("key"));
        Some(keys.into_iter().map(|(key, ..)| key).collect())
    }

    /// Whether the P4Info has this key as optional.
    fn is_optional(&self, table: &Json, key: &str) -> bool {
        let tables = self.described.iter().flat_map(|info| &info.tables);
        let mut named =
            tables.filter(|one| table.text_of("name") == Some(one.preamble.name.as_str()));
        named.any(|one| {
            one.keys.iter().any(|known| known.field.name == key && known.kind == "optional")
        })
    }

    fn key(&mut self, one: &'j Json) -> Option<Key> {
        let kind = self.reader.text_at(one, "match_type")?;
        let target = self.reader.need(one, "target")?;
        if kind == "valid" {
            let name = self.reader.text(target)?;
            let path = self.model.instance(name, target.span, &mut self.reader)?.path.clone();
            return Some(Key {
                text: format!("{path}.isValid()"),
                kind: "exact".into(),
                of: Of::Bool,
            });
        }
        if MatchKind::named(kind).is_none() {
            let text = format!("the match kind `{}` is not supported", crate::syntax::shown(kind));
            return self.reader.unsupported(one.place("match_type"), text);
        }
        let (text, of) = match self.model.field(target, &mut self.reader)? {
            Place::Data { text, bits, .. } => (text, Of::Bits(bits)),
            Place::Valid(path) => (format!("{path}.isValid()"), Of::Bool),
            Place::Flag(text) => (text, Of::Bits(1)),
            Place::Error(text) => (text, Of::Error),
            Place::Variable(_) => {
                return self.reader.unsupported(target.span, "a variable field is no key");
            }
        };
        let text = match (one.get("mask"), of) {
            (Some(mask), Of::Bits(bits)) => {
                let mask = self.reader.hex(mask)?;
                format!("({text} & {})", super::expr::literal(&mask, bits))
            }
            _ => text,
        };
        Some(Key { text, kind: kind.to_owned(), of })
    }

    /// `action(arguments)` of an entry.
    fn call(&mut self, json: &'j Json) -> Option<String> {
        let id = self.reader.need(json, "action_id")?;
        let at = self.action_by_id(id)?;
        let (ident, params) = (self.actions[at].ident.clone(), self.actions[at].params.clone());
        let data = self.reader.list(json, "action_data");
        if data.len() != params.len() {
            let text = format!("{} arguments for an action of {}", data.len(), params.len());
            return self.reader.refuse(json.place("action_data"), text);
        }
        let mut values = Vec::new();
        for (value, (_, bits)) in data.iter().zip(&params) {
            values.push(super::expr::literal(&self.reader.hex(value)?, *bits));
        }
        Some(format!("{ident}({})", values.join(", ")))
    }

    fn default_entry(&mut self, json: &'j Json, code: &mut Code) {
        let Some(entry) = json.get("default_entry") else { return };
        let has_data = entry.get("action_data").is_some();
        let Some(at) = entry.get("action_id").and_then(|id| self.action_by_id(id)) else { return };
        if !has_data && !self.actions[at].params.is_empty() {
            return;
        }
        let fixed = if entry.is("action_const") { "const " } else { "" };
        if let Some(call) = self.call(entry) {
            code.put(&format!("{fixed}default_action = {call};"), entry.place("action_id"));
        }
    }

    fn entries(&mut self, json: &'j Json, keys: &[Key], code: &mut Code) {
        let list = self.reader.list(json, "entries");
        if list.is_empty() {
            return;
        }
        let mut made: Vec<(u32, String, SourceSpan)> = Vec::new();
        for entry in list {
            let priority =
                entry.get("priority").and_then(|one| self.reader.count(one)).unwrap_or(0);
            let matches = self.reader.list(entry, "match_key");
            if matches.len() != keys.len() {
                let text =
                    format!("{} keys in an entry of a table with {}", matches.len(), keys.len());
                self.reader.error(entry.place("match_key"), text);
                continue;
            }
            let mut sets = Vec::new();
            for (one, key) in matches.iter().zip(keys) {
                sets.extend(self.set(one, key));
            }
            let Some(action) = self.reader.need(entry, "action_entry") else { continue };
            let Some(call) = self.call(action) else { continue };
            if sets.len() == keys.len() {
                let text = format!("({}) : {call};", sets.join(", "));
                made.push((priority, text, entry.place("match_key")));
            }
        }
        // The lowest number has the highest priority, as the first entry has in P4.
        made.sort_by_key(|(priority, ..)| *priority);
        code.put("const entries = {", json.place("entries"));
        for (_, text, span) in made {
            code.put(&text, span);
        }
        code.put("}", json.place("entries"));
    }

    /// A set of values of an entry.
    fn set(&mut self, json: &'j Json, key: &Key) -> Option<String> {
        let of = key.of;
        let kind = self.reader.text_at(json, "match_type")?;
        if kind == "valid" || json.get("key").is_some_and(|key| matches!(key.value, Value::Bool(_)))
        {
            return Some(json.is("key").to_string());
        }
        let at = |import: &mut Self, key: &str| {
            let found = import.reader.need(json, key)?;
            import.reader.hex(found)
        };
        let bits = match of {
            Of::Bits(bits) => bits,
            Of::Bool => 1,
            Of::Error => 32,
        };
        let literal = |value: &BigInt| super::expr::literal(value, bits);
        let ones: BigInt = (BigInt::from(1) << bits) - 1;
        let one = |import: &mut Self, value: &BigInt| match of {
            Of::Bits(_) => Some(literal(value)),
            Of::Bool => Some((*value != BigInt::ZERO).to_string()),
            Of::Error => import.error_of(json, value),
        };
        match kind {
            "exact" => {
                let value = at(self, "key")?;
                one(self, &value)
            }
            "lpm" => {
                let value = at(self, "key")?;
                let length = self.reader.count_at(json, "prefix_length")?;
                if length > bits {
                    let text = format!("a prefix of {length} bits of a key of {bits}");
                    return self.reader.refuse(json.place("prefix_length"), text);
                }
                let rest: BigInt = (BigInt::from(1) << (bits - length)) - 1;
                Some(format!("{} &&& {}", literal(&value), literal(&(ones - rest))))
            }
            "ternary" | "optional" => {
                let (value, mask) = (at(self, "key")?, at(self, "mask")?);
                match of {
                    _ if mask == BigInt::ZERO => Some("_".to_owned()),
                    Of::Bits(_) if key.kind == "optional" => {
                        if &mask & &ones != ones {
                            let text = "a mask of an optional key has all bits, or none";
                            return self.reader.refuse(json.place("mask"), text);
                        }
                        Some(literal(&value))
                    }
                    Of::Bits(_) => Some(format!("{} &&& {}", literal(&value), literal(&mask))),
                    _ => one(self, &value),
                }
            }
            "range" => {
                let (low, high) = (at(self, "start")?, at(self, "end")?);
                Some(format!("{} .. {}", literal(&low), literal(&high)))
            }
            other => {
                let text =
                    format!("the match kind `{}` is not supported", crate::syntax::shown(other));
                self.reader.unsupported(json.place("match_type"), text)
            }
        }
    }

    /// The error of this number, as P4 writes it.
    fn error_of(&mut self, json: &'j Json, value: &BigInt) -> Option<String> {
        let number = u32::try_from(value).ok();
        let name = number.and_then(|number| self.model.errors.get(&number));
        if name.is_none() {
            let text = format!("`errors` has none of number {value}");
            self.reader.error(json.place("key"), text);
        }
        name.map(|name| format!("error.{name}"))
    }
}
