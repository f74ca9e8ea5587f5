//! Checksums of a path: verified at constant offsets, updated by changes, or computed in full.

use super::{Control, Form, Path};
use crate::ids::*;
use crate::ir::sums::{SumId, covers_another};
use crate::ir::{Checksum, Covered, FieldLayout, Half, Update, Verify};
use crate::jit::error::NotSupported;
use crate::phv::bit;

/// A checksum that is verified; a packet with a wrong one runs generic code.
#[derive(Clone, Debug)]
pub(in crate::jit) struct Verified {
    pub(in crate::jit) id: ChecksumId,
    /// The covered headers, with their lengths in bytes.
    pub(in crate::jit) covers: Vec<(InstanceId, u32)>,
    /// Offset of the field in the packet.
    pub(in crate::jit) field_at: u32,
    pub(in crate::jit) zero_means_none: bool,
}

/// A checksum that follows assignments (RFC 1624).
#[derive(Clone, Debug)]
pub(in crate::jit) struct Followed {
    pub(in crate::jit) id: ChecksumId,
    /// The header that contains it.
    pub(in crate::jit) owner: InstanceId,
    /// Offset of the field in the packet.
    pub(in crate::jit) field_at: u32,
    /// Headers that it covers.
    pub(in crate::jit) covers: Vec<InstanceId>,
    pub(in crate::jit) zero_means_none: bool,
}

/// A checksum in full, in a header that the control adds.
#[derive(Clone, Debug)]
pub(in crate::jit) struct Computed {
    pub(in crate::jit) field: (InstanceId, FieldId),
    pub(in crate::jit) covers: Vec<(InstanceId, u32)>,
    /// Offset of the field in its header.
    pub(in crate::jit) own: u32,
    pub(in crate::jit) zero_means_none: bool,
}

/// The input of a checksum: headers with their lengths, and the body.
struct Input {
    headers: Vec<(InstanceId, u32)>,
    body: bool,
}

/// The checksums that are verified and those that follow changes on a path, at the start of the control.
pub(super) fn before(control: &Control<'_>, path: &Path) -> Form<(Vec<Verified>, Vec<Followed>)> {
    let (mut verified, mut followed) = (Vec::new(), Vec::new());
    for (id, checksum) in control.program.checksums.entries() {
        let verify = control.half == Half::Ingress && checksum.verify != Verify::Off;
        let follow = checksum.update == Update::Incremental;
        let always = control.half == Half::Egress && checksum.update == Update::Always;
        let owner = checksum.field.0;
        if !(verify || follow || always) || path.valid & bit(owner) == 0 {
            continue;
        }
        match control.in_use(path, checksum) {
            Some(false) => continue,
            Some(true) => {}
            None => return Err(NotSupported::ChecksumCondition(checksum.name.clone()).into()),
        }
        if always {
            return Err(NotSupported::ChecksumAlways(checksum.name.clone()).into());
        }
        let input = input(control, path, checksum)?;
        let field_at = path.at[owner.index()] + own(control, checksum)?;
        let zero_means_none = checksum.zero_means_none;
        if verify {
            let covers = without_body(checksum, &input)?;
            verified.push(Verified { id, covers, field_at, zero_means_none });
        }
        if follow {
            if control.written.contains(&checksum.field) {
                return Err(NotSupported::ChecksumAssigned(checksum.name.clone()).into());
            }
            independent(control, id)?;
            let covers = input.headers.iter().map(|(instance, _)| *instance).collect();
            followed.push(Followed { id, owner, field_at, covers, zero_means_none });
        }
    }
    Ok((verified, followed))
}

/// Offset in its header of a checksum field: 16 bits on an even byte.
fn own(control: &Control<'_>, checksum: &Checksum) -> Form<u32> {
    let (owner, field) = checksum.field;
    let header = &control.program.headers[control.program.instances[owner].header];
    match header.fields[field].layout {
        FieldLayout::Run { bit, bits: 16 } if bit.is_multiple_of(16) => Ok(bit / 8),
        _ => Err(unsupported(checksum)),
    }
}

fn unsupported(checksum: &Checksum) -> crate::jit::error::CompileError {
    NotSupported::ChecksumInput(checksum.name.clone()).into()
}

