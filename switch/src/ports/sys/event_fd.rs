//! A descriptor that another thread makes readable (eventfd(2)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::checked;

/// Readable from [`EventFd::signal`] until [`EventFd::clear`]; wakes a thread that polls it.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers; the descriptor is new and ours.
        let fd = unsafe {
            OwnedFd::from_raw_fd(checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        Ok(EventFd(fd))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads the 8 bytes of `one`. It refuses only where it is readable already.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: the kernel writes the 8 bytes of `count`. It refuses only where nobody signalled.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
