//! The earliest of one deadline per port (a winner tree), and the set of ports that may send now.
//!
//! Reading the minimum is one load, moving a deadline is at most log2(ports) steps and stops as soon
//! as a parent does not change. Ties go to the lower port, so the order is total.

use wireyard_tables::time::Time;

/// One deadline per port and which of them is first.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// `tree[1]` is the root; leaf of port i is `tree[width + i]`.
    tree: Vec<Time>,
    width: usize,
}

impl Deadlines {
    pub(crate) fn new() -> Deadlines {
        Deadlines { tree: vec![Time::MAX; 2], width: 1 }
    }

    /// Makes room for `ports` ports, keeping the deadlines that are set.
    pub(crate) fn grow(&mut self, ports: usize) {
        if ports <= self.width {
            return;
        }
        let width = ports.next_power_of_two();
        let leaves: Vec<Time> = self.tree.iter().skip(self.width).copied().collect();
        *self = Deadlines { tree: vec![Time::MAX; 2 * width], width };
        for (port, at) in leaves.into_iter().enumerate() {
            self.set(port, at);
        }
    }

    /// The first deadline of all, `Time::MAX` if there is none.
    #[inline]
    pub(crate) fn first(&self) -> Time {
        self.tree[1]
    }

    /// The port whose deadline is first.
    pub(crate) fn first_port(&self) -> usize {
        let mut node = 1;
        while node < self.width {
            node *= 2;
            if self.tree[node] > self.tree[node + 1] {
                node += 1;
            }
        }
        node - self.width
    }

    /// Moves the deadline of `port`.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, at: Time) {
        let mut node = self.width + port;
        if self.tree[node] == at {
            return;
        }
        self.tree[node] = at;
        while node > 1 {
            node /= 2;
            let earlier = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == earlier {
                return;
            }
            self.tree[node] = earlier;
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
        fn agrees_with_a_scan(moves in prop::collection::vec((0usize..13, 0u64..50), 1..200)) {
            let mut tree = Deadlines::new();
            let mut plain = Vec::new();
            for (port, at) in moves {
                while plain.len() <= port {
                    plain.push(Time::MAX);
                    tree.grow(plain.len());
                }
                plain[port] = Time::from_ps(at);
                tree.set(port, plain[port]);
                let first = plain.iter().min().copied();
                prop_assert_eq!(Some(tree.first()), first);
                prop_assert_eq!(Some(tree.first_port()), plain.iter().position(|t| Some(*t) == first));
            }
        }
    }
}
