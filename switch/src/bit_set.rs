//! A set of small numbers as bits, iterated in order: ports with frames to send.
//!
//! Whether it is empty is read for every packet; its size is not kept beyond that. Memory is one bit for each number
//! that there is room for.

/// A set of the numbers that [`BitSet::grow`] has made room for.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    count: u32,
}

impl BitSet {
    /// Makes room for the numbers below `numbers`; it never shrinks.
    pub(crate) fn grow(&mut self, numbers: usize) {
        self.words.resize(numbers.div_ceil(64).max(self.words.len()), 0);
    }

    /// Adds a number; does nothing without room for it.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Removes a number, if it is a member.
    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count -= u32::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// Leaves no member.
    pub(crate) fn clear(&mut self) {
        if self.count > 0 {
            self.words.fill(0);
            self.count = 0;
        }
    }

    /// True for a member.
    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// True without a member.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lowest member.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let index = self.words.iter().position(|word| *word != 0)?;
        Some(index * 64 + self.words[index].trailing_zeros() as usize)
    }

    /// The lowest member from `from` on; the set may change between two calls.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let (mut index, mut mask) = (from / 64, u64::MAX << (from % 64));
        loop {
            let word = self.words.get(index)? & mask;
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            (index, mask) = (index + 1, u64::MAX);
        }
    }

    /// The members, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.next(0), |last| self.next(last + 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_without_room_is_no_member() {
        let mut set = BitSet::default();
        set.grow(200);
        set.insert(500);
        set.remove(500);
        assert!(set.is_empty() && !set.contains(500) && set.next(500).is_none());
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_set(moves in prop::collection::vec((0usize..200, 0u8..8), 1..200)) {
            let (mut set, mut plain) = (BitSet::default(), BTreeSet::new());
            set.grow(200);
            for (number, what) in moves {
                match what {
                    0 => {
                        set.clear();
                        plain.clear();
                    }
                    1..4 => {
                        set.remove(number);
                        plain.remove(&number);
                    }
                    _ => {
                        set.insert(number);
                        plain.insert(number);
                    }
                }
                prop_assert_eq!(set.first(), plain.first().copied());
                prop_assert_eq!(set.next(number), plain.range(number..).next().copied());
                prop_assert_eq!(set.contains(number), plain.contains(&number));
                prop_assert_eq!(set.is_empty(), plain.is_empty());
                prop_assert!(set.iter().eq(plain.iter().copied()));
            }
        }
    }
}
