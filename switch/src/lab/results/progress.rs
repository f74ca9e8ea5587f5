//! A note for a run in which nothing arrived, with the reason: no flow was drawn, packets were dropped, a queue is
//! stopped, or no response came back.

use super::{Window, queues};
use crate::report::Report;
use crate::tm::CLASSES;

/// Reasons that are shown.
const TOLD_MAX: usize = 4;

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    let lab = window.lab;
    if lab.scenario().flows.is_empty() {
        report.fact("progress", "none: no flow was drawn in the time of the run, nothing was sent");
        return;
    }
    let base = |number: usize| lab.sampler.flow_base.get(number).copied().unwrap_or_default();
    let moved = |(number, now): (usize, &crate::lab::host::FlowStatus)| {
        now.delivered_bytes > base(number).delivered_bytes || now.finished.is_some()
    };
    if lab.last.iter().enumerate().any(moved) || !lab.last.iter().any(|now| now.started.is_some()) {
        return;
    }
    let mut reasons = paused(window);
    reasons.extend(dropped(window));
    let more = reasons.len().saturating_sub(TOLD_MAX);
    reasons.truncate(TOLD_MAX);
    if more > 0 {
        reasons.push(format!("{more} more"));
    }
    if reasons.is_empty() {
        reasons.push("no packet was dropped and no queue is paused".to_owned());
    }
    report.fact("progress", format!("none: no flow delivered anything: {}", reasons.join("; ")));
}

/// Queues with packets that their peer keeps paused.
fn paused(window: &Window<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let fabric = &window.lab.scenario.fabric;
    for (node, description) in fabric.nodes.iter().enumerate() {
        for port in description.ports() {
            let Some(status) = window.port(node, port) else { continue };
            let stands =
                |queue: &usize| status.queues[*queue].paused && status.queues[*queue].packets > 0;
            let names = (0..CLASSES).filter(stands).map(|queue| (node, port, queue as u8));
            found.extend(names.map(|key| format!("{} is paused", queues::name(window, key))));
        }
    }
    found
}

/// Devices that dropped packets, with the reasons.
fn dropped(window: &Window<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (node, core) in window.lab.scenario.fabric.nodes.iter().zip(&window.lab.cores) {
        let reasons = core.report().dropped;
        found.extend(reasons.iter().map(|(why, n)| format!("{} dropped {n}: {why}", node.name)));
    }
    found
}
