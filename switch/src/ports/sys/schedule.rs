//! How the system's scheduler treats the calling thread (sched_setattr(2)).

use std::io;
use std::time::Duration;

use super::checked;

/// Asks for slices of this length for the calling thread and those that it starts later: its share of the processor stays the same, in shorter
/// pieces that come sooner (EEVDF, since Linux 6.12; other kernels take no notice). A thread with a real-time policy stays as it is.
///
/// # Errors
/// The system refuses.
pub fn shorten_slices(slice: Duration) -> io::Result<()> {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: plain integers, of which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size;
    // SAFETY: the kernel writes at most `size` bytes of `attributes`, of the calling thread (0).
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0u32) };
    checked(done as libc::c_int)?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads `attributes.size` bytes of `attributes`, which it wrote itself.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0u32) };
    checked(done as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_for_short_slices() {
        let asked = std::thread::spawn(|| shorten_slices(Duration::from_micros(100)));
        asked.join().expect("the thread ends").expect("no privilege is needed");
    }
}
