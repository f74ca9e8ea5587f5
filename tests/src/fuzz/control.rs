//! Target `control`: requests of P4Runtime with random fields and bytes in them; what is done can be read, what is refused has changed
//! nothing, nor has what only reads.
//!
//! In this process, without a network: messages are decoded as gRPC does and go to the service's own functions. Writes of every
//! atomicity, and beside them reads and pushed programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use prost::Message as _;
use wireyard_pipeline::source::{Loader, parse_program};
use wireyard_switch::control::{Control, Mode};
use wireyard_switch::library::LIBRARIES;
use wireyard_switch::p4runtime::device::Device;
use wireyard_switch::p4runtime::persist::Begun;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_switch::p4runtime::room::{Room, Share};
use wireyard_switch::p4runtime::{pipeline, read, write};
use wireyard_switch::program::{DeviceOptions, without_entries};
use wireyard_tables::time::Time;

use super::fields;
use crate::differ::random::Random;
use p4::entity::Entity;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::table_action::Type as Does;

/// Requests of an input.
const REQUESTS: usize = 40;
/// One in so many requests pushes a program, which is compiled.
const PUSH_EVERY: usize = 1000;
/// The election id of the controller.
const ELECTION: u64 = 1;

/// A value set beside that of the program, with masks and ranges.
const SET: &str =
    "sorts: { key: { a: { bits: 8, kind: ternary }, b: { bits: 16, kind: range } }, size: 2 }";

/// How requests ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// They were done.
    pub done: usize,
    /// They were refused, and changed nothing.
    pub refused: usize,
    /// What an update inserted or modified, and can be read.
    pub there: usize,
    /// What an update removed, and cannot be read.
    pub gone: usize,
}

impl Ended {
    fn count(&mut self, done: bool) {
        *(if done { &mut self.done } else { &mut self.refused }) += 1;
    }
}

fn bytes(random: &mut Random) -> Vec<u8> {
    (0..random.below(20).min(2) + random.below(20) / 16).map(|_| random.bits() as u8).collect()
}

/// A member of one value set or of the other.
fn set_member(random: &mut Random) -> p4::ValueSetMember {
    use p4::field_match::{Exact, FieldMatchType, Range, Ternary};
    let one = |field_id, found| p4::FieldMatch { field_id, field_match_type: Some(found) };
    if random.below(3) == 0 {
        let exact = FieldMatchType::Exact(Exact { value: bytes(random) });
        return p4::ValueSetMember { r#match: vec![one(1, exact)] };
    }
    let mask = bytes(random);
    let value = if random.below(4) == 0 { bytes(random) } else { mask.clone() };
    let masked = FieldMatchType::Ternary(Ternary { value, mask });
    let range = FieldMatchType::Range(Range { low: bytes(random), high: bytes(random) });
    let mut r#match = vec![one(1, masked), one(2, range)];
    r#match.truncate(random.below(4));
    p4::ValueSetMember { r#match }
}

/// An entity that could be right, with ids of the program.
fn entity(device: &Device, random: &mut Random) -> Entity {
    let ids = device.pipeline().schema.ids.clone();
    let mut pick = |ids: &[u32]| ids[random.below(ids.len())];
    let (table, action) = (pick(&ids.tables), pick(&ids.actions));
    let profile = ids.profiles.iter().copied().find(|id| *id != 0).unwrap_or(0);
    let param = |value| p4::action::Param { param_id: 1, value };
    let params = if random.below(2) == 0 { vec![param(bytes(random))] } else { vec![] };
    let action = p4::Action { action_id: action, params };
    let exact = |value| p4::FieldMatch {
        field_id: 1,
        field_match_type: Some(p4::field_match::FieldMatchType::Exact(p4::field_match::Exact {
            value,
        })),
    };
    let matches = if random.below(4) == 0 { vec![] } else { vec![exact(bytes(random))] };
    let number = random.below(6) as u32;
    let index = Some(p4::Index { index: random.below(10) as i64 });
    let entry = |does| p4::TableEntry {
        table_id: table,
        r#match: matches.clone(),
        action: Some(p4::TableAction { r#type: Some(does) }),
        priority: number as i32,
        ..Default::default()
    };
    match random.below(14) {
        0..=3 => Entity::TableEntry(entry(Does::Action(action))),
        4 => Entity::TableEntry(entry(Does::ActionProfileGroupId(number))),
        5 => Entity::TableEntry(entry(Does::ActionProfileActionSet(p4::ActionProfileActionSet {
            action_profile_actions: vec![p4::ActionProfileAction {
                action: Some(action),
                weight: number as i32,
                watch_kind: None,
            }],
            ..Default::default()
        }))),
        6 => Entity::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: profile,
            member_id: number,
            action: Some(action),
        }),
        7 => Entity::ActionProfileGroup(p4::ActionProfileGroup {
            action_profile_id: profile,
            group_id: number,
            members: vec![p4::action_profile_group::Member {
                member_id: number,
                weight: 1,
                watch_kind: None,
            }],
            max_size: 0,
        }),
        8 => Entity::CounterEntry(p4::CounterEntry {
            counter_id: ids.counters[0],
            index,
            data: Some(p4::CounterData { byte_count: 1, packet_count: number.into() }),
        }),
        9 => Entity::MeterEntry(p4::MeterEntry {
            meter_id: ids.meters[0],
            index,
            config: Some(p4::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 }),
            counter_data: None,
        }),
        10 => Entity::RegisterEntry(p4::RegisterEntry {
            register_id: ids.registers[0],
            index,
            data: Some(p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(bytes(random))) }),
        }),
        11 => Entity::DigestEntry(p4::DigestEntry {
            digest_id: ids.digests[0],
            config: Some(p4::digest_entry::Config::default()),
        }),
        12 => Entity::ValueSetEntry(p4::ValueSetEntry {
            value_set_id: ids.value_sets[random.below(ids.value_sets.len())],
            members: (0..random.below(4)).map(|_| set_member(random)).collect(),
        }),
        _ => {
            let group = p4::MulticastGroupEntry {
                multicast_group_id: number,
                replicas: vec![p4::Replica {
                    port_kind: Some(p4::replica::PortKind::Port(bytes(random))),
                    instance: number,
                    backup_replicas: vec![],
                }],
                metadata: vec![],
            };
            Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
                r#type: Some(Replication::MulticastGroupEntry(group)),
            })
        }
    }
}

