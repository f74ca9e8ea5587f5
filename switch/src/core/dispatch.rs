//! Ingress, and what follows its verdict: drop, punt, another pass, copies, the traffic manager.

use wireyard_pipeline::exec::{
    Decision, Descriptor, Intrinsic, NO_PORT, PacketPath, TRIMMED, Verdict, flags,
};
use wireyard_pipeline::generation::Executor;
use wireyard_pipeline::ids::ReasonId;
use wireyard_pipeline::ir::{CPU_PORT, Half};
use wireyard_pipeline::packet::Buf;
use wireyard_pipeline::trace::TraceSink;

use super::bounds::begin_pass;
use super::manager::{DEVICE_ORIGINATED, port_id, release_of};
use super::ports::{egress_of, ingress_of};
use super::record::Dropped;
use super::{Core, reborrow};
use crate::ports::PortNumber;
use crate::replicate::{Member, MirrorCopy};
use crate::stats::{DeviceReason, ReasonIndex};
use crate::tm::{Arrival, Charge, Departure, Offered, Terms, Trim};

/// Which ingress pass the packets of a burst are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Just received; egress may follow at once, if nothing prevents it.
    First {
        /// No other packet is received at this instant.
        last: bool,
    },
    /// They were in ingress before, or were not received by a port.
    Again,
}

impl Pass {
    fn is_last(self) -> bool {
        self == Pass::First { last: true }
    }
}

impl Core {
    /// Runs ingress on the burst and dispatches every packet.
    #[inline]
    pub(super) fn run_ingress(&mut self, pass: Pass, mut trace: Option<&mut dyn TraceSink>) {
        let packets = self.ingress.burst.len();
        if packets == 0 {
            return;
        }
        let (mut burst, mut meta) = self.ingress.take_burst();
        self.ingress(pass, &mut burst, &mut meta[..packets], reborrow(&mut trace));
        let mut departs = None;
        for (index, (packet, intrinsic)) in burst.iter_mut().zip(&mut meta).enumerate() {
            if intrinsic.egress_done == 1 {
                self.leave(std::mem::take(packet), intrinsic, reborrow(&mut trace));
                continue;
            }
            let from = self.ports.find(ingress_of(packet));
            self.manager.classify(from, packet, intrinsic);
            let last = pass.is_last() && index + 1 == packets && !self.is_waiting();
            let unchanged =
                last && trace.is_none() && self.executor.has_no_egress(packet.generation);
            let terms = Terms { last, unchanged, ..Terms::default() };
            departs = self.after_ingress(packet, intrinsic, terms);
        }
        self.after_pass();
        if let (Some((slot, departure)), Some(packet)) = (departs, burst.last_mut()) {
            self.depart(port_id(slot), packet, &departure, trace);
            self.handle_events();
            self.ingress.has_departed = true;
        }
        burst.clear();
        (self.ingress.burst, self.ingress.meta) = (burst, meta);
    }

    #[inline]
    pub(super) fn ingress(
        &mut self,
        pass: Pass,
        burst: &mut [Descriptor],
        meta: &mut [Intrinsic],
        trace: Option<&mut dyn TraceSink>,
    ) {
        let now_ns = self.now.as_ns();
        meta.iter_mut().for_each(|meta| meta.now_ns = now_ns);
        self.device.half = Half::Ingress;
        let fuses = pass != Pass::Again && self.may_fuse();
        if fuses {
            self.ingress.list_open(&self.ports, &self.manager);
            for meta in meta.iter_mut() {
                (meta.enqueue_ns, meta.dequeue_ns) = (now_ns, now_ns);
            }
        }
        let (mem, device) = (&mut self.mem, &mut self.device);
        let open = fuses.then_some(&self.ingress.open);
        match pass {
            Pass::First { .. } => self.executor.ingress(mem, device, trace, burst, meta, open),
            Pass::Again => self.executor.ingress_again(mem, device, trace, burst, meta),
        }
    }

    /// True while packets wait for another pass, for egress or for a port: packets received now must not overtake them.
    #[inline]
    fn is_waiting(&self) -> bool {
        !self.ingress.again.is_empty()
            || !self.egress.departing.is_empty()
            || !self.ports.active.is_empty()
    }

    /// Executes the decision of ingress about a packet that has its class. `Some`: it departs by this slot now;
    /// otherwise the packet was taken.
    #[inline]
    pub(super) fn after_ingress(
        &mut self,
        packet: &mut Descriptor,
        intrinsic: &mut Intrinsic,
        terms: Terms,
    ) -> Option<(usize, Departure)> {
        match intrinsic.original.take() {
            Some(original) => {
                self.dispatch_with_clones(original, packet, intrinsic);
                None
            }
            None => self.dispatch(packet, intrinsic, terms),
        }
    }

