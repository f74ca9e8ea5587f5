//! The pseudo-code of the module, word for word, against `lookup`. Slices of the same vectors replace addresses, so
//! that the test needs no unsafe code.

use super::*;
use crate::hash::{Seed, hash};
use crate::scan::HEAD as SCAN_HEAD;
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
        let value = u128::from(hash(&[i], Seed::of_table(1, 0))) << 64
            | u128::from(hash(&[i], Seed::of_table(2, 0)));
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
    let Layout::Exact { key_words, cell_words, data_at, .. } = view.layout() else {
        panic!("an exact layout")
    };
    let (raw, cells) = (view.raw(), &exact.cells);
    assert_eq!(raw.cells, cells.lines().as_ptr().cast());
    assert_eq!(raw.cells as usize % 64, 0);
    let mut pair = hash(key, raw.seed) >> raw.shift;
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
        if cells.word(first + cell_words) == 0 {
            return None;
        }
        pair = (pair + 1) & raw.pair_mask;
    }
}

#[test]
fn direct_tables_read_as_written_above() {
    for bits in [1, 9, 16] {
        let tables = build(bits, MatchKind::Exact, 2, 0);
        let random = |i: u64, n: u64| hash(&[i, n], Seed::of_table(3, 0));
        let (mut hits, mut longest) = (0, 0);
        for step in 0..1500u64 {
            let value = u128::from(random(step, 1) & 31) & crate::key::ones(bits);
            let entry = Entry::new(vec![Match::Exact(value)], 5, vec![step, value as u64]);
            let update = match random(step, 2) % 3 {
                0 => Update::Delete(TableId(0), vec![Match::Exact(value)], 0),
                1 => Update::Modify(TableId(0), entry),
                _ => Update::Insert(TableId(0), entry),
            };
            drop(tables.batch(&[update], Time::ZERO));
            let snapshot = tables.snapshot();
            let view = snapshot.table(TableId(0)).unwrap();
            let Engine::Direct(direct) = &view.engine else { panic!("a direct table") };
            assert!(matches!(view.layout(), Layout::Direct { .. }));
            assert_eq!(view.raw().pair_mask as usize, direct.cells.len());
            longest = direct.cells.len();
            for key in (0..40).filter(|key| u128::from(*key) <= crate::key::ones(bits)) {
                let cell = direct.cells.get(key as usize).copied().unwrap_or(0);
                let slot = cell.checked_sub(1);
                let hit = view.lookup(&[key]);
                assert_eq!(hit.map(|hit| hit.slot.0), slot, "step {step}");
                if let (Some(hit), Some(slot)) = (hit, slot) {
                    assert_eq!((hit.action, hit.data), direct.records.get(slot));
                    assert_eq!((hit.action, hit.data[1]), (5, key));
                    hits += 1;
                }
            }
        }
        assert!(hits > 1000 && longest <= 32, "{hits} {longest}");
    }
}

/// Slot, or number of a shared record, by the pseudo-code for lpm tables.
fn read_lpm(view: &TableView, address: u128) -> Option<u32> {
    let Engine::Lpm(trie) = &view.engine else { panic!("an lpm table") };
    let Layout::Lpm { field, root_bits, .. } = view.layout() else { panic!("an lpm layout") };
    let raw = view.raw();
    let (units, _) = trie.read_by_code();
    assert_eq!(raw.cells, units.as_ptr().cast());
    let cells = |at: usize| units[at / 16].0[at % 16];
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
            let wide = u128::from(hash(&[i], Seed::of_table(1, 0))) << 64
                | u128::from(hash(&[i], Seed::of_table(2, 0)));
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
            let wide = u128::from(hash(&[i / 2], Seed::of_table(1, 0))) << 64
                | u128::from(hash(&[i], Seed::of_table(2, 0)));
            let address = wide >> (128 - bits);
            let key = view.shape().layout().pack(&[address]);
            assert_eq!(view.lookup(&key).map(|hit| hit.slot.0), read_lpm(view, address));
        }
    }
}

