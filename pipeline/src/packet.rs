//! Packet memory: one preallocated region of chunks, and the handles that own them.
//!
//! Chunks have one size, or two: a memory with [large chunks](PacketMemory::with_large) keeps a packet that does not
//! fit the configured size in a chunk of [`LARGE_CHUNK_BYTES`]. A packet is always in one chunk, contiguously. Large
//! chunks are behind the others, at multiples of their size, and an index counts in units of the configured size in
//! both: an address is a shift and an addition for every handle.
//!
//! A [`Buf`] is a linear handle on one chunk: it cannot be cloned, only moved or [shared]. Copies of a packet
//! (multicast, mirror) share the chunk by reference count, and the first writer copies ([`PacketMemory::make_unique`]).
//! Every worker has its own [`PacketMemory`] handle on the region with a private free list; a chunk may be freed by
//! another worker than the one that allocated it, and full free lists travel between workers in batches through a
//! lock-free depot. Nothing here allocates or locks once the region exists.
//!
//! This is not a frame: the offset and length of the data are in the descriptor.
//!
//! Why it is sound although `Buf` is a number: a `Buf` comes only from [`PacketMemory::alloc`] and
//! [`PacketMemory::share`] (forging one is `unsafe`), it carries the tag of its region, and a tag is reused for another
//! region only when no handle of the first can exist any more. A handle of another memory is recognised: it reads as an
//! empty chunk. A `Buf` that is dropped instead of freed leaks its chunk until the region goes.
//!
//! [shared]: PacketMemory::share
#![allow(unsafe_code)]

mod depot;
mod guard;
mod promise;
mod region;
#[cfg(test)]
mod tests;

/// The atomics of the depot, which `tests/models` replaces.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wireyard_tables::prefetch::{LINE_BYTES, prefetch};

pub use promise::{NotPromised, Promise};
use region::Region;

/// Bits of a [`Buf`] that are the chunk index; the rest is the tag of the region.
pub const BUF_INDEX_BITS: u32 = 20;
/// Mask of the chunk index in [`Buf::as_raw`].
pub const BUF_INDEX_MASK: u32 = (1 << BUF_INDEX_BITS) - 1;
/// Alignment of the region in bytes: a page, as AF_XDP requires of a UMEM.
pub const REGION_ALIGN_BYTES: usize = 4096;
/// Bytes behind the last chunk that may be read: generated code loads a header before it has checked the packet's
/// length.
pub const READABLE_BEHIND_BYTES: usize = 4096;

/// Bytes of a large chunk: a frame of 9,216 bytes with its headroom, and room to grow.
pub const LARGE_CHUNK_BYTES: u32 = 16384;

/// The handle of one chunk (one reference to it). Linear: neither `Clone` nor `Copy`.
///
/// Give it back with [`PacketMemory::free`]. `Option<Buf>` has the size of a `u32`, and `None` is 0.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Buf(NonZeroU32);

impl Buf {
    /// The number behind the handle, for generated code and rings; the handle stays the owner.
    pub fn as_raw(&self) -> u32 {
        self.0.get()
    }

    /// The chunk's index in its region.
    pub fn index(&self) -> u32 {
        self.0.get() & BUF_INDEX_MASK
    }
}

/// The shape of a packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Number of chunks: at most 2^20.
    pub chunks: u32,
    /// Bytes of a chunk: a power of two from 512 B to 4 MiB.
    pub chunk_bytes: u32,
    /// Free bytes that a port leaves before a received frame, for encapsulation: at most 32,768 and
    /// at most half a chunk.
    pub headroom_bytes: u32,
}

impl Default for MemoryConfig {
    /// 4,096 chunks of 16 KiB: a frame of 9,216 bytes fits with 256 bytes of headroom. Pages are allocated by the
    /// system on first touch.
    fn default() -> MemoryConfig {
        MemoryConfig { chunks: 4096, chunk_bytes: 16384, headroom_bytes: 256 }
    }
}

