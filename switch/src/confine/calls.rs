//! The system calls of a running switch, as a filter for all threads of the process (seccomp(2)).
//!
//! The list has the calls that a switch makes, and those that the C library may use instead; every test that ends a
//! live switch (every port kind, control plane, captures, state, `--linux`, workers) checks that nothing was refused. A
//! call that is not in it fails with EPERM, and its number is reported: a switch that forwards for a year is not ended
//! by a library that begins to use a new call. The filter permits no new process, no execution of programs, no new
//! namespace, and no access to other processes.

use std::collections::BTreeMap;
use std::io;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_XDP, CLONE_NEWCGROUP, CLONE_NEWIPC,
    CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, CLONE_THREAD,
};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter_all_threads,
};

use crate::ports::sys::refused;

/// Calls that are allowed with any arguments.
const ANY: &[libc::c_long] = &[
    // Files and descriptors.
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
    libc::SYS_openat,
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
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_ioctl,
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
    libc::SYS_prlimit64,
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
    // AF_XDP ports: the kernel requires the capability.
    libc::SYS_bpf,
];

/// Older names of the same calls, which only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_chmod,
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

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ANY.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let first_is = |value: i32| {
        SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, value as u32 as u64)?])
    };
    let one_of = |values: &[i32]| -> Result<Vec<SeccompRule>, _> {
        values.iter().map(|value| first_is(*value)).collect()
    };
    rules.insert(libc::SYS_socket, one_of(&FAMILIES)?);
    rules.insert(libc::SYS_prctl, one_of(&PRCTL)?);
    rules.insert(libc::SYS_socketpair, vec![first_is(AF_UNIX)?]);
    // Signals to threads of this process: abort uses them.
    let own = SeccompCondition::new(0, Dword, Eq, u64::from(std::process::id()))?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
    Ok(rules)
}