    /// True if egress may directly follow ingress: there are no queues, no mark is set before egress, and the program
    /// uses no extern of the device, whose result may depend on the pass.
    #[inline]
    fn may_fuse(&self) -> bool {
        let program = self.executor.current().map(|generation| &generation.program);
        !self.manager.configured
            && !self.stand_in.is_on
            && program.is_some_and(|program| program.externs.is_empty())
    }

    /// Sends a packet that has done egress right after ingress. Earlier packets for the same port leave first.
    fn leave(
        &mut self,
        mut packet: Descriptor,
        intrinsic: &Intrinsic,
        trace: Option<&mut dyn TraceSink>,
    ) {
        let Some(slot) = self.ports.find(egress_of(&packet)) else {
            return self.drop_packet(packet, DeviceReason::NoSuchPort.index());
        };
        if !self.egress.departing.is_empty() {
            self.egress_departing(trace);
        }
        if self.after_egress(&mut packet, intrinsic) {
            self.ports.hand_over(&self.ingress.cuts, slot, &mut packet, self.now, self.now);
        }
    }

    /// Dispatches the packet, and sends a copy of it as received to each session that ingress named. Together they are
    /// charged once.
    fn dispatch_with_clones(
        &mut self,
        original: Buf,
        done: &mut Descriptor,
        intrinsic: &Intrinsic,
    ) {
        let mut packet = done.with_buf(original);
        packet.data_off = intrinsic.original_off;
        packet.len = intrinsic.original_len;
        packet.forget_headers();
        let (ports, cuts) = (&self.ports, &self.ingress.cuts);
        let charge = self.manager.charge_copies(self.now, ports, cuts, &packet);
        let sessions = &intrinsic.clones[..usize::from(intrinsic.clone_count)];
        self.mirror_all(&mut packet, sessions, PacketPath::CloneIngress, charge);
        done.bounds = packet.bounds;
        self.release(packet);
        self.dispatch(done, intrinsic, Terms { charge, ..Terms::default() });
        self.manager.release_copies(self.now, charge);
    }

    /// Copies a packet to mirror sessions, as they are now; makes no copy if its budget does not suffice for all. A session that does
    /// not exist counts as one copy, which is dropped.
    pub(super) fn mirror_all(
        &mut self,
        packet: &mut Descriptor,
        sessions: &[u16],
        path: PacketPath,
        charge: Charge,
    ) {
        let from = ingress_of(packet);
        let mut copies = std::mem::take(&mut self.copies.mirrors);
        self.replication.get().mirrors(sessions, &mut copies);
        let suffices = self.copies.share(packet, copies.len() + 1);
        for copy in &copies {
            self.ports.account(from, |ledger| ledger.generated += 1);
            let made = match copy {
                _ if !suffices => Err(DeviceReason::TooManyCopies),
                None => Err(DeviceReason::NoSuchSession),
                Some(copy) => self.mirror(packet, copy, path, charge),
            };
            if let Err(reason) = made {
                self.ports.account_drop(from, reason.index());
            }
        }
        self.copies.mirrors = copies;
    }

    /// Makes one of the copies of a packet to a mirror session.
    fn mirror(
        &mut self,
        packet: &Descriptor,
        to: &MirrorCopy,
        path: PacketPath,
        charge: Charge,
    ) -> Result<(), DeviceReason> {
        let buf = packet.buf.as_ref().and_then(|buf| self.mem.share(buf));
        let mut copy = packet.with_buf(buf.ok_or(DeviceReason::NoMemory)?);
        copy.path = path as u8;
        copy.flags &= !(flags::RECIRCULATE | flags::MARKED);
        copy.instance = to.member.instance;
        copy.traffic_class = to.traffic_class.unwrap_or(copy.traffic_class);
        if to.truncate_bytes != 0 {
            copy.len = copy.len.min(to.truncate_bytes);
        }
        self.executor.count_in(copy.generation, 1);
        self.enqueue(&mut copy, to.member.port, Terms { charge, ..Terms::default() });
        Ok(())
    }

    /// Executes the decision of a pass. `Some`: the packet departs by this slot now; otherwise it was taken.
    #[inline]
    fn dispatch(
        &mut self,
        packet: &mut Descriptor,
        intrinsic: &Intrinsic,
        terms: Terms,
    ) -> Option<(usize, Departure)> {
        let decision = Decision::of(intrinsic);
        if decision == Decision::Plain {
            packet.path = normal_path(packet.path);
            return self.enqueue(packet, egress_of(packet), terms);
        }
        let release = release_of(intrinsic, self.now);
        let terms = Terms { release, last: false, unchanged: false, ..terms };
        let mut packet = std::mem::take(packet);
        match decision {
            Decision::Plain | Decision::Unicast => {
                packet.path = normal_path(packet.path);
                let port = egress_of(&packet);
                self.enqueue(&mut packet, port, terms);
            }
            Decision::Multicast(group) => self.multicast(packet, group, terms),
            Decision::NotForwarded(verdict, reason) => self.not_forwarded(packet, verdict, reason),
        }
        None
    }