impl MemoryConfig {
    /// The smallest chunk with room for `frame_bytes` after `headroom_bytes`.
    pub fn for_frames(chunks: u32, frame_bytes: u32, headroom_bytes: u32) -> MemoryConfig {
        let need = frame_bytes.saturating_add(headroom_bytes).max(2 * headroom_bytes).max(512);
        let chunk_bytes = need.checked_next_power_of_two().unwrap_or(u32::MAX);
        MemoryConfig { chunks, chunk_bytes, headroom_bytes }
    }
}

/// Why a packet memory could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The chunk size is not a power of two between 512 B and 4 MiB.
    ChunkBytes(u32),
    /// No chunk, or more than 2^20 of them.
    Chunks(u32),
    /// The headroom is above 32,768 bytes or above half a chunk.
    Headroom(u32),
    /// The system refused this many bytes.
    OutOfMemory(u64),
    /// 4,095 memories exist, or were dropped while handles of them were still held.
    TooManyMemories,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::ChunkBytes(n) => write!(
                f,
                "packet memory: a chunk of {n} bytes is not a power of two from 512 to 4194304"
            ),
            MemoryError::Chunks(n) => {
                write!(f, "packet memory: {n} chunks: give 1 to {}", BUF_INDEX_MASK + 1)
            }
            MemoryError::Headroom(n) => write!(
                f,
                "packet memory: {n} bytes of headroom: give at most 32768 and at most half a chunk"
            ),
            MemoryError::OutOfMemory(n) => write!(
                f,
                "packet memory: the system has no {n} bytes free: ask for fewer or smaller chunks"
            ),
            MemoryError::TooManyMemories => {
                f.write_str("packet memory: more than 4095 packet memories in one process")
            }
        }
    }
}

impl std::error::Error for MemoryError {}

/// No free chunk was left. The caller counts a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// The location of the chunks, for generated code and the kernel. Valid while a handle of the memory exists.
#[derive(Clone, Copy, Debug)]
pub struct RegionLayout {
    /// First byte of chunk 0, aligned to the chunk size, and to [`REGION_ALIGN_BYTES`] where there are no guards.
    pub base: *mut u8,
    /// Bytes from there to the end of the last chunk of the configured size. Large chunks are behind it.
    pub bytes: usize,
    /// log2 of the distance between chunks: chunk `i` starts at `base + (i << chunk_shift)`.
    pub chunk_shift: u32,
    /// Chunks are contiguous, so that the distance is their size.
    pub is_contiguous: bool,
    /// Every handle has an index below this: the number of chunks where all have one size.
    pub chunks: u32,
    /// References to each chunk, by its index.
    pub refs: *const AtomicU32,
    /// The bits above [`BUF_INDEX_BITS`] in the handles of this memory.
    pub tag: u32,
}

/// One worker's handle on a packet memory: allocates, frees and accesses the bytes.
#[derive(Debug)]
pub struct PacketMemory {
    region: Arc<Region>,
    /// Free chunks of this worker, used last in first out; at most two batches.
    cache: Vec<u32>,
    /// The same of large chunks, by their number.
    large: Vec<u32>,
    foreign: u64,
}

