//! The responder: request packets in, changes of memory and receive completions, responses out.
//!
//! Order of checks for RC (as rxe's `rxe_resp.c`): PSN, position in the message, permission of the operation, receive
//! resources, length, R_Key; then execution. An UC packet that fails one is dropped with the rest of its message. A NAK
//! for a broken rule is sent, and the queue pair goes to ERR.
//!
//! Execution is in [`execute`], requests before the expected PSN in [`duplicate`], responses in [`reply`].

use std::collections::VecDeque;

use super::aeth::NakCode;
use super::memory::{Access, MemoryTable};
use super::opcode::{Extra, Kind, Op, Position, Service};
use super::packet::InPacket;
use super::psn::Psn;
use super::qp::Ctx;
use super::verbs::{Completion, CompletionOp, RecvWr, Status};

mod duplicate;
mod execute;
mod reply;
mod selective;

use reply::{Reply, Saved};
use selective::Arrivals;

/// The message whose packets are arriving.
#[derive(Clone, Copy, Debug)]
enum Incoming {
    Send { recv: RecvWr, received: u32 },
    Write { key: u32, va: u64, total: u32, received: u32 },
}

/// Why a request is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// NAK with this code; the responder's own status for it.
    Nak(NakCode, Status),
    /// No receive work request: RNR NAK.
    NotReady,
}

const INVALID: Refusal = Refusal::Nak(NakCode::InvalidRequest, Status::RemoteInvalidRequest);
const NO_ACCESS: Refusal = Refusal::Nak(NakCode::RemoteAccess, Status::RemoteAccess);

/// The receiving half of a queue pair.
#[derive(Debug)]
pub(super) struct Responder {
    expected: Psn,
    /// PSN of the newest request, wherever it was.
    newest: Psn,
    /// Messages completed, 24 bits.
    msn: u32,
    /// A sequence or RNR NAK was sent: no other until the expected packet arrives.
    nak_sent: bool,
    /// A packet since the last acknowledgement was marked, and the sender reads marks from acknowledgements.
    marked: bool,
    /// UC: the rest of a broken message is dropped.
    skipping: bool,
    rq: VecDeque<RecvWr>,
    incoming: Option<Incoming>,
    replies: VecDeque<Reply>,
    /// READs and ATOMICs that may be requested again.
    saved: VecDeque<Saved>,
    max_saved: usize,
    /// Selective: packets that have arrived after the expected one.
    arrivals: Arrivals,
    /// Go-back-N: the oldest packet that arrived trimmed and was not yet requested again.
    trimmed: Option<Psn>,
}

impl Responder {
    pub(super) fn new() -> Self {
        Responder {
            expected: Psn::default(),
            newest: Psn::default(),
            msn: 0,
            nak_sent: false,
            marked: false,
            skipping: false,
            rq: VecDeque::new(),
            incoming: None,
            replies: VecDeque::new(),
            saved: VecDeque::new(),
            max_saved: 0,
            arrivals: Arrivals::default(),
            trimmed: None,
        }
    }

    /// INIT -> RTR. Receives posted in INIT stay.
    pub(super) fn start(&mut self, rq_psn: Psn, max_dest_rd_atomic: usize) {
        let rq = std::mem::take(&mut self.rq);
        *self =
            Responder { expected: rq_psn, max_saved: max_dest_rd_atomic, rq, ..Responder::new() };
        self.newest = rq_psn.minus(1);
    }

    pub(super) fn posted(&self) -> usize {
        self.rq.len()
    }

    pub(super) fn post(&mut self, wr: RecvWr) {
        self.rq.push_back(wr);
    }

