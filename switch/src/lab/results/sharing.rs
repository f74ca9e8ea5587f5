//! Fairness over time, and its convergence.
//!
//! Jain's index of the throughput of all flows in progress in a step of the picture. Whenever a flow begins or ends,
//! the shares change: the time from then until the index is 0.95, in that step and in the mean of the next ones, is the
//! convergence time. There is none where a set of flows never comes there.

use super::Window;
use super::flow_plots::active;
use super::flows::Measured;
use crate::report::{Axis, Layer, Plot, Report, Unit, stats};

/// The index that counts as fair.
const FAIR: f64 = 0.95;
/// Steps of the picture, and of the search.
const STEPS: usize = 100;
/// Least steps of a set of flows to be counted.
const STEPS_MIN: usize = 4;

pub(super) fn fill(report: &mut Report, window: &Window<'_>, flows: &[Measured<'_>]) {
    let curve = fairness(window, flows);
    let longest = convergence(&curve).unwrap_or(f64::NAN);
    report.figure("flows.convergence_time", longest, Unit::Seconds);
    report.figure("flows.jain_over_time", mean_index(&curve), Unit::Plain);
    if curve.iter().all(|point| point.1.is_nan()) {
        return;
    }
    let points = curve.iter().map(|point| (point.0, point.1)).collect();
    let ends = curve.first().zip(curve.last()).map(|(a, b)| vec![(a.0, FAIR), (b.0, FAIR)]);
    let mut layers = vec![Layer::Line { name: "Jain's index".to_owned(), points }];
    layers.extend(ends.map(|points| Layer::Reference { name: "0.95".to_owned(), points }));
    report.plots.push(Plot {
        id: "fairness".to_owned(),
        title: "Fairness over time".to_owned(),
        caption: "Jain's index of the throughput of all flows under way: 1 where all have the same, 1/n where one has everything.".to_owned(),
        x: Axis::from_zero("time", Unit::Seconds),
        y: Axis { from: Some(0.0), to: Some(1.0), ..Axis::new("index", Unit::Plain) },
        layers,
    });
}

fn mean_index(curve: &[(f64, f64, Vec<usize>)]) -> f64 {
    let values: Vec<f64> =
        curve.iter().map(|point| point.1).filter(|index| index.is_finite()).collect();
    stats::mean(&values)
}

/// Time, index, and the flows in progress during the whole step; NaN with fewer than two.
fn fairness(window: &Window<'_>, flows: &[Measured<'_>]) -> Vec<(f64, f64, Vec<usize>)> {
    let times = &window.lab.sampler.times;
    let step = times.len().div_ceil(STEPS).max(1);
    let tracks: Vec<_> = flows.iter().zip(&window.lab.sampler.flows).collect();
    let ranges: Vec<_> = tracks.iter().map(|(flow, _)| active(times, flow)).collect();
    let mut curve = Vec::new();
    for end in (step..times.len()).step_by(step) {
        let begin = end - step;
        let under_way: Vec<usize> = (0..tracks.len())
            .filter(|n| ranges[*n].start <= begin && end < ranges[*n].end)
            .collect();
        let rates: Vec<f64> = under_way
            .iter()
            .map(|n| tracks[*n].1.delivered[end] - tracks[*n].1.delivered[begin])
            .collect();
        let index = if under_way.len() < 2 { f64::NAN } else { stats::jain(&rates) };
        curve.push((times[end], index, under_way));
    }
    curve
}

/// Steps before the index is fair, in a step and in the mean of those after it: one step has too few packets.
fn steps_until_fair(part: &[(f64, f64, Vec<usize>)]) -> Option<usize> {
    let is_fair = |at: &usize| {
        let steps: Vec<f64> = part[*at..].iter().take(STEPS_MIN).map(|point| point.1).collect();
        steps[0] >= FAIR && stats::mean(&steps) >= FAIR
    };
    (0..part.len()).find(is_fair)
}

/// The longest time from the begin of a period, with the same flows in progress, until the index is fair; `None` if it
/// never is in one, or no period counts.
fn convergence(curve: &[(f64, f64, Vec<usize>)]) -> Option<f64> {
    let mut longest: Option<f64> = None;
    let mut first = 0;
    while first < curve.len() {
        let same = curve[first..].iter().take_while(|point| point.2 == curve[first].2).count();
        let part = &curve[first..first + same];
        if same >= STEPS_MIN && part[0].2.len() > 1 {
            let from = if first == 0 { 0.0 } else { curve[first - 1].0 };
            let unfair = steps_until_fair(part)?;
            let time = unfair.checked_sub(1).map_or(0.0, |place| part[place].0 - from);
            longest = Some(longest.map_or(time, |known| known.max(time)));
        }
        first += same;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 1 s with these indices, of flows 0 and 1.
    fn period(from: usize, indices: &[f64], flows: &[usize]) -> Vec<(f64, f64, Vec<usize>)> {
        let step = |(n, index): (usize, &f64)| ((from + n + 1) as f64, *index, flows.to_vec());
        indices.iter().enumerate().map(step).collect()
    }

    #[test]
    fn what_never_becomes_fair_has_no_convergence_time() {
        let fair = period(0, &[0.5, 0.6, 1.0, 1.0, 1.0, 1.0], &[0, 1]);
        assert_eq!(convergence(&fair), Some(2.0));
        assert_eq!(convergence(&period(0, &[0.5; 6], &[0, 1])), None);
        // A third flow joins: the longest of both periods, or nothing.
        let joined = [fair.clone(), period(6, &[0.5, 1.0, 1.0, 1.0], &[0, 1, 2])].concat();
        assert_eq!(convergence(&joined), Some(2.0));
        let never = [fair, period(6, &[0.5; 4], &[0, 1, 2])].concat();
        assert_eq!(convergence(&never), None);
        assert_eq!(convergence(&period(0, &[f64::NAN; 6], &[0])), None, "one flow alone");
    }
}
