//! The engine for everything that overlaps: tuple space search with merged tuples.
//!
//! A tuple is a mask over the whole key, and has a hash table of the entries filed under it. A lookup
//! masks and hashes the key once per tuple. Tuples are visited by falling highest priority, and the
//! search ends when no tuple left can beat what was found (Srinivasan, Suri, Varghese, SIGCOMM 1999).
//!
//! * Entries are verified in full when found, so an entry may be filed under any mask that is part of its own. New
//!   entries join the most specific such tuple in which they share their place with fewer than [`CHAIN_LIMIT`] others;
//!   otherwise they start a new tuple, with a coarser mask than their own where none exists yet. This keeps tuples few
//!   where masks are many (after TupleMerge: Daly et al., IEEE/ACM ToN 2019).
//! * A range is filed under prefixes that cover it: as a rule two, cut where the bounds first differ,
//!   each at most twice as wide as its part of the range. Where that would crowd a place (many ranges
//!   that overlap without being equal) the range is cut further, at last into exact prefixes, up to
//!   [`MAX_FILINGS`] filings of an entry.
//!
//! Costs: a lookup is one masked hash per visited tuple, so each mask that cannot be merged adds one; entries that
//! differ only in how their ranges overlap in two fields at once can still share a place, which is searched by
//! priority. An insertion examines [`EXAMINED_MAX`] tuples and those of parts of its own mask.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::{Hit, Slot};
use crate::flat::Records;
use crate::hash::{hash, hash_iter};
use crate::key::{BitRange, ones, prefix_mask};
use crate::scan::Scan;
use crate::shape::{TableShape, bound_words, bounds};

/// Entries in one place before a new tuple is worth it.
const CHAIN_LIMIT: usize = 8;
/// Tuples that an entry may join by sharing a part of its mask: the first by priority. Behind them it joins that of its own mask.
const EXAMINED_MAX: usize = 512;
/// Bits of a mask that separate enough entries.
const ENOUGH_BITS: u32 = 24;
/// Most filings of an entry.
const MAX_FILINGS: usize = 64;
/// Parts that a range is cut into; tried one after the other.
const CUTS: [usize; 3] = [2, 8, 32];

#[derive(Clone, Debug)]
pub(crate) struct Ternary {
    shape: Arc<TableShape>,
    pub(crate) words: usize,
    /// Where the bounds of each range field start in a row.
    ranges: Vec<(usize, BitRange)>,
    tuples: Vec<Tuple>,
    /// Tuples without entries.
    unused: Vec<u32>,
    /// Tuples with entries.
    by_mask: BTreeMap<Box<[u64]>, u32>,
    /// Tuples in use, by falling highest priority.
    order: Vec<u32>,
    /// Filings, `stride` words each: `[next in the chain + 1 | slot << 32] [sequence number]
    /// [tuple | next of the same slot + 1 << 32] [hash] [row]`.
    filings: Vec<u64>,
    stride: usize,
    free: Vec<u32>,
    /// By slot: its last filing + 1.
    filed: Vec<u32>,
    /// Number of entries.
    live: usize,
    /// The same entries for generated code, while they are few.
    pub(crate) scan: Scan,
    pub(crate) records: Records,
}

#[derive(Clone, Debug)]
struct Tuple {
    mask: Box<[u64]>,
    /// 0 without entries.
    top_priority: u32,
    /// How many filings have each priority.
    priorities: BTreeMap<u32, u32>,
    places: Places,
}

/// A hash table from 32-bit hash to chain: a cell is `hash << 32 | first filing + 1`, 0 if empty.
/// Keys with the same 32 bits share a chain, which verification makes harmless.
#[derive(Clone, Debug)]
struct Places {
    cells: Vec<u64>,
    len: usize,
}

impl Places {
    fn new() -> Places {
        Places { cells: vec![0; 4], len: 0 }
    }

