//! The parser of generic code: states as blocks, headers copied into the header vector.

use super::header_edits::words;
use super::select_keys::Wanted;
use super::{CompileError, Emit, flags, internal, vm_offset};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::ir::{BuiltinError, Case, ExprKind, ParserOp, Pattern, Target, Transition, eval};
use crate::jit::plan::path::outcomes;
use crate::jit::plan::validity::KnownValidity;
use crate::jit::runtime::Helper;
use crate::jit::vm_context::Members;
use crate::phv::{Slot, bit};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;
use std::mem::{offset_of, size_of};

/// Most members of a value set that is searched member by member; larger ones are a call.
const SEARCHED_MAX: u32 = 16;

/// Offset of the length of an instance's slot.
pub(super) fn slot_len(instance: InstanceId) -> i32 {
    (instance.index() * size_of::<Slot>() + offset_of!(Slot, len)) as i32
}

fn slot_at(instance: InstanceId) -> i32 {
    (instance.index() * size_of::<Slot>() + offset_of!(Slot, at)) as i32
}

pub(super) fn reject(error: BuiltinError) -> u64 {
    end::REJECT | u64::from(error.id().0)
}

/// Generates what follows at a target, given its index in [`outcomes`].
type Go<'f, E> = dyn FnMut(&mut E, usize, Target) -> Result<(), CompileError> + 'f;

