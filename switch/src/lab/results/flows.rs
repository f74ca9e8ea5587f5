//! Flows: completion times, throughput, fairness, as a table and figures.

use std::collections::{BTreeMap, BTreeSet};

use super::crossing::Crossing;
use super::estimates::{self, Estimates};
use super::{Window, flow_plots};
use crate::lab::checks::flow_name;
use crate::lab::host::FlowStatus;
use crate::lab::ideal_completion::least_time;
use crate::lab::sampler::{FLOW_SERIES_MAX, QueueKey};
use crate::lab::scenario::{FlowSpec, HostSetup, Scenario};
use crate::report::{Cell, Column, Report, Table, Unit, stats};
use crate::roce::verbs::Status;

/// Part of a flow's time spent waiting for its window from which on it is reported.
const WAITED_SHOWN: f64 = 0.05;

/// A flow with its measurements after the warm-up.
pub(super) struct Measured<'a> {
    pub(super) name: String,
    pub(super) spec: &'a FlowSpec,
    pub(super) now: FlowStatus,
    base: FlowStatus,
    /// Completion time of a finished flow, or mean of its rounds.
    pub(super) completion: Option<f64>,
    /// Ratio of that to the time on an empty network.
    pub(super) slowdown: Option<f64>,
    /// Seconds from its start to its end, after the warm-up.
    active_s: f64,
    /// Bits per second in that time; NaN without such time.
    throughput: f64,
}

pub(super) fn fill(
    report: &mut Report,
    window: &Window<'_>,
    at_bottleneck: (Option<QueueKey>, &Crossing),
) {
    let flows = measured(window);
    let estimates = Estimates::new(&window.lab.scenario);
    table(report, &flows, &estimates);
    figures(report, window, &flows);
    windows(report, &flows);
    failures(report, &flows);
    super::bins::fill(report, window, &flows);
    flow_plots::fill(report, window, (&flows, &estimates), at_bottleneck);
    estimates::fill(report, window, &flows, &estimates);
    super::sharing::fill(report, window, &flows);
}

fn measured<'a>(window: &Window<'a>) -> Vec<Measured<'a>> {
    let scenario = &window.lab.scenario;
    let balances = window.lab.balances();
    let of = |(number, (spec, now)): (usize, (&'a FlowSpec, &FlowStatus))| {
        let base = window.lab.sampler.flow_base.get(number).copied().unwrap_or_default();
        let completion = match (now.started, now.finished) {
            (Some(_), Some(_)) if spec.rounds > 1 => {
                Some(now.total.as_ps() as f64 / 1e12 / now.completed as f64)
            }
            (Some(started), Some(finished)) => Some(finished.since(started).as_ps() as f64 / 1e12),
            _ => None,
        };
        let best = spec.size.and_then(|_| least_time(scenario, spec, balances));
        let best = best.map(|span| span.as_ps() as f64 / 1e12);
        let bytes = now.delivered_bytes - base.delivered_bytes;
        Measured {
            name: flow_name(&scenario.fabric, spec.from, spec.to, number),
            spec,
            now: *now,
            base,
            completion,
            slowdown: completion.zip(best).map(|(took, best)| took / best),
            active_s: active_s(window, now),
            throughput: per_second(bytes as f64 * 8.0, active_s(window, now)),
        }
    };
    scenario.flows.iter().zip(&window.lab.last).enumerate().map(of).collect()
}

/// How long a flow was in progress after the warm-up, in seconds.
pub(super) fn active_s(window: &Window<'_>, flow: &FlowStatus) -> f64 {
    let (begin, end) = (window.lab.measured_from(), window.lab.now());
    let Some(started) = flow.started else { return 0.0 };
    let active = flow.ended().unwrap_or(end).min(end).since(started.max(begin));
    active.as_ps() as f64 / 1e12
}

/// How long there were flows after the warm-up, in seconds: from the start of the first one to the end of the last one, or of
/// the run.
pub(super) fn all_active_s(window: &Window<'_>) -> f64 {
    let (flows, begin) = (&window.lab.last, window.lab.measured_from());
    let first = flows.iter().filter_map(|flow| flow.started).min().unwrap_or(begin);
    let active = window.lab.measured_to().since(first.max(begin));
    active.as_ps() as f64 / 1e12
}

/// Part of its time after the warm-up in which a flow had nothing to send because its window of messages was full; NaN
/// if it was not in progress.
fn waited(now: &FlowStatus, base: &FlowStatus, active_s: f64) -> f64 {
    let waited = now.waited.as_ps().saturating_sub(base.waited.as_ps());
    per_second(waited as f64 / 1e12, active_s)
}

