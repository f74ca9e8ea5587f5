//! Writing: a batch is checked completely, then tables are published, then other objects are written.

mod entries;
mod later;

use std::cell::RefCell;
use std::sync::Arc;

use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::{RegisterId, ValueSetId};
use wireyard_pipeline::ir::{Program, layout};
use wireyard_pipeline::state::ValueSetError;
use wireyard_tables as tables;
use wireyard_tables::time::Time;

use entries::Entries;
use later::Later;

use super::error::{invalid, of_batch, of_entry};
use super::plan::{self, Result};
use super::{Control, ControlError, Entity, EntryKey, Mode, Update, WriteError};
use crate::replicate::{Replication, ReplicationError};
use crate::sync::lock;

/// Maximum number of updates that [`Mode::Continue`] publishes together.
const TOGETHER: usize = 1024;
/// Maximum number of cells of an array that one request writes without an index: each is an update of its batch.
pub(crate) const CELLS_MAX: u32 = 1 << 20;

/// A batch, with all checks done that need no lookup in the tables.
struct Plan {
    tables: Vec<tables::Update>,
    /// The place in the batch of each of these.
    places: Vec<usize>,
    later: Vec<Later>,
}

/// Refuses number 0, by which controllers read all of them.
pub(crate) fn named(id: u32, what: &str) -> Result<()> {
    if id == 0 { invalid(format!("the number of a {what} is 1 or more")) } else { Ok(()) }
}

/// True for an update that the tables publish as part of a version.
fn is_of_tables(update: &Update) -> bool {
    matches!(
        update.entity(),
        Entity::TableEntry(_)
            | Entity::DefaultAction { .. }
            | Entity::Member { .. }
            | Entity::Group { .. }
    )
}

/// True for an update of a multicast group or mirror session.
fn is_replication(update: &Update) -> bool {
    matches!(update.entity(), Entity::Multicast { .. } | Entity::Mirror { .. })
}

/// The write of the counter that the entry at this place of a batch is written with.
fn counted(at: usize, update: &Update, entries: &Entries<'_>) -> Option<Later> {
    let (Update::Insert(Entity::TableEntry(entry)) | Update::Modify(Entity::TableEntry(entry))) =
        update
    else {
        return None;
    };
    let count = entry.counter?;
    let is_last = !entries.end_after(at, &entry.key);
    is_last.then(|| Later::DirectCounter(entry.key.clone(), count))
}

/// The name of an object that the program or its entry brings with it.
fn always_there(entity: &Entity) -> &'static str {
    match entity {
        Entity::DirectCounter { .. } => "the counter of an entry",
        Entity::DirectMeter { .. } => "the meter of an entry",
        Entity::Counter { .. } => "a counter",
        Entity::Meter { .. } => "a meter",
        Entity::Register { .. } => "a register",
        Entity::ValueSet { .. } => "a value set",
        _ => "an object of the program",
    }
}

/// The error for an object that can only be modified; `what` is its name in the message.
fn only_modify<T>(update: &Update, what: &str) -> Result<T> {
    match update {
        Update::Insert(_) => invalid(format!("{what} cannot be inserted: modify it")),
        _ => invalid(format!("{what} cannot be deleted: modify it")),
    }
}

impl Control {
    /// Writes a batch of updates, in order. A batch that writes registers needs a worker that is polled meanwhile.
    ///
    /// # Errors
    /// The result of each update. A device with a journal returns when the batch is stored. With [`Mode::Atomic`]
    /// nothing has changed, with one exception: if no worker can write registers ([`ControlError::Unavailable`]), the
    /// other updates of the batch are done.
    pub fn write(&self, updates: &[Update], mode: Mode) -> std::result::Result<(), WriteError> {
        self.write_in_unit(None, updates, mode, false)
    }

    /// Like [`Control::write`], for updates with ids of this program.
    ///
    /// # Errors
    /// Those of [`Control::write`], and [`ControlError::FailedPrecondition`] for every update if another program was
    /// loaded meanwhile.
    pub fn write_of(
        &self,
        program: &Arc<Program>,
        updates: &[Update],
        mode: Mode,
    ) -> std::result::Result<(), WriteError> {
        self.write_in_unit(Some(program), updates, mode, false)
    }

