//! The set of tables of a program: one writer, many readers, one version at a time.

mod copied;
pub mod follow;
mod reader;
mod write;

pub use copied::CopiedEntries;
pub use reader::Reader;

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;

use crate::entry::{
    ActionCall, Aged, BatchOutcome, Entry, GroupMember, Hit, Learned, ProfileId, ProfileSpec,
    Released, Slot, TableId, TableSpec, Target, Update,
};
use crate::error::{BatchError, BuildError, EntryError};
use crate::key::Match;
use crate::selector::ProfileView;
use crate::time::Time;
use crate::view::TableView;
use write::{Publish, Writer};

/// Some entries of a table, and the slot to continue from.
pub type EntriesPart = (Vec<(Slot, Entry)>, Option<Slot>);

/// Options of a set of tables.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all key hashes. Fixed for replay and the laboratory, random for a live device, so that a sender cannot
    /// choose keys that collide.
    pub seed: u64,
    /// Seed of choices in groups; 0: the hash is used unchanged.
    pub selector_seed: u64,
    /// Number of workers: lanes of every direct counter.
    pub lanes: usize,
    /// When the idle time of declared entries starts.
    pub now: Time,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 0, selector_seed: 0, lanes: 1, now: Time::ZERO }
    }
}

/// One version of all tables and profiles.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) version: u64,
    pub(crate) tables: Box<[Arc<TableView>]>,
    pub(crate) profiles: Box<[Arc<ProfileView>]>,
}

impl Snapshot {
    /// Grows by one with every batch.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A table; `None` if there is no such table.
    #[inline]
    pub fn table(&self, table: TableId) -> Option<&TableView> {
        self.tables.get(table.0 as usize).map(|view| &**view)
    }

    /// All tables, in the order of their ids.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &TableView> {
        self.tables.iter().map(|view| &**view)
    }

    /// An action profile; `None` if there is no such profile.
    #[inline]
    pub fn profile(&self, profile: ProfileId) -> Option<&ProfileView> {
        self.profiles.get(profile.0 as usize).map(|view| &**view)
    }

    /// For a hit in a table with an action profile: the action and data of the member, or of the
    /// member of the group that `hash` picks. Any other hit is returned as it is.
    #[inline]
    pub fn select<'a>(&'a self, table: &TableView, hit: Hit<'a>, hash: u64) -> Hit<'a> {
        let Some(profile) = table.profile().and_then(|id| self.profile(id)) else { return hit };
        let (action, data) = profile.choose(hit.data[0], hash);
        Hit { slot: hit.slot, action, data }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) current: Arc<ArcSwap<Snapshot>>,
    pub(crate) writer: Mutex<Writer>,
}

/// Attempts of a learner to get the write lock.
const LOOKS_MAX: u32 = 256;

/// The tables of a program. A handle: clones share the tables.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) shared: Arc<Shared>,
}

impl Tables {
    /// Builds the tables; table `i` of `tables` gets [`TableId`] `i`, profiles likewise.
    ///
    /// # Errors
    /// The first declaration or declared entry that is wrong.
    pub fn new(
        tables: &[TableSpec],
        profiles: &[ProfileSpec],
        options: Options,
    ) -> Result<Tables, BuildError> {
        Ok(Tables::from_writer(Writer::new(tables, profiles, options)?))
    }

    /// Builds the tables of a program that replaces this one: [`Tables::new`], then [`Tables::adopt`].
    ///
    /// Returns the new set and the tables that kept their entries.
    ///
    /// # Errors
    /// As [`Tables::new`]; then the old set is unchanged.
    pub fn replace(
        &self,
        tables: &[TableSpec],
        profiles: &[ProfileSpec],
        options: Options,
    ) -> Result<(Tables, Vec<TableId>), BuildError> {
        let new = Tables::new(tables, profiles, options)?;
        let kept = new.adopt(self);
        Ok((new, kept))
    }

    /// Takes over the contents of the tables of a program that this one replaces. Tables whose name, fields, actions,
    /// capacity, constant entries, side arrays and counter lanes are the same move over with their entries, counters,
    /// meters and last-hit times, which replace the contents here. Tables with an action profile move if the profile of
    /// that name is the same and moves with them. Readers of the old set keep their snapshot; writes to moved tables through the old set are refused
    /// with [`EntryError::Moved`], and followers of its changes get [`follow::FollowError::Ended`].
    ///
    /// Returns the tables that moved. This set must not have readers yet.
    pub fn adopt(&self, old: &Tables) -> Vec<TableId> {
        let mut writer = self.writer();
        let moved = writer.adopt(&mut old.writer());
        self.shared.current.store(writer.snapshot());
        moved
    }

    /// The tables that [`Tables::adopt`] would take over.
    pub fn would_adopt(&self, old: &Tables) -> Vec<TableId> {
        self.writer().would_adopt(&old.writer())
    }

