//! A port with a faulty cable: frames are lost, corrupted, delayed, reordered or duplicated, at random with a seed.
//!
//! A decorator of any [`Port`], in both directions, with a random stream for each kind of fault. To the device it looks
//! like a faulty cable: a frame lost on transmission counts as sent, one lost on reception never arrived. All faults
//! are counted in [`FaultReport`]. It has no clock: a delayed frame has a due time and waits for a call.

pub mod chance;

use std::collections::VecDeque;

use serde::Serialize;
use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::{Span, Time};

use super::absent::AbsentPort;
use super::stats::counters;
use super::{LinkState, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame};
use chance::{Chances, FaultSetup, flip_bit};

/// Maximum number of frames in transit in one direction; more are lost as `overflowed`.
const UNDER_WAY_MAX: usize = 1024;

counters! {
    /// Faults in one direction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct FaultCounters {
        /// Frames lost at random.
        lost,
        /// Frames with a flipped bit.
        corrupted,
        /// Frames that were sent twice.
        duplicated,
        /// Frames delayed behind later ones.
        reordered,
        /// Frames that were delayed, reordered ones included.
        delayed,
        /// Frames lost because too many were in transit.
        overflowed,
        /// Frames in transit that were lost with the cable: the port was closed, or was down by command when they arrived.
        cut,
    }
    besides {
        /// Frames in transit now.
        under_way,
    }
}

/// Faults of a port, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultReport {
    /// On reception.
    pub received: FaultCounters,
    /// On transmission.
    pub sent: FaultCounters,
}

impl FaultReport {
    /// The sum with the faults of another queue of the same link.
    pub fn and(mut self, other: &FaultReport) -> FaultReport {
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self
    }
}

/// Operations on frames that both directions need.
trait Frame {
    fn buf(&mut self) -> (&mut Buf, u16, u32);
    fn copy(&self, buf: Buf, data_off: u16) -> Self;
    fn into_buf(self) -> Buf;
}

impl Frame for RxFrame {
    fn buf(&mut self) -> (&mut Buf, u16, u32) {
        (&mut self.buf, self.data_off, self.len)
    }

    fn copy(&self, buf: Buf, data_off: u16) -> RxFrame {
        RxFrame { buf, data_off, ..*self }
    }

    fn into_buf(self) -> Buf {
        self.buf
    }
}

impl Frame for TxFrame {
    fn buf(&mut self) -> (&mut Buf, u16, u32) {
        (&mut self.buf, self.data_off, self.len)
    }

    fn copy(&self, buf: Buf, data_off: u16) -> TxFrame {
        TxFrame { buf, data_off, ..*self }
    }

    fn into_buf(self) -> Buf {
        self.buf
    }
}

/// One direction of the cable.
struct Direction<F> {
    chances: Chances,
    /// In the order of their due times.
    under_way: VecDeque<(Time, F)>,
    counters: FaultCounters,
}

impl<F: Frame> Direction<F> {
    fn new(setup: FaultSetup, number: u64) -> Direction<F> {
        let chances = Chances::new(setup, number);
        Direction { chances, under_way: VecDeque::new(), counters: FaultCounters::default() }
    }

    /// Draws the fate of a frame that enters the cable at `at`, and puts it in transit.
    fn enter(&mut self, mem: &mut PacketMemory, at: Time, mut frame: F) {
        let fate = self.chances.draw();
        if fate.is_lost {
            self.counters.lost += 1;
            return mem.free(frame.into_buf());
        }
        if let Some(draw) = fate.corrupts {
            let (buf, data_off, len) = frame.buf();
            self.counters.corrupted += u64::from(flip_bit(mem, buf, data_off, len, draw));
        }
        self.counters.reordered += u64::from(fate.is_reordered);
        self.counters.delayed += u64::from(fate.later > Span::ZERO);
        if fate.is_doubled {
            let (buf, data_off, len) = frame.buf();
            let bytes = mem.frame(buf, data_off, len).to_vec();
            if let Some(buf) = mem.alloc_frame(&bytes) {
                self.counters.duplicated += 1;
                let copy = frame.copy(buf, mem.config().headroom_bytes as u16);
                self.place(mem, at + fate.later, copy);
            }
        }
        self.place(mem, at + fate.later, frame);
    }

    fn place(&mut self, mem: &mut PacketMemory, due: Time, frame: F) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.counters.overflowed += 1;
            return mem.free(frame.into_buf());
        }
        // Nearly always at the end: frames enter in order.
        let behind = self.under_way.iter().rev().take_while(|(at, _)| *at > due).count();
        self.under_way.insert(self.under_way.len() - behind, (due, frame));
    }

    /// Takes the next frame that is due by `now`.
    fn leave(&mut self, now: Time) -> Option<(Time, F)> {
        self.under_way.front().filter(|(due, _)| *due <= now)?;
        self.under_way.pop_front()
    }

    fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(due, _)| *due)
    }

    fn counters(&self) -> FaultCounters {
        FaultCounters { under_way: self.under_way.len() as u64, ..self.counters }
    }

    fn clear(&mut self, mem: &mut PacketMemory) {
        self.counters.cut += self.under_way.len() as u64;
        self.under_way.drain(..).for_each(|(_, frame)| mem.free(frame.into_buf()));
    }
}

