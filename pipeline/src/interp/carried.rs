//! Metadata that crosses the queue, or comes back with a packet that enters ingress again.
//!
//! The descriptor has 16 bytes for it. Of a program that carries more, the rest lies at the start of the packet's chunk, in front of
//! the packet: it goes wherever the packet goes, to other workers too, and copies that share a chunk share it, as they share
//! the metadata. So a pass that writes it makes the chunk the packet's own first, as it does for headers. The chunk's bytes mean
//! nothing until somebody wrote them: the last byte of the descriptor's part says so, which is 0 in a packet that was just received.

use super::pass::{End, Pass};
use crate::exec::flags;
use crate::ids::*;
use crate::ir::BuiltinReason;
use crate::ir::decl::{CARRIED_BYTES_MAX, CARRIED_INLINE_BYTES, CARRIED_MARK_AT};
use crate::ir::layout::ones;
use crate::packet::{Buf, PacketMemory};

/// Offset of the chunk's part among the carried bytes.
const INLINE: usize = CARRIED_INLINE_BYTES as usize;
/// The byte that says that the chunk has more.
const MARK: usize = CARRIED_MARK_AT as usize;
/// The chunk's part at its longest.
const IN_CHUNK: usize = CARRIED_BYTES_MAX as usize - INLINE;

impl Pass<'_> {
    /// Metadata of this pass is for a pass that follows.
    pub(super) fn goes_on(&self) -> bool {
        !self.egress || self.packet.flags & flags::RECIRCULATE != 0 || self.meta.clone_count > 0
    }

    /// Metadata that came with the packet.
    pub(super) fn carried_in(&mut self) {
        let in_chunk = self.program.carried_in_chunk();
        let mut rest = [0u8; IN_CHUNK];
        if in_chunk > 0
            && self.packet.carried[MARK] != 0
            && let Some(buf) = &self.packet.buf
            && let (Some(to), Some(from)) =
                (rest.get_mut(..in_chunk), self.memory.bytes(buf).get(..in_chunk))
        {
            to.copy_from_slice(from);
        }
        for (id, meta) in self.program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let (at, len) = (at as usize, meta.bits.div_ceil(8) as usize);
            let bytes = match at.checked_sub(INLINE) {
                None => self.packet.carried.get(at..at + len),
                Some(at) => rest.get(at..at + len),
            };
            let bytes = bytes.unwrap_or_default().iter();
            let value = bytes.rev().fold(0, |value, byte| value << 8 | u128::from(*byte));
            self.scratch.phv.meta[id.index()] = value & ones(meta.bits);
        }
    }

    /// Metadata that crosses the queue, with the packet and with its clones, or goes on with it from egress: what
    /// of it is in the descriptor.
    pub(super) fn carry(&mut self) {
        for (id, meta) in self.program.metadata.entries() {
            let Some(at) = meta.carried_at else { continue };
            let value = self.scratch.phv.meta[id.index()].to_le_bytes();
            let len = meta.bits.div_ceil(8) as usize;
            let to = self.packet.carried.iter_mut().skip(at as usize).take(len);
            to.zip(value).for_each(|(to, byte)| *to = byte);
        }
    }

    /// The rest of it, into the chunk of the packet, if it `leaves`, and into that of the packet as it was received, if a clone was
    /// asked for. The deparser left the room.
    pub(super) fn carry_in_chunk(&mut self, leaves: bool) -> Result<(), End> {
        let len = self.program.carried_in_chunk();
        let mut rest = [0u8; IN_CHUNK];
        for (id, meta) in self.program.metadata.entries() {
            let Some(at) = meta.carried_at.and_then(|at| (at as usize).checked_sub(INLINE)) else {
                continue;
            };
            let value = self.scratch.phv.meta[id.index()].to_le_bytes();
            let to = rest.iter_mut().skip(at).take(meta.bits.div_ceil(8) as usize);
            to.zip(value).for_each(|(to, byte)| *to = byte);
        }
        let rest = rest.get(..len).unwrap_or_default();
        self.packet.carried[MARK] = 1;
        let mut result = Ok(());
        if leaves || (self.egress && self.meta.clone_count > 0) {
            let (buf, off) = (&mut self.packet.buf, &mut self.packet.data_off);
            if put_in_front(self.memory, (buf, off, self.packet.len), rest).is_none() {
                result = Err(End::Drop(BuiltinReason::NoMemory.id()));
                if self.egress {
                    self.meta.clone_count = 0;
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
                self.meta.clone_count = 0;
                self.tally(|statistics| &statistics.lost_clones, 0);
            }
        }
        result
    }
}

/// Writes these bytes to the start of the chunk, which becomes this packet's own; a packet that begins in these bytes is moved. None, and the packet as it
/// was, where there is no chunk for a copy.
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
