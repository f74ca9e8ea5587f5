//! The demonstration: an incast on a lossless switch, on real interfaces, measured and judged.
//!
//! ```text
//!  sender 1 ── veth ──┐
//!    ...              ├─ switch (programs/rocev2_lossless) ── veth ── receiver
//!  sender 5 ── veth ──┘   bottleneck: buffer, PFC, ECN
//! ```
//!
//! Everything is in a separate network namespace, which ends with the process. Two phases: [`drain`] judges the marking
//! curve by depth, [`incast`] closes the DCQCN loop and measures where it settles: that is a scenario of the
//! laboratory, live ([`crate::lab::live`]). All devices are ordinary cores, on one thread and one clock
//! ([`crate::live::clock`]): on a machine that is busy otherwise, they all stop together, and the report has the length
//! of the stalls. [`setting`] describes the experiment, [`judge`] compares its results with theory, `pages` fills the
//! report; none of them decides how a device forwards.

mod cables;
mod devices;
pub mod drain;
mod error;
pub mod incast;
pub mod judge;
mod pages;
pub mod setting;
mod verdicts;

use std::time::Duration;

use crate::lab::snapshot::Snapshot;
use crate::program::EngineKind;
use crate::report::Report;
pub use error::DemoError;

/// Options of the demonstration.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time of day for all of it.
    pub duration: Duration,
    /// Seed of the marking.
    pub seed: u64,
    /// The engine.
    pub engine: EngineKind,
    /// The marking law that the switch is judged by.
    pub law: judge::Law,
}

impl Default for Options {
    /// 35 seconds, and the configured law.
    fn default() -> Options {
        Options {
            duration: Duration::from_secs(35),
            seed: 1,
            engine: EngineKind::Auto,
            law: setting::LAW,
        }
    }
}

/// Part of the time for the open loop, at most.
const DRAIN_PART: f64 = 0.4;

/// Receives the progress.
pub trait Progress {
    /// Called at the start of a step that takes a moment.
    fn begins(&mut self, what: &str);
    /// The open loop, and the part of its time that is over.
    fn drained(&mut self, so_far: &drain::Drained, part: f64);
    /// The incast, and the part of its time that is over.
    fn incast(&mut self, so_far: &Snapshot, part: f64);
    /// True if the demonstration must stop.
    fn is_stopped(&self) -> bool;
}

/// Runs it. The process is in another network namespace from here on.
///
/// # Errors
/// An operation that this system does not permit.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report, DemoError> {
    let scenario = setting::scenario()?;
    progress.begins("a private network namespace, cables, two programs");
    cables::lay()?;
    progress.begins("open loop: filled queues drain");
    let drained = drain::run(&scenario, options, options.duration.mul_f64(DRAIN_PART), progress)?;
    progress.begins("closed loop: DCQCN incast");
    let rest = options.duration.saturating_sub(drained.stalls.real);
    let incast = incast::run(scenario, options, rest, progress)?;
    Ok(pages::report(options, &drained, &incast))
}
