//! Restores the contents of the store into a device, before its workers are polled.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use wireyard_pipeline::source::Parsed;

use super::record::{self, Found, Record};
use super::store::{Store, StoreError, Stored};
use super::{Begun, orphans};
use crate::control::{Change, Control, ControlError, Entity, EntryKey, Keep, Mode, Query, Update};
use crate::p4runtime::device::Pipeline;
use crate::p4runtime::pack;
use crate::p4runtime::proto::p4::config::v1::P4Info;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::watch;
use crate::program::{self, Loaded};

/// Number of updates that are written together.
const TOGETHER: usize = 4096;
/// Number of records whose error is shown, of those that could not be restored: they are removed from the store.
const SHOWN_MOST: usize = 100;

/// Restores the contents of the store into the device. Returns the changes that the store needs: the records of a new
/// one, those of another program, and the removal of those that were refused.
pub(super) fn restore(
    store: &Store,
    control: &Control,
    loaded: &Loaded,
) -> Result<(Begun, Vec<Change>), StoreError> {
    let mut begun = Begun::default();
    let Contents { base, running, described, is_whole, objects } = contents(store, &mut begun)?;
    let parsed = &loaded.parsed;
    let own = pack::pack(parsed);
    let is_new = base.is_none();
    let owner = running.as_ref().map(|(blob, _)| blob).or(base.as_ref());
    let owner = owner.and_then(|blob| pack::unpack(blob, described.as_deref()).ok());
    let (owner, program) = (owner.as_ref().and_then(name_of), name_of(parsed));
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
    let (NotRestored { mut lost, mut gone }, mut moved) = Default::default();
    if !is_new {
        empty(control, is_whole)?;
        if is_changed {
            moved = records_of(control, &schema, &objects);
        }
        NotRestored { lost, gone } = fill(control, &schema, objects);
        // With the wrong folder, or the wrong program, the state of the other one would be gone.
        if let (true, false, Some(of), Some(program)) =
            (is_changed, lost.is_empty(), owner, program)
            && of != program
        {
            return Err(StoreError::OtherProgram { of, program, lost: lost.len() });
        }
        begun.is_back = true;
        let all = all - gone.len();
        begun.says.push(format!("{} of {all} objects are back", all - lost.len()));
    }
    begun.complaints.extend(complaints(&lost));
    gone.extend(lost.into_iter().map(|(key, _)| key));
    let mut first = corrections(gone.into_iter().collect(), moved);
    first.extend(orphans::beside_objects(control, &schema, &mut begun));
    let record = Record { control, schema: &schema };
    if is_new {
        first.extend(record.everything());
    }
    if !is_whole {
        control.cells_at_rest(&mut |cell| first.extend(record.record(&cell)));
        first.extend(begun.add_settings(loaded));
        first.push(record::whole());
    }
    if is_changed {
        first.extend(record::not_running());
    }
    if is_new || is_changed {
        first.push(record::base(own));
    }
    Ok((begun, first))
}

/// Messages for records that were refused.
pub(super) fn complaints(lost: &[(Vec<u8>, String)]) -> impl Iterator<Item = String> {
    let shown = lost.iter().take(SHOWN_MOST);
    let more = lost.len().saturating_sub(SHOWN_MOST);
    let more = (more > 0).then(|| format!("--state: {more} more are not kept"));
    shown.map(|(_, why)| format!("--state: not kept: {why}")).chain(more)
}

/// What a store has of programs, and the objects of the one that ran.
#[derive(Default)]
struct Contents {
    /// The program of the command line.
    base: Option<Vec<u8>>,
    /// A program that was pushed, with its cookie.
    running: Option<(Vec<u8>, u64)>,
    /// The P4Info that was given with it.
    described: Option<Box<P4Info>>,
    /// It has the cells and settings of the entries file.
    is_whole: bool,
    objects: Vec<Stored>,
}

/// Reads a store; what does not depend on a program goes into `begun`.
fn contents(store: &Store, begun: &mut Begun) -> Result<Contents, StoreError> {
    let mut all = Contents::default();
    for stored in store.load()? {
        match record::of_any_program(&stored.1, &stored.2) {
            Some(Found::Base(blob)) => all.base = Some(blob),
            Some(Found::Running(blob, cookie)) => all.running = Some((blob, cookie)),
            Some(Found::Described(info)) => all.described = Some(info),
            Some(Found::Whole) => all.is_whole = true,
            Some(Found::Metadata(owner, metadata)) => begun.metadata.push((owner, metadata)),
            Some(Found::Watched(message)) => {
                if let Some(name) = watch::name(&message) {
                    begun.watch.set(name, Some(*message));
                }
            }
            Some(Found::Settings(place, value)) => begun.set(&place, &value),
            None => all.objects.push(stored),
        }
    }
    Ok(all)
}

/// The name of a program.
fn name_of(parsed: &Parsed) -> Option<String> {
    Some(parsed.units.first()?.name.as_ref()?.value.clone())
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
    // It is whole, and this device does not run it: with `--engine jit`, without machine code.
    swapped.map_err(|error| StoreError::Failed(format!("the program in it: {error}")))?;
    let schema = Arc::new(Schema::of(control.program()));
    Ok(Pipeline { schema, blob, cookie, is_absent: false })
}

