//! Arrival of packets: admission, charging, queueing, delaying.

use wireyard_tables::time::{Deadline, Time};

use super::buffer::Pool;
use super::id::{CLASSES, DropReason, PortId};
use super::port::{Group, Leaving, Port};
use super::queue::{Arrival, Charge, Memory, PacketSlot, QueueDepth, Release, Terms, charge};
use super::scheduler::Pick;
use super::shared::Charged;
use super::wred::{DecideAt, Decision};
use super::{Departure, Event, Offered, Tm};

/// Control frames that may wait for one port: enough for XOFF, refreshes and XON of several changes.
const CONTROL_MAX: u32 = 64;

impl<P: Default> Tm<P> {
    /// Offers a packet to its egress port: the only entry. A refusal is counted at the egress port; a packet that is
    /// queued is put into its slot with [`Tm::put`]; one that departs goes through egress processing now.
    #[inline]
    pub fn offer(&mut self, now: Time, arrival: &Arrival) -> Offered {
        if let Some(departure) = self.send_uncontended(now, arrival) {
            return Offered::Departs(departure);
        }
        self.flush(now);
        let admitted = match arrival.terms {
            Terms { charge: Charge::Control, .. } => self.admit_control(now, arrival),
            Terms { charge: Charge::Refused(reason), .. } => return Offered::Refused(reason),
            Terms { release: Release::Immediate, .. } => self.admit(now, arrival),
            Terms { release, .. } => self.admit_held(now, arrival, release),
        };
        admitted.unwrap_or_else(|reason| self.refuse(arrival, reason))
    }

    /// Puts a packet into the slot that [`Tm::offer`] took for it.
    #[inline]
    pub fn put(&mut self, slot: PacketSlot, packet: P) {
        self.slots.put(slot.0, packet);
    }

    /// Checks ingress and egress and charges both; the packet is queued, or departs if nothing delays it.
    #[inline]
    pub(super) fn admit(&mut self, now: Time, arrival: &Arrival) -> Result<Offered, DropReason> {
        let owner = self.owner(arrival)?;
        let arrival = &Arrival { ingress: owner.0, group: owner.1, ..*arrival };
        if let Some(port) = self.ports.get_mut(arrival.egress.index())
            && port.passes
            && let Some(queue) = port.queues.get_mut(usize::from(arrival.queue))
        {
            queue.counters.passed.add(arrival.bytes);
            self.count_passing(now, arrival);
            return Ok(Offered::Departs(Departure::unpaced(arrival, now)));
        }
        let charged = self.charge_of(arrival.bytes);
        let marked = self.check_egress(arrival, charged)?;
        if self.slots.is_full() {
            return Err(self.no_slot(now, arrival));
        }
        let was_empty = self.is_empty();
        let memory = match arrival.terms.charge {
            Charge::Shared(memory) => {
                self.shared.retain(memory);
                Memory::Shared(memory)
            }
            Charge::Own | Charge::Control | Charge::Refused(_) => {
                let (ingress, group) = (arrival.ingress, arrival.group);
                self.charge_group(now, ingress, group, charged, arrival.bytes)?;
                Memory::Own { charged }
            }
        };
        let offered = match self.cuts_through(now, arrival) {
            true => {
                if was_empty {
                    self.mark_eligible(arrival);
                }
                Offered::Departs(self.cut_through(now, arrival, memory, charged, marked))
            }
            false => Offered::Queued(self.queue_packet(now, arrival, memory, marked)?),
        };
        self.count_passing(now, arrival);
        Ok(offered)
    }

    /// Port and priority group to charge: for a copy, those of the memory that it shares.
    #[inline]
    fn owner(&self, arrival: &Arrival) -> Result<(PortId, u8), DropReason> {
        let Charge::Shared(memory) = arrival.terms.charge else {
            return Ok((arrival.ingress, arrival.group));
        };
        match self.shared.get(memory) {
            Some(Charged::Group { ingress, group, .. }) => Ok((ingress, group)),
            Some(Charged::Elsewhere { .. }) => Ok((arrival.ingress, arrival.group)),
            None => Err(DropReason::NoSlot),
        }
    }

