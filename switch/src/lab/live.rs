//! A lab in real time: the same scenario and the same devices, with a virtual cable of the kernel for every link.
//!
//! The devices' clock is that of the day, slowed by a whole factor (`live::clock`), so that the packets of a link of
//! 100 Gbit/s come as slowly as this machine can carry them. Everything in a device has its time from that clock, so rates
//! are divided and times multiplied alike: the dilation that changes no probability and no queue. Devices think in the
//! scenario's own time, which is why a report of a live run needs no scaling to be compared with one in virtual time.
//!
//! An event is served when the day has come so far, or a little later, and the device sees how late it is; it gets frames when
//! the kernel has delivered them. That is the scheduling error, which is measured and reported. Only where the machine does not
//! run the process at all for longer than `live::clock::LATE_MAX` the clock stands still, and the report says for how long.
//!
//! * [`load`]: what a scenario asks of the machine, and the factor that follows.
//! * `reported`: what the report says of it.
//! * [`against`]: a live run held against a virtual one.

pub mod against;
pub mod load;
mod reported;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Span;

use super::build::Options;
use super::cable::{Cable, Cabling};
use super::engine::{Lab, Outcome, Pulse};
use super::error::LabError;
use super::results::{self, About};
use super::scenario::{Expect, Scenario, Transport};
use super::snapshot::Snapshot;
use super::sweep::Run;
use crate::live::clock::{DeviceClock, LATE_MAX, Lateness, Stalls};
use crate::live::private;

/// Links that are laid as cables at most: each takes four sockets and their buffers.
pub const LINKS_MAX: usize = 64;
/// Time of day after which a frame that is late is looked for again.
const LOOK: Span = Span::from_us(20);
/// Looks for what is still in the kernel at the end, one every millisecond.
const LAST_LOOKS: u32 = 500;
/// Figures that differ from run to run where time is real.
const ONLY_VIRTUAL: [&str; 1] = ["run.events"];

/// How a live run went, beside its measurements.
#[derive(Clone, Debug)]
pub struct Live {
    /// Seconds of the day for a second of the scenario.
    pub dilation: u64,
    /// Time of day, and what of it the devices did not see.
    pub stalls: Stalls,
    /// How late events were served.
    pub lateness: Lateness,
    /// What the cables carried, summed over both directions of all of them.
    pub cables: super::cable::CableCounters,
    /// Number of cables.
    pub cable_count: usize,
    /// The lab at the end.
    pub end: Snapshot,
}

/// What of a scenario cannot be on interfaces of the kernel.
///
/// # Errors
/// What, and what to do.
pub fn check(scenario: &Scenario) -> Result<(), LabError> {
    let links = scenario.fabric.links.len();
    if scenario.host.transport == Transport::Infiniband {
        return Err(LabError::LiveInfiniband);
    }
    if links > LINKS_MAX {
        return Err(LabError::LiveLinks { links, most: LINKS_MAX });
    }
    Ok(())
}

/// The scenario without the expectations that only virtual time can keep, and those.
fn split(scenario: &Scenario) -> (Arc<Scenario>, Vec<Expect>) {
    let mut kept = scenario.clone();
    let is_virtual = |expect: &Expect| ONLY_VIRTUAL.contains(&expect.figure.as_str());
    let (left_out, expect) = kept.expect.into_iter().partition(is_virtual);
    kept.expect = expect;
    (Arc::new(kept), left_out)
}

/// How a live run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seconds of the day for a second of the scenario.
    pub dilation: u64,
    /// It ends after so much time of the day, even where the scenario would go on.
    pub most: Option<Duration>,
}

/// Runs a scenario in real time. The process is in another network namespace from here on, which ends with it.
///
/// # Errors
/// What cannot be built, or is not allowed here.
pub fn run(
    scenario: &Scenario,
    options: Options,
    plan: Plan,
    about: &About,
    pulse: &mut dyn FnMut(Pulse, &mut Lab) -> bool,
) -> Result<(Run, Live), LabError> {
    check(scenario)?;
    private::enter("A live run")?;
    let look = Span::from_ps((LOOK.as_ps() / plan.dilation).max(1));
    let cabling = Cabling::lay(&scenario.fabric, look)?;
    let (kept, left_out) = split(scenario);
    let mut lab = Lab::over(kept, options, Some(&cabling))?;
    let (outcome, clock) = pace(&mut lab, plan, pulse);
    let stalls = clock.stalls();
    drain_cables(&cabling, &mut lab.mem);
    let mut live = Live {
        dilation: plan.dilation,
        stalls,
        lateness: clock.lateness().clone(),
        cables: Default::default(),
        cable_count: cabling.cables.len(),
        end: lab.snapshot(),
    };
    let directions = cabling.cables.iter().flat_map(|cable| [0, 1].map(|end| cable.counters(end)));
    directions.for_each(|direction| live.cables += direction);
    let mut report = results::report(&mut lab, &outcome, about);
    if !matches!(outcome, Outcome::Interrupted) {
        results::judge(&mut report, &lab).map_err(|wrong| LabError::no_figure(scenario, &wrong))?;
    }
    reported::fill(&mut report, &live, &left_out);
    let run = Run {
        seed: options.seed.unwrap_or(scenario.seed),
        outcome,
        // It is not run again: what the kernel did once it does not do twice.
        packet_trace: None,
        report,
        captures: lab.captures(),
        entries: lab.entries().to_vec(),
        foreign: super::foreign::files(&lab),
    };
    for core in &mut lab.cores {
        core.close();
    }
    Ok((run, live))
}

/// Lets the lab live until the scenario, or the time of day for it, is over.
fn pace(
    lab: &mut Lab,
    plan: Plan,
    pulse: &mut dyn FnMut(Pulse, &mut Lab) -> bool,
) -> (Outcome, DeviceClock) {
    let clock = RefCell::new(DeviceClock::start(plan.dilation));
    lab.checks.late_max = clock.borrow().own(LATE_MAX);
    let mut is_over = false;
    let outcome = lab.run_paced(&mut |at| clock.borrow_mut().reach(at), &mut |now, lab| {
        is_over = plan.most.is_some_and(|most| clock.borrow().real() >= most);
        !is_over && pulse(now, lab)
    });
    let outcome = if is_over { lab.finish(Outcome::Complete) } else { outcome };
    (outcome, clock.into_inner())
}

/// Takes what is still in the kernel off the cables; what does not come is lost.
fn drain_cables(cabling: &Cabling, mem: &mut PacketMemory) {
    for _ in 0..LAST_LOOKS {
        let rest =
            |cable: &Arc<Cable>| [0, 1].map(|end| cable.take_rest(end, mem)).iter().sum::<u64>();
        if cabling.cables.iter().map(rest).sum::<u64>() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for cable in &cabling.cables {
        [0, 1].into_iter().for_each(|end| cable.give_up(end));
    }
}
