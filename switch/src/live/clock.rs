//! A clock for devices that share one thread: wall-clock time, less the time in which the machine did not run them.
//!
//! If one loop moves frames through several devices, a machine that is busy otherwise stops them all, and the cables
//! between them too. Their clock stops with them: it is wall-clock time as long as events are handled within
//! [`LATE_MAX`], and skips any further delay. The skipped time is counted and reported, and so is the lateness of
//! events, which does affect the devices.
//!
//! It can run slower than wall-clock time by an integer factor: links, timers and pauses of every device are then
//! slower by that factor, and their behaviour is the same (time dilation, as in `lab::theory`).

use std::thread;
use std::time::{Duration, Instant};

use wireyard_tables::time::{Span, Time};

use crate::ports::sys::poll;

/// How late an event may be handled, in wall-clock time, before the clock stops for it.
pub const LATE_MAX: Duration = Duration::from_micros(200);

/// Parts of an octave in which lateness is counted: a percentile has a resolution of a quarter.
const PARTS: usize = 4;

/// The clock.
#[derive(Debug)]
pub struct DeviceClock {
    began: Instant,
    /// The thread's waiting time for a processor before.
    waited: Duration,
    /// Wall-clock seconds per second of the devices.
    dilation: u64,
    now: Time,
    lost: Duration,
    stalls: u64,
    longest: Duration,
    lateness: Lateness,
}

/// Distribution of the lateness of steps, in wall-clock time.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Steps by the octave of their nanoseconds, and the part of it.
    counts: [u64; PARTS * 64],
    /// Steps.
    pub steps: u64,
    /// Sum of how late they were.
    pub total: Duration,
    /// The latest.
    pub longest: Duration,
}

impl Lateness {
    fn new() -> Lateness {
        let (total, longest) = (Duration::ZERO, Duration::ZERO);
        Lateness { counts: [0; PARTS * 64], steps: 0, total, longest }
    }

    fn count(&mut self, late: Duration) {
        let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX).max(PARTS as u64);
        let octave = ns.ilog2() as usize;
        let part = (ns >> (octave - 2)) as usize % PARTS;
        self.counts[octave * PARTS + part] += 1;
        self.steps += 1;
        self.total += late;
        self.longest = self.longest.max(late);
    }

    /// Mean of all steps; zero of none.
    pub fn mean(&self) -> Duration {
        self.total.div_f64((self.steps as f64).max(1.0))
    }

    /// The lateness that `percent` of the steps do not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        let wanted = self.steps as f64 * percent / 100.0;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen as f64 >= wanted {
                let (octave, part) = (index / PARTS, index % PARTS);
                let end = ((PARTS + part + 1) as f64) * 2f64.powi(octave as i32 - 2);
                return Duration::from_nanos(end as u64).min(self.longest);
            }
        }
        self.longest
    }
}

/// Time that a clock skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Wall-clock time since the clock was started.
    pub real: Duration,
    /// The part of it that the clock skipped.
    pub lost: Duration,
    /// In how many pieces.
    pub count: u64,
    /// The longest of them.
    pub longest: Duration,
    /// Time for which the thread was ready to run and something else ran.
    pub waited: Duration,
}

/// Time for which this thread was ready and had no processor (proc(5), `schedstat`); zero where the kernel does not
/// count it.
fn waited_for_a_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

