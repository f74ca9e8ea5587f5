//! The exact engine: open addressing with linear probing, key and action data in one cell.
//!
//! A cell is `[action << 32 | slot + 1, key words..., data words...]`, padded so that it never
//! crosses a cache line; an empty cell starts with 0. With a small key and little data one hit is one
//! cache line. When a cell would outgrow a line, the data moves to a record by slot and a hit costs
//! at least two lines.
//!
//! A key's probe starts at an even cell, and cells are examined in pairs without a branch between the two: beyond its
//! memory accesses a lookup costs its mispredicted branches, and a pair contains the entry nearly always, so that there
//! is one branch and it is predicted.
//!
//! The table doubles beyond one half of occupancy, so its size follows the number of entries, not the
//! declared capacity, and a large but nearly empty table stays in the cache. Removal shifts the
//! following cells back, so there are no tombstones and no decay under churn.

use crate::entry::{Hit, Slot};
use crate::flat::{LINE_WORDS, Lines, Records, cell_stride};
use crate::hash::{Seed, hash, hash_iter};

type Lookup = for<'a> fn(&'a Exact, u64, &[u64]) -> Option<Hit<'a>>;

#[derive(Clone, Debug)]
pub(crate) struct Exact {
    pub(crate) cells: Lines,
    /// A hash shifted right by this is the number of a pair.
    pub(crate) shift: u32,
    mask: usize,
    len: usize,
    pub(crate) shape: CellShape,
    pub(crate) seed: Seed,
    pub(crate) records: Records,
    /// The probe made for this shape.
    lookup: Lookup,
}

/// How a cell is laid out; fixed for the life of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellShape {
    pub(crate) key_words: usize,
    pub(crate) data_words: usize,
    pub(crate) stride: usize,
    pub(crate) inline_data: bool,
}

impl CellShape {
    pub(crate) fn new(key_words: usize, data_words: usize) -> CellShape {
        let inline_data = 1 + key_words + data_words <= LINE_WORDS;
        let used = 1 + key_words + if inline_data { data_words } else { 0 };
        CellShape { key_words, data_words, stride: cell_stride(used), inline_data }
    }
}

const MIN_CELLS: usize = 8;
/// Longest run of cells in use behind which a key that packets bring may be inserted. At one half of occupancy n random
/// keys have such a run with a probability of less than n * 10^-21.
const LEARN_PROBES_MAX: usize = 256;

fn shift(cells: usize) -> u32 {
    65 - cells.ilog2()
}

impl Exact {
    pub(crate) fn new(key_words: usize, data_words: usize, seed: Seed) -> Exact {
        let shape = CellShape::new(key_words, data_words);
        // One copy of the probe for every cell size and short key, so that cells are arrays and keys
        // are compared word by word without a loop.
        let lookup: Lookup = match (shape.inline_data, shape.stride, key_words) {
            (true, 2, 1) => Exact::probe::<2, 1>,
            (true, 4, 1) => Exact::probe::<4, 1>,
            (true, 8, 1) => Exact::probe::<8, 1>,
            (true, 4, 2) => Exact::probe::<4, 2>,
            (true, 8, 2) => Exact::probe::<8, 2>,
            _ => Exact::probe_any,
        };
        Exact {
            cells: Lines::zeroed(MIN_CELLS * shape.stride),
            shift: shift(MIN_CELLS),
            mask: MIN_CELLS - 1,
            len: 0,
            shape,
            seed,
            records: Records::new(data_words),
            lookup,
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        hash(&key[..self.shape.key_words], self.seed)
    }

    /// Number of pairs - 1.
    pub(crate) fn pair_mask(&self) -> u64 {
        (self.mask >> 1) as u64
    }

    fn hash_at(&self, cell: usize) -> u64 {
        let key = self.cells.words(cell * self.shape.stride + 1, self.shape.key_words);
        hash_iter(key, self.seed)
    }

    /// The cell where the probe for this hash starts: the first of a pair.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((hash >> self.shift) as usize) << 1
    }

    /// The memory that a lookup with this hash reads first, for prefetching.
    #[inline]
    pub(crate) fn home_address(&self, hash: u64) -> *const u64 {
        let word = self.home(hash) * self.shape.stride;
        self.cells.lines()[word / LINE_WORDS].0[word % LINE_WORDS..].as_ptr()
    }