/// A port with a faulty cable.
pub struct FaultyPort {
    inner: Box<dyn Port>,
    inward: Direction<RxFrame>,
    outward: Direction<TxFrame>,
    /// Due frames for which the port had no room.
    ready: Vec<TxFrame>,
    fresh: Vec<RxFrame>,
    /// An error of sending that occurred during reception.
    late: Option<PortError>,
    /// Time of the last call.
    now: Time,
}

impl FaultyPort {
    /// Adds a cable with these faults to a port.
    pub fn new(inner: Box<dyn Port>, setup: FaultSetup) -> FaultyPort {
        FaultyPort {
            inner,
            inward: Direction::new(setup, 0),
            outward: Direction::new(setup, 1),
            ready: Vec::new(),
            fresh: Vec::new(),
            late: None,
            now: Time::ZERO,
        }
    }

    fn drop_all(&mut self, mem: &mut PacketMemory) {
        self.inward.clear(mem);
        self.outward.clear(mem);
        self.outward.counters.cut += self.ready.len() as u64;
        self.ready.drain(..).for_each(|frame| mem.free(frame.buf));
    }

    /// Frames that are still to be sent.
    fn on_the_way_out(&self) -> usize {
        self.outward.under_way.len() + self.ready.len()
    }

    /// Sends the frames that are due by `due_by`.
    fn push(&mut self, mem: &mut PacketMemory, due_by: Time) -> Result<(), PortError> {
        while self.ready.len() < UNDER_WAY_MAX
            && let Some((due, frame)) = self.outward.leave(due_by)
        {
            let later = due.since(frame.end);
            self.ready.push(TxFrame { start: frame.start + later, end: due, ..frame });
        }
        if self.ready.is_empty() {
            return Ok(());
        }
        // A burst ends at a frame that the port gives up.
        loop {
            let done = self.inner.tx_burst(mem, self.now, &mut self.ready)?;
            if done.dropped == 0 || self.ready.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Port for FaultyPort {
    fn inner(&self) -> Option<&dyn Port> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Port> {
        Some(self.inner.as_mut())
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn caps(&self) -> PortCaps {
        self.inner.caps()
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        self.now = now;
        let sent = self.push(mem, now);
        let received = self.inner.rx_burst(mem, now, &mut self.fresh, max);
        for frame in self.fresh.drain(..) {
            self.inward.enter(mem, frame.timestamp, frame);
        }
        let (is_shut, mut count) = (self.inner.is_shut(), 0);
        while count < max
            && let Some((due, frame)) = self.inward.leave(now)
        {
            if is_shut {
                self.inward.counters.cut += 1;
                mem.free(frame.buf);
                continue;
            }
            out.push(RxFrame { timestamp: due, ..frame });
            count += 1;
        }
        let failure = self.late.take().or(sent.err()).or(received.err());
        match failure {
            Some(error) if count == 0 => Err(error),
            failure => {
                self.late = failure;
                Ok(count)
            }
        }
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        self.now = now;
        self.push(mem, now)?;
        // While the port has no room for due frames, the cable takes no more.
        if !self.ready.is_empty() {
            return Ok(TxDone::default());
        }
        let sent = frames.len();
        for frame in frames.drain(..) {
            self.outward.enter(mem, frame.end, frame);
        }
        // Errors from here on are not about these frames: they are on the cable.
        let failure = self.push(mem, now).err();
        self.late = self.late.take().or(failure);
        Ok(TxDone { sent, dropped: 0 })
    }

    /// Frames in transit leave early: nothing polls the cable any more.
    fn flush(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        let mut result = Ok(());
        loop {
            let before = self.on_the_way_out();
            result = result.and(self.push(mem, Time::MAX));
            if self.on_the_way_out() == before {
                break;
            }
        }
        result.and(self.inner.flush(mem))
    }

    fn next_arrival(&mut self) -> Option<Time> {
        let under_way = [self.inward.next(), self.outward.next()].into_iter().flatten().min();
        under_way.into_iter().chain(self.inner.next_arrival()).min()
    }

    /// Frames without room wait for the next poll.
    fn is_always_polled(&self) -> bool {
        true
    }

    fn stats(&mut self) -> PortStats {
        self.inner.stats()
    }

    fn faults(&self) -> Option<FaultReport> {
        Some(FaultReport { received: self.inward.counters(), sent: self.outward.counters() })
    }

    fn fault_setup(&self) -> Option<FaultSetup> {
        Some(self.inward.chances.setup()).filter(FaultSetup::can_happen)
    }

    /// Frames in transit are not affected.
    fn set_faults(&mut self, setup: FaultSetup) -> bool {
        self.inward.chances = Chances::new(setup, 0);
        self.outward.chances = Chances::new(setup, 1);
        true
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        match self.inner.link_state(now) {
            // The input has ended, but its last frames are still in transit.
            LinkState::Ended if self.next_arrival().is_some() || !self.ready.is_empty() => {
                LinkState::Up
            }
            state => state,
        }
    }

    /// Frames in transit are lost with the cable.
    fn take_inner(&mut self, mem: &mut PacketMemory) -> Option<Box<dyn Port>> {
        self.drop_all(mem);
        let place = Box::new(AbsentPort::like(self.inner.as_ref()));
        Some(std::mem::replace(&mut self.inner, place))
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.drop_all(mem);
        self.inner.close(mem);
    }
}

#[cfg(test)]
mod tests;
