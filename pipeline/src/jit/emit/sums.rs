//! Checksums in place: verified on a path's constant offsets, and followed where a field that they cover
//! is written.
//!
//! To verify, words are taken as the processor loads them: a ones'-complement sum of swapped words is
//! the swapped sum (RFC 1071 section 2). To follow, each assignment adds what it changes to a variable:
//! the new bits less the old ones (RFC 1624). Nothing is read for it but the old value, and
//! never a word of which a part was just written, which a processor waits for.

use super::path::InPlace;
use super::{Emit, Refused};
use crate::ids::*;
use crate::interp::phv::bit;
use crate::ir::layout::Piece;
use crate::ir::{Checksum, Covered, FieldLayout, Update, Verify};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// A multiple of 0xffff, with which a sum of changes is positive and below 2^32.
const BIAS: i64 = 0x8000 * 0xffff;
/// Most parts of words that may change for that: each is less than 2^24.
const PARTS_MAX: usize = 100;

/// A checksum that follows changes on this path.
#[derive(Clone)]
pub(super) struct Followed {
    /// Which it is, and the header it stands in.
    id: ChecksumId,
    owner: InstanceId,
    /// Offset of the field in the packet.
    field_at: u32,
    /// Headers that it covers.
    covers: Vec<InstanceId>,
    /// Sum of the changes so far, in two's complement; 0 when nothing was written.
    change: Variable,
    /// Parts of words that may have been added to it.
    parts: usize,
    zero_means_none: bool,
}

impl Emit<'_> {
    /// Verifies checksums (a packet with a wrong one is left to the other code) and notes what those
    /// cover that follow changes.
    pub(super) fn checksums_before(&mut self) -> Result<Vec<Followed>, Refused> {
        let program = self.program;
        let mut followed = Vec::new();
        for (id, checksum) in program.checksums.entries() {
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
                followed.extend(self.follow(id, checksum, &parts, field_at)?);
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
    pub(super) fn covered(
        &self,
        checksum: &Checksum,
    ) -> Result<Vec<Option<(InstanceId, u32)>>, Refused> {
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
    pub(super) fn fold16(&mut self, sum: Value, times: u32) -> Value {
        (0..times).fold(sum, |sum, _| {
            let low = self.masked(sum, 16);
            let high = self.b.ins().ushr_imm_u(sum, 16);
            self.b.ins().iadd(low, high)
        })
    }

    /// A checksum in a header that may be made anew, or over others that come or go: not followed here.
    pub(super) fn cannot_follow(&self, valid: u64) -> bool {
        let mut sums = self.program.checksums.iter();
        sums.any(|checksum| {
            let owner = checksum.field.0;
            let other = |part: &Covered| match part {
                Covered::Header { instance, .. } => {
                    *instance != owner && self.changes & bit(*instance) != 0
                }
                _ => false,
            };
            checksum.update == Update::Incremental
                && valid & bit(owner) != 0
                && (self.added & bit(owner) != 0 || checksum.over.iter().any(other))
        })
    }

    fn follow(
        &mut self,
        id: ChecksumId,
        checksum: &Checksum,
        parts: &[Option<(InstanceId, u32)>],
        field_at: u32,
    ) -> Result<Option<Followed>, Refused> {
        if self.written.contains(&checksum.field) {
            return Err(Refused::TooLarge);
        }
        let covers: Vec<InstanceId> =
            parts.iter().flatten().map(|(instance, _)| *instance).collect();
        let owner = checksum.field.0;
        let none = self.num(0);
        let change = self.word_variable(none);
        let zero_means_none = checksum.zero_means_none;
        Ok(Some(Followed { id, owner, field_at, covers, change, parts: 0, zero_means_none }))
    }

    /// A field of a valid header changes from `old` to `new`: what follows notes it.
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
            for _ in sum.covers.iter().filter(|covered| **covered == instance) {
                let mut change = self.b.use_var(sum.change);
                for (at, width, up) in &parts {
                    let old = self.part_of(old, bits, *at, *width);
                    let new = self.part_of(new, bits, *at, *width);
                    let more = self.b.ins().isub(new, old);
                    // Eight bits further up, and round at 16, it is in the order of memory.
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
        self.followed.iter().any(|sum| sum.covers.contains(&instance))
    }

    /// Writes the checksums whose words changed (RFC 1624 equation 3); the mask of the path is that of
    /// a tail.
    pub(super) fn checksums_after(&mut self, before: &InPlace) -> Result<(), Refused> {
        let (data, valid) = (self.path()?.data, self.path()?.valid);
        for (id, checksum) in self.program.checksums.entries() {
            // One that came with the packet and is still there must be in use now if it was then.
            let stays = before.valid & valid & bit(checksum.field.0) != 0;
            if checksum.update == Update::Incremental && stays && self.changes != 0 {
                let now = match checksum.when {
                    Some(when) => self.known(when).ok_or(Refused::TooLarge)?,
                    None => true,
                };
                if now != self.followed.iter().any(|sum| sum.id == id) {
                    return Err(Refused::TooLarge);
                }
            }
        }
        for sum in self.followed.clone() {
            if valid & bit(sum.owner) == 0 {
                continue;
            }
            let change = self.b.use_var(sum.change);
            let (some, write, done) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            self.b.ins().brif(change, some, &[], done, &[]);
            self.b.switch_to_block(some);
            // Equation 3 with words as they are in memory; BIAS is zero in ones' complement and keeps the
            // sum positive, so that it folds to 1 at least.
            let found = self.load_word(data, sum.field_at as i32, 2);
            let many = sum.parts > PARTS_MAX;
            let biased = self.b.ins().iadd_imm_s(change, if many { BIAS << 16 } else { BIAS });
            let folded = self.b.ins().isub(biased, found);
            let folded = match many {
                true => {
                    let (low, high) =
                        (self.masked(folded, 32), self.b.ins().ushr_imm_u(folded, 32));
                    let folded = self.b.ins().iadd(low, high);
                    self.fold16(folded, 3)
                }
                false => self.fold16(folded, 2),
            };
            // All ones stay where nothing changed in ones' complement.
            let both = self.b.ins().band(folded, found);
            let due = self.b.ins().icmp_imm_u(IntCC::NotEqual, both, 0xffff);
            let due = match sum.zero_means_none {
                true => {
                    let used = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
                    self.b.ins().band(due, used)
                }
                false => due,
            };
            self.b.ins().brif(due, write, &[], done, &[]);
            self.b.switch_to_block(write);
            let value = self.b.ins().bxor_imm_u(folded, 0xffff);
            let value = match sum.zero_means_none {
                true => {
                    let ones = self.num(0xffff);
                    self.b.ins().select(value, value, ones)
                }
                false => value,
            };
            self.store_word(value, data, sum.field_at as i32, 2);
            self.b.ins().jump(done, &[]);
            self.b.switch_to_block(done);
        }
        Ok(())
    }
}
