//! Selective retransmission: the packets in flight, arrived or lost, and those to retransmit.
//!
//! The scheme of IRN (SIGCOMM 2018, section 3), with two additions for fabrics that trim and spray. The receiver
//! accepts packets in any order and reports which arrived ([`Syndrome::Sack`](super::super::aeth::Syndrome)); only lost
//! packets are retransmitted. A packet is lost when the receiver got it trimmed, when one that was *sent* more than
//! `reordering` packets after it has arrived (IRN: 0, which considers every overtaken packet lost; RFC 8985 counts in
//! the order of sending too), or when no acknowledgement arrived within the timeout. An arrival sooner after a
//! retransmission than the least round trip is that of the first copy (RFC 8985, section 6.2, step 2). The packets in
//! flight are limited by the queue pair (IRN's BDP-FC, counted from the oldest missing packet) and by the window of
//! rate control (counted in packets in flight). READ, ATOMIC and SEND are not sent this way: only each packet of a
//! WRITE has its own address.

use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Span, Time};

use super::super::aeth::Sack;
use super::super::packet::OutPacket;
use super::super::psn::Psn;
use super::super::qp::{Ctx, QpState};
use super::super::rp::AckSample;
use super::{Requester, build};

/// Most packets between the oldest missing one and the newest: the state of a receiver.
pub const SELECTIVE_MAX: u32 = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    UnderWay,
    Arrived,
    Lost,
}

/// A packet, from the oldest missing one on.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Number of its newest copy among all packets sent, including retransmissions.
    number: u64,
    at: Time,
    state: State,
    again: bool,
}

/// The packets of a queue pair that sends selectively.
#[derive(Debug, Default)]
pub(super) struct Selective {
    reordering: u64,
    /// From the oldest that is missing.
    packets: VecDeque<Packet>,
    /// Copies in the order of sending; arrived ones are dropped from the front.
    order: VecDeque<(u64, Psn)>,
    /// To be retransmitted, oldest loss first.
    lost: VecDeque<Psn>,
    numbers: u64,
    newest_arrived: u64,
    /// Of packets that were sent once; `None` before the first of them arrived.
    least_round_trip: Option<Span>,
    under_way: u32,
    /// Packets sent, each once.
    sent_once: u64,
}

/// The effects of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    arrived: u32,
    /// Number and departure of the newest that arrived and was sent once.
    newest: Option<(u64, Time)>,
    lost: u32,
}

impl Selective {
    pub(super) fn new(reordering: u32) -> Selective {
        Selective { reordering: reordering.into(), ..Selective::default() }
    }

    pub(super) fn reordering(&self) -> u32 {
        u32::try_from(self.reordering).unwrap_or(u32::MAX)
    }

    fn place(una: Psn, psn: Psn) -> Option<usize> {
        usize::try_from(psn.ahead_of(una)).ok()
    }

    /// A copy of a packet leaves.
    fn sent(&mut self, now: Time, una: Psn, psn: Psn) {
        self.numbers += 1;
        let (number, at) = (self.numbers, now);
        self.order.push_back((number, psn));
        self.under_way += 1;
        match Selective::place(una, psn).and_then(|place| self.packets.get_mut(place)) {
            Some(packet) => *packet = Packet { number, at, state: State::UnderWay, again: true },
            None => {
                self.sent_once += 1;
                let packet = Packet { number, at, state: State::UnderWay, again: false };
                self.packets.push_back(packet);
            }
        }
    }

    fn arrives(&mut self, now: Time, place: usize, change: &mut Change) {
        let Some(packet) = self.packets.get_mut(place) else { return };
        if packet.state == State::Arrived {
            return;
        }
        self.under_way -= u32::from(packet.state == State::UnderWay);
        packet.state = State::Arrived;
        change.arrived += 1;
        let round_trip = now.since(packet.at);
        if !packet.again {
            let least = self.least_round_trip.map_or(round_trip, |least| least.min(round_trip));
            self.least_round_trip = Some(least);
        }
        if !packet.again || self.least_round_trip.is_some_and(|least| round_trip >= least) {
            self.newest_arrived = self.newest_arrived.max(packet.number);
        }
        if !packet.again && change.newest.is_none_or(|(number, _)| number < packet.number) {
            change.newest = Some((packet.number, packet.at));
        }
    }

