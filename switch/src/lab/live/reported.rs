//! The additions to the report of a live run beside the figures of every run.

use std::time::Duration;

use super::Live;
use crate::lab::scenario::Expect;
use crate::report::{Column, Report, Table, Unit};

/// Part of the wall-clock time that may be skipped before the report advises a greater dilation.
const GIVEN_UP_MAX: f64 = 0.1;

/// Adds facts, figures, a table and the verdict on the cables.
pub(super) fn fill(report: &mut Report, live: &Live, left_out: &[Expect]) {
    facts(report, live);
    figures(report, live);
    report.tables.push(table(live));
    for expect in left_out {
        report.skip(expect.figure.clone(), "only virtual time can promise it");
    }
    // A failed expectation may be caused by the machine: the report has its conduct.
    let error = scheduling(live);
    for verdict in report.verdicts.iter_mut().filter(|verdict| verdict.failed()) {
        verdict.found += &format!("; live: {error}");
    }
    let cables = &live.cables;
    let found = format!(
        "{} frames over {} cables, {} lost and {} refused by the kernel, {} not there at once, {} of its own",
        cables.got, live.cable_count, cables.lost, cables.refused, cables.late, cables.foreign
    );
    report.verdict("cables", cables.lost + cables.refused == 0, found);
}

fn facts(report: &mut Report, live: &Live) {
    let real = Unit::Seconds.show(live.stalls.real.as_secs_f64());
    if let Some((_, command)) = report.facts.iter_mut().find(|(name, _)| name == "command") {
        *command += &format!(" --live --dilate {}", live.dilation);
    }
    report.fact(
        "live",
        format!(
            "in real time on {} veth pairs, {} times slower: {real}",
            live.cable_count, live.dilation
        ),
    );
    report.fact("scheduling", scheduling(live));
    let share = given_up(live);
    if share > GIVEN_UP_MAX {
        let (lost, waited) = (live.stalls.lost, live.stalls.waited);
        let slower = (live.dilation as f64 / (1.0 - share).max(0.01)).ceil();
        let why = match waited * 2 >= lost {
            true => "the machine is busy: something else ran meanwhile".to_owned(),
            false => format!("it is too fast for this machine: `--dilate {slower}` fits better"),
        };
        report.fact("why so much was given up", why);
    }
}

/// Part of the wall-clock time that was skipped.
pub(super) fn given_up(live: &Live) -> f64 {
    let real = live.stalls.real.as_secs_f64();
    if real > 0.0 { live.stalls.lost.as_secs_f64() / real } else { 0.0 }
}

/// The scheduling error in words.
pub(super) fn scheduling(live: &Live) -> String {
    let show = |span: Duration| Unit::Seconds.show(span.as_secs_f64());
    format!(
        "events {} late on average, {} at most; {} of the time given up in {} pieces; {} waited for a processor; {} of {} \
         frames were not there at once",
        show(live.lateness.mean()),
        show(live.lateness.longest),
        Unit::Share.show(given_up(live)),
        live.stalls.count,
        show(live.stalls.waited),
        live.cables.late,
        live.cables.put,
    )
}

fn figures(report: &mut Report, live: &Live) {
    let mut seconds = |name: &str, span: Duration| {
        report.figure(format!("live.{name}"), span.as_secs_f64(), Unit::Seconds);
    };
    seconds("real_time", live.stalls.real);
    seconds("late_mean", live.lateness.mean());
    seconds("late_p99", live.lateness.percentile(99.0));
    seconds("late_max", live.lateness.longest);
    seconds("given_up", live.stalls.lost);
    seconds("given_up_longest", live.stalls.longest);
    seconds("waited", live.stalls.waited);
    report.figure("live.given_up_share", given_up(live), Unit::Share);
    report.figure("live.dilation", live.dilation as f64, Unit::Plain);
    for (name, count) in [
        ("events", live.lateness.steps),
        ("frames", live.cables.got),
        ("frames_lost", live.cables.lost + live.cables.refused),
        ("frames_late", live.cables.late),
        ("foreign", live.cables.foreign),
    ] {
        report.figure(format!("live.{name}"), count as f64, Unit::Count);
    }
}

fn table(live: &Live) -> Table {
    let row = |what: &str, span: Duration| {
        let seconds = span.as_secs_f64();
        vec![what.into(), seconds.into(), (seconds / live.dilation as f64).into()]
    };
    Table {
        title: "Scheduling error".to_owned(),
        note: "How late events were served: devices see that, up to a limit. Where the machine was later still, their clock \
               stood still, and what it gave up is here."
            .to_owned(),
        columns: vec![
            Column::words("what"),
            Column::numbers("time of day", Unit::Seconds),
            Column::numbers("time of the scenario", Unit::Seconds),
        ],
        rows: vec![
            row("late, mean", live.lateness.mean()),
            row("late, 50 %", live.lateness.percentile(50.0)),
            row("late, 99 %", live.lateness.percentile(99.0)),
            row("late, most", live.lateness.longest),
            row("given up", live.stalls.lost),
            row("given up, longest piece", live.stalls.longest),
            row("waited for a processor", live.stalls.waited),
            row("whole run", live.stalls.real),
        ],
    }
}
