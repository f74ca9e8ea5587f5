//! Progress of long operations on a terminal: position, speed, remaining time; and Ctrl-C.
//!
//! It is the only real clock beside a run in virtual time, and affects only whether the run continues.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use wireyard_tables::time::Time;

use crate::ports::sys::ending;

/// Time between two lines on a terminal, where each replaces the one before.
const EVERY: Duration = Duration::from_millis(500);
/// The same where lines stay: in a file, a pipe, the log of a service.
const EVERY_STAYING: Duration = Duration::from_secs(30);

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nowhere,
    Terminal,
    /// Standard error is no terminal.
    Staying,
}

/// Watches a run.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    shown_at: Instant,
    shown: Shown,
    stop: Arc<AtomicBool>,
}

/// The speed of `virtual_s` seconds of virtual time in `real_s` real ones, as text.
pub fn pace(virtual_s: f64, real_s: f64) -> String {
    let (slower, faster) = (real_s / virtual_s, virtual_s / real_s);
    match slower {
        1.0.. if slower.is_finite() => format!("{} times slower than real", two_digits(slower)),
        0.0..1.0 if faster.is_finite() => format!("{} times faster than real", two_digits(faster)),
        _ => "no time to compare".to_owned(),
    }
}

fn two_digits(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

fn ms(time: Time) -> f64 {
    time.as_ps() as f64 / 1e9
}

/// A run after `real_s` seconds: nothing is said of its speed before virtual time has passed.
fn run_text(now: Time, end: Time, real_s: f64) -> String {
    let (now_ms, end_ms) = (ms(now), ms(end));
    if now_ms == 0.0 {
        return format!("0.0 ms of {end_ms:.1} ms");
    }
    let share = now_ms / end_ms.max(f64::MIN_POSITIVE);
    format!(
        "{now_ms:.1} ms of {end_ms:.1} ms, {:.1} % | {} | {:.0} s left",
        share * 100.0,
        pace(now_ms / 1e3, real_s),
        (real_s / share - real_s).max(0.0),
    )
}

/// Runs beside each other after `seconds`, of which each has this share of its time behind it.
fn shares_text(shares: &[f64], seconds: f64) -> String {
    let done = shares.iter().filter(|share| **share >= 1.0).count();
    let (passed, count) = (shares.iter().sum::<f64>(), shares.len());
    let left = match passed > 0.0 {
        true => format!(" | {:.0} s left", seconds / passed * (count as f64 - passed)),
        false => String::new(),
    };
    format!("{done} of {count} runs, {:.1} %{left}", passed / count.max(1) as f64 * 100.0)
}

fn runs_text((before, done, count): (usize, usize, usize), seconds: f64) -> String {
    let share = done as f64 / count.max(1) as f64 * 100.0;
    let left = match done.saturating_sub(before) {
        0 => String::new(),
        ran => format!(" | {:.0} s left", seconds / ran as f64 * count.saturating_sub(done) as f64),
    };
    format!("{done} of {count} runs, {share:.0} %{left}")
}

impl Progress {
    /// Begins now. Lines are shown unless `quiet` is set: on a terminal one that changes, elsewhere one after another, seldom.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn start(quiet: bool) -> std::io::Result<Progress> {
        let stop = Arc::<AtomicBool>::default();
        ending::catch(&[SIGINT, SIGTERM], &stop)?;
        let now = Instant::now();
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nowhere,
            (false, true) => Shown::Terminal,
            (false, false) => Shown::Staying,
        };
        Ok(Progress { began: now, shown_at: now, shown, stop })
    }

    /// True when the user requested the end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag behind [`Progress::is_stopped`], for other threads.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Real time so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Virtual time is `now` of `end`; shows it at intervals. False when the user requested the end.
    pub fn pulse(&mut self, now: Time, end: Time) -> bool {
        if self.is_due() {
            self.say(&run_text(now, end, self.seconds()));
        }
        !self.is_stopped()
    }

    /// Runs beside each other, each with the share of its time that has passed; shows them at intervals. False when the user
    /// requested the end.
    pub fn pulse_all(&mut self, shares: &[f64]) -> bool {
        if self.is_due() {
            self.say(&shares_text(shares, self.seconds()));
        }
        !self.is_stopped()
    }

    /// True if a line is to be shown now.
    fn is_due(&mut self) -> bool {
        let every = match self.shown {
            Shown::Nowhere => return false,
            Shown::Terminal => EVERY,
            Shown::Staying => EVERY_STAYING,
        };
        let is_due = self.shown_at.elapsed() >= every;
        if is_due {
            self.shown_at = Instant::now();
        }
        is_due
    }

    /// `done` of `count` runs are over, `before` of them when this began.
    pub fn runs(&mut self, (before, done, count): (usize, usize, usize)) {
        if self.shown == Shown::Terminal || self.is_due() {
            self.say(&runs_text((before, done, count), self.seconds()));
        }
    }

    /// Another run begins: time counts from here.
    pub fn again(&mut self) {
        self.began = Instant::now();
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.shown == Shown::Terminal {
            self.write("\r\x1b[K");
        }
    }

    fn say(&self, line: &str) {
        match self.shown {
            Shown::Nowhere => (),
            Shown::Terminal => self.write(&format!("\r\x1b[K{line}")),
            Shown::Staying => self.write(&format!("{line}\n")),
        }
    }

    fn write(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        // A terminal that disappeared needs no progress.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that were done before took none of the time.
    #[test]
    fn the_time_left_is_that_of_the_runs_that_are_left() {
        assert_eq!(runs_text((4, 4, 14), 9.0), "4 of 14 runs, 29 %");
        assert_eq!(runs_text((4, 6, 14), 10.0), "6 of 14 runs, 43 % | 40 s left");
        assert_eq!(runs_text((0, 14, 14), 10.0), "14 of 14 runs, 100 % | 0 s left");
    }

    #[test]
    fn a_run_that_has_not_begun_has_no_speed() {
        let end = Time::from_ns(10_000_000);
        assert_eq!(run_text(Time::ZERO, end, 2.0), "0.0 ms of 10.0 ms");
        assert_eq!(
            run_text(Time::from_ns(2_500_000), end, 2.0),
            "2.5 ms of 10.0 ms, 25.0 % | 800 times slower than real | 6 s left"
        );
    }

    #[test]
    fn runs_beside_each_other_count_by_their_parts() {
        assert_eq!(shares_text(&[0.0, 0.0], 3.0), "0 of 2 runs, 0.0 %");
        assert_eq!(shares_text(&[1.0, 0.5, 0.0], 3.0), "1 of 3 runs, 50.0 % | 3 s left");
    }

    #[test]
    fn slow_is_said_to_be_slow_and_fast_to_be_fast() {
        assert_eq!(pace(0.130, 1.76), "14 times slower than real");
        assert_eq!(pace(1.0, 2.5), "2.5 times slower than real");
        assert_eq!(pace(130.0, 1.56), "83 times faster than real");
        assert_eq!(pace(1.0, 1.0), "1.0 times slower than real");
        for (virtual_s, real_s) in [(0.0, 1.0), (0.0, 0.0), (1.0, 0.0)] {
            assert_eq!(pace(virtual_s, real_s), "no time to compare");
        }
    }
}
