//! Reading the objects of a device.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::{CounterId, Id, IdVec, MeterId, RegisterId, TableId};
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::state::State;
use wireyard_tables::time::Time;
use wireyard_tables::{EntryError, ProfileId, Tables};

use super::error::of_entry;
use super::plan::{self, Result};
use super::{Control, ControlError, Entity, EntryKey, Query, TableEntry, find};
use crate::replicate::{Group, Session};

/// Maximum number of register entries that a worker reads between two bursts.
const REGISTERS_TOGETHER: u64 = 256;

impl Control {
    /// The results of a query, as a list; see [`Control::visit`].
    ///
    /// # Errors
    /// [`ControlError::NotFound`] for a single object that does not exist, [`ControlError::OutOfRange`] for an index
    /// beyond the end of its array, [`ControlError::Unavailable`] for registers, if no worker is polled.
    pub fn read(&self, query: &Query) -> Result<Vec<Entity>> {
        let mut all = Vec::new();
        self.visit(query, &mut |entity| all.push(entity))?;
        Ok(all)
    }

    /// Calls `each` with everything that a query finds, in the order of ids and indices; entries of a table oldest
    /// first. Meanwhile no other program is put in force, so `each` must not read or write the device: it would wait
    /// for a replacement that waits for this read.
    ///
    /// # Errors
    /// As [`Control::read`].
    pub fn visit(&self, query: &Query, each: &mut dyn FnMut(Entity)) -> Result<()> {
        let loader = self.shared.loader();
        self.visit_in(&loader.current(), query, each)
    }

    /// Like [`Control::visit`], for a query with ids of this program.
    ///
    /// # Errors
    /// Those of [`Control::visit`], and [`ControlError::FailedPrecondition`] if another program was loaded meanwhile.
    pub fn visit_of(
        &self,
        program: &Arc<Program>,
        query: &Query,
        each: &mut dyn FnMut(Entity),
    ) -> Result<()> {
        let loader = self.shared.loader();
        let generation = loader.current();
        plan::is_of(&generation, program)?;
        self.visit_in(&generation, query, each)
    }

    /// Calls `each` with every cell that is not blank, of a device whose workers are not polled yet.
    pub(crate) fn cells_at_rest(&self, each: &mut dyn FnMut(Entity)) {
        let generation = self.shared.loader().current();
        cells_at_rest(&generation.program, &generation.state, each);
    }

    /// The lowest and the highest number of a member or group of a table; `None` if it has neither.
    ///
    /// # Errors
    /// [`ControlError::InvalidArgument`]: the table has no action profile.
    pub fn profile_numbers(&self, table: TableId) -> Result<Option<RangeInclusive<u32>>> {
        let generation = self.shared.loader().current();
        let declared = plan::table(&generation.program, table)?;
        let profile = plan::profile(&generation.program, table)?;
        let numbers = generation.state.tables().profile_numbers(profile);
        numbers.map_err(|error| of_entry(&declared.name, &error))
    }

    fn visit_in(&self, generation: &Arc<Generation>, query: &Query, each: Each<'_>) -> Result<()> {
        let read = Reading { control: self, generation, now: self.now() };
        match query {
            Query::Entry(key) => each(read.entry(key)?),
            Query::Entries { table } => {
                read.each_table(*table, |id| read.entries(id, each))?;
            }
            Query::DefaultActions { table } => {
                read.each_table(*table, |id| read.default_action(id).map(&mut *each))?;
            }
            Query::Members { table, id } => read.members((*table, *id), each)?,
            Query::Groups { table, id } => read.groups((*table, *id), each)?,
            Query::Counters { counter, index } => read.counters((*counter, *index), each)?,
            Query::Meters { meter, index } => read.meters((*meter, *index), each)?,
            Query::Registers { register, index } => read.registers((*register, *index), each)?,
            Query::ValueSets { set } => {
                for id in ids(&generation.program.value_sets, "value set", *set)? {
                    let members = generation.state.value_set(id).unwrap_or_default();
                    each(Entity::ValueSet { set: id, members });
                }
            }
            Query::Multicast { id } => {
                let all = self.shared.replication.load();
                let mut give = |(id, group): (u16, &Group)| {
                    each(Entity::Multicast { id, group: group.clone() });
                };
                match *id {
                    Some(id) => give((id, all.group(id).ok_or_else(no("multicast group", id))?)),
                    None => all.groups().for_each(give),
                }
            }
            Query::Mirrors { id } => {
                let all = self.shared.replication.load();
                let mut give = |(id, session): (u16, &Session)| {
                    each(Entity::Mirror { id, session: session.clone() });
                };
                match *id {
                    Some(id) => give((id, all.session(id).ok_or_else(no("mirror session", id))?)),
                    None => all.sessions().for_each(give),
                }
            }
        }
        Ok(())
    }
}

