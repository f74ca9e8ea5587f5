//! The earliest of the deadlines of all ports, and the set of ports that may send now.
//!
//! A port has two deadlines. Ports are in groups, whose earliest are kept, and so is the earliest of all: reading it is one
//! load. Moving a deadline looks through a group only when the one that was its earliest moves back. Ties go to the lower port, so
//! the order is total.

use wireyard_tables::time::Time;

/// When a port has something to do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Anything.
    pub(crate) timer: Time,
    /// Anything that can be seen outside: not the end of a frame behind which nothing waits.
    pub(crate) effect: Time,
}

impl Due {
    pub(crate) const NEVER: Due = Due { timer: Time::MAX, effect: Time::MAX };

    #[inline]
    fn min(self, other: Due) -> Due {
        Due { timer: self.timer.min(other.timer), effect: self.effect.min(other.effect) }
    }

    /// The earliest of several, one of which was `old` and is `self` now, when `known` was their earliest.
    #[inline]
    fn replaces(self, old: Due, known: Due, all: &[Due]) -> Due {
        let first = known.min(self);
        let moved_back = |old, new, known| old == known && new > known;
        if moved_back(old.timer, self.timer, known.timer)
            || moved_back(old.effect, self.effect, known.effect)
        {
            return all.iter().fold(Due::NEVER, |first, due| first.min(*due));
        }
        first
    }
}

/// Ports of a group.
const GROUP: usize = 16;

/// The deadlines of each port and which of them is first.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    ports: Vec<Due>,
    /// The earliest of each group of ports.
    groups: Vec<Due>,
    first: Due,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { ports: Vec::new(), groups: Vec::new(), first: Due::NEVER }
    }

    /// Makes room for `ports` ports, keeping the deadlines that are set.
    pub(crate) fn grow(&mut self, ports: usize) {
        let ports = ports.max(self.ports.len());
        self.ports.resize(ports, Due::NEVER);
        self.groups.resize(ports.div_ceil(GROUP), Due::NEVER);
    }

    /// The first deadlines of all, `Time::MAX` where there is none.
    #[inline]
    pub(crate) fn first(&self) -> Due {
        self.first
    }

    /// The port whose timer is first.
    pub(crate) fn first_port(&self) -> usize {
        let first = self.first.timer;
        let group = self.groups.iter().position(|due| due.timer == first).unwrap_or_default();
        let ports = self.ports.iter().skip(group * GROUP);
        group * GROUP + ports.take_while(|due| due.timer != first).count()
    }

    /// Moves the deadlines of `port`.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, due: Due) {
        let old = std::mem::replace(&mut self.ports[port], due);
        if old == due {
            return;
        }
        let group = port / GROUP;
        let start = group * GROUP;
        let known = self.groups[group];
        let ports = &self.ports[start..self.ports.len().min(start + GROUP)];
        let earliest = due.replaces(old, known, ports);
        if earliest == known {
            return;
        }
        self.groups[group] = earliest;
        self.first = match self.groups.len() {
            1 => earliest,
            _ => earliest.replaces(known, self.first, &self.groups),
        };
    }
}

/// The ports that may send now, as bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyPorts {
    words: Vec<u64>,
}

impl ReadyPorts {
    /// Makes room for `ports` ports.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.words.resize(ports.div_ceil(64).max(self.words.len()), 0);
    }

    #[inline]
    pub(crate) fn insert(&mut self, port: usize) {
        if let Some(word) = self.words.get_mut(port / 64) {
            *word |= 1 << (port % 64);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, port: usize) {
        if let Some(word) = self.words.get_mut(port / 64) {
            *word &= !(1 << (port % 64));
        }
    }

    /// The lowest port of the set.
    pub(crate) fn first(&self) -> Option<usize> {
        let index = self.words.iter().position(|word| *word != 0)?;
        Some(index * 64 + self.words[index].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(
            moves in prop::collection::vec((0usize..53, 0u64..50, 0u64..50), 1..200)
        ) {
            let mut tree = Deadlines::new();
            let mut plain = Vec::new();
            for (port, timer, effect) in moves {
                while plain.len() <= port {
                    plain.push(Due::NEVER);
                    tree.grow(plain.len());
                }
                plain[port] = Due { timer: Time::from_ps(timer), effect: Time::from_ps(effect) };
                tree.set(port, plain[port]);
                let timer = plain.iter().map(|due| due.timer).min();
                prop_assert_eq!(Some(tree.first().timer), timer);
                prop_assert_eq!(Some(tree.first().effect), plain.iter().map(|due| due.effect).min());
                let port = plain.iter().position(|due| Some(due.timer) == timer);
                prop_assert_eq!(Some(tree.first_port()), port);
            }
        }
    }
}