/// The message as it is half of the time, otherwise with fields or bytes changed; `None` where it is none any more.
fn mutated<M: prost::Message + Default>(random: &mut Random, message: M) -> Option<M> {
    let mut bytes = message.encode_to_vec();
    match random.below(4) {
        0 | 1 => return Some(message),
        2 => (0..=random.below(3)).for_each(|_| bytes = fields::change(random, &bytes)),
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    _ if bytes.is_empty() => bytes.push(random.bits() as u8),
                    0 => bytes[at] = random.bits() as u8,
                    1 => bytes.insert(at, random.bits() as u8),
                    _ => drop(bytes.remove(at)),
                }
            }
        }
    }
    M::decode(bytes.as_slice()).ok()
}

/// A request to write.
fn write_request(device: &Device, random: &mut Random) -> Option<p4::WriteRequest> {
    let updates = (0..=random.below(8) / 6).map(|_| p4::Update {
        r#type: 1 + random.below(3) as i32,
        entity: Some(p4::Entity { entity: Some(entity(device, random)) }),
    });
    let updates = updates.collect();
    mutated(random, p4::WriteRequest { updates, ..Default::default() })
}

/// A request to read what could be there.
fn read_request(device: &Device, random: &mut Random) -> Option<p4::ReadRequest> {
    let entities =
        (0..=random.below(3)).map(|_| p4::Entity { entity: Some(entity(device, random)) });
    let entities = entities.collect();
    mutated(random, p4::ReadRequest { entities, ..Default::default() })
}

/// A request to replace the program.
fn push_request(
    config: &p4::ForwardingPipelineConfig,
    random: &mut Random,
) -> Option<p4::SetForwardingPipelineConfigRequest> {
    let config = (random.below(8) > 0).then(|| config.clone());
    let action = random.below(7) as i32;
    mutated(random, push(action, config))
}

fn push(
    action: i32,
    config: Option<p4::ForwardingPipelineConfig>,
) -> p4::SetForwardingPipelineConfigRequest {
    let election_id = Some(p4::Uint128 { high: 0, low: ELECTION });
    p4::SetForwardingPipelineConfigRequest { action, config, election_id, ..Default::default() }
}

