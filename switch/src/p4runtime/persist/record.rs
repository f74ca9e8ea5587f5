//! Objects of the device as records, and back.
//!
//! A key is a byte for the kind, which orders records so that each follows those it refers to, and the ids of the
//! object for controllers; for an entry a message with only its key. A value is the object as it is after the update:
//! so a change of one part (the meter of an entry) keeps the others.

use prost::Message;
use wireyard_pipeline::ids::{Id, IdVec};
use wireyard_pipeline::ir::Table;

use crate::control::{
    Change, Control, Entity, Fate, ObjectFate, Query, Swap, TableEntry, Target, Update, invalid,
};
use crate::p4runtime::device::Pipeline;
use crate::p4runtime::fit::tables_alike;
use crate::p4runtime::pack;
use crate::p4runtime::proto::p4::config::v1::P4Info;
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::proto::wireyard::v1 as stored;
use crate::p4runtime::schema::Schema;
use crate::p4runtime::translate::entry::{self, Parts};
use crate::p4runtime::translate::{Result, action, objects};
use crate::p4runtime::watch::Name;
use crate::ports::PortNumber;
use crate::replicate::{Group, Member, Members, Session};
use p4::table_action::Type as Does;

/// Key of the program of the command line.
pub(super) const BASE: &[u8] = &[PROGRAM, 0];
/// Key of the running program, if a controller pushed it.
const RUNNING: &[u8] = &[PROGRAM, 1];
/// Key of its P4Info, if it is JSON of bmv2.
const DESCRIBED: &[u8] = &[PROGRAM, 2];

/// Key of an empty record: the store has also the cells and settings of the entries file. Stores of versions without it
/// may have neither.
const WHOLE: &[u8] = &[PROGRAM, 3];

const PROGRAM: u8 = 0;
const MEMBER: u8 = 1;
const GROUP: u8 = 2;
const ENTRY: u8 = 3;
const DEFAULT: u8 = 4;
const VALUE_SET: u8 = 5;
const MULTICAST: u8 = 6;
const SESSION: u8 = 7;
const COUNTER: u8 = 8;
const METER: u8 = 9;
const REGISTER: u8 = 10;
const METADATA: u8 = 11;
const WATCH: u8 = 12;
/// Kinds that are independent of programs: no new program replaces them.
const SETTINGS: u8 = u8::MAX;

/// What a new program leaves of the records.
#[derive(Debug)]
pub struct Staying {
    /// First bytes of the keys of records that stay as they are.
    pub keys: Vec<Vec<u8>>,
    /// Arrays that keep their cells under another id: they are stored by this one.
    pub renamed: Vec<Query>,
}

impl Staying {
    /// Where nothing is kept: what is of no running program.
    pub fn of_no_program() -> Staying {
        let keys = vec![BASE.to_vec(), WHOLE.to_vec(), vec![SETTINGS]];
        Staying { keys, renamed: Vec::new() }
    }

    /// Of a swap: objects that keep their contents, of which records mean the same in both programs, and those that
    /// depend on no program. A default action is not among them: the new program may declare another.
    pub fn kept_by(swap: &Swap, old: &Schema, new: &Schema) -> Staying {
        let mut stays = Staying::of_no_program();
        stays.keys.extend([vec![METADATA], vec![WATCH]]);
        let alike = tables_alike(&old.info, &new.info);
        for one in swap.report().iter().filter(|one| one.fate == Fate::Kept) {
            let keys = keys_of(old, one);
            if keys != keys_of(new, one) {
                stays.renamed.extend(cells_of(new, one));
            } else if one.kind != "table"
                || table_ids(new, &one.name).is_some_and(|(id, _)| alike.contains(&id))
            {
                stays.keys.extend(keys);
            }
        }
        stays
    }
}

/// All cells of an object that is an array.
fn cells_of(schema: &Schema, object: &ObjectFate) -> Option<Query> {
    fn named<I: Id, T>(all: &IdVec<I, T>, is_it: impl Fn(&T) -> bool) -> Option<I> {
        all.entries().find(|(_, one)| is_it(one)).map(|(id, _)| id)
    }
    let (program, name, index) = (&schema.program, &object.name, None);
    Some(match object.kind {
        "counter" => {
            let counter = named(&program.counters, |one| one.name == *name);
            Query::Counters { counter, index }
        }
        "meter" => Query::Meters { meter: named(&program.meters, |one| one.name == *name), index },
        "register" => {
            let register = named(&program.registers, |one| one.name == *name);
            Query::Registers { register, index }
        }
        _ => return None,
    })
}

