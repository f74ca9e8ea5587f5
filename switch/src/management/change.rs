//! Changes in the notation of entries.yaml, resolved against the running program into updates of control.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::diag::{Diagnostics, Files, render, suggest};
use wireyard_pipeline::entries::{self, Purpose, Resolved};
use wireyard_pipeline::ids::{Id, RegisterId, TableId};
use wireyard_pipeline::ir::{ActionCall, Program};
use wireyard_pipeline::source::Loader;
use wireyard_pipeline::state::action_args;
use wireyard_tables as tables;
use wireyard_tables::counter::Count;
use wireyard_tables::selector::FIRST_OWNED_ID;

use super::show;
use crate::control::{
    CELLS_MAX, Control, ControlError, Entity, EntryKey, Query, TableEntry, Target, Update, invalid,
};
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::replicate::Replication;
use wire::change::Kind;
use wire::read_request::Kind as What;

type Result<T> = std::result::Result<T, ControlError>;

/// Maximum bytes of diagnostics in one answer: with encoded line feeds they take a little more in the header.
const ERRORS_BYTES: usize = 4 << 10;
/// Number of entries that CLEAR deletes together.
const CLEAR_TOGETHER: usize = 4096;

/// The errors, one line each, for a text that the user did not write as a file.
fn brief(found: &Diagnostics) -> String {
    let (shown, more) = found.shown();
    let mut lines: Vec<String> = shown
        .iter()
        .map(|one| {
            let fixes = one.fixes.iter().map(|fix| &fix.title);
            let hints: Vec<&str> = fixes.chain(&one.helps).map(String::as_str).collect();
            let hints = if hints.is_empty() { String::new() } else { hints.join("; ") };
            // A key of a file is an option of a command.
            let hints = hints.replace("add `priority: 10`", "add `--priority 10`");
            if hints.is_empty() { one.message.clone() } else { format!("{}; {hints}", one.message) }
        })
        .collect();
    if more > 0 {
        lines.push(format!("{more} more errors"));
    }
    lines.join("\n")
}

/// As many whole diagnostics of a file as fit into an answer, and the number of further ones.
fn shown(text: &str, name: &str) -> String {
    let all: Vec<&str> = text.trim_end().split("\n\n").collect();
    let mut bytes = 0;
    let fitting = all.iter().take_while(|one| {
        bytes += one.len() + 2;
        bytes <= ERRORS_BYTES
    });
    // One that is longer than the limit is truncated when it is sent.
    let count = fitting.count().max(1);
    let mut shown = all[..count].join("\n\n");
    if count < all.len() {
        let more = all.len() - count;
        shown += &format!(
            "\n\n... and {more} more: `wireyard check PROGRAM --entries {name}` lists all of them"
        );
    }
    shown
}

/// Resolves a text of entries.yaml against a program.
///
/// # Errors
/// The errors in the text.
pub fn resolve(program: &Program, text: &str, name: &str, purpose: Purpose) -> Result<Resolved> {
    let path = Path::new(if name.is_empty() { "entries.yaml" } else { name });
    let loader = Loader::in_memory([(path, text)], &[]);
    let (mut files, mut found) = (Files::new(), Diagnostics::new());
    let resolved = entries::load_for(path, &loader, program, purpose, &mut files, &mut found);
    match resolved.filter(|_| !found.has_errors()) {
        Some(resolved) => Ok(resolved),
        None if name.is_empty() => invalid(brief(&found)),
        None => invalid(shown(&render::plain(&found, &files), name)),
    }
}

/// Adds the object's name to an error about its existence, for which tables have no name.
pub(super) fn named(program: &Program, entity: &Entity, error: ControlError) -> ControlError {
    let table = |id: &TableId| program.tables.get(*id).map_or("", |table| table.name.as_str());
    let (table, what, command) = match entity {
        Entity::TableEntry(entry) => {
            (table(&entry.key.table), format!("entry {}", show::key(program, &entry.key)), "table")
        }
        Entity::Member { table: id, id: number, .. } => {
            (table(id), format!("member {number}"), "member")
        }
        Entity::Group { table: id, id: number, .. } => {
            (table(id), format!("group {number}"), "group")
        }
        _ => return error,
    };
    match error {
        ControlError::NoEntry(_) => {
            ControlError::NotFound(format!("table `{table}` has no {what}"))
        }
        ControlError::EntryExists(_) => ControlError::AlreadyExists(format!(
            "table `{table}`: {what} exists already: `wireyard {command} modify` changes it, `{command} set` adds or changes"
        )),
        error => error,
    }
}

