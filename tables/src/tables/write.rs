//! The write side: stages a batch on the stores, undoes it if an update fails, replays it on the
//! engines and builds the snapshot if none does.

mod adopt;
mod read;

use std::sync::Arc;

use super::follow::{Change, Following};
use crate::counter::CounterArray;
use crate::entry::{
    ActionCall, BatchOutcome, Entry, ProfileId, ProfileSpec, Released, Slot, TableId, TableSpec,
    Target, Update,
};
use crate::error::{BatchError, BuildError, EntryError, SpecError};
use crate::idle::LastHits;
use crate::key::Match;
use crate::log::{Log, Op, OpKind};
use crate::meter::{Meter, MeterArray, MeterConfig};
use crate::replica::{Length, Patience, Replay, Replica};
use crate::selector::{ProfileUndo, ProfileWriter};
use crate::shape::TableShape;
use crate::store::{Inserted, Removed, Store};
use crate::tables::{Options, Snapshot};
use crate::time::{Span, Time};
use crate::view::{Side, TableView};

#[derive(Debug)]
struct TableWriter {
    store: Store,
    side: Arc<Side>,
    replica: Replica<TableView>,
    /// Changes of the batch that is being staged.
    log: Log,
    default: ActionCall,
    /// Slot at which the next idle scan continues.
    scan: u32,
    /// By slot: the last hit of an idle entry when it was reported, and when that was.
    reported: Vec<Option<(Time, Time)>>,
    moved: bool,
}

#[derive(Debug)]
pub(crate) struct Writer {
    version: u64,
    tables: Vec<TableWriter>,
    profiles: Vec<ProfileWriter>,
    followers: Vec<Following>,
}

/// Which copy changes are applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    /// To the copy that is not published.
    Beside,
    /// The same by a thread that forwards, which waits for no reader: [`Writer::is_ready`] was true.
    AtOnce,
    /// To the published copy, if no reader has it pinned.
    Alone,
}

/// The effects of a batch so far.
#[derive(Debug, Default)]
struct Staged {
    undo: Vec<Undo>,
    released: Vec<(ProfileId, Released)>,
}

#[derive(Debug)]
enum Undo {
    Insert(usize, Inserted, Option<MeterConfig>),
    Modify(usize, u32, Vec<u64>, u64, Option<MeterConfig>),
    Remove(usize, Removed),
    Default(usize, ActionCall),
    Profile(usize, ProfileUndo),
}

impl TableWriter {
    fn new(spec: &TableSpec, id: u32, options: Options) -> Result<TableWriter, SpecError> {
        let shape = Arc::new(TableShape::new(spec, TableId(id), options.seed)?);
        let size = spec.capacity as usize;
        let side = Arc::new(Side {
            counters: spec.direct_counter.then(|| CounterArray::new(size, options.lanes)),
            meters: spec.direct_meter.map(|meter| MeterArray::new(size, meter.unit)),
            last_hits: spec.idle_timeout.then(|| LastHits::new(spec.capacity)),
        });
        Ok(TableWriter {
            replica: Replica::new(TableView::new(shape.clone(), side.clone())),
            log: empty_log(&shape),
            store: Store::new(shape),
            side,
            default: spec.default.clone(),
            scan: 0,
            reported: Vec::new(),
            moved: false,
        })
    }

    fn shape(&self) -> &TableShape {
        &self.store.shape
    }

    fn push(&mut self, kind: OpKind, slot: u32, extra: u64) {
        let (row, call) = (self.store.row(slot), self.store.call(slot));
        self.log.push(Op { kind, slot, extra }, row, call);
    }

    fn insert(
        &mut self,
        row: &[u64],
        call: &[u64],
        timeout_ps: u64,
    ) -> Result<Inserted, EntryError> {
        let inserted = self.store.insert(row, call, timeout_ps)?;
        self.push(OpKind::Insert, inserted.slot, inserted.seq);
        Ok(inserted)
    }

    fn remove(&mut self, slot: u32) -> Removed {
        let covering = self.store.covering(self.store.row(slot));
        self.push(OpKind::Remove, slot, covering);
        self.store.remove(slot)
    }

