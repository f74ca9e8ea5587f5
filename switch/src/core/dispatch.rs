//! Ingress, and what follows from its verdict: drop, punt, another pass, copies, the traffic manager.

use wireyard_pipeline::exec::{Decision, Descriptor, Intrinsic, NO_PORT, PacketPath, flags};
use wireyard_pipeline::ids::ReasonId;
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_pipeline::packet::Buf;
use wireyard_pipeline::trace::TraceSink;

use super::manager::{Charge, OWN, Offered, Wanted};
use super::{Core, DroppedPacket, PuntedPacket, lend};
use crate::device::notify::Half;
use crate::replicate::Member;
use crate::stats::{DeviceReason, ReasonIndex};
use crate::tm::Arrival;

impl Core {
    /// Runs ingress on the burst and sends every packet on. Packets that were `received` just now leave
    /// at once where nothing stops them; those that come again are told as much in egress.
    #[inline]
    pub(super) fn run_ingress(&mut self, received: bool, mut trace: Option<&mut dyn TraceSink>) {
        if self.burst.is_empty() {
            return;
        }
        let (mut burst, mut meta) = self.take_burst();
        self.device.half = Half::Ingress;
        let goes_through = received && self.may_go_through();
        if goes_through {
            self.list_open();
            let now_ns = self.now.as_ns();
            for meta in &mut meta {
                (meta.enqueue_ns, meta.dequeue_ns) = (now_ns, now_ns);
            }
        }
        let (mem, device, sink) = (&mut self.mem, &mut self.device, lend(&mut trace));
        let open = goes_through.then_some(&self.open);
        match received {
            true => self.executor.ingress(mem, device, sink, &mut burst, &mut meta, open),
            false => self.executor.ingress_again(mem, device, sink, &mut burst, &mut meta),
        }
        // The intrinsics stay where they are: they are longer than the packets' descriptors.
        for (mut descriptor, intrinsic) in burst.drain(..).zip(&mut meta) {
            if intrinsic.egress_done == 1 {
                self.leave(descriptor, intrinsic, lend(&mut trace));
                continue;
            }
            let from = self.slot(descriptor.ingress_port);
            self.manager.classify(from, &mut descriptor, intrinsic);
            self.after_ingress(descriptor, intrinsic);
        }
        meta.clear();
        (self.burst, self.meta) = (burst, meta);
        self.after_pass();
    }

    /// Does what ingress decided about a packet that has its class.
    #[inline]
    pub(super) fn after_ingress(&mut self, packet: Descriptor, intrinsic: &mut Intrinsic) {
        match intrinsic.original.take() {
            Some(original) => self.dispatch_with_clones(original, packet, intrinsic),
            None => self.dispatch(packet, intrinsic),
        }
    }

    /// Packets may do egress right behind ingress: there are no queues, no mark is given in front of egress,
    /// and the program asks nothing of the device that depends on which pass it is.
    #[inline]
    fn may_go_through(&self) -> bool {
        let program = self.executor.current().map(|generation| &generation.program);
        !self.manager.configured
            && !self.mark_all
            && program.is_some_and(|program| program.externs.is_empty())
    }

    /// The ports by which a packet leaves at once.
    fn list_open(&mut self) {
        for (n, slot) in self.slots.iter().enumerate() {
            let is_open = slot.present && self.manager.is_open(n) && self.is_here(n);
            self.open.set(slot.number, is_open);
        }
    }

    /// A packet that has done egress behind ingress. What came before it to the same port leaves first.
    fn leave(
        &mut self,
        mut packet: Descriptor,
        intrinsic: &Intrinsic,
        trace: Option<&mut dyn TraceSink>,
    ) {
        let Some(slot) = self.slot(packet.egress_port) else {
            return self.drop_packet(packet, DeviceReason::NoSuchPort.index());
        };
        if !self.slots[slot].out.is_empty() {
            self.egress_at_once(slot, trace);
        }
        if self.after_egress(&mut packet, intrinsic) {
            self.hand_over(slot, &mut packet, self.now, self.now);
        }
    }

    #[inline]
    pub(super) fn take_burst(&mut self) -> (Vec<Descriptor>, Vec<Intrinsic>) {
        (std::mem::take(&mut self.burst), std::mem::take(&mut self.meta))
    }

    /// The packet and copies of it as it was received, to every session that ingress named. Together
    /// they are charged once.
    fn dispatch_with_clones(&mut self, original: Buf, mut done: Descriptor, intrinsic: &Intrinsic) {
        let mut packet = done.with_buf(original);
        packet.data_off = intrinsic.original_off;
        packet.len = intrinsic.original_len;
        packet.forget_headers();
        self.begin_copies(&packet);
        let sessions = &intrinsic.clones[..usize::from(intrinsic.clone_count)];
        self.mirror_all(&mut packet, sessions, PacketPath::CloneIngress);
        done.bounds = packet.bounds;
        self.release(packet);
        self.dispatch(done, intrinsic);
        self.end_copies();
    }

