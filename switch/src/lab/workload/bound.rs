//! How long a workload with gates takes where nothing but the sender's own link is shared.
//!
//! Every host sends its messages one after the other at line rate, in the order in which they are released; a message arrives after
//! the time that it takes on an empty network. Gates open as they do in a run. No run is faster, and one without contention is
//! as fast: it is what a collective is compared with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use wireyard_tables::time::{Span, Time};

use super::Need;
use crate::lab::host;
use crate::lab::ideal_completion::{first_hop, one_way};
use crate::lab::scenario::Scenario;

/// When things happen at best.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// By gate, when it opens; `None` where a need is never met.
    pub opened: Vec<Option<Time>>,
}

/// An event: a gate opens, or a message of a flow is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrived(usize, u32),
    Open(usize),
}

struct Run<'s> {
    scenario: &'s Scenario,
    missing: Vec<usize>,
    waiters: BTreeMap<(u8, usize, u32), Vec<usize>>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// By host, when its link is free.
    free: Vec<Time>,
    /// By flow, messages sent.
    sent: BTreeMap<usize, u32>,
    /// By flow: time on the first link, time to arrive.
    times: BTreeMap<usize, (Span, Span)>,
}

/// What a need is looked up by. A completion comes with the arrival here: acknowledgements are not part of the bound.
fn key(need: &Need) -> (u8, usize, u32) {
    match *need {
        Need::Arrived(flow, n) | Need::Completed(flow, n) => (0, flow, n),
        Need::Opened(gate) => (1, gate, 0),
    }
}

/// The bound of all gates of a scenario.
pub fn bound(scenario: &Scenario) -> Bound {
    let mut run = Run {
        scenario,
        missing: scenario.gates.iter().map(|gate| gate.needs.len()).collect(),
        waiters: BTreeMap::new(),
        events: BinaryHeap::new(),
        free: vec![Time::ZERO; scenario.fabric.nodes.len()],
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
            Event::Arrived(flow, number) => run.met(now, key(&Need::Arrived(flow, number))),
        }
    }
    bound
}

impl Run<'_> {
    fn send(&mut self, now: Time, flow: usize) {
        let spec = &self.scenario.flows[flow];
        let scenario = self.scenario;
        let (first, all) = *self.times.entry(flow).or_insert_with(|| {
            let length = u64::from(host::messages(spec).1);
            let all = one_way(scenario, spec, (1, length)).unwrap_or(Span::ZERO);
            (first_hop(scenario, spec).unwrap_or(Span::ZERO), all)
        });
        let begins = self.free[spec.from].max(now);
        self.free[spec.from] = begins + first;
        let number = self.sent.entry(flow).or_default();
        *number += 1;
        self.events.push(Reverse((begins + all, Event::Arrived(flow, *number))));
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
