//! Collectives: how long each iteration took, beside the bound without contention, and the critical path of the
//! slowest.
//!
//! An iteration lasts from the end of the one before (the start of the collective, for the first) until its last rank
//! is done, including computation. Its critical path is followed backwards from there: each gate waited for its last
//! need.

use std::collections::BTreeMap;
use std::ops::Range;

use wireyard_tables::time::{Span, Time};

use super::Window;
use crate::host::GateReport;
use crate::lab::ideal_completion::one_way;
use crate::lab::scenario::FlowSpec;
use crate::lab::workload::{Bound, Collective, Gate, Need, Source, bound};
use crate::report::{Axis, Column, Layer, Plot, Report, Row, Table, Timeline, Unit, stats};

/// Ranks that are shown one by one.
const RANKS_SHOWN: usize = 64;

/// One iteration, over all ranks.
#[derive(Clone, Copy, Debug)]
struct Iteration {
    /// Its number.
    number: u32,
    /// When the first and the last rank had computed.
    begins: (Time, Time),
    /// The rank that was last.
    latest: usize,
    /// When the last rank was done, and its last gate.
    end: (Time, usize),
    /// When the iteration before was done.
    from: Time,
    /// The same at best.
    least: Span,
}

/// One wait on a critical path.
struct Wait {
    from: Time,
    host: usize,
    step: u32,
    /// Sender and step of the data that it waited for; `None` if it computed.
    data: Option<(usize, u32)>,
    took: Span,
    best: Span,
}

struct Part<'a> {
    of: &'a Collective,
    gates: Range<usize>,
    all: &'a [Gate],
    seen: &'a [GateReport],
    iterations: Vec<Iteration>,
}

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let scenario = &window.lab.scenario;
    if !scenario.sources.iter().any(|source| matches!(source, Source::Collective(_))) {
        return;
    }
    let least = bound(scenario, window.lab.balances());
    for (source, part) in scenario.sources.iter().zip(&scenario.parts) {
        let Source::Collective(of) = source else { continue };
        let (all, seen) = (scenario.gates.as_slice(), window.lab.gate_reports.as_slice());
        let mut part = Part { of, gates: part.gates.clone(), all, seen, iterations: Vec::new() };
        part.iterations = part.iterations(&least);
        let waits = part.slowest().map(|slowest| part.walk(slowest, window));
        part.figures(report, waits.as_deref());
        part.table(report, window);
        part.path(report, window, waits.unwrap_or_default());
        part.timeline(report, window);
    }
}