    /// A request packet; `Some` puts the queue pair to ERR.
    pub(super) fn on_request(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Option<Status> {
        match ctx.link.service {
            Service::Rc => self.on_reliable(packet, op, memory, ctx),
            Service::Uc => {
                self.on_unreliable(packet, op, memory, ctx);
                None
            }
            Service::Ud => {
                self.on_datagram(packet, op, memory, ctx);
                None
            }
        }
    }

    fn on_reliable(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Option<Status> {
        let psn = packet.headers.bth.psn;
        let ahead = psn.ahead_of(self.expected);
        if psn.ahead_of(self.newest) <= 0 {
            ctx.counters.steps_back += 1;
        }
        self.newest = psn;
        self.marked |= packet.headers.bth.fecn && ctx.link.echo;
        if ahead > 0 && ctx.link.selective {
            self.on_early(packet, op, memory, ctx);
            return None;
        }
        if ahead > 0 {
            ctx.counters.out_of_sequence += 1;
            if !self.nak_sent {
                self.nak_sent = true;
                ctx.counters.sequence_naks_sent += 1;
                self.reply_nak(self.expected, NakCode::PsnSequence);
            }
            return None;
        }
        if ahead < 0 {
            ctx.counters.duplicate_requests += 1;
            self.on_duplicate(packet, op, ctx);
            return None;
        }
        self.nak_sent = false;
        let checked = self.check(packet, op, memory, ctx);
        match checked.and_then(|()| self.execute(packet, op, memory, ctx)) {
            Ok(()) => {
                if ctx.link.selective {
                    self.close_gap(ctx);
                } else if self.trimmed.is_some() {
                    self.answer_trimmed(ctx);
                }
                None
            }
            Err(Refusal::NotReady) => {
                // Later packets on the wire are now out of sequence, and cause no NAK of their own.
                self.nak_sent = true;
                ctx.counters.rnr_naks_sent += 1;
                self.reply_rnr(psn, ctx.link.min_rnr_timer);
                None
            }
            Err(Refusal::Nak(code, status)) => {
                ctx.counters.error_naks_sent += 1;
                self.reply_nak(psn, code);
                self.complete_failed(status, ctx);
                Some(Status::WorkRequestFlushed)
            }
        }
    }

    fn on_unreliable(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) {
        let psn = packet.headers.bth.psn;
        if psn != self.expected || self.skipping {
            if psn != self.expected {
                ctx.counters.out_of_sequence += 1;
            }
            // A gap breaks the current message; a First or Only starts anew at its own PSN.
            self.abandon_message();
            self.skipping = !op.position.starts();
        }
        self.expected = psn;
        if self.skipping {
            self.expected = psn.plus(1);
            return;
        }
        let outcome = self
            .check(packet, op, memory, ctx)
            .and_then(|()| self.execute(packet, op, memory, ctx));
        if outcome.is_err() {
            ctx.counters.dropped_packets += 1;
            self.abandon_message();
            self.skipping = true;
            self.expected = psn.plus(1);
        }
    }

    /// An unfinished SEND returns its receive work request to the front.
    fn abandon_message(&mut self) {
        if let Some(Incoming::Send { recv, .. }) = self.incoming.take() {
            self.rq.push_front(recv);
        }
    }

    /// All checks that can refuse the request, before anything changes.
    fn check(
        &self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &MemoryTable,
        ctx: &Ctx<'_>,
    ) -> Result<(), Refusal> {
        self.check_place(op)?;
        check_permission(op.kind, ctx.link.access)?;
        let takes_recv = match op.kind {
            Kind::Send => op.position.starts(),
            Kind::Write => op.position.ends() && op.extra == Extra::Imm,
            _ => false,
        };
        if takes_recv && self.rq.is_empty() {
            return Err(Refusal::NotReady);
        }
        check_length(packet, op, ctx.link.mtu.bytes())?;
        match op.kind {
            Kind::Send => {
                self.check_send(packet, memory)?;
                check_invalidation(packet, op, memory)
            }
            Kind::Write => self.check_write(packet, op, memory),
            Kind::ReadRequest => {
                let reth = packet.headers.reth().ok_or(INVALID)?;
                self.check_room()?;
                if reth.len_bytes > 1 << 31 || ctx.link.mtu.packets(reth.len_bytes) >= 1 << 23 {
                    return Err(INVALID);
                }
                memory
                    .check(reth.rkey, reth.va, reth.len_bytes, Access::REMOTE_READ)
                    .map_err(|_| NO_ACCESS)
            }
            Kind::CmpSwap | Kind::FetchAdd => {
                let atomic = packet.headers.atomic().ok_or(INVALID)?;
                self.check_room()?;
                if atomic.va % 8 != 0 {
                    return Err(INVALID);
                }
                memory
                    .check(atomic.rkey, atomic.va, 8, Access::REMOTE_ATOMIC)
                    .map_err(|_| NO_ACCESS)
            }
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck => Err(INVALID),
        }
    }

    /// First and Only if no message is open, Middle and Last of the same kind if one is.
    fn check_place(&self, op: Op) -> Result<(), Refusal> {
        let fits = match (&self.incoming, op.position) {
            (None, Position::First | Position::Only) => true,
            (Some(Incoming::Send { .. }), Position::Middle | Position::Last) => {
                op.kind == Kind::Send
            }
            (Some(Incoming::Write { .. }), Position::Middle | Position::Last) => {
                op.kind == Kind::Write
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(INVALID) }
    }

    fn check_send(&self, packet: &InPacket<'_>, memory: &MemoryTable) -> Result<(), Refusal> {
        let (recv, received) = match self.incoming {
            Some(Incoming::Send { recv, received }) => (recv, received),
            _ => (*self.rq.front().ok_or(Refusal::NotReady)?, 0),
        };
        let len = packet.payload.len() as u32;
        if received.checked_add(len).is_none_or(|end| end > recv.local.len) {
            return Err(Refusal::Nak(NakCode::InvalidRequest, Status::LocalLength));
        }
        let va = recv.local.va + u64::from(received);
        memory
            .check(recv.local.key, va, len, Access::LOCAL_WRITE)
            .map_err(|_| Refusal::Nak(NakCode::RemoteOperational, Status::LocalProtection))
    }

    fn check_write(
        &self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &MemoryTable,
    ) -> Result<(), Refusal> {
        let len = packet.payload.len() as u32;
        let (total, received) = match self.incoming {
            Some(Incoming::Write { total, received, .. }) => (total, received),
            _ => {
                let reth = packet.headers.reth().ok_or(INVALID)?;
                memory
                    .check(reth.rkey, reth.va, reth.len_bytes, Access::REMOTE_WRITE)
                    .map_err(|_| NO_ACCESS)?;
                (reth.len_bytes, 0)
            }
        };
        let end = received.checked_add(len).ok_or(INVALID)?;
        let fits = if op.position.ends() { end == total } else { end < total };
        // The region may have been removed since the first packet: the store, which comes first, detects that.
        if fits && total <= 1 << 31 { Ok(()) } else { Err(INVALID) }
    }

    /// A new READ or ATOMIC needs a place among the saved ones. If the oldest has not been answered for the first time,
    /// the peer has more outstanding than agreed.
    fn check_room(&self) -> Result<(), Refusal> {
        if self.saved.len() < self.max_saved {
            return Ok(());
        }
        match self.saved.front() {
            Some(oldest) if !self.is_being_answered(oldest) => Ok(()),
            _ => Err(INVALID),
        }
    }

    /// The current receive work request ends with `status`.
    fn complete_failed(&mut self, status: Status, ctx: &mut Ctx<'_>) {
        if let Some(Incoming::Send { recv, .. }) = self.incoming.take() {
            ctx.cq.push_back(failed(&recv, ctx.link.qpn, status));
        } else if status == Status::LocalLength || status == Status::LocalProtection {
            // Refused at its first packet: the work request it would have taken.
            if let Some(recv) = self.rq.pop_front() {
                ctx.cq.push_back(failed(&recv, ctx.link.qpn, status));
            }
        }
    }

    /// ERR: receives are flushed, READ responses stop; a pending NAK stays.
    pub(super) fn flush(&mut self, ctx: &mut Ctx<'_>) {
        self.abandon_message();
        for recv in std::mem::take(&mut self.rq) {
            ctx.cq.push_back(failed(&recv, ctx.link.qpn, Status::WorkRequestFlushed));
        }
        self.replies.retain(|reply| matches!(reply, Reply::Ack { .. }));
        self.saved.clear();
    }
}

fn check_permission(kind: Kind, access: Access) -> Result<(), Refusal> {
    let need = match kind {
        Kind::Write => Access::REMOTE_WRITE,
        Kind::ReadRequest => Access::REMOTE_READ,
        Kind::CmpSwap | Kind::FetchAdd => Access::REMOTE_ATOMIC,
        _ => Access::NONE,
    };
    if access.allows(need) { Ok(()) } else { Err(INVALID) }
}

/// SEND with Invalidate removes only a region that peers have access to.
fn check_invalidation(packet: &InPacket<'_>, op: Op, memory: &MemoryTable) -> Result<(), Refusal> {
    if op.extra != Extra::Inv {
        return Ok(());
    }
    let rkey = packet.headers.ieth().ok_or(INVALID)?;
    memory.check_remote(rkey).map_err(|_| NO_ACCESS)
}

/// First and Middle are full packets, Last is not empty, none is longer than the path MTU.
fn check_length(packet: &InPacket<'_>, op: Op, mtu: u32) -> Result<(), Refusal> {
    let len = packet.payload.len() as u64;
    let mtu = u64::from(mtu);
    let fits = match (op.kind, op.position) {
        (Kind::Send | Kind::Write, Position::First | Position::Middle) => len == mtu,
        (Kind::Send | Kind::Write, Position::Last) => len > 0 && len <= mtu,
        (Kind::Send | Kind::Write, Position::Only) => len <= mtu,
        _ => len == 0,
    };
    if fits { Ok(()) } else { Err(INVALID) }
}

fn failed(recv: &RecvWr, qp: u32, status: Status) -> Completion {
    Completion::new(recv.wr_id, qp, status, CompletionOp::Recv)
}