    /// What every verdict but [`Verdict::Forward`] means for a packet. The reasons are those that its program defines.
    pub(super) fn not_forwarded(&mut self, packet: Descriptor, verdict: Verdict, reason: ReasonId) {
        if verdict == Verdict::Resubmit {
            return self.run_again(packet, PacketPath::Resubmit);
        }
        let reason = self.outcomes.program_reason(&self.executor, packet.generation, reason);
        match verdict {
            Verdict::Punt => self.punt(packet, reason),
            _ => self.drop_packet(packet, reason),
        }
    }

    /// Drops, before egress, a packet that ingress let through.
    pub(super) fn refuse(&mut self, packet: Descriptor, reason: ReasonIndex) {
        will_not_leave(&self.executor, &packet);
        self.drop_packet(packet, reason);
    }

    pub(super) fn run_again(&mut self, mut packet: Descriptor, path: PacketPath) {
        if !begin_pass(&mut packet) {
            return self.drop_packet(packet, DeviceReason::TooManyPasses.index());
        }
        packet.path = path as u8;
        packet.egress_port = NO_PORT;
        packet.instance = 0;
        packet.flags = 0;
        packet.priority_group &= !TRIMMED;
        self.ingress.again.push_back(packet);
    }

    /// Makes a copy for each member of a group; the last copy is the packet itself.
    fn multicast(&mut self, mut packet: Descriptor, group: u16, terms: Terms) {
        let from = ingress_of(&packet);
        let mut copies = std::mem::take(&mut self.copies.members);
        if !self.replication.get().copies(group, from, self.ports.numbers(), &mut copies) {
            self.refuse(packet, DeviceReason::NoSuchGroup.index());
        } else if !self.copies.share(&mut packet, copies.len().max(1)) {
            self.refuse(packet, DeviceReason::TooManyCopies.index());
        } else if let Some((last, others)) = copies.split_last() {
            // Clones may have charged the memory of this packet already.
            let charges = terms.charge == Charge::Own && !others.is_empty();
            let (ports, cuts) = (&self.ports, &self.ingress.cuts);
            let charge = match charges {
                true => self.manager.charge_copies(self.now, ports, cuts, &packet),
                false => terms.charge,
            };
            let terms = Terms { charge, ..terms };
            for member in others {
                self.ports.account(from, |ledger| ledger.generated += 1);
                match packet.buf.as_ref().and_then(|buf| self.mem.share(buf)) {
                    Some(buf) => {
                        self.executor.count_in(packet.generation, 1);
                        self.enqueue_copy(packet.with_buf(buf), *member, terms);
                    }
                    None => self.ports.account_drop(from, DeviceReason::NoMemory.index()),
                }
            }
            self.enqueue_copy(packet, *last, terms);
            if charges {
                self.manager.release_copies(self.now, charge);
            }
        } else {
            self.refuse(packet, DeviceReason::EmptyGroup.index());
        }
        self.copies.members = copies;
    }

    fn enqueue_copy(&mut self, mut packet: Descriptor, member: Member, terms: Terms) {
        packet.path = PacketPath::Multicast as u8;
        packet.instance = member.instance;
        self.enqueue(&mut packet, member.port, terms);
    }

    /// True for the numbers of the CPU port.
    pub(super) fn is_cpu(&self, port: PortNumber) -> bool {
        port == PortNumber(CPU_PORT) || port == self.cpu_port
    }

