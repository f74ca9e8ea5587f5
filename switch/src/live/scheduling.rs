//! How the workers of a live switch get a processor.
//!
//! Ordinary threads share processors by the system's fair rules, and a packet may wait for the end of another thread's
//! slice (programs/p4runtime.md has figures). Real-time workers wait for no ordinary thread, and preempt these: an
//! option of the user.

use std::io;
use std::thread;
use std::time::Duration;

use crate::ports::sys::schedule::{come_first, shorten_slices};

/// Requested time slices of the processor. With the usual ones of milliseconds a packet waits for the end of another
/// thread's, and on a busy machine the switch may not be scheduled for tens of them, and its rings overflow.
const SLICE: Duration = Duration::from_micros(100);

/// How workers get a processor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheduling {
    /// Shared: scheduled often and for short slices, as far as the system can.
    Shared,
    /// Before every ordinary thread (SCHED_FIFO).
    RealTime,
}

impl Scheduling {
    /// Requests it from the system, for the calling thread.
    ///
    /// # Errors
    /// It refuses real-time priorities: it requires CAP_SYS_NICE, or RLIMIT_RTPRIO of 1.
    pub(super) fn apply(self) -> io::Result<()> {
        match self {
            Scheduling::Shared => {
                // If the system refuses, everything works as without it.
                let _ = shorten_slices(SLICE);
                Ok(())
            }
            Scheduling::RealTime => come_first(),
        }
    }

    /// Checks that the system grants it to a thread that requests it now.
    ///
    /// # Errors
    /// It refuses real-time priorities, which require CAP_SYS_NICE or RLIMIT_RTPRIO of 1; or no thread is left.
    pub fn check(self) -> io::Result<()> {
        let asked = thread::Builder::new().spawn(move || self.apply())?;
        asked.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}
