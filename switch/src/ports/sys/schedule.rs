//! Settings of the kernel's scheduler for the calling thread (sched_setattr(2)).

use std::io;
use std::time::Duration;

use super::checked;

/// The nice value of a thread that yields: its share is a tenth of another's (nice(2), `sched_prio_to_weight` in
/// kernel/sched/core.c).
const GIVING_WAY: i32 = 10;

/// The lowest real-time priority: before every ordinary thread, after the kernel's own threads.
const PRIORITY: u32 = 1;

/// Requests slices of this length for the calling thread and the threads that it starts later: its share of the
/// processor stays the same, in shorter and more frequent slices (EEVDF, since Linux 6.12; other kernels ignore it). A
/// thread with a real-time policy is not changed.
///
/// # Errors
/// The operating system's error.
pub fn shorten_slices(slice: Duration) -> io::Result<()> {
    let slice_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    change(|attributes| attributes.sched_runtime = slice_ns)
}

/// Lowers the share of the calling thread on a busy processor: for threads that serve users while another thread
/// forwards packets. On an idle processor there is no effect.
///
/// # Errors
/// The operating system's error.
pub fn give_way() -> io::Result<()> {
    change(|attributes| {
        attributes.sched_nice = attributes.sched_nice.max(GIVING_WAY);
        // The default slice: a thread with shorter ones preempts others when it wakes.
        attributes.sched_runtime = 0;
    })
}

/// Gives the calling thread precedence over every ordinary one (SCHED_FIFO, sched(7)): it runs as soon as it is ready,
/// without a time limit. Threads that it starts later are ordinary ones.
///
/// # Errors
/// Without CAP_SYS_NICE, if the limit of real-time priorities is below 1 (RLIMIT_RTPRIO).
pub fn come_first() -> io::Result<()> {
    let mut attributes = attributes()?;
    attributes.sched_policy = libc::SCHED_FIFO as u32;
    attributes.sched_priority = PRIORITY;
    attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    set(&attributes)
}

/// Changes the attributes of the calling thread, unless its policy is not that of ordinary threads.
fn change(edit: impl FnOnce(&mut libc::sched_attr)) -> io::Result<()> {
    let mut attributes = attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    edit(&mut attributes);
    set(&attributes)
}

fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads `attributes.size` bytes of `attributes`, a size that it has set itself.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0u32) };
    checked(done as libc::c_int).map(drop)
}

/// The scheduling attributes of the calling thread.
fn attributes() -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: plain integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size;
    // SAFETY: the kernel writes at most `size` bytes of `attributes`, of the calling thread (0).
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0u32) };
    checked(done as libc::c_int)?;
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_for_short_slices_and_give_way() {
        let asked = std::thread::spawn(|| {
            let own = attributes().expect("they can be read");
            shorten_slices(Duration::from_micros(150)).expect("no privilege is needed");
            let short = attributes().expect("they can be read");
            give_way().expect("no privilege is needed");
            (own, short, attributes().expect("they can be read"))
        });
        let (own, short, back) = asked.join().expect("the thread ends");
        assert_eq!(own.sched_nice, short.sched_nice);
        assert_eq!(back.sched_nice, own.sched_nice.max(GIVING_WAY));
        // Kernels without slices per thread report none.
        if short.sched_runtime != own.sched_runtime {
            assert_eq!((short.sched_runtime, back.sched_runtime), (150_000, own.sched_runtime));
        }
    }
}
