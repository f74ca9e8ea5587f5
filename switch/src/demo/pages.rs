//! From what was measured to a report: verdicts, tables, plots.

use super::cables::host_name;
use super::drain::Drained;
use super::incast::{Device, Incast};
use super::judge::{MARKS_MIN, SHOWN_DEVIATIONS, Tally};
use super::setting::{self, DATA_CLASS, DILATION, FLOWS_EACH, SENDERS};
use super::{Options, verdicts};
use crate::lab::theory::FixedPoint;
use crate::report::{Axis, Column, Layer, Plot, Report, Row, Series, Table, Timeline, Unit, stats};

/// What the closed loop settled at.
pub(super) struct Settled {
    /// Packets and marks behind the warm-up.
    pub(super) eligible: f64,
    pub(super) marked: f64,
    /// Mean depth and its deviation, bytes.
    pub(super) queue_mean: f64,
    pub(super) queue_deviation: f64,
    /// Payload rate of each flow, bit/s.
    pub(super) rates: Vec<f64>,
    /// Seconds.
    pub(super) seconds: f64,
}

impl Settled {
    fn new(incast: &Incast) -> Option<Settled> {
        if !incast.is_long_enough() {
            return None;
        }
        let first = incast.first;
        let gained = |values: &[f64]| values[values.len() - 1] - values[first];
        let seconds = gained(&incast.times);
        let rate = |flow: &super::incast::Track| gained(&flow.delivered) * 8.0 / seconds;
        Some(Settled {
            eligible: gained(&incast.eligible),
            marked: gained(&incast.marked),
            queue_mean: stats::mean(&incast.queue[first..]),
            queue_deviation: stats::deviation(&incast.queue[first..]),
            rates: incast.flows.iter().map(rate).collect(),
            seconds,
        })
    }

    pub(super) fn probability(&self) -> f64 {
        self.marked / self.eligible
    }
}

/// The whole report.
pub(super) fn report(options: &Options, drained: &Drained, incast: &Incast) -> Report {
    let theory = setting::fixed_point();
    let settled = Settled::new(incast);
    let mut report = Report {
        title: "Wireyard demonstration: DCQCN incast on a lossless switch".to_owned(),
        about: about(),
        ..Report::default()
    };
    facts(&mut report, options, drained, incast);
    verdicts::fill(&mut report, options, drained, incast, settled.as_ref(), theory);
    outcome(&mut report, drained, incast, settled.as_ref(), theory);
    flows(&mut report, incast, settled.as_ref());
    curve(&mut report, options, &drained.tally);
    devices(&mut report, drained, incast);
    plots(&mut report, incast, theory);
    series(&mut report, incast);
    report
}

fn about() -> String {
    format!(
        "{SENDERS} senders with {FLOWS_EACH} RoCEv2 flows each write to one receiver through a switch that runs \
         programs/rocev2_lossless: real frames on real veth interfaces, in a network namespace that is gone now. All links have \
         {}: the experiment is one at {}, with all rates divided and all times multiplied by {DILATION}, which changes neither \
         the marking probability nor the depth at which DCQCN settles.\n\nFirst the open loop: filled queues drain, and marks are \
         counted by position at the receiver. Then the closed loop: DCQCN from line rate, five into one; the switch marks, the \
         receiver sends CNPs, the senders slow down, and PFC holds what is too much meanwhile. Every figure was measured in \
         this run; theory is named as such.",
        setting::rate(),
        setting::original_rate(),
    )
}

fn facts(report: &mut Report, options: &Options, drained: &Drained, incast: &Incast) {
    report.fact("command", format!("wireyard demo --seconds {}", options.duration.as_secs()));
    report.fact("version", env!("CARGO_PKG_VERSION"));
    report.fact("engine", incast.engine);
    report.fact("seed of the marking", options.seed.to_string());
    let mut time = |name: &str, stalls: &crate::live::clock::Stalls| {
        let lost = stalls.lost.as_secs_f64();
        let seen = stalls.real.as_secs_f64() - lost;
        report.fact(
            name,
            format!(
                "{seen:.2} s of the devices' clock in {:.2} s of the day; the machine did not run them for {lost:.2} s in {} \
                 pieces, the longest {:.1} ms",
                stalls.real.as_secs_f64(),
                stalls.count,
                stalls.longest.as_secs_f64() * 1e3
            ),
        );
    };
    time("open loop", &drained.stalls);
    time("closed loop", &incast.stalls);
    report.fact(
        "clock",
        "all devices share one thread and one clock, which stops when the machine does not run that thread",
    );
}

