//! The engine of exact tables with keys of up to 16 bits, such as ports and VLANs: an array by key.
//!
//! Nothing is hashed and nothing compared. The array is as long as the largest key that was inserted needs, so
//! that a table of ports stays in a line or two; at most it takes 256 KiB. Actions and data are in records by slot.

use crate::entry::{Hit, Slot};
use crate::flat::Records;
use crate::key::KeyLayout;

/// Widest key.
const KEY_BITS: u32 = 16;
/// Shortest array that is not empty: a cache line.
const CELLS_MIN: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Direct {
    /// Slot + 1 by key; 0 without an entry.
    pub(crate) cells: Vec<u32>,
    pub(crate) records: Records,
}

impl Direct {
    /// Keys are short enough.
    pub(crate) fn suits(layout: &KeyLayout) -> bool {
        let bits = layout.places().iter().map(|place| place.shift + place.bits).max();
        layout.words() == 1 && bits.is_some_and(|bits| bits <= KEY_BITS)
    }

    pub(crate) fn new(data_words: usize) -> Direct {
        Direct { cells: Vec::new(), records: Records::new(data_words) }
    }

    #[inline]
    pub(crate) fn lookup(&self, key: u64) -> Option<Hit<'_>> {
        let slot = self.cells.get(key as usize)?.checked_sub(1)?;
        let (action, data) = self.records.get(slot);
        Some(Hit { slot: Slot(slot), action, data })
    }

    pub(crate) fn insert(&mut self, key: u64, slot: u32, call: &[u64]) {
        let at = key as usize;
        if self.cells.len() <= at {
            self.cells.resize((at + 1).next_power_of_two().max(CELLS_MIN), 0);
        }
        self.cells[at] = slot + 1;
        self.records.set(slot, call);
    }

    pub(crate) fn modify(&mut self, slot: u32, call: &[u64]) {
        self.records.set(slot, call);
    }

    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(cell) = self.cells.get_mut(key as usize) {
            *cell = 0;
        }
    }
}
