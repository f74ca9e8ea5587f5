//! The layout of frames: packet memory's chunks against the UMEM's, which are at most a page.
//!
//! The UMEM is the chunks of the configured size. Large chunks are not in it, so that they are not pinned: a frame in
//! one is copied into others to be sent.

use wireyard_pipeline::packet::PacketMemory;

use crate::ports::TxFrame;
use crate::ports::sys::xsk::{
    Fragment, UMEM_CHUNK_BYTES_MAX, UMEM_CHUNK_BYTES_MIN, XDP_HEADROOM_BYTES,
};

/// Bytes before the payload that the MTU does not count: Ethernet header and one VLAN tag.
pub(super) const HEADER_BYTES: u32 = 18;
/// A first part shorter than this could cut the headers: the frame is copied instead.
const FIRST_PART_BYTES_MIN: u64 = 64;

/// The geometry of a region as UMEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    umem_shift: u32,
    /// Chunks in the UMEM.
    chunks: u32,
    /// Bytes of the largest chunk.
    frame_chunk_bytes: u32,
    /// A power of two, at most a page and at most `chunk_bytes`.
    pub(super) umem_chunk_bytes: u32,
    /// Headroom of the memory beyond the kernel's own.
    pub(super) extra_headroom_bytes: u32,
}

impl Shape {
    /// The shape of `mem`, if it can be a UMEM.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(super) fn of(mem: &PacketMemory) -> Result<Shape, String> {
        let config = mem.config();
        let umem_chunk_bytes = config.chunk_bytes.min(UMEM_CHUNK_BYTES_MAX);
        let extra_headroom_bytes = config.headroom_bytes.saturating_sub(XDP_HEADROOM_BYTES);
        if !mem.region_layout().is_contiguous {
            return Err("AF_XDP needs chunks side by side, packet memory has guards".into());
        }
        if umem_chunk_bytes < UMEM_CHUNK_BYTES_MIN {
            return Err(format!(
                "AF_XDP needs chunks of at least {UMEM_CHUNK_BYTES_MIN} bytes, packet memory has {}",
                config.chunk_bytes
            ));
        }
        if extra_headroom_bytes + XDP_HEADROOM_BYTES > umem_chunk_bytes / 2 {
            return Err(format!(
                "AF_XDP takes at most {} bytes of headroom, packet memory has {}",
                umem_chunk_bytes / 2,
                config.headroom_bytes
            ));
        }
        Ok(Shape {
            umem_shift: umem_chunk_bytes.trailing_zeros(),
            chunks: config.chunks,
            frame_chunk_bytes: mem.max_chunk_bytes(),
            umem_chunk_bytes,
            extra_headroom_bytes,
        })
    }

    /// Length of the longest frame that arrives in one part.
    pub(super) fn one_part_bytes(&self) -> u32 {
        self.umem_chunk_bytes - XDP_HEADROOM_BYTES - self.extra_headroom_bytes
    }

    /// Length of the longest frame that can be joined in one chunk of packet memory.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        self.frame_chunk_bytes - XDP_HEADROOM_BYTES - self.extra_headroom_bytes
    }

    /// Offset at which the kernel stores the start of a frame in a chunk.
    pub(super) fn data_offset(&self) -> usize {
        (XDP_HEADROOM_BYTES + self.extra_headroom_bytes) as usize
    }

    /// True for a frame in a large chunk, which the kernel cannot read.
    #[inline]
    pub(super) fn is_outside(&self, frame: &TxFrame) -> bool {
        frame.buf.index() >= self.chunks
    }

    /// Number of UMEM chunks that a frame touches, where it is, or after a copy for a frame in a large chunk.
    #[inline]
    pub(super) fn parts(&self, frame: &TxFrame) -> u32 {
        if self.is_outside(frame) {
            return frame.len.div_ceil(self.umem_chunk_bytes).max(1);
        }
        let start = u64::from(frame.data_off);
        let last = start + u64::from(frame.len.max(1)) - 1;
        ((last >> self.umem_shift) - (start >> self.umem_shift)) as u32 + 1
    }

    /// True if the kernel can send the frame from where it is.
    pub(super) fn sends_in_place(&self, frame: &TxFrame, multi_buffer: bool) -> bool {
        let umem = u64::from(self.umem_chunk_bytes);
        let first = umem - (u64::from(frame.data_off) & (umem - 1));
        self.parts(frame) == 1 || (multi_buffer && first >= FIRST_PART_BYTES_MIN)
    }

    /// The parts of a frame, cut at the borders of UMEM chunks.
    pub(super) fn split(&self, frame: &TxFrame) -> impl Iterator<Item = Fragment> + use<> {
        let umem_shift = self.umem_shift;
        let mut at = u32::from(frame.data_off);
        let end = at + frame.len;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let stop = (((at >> umem_shift) + 1) << umem_shift).min(end);
            let part = Fragment { offset: at, len: stop - at, continued: stop < end };
            at = stop;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::MemoryConfig;
    use wireyard_tables::time::Time;

    use super::*;

    fn memory(chunk_bytes: u32, headroom_bytes: u32) -> PacketMemory {
        PacketMemory::new(MemoryConfig { chunks: 4, chunk_bytes, headroom_bytes }).unwrap()
    }

    #[test]
    fn large_chunks_are_pages_to_the_kernel() {
        let shape = Shape::of(&memory(16384, 256)).unwrap();
        assert_eq!((shape.umem_chunk_bytes, shape.extra_headroom_bytes), (4096, 0));
        assert_eq!((shape.one_part_bytes(), shape.frame_bytes_max()), (3840, 16128));
        let shape = Shape::of(&memory(2048, 384)).unwrap();
        assert_eq!((shape.one_part_bytes(), shape.frame_bytes_max()), (1664, 1664));
        let config = MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 256 };
        let mut mem = PacketMemory::with_large(config, 1).unwrap();
        let shape = Shape::of(&mem).unwrap();
        assert_eq!((shape.one_part_bytes(), shape.frame_bytes_max()), (1792, 16128));
        let buf = mem.alloc_to(2048).unwrap();
        let frame = TxFrame::at_once(buf, 256, 9216, Time::ZERO);
        assert_eq!((shape.is_outside(&frame), shape.parts(&frame)), (true, 5));
        assert!(Shape::of(&memory(1024, 256)).unwrap_err().contains("at least 2048"));
        assert!(Shape::of(&memory(16384, 2100)).unwrap_err().contains("at most 2048"));
    }

    #[test]
    fn frames_are_cut_at_pages() {
        let mut mem = memory(16384, 256);
        let shape = Shape::of(&mem).unwrap();
        let buf = mem.alloc().unwrap();
        let mut frame = TxFrame::at_once(buf, 256, 9216, Time::ZERO);
        assert_eq!(shape.parts(&frame), 3);
        assert!(shape.sends_in_place(&frame, true) && !shape.sends_in_place(&frame, false));
        let parts: Vec<Fragment> = shape.split(&frame).collect();
        let lens: Vec<_> = parts.iter().map(|p| (p.offset, p.len, p.continued)).collect();
        assert_eq!(lens, [(256, 3840, true), (4096, 4096, true), (8192, 1280, false)]);
        frame.len = 3840;
        assert_eq!((shape.parts(&frame), shape.split(&frame).count()), (1, 1));
        frame.len = 3841;
        assert_eq!((shape.parts(&frame), shape.split(&frame).count()), (2, 2));
        frame.data_off = 4090;
        assert!(!shape.sends_in_place(&frame, true), "the header would be cut");
    }
}
