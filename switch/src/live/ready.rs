//! Which ports may have frames: one descriptor reports it of all of them, asked once for a poll of the device.
//!
//! The cost of a poll is that of the ports that have something, not that of those that there are. A port whose rings are memory
//! (AF_XDP) or that has no descriptor is asked always and costs no system call. Not here: how long to spin and to sleep.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::core::Core;
use crate::ports::sys::bell::Bell;
use crate::ports::sys::poll::{self, Waiter};

/// The bell's name among those of ports, which are their numbers.
const BELL: u64 = u64::MAX;

/// The descriptors of a device's ports.
#[derive(Debug)]
pub(super) struct Ready {
    waiter: Waiter,
    names: Vec<u64>,
    numbers: Vec<u16>,
    /// What [`Core::port_changes`] was when descriptors were added last.
    changes: Option<u64>,
    /// All ports are asked always: nothing has to be looked at but the bell.
    asks_all: bool,
    /// `numbers` are those that ended the sleep just over.
    is_fresh: bool,
}

impl Ready {
    /// Of no port yet; a sleep ends when the bell rings too.
    ///
    /// # Errors
    /// Too many open files.
    pub(super) fn with(bell: &Bell) -> io::Result<Ready> {
        let waiter = Waiter::on(&[])?;
        waiter.add(bell.as_raw_fd(), BELL)?;
        let (names, numbers) = (Vec::new(), Vec::new());
        Ok(Ready { waiter, names, numbers, changes: None, asks_all: false, is_fresh: false })
    }

    /// Waits on the ports that came since the last call. With `again`, on ports too that were opened again by themselves, because
    /// their interface came back.
    ///
    /// # Errors
    /// Too many descriptors.
    pub(super) fn watch(&mut self, core: &Core, again: bool) -> io::Result<()> {
        if !again && self.changes == Some(core.port_changes()) {
            return Ok(());
        }
        self.changes = Some(core.port_changes());
        self.asks_all = core.polls_always();
        core.poll_fds().try_for_each(|(number, fd)| self.waiter.add(fd, u64::from(number)))
    }

    /// The ports that have frames now, of those that are not asked always.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn numbers(&mut self, bell: &Bell) -> io::Result<&[u16]> {
        if !std::mem::take(&mut self.is_fresh) {
            self.numbers.clear();
            if !self.asks_all {
                self.look(bell)?;
            }
        }
        Ok(&self.numbers)
    }

    fn look(&mut self, bell: &Bell) -> io::Result<()> {
        self.names.clear();
        self.waiter.readable(&mut self.names)?;
        if self.names.contains(&BELL) {
            bell.quiet();
        }
        self.numbers.clear();
        self.numbers.extend(self.names.iter().filter_map(|&name| u16::try_from(name).ok()));
        Ok(())
    }

    /// Sleeps until a port has something, the bell rings, or the time is over.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn sleep(&mut self, bell: &Bell, most: Duration) -> io::Result<()> {
        poll::wait(&[self.waiter.as_raw_fd()], most)?;
        self.look(bell)?;
        self.is_fresh = true;
        Ok(())
    }
}