/// Room for an answer of any size.
fn room() -> Share {
    Room::new(usize::MAX).share()
}

/// What an entity is read by, if that names one alone; with its action, if it is to be there.
fn key(written: &Entity, deleted: bool) -> Option<Entity> {
    Some(match written {
        Entity::TableEntry(one) if !one.r#match.is_empty() && !one.is_default_action => {
            Entity::TableEntry(p4::TableEntry {
                table_id: one.table_id,
                r#match: one.r#match.clone(),
                priority: one.priority,
                action: one.action.clone().filter(|_| !deleted),
                ..Default::default()
            })
        }
        Entity::ActionProfileMember(one) if one.member_id != 0 => {
            Entity::ActionProfileMember(p4::ActionProfileMember { action: None, ..one.clone() })
        }
        Entity::ActionProfileGroup(one) if one.group_id != 0 => {
            Entity::ActionProfileGroup(p4::ActionProfileGroup {
                action_profile_id: one.action_profile_id,
                group_id: one.group_id,
                ..Default::default()
            })
        }
        Entity::DigestEntry(one) if one.digest_id != 0 => {
            Entity::DigestEntry(p4::DigestEntry { digest_id: one.digest_id, config: None })
        }
        Entity::PacketReplicationEngineEntry(one) => match &one.r#type {
            Some(Replication::MulticastGroupEntry(group)) if group.multicast_group_id != 0 => {
                written.clone()
            }
            Some(Replication::CloneSessionEntry(session)) if session.session_id != 0 => {
                written.clone()
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Everything that can be read, as bytes.
fn snapshot(device: &Device) -> Vec<u8> {
    let replication = p4::PacketReplicationEngineEntry::default();
    let everything = [
        Entity::TableEntry(p4::TableEntry::default()),
        Entity::TableEntry(p4::TableEntry { is_default_action: true, ..Default::default() }),
        Entity::ActionProfileMember(p4::ActionProfileMember::default()),
        Entity::ActionProfileGroup(p4::ActionProfileGroup::default()),
        Entity::CounterEntry(p4::CounterEntry::default()),
        Entity::MeterEntry(p4::MeterEntry::default()),
        Entity::RegisterEntry(p4::RegisterEntry::default()),
        Entity::ValueSetEntry(p4::ValueSetEntry::default()),
        Entity::PacketReplicationEngineEntry(replication),
        Entity::DigestEntry(p4::DigestEntry::default()),
    ];
    let wanted: Vec<p4::Entity> =
        everything.into_iter().map(|entity| p4::Entity { entity: Some(entity) }).collect();
    let pipeline = device.pipeline();
    let (answers, done) = read::read(device, &pipeline.schema, &wanted, &room());
    done.expect("everything can be read");
    answers.iter().flat_map(|answer| answer.encode_to_vec()).collect()
}

/// Does an input: its bytes are the first decisions.
///
/// # Panics
/// A request that was refused changed something.
pub fn run(data: &[u8]) {
    requests(Random::of(data), REQUESTS);
}

/// Writes so many requests to a device.
///
/// # Panics
/// A request that was refused changed something.
pub fn requests(mut random: Random, count: usize) -> Ended {
    let path = crate::workspace_root().join("tests/data/p4runtime/program.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{why}"));
    let text = text.replace("value_sets:\n", &format!("value_sets:\n  {SET}\n"));
    let loader = Loader::in_memory([("program.yaml", text.as_str())], LIBRARIES);
    let parsed = parse_program("program.yaml".as_ref(), &loader);
    let parsed = parsed.unwrap_or_else(|why| panic!("{why}"));
    let loaded = without_entries(parsed.clone()).unwrap_or_else(|why| panic!("{why}"));
    let mut core = loaded.device(DeviceOptions::small()).unwrap_or_else(|why| panic!("{why}"));
    let control = Control::of(&core).expect("a control handle").clone();
    let device = Device::new(1, control, &parsed, Begun::default());
    // Registers are the worker's: it is polled beside.
    let ends = Arc::new(AtomicBool::new(false));
    let (stop, started) = (Arc::clone(&ends), Instant::now());
    let worker = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            core.poll(Time::from_ns(started.elapsed().as_nanos() as u64), None);
            std::thread::yield_now();
        }
    });
    let mut all = Requests::new(device);
    (0..count).for_each(|number| all.one(&mut random, number));
    ends.store(true, Ordering::Relaxed);
    worker.join().expect("the worker lives");
    all.ended
}