impl PacketMemory {
    /// [`PacketMemory::new`] with `large` more chunks of [`LARGE_CHUNK_BYTES`], for packets that do not fit the others;
    /// as many of them as handles can address. Their pages are allocated by the system on first use. If the configured
    /// chunks are as long, there are none.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn with_large(config: MemoryConfig, large: u32) -> Result<PacketMemory, MemoryError> {
        let shape =
            region::Shape { batch: depot::BATCH_MAX, guarded: false, large, frame_bytes: u32::MAX };
        Ok(PacketMemory::on(Arc::new(Region::new(config, shape)?)))
    }

    /// Makes a region and its first handle. Chunks are contiguous, as the kernel requires.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn new(config: MemoryConfig) -> Result<PacketMemory, MemoryError> {
        PacketMemory::with_large(config, 0)
    }

    /// [`PacketMemory::of_device`], where at most `batch` chunks (1 to 64) are moved between handles at once: few if
    /// many handles alternate on one thread, so that a chunk is reused while it is in the cache. No frame placed at
    /// [`PacketMemory::data_off`] may be longer than `frame_bytes`: the rest of a chunk lets packets begin at different
    /// offsets in it.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn with_batch(
        config: MemoryConfig,
        batch: u32,
        frame_bytes: u32,
    ) -> Result<PacketMemory, MemoryError> {
        let guarded = cfg!(debug_assertions);
        let shape = region::Shape { batch, guarded, large: 0, frame_bytes };
        Ok(PacketMemory::on(Arc::new(Region::new(config, shape)?)))
    }

    /// The same with a write-protected page on both sides of each chunk, at twice the address space: a write outside of
    /// a chunk ends the process. For tests; the first 1,024 chunks are guarded.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn guarded(config: MemoryConfig) -> Result<PacketMemory, MemoryError> {
        let shape = region::Shape {
            batch: depot::BATCH_MAX,
            guarded: true,
            large: 0,
            frame_bytes: u32::MAX,
        };
        Ok(PacketMemory::on(Arc::new(Region::new(config, shape)?)))
    }

    /// [`PacketMemory::guarded`] in builds with debug assertions, which tests have; otherwise [`PacketMemory::new`].
    /// For devices whose ports do not share memory with the kernel.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn of_device(config: MemoryConfig) -> Result<PacketMemory, MemoryError> {
        PacketMemory::with_batch(config, depot::BATCH_MAX, u32::MAX)
    }

    /// A handle on the same region for another worker.
    pub fn worker(&self) -> PacketMemory {
        PacketMemory::on(Arc::clone(&self.region))
    }

    fn on(region: Arc<Region>) -> PacketMemory {
        let cache = Vec::with_capacity(2 * region.depot.batch());
        PacketMemory { region, cache, large: Vec::new(), foreign: 0 }
    }

    /// The shape of the region.
    pub fn config(&self) -> MemoryConfig {
        self.region.config
    }

    /// The longest frame that fits behind the headroom, in bytes.
    pub fn max_frame_bytes(&self) -> u32 {
        self.max_chunk_bytes() - self.region.config.headroom_bytes
    }

    /// Bytes of the largest chunk.
    pub fn max_chunk_bytes(&self) -> u32 {
        match self.region.large_chunks() {
            0 => self.region.config.chunk_bytes,
            _ => LARGE_CHUNK_BYTES,
        }
    }

    /// The largest offset at which a packet may end in the chunk of `buf`. In a memory with large chunks, a packet in
    /// one of the others ends before its last byte: the bytes after it then begin inside the chunk, as generated code
    /// requires (`chunk_reach` of its context).
    #[inline]
    pub fn end_max(&self, buf: &Buf) -> usize {
        self.region.end_max(buf.index())
    }

    /// The location of the chunks, for generated code and for AF_XDP's UMEM.
    pub fn region_layout(&self) -> RegionLayout {
        self.region.layout()
    }

    /// Keeps the region alive without being able to allocate from it (for a ring the kernel reads).
    pub fn pin(&self) -> RegionPin {
        RegionPin { region: Arc::clone(&self.region) }
    }

    /// Times a handle of another memory was passed to this one: a programming error, recorded because there is nothing
    /// to free here.
    pub fn foreign_handles(&self) -> u64 {
        self.foreign
    }

    /// A chunk with undefined content and a reference count of one; `None` when none is free.
    ///
    /// Another worker may hold up to two batches (at most 128) of free chunks.
    pub fn alloc(&mut self) -> Option<Buf> {
        if self.cache.is_empty() && !self.region.depot.take(&mut self.cache) {
            self.region.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let index = self.cache.pop()?;
        self.region.refs.get(index as usize)?.store(1, Ordering::Relaxed);
        Some(self.region.handle(index))
    }

    /// A chunk in which a packet may end at this offset, the smallest there is: undefined content, a reference count of
    /// one. `None` when none of its size is free, or no chunk is that large.
    pub fn alloc_to(&mut self, end: usize) -> Option<Buf> {
        if end <= self.region.end_max(0) { self.alloc() } else { self.alloc_large(end) }
    }

    #[cold]
    fn alloc_large(&mut self, end: usize) -> Option<Buf> {
        let large = self.region.large.as_ref()?;
        if end > LARGE_CHUNK_BYTES as usize {
            return None;
        }
        if self.large.is_empty() && !large.depot.take(&mut self.large) {
            self.region.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let index = self.region.large_index(self.large.pop()?);
        self.region.refs.get(index as usize)?.store(1, Ordering::Relaxed);
        Some(self.region.handle(index))
    }

    #[cold]
    fn free_large(&mut self, index: u32) {
        let Some(large) = &self.region.large else { return };
        self.large.push(self.region.large_number(index));
        if self.large.len() >= 2 * large.depot.batch() {
            large.depot.give(&mut self.large);
        }
    }

    /// Returns one reference; the last one frees the chunk.
    pub fn free(&mut self, buf: Buf) {
        let Some(refs) = self.region.refs_of(&buf) else {
            self.foreign += 1;
            return;
        };
        // A sole owner needs no locked instruction: no other thread has a reference to share.
        if refs.load(Ordering::Acquire) == 1 {
            refs.store(0, Ordering::Relaxed);
        } else if refs.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let index = buf.index();
        if self.region.is_large(index) {
            return self.free_large(index);
        }
        if cfg!(debug_assertions) {
            self.region.check(index);
        }
        self.cache.push(index);
        if self.cache.len() >= 2 * self.region.depot.batch() {
            self.region.depot.give(&mut self.cache);
        }
    }

    /// Another reference to the same bytes. `None` for a handle of another memory, and beyond 2^31
    /// references.
    pub fn share(&self, buf: &Buf) -> Option<Buf> {
        let refs = self.region.refs_of(buf)?;
        if refs.fetch_add(1, Ordering::Relaxed) >= i32::MAX as u32 {
            refs.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Buf(buf.0))
    }

    /// True if this is the only reference, so that the bytes may be written.
    pub fn is_unique(&self, buf: &Buf) -> bool {
        self.region.is_unique(buf)
    }

    /// Makes `buf` the only reference, copying the bytes `used` of the chunk if it is shared.
    ///
    /// # Errors
    /// [`NoMemory`] when no chunk is free for the copy: `buf` is as before.
    pub fn make_unique(&mut self, buf: &mut Buf, used: Range<usize>) -> Result<(), NoMemory> {
        if self.is_unique(buf) {
            return Ok(());
        }
        // A copy of the same size: it has the same room for growth.
        let copy = match self.region.is_large(buf.index()) {
            true => self.alloc_large(used.end),
            false => self.alloc(),
        };
        let mut copy = copy.ok_or(NoMemory)?;
        if let (Some(to), Some(from)) = (
            self.bytes_mut(&mut copy).and_then(|b| b.get_mut(used.clone())),
            self.bytes(buf).get(used),
        ) {
            to.copy_from_slice(from);
        }
        let shared = std::mem::replace(buf, copy);
        self.free(shared);
        Ok(())
    }

    /// The whole chunk; empty for a handle of another memory.
    #[inline]
    pub fn bytes<'a>(&'a self, buf: &'a Buf) -> &'a [u8] {
        if !self.region.owns(buf) {
            return &[];
        }
        // SAFETY: the chunk belongs to `buf`, which is borrowed: it cannot be freed meanwhile. It is
        // written only through `bytes_mut`, which needs the only reference by `&mut`: if that is
        // `buf`, the borrow excludes it, and any other reference means the count is above one.
        unsafe {
            let index = buf.index();
            std::slice::from_raw_parts(self.region.chunk(index), self.region.chunk_len(index))
        }
    }

    /// The whole chunk for writing; `None` if it is shared or of another memory.
    pub fn bytes_mut<'a>(&'a self, buf: &'a mut Buf) -> Option<&'a mut [u8]> {
        if !self.is_unique(buf) {
            return None;
        }
        // SAFETY: the count is one and `buf` is that reference, borrowed exclusively: no slice of the
        // chunk exists, and `share` needs a borrow of `buf` to make another reference.
        Some(unsafe {
            let index = buf.index();
            std::slice::from_raw_parts_mut(self.region.chunk(index), self.region.chunk_len(index))
        })
    }

    /// The offset of a new packet in its chunk: after the headroom. Chunks are at multiples of a power of two, so at
    /// equal offsets the headers of all packets would share few sets of the caches: packets begin at different lines,
    /// where frames leave room.
    #[inline]
    pub fn data_off(&self, buf: &Buf) -> u16 {
        let lines = buf.index() & self.region.spread_mask;
        (self.region.config.headroom_bytes + lines * LINE_BYTES as u32) as u16
    }

    /// Prefetches the first line of a packet that is read soon.
    #[inline]
    pub fn prefetch(&self, buf: &Buf, data_off: u16) {
        if let Some(first) = self.bytes(buf).get(usize::from(data_off)) {
            prefetch(first);
        }
    }

    /// Prefetches the beginning of a frame that is read soon to its end: after four consecutive lines the processor's
    /// own prefetcher continues.
    #[inline]
    pub fn prefetch_frame(&self, buf: &Buf, data_off: u16, len: u32) {
        self.frame(buf, data_off, len.min(4 * LINE_BYTES as u32))
            .chunks(LINE_BYTES)
            .for_each(prefetch);
    }

    /// The frame of `len` bytes at `data_off`; shorter where the chunk ends.
    #[inline]
    pub fn frame<'a>(&'a self, buf: &'a Buf, data_off: u16, len: u32) -> &'a [u8] {
        let tail = self.bytes(buf).get(usize::from(data_off)..).unwrap_or_default();
        tail.get(..len as usize).unwrap_or(tail)
    }

    /// The frame for writing; `None` if it is shared, of another memory or out of the chunk.
    pub fn frame_mut<'a>(
        &'a self,
        buf: &'a mut Buf,
        data_off: u16,
        len: u32,
    ) -> Option<&'a mut [u8]> {
        let start = usize::from(data_off);
        self.bytes_mut(buf)?.get_mut(start..start.checked_add(len as usize)?)
    }

    /// Copies `frame` into a new chunk behind the headroom. `None` when no chunk is free or the frame
    /// is longer than [`PacketMemory::max_frame_bytes`].
    pub fn alloc_frame(&mut self, frame: &[u8]) -> Option<Buf> {
        if frame.len() > self.max_frame_bytes() as usize {
            return None;
        }
        let start = self.region.config.headroom_bytes as usize;
        let mut buf = self.alloc_to(start + frame.len())?;
        if let Some(to) =
            self.bytes_mut(&mut buf).and_then(|b| b.get_mut(start..start + frame.len()))
        {
            to.copy_from_slice(frame);
        }
        Some(buf)
    }

    /// Allocations that found no free chunk, over all workers.
    pub fn refused(&self) -> u64 {
        self.region.refused.load(Ordering::Relaxed)
    }

    /// Checks the bytes in front of chunks that are shorter than a page ([`PacketMemory::guarded`]). Builds with debug
    /// assertions do so for each freed chunk.
    ///
    /// # Panics
    /// If they were written.
    pub fn check_guards(&self) {
        (0..self.region.config.chunks).for_each(|index| self.region.check(index));
    }

    /// Chunks without an owner, over all workers. Counts every chunk: for reports and tests.
    pub fn free_chunks(&self) -> u32 {
        self.region.free_chunks()
    }
}

impl Drop for PacketMemory {
    fn drop(&mut self) {
        while !self.cache.is_empty() {
            self.region.depot.give(&mut self.cache);
        }
        while let (Some(large), false) = (&self.region.large, self.large.is_empty()) {
            large.depot.give(&mut self.large);
        }
    }
}

/// Keeps a region mapped; see [`PacketMemory::pin`].
#[derive(Debug, Clone)]
pub struct RegionPin {
    region: Arc<Region>,
}

impl RegionPin {
    /// True if this is a handle of the region.
    pub fn owns(&self, buf: &Buf) -> bool {
        self.region.owns(buf)
    }

    /// True if this is the only reference to a chunk of the region.
    pub fn is_unique(&self, buf: &Buf) -> bool {
        self.region.is_unique(buf)
    }

    /// True if `mem` is a handle on this region.
    pub fn is_of(&self, mem: &PacketMemory) -> bool {
        Arc::ptr_eq(&self.region, &mem.region)
    }
}
