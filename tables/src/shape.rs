//! What is fixed for the life of a table: its declaration, the key layout, the engine, and the row.
//!
//! A row is an entry's matches in words, canonical: two entries are the same entry exactly when their
//! rows are equal. Engines, the control-plane store and the oracle all work on rows:
//!
//! * exact: `[key]`
//! * lpm: `[key with the bits below the prefix zero] [prefix length]`
//! * ternary: `[value] [mask] [lo, hi of every range field] [priority]`; a bound has one word for a
//!   field of up to 64 bits and two (low word first) above; range fields have mask 0.

use crate::entry::{ActionCall, Entry, MAX_CAPACITY, TableId, TableSpec};
use crate::error::{EntryError, SpecError};
use crate::hash::Seed;
use crate::key::{BitRange, KeyLayout, Match, MatchKind, Pattern, prefix_mask};

/// Which engine serves a table; follows from the kinds of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchEngine {
    /// All fields exact: a hash table.
    Exact,
    /// One lpm field, the others exact: a multibit trie.
    Lpm,
    /// Anything with ternary, range or optional: tuple space search.
    Ternary,
}

/// The fixed part of a table.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// Of the declared entries only those that cannot be changed where others can, in canonical form.
    pub(crate) spec: TableSpec,
    pub(crate) layout: KeyLayout,
    pub(crate) engine: MatchEngine,
    pub(crate) data_words: usize,
    pub(crate) row_words: usize,
    pub(crate) seed: Seed,
    /// Index of the lpm field, in an lpm table.
    pub(crate) lpm: Option<usize>,
    /// Indices of range fields.
    pub(crate) ranges: Vec<usize>,
}

