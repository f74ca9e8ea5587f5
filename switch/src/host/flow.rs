//! Flows: work that keeps a queue pair busy, as a benchmark program does, with its counters.
//!
//! A flow posts messages of one size (the last may be shorter), `depth` at a time, from its start until their number or its end time is reached;
//! every completion posts the next (a closed loop). A receive ring keeps receives posted for a peer that sends.
//! Messages of a gated flow are released one by one ([`super::gate`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wireyard_tables::time::{Deadline, Span, Time};

use crate::roce::endpoint::EndPoint;
use crate::roce::qp::{QpCounters, QueuePair};
use crate::roce::rp::RateState;
use crate::roce::verbs::{Completion, RecvWr, Remote, SendOp, SendWr, Sge, Status};

use super::gate::{GateId, GateReport, Gates, Need};
use super::port::EndPointPort;

/// Work request numbers from here on belong to flows, and from [`RING_WR`] on to receive rings. Others are the user's.
const FLOW_WR: u64 = 1 << 62;
const RING_WR: u64 = 1 << 63;
/// In the list of start times: this is a gate, not a flow.
const GATE: u32 = 1 << 31;

/// A flow of an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// The operation of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOp {
    /// SEND: the peer needs a receive ring.
    Send,
    /// RDMA WRITE to the peer's memory.
    Write(Remote),
    /// RDMA WRITE with immediate data: the peer needs a receive ring, and gets a completion for every message.
    WriteImm(Remote),
    /// RDMA READ from the peer's memory.
    Read(Remote),
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The queue pair, connected.
    pub qp: u32,
    /// Its operation.
    pub op: FlowOp,
    /// Local memory of every message: its length is the message size.
    pub local: Sge,
    /// Number of messages; `None` is unlimited.
    pub messages: Option<u64>,
    /// Length of the last of these, at most that of the others.
    pub last: u32,
    /// Messages posted at a time.
    pub depth: u32,
    /// When it starts.
    pub start: Time,
    /// When it stops posting.
    pub end: Deadline,
}

impl FlowSpec {
    /// One message after the other, from the start, without limit.
    pub fn new(qp: u32, op: FlowOp, local: Sge) -> FlowSpec {
        FlowSpec {
            qp,
            op,
            local,
            messages: None,
            last: local.len,
            depth: 1,
            start: Time::ZERO,
            end: Deadline::NEVER,
        }
    }

    /// Length of a message, counted from 0.
    fn length(&self, message: u64) -> u32 {
        if self.messages == Some(message + 1) { self.last } else { self.local.len }
    }
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// When the first message was posted.
    pub started: Option<Time>,
    /// When the last message of its number was completed.
    pub finished: Option<Time>,
    /// When the newest message was completed.
    pub last_completed: Option<Time>,
    /// Messages posted.
    pub posted: u64,
    /// Messages completed.
    pub completed: u64,
    /// Bytes of them.
    pub completed_bytes: u64,
    /// Shortest time from posting to completion.
    pub shortest: Option<Span>,
    /// Longest time from posting to completion.
    pub longest: Option<Span>,
    /// Sum of these times.
    pub total: Span,
    /// How long the queue pair had nothing to send although this flow had more to post: it had too few messages in
    /// flight.
    pub waited: Span,
    /// When an error ended it, and which.
    pub failed: Option<(Time, Status)>,
}

/// A flow with the state of its queue pair.
#[derive(Clone, Copy, Debug)]
pub struct FlowReport {
    /// The flow.
    pub spec: FlowSpec,
    /// Its counters.
    pub stats: FlowStats,
    /// Rate, target and alpha of the queue pair, as of its last event.
    pub rate: RateState,
    /// Most payload that its rate control leaves without an acknowledgement.
    pub window_bytes: Option<u64>,
    /// Counters of the queue pair, CNPs received among them.
    pub qp: QpCounters,
}

#[derive(Debug)]
struct Flow {
    spec: FlowSpec,
    stats: FlowStats,
    /// Messages that it may post: all of them, or as many as gates have released.
    released: u64,
    /// Posting times of the messages in flight, oldest first.
    posted_at: VecDeque<Time>,
}

#[derive(Debug)]
struct Ring {
    qp: u32,
    local: Sge,
    messages: u64,
    bytes: u64,
}

