//! The frames in flight of a lab, in one place: the first arrival at every port, ports of a node side by side; and the
//! ports that sent since the last scan.
//!
//! Links write it, the run reads it, so ports without a frame cost nothing. One thread runs the nodes of a partition,
//! so plain loads and stores are enough. It holds no frames: those are the links' ([`link`](super::link)).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use wireyard_tables::time::{Deadline, Time};

use crate::ports::PortNumber;

/// The index.
#[derive(Debug)]
pub struct ArrivalIndex {
    /// [`Deadline::to_bits`] of the first frame in flight to that port.
    arrivals: Vec<AtomicU64>,
    /// By node, not later than the first of its arrivals.
    firsts: Vec<AtomicU64>,
    /// By port, its node.
    nodes: Vec<u32>,
    /// Ports that sent, `sent_count` of them; each at most once, marked in `is_sent` by port.
    sent: Vec<AtomicUsize>,
    sent_count: AtomicUsize,
    is_sent: Vec<AtomicBool>,
}

impl ArrivalIndex {
    /// An index for nodes with these numbers of ports.
    pub fn new(ports: impl IntoIterator<Item = usize>) -> Arc<ArrivalIndex> {
        let nothing = || AtomicU64::new(Deadline::NEVER.to_bits());
        let (mut nodes, mut firsts) = (Vec::new(), Vec::new());
        for (node, ports) in (0..).zip(ports) {
            nodes.resize(nodes.len() + ports, node);
            firsts.push(nothing());
        }
        let arrivals = nodes.iter().map(|_| nothing()).collect();
        let sent = nodes.iter().map(|_| AtomicUsize::new(0)).collect();
        let is_sent = nodes.iter().map(|_| AtomicBool::new(false)).collect();
        let sent_count = AtomicUsize::new(0);
        Arc::new(ArrivalIndex { arrivals, firsts, nodes, sent, sent_count, is_sent })
    }

    /// When the first frame arrives at a node, or earlier.
    #[inline]
    pub fn first(&self, node: usize) -> Deadline {
        Deadline::from_bits(self.firsts[node].load(Ordering::Relaxed))
    }

    /// Sets when the first frame arrives at a node.
    #[inline]
    pub fn set_first(&self, node: usize, at: Deadline) {
        self.firsts[node].store(at.to_bits(), Ordering::Relaxed);
    }

    /// Computes the first arrival at the places of a node.
    pub fn find_first(&self, node: usize, places: Range<usize>) {
        let first = places.map(|place| self.arrival(place)).fold(Deadline::NEVER, Deadline::min);
        self.set_first(node, first);
    }

    /// When the first frame arrives at a place.
    #[inline]
    pub fn arrival(&self, place: usize) -> Deadline {
        Deadline::from_bits(self.arrivals[place].load(Ordering::Relaxed))
    }

    /// The first arrival after `now` at these places; `arrived` gets the numbers of those, from 1 on, where there is an
    /// earlier one. The branch predictor cannot foresee which, so no branch depends on it.
    #[inline]
    pub fn look(&self, places: Range<usize>, now: Time, arrived: &mut Vec<PortNumber>) -> Deadline {
        // Hosts are most of the nodes, and have one wire.
        if let [only] = &self.arrivals[places.clone()] {
            let at = Deadline::from_bits(only.load(Ordering::Relaxed));
            return if at.is_by(now) {
                arrived.push(PortNumber(1));
                Deadline::NEVER
            } else {
                at
            };
        }
        // Relative to this, a past instant is greater than never.
        let from = now.as_ps().saturating_add(1);
        let mut first = u64::MAX - from;
        let (mut number, mut rest) = (1, &self.arrivals[places]);
        while !rest.is_empty() {
            let (some, behind) = rest.split_at(rest.len().min(u64::BITS as usize));
            let mut bits: u64 = 0;
            for at in some.iter().rev() {
                let (later, is_over) = at.load(Ordering::Relaxed).overflowing_sub(from);
                bits = bits << 1 | u64::from(is_over);
                first = first.min(later);
            }
            while bits != 0 {
                arrived.push(PortNumber(number + bits.trailing_zeros() as u16));
                bits &= bits - 1;
            }
            (number, rest) = (number + u64::BITS as u16, behind);
        }
        Deadline::from_bits(first + from)
    }

    /// Sets when the first frame arrives at a place.
    #[inline]
    pub fn set_arrival(&self, place: usize, at: Deadline) {
        self.arrivals[place].store(at.to_bits(), Ordering::Relaxed);
        let first = &self.firsts[self.nodes[place] as usize];
        if at.to_bits() < first.load(Ordering::Relaxed) {
            first.store(at.to_bits(), Ordering::Relaxed);
        }
    }

    /// Notes that a port sent.
    #[inline]
    pub fn note_sent(&self, place: usize) {
        if !self.is_sent[place].load(Ordering::Relaxed) {
            self.is_sent[place].store(true, Ordering::Relaxed);
            let count = self.sent_count.load(Ordering::Relaxed);
            self.sent[count].store(place, Ordering::Relaxed);
            self.sent_count.store(count + 1, Ordering::Relaxed);
        }
    }

    /// Calls `each` with the places that sent since the last call.
    #[inline]
    pub fn take_sent(&self, mut each: impl FnMut(usize)) {
        let count = self.sent_count.load(Ordering::Relaxed);
        self.sent_count.store(0, Ordering::Relaxed);
        for place in self.sent[..count].iter().map(|place| place.load(Ordering::Relaxed)) {
            self.is_sent[place].store(false, Ordering::Relaxed);
            each(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::random::Stream;

    #[test]
    fn a_look_finds_what_arrived_and_what_comes_first() {
        let mut stream = Stream::new(3, 3);
        for ports in [1, 2, 9, 63, 64, 65, 130] {
            let arrival_index = ArrivalIndex::new([2, ports, 1]);
            for _ in 0..200 {
                let mut at = || match stream.next_u32() % 3 {
                    0 => Deadline::NEVER,
                    _ => Deadline::at(Time::from_ps(u64::from(stream.next_u32() % 100))),
                };
                let times: Vec<Deadline> = (0..ports).map(|_| at()).collect();
                times.iter().zip(2..).for_each(|(at, place)| arrival_index.set_arrival(place, *at));
                let now = Time::from_ps(u64::from(stream.next_u32() % 100));
                let mut arrived = Vec::new();
                let next = arrival_index.look(2..2 + ports, now, &mut arrived);
                let (over, later): (Vec<_>, Vec<_>) =
                    (1u16..).zip(&times).partition(|(_, at)| at.is_by(now));
                assert_eq!(
                    arrived,
                    over.iter().map(|(number, _)| PortNumber(*number)).collect::<Vec<_>>()
                );
                assert_eq!(next, later.iter().map(|(_, at)| **at).min().unwrap_or(Deadline::NEVER));
            }
        }
    }
}
