//! Write: updates of a request, in order, with a result for each.

use wireyard_pipeline::ids::{Id, TableId};
use wireyard_pipeline::ir::ActionCall;

use super::device::Device;
use super::digests::{Config, Digests};
use super::persist::record as persist;
use super::proto::p4::v1 as p4;
use super::schema::{Schema, optional};
use super::translate::entry::{OneShot, Wanted};
use super::translate::{Result, action, entry, objects, replication};
use super::watch::{self, Name, Watch};
use crate::control::{
    Control, ControlError, Entity, EntryKey, Mode, Query, TableEntry, Target, Ticket, Unit, Update,
};
use p4::entity::Entity as Message;
use p4::update::Type;

/// Members and groups from this number on belong to entries with actions of their own; a controller cannot name them.
pub const OWN_IDS: u32 = 1 << 31;

/// Cells of an array that one update writes at most.
const CELLS_MAX: u32 = 1 << 20;

/// One update of a request, translated: what is done at once.
enum Step {
    /// One change of the device, as nearly always.
    One(Update),
    /// Changes of the device, done together.
    Updates(Vec<Update>),
    /// A cell of every index.
    Wildcard(Vec<Update>),
}

/// Does the updates of a request. What comes back first is kept, if anything was done, when the ticket says so.
///
/// # Errors
/// A result for each update, where one failed.
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

fn in_unit(
    device: &Device,
    unit: &mut Unit<'_>,
    schema: &Schema,
    updates: &[p4::Update],
    mode: Mode,
) -> std::result::Result<(), Vec<Result<()>>> {
    let kept = device.kept();
    let concerned = kept.is_concerned(updates).map_err(|error| vec![Err(error); updates.len()])?;
    // Held, if there is any, until it agrees with the device again.
    let mut kept = concerned.then_some(kept);
    // Held from the choice of what the device gets until it has it, so that no link changes in between.
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

/// Whether an update is about a group or session, or may make a group.
fn touches_groups(schema: &Schema) -> impl Fn(&p4::Update) -> bool + '_ {
    |update| {
        let message = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        message.and_then(watch::name).is_some() || is_one_shot(schema, update)
    }
}

/// What updates want of groups and sessions, until it is known which of them are done.
struct Pending<'a> {
    watch: Option<&'a Watch>,
    /// The update, the group or session, and what is wanted of it if it depends on links.
    changed: Vec<(usize, Name, Option<Message>)>,
    at: usize,
    /// Numbers of members and groups that earlier updates of the same batch took.
    taken: u32,
}

impl<'a> Pending<'a> {
    fn new(watch: Option<&'a Watch>) -> Pending<'a> {
        Pending { watch, changed: Vec::new(), at: 0, taken: 0 }
    }

    /// What the device gets of a message while links are as they are.
    fn effective(&mut self, message: &Message, deleted: bool) -> Result<Message> {
        let Some(watch) = self.watch else { return Ok(message.clone()) };
        let (effective, wanted) = watch.effective(message)?;
        if let Some(name) = watch::name(message) {
            self.changed.push((self.at, name, wanted.filter(|_| !deleted)));
        }
        Ok(effective)
    }
}

/// All or nothing.
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
    // Tried on a copy, which takes the place of the original when the device has done the rest.
    let mut digests = device.digests();
    let mut tried = updates.iter().any(|one| digest(one).is_some()).then(|| digests.clone());
    for (at, update) in updates.iter().enumerate() {
        if let (Some(entry), Some(tried)) = (digest(update), &mut tried) {
            if let Err(error) = write_digest(tried, schema, update.r#type, entry) {
                return Err(refused(updates.len(), at, error));
            }
            continue;
        }
        pending.at = at;
        match step(control, schema, update, pending) {
            Ok(Step::One(step)) => {
                places.push(at);
                all.push(step);
            }
            Ok(Step::Updates(steps) | Step::Wildcard(steps)) => {
                places.extend(steps.iter().map(|_| at));
                all.extend(steps);
            }
            Err(error) => return Err(refused(updates.len(), at, error)),
        }
    }
    unit.write_of(Some(&schema.program), &all, Mode::Atomic).map_err(|error| {
        match error.first() {
            Some((step, error)) => refused(updates.len(), places[step], error.clone()),
            None => refused(updates.len(), 0, ControlError::Internal(error.to_string())),
        }
    })?;
    if let Some(tried) = tried {
        *digests = tried;
    }
    Ok(())
}

