//! A queue pair: state, attributes, requester, responder, rate and completions.
//!
//! The caller owns time, memory and the network: it posts work, passes received packets, polls for packets when
//! [`QueuePair::next_deadline`] is reached, and reads completions. Data packets (requests and READ responses) leave at
//! the pace of the rate control; acknowledgements leave at once.

use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Time};

mod attrs;
mod config;
mod post;
#[cfg(test)]
mod tests;

pub use super::requester::SELECTIVE_MAX;
pub use attrs::{Attrs, ModifyError, PathMtu, QpState};
pub use config::{AckTimer, QpConfig, QpCounters, Retransmission};

use super::aeth::Syndrome;
use super::memory::{Access, MemoryTable};
use super::opcode::{CNP_NATIVE, CNP_ROCEV2, Kind, Op, Service};
use super::packet::{ClassHint, InPacket, OutPacket, Trailing};
use super::psn::Psn;
use super::requester::{Failed, Limits, MAX_OUTSTANDING, Requester};
use super::responder::Responder;
use super::rp::pacer::Pacer;
use super::rp::program::Marks;
use super::rp::{AckSample, RateAlgorithm, RateControl, RateState};
use super::telemetry::{ECHO_PAD_BYTES, TELEMETRY_BYTES, TelemetryBytes};
use super::verbs::{Completion, Status};

/// The connection data that requester and responder need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) qpn: u32,
    pub(super) service: Service,
    pub(super) dest_qp: u32,
    pub(super) path: u32,
    pub(super) mtu: PathMtu,
    pub(super) pkey: u16,
    pub(super) qkey: u32,
    pub(super) access: Access,
    pub(super) min_rnr_timer: u8,
    /// Marks of data are returned as BECN of acknowledgements.
    pub(super) echo: bool,
    /// Packets are accepted in any order, and only lost ones are retransmitted.
    pub(super) selective: bool,
}

/// The parts of a queue pair that both halves use.
pub(super) struct Ctx<'a> {
    pub(super) link: &'a Link,
    pub(super) cq: &'a mut VecDeque<Completion>,
    pub(super) counters: &'a mut QpCounters,
    pub(super) rate: &'a mut dyn RateControl,
    /// BECN of the packet at hand.
    pub(super) becn: bool,
    /// Telemetry that the current acknowledgement brings back.
    pub(super) telemetry: Option<&'a TelemetryBytes>,
}

