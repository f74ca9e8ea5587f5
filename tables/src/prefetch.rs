//! Hints to the processor: memory that is read soon is fetched into the cache meanwhile.
//!
//! A hint changes nothing that a program can see. It costs an instruction, and is worth one where a value was last
//! touched long ago and is needed only some hundred instructions later. Processors other than x86-64 get none.
#![allow(unsafe_code)]

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Prefetches the cache line in which a value begins.
#[inline]
pub fn prefetch<T: ?Sized>(of: &T) {
    prefetch_line(std::ptr::from_ref(of).cast());
}

/// Prefetches the cache line of an address. It has no other effect, whatever the address is.
#[inline(always)]
pub fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of the architecture, and a prefetch has no effect that the program observes.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
