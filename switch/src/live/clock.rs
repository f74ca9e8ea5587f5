//! A clock for devices that share one thread: the time of day, less the time in which the machine did not run them.
//!
//! Where one loop moves frames through several devices, a machine that is busy with something else stops them all, and the
//! cables between them too. Their clock stops with them: it follows the time of day in short steps, falls behind while
//! there is much to do, and gives up what it can no longer catch up with. What it gave up is counted and told.

use std::thread;
use std::time::{Duration, Instant};

use wireyard_tables::time::{Span, Time};

/// How far behind the time of day the clock may be before it gives the difference up.
const BEHIND_MAX: Duration = Duration::from_millis(2);

/// The clock.
#[derive(Debug)]
pub struct DeviceClock {
    began: Instant,
    /// Largest step.
    step: Span,
    now: Time,
    lost: Duration,
    stalls: u64,
    longest: Duration,
}

/// What a clock gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Time of day since the clock was started.
    pub real: Duration,
    /// Of it, the part that devices did not see.
    pub lost: Duration,
    /// In how many pieces.
    pub count: u64,
    /// The longest of them.
    pub longest: Duration,
}

impl DeviceClock {
    /// A clock that starts at zero and never goes on by more than `step` at once.
    pub fn start(step: Span) -> DeviceClock {
        DeviceClock {
            began: Instant::now(),
            step,
            now: Time::ZERO,
            lost: Duration::ZERO,
            stalls: 0,
            longest: Duration::ZERO,
        }
    }

    /// The time of the last step.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Time of day since the start.
    pub fn real(&self) -> Duration {
        self.began.elapsed()
    }

    /// Goes on by one step, and sleeps first where the time of day is not yet so far.
    pub fn step(&mut self) -> Time {
        let target = self.now + self.step;
        let early = (duration(target) + self.lost).saturating_sub(self.began.elapsed());
        if !early.is_zero() {
            thread::sleep(early);
        }
        let late = self.began.elapsed().saturating_sub(duration(target) + self.lost);
        if late > BEHIND_MAX {
            self.lost += late;
            self.stalls += 1;
            self.longest = self.longest.max(late);
        }
        self.now = target;
        target
    }

    /// What was given up so far.
    pub fn stalls(&self) -> Stalls {
        Stalls { real: self.real(), lost: self.lost, count: self.stalls, longest: self.longest }
    }
}

fn duration(at: Time) -> Duration {
    Duration::from_nanos(at.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_short_and_never_ahead_of_the_day() {
        let step = Span::from_us(50);
        let mut clock = DeviceClock::start(step);
        for _ in 0..200 {
            let before = clock.now();
            let now = clock.step();
            assert_eq!(now.since(before), step);
            assert!(duration(now) <= clock.real());
        }
        assert!(clock.now() > Time::ZERO);
    }

    #[test]
    fn a_stall_is_taken_out_and_told() {
        let mut clock = DeviceClock::start(Span::from_us(50));
        clock.step();
        thread::sleep(Duration::from_millis(30));
        let before = clock.now();
        let now = clock.step();
        let stalls = clock.stalls();
        assert_eq!(now.since(before), Span::from_us(50));
        assert!(stalls.count >= 1 && stalls.lost >= Duration::from_millis(25), "{stalls:?}");
        assert!(stalls.longest <= stalls.lost && stalls.lost <= stalls.real, "{stalls:?}");
    }
}
