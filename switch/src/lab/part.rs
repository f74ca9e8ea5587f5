//! A partition of a lab: some of its nodes, and their events.
//!
//! A node's next instant is that of its core: a frame that arrives, a timer of the traffic manager, an end point that
//! may send. Polling a node can make its neighbours' events earlier, by frames that will arrive; nothing else can
//! change them. So a node runs ahead up to the instant before which nothing new can reach it, which follows from the
//! delays of links; the result is the same (`engine/tests.rs` compares the two), and it is faster because code and
//! state stay in the cache.
//!
//! In the same way a partition runs ahead up to the instant before which nothing reaches it from another; the caller
//! computes that instant ([`workers`](super::workers)). A lab on one thread is one partition. There is no thread and no
//! lock in this module.

use std::sync::Arc;

use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::{Deadline, Span, Time};

use super::arrival_index::ArrivalIndex;
use super::event_queue::EventQueue;
use super::host;
use super::lease::Lease;
use super::link::Direction;
use super::node_state::NodeState;
use crate::core::Core;
use crate::ports::{PortNumber, RxFrame};

/// Polls of one node at one instant after which it counts as stuck.
const POLLS_MAX: u32 = 100_000;

/// Why a partition cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// A node of the lab that requests a poll at this instant again and again.
    Stuck(usize, Time),
    /// A node sent a frame at this instant that arrives in another partition sooner than that partition allowed for.
    Early(usize, Time),
    /// Another partition cannot continue.
    Other,
}

/// The destination of a frame that a port sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far {
    /// The partition.
    pub(super) part: u32,
    /// The node there.
    pub(super) node: u32,
    /// In this partition: the place of the port. In another: the number of the direction that leads there.
    pub(super) place: usize,
}

/// A direction of a link that leads from one partition to another.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) direction: Arc<Direction>,
    /// The node that it leads to, in its partition.
    pub(super) node: usize,
    /// Least time that a frame takes to the other partition: its clock may run ahead by this much.
    pub(super) lookahead: Span,
}

/// A frame to another partition, and the number of its direction.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) crossing: usize,
    pub(super) frame: RxFrame,
}

/// All directions that lead from one partition to another; the number of one is twice its link, plus one for the
/// reverse direction.
pub(super) type Crossings = Arc<Vec<Option<Crossing>>>;

/// A partition. Nodes have a number in it, and so do their ports' places.
pub(super) struct Part {
    /// Its number.
    pub(super) number: usize,
    /// Its nodes, by their numbers in the lab.
    pub(super) nodes: Vec<usize>,
    /// Their devices, while it runs; otherwise the lab has them. Boxed: they move at every sample.
    pub(super) cores: Vec<Box<Core>>,
    /// State of a node between two polls.
    pub(super) node_states: Vec<NodeState>,
    pub(super) event_queue: EventQueue,
    pub(super) arrival_index: Arc<ArrivalIndex>,
    pub(super) lease: Arc<Lease>,
    /// By place.
    pub(super) far: Vec<Far>,
    pub(super) crossings: Crossings,
    /// By partition, frames for it.
    pub(super) leaving: Vec<Vec<Passing>>,
    /// Ports of the current node with work.
    due: Vec<PortNumber>,
    pub(super) now: Time,
    /// Polls so far.
    pub(super) events: u64,
    /// Consecutive polls that were followed by another one at the same instant.
    polls: u32,
}

/// The inputs of a partition.
pub(super) struct Setup {
    pub(super) number: usize,
    pub(super) nodes: Vec<usize>,
    pub(super) node_states: Vec<NodeState>,
    pub(super) far: Vec<Far>,
    pub(super) crossings: Crossings,
    pub(super) arrival_index: Arc<ArrivalIndex>,
    pub(super) lease: Arc<Lease>,
    /// Partitions in all.
    pub(super) parts: usize,
}

