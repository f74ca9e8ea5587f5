//! The memory itself: mapping, reference counts, and the tag that distinguishes regions.
//!
//! Chunks are contiguous, large ones after the others, or each follows a guard ([`super::guard`]); an address is a
//! shift and an addition in both layouts.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use wireyard_tables::prefetch::LINE_BYTES;

use super::depot::Depot;
use super::guard::Guards;
use super::promise::Shares;
use super::{
    BUF_INDEX_BITS, BUF_INDEX_MASK, Buf, LARGE_CHUNK_BYTES, MemoryConfig, MemoryError,
    READABLE_BEHIND_BYTES, REGION_ALIGN_BYTES, RegionLayout,
};

/// Tags of regions: 1 to 4,095. A tag is reused only if no handle of its region was left.
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

/// Most lines of a chunk at which packets begin.
const SPREAD_MAX: u32 = 8;

/// Options of a region beside its configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Most chunks that move between handles at once.
    pub(super) batch: u32,
    /// Guards around chunks; not with large ones.
    pub(super) guarded: bool,
    /// Large chunks.
    pub(super) large: u32,
    /// No frame placed at [`super::PacketMemory::data_off`] is longer.
    pub(super) frame_bytes: u32,
}

/// The large chunks of a region.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) depot: Depot,
    chunks: u32,
    /// log2 of the indices that each large chunk takes.
    index_shift: u32,
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) config: MemoryConfig,
    /// Index of the first large chunk; above every index if there is none.
    first_large: u32,
    pub(super) large: Option<Large>,
    pub(super) refs: Box<[AtomicU32]>,
    pub(super) depot: Depot,
    /// Allocations that found no free chunk.
    pub(super) refused: AtomicU64,
    pub(super) shares: Shares,
    /// Mask of a chunk's index: the number of lines after the headroom at which a packet begins.
    pub(super) spread_mask: u32,
    tag: NonZeroU32,
    /// log2 of the distance from one chunk to the next.
    stride_shift: u32,
    guards: Option<Guards>,
    base: NonNull<u8>,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointers are owned by the region; the bytes behind them are reached only through `Buf` handles under the
