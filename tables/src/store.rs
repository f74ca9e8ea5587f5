//! The control plane's own record of a table: the reference for both copies of the engine.
//!
//! It keeps every entry's row, call, timeout and sequence number by slot, and an index from row to slot. Every refusal
//! happens here, before a change reaches an engine, and every change can be undone, so that a batch that fails half-way
//! has no effect.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::entry::Slot;
use crate::error::EntryError;
use crate::hash::hash;
use crate::key::prefix_mask;
use crate::shape::{MatchEngine, TableShape};

/// Freed slots are not reused until this many are free, while unused ones are left: a reader that still counts a hit on
/// a removed entry should not count it for the slot's next entry.
const RESTING_SLOTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) shape: Arc<TableShape>,
    rows: Vec<u64>,
    calls: Vec<u64>,
    /// 0 for a free slot.
    seqs: Vec<u64>,
    /// Idle timeout in ps, 0 for none.
    timeouts_ps: Vec<u64>,
    index: HashTable<u32>,
    free: VecDeque<u32>,
    next_seq: u64,
    /// How many entries have each prefix length (lpm tables).
    by_len: Vec<u32>,
}

/// A removed entry, with all that is needed to restore it.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) slot: u32,
    pub(crate) row: Vec<u64>,
    pub(crate) call: Vec<u64>,
    seq: u64,
    timeout_ps: u64,
}

/// The origin of a new entry's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inserted {
    pub(crate) slot: u32,
    pub(crate) seq: u64,
    reused: bool,
}

impl Store {
    pub(crate) fn new(shape: Arc<TableShape>) -> Store {
        let lens = shape.lpm.map_or(0, |i| shape.layout.places()[i].bits as usize + 1);
        Store {
            shape,
            rows: Vec::new(),
            calls: Vec::new(),
            seqs: Vec::new(),
            timeouts_ps: Vec::new(),
            index: HashTable::new(),
            free: VecDeque::new(),
            next_seq: 1,
            by_len: vec![0; lens],
        }
    }

    /// Slots below this one have been used at some time.
    pub(crate) fn used_slots(&self) -> u32 {
        self.seqs.len() as u32
    }

    pub(crate) fn is_live(&self, slot: u32) -> bool {
        self.seqs.get(slot as usize).is_some_and(|&seq| seq != 0)
    }

    pub(crate) fn row(&self, slot: u32) -> &[u64] {
        let stride = self.shape.row_words;
        &self.rows[slot as usize * stride..][..stride]
    }

    pub(crate) fn call(&self, slot: u32) -> &[u64] {
        let stride = 1 + self.shape.data_words;
        &self.calls[slot as usize * stride..][..stride]
    }

    pub(crate) fn timeout_ps(&self, slot: u32) -> u64 {
        self.timeouts_ps[slot as usize]
    }

    pub(crate) fn find(&self, row: &[u64]) -> Option<u32> {
        let h = hash(row, self.shape.seed);
        self.index.find(h, |&slot| self.row(slot) == row).copied()
    }

