//! Reads entries back: by key, by slot and by idleness.

use super::{TableWriter, Writer};
use crate::entry::{ActionCall, Entry, Slot, TableId, Target};
use crate::error::EntryError;
use crate::key::Match;
use crate::tables::EntriesPart;
use crate::tables::copied::{CopiedEntries, entry_of};
use crate::time::Time;

impl Writer {
    fn read(&self, table: &TableWriter, slot: u32) -> Entry {
        let (row, call) = (table.store.row(slot), table.store.call(slot));
        let target = self.target_of(table, call);
        entry_of(&table.store.shape, &table.side, slot, (row, table.store.timeout_ps(slot)), target)
    }

    fn target_of(&self, table: &TableWriter, call: &[u64]) -> Target {
        let shape = table.shape();
        match shape.spec.profile {
            Some(id) => self.profiles[id.0 as usize].target_of(call[1]),
            None => Target::Action(shape.call_from(call)),
        }
    }

    pub(crate) fn impatient_clones(&self) -> u64 {
        let tables = self.tables.iter().map(|t| t.replica.impatient_clones);
        tables.chain(self.profiles.iter().map(|p| p.replica.impatient_clones)).sum()
    }

    pub(crate) fn copied(&self, id: TableId) -> Result<CopiedEntries, EntryError> {
        let table = self.table(id)?;
        let (store, slots) = (&table.store, table.store.slots());
        let of_profile = table.shape().spec.profile.is_some();
        let mut copied = CopiedEntries::of(store.shape.clone(), table.side.clone(), slots.len());
        for slot in slots {
            let call = store.call(slot);
            let target = of_profile.then(|| self.target_of(table, call));
            copied.push(slot, (store.row(slot), store.timeout_ps(slot)), call, target);
        }
        Ok(copied)
    }

    pub(crate) fn entries_from(
        &self,
        id: TableId,
        from: Slot,
        slots: u32,
    ) -> Result<EntriesPart, EntryError> {
        let table = self.table(id)?;
        let used = table.store.used_slots();
        let end = used.min(from.0.saturating_add(slots));
        let live = (from.0..end).filter(|slot| table.store.is_live(*slot));
        let found = live.map(|slot| (Slot(slot), self.read(table, slot))).collect();
        Ok((found, (end < used).then_some(Slot(end))))
    }

    pub(crate) fn entry(
        &self,
        id: TableId,
        matches: &[Match],
        priority: u32,
    ) -> Result<(Slot, Entry), EntryError> {
        let table = self.table(id)?;
        let slot = table.store.slot_of(&table.shape().row(matches, priority)?)?;
        Ok((slot, self.read(table, slot.0)))
    }

    pub(crate) fn entry_at(&self, id: TableId, slot: Slot) -> Result<Entry, EntryError> {
        let table = self.table(id)?;
        let live = table.store.is_live(slot.0);
        live.then(|| self.read(table, slot.0)).ok_or(EntryError::NotFound)
    }

    pub(crate) fn default_action(&self, id: TableId) -> Result<ActionCall, EntryError> {
        Ok(self.table(id)?.default.clone())
    }

    pub(crate) fn idle(
        &mut self,
        id: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Vec<(Slot, Entry)>, EntryError> {
        let found = self.idle_slots(id, now, slots)?;
        self.read_all(id, found)
    }

    /// Like [`Writer::idle`], without constant entries: a batch that deletes one would be refused as a whole.
    pub(crate) fn removable(
        &mut self,
        id: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Vec<(Slot, Entry)>, EntryError> {
        let mut found = self.idle_slots(id, now, slots)?;
        let spec = &self.table(id)?.shape().spec;
        found.retain(|slot| !spec.is_fixed(Slot(*slot)));
        self.read_all(id, found)
    }

    pub(crate) fn newly_idle(
        &mut self,
        id: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Vec<(Slot, Entry)>, EntryError> {
        let mut found = self.idle_slots(id, now, slots)?;
        let table = &mut self.tables[id.0 as usize];
        found.retain(|slot| table.report(*slot, now));
        self.read_all(id, found)
    }

    fn read_all(&self, id: TableId, slots: Vec<u32>) -> Result<Vec<(Slot, Entry)>, EntryError> {
        let table = self.table(id)?;
        let read = |slot| (Slot(slot), self.read(table, slot));
        Ok(slots.into_iter().map(read).collect())
    }

    fn idle_slots(&mut self, id: TableId, now: Time, slots: usize) -> Result<Vec<u32>, EntryError> {
        let table = self.table(id)?;
        let used = table.store.used_slots();
        let count = slots.min(used as usize) as u32;
        let window = (0..count).map(|i| (table.scan % used.max(1) + i) % used.max(1));
        let idle = |&slot: &u32| table.store.is_live(slot) && table.is_idle(slot, now);
        let found = window.filter(idle).collect();
        let next = (u64::from(table.scan) + u64::from(count)) % u64::from(used.max(1));
        self.tables[id.0 as usize].scan = next as u32;
        Ok(found)
    }
}
