//! Translates an update of a request into changes of the device, by kind of entity.

use super::action_sets::{self, not_own};
use super::{Pending, Result};
use crate::control::{
    CELLS_MAX, Control, ControlError, Entity, EntryKey, Query, TableEntry, Target, Update, invalid,
};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::translate::entry::Wanted;
use crate::p4runtime::translate::{action, entry, objects, replication};
use p4::entity::Entity as Message;
use p4::update::Type;

/// A translated update of a request: the changes to make together.
pub(super) enum Step {
    /// One change of the device, the usual case.
    One(Update),
    /// Several changes of the device, made together.
    Updates(Vec<Update>),
    /// A change of every cell of an array.
    Wildcard(Vec<Update>),
}

/// The context of a translation.
pub(super) struct Context<'a> {
    /// The device, in its state before the batch.
    pub control: &'a Control,
    /// The program by ids.
    pub schema: &'a Schema,
    /// Insert, modify or delete.
    pub kind: Type,
}

/// Translates an update.
///
/// # Errors
/// Why the update is refused; nothing has changed.
pub(super) fn step(
    control: &Control,
    schema: &Schema,
    update: &p4::Update,
    pending: &mut Pending<'_>,
) -> Result<Step> {
    let kind = match Type::try_from(update.r#type) {
        Ok(kind @ (Type::Insert | Type::Modify | Type::Delete)) => kind,
        _ => return invalid("the update has no type: insert, modify or delete"),
    };
    let context = Context { control, schema, kind };
    match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Message::TableEntry(message)) if message.is_const => {
            invalid("is_const is of entries that are read: a write leaves it out")
        }
        Some(Message::TableEntry(message)) if keeps_action(update) => {
            with_its_action(control, schema, message, pending)
        }
        Some(Message::TableEntry(message)) => context.table_entry(message, pending),
        Some(Message::ActionProfileMember(member)) => context.member(member),
        Some(message @ Message::ActionProfileGroup(group)) => {
            context.group(message, group, pending)
        }
        Some(message @ Message::PacketReplicationEngineEntry(_)) => {
            context.replication(message, pending)
        }
        Some(Message::ValueSetEntry(entry)) => {
            let set = schema.value_set(entry.value_set_id)?;
            context.one(objects::value_set(schema, set, &entry.members)?)
        }
        Some(Message::DirectCounterEntry(entry)) => context.direct_counter(entry, pending),
        Some(Message::DirectMeterEntry(entry)) => {
            context.one(objects::direct_meter(schema, entry)?)
        }
        Some(Message::CounterEntry(entry)) => context.counter(entry),
        Some(Message::MeterEntry(entry)) => context.meter(entry),
        Some(Message::RegisterEntry(entry)) => context.register(entry),
        Some(Message::DigestEntry(_)) => invalid("a digest is no part of the device"),
        Some(Message::ExternEntry(_)) => {
            Err(ControlError::Unimplemented("externs of a program have no entries".into()))
        }
        None => invalid("the update has no entity"),
    }
}

