//! Handling of system calls that the filter of the process does not allow (SECCOMP_RET_TRAP, seccomp(2)).
//!
//! The kernel sends SIGSYS to the thread that made the call. The handler records its number and makes the call return
//! EPERM; it allocates nothing, takes no lock and makes no call itself.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::checked;

/// Words of [`seen`]: one bit for each call number below 1024. Higher ones (there are none today) share the last bit.
pub const WORDS: usize = 16;
static SEEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// `si_code` of a SIGSYS raised by a filter (include/uapi/asm-generic/siginfo.h).
const SYS_SECCOMP: libc::c_int = 1;

/// Refused calls, one bit for each number, of the 64 numbers from `64 * word` on.
pub fn seen(word: usize) -> u64 {
    SEEN.get(word).map_or(0, |bits| bits.load(Ordering::Relaxed))
}

/// Makes refused calls fail from now on; without this they end the process.
///
/// # Errors
/// The operating system's error.
pub fn catch() -> io::Result<()> {
    // SAFETY: zero is valid for every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = refuse as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `action` is a complete sigaction whose handler has the signature that SA_SIGINFO requires.
    let set = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
    checked(set).map(drop)
}

/// Opens a socket of this address family and closes it.
///
/// # Errors
/// The operating system's error.
pub fn try_socket(family: AddressFamily) -> io::Result<()> {
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(())
}

/// Calls that no switch makes, by what they are for. They name no memory and no open file, so that they change nothing
/// where they are permitted.
const FOREIGN: [(&str, libc::c_long, [libc::c_long; 4]); 6] = [
    (
        "make a file that others run with its rights",
        libc::SYS_openat,
        [AT_NOTHING, 0, (libc::O_CREAT | libc::O_WRONLY) as libc::c_long, 0o4700],
    ),
    ("change the mode of a file", libc::SYS_fchmodat, [AT_NOTHING, 0, 0o600, 0]),
    ("type into a terminal", libc::SYS_ioctl, [AT_NOTHING, libc::TIOCSTI as libc::c_long, 0, 0]),
    (
        "have another process signalled",
        libc::SYS_fcntl,
        [AT_NOTHING, libc::F_SETOWN as libc::c_long, 1, 0],
    ),
    (
        "read the limits of another process",
        libc::SYS_prlimit64,
        [1, libc::RLIMIT_CORE as libc::c_long, 0, 0],
    ),
    ("trace the kernel", libc::SYS_bpf, [BPF_RAW_TRACEPOINT_OPEN, 0, 0, 0]),
];
/// No descriptor, and no folder.
const AT_NOTHING: libc::c_long = -1;
/// include/uapi/linux/bpf.h
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;

/// Makes calls that no switch makes: what each is for, and whether it was refused (EPERM). Another error means that the
/// kernel has looked at the arguments, which lead nowhere.
pub fn try_foreign() -> impl Iterator<Item = (&'static str, io::Result<()>)> {
    FOREIGN.into_iter().map(|(what, call, [first, second, third, fourth])| {
        // SAFETY: the arguments are no addresses but null, which the kernel refuses to read, and no open descriptors.
        let result = unsafe { libc::syscall(call, first, second, third, fourth) };
        let refused = (result < 0).then(io::Error::last_os_error);
        let refused = refused.filter(|error| error.raw_os_error() == Some(libc::EPERM));
        (what, refused.map_or(Ok(()), Err))
    })
}

extern "C" fn refuse(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO, valid while it runs.
    let is_refusal = unsafe { (*info).si_code } == SYS_SECCOMP;
    if !is_refusal {
        return;
    }
    // SAFETY: the kernel passes a ucontext_t to a handler with SA_SIGINFO, and restores the registers from it when the
    // handler returns.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let number = replace_result(context, -i64::from(libc::EPERM));
    let number = usize::try_from(number).unwrap_or(usize::MAX).min(WORDS * 64 - 1);
    if let Some(bits) = SEEN.get(number / 64) {
        bits.fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}

/// Makes the interrupted call return `result`; returns the number of the call.
#[cfg(target_arch = "x86_64")]
fn replace_result(context: &mut libc::ucontext_t, result: i64) -> i64 {
    let register = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    std::mem::replace(register, result)
}

/// Makes the interrupted call return `result`; returns the number of the call.
#[cfg(target_arch = "aarch64")]
fn replace_result(context: &mut libc::ucontext_t, result: i64) -> i64 {
    context.uc_mcontext.regs[0] = result as u64;
    context.uc_mcontext.regs[8] as i64
}

/// No filter is installed on this processor ([`super::super::super::confine`]).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn replace_result(_context: &mut libc::ucontext_t, _result: i64) -> i64 {
    i64::MAX
}
