//! The congestion estimates of rate controls: alpha of DCQCN, or the state that a program shows, under its own name.
//!
//! Flows of one run may have several; a flow whose rate control has none has no column and no curve, and is not in a
//! figure.

use super::Window;
use super::flow_plots::{active, layers, within};
use super::flows::Measured;
use crate::lab::scenario::Scenario;
use crate::report::{Axis, Plot, Report, Unit, stats};
use crate::roce::rp::program::Marks;

/// The estimates of a scenario.
pub(super) struct Estimates {
    /// Names, as in figures, and units.
    pub(super) kinds: Vec<(String, Unit)>,
    /// By flow, the place in `kinds`.
    of: Vec<Option<usize>>,
}

impl Estimates {
    pub(super) fn new(scenario: &Scenario) -> Estimates {
        let mut found = Estimates { kinds: Vec::new(), of: Vec::new() };
        for flow in &scenario.flows {
            let host = scenario.sender(flow);
            let place = host.estimate().map(|(name, unit)| {
                let known = found.kinds.iter().position(|(known, _)| known == name);
                known.unwrap_or_else(|| {
                    found.kinds.push((name.to_owned(), unit));
                    found.kinds.len() - 1
                })
            });
            found.of.push(place);
        }
        found
    }

    /// The estimate of a flow.
    pub(super) fn of(&self, flow: usize) -> Option<usize> {
        self.of.get(flow).copied().flatten()
    }

    /// The name of a figure.
    pub(super) fn figure(name: &str) -> String {
        format!("flows.{name}")
    }
}

/// Figures and curves. A figure with the name of an existing one is left out.
pub(super) fn fill(
    report: &mut Report,
    window: &Window<'_>,
    flows: &[Measured<'_>],
    estimates: &Estimates,
) {
    for (kind, (name, unit)) in estimates.kinds.iter().enumerate() {
        let of_kind = |(number, _): &(usize, _)| estimates.of(*number) == Some(kind);
        let figure = Estimates::figure(name);
        if report.find(&figure).is_none() {
            let values = values(window, flows.iter().enumerate().filter(of_kind));
            report.figure(figure, stats::mean(&values), *unit);
        }
        let (times, sampler) = (&window.lab.sampler.times, &window.lab.sampler);
        let names: Vec<&str> =
            flows.iter().enumerate().filter(of_kind).map(|(_, flow)| flow.name.as_str()).collect();
        let curves = flows.iter().zip(&sampler.flows).enumerate();
        let curves = curves.filter(|(number, _)| estimates.of(*number) == Some(kind));
        let curves: Vec<Vec<f64>> = curves
            .map(|(_, (flow, track))| within(&track.estimate, &active(times, flow)))
            .collect();
        report.plots.push(Plot {
            id: format!("estimate-{name}"),
            title: "Congestion estimate".to_owned(),
            caption: format!("{name} of each flow, as rate control has it."),
            x: Axis::from_zero("time", Unit::Seconds),
            y: Axis::from_zero(name, *unit),
            layers: layers(&names, times, &curves, true),
        });
    }
}

/// Estimates at all samples after the warm-up, of flows in progress: of those that had a CNP, and of all whose rate
/// control has another input.
fn values<'f, 'a: 'f>(
    window: &Window<'_>,
    flows: impl Iterator<Item = (usize, &'f Measured<'a>)>,
) -> Vec<f64> {
    let scenario = window.lab.scenario();
    let (times, first) = (&window.lab.sampler.times, window.first);
    let mut found = Vec::new();
    for (number, flow) in flows {
        let Some(track) = window.lab.sampler.flows.get(number) else { continue };
        let marks =
            scenario.sender(flow.spec).rate_program.as_ref().map(|of| of.notification().marks);
        if flow.now.cnps > 0 || marks.is_some_and(|marks| marks != Marks::Cnp) {
            let active = active(times, flow);
            let part = track.estimate.get(active.start.max(first)..active.end);
            found.extend_from_slice(part.unwrap_or_default());
        }
    }
    found
}
