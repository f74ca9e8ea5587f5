//! Checksums and CRCs: their input, verification and update.

use super::pass::{End, Pass};
use crate::externs::checksum::{Sum, fold, updated};
use crate::externs::crc::Run;
use crate::ids::*;
use crate::ir::sums::SumId;
use crate::ir::{AfterBody, BuiltinReason, Checksum, Covered, Crc, Half, Update, Verify};
use crate::phv::{Before, bit};
use crate::trace::Event;

/// The fixed part of a header is at most 2,048 bits.
const FIXED_MAX: usize = 256;

/// Which bytes of pads are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pads {
    AsReceived,
    AsEmitted,
}

/// A consumer of the covered bytes.
trait Absorb {
    fn bytes(&mut self, bytes: &[u8]);
    fn body(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }
}

impl Absorb for Sum {
    fn bytes(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }
}

impl Absorb for Run<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }
}

/// A sum with the body's part separate, because a pass does not change the body.
#[derive(Default)]
struct CoverSum {
    sum: Sum,
    /// The body is needed as well.
    with_body: bool,
    odd_at_body: bool,
    body: u64,
}

impl CoverSum {
    /// The sum of everything but the body.
    fn head(&self) -> u16 {
        fold(self.sum.total() - self.body)
    }
}

impl Absorb for CoverSum {
    fn bytes(&mut self, bytes: &[u8]) {
        self.sum.add(bytes);
    }

    fn body(&mut self, bytes: &[u8]) {
        self.odd_at_body = self.sum.is_odd();
        if self.with_body {
            let before = self.sum.total();
            self.sum.add(bytes);
            self.body += self.sum.total() - before;
        } else {
            self.sum.skip(bytes.len());
        }
    }
}

