//! Virtual time: who is next, until the end.
//!
//! Sources of events, in the order in which equal instants are served: faults, nodes (by number), samples. A node's next
//! instant is what its core says: a frame that arrives, a timer of the traffic manager, an end point that may send. Polling a
//! node can bring its neighbours forward, by frames that will arrive; nothing else can change them. So a node goes on by itself
//! up to the instant before which nothing new can reach it, which the delays of links give; the result is the same
//! (`tests.rs` holds the two against each other), and it is faster because code and state stay in the cache.

use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Span, Time};

use super::arrival_index::ArrivalIndex;
use super::build::{self, Options};
use super::cable::Cabling;
use super::checks::{Checks, Violation};
use super::event_queue::EventQueue;
use super::failure_trace::Watch;
use super::host::{self, Connection, FlowStatus};
use super::link::Direction;
use super::node_state::{self, NodeState};
use super::sampler::Sampler;
use super::scenario::{FaultKind, Scenario};
use super::thresholds::Thresholds;
use crate::core::Core;
use crate::host::{GateId, GateReport};
use crate::program::Loaded;

/// Source of faults.
const FAULTS: usize = 0;
/// Source of node 0; the others follow.
const NODES: usize = 1;
/// Polls of one node at one instant after which it does not stop by itself.
const POLLS_MAX: u32 = 100_000;

/// How far a run is: for progress lines.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Now.
    pub now: Time,
    /// Where it ends.
    pub end: Time,
    /// Polls of nodes so far.
    pub events: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At the end of the scenario.
    Complete,
    /// Earlier: every flow was done and nothing was under way.
    Drained,
    /// The caller stopped it.
    Interrupted,
    /// A check failed, or nothing could go on.
    Failed(Violation),
}

/// A fault that begins or ends, or whose routes are chosen anew.
#[derive(Clone, Debug)]
struct Change {
    at: Time,
    fault: usize,
    step: Step,
}

/// In the order in which those of one instant are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ends,
    Begins,
    Reroutes,
}

/// A lab that can be run, by the thread that built it.
pub struct Lab {
    pub(super) scenario: Arc<Scenario>,
    pub(super) seed: u64,
    pub(super) mem: PacketMemory,
    pub(super) cores: Vec<Core>,
    pub(super) flows: Vec<Connection>,
    pub(super) gates: Vec<GateId>,
    /// What became of them, when that was last asked for.
    pub(super) gate_reports: Vec<GateReport>,
    /// Flows that are not done.
    open: Vec<usize>,
    /// Bytes that the others delivered.
    settled_bytes: u64,
    pub(super) links: Vec<[Arc<Direction>; 2]>,
    arrival_index: Arc<ArrivalIndex>,
    /// By node, what is known of it between two polls.
    node_states: Vec<NodeState>,
    /// By place: where a frame that this port sends arrives, and the node there.
    far: Vec<(usize, usize)>,
    /// Ports of the node at hand that have something.
    due: Vec<u16>,
    /// Links lead through the kernel.
    is_live: bool,
    /// What switches run, without entries.
    pub(super) base: Loaded,
    pub(super) entries: Vec<(String, String)>,
    event_queue: EventQueue,
    changes: Vec<Change>,
    pub(super) sampler: Sampler,
    pub(super) checks: Checks,
    now: Time,
    /// Counters of all flows when they were last asked for.
    pub(super) last: Vec<FlowStatus>,
    pub(super) events: u64,
    /// How often nodes wanted to be polled again at once, since one did not.
    polls: u32,
    /// Hosts that keep their switch paused, the priority, and when they say so next.
    storms: Vec<(usize, u8, Time)>,
    /// Who looks over the shoulder of this run, and after the failure of which check.
    pub(super) watch: Option<Box<Watch>>,
    pub(super) watched_check: &'static str,
    /// Thresholds as configured, and faults that change them.
    pub(super) thresholds: Thresholds,
}

impl Lab {
    /// Builds the devices of a scenario.
    ///
    /// # Errors
    /// What cannot be built, in words.
    pub fn new(scenario: Arc<Scenario>, options: Options) -> Result<Lab, String> {
        Lab::over(scenario, options, None)
    }

