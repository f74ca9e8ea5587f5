//! Utilisation of each link: over the measured time, and over time for the busiest.

use super::Window;
use crate::lab::sampler::seconds;
use crate::report::{Column, Report, Row, Table, Timeline, Unit, stats};

/// Directions of links that are drawn over time.
const SHOWN: usize = 24;
/// Steps of the picture.
const STEPS: usize = 200;
/// Check sequence, preamble, start and gap of a frame (IEEE 802.3 3.1.1, 4.4.2).
const ETHERNET_OVERHEAD: f64 = 24.0;

/// A direction of a link.
struct Direction<'a> {
    name: String,
    /// Bytes on the wire up to each sample.
    sent: &'a [f64],
    rate: f64,
    used: f64,
}

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let mut all = directions(window);
    let used: Vec<f64> = all.iter().map(|one| one.used).collect();
    report.figure("links.utilisation_mean", stats::mean(&used), Unit::Share);
    report.figure("links.utilisation_max", stats::largest(&used), Unit::Share);
    all.sort_by(|a, b| b.used.total_cmp(&a.used).then(a.name.cmp(&b.name)));
    all.retain(|one| one.used > 0.0);
    if all.is_empty() {
        return;
    }
    let mut table = Table::new(
        "Link utilisation",
        "Share of each direction's rate that frames with their gaps took, from the warm-up to the end of the last flow, busiest first.",
        vec![
            Column::words("link"),
            Column::numbers("rate", Unit::BitRate),
            Column::numbers("used", Unit::Share),
        ],
    );
    for one in &all {
        table.rows.push(vec![one.name.clone().into(), one.rate.into(), one.used.into()]);
    }
    report.tables.push(table);
    let times = &window.lab.sampler.times;
    let step = times.len().div_ceil(STEPS).max(1);
    let rows = all.iter().take(SHOWN).map(|one| Row {
        name: one.name.clone(),
        spans: (step..times.len())
            .step_by(step)
            .map(|end| {
                let (from, to) = (times[end - step], times[end]);
                let share = (one.sent[end] - one.sent[end - step]) * 8.0 / one.rate / (to - from);
                (from, to, share.min(1.0))
            })
            .collect(),
    });
    report.timelines.push(Timeline {
        id: "utilisation".to_owned(),
        title: "Link utilisation over time".to_owned(),
        caption: "The busiest directions of links; the height of a bar is the share of the rate that was used in that step.".to_owned(),
        range: (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0)),
        rows: rows.collect(),
    });
}

fn directions<'a>(window: &Window<'a>) -> Vec<Direction<'a>> {
    let fabric = &window.lab.scenario.fabric;
    let sampler = &window.lab.sampler;
    let mut found = Vec::new();
    for (place, sent) in sampler.links.iter().enumerate() {
        let link = &fabric.links[place / 2];
        let (from, to) = (link.ends[place % 2], link.ends[1 - place % 2]);
        let rate = link.setup.rate.get() as f64;
        let part = window.part(sent);
        // What a sample after the last flow counts was sent before.
        let end = seconds(window.lab.measured_to());
        let end = sampler.times.last().map_or(0.0, |last| last.min(end));
        let seconds = end - sampler.times.get(window.first).copied().unwrap_or(0.0);
        let used = match part {
            [first, .., last] if seconds > 0.0 => (last - first) * 8.0 / rate / seconds,
            _ => f64::NAN,
        };
        let name = format!("{}->{}", fabric.nodes[from].name, fabric.nodes[to].name);
        found.push(Direction { name, sent, rate, used });
    }
    found
}

/// Bytes on the wire of `frames` frames.
pub(in crate::lab) fn on_the_wire(frames: u64, bytes: u64, is_infiniband: bool) -> f64 {
    let overhead = if is_infiniband { 0.0 } else { ETHERNET_OVERHEAD };
    bytes as f64 + frames as f64 * overhead
}
