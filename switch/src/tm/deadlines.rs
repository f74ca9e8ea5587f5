//! The earliest of the deadlines of all ports, and the set of ports that may send now.
//!
//! A port has two deadlines. Ports are in groups, whose earliest are kept, and so is the earliest of all. When the earliest of a
//! group moves back, the group is looked through by who asks next: deadlines are set more often than they are read. Ties go to
//! the lower port, so the order is total.

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
}

/// Ports of a group.
const GROUP: usize = 16;

/// Ports side by side.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The earliest of them, unless it is stale.
    first: Due,
    /// The earliest has moved back.
    stale: bool,
}

/// The deadlines of each port and which of them is first.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    ports: Vec<Due>,
    groups: Vec<Group>,
    /// The earliest of all, unless a group is stale.
    first: Due,
    stale: bool,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { ports: Vec::new(), groups: Vec::new(), first: Due::NEVER, stale: false }
    }

    /// Makes room for `ports` ports, keeping the deadlines that are set.
    pub(crate) fn grow(&mut self, ports: usize) {
        let ports = ports.max(self.ports.len());
        self.ports.resize(ports, Due::NEVER);
        self.groups.resize(ports.div_ceil(GROUP), Group { first: Due::NEVER, stale: false });
    }

    /// The first deadlines of all, `Time::MAX` where there is none.
    #[inline]
    pub(crate) fn first(&mut self) -> Due {
        if self.stale {
            self.look();
        }
        self.first
    }

    fn look(&mut self) {
        self.first = Due::NEVER;
        for (group, ports) in self.groups.iter_mut().zip(self.ports.chunks(GROUP)) {
            if group.stale {
                group.first = ports.iter().fold(Due::NEVER, |first, due| first.min(*due));
                group.stale = false;
            }
            self.first = self.first.min(group.first);
        }
        self.stale = false;
    }

    /// The port whose timer is first.
    pub(crate) fn first_port(&mut self) -> usize {
        let first = self.first().timer;
        let group = self.groups.iter().position(|group| group.first.timer == first);
        let start = group.unwrap_or_default() * GROUP;
        start + self.ports[start..].iter().take_while(|due| due.timer != first).count()
    }

    /// Moves the deadlines of `port`.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, due: Due) {
        let old = std::mem::replace(&mut self.ports[port], due);
        let group = &mut self.groups[port / GROUP];
        let known = group.first;
        if (old.timer == known.timer && due.timer > old.timer)
            || (old.effect == known.effect && due.effect > old.effect)
        {
            group.stale = true;
            self.stale = true;
        } else {
            group.first = known.min(due);
            self.first = self.first.min(due);
        }
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
