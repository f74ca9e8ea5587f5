//! A live run compared with the same scenario in virtual time.

use super::{Live, reported};
use crate::report::{Cell, Column, Figure, Report, Table, Unit};

/// Figures that must agree.
const JUDGED: [&str; 3] =
    ["bottleneck.marking_probability", "bottleneck.queue_mean", "flows.throughput"];
/// Figures that are shown beside each other.
const SHOWN: [&str; 10] = [
    "bottleneck.marking_probability",
    "bottleneck.queue_mean",
    "bottleneck.queue_deviation",
    "bottleneck.queue_peak",
    "flows.throughput",
    "flows.jain",
    "flows.cnp_rate",
    "flows.alpha",
    "flows.completion_p99",
    "pauses.xoff_sent",
];

/// Adds the table of both, and a verdict for each figure that must agree within `percent`.
pub fn fill(report: &mut Report, virtual_run: &Report, live: &Live, percent: f64) {
    let mut table = Table::new(
        "Live against virtual time",
        "The same scenario and seed; figures of both in the scenario's own time.",
        ["figure", "virtual", "live"]
            .map(Column::words)
            .into_iter()
            .chain([Column::numbers("difference", Unit::Share)])
            .collect(),
    );
    let mut verdicts = Vec::new();
    for name in SHOWN {
        let (Some(wanted), Some(found)) = (virtual_run.find(name), report.find(name)) else {
            continue;
        };
        if !wanted.value.is_finite() && !found.value.is_finite() {
            continue;
        }
        let away = difference(wanted, found);
        let difference = away.map_or(Cell::Empty, Cell::from);
        let (before, now) = (wanted.unit.show(wanted.value), found.unit.show(found.value));
        table.rows.push(vec![name.into(), before.as_str().into(), now.as_str().into(), difference]);
        if JUDGED.contains(&name) {
            let passed = away.is_some_and(|away| 100.0 * away.abs() <= percent);
            let away = away.map_or("-".to_owned(), |away| format!("{:+.1} %", 100.0 * away));
            let mut text =
                format!("{now} live, {before} in virtual time: {away}, allowed {percent} %");
            if !passed {
                text += &format!("; {}", reported::scheduling(live));
            }
            verdicts.push((format!("live {name}"), passed, text));
        }
    }
    report.tables.push(table);
    for (name, passed, found) in verdicts {
        report.verdict(name, passed, found);
    }
}

/// The relative difference; `None` if it is undefined.
fn difference(wanted: &Figure, found: &Figure) -> Option<f64> {
    if wanted.value == found.value {
        return Some(0.0);
    }
    let away = found.value / wanted.value - 1.0;
    away.is_finite().then_some(away)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::live::clock::{DeviceClock, Stalls};

    fn report(probability: f64, queue: f64) -> Report {
        let mut report = Report::default();
        report.figure("bottleneck.marking_probability", probability, Unit::Share);
        report.figure("bottleneck.queue_mean", queue, Unit::Bytes);
        report.figure("flows.throughput", 1e9, Unit::BitRate);
        report.figure("flows.alpha", f64::NAN, Unit::Plain);
        report
    }

    fn judged(live_report: Report) -> Report {
        let live = Live {
            dilation: 10,
            stalls: Stalls { lost: Duration::from_secs(1), ..Stalls::default() },
            lateness: DeviceClock::start(1).lateness().clone(),
            cables: Default::default(),
            cable_count: 3,
            end: Default::default(),
        };
        let mut report = live_report;
        fill(&mut report, &self::report(0.01, 20e3), &live, 15.0);
        report
    }

    #[test]
    fn what_is_near_agrees_and_what_is_not_says_how_the_machine_was() {
        let near = judged(report(0.0112, 17.5e3));
        assert!(near.passed(), "{:?}", near.verdicts);
        assert_eq!(near.verdicts.len(), 3);
        assert_eq!(near.tables[0].rows.len(), 3, "alpha was not measured");
        let far = judged(report(0.0116, 20e3));
        assert!(!far.verdicts[0].passed && far.verdicts[1].passed);
        assert!(far.verdicts[0].found.contains("+16.0 %"), "{:?}", far.verdicts);
        assert!(far.verdicts[0].found.contains("given up"), "{:?}", far.verdicts);
        assert!(!judged(report(f64::NAN, 20e3)).passed(), "nothing measured agrees with nothing");
    }
}
