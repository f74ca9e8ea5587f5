//! The way out: egress passes for what leaves, and the hand-over to ports.
//!
//! A port without a rate sends what [`Slot::out`](super::slot::Slot) has, in bursts. A port with a
//! rate sends what the traffic manager's scheduler takes, one packet after the other, because the link
//! time of the next depends on the length that egress made of this one.

use std::slice;

use wireyard_pipeline::exec::{BURST_MAX, Decision, Descriptor, Intrinsic, PacketPath, flags};
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

use super::manager::{OWN, port_id, slot_of};
use super::{Core, lend};
use crate::device::notify::Half;
use crate::ports::TxFrame;
use crate::stats::DeviceReason;
use crate::tm::{CONTROL_QUEUE, Departure, DropReason, PortId};

impl Core {
    /// Sends what can leave now. Returns the frames that ports took.
    #[inline]
    pub(super) fn transmit(&mut self, mut trace: Option<&mut dyn TraceSink>) -> usize {
        let mut sent = 0;
        if !self.to_cpu.is_empty() {
            self.egress_to_cpu(lend(&mut trace));
        }
        if !self.active.is_empty() {
            sent += self.egress_of_open(lend(&mut trace));
        }
        sent += self.serve(trace);
        if !self.active.is_empty() {
            sent += self.send_all();
        }
        sent
    }

    /// Egress for all that leaves at once. A port that had no room before is asked again now.
    fn egress_of_open(&mut self, mut trace: Option<&mut dyn TraceSink>) -> usize {
        let (mut sent, mut next) = (0, 0);
        while let Some(slot) = self.active.next(next) {
            next = slot + 1;
            self.egress_at_once(slot, lend(&mut trace));
            if self.slots[slot].blocked {
                sent += self.send(slot);
            }
        }
        sent
    }

    /// Egress for what goes to the control plane, which has no queue and no rate. Copies that it makes for the control plane
    /// go in the next poll.
    fn egress_to_cpu(&mut self, mut trace: Option<&mut dyn TraceSink>) {
        let now_ns = self.now.as_ns();
        let mut waiting = std::mem::take(&mut self.to_cpu);
        for mut packet in waiting.drain(..) {
            let mark = self.mark_all && packet.flags & flags::ECT != 0;
            let mut intrinsic = Intrinsic {
                now_ns,
                enqueue_ns: now_ns,
                dequeue_ns: now_ns,
                congestion_mark: mark.into(),
                ..Intrinsic::default()
            };
            self.device.half = Half::Egress;
            let (burst, meta) = (slice::from_mut(&mut packet), slice::from_mut(&mut intrinsic));
            let sink = lend(&mut trace);
            self.executor.egress(&mut self.mem, &mut self.device, sink, burst, meta);
            if self.after_egress(&mut packet, &intrinsic) {
                self.punt(packet, DeviceReason::ToCpu.index());
            }
            self.after_pass();
        }
        if self.to_cpu.is_empty() {
            self.to_cpu = waiting;
        }
    }

    pub(super) fn send_all(&mut self) -> usize {
        let (mut sent, mut next) = (0, 0);
        while let Some(slot) = self.active.next(next) {
            next = slot + 1;
            sent += self.send(slot);
        }
        sent
    }

    /// Egress for what leaves a port at once. What egress itself sends there by copies waits for the next poll.
    pub(super) fn egress_at_once(&mut self, slot: usize, mut trace: Option<&mut dyn TraceSink>) {
        let now_ns = self.now.as_ns();
        let mut waiting = std::mem::take(&mut self.slots[slot].out);
        let mut packets = waiting.drain(..);
        loop {
            self.burst.extend(packets.by_ref().take(BURST_MAX));
            if self.burst.is_empty() {
                break;
            }
            for packet in &self.burst {
                let mark = self.mark_all && packet.flags & flags::ECT != 0;
                self.meta.push(Intrinsic {
                    now_ns,
                    enqueue_ns: now_ns,
                    dequeue_ns: now_ns,
                    congestion_mark: mark.into(),
                    ..Intrinsic::default()
                });
            }
            let (mut burst, mut meta) = self.take_burst();
            self.device.half = Half::Egress;
            let sink = lend(&mut trace);
            self.executor.egress(&mut self.mem, &mut self.device, sink, &mut burst, &mut meta);
            for (mut packet, intrinsic) in burst.drain(..).zip(&meta) {
                if self.after_egress(&mut packet, intrinsic) {
                    self.hand_over(slot, &mut packet, self.now, self.now);
                }
            }
            meta.clear();
            (self.burst, self.meta) = (burst, meta);
            self.after_pass();
        }
        drop(packets);
        // The list goes back: no packet costs an allocation.
        if self.slots[slot].out.is_empty() {
            self.slots[slot].out = waiting;
        }
    }