    /// The cell of this hash, or the empty cell where it would go.
    #[inline(always)]
    fn position(&self, hash: u32) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        while self.cells[at] != 0 && (self.cells[at] >> 32) as u32 != hash {
            at = (at + 1) & mask;
        }
        at
    }

    /// First filing + 1 under this hash, 0 for none.
    #[inline(always)]
    fn first(&self, hash: u32) -> u32 {
        self.cells[self.position(hash)] as u32
    }

    fn set(&mut self, hash: u32, first: u32) {
        let at = self.position(hash);
        if first == 0 {
            self.close(at);
            return;
        }
        self.len += usize::from(self.cells[at] == 0);
        self.cells[at] = u64::from(hash) << 32 | u64::from(first);
        if self.len * 2 > self.cells.len() {
            let larger = vec![0; self.cells.len() * 2];
            for cell in std::mem::replace(&mut self.cells, larger) {
                let at = self.position((cell >> 32) as u32);
                if cell != 0 {
                    self.cells[at] = cell;
                }
            }
        }
    }

    fn close(&mut self, mut hole: usize) {
        let mask = self.cells.len() - 1;
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell == 0 {
                break;
            }
            let home = (cell >> 32) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = 0;
    }
}

/// Where the row starts in a filing.
const ROW: usize = 4;

impl Ternary {
    pub(crate) fn new(shape: Arc<TableShape>) -> Ternary {
        let words = shape.layout.words();
        let mut at = 2 * words;
        let mut ranges = Vec::new();
        for &field in &shape.ranges {
            let place = shape.layout.places()[field];
            ranges.push((at, place));
            at += 2 * bound_words(place);
        }
        Ternary {
            words,
            live: 0,
            scan: Scan::new(words, &ranges),
            ranges,
            tuples: Vec::new(),
            unused: Vec::new(),
            by_mask: BTreeMap::new(),
            order: Vec::new(),
            filings: Vec::new(),
            stride: ROW + shape.row_words,
            free: Vec::new(),
            filed: Vec::new(),
            records: Records::new(shape.data_words),
            shape,
        }
    }

