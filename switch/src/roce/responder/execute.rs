//! Execution of requests that passed every check.

use super::super::memory::{Access, MemoryTable};
use super::super::opcode::{Extra, Kind, Op};
use super::super::packet::{InPacket, Reth};
use super::super::qp::Ctx;
use super::super::verbs::{Completion, CompletionOp, RecvWr};
use super::reply::Saved;
use super::{INVALID, Incoming, NO_ACCESS, Refusal, Responder};

/// The GRH area in front of a received datagram.
const GRH_BYTES: u32 = 40;

impl Responder {
    pub(super) fn execute(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Refusal> {
        let psn = packet.headers.bth.psn;
        match op.kind {
            Kind::Send => self.execute_send(packet, op, memory, ctx)?,
            Kind::Write => self.execute_write(packet, op, memory, ctx)?,
            Kind::ReadRequest => {
                let reth = packet.headers.reth().ok_or(INVALID)?;
                let packets = ctx.link.mtu.packets(reth.len_bytes);
                self.expected = psn.plus(packets);
                self.count_message();
                self.save(Saved::Read { first: psn, packets, reth });
                self.reply_read(psn, packets, reth, false);
                return Ok(());
            }
            Kind::CmpSwap | Kind::FetchAdd => {
                let atomic = packet.headers.atomic().ok_or(INVALID)?;
                let update = |old: u64| match op.kind {
                    Kind::FetchAdd => old.wrapping_add(atomic.swap_or_add),
                    _ if old == atomic.compare => atomic.swap_or_add,
                    _ => old,
                };
                let old = memory.atomic(atomic.rkey, atomic.va, update).map_err(|_| NO_ACCESS)?;
                self.expected = psn.plus(1);
                self.count_message();
                self.save(Saved::Atomic { psn, old });
                self.reply_atomic(psn, old, false);
                return Ok(());
            }
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck => return Err(INVALID),
        }
        ctx.counters.accepted_payload_bytes += packet.payload.len() as u64;
        self.expected = psn.plus(1);
        if packet.headers.bth.ack_req && ctx.link.service == super::Service::Rc {
            self.reply_ack();
        }
        Ok(())
    }

    fn execute_send(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Refusal> {
        let (recv, received) = match self.incoming.take() {
            Some(Incoming::Send { recv, received }) => (recv, received),
            _ => (self.rq.pop_front().ok_or(Refusal::NotReady)?, 0),
        };
        let va = recv.local.va + u64::from(received);
        memory
            .write(recv.local.key, va, packet.payload, Access::LOCAL_WRITE)
            .map_err(|_| NO_ACCESS)?;
        let received = received + packet.payload.len() as u32;
        if !op.position.ends() {
            self.incoming = Some(Incoming::Send { recv, received });
            return Ok(());
        }
        let invalidated = packet.headers.ieth().filter(|_| op.extra == Extra::Inv);
        if let Some(rkey) = invalidated {
            memory.remove(rkey);
        }
        self.count_message();
        let done = received_message(packet, &recv, received, CompletionOp::Recv, ctx.link.qpn);
        ctx.cq.push_back(Completion { invalidated, ..done });
        Ok(())
    }

    fn execute_write(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Refusal> {
        if self.incoming.is_none() {
            let Reth { va, rkey: key, len_bytes: total } = packet.headers.reth().ok_or(INVALID)?;
            self.incoming = Some(Incoming::Write { key, va, total, received: 0 });
        }
        let Some(Incoming::Write { key, va, total, received }) = &mut self.incoming else {
            return Err(INVALID);
        };
        let (at, total) = (va.wrapping_add(u64::from(*received)), *total);
        memory.write(*key, at, packet.payload, Access::REMOTE_WRITE).map_err(|_| NO_ACCESS)?;
        *received += packet.payload.len() as u32;
        if !op.position.ends() {
            return Ok(());
        }
        self.incoming = None;
        self.count_message();
        if op.extra == Extra::Imm {
            let recv = self.rq.pop_front().ok_or(Refusal::NotReady)?;
            let op = CompletionOp::RecvWriteImm;
            ctx.cq.push_back(received_message(packet, &recv, total, op, ctx.link.qpn));
        }
        Ok(())
    }

    /// A datagram: one packet, behind a 40-byte GRH area; dropped if there is no receive for it.
    pub(super) fn on_datagram(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(deth) = packet.headers.deth().filter(|_| op.kind == Kind::Send) else {
            ctx.counters.dropped_packets += 1;
            return;
        };
        let len = packet.payload.len() as u64 + u64::from(GRH_BYTES);
        let fits = |recv: &RecvWr| len <= u64::from(recv.local.len);
        let Some(recv) = self.rq.front().copied().filter(fits) else {
            ctx.counters.dropped_packets += 1;
            return;
        };
        let va = recv.local.va + u64::from(GRH_BYTES);
        if memory.write(recv.local.key, va, packet.payload, Access::LOCAL_WRITE).is_err() {
            ctx.counters.dropped_packets += 1;
            return;
        }
        self.rq.pop_front();
        ctx.counters.accepted_payload_bytes += packet.payload.len() as u64;
        let done = received_message(packet, &recv, len as u32, CompletionOp::Recv, ctx.link.qpn);
        ctx.cq.push_back(Completion { source: Some((deth.src_qp, packet.path)), ..done });
    }

    pub(super) fn count_message(&mut self) {
        self.msn = (self.msn + 1) & 0x00ff_ffff;
    }
}

fn received_message(
    packet: &InPacket<'_>,
    recv: &RecvWr,
    len_bytes: u32,
    op: CompletionOp,
    qp: u32,
) -> Completion {
    Completion {
        len_bytes,
        imm: packet.headers.imm(),
        solicited: packet.headers.bth.solicited,
        ..Completion::new(recv.wr_id, qp, super::Status::Success, op)
    }
}
