//! One descriptor that waits for several (epoll(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::checked;

/// Readable while any of the descriptors it was made on is readable or has an error.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

impl Waiter {
    /// Waits on `fds`; one that is closed later is forgotten by the kernel.
    ///
    /// # Errors
    /// Too many open files.
    pub fn on(fds: &[RawFd]) -> io::Result<Waiter> {
        // SAFETY: no pointers; the descriptor is new and ours.
        let waiter =
            unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        for fd in fds {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: the kernel reads the event during the call.
            checked(unsafe {
                libc::epoll_ctl(waiter.as_raw_fd(), libc::EPOLL_CTL_ADD, *fd, &raw mut event)
            })?;
        }
        Ok(Waiter(waiter))
    }
}

/// Sleeps until one of the descriptors is readable, a signal comes, or the time is over.
///
/// # Errors
/// The system has no memory for the list.
pub fn wait(fds: &[RawFd], timeout_ms: u32) -> io::Result<()> {
    let mut list: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
    // SAFETY: the pointer and length are those of `list`, which the kernel writes during the call.
    let result = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout) };
    match checked(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

impl AsRawFd for Waiter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