/// The ids of a table whose entries can be written, and of its profile.
fn table_ids(schema: &Schema, name: &str) -> Option<(u32, Option<u32>)> {
    let is_it = |table: &Table| table.name == name && !table.const_entries;
    let at = schema.program.tables.iter().position(is_it)?;
    let profile = schema.ids.profiles.get(at).copied().filter(|id| *id != 0);
    Some((*schema.ids.tables.get(at)?, profile))
}

/// First bytes of the keys of the records of an object.
fn keys_of(schema: &Schema, object: &ObjectFate) -> Vec<Vec<u8>> {
    fn id<I: Id, T>(all: &IdVec<I, T>, ids: &[u32], is_it: impl Fn(&T) -> bool) -> Option<u32> {
        ids.get(all.iter().position(is_it)?).copied()
    }
    let (program, ids, name) = (&schema.program, &schema.ids, &object.name);
    let cells = |kind, id: Option<u32>| id.map(|id| key(kind, &[id])).into_iter().collect();
    match object.kind {
        "table" => {
            let of_entries = |table_id| {
                let message = p4::TableEntry { table_id, ..Default::default() };
                [vec![ENTRY], message.encode_to_vec()].concat()
            };
            let Some((table, profile)) = table_ids(schema, name) else { return Vec::new() };
            let of_profile = profile.map(|id| [key(MEMBER, &[id]), key(GROUP, &[id])]);
            std::iter::once(of_entries(table)).chain(of_profile.into_iter().flatten()).collect()
        }
        "counter" => cells(COUNTER, id(&program.counters, &ids.counters, |one| one.name == *name)),
        "meter" => cells(METER, id(&program.meters, &ids.meters, |one| one.name == *name)),
        "register" => {
            cells(REGISTER, id(&program.registers, &ids.registers, |one| one.name == *name))
        }
        // Value sets have one record each, which only control changes.
        _ => Vec::new(),
    }
}

/// The record of the program of the command line.
pub(super) fn base(blob: Vec<u8>) -> Change {
    (BASE.to_vec(), Some(blob))
}

/// The records of the running program: the pushed blob, and the P4Info given with one that cannot generate its own.
pub(super) fn running(pipeline: &Pipeline) -> [Change; 2] {
    let Pipeline { blob, cookie, schema, .. } = pipeline;
    let described = pack::is_json(blob).then(|| schema.info.encode_to_vec());
    [
        (RUNNING.to_vec(), Some([&cookie.to_be_bytes()[..], blob].concat())),
        (DESCRIBED.to_vec(), described),
    ]
}

/// Removes the records of the running program: that of the command line runs.
pub(super) fn not_running() -> [Change; 2] {
    [(RUNNING.to_vec(), None), (DESCRIBED.to_vec(), None)]
}

/// Notes that the store has all that the entries file has.
pub(super) fn whole() -> Change {
    (WHOLE.to_vec(), Some(Vec::new()))
}

/// The record of the metadata of an entry or group.
pub fn metadata(owner: Vec<u8>, metadata: Option<Vec<u8>>) -> Change {
    ([vec![METADATA], owner].concat(), metadata)
}

/// The record of settings of a port or queue.
pub(super) fn settings(place: &[u8], settings: Option<Vec<u8>>) -> Change {
    ([&[SETTINGS], place].concat(), settings)
}

/// The record of a group or session that depends on links.
pub fn watched(name: Name, wanted: Option<&p4::entity::Entity>) -> Change {
    let key = match name {
        Name::Group(profile, group) => key(WATCH, &[1, profile, group]),
        Name::Multicast(id) => key(WATCH, &[2, id]),
        Name::Session(id) => key(WATCH, &[3, id]),
    };
    let entity = wanted.map(|wanted| p4::Entity { entity: Some(wanted.clone()) });
    (key, entity.map(|entity| entity.encode_to_vec()))
}

