//! Headers that are added and removed on a path, and the edits of the packet as planned ([`crate::jit::plan::edits`]).
//!
//! All moved bytes are loaded before any is stored, so the order of moves does not matter.

use super::{CompileError, Emit, descriptor, flags, internal, narrow_type};
use crate::ids::*;
use crate::jit::plan::{Source, Tail};
use crate::phv::bit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Offsets and sizes of the words of `bytes` bytes.
pub(super) fn words(bytes: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let step = [8, 4, 2, 1].into_iter().find(|step| at + step <= bytes)?;
        at += step;
        Some((at - step, step))
    })
}

impl Emit<'_> {
    /// Adds or removes a header.
    pub(super) fn change_header(
        &mut self,
        instance: InstanceId,
        add: bool,
    ) -> Result<(), CompileError> {
        let path = self.path_mut()?;
        if path.mutable & bit(instance) == 0 {
            return Err(internal("a header changes that the plan does not change"));
        }
        let known = path.validity.of(instance);
        path.validity.set(instance, add);
        if known == Some(add) {
            return Ok(());
        }
        let valid = self.b.use_var(self.valid);
        let this = self.num(bit(instance));
        if !add {
            let rest = self.b.ins().band_not(valid, this);
            self.b.def_var(self.valid, rest);
            return Ok(());
        }
        if known == Some(false) {
            self.clear_header(instance, true);
            let more = self.b.ins().bor(valid, this);
            self.b.def_var(self.valid, more);
            return Ok(());
        }
        let (make, done) = (self.b.create_block(), self.b.create_block());
        let there = self.b.ins().band(valid, this);
        self.b.ins().brif(there, done, &[], make, &[]);
        self.b.switch_to_block(make);
        self.clear_header(instance, false);
        let more = self.b.ins().bor(valid, this);
        self.b.def_var(self.valid, more);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// All bits of a header to zero; `here`: they are zero in the code generated next.
    fn clear_header(&mut self, instance: InstanceId, here: bool) {
        if self.is_synthesized(instance) {
            return self.clear_synthesized(instance, here);
        }
        let (base, zero) = (self.base(instance), self.num(0));
        for (at, step) in words(self.control.fixed_bytes(instance)) {
            self.store_word(zero, base.address, base.offset + at as i32, step);
        }
    }

    /// Runs generic code for packets whose headroom may not be enough.
    pub(super) fn must_have_room(&mut self, headroom_bytes: u32) {
        if headroom_bytes > 0 {
            let off = self.load_word(self.packet, descriptor!(data_off), 2);
            let small =
                self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, off, i64::from(headroom_bytes));
            self.leave_if(small, 0);
        }
    }

    /// Moves headers to their places in the emitted packet, and updates the descriptor.
    pub(super) fn put_together(&mut self, tail: &Tail) -> Result<(), CompileError> {
        let on_path = self.on_path.as_ref().map(|on| on.packet);
        let packet = on_path.ok_or_else(|| internal("code without a path"))?;
        let mut moves: Vec<(Value, i32)> = Vec::new();
        for header in &tail.moves {
            if header.from == Source::Registers {
                let stores = self.bytes_of_synthesized(header.instance, header.bytes)?;
                moves.extend(stores.into_iter().map(|(word, at)| (word, header.to + at)));
                continue;
            }
            let base = self.base(header.instance);
            for (at, step) in words(header.bytes) {
                let (ty, from) = (narrow_type(step), base.offset + at as i32);
                let word = self.b.ins().load(ty, flags(), base.address, from);
                moves.push((word, header.to + at as i32));
            }
        }
        for (word, at) in moves {
            self.b.ins().store(flags(), word, packet.data, at);
        }
        if tail.start != 0 {
            let (start, descriptor) = (i64::from(tail.start), self.packet);
            let off = self.load_word(descriptor, descriptor!(data_off), 2);
            let off = self.b.ins().iadd_imm_s(off, start);
            self.store_word(off, descriptor, descriptor!(data_off), 2);
            let len = self.b.ins().iadd_imm_s(packet.len, -start);
            self.store_word(len, descriptor, descriptor!(len), 4);
        }
        Ok(())
    }
}
