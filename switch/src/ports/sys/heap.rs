//! Settings of the C library's allocator for freed memory: a switch that runs for long must return it to the operating
//! system.
//!
//! Not an allocator: `mallopt(3)` of glibc, set once at the start. By default glibc raises the size from which an
//! allocation is a separate mapping to that of the largest one that was freed. Tables of a replaced program are
//! megabytes, so those of the next would come from heaps, of which each thread may have one, and leave them fragmented.

/// Minimum size in bytes of an allocation with a separate mapping, which is returned to the operating system when it is
/// freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 1 << 20;
/// Maximum number of heaps; threads share them. Packets allocate nothing.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// Makes the allocator return freed memory to the operating system, if it is glibc's.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two integers; it is called before the first thread is started, as mallopt(3) requires.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}
