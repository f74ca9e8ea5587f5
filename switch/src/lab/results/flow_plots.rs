//! Flows over time, as pictures and series: throughput, rates; and the distributions of completion times and rates.
//!
//! A few flows have a line each. For many, the picture has their mean and the band with nine tenths of them. A flow has
//! values only from its start to its end.

use super::Window;
use super::crossing::Crossing;
use super::estimates::Estimates;
use super::flows::Measured;
use crate::lab::sampler::{FlowTrack, QueueKey, seconds};
use crate::report::{Axis, Layer, Plot, Report, Series, Unit, stats};

/// Flows that have a line each.
const LINES_MAX: usize = 8;
/// Points of a picture.
const POINTS: usize = 400;

pub(super) fn fill(
    report: &mut Report,
    window: &Window<'_>,
    (flows, estimates): (&[Measured<'_>], &Estimates),
    (bottleneck, crossing): (Option<QueueKey>, &Crossing),
) {
    let rate = bottleneck.and_then(|key| payload_rate(window, key));
    report.figure("bottleneck.payload_rate", rate.unwrap_or(f64::NAN), Unit::BitRate);
    // A fair share is that of a link which all of them use.
    let fair = rate.filter(|_| crossing.is_of_all()).map(|rate| rate / flows.len() as f64);
    throughput(report, window, flows, fair);
    reaction_point(report, window, (flows, estimates), fair);
    super::flow_paths::fill(report, window, flows);
    distributions(report, flows);
}

/// Payload that the bottleneck can carry, bit/s.
fn payload_rate(window: &Window<'_>, key: QueueKey) -> Option<f64> {
    let wire = super::theory::packet_bytes(window).1;
    let part = window.lab.scenario().host.path_mtu.get() as f64 / wire;
    Some(super::capacity::capacity(window, key)?.get() as f64 * part)
}

/// The samples in which a flow is in progress.
pub(super) fn active(times: &[f64], flow: &Measured<'_>) -> std::ops::Range<usize> {
    let first = flow
        .now
        .started
        .map_or(times.len(), |started| times.partition_point(|time| *time < seconds(started)));
    let last = flow
        .now
        .ended()
        .map_or(times.len(), |ended| times.partition_point(|time| *time < seconds(ended)) + 1);
    first..last.clamp(first, times.len())
}

/// Not a number outside of a range.
pub(super) fn within(values: &[f64], range: &std::ops::Range<usize>) -> Vec<f64> {
    let value = |(index, value): (usize, &f64)| match range.contains(&index) {
        true => *value,
        false => f64::NAN,
    };
    values.iter().enumerate().map(value).collect()
}

/// A line for each of a few, mean and band of many; every value at the same instants. Names are those of all flows,
/// values those of the sampled ones.
pub(super) fn layers(
    names: &[&str],
    times: &[f64],
    values: &[Vec<f64>],
    steps: bool,
) -> Vec<Layer> {
    let line = |name: String, points: Vec<(f64, f64)>| match steps {
        true => Layer::Steps { name, points },
        false => Layer::Line { name, points },
    };
    if values.len() <= LINES_MAX {
        let each = names.iter().zip(values).map(|(name, values)| {
            let points = times.iter().copied().zip(values.iter().copied());
            line((*name).to_owned(), points.collect())
        });
        return each.collect();
    }
    let stride = times.len().div_ceil(POINTS).max(1);
    let (mut mean, mut band) = (Vec::new(), Vec::new());
    for (index, time) in times.iter().enumerate().step_by(stride) {
        let here = values.iter().filter_map(|v| v.get(index).copied().filter(|v| v.is_finite()));
        let here = stats::sorted(&here.collect::<Vec<_>>());
        mean.push((*time, stats::mean(&here)));
        band.push((*time, stats::percentile(&here, 5.0), stats::percentile(&here, 95.0)));
    }
    let name = match (values.len(), names.len()) {
        (count, all) if count < all => format!("mean of the first {count} of {all} flows"),
        (count, _) => format!("mean of {count} flows"),
    };
    vec![Layer::Band { name: "p5 to p95".to_owned(), points: band }, line(name, mean)]
}

/// A dashed line over the whole picture.
fn level(name: &str, value: f64, times: &[f64]) -> Option<Layer> {
    let (first, last) = times.first().zip(times.last())?;
    let points = vec![(*first, value), (*last, value)];
    Some(Layer::Reference { name: name.to_owned(), points })
}

/// A counter of each flow as a series, and its changes per second, times `scale`, as means over each step of the picture.
pub(super) fn changes(
    report: &mut Report,
    window: &Window<'_>,
    flows: &[Measured<'_>],
    (what, unit, scale): (&str, Unit, f64),
    total: fn(&FlowTrack) -> &[f64],
) -> Vec<Layer> {
    let times = &window.lab.sampler.times;
    let step = times.len().div_ceil(POINTS).max(1);
    let ends: Vec<usize> = (step..times.len()).step_by(step).collect();
    let at: Vec<f64> = ends.iter().map(|end| times[*end]).collect();
    let mut rates = Vec::new();
    for (flow, track) in flows.iter().zip(&window.lab.sampler.flows) {
        let (total, active) = (total(track), active(times, flow));
        let rate = |end: &usize| {
            let is_active = active.start < *end && end - step < active.end;
            let change = (total[*end] - total[end - step]) * scale;
            if is_active { change / (times[*end] - times[end - step]) } else { f64::NAN }
        };
        rates.push(ends.iter().map(rate).collect());
        let (name, values) = (format!("{} {what}", flow.name), within(total, &active));
        report.series.push(Series { name, unit, values });
    }
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    layers(&names, &at, &rates, false)
}

fn throughput(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>], fair: Option<f64>) {
    let delivered = ("delivered", Unit::Bytes, 8.0);
    let mut layers = changes(report, window, flows, delivered, |track| &track.delivered);
    layers.extend(fair.and_then(|fair| level("fair share", fair, &window.lab.sampler.times)));
    report.plots.push(Plot {
        id: "throughput".to_owned(),
        title: "Throughput of flows".to_owned(),
        caption: "Payload delivered, as a mean over each step of the picture.".to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("throughput", Unit::BitRate),
        layers,
    });
}

fn reaction_point(
    report: &mut Report,
    window: &Window<'_>,
    (flows, estimates): (&[Measured<'_>], &Estimates),
    fair: Option<f64>,
) {
    let times = &window.lab.sampler.times;
    let mut rates = Vec::new();
    for (number, (flow, track)) in flows.iter().zip(&window.lab.sampler.flows).enumerate() {
        let active = active(times, flow);
        let rate = within(&track.rate, &active);
        rates.push(rate.clone());
        let mut add = |what: &str, unit: Unit, values: Vec<f64>| {
            report.series.push(Series { name: format!("{} {what}", flow.name), unit, values });
        };
        add("rate", Unit::BitRate, rate);
        if let Some(kind) = estimates.of(number) {
            let (name, unit) = &estimates.kinds[kind];
            add(name, *unit, within(&track.estimate, &active));
        }
    }
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    let mut drawn = layers(&names, times, &rates, true);
    drawn.extend(fair.and_then(|fair| level("fair share", fair, times)));
    report.plots.push(Plot {
        id: "rates".to_owned(),
        title: "Rate at the reaction point".to_owned(),
        caption: "What rate control allows each flow.".to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("rate", Unit::BitRate),
        layers: drawn,
    });
}

fn distributions(report: &mut Report, flows: &[Measured<'_>]) {
    let times = flows.iter().filter_map(|flow| flow.completion).collect::<Vec<_>>();
    let slow = flows.iter().filter_map(|flow| flow.slowdown).collect::<Vec<_>>();
    if times.len() < 2 {
        return;
    }
    // Unfinished flows are not in the curve, which ends below one by their share.
    let ending = flows.iter().filter(|flow| flow.spec.size.is_some()).count().max(times.len());
    let mut add = |id: &str, title: &str, name: &str, unit: Unit, values: &[f64]| {
        let share = values.len() as f64 / ending as f64;
        let points = stats::distribution(&stats::sorted(values));
        let caption = match ending - values.len() {
            0 => "Share of flows that took no longer.".to_owned(),
            left => format!(
                "Share of all {ending} flows that took no longer. {left} of them were not finished at the end of the run, and the \
                 curve ends below 100 %."
            ),
        };
        report.plots.push(Plot {
            id: id.to_owned(),
            title: title.to_owned(),
            caption,
            x: Axis::fitting(name, unit, values),
            y: Axis { to: Some(1.0), ..Axis::from_zero("share of flows", Unit::Share) },
            layers: vec![Layer::Steps {
                name: format!("{} of {ending} flows", values.len()),
                points: points.into_iter().map(|(value, part)| (value, part * share)).collect(),
            }],
        });
    };
    add("completion", "Flow completion time", "time", Unit::Seconds, &times);
    add("slowdown", "Slowdown", "slowdown", Unit::Plain, &slow);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_says_of_which_flows_it_is() {
        let (names, times) = (vec!["f"; 98], [0.0, 1.0]);
        let values = vec![vec![1.0, 2.0]; 64];
        let name = |names: &[&str]| layers(names, &times, &values, false)[1].name().to_owned();
        assert_eq!(name(&names), "mean of the first 64 of 98 flows");
        assert_eq!(name(&names[..64]), "mean of 64 flows");
    }
}
