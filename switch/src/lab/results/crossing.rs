//! Flows by the queue that a scenario is about: which cross it, and which of those were there all the time.

use super::Window;
use super::flows::{active_s, all_active_s};
use crate::lab::probe;
use crate::lab::sampler::QueueKey;

/// A flow that was under way for this part of the measured time was there all the time.
const WHOLE: f64 = 0.95;
/// What flows that were not may add up to, as a part of the measured time.
const PASSING_MAX: f64 = 0.05;

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
    /// Why they are not so.
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
        Ok(steady)
    }
}