/// The digest that an update is about.
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
    let config = entry.config.unwrap_or_default();
    let positive = |value: i64, what: &str| {
        u64::try_from(value).map_err(|_| {
            ControlError::InvalidArgument(format!("{what} is {value}; it cannot be negative"))
        })
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

/// Each on its own. Single updates that follow each other go to the device together.
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
        // What is asked of the device while translating sees the updates before.
        if is_one_shot(schema, update) || keeps_action(update) {
            flush(unit, &mut waiting, &mut places, &mut results);
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

/// A modified entry that is given no action keeps the one that it has.
fn keeps_action(update: &p4::Update) -> bool {
    match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Message::TableEntry(entry)) => {
            update.r#type == Type::Modify as i32
                && entry.action.is_none()
                && !entry.is_default_action
        }
        _ => false,
    }
}

/// Counter, rates and timeout of an entry that is there; of a constant table, only the first two.
fn with_its_action(control: &Control, schema: &Schema, message: &p4::TableEntry) -> Result<Step> {
    let table = schema.table(message.table_id)?;
    let key = entry::key(schema, table, message)?;
    let mut found = None;
    control.visit_of(&schema.program, &Query::Entry(key.clone()), &mut |entity| {
        found = Some(entity);
    })?;
    let Some(Entity::TableEntry(mut found)) = found else {
        return invalid("an entry is no entry of a table");
    };
    let declared = schema.declared(table);
    (found.counter, found.meter) = (None, None);
    entry::resources(declared, message, &mut found)?;
    let mut steps = Vec::new();
    if let Some(count) = found.counter {
        steps.push(Update::Modify(Entity::DirectCounter { key: key.clone(), count }));
    }
    if declared.meter.is_some() {
        steps.push(Update::Modify(Entity::DirectMeter { key, config: found.meter }));
    }
    (found.counter, found.meter) = (None, None);
    if !declared.const_entries {
        steps.insert(0, Update::Modify(Entity::TableEntry(found)));
    }
    Ok(Step::Updates(steps))
}

fn is_one_shot(schema: &Schema, update: &p4::Update) -> bool {
    let Some(Message::TableEntry(entry)) = update.entity.as_ref().and_then(|e| e.entity.as_ref())
    else {
        return false;
    };
    schema.table(entry.table_id).is_ok_and(|table| schema.declared(table).selector.is_some())
}