/// Whether the window limits a flow.
pub(super) fn is_limited(window: &Window<'_>, flow: usize) -> bool {
    let base = window.lab.sampler.flow_base.get(flow).copied().unwrap_or_default();
    let now = &window.lab.last[flow];
    waited(now, &base, active_s(window, now)) >= WAITED_SHOWN
}

fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { f64::NAN }
}

fn table(report: &mut Report, flows: &[Measured<'_>], estimates: &Estimates) {
    let mut table = Table::new(
        "Flows",
        "What came after the warm-up. Throughput is payload from a flow's start to its end. Completion is the mean of a flow's \
         rounds; slowdown compares it with the same bytes on an empty network.",
        vec![
            Column::words("flow"),
            Column::words("state"),
            Column::numbers("throughput", Unit::BitRate),
            Column::numbers("completion", Unit::Seconds),
            Column::numbers("slowdown", Unit::Plain),
            Column::numbers("delivered", Unit::Bytes),
            Column::numbers("CNPs", Unit::Count),
            Column::numbers("sent again", Unit::Count),
            Column::numbers("rate", Unit::BitRate),
        ],
    );
    let of_kinds = estimates.kinds.iter().map(|(name, unit)| Column::numbers(name, *unit));
    table.columns.extend(of_kinds);
    for (number, flow) in flows.iter().enumerate() {
        let nan = f64::NAN;
        let mut row: Vec<Cell> = vec![
            flow.name.clone().into(),
            state(&flow.now).into(),
            flow.throughput.into(),
            flow.completion.unwrap_or(nan).into(),
            flow.slowdown.unwrap_or(nan).into(),
            (flow.now.delivered_bytes - flow.base.delivered_bytes).into(),
            (flow.now.cnps - flow.base.cnps).into(),
            (flow.now.retransmitted - flow.base.retransmitted).into(),
            flow.now.rate.map_or(nan, |rate| rate.rate_bps).into(),
        ];
        let estimate = flow.now.rate.map_or(nan, |rate| rate.estimate);
        let of = estimates.of(number);
        row.extend((0..estimates.kinds.len()).map(|kind| match of == Some(kind) {
            true => Cell::from(estimate),
            false => Cell::Empty,
        }));
        table.rows.push(row);
    }
    report.tables.push(table);
}

/// The state of a flow.
fn state(flow: &FlowStatus) -> &'static str {
    match (flow.failed.is_some(), flow.started, flow.finished) {
        (true, ..) => "FAILED",
        (_, None, _) => "not begun",
        (_, _, Some(_)) => "done",
        _ => "under way",
    }
}

/// Detection of losses, for hosts that are made for lossy fabrics.
fn losses(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    if !window.lab.scenario.host_setups().any(HostSetup::is_for_lossy_fabrics) {
        return;
    }
    let since =
        |flow: &Measured<'_>, of: &dyn Fn(&FlowStatus) -> u64| of(&flow.now) - of(&flow.base);
    let sum = |of: &dyn Fn(&FlowStatus) -> u64| flows.iter().map(|f| since(f, of)).sum::<u64>();
    report.figure("flows.timeouts", sum(&|flow| flow.timeouts) as f64, Unit::Count);
    report.figure("flows.trimmed", sum(&|flow| flow.trimmed) as f64, Unit::Count);
    report.figure("flows.overtaken", sum(&|flow| flow.overtaken) as f64, Unit::Count);
}

