//! What senders know of their paths over time, as pictures and series: window, round-trip time, marks.

use super::Window;
use super::flow_plots::{active, changes, layers, within};
use super::flows::Measured;
use crate::lab::sampler::FlowTrack;
use crate::report::{Axis, Plot, Report, Series, Unit};

/// A picture and the series in it.
struct Kind {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    /// Name of the series, behind that of the flow, and of the axis.
    name: &'static str,
    unit: Unit,
    values: fn(&FlowTrack) -> &[f64],
}

const KINDS: [Kind; 2] = [
    Kind {
        id: "windows",
        title: "Window",
        caption: "Payload that rate control lets each flow have without an acknowledgement.",
        name: "window",
        unit: Unit::Bytes,
        values: |track| &track.window,
    },
    Kind {
        id: "round-trips",
        title: "Round-trip time",
        caption: "From the departure of a packet to its acknowledgement: the newest that the sender measured.",
        name: "round trip",
        unit: Unit::Seconds,
        values: |track| &track.round_trip,
    },
];

pub(super) fn fill(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    KINDS.iter().for_each(|kind| measured(report, window, flows, kind));
    marks(report, window, flows);
}

/// Values that not every flow has.
fn measured(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>], kind: &Kind) {
    let times = &window.lab.sampler.times;
    let (mut names, mut curves) = (Vec::new(), Vec::new());
    for (flow, track) in flows.iter().zip(&window.lab.sampler.flows) {
        let values = within((kind.values)(track), &active(times, flow));
        if values.iter().all(|value| value.is_nan()) {
            continue;
        }
        let name = format!("{} {}", flow.name, kind.name);
        report.series.push(Series { name, unit: kind.unit, values: values.clone() });
        names.push(flow.name.as_str());
        curves.push(values);
    }
    if curves.is_empty() {
        return;
    }
    report.plots.push(Plot {
        id: kind.id.to_owned(),
        title: kind.title.to_owned(),
        caption: kind.caption.to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero(kind.name, kind.unit),
        layers: layers(&names, times, &curves, true),
    });
}

/// Marks as they are counted, and in the picture by time.
fn marks(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    let mut tracks = window.lab.sampler.flows.iter();
    if tracks.all(|track| track.marks.last().is_none_or(|marks| *marks == 0.0)) {
        return;
    }
    let layers = changes(report, window, flows, ("marks", Unit::Count, 1.0), |track| &track.marks);
    report.plots.push(Plot {
        id: "marks".to_owned(),
        title: "Marks that senders received".to_owned(),
        caption: "CNPs, and packets that acknowledgements reported as marked, as a mean over each step of the picture."
            .to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis::from_zero("marks", Unit::PerSecond),
        layers,
    });
}