    fn set_default(&mut self, call: ActionCall) -> ActionCall {
        let row = vec![0; self.shape().row_words];
        let words = self.shape().call_words(&call);
        self.log.push(Op { kind: OpKind::Default, slot: 0, extra: 0 }, &row, &words);
        std::mem::replace(&mut self.default, call)
    }

    /// New entries start with clean side arrays and a meter with full buckets, before any reader can find them.
    fn reset_side(&self, slot: u32, meter: Option<MeterConfig>, now: Time) {
        let index = slot as usize;
        if let Some(counters) = &self.side.counters {
            counters.reset(index);
        }
        self.set_meter(slot, meter, now);
        if let Some(hits) = &self.side.last_hits {
            hits.touch(Slot(slot), now);
        }
    }

    fn set_meter(&self, slot: u32, meter: Option<MeterConfig>, now: Time) {
        if let Some(meters) = &self.side.meters {
            // It cannot fail: the rates were checked, and the array is as large as the table.
            let _ = meters.configure(slot as usize, meter, now);
        }
    }

    fn is_idle(&self, slot: u32, now: Time) -> bool {
        let timeout_ps = self.store.timeout_ps(slot);
        timeout_ps > 0 && now.since(self.last_hit(slot, now)).as_ps() >= timeout_ps
    }

    fn last_hit(&self, slot: u32, now: Time) -> Time {
        self.side.last_hits.as_ref().map_or(now, |hits| hits.last(Slot(slot)))
    }

    /// Whether this entry, which is idle, is to be reported: once, and again after each further timeout.
    fn report(&mut self, slot: u32, now: Time) -> bool {
        let (at, last) = (slot as usize, self.last_hit(slot, now));
        if self.reported.len() <= at {
            self.reported.resize(at + 1, None);
        }
        let again = Span::from_ps(self.store.timeout_ps(slot));
        let is_known = |(hit, then): (Time, Time)| hit == last && now.since(then) < again;
        if self.reported[at].is_some_and(is_known) {
            return false;
        }
        self.reported[at] = Some((last, now));
        true
    }
}

fn empty_log(shape: &TableShape) -> Log {
    Log::new(shape.row_words + 1 + shape.data_words)
}

impl Writer {
    pub(crate) fn new(
        tables: &[TableSpec],
        profiles: &[ProfileSpec],
        options: Options,
    ) -> Result<Writer, BuildError> {
        let mut writer =
            Writer { version: 1, tables: Vec::new(), profiles: Vec::new(), followers: Vec::new() };
        for spec in profiles {
            let named = |error| BuildError { name: spec.name.clone(), error };
            let profile = ProfileWriter::new(spec.clone(), options.selector_seed);
            writer.profiles.push(profile.map_err(named)?);
        }
        for (id, spec) in (0..).zip(tables) {
            let named = |error| BuildError { name: spec.name.clone(), error };
            match spec.profile {
                Some(id) if id.0 as usize >= profiles.len() => {
                    return Err(named(SpecError::NoSuchProfile(id)));
                }
                _ => {}
            }
            writer.tables.push(TableWriter::new(spec, id, options).map_err(named)?);
            for (i, entry) in spec.entries.iter().enumerate() {
                let declared = writer.insert(id as usize, entry);
                let spec_error = |error| SpecError::Entry { entry: Some(i), error };
                if let Undo::Insert(at, inserted, meter) =
                    declared.map_err(|error| named(spec_error(error)))?
                {
                    writer.tables[at].reset_side(inserted.slot, meter, options.now);
                }
            }
            writer.publish_first(id as usize);
        }
        Ok(writer)
    }

