//! Lookups: hash tables, tries and short lists in their memory form (see [`wireyard_tables::raw`]); tables without one
//! are a call.

use super::apply::Ways;
use super::{CompileError, Emit, flags, vm_offset};
use crate::ids::*;
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64, I64X2, I128};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use std::mem::offset_of;
use wireyard_tables::raw::{BUCKET, Layout, NODE, NODE_BITS, RawTable, SCAN_END, SCAN_HEAD};

/// Two words can be compared as one.
fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

impl Emit<'_> {
    pub(super) fn lookup_call(
        &mut self,
        id: TableId,
        words: &[Value],
        rarely: bool,
        ways: Ways,
    ) -> Result<(), CompileError> {
        for (n, word) in words.iter().enumerate() {
            self.put_value(n, *word, 64)?;
        }
        let table = self.num(id.0.into());
        let found = match rarely {
            true => self.call_rarely(Helper::Lookup, &[table]),
            false => self.call(Helper::Lookup, &[table]),
        };
        let yes = self.b.create_block();
        self.b.ins().brif(found, yes, &[], ways.miss, &[]);
        self.b.switch_to_block(yes);
        let slot = self.load64(self.vm, vm_offset!(hit_slot));
        let action = self.load64(self.vm, vm_offset!(hit_action));
        let data = self.load64(self.vm, vm_offset!(hit_data));
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
        Ok(())
    }

    /// Half `n` of a table's seed.
    fn seed(&mut self, raw: Value, n: i32) -> Value {
        self.fixed64(raw, offset_of!(RawTable, seed) as i32 + 8 * n)
    }

    /// Both halves of a product, folded. Cranelift turns extended factors into one multiplication.
    fn fold(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = (self.b.ins().uextend(I128, a), self.b.ins().uextend(I128, b));
        let product = self.b.ins().imul(a, b);
        let (low, high) = self.b.ins().isplit(product);
        self.b.ins().bxor(low, high)
    }

    /// The hash of [`wireyard_tables::hash`].
    fn key_hash(&mut self, raw: Value, words: &[Value]) -> Value {
        let mut hash = self.seed(raw, 0);
        for pair in words.chunks(2) {
            let s1 = self.seed(raw, 1);
            hash = match *pair {
                [a, b] => {
                    let (x, y) = (self.b.ins().bxor(a, hash), self.b.ins().bxor(b, s1));
                    let (folded, both) = (self.fold(x, y), self.b.ins().iadd(x, y));
                    self.b.ins().bxor(folded, both)
                }
                [c] => {
                    let c = self.b.ins().bxor(c, hash);
                    self.fold(c, s1)
                }
                _ => hash,
            };
        }
        hash
    }

    /// An array by key, see [`wireyard_tables::raw`].
    fn lookup_direct(&mut self, raw: Value, key: Value, record_words: usize, ways: Ways) {
        let (inside, found) = (self.b.create_block(), self.b.create_block());
        let count = self.fixed64(raw, offset_of!(RawTable, pair_mask) as i32);
        let there = self.compare(IntCC::UnsignedLessThan, key, count);
        self.b.ins().brif(there, inside, &[], ways.miss, &[]);
        self.b.switch_to_block(inside);
        let cells = self.fixed64(raw, offset_of!(RawTable, cells) as i32);
        let cell = self.cell32(cells, key);
        self.b.ins().brif(cell, found, &[], ways.miss, &[]);
        self.b.switch_to_block(found);
        let slot = self.b.ins().iadd_imm_s(cell, -1);
        let slot = self.b.ins().uextend(I64, slot);
        self.hit_record(raw, slot, record_words, ways);
    }

    /// An exact table of either form, see [`wireyard_tables::raw`].
    pub(super) fn lookup_exact(&mut self, raw: Value, words: &[Value], layout: Layout, ways: Ways) {
        if let (Layout::Direct { record_words }, [key]) = (layout, words) {
            return self.lookup_direct(raw, *key, record_words, ways);
        }
        let Layout::Exact { cell_words, data_at, record_words, .. } = layout else { return };
        let cells = self.fixed64(raw, offset_of!(RawTable, cells) as i32);
        let hash = self.key_hash(raw, words);
        let shift = self.fixed32(raw, offset_of!(RawTable, shift) as i32);
        let pair = self.b.ins().ushr(hash, shift);
        let key = self.in_vectors(words);
        let (probe, found, next) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let same = self.b.create_block();
        let pair_param = self.b.append_block_param(probe, I64);
        let cell_param = self.b.append_block_param(found, I64);
        self.b.ins().jump(probe, &[pair.into()]);

        // The second cell unless the first one has the key; then one comparison with the remaining one.
        self.b.switch_to_block(probe);
        let bytes = cell_words as u64 * 16;
        let offset = match bytes.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(pair_param, i64::from(bytes.ilog2())),
            false => self.b.ins().imul_imm_u(pair_param, bytes as i64),
        };
        let first = self.b.ins().iadd(cells, offset);
        let other = self.cell_differs(first, &key);
        let other = self.b.ins().uextend(I64, other);
        let step = match (bytes / 2).is_power_of_two() {
            true => self.b.ins().ishl_imm_u(other, i64::from((bytes / 2).ilog2())),
            false => self.b.ins().imul_imm_u(other, (bytes / 2) as i64),
        };
        let cell = self.b.ins().iadd(first, step);
        let differs = self.cell_differs(cell, &key);
        self.b.ins().brif(differs, next, &[], same, &[]);
        self.b.switch_to_block(same);
        let head = self.load64(cell, 0);
        self.b.ins().brif(head, found, &[cell.into()], next, &[]);

        self.b.switch_to_block(next);
        self.b.set_cold_block(next);
        // The first is not empty where the second is not.
        let full = self.load64(first, (bytes / 2) as i32);
        let on = self.b.create_block();
        self.b.ins().brif(full, on, &[], ways.miss, &[]);
        self.b.switch_to_block(on);
        self.b.set_cold_block(on);
        let mask = self.load64(raw, offset_of!(RawTable, pair_mask) as i32);
        let more = self.b.ins().iadd_imm_s(pair_param, 1);
        let more = self.b.ins().band(more, mask);
        self.b.ins().jump(probe, &[more.into()]);

        self.b.switch_to_block(found);
        let (low, high) = if cfg!(target_endian = "little") { (0, 4) } else { (4, 0) };
        let action = self.load_word(cell_param, high, 4);
        let slot = self.load_word(cell_param, low, 4);
        let slot = self.b.ins().iadd_imm_s(slot, -1);
        let data = match data_at {
            Some(word) => self.b.ins().iadd_imm_s(cell_param, word as i64 * 8),
            None => {
                let records = self.fixed64(raw, offset_of!(RawTable, records) as i32);
                self.record(records, slot, record_words).1
            }
        };
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
    }

    /// Whether a cell has another key, as a condition.
    fn cell_differs(&mut self, cell: Value, key: &[Value]) -> Value {
        if let [word] = key
            && self.b.func.dfg.value_type(*word) == I64
        {
            let stored = self.load64(cell, 8);
            return self.compare(IntCC::NotEqual, stored, *word);
        }
        let mut sums: [Option<Value>; 2] = [None; 2];
        let mut at = 8;
        for part in key {
            let ty = self.b.func.dfg.value_type(*part);
            let stored = self.b.ins().load(ty, flags(), cell, at);
            let this = self.b.ins().bxor(stored, *part);
            let sum = &mut sums[usize::from(ty.is_vector())];
            *sum = Some(match *sum {
                Some(sum) => self.b.ins().bor(sum, this),
                None => this,
            });
            at += ty.bytes() as i32;
        }
        let [scalar, vector] = sums;
        let vector = vector.map(|sum| self.b.ins().vany_true(sum));
        let scalar = scalar.map(|sum| self.b.ins().icmp_imm_u(IntCC::NotEqual, sum, 0));
        match (scalar, vector) {
            (Some(a), Some(b)) => self.b.ins().bor(a, b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.b.ins().iconst(I8, 0),
        }
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

    /// Continues a hit with the action and data of the slot's record.
    fn hit_record(&mut self, raw: Value, slot: Value, record_words: usize, ways: Ways) {
        let records = self.fixed64(raw, offset_of!(RawTable, records) as i32);
        let (record, data) = self.record(records, slot, record_words);
        let action = self.load64(record, 0);
        let args: [BlockArg; 3] = [slot.into(), action.into(), data.into()];
        self.b.ins().jump(ways.hit, &args);
    }

    /// A short list in order of priority, see [`wireyard_tables::raw`].
    pub(super) fn lookup_scan(
        &mut self,
        id: TableId,
        raw: Value,
        words: &[Value],
        ways: Ways,
    ) -> Result<(), CompileError> {
        let known = &self.facts.tables[id.index()];
        let Layout::Scan { key_words, entry_words, record_words } = known.layout else {
            return Ok(());
        };
        let list = self.fixed64(raw, offset_of!(RawTable, cells) as i32);
        let (few, many) = (self.b.create_block(), self.b.create_block());
        let (test, next, found) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let entry = self.b.append_block_param(test, I64);
        self.b.set_cold_block(many);
        self.b.ins().brif(list, few, &[], many, &[]);
        self.b.switch_to_block(many);
        self.lookup_call(id, words, true, ways)?;

        self.b.switch_to_block(few);
        let mut ranged = Vec::with_capacity(known.ranges.len());
        for place in &known.ranges {
            let down = self.b.ins().ushr_imm_u(words[place.word], i64::from(place.shift));
            ranged.push(self.masked(down, place.bits));
        }
        let key = self.in_vectors(words);
        self.b.ins().jump(test, &[list.into()]);
        self.b.switch_to_block(test);
        self.scan_entry(entry, (key, key_words), ranged, next);
        let slot = self.load64(entry, 0);
        let ends = self.b.ins().icmp_imm_s(IntCC::Equal, slot, SCAN_END as i64);
        self.b.ins().brif(ends, ways.miss, &[], found, &[]);
        self.b.switch_to_block(next);
        let after = self.b.ins().iadd_imm_s(entry, entry_words as i64 * 8);
        self.b.ins().jump(test, &[after.into()]);

        self.b.switch_to_block(found);
        self.hit_record(raw, slot, record_words, ways);
        Ok(())
    }

    /// Continues if the key and its range fields match an entry of a list; otherwise jumps to `next`.
    fn scan_entry(
        &mut self,
        entry: Value,
        (key, key_words): (Vec<Value>, usize),
        ranged: Vec<Value>,
        next: Block,
    ) {
        let mut same = self.b.create_block();
        let mut at = 0;
        for part in key {
            let ty = self.b.func.dfg.value_type(part);
            let load = |emit: &mut Self, word: usize| {
                emit.b.ins().load(ty, flags(), entry, (SCAN_HEAD + word) as i32 * 8)
            };
            let (value, mask) = (load(self, at), load(self, key_words + at));
            let differs = self.b.ins().bxor(part, value);
            let differs = self.b.ins().band(differs, mask);
            let differs = if ty == I64 { differs } else { self.b.ins().vany_true(differs) };
            self.b.ins().brif(differs, next, &[], same, &[]);
            self.b.switch_to_block(same);
            same = self.b.create_block();
            at += (ty.bytes() / 8) as usize;
        }
        self.b.ins().jump(same, &[]);
        for (n, field) in ranged.into_iter().enumerate() {
            self.b.switch_to_block(same);
            let at = (SCAN_HEAD + 2 * key_words + 2 * n) as i32 * 8;
            let (low, span) = (self.load64(entry, at), self.load64(entry, at + 8));
            let above = self.b.ins().isub(field, low);
            let beyond = self.compare(IntCC::UnsignedGreaterThan, above, span);
            same = self.b.create_block();
            self.b.ins().brif(beyond, next, &[], same, &[]);
        }
        self.b.switch_to_block(same);
    }

    /// The words of a key, two in a vector if the processor compares vectors.
    fn in_vectors(&mut self, words: &[Value]) -> Vec<Value> {
        let mut key = Vec::with_capacity(words.len());
        for pair in words.chunks(2) {
            match *pair {
                [low, high] if has_vectors() => {
                    let vector = self.b.ins().scalar_to_vector(I64X2, low);
                    key.push(self.b.ins().insertlane(vector, high, 1));
                }
                _ => key.extend(pair),
            }
        }
        key
    }

    /// A trie of one field, see [`wireyard_tables::raw`].
    pub(super) fn lookup_lpm(&mut self, raw: Value, words: &[Value], layout: Layout, ways: Ways) {
        let Layout::Lpm { field, root_bits, record_words } = layout else { return };
        let cells = self.fixed64(raw, offset_of!(RawTable, cells) as i32);
        let word = words[field.word];
        let rest = self.b.ins().ishl_imm_u(word, i64::from(64 - field.shift - field.bits));
        let at = match field.shift {
            // The key has nothing above its fields.
            0 if words.len() == 1 && root_bits <= field.bits => {
                self.b.ins().ushr_imm_u(word, i64::from(field.bits - root_bits))
            }
            _ => self.b.ins().ushr_imm_u(rest, i64::from(64 - root_bits)),
        };
        let cell = self.cell32(cells, at);
        let rest = self.b.ins().ishl_imm_u(rest, i64::from(root_bits));
        let (walk, node, end, leaf) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let (bucket, other) = (self.b.create_block(), self.b.create_block());
        let (cell_in, rest_in) =
            (self.b.append_block_param(walk, I32), self.b.append_block_param(walk, I64));
        let end_in = self.b.append_block_param(end, I32);
        let leaf_in = self.b.append_block_param(leaf, I32);
        let args: [BlockArg; 2] = [cell.into(), rest.into()];
        self.b.ins().jump(walk, &args);

        self.trie_step(cells, (cell_in, rest_in), [walk, node, end]);

        // Nearly always it is a leaf: neither empty nor a bucket.
        self.b.switch_to_block(end);
        let slot = self.b.ins().iadd_imm_s(end_in, -1);
        let is_leaf = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, slot, i64::from(BUCKET) - 1);
        self.b.ins().brif(is_leaf, leaf, &[slot.into()], other, &[]);
        self.b.switch_to_block(other);
        let is_bucket = self.b.ins().band_imm_u(end_in, i64::from(BUCKET));
        let none = self.b.create_block();
        let best_in = self.b.append_block_param(none, I32);
        self.b.ins().brif(is_bucket, bucket, &[], none, &[end_in.into()]);
        self.b.switch_to_block(bucket);
        let best = self.bucket_leaf(cells, end_in, rest_in);
        self.b.ins().jump(none, &[best.into()]);

        self.b.switch_to_block(none);
        let zero_leaf =
            self.b.ins().load(I32, flags(), raw, offset_of!(RawTable, zero_leaf) as i32);
        let best = self.b.ins().select(best_in, best_in, zero_leaf);
        let slot = self.b.ins().iadd_imm_s(best, -1);
        self.b.ins().brif(best, leaf, &[slot.into()], ways.miss, &[]);

        self.b.switch_to_block(leaf);
        let slot = self.b.ins().uextend(I64, leaf_in);
        self.hit_record(raw, slot, record_words, ways);
    }

    /// One level of a trie: a node leads to one of its cells and `walk` again, any other cell to `end`.
    fn trie_step(&mut self, cells: Value, at: (Value, Value), blocks: [Block; 3]) {
        let ((cell_in, rest_in), [walk, node, end]) = (at, blocks);
        // NODE is the sign.
        self.b.switch_to_block(walk);
        let is_node = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, cell_in, 0);
        self.b.ins().brif(is_node, node, &[], end, &[cell_in.into()]);
        self.b.switch_to_block(node);
        let unit = self.b.ins().band_imm_u(cell_in, i64::from(!NODE));
        let unit = self.b.ins().uextend(I64, unit);
        let first = self.b.ins().ishl_imm_u(unit, 4);
        let digit = self.b.ins().ushr_imm_u(rest_in, i64::from(64 - NODE_BITS));
        let at = self.b.ins().iadd(first, digit);
        let cell = self.cell32(cells, at);
        let rest = self.b.ins().ishl_imm_u(rest_in, i64::from(NODE_BITS));
        let args: [BlockArg; 2] = [cell.into(), rest.into()];
        self.b.ins().jump(walk, &args);
    }

    /// The leaf of the longest prefix of a bucket that matches the rest of the address.
    fn bucket_leaf(&mut self, cells: Value, bucket: Value, rest: Value) -> Value {
        let unit = self.b.ins().band_imm_u(bucket, i64::from(!BUCKET));
        let unit = self.b.ins().uextend(I64, unit);
        let first = self.b.ins().ishl_imm_u(unit, 6);
        let line = self.b.ins().iadd(cells, first);
        // The address depends on the packet, so that loads are not hoisted; late ones keep registers free.
        let fixed = self.fixed();
        let mut best = self.b.ins().load(I32, fixed, line, 0);
        for n in 1..4 {
            best = self.bucket_entry(line, n * 16, rest, best);
        }
        best
    }

    /// `[value, value, leaf, shift]` at an offset of a bucket: its leaf if the rest matches.
    fn bucket_entry(&mut self, line: Value, at: i32, rest: Value, best: Value) -> Value {
        let value = self.fixed64(line, at);
        let fixed = self.fixed();
        let leaf = self.b.ins().load(I32, fixed, line, at + 8);
        let shift = self.fixed32(line, at + 12);
        let differs = self.b.ins().bxor(rest, value);
        let differs = self.b.ins().ushr(differs, shift);
        self.b.ins().select(differs, best, leaf)
    }

    /// A word of 32 bits of an array.
    fn cell32(&mut self, cells: Value, index: Value) -> Value {
        let offset = self.b.ins().ishl_imm_u(index, 2);
        let at = self.b.ins().iadd(cells, offset);
        self.b.ins().load(I32, flags(), at, 0)
    }
}