/// What can be prefetched: the first pair of an exact table; of a trie the line behind the root.
#[test]
fn lines_are_those_that_are_read() {
    for (bits, kind) in [
        (48, MatchKind::Exact),
        (128, MatchKind::Exact),
        (32, MatchKind::Lpm),
        (48, MatchKind::Lpm),
    ] {
        let tables = build(bits, kind, 1, 900);
        let snapshot = tables.snapshot();
        let view = snapshot.table(TableId(0)).unwrap();
        let raw = view.raw();
        let mut lines = std::collections::BTreeSet::new();
        for i in 0..2000 {
            let wide = u128::from(hash(&[i], Seed::of_table(1, 0))) << 64
                | u128::from(hash(&[i], Seed::of_table(2, 0)));
            let value = wide >> (128 - bits);
            let key = view.shape().layout().pack(&[value]);
            let line = match (view.layout(), &view.engine) {
                (Layout::Exact { cell_words, .. }, _) => {
                    Some(2 * (hash(&key, raw.seed) >> raw.shift) as usize * cell_words * 8)
                }
                (Layout::Lpm { root_bits, .. }, Engine::Lpm(trie)) => {
                    let rest = value << (128 - bits);
                    let root = (rest >> (128 - root_bits)) as usize;
                    let cell = trie.read_by_code().0[root / 16].0[root % 16];
                    let next = (rest << root_bits >> (128 - NODE_BITS)) as usize;
                    match cell {
                        node if node & NODE != 0 => {
                            Some((node - NODE) as usize * 64 + next / 16 * 64)
                        }
                        bucket if bucket & BUCKET != 0 => Some((bucket - BUCKET) as usize * 64),
                        _ => None,
                    }
                }
                _ => panic!("another layout"),
            };
            let line = line.map(|bytes| raw.cells as usize + bytes);
            assert_eq!(view.prefetch_address(&key).map(|at| at as usize), line);
            lines.extend(line);
        }
        assert!(lines.len() > 100, "{} lines", lines.len());
    }
}

/// Entries that share few records are inserted, removed and changed, one of them the prefix of length 0.
#[test]
fn lpm_tables_with_shared_records_read_as_written_above() {
    for bits in [12, 32, 48] {
        let tables = build(bits, MatchKind::Lpm, 3, 0);
        let random = |i: u64, n: u64| hash(&[i, n], Seed::of_table(3, 0));
        let mut present = std::collections::BTreeSet::new();
        let mut hits = 0;
        for step in 0..1500u64 {
            let prefix_len = [0, 8, 10, 12, bits - bits / 4, bits][(random(step, 1) % 6) as usize];
            let mask = crate::key::prefix_mask(bits, prefix_len);
            let value = u128::from(random(step % 200, 2) | (random(step, 3) & 1)) & mask;
            let matches = vec![Match::Lpm { value, prefix_len }];
            let entry = Entry::new(matches.clone(), 5, vec![random(step, 4) % 4, 7, 7]);
            let update = match (present.contains(&(value, prefix_len)), random(step, 5) % 3) {
                (true, 0) => Update::Delete(TableId(0), matches, 0),
                (true, _) => Update::Modify(TableId(0), entry),
                (false, _) => Update::Insert(TableId(0), entry),
            };
            match &update {
                Update::Delete(..) => present.remove(&(value, prefix_len)),
                _ => present.insert((value, prefix_len)),
            };
            tables.batch(&[update], Time::ZERO).unwrap();
            let snapshot = tables.snapshot();
            let view = snapshot.table(TableId(0)).unwrap();
            let Engine::Lpm(trie) = &view.engine else { panic!("an lpm table") };
            for n in 0..30 {
                let near = random(random(step, 6 + n) % 200, 2) ^ (random(step, 50 + n) & 1);
                let address = u128::from(near) & crate::key::ones(bits);
                let hit = view.lookup(&view.shape().layout().pack(&[address]));
                let found = read_lpm(view, address).map(|number| trie.calls.records().get(number));
                assert_eq!(hit.map(|hit| (hit.action, hit.data)), found, "step {step}");
                hits += u32::from(hit.is_some());
            }
            assert!(read_lpm(view, 0).is_none_or(|number| number < 5), "few records");
        }
        assert!(hits > 10_000, "{hits}");
    }
}

