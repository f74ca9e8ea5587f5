//! Operations. Those without code here are steps of the interpreter.

use super::apply::Ways;
use super::{CompileError, Emit, descriptor, flags, internal, intrinsic, scalar_offset, vm_offset};
use crate::exec::flags as packet_flags;
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::{LValue, Op};
use crate::jit::plan::operations::{self, Shape};
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::size_of;
use wireyard_tables::raw::RawTable;

impl Emit<'_> {
    pub(super) fn op(&mut self, op: &Op) -> Result<(), CompileError> {
        self.operation(op)?;
        if self.on_path.is_none() {
            let program = self.program;
            self.known_validity.step(program, op);
        }
        Ok(())
    }

    fn operation(&mut self, op: &Op) -> Result<(), CompileError> {
        self.spend(1)?;
        let shape = if self.on_path.is_some() { Shape::PathSpecialised } else { Shape::Generic };
        if operations::step(self.program, self.facts, op, shape).is_some() {
            return self.op_of_interpreter(op);
        }
        match op {
            Op::Set(to, value) => {
                let value = self.expr(*value)?;
                self.assign(to, value)
            }
            Op::Call(action, args) => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.expr(*arg)?);
                }
                let done = self.b.create_block();
                let program = self.program;
                self.body(&program.actions[*action].body, &values, done)?;
                self.b.switch_to_block(done);
                Ok(())
            }
            Op::Count(counter, index) => self.count(*counter, *index),
            Op::SetValid(_) | Op::SetInvalid(_) | Op::CopyHeader { .. }
                if self.on_path.is_none() =>
            {
                self.generic_header_op(op)
            }
            Op::SetValid(instance) => self.change_header(*instance, true),
            Op::SetInvalid(instance) => self.change_header(*instance, false),
            Op::Meter { to, meter, index, color } => {
                let (bits, index) = (self.bits(*index), self.expr(*index)?);
                let before = match color {
                    Some(color) => {
                        let (from, value) = (self.bits(*color), self.expr(*color)?);
                        self.resize(value, from, 64)
                    }
                    None => self.num(0),
                };
                let (low, high) = self.words(index, bits);
                let meter = self.num(meter.0.into());
                let color = self.call(Helper::Meter, &[meter, low, high, before]);
                self.assign(to, color)
            }
            Op::RegisterLoad { register, index, first, .. } => {
                self.register_load(*register, *index, *first)
            }
            Op::RegisterStore { register, index, first, cells, .. } => {
                self.register_store(*register, *index, *first, cells)
            }
            Op::Random { to, low, high } => {
                let (low_bits, high_bits) = (self.bits(*low), self.bits(*high));
                let (low, high) = (self.expr(*low)?, self.expr(*high)?);
                self.put_value(0, low, low_bits)?;
                self.put_value(1, high, high_bits)?;
                self.call(Helper::Random, &[]);
                let bits = self.target_bits(to);
                let value = self.get_value(0, bits);
                self.assign(to, value)
            }
            Op::Digest(digest, values) => {
                self.put_values(0, values)?;
                let (id, count) = (self.num(digest.0.into()), self.num(values.len() as u64));
                self.call(Helper::Digest, &[id, count]);
                Ok(())
            }
            Op::Learn { table, key, action, args } => self.learn(*table, key, *action, args),
            Op::Recirculate => {
                self.change_flags(!0, packet_flags::RECIRCULATE.into(), None);
                Ok(())
            }
            Op::MarkWritten => {
                self.change_flags(!0, packet_flags::MARKED.into(), None);
                Ok(())
            }
            Op::Resubmit { received } => {
                let (one, vm) = (self.num(if *received { 2 } else { 1 }), self.vm);
                self.store_word(one, vm, scalar_offset!(resubmit), 4);
                Ok(())
            }
            Op::UpdateCrc(crc) => {
                let old = self.load64(self.vm, scalar_offset!(asked_crcs));
                let mask = self.num(1u64.checked_shl(crc.0).unwrap_or(0));
                let new = self.b.ins().bor(old, mask);
                self.store_vm(new, scalar_offset!(asked_crcs));
                Ok(())
            }
            _ => Err(internal(format!("no code for {op:?}"))),
        }
    }

    fn op_of_interpreter(&mut self, op: &Op) -> Result<(), CompileError> {
        if self.on_path.is_some() {
            return Err(internal("a step of the interpreter in path-specialised code"));
        }
        self.sync_out()?;
        let known = self.lists.ops.iter().position(|known| known == op);
        let index = known.unwrap_or(self.lists.ops.len());
        if known.is_none() {
            self.lists.ops.push(op.clone());
        }
        let index = self.num(index as u64);
        let code = self.call(Helper::Op, &[index]);
        self.sync_in();
        self.leave_unless_zero(code);
        Ok(())
    }

    fn target_bits(&self, to: &LValue) -> u32 {
        match to {
            LValue::Field(instance, field) => self.field_bits(*instance, *field),
            LValue::FieldSlice { high, low, .. } => high - low + 1,
            LValue::Element { instance, field, .. } => self.field_bits(*instance, *field),
            LValue::Meta(meta) => self.program.metadata[*meta].bits,
            LValue::Std(field) => field.bits(),
            LValue::Local(local) => self.locals[local.index()].1,
        }
    }

    /// Evaluates into the context's values from `first` on.
    fn put_values(&mut self, first: usize, values: &[ExprId]) -> Result<(), CompileError> {
        let mut computed = Vec::with_capacity(values.len());
        for value in values {
            computed.push((self.expr(*value)?, self.bits(*value)));
        }
        for (n, (value, bits)) in computed.into_iter().enumerate() {
            self.put_value(first + n, value, bits)?;
        }
        Ok(())
    }

    /// Counts in this worker's lane, or calls where the index is out of range.
    fn count(&mut self, counter: CounterId, index: ExprId) -> Result<(), CompileError> {
        let most = self.control.most(index);
        let (bits, index) = (self.bits(index), self.expr(index)?);
        let size = self.program.counters[counter].size;
        if most < size.into() {
            let index = self.resize(index, bits, 64);
            self.add_to_lane(counter.index(), index);
            return Ok(());
        }
        let limit = self.constant(size.into(), bits.max(33));
        let wide = self.resize(index, bits, bits.max(33));
        let in_range = self.compare(IntCC::UnsignedLessThan, wide, limit);
        let (add, stray, done) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(stray);
        self.b.ins().brif(in_range, add, &[], stray, &[]);
        self.b.switch_to_block(stray);
        let (low, high) = self.words(index, bits);
        let id = self.num(counter.0.into());
        self.call_rarely(Helper::Count, &[id, low, high]);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(add);
        let index = self.resize(index, bits, 64);
        self.add_to_lane(counter.index(), index);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// Adds the packet to a counter that exists.
    pub(super) fn add_to_lane(&mut self, array: usize, index: Value) {
        let lanes = self.fixed64(self.vm, vm_offset!(counters));
        let lane = self.fixed64(lanes, array as i32 * 8);
        let offset = self.b.ins().ishl_imm_u(index, 4);
        let pair = self.b.ins().iadd(lane, offset);
        let packets = self.load64(pair, 0);
        let packets = self.b.ins().iadd_imm_s(packets, 1);
        self.b.ins().store(flags(), packets, pair, 0);
        let bytes = self.load64(pair, 8);
        let len = self.packet_len();
        let bytes = self.b.ins().iadd(bytes, len);
        self.b.ins().store(flags(), bytes, pair, 8);
    }

    /// Bytes of the packet at the start of the pass.
    pub(super) fn packet_len(&mut self) -> Value {
        if let Some((_, _, len)) = self.path_cursor() {
            return len;
        }
        self.load_word(self.packet, descriptor!(len), 4)
    }

    /// The words of a register entry and whether it exists; where it does not, entry 0.
    fn register_entry(
        &mut self,
        register: RegisterId,
        index: ExprId,
    ) -> Result<(Value, Value), CompileError> {
        let (bits, index) = (self.bits(index), self.expr(index)?);
        let declared = &self.program.registers[register];
        let (size, cells) = (declared.size, declared.cells.len());
        let limit = self.constant(size.into(), bits.max(33));
        let wide = self.resize(index, bits, bits.max(33));
        let in_range = self.compare(IntCC::UnsignedLessThan, wide, limit);
        let (zero, index) = (self.num(0), self.resize(index, bits, 64));
        let index = self.b.ins().select(in_range, index, zero);
        let stride = self.num(cells as u64 * 8);
        let offset = self.b.ins().imul(index, stride);
        let registers = self.fixed64(self.vm, vm_offset!(registers));
        let words = self.fixed64(registers, register.index() as i32 * 8);
        Ok((self.b.ins().iadd(words, offset), in_range))
    }

    fn register_load(
        &mut self,
        register: RegisterId,
        index: ExprId,
        first: LocalId,
    ) -> Result<(), CompileError> {
        let (entry, in_range) = self.register_entry(register, index)?;
        for cell in 0..self.program.registers[register].cells.len() {
            let word = self.load64(entry, cell as i32 * 8);
            let zero = self.num(0);
            let value = self.b.ins().select(in_range, word, zero);
            let (var, bits) = self.locals[first.index() + cell];
            let value = self.resize(value, 64, bits);
            self.b.def_var(var, value);
        }
        Ok(())
    }

    fn register_store(
        &mut self,
        register: RegisterId,
        index: ExprId,
        first: LocalId,
        cells: &[u32],
    ) -> Result<(), CompileError> {
        if self.program.registers[register].size == 0 {
            return Ok(());
        }
        let (entry, in_range) = self.register_entry(register, index)?;
        let (write, done) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(in_range, write, &[], done, &[]);
        self.b.switch_to_block(write);
        for cell in cells {
            let Some(declared) = self.program.registers[register].cells.get(*cell as usize) else {
                continue;
            };
            let width = declared.bits.clamp(1, 64);
            let (var, bits) = self.locals[first.index() + *cell as usize];
            let value = self.b.use_var(var);
            let value = self.resize(value, bits, 64);
            let mask = self.num(ones(width) as u64);
            let value = self.b.ins().band(value, mask);
            self.b.ins().store(flags(), value, entry, *cell as i32 * 8);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    fn learn(
        &mut self,
        table: TableId,
        key: &[ExprId],
        action: ActionId,
        args: &[ExprId],
    ) -> Result<(), CompileError> {
        let words = self.key_words(table, key)?;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push((self.expr(*arg)?, self.bits(*arg)));
        }
        let done = self.b.create_block();
        if self.on_path.is_some() {
            self.refresh(table, &words, action, &values, done);
        }
        for (n, word) in words.iter().enumerate() {
            self.put_value(n, *word, 64)?;
        }
        for (n, (value, bits)) in values.into_iter().enumerate() {
            self.put_value(words.len() + n, value, bits)?;
        }
        let index = self.num(self.lists.learns.len() as u64);
        self.lists.learns.push((table, action, words.len()));
        self.call_rarely(Helper::Learn, &[index]);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// An entry to learn nearly always exists. Jumps to `done` when the entry exists with this action and data: its
    /// idle time starts again. For a packet that has learned before, all learning is done afterwards, in order.
    fn refresh(
        &mut self,
        table: TableId,
        words: &[Value],
        action: ActionId,
        values: &[(Value, u32)],
        done: Block,
    ) {
        let (facts, declared) = (self.facts, &self.program.tables[table]);
        let known = &facts.tables[table.index()];
        let place = declared.actions.iter().position(|known| *known == action);
        let (Some(place), true) = (place, declared.selector.is_none()) else { return };
        if !self.search(table).is_inline_exact() || known.has_profile {
            return;
        }
        let (first, new) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(new);
        let ways = Ways { hit: self.b.create_block(), miss: new };
        for _ in 0..3 {
            self.b.append_block_param(ways.hit, I64);
        }
        let learned = self.load64(self.vm, vm_offset!(learned));
        self.b.ins().brif(learned, new, &[], first, &[]);
        self.b.switch_to_block(first);
        let tables = self.fixed64(self.vm, vm_offset!(tables));
        let raw = self.b.ins().iadd_imm_s(tables, (table.index() * size_of::<RawTable>()) as i64);
        self.lookup_exact(raw, words, known.layout, ways);

        self.b.switch_to_block(ways.hit);
        let params = self.b.block_params(ways.hit).to_vec();
        let [slot, found, data] = params[..] else { return };
        let place = self.num(place as u64);
        let mut differs = self.b.ins().bxor(found, place);
        let mut at = 0;
        for (value, bits) in values {
            let (low, high) = self.words(*value, *bits);
            let parts = if *bits > 64 { vec![low, high] } else { vec![low] };
            for part in parts {
                let stored = self.load64(data, at);
                let this = self.b.ins().bxor(stored, part);
                differs = self.b.ins().bor(differs, this);
                at += 8;
            }
        }
        let same = self.b.create_block();
        self.b.ins().brif(differs, new, &[], same, &[]);
        self.b.switch_to_block(same);
        if known.has_last_hits {
            self.touch(table, slot);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(new);
    }

    /// Now, in nanoseconds.
    pub(super) fn now_ns(&mut self) -> Value {
        self.load64(self.meta, intrinsic!(now_ns))
    }
}
