//! Virtual time: runs the next event, until the end.
//!
//! Sources of events, in the order in which equal instants are served: faults, nodes, the end of the warm-up, samples.
//! Partitions (`part`) run the nodes; this module has what concerns them all. A run is a sequence of phases. In a phase
//! every partition handles its events before the next fault, and up to the next sample or the end of the warm-up;
//! between two phases no partition runs, the lab has all devices, and applies a fault or takes a sample. One partition
//! is run here, several by `workers`, with the same results.
//!
//! A run that stops at every event (a live run, the search for the packet that broke a check) has one partition, and a
//! phase for each event.

use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Deadline, Span, Time};

use super::build::{self, Options};
use super::cable::Cabling;
use super::checks::{Checks, Violation};
use super::error::LabError;
use super::failure_trace::Watch;
use super::fault_schedule::{FaultSchedule, Step, Storm};
use super::host::{self, Connection, FlowStatus};
use super::link::Direction;
use super::node_state;
use super::part::{self, Crossing, Crossings, Halt, Part};
use super::partition::{self, Layout};
use super::sampler::Sampler;
use super::scenario::{FaultKind, FlowSpec, Scenario};
use super::thresholds::Thresholds;
use super::workers::Workers;
use crate::core::Core;
use crate::host::{GateId, GateReport};
use crate::ports::PortNumber;
use crate::program::Loaded;
use crate::tm::PortId;

/// The progress of a run, for progress lines.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// Now.
    pub now: Time,
    /// The end of the run.
    pub end: Time,
    /// Polls of nodes so far.
    pub events: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At the end of the scenario.
    Complete,
    /// Early end: every flow was done and nothing was in flight.
    Drained,
    /// The caller stopped it.
    Interrupted,
    /// A check failed, or the run could not continue.
    Failed(Violation),
}

/// A lab that can be run, by the thread that built it.
pub struct Lab {
    pub(super) scenario: Arc<Scenario>,
    pub(super) seed: u64,
    pub(super) mem: PacketMemory,
    /// By node; during a phase their partitions have them.
    pub(super) cores: Vec<Box<Core>>,
    pub(super) flows: Vec<Connection>,
    pub(super) gates: Vec<GateId>,
    /// Their states, when last read.
    pub(super) gate_reports: Vec<GateReport>,
    /// Flows that may have begun and are not done.
    open: Vec<usize>,
    /// Flows that begin later, with the instant, the next one last.
    later: Vec<(Time, usize)>,
    /// Bytes that the others delivered.
    finished_bytes: u64,
    pub(super) links: Vec<[Arc<Direction>; 2]>,
    layout: Layout,
    parts: Vec<Part>,
    /// Threads for all partitions but the first.
    workers: Option<Workers>,
    /// Links lead through the kernel.
    is_live: bool,
    /// The program of the switches, without entries.
    pub(super) base: Loaded,
    pub(super) entries: Vec<(String, String)>,
    faults: FaultSchedule,
    /// When the next sample is taken.
    next_sample: Time,
    pub(super) sampler: Sampler,
    pub(super) checks: Checks,
    pub(super) now: Time,
    /// Counters of all flows, when last read.
    pub(super) last: Vec<FlowStatus>,
    pub(super) events: u64,
    /// Records the events of this run, to explain the failure of the check below.
    pub(super) watch: Option<Box<Watch>>,
    pub(super) watched_check: &'static str,
    /// Thresholds as configured, and faults that change them.
    pub(super) thresholds: Thresholds,
}

impl Lab {
    /// Builds the devices of a scenario.
    ///
    /// # Errors
    /// A part that cannot be built.
    pub fn new(scenario: Arc<Scenario>, options: Options) -> Result<Lab, LabError> {
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
    ) -> Result<Lab, LabError> {
        let layout = match cabling {
            None => partition::plan(&scenario, options.workers),
            Some(_) => Layout::one(&scenario.fabric),
        };
        Lab::parted(scenario, options, cabling, layout)
    }

