//! Guards around chunks, for tests: a write outside of a chunk ends the process, or is found when the chunk is freed.
//!
//! In front of each chunk is a guard of a page or more that is write-protected, and the guard of the next chunk is
//! behind it, so both ends of a chunk are watched. As the distance between chunks is a power of two, addresses are
//! computed as without guards. A chunk that is shorter than a page ends at the end of its page; the bytes before it
//! have a pattern that is checked when the chunk is freed. Guards are readable: generated code loads a header before it
//! has checked the packet's length.
//!
//! This is not for memory that the kernel pins (AF_XDP): a UMEM has contiguous chunks.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use region::Protection;

use super::{READABLE_BEHIND_BYTES, REGION_ALIGN_BYTES};

/// Most chunks of a memory that have a guard, the first ones, which are used first.
const CHUNKS_MAX: u32 = 1024;
/// Most of all memories: each guard is a separate mapping, of which the system allows 65,530.
const ALL_MAX: u32 = 12_000;
/// Pattern of the bytes in front of a chunk that is shorter than a page.
const PATTERN: u8 = 0xa5;

/// Guards of all memories.
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// The guards of one memory.
#[derive(Debug)]
pub(super) struct Guards {
    /// The first guard.
    first: NonNull<u8>,
    stride: usize,
    chunk: usize,
    /// Number of chunks with a guard before and after them.
    chunks: u32,
}

impl Guards {
    /// Guards for chunks of `chunk` bytes, each at the end of its `stride`. [`READABLE_BEHIND_BYTES`] more follow the
    /// last stride.
    pub(super) fn new(first: NonNull<u8>, stride: usize, chunk: usize, chunks: u32) -> Guards {
        let wanted = chunks.min(CHUNKS_MAX);
        let used = IN_USE.fetch_add(wanted, Ordering::Relaxed);
        let granted = wanted.min(ALL_MAX.saturating_sub(used));
        IN_USE.fetch_sub(wanted - granted, Ordering::Relaxed);
        let guards = Guards { first, stride, chunk, chunks: granted };
        for n in 0..granted {
            let gap = guards.gap(n);
            // SAFETY: the gap is inside the stride, which has no handle yet.
            unsafe { std::ptr::write_bytes(gap.as_ptr(), PATTERN, guards.gap_bytes()) };
            guards.protect(n, Protection::READ);
        }
        guards.protect(granted, Protection::READ);
        guards
    }

    /// The guard in front of chunk `n`; for the first one that has none, its first page.
    fn protect(&self, n: u32, protection: Protection) {
        let bytes = match n < self.chunks {
            true => self.stride - self.chunk.max(REGION_ALIGN_BYTES),
            false => READABLE_BEHIND_BYTES,
        };
        if cfg!(miri) {
            return;
        }
        // SAFETY: the pages belong to this memory and no handle is on them; they are protected only against writes, and
        // there are none.
        let done = unsafe {
            region::protect(self.first.as_ptr().add(n as usize * self.stride), bytes, protection)
        };
        debug_assert!(done.is_ok() || protection == Protection::READ, "{done:?}");
    }

    /// Bytes between the guard and a chunk that is shorter than a page.
    fn gap_bytes(&self) -> usize {
        REGION_ALIGN_BYTES.saturating_sub(self.chunk)
    }

    fn gap(&self, n: u32) -> NonNull<u8> {
        let at = n as usize * self.stride + self.stride - self.chunk - self.gap_bytes();
        // SAFETY: inside the stride of a chunk of this memory.
        unsafe { self.first.add(at) }
    }

    /// Checks that nothing was written in front of a chunk.
    ///
    /// # Panics
    /// If the bytes were written.
    pub(super) fn check(&self, n: u32) {
        if n >= self.chunks || self.gap_bytes() == 0 {
            return;
        }
        // SAFETY: inside the stride of a chunk; no handle covers these bytes.
        let gap = unsafe { std::slice::from_raw_parts(self.gap(n).as_ptr(), self.gap_bytes()) };
        assert!(
            gap.iter().all(|byte| *byte == PATTERN),
            "packet memory: somebody wrote in front of chunk {n}"
        );
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        for n in 0..=self.chunks {
            self.protect(n, Protection::READ_WRITE);
        }
        IN_USE.fetch_sub(self.chunks, Ordering::Relaxed);
    }
}
