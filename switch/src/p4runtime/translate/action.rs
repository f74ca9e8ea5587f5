//! Actions with their parameters, members and groups.

use wireyard_pipeline::ids::{Id, TableId};
use wireyard_pipeline::ir::ActionCall;
use wireyard_tables::GroupMember;

use super::{Result, invalid};
use crate::control::{Entity, named};
use crate::p4runtime::forms::{self, Field};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::schema::Schema;

/// An action with one value for each of its parameters.
pub fn call(schema: &Schema, table: TableId, action: &p4::Action) -> Result<ActionCall> {
    let id = schema.action_of(table, action.action_id)?;
    let fields = &schema.forms.params[id.index()];
    let declared = &schema.program.actions[id];
    let mut args = vec![0; declared.params.len()];
    for (position, param) in action.params.iter().enumerate() {
        let index = forms::find(fields, param.param_id);
        let slot = index.and_then(|at| Some((args.get_mut(at)?, &declared.params[at], fields[at])));
        let Some((slot, known, field)) = slot else {
            let (name, count) = (&declared.name, declared.params.len());
            return invalid(format!(
                "action {name} has no parameter {}: its number of parameters is {count}",
                param.param_id
            ));
        };
        let what = || format!("parameter {} of action {}", known.name, declared.name);
        *slot = field.read(&param.value, known.bits, what)?;
        // All earlier ones are different, so there are at most as many as the action has.
        if action.params[..position].iter().any(|other| other.param_id == param.param_id) {
            return invalid(format!("{} is given twice", what()));
        }
    }
    let is_given = |field: &Field| action.params.iter().any(|param| param.param_id == field.id);
    if action.params.len() < args.len()
        && let Some(at) = fields.iter().position(|field| !is_given(field))
    {
        let missing = &declared.params[at].name;
        return invalid(format!("parameter {missing} of action {} is missing", declared.name));
    }
    Ok(ActionCall { action: id, args })
}

/// An action as a message.
pub fn action(schema: &Schema, call: &ActionCall) -> p4::Action {
    let fields = &schema.forms.params[call.action.index()];
    let param = |(field, value): (&Field, &u128)| p4::action::Param {
        param_id: field.id,
        value: field.write(*value),
    };
    p4::Action {
        action_id: schema.ids.actions[call.action.index()],
        params: fields.iter().zip(&call.args).map(param).collect(),
    }
}

/// A member of an action profile. For a deletion only its ids are read.
pub fn member(schema: &Schema, member: &p4::ActionProfileMember, deleted: bool) -> Result<Entity> {
    let table = schema.profile(member.action_profile_id)?;
    named(member.member_id, "member")?;
    let action = match &member.action {
        Some(action) if !deleted => {
            schema.check_scope(table, action.action_id, false)?;
            call(schema, table, action)?
        }
        _ if deleted => schema.declared(table).default.clone(),
        _ => return invalid(format!("member {} has no action", member.member_id)),
    };
    Ok(Entity::Member { table, id: member.member_id, action })
}

/// A group of an action profile, regardless of links ([`watch`](crate::p4runtime::watch)). For a deletion only its ids
/// are read. Weight 0 keeps a member out of the choice; [`group_size`] refuses it in what a controller writes.
pub fn group(schema: &Schema, group: &p4::ActionProfileGroup, deleted: bool) -> Result<Entity> {
    let table = schema.profile(group.action_profile_id)?;
    named(group.group_id, "group")?;
    schema.check_groups(table)?;
    let mut members: Vec<GroupMember> = Vec::new();
    for member in group.members.iter().filter(|_| !deleted) {
        if members.iter().any(|known| known.member == member.member_id) {
            return invalid(format!(
                "group {} has member {} twice; give it the sum of the weights",
                group.group_id, member.member_id
            ));
        }
        let weight = if member.weight == 0 { 0 } else { weight(member.weight)? };
        members.push(GroupMember { member: member.member_id, weight });
    }
    Ok(Entity::Group { table, id: group.group_id, members })
}

/// Checks the number of members of a group, in the form that its controller wrote.
///
/// # Errors
/// As [`Schema::check_group`]; also an invalid weight or `max_size`.
pub fn group_size(schema: &Schema, group: &p4::ActionProfileGroup) -> Result<()> {
    let table = schema.profile(group.action_profile_id)?;
    let weights = group.members.iter().map(|member| weight(member.weight));
    let Ok(max_size) = u32::try_from(group.max_size) else {
        return invalid(format!("max_size of group {} is {}", group.group_id, group.max_size));
    };
    schema.check_group(table, &weights.collect::<Result<Vec<u32>>>()?, max_size)
}

/// A weight, which is at least 1.
///
/// # Errors
/// [`ControlError::InvalidArgument`](crate::control::ControlError::InvalidArgument).
pub fn weight(weight: i32) -> Result<u32> {
    match u32::try_from(weight) {
        Ok(weight) if weight > 0 => Ok(weight),
        _ => invalid(format!("a weight is {weight}; weights are 1 or more")),
    }
}

/// A member as a message.
pub fn member_message(
    schema: &Schema,
    table: TableId,
    id: u32,
    call: &ActionCall,
) -> p4::ActionProfileMember {
    p4::ActionProfileMember {
        action_profile_id: schema.ids.profiles[table.index()],
        member_id: id,
        action: Some(action(schema, call)),
    }
}

/// A group as a message.
pub fn group_message(
    schema: &Schema,
    table: TableId,
    id: u32,
    members: &[GroupMember],
) -> p4::ActionProfileGroup {
    let member = |member: &GroupMember| p4::action_profile_group::Member {
        member_id: member.member,
        weight: member.weight as i32,
        watch_kind: None,
    };
    p4::ActionProfileGroup {
        action_profile_id: schema.ids.profiles[table.index()],
        group_id: id,
        members: members.iter().map(member).collect(),
        max_size: 0,
    }
}
