//! The memory itself: mapping, reference counts, and the tag that tells regions apart.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::depot::Depot;
use super::{
    BUF_INDEX_BITS, BUF_INDEX_MASK, Buf, MemoryConfig, MemoryError, READABLE_BEHIND_BYTES,
    REGION_ALIGN_BYTES, RegionLayout,
};

/// Tags of regions: 1 to 4,095. A tag comes back only when no handle of its region was left.
static TAGS: Mutex<Tags> = Mutex::new(Tags { unused_from: 1, returned: Vec::new() });

struct Tags {
    unused_from: u32,
    returned: Vec<NonZeroU32>,
}

fn take_tag() -> Result<NonZeroU32, MemoryError> {
    let mut tags = TAGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tag) = tags.returned.pop() {
        return Ok(tag);
    }
    let tag = NonZeroU32::new(tags.unused_from).filter(|t| t.get() >> (32 - BUF_INDEX_BITS) == 0);
    let tag = tag.ok_or(MemoryError::TooManyMemories)?;
    tags.unused_from += 1;
    Ok(tag)
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) config: MemoryConfig,
    pub(super) refs: Box<[AtomicU32]>,
    pub(super) depot: Depot,
    /// How often a chunk was asked for and none was free.
    pub(super) refused: AtomicU64,
    tag: NonZeroU32,
    base: NonNull<u8>,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointers are owned by the region; the bytes behind them are reached only through `Buf`
// handles by the discipline of `PacketMemory`, and everything else is atomic or immutable.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new(config: MemoryConfig, batch: u32) -> Result<Region, MemoryError> {
        let MemoryConfig { chunks, chunk_bytes, headroom_bytes } = config;
        if !chunk_bytes.is_power_of_two() || !(512..=4 << 20).contains(&chunk_bytes) {
            return Err(MemoryError::ChunkBytes(chunk_bytes));
        }
        if !(1..=BUF_INDEX_MASK + 1).contains(&chunks) {
            return Err(MemoryError::Chunks(chunks));
        }
        if headroom_bytes > 32_768 || headroom_bytes > chunk_bytes / 2 {
            return Err(MemoryError::Headroom(headroom_bytes));
        }
        let bytes = u64::from(chunks) * u64::from(chunk_bytes);
        let out_of_memory = MemoryError::OutOfMemory(bytes);
        // Longer and aligned by hand: `calloc` gives pages that the system zeroes when they are
        // touched, an aligned allocation would touch them all now. Every chunk starts at a multiple of
        // its size, and behind the last one are bytes that generated code may read.
        let align = REGION_ALIGN_BYTES.max(chunk_bytes as usize);
        let layout = usize::try_from(bytes)
            .ok()
            .and_then(|b| b.checked_add(align + READABLE_BEHIND_BYTES))
            .and_then(|b| Layout::from_size_align(b, 16).ok())
            .ok_or_else(|| out_of_memory.clone())?;
        let tag = take_tag()?;
        // SAFETY: the size is not zero.
        let Some(allocation) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            give_tag(tag);
            return Err(out_of_memory);
        };
        let skip = allocation.as_ptr().align_offset(align) % align;
        // SAFETY: `skip` is less than the alignment by which, and more, the allocation is longer.
        let base = unsafe { allocation.add(skip) };
        let refs = (0..chunks).map(|_| AtomicU32::new(0)).collect();
        let depot = Depot::full(chunks, batch);
        let refused = AtomicU64::new(0);
        Ok(Region { config, refs, depot, refused, tag, base, allocation, layout })
    }

    pub(super) fn layout(&self) -> RegionLayout {
        RegionLayout {
            base: self.base.as_ptr(),
            bytes: self.chunk_len() * self.config.chunks as usize,
            chunk_shift: self.config.chunk_bytes.trailing_zeros(),
            refs: self.refs.as_ptr(),
            chunks: self.config.chunks,
            tag: self.tag.get(),
        }
    }

    /// The handle of chunk `index`. To be called only for a reference that is counted.
    pub(super) fn handle(&self, index: u32) -> Buf {
        Buf(self.tag_bits() | (index & BUF_INDEX_MASK))
    }

    fn tag_bits(&self) -> NonZeroU32 {
        // `take_tag` gives 12 bits, which the shift keeps.
        NonZeroU32::new(self.tag.get() << BUF_INDEX_BITS).unwrap_or(NonZeroU32::MIN)
    }

    /// True if `buf` is a handle of this region; then its index is in range.
    pub(super) fn owns(&self, buf: &Buf) -> bool {
        buf.as_raw() >> BUF_INDEX_BITS == self.tag.get()
    }

    pub(super) fn refs_of(&self, buf: &Buf) -> Option<&AtomicU32> {
        if self.owns(buf) { self.refs.get(buf.index() as usize) } else { None }
    }

    pub(super) fn chunk_len(&self) -> usize {
        self.config.chunk_bytes as usize
    }

    /// First byte of chunk `index`, which is the index of a handle that this region `owns`.
    pub(super) fn chunk(&self, index: u32) -> *mut u8 {
        debug_assert!(index < self.config.chunks);
        // SAFETY: handles of this region have an index below `chunks` (`handle` is called with
        // indices of the depot only), so the offset stays inside the allocation.
        unsafe { self.base.as_ptr().add(index as usize * self.chunk_len()) }
    }

    pub(super) fn free_chunks(&self) -> u32 {
        self.refs.iter().filter(|r| r.load(Ordering::Relaxed) == 0).count() as u32
    }
}

fn give_tag(tag: NonZeroU32) {
    TAGS.lock().unwrap_or_else(PoisonError::into_inner).returned.push(tag);
}

impl Drop for Region {
    fn drop(&mut self) {
        // A handle that was leaked would name a chunk of the next region with this tag.
        if self.free_chunks() == self.config.chunks {
            give_tag(self.tag);
        }
        // SAFETY: allocated in `new` with this layout; no worker handle is left, hence no slice.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}
