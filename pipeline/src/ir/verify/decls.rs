//! Declarations, the parser, the deparser, checksums and CRCs.

use super::Verifier;
use crate::ir::decl::{CARRIED_BYTES_MAX, CARRIED_INLINE_BYTES, CARRIED_MARK_AT, INSTANCES_MAX};
use crate::ir::layout::ones;
use crate::ir::*;
use std::collections::BTreeSet;

impl Verifier<'_> {
    pub(super) fn decls(&mut self) {
        self.instances();
        self.metadata();
        self.actions();
        for (id, table) in self.program.tables.entries() {
            self.table(id, table);
        }
        self.digests();
        self.deparser();
        self.covers();
        let qos = &self.program.qos;
        for (pair, bits) in [(qos.dscp, 6), (qos.pcp, 3)] {
            let Some((value, valid)) = pair else { continue };
            let fits = self.bits(value) == bits && self.bits(valid) == 1;
            self.ensure(fits, || format!("qos: a value that is not {bits} bits"));
        }
    }

    fn instances(&mut self) {
        let program = self.program;
        self.ensure(program.instances.len() <= INSTANCES_MAX, || "more than 64 instances".into());
        for (id, instance) in program.instances.entries() {
            let known = program.headers.get(instance.header).is_some();
            self.ensure(known, || format!("{id}: there is no {}", instance.header));
            if let Some(bits) = instance.variable_bits {
                let width = self.bits(bits);
                self.ensure(width == 32, || format!("{id}: a length of {width} bits"));
                self.locals_of(bits, &IdVec::new(), false, &id.to_string());
            }
        }
        for (id, stack) in program.stacks.entries() {
            for at in 0..stack.len {
                let element = program.instances.get(InstanceId(stack.first.0 + at));
                let fits = element.is_some_and(|element| element.element == Some((id, at)));
                self.ensure(fits, || format!("{id}: element {at} is not behind the others"));
            }
        }
    }

    fn metadata(&mut self) {
        let mut used = [false; CARRIED_BYTES_MAX as usize];
        if self.program.carried_bytes > CARRIED_INLINE_BYTES {
            used[CARRIED_MARK_AT as usize] = true;
        }
        for (id, meta) in self.program.metadata.entries() {
            self.ensure((1..=128).contains(&meta.bits), || format!("{id}: {} bits", meta.bits));
            let Some(at) = meta.carried_at else { continue };
            for byte in at..at + meta.bits.div_ceil(8) {
                let taken = used.get_mut(byte as usize).map(|used| std::mem::replace(used, true));
                self.ensure(taken == Some(false), || format!("{id}: carried byte {byte}"));
            }
            let end = at + meta.bits.div_ceil(8);
            let apart = at >= CARRIED_INLINE_BYTES || end <= CARRIED_INLINE_BYTES;
            self.ensure(apart && end <= self.program.carried_bytes, || {
                format!("{id}: carried at {at}")
            });
        }
    }

    fn actions(&mut self) {
        let names: Vec<&str> =
            self.program.actions.iter().take(2).map(|a| a.name.as_str()).collect();
        self.ensure(names == ["nop", "drop"], || "the first actions are not nop and drop".into());
        for (id, action) in self.program.actions.entries() {
            let locals = action.body.locals.iter().map(|local| local.bits);
            let params = action.params.iter().map(|param| param.bits);
            let fits = params.clone().eq(locals.take(action.params.len()));
            self.ensure(fits || action.body.blocks.is_empty(), || {
                format!("{id}: locals are not its parameters")
            });
            let mut seen = BTreeSet::new();
            let mut open = callees(&action.body);
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(
                        self.program
                            .actions
                            .get(next)
                            .map(|a| callees(&a.body))
                            .unwrap_or_default(),
                    );
                }
            }
            self.ensure(!seen.contains(&id), || format!("{id} calls itself"));
        }
    }

    fn table(&mut self, id: TableId, table: &Table) {
        let selector = table.selector.iter().flat_map(|selector| &selector.keys).copied();
        for key in table.keys.iter().map(|key| key.value).chain(selector) {
            self.locals_of(key, &IdVec::new(), false, &id.to_string());
        }
        for key in &table.keys {
            let bits = self.bits(key.value);
            self.ensure(bits == key.bits, || format!("{id}: key `{}` has {bits} bits", key.name));
        }
        for action in &table.actions {
            let known = self.program.actions.get(*action).is_some();
            self.ensure(known, || format!("{id}: there is no {action}"));
        }
        self.call(&table.default, &format!("{id}: the default"));
        for entry in &table.entries {
            self.ensure(entry.matches.len() == table.keys.len(), || format!("{id}: an entry"));
            self.ensure(table.actions.contains(&entry.call.action), || {
                format!("{id}: an entry's action")
            });
            self.call(&entry.call, &format!("{id}: an entry"));
        }
        let fits = table.entries.len() <= table.size as usize;
        self.ensure(fits, || format!("{id}: more entries than its size"));
    }

    fn call(&mut self, call: &ActionCall, what: &str) {
        let fits = self.program.actions.get(call.action).is_some_and(|action| {
            action.params.len() == call.args.len()
                && action.params.iter().zip(&call.args).all(|(p, arg)| *arg <= ones(p.bits))
        });
        self.ensure(fits, || format!("{what} has data that does not fit {}", call.action));
    }

    fn digests(&mut self) {
        for (id, digest) in self.program.digests.entries() {
            self.args(Some(&digest.fields), &digest.values, &id.to_string());
            for value in &digest.values {
                self.locals_of(*value, &IdVec::new(), false, &id.to_string());
            }
        }
    }

    fn deparser(&mut self) {
        let deparser = &self.program.deparser;
        let mut seen = BTreeSet::new();
        for id in &deparser.emit {
            let new = seen.insert(*id) && self.program.instances.get(*id).is_some();
            self.ensure(new, || format!("deparser: {id} twice, or not there"));
        }
        for item in &deparser.after {
            match item {
                AfterBody::Header(id) => {
                    let new = seen.insert(*id) && self.program.instances.get(*id).is_some();
                    self.ensure(new, || format!("deparser: {id} twice, or not there"));
                }
                AfterBody::Pad { bytes, when, .. } => {
                    let fits =
                        self.bits(*bytes) == 32 && when.is_none_or(|when| self.bits(when) == 1);
                    self.ensure(fits, || "deparser: a pad of wrong width".into());
                }
            }
        }
    }

    fn covers(&mut self) {
        let program = self.program;
        for (id, checksum) in program.checksums.entries() {
            let bits = self.field_bits(checksum.field.0, checksum.field.1);
            self.ensure(bits == Some(16), || format!("{id}: a field that is not 16 bits"));
            self.covered(&checksum.over, checksum.when, &id.to_string());
        }
        for (id, crc) in program.crcs.entries() {
            let bits = self.field_bits(crc.field.0, crc.field.1);
            self.ensure(bits == Some(crc.params.width), || format!("{id}: a field of other width"));
            self.covered(&crc.over, crc.when, &id.to_string());
        }
    }

    fn covered(&mut self, over: &[Covered], when: Option<ExprId>, what: &str) {
        let bit = when.is_none_or(|when| self.bits(when) == 1);
        self.ensure(bit, || format!("{what}: a condition of more than a bit"));
        for covered in over {
            match covered {
                Covered::Header { instance, ones } => {
                    let header = self.program.instances.get(*instance).map(|i| i.header);
                    let bytes =
                        header.and_then(|h| self.program.headers.get(h)).map(|h| h.fixed_bytes);
                    let fits = bytes.is_some_and(|b| ones.is_empty() || ones.len() == b as usize);
                    self.ensure(fits, || format!("{what}: a mask that is not like {instance}"));
                }
                Covered::Value(value) => {
                    let bits = self.bits(*value);
                    self.ensure(bits > 0 && bits.is_multiple_of(8), || {
                        format!("{what}: {bits} bits")
                    });
                }
                Covered::After(at) => {
                    let known = self.program.deparser.after.get(*at as usize).is_some();
                    self.ensure(known, || format!("{what}: nothing {at} behind the body"));
                }
                Covered::Ones(_) | Covered::Body => {}
            }
        }
    }

    pub(super) fn parser(&mut self) {
        let parser = &self.program.parser;
        for (id, state) in parser.states.entries() {
            for target in state.next.targets() {
                let known = match target {
                    Target::State(to) => parser.states.get(to).is_some(),
                    Target::Reject(error) => self.program.errors.get(error).is_some(),
                    Target::Accept => true,
                };
                self.ensure(known, || format!("{id}: {target:?} is not there"));
            }
            for op in &state.ops {
                self.parser_op(op, &id.to_string());
            }
            if let Transition::Select { keys, cases, .. } = &state.next {
                for key in keys {
                    self.locals_of(*key, &parser.locals, true, &id.to_string());
                }
                for case in cases {
                    let fits = case.patterns.len() == keys.len()
                        && case.patterns.iter().zip(keys).all(|(p, key)| self.pattern(p, *key));
                    self.ensure(fits, || format!("{id}: a pattern that does not fit its key"));
                }
            }
        }
        let reached = validity::parser(self.program);
        for (id, entry) in parser.states.ids().zip(&reached.entry) {
            self.ensure(entry.is_some(), || format!("{id} is never reached"));
        }
    }

    fn pattern(&self, pattern: &Pattern, key: ExprId) -> bool {
        let bits = self.bits(key);
        let most = ones(bits);
        match pattern {
            Pattern::Any => true,
            Pattern::Value(value) => *value <= most,
            Pattern::Mask { value, mask } => *mask <= most && value & !mask == 0,
            Pattern::Range { low, high } => low <= high && *high <= most,
            Pattern::Set(set) => {
                self.program.value_sets.get(*set).is_some_and(|s| s.bits() == bits)
            }
        }
    }

    fn parser_op(&mut self, op: &ParserOp, place: &str) {
        let program = self.program;
        let exprs = match op {
            ParserOp::Extract(_)
            | ParserOp::ExtractNext(_)
            | ParserOp::SetValid(_)
            | ParserOp::SetInvalid(_) => Vec::new(),
            ParserOp::ExtractAt(_, expr)
            | ParserOp::Advance(expr)
            | ParserOp::BodyEnd(expr)
            | ParserOp::Set(_, expr)
            | ParserOp::Verify(expr, _) => vec![*expr],
        };
        for expr in exprs {
            self.locals_of(expr, &program.parser.locals, true, place);
        }
        match op {
            ParserOp::Extract(id) | ParserOp::SetValid(id) | ParserOp::SetInvalid(id) => {
                let known = program.instances.get(*id).is_some();
                self.ensure(known, || format!("{place}: there is no {id}"));
            }
            ParserOp::ExtractNext(id) => {
                let known = program.stacks.get(*id).is_some();
                self.ensure(known, || format!("{place}: there is no {id}"));
            }
            ParserOp::ExtractAt(id, offset) => {
                let fits = program.instances.get(*id).is_some() && self.bits(*offset) == 32;
                self.ensure(fits, || format!("{place}: {id} cannot be read there"));
            }
            ParserOp::Advance(offset) | ParserOp::BodyEnd(offset) => {
                let bits = self.bits(*offset);
                self.ensure(bits == 32, || format!("{place}: an offset of {bits} bits"));
            }
            ParserOp::Set(to, value) => self.assigned(to, &[*value], &program.parser.locals, place),
            ParserOp::Verify(cond, error) => {
                let fits = self.bits(*cond) == 1 && program.errors.get(*error).is_some();
                self.ensure(fits, || format!("{place}: a check that does not fit"));
            }
        }
    }
}

fn callees(body: &Body) -> Vec<ActionId> {
    let ops = body.blocks.iter().flat_map(|block| &block.ops);
    ops.filter_map(|op| match op.op {
        Op::Call(action, _) => Some(action),
        _ => None,
    })
    .collect()
}
