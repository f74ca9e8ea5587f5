//! Which process has an interface: a lock that the kernel releases when the process ends, however it ends.
//!
//! It is a name in the abstract namespace of unix sockets (unix(7)). That namespace belongs to the network namespace, as the
//! interface does, so two processes meet in it exactly if they can meet on the interface, whoever they are and whatever
//! files they see; it needs no privilege and leaves no file. Nobody is kept from using the interface by other means.

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
    /// Another has it: its process number, where it is known in this process' namespace.
    Taken(Option<u32>),
    /// The system refuses.
    Failed(io::Error),
}

/// How often, and how long apart, a name that this process has itself is asked for again.
const OWN_TRIES: u32 = 50;
const OWN_PAUSE: Duration = Duration::from_millis(10);

/// Claims the interface `index` of the namespace of `control` for one use, until `control` is closed.
///
/// A name that this process gave up may be there for a moment longer: a child that another thread forked just then has a copy of
/// the descriptor until it executes.
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

fn claim_once(control: &Control, usage: &str, index: u32) -> Result<(), Refused> {
    let failed = |error: Errno| Refused::Failed(error.into());
    let address = address(usage, index).map_err(failed)?;
    match bind(&control.0, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            return Err(Refused::Taken(holder(&address).ok().filter(|process| *process != 0)));
        }
        Err(error) => return Err(failed(error)),
    }
    // A refused process asks for the holder by a connection, which is not accepted; after so many it stays unknown.
    const ASKED_MOST: i32 = 1000;
    listen(&control.0, ASKED_MOST).map_err(failed)
}

/// The process that listens under this name; 0: it is in another process namespace.
fn holder(address: &SocketAddrUnix) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&fd, address)?;
    // `struct ucred`: process, user and group. Not by rustix, whose process number cannot be 0.
    let [process, _, _] = get_option::<[u32; 3]>(&fd, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(process)
}

fn address(usage: &str, index: u32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("wireyard/{usage}/{index}").as_bytes())
}
