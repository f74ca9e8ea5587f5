//! Acknowledgements, retries and completion.

use wireyard_tables::time::{Deadline, Time};

use super::super::aeth::{NakCode, Sack, Syndrome, rnr_timer};
use super::super::packet::Aeth;
use super::super::psn::Psn;
use super::super::qp::Ctx;
use super::super::rp::AckSample;
use super::super::verbs::{Completion, CompletionOp, SendOp, Status};
use super::{Requester, Wqe};

/// The queue pair must go to ERR; the front request ends with this status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Failed(pub(in super::super) Status);

/// RNR retry count that never runs out.
const RNR_FOR_EVER: u8 = 7;

impl Requester {
    /// An ACK, NAK or RNR NAK with this PSN.
    pub(in super::super) fn on_ack(
        &mut self,
        now: Time,
        psn: Psn,
        syndrome: Syndrome,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failed> {
        if psn.ahead_of(self.sent_end) >= 0 || psn.ahead_of(self.una) < 0 {
            // Older than what is acknowledged, or for something never sent.
            ctx.counters.stale_acks += 1;
            return Ok(());
        }
        match syndrome {
            Syndrome::Ack => {
                self.acknowledge(now, psn.plus(1), ctx);
                Ok(())
            }
            Syndrome::RnrNak(code) => self.on_rnr_nak(now, psn, code, ctx),
            Syndrome::Nak(NakCode::PsnSequence) => {
                ctx.counters.sequence_naks_received += 1;
                self.acknowledge(now, psn, ctx);
                ctx.rate.on_nack(now, 1);
                self.retry(ctx)
            }
            Syndrome::Nak(code) => {
                self.acknowledge(now, psn, ctx);
                Err(Failed(status_of(code)))
            }
            Syndrome::Reserved | Syndrome::Sack | Syndrome::Trimmed => {
                ctx.counters.bad_responses += 1;
                Ok(())
            }
        }
    }

    /// The same where only lost packets are retransmitted.
    pub(in super::super) fn on_selective_ack(
        &mut self,
        now: Time,
        psn: Psn,
        aeth: Aeth,
        payload: &[u8],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failed> {
        let (syndrome, named) = (Syndrome::decode(aeth.syndrome), Psn::new(aeth.msn));
        let end = if syndrome == Syndrome::Ack { psn.plus(1) } else { psn };
        // A report of arrived or trimmed packets is about others than the oldest missing one.
        let is_old =
            psn.ahead_of(self.una) < 0 && !matches!(syndrome, Syndrome::Sack | Syndrome::Trimmed);
        if end.ahead_of(self.sent_end) > 0 || is_old {
            ctx.counters.stale_acks += 1;
            return Ok(());
        }
        let sack = match (syndrome, payload.first_chunk()) {
            (Syndrome::Sack, Some(bits)) => {
                Some(Sack { base: named, bits: u64::from_be_bytes(*bits) })
            }
            _ => None,
        };
        self.on_arrivals(now, end, sack, ctx);
        match syndrome {
            Syndrome::Ack | Syndrome::Sack => Ok(()),
            Syndrome::Trimmed => {
                ctx.counters.trim_naks_received += 1;
                if self.on_named_loss(named) {
                    ctx.rate.on_trim(now);
                }
                // A response arrived.
                if !self.timer.is_never() {
                    self.arm_timer(now);
                }
                Ok(())
            }
            Syndrome::RnrNak(code) => {
                ctx.counters.rnr_naks_received += 1;
                self.on_named_loss(psn);
                if !self.rnr_until.is_never() {
                    return Ok(()); // a copy of the one that is being waited for
                }
                self.timer = Deadline::NEVER;
                self.wait_for_receive(now, code)
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                ctx.counters.sequence_naks_received += 1;
                if self.on_named_loss(psn) {
                    ctx.rate.on_nack(now, 1);
                }
                Ok(())
            }
            Syndrome::Nak(code) => Err(Failed(status_of(code))),
            Syndrome::Reserved => {
                ctx.counters.bad_responses += 1;
                Ok(())
            }
        }
    }

    /// The timers that ended at `now`.
    pub(in super::super) fn on_time(&mut self, now: Time, ctx: &mut Ctx<'_>) -> Result<(), Failed> {
        if self.rnr_until.is_by(now) {
            self.rnr_until = Deadline::NEVER;
            self.resume_timer(now);
        }
        if !self.timer.is_by(now) {
            return Ok(());
        }
        ctx.counters.timeouts += 1;
        let lost = match self.selective.is_some() {
            true => self.on_selective_timeout(),
            false => 1,
        };
        ctx.rate.on_timeout(now, lost);
        // Of early waits the first and the last cost a retry.
        if self.early_over == 0 || self.early_over + 1 >= self.early.len() {
            self.take_retry()?;
        }
        self.early_over = self.early.len().min(self.early_over + 1);
        if self.selective.is_none() {
            self.go_back(ctx);
        }
        self.implied_nak_done = false;
        Ok(())
    }

    fn on_rnr_nak(
        &mut self,
        now: Time,
        psn: Psn,
        code: u8,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failed> {
        ctx.counters.rnr_naks_received += 1;
        self.acknowledge(now, psn, ctx);
        if !self.rnr_until.is_never() {
            return Ok(()); // a copy of the one that is being waited for
        }
        self.wait_for_receive(now, code)?;
        self.go_back(ctx);
        Ok(())
    }

    /// Waits for the receiver's RNR time, if an RNR retry is left.
    fn wait_for_receive(&mut self, now: Time, code: u8) -> Result<(), Failed> {
        if self.limits.rnr_retry != RNR_FOR_EVER {
            self.rnr_left = self.rnr_left.checked_sub(1).ok_or(Failed(Status::RnrRetryExceeded))?;
        }
        self.rnr_until = Deadline::at(now + rnr_timer(code));
        Ok(())
    }

    /// Takes one retry, if one is left.
    fn take_retry(&mut self) -> Result<(), Failed> {
        self.retries_left =
            self.retries_left.checked_sub(1).ok_or(Failed(Status::RetryExceeded))?;
        Ok(())
    }

    /// Goes back to the oldest unacknowledged PSN if a retry is left.
    fn retry(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failed> {
        self.take_retry()?;
        self.go_back(ctx);
        Ok(())
    }

    /// A response is missing: go back once, and again only after progress or a timeout.
    pub(super) fn implied_nak(&mut self, ctx: &mut Ctx<'_>) {
        if !self.implied_nak_done {
            ctx.counters.implied_naks += 1;
            self.go_back(ctx);
            self.implied_nak_done = true;
        }
    }

    /// Everything before `end` is acknowledged. That does not complete READs and ATOMICs: an acknowledgement after one
    /// means that its response was lost.
    pub(super) fn acknowledge(&mut self, now: Time, end: Psn, ctx: &mut Ctx<'_>) {
        let before = self.una;
        let mut lost_response = false;
        for wqe in &self.sq {
            if wqe.needs_response {
                // `una` is at the first response still missing.
                lost_response = end.ahead_of(wqe.first) > 0 && end.ahead_of(self.una) > 0;
                break;
            }
            let reached = if end.ahead_of(wqe.end()) >= 0 { wqe.end() } else { end };
            if reached.ahead_of(self.una) > 0 {
                self.una = reached;
            }
            if reached != wqe.end() {
                break;
            }
        }
        self.progress(now, before, ctx);
        if lost_response {
            self.implied_nak(ctx);
        }
    }

    /// Pops completed requests and restarts counters and timer after `una` moved from `before`.
    pub(super) fn progress(&mut self, now: Time, before: Psn, ctx: &mut Ctx<'_>) {
        let packets = self.una.ahead_of(before).max(0) as u32;
        if packets == 0 {
            return;
        }
        self.pop_done(ctx);
        self.retries_left = self.limits.retry_count;
        self.early_over = 0;
        self.rnr_left = self.limits.rnr_retry;
        self.implied_nak_done = false;
        if self.asked_end.ahead_of(self.una) > 0 && !self.timer.is_never() {
            self.arm_timer(now);
        } else {
            self.timer = Deadline::NEVER;
        }
        // Of several, the newest acknowledged one.
        let mut round_trip = None;
        while let Some((psn, sent)) = self.probes.front().copied() {
            if psn.ahead_of(self.una) >= 0 {
                break;
            }
            self.probes.pop_front();
            round_trip = Some(now.since(sent));
        }
        self.acked += u64::from(packets);
        let sent = self.acked + self.sent_end.ahead_of(self.una).max(0) as u64;
        let (becn, telemetry, acked) = (ctx.becn, ctx.telemetry, self.acked);
        let sample = AckSample { packets, round_trip, becn, acked, sent, telemetry };
        ctx.acknowledge(now, &sample);
    }

    /// Completes and pops requests that are wholly before `una`; keeps the send position.
    pub(super) fn pop_done(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(wqe) = self.sq.front().copied() {
            if wqe.end().ahead_of(self.una) > 0 {
                break;
            }
            self.sq.pop_front();
            if self.current == 0 {
                // Sent before a go-back and acknowledged since: nothing of it is retransmitted.
                self.current_packet = 0;
            } else {
                self.current -= 1;
                self.rd_in_flight -= u32::from(wqe.needs_response).min(self.rd_in_flight);
            }
            if wqe.wr.signaled {
                ctx.cq.push_back(completion(&wqe, ctx.link.qpn, Status::Success));
            }
        }
        if self.current == 0 {
            self.current_packet = self.current_packet.max(self.front_progress());
        }
    }

    /// ERR: the front request ends with `first`, all others are flushed.
    pub(in super::super) fn flush(&mut self, first: Status, ctx: &mut Ctx<'_>) {
        let mut status = first;
        for wqe in std::mem::take(&mut self.sq) {
            ctx.cq.push_back(completion(&wqe, ctx.link.qpn, status));
            status = Status::WorkRequestFlushed;
        }
        self.current = 0;
        self.current_packet = 0;
        self.rd_in_flight = 0;
        self.timer = Deadline::NEVER;
        self.rnr_until = Deadline::NEVER;
        self.una = self.post_psn;
        self.sent_end = self.post_psn;
        self.asked_end = self.post_psn;
        self.selective = self.renewed().selective;
    }
}

fn status_of(code: NakCode) -> Status {
    match code {
        NakCode::InvalidRequest | NakCode::InvalidRd => Status::RemoteInvalidRequest,
        NakCode::RemoteAccess => Status::RemoteAccess,
        _ => Status::RemoteOperation,
    }
}

fn completion(wqe: &Wqe, qp: u32, status: Status) -> Completion {
    let op = match wqe.wr.op {
        SendOp::Write(_) | SendOp::WriteImm(..) => CompletionOp::Write,
        SendOp::Read(_) => CompletionOp::Read,
        SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => CompletionOp::Atomic,
        _ => CompletionOp::Send,
    };
    let len_bytes = wqe.wr.local.len;
    Completion { len_bytes, ..Completion::new(wqe.wr.wr_id, qp, status, op) }
}
