//! A link in virtual time: two ports, and the frames in flight.
//!
//! A frame arrives at the far end one delay after its last bit has left. The link may lose frames, flip a bit, delay a
//! frame behind others, or be cut; random faults are as on a bad cable ([`chance`](crate::ports::faults::chance)).
//! Frames move as handles, so all nodes of a lab share one packet memory. A link has no rate: the traffic manager has
//! it.
//!
//! A direction belongs to the partition that it leads to. One that leads from one partition to another has two halves:
//! faults of frames are drawn and counted in the partition of the sender when they leave, where they wait until they
//! are carried over (`Direction::take_leaving`, `Direction::arrive`). Each direction has a random stream of its own, so
//! the results do not depend on the threads of the two ends.

use std::collections::VecDeque;
use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::prefetch::prefetch;
use wireyard_tables::time::{Deadline, Span, Time};

use super::arrival_index::ArrivalIndex;
use super::fabric::LinkSetup;
use super::lease::{Lease, Leased};
use super::tap::Tap;
use crate::ports::faults::chance::{Chances, flip_bit};
use crate::ports::{
    ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortStats, RxFrame, TxDone,
    TxFrame,
};

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames handed to it.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Frames that arrived.
    pub arrived: u64,
    /// Bytes of these.
    pub arrived_bytes: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames lost because the link was cut.
    pub cut: u64,
    /// Frames that arrived with a wrong bit.
    pub corrupted: u64,
    /// Frames that fell behind.
    pub reordered: u64,
}

impl LinkCounters {
    /// Frames in flight.
    pub fn under_way(&self) -> Option<u64> {
        self.sent.checked_sub(self.arrived + self.lost + self.cut)
    }
}

/// Frames in flight, and their faults; in the order of use, for the cache.
#[derive(Debug)]
#[repr(C)]
struct Flight {
    /// As they will arrive, in the order of their timestamps.
    frames: VecDeque<RxFrame>,
    up: bool,
    tap: Option<Tap>,
    counters: LinkCounters,
    chances: Chances,
}

/// The end of a link: the index of arrivals there, the lease of the thread that may access it, its place in the index.
#[derive(Clone, Copy, Debug)]
pub struct LinkEnd<'a> {
    /// Of its partition.
    pub arrival_index: &'a Arc<ArrivalIndex>,
    /// Of its partition.
    pub lease: &'a Arc<Lease>,
    /// In this arrival index.
    pub place: usize,
    /// It is a host's.
    pub is_host: bool,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    arrival_index: Arc<ArrivalIndex>,
    /// Place of the port that it leads to.
    to: usize,
    flight: Leased<Flight>,
    /// Frames that have left and are not yet carried over, if the direction leads from another partition.
    leaving: Option<Leased<Flight>>,
}

impl Direction {
    fn new(
        setup: LinkSetup,
        (seed, number): (u64, u64),
        (from, to): (LinkEnd<'_>, LinkEnd<'_>),
    ) -> Direction {
        let flight = || Flight {
            frames: VecDeque::new(),
            chances: Chances::new(setup.faults(seed), number),
            up: true,
            counters: LinkCounters::default(),
            tap: None,
        };
        let is_one = Arc::ptr_eq(from.lease, to.lease);
        Direction {
            arrival_index: Arc::clone(to.arrival_index),
            to: to.place,
            flight: Leased::new(to.lease, flight()),
            leaving: (!is_one).then(|| Leased::new(from.lease, flight())),
        }
    }

    /// The half that frames leave from.
    fn departures(&self) -> &Leased<Flight> {
        self.leaving.as_ref().unwrap_or(&self.flight)
    }

    /// Both halves, or the only one.
    fn halves(&self) -> impl Iterator<Item = &Leased<Flight>> {
        self.leaving.iter().chain([&self.flight])
    }

    /// When the first frame arrives.
    pub fn next_arrival(&self) -> Deadline {
        self.arrival_index.arrival(self.to)
    }

    /// The counters so far.
    pub fn counters(&self) -> LinkCounters {
        let mut counters = self.flight.with(|flight| flight.counters);
        if let Some(leaving) = &self.leaving {
            counters += leaving.with(|flight| flight.counters);
        }
        counters
    }

    /// Frames in flight, and their bytes.
    pub(super) fn under_way(&self) -> (u64, u64) {
        let of = |half: &Leased<Flight>| half.with(|flight| flight.under_way());
        self.halves().map(of).fold((0, 0), |sum, half| (sum.0 + half.0, sum.1 + half.1))
    }