impl TableShape {
    pub(crate) fn new(spec: &TableSpec, id: TableId, seed: u64) -> Result<TableShape, SpecError> {
        let layout = KeyLayout::new(spec.fields.iter().map(|f| f.bits))?;
        if !(1..=MAX_CAPACITY).contains(&spec.capacity) {
            return Err(SpecError::Capacity { capacity: spec.capacity });
        }
        let of_kind = |kind| {
            let fields = spec.fields.iter().enumerate();
            fields.filter(move |(_, f)| f.kind == kind).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let (lpms, ranges) = (of_kind(MatchKind::Lpm), of_kind(MatchKind::Range));
        if let [a, b, ..] = lpms[..] {
            let fields = [spec.fields[a].name.clone(), spec.fields[b].name.clone()];
            return Err(SpecError::SeveralLpm { fields });
        }
        for (i, action) in spec.actions.iter().enumerate() {
            if spec.actions[..i].iter().any(|other| other.id == action.id) {
                return Err(SpecError::DuplicateAction(action.id));
            }
        }
        let overlap = |k| matches!(k, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional);
        let engine = match lpms[..] {
            _ if spec.fields.iter().any(|f| overlap(f.kind)) => MatchEngine::Ternary,
            [] => MatchEngine::Exact,
            _ => MatchEngine::Lpm,
        };
        let words = layout.words();
        let bounds: usize = ranges.iter().map(|&i| 2 * bound_words(layout.places()[i])).sum();
        let row_words = match engine {
            MatchEngine::Exact => words,
            MatchEngine::Lpm => words + 1,
            MatchEngine::Ternary => 2 * words + bounds + 1,
        };
        let actions = spec.actions.iter().map(|a| a.data_words).max().unwrap_or(0);
        let shape = TableShape {
            spec: TableSpec { entries: fixed_entries(spec), ..spec.clone() },
            engine,
            data_words: actions.max(usize::from(spec.profile.is_some())),
            row_words,
            seed: Seed::of_table(seed, id.0),
            lpm: lpms.first().copied().filter(|_| engine == MatchEngine::Lpm),
            ranges,
            layout,
        };
        shape
            .check_call(&shape.spec.default)
            .map_err(|error| SpecError::Entry { entry: None, error })?;
        Ok(shape)
    }

    /// The declaration; of its entries only those that cannot be changed where others can, in canonical form.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// The positions of the fields in a key.
    pub fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// Indices of the fields that are matched by range.
    pub fn range_fields(&self) -> &[usize] {
        &self.ranges
    }

    /// The engine.
    pub fn engine(&self) -> MatchEngine {
        self.engine
    }

    /// Words of data in every hit: the most that any action of the table takes; data of an action
    /// that takes fewer is padded with zeros.
    pub fn data_words(&self) -> usize {
        self.data_words
    }

    /// Seed of the key hash ([`crate::hash::hash`]).
    pub fn seed(&self) -> Seed {
        self.seed
    }

    pub(crate) fn check_call(&self, call: &ActionCall) -> Result<(), EntryError> {
        check_call(&self.spec.actions, call)
    }

    /// `[action, data...]` padded to the table's stride.
    pub(crate) fn call_words(&self, call: &ActionCall) -> Vec<u64> {
        let mut words = vec![0; 1 + self.data_words];
        words[0] = u64::from(call.action);
        words[1..1 + call.data.len()].copy_from_slice(&call.data);
        words
    }

    pub(crate) fn call_from(&self, words: &[u64]) -> ActionCall {
        let action = words[0] as u32;
        let len = self.spec.actions.iter().find(|a| a.id == action).map_or(0, |a| a.data_words);
        ActionCall { action, data: words[1..1 + len].to_vec() }
    }

    /// The canonical row of an entry.
    pub(crate) fn row(&self, matches: &[Match], priority: u32) -> Result<Vec<u64>, EntryError> {
        let fields = &self.spec.fields;
        if matches.len() != fields.len() {
            let (found, expected) = (matches.len(), fields.len());
            return Err(EntryError::FieldCount { found, expected });
        }
        match (self.engine, priority) {
            (MatchEngine::Ternary, 0) => return Err(EntryError::PriorityRequired),
            (MatchEngine::Exact | MatchEngine::Lpm, 1..) => {
                return Err(EntryError::PriorityNotAllowed { priority });
            }
            _ => {}
        }
        let words = self.layout.words();
        let mut row = vec![0; self.row_words];
        let mut at = 2 * words;
        for (i, (&item, &place)) in matches.iter().zip(self.layout.places()).enumerate() {
            let named = |error| {
                let name = fields[i].name.clone();
                EntryError::Field { field: i, name, error: Box::new(error) }
            };
            match item.check(&fields[i]).map_err(named)? {
                Pattern::Masked { value, mask, prefix_len } => {
                    place.put(&mut row[..words], value);
                    if self.engine == MatchEngine::Ternary {
                        place.put(&mut row[words..2 * words], mask);
                    } else if fields[i].kind == MatchKind::Lpm {
                        row[words] = u64::from(prefix_len);
                    }
                }
                Pattern::Range { lo, hi } => {
                    for bound in [lo, hi] {
                        row[at] = bound as u64;
                        if bound_words(place) == 2 {
                            row[at + 1] = (bound >> 64) as u64;
                        }
                        at += bound_words(place);
                    }
                }
            }
        }
        if self.engine == MatchEngine::Ternary {
            row[at] = u64::from(priority);
        }
        Ok(row)
    }

    /// The matches and priority of a row.
    pub(crate) fn matches(&self, row: &[u64]) -> (Vec<Match>, u32) {
        let words = self.layout.words();
        let mut at = 2 * words;
        let fields = self.spec.fields.iter().zip(self.layout.places());
        let matches = fields.map(|(field, &place)| {
            let value = place.get(&row[..words]);
            let mask = match self.engine {
                MatchEngine::Ternary => place.get(&row[words..2 * words]),
                MatchEngine::Lpm if field.kind == MatchKind::Lpm => {
                    prefix_mask(place.bits, row[words] as u32)
                }
                _ => place.ones(),
            };
            let pattern = match field.kind {
                MatchKind::Range => {
                    let (lo, hi) = bounds(row, at, place);
                    at += 2 * bound_words(place);
                    Pattern::Range { lo, hi }
                }
                _ => Pattern::Masked { value, mask, prefix_len: mask.count_ones() },
            };
            pattern.as_match(field)
        });
        let matches = matches.collect();
        (matches, self.priority(row))
    }

    pub(crate) fn priority(&self, row: &[u64]) -> u32 {
        match self.engine {
            MatchEngine::Ternary => row[self.row_words - 1] as u32,
            _ => 0,
        }
    }
}

/// The entries that cannot be changed where others can, in canonical form.
fn fixed_entries(spec: &TableSpec) -> Vec<Entry> {
    let canonical = |slot: &u32| {
        let entry = spec.entries.get(*slot as usize)?;
        let fields = entry.matches.iter().zip(&spec.fields);
        let matches = fields.map(|(one, field)| one.canonical(field.kind, field.bits)).collect();
        Some(Entry { matches, ..entry.clone() })
    };
    match spec.const_entries {
        true => Vec::new(),
        false => spec.fixed.iter().filter_map(canonical).collect(),
    }
}

/// Checks that the action is allowed and has the right amount of data.
pub(crate) fn check_call(
    actions: &[crate::entry::ActionSpec],
    call: &ActionCall,
) -> Result<(), EntryError> {
    let Some(action) = actions.iter().find(|a| a.id == call.action) else {
        let allowed = actions.iter().map(|a| a.id).collect();
        return Err(EntryError::UnknownAction { action: call.action, allowed });
    };
    if action.data_words != call.data.len() {
        return Err(EntryError::DataLength {
            action: action.name.clone(),
            found: call.data.len(),
            expected: action.data_words,
        });
    }
    Ok(())
}

/// Words of one bound of a range field.
pub(crate) fn bound_words(place: BitRange) -> usize {
    if place.bits > 64 { 2 } else { 1 }
}

/// The bounds of the range field whose low bound starts at word `at` of a row.
#[inline(always)]
pub(crate) fn bounds(row: &[u64], at: usize, place: BitRange) -> (u128, u128) {
    if bound_words(place) == 1 {
        return (u128::from(row[at]), u128::from(row[at + 1]));
    }
    let wide = |i: usize| u128::from(row[i]) | u128::from(row[i + 1]) << 64;
    (wide(at), wide(at + 2))
}
