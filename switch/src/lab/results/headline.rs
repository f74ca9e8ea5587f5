//! The first table of a report: the most important figures, each beside the value of theory or a bound.

use super::estimates::Estimates;
use crate::report::{Column, Figure, Report, Table, Unit};

/// The label, its figure, and the figure that it is compared with.
const ROWS: [[&str; 3]; 13] = [
    ["throughput of all flows", "flows.throughput", "bottleneck.payload_rate"],
    ["fairness between flows (Jain)", "flows.jain", ""],
    ["completion, median", "flows.completion_p50", ""],
    ["completion, p95", "flows.completion_p95", ""],
    ["completion, p99", "flows.completion_p99", ""],
    ["slowdown, median", "flows.slowdown_p50", ""],
    ["slowdown, p95", "flows.slowdown_p95", ""],
    ["slowdown, p99", "flows.slowdown_p99", ""],
    ["queue at the bottleneck, mean", "bottleneck.queue_mean", "theory.queue_mean"],
    ["queue at the bottleneck, p99", "bottleneck.queue_p99", ""],
    ["marking probability", "bottleneck.marking_probability", "theory.marking_probability"],
    ["CNPs of a flow", "flows.cnp_rate", "theory.cnp_rate"],
    ["time that ports were paused", "pauses.time", ""],
];

/// Figures of all flows, whatever path they take.
const OF_ALL: [&str; 2] = ["flows.throughput", "flows.cnp_rate"];

/// Prefixes of names of figures over finished flows only.
const OF_FINISHED: [&str; 2] = ["flows.completion_", "flows.slowdown_"];

/// Puts the table before all others.
///
/// Figures of all flows have a value of theory only if all of them cross the bottleneck, to which theory applies.
/// `estimates` are the congestion estimates of rate controls.
/// `have_ends`: there are flows with a size.
pub(super) fn fill(
    report: &mut Report,
    (is_of_all, have_ends): (bool, bool),
    estimates: &[(String, Unit)],
) {
    let finite = |name: &str| report.find(name).filter(|figure| figure.value.is_finite());
    let shown = |name: &str| finite(name).map_or("-".to_owned(), |f| f.unit.show(f.value));
    let is_theory =
        |figure: &Figure| figure.name.starts_with("theory.") && figure.value.is_finite();
    let [measured, bound] = [ROWS[0][1], ROWS[0][2]].map(|name| finite(name).is_some());
    let note = match report.figures.iter().any(is_theory) {
        true => {
            "Theory is the fixed point of the DCQCN fluid model; of throughput, the payload that the bottleneck can carry. Of \
                 throughput and CNPs there is one where all flows cross the bottleneck."
        }
        false if is_of_all && measured && bound => {
            "Theory of throughput is the payload that the bottleneck can carry."
        }
        false => "",
    };
    let mut table = Table::new(
        "Headline figures",
        note,
        ["figure", "measured", "theory"].map(Column::words).to_vec(),
    );
    let count = |name: &str| finite(name).map_or(0.0, |figure| figure.value);
    let (flows, finished) = (count("flows.count"), count("flows.finished"));
    let part = match finished < flows {
        true => format!(", of {finished} of {flows} flows"),
        false => String::new(),
    };
    let mut rows: Vec<[String; 3]> = ROWS.map(|row| row.map(str::to_owned)).to_vec();
    let estimates = estimates.iter().map(|(name, _)| {
        let theory = if name == "alpha" { "theory.alpha" } else { "" };
        [format!("congestion estimate ({name})"), Estimates::figure(name), theory.to_owned()]
    });
    let last = rows.len() - 1;
    rows.splice(last..last, estimates);
    for [what, measured, theory] in rows {
        if finite(&measured).is_some() {
            let theory =
                if OF_ALL.contains(&measured.as_str()) && !is_of_all { "" } else { &theory };
            let is_of_finished = OF_FINISHED.iter().any(|part| measured.starts_with(part));
            let part = if is_of_finished { part.as_str() } else { "" };
            let value = shown(&measured) + part;
            table.rows.push(vec![what.into(), value.into(), shown(theory).into()]);
        }
    }
    if have_ends {
        let (text, place) = (format!("{finished} of {flows}"), table.rows.len().min(2));
        table.rows.insert(place, vec!["flows finished".into(), text.into(), "-".into()]);
    }
    report.tables.insert(0, table);
}
