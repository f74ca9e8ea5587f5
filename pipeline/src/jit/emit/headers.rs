//! Headers that are added, removed and copied in generic code: as `interp::effects` does in the interpreter, on the
//! header vector.
//!
//! Bytes of an invalid header are unused, so they may be written: a copy moves them whether its source is valid or not.

use super::header_edits::words;
use super::parser::slot_len;
use super::{CompileError, Emit, flags, scalar_offset, vm_offset};
use crate::ids::*;
use crate::ir::{Op, Program};
use crate::phv::bit;
use cranelift_codegen::ir::InstBuilder;

/// Longest header that is cleared or copied by code without a loop.
const UNROLLED_BYTES_MAX: u32 = 64;

/// Whether the header is short, and of fixed length.
pub(in crate::jit) fn is_unrolled(program: &Program, instance: InstanceId) -> bool {
    let header = &program.headers[program.instances[instance].header];
    header.max_bytes == header.fixed_bytes && header.fixed_bytes <= UNROLLED_BYTES_MAX
}

impl Emit<'_> {
    /// `set_valid`, `set_invalid` or a copy of headers for which [`is_unrolled`] is true.
    pub(super) fn generic_header_op(&mut self, op: &Op) -> Result<(), CompileError> {
        match op {
            Op::SetValid(instance) => self.make_zero(*instance),
            Op::SetInvalid(instance) => self.take_out(*instance),
            Op::CopyHeader { to, from } if to == from => self.made_new(*to),
            Op::CopyHeader { to, from } => self.copy_header(*to, *from),
            _ => {}
        }
        Ok(())
    }

    /// Zeroes a header, unless it is already valid.
    fn make_zero(&mut self, instance: InstanceId) {
        if self.is_valid(instance) == Some(true) {
            return;
        }
        let (make, done) = (self.b.create_block(), self.b.create_block());
        let (valid, this) = (self.b.use_var(self.valid), self.num(bit(instance)));
        let there = self.b.ins().band(valid, this);
        self.b.ins().brif(there, done, &[], make, &[]);
        self.b.switch_to_block(make);
        let (base, zero, bytes) =
            (self.base(instance), self.num(0), self.control.fixed_bytes(instance));
        for (at, step) in words(bytes) {
            self.store_word(zero, base.address, base.offset + at as i32, step);
        }
        self.has_length(instance, bytes);
        let more = self.b.ins().bor(valid, this);
        self.b.def_var(self.valid, more);
        self.made_new(instance);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    fn take_out(&mut self, instance: InstanceId) {
        let (valid, rest) = (self.b.use_var(self.valid), self.num(!bit(instance)));
        let rest = self.b.ins().band(valid, rest);
        self.b.def_var(self.valid, rest);
        self.made_new(instance);
    }

    fn copy_header(&mut self, to: InstanceId, from: InstanceId) {
        let (target, source, bytes) =
            (self.base(to), self.base(from), self.control.fixed_bytes(to));
        for (at, step) in words(bytes) {
            let word = self.load_word(source.address, source.offset + at as i32, step);
            self.store_word(word, target.address, target.offset + at as i32, step);
        }
        self.has_length(to, bytes);
        let there = self.valid_bit(from);
        let there = self.b.ins().ishl_imm_u(there, i64::from(to.0));
        let (valid, others) = (self.b.use_var(self.valid), self.num(!bit(to)));
        let valid = self.b.ins().band(valid, others);
        let valid = self.b.ins().bor(valid, there);
        self.b.def_var(self.valid, valid);
        self.made_new(to);
    }

    fn has_length(&mut self, instance: InstanceId, bytes: u32) {
        let slots = self.load64(self.vm, vm_offset!(slots));
        let len = self.num(bytes.into());
        self.b.ins().store(flags(), len, slots, slot_len(instance));
    }

    /// Marks a header whose bytes are no longer those that came with the packet; its checksums count as not assigned.
    fn made_new(&mut self, instance: InstanceId) {
        let (received, others) = (self.b.use_var(self.received), self.num(!bit(instance)));
        let received = self.b.ins().band(received, others);
        self.b.def_var(self.received, received);
        let checksums = self.program.checksums.entries();
        let mask = checksums
            .filter(|(_, checksum)| checksum.field.0 == instance)
            .fold(0, |mask, (id, _)| mask | 1u64.checked_shl(id.0).unwrap_or(0));
        if mask != 0 {
            let (old, others) = (self.load64(self.vm, scalar_offset!(assigned)), self.num(!mask));
            let new = self.b.ins().band(old, others);
            self.store_vm(new, scalar_offset!(assigned));
        }
    }
}
