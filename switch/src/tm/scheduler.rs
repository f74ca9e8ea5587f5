//! Which queue of a port sends next: guaranteed rates, strict priority, DWRR, each with a maximum rate.
//!
//! Order of service, as in SONiC and SAI: queues below their guaranteed (minimum) rate, highest queue number first;
//! then strict queues, highest number first; then DWRR among the rest. A queue above its maximum rate waits; all queues
//! wait while the port's own shaper does not conform.
//!
//! DWRR counts bytes on the wire (Shreedhar and Varghese, 1995) and charges after egress processing, because only then
//! the length is known: a queue may send while its deficit is positive and is charged the frame's bytes on the wire.
//! The quantum is `weight` bytes, which gives the finest possible shares; the rounds in which no queue could send are
//! skipped with one division. Bytes per weight of any two backlogged queues differ by at most one frame of the lighter,
//! at every instant, where none has a guaranteed rate. One that has gets the larger of that rate and its share: what it sends
//! beyond the rate costs it nothing of the guarantee, and what it is guaranteed beyond its share is no debt.

use wireyard_tables::time::{Deadline, Time};

use crate::units::BitsPerSec;

use super::id::CLASSES;
use super::link::Shaper;

/// How a queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before all DWRR queues and before strict queues of lower number.
    Strict,
    /// A share of the rate that strict queues leave, in proportion to the weight (0 counts as 1).
    Dwrr {
        /// Weight, relative to the other DWRR queues of the port.
        weight: u16,
    },
}

/// A rate with its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Bytes on the wire per second, as a bit rate.
    pub rate: BitsPerSec,
    /// Bucket size in bytes; one frame more may leave at once.
    pub burst_bytes: u64,
}

/// The scheduling of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Strict or DWRR.
    pub service: Service,
    /// Guaranteed rate (SONiC `cir`).
    pub min: Option<ShaperConfig>,
    /// Maximum rate (SONiC `pir`).
    pub max: Option<ShaperConfig>,
}

impl Default for ServiceConfig {
    fn default() -> ServiceConfig {
        ServiceConfig { service: Service::Dwrr { weight: 1 }, min: None, max: None }
    }
}

/// The choice of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// This queue may send; its shapers have allowed it since the given instant.
    Queue(u8, Time),
    /// No queue before this instant, unless the state changes.
    Later(Deadline),
}

/// The scheduler of one port.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    strict: u8,
    weight: [i64; CLASSES],
    deficit: [i64; CLASSES],
    cursor: u8,
    min: [Option<Shaper>; CLASSES],
    /// Bytes that may leave at once by guarantee.
    min_burst: [i64; CLASSES],
    max: [Option<Shaper>; CLASSES],
    port_max: Option<Shaper>,
    has_min: u8,
    has_max: u8,
    /// The queue chosen last was below its guaranteed rate.
    by_guarantee: bool,
}

/// The mask of the numbers, 0 to 7, for which this holds.
pub(crate) fn mask(is_in: impl Fn(usize) -> bool) -> u8 {
    (0..CLASSES).fold(0, |mask, number| mask | u8::from(is_in(number)) << number)
}

/// The queue numbers of a mask, lowest first.
pub(crate) fn bits(mut mask: u8) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        (mask != 0).then(|| {
            mask &= mask - 1;
            bit as u8
        })
    })
}

impl Scheduler {
    pub(crate) fn new(
        queues: [ServiceConfig; CLASSES],
        port_max: Option<ShaperConfig>,
    ) -> Scheduler {
        let shaper = |config: ShaperConfig| Shaper::new(config.rate, config.burst_bytes);
        let min = queues.map(|queue| queue.min.map(shaper));
        let burst_of = |min: ShaperConfig| i64::try_from(min.burst_bytes).unwrap_or(i64::MAX / 8);
        let min_burst = queues.map(|queue| queue.min.map_or(0, burst_of));
        let max = queues.map(|queue| queue.max.map(shaper));
        let strict = mask(|q| queues[q].service == Service::Strict);
        let weight = queues.map(|queue| match queue.service {
            Service::Dwrr { weight } => i64::from(weight.max(1)),
            Service::Strict => 1,
        });
        Scheduler {
            strict,
            weight,
            deficit: [0; CLASSES],
            cursor: 0,
            has_min: mask(|q| min[q].is_some()),
            has_max: mask(|q| max[q].is_some()),
            min,
            min_burst,
            max,
            port_max: port_max.map(shaper),
            by_guarantee: false,
        }
    }

    /// True if some rate of this port is shaped, so that packets cannot pass through without scheduling.
    #[inline]
    pub(crate) fn shapes(&self) -> bool {
        self.has_max != 0 || self.port_max.is_some()
    }

    /// True if bytes of this queue are metered.
    #[inline]
    pub(crate) fn is_metered(&self, queue: u8) -> bool {
        (self.has_min | self.has_max) & 1 << (queue % CLASSES as u8) != 0 || self.port_max.is_some()
    }