    /// Serves the ports that the traffic manager says may send.
    #[inline]
    fn serve(&mut self, mut trace: Option<&mut dyn TraceSink>) -> usize {
        let mut sent = 0;
        while let Some(id) = self.manager.tm.next_ready() {
            if let Some(mut departure) = self.manager.tm.begin(self.now, id) {
                self.depart(id, &mut departure, lend(&mut trace));
            }
            // A drop by WRED, an XON, a packet that was held and now leaves.
            self.handle_events();
            let Some(slot) = slot_of(id) else { continue };
            if self.slots[slot].backlog.len() >= BURST_MAX {
                sent += self.send(slot);
            }
        }
        sent
    }

    /// Egress for one packet, and its time on the wire. The packet is taken out of the departure, which stays where it is: a
    /// descriptor that was written field by field is slow to copy.
    #[inline]
    pub(super) fn depart(
        &mut self,
        id: PortId,
        departure: &mut Departure<Descriptor>,
        trace: Option<&mut dyn TraceSink>,
    ) {
        let is_own = departure.packet.flags & OWN != 0 || departure.queue == CONTROL_QUEUE;
        if !is_own && !self.egress_departure(departure, trace) {
            self.manager.tm.abort(self.now, id);
            return;
        }
        let packet = &mut departure.packet;
        let bytes = self.frame_bytes(packet);
        match (self.manager.tm.commit(self.now, id, bytes), slot_of(id)) {
            (Some(times), Some(slot)) => {
                if departure.mark && packet.flags & flags::MARKED != 0 {
                    self.manager.tm.mark_written(id, departure.queue);
                }
                self.hand_over(slot, packet, times.start, times.end);
            }
            _ => {
                self.drop_packet(std::mem::take(packet), self.manager.reason(DropReason::PortDown));
            }
        }
    }

    /// True if the packet leaves.
    #[inline]
    fn egress_departure(
        &mut self,
        departure: &mut Departure<Descriptor>,
        trace: Option<&mut dyn TraceSink>,
    ) -> bool {
        if trace.is_none() && self.executor.skips_egress(departure.packet.generation) {
            return true;
        }
        let clip = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let ect = departure.packet.flags & flags::ECT != 0;
        let mut intrinsic = Intrinsic {
            now_ns: self.now.as_ns(),
            enqueue_ns: departure.enqueued_at.as_ns(),
            dequeue_ns: departure.start.as_ns(),
            enqueue_depth_bytes: clip(departure.depth_at_enqueue),
            dequeue_depth_bytes: clip(departure.depth_at_dequeue),
            congestion_mark: (departure.mark || self.mark_all && ect).into(),
            ..Intrinsic::default()
        };
        let packet = &mut departure.packet;
        self.device.half = Half::Egress;
        let (burst, meta) = (slice::from_mut(packet), slice::from_mut(&mut intrinsic));
        self.executor.egress(&mut self.mem, &mut self.device, trace, burst, meta);
        let leaves = self.after_egress(packet, &intrinsic);
        self.after_pass();
        leaves
    }