/// The removal of the record of an object.
pub fn deleted(control: &Control, schema: &Schema, entity: &Entity) -> Option<Change> {
    Some((Record { control, schema }.key_of(entity)?, None))
}

fn key(kind: u8, ids: &[u32]) -> Vec<u8> {
    let ids = ids.iter().flat_map(|id| id.to_be_bytes());
    std::iter::once(kind).chain(ids).collect()
}

fn cell(kind: u8, id: u32, index: u64) -> Vec<u8> {
    let mut key = key(kind, &[id]);
    key.extend(index.to_be_bytes());
    key
}

/// Converts objects of a device to records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) control: &'a Control,
    pub(super) schema: &'a Schema,
}

impl Record<'_> {
    /// The change of the record for an update that was done.
    pub(super) fn update(&self, update: &Update) -> Option<Change> {
        let entity = update.entity();
        let key = self.key_of(entity)?;
        // Not read back: a later update of the batch may have made it again, with a place of its own among the others.
        let is_deleted = matches!(update, Update::Delete(_));
        Some((key, if is_deleted { None } else { self.current(entity) }))
    }

    /// The value of an object of an update, with the parts that the update does not set.
    fn current(&self, entity: &Entity) -> Option<Vec<u8>> {
        let query = match entity {
            Entity::TableEntry(TableEntry { key, .. }) | Entity::DirectMeter { key, .. } => {
                Query::Entry(key.clone())
            }
            Entity::Member { table, id, .. } => {
                Query::Members { table: Some(*table), id: Some(*id) }
            }
            Entity::Group { table, id, .. } => Query::Groups { table: Some(*table), id: Some(*id) },
            Entity::Multicast { id, .. } => Query::Multicast { id: Some(*id) },
            Entity::Mirror { id, .. } => Query::Mirrors { id: Some(*id) },
            entity => return self.value(entity),
        };
        self.value(&self.control.read(&query).ok()?.pop()?)
    }

    pub(super) fn key_of(&self, entity: &Entity) -> Option<Vec<u8>> {
        let ids = &self.schema.ids;
        Some(match entity {
            Entity::TableEntry(TableEntry { key, .. }) | Entity::DirectMeter { key, .. } => {
                let message = entry::key_message(self.schema, key);
                [vec![ENTRY], message.encode_to_vec()].concat()
            }
            Entity::DefaultAction { table, .. } => key(DEFAULT, &[ids.tables[table.index()]]),
            Entity::Member { table, id, .. } => key(MEMBER, &[ids.profiles[table.index()], *id]),
            Entity::Group { table, id, .. } => key(GROUP, &[ids.profiles[table.index()], *id]),
            Entity::ValueSet { set, .. } => key(VALUE_SET, &[ids.value_sets[set.index()]]),
            Entity::Multicast { id, .. } => key(MULTICAST, &[u32::from(*id)]),
            Entity::Mirror { id, .. } => key(SESSION, &[u32::from(*id)]),
            Entity::Counter { counter, index, .. } => {
                cell(COUNTER, ids.counters[counter.index()], *index)
            }
            Entity::Meter { meter, index, .. } => cell(METER, ids.meters[meter.index()], *index),
            Entity::Register { register, index, .. } => {
                cell(REGISTER, ids.registers[register.index()], *index)
            }
            // Counts of entries are changes by packets.
            Entity::DirectCounter { .. } => return None,
        })
    }

    /// The value of an object; `None` if it is as the program declares it.
    pub(super) fn value(&self, entity: &Entity) -> Option<Vec<u8>> {
        let schema = self.schema;
        Some(match entity {
            Entity::TableEntry(found) => {
                let does = match &found.target {
                    Target::Action(call) => Does::Action(action::action(schema, call)),
                    Target::Member(id) => Does::ActionProfileMemberId(*id),
                    Target::Group(id) => Does::ActionProfileGroupId(*id),
                };
                let parts = Parts { meter: true, ..Parts::default() };
                entry::message(schema, found, does, parts).encode_to_vec()
            }
            Entity::DefaultAction { table, action: call } => {
                let declared = &schema.declared(*table).default;
                let call = call.as_ref().filter(|call| *call != declared)?;
                action::action(schema, call).encode_to_vec()
            }
            Entity::Member { table, id, action: call } => {
                action::member_message(schema, *table, *id, call).encode_to_vec()
            }
            Entity::Group { table, id, members } => {
                action::group_message(schema, *table, *id, members).encode_to_vec()
            }
            Entity::ValueSet { set, members } => {
                objects::value_set_message(schema, *set, members).encode_to_vec()
            }
            Entity::Multicast { group, .. } => group_value(group).encode_to_vec(),
            Entity::Mirror { session, .. } => session_value(session).encode_to_vec(),
            Entity::Counter { count, .. } => objects::count_message(*count).encode_to_vec(),
            Entity::Meter { config, .. } => {
                objects::meter_message(config.as_ref()?).encode_to_vec()
            }
            Entity::Register { register, index, cells } => {
                objects::register_message(schema, *register, *index, cells).encode_to_vec()
            }
            Entity::DirectCounter { .. } | Entity::DirectMeter { .. } => return None,
        })
    }

    /// The record of an entity; `None` for those that have none of their own.
    pub(super) fn record(&self, entity: &Entity) -> Option<Change> {
        Some((self.key_of(entity)?, Some(self.value(entity)?)))
    }

    /// Records of the cells of these arrays.
    ///
    /// # Errors
    /// The workers, which have the registers, do not answer.
    pub(super) fn cells(&self, arrays: &[Query]) -> Result<Vec<Change>> {
        let mut all = Vec::new();
        for query in arrays {
            self.control.visit(query, &mut |entity| {
                if !entity.is_blank() {
                    all.extend(self.record(&entity));
                }
            })?;
        }
        Ok(all)
    }

    /// Records of all tables, members, groups, sessions and value sets.
    pub(super) fn everything(&self) -> Vec<Change> {
        let queries = [
            Query::Members { table: None, id: None },
            Query::Groups { table: None, id: None },
            Query::Entries { table: None },
            Query::DefaultActions { table: None },
            Query::ValueSets { set: None },
            Query::Multicast { id: None },
            Query::Mirrors { id: None },
        ];
        let mut all = Vec::new();
        for query in queries {
            // All exist, so no query is refused.
            let _ = self.control.visit(&query, &mut |entity| {
                let is_mirrored = || self.control.is_mirrored(&self.schema.program, &entity);
                if !entity.is_const() && !is_mirrored() {
                    all.extend(self.record(&entity));
                }
            });
        }
        all
    }
}

