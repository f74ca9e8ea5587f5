//! How the workers of a live switch get a processor.
//!
//! Ordinary threads share processors by the system's fair rules, and a packet may wait for the end of another thread's slice
//! (programs/p4runtime.md has figures). Real-time workers wait for no ordinary thread, and take from those what they want: the user asks for it.

use std::io;
use std::thread;
use std::time::Duration;

use crate::ports::sys::schedule::{come_first, shorten_slices};

/// Slices of the processor that a switch asks for. With the usual ones of milliseconds a packet waits for the end of another thread's, and on a busy
/// machine the switch may not be run for tens of them, and its rings overflow.
const SLICE: Duration = Duration::from_micros(100);

/// How workers get a processor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheduling {
    /// They share it: often and for short, as far as the system can.
    Shared,
    /// They come before every ordinary thread (SCHED_FIFO).
    RealTime,
}

impl Scheduling {
    /// Asks the system for it, for the calling thread.
    ///
    /// # Errors
    /// It refuses real-time priorities: that takes CAP_SYS_NICE, or RLIMIT_RTPRIO of 1.
    pub(super) fn apply(self) -> io::Result<()> {
        match self {
            Scheduling::Shared => {
                // Where the system refuses, all is as it is without.
                let _ = shorten_slices(SLICE);
                Ok(())
            }
            Scheduling::RealTime => come_first(),
        }
    }

    /// Whether the system gives it to a thread that asks now.
    ///
    /// # Errors
    /// It refuses real-time priorities, which take CAP_SYS_NICE or RLIMIT_RTPRIO of 1; or there can be no more threads.
    pub fn check(self) -> io::Result<()> {
        let asked = thread::Builder::new().spawn(move || self.apply())?;
        asked.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}
