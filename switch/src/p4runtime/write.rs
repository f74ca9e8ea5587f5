//! Write: updates of a request, in order, with a result for each.

mod action_sets;
mod step;

use std::collections::{BTreeSet, HashMap};

use wireyard_pipeline::ids::{Id, TableId};

use super::device::Device;
use super::digests::{Config, Digests};
use super::persist::record as persist;
use super::proto::p4::v1 as p4;
use super::schema::{Schema, optional};
use super::translate::Result;
use super::watch::{self, Name, Watch};
use crate::control::{
    ControlError, Entity, EntryKey, Mode, TableEntry, Ticket, Unit, Update, WriteError, invalid,
};
use p4::entity::Entity as Message;
use p4::update::Type;
use step::{Step, reads_device, step};

/// Executes the updates of a request. The ticket reports when they are stored, if any was done.
///
/// # Errors
/// A result for each update, if one failed.
pub fn write(
    device: &Device,
    schema: &Schema,
    updates: &[p4::Update],
    mode: Mode,
) -> (Ticket, std::result::Result<(), Vec<Result<()>>>) {
    match device.control.unit() {
        Ok(mut unit) => {
            let done = in_unit(device, &mut unit, schema, updates, mode);
            (unit.end(), done)
        }
        Err(error) => (Ticket::default(), Err(vec![Err(error); updates.len()])),
    }
}

/// Like [`write`], as a part of a unit.
///
/// # Errors
/// As [`write`].
pub(super) fn in_unit(
    device: &Device,
    unit: &mut Unit<'_>,
    schema: &Schema,
    updates: &[p4::Update],
    mode: Mode,
) -> std::result::Result<(), Vec<Result<()>>> {
    let kept = device.kept();
    let concerned =
        kept.is_concerned(schema, updates).map_err(|error| vec![Err(error); updates.len()])?;
    // Locked, if needed, until it agrees with the device again.
    let mut kept = concerned.then_some(kept);
    // Locked from the choice of the device's form until the device has it, so that no link changes in between.
    let mut watch = updates.iter().any(touches_groups(schema)).then(|| device.watch());
    let mut pending = Pending::new(watch.as_deref());
    let done = match mode {
        Mode::Atomic => atomic(device, unit, schema, updates, &mut pending),
        Mode::Continue => each(device, unit, schema, updates, &mut pending),
    };
    let is_done = |at: usize| done.as_ref().map_or_else(|results| results[at].is_ok(), |()| true);
    let changed = pending.changed.into_iter().filter(|(at, _, _)| is_done(*at));
    if let Some(watch) = &mut watch {
        for (_, name, wanted) in changed {
            if wanted.is_some() || watch.wanted(name).is_some() {
                unit.note(persist::watched(name, wanted.as_ref()));
            }
            watch.set(name, wanted);
        }
        for update in unit.released() {
            if let Entity::Group { table, id, .. } = update.entity() {
                let name = Name::Group(schema.ids.profiles[table.index()], *id);
                if watch.wanted(name).is_some() {
                    unit.note(persist::watched(name, None));
                    watch.set(name, None);
                }
            }
        }
    }
    if let Some(kept) = &mut kept {
        for (at, update) in updates.iter().enumerate() {
            if is_done(at) {
                let changed = kept.done(schema, update);
                changed
                    .into_iter()
                    .for_each(|(owner, new)| unit.note(persist::metadata(owner, new)));
            }
        }
    }
    done
}

/// True if an update refers to a group or session, or may create a group.
fn touches_groups(schema: &Schema) -> impl Fn(&p4::Update) -> bool + '_ {
    |update| {
        let message = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        message.and_then(watch::name).is_some() || is_one_shot(schema, update)
    }
}

/// Changes of groups and sessions by updates, until it is known which of those are done.
struct Pending<'a> {
    watch: Option<&'a Watch>,
    /// The update, the group or session, and the form to store if it depends on links.
    changed: Vec<(usize, Name, Option<Message>)>,
    /// The names of those that the device may not have yet.
    open: BTreeSet<Name>,
    at: usize,
    /// Numbers of members and groups that earlier updates of the same batch use.
    taken: u32,
    /// What earlier updates of an atomic batch make of entries that later ones read, before the device has them.
    entries: Earlier,
}

/// Entries that updates insert, modify (`Some`) or delete (`None`).
type Earlier = HashMap<EntryKey, Option<TableEntry>>;

