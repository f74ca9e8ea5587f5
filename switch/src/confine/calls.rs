//! The system calls of a running switch, as a filter for all threads of the process (seccomp(2)).
//!
//! The list has the calls that a switch makes, and those that the C library may use instead; every test that ends a
//! live switch (every port kind, control plane, captures, state, `--linux`, workers) checks that nothing was refused. A
//! call that is not in it fails with EPERM, and its number is reported: a switch that forwards for a year is not ended
//! by a library that begins to use a new call. The filter permits no new process, no execution of programs, no new
//! namespace, no access to other processes, and no input into a terminal.

use std::collections::BTreeMap;
use std::io;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_XDP, CLONE_NEWCGROUP, CLONE_NEWIPC,
    CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, CLONE_THREAD,
};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

use crate::ports::sys::{bpf, refused};

/// Calls that are allowed with any arguments.
const ANY: &[libc::c_long] = &[
    // Files and descriptors; none that changes a mode, which Landlock does not see.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    // Memory: machine code is first written and then made executable.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads, time, signals.
    libc::SYS_futex,
    // `processes` restricts the arguments of clone.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_eventfd2,
    // Sockets; the families are checked in `rules`.
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
];

/// Older names of the same calls, which only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Permitted families of sockets.
const FAMILIES: [i32; 6] = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_XDP];
/// The permitted operations of prctl(2): names of threads and of memory.
const PRCTL: [i32; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
/// Operations of fcntl(2) by which the kernel signals a process on behalf of this one.
const FCNTL_REFUSED: [i32; 3] = [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG];
/// Operations of ioctl(2) that type into a terminal, and those that do what F_SETOWN does.
const IOCTL_REFUSED: [i32; 4] =
    [libc::TIOCSTI as i32, libc::TIOCLINUX as i32, FIOSETOWN, SIOCSPGRP];
/// Flags of open(2) with which it has a mode: O_CREAT, and the bit of O_TMPFILE beside O_DIRECTORY.
const CREATES: i32 = libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY;
/// Bits of a mode beyond who may read, write and execute: set-user-ID, set-group-ID, sticky.
const SPECIAL_MODE: i32 = 0o7000;
/// Flags of clone(2) that make namespaces.
const NEW_NAMESPACES: [i32; 7] = [
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
];

// include/uapi/asm-generic/fcntl.h and sockios.h
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const FIOSETOWN: i32 = 0x8901;
const SIOCSPGRP: i32 = 0x8902;

/// The refused system calls, each reported once.
#[derive(Debug)]
pub struct Refusals {
    reported: [u64; refused::WORDS],
}

impl Refusals {
    /// Begins to notice them.
    pub(super) fn catch() -> io::Result<Refusals> {
        refused::catch()?;
        Ok(Refusals { reported: [0; refused::WORDS] })
    }

    /// Numbers of calls that were refused and not reported yet.
    pub fn news(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (place, reported) in self.reported.iter_mut().enumerate() {
            let new = refused::seen(place) & !*reported;
            *reported |= new;
            let bits = (0..u64::BITS).filter(|bit| new >> bit & 1 == 1);
            numbers.extend(bits.map(|bit| place as u32 * u64::BITS + bit));
        }
        numbers
    }
}

/// Confines the system calls of all threads.
///
/// # Errors
/// The system refuses, or there is no list for this processor.
pub(super) fn restrict() -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    for filter in filters(arch).map_err(|error| error.to_string())? {
        apply_filter_all_threads(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Three filters, of which the strictest result counts: clone3, whose arguments no filter can read, fails with ENOSYS,
/// so glibc uses clone instead; a clone that creates a process or a namespace is refused, without a signal, because
/// glibc blocks all signals around it and one that is blocked would end the process; and the list.
fn filters(arch: TargetArch) -> Result<[BpfProgram; 3], seccompiler::BackendError> {
    let refusing = |rules, errno: i32| {
        let refusal = SeccompAction::Errno(errno as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
    };
    let absent = refusing(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    let processes = refusing(BTreeMap::from([(libc::SYS_clone, processes()?)]), libc::EPERM)?;
    let list = SeccompFilter::new(rules()?, SeccompAction::Trap, SeccompAction::Allow, arch)?;
    Ok([absent, processes, list.try_into()?])
}

/// Conditions under which a clone is more than a thread of this process in its namespaces.
fn processes() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flag = |flag: i32, value: u64| {
        let mask = u64::from(flag as u32);
        let condition = SeccompCondition::new(0, Qword, MaskedEq(mask), mask * value)?;
        SeccompRule::new(vec![condition])
    };
    let namespaces = NEW_NAMESPACES.iter().map(|namespace| flag(*namespace, 1));
    std::iter::once(flag(CLONE_THREAD, 0)).chain(namespaces).collect()
}

/// The 32 bits of an argument meet this.
fn argument(
    place: u8,
    is: SeccompCmpOp,
    value: i32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(place, Dword, is, u64::from(value as u32))
}

/// A rule for each value that an argument may have.
fn one_of(place: u8, values: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|value| SeccompRule::new(vec![argument(place, Eq, *value)?])).collect()
}

/// The rule that an argument has none of these values.
fn none_of(place: u8, values: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let differs = values.iter().map(|value| argument(place, Ne, *value));
    Ok(vec![SeccompRule::new(differs.collect::<Result<_, _>>()?)?])
}

/// Rules for a call that opens files: those that it creates run with nobody else's rights. Without creation the kernel
/// ignores the mode, and a C library may leave anything there.
fn opening(flags: u8, mode: u8) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let has_none = |place, bits: i32| {
        let condition = argument(place, MaskedEq(u64::from(bits as u32)), 0)?;
        SeccompRule::new(vec![condition])
    };
    Ok(vec![has_none(flags, CREATES)?, has_none(mode, SPECIAL_MODE)?])
}

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ANY.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_openat, opening(2, 3)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, opening(1, 2)?);
    rules.insert(libc::SYS_fcntl, none_of(1, &FCNTL_REFUSED)?);
    rules.insert(libc::SYS_ioctl, none_of(1, &IOCTL_REFUSED)?);
    // AF_XDP ports and the queues of TAPs: the kernel requires the capability.
    rules.insert(libc::SYS_bpf, one_of(0, &bpf::COMMANDS)?);
    // Limits of this process, which is 0.
    rules.insert(libc::SYS_prlimit64, one_of(0, &[0])?);
    rules.insert(libc::SYS_socket, one_of(0, &FAMILIES)?);
    rules.insert(libc::SYS_prctl, one_of(0, &PRCTL)?);
    rules.insert(libc::SYS_socketpair, one_of(0, &[AF_UNIX])?);
    // Signals to threads of this process: abort uses them.
    rules.insert(libc::SYS_tgkill, one_of(0, &[std::process::id() as i32])?);
    Ok(rules)
}
