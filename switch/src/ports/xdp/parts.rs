//! Frames of several parts: joined in one chunk when received, split into chunks of the UMEM when sent.

use wireyard_pipeline::packet::{Buf, PacketMemory};

use super::shape::Shape;
use crate::ports::TxFrame;
use crate::ports::sys::bpf::TAG_RECORD_BYTES;
use crate::ports::sys::xsk::Fragment;

/// A frame of which some parts were received.
pub(super) struct Partial {
    pub(super) buf: Buf,
    pub(super) data_off: usize,
    pub(super) len: usize,
    pub(super) lost: Option<Lost>,
}

/// Why a frame cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It exceeds the largest chunk.
    TooLong,
    /// No large chunk is free.
    NoMemory,
}

impl Partial {
    /// Begins with the first part.
    pub(super) fn first(buf: Buf, data_off: usize, len: usize) -> Partial {
        Partial { buf, data_off, len, lost: None }
    }

    /// Appends `len` bytes at `offset` of another chunk, and frees that.
    pub(super) fn append(&mut self, mem: &mut PacketMemory, part: Buf, offset: usize, len: usize) {
        let end = self.data_off + self.len;
        self.make_room(mem, end + len);
        if self.lost.is_none() {
            let source = mem.bytes(&part).get(offset..offset + len);
            let target = mem.bytes_mut(&mut self.buf).and_then(|c| c.get_mut(end..end + len));
            match (source, target) {
                (Some(source), Some(target)) => target.copy_from_slice(source),
                _ => self.lost = Some(Lost::TooLong),
            }
        }
        self.len += len;
        mem.free(part);
    }

    /// Moves the received part to a chunk in which a frame may end at `end`, unless its own is large enough.
    pub(super) fn make_room(&mut self, mem: &mut PacketMemory, end: usize) {
        if end <= mem.end_max(&self.buf) || self.lost.is_some() {
            return;
        }
        if end > mem.max_chunk_bytes() as usize {
            self.lost = Some(Lost::TooLong);
            return;
        }
        let Some(mut large) = mem.alloc_to(end) else {
            self.lost = Some(Lost::NoMemory);
            return;
        };
        // Includes the record of the XDP program in front of the frame.
        let used = self.data_off.saturating_sub(TAG_RECORD_BYTES)..self.data_off + self.len;
        let source = mem.bytes(&self.buf).get(used.clone());
        let target = mem.bytes_mut(&mut large).and_then(|chunk| chunk.get_mut(used));
        if let (Some(source), Some(target)) = (source, target) {
            target.copy_from_slice(source);
        }
        mem.free(std::mem::replace(&mut self.buf, large));
    }
}

/// Copies a frame of a large chunk into chunks of the UMEM, which are added to `chunks` with their parts; false if
/// there are not enough free ones.
pub(super) fn copy_into_umem(
    mem: &mut PacketMemory,
    shape: &Shape,
    frame: &TxFrame,
    chunks: &mut Vec<(Buf, Fragment)>,
) -> bool {
    let step = shape.umem_chunk_bytes as usize;
    let count = shape.parts(frame) as usize;
    for at in 0..count {
        let Some(mut buf) = mem.alloc() else { return false };
        let bytes = mem.frame(&frame.buf, frame.data_off, frame.len);
        let source = bytes.chunks(step).nth(at).unwrap_or_default();
        let target = mem.bytes_mut(&mut buf).and_then(|chunk| chunk.get_mut(..source.len()));
        if let Some(target) = target {
            target.copy_from_slice(source);
        }
        let part = Fragment { offset: 0, len: source.len() as u32, continued: at + 1 < count };
        chunks.push((buf, part));
    }
    true
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::MemoryConfig;
    use wireyard_tables::time::Time;

    use super::*;

    const CONFIG: MemoryConfig =
        MemoryConfig { chunks: 12, chunk_bytes: 2048, headroom_bytes: 256 };

    /// A frame received in parts as from AF_XDP, joined.
    fn join(mem: &mut PacketMemory, bytes: &[u8]) -> Partial {
        let (head, tail) = bytes.split_at(bytes.len().min(1792));
        let fill = |mem: &mut PacketMemory, at: usize, bytes: &[u8]| {
            let mut buf = mem.alloc().unwrap();
            let chunk = mem.bytes_mut(&mut buf).unwrap();
            chunk[at..at + bytes.len()].copy_from_slice(bytes);
            chunk[at - at.min(TAG_RECORD_BYTES)..at].fill(9);
            buf
        };
        let mut whole = Partial::first(fill(mem, 256, head), 256, head.len());
        for part in tail.chunks(2048) {
            let buf = fill(mem, 0, part);
            whole.append(mem, buf, 0, part.len());
        }
        whole
    }

    #[test]
    fn frames_are_joined_in_a_large_chunk_and_cut_again() {
        let mut mem = PacketMemory::with_large(CONFIG, 1).unwrap();
        let shape = Shape::of(&mem).unwrap();
        let bytes: Vec<u8> = (0..9216u32).map(|n| (n % 251) as u8).collect();
        let whole = join(&mut mem, &bytes);
        assert_eq!((whole.lost, whole.data_off, whole.len), (None, 256, 9216));
        let frame = TxFrame::at_once(whole.buf, 256, 9216, Time::ZERO);
        assert_eq!(mem.frame(&frame.buf, 256, 9216), bytes);
        let mut chunks = Vec::new();
        assert!(copy_into_umem(&mut mem, &shape, &frame, &mut chunks));
        let again: Vec<u8> = chunks
            .iter()
            .flat_map(|(buf, part)| mem.bytes(buf)[..part.len as usize].to_vec())
            .collect();
        assert_eq!(again, bytes);
        let continued: Vec<bool> = chunks.iter().map(|(_, part)| part.continued).collect();
        assert_eq!(continued, [true, true, true, true, false]);
        // Another frame finds no large chunk, and a second copy no chunk; neither loses a chunk.
        let second = join(&mut mem, &bytes[..2000]);
        assert_eq!((second.lost, second.len), (Some(Lost::NoMemory), 2000));
        mem.free(second.buf);
        let taken: Vec<Buf> = (0..3).map(|_| mem.alloc().unwrap()).collect();
        let mut more = Vec::new();
        assert!(!copy_into_umem(&mut mem, &shape, &frame, &mut more) && more.len() < 5);
        more.into_iter().for_each(|(buf, _)| mem.free(buf));
        chunks.into_iter().for_each(|(buf, _)| mem.free(buf));
        taken.into_iter().chain([frame.buf]).for_each(|buf| mem.free(buf));
        let long = join(&mut mem, &[0; 16384]);
        assert_eq!((long.lost, long.len), (Some(Lost::TooLong), 16384));
        mem.free(long.buf);
        assert_eq!(mem.free_chunks(), 13);
    }

    #[test]
    fn a_frame_that_ends_with_its_chunk_moves() {
        let mut mem = PacketMemory::with_large(CONFIG, 1).unwrap();
        for (len, chunk) in [(1791, 2048), (1792, 16384)] {
            let mut whole = join(&mut mem, &vec![7; len]);
            whole.make_room(&mut mem, 256 + len);
            assert_eq!((whole.lost, mem.bytes(&whole.buf).len()), (None, chunk));
            assert_eq!(mem.frame(&whole.buf, 256, len as u32), vec![7; len]);
            let record = &mem.bytes(&whole.buf)[256 - TAG_RECORD_BYTES..256];
            assert_eq!(record, [9; TAG_RECORD_BYTES], "what is in front goes with it");
            mem.free(whole.buf);
        }
    }
}
