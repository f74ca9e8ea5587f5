//! The requester: work requests in, request packets out, acknowledgements and responses in.
//!
//! Every work request gets its PSN range when it is posted, so going back is only a matter of moving the send position
//! to the oldest unacknowledged PSN. The front of the send queue always contains that PSN: completed requests are
//! popped. A READ owns one PSN for each response packet.
//!
//! Emission is here; acknowledgements, retries and completion are in [`ack`], READ and ATOMIC
//! responses in [`response`].

use std::collections::VecDeque;
use std::sync::Arc;

use wireyard_tables::time::{Deadline, Span, Time};

use super::opcode::{Extra, Kind, Op, Position, Service};
use super::packet::{
    AtomicEth, Bth, ClassHint, Deth, Headers, Leading, OutPacket, PayloadRef, Reth, Trailing,
};
use super::psn::Psn;
use super::qp::{Ctx, Link, QpState};
use super::verbs::{SendOp, SendWr};

mod ack;
mod response;
mod selective;

pub(super) use ack::Failed;
pub use selective::SELECTIVE_MAX;
use selective::Selective;

/// A window below this is never useful, above it PSN comparison would be ambiguous.
pub(super) const MAX_OUTSTANDING: u32 = (1 << 23) - 1;

/// A posted work request.
#[derive(Clone, Copy, Debug)]
struct Wqe {
    wr: SendWr,
    first: Psn,
    /// PSNs it owns.
    packets: u32,
    /// READ and ATOMIC: done by a response, not by an acknowledgement.
    needs_response: bool,
    /// Opcodes of its packets, by [`Position`]; with selective retransmission, of the packets before the last (0) and
    /// of the last (1).
    opcodes: [Option<u8>; 4],
}

impl Wqe {
    fn new(service: Service, wr: SendWr, first: Psn, packets: u32, selective: bool) -> Wqe {
        let (kind, extra) = kind_of(&wr.op);
        let needs_response = matches!(kind, Kind::ReadRequest | Kind::CmpSwap | Kind::FetchAdd);
        let all = [Position::First, Position::Middle, Position::Last, Position::Only];
        let opcodes = all.map(|of_packet| {
            if selective {
                let extra = if of_packet == Position::First { Extra::None } else { extra };
                return Op { service, kind, position: Position::Only, extra }.encode();
            }
            // A READ owns many PSNs and is one packet.
            let position = if needs_response { Position::Only } else { of_packet };
            let extra = if of_packet.ends() { extra } else { Extra::None };
            Op { service, kind, position, extra }.encode()
        });
        Wqe { wr, first, packets, needs_response, opcodes }
    }

    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }
}

/// Limits from RTR -> RTS and the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) max_rd_atomic: u32,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    pub(super) timeout: Option<Span>,
    pub(super) ack_every: u32,
    pub(super) max_outstanding: u32,
    /// Rate control needs the round trip of every packet that requests an acknowledgement.
    pub(super) every_round_trip: bool,
}

/// The sending half of a queue pair.
#[derive(Debug)]
pub(super) struct Requester {
    sq: VecDeque<Wqe>,
    pub(super) limits: Limits,
    /// First PSN of the next posted request.
    post_psn: Psn,
    /// Send position: index into `sq`, and packets of that request already sent.
    current: usize,
    current_packet: u32,
    /// Oldest unacknowledged PSN.
    una: Psn,
    /// One past the highest PSN ever sent.
    sent_end: Psn,
    /// One past the highest PSN that requested a response.
    asked_end: Psn,
    since_ack_req: u32,
    /// READs and ATOMICs before the send position.
    rd_in_flight: u32,
    /// ACK timeout.
    timer: Deadline,
    /// Waits before the ACK timeout of the limits, and the number of them that have ended since the last progress.
    early: Arc<[Span]>,
    early_over: usize,
    /// End of an RNR wait.
    rnr_until: Deadline,
    retries_left: u8,
    rnr_left: u8,
    /// An implied NAK was handled at this `una`; once is enough until there is progress or a timeout.
    implied_nak_done: bool,
    /// Departures of packets whose acknowledgement gives a round-trip sample.
    probes: VecDeque<(Psn, Time)>,
    /// Packets acknowledged since the connection began.
    acked: u64,
    /// Packets that rate control permits without an acknowledgement.
    window: u32,
    /// Only what is lost is sent again.
    selective: Option<Box<Selective>>,
}

