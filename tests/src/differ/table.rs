//! Random actions, tables and their entries.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::generate::{Action, Gen, Place, Scope, Table};
use super::{Change, How};

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
        } else if args.len() > 1 && self.random.chance(25) {
            let named = args.iter().enumerate().rev().map(|(n, arg)| format!("p{n} = {arg}"));
            format!("{}({})", action.name, named.collect::<Vec<_>>().join(", "))
        } else {
            format!("{}({})", action.name, args.join(", "))
        }
    }

    fn table(&mut self, name: &str, place: Place, actions: &[Action]) -> Value {
        let scope = self.scope(place);
        let style = self.random.below(6);
        let mut keys = Vec::new();
        let mut kinds: Vec<(String, &'static str, u32)> = Vec::new();
        let count = if style == 0 { 1 } else { 1 + self.random.below(3) };
        for n in 0..count {
            let bits = self.random.pick(&[1, 8, 8, 12, 32, 48, 64, 100, 128]);
            let kind = match style {
                0 => "lpm",
                1 if n == 1 && self.random.chance(40) => "lpm",
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
            return self.selector_table(name, place, actions, keys, kinds);
        }
        let mut table = Map::new();
        table.insert("key".into(), json!(keys));
        self.actions_of(&mut table, actions);
        // Few slots, so that learners find none; or many, so that a search is long.
        let size = self.random.pick(&[4, 8, 64, 64, 64, 300]);
        table.insert("size".into(), size.into());
        if self.random.chance(40) {
            table.insert("counters".into(), true.into());
        }
        let meter =
            self.random.chance(20).then(|| (self.random.chance(50), self.random.chance(50)));
        if let Some((two_rates, packets)) = meter {
            let kind = if two_rates { "trtcm" } else { "srtcm" };
            let unit = if packets { "packets" } else { "bytes" };
            table.insert("meter".into(), json!({ "type": kind, "unit": unit }));
        }
        let ages = self.random.chance(20);
        if ages {
            table.insert("idle_timeout_ms".into(), self.random.pick(&[1, 5, 40]).into());
            if self.random.chance(50) {
                table.insert("on_idle".into(), self.random.pick(&["notify", "remove"]).into());
            }
        }
        let count = match size {
            300 => self.random.pick(&[70, 150, 290]),
            _ => self.random.pick(&[0, 3, 7, 20]),
        };
        let mut entries = self.entries_of(&kinds, actions, count.min(size));
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            if let Some((two_rates, packets)) = meter
                && self.random.chance(70)
            {
                entry.insert("meter".into(), self.rates(two_rates, packets));
            }
            if ages && self.random.chance(30) {
                entry.insert("idle_timeout_ms".into(), self.random.pick(&[0, 1, 100]).into());
            }
        }
        let exact = kinds.iter().all(|(_, kind, _)| *kind == "exact");
        let (mut constant, mut has_default) = (false, true);
        if self.random.chance(50) {
            constant = true;
            table.remove("on_idle");
            has_default = self.random.chance(30);
            table.insert("const_entries".into(), true.into());
            table.insert("const_default".into(), (!has_default).into());
        }
        let mut changing = Vec::new();
        // What is declared cannot change, and leaves no room for what is added.
        let declares = self.random.chance(40);
        if constant || declares {
            for entry in &mut entries {
                if !constant && self.random.chance(20) {
                    entry["const"] = json!(true);
                }
            }
            table.insert("entries".into(), json!(entries));
        } else {
            let section = self.entries.entry("entries").or_insert_with(|| json!({}));
            section[name] = json!(entries);
            changing = entries;
        }
        let learnable = (exact && !constant).then(|| kinds.iter().map(|k| k.2).collect());
        let keys = (!constant && !declares).then_some(kinds);
        self.tables.push(Table {
            name: name.into(),
            place,
            actions: actions.to_vec(),
            learnable,
            keys,
            entries: changing,
            selects: false,
            has_default,
        });
        Value::Object(table)
    }

    /// The actions of a table, at times with the two that are always there, and its default, if it names one.
    fn actions_of(&mut self, table: &mut Map<String, Value>, actions: &[Action]) {
        let mut names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
        let built_in = self.random.chance(30);
        if built_in {
            names.extend(["drop", "nop"]);
        }
        table.insert("actions".into(), json!(names));
        let default = self.random.pick(actions);
        let default = match self.random.below(8) {
            0 | 1 if built_in => json!("nop"),
            2 if built_in => json!("drop"),
            3 => return,
            _ => json!(self.call_of(&default)),
        };
        table.insert("default".into(), default);
    }

    fn entries_of(
        &mut self,
        kinds: &[(String, &str, u32)],
        actions: &[Action],
        count: usize,
    ) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        let priorities = kinds.iter().any(|k| ["ternary", "range", "optional"].contains(&k.1));
        for n in 0..count {
            let mut fields = Map::new();
            let mut same = String::new();
            for (name, kind, bits) in kinds {
                let pattern = self.pattern(kind, *bits);
                let is_any = matches_any(kind, &pattern);
                same += if is_any { "any " } else { &pattern };
                // A key that is left out matches anything.
                if !is_any || self.random.chance(50) || kinds.len() == 1 {
                    fields.insert(name.clone(), json!(pattern));
                }
            }
            let action = self.random.pick(actions);
            if !seen.insert(same) {
                continue;
            }
            let mut entry = json!({ "match": fields, "action": self.call_of(&action) });
            if priorities {
                // Some are equal: then the older entry wins.
                entry["priority"] = json!(1 + n / 2);
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
                let mask = if self.random.chance(12) { 0 } else { self.random.value(bits) };
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
        kinds: Vec<(String, &'static str, u32)>,
    ) -> Value {
        let scope = self.scope(place);
        for n in 0..self.random.pick(&[1, 1, 2, 3]) {
            let bits = self.random.pick(&[8, 32, 70]);
            let value = self.expr(&scope, bits, 2);
            keys.push(json!({ "value": value, "kind": "selector", "name": format!("s{n}") }));
        }
        let hash = self.random.pick(&["crc16", "crc32", "toeplitz", "xor16"]);
        let mut selector = json!({ "hash": hash, "members": 8, "groups": 8 });
        if self.random.chance(40) {
            let action = self.random.pick(actions);
            selector["empty"] = json!(self.call_of(&action));
        }
        let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
        let count = self.random.pick(&[3, 5, 8]);
        let members = self.members(actions, count);
        let groups = self.groups(count);
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for _ in 0..8 {
            let fields: Map<String, Value> = kinds
                .iter()
                .map(|(name, kind, bits)| (name.clone(), json!(self.pattern(kind, *bits))))
                .collect();
            if seen.insert(format!("{fields:?}")) {
                let target = match self.random.chance(70) {
                    true => format!("group({})", 1 + self.random.below(groups.len())),
                    false => format!("member({})", 1 + self.random.below(count)),
                };
                entries.push(json!({ "match": fields, "action": target }));
            }
        }
        for (key, value) in [
            ("members", Value::Object(members)),
            ("groups", Value::Object(groups)),
            ("entries", json!(entries)),
        ] {
            let section = self.entries.entry(key).or_insert_with(|| json!({}));
            section[name] = value;
        }
        self.tables.push(Table {
            name: name.into(),
            place,
            actions: actions.to_vec(),
            learnable: None,
            keys: Some(kinds),
            entries,
            selects: true,
            has_default: false,
        });
        json!({
            "key": keys,
            "selector": selector,
            "actions": names,
            "size": 16,
            "counters": self.random.chance(50),
        })
    }

    fn members(&mut self, actions: &[Action], count: usize) -> Map<String, Value> {
        let member = |n: usize| {
            let action = self.random.pick(actions);
            (n.to_string(), json!(self.call_of(&action)))
        };
        (1..=count).map(member).collect()
    }

    /// Up to eight groups of members 1 to `members`, with weights and without.
    fn groups(&mut self, members: usize) -> Map<String, Value> {
        let count = self.random.pick(&[2, 4, 8]);
        let group = |n: usize| {
            let first = self.random.below(members);
            let size = if self.random.chance(10) { 0 } else { 1 + self.random.below(members) };
            let ids: Vec<usize> = (0..size).map(|at| 1 + (first + at) % members).collect();
            let value = match self.random.chance(50) {
                true => json!(ids),
                false => {
                    let weights = ids.iter().map(|id| {
                        let weight = self.random.pick(&[1, 2, 3, 60]);
                        (id.to_string(), json!(weight))
                    });
                    Value::Object(weights.collect())
                }
            };
            (n.to_string(), value)
        };
        (1..=count).map(group).collect()
    }

    /// What changes while packets come: entries, defaults, members, groups, sets, registers, meters.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut before = 0;
        for _ in 0..1 + self.random.below(6) {
            before += self.random.below(30);
            let table = self.random.pick(&self.tables.clone());
            let mut how = self.random.pick(&[How::Insert, How::Modify, How::Modify, How::Delete]);
            let mut file = Map::new();
            match self.random.below(6) {
                0 => {
                    let sets = json!({ "vs": self.set(), "pair": self.pairs() });
                    file.insert("value_sets".into(), sets);
                }
                1 => {
                    let (cell, index) =
                        (self.random.below(self.register.len()), self.random.below(8));
                    let value = self.random.value(self.register[cell]);
                    let (index, cell) = (index.to_string(), format!("x{cell}"));
                    let value = format!("{value:#x}");
                    file.insert("registers".into(), json!({ "reg": { index: { cell: value } } }));
                }
                2 => {
                    let rates = self.rates(self.two_rates, self.per_packet);
                    let index = self.random.below(4).to_string();
                    file.insert("meters".into(), json!({ "mtr": { index: rates } }));
                }
                3 if table.has_default => {
                    let action = self.random.pick(&table.actions);
                    let call = self.call_of(&action);
                    file.insert("defaults".into(), json!({ table.name: call }));
                }
                _ if table.selects => {
                    // All of it again, with other actions and members.
                    how = How::Modify;
                    let members = self.members(&table.actions, 8);
                    let groups = self.groups(8);
                    let (mut all, name) = (Map::new(), &table.name);
                    for (key, value) in [("members", members), ("groups", groups)] {
                        all.insert(key.into(), json!({ name: value }));
                    }
                    file = all;
                }
                _ => {
                    let entries = self.changed(&table, how);
                    file.insert("entries".into(), json!({ table.name: entries }));
                }
            }
            if table.keys.is_some() || !file.contains_key("entries") {
                changes.push(Change { before, how, entries: Value::Object(file) });
            }
        }
        changes
    }

    /// A set of one key, and one of a number and a port.
    pub(super) fn value_sets(&mut self) -> Value {
        let kinds = ["exact", "exact", "exact", "ternary", "lpm", "range", "optional"];
        self.set_kinds = std::array::from_fn(|_| self.random.pick(&kinds));
        let [only, first, second] = self.set_kinds;
        let (values, pairs) = (self.set(), self.pairs());
        let keys = json!({
            "number": { "bits": 8, "kind": first },
            "port": { "bits": 16, "kind": second },
        });
        json!({
            "vs": { "bits": 8, "kind": only, "size": 4, "values": values },
            "pair": { "key": keys, "size": 4, "values": pairs },
        })
    }

    fn set(&mut self) -> Vec<String> {
        let kind = self.set_kinds[0];
        let count = self.random.below(4);
        let all: BTreeSet<String> = (0..count).map(|_| self.pattern(kind, 8)).collect();
        all.into_iter().collect()
    }

    fn pairs(&mut self) -> Vec<Value> {
        let [_, first, second] = self.set_kinds;
        let count = self.random.below(4);
        let one = |_| (self.pattern(first, 8), self.pattern(second, 16));
        let all: BTreeSet<(String, String)> = (0..count).map(one).collect();
        all.into_iter().map(|(number, port)| json!({ "number": number, "port": port })).collect()
    }

    /// Entries that are added, or some that are there with other actions.
    fn changed(&mut self, table: &Table, how: How) -> Vec<Value> {
        let Some(keys) = &table.keys else { return Vec::new() };
        if how == How::Insert || table.entries.is_empty() {
            return self.entries_of(keys, &table.actions, 3);
        }
        let mut entries = table.entries.clone();
        while entries.len() > 3 {
            entries.remove(self.random.below(entries.len()));
        }
        for entry in &mut entries {
            let action = self.random.pick(&table.actions);
            entry["action"] = json!(self.call_of(&action));
        }
        entries
    }
}

/// The pattern matches everything.
fn matches_any(kind: &str, pattern: &str) -> bool {
    match kind {
        "lpm" => pattern.ends_with("/0"),
        "ternary" => pattern.ends_with("&&& 0x0"),
        "optional" => pattern == "_",
        _ => false,
    }
}