fn words_and(value: &str) -> Vec<Column> {
    vec![Column::words("what"), Column::words(value), Column::words("theory, or wanted")]
}

fn outcome(
    report: &mut Report,
    drained: &Drained,
    incast: &Incast,
    settled: Option<&Settled>,
    theory: Option<(FixedPoint, f64)>,
) {
    let mut table =
        Table { title: "Outcome".to_owned(), columns: words_and("measured"), ..Table::default() };
    let mut row = |what: &str, measured: String, wanted: String| {
        table.rows.push(vec![what.into(), measured.into(), wanted.into()]);
    };
    let (packets, marks) = drained.tally.totals();
    row(
        "open loop: packets, marks",
        format!("{packets}, {marks}"),
        format!("{} fillings of the queue", drained.fillings),
    );
    let of_theory = |value: Option<f64>, unit: Unit| value.map_or("-".into(), |v| unit.show(v));
    if let Some(settled) = settled {
        row(
            "marking probability",
            Unit::Share.show(settled.probability()),
            of_theory(theory.map(|(point, _)| point.probability), Unit::Share),
        );
        row(
            "queue at the bottleneck",
            format!(
                "{} +- {}",
                Unit::Bytes.show(settled.queue_mean),
                Unit::Bytes.show(settled.queue_deviation)
            ),
            of_theory(theory.map(|(_, queue)| queue), Unit::Bytes),
        );
        let goodput: f64 = settled.rates.iter().sum();
        row(
            "goodput of all flows",
            Unit::BitRate.show(goodput),
            format!("link {}", Unit::BitRate.show(setting::rate().get() as f64)),
        );
        row("fairness (Jain)", format!("{:.4}", stats::jain(&settled.rates)), "1".to_owned());
        report.figure("incast.marking_probability", settled.probability(), Unit::Share);
        report.figure("incast.queue_mean", settled.queue_mean, Unit::Bytes);
        report.figure("incast.goodput", goodput, Unit::BitRate);
        report.figure("incast.jain", stats::jain(&settled.rates), Unit::Plain);
        report.figure("incast.measured", settled.seconds, Unit::Seconds);
    }
    let class = usize::from(DATA_CLASS);
    let peak = incast.bottleneck().queues[class].peak_bytes;
    row("highest queue", Unit::Bytes.show(peak as f64), "below the buffer".to_owned());
    let wred = incast.bottleneck().queues[class].wred.unwrap_or_default();
    let cnps: u64 = incast.flows.iter().map(|flow| flow.sent.cnps_received).sum();
    row(
        "marks, CNPs sent, CNPs received",
        format!("{}, {}, {cnps}", wred.marked, incast.cnps_sent),
        "a CNP for each flow and 10 ms, at most".to_owned(),
    );
    let (xoffs, xons) = pauses(incast.switch());
    row("XOFF and XON sent by the switch", format!("{xoffs}, {xons}"), "at the beginning".into());
    row("packets dropped", verdicts::dropped(drained, incast).to_string(), "0".to_owned());
    report.figure("drain.packets", packets as f64, Unit::Count);
    report.figure("drain.marks", marks as f64, Unit::Count);
    report.figure("incast.marked", wred.marked as f64, Unit::Count);
    report.figure("incast.cnps_sent", incast.cnps_sent as f64, Unit::Count);
    report.figure("incast.cnps_received", cnps as f64, Unit::Count);
    report.figure("incast.xoff_sent", xoffs as f64, Unit::Count);
    report.figure("drops", verdicts::dropped(drained, incast) as f64, Unit::Count);
    if let Some((point, queue)) = theory {
        report.figure("theory.marking_probability", point.probability, Unit::Share);
        report.figure("theory.queue", queue, Unit::Bytes);
    }
    report.tables.push(table);
}

