//! A descriptor that waits for several and reports which are ready (epoll(7)), and sleeps (poll(2), prctl(2)).

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

/// Readable while any of the descriptors it was made on is readable or has an error.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

impl Waiter {
    /// Waits on `fds`; the kernel removes one that is closed later.
    ///
    /// # Errors
    /// Too many open files.
    pub fn on(fds: &[RawFd]) -> io::Result<Waiter> {
        let waiter = Waiter(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        fds.iter().try_for_each(|fd| waiter.add(*fd, 0))?;
        Ok(waiter)
    }

    /// Waits on `fd` too; [`Waiter::readable`] returns `name` for it.
    ///
    /// # Errors
    /// Too many descriptors.
    pub fn add(&self, fd: RawFd, name: u64) -> io::Result<()> {
        let (fd, name) = (borrowed(fd), epoll::EventData::new_u64(name));
        match epoll::add(&self.0, fd, name, epoll::EventFlags::IN) {
            // The descriptor of a port that was given another number is in the set already.
            Err(Errno::EXIST) => Ok(epoll::modify(&self.0, fd, name, epoll::EventFlags::IN)?),
            added => Ok(added?),
        }
    }

    /// Appends the names of descriptors that are readable or have an error now, at most [`READABLE_MAX`]: the next call
    /// returns others. Does not wait.
    ///
    /// # Errors
    /// The kernel's.
    pub fn readable(&self, names: &mut Vec<u64>) -> io::Result<()> {
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; READABLE_MAX];
        let count = match epoll::wait(&self.0, &mut events, Some(&Timespec::default())) {
            Err(Errno::INTR) => 0,
            result => result?,
        };
        names.extend(events.iter().take(count).map(|event| event.data.u64()));
        Ok(())
    }
}

/// Maximum number of descriptors that one call reports.
pub const READABLE_MAX: usize = 64;

/// Borrows a descriptor for one call.
fn borrowed<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: its port keeps it open as long as it returns its number. The kernel rejects one that is closed, and
    // waiting on another's descriptor has no effect on it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Sleeps until one of the descriptors is readable, a signal arrives, or the time is over.
///
/// # Errors
/// The kernel has no memory for the list.
pub fn wait(fds: &[RawFd], timeout: Duration) -> io::Result<()> {
    let wanted = |fd: &RawFd| PollFd::from_borrowed_fd(borrowed(*fd), PollFlags::IN);
    let mut list: Vec<PollFd<'_>> = fds.iter().map(wanted).collect();
    is_any_ready(&mut list, timeout).map(drop)
}

fn is_any_ready(list: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    // A time that exceeds a `Timespec` means without limit.
    match poll(list, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a descriptor is readable, a signal arrives, or the time is over. True if it can be read at once.
///
/// # Errors
/// The kernel has no memory.
pub fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    is_any_ready(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout)
}

/// Makes the kernel wake this thread when a sleep is over, not up to 50 us later to save power. False if that failed.
pub fn wake_in_time() -> bool {
    rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN)).is_ok()
}

impl AsRawFd for Waiter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
