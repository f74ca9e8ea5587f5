//! Private network namespaces for tests and demonstrations.
//!
//! A namespace made here has no name: it ends with the last thread, socket and process in it, so that
//! nothing is left behind whatever happens.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

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

/// Moves the calling thread into the network namespace of this file for good.
///
/// # Errors
/// No such file, no namespace, no CAP_SYS_ADMIN.
pub fn enter(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    // SAFETY: no pointers; only this thread's network namespace changes.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling process into a new, empty network namespace for good: with a user namespace around it when the
/// process may not have one otherwise, in which it is root and everywhere else what it was.
///
/// # Errors
/// The system forbids it, or the process has more than one thread.
pub fn leave_for_private_network() -> io::Result<()> {
    // SAFETY: no pointers; as `enter_private_network`.
    if checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }).is_ok() {
        return Ok(());
    }
    // SAFETY: these take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers; the kernel refuses a process with other threads.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
    // Without a map the process has its capabilities all the same, but files it writes would look strange to it.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Keeps new interfaces of this network namespace from speaking IPv6 by themselves. False: they will.
pub fn silence_ipv6() -> bool {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").is_ok()
}

impl Drop for PrivateNetwork {
    fn drop(&mut self) {
        // SAFETY: no pointers; the descriptor is a network namespace. A failure leaves the thread in
        // the private namespace, which harms nobody else.
        let _ = unsafe { libc::setns(self.home.as_raw_fd(), libc::CLONE_NEWNET) };
    }
}
