//! Synthesized headers: those that a control adds, in registers, as words of eight bytes with the first byte on top.
//!
//! They are not in memory until the packet is emitted ([`super::header_edits`]), so their constant fields are constants
//! of the code. The plan decides which headers are in registers.

use super::{CompileError, Emit, internal, narrow_type, type_of};
use crate::ids::*;
use crate::ir::FieldLayout;
use crate::ir::layout::ones;
use cranelift_codegen::ir::types::{I64, I128};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// A header in registers.
#[derive(Clone, Debug)]
pub(super) struct Synthesized {
    instance: InstanceId,
    words: Vec<Variable>,
    /// Bits that are known to be zero at the current point of generation.
    clean: Vec<u64>,
}

/// A part of a field in one word: the word's index, its lowest bit there, its number of bits, and its lowest bit in the
/// value of the field.
struct Part {
    word: usize,
    low: u32,
    bits: u32,
    at: u32,
}

/// The parts of a field of `bits` bits, `bit` bits after the start of its header.
fn parts(bit: u32, bits: u32) -> Vec<Part> {
    let (mut from, stop, mut parts) = (bit, bit + bits, Vec::new());
    while from < stop {
        let to = stop.min((from / 64 + 1) * 64);
        let low = 63 - (to - 1) % 64;
        parts.push(Part { word: (from / 64) as usize, low, bits: to - from, at: stop - to });
        from = to;
    }
    parts
}

impl Emit<'_> {
    /// The headers that this path may add, with all bits zero.
    pub(super) fn synthesize(&mut self, headers: &[InstanceId]) {
        self.synthesized.clear();
        for instance in headers.iter().copied() {
            let count = self.control.fixed_bytes(instance).div_ceil(8) as usize;
            let words = (0..count).map(|_| {
                let zero = self.num(0);
                self.word_variable(zero)
            });
            let words = words.collect();
            self.synthesized.push(Synthesized { instance, words, clean: vec![0; count] });
        }
    }

    pub(super) fn is_synthesized(&self, instance: InstanceId) -> bool {
        self.synthesized.iter().any(|header| header.instance == instance)
    }

    fn synthesized_header(&self, instance: InstanceId) -> Option<Synthesized> {
        self.synthesized.iter().find(|header| header.instance == instance).cloned()
    }

    /// All bits of a header to zero; `here`: they are zero in the code generated next.
    pub(super) fn clear_synthesized(&mut self, instance: InstanceId, here: bool) {
        let Some(header) = self.synthesized_header(instance) else { return };
        for word in header.words {
            let zero = self.num(0);
            self.b.def_var(word, zero);
        }
        if here
            && let Some(header) =
                self.synthesized.iter_mut().find(|header| header.instance == instance)
        {
            header.clean.fill(u64::MAX);
        }
    }

    /// Drops the known zero bits: the code generated next may be reached from elsewhere.
    pub(super) fn invalidate_clean(&mut self) {
        self.synthesized.iter_mut().for_each(|header| header.clean.fill(0));
    }

    /// A field; `None` where its header is not in registers.
    pub(super) fn read_synthesized(
        &mut self,
        instance: InstanceId,
        field: FieldId,
    ) -> Option<Value> {
        let header = self.synthesized_header(instance)?;
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        let mut value = None;
        for part in parts(bit, bits) {
            let word = self.b.use_var(*header.words.get(part.word)?);
            let down = self.b.ins().ushr_imm_u(word, i64::from(part.low));
            let this = if part.low + part.bits == 64 { down } else { self.masked(down, part.bits) };
            let this = match type_of(bits) {
                I128 => self.b.ins().uextend(I128, this),
                _ => this,
            };
            let this = self.b.ins().ishl_imm_u(this, i64::from(part.at));
            value = Some(value.map_or(this, |value| self.b.ins().bor(value, this)));
        }
        value
    }

    /// Writes a field; false where its header is not in registers.
    pub(super) fn write_synthesized(
        &mut self,
        instance: InstanceId,
        field: FieldId,
        value: Value,
    ) -> bool {
        let Some(header) = self.synthesized_header(instance) else { return false };
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return false;
        };
        for part in parts(bit, bits) {
            let Some(var) = header.words.get(part.word).copied() else { continue };
            let moved = self.b.ins().ushr_imm_u(value, i64::from(part.at));
            let this = self.resize(moved, bits, 64);
            let this =
                if part.at + part.bits == bits { this } else { self.masked(this, part.bits) };
            let this = self.b.ins().ishl_imm_u(this, i64::from(part.low));
            let place = (ones(part.bits) as u64) << part.low;
            let new = if place == u64::MAX {
                this
            } else {
                let mut old = self.b.use_var(var);
                if header.clean[part.word] & place != place {
                    let hole = self.num(!place);
                    old = self.b.ins().band(old, hole);
                }
                self.b.ins().bor(old, this)
            };
            self.b.def_var(var, new);
            if let Some(header) =
                self.synthesized.iter_mut().find(|header| header.instance == instance)
            {
                header.clean[part.word] &= !place;
            }
        }
        true
    }

    /// The sum of the first `len` (even) bytes in words of 16 or 32 bits; `None` where the header is not
    /// in registers.
    pub(super) fn sum_synthesized(&mut self, instance: InstanceId, len: u32) -> Option<Value> {
        let header = self.synthesized_header(instance)?;
        let mut sum = self.num(0);
        for (n, word) in header.words.into_iter().enumerate() {
            let here = len.saturating_sub(n as u32 * 8).min(8);
            if here == 0 {
                break;
            }
            let word = self.b.use_var(word);
            let high = self.b.ins().ushr_imm_u(word, 32);
            sum = self.b.ins().iadd(sum, high);
            if here > 4 {
                let low = self.masked(word, 32);
                sum = self.b.ins().iadd(sum, low);
            }
        }
        Some(sum)
    }

    /// The bytes of a header as words to be stored: value and offset.
    pub(super) fn bytes_of_synthesized(
        &mut self,
        instance: InstanceId,
        bytes: u32,
    ) -> Result<Vec<(Value, i32)>, CompileError> {
        let missing = || internal("a synthesized header is not in registers");
        let header = self.synthesized_header(instance).ok_or_else(missing)?;
        let (mut stores, mut at) = (Vec::new(), 0);
        while at < bytes {
            let step = [8, 4, 2].into_iter().find(|step| at + step <= bytes).unwrap_or(1);
            let word = self.b.use_var(*header.words.get((at / 8) as usize).ok_or_else(missing)?);
            let down = 64 - at % 8 * 8 - step * 8;
            let word = self.b.ins().ushr_imm_u(word, i64::from(down));
            let ty = narrow_type(step);
            let cut = if ty == I64 { word } else { self.b.ins().ireduce(ty, word) };
            let swapped = if step == 1 { cut } else { self.b.ins().bswap(cut) };
            stores.push((swapped, at as i32));
            at += step;
        }
        Ok(stores)
    }
}
