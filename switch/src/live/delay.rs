//! How late this machine schedules a process that is ready: the delay that a live switch assumes of a process at the
//! other end of a link.
//!
//! A switch that is a process reads a pause when the system schedules it next, and its own receive ring fills while it
//! is not scheduled. Both take milliseconds, whereas hardware responds in microseconds. The delay is measured briefly
//! at the start, and is at least [`PROCESS_DELAY`], because a machine that is idle now may be busy later.

use std::thread;
use std::time::{Duration, Instant};

use wireyard_tables::time::Span;

use crate::config::qos::PROCESS_DELAY;

/// Largest assumed delay: a slower machine cannot be lossless this way.
pub const MOST: Span = Span::from_ms(50);
/// Length of the measurement, and of each sleep.
const MEASURED: Duration = Duration::from_millis(30);
const SLEEP: Duration = Duration::from_micros(200);

/// The delay of a process on this machine: twice the largest that was just measured, between [`PROCESS_DELAY`] and
/// [`MOST`].
pub fn of_a_process() -> Span {
    let began = Instant::now();
    let mut latest = Duration::ZERO;
    while began.elapsed() < MEASURED {
        let before = Instant::now();
        thread::sleep(SLEEP);
        latest = latest.max(before.elapsed().saturating_sub(SLEEP));
    }
    assumed(latest)
}

fn assumed(latest: Duration) -> Span {
    let whole_ms = (2 * latest.min(Duration::from_secs(1))).as_micros().div_ceil(1000);
    Span::from_ms(u64::try_from(whole_ms).unwrap_or(0)).clamp(PROCESS_DELAY, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assumed_is_bounded_and_in_whole_milliseconds() {
        assert_eq!(assumed(Duration::ZERO), PROCESS_DELAY);
        assert_eq!(assumed(Duration::from_micros(3_200)), Span::from_ms(7));
        assert_eq!(assumed(Duration::from_secs(10)), MOST);
        assert!((PROCESS_DELAY..=MOST).contains(&of_a_process()));
    }
}
