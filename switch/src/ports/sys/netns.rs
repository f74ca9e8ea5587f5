//! Private network namespaces for tests and demonstrations.
//!
//! A namespace made here has no name: it ends with the last thread, socket and process in it, so that
//! nothing is left behind whatever happens.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

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
    unshare(UnshareFlags::NEWNET)?;
    Ok(PrivateNetwork { home })
}

/// Gives the calling thread namespaces of its own.
fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "threads share their descriptors");
    // SAFETY: descriptors stay shared, see above.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}

fn move_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Moves the calling thread into the network namespace of this file for good.
///
/// # Errors
/// No such file, no namespace, no CAP_SYS_ADMIN.
pub fn enter(path: &Path) -> io::Result<()> {
    move_into(&File::open(path)?)
}

/// Moves the calling process into a new, empty network namespace for good: with a user namespace around it when the
/// process may not have one otherwise, in which it is root and everywhere else what it was.
///
/// # Errors
/// The system forbids it, or the process has more than one thread.
pub fn leave_for_private_network() -> io::Result<()> {
    if unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    // Without a map the process has its capabilities all the same, but files it writes would look strange to it.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

/// Whether this process is in the user namespace of the machine. The capabilities of another one reach neither BPF nor the limit of locked
/// memory (user_namespaces(7)), so there is no AF_XDP.
pub fn is_in_first_user_namespace() -> bool {
    // include/linux/proc_ns.h: PROC_USER_INIT_INO
    const FIRST: &str = "user:[4026531837]";
    let name = std::fs::read_link("/proc/self/ns/user");
    name.map_or(true, |name| name == Path::new(FIRST))
}

/// Keeps new interfaces of this network namespace from speaking IPv6 by themselves. False: they will.
pub fn silence_ipv6() -> bool {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").is_ok()
}

impl Drop for PrivateNetwork {
    fn drop(&mut self) {
        // A failure leaves the thread in the private namespace, which harms nobody else.
        let _ = move_into(&self.home);
    }
}
