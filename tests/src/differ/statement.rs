//! Random statements of controls and actions.

use serde_json::{Map, Value, json};

use super::generate::{Control, Gen, Header, Place, Scope};

impl Gen {
    /// Statements in order; those after a `let` see it.
    pub(super) fn statements(&mut self, scope: &mut Scope, depth: u32, most: usize) -> Vec<Value> {
        let outer = scope.locals.len();
        let mut all = Vec::new();
        for _ in 0..1 + self.random.below(most) {
            all.extend(self.statement(scope, depth));
        }
        scope.locals.truncate(outer);
        all
    }

    fn statement(&mut self, scope: &mut Scope, depth: u32) -> Vec<Value> {
        if depth > 0 && self.random.chance(45) {
            return self.compound(scope, depth - 1);
        }
        if !self.simple && self.random.chance(35) {
            return self.structural(scope).into_iter().map(Value::String).collect();
        }
        if self.simple && self.random.chance(8) {
            return vec![Value::String(self.specialised(scope))];
        }
        vec![Value::String(self.simple_statement(scope))]
    }

    /// Where a colour goes.
    fn colour(&mut self, scope: &Scope) -> String {
        let header = self.random.pick(&self.headers.clone());
        let (field, bits) = self.random.pick(&header.declared());
        match self.random.below(5) {
            0 if scope.place == Place::Ingress => "std.color".into(),
            1 if bits >= 2 => format!("{}.{field}[1:0]", header.name),
            _ => "meta.colour".into(),
        }
    }

    /// Structural statements that path-specialised code does; headers that the parser reads are
    /// added and removed like others.
    fn specialised(&mut self, scope: &Scope) -> String {
        let header = self.random.pick(&self.headers.clone());
        match self.random.below(8) {
            0..4 => format!("set_valid({})", header.name),
            4..7 => format!("set_invalid({})", header.name),
            _ if scope.place == Place::Egress => "recirculate()".into(),
            _ => "digest(dig)".into(),
        }
    }

    /// Statements that keep the layout of the packet.
    fn simple_statement(&mut self, scope: &mut Scope) -> String {
        let header = self.random.pick(&self.headers.clone());
        match self.random.below(13) {
            0..4 => {
                let (field, bits) = self.random.pick(&header.fields);
                format!("{}.{field} = {}", header.name, self.expr(scope, bits, 3))
            }
            4 => {
                let (field, bits) = self.random.pick(&header.declared());
                let low = self.random.below(bits as usize) as u32;
                let high = low + self.random.below((bits - low) as usize) as u32;
                let value = self.expr(scope, high - low + 1, 2);
                format!("{}.{field}[{high}:{low}] = {value}", header.name)
            }
            5 => {
                let (meta, bits) = self.random.pick(&self.metas.clone());
                format!("{meta} = {}", self.expr(scope, bits, 3))
            }
            6 => {
                let bits = self.random.width();
                let name = self.name("l");
                let value = self.expr(scope, bits, 2);
                scope.locals.push((name.clone(), bits));
                format!("let {name} = bit<{bits}>({value})")
            }
            7 => {
                let index = self.index(scope, 8);
                format!("count(cnt, {index})")
            }
            8 if scope.place == Place::Ingress => {
                let fields = [
                    ("traffic_class", 3),
                    ("priority_group", 3),
                    ("ect", 1),
                    ("color", 2),
                    ("not_before_ns", 64),
                    ("hold_packets", 16),
                    ("hold_timeout_ns", 64),
                    ("egress_port", 16),
                    ("multicast_group", 16),
                ];
                let (field, bits) = self.random.pick(&fields);
                format!("std.{field} = {}", self.expr(scope, bits, 2))
            }
            9 => {
                let index = self.index(scope, 4);
                let colour = match self.random.chance(50) {
                    true => format!(", {}", self.expr(scope, 2, 1)),
                    false => String::new(),
                };
                format!("{} = execute(mtr, {index}{colour})", self.colour(scope))
            }
            10 => {
                let cell = self.random.below(self.register.len());
                let index = self.index(scope, 8);
                let (place, bits) = match self.random.chance(30) {
                    true => (format!("one[{index}]"), 16),
                    false => (format!("reg[{index}].x{cell}"), self.register[cell]),
                };
                match self.random.chance(50) {
                    true => format!("{place} = {}", self.expr(scope, bits, 2)),
                    false => {
                        let name = self.name("l");
                        scope.locals.push((name.clone(), bits));
                        format!("let {name} = {place}")
                    }
                }
            }
            11 => match header.array {
                Some((count, bits)) => {
                    let index = self.index(scope, count);
                    format!("{}.arr[{index}] = {}", header.name, self.expr(scope, bits, 2))
                }
                None => format!("{}.kind = {}", header.name, self.expr(scope, 8, 2)),
            },
            _ => {
                let (mut to, mut bits) = self.random.pick(&self.metas.clone());
                if self.random.chance(40) {
                    let (field, own) = self.random.pick(&header.fields);
                    (to, bits) = (format!("{}.{field}", header.name), own);
                }
                let low = self.random.value(bits) / 2;
                format!("{to} = random({bits}w{low}, {bits}w{})", low + low / 2)
            }
        }
    }