impl Requester {
    pub(super) fn new() -> Self {
        Requester {
            sq: VecDeque::new(),
            limits: Limits::default(),
            post_psn: Psn::default(),
            current: 0,
            current_packet: 0,
            una: Psn::default(),
            sent_end: Psn::default(),
            asked_end: Psn::default(),
            since_ack_req: 0,
            rd_in_flight: 0,
            timer: Deadline::NEVER,
            early: Arc::default(),
            early_over: 0,
            rnr_until: Deadline::NEVER,
            retries_left: 0,
            rnr_left: 0,
            implied_nak_done: false,
            probes: VecDeque::new(),
            acked: 0,
            window: MAX_OUTSTANDING,
            selective: None,
        }
    }

    /// A new one with the same retransmission scheme.
    pub(super) fn renewed(&self) -> Requester {
        let selective = self.selective.as_ref().map(|of| Box::new(Selective::new(of.reordering())));
        Requester { selective, ..Requester::new() }
    }

    /// Waits before the ACK timeout of the limits.
    pub(super) fn set_early(&mut self, waits: &[Span]) {
        self.early = waits.into();
        self.early_over = self.early_over.min(waits.len());
    }

    /// RTR -> RTS.
    pub(super) fn start(&mut self, sq_psn: Psn, limits: Limits) {
        *self = Requester {
            limits,
            post_psn: sq_psn,
            una: sq_psn,
            sent_end: sq_psn,
            asked_end: sq_psn,
            retries_left: limits.retry_count,
            rnr_left: limits.rnr_retry,
            window: self.window,
            ..self.renewed()
        };
    }

    pub(super) fn queued(&self) -> usize {
        self.sq.len()
    }

    /// Accepts a checked work request of `packets` PSNs.
    pub(super) fn post(&mut self, service: Service, wr: SendWr, packets: u32) {
        let selective = self.selective.is_some();
        self.sq.push_back(Wqe::new(service, wr, self.post_psn, packets, selective));
        self.post_psn = self.post_psn.plus(packets);
    }

    /// True when no started request is unfinished (SQD has drained).
    pub(super) fn is_drained(&self) -> bool {
        self.current_packet == 0 && self.una == self.sent_end
    }

    /// When the ACK timer or the RNR wait ends.
    pub(super) fn timer_deadline(&self) -> Deadline {
        self.timer.min(self.rnr_until)
    }

    /// Sets the number of packets that rate control permits without an acknowledgement.
    pub(super) fn set_window(&mut self, packets: u32) {
        self.window = packets.clamp(1, MAX_OUTSTANDING);
    }

    /// Whether the window is full and a requested acknowledgement will open it; if none was requested, one more packet
    /// is sent that requests one.
    fn window_is_full(&self, outstanding: u32) -> bool {
        outstanding >= self.window && self.asked_end.ahead_of(self.una) > 0
    }

    /// True if a request could leave now, apart from pacing.
    pub(super) fn has_packet(&self, state: QpState) -> bool {
        self.has_request(state, true)
    }

    /// The same; `windowed` is false to ignore the window of rate control.
    pub(super) fn has_request(&self, state: QpState, windowed: bool) -> bool {
        if !self.rnr_until.is_never() {
            return false;
        }
        if let Some(selective) = &self.selective {
            return self.has_selective(selective, state, windowed);
        }
        let Some(wqe) = self.sq.get(self.current) else { return false };
        let psn = wqe.first.plus(self.current_packet);
        let started = self.current_packet > 0 || psn.ahead_of(self.sent_end) < 0;
        if state != QpState::Rts && !(state == QpState::Sqd && started) {
            return false;
        }
        let outstanding = psn.ahead_of(self.una).max(0) as u32;
        if windowed && self.window_is_full(outstanding) {
            return false;
        }
        if wqe.needs_response {
            return self.rd_in_flight < self.limits.max_rd_atomic
                && outstanding + wqe.packets <= MAX_OUTSTANDING
                && (outstanding == 0 || outstanding < self.limits.max_outstanding)
                && (!wqe.wr.fence || self.rd_in_flight == 0);
        }
        outstanding < self.limits.max_outstanding
            && (!wqe.wr.fence || self.current_packet > 0 || self.rd_in_flight == 0)
    }

