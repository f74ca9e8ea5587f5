//! Conversion between updates of control and updates of tables, with all checks that are possible before a change.

use std::sync::Arc;

use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::{Id, TableId};
use wireyard_pipeline::ir::{Action, ActionCall, Param, Program, Table, layout};
use wireyard_pipeline::state::{action_args, action_words};
use wireyard_tables as tables;
use wireyard_tables::meter::{Meter, MeterConfig};
use wireyard_tables::time::Time;

use super::error::{invalid, of_entry};
use super::{ControlError, Entity, EntryKey, TableEntry, Target, Update};

pub(super) type Result<T> = std::result::Result<T, ControlError>;

/// Checks that `program` is the running one, so that its ids are valid.
pub(super) fn is_of(running: &Generation, program: &Arc<Program>) -> Result<()> {
    if Arc::ptr_eq(program, &running.program) {
        return Ok(());
    }
    let text = "another program was loaded meanwhile; nothing was done";
    Err(ControlError::FailedPrecondition(text.to_owned()))
}

/// A table of the program, by id.
pub(super) fn table(program: &Program, id: TableId) -> Result<&Table> {
    let no_table = || ControlError::NotFound(format!("there is no table {}", id.0));
    program.tables.get(id).ok_or_else(no_table)
}

/// The id of a table in `wireyard_tables`.
pub(super) fn table_id(id: TableId) -> tables::TableId {
    tables::TableId(id.0)
}

/// The profile of a table with a selector: profiles are numbered in the order of their tables.
pub(super) fn profile(program: &Program, id: TableId) -> Result<tables::ProfileId> {
    let declared = table(program, id)?;
    if declared.selector.is_none() {
        let text = format!("table {} has no selector, so no members and groups", declared.name);
        return invalid(text);
    }
    let before = program.tables.iter().take(id.index()).filter(|table| table.selector.is_some());
    Ok(tables::ProfileId(before.count() as u32))
}

/// The table of a profile.
fn with_profile(program: &Program, id: tables::ProfileId) -> Option<TableId> {
    let with = program.tables.entries().filter(|(_, table)| table.selector.is_some());
    with.map(|(id, _)| id).nth(id.0 as usize)
}

/// Objects removed together with an entry, as updates: its group, and the members of that.
pub(super) fn released(
    program: &Program,
    profile: tables::ProfileId,
    released: &tables::Released,
) -> Vec<Update> {
    let Some(table) = with_profile(program, profile) else { return Vec::new() };
    let group = Entity::Group { table, id: released.group, members: Vec::new() };
    let members = released.members.iter().map(|id| {
        let action = ActionCall { action: Id::new(0), args: Vec::new() };
        Entity::Member { table, id: *id, action }
    });
    std::iter::once(group).chain(members).map(Update::Delete).collect()
}

fn fits(param: &Param, value: u128) -> bool {
    value <= layout::ones(param.bits)
}

/// An action and its arguments in the form of the tables.
pub(super) fn call(
    program: &Program,
    id: TableId,
    call: &ActionCall,
) -> Result<tables::ActionCall> {
    let declared = table(program, id)?;
    let Some(action) = program.actions.get(call.action) else {
        let text = format!("table {}: there is no action {}", declared.name, call.action.0);
        return invalid(text);
    };
    let Some(place) = declared.actions.iter().position(|known| *known == call.action) else {
        let text = format!("table {} does not list action {}", declared.name, action.name);
        return invalid(text);
    };
    let (found, expected) = (call.args.len(), action.params.len());
    if found != expected {
        let text =
            format!("action {} has {expected} parameters, and {found} were given", action.name);
        return invalid(text);
    }
    let mut args = action.params.iter().zip(&call.args);
    if let Some((param, value)) = args.find(|(param, value)| !fits(param, **value)) {
        let text = format!(
            "action {}: {value:#x} does not fit into the {} bits of {}",
            action.name, param.bits, param.name
        );
        return Err(ControlError::OutOfRange(text));
    }
    let mut data = Vec::with_capacity(call.args.len());
    action_words(action, &call.args, &mut data);
    Ok(tables::ActionCall { action: place as u32, data })
}