    /// What is offered from now on shares one charge. Without a configuration nothing is charged for
    /// what goes out at once, and the rest pays for itself.
    fn begin_copies(&mut self, packet: &Descriptor) {
        if self.manager.configured && self.manager.charge == Charge::Own {
            let (from, bytes) = (self.payer(packet.ingress_port), self.frame_bytes(packet));
            self.manager.begin_copies(self.now, packet, from, bytes);
        }
    }

    pub(super) fn end_copies(&mut self) {
        self.manager.end_copies(self.now);
    }

    /// A copy of a packet to a mirror session.
    pub(super) fn mirror(&mut self, packet: &Descriptor, session: u16, path: PacketPath) {
        let from = packet.ingress_port;
        self.book(from, |ledger| ledger.generated += 1);
        let Some(target) = self.replication.get().session(session) else {
            return self.book_drop(from, DeviceReason::NoSuchSession.index());
        };
        let Some(buf) = packet.buf.as_ref().and_then(|buf| self.mem.share(buf)) else {
            return self.book_drop(from, DeviceReason::NoMemory.index());
        };
        let mut copy = packet.with_buf(buf);
        copy.path = path as u8;
        copy.flags &= !(flags::RECIRCULATE | flags::MARKED);
        copy.instance = target.instance;
        copy.traffic_class = target.traffic_class.unwrap_or(copy.traffic_class);
        if target.truncate_bytes != 0 {
            copy.len = copy.len.min(target.truncate_bytes);
        }
        self.will_leave(&copy, 1);
        self.enqueue(copy, target.port, Wanted::Now);
    }

    #[inline]
    fn dispatch(&mut self, mut packet: Descriptor, intrinsic: &Intrinsic) {
        let wanted = match Decision::of(intrinsic) {
            Decision::Plain => Wanted::Now,
            Decision::Unicast => Wanted::of(intrinsic, self.now),
            Decision::Multicast(group) => {
                return self.multicast(packet, group, Wanted::of(intrinsic, self.now));
            }
            Decision::Resubmit => return self.run_again(packet, PacketPath::Resubmit),
            Decision::Drop(reason) => return self.drop_for(packet, reason),
            Decision::Punt(reason) => return self.punt_for(packet, reason),
        };
        packet.path = normal_path(packet.path);
        let port = packet.egress_port;
        self.enqueue(packet, port, wanted);
    }

    /// Drops a packet for a reason of its program.
    pub(super) fn drop_for(&mut self, packet: Descriptor, reason: ReasonId) {
        let reason = self.program_reason(packet.generation, reason);
        self.drop_packet(packet, reason);
    }

    /// Punts a packet for a reason of its program.
    pub(super) fn punt_for(&mut self, packet: Descriptor, reason: ReasonId) {
        let reason = self.program_reason(packet.generation, reason);
        self.punt(packet, reason);
    }

    /// So many more packets of this generation wait for egress than ingress let through.
    pub(super) fn will_leave(&self, packet: &Descriptor, packets: u64) {
        if let Some(generation) = self.executor.generation(packet.generation) {
            generation.copied(packets);
        }
    }

    /// A packet that ingress let through will not see egress.
    pub(super) fn will_not_leave(&self, packet: &Descriptor) {
        if packet.flags & OWN != 0 {
            return;
        }
        if let Some(generation) = self.executor.generation(packet.generation) {
            generation.gone(1);
        }
    }

    /// Drops a packet that ingress let through, in front of egress.
    pub(super) fn refuse(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.will_not_leave(&packet);
        self.drop_packet(packet, reason);
    }

    pub(super) fn run_again(&mut self, mut packet: Descriptor, path: PacketPath) {
        if !Core::begin_pass(&mut packet) {
            return self.drop_packet(packet, DeviceReason::TooManyPasses.index());
        }
        packet.path = path as u8;
        packet.egress_port = NO_PORT;
        packet.flags = 0;
        self.again
            .push_back((packet, Intrinsic { now_ns: self.now.as_ns(), ..Intrinsic::default() }));
    }

