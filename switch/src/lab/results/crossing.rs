//! Flows by the queue under test: which cross it, and which of those were active all the time.

use super::Window;
use super::flows::{active_s, all_active_s, is_limited};
use super::queues;
use crate::lab::probe;
use crate::lab::sampler::QueueKey;
use crate::tm::CLASSES;

/// A flow that was in progress for this part of the measured time counts as active all the time.
const WHOLE: f64 = 0.95;
/// Largest sum of the other flows, as a part of the measured time.
const PASSING_MAX: f64 = 0.05;
/// Largest share of packets that another queue may mark, relative to the bottleneck's share, without counting as a
/// second congestion point.
const ELSEWHERE_MAX: f64 = 0.05;

/// Which flows cross the bottleneck.
pub(super) struct Crossing(Result<Vec<bool>, String>);

impl Crossing {
    /// Of the flows of a run at its bottleneck.
    pub(super) fn new(window: &Window<'_>, bottleneck: Option<QueueKey>) -> Crossing {
        if window.seconds <= 0.0 {
            return Crossing(Err("nothing was measured".to_owned()));
        }
        let key = bottleneck.ok_or_else(|| "no queue of a switch was in use".to_owned());
        Crossing(key.and_then(|(node, port, _)| probe::crossing(window.lab, (node, port))))
    }

    /// All flows cross it.
    pub(super) fn is_of_all(&self) -> bool {
        self.0.as_ref().is_ok_and(|crosses| crosses.iter().all(|crosses| *crosses))
    }

    /// The flows that cross it, each from the begin of the measured time to its end.
    ///
    /// # Errors
    /// Why they are not.
    pub(super) fn steady(&self, window: &Window<'_>) -> Result<Vec<usize>, String> {
        let crosses = self.0.as_ref().map_err(Clone::clone)?;
        let whole = all_active_s(window);
        let (mut steady, mut passing, mut passing_s) = (Vec::new(), 0, 0.0);
        let flows = crosses.iter().zip(&window.lab.last).enumerate();
        for (number, (_, status)) in flows.filter(|(_, (crosses, _))| **crosses) {
            let active = active_s(window, status);
            if whole > 0.0 && active >= WHOLE * whole {
                steady.push(number);
            } else if active > 0.0 {
                passing += 1;
                passing_s += active;
            }
        }
        if !crosses.contains(&true) {
            return Err("no flow takes the bottleneck".into());
        }
        if steady.is_empty() && passing == 0 {
            return Err(match window.lab.last.iter().any(|flow| flow.started.is_some()) {
                true => "no flow was under way while figures were taken".into(),
                false => "no flow began".into(),
            });
        }
        if steady.is_empty() || passing_s > PASSING_MAX * whole {
            let all = steady.len() + passing;
            return Err(format!(
                "{passing} of {all} flows at the bottleneck were under way for a part of the measured time only, the fluid model has flows \
                 that stay"
            ));
        }
        if steady.iter().any(|flow| window.lab.scenario().flows[*flow].is_gated) {
            return Err(
                "flows wait for each other, the fluid model has flows that always send".into()
            );
        }
        match steady.iter().filter(|flow| is_limited(window, **flow)).count() {
            0 => Ok(steady),
            limited => Err(format!(
                "`window` limits {limited} of {} flows at the bottleneck, the fluid model has flows that always send",
                steady.len()
            )),
        }
    }
}

/// Whether flows are marked at the bottleneck alone.
///
/// # Errors
/// The other queue, or why it is unknown.
pub(super) fn only_here(
    window: &Window<'_>,
    bottleneck: QueueKey,
    flows: &[usize],
) -> Result<(), String> {
    let fabric = &window.lab.scenario().fabric;
    let share = |key: QueueKey| {
        let (packets, marked) = queues::marks(window, key)?;
        (packets > 0).then(|| marked as f64 / packets as f64)
    };
    let least = ELSEWHERE_MAX * share(bottleneck).unwrap_or(0.0);
    for node in fabric.switches() {
        for port in fabric.nodes[node].ports() {
            let keys = (0..CLASSES as u8).map(|queue| (node, port, queue));
            let marking = |key: &QueueKey| share(*key).is_some_and(|share| share > least);
            let Some(key) = keys.filter(|key| *key != bottleneck).find(marking) else { continue };
            let crosses = probe::crossing(window.lab, (node, port))?;
            if flows.iter().any(|flow| crosses[*flow]) {
                let name = queues::name(window, key);
                return Err(format!(
                    "flows are also marked at {name}, the fluid model has one congestion point"
                ));
            }
        }
    }
    Ok(())
}
