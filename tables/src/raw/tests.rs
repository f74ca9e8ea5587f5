//! The pseudo-code of the module, word for word, against `lookup`. Slices stand for addresses, so
//! that the test needs no unsafe code: they are taken from the same vectors.

use super::*;
use crate::hash::hash;
use crate::time::Time;
use crate::{
    ActionSpec, Entry, FieldSpec, Match, MatchKind, Options, TableId, TableSpec, Tables, Update,
};

fn build(bits: u32, kind: MatchKind, data_words: usize, n: u64) -> Tables {
    let fields = vec![FieldSpec { name: "f".into(), bits, kind }];
    let actions = vec![
        ActionSpec { id: 0, name: "miss".into(), data_words: 0 },
        ActionSpec { id: 5, name: "a".into(), data_words },
    ];
    let spec = TableSpec { actions, ..TableSpec::new("t", fields, 1 << 16) };
    let tables =
        Tables::new(&[spec], &[], Options { seed: 11, lanes: 1, ..Options::default() }).unwrap();
    let entry = |i: u64| {
        let value = u128::from(hash(&[i], 1)) << 64 | u128::from(hash(&[i], 2));
        let value = value >> (128 - bits);
        let matches = match kind {
            MatchKind::Lpm => {
                let prefix_len = (i as u32 * 7) % (bits + 1);
                let mask = crate::key::prefix_mask(bits, prefix_len);
                Match::Lpm { value: value & mask, prefix_len }
            }
            _ => Match::Exact(value),
        };
        Update::Insert(TableId(0), Entry::new(vec![matches], 5, vec![i; data_words]))
    };
    (0..n).for_each(|i| drop(tables.batch(&[entry(i)], Time::ZERO)));
    tables
}

/// Slot and first word of data by the pseudo-code for exact tables.
fn read_exact(view: &TableView, key: &[u64]) -> Option<(u32, u64)> {
    let Engine::Exact(exact) = &view.engine else { panic!("an exact table") };
    let Layout::Exact { key_words, cell_words, data_at, seed, .. } = view.layout() else {
        panic!("an exact layout")
    };
    let (raw, cells) = (view.raw(), &exact.cells);
    assert_eq!(raw.cells, cells.lines().as_ptr().cast());
    assert_eq!(raw.cells as usize % 64, 0);
    let mut pair = hash(key, seed) >> raw.shift;
    loop {
        let first = 2 * pair as usize * cell_words;
        for at in [first, first + cell_words] {
            let head = cells.word(at);
            if head != 0 && cells.words(at + 1, key_words).eq(key.iter().copied()) {
                let slot = head as u32 - 1;
                let data = match data_at {
                    Some(word) => cells.word(at + word),
                    None => exact.records.get(slot).1[0],
                };
                return Some((slot, data));
            }
        }
        if cells.word(first) == 0 || cells.word(first + cell_words) == 0 {
            return None;
        }
        pair = (pair + 1) & raw.pair_mask;
    }
}

/// The same for lpm tables.
fn read_lpm(view: &TableView, address: u128) -> Option<u32> {
    let Engine::Lpm(trie) = &view.engine else { panic!("an lpm table") };
    let Layout::Lpm { field, root_bits, .. } = view.layout() else { panic!("an lpm layout") };
    let raw = view.raw();
    assert_eq!(raw.cells, trie.units.as_ptr().cast());
    let cells = |at: usize| trie.units[at / 16].0[at % 16];
    let mut rest = address << (128 - field.bits);
    let mut cell = cells((rest >> (128 - root_bits)) as usize);
    rest <<= root_bits;
    while cell & NODE != 0 {
        cell = cells((cell - NODE) as usize * 16 + (rest >> (128 - NODE_BITS)) as usize);
        rest <<= NODE_BITS;
    }
    if cell & BUCKET != 0 {
        let b = (cell - BUCKET) as usize * 16;
        cell = cells(b);
        for e in [b + 4, b + 8, b + 12] {
            let value = u64::from(cells(e)) | u64::from(cells(e + 1)) << 32;
            if ((rest >> 64) as u64 ^ value) >> cells(e + 3) == 0 {
                cell = cells(e + 2);
            }
        }
    }
    let leaf = if cell == 0 { raw.zero_leaf } else { cell };
    leaf.checked_sub(1)
}

#[test]
fn exact_tables_read_as_written_above() {
    for (bits, data_words) in [(48, 1), (48, 0), (48, 7), (128, 1), (128, 12), (20, 3)] {
        let tables = build(bits, MatchKind::Exact, data_words, 900);
        let snapshot = tables.snapshot();
        let view = snapshot.table(TableId(0)).unwrap();
        let mut hits = 0;
        for i in 0..2000 {
            let wide = u128::from(hash(&[i], 1)) << 64 | u128::from(hash(&[i], 2));
            let key = view.shape().layout().pack(&[wide >> (128 - bits)]);
            let hit = view.lookup(&key);
            let found = read_exact(view, &key);
            assert_eq!(hit.map(|h| h.slot.0), found.map(|f| f.0));
            if let (Some(hit), Some((_, data))) = (hit, found) {
                hits += 1;
                assert!(data_words == 0 || hit.data[0] == data);
            }
        }
        assert!(hits >= 850, "{hits}");
    }
}

#[test]
fn lpm_tables_read_as_written_above() {
    for bits in [1, 7, 16, 32, 48, 64, 65, 128] {
        let tables = build(bits, MatchKind::Lpm, 1, 900);
        let snapshot = tables.snapshot();
        let view = snapshot.table(TableId(0)).unwrap();
        for i in 0..3000 {
            let wide = u128::from(hash(&[i / 2], 1)) << 64 | u128::from(hash(&[i], 2));
            let address = wide >> (128 - bits);
            let key = view.shape().layout().pack(&[address]);
            assert_eq!(view.lookup(&key).map(|hit| hit.slot.0), read_lpm(view, address));
        }
    }
}
