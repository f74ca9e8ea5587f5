//! Fields: loads and stores at constant offsets from the start of their header.

use super::{CompileError, Emit, Validity, flags, narrow_type, path, type_of};
use crate::ids::*;
use crate::ir::FieldLayout;
use crate::ir::layout::{Piece, ones};
use crate::phv::bit;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::types::{I64, I128};

/// The place of a header's bytes: an address, an offset from it, and the least number of bytes after that which may be
/// read.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub(super) address: Value,
    pub(super) offset: i32,
    /// Bytes in front of the header that may be read as well.
    pub(super) before: u32,
    pub(super) bytes: u32,
}

impl Emit<'_> {
    pub(super) fn field_layout(&self, instance: InstanceId, field: FieldId) -> &FieldLayout {
        &self.program.headers[self.program.instances[instance].header].fields[field].layout
    }

    pub(super) fn field_bits(&self, instance: InstanceId, field: FieldId) -> u32 {
        self.program.headers[self.program.instances[instance].header].fields[field].bits
    }

    pub(super) fn base(&self, instance: InstanceId) -> Base {
        let bytes = self.program.headers[self.program.instances[instance].header].fixed_bytes;
        if let Some(path::OnPath { packet, path }) = &self.on_path
            && path.received & bit(instance) != 0
        {
            let before = path.at[instance.index()];
            // All bytes up to the cursor exist.
            let bytes = bytes.max(path.cursor.saturating_sub(before));
            return Base { address: packet.data, offset: before as i32, before, bytes };
        }
        let offset = self.facts.slots[instance.index()] as i32;
        Base { address: self.phv, offset, before: 0, bytes }
    }

    /// A field; 0 when its header is not valid.
    pub(super) fn field(&mut self, instance: InstanceId, field: FieldId) -> Value {
        let bits = self.field_bits(instance, field).max(1);
        match self.validity(instance) {
            Validity::Known(false) => self.constant(0, bits),
            Validity::Known(true) => self.read_field(instance, field),
            Validity::At(valid) => {
                let value = self.read_field(instance, field);
                let zero = self.constant(0, bits);
                self.select(valid, value, zero, bits)
            }
        }
    }

    /// The bits of a field, whether its header is valid or not.
    pub(super) fn read_field(&mut self, instance: InstanceId, field: FieldId) -> Value {
        if let Some(value) = self.read_synthesized(instance, field) {
            return value;
        }
        let base = self.base(instance);
        match self.field_layout(instance, field).clone() {
            FieldLayout::Run { bit, bits } => self.read_run(base, bit, bits),
            FieldLayout::Pieces(pieces) => {
                let bits = self.field_bits(instance, field);
                self.read_pieces(base, &pieces, bits)
            }
            _ => self.num(0),
        }
    }

    /// Loads `count` (1 to 8) bytes in network order.
    pub(super) fn load_be(&mut self, base: Base, at: u32, count: u32) -> Value {
        let offset = base.offset + at as i32;
        if matches!(count, 1 | 2 | 4 | 8) {
            return self.load_swapped(base.address, offset, count);
        }
        // One load of a wider window, if the header has the bytes.
        let window = if count == 3 { 4 } else { 8 };
        if at + window <= base.bytes {
            let value = self.load_swapped(base.address, offset, window);
            return self.b.ins().ushr_imm_u(value, i64::from((window - count) * 8));
        }
        if at + base.before >= window - count {
            let offset = offset - (window - count) as i32;
            let value = self.load_swapped(base.address, offset, window);
            return self.masked(value, count * 8);
        }
        let first = if count > 4 { 4 } else { 2 };
        let high = self.load_be(base, at, first);
        let low = self.load_be(base, at + first, count - first);
        let high = self.b.ins().ishl_imm_u(high, i64::from((count - first) * 8));
        self.b.ins().bor(high, low)
    }

    fn load_swapped(&mut self, address: Value, offset: i32, count: u32) -> Value {
        if count == 1 {
            return self.load_word(address, offset, 1);
        }
        let raw = self.b.ins().load(narrow_type(count), flags(), address, offset);
        let swapped = self.b.ins().bswap(raw);
        if count == 8 { swapped } else { self.b.ins().uextend(I64, swapped) }
    }

    pub(super) fn read_run(&mut self, base: Base, bit: u32, bits: u32) -> Value {
        let (first, last) = (bit / 8, (bit + bits - 1) / 8);
        let (count, spare) = (last - first + 1, (last + 1) * 8 - (bit + bits));
        if count <= 8 {
            let mut value = self.load_be(base, first, count);
            if spare > 0 {
                value = self.b.ins().ushr_imm_u(value, i64::from(spare));
            }
            return if count * 8 - spare == bits { value } else { self.masked(value, bits) };
        }
        // The last eight bytes of the field, and up to nine in front of them.
        let low = self.load_be(base, last - 7, 8);
        let rest = count - 8;
        let wide = if rest <= 8 {
            let high = self.load_be(base, first, rest);
            let wide = self.b.ins().iconcat(low, high);
            self.b.ins().ushr_imm_u(wide, i64::from(spare))
        } else {
            let high = self.load_be(base, first + 1, 8);
            let top = self.load_be(base, first, 1);
            let wide = self.b.ins().iconcat(low, high);
            let wide = self.b.ins().ushr_imm_u(wide, i64::from(spare));
            let zero = self.num(0);
            let top = self.b.ins().iconcat(zero, top);
            let top = self.b.ins().ishl_imm_u(top, i64::from(64 - spare));
            self.b.ins().bor(wide, top)
        };
        let value = self.resize(wide, 128, bits);
        self.masked(value, bits)
    }

    fn read_pieces(&mut self, base: Base, pieces: &[Piece], bits: u32) -> Value {
        let mut value = self.constant(0, bits);
        for piece in pieces {
            let mut byte = self.load_word(base.address, base.offset + piece.byte as i32, 1);
            byte = self.b.ins().ushr_imm_u(byte, i64::from(piece.lsb));
            byte = self.masked(byte, piece.bits.into());
            let wide = self.resize(byte, 8, bits);
            let wide = self.b.ins().ishl_imm_u(wide, i64::from(piece.at));
            value = self.b.ins().bor(value, wide);
        }
        value
    }

    /// Stores the low `count` (1 to 8) bytes of a word in network order.
    pub(super) fn store_be(&mut self, base: Base, at: u32, count: u32, value: Value) {
        let offset = base.offset + at as i32;
        match count {
            1 => self.store_word(value, base.address, offset, 1),
            2 | 4 | 8 => {
                let ty = narrow_type(count);
                let cut = if count == 8 { value } else { self.b.ins().ireduce(ty, value) };
                let swapped = self.b.ins().bswap(cut);
                self.b.ins().store(flags(), swapped, base.address, offset);
            }
            _ => {
                let first = if count > 4 { 4 } else { 2 };
                let high = self.b.ins().ushr_imm_u(value, i64::from((count - first) * 8));
                self.store_be(base, at, first, high);
                self.store_be(base, at + first, count - first, value);
            }
        }
    }

    /// Writes the bits of a field; its header is valid.
    fn write_field(&mut self, instance: InstanceId, field: FieldId, value: Value) {
        if self.write_synthesized(instance, field, value) {
            return;
        }
        let (base, bits) = (self.base(instance), self.field_bits(instance, field));
        let layout = self.field_layout(instance, field).clone();
        let FieldLayout::Run { bit, .. } = layout else {
            let pieces = layout.pieces().unwrap_or_default();
            return self.write_pieces(base, &pieces, value, bits);
        };
        let (first, last) = (bit / 8, (bit + bits - 1) / 8);
        let (count, spare) = (last - first + 1, (last + 1) * 8 - (bit + bits));
        if count > 8 {
            if bit % 8 == 0 && bits == 128 {
                let (low, high) = self.b.ins().isplit(value);
                self.store_be(base, first, 8, high);
                return self.store_be(base, first + 8, 8, low);
            }
            let pieces = layout.pieces().unwrap_or_default();
            return self.write_pieces(base, &pieces, value, bits);
        }
        if count * 8 == bits {
            return self.store_be(base, first, count, value);
        }
        let old = self.load_be(base, first, count);
        let hole = self.num(!((ones(bits) as u64) << spare));
        let kept = self.b.ins().band(old, hole);
        let moved = self.b.ins().ishl_imm_u(value, i64::from(spare));
        let new = self.b.ins().bor(kept, moved);
        self.store_be(base, first, count, new);
    }

    fn write_pieces(&mut self, base: Base, pieces: &[Piece], value: Value, bits: u32) {
        for piece in pieces {
            let offset = base.offset + piece.byte as i32;
            let mask = (ones(piece.bits.into()) as u64) << piece.lsb;
            let part = self.b.ins().ushr_imm_u(value, i64::from(piece.at));
            let part = self.resize(part, bits, 8);
            let part = self.b.ins().ishl_imm_u(part, i64::from(piece.lsb));
            let part = self.b.ins().band_imm_u(part, mask as i64);
            let old = self.load_word(base.address, offset, 1);
            let kept = self.b.ins().band_imm_u(old, (!mask & 0xff) as i64);
            let new = self.b.ins().bor(kept, part);
            self.store_word(new, base.address, offset, 1);
        }
    }

    /// Assigns a field; nothing happens when its header is not valid.
    pub(super) fn assign_field(
        &mut self,
        instance: InstanceId,
        field: FieldId,
        value: Value,
    ) -> Result<(), CompileError> {
        let done = match self.validity(instance) {
            Validity::Known(false) => return Ok(()),
            Validity::Known(true) => None,
            Validity::At(valid) => {
                let (write, done) = (self.b.create_block(), self.b.create_block());
                self.b.ins().brif(valid, write, &[], done, &[]);
                self.b.switch_to_block(write);
                Some(done)
            }
        };
        if self.is_followed(instance) {
            let old = self.read_field(instance, field);
            self.follow_change(instance, field, old, value);
        }
        self.write_field(instance, field, value);
        self.note_assigned(instance, field);
        if let Some(done) = done {
            self.b.ins().jump(done, &[]);
            self.b.switch_to_block(done);
        }
        Ok(())
    }

    /// Marks that a field that holds a checksum was assigned.
    fn note_assigned(&mut self, instance: InstanceId, field: FieldId) {
        // On a path, no assigned field holds a checksum that is written.
        if self.on_path.is_some() {
            return;
        }
        let checksums = self.program.checksums.entries();
        let mask = checksums
            .filter(|(_, checksum)| checksum.field == (instance, field))
            .fold(0, |mask, (id, _)| mask | 1u64.checked_shl(id.0).unwrap_or(0));
        if mask != 0 {
            let at = super::scalar_offset!(assigned);
            let old = self.load64(self.vm, at);
            let mask = self.num(mask);
            let new = self.b.ins().bor(old, mask);
            let vm = self.vm;
            self.b.ins().store(flags(), new, vm, at);
        }
    }

    /// A header's validity as one bit.
    pub(super) fn valid_bit(&mut self, instance: InstanceId) -> Value {
        match self.validity(instance) {
            Validity::Known(known) => self.num(known.into()),
            Validity::At(_) => {
                let valid = self.b.use_var(self.valid);
                let down = self.b.ins().ushr_imm_u(valid, i64::from(instance.0));
                self.b.ins().band_imm_u(down, 1)
            }
        }
    }

    /// The number of consecutive headers that are valid.
    pub(super) fn count_valid(&mut self, first: InstanceId, len: u32) -> Value {
        let mask = (first.0..first.0 + len).fold(0, |mask, n| mask | bit(InstanceId(n)));
        let mut stack = (first.0..first.0 + len).map(InstanceId);
        let known: Option<Vec<bool>> = stack.by_ref().map(|i| self.is_valid(i)).collect();
        if let Some(known) = known {
            return self.num(known.into_iter().filter(|valid| *valid).count() as u64);
        }
        let valid = self.b.use_var(self.valid);
        let mask = self.num(mask);
        let these = self.b.ins().band(valid, mask);
        self.b.ins().popcnt(these)
    }

    /// A zero of this width.
    pub(super) fn zero(&mut self, bits: u32) -> Value {
        debug_assert!(matches!(type_of(bits), I64 | I128));
        self.constant(0, bits)
    }
}
