//! Metadata that crosses the queue, or returns with a packet that enters ingress again.
//!
//! The descriptor has 16 bytes for it. Of a program that carries more, the rest is at the start of the packet's chunk,
//! in front of the packet: it moves with the packet, to other workers too, and copies that share a chunk share it, as
//! they share the metadata. So a pass that writes it makes the chunk the packet's own first, as it does for headers.
//! The chunk's bytes are undefined until they are written: the last byte of the descriptor's part is 1 then, and 0 in a
//! packet that was just received.

use super::pass::{End, Pass};
use crate::exec::flags;
use crate::ids::*;
use crate::ir::decl::{CARRIED_BYTES_MAX, CARRIED_INLINE_BYTES, CARRIED_MARK_AT};
use crate::ir::layout::ones;
use crate::ir::{BuiltinReason, Half, Program};
use crate::packet::{Buf, PacketMemory};

/// Offset of the chunk's part among the carried bytes.
const INLINE: usize = CARRIED_INLINE_BYTES as usize;
/// The byte that marks that the chunk has more.
const MARK: usize = CARRIED_MARK_AT as usize;
/// The chunk's part at its longest.
const IN_CHUNK: usize = CARRIED_BYTES_MAX as usize - INLINE;
/// Bytes of a value: fields are read and written with this size, whatever their width.
const VALUE: usize = size_of::<u128>();

/// A field that is carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// Its number among the metadata.
    meta: usize,
    /// Its offset in the descriptor's part, or in the chunk's.
    at: usize,
    /// Its bits.
    mask: u128,
}

/// The fields of a program that are carried: in the descriptor, and in the chunk; each in the order of their offsets.
#[derive(Debug)]
pub(super) struct CarriedFields {
    inline: Box<[Carried]>,
    in_chunk: Box<[Carried]>,
}

impl CarriedFields {
    pub(super) fn new(program: &Program) -> CarriedFields {
        let mut inline: Vec<Carried> = Vec::new();
        for (id, meta) in program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            inline.push(Carried { meta: id.index(), at: at as usize, mask: ones(meta.bits) });
        }
        inline.sort_by_key(|field| field.at);
        let mut in_chunk = inline.split_off(inline.partition_point(|field| field.at < INLINE));
        in_chunk.iter_mut().for_each(|field| field.at -= INLINE);
        CarriedFields { inline: inline.into(), in_chunk: in_chunk.into() }
    }
}

/// The value of a field among these bytes.
fn value_at(bytes: &[u8], field: &Carried) -> u128 {
    let rest = bytes.get(field.at..).unwrap_or_default();
    let value = match rest.first_chunk::<VALUE>() {
        Some(value) => u128::from_le_bytes(*value),
        None => rest.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte)),
    };
    value & field.mask
}

impl Pass<'_> {
    /// Whether metadata of this pass goes to a following pass.
    pub(super) fn goes_on(&self) -> bool {
        self.half == Half::Ingress
            || self.packet.flags & flags::RECIRCULATE != 0
            || self.meta.clone_count > 0
    }

    /// Loads the metadata of the packet.
    pub(super) fn carried_in(&mut self) {
        let fields = &self.engine.carried;
        if !fields.inline.is_empty() {
            // Longer than the carried bytes: a field is read as a whole value.
            let mut inline = [0; INLINE + VALUE];
            inline[..INLINE].copy_from_slice(&self.packet.carried);
            for field in &fields.inline {
                self.scratch.phv.meta[field.meta] = value_at(&inline, field);
            }
        }
        if fields.in_chunk.is_empty() {
            return;
        }
        let written = self.packet.carried[MARK] != 0;
        let buf = self.packet.buf.as_ref().filter(|_| written);
        let rest = buf.map_or(&[][..], |buf| self.memory.bytes(buf));
        for field in &fields.in_chunk {
            self.scratch.phv.meta[field.meta] = value_at(rest, field);
        }
    }

    /// Stores the descriptor's part of the metadata that crosses the queue with the packet and its clones, or goes from
    /// egress to another pass.
    pub(super) fn carry(&mut self) {
        let fields = &self.engine.carried.inline;
        if fields.is_empty() {
            return;
        }
        let mut inline = [0; INLINE + VALUE];
        self.write(fields, &mut inline);
        self.packet.carried.copy_from_slice(&inline[..INLINE]);
    }

    /// Writes fields, in the order of their offsets, to these bytes, which have room for a whole value at the last of
    /// them.
    fn write(&self, fields: &[Carried], bytes: &mut [u8]) {
        for field in fields {
            let to = bytes.get_mut(field.at..).and_then(|rest| rest.first_chunk_mut::<VALUE>());
            // The bytes of the fields after it are written later.
            if let Some(to) = to {
                *to = self.scratch.phv.meta[field.meta].to_le_bytes();
            }
        }
    }

    /// Stores the rest in the chunk of the packet, if it `leaves`, and in that of the packet as received, if a clone
    /// was requested. The deparser has left room for it.
    pub(super) fn carry_in_chunk(&mut self, leaves: bool) -> Result<(), End> {
        let len = self.program.carried_in_chunk();
        let mut rest = [0u8; IN_CHUNK + VALUE];
        self.write(&self.engine.carried.in_chunk, &mut rest);
        let rest = rest.get(..len).unwrap_or_default();
        self.packet.carried[MARK] = 1;
        let mut result = Ok(());
        if leaves || (self.half == Half::Egress && self.meta.clone_count > 0) {
            let (buf, off) = (&mut self.packet.buf, &mut self.packet.data_off);
            if put_in_front(self.memory, (buf, off, self.packet.len), rest).is_none() {
                result = Err(End::Drop(BuiltinReason::NoMemory.id()));
                if self.half == Half::Egress {
                    self.lose_clones();
                }
            }
        }
        if self.meta.original.is_some() {
            let meta = &mut *self.meta;
            let original = (&mut meta.original, &mut meta.original_off, meta.original_len);
            if put_in_front(self.memory, original, rest).is_none() {
                if let Some(original) = meta.original.take() {
                    self.memory.free(original);
                }
                self.lose_clones();
            }
        }
        result
    }
}

/// Writes these bytes to the start of the chunk, which becomes this packet's own; a packet that begins in these bytes
/// is moved. `None`, with the packet as it was, if there is no chunk for a copy.
fn put_in_front(
    memory: &mut PacketMemory,
    (buf, off, len): (&mut Option<Buf>, &mut u16, u32),
    rest: &[u8],
) -> Option<()> {
    let held = buf.as_mut()?;
    let (start, len) = (usize::from(*off), len as usize);
    if start >= rest.len() {
        memory.make_unique(held, start..start + len).ok()?;
    } else {
        let to = rest.len().max(memory.config().headroom_bytes as usize);
        let mut moved = memory.alloc_to(to + len)?;
        let from = memory.bytes(held).get(start..start + len)?;
        memory.bytes_mut(&mut moved)?.get_mut(to..to + len)?.copy_from_slice(from);
        memory.free(std::mem::replace(held, moved));
        *off = to as u16;
    }
    memory.bytes_mut(held)?.get_mut(..rest.len())?.copy_from_slice(rest);
    Some(())
}
