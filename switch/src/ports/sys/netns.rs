//! Private network namespaces for tests and demonstrations.
//!
//! A namespace made here has no name: it ends with the last thread, socket and process in it, so that
//! nothing is left behind whatever happens.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::checked;

/// The calling thread is in a private network namespace until this is dropped. Threads and processes
/// it starts meanwhile are in it too, and stay there.
#[derive(Debug)]
pub struct PrivateNetwork {
    home: File,
}

/// Moves the calling thread into a new, empty network namespace.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn enter_private_network() -> io::Result<PrivateNetwork> {
    let home = File::open("/proc/thread-self/ns/net")?;
    // SAFETY: no pointers; only this thread's network namespace changes.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(PrivateNetwork { home })
}

impl Drop for PrivateNetwork {
    fn drop(&mut self) {
        // SAFETY: no pointers; the descriptor is a network namespace. A failure leaves the thread in
        // the private namespace, which harms nobody else.
        let _ = unsafe { libc::setns(self.home.as_raw_fd(), libc::CLONE_NEWNET) };
    }
}