impl Pass<'_> {
    /// At the start of a pass: verifies checksums, in ingress, and stores the sums of those that follow changes.
    pub(super) fn check_sums(&mut self) -> Result<(), End> {
        let program = self.program;
        for (id, checksum) in program.checksums.entries() {
            self.scratch.phv.before[id.index()] = Before::default();
            let verify = self.half == Half::Ingress && checksum.verify != Verify::Off;
            let follow = checksum.update == Update::Incremental;
            if !(verify || follow) || !self.in_use(checksum.field, checksum.when)? {
                continue;
            }
            let mut sum = CoverSum { with_body: verify, ..CoverSum::default() };
            self.stream(&checksum.over, checksum.field, Pads::AsReceived, &mut sum)?;
            let (head, odd_at_body) = (sum.head(), sum.odd_at_body);
            self.scratch.phv.before[id.index()] = Before { active: true, head, odd_at_body };
            let found = self.field(checksum.field.0, checksum.field.1) as u16;
            if verify && !(checksum.zero_means_none && found == 0) {
                let right = fold(u64::from(sum.sum.folded()) + u64::from(found)) == 0xffff;
                self.tell_checksum(id, right)?;
            }
        }
        Ok(())
    }

    fn tell_checksum(&mut self, id: ChecksumId, right: bool) -> Result<(), End> {
        self.trace(|_| Event::Checksum { checksum: id, right });
        if right {
            return Ok(());
        }
        self.meta.checksum_error |= 1u32.checked_shl(id.0).unwrap_or(0);
        self.tally(|statistics| &statistics.checksum_errors, id.index());
        match self.program.checksums[id].verify {
            Verify::Drop => Err(End::Drop(BuiltinReason::Checksum.id())),
            _ => Ok(()),
        }
    }

    /// Verifies CRCs on the packet as received.
    pub(super) fn check_crcs(&mut self) -> Result<(), End> {
        let program = self.program;
        for (id, crc) in program.crcs.entries() {
            if crc.verify == Verify::Off {
                continue;
            }
            let Some(right) = self.crc_right(id, crc)? else { continue };
            self.trace(|_| Event::Crc { crc: id, right });
            if right {
                continue;
            }
            self.meta.crc_error |= 1u32.checked_shl(id.0).unwrap_or(0);
            self.tally(|statistics| &statistics.crc_errors, id.index());
            if crc.verify == Verify::Drop {
                return Err(End::Drop(BuiltinReason::Crc.id()));
            }
        }
        Ok(())
    }

    /// Whether a checksum of the packet as received is right; `None` when it has none.
    pub(super) fn checksum_right(&self, checksum: &Checksum) -> Result<Option<bool>, End> {
        if !self.in_use(checksum.field, checksum.when)? {
            return Ok(None);
        }
        let found = self.field(checksum.field.0, checksum.field.1) as u16;
        if checksum.zero_means_none && found == 0 {
            return Ok(None);
        }
        let mut sum = Sum::default();
        self.stream(&checksum.over, checksum.field, Pads::AsReceived, &mut sum)?;
        Ok(Some(fold(u64::from(sum.folded()) + u64::from(found)) == 0xffff))
    }

    /// The same for a CRC.
    pub(super) fn crc_right(&self, id: CrcId, crc: &Crc) -> Result<Option<bool>, End> {
        if !self.in_use(crc.field, crc.when)? {
            return Ok(None);
        }
        let found = self.field(crc.field.0, crc.field.1);
        Ok(Some(self.crc_value(id, crc, Pads::AsReceived)? == found))
    }

    /// Writes checksums and CRCs into the headers about to be emitted.
    pub(super) fn update_covered(&mut self) -> Result<(), End> {
        let engine = self.engine;
        for id in &engine.sums {
            match id {
                SumId::Checksum(id) => self.update_checksum(*id)?,
                SumId::Crc(id) => self.update_crc(*id)?,
            }
        }
        Ok(())
    }

    fn update_checksum(&mut self, id: ChecksumId) -> Result<(), End> {
        let program = self.program;
        let checksum = &program.checksums[id];
        if let Some(value) = self.new_checksum(id, checksum)? {
            let (instance, field) = checksum.field;
            let layout = self.layout(instance, field);
            layout.write(self.scratch.phv.header_mut(instance), value.into());
            self.trace(|_| Event::ChecksumWritten { checksum: id, value });
        }
        Ok(())
    }

    fn update_crc(&mut self, id: CrcId) -> Result<(), End> {
        let program = self.program;
        let crc = &program.crcs[id];
        let asked = self.scalars.asked_crcs & 1u64.checked_shl(id.0).unwrap_or(0) != 0;
        let due = match crc.update {
            Update::Always => self.half == Half::Egress,
            Update::OnRequest => asked,
            Update::Never | Update::Incremental => false,
        };
        if !due || !self.in_use(crc.field, crc.when)? {
            return Ok(());
        }
        let value = self.crc_value(id, crc, Pads::AsEmitted)?;
        let layout = self.layout(crc.field.0, crc.field.1);
        layout.write(self.scratch.phv.header_mut(crc.field.0), value);
        self.trace(|_| Event::CrcWritten { crc: id, value });
        Ok(())
    }

    /// The value to write, if one is due.
    fn new_checksum(&self, id: ChecksumId, checksum: &Checksum) -> Result<Option<u16>, End> {
        let assigned = self.scalars.assigned & 1u64.checked_shl(id.0).unwrap_or(0) != 0;
        let in_full = match checksum.update {
            Update::Always => self.half == Half::Egress,
            Update::Incremental if !assigned => true,
            _ => false,
        };
        if !in_full || !self.in_use(checksum.field, checksum.when)? {
            return Ok(None);
        }
        let before = self.scratch.phv.before[id.index()];
        let found = self.field(checksum.field.0, checksum.field.1) as u16;
        let same_header = self.scratch.phv.received & bit(checksum.field.0) != 0;
        let value = if checksum.update == Update::Incremental && before.active && same_header {
            if checksum.zero_means_none && found == 0 {
                return Ok(None);
            }
            let Some(value) = self.followed(checksum, before, found)? else { return Ok(None) };
            value
        } else {
            let mut sum = Sum::default();
            self.stream(&checksum.over, checksum.field, Pads::AsEmitted, &mut sum)?;
            sum.checksum()
        };
        Ok(Some(if checksum.zero_means_none && value == 0 { 0xffff } else { value }))
    }

    /// The checksum `found`, adjusted by the change of its input.
    fn followed(
        &self,
        checksum: &Checksum,
        before: Before,
        found: u16,
    ) -> Result<Option<u16>, End> {
        let mut head = CoverSum::default();
        self.stream(&checksum.over, checksum.field, Pads::AsEmitted, &mut head)?;
        let (mut old, mut new) = (before.head, head.head());
        if head.odd_at_body != before.odd_at_body {
            // The body moved by an odd number of bytes: the bytes of each of its words are now swapped.
            let body = |odd: bool| {
                let mut sum = Sum::default();
                sum.skip(odd.into());
                sum.add(self.body());
                u64::from(sum.folded())
            };
            old = fold(u64::from(old) + body(before.odd_at_body));
            new = fold(u64::from(new) + body(head.odd_at_body));
        }
        Ok(updated(found, old, new))
    }

    fn crc_value(&self, id: CrcId, crc: &Crc, pads: Pads) -> Result<u128, End> {
        let mut run = self.engine.crcs[id.index()].start();
        self.stream(&crc.over, crc.field, pads, &mut run)?;
        Ok(run.field_value().into())
    }

    /// Whether the field's header is valid and the condition is true.
    fn in_use(&self, field: (InstanceId, FieldId), when: Option<ExprId>) -> Result<bool, End> {
        if !self.scratch.phv.is_valid(field.0) {
            return Ok(false);
        }
        Ok(match when {
            Some(when) => self.eval(when)? == 1,
            None => true,
        })
    }

    /// The bytes between headers and trailers.
    pub(super) fn body(&self) -> &[u8] {
        self.bytes()
            .get(self.scalars.body_start as usize..self.scalars.body_end as usize)
            .unwrap_or_default()
    }

    /// Passes the input to `out`, in order; the field `own` counts as zero.
    fn stream(
        &self,
        parts: &[Covered],
        own: (InstanceId, FieldId),
        pads: Pads,
        out: &mut impl Absorb,
    ) -> Result<(), End> {
        for part in parts {
            match part {
                Covered::Ones(count) => repeat(0xff, *count, out),
                Covered::Header { instance, ones } => self.header(*instance, ones, own, out),
                Covered::Value(value) => {
                    let bytes = self.eval(*value)?.to_be_bytes();
                    let len = self.program.exprs[*value].bits.div_ceil(8).min(16) as usize;
                    out.bytes(&bytes[16 - len..]);
                }
                Covered::Body => out.body(self.body()),
                Covered::After(n) => self.after(*n as usize, own, pads, out),
            }
        }
        Ok(())
    }

    fn header(
        &self,
        instance: InstanceId,
        ones: &[u8],
        own: (InstanceId, FieldId),
        out: &mut impl Absorb,
    ) {
        let header = self.scratch.phv.header(instance);
        if ones.is_empty() && own.0 != instance {
            return out.bytes(header);
        }
        // Nearly every header is short, and clearing a long copy costs the most.
        if header.len() <= 64 {
            self.masked(header, &mut [0; 64], instance, ones, own, out);
        } else {
            self.masked(header, &mut [0; FIXED_MAX], instance, ones, own, out);
        }
    }

    fn masked(
        &self,
        header: &[u8],
        copy: &mut [u8],
        instance: InstanceId,
        ones: &[u8],
        own: (InstanceId, FieldId),
        out: &mut impl Absorb,
    ) {
        let (fixed, rest) = header.split_at(header.len().min(copy.len()));
        let copy = &mut copy[..fixed.len()];
        copy.copy_from_slice(fixed);
        copy.iter_mut().zip(ones).for_each(|(byte, mask)| *byte |= mask);
        if own.0 == instance {
            self.layout(own.0, own.1).write(copy, 0);
        }
        out.bytes(copy);
        out.bytes(rest);
    }

    fn after(&self, n: usize, own: (InstanceId, FieldId), pads: Pads, out: &mut impl Absorb) {
        let (Some(item), Some(tail)) =
            (self.program.deparser.after.get(n), self.scratch.phv.tail.get(n))
        else {
            return;
        };
        match item {
            AfterBody::Header(instance) => self.header(*instance, &[], own, out),
            AfterBody::Pad { fill, .. } if pads == Pads::AsEmitted && !tail.keeps() => {
                repeat(*fill, tail.len, out);
            }
            AfterBody::Pad { .. } => {
                let start = tail.received_at as usize;
                let end = start + tail.received_len as usize;
                out.bytes(self.bytes().get(start..end).unwrap_or_default());
            }
        }
    }
}

/// `count` bytes of one value.
fn repeat(byte: u8, count: u32, out: &mut impl Absorb) {
    let mut left = count as usize;
    while left > 0 {
        let here = left.min(64);
        out.bytes(&[byte; 64][..here]);
        left -= here;
    }
}