/// Some entries of a table.
#[derive(Clone, Debug)]
pub struct EntriesPart {
    /// Their program.
    pub program: Arc<Program>,
    /// Slots and entries, in order of slots.
    pub entries: Vec<(u32, TableEntry)>,
    /// The slot to continue with; `None` at the end.
    pub next: Option<u32>,
    /// Number of entries of the whole table.
    pub all: u32,
}

impl Control {
    /// Entries of a table in `slots` slots starting with `from`, so that a large table can be read in parts with writes
    /// in between: an entry keeps its slot.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn entries_from(&self, table: &str, from: u32, slots: u32) -> Result<EntriesPart> {
        let generation = self.shared.loader().current();
        let program = &generation.program;
        let id = find(program, &program.tables, "table", table, |table| &table.name)?;
        let tables = generation.state.tables();
        let (of_tables, from) = (plan::table_id(id), wireyard_tables::Slot(from));
        let part = tables.entries_from(of_tables, from, slots);
        let (found, next) = part.map_err(|error| of_entry(table, &error))?;
        let snapshot = tables.snapshot();
        let no_table = || ControlError::NotFound(format!("there is no table {table}"));
        let view = snapshot.table(of_tables).ok_or_else(no_table)?;
        let now = self.now();
        let entry = |(slot, found): (wireyard_tables::Slot, _)| {
            Ok((slot.0, plan::entry_of(&generation, id, view, (slot, found), now)?))
        };
        let entries = found.into_iter().map(entry).collect::<Result<_>>()?;
        let (program, next) = (Arc::clone(&generation.program), next.map(|slot| slot.0));
        Ok(EntriesPart { program, entries, next, all: view.len() })
    }
}

/// Calls `each` with every cell that is not blank, of counters, meters and registers that no worker uses yet.
pub(super) fn cells_at_rest(program: &Program, state: &State, each: &mut dyn FnMut(Entity)) {
    let mut each = |cell: Entity| {
        if !cell.is_blank() {
            each(cell)
        }
    };
    for (counter, declared) in program.counters.entries() {
        let Some(array) = state.counter(counter) else { continue };
        for index in 0..u64::from(declared.size) {
            let count = array.read(index as usize).unwrap_or_default();
            each(Entity::Counter { counter, index, count });
        }
    }
    for (meter, declared) in program.meters.entries() {
        let Some(array) = state.meter_array(meter) else { continue };
        for index in 0..u64::from(declared.size) {
            each(Entity::Meter { meter, index, config: array.config(index as usize) });
        }
    }
    for (register, declared) in program.registers.entries() {
        let Some(array) = state.register(register) else { continue };
        for index in 0..u64::from(declared.size) {
            let cells = (0..array.cells()).filter_map(|cell| array.load(index, cell)).collect();
            each(Entity::Register { register, index, cells });
        }
    }
}

/// The given number, or all numbers of members or groups.
fn numbers(id: Option<u32>) -> RangeInclusive<u32> {
    id.map_or(0..=u32::MAX, |id| id..=id)
}

