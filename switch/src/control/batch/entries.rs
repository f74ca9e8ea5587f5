//! What a batch does to entries, by place.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::control::{Entity, EntryKey, Update};

/// The updates of one entry, by their places in the batch.
#[derive(Debug, Default)]
struct Places {
    /// Those that insert (true) or delete it, in order.
    begun: Vec<(usize, bool)>,
    /// The last one that modifies it with rates of its meter.
    rates: Option<usize>,
}

/// The entries that a batch changes, found by their keys: a batch may write the counter of each.
pub(super) struct Entries<'a> {
    updates: &'a [Update],
    /// The places of the updates that are done, if not all are.
    done: Option<&'a [usize]>,
    places: OnceCell<HashMap<&'a EntryKey, Places>>,
}

impl<'a> Entries<'a> {
    /// Those of a batch that is done as a whole.
    pub(super) fn of(updates: &'a [Update]) -> Entries<'a> {
        Entries { updates, done: None, places: OnceCell::new() }
    }

    /// Those of the updates at these places.
    pub(super) fn at(updates: &'a [Update], done: &'a [usize]) -> Entries<'a> {
        Entries { updates, done: Some(done), places: OnceCell::new() }
    }

    fn places(&self, key: &EntryKey) -> Option<&Places> {
        let places = self.places.get_or_init(|| {
            let mut places: HashMap<_, Places> = HashMap::new();
            let mut add = |at: usize| {
                let Entity::TableEntry(entry) = self.updates[at].entity() else { return };
                let of_key = places.entry(&entry.key).or_default();
                match &self.updates[at] {
                    Update::Modify(_) if entry.meter.is_some() => of_key.rates = Some(at),
                    Update::Modify(_) => {}
                    update => of_key.begun.push((at, matches!(update, Update::Insert(_)))),
                }
            };
            match self.done {
                Some(done) => done.iter().copied().for_each(&mut add),
                None => (0..self.updates.len()).for_each(&mut add),
            }
            places
        });
        places.get(key)
    }

    /// Whether the updates before place `at` leave an entry with this key; `None`: they neither insert nor delete it.
    pub(super) fn before(&self, at: usize, key: &EntryKey) -> Option<bool> {
        let begun = &self.places(key)?.begun;
        let count = begun.partition_point(|(place, _)| *place < at);
        Some(begun[count.checked_sub(1)?].1)
    }

    /// Whether an update behind place `at` inserts or deletes the entry with this key, whose counter and meter end then.
    pub(super) fn end_after(&self, at: usize, key: &EntryKey) -> bool {
        let last = self.places(key).and_then(|places| places.begun.last());
        last.is_some_and(|(place, _)| *place > at)
    }

    /// Whether the rates that the entry with this key has at place `at` are replaced behind it.
    pub(super) fn rates_end_after(&self, at: usize, key: &EntryKey) -> bool {
        let rates = self.places(key).and_then(|places| places.rates);
        rates.is_some_and(|place| place > at) || self.end_after(at, key)
    }
}
