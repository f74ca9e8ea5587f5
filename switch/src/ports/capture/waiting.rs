//! An input that its reader may have to wait for, as a pipe: a signal ends the wait.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ports::sys::poll::is_readable;

/// Longest time without a look at `stop`, for a signal between the look and the wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reads until the end of the file, or until `stop` is set while there is nothing to read. A read(2) that a signal
/// interrupts is restarted by the kernel, so it is begun only when there is something.
pub(super) struct Waiting {
    pub(super) file: File,
    pub(super) stop: Arc<AtomicBool>,
}

impl Read for Waiting {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !is_readable(self.file.as_fd(), LOOK_EVERY)? {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
        }
        self.file.read(buf)
    }
}
