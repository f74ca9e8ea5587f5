use super::*;

#[test]
fn ranges_are_covered_by_few_prefixes() {
    for (lo, hi) in [(0, 255), (0, 0), (1, 255), (7, 8), (16, 31), (100, 200), (1, 254)] {
        for parts in [1, 2, 5, 14] {
            let pieces = cut(lo, hi, 8, parts);
            assert!(pieces.len() <= parts);
            let covers = |key| pieces.iter().filter(|(v, m)| key & m == *v).count();
            for key in 0..=255u128 {
                assert!(covers(key) <= 1);
                assert!(covers(key) == 1 || !(lo..=hi).contains(&key), "{lo}..{hi} {key}");
            }
            let covered = (0..=255).filter(|&key| covers(key) == 1).count() as u128;
            assert!(parts < 2 || covered <= 2 * (hi - lo + 1), "{lo}..{hi}: {covered}");
            assert!(parts < 14 || covered == hi - lo + 1, "14 prefixes make any range of 8 bits");
        }
    }
    assert_eq!(cut(0, u128::MAX, 128, 9), [(0, 0)]);
    assert_eq!(cut(1 << 127, u128::MAX, 128, 9), [(1 << 127, 1 << 127)]);
}

/// Overlapping ranges with one key below most of them: no place may have a large part of them.
#[test]
fn overlapping_ranges_do_not_crowd_a_place() {
    use crate::entry::{TableId, TableSpec};
    use crate::key::{FieldSpec, Match, MatchKind};
    let fields = vec![FieldSpec { name: "port".into(), bits: 16, kind: MatchKind::Range }];
    let spec = TableSpec::new("t", fields, 10_000);
    let shape = Arc::new(TableShape::new(&spec, TableId(0), 5).unwrap());
    let mut engine = Ternary::new(shape.clone());
    for i in 0..4000u32 {
        let lo = u128::from(i.wrapping_mul(2_654_435_761) >> 18);
        let range = Match::Range { lo, hi: 40_000 + lo };
        let row = shape.row(&[range], i + 1).unwrap();
        engine.insert(&row, i, u64::from(i), &[0]);
    }
    let steps = |key: u64| {
        let in_tuple = |&tuple: &u32| {
            let tuple = &engine.tuples[tuple as usize];
            let first = tuple.places.first(engine.hash(&[key], &tuple.mask));
            let next = |number: u32| (number != 0).then_some(number);
            std::iter::successors(next(first), |&n| next(engine.filing(n - 1)[0] as u32))
                .position(|n| engine.verify(engine.filing(n - 1), &[key]))
                .unwrap_or(0)
        };
        engine.order.iter().map(in_tuple).sum::<usize>()
    };
    let most = (0..65_536).step_by(37).map(steps).max().unwrap();
    assert!(most < 60, "{most} entries examined in vain");
    assert!(engine.order.len() < 40, "{} tuples", engine.order.len());
}

/// Beyond the tuples that an insertion examines: the same entries are found, and nothing stays behind.
#[test]
fn thousands_of_masks_are_found_and_removed() {
    use crate::entry::{TableId, TableSpec};
    use crate::key::{FieldSpec, Match, MatchKind};
    let fields = vec![FieldSpec { name: "k".into(), bits: 64, kind: MatchKind::Ternary }];
    let shape = TableShape::new(&TableSpec::new("t", fields, 10_000), TableId(0), 5).unwrap();
    let mut engine = Ternary::new(Arc::new(shape));
    let scattered = |n: u64| hash(&[n], crate::hash::Seed::FIXED);
    let entries: Vec<(u64, u64, u32)> = (0..2000)
        .map(|n| (scattered(n) & scattered(n + 9000), scattered(n + 9000), n as u32 % 7 + 1))
        .collect();
    for (n, (value, mask, priority)) in entries.iter().enumerate() {
        let field = Match::Ternary { value: u128::from(*value), mask: u128::from(*mask) };
        let row = engine.shape.row(&[field], *priority).unwrap();
        engine.insert(&row, n as u32, n as u64, &[0]);
    }
    assert!(engine.order.len() > EXAMINED_MAX, "{}", engine.order.len());
    let expected = |key: u64| {
        let hits = (0..entries.len()).filter(|&n| key & entries[n].1 == entries[n].0);
        hits.min_by_key(|&n| (u32::MAX - entries[n].2, n)).map(|n| Slot(n as u32))
    };
    let keys = || entries.iter().map(|(value, mask, _)| value | !mask).take(500);
    for key in keys() {
        assert_eq!(engine.lookup(&[key]).map(|hit| hit.slot), expected(key));
    }
    (0..entries.len()).for_each(|slot| engine.remove(slot as u32));
    assert!(keys().all(|key| engine.lookup(&[key]).is_none()));
    assert!(engine.order.is_empty() && engine.by_mask.is_empty());
    assert_eq!(engine.unused.len(), engine.tuples.len());
}
