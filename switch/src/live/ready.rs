//! Which ports may have frames: one descriptor reports it for all of them, queried once per poll of the device.
//!
//! The cost of a poll depends on the ports with frames, not on the number of ports. A port whose rings are memory
//! (AF_XDP) or that has no descriptor is polled always, without a system call. The times of spinning and sleeping are
//! elsewhere.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::core::Core;
use crate::ports::PortNumber;
use crate::ports::sys::event_fd::EventFd;
use crate::ports::sys::poll::{self, Waiter};

/// The wake's name among those of ports, which are their numbers.
const WAKE: u64 = u64::MAX;

/// The descriptors of a device's ports.
#[derive(Debug)]
pub(super) struct Ready {
    waiter: Waiter,
    names: Vec<u64>,
    numbers: Vec<PortNumber>,
    /// Value of [`Ports::changes`](crate::core::Ports::changes) when descriptors were last added.
    changes: Option<u64>,
    /// All ports are polled always: only the event descriptor has to be waited on.
    asks_all: bool,
    /// `numbers` are those that ended the sleep just over.
    is_fresh: bool,
}

impl Ready {
    /// Without ports yet; a sleep also ends when the event descriptor is signalled.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn with(wake: &EventFd) -> io::Result<Ready> {
        let waiter = Waiter::on(&[])?;
        waiter.add(wake.as_raw_fd(), WAKE)?;
        let (names, numbers) = (Vec::new(), Vec::new());
        Ok(Ready { waiter, names, numbers, changes: None, asks_all: false, is_fresh: false })
    }

    /// Adds the ports that were added since the last call. With `again`, also ports that reopened because their
    /// interface came back.
    ///
    /// # Errors
    /// Too many descriptors.
    pub(super) fn watch(&mut self, core: &Core, again: bool) -> io::Result<()> {
        if !again && self.changes == Some(core.ports().changes()) {
            return Ok(());
        }
        self.changes = Some(core.ports().changes());
        self.asks_all = core.ports().are_always_polled();
        core.ports()
            .poll_fds()
            .try_for_each(|(number, fd)| self.waiter.add(fd, u64::from(number.0)))
    }

    /// The ports that have frames now, of those that are not polled always.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn numbers(&mut self, wake: &EventFd) -> io::Result<&[PortNumber]> {
        if !std::mem::take(&mut self.is_fresh) {
            self.numbers.clear();
            if !self.asks_all {
                self.look(wake)?;
            }
        }
        Ok(&self.numbers)
    }

    fn look(&mut self, wake: &EventFd) -> io::Result<()> {
        self.names.clear();
        self.waiter.readable(&mut self.names)?;
        if self.names.contains(&WAKE) {
            wake.clear();
        }
        self.numbers.clear();
        let number = |&name: &u64| u16::try_from(name).ok().map(PortNumber);
        self.numbers.extend(self.names.iter().filter_map(number));
        Ok(())
    }

    /// Sleeps until a port has frames, the event descriptor is signalled, or the time is over.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn sleep(&mut self, wake: &EventFd, most: Duration) -> io::Result<()> {
        poll::wait(&[self.waiter.as_raw_fd()], most)?;
        self.look(wake)?;
        self.is_fresh = true;
        Ok(())
    }
}
