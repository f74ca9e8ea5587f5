//! Departure of packets: scheduling, marking, link time, and the two steps of a departure.

use wireyard_tables::time::{Deadline, Time};

use super::id::{CLASSES, CONTROL_QUEUE, DropReason, PortId};
use super::port::Leaving;
use super::queue::{Arrival, QueueDepth};
use super::scheduler::Pick;
use super::wred::{DecideAt, Decision};
use super::{Event, Tm};

/// A packet that departs and goes through egress processing: [`Tm::offer`] let it depart at once, or [`Tm::begin`] took
/// it out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its queue; [`CONTROL_QUEUE`] for a control frame.
    pub queue: u8,
    /// The congestion point chose it: the egress program writes the mark in its protocol.
    pub mark: bool,
    /// When it entered the queue.
    pub enqueued_at: Time,
    /// Depth of the queue when it entered, without it.
    pub depth_at_enqueue: QueueDepth,
    /// Depth of the queue without it now; the mark was decided with these bytes.
    pub depth_at_dequeue: QueueDepth,
    /// When its first bit goes on the wire; not later than now.
    pub start: Time,
    /// Its time on the wire where that is known already: the port has no rate, or the length cannot change. `None`: the
    /// port waits for [`Tm::commit`] or [`Tm::abort`].
    pub sent: Option<Transmission>,
}

impl Departure {
    /// The departure of a packet that does not wait.
    #[inline]
    pub(super) fn immediate(queue: u8, now: Time) -> Departure {
        Departure {
            queue,
            mark: false,
            enqueued_at: now,
            depth_at_enqueue: QueueDepth::default(),
            depth_at_dequeue: QueueDepth::default(),
            start: now,
            sent: None,
        }
    }

    /// The departure by a port without a rate: it takes no time.
    #[inline]
    pub(super) fn unpaced(arrival: &Arrival, now: Time) -> Departure {
        let sent = Some(Transmission { start: now, end: now });
        Departure { sent, ..Departure::immediate(arrival.queue, now) }
    }
}

/// A committed departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// First bit (of the preamble) on the wire.
    pub start: Time,
    /// When the link is free again, after the last bit and the inter-frame gap.
    pub end: Time,
}

/// A departure, and the slot of its packet.
type Head = (u32, Departure);

impl<P: Default> Tm<P> {
    /// A port that may send now, if there is one: after [`Tm::advance`], the lowest. [`Tm::begin`] on it either
    /// succeeds or removes it from the list, so a loop over `next_ready` ends.
    #[inline]
    pub fn next_ready(&self) -> Option<PortId> {
        self.ready.first().and_then(|port| u16::try_from(port).ok()).map(PortId)
    }

    /// Takes the next packet of a port whose link is free and hands it to egress processing.
    ///
    /// Every departure without a time on the wire is followed by [`Tm::commit`] or [`Tm::abort`]; until then the port
    /// sends nothing else.
    #[inline]
    pub fn begin(&mut self, now: Time, id: PortId) -> Option<(P, Departure)> {
        let (index, departure) = self.take_next(now, id)?;
        Some((self.slots.give_back(index)?, departure))
    }

    /// The new head of a queue, behind the packet that left last.
    #[inline]
    pub fn behind(&self, id: PortId, departure: &Departure) -> Option<&P> {
        let queue = self.ports.get(id.index())?.queues.get(usize::from(departure.queue))?;
        queue.fifo.first(&self.slots)
    }

    #[inline]
    fn take_next(&mut self, now: Time, id: PortId) -> Option<Head> {
        loop {
            let port = self.ports.get_mut(id.index())?;
            if port.pending.is_some() || port.blocked || !port.present {
                return self.take_later(id, Deadline::NEVER);
            }
            let free_at = port.link.ceil();
            if port.config.rate.is_some() && free_at > now {
                return self.take_later(id, Deadline::at(free_at));
            }
            if port.on_wire.is_some() {
                self.wires.remove(id.0);
                self.release_wire(id, free_at);
            }
            let port = &mut self.ports[id.index()];
            let head = match port.control.is_empty() {
                false => self.take_control(now, id),
                true => match port.scheduler.pick(now, port.eligible()) {
                    Pick::Queue(number, allowed_at) => {
                        self.take_queued(now, id, number, allowed_at.max(free_at))
                    }
                    Pick::Later(at) => return self.take_later(id, at),
                },
            };
            if head.is_some() {
                self.ready.remove(id.index());
                return head;
            }
        }
    }

    /// Notes that no packet of the port leaves before `until`.
    fn take_later(&mut self, id: PortId, until: Deadline) -> Option<Head> {
        self.ready.remove(id.index());
        self.wake(id, until);
        None
    }

