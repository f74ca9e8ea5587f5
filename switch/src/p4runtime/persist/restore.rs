//! Restores the contents of the store into a device, before its workers are polled.

use std::sync::Arc;

use wireyard_pipeline::source::Parsed;

use super::Begun;
use super::record::{self, Found, Record};
use super::store::{Store, StoreError, Stored};
use crate::control::{Change, Control, Entity, EntryKey, Keep, Mode, Query, Update};
use crate::p4runtime::device::Pipeline;
use crate::p4runtime::pack;
use crate::p4runtime::proto::p4::config::v1::P4Info;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::watch;
use crate::program;

/// Number of updates that are written together.
const TOGETHER: usize = 4096;
/// Number of records whose error is shown, of those that could not be restored.
const SHOWN_MOST: usize = 3;

/// Restores the contents of the store into the device. Returns the records that the store should have instead, if they
/// differ.
pub(super) fn restore(
    store: &Store,
    control: &Control,
    parsed: &Parsed,
) -> Result<(Begun, Option<Vec<Change>>), StoreError> {
    let (mut begun, mut objects) = (Begun::default(), Vec::new());
    let (mut base, mut running, mut described) = (None, None, None);
    for stored in store.load()? {
        match record::of_any_program(&stored.1, &stored.2) {
            Some(Found::Base(blob)) => base = Some(blob),
            Some(Found::Running(blob, cookie)) => running = Some((blob, cookie)),
            Some(Found::Described(info)) => described = Some(info),
            Some(Found::Metadata(owner, metadata)) => begun.metadata.push((owner, metadata)),
            Some(Found::Watched(message)) => {
                if let Some(name) = watch::name(&message) {
                    begun.watch.set(name, Some(*message));
                }
            }
            Some(Found::Settings(place, value)) => begun.set(&place, &value),
            None => objects.push(stored),
        }
    }
    let own = pack::pack(parsed);
    let is_new = base.is_none();
    let is_changed = base.as_ref().is_some_and(|base| *base != own);
    match running {
        Some(_) if is_changed => begun.says.push(
            "the program was changed: it runs in the place of the one that a controller pushed"
                .to_owned(),
        ),
        Some((blob, cookie)) => {
            begun.pipeline = Some(pushed(control, blob, described.as_deref(), cookie)?)
        }
        None => {}
    }
    let schema = begun.pipeline.as_ref().map(|pipeline| Arc::clone(&pipeline.schema));
    let schema = schema.unwrap_or_else(|| Arc::new(Schema::of(control.program())));
    let all = objects.len();
    let mut lost = Vec::new();
    if !is_new {
        empty(control)?;
        // By kind: groups refer to members, entries to both. Within a kind in the order of their creation.
        objects.sort_by_key(|(number, key, _)| (key.first().copied(), *number));
        lost = fill(control, &schema, objects);
        begun.is_back = true;
        begun.says.push(format!("{} of {all} objects are back", all - lost.len()));
    }
    begun
        .complaints
        .extend(lost.iter().take(SHOWN_MOST).map(|why| format!("--state: not kept: {why}")));
    if lost.len() > SHOWN_MOST {
        let text = format!("--state: {} more are not kept", lost.len() - SHOWN_MOST);
        begun.complaints.push(text);
    }
    let first = (is_new || is_changed || !lost.is_empty()).then(|| {
        let mut changes = vec![record::base(own)];
        if let Some(pipeline) = &begun.pipeline {
            changes.extend(record::running(pipeline));
        }
        changes.extend(Record { control, schema: &schema }.everything());
        let metadata = begun.metadata.iter().cloned();
        changes.extend(metadata.map(|(owner, value)| record::metadata(owner, Some(value))));
        changes.extend(begun.watch.all().map(|(name, wanted)| record::watched(name, Some(wanted))));
        changes
    });
    Ok((begun, first))
}

/// Runs the program that a controller pushed.
fn pushed(
    control: &Control,
    blob: Vec<u8>,
    described: Option<&P4Info>,
    cookie: u64,
) -> Result<Pipeline, StoreError> {
    let wrong = |why: String| StoreError::Corrupt(format!("the program in it: {why}"));
    let parsed = pack::unpack(&blob, described).map_err(|error| wrong(error.to_string()))?;
    let loaded = program::without_entries(parsed)
        .map_err(|why| wrong(pack::PackError::Rejected(Box::new(why)).to_string()))?;
    let swapped = control.swap(&loaded, Keep::Nothing);
    swapped.map_err(|error| wrong(error.to_string()))?;
    let schema = Arc::new(Schema::of(control.program()));
    Ok(Pipeline { schema, blob, cookie, is_absent: false })
}

/// Removes the objects from the files of the program: the store has those that existed.
fn empty(control: &Control) -> Result<(), StoreError> {
    for query in [
        Query::Entries { table: None },
        Query::Groups { table: None, id: None },
        Query::Members { table: None, id: None },
        Query::Multicast { id: None },
        Query::Mirrors { id: None },
    ] {
        let failed = |error: String| StoreError::Failed(error);
        let found = control.read(&query).map_err(|error| failed(error.to_string()))?;
        let is_const =
            |entity: &Entity| matches!(entity, Entity::TableEntry(found) if found.is_const);
        let gone = found.into_iter().filter(|entity| !is_const(entity)).map(Update::Delete);
        let gone: Vec<Update> = gone.collect();
        for updates in gone.chunks(TOGETHER) {
            control.write(updates, Mode::Atomic).map_err(|error| failed(error.to_string()))?;
        }
    }
    Ok(())
}

/// True if the program declares this entry as constant.
fn is_const(control: &Control, key: &EntryKey) -> bool {
    let tables = &control.program().tables;
    let has_const = tables.get(key.table).is_some_and(|table| {
        table.const_entries || table.entries.iter().any(|entry| entry.is_const)
    });
    has_const
        && matches!(control.read(&Query::Entry(key.clone())).as_deref(),
            Ok([Entity::TableEntry(found)]) if found.is_const)
}

/// Writes the objects; returns the errors of those that were refused.
fn fill(control: &Control, schema: &Schema, objects: Vec<Stored>) -> Vec<String> {
    let mut lost = Vec::new();
    let mut updates = Vec::new();
    for (_, key, value) in objects {
        match record::entity(schema, &key, &value) {
            Ok(Entity::Register { register, index, cells }) => {
                if let Err(error) = control.set_register_at_rest(register, index, &cells) {
                    lost.push(error.to_string());
                }
            }
            // For an entry that the program declares, only the rates are stored.
            Ok(Entity::TableEntry(entry)) if is_const(control, &entry.key) => {
                let (key, config) = (entry.key, entry.meter);
                updates.push(Update::Modify(Entity::DirectMeter { key, config }));
            }
            Ok(
                entity @ (Entity::TableEntry(_)
                | Entity::Member { .. }
                | Entity::Group { .. }
                | Entity::Multicast { .. }
                | Entity::Mirror { .. }),
            ) => updates.push(Update::Insert(entity)),
            Ok(entity) => updates.push(Update::Modify(entity)),
            Err(error) => lost.push(error.to_string()),
        }
    }
    for updates in updates.chunks(TOGETHER) {
        if let Err(error) = control.write(updates, Mode::Continue) {
            let refused = error.results.into_iter().filter_map(Result::err);
            lost.extend(refused.map(|error| error.to_string()));
        }
    }
    lost
}
