//! Adjacent keys of a select are compared at once.
//!
//! The requirements of a case on fields in memory are collected byte by byte; then a load, a mask and a comparison test
//! up to eight bytes. A key that contradicts another one on the same bits is compared separately.

use super::{Emit, flags, narrow_type};
use crate::ids::*;
use crate::ir::layout::ones;
use crate::ir::{ExprKind, FieldLayout};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Required values of header bytes: mask and value of each byte.
#[derive(Default)]
pub(super) struct Wanted {
    headers: Vec<(InstanceId, Vec<(u8, u8)>)>,
}

impl Emit<'_> {
    /// Adds the requirement of a key; false if it must be compared separately.
    pub(super) fn want(&self, wanted: &mut Wanted, key: ExprId, value: u128, mask: u128) -> bool {
        let ExprKind::Field(instance, field) = self.program.exprs[key].kind else { return false };
        let FieldLayout::Run { bit, bits } = *self.field_layout(instance, field) else {
            return false;
        };
        let mask = mask & ones(bits);
        if !self.has_raw(instance, field) || value & !mask != 0 {
            return false;
        }
        let (first, last) = ((bit / 8) as usize, ((bit + bits - 1) / 8) as usize);
        let spare = (last as u32 + 1) * 8 - (bit + bits);
        let of_byte = |word: u128, n: usize| ((word << spare) >> ((last - n) * 8)) as u8;
        let place = match wanted.headers.iter().position(|(known, _)| *known == instance) {
            Some(place) => place,
            None => {
                wanted.headers.push((instance, Vec::new()));
                wanted.headers.len() - 1
            }
        };
        let bytes = &mut wanted.headers[place].1;
        if bytes.len() <= last {
            bytes.resize(last + 1, (0, 0));
        }
        let agrees = |n: usize| {
            let (known, is) = bytes[n];
            (is ^ of_byte(value, n)) & known & of_byte(mask, n) == 0
        };
        if !(first..=last).all(agrees) {
            return false;
        }
        for (n, byte) in bytes.iter_mut().enumerate().take(last + 1).skip(first) {
            *byte = (byte.0 | of_byte(mask, n), byte.1 | of_byte(value, n));
        }
        true
    }

    /// Conditions that are all true when the requirements are met.
    pub(super) fn as_wanted(&mut self, wanted: &Wanted) -> Vec<Value> {
        let mut conditions = Vec::new();
        for (instance, bytes) in &wanted.headers {
            let base = self.base(*instance);
            let mut at = 0;
            while let Some(more) = bytes[at..].iter().position(|(mask, _)| *mask != 0) {
                let start = at + more;
                let fits = |window: &usize| start + window <= base.bytes as usize;
                let most = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
                let here = &bytes[start..bytes.len().min(start + most)];
                let last = here.iter().rposition(|(mask, _)| *mask != 0).unwrap_or(0);
                let window = (last + 1).next_power_of_two();
                let word = |of: fn(&(u8, u8)) -> u8| {
                    let bytes = here.iter().take(window).enumerate();
                    bytes.fold(0u64, |word, (n, byte)| word | u64::from(of(byte)) << (8 * n))
                };
                let (mask, value) = (word(|byte| byte.0), word(|byte| byte.1));
                let ty = narrow_type(window as u32);
                let offset = base.offset + start as i32;
                let mut raw = self.b.ins().load(ty, flags(), base.address, offset);
                if mask != u64::MAX >> (64 - 8 * window) {
                    let mask = self.b.ins().iconst(ty, mask as i64);
                    raw = self.b.ins().band(raw, mask);
                }
                let value = self.b.ins().iconst(ty, value as i64);
                conditions.push(self.compare(IntCC::Equal, raw, value));
                at = start + window.min(bytes.len() - start);
            }
        }
        conditions
    }
}
