//! Private network namespaces for tests and demonstrations.
//!
//! A namespace made here has no name: it ends with the last thread, socket and process in it, so that nothing is left
//! behind in any case.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The calling thread is in a private network namespace until this is dropped. Threads and processes started meanwhile
/// are in it too, and stay there.
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

/// Moves the calling thread into new namespaces.
fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "threads share their descriptors");
    // SAFETY: descriptors stay shared, see above.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}

fn move_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Moves the calling thread permanently into the network namespace of this file.
///
/// # Errors
/// No such file, not a namespace, no CAP_SYS_ADMIN.
pub fn enter(path: &Path) -> io::Result<()> {
    move_into(&File::open(path)?)
}

/// Moves the calling process permanently into a new, empty network namespace: with a user namespace around it if the
/// process may not create one otherwise. In that it is root; elsewhere its rights are unchanged.
///
/// # Errors
/// The operating system forbids it, or the process has more than one thread.
pub fn leave_for_private_network() -> io::Result<()> {
    if unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    // Without a map the process has its capabilities all the same, but its files would have unknown owners.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

/// True if this process is in the initial user namespace. The capabilities of any other apply neither to BPF nor to the
/// limit of locked memory (user_namespaces(7)), so there is no AF_XDP.
pub fn is_in_first_user_namespace() -> bool {
    // include/linux/proc_ns.h: PROC_USER_INIT_INO
    const FIRST: &str = "user:[4026531837]";
    user_namespace().is_none_or(|name| name == Path::new(FIRST))
}

/// The kernel's name of the user namespace of this process: namespaces(7). `None` where /proc does not tell.
pub fn user_namespace() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/ns/user").ok()
}

/// Prevents new interfaces of this network namespace from sending IPv6 on their own. False if that failed.
pub fn silence_ipv6() -> bool {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").is_ok()
}

impl Drop for PrivateNetwork {
    fn drop(&mut self) {
        // A failure leaves the thread in the private namespace, which affects no other thread.
        let _ = move_into(&self.home);
    }
}