    /// The same, with links over cables of the kernel.
    ///
    /// # Errors
    /// As [`Lab::new`].
    pub fn over(
        scenario: Arc<Scenario>,
        options: Options,
        cabling: Option<&Cabling>,
    ) -> Result<Lab, String> {
        let devices = build::devices(&scenario, options, cabling)?;
        let fabric = &scenario.fabric;
        let places = build::first_places(fabric);
        let mut lab = Lab {
            seed: options.seed.unwrap_or(scenario.seed),
            mem: devices.mem,
            cores: devices.cores,
            flows: devices.flows,
            gates: devices.gates,
            gate_reports: Vec::new(),
            open: (0..scenario.flows.len()).collect(),
            settled_bytes: 0,
            links: devices.links,
            arrival_index: devices.arrival_index,
            node_states: node_state::all(fabric, &places),
            far: node_state::far_ends(fabric, &places),
            due: Vec::new(),
            is_live: cabling.is_some(),
            base: devices.base,
            entries: devices.entries,
            event_queue: EventQueue::new(fabric.nodes.len() + 2),
            changes: changes(&scenario),
            sampler: Sampler::new(&scenario),
            checks: Checks::default(),
            now: Time::ZERO,
            last: Vec::new(),
            events: 0,
            polls: 0,
            storms: Vec::new(),
            watch: None,
            watched_check: "",
            thresholds: Thresholds::default(),
            scenario,
        };
        lab.sampler.prepare(&mut lab.cores);
        for node in 0..lab.cores.len() {
            lab.event_queue.set(NODES + node, Time::ZERO);
        }
        lab.event_queue.set(lab.samples(), Time::ZERO);
        lab.plan_faults();
        lab.last = lab.statuses();
        Ok(lab)
    }

    fn end(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }

