//! The order in which checksums and CRCs are written when a packet leaves: each behind those whose fields it covers.

use super::eval::reads;
use super::{AfterBody, Covered, ExprKind, FieldLayout, Program, Update};
use crate::ids::*;

/// A checksum or a CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumId {
    /// A checksum.
    Checksum(ChecksumId),
    /// A CRC.
    Crc(CrcId),
}

/// The place of a sum.
type Field = (InstanceId, FieldId);

impl SumId {
    fn field(self, program: &Program) -> Option<Field> {
        match self {
            SumId::Checksum(id) => program.checksums.get(id).map(|sum| sum.field),
            SumId::Crc(id) => program.crcs.get(id).map(|crc| crc.field),
        }
    }

    fn over(self, program: &Program) -> &[Covered] {
        match self {
            SumId::Checksum(id) => program.checksums.get(id).map_or(&[], |sum| &sum.over),
            SumId::Crc(id) => program.crcs.get(id).map_or(&[], |crc| &crc.over),
        }
    }
}

/// The checksums and CRCs that are ever written, in order of declaration.
fn written(program: &Program) -> Vec<SumId> {
    let sums = program.checksums.entries().filter(|(_, sum)| sum.update != Update::Never);
    let crcs = program.crcs.entries().filter(|(_, crc)| crc.update != Update::Never);
    let sums = sums.map(|(id, _)| SumId::Checksum(id));
    sums.chain(crcs.map(|(id, _)| SumId::Crc(id))).collect()
}

/// All that are written, each behind those whose fields it covers, else in order of declaration; and those of a circle,
/// which have no such order and stay as they were declared.
pub fn write_order(program: &Program) -> (Vec<SumId>, Vec<SumId>) {
    let mut left = written(program);
    let (mut order, mut circle) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let covers_none = |one: &SumId| !left.iter().any(|other| covers(program, *one, *other));
        let ready = left.iter().position(covers_none);
        let next = ready.unwrap_or_else(|| {
            // The first of a circle: what only covers it comes behind it.
            let found = circle_of(program, &left);
            let first = left.iter().position(|one| found.contains(one)).unwrap_or(0);
            if circle.is_empty() {
                circle = found;
            }
            first
        });
        order.push(left.remove(next));
    }
    (order, circle)
}

/// Whether the value of a sum depends on another one that is written.
pub fn covers_another(program: &Program, one: SumId) -> bool {
    written(program).into_iter().any(|other| covers(program, one, other))
}

/// Of sums that each cover another one of them, those that are covered too.
fn circle_of(program: &Program, left: &[SumId]) -> Vec<SumId> {
    let mut circle = left.to_vec();
    loop {
        let is_covered = |one: &SumId| circle.iter().any(|other| covers(program, *other, *one));
        let inside: Vec<SumId> = circle.iter().copied().filter(is_covered).collect();
        if inside.len() == circle.len() {
            return circle;
        }
        circle = inside;
    }
}

/// Whether the input of `one` contains the field of `other`. Its own field counts as zero.
fn covers(program: &Program, one: SumId, other: SumId) -> bool {
    let (own, field) = (one.field(program), other.field(program));
    own != field
        && field.is_some_and(|field| {
            one.over(program).iter().any(|part| contains(program, part, field))
        })
}

fn contains(program: &Program, part: &Covered, field: Field) -> bool {
    match part {
        Covered::Header { instance, ones } => {
            *instance == field.0 && !is_masked(program, field, ones)
        }
        Covered::Value(value) => {
            reads(program, *value, &|kind| *kind == ExprKind::Field(field.0, field.1))
        }
        Covered::After(n) => match program.deparser.after.get(*n as usize) {
            Some(AfterBody::Header(trailer)) => *trailer == field.0,
            _ => false,
        },
        Covered::Ones(_) | Covered::Body => false,
    }
}

/// Whether all bytes of a field count as ones.
fn is_masked(program: &Program, (instance, field): Field, ones: &[u8]) -> bool {
    let header =
        program.instances.get(instance).and_then(|known| program.headers.get(known.header));
    let layout = header.and_then(|header| header.fields.get(field)).map(|field| &field.layout);
    let Some(FieldLayout::Run { bit, bits }) = layout else { return false };
    let bytes = (bit / 8) as usize..((bit + bits) / 8) as usize;
    ones.get(bytes).is_some_and(|ones| ones.iter().all(|byte| *byte == 0xff))
}
