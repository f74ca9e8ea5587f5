//! Second phase, the closed loop: senders with DCQCN share a bottleneck, as in the scenario, live.

use std::time::Duration;

use wireyard_tables::time::Span;

use super::setting::{DILATION, MEASURED_MIN};
use super::{DemoError, Options, Progress};
use crate::lab::build;
use crate::lab::engine::Outcome;
use crate::lab::live::{self, Live, Plan};
use crate::lab::results::About;
use crate::lab::scenario::{Expect, Scenario};
use crate::lab::sweep::Run;

/// Samples of the lab per wall-clock second, approximately.
const GLANCES_PER_SECOND: u64 = 10;

/// The results of the closed loop.
#[derive(Clone, Debug)]
pub struct Incast {
    /// The run, with its report.
    pub run: Run,
    /// The state of the machine, and of the lab at the end.
    pub live: Live,
    /// Expectations of its fixed point.
    pub expect: Vec<Expect>,
    /// Whether it was long enough to settle, by the devices' clock.
    pub is_judged: bool,
}

/// Runs it for this long in wall-clock time.
///
/// # Errors
/// A part that cannot be built or is not permitted.
pub(super) fn run(
    mut scenario: Scenario,
    options: &Options,
    most: Duration,
    progress: &mut dyn Progress,
) -> Result<Incast, DemoError> {
    let ps = most.as_nanos() * 1000 / u128::from(DILATION);
    scenario.duration = Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX));
    let expect = std::mem::take(&mut scenario.expect);
    let about = About {
        version: env!("WIREYARD_VERSION").to_owned(),
        engine: options.engine.name().to_owned(),
    };
    let samples = scenario.duration.as_ps() / scenario.sample.as_ps().max(1);
    let every = (samples / (most.as_secs().max(1) * GLANCES_PER_SECOND)).max(1);
    let (mut pulses, mut measured) = (0u64, Span::ZERO);
    let warm_up = scenario.warm_up;
    let (run, live) = live::run(
        &scenario,
        build::Options {
            engine: options.engine,
            seed: Some(options.seed),
            workers: 1,
            captures: false,
        },
        Plan { dilation: DILATION, most: Some(most) },
        &about,
        &mut |pulse, lab| {
            pulses += 1;
            measured = Span::from_ps(pulse.now.as_ps().saturating_sub(warm_up.as_ps()));
            if pulses.is_multiple_of(every) {
                progress
                    .incast(&lab.snapshot(), pulse.now.as_ps() as f64 / pulse.end.as_ps() as f64);
            }
            !progress.is_stopped()
        },
    )?;
    let is_judged = measured >= MEASURED_MIN && run.outcome != Outcome::Interrupted;
    Ok(Incast { run, live, expect, is_judged })
}