    /// Like [`Control::write_of`], for the mirror of the kernel, which alone changes the tables that the kernel fills.
    pub(crate) fn write_mirrored(
        &self,
        program: &Arc<Program>,
        updates: &[Update],
        mode: Mode,
    ) -> std::result::Result<(), WriteError> {
        self.write_in_unit(Some(program), updates, mode, true)
    }

    /// Like [`Control::write_of`], for objects that follow from the state of the host: they are not stored, and need no
    /// store that works.
    pub(crate) fn write_unstored(
        &self,
        program: &Arc<Program>,
        updates: &[Update],
        mode: Mode,
    ) -> std::result::Result<(), WriteError> {
        let mut unit = self.unstored();
        let done = unit.write_of(Some(program), updates, mode);
        unit.follow(updates, &done);
        done
    }

    fn write_in_unit(
        &self,
        program: Option<&Arc<Program>>,
        updates: &[Update],
        mode: Mode,
        fills_mirrored: bool,
    ) -> std::result::Result<(), WriteError> {
        let of_all = |error| WriteError { results: vec![Err(error); updates.len()] };
        let mut unit = self.unit().map_err(of_all)?;
        unit.fills_mirrored = fills_mirrored;
        let done = unit.write_of(program, updates, mode);
        unit.follow(updates, &done);
        unit.end().wait().map_err(of_all)?;
        done
    }

    /// Like [`Control::write_of`], without a journal. Objects removed together with changed or deleted entries are
    /// added to `released`: their groups, and the members of these. With the mode: whether the writer may change tables
    /// that the kernel fills.
    pub(super) fn apply(
        &self,
        program: Option<&Arc<Program>>,
        updates: &[Update],
        (mode, fills_mirrored): (Mode, bool),
        released: &mut Vec<Update>,
    ) -> std::result::Result<(), WriteError> {
        let loader = self.shared.loader();
        let generation = loader.current();
        if let Some(Err(error)) = program.map(|program| plan::is_of(&generation, program)) {
            return Err(WriteError { results: vec![Err(error); updates.len()] });
        }
        let batch = Batch::new(self, &generation, fills_mirrored);
        let mut results = vec![Ok(()); updates.len()];
        match mode {
            Mode::Atomic => {
                if let Err((at, error)) = batch.all(updates, &mut results) {
                    let aborted = format!("not done: update {at} of the batch was refused");
                    results.fill(Err(ControlError::Aborted(aborted)));
                    results[at] = Err(error);
                }
            }
            Mode::Continue => batch.each(updates, &mut results),
        }
        released.append(&mut batch.released.into_inner());
        match results.iter().all(std::result::Result::is_ok) {
            true => Ok(()),
            false => Err(WriteError { results }),
        }
    }
}

/// The context of a batch.
struct Batch<'a> {
    control: &'a Control,
    generation: &'a Arc<Generation>,
    now: Time,
    /// Tables that the kernel fills may be changed.
    fills_mirrored: bool,
    /// Objects removed together with entries.
    released: RefCell<Vec<Update>>,
}