    /// The next request packet; call only after [`Self::has_packet`].
    pub(super) fn emit(&mut self, now: Time, ctx: &mut Ctx<'_>) -> Option<OutPacket> {
        if self.selective.is_some() {
            return self.emit_selective(now, ctx);
        }
        let wqe = *self.sq.get(self.current)?;
        let (psn, index) = (wqe.first.plus(self.current_packet), self.current_packet);
        let opcode = wqe.opcodes[Position::of(index, wqe.packets) as usize]?;
        let retransmission = psn.ahead_of(self.sent_end) < 0;
        let reliable = ctx.link.service == Service::Rc;
        let ack_req = reliable && self.wants_ack(&wqe, psn);
        if retransmission {
            ctx.counters.retransmitted_packets += 1;
        }
        self.advance(now, &wqe, psn, ack_req);
        if !reliable {
            // There will be no response: the request is complete when its last packet has left.
            self.una = psn.plus(1);
            self.pop_done(ctx);
        }
        Some(build(ctx.link, &wqe, index, opcode, psn, ack_req, retransmission))
    }

    fn wants_ack(&mut self, wqe: &Wqe, psn: Psn) -> bool {
        let last = self.current_packet + 1 >= wqe.packets || wqe.needs_response;
        let outstanding = psn.plus(1).ahead_of(self.una).max(0) as u32;
        self.since_ack_req += 1;
        let ask = last
            || self.since_ack_req >= self.limits.ack_every
            || outstanding >= self.limits.max_outstanding.min(self.window);
        if ask {
            self.since_ack_req = 0;
        }
        ask
    }

    fn advance(&mut self, now: Time, wqe: &Wqe, psn: Psn, ack_req: bool) {
        let answered = wqe.needs_response;
        let end = if answered { wqe.end() } else { psn.plus(1) };
        if end.ahead_of(self.sent_end) > 0 {
            self.sent_end = end;
            // One at a time, unless the round trip of every one is needed.
            if ack_req && !answered && (self.limits.every_round_trip || self.probes.is_empty()) {
                self.probes.push_back((psn, now));
            }
        }
        if ack_req || answered {
            if end.ahead_of(self.asked_end) > 0 {
                self.asked_end = end;
            }
            if self.timer.is_never() {
                self.arm_timer(now);
            }
        }
        self.current_packet += 1;
        if answered || self.current_packet >= wqe.packets {
            self.current += 1;
            self.current_packet = 0;
            self.rd_in_flight += u32::from(answered);
        }
    }

    fn arm_timer(&mut self, now: Time) {
        let wait = self.early.get(self.early_over).copied().or(self.limits.timeout);
        self.timer = wait.map(|wait| now + wait).into();
    }

    /// Moves the send position back to the oldest unacknowledged PSN.
    fn go_back(&mut self, ctx: &mut Ctx<'_>) {
        ctx.counters.rewinds += 1;
        self.current = 0;
        self.rd_in_flight = 0;
        self.current_packet = self.front_progress();
        self.since_ack_req = 0;
        // Of what is sent again nothing has requested an acknowledgement yet.
        self.asked_end = self.una;
        self.timer = Deadline::NEVER;
        self.probes.clear();
    }

    /// Packets of the front request that are acknowledged.
    fn front_progress(&self) -> u32 {
        self.sq.front().map_or(0, |wqe| self.una.ahead_of(wqe.first).max(0) as u32)
    }
}

/// Local memory of `wr` from packet `index` on.
fn payload(wr: &SendWr, index: u32, mtu: u32) -> Option<PayloadRef> {
    let done = index.saturating_mul(mtu);
    let len = wr.local.len.saturating_sub(done).min(mtu);
    (len > 0).then(|| PayloadRef { key: wr.local.key, va: wr.local.va + u64::from(done), len })
}