    fn samples(&self) -> usize {
        NODES + self.cores.len()
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Entries files of the switches, by name, as they were loaded.
    pub fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// What was captured, by name of the link. The captures end.
    pub fn captures(&mut self) -> Vec<(String, Vec<u8>)> {
        let fabric = &self.scenario.fabric;
        let captured = self.scenario.captures.iter().filter_map(|capture| {
            let taps = self.links[capture.link].iter().map(|direction| direction.take_capture());
            let file = taps.flatten().map(super::tap::Tap::bytes).find(|bytes| !bytes.is_empty());
            Some((fabric.link_name(capture.link), file?))
        });
        captured.collect()
    }

    /// Runs to the end. `pulse` gets at every sample how far it is, and says whether to go on.
    pub fn run(&mut self, pulse: &mut dyn FnMut(Pulse) -> bool) -> Outcome {
        self.run_paced(&mut |at| at, &mut |now, _| pulse(now))
    }

    /// The same, for a caller whose time is not virtual: `reach` returns when it is time for an event. `pulse` may look at the
    /// lab.
    pub fn run_paced(
        &mut self,
        reach: &mut impl FnMut(Time) -> Time,
        pulse: &mut dyn FnMut(Pulse, &mut Lab) -> bool,
    ) -> Outcome {
        let end = self.end();
        let samples = self.samples();
        while let Some((at, source)) = self.event_queue.first() {
            if at > end {
                break;
            }
            self.now = reach(at);
            if source == FAULTS {
                if let Err(violation) = self.change() {
                    return Outcome::Failed(violation);
                }
            } else if source == samples {
                self.event_queue.set(samples, at + self.scenario.sample);
                if let Err(violation) = self.sample() {
                    return Outcome::Failed(violation);
                }
                if !pulse(Pulse { now: self.now, end, events: self.events }, self) {
                    return Outcome::Interrupted;
                }
                if self.is_drained() {
                    return self.finish(Outcome::Drained);
                }
            } else if let Err(violation) = self.turn(source - NODES) {
                return Outcome::Failed(violation);
            }
        }
        self.now = self.now.max(end);
        self.finish(Outcome::Complete)
    }

    /// The last checks.
    pub(super) fn finish(&mut self, outcome: Outcome) -> Outcome {
        self.settle(self.now);
        self.last = self.statuses();
        let checked = self.check_all();
        match self.out_of_memory().map_or(checked, Err) {
            Ok(()) => outcome,
            Err(violation) => Outcome::Failed(violation),
        }
    }

    /// Lets a node do what is due, and what comes next while no frame can reach it that is not on its way yet. What it sends
    /// meanwhile waits in the arrival index, so the result is that of one event after the other; and a node at work is cheaper than a
    /// change of nodes.
    #[inline]
    fn turn(&mut self, node: usize) -> Result<(), Violation> {
        let mut horizon = self.horizon(node);
        loop {
            let next = self.poll(node, &mut horizon)?;
            if next >= horizon {
                self.event_queue.set(NODES + node, next);
                return Ok(());
            }
            self.now = next;
        }
    }

    /// Nothing reaches a node before this instant but what is on its way: no other has anything to do before the first of them
    /// has, and its frame takes a while; longer still where it comes to a switch first. Faults and samples find all nodes at the same
    /// time.
    #[inline]
    fn horizon(&self, node: usize) -> Time {
        if self.is_live || self.watch.is_some() {
            return Time::ZERO;
        }
        let node_state = &self.node_states[node];
        let mut others = self.event_queue.first_but(NODES + node);
        if let Some((gate, nearest)) = node_state.gate {
            // All that comes from further away comes to the gate first.
            others = (others + nearest).min(self.event_queue.at(NODES + gate));
        }
        let changes = self.event_queue.at(FAULTS).min(self.event_queue.at(self.samples()));
        // What is due at the end is done.
        let over = self.end() + Span::from_ps(1);
        (others + node_state.nearest).min(changes).min(over)
    }

    /// Lets a node do what is due. Gives the next instant, and brings the horizon nearer by the answer to what it sent.
    #[inline]
    fn poll(&mut self, node: usize, horizon: &mut Time) -> Result<Time, Violation> {
        self.events += 1;
        let (next, sent) = match self.is_live {
            true => (self.poll_all(node), true),
            false => self.poll_due(node),
        };
        if sent {
            let (event_queue, node_state) = (&mut self.event_queue, &self.node_states[node]);
            self.arrival_index.take_sent(|place| {
                let (place, node) = self.far[place];
                let at = self.arrival_index.arrival(place);
                event_queue.not_after(NODES + node, at);
                *horizon = (at + node_state.nearest).min(*horizon);
            });
        }
        if self.watch.is_some() {
            self.look(node)?;
        }
        if next > self.now {
            self.polls = 0;
            return Ok(next);
        }
        self.polls += 1;
        if self.polls > POLLS_MAX {
            if let Some(full) = self.out_of_memory() {
                return Err(full);
            }
            let name = &self.scenario.fabric.nodes[node].name;
            let what = format!("`{name}` wants to be polled again and again without time passing");
            return Err(Violation::new("progress", self.now, what));
        }
        Ok(self.now)
    }

    /// Polls every port: what a live link has is known by asking. Gives the next instant.
    fn poll_all(&mut self, node: usize) -> Time {
        let trace = self.watch.as_mut().and_then(|watch| watch.sink(node, self.now));
        self.cores[node].poll(self.now, trace);
        self.cores[node].next_event_at(self.now).unwrap_or(Time::MAX)
    }

    /// Polls the ports that have something, which the arrival index lists. Gives the next instant at which something can be seen, and
    /// whether a frame was sent.
    #[inline]
    fn poll_due(&mut self, node: usize) -> (Time, bool) {
        let (now, node_state) = (self.now, &mut self.node_states[node]);
        self.due.clear();
        let mut arrival = self.arrival_index.first(node);
        let arrives = arrival <= now;
        if arrives {
            arrival = self.arrival_index.look(node_state.wires.clone(), now, &mut self.due);
        }
        let arrived = self.due.len();
        if node_state.end_point.is_some_and(|at| at <= now) {
            self.due.push(host::END_POINT);
        }
        let trace = self.watch.as_mut().and_then(|watch| watch.sink(node, now));
        let core = &mut self.cores[node];
        let progress = core.poll_ports(now, &self.due, trace);
        let mut next = core.next_effect().instant(now).unwrap_or(Time::MAX);
        if let Some(at) = &mut node_state.end_point {
            *at = core.next_arrival_at(host::END_POINT).unwrap_or(Time::MAX);
            next = next.min(*at);
        }
        if arrives {
            // Only where a frame was taken is another one the first now.
            for number in &self.due[..arrived] {
                let place = node_state.wires.start + usize::from(*number) - 1;
                arrival = arrival.min(self.arrival_index.arrival(place));
            }
            self.arrival_index.set_first(node, arrival);
        }
        (next.min(arrival), progress.sent > 0)
    }

    fn sample(&mut self) -> Result<(), Violation> {
        self.settle(self.now);
        let warm = Time::ZERO + self.scenario.warm_up;
        if self.now >= warm && !self.sampler.is_warm() {
            self.begin_measurement();
        }
        if self.sampler.sample(self.now, &mut self.cores, &self.flows) {
            self.sampler.sample_links(&self.links, self.scenario.host.is_infiniband());
        }
        // Where there is no memory for a packet, whatever else breaks follows from that.
        let checked = self.check_sample();
        self.out_of_memory().map_or(checked, Err)
    }

    /// The warm-up is over: figures count from here.
    fn begin_measurement(&mut self) {
        self.sampler.begin(self.now, &mut self.cores, &self.flows);
    }

    /// The counters of every flow.
    pub fn statuses(&mut self) -> Vec<FlowStatus> {
        self.flows.iter().map(|flow| flow.status(&mut self.cores)).collect()
    }

    /// What became of every gate.
    pub(super) fn gates_seen(&mut self) -> Vec<GateReport> {
        let gates = self.scenario.gates.iter().zip(&self.gates);
        gates
            .map(|(gate, id)| host::gate(&mut self.cores, gate.host, *id).unwrap_or_default())
            .collect()
    }

    /// The counters of the flows that are not done, and the bytes that all have delivered: of many flows, most are done or have not
    /// begun, and are looked at no more once they are done.
    pub(super) fn open_statuses(&mut self) -> (Vec<FlowStatus>, u64) {
        let (mut found, mut delivered) = (Vec::new(), self.settled_bytes);
        let (flows, cores, settled) = (&self.flows, &mut self.cores, &mut self.settled_bytes);
        self.open.retain(|flow| {
            let status = flows[*flow].status(cores);
            let is_open = status.finished.is_none() && !status.failed;
            delivered += status.delivered_bytes;
            *settled += if is_open { 0 } else { status.delivered_bytes };
            found.push(status);
            is_open
        });
        (found, delivered)
    }

    /// Every flow is done and nothing is on its way.
    fn is_drained(&mut self) -> bool {
        self.open.is_empty()
            && self.links.iter().flatten().all(|link| link.next_arrival() == Time::MAX)
            && self.cores.iter().all(|core| core.queued() == 0)
    }

    fn plan_faults(&mut self) {
        let next = self.changes.first().map_or(Time::MAX, |change| change.at);
        let storm = self.storms.iter().map(|storm| storm.2).min().unwrap_or(Time::MAX);
        self.event_queue.set(FAULTS, next.min(storm));
    }

    /// Applies the faults that are due.
    fn change(&mut self) -> Result<(), Violation> {
        while self.changes.first().is_some_and(|change| change.at <= self.now) {
            let change = self.changes.remove(0);
            match change.step {
                Step::Reroutes => self.reroute()?,
                step => self.apply(change.fault, step == Step::Begins),
            }
        }
        for index in 0..self.storms.len() {
            let (host, priority, at) = self.storms[index];
            if at <= self.now {
                let again = host::pause_once(
                    &self.scenario,
                    host,
                    priority,
                    &mut self.cores[host],
                    self.now,
                );
                self.storms[index].2 = self.now + again;
                self.wake(host);
            }
        }
        self.plan_faults();
        Ok(())
    }

    /// Brings what is counted up to an instant: nodes are not polled where only memory becomes free.
    fn settle(&mut self, at: Time) {
        self.cores.iter_mut().for_each(|core| core.sync(at));
    }

    fn apply(&mut self, fault: usize, begins: bool) {
        // What is due at this very instant comes after the fault.
        self.settle(self.now - Span::from_ps(1));
        match self.scenario.faults[fault].kind {
            FaultKind::LinkDown { link, .. } => {
                for direction in &self.links[link] {
                    direction.set_up(!begins, &mut self.mem);
                }
                for node in self.scenario.fabric.links[link].ends {
                    self.arrival_index.find_first(node, self.node_states[node].wires.clone());
                    self.cores[node].check_links(self.now);
                    self.wake(node);
                }
            }
            FaultKind::PauseStorm { host, priority } => {
                self.storms.retain(|storm| (storm.0, storm.1) != (host, priority));
                if begins {
                    self.storms.push((host, priority, self.now));
                }
            }
            FaultKind::SlowReceiver { host } => {
                self.cores[host].block(self.now, host::END_POINT, begins);
                self.wake(host);
            }
            FaultKind::EcnOff | FaultKind::Thresholds(_) => self.retune(fault, begins),
        }
    }

    pub(super) fn wake(&mut self, node: usize) {
        self.event_queue.not_after(NODES + node, self.now);
    }

    /// When figures begin: at the first sample after the warm-up; where the run ended before, at its start.
    pub(super) fn measured_from(&self) -> Time {
        self.sampler.began.unwrap_or(Time::ZERO)
    }
}

fn changes(scenario: &Scenario) -> Vec<Change> {
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
    changes
}

#[cfg(test)]
mod tests;
