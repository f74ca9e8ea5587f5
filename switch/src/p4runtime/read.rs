//! Read: entities that match those of a request, with wildcards.
//!
//! The answer is split into messages below 4 MB, the default limit of clients.

use std::collections::BTreeMap;

use prost::Message as _;
use wireyard_pipeline::ids::{DigestId, Id, TableId};
use wireyard_pipeline::ir::Table;
use wireyard_tables::MatchKind;
use wireyard_tables::selector::FIRST_OWNED_ID;

use super::device::Device;
use super::kept::Kept;
use super::proto::p4::v1 as p4;
use super::room::Share;
use super::schema::{Schema, optional};
use super::translate::entry::{self, Parts};
use super::translate::replication::{self as replicated, port_bytes};
use super::translate::{Result, action, objects};
use super::watch::{self, Name, Watch};
use super::write::profile;
use crate::control::{ControlError, Entity, Query, TableEntry, Target, invalid};
use p4::entity::Entity as Message;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::table_action::Type as Does;

/// Maximum number of bytes of one message of an answer, of which a slow client takes at least one in its time.
const ANSWER_BYTES: usize = 256 << 10;
/// Maximum number of bytes of the whole answer: two million entries. A request for more is refused, so that it does not
/// use up the memory of the switch.
const ALL_BYTES_MAX: usize = 256 << 20;

/// Messages of an answer, filled one entity after the other.
#[derive(Debug, Default)]
pub struct Answers<'a> {
    /// The room of all answers, if they share one.
    share: Option<&'a Share>,
    /// There is no room left.
    has_no_room: bool,
    full: Vec<p4::ReadResponse>,
    last: p4::ReadResponse,
    bytes: usize,
    all_bytes: usize,
}

impl Answers<'_> {
    fn push(&mut self, message: Message) {
        if is_unnamed(&message) {
            return;
        }
        let entity = p4::Entity { entity: Some(message) };
        let bytes = entity.encoded_len() + 5;
        // What is refused takes no room from other answers.
        if self.is_too_long() || self.has_no_room {
            return;
        }
        self.all_bytes += bytes;
        self.has_no_room = self.share.is_some_and(|share| !share.take(bytes));
        if self.is_too_long() || self.has_no_room {
            return;
        }
        if self.bytes + bytes > ANSWER_BYTES && self.bytes > 0 {
            self.full.push(std::mem::take(&mut self.last));
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.last.entities.push(entity);
    }

    fn is_too_long(&self) -> bool {
        self.all_bytes > ALL_BYTES_MAX
    }

    /// All messages; at least one.
    pub fn finish(mut self) -> Vec<p4::ReadResponse> {
        if !self.last.entities.is_empty() || self.full.is_empty() {
            self.full.push(self.last);
        }
        self.full
    }
}

/// True if an entity belongs to an object that P4Info does not list, which has no id.
fn is_unnamed(message: &Message) -> bool {
    let unnamed = |entry: &Option<p4::TableEntry>| entry.as_ref().is_some_and(|e| e.table_id == 0);
    match message {
        Message::TableEntry(entry) => entry.table_id == 0,
        Message::DirectCounterEntry(entry) => unnamed(&entry.table_entry),
        Message::DirectMeterEntry(entry) => unnamed(&entry.table_entry),
        Message::CounterEntry(entry) => entry.counter_id == 0,
        Message::MeterEntry(entry) => entry.meter_id == 0,
        Message::RegisterEntry(entry) => entry.register_id == 0,
        Message::ValueSetEntry(entry) => entry.value_set_id == 0,
        Message::ActionProfileMember(entry) => entry.action_profile_id == 0,
        Message::ActionProfileGroup(entry) => entry.action_profile_id == 0,
        _ => false,
    }
}

/// The entities found, and a result for each entity of the request, if one failed.
pub type Read = (Vec<p4::ReadResponse>, std::result::Result<(), Vec<Result<()>>>);

