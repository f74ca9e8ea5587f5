//! Counters of packets and bytes, direct (one per entry) or indirect (indexed by a program).
//!
//! Every worker has a lane of its own, so that counting is a plain load, add and store with no
//! atomic read-modify-write; a reading is the sum over the lanes. A reset must not race with the
//! lane's owner, so it writes no lane: it keeps the sum as the new zero.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Count>>(counts: I) -> Count {
        counts.fold(Count::default(), |mut sum, count| {
            sum += count;
            sum
        })
    }
}

/// An array of counters. In each lane counter `i` is the pair of words `2 * i` (packets) and
/// `2 * i + 1` (bytes).
#[derive(Debug)]
pub struct CounterArray {
    size: usize,
    lanes: Vec<Box<[AtomicU64]>>,
    zero: OnceLock<Box<[AtomicU64]>>,
}

pub(crate) fn atomics(n: usize) -> Box<[AtomicU64]> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

impl CounterArray {
    /// `size` counters for `lanes` workers.
    pub fn new(size: usize, lanes: usize) -> CounterArray {
        let lanes = (0..lanes.max(1)).map(|_| atomics(2 * size)).collect();
        CounterArray { size, lanes, zero: OnceLock::new() }
    }

    /// Number of counters.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Counts a packet. Only one thread at a time may use a lane: two would lose counts, without undefined behaviour.
    /// An index or lane that does not exist is ignored.
    #[inline(always)]
    pub fn add(&self, lane: usize, index: usize, bytes: u64) {
        let Some(pair) = self.lanes.get(lane).and_then(|l| l.get(2 * index..2 * index + 2)) else {
            return;
        };
        pair[0].store(pair[0].load(Relaxed).wrapping_add(1), Relaxed);
        pair[1].store(pair[1].load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    /// The words of a lane, for generated code that counts without a call.
    pub fn lane_ptr(&self, lane: usize) -> Option<*const AtomicU64> {
        self.lanes.get(lane).map(|lane| lane.as_ptr())
    }

    fn sum(&self, word: usize) -> u64 {
        self.lanes.iter().fold(0, |sum, lane| sum.wrapping_add(lane[word].load(Relaxed)))
    }

    /// Packets and bytes since the start or the last reset; `None` beyond the size.
    pub fn read(&self, index: usize) -> Option<Count> {
        if index >= self.size {
            return None;
        }
        let since = |word: usize| {
            let zero = self.zero.get().map_or(0, |zero| zero[word].load(Relaxed));
            self.sum(word).wrapping_sub(zero)
        };
        Some(Count { packets: since(2 * index), bytes: since(2 * index + 1) })
    }

    /// The counters that have counted a packet, by ascending index.
    pub fn above_zero(&self) -> impl Iterator<Item = (usize, Count)> {
        let read = |index| self.read(index).map(|count| (index, count));
        (0..self.size).filter_map(read).filter(|(_, count)| count.packets > 0)
    }

    /// Makes the counter read as `count` from now on.
    pub fn set(&self, index: usize, count: Count) {
        if index >= self.size {
            return;
        }
        let zero = self.zero.get_or_init(|| atomics(2 * self.size));
        for (word, value) in [(2 * index, count.packets), (2 * index + 1, count.bytes)] {
            zero[word].store(self.sum(word).wrapping_sub(value), Relaxed);
        }
    }

    /// Makes the counter read as zero.
    pub fn reset(&self, index: usize) {
        // A counter that never counted needs no zero point, and most resets are of fresh slots.
        if self.read(index).is_some_and(|count| count != Count::default()) {
            self.set(index, Count::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_add_up_and_reset_keeps_them() {
        let counters = CounterArray::new(4, 2);
        counters.add(0, 1, 100);
        counters.add(1, 1, 50);
        counters.add(1, 2, 1);
        counters.add(2, 1, 9);
        counters.add(0, 4, 9);
        assert_eq!(counters.read(1), Some(Count { packets: 2, bytes: 150 }));
        counters.reset(1);
        counters.add(0, 1, 7);
        assert_eq!(counters.read(1), Some(Count { packets: 1, bytes: 7 }));
        assert_eq!(counters.read(2), Some(Count { packets: 1, bytes: 1 }));
        counters.set(2, Count { packets: 10, bytes: 20 });
        counters.add(0, 2, 1);
        assert_eq!(counters.read(2), Some(Count { packets: 11, bytes: 21 }));
        assert_eq!(counters.read(4), None);
    }
}
