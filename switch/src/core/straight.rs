//! The straight way: one packet, alone, from its port through ingress and egress to another port.
//!
//! In virtual time nearly every packet is alone, and lists for bursts, a slot in a queue that is empty and the search for a
//! port that may send cost more than the packet itself. What happens here is what happens on the way of bursts,
//! in the same order; whatever is not plain (a burst, a copy, a delay, a port that is busy) goes that way. It is no way
//! of its own for decisions: those are the program's and the traffic manager's. `tests/it/straight.rs` sends the same packets both ways.

use std::slice;

use wireyard_pipeline::exec::{Decision, Descriptor};

use super::manager::{Charge, Wanted, port_id};
use super::{Core, Progress};
use crate::device::notify::Half;
use crate::ports::TxFrame;
use crate::tm::Departure;

impl Core {
    /// The rest of a turn in which at most one port has something.
    #[inline]
    pub(super) fn go_straight(&mut self, number: Option<u16>, mut progress: Progress) -> Progress {
        self.is_straight = self.manager.configured && self.crew.is_none() && !self.mark_all;
        let slot = number.and_then(|number| self.slot(number));
        let has_left = slot.is_some_and(|slot| self.take_straight(slot, &mut progress));
        // What recirculated in egress waits for the next turn, as on the way of bursts.
        if !has_left && !self.again.is_empty() {
            progress = self.end_turn(progress, None);
        } else if !self.active.is_empty()
            || !self.to_cpu.is_empty()
            || self.manager.tm.next_ready().is_some()
        {
            progress.sent += self.transmit(None);
        }
        progress.sent += std::mem::take(&mut self.sent_straight);
        self.is_straight = false;
        progress
    }

    /// One burst of a port; a packet that is alone goes straight. True if it has done egress.
    #[inline]
    fn take_straight(&mut self, slot: usize, progress: &mut Progress) -> bool {
        let waits = !self.again.is_empty() || !self.active.is_empty() || !self.to_cpu.is_empty();
        if !self.is_straight || waits {
            self.take_in(slot, progress, None);
            return false;
        }
        let (received, frame) = self.ask_for_one(slot);
        progress.received += received;
        let Some(frame) = frame else {
            self.list_received(slot);
            self.run_ingress(true, None);
            return false;
        };
        if self.is_mac_control(slot, &frame) {
            self.mac_control_received(slot, frame);
            return false;
        }
        // Where it is written it stays, to the port.
        let mut departure = Departure::at_once(self.describe(slot, frame), 0, false, self.now);
        let packet = &mut departure.packet;
        self.alone.now_ns = self.now.as_ns();
        self.device.half = Half::Ingress;
        let (burst, meta) = (slice::from_mut(packet), slice::from_mut(&mut self.alone));
        self.executor.ingress(&mut self.mem, &mut self.device, None, burst, meta, None);
        self.manager.classify(Some(slot), packet, &self.alone);
        let has_left = match self.way_out(packet) {
            Some(to) => self.pass(&mut departure, slot, to),
            None => {
                let mut decided = std::mem::take(&mut self.alone);
                self.after_ingress(departure.packet, &mut decided);
                false
            }
        };
        self.after_pass();
        has_left
    }

    /// The port that a packet leaves by now, as one copy, if ingress decided so.
    #[inline]
    fn way_out(&self, packet: &Descriptor) -> Option<usize> {
        let is_plain =
            Decision::of(&self.alone) == Decision::Plain && self.manager.charge == Charge::Own;
        if is_plain { self.slot(packet.egress_port) } else { None }
    }

    /// Through a queue that is empty to a port that is idle, or into the queue. True if it has done egress.
    #[inline]
    fn pass(&mut self, departure: &mut Departure<Descriptor>, from: usize, to: usize) -> bool {
        let packet = &mut departure.packet;
        let arrival = self.manager.arrival(packet, Some(from), to, self.frame_bytes(packet));
        let id = port_id(to);
        if self.executor.has_no_egress(packet.generation)
            && let Some(times) = self.manager.tm.pass_alone(self.now, &arrival)
        {
            self.executor.has_left();
            self.hand_over(to, packet, times.start, times.end);
            return true;
        }
        match self.manager.tm.pass_queue(self.now, &arrival) {
            None => {
                self.offer_to(to, std::mem::take(packet), &arrival, Wanted::Now);
                false
            }
            Some(Err(reason)) => {
                self.refuse(std::mem::take(packet), self.manager.reason(reason));
                false
            }
            Some(Ok(mark)) => {
                // What ingress had to say comes first, as it does on the way of bursts.
                self.manager.passed(self.now, &arrival);
                self.after_pass();
                (departure.queue, departure.mark) = (arrival.queue, mark);
                self.depart(id, departure, None);
                true
            }
        }
    }

    /// Gives a frame to its port at once, if nothing is in front of it; otherwise it comes back.
    #[inline]
    pub(super) fn send_straight(
        &mut self,
        slot: usize,
        from: u16,
        frame: TxFrame,
    ) -> Option<TxFrame> {
        let port = &mut self.slots[slot];
        if !self.is_straight || !port.backlog.is_empty() || port.recorded.is_some() {
            return Some(frame);
        }
        if let Err(frame) = port.port.tx_one(&mut self.mem, self.now, frame) {
            return Some(frame);
        }
        self.book(from, |ledger| ledger.sent += 1);
        self.sent_straight += 1;
        None
    }
}
