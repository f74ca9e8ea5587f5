//! Egress passes for packets that leave, and their hand-over to ports.
//!
//! Packets that need no link time (ports without a rate, the control plane) do egress in bursts. A port with a rate
//! sends one packet after the other, as the traffic manager lets them depart, because the link time of the next depends
//! on the length of this one after egress.

use std::slice;

use wireyard_pipeline::exec::{BURST_MAX, Decision, Descriptor, Intrinsic, PacketPath, flags};
use wireyard_pipeline::ir::Half;
use wireyard_pipeline::trace::TraceSink;

use super::manager::{DEVICE_ORIGINATED, slot_of};
use super::ports::egress_of;
use super::{Core, reborrow};
use crate::stats::DeviceReason;
use crate::tm::{CONTROL_QUEUE, Charge, Departure, DropReason, PortId};

/// Packets that depart and need no link time, and the lists of an egress pass.
#[derive(Default)]
pub(super) struct Egress {
    /// Packets that have not done egress.
    pub(super) departing: Vec<Descriptor>,
    /// Packets whose egress is in progress, while others may be added to `departing`.
    waiting: Vec<Descriptor>,
    burst: Vec<Descriptor>,
    meta: Vec<Intrinsic>,
}

impl Core {
    /// Sends what can leave now. Returns the number of frames that ports took.
    #[inline]
    pub(super) fn transmit(&mut self, mut trace: Option<&mut dyn TraceSink>) -> usize {
        let mut sent = 0;
        if !self.egress.departing.is_empty() {
            self.egress_departing(reborrow(&mut trace));
        }
        if !self.ports.active.is_empty() {
            sent += self.send_all(true);
        }
        sent += self.serve(trace);
        if !self.ports.active.is_empty() {
            sent += self.send_all(false);
        }
        sent
    }

    /// Egress for departing packets that need no link time. Copies that egress itself adds to them wait for the next
    /// poll.
    pub(super) fn egress_departing(&mut self, mut trace: Option<&mut dyn TraceSink>) {
        let now_ns = self.now.as_ns();
        let Egress { departing, waiting, burst, meta } = &mut self.egress;
        // The lists are reused, so that no packet costs an allocation.
        let mut waiting = std::mem::replace(departing, std::mem::take(waiting));
        let (mut burst, mut meta) = (std::mem::take(burst), std::mem::take(meta));
        let mut packets = waiting.drain(..);
        loop {
            burst.extend(packets.by_ref().take(BURST_MAX));
            if burst.is_empty() {
                break;
            }
            meta.extend(burst.iter_mut().map(|packet: &mut Descriptor| {
                let mark = self.stand_in.apply(&mut self.ingress.cuts, &self.executor, packet);
                let (enqueue_ns, dequeue_ns, congestion_mark) = (now_ns, now_ns, mark.into());
                Intrinsic {
                    now_ns,
                    enqueue_ns,
                    dequeue_ns,
                    congestion_mark,
                    ..Intrinsic::default()
                }
            }));
            self.device.half = Half::Egress;
            let sink = reborrow(&mut trace);
            self.executor.egress(&mut self.mem, &mut self.device, sink, &mut burst, &mut meta);
            for (mut packet, intrinsic) in burst.drain(..).zip(&meta) {
                let program = packet.generation;
                let leaves = self.after_egress(&mut packet, intrinsic);
                self.executor.count_out(program);
                if !leaves {
                    continue;
                }
                match self.ports.find(egress_of(&packet)) {
                    Some(slot) => self.ports.hand_over(
                        &self.ingress.cuts,
                        slot,
                        &mut packet,
                        self.now,
                        self.now,
                    ),
                    None if self.is_cpu(egress_of(&packet)) => {
                        self.punt(packet, DeviceReason::ToCpu.index());
                    }
                    None => self.drop_packet(packet, DeviceReason::NoSuchPort.index()),
                }
            }
            meta.clear();
            self.after_pass();
        }
        drop(packets);
        (self.egress.burst, self.egress.meta) = (burst, meta);
        self.egress.waiting = waiting;
    }

    /// Sends the backlogs of all ports, or only of those that had no room before.
    #[inline]
    pub(super) fn send_all(&mut self, only_blocked: bool) -> usize {
        let (mut sent, mut next) = (0, 0);
        while let Some(slot) = self.ports.active.next(next) {
            next = slot + 1;
            if !only_blocked || self.ports[slot].blocked {
                sent += self.send(slot);
            }
        }
        sent
    }

    /// Serves the ports whose queues may send now, by the traffic manager.
    #[inline]
    fn serve(&mut self, mut trace: Option<&mut dyn TraceSink>) -> usize {
        let mut sent = 0;
        while let Some(id) = self.manager.tm.next_ready() {
            if let Some((mut packet, departure)) = self.manager.tm.begin(self.now, id) {
                self.manager.prefetch_behind(&self.mem, id, &departure);
                self.depart(id, &mut packet, &departure, reborrow(&mut trace));
            }
            // Events of a WRED drop, an XON, or a held packet that now leaves.
            self.handle_events();
            let Some(slot) = slot_of(id) else { continue };
            if self.ports[slot].backlog.len() >= BURST_MAX {
                sent += self.send(slot);
            }
        }
        sent
    }

