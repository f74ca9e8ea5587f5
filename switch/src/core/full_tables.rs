//! Tables that are full: reported when the last free entry is taken, and when there is room again.
//!
//! A full table refuses entries of controllers and learns none. Whoever writes them gets an error each; an operator gets
//! one event, also where entries come and go all the time: there is room again when a part of the table is free.

use wireyard_pipeline::generation::Generation;

use super::Core;
use super::message::{Message, Topic};
use super::notice::DeviceEvent;

/// A full table has room again when one entry in so many is free.
const FREE_PART: u32 = 20;
/// Of a small one, so many.
const FREE_LEAST: u32 = 2;

/// The tables at the last check.
#[derive(Debug, Default)]
pub(super) struct FullTables {
    /// For each table of the program, its name and whether it was full.
    known: Vec<(String, bool)>,
}

/// A table that became full, or has room again.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    table: String,
    entries: u32,
    over: bool,
}

impl FullTables {
    /// Changes since the last call. A new table that is full is none: the program has declared its entries.
    fn changes(&mut self, generation: &Generation) -> Vec<Change> {
        let snapshot = generation.state.tables().snapshot();
        let views = snapshot.tables().map(|view| (view.len(), view.shape().spec().capacity));
        let now = generation.program.tables.iter().zip(views);
        let (mut changes, mut known) = (Vec::new(), Vec::with_capacity(self.known.len()));
        for (at, (declared, (entries, capacity))) in now.enumerate() {
            let (name, is_full) = (&declared.name, entries >= capacity);
            // The same place, but after a swap.
            let same = self.known.get(at).filter(|(known, _)| known == name);
            let before = same.or_else(|| self.known.iter().find(|(known, _)| known == name));
            let was_full = before.is_some_and(|(_, was_full)| *was_full);
            let free = capacity.div_ceil(FREE_PART).max(FREE_LEAST).min(capacity);
            let has_room = entries <= capacity - free;
            let stays_full = is_full || was_full && !has_room;
            if before.is_some() && was_full != stays_full {
                changes.push(Change { table: name.clone(), entries, over: !stays_full });
            }
            known.push((name.clone(), stays_full));
        }
        self.known = known;
        changes
    }
}

impl Core {
    /// Reports tables that became full or have room again since the last call, in the messages and to the subscribers.
    pub fn check_tables(&mut self) {
        self.refresh_program();
        let Some(generation) = self.executor.current() else { return };
        let changes = self.full_tables.changes(generation);
        for Change { table, entries, over } in changes {
            let text = match over {
                false => {
                    format!("table {table} is full: it has {entries} entries and takes no more")
                }
                true => format!("table {table} has room again: it has {entries} entries"),
            };
            let event = DeviceEvent::TableFull { table, over };
            self.ports.messages.push(Message::new(Topic::Event(event.clone()), text));
            self.notify_event(event);
        }
    }
}
