//! Tables that are full: reported when the last free entry is taken, and when there is room again.
//!
//! A full table refuses entries of controllers and learns none. Whoever writes them gets an error each; an operator gets
//! one event, also where entries come and go all the time: there is room again when a part of the table is free.

use wireyard_pipeline::generation::Generation;

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

impl FullTables {
    /// Tables that became full or have room again since the last call, each with its message. A new table that is full
    /// is none: the program has declared its entries.
    pub(super) fn changes(&mut self, generation: &Generation) -> Vec<(DeviceEvent, String)> {
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
                let (table, over) = (name.clone(), !stays_full);
                let text = match over {
                    false => {
                        format!("table {table} is full: it has {entries} entries and takes no more")
                    }
                    true => format!("table {table} has room again: it has {entries} entries"),
                };
                changes.push((DeviceEvent::TableFull { table, over }, text));
            }
            known.push((name.clone(), stays_full));
        }
        self.known = known;
        changes
    }
}
