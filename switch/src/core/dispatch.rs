//! Ingress, what follows from its verdict, egress, transmit.

use wireyard_pipeline::exec::{
    BURST_MAX, Descriptor, Intrinsic, NO_PORT, PacketPath, Verdict, flags,
};
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_pipeline::packet::Buf;
use wireyard_pipeline::trace::TraceSink;
use wireyard_tables::time::Time;

use super::{BACKLOG_MAX, Core, PASSES_MAX, PuntedPacket, lend};
use crate::replicate::Member;
use crate::stats::{DeviceReason, ReasonIndex};

impl Core {
    /// Runs ingress on the burst and sends every packet on.
    pub(super) fn run_ingress(&mut self, now: Time, trace: Option<&mut dyn TraceSink>) {
        if self.burst.is_empty() {
            return;
        }
        let (mut burst, mut meta) = self.take_burst();
        self.executor.ingress(&mut self.mem, &mut self.device, trace, &mut burst, &mut meta);
        for (descriptor, mut intrinsic) in burst.drain(..).zip(meta.drain(..)) {
            if let Some(original) = intrinsic.original.take() {
                self.clones_of_ingress(original, &descriptor, &intrinsic);
            }
            self.dispatch(descriptor, intrinsic, now);
        }
        (self.burst, self.meta) = (burst, meta);
    }

    fn take_burst(&mut self) -> (Vec<Descriptor>, Vec<Intrinsic>) {
        (std::mem::take(&mut self.burst), std::mem::take(&mut self.meta))
    }

    /// Copies of the packet as it was received, to every session that ingress named.
    fn clones_of_ingress(&mut self, original: Buf, done: &Descriptor, intrinsic: &Intrinsic) {
        let mut packet = done.with_buf(original);
        packet.data_off = intrinsic.original_off;
        packet.len = intrinsic.original_len;
        packet.forget_headers();
        for &session in &intrinsic.clones[..usize::from(intrinsic.clone_count)] {
            self.mirror(&packet, session, PacketPath::CloneIngress);
        }
        self.release(packet);
    }

    /// A copy of a packet to a mirror session.
    fn mirror(&mut self, packet: &Descriptor, session: u16, path: PacketPath) {
        let from = packet.ingress_port;
        self.book(from, |ledger| ledger.generated += 1);
        let Some(target) = self.replication.session(session) else {
            return self.book_drop(from, DeviceReason::NoSuchSession.index());
        };
        let Some(buf) = packet.buf.as_ref().and_then(|buf| self.mem.share(buf)) else {
            return self.book_drop(from, DeviceReason::NoMemory.index());
        };
        let mut copy = packet.with_buf(buf);
        copy.path = path as u8;
        copy.instance = target.instance;
        copy.traffic_class = target.traffic_class.unwrap_or(copy.traffic_class);
        if target.truncate_bytes != 0 {
            copy.len = copy.len.min(target.truncate_bytes);
        }
        self.will_leave(&copy, 1);
        self.enqueue(copy, target.port);
    }

    fn dispatch(&mut self, mut packet: Descriptor, intrinsic: Intrinsic, now: Time) {
        match intrinsic.verdict() {
            Verdict::Drop => {
                let reason = self.program_reason(packet.generation, intrinsic.reason());
                self.drop_packet(packet, reason);
            }
            Verdict::Punt => {
                let reason = self.program_reason(packet.generation, intrinsic.reason());
                self.punt(packet, reason);
            }
            Verdict::Resubmit => self.run_again(packet, PacketPath::Resubmit, now),
            Verdict::Forward if intrinsic.multicast_group != 0 => {
                self.multicast(packet, intrinsic.multicast_group);
            }
            Verdict::Forward => {
                packet.path = normal_path(packet.path);
                let port = packet.egress_port;
                self.enqueue(packet, port);
            }
        }
    }

    /// So many more packets of this generation wait for egress than ingress let through.
    fn will_leave(&self, packet: &Descriptor, packets: u64) {
        if let Some(generation) = self.executor.generation(packet.generation) {
            generation.copied(packets);
        }
    }

    /// A packet that ingress let through will not see egress.
    fn will_not_leave(&self, packet: &Descriptor) {
        if let Some(generation) = self.executor.generation(packet.generation) {
            generation.gone(1);
        }
    }

    fn run_again(&mut self, mut packet: Descriptor, path: PacketPath, now: Time) {
        packet.passes += 1;
        if packet.passes >= PASSES_MAX {
            return self.drop_packet(packet, DeviceReason::TooManyPasses.index());
        }
        packet.path = path as u8;
        packet.egress_port = NO_PORT;
        packet.flags = 0;
        self.again.push((packet, Intrinsic { now_ns: now.as_ns(), ..Intrinsic::default() }));
    }

    /// One packet becomes a copy for each member; the last copy is the packet itself.
    fn multicast(&mut self, packet: Descriptor, group: u16) {
        let from = packet.ingress_port;
        let mut copies = std::mem::take(&mut self.copies);
        if !self.replication.copies(group, from, &self.numbers, &mut copies) {
            self.will_not_leave(&packet);
            self.drop_packet(packet, DeviceReason::NoSuchGroup.index());
        } else if let Some((last, others)) = copies.split_last() {
            for member in others {
                self.book(from, |ledger| ledger.generated += 1);
                match packet.buf.as_ref().and_then(|buf| self.mem.share(buf)) {
                    Some(buf) => {
                        self.will_leave(&packet, 1);
                        self.enqueue_copy(packet.with_buf(buf), *member);
                    }
                    None => self.book_drop(from, DeviceReason::NoMemory.index()),
                }
            }
            self.enqueue_copy(packet, *last);
        } else {
            self.will_not_leave(&packet);
            self.drop_packet(packet, DeviceReason::EmptyGroup.index());
        }
        self.copies = copies;
    }