impl Context<'_> {
    /// The update of an entity.
    pub(super) fn update(&self, entity: Entity) -> Update {
        match self.kind {
            Type::Insert => Update::Insert(entity),
            Type::Modify => Update::Modify(entity),
            _ => Update::Delete(entity),
        }
    }

    fn one(&self, entity: Entity) -> Result<Step> {
        Ok(Step::One(self.update(entity)))
    }

    /// True for a deletion.
    pub(super) fn deletes(&self) -> bool {
        self.kind == Type::Delete
    }

    fn table_entry(&self, message: &p4::TableEntry, pending: &mut Pending<'_>) -> Result<Step> {
        let wanted = entry::wanted(self.schema, message, self.deletes())?;
        if let Wanted::Entity(Entity::TableEntry(entry)) = &wanted
            && let Target::Member(id) | Target::Group(id) = entry.target
        {
            not_own(id)?;
        }
        match wanted {
            // A modified entry without rates gets those of a new one.
            Wanted::Entity(Entity::TableEntry(entry))
                if self.kind == Type::Modify
                    && entry.meter.is_none()
                    && self.schema.declared(entry.key.table).meter.is_some() =>
            {
                let rates = Entity::DirectMeter { key: entry.key.clone(), config: None };
                let steps = [Entity::TableEntry(entry), rates];
                Ok(Step::Updates(steps.map(Update::Modify).into()))
            }
            Wanted::Entity(entity) => self.one(entity),
            Wanted::OneShot(entry, set) => action_sets::one_shot(self, entry, &set, pending),
        }
    }

    fn member(&self, member: &p4::ActionProfileMember) -> Result<Step> {
        not_own(member.member_id)?;
        self.one(action::member(self.schema, member, self.deletes())?)
    }

    fn group(
        &self,
        message: &Message,
        group: &p4::ActionProfileGroup,
        pending: &mut Pending<'_>,
    ) -> Result<Step> {
        not_own(group.group_id)?;
        if !self.deletes() {
            action::group_size(self.schema, group)?;
        }
        if self.kind == Type::Modify {
            self.same_max_size(group, pending)?;
        }
        match pending.effective(message, self.deletes())? {
            Message::ActionProfileGroup(group) => {
                self.one(action::group(self.schema, &group, self.deletes())?)
            }
            _ => invalid("a group stays a group"),
        }
    }

    /// Checks that a group keeps the `max_size` with which it was inserted (P4Runtime specification 1.5, section
    /// 9.2.2).
    fn same_max_size(&self, group: &p4::ActionProfileGroup, pending: &Pending<'_>) -> Result<()> {
        let table = self.schema.profile(group.action_profile_id)?;
        let query = Query::Groups { table: Some(table), id: Some(group.group_id) };
        let known = pending.max_size(group);
        if known == Some(group.max_size)
            // A group that does not exist is refused by the device.
            || known.is_none() && self.control.visit(&query, &mut |_| {}).is_err()
        {
            return Ok(());
        }
        invalid(format!(
            "max_size of group {} is {}, and stays what it was when the group was inserted: {}",
            group.group_id,
            group.max_size,
            known.unwrap_or(0)
        ))
    }

    fn replication(&self, message: &Message, pending: &mut Pending<'_>) -> Result<Step> {
        match pending.effective(message, self.deletes())? {
            Message::PacketReplicationEngineEntry(entry) if self.kind == Type::Modify => {
                self.one(replication::modified(&entry, self.control)?)
            }
            Message::PacketReplicationEngineEntry(entry) => {
                self.one(replication::entity(&entry, self.deletes())?)
            }
            _ => invalid("a session stays a session"),
        }
    }

    fn direct_counter(
        &self,
        entry: &p4::DirectCounterEntry,
        pending: &Pending<'_>,
    ) -> Result<Step> {
        let (key, count) = objects::direct_counter(self.schema, entry)?;
        let declared = self.schema.declared(key.table);
        match count {
            Some(count) => self.one(Entity::DirectCounter { key, count }),
            None if self.kind != Type::Modify => invalid("a direct counter is modified only"),
            None if !declared.counters => {
                invalid(format!("table {} has no counters", declared.name))
            }
            // Modified without data, it is unchanged.
            None => {
                current(self.control, self.schema, key, pending)?;
                Ok(Step::Updates(Vec::new()))
            }
        }
    }

    fn counter(&self, entry: &p4::CounterEntry) -> Result<Step> {
        let counter = self.schema.counter(entry.counter_id)?;
        let size = self.schema.program.counters[counter].size;
        // Modified without data, it is unchanged.
        if entry.data.is_none() && self.kind == Type::Modify {
            let index = objects::index(entry.index.as_ref())?;
            let query = Query::Counters { counter: Some(counter), index };
            self.control.visit_of(&self.schema.program, &query, &mut |_| {})?;
            return Ok(Step::Updates(Vec::new()));
        }
        let count = objects::count(&entry.data.unwrap_or_default())?;
        cells(entry.index.as_ref(), size, |index| {
            self.update(Entity::Counter { counter, index, count })
        })
    }

    fn meter(&self, entry: &p4::MeterEntry) -> Result<Step> {
        let meter = self.schema.meter(entry.meter_id)?;
        let declared = &self.schema.program.meters[meter];
        objects::no_colours(entry.counter_data.as_ref())?;
        let config = entry.config.as_ref();
        let config =
            config.map(|config| objects::meter_config(declared.kind, config)).transpose()?;
        cells(entry.index.as_ref(), declared.size, |index| {
            self.update(Entity::Meter { meter, index, config })
        })
    }

    fn register(&self, entry: &p4::RegisterEntry) -> Result<Step> {
        let register = self.schema.register(entry.register_id)?;
        let size = self.schema.program.registers[register].size;
        let Some(data) = &entry.data else { return invalid("a register is written with data") };
        let values = objects::cells(self.schema, register, data)?;
        cells(entry.index.as_ref(), size, |index| {
            self.update(Entity::Register { register, index, cells: values.clone() })
        })
    }
}

