//! Which entries there are at a place of a batch.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::control::{Entity, EntryKey, Update};

/// The entries that a batch inserts and deletes, found by their keys: a batch may write the counter of each.
pub(super) struct Entries<'a> {
    updates: &'a [Update],
    /// For each key, the places in the batch of the updates that insert (true) or delete it.
    places: OnceCell<HashMap<&'a EntryKey, Vec<(usize, bool)>>>,
}

impl<'a> Entries<'a> {
    pub(super) fn of(updates: &'a [Update]) -> Entries<'a> {
        Entries { updates, places: OnceCell::new() }
    }

    /// Whether the updates before place `at` leave an entry with this key; `None`: they neither insert nor delete it.
    pub(super) fn before(&self, at: usize, key: &EntryKey) -> Option<bool> {
        let places = self.places.get_or_init(|| {
            let mut places: HashMap<_, Vec<_>> = HashMap::new();
            for (at, update) in self.updates.iter().enumerate() {
                if let (Entity::TableEntry(entry), false) =
                    (update.entity(), matches!(update, Update::Modify(_)))
                {
                    let is_insert = matches!(update, Update::Insert(_));
                    places.entry(&entry.key).or_default().push((at, is_insert));
                }
            }
            places
        });
        let last = places.get(key)?.iter().rev().find(|(place, _)| *place < at);
        last.map(|(_, is_insert)| *is_insert)
    }
}
