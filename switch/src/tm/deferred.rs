//! Deferred accounting of uncontended frames: link time is charged at once, counters and buffer accounts later.
//!
//! Where nothing else is inside, a frame that departs at once meets the same state as the one before it: empty
//! accounts, an idle link, no pause. Its charges are released before they are read, so only the link time is kept frame
//! by frame; counters, peaks and charges of several frames are accounted together before anything else happens or is
//! read ([`Tm::flush`]), as if each had been accounted by itself. A frame is eligible only after one at least as long
//! took the full path, so no decision is made here. Callers of [`Tm::offer`] see no difference; `tests/cut_through.rs`
//! compares it with packets that are queued.

use wireyard_tables::time::Time;

use super::id::{CLASSES, Count, PortId};
use super::port::Leaving;
use super::queue::{Arrival, Memory};
use super::{Charge, Departure, Release, Tm, Transmission};

/// Ports, group and queue of a frame.
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

/// Frames that departed and are not accounted yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferred {
    route: Route,
    /// Length of the longest frame that may depart at once on this route; 0 for none.
    eligible_bytes: u32,
    /// The last frame; the others had left when it arrived.
    last: Option<Frame>,
    others: Count,
    longest_other: u32,
}

impl Deferred {
    /// Makes no frame eligible until another has taken the full path.
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
    /// Sends a packet if nothing is inside and it is not longer than one that took the full path here. `None`: nothing
    /// has changed.
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
            // Any other event would have caused a flush.
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

    /// True if nothing is queued, held, ready or on a wire, and no peer is stopped.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.used() == 0
            && self.wires.first().is_never()
            && self.ready.is_empty()
            && !self.stops
    }

    /// True if the egress port is idle, and no watchdog discards arrivals of the ingress port.
    #[inline]
    fn is_idle_for(&self, arrival: &Arrival, now: Time) -> bool {
        let port = |id: PortId| self.ports.get(id.index());
        port(arrival.egress).is_some_and(|port| port.is_idle(now, arrival.queue))
            && port(arrival.ingress).is_some_and(|port| port.storm_drop_groups == 0)
    }

    /// Called after a packet cut through with nothing inside: the next one on its route meets the same state, if no
    /// step of its path has a state of its own.
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

    /// Accounts the frames that departed, before anything else happens or is read. A frame on the wire at `now` stays
    /// charged until it has left.
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
            // One of them stands for all: they followed each other, and the peaks are those of the longest.
            self.account(Frame { bytes: longest, end: last.start, ..last }, now);
            let rest =
                Count { packets: others.packets - 1, bytes: others.bytes - u64::from(longest) };
            self.count_rest(rest);
        }
        self.account(last, now);
    }

    /// Adds to the counters for frames whose charges have been released.
    fn count_rest(&mut self, frames: Count) {
        let Route { ingress, egress, group, queue } = self.deferred.route;
        let group = &mut self.ports[ingress.index()].groups[usize::from(group) % CLASSES];
        group.counters.admitted += frames;
        group.counters.released += frames;
        let queue = &mut self.ports[egress.index()].queues[usize::from(queue) % CLASSES];
        queue.counters.admitted += frames;
        queue.counters.departed += frames;
    }

    /// Accounts one frame as [`Tm::offer`], [`Tm::commit`] and the end of the frame do.
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