    /// Takes the head of a queue that may start at `earliest`, and decides about its mark. `None` when WRED dropped it:
    /// the caller tries again.
    #[inline]
    fn take_queued(&mut self, now: Time, id: PortId, number: u8, earliest: Time) -> Option<Head> {
        let port = &mut self.ports[id.index()];
        let queue = &mut port.queues[usize::from(number) % CLASSES];
        let Some(index) = queue.fifo.pop(&self.slots) else {
            debug_assert!(false, "backlog bit of an empty queue");
            port.backlog &= !(1 << number);
            return None;
        };
        let depth_at_dequeue = queue.fifo.depth();
        if queue.fifo.is_empty() {
            port.backlog &= !(1 << number);
        }
        let slot = self.slots.get(index)?;
        let arrival = slot.arrival();
        let decision = match &mut queue.wred {
            Some(wred) if wred.config.decide_at == DecideAt::Dequeue => {
                wred.decide(queue.fifo.bytes, arrival.color, arrival.ect)
            }
            _ => Decision::Leave,
        };
        let (enqueued_at, depth_at_enqueue) = (slot.enqueued_at, slot.depth_at_enqueue());
        let start = enqueued_at.max(queue.open_since).max(earliest);
        let start = start.max(now - port.config.max_catch_up).min(now);
        let start = if start < now { port.catch_up(now, start) } else { start };
        let charged = slot.charged(self.config.cell_bytes);
        let memory = slot.memory(self.config.cell_bytes);
        // Built in place: a copy right after narrow stores stalls on store forwarding.
        let leaving = || Leaving {
            queue: number,
            bytes: arrival.bytes,
            charged,
            memory,
            ingress: arrival.ingress,
            group: arrival.group,
            start,
        };
        let mark = slot.is_marked() || decision == Decision::Mark;
        if decision == Decision::Drop {
            let (reason, queue) = (DropReason::Wred, number);
            let packet = self.slots.give_back(index)?;
            self.drop_leaving(now, id, &leaving(), reason);
            self.events.push_back(Event::Drop { packet, reason, port: id, queue });
            return None;
        }
        port.pending = Some(leaving());
        let queue = number;
        let sent = None;
        Some((
            index,
            Departure { queue, mark, enqueued_at, depth_at_enqueue, depth_at_dequeue, start, sent },
        ))
    }

    fn take_control(&mut self, now: Time, id: PortId) -> Option<Head> {
        let port = &mut self.ports[id.index()];
        let index = port.control.pop(&self.slots)?;
        let slot = self.slots.get(index)?;
        let earliest = slot.enqueued_at.max(port.link.ceil()).max(now - port.config.max_catch_up);
        let leaving = Leaving {
            queue: CONTROL_QUEUE,
            bytes: slot.bytes(),
            charged: 0,
            memory: slot.memory(self.config.cell_bytes),
            ingress: id,
            group: 0,
            start: earliest.min(now),
        };
        let enqueued_at = slot.enqueued_at;
        port.pending = Some(leaving);
        let immediate = Departure::immediate(CONTROL_QUEUE, leaving.start);
        Some((index, Departure { enqueued_at, ..immediate }))
    }

    /// Sends the departing packet of this port, with its length after egress processing.
    ///
    /// `None` if nothing was begun on this port, or the port went down meanwhile.
    #[inline]
    pub fn commit(&mut self, now: Time, id: PortId, frame_bytes: u32) -> Option<Transmission> {
        let port = self.ports.get_mut(id.index())?;
        let Leaving { queue: number, bytes, start, .. } = *port.pending.as_ref()?;
        let wire_bytes = port.config.wire.wire_bytes(frame_bytes);
        match port.queues.get_mut(usize::from(number)) {
            Some(queue) => {
                queue.counters.departed.add(bytes);
                let emptied = queue.fifo.is_empty();
                port.scheduler.sent(number, start, wire_bytes, emptied);
            }
            None => port.control_counters.departed.add(bytes),
        }
        port.on_wire = port.pending.take();
        let Some(rate) = port.config.rate else {
            port.update_passes();
            self.release_wire(id, now);
            self.arm_sending(now, id);
            return Some(Transmission { start: now, end: now });
        };
        port.link.not_before(start);
        port.link.advance(wire_bytes, rate);
        let end = port.link.ceil();
        if end <= now {
            self.release_wire(id, end);
            self.arm_sending(now, id);
        } else {
            self.wires.push(end, id.0);
        }
        Some(Transmission { start, end })
    }

