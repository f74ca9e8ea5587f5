//! Random tables and batches, done by the engines and by the oracle, and compared.
//!
//! The fuzz target `tables` (`tests/src/fuzz`) has this file too, by its path.

use std::sync::Arc;

use super::linear::{Oracle, Refused};

use proptest::prelude::*;
use wireyard_tables::meter::{MeterConfig, MeterUnit};
use wireyard_tables::time::Time;
use wireyard_tables::{
    ActionCall, ActionSpec, DirectMeter, Entry, EntryError, FieldSpec, Hit, Match, MatchKind,
    Options, Snapshot, TableId, TableSpec, Tables, Target, Update,
};

fn ones(bits: u32) -> u128 {
    u128::MAX >> (128 - bits)
}

/// A value of a field: corner cases, near neighbours, and a few random ones that come up again.
fn value(raw: u64, bits: u32) -> u128 {
    let (class, x) = (raw % 8, raw >> 3);
    let value = match class {
        0 => 0,
        1 => u128::MAX,
        2 => 1 << (x % u64::from(bits)),
        3 => u128::from(x % 4),
        4 => u128::from(x % 8) << bits.saturating_sub(3),
        _ => {
            let word = (x % 6 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            u128::from(word).wrapping_mul(0x1234_5678_9abc_def1_1357_9bdf_0246_8ace)
        }
    };
    value & ones(bits)
}

fn prefix_mask(bits: u32, len: u32) -> u128 {
    if len == 0 { 0 } else { ones(bits) >> (bits - len) << (bits - len) }
}

fn match_of(field: &FieldSpec, raw: [u64; 2]) -> Match {
    let (bits, v) = (field.bits, value(raw[0], field.bits));
    match (field.kind, raw[1] % 8) {
        (MatchKind::Exact, _) | (_, 0) => Match::Exact(v),
        (_, 1) => Match::Any,
        (MatchKind::Lpm, n) => {
            let lens = [0, 1, bits / 3, bits / 2, bits - bits / 8, bits - 1, bits];
            let prefix_len = match n {
                2 => (raw[1] >> 3) as u32 % (bits + 1),
                _ => lens[(raw[1] >> 3) as usize % lens.len()],
            };
            Match::Lpm { value: v & prefix_mask(bits, prefix_len), prefix_len }
        }
        (MatchKind::Ternary, n) => {
            let prefix = prefix_mask(bits, (raw[1] >> 3) as u32 % (bits + 1));
            let mask = if n % 2 == 0 { prefix } else { value(raw[1] >> 3, bits) };
            Match::Ternary { value: v & mask, mask }
        }
        (MatchKind::Range, _) => {
            let other = value(raw[1] >> 3, bits);
            Match::Range { lo: v.min(other), hi: v.max(other) }
        }
        (MatchKind::Optional, _) => Match::Optional(Some(v)),
    }
}

/// Keys that are near an entry's own values, or arbitrary.
fn probe(fields: &[FieldSpec], entry: Option<&Entry>, raw: u64) -> Vec<u128> {
    let near = |i: usize, bits: u32| match entry.map(|entry| entry.matches[i]) {
        Some(Match::Exact(v) | Match::Optional(Some(v))) => v,
        Some(Match::Lpm { value, .. } | Match::Ternary { value, .. }) => value,
        Some(Match::Range { lo, hi }) => {
            if raw & 1 == 0 {
                lo
            } else {
                hi
            }
        }
        _ => value(raw.rotate_left(i as u32 * 7), bits),
    };
    let fields = fields.iter().enumerate();
    fields
        .map(|(i, field)| {
            let noise = match (raw >> (3 + 2 * i)) % 4 {
                0 => 1,
                1 => value(raw >> 9, field.bits),
                _ => 0,
            };
            (near(i, field.bits) ^ noise) & ones(field.bits)
        })
        .collect()
}

/// What is done next, as raw numbers.
#[derive(Clone, Debug)]
pub(super) struct Step {
    kind: u8,
    table: u8,
    raw: [u64; 10],
    ends_batch: bool,
}

/// A step of the run.
pub(super) fn step() -> impl Strategy<Value = Step> {
    (0..20u8, 0..2u8, any::<[u64; 10]>(), prop::bool::weighted(0.5))
        .prop_map(|(kind, table, raw, ends_batch)| Step { kind, table, raw, ends_batch })
}

fn kinds(engine: u8, n: usize) -> impl Strategy<Value = Vec<MatchKind>> {
    use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
    let overlapping = prop::sample::select(vec![Ternary, Range, Optional, Exact, Ternary, Range]);
    (prop::collection::vec(overlapping, n), any::<prop::sample::Index>()).prop_map(
        move |(mut kinds, at)| {
            match engine {
                0 => kinds.fill(Exact),
                1 => kinds.fill(Exact),
                _ if n > 0 => kinds[0] = Ternary,
                _ => {}
            }
            // One lpm field, in a lpm table and in half of the ternary tables.
            if n > 0 && (engine == 1 || engine == 3) {
                kinds[at.index(n)] = Lpm;
            }
            kinds
        },
    )
}

/// A table.
pub(super) fn spec() -> impl Strategy<Value = TableSpec> {
    let bits = prop_oneof![1..=16u32, Just(32), Just(48), 1..=128u32, Just(128), Just(64)];
    let fields = (0..4u8, 0..4usize).prop_flat_map(move |(engine, n)| {
        let n = if engine == 0 { n } else { n.max(1) };
        (prop::collection::vec(bits.clone(), n), kinds(engine, n))
    });
    let capacity = prop_oneof![1..6u32, Just(40), Just(1000)];
    (fields, capacity, 0..10usize).prop_map(|((bits, kinds), capacity, data_words)| {
        let field = |(i, (bits, kind))| FieldSpec { name: format!("f{i}"), bits, kind };
        let fields = bits.into_iter().zip(kinds).enumerate().map(field).collect();
        let action = |(id, data_words)| ActionSpec { id, name: format!("a{id}"), data_words };
        let actions = [(0, 0), (3, data_words), (7, data_words / 2)].map(action).into();
        let direct_meter =
            (capacity > 5).then_some(DirectMeter { unit: MeterUnit::Bytes, two_rates: true });
        TableSpec { actions, direct_meter, ..TableSpec::new("t", fields, capacity) }
    })
}

fn call(spec: &TableSpec, raw: u64) -> ActionCall {
    let action = &spec.actions[raw as usize % 3];
    let data = (0..action.data_words as u64).map(|i| raw.wrapping_mul(i + 1)).collect();
    ActionCall { action: action.id, data }
}

fn rates(raw: u64) -> Option<MeterConfig> {
    let (cir, cbs) = (raw % 1000, 1 + raw % 7);
    (!raw.is_multiple_of(3)).then_some(MeterConfig::SingleRate { cir, cbs, ebs: 0 })
}

/// The update a step stands for. Deletes and modifies mostly aim at entries that exist.
fn update(spec: &TableSpec, oracle: &Oracle, step: &Step) -> Update {
    let table = TableId(u32::from(step.table));
    let overlaps = spec.fields.iter().any(|field| {
        matches!(field.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
    });
    let raw = &step.raw;
    let field = |(i, field)| match_of(field, [raw[2 * i], raw[2 * i + 1]]);
    let entry = Entry {
        matches: spec.fields.iter().enumerate().map(field).collect(),
        priority: if overlaps { 1 + (raw[8] % 5) as u32 } else { 0 },
        target: Target::Action(call(spec, raw[9])),
        idle_timeout: None,
        meter: rates(raw[6]).filter(|_| spec.direct_meter.is_some()),
    };
    let known = oracle.entries().len().checked_sub(1).map(|last| {
        let known = &oracle.entries()[(raw[7] % (last as u64 + 1)) as usize];
        Entry { target: entry.target.clone(), meter: entry.meter, ..known.clone() }
    });
    match (step.kind, known) {
        (0..4, Some(known)) => Update::Delete(table, known.matches, known.priority),
        (4..7, Some(known)) => Update::Modify(table, known),
        (7, _) => Update::Delete(table, entry.matches, entry.priority),
        (8, _) => Update::Modify(table, entry),
        (9, _) => Update::SetDefault(table, Some(call(spec, raw[9]))),
        (10, Some(known)) => Update::Insert(table, known),
        _ => Update::Insert(table, entry),
    }
}

fn apply(oracle: &mut Oracle, update: &Update) -> Result<(), Refused> {
    match update {
        Update::Insert(_, entry) => oracle.insert(entry.clone()),
        Update::Modify(_, entry) => oracle.modify(entry.clone()),
        Update::Delete(_, matches, priority) => oracle.delete(matches, *priority),
        Update::SetDefault(_, Some(call)) => {
            oracle.set_default(call.clone());
            Ok(())
        }
        other => panic!("the test makes no {other:?}"),
    }
}

fn agree(refused: Refused, error: &EntryError) -> bool {
    matches!(
        (refused, error),
        (Refused::Full, EntryError::Full { .. })
            | (Refused::Duplicate, EntryError::Duplicate)
            | (Refused::NotFound, EntryError::NotFound)
    )
}

fn compare(snapshot: &Snapshot, oracles: &[Oracle], specs: &[TableSpec], raw: u64) {
    for (i, (oracle, spec)) in oracles.iter().zip(specs).enumerate() {
        let view = snapshot.table(TableId(i as u32)).unwrap();
        assert_eq!(view.len() as usize, oracle.entries().len());
        let arbitrary = std::iter::repeat_n(None, 8);
        for (n, entry) in oracle.entries().iter().map(Some).chain(arbitrary).enumerate() {
            let raw = raw.wrapping_add(n as u64).wrapping_mul(0x2545_f491_4f6c_dd1d);
            let values = probe(&spec.fields, entry, raw);
            let wanted = oracle.action(&values).unwrap();
            let key = view.shape().layout().pack(&values);
            let (action, data) = match view.lookup(&key) {
                Some(Hit { action, data, .. }) => (action, data),
                None => view.default_action(),
            };
            assert_eq!(action, wanted.action, "key {values:x?}");
            assert_eq!(&data[..wanted.data.len()], wanted.data, "key {values:x?}");
            assert_eq!(view.lookup(&key).is_some(), oracle.lookup(&values).is_some());
        }
    }
}

/// What is read back is in the oracle's order, leads to the same entries, and each has its own slot.
fn read_back(tables: &Tables, oracles: &[Oracle], specs: &[TableSpec]) {
    for (i, (oracle, spec)) in oracles.iter().zip(specs).enumerate() {
        let table = TableId(i as u32);
        let entries = tables.entries(table).unwrap();
        assert_eq!(entries.len(), oracle.entries().len());
        let mut slots = std::collections::BTreeSet::new();
        for ((slot, entry), wanted) in entries.iter().zip(oracle.entries()) {
            assert!(slot.0 < spec.capacity && slots.insert(*slot));
            let found = tables.entry(table, &wanted.matches, wanted.priority).unwrap();
            assert_eq!(&found, &(*slot, entry.clone()));
            assert_eq!(entry.target, wanted.target);
            assert_eq!(entry.meter, wanted.meter);
            assert_eq!(tables.entry_at(table, *slot).as_ref(), Ok(entry));
            let again = tables.entry(table, &entry.matches, entry.priority).unwrap();
            assert_eq!(&again.0, slot);
        }
    }
}

/// Does the steps on tables and oracles.
///
/// # Panics
/// They differ.
pub(super) fn run(specs: &[TableSpec], steps: &[Step]) {
    let tables =
        Tables::new(specs, &[], Options { seed: 7, lanes: 1, ..Options::default() }).unwrap();
    let mut oracles: Vec<Oracle> = specs.iter().map(Oracle::new).collect();
    let mut held: Vec<(Arc<Snapshot>, Vec<Oracle>)> = Vec::new();
    let mut reader = tables.reader();
    for steps in steps.chunk_by(|a, _| !a.ends_batch) {
        let mut after = oracles.clone();
        let mut batch = Vec::new();
        let mut refused = None;
        for (n, step) in steps.iter().enumerate() {
            let at = step.table as usize;
            let update = update(&specs[at], &after[at], step);
            if refused.is_none() {
                let outcome = apply(&mut after[at], &update);
                refused = outcome.err().map(|refused| (n, refused));
            }
            batch.push(update);
        }
        match (tables.batch(&batch, Time::ZERO), refused) {
            (Ok(_), None) => oracles = after,
            (Err(error), Some((n, refused))) => {
                assert_eq!(error.index, n);
                assert!(agree(refused, &error.error), "{refused:?} but {error}");
            }
            (outcome, refused) => panic!("{outcome:?}, the oracle says {refused:?}"),
        }
        let raw = steps[0].raw[0];
        compare(reader.pin(), &oracles, specs, raw);
        if raw % 4 == 0 {
            held.push((tables.snapshot(), oracles.clone()));
        } else if raw % 4 == 1 && !held.is_empty() {
            let (snapshot, then) = held.swap_remove(raw as usize / 4 % held.len());
            compare(&snapshot, &then, specs, raw);
        }
    }
    held.iter().for_each(|(snapshot, then)| compare(snapshot, then, specs, 3));
    read_back(&tables, &oracles, specs);
}