    /// Live slots, oldest entry first.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..self.used_slots()).filter(|&s| self.is_live(s)).collect();
        slots.sort_unstable_by_key(|&slot| self.seqs[slot as usize]);
        slots
    }

    pub(crate) fn insert(
        &mut self,
        row: &[u64],
        call: &[u64],
        timeout_ps: u64,
    ) -> Result<Inserted, EntryError> {
        if self.find(row).is_some() {
            return Err(EntryError::Duplicate);
        }
        let capacity = self.shape.spec.capacity;
        let fresh = (self.used_slots() < capacity).then_some(self.used_slots());
        let reuse = self.free.len() > RESTING_SLOTS || fresh.is_none();
        let inserted = match (self.free.front(), fresh) {
            (Some(&slot), _) if reuse => Inserted { slot, seq: self.next_seq, reused: true },
            (_, Some(slot)) => Inserted { slot, seq: self.next_seq, reused: false },
            (_, None) => return Err(EntryError::Full { capacity }),
        };
        if inserted.reused {
            self.free.pop_front();
        } else {
            self.rows.extend_from_slice(row);
            self.calls.extend_from_slice(call);
            self.seqs.push(0);
            self.timeouts_ps.push(0);
        }
        self.next_seq += 1;
        self.fill(inserted.slot, row, call, inserted.seq, timeout_ps);
        Ok(inserted)
    }

    fn fill(&mut self, slot: u32, row: &[u64], call: &[u64], seq: u64, timeout_ps: u64) {
        let (at, stride) = (slot as usize, self.shape.row_words);
        self.rows[at * stride..][..stride].copy_from_slice(row);
        self.seqs[at] = seq;
        self.set(slot, call, timeout_ps);
        let (rows, seed) = (&self.rows, self.shape.seed);
        let rehash = |&slot: &u32| hash(&rows[slot as usize * stride..][..stride], seed);
        self.index.insert_unique(hash(row, seed), slot, rehash);
        self.count_len(row, 1);
    }

    /// Replaces call and timeout; returns the old ones.
    pub(crate) fn modify(&mut self, slot: u32, call: &[u64], timeout_ps: u64) -> (Vec<u64>, u64) {
        let old = (self.call(slot).to_vec(), self.timeout_ps(slot));
        self.set(slot, call, timeout_ps);
        old
    }

    fn set(&mut self, slot: u32, call: &[u64], timeout_ps: u64) {
        let stride = 1 + self.shape.data_words;
        self.calls[slot as usize * stride..][..stride].copy_from_slice(call);
        self.timeouts_ps[slot as usize] = timeout_ps;
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Removed {
        let removed = Removed {
            slot,
            row: self.row(slot).to_vec(),
            call: self.call(slot).to_vec(),
            seq: self.seqs[slot as usize],
            timeout_ps: self.timeout_ps(slot),
        };
        self.unlink(&removed.row, slot);
        self.free.push_back(slot);
        removed
    }

    fn unlink(&mut self, row: &[u64], slot: u32) {
        let h = hash(row, self.shape.seed);
        if let Ok(found) = self.index.find_entry(h, |&other| other == slot) {
            found.remove();
        }
        self.seqs[slot as usize] = 0;
        self.count_len(row, -1);
    }

    pub(crate) fn undo_insert(&mut self, inserted: Inserted) {
        let row = self.row(inserted.slot).to_vec();
        self.unlink(&row, inserted.slot);
        self.next_seq -= 1;
        if inserted.reused {
            self.free.push_front(inserted.slot);
        } else {
            self.rows.truncate(self.rows.len() - self.shape.row_words);
            self.calls.truncate(self.calls.len() - 1 - self.shape.data_words);
            self.seqs.pop();
            self.timeouts_ps.pop();
        }
    }

    pub(crate) fn undo_remove(&mut self, removed: &Removed) {
        self.free.pop_back();
        let Removed { slot, row, call, seq, timeout_ps } = removed;
        self.fill(*slot, row, call, *seq, *timeout_ps);
    }

    fn count_len(&mut self, row: &[u64], by: i32) {
        if self.shape.engine == MatchEngine::Lpm {
            let count = &mut self.by_len[row[self.shape.row_words - 1] as usize];
            *count = count.wrapping_add_signed(by);
        }
    }

    /// In an lpm table: slot + 1 of the longest prefix shorter than this row's that covers it.
    pub(crate) fn covering(&self, row: &[u64]) -> u64 {
        let Some(field) = self.shape.lpm else { return 0 };
        let (place, words) = (self.shape.layout.places()[field], self.shape.layout.words());
        let value = place.get(row);
        let mut shorter = row.to_vec();
        for len in (0..row[words] as u32).rev().filter(|&len| self.by_len[len as usize] > 0) {
            clear(&mut shorter, place);
            place.put(&mut shorter, value & prefix_mask(place.bits, len));
            shorter[words] = u64::from(len);
            if let Some(slot) = self.find(&shorter) {
                return u64::from(slot) + 1;
            }
        }
        0
    }

    pub(crate) fn slot_of(&self, row: &[u64]) -> Result<Slot, EntryError> {
        self.find(row).map(Slot).ok_or(EntryError::NotFound)
    }
}

fn clear(words: &mut [u64], place: crate::key::BitRange) {
    let ones = place.ones();
    words[place.word] &= !((ones as u64) << place.shift);
    if place.bits > 64 {
        words[place.word + 1] &= !((ones >> 64) as u64);
    }
}