    /// Does what egress decided. True if the packet leaves; otherwise it was taken.
    #[inline]
    pub(super) fn after_egress(&mut self, packet: &mut Descriptor, intrinsic: &Intrinsic) -> bool {
        if intrinsic.clone_count > 0 {
            let sessions = &intrinsic.clones[..usize::from(intrinsic.clone_count)];
            self.mirror_all(packet, sessions, PacketPath::CloneEgress);
        }
        match Decision::of(intrinsic) {
            Decision::Drop(reason) => {
                self.drop_for(std::mem::take(packet), reason);
                return false;
            }
            Decision::Punt(reason) => {
                self.punt_for(std::mem::take(packet), reason);
                return false;
            }
            _ => {}
        }
        if packet.flags & flags::RECIRCULATE != 0 {
            self.run_again(std::mem::take(packet), PacketPath::Recirculate);
            return false;
        }
        true
    }

    /// The frame of a packet for a port, with its time on the wire.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        slot: usize,
        packet: &mut Descriptor,
        start: Time,
        end: Time,
    ) {
        let wire_len = self.wire_len(packet);
        let Some(buf) = packet.buf.take() else { return };
        let (data_off, len) = (packet.data_off, packet.len);
        let frame = TxFrame { buf, data_off, len, wire_len, start, end };
        let Some(frame) = self.send_straight(slot, packet.ingress_port, frame) else { return };
        self.slots[slot].backlog.push(frame);
        self.slots[slot].backlog_from.push(packet.ingress_port);
        self.active.insert(slot);
    }

    /// Hands the backlog to the port. What finds no room stays; the traffic manager then sends
    /// nothing more, and a port without a configuration drops what is over a limit.
    #[inline]
    fn send(&mut self, slot: usize) -> usize {
        let before = self.slots[slot].backlog.len();
        let mut sent = 0;
        if before > 0 {
            if self.slots[slot].recorded.is_some() {
                self.hold_given(slot);
            }
            let port = &mut self.slots[slot];
            let result = port.port.tx_burst(&mut self.mem, self.now, &mut port.backlog);
            match result {
                Ok(done) => sent = done.sent,
                Err(error) => self.port_messages.push(error.to_string()),
            }
            let gone = before - self.slots[slot].backlog.len();
            self.book_sent(slot, gone, sent);
            if self.slots[slot].recorded.is_some() {
                self.record_given(slot, gone, sent);
            }
        }
        let is_full = !self.slots[slot].backlog.is_empty();
        if !self.manager.configured {
            self.shed(slot);
        } else if is_full != self.slots[slot].blocked {
            self.slots[slot].blocked = is_full;
            self.tell_blocked(slot);
        }
        if self.slots[slot].waits() == 0 {
            self.active.remove(slot);
        }
        sent
    }

    /// Books the first `gone` frames of a backlog: `sent` of them left, the others were given up.
    #[inline]
    fn book_sent(&mut self, slot: usize, gone: usize, sent: usize) {
        let gone = gone.min(self.slots[slot].backlog_from.len());
        for index in 0..gone {
            let from = self.slots[slot].backlog_from[index];
            if index < sent {
                self.book(from, |ledger| ledger.sent += 1);
            } else {
                self.book_drop(from, DeviceReason::TxFull.index());
            }
        }
        let from = &mut self.slots[slot].backlog_from;
        if gone == from.len() { from.clear() } else { from.drain(..gone).for_each(drop) }
    }

    /// Tells the traffic manager whether a port takes frames.
    pub(super) fn tell_blocked(&mut self, slot: usize) {
        let blocked = self.slots[slot].blocked || self.slots[slot].held;
        self.manager.tm.set_blocked(self.now, port_id(slot), blocked);
    }

    /// Drops the newest frames over the limit of the backlog.
    fn shed(&mut self, slot: usize) {
        while self.slots[slot].backlog.len() > self.backlog_max {
            let port = &mut self.slots[slot];
            let (Some(frame), Some(from)) = (port.backlog.pop(), port.backlog_from.pop()) else {
                return;
            };
            self.record_shed(slot, from, &frame, "dropped: tx_full: no room behind the port");
            self.mem.free(frame.buf);
            self.book_drop(from, DeviceReason::TxFull.index());
        }
    }
}