    /// Gives up the departing packet of this port: egress processing dropped it. The link time is free again.
    ///
    /// False if nothing was begun on this port.
    pub fn abort(&mut self, now: Time, id: PortId) -> bool {
        let Some(port) = self.ports.get_mut(id.index()) else { return false };
        let Some(leaving) = port.pending.take() else { return false };
        port.update_passes();
        self.drop_leaving(now, id, &leaving, DropReason::EgressProcessing);
        self.arm_sending(now, id);
        true
    }

    /// Counts and releases a packet that left its queue and is not sent.
    pub(crate) fn drop_leaving(
        &mut self,
        now: Time,
        id: PortId,
        leaving: &Leaving,
        reason: DropReason,
    ) {
        let port = &mut self.ports[id.index()];
        port.count_drop(reason, leaving.bytes);
        match port.queues.get_mut(usize::from(leaving.queue)) {
            Some(queue) => {
                queue.counters.dropped.add(leaving.bytes);
                if queue.fifo.is_empty() {
                    port.scheduler.emptied(leaving.queue);
                }
            }
            None => port.control_counters.dropped.add(leaving.bytes),
        }
        self.release_leaving(now, id, leaving);
    }

    /// Releases the memory of the frame on the wire, whose last bit left at `at`.
    #[inline]
    pub(crate) fn release_wire(&mut self, id: PortId, at: Time) {
        if let Some(leaving) = self.ports[id.index()].on_wire.take() {
            self.release_leaving(at, id, &leaving);
        }
    }

    /// Releases the memory of a packet in both views.
    #[inline]
    pub(crate) fn release_leaving(&mut self, at: Time, id: PortId, leaving: &Leaving) {
        let queue = self.ports[id.index()].queues.get_mut(usize::from(leaving.queue));
        if let Some(queue) = queue
            && let Some(pool) = self.pools.get_mut(usize::from(queue.account.config.pool.0))
        {
            queue.account.release(pool, u64::from(leaving.charged));
        }
        self.release_memory(at, leaving.memory, leaving.ingress, leaving.group, leaving.bytes);
    }

    /// Drops all packets of a queue.
    pub(crate) fn flush_queue(
        &mut self,
        now: Time,
        id: PortId,
        number: u8,
        reason: DropReason,
    ) -> u64 {
        let mut flushed = 0;
        loop {
            let port = &mut self.ports[id.index()];
            let fifo = match port.queues.get_mut(usize::from(number)) {
                Some(queue) => &mut queue.fifo,
                None => &mut port.control,
            };
            let Some(index) = fifo.pop(&self.slots) else { break };
            let Some(slot) = self.slots.get(index) else { break };
            let leaving = Leaving {
                queue: number,
                bytes: slot.bytes(),
                charged: slot.charged(self.config.cell_bytes),
                memory: slot.memory(self.config.cell_bytes),
                ingress: slot.arrival().ingress,
                group: slot.arrival().group,
                start: now,
            };
            let Some(packet) = self.slots.give_back(index) else { break };
            self.drop_leaving(now, id, &leaving, reason);
            self.events.push_back(Event::Drop { packet, reason, port: id, queue: number });
            flushed += 1;
        }
        let port = &mut self.ports[id.index()];
        if usize::from(number) < CLASSES {
            port.backlog &= !(1 << number);
        }
        port.update_passes();
        flushed
    }

    /// Notes that the port may send, or when, after a change.
    #[inline]
    pub(crate) fn arm_sending(&mut self, now: Time, id: PortId) {
        let port = &self.ports[id.index()];
        if !port.has_work() {
            return;
        }
        let free_at = port.link.ceil();
        if port.config.rate.is_none() || free_at <= now {
            self.ready.insert(id.index());
        } else if port.on_wire.is_none() {
            self.wake(id, Deadline::at(free_at));
        }
        // Otherwise the port becomes ready at the end of the frame on the wire.
    }

    #[inline]
    fn wake(&mut self, id: PortId, at: Deadline) {
        let port = &mut self.ports[id.index()];
        if port.wake_at != at {
            port.wake_at = at;
            self.arm(id);
        }
    }

    /// Notes the next timer of the port, after a pause, refresh or watchdog timer changed.
    pub(crate) fn arm_timer(&mut self, id: PortId) {
        let port = &mut self.ports[id.index()];
        port.other_timer = port.next_other_timer();
        self.arm(id);
    }

    /// Like [`Tm::arm_timer`], after only the wake-up changed.
    #[inline]
    pub(crate) fn arm(&mut self, id: PortId) {
        self.deadlines.set(id.index(), self.ports[id.index()].next_timer());
    }
}