/// Refuses a checksum over the field of another one: it would have to be written behind that one.
fn independent(control: &Control<'_>, id: ChecksumId) -> Form<()> {
    match covers_another(control.program, SumId::Checksum(id)) {
        true => Err(unsupported(&control.program.checksums[id])),
        false => Ok(()),
    }
}

/// The input on a path; no header begins in the middle of a word.
fn input(control: &Control<'_>, path: &Path, checksum: &Checksum) -> Form<Input> {
    let mut input = Input { headers: Vec::new(), body: false };
    for part in &checksum.over {
        if input.body {
            return Err(unsupported(checksum));
        }
        match part {
            Covered::Header { instance, .. } if path.valid & bit(*instance) == 0 => {}
            Covered::Header { instance, ones } => {
                let bytes = control.fixed_bytes(*instance);
                if !ones.is_empty() || !bytes.is_multiple_of(2) {
                    return Err(unsupported(checksum));
                }
                input.headers.push((*instance, bytes));
            }
            Covered::Body => input.body = true,
            _ => return Err(unsupported(checksum)),
        }
    }
    let owner = checksum.field.0;
    match input.headers.iter().filter(|(instance, _)| *instance == owner).count() {
        1 => Ok(input),
        _ => Err(unsupported(checksum)),
    }
}

fn without_body(checksum: &Checksum, input: &Input) -> Form<Vec<(InstanceId, u32)>> {
    if input.body { Err(unsupported(checksum)) } else { Ok(input.headers.clone()) }
}

/// Whether a checksum is in a header that may be added, or covers headers that may be added or removed, so that it
/// cannot follow assignments.
pub(super) fn cannot_follow(control: &Control<'_>, valid: u64) -> bool {
    let mut sums = control.program.checksums.iter();
    sums.any(|checksum| {
        let owner = checksum.field.0;
        let other = |part: &Covered| match part {
            Covered::Header { instance, .. } => {
                *instance != owner && control.changes & bit(*instance) != 0
            }
            _ => false,
        };
        checksum.update == Update::Incremental
            && valid & bit(owner) != 0
            && (control.added & bit(owner) != 0 || checksum.over.iter().any(other))
    })
}

/// The checksums that follow changes and whose headers are in a tail, by their index in the list. One that came with
/// the packet must be in use now if it was then.
pub(super) fn updated(
    control: &Control<'_>,
    valid_before: u64,
    tail: &Path,
    followed: &[Followed],
) -> Form<Vec<usize>> {
    for (id, checksum) in control.program.checksums.entries() {
        let stays = valid_before & tail.valid & bit(checksum.field.0) != 0;
        if checksum.update == Update::Incremental && stays && control.changes != 0 {
            let now = control.in_use(tail, checksum);
            if now != Some(followed.iter().any(|sum| sum.id == id)) {
                return Err(NotSupported::ChecksumCondition(checksum.name.clone()).into());
            }
        }
    }
    let there = |n: &usize| tail.valid & bit(followed[*n].owner) != 0;
    Ok((0..followed.len()).filter(there).collect())
}

/// Checksums in full, of headers that the control adds.
pub(super) fn computed(
    control: &Control<'_>,
    valid_before: u64,
    tail: &Path,
) -> Form<Vec<Computed>> {
    let mut computed = Vec::new();
    for (id, checksum) in control.program.checksums.entries() {
        let owner = bit(checksum.field.0);
        let due = match checksum.update {
            Update::Incremental => tail.valid & !valid_before & owner != 0,
            Update::Always if control.half == Half::Egress && tail.valid & owner != 0 => {
                return Err(NotSupported::ChecksumAlways(checksum.name.clone()).into());
            }
            _ => false,
        };
        if !due {
            continue;
        }
        match control.in_use(tail, checksum) {
            Some(false) => continue,
            Some(true) => {}
            None => return Err(NotSupported::ChecksumCondition(checksum.name.clone()).into()),
        }
        if control.written.contains(&checksum.field) {
            return Err(NotSupported::ChecksumAssigned(checksum.name.clone()).into());
        }
        independent(control, id)?;
        let covers = without_body(checksum, &input(control, tail, checksum)?)?;
        let (field, own) = (checksum.field, own(control, checksum)?);
        let zero_means_none = checksum.zero_means_none;
        computed.push(Computed { field, covers, own, zero_means_none });
    }
    Ok(computed)
}