fn build(
    link: &Link,
    wqe: &Wqe,
    index: u32,
    opcode: u8,
    psn: Psn,
    ack_req: bool,
    retransmission: bool,
) -> OutPacket {
    let wr = &wqe.wr;
    let whole = wqe.needs_response;
    let payload = if whole { None } else { payload(wr, index, link.mtu.bytes()) };
    let bth = Bth {
        opcode,
        solicited: wr.solicited && !whole && index + 1 >= wqe.packets,
        pad: payload.map_or(0, |p| (p.len.wrapping_neg() & 3) as u8),
        pkey: link.pkey,
        fecn: false,
        becn: false,
        dest_qp: link.dest_qp,
        ack_req,
        psn,
    };
    let mut packet = OutPacket {
        src_qp: link.qpn,
        headers: Headers::new(bth),
        payload,
        class: ClassHint::Data,
        path: link.path,
        retransmission,
        echo: false,
    };
    extend(&mut packet, link, wqe, index);
    packet
}

fn kind_of(op: &SendOp) -> (Kind, Extra) {
    match op {
        SendOp::Send => (Kind::Send, Extra::None),
        SendOp::SendImm(_) => (Kind::Send, Extra::Imm),
        SendOp::SendInv(_) => (Kind::Send, Extra::Inv),
        SendOp::Write(_) => (Kind::Write, Extra::None),
        SendOp::WriteImm(..) => (Kind::Write, Extra::Imm),
        SendOp::Read(_) => (Kind::ReadRequest, Extra::None),
        SendOp::CmpSwap { .. } => (Kind::CmpSwap, Extra::None),
        SendOp::FetchAdd { .. } => (Kind::FetchAdd, Extra::None),
        SendOp::Datagram { imm: Some(_), .. } => (Kind::Send, Extra::Imm),
        SendOp::Datagram { imm: None, .. } => (Kind::Send, Extra::None),
    }
}

/// Adds the extended headers.
fn extend(packet: &mut OutPacket, link: &Link, wqe: &Wqe, index: u32) {
    let headers = &mut packet.headers;
    let position = Position::of(index, wqe.packets);
    let ends = position.ends();
    match wqe.wr.op {
        SendOp::Send => {}
        SendOp::SendImm(imm) if ends => headers.trailing = Trailing::Imm(imm),
        SendOp::SendInv(rkey) if ends => headers.trailing = Trailing::Ieth(rkey),
        SendOp::SendImm(_) | SendOp::SendInv(_) => {}
        SendOp::Write(remote) | SendOp::WriteImm(remote, _) => {
            if let SendOp::WriteImm(_, imm) = wqe.wr.op
                && ends
            {
                headers.trailing = Trailing::Imm(imm);
            }
            if link.selective {
                // Each packet is a message of its own, with its address.
                let done = index.saturating_mul(link.mtu.bytes());
                let len_bytes = packet.payload.map_or(0, |payload| payload.len);
                let va = remote.va.wrapping_add(done.into());
                headers.leading = Leading::Reth(Reth { va, rkey: remote.rkey, len_bytes });
            } else if position.starts() {
                let len_bytes = wqe.wr.local.len;
                headers.leading =
                    Leading::Reth(Reth { va: remote.va, rkey: remote.rkey, len_bytes });
            }
        }
        SendOp::Read(remote) => {
            // A repeated READ requests only the missing part.
            let done = index.saturating_mul(link.mtu.bytes());
            headers.leading = Leading::Reth(Reth {
                va: remote.va.wrapping_add(u64::from(done)),
                rkey: remote.rkey,
                len_bytes: wqe.wr.local.len.saturating_sub(done),
            });
        }
        SendOp::CmpSwap { remote, compare, swap } => {
            let (va, rkey) = (remote.va, remote.rkey);
            headers.leading = Leading::Atomic(AtomicEth { va, rkey, swap_or_add: swap, compare });
        }
        SendOp::FetchAdd { remote, add } => {
            let (va, rkey) = (remote.va, remote.rkey);
            headers.leading = Leading::Atomic(AtomicEth { va, rkey, swap_or_add: add, compare: 0 });
        }
        SendOp::Datagram { path, dest_qp, qkey, imm } => {
            let qkey = if qkey >> 31 == 1 { link.qkey } else { qkey };
            headers.leading = Leading::Deth(Deth { qkey, src_qp: link.qpn });
            headers.trailing = imm.map_or(Trailing::None, Trailing::Imm);
            headers.bth.dest_qp = dest_qp;
            packet.path = path;
        }
    }
}
