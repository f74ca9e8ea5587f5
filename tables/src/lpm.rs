//! The longest-prefix engine: a multibit trie with leaf pushing and small buckets, changed in place.
//!
//! A cell is one word that stands for all addresses under some first bits. It is one of
//!
//! * a leaf: slot + 1 of the longest prefix so far, 0 for none;
//! * a node ([`NODE`]): 256 cells, chosen by the next 8 bits;
//! * a bucket ([`BUCKET`]): one cache line with up to three longer prefixes and the leaf for the rest.
//!
//! The root is an array of cells chosen by the first 16 bits. Because every prefix is pushed down into the leaves it
//! covers, a lookup never goes back: it follows nodes to the first leaf or bucket. IPv4 routes of up to 24 bits are two
//! dependent loads, and so are isolated routes of any length: a cell with few prefixes below it is a bucket instead of
//! a path of nodes, which keeps IPv6 shallow and a sparse table small.
//!
//! Inserting a prefix overwrites the leaves of shorter ones below it; removing one puts the next shorter covering
//! prefix back, which the store finds. A full bucket becomes a node; a node counts the prefixes that end in it or below
//! and is freed with the last. A prefix of length 0 would touch the whole trie, so it is stored beside it and used
//! where the trie has no leaf.
//!
//! Exact fields of the same key select the trie: their words are looked up in an exact table of groups, each with a
//! root of a single cell, so that thousands of small groups stay small.
//!
//! Costs: leaf pushing makes inserting a /8 after a million longer routes touch up to 1/256 of the trie; a node takes 1
//! KiB even with only four prefixes below it, and 2 KiB where records are shared ([`crate::calls`]).

mod unit;

use crate::calls::Calls;
use crate::entry::{Hit, Slot};
use crate::exact::Exact;
use crate::hash::Seed;
use crate::key::BitRange;
use unit::{BUCKET_ENTRIES, UNIT_SHIFT, Unit};

/// Set in a cell that leads to a node: the other bits are the number of its first unit.
pub(crate) const NODE: u32 = 1 << 31;
/// Set in a cell that leads to a bucket: the other bits are the number of its unit.
pub(crate) const BUCKET: u32 = 1 << 30;
/// Bits that a node consumes.
pub(crate) const STRIDE: u32 = 8;

const ROOT_BITS: u32 = 16;
/// Tables up to this capacity get a root of 8 bits instead: 1 KiB instead of 256 KiB.
const SMALL_CAPACITY: u32 = 256;
const NODE_UNITS: usize = 1 << (STRIDE - UNIT_SHIFT);

#[derive(Clone, Debug)]
pub(crate) struct Lpm {
    pub(crate) place: BitRange,
    words: usize,
    pub(crate) root_bits: u32,
    /// The root, then nodes and buckets.
    units: Vec<Unit>,
    /// The same with numbers of shared records + 1 for leaves, if [`Calls`] has such: generated code reads these, which
    /// saves it the step from slot to record. Changes use `units`, whose leaves identify the entry.
    numbered: Option<Vec<Unit>>,
    /// Prefixes that end in each node or below, by number of its first unit.
    counts: Vec<u32>,
    free_nodes: Vec<u32>,
    free_buckets: Vec<u32>,
    /// Leaf of the prefix of length 0, without groups.
    zero: u32,
    groups: Option<Groups>,
    /// Prefix length by slot.
    lens: Vec<u8>,
    pub(crate) calls: Calls,
}

/// One trie per combination of the exact fields.
#[derive(Clone, Debug)]
struct Groups {
    /// The exact fields' bits of a key.
    mask: Box<[u64]>,
    /// Masked key to `[root | leaf of length 0 << 32]`. The root is a unit whose first cell is the
    /// trie; its number is also the slot of the group.
    roots: Exact,
}

/// The first `len` bits of `bits`, which start at the top; the bits before them are consumed.
#[derive(Clone, Copy)]
struct Prefix {
    bits: u128,
    len: u32,
}

