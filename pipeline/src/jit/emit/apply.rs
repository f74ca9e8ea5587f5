//! Tables: keys in registers, lookups in the code, actions inlined where their table is applied.

use super::{Emit, Refused, descriptor, flags, frame_offset};
use crate::ids::*;
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use std::mem::{offset_of, size_of};
use wireyard_tables::Place;
use wireyard_tables::hash::{K0, K1};
use wireyard_tables::raw::{BUCKET, Layout, NODE, NODE_BITS, RawTable};

/// What was found: the data of the action and its place in the table's list.
#[derive(Clone, Copy)]
struct Found {
    action: Value,
    data: Value,
}

/// Where a lookup goes: with slot, action and data on a hit.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    pub(super) hit: Block,
    pub(super) miss: Block,
}

impl Emit<'_> {
    /// The key of a table in the words of its layout.
    pub(super) fn key_words(
        &mut self,
        table: TableId,
        key: &[ExprId],
    ) -> Result<Vec<Value>, Refused> {
        let facts = self.facts;
        let known = &facts.tables[table.index()];
        let zero = self.num(0);
        let mut words: Vec<Option<Value>> = vec![None; known.key_words];
        for (place, expr) in known.places.iter().zip(key) {
            let (bits, value) = (self.bits(*expr), self.expr(*expr)?);
            let width = place.bits;
            let value = self.resize(value, bits, width);
            let value = if bits > width { self.masked(value, width) } else { value };
            let (low, high) = self.words(value, width);
            let low = self.b.ins().ishl_imm_u(low, i64::from(place.shift));
            let low = match words[place.word] {
                Some(old) => self.b.ins().bor(old, low),
                None => low,
            };
            words[place.word] = Some(low);
            if width > 64 {
                words[place.word + 1] = Some(high);
            }
        }
        Ok(words.into_iter().map(|word| word.unwrap_or(zero)).collect())
    }

    /// Looks a table up, runs the action, goes on by what happened.
    pub(super) fn apply(
        &mut self,
        id: TableId,
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), Refused> {
        let (program, facts) = (self.program, self.facts);
        let (table, known) = (&program.tables[id], &facts.tables[id.index()]);
        let keys: Vec<ExprId> = table.keys.iter().map(|key| key.value).collect();
        let words = self.key_words(id, &keys)?;
        let ways = Ways { hit: self.b.create_block(), miss: self.b.create_block() };
        for _ in 0..3 {
            self.b.append_block_param(ways.hit, I64);
        }
        let tables = self.load64(self.frame, frame_offset!(tables));
        let raw = self.b.ins().iadd_imm_s(tables, (id.index() * size_of::<RawTable>()) as i64);
        match known.layout {
            Layout::Exact { key_words, .. } if key_words > 0 => {
                self.lookup_exact(raw, &words, known.layout, ways);
            }
            Layout::Lpm { field, root_bits, record_words } if field.bits <= 64 => {
                self.lookup_lpm(raw, &words, field, root_bits, record_words, ways);
            }
            _ => self.lookup_call(id, &words, ways)?,
        }

        // Both ways lead to one place where the action is run. Whether it was a hit is told only
        // where that matters.
        let run = self.b.create_block();
        let params = if hit == miss { 2 } else { 3 };
        for _ in 0..params {
            self.b.append_block_param(run, I64);
        }
        self.b.switch_to_block(ways.hit);
        let found = self.hit(id, ways.hit)?;
        let one = self.num(1);
        let args: [BlockArg; 3] = [found.action.into(), found.data.into(), one.into()];
        self.b.ins().jump(run, &args[..params]);

        self.b.switch_to_block(ways.miss);
        let default = self.load64(raw, offset_of!(RawTable, default) as i32);
        let action = self.load64(default, 0);
        let data = self.b.ins().iadd_imm_s(default, 8);
        let zero = self.num(0);
        let args: [BlockArg; 3] = [action.into(), data.into(), zero.into()];
        self.b.ins().jump(run, &args[..params]);

        self.b.switch_to_block(run);
        let params = self.b.block_params(run).to_vec();
        self.run_actions(id, &params, by_action, hit, miss)
    }

    /// Counter, last hit, meter and selector of a hit.
    fn hit(&mut self, id: TableId, block: Block) -> Result<Found, Refused> {
        let (program, facts) = (self.program, self.facts);
        let (table, known) = (&program.tables[id], &facts.tables[id.index()]);
        let params = self.b.block_params(block).to_vec();
        let [slot, action, data] = params[..] else { return Err(Refused::TooLarge) };
        if known.has_counters {
            self.add_to_lane(facts.counters.tables + id.index(), slot);
        }
        if known.has_last_hits {
            self.touch(id, slot);
        }
        if !known.has_meters && table.selector.is_none() {
            return Ok(Found { action, data });
        }
        self.store_frame(slot, frame_offset!(hit_slot));
        self.store_frame(action, frame_offset!(hit_action));
        self.store_frame(data, frame_offset!(hit_data));
        let number = self.num(id.0.into());
        if known.has_meters {
            if let Some(made) = self.decisions {
                let (marks, packet) = (self.b.use_var(made.flags), self.packet);
                self.store_word(marks, packet, descriptor!(flags), 1);
            }
            self.call(Helper::HitMeter, &[number]);
            if let Some(made) = self.decisions {
                let marks = self.load_word(self.packet, descriptor!(flags), 1);
                self.b.def_var(made.flags, marks);
            }
        }
        if let Some(selector) = &table.selector {
            let hash = self.hash(selector.hash, &selector.keys)?;
            self.call(Helper::Select, &[number, hash]);
        }
        let action = self.load64(self.frame, frame_offset!(hit_action));
        let data = self.load64(self.frame, frame_offset!(hit_data));
        Ok(Found { action, data })
    }

    /// Notes when an entry was last hit.
    pub(super) fn touch(&mut self, id: TableId, slot: Value) {
        let tables = self.load64(self.frame, frame_offset!(tables));
        let at = id.index() * size_of::<RawTable>() + offset_of!(RawTable, last_hits);
        let times = self.load64(tables, at as i32);
        let offset = self.b.ins().ishl_imm_u(slot, 3);
        let time = self.b.ins().iadd(times, offset);
        let now = self.now_ns();
        let now = self.picoseconds(now);
        self.b.ins().store(flags(), now, time, 0);
    }

    /// Nanoseconds to picoseconds as [`wireyard_tables::time::Time::from_ns`] does.
    fn picoseconds(&mut self, ns: Value) -> Value {
        let thousand = self.num(1000);
        let (low, high) = (self.b.ins().imul(ns, thousand), self.b.ins().umulhi(ns, thousand));
        let most = self.num(u64::MAX);
        self.b.ins().select(high, most, low)
    }

    fn run_actions(
        &mut self,
        id: TableId,
        params: &[Value],
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), Refused> {
        let [place, data] = params[..2] else { return Err(Refused::TooLarge) };
        let was_hit = params.get(2).copied();
        let program = self.program;
        let actions = &program.tables[id].actions;
        for (n, action) in actions.iter().enumerate() {
            let (this, other) = (self.b.create_block(), self.b.create_block());
            let number = self.num(n as u64);
            let same = self.compare(IntCC::Equal, place, number);
            self.b.ins().brif(same, this, &[], other, &[]);
            self.b.switch_to_block(this);
            self.run_action(*action, data, was_hit, by_action, hit, miss)?;
            self.b.switch_to_block(other);
        }
        // A place that does not exist is `nop`, as for the interpreter.
        self.go_by_hit(was_hit, hit, miss);
        Ok(())
    }

    fn run_action(
        &mut self,
        action: ActionId,
        data: Value,
        was_hit: Option<Value>,
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), Refused> {
        let program = self.program;
        let declared = &program.actions[action];
        let mut args = Vec::with_capacity(declared.params.len());
        let mut at = 0;
        for param in &declared.params {
            let low = self.load64(data, at);
            at += 8;
            if param.bits > 64 {
                let high = self.load64(data, at);
                at += 8;
                args.push(self.b.ins().iconcat(low, high));
            } else {
                args.push(low);
            }
        }
        let done = self.b.create_block();
        self.body(&declared.body, &args, done)?;
        self.b.switch_to_block(done);
        match by_action.iter().find(|(known, _)| *known == action) {
            Some((_, to)) => {
                self.b.ins().jump(*to, &[]);
            }
            None => self.go_by_hit(was_hit, hit, miss),
        }
        Ok(())
    }

    fn go_by_hit(&mut self, was_hit: Option<Value>, hit: Block, miss: Block) {
        match was_hit {
            Some(was_hit) if hit != miss => self.b.ins().brif(was_hit, hit, &[], miss, &[]),
            _ => self.b.ins().jump(hit, &[]),
        };
    }

    fn lookup_call(&mut self, id: TableId, words: &[Value], ways: Ways) -> Result<(), Refused> {
        for (n, word) in words.iter().enumerate() {
            self.put_value(n, *word, 64)?;
        }
        let table = self.num(id.0.into());
        let found = self.call(Helper::Lookup, &[table]);
        let yes = self.b.create_block();
        self.b.ins().brif(found, yes, &[], ways.miss, &[]);
        self.b.switch_to_block(yes);
        let slot = self.load64(self.frame, frame_offset!(hit_slot));
        let action = self.load64(self.frame, frame_offset!(hit_action));
        let data = self.load64(self.frame, frame_offset!(hit_data));
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
        Ok(())
    }

    fn fold(&mut self, a: Value, b: Value) -> Value {
        let (low, high) = (self.b.ins().imul(a, b), self.b.ins().umulhi(a, b));
        self.b.ins().bxor(low, high)
    }

    /// The hash of [`wireyard_tables::hash`].
    fn key_hash(&mut self, words: &[Value], seed: u64) -> Value {
        let mut hash = self.num(seed);
        for pair in words.chunks(2) {
            hash = match *pair {
                [a, b] => {
                    let k = self.num(K0);
                    let (a, b) = (self.b.ins().bxor(a, hash), self.b.ins().bxor(b, k));
                    self.fold(a, b)
                }
                [c] => {
                    let k = self.num(K1);
                    let c = self.b.ins().bxor(c, hash);
                    self.fold(c, k)
                }
                _ => hash,
            };
        }
        hash
    }

    /// See [`wireyard_tables::raw`].
    pub(super) fn lookup_exact(&mut self, raw: Value, words: &[Value], layout: Layout, ways: Ways) {
        let Layout::Exact { cell_words, data_at, record_words, seed, .. } = layout else { return };
        let cells = self.load64(raw, offset_of!(RawTable, cells) as i32);
        let hash = self.key_hash(words, seed);
        let shift = self.load_word(raw, offset_of!(RawTable, shift) as i32, 4);
        let pair = self.b.ins().ushr(hash, shift);
        let (probe, found, next) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let same = self.b.create_block();
        let pair_param = self.b.append_block_param(probe, I64);
        let (cell_param, head_param) =
            (self.b.append_block_param(found, I64), self.b.append_block_param(found, I64));
        self.b.ins().jump(probe, &[pair.into()]);

        // The second cell unless the first one has the key; then one look at the one that is left.
        self.b.switch_to_block(probe);
        let bytes = cell_words as u64 * 16;
        let offset = match bytes.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(pair_param, i64::from(bytes.ilog2())),
            false => self.b.ins().imul_imm_u(pair_param, bytes as i64),
        };
        let first = self.b.ins().iadd(cells, offset);
        let other = self.cell_differs(first, words);
        let other = self.b.ins().uextend(I64, other);
        let step = match (bytes / 2).is_power_of_two() {
            true => self.b.ins().ishl_imm_u(other, i64::from((bytes / 2).ilog2())),
            false => self.b.ins().imul_imm_u(other, (bytes / 2) as i64),
        };
        let cell = self.b.ins().iadd(first, step);
        let differs = self.cell_differs(cell, words);
        self.b.ins().brif(differs, next, &[], same, &[]);
        self.b.switch_to_block(same);
        let head = self.load64(cell, 0);
        self.b.ins().brif(head, found, &[cell.into(), head.into()], next, &[]);

        self.b.switch_to_block(next);
        self.b.set_cold_block(next);
        let first_head = self.load64(first, 0);
        let second_head = self.load64(first, (bytes / 2) as i32);
        let zero = self.num(0);
        let empty_first = self.compare(IntCC::Equal, first_head, zero);
        let empty_second = self.compare(IntCC::Equal, second_head, zero);
        let empty = self.b.ins().bor(empty_first, empty_second);
        let mask = self.load64(raw, offset_of!(RawTable, pair_mask) as i32);
        let more = self.b.ins().iadd_imm_s(pair_param, 1);
        let more = self.b.ins().band(more, mask);
        self.b.ins().brif(empty, ways.miss, &[], probe, &[more.into()]);

        self.b.switch_to_block(found);
        let head = head_param;
        let action = self.b.ins().ushr_imm_u(head, 32);
        let slot = self.masked(head, 32);
        let slot = self.b.ins().iadd_imm_s(slot, -1);
        let data = match data_at {
            Some(word) => self.b.ins().iadd_imm_s(cell_param, word as i64 * 8),
            None => {
                let records = self.load64(raw, offset_of!(RawTable, records) as i32);
                self.record(records, slot, record_words).1
            }
        };
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
    }

    /// Whether a cell has another key, as a condition.
    fn cell_differs(&mut self, cell: Value, words: &[Value]) -> Value {
        if let [word] = words {
            let stored = self.load64(cell, 8);
            return self.compare(IntCC::NotEqual, stored, *word);
        }
        let mut differs: Option<Value> = None;
        for (n, word) in words.iter().enumerate() {
            let stored = self.load64(cell, 8 + n as i32 * 8);
            let this = self.b.ins().bxor(stored, *word);
            differs = Some(match differs {
                Some(differs) => self.b.ins().bor(differs, this),
                None => this,
            });
        }
        let differs = differs.unwrap_or_else(|| self.num(0));
        self.b.ins().icmp_imm_u(IntCC::NotEqual, differs, 0)
    }

    /// Address of a record, and of the data in it.
    fn record(&mut self, records: Value, slot: Value, record_words: usize) -> (Value, Value) {
        let bytes = record_words as u64 * 8;
        let offset = match bytes.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(slot, i64::from(bytes.ilog2())),
            false => self.b.ins().imul_imm_u(slot, bytes as i64),
        };
        let record = self.b.ins().iadd(records, offset);
        (record, self.b.ins().iadd_imm_s(record, 8))
    }

    /// See [`wireyard_tables::raw`].
    fn lookup_lpm(
        &mut self,
        raw: Value,
        words: &[Value],
        field: Place,
        root_bits: u32,
        record_words: usize,
        ways: Ways,
    ) {
        let cells = self.load64(raw, offset_of!(RawTable, cells) as i32);
        let rest =
            self.b.ins().ishl_imm_u(words[field.word], i64::from(64 - field.shift - field.bits));
        let at = self.b.ins().ushr_imm_u(rest, i64::from(64 - root_bits));
        let cell = self.cell32(cells, at);
        let rest = self.b.ins().ishl_imm_u(rest, i64::from(root_bits));
        let (walk, node, leaf, bucket, end) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let (cell_in, rest_in) =
            (self.b.append_block_param(walk, I64), self.b.append_block_param(walk, I64));
        let leaf_in = self.b.append_block_param(end, I64);
        let args: [BlockArg; 2] = [cell.into(), rest.into()];
        self.b.ins().jump(walk, &args);

        self.b.switch_to_block(walk);
        let flag = self.b.ins().band_imm_u(cell_in, i64::from(NODE));
        self.b.ins().brif(flag, node, &[], leaf, &[]);
        self.b.switch_to_block(node);
        let unit = self.b.ins().band_imm_u(cell_in, i64::from(!NODE));
        let first = self.b.ins().ishl_imm_u(unit, 4);
        let digit = self.b.ins().ushr_imm_u(rest_in, i64::from(64 - NODE_BITS));
        let at = self.b.ins().iadd(first, digit);
        let cell = self.cell32(cells, at);
        let rest = self.b.ins().ishl_imm_u(rest_in, i64::from(NODE_BITS));
        let args: [BlockArg; 2] = [cell.into(), rest.into()];
        self.b.ins().jump(walk, &args);

        self.b.switch_to_block(leaf);
        let flag = self.b.ins().band_imm_u(cell_in, i64::from(BUCKET));
        self.b.ins().brif(flag, bucket, &[], end, &[cell_in.into()]);
        self.b.switch_to_block(bucket);
        let unit = self.b.ins().band_imm_u(cell_in, i64::from(!BUCKET));
        let first = self.b.ins().ishl_imm_u(unit, 6);
        let line = self.b.ins().iadd(cells, first);
        let mut best = self.load_word(line, 0, 4);
        for n in 1..4 {
            best = self.bucket_entry(line, n * 16, rest_in, best);
        }
        self.b.ins().jump(end, &[best.into()]);

        self.b.switch_to_block(end);
        let (yes, none) = (self.b.create_block(), self.b.create_block());
        let leaf = self.b.append_block_param(yes, I64);
        self.b.set_cold_block(none);
        self.b.ins().brif(leaf_in, yes, &[leaf_in.into()], none, &[]);
        self.b.switch_to_block(none);
        let zero_leaf = self.load_word(raw, offset_of!(RawTable, zero_leaf) as i32, 4);
        self.b.ins().brif(zero_leaf, yes, &[zero_leaf.into()], ways.miss, &[]);
        self.b.switch_to_block(yes);
        let slot = self.b.ins().iadd_imm_s(leaf, -1);
        let records = self.load64(raw, offset_of!(RawTable, records) as i32);
        let (record, data) = self.record(records, slot, record_words);
        let action = self.load64(record, 0);
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
    }

    /// `[value, value, leaf, shift]` at an offset of a bucket: its leaf if the rest matches.
    fn bucket_entry(&mut self, line: Value, at: i32, rest: Value, best: Value) -> Value {
        let value = self.load64(line, at);
        let (leaf, shift) = (self.load_word(line, at + 8, 4), self.load_word(line, at + 12, 4));
        let differs = self.b.ins().bxor(rest, value);
        let differs = self.b.ins().ushr(differs, shift);
        self.b.ins().select(differs, best, leaf)
    }

    /// A word of 32 bits of an array.
    fn cell32(&mut self, cells: Value, index: Value) -> Value {
        let offset = self.b.ins().ishl_imm_u(index, 2);
        let at = self.b.ins().iadd(cells, offset);
        self.load_word(at, 0, 4)
    }
}