    fn is_lost(&mut self, una: Psn, psn: Psn, number: Option<u64>) -> bool {
        let Some(place) = Selective::place(una, psn) else { return false };
        let Some(packet) = self.packets.get_mut(place) else { return false };
        let same = number.is_none_or(|number| packet.number == number);
        if packet.state != State::UnderWay || !same {
            return false;
        }
        packet.state = State::Lost;
        self.under_way -= 1;
        self.lost.push_back(psn);
        true
    }

    /// Packets that were overtaken by more than permitted, in the order of sending.
    fn find_overtaken(&mut self, una: Psn, change: &mut Change) {
        while let Some(&(number, psn)) = self.order.front() {
            let place = Selective::place(una, psn);
            let packet = place.and_then(|place| self.packets.get(place));
            let waits = packet.is_some_and(|p| p.number == number && p.state == State::UnderWay);
            if waits && number + self.reordering >= self.newest_arrived {
                return;
            }
            self.order.pop_front();
            change.lost += u32::from(waits && self.is_lost(una, psn, Some(number)));
        }
    }

    /// The oldest loss that is still missing.
    fn next_lost(&mut self, una: Psn) -> Option<Psn> {
        while let Some(psn) = self.lost.front().copied() {
            let place = Selective::place(una, psn);
            let packet = place.and_then(|place| self.packets.get(place));
            if packet.is_some_and(|packet| packet.state == State::Lost) {
                return Some(psn);
            }
            self.lost.pop_front();
        }
        None
    }

    fn has_lost(&self, una: Psn) -> bool {
        self.lost.iter().any(|psn| {
            let packet = Selective::place(una, *psn).and_then(|place| self.packets.get(place));
            packet.is_some_and(|packet| packet.state == State::Lost)
        })
    }
}

impl Requester {
    /// Sends selectively from the start of the connection.
    pub(in super::super) fn select(&mut self, reordering: u32) {
        self.selective = Some(Box::new(Selective::new(reordering)));
    }

    /// As [`Requester::has_request`].
    pub(super) fn has_selective(
        &self,
        selective: &Selective,
        state: QpState,
        windowed: bool,
    ) -> bool {
        if state != QpState::Rts && state != QpState::Sqd {
            return false;
        }
        if windowed && self.window_is_full(selective.under_way) {
            return false;
        }
        if selective.has_lost(self.una) {
            return true;
        }
        let Some(wqe) = self.sq.get(self.current) else { return false };
        let started = self.current_packet > 0;
        let psn = wqe.first.plus(self.current_packet);
        (state == QpState::Rts || started)
            && (psn.ahead_of(self.una).max(0) as u32) < self.limits.max_outstanding
    }

    /// As [`Requester::emit`].
    pub(super) fn emit_selective(&mut self, now: Time, ctx: &mut Ctx<'_>) -> Option<OutPacket> {
        let selective = self.selective.as_mut()?;
        let lost = selective.next_lost(self.una);
        let (wqe, psn) = match lost {
            Some(psn) => {
                selective.lost.pop_front();
                let holds =
                    |wqe: &&super::Wqe| psn.ahead_of(wqe.first) >= 0 && psn.ahead_of(wqe.end()) < 0;
                (*self.sq.iter().find(holds)?, psn)
            }
            None => {
                let wqe = *self.sq.get(self.current)?;
                (wqe, wqe.first.plus(self.current_packet))
            }
        };
        let index = psn.ahead_of(wqe.first) as u32;
        let ends = index + 1 >= wqe.packets;
        selective.sent(now, self.una, psn);
        // Before anything stops the sender, it requests an acknowledgement.
        let ahead = psn.plus(1).ahead_of(self.una).max(0) as u32;
        let full = ahead >= self.limits.max_outstanding || selective.under_way >= self.window;
        self.since_ack_req += 1;
        let ack_req = ends || lost.is_some() || full || self.since_ack_req >= self.limits.ack_every;
        if ack_req {
            self.since_ack_req = 0;
            if psn.plus(1).ahead_of(self.asked_end) > 0 {
                self.asked_end = psn.plus(1);
            }
        }
        if lost.is_some() {
            ctx.counters.retransmitted_packets += 1;
        } else {
            self.sent_end = psn.plus(1);
            self.current_packet += 1;
            if ends {
                self.current += 1;
                self.current_packet = 0;
            }
        }
        if self.timer.is_never() {
            self.arm_timer(now);
        }
        let opcode = wqe.opcodes[usize::from(ends)]?;
        Some(build(ctx.link, &wqe, index, opcode, psn, ack_req, lost.is_some()))
    }

