//! Tables as generated code reads them: what is fixed for the life of a table, and the addresses that
//! change from version to version.
//!
//! A worker calls [`TableView::raw`] once per version that it pins and passes the addresses to the code; they are valid
//! while the snapshot is pinned. Reading through them is unsafe and up to the code generator; taking them is safe.
//!
//! **Exact** ([`Layout::Exact`]), with `h` the hash of [`crate::hash`] under `raw.seed`:
//!
//! ```text
//! pair = h >> raw.shift
//! loop:
//!   first, second = the cells of cell_words words at raw.cells[2 * pair * cell_words ..]
//!   for cell in first, second:
//!     if cell[0] != 0 and cell[1 ..= key_words] == key:
//!       slot, action = low32(cell[0]) - 1, high32(cell[0])
//!       data = cell[data_at ..], or if data_at is none raw.records[slot * record_words + 1 ..]
//!       hit
//!   if second[0] == 0: miss
//!   pair = (pair + 1) & raw.pair_mask
//! ```
//!
//! Compare both cells and select; branch once, on "neither". A cell never crosses a cache line. The second cell of a
//! pair is never in use where the first is not.
//!
//! **Direct** ([`Layout::Direct`]), for short keys, cells are words of 32 bits:
//!
//! ```text
//! if key >= raw.pair_mask or raw.cells[key] == 0: miss
//! slot = raw.cells[key] - 1; action, data = raw.records[slot * record_words], raw.records[.. + 1 ..]
//! ```
//!
//! **Lpm** ([`Layout::Lpm`]), cells are words of 32 bits:
//!
//! ```text
//! rest = the field in the top bits of a word (128 bits wide if the field is over 64)
//! cell = raw.cells[top root_bits of rest]; rest <<= root_bits
//! while cell has NODE:   cell = raw.cells[(cell - NODE) * 16 + top 8 bits of rest]; rest <<= 8
//! if cell has BUCKET:
//!   b = 16 words at raw.cells[(cell - BUCKET) * 16 ..]
//!   cell = b[0]
//!   for e in b[4 .. 8], b[8 .. 12], b[12 .. 16]:
//!     if (top 64 bits of rest ^ the word of 64 bits at e[0]) >> e[3] == 0: cell = e[2]
//! if cell == 0: cell = raw.zero_leaf
//! if cell == 0: miss
//! slot = cell - 1; action, data = raw.records[slot * record_words], raw.records[.. + 1 ..]
//! ```
//!
//! In a table without counters, meters, timeouts and profile, entries with equal action and data may share a record,
//! and then what is called slot here is the number of a record.
//!
//! **Scan** ([`Layout::Scan`]), for small tables of the other kinds; `raw.cells` is null in a version with
//! more entries, which is one call away ([`TableView::lookup`]):
//!
//! ```text
//! entry = raw.cells
//! loop:
//!   value, mask, ranges = entry[3 ..], entry[3 + key_words ..], entry[3 + 2 * key_words ..]
//!   if (key ^ value) & mask == 0 in all words and for the n-th range field
//!      field - ranges[2 * n] <= ranges[2 * n + 1], unsigned:
//!     slot = entry[0]; if slot == END: miss
//!     action, data = as in an lpm table
//!     hit
//!   entry += entry_words
//! ```
//!
//! Other tables are one call away: [`TableView::lookup`].

use std::ptr::null;
use std::sync::atomic::AtomicU64;

use crate::hash::Seed;
use crate::key::BitRange;
use crate::lpm;
use crate::view::{Engine, TableView};

/// Bit of an lpm cell that leads to a node.
pub const NODE: u32 = lpm::NODE;
/// Bit of an lpm cell that leads to a bucket.
pub const BUCKET: u32 = lpm::BUCKET;
/// Address bits that an lpm node consumes.
pub const NODE_BITS: u32 = lpm::STRIDE;

/// Slot of the record behind the entries of a scan, which matches everything.
pub const SCAN_END: u64 = crate::scan::END;
/// Words of an entry of a scan in front of its value.
pub const SCAN_HEAD: usize = crate::scan::HEAD;