impl Ctx<'_> {
    /// Packets are newly acknowledged.
    pub(super) fn acknowledge(&mut self, now: Time, sample: &AckSample<'_>) {
        self.counters.round_trip = sample.round_trip.or(self.counters.round_trip);
        // Without marks in acknowledgements a BECN counts as a CNP.
        if sample.becn && self.link.echo {
            self.counters.marked_packets += u64::from(sample.packets);
        }
        self.rate.on_ack(now, sample);
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct QueuePair {
    link: Link,
    state: QpState,
    sq_depth: usize,
    rq_depth: usize,
    ack_every: u32,
    ack_timer: AckTimer,
    max_outstanding: u32,
    frame_overhead_bytes: u32,
    algorithm: RateAlgorithm,
    requester: Requester,
    responder: Responder,
    rate: Box<dyn RateControl>,
    /// Rate control has a window.
    windowed: bool,
    pacer: Pacer,
    /// READ responses and requests share the pace in turns.
    response_turn: bool,
    cq: VecDeque<Completion>,
    counters: QpCounters,
    /// Telemetry of the newest request, and whether an acknowledgement still has to return it.
    telemetry: TelemetryBytes,
    owes_telemetry: bool,
}

impl QueuePair {
    /// A queue pair in RESET.
    pub fn new(qpn: u32, service: Service, config: &QpConfig) -> Self {
        let link = Link {
            qpn: qpn & 0x00ff_ffff,
            service,
            dest_qp: 0,
            path: 0,
            mtu: PathMtu::DEFAULT,
            pkey: 0xffff,
            qkey: 0,
            access: Access::NONE,
            min_rnr_timer: 0,
            echo: config.rate.marks() == Marks::Ack,
            selective: service == Service::Rc && config.retransmission != Retransmission::GoBackN,
        };
        let mut requester = Requester::new();
        let mut max_outstanding = config.max_outstanding_packets.clamp(1, MAX_OUTSTANDING);
        if let (true, Retransmission::Selective { reordering }) =
            (link.selective, config.retransmission)
        {
            requester.select(reordering);
            max_outstanding = max_outstanding.min(SELECTIVE_MAX);
        }
        let rate = config.rate.start();
        QueuePair {
            link,
            state: QpState::Reset,
            sq_depth: config.sq_depth.max(1),
            rq_depth: config.rq_depth,
            ack_every: config.ack_every.max(1),
            ack_timer: config.ack_timer.clone(),
            max_outstanding,
            frame_overhead_bytes: config.frame_overhead_bytes,
            algorithm: config.rate.clone(),
            requester,
            responder: Responder::new(),
            windowed: rate.window_bytes().is_some(),
            rate,
            pacer: Pacer::new(config.rate.gap()),
            response_turn: false,
            cq: VecDeque::new(),
            counters: QpCounters::default(),
            telemetry: [0; TELEMETRY_BYTES],
            owes_telemetry: false,
        }
    }

    /// Its number.
    pub fn qpn(&self) -> u32 {
        self.link.qpn
    }

    /// Its service.
    pub fn service(&self) -> Service {
        self.link.service
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// The peer's queue pair number; zero before RTR and for datagrams. The notification point needs it.
    pub fn dest_qp(&self) -> u32 {
        self.link.dest_qp
    }

    /// The peer's path.
    pub fn path(&self) -> u32 {
        self.link.path
    }

    /// Telemetry of the newest request, as written by switches.
    pub fn telemetry(&self) -> &TelemetryBytes {
        &self.telemetry
    }

    /// Event counters.
    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }

    /// Updates the reaction point's state to `now`.
    pub(super) fn sync_rate(&mut self, now: Time) {
        self.rate.sync(now);
    }

    /// The reaction point's state, as of its last event.
    pub fn rate_state(&self) -> RateState {
        self.rate.state()
    }

    /// Most payload without an acknowledgement, by rate control.
    pub fn window_bytes(&self) -> Option<u64> {
        self.rate.window_bytes()
    }

    /// In SQD: everything that had been started is finished.
    pub fn is_drained(&self) -> bool {
        self.requester.is_drained()
    }

    /// Changes the state and sets attributes, all or nothing.
    ///
    /// # Errors
    /// An attribute that is missing, not allowed or out of range.
    pub fn modify(&mut self, to: QpState, attrs: &Attrs) -> Result<(), ModifyError> {
        attrs.check(self.link.service, self.state, to)?;
        let from = self.state;
        self.apply(attrs);
        match to {
            QpState::Reset => self.reset(),
            QpState::Err => self.fail(Status::WorkRequestFlushed),
            QpState::Rtr => self.responder.start(
                Psn::new(attrs.rq_psn.unwrap_or(0)),
                usize::from(attrs.max_dest_rd_atomic.unwrap_or(0)),
            ),
            QpState::Rts if from == QpState::Rtr => self.start_requester(attrs),
            QpState::Sqd => self.change_limits(attrs),
            _ => {}
        }
        self.state = to;
        Ok(())
    }

    fn apply(&mut self, attrs: &Attrs) {
        let link = &mut self.link;
        link.pkey = attrs.pkey.unwrap_or(link.pkey);
        link.access = attrs.access.unwrap_or(link.access);
        link.qkey = attrs.qkey.unwrap_or(link.qkey);
        link.path = attrs.path.unwrap_or(link.path);
        link.mtu = attrs.path_mtu.unwrap_or(link.mtu);
        link.dest_qp = attrs.dest_qp.unwrap_or(link.dest_qp);
        link.min_rnr_timer = attrs.min_rnr_timer.unwrap_or(link.min_rnr_timer);
    }

    fn start_requester(&mut self, attrs: &Attrs) {
        let (timeout, early) = self.ack_timer.timeout(attrs.timeout.unwrap_or(0));
        let limits = Limits {
            max_rd_atomic: u32::from(attrs.max_rd_atomic.unwrap_or(0)),
            retry_count: attrs.retry_count.unwrap_or(0),
            rnr_retry: attrs.rnr_retry.unwrap_or(0),
            timeout,
            ack_every: self.ack_every,
            max_outstanding: self.max_outstanding,
            every_round_trip: matches!(self.algorithm, RateAlgorithm::Program(_)),
        };
        self.requester.start(Psn::new(attrs.sq_psn.unwrap_or(0)), limits);
        self.requester.set_early(&self.ack_timer.early[..early]);
        self.follow_window();
    }

    /// Keeps the requester within the window of rate control: a packet may leave while less than the window is in
    /// flight.
    fn follow_window(&mut self) {
        if let Some(bytes) = self.rate.window_bytes() {
            let packets = bytes.div_ceil(self.link.mtu.bytes().max(1).into());
            self.requester.set_window(u32::try_from(packets).unwrap_or(u32::MAX));
        }
    }

    /// Whether marks of data are returned as CNPs, and not as BECN of acknowledgements or not at all.
    pub fn owes_cnps(&self) -> bool {
        self.algorithm.marks() == Marks::Cnp
    }

    fn change_limits(&mut self, attrs: &Attrs) {
        if let Some(code) = attrs.timeout {
            let (timeout, early) = self.ack_timer.timeout(code);
            self.requester.limits.timeout = timeout;
            self.requester.set_early(&self.ack_timer.early[..early]);
        }
        let limits = &mut self.requester.limits;
        limits.max_rd_atomic = attrs.max_rd_atomic.map_or(limits.max_rd_atomic, u32::from);
        limits.retry_count = attrs.retry_count.unwrap_or(limits.retry_count);
        limits.rnr_retry = attrs.rnr_retry.unwrap_or(limits.rnr_retry);
    }

    /// RESET clears the whole state, including completions not yet read (as a kernel's reset cleans the CQ).
    fn reset(&mut self) {
        self.requester = self.requester.renewed();
        self.responder = Responder::new();
        self.rate = self.algorithm.start();
        self.pacer = Pacer::new(self.algorithm.gap());
        self.cq.clear();
        self.owes_telemetry = false;
    }

    /// Next completion.
    pub fn poll_cq(&mut self) -> Option<Completion> {
        self.cq.pop_front()
    }

    /// A packet for this queue pair.
    pub fn on_packet(&mut self, now: Time, packet: &InPacket<'_>, memory: &mut MemoryTable) {
        let bth = &packet.headers.bth;
        self.counters.received_packets += 1;
        let is_cnp = bth.opcode == CNP_ROCEV2 || bth.opcode == CNP_NATIVE;
        if is_cnp && self.is_ready() && pkey_matches(bth.pkey, self.link.pkey) {
            return self.on_cnp(now);
        }
        let Some(op) = Op::decode(bth.opcode).filter(|op| self.accepts(op, packet)) else {
            self.counters.dropped_packets += 1;
            return;
        };
        if bth.becn && !self.link.echo {
            self.on_cnp(now);
        }
        if op.is_request() {
            if let Some(telemetry) = packet.telemetry {
                (self.telemetry, self.owes_telemetry) = (*telemetry, true);
            }
            if let Some(status) = self.on_request(packet, op, memory) {
                self.fail(status);
            }
            return;
        }
        let before = self.rate.rate_bps();
        if let Err(Failed(status)) = self.on_answer(now, packet, op, memory) {
            self.fail(status);
        }
        self.follow_rate(now, before);
    }

    /// A request to this queue pair that a switch trimmed to its headers.
    pub fn on_trimmed(&mut self, opcode: u8, psn: Psn) {
        let is_ours = |op: &Op| op.is_request() && op.service == self.link.service;
        if self.link.service != Service::Rc
            || !self.is_ready()
            || !Op::decode(opcode).is_some_and(|op| is_ours(&op))
        {
            self.counters.dropped_packets += 1;
            return;
        }
        self.counters.received_packets += 1;
        let (_, responder, mut ctx) = self.halves(false);
        responder.on_trimmed(psn, &mut ctx);
    }

    /// True if it may send data: requests, or READ responses.
    fn is_ready(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    fn accepts(&self, op: &Op, packet: &InPacket<'_>) -> bool {
        let state_fits = match self.state {
            QpState::Rtr => op.is_request(),
            QpState::Rts | QpState::Sqd => true,
            _ => false,
        };
        let qkey_fits = self.link.service != Service::Ud
            || packet.headers.deth().is_some_and(|deth| deth.qkey == self.link.qkey);
        state_fits
            && qkey_fits
            && op.service == self.link.service
            && pkey_matches(packet.headers.bth.pkey, self.link.pkey)
    }

    fn on_request(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
    ) -> Option<Status> {
        let (_, responder, mut ctx) = self.halves(packet.headers.bth.becn);
        responder.on_request(packet, op, memory, &mut ctx)
    }

    fn on_answer(
        &mut self,
        now: Time,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
    ) -> Result<(), Failed> {
        let (requester, _, mut ctx) = self.halves(packet.headers.bth.becn);
        let headers = &packet.headers;
        if op.kind == Kind::Ack {
            ctx.telemetry = packet.payload.first_chunk();
        }
        match (op.kind, headers.aeth(), headers.atomic_ack()) {
            (Kind::ReadResponse, _, _) => {
                requester.on_read_response(now, packet, op.position, memory, &mut ctx)
            }
            (Kind::AtomicAck, _, Some(old)) => {
                requester.on_atomic_response(now, packet, old, memory, &mut ctx)
            }
            (Kind::Ack, Some(aeth), _) if ctx.link.selective => {
                requester.on_selective_ack(now, headers.bth.psn, aeth, packet.payload, &mut ctx)
            }
            (Kind::Ack, Some(aeth), _) => {
                let syndrome = Syndrome::decode(aeth.syndrome);
                requester.on_ack(now, headers.bth.psn, syndrome, &mut ctx)
            }
            _ => {
                ctx.counters.bad_responses += 1;
                Ok(())
            }
        }
    }

    fn on_cnp(&mut self, now: Time) {
        self.counters.cnps_received += 1;
        self.with_rate(now, |rate| rate.on_cnp(now));
    }

    /// Runs a function that may change the rate, and updates the pacer.
    fn with_rate(&mut self, now: Time, event: impl FnOnce(&mut dyn RateControl)) {
        let before = self.rate.rate_bps();
        event(self.rate.as_mut());
        self.follow_rate(now, before);
    }

    /// Updates the pacer after a change of a rate that was `before`.
    fn follow_rate(&mut self, now: Time, before: f64) {
        let after = self.rate.rate_bps();
        if before != after {
            self.pacer.on_rate_change(now, before, after);
        }
        self.pacer.set_least(self.rate.gap());
        if self.windowed {
            self.follow_window();
        }
    }

    /// Applies timers that ended at or before `now`. [`Self::poll_data`] does it too.
    pub fn on_time(&mut self, now: Time) {
        if self.rate.next_deadline().is_by(now) {
            self.with_rate(now, |rate| rate.poll(now));
        }
        if !self.requester.timer_deadline().is_by(now) {
            return;
        }
        let before = self.rate.rate_bps();
        let (requester, _, mut ctx) = self.halves(false);
        if let Err(Failed(status)) = requester.on_time(now, &mut ctx) {
            self.fail(status);
        }
        self.follow_rate(now, before);
    }

    /// Since when it could send a request and has none; `None` while it has one.
    pub fn idle_since(&self) -> Option<Time> {
        (!self.requester.has_request(self.state, false)).then(|| self.pacer.due())
    }

    /// The next packet that may leave at `now`, if any: [`Self::poll_ack`], otherwise [`Self::poll_data`].
    pub fn poll_tx(&mut self, now: Time, memory: &MemoryTable) -> Option<OutPacket> {
        self.poll_ack().or_else(|| self.poll_data(now, memory)).or_else(|| self.poll_ack())
    }

    /// True if an acknowledgement waits to leave.
    pub fn has_ack(&self) -> bool {
        self.responder.has_ack()
    }

    /// The next acknowledgement. It has a class of its own and is not paced.
    pub fn poll_ack(&mut self) -> Option<OutPacket> {
        let mut packet = self.responder.next_ack(&self.link)?;
        if self.owes_telemetry && packet.headers.trailing == Trailing::None {
            (packet.echo, packet.headers.bth.pad) = (true, ECHO_PAD_BYTES);
            self.owes_telemetry = false;
        }
        self.counters.sent_packets += 1;
        Some(packet)
    }

    /// The next request or READ response that may leave at `now`. Applies timers first. A READ whose region is gone
    /// results in a NAK instead, for [`Self::poll_ack`].
    // Each packet is built in one place and returned from it: a copy right after narrow stores stalls on store
    // forwarding.
    #[inline]
    pub fn poll_data(&mut self, now: Time, memory: &MemoryTable) -> Option<OutPacket> {
        self.on_time(now);
        if self.pacer.due() > now {
            return None;
        }
        let response = self.responder.has_response();
        let request = self.requester.has_packet(self.state);
        if response && (self.response_turn || !request) {
            return self.next_response(now, memory);
        }
        if request { self.next_request(now) } else { None }
    }

    /// Both halves, and their shared parts, for a packet with this BECN.
    #[inline]
    fn halves(&mut self, becn: bool) -> (&mut Requester, &mut Responder, Ctx<'_>) {
        let (cq, counters, rate) = (&mut self.cq, &mut self.counters, self.rate.as_mut());
        let ctx = Ctx { link: &self.link, cq, counters, rate, becn, telemetry: None };
        (&mut self.requester, &mut self.responder, ctx)
    }

    fn next_response(&mut self, now: Time, memory: &MemoryTable) -> Option<OutPacket> {
        self.response_turn = false;
        if self.responder.refuse_unreadable(memory, &mut self.counters) {
            self.fail(Status::WorkRequestFlushed);
            return None;
        }
        let packet = self.responder.next_response(&self.link, &mut self.counters);
        if let Some(packet) = &packet {
            self.account(now, packet);
        }
        packet
    }

    #[inline]
    fn next_request(&mut self, now: Time) -> Option<OutPacket> {
        self.response_turn = true;
        let (requester, _, mut ctx) = self.halves(false);
        let packet = requester.emit(now, &mut ctx);
        if let Some(packet) = &packet {
            self.account(now, packet);
        }
        packet
    }

    fn account(&mut self, now: Time, packet: &OutPacket) {
        let payload = packet.payload.map_or(0, |p| p.len);
        self.counters.sent_packets += 1;
        self.counters.sent_payload_bytes += u64::from(payload);
        if packet.class != ClassHint::Data {
            return;
        }
        let bytes = u64::from(self.frame_overhead_bytes)
            + u64::from(packet.headers.extended_bytes())
            + u64::from(payload)
            + u64::from(packet.headers.bth.pad);
        // The gap after a packet is that of its rate; its bytes may then raise the rate.
        let before = self.rate.rate_bps();
        self.pacer.on_sent(now, bytes, before);
        self.rate.on_bytes_sent(now, bytes);
        self.follow_rate(now, before);
    }

    /// When [`Self::poll_tx`] may next have a packet.
    pub fn next_deadline(&self) -> Deadline {
        if self.has_ack() { Deadline::NOW } else { self.data_deadline() }
    }

    /// When [`Self::poll_data`] may next have a packet.
    pub fn data_deadline(&self) -> Deadline {
        let timers = self.requester.timer_deadline();
        let waiting = self.responder.has_response() || self.requester.has_packet(self.state);
        if !waiting {
            // While the window is full, a larger window may release a packet.
            let opens = self.windowed && self.requester.has_request(self.state, false);
            return if opens { timers.min(self.rate.next_deadline()) } else { timers };
        }
        // While a packet waits for its pace, a change of rate may make it due earlier.
        timers.min(Deadline::at(self.pacer.due())).min(self.rate.next_deadline())
    }

    /// To ERR: the request at fault ends with `status`, everything else is flushed. A NAK that is due
    /// still leaves.
    fn fail(&mut self, status: Status) {
        if self.state != QpState::Reset && self.state != QpState::Err {
            self.state = QpState::Err;
            self.flush(status);
        }
    }

    fn flush(&mut self, status: Status) {
        let (requester, responder, mut ctx) = self.halves(false);
        requester.flush(status, &mut ctx);
        responder.flush(&mut ctx);
    }
}

/// Low 15 bits equal, and not both limited members (hfi1 `ingress_pkey_matches_entry`).
fn pkey_matches(a: u16, b: u16) -> bool {
    (a ^ b) & 0x7fff == 0 && (a | b) & 0x8000 != 0
}
