//! The memory that a full table takes, computed from its declaration alone.
//!
//! Counters, meters and times of last hits are allocated at the start; entries with use, and twice: readers have one
//! copy of the engine while the other is changed. The record of the control plane exists once. The size of a trie or a
//! tuple space depends on the entries, so those are typical amounts, rounded up, and not a bound.

use crate::direct::Direct;
use crate::entry::{ProfileSpec, TableId, TableSpec};
use crate::flat::cell_stride;
use crate::meter::METER_BYTES;
use crate::shape::{MatchEngine, TableShape};

/// Bytes of a word.
const WORD: u64 = 8;
/// Bytes per prefix in a trie: its part of a bucket or of a node and its copy with numbers.
const PREFIX_BYTES: u64 = 128;

/// Bytes of a table that is full, with counters for `lanes` workers. 0 for an invalid declaration.
pub fn table_bytes(spec: &TableSpec, lanes: usize) -> u64 {
    let Ok(shape) = TableShape::new(spec, TableId(0), 0) else { return 0 };
    let (words, data) = (shape.layout.words() as u64, shape.data_words as u64);
    let row = shape.row_words as u64;
    let record = (1 + data) * WORD;
    let capacity = u64::from(spec.capacity);
    let engine = match shape.engine {
        MatchEngine::Exact if Direct::suits(&shape.layout) => {
            (capacity.min(1 << 16)) * record + (1 << 18)
        }
        MatchEngine::Exact => {
            let cell = cell_stride((1 + words + data) as usize) as u64 * WORD;
            // At most one half is occupied, and the table doubles.
            (2 * capacity).next_power_of_two() * cell
        }
        MatchEngine::Lpm => capacity * (PREFIX_BYTES + record) + (1 << 18),
        MatchEngine::Ternary => {
            // A range is filed under two prefixes as a rule, everything else under one.
            let filings = 1 + u64::from(!shape.ranges.is_empty());
            capacity * (filings * (row + 4 + 2) * WORD + record + 8)
        }
    };
    let store = capacity * (row + 1 + data + 2 + 2) * WORD;
    let counters = if spec.direct_counter { counter_bytes(spec.capacity, lanes) } else { 0 };
    let meters = if spec.direct_meter.is_some() { meter_bytes(spec.capacity) } else { 0 };
    let hits = if spec.idle_timeout { capacity * WORD } else { 0 };
    2 * engine + store + counters + meters + hits
}

/// Bytes of a profile with all its members and groups.
pub fn profile_bytes(spec: &ProfileSpec) -> u64 {
    let data = spec.actions.iter().map(|action| action.data_words).max().unwrap_or(0) as u64;
    let members = u64::from(spec.capacity) * (1 + data) * WORD;
    let groups = u64::from(spec.max_groups) * u64::from(spec.max_group_size) * 4;
    2 * (members + groups)
}

/// Bytes of an array of counters.
pub fn counter_bytes(size: u32, lanes: usize) -> u64 {
    u64::from(size) * 2 * WORD * lanes.max(1) as u64
}

/// Bytes of an array of meters that are all configured.
pub fn meter_bytes(size: u32) -> u64 {
    u64::from(size) * METER_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{FieldSpec, MatchKind};

    #[test]
    fn every_part_grows_with_the_declaration() {
        let field = |kind| FieldSpec { name: "key".into(), bits: 32, kind };
        let table = |kind, capacity| TableSpec::new("t", vec![field(kind)], capacity);
        for kind in [MatchKind::Exact, MatchKind::Lpm, MatchKind::Ternary, MatchKind::Range] {
            let (small, large) = (table(kind, 1 << 10), table(kind, 1 << 20));
            let bytes = table_bytes(&large, 1);
            assert!(bytes > 100 * table_bytes(&small, 1).saturating_sub(1 << 19), "{kind:?}");
            assert!((40 << 20..600 << 20).contains(&bytes), "{kind:?}: {bytes}");
            let counted = TableSpec { direct_counter: true, idle_timeout: true, ..large };
            assert_eq!(table_bytes(&counted, 4) - bytes, (1 << 20) * (4 * 16 + 8));
        }
        assert_eq!(counter_bytes(10, 2), 320);
        assert!(meter_bytes(1 << 24) > 1 << 30);
    }
}