    /// Everything before `end` has arrived, and the packets of the bits.
    pub(super) fn on_arrivals(
        &mut self,
        now: Time,
        end: Psn,
        sack: Option<Sack>,
        ctx: &mut Ctx<'_>,
    ) {
        let (mut change, una) = (Change::default(), self.una);
        let Some(selective) = self.selective.as_mut() else { return };
        let passed = end.ahead_of(una).max(0) as usize;
        for place in 0..passed {
            selective.arrives(now, place, &mut change);
        }
        if let Some(Sack { base, bits }) = sack {
            for bit in (0..64).filter(|bit| bits & 1 << bit != 0) {
                if let Some(place) = Selective::place(una, base.plus(bit)) {
                    selective.arrives(now, place, &mut change);
                }
            }
        }
        // The acknowledgement may be older than earlier ones: then the oldest missing packet stays.
        selective.packets.drain(..passed.min(selective.packets.len()));
        if passed > 0 {
            self.una = end;
            self.rnr_left = self.limits.rnr_retry;
        }
        if change.arrived > 0 {
            selective.find_overtaken(self.una, &mut change);
            self.retries_left = self.limits.retry_count;
            self.early_over = 0;
            self.acked += u64::from(change.arrived);
        }
        let (under_way, sent) = (selective.under_way, selective.sent_once);
        if passed > 0 {
            self.pop_done(ctx);
        }
        if change.arrived > 0 {
            self.timer = Deadline::NEVER;
            // While it waits for a receive, no timer runs.
            if under_way > 0 && self.rnr_until.is_never() {
                self.arm_timer(now);
            }
            let sample = AckSample {
                packets: change.arrived,
                round_trip: change.newest.map(|(_, at)| now.since(at)),
                becn: ctx.becn,
                acked: self.acked,
                sent,
                telemetry: ctx.telemetry,
            };
            ctx.acknowledge(now, &sample);
        }
        if change.lost > 0 {
            ctx.counters.overtaken_packets += u64::from(change.lost);
            ctx.rate.on_nack(now, change.lost);
        }
    }

    /// The wait for a receive is over.
    pub(super) fn resume_timer(&mut self, now: Time) {
        let waits = self.selective.as_ref().is_some_and(|selective| selective.under_way > 0);
        if waits && self.timer.is_never() {
            self.arm_timer(now);
        }
    }

    /// The receiver reported this packet: trimmed, out of sequence, or without a receive.
    pub(super) fn on_named_loss(&mut self, psn: Psn) -> bool {
        let una = self.una;
        self.selective.as_mut().is_some_and(|selective| selective.is_lost(una, psn, None))
    }

    /// No acknowledgement came for the timeout: all packets in flight count as lost. Returns their number.
    pub(super) fn on_selective_timeout(&mut self) -> u32 {
        self.timer = Deadline::NEVER;
        let una = self.una;
        let Some(selective) = self.selective.as_mut() else { return 0 };
        let mut lost = 0;
        for place in 0..selective.packets.len() as u32 {
            lost += u32::from(selective.is_lost(una, una.plus(place), None));
        }
        selective.order.clear();
        lost
    }
}