fn replica(member: &Member) -> stored::StoredReplica {
    stored::StoredReplica { port: member.port.0.into(), instance: member.instance.into() }
}

fn group_value(group: &Group) -> stored::StoredGroup {
    let replicas = match &group.members {
        Members::All => Vec::new(),
        Members::List(list) => list.iter().map(replica).collect(),
    };
    let all_ports = group.members == Members::All;
    stored::StoredGroup { all_ports, prune_ingress: group.prune_ingress, replicas }
}

fn session_value(session: &Session) -> stored::StoredSession {
    stored::StoredSession {
        replicas: session.replicas.iter().map(replica).collect(),
        traffic_class: session.traffic_class.map(u32::from),
        truncate_bytes: session.truncate_bytes,
    }
}

/// The content of a record that is not an object of a program.
#[derive(Debug)]
pub(super) enum Found {
    /// The program of the command line at the time of writing.
    Base(Vec<u8>),
    /// The running program, with its cookie.
    Running(Vec<u8>, u64),
    /// The P4Info given with it.
    Described(Box<P4Info>),
    /// The store has all that the entries file has.
    Whole,
    /// Metadata of an entry or group.
    Metadata(Vec<u8>, Vec<u8>),
    /// A group or session that depends on links.
    Watched(Box<p4::entity::Entity>),
    /// Settings of a port or queue: its place, and the settings.
    Settings(Vec<u8>, Vec<u8>),
}