impl Part {
    /// A partition at the start of time, when every node is polled for its work.
    pub(super) fn new(setup: Setup) -> Part {
        let mut event_queue = EventQueue::new(setup.nodes.len());
        (0..setup.nodes.len()).for_each(|node| event_queue.set(node, Deadline::NOW));
        Part {
            number: setup.number,
            cores: Vec::with_capacity(setup.nodes.len()),
            nodes: setup.nodes,
            node_states: setup.node_states,
            event_queue,
            arrival_index: setup.arrival_index,
            lease: setup.lease,
            far: setup.far,
            crossings: setup.crossings,
            leaving: (0..setup.parts).map(|_| Vec::new()).collect(),
            due: Vec::new(),
            now: Time::ZERO,
            events: 0,
            polls: 0,
        }
    }

    /// Its next event.
    #[inline]
    pub(super) fn next(&self) -> Deadline {
        self.event_queue.first().map(|(at, _)| at).into()
    }

    /// Runs the events of nodes before `limit`, in the order of time, in at most `runs_max` runs of a node. No frame from another
    /// partition that is not yet received may arrive before `limit`.
    #[inline]
    pub(super) fn run(&mut self, limit: Deadline, runs_max: u32) -> Result<(), Halt> {
        for _ in 0..runs_max {
            match self.event_queue.first() {
                Some((at, node)) if Deadline::at(at) < limit => {
                    self.now = at;
                    self.run_ahead(node, limit)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Runs a node's events, and its next ones as long as no frame can reach it that is not in flight yet. Frames that
    /// it sends meanwhile wait in the arrival index, so the result is that of one event after the other; and to stay
    /// with a node is cheaper than to change.
    #[inline]
    fn run_ahead(&mut self, node: usize, limit: Deadline) -> Result<(), Halt> {
        let mut horizon = self.horizon(node, limit);
        loop {
            let next = self.poll(node, &mut horizon)?;
            match next.instant() {
                Some(at) if next < horizon => self.now = at,
                _ => {
                    self.event_queue.set(node, next);
                    return Ok(());
                }
            }
        }
    }

    /// Before this instant only frames in flight reach a node: no other node has an event before the first of them, and
    /// its frame takes some time; more if it passes a switch first. Faults, samples and other partitions require all
    /// nodes at one time, the limit.
    #[inline]
    pub(super) fn horizon(&self, node: usize, limit: Deadline) -> Deadline {
        let node_state = &self.node_states[node];
        let mut others = self.event_queue.first_but(node);
        if let Some((gate, nearest)) = node_state.gate {
            // All frames from further away pass the gate first.
            others = (others + nearest).min(self.event_queue.at(gate));
        }
        (others + node_state.nearest).min(limit)
    }

    /// Polls a node. Returns its next instant, and lowers the horizon to the earliest answer to its frames.
    #[inline]
    pub(super) fn poll(&mut self, node: usize, horizon: &mut Deadline) -> Result<Deadline, Halt> {
        let (next, sent) = self.poll_due(node, None);
        if sent {
            self.note_arrivals(node, horizon)?;
        }
        self.after(node, next)
    }

    /// Polls the first node at `now`, and no more, for a run that stops at every event.
    pub(super) fn step(
        &mut self,
        node: usize,
        now: Time,
        trace: Option<&mut dyn TraceSink>,
    ) -> Result<(), Halt> {
        self.now = now;
        let (next, _) = self.poll_due(node, trace);
        self.end_step(node, next)
    }

    /// The same with every port of the node: a live link must be polled.
    pub(super) fn step_all(&mut self, node: usize, now: Time) -> Result<(), Halt> {
        self.now = now;
        self.cores[node].poll(now, None);
        let next = self.cores[node].next_event_at(now).into();
        self.end_step(node, next)
    }

    /// After one poll: queues the node's next event, regardless of the answers to its frames.
    fn end_step(&mut self, node: usize, next: Deadline) -> Result<(), Halt> {
        let mut horizon = Deadline::at(self.now);
        self.note_arrivals(node, &mut horizon)?;
        let next = self.after(node, next)?;
        self.event_queue.set(node, next);
        Ok(())
    }

    /// Notes the frames that a node sent at their far ends.
    #[inline]
    pub(super) fn note_arrivals(
        &mut self,
        node: usize,
        horizon: &mut Deadline,
    ) -> Result<(), Halt> {
        let (event_queue, node_state) = (&mut self.event_queue, &self.node_states[node]);
        let (now, mut is_early) = (self.now, false);
        self.arrival_index.take_sent(|place| {
            let far = &self.far[place];
            if far.part as usize == self.number {
                let at = self.arrival_index.arrival(far.place);
                event_queue.not_after(far.node as usize, at);
                *horizon = (at + node_state.nearest).min(*horizon);
            } else {
                let leaving = &mut self.leaving[far.part as usize];
                is_early |= leave(&self.crossings, far.place, now, leaving);
            }
        });
        if is_early { Err(Halt::Early(self.nodes[node], now)) } else { Ok(()) }
    }

    /// Counts a poll. Returns the next instant.
    #[inline]
    fn after(&mut self, node: usize, next: Deadline) -> Result<Deadline, Halt> {
        self.events += 1;
        if !next.is_by(self.now) {
            self.polls = 0;
            return Ok(next);
        }
        self.polls += 1;
        match self.polls > POLLS_MAX {
            true => Err(Halt::Stuck(self.nodes[node], self.now)),
            false => Ok(Deadline::at(self.now)),
        }
    }

    /// Polls the ports with work, which the arrival index lists. Returns the next instant with work, and whether a
    /// frame was sent.
    #[inline]
    fn poll_due(&mut self, node: usize, trace: Option<&mut dyn TraceSink>) -> (Deadline, bool) {
        let (now, node_state) = (self.now, &mut self.node_states[node]);
        self.due.clear();
        let mut arrival = self.arrival_index.first(node);
        let arrives = arrival.is_by(now);
        if arrives {
            arrival = self.arrival_index.look(node_state.wires.clone(), now, &mut self.due);
        }
        let arrived = self.due.len();
        if node_state.end_point.is_some_and(|at| at.is_by(now)) {
            self.due.push(host::END_POINT);
        }
        let core = &mut self.cores[node];
        let progress = core.poll_ports(now, &self.due, trace);
        let mut next = core.next_effect().not_before(now);
        if let Some(at) = &mut node_state.end_point {
            *at = core.ports_mut().next_arrival_at(host::END_POINT).into();
            next = next.min(*at);
        }
        if arrives {
            // Only where a frame was taken has the first arrival changed.
            for number in &self.due[..arrived] {
                let place = node_state.wires.start + usize::from(number.0) - 1;
                arrival = arrival.min(self.arrival_index.arrival(place));
            }
            self.arrival_index.set_first(node, arrival);
        }
        (next.min(arrival), progress.sent > 0)
    }

    /// Receives frames from other partitions.
    pub(super) fn receive(&mut self, frames: &mut Vec<Passing>) {
        for Passing { crossing, frame } in frames.drain(..) {
            // A direction that leads to no partition has sent nothing.
            let Some(crossing) = &self.crossings[crossing] else { continue };
            let at = crossing.direction.arrive(frame);
            self.event_queue.not_after(crossing.node, at);
        }
    }
}

/// Takes the frames that a node sent at `now` to another partition; true if one of them arrives sooner than that
/// partition allowed for.
#[cold]
fn leave(crossings: &Crossings, number: usize, now: Time, leaving: &mut Vec<Passing>) -> bool {
    let Some(crossing) = &crossings[number] else { return false };
    let mut is_early = false;
    crossing.direction.take_leaving(|frame| {
        is_early |= frame.timestamp < now + crossing.lookahead;
        leaving.push(Passing { crossing: number, frame });
    });
    is_early
}
