//! READ and ATOMIC responses.
//!
//! Responses are accepted in PSN order only. One that is ahead means that an earlier one was lost and makes the
//! requester repeat the request from there; one that is behind is a copy. After a repeated READ the packets of the old
//! and of the new response may mix, so First and Middle are not distinguished, but length and end are.

use wireyard_tables::time::Time;

use super::super::memory::{Access, MemoryTable};
use super::super::opcode::Position;
use super::super::packet::InPacket;
use super::super::qp::Ctx;
use super::super::verbs::{SendOp, Status};
use super::{Failed, Requester, Wqe};

impl Requester {
    /// A READ response packet.
    pub(in super::super) fn on_read_response(
        &mut self,
        now: Time,
        packet: &InPacket<'_>,
        position: Position,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failed> {
        let Some(wqe) = self.expected(now, packet, ctx) else { return Ok(()) };
        if !matches!(wqe.wr.op, SendOp::Read(_)) {
            return Err(Failed(Status::BadResponse));
        }
        let mtu = ctx.link.mtu.bytes();
        let index = self.front_progress();
        let done = index.saturating_mul(mtu);
        let len = wqe.wr.local.len.saturating_sub(done).min(mtu);
        let last = index + 1 >= wqe.packets;
        if packet.payload.len() as u64 != u64::from(len) || position.ends() != last {
            return Err(Failed(Status::BadResponse));
        }
        let va = wqe.wr.local.va + u64::from(done);
        memory
            .write(wqe.wr.local.key, va, packet.payload, Access::LOCAL_WRITE)
            .map_err(|_| Failed(Status::LocalProtection))?;
        let before = self.una;
        self.una = self.una.plus(1);
        self.progress(now, before, ctx);
        Ok(())
    }

    /// An ATOMIC acknowledge with the word's old value.
    pub(in super::super) fn on_atomic_response(
        &mut self,
        now: Time,
        packet: &InPacket<'_>,
        old: u64,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failed> {
        let Some(wqe) = self.expected(now, packet, ctx) else { return Ok(()) };
        if !matches!(wqe.wr.op, SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. }) {
            return Err(Failed(Status::BadResponse));
        }
        memory
            .write(wqe.wr.local.key, wqe.wr.local.va, &old.to_le_bytes(), Access::LOCAL_WRITE)
            .map_err(|_| Failed(Status::LocalProtection))?;
        let before = self.una;
        self.una = self.una.plus(1);
        self.progress(now, before, ctx);
        Ok(())
    }

    /// The request whose next response this packet is; acknowledges the requests before it.
    fn expected(&mut self, now: Time, packet: &InPacket<'_>, ctx: &mut Ctx<'_>) -> Option<Wqe> {
        let psn = packet.headers.bth.psn;
        if psn.ahead_of(self.una) < 0 || psn.ahead_of(self.sent_end) >= 0 {
            ctx.counters.stale_acks += 1;
            return None;
        }
        // A response acknowledges every earlier SEND and WRITE; a READ among them is a lost response.
        self.acknowledge(now, psn, ctx);
        let front = *self.sq.front()?;
        if self.una != psn {
            self.implied_nak(ctx);
            return None;
        }
        if !front.needs_response {
            ctx.counters.bad_responses += 1;
            return None;
        }
        Some(front)
    }
}