/// Slot by the pseudo-code for short lists; `None` where there is no list.
fn read_scan(view: &TableView, key: &[u64]) -> Option<Option<u32>> {
    let Engine::Ternary(ternary) = &view.engine else { panic!("a ternary table") };
    let Layout::Scan { key_words, entry_words, .. } = view.layout() else { panic!("a list") };
    let raw = view.raw();
    let Some(entries) = ternary.scan.entries() else {
        assert!(raw.cells.is_null());
        return None;
    };
    assert_eq!(raw.cells, entries.as_ptr().cast());
    let ranges: Vec<_> = view.shape().range_fields().to_vec();
    let matches = |entry: &&[u64]| {
        let (value, rest) = entry[SCAN_HEAD..].split_at(key_words);
        let (mask, bounds) = rest.split_at(key_words);
        let masked = (0..key_words).all(|n| (key[n] ^ value[n]) & mask[n] == 0);
        let within = |(n, field): (usize, &usize)| {
            let place = view.shape().layout().places()[*field];
            let found = place.get(key) as u64;
            found.wrapping_sub(bounds[2 * n]) <= bounds[2 * n + 1]
        };
        masked && ranges.iter().enumerate().all(within)
    };
    let slot = entries.chunks(entry_words).find(matches).expect("the end of the list")[0];
    Some((slot != SCAN_END).then_some(slot as u32))
}

/// Entries are inserted and removed, across the length where the list is dropped and the one where it is rebuilt.
#[test]
fn small_ternary_tables_read_as_written_above() {
    let fields = vec![
        FieldSpec { name: "a".into(), bits: 12, kind: MatchKind::Ternary },
        FieldSpec { name: "b".into(), bits: 16, kind: MatchKind::Range },
        FieldSpec { name: "c".into(), bits: 40, kind: MatchKind::Optional },
        FieldSpec { name: "d".into(), bits: 8, kind: MatchKind::Range },
    ];
    let actions = vec![ActionSpec { id: 5, name: "a".into(), data_words: 1 }];
    let mut spec = TableSpec { actions, ..TableSpec::new("t", fields, 64) };
    spec.default.action = 5;
    spec.default.data = vec![0];
    let tables = Tables::new(&[spec], &[], Options::default()).unwrap();
    let random = |i: u64, n: u64| hash(&[i, n], Seed::of_table(3, 0));
    let matches = |i: u64| {
        let (lo, low) = (random(i, 1) % 40, random(i, 2) % 6);
        vec![
            Match::Ternary { value: (random(i, 3) & 5).into(), mask: 5 },
            Match::Range { lo: lo.into(), hi: (lo + random(i, 4) % 60).into() },
            Match::Optional(random(i, 5).is_multiple_of(3).then_some(u128::from(random(i, 6) % 2))),
            Match::Range { lo: low.into(), hi: (low + random(i, 7) % 4).into() },
        ]
    };
    let (mut listed, mut called, mut hits) = (0, 0, 0);
    let mut present: Vec<u64> = Vec::new();
    for step in 0..400u64 {
        // Up to 24 entries, down to none, and again.
        let grow = step % 48 < 24;
        let update = if grow {
            present.push(step);
            let priority = 1 + (random(step, 8) % 5) as u32;
            let mut entry = Entry::new(matches(step), 5, vec![step]);
            entry.priority = priority;
            Update::Insert(TableId(0), entry)
        } else {
            let gone = present.remove((random(step, 9) % present.len() as u64) as usize);
            let priority = 1 + (random(gone, 8) % 5) as u32;
            Update::Delete(TableId(0), matches(gone), priority)
        };
        if tables.batch(&[update], Time::ZERO).is_err() {
            present.pop();
            continue;
        }
        let snapshot = tables.snapshot();
        let view = snapshot.table(TableId(0)).unwrap();
        for n in 0..60 {
            let r = |k: u64| u128::from(random(step * 64 + n, k));
            let key = [r(1) & 7, r(2) % 100, r(3) % 2, r(4) % 10];
            let key = view.shape().layout().pack(&key);
            match read_scan(view, &key) {
                Some(found) => {
                    let hit = view.lookup(&key).map(|hit| hit.slot.0);
                    assert_eq!(hit, found, "step {step}");
                    hits += u32::from(hit.is_some());
                    listed += 1;
                }
                None => called += 1,
            }
        }
    }
    assert!(listed > 5000 && called > 2000 && hits > 800, "{listed} {called} {hits}");
}
