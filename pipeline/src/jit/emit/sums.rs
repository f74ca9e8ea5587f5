//! Checksums in place: verified on a path's constant offsets, and followed by the words that the control
//! may write.
//!
//! Words are taken as the processor loads them: a ones'-complement sum of swapped words is the swapped
//! sum (RFC 1071 section 2).

use super::{Emit, Refused, flags};
use crate::ids::*;
use crate::interp::phv::bit;
use crate::ir::{Checksum, Covered, FieldLayout, LValue, Op, Update, Verify};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// A checksum that follows changes on this path.
pub(super) struct Followed {
    /// Offset of the field in the packet.
    field_at: u32,
    /// Offsets of the words that may change.
    words: Vec<u32>,
    /// Their sum at the start of the pass.
    before: Variable,
    zero_means_none: bool,
}

impl Emit<'_> {
    /// Verifies checksums (a packet with a wrong one is left to the other code) and notes what those
    /// cover that follow changes.
    pub(super) fn checksums_before(&mut self) -> Result<Vec<Followed>, Refused> {
        let program = self.program;
        let mut followed = Vec::new();
        for checksum in program.checksums.iter() {
            let verify = !self.egress && checksum.verify != Verify::Off;
            let follow = checksum.update == Update::Incremental;
            let always = self.egress && checksum.update == Update::Always;
            let path = self.in_place.as_ref().ok_or(Refused::TooLarge)?;
            if !(verify || follow || always) || path.valid & bit(checksum.field.0) == 0 {
                continue;
            }
            match checksum.when.map(|when| self.known(when)) {
                Some(Some(false)) => continue,
                Some(None) => return Err(Refused::TooLarge),
                Some(Some(true)) | None => {}
            }
            if always {
                return Err(Refused::TooLarge);
            }
            let parts = self.covered(checksum)?;
            let field_at = self.checksum_field(checksum)?;
            if verify {
                self.verify_in_place(checksum, &parts, field_at)?;
            }
            if follow {
                followed.extend(self.follow(checksum, &parts, field_at)?);
            }
        }
        Ok(followed)
    }

    /// Offset in the packet of a field of 16 bits on an even byte of its header.
    fn checksum_field(&self, checksum: &Checksum) -> Result<u32, Refused> {
        let path = self.in_place.as_ref().ok_or(Refused::TooLarge)?;
        match self.field_layout(checksum.field.0, checksum.field.1) {
            FieldLayout::Run { bit, bits: 16 } if bit.is_multiple_of(16) => {
                Ok(path.at[checksum.field.0.index()] + bit / 8)
            }
            _ => Err(Refused::TooLarge),
        }
    }

    /// The headers that are covered on this path, as ranges of the packet; none begins in the middle of
    /// a word. `None` stands for the body.
    fn covered(&self, checksum: &Checksum) -> Result<Vec<Option<(InstanceId, u32)>>, Refused> {
        let path = self.in_place.as_ref().ok_or(Refused::TooLarge)?;
        let mut parts = Vec::new();
        let mut owner_is_covered = false;
        for part in &checksum.over {
            if parts.last() == Some(&None) {
                return Err(Refused::TooLarge);
            }
            match part {
                Covered::Header { instance, .. } if path.valid & bit(*instance) == 0 => {}
                Covered::Header { instance, ones } => {
                    let header = self.program.instances[*instance].header;
                    let fixed = self.program.headers[header].fixed_bytes;
                    if !ones.is_empty() || !fixed.is_multiple_of(2) {
                        return Err(Refused::TooLarge);
                    }
                    owner_is_covered |= *instance == checksum.field.0;
                    parts.push(Some((*instance, fixed)));
                }
                Covered::Body => parts.push(None),
                _ => return Err(Refused::TooLarge),
            }
        }
        let owner = |part: &&Option<(InstanceId, u32)>| matches!(part, Some((instance, _)) if *instance == checksum.field.0);
        match owner_is_covered && parts.iter().filter(owner).count() == 1 {
            true => Ok(parts),
            false => Err(Refused::TooLarge),
        }
    }

    fn verify_in_place(
        &mut self,
        checksum: &Checksum,
        parts: &[Option<(InstanceId, u32)>],
        field_at: u32,
    ) -> Result<(), Refused> {
        let path = self.in_place.as_ref().ok_or(Refused::TooLarge)?.clone();
        let mut sum = self.num(0);
        for part in parts {
            let Some((instance, len)) = part else { return Err(Refused::TooLarge) };
            let start = path.at[instance.index()];
            let mut done = 0;
            while done < *len {
                let step = if done + 4 <= *len { 4 } else { 2 };
                let word = self.load_word(path.data, (start + done) as i32, step);
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
            let found = self.load_word(path.data, field_at as i32, 2);
            let some = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            wrong = self.b.ins().band(wrong, some);
        }
        self.leave_if(wrong, 0);
        Ok(())
    }

    /// Adds the upper part to the lower 16 bits, so many times.
    fn fold16(&mut self, sum: Value, times: u32) -> Value {
        (0..times).fold(sum, |sum, _| {
            let low = self.masked(sum, 16);
            let high = self.b.ins().ushr_imm_u(sum, 16);
            self.b.ins().iadd(low, high)
        })
    }

    fn follow(
        &mut self,
        checksum: &Checksum,
        parts: &[Option<(InstanceId, u32)>],
        field_at: u32,
    ) -> Result<Option<Followed>, Refused> {
        let path = self.in_place.as_ref().ok_or(Refused::TooLarge)?.clone();
        let written = self.written();
        if written.contains(&checksum.field) {
            return Err(Refused::TooLarge);
        }
        let mut words = Vec::new();
        for (instance, _) in parts.iter().flatten() {
            let mut here: Vec<u32> = Vec::new();
            for (owner, field) in written.iter().filter(|(owner, _)| owner == instance) {
                let layout = self.field_layout(*owner, *field);
                let pieces = layout.pieces().unwrap_or_default();
                here.extend(pieces.iter().map(|piece| piece.byte / 2 * 2));
            }
            here.sort_unstable();
            here.dedup();
            words.extend(here.iter().map(|word| path.at[instance.index()] + word));
        }
        if words.is_empty() {
            return Ok(None);
        }
        let before = self.sum_words(path.data, &words);
        let before = self.word_variable(before);
        let zero_means_none = checksum.zero_means_none;
        Ok(Some(Followed { field_at, words, before, zero_means_none }))
    }

    fn sum_words(&mut self, data: Value, words: &[u32]) -> Value {
        let mut sum = self.num(0);
        for (n, at) in words.iter().enumerate() {
            let word = self.load_word(data, *at as i32, 2);
            sum = if n == 0 { word } else { self.b.ins().iadd(sum, word) };
        }
        sum
    }

    /// Fields that this control or an action may assign.
    fn written(&self) -> Vec<(InstanceId, FieldId)> {
        let control = if self.egress { &self.program.egress } else { &self.program.ingress };
        let bodies = self.program.actions.iter().map(|action| &action.body).chain([control]);
        let ops = bodies.flat_map(|body| &body.blocks).flat_map(|block| &block.ops);
        let target = |op: &Op| match op {
            Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => Some(to.clone()),
            _ => None,
        };
        let field = |to: LValue| match to {
            LValue::Field(instance, field) | LValue::FieldSlice { instance, field, .. } => {
                Some((instance, field))
            }
            _ => None,
        };
        ops.filter_map(|op| target(&op.op)).filter_map(field).collect()
    }

    /// Writes the checksums whose words changed (RFC 1624 equation 3).
    pub(super) fn checksums_after(&mut self, sums: &[Followed]) {
        let Some((data, _, _)) = self.path_cursor() else { return };
        for sum in sums {
            // new - old, kept above zero by as many times 0xffff as there are words.
            let new = self.sum_words(data, &sum.words);
            let old = self.b.use_var(sum.before);
            let change = self.b.ins().isub(new, old);
            let lift = sum.words.len() as i64 * 0xffff;
            let change = self.b.ins().iadd_imm_s(change, lift);
            let (write, done) = (self.b.create_block(), self.b.create_block());
            let folds = if sum.words.len() > 1000 { 4 } else { 3 };
            let folded = self.fold16(change, folds);
            let some = self.b.ins().icmp_imm_u(IntCC::NotEqual, folded, 0);
            let other = self.b.ins().icmp_imm_u(IntCC::NotEqual, folded, 0xffff);
            let differs = self.b.ins().band(some, other);
            let found = self.load_word(data, sum.field_at as i32, 2);
            let due = match sum.zero_means_none {
                true => {
                    let used = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
                    self.b.ins().band(differs, used)
                }
                false => differs,
            };
            self.b.ins().brif(due, write, &[], done, &[]);
            self.b.switch_to_block(write);
            let inverse = self.b.ins().bxor_imm_u(found, 0xffff);
            let value = self.b.ins().iadd(inverse, folded);
            let value = self.fold16(value, 2);
            let value = self.b.ins().bxor_imm_u(value, 0xffff);
            let value = match sum.zero_means_none {
                true => {
                    let ones = self.num(0xffff);
                    self.b.ins().select(value, value, ones)
                }
                false => value,
            };
            self.b.ins().istore16(flags(), value, data, sum.field_at as i32);
            self.b.ins().jump(done, &[]);
            self.b.switch_to_block(done);
        }
    }
}