impl DeviceClock {
    /// A clock that starts at zero, and takes `dilation` wall-clock seconds for one of its own.
    pub fn start(dilation: u64) -> DeviceClock {
        // If it is refused, everything is a little later, which is counted.
        poll::wake_in_time();
        DeviceClock {
            began: Instant::now(),
            waited: waited_for_a_processor(),
            dilation: dilation.max(1),
            now: Time::ZERO,
            lost: Duration::ZERO,
            stalls: 0,
            longest: Duration::ZERO,
            lateness: Lateness::new(),
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

    /// Waits until `at`; returns the time then, never earlier than before and never later than [`LATE_MAX`] in
    /// wall-clock time after `at`, or the time of the last step.
    pub fn reach(&mut self, at: Time) -> Time {
        let due = self.day_of(at);
        let mut passed = self.began.elapsed();
        if let Some(early) = due.checked_sub(passed).filter(|early| !early.is_zero()) {
            thread::sleep(early);
            passed = self.began.elapsed();
        }
        let late = passed.saturating_sub(due);
        self.lateness.count(late);
        let least = self.now.max(at);
        if late <= LATE_MAX {
            self.now = least.max(at + self.own(late));
            return self.now;
        }
        self.now = least;
        let over = passed.saturating_sub(self.day_of(least));
        if !over.is_zero() {
            self.lost += over;
            self.stalls += 1;
            self.longest = self.longest.max(over);
        }
        self.now
    }

    /// The wall-clock time since the start at which the clock reaches `at`, if it skips nothing more.
    fn day_of(&self, at: Time) -> Duration {
        let ns = u128::from(at.as_ps()) * u128::from(self.dilation) / 1000;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)) + self.lost
    }

    /// A wall-clock span as the devices' time.
    pub fn own(&self, span: Duration) -> Span {
        let ps = span.as_nanos() * 1000 / u128::from(self.dilation);
        Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Advances by this step, or a little more.
    pub fn step(&mut self, step: Span) -> Time {
        self.reach(self.now + step)
    }

    /// The time skipped so far.
    pub fn stalls(&self) -> Stalls {
        Stalls {
            real: self.real(),
            lost: self.lost,
            count: self.stalls,
            longest: self.longest,
            waited: waited_for_a_processor().saturating_sub(self.waited),
        }
    }

    /// Lateness of the steps so far.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_us(50);

    #[test]
    fn steps_are_never_ahead_of_the_day_nor_far_behind_it() {
        for dilation in [1, 7] {
            let mut clock = DeviceClock::start(dilation);
            for _ in 0..50 {
                let at = clock.now() + STEP;
                let now = clock.step(STEP);
                assert!(now >= at && now <= at + clock.own(LATE_MAX), "{at} {now}");
                assert!(clock.day_of(now) <= clock.real());
            }
            let lateness = clock.lateness();
            assert_eq!(lateness.steps, 50);
            assert!(lateness.mean() <= lateness.longest);
        }
        let thousand = DeviceClock::start(1000);
        assert_eq!(thousand.day_of(Time::from_ns(3)), Duration::from_micros(3));
        assert_eq!(thousand.own(Duration::from_micros(3)), Span::from_ns(3));
    }

    #[test]
    fn what_was_due_earlier_is_served_now() {
        let mut clock = DeviceClock::start(1);
        let now = clock.step(STEP);
        assert!(clock.reach(Time::ZERO) >= now);
        assert_eq!(clock.lateness().steps, 2);
    }

    #[test]
    fn a_stall_is_taken_out_and_reported() {
        let mut clock = DeviceClock::start(1);
        clock.step(STEP);
        thread::sleep(Duration::from_millis(30));
        let before = clock.now();
        let served = Instant::now();
        let now = clock.step(STEP);
        let stalls = clock.stalls();
        assert_eq!(now.since(before), STEP);
        assert!(stalls.count >= 1 && stalls.lost >= Duration::from_millis(25), "{stalls:?}");
        assert!(stalls.longest <= stalls.lost && stalls.lost <= stalls.real, "{stalls:?}");
        assert!(clock.lateness().longest >= Duration::from_millis(25));
        // An older instant of the same stall is not skipped again, except for the time lost on a busy machine since.
        clock.reach(before);
        assert!(clock.stalls().lost <= stalls.lost + served.elapsed(), "{:?}", clock.stalls());
    }

    #[test]
    fn percentiles_of_lateness_are_right_to_a_quarter() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.percentile(99.0), Duration::ZERO);
        (1..=1000).for_each(|us| lateness.count(Duration::from_micros(us)));
        for (percent, us) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0)] {
            let found = lateness.percentile(percent).as_secs_f64() * 1e6;
            assert!((us..=us * 1.25).contains(&found), "{percent} %: {found}");
        }
        lateness.count(Duration::from_secs(60));
        assert_eq!(lateness.percentile(100.0), Duration::from_secs(60));
        assert_eq!(lateness.mean().as_micros(), (500_500 + 60_000_000) / 1001);
    }
}
