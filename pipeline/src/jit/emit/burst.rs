//! The loop over a burst of path-specialised code: the work before a packet's path and after it.

use super::fused::{Following, INGRESS_ONLY};
use super::path::{Loop, Packet};
use super::{CompileError, Emit, descriptor, flags, internal, intrinsic, vm_offset};
use crate::exec::{Descriptor, Intrinsic, NO_PORT, PacketPath, Verdict, flags as packet_flags};
use crate::ids::*;
use crate::interp::bridge::end;
use crate::ir::decl::{CARRIED_INLINE_BYTES, CARRIED_MARK_AT};
use crate::ir::{BuiltinReason, Half};
use crate::jit::plan::{ControlPlan, Fused, Leaf, PATH_OPERATIONS_MAX, Start, Tail};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use cranelift_frontend::Variable;
use std::mem::size_of;

/// The decisions of ingress about a packet, in variables: they are written to the descriptor at the end.
#[derive(Clone, Copy)]
pub(super) struct Decisions {
    pub(super) egress_port: Variable,
    pub(super) traffic_class: Variable,
    pub(super) priority_group: Variable,
    pub(super) flags: Variable,
}

// The stores of [`Emit::defaults`] and [`Emit::decide`] are wider than one field.
const _: () = {
    use std::mem::offset_of as at;
    assert!(at!(Intrinsic, hold_timeout_ns) == at!(Intrinsic, not_before_ns) + 8);
    assert!(at!(Intrinsic, crc_error) == at!(Intrinsic, checksum_error) + 4);
    assert!(at!(Intrinsic, parser_error) == at!(Intrinsic, reason) + 2);
    assert!(at!(Intrinsic, egress_done) == at!(Intrinsic, reason) + 3);
    assert!(at!(Intrinsic, dscp) == at!(Intrinsic, reason) + 4);
    assert!(at!(Intrinsic, pcp) == at!(Intrinsic, reason) + 5);
    assert!(at!(Intrinsic, reserved) == at!(Intrinsic, reason) + 6);
    assert!(at!(Descriptor, traffic_class) == at!(Descriptor, egress_port) + 2);
    assert!(at!(Descriptor, priority_group) == at!(Descriptor, egress_port) + 3);
    assert!(Verdict::Forward as u8 == 0);
};

/// DSCP and PCP when there are none, as adjacent bytes after the verdict.
const NO_CLASS: u64 = 0xffff;