/// The flows and receive rings of an end point.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    rings: Vec<Ring>,
    gates: Gates,
    /// Start times of flows and opening times of gates, earliest first; at equal times in the order of planning.
    waiting: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// Number of times planned.
    planned: u64,
}

impl Flows {
    /// When the next flow starts.
    pub(super) fn next_start(&self) -> Deadline {
        self.waiting.peek().map(|Reverse((at, ..))| *at).into()
    }

    pub(super) fn start_due(&mut self, now: Time, end: &mut EndPoint) {
        while let Some(Reverse((at, _, index))) = self.waiting.peek().copied()
            && at <= now
        {
            self.waiting.pop();
            if index & GATE != 0 {
                self.open(now, index & !GATE, end);
            } else if let Some(flow) = self.flows.get_mut(index as usize) {
                flow.stats.started = Some(now);
                for _ in 0..flow.spec.depth {
                    flow.post(now, index, end);
                }
            }
        }
    }

    /// Opens a gate: flows post the messages that it releases, and gates that depend on it proceed.
    fn open(&mut self, now: Time, gate: u32, end: &mut EndPoint) {
        for index in self.gates.open(now, gate) {
            let Some(flow) = self.flows.get_mut(index as usize) else { continue };
            flow.released += 1;
            flow.stats.started.get_or_insert(now);
            if flow.stats.posted - flow.stats.completed < u64::from(flow.spec.depth) {
                flow.post(now, index, end);
            }
        }
        self.met(now, Need::Opened(GateId(gate)));
    }

    /// Handles an event that gates may wait for.
    fn met(&mut self, now: Time, need: Need) {
        for (gate, at) in self.gates.met(now, need) {
            self.plan(at, gate | GATE);
        }
    }

    fn plan(&mut self, at: Time, what: u32) {
        self.waiting.push(Reverse((at, self.planned, what)));
        self.planned += 1;
    }

    /// Handles the completion of a flow or ring; false if it belongs to none.
    pub(super) fn on_completion(
        &mut self,
        now: Time,
        done: &Completion,
        end: &mut EndPoint,
    ) -> bool {
        let index = done.wr_id as u32;
        if done.wr_id >= RING_WR {
            if let Some(ring) = self.rings.get_mut(index as usize)
                && done.status == Status::Success
            {
                ring.messages += 1;
                ring.bytes += u64::from(done.len_bytes);
                end.post_recv(ring.qp, RecvWr { wr_id: done.wr_id, local: ring.local });
                let arrived = Need::Arrived { qp: ring.qp, message: ring.messages };
                self.met(now, arrived);
            }
            return true;
        }
        if done.wr_id < FLOW_WR {
            return false;
        }
        if let Some(flow) = self.flows.get_mut(index as usize) {
            let idle_since = end.qp(flow.spec.qp).and_then(QueuePair::idle_since);
            flow.on_completion(now, done);
            let posted = flow.stats.posted;
            flow.post(now, index, end);
            if let Some(since) = idle_since.filter(|_| flow.stats.posted > posted) {
                let waited = flow.stats.waited.as_ps().saturating_add(now.since(since).as_ps());
                flow.stats.waited = Span::from_ps(waited);
            }
            let completed = flow.stats.completed;
            if !self.gates.is_empty() {
                self.met(now, Need::Completed { flow: FlowId(index), message: completed });
            }
        }
        true
    }
}

impl Flow {
    /// Posts the next message, if there is one.
    fn post(&mut self, now: Time, index: u32, end: &mut EndPoint) {
        let (spec, stats) = (&self.spec, &mut self.stats);
        let more = stats.posted < self.released;
        if !more || spec.end.is_by(now) || stats.failed.is_some() {
            return;
        }
        let op = match spec.op {
            FlowOp::Send => SendOp::Send,
            FlowOp::Write(remote) => SendOp::Write(remote),
            FlowOp::WriteImm(remote) => SendOp::WriteImm(remote, stats.posted as u32),
            FlowOp::Read(remote) => SendOp::Read(remote),
        };
        let local = Sge { len: spec.length(stats.posted), ..spec.local };
        let wr = SendWr::new(FLOW_WR | u64::from(index), op, local);
        match end.post_send(spec.qp, wr) {
            Some(Ok(())) => {
                stats.posted += 1;
                self.posted_at.push_back(now);
            }
            _ => stats.failed = Some((now, Status::WorkRequestFlushed)),
        }
    }