impl Prefix {
    /// The next bits as a number; there may be none.
    fn index(self, bits: u32) -> usize {
        self.bits.checked_shr(128 - bits).unwrap_or(0) as usize
    }

    fn after(self, bits: u32) -> Prefix {
        Prefix { bits: self.bits << bits, len: self.len - bits }
    }

    /// The cells that this prefix covers in an array of `2^bits`, if it ends there.
    fn covers(self, first: usize, bits: u32) -> std::ops::Range<usize> {
        let at = first + self.index(bits);
        at..at + (1 << (bits - self.len))
    }
}

/// First cell of a node.
#[inline(always)]
fn cells_of(node: u32) -> usize {
    ((node & !NODE) as usize) << UNIT_SHIFT
}

/// A cell with the number of its leaf's record + 1 in place of the slot + 1.
fn numbered(calls: &Calls, cell: u32) -> u32 {
    match cell {
        0 => 0,
        _ if cell & (NODE | BUCKET) != 0 => cell,
        leaf => calls.number(leaf - 1) + 1,
    }
}

impl Lpm {
    pub(crate) fn new(
        words: usize,
        places: &[BitRange],
        field: usize,
        capacity: u32,
        calls: Calls,
        seed: Seed,
    ) -> Lpm {
        let place = places[field];
        let grouped = places.len() > 1;
        let widest = if capacity <= SMALL_CAPACITY { 8 } else { ROOT_BITS };
        let root_bits = if grouped { 0 } else { place.bits.clamp(UNIT_SHIFT, widest) };
        let groups = grouped.then(|| {
            let mut mask = vec![0; words];
            let exact = places.iter().enumerate().filter(|(i, _)| *i != field);
            exact.for_each(|(_, place)| place.put(&mut mask, place.ones()));
            Groups { mask: mask.into(), roots: Exact::new(words, 1, seed) }
        });
        let root_units = if grouped { 0 } else { 1 << (root_bits - UNIT_SHIFT) };
        Lpm {
            place,
            words,
            root_bits,
            numbered: (calls.is_shared() && !grouped).then(|| vec![Unit::EMPTY; root_units]),
            units: vec![Unit::EMPTY; root_units],
            counts: vec![0; root_units],
            free_nodes: Vec::new(),
            free_buckets: Vec::new(),
            zero: 0,
            groups,
            lens: Vec::new(),
            calls,
        }
    }

    /// True if there are no exact fields beside the prefix.
    pub(crate) fn is_single(&self) -> bool {
        self.groups.is_none()
    }

    #[inline(always)]
    fn cell(&self, at: usize) -> u32 {
        self.units[at >> UNIT_SHIFT].0[at % (1 << UNIT_SHIFT)]
    }

    fn set_cell(&mut self, at: usize, cell: u32) {
        let (unit, place) = (at >> UNIT_SHIFT, at % (1 << UNIT_SHIFT));
        self.units[unit].0[place] = cell;
        if let Some(copy) = &mut self.numbered {
            copy[unit].0[place] = numbered(&self.calls, cell);
        }
    }

    fn set_bucket(&mut self, number: u32, bucket: Unit) {
        self.units[number as usize] = bucket;
        if let Some(copy) = &mut self.numbered {
            copy[number as usize] = bucket.map(|leaf| numbered(&self.calls, leaf));
        }
    }

    /// What generated code reads: the units, and the leaf of the prefix of length 0.
    #[inline]
    pub(crate) fn read_by_code(&self) -> (&[Unit], u32) {
        match &self.numbered {
            Some(copy) => (copy, numbered(&self.calls, self.zero)),
            None => (&self.units, self.zero),
        }
    }

