//! `demo`: the demonstration, with its progress on a terminal and its report in a file.

use std::io::IsTerminal;
use std::time::Duration;

use super::args::DemoArgs;
use super::{Failure, Status, ended, output, print, print_json, say};
use crate::demo::drain::Drained;
use crate::demo::judge::RAMP_BUCKETS;
use crate::demo::{self, Options, Progress};
use crate::lab::snapshot::Snapshot;
use crate::live::Signals;
use crate::output_file;
use crate::report::{Unit, html, json, text};
use crate::terminal::styled;
use wireyard_pipeline::diag::safe::shown;

/// Width of the bar.
const BAR: usize = 24;
/// Interval between two lines without a terminal, as a part of a phase.
const QUIET_PART: f64 = 0.25;

/// Progress on standard error: one line that changes on a terminal, a few lines elsewhere.
struct ProgressLine {
    signals: Signals,
    is_terminal: bool,
    /// The line has text.
    is_open: bool,
    phase: String,
    reported_part: f64,
}

impl ProgressLine {
    fn line(&mut self, part: f64, rest: &str) {
        let part = part.clamp(0.0, 1.0);
        if self.is_terminal {
            let done = (part * BAR as f64) as usize;
            let bar = format!("{}{}", "#".repeat(done), ".".repeat(BAR - done));
            styled(&format!("\r\x1b[K{} [{bar}] {rest}", self.phase));
            self.is_open = true;
        } else if part >= self.reported_part + QUIET_PART {
            self.reported_part = part;
            say(&format!("{}: {rest}", self.phase));
        }
    }

    fn close(&mut self) {
        if self.is_open {
            styled("\n");
            self.is_open = false;
        }
    }
}

impl Progress for ProgressLine {
    fn begins(&mut self, what: &str) {
        self.close();
        self.reported_part = 0.0;
        what.clone_into(&mut self.phase);
        if !self.is_terminal {
            say(what);
        }
    }

    fn drained(&mut self, so_far: &Drained, part: f64) {
        let (packets, marks) = so_far.tally.totals();
        let ready = so_far.tally.ramp().iter().filter(|b| b.marked >= demo::judge::MARKS_MIN);
        let ready = ready.count();
        self.line(
            part,
            &format!("{packets} packets, {marks} marks, {ready} of {RAMP_BUCKETS} depths"),
        );
    }

    fn incast(&mut self, so_far: &Snapshot, part: f64) {
        let line = format!(
            "queue {:>8}, allowed {:>12}, marks {}, CNPs {}, XOFFs {}, drops {}",
            Unit::Bytes.show(so_far.queue.get() as f64),
            Unit::BitRate.show(so_far.rate_bps),
            so_far.marked,
            so_far.cnps,
            so_far.xoffs,
            so_far.dropped
        );
        self.line(part, &line);
    }

    fn is_stopped(&self) -> bool {
        self.signals.is_stopped()
    }
}

pub(super) fn run(args: &DemoArgs) -> Status {
    ended(start(args))
}

fn start(args: &DemoArgs) -> Result<Status, Failure> {
    let mut options = Options {
        duration: Duration::from_secs(args.seconds),
        seed: args.seed,
        engine: args.engine,
        ..Options::default()
    };
    if let Some(percent) = args.judge_pmax {
        options.law.pmax = percent / 100.0;
    }
    let is_file = !output::is_standard(&args.output);
    if is_file {
        output_file::check(&args.output).map_err(|error| error.to_string())?;
    } else if args.json {
        return Err("-o - and --json both go to standard output: name a file for the page".into());
    }
    let signals = Signals::catch(false).map_err(|error| format!("signals: {error}"))?;
    let mut progress = ProgressLine {
        signals,
        is_terminal: std::io::stderr().is_terminal(),
        is_open: false,
        phase: String::new(),
        reported_part: 0.0,
    };
    let result = demo::run(&options, &mut progress);
    progress.close();
    let report = result?;
    let page = html::page(&report);
    if is_file {
        output_file::write(&args.output, page.as_bytes(), &[])
            .map_err(|error| error.to_string())?;
        match args.json {
            true => print_json(&json::value(&report)),
            false => print(&text::summary(&report)),
        }
        say(&format!("{}; {} has the pictures", report.headline(), shown(&args.output)));
    } else {
        print(&page);
        say(&report.headline());
    }
    if progress.is_stopped() {
        say("stopped before its end: what was measured until then was judged");
    }
    Ok(if report.passed() { Status::Success } else { Status::Failed })
}
