//! A descriptor that another thread makes readable (eventfd(2)).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// Readable from [`EventFd::signal`] until [`EventFd::clear`]; wakes a thread that polls it.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        // It fails only if the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        // It fails only if there was no signal.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
