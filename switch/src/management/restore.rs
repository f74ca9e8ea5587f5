//! Replaces all that was written at run time by an entries file, as one batch: entries are those that the program
//! declares and those of the file, made anew in this order, since of equal priorities the older one wins. Other objects
//! in the file are inserted or changed, and those not in it are deleted. Settings of ports and queues in the file are applied; others stay, because their
//! previous values are not stored.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use wireyard_pipeline::entries::{Purpose, Resolved, Setting};
use wireyard_pipeline::ids::{CounterId, MeterId, RegisterId, TableId, ValueSetId};
use wireyard_pipeline::ir::Program;
use wireyard_tables::Match;
use wireyard_tables::selector::FIRST_OWNED_ID;

use super::queues::Before;
use super::save::Declared;
use super::{change, queues, save};
use crate::control::{Control, ControlError, Entity, EntryKey, Mode, Query, Update};

type Result<T> = std::result::Result<T, ControlError>;

/// Batches that are made for one file, before the refusal of the last one is an error.
const ATTEMPTS: u32 = 16;

/// The identity of an object.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Entry(TableId, Vec<Match>, u32),
    Default(TableId),
    Member(TableId, u32),
    Group(TableId, u32),
    Counter(CounterId, u64),
    Meter(MeterId, u64),
    Register(RegisterId, u64),
    ValueSet(ValueSetId),
    Multicast(u16),
    Mirror(u16),
}

/// The identity of an object in a file, which may write a key in another form than the device.
fn name_of_wanted(program: &Program, entity: &Entity) -> Option<Name> {
    let Entity::TableEntry(entry) = entity else { return name(entity) };
    let EntryKey { table, matches, priority } = save::as_read(program, entry.key.clone());
    Some(Name::Entry(table, matches, priority))
}

fn name(entity: &Entity) -> Option<Name> {
    Some(match entity {
        Entity::TableEntry(entry) => {
            Name::Entry(entry.key.table, entry.key.matches.clone(), entry.key.priority)
        }
        Entity::DefaultAction { table, .. } => Name::Default(*table),
        Entity::Member { table, id, .. } => Name::Member(*table, *id),
        Entity::Group { table, id, .. } => Name::Group(*table, *id),
        Entity::Counter { counter, index, .. } => Name::Counter(*counter, *index),
        Entity::Meter { meter, index, .. } => Name::Meter(*meter, *index),
        Entity::Register { register, index, .. } => Name::Register(*register, *index),
        Entity::ValueSet { set, .. } => Name::ValueSet(*set),
        Entity::Multicast { id, .. } => Name::Multicast(*id),
        Entity::Mirror { id, .. } => Name::Mirror(*id),
        _ => return None,
    })
}

/// Restores a file: all of it, or nothing.
///
/// # Errors
/// The errors of the file, with its lines; or the refusal of the device.
pub fn restore(control: &Control, text: &str, file: &str) -> Result<(Value, Vec<Setting>)> {
    if says_nothing(text) {
        return Err(ControlError::invalid(format!(
            "{file} has no key, so all that was written would go: is it the right file? `entries: {{}}` says that nothing is wanted"
        )));
    }
    let program = control.program();
    let resolved = change::resolve(&program, text, file, Purpose::Fill)?;
    let before = Before::of(control)?;
    queues::make(control, &resolved.settings, &before)?;
    let (restored, removed) =
        objects(control, &program, &resolved).map_err(|error| {
            match before.put_back(control, &resolved.settings) {
                Ok(()) => error,
                Err(why) => ControlError::Internal(format!(
                    "{error}; and settings of before could not be set again: {why}"
                )),
            }
        })?;
    let set = resolved.settings.len();
    Ok((json!({ "restored": restored, "removed": removed, "settings": set }), resolved.settings))
}

/// Writes all objects in one batch, and returns how many the file has, and how many others were removed. Packets and time
/// add and remove entries between what is read and what is written: the batch is made again then.
fn objects(
    control: &Control,
    program: &Arc<Program>,
    resolved: &Resolved,
) -> Result<(usize, usize)> {
    let attempt = || {
        let wanted = change::replacement(control, program, resolved)?;
        let restored = wanted.len();
        let (updates, removed) = changes(control, program, wanted)?;
        if !updates.is_empty() {
            control.write_of(program, &updates, Mode::Atomic)?;
        }
        Ok((restored, removed))
    };
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(ControlError::NoEntry(_) | ControlError::EntryExists(_)) => {}
            done => return done,
        }
    }
    attempt()
}

/// The whole batch for what is wanted, and how many other objects it removes.
fn changes(
    control: &Control,
    program: &Program,
    mut wanted: Vec<Update>,
) -> Result<(Vec<Update>, usize)> {
    // The kernel's state determines these, whatever a file has.
    let is_left = |entity: &Entity| control.is_mirrored(program, entity);
    wanted.retain(|update| !is_left(update.entity()));
    let names: HashSet<Name> =
        wanted.iter().filter_map(|one| name_of_wanted(program, one.entity())).collect();
    let declared = Declared::of(program);
    let is_wanted = |entity: &Entity| name(entity).is_some_and(|name| names.contains(&name));
    let (mut updates, mut removed) = (Vec::new(), 0);
    // Entries are deleted before the objects that they refer to, and make room for others; the objects they referred to
    // are deleted when no entry refers to them any more.
    control.visit(&Query::Entries { table: None }, &mut |entity| {
        let Entity::TableEntry(entry) = &entity else { return };
        if !entry.is_const && !is_left(&entity) {
            removed += usize::from(!is_wanted(&entity) && !declared.has(&entry.key));
            updates.push(Update::Delete(entity));
        }
    })?;
    let is_entry = |update: &Update| matches!(update.entity(), Entity::TableEntry(_));
    let first = wanted.iter().position(is_entry).unwrap_or(wanted.len());
    let mut wanted = wanted.into_iter();
    updates.extend(wanted.by_ref().take(first));
    let entries = declared.entries.iter().cloned().map(Entity::TableEntry);
    updates.extend(entries.filter(|entry| !is_left(entry)).map(Update::Insert));
    updates.extend(wanted);
    let mut go = |entity: Entity| {
        // Those of entries were deleted with the entries.
        let stays = is_wanted(&entity) || is_own(&entity) || is_left(&entity);
        let gone = (!stays).then(|| entity.reset(program)).flatten();
        removed += usize::from(gone.is_some());
        updates.extend(gone);
    };
    for query in [
        Query::DefaultActions { table: None },
        Query::Groups { table: None, id: None },
        Query::Members { table: None, id: None },
        Query::Counters { counter: None, index: None },
        Query::Meters { meter: None, index: None },
        Query::Registers { register: None, index: None },
        Query::ValueSets { set: None },
        Query::Multicast { id: None },
        Query::Mirrors { id: None },
    ] {
        control.visit(&query, &mut go)?;
    }
    Ok((updates, removed))
}

/// True for a member or group of an entry with actions of its own.
fn is_own(entity: &Entity) -> bool {
    matches!(entity, Entity::Member { id, .. } | Entity::Group { id, .. } if *id >= FIRST_OWNED_ID)
}

/// True if a file has no key at all: an empty one, one of comments, and `{}`.
fn says_nothing(text: &str) -> bool {
    !text.lines().any(|line| line.split('#').next().is_some_and(|line| line.contains(':')))
}

#[cfg(test)]
mod tests;
