//! The next event: one instant for each source of events, and the earliest of all.
//!
//! A tournament tree of sources. Of equal instants the source with the lowest number wins, so the order of events is
//! total: (time, source), and a source is its class and its place in the topology. Reading the first costs O(1),
//! setting an instant the logarithm of the number of sources; nothing is allocated.

use wireyard_tables::time::{Deadline, Time};

/// The next instant of every source.
#[derive(Clone, Debug)]
pub struct EventQueue {
    /// By source; after the last one, up to a power of two, [`Deadline::NEVER`].
    times: Vec<Deadline>,
    /// `winners[1]` is the first of all; the sources themselves begin at `times.len()`.
    winners: Vec<u32>,
}

impl EventQueue {
    /// A queue of `sources` sources, all without events.
    pub fn new(sources: usize) -> EventQueue {
        let leaves = sources.max(1).next_power_of_two();
        let mut winners: Vec<u32> = (0..2 * leaves as u32).collect();
        for node in (1..2 * leaves).rev() {
            winners[node] = match node < leaves {
                true => winners[2 * node],
                false => (node - leaves) as u32,
            };
        }
        EventQueue { times: vec![Deadline::NEVER; leaves], winners }
    }

    /// The next event of a source.
    #[inline]
    pub fn at(&self, source: usize) -> Deadline {
        self.times[source]
    }

    /// Sets it.
    #[inline]
    pub fn set(&mut self, source: usize, at: Deadline) {
        if self.times[source] == at {
            return;
        }
        self.times[source] = at;
        let (mut first, mut winner) = (at, source as u32);
        let mut node = self.times.len() + source;
        // The winner is unpredictable: no branch depends on it, and the path to the root is always the same.
        while node > 1 {
            let rival = self.winners[node ^ 1];
            let rival_at = self.times[rival as usize];
            let is_right = node & 1 == 1;
            let loses = (rival_at < first) | (rival_at == first) & is_right;
            first = if loses { rival_at } else { first };
            winner = if loses { rival } else { winner };
            node /= 2;
            self.winners[node] = winner;
        }
    }

    /// Sets an earlier instant; a later one is ignored.
    #[inline]
    pub fn not_after(&mut self, source: usize, at: Deadline) {
        if at < self.at(source) {
            self.set(source, at);
        }
    }

    /// The earliest instant and its source, the lowest of equals; `None` without any event.
    #[inline]
    pub fn first(&self) -> Option<(Time, usize)> {
        let source = self.winners[1] as usize;
        Some((self.times[source].instant()?, source))
    }

    /// The earliest instant of all sources except one.
    #[inline]
    pub fn first_but(&self, source: usize) -> Deadline {
        let mut node = self.times.len() + source;
        let mut first = Deadline::NEVER;
        while node > 1 {
            // The sources that this one was not compared with below.
            let rival = self.winners[node ^ 1];
            first = first.min(self.times[rival as usize]);
            node /= 2;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::random::Stream;

    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let mut event_queue = EventQueue::new(37);
        let mut plain = vec![Deadline::NEVER; 37];
        let mut stream = Stream::new(1, 1);
        assert_eq!(event_queue.first(), None);
        for _ in 0..10_000 {
            let source = stream.next_u32() as usize % 37;
            let at = match stream.next_u32() % 4 {
                0 => Deadline::NEVER,
                _ => Deadline::at(Time::from_ps(u64::from(stream.next_u32() % 50))),
            };
            event_queue.set(source, at);
            plain[source] = at;
            let first = plain.iter().enumerate().map(|(n, at)| (*at, n)).min().unwrap();
            assert_eq!(event_queue.first(), first.0.instant().map(|at| (at, first.1)));
            let but = stream.next_u32() as usize % 37;
            let others = plain.iter().enumerate().filter(|(n, _)| *n != but).map(|(_, at)| *at);
            assert_eq!(event_queue.first_but(but), others.min().unwrap());
        }
    }
}
