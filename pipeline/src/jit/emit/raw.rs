//! Fields compared in memory order, with constants in network order.

use super::field::Base;
use super::{Emit, flags, narrow_type};
use crate::ids::*;
use crate::ir::FieldLayout;
use crate::ir::layout::ones;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_> {
    /// Whether a field of a valid header differs from a value, as a condition.
    pub(super) fn field_is_not(
        &mut self,
        instance: InstanceId,
        field: FieldId,
        value: u128,
    ) -> Value {
        let all = ones(self.field_bits(instance, field));
        if let Some(differs) = self.raw_compare(IntCC::NotEqual, instance, field, value, all) {
            return differs;
        }
        let bits = self.field_bits(instance, field);
        let (found, value) = (self.read_field(instance, field), self.constant(value, bits));
        self.compare(IntCC::NotEqual, found, value)
    }

    /// Compares the bits of a field under a mask with a value in memory order, with constants in network order: one
    /// instruction or two. `None` where the field is not a short run of a header that is valid on this path.
    pub(super) fn raw_compare(
        &mut self,
        cc: IntCC,
        instance: InstanceId,
        field: FieldId,
        value: u128,
        mask: u128,
    ) -> Option<Value> {
        let (first, window) = self.raw_window(instance, field)?;
        let base: Base = self.base(instance);
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        let spare = (first + window) * 8 - (bit + bits);
        let place = |word: u128| {
            let word = ((word as u64) << spare).swap_bytes();
            word >> (64 - window * 8)
        };
        let (value, mask) = (place(value), place(mask & ones(bits)));
        let ty = narrow_type(window);
        let raw = self.b.ins().load(ty, flags(), base.address, base.offset + first as i32);
        let raw = if mask == u64::MAX >> (64 - window * 8) {
            raw
        } else {
            let mask = self.b.ins().iconst(ty, narrow(mask, window));
            self.b.ins().band(raw, mask)
        };
        let value = self.b.ins().iconst(ty, narrow(value, window));
        Some(self.compare(cc, raw, value))
    }

    /// First byte and number of bytes (1, 2, 4 or 8) that contain a field and exist.
    fn raw_window(&self, instance: InstanceId, field: FieldId) -> Option<(u32, u32)> {
        let FieldLayout::Run { bit: start, bits } = *self.field_layout(instance, field) else {
            return None;
        };
        let (first, last) = (start / 8, (start + bits - 1) / 8);
        let window = (last - first + 1).checked_next_power_of_two()?;
        let valid = self.is_valid(instance) == Some(true) && !self.is_synthesized(instance);
        let there = valid && first + window <= self.base(instance).bytes;
        (there && window <= 8).then_some((first, window))
    }

    /// Whether [`Emit::raw_compare`] supports a field.
    pub(super) fn has_raw(&self, instance: InstanceId, field: FieldId) -> bool {
        self.raw_window(instance, field).is_some()
    }
}

/// A constant in the range that an integer of `bytes` bytes takes.
fn narrow(word: u64, bytes: u32) -> i64 {
    match bytes {
        1 => i64::from(word as u8),
        2 => i64::from(word as u16),
        4 => i64::from(word as u32),
        _ => word as i64,
    }
}