    /// Egress for one packet that departs, and its time on the wire.
    #[inline]
    pub(super) fn depart(
        &mut self,
        id: PortId,
        packet: &mut Descriptor,
        departure: &Departure,
        trace: Option<&mut dyn TraceSink>,
    ) {
        let is_own = packet.flags & DEVICE_ORIGINATED != 0 || departure.queue == CONTROL_QUEUE;
        if !is_own && !self.egress_one(packet, departure, trace) {
            if departure.sent.is_none() {
                self.manager.tm.abort(self.now, id);
            }
            return;
        }
        let sent = match departure.sent {
            None => self.manager.tm.commit(self.now, id, self.ingress.cuts.frame_bytes(packet)),
            known => known,
        };
        match (sent, slot_of(id)) {
            (Some(times), Some(slot)) => {
                if departure.mark && packet.flags & flags::MARKED != 0 {
                    self.manager.tm.mark_written(id, departure.queue);
                }
                self.ports.hand_over(&self.ingress.cuts, slot, packet, times.start, times.end);
            }
            _ => {
                self.drop_packet(std::mem::take(packet), self.manager.reason(DropReason::PortDown));
            }
        }
    }

    /// Egress of one packet. True if the packet leaves; otherwise it was taken.
    #[inline]
    fn egress_one(
        &mut self,
        packet: &mut Descriptor,
        departure: &Departure,
        trace: Option<&mut dyn TraceSink>,
    ) -> bool {
        if trace.is_none() && self.executor.skips_egress(packet.generation) {
            return true;
        }
        let mark = self.stand_in.apply(&mut self.ingress.cuts, &self.executor, packet);
        let mut intrinsic = Intrinsic {
            now_ns: self.now.as_ns(),
            enqueue_ns: departure.enqueued_at.as_ns(),
            dequeue_ns: departure.start.as_ns(),
            enqueue_depth_bytes: departure.depth_at_enqueue.bytes,
            enqueue_depth_packets: departure.depth_at_enqueue.packets,
            dequeue_depth_bytes: departure.depth_at_dequeue.bytes,
            dequeue_depth_packets: departure.depth_at_dequeue.packets,
            congestion_mark: (departure.mark || mark).into(),
            ..Intrinsic::default()
        };
        self.device.half = Half::Egress;
        let (burst, meta) = (slice::from_mut(packet), slice::from_mut(&mut intrinsic));
        self.executor.egress(&mut self.mem, &mut self.device, trace, burst, meta);
        let program = packet.generation;
        let leaves = self.after_egress(packet, &intrinsic);
        self.executor.count_out(program);
        self.after_pass();
        leaves
    }

    /// Executes the decision of egress. True if the packet leaves; otherwise it was taken.
    #[inline]
    pub(super) fn after_egress(&mut self, packet: &mut Descriptor, intrinsic: &Intrinsic) -> bool {
        if intrinsic.clone_count > 0 {
            let sessions = &intrinsic.clones[..usize::from(intrinsic.clone_count)];
            self.mirror_all(packet, sessions, PacketPath::CloneEgress, Charge::Own);
        }
        if let Decision::NotForwarded(verdict, reason) = Decision::of(intrinsic) {
            self.not_forwarded(std::mem::take(packet), verdict, reason);
            return false;
        }
        if packet.flags & flags::RECIRCULATE != 0 {
            self.run_again(std::mem::take(packet), PacketPath::Recirculate);
            return false;
        }
        true
    }

    /// Hands the backlog to the port. Frames for which it has no room stay; the traffic manager then sends nothing
    /// more, and a device without `qos:` drops what exceeds a limit.
    #[inline]
    fn send(&mut self, slot: usize) -> usize {
        let mut all = 0;
        while !self.ports[slot].backlog.is_empty() {
            let before = self.ports[slot].backlog.len();
            let mut sent = 0;
            let port = &mut self.ports[slot];
            let recorded = port.recorded;
            if recorded.is_some() {
                self.recording.hold(&mut self.mem, &port.backlog);
            }
            let result = port.port.tx_burst(&mut self.mem, self.now, &mut port.backlog);
            let gone = before.saturating_sub(self.ports[slot].backlog.len());
            match result {
                // A port cannot have sent more than it took.
                Ok(done) => sent = done.sent.min(gone),
                Err(error) => self.ports.report_error(slot, &error),
            }
            self.ports.account_sent(slot, gone, sent, DeviceReason::TxFull.index());
            if let Some(place) = recorded {
                self.recording.given(place, &mut self.mem, gone, sent);
            }
            all += sent;
            // The port stopped behind frames that it gave up; otherwise it has no room.
            if gone == sent {
                break;
            }
        }
        let is_full = !self.ports[slot].backlog.is_empty();
        if !self.manager.configured {
            self.ports.drop_excess(slot, self.now, &mut self.mem, &mut self.recording);
        } else if is_full != self.ports[slot].blocked {
            self.ports[slot].blocked = is_full;
            self.manager.report_blocked(self.now, &self.ports, slot);
        }
        if self.ports[slot].backlog.is_empty() {
            self.ports.active.remove(slot);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use wireyard_tables::time::Time;

    use crate::ports::scripted::ScriptedPort;
    use crate::ports::{LinkType, PortNumber, memory};
    use crate::program::{DeviceOptions, one_way};

    #[test]
    fn a_frame_that_the_port_gives_up_is_counted_as_that_one() {
        let mut core = one_way().device(DeviceOptions::small()).unwrap();
        let short = ScriptedPort { longest: 100, ..Default::default() };
        core.add_port(PortNumber(1), Box::new(short)).unwrap();
        // The first frame is too long for port 1, the second is not.
        for (number, len) in [(PortNumber(2), 200), (PortNumber(3), 60)] {
            let (near, mut far) =
                memory::pair(core.memory(), ("near", "far"), LinkType::Ethernet, 8);
            core.add_port(number, Box::new(near)).unwrap();
            assert!(far.send_bytes(core.memory(), &vec![0; len]));
        }
        core.poll(Time::from_ns(1), None);
        let sent = |number| core.ports[core.ports.find(PortNumber(number)).unwrap()].ledger.sent;
        assert_eq!([sent(2), sent(3)], [0, 1]);
        assert_eq!(core.ports.waiting(), 0);
    }
}
