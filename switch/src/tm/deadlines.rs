//! The next deadlines: timers of ports, and frames that leave wires.
//!
//! Timers (pauses, watchdogs, shapers) are few and change rarely: a list that is scanned after a change. Every packet
//! has an end on the wire, so frames on wires are a queue sorted by their ends. Ties go to the lower port, so the order
//! is total.

use wireyard_tables::time::{Deadline, Time};

/// The timer of each port, and the earliest.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// By port.
    ports: Vec<Deadline>,
    /// The earliest of all and its port; outdated while `changed`.
    first: (Deadline, usize),
    changed: bool,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { ports: Vec::new(), first: (Deadline::NEVER, 0), changed: false }
    }

    /// Makes room for `ports` ports, keeping the timers that are set.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.ports.resize(ports.max(self.ports.len()), Deadline::NEVER);
    }

    /// The earliest timer and its port.
    #[inline]
    pub(crate) fn first(&mut self) -> (Deadline, usize) {
        if self.changed {
            self.look();
        }
        self.first
    }

    fn look(&mut self) {
        let timers = self.ports.iter().copied().zip(0..);
        self.first = timers.min().unwrap_or((Deadline::NEVER, 0));
        self.changed = false;
    }

    /// Sets the timer of a port.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, at: Deadline) {
        if std::mem::replace(&mut self.ports[port], at) != at {
            self.changed = true;
        }
    }
}

/// The frames on wires, at most one for each port, by the instant at which the wire is free again.
#[derive(Clone, Debug)]
pub(crate) struct WireEnds {
    /// Latest first, so that the earliest is taken by a pop.
    ends: Vec<(Time, u16)>,
    /// The earliest instant, which is read far more often than it changes.
    first: Deadline,
}

impl Default for WireEnds {
    fn default() -> WireEnds {
        WireEnds { ends: Vec::new(), first: Deadline::NEVER }
    }
}

impl WireEnds {
    /// Makes room for `ports` ports.
    pub(crate) fn grow(&mut self, ports: usize) {
        self.ends.reserve(ports.saturating_sub(self.ends.len()));
    }

    /// Adds the frame on a port's wire.
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
        self.first = self.ends.last().map(|(at, _)| *at).into();
    }

    /// When the next frame has left.
    #[inline]
    pub(crate) fn first(&self) -> Deadline {
        self.first
    }

    /// Takes the earliest one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, u16)> {
        let first = self.ends.pop();
        self.look();
        first
    }

    /// Removes the frame of a port.
    pub(crate) fn remove(&mut self, port: u16) {
        self.ends.retain(|(_, on)| *on != port);
        self.look();
    }

    /// All, earliest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Time, u16)> {
        self.ends.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Often equal, often none.
    fn instant() -> impl Strategy<Value = Deadline> {
        let at = |ps| Deadline::at(Time::from_ps(ps));
        prop_oneof![3 => (0u64..50).prop_map(at), 1 => Just(Deadline::NEVER)]
    }

    proptest! {
        #[test]
        fn timers_agree_with_a_scan(moves in prop::collection::vec((0usize..53, instant()), 1..200)) {
            let mut timers = Deadlines::new();
            let mut plain = Vec::new();
            for (port, at) in moves {
                while plain.len() <= port {
                    plain.push(Deadline::NEVER);
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
                prop_assert_eq!(wires.first(), plain.first().map(|(at, _)| *at).into());
            }
        }
    }
}