// rules of `PacketMemory`, and everything else is atomic or immutable.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new(
        config: MemoryConfig,
        Shape { batch, guarded, large, frame_bytes }: Shape,
    ) -> Result<Region, MemoryError> {
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
        // With guards: a guard of a page at least, then the chunk, which ends with its stride.
        let stride = match guarded {
            true => (chunk_bytes as usize).max(REGION_ALIGN_BYTES) * 2,
            false => chunk_bytes as usize,
        };
        let large = Large::of(&config, large, batch);
        let first_large = large.as_ref().map_or(u32::MAX, |large| large.first(chunks));
        let indices = large.as_ref().map_or(chunks, |large| large.first(chunks) + large.indices());
        let bytes = u64::from(indices) * stride as u64;
        let out_of_memory = MemoryError::OutOfMemory(u64::from(indices) * u64::from(chunk_bytes));
        // Longer and aligned by hand: `calloc` returns pages that the system zeroes on first touch, an aligned
        // allocation would touch them all now. Every chunk starts at a multiple of its size, and bytes that generated
        // code may read follow the last one.
        let of_large = if large.is_some() { LARGE_CHUNK_BYTES as usize } else { 0 };
        let align = REGION_ALIGN_BYTES.max(stride).max(of_large);
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
        let first = unsafe { allocation.add(skip) };
        let guards = guarded.then(|| Guards::new(first, stride, chunk_bytes as usize, chunks));
        // SAFETY: a chunk is at the end of its stride, which is inside the allocation.
        let base = unsafe { first.add(stride - chunk_bytes as usize) };
        let refs = (0..indices).map(|_| AtomicU32::new(0)).collect();
        let (depot, shares) = (Depot::full(chunks, batch), Shares::of(chunks));
        let refused = AtomicU64::new(0);
        let stride_shift = stride.trailing_zeros();
        Ok(Region {
            config,
            first_large,
            large,
            refs,
            depot,
            refused,
            shares,
            spread_mask: spread(&config, frame_bytes) - 1,
            tag,
            stride_shift,
            guards,
            base,
            allocation,
            layout,
        })
    }

    /// Checks the bytes in front of a chunk that no page guards.
    pub(super) fn check(&self, index: u32) {
        if let Some(guards) = &self.guards {
            guards.check(index);
        }
    }

    pub(super) fn layout(&self) -> RegionLayout {
        RegionLayout {
            base: self.base.as_ptr(),
            bytes: ((self.config.chunks as usize - 1) << self.stride_shift) + self.chunk_len(0),
            chunk_shift: self.stride_shift,
            is_contiguous: self.guards.is_none(),
            refs: self.refs.as_ptr(),
            chunks: self.refs.len() as u32,
            tag: self.tag.get(),
        }
    }

    /// The handle of chunk `index`. Call it only for a reference that is counted.
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

    #[inline]
    pub(super) fn is_unique(&self, buf: &Buf) -> bool {
        // Acquire: the reads of the previous owner happened before our writes.
        self.refs_of(buf).is_some_and(|refs| refs.load(Ordering::Acquire) == 1)
    }

    #[inline]
    pub(super) fn is_large(&self, index: u32) -> bool {
        index >= self.first_large
    }

    /// Bytes of a chunk.
    #[inline]
    pub(super) fn chunk_len(&self, index: u32) -> usize {
        match self.is_large(index) {
            true => LARGE_CHUNK_BYTES as usize,
            false => self.config.chunk_bytes as usize,
        }
    }

    /// See [`super::PacketMemory::end_max`].
    #[inline]
    pub(super) fn end_max(&self, index: u32) -> usize {
        let is_one_of_two_sizes = self.large.is_some() && !self.is_large(index);
        self.chunk_len(index) - usize::from(is_one_of_two_sizes)
    }

    pub(super) fn large_chunks(&self) -> u32 {
        self.large.as_ref().map_or(0, |large| large.chunks)
    }

    /// The index of large chunk `number`.
    pub(super) fn large_index(&self, number: u32) -> u32 {
        let shift = self.large.as_ref().map_or(0, |large| large.index_shift);
        self.first_large + (number << shift)
    }

    /// The number of the large chunk with this index.
    pub(super) fn large_number(&self, index: u32) -> u32 {
        let shift = self.large.as_ref().map_or(0, |large| large.index_shift);
        (index - self.first_large) >> shift
    }

    /// First byte of chunk `index`, which is the index of a handle that this region `owns`.
    pub(super) fn chunk(&self, index: u32) -> *mut u8 {
        debug_assert!((index as usize) < self.refs.len());
        // SAFETY: handles of this region have an index below the number of `refs` (`handle` is called with
        // indices of the depots only), so the offset stays inside the allocation.
        unsafe { self.base.as_ptr().add((index as usize) << self.stride_shift) }
    }

    fn is_free(&self, index: u32) -> bool {
        let refs = self.refs.get(index as usize);
        refs.is_some_and(|refs| refs.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn free_chunks(&self) -> u32 {
        let large = (0..self.large_chunks()).map(|number| self.large_index(number));
        (0..self.config.chunks).chain(large).filter(|index| self.is_free(*index)).count() as u32
    }
}

impl Large {
    /// As many as requested and addressable by handles; `None` if the configured chunks are as long already.
    fn of(config: &MemoryConfig, chunks: u32, batch: u32) -> Option<Large> {
        let index_shift = LARGE_CHUNK_BYTES.ilog2().checked_sub(config.chunk_bytes.ilog2())?;
        if index_shift == 0 {
            return None;
        }
        let first = config.chunks.next_multiple_of(1 << index_shift);
        let chunks = chunks.min((BUF_INDEX_MASK + 1).saturating_sub(first) >> index_shift);
        let depot = || Depot::full(chunks, batch);
        (chunks > 0).then(|| Large { depot: depot(), chunks, index_shift })
    }

    /// The index of the first one after `chunks` chunks: large ones start at multiples of their size.
    fn first(&self, chunks: u32) -> u32 {
        chunks.next_multiple_of(1 << self.index_shift)
    }

    fn indices(&self) -> u32 {
        self.chunks << self.index_shift
    }
}

/// Lines of a chunk at which packets may begin, a power of two.
fn spread(config: &MemoryConfig, frame_bytes: u32) -> u32 {
    let room = config.chunk_bytes - config.headroom_bytes;
    let spare = room.saturating_sub(frame_bytes) / LINE_BYTES as u32;
    1 << (spare + 1).min(SPREAD_MAX).ilog2()
}

fn give_tag(tag: NonZeroU32) {
    TAGS.lock().unwrap_or_else(PoisonError::into_inner).returned.push(tag);
}

impl Drop for Region {
    fn drop(&mut self) {
        // A leaked handle would refer to a chunk of the next region with this tag.
        if self.free_chunks() == self.config.chunks + self.large_chunks() {
            give_tag(self.tag);
        }
        // The pages are made writable again before they are freed.
        self.guards = None;
        // SAFETY: allocated in `new` with this layout; no worker handle is left, hence no slice.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}
