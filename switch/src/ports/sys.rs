//! System calls of the ports, and the only `unsafe` of this crate's port code.
//!
//! Each part wraps one kernel interface so that its callers need no `unsafe`: [`interface`] (properties of an
//! interface), [`claim`] (exclusive use of one by a process), [`event_fd`] (eventfd), [`packet`] (AF_PACKET), [`tap`],
//! [`poll`] (epoll), [`netns`] (private network namespaces), [`refused`] (system calls that a filter refuses),
//! [`schedule`]. No policy here: the port decides what an error means.
#![allow(unsafe_code)]

pub mod bpf;
mod btf;
pub mod claim;
pub mod ending;
pub mod event_fd;
pub mod heap;
mod held;
pub mod interface;
pub mod netns;
pub mod packet;
pub mod poll;
pub mod refused;
mod ring;
pub mod schedule;
pub mod tap;
pub mod xsk;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The `libc` result as a Rust result.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A field of /proc/self/status that is a mask, such as `CapEff:` and `SigIgn:`: proc_pid_status(5).
pub(crate) fn status_mask(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

/// The value of a socket option that contains no references.
///
/// # Safety
/// It has no padding, every bit pattern of it is valid, and it contains no address that the kernel dereferences.
unsafe trait OptionValue: Copy {}

// SAFETY: an integer.
unsafe impl OptionValue for libc::c_int {}
// SAFETY: an integer.
unsafe impl OptionValue for u32 {}
// SAFETY: integers without padding.
unsafe impl<const WORDS: usize> OptionValue for [u32; WORDS] {}
// SAFETY: integers without padding.
unsafe impl<const WORDS: usize> OptionValue for [u64; WORDS] {}
// SAFETY: integers of 4, 2 and 2 bytes and 8 bytes, without padding.
unsafe impl OptionValue for libc::packet_mreq {}

/// Sets a socket option.
fn set_option<T: OptionValue>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: there is no address in the value.
    unsafe { set_option_with_addresses(fd, level, name, value) }
}

/// Sets a socket option whose value contains addresses.
///
/// # Safety
/// The memory at the addresses in `value` is valid as long as the kernel uses it for this option.
unsafe fn set_option_with_addresses<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `value`, which lives through the call; the caller guarantees
    // the addresses in it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (value as *const T).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    checked(result).map(drop)
}

/// Reads a socket option.
fn get_option<T: OptionValue + Default>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`, of which every bit pattern is valid.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
    };
    checked(result)?;
    Ok(value)
}