/// The inverse of [`call`].
pub(super) fn call_of(
    program: &Program,
    declared: &Table,
    call: &tables::ActionCall,
) -> ActionCall {
    let action = declared.actions.get(call.action as usize).copied().unwrap_or_default();
    let args = |action: &Action| action_args(action, &call.data).collect();
    let args = program.actions.get(action).map(args).unwrap_or_default();
    ActionCall { action, args }
}

fn target(program: &Program, id: TableId, target: &Target) -> Result<tables::Target> {
    Ok(match target {
        Target::Action(action) => tables::Target::Action(call(program, id, action)?),
        Target::Member(member) => tables::Target::Member(*member),
        Target::Group(group) => tables::Target::Group(*group),
    })
}

/// An entry in the form of the tables.
pub(super) fn entry(program: &Program, entry: &TableEntry) -> Result<tables::Entry> {
    let EntryKey { table: id, matches, priority } = &entry.key;
    let declared = table(program, *id)?;
    if entry.counter.is_some() && !declared.counters {
        let text = format!("table {} has no counters", declared.name);
        return invalid(text);
    }
    Ok(tables::Entry {
        matches: matches.clone(),
        priority: *priority,
        target: target(program, *id, &entry.target)?,
        idle_timeout: entry.idle_timeout,
        meter: entry.meter,
    })
}

/// An entry of a table in the form of control, with its counter, meter and time since the last hit.
pub(super) fn entry_of(
    generation: &Generation,
    id: TableId,
    view: &tables::TableView,
    (slot, entry): (tables::Slot, tables::Entry),
    now: Time,
) -> Result<TableEntry> {
    let program = &generation.program;
    let declared = table(program, id)?;
    let target = target_of(program, declared, entry.target);
    let index = slot.0 as usize;
    Ok(TableEntry {
        key: EntryKey { table: id, matches: entry.matches, priority: entry.priority },
        target,
        idle_timeout: entry.idle_timeout,
        meter: view.meters().and_then(|meters| meters.config(index)),
        counter: view.counters().and_then(|counters| counters.read(index)),
        since_hit: view.last_hits().map(|hits| now.since(hits.last(slot))),
        is_const: view.shape().spec().is_fixed(slot),
    })
}

/// An idle entry in the form of control, without counter and meter.
pub(super) fn idle_entry(program: &Program, id: TableId, entry: tables::Entry) -> TableEntry {
    let declared = &program.tables[id];
    TableEntry {
        key: EntryKey { table: id, matches: entry.matches, priority: entry.priority },
        target: target_of(program, declared, entry.target),
        idle_timeout: entry.idle_timeout,
        meter: None,
        counter: None,
        since_hit: None,
        is_const: false,
    }
}

fn target_of(program: &Program, declared: &Table, target: tables::Target) -> Target {
    match target {
        tables::Target::Action(call) => Target::Action(call_of(program, declared, &call)),
        tables::Target::Member(member) => Target::Member(member),
        tables::Target::Group(group) => Target::Group(group),
    }
}

/// The slot of the entry with this key.
pub(super) fn slot(generation: &Generation, key: &EntryKey) -> Result<usize> {
    let declared = table(&generation.program, key.table)?;
    let tables = generation.state.tables();
    let found = tables.entry(table_id(key.table), &key.matches, key.priority);
    let (slot, _) = found.map_err(|error| of_entry(&declared.name, &error))?;
    Ok(slot.0 as usize)
}

/// Checks an index against the size of an array; `kind` and `name` are for the message.
pub(super) fn index(kind: &str, name: &str, index: u64, size: usize) -> Result<usize> {
    let known = usize::try_from(index).ok().filter(|index| *index < size);
    known.ok_or_else(|| {
        ControlError::OutOfRange(format!("{kind} {name} has {size} cells and no cell {index}"))
    })
}

/// Checks that rates are valid.
pub(super) fn rates(name: &str, config: Option<MeterConfig>) -> Result<()> {
    let wrong = |error| ControlError::invalid(format!("{name}: {error}"));
    config.map_or(Ok(()), |config| Meter::new(config, Time::ZERO).map(|_| ()).map_err(wrong))
}
