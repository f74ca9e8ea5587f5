//! A descriptor that another thread makes readable (eventfd(2)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::checked;

/// A bell: readable from [`Bell::ring`] until [`Bell::quiet`].
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that does not ring.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: no pointers; the descriptor is new and ours.
        let fd = unsafe {
            OwnedFd::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        Ok(Bell(fd))
    }

    /// Makes it readable.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads the 8 bytes of `one`. It refuses only where the bell rings already.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable.
    pub fn quiet(&self) {
        let mut count = 0u64;
        // SAFETY: the kernel writes the 8 bytes of `count`. It refuses only where the bell is quiet.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