    /// The same with these partitions.
    pub(super) fn parted(
        scenario: Arc<Scenario>,
        options: Options,
        cabling: Option<&Cabling>,
        layout: Layout,
    ) -> Result<Lab, LabError> {
        let mut devices = build::devices(&scenario, options, cabling, &layout)?;
        let leases = std::mem::take(&mut devices.leases);
        let crossings = crossings(&scenario, &layout, &devices.links);
        let part = |(number, (arrival_index, lease)): (usize, (_, _))| {
            Part::new(part::Setup {
                number,
                nodes: layout.parts[number].clone(),
                node_states: node_state::all(&scenario.fabric, &layout, number),
                far: node_state::far_ends(&scenario.fabric, &layout, number),
                crossings: Arc::clone(&crossings),
                arrival_index,
                lease,
                parts: layout.parts.len(),
            })
        };
        let parts: Vec<Part> = leases.into_iter().enumerate().map(part).collect();
        let workers = (parts.len() > 1).then(|| Workers::new(&layout.lookahead)).transpose()?;
        let mut lab = Lab {
            seed: options.seed.unwrap_or(scenario.seed),
            mem: devices.mem,
            cores: devices.cores,
            flows: devices.flows,
            gates: devices.gates,
            gate_reports: Vec::new(),
            open: Vec::new(),
            later: by_start(&scenario),
            finished_bytes: 0,
            links: devices.links,
            layout,
            parts,
            workers,
            is_live: cabling.is_some(),
            base: devices.base,
            entries: devices.entries,
            faults: FaultSchedule::of(&scenario),
            next_sample: Time::ZERO,
            sampler: Sampler::new(&scenario),
            checks: Checks::default(),
            now: Time::ZERO,
            last: Vec::new(),
            events: 0,
            watch: None,
            watched_check: "",
            thresholds: Thresholds::default(),
            scenario,
        };
        lab.sampler.prepare(&mut lab.cores);
        lab.last = lab.statuses();
        Ok(lab)
    }