/// Like [`named`], for an entry that is only read.
pub(super) fn no_entry(program: &Program, key: &EntryKey, error: ControlError) -> ControlError {
    let table = program.tables.get(key.table).map_or("", |table| table.name.as_str());
    match error {
        ControlError::NoEntry(_) => {
            let key = show::key(program, key);
            ControlError::NotFound(format!("table `{table}` has no entry {key}"))
        }
        error => error,
    }
}

/// The context of changes.
struct Changes<'a> {
    control: &'a Control,
    program: &'a Arc<Program>,
    kind: Kind,
    /// Cells of a register that a change does not write keep their values.
    keeps_cells: bool,
    updates: Vec<Update>,
}

/// The updates that set the contents of a file, whatever exists but entries, of which there are those that the program
/// declares: cells of a register that it omits become blank.
///
/// # Errors
/// An object does not exist.
pub(super) fn replacement(
    control: &Control,
    program: &Arc<Program>,
    resolved: &Resolved,
) -> Result<Vec<Update>> {
    let (kind, updates) = (Kind::Set, Vec::new());
    let mut all = Changes { control, program, kind, keeps_cells: false, updates };
    all.tables(resolved)?;
    all.replication(resolved)?;
    all.arrays(resolved)?;
    Ok(all.updates)
}

/// The updates of these changes, for this program.
///
/// # Errors
/// The errors in the changes.
pub fn updates(
    control: &Control,
    program: &Arc<Program>,
    changes: &[wire::Change],
) -> Result<Vec<Update>> {
    let mut all = Changes {
        control,
        program,
        kind: Kind::Unspecified,
        keeps_cells: true,
        updates: Vec::new(),
    };
    for change in changes {
        all.kind = Kind::try_from(change.kind).unwrap_or_default();
        all.change(change)?;
    }
    Ok(all.updates)
}