fn figures(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    let each =
        |value: &dyn Fn(&Measured<'_>) -> f64| -> Vec<f64> { flows.iter().map(value).collect() };
    // A flow that was over before is neither slow nor unfairly treated.
    let measured = flows.iter().filter(|flow| flow.active_s > 0.0);
    let throughput: Vec<f64> = measured.map(|flow| flow.throughput).collect();
    let cnps = each(&|flow| (flow.now.cnps - flow.base.cnps) as f64);
    // From zero on: an empty sum is a negative zero.
    let sum = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value);
    report.figure("flows.count", flows.len() as f64, Unit::Count);
    // Of all flows together: they need not be in progress at the same time.
    let bytes = sum(&each(&|flow| (flow.now.delivered_bytes - flow.base.delivered_bytes) as f64));
    report.figure("flows.throughput", per_second(bytes * 8.0, all_active_s(window)), Unit::BitRate);
    report.figure("flows.throughput_min", stats::smallest(&throughput), Unit::BitRate);
    report.figure("flows.throughput_max", stats::largest(&throughput), Unit::BitRate);
    report.figure("flows.jain", stats::jain(&throughput), Unit::Plain);
    report.figure("flows.cnps", sum(&cnps), Unit::Count);
    // Relative to the time that flows existed: short ones count little.
    let rate = per_second(sum(&cnps), sum(&each(&|flow| flow.active_s)));
    report.figure("flows.cnp_rate", rate, Unit::PerSecond);
    report.figure(
        "flows.sent_again",
        sum(&each(&|f| (f.now.retransmitted - f.base.retransmitted) as f64)),
        Unit::Count,
    );
    losses(report, window, flows);
    report.figure("flows.out_of_order", sum(&each(&|f| f.now.out_of_order as f64)), Unit::Count);
    report.figure(
        "flows.finished",
        sum(&each(&|f| f64::from(f.now.finished.is_some()))),
        Unit::Count,
    );
    report.figure("flows.failed", sum(&each(&|f| f64::from(f.now.failed.is_some()))), Unit::Count);
    report.figure(
        "flows.packets",
        sum(&each(&|f| (f.now.received_packets - f.base.received_packets) as f64)),
        Unit::Count,
    );
    let delivered = sum(&each(&|f| f.now.delivered_bytes as f64));
    let payload = window.lab.scenario.host.path_mtu.get() as f64;
    report.figure("run.delivered", (delivered / payload).ceil(), Unit::Count);
    let times = stats::sorted(&flows.iter().filter_map(|f| f.completion).collect::<Vec<_>>());
    let slow = stats::sorted(&flows.iter().filter_map(|f| f.slowdown).collect::<Vec<_>>());
    for (name, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)] {
        report.figure(
            format!("flows.completion_{name}"),
            stats::percentile(&times, percent),
            Unit::Seconds,
        );
        report.figure(
            format!("flows.slowdown_{name}"),
            stats::percentile(&slow, percent),
            Unit::Plain,
        );
    }
    report.figure("flows.completion_max", times.last().copied().unwrap_or(f64::NAN), Unit::Seconds);
    for (name, flow) in names(&window.lab.scenario).into_iter().zip(flows) {
        report.figure(name, flow.throughput, Unit::BitRate);
    }
}

/// The figures of single flows, which the first flows have; the second flow between the same hosts is `flow.FROM.TO.2`.
fn names(scenario: &Scenario) -> Vec<String> {
    let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let name = |flow: &FlowSpec| {
        let [from, to] = [flow.from, flow.to].map(|node| scenario.fabric.nodes[node].name.as_str());
        let nth = known.entry((flow.from, flow.to)).or_default();
        *nth += 1;
        match *nth {
            1 => format!("flow.{from}.{to}.throughput"),
            nth => format!("flow.{from}.{to}.{nth}.throughput"),
        }
    };
    scenario.flows.iter().take(FLOW_SERIES_MAX).map(name).collect()
}

/// Figures of single flows that belong to another flow with each seed: of drawn flows, and of those numbered with them.
pub(super) fn drawn(scenario: &Scenario) -> Vec<String> {
    let parts = scenario.sources.iter().zip(&scenario.parts);
    let drawn = parts.filter(|(source, _)| source.draws_hosts()).map(|(_, part)| &part.flows);
    let ends = |number: usize| (scenario.flows[number].from, scenario.flows[number].to);
    let pairs: BTreeSet<_> = drawn.flat_map(|flows| flows.clone().map(ends)).collect();
    let names = names(scenario).into_iter().enumerate();
    names.filter(|(number, _)| pairs.contains(&ends(*number))).map(|(_, name)| name).collect()
}

/// Reports how many flows ended in an error, and the first of these errors.
fn failures(report: &mut Report, flows: &[Measured<'_>]) {
    let mut failed = flows.iter().filter_map(|flow| Some((flow, flow.now.failed?.1)));
    let Some((first, status)) = failed.next() else { return };
    let (count, name) = (1 + failed.count(), &first.name);
    let why = match status {
        Status::RetryExceeded => {
            "it sent again after timeouts and NAKs until no retry was left, and nothing more was acknowledged"
        }
        Status::RnrRetryExceeded => "its receiver was not ready again and again",
        other => other.name(),
    };
    report.fact("failures", format!("{count} of {} flows, first {name}: {why}", flows.len()));
}

/// Reports the flows that had nothing to send because their window of messages was full.
fn windows(report: &mut Report, flows: &[Measured<'_>]) {
    let share = |flow: &Measured<'_>| waited(&flow.now, &flow.base, flow.active_s);
    let limited = flows
        .iter()
        .filter(|flow| flow.spec.rounds == 1 && !flow.spec.is_gated && share(flow) >= WAITED_SHOWN);
    let Some(most) = limited.clone().max_by(|a, b| share(a).total_cmp(&share(b))) else { return };
    let message = crate::lab::host::messages(most.spec).length;
    report.fact(
        "window",
        format!(
            "limits {} of {} flows, most {}, which had nothing to send for {} of its time: messages under way are {} of {} (`window`, \
             `message`)",
            limited.count(),
            flows.len(),
            most.name,
            Unit::Share.show(share(most)),
            most.spec.window,
            Unit::Bytes.show(f64::from(message)),
        ),
    );
}
