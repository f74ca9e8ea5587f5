//! One report of both phases: that of the closed loop, with the open one in front.

use super::drain::Drained;
use super::incast::Incast;
use super::judge::{MARKS_MIN, SHOWN_DEVIATIONS, Tally};
use super::setting::{DILATION, SENDERS};
use super::{Options, verdicts};
use crate::program::EngineKind;
use crate::report::{Axis, Column, Layer, Plot, Report, Table, Unit};

/// The whole report.
pub(super) fn report(options: &Options, drained: &Drained, incast: &Incast) -> Report {
    let mut report = incast.run.report.clone();
    report.title = "Wireyard demonstration: DCQCN incast on a lossless switch".to_owned();
    report.about = about();
    facts(&mut report, options, drained);
    let of_loop = std::mem::take(&mut report.verdicts);
    verdicts::fill(&mut report, options, drained, incast, of_loop);
    let (packets, marks) = drained.tally.totals();
    report.figure("drain.packets", packets as f64, Unit::Count);
    report.figure("drain.marks", marks as f64, Unit::Count);
    let end = &incast.live.end;
    report.figure("loop.marked", end.marked as f64, Unit::Count);
    report.figure("loop.cnps", end.cnps as f64, Unit::Count);
    report.figure("loop.xoff_sent", end.xoffs as f64, Unit::Count);
    report.figure("drops", verdicts::dropped(drained, incast) as f64, Unit::Count);
    curve(&mut report, options, &drained.tally);
    let outcome = outcome(&report, drained, incast);
    report.tables.insert(0, outcome);
    report
}

fn about() -> String {
    format!(
        "{SENDERS} senders with two RoCEv2 flows each write to one receiver through a switch that runs \
         programs/rocev2_lossless: real frames on real veth interfaces, in a network namespace that is gone now. All links have \
         40 Gbit/s, and all devices live {DILATION} times slower than the day, which changes neither the marking probability nor the \
         depth at which DCQCN settles; times and rates of the closed loop are those of the devices.\n\nFirst the open loop: \
         filled queues drain, and marks are counted by position at the receiver. Then the closed loop, which is the scenario \
         programs/lab/demo.yaml: DCQCN from line rate, five into one; the switch marks, the receiver sends CNPs, the senders \
         slow down, and PFC holds what is too much meanwhile. Every figure was measured in this run; theory is named as such.",
    )
}

fn facts(report: &mut Report, options: &Options, drained: &Drained) {
    let stalls = &drained.stalls;
    let open = format!(
        "{:.2} s; the machine did not run it for {:.2} s in {} pieces, the longest {:.1} ms",
        stalls.real.as_secs_f64(),
        stalls.lost.as_secs_f64(),
        stalls.count,
        stalls.longest.as_secs_f64() * 1e3
    );
    report.fact("open loop", open);
    report.facts.insert(0, ("command".to_owned(), command(options)));
}

/// The command that makes this page again.
fn command(options: &Options) -> String {
    let Options { duration, seed, engine, .. } = options;
    let of_engine = match engine {
        EngineKind::Auto => String::new(),
        named => format!(" --engine {}", named.name()),
    };
    format!("wireyard demo --seconds {} --seed {seed}{of_engine}", duration.as_secs())
}

/// The results, with the predictions of theory.
fn outcome(report: &Report, drained: &Drained, incast: &Incast) -> Table {
    let value = |name: &str| report.find(name).map_or(f64::NAN, |figure| figure.value);
    let show = |name: &str| report.find(name).map_or("-".into(), |f| f.unit.show(f.value));
    let mut table = Table::new(
        "Outcome",
        "",
        ["what", "measured", "theory, or wanted"].map(Column::words).to_vec(),
    );
    let mut row = |what: &str, measured: String, wanted: String| {
        table.rows.push(vec![what.into(), measured.into(), wanted.into()]);
    };
    row(
        "open loop: packets, marks",
        format!("{}, {}", value("drain.packets"), value("drain.marks")),
        format!("{} fillings of the queue", drained.fillings),
    );
    row(
        "marking probability",
        show("bottleneck.marking_probability"),
        show("theory.marking_probability"),
    );
    let deviation = show("bottleneck.queue_deviation");
    row(
        "queue at the bottleneck",
        format!("{} +- {deviation}", show("bottleneck.queue_mean")),
        show("theory.queue_mean"),
    );
    row("goodput of all flows", show("flows.throughput"), "link 40 Gbit/s".to_owned());
    row("fairness (Jain)", show("flows.jain"), "1".to_owned());
    let end = &incast.live.end;
    row(
        "marks, CNPs received, whole run",
        format!("{}, {}", end.marked, end.cnps),
        "a CNP for each flow and 50 us, at most".to_owned(),
    );
    row("XOFFs sent by the switch", end.xoffs.to_string(), "at the beginning".to_owned());
    row("packets dropped", show("drops"), "0".to_owned());
    table
}

/// Table and picture of the open loop.
fn curve(report: &mut Report, options: &Options, tally: &Tally) {
    let mut table = Table::new(
        "Marking by depth, open loop",
        format!("A bucket of the ramp is judged from {MARKS_MIN} marks on."),
        vec![
            Column::words("depth"),
            Column::numbers("packets", Unit::Count),
            Column::numbers("marked", Unit::Count),
            Column::numbers("measured", Unit::Share),
            Column::numbers("95 % from", Unit::Share),
            Column::numbers("to", Unit::Share),
            Column::numbers("law", Unit::Share),
            Column::words("verdict"),
        ],
    );
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
    // Before the closed loop, which came after.
    report.tables.insert(0, table);
    let law = options.law;
    let line = [0.0, law.kmin, law.kmax].map(|depth| (depth, law.at(depth)));
    let plot = Plot {
        id: "law".to_owned(),
        title: "Marking probability by depth, open loop".to_owned(),
        caption: "Open loop: CE marks that the receiver counted, by the depth behind each packet, with 95 % intervals; dashed \
                  the configured curve."
            .to_owned(),
        x: Axis::from_zero("depth", Unit::Bytes),
        y: Axis::from_zero("probability", Unit::Share),
        layers: vec![
            Layer::Reference { name: "configured".to_owned(), points: line.to_vec() },
            Layer::Measured { name: "measured".to_owned(), points },
        ],
    };
    report.plots.insert(0, plot);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_what_the_page_follows_from() {
        let options = Options { seed: 7, engine: EngineKind::Interp, ..Options::default() };
        assert_eq!(command(&options), "wireyard demo --seconds 35 --seed 7 --engine interp");
        assert_eq!(command(&Options::default()), "wireyard demo --seconds 35 --seed 1");
    }
}