    #[inline(never)]
    pub(crate) fn lookup(&self, key: &[u64]) -> Option<Hit<'_>> {
        let key = &key[..self.words];
        // Priority 0 is less than any entry's.
        let (mut best, mut best_priority) = (None, 0);
        for &tuple in &self.order {
            let tuple = &self.tuples[tuple as usize];
            if tuple.top_priority < best_priority {
                break;
            }
            let hash = self.hash(key, &tuple.mask);
            let mut filing = tuple.places.first(hash);
            while filing != 0 {
                let found = self.filing(filing - 1);
                let priority = self.priority(found);
                if priority < best_priority {
                    break;
                }
                if self.verify(found, key) {
                    let older = |best: &[u64]| priority > best_priority || found[1] < best[1];
                    if best.is_none_or(older) {
                        (best, best_priority) = (Some(found), priority);
                    }
                    break;
                }
                filing = found[0] as u32;
            }
        }
        let slot = (best?[0] >> 32) as u32;
        let (action, data) = self.records.get(slot);
        Some(Hit { slot: Slot(slot), action, data })
    }

    #[inline(always)]
    fn hash(&self, key: &[u64], mask: &[u64]) -> u32 {
        let seed = self.shape.seed;
        let hash = match (key, mask) {
            ([k], [m]) => hash(&[k & m], seed),
            ([k, l], [m, n]) => hash(&[k & m, l & n], seed),
            _ => hash_iter(key.iter().zip(mask).map(|(k, m)| k & m), seed),
        };
        (hash >> 32) as u32
    }

    #[inline(always)]
    fn filing(&self, filing: u32) -> &[u64] {
        &self.filings[filing as usize * self.stride..][..self.stride]
    }

    #[inline(always)]
    fn priority(&self, filing: &[u64]) -> u32 {
        filing[self.stride - 1] as u32
    }

    #[inline(always)]
    fn verify(&self, filing: &[u64], key: &[u64]) -> bool {
        let row = &filing[ROW..];
        let (values, masks) = (&row[..self.words], &row[self.words..2 * self.words]);
        let differ = key.iter().zip(values).zip(masks).fold(0, |d, ((k, v), m)| d | ((k ^ v) & m));
        differ == 0
            && self.ranges.iter().all(|&(at, place)| {
                let (lo, hi) = bounds(row, at, place);
                (lo..=hi).contains(&place.get(key))
            })
    }

    pub(crate) fn insert(&mut self, row: &[u64], slot: u32, seq: u64, call: &[u64]) {
        self.records.set(slot, call);
        if self.filed.len() <= slot as usize {
            self.filed.resize(slot as usize + 1, 0);
        }
        self.filed[slot as usize] = 0;
        self.live += 1;
        self.scan.insert(row, slot, seq);
        for (value, mask) in self.pieces_with_room(row) {
            let (tuple, _) = self.tuple_for(&value, &mask);
            let tuple = tuple.unwrap_or_else(|mask| self.new_tuple(&mask));
            let hash = self.hash(&value, &self.tuples[tuple as usize].mask);
            let filing = self.new_filing(row, slot, [seq, u64::from(tuple), u64::from(hash)]);
            self.link(tuple, hash, filing);
        }
    }

    /// No range field is wider than a word.
    pub(crate) fn ranges_fit(&self) -> bool {
        self.ranges.iter().all(|(_, place)| bound_words(*place) == 1)
    }

    pub(crate) fn modify(&mut self, slot: u32, call: &[u64]) {
        self.records.set(slot, call);
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let mut number = self.filed[slot as usize];
        while number != 0 {
            let words = self.filing(number - 1);
            let (tuple, next, hash) = (words[2] as u32, (words[2] >> 32) as u32, words[3] as u32);
            self.unlink(tuple, hash, number - 1);
            self.free.push(number - 1);
            number = next;
        }
        self.live -= 1;
        self.scan.remove(slot);
        if self.scan.is_due(self.live) {
            self.list();
        }
    }

    /// Makes the list of entries anew, from the filings in use.
    fn list(&mut self) {
        let mut used = vec![true; self.filings.len() / self.stride];
        self.free.iter().for_each(|&filing| used[filing as usize] = false);
        let mut listed: Vec<u64> = Vec::new();
        self.scan.restart();
        for (filing, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            let words = &self.filings[filing * self.stride..][..self.stride];
            let slot = words[0] >> 32;
            if !listed.contains(&slot) {
                listed.push(slot);
                self.scan.insert(&words[ROW..], slot as u32, words[1]);
            }
        }
    }

    /// Value and mask of every filing of a row, with the fewest cuts that crowd no place.
    fn pieces_with_room(&self, row: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut last = Vec::new();
        for parts in CUTS {
            let pieces = self.pieces(row, parts);
            let room = |(value, mask): &(Vec<u64>, Vec<u64>)| self.tuple_for(value, mask).1;
            if pieces.len() == last.len() || pieces.iter().all(room) {
                return pieces;
            }
            last = pieces;
        }
        last
    }

    /// Value and mask of every filing of a row whose ranges are cut into `parts` parts each.
    fn pieces(&self, row: &[u64], parts: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
        let (value, mask) = (row[..self.words].to_vec(), row[self.words..2 * self.words].to_vec());
        let mut pieces = vec![(value, mask)];
        for &(at, place) in &self.ranges {
            let (lo, hi) = bounds(row, at, place);
            let parts = cut(lo, hi, place.bits, parts.min(MAX_FILINGS / pieces.len()));
            let with = |(value, mask): &(Vec<u64>, Vec<u64>), (v, m): (u128, u128)| {
                let (mut value, mut mask) = (value.clone(), mask.clone());
                place.put(&mut value, v);
                place.put(&mut mask, m);
                (value, mask)
            };
            pieces = pieces.iter().flat_map(|p| parts.iter().map(|&part| with(p, part))).collect();
        }
        pieces
    }

    /// The most specific tuple that may have this value and has room in its place; otherwise the mask of a new one, the
    /// coarsest that does not exist yet; otherwise the tuple of the mask itself, with or without room. The flag is
    /// whether it has room.
    fn tuple_for(&self, value: &[u64], mask: &[u64]) -> (Result<u32, Vec<u64>>, bool) {
        let bits = |mask: &[u64]| mask.iter().map(|w| w.count_ones()).sum::<u32>();
        let mut best: Option<(u32, u32)> = None;
        for &index in self.order.iter().take(EXAMINED_MAX) {
            let tuple = &self.tuples[index as usize];
            let part = tuple.mask.iter().zip(mask).all(|(t, m)| t & !m == 0);
            if part
                && best.is_none_or(|(most, _)| bits(&tuple.mask) > most)
                && self.has_room(index, value)
            {
                best = Some((bits(&tuple.mask), index));
            }
        }
        if let Some((_, index)) = best {
            return (Ok(index), true);
        }
        for enough in [ENOUGH_BITS, u32::MAX] {
            let coarse = self.coarse(mask, enough);
            match self.by_mask.get(&coarse[..]) {
                None => return (Err(coarse), true),
                Some(&index) if self.has_room(index, value) => return (Ok(index), true),
                Some(_) => {}
            }
        }
        match self.by_mask.get(mask) {
            Some(&index) => (Ok(index), self.has_room(index, value)),
            None => (Err(mask.to_vec()), true),
        }
    }

    /// A part of a mask that many masks have in common: prefixes are cut to a quarter of their field's
    /// width, and once the fields so far have `enough` bits to separate entries the rest is left out.
    fn coarse(&self, mask: &[u64], enough: u32) -> Vec<u64> {
        let mut coarse = vec![0; mask.len()];
        let mut kept = 0;
        for &place in self.shape.layout.places() {
            let of_field = place.get(mask);
            let len = of_field.count_ones();
            let part = match place.bits.div_ceil(4).max(4) {
                _ if kept >= enough => 0,
                quarter if of_field == prefix_mask(place.bits, len) && len < place.bits => {
                    prefix_mask(place.bits, len / quarter * quarter)
                }
                _ => of_field,
            };
            kept += part.count_ones();
            place.put(&mut coarse, part);
        }
        coarse
    }

    /// Whether the chain under a value is below the limit.
    fn has_room(&self, tuple: u32, value: &[u64]) -> bool {
        let tuple = &self.tuples[tuple as usize];
        let first = tuple.places.first(self.hash(value, &tuple.mask));
        let filing = |number: u32| (number != 0).then_some(number);
        let next = |&number: &u32| filing(self.filing(number - 1)[0] as u32);
        std::iter::successors(filing(first), next).take(CHAIN_LIMIT).count() < CHAIN_LIMIT
    }

    fn new_tuple(&mut self, mask: &[u64]) -> u32 {
        let tuple = Tuple {
            mask: mask.into(),
            top_priority: 0,
            priorities: BTreeMap::new(),
            places: Places::new(),
        };
        let index = match self.unused.pop() {
            Some(unused) => {
                self.tuples[unused as usize] = tuple;
                unused
            }
            None => {
                self.tuples.push(tuple);
                self.tuples.len() as u32 - 1
            }
        };
        self.by_mask.insert(mask.into(), index);
        index
    }

    /// `words` are the sequence number, the tuple and the hash.
    fn new_filing(&mut self, row: &[u64], slot: u32, [seq, tuple, hash]: [u64; 3]) -> u32 {
        let filing = self.free.pop().unwrap_or_else(|| {
            self.filings.resize(self.filings.len() + self.stride, 0);
            (self.filings.len() / self.stride) as u32 - 1
        });
        let sibling = std::mem::replace(&mut self.filed[slot as usize], filing + 1);
        let words = &mut self.filings[filing as usize * self.stride..][..self.stride];
        let head = [u64::from(slot) << 32, seq, tuple | u64::from(sibling) << 32, hash];
        words[..ROW].copy_from_slice(&head);
        words[ROW..].copy_from_slice(row);
        filing
    }

    /// Puts a filing into its chain, which is sorted by falling priority, then age.
    fn link(&mut self, tuple: u32, hash: u32, filing: u32) {
        let new = self.filing(filing);
        let (priority, seq) = (self.priority(new), new[1]);
        let (mut before, mut after) = (0, self.tuples[tuple as usize].places.first(hash));
        while after != 0 {
            let other = self.filing(after - 1);
            let other_priority = self.priority(other);
            if other_priority < priority || (other_priority == priority && other[1] > seq) {
                break;
            }
            (before, after) = (after, other[0] as u32);
        }
        self.set_next(filing + 1, after);
        if before == 0 {
            self.tuples[tuple as usize].places.set(hash, filing + 1);
        } else {
            self.set_next(before, filing + 1);
        }
        *self.tuples[tuple as usize].priorities.entry(priority).or_default() += 1;
        self.reorder(tuple);
    }

    fn unlink(&mut self, tuple: u32, hash: u32, filing: u32) {
        let priority = self.priority(self.filing(filing));
        let after = self.filing(filing)[0] as u32;
        let (mut before, mut at) = (0, self.tuples[tuple as usize].places.first(hash));
        while at != 0 && at != filing + 1 {
            (before, at) = (at, self.filing(at - 1)[0] as u32);
        }
        if before == 0 {
            self.tuples[tuple as usize].places.set(hash, after);
        } else {
            self.set_next(before, after);
        }
        let priorities = &mut self.tuples[tuple as usize].priorities;
        match priorities.get_mut(&priority) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                priorities.remove(&priority);
            }
        }
        self.reorder(tuple);
    }

    fn set_next(&mut self, filing: u32, next: u32) {
        let word = &mut self.filings[(filing - 1) as usize * self.stride];
        *word = *word & !0xffff_ffff | u64::from(next);
    }

    /// Moves a tuple to its place by highest priority, or in or out with its first and last entry.
    fn reorder(&mut self, tuple: u32) {
        let top = self.tuples[tuple as usize].priorities.last_key_value().map_or(0, |(p, _)| *p);
        let old = self.tuples[tuple as usize].top_priority;
        if top == old {
            return;
        }
        if old != 0 {
            let from = self.behind(|priority| priority > old);
            if let Some(at) = self.order[from..].iter().position(|&other| other == tuple) {
                self.order.remove(from + at);
            }
        }
        self.tuples[tuple as usize].top_priority = top;
        if top != 0 {
            let at = self.behind(|priority| priority >= top);
            self.order.insert(at, tuple);
        } else {
            self.by_mask.remove(&self.tuples[tuple as usize].mask);
            self.unused.push(tuple);
        }
    }

    /// The place in the order behind the tuples of these priorities.
    fn behind(&self, is_before: impl Fn(u32) -> bool) -> usize {
        self.order.partition_point(|&tuple| is_before(self.tuples[tuple as usize].top_priority))
    }
}

/// At most `parts` prefixes (value, mask) that cover a range. The prefix that covers most beyond the range is cut
/// first.
fn cut(lo: u128, hi: u128, bits: u32, parts: usize) -> Vec<(u128, u128)> {
    // Ones in all bits from the first in which the bounds differ.
    let free = |lo: u128, hi: u128| u128::MAX.checked_shr((lo ^ hi).leading_zeros()).unwrap_or(0);
    let excess = |&(lo, hi): &(u128, u128)| free(lo, hi) - (hi - lo);
    let mut ranges = vec![(lo, hi)];
    while ranges.len() < parts {
        let most = ranges.iter_mut().max_by_key(|range| excess(range));
        let Some(range) = most.filter(|range| excess(range) > 0) else { break };
        let (lo, hi) = *range;
        let middle = hi & !(free(lo, hi) >> 1);
        *range = (lo, middle - 1);
        ranges.push((middle, hi));
    }
    let prefix = |(lo, hi): (u128, u128)| {
        let mask = ones(bits) & !free(lo, hi);
        (lo & mask, mask)
    };
    ranges.into_iter().map(prefix).collect()
}

#[cfg(test)]
mod tests;
