//! Entries with actions of their own (action sets, one-shot entries): members and a group are made for each entry, and go with it.

use wireyard_pipeline::ids::{Id, TableId};
use wireyard_pipeline::ir::ActionCall;

use super::step::{Context, Step};
use super::{OWN_IDS, Pending, Result};
use crate::control::{ControlError, Entity, EntryKey, Query, TableEntry, Target, Update};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::translate::action;
use crate::p4runtime::translate::entry::OneShot;
use crate::p4runtime::watch::{self, Name};
use p4::entity::Entity as Message;

/// What was made for an entry.
#[derive(Clone, Debug)]
pub(super) struct ActionSet {
    group: u32,
    /// All members, those too that are not in the group because their links are down.
    members: Vec<u32>,
}

/// Refuses a number of a controller's that is for action sets.
///
/// # Errors
/// [`ControlError::OutOfRange`].
pub(super) fn not_own(id: u32) -> Result<()> {
    match id < OWN_IDS {
        true => Ok(()),
        false => Err(ControlError::OutOfRange(format!(
            "numbers of members and groups are below {OWN_IDS}; those above belong to entries with action sets"
        ))),
    }
}

/// An entry of a table with a profile that names a member or group; what belonged to the entry goes.
///
/// # Errors
/// As the device answers.
pub(super) fn with_target(
    context: &Context<'_>,
    entry: TableEntry,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    match &entry.target {
        Target::Member(id) | Target::Group(id) if !context.deletes() => not_own(*id)?,
        _ => {}
    }
    let gone = gone(context, &entry.key, pending)?;
    if !gone.is_empty() {
        pending.set = Some((entry.key.clone(), None));
    }
    let mut steps = vec![context.update(Entity::TableEntry(entry))];
    steps.extend(gone);
    Ok(Step::Updates(steps))
}

/// Deletes the group and members that belong to an entry, if it has actions of its own.
fn gone(context: &Context<'_>, key: &EntryKey, pending: &mut Pending<'_>) -> Result<Vec<Update>> {
    let set = match pending.sets.get(key) {
        Some(set) => set.clone(),
        None => on_device(context, key, pending)?,
    };
    let Some(ActionSet { group: id, members }) = set else { return Ok(Vec::new()) };
    let table = key.table;
    let name = Name::Group(context.schema.ids.profiles[table.index()], id);
    pending.changed.push((pending.at, name, None));
    let nothing = ActionCall { action: Id::new(0), args: Vec::new() };
    let member = |id: u32| Update::Delete(Entity::Member { table, id, action: nothing.clone() });
    let group = Update::Delete(Entity::Group { table, id, members: Vec::new() });
    Ok([group].into_iter().chain(members.into_iter().map(member)).collect())
}

/// The action set that an entry had before the batch.
fn on_device(
    context: &Context<'_>,
    key: &EntryKey,
    pending: &Pending<'_>,
) -> Result<Option<ActionSet>> {
    let found = context.control.read(&Query::Entry(key.clone()));
    let group = match found.as_deref() {
        Ok([Entity::TableEntry(TableEntry { target: Target::Group(id), .. })])
            if *id >= OWN_IDS =>
        {
            *id
        }
        _ => return Ok(None),
    };
    let name = Name::Group(context.schema.ids.profiles[key.table.index()], group);
    let members = match pending.watch.and_then(|watch| watch.wanted(name)) {
        Some(Message::ActionProfileGroup(group)) => {
            group.members.iter().map(|member| member.member_id).collect()
        }
        _ => {
            let query = Query::Groups { table: Some(key.table), id: Some(group) };
            let groups = context.control.read(&query)?.into_iter();
            let members = groups.flat_map(|group| match group {
                Entity::Group { members, .. } => members,
                _ => Vec::new(),
            });
            members.map(|member| member.member).collect()
        }
    };
    Ok(Some(ActionSet { group, members }))
}

/// An entry with actions of its own: members and a group are made for it.
///
/// # Errors
/// As the device answers; [`ControlError::InvalidArgument`]: the profile has members of its controller.
pub(super) fn one_shot(
    context: &Context<'_>,
    mut entry: TableEntry,
    actions: &[OneShot],
    pending: &mut Pending<'_>,
) -> Result<Step> {
    let table = entry.key.table;
    let gone = gone(context, &entry.key, pending)?;
    let free = free_ids(context, table, actions.len() + 1, &mut pending.taken)?;
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
        action_profile_id: context.schema.ids.profiles[table.index()],
        group_id: group,
        members,
        max_size: 0,
    };
    if let Message::ActionProfileGroup(message) =
        pending.effective(&Message::ActionProfileGroup(message), false)?
    {
        steps.push(Update::Insert(action::group(context.schema, &message, false)?));
    }
    pending.set = Some((entry.key.clone(), Some(ActionSet { group, members: ids.to_vec() })));
    entry.target = Target::Group(group);
    steps.push(context.update(Entity::TableEntry(entry)));
    steps.extend(gone);
    Ok(Step::Updates(steps))
}

/// Numbers that no member and no group of a table has, where all belong to action sets: a profile has these, or members of its controller
/// (P4Runtime specification 1.5, section 9.2.3).
fn free_ids(
    context: &Context<'_>,
    table: TableId,
    count: usize,
    taken: &mut u32,
) -> Result<Vec<u32>> {
    let used = context.control.profile_numbers(table)?;
    if used.as_ref().is_some_and(|used| *used.start() < OWN_IDS) {
        let name = &context.schema.declared(table).name;
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
pub(super) fn check_none(context: &Context<'_>, table: TableId) -> Result<()> {
    match context.control.profile_numbers(table)? {
        Some(used) if *used.end() >= OWN_IDS => {
            let name = &context.schema.declared(table).name;
            Err(ControlError::InvalidArgument(format!(
                "table {name}: its entries have action sets: delete these before its profile gets members, or give the entry a set"
            )))
        }
        _ => Ok(()),
    }
}
