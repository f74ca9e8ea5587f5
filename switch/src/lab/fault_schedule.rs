//! The schedule of a run's faults: when each begins, ends and is routed around, and when a pause storm repeats its pause.
//!
//! It says what is due; the lab does it, between two phases, while no node runs.

use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Span, Time};

use super::scenario::{FaultKind, Scenario};

/// The begin or end of a fault, or the choice of other routes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Time,
    /// Its place in the scenario.
    pub(super) fault: usize,
    pub(super) step: Step,
}

/// What happens to a fault; those of one fault at one instant in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Ends,
    Begins,
    Reroutes,
}

/// A host that keeps its switch paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Storm {
    pub(super) host: usize,
    pub(super) priority: u8,
    /// Time of the next pause.
    due: Time,
}

/// What is still to come.
#[derive(Debug)]
pub(super) struct FaultSchedule {
    changes: VecDeque<Change>,
    storms: Vec<Storm>,
    next: Deadline,
}

impl FaultSchedule {
    pub(super) fn of(scenario: &Scenario) -> FaultSchedule {
        let mut changes = Vec::new();
        for (fault, what) in scenario.faults.iter().enumerate() {
            let mut add = |at, step| changes.push(Change { at, fault, step });
            add(what.at, Step::Begins);
            if let Some(at) = what.until {
                add(at, Step::Ends);
            }
            if let FaultKind::LinkDown { reroute_after: Some(after), .. } = what.kind {
                add(what.at + after, Step::Reroutes);
                what.until.into_iter().for_each(|until| add(until + after, Step::Reroutes));
            }
        }
        changes.sort_by_key(|change| (change.at, change.fault, change.step));
        let mut schedule =
            FaultSchedule { changes: changes.into(), storms: Vec::new(), next: Deadline::NEVER };
        schedule.plan();
        schedule
    }

    /// When something is due next.
    #[inline]
    pub(super) fn next(&self) -> Deadline {
        self.next
    }

    /// Takes a change that is due.
    pub(super) fn take_change(&mut self, now: Time) -> Option<Change> {
        let change = self.changes.pop_front_if(|change| change.at <= now);
        self.plan();
        change
    }

    /// The pause storms, by their numbers, whose next pause is due.
    pub(super) fn due_storms(&self, now: Time) -> Vec<(usize, Storm)> {
        let storms = self.storms.iter().copied().enumerate();
        storms.filter(|(_, storm)| storm.due <= now).collect()
    }

    /// A storm repeats its pause after this time.
    pub(super) fn repeat_storm(&mut self, number: usize, now: Time, after: Span) {
        self.storms[number].due = now + after;
        self.plan();
    }

    /// Begins or ends a storm.
    pub(super) fn set_storm(&mut self, host: usize, priority: u8, now: Time, begins: bool) {
        self.storms.retain(|storm| (storm.host, storm.priority) != (host, priority));
        if begins {
            self.storms.push(Storm { host, priority, due: now });
        }
        self.plan();
    }

    fn plan(&mut self) {
        let change = self.changes.front().map(|change| change.at);
        let storms = self.storms.iter().map(|storm| storm.due);
        self.next = change.into_iter().chain(storms).min().into();
    }
}