    /// The memory that generated code reads behind the root, which is small: a line of a node, or a bucket.
    #[inline]
    pub(crate) fn behind_root(&self, key: &[u64]) -> Option<*const u8> {
        if self.groups.is_some() || self.place.bits > 64 {
            return None;
        }
        let (units, _) = self.read_by_code();
        let rest = self.narrow(key);
        let at = (rest >> (64 - self.root_bits)) as usize;
        let cell = units[at >> UNIT_SHIFT].0[at % (1 << UNIT_SHIFT)];
        let unit = if cell & NODE != 0 {
            let next = (rest << self.root_bits >> (64 - STRIDE)) as usize;
            (cells_of(cell) + next) >> UNIT_SHIFT
        } else if cell & BUCKET != 0 {
            (cell & !BUCKET) as usize
        } else {
            return None;
        };
        Some(units.get(unit..)?.as_ptr().cast())
    }

    /// Bits of lower fields may follow the address in the shifted word; they only choose among cells
    /// that are equal because no prefix is longer than the field.
    #[inline]
    pub(crate) fn lookup(&self, key: &[u64]) -> Option<Hit<'_>> {
        match &self.groups {
            Some(groups) => self.lookup_grouped(groups, key),
            None if self.place.bits <= 32 => self.lookup_narrow(key),
            None => self.lookup_wide(key),
        }
    }

    #[inline(never)]
    fn lookup_narrow(&self, key: &[u64]) -> Option<Hit<'_>> {
        let (cell, rest) = self.walk(None, self.narrow(key));
        let leaf = match cell & BUCKET {
            0 => cell,
            _ => self.units[(cell & !BUCKET) as usize].choose_narrow((rest >> 32) as u32),
        };
        self.hit(leaf, self.zero)
    }

    #[inline(never)]
    fn lookup_wide(&self, key: &[u64]) -> Option<Hit<'_>> {
        let (cell, rest) = match self.place.bits {
            0..=64 => self.walk(None, self.narrow(key)),
            _ => self.walk_wide(None, self.wide(key)),
        };
        self.hit(self.leaf(cell, rest), self.zero)
    }

    #[inline(always)]
    fn leaf(&self, cell: u32, rest: u64) -> u32 {
        if cell & BUCKET != 0 { self.units[(cell & !BUCKET) as usize].choose(rest) } else { cell }
    }

    #[inline(never)]
    fn lookup_grouped(&self, groups: &Groups, key: &[u64]) -> Option<Hit<'_>> {
        let (root, zero) = groups.find(&key[..self.words])?;
        let (cell, rest) = match self.place.bits {
            0..=64 => self.walk(Some(root), self.narrow(key)),
            _ => self.walk_wide(Some(root), self.wide(key)),
        };
        self.hit(self.leaf(cell, rest), zero)
    }

    #[inline(always)]
    fn hit(&self, leaf: u32, zero: u32) -> Option<Hit<'_>> {
        let slot = if leaf == 0 { zero } else { leaf }.checked_sub(1)?;
        let (action, data) = self.calls.get(slot);
        Some(Hit { slot: Slot(slot), action, data })
    }

    /// An address of up to 64 bits at the top of a word.
    #[inline(always)]
    fn narrow(&self, key: &[u64]) -> u64 {
        let BitRange { word, shift, bits } = self.place;
        key[word] << ((64 - shift - bits) & 63)
    }

    /// A wider one at the top of two.
    #[inline(always)]
    fn wide(&self, key: &[u64]) -> u128 {
        let BitRange { word, bits, .. } = self.place;
        let address = u128::from(key[word]) | u128::from(key[word + 1]) << 64;
        address << ((128 - bits) & 127)
    }

    /// Follows nodes: the first leaf or bucket, and the bits of the address after it. The address is
    /// in the top bits of `rest`.
    #[inline(always)]
    fn walk(&self, root: Option<u32>, mut rest: u64) -> (u32, u64) {
        let mut cell = match root {
            Some(root) => self.units[root as usize].0[0],
            None => self.cell((rest >> (64 - self.root_bits)) as usize),
        };
        rest <<= self.root_bits;
        while cell & NODE != 0 {
            cell = self.cell(cells_of(cell) + (rest >> (64 - STRIDE)) as usize);
            rest <<= STRIDE;
        }
        (cell, rest)
    }

    /// The same for addresses of more than 64 bits.
    #[inline(always)]
    fn walk_wide(&self, root: Option<u32>, mut rest: u128) -> (u32, u64) {
        let mut cell = match root {
            Some(root) => self.units[root as usize].0[0],
            None => self.cell((rest >> (128 - self.root_bits)) as usize),
        };
        rest <<= self.root_bits;
        while cell & NODE != 0 {
            cell = self.cell(cells_of(cell) + (rest >> (128 - STRIDE)) as usize);
            rest <<= STRIDE;
        }
        (cell, (rest >> 64) as u64)
    }

    fn prefix(&self, row: &[u64]) -> Prefix {
        let bits = self.place.get(row) << (128 - self.place.bits);
        Prefix { bits, len: row[self.words] as u32 }
    }

    pub(crate) fn insert(&mut self, row: &[u64], slot: u32, call: &[u64]) {
        let prefix = self.prefix(row);
        if self.lens.len() <= slot as usize {
            self.lens.resize(slot as usize + 1, 0);
        }
        self.lens[slot as usize] = prefix.len as u8;
        self.calls.set(slot, call);
        let root = self.root_for_insert(row, prefix.len, slot + 1);
        if prefix.len == 0 {
            return;
        }
        if prefix.len <= self.root_bits {
            self.push(prefix.covers(0, self.root_bits), slot + 1);
        } else {
            self.add(root + prefix.index(self.root_bits), prefix.after(self.root_bits), slot + 1);
        }
    }

    /// Adds a prefix that ends below the cell at `at`.
    fn add(&mut self, mut at: usize, mut prefix: Prefix, leaf: u32) {
        loop {
            let cell = self.cell(at);
            if cell & NODE != 0 {
                self.counts[(cell & !NODE) as usize] += 1;
                if prefix.len <= STRIDE {
                    return self.push(prefix.covers(cells_of(cell), STRIDE), leaf);
                }
                at = cells_of(cell) + prefix.index(STRIDE);
                prefix = prefix.after(STRIDE);
                continue;
            }
            let (rest, mut entries) = match cell & BUCKET {
                0 => (cell, Vec::new()),
                _ => {
                    let bucket = self.units[(cell & !BUCKET) as usize];
                    (bucket.0[0], bucket.entries().collect())
                }
            };
            if prefix.len > 64 || entries.len() == BUCKET_ENTRIES {
                self.split(at, rest, &entries);
                continue;
            }
            entries.push(((prefix.bits >> 64) as u64, leaf, prefix.len));
            entries.sort_by_key(|entry| entry.2);
            let number = if cell & BUCKET == 0 { self.new_bucket() } else { cell & !BUCKET };
            self.set_bucket(number, Unit::bucket(rest, &entries));
            return self.set_cell(at, number | BUCKET);
        }
    }

    /// Replaces a leaf or a bucket by an equivalent node.
    fn split(&mut self, at: usize, rest: u32, entries: &[(u64, u32, u32)]) {
        let old = self.cell(at);
        if old & BUCKET != 0 {
            self.free_buckets.push(old & !BUCKET);
        }
        let node = self.new_node(rest);
        self.set_cell(at, node | NODE);
        for &(value, leaf, len) in entries {
            self.add(at, Prefix { bits: u128::from(value) << 64, len }, leaf);
        }
    }

    /// Puts a prefix into cells it covers, in place of leaves of shorter ones, all the way down.
    fn push(&mut self, cells: std::ops::Range<usize>, leaf: u32) {
        let len = self.lens[leaf as usize - 1];
        let shorter = |lens: &[u8], old: u32| old == 0 || lens[old as usize - 1] <= len;
        for at in cells {
            let cell = self.cell(at);
            if cell & NODE != 0 {
                self.push(cells_of(cell)..cells_of(cell) + (1 << STRIDE), leaf);
            } else if cell & BUCKET != 0 {
                let bucket = self.units[(cell & !BUCKET) as usize];
                if shorter(&self.lens, bucket.0[0]) {
                    self.set_bucket(cell & !BUCKET, bucket.with_rest(leaf));
                }
            } else if shorter(&self.lens, cell) {
                self.set_cell(at, leaf);
            }
        }
    }

    pub(crate) fn modify(&mut self, row: &[u64], slot: u32, call: &[u64]) {
        self.calls.set(slot, call);
        let prefix = self.prefix(row);
        if self.numbered.is_none() || prefix.len == 0 {
            return;
        }
        // The leaves stay, the numbers of their records do not.
        let Some(root) = self.root_of(row) else { return };
        if prefix.len <= self.root_bits {
            return self.replace(prefix.covers(0, self.root_bits), slot + 1, slot + 1);
        }
        let mut at = root + prefix.index(self.root_bits);
        let mut prefix = prefix.after(self.root_bits);
        while self.cell(at) & NODE != 0 {
            let first = cells_of(self.cell(at));
            if prefix.len <= STRIDE {
                return self.replace(prefix.covers(first, STRIDE), slot + 1, slot + 1);
            }
            at = first + prefix.index(STRIDE);
            prefix = prefix.after(STRIDE);
        }
        if self.cell(at) & BUCKET != 0 {
            let number = self.cell(at) & !BUCKET;
            self.set_bucket(number, self.units[number as usize]);
        }
    }

    /// `covering` is the leaf of the longest shorter prefix over this one, 0 for none.
    pub(crate) fn remove(&mut self, row: &[u64], slot: u32, covering: u32) {
        let prefix = self.prefix(row);
        let Some(root) = self.root_for_remove(row, prefix.len) else { return };
        // The prefix of length 0 is not in the trie and must not get in.
        let in_trie = covering > 0 && self.lens[covering as usize - 1] > 0;
        let covering = if in_trie { covering } else { 0 };
        if prefix.len > self.root_bits {
            let at = root + prefix.index(self.root_bits);
            self.take(at, prefix.after(self.root_bits), slot + 1, covering);
        } else if prefix.len > 0 {
            self.replace(prefix.covers(0, self.root_bits), slot + 1, covering);
        }
        self.calls.remove(slot);
        self.drop_group_if_empty(row, root);
    }

    /// Removes a prefix that ends below the cell at `at`. A node without prefixes has the same leaf everywhere, which
    /// replaces the node in its own cell.
    fn take(&mut self, at: usize, prefix: Prefix, old: u32, new: u32) {
        let cell = self.cell(at);
        if cell & NODE != 0 {
            let first = cells_of(cell);
            if prefix.len <= STRIDE {
                self.replace(prefix.covers(first, STRIDE), old, new);
            } else {
                self.take(first + prefix.index(STRIDE), prefix.after(STRIDE), old, new);
            }
            let count = &mut self.counts[(cell & !NODE) as usize];
            *count -= 1;
            if *count == 0 {
                let leaf = self.cell(first);
                self.set_cell(at, leaf);
                self.free_nodes.push(cell & !NODE);
            }
        } else if cell & BUCKET != 0 {
            let number = cell & !BUCKET;
            let bucket = self.units[number as usize];
            let left: Vec<_> = bucket.entries().filter(|entry| entry.1 != old).collect();
            if left.is_empty() {
                self.set_cell(at, bucket.0[0]);
                self.free_buckets.push(number);
            } else {
                self.set_bucket(number, Unit::bucket(bucket.0[0], &left));
            }
        }
    }

    fn replace(&mut self, cells: std::ops::Range<usize>, old: u32, new: u32) {
        for at in cells {
            let cell = self.cell(at);
            if cell & NODE != 0 {
                self.replace(cells_of(cell)..cells_of(cell) + (1 << STRIDE), old, new);
            } else if cell & BUCKET != 0 {
                let bucket = self.units[(cell & !BUCKET) as usize];
                if bucket.0[0] == old {
                    self.set_bucket(cell & !BUCKET, bucket.with_rest(new));
                }
            } else if cell == old {
                self.set_cell(at, new);
            }
        }
    }

    fn new_node(&mut self, leaf: u32) -> u32 {
        let node = self.free_nodes.pop().unwrap_or_else(|| self.more_units(NODE_UNITS));
        self.units[node as usize..][..NODE_UNITS].fill(Unit([leaf; 1 << UNIT_SHIFT]));
        if let Some(copy) = &mut self.numbered {
            let leaf = numbered(&self.calls, leaf);
            copy[node as usize..][..NODE_UNITS].fill(Unit([leaf; 1 << UNIT_SHIFT]));
        }
        node
    }

    fn new_bucket(&mut self) -> u32 {
        self.free_buckets.pop().unwrap_or_else(|| self.more_units(1))
    }

    fn more_units(&mut self, n: usize) -> u32 {
        let first = self.units.len();
        self.units.resize(first + n, Unit::EMPTY);
        if let Some(copy) = &mut self.numbered {
            copy.resize(first + n, Unit::EMPTY);
        }
        self.counts.resize(first + n, 0);
        first as u32
    }

    /// First cell of the root for a row; makes the group if there is none, and notes a prefix of
    /// length 0. A group's count is that of its root unit.
    fn root_for_insert(&mut self, row: &[u64], len: u32, leaf: u32) -> usize {
        let Some(groups) = &self.groups else {
            self.zero = if len == 0 { leaf } else { self.zero };
            return 0;
        };
        let key = groups.key(&row[..self.words]);
        let found = groups.find(&key);
        let (root, zero) = found.unwrap_or_else(|| (self.new_bucket(), 0));
        let zero = if len == 0 { leaf } else { zero };
        if let Some(groups) = &mut self.groups {
            groups.set(&key, root, zero, found.is_none());
        }
        if found.is_none() {
            self.set_bucket(root, Unit::EMPTY);
        }
        self.counts[root as usize] += 1;
        (root as usize) << UNIT_SHIFT
    }

    /// First cell of the root for a row; removes a prefix of length 0.
    fn root_for_remove(&mut self, row: &[u64], len: u32) -> Option<usize> {
        let Some(groups) = &mut self.groups else {
            self.zero = if len == 0 { 0 } else { self.zero };
            return Some(0);
        };
        let key = groups.key(&row[..self.words]);
        let (root, _) = groups.find(&key)?;
        if len == 0 {
            groups.set(&key, root, 0, false);
        }
        Some((root as usize) << UNIT_SHIFT)
    }

    /// First cell of the root for a row that is in the table.
    fn root_of(&self, row: &[u64]) -> Option<usize> {
        let Some(groups) = &self.groups else { return Some(0) };
        let (root, _) = groups.find(&groups.key(&row[..self.words]))?;
        Some((root as usize) << UNIT_SHIFT)
    }

    fn drop_group_if_empty(&mut self, row: &[u64], root: usize) {
        let Some(groups) = &mut self.groups else { return };
        let unit = root >> UNIT_SHIFT;
        self.counts[unit] -= 1;
        if self.counts[unit] == 0 {
            let key = groups.key(&row[..self.words]);
            groups.roots.remove(&key);
            self.free_buckets.push(unit as u32);
        }
    }
}

impl Groups {
    fn key(&self, words: &[u64]) -> Vec<u64> {
        words.iter().zip(&self.mask).map(|(word, mask)| word & mask).collect()
    }

    /// Root and leaf of length 0 for a key, masked or not.
    #[inline(always)]
    fn find(&self, key: &[u64]) -> Option<(u32, u32)> {
        let mut masked = [0; crate::key::MAX_KEY_WORDS];
        for ((to, from), mask) in masked.iter_mut().zip(key).zip(&self.mask) {
            *to = from & mask;
        }
        let key = &masked[..key.len()];
        let hit = self.roots.lookup_hashed(self.roots.hash(key), key)?;
        Some((hit.data[0] as u32, (hit.data[0] >> 32) as u32))
    }

    fn set(&mut self, key: &[u64], root: u32, zero: u32, new: bool) {
        let call = [0, u64::from(root) | u64::from(zero) << 32];
        if new {
            self.roots.insert(key, root, &call);
        } else {
            self.roots.modify(key, root, &call);
        }
    }
}