impl<'g> Emit<'g> {
    /// A loop over a burst; returns the number of packets done. Ingress continues with egress where a packet may leave
    /// at once, if there is such code.
    pub(in crate::jit) fn path_specialised(
        mut self,
        plan: &'g ControlPlan<'g>,
        fused: Option<&'g Fused<'g>>,
    ) -> Result<(), CompileError> {
        (self.budget, self.is_burst) = (PATH_OPERATIONS_MAX, true);
        self.following = fused.map(|fused| Following::new(&plan.effects, fused));
        let learns = self.following.as_ref().map_or(plan.effects.learns, Following::learns);
        let entry = self.b.current_block().ok_or_else(|| internal("no block"))?;
        let params = self.b.block_params(entry).to_vec();
        let [_, packets, metas, count] = params[..] else {
            return Err(internal("parameters of a burst"));
        };
        let count = self.b.ins().uextend(I64, count);
        let bytes = self.b.ins().imul_imm_u(count, size_of::<Descriptor>() as i64);
        let stop = self.b.ins().iadd(packets, bytes);
        self.store_vm(packets, vm_offset!(burst_first));
        self.store_vm(stop, vm_offset!(burst_stop));
        if learns {
            // A burst ends with the first packet that learns.
            let zero = self.num(0);
            self.store_vm(zero, vm_offset!(learned));
        }
        let (packet, exit) = (self.b.create_block(), self.b.create_block());
        for _ in 0..2 {
            self.b.append_block_param(packet, I64);
        }
        let done = self.b.append_block_param(exit, I64);
        let around = Loop { next: self.b.create_block(), bail: self.b.create_block() };
        let unlearned = if learns { self.b.create_block() } else { around.next };
        self.b.append_block_param(around.bail, I64);
        self.b.set_cold_block(around.bail);
        let first: [BlockArg; 2] = [packets.into(), metas.into()];
        self.b.ins().brif(count, packet, &first, exit, &[packets.into()]);

        self.b.switch_to_block(packet);
        // Values, not variables: each variable would be a parameter of every block with several predecessors.
        (self.packet, self.meta) = (self.b.block_params(packet)[0], self.b.block_params(packet)[1]);
        self.one_packet(&plan.start, around)?;
        let ingress_only = self.b.create_block();
        let goes_on = self.following.is_some();
        self.egress_behind(Loop { next: unlearned, ..around }, around.next, ingress_only)?;

        if learns {
            let last = self.b.create_block();
            self.b.switch_to_block(around.next);
            let learned = self.load64(self.vm, vm_offset!(learned));
            self.b.ins().brif(learned, last, &[], unlearned, &[]);
            self.b.switch_to_block(last);
            self.b.set_cold_block(last);
            let next_packet = self.b.ins().iadd_imm_s(self.packet, size_of::<Descriptor>() as i64);
            self.b.ins().jump(exit, &[next_packet.into()]);
        }
        self.b.switch_to_block(unlearned);
        let next_packet = self.b.ins().iadd_imm_s(self.packet, size_of::<Descriptor>() as i64);
        let next_meta = self.b.ins().iadd_imm_s(self.meta, size_of::<Intrinsic>() as i64);
        let stop = self.load64(self.vm, vm_offset!(burst_stop));
        let more = self.compare(IntCC::UnsignedLessThan, next_packet, stop);
        let next: [BlockArg; 2] = [next_packet.into(), next_meta.into()];
        self.b.ins().brif(more, packet, &next, exit, &[next_packet.into()]);

        let here = self.packet;
        let mut ends = vec![(around.bail, here, 0), (exit, done, 0)];
        ends.extend(goes_on.then_some((ingress_only, here, INGRESS_ONLY)));
        for (block, at, flag) in ends {
            self.b.switch_to_block(block);
            let packets = self.load64(self.vm, vm_offset!(burst_first));
            let done = self.b.ins().isub(at, packets);
            let mut done =
                self.b.ins().ushr_imm_u(done, i64::from(size_of::<Descriptor>().ilog2()));
            if flag != 0 {
                let flag = self.num(flag);
                done = self.b.ins().bor(done, flag);
            }
            self.b.ins().return_(&[done]);
        }
        self.finish();
        Ok(())
    }

    /// One packet: checks whether it can be done here, then runs its path.
    fn one_packet(&mut self, start: &Start, around: Loop) -> Result<(), CompileError> {
        self.fail = around.bail;
        let packet = self.packet_bytes();
        self.defaults();
        let zero = self.num(0);
        for (var, bits) in self.metas.clone() {
            let zero = self.resize(zero, 64, bits);
            self.b.def_var(var, zero);
        }
        let program = self.program;
        if self.control.half == Half::Ingress && program.brings_metadata() {
            // Rare, and left to the code that can read its metadata.
            const { assert!(PacketPath::Resubmit as u8 == 2 && PacketPath::Recirculate as u8 == 3) };
            let how = self.load_word(self.packet, descriptor!(path), 1);
            let how = self.b.ins().band_imm_u(how, 0xfe);
            let again = self.b.ins().icmp_imm_u(IntCC::Equal, how, 2);
            self.leave_if(again, 0);
        }
        match start {
            Start::Headers(copies) => self.resume(copies, packet, around),
            Start::Parser(way) => {
                let locals = program.parser.locals.iter();
                self.locals = locals.map(|l| self.new_local(l.bits, zero)).collect();
                self.way(way, packet, around)
            }
        }
    }