    fn from_writer(writer: Writer) -> Tables {
        let current = Arc::new(ArcSwap::new(writer.snapshot()));
        Tables { shared: Arc::new(Shared { current, writer: Mutex::new(writer) }) }
    }

    /// Ignores poisoning: a panic while writing would be a defect of this crate; the store has then the state of the
    /// last finished step, and refusing all later writes would not help.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for a caller that forwards packets: `None` while another writer has the lock.
    fn writer_now(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.shared.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same, where it is worth some microseconds, the longest time that another learner takes.
    fn writer_soon(&self) -> Option<MutexGuard<'_, Writer>> {
        for _ in 0..LOOKS_MAX {
            match self.writer_now() {
                None => std::hint::spin_loop(),
                writer => return writer,
            }
        }
        None
    }

    /// A reader, for one worker.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }

    /// The current version, for callers off the forwarding path. Drop it soon: a writer that needs the copy it holds
    /// waits a while and then clones.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current.load_full()
    }

    /// Id of the table with this name.
    pub fn find_table(&self, name: &str) -> Option<TableId> {
        let snapshot = self.snapshot();
        let at = snapshot.tables().position(|view| view.shape().spec.name == name)?;
        Some(TableId(at as u32))
    }

    /// Applies all changes, in order, and publishes them as one version; or applies none. Later updates see earlier
    /// ones of the same batch.
    ///
    /// # Errors
    /// The first update that cannot be done; nothing has changed.
    pub fn batch(&self, updates: &[Update], now: Time) -> Result<BatchOutcome, BatchError> {
        self.write(&mut self.writer(), updates, now, Publish::Beside)
    }

    /// Like [`Tables::batch`], for tables that are being filled and that are not read yet: where no reader has pinned a
    /// version, changes are applied once and no second copy of a table is made before the first change afterwards.
    ///
    /// # Errors
    /// As [`Tables::batch`].
    pub fn fill(&self, updates: &[Update], now: Time) -> Result<BatchOutcome, BatchError> {
        let mut writer = self.writer();
        let nothing =
            Snapshot { version: writer.version(), tables: [].into(), profiles: [].into() };
        self.shared.current.store(Arc::new(nothing));
        let outcome = writer.batch(updates, now, Publish::Alone);
        self.shared.current.store(writer.snapshot());
        outcome
    }

    fn write(
        &self,
        writer: &mut Writer,
        updates: &[Update],
        now: Time,
        publish: Publish,
    ) -> Result<BatchOutcome, BatchError> {
        let outcome = writer.batch(updates, now, publish)?;
        if !updates.is_empty() {
            self.shared.current.store(writer.snapshot());
        }
        Ok(outcome)
    }

    /// Inserts an entry, or modifies the one that another worker has learned in the meantime.
    pub(crate) fn learn(
        &self,
        table: TableId,
        entry: Entry,
        now: Time,
    ) -> Result<Learned, EntryError> {
        let Some(mut writer) = self.writer_soon() else { return Ok(Learned::Busy) };
        if writer.is_crowded(table, &entry.matches)? {
            return Ok(Learned::Full);
        }
        if !writer.is_ready(table, now)? {
            return Ok(Learned::Busy);
        }
        let mut write = |update| {
            let written = self.write(&mut writer, &[update], now, Publish::AtOnce);
            written.map_err(|error| error.error)
        };
        match write(Update::Insert(table, entry.clone())) {
            Ok(outcome) => outcome
                .inserted
                .first()
                .map(|&(_, slot)| Learned::New(slot))
                .ok_or(EntryError::NotFound),
            Err(EntryError::Full { .. }) => Ok(Learned::Full),
            Err(EntryError::Duplicate) => {
                let matches = entry.matches.clone();
                match write(Update::Modify(table, entry)) {
                    Err(EntryError::Const) => return Ok(Learned::Full),
                    done => _ = done?,
                }
                let (slot, _) = writer.entry(table, &matches, 0)?;
                let hits = writer.snapshot();
                let hits = hits.table(table).and_then(|view| view.last_hits());
                hits.inspect(|hits| hits.touch(slot, now));
                Ok(Learned::Moved(slot))
            }
            Err(error) => Err(error),
        }
    }

    /// All entries of a table, oldest first.
    pub fn entries(&self, table: TableId) -> Result<Vec<(Slot, Entry)>, EntryError> {
        Ok(self.copied(table)?.collect())
    }

    /// The same as an iterator over a copy: writes are possible before all are read.
    ///
    /// # Errors
    /// There is no such table, or it has moved.
    pub fn copied(&self, table: TableId) -> Result<CopiedEntries, EntryError> {
        self.writer().copied(table)
    }

    /// Entries in `slots` slots from `from` on, in the order of slots, and the slot to continue from; `None` at the
    /// end. So a large table is read in parts, between which writes are possible.
    pub fn entries_from(
        &self,
        table: TableId,
        from: Slot,
        slots: u32,
    ) -> Result<EntriesPart, EntryError> {
        self.writer().entries_from(table, from, slots)
    }

    /// One entry, found by its matches and priority.
    pub fn entry(
        &self,
        table: TableId,
        matches: &[Match],
        priority: u32,
    ) -> Result<(Slot, Entry), EntryError> {
        self.writer().entry(table, matches, priority)
    }

    /// The entry in a slot, as in a [`Hit`].
    pub fn entry_at(&self, table: TableId, slot: Slot) -> Result<Entry, EntryError> {
        self.writer().entry_at(table, slot)
    }

    /// The default action of a table.
    pub fn default_action(&self, table: TableId) -> Result<ActionCall, EntryError> {
        self.writer().default_action(table)
    }

    /// Members of a profile, by id.
    pub fn members(&self, profile: ProfileId) -> Result<Vec<(u32, ActionCall)>, EntryError> {
        self.members_in(profile, 0..=u32::MAX)
    }

    /// Like [`Tables::members`], those with these ids; the others cost nothing.
    pub fn members_in(
        &self,
        profile: ProfileId,
        ids: RangeInclusive<u32>,
    ) -> Result<Vec<(u32, ActionCall)>, EntryError> {
        let writer = self.writer();
        let members = writer.profile(profile)?.members(ids);
        Ok(members.map(|(id, call)| (id, call.clone())).collect())
    }

    /// The least and the greatest id of a member or group of a profile; `None` where there is neither.
    pub fn profile_numbers(
        &self,
        profile: ProfileId,
    ) -> Result<Option<RangeInclusive<u32>>, EntryError> {
        Ok(self.writer().profile(profile)?.numbers())
    }

    /// Groups of a profile, by id.
    pub fn groups(&self, profile: ProfileId) -> Result<Vec<(u32, Vec<GroupMember>)>, EntryError> {
        self.groups_in(profile, 0..=u32::MAX)
    }

    /// Like [`Tables::groups`], those with these ids; the others cost nothing.
    pub fn groups_in(
        &self,
        profile: ProfileId,
        ids: RangeInclusive<u32>,
    ) -> Result<Vec<(u32, Vec<GroupMember>)>, EntryError> {
        let writer = self.writer();
        let groups = writer.profile(profile)?.groups(ids);
        Ok(groups.map(|(id, members)| (id, members.to_vec())).collect())
    }

    /// Entries whose idle timeout has run out, oldest slot first. Examines `slots` slots at most and continues from
    /// there in the next call, so that a scan of a large table can be spread out; an entry is returned in every round
    /// until it is hit or removed.
    pub fn idle(
        &self,
        table: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Vec<(Slot, Entry)>, EntryError> {
        self.writer().idle(table, now, slots)
    }

    /// Like [`Tables::idle`], but an entry that was returned is not returned again until its timeout has run out once
    /// more, since then or since a hit (P4Runtime specification 1.5, section 15.4). For a caller that forwards packets:
    /// `None` while another writer has the lock; nothing was examined.
    pub fn newly_idle(
        &self,
        table: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Option<Vec<(Slot, Entry)>>, EntryError> {
        let Some(mut writer) = self.writer_now() else { return Ok(None) };
        writer.newly_idle(table, now, slots).map(Some)
    }

    /// Like [`Tables::idle`], and removes the entries it returns in one batch. For a caller that forwards packets:
    /// `None` while another writer has the lock, or a reader has the copy that would be changed (for 50 ms at most);
    /// nothing was examined.
    pub fn age_out(
        &self,
        table: TableId,
        now: Time,
        slots: usize,
    ) -> Result<Option<Vec<Aged>>, EntryError> {
        let Some(mut writer) = self.writer_now() else { return Ok(None) };
        if !writer.is_ready(table, now)? {
            return Ok(None);
        }
        let idle = writer.removable(table, now, slots)?;
        let delete = |(_, entry): &(Slot, Entry)| {
            Update::Delete(table, entry.matches.clone(), entry.priority)
        };
        if idle.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let updates: Vec<Update> = idle.iter().map(delete).collect();
        let removed = self.write(&mut writer, &updates, now, Publish::AtOnce);
        // In the order of the updates.
        let mut released = removed.map_err(|error| error.error)?.released.into_iter().peekable();
        let aged = |(slot, entry): (Slot, Entry)| {
            let is_its = |(_, one): &(_, Released)| entry.target == Target::Group(one.group);
            Aged { slot, released: released.next_if(is_its), entry }
        };
        Ok(Some(idle.into_iter().map(aged).collect()))
    }

    /// Times a writer did not wait, or no longer, for a reader and cloned a table instead.
    pub fn impatient_clones(&self) -> u64 {
        self.writer().impatient_clones()
    }
}

#[cfg(test)]
mod tests;
