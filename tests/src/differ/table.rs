//! Random actions, tables and their entries.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::generate::{Action, Gen, Place, Scope, Table};

impl Gen {
    pub(super) fn actions_and_tables(&mut self, top: &mut Map<String, Value>) {
        let (mut actions, mut tables) = (Map::new(), Map::new());
        for place in [Place::Ingress, Place::Egress] {
            let first = self.actions.len();
            for _ in 0..2 + self.random.below(2) {
                let action = self.action(place);
                actions.insert(action.0, action.1);
            }
            let mine: Vec<Action> = self.actions[first..].to_vec();
            for _ in 0..1 + self.random.below(3) {
                let name = self.name("t");
                let declared = self.table(&name, place, &mine);
                tables.insert(name, declared);
            }
        }
        top.insert("actions".into(), Value::Object(actions));
        top.insert("tables".into(), Value::Object(tables));
    }

    fn action(&mut self, place: Place) -> (String, Value) {
        let name = self.name("a");
        let params: Vec<u32> = (0..self.random.below(4)).map(|_| self.random.width()).collect();
        let locals = params.iter().enumerate().map(|(n, bits)| (format!("p{n}"), *bits)).collect();
        let actions = self.actions.len();
        let mut scope = Scope { place, locals, in_action: true, actions };
        let body = self.statements(&mut scope, 1, 4);
        let declared: Map<String, Value> =
            params.iter().enumerate().map(|(n, bits)| (format!("p{n}"), (*bits).into())).collect();
        self.actions.push(Action { name: name.clone(), params, place });
        (name, json!({ "params": declared, "do": body }))
    }

    fn call_of(&mut self, action: &Action) -> String {
        let args: Vec<String> =
            action.params.iter().map(|bits| format!("{:#x}", self.random.value(*bits))).collect();
        if args.is_empty() {
            action.name.clone()
        } else {
            format!("{}({})", action.name, args.join(", "))
        }
    }