    /// Sends a packet to a port. `Some`: it departs by this slot now; otherwise it was taken.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        packet: &mut Descriptor,
        port: PortNumber,
        terms: Terms,
    ) -> Option<(usize, Departure)> {
        packet.egress_port = port.0;
        if let Some(slot) = self.ports.find(port) {
            return self.offer(slot, packet, terms);
        }
        let packet = std::mem::take(packet);
        match port {
            _ if self.is_cpu(port) => self.egress.departing.push(packet),
            _ => self.refuse(packet, DeviceReason::NoSuchPort.index()),
        }
        None
    }

    /// Offers a packet to the traffic manager of its port's owner. Without queues each worker sends by its own transmit
    /// queue of the port, where it has one.
    #[inline]
    pub(super) fn offer(
        &mut self,
        slot: usize,
        packet: &mut Descriptor,
        terms: Terms,
    ) -> Option<(usize, Departure)> {
        if let Some(worker) = self.ports[slot].worker
            && (self.manager.configured || !self.ports[slot].has_queue)
        {
            self.hand_to(worker, std::mem::take(packet), terms);
            return None;
        }
        let (from, bytes) =
            (self.ports.charged_slot(ingress_of(packet)), self.ingress.cuts.frame_bytes(packet));
        let arrival = self.manager.arrival(packet, from, slot, bytes, terms);
        self.offer_as(slot, packet, &arrival)
    }

    /// Offers a packet to this worker's traffic manager as `arrival`.
    #[inline]
    pub(super) fn offer_as(
        &mut self,
        slot: usize,
        packet: &mut Descriptor,
        arrival: &Arrival,
    ) -> Option<(usize, Departure)> {
        match self.manager.tm.offer(self.now, arrival) {
            Offered::Departs(departure) if arrival.terms.last => return Some((slot, departure)),
            Offered::Trims(trim) => self.trim(slot, packet, arrival, trim),
            offered => self.accept(slot, packet, offered),
        }
        None
    }

    /// Trims and offers again a packet for this slot's port that was refused as `arrival`.
    #[cold]
    fn trim(&mut self, slot: usize, packet: &mut Descriptor, arrival: &Arrival, trim: Trim) {
        let is_own = packet.flags & DEVICE_ORIGINATED != 0;
        if !is_own {
            self.ingress.cuts.trim(&self.executor, packet, trim.bytes);
        }
        // It never departs by itself as the last of a burst: it does egress with those that need no link time.
        let terms = Terms { last: false, unchanged: false, ..arrival.terms };
        let bytes = self.ingress.cuts.frame_bytes(packet);
        let again = Arrival { queue: trim.queue, bytes, terms, ..*arrival };
        let offered = self.manager.tm.offer_trimmed(self.now, arrival.queue, &again);
        self.accept(slot, packet, offered);
    }

    /// What the answer of the traffic manager means for a packet that is not the last of a burst.
    #[inline]
    pub(super) fn accept(&mut self, slot: usize, packet: &mut Descriptor, offered: Offered) {
        match offered {
            Offered::Departs(_) if packet.flags & DEVICE_ORIGINATED != 0 => {
                self.ports.hand_over(&self.ingress.cuts, slot, packet, self.now, self.now);
            }
            Offered::Departs(_) => self.egress.departing.push(std::mem::take(packet)),
            Offered::Queued(place) => self.manager.tm.put(place, std::mem::take(packet)),
            Offered::Refused(reason) => {
                self.refuse(std::mem::take(packet), self.manager.reason(reason));
            }
            Offered::Trims(_) => unreachable!("what was trimmed is not trimmed again"),
        }
    }

    pub(super) fn punt(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.ports.account(ingress_of(&packet), |ledger| ledger.consume(reason));
        self.outcomes.keep_punted(&self.mem, &packet, reason);
        self.release(packet);
    }

    pub(super) fn drop_packet(&mut self, packet: Descriptor, reason: ReasonIndex) {
        self.ports.account_drop(ingress_of(&packet), reason);
        self.record_drop(&packet, reason);
        self.outcomes.keep_dropped(&self.mem, &packet, reason);
        self.release(packet);
    }

    fn record_drop(&mut self, packet: &Descriptor, reason: ReasonIndex) {
        let to = self.ports.find(egress_of(packet));
        let places = self.ports.drop_places(self.ports.find(ingress_of(packet)), to);
        if places == [None, None] {
            return;
        }
        let queue = to.map(|to| {
            let queue = self.manager.queue_of(to, packet.traffic_class);
            (queue, self.manager.tm.queue_bytes(port_id(to), queue))
        });
        let (now, mem, reason) = (self.now, &self.mem, self.outcomes.reasons.name(reason));
        let wire_len = self.ingress.cuts.wire_len(packet);
        self.recording.dropped(places, &Dropped { now, mem, packet, wire_len, reason }, queue);
    }

    #[inline]
    pub(super) fn release(&mut self, mut packet: Descriptor) {
        if let Some(buf) = packet.buf.take() {
            self.mem.free(buf);
        }
    }
}

/// Counts a packet that ingress let through and that will not enter egress.
pub(super) fn will_not_leave(executor: &Executor, packet: &Descriptor) {
    if packet.flags & DEVICE_ORIGINATED == 0 {
        executor.count_out(packet.generation);
    }
}

/// The path of a packet in egress: one that was resubmitted or recirculated before is a normal one (PSA
/// NORMAL_UNICAST).
fn normal_path(path: u8) -> u8 {
    const RESUBMIT: u8 = PacketPath::Resubmit as u8;
    const RECIRCULATE: u8 = PacketPath::Recirculate as u8;
    if matches!(path, RESUBMIT | RECIRCULATE) { PacketPath::Normal as u8 } else { path }
}
