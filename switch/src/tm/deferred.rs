//! Deferred accounting of uncontended frames: the link's time at once, counters and charges later.
//!
//! Where nothing else is inside, a frame that departs at once finds what the one before it found: empty accounts, an idle link, no
//! pause. What it is charged is released before it is read, so only the link's time is kept frame by frame; counters, peaks
//! and charges of several frames are accounted together before anything else happens or is read ([`Tm::flush`]), as if each had been
//! accounted by itself. A frame is eligible only after one at least as long took the full path, so nothing is decided here. This is a
//! strategy of [`Tm::offer`] that no caller sees; `tests/cut_through.rs` compares it with packets that are queued.

use wireyard_tables::time::Time;

use super::id::{CLASSES, Count, PortId};
use super::port::Leaving;
use super::queue::{Arrival, Memory};
use super::{Charge, Departure, Release, Tm, Transmission};

/// From where to where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Route {
    ingress: PortId,
    egress: PortId,
    group: u8,
    queue: u8,
}

impl Route {
    #[inline]
    fn of(arrival: &Arrival) -> Route {
        let Arrival { ingress, egress, group, queue, .. } = *arrival;
        Route { ingress, egress, group, queue }
    }
}

/// A frame that departed.
#[derive(Clone, Copy, Debug)]
struct Frame {
    bytes: u32,
    start: Time,
    end: Time,
}

/// What departed and is not accounted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferred {
    route: Route,
    /// The longest frame that is known to depart at once on this route; 0: none.
    eligible_bytes: u32,
    /// The last one; the others had left when it came.
    last: Option<Frame>,
    others: Count,
    longest_other: u32,
}

impl Deferred {
    /// What was known is not true any more.
    pub(crate) fn invalidate(&mut self) {
        self.eligible_bytes = 0;
    }

    #[inline]
    fn follow(&mut self, next: Frame) {
        if let Some(last) = self.last.replace(next) {
            self.others.add(last.bytes);
            self.longest_other = self.longest_other.max(last.bytes);
        }
    }
}

impl<P: Default> Tm<P> {
    /// Sends a packet that finds nothing inside and is not longer than one that took the full path here. `None`: nothing has changed.
    #[inline]
    pub(super) fn send_uncontended(&mut self, now: Time, arrival: &Arrival) -> Option<Departure> {
        let (deferred, terms) = (&self.deferred, &arrival.terms);
        if arrival.bytes > deferred.eligible_bytes
            || Route::of(arrival) != deferred.route
            || !(terms.last && terms.unchanged)
            || terms.charge != Charge::Own
            || terms.release != Release::Immediate
        {
            return None;
        }
        let is_free = match &deferred.last {
            // Whatever else had happened would have been accounted.
            Some(last) => last.end <= now,
            None => self.is_empty() && self.is_idle_for(arrival, now),
        };
        if !is_free {
            return None;
        }
        let port = self.ports.get_mut(arrival.egress.index())?;
        let rate = port.config.rate?;
        port.link.not_before(now);
        port.link.advance(port.config.wire.wire_bytes(arrival.bytes), rate);
        let end = port.link.ceil();
        self.deferred.follow(Frame { bytes: arrival.bytes, start: now, end });
        let sent = Some(Transmission { start: now, end });
        Some(Departure { sent, ..Departure::immediate(arrival.queue, now) })
    }

    /// Nothing is queued, held, ready or on a wire, and no peer is stopped.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.used() == 0
            && self.wires.first().is_never()
            && self.ready.is_empty()
            && !self.stops
    }

    /// The egress port is idle, and no watchdog discards what comes by the ingress port.
    #[inline]
    fn is_idle_for(&self, arrival: &Arrival, now: Time) -> bool {
        let port = |id: PortId| self.ports.get(id.index());
        port(arrival.egress).is_some_and(|port| port.is_idle(now, arrival.queue))
            && port(arrival.ingress).is_some_and(|port| port.storm_drop_groups == 0)
    }

    /// A packet cut through and found nothing inside: the next one on its route finds the same, if all that it meets is the same each
    /// time.
    #[inline]
    pub(super) fn mark_eligible(&mut self, arrival: &Arrival) {
        let number = usize::from(arrival.queue) % CLASSES;
        let port = &self.ports[arrival.egress.index()];
        let is_steady = !self.stops
            && port.queues[number].wred.is_none()
            && !port.scheduler.is_metered(arrival.queue);
        let known = &mut self.deferred;
        let route = Route::of(arrival);
        known.eligible_bytes = match (is_steady, route == known.route) {
            (false, _) => 0,
            (true, true) => known.eligible_bytes.max(arrival.bytes),
            (true, false) => arrival.bytes,
        };
        known.route = route;
    }

    /// Accounts what departed, before anything else happens or is read. What is on the wire at `now` stays charged until it has left.
    #[inline]
    pub(super) fn flush(&mut self, now: Time) {
        if self.deferred.last.is_some() {
            self.flush_all(now);
        }
    }

    #[inline(never)]
    fn flush_all(&mut self, now: Time) {
        let Some(last) = self.deferred.last.take() else { return };
        let others = std::mem::take(&mut self.deferred.others);
        let longest = std::mem::take(&mut self.deferred.longest_other);
        if others.packets > 0 {
            // One of them stands for all: they came one after the other, and peaks are those of the longest.
            self.account(Frame { bytes: longest, end: last.start, ..last }, now);
            let rest =
                Count { packets: others.packets - 1, bytes: others.bytes - u64::from(longest) };
            self.count_rest(rest);
        }
        self.account(last, now);
    }

    /// Counters of frames whose charges have come and gone.
    fn count_rest(&mut self, frames: Count) {
        let Route { ingress, egress, group, queue } = self.deferred.route;
        let group = &mut self.ports[ingress.index()].groups[usize::from(group) % CLASSES];
        group.counters.admitted += frames;
        group.counters.released += frames;
        let queue = &mut self.ports[egress.index()].queues[usize::from(queue) % CLASSES];
        queue.counters.admitted += frames;
        queue.counters.departed += frames;
    }

    /// One frame, as [`Tm::offer`], [`Tm::commit`] and the end of the frame account it.
    fn account(&mut self, frame: Frame, now: Time) {
        let Route { ingress, egress, group, queue: number } = self.deferred.route;
        let Frame { bytes, start, end } = frame;
        let charged = self.charge_of(bytes);
        let admitted = self.charge_group(start, ingress, group, charged, bytes);
        debug_assert_eq!(admitted, Ok(()), "one as long was admitted");
        self.charge_queue(egress, number, charged, bytes);
        let port = &mut self.ports[egress.index()];
        port.scheduler.pick(start, 1 << number);
        port.scheduler.sent(number, start, port.config.wire.wire_bytes(bytes), true);
        port.queues[usize::from(number) % CLASSES].counters.departed.add(bytes);
        let memory = Memory::Own { charged };
        let leaving = Leaving { queue: number, bytes, charged, memory, ingress, group, start };
        if end <= now {
            self.release_leaving(end, egress, &leaving);
        } else {
            self.ports[egress.index()].on_wire = Some(leaving);
            self.wires.push(end, egress.0);
        }
    }
}
