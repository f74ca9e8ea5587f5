//! Generic code: one packet, whatever its headers are. They are copied into the header vector, as the interpreter does.
//!
//! If planned ([`crate::jit::plan::generic`]), the start of a pass and its end have code. It locates headers, writes
//! them back and updates the descriptor, for a packet that keeps its place in an unshared chunk and is forwarded; every
//! other packet takes the step of the interpreter.

use super::{CompileError, Emit, descriptor, flags, intrinsic, scalar_offset, vm_offset};
use crate::exec::{NO_PORT, PacketPath, Verdict, flags as packet_flags};
use crate::interp::bridge::{NO_LOCK, end};
use crate::ir::{BuiltinReason, Half};
use crate::jit::emit::header_edits::words;
use crate::jit::runtime::Helper;
use crate::phv::bit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};

// The end of a pass that forwards leaves the verdict as it was at the start.
const _: () = assert!(Verdict::Forward as u8 == 0 && BuiltinReason::None as u32 == 0);

impl<'g> Emit<'g> {
    /// Parser and control of one packet; returns how the pass ended.
    pub(in crate::jit) fn generic(mut self) -> Result<(), CompileError> {
        self.packet = self.load64(self.vm, vm_offset!(packet));
        self.meta = self.load64(self.vm, vm_offset!(intrinsic));
        self.phv = self.load64(self.vm, vm_offset!(phv_bytes));
        self.start();
        let begun = self.b.create_block();
        match self.control.half {
            Half::Ingress => self.begin_ingress(begun)?,
            Half::Egress => self.begin_egress(begun),
        }
        self.b.switch_to_block(begun);
        let program = self.program;
        let done = self.b.create_block();
        self.body(program.control(self.control.half), &[], done)?;
        self.b.switch_to_block(done);
        let (fail, zero) = (self.fail, self.num(0));
        self.b.ins().jump(fail, &[zero.into()]);
        self.b.switch_to_block(fail);
        let code = self.b.block_params(fail)[0];
        self.locals.clear();
        if self.control.end_has_code(self.facts) {
            self.forward(code);
        }
        self.sync_out()?;
        self.b.ins().return_(&[code]);
        self.finish();
        Ok(())
    }

    /// Every decision at its default, nothing parsed, all metadata zero.
    fn start(&mut self) {
        let (packet, vm) = (self.packet, self.vm);
        self.default_metadata();
        if self.control.half == Half::Ingress {
            let undecided = self.num(NO_PORT.into());
            // Class and priority group follow the port.
            self.store_word(undecided, packet, descriptor!(egress_port), 4);
            let none = self.num(0);
            self.store_word(none, packet, descriptor!(flags), 1);
        }
        let (zero, len) = (self.num(0), self.packet_len());
        for at in [
            scalar_offset!(valid),
            scalar_offset!(received),
            scalar_offset!(cursor_bits),
            scalar_offset!(assigned),
            scalar_offset!(asked_crcs),
        ] {
            self.store_vm(zero, at);
        }
        let (whole, no_lock) = (self.num(u32::MAX.into()), self.num(NO_LOCK.into()));
        for (value, at) in [
            (zero, scalar_offset!(body_start)),
            (len, scalar_offset!(body_end)),
            (len, scalar_offset!(slack_at)),
            (whole, scalar_offset!(truncate_to)),
            (zero, scalar_offset!(resubmit)),
            (no_lock, scalar_offset!(lock)),
        ] {
            self.store_word(value, vm, at, 4);
        }
        for (var, bits) in self.metas.clone() {
            let zero = self.resize(zero, 64, bits);
            self.b.def_var(var, zero);
        }
    }

    /// Metadata of a packet that was in ingress before.
    fn metadata_brought(&mut self) {
        const { assert!(PacketPath::Resubmit as u8 == 2 && PacketPath::Recirculate as u8 == 3) };
        let (brought, new) = (self.b.create_block(), self.b.create_block());
        let how = self.load_word(self.packet, descriptor!(path), 1);
        let how = self.b.ins().band_imm_u(how, 0xfe);
        let again = self.b.ins().icmp_imm_u(IntCC::Equal, how, 2);
        self.b.ins().brif(again, brought, &[], new, &[]);
        self.b.switch_to_block(brought);
        self.call(Helper::CarriedIn, &[]);
        self.metas_in(true);
        self.b.ins().jump(new, &[]);
        self.b.switch_to_block(new);
    }