/// The given id if it exists, or all ids.
fn ids<I: Id, T>(objects: &IdVec<I, T>, kind: &str, id: Option<I>) -> Result<Vec<I>> {
    match id {
        None => Ok(objects.ids().collect()),
        Some(id) if objects.get(id).is_some() => Ok(vec![id]),
        Some(id) => Err(ControlError::NotFound(format!("there is no {kind} {}", id.index()))),
    }
}

/// Calls `each` with every cell of these arrays, or the selected ones; `shape` returns name and size of an array.
fn each_cell<I: Id, T>(
    arrays: &IdVec<I, T>,
    wanted: Cells<I>,
    kind: &str,
    shape: impl Fn(&T) -> (&str, u32),
    mut each: impl FnMut(I, usize),
) -> Result<()> {
    for id in ids(arrays, kind, wanted.0)? {
        let (name, size) = shape(&arrays[id]);
        match wanted.1 {
            Some(cell) => each(id, plan::index(kind, name, cell, size as usize)?),
            None => (0..size as usize).for_each(|cell| each(id, cell)),
        }
    }
    Ok(())
}

/// Takes each object found.
type Each<'a> = &'a mut dyn FnMut(Entity);
/// An array and an index in it, or all of each.
type Cells<I> = (Option<I>, Option<u64>);
/// A table and the number of a member or group of its profile, or all of each.
type Numbered = (Option<TableId>, Option<u32>);
/// Objects of a profile with their numbers.
type Listed<T> = std::result::Result<Vec<(u32, T)>, EntryError>;

struct Reading<'a> {
    control: &'a Control,
    generation: &'a Arc<Generation>,
    now: Time,
}