    /// Puts the declared entries into the only copy.
    fn publish_first(&mut self, at: usize) {
        let table = &mut self.tables[at];
        let mut view = TableView::new(table.store.shape.clone(), table.side.clone());
        view.replay(&table.log);
        table.log = empty_log(&table.store.shape);
        table.replica = Replica::new(view);
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            version: self.version,
            tables: self.tables.iter().map(|t| t.replica.front().clone()).collect(),
            profiles: self.profiles.iter().map(|p| p.replica.front().clone()).collect(),
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn batch(
        &mut self,
        updates: &[Update],
        now: Time,
        publish: Publish,
    ) -> Result<BatchOutcome, BatchError> {
        let mut staged = Staged::default();
        let mut inserted = Vec::new();
        for (index, update) in updates.iter().enumerate() {
            if let Err(error) = self.stage(update, &mut staged) {
                let name = self.name_of(update);
                self.roll_back(staged.undo);
                return Err(BatchError { index, name, error });
            }
        }
        for step in staged.undo {
            match step {
                Undo::Insert(at, entry, meter) => {
                    self.tables[at].reset_side(entry.slot, meter, now);
                    inserted.push((TableId(at as u32), Slot(entry.slot)));
                }
                Undo::Modify(at, slot, _, _, meter @ Some(_)) => {
                    self.tables[at].set_meter(slot, meter, now);
                }
                _ => {}
            }
        }
        if !updates.is_empty() {
            self.publish(publish);
            self.report_to_followers(updates);
        }
        Ok(BatchOutcome { version: self.version, inserted, released: staged.released })
    }

    fn publish(&mut self, publish: Publish) {
        let patience = match publish {
            Publish::AtOnce => Patience::Never,
            Publish::Beside | Publish::Alone => Patience::Waits,
        };
        for table in &mut self.tables {
            if table.log.len() > 0 {
                let empty = empty_log(&table.store.shape);
                let log = std::mem::replace(&mut table.log, empty);
                match publish {
                    Publish::Alone => table.replica.publish_alone(log),
                    Publish::Beside | Publish::AtOnce => table.replica.publish(log, patience),
                }
            }
        }
        for profile in &mut self.profiles {
            if !profile.log.is_empty() {
                profile.replica.publish(std::mem::take(&mut profile.log), patience);
            }
        }
        self.version += 1;
    }

    /// Whether a thread that forwards may change entries of this table now: see [`Replica::is_ready`].
    pub(crate) fn is_ready(&mut self, id: TableId, now: Time) -> Result<bool, EntryError> {
        let profile = self.table(id)?.shape().spec.profile;
        let is_ready = self.tables[id.0 as usize].replica.is_ready(now);
        let profile = profile.and_then(|id| self.profiles.get_mut(id.0 as usize));
        Ok(profile.is_none_or(|profile| profile.replica.is_ready(now)) && is_ready)
    }

    /// Adds a follower of the changes.
    pub(crate) fn followed_by(&mut self, follower: Following) {
        self.followers.push(follower);
    }

    fn report_to_followers(&mut self, updates: &[Update]) {
        if !self.followers.is_empty() {
            let change = Change { version: self.version, updates: updates.into() };
            self.followers.retain(|follower| follower.send(&change));
        }
    }

    pub(crate) fn profile_count(&self) -> usize {
        self.profiles.len()
    }

    fn stage(&mut self, update: &Update, staged: &mut Staged) -> Result<(), EntryError> {
        let done = self.one(update)?;
        // Table and call of the entry before; word 1 of the call points into the profile.
        let left = match &done {
            Undo::Modify(at, _, old, ..) => Some((*at, old)),
            Undo::Remove(at, removed) => Some((*at, &removed.call)),
            _ => None,
        };
        let profile =
            left.and_then(|(at, call)| Some((self.tables[at].shape().spec.profile?, call[1])));
        staged.undo.push(done);
        if let Some((id, word)) = profile
            && let Some((released, undo)) = self.profiles[id.0 as usize].release(word)
        {
            staged.undo.extend(undo.into_iter().map(|undo| Undo::Profile(id.0 as usize, undo)));
            staged.released.push((id, released));
        }
        Ok(())
    }

    fn one(&mut self, update: &Update) -> Result<Undo, EntryError> {
        match update {
            Update::Insert(id, entry) => {
                let at = self.writable(*id)?;
                self.insert(at, entry)
            }
            Update::Modify(id, entry) => {
                let at = self.writable(*id)?;
                self.modify(at, entry)
            }
            Update::Delete(id, matches, priority) => {
                let at = self.writable(*id)?;
                self.delete(at, matches, *priority)
            }
            Update::SetDefault(id, call) => self.set_default(*id, call.as_ref()),
            Update::InsertMember(id, member, call) => {
                self.change_profile(*id, |p| p.put_member(*member, call, true))
            }
            Update::ModifyMember(id, member, call) => {
                self.change_profile(*id, |p| p.put_member(*member, call, false))
            }
            Update::DeleteMember(id, member) => {
                self.change_profile(*id, |p| p.delete_member(*member))
            }
            Update::InsertGroup(id, group, members) => {
                self.change_profile(*id, |p| p.put_group(*group, members, true))
            }
            Update::ModifyGroup(id, group, members) => {
                self.change_profile(*id, |p| p.put_group(*group, members, false))
            }
            Update::DeleteGroup(id, group) => self.change_profile(*id, |p| p.delete_group(*group)),
        }
    }

    fn change_profile(
        &mut self,
        id: ProfileId,
        change: impl FnOnce(&mut ProfileWriter) -> Result<ProfileUndo, EntryError>,
    ) -> Result<Undo, EntryError> {
        let profile = self.profiles.get_mut(id.0 as usize).ok_or(EntryError::NoSuchProfile(id))?;
        if profile.moved {
            return Err(EntryError::Moved);
        }
        change(profile).map(|undo| Undo::Profile(id.0 as usize, undo))
    }

    fn table(&self, id: TableId) -> Result<&TableWriter, EntryError> {
        let table = self.tables.get(id.0 as usize).ok_or(EntryError::NoSuchTable(id))?;
        if table.moved { Err(EntryError::Moved) } else { Ok(table) }
    }

    pub(crate) fn profile(&self, id: ProfileId) -> Result<&ProfileWriter, EntryError> {
        self.profiles.get(id.0 as usize).ok_or(EntryError::NoSuchProfile(id))
    }

    fn writable(&self, id: TableId) -> Result<usize, EntryError> {
        match self.table(id)? {
            table if table.shape().spec.const_entries => Err(EntryError::Const),
            _ => Ok(id.0 as usize),
        }
    }

    /// Whether the table has no entry with these matches, and must not learn it: see [`TableView::is_crowded`].
    pub(crate) fn is_crowded(&self, id: TableId, matches: &[Match]) -> Result<bool, EntryError> {
        let table = self.table(id)?;
        let row = table.shape().row(matches, 0)?;
        Ok(table.replica.front().is_crowded(&row) && table.store.find(&row).is_none())
    }

    /// The words of an entry's target: its call, or its member or group.
    fn call_words(&self, at: usize, target: &Target) -> Result<Vec<u64>, EntryError> {
        let shape = self.tables[at].shape();
        match (shape.spec.profile, target) {
            (None, Target::Action(call)) => {
                shape.check_call(call)?;
                Ok(shape.call_words(call))
            }
            (None, _) => Err(EntryError::WrongTarget { profile: false }),
            (Some(id), target) => {
                let mut words = vec![0; 1 + shape.data_words];
                words[1] = self.profile(id)?.target_word(target)?;
                Ok(words)
            }
        }
    }

    fn timeout_ps(&self, at: usize, timeout: Option<Span>) -> Result<u64, EntryError> {
        let supported = self.tables[at].shape().spec.idle_timeout;
        match timeout {
            Some(span) if !span.is_zero() && !supported => Err(EntryError::TimeoutNotSupported),
            timeout => Ok(timeout.unwrap_or_default().as_ps()),
        }
    }

    /// Checks the rates of an entry.
    fn meter(&self, at: usize, meter: Option<MeterConfig>) -> Result<(), EntryError> {
        let Some(config) = meter else { return Ok(()) };
        if self.tables[at].side.meters.is_none() {
            return Err(EntryError::MeterNotSupported);
        }
        Meter::new(config, Time::ZERO).map(|_| ()).map_err(EntryError::Meter)
    }

    fn insert(&mut self, at: usize, entry: &Entry) -> Result<Undo, EntryError> {
        let row = self.tables[at].shape().row(&entry.matches, entry.priority)?;
        let call = self.call_words(at, &entry.target)?;
        let timeout_ps = self.timeout_ps(at, entry.idle_timeout)?;
        self.meter(at, entry.meter)?;
        self.check_owner(at, &call, None)?;
        let inserted = self.tables[at].insert(&row, &call, timeout_ps)?;
        self.refer(at, &call, 1);
        Ok(Undo::Insert(at, inserted, entry.meter))
    }

    fn modify(&mut self, at: usize, entry: &Entry) -> Result<Undo, EntryError> {
        let row = self.tables[at].shape().row(&entry.matches, entry.priority)?;
        let slot = self.changeable(at, &row)?;
        let call = self.call_words(at, &entry.target)?;
        let timeout_ps = self.timeout_ps(at, entry.idle_timeout)?;
        self.meter(at, entry.meter)?;
        self.check_owner(at, &call, Some(slot))?;
        let (old, old_timeout_ps) = self.tables[at].store.modify(slot, &call, timeout_ps);
        self.tables[at].push(OpKind::Modify, slot, 0);
        self.refer(at, &call, 1);
        self.refer(at, &old, -1);
        Ok(Undo::Modify(at, slot, old, old_timeout_ps, entry.meter))
    }

    /// The slot of an entry that is not const.
    fn changeable(&self, at: usize, row: &[u64]) -> Result<u32, EntryError> {
        let table = &self.tables[at];
        let slot = table.store.slot_of(row)?;
        if table.shape().spec.is_fixed(slot) { Err(EntryError::Const) } else { Ok(slot.0) }
    }

    fn delete(&mut self, at: usize, matches: &[Match], priority: u32) -> Result<Undo, EntryError> {
        let row = self.tables[at].shape().row(matches, priority)?;
        let slot = self.changeable(at, &row)?;
        let removed = self.tables[at].remove(slot);
        self.refer(at, &removed.call, -1);
        Ok(Undo::Remove(at, removed))
    }

    fn set_default(&mut self, id: TableId, call: Option<&ActionCall>) -> Result<Undo, EntryError> {
        let table = self.table(id)?;
        if table.shape().spec.const_default {
            return Err(EntryError::Const);
        }
        let call = call.unwrap_or(&table.shape().spec.default).clone();
        table.shape().check_call(&call)?;
        let at = id.0 as usize;
        let old = self.tables[at].set_default(call);
        Ok(Undo::Default(at, old))
    }

    /// Refuses an entry, new or in a slot, that points to a group or member of another one.
    fn check_owner(&self, at: usize, call: &[u64], slot: Option<u32>) -> Result<(), EntryError> {
        let table = &self.tables[at];
        let Some(id) = table.shape().spec.profile else { return Ok(()) };
        let old = slot.map(|slot| table.store.call(slot)[1]);
        self.profile(id)?.check_owner(call[1], old)
    }

    /// Counts the reference of an entry of a table with an action profile.
    fn refer(&mut self, at: usize, call: &[u64], by: i32) {
        if let Some(id) = self.tables[at].shape().spec.profile {
            self.profiles[id.0 as usize].refer(call[1], by);
        }
    }

    fn roll_back(&mut self, steps: Vec<Undo>) {
        for step in steps.into_iter().rev() {
            match step {
                Undo::Insert(at, inserted, _) => {
                    let call = self.tables[at].store.call(inserted.slot).to_vec();
                    self.refer(at, &call, -1);
                    self.tables[at].store.undo_insert(inserted);
                }
                Undo::Modify(at, slot, old, timeout_ps, _) => {
                    let (new, _) = self.tables[at].store.modify(slot, &old, timeout_ps);
                    self.refer(at, &new, -1);
                    self.refer(at, &old, 1);
                }
                Undo::Remove(at, removed) => {
                    self.tables[at].store.undo_remove(&removed);
                    self.refer(at, &removed.call, 1);
                }
                Undo::Default(at, old) => self.tables[at].default = old,
                Undo::Profile(at, undo) => self.profiles[at].undo(undo),
            }
        }
        for table in &mut self.tables {
            table.log = empty_log(&table.store.shape);
        }
        for profile in &mut self.profiles {
            profile.log.clear();
        }
    }

    fn name_of(&self, update: &Update) -> String {
        let name = match update {
            Update::Insert(id, _)
            | Update::Modify(id, _)
            | Update::Delete(id, _, _)
            | Update::SetDefault(id, _) => {
                self.tables.get(id.0 as usize).map(|t| &t.shape().spec.name)
            }
            Update::InsertMember(id, ..)
            | Update::ModifyMember(id, ..)
            | Update::DeleteMember(id, ..)
            | Update::InsertGroup(id, ..)
            | Update::ModifyGroup(id, ..)
            | Update::DeleteGroup(id, ..) => self.profile(*id).ok().map(|p| &p.spec.name),
        };
        name.cloned().unwrap_or_default()
    }
}
