//! Past a queue that is empty: [`Tm::enqueue`] and [`Tm::begin`] in one step.
//!
//! A packet for a queue of an idle port where nothing waits leaves it at the instant at which it enters. Checks, charges,
//! decisions, draws and counters are the same, in the same order; what is left out is the slot that it would wait in and the search for
//! who sends next. `tests/pass.rs` holds the two against each other.

use wireyard_tables::time::Time;

use super::id::{CLASSES, DropReason, PortId};
use super::port::{Leaving, Port};
use super::queue::{Arrival, Memory};
use super::scheduler::Pick;
use super::wred::DecideAt;
use super::{Departure, Tm};

impl<P> Departure<P> {
    /// Of a packet that did not wait.
    pub fn at_once(packet: P, queue: u8, mark: bool, now: Time) -> Departure<P> {
        Departure {
            packet,
            queue,
            mark,
            enqueued_at: now,
            depth_at_enqueue: 0,
            depth_at_dequeue: 0,
            start: now,
        }
    }
}

impl<P: Default> Tm<P> {
    /// Takes a packet through a queue that nothing is in, where no other port is ready either. `None`: it has to
    /// wait, or its way is not plain; nothing has changed, and [`Tm::enqueue`] takes it. Otherwise whether it is marked: the packet
    /// stays with the caller, and [`Tm::commit`] or [`Tm::abort`] follows as after [`Tm::begin`].
    ///
    /// # Errors
    /// Why it is refused, counted as by [`Tm::enqueue`].
    #[inline]
    pub fn pass_queue(&mut self, now: Time, arrival: &Arrival) -> Option<Result<bool, DropReason>> {
        self.book(now);
        let was_empty = self.is_empty();
        let number = arrival.queue;
        let port = self.ports.get(arrival.egress.index())?;
        let is_other = arrival.ingress != arrival.egress;
        if !is_other || !stands_idle(port, now, number) || self.slots.is_full() {
            return None;
        }
        let charged = self.charge_of(arrival.bytes);
        let (ingress, group, bytes) = (arrival.ingress, arrival.group, arrival.bytes);
        let admitted = match self.check_egress(arrival, charged) {
            Ok(marked) => self.charge_group(now, ingress, group, charged, bytes).map(|()| marked),
            refused => refused,
        };
        let marked = match admitted {
            Ok(marked) => marked,
            Err(reason) => {
                self.count_refusal(arrival, reason);
                return Some(Err(reason));
            }
        };
        self.charge_queue(arrival.egress, number, charged, bytes);
        if was_empty {
            self.remember(arrival);
        }
        let port = &mut self.ports[arrival.egress.index()];
        let queue = &mut port.queues[usize::from(number) % CLASSES];
        if let Some(wred) = &mut queue.wred
            && wred.config.decide_at == DecideAt::Dequeue
        {
            // At depth 0 nothing is chosen, but the draw is made.
            wred.decide(0, arrival.color, arrival.ect);
        }
        let pick = port.scheduler.pick(now, 1 << number);
        debug_assert!(matches!(pick, Pick::Queue(queue, _) if queue == number), "{pick:?}");
        let memory = Memory::Own { charged };
        port.pending =
            Some(Leaving { queue: number, bytes, charged, memory, ingress, group, start: now });
        Some(Ok(marked))
    }

    /// Charges an empty queue with a packet that does not wait.
    #[inline]
    pub(super) fn charge_queue(&mut self, egress: PortId, number: u8, charged: u32, bytes: u32) {
        let queue = &mut self.ports[egress.index()].queues[usize::from(number) % CLASSES];
        if let Some(pool) = self.pools.get_mut(usize::from(queue.account.config.pool.0)) {
            queue.account.charge(pool, u64::from(charged));
        }
        queue.peak_bytes = queue.peak_bytes.max(u64::from(bytes));
        queue.counters.admitted.add(bytes);
    }
}

/// Nothing waits for this port, nothing is on its wire, and nothing keeps a packet of this queue.
#[inline]
pub(super) fn stands_idle(port: &Port, now: Time, queue: u8) -> bool {
    let stopped = port.paused & !port.ignore_pause | port.storm_drop;
    usize::from(queue) < CLASSES
        && port.present
        && !port.blocked
        && port.config.rate.is_some()
        && port.backlog == 0
        && port.control.is_empty()
        && port.pending.is_none()
        && port.on_wire.is_none()
        && port.link.ceil() <= now
        && port.wake_at == Time::MAX
        && stopped & 1 << queue == 0
        && !port.scheduler.shapes()
}
