//! Random parser graphs, and checksums and CRCs over what they read.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::generate::{Gen, Place};

impl Gen {
    /// A state for each header, with edges forward, and back where a stack or an error stops them.
    pub(super) fn parser(&mut self) -> Value {
        let mut names: Vec<String> = self.headers.iter().map(|h| h.name.clone()).collect();
        names.extend(self.stack.iter().map(|stack| stack.name.clone()));
        let count = names.len();
        let mut states = Map::new();
        for (n, name) in names.iter().enumerate() {
            let state = self.parser_state(name, n, count);
            states.insert(state_name(n), state);
        }
        Value::Object(states)
    }

    fn parser_state(&mut self, header: &str, n: usize, count: usize) -> Value {
        let scope = self.scope(Place::Parser);
        let mut state = Map::new();
        state.insert("extract".into(), json!(header));
        if self.random.chance(20) {
            let condition = self.expr(&scope, 1, 2);
            state.insert("verify".into(), json!({ condition: self.random.pick(&["odd", "bad"]) }));
        }
        let mut statements = Vec::new();
        if self.random.chance(25) {
            let (meta, bits) = self.random.pick(&self.metas.clone());
            let value = self.expr(&scope, bits, 2);
            statements.push(json!(format!("{meta} = {value}")));
        }
        if !self.simple && self.random.chance(15) {
            let skip = self.random.pick(&["8", "16", "bit<32>(std.ingress_port & 3) * 8"]);
            statements.push(json!(format!("advance({skip})")));
        }
        if !statements.is_empty() {
            state.insert("do".into(), json!(statements));
        }
        if self.trailer && self.random.chance(50) {
            let end = self.random.pick(&[
                "std.packet_length - 5",
                "std.packet_length - 7",
                "cursor + 10",
                "cursor",
            ]);
            if self.random.chance(75) {
                state.insert("extract_at".into(), json!({ "tail": end }));
            }
            if self.random.chance(75) {
                state.insert("body_end".into(), json!(end));
            }
        }
        self.transition(&mut state, header, n, count);
        Value::Object(state)
    }

    fn transition(&mut self, state: &mut Map<String, Value>, header: &str, n: usize, count: usize) {
        let mut targets: Vec<String> = vec!["accept".into(), "accept".into()];
        targets.extend((n + 1..count).map(state_name));
        if n + 1 < count {
            // The next one is always reachable from here, mostly.
            targets.extend([state_name(n + 1), state_name(n + 1)]);
        }
        if !self.simple && self.random.chance(30) {
            targets.push(state_name(self.random.below(count)));
        }
        targets.extend(["reject".into(), "reject(bad)".into()]);
        let stack = self.stack.as_ref().is_some_and(|stack| stack.name == header);
        let (key, bits) = match stack {
            true => (format!("{header}.last.kind"), 8),
            false => match self.random.below(6) {
                0 => {
                    let scope = self.scope(Place::Parser);
                    let bits = self.random.pick(&[1, 4, 8, 70]);
                    (self.expr(&scope, bits, 2), bits)
                }
                _ => (format!("{header}.kind"), 8),
            },
        };
        let two = self.random.chance(20);
        let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
        let most = u128::MAX >> (128 - bits);
        for value in 0..self.random.below(4) as u128 {
            let pattern = match self.random.below(6) {
                0 => format!("{:#x} &&& {:#x}", value & 1 & most, 1),
                1 if bits >= 3 => format!("{value}..{}", value + 2),
                2 if bits == 8 => "@vs".into(),
                _ => format!("{:#x}", value & most),
            };
            let to = self.random.pick(&targets);
            if !seen.insert(pattern.clone()) {
                continue;
            }
            cases.push(match two {
                true => {
                    let port = self.random.pick(&["_", "1", "1..2"]);
                    json!({ "match": [pattern, port], "next": to })
                }
                false => json!({ "match": [pattern], "next": to }),
            });
        }
        let keys = if two { json!([key, "std.ingress_port"]) } else { json!([key]) };
        let default = if n + 1 < count && self.random.chance(70) {
            state_name(n + 1)
        } else {
            self.random.pick(&targets)
        };
        if cases.is_empty() {
            state.insert("next".into(), json!(default));
            return;
        }
        state.insert("select".into(), keys);
        state.insert("cases".into(), json!(cases));
        if self.random.chance(85) {
            state.insert("default".into(), json!(default));
        }
    }

    /// Checksums of headers that have a field for one, and a CRC in the trailer.
    pub(super) fn sums(&mut self, top: &mut Map<String, Value>) {
        let mut checksums = Vec::new();
        for header in self.headers.clone().into_iter().filter(|header| header.sum) {
            if !self.random.chance(70) {
                continue;
            }
            let name = &header.name;
            let over = self.over(name);
            let mut sum = json!({
                "field": format!("{name}.sum"),
                "over": over,
                "verify": self.random.pick(&["off", "off", "count", "drop"]),
                "update": self.random.pick(&["incremental", "incremental", "always", "never"]),
            });
            if self.random.chance(30) {
                sum["zero_means_none"] = json!(true);
            }
            let scope = self.scope(Place::Both);
            match self.random.below(3) {
                0 => sum["when"] = json!(format!("{name}.valid")),
                1 => {
                    let (a, _) = (self.expr(&scope, 1, 1), 0);
                    sum["when"] = json!(format!("{name}.valid && {a}"));
                }
                _ => {}
            }
            checksums.push(sum);
        }
        if !checksums.is_empty() {
            top.insert("checksums".into(), json!(checksums));
        }
        if !self.trailer || !self.random.chance(80) {
            return;
        }
        let over = self.over("");
        let crc = json!({
            "field": "tail.crc",
            "params": {
                "width": 32,
                "poly": self.random.pick(&["0x04c11db7", "0x1edc6f41"]),
                "init": self.random.pick(&["0xffffffff", "0"]),
                "reflect": self.random.chance(50),
                "xor_out": self.random.pick(&["0xffffffff", "0"]),
                "store": self.random.pick(&["little", "big"]),
            },
            "over": over,
            "when": "tail.valid",
            "verify": self.random.pick(&["off", "count", "drop"]),
            "update": self.random.pick(&["on_request", "always", "never"]),
        });
        self.crc = Some("c0".into());
        top.insert("crcs".into(), json!({ "c0": crc }));
    }

    fn over(&mut self, own: &str) -> Vec<Value> {
        let mut over = Vec::new();
        if !own.is_empty() {
            over.push(json!(own));
        }
        let scope = self.scope(Place::Both);
        for _ in 0..self.random.below(3) {
            let header = self.random.pick(&self.headers.clone());
            over.push(match self.random.below(4) {
                0 => {
                    let bits = self.random.pick(&[8, 16, 24, 128]);
                    json!({ "value": self.expr(&scope, bits, 2) })
                }
                1 => {
                    let (field, _) = self.random.pick(&header.fields);
                    json!({ header.name: { "mask": [field] } })
                }
                _ => json!(header.name),
            });
        }
        if own.is_empty() || (!self.simple && self.random.chance(40)) {
            over.push(json!("body"));
        }
        over
    }
}

fn state_name(n: usize) -> String {
    if n == 0 { "start".into() } else { format!("s{n}") }
}