/// A device and what is known of it.
struct Requests {
    device: Device,
    /// The program that it began with.
    config: p4::ForwardingPipelineConfig,
    before: Vec<u8>,
    ended: Ended,
}

impl Requests {
    fn new(device: Device) -> Requests {
        let mut arbitration = device.arbitrate();
        let stream = arbitration.open().expect("a stream");
        arbitration.update(stream, "", Some(ELECTION.into())).expect("it is primary");
        drop(arbitration);
        let config = pipeline::get(&device, 0).expect("a program");
        let before = snapshot(&device);
        Requests { device, config, before, ended: Ended::default() }
    }

    fn one(&mut self, random: &mut Random, number: usize) {
        match random.below(PUSH_EVERY) {
            0 => self.push(random, number),
            n if n % 8 == 0 => self.read(random, number),
            _ => self.write(random, number),
        }
    }

    fn unchanged(&self, number: usize, request: &impl std::fmt::Debug) {
        assert!(self.before == snapshot(&self.device), "request {number} changed: {request:?}");
    }

    fn write(&mut self, random: &mut Random, number: usize) {
        let Some(request) = write_request(&self.device, random) else { return };
        let mode = if random.below(3) == 0 { Mode::Continue } else { Mode::Atomic };
        let schema = self.device.pipeline().schema.clone();
        let done = write::write(&self.device, &schema, &request.updates, mode).1;
        self.ended.count(done.is_ok());
        if done.is_ok() {
            self.holds(&request, number);
        }
        match done {
            Err(results) if mode == Mode::Atomic || results.iter().all(Result::is_err) => {
                assert!(results.iter().all(Result::is_err), "request {number}: {request:?}");
                self.unchanged(number, &request);
            }
            _ => self.before = snapshot(&self.device),
        }
    }

    /// What the updates of a request inserted and modified is there, and what they deleted is not. Of one kind of entities the last
    /// update counts.
    fn holds(&mut self, request: &p4::WriteRequest, number: usize) {
        let schema = self.device.pipeline().schema.clone();
        let entity = |update: &p4::Update| update.entity.as_ref()?.entity.clone();
        for (n, update) in request.updates.iter().enumerate() {
            let Some(written) = entity(update) else { continue };
            let same =
                |other: Entity| std::mem::discriminant(&other) == std::mem::discriminant(&written);
            if request.updates[n + 1..].iter().filter_map(entity).any(same) {
                continue;
            }
            let deleted = update.r#type == p4::update::Type::Delete as i32;
            let Some(key) = key(&written, deleted) else { continue };
            let wanted = [p4::Entity { entity: Some(key) }];
            let (answers, done) = read::read(&self.device, &schema, &wanted, &room());
            // What is named and is not there may be an error.
            let there = done.is_ok() && answers.iter().any(|answer| !answer.entities.is_empty());
            assert_eq!(there, !deleted, "request {number}: {update:?}");
            *(if deleted { &mut self.ended.gone } else { &mut self.ended.there }) += 1;
        }
    }

    fn read(&mut self, random: &mut Random, number: usize) {
        let Some(request) = read_request(&self.device, random) else { return };
        let schema = self.device.pipeline().schema.clone();
        let (_, done) = read::read(&self.device, &schema, &request.entities, &room());
        self.ended.count(done.is_ok());
        self.unchanged(number, &request);
    }

    fn push(&mut self, random: &mut Random, number: usize) {
        use p4::set_forwarding_pipeline_config_request::Action;
        let Some(request) = push_request(&self.config, random) else { return };
        let done = pipeline::set(&self.device, request.clone());
        self.ended.count(done.is_ok());
        let saves = [Action::Verify as i32, Action::VerifyAndSave as i32];
        if done.is_err() || saves.contains(&request.action) {
            self.unchanged(number, &request);
        }
        if done.is_ok() && request.action != Action::Verify as i32 {
            let first = push(Action::VerifyAndCommit as i32, Some(self.config.clone()));
            pipeline::set(&self.device, first).expect("the first program is right");
            self.before = snapshot(&self.device);
        }
    }
}
