//! Progress of long operations on a terminal: position, speed, remaining time; and Ctrl-C.
//!
//! It is the only real clock beside a run in virtual time, and affects only whether the run continues.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use wireyard_tables::time::Time;

/// Time between two lines.
const EVERY: Duration = Duration::from_millis(500);

/// Watches a run.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    shown_at: Instant,
    is_shown: bool,
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

fn runs_text((before, done, count): (usize, usize, usize), seconds: f64) -> String {
    let share = done as f64 / count.max(1) as f64 * 100.0;
    let left = match done.saturating_sub(before) {
        0 => String::new(),
        ran => format!(" | {:.0} s left", seconds / ran as f64 * count.saturating_sub(done) as f64),
    };
    format!("{done} of {count} runs, {share:.0} %{left}")
}

impl Progress {
    /// Begins now. Lines are shown only on a terminal, unless `quiet` is set.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn start(quiet: bool) -> std::io::Result<Progress> {
        let stop = Arc::<AtomicBool>::default();
        for signal in [SIGINT, SIGTERM] {
            // A second one ends the process at once.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        let now = Instant::now();
        let is_shown = !quiet && std::io::stderr().is_terminal();
        Ok(Progress { began: now, shown_at: now, is_shown, stop })
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
        if self.is_shown && self.shown_at.elapsed() >= EVERY {
            self.shown_at = Instant::now();
            let (virtual_s, real_s) = (now.as_ps() as f64 / 1e12, self.seconds());
            let share = virtual_s / (end.as_ps() as f64 / 1e12).max(f64::MIN_POSITIVE);
            let left = if share > 0.0 { real_s / share - real_s } else { f64::NAN };
            let text = format!(
                "\r\x1b[K{:.1} ms of {:.1} ms, {:.1} % | {} | {left:.0} s left",
                virtual_s * 1e3,
                end.as_ps() as f64 / 1e9,
                share * 100.0,
                pace(virtual_s, real_s),
            );
            self.say(&text);
        }
        !self.is_stopped()
    }

    /// `done` of `count` runs are over, `before` of them when this began.
    pub fn runs(&mut self, (before, done, count): (usize, usize, usize)) {
        if self.is_shown {
            let text = runs_text((before, done, count), self.seconds());
            self.say(&format!("\r\x1b[K{text}"));
        }
    }

    /// Another run begins: time counts from here.
    pub fn again(&mut self) {
        self.began = Instant::now();
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.is_shown {
            self.say("\r\x1b[K");
        }
    }

    fn say(&self, text: &str) {
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
