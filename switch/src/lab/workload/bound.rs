//! The duration of a workload with gates if only each host's own link is shared, in both directions.
//!
//! Every host sends its messages one after the other at line rate, in the order in which they are released; a message
//! can arrive after its time on an empty network, and a host's link receives messages one after the other too, in the
//! order in which they can arrive. Gates open as in a run. A run without contention is as fast: a collective is
//! compared with this bound.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use wireyard_tables::time::{Span, Time};

use super::Need;
use crate::lab::host;
use crate::lab::ideal_completion::{end_hops, one_way};
use crate::lab::scenario::Scenario;

/// Earliest possible times.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// By gate, when it opens; `None` where a need is never met.
    pub opened: Vec<Option<Time>>,
}

/// An event: a message of a flow can arrive, it has arrived, or a gate opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arriving(usize, u32),
    Arrived(usize, u32),
    Open(usize),
}

struct Run<'s> {
    scenario: &'s Scenario,
    balances: bool,
    missing: Vec<usize>,
    waiters: BTreeMap<(u8, usize, u32), Vec<usize>>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// By host, when its link is free to send.
    free: Vec<Time>,
    /// By host, when the last message arrived.
    arrived: Vec<Time>,
    /// By flow, messages sent.
    sent: BTreeMap<usize, u32>,
    /// By flow: time on the first link, to arrive, on the last link.
    times: BTreeMap<usize, (Span, Span, Span)>,
}

/// The lookup key of a need. A completion is at the arrival here: acknowledgements are not part of the bound.
fn key(need: &Need) -> (u8, usize, u32) {
    match *need {
        Need::Arrived(flow, n) | Need::Completed(flow, n) => (0, flow, n),
        Need::Opened(gate) => (1, gate, 0),
    }
}

/// The bound of all gates of a scenario; `balances`: switches may send the packets of a flow over several paths.
pub fn bound(scenario: &Scenario, balances: bool) -> Bound {
    let mut run = Run {
        scenario,
        balances,
        missing: scenario.gates.iter().map(|gate| gate.needs.len()).collect(),
        waiters: BTreeMap::new(),
        events: BinaryHeap::new(),
        free: vec![Time::ZERO; scenario.fabric.nodes.len()],
        arrived: vec![Time::ZERO; scenario.fabric.nodes.len()],
        sent: BTreeMap::new(),
        times: BTreeMap::new(),
    };
    for (number, gate) in scenario.gates.iter().enumerate() {
        for need in &gate.needs {
            run.waiters.entry(key(need)).or_default().push(number);
        }
        if gate.needs.is_empty() {
            run.events.push(Reverse((Time::ZERO + gate.delay, Event::Open(number))));
        }
    }
    let mut bound = Bound { opened: vec![None; scenario.gates.len()] };
    while let Some(Reverse((now, event))) = run.events.pop() {
        match event {
            Event::Open(gate) => {
                bound.opened[gate] = Some(now);
                for flow in &scenario.gates[gate].releases {
                    run.send(now, *flow);
                }
                run.met(now, key(&Need::Opened(gate)));
            }
            Event::Arriving(flow, number) => run.receive(now, (flow, number)),
            Event::Arrived(flow, number) => run.met(now, key(&Need::Arrived(flow, number))),
        }
    }
    bound
}

impl Run<'_> {
    /// Time on the first link, to arrive, and on the last link, of a message of a flow.
    fn times(&mut self, flow: usize) -> (Span, Span, Span) {
        let scenario = self.scenario;
        *self.times.entry(flow).or_insert_with(|| {
            let spec = &scenario.flows[flow];
            let length = u64::from(host::messages(spec).length);
            let one = (1, (length, length));
            let all = one_way(scenario, spec, one, self.balances).unwrap_or(Span::ZERO);
            let (first, last) = end_hops(scenario, spec).unwrap_or((Span::ZERO, Span::ZERO));
            (first, all, last)
        })
    }

    fn send(&mut self, now: Time, flow: usize) {
        let spec = &self.scenario.flows[flow];
        let (first, all, _) = self.times(flow);
        let begins = self.free[spec.from].max(now);
        self.free[spec.from] = begins + first;
        let number = self.sent.entry(flow).or_default();
        *number += 1;
        self.events.push(Reverse((begins + all, Event::Arriving(flow, *number))));
    }

    /// A message that can arrive now arrives when the link of its receiver has received those before it.
    fn receive(&mut self, now: Time, (flow, number): (usize, u32)) {
        let last = self.times(flow).2;
        let arrived = &mut self.arrived[self.scenario.flows[flow].to];
        *arrived = now.max(*arrived + last);
        self.events.push(Reverse((*arrived, Event::Arrived(flow, number))));
    }

    fn met(&mut self, now: Time, key: (u8, usize, u32)) {
        for gate in self.waiters.remove(&key).unwrap_or_default() {
            self.missing[gate] -= 1;
            if self.missing[gate] == 0 {
                let at = now + self.scenario.gates[gate].delay;
                self.events.push(Reverse((at, Event::Open(gate))));
            }
        }
    }
}
