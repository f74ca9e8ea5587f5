//! Checksums on a path, as planned: verified at constant offsets, updated with each assignment, or computed in full.
//!
//! To verify, words are summed in the processor's byte order: a ones'-complement sum of swapped words is the swapped
//! sum (RFC 1071 section 2). To update, each assignment adds its change to a variable: the new bits less the old ones
//! (RFC 1624). It reads only the old value, and never a word of which a part was just written, which would stall the
//! processor.

use super::{CompileError, Emit, internal};
use crate::ids::*;
use crate::ir::FieldLayout;
use crate::ir::layout::Piece;
use crate::jit::plan::Tail;
use crate::jit::plan::checksums::{Computed, Followed, Verified};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// A multiple of 0xffff, with which a sum of changes is positive and below 2^32.
const BIAS: i64 = 0x8000 * 0xffff;
/// Most parts of words that may change for that: each is less than 2^24.
const PARTS_MAX: usize = 100;

/// A checksum that follows changes.
#[derive(Clone)]
pub(super) struct Following {
    plan: Followed,
    /// Sum of the changes so far, in two's complement; 0 when nothing was written.
    change: Variable,
    /// Parts of words that have been added to it at most.
    parts: usize,
}

impl Emit<'_> {
    /// Runs generic code for a packet with a wrong checksum.
    pub(super) fn verify_checksum(&mut self, checksum: &Verified) {
        let Some((data, at)) = self.on_path.as_ref().map(|on| (on.packet.data, on.path.at.clone()))
        else {
            return;
        };
        let mut sum = self.num(0);
        for (instance, len) in &checksum.covers {
            let start = at[instance.index()];
            let mut done = 0;
            while done < *len {
                let step = if done + 4 <= *len { 4 } else { 2 };
                let word = self.load_word(data, (start + done) as i32, step);
                sum = self.b.ins().iadd(sum, word);
                done += step;
            }
        }
        let low = self.masked(sum, 32);
        let high = self.b.ins().ushr_imm_u(sum, 32);
        let sum = self.b.ins().iadd(low, high);
        let sum = self.fold16(sum, 3);
        let mut wrong = self.b.ins().icmp_imm_u(IntCC::NotEqual, sum, 0xffff);
        if checksum.zero_means_none {
            let found = self.load_word(data, checksum.field_at as i32, 2);
            let some = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            wrong = self.b.ins().band(wrong, some);
        }
        self.leave_if(wrong, 0);
    }

    /// Adds the upper part to the lower 16 bits, `times` times.
    pub(super) fn fold16(&mut self, sum: Value, times: u32) -> Value {
        (0..times).fold(sum, |sum, _| {
            let low = self.masked(sum, 16);
            let high = self.b.ins().ushr_imm_u(sum, 16);
            self.b.ins().iadd(low, high)
        })
    }

    /// From here on these checksums follow assignments.
    pub(super) fn follow(&mut self, checksums: &[Followed]) {
        for plan in checksums {
            let none = self.num(0);
            let change = self.word_variable(none);
            self.followed.push(Following { plan: plan.clone(), change, parts: 0 });
        }
    }

    /// A field of a valid header changes from `old` to `new`: adds the change to the checksums that follow.
    pub(super) fn follow_change(
        &mut self,
        instance: InstanceId,
        field: FieldId,
        old: Value,
        new: Value,
    ) {
        let bits = self.field_bits(instance, field);
        let layout = self.field_layout(instance, field);
        // Parts of the value: lowest bit, number of bits, lowest bit in their word.
        let parts: Vec<(u32, u32, u32)> = match layout {
            FieldLayout::Run { bit, bits } if bit / 16 == (bit + bits - 1) / 16 => {
                vec![(0, *bits, 15 - (bit + bits - 1) % 16)]
            }
            FieldLayout::Run { bit, bits } if bit % 16 == 0 && bits % 16 == 0 => {
                (0..bits / 16).map(|n| (16 * n, 16, 0)).collect()
            }
            layout => {
                let pieces = layout.pieces().unwrap_or_default();
                let part = |p: &Piece| {
                    let up = if p.byte.is_multiple_of(2) { 8 } else { 0 };
                    (p.at.into(), p.bits.into(), up + u32::from(p.lsb))
                };
                pieces.iter().map(part).collect()
            }
        };
        for n in 0..self.followed.len() {
            let sum = self.followed[n].clone();
            for _ in sum.plan.covers.iter().filter(|covered| **covered == instance) {
                let mut change = self.b.use_var(sum.change);
                for (at, width, up) in &parts {
                    let old = self.part_of(old, bits, *at, *width);
                    let new = self.part_of(new, bits, *at, *width);
                    let more = self.b.ins().isub(new, old);
                    // Eight bits further up, modulo 16, it is in memory order.
                    let more = self.b.ins().ishl_imm_u(more, i64::from((up + 8) % 16));
                    change = self.b.ins().iadd(change, more);
                }
                self.b.def_var(sum.change, change);
                self.followed[n].parts += parts.len();
            }
        }
    }

    /// `width` bits from bit `at` of a value of `bits` bits.
    fn part_of(&mut self, value: Value, bits: u32, at: u32, width: u32) -> Value {
        let value = if at == 0 { value } else { self.b.ins().ushr_imm_u(value, i64::from(at)) };
        let value = self.resize(value, bits, 64);
        if at + width == bits { value } else { self.masked(value, width) }
    }

    /// True when a checksum follows changes of this header.
    pub(super) fn is_followed(&self, instance: InstanceId) -> bool {
        self.followed.iter().any(|sum| sum.plan.covers.contains(&instance))
    }

    /// Writes the checksums of a tail that the tail updates or computes.
    pub(super) fn write_checksums(&mut self, tail: &Tail) -> Result<(), CompileError> {
        let on_path = self.on_path.as_ref().map(|on| on.packet.data);
        let data = on_path.ok_or_else(|| internal("code without a path"))?;
        for n in &tail.updated {
            let sum = self.followed.get(*n).cloned();
            let sum = sum.ok_or_else(|| internal("a checksum that nothing follows"))?;
            self.update_checksum(data, &sum);
        }
        for checksum in &tail.computed {
            self.compute_checksum(checksum);
        }
        Ok(())
    }

    /// Writes a checksum if words of it changed (RFC 1624 equation 3).
    fn update_checksum(&mut self, data: Value, sum: &Following) {
        let change = self.b.use_var(sum.change);
        let (some, write, done) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(change, some, &[], done, &[]);
        self.b.switch_to_block(some);
        // Equation 3 with words as they are in memory; BIAS is zero in ones' complement and keeps the
        // sum positive, so that it folds to 1 at least.
        let found = self.load_word(data, sum.plan.field_at as i32, 2);
        let many = sum.parts > PARTS_MAX;
        let biased = self.b.ins().iadd_imm_s(change, if many { BIAS << 16 } else { BIAS });
        let folded = self.b.ins().isub(biased, found);
        let folded = match many {
            true => {
                let (low, high) = (self.masked(folded, 32), self.b.ins().ushr_imm_u(folded, 32));
                let folded = self.b.ins().iadd(low, high);
                self.fold16(folded, 3)
            }
            false => self.fold16(folded, 2),
        };
        // All ones stay where nothing changed in ones' complement.
        let both = self.b.ins().band(folded, found);
        let due = self.b.ins().icmp_imm_u(IntCC::NotEqual, both, 0xffff);
        let due = match sum.plan.zero_means_none {
            true => {
                let used = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
                self.b.ins().band(due, used)
            }
            false => due,
        };
        self.b.ins().brif(due, write, &[], done, &[]);
        self.b.switch_to_block(write);
        let value = self.b.ins().bxor_imm_u(folded, 0xffff);
        let value = match sum.plan.zero_means_none {
            true => {
                let ones = self.num(0xffff);
                self.b.ins().select(value, value, ones)
            }
            false => value,
        };
        self.store_word(value, data, sum.plan.field_at as i32, 2);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// A checksum in full, whose field in its header is zero or not added. Words in memory are summed in the
    /// processor's byte order, which results in the swapped sum: rotated by eight bits it is the sum (RFC 1071 section
    /// 2).
    fn compute_checksum(&mut self, checksum: &Computed) {
        let (owner, field) = checksum.field;
        let (mut sum, mut loaded) = (self.num(0), self.num(0));
        for (instance, len) in checksum.covers.iter().copied() {
            if let Some(more) = self.sum_synthesized(instance, len) {
                sum = self.b.ins().iadd(sum, more);
                continue;
            }
            let base = self.base(instance);
            for at in (0..len).step_by(2).filter(|at| instance != owner || *at != checksum.own) {
                let word = self.load_word(base.address, base.offset + at as i32, 2);
                loaded = self.b.ins().iadd(loaded, word);
            }
        }
        let loaded = self.b.ins().ishl_imm_u(loaded, 8);
        let sum = self.b.ins().iadd(sum, loaded);
        let (low, high) = (self.masked(sum, 32), self.b.ins().ushr_imm_u(sum, 32));
        let sum = self.b.ins().iadd(low, high);
        let sum = self.fold16(sum, 3);
        let value = self.b.ins().bxor_imm_u(sum, 0xffff);
        let value = match checksum.zero_means_none {
            true => {
                let ones = self.num(0xffff);
                self.b.ins().select(value, value, ones)
            }
            false => value,
        };
        if !self.write_synthesized(owner, field, value) {
            let base = self.base(owner);
            self.store_be(base, checksum.own, 2, value);
        }
    }
}
