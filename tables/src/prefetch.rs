//! Hints to the processor: what is read soon comes to the cache meanwhile.
//!
//! A hint changes nothing that a program can see. It costs an instruction, and is worth one where a value was last touched long ago
//! and is needed only some hundred instructions later. Processors other than x86-64 get none.
#![allow(unsafe_code)]

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Asks for the cache line in which a value begins.
#[inline]
pub fn prefetch<T: ?Sized>(of: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it has no effect but on the cache, whatever the address is, and this one is of a value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(of).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = of;
}