    /// One packet becomes a copy for each member; the last copy is the packet itself.
    fn multicast(&mut self, mut packet: Descriptor, group: u16, wanted: Wanted) {
        let from = packet.ingress_port;
        let mut copies = std::mem::take(&mut self.copies);
        if !self.replication.get().copies(group, from, &self.numbers, &mut copies) {
            self.refuse(packet, DeviceReason::NoSuchGroup.index());
        } else if !self.begin_sharing(&mut packet, copies.len().max(1)) {
            self.refuse(packet, DeviceReason::TooManyCopies.index());
        } else if let Some((last, others)) = copies.split_last() {
            // Clones of this packet may have charged it already.
            let is_first = self.manager.charge == Charge::Own;
            if !others.is_empty() {
                self.begin_copies(&packet);
            }
            for member in others {
                self.book(from, |ledger| ledger.generated += 1);
                match packet.buf.as_ref().and_then(|buf| self.mem.share(buf)) {
                    Some(buf) => {
                        self.will_leave(&packet, 1);
                        self.enqueue_copy(packet.with_buf(buf), *member, wanted);
                    }
                    None => self.book_drop(from, DeviceReason::NoMemory.index()),
                }
            }
            self.enqueue_copy(packet, *last, wanted);
            if is_first {
                self.end_copies();
            }
        } else {
            self.refuse(packet, DeviceReason::EmptyGroup.index());
        }
        self.copies = copies;
    }

    fn enqueue_copy(&mut self, mut packet: Descriptor, member: Member, wanted: Wanted) {
        packet.path = PacketPath::Multicast as u8;
        packet.instance = member.instance;
        self.enqueue(packet, member.port, wanted);
    }

    #[inline]
    pub(super) fn enqueue(&mut self, mut packet: Descriptor, port: u16, wanted: Wanted) {
        packet.egress_port = port;
        if let Some(slot) = self.slot(port) {
            if wanted == Wanted::Now && self.manager.is_open(slot) && self.is_here(slot) {
                self.active.insert(slot);
                return self.slots[slot].out.push(packet);
            }
            return self.offer(slot, packet, wanted);
        }
        if port == CPU_PORT {
            return self.to_cpu.push(packet);
        }
        self.refuse(packet, DeviceReason::NoSuchPort.index());
    }

    /// Offers a packet to the traffic manager.
    #[inline]
    pub(super) fn offer(&mut self, slot: usize, packet: Descriptor, wanted: Wanted) {
        if let Some(worker) = self.slots[slot].worker {
            return self.hand_to(worker, packet, wanted);
        }
        let (from, bytes) = (self.payer(packet.ingress_port), self.frame_bytes(&packet));
        let arrival = self.manager.arrival(&packet, from, slot, bytes);
        self.offer_to(slot, packet, &arrival, wanted);
    }

    /// Offers a packet of which the traffic manager is told this.
    #[inline]
    pub(super) fn offer_to(
        &mut self,
        slot: usize,
        packet: Descriptor,
        arrival: &Arrival,
        wanted: Wanted,
    ) {
        match self.manager.offer(self.now, packet, arrival, wanted) {
            Offered::Queued => {}
            Offered::Pass(mut packet) if packet.flags & OWN != 0 => {
                self.hand_over(slot, &mut packet, self.now, self.now);
            }
            Offered::Pass(packet) => {
                self.active.insert(slot);
                self.slots[slot].out.push(packet);
            }
            Offered::Refused(packet, reason) => self.refuse(packet, reason),
        }
    }

    pub(super) fn punt(&mut self, packet: Descriptor, reason: ReasonIndex) {
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

    pub(super) fn drop_packet(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.book_drop(packet.ingress_port, reason);
        self.record_drop(&packet, reason);
        if let (Some(list), Some(buf)) = (&mut self.dropped, &packet.buf) {
            list.push(DroppedPacket {
                reason: self.reasons.name(reason).to_owned(),
                ingress_port: packet.ingress_port,
                bytes: self.mem.frame(buf, packet.data_off, packet.len).to_vec(),
            });
        }
        self.release(packet);
    }

    #[inline]
    pub(super) fn release(&mut self, mut packet: Descriptor) {
        if let Some(buf) = packet.buf.take() {
            self.mem.free(buf);
        }
    }

    pub(super) fn book_drop(&mut self, port: u16, reason: ReasonIndex) {
        self.book(port, |ledger| ledger.drop(reason));
    }

    #[inline]
    pub(super) fn book(&mut self, port: u16, entry: impl FnOnce(&mut crate::stats::Ledger)) {
        match self.slot(port).or_else(|| self.removed_slot(port)) {
            Some(slot) => entry(&mut self.slots[slot].ledger),
            None => entry(&mut self.cpu),
        }
    }
}

/// In egress the path says how the packet got there: one that was resubmitted or recirculated before is a normal one (PSA
/// NORMAL_UNICAST).
fn normal_path(path: u8) -> u8 {
    const RESUBMIT: u8 = PacketPath::Resubmit as u8;
    const RECIRCULATE: u8 = PacketPath::Recirculate as u8;
    if matches!(path, RESUBMIT | RECIRCULATE) { PacketPath::Normal as u8 } else { path }
}