impl Changes<'_> {
    fn change(&mut self, change: &wire::Change) -> Result<()> {
        let purpose = match self.kind {
            Kind::Unspecified => return invalid("a change has no kind"),
            Kind::Clear => return invalid("CLEAR is the only change of its batch"),
            Kind::Delete => Purpose::Remove,
            Kind::Insert | Kind::Modify | Kind::Set => Purpose::Change,
        };
        let resolved = resolve(self.program, &change.entries, &change.name, purpose)?;
        let first = self.updates.len();
        self.tables(&resolved)?;
        self.replication(&resolved)?;
        self.arrays(&resolved)?;
        if self.kind == Kind::Delete {
            // Entries before the groups that they refer to, groups before their members.
            self.updates[first..].reverse();
        }
        change.cells.iter().try_for_each(|cells| self.clear_cells(cells))?;
        change.counters.iter().try_for_each(|counter| self.counter(counter))
    }

    /// Adds an update of the current kind; `is_there` is called only where the result depends on it.
    fn add(&mut self, entity: Entity, is_there: impl FnOnce(&Control) -> bool) {
        self.updates.push(match self.kind {
            Kind::Delete => Update::Delete(entity),
            Kind::Modify => Update::Modify(entity),
            Kind::Set if is_there(self.control) => Update::Modify(entity),
            _ => Update::Insert(entity),
        });
    }

    /// Adds an update of an object that always exists.
    fn modify(&mut self, entity: Entity) {
        self.updates.push(Update::Modify(entity));
    }

    fn tables(&mut self, resolved: &Resolved) -> Result<()> {
        let mut counts = resolved.entry_counts.iter().copied().peekable();
        let mut of_table = resolved.of_table.iter().copied().peekable();
        for (at, update) in resolved.updates.iter().enumerate() {
            match update {
                tables::Update::Insert(id, entry) | tables::Update::Modify(id, entry) => {
                    let count = counts.next_if(|(of, _)| *of == at).map(|(_, count)| count);
                    let has_own = of_table.next_if_eq(&at).is_none();
                    let is_declared = matches!(update, tables::Update::Modify(..));
                    self.entry(TableId(id.0), entry, (has_own, is_declared), count)
                }
                tables::Update::SetDefault(id, call) => {
                    let table = TableId(id.0);
                    let action = call.as_ref().map(|call| self.call(table, call)).transpose()?;
                    self.modify(Entity::DefaultAction { table, action });
                    Ok(())
                }
                tables::Update::InsertMember(profile, id, call) => {
                    let (table, id) = (self.table_of(*profile)?, *id);
                    let action = match self.kind {
                        Kind::Delete => ActionCall { action: Default::default(), args: Vec::new() },
                        _ => self.call(table, call)?,
                    };
                    let there = Query::Members { table: Some(table), id: Some(id) };
                    let entity = Entity::Member { table, id, action };
                    let is_gone = !self.keeps_cells && id >= FIRST_OWNED_ID;
                    self.add(entity, |control| !is_gone && control.read(&there).is_ok());
                    Ok(())
                }
                tables::Update::InsertGroup(profile, id, members) => {
                    let (table, id) = (self.table_of(*profile)?, *id);
                    let there = Query::Groups { table: Some(table), id: Some(id) };
                    let entity = Entity::Group { table, id, members: members.clone() };
                    let is_gone = !self.keeps_cells && id >= FIRST_OWNED_ID;
                    self.add(entity, |control| !is_gone && control.read(&there).is_ok());
                    Ok(())
                }
                other => Err(ControlError::Internal(format!("an entries file has {other:?}"))),
            }?;
        }
        Ok(())
    }

    /// An entry; without an idle timeout of its own, one that exists keeps what it has.
    fn entry(
        &mut self,
        table: TableId,
        entry: &tables::Entry,
        (has_own_timeout, is_declared): (bool, bool),
        count: Option<Count>,
    ) -> Result<()> {
        let target = match &entry.target {
            tables::Target::Action(call) => Target::Action(self.call(table, call)?),
            tables::Target::Member(member) => Target::Member(*member),
            tables::Target::Group(group) => Target::Group(*group),
        };
        let key = EntryKey { table, matches: entry.matches.clone(), priority: entry.priority };
        let there = Query::Entry(key.clone());
        let (mut idle_timeout, meter) = (entry.idle_timeout, entry.meter);
        if !has_own_timeout
            && matches!(self.kind, Kind::Modify | Kind::Set)
            && let Ok([Entity::TableEntry(found)]) = self.control.read(&there).as_deref()
        {
            idle_timeout = found.idle_timeout;
        }
        // A file that replaces everything determines the counts of every entry.
        let has_counters = self.program.tables.get(table).is_some_and(|table| table.counters);
        let is_all = !self.keeps_cells && has_counters;
        let counter = count.or(is_all.then(Count::default));
        let (since_hit, is_const) = (None, false);
        let entry = TableEntry { key, target, idle_timeout, meter, counter, since_hit, is_const };
        let keeps_cells = self.keeps_cells;
        self.add(Entity::TableEntry(entry), |control| match keeps_cells {
            true => control.read(&there).is_ok(),
            false => is_declared,
        });
        Ok(())
    }

    fn call(&self, table: TableId, call: &tables::ActionCall) -> Result<ActionCall> {
        let declared = self.program.tables.get(table);
        let id = declared.and_then(|table| table.actions.get(call.action as usize)).copied();
        let action = id.and_then(|id| Some((id, self.program.actions.get(id)?)));
        let none = || ControlError::Internal("an action that the table does not have".to_owned());
        let (id, action) = action.ok_or_else(none)?;
        Ok(ActionCall { action: id, args: action_args(action, &call.data).collect() })
    }

    /// The table of a profile: profiles are numbered in the order of the tables that have one.
    fn table_of(&self, profile: tables::ProfileId) -> Result<TableId> {
        let with = self.program.tables.entries().filter(|(_, table)| table.selector.is_some());
        let found = with.map(|(id, _)| id).nth(profile.0 as usize);
        found.ok_or_else(|| ControlError::Internal("a profile without a table".to_owned()))
    }

    fn replication(&mut self, resolved: &Resolved) -> Result<()> {
        let mut all = Replication::default();
        all.fill(resolved).map_err(ControlError::invalid)?;
        for (id, group) in all.groups() {
            let entity = Entity::Multicast { id, group: group.clone() };
            let there = Query::Multicast { id: Some(id) };
            self.add(entity, |control| control.read(&there).is_ok());
        }
        for (id, session) in all.sessions() {
            let there = Query::Mirrors { id: Some(id) };
            let entity = Entity::Mirror { id, session: session.clone() };
            self.add(entity, |control| control.read(&there).is_ok());
        }
        Ok(())
    }

    fn arrays(&mut self, resolved: &Resolved) -> Result<()> {
        let is_reset = self.kind == Kind::Delete;
        for (set, members) in &resolved.value_sets {
            let initial = || self.program.value_sets.get(*set).map(|set| set.initial.clone());
            let members = if is_reset { initial().unwrap_or_default() } else { members.clone() };
            self.modify(Entity::ValueSet { set: *set, members });
        }
        for (meter, index, config) in &resolved.meters {
            let (meter, index) = (*meter, u64::from(*index));
            self.modify(Entity::Meter { meter, index, config: (!is_reset).then_some(*config) });
        }
        for (counter, index, count) in &resolved.counters {
            let count = if is_reset { Count::default() } else { *count };
            self.modify(Entity::Counter { counter: *counter, index: u64::from(*index), count });
        }
        let mut entries: BTreeMap<(RegisterId, u32), Vec<(u32, u64)>> = BTreeMap::new();
        for (register, index, cell, value) in &resolved.registers {
            entries.entry((*register, *index)).or_default().push((*cell, *value));
        }
        for ((register, index), written) in entries {
            let index = u64::from(index);
            let mut cells = self.cells(register, index)?;
            if !self.keeps_cells {
                cells.fill(0);
            }
            for (cell, value) in written {
                if let Some(place) = cells.get_mut(cell as usize) {
                    *place = if is_reset { 0 } else { value };
                }
            }
            self.modify(Entity::Register { register, index, cells });
        }
        Ok(())
    }

    /// The current cells of a register entry, for those that a change does not write.
    fn cells(&self, register: RegisterId, index: u64) -> Result<Vec<u64>> {
        let query = Query::Registers { register: Some(register), index: Some(index) };
        match self.control.read(&query)?.pop() {
            Some(Entity::Register { cells, .. }) => Ok(cells),
            _ => Err(ControlError::NotFound(format!("there is no register {}", register.index()))),
        }
    }

    fn counter(&mut self, wanted: &wire::CounterValue) -> Result<()> {
        let count = Count { packets: wanted.packets, bytes: wanted.bytes };
        let counter = self.control.counter(&wanted.name)?;
        self.modify(Entity::Counter { counter, index: wanted.index, count });
        Ok(())
    }

    /// Clears the cells of the array or register of this name.
    fn clear_cells(&mut self, wanted: &wire::Cells) -> Result<()> {
        // All ids are of this program: the running one may have been replaced, and its ids may refer to other objects.
        let (program, name) = (Arc::clone(self.program), wanted.name.as_str());
        if self.kind != Kind::Delete {
            return invalid("cells become blank by DELETE");
        }
        let cells = |size: u32| match wanted.index {
            Some(index) => Ok(index..index.saturating_add(1)),
            None if size > CELLS_MAX => Err(ControlError::ResourceExhausted(format!(
                "{name} has {size} cells, and at most {CELLS_MAX} are cleared together: name one by its index"
            ))),
            None => Ok(0..u64::from(size)),
        };
        let count = Count::default();
        let is_of = |kind: What| [What::Unspecified, kind].contains(&wanted.kind());
        let (counts, rates, values) =
            (is_of(What::Counters), is_of(What::Meters), is_of(What::Registers));
        let counter = program.named(&program.counters, name, |one| &one.name).filter(|_| counts);
        let meter = program.named(&program.meters, name, |one| &one.name).filter(|_| rates);
        let register = program.named(&program.registers, name, |one| &one.name).filter(|_| values);
        let table = program.named(&program.tables, name, |one| &one.name);
        let table = table.filter(|(_, table)| counts && table.counters);
        if let Some((counter, declared)) = counter {
            let entity = |index| Entity::Counter { counter, index, count };
            cells(declared.size)?.for_each(|index| self.modify(entity(index)));
        } else if let Some((meter, declared)) = meter {
            let entity = |index| Entity::Meter { meter, index, config: None };
            cells(declared.size)?.for_each(|index| self.modify(entity(index)));
        } else if let Some((register, declared)) = register {
            let blank = vec![0; declared.cells.len()];
            let entity = |index| Entity::Register { register, index, cells: blank.clone() };
            cells(declared.size)?.for_each(|index| self.modify(entity(index)));
        } else if let Some((table, _)) = table.filter(|_| wanted.index.is_none()) {
            for entity in self.control.read(&Query::Entries { table: Some(table) })? {
                if let Entity::TableEntry(TableEntry { key, .. }) = entity {
                    self.modify(Entity::DirectCounter { key, count });
                }
            }
        } else {
            return Err(ControlError::NotFound(match table {
                Some(_) => {
                    format!("the counters of {name} are those of its entries: clear all of them")
                }
                None => no_array(&program, name, wanted.kind()),
            }));
        }
        Ok(())
    }
}