impl<'a> Pending<'a> {
    fn new(watch: Option<&'a Watch>) -> Pending<'a> {
        let (changed, open, entries) = (Vec::new(), BTreeSet::new(), Earlier::new());
        Pending { watch, changed, open, at: 0, taken: 0, entries }
    }

    /// The entry with this key after the earlier updates of an atomic batch; `None` if they do not concern it.
    fn entry(&self, key: &EntryKey) -> Option<Result<TableEntry>> {
        let found = self.entries.get(key)?.clone();
        Some(found.ok_or_else(|| {
            ControlError::NoEntry("an earlier update of the batch deletes the entry".into())
        }))
    }

    /// Records what updates make of entries.
    fn follow(&mut self, steps: &[Update]) {
        for update in steps {
            if let Entity::TableEntry(entry) = update.entity() {
                let left = (!matches!(update, Update::Delete(_))).then(|| entry.clone());
                self.entries.insert(entry.key.clone(), left);
            }
        }
    }

    /// The `max_size` of a group after earlier updates and requests; `None` if none is stored though `group` has one:
    /// it has none in the device, or does not exist.
    fn max_size(&self, group: &p4::ActionProfileGroup) -> Option<i32> {
        let name = Name::Group(group.action_profile_id, group.group_id);
        let earlier = self.changed.iter().rev().find(|(_, of, _)| *of == name);
        let kept = match earlier {
            Some((_, _, Some(Message::ActionProfileGroup(wanted)))) => wanted.max_size,
            Some(_) => 0,
            None => self.watch.map_or(0, |watch| watch.max_size(name)),
        };
        (earlier.is_some() || kept != 0 || group.max_size == 0).then_some(kept)
    }

    /// True if an earlier update of the request, which the device may not have yet, concerns the same group or session.
    fn has_changed(&self, update: &p4::Update) -> bool {
        let message = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        message.and_then(watch::name).is_some_and(|name| self.open.contains(&name))
    }

    /// The device has the earlier updates, but for those that it refused.
    fn flushed(&mut self, results: &[Result<()>]) {
        self.changed.retain(|(at, ..)| results[*at].is_ok());
        self.open.clear();
    }

    /// The form of a message for the device in the current state of links.
    fn effective(&mut self, message: &Message, deleted: bool) -> Result<Message> {
        let Some(watch) = self.watch else { return Ok(message.clone()) };
        // Of what is deleted only the name is read.
        let (effective, wanted) =
            if deleted { (message.clone(), None) } else { watch.effective(message)? };
        if let Some(name) = watch::name(message) {
            self.open.insert(name);
            self.changed.push((self.at, name, wanted));
        }
        Ok(effective)
    }
}

/// Executes all updates or none.
fn atomic(
    device: &Device,
    unit: &mut Unit<'_>,
    schema: &Schema,
    updates: &[p4::Update],
    pending: &mut Pending<'_>,
) -> std::result::Result<(), Vec<Result<()>>> {
    let control = &device.control;
    let (mut all, mut places) =
        (Vec::with_capacity(updates.len()), Vec::with_capacity(updates.len()));
    // Tried on a copy, which replaces the original when the device has done the rest.
    let mut digests = updates.iter().any(|one| digest(one).is_some()).then(|| device.digests());
    let mut tried = digests.as_deref().cloned();
    let is_read = updates.iter().any(reads_device);
    for (at, update) in updates.iter().enumerate() {
        if let (Some(entry), Some(tried)) = (digest(update), &mut tried) {
            if let Err(error) = write_digest(tried, schema, update.r#type, entry) {
                return Err(refused(updates.len(), at, error));
            }
            continue;
        }
        pending.at = at;
        let before = all.len();
        match step(control, schema, update, pending) {
            Ok(Step::One(step)) => all.push(step),
            Ok(Step::Updates(steps) | Step::Wildcard(steps)) => all.extend(steps),
            Err(error) => return Err(refused(updates.len(), at, error)),
        }
        places.resize(all.len(), at);
        if is_read {
            pending.follow(&all[before..]);
        }
    }
    unit.write_of(Some(&schema.program), &all, Mode::Atomic)
        .map_err(|error| of_updates(updates.len(), &places, &error))?;
    if let (Some(digests), Some(tried)) = (&mut digests, tried) {
        **digests = tried;
    }
    Ok(())
}

/// The digest that an update refers to.
fn digest(update: &p4::Update) -> Option<&p4::DigestEntry> {
    match update.entity.as_ref()?.entity.as_ref()? {
        Message::DigestEntry(entry) => Some(entry),
        _ => None,
    }
}

fn write_digest(
    digests: &mut Digests,
    schema: &Schema,
    kind: i32,
    entry: &p4::DigestEntry,
) -> Result<()> {
    let ids = schema.digests(entry.digest_id)?;
    let deletes = kind == Type::Delete as i32;
    let config = entry.config.filter(|_| !deletes).unwrap_or_default();
    let positive = |value: i64, what: &str| {
        u64::try_from(value)
            .map_err(|_| ControlError::invalid(format!("{what} is {value}; it cannot be negative")))
    };
    let config = Config {
        max_timeout_ns: positive(config.max_timeout_ns, "max_timeout_ns")?,
        max_list_size: positive(config.max_list_size.into(), "max_list_size")? as usize,
        ack_timeout_ns: positive(config.ack_timeout_ns, "ack_timeout_ns")?,
    };
    ids.into_iter().try_for_each(|id| match Type::try_from(kind) {
        Ok(Type::Insert) => digests.insert(id, config),
        Ok(Type::Modify) => digests.modify(id, config),
        Ok(Type::Delete) => digests.delete(id),
        _ => invalid("the update has no type: insert, modify or delete"),
    })
}

fn refused(count: usize, at: usize, error: ControlError) -> Vec<Result<()>> {
    let text = format!("not done: update {at} of the batch was refused");
    let mut results = vec![Err(ControlError::Aborted(text)); count];
    results[at] = Err(error);
    results
}

/// The results of the updates of an atomic batch from those of its changes; `places` has the update of each change.
fn of_updates(count: usize, places: &[usize], error: &WriteError) -> Vec<Result<()>> {
    let Some((first, refusal)) = error.first() else {
        return refused(count, 0, ControlError::Internal(error.to_string()));
    };
    let mut results = refused(count, places[first], refusal.clone());
    let of_changes = || places.iter().zip(&error.results);
    // Where no worker wrote the registers of the batch, the rest was done.
    for (place, _) in of_changes().filter(|(_, result)| result.is_ok()) {
        results[*place] = Ok(());
    }
    for (place, result) in of_changes() {
        if let Err(error) = result
            && !matches!(error, ControlError::Aborted(_))
        {
            results[*place] = Err(error.clone());
        }
    }
    results
}

/// Executes each update on its own. Adjacent updates of one change each are sent to the device together.
fn each(
    device: &Device,
    unit: &mut Unit<'_>,
    schema: &Schema,
    updates: &[p4::Update],
    pending: &mut Pending<'_>,
) -> std::result::Result<(), Vec<Result<()>>> {
    let control = &device.control;
    let mut results = vec![Ok(()); updates.len()];
    let (mut waiting, mut places) =
        (Vec::with_capacity(updates.len()), Vec::with_capacity(updates.len()));
    let flush = |unit: &mut Unit<'_>,
                 waiting: &mut Vec<Update>,
                 places: &mut Vec<usize>,
                 results: &mut Vec<Result<()>>| {
        if let Err(error) = unit.write_of(Some(&schema.program), waiting, Mode::Continue) {
            for (place, result) in places.iter().zip(error.results) {
                results[*place] = result;
            }
        }
        waiting.clear();
        places.clear();
    };
    for (at, update) in updates.iter().enumerate() {
        if let Some(entry) = digest(update) {
            results[at] = write_digest(&mut device.digests(), schema, update.r#type, entry);
            continue;
        }
        // A translation that reads from the device must see the earlier updates.
        if is_one_shot(schema, update) || reads_device(update) || pending.has_changed(update) {
            flush(unit, &mut waiting, &mut places, &mut results);
            pending.flushed(&results);
        }
        (pending.at, pending.taken) = (at, 0);
        match step(control, schema, update, pending) {
            Ok(Step::One(step)) => {
                waiting.push(step);
                places.push(at);
            }
            Ok(Step::Updates(mut steps)) if steps.len() == 1 => {
                waiting.append(&mut steps);
                places.push(at);
            }
            Ok(Step::Updates(steps) | Step::Wildcard(steps)) => {
                flush(unit, &mut waiting, &mut places, &mut results);
                let done = unit.write_of(Some(&schema.program), &steps, Mode::Atomic);
                results[at] = done.map_err(ControlError::from);
            }
            Err(error) => results[at] = Err(error),
        }
    }
    flush(unit, &mut waiting, &mut places, &mut results);
    match results.iter().all(Result::is_ok) {
        true => Ok(()),
        false => Err(results),
    }
}

fn is_one_shot(schema: &Schema, update: &p4::Update) -> bool {
    let Some(Message::TableEntry(entry)) = update.entity.as_ref().and_then(|e| e.entity.as_ref())
    else {
        return false;
    };
    schema.table(entry.table_id).is_ok_and(|table| schema.declared(table).selector.is_some())
}

/// The table of profile `id`, or `None` for all.
///
/// # Errors
/// [`ControlError::NotFound`].
pub(super) fn profile(schema: &Schema, id: u32) -> Result<Option<TableId>> {
    optional(id, |id| schema.profile(id))
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod standard_tests;
#[cfg(test)]
mod tests;