    /// Chooses among the `eligible` queues (backlogged and not paused).
    #[inline]
    pub(crate) fn pick(&mut self, now: Time, eligible: u8) -> Pick {
        if eligible == 0 {
            return Pick::Later(Deadline::NEVER);
        }
        if !self.shapes() {
            return Pick::Queue(self.choose(now, eligible), Time::ZERO);
        }
        let port_at = self.port_max.as_ref().map_or(Time::ZERO, Shaper::conforms_at);
        if port_at > now {
            return Pick::Later(Deadline::at(port_at));
        }
        let mut ready = eligible;
        let mut first = Deadline::NEVER;
        for q in bits(eligible & self.has_max) {
            let at = self.max[usize::from(q)].as_ref().map_or(Time::ZERO, Shaper::conforms_at);
            if at > now {
                ready &= !(1 << q);
                first = first.min(Deadline::at(at));
            }
        }
        if ready == 0 {
            return Pick::Later(first);
        }
        let q = self.choose(now, ready);
        if self.has_max & 1 << q == 0 {
            return Pick::Queue(q, port_at);
        }
        let queue_at = self.max[usize::from(q)].as_ref().map_or(Time::ZERO, Shaper::conforms_at);
        Pick::Queue(q, port_at.max(queue_at))
    }

    /// Chooses from a mask that is not empty.
    #[inline]
    fn choose(&mut self, now: Time, ready: u8) -> u8 {
        if self.has_min != 0 {
            let guaranteed = self.guaranteed(now, ready);
            self.by_guarantee = guaranteed != 0;
            if self.by_guarantee {
                return highest(guaranteed);
            }
        }
        if ready & self.strict != 0 {
            return highest(ready & self.strict);
        }
        if ready & (ready - 1) == 0 {
            // The only queue is the next in turn after some number of rounds, which need not be counted.
            let q = highest(ready);
            let deficit = &mut self.deficit[usize::from(q) % CLASSES];
            *deficit = (*deficit).max(1);
            self.cursor = q;
            return q;
        }
        if let Some(q) = self.next_in_turn(ready) {
            return q;
        }
        let rounds = bits(ready)
            .map(|q| {
                let q = usize::from(q);
                (self.weight[q] - self.deficit[q]) / self.weight[q]
            })
            .min()
            .unwrap_or(1);
        for q in bits(ready) {
            let q = usize::from(q);
            self.deficit[q] += rounds * self.weight[q];
        }
        self.next_in_turn(ready).unwrap_or_else(|| highest(ready))
    }

    /// The queues of a mask that are below their guaranteed rate.
    fn guaranteed(&self, now: Time, ready: u8) -> u8 {
        let is_below =
            |q: &u8| self.min[usize::from(*q)].as_ref().is_some_and(|min| min.conforms_at() <= now);
        bits(ready & self.has_min).filter(is_below).fold(0, |mask, q| mask | 1 << q)
    }

    /// The first queue at or after the cursor, in circular order, with a positive deficit.
    #[inline]
    fn next_in_turn(&mut self, ready: u8) -> Option<u8> {
        let turned = ready.rotate_right(u32::from(self.cursor));
        for offset in bits(turned) {
            let q = (self.cursor + offset) % CLASSES as u8;
            if self.deficit[usize::from(q)] > 0 {
                self.cursor = q;
                return Some(q);
            }
        }
        None
    }

    /// A queue that empties, whether its last packet is sent or dropped, loses unused credit, as in DRR (Shreedhar and
    /// Varghese, SIGCOMM 1995, section 3); a negative deficit remains.
    #[inline]
    pub(crate) fn emptied(&mut self, queue: u8) {
        let deficit = &mut self.deficit[usize::from(queue) % CLASSES];
        *deficit = (*deficit).min(0);
    }

    /// Charges a frame of the queue chosen last, of `wire_bytes`, that started at `start`; `emptied` if its queue is now empty.
    #[inline]
    pub(crate) fn sent(&mut self, queue: u8, start: Time, wire_bytes: u64, emptied: bool) {
        let q = usize::from(queue) % CLASSES;
        let bit = 1u8 << q;
        if self.is_metered(queue) {
            let min = self.min[q].as_mut().filter(|_| self.by_guarantee);
            let shapers = [min, self.max[q].as_mut(), self.port_max.as_mut()];
            shapers.into_iter().flatten().for_each(|shaper| shaper.charge(start, wire_bytes));
        }
        if self.strict & bit == 0 {
            let bytes = i64::try_from(wire_bytes).unwrap_or(i64::MAX / 8);
            let before = self.deficit[q];
            self.deficit[q] -= bytes;
            if self.by_guarantee {
                // It comes too early by a burst, two frames and a round at most.
                let early_max = self.min_burst[q] + 2 * bytes + self.weight[q];
                self.deficit[q] = self.deficit[q].max(before.min(-early_max));
            }
            if emptied {
                self.emptied(queue);
            }
            if self.deficit[q] <= 0 {
                self.cursor = (queue + 1) % CLASSES as u8;
            }
        }
    }
}

/// The highest set bit of a mask that is not empty; 0 otherwise.
fn highest(mask: u8) -> u8 {
    7u8.saturating_sub(mask.leading_zeros() as u8)
}

#[cfg(test)]
mod tests;
