//! A lab in real time: the same scenario and the same devices, with a virtual cable of the kernel for every link.
//!
//! The devices' clock is wall-clock time, slowed by an integer factor (`live::clock`), so that the packets of a link of
//! 100 Gbit/s come as slowly as this machine can process them. Everything in a device has its time from that clock, so
//! rates are divided and times multiplied by the same factor: a dilation that changes no probability and no queue.
//! Devices use the scenario's own time, so a report of a live run needs no scaling to be compared with one in virtual
//! time.
//!
//! An event is handled at its wall-clock time or a little later, and the device gets the actual time; it gets frames
//! when the kernel has delivered them. That is the scheduling error, which is measured and reported. Only if the
//! machine does not schedule the process at all for longer than `live::clock::LATE_MAX` the clock stops, and the report
//! has the length of the stop.
//!
//! * [`load`]: the load of a scenario on the machine, and the factor that follows.
//! * `reported`: the additions to the report.
//! * [`against`]: a live run compared with a virtual one.

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

/// Most links that are laid as cables: each takes four sockets and their buffers.
pub const LINKS_MAX: usize = 64;
/// Wall-clock time after which a late frame is polled for again.
const LOOK: Span = Span::from_us(20);
/// Polls for frames that are still in the kernel at the end, one every millisecond.
const LAST_LOOKS: u32 = 500;
/// Figures that differ from run to run where time is real.
const ONLY_VIRTUAL: [&str; 1] = ["run.events"];

/// The conduct of a live run, beside its measurements.
#[derive(Clone, Debug)]
pub struct Live {
    /// Wall-clock seconds for a second of the scenario.
    pub dilation: u64,
    /// Wall-clock time, and the part of it that the devices' clock skipped.
    pub stalls: Stalls,
    /// Lateness of events.
    pub lateness: Lateness,
    /// What the cables carried, summed over both directions of all of them.
    pub cables: super::cable::CableCounters,
    /// Number of cables.
    pub cable_count: usize,
    /// The lab at the end.
    pub end: Snapshot,
}

/// Checks that a scenario can run on interfaces of the kernel.
///
/// # Errors
/// The obstacle, with a remedy.
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

/// The scenario without the expectations that only virtual time can keep, and these expectations.
fn split(scenario: &Scenario) -> (Arc<Scenario>, Vec<Expect>) {
    let mut kept = scenario.clone();
    let is_virtual = |expect: &Expect| ONLY_VIRTUAL.contains(&expect.figure.as_str());
    let (left_out, expect) = kept.expect.into_iter().partition(is_virtual);
    kept.expect = expect;
    (Arc::new(kept), left_out)
}

/// Parameters of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Wall-clock seconds for a second of the scenario.
    pub dilation: u64,
    /// Wall-clock time after which it ends, even if the scenario would continue.
    pub most: Option<Duration>,
}

/// Runs a scenario in real time. The process is in another network namespace from here on, which ends with it.
///
/// # Errors
/// A part that cannot be built, or is not permitted here.
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
        results::judge_run(&mut report, &lab);
    }
    reported::fill(&mut report, &live, &left_out);
    let run = Run {
        seed: options.seed.unwrap_or(scenario.seed),
        outcome,
        // It is not run again: the kernel's timing is not reproducible.
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

/// Runs the lab until the scenario, or its wall-clock time, is over.
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

/// Takes the frames that are still in the kernel off the cables; a missing one counts as lost.
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
