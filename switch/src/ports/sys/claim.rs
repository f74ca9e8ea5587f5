//! Exclusive use of an interface by a process: a lock that the kernel releases when the process ends, in any way.
//!
//! It is a name in the abstract namespace of unix sockets (unix(7)). That namespace belongs to the network namespace,
//! as the interface does, so two processes conflict in it exactly if they can use the same interface, whatever their
//! users and file systems; it needs no privilege and leaves no file. It does not prevent use of the interface by other
//! means.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::get_option;
use super::interface::Control;

/// Why a claim failed.
#[derive(Debug)]
pub enum Refused {
    /// Another process has it: its process id, if that is visible in this process' namespace.
    Taken(Option<u32>),
    /// The operating system's error.
    Failed(io::Error),
}

/// How often, and at which interval, a name that this process itself still has is tried again.
const OWN_TRIES: u32 = 50;
const OWN_PAUSE: Duration = Duration::from_millis(10);

/// Claims the interface `index` of the namespace of `control` for one use, until `control` is closed.
///
/// A name that this process gave up may exist for a moment longer: a child process forked by another thread has a copy
/// of the descriptor until it executes its program.
///
/// # Errors
/// See [`Refused`].
pub fn claim(control: &Control, usage: &str, index: u32) -> Result<(), Refused> {
    let own = std::process::id();
    for _ in 0..OWN_TRIES {
        match claim_once(control, usage, index) {
            Err(Refused::Taken(Some(process))) if process == own => std::thread::sleep(OWN_PAUSE),
            claimed => return claimed,
        }
    }
    claim_once(control, usage, index)
}

/// The same without waiting: for a thread that forwards packets, which tries again later.
///
/// # Errors
/// See [`Refused`].
pub fn claim_once(control: &Control, usage: &str, index: u32) -> Result<(), Refused> {
    let failed = |error: Errno| Refused::Failed(error.into());
    let address = address(usage, index).map_err(failed)?;
    match bind(&control.0, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            return Err(Refused::Taken(holder(&address).ok().filter(|process| *process != 0)));
        }
        Err(error) => return Err(failed(error)),
    }
    // A refused process identifies the holder by a connection, which is not accepted; above this number the holder
    // stays unknown.
    const ASKED_MOST: i32 = 1000;
    listen(&control.0, ASKED_MOST).map_err(failed)
}

/// The process that listens under this name; 0 if it is in another process namespace.
fn holder(address: &SocketAddrUnix) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&fd, address)?;
    // `struct ucred`: process, user and group. Not by rustix, whose process id cannot be 0.
    let [process, _, _] = get_option::<[u32; 3]>(&fd, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(process)
}

fn address(usage: &str, index: u32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("wireyard/{usage}/{index}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_forwards_does_not_wait_for_a_name() {
        let (one, other) = (Control::open().unwrap(), Control::open().unwrap());
        // Other runs of this test may be in this network namespace.
        fn name(control: &Control) -> Result<(), Refused> {
            claim_once(control, "test of claims", std::process::id())
        }
        name(&one).unwrap();
        let begun = std::time::Instant::now();
        let refused = name(&other);
        assert!(matches!(refused, Err(Refused::Taken(Some(own))) if own == std::process::id()));
        assert!(begun.elapsed() < OWN_PAUSE * OWN_TRIES);
        drop(one);
        name(&other).unwrap();
    }
}