    /// Statements that change what headers there are, or what becomes of the packet.
    fn structural(&mut self, scope: &mut Scope) -> Option<String> {
        let header = self.random.pick(&self.headers.clone());
        let stack = self.stack.clone();
        Some(match self.random.below(17) {
            0 if !self.trailers.is_empty() && self.random.chance(40) => {
                let trailer = self.random.pick(&self.trailers.clone());
                let set = self.random.pick(&["set_valid", "set_invalid"]);
                format!("{set}({})", trailer.name)
            }
            0 | 1 => format!("set_valid({})", header.name),
            2 | 3 => format!("set_invalid({})", header.name),
            4 => format!("{} = {}", header.name, header.twin?),
            5 => format!("push({}, {})", stack?.name, 1 + self.random.below(2)),
            6 => format!("pop({}, {})", stack?.name, 1 + self.random.below(2)),
            7 => {
                let stack = stack?;
                let (field, bits) = self.random.pick(&stack.fields);
                let value = self.expr(scope, bits, 2);
                let at = match self.random.chance(50) {
                    true => self.index(scope, stack.len as u32),
                    false => self.random.below(stack.len).to_string(),
                };
                match self.random.below(5) {
                    0 => format!("set_valid({}[{at}])", stack.name),
                    1 => format!("set_invalid({}[{at}])", stack.name),
                    2 => {
                        let from = self.index(scope, stack.len as u32);
                        format!("{0}[{at}] = {0}[{from}]", stack.name)
                    }
                    _ => format!("{}[{at}].{field} = {value}", stack.name),
                }
            }
            8 if self.random.chance(70) => {
                let (to, from) = self.two_of_bytes(scope)?;
                // One whose length the header type gives is not assigned.
                let is_given = |h: &Header| h.given && to.starts_with(&format!("{}.", h.name));
                let may = to.ends_with(".blob") || self.headers.iter().any(is_given);
                may.then(|| format!("{to} = {from}"))?
            }
            8 => match self.random.chance(50) {
                true => format!("truncate({})", self.random.below(120)),
                false => format!("truncate({})", self.leaf(scope, 32)),
            },
            9 if self.random.chance(40) => format!("clone({})", self.expr(scope, 16, 1)),
            9 => format!("clone({})", 1 + self.random.below(5)),
            10 => "digest(dig)".into(),
            11 if scope.place == Place::Ingress && self.random.chance(30) => {
                self.random.pick(&["resubmit()", "resubmit_received()"]).into()
            }
            12 if self.random.chance(30) => "recirculate()".into(),
            14 => {
                let (a, b) = (self.expr(scope, 70, 2), self.expr(scope, 8, 2));
                match self.random.chance(50) {
                    true => format!("device_note({b})"),
                    false => {
                        let name = self.name("l");
                        scope.locals.push((name.clone(), 32));
                        format!("let {name} = device_weigh({a}, {b})")
                    }
                }
            }
            13 => {
                let known = (!self.crcs.is_empty()).then(|| self.random.pick(&self.crcs.clone()));
                format!("update_crc({})", known?)
            }
            _ => {
                let known = !self.trailers.is_empty();
                let trailer = known.then(|| self.random.pick(&self.trailers.clone()))?;
                let (field, bits) = self.random.pick(&trailer.fields);
                format!("{}.{field} = {}", trailer.name, self.expr(scope, bits, 2))
            }
        })
    }