/// Removes what the entries file wrote: the store has what of it existed. Cells stay if the store may not have them.
fn empty(control: &Control, has_cells: bool) -> Result<(), StoreError> {
    let program = control.program();
    let failed = |error: &dyn Display| StoreError::Failed(error.to_string());
    let write = |updates: &[Update]| {
        let written = |some| control.write(some, Mode::Atomic).map_err(|error| failed(&error));
        updates.chunks(TOGETHER).try_for_each(written)
    };
    for query in [
        Query::Entries { table: None },
        Query::Groups { table: None, id: None },
        Query::Members { table: None, id: None },
        Query::Multicast { id: None },
        Query::Mirrors { id: None },
        Query::DefaultActions { table: None },
        Query::ValueSets { set: None },
    ] {
        let mut gone = Vec::new();
        let mut add = |entity: Entity| {
            if !entity.is_const() {
                gone.extend(entity.reset(&program));
            }
        };
        control.visit(&query, &mut add).map_err(|error| failed(&error))?;
        write(&gone)?;
    }
    let (mut cells, mut gone) = (Vec::new(), Vec::new());
    if has_cells {
        control.cells_at_rest(&mut |cell| cells.extend(cell.reset(&program)));
    }
    for cell in cells {
        gone.extend(update_of(control, cell.entity().clone()).map_err(|error| failed(&error))?);
    }
    write(&gone)
}

/// True if the program declares this entry as constant.
fn is_const(control: &Control, key: &EntryKey) -> bool {
    let tables = &control.program().tables;
    let has_const = tables.get(key.table).is_some_and(|table| {
        table.const_entries || table.entries.iter().any(|entry| entry.is_const)
    });
    has_const
        && control
            .read(&Query::Entry(key.clone()))
            .is_ok_and(|found| found.iter().all(Entity::is_const))
}

/// The update that restores an object; `None` for a register, which is written at once.
fn update_of(control: &Control, entity: Entity) -> Result<Option<Update>, ControlError> {
    Ok(Some(match entity {
        Entity::Register { register, index, cells } => {
            control.set_register_at_rest(register, index, &cells)?;
            return Ok(None);
        }
        // For an entry that the program declares, only the rates are stored.
        Entity::TableEntry(entry) if is_const(control, &entry.key) => {
            let (key, config) = (entry.key, entry.meter);
            Update::Modify(Entity::DirectMeter { key, config })
        }
        Entity::TableEntry(_)
        | Entity::Member { .. }
        | Entity::Group { .. }
        | Entity::Multicast { .. }
        | Entity::Mirror { .. } => Update::Insert(entity),
        entity => Update::Modify(entity),
    }))
}

/// A record of which a changed program has another form.
struct Moved {
    before: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What becomes of records that were refused, and of those with other keys.
fn corrections(refused: BTreeSet<Vec<u8>>, mut moved: Vec<Moved>) -> Vec<Change> {
    moved.retain(|one| !refused.contains(&one.before));
    let mut all: Vec<Change> = refused.into_iter().map(|key| (key, None)).collect();
    all.extend(moved.iter_mut().map(|one| (std::mem::take(&mut one.before), None)));
    all.extend(moved.into_iter().map(|one| (one.key, Some(one.value))));
    all
}

/// The records to which the program gives other keys than those they have: a later change would miss them.
fn records_of(control: &Control, schema: &Schema, objects: &[Stored]) -> Vec<Moved> {
    let record = Record { control, schema };
    let moved = objects.iter().filter_map(|(_, before, value)| {
        let entity = record::entity(schema, before, value).ok()?;
        let key = record.key_of(&entity).filter(|key| key != before)?;
        Some(Moved { before: before.clone(), key, value: record.value(&entity)? })
    });
    moved.collect()
}

/// Records that are not restored.
#[derive(Default)]
struct NotRestored {
    /// Refused, with the errors.
    lost: Vec<(Vec<u8>, String)>,
    /// Of objects that the device removed.
    gone: Vec<Vec<u8>>,
}

/// Writes the objects.
fn fill(control: &Control, schema: &Schema, mut objects: Vec<Stored>) -> NotRestored {
    // By kind: groups refer to members, entries to both. Within a kind in the order of their creation.
    objects.sort_by_key(|(number, key, _)| (key.first().copied(), *number));
    let mut lost = Vec::new();
    let mut entities = Vec::with_capacity(objects.len());
    for (_, key, value) in objects {
        match record::entity(schema, &key, &value) {
            Ok(entity) => entities.push((key, entity)),
            Err(error) => lost.push((key, error.to_string())),
        }
    }
    let gone = orphans::action_sets(&mut entities);
    let (mut keys, mut updates) = (Vec::new(), Vec::new());
    for (key, entity) in entities {
        match update_of(control, entity) {
            Ok(None) => {}
            Ok(Some(update)) => {
                keys.push(key);
                updates.push(update);
            }
            Err(error) => lost.push((key, error.to_string())),
        }
    }
    for (keys, updates) in keys.chunks(TOGETHER).zip(updates.chunks(TOGETHER)) {
        let Err(error) = control.write(updates, Mode::Continue) else { continue };
        let refused = keys.iter().zip(error.results);
        lost.extend(refused.filter_map(|(key, done)| Some((key.clone(), done.err()?.to_string()))));
    }
    NotRestored { lost, gone }
}