    fn enqueue_copy(&mut self, mut packet: Descriptor, member: Member) {
        packet.path = PacketPath::Multicast as u8;
        packet.instance = member.instance;
        self.enqueue(packet, member.port);
    }

    fn enqueue(&mut self, mut packet: Descriptor, port: u16) {
        packet.egress_port = port;
        if let Some(slot) = self.slot(port) {
            return self.slots[slot].out.push(packet);
        }
        self.will_not_leave(&packet);
        if port == CPU_PORT {
            self.punt(packet, DeviceReason::ToCpu.index());
        } else {
            self.drop_packet(packet, DeviceReason::NoSuchPort.index());
        }
    }

    /// Egress for what waits for a port, then transmit. Returns the frames sent.
    pub(super) fn transmit(
        &mut self,
        slot: usize,
        now: Time,
        mut trace: Option<&mut dyn TraceSink>,
    ) -> usize {
        while !self.slots[slot].out.is_empty() {
            let count = self.slots[slot].out.len().min(BURST_MAX);
            self.burst.extend(self.slots[slot].out.drain(..count));
            for packet in &self.burst {
                let mark = self.mark_all && packet.flags & flags::ECT != 0;
                self.meta.push(Intrinsic {
                    now_ns: now.as_ns(),
                    enqueue_ns: now.as_ns(),
                    dequeue_ns: now.as_ns(),
                    congestion_mark: mark.into(),
                    ..Intrinsic::default()
                });
            }
            self.run_egress(slot, now, lend(&mut trace));
        }
        self.send(slot, now)
    }

    fn run_egress(&mut self, slot: usize, now: Time, trace: Option<&mut dyn TraceSink>) {
        let (mut burst, mut meta) = self.take_burst();
        self.executor.egress(&mut self.mem, &mut self.device, trace, &mut burst, &mut meta);
        for (mut packet, intrinsic) in burst.drain(..).zip(meta.drain(..)) {
            for &session in &intrinsic.clones[..usize::from(intrinsic.clone_count)] {
                self.mirror(&packet, session, PacketPath::CloneEgress);
            }
            match intrinsic.verdict() {
                Verdict::Drop => {
                    let reason = self.program_reason(packet.generation, intrinsic.reason());
                    self.drop_packet(packet, reason);
                }
                Verdict::Punt => {
                    let reason = self.program_reason(packet.generation, intrinsic.reason());
                    self.punt(packet, reason);
                }
                _ if packet.flags & flags::RECIRCULATE != 0 => {
                    self.run_again(packet, PacketPath::Recirculate, now);
                }
                _ => {
                    let from = packet.ingress_port;
                    if let Some(frame) = self.tx_frame(&mut packet) {
                        self.slots[slot].backlog.push(frame);
                        self.slots[slot].backlog_from.push(from);
                    }
                }
            }
        }
        (self.burst, self.meta) = (burst, meta);
    }

    /// Hands the backlog to the port; what finds no room stays, up to a limit.
    fn send(&mut self, slot: usize, now: Time) -> usize {
        let port = &mut self.slots[slot];
        if port.backlog.is_empty() {
            return 0;
        }
        let before = port.backlog.len();
        let result = port.port.tx_burst(&mut self.mem, now, &mut port.backlog);
        let gone = before - port.backlog.len();
        let sent = match result {
            Ok(done) => done.sent,
            Err(error) => {
                self.port_messages.push(error.to_string());
                0
            }
        };
        let left: Vec<u16> = self.slots[slot].backlog_from.drain(..gone).collect();
        for (index, from) in left.into_iter().enumerate() {
            if index < sent {
                self.book(from, |ledger| ledger.sent += 1);
            } else {
                self.book_drop(from, DeviceReason::TxFull.index());
            }
        }
        self.shed(slot);
        sent
    }

    /// Drops the newest frames over the limit of the backlog.
    fn shed(&mut self, slot: usize) {
        while self.slots[slot].backlog.len() > BACKLOG_MAX {
            let port = &mut self.slots[slot];
            let (Some(frame), Some(from)) = (port.backlog.pop(), port.backlog_from.pop()) else {
                return;
            };
            self.mem.free(frame.buf);
            self.book_drop(from, DeviceReason::TxFull.index());
        }
    }

    fn punt(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.book(packet.ingress_port, |ledger| ledger.consume(reason));
        if let (Some(list), Some(buf)) = (&mut self.punted, &packet.buf) {
            list.push(PuntedPacket {
                reason: self.reasons.name(reason).to_owned(),
                ingress_port: packet.ingress_port,
                bytes: self.mem.frame(buf, packet.data_off, packet.len).to_vec(),
            });
        }
        self.release(packet);
    }

    fn drop_packet(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.book_drop(packet.ingress_port, reason);
        self.release(packet);
    }

    fn release(&mut self, mut packet: Descriptor) {
        if let Some(buf) = packet.buf.take() {
            self.mem.free(buf);
        }
    }

    fn book_drop(&mut self, port: u16, reason: ReasonIndex) {
        self.book(port, |ledger| ledger.drop(reason));
    }

    fn book(&mut self, port: u16, entry: impl FnOnce(&mut crate::stats::Ledger)) {
        match self.slot(port) {
            Some(slot) => entry(&mut self.slots[slot].ledger),
            None => entry(&mut self.cpu),
        }
    }
}

/// A packet that was resubmitted leaves as a normal one.
fn normal_path(path: u8) -> u8 {
    let again = [PacketPath::Resubmit as u8, PacketPath::Recirculate as u8];
    if again.contains(&path) { PacketPath::Normal as u8 } else { path }
}