    fn compound(&mut self, scope: &mut Scope, depth: u32) -> Vec<Value> {
        match self.random.below(10) {
            0..3 => {
                let condition = self.expr(scope, 1, 3);
                let mut then = self.statements(scope, depth, 4);
                then.extend(self.end(scope));
                let mut both = json!({ "if": condition, "then": then });
                if self.random.chance(50) {
                    both["else"] = json!(self.statements(scope, depth, 4));
                }
                vec![both]
            }
            3 => {
                let bits = self.random.pick(&[2, 8, 70]);
                let value = self.expr(scope, bits, 2);
                let first = self.statements(scope, depth, 3);
                let second = self.statements(scope, depth, 3);
                let default = self.statements(scope, depth, 3);
                let second_labels = self.random.pick(&["1", "1, 2", "3, 1, 2"]);
                vec![json!({
                    "switch": value,
                    "cases": { "0": first, second_labels: second },
                    "default": default,
                })]
            }
            4 => self.update(scope),
            5 => self.call(scope),
            6 => self.learn(scope),
            7 => self.block(scope),
            _ => self.apply(scope, depth),
        }
    }

    /// The pass or the body may end here.
    fn end(&mut self, scope: &Scope) -> Option<Value> {
        let ends = ["drop", "drop odd_one", "punt strange", "exit", "return"];
        let punts = scope.place == Place::Ingress;
        let end = self.random.pick(&ends);
        (self.random.chance(20) && (punts || !end.starts_with("punt"))).then(|| json!(end))
    }

    /// Blocks of statements with parameters; each may call those before it.
    pub(super) fn blocks(&mut self, top: &mut Map<String, Value>) {
        let mut blocks = Map::new();
        for place in [Place::Ingress, Place::Egress] {
            for _ in 0..self.random.below(3) {
                let name = self.name("c");
                let (mut declared, mut params, mut body) = (Map::new(), Vec::new(), Vec::new());
                let mut scope =
                    Scope { place, locals: vec![], in_action: false, actions: usize::MAX };
                for n in 0..self.random.below(3) {
                    let (meta, bits) = self.random.pick(&self.metas.clone());
                    let direction = self.random.pick(&["in", "out", "inout"]);
                    let param = format!("{name}_{n}");
                    declared.insert(param.clone(), json!({ "bits": bits, "direction": direction }));
                    params.push((bits, (direction != "in").then_some(meta)));
                    scope.locals.push((param.clone(), bits));
                    if self.random.chance(70) {
                        body.push(json!(format!("{param} = {}", self.expr(&scope, bits, 2))));
                    }
                }
                body.extend(self.statements(&mut scope, 1, 4));
                let body = match declared.is_empty() {
                    true => json!(body),
                    false => json!({ "params": declared, "do": body }),
                };
                blocks.insert(name.clone(), body);
                self.controls.push(Control { name, params, place });
            }
        }
        if !blocks.is_empty() {
            top.insert("controls".into(), Value::Object(blocks));
        }
    }

    /// A call of a block.
    fn block(&mut self, scope: &Scope) -> Vec<Value> {
        let known = self.controls.iter().filter(|control| control.place == scope.place);
        let known: Vec<_> = known.cloned().collect();
        if scope.in_action || known.is_empty() {
            return Vec::new();
        }
        let control = self.random.pick(&known);
        let named = self.random.chance(30);
        let mut args = Vec::new();
        for (n, (bits, to)) in control.params.iter().enumerate() {
            let value = match to {
                Some(place) => self.out(scope, place, *bits),
                None => self.expr(scope, *bits, 2),
            };
            args.push(if named { format!("{}_{n} = {value}", control.name) } else { value });
        }
        if named {
            args.reverse();
        }
        let call = match args.is_empty() {
            true => control.name,
            false => format!("{}({})", control.name, args.join(", ")),
        };
        vec![json!({ "call": call })]
    }

    /// Where an argument is copied back to: metadata, or a local or a field of that width.
    fn out(&mut self, scope: &Scope, meta: &str, bits: u32) -> String {
        let locals = scope.locals.iter().filter(|(name, own)| *own == bits && !name.contains('.'));
        let locals: Vec<String> = locals.map(|(name, _)| name.clone()).collect();
        let fields = self.headers.iter().flat_map(|header| {
            let fields = header.declared().into_iter().filter(|(_, own)| *own == bits);
            fields.map(|(field, _)| format!("{}.{field}", header.name))
        });
        let fields: Vec<String> = fields.collect();
        match self.random.below(4) {
            0 if !locals.is_empty() => self.random.pick(&locals),
            1 if !fields.is_empty() => self.random.pick(&fields),
            _ => meta.to_owned(),
        }
    }

