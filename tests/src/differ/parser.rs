//! Random parser graphs, and checksums and CRCs over what they read.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::generate::{Gen, Place};

impl Gen {
    /// A state for each header, with edges forward, and back where a stack or an error stops them; and the
    /// sub-parsers that some of them call.
    pub(super) fn parser(&mut self) -> (Value, Map<String, Value>) {
        let headers: Vec<(String, Option<String>)> =
            self.headers.iter().map(|h| (h.name.clone(), h.twin.clone())).collect();
        let mut names = headers.clone();
        names.extend(self.stack.iter().map(|stack| (stack.name.clone(), None)));
        let count = names.len();
        let (mut states, mut parsers) = (Map::new(), Map::new());
        for (n, (name, twin)) in names.iter().enumerate() {
            // Of twins, the first one has the sub-parser, and the second one stands for it.
            let first = twin.as_ref().is_none_or(|twin| *twin > *name);
            let base = if first { name } else { twin.as_ref().unwrap_or(name) };
            let sub = format!("p_{base}");
            let is_header = n < headers.len();
            if is_header && first && self.random.chance(if twin.is_some() { 60 } else { 12 }) {
                let parser = self.sub_parser(base);
                parsers.insert(sub.clone(), parser);
            }
            let mut state = match parsers.contains_key(&sub) && is_header {
                true if first => Map::from_iter([("call".into(), json!(sub))]),
                true => {
                    let bind = json!({ base: name });
                    Map::from_iter([("call".into(), json!(sub)), ("bind".into(), bind)])
                }
                false => self.parser_state(name),
            };
            self.transition(&mut state, name, n, count);
            states.insert(state_name(n), Value::Object(state));
        }
        (Value::Object(states), parsers)
    }

    /// The header, and now and then a second state.
    fn sub_parser(&mut self, header: &str) -> Value {
        let mut start = self.parser_state(header);
        let mut states = Map::new();
        if self.random.chance(60) {
            let other = self.random.pick(&["accept", "reject(odd)"]);
            let cases = json!([
                { "match": [self.random.below(4)], "next": "more" },
                { "match": [4 + self.random.below(250)], "next": other },
            ]);
            start.insert("select".into(), json!([format!("{header}.kind")]));
            start.insert("cases".into(), cases);
            start.insert("default".into(), json!(self.random.pick(&["accept", "more"])));
            let scope = self.scope(Place::Parser);
            let (meta, bits) = self.random.pick(&self.metas.clone());
            let mut more = vec![json!(format!("{meta} = {}", self.expr(&scope, bits, 1)))];
            if self.random.chance(30) {
                more.push(json!(format!("verify({}, bad)", self.expr(&scope, 1, 1))));
            }
            states.insert("more".into(), json!({ "do": more }));
        }
        states.insert("start".into(), Value::Object(start));
        Value::Object(states)
    }

    fn parser_state(&mut self, header: &str) -> Map<String, Value> {
        let scope = self.scope(Place::Parser);
        let mut state = Map::new();
        let mut statements = Vec::new();
        let given = self.headers.iter().any(|known| known.name == header && known.given);
        match self.random.chance(15) {
            _ if given => {
                let bits = match self.random.below(4) {
                    0 => self.expr(&scope, 32, 1),
                    1 => "lookahead(8) * 8".into(),
                    2 => "0".into(),
                    _ => "(lookahead(8) & 3) * 8".into(),
                };
                statements.push(json!(format!("extract({header}, {bits})")));
            }
            true => statements.push(json!(format!("extract({header})"))),
            false if self.random.chance(8) => {
                let list = self.extracts(header);
                state.insert("extract".into(), json!(list));
            }
            false => _ = state.insert("extract".into(), json!(header)),
        }
        if !self.simple && self.random.chance(4) {
            let other = self.random.pick(&self.headers.clone()).name;
            let does = self.random.pick(&["set_invalid", "set_valid"]);
            statements.push(json!(format!("{does}({other})")));
        }
        if self.random.chance(20) {
            let (condition, error) = (self.expr(&scope, 1, 2), self.random.pick(&["odd", "bad"]));
            match self.random.chance(50) {
                true => _ = state.insert("verify".into(), json!({ condition: error })),
                false => statements.push(json!(format!("verify({condition}, {error})"))),
            }
        }
        if self.random.chance(25) {
            let (meta, bits) = self.random.pick(&self.metas.clone());
            let value = self.expr(&scope, bits, 2);
            statements.push(json!(format!("{meta} = {value}")));
        }
        if !self.simple && self.random.chance(15) {
            let skip = self.random.pick(&["8", "16", "bit<32>(std.ingress_port & 3) * 8"]);
            statements.push(json!(format!("advance({skip})")));
        }
        let mut offsets = Map::new();
        for trailer in self.trailers.clone() {
            if !self.random.chance(50) {
                continue;
            }
            let end = self.random.pick(&[
                "std.packet_length - 5",
                "std.packet_length - 7",
                "std.packet_length - 12",
                "cursor + 10",
                "cursor",
            ]);
            if self.random.chance(75) {
                match self.random.chance(40) {
                    true => statements.push(json!(format!("extract_at({}, {end})", trailer.name))),
                    false => _ = offsets.insert(trailer.name, json!(end)),
                }
            }
            if self.random.chance(75) {
                match self.random.chance(40) {
                    true => statements.push(json!(format!("body_end({end})"))),
                    false => _ = state.insert("body_end".into(), json!(end)),
                }
            }
        }
        if !statements.is_empty() {
            state.insert("do".into(), json!(statements));
        }
        if !offsets.is_empty() {
            state.insert("extract_at".into(), Value::Object(offsets));
        }
        state
    }