    /// Cuts the link, or joins it again. Frames in flight when it is cut are lost.
    pub fn set_up(&self, up: bool, mem: &mut PacketMemory) {
        self.halves().for_each(|half| half.with(|flight| flight.set_up(up, mem)));
        if !up {
            self.arrival_index.set_arrival(self.to, Deadline::NEVER);
        }
    }

    /// Captures what is sent from now on.
    pub fn capture(&self, tap: Tap) {
        self.departures().with(|flight| flight.tap = Some(tap));
    }

    /// The capture.
    pub fn take_capture(&self) -> Option<Tap> {
        self.departures().with(|flight| flight.tap.take())
    }

    /// Takes the frames that have left for another partition, in the order of arrival.
    pub(super) fn take_leaving(&self, each: impl FnMut(RxFrame)) {
        if let Some(leaving) = &self.leaving {
            leaving.with(|flight| flight.frames.drain(..).for_each(each));
        }
    }

    /// Carries over a frame from another partition. Returns when the first one arrives.
    pub(super) fn arrive(&self, frame: RxFrame) -> Deadline {
        let next = self.flight.with(|flight| {
            flight.join(frame);
            flight.next()
        });
        self.arrival_index.set_arrival(self.to, next);
        next
    }
}

impl std::ops::AddAssign for LinkCounters {
    fn add_assign(&mut self, other: LinkCounters) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.arrived += other.arrived;
        self.arrived_bytes += other.arrived_bytes;
        self.lost += other.lost;
        self.cut += other.cut;
        self.corrupted += other.corrupted;
        self.reordered += other.reordered;
    }
}

impl Flight {
    fn under_way(&self) -> (u64, u64) {
        let bytes = self.frames.iter().map(|frame| u64::from(frame.len)).sum();
        (self.frames.len() as u64, bytes)
    }

    fn set_up(&mut self, up: bool, mem: &mut PacketMemory) {
        self.up = up;
        if !up {
            self.counters.cut += self.frames.len() as u64;
            self.frames.drain(..).for_each(|frame| mem.free(frame.buf));
        }
    }

    /// When the next frame arrives.
    #[inline]
    fn next(&self) -> Deadline {
        self.frames.front().map(|frame| frame.timestamp).into()
    }

    /// Prefetches the memory that the next frames need on arrival: since their last access, other data has filled the
    /// caches.
    #[inline]
    fn prefetch(&self, mem: &PacketMemory, reads_all: bool) {
        if let Some(RxFrame { buf, data_off, len, .. }) = self.frames.front() {
            match reads_all {
                true => mem.prefetch_frame(buf, *data_off, *len),
                false => mem.prefetch(buf, *data_off),
            }
        }
        if let Some(later) = self.frames.get(1) {
            prefetch(later);
        }
    }

    /// Accepts a frame whose last bit leaves at `end`.
    #[inline]
    fn take(&mut self, mem: &mut PacketMemory, mut frame: TxFrame) {
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(frame.len);
        if let Some(tap) = &mut self.tap {
            tap.record(frame.start, mem.frame(&frame.buf, frame.data_off, frame.len));
        }
        if !self.up {
            self.counters.cut += 1;
            return mem.free(frame.buf);
        }
        let later = match self.chances.only_later() {
            Some(later) => later,
            None => match self.draw_faults(mem, &mut frame) {
                Some(later) => later,
                None => return mem.free(frame.buf),
            },
        };
        let timestamp = frame.end + later;
        let TxFrame { buf, data_off, len, wire_len, .. } = frame;
        let checksum = ChecksumStatus::AsReceived;
        // Built in place: a copy right after narrow stores stalls on store forwarding.
        let received = || RxFrame { buf, data_off, len, wire_len, timestamp, checksum };
        // Nearly always the last: frames leave in order.
        if self.frames.back().is_none_or(|last| last.timestamp <= timestamp) {
            self.frames.push_back(received());
        } else {
            self.insert_reordered(received());
        }
    }

    /// Inserts a frame in its place among those in flight.
    fn join(&mut self, frame: RxFrame) {
        match self.frames.back() {
            Some(last) if last.timestamp > frame.timestamp => self.insert_reordered(frame),
            _ => self.frames.push_back(frame),
        }
    }

    /// Puts a frame in front of those that arrive later.
    #[cold]
    fn insert_reordered(&mut self, frame: RxFrame) {
        let later = |other: &&RxFrame| other.timestamp > frame.timestamp;
        let behind = self.frames.iter().rev().take_while(later).count();
        self.frames.insert(self.frames.len() - behind, frame);
    }

