//! What happens next: one instant for each source of events, and the earliest of all.
//!
//! A tournament tree over the sources. Of equal instants the source with the lowest number wins, so the order of events
//! is total: (time, source), and a source is its class and its place in the topology. Setting and finding cost a
//! logarithm of the number of sources; nothing is allocated.

use wireyard_tables::time::Time;

/// The next instant of every source.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// `tree[1]` is the earliest of all; the leaves begin at `leaves`.
    tree: Vec<Time>,
    leaves: usize,
}

impl Agenda {
    /// So many sources, none of which has anything to do.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.max(1).next_power_of_two();
        Agenda { tree: vec![Time::MAX; 2 * leaves], leaves }
    }

    /// When a source has something to do.
    pub fn at(&self, source: usize) -> Time {
        self.tree[self.leaves + source]
    }

    /// Sets it.
    pub fn set(&mut self, source: usize, at: Time) {
        let mut node = self.leaves + source;
        self.tree[node] = at;
        while node > 1 {
            node /= 2;
            let earliest = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == earliest {
                return;
            }
            self.tree[node] = earliest;
        }
    }

    /// Brings it forward: an earlier instant stays.
    pub fn not_after(&mut self, source: usize, at: Time) {
        if at < self.at(source) {
            self.set(source, at);
        }
    }

    /// The earliest instant and its source, the lowest of equals; `None` when nobody has anything to do.
    pub fn first(&self) -> Option<(Time, usize)> {
        let earliest = self.tree[1];
        if earliest == Time::MAX {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node = if self.tree[2 * node] == earliest { 2 * node } else { 2 * node + 1 };
        }
        Some((earliest, node - self.leaves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::random::Stream;

    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let mut agenda = Agenda::new(37);
        let mut plain = vec![Time::MAX; 37];
        let mut stream = Stream::new(1, 1);
        assert_eq!(agenda.first(), None);
        for _ in 0..10_000 {
            let source = stream.next_u32() as usize % 37;
            let at = match stream.next_u32() % 4 {
                0 => Time::MAX,
                _ => Time::from_ps(u64::from(stream.next_u32() % 50)),
            };
            agenda.set(source, at);
            plain[source] = at;
            let first = plain.iter().enumerate().map(|(n, at)| (*at, n)).min();
            assert_eq!(agenda.first(), first.filter(|(at, _)| *at != Time::MAX));
        }
    }
}