    fn end(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Whether switches may choose the path of a packet by their measurements: their program has registers.
    pub(super) fn balances(&self) -> bool {
        !self.base.program.registers.is_empty()
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Entries files of the switches, by name, as they were loaded.
    pub fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// The captured frames, by name of the link; none without [`Options::captures`]. Ends the captures.
    pub fn captures(&mut self) -> Vec<(String, Vec<u8>)> {
        let fabric = &self.scenario.fabric;
        let captured = self.scenario.captures.iter().filter_map(|capture| {
            let taps = self.links[capture.link].iter().map(|direction| direction.take_capture());
            let file = taps.flatten().map(super::tap::Tap::bytes).find(|bytes| !bytes.is_empty());
            Some((fabric.link_name(capture.link), file?))
        });
        captured.collect()
    }

    /// Runs to the end. At every sample it calls `pulse` with the progress, which returns whether to continue.
    pub fn run(&mut self, pulse: &mut dyn FnMut(Pulse) -> bool) -> Outcome {
        self.run_paced(&mut |at| at, &mut |now, _| pulse(now))
    }

    /// The same, for a caller whose time is not virtual: `reach` returns when it is time for an event. `pulse` may read
    /// the lab.
    pub fn run_paced(
        &mut self,
        reach: &mut impl FnMut(Time) -> Time,
        pulse: &mut dyn FnMut(Pulse, &mut Lab) -> bool,
    ) -> Outcome {
        let end = self.end();
        let looks_at_events = self.is_live || self.watch.is_some();
        loop {
            let nodes = self.parts.iter().map(Part::next).min().unwrap_or(Deadline::NEVER);
            let (change, sample, warm) = (self.faults.next(), self.next_sample, self.warm());
            let first = nodes.min(change).min(warm).min(Deadline::at(sample));
            let Some(at) = first.instant().filter(|at| *at <= end) else { break };
            if change == first {
                self.now = reach(at);
                if let Err(violation) = self.change() {
                    return Outcome::Failed(violation);
                }
            } else if nodes == first {
                let look = Deadline::at(sample.min(end)).min(warm) + Span::from_ps(1);
                let done = match looks_at_events {
                    true => self.step(reach(at)),
                    false => self.phase(change.min(look)),
                };
                if let Err(violation) = done {
                    return Outcome::Failed(violation);
                }
            } else if at < sample {
                self.now = reach(at);
                self.sync_to(self.now);
                self.begin_measurement();
            } else {
                self.now = reach(at);
                self.next_sample = at + self.scenario.sample;
                if let Err(violation) = self.sample() {
                    return Outcome::Failed(violation);
                }
                if !pulse(Pulse { now: self.now, end, events: self.events }, self) {
                    return Outcome::Interrupted;
                }
                if self.is_drained() {
                    return self.finish(Outcome::Drained);
                }
            }
        }
        self.now = self.now.max(end);
        self.finish(Outcome::Complete)
    }

    /// The last checks.
    pub(super) fn finish(&mut self, outcome: Outcome) -> Outcome {
        self.sync_to(self.now);
        self.last = self.statuses();
        let checked = self.check_all().and_then(|()| self.check_standstill(true));
        match self.out_of_memory().map_or(checked, Err) {
            Ok(()) => outcome,
            Err(violation) => Outcome::Failed(violation),
        }
    }

    /// Runs the events of all nodes before `limit`.
    fn phase(&mut self, limit: Deadline) -> Result<(), Violation> {
        self.move_cores_to_partitions();
        let done = match &self.workers {
            None => self.parts[0].run(limit, u32::MAX),
            Some(workers) => workers.phase(&mut self.parts, limit),
        };
        self.take_cores_back();
        done.map_err(|halt| self.halted(halt))
    }

    /// Runs the first node with work, at this instant.
    fn step(&mut self, now: Time) -> Result<(), Violation> {
        self.now = now;
        let Some((_, number)) = self.parts[0].event_queue.first() else { return Ok(()) };
        let node = self.parts[0].nodes[number];
        self.move_cores_to_partitions();
        let part = &mut self.parts[0];
        let done = match self.is_live {
            true => part.step_all(number, now),
            false => {
                let trace = self.watch.as_mut().and_then(|watch| watch.sink(node, now));
                part.step(number, now, trace)
            }
        };
        self.take_cores_back();
        if self.watch.is_some() {
            self.look(node)?;
        }
        done.map_err(|halt| self.halted(halt))
    }

    /// Gives every partition its devices.
    fn move_cores_to_partitions(&mut self) {
        if let [only] = &mut self.parts[..] {
            return std::mem::swap(&mut only.cores, &mut self.cores);
        }
        for (core, (part, _)) in self.cores.drain(..).zip(&self.layout.of) {
            self.parts[*part].cores.push(core);
        }
    }

    /// Takes them back, in the order of nodes.
    fn take_cores_back(&mut self) {
        self.events = self.parts.iter().map(|part| part.events).sum();
        if let [only] = &mut self.parts[..] {
            return std::mem::swap(&mut only.cores, &mut self.cores);
        }
        let mut all: Vec<_> = self.parts.iter_mut().map(|part| part.cores.drain(..)).collect();
        let next = self.layout.of.iter().filter_map(|(part, _)| all[*part].next());
        self.cores.extend(next);
    }

    /// Why nodes cannot continue, as text.
    fn halted(&mut self, halt: Halt) -> Violation {
        let (node, at, check, what) = match halt {
            Halt::Stuck(node, at) => {
                (node, at, "progress", "wants to be polled again and again without time passing")
            }
            Halt::Early(node, at) => {
                (node, at, "lookahead", "sent a frame that arrives sooner than its link's delay")
            }
            Halt::Other => (0, self.now, "progress", "waits for a worker that does not go on"),
        };
        self.now = at;
        if let Some(full) = self.out_of_memory() {
            return full;
        }
        Violation::new(check, at, format!("`{}` {what}", self.scenario.fabric.nodes[node].name))
    }

    fn sample(&mut self) -> Result<(), Violation> {
        self.sync_to(self.now);
        if self.warm().is_by(self.now) {
            self.begin_measurement();
        }
        if self.sampler.sample(self.now, &mut self.cores, &self.flows) {
            self.sampler.sample_links(&self.links, self.scenario.host.is_infiniband());
        }
        // Without memory for a packet, other failures are consequences.
        let checked = self.check_sample();
        self.out_of_memory().map_or(checked, Err)
    }

    /// The end of the warm-up, until it is over.
    fn warm(&self) -> Deadline {
        match self.sampler.is_warm() {
            true => Deadline::NEVER,
            false => Deadline::at(Time::ZERO + self.scenario.warm_up),
        }
    }

    /// The warm-up is over: figures count from here.
    fn begin_measurement(&mut self) {
        self.sampler.begin(self.now, &mut self.cores, &self.flows);
    }

    /// The counters of every flow.
    pub fn statuses(&mut self) -> Vec<FlowStatus> {
        let now = self.now;
        self.flows.iter().map(|flow| flow.status_at(&mut self.cores, now)).collect()
    }

    /// The port of a node behind a number of its traffic manager; `None`: it has no link.
    pub(super) fn linked_port(&self, node: usize, id: PortId) -> Option<PortNumber> {
        let links = self.scenario.fabric.nodes[node].links.len();
        self.cores[node]
            .ports()
            .port_of_traffic(id)
            .filter(|port| (1..=links).contains(&usize::from(port.0)))
    }

    /// The reports of all gates.
    pub(super) fn gates_seen(&mut self) -> Vec<GateReport> {
        let gates = self.scenario.gates.iter().zip(&self.gates);
        gates
            .map(|(gate, id)| host::gate(&mut self.cores, gate.host, *id).unwrap_or_default())
            .collect()
    }

    /// The counters of the flows that may have begun and are not done, and the bytes that all have delivered: most of
    /// many flows are done or have not begun, and are not read.
    pub(super) fn open_statuses(&mut self) -> (Vec<FlowStatus>, u64) {
        while let Some((_, flow)) = self.later.pop_if(|(at, _)| *at <= self.now) {
            self.open.push(flow);
        }
        let (mut found, mut delivered) = (Vec::new(), self.finished_bytes);
        let (flows, cores, finished) = (&self.flows, &mut self.cores, &mut self.finished_bytes);
        self.open.retain(|flow| {
            let status = flows[*flow].status(cores);
            let is_open = status.finished.is_none() && status.failed.is_none();
            delivered += status.delivered_bytes;
            *finished += if is_open { 0 } else { status.delivered_bytes };
            found.push(status);
            is_open
        });
        (found, delivered)
    }

    /// Whether every flow is done and nothing is in flight.
    fn is_drained(&mut self) -> bool {
        self.open.is_empty()
            && self.later.is_empty()
            && self.links.iter().flatten().all(|link| link.next_arrival().is_never())
            && self.cores.iter().all(|core| core.queued() == 0)
    }

    /// Applies the faults that are due.
    fn change(&mut self) -> Result<(), Violation> {
        while let Some(change) = self.faults.take_change(self.now) {
            match change.step {
                Step::Reroutes => self.reroute()?,
                step => self.apply(change.fault, step == Step::Begins),
            }
        }
        for (number, Storm { host, priority, .. }) in self.faults.due_storms(self.now) {
            let core = &mut self.cores[host];
            let again = host::pause_once(&self.scenario, host, priority, core, self.now);
            self.faults.repeat_storm(number, self.now, again);
            self.wake(host);
        }
        Ok(())
    }

    /// Updates the counters to an instant: nodes are not polled where only memory becomes free.
    fn sync_to(&mut self, at: Time) {
        self.cores.iter_mut().for_each(|core| core.sync(at));
    }

    fn apply(&mut self, fault: usize, begins: bool) {
        // Events at this instant come after the fault.
        self.sync_to(self.now - Span::from_ps(1));
        match self.scenario.faults[fault].kind {
            FaultKind::LinkDown { link, .. } => {
                for direction in &self.links[link] {
                    direction.set_up(!begins, &mut self.mem);
                }
                for node in self.scenario.fabric.links[link].ends {
                    let (part, number) = self.layout.of[node];
                    let Part { arrival_index, node_states, .. } = &self.parts[part];
                    arrival_index.find_first(number, node_states[number].wires.clone());
                    self.cores[node].check_links(self.now);
                    self.wake(node);
                }
            }
            FaultKind::PauseStorm { host, priority } => {
                self.faults.set_storm(host, priority, self.now, begins);
            }
            FaultKind::SlowReceiver { host } => {
                self.cores[host].block(self.now, host::END_POINT, begins);
                self.wake(host);
            }
            FaultKind::EcnOff | FaultKind::Thresholds(_) => self.retune(fault, begins),
        }
    }

    pub(super) fn wake(&mut self, node: usize) {
        let (part, number) = self.layout.of[node];
        self.parts[part].event_queue.not_after(number, Deadline::at(self.now));
    }

    /// When figures begin: at the end of the warm-up; if the run ended before, at its start.
    pub(super) fn measured_from(&self) -> Time {
        self.sampler.began.unwrap_or(Time::ZERO)
    }

    /// When figures over time end: with the last flow, because the run itself goes on to the next sample; with the run,
    /// while a flow is under way.
    pub(super) fn measured_to(&self) -> Time {
        let ends = self.last.iter().map(FlowStatus::ended).collect::<Option<Vec<Time>>>();
        ends.and_then(|ends| ends.into_iter().max()).map_or(self.now, |end| end.min(self.now))
    }
}

/// All flows with their start times, the first one last. Gated flows begin when gates release them: that may be at any
/// time.
fn by_start(scenario: &Scenario) -> Vec<(Time, usize)> {
    let start = |flow: &FlowSpec| if flow.is_gated { Time::ZERO } else { flow.start };
    let mut flows: Vec<(Time, usize)> = scenario.flows.iter().map(start).zip(0..).collect();
    flows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    flows
}

/// The directions of links that lead from one partition to another.
fn crossings(scenario: &Scenario, layout: &Layout, links: &[[Arc<Direction>; 2]]) -> Crossings {
    let ends =
        scenario.fabric.links.iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
    let crossing = |([from, to], direction): ([usize; 2], &Arc<Direction>)| {
        let ((from, _), (part, node)) = (layout.of[from], layout.of[to]);
        let lookahead = layout.lookahead[from][part];
        (from != part).then(|| Crossing { direction: Arc::clone(direction), node, lookahead })
    };
    Arc::new(ends.zip(links.iter().flatten()).map(crossing).collect())
}

#[cfg(test)]
pub(super) mod tests;