/// Reads the entities of a request, into this share of the room for answers; an error of one does not prevent the others from being read.
pub fn read(device: &Device, schema: &Schema, entities: &[p4::Entity], share: &Share) -> Read {
    let mut answers = Answers { share: Some(share), ..Answers::default() };
    let reading = Reading::new(device, schema, entities);
    let results: Vec<Result<()>> = entities
        .iter()
        .map(|entity| match &entity.entity {
            Some(wanted) => reading.entity(wanted, &mut answers),
            None => invalid("an entity of the request is empty"),
        })
        .collect();
    if answers.is_too_long() {
        let text = format!(
            "the answer has more than {} MiB: ask for one table, or for single entries of an array",
            ALL_BYTES_MAX >> 20
        );
        return (Vec::new(), Err(vec![Err(ControlError::ResourceExhausted(text))]));
    }
    if answers.has_no_room {
        let text = "the answers that wait for their controllers take all memory there is for them: read again when they have gone";
        return (Vec::new(), Err(vec![Err(ControlError::ResourceExhausted(text.into()))]));
    }
    match results.iter().all(Result::is_ok) {
        true => (answers.finish(), Ok(())),
        false if answers.all_bytes == 0 => (Vec::new(), Err(results)),
        false => (answers.finish(), Err(results)),
    }
}

/// What the reading of a request needs.
struct Reading<'a> {
    device: &'a Device,
    schema: &'a Schema,
    /// Metadata of entries and groups when the reading begins.
    kept: Kept,
    /// The forms in which controllers wrote what depends on links.
    watch: Watch,
}

