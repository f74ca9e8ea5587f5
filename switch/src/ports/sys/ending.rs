//! Signals that end a run: the first one asks for the end, a later one does not wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use signal_hook::low_level;

/// One that comes this long after the first says that the end is not waited for. Before that it is the same wish:
/// `timeout` of GNU signals its child and then its process group, which is the same process twice within a millisecond.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Exit status of a process that does not wait: 128 and SIGINT.
const AT_ONCE_STATUS: i32 = 130;
/// No signal has come yet.
const NEVER: u64 = u64::MAX;

/// From now on each of these signals sets `stop`, and ends the process at once if another of them came before, by
/// half a second or more.
///
/// # Errors
/// The system refuses.
pub fn catch(signals: &[libc::c_int], stop: &Arc<AtomicBool>) -> io::Result<()> {
    let began = Instant::now();
    let first_ms = Arc::new(AtomicU64::new(NEVER));
    for signal in signals {
        let (stop, first_ms) = (Arc::clone(stop), Arc::clone(&first_ms));
        let handle = move || {
            let now_ms = began.elapsed().as_millis() as u64;
            let before_ms = first_ms.fetch_min(now_ms, Ordering::Relaxed);
            if is_again(before_ms, now_ms) {
                low_level::exit(AT_ONCE_STATUS);
            }
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: the handler calls only what signal-safety(7) allows: clock_gettime(2) and _exit(2), beside atomics.
        unsafe { low_level::register(*signal, handle) }?;
    }
    Ok(())
}

/// Whether a signal says that the end, which one at `before_ms` asked for, is not waited for.
fn is_again(before_ms: u64, now_ms: u64) -> bool {
    u128::from(now_ms.saturating_sub(before_ms)) >= AGAIN_AFTER.as_millis()
}

/// Whether this process was started with a signal ignored, as by nohup(1).
pub fn is_ignored(signal: libc::c_int) -> bool {
    super::status_mask("SigIgn:").is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGUSR2;

    use super::*;

    /// If the second one counted, it would end the tests.
    #[test]
    fn a_signal_that_comes_twice_at_once_is_one() {
        let stop = Arc::<AtomicBool>::default();
        catch(&[SIGUSR2], &stop).unwrap();
        assert!(!stop.load(Ordering::Relaxed));
        low_level::raise(SIGUSR2).unwrap();
        low_level::raise(SIGUSR2).unwrap();
        assert!(stop.load(Ordering::Relaxed));
    }

    #[test]
    fn a_signal_half_a_second_later_does_not_wait() {
        assert!(!is_again(NEVER, 10_000), "the first one");
        assert!(!is_again(10_000, 10_499) && is_again(10_000, 10_500));
    }
}