    /// A block for an end, to be generated in `fail`.
    fn end_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.append_block_param(block, I64);
        block
    }

    fn begin_ingress(&mut self, begun: Block) -> Result<(), CompileError> {
        if self.program.brings_metadata() {
            self.metadata_brought();
        }
        let (accept, stopped) = (self.b.create_block(), self.fail);
        self.parser(accept)?;
        self.b.switch_to_block(accept);
        if self.control.start_has_code() {
            let cursor = self.b.use_var(self.cursor_bits);
            let (vm, at) = (self.vm, self.b.ins().ushr_imm_u(cursor, 3));
            self.store_word(at, vm, scalar_offset!(body_start), 4);
            self.b.ins().jump(begun, &[]);
        } else {
            let zero = self.num(0);
            self.b.ins().jump(stopped, &[zero.into()]);
        }
        self.b.switch_to_block(stopped);
        let code = self.b.block_params(stopped)[0];
        self.in_parser = true;
        self.locals.clear();
        self.sync_out()?;
        self.in_parser = false;
        let code = self.call(Helper::Parsed, &[code]);
        // The step reads metadata and changes none.
        self.validity_in();
        self.fail = self.end_block();
        self.leave_unless_zero(code);
        self.b.ins().jump(begun, &[]);
        Ok(())
    }

    fn begin_egress(&mut self, begun: Block) {
        if self.control.start_has_code() {
            let step = self.end_block();
            self.b.set_cold_block(step);
            let fail = std::mem::replace(&mut self.fail, step);
            self.find_headers();
            self.fail = fail;
            self.b.ins().jump(begun, &[]);
            self.b.switch_to_block(step);
        }
        let code = self.call(Helper::Resume, &[]);
        self.validity_in();
        self.metas_in(false);
        self.leave_unless_zero(code);
        self.b.ins().jump(begun, &[]);
    }

    /// Metadata that crossed the queue, and the headers that ingress left, in the order in which they are in the
    /// packet. Leaves for a copy that must be parsed.
    fn find_headers(&mut self) {
        let (packet, vm) = (self.packet, self.vm);
        let how = self.load_word(packet, descriptor!(path), 1);
        let copy = i64::from(PacketPath::CloneIngress as u8);
        let copy = self.b.ins().icmp_imm_u(IntCC::Equal, how, copy);
        self.leave_if(copy, 0);
        if self.program.carried_in_chunk() > 0 {
            self.chunk = self.load64(vm, vm_offset!(chunk));
            let missing = self.b.ins().icmp_imm_u(IntCC::Equal, self.chunk, 0);
            self.leave_if(missing, 0);
        }
        self.carried_in();
        let there = self.load64(packet, descriptor!(valid));
        let body_off = self.load_word(packet, descriptor!(body_off), 2);
        let data = self.load64(vm, vm_offset!(data));
        let have = self.load64(vm, vm_offset!(data_len));
        let slots = self.load64(vm, vm_offset!(slots));
        let limit = self.b.ins().umin(body_off, have);
        let (at, found) = (self.b.declare_var(I64), self.b.create_block());
        let zero = self.num(0);
        self.b.def_var(at, zero);
        for instance in &self.program.deparser.emit {
            let (here, copy, next) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            let this = self.num(bit(*instance));
            let is_there = self.b.ins().band(there, this);
            self.b.ins().brif(is_there, here, &[], next, &[]);
            self.b.switch_to_block(here);
            let (from, len) = (self.b.use_var(at), self.control.fixed_bytes(*instance));
            let stop = self.b.ins().iadd_imm_s(from, i64::from(len));
            let short = self.compare(IntCC::UnsignedGreaterThan, stop, limit);
            self.b.ins().brif(short, found, &[], copy, &[]);
            self.b.switch_to_block(copy);
            let address = self.b.ins().iadd(data, from);
            self.take(*instance, address, from, slots);
            let valid = self.b.use_var(self.valid);
            let valid = self.b.ins().bor(valid, this);
            self.b.def_var(self.valid, valid);
            self.b.def_var(at, stop);
            self.b.ins().jump(next, &[]);
            self.b.switch_to_block(next);
        }
        self.b.ins().jump(found, &[]);
        self.b.switch_to_block(found);
        let valid = self.b.use_var(self.valid);
        self.b.def_var(self.received, valid);
        let (at, body_len) = (self.b.use_var(at), self.load_word(packet, descriptor!(body_len), 4));
        let (stop, len) = (self.b.ins().iadd(body_off, body_len), self.packet_len());
        let stop = self.b.ins().umin(stop, len);
        let start = self.b.ins().umin(at, stop);
        self.store_word(start, vm, scalar_offset!(body_start), 4);
        self.store_word(stop, vm, scalar_offset!(body_end), 4);
        self.store_word(stop, vm, scalar_offset!(slack_at), 4);
    }

    /// Writes the headers of a packet that is forwarded in front of its body, and returns. Leaves for any other packet,
    /// with nothing done, to where the step of the interpreter is generated next.
    fn forward(&mut self, code: Value) {
        let step = self.end_block();
        self.fail = step;
        let (packet, vm) = (self.packet, self.vm);
        let exits = self.num(end::EXIT);
        let other = self.b.ins().band_not(code, exits);
        self.leave_if(other, 0);
        self.leave_unless_plain();
        let bytes = self.packet_bytes();
        let start = self.load_word(vm, scalar_offset!(body_start), 4);
        let off = self.load_word(packet, descriptor!(data_off), 2);
        let body_off = self.b.ins().iadd(off, start);
        let emit = &self.program.deparser.emit;
        let headers: u32 = emit.iter().map(|i| self.control.fixed_bytes(*i)).sum();
        let front = match self.control.half {
            Half::Ingress => self.program.carried_in_chunk(),
            Half::Egress => 0,
        };
        let room = self.num(u64::from(headers) + front as u64);
        let narrow = self.compare(IntCC::UnsignedLessThan, body_off, room);
        self.leave_if(narrow, 0);

        let body = self.b.ins().iadd(bytes.data, start);
        let place = self.put_headers(body);
        let valid = self.b.use_var(self.valid);
        let emitted = self.num(emit.iter().fold(0, |mask, i| mask | bit(*i)));
        let valid = self.b.ins().band(valid, emitted);
        let off = self.b.ins().isub(place, self.chunk);
        let headers = self.b.ins().isub(body, place);
        let stop = self.load_word(vm, scalar_offset!(body_end), 4);
        let body_len = self.b.ins().isub(stop, start);
        let len = self.b.ins().iadd(headers, body_len);
        self.b.ins().store(flags(), valid, packet, descriptor!(valid));
        self.store_word(off, packet, descriptor!(data_off), 2);
        self.store_word(len, packet, descriptor!(len), 4);
        self.store_word(headers, packet, descriptor!(body_off), 2);
        self.store_word(body_len, packet, descriptor!(body_len), 4);
        if self.control.half == Half::Ingress {
            self.carry_out();
        }
        let done = self.num(end::CONCLUDED);
        self.b.ins().return_(&[done]);
        self.b.switch_to_block(step);
        self.b.set_cold_block(step);
    }

    /// Leaves unless the packet is forwarded whole, once, with nothing behind its body, and no pass with its metadata
    /// follows except egress.
    fn leave_unless_plain(&mut self) {
        let (packet, meta, vm) = (self.packet, self.meta, self.vm);
        let again = self.load_word(vm, scalar_offset!(resubmit), 4);
        let clones = self.load_word(meta, intrinsic!(clone_count), 1);
        let cut = self.load_word(vm, scalar_offset!(truncate_to), 4);
        let cut = self.b.ins().bxor_imm_u(cut, i64::from(u32::MAX));
        let (slack_at, len) = (self.load_word(vm, scalar_offset!(slack_at), 4), self.packet_len());
        let slack = self.b.ins().bxor(slack_at, len);
        let mut special = self.b.ins().bor(again, clones);
        for more in [cut, slack] {
            special = self.b.ins().bor(special, more);
        }
        if self.control.half == Half::Egress {
            let marks = self.load_word(packet, descriptor!(flags), 1);
            let again = self.b.ins().band_imm_u(marks, i64::from(packet_flags::RECIRCULATE));
            special = self.b.ins().bor(special, again);
        }
        self.leave_if(special, 0);
        if self.control.half == Half::Ingress {
            let port = self.load_word(packet, descriptor!(egress_port), 2);
            let group = self.load_word(meta, intrinsic!(multicast_group), 2);
            let decided = self.b.ins().bxor_imm_u(port, i64::from(NO_PORT));
            let decided = self.b.ins().bor(decided, group);
            let nowhere = self.b.ins().icmp_imm_u(IntCC::Equal, decided, 0);
            self.leave_if(nowhere, 0);
        }
    }

    /// Writes the valid headers one in front of the other, the last one in front of the body; returns the start of the
    /// first one. They are written whether they changed or not: comparing would take longer.
    fn put_headers(&mut self, body: Value) -> Value {
        let place = self.b.declare_var(I64);
        self.b.def_var(place, body);
        let valid = self.b.use_var(self.valid);
        for instance in self.program.deparser.emit.iter().rev() {
            let (here, next) = (self.b.create_block(), self.b.create_block());
            let this = self.num(bit(*instance));
            let is_there = self.b.ins().band(valid, this);
            self.b.ins().brif(is_there, here, &[], next, &[]);
            self.b.switch_to_block(here);
            let (behind, len) = (self.b.use_var(place), self.control.fixed_bytes(*instance));
            let (base, to) = (self.base(*instance), -i64::from(len));
            for (at, step) in words(len) {
                let word = self.load_word(base.address, base.offset + at as i32, step);
                self.store_word(word, behind, to as i32 + at as i32, step);
            }
            let front = self.b.ins().iadd_imm_s(behind, to);
            self.b.def_var(place, front);
            self.b.ins().jump(next, &[]);
            self.b.switch_to_block(next);
        }
        self.b.use_var(place)
    }
}
