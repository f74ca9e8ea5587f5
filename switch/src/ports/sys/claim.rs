//! Which process has an interface: a lock that the kernel releases when the process ends, however it ends.
//!
//! It is a name in the abstract namespace of unix sockets (unix(7)). That namespace belongs to the network namespace, as the
//! interface does, so two processes meet in it exactly if they can meet on the interface, whoever they are and whatever
//! files they see; it needs no privilege and leaves no file. Nobody is kept from using the interface by other means.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::interface::Control;
use super::{checked, get_option, socket};

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
    let name = format!("wireyard/{usage}/{index}");
    let (address, len) = address(&name);
    // SAFETY: the kernel reads `len` bytes of `address`, which is as long at least.
    let bound =
        checked(unsafe { libc::bind(control.0.as_raw_fd(), (&raw const address).cast(), len) });
    match bound {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {
            return Err(Refused::Taken(holder(&name).ok().filter(|process| *process != 0)));
        }
        Err(error) => return Err(Refused::Failed(error)),
    }
    // Who is refused asks for the holder by a connection, which nobody takes; after so many it stays unknown.
    const ASKED_MOST: libc::c_int = 1000;
    // SAFETY: no pointers.
    checked(unsafe { libc::listen(control.0.as_raw_fd(), ASKED_MOST) })
        .map(drop)
        .map_err(Refused::Failed)
}

/// The process that listens under this name; 0: it is in another process namespace.
fn holder(name: &str) -> io::Result<u32> {
    let fd = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    let (address, len) = address(name);
    // SAFETY: the kernel reads `len` bytes of `address`, which is as long at least.
    checked(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    // `struct ucred`: process, user and group.
    let [process, _, _] = get_option::<[u32; 3]>(&fd, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(process)
}

/// An abstract address begins with a zero byte and has no end but its length.
fn address(name: &str) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: `sockaddr_un` is plain data, zero is a value of it.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().skip(1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    (address, len as libc::socklen_t)
}