    /// Address and length of a packet whose chunk is not shared.
    pub(super) fn packet_bytes(&mut self) -> Packet {
        let (packet, vm) = (self.packet, self.vm);
        let buf = self.load_word(packet, descriptor!(buf), 4);
        let first = self.fixed64(vm, vm_offset!(chunk_first));
        let chunk = self.b.ins().isub(buf, first);
        let chunks = self.fixed64(vm, vm_offset!(chunk_count));
        let foreign = self.compare(IntCC::UnsignedGreaterThanOrEqual, chunk, chunks);
        self.leave_if(foreign, 0);
        let refs = self.fixed64(vm, vm_offset!(chunk_refs));
        let offset = self.b.ins().ishl_imm_u(chunk, 2);
        let place = self.b.ins().iadd(refs, offset);
        let count = self.b.ins().load(I32, flags(), place, 0);
        let shared = self.b.ins().icmp_imm_u(IntCC::NotEqual, count, 1);
        self.leave_if(shared, 0);
        let off = self.load_word(packet, descriptor!(data_off), 2);
        let len = self.load_word(packet, descriptor!(len), 4);
        let stop = self.b.ins().iadd(off, len);
        let reach = self.fixed64(vm, vm_offset!(chunk_reach));
        let over = self.compare(IntCC::UnsignedGreaterThanOrEqual, stop, reach);
        self.leave_if(over, 0);
        let shift = self.fixed64(vm, vm_offset!(chunk_shift));
        let chunks = self.fixed64(vm, vm_offset!(chunks));
        let start = self.b.ins().ishl(chunk, shift);
        let start = self.b.ins().iadd(chunks, start);
        self.chunk = start;
        // Not added: chunks start at multiples of their size and the offset is less than that, and an address that is a
        // sum would be split again, with two registers for every use of it.
        Packet { data: self.b.ins().bor(start, off), len }
    }

    /// Every decision at its default: forward, unless something else is decided.
    fn defaults(&mut self) {
        self.default_metadata();
        let zero = self.num(0);
        if self.control.half == Half::Ingress {
            let undecided = self.num(NO_PORT.into());
            let mut var = |value| {
                let var = self.b.declare_var(I64);
                self.b.def_var(var, value);
                var
            };
            let decisions = Decisions {
                egress_port: var(undecided),
                traffic_class: var(zero),
                priority_group: var(zero),
                flags: var(zero),
            };
            self.decisions = Some(decisions);
        }
    }

    /// Sets the requests to the device beside a port to none.
    pub(super) fn default_metadata(&mut self) {
        let meta = self.meta;
        let zero = self.num(0);
        self.store_word(zero, meta, intrinsic!(not_before_ns), 8);
        self.store_word(zero, meta, intrinsic!(hold_timeout_ns), 8);
        self.store_word(zero, meta, intrinsic!(checksum_error), 8);
        self.store_word(zero, meta, intrinsic!(multicast_group), 8);
        let no_reason = u64::from(BuiltinReason::None.id().0);
        let none = self.num(no_reason | NO_CLASS << 32);
        self.store_word(none, meta, intrinsic!(reason), 8);
    }

    /// Writes the decisions to the descriptor.
    fn decide(&mut self) {
        let (Some(made), packet) = (self.decisions, self.packet) else { return };
        let port = self.b.use_var(made.egress_port);
        let class = self.b.use_var(made.traffic_class);
        let group = self.b.use_var(made.priority_group);
        let class = self.b.ins().ishl_imm_u(class, 16);
        let group = self.b.ins().ishl_imm_u(group, 24);
        let all = self.b.ins().bor(port, class);
        let all = self.b.ins().bor(all, group);
        self.store_word(all, packet, descriptor!(egress_port), 4);
        let marks = self.b.use_var(made.flags);
        self.store_word(marks, packet, descriptor!(flags), 1);
    }

    /// The place of a carried field, by its offset among the carried bytes.
    fn carried_at(&self, at: u32) -> (Value, i32) {
        match at.checked_sub(CARRIED_INLINE_BYTES) {
            None => (self.packet, descriptor!(carried) + at as i32),
            Some(at) => (self.chunk, at as i32),
        }
    }

