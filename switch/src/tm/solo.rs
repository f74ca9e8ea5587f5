//! Frames that are alone in the traffic manager: the link's time at once, the books later.
//!
//! Where nothing else is inside, a frame that passes finds what the one before it found: empty accounts, an idle link, nobody
//! paused. What it is charged is given back before anybody looks, so only the link's time is kept frame by frame; counters, peaks
//! and charges are booked together when something else happens, as if each frame had been booked by itself. A frame goes this way
//! only after one as long has gone the whole way, so nothing is decided here. `tests/pass.rs` holds it against
//! [`Tm::enqueue`] and [`Tm::begin`].

use wireyard_tables::time::Time;

use super::id::{CLASSES, Count, PortId};
use super::pass::stands_idle;
use super::port::Leaving;
use super::queue::{Arrival, Memory};
use super::{Tm, Transmission};

/// From where to where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    ingress: PortId,
    egress: PortId,
    group: u8,
    queue: u8,
}

impl Way {
    #[inline]
    fn of(arrival: &Arrival) -> Way {
        let Arrival { ingress, egress, group, queue, .. } = *arrival;
        Way { ingress, egress, group, queue }
    }
}

/// A frame that passed.
#[derive(Clone, Copy, Debug)]
struct Passed {
    bytes: u32,
    start: Time,
    end: Time,
}

/// What passed alone and is not booked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Solo {
    way: Way,
    /// The longest frame that is known to pass this way; 0: none.
    known_bytes: u32,
    /// The last one; the others had left when it came.
    last: Option<Passed>,
    others: Count,
    longest_other: u32,
}

impl Solo {
    /// What was known is not true any more.
    pub(crate) fn forget(&mut self) {
        self.known_bytes = 0;
    }

    #[inline]
    fn follow(&mut self, next: Passed) {
        if let Some(last) = self.last.replace(next) {
            self.others.add(last.bytes);
            self.longest_other = self.longest_other.max(last.bytes);
        }
    }
}

impl<P: Default> Tm<P> {
    /// Sends a packet that egress processing leaves as it is past everything, if one as long just went this way and
    /// nothing is inside. `None`: nothing has changed, and [`Tm::pass_queue`] may take it.
    #[inline]
    pub fn pass_alone(&mut self, now: Time, arrival: &Arrival) -> Option<Transmission> {
        let solo = &self.solo;
        if arrival.bytes > solo.known_bytes || Way::of(arrival) != solo.way {
            return None;
        }
        let is_free = match &solo.last {
            // Whatever else had happened would have been booked.
            Some(last) => last.end <= now,
            None => self.is_empty() && self.stands_idle_for(arrival, now),
        };
        if !is_free {
            return None;
        }
        let port = self.ports.get_mut(arrival.egress.index())?;
        let rate = port.config.rate?;
        port.link.not_before(now);
        port.link.advance(port.config.wire.wire_bytes(arrival.bytes), rate);
        let end = port.link.ceil();
        self.solo.follow(Passed { bytes: arrival.bytes, start: now, end });
        Some(Transmission { start: now, end })
    }

    /// Nothing is queued, held, ready or on a wire, and no peer is stopped.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.used() == 0
            && self.wires.first() == Time::MAX
            && self.ready.is_empty()
            && !self.stops
    }

    /// The egress port is idle, and no watchdog discards what comes by the ingress port.
    #[inline]
    fn stands_idle_for(&self, arrival: &Arrival, now: Time) -> bool {
        let port = |id: PortId| self.ports.get(id.index());
        port(arrival.egress).is_some_and(|port| stands_idle(port, now, arrival.queue))
            && port(arrival.ingress).is_some_and(|port| port.storm_drop_groups == 0)
    }

    /// A packet has passed, and found nothing inside: the next one will find the same, if all that it meets is the same each time.
    #[inline]
    pub(super) fn remember(&mut self, arrival: &Arrival) {
        let number = usize::from(arrival.queue) % CLASSES;
        let port = &self.ports[arrival.egress.index()];
        let is_steady = !self.stops
            && port.queues[number].wred.is_none()
            && !port.scheduler.is_metered(arrival.queue);
        let known = &mut self.solo;
        let way = Way::of(arrival);
        known.known_bytes = match (is_steady, way == known.way) {
            (false, _) => 0,
            (true, true) => known.known_bytes.max(arrival.bytes),
            (true, false) => arrival.bytes,
        };
        known.way = way;
    }

    /// Books what passed alone, before anything else happens or is looked at. What is on the wire at `now` stays charged until it
    /// has left.
    #[inline]
    pub fn book(&mut self, now: Time) {
        if self.solo.last.is_some() {
            self.book_all(now);
        }
    }

    /// The same for a caller who does not say when: at the time of the last [`Tm::advance`].
    pub(super) fn book_by_now(&mut self) {
        self.book(self.now);
    }

    #[inline(never)]
    fn book_all(&mut self, now: Time) {
        let Some(last) = self.solo.last.take() else { return };
        let others = std::mem::take(&mut self.solo.others);
        let longest = std::mem::take(&mut self.solo.longest_other);
        if others.packets > 0 {
            // One of them stands for all: they came one after the other, and peaks are the longest one's.
            self.book_frame(Passed { bytes: longest, end: last.start, ..last }, now);
            let rest =
                Count { packets: others.packets - 1, bytes: others.bytes - u64::from(longest) };
            self.count_passed(rest);
        }
        self.book_frame(last, now);
    }

    /// Counters of frames whose charges have come and gone.
    fn count_passed(&mut self, frames: Count) {
        let Way { ingress, egress, group, queue } = self.solo.way;
        let group = &mut self.ports[ingress.index()].groups[usize::from(group) % CLASSES];
        group.counters.admitted += frames;
        group.counters.released += frames;
        let queue = &mut self.ports[egress.index()].queues[usize::from(queue) % CLASSES];
        queue.counters.admitted += frames;
        queue.counters.departed += frames;
    }

    /// One frame, as [`Tm::pass_queue`], [`Tm::commit`] and the end of the frame book it.
    fn book_frame(&mut self, frame: Passed, now: Time) {
        let Way { ingress, egress, group, queue: number } = self.solo.way;
        let Passed { bytes, start, end } = frame;
        let charged = self.charge_of(bytes);
        let admitted = self.charge_group(start, ingress, group, charged, bytes);
        debug_assert_eq!(admitted, Ok(()), "one as long passed");
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