    fn table(&mut self, name: &str, place: Place, actions: &[Action]) -> Value {
        let scope = self.scope(place);
        let style = self.random.below(6);
        let mut keys = Vec::new();
        let mut kinds: Vec<(String, &str, u32)> = Vec::new();
        let count = if style == 0 { 1 } else { 1 + self.random.below(3) };
        for n in 0..count {
            let bits = self.random.pick(&[1, 8, 8, 12, 32, 48, 64, 100, 128]);
            let kind = match style {
                0 => "lpm",
                1 => self.random.pick(&["ternary", "range", "optional", "exact"]),
                2 if n == 0 => "lpm",
                _ => "exact",
            };
            let value = match self.random.chance(40) {
                true => self.expr(&scope, bits, 2),
                false => self.leaf(&scope, bits),
            };
            let key = format!("k{n}");
            keys.push(json!({ "value": value, "kind": kind, "name": key }));
            kinds.push((key, kind, bits));
        }
        if style == 5 {
            return self.selector_table(name, place, actions, keys, &kinds);
        }
        let mut table = Map::new();
        table.insert("key".into(), json!(keys));
        let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
        table.insert("actions".into(), json!(names));
        let default = self.random.pick(actions);
        table.insert("default".into(), json!(self.call_of(&default)));
        table.insert("size".into(), 64.into());
        if self.random.chance(40) {
            table.insert("counters".into(), true.into());
        }
        if self.random.chance(15) {
            table.insert("meter".into(), json!({ "type": "trtcm", "unit": "bytes" }));
        }
        if self.random.chance(15) {
            table.insert("idle_timeout_ms".into(), 1000.into());
        }
        let mut entries = self.entries_of(&kinds, actions);
        if table.contains_key("meter") {
            let rates = json!({ "cir": "1MB/s", "cbs": "300B", "pir": "3MB/s", "pbs": "600B" });
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                if self.random.chance(70) {
                    entry.insert("meter".into(), rates.clone());
                }
            }
        }
        let exact = kinds.iter().all(|(_, kind, _)| *kind == "exact");
        let constant = self.random.chance(50);
        if constant {
            table.insert("const_entries".into(), true.into());
            table.insert("const_default".into(), self.random.chance(70).into());
        }
        table.insert("entries".into(), json!(entries));
        let learnable = (exact && !constant).then(|| kinds.iter().map(|k| k.2).collect());
        let actions = actions.to_vec();
        self.tables.push(Table { name: name.into(), place, actions, learnable });
        Value::Object(table)
    }

    fn entries_of(&mut self, kinds: &[(String, &str, u32)], actions: &[Action]) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        let priorities = kinds.iter().any(|k| ["ternary", "range", "optional"].contains(&k.1));
        for n in 0..self.random.pick(&[0, 3, 7, 20]) {
            let fields: Map<String, Value> = kinds
                .iter()
                .map(|(name, kind, bits)| (name.clone(), json!(self.pattern(kind, *bits))))
                .collect();
            let action = self.random.pick(actions);
            if !seen.insert(format!("{fields:?}")) {
                continue;
            }
            let mut entry = json!({ "match": fields, "action": self.call_of(&action) });
            if priorities {
                entry["priority"] = json!(1 + n);
            }
            entries.push(entry);
        }
        entries
    }

    fn pattern(&mut self, kind: &str, bits: u32) -> String {
        let ones = u128::MAX >> (128 - bits);
        let small = self.random.below(4) as u128 & ones;
        let value = if self.random.chance(75) { small } else { self.random.value(bits) };
        match kind {
            "lpm" => {
                let len = self.random.below(bits as usize + 1) as u32;
                let mask = if len == 0 { 0 } else { ones & !(ones.checked_shr(len).unwrap_or(0)) };
                format!("{:#x}/{len}", value & mask)
            }
            "ternary" => {
                let mask = self.random.value(bits);
                format!("{:#x} &&& {mask:#x}", value & mask)
            }
            "range" => {
                let other = self.random.value(bits);
                format!("{:#x}..{:#x}", value.min(other), value.max(other))
            }
            "optional" if self.random.chance(40) => "_".into(),
            _ => format!("{value:#x}"),
        }
    }

    /// Members and groups instead of actions; the entries file has all three.
    fn selector_table(
        &mut self,
        name: &str,
        place: Place,
        actions: &[Action],
        mut keys: Vec<Value>,
        kinds: &[(String, &str, u32)],
    ) -> Value {
        let scope = self.scope(place);
        let bits = self.random.pick(&[8, 32, 70]);
        let value = self.expr(&scope, bits, 2);
        keys.push(json!({ "value": value, "kind": "selector", "name": "s" }));
        let hash = self.random.pick(&["crc16", "crc32", "toeplitz", "xor16"]);
        let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
        let members: Map<String, Value> = (1..=3)
            .map(|n| {
                let action = self.random.pick(actions);
                (n.to_string(), json!(self.call_of(&action)))
            })
            .collect();
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for _ in 0..6 {
            let fields: Map<String, Value> = kinds
                .iter()
                .map(|(name, kind, bits)| (name.clone(), json!(self.pattern(kind, *bits))))
                .collect();
            if seen.insert(format!("{fields:?}")) {
                let target = self.random.pick(&["group(1)", "group(2)", "member(1)", "member(3)"]);
                entries.push(json!({ "match": fields, "action": target }));
            }
        }
        for (key, value) in [
            ("members", json!(members)),
            ("groups", json!({ "1": [1, 2], "2": { "1": 3, "3": 1 } })),
            ("entries", json!(entries)),
        ] {
            let section = self.entries.entry(key).or_insert_with(|| json!({}));
            section[name] = value;
        }
        let actions = actions.to_vec();
        self.tables.push(Table {
            name: name.into(),
            place,
            actions: actions.clone(),
            learnable: None,
        });
        json!({
            "key": keys,
            "selector": { "hash": hash, "members": 8, "groups": 4 },
            "actions": names,
            "size": 16,
            "counters": self.random.chance(50),
        })
    }
}