    /// True if a packet need not wait: its port is idle, and no other could be chosen before it. A packet for its own
    /// ingress port waits, because a pause that it may have caused leaves first.
    #[inline]
    fn cuts_through(&self, now: Time, arrival: &Arrival) -> bool {
        arrival.terms.last
            && self.ready.is_empty()
            && arrival.ingress != arrival.egress
            && self
                .ports
                .get(arrival.egress.index())
                .is_some_and(|port| port.is_idle(now, arrival.queue))
    }

    /// Sends a packet through an empty queue of an idle port: checks, charges, random draws and counters are those of a
    /// packet that is queued and chosen at once.
    #[inline]
    fn cut_through(
        &mut self,
        now: Time,
        arrival: &Arrival,
        memory: Memory,
        charged: u32,
        mark: bool,
    ) -> Departure {
        let Arrival { ingress, egress, group, queue: number, bytes, .. } = *arrival;
        self.charge_queue(egress, number, charged, bytes);
        let port = &mut self.ports[egress.index()];
        if let Some(wred) = &mut port.queues[usize::from(number) % CLASSES].wred
            && wred.config.decide_at == DecideAt::Dequeue
        {
            // At depth 0 no packet is marked or dropped, but the random number is drawn.
            wred.decide(0, arrival.color, arrival.ect);
        }
        let pick = port.scheduler.pick(now, 1 << number);
        debug_assert!(matches!(pick, Pick::Queue(queue, _) if queue == number), "{pick:?}");
        port.pending =
            Some(Leaving { queue: number, bytes, charged, memory, ingress, group, start: now });
        Departure { mark, ..Departure::immediate(number, now) }
    }

    /// Charges an empty queue for a packet that does not wait.
    #[inline]
    pub(super) fn charge_queue(&mut self, egress: PortId, number: u8, charged: u32, bytes: u32) {
        let queue = &mut self.ports[egress.index()].queues[usize::from(number) % CLASSES];
        if let Some(pool) = self.pools.get_mut(usize::from(queue.account.config.pool.0)) {
            queue.account.charge(pool, u64::from(charged));
        }
        queue.peak_bytes = queue.peak_bytes.max(u64::from(bytes));
        queue.counters.admitted.add(bytes);
    }

