//! What the C library's allocator does with memory that was freed: a switch that runs for a year gives it back.
//!
//! Not an allocator: `mallopt(3)` of glibc, set once at the start. By itself glibc raises the size from which an allocation is a mapping
//! of its own to that of the largest one that was freed. Tables of a program that was replaced are megabytes, so those of the
//! next come from heaps, of which each thread may have one, and stay there in pieces.

/// From this size on an allocation is a mapping of its own, which goes back to the system when it is freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 1 << 20;
/// Heaps at most; threads share them. Packets allocate nothing.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// Has freed memory go back to the system, where the allocator is glibc's.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two integers; it is called before the first thread is started, as mallopt(3) requires.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}
