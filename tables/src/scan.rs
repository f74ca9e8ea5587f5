//! The entries of a small ternary table as a list, best first, for generated code to compare one after
//! the other.
//!
//! It is kept beside the tuple space of [`crate::ternary`], which serves lookups by call: the list is kept only while
//! it is short, and then comparing some words beats hashing a key once for each mask. It has what is matched and the
//! slot; actions and data are in the records of the table.

use crate::key::BitRange;
use crate::shape::{bound_words, bounds};

/// Most entries of a list.
pub(crate) const SCAN_MAX: usize = 16;
/// A table that had more gets a list again at this many.
pub(crate) const SCAN_AGAIN: usize = SCAN_MAX / 2;
/// Words in front of what is matched: slot; priority; sequence number.
pub(crate) const HEAD: usize = 3;
/// The slot that ends a list.
pub(crate) const END: u64 = u64::MAX;

/// The list.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// `[slot] [priority] [sequence number] [value] [mask] [lo, hi - lo of every range field]`, by falling
    /// priority, then age. The last one is no entry: it matches everything, and its slot is [`END`].
    words: Vec<u64>,
    stride: usize,
    /// Words of value and mask together.
    masked: usize,
    ranges: Vec<(usize, BitRange)>,
    /// There are too many entries for a list.
    over: bool,
}

impl Scan {
    /// `ranges`: the start of the bounds of each range field in a row, with its position.
    pub(crate) fn new(key_words: usize, ranges: &[(usize, BitRange)]) -> Scan {
        let mut scan = Scan {
            words: Vec::new(),
            stride: HEAD + 2 * key_words + 2 * ranges.len(),
            masked: 2 * key_words,
            ranges: ranges.to_vec(),
            over: false,
        };
        scan.restart();
        scan.over = ranges.iter().any(|(_, place)| bound_words(*place) != 1);
        scan
    }

    /// Words from entry to entry.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The entries and the end; `None` where there are too many, or a range field is wider than a word.
    pub(crate) fn entries(&self) -> Option<&[u64]> {
        (!self.over).then_some(&self.words)
    }

    /// A row of the table (see [`crate::shape`]); the last word is its priority.
    pub(crate) fn insert(&mut self, row: &[u64], slot: u32, seq: u64) {
        if self.over {
            return;
        }
        if self.words.len() == (SCAN_MAX + 1) * self.stride {
            self.over = true;
            self.words = Vec::new();
            return;
        }
        let priority = row[row.len() - 1];
        let mut entry = vec![u64::from(slot), priority, seq];
        entry.extend(&row[..self.masked]);
        for &(at, place) in &self.ranges {
            let (lo, hi) = bounds(row, at, place);
            entry.extend([lo as u64, (hi - lo) as u64]);
        }
        let better = |e: &[u64]| e[1] > priority || e[1] == priority && e[2] < seq;
        let at = self.words.chunks(self.stride).take_while(|entry| better(entry)).count();
        let at = at * self.stride;
        self.words.splice(at..at, entry);
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let mut entries = self.words.chunks(self.stride);
        if let Some(at) = entries.position(|entry| entry[0] == u64::from(slot)) {
            self.words.drain(at * self.stride..(at + 1) * self.stride);
        }
    }

    /// True when there were too many entries and a list is possible again.
    pub(crate) fn is_due(&self, live: usize) -> bool {
        self.over && live <= SCAN_AGAIN && self.ranges.iter().all(|(_, p)| bound_words(*p) == 1)
    }

    /// Starts again without entries.
    pub(crate) fn restart(&mut self) {
        self.over = false;
        self.words.clear();
        self.words.extend([END, 0, 0]);
        self.words.resize(HEAD + self.masked, 0);
        self.ranges.iter().for_each(|_| self.words.extend([0, u64::MAX]));
    }
}
