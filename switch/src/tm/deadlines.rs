//! What is due next: timers of ports, frames that leave wires, and the set of ports that may send now.
//!
//! Timers (pauses, watchdogs, shapers) are few and change rarely: a list that is looked through after a change. The end of a
//! frame comes with every packet, so frames on wires are a queue in the order of their ends. Ties go to the lower port, so the order
//! is total.

use wireyard_tables::time::Time;

/// When something is due by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// It waits for nothing.
    Now,
    /// At this instant.
    At(Time),
    /// Only something from outside changes anything.
    Never,
}

impl Due {
    /// Of an instant; the end of time, which is never reached, stands for none wherever instants are compared.
    #[inline]
    pub(crate) fn of(at: Time) -> Due {
        if at == Time::MAX { Due::Never } else { Due::At(at) }
    }

    /// The instant, not before `now`; `None` for never.
    #[inline]
    pub fn instant(self, now: Time) -> Option<Time> {
        match self {
            Due::Now => Some(now),
            Due::At(at) => Some(at.max(now)),
            Due::Never => None,
        }
    }

    /// True if it is due by this instant.
    #[inline]
    pub fn is_by(self, at: Time) -> bool {
        match self {
            Due::Now => true,
            Due::At(due) => due <= at,
            Due::Never => false,
        }
    }
}

/// The timer of each port, and which is first.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// By port; `Time::MAX` is none.
    ports: Vec<Time>,
    /// The earliest of all and its port, unless one has changed.
    first: (Time, usize),
    changed: bool,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { ports: Vec::new(), first: (Time::MAX, 0), changed: false }
    }

    /// Makes room for `ports` ports, keeping the timers that are set.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.ports.resize(ports.max(self.ports.len()), Time::MAX);
    }

    /// The first timer of all and its port; `Time::MAX` where there is none.
    #[inline]
    pub(crate) fn first(&mut self) -> (Time, usize) {
        if self.changed {
            self.look();
        }
        self.first
    }

    fn look(&mut self) {
        let timers = self.ports.iter().copied().zip(0..);
        self.first = timers.min().unwrap_or((Time::MAX, 0));
        self.changed = false;
    }

    /// Sets the timer of a port.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, at: Time) {
        if std::mem::replace(&mut self.ports[port], at) != at {
            self.changed = true;
        }
    }
}

/// The frames on wires, one of a port, by the instant at which the wire is free again.
#[derive(Clone, Debug)]
pub(crate) struct WireEnds {
    /// The first one last, so that it is taken by a pop.
    ends: Vec<(Time, u16)>,
    /// Its instant, which is asked for far more often than it changes.
    first: Time,
}

impl Default for WireEnds {
    fn default() -> WireEnds {
        WireEnds { ends: Vec::new(), first: Time::MAX }
    }
}

impl WireEnds {
    /// Makes room for `ports` ports.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.ends.reserve(ports.saturating_sub(self.ends.len()));
    }

    /// A port has a frame on its wire.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, port: u16) {
        let later = self.ends.iter().take_while(|end| **end > (at, port)).count();
        if later == self.ends.len() {
            self.ends.push((at, port));
        } else {
            self.ends.insert(later, (at, port));
        }
        self.look();
    }

    #[inline]
    fn look(&mut self) {
        self.first = self.ends.last().map_or(Time::MAX, |(at, _)| *at);
    }

    /// When the first frame has left; `Time::MAX` when there is none.
    #[inline]
    pub(crate) fn first(&self) -> Time {
        self.first
    }

    /// Takes the first one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, u16)> {
        let first = self.ends.pop();
        self.look();
        first
    }

    /// The frame of a port is not on the wire any more.
    pub(crate) fn remove(&mut self, port: u16) {
        self.ends.retain(|(_, on)| *on != port);
        self.look();
    }

    /// All, in their order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Time, u16)> {
        self.ends.iter().rev().copied()
    }
}

/// The ports that may send now, as bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyPorts {
    words: Vec<u64>,
    count: u32,
}

impl ReadyPorts {
    /// Makes room for `ports` ports.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.words.resize(ports.div_ceil(64).max(self.words.len()), 0);
    }

    #[inline]
    pub(crate) fn insert(&mut self, port: usize) {
        if let Some(word) = self.words.get_mut(port / 64) {
            let bit = 1 << (port % 64);
            self.count += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, port: usize) {
        if let Some(word) = self.words.get_mut(port / 64) {
            let bit = 1 << (port % 64);
            self.count -= u32::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lowest port of the set.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let index = self.words.iter().position(|word| *word != 0)?;
        Some(index * 64 + self.words[index].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Often the same, often none.
    fn instant() -> impl Strategy<Value = Time> {
        prop_oneof![3 => (0u64..50).prop_map(Time::from_ps), 1 => Just(Time::MAX)]
    }

    proptest! {
        #[test]
        fn timers_agree_with_a_scan(moves in prop::collection::vec((0usize..53, instant()), 1..200)) {
            let mut timers = Deadlines::new();
            let mut plain = Vec::new();
            for (port, at) in moves {
                while plain.len() <= port {
                    plain.push(Time::MAX);
                    timers.grow(plain.len());
                }
                plain[port] = at;
                timers.set(port, at);
                let first = plain.iter().copied().zip(0..).min();
                prop_assert_eq!(Some(timers.first()), first);
            }
        }

        #[test]
        fn frames_leave_in_order(moves in prop::collection::vec((0u16..9, 0u64..50, 0u8..4), 1..200)) {
            let (mut wires, mut plain) = (WireEnds::default(), Vec::<(Time, u16)>::new());
            for (port, at, what) in moves {
                match what {
                    0 => {
                        plain.sort_unstable();
                        let first = (!plain.is_empty()).then(|| plain.remove(0));
                        prop_assert_eq!(wires.pop(), first);
                    }
                    1 => {
                        plain.retain(|(_, on)| *on != port);
                        wires.remove(port);
                    }
                    _ => {
                        plain.push((Time::from_ps(at), port));
                        wires.push(Time::from_ps(at), port);
                    }
                }
                plain.sort_unstable();
                prop_assert_eq!(wires.iter().collect::<Vec<_>>(), plain.clone());
                prop_assert_eq!(wires.first(), plain.first().map_or(Time::MAX, |(at, _)| *at));
            }
        }

        #[test]
        fn the_lowest_port_is_first(moves in prop::collection::vec((0usize..200, any::<bool>()), 1..200)) {
            let mut ready = ReadyPorts::default();
            ready.grow(200);
            let mut plain = std::collections::BTreeSet::new();
            for (port, is_in) in moves {
                if is_in { ready.insert(port) } else { ready.remove(port) }
                if is_in { plain.insert(port); } else { plain.remove(&port); }
                prop_assert_eq!(ready.first(), plain.first().copied());
                prop_assert_eq!(ready.is_empty(), plain.is_empty());
            }
        }
    }
}