    /// Two extractions in one state: of a stack, by number or not, or of a header and another one.
    fn extracts(&mut self, header: &str) -> Vec<String> {
        let first = header.to_owned();
        if self.stack.as_ref().is_some_and(|stack| stack.name == header) {
            let second =
                if self.random.chance(50) { format!("{header}[1]") } else { first.clone() };
            return vec![first, second];
        }
        let others = self.headers.iter().filter(|other| other.name != header && !other.given);
        let others: Vec<String> = others.map(|other| other.name.clone()).collect();
        match others.is_empty() {
            true => vec![first],
            false => vec![first, self.random.pick(&others)],
        }
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
                true if bits == 8 && self.random.chance(30) && seen.insert("@pair".into()) => {
                    json!({ "match": ["@pair"], "next": to })
                }
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
            if !self.random.chance(if self.simple { 85 } else { 70 }) {
                continue;
            }
            let name = &header.name;
            // What path-specialised code does too.
            let easy = self.simple && self.random.chance(85);
            let over = if easy { self.headers_over(name) } else { self.over(name) };
            let updates: &[&str] = if easy {
                &["incremental"]
            } else {
                &["incremental", "incremental", "always", "never"]
            };
            let verifies = if easy {
                ["off", "count", "drop", "drop"]
            } else {
                ["off", "off", "count", "drop"]
            };
            let mut sum = json!({
                "field": format!("{name}.sum"),
                "over": over,
                "verify": self.random.pick(&verifies),
                "update": self.random.pick(updates),
            });
            if self.random.chance(30) {
                sum["zero_means_none"] = json!(true);
            }
            let scope = self.scope(Place::Both);
            match self.random.below(3) {
                1 if easy => {}
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
        let mut crcs = Map::new();
        let mut owners = self.headers.clone();
        owners.extend(self.trailers.clone());
        for header in owners {
            let Some(bits) = header.crc.filter(|_| self.random.chance(80)) else { continue };
            let name = format!("c{}", crcs.len());
            let crc = self.crc(&header.name, bits);
            // A call for one that is never updated is refused.
            if crc["update"] != "never" {
                self.crcs.push(name.clone());
            }
            crcs.insert(name, crc);
        }
        if !crcs.is_empty() {
            top.insert("crcs".into(), Value::Object(crcs));
        }
    }

    fn crc(&mut self, header: &str, bits: u32) -> Value {
        let poly = match bits {
            8 => self.random.pick(&["0x07", "0x9b"]),
            16 => self.random.pick(&["0x1021", "0x8005"]),
            24 => self.random.pick(&["0x864cfb", "0x5d6dcb"]),
            32 => self.random.pick(&["0x04c11db7", "0x1edc6f41"]),
            _ => self.random.pick(&["0x42f0e1eba9ea3693", "0x1b"]),
        };
        let ones = format!("{:#x}", u128::MAX >> (128 - bits));
        let (verify, update): (&[&str], &[&str]) = match self.simple {
            true => (&["off"], &["on_request", "never"]),
            false => (&["off", "count", "drop"], &["on_request", "always", "never"]),
        };
        let over = self.over("");
        json!({
            "field": format!("{header}.crc"),
            "params": {
                "width": bits,
                "poly": poly,
                "init": self.random.pick(&[ones.as_str(), "0", "0x5a"]),
                "reflect": self.random.chance(50),
                "xor_out": self.random.pick(&[ones.as_str(), "0", "1"]),
                "store": self.random.pick(&["little", "big"]),
            },
            "over": over,
            "when": format!("{header}.valid"),
            "verify": self.random.pick(verify),
            "update": self.random.pick(update),
        })
    }

    /// This header, and now and then another one.
    fn headers_over(&mut self, own: &str) -> Vec<Value> {
        let mut over = vec![json!(own)];
        let other = self.random.pick(&self.headers.clone()).name;
        if other != own && self.random.chance(30) {
            over.push(json!(other));
        }
        over
    }

    fn over(&mut self, own: &str) -> Vec<Value> {
        let mut over = Vec::new();
        if !own.is_empty() {
            over.push(json!(own));
        }
        let scope = self.scope(Place::Both);
        for _ in 0..self.random.below(4) {
            let header = self.random.pick(&self.headers.clone());
            over.push(match self.random.below(7) {
                0 => {
                    let bits = self.random.pick(&[8, 16, 24, 128]);
                    json!({ "value": self.expr(&scope, bits, 2) })
                }
                1 => {
                    let (field, _) = self.random.pick(&header.declared());
                    json!({ header.name: { "mask": [field] } })
                }
                2 => json!({ "ones": 1 + self.random.below(if own.is_empty() { 9 } else { 4 }) }),
                3 => {
                    let declared = header.declared();
                    let whole = declared.iter().filter(|(_, bits)| bits % 8 == 0);
                    let whole = whole.map(|(field, _)| json!(format!("{}.{field}", header.name)));
                    json!({ "fields": whole.take(2).collect::<Vec<_>>() })
                }
                4 if !self.pads.is_empty() => json!(self.random.pick(&self.pads.clone())),
                _ => json!(header.name),
            });
        }
        if own.is_empty() || (!self.simple && self.random.chance(40)) {
            over.push(json!(if self.random.chance(40) { "rest" } else { "body" }));
            if !self.pads.is_empty() && self.random.chance(40) {
                over.push(json!(self.random.pick(&self.pads.clone())));
            }
        }
        over
    }
}

fn state_name(n: usize) -> String {
    if n == 0 { "start".into() } else { format!("s{n}") }
}