impl Part<'_> {
    /// Iterations that every rank has finished.
    fn iterations(&self, least: &Bound) -> Vec<Iteration> {
        let mut found = Vec::new();
        let last = self.gates.clone().map(|gate| self.all[gate].step).max().unwrap_or(0);
        let begins = self.of.common.start;
        let (mut from, mut best_from) = (begins, begins);
        let mut by_number: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for gate in self.gates.clone() {
            by_number.entry(self.all[gate].iteration).or_default().push(gate);
        }
        for (number, gates) in by_number {
            let of_step =
                |step: u32| gates.iter().copied().filter(move |gate| self.all[*gate].step == step);
            let opened = |gate: usize| self.seen.get(gate).and_then(|seen| seen.opened);
            let starts: Option<Vec<(Time, usize)>> =
                of_step(0).map(|gate| Some((opened(gate)?, gate))).collect();
            let ends: Option<Vec<(Time, usize)>> =
                of_step(last).map(|gate| Some((opened(gate)?, gate))).collect();
            let best = of_step(last).filter_map(|gate| least.opened[gate]).max();
            let (Some(starts), Some(ends), Some(best)) = (starts, ends, best) else { break };
            let (Some(first), Some(latest), Some(end)) =
                (starts.iter().min(), starts.iter().max(), ends.into_iter().max())
            else {
                break;
            };
            let (begins, latest) = ((first.0, latest.0), self.all[latest.1].host);
            found.push(Iteration {
                number,
                begins,
                latest,
                end,
                from,
                least: best.since(best_from),
            });
            (from, best_from) = (end.0, best);
        }
        found
    }

    /// Figures; the waits of the slowest iteration are absent without a finished one.
    fn figures(&self, report: &mut Report, waits: Option<&[Wait]>) {
        let name = &self.of.name;
        let seconds = |span: Span| span.as_ps() as f64 / 1e12;
        let times: Vec<f64> =
            self.iterations.iter().map(|one| seconds(one.end.0.since(one.from))).collect();
        let least: Vec<f64> = self.iterations.iter().map(|one| seconds(one.least)).collect();
        let moving: Vec<f64> =
            self.iterations.iter().map(|one| seconds(one.end.0.since(one.begins.1))).collect();
        let (time, best) = (stats::mean(&times), stats::mean(&least));
        let bytes = self.of.size.get() as f64 * self.of.operation.bus_factor(self.of.ranks.len());
        let mut add = |what: &str, value: f64, unit: Unit| {
            report.figure(format!("collective.{name}.{what}"), value, unit);
        };
        add("iterations", times.len() as f64, Unit::Count);
        add("time_mean", time, Unit::Seconds);
        add("time_max", stats::largest(&times), Unit::Seconds);
        add("bound", best, Unit::Seconds);
        add("over_bound", time / best - 1.0, Unit::Share);
        add("bus_rate", bytes * 8.0 / stats::mean(&moving), Unit::BitRate);
        let over = |wait: &Wait| took(wait.took) - took(wait.best);
        let path = waits.map_or(f64::NAN, |waits| waits.iter().map(over).sum());
        add("path_over_best", path, Unit::Seconds);
    }

    fn table(&self, report: &mut Report, window: &Window<'_>) {
        let name = |node: usize| window.lab.scenario.fabric.nodes[node].name.as_str();
        let mut table = Table::new(
            format!("Iterations of {}", self.of.name),
            "An iteration lasts from the end of the one before until its last rank is done, computing among it. The bound is the \
             same where nothing but each host's own link is shared.",
            vec![
                Column::numbers("iteration", Unit::Count),
                Column::numbers("first rank sends", Unit::Seconds),
                Column::numbers("last rank sends", Unit::Seconds),
                Column::words("that is"),
                Column::numbers("done", Unit::Seconds),
                Column::words("last at"),
                Column::numbers("time", Unit::Seconds),
                Column::numbers("bound", Unit::Seconds),
            ],
        );
        for one in &self.iterations {
            table.rows.push(vec![
                u64::from(one.number + 1).into(),
                at(one.begins.0).into(),
                at(one.begins.1).into(),
                name(one.latest).into(),
                at(one.end.0).into(),
                name(self.all[one.end.1].host).into(),
                took(one.end.0.since(one.from)).into(),
                took(one.least).into(),
            ]);
        }
        let points = |value: &dyn Fn(&Iteration) -> Span| {
            let point = |one: &Iteration| (f64::from(one.number + 1), took(value(one)));
            self.iterations.iter().map(point).collect::<Vec<_>>()
        };
        if self.iterations.len() > 1 {
            let time = points(&|one| one.end.0.since(one.from));
            let layers = vec![
                Layer::Line { name: "measured".to_owned(), points: time },
                Layer::Reference { name: "bound".to_owned(), points: points(&|one| one.least) },
            ];
            report.plots.push(Plot {
                id: format!("collective-{}", self.of.name),
                title: format!("Iterations of {}", self.of.name),
                caption: "How long each iteration took, and how long it takes without contention."
                    .to_owned(),
                x: Axis::new("iteration", Unit::Count),
                y: Axis::from_zero("time", Unit::Seconds),
                layers,
            });
        }
        report.tables.push(table);
    }

    fn slowest(&self) -> Option<&Iteration> {
        self.iterations
            .iter()
            .max_by_key(|one| (one.end.0.since(one.from), std::cmp::Reverse(one.number)))
    }

    /// The critical path of an iteration, from its end backwards: the wait of each step.
    fn walk(&self, slowest: &Iteration, window: &Window<'_>) -> Vec<Wait> {
        let scenario = &window.lab.scenario;
        let posted = self.releases();
        let mut rows = Vec::new();
        let mut gate = slowest.end.1;
        loop {
            let (own, seen) = (&self.all[gate], &self.seen[gate]);
            let (Some(ready), Some(opened)) = (seen.ready, seen.opened) else { break };
            let (host, step) = (own.host, own.step);
            if !own.delay.is_zero() {
                let (took, best) = (opened.since(ready), own.delay);
                rows.push(Wait { from: ready, host, step, data: None, took, best });
            }
            // The path ends where the iteration before was done, unless a rank was still behind.
            let need = seen.last.and_then(|place| own.needs.get(place as usize));
            let before = match need {
                Some(Need::Arrived(flow, number) | Need::Completed(flow, number)) => {
                    let Some(&sender) = posted.get(&(*flow, *number)) else { break };
                    let Some(from) = self.seen[sender].opened else { break };
                    let spec: &FlowSpec = &scenario.flows[*flow];
                    let bytes = spec.size.map_or(0, crate::units::Bytes::get);
                    let best = one_way(scenario, spec, (1, (bytes, bytes)), window.lab.balances())
                        .unwrap_or(Span::ZERO);
                    let data = Some((spec.from, self.all[sender].step));
                    rows.push(Wait { from, host, step, data, took: ready.since(from), best });
                    sender
                }
                Some(Need::Opened(before)) => *before,
                None => break,
            };
            if self.all[before].iteration != slowest.number {
                break;
            }
            gate = before;
        }
        rows.reverse();
        rows
    }

    /// The waits of the slowest iteration, one after the other.
    fn path(&self, report: &mut Report, window: &Window<'_>, waits: Vec<Wait>) {
        let Some(slowest) = self.slowest() else { return };
        let name = |node: usize| window.lab.scenario.fabric.nodes[node].name.as_str();
        let mut table = Table::new(
            format!("What iteration {} of {} waited for", slowest.number + 1, self.of.name),
            "The critical path of the slowest iteration: each line is what the step after it waited for last. At best: the same \
             message on an empty network; what is above that is contention, a pause, a repeat or a cut link.",
            vec![
                Column::numbers("from", Unit::Seconds),
                Column::words("rank"),
                Column::numbers("step", Unit::Count),
                Column::words("waits for"),
                Column::numbers("took", Unit::Seconds),
                Column::numbers("at best", Unit::Seconds),
            ],
        );
        for wait in waits {
            let what = match wait.data {
                Some((sender, step)) => format!("data of {}, step {step}", name(sender)),
                None => "computes".to_owned(),
            };
            table.rows.push(vec![
                at(wait.from).into(),
                name(wait.host).into(),
                u64::from(wait.step).into(),
                what.into(),
                took(wait.took).into(),
                took(wait.best).into(),
            ]);
        }
        report.tables.push(table);
    }

    /// The gate that released each message of each flow.
    fn releases(&self) -> BTreeMap<(usize, u32), usize> {
        let mut sent: BTreeMap<usize, u32> = BTreeMap::new();
        let mut posted = BTreeMap::new();
        for gate in self.gates.clone() {
            for flow in &self.all[gate].releases {
                let number = sent.entry(*flow).or_default();
                *number += 1;
                posted.insert((*flow, *number), gate);
            }
        }
        posted
    }

    /// The times of the ranks' exchange, in the slowest iteration.
    fn timeline(&self, report: &mut Report, window: &Window<'_>) {
        let Some(slowest) = self.slowest() else { return };
        let mut rows: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for gate in self.gates.clone().filter(|gate| self.all[*gate].iteration == slowest.number) {
            let Some(opened) = self.seen[gate].opened else { continue };
            let row = rows.entry(self.all[gate].host).or_insert((at(opened), at(opened)));
            *row = (row.0.min(at(opened)), row.1.max(at(opened)));
        }
        let shown =
            self.of.ranks.iter().take(RANKS_SHOWN).filter_map(|rank| Some((rank, rows.get(rank)?)));
        let rows: Vec<Row> = shown
            .map(|(rank, (begin, end))| Row {
                name: window.lab.scenario.fabric.nodes[*rank].name.clone(),
                spans: vec![(*begin, *end, 1.0)],
            })
            .collect();
        report.timelines.push(Timeline {
            id: format!("ranks-{}", self.of.name),
            title: format!("Ranks in iteration {} of {}", slowest.number + 1, self.of.name),
            caption: "From when a rank has computed until its result is there, in the slowest iteration: a late beginning is a straggler, a \
                      late end waited for the data of another."
                .to_owned(),
            range: (at(slowest.from), at(slowest.end.0)),
            rows,
        });
    }
}

fn at(time: Time) -> f64 {
    crate::lab::sampler::seconds(time)
}

fn took(span: Span) -> f64 {
    span.as_ps() as f64 / 1e12
}
