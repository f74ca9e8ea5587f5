//! One descriptor that waits for several and reports which (epoll(7)), and sleeps (poll(2), prctl(2)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

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
        let waiter = Waiter(waiter);
        fds.iter().try_for_each(|fd| waiter.add(*fd, 0))?;
        Ok(waiter)
    }

    /// Waits on `fd` too, which has this name in [`Waiter::readable`] from now on.
    ///
    /// # Errors
    /// Too many descriptors.
    pub fn add(&self, fd: RawFd, name: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: name };
        let mut control = |operation| {
            // SAFETY: the kernel reads the event during the call.
            checked(unsafe { libc::epoll_ctl(self.as_raw_fd(), operation, fd, &raw mut event) })
        };
        match control(libc::EPOLL_CTL_ADD) {
            // A port that was given another number brings its descriptor along.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                control(libc::EPOLL_CTL_MOD).map(drop)
            }
            added => added.map(drop),
        }
    }

    /// Appends the names of descriptors that are readable or have an error now, at most [`READABLE_MAX`]: the others come next
    /// time. Does not wait.
    ///
    /// # Errors
    /// The kernel's.
    pub fn readable(&self, names: &mut Vec<u64>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; READABLE_MAX];
        // SAFETY: the kernel writes at most READABLE_MAX events.
        let result = checked(unsafe {
            libc::epoll_wait(self.as_raw_fd(), events.as_mut_ptr(), READABLE_MAX as libc::c_int, 0)
        });
        let count = match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result? as usize,
        };
        names.extend(events.iter().take(count).map(|event| event.u64));
        Ok(())
    }
}

/// Most descriptors that one call reports.
pub const READABLE_MAX: usize = 64;

/// Sleeps until one of the descriptors is readable, a signal comes, or the time is over.
///
/// # Errors
/// The system has no memory for the list.
pub fn wait(fds: &[RawFd], timeout: Duration) -> io::Result<()> {
    let mut list: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the pointer and length are those of `list`, which the kernel writes during the call; it
    // reads the timeout, and a null signal mask changes nothing.
    let result = unsafe {
        libc::ppoll(
            list.as_mut_ptr(),
            list.len() as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    match checked(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Has the kernel wake this thread when a sleep is over, not up to 50 us later to save power. False: it will not.
pub fn wake_in_time() -> bool {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes a number and no pointer.
    checked(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).is_ok()
}

impl AsRawFd for Waiter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