fn no_array(program: &Program, name: &str, kind: What) -> String {
    let counters = program.counters.iter().map(|one| (What::Counters, &one.name));
    let meters = program.meters.iter().map(|one| (What::Meters, &one.name));
    let registers = program.registers.iter().map(|one| (What::Registers, &one.name));
    let tables = program.tables.iter().filter(|table| table.counters);
    let tables = tables.map(|table| (What::Counters, &table.name));
    let all = counters.chain(meters).chain(registers).chain(tables);
    let known = all.filter(|(of, _)| [*of, What::Unspecified].contains(&kind));
    let known: Vec<&str> = known.map(|(_, name)| name.as_str()).collect();
    let near = suggest(name, known.iter().copied());
    let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
    let all = match known.as_slice() {
        [] => "the program has none".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    let what = match kind {
        What::Counters => "counter, or table with counters,",
        What::Meters => "meter",
        What::Registers => "register",
        _ => "counter, meter, register or table with counters",
    };
    format!("there is no {what} called {name}; {near}{all}")
}

/// Deletes every entry of a table, or of all tables whose entries are neither constant nor the kernel's; returns their
/// number.
///
/// # Errors
/// There is no such table, or its entries are constant, or the kernel's.
pub fn clear(control: &Control, name: &str) -> Result<usize> {
    let program = control.program();
    let wanted = match name {
        "" => None,
        name => Some(control.table(name)?),
    };
    let mut deleted = 0;
    for (id, table) in program.tables.entries() {
        if wanted.is_some_and(|wanted| wanted != id) || wanted.is_none() && table.const_entries {
            continue;
        }
        let entries = control.read(&Query::Entries { table: Some(id) })?;
        let is_left = |entity: &Entity| {
            wanted.is_none() && control.is_mirrored(&program, entity)
                || !table.const_entries && entity.is_const()
        };
        let entries = entries.into_iter().filter(|entity| !is_left(entity));
        let updates: Vec<Update> = entries.map(Update::Delete).collect();
        for some in updates.chunks(CLEAR_TOGETHER) {
            let results = match control.write_of(&program, some, crate::control::Mode::Continue) {
                Ok(()) => Vec::new(),
                Err(error) => error.results,
            };
            // An entry that was removed meanwhile is not an error.
            let failed = |result: &Result<()>| match result {
                Err(ControlError::NoEntry(_)) | Ok(()) => None,
                Err(error) => Some(error.clone()),
            };
            if let Some(error) = results.iter().find_map(failed) {
                return Err(error);
            }
            deleted += some.len();
        }
    }
    Ok(deleted)
}