/// An update as changes of the device.
fn step(
    control: &Control,
    schema: &Schema,
    update: &p4::Update,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    let kind_of = Type::try_from(update.r#type);
    let kind = match kind_of {
        Ok(Type::Insert) => Update::Insert as fn(Entity) -> Update,
        Ok(Type::Modify) => Update::Modify,
        Ok(Type::Delete) => Update::Delete,
        _ => {
            return Err(ControlError::InvalidArgument(
                "the update has no type: insert, modify or delete".into(),
            ));
        }
    };
    let deleted = update.r#type == Type::Delete as i32;
    let one = |entity: Entity| Ok(Step::One(kind(entity)));
    let message = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
    match message {
        Some(Message::TableEntry(message)) if keeps_action(update) => {
            with_its_action(control, schema, message)
        }
        Some(Message::TableEntry(message)) => match entry::wanted(schema, message, deleted)? {
            Wanted::Entity(Entity::TableEntry(entry))
                if schema.declared(entry.key.table).selector.is_some() =>
            {
                with_target(control, schema, entry, kind, deleted, pending)
            }
            // Rates that a modified entry does not say are those of a new one.
            Wanted::Entity(Entity::TableEntry(entry))
                if update.r#type == Type::Modify as i32
                    && entry.meter.is_none()
                    && schema.declared(entry.key.table).meter.is_some() =>
            {
                let rates = Entity::DirectMeter { key: entry.key.clone(), config: None };
                let steps = [Entity::TableEntry(entry), rates];
                Ok(Step::Updates(steps.map(Update::Modify).into()))
            }
            Wanted::Entity(entity) => one(entity),
            Wanted::OneShot(entry, actions) => {
                one_shot(control, schema, entry, &actions, kind, pending)
            }
        },
        Some(Message::ActionProfileMember(member)) => {
            not_own(member.member_id)?;
            let member = action::member(schema, member, deleted)?;
            if let (Entity::Member { table, .. }, Ok(Type::Insert)) = (&member, kind_of) {
                no_action_sets(control, schema, *table)?;
            }
            one(member)
        }
        Some(Message::ActionProfileGroup(group)) => {
            not_own(group.group_id)?;
            if !deleted {
                action::group_size(schema, group)?;
            }
            match pending.effective(&Message::ActionProfileGroup(group.clone()), deleted)? {
                Message::ActionProfileGroup(group) => one(action::group(schema, &group, deleted)?),
                _ => invalid("a group stays a group"),
            }
        }
        Some(Message::PacketReplicationEngineEntry(entry)) => {
            let message = Message::PacketReplicationEngineEntry(entry.clone());
            match pending.effective(&message, deleted)? {
                Message::PacketReplicationEngineEntry(entry) => {
                    one(replication::entity(&entry, deleted)?)
                }
                _ => invalid("a session stays a session"),
            }
        }
        Some(Message::ValueSetEntry(entry)) => {
            let set = schema.value_set(entry.value_set_id)?;
            one(objects::value_set(schema, set, &entry.members)?)
        }
        Some(Message::DirectCounterEntry(entry)) => one(objects::direct_counter(schema, entry)?),
        Some(Message::DirectMeterEntry(entry)) => one(objects::direct_meter(schema, entry)?),
        Some(Message::CounterEntry(entry)) => {
            let counter = schema.counter(entry.counter_id)?;
            let size = schema.program.counters[counter].size;
            // Modified without data it stays as it is.
            if entry.data.is_none() && update.r#type == Type::Modify as i32 {
                let index = objects::index(entry.index.as_ref())?;
                let query = Query::Counters { counter: Some(counter), index };
                control.visit_of(&schema.program, &query, &mut |_| {})?;
                return Ok(Step::Updates(Vec::new()));
            }
            let count = objects::count(&entry.data.unwrap_or_default())?;
            cells(entry.index.as_ref(), size, |index| {
                kind(Entity::Counter { counter, index, count })
            })
        }
        Some(Message::MeterEntry(entry)) => {
            let meter = schema.meter(entry.meter_id)?;
            let declared = &schema.program.meters[meter];
            objects::no_colours(entry.counter_data.as_ref())?;
            let config = entry.config.as_ref();
            let config =
                config.map(|config| objects::meter_config(declared.kind, config)).transpose()?;
            cells(entry.index.as_ref(), declared.size, |index| {
                kind(Entity::Meter { meter, index, config })
            })
        }
        Some(Message::RegisterEntry(entry)) => {
            let register = schema.register(entry.register_id)?;
            let size = schema.program.registers[register].size;
            let Some(data) = &entry.data else { return invalid("a register is written with data") };
            let values = objects::cells(schema, register, data)?;
            cells(entry.index.as_ref(), size, |index| {
                kind(Entity::Register { register, index, cells: values.clone() })
            })
        }
        Some(Message::DigestEntry(_)) => invalid("a digest is no part of the device"),
        Some(Message::ExternEntry(_)) => {
            Err(ControlError::Unimplemented("externs of a program have no entries".into()))
        }
        None => invalid("the update has no entity"),
    }
}

fn invalid<T>(text: &str) -> Result<T> {
    Err(ControlError::InvalidArgument(text.into()))
}

fn not_own(id: u32) -> Result<()> {
    match id < OWN_IDS {
        true => Ok(()),
        false => Err(ControlError::OutOfRange(format!(
            "numbers of members and groups are below {OWN_IDS}; those above belong to entries with action sets"
        ))),
    }
}

/// One cell of an array, or all of them.
fn cells(index: Option<&p4::Index>, size: u32, update: impl Fn(u64) -> Update) -> Result<Step> {
    match objects::index(index)? {
        Some(index) => Ok(Step::One(update(index))),
        None if size > CELLS_MAX => Err(ControlError::ResourceExhausted(format!(
            "the array has {size} cells; a write without an index is for arrays of at most {CELLS_MAX}"
        ))),
        None => Ok(Step::Wildcard((0..u64::from(size)).map(update).collect())),
    }
}

/// An entry of a table with a profile that names a member or group; what belonged to the entry goes.
fn with_target(
    control: &Control,
    schema: &Schema,
    entry: TableEntry,
    kind: fn(Entity) -> Update,
    deleted: bool,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    match &entry.target {
        Target::Member(id) | Target::Group(id) if !deleted => not_own(*id)?,
        _ => {}
    }
    let gone = own_group(control, schema, &entry.key, pending)?;
    let mut steps = vec![kind(Entity::TableEntry(entry))];
    steps.extend(gone);
    Ok(Step::Updates(steps))
}