    #[inline(always)]
    pub(crate) fn lookup_hashed(&self, hash: u64, key: &[u64]) -> Option<Hit<'_>> {
        (self.lookup)(self, hash, key)
    }

    /// The two cells of pair `at`.
    #[inline(always)]
    fn pair<const STRIDE: usize>(&self, at: usize) -> Option<[&[u64; STRIDE]; 2]> {
        let lines = self.cells.lines();
        if STRIDE == LINE_WORDS {
            let [a, b] = lines.get(2 * at..2 * at + 2)? else { return None };
            return Some([&a.cells()[0], &b.cells()[0]]);
        }
        let pairs = LINE_WORDS / (2 * STRIDE);
        let cells = lines.get(at / pairs)?.cells();
        let first = at % pairs * 2;
        Some([&cells[first], &cells[first + 1]])
    }

    fn probe<const STRIDE: usize, const KEY: usize>(
        &self,
        hash: u64,
        key: &[u64],
    ) -> Option<Hit<'_>> {
        let key: &[u64; KEY] = key.first_chunk()?;
        let other = |cell: &[u64; STRIDE]| {
            let differ = (0..KEY).fold(0, |differ, i| differ | (cell[1 + i] ^ key[i]));
            (differ != 0) | (cell[0] == 0)
        };
        let mut at = (hash >> self.shift) as usize;
        // Ends because there is always an empty cell.
        loop {
            let pair = self.pair::<STRIDE>(at)?;
            let cell = pair[usize::from(other(pair[0]))];
            if !other(cell) {
                let data = cell[1 + KEY..].get(..self.shape.data_words)?;
                return Some(Exact::hit(cell[0], data));
            }
            // Probing from the front fills the first cell before the second, and removal fills holes from behind.
            if pair[1][0] == 0 {
                return None;
            }
            at = (at + 1) & (self.mask >> 1);
        }
    }

    #[inline(always)]
    fn hit(head: u64, data: &[u64]) -> Hit<'_> {
        Hit { slot: Slot((head as u32).wrapping_sub(1)), action: (head >> 32) as u32, data }
    }

    fn probe_any(&self, hash: u64, key: &[u64]) -> Option<Hit<'_>> {
        let at = self.find(hash, key)? * self.shape.stride;
        let head = self.cells.word(at);
        let data = if self.shape.inline_data {
            // Such a cell is within one line.
            let line = &self.cells.lines()[at / LINE_WORDS].0[at % LINE_WORDS..];
            &line[1 + self.shape.key_words..][..self.shape.data_words]
        } else {
            self.records.get((head as u32).wrapping_sub(1)).1
        };
        Some(Exact::hit(head, data))
    }

    fn find(&self, hash: u64, key: &[u64]) -> Option<usize> {
        let CellShape { key_words, stride, .. } = self.shape;
        let mut at = self.home(hash);
        while self.cells.word(at * stride) != 0 {
            if self.cells.words(at * stride + 1, key_words).eq(key[..key_words].iter().copied()) {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    fn empty(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        while self.cells.word(at * self.shape.stride) != 0 {
            at = (at + 1) & self.mask;
        }
        at
    }

    /// Whether a new key must not be learned because its probe would be too long: too many keys have nearly the same
    /// hash. Where the table is about to double, all keys move.
    pub(crate) fn is_crowded(&self, key: &[u64]) -> bool {
        let home = self.home(self.hash(key));
        let used = |step| self.cells.word(((home + step) & self.mask) * self.shape.stride) != 0;
        !self.is_full() && (0..self.mask.min(LEARN_PROBES_MAX)).all(used)
    }

    fn is_full(&self) -> bool {
        (self.len + 1) * 2 > self.mask + 1
    }

    /// The key must not be present. `call` is `[action, data...]`.
    pub(crate) fn insert(&mut self, key: &[u64], slot: u32, call: &[u64]) {
        if self.is_full() {
            self.grow();
        }
        let at = self.empty(self.hash(key));
        self.cells.set(at * self.shape.stride + 1, key.iter().copied());
        self.len += 1;
        self.write(at, slot, call);
    }

    pub(crate) fn modify(&mut self, key: &[u64], slot: u32, call: &[u64]) {
        if let Some(at) = self.find(self.hash(key), key) {
            self.write(at, slot, call);
        }
    }

    fn write(&mut self, at: usize, slot: u32, call: &[u64]) {
        let CellShape { key_words, stride, inline_data, .. } = self.shape;
        self.cells.set(at * stride, [call[0] << 32 | (u64::from(slot) + 1)]);
        if inline_data {
            self.cells.set(at * stride + 1 + key_words, call[1..].iter().copied());
        } else {
            self.records.set(slot, call);
        }
    }

    /// Backward-shift deletion: close the hole with later cells that may move nearer to their home.
    pub(crate) fn remove(&mut self, key: &[u64]) {
        let Some(mut hole) = self.find(self.hash(key), key) else { return };
        let stride = self.shape.stride;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            if self.cells.word(at * stride) == 0 {
                break;
            }
            let home = self.home(self.hash_at(at));
            let from_home = at.wrapping_sub(home) & self.mask;
            let from_hole = at.wrapping_sub(hole) & self.mask;
            if from_home >= from_hole {
                self.copy(at, hole);
                hole = at;
            }
        }
        self.cells.set(hole * stride, [0]);
        self.len -= 1;
    }

    fn copy(&mut self, from: usize, to: usize) {
        let stride = self.shape.stride;
        for i in 0..stride {
            let word = self.cells.word(from * stride + i);
            self.cells.set(to * stride + i, [word]);
        }
    }

    fn grow(&mut self) {
        let stride = self.shape.stride;
        let cells = (self.mask + 1) * 2;
        let old = std::mem::replace(&mut self.cells, Lines::zeroed(cells * stride));
        self.mask = cells - 1;
        self.shift = shift(cells);
        for cell in (0..cells / 2).map(|i| i * stride).filter(|&at| old.word(at) != 0) {
            let key = old.words(cell + 1, self.shape.key_words);
            let to = self.empty(hash_iter(key, self.seed));
            self.cells.set(to * stride, old.words(cell, stride));
        }
    }
}