impl<'a> Batch<'a> {
    fn new(
        control: &'a Control,
        generation: &'a Arc<Generation>,
        fills_mirrored: bool,
    ) -> Batch<'a> {
        let (now, released) = (control.now(), RefCell::default());
        Batch { control, generation, now, fills_mirrored, released }
    }

    /// Refuses to change what the kernel determines: the mirror would not notice it, and the tables would be wrong.
    fn not_mirrored(&self, update: &Update) -> Result<()> {
        let program = &self.generation.program;
        let Some(table) = self.control.mirrored_table(program, update.entity()) else {
            return Ok(());
        };
        Err(ControlError::FailedPrecondition(format!(
            "table {} is filled from Linux (`linux:` of the program): change addresses, neighbours and routes there, with `ip` in the \
             namespace of --linux",
            program.tables[table].name
        )))
    }

    /// Writes to the tables.
    fn write(&self, changes: &[tables::Update]) -> std::result::Result<(), tables::BatchError> {
        let done = self.generation.state.tables().batch(changes, self.now)?;
        let mut all = self.released.borrow_mut();
        for (profile, released) in done.released {
            all.extend(plan::released(&self.generation.program, profile, &released));
        }
        Ok(())
    }

    /// Writes each update on its own; adjacent updates of tables are published together, and so are those of groups and
    /// sessions.
    fn each(&self, updates: &[Update], results: &mut [Result<()>]) {
        let mut at = 0;
        while at < updates.len() {
            let run = |is_one: fn(&Update) -> bool| {
                updates[at..].iter().take(TOGETHER).take_while(|update| is_one(update)).count()
            };
            let (of_tables, of_copies) = (run(is_of_tables), run(is_replication));
            let end = at + of_tables.max(of_copies).max(1);
            let (some, results) = (&updates[at..end], &mut results[at..end]);
            match (of_tables, of_copies) {
                (0, 0) => {
                    if let Err((_, error)) = self.all(some, results) {
                        results[0] = Err(error);
                    }
                }
                (0, _) => self.replicate_each(some, results),
                _ => self.run(some, results),
            }
            at = end;
        }
    }

    /// Writes updates of groups and sessions, each on its own: all are copied and published once.
    fn replicate_each(&self, updates: &[Update], results: &mut [Result<()>]) {
        let _replicating = lock(&self.control.shared.replicating);
        let mut all = (*self.control.shared.replication.load()).clone();
        for (update, result) in updates.iter().zip(&mut *results) {
            *result = replicate(&mut all, update);
        }
        if results.iter().any(Result::is_ok) {
            self.control.shared.replication.publish(all);
        }
    }

    /// Writes updates of tables, each on its own.
    fn run(&self, updates: &[Update], results: &mut [Result<()>]) {
        let (mut changes, mut places) = (Vec::new(), Vec::new());
        for (at, update) in updates.iter().enumerate() {
            match self.table_update(update) {
                Ok(change) => {
                    places.extend(change.is_some().then_some(at));
                    changes.extend(change);
                }
                Err(error) => results[at] = Err(error),
            }
        }
        self.publish(updates, &changes, &places, results);
    }

    /// Publishes the changes that the tables accept; each belongs to the update at its place.
    fn publish(
        &self,
        updates: &[Update],
        mut changes: &[tables::Update],
        mut places: &[usize],
        results: &mut [Result<()>],
    ) {
        while !changes.is_empty() {
            let Err(error) = self.write(changes) else {
                let entries = Entries::at(updates, places);
                let counted = places.iter().filter_map(|at| counted(*at, &updates[*at], &entries));
                // Counters of entries cannot be refused.
                let _ = self.follow(counted.collect());
                return;
            };
            let refused = error.index;
            results[places[refused]] = Err(of_batch(&error, &updates[places[refused]]));
            // The changes before it are published now; a packet may have learned into their table meanwhile.
            self.publish(updates, &changes[..refused], &places[..refused], results);
            (changes, places) = (&changes[refused + 1..], &places[refused + 1..]);
        }
    }

    /// Writes all updates, or none, and returns the place and error of the wrong one. Registers that no worker wrote
    /// are reported in `results`.
    fn all(
        &self,
        updates: &[Update],
        results: &mut [Result<()>],
    ) -> std::result::Result<(), (usize, ControlError)> {
        let replicates = updates.iter().any(is_replication);
        let _replicating = replicates.then(|| lock(&self.control.shared.replicating));
        let mut replication = replicates.then(|| (*self.control.shared.replication.load()).clone());
        let of_each = updates.len();
        let mut plan = Plan {
            tables: Vec::with_capacity(of_each),
            places: Vec::with_capacity(of_each),
            later: Vec::new(),
        };
        let entries = Entries::of(updates);
        for (at, update) in updates.iter().enumerate() {
            let planned = match &mut replication {
                Some(replication) if is_replication(update) => replicate(replication, update),
                _ => self.plan(&mut plan, at, &entries, update),
            };
            planned.map_err(|error| (at, error))?;
        }
        self.write(&plan.tables).map_err(|error| {
            let at = plan.places[error.index];
            (at, of_batch(&error, &updates[at]))
        })?;
        if let Some(replication) = replication {
            self.control.shared.replication.publish(replication);
        }
        if let Err(error) = self.follow(plan.later) {
            let of_registers = |update: &Update| matches!(update.entity(), Entity::Register { .. });
            let refused = updates.iter().zip(results).filter(|(update, _)| of_registers(update));
            refused.for_each(|(_, result)| *result = Err(error.clone()));
        }
        Ok(())
    }

    fn plan(
        &self,
        plan: &mut Plan,
        at: usize,
        entries: &Entries<'_>,
        update: &Update,
    ) -> Result<()> {
        if let Some(change) = self.table_update(update)? {
            plan.tables.push(change);
            plan.places.push(at);
            plan.later.extend(counted(at, update, entries));
            return Ok(());
        }
        let later = self.later(at, entries, update)?;
        // The tables are published first: what is written beside an entry would reach its successor.
        let is_replaced = match &later {
            Later::DirectCounter(key, _) => entries.end_after(at, key),
            Later::DirectMeter(key, _) => entries.rates_end_after(at, key),
            _ => false,
        };
        plan.later.extend((!is_replaced).then_some(later));
        Ok(())
    }

    /// The update for the tables; `None` for another object.
    fn table_update(&self, update: &Update) -> Result<Option<tables::Update>> {
        use tables::Update as To;
        if !self.fills_mirrored {
            self.not_mirrored(update)?;
        }
        let program = &self.generation.program;
        let call = |id, action| plan::call(program, id, action);
        let profile = |id| plan::profile(program, id);
        Ok(Some(match (update, update.entity()) {
            (Update::Insert(_), Entity::TableEntry(entry)) => {
                To::Insert(plan::table_id(entry.key.table), plan::entry(program, entry)?)
            }
            (Update::Modify(_), Entity::TableEntry(entry)) => {
                To::Modify(plan::table_id(entry.key.table), plan::entry(program, entry)?)
            }
            (Update::Delete(_), Entity::TableEntry(entry)) => {
                let EntryKey { table, matches, priority } = &entry.key;
                To::Delete(plan::table_id(*table), matches.clone(), *priority)
            }
            (Update::Modify(_), Entity::DefaultAction { table, action }) => {
                let action = action.as_ref().map(|action| call(*table, action)).transpose()?;
                To::SetDefault(plan::table_id(*table), action)
            }
            (_, Entity::DefaultAction { .. }) => return only_modify(update, "a default action"),
            (Update::Insert(_), Entity::Member { table, id, action }) => {
                named(*id, "member")?;
                To::InsertMember(profile(*table)?, *id, call(*table, action)?)
            }
            (Update::Modify(_), Entity::Member { table, id, action }) => {
                To::ModifyMember(profile(*table)?, *id, call(*table, action)?)
            }
            (Update::Delete(_), Entity::Member { table, id, .. }) => {
                To::DeleteMember(profile(*table)?, *id)
            }
            (Update::Insert(_), Entity::Group { table, id, members }) => {
                named(*id, "group")?;
                To::InsertGroup(profile(*table)?, *id, members.clone())
            }
            (Update::Modify(_), Entity::Group { table, id, members }) => {
                To::ModifyGroup(profile(*table)?, *id, members.clone())
            }
            (Update::Delete(_), Entity::Group { table, id, .. }) => {
                To::DeleteGroup(profile(*table)?, *id)
            }
            _ => return Ok(None),
        }))
    }

    /// Checks an update that is written after the tables.
    fn later(&self, at: usize, entries: &Entries<'_>, update: &Update) -> Result<Later> {
        let (program, state) = (&self.generation.program, &self.generation.state);
        let Update::Modify(entity) = update else {
            return only_modify(update, always_there(update.entity()));
        };
        let no = |kind: &str, id: u32| ControlError::NotFound(format!("there is no {kind} {id}"));
        Ok(match entity {
            Entity::DirectCounter { key, count } => {
                self.check_entry(at, entries, key, "counters", |table| table.counters)?;
                Later::DirectCounter(key.clone(), *count)
            }
            Entity::DirectMeter { key, config } => {
                self.check_entry(at, entries, key, "meters", |table| table.meter.is_some())?;
                plan::rates("meter", *config)?;
                Later::DirectMeter(key.clone(), *config)
            }
            Entity::Counter { counter, index, count } => {
                let declared = program.counters.get(*counter);
                let declared = declared.ok_or_else(|| no("counter", counter.0))?;
                let size = declared.size as usize;
                let index = plan::index("counter", &declared.name, *index, size)?;
                Later::Counter(*counter, index, *count)
            }
            Entity::Meter { meter, index, config } => {
                let declared = program.meters.get(*meter).ok_or_else(|| no("meter", meter.0))?;
                let size = declared.size as usize;
                plan::rates(&declared.name, *config)?;
                Later::Meter(*meter, plan::index("meter", &declared.name, *index, size)?, *config)
            }
            Entity::Register { register, index, cells } => {
                self.check_register(*register, *index, cells)?;
                Later::Register(*register, *index, cells.clone())
            }
            Entity::ValueSet { set, members } => {
                let of_set = |error| of_value_set(&self.generation.program, *set, &error);
                state.check_value_set(*set, members).map_err(of_set)?;
                Later::ValueSet(*set, members.clone())
            }
            other => {
                return Err(ControlError::Unimplemented(format!("writing of {other:?}")));
            }
        })
    }

    /// Checks that the entry exists at this place of the batch, and that its table has what is to be written.
    fn check_entry(
        &self,
        at: usize,
        entries: &Entries<'_>,
        key: &EntryKey,
        what: &str,
        has: impl Fn(&wireyard_pipeline::ir::Table) -> bool,
    ) -> Result<()> {
        let declared = plan::table(&self.generation.program, key.table)?;
        if !has(declared) {
            return invalid(format!("table {} has no {what}", declared.name));
        }
        match entries.before(at, key) {
            Some(true) => Ok(()),
            Some(false) => Err(of_entry(&declared.name, &tables::EntryError::NotFound)),
            None => plan::slot(self.generation, key).map(|_| ()),
        }
    }

    fn check_register(&self, id: RegisterId, index: u64, cells: &[u64]) -> Result<()> {
        let declared = self.generation.program.registers.get(id);
        let no_register = || ControlError::NotFound(format!("there is no register {}", id.0));
        let declared = declared.ok_or_else(no_register)?;
        plan::index("register", &declared.name, index, declared.size as usize)?;
        let (found, expected) = (cells.len(), declared.cells.len());
        if found != expected {
            return invalid(format!(
                "an entry of register {} has {expected} cells, and {found} were given",
                declared.name
            ));
        }
        let mut cells = declared.cells.iter().zip(cells);
        let wide = cells.find(|(cell, value)| u128::from(**value) > layout::ones(cell.bits));
        wide.map_or(Ok(()), |(cell, value)| {
            Err(ControlError::OutOfRange(format!(
                "register {}: {value:#x} does not fit into the {} bits of {}",
                declared.name, cell.bits, cell.name
            )))
        })
    }
}
fn of_value_set(program: &Program, set: ValueSetId, error: &ValueSetError) -> ControlError {
    let name = program.value_sets.get(set).map_or("", |set| set.name.as_str());
    let kind = match error {
        ValueSetError::NoSuchSet => ControlError::NotFound,
        ValueSetError::Full { .. } | ValueSetError::TooManyMasks => ControlError::ResourceExhausted,
        ValueSetError::Field { error, .. }
            if matches!(**error, tables::FieldError::TooWide { .. }) =>
        {
            ControlError::OutOfRange
        }
        ValueSetError::Field { .. } | ValueSetError::Keys { .. } => ControlError::InvalidArgument,
    };
    kind(format!("value set {name}: {error}"))
}

/// Applies an update to a copy of groups and sessions.
fn replicate(all: &mut Replication, update: &Update) -> Result<()> {
    let (kind, id, is_there) = match update.entity() {
        Entity::Multicast { id, .. } => ("multicast group", *id, all.group(*id).is_some()),
        Entity::Mirror { id, .. } => ("mirror session", *id, all.session(*id).is_some()),
        _ => return Ok(()),
    };
    match (update, is_there) {
        (Update::Insert(_), true) => {
            return Err(ControlError::AlreadyExists(format!("{kind} {id} exists already")));
        }
        (Update::Modify(_) | Update::Delete(_), false) => {
            return Err(ControlError::NotFound(format!("there is no {kind} {id}")));
        }
        _ => {}
    }
    let refused = |error: ReplicationError| ControlError::invalid(error);
    match (update, update.entity()) {
        (Update::Delete(_), Entity::Multicast { .. }) => _ = all.remove_group(id),
        (Update::Delete(_), _) => _ = all.remove_session(id),
        (_, Entity::Multicast { group, .. }) => {
            all.set_group(id, group.clone()).map_err(refused)?;
        }
        (_, Entity::Mirror { session, .. }) => {
            all.set_session(id, session.clone()).map_err(refused)?;
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