impl Emit<'_> {
    /// Code of every state; a pass jumps to `accept` or fails with an end.
    pub(super) fn parser(&mut self, accept: Block) -> Result<(), CompileError> {
        let program = self.program;
        let parser = &program.parser;
        self.in_parser = true;
        let zero = self.num(0);
        self.locals = parser.locals.iter().map(|l| self.new_local(l.bits, zero)).collect();
        let visited = self.b.declare_var(I64);
        self.b.def_var(visited, zero);
        let states: Vec<Block> = parser.states.iter().map(|_| self.b.create_block()).collect();
        match states.first() {
            Some(first) => self.b.ins().jump(*first, &[]),
            None => self.b.ins().jump(accept, &[]),
        };
        for (id, state) in parser.states.entries() {
            self.b.switch_to_block(states[id.index()]);
            self.known_validity = KnownValidity::default();
            self.at(state.span);
            self.count_state(visited, parser.max_states);
            self.inside_byte = state.ops.iter().any(|op| matches!(op, ParserOp::Advance(_)));
            for op in &state.ops {
                self.parser_op(op)?;
            }
            if std::mem::take(&mut self.inside_byte) {
                self.must_be_whole_bytes();
            }
            self.transition(&state.next, &mut |emit, _, target| {
                emit.go(target, &states, accept);
                Ok(())
            })?;
        }
        self.known_validity = KnownValidity::default();
        self.in_parser = false;
        Ok(())
    }

    /// A local that starts as zero.
    pub(super) fn new_local(&mut self, bits: u32, zero: Value) -> (Variable, u32) {
        let var = self.b.declare_var(super::type_of(bits));
        let zero = self.resize(zero, 64, bits);
        self.b.def_var(var, zero);
        (var, bits)
    }

    fn go(&mut self, target: Target, states: &[Block], accept: Block) {
        let to = match target {
            // An id out of range ends parsing, as in the interpreter.
            Target::State(id) => states.get(id.index()).copied().unwrap_or(accept),
            Target::Accept => accept,
            Target::Reject(error) => return self.leave(end::REJECT | u64::from(error.0)),
        };
        self.b.ins().jump(to, &[]);
    }

    fn count_state(&mut self, visited: Variable, most: u32) {
        let count = self.b.use_var(visited);
        let limit = self.num(most.into());
        let over = self.compare(IntCC::UnsignedGreaterThanOrEqual, count, limit);
        self.leave_if(over, reject(BuiltinError::TooManyStates));
        let more = self.b.ins().iadd_imm_s(count, 1);
        self.b.def_var(visited, more);
    }

    fn must_be_whole_bytes(&mut self) {
        let cursor = self.b.use_var(self.cursor_bits);
        let odd = self.b.ins().band_imm_u(cursor, 7);
        self.leave_if(odd, reject(BuiltinError::HeaderLength));
    }

    fn parser_op(&mut self, op: &ParserOp) -> Result<(), CompileError> {
        self.spend(1)?;
        match op {
            ParserOp::Extract(instance)
                if self.program.instances[*instance].variable_bits.is_none() =>
            {
                if self.inside_byte {
                    self.must_be_whole_bytes();
                }
                self.extract(*instance);
                self.known_validity.set(*instance, true);
                Ok(())
            }
            ParserOp::SetInvalid(instance) => {
                self.known_validity.set(*instance, false);
                let mask = self.num(!bit(*instance));
                for set in [self.valid, self.received] {
                    let now = self.b.use_var(set);
                    let now = self.b.ins().band(now, mask);
                    self.b.def_var(set, now);
                }
                Ok(())
            }
            ParserOp::Set(to, value) => {
                let value = self.expr(*value)?;
                self.assign(to, value)
            }
            ParserOp::Verify(condition, error) => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.b.set_cold_block(no);
                self.branch(*condition, yes, no)?;
                self.b.switch_to_block(no);
                self.leave(end::REJECT | u64::from(error.0));
                self.b.switch_to_block(yes);
                Ok(())
            }
            _ => {
                self.sync_out()?;
                let index = self.num(self.lists.parser_ops.len() as u64);
                self.lists.parser_ops.push(op.clone());
                let code = self.call(Helper::ParserOp, &[index]);
                self.sync_in();
                self.known_validity = KnownValidity::default();
                self.leave_unless_zero(code);
                Ok(())
            }
        }
    }

    /// Copies a header of fixed length out of the packet.
    fn extract(&mut self, instance: InstanceId) {
        let len = self.program.headers[self.program.instances[instance].header].fixed_bytes;
        let cursor = self.b.use_var(self.cursor_bits);
        let at = self.b.ins().ushr_imm_u(cursor, 3);
        let stop = self.b.ins().iadd_imm_s(at, i64::from(len));
        let have = self.load64(self.vm, vm_offset!(data_len));
        let slots = self.load64(self.vm, vm_offset!(slots));
        // Until it succeeds the header is not valid.
        let mask = self.num(!bit(instance));
        let (valid, received) = (self.b.use_var(self.valid), self.b.use_var(self.received));
        let (valid, received) = (self.b.ins().band(valid, mask), self.b.ins().band(received, mask));
        self.b.def_var(self.valid, valid);
        self.b.def_var(self.received, received);
        let short = self.compare(IntCC::UnsignedGreaterThan, stop, have);
        self.leave_if(short, reject(BuiltinError::PacketTooShort));
        let data = self.load64(self.vm, vm_offset!(data));
        let from = self.b.ins().iadd(data, at);
        self.take(instance, from, at, slots);
        let set = self.num(bit(instance));
        let (valid, received) = (self.b.ins().bor(valid, set), self.b.ins().bor(received, set));
        self.b.def_var(self.valid, valid);
        self.b.def_var(self.received, received);
        let moved = self.b.ins().ishl_imm_u(stop, 3);
        self.b.def_var(self.cursor_bits, moved);
    }

    /// Copies a header of fixed length from an address into its slot, and stores its offset in the packet.
    pub(super) fn take(&mut self, instance: InstanceId, from: Value, at: Value, slots: Value) {
        let (base, len) = (self.base(instance), self.control.fixed_bytes(instance));
        for (at, step) in words(len) {
            let word = self.load_word(from, at as i32, step);
            self.store_word(word, base.address, base.offset + at as i32, step);
        }
        let len = self.num(len.into());
        self.b.ins().store(flags(), len, slots, slot_len(instance));
        self.b.ins().istore32(flags(), at, slots, slot_at(instance));
    }

    /// Generates with `go` the code for the target of the first case that matches.
    pub(super) fn transition(
        &mut self,
        next: &Transition,
        go: &mut Go<'_, Self>,
    ) -> Result<(), CompileError> {
        let (keys, cases) = match next {
            Transition::To(target) => return go(self, 0, *target),
            Transition::Select { keys, cases, .. } => (keys, cases),
        };
        let mut values = Vec::with_capacity(keys.len());
        for (n, key) in keys.iter().enumerate() {
            // A key that may end the parser is evaluated, also where every case takes any value.
            let left_out = !eval::may_end(&self.program.exprs, *key)
                && cases.iter().all(|case| self.is_raw(*key, case.patterns.get(n)));
            let value = if left_out { None } else { Some(self.expr(*key)?) };
            values.push((*key, value));
        }
        let outcomes = outcomes(next);
        // By their index in `outcomes`; `None` until a case has generated the target.
        let mut taken: Vec<Block> = Vec::new();
        for case in cases {
            let found = outcomes[1..].iter().position(|(target, _)| *target == case.to);
            let place = found.ok_or_else(|| internal("a case without an outcome"))?;
            if place == taken.len() {
                taken.push(self.b.create_block());
            }
            let other = self.b.create_block();
            self.case(case, &values, taken[place], other)?;
            self.b.switch_to_block(other);
        }
        let (default, others) = outcomes.split_first().ok_or_else(|| internal("no outcome"))?;
        go(self, 0, default.0)?;
        for (n, ((target, _), block)) in others.iter().zip(taken).enumerate() {
            self.b.switch_to_block(block);
            go(self, n + 1, *target)?;
        }
        Ok(())
    }

    /// Whether a key is compared in memory order.
    fn is_raw(&self, key: ExprId, pattern: Option<&Pattern>) -> bool {
        let any = matches!(pattern, None | Some(Pattern::Any));
        any || self.known_number(key).is_some()
            || matches!(pattern, Some(Pattern::Value(_) | Pattern::Mask { .. }))
                && matches!(self.program.exprs[key].kind, ExprKind::Field(instance, field)
                    if self.has_raw(instance, field))
    }

    fn case(
        &mut self,
        case: &Case,
        values: &[(ExprId, Option<Value>)],
        taken: Block,
        other: Block,
    ) -> Result<(), CompileError> {
        let mut wanted = Wanted::default();
        for (pattern, (key, value)) in case.patterns.iter().zip(values) {
            self.spend(1)?;
            let bits = self.bits(*key);
            let raw = match pattern {
                Pattern::Value(wanted) => Some((*wanted, u128::MAX)),
                Pattern::Mask { value, mask } => Some((*value, *mask)),
                _ => None,
            };
            if let (None, None, Some((is, mask))) = (value, self.known_number(*key), raw)
                && self.want(&mut wanted, *key, is, mask)
            {
                continue;
            }
            let holds = match (value, pattern) {
                (_, Pattern::Any) => continue,
                (Some(value), _) => self.pattern(pattern, *value, bits),
                (None, _) if let Some(known) = self.known_number(*key) => {
                    let value = self.constant(known, bits);
                    self.pattern(pattern, value, bits)
                }
                (None, Pattern::Value(wanted)) => self.raw_key(*key, *wanted, u128::MAX),
                (None, Pattern::Mask { value, mask }) => self.raw_key(*key, *value, *mask),
                (None, _) => return Err(internal("a key that has no raw form")),
            };
            let holds = holds.ok_or_else(|| internal("a pattern without a condition"))?;
            let more = self.b.create_block();
            self.b.ins().brif(holds, more, &[], other, &[]);
            self.b.switch_to_block(more);
        }
        for holds in self.as_wanted(&wanted) {
            let more = self.b.create_block();
            self.b.ins().brif(holds, more, &[], other, &[]);
            self.b.switch_to_block(more);
        }
        self.b.ins().jump(taken, &[]);
        Ok(())
    }

    fn raw_key(&mut self, key: ExprId, value: u128, mask: u128) -> Option<Value> {
        match self.program.exprs[key].kind {
            ExprKind::Field(instance, field) => {
                self.raw_compare(IntCC::Equal, instance, field, value, mask)
            }
            _ => None,
        }
    }

    /// Whether a key matches; `None` if any key does.
    fn pattern(&mut self, pattern: &Pattern, key: Value, bits: u32) -> Option<Value> {
        Some(match pattern {
            Pattern::Any => return None,
            Pattern::Value(value) => {
                let value = self.wide_constant(*value, bits)?;
                self.compare(IntCC::Equal, key, value)
            }
            Pattern::Mask { value, mask } => {
                let mask = self.constant(*mask & crate::ir::layout::ones(bits), bits);
                let masked = self.b.ins().band(key, mask);
                let value = self.wide_constant(*value, bits)?;
                self.compare(IntCC::Equal, masked, value)
            }
            Pattern::Range { low, high } => {
                let low = self.wide_constant(*low, bits)?;
                let high = self.constant((*high).min(crate::ir::layout::ones(bits)), bits);
                let above = self.compare(IntCC::UnsignedGreaterThanOrEqual, key, low);
                let below = self.compare(IntCC::UnsignedLessThanOrEqual, key, high);
                self.b.ins().band(above, below)
            }
            Pattern::Set(set) => self.in_value_set(*set, key, bits),
        })
    }

    /// Whether a value set has a member that matches, not zero if so: short sets of single values are searched here.
    fn in_value_set(&mut self, set: ValueSetId, key: Value, bits: u32) -> Value {
        let declared = &self.program.value_sets[set];
        if bits > 64 || declared.size > SEARCHED_MAX || !declared.is_exact() {
            let (low, high) = self.words(key, bits);
            let set = self.num(set.0.into());
            return self.call(Helper::InValueSet, &[set, low, high]);
        }
        let sets = self.load64(self.vm, vm_offset!(value_sets));
        let at = set.index() * size_of::<Members>();
        let first = self.load64(sets, (at + offset_of!(Members, first)) as i32);
        let count = self.load64(sets, (at + offset_of!(Members, count)) as i32);
        let (look, next, done) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let (at, left) =
            (self.b.append_block_param(look, I64), self.b.append_block_param(look, I64));
        let found = self.b.append_block_param(done, I64);
        let zero = self.num(0);
        self.b.ins().brif(count, look, &[first.into(), count.into()], done, &[zero.into()]);
        self.b.switch_to_block(look);
        let member = self.load64(at, 0);
        let same = self.compare(IntCC::Equal, member, key);
        self.b.ins().brif(same, done, &[left.into()], next, &[]);
        self.b.switch_to_block(next);
        let at = self.b.ins().iadd_imm_s(at, size_of::<u128>() as i64);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.ins().brif(left, look, &[at.into(), left.into()], done, &[left.into()]);
        self.b.switch_to_block(done);
        found
    }

    /// A constant that a key of this width is compared with. The checker refuses one that does not fit.
    fn wide_constant(&mut self, value: u128, bits: u32) -> Option<Value> {
        debug_assert!(value <= crate::ir::layout::ones(bits));
        Some(self.constant(value, bits))
    }
}