    /// Keeps a packet outside its queue until it is released. Its ingress group is charged now, for each copy
    /// separately, unless its worker has charged it ([`Tm::borrow_shared`]); it enters its queue later (a refusal then
    /// is an [`Event::Drop`]).
    fn admit_held(
        &mut self,
        now: Time,
        arrival: &Arrival,
        release: Release,
    ) -> Result<Offered, DropReason> {
        let (until, after) = match release {
            Release::Immediate => (now, None),
            // It may have passed on the way from another worker: the packet does not enter its queue before it is here.
            Release::At(at) => (at.max(now), None),
            Release::AfterPackets { packets, timeout } => {
                (now + timeout, Some((hold_group(arrival), packets)))
            }
        };
        if !self.holds.has_room(after.is_some()) {
            return Err(DropReason::HoldFull);
        }
        if self.slots.is_full() {
            return Err(self.no_slot(now, arrival));
        }
        let charged = self.charge_of(arrival.bytes);
        let memory = match self.retain_borrowed(arrival.terms.charge) {
            Some(memory) => memory,
            None => {
                let (ingress, group) = (arrival.ingress, arrival.group);
                self.charge_group(now, ingress, group, charged, arrival.bytes)?;
                Memory::Own { charged }
            }
        };
        let Some(index) = self.slots.take_empty() else {
            self.release_memory(now, memory, arrival.ingress, arrival.group, arrival.bytes);
            return Err(DropReason::NoSlot);
        };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.fill(arrival, memory);
        }
        self.holds.insert(index, until, after);
        Ok(Offered::Queued(PacketSlot(index)))
    }

    /// Counts a packet that passed or entered its queue, and releases packets that were held until this many had.
    #[inline]
    fn count_passing(&mut self, now: Time, arrival: &Arrival) {
        if self.holds.is_counting() {
            self.release_counted(now, hold_group(arrival));
        }
    }

    #[inline(never)]
    fn release_counted(&mut self, now: Time, group: u32) {
        let mut released = std::mem::take(&mut self.released);
        self.holds.pass(group, &mut released);
        for slot in released.drain(..) {
            self.queue_held(now, slot);
        }
        self.released = released;
    }

    /// Admits a MAC control frame of the port's own: sent before everything, never paused, not charged.
    fn admit_control(&mut self, now: Time, arrival: &Arrival) -> Result<Offered, DropReason> {
        let (port, bytes) = (arrival.egress, arrival.bytes);
        let entry = self.ports.get_mut(port.index()).filter(|entry| entry.present);
        let entry = entry.ok_or(DropReason::PortDown)?;
        if entry.config.rate.is_none() && !entry.blocked && entry.control.is_empty() {
            entry.control_counters.passed.add(bytes);
            return Ok(Offered::Departs(Departure::unpaced(arrival, now)));
        }
        if entry.control.packets >= CONTROL_MAX {
            return Err(DropReason::ControlBacklog);
        }
        let index = self.slots.take_empty().ok_or(DropReason::NoSlot)?;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.fill(arrival, Memory::None);
            slot.enter(now, QueueDepth::default());
        }
        let entry = &mut self.ports[port.index()];
        entry.control.push(&mut self.slots, index);
        entry.control_counters.admitted.add(bytes);
        entry.update_passes();
        self.arm_sending(now, port);
        Ok(Offered::Queued(PacketSlot(index)))
    }

    /// Moves a packet from the hold store to its queue; drops it with an event if the queue refuses.
    pub(crate) fn queue_held(&mut self, now: Time, index: u32) {
        let Some(slot) = self.slots.get(index) else { return };
        let (arrival, memory) = (slot.arrival(), slot.memory(self.config.cell_bytes));
        let charged = self.charge_of(arrival.bytes);
        match self.check_egress(&arrival, charged) {
            Ok(marked) => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.set_marked(marked);
                }
                self.push_slot(now, index);
            }
            Err(reason) => {
                if let Some(packet) = self.slots.give_back(index) {
                    self.count_refusal(&arrival, reason);
                    let (port, queue) = (arrival.egress, arrival.queue);
                    self.events.push_back(Event::Drop { packet, reason, port, queue });
                }
                self.release_memory(now, memory, arrival.ingress, arrival.group, arrival.bytes);
            }
        }
    }

    /// Memory charged for a frame: whole cells if the buffer has cells.
    #[inline]
    pub(crate) fn charge_of(&self, bytes: u32) -> u32 {
        charge(bytes, self.config.cell_bytes)
    }

    /// Checks all reasons of the egress side to refuse a packet; returns whether it is marked at enqueue.
    #[inline]
    pub(super) fn check_egress(
        &mut self,
        arrival: &Arrival,
        charged: u32,
    ) -> Result<bool, DropReason> {
        let port = self.ports.get_mut(arrival.egress.index()).ok_or(DropReason::NoSuchQueue)?;
        if !port.present {
            return Err(DropReason::PortDown);
        }
        let queue =
            port.queues.get_mut(usize::from(arrival.queue)).ok_or(DropReason::NoSuchQueue)?;
        if port.storm_drop & 1 << arrival.queue != 0 {
            if let Some(watchdog) = &mut port.watchdog {
                watchdog.counters[usize::from(arrival.queue)].tx_dropped += 1;
            }
            return Err(DropReason::WatchdogStorm);
        }
        let pool = self.pools.get(usize::from(queue.account.config.pool.0));
        let pool = pool.ok_or(DropReason::NoSuchQueue)?;
        queue.account.admits(pool, u64::from(charged), DropReason::QueueThreshold)?;
        match &mut queue.wred {
            Some(wred) if wred.config.decide_at == DecideAt::Enqueue => {
                match wred.decide(queue.fifo.bytes, arrival.color, arrival.ect) {
                    Decision::Drop => Err(DropReason::Wred),
                    decision => Ok(decision == Decision::Mark),
                }
            }
            _ => Ok(false),
        }
    }

    /// Takes a slot for an admitted packet and queues it; the caller puts the packet into the slot.
    #[inline]
    fn queue_packet(
        &mut self,
        now: Time,
        arrival: &Arrival,
        memory: Memory,
        marked: bool,
    ) -> Result<PacketSlot, DropReason> {
        let Some(index) = self.slots.take_empty() else {
            self.release_memory(now, memory, arrival.ingress, arrival.group, arrival.bytes);
            return Err(DropReason::NoSlot);
        };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.fill(arrival, memory);
            slot.set_marked(marked);
        }
        self.push_slot(now, index);
        Ok(PacketSlot(index))
    }

    /// Appends a slot, whose egress was checked, to its queue and charges the egress view.
    #[inline]
    fn push_slot(&mut self, now: Time, index: u32) {
        let Some(slot) = self.slots.get(index) else { return };
        let Arrival { egress, queue: number, bytes, .. } = slot.arrival();
        let charged = slot.charged(self.config.cell_bytes);
        let Some(port) = self.ports.get_mut(egress.index()) else { return };
        let queue = &mut port.queues[usize::from(number) % CLASSES];
        if let Some(slot) = self.slots.get_mut(index) {
            slot.enter(now, queue.fifo.depth());
        }
        if let Some(pool) = self.pools.get_mut(usize::from(queue.account.config.pool.0)) {
            queue.account.charge(pool, u64::from(charged));
        }
        queue.fifo.push(&mut self.slots, index);
        queue.peak_bytes = queue.peak_bytes.max(queue.fifo.bytes);
        queue.counters.admitted.add(bytes);
        port.backlog |= 1 << (number % CLASSES as u8);
        port.passes = false;
        self.arm_sending(now, egress);
    }

    /// Charges an ingress group, which may send XOFF to the peer.
    #[inline]
    pub(super) fn charge_group(
        &mut self,
        now: Time,
        ingress: PortId,
        number: u8,
        charged: u32,
        bytes: u32,
    ) -> Result<(), DropReason> {
        let port = self.ports.get_mut(ingress.index()).ok_or(DropReason::NoSuchQueue)?;
        let group = port.groups.get_mut(usize::from(number)).ok_or(DropReason::NoSuchQueue)?;
        if port.storm_drop_groups & 1 << number != 0 {
            count_storm_arrival(port, number);
            return Err(DropReason::WatchdogStorm);
        }
        let pool = self.pools.get_mut(usize::from(group.account.config.pool.0));
        let pool = pool.ok_or(DropReason::NoSuchQueue)?;
        let was_xoff = group.xoff;
        if was_xoff {
            group.counters.after_xoff += 1;
            group.counters.not_honoured += u64::from(group.honoured_by.is_before(now));
        }
        let few_slots = self.slots.used() >= self.levels.stop;
        let charged = match few_slots && group.lossless.is_none() {
            false => charge_account(group, pool, u64::from(charged)),
            true => Err(DropReason::NoSlot),
        };
        if let Err(reason) = charged {
            group.counters.refused.add(bytes);
            // Other groups may have filled the pool before this one reached its threshold.
            self.stop_group(now, ingress, number);
            return Err(reason);
        }
        group.counters.admitted.add(bytes);
        if group.lossless.is_some() && !was_xoff && (few_slots || group.account.wants_xoff(pool)) {
            self.stop_group(now, ingress, number);
        }
        Ok(())
    }

    /// Sends XOFF to the peer of a group, if it is lossless and not in XOFF.
    #[cold]
    fn stop_group(&mut self, now: Time, ingress: PortId, number: u8) {
        let Some(port) = self.ports.get_mut(ingress.index()) else { return };
        let is_announced = port.priorities_of_group(number) & port.pause_tx.stopped != 0;
        let by = Deadline::at(now + port.config.flow_control.honoured_within);
        let group = port.groups.get_mut(usize::from(number));
        let Some(group) = group.filter(|group| group.lossless.is_some() && !group.xoff) else {
            return;
        };
        group.xoff = true;
        group.counters.xoff += 1;
        // `send_flow_control` sets it where the peer hears of this only now.
        group.honoured_by = if is_announced { by } else { Deadline::NEVER };
        self.send_flow_control(now, ingress);
        self.stops = true;
    }

    /// The refusal of a packet that no slot is left for.
    #[cold]
    fn no_slot(&mut self, now: Time, arrival: &Arrival) -> DropReason {
        if arrival.terms.charge == Charge::Own {
            self.stop_group(now, arrival.ingress, arrival.group);
        }
        DropReason::NoSlot
    }

    /// Counts a refusal at the egress port and queue.
    #[cold]
    pub(crate) fn count_refusal(&mut self, arrival: &Arrival, reason: DropReason) {
        // A packet for a port that does not exist is counted at its ingress port.
        let at = if arrival.egress.index() < self.ports.len() {
            arrival.egress
        } else {
            arrival.ingress
        };
        if let Some(port) = self.ports.get_mut(at.index()) {
            port.count_drop(reason, arrival.bytes);
            match port.queues.get_mut(usize::from(arrival.queue)) {
                Some(queue) => queue.counters.refused.add(arrival.bytes),
                None => port.control_counters.refused.add(arrival.bytes),
            }
        }
    }

    /// Releases packet memory: the packet's own, or one reference to a shared one.
    #[inline]
    pub(crate) fn release_memory(
        &mut self,
        now: Time,
        memory: Memory,
        ingress: PortId,
        group: u8,
        bytes: u32,
    ) {
        match memory {
            Memory::None => {}
            Memory::Own { charged } => self.release_group(now, ingress, group, charged, bytes),
            Memory::Shared(memory) => self.release_shared(now, memory),
        }
    }

    /// Releases bytes of an ingress group, which may let the peer resume.
    #[inline]
    pub(crate) fn release_group(
        &mut self,
        now: Time,
        ingress: PortId,
        number: u8,
        charged: u32,
        bytes: u32,
    ) {
        let Some(port) = self.ports.get_mut(ingress.index()) else { return };
        let Some(group) = port.groups.get_mut(usize::from(number)) else { return };
        let Some(pool) = self.pools.get_mut(usize::from(group.account.config.pool.0)) else {
            return;
        };
        group.account.release(pool, u64::from(charged));
        group.counters.released.add(bytes);
        let few_slots = self.slots.used() >= self.levels.resume;
        if resume_group(group, pool, few_slots) {
            self.send_flow_control(now, ingress);
            self.note_stops();
        }
    }

    /// Lets the peer of a group resume if its level allows it, after a change of the group's settings.
    pub(super) fn resume(&mut self, now: Time, id: PortId, number: u8) {
        let few_slots = self.slots.used() >= self.levels.resume;
        let Some(port) = self.ports.get_mut(id.index()) else { return };
        let Some(group) = port.groups.get_mut(usize::from(number)) else { return };
        let Some(pool) = self.pools.get(usize::from(group.account.config.pool.0)) else { return };
        if resume_group(group, pool, few_slots) {
            self.send_flow_control(now, id);
            self.note_stops();
        }
    }

    /// Notes whether a group is in XOFF, after one has resumed.
    pub(super) fn note_stops(&mut self) {
        let stops = |port: &Port| port.groups.iter().any(|group| group.xoff);
        self.stops = self.ports.iter().any(stops);
    }
}