    fn on_completion(&mut self, now: Time, done: &Completion) {
        let stats = &mut self.stats;
        let posted = self.posted_at.pop_front();
        if done.status != Status::Success {
            stats.failed.get_or_insert((now, done.status));
            return;
        }
        let took = now.since(posted.unwrap_or(now));
        stats.completed_bytes += u64::from(self.spec.length(stats.completed));
        stats.completed += 1;
        stats.last_completed = Some(now);
        stats.shortest = Some(stats.shortest.map_or(took, |known| known.min(took)));
        stats.longest = Some(stats.longest.map_or(took, |known| known.max(took)));
        stats.total = Span::from_ps(stats.total.as_ps().saturating_add(took.as_ps()));
        if self.spec.messages == Some(stats.completed) {
            stats.finished = Some(now);
        }
    }
}

impl EndPointPort {
    /// Adds a flow. Its queue pair must have room for `depth` work requests, and complete no others.
    pub fn add_flow(&mut self, spec: FlowSpec) -> FlowId {
        let id = self.push_flow(spec, spec.messages.unwrap_or(u64::MAX));
        self.flows.plan(spec.start, id.0);
        id
    }

    /// The same for a flow whose messages are posted only when gates release them.
    pub fn add_gated_flow(&mut self, spec: FlowSpec) -> FlowId {
        self.push_flow(spec, 0)
    }

    fn push_flow(&mut self, spec: FlowSpec, released: u64) -> FlowId {
        let index = self.flows.flows.len() as u32;
        let spec = FlowSpec { depth: spec.depth.max(1), ..spec };
        let posted_at = VecDeque::with_capacity(spec.depth as usize);
        self.flows.flows.push(Flow { spec, stats: FlowStats::default(), released, posted_at });
        self.due = None;
        FlowId(index)
    }

    /// Adds a gate: when all needs are met and `delay` has passed, each of `releases` may post one more message.
    /// Without needs the delay counts from the start of the run.
    pub fn add_gate(&mut self, needs: &[Need], delay: Span, releases: Vec<FlowId>) -> GateId {
        self.due = None;
        let id = self.flows.gates.add(needs, delay, releases.into_iter().map(|id| id.0).collect());
        if needs.is_empty() {
            self.flows.plan(Time::ZERO + delay, id.0 | GATE);
        }
        id
    }

    /// The report of a gate.
    pub fn gate(&self, id: GateId) -> Option<GateReport> {
        self.flows.gates.report(id)
    }

    /// A flow with the state of its queue pair.
    pub fn flow(&self, id: FlowId) -> Option<FlowReport> {
        let flow = self.flows.flows.get(id.0 as usize)?;
        let qp = self.end.qp(flow.spec.qp)?;
        let (spec, stats) = (flow.spec, flow.stats);
        let (rate, window_bytes) = (qp.rate_state(), qp.window_bytes());
        Some(FlowReport { spec, stats, rate, window_bytes, qp: *qp.counters() })
    }

    /// All flows, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = FlowReport> {
        (0..self.flows.flows.len() as u32).filter_map(|index| self.flow(FlowId(index)))
    }

    /// Keeps `receives` receives posted on a queue pair, all into the same memory. False when one was refused.
    pub fn keep_receiving(&mut self, qp: u32, local: Sge, receives: u32) -> bool {
        let wr_id = RING_WR | self.flows.rings.len() as u64;
        self.flows.rings.push(Ring { qp, local, messages: 0, bytes: 0 });
        let end = self.roce_mut();
        let mut post = || end.post_recv(qp, RecvWr { wr_id, local });
        (0..receives).all(|_| matches!(post(), Some(Ok(()))))
    }

    /// Messages and bytes received by the rings of a queue pair.
    pub fn received(&self, qp: u32) -> (u64, u64) {
        let rings = self.flows.rings.iter().filter(|ring| ring.qp == qp);
        rings.fold((0, 0), |(messages, bytes), ring| (messages + ring.messages, bytes + ring.bytes))
    }
}