/// XOFFs and XONs that a device sent.
pub(super) fn pauses(device: &Device) -> (u64, u64) {
    device.ports.iter().fold((0, 0), |(xoffs, xons), port| {
        let sum = |counts: &[u64; 8]| counts.iter().sum::<u64>();
        (xoffs + sum(&port.pauses.tx_xoff), xons + sum(&port.pauses.tx_xon))
    })
}

fn flows(report: &mut Report, incast: &Incast, settled: Option<&Settled>) {
    let mut table = Table {
        title: "Flows".to_owned(),
        note: "Goodput behind the warm-up; counters of the whole run.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::numbers("goodput", Unit::BitRate),
            Column::numbers("packets", Unit::Count),
            Column::numbers("sent again", Unit::Count),
            Column::numbers("out of order", Unit::Count),
            Column::numbers("CNPs", Unit::Count),
        ],
        rows: Vec::new(),
    };
    for (n, flow) in incast.flows.iter().enumerate() {
        table.rows.push(vec![
            flow.name.as_str().into(),
            settled.map_or(f64::NAN, |settled| settled.rates[n]).into(),
            flow.sent.sent_packets.into(),
            flow.sent.retransmitted_packets.into(),
            flow.received.out_of_sequence.into(),
            flow.sent.cnps_received.into(),
        ]);
    }
    report.tables.push(table);
}

fn curve(report: &mut Report, options: &Options, tally: &Tally) {
    let mut table = Table {
        title: "Marking by depth, open loop".to_owned(),
        note: format!("A bucket of the ramp is judged from {MARKS_MIN} marks on."),
        columns: vec![
            Column::words("depth"),
            Column::numbers("packets", Unit::Count),
            Column::numbers("marked", Unit::Count),
            Column::numbers("measured", Unit::Share),
            Column::numbers("95 % from", Unit::Share),
            Column::numbers("to", Unit::Share),
            Column::numbers("law", Unit::Share),
            Column::words("verdict"),
        ],
        rows: Vec::new(),
    };
    let mut points = Vec::new();
    for (bucket, opinion) in tally.buckets.iter().zip(tally.opinions(&options.law)) {
        let (low, high) = bucket.interval(SHOWN_DEVIATIONS);
        let edge = |bytes: f64| Unit::Bytes.show(bytes);
        let depth = match (bucket.above.is_finite(), bucket.up_to.is_finite()) {
            (false, _) => format!("to {}", edge(bucket.up_to)),
            (_, false) => format!("above {}", edge(bucket.above)),
            _ => format!("{} to {}", edge(bucket.above), edge(bucket.up_to)),
        };
        table.rows.push(vec![
            depth.into(),
            bucket.packets.into(),
            bucket.marked.into(),
            bucket.share().into(),
            low.into(),
            high.into(),
            bucket.expected(&options.law).into(),
            opinion.word().into(),
        ]);
        if bucket.packets > 0 && bucket.up_to.is_finite() {
            let depth = bucket.depths / bucket.packets as f64;
            points.push((depth, low, bucket.share(), high));
        }
    }
    report.tables.push(table);
    let law = options.law;
    let line = [0.0, law.kmin, law.kmax].map(|depth| (depth, law.at(depth)));
    report.plots.push(Plot {
        id: "marking".to_owned(),
        title: "Marking probability over queue depth".to_owned(),
        caption: "Open loop: CE marks that the receiver counted, by the depth behind each packet, with 95 % intervals; dashed \
                  the configured curve."
            .to_owned(),
        x: Axis::from_zero("depth", Unit::Bytes),
        y: Axis::from_zero("probability", Unit::Share),
        layers: vec![
            Layer::Reference { name: "configured".to_owned(), points: line.to_vec() },
            Layer::Measured { name: "measured".to_owned(), points },
        ],
    });
}

