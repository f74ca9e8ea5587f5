//! The fluid model's prediction for the bottleneck, with the scenario's own numbers; or why there is none.

use wireyard_tables::time::Span;

use super::Window;
use super::capacity::{capacity, filled};
use super::crossing::{self, Crossing};
use crate::lab::host;
use crate::lab::sampler::QueueKey;
use crate::lab::scenario::{Fault, FaultKind};
use crate::lab::theory::domain::{self, Hyper};
use crate::lab::theory::mode::{Feedback, Mode, mode};
use crate::lab::theory::{FixedPoint, Loop, Notification, fixed_point, queue_at};
use crate::report::{Report, Unit};
use crate::roce::qp::Retransmission;
use crate::roce::rp::dcqcn::{ClampTarget, DcqcnParams, Law};
use crate::units::Probability;

/// Bytes of a CNP on the wire (IPv4, Ethernet).
const CNP_WIRE_BYTES: f64 = 98.0;

/// The fluid model's prediction for a bottleneck.
struct Fluid {
    point: FixedPoint,
    /// Mean depth, bytes.
    queue: f64,
    /// From a mark to the queue that it affects, seconds.
    delay_s: f64,
    mode: Option<Mode>,
}

/// The fixed point of the loop, and its oscillation around it; NaN, and the reason as a fact, if the model does not
/// apply.
pub(super) fn fill(
    report: &mut Report,
    window: &Window<'_>,
    (bottleneck, crossing): (Option<QueueKey>, &Crossing),
) {
    let found = match bottleneck {
        Some(key) => fluid(window, key, crossing),
        None => Err("no queue of a switch was in use".to_owned()),
    };
    if let Err(why) = &found {
        report.fact("theory", format!("none: {why}"));
    }
    let found = found.ok();
    let point = |of: fn(&Fluid) -> f64| found.as_ref().map_or(f64::NAN, of);
    report.figure("theory.marking_probability", point(|f| f.point.probability), Unit::Share);
    report.figure("theory.queue_mean", point(|f| f.queue), Unit::Bytes);
    report.figure("theory.alpha", point(|f| f.point.alpha), Unit::Plain);
    report.figure("theory.cnp_rate", point(|f| f.point.cnp_rate), Unit::PerSecond);
    report.figure("theory.loop_delay", point(|f| f.delay_s), Unit::Seconds);
    let mode = found.and_then(|fluid| fluid.mode);
    let of_mode = |value: fn(&Mode) -> f64| mode.as_ref().map_or(f64::NAN, value);
    report.figure("theory.oscillation", of_mode(|m| m.frequency_hz), Unit::Hertz);
    report.figure("theory.oscillation_growth", of_mode(|m| m.growth_per_s), Unit::PerSecond);
}

fn seconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e12
}

/// Frame in the queue, on the wire, and as counted by rate control, of a full data packet.
pub(super) fn packet_bytes(window: &Window<'_>) -> (f64, f64, f64) {
    let setup = &window.lab.scenario.host;
    // A selective sender's packets all have a RETH (16 bytes, IBTA 9.3.3).
    let reth = if setup.retransmission == Retransmission::GoBackN { 0.0 } else { 16.0 };
    let frame = setup.frame().get() as f64 + reth;
    // Check sequence, and preamble and gap, of Ethernet.
    let (check, gap) = if setup.is_infiniband() { (0.0, 0.0) } else { (4.0, 20.0) };
    (frame, frame + check + gap, frame + check)
}

/// Largest least rate, as a part of a flow's share, that does not hold the flow up: at 0.6 of the share of four flows on
/// 10 Gbit/s the queue is as deep as without one, at 0.84 it is 7 % deeper.
const MIN_RATE_SHARE: f64 = 0.5;

/// The conditions of the model outside of queue and rate control: whatever is sent arrives, may be marked, and is sent
/// when the rate says so.
fn undisturbed(window: &Window<'_>) -> Result<(), String> {
    let scenario = &window.lab.scenario;
    if !scenario.host.ecn {
        return Err("packets are sent without ECT (`ecn: false`), so that nothing is marked".into());
    }
    if scenario.host.outstanding.is_some() {
        return Err(
            "`outstanding` bounds the packets of a flow, the fluid model only its rate".into()
        );
    }
    let is_faulty = |link: &crate::lab::fabric::Link| {
        link.setup.loss != Probability::ZERO || link.setup.corruption != Probability::ZERO
    };
    if scenario.fabric.links.iter().any(is_faulty) {
        return Err(
            "links lose or corrupt packets, the fluid model has none that is sent again".into()
        );
    }
    let (from, to) = (window.lab.measured_from(), window.lab.measured_to());
    let disturbs = |fault: &&Fault| {
        !matches!(fault.kind, FaultKind::Thresholds(_))
            && fault.at < to
            && fault.until.is_none_or(|until| until > from)
    };
    if scenario.faults.iter().any(|fault| disturbs(&fault)) {
        return Err(
            "a fault happens while figures are taken, the fluid model is of a steady state".into(),
        );
    }
    Ok(())
}