    /// Loses, corrupts or delays a frame as drawn; returns its additional delay. `None`: it is lost.
    fn draw_faults(&mut self, mem: &mut PacketMemory, frame: &mut TxFrame) -> Option<Span> {
        let drawn = self.chances.draw();
        if drawn.is_lost {
            self.counters.lost += 1;
            return None;
        }
        if let Some(draw) = drawn.corrupts {
            let turned = flip_bit(mem, &mut frame.buf, frame.data_off, frame.len, draw);
            self.counters.corrupted += u64::from(turned);
        }
        self.counters.reordered += u64::from(drawn.is_reordered);
        Some(drawn.later)
    }
}

/// One end of a link.
#[derive(Debug)]
pub struct LinkPort {
    name: String,
    link: LinkType,
    mtu_bytes: u32,
    inbound: Arc<Direction>,
    outbound: Arc<Direction>,
    /// Frames are read to their end at arrival: the end is a host.
    reads_all: bool,
}

/// A link: its two ports, and its directions (from the first port to the second, and back).
pub fn join(
    names: [String; 2],
    link: LinkType,
    setup: LinkSetup,
    (seed, number): (u64, u64),
    [first, second]: [LinkEnd<'_>; 2],
) -> ([LinkPort; 2], [Arc<Direction>; 2]) {
    let there = Arc::new(Direction::new(setup, (seed, 2 * number), (first, second)));
    let back = Arc::new(Direction::new(setup, (seed, 2 * number + 1), (second, first)));
    let port = |name, inbound: &Arc<Direction>, outbound: &Arc<Direction>, reads_all| LinkPort {
        name,
        link,
        mtu_bytes: setup.mtu.get() as u32,
        inbound: Arc::clone(inbound),
        outbound: Arc::clone(outbound),
        reads_all,
    };
    let [one, other] = names;
    let (at_one, at_other) = (first.is_host, second.is_host);
    ([port(one, &back, &there, at_one), port(other, &there, &back, at_other)], [there, back])
}

impl LinkPort {
    /// Marks in the arrival index that this port sent, if it changes the far end's first arrival: a frame behind
    /// another one does not.
    #[inline]
    fn note(&self, flight: &Flight) {
        let next = flight.next();
        if next == self.outbound.arrival_index.arrival(self.outbound.to) {
            return;
        }
        self.outbound.arrival_index.set_arrival(self.outbound.to, next);
        // The place of this port is the target of the inbound direction.
        self.outbound.arrival_index.note_sent(self.inbound.to);
    }
}

impl Port for LinkPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: self.link, mtu_bytes: Some(self.mtu_bytes) }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        let inbound = &self.inbound;
        let count = inbound.flight.with(|flight| {
            let mut count = 0;
            while count < max
                && flight.frames.front().is_some_and(|frame| frame.timestamp <= now)
                && let Some(frame) = flight.frames.pop_front()
            {
                flight.counters.arrived += 1;
                flight.counters.arrived_bytes += u64::from(frame.len);
                out.push(frame);
                count += 1;
            }
            if count > 0 {
                flight.prefetch(mem, self.reads_all);
                let next = flight.next();
                if next.is_never() {
                    // The next one takes the place of the first, which is in the cache.
                    flight.frames.clear();
                }
                inbound.arrival_index.set_arrival(inbound.to, next);
            }
            count
        });
        Ok(count)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let sent = frames.len();
        match &self.outbound.leaving {
            None => self.outbound.flight.with(|flight| {
                frames.drain(..).for_each(|frame| flight.take(mem, frame));
                self.note(flight);
            }),
            Some(leaving) => {
                leaving.with(|flight| frames.drain(..).for_each(|frame| flight.take(mem, frame)));
                self.inbound.arrival_index.note_sent(self.inbound.to);
            }
        }
        Ok(TxDone { sent, dropped: 0 })
    }

    fn next_arrival(&mut self) -> Option<Time> {
        self.inbound.next_arrival().instant()
    }

    fn stats(&mut self) -> PortStats {
        let (received, sent) = (self.inbound.counters(), self.outbound.counters());
        PortStats {
            rx_frames: received.arrived,
            rx_bytes: received.arrived_bytes,
            tx_frames: sent.sent,
            tx_bytes: sent.sent_bytes,
            ..PortStats::default()
        }
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        let up = self.inbound.flight.with(|flight| flight.up);
        if up { LinkState::Up } else { LinkState::NoCarrier }
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.inbound
            .flight
            .with(|flight| flight.frames.drain(..).for_each(|frame| mem.free(frame.buf)));
        self.inbound.arrival_index.set_arrival(self.inbound.to, Deadline::NEVER);
    }
}

#[cfg(test)]
mod tests;
