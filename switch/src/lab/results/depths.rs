//! Depths of queues: the distribution of the samples of the busiest.

use super::Window;
use super::queues::name;
use crate::lab::sampler::QueueKey;
use crate::report::{Axis, Layer, Plot, Report, Unit, stats};

/// Queues in the picture.
const SHOWN: usize = 8;
/// Points of a curve.
const POINTS: u32 = 200;

pub(super) fn fill(report: &mut Report, window: &Window<'_>, keys: &[QueueKey]) {
    let mut layers = Vec::new();
    for key in keys.iter().take(SHOWN) {
        let Some(track) = window.lab.sampler.queues.get(key) else { continue };
        let values = stats::sorted(window.part(&track.bytes));
        if values.is_empty() {
            continue;
        }
        let point = |n: u32| {
            let percent = f64::from(n) * 100.0 / f64::from(POINTS);
            (stats::percentile(&values, percent), f64::from(n) / f64::from(POINTS))
        };
        let points = (0..=POINTS).map(point).collect();
        layers.push(Layer::Line { name: name(window, *key), points });
    }
    if layers.is_empty() {
        return;
    }
    report.plots.push(Plot {
        id: "queue-distribution".to_owned(),
        title: "Depth of queues, distribution".to_owned(),
        caption: "Share of the samples after the warm-up in which a queue was no deeper."
            .to_owned(),
        x: Axis::from_zero("bytes waiting", Unit::Bytes),
        y: Axis { to: Some(1.0), ..Axis::from_zero("share of samples", Unit::Share) },
        layers,
    });
}