impl<'a> Reading<'a> {
    /// Copies are made once, and only for requests of what has metadata or depends on links: neither lock may be taken
    /// while entities are visited.
    fn new(device: &'a Device, schema: &'a Schema, entities: &[p4::Entity]) -> Reading<'a> {
        let needs_copies = entities.iter().any(|entity| {
            use Message::{ActionProfileGroup, PacketReplicationEngineEntry, TableEntry};
            matches!(
                entity.entity,
                Some(TableEntry(_) | ActionProfileGroup(_) | PacketReplicationEngineEntry(_))
            )
        });
        let (mut kept, mut watch) = (Kept::default(), Watch::default());
        if needs_copies {
            // One lock after the other.
            kept = device.kept().clone();
            watch = device.watch().clone();
        }
        Reading { device, schema, kept, watch }
    }

    /// Adds what an entity of the request selects.
    fn entity(&self, wanted: &Message, answers: &mut Answers<'_>) -> Result<()> {
        let schema = self.schema;
        let query = match wanted {
            Message::TableEntry(wanted) if wanted.is_default_action => {
                return self.default_actions(wanted, answers);
            }
            Message::TableEntry(wanted) => return self.table_entries(wanted, answers),
            Message::DirectCounterEntry(wanted) => {
                let mut count = |entry: TableEntry| {
                    let message = entry::direct_counter(schema, &entry.key, entry.counter?);
                    Some(Message::DirectCounterEntry(message))
                };
                let named = wanted.table_entry.as_ref();
                self.check_has(named, "counters", |table| table.counters)?;
                return self.direct(named, &mut count, answers);
            }
            Message::DirectMeterEntry(wanted) => {
                objects::no_colours(wanted.counter_data.as_ref())?;
                let mut rates = |entry: TableEntry| {
                    schema.declared(entry.key.table).meter?;
                    let message = entry::direct_meter(schema, &entry.key, entry.meter.as_ref());
                    Some(Message::DirectMeterEntry(message))
                };
                let named = wanted.table_entry.as_ref();
                self.check_has(named, "direct meter", |table| table.meter.is_some())?;
                return self.direct(named, &mut rates, answers);
            }
            Message::DigestEntry(wanted) => return self.digests(wanted, answers),
            Message::ActionProfileMember(wanted) => Query::Members {
                table: profile(schema, wanted.action_profile_id)?,
                id: (wanted.member_id != 0).then_some(wanted.member_id),
            },
            Message::ActionProfileGroup(wanted) => Query::Groups {
                table: profile(schema, wanted.action_profile_id)?,
                id: (wanted.group_id != 0).then_some(wanted.group_id),
            },
            Message::CounterEntry(wanted) => Query::Counters {
                counter: optional(wanted.counter_id, |id| schema.counter(id))?,
                index: objects::index(wanted.index.as_ref())?,
            },
            Message::MeterEntry(wanted) => {
                objects::no_colours(wanted.counter_data.as_ref())?;
                let meter = optional(wanted.meter_id, |id| schema.meter(id))?;
                Query::Meters { meter, index: objects::index(wanted.index.as_ref())? }
            }
            Message::RegisterEntry(wanted) => Query::Registers {
                register: optional(wanted.register_id, |id| schema.register(id))?,
                index: objects::index(wanted.index.as_ref())?,
            },
            Message::ValueSetEntry(wanted) => {
                Query::ValueSets { set: optional(wanted.value_set_id, |id| schema.value_set(id))? }
            }
            Message::PacketReplicationEngineEntry(wanted) => match &wanted.r#type {
                None => {
                    self.visit(&Query::Multicast { id: None }, answers)?;
                    Query::Mirrors { id: None }
                }
                Some(Replication::MulticastGroupEntry(group)) => {
                    Query::Multicast { id: numbered(group.multicast_group_id)? }
                }
                Some(Replication::CloneSessionEntry(session)) => {
                    Query::Mirrors { id: numbered(session.session_id)? }
                }
            },
            // Externs of a program have no entries.
            _ => return Ok(()),
        };
        self.visit(&query, answers)
    }

    /// Adds what a query finds.
    fn visit(&self, query: &Query, answers: &mut Answers<'_>) -> Result<()> {
        let each = &mut |entity| answers.extend(self.message(entity));
        match query {
            // These belong to no program.
            Query::Multicast { .. } | Query::Mirrors { .. } => {
                self.device.control.visit(query, each)
            }
            _ => self.device.control.visit_of(&self.schema.program, query, each),
        }
    }

    /// The message for an object other than an entry, in the form that its controller wrote.
    fn message(&self, entity: Entity) -> Option<Message> {
        let (schema, ids) = (self.schema, &self.schema.ids);
        let message = match entity {
            Entity::Member { table, id, action: call } if id < FIRST_OWNED_ID => {
                Message::ActionProfileMember(action::member_message(schema, table, id, &call))
            }
            Entity::Group { table, id, members } if id < FIRST_OWNED_ID => {
                Message::ActionProfileGroup(action::group_message(schema, table, id, &members))
            }
            Entity::Counter { counter, index, count } => Message::CounterEntry(p4::CounterEntry {
                counter_id: ids.counters[counter.index()],
                index: objects::index_message(index),
                data: Some(objects::count_message(count)),
            }),
            Entity::Meter { meter, index, config } => Message::MeterEntry(p4::MeterEntry {
                meter_id: ids.meters[meter.index()],
                index: objects::index_message(index),
                config: config.as_ref().map(objects::meter_message),
                counter_data: None,
            }),
            Entity::Register { register, index, cells } => {
                Message::RegisterEntry(objects::register_message(schema, register, index, &cells))
            }
            Entity::ValueSet { set, members } => {
                Message::ValueSetEntry(objects::value_set_message(schema, set, &members))
            }
            Entity::Multicast { id, group } => {
                let metadata = self.kept.of_group(id.into());
                let message = replicated::group_message(id, &group, metadata);
                Message::PacketReplicationEngineEntry(message)
            }
            Entity::Mirror { id, session } => {
                Message::PacketReplicationEngineEntry(replicated::session_message(id, &session))
            }
            _ => return None,
        };
        let wanted = watch::name(&message).and_then(|name| self.watch.wanted(name)).cloned();
        Some(wanted.unwrap_or(message))
    }

    /// The configured digests.
    fn digests(&self, wanted: &p4::DigestEntry, answers: &mut Answers<'_>) -> Result<()> {
        let (device, schema) = (self.device, self.schema);
        let only = optional(wanted.digest_id, |id| Ok(schema.digests(id)?[0]))?;
        // Digests of a program that was loaded meanwhile have no id here.
        let number = |id: DigestId| schema.ids.digests.get(id.index()).copied();
        let first = |id: DigestId| schema.digests(number(id)?).ok()?.first().copied();
        let configured = device.digests();
        let wanted = configured
            .configs()
            .filter(|(id, _)| first(*id) == Some(*id) && only.is_none_or(|only| only == *id));
        answers.extend(wanted.map(|(id, config)| {
            Message::DigestEntry(p4::DigestEntry {
                digest_id: schema.ids.digests[id.index()],
                config: Some(p4::digest_entry::Config {
                    max_timeout_ns: config.max_timeout_ns as i64,
                    max_list_size: config.max_list_size as i32,
                    ack_timeout_ns: config.ack_timeout_ns as i64,
                }),
            })
        }));
        Ok(())
    }

    /// Visits the entries of the table, and with the match, that a message selects; false if it selects a match that no
    /// entry has. A match without a priority selects every entry with it.
    fn entries(
        &self,
        wanted: &p4::TableEntry,
        each: &mut dyn FnMut(TableEntry) -> Option<Message>,
        answers: &mut Answers<'_>,
    ) -> Result<bool> {
        let schema = self.schema;
        let table = optional(wanted.table_id, |id| schema.table(id))?;
        let key = match table {
            Some(table) if !wanted.r#match.is_empty() => Some(entry::key(schema, table, wanted)?),
            None if !wanted.r#match.is_empty() => {
                return invalid("a read with a match names its table");
            }
            _ => None,
        };
        let has_priorities = table.is_some_and(|table| {
            let mut keys = schema.declared(table).keys.iter();
            keys.any(|key| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm))
        });
        let Ok(priority) = u32::try_from(wanted.priority) else {
            let text = format!("priority is {}; it cannot be negative", wanted.priority);
            return invalid(text);
        };
        let matched = key
            .as_ref()
            .filter(|_| has_priorities && priority == 0)
            .map(|key| entry::entry_matches(schema, key));
        let query = match key {
            Some(key) if matched.is_none() => Query::Entry(key),
            _ => Query::Entries { table },
        };
        let mut found = wanted.r#match.is_empty();
        let result = self.device.control.visit_of(&schema.program, &query, &mut |entity| {
            let Entity::TableEntry(one) = entity else { return };
            let is_it =
                matched.as_ref().is_none_or(|all| *all == entry::entry_matches(schema, &one.key));
            if is_it && (priority == 0 || one.key.priority == priority) {
                found = true;
                answers.extend(each(one));
            }
        });
        match result {
            Err(ControlError::NotFound(_) | ControlError::NoEntry(_))
                if matches!(query, Query::Entry(_)) =>
            {
                Ok(false)
            }
            result => result.map(|()| found),
        }
    }

    /// Checks that a table has direct counters or meters, if one is named.
    fn check_has(
        &self,
        wanted: Option<&p4::TableEntry>,
        what: &str,
        has: impl Fn(&Table) -> bool,
    ) -> Result<()> {
        let id = wanted.map_or(0, |wanted| wanted.table_id);
        let table = optional(id, |id| self.schema.table(id))?;
        match table.map(|table| self.schema.declared(table)) {
            Some(declared) if !has(declared) => {
                invalid(format!("table {} has no {what}", declared.name))
            }
            _ => Ok(()),
        }
    }

    /// Visits the direct counters or meters of entries; a named entry must exist (P4Runtime specification 1.5, sections
    /// 9.3.1 and 9.4.1).
    fn direct(
        &self,
        wanted: Option<&p4::TableEntry>,
        each: &mut dyn FnMut(TableEntry) -> Option<Message>,
        answers: &mut Answers<'_>,
    ) -> Result<()> {
        let wanted = wanted.cloned().unwrap_or_default();
        if wanted.is_default_action {
            return invalid("a default action has no counter and no meter");
        }
        match self.entries(&wanted, each, answers)? {
            true => Ok(()),
            false => Err(ControlError::NotFound("the table has no entry with this match".into())),
        }
    }

    fn table_entries(&self, wanted: &p4::TableEntry, answers: &mut Answers<'_>) -> Result<()> {
        let schema = self.schema;
        objects::no_colours(wanted.meter_counter_data.as_ref())?;
        let table = optional(wanted.table_id, |id| schema.table(id))?;
        let has_times = |table: TableId| schema.declared(table).idle_timeout_ms.is_some();
        if wanted.time_since_last_hit.is_some() && table.is_some_and(|table| !has_times(table)) {
            return invalid("time_since_last_hit is read of tables that support idle timeout");
        }
        let parts = Parts {
            counter: wanted.counter_data.is_some(),
            meter: wanted.meter_config.is_some(),
            since_hit: wanted.time_since_last_hit.is_some(),
        };
        let sets = self.own_sets(table)?;
        self.entries(
            wanted,
            &mut |entry| {
                let does = match &entry.target {
                    Target::Action(call) => Does::Action(action::action(schema, call)),
                    Target::Member(id) => Does::ActionProfileMemberId(*id),
                    Target::Group(id) if *id >= FIRST_OWNED_ID => {
                        sets.get(&(entry.key.table, *id))?.clone()
                    }
                    Target::Group(id) => Does::ActionProfileGroupId(*id),
                };
                let mut message = entry::message(schema, &entry, does, parts);
                message.metadata = self.kept.of_entry(&message);
                is_asked_for(wanted, &message).then_some(Message::TableEntry(message))
            },
            answers,
        )
        // A read without results is an empty answer (specification 1.5, section 11.1).
        .map(|_| ())
    }

    /// Action sets of entries with actions of their own, of one table or of all, by table and group.
    fn own_sets(&self, table: Option<TableId>) -> Result<BTreeMap<(TableId, u32), Does>> {
        let (control, schema) = (&self.device.control, self.schema);
        let (mut members, mut sets) = (BTreeMap::new(), BTreeMap::new());
        if table.is_some_and(|table| schema.declared(table).selector.is_none()) {
            return Ok(sets);
        }
        let query = Query::Members { table, id: None };
        control.visit_of(&schema.program, &query, &mut |entity| {
            if let Entity::Member { table, id, action: call } = entity
                && id >= FIRST_OWNED_ID
            {
                members.insert((table, id), action::action(schema, &call));
            }
        })?;
        let query = Query::Groups { table, id: None };
        control.visit_of(&schema.program, &query, &mut |entity| {
            let Entity::Group { table, id, members: list } = entity else { return };
            let name = Name::Group(schema.ids.profiles[table.index()], id);
            let wanted = self.watch.wanted(name).and_then(|message| match message {
                Message::ActionProfileGroup(group) => Some(group.clone()),
                _ => None,
            });
            let group = wanted.unwrap_or_else(|| action::group_message(schema, table, id, &list));
            let one = |member: &p4::action_profile_group::Member| p4::ActionProfileAction {
                action: members.get(&(table, member.member_id)).cloned(),
                weight: member.weight,
                watch_kind: member.watch_kind.as_ref().and_then(|kind| {
                    use p4::action_profile_action::WatchKind;
                    Some(WatchKind::WatchPort(port_bytes(watch::watched(kind).ok()?)))
                }),
            };
            if id >= FIRST_OWNED_ID {
                let action_profile_actions = group.members.iter().map(one).collect();
                let set = entry::set_message(action_profile_actions, group.max_size);
                sets.insert((table, id), Does::ActionProfileActionSet(set));
            }
        })?;
        Ok(sets)
    }

    fn default_actions(&self, wanted: &p4::TableEntry, answers: &mut Answers<'_>) -> Result<()> {
        let schema = self.schema;
        entry::check_default(wanted, "the request")?;
        let table = optional(wanted.table_id, |id| schema.table(id))?;
        let query = Query::DefaultActions { table };
        self.device.control.visit_of(&schema.program, &query, &mut |entity| {
            let Entity::DefaultAction { table, action: Some(call) } = entity else { return };
            let does = Does::Action(action::action(schema, &call));
            let mut message = p4::TableEntry {
                table_id: schema.ids.tables[table.index()],
                action: Some(p4::TableAction { r#type: Some(does) }),
                is_default_action: true,
                ..Default::default()
            };
            message.metadata = self.kept.of_entry(&message);
            if is_asked_for(wanted, &message) {
                answers.push(Message::TableEntry(message));
            }
        })
    }
}

impl Extend<Message> for Answers<'_> {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

/// A number of 16 bits; `None` for 0, which selects all.
fn numbered(id: u32) -> Result<Option<u16>> {
    let number = u16::try_from(id)
        .map_err(|_| ControlError::OutOfRange(format!("number {id} is above 65535")))?;
    Ok((number != 0).then_some(number))
}

/// True if an entry has the action and the metadata of a request, where it sets any (P4Runtime specification 1.5,
/// section 9.1.1).
fn is_asked_for(wanted: &p4::TableEntry, entry: &p4::TableEntry) -> bool {
    let action = |entry: &p4::TableEntry| match entry.action.as_ref()?.r#type.as_ref()? {
        Does::Action(action) => Some(action.action_id),
        _ => None,
    };
    let asked = action(wanted).filter(|id| *id != 0);
    (asked.is_none() || asked == action(entry))
        && (wanted.metadata.is_empty() || wanted.metadata == entry.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_cut_into_messages_and_never_grow_beyond_their_bound() {
        let message = |bytes: usize| {
            let payload = vec![0xff; bytes];
            Message::ExternEntry(p4::ExternEntry {
                entry: Some(prost_types::Any { type_url: String::new(), value: payload }),
                ..Default::default()
            })
        };
        let mut answers = Answers::default();
        (0..7).for_each(|_| answers.push(message(ANSWER_BYTES * 2 / 5)));
        let messages: Vec<usize> =
            answers.finish().iter().map(|answer| answer.entities.len()).collect();
        assert_eq!(messages, [2, 2, 2, 1]);
        let mut answers = Answers::default();
        (0..300).for_each(|_| answers.push(message(1 << 20)));
        assert!(answers.is_too_long());
        let kept: usize = answers.finish().iter().map(|answer| answer.encoded_len()).sum();
        assert!(kept <= ALL_BYTES_MAX, "{kept}");
    }
}