#[inline]
fn charge_account(group: &mut Group, pool: &mut Pool, charged: u64) -> Result<(), DropReason> {
    match &group.lossless {
        Some(lossless) => group.account.charge_lossless(pool, charged, lossless, group.xoff),
        None => {
            group.account.admits(pool, charged, DropReason::IngressThreshold)?;
            group.account.charge(pool, charged);
            Ok(())
        }
    }
}

/// The number under which packets are held by count: that of queue and port.
fn hold_group(arrival: &Arrival) -> u32 {
    u32::from(arrival.egress.0) << 3 | u32::from(arrival.queue)
}

/// Ends a group's XOFF if its level allows it; true if it did. A group without bytes resumes in any case: no release of
/// its own would do it later.
pub(crate) fn resume_group(group: &mut Group, pool: &Pool, few_slots: bool) -> bool {
    let Some(lossless) = &group.lossless else { return false };
    let may_resume = !few_slots || group.account.used.total() == 0;
    let resumes = group.xoff && may_resume && group.account.wants_xon(pool, lossless.xon);
    if resumes {
        group.xoff = false;
        group.honoured_by = Deadline::NEVER;
        group.counters.xon += 1;
    }
    resumes
}

/// Counts an arrival that the watchdog discards for a storm on this port, at the queues whose priorities feed the
/// group.
fn count_storm_arrival(port: &mut Port, group: u8) {
    for q in 0..CLASSES as u8 {
        let in_storm =
            port.storm_drop & 1 << q != 0 && port.groups_of_queues(1 << q) & 1 << group != 0;
        if let (true, Some(watchdog)) = (in_storm, &mut port.watchdog) {
            watchdog.counters[usize::from(q)].rx_dropped += 1;
        }
    }
}