fn fluid(window: &Window<'_>, key: QueueKey, of: &Crossing) -> Result<Fluid, String> {
    let scenario = &window.lab.scenario;
    let fabric = &scenario.fabric;
    let curve = window.lab.sampler.curve(key).ok_or("the bottleneck has no marking curve")?;
    let link = fabric.nodes[key.0].link(key.1).ok_or("the bottleneck has no link")?;
    let rate = fabric.links[link].setup.rate;
    if scenario.is_mixed() {
        return Err(
            "hosts or flows have settings of their own, the fluid model has equal flows".into()
        );
    }
    let control = host::rate_control(&scenario.host, rate);
    let (_, parameters) = control.map_err(|error| error.to_string())?;
    let parameters = parameters.ok_or("rate control is not DCQCN")?;
    undisturbed(window)?;
    let flows = of.steady(window)?;
    let capacity = capacity(window, key).ok_or("the bottleneck has no link")?;
    filled(window, &flows, capacity)?;
    crossing::only_here(window, key, &flows)?;
    let specs = flows.iter().map(|flow| &scenario.flows[*flow]);
    let first = specs.clone().find_map(|spec| fabric.way(spec.from, spec.to));
    let first = first.ok_or("no flow takes the bottleneck")?;
    let (notification, interval) = gate(&parameters, host::cnp_interval(&scenario.host, rate))?;
    let (frame, wire, counted) = packet_bytes(window);
    let of = Loop {
        capacity: capacity.get() as f64 / (8.0 * wire),
        flows: flows.len() as f64,
        notification,
        cnp_interval: seconds(interval),
        alpha_period: seconds(parameters.alpha_period),
        increase_period: seconds(parameters.increase_period),
        byte_counter: parameters.byte_counter_bytes.map_or(f64::INFINITY, |b| b as f64 / counted),
        stages: f64::from(recovery_stages(&parameters)),
        increase: parameters.additive_increase_bps / (8.0 * counted),
    };
    let point = fixed_point(&of).ok_or("the fluid model has no fixed point for these numbers")?;
    if parameters.min_decrease_factor > 1.0 - point.alpha / 2.0 {
        return Err(format!(
            "min_decrease_factor {} keeps a cut smaller than alpha / 2, {:.3}, which the fluid model has",
            parameters.min_decrease_factor,
            point.alpha / 2.0
        ));
    }
    let share = of.capacity / of.flows;
    if parameters.min_rate_bps / (8.0 * counted) > MIN_RATE_SHARE * share {
        return Err("min_rate_bps is close to a flow's share or above it, and the fluid model has no least rate".into());
    }
    let line = parameters.line_rate_bps / (8.0 * counted);
    if let Some(outside) = domain::outside(&of, &point, hyper(&parameters), line) {
        return Err(outside.to_string());
    }
    let (kmin, kmax, pmax) = (curve.0 as f64, curve.1 as f64, curve.2);
    // One round of the loop: the path of the data and the return path of the notification.
    let hop = |&link: &usize| {
        let setup = &fabric.links[link].setup;
        let bits = 8.0 * (wire + CNP_WIRE_BYTES);
        2.0 * seconds(setup.delay) + bits / setup.rate.get() as f64
    };
    let delay_s = first.iter().map(hop).sum();
    let slope_per_packet = pmax * frame / (kmax - kmin);
    let feedback = Feedback { delay_s, gain: parameters.g, slope_per_packet };
    // Beyond the curve's end there is a step, so the model cannot be linearised.
    let mode = if point.probability < pmax { mode(&of, &feedback) } else { None };
    Ok(Fluid { point, queue: queue_at(point.probability, (kmin, kmax, pmax)), delay_s, mode })
}

/// How marks become cuts of this reaction point, given a notification point with this interval.
fn gate(parameters: &DcqcnParams, interval: Span) -> Result<(Notification, Span), String> {
    if parameters.clamp_target != ClampTarget::Always {
        return Err("the target rate is not clamped at every cut, as the fluid model has it".into());
    }
    match parameters.law {
        // HPCC sends a CNP for every mark and checks once per period whether there was one.
        Law::Sampled if interval < parameters.decrease_period => {
            Ok((Notification::Polled, parameters.decrease_period))
        }
        Law::Sampled => {
            Err("CNPs are paced twice, by the notification and the reaction point".into())
        }
        Law::Paper | Law::Ns3Rdma if interval == Span::ZERO => {
            Err("every mark is answered, the fluid model has an interval between CNPs".into())
        }
        Law::Paper | Law::Ns3Rdma => Ok((Notification::FirstMark, interval)),
    }
}

/// Stages before the first additive step. SIGCOMM 2015 recovers while max(T, BC) < F, so its stage F is additive
/// already; HPCC compares before it counts, uet-htsim with `<=`.
fn recovery_stages(parameters: &DcqcnParams) -> u32 {
    let is_late = parameters.law == Law::Sampled || parameters.fast_recovery_inclusive;
    let stages = parameters.fast_recovery_stages;
    if is_late { stages } else { stages.saturating_sub(1) }
}

/// When this reaction point begins hyper increase.
fn hyper(parameters: &DcqcnParams) -> Hyper {
    if parameters.hyper_increase_bps == parameters.additive_increase_bps {
        return Hyper::Never;
    }
    match (parameters.law, parameters.byte_counter_bytes) {
        (Law::Sampled, None) => Hyper::Timer,
        (_, None) => Hyper::Never,
        (_, Some(_)) => Hyper::TimerAndBytes,
    }
}