/// True for an update whose translation reads an entry, which earlier updates may have changed. Groups and sessions,
/// too, are read: [`Pending::has_changed`].
pub(super) fn reads_device(update: &p4::Update) -> bool {
    let is_modify = update.r#type == Type::Modify as i32;
    keeps_action(update)
        || match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
            Some(Message::DirectCounterEntry(entry)) => is_modify && entry.data.is_none(),
            _ => false,
        }
}

/// True for a modified entry without an action, which keeps its current one.
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

/// An entry after the earlier updates of the request.
fn current(
    control: &Control,
    schema: &Schema,
    key: EntryKey,
    pending: &Pending<'_>,
) -> Result<TableEntry> {
    if let Some(earlier) = pending.entry(&key) {
        return earlier;
    }
    let mut found = None;
    control.visit_of(&schema.program, &Query::Entry(key), &mut |entity| found = Some(entity))?;
    match found {
        Some(Entity::TableEntry(entry)) => Ok(entry),
        _ => invalid("an entry is no entry of a table"),
    }
}

/// Counter, rates and timeout of an existing entry; of a constant one, only counter and rates.
fn with_its_action(
    control: &Control,
    schema: &Schema,
    message: &p4::TableEntry,
    pending: &Pending<'_>,
) -> Result<Step> {
    let table = schema.table(message.table_id)?;
    let key = entry::key(schema, table, message)?;
    let mut found = current(control, schema, key.clone(), pending)?;
    let declared = schema.declared(table);
    if found.is_const && (message.idle_timeout_ns != 0 || !message.metadata.is_empty()) {
        return Err(ControlError::PermissionDenied(format!(
            "table {}: the entry is constant, so only its counter and its meter are written",
            declared.name
        )));
    }
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
    let (is_const, entry) = (found.is_const, Entity::TableEntry(found));
    // Nor is an entry written that follows the kernel.
    if !is_const && !control.is_mirrored(&schema.program, &entry) {
        steps.insert(0, Update::Modify(entry));
    }
    Ok(Step::Updates(steps))
}

/// Updates one cell of an array, or all of them.
fn cells(index: Option<&p4::Index>, size: u32, update: impl Fn(u64) -> Update) -> Result<Step> {
    match objects::index(index)? {
        Some(index) => Ok(Step::One(update(index))),
        None if size > CELLS_MAX => Err(ControlError::ResourceExhausted(format!(
            "the array has {size} cells; a write without an index is for arrays of at most {CELLS_MAX}"
        ))),
        None => Ok(Step::Wildcard((0..u64::from(size)).map(update).collect())),
    }
}
