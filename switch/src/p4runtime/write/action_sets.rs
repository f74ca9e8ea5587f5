//! Entries with actions of their own (action sets, one-shot entries): members and a group are created for each entry,
//! and the tables delete them with it.

use wireyard_pipeline::ids::{Id, TableId};
use wireyard_tables::selector::FIRST_OWNED_ID;

use super::step::{Context, Step};
use super::{Pending, Result};
use crate::control::{ControlError, Entity, Query, TableEntry, Target, Update};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::translate::action;
use crate::p4runtime::translate::entry::{ActionSet, OneShot};
use crate::p4runtime::watch;
use p4::entity::Entity as Message;
use p4::update::Type;

/// Refuses a number given by a controller that is reserved for action sets.
///
/// # Errors
/// [`ControlError::OutOfRange`].
pub(super) fn not_own(id: u32) -> Result<()> {
    match id < FIRST_OWNED_ID {
        true => Ok(()),
        false => Err(ControlError::OutOfRange(format!(
            "numbers of members and groups are below {FIRST_OWNED_ID}; those above belong to entries with action sets"
        ))),
    }
}

/// Creates members and a group for an entry with actions of its own.
///
/// # Errors
/// The errors of the device, and no free numbers.
pub(super) fn one_shot(
    context: &Context<'_>,
    mut entry: TableEntry,
    set: &ActionSet,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    let table = entry.key.table;
    let free = free_ids(context, table, set.actions.len() + 1, &mut pending.taken)?;
    let (group, ids) = (free[0], &free[1..]);
    let mut steps: Vec<Update> = Vec::new();
    let mut members = Vec::new();
    for (OneShot { call, weight, watch }, id) in set.actions.iter().zip(ids) {
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
        max_size: set.settings,
    };
    if let Message::ActionProfileGroup(message) =
        pending.effective(&Message::ActionProfileGroup(message), false)?
    {
        steps.push(Update::Insert(action::group(context.schema, &message, false)?));
    }
    entry.target = Target::Group(group);
    // A modified entry without rates gets those of a new one.
    let blank = (context.kind == Type::Modify
        && entry.meter.is_none()
        && context.schema.declared(table).meter.is_some())
    .then(|| Entity::DirectMeter { key: entry.key.clone(), config: None });
    steps.push(context.update(Entity::TableEntry(entry)));
    steps.extend(blank.map(Update::Modify));
    Ok(Step::Updates(steps))
}

/// Consecutive numbers that no member or group of a table has: for the group, then for its members.
fn free_ids(
    context: &Context<'_>,
    table: TableId,
    count: usize,
    taken: &mut u32,
) -> Result<Vec<u32>> {
    let needed = taken.saturating_add(count as u32);
    let used = context.control.profile_numbers(table)?.filter(|used| *used.end() >= FIRST_OWNED_ID);
    let above = used.map_or(FIRST_OWNED_ID, |used| used.end().saturating_add(1));
    let first = match u32::MAX - above >= needed {
        true => above,
        false => gap(context, table, needed)?,
    };
    let free = first + *taken..first + needed;
    *taken = needed;
    Ok(free.collect())
}

/// The first of `needed` free numbers below the highest in use: sets that are replaced repeatedly reach the end of the
/// numbers.
fn gap(context: &Context<'_>, table: TableId, needed: u32) -> Result<u32> {
    let mut used = std::collections::BTreeSet::new();
    for query in [
        Query::Groups { table: Some(table), id: None },
        Query::Members { table: Some(table), id: None },
    ] {
        context.control.visit(&query, &mut |entity| match entity {
            Entity::Group { id, .. } | Entity::Member { id, .. } => _ = used.insert(id),
            _ => {}
        })?;
    }
    let mut first = FIRST_OWNED_ID;
    for id in used.into_iter().filter(|id| *id >= FIRST_OWNED_ID) {
        if id - first >= needed {
            return Ok(first);
        }
        first = id.saturating_add(1);
    }
    Err(ControlError::ResourceExhausted("no numbers for members are left".into()))
}
