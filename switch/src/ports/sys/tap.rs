//! TAP devices (Documentation/networking/tuntap.rst).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::checked;
use super::interface::{ioctl, request};

/// Creates the TAP device `name`, or attaches to it if it exists and no other program has it. A device that was created
/// is deleted when the file is closed. Reads and writes are whole frames.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN, EBUSY if another program has it, EINVAL if it is not a TAP.
pub fn open(name: &str) -> io::Result<File> {
    let single = attach(name, 0);
    // A device that was created with several queues cannot be opened with one.
    match single {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attach(name, libc::IFF_MULTI_QUEUE as libc::c_short).map_err(|_| error)
        }
        other => other,
    }
}

/// Opens a further queue of a device that has, or is to have, several.
///
/// # Errors
/// As [`open`]; EINVAL if it was created with one queue only, E2BIG beyond 256.
pub fn open_queue(name: &str) -> io::Result<File> {
    attach(name, libc::IFF_MULTI_QUEUE as libc::c_short)
}

/// Makes a program choose the queue of each frame that the host sends: its result modulo the number of queues.
///
/// # Errors
/// The program is not one for sockets.
pub fn steer(file: &File, program: &OwnedFd) -> io::Result<()> {
    // include/uapi/linux/if_tun.h: _IOR('T', 224, int)
    const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0;
    let program = program.as_raw_fd();
    // SAFETY: the kernel reads one integer, which lives through the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const program) })
        .map(drop)
}

/// The state of a TAP device, wherever its interface is: it may be renamed or moved to another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapState {
    /// The interface takes frames.
    Up,
    /// It exists, and is administratively down.
    Down,
    /// It was deleted.
    Gone,
}

/// The state, read from the device's file.
pub fn state(file: &File) -> TapState {
    let mut list = [PollFd::new(file, PollFlags::OUT)];
    let ready = poll(&mut list, Some(&Timespec::default()));
    match ready {
        _ if list[0].revents().contains(PollFlags::ERR) => TapState::Gone,
        Ok(1..) => TapState::Up,
        // Only a device that is up is writable.
        _ => TapState::Down,
    }
}

/// Sets or clears the carrier of a device's interface, as if its cable was connected or not.
///
/// # Errors
/// The device was deleted; a kernel before 5.0.
pub fn set_carrier(file: &File, is_up: bool) -> io::Result<()> {
    // include/uapi/linux/if_tun.h: _IOW('T', 226, int)
    const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
    let up = libc::c_int::from(is_up);
    // SAFETY: the kernel reads one integer, which lives through the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETCARRIER, &raw const up) }).map(drop)
}

fn attach(name: &str, flags: libc::c_short) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let fd = OwnedFd::from(file);
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags =
        libc::IFF_TAP as libc::c_short | libc::IFF_NO_PI as libc::c_short | flags;
    ioctl(&fd, libc::TUNSETIFF, &mut request)?;
    // No offloads: the kernel finishes checksums and cuts segments before frames are read.
    // SAFETY: this code takes a number, not a pointer.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, 0 as libc::c_ulong) })?;
    Ok(File::from(fd))
}
