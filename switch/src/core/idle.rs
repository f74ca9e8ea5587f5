//! Idle entries: notices of them, and their removal where the table declares it.
//!
//! An entry is idle when no packet hit it for its idle timeout. As in PSA, the entry stays and the control plane gets a
//! notification, which may remove it; with `on_idle: remove` the device does so itself, as a bridge ages addresses.

use super::message::{Message, Topic};
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::{Id, TableId};
use wireyard_tables::time::Time;
use wireyard_tables::{Aged, Entry, ProfileId, Released, Slot};

/// Slots of a table that one [`super::Core::age`] checks.
const SLOTS_MAX: usize = 65_536;

/// An entry that no packet hit for its idle timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleEntry {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub entry: Entry,
    /// It was removed.
    pub removed: bool,
    /// Its own group, which was removed with it, and the profile of that.
    pub released: Option<(ProfileId, Released)>,
}

/// Finds idle entries.
#[derive(Debug, Default)]
pub(super) struct IdleWatch {
    /// Tables, with their generation, for which a message was already written.
    reported: Vec<(u16, TableId)>,
    /// The table, with its generation, at which the last call ended, as another thread was writing.
    put_off: Option<(u16, TableId)>,
}

impl IdleWatch {
    /// Finds idle entries, at a bounded number of slots of each table, and removes those of tables with `on_idle:
    /// remove`. Returns them for the control plane: an entry that stays is returned once in each timeout. The first one
    /// of a table that stays is also a message. It ends at a table that another thread is writing, with which the next
    /// call begins.
    pub(super) fn age(
        &mut self,
        generation: &Generation,
        now: Time,
        messages: &mut Vec<Message>,
    ) -> Vec<IdleEntry> {
        // Generation numbers are reused.
        self.reported.retain(|(id, _)| *id == generation.id);
        let put_off = self.put_off.take().filter(|(id, _)| *id == generation.id);
        let first = put_off.map_or(0, |(_, table)| table.index());
        let mut all = Vec::new();
        for (table, declared) in generation.program.tables.entries().skip(first) {
            if declared.idle_timeout_ms.is_none() {
                continue;
            }
            let (tables, removed) = (generation.state.tables(), declared.removes_idle);
            let id = wireyard_tables::TableId(table.0);
            let stays = |(slot, entry): (Slot, Entry)| Aged { slot, entry, released: None };
            let found = match removed {
                true => tables.age_out(id, now, SLOTS_MAX),
                false => tables
                    .newly_idle(id, now, SLOTS_MAX)
                    .map(|found| found.map(|found| found.into_iter().map(stays).collect())),
            };
            // A table that moved to the next program is checked there.
            let Some(found) = found.unwrap_or_else(|_| Some(Vec::new())) else {
                self.put_off = Some((generation.id, table));
                break;
            };
            self.count(generation, table, found.len(), messages);
            let idle = |Aged { entry, released, .. }| IdleEntry { table, entry, removed, released };
            all.extend(found.into_iter().map(idle));
        }
        all
    }

    /// The last call did not check all tables.
    pub(super) fn is_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    fn count(
        &mut self,
        generation: &Generation,
        table: TableId,
        entries: usize,
        messages: &mut Vec<Message>,
    ) {
        let statistics = generation.state.statistics();
        let declared = &generation.program.tables[table];
        let tally = if declared.removes_idle {
            &statistics.idle_removals
        } else {
            &statistics.idle_notices
        };
        (0..entries).for_each(|_| tally.add(0, table.index(), 0));
        let known = (generation.id, table);
        if entries > 0 && !declared.removes_idle && !self.reported.contains(&known) {
            self.reported.push(known);
            // P4 has no `on_idle`: there the controller decides.
            let remedy = match generation.program.origin {
                Some(_) => "",
                None => " (`on_idle: remove` in the table removes them)",
            };
            let text = format!(
                "table {}: an entry was not hit for its idle timeout; it stays, and such entries are counted{remedy}",
                declared.name
            );
            messages.push(Message::new(Topic::IdleEntries, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{DeviceOptions, one_way};

    #[test]
    fn tables_of_programs_that_have_gone_are_not_kept() {
        let mut core = one_way().device(DeviceOptions::small()).unwrap();
        let id = core.generation().unwrap().id;
        core.idle.reported = vec![(id.wrapping_sub(1), TableId(0)), (id, TableId(0))];
        core.age(Time::ZERO);
        assert_eq!(core.idle.reported, [(id, TableId(0))]);
    }
}
