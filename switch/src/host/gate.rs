//! Gates: conditions at a host before messages may be posted, as each step of a collective needs the data of the one
//! before.
//!
//! A gate waits for messages that arrived (a receive completed), for messages of this host's flows that were completed,
//! and for other gates of the host; then, after a delay, it opens once and releases one message of each of its flows.
//! All of these are events of the host itself, as for a process that polls its completion queue: no gate depends on
//! another host's state. The condition that was met last, and its time, stay readable: the gate waited for it.

use std::collections::BTreeMap;

use wireyard_tables::time::{Span, Time};

use super::flow::FlowId;

/// A gate of an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateId(pub u32);

/// A condition of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// This queue pair, which has a receive ring, received this many messages.
    Arrived {
        /// Queue pair.
        qp: u32,
        /// The first message is 1.
        message: u64,
    },
    /// This many messages of a flow of this host are completed.
    Completed {
        /// Flow.
        flow: FlowId,
        /// The first message is 1.
        message: u64,
    },
    /// Another gate opened.
    Opened(GateId),
}

/// The report of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateReport {
    /// When the last of its needs was met; the start of the run without needs.
    pub ready: Option<Time>,
    /// When it opened.
    pub opened: Option<Time>,
    /// Index of the need that was met last.
    pub last: Option<u32>,
    /// Needs that are not met.
    pub missing: u32,
}

#[derive(Debug)]
struct Gate {
    report: GateReport,
    delay: Span,
    releases: Vec<u32>,
}

/// The gates of an end point, and the gates that wait for each condition.
#[derive(Debug, Default)]
pub(super) struct Gates {
    gates: Vec<Gate>,
    waiters: BTreeMap<Need, Vec<(u32, u32)>>,
}

impl Gates {
    pub(super) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    pub(super) fn add(&mut self, needs: &[Need], delay: Span, releases: Vec<u32>) -> GateId {
        let id = self.gates.len() as u32;
        for (place, need) in needs.iter().enumerate() {
            self.waiters.entry(*need).or_default().push((id, place as u32));
        }
        let ready = needs.is_empty().then_some(Time::ZERO);
        let report = GateReport { ready, missing: needs.len() as u32, ..GateReport::default() };
        self.gates.push(Gate { report, delay, releases });
        GateId(id)
    }

    /// The gates whose last need this was, and when each opens.
    pub(super) fn met(&mut self, now: Time, need: Need) -> Vec<(u32, Time)> {
        let mut ready = Vec::new();
        for (index, place) in self.waiters.remove(&need).unwrap_or_default() {
            let Some(gate) = self.gates.get_mut(index as usize) else { continue };
            gate.report.missing -= 1;
            if gate.report.missing == 0 {
                (gate.report.ready, gate.report.last) = (Some(now), Some(place));
                ready.push((index, now + gate.delay));
            }
        }
        ready
    }

    /// Opens a gate; returns the flows of which it releases a message.
    pub(super) fn open(&mut self, now: Time, index: u32) -> Vec<u32> {
        let Some(gate) = self.gates.get_mut(index as usize) else { return Vec::new() };
        gate.report.opened = Some(now);
        std::mem::take(&mut gate.releases)
    }

    pub(super) fn report(&self, id: GateId) -> Option<GateReport> {
        self.gates.get(id.0 as usize).map(|gate| gate.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_once_after_its_last_need_and_says_which_that_was() {
        let mut gates = Gates::default();
        let arrived = |message| Need::Arrived { qp: 7, message };
        let first = gates.add(&[arrived(1), arrived(2)], Span::from_ns(5), vec![3]);
        let second = gates.add(&[arrived(2), Need::Opened(first)], Span::ZERO, vec![4]);
        let at = Time::from_ns;
        assert!(gates.met(at(10), arrived(2)).is_empty());
        assert_eq!(gates.met(at(20), arrived(1)), [(0, at(25))]);
        assert!(gates.met(at(21), arrived(1)).is_empty(), "a need is met once");
        assert_eq!(gates.open(at(25), 0), [3]);
        assert_eq!(gates.met(at(25), Need::Opened(first)), [(1, at(25))]);
        let report = gates.report(second).unwrap();
        assert_eq!((report.ready, report.last, report.missing), (Some(at(25)), Some(1), 0));
        assert_eq!(gates.report(first).unwrap().last, Some(0));
    }
}