/// The fixed part: constants for generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A hash table.
    Exact {
        /// Words of the key.
        key_words: usize,
        /// Words from cell to cell.
        cell_words: usize,
        /// Word of a cell where the data starts; `None` if it is in the record.
        data_at: Option<usize>,
        /// Words from record to record.
        record_words: usize,
    },
    /// An array by key, whose fields take up to 16 bits.
    Direct {
        /// Words from record to record.
        record_words: usize,
    },
    /// A multibit trie over one field, without exact fields beside it.
    Lpm {
        /// Position of the field in the key.
        field: BitRange,
        /// Address bits that the root consumes.
        root_bits: u32,
        /// Words from record to record.
        record_words: usize,
    },
    /// A list by falling priority, while it is short. The range fields are those of
    /// [`crate::TableShape::range_fields`].
    Scan {
        /// Words of the key.
        key_words: usize,
        /// Words from entry to entry.
        entry_words: usize,
        /// Words from record to record.
        record_words: usize,
    },
    /// Not laid out for generated code: call [`TableView::lookup`].
    Call,
}

/// The part that changes with the version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawTable {
    /// Exact: words of 64 bits. Direct, lpm: words of 32 bits. Scan: words of 64 bits, or null. Null otherwise.
    /// Starts a cache line in exact and lpm tables.
    pub cells: *const u8,
    /// `[action, data...]` by slot, `record_words` apart.
    pub records: *const u64,
    /// `[action, data...]` of the default action.
    pub default: *const u64,
    /// Last-hit times by slot in nanoseconds; null if the table keeps none.
    pub last_hits: *const AtomicU64,
    /// Exact: number of pairs of cells - 1. Direct: number of cells.
    pub pair_mask: u64,
    /// Exact: how far a hash is shifted right to get the number of a pair.
    pub shift: u32,
    /// Lpm: leaf of the prefix of length 0, 0 for none.
    pub zero_leaf: u32,
    /// Exact: seed of the hash. Not a constant of the code, which devices share.
    pub seed: Seed,
}

impl TableView {
    /// The fixed part, which generated code may use as constants.
    pub fn layout(&self) -> Layout {
        match &self.engine {
            Engine::Direct(direct) => Layout::Direct { record_words: direct.records.stride() },
            Engine::Exact(exact) => Layout::Exact {
                key_words: exact.shape.key_words,
                cell_words: exact.shape.stride,
                data_at: exact.shape.inline_data.then_some(1 + exact.shape.key_words),
                record_words: exact.records.stride(),
            },
            Engine::Lpm(lpm) if lpm.is_single() => Layout::Lpm {
                field: lpm.place,
                root_bits: lpm.root_bits,
                record_words: lpm.calls.records().stride(),
            },
            Engine::Ternary(ternary) if ternary.ranges_fit() => Layout::Scan {
                key_words: ternary.words,
                entry_words: ternary.scan.stride(),
                record_words: ternary.records.stride(),
            },
            Engine::Lpm(_) | Engine::Ternary(_) => Layout::Call,
        }
    }

    /// The addresses of this version.
    pub fn raw(&self) -> RawTable {
        let mut raw = RawTable {
            cells: null(),
            records: null(),
            default: self.default_words().as_ptr(),
            last_hits: self.last_hits().map_or(null(), |hits| hits.as_ptr()),
            pair_mask: 0,
            shift: 0,
            zero_leaf: 0,
            seed: self.shape.seed,
        };
        match &self.engine {
            Engine::Direct(direct) => {
                raw.cells = direct.cells.as_ptr().cast();
                raw.records = direct.records.as_ptr();
                raw.pair_mask = direct.cells.len() as u64;
            }
            Engine::Exact(exact) => {
                raw.cells = exact.cells.lines().as_ptr().cast();
                raw.records = exact.records.as_ptr();
                raw.pair_mask = exact.pair_mask();
                raw.shift = exact.shift;
            }
            Engine::Lpm(lpm) if lpm.is_single() => {
                let (units, zero) = lpm.read_by_code();
                raw.cells = units.as_ptr().cast();
                raw.records = lpm.calls.records().as_ptr();
                raw.zero_leaf = zero;
            }
            Engine::Ternary(ternary) => {
                if let Some(entries) = ternary.scan.entries() {
                    raw.cells = entries.as_ptr().cast();
                    raw.records = ternary.records.as_ptr();
                }
            }
            Engine::Lpm(_) => {}
        }
        raw
    }
}

#[cfg(test)]
mod tests;
