//! Requests in any order: WRITEs are stored on arrival, and acknowledged one by one.
//!
//! Each packet of a WRITE is a message of its own here (RDMA WRITE Only, the last with the immediate data), so each has
//! its own address; the completions of immediate data, which need an order, wait until everything before them has
//! arrived. They take receives in that order, so one that arrived early has a certain receive only if there are enough
//! for all packets before it. Reception in any order must be configured on both sides: otherwise it results in sequence
//! errors.

use std::collections::VecDeque;

use super::super::aeth::Sack;
use super::super::memory::{Access, MemoryTable};
use super::super::opcode::{Extra, Kind, Op, Position};
use super::super::packet::InPacket;
use super::super::psn::Psn;
use super::super::qp::Ctx;
use super::super::requester::SELECTIVE_MAX;
use super::super::verbs::{Completion, CompletionOp, Status};
use super::Responder;

/// A packet after the expected one.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Missing,
    Arrived,
    Immediate(Immediate),
}

/// Immediate data whose completion waits for the packets before it.
#[derive(Clone, Copy, Debug)]
struct Immediate {
    value: u32,
    len_bytes: u32,
    solicited: bool,
    /// A receive is certain, even if every earlier packet needs one.
    has_receive: bool,
}

/// Packets that have arrived after the expected one, which has not.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    places: VecDeque<Place>,
}

impl Arrivals {
    fn has(&self, place: usize) -> bool {
        self.places.get(place).is_some_and(|place| match place {
            Place::Missing => false,
            Place::Arrived => true,
            Place::Immediate(immediate) => immediate.has_receive,
        })
    }

    /// Packets before this one that may need a receive each.
    fn needing_receives(&self, place: usize) -> usize {
        let before = self.places.iter().take(place);
        let without = before.filter(|place| matches!(place, Place::Arrived)).count();
        place - without
    }

    /// The 64 packets from `base` on, where the expected one is `expected`.
    pub(super) fn bits(&self, expected: Psn, base: Psn) -> Sack {
        let mut bits = 0;
        for bit in 0..64 {
            let ahead = base.plus(bit).ahead_of(expected);
            let came = usize::try_from(ahead).map_or(true, |place| self.has(place));
            bits |= u64::from(came) << bit;
        }
        Sack { base, bits }
    }
}

impl Responder {
    /// A request ahead of the expected one.
    pub(super) fn on_early(
        &mut self,
        packet: &InPacket<'_>,
        op: Op,
        memory: &mut MemoryTable,
        ctx: &mut Ctx<'_>,
    ) {
        let psn = packet.headers.bth.psn;
        ctx.counters.out_of_sequence += 1;
        let place = psn.ahead_of(self.expected).unsigned_abs() as usize;
        if place >= SELECTIVE_MAX as usize {
            ctx.counters.dropped_packets += 1;
            return;
        }
        if self.arrivals.has(place) {
            ctx.counters.duplicate_requests += 1;
            return self.reply_sack(psn);
        }
        let is_write = op.kind == Kind::Write && op.position == Position::Only;
        let immediate = op.extra == Extra::Imm;
        let has_receive = immediate && self.rq.len() > self.arrivals.needing_receives(place);
        let checked = self.check(packet, op, memory, ctx);
        let written = packet.headers.reth().filter(|_| is_write).is_some_and(|to| {
            checked.is_ok()
                && memory.write(to.rkey, to.va, packet.payload, Access::REMOTE_WRITE).is_ok()
        });
        if !written {
            // An invalid request is answered when it is the expected one: nothing is lost by waiting.
            ctx.counters.dropped_packets += 1;
            return;
        }
        let len = packet.payload.len() as u32;
        if self.arrivals.places.len() <= place {
            self.arrivals.places.resize(place + 1, Place::Missing);
        }
        self.arrivals.places[place] = match packet.headers.imm().filter(|_| immediate) {
            Some(value) => {
                let solicited = packet.headers.bth.solicited;
                Place::Immediate(Immediate { value, len_bytes: len, solicited, has_receive })
            }
            None => Place::Arrived,
        };
        // A packet that may have to arrive again is not reported: it is acknowledged in order.
        if self.arrivals.has(place) {
            ctx.counters.accepted_payload_bytes += u64::from(len);
            self.reply_sack(psn);
        }
    }

    /// The expected packet has arrived: earlier arrivals after it are in order now.
    pub(super) fn close_gap(&mut self, ctx: &mut Ctx<'_>) {
        if self.arrivals.places.pop_front().is_none() {
            return;
        }
        while let Some(place) = self.arrivals.places.front().copied() {
            match place {
                Place::Missing => break,
                Place::Arrived => {}
                Place::Immediate(Immediate { value, len_bytes, solicited, has_receive }) => {
                    let Some(recv) = self.rq.pop_front() else {
                        ctx.counters.rnr_naks_sent += 1;
                        return self.reply_rnr(self.expected, ctx.link.min_rnr_timer);
                    };
                    if !has_receive {
                        ctx.counters.accepted_payload_bytes += u64::from(len_bytes);
                    }
                    let (qp, op) = (ctx.link.qpn, CompletionOp::RecvWriteImm);
                    let done = Completion::new(recv.wr_id, qp, Status::Success, op);
                    let imm = Some(value);
                    ctx.cq.push_back(Completion { len_bytes, imm, solicited, ..done });
                }
            }
            self.arrivals.places.pop_front();
            self.expected = self.expected.plus(1);
            self.count_message();
        }
        self.reply_ack();
    }

    /// A switch trimmed this request to its headers.
    pub(in super::super) fn on_trimmed(&mut self, psn: Psn, ctx: &mut Ctx<'_>) {
        ctx.counters.trimmed_packets += 1;
        let ahead = psn.ahead_of(self.expected);
        if ctx.link.selective {
            let place = usize::try_from(ahead).ok();
            if place
                .is_some_and(|place| place < SELECTIVE_MAX as usize && !self.arrivals.has(place))
            {
                ctx.counters.trim_naks_sent += 1;
                self.reply_trimmed(psn);
            }
            return;
        }
        // After a NAK the sender goes back to the expected packet, and retransmits the packets after it.
        if ahead < 0 || (ahead > 0 && self.nak_sent) {
            return;
        }
        // A trimmed packet takes another queue, and overtakes earlier packets: the NAK waits for these, because it
        // acknowledges them.
        if self.trimmed.is_none_or(|known| psn.ahead_of(known) < 0) {
            self.trimmed = Some(psn);
        }
        self.answer_trimmed(ctx);
    }

    /// Go-back-N: requests a trimmed packet as soon as it is the expected one.
    pub(super) fn answer_trimmed(&mut self, ctx: &mut Ctx<'_>) {
        let Some(psn) = self.trimmed else { return };
        match psn.ahead_of(self.expected) {
            1.. => {}
            0 => {
                self.trimmed = None;
                self.nak_sent = true;
                ctx.counters.trim_naks_sent += 1;
                ctx.counters.sequence_naks_sent += 1;
                self.reply_nak(psn, super::NakCode::PsnSequence);
            }
            _ => self.trimmed = None,
        }
    }
}