    /// An atomic change of a register, with conditions inside.
    fn update(&mut self, scope: &mut Scope) -> Vec<Value> {
        let name = self.name("r");
        let index = self.index(scope, 8);
        if self.random.chance(20) {
            scope.locals.push((name.clone(), 16));
            let value = self.pure(scope, 16);
            scope.locals.pop();
            let set = format!("{name} = {value}");
            return vec![json!({ "update": format!("one[{index}]"), "as": name, "do": [set] })];
        }
        let outer = scope.locals.len();
        for (cell, bits) in self.register.clone().into_iter().enumerate() {
            scope.locals.push((format!("{name}.x{cell}"), bits));
        }
        let mut body = Vec::new();
        for cell in 0..1 + self.random.below(self.register.len()) {
            let value = self.pure(scope, self.register[cell]);
            let set = json!(format!("{name}.x{cell} = {value}"));
            body.push(match self.random.chance(50) {
                true => {
                    let condition = self.pure(scope, 1);
                    let header = self.random.pick(&self.headers.clone());
                    let (field, bits) = self.random.pick(&header.fields);
                    let copy = self.pure(scope, bits);
                    let copy = json!(format!("{}.{field} = {copy}", header.name));
                    json!({ "if": condition, "then": [set], "else": [copy] })
                }
                false => set,
            });
        }
        scope.locals.truncate(outer);
        vec![json!({ "update": format!("reg[{index}]"), "as": name, "do": body })]
    }

    /// An expression without an array index, which could end the pass under the lock.
    fn pure(&mut self, scope: &Scope, bits: u32) -> String {
        loop {
            let value = self.expr(scope, bits, 2);
            if !value.contains(".arr[") {
                return value;
            }
        }
    }

    fn call(&mut self, scope: &mut Scope) -> Vec<Value> {
        let known = self.actions.iter().take(scope.actions);
        let known: Vec<_> = known.filter(|action| action.place == scope.place).cloned().collect();
        if known.is_empty() {
            return Vec::new();
        }
        let action = self.random.pick(&known);
        let args: Vec<String> =
            action.params.iter().map(|bits| self.expr(scope, *bits, 2)).collect();
        match args.is_empty() {
            true => vec![json!(action.name)],
            false => vec![json!(format!("{}({})", action.name, args.join(", ")))],
        }
    }

    fn learn(&mut self, scope: &mut Scope) -> Vec<Value> {
        let known = self.tables.iter().filter(|table| table.learnable.is_some());
        let known: Vec<_> = known.cloned().collect();
        if known.is_empty() {
            return Vec::new();
        }
        let table = self.random.pick(&known);
        let widths = table.learnable.clone().unwrap_or_default();
        let key: Vec<String> = widths.iter().map(|bits| self.expr(scope, *bits, 1)).collect();
        let action = self.random.pick(&table.actions);
        let args: Vec<String> =
            action.params.iter().map(|bits| self.expr(scope, *bits, 1)).collect();
        let call = format!("{}({})", action.name, args.join(", "));
        vec![json!({ "learn": table.name, "key": key, "action": call })]
    }

    fn apply(&mut self, scope: &mut Scope, depth: u32) -> Vec<Value> {
        let known = self.tables.iter().filter(|table| table.place == scope.place);
        let known: Vec<_> = known.cloned().collect();
        if scope.in_action || known.is_empty() {
            return Vec::new();
        }
        let table = self.random.pick(&known);
        let mut apply = json!({ "apply": table.name });
        match self.random.below(3) {
            0 => {
                apply["hit"] = json!(self.statements(scope, depth, 3));
                apply["miss"] = json!(self.statements(scope, depth, 3));
            }
            1 => {
                let mut names = vec![self.random.pick(&table.actions).name];
                let other = self.random.pick(&table.actions).name;
                if !names.contains(&other) {
                    names.push(other);
                }
                let action = names.join(", ");
                let (some, others) =
                    (self.statements(scope, depth, 3), self.statements(scope, depth, 2));
                apply["actions"] = json!({ action: some, "default": others });
            }
            _ => {}
        }
        vec![apply]
    }
}