fn decode<M: Message + Default>(value: &[u8]) -> Result<M> {
    M::decode(value).or_else(|error| invalid(format!("the record cannot be read: {error}")))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Reads a record for which no program is needed.
pub(super) fn of_any_program(key: &[u8], value: &[u8]) -> Option<Found> {
    match (key, value) {
        (BASE, blob) => Some(Found::Base(blob.to_vec())),
        (RUNNING, value) => {
            let (cookie, blob) = value.split_at_checked(8)?;
            Some(Found::Running(blob.to_vec(), u64::from_be_bytes(cookie.try_into().ok()?)))
        }
        (WHOLE, _) => Some(Found::Whole),
        (DESCRIBED, info) => Some(Found::Described(P4Info::decode(info).ok().map(Box::new)?)),
        ([WATCH, ..], value) => {
            let entity = p4::Entity::decode(value).ok()?.entity?;
            Some(Found::Watched(Box::new(entity)))
        }
        ([SETTINGS, place @ ..], value) => Some(Found::Settings(place.to_vec(), value.to_vec())),
        ([METADATA, owner @ ..], value) => Some(Found::Metadata(owner.to_vec(), value.to_vec())),
        _ => None,
    }
}

/// Reads the record of an object of this program.
///
/// # Errors
/// It is damaged, or the program has no such object.
pub(super) fn entity(schema: &Schema, key: &[u8], value: &[u8]) -> Result<Entity> {
    let Some((kind, ids)) = key.split_first() else { return invalid("a record without a key") };
    let id = || ids.get(..4).and_then(number).map_or_else(|| invalid("no id"), Ok);
    let id16 = || u16::try_from(id()?).or_else(|_| invalid("a number above 65535"));
    let index = || {
        let index = ids.get(4..).and_then(|index| index.try_into().ok());
        index.map_or_else(|| invalid("no index"), |index| Ok(u64::from_be_bytes(index)))
    };
    Ok(match *kind {
        MEMBER => action::member(schema, &decode(value)?, false)?,
        GROUP => action::group(schema, &decode(value)?, false)?,
        ENTRY => match entry::wanted(schema, &decode(value)?, false)? {
            entry::Wanted::Entity(entity) => entity,
            entry::Wanted::OneShot(..) => return invalid("an action set has no record"),
        },
        DEFAULT => {
            let table = schema.table(id()?)?;
            let call = action::call(schema, table, &decode(value)?)?;
            Entity::DefaultAction { table, action: Some(call) }
        }
        VALUE_SET => {
            let message: p4::ValueSetEntry = decode(value)?;
            let set = schema.value_set(message.value_set_id)?;
            objects::value_set(schema, set, &message.members)?
        }
        MULTICAST => {
            let found: stored::StoredGroup = decode(value)?;
            let members = match found.all_ports {
                true => Members::All,
                false => Members::List(members(&found.replicas)?),
            };
            let group = Group { members, prune_ingress: found.prune_ingress };
            Entity::Multicast { id: id16()?, group }
        }
        SESSION => {
            let found: stored::StoredSession = decode(value)?;
            let class = found.traffic_class.map(u8::try_from).transpose();
            let traffic_class = class.or_else(|_| invalid("a traffic class above 255"))?;
            let replicas = members(&found.replicas)?;
            let truncate_bytes = found.truncate_bytes;
            let session = Session { replicas, traffic_class, truncate_bytes };
            Entity::Mirror { id: id16()?, session }
        }
        COUNTER => {
            let (counter, count) = (schema.counter(id()?)?, objects::count(&decode(value)?)?);
            Entity::Counter { counter, index: index()?, count }
        }
        METER => {
            let meter = schema.meter(id()?)?;
            let kind = schema.program.meters[meter].kind;
            let config = Some(objects::meter_config(kind, &decode(value)?)?);
            Entity::Meter { meter, index: index()?, config }
        }
        REGISTER => {
            let register = schema.register(id()?)?;
            let message: p4::RegisterEntry = decode(value)?;
            let cells = objects::cells(schema, register, &message.data.unwrap_or_default())?;
            Entity::Register { register, index: index()?, cells }
        }
        other => return invalid(format!("a record of kind {other}")),
    })
}

fn members(replicas: &[stored::StoredReplica]) -> Result<Vec<Member>> {
    let number = |value: u32| u16::try_from(value).or_else(|_| invalid("a number above 65535"));
    let member = |one: &stored::StoredReplica| {
        Ok(Member { port: PortNumber(number(one.port)?), instance: number(one.instance)? })
    };
    replicas.iter().map(member).collect()
}