/// Deletes the group and members that belong to an entry, if it has actions of its own.
fn own_group(
    control: &Control,
    schema: &Schema,
    key: &EntryKey,
    pending: &mut Pending<'_>,
) -> Result<Vec<Update>> {
    let found = control.read(&Query::Entry(key.clone()));
    let Ok([Entity::TableEntry(TableEntry { target: Target::Group(id), .. })]) = found.as_deref()
    else {
        return Ok(Vec::new());
    };
    if *id < OWN_IDS {
        return Ok(Vec::new());
    }
    let (table, id) = (key.table, *id);
    let name = Name::Group(schema.ids.profiles[table.index()], id);
    let wanted = pending.watch.and_then(|watch| watch.wanted(name)).cloned();
    pending.changed.push((pending.at, name, None));
    let groups = control.read(&Query::Groups { table: Some(table), id: Some(id) })?;
    let in_group = groups.into_iter().flat_map(|group| match group {
        Entity::Group { members, .. } => members,
        _ => Vec::new(),
    });
    // Of a group that depends on links, members that are not in it now.
    let members: Vec<u32> = match wanted {
        Some(Message::ActionProfileGroup(group)) => {
            group.members.iter().map(|member| member.member_id).collect()
        }
        _ => in_group.map(|member| member.member).collect(),
    };
    let nothing = ActionCall { action: wireyard_pipeline::ids::Id::new(0), args: Vec::new() };
    let member = |id: u32| Update::Delete(Entity::Member { table, id, action: nothing.clone() });
    let group = Update::Delete(Entity::Group { table, id, members: Vec::new() });
    Ok([group].into_iter().chain(members.into_iter().map(member)).collect())
}

/// An entry with actions of its own: members and a group are made for it.
fn one_shot(
    control: &Control,
    schema: &Schema,
    mut entry: TableEntry,
    actions: &[OneShot],
    kind: fn(Entity) -> Update,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    let table = entry.key.table;
    let gone = own_group(control, schema, &entry.key, pending)?;
    let free = free_ids(control, schema, table, actions.len() + 1, &mut pending.taken)?;
    let (group, ids) = (free[0], &free[1..]);
    let mut steps: Vec<Update> = Vec::new();
    let mut members = Vec::new();
    for (OneShot { call, weight, watch }, id) in actions.iter().zip(ids) {
        steps.push(Update::Insert(Entity::Member { table, id: *id, action: call.clone() }));
        members.push(p4::action_profile_group::Member {
            member_id: *id,
            weight: *weight as i32,
            watch_kind: watch.map(watch::watch_port),
        });
    }
    let message = p4::ActionProfileGroup {
        action_profile_id: schema.ids.profiles[table.index()],
        group_id: group,
        members,
        max_size: 0,
    };
    if let Message::ActionProfileGroup(message) =
        pending.effective(&Message::ActionProfileGroup(message), false)?
    {
        steps.push(Update::Insert(action::group(schema, &message, false)?));
    }
    entry.target = Target::Group(group);
    steps.push(kind(Entity::TableEntry(entry)));
    steps.extend(gone);
    Ok(Step::Updates(steps))
}

/// Numbers that no member and no group of a table has, where all belong to action sets: a profile has these, or members of its controller
/// (P4Runtime specification 1.5, section 9.2.3).
fn free_ids(
    control: &Control,
    schema: &Schema,
    table: TableId,
    count: usize,
    taken: &mut u32,
) -> Result<Vec<u32>> {
    let used = control.profile_numbers(table)?;
    if used.as_ref().is_some_and(|used| *used.start() < OWN_IDS) {
        let name = &schema.declared(table).name;
        return Err(ControlError::InvalidArgument(format!(
            "table {name}: its profile has members or groups: delete them before entries get action sets, or name them in the entry"
        )));
    }
    let first = used.map_or(OWN_IDS, |used| used.end().saturating_add(1));
    let free: Vec<u32> = (first.saturating_add(*taken)..u32::MAX).take(count).collect();
    *taken += count as u32;
    match free.len() == count {
        true => Ok(free),
        false => Err(ControlError::ResourceExhausted("no numbers for members are left".into())),
    }
}

/// Refuses a member where entries have action sets.
fn no_action_sets(control: &Control, schema: &Schema, table: TableId) -> Result<()> {
    match control.profile_numbers(table)? {
        Some(used) if *used.end() >= OWN_IDS => {
            let name = &schema.declared(table).name;
            Err(ControlError::InvalidArgument(format!(
                "table {name}: its entries have action sets: delete these before its profile gets members, or give the entry a set"
            )))
        }
        _ => Ok(()),
    }
}

/// The profile of `id`, or every one.
///
/// # Errors
/// [`ControlError::NotFound`].
pub(super) fn profile(schema: &Schema, id: u32) -> Result<Option<TableId>> {
    optional(id, |id| schema.profile(id))
}