fn devices(report: &mut Report, drained: &Drained, incast: &Incast) {
    let mut table = Table {
        title: "Where every packet went".to_owned(),
        note: "received + generated = sent + dropped + consumed + queued, in every device."
            .to_owned(),
        columns: vec![
            Column::words("device"),
            Column::numbers("received", Unit::Count),
            Column::numbers("generated", Unit::Count),
            Column::numbers("sent", Unit::Count),
            Column::numbers("dropped", Unit::Count),
            Column::numbers("consumed", Unit::Count),
            Column::numbers("queued", Unit::Count),
            Column::words("balance"),
        ],
        rows: Vec::new(),
    };
    let all = [("switch, open loop", &drained.ledger)]
        .into_iter()
        .chain(incast.devices.iter().map(|device| (device.name.as_str(), &device.ledger)));
    for (name, ledger) in all {
        let sum = |counts: &[(String, u64)]| counts.iter().map(|(_, n)| n).sum::<u64>();
        table.rows.push(vec![
            name.into(),
            ledger.received.into(),
            ledger.generated.into(),
            ledger.sent.into(),
            sum(&ledger.dropped).into(),
            sum(&ledger.consumed).into(),
            ledger.queued.into(),
            if ledger.balanced { "holds".into() } else { "FAILS".into() },
        ]);
    }
    report.tables.push(table);
}

fn plots(report: &mut Report, incast: &Incast, theory: Option<(FixedPoint, f64)>) {
    let times = &incast.times;
    let end = times.last().copied().unwrap_or(0.0);
    let over_time =
        |values: &[f64]| times.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>();
    let level = |name: &str, value: f64| Layer::Reference {
        name: name.to_owned(),
        points: vec![(0.0, value), (end, value)],
    };
    let mut layers =
        vec![Layer::Line { name: "queue".to_owned(), points: over_time(&incast.queue) }];
    layers.extend(theory.map(|(_, queue)| level("fixed point", queue)));
    report.plots.push(Plot {
        id: "queue".to_owned(),
        title: "Queue at the bottleneck".to_owned(),
        caption: format!(
            "Closed loop: bytes that wait. The incast begins at line rate; figures count from {} s on.",
            setting::WARM_UP.as_ps() as f64 / 1e12
        ),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("depth", Unit::Bytes),
        layers,
    });
    let mut layers: Vec<Layer> = incast
        .flows
        .iter()
        .map(|flow| Layer::Line { name: flow.name.clone(), points: over_time(&flow.rate) })
        .collect();
    layers.push(level("fair share", setting::rate().get() as f64 / incast.flows.len() as f64));
    report.plots.push(Plot {
        id: "rates".to_owned(),
        title: "Rates of the flows".to_owned(),
        caption: "What the reaction point of each flow allows.".to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("rate", Unit::BitRate),
        layers,
    });
    let paused = |sender: usize| Row {
        name: host_name(sender),
        spans: times
            .windows(2)
            .zip(incast.paused[sender].windows(2))
            .filter(|(_, p)| p[1] > p[0])
            .map(|(t, p)| (t[0], t[1], ((p[1] - p[0]) / (t[1] - t[0])).min(1.0)))
            .collect(),
    };
    report.timelines.push(Timeline {
        id: "pauses".to_owned(),
        title: "Pauses".to_owned(),
        caption: "When PFC kept a sender from sending, and for how much of the time.".to_owned(),
        range: (0.0, end),
        rows: (0..SENDERS).map(paused).collect(),
    });
}

fn series(report: &mut Report, incast: &Incast) {
    report.sample_times.clone_from(&incast.times);
    let mut add = |name: &str, unit: Unit, values: &[f64]| {
        report.series.push(Series { name: name.to_owned(), unit, values: values.to_vec() });
    };
    add("queue.bytes", Unit::Bytes, &incast.queue);
    add("queue.eligible", Unit::Count, &incast.eligible);
    add("queue.marked", Unit::Count, &incast.marked);
    for flow in &incast.flows {
        add(&format!("{}.rate", flow.name), Unit::BitRate, &flow.rate);
        add(&format!("{}.delivered", flow.name), Unit::Bytes, &flow.delivered);
        add(&format!("{}.cnps", flow.name), Unit::Count, &flow.cnps);
    }
}