    /// Metadata that crossed the queue. A packet that has only the descriptor's part runs generic code.
    pub(super) fn carried_in(&mut self) {
        let program = self.program;
        if program.carried_in_chunk() > 0 {
            let mark = descriptor!(carried) + CARRIED_MARK_AT as i32;
            let written = self.load_word(self.packet, mark, 1);
            let missing = self.b.ins().icmp_imm_u(IntCC::Equal, written, 0);
            self.leave_if(missing, 0);
        }
        for (id, meta) in program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let (count, (base, offset)) = (meta.bits.div_ceil(8), self.carried_at(at));
            let mut words = [self.num(0), self.num(0)];
            let mut done = 0;
            while done < count {
                let step = [8, 4, 2].into_iter().find(|s| done + s <= count).unwrap_or(1);
                let part = self.load_word(base, offset + done as i32, step);
                let part = self.b.ins().ishl_imm_u(part, i64::from(done % 8 * 8));
                let word = &mut words[(done / 8) as usize % 2];
                *word = self.b.ins().bor(*word, part);
                done += step;
            }
            let [low, high] = words;
            let value = if meta.bits > 64 { self.b.ins().iconcat(low, high) } else { low };
            let value = self.masked(value, meta.bits);
            let (var, _) = self.metas[id.index()];
            self.b.def_var(var, value);
        }
    }

    /// Metadata that crosses the queue, also when the packet drops, or goes from egress to another pass.
    fn carried_out(&mut self) {
        if self.control.half == Half::Ingress {
            return self.carry_out();
        }
        if !self.program.brings_metadata() {
            return;
        }
        let (carry, done) = (self.b.create_block(), self.b.create_block());
        let marks = self.load_word(self.packet, descriptor!(flags), 1);
        let again = self.b.ins().band_imm_u(marks, i64::from(packet_flags::RECIRCULATE));
        self.b.ins().brif(again, carry, &[], done, &[]);
        self.b.switch_to_block(carry);
        self.carry_out();
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    pub(super) fn carry_out(&mut self) {
        let program = self.program;
        for (id, meta) in program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let (count, (base, offset)) = (meta.bits.div_ceil(8), self.carried_at(at));
            let (var, bits) = self.metas[id.index()];
            let value = self.b.use_var(var);
            let (low, high) = self.words(value, bits);
            let mut done = 0;
            while done < count {
                let step = [8, 4, 2].into_iter().find(|s| done + s <= count).unwrap_or(1);
                let word = if done < 8 { low } else { high };
                let part = self.b.ins().ushr_imm_u(word, i64::from(done % 8 * 8));
                self.store_word(part, base, offset + done as i32, step);
                done += step;
            }
        }
        if program.carried_in_chunk() > 0 {
            let (mark, packet) = (descriptor!(carried) + CARRIED_MARK_AT as i32, self.packet);
            let written = self.num(1);
            self.store_word(written, packet, mark, 1);
        }
    }

    /// Sets the verdict by the end of the control, and writes the packet as the pass leaves it.
    pub(super) fn conclude(
        &mut self,
        done: Block,
        fail: Block,
        around: Loop,
        (leaf, tails): (&Leaf, &[Tail]),
    ) -> Result<(), CompileError> {
        let (finish, drop) = (self.b.create_block(), self.b.create_block());
        let why = self.b.append_block_param(drop, I64);
        self.b.set_cold_block(drop);
        self.b.set_cold_block(fail);

        self.b.switch_to_block(fail);
        let code = self.b.block_params(fail)[0];
        let kind = self.b.ins().ushr_imm_u(code, 32);
        let low = self.masked(code, 32);
        let (other, punt) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(other);
        self.b.set_cold_block(punt);
        let exits = self.b.ins().icmp_imm_u(IntCC::Equal, kind, (end::EXIT >> 32) as i64);
        self.b.ins().brif(exits, done, &[], other, &[]);
        self.b.switch_to_block(other);
        let punts = self.b.ins().icmp_imm_u(IntCC::Equal, kind, (end::PUNT >> 32) as i64);
        self.b.ins().brif(punts, punt, &[], drop, &[low.into()]);
        self.b.switch_to_block(punt);
        self.store_verdict(Verdict::Punt, low);
        self.add_to_lane(self.facts.counters.statistics + 1, low);
        let nowhere = self.num(NO_PORT.into());
        let gate = self.following.is_some().then(|| self.word_variable(nowhere));
        self.b.ins().jump(finish, &[]);

        self.b.switch_to_block(done);
        match (gate, self.decisions) {
            // An open port was decided, so `go_on_to_egress` checks for a decision only if the port is not open.
            (Some(gate), Some(made)) => {
                let port = self.b.use_var(made.egress_port);
                self.b.def_var(gate, port);
            }
            _ => self.must_be_decided(drop),
        }
        self.gate = gate;
        self.b.ins().jump(finish, &[]);
        self.b.switch_to_block(drop);
        self.store_verdict(Verdict::Drop, why);
        self.add_to_lane(self.facts.counters.statistics, why);
        self.decide();
        self.carried_out();
        self.b.ins().jump(around.next, &[]);

        self.b.switch_to_block(finish);
        self.tails(around, leaf, tails, drop)?;
        self.gate = None;
        Ok(())
    }

    /// Drops a packet of ingress that has no egress port or group and is not punted.
    pub(super) fn must_be_decided(&mut self, drop: Block) {
        let Some(made) = self.decisions else { return };
        let (check, lost, decided) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(check);
        self.b.set_cold_block(lost);
        let port = self.b.use_var(self.gate.unwrap_or(made.egress_port));
        let undecided = self.b.ins().icmp_imm_u(IntCC::Equal, port, i64::from(NO_PORT));
        self.b.ins().brif(undecided, check, &[], decided, &[]);
        self.b.switch_to_block(check);
        let group = self.load_word(self.meta, intrinsic!(multicast_group), 2);
        let verdict = self.load_word(self.meta, intrinsic!(verdict), 1);
        let either = self.b.ins().bor(group, verdict);
        self.b.ins().brif(either, decided, &[], lost, &[]);
        self.b.switch_to_block(lost);
        let reason = self.num(BuiltinReason::NoDecision.id().0.into());
        self.b.ins().jump(drop, &[reason.into()]);
        self.b.switch_to_block(decided);
    }

    /// The packet as the pass leaves it, once for each set of valid headers at the end.
    fn tails(
        &mut self,
        around: Loop,
        leaf: &Leaf,
        tails: &[Tail],
        drop: Block,
    ) -> Result<(), CompileError> {
        for (n, tail) in tails.iter().enumerate() {
            if n + 1 == tails.len() {
                self.tail(leaf, tail, around, drop)?;
                continue;
            }
            let (this, other) = (self.b.create_block(), self.b.create_block());
            let (valid, mask) = (self.b.use_var(self.valid), self.num(tail.valid));
            let same = self.compare(IntCC::Equal, valid, mask);
            self.b.ins().brif(same, this, &[], other, &[]);
            self.b.switch_to_block(this);
            self.tail(leaf, tail, around, drop)?;
            self.b.switch_to_block(other);
        }
        if tails.is_empty() {
            // Every path through the control drops.
            self.b.ins().jump(around.next, &[]);
        }
        Ok(())
    }

    fn tail(
        &mut self,
        leaf: &Leaf,
        tail: &Tail,
        around: Loop,
        drop: Block,
    ) -> Result<(), CompileError> {
        *self.path_mut()? = leaf.path.left_with(tail.valid);
        self.write_checksums(tail)?;
        self.decide();
        self.go_on_to_egress(tail, drop)?;
        self.describe(leaf.path.valid, tail)?;
        self.put_together(tail)?;
        self.carried_out();
        self.b.ins().jump(around.next, &[]);
        Ok(())
    }

    fn store_verdict(&mut self, verdict: Verdict, reason: Value) {
        let (verdict, meta) = (self.num(verdict as u64), self.meta);
        self.store_word(verdict, meta, intrinsic!(verdict), 1);
        self.store_word(reason, meta, intrinsic!(reason), 2);
    }

    /// Writes what egress and the device need to the descriptor.
    fn describe(&mut self, valid_before: u64, tail: &Tail) -> Result<(), CompileError> {
        // The descriptor is still as ingress wrote it.
        if self.control.half == Half::Egress && tail.valid == valid_before {
            return Ok(());
        }
        let packet = self.packet;
        let (valid, headers) = (self.num(tail.leaving), self.num(tail.header_bytes.into()));
        self.b.ins().store(flags(), valid, packet, descriptor!(valid));
        self.store_word(headers, packet, descriptor!(body_off), 2);
        let body = self.path_body_length();
        self.store_word(body, packet, descriptor!(body_len), 4);
        if self.control.half == Half::Egress {
            return Ok(());
        }
        let (dscp, pcp) = (self.program.qos.dscp, self.program.qos.pcp);
        for (pair, offset) in [(dscp, intrinsic!(dscp)), (pcp, intrinsic!(pcp))] {
            let Some((value, present)) = pair else { continue };
            let (bits, none) = (self.bits(value), self.num(0xff));
            let value = match self.known(present) {
                Some(false) => continue,
                Some(true) => {
                    let value = self.expr(value)?;
                    self.resize(value, bits, 64)
                }
                None => {
                    let present = self.expr(present)?;
                    let value = self.expr(value)?;
                    let value = self.resize(value, bits, 64);
                    self.b.ins().select(present, value, none)
                }
            };
            let meta = self.meta;
            self.store_word(value, meta, offset, 1);
        }
        Ok(())
    }
}