impl Reading<'_> {
    fn counters(&self, wanted: Cells<CounterId>, each: Each<'_>) -> Result<()> {
        let arrays = &self.generation.program.counters;
        each_cell(
            arrays,
            wanted,
            "counter",
            |one| (&one.name, one.size),
            |counter, index| {
                let array = self.generation.state.counter(counter);
                let count = array.and_then(|array| array.read(index)).unwrap_or_default();
                each(Entity::Counter { counter, index: index as u64, count });
            },
        )
    }

    fn meters(&self, wanted: Cells<MeterId>, each: Each<'_>) -> Result<()> {
        let arrays = &self.generation.program.meters;
        each_cell(
            arrays,
            wanted,
            "meter",
            |one| (&one.name, one.size),
            |meter, index| {
                let array = self.generation.state.meter_array(meter);
                let config = array.and_then(|array| array.config(index));
                each(Entity::Meter { meter, index: index as u64, config });
            },
        )
    }

    fn each_table(
        &self,
        table: Option<TableId>,
        mut each: impl FnMut(TableId) -> Result<()>,
    ) -> Result<()> {
        ids(&self.generation.program.tables, "table", table)?.into_iter().try_for_each(&mut each)
    }

    fn entry(&self, key: &EntryKey) -> Result<Entity> {
        let declared = plan::table(&self.generation.program, key.table)?;
        let (tables, id) = (self.generation.state.tables(), plan::table_id(key.table));
        let found = tables.entry(id, &key.matches, key.priority);
        let found = found.map_err(|error| of_entry(&declared.name, &error))?;
        let snapshot = tables.snapshot();
        let no_table = || ControlError::NotFound(format!("there is no table {}", key.table.0));
        let view = snapshot.table(id).ok_or_else(no_table)?;
        plan::entry_of(self.generation, key.table, view, found, self.now).map(Entity::TableEntry)
    }

    fn entries(&self, table: TableId, each: Each<'_>) -> Result<()> {
        let declared = plan::table(&self.generation.program, table)?;
        let (tables, id) = (self.generation.state.tables(), plan::table_id(table));
        let all = tables.copied(id).map_err(|error| of_entry(&declared.name, &error))?;
        let snapshot = tables.snapshot();
        let Some(view) = snapshot.table(id) else { return Ok(()) };
        for found in all {
            let entry = plan::entry_of(self.generation, table, view, found, self.now)?;
            each(Entity::TableEntry(entry));
        }
        Ok(())
    }

    fn default_action(&self, table: TableId) -> Result<Entity> {
        let program = &self.generation.program;
        let declared = plan::table(program, table)?;
        let call = self.generation.state.tables().default_action(plan::table_id(table));
        let call = call.map_err(|error| of_entry(&declared.name, &error))?;
        let action = Some(plan::call_of(program, declared, &call));
        Ok(Entity::DefaultAction { table, action })
    }

    /// Tables with a profile; a named table must have one.
    fn profiles(&self, table: Option<TableId>) -> Result<Vec<TableId>> {
        let program = &self.generation.program;
        if let Some(table) = table {
            plan::profile(program, table)?;
        }
        let mut all = ids(&program.tables, "table", table)?;
        all.retain(|id| program.tables[*id].selector.is_some());
        Ok(all)
    }

    fn members(&self, wanted: Numbered, each: Each<'_>) -> Result<()> {
        let program = &self.generation.program;
        self.of_profiles(wanted, "member", Tables::members_in, |table, id, call| {
            let action = plan::call_of(program, &program.tables[table], &call);
            each(Entity::Member { table, id, action });
        })
    }

    fn groups(&self, wanted: Numbered, each: Each<'_>) -> Result<()> {
        self.of_profiles(wanted, "group", Tables::groups_in, |table, id, members| {
            each(Entity::Group { table, id, members });
        })
    }

    /// Calls `each` with what `all` lists of the profiles of tables: everything, or that of one number.
    fn of_profiles<T>(
        &self,
        (table, id): Numbered,
        kind: &str,
        all: fn(&Tables, ProfileId, RangeInclusive<u32>) -> Listed<T>,
        mut each: impl FnMut(TableId, u32, T),
    ) -> Result<()> {
        let program = &self.generation.program;
        let mut found = 0;
        for table in self.profiles(table)? {
            let declared = plan::table(program, table)?;
            let profile = plan::profile(program, table)?;
            let all = all(self.generation.state.tables(), profile, numbers(id));
            for (number, one) in all.map_err(|error| of_entry(&declared.name, &error))? {
                each(table, number, one);
                found += 1;
            }
        }
        match id {
            Some(id) if found == 0 => Err(no(kind, id)()),
            _ => Ok(()),
        }
    }

    fn registers(&self, (register, index): Cells<RegisterId>, each: Each<'_>) -> Result<()> {
        let registers = &self.generation.program.registers;
        for register in ids(registers, "register", register)? {
            let declared = &registers[register];
            let size = u64::from(declared.size);
            let (mut next, end) = match index {
                Some(at) => {
                    plan::index("register", &declared.name, at, size as usize)?;
                    (at, at + 1)
                }
                None => (0, size),
            };
            while next < end {
                let until = end.min(next + REGISTERS_TOGETHER);
                let read = self.get_registers(register, next..until)?;
                for (index, cells) in (next..until).zip(read) {
                    each(Entity::Register { register, index, cells });
                }
                next = until;
            }
        }
        Ok(())
    }
}

/// The error for an object that does not exist.
fn no(kind: &str, id: impl Display) -> impl Fn() -> ControlError {
    move || ControlError::NotFound(format!("there is no {kind} {id}"))
}

impl Reading<'_> {
    fn get_registers(&self, id: RegisterId, range: Range<u64>) -> Result<Vec<Vec<u64>>> {
        let generation = Arc::clone(self.generation);
        self.control.ask(0, move |_, _| {
            let state = &generation.state;
            let Some(array) = state.register(id) else { return Vec::new() };
            let read = |index| {
                let lock = state.lock(id, index);
                let cells = (0..array.cells()).filter_map(|cell| array.load(index, cell)).collect();
                lock.inspect(|token| state.unlock(*token));
                cells
            };
            range.map(read).collect()
        })
    }
}
