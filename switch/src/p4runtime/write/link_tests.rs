//! Groups and copies while the links that they depend on are down.

use std::sync::mpsc::channel;

use wireyard_tables::GroupMember;

use super::tests::{PROGRAM, device, write_all};
use super::*;
use crate::control::{Control, Journal, Keep, KeptUnits, Query, Target};
use crate::p4runtime::device::Pipeline;
use crate::p4runtime::pipeline::exchange;
use crate::p4runtime::room::Room;
use crate::ports::PortNumber;
use crate::program::from_text;
use crate::replicate::{Group, Member, Members};
use std::sync::Arc;

const TWO: PortNumber = PortNumber(2);
const THREE: PortNumber = PortNumber(3);

fn profile_of(device: &Device) -> u32 {
    let pipeline = device.pipeline();
    let table = device.control.table("spread").unwrap();
    pipeline.schema.ids.profiles[table.index()]
}

fn update(kind: Type, message: Message) -> p4::Update {
    p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity: Some(message) }) }
}

fn member(device: &Device, kind: Type, id: u32) -> p4::Update {
    let schema = &device.pipeline().schema;
    let table = device.control.table("spread").unwrap();
    let call = device.control.call("out", &[id.into()]).unwrap();
    let member = crate::p4runtime::translate::action::member_message(schema, table, id, &call);
    update(kind, Message::ActionProfileMember(member))
}

/// A group of these members, each of which watches the port of its number.
fn group(device: &Device, kind: Type, group_id: u32, members: &[u32]) -> p4::Update {
    let member = |id: &u32| p4::action_profile_group::Member {
        member_id: *id,
        weight: 1,
        watch_kind: Some(watch::watch_port(PortNumber(*id as u16))),
    };
    let group = p4::ActionProfileGroup {
        action_profile_id: profile_of(device),
        group_id,
        members: members.iter().map(member).collect(),
        max_size: 0,
    };
    update(kind, Message::ActionProfileGroup(group))
}

fn copies(port: u8, backup: u32) -> p4::Update {
    let backup = p4::BackupReplica { port: vec![3], instance: backup };
    let replica = p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![port])),
        instance: 0,
        backup_replicas: vec![backup],
    };
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 5,
        replicas: vec![replica],
        metadata: Vec::new(),
    };
    let of_group = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(of_group) };
    update(Type::Insert, Message::PacketReplicationEngineEntry(entry))
}

/// The weights of a group in the device.
fn weights(control: &Control, id: u32) -> Vec<u32> {
    let found = control.read(&Query::Groups { table: None, id: Some(id) }).unwrap();
    let [Entity::Group { members, .. }] = &found[..] else { panic!("{found:?}") };
    members.iter().map(|GroupMember { weight, .. }| *weight).collect()
}

/// Members 2 and 3 and their group 1.
fn filled(device: &Device) {
    let all = [
        member(device, Type::Insert, 2),
        member(device, Type::Insert, 3),
        group(device, Type::Insert, 1, &[2, 3]),
    ];
    assert!(write_all(device, &all, Mode::Atomic).is_empty());
}

#[test]
fn a_group_is_checked_as_it_was_written_whatever_links_are_down() {
    let (_core, device) = device();
    let device = Arc::new(device);
    device.follow_writes();
    filled(&device);
    device.link(THREE, false);
    assert_eq!(weights(&device.control, 1), [1, 0]);
    let refused = |updates: &[p4::Update]| {
        write_all(&device, updates, Mode::Continue).pop().and_then(Result::err).unwrap()
    };
    let of_group = refused(&[member(&device, Type::Delete, 3)]);
    assert!(matches!(of_group, ControlError::FailedPrecondition(_)), "{of_group}");
    let table = device.control.table("spread").unwrap();
    let action = device.control.call("out", &[3]).unwrap();
    let theirs = Update::Delete(Entity::Member { table, id: 3, action });
    let of_group = device.control.write(&[theirs], Mode::Atomic).unwrap_err();
    assert!(matches!(of_group.results[0], Err(ControlError::FailedPrecondition(_))));
    device.link(PortNumber(9), false);
    let missing = refused(&[group(&device, Type::Insert, 2, &[9])]);
    assert!(matches!(missing, ControlError::NotFound(_)), "{missing}");
    let twice = refused(&[group(&device, Type::Insert, 2, &[3, 3])]);
    assert!(matches!(twice, ControlError::InvalidArgument(_)), "{twice}");
    device.link(THREE, true);
    assert_eq!(weights(&device.control, 1), [1, 1]);
}

#[test]
fn groups_follow_links_when_nothing_can_be_stored_any_more() {
    let (_core, device) = device();
    filled(&device);
    let (sender, _units) = channel();
    let kept = Arc::new(KeptUnits::default());
    kept.fail("the disk is full".into());
    assert!(device.control.keep(Journal::new(Box::new(|_, _, _| {}), sender, kept)));
    device.link(THREE, false);
    assert_eq!(weights(&device.control, 1), [1, 0]);
}

#[test]
fn what_is_saved_does_not_depend_on_links() {
    let (_core, device) = device();
    filled(&device);
    assert!(write_all(&device, &[copies(2, 0)], Mode::Atomic).is_empty());
    let read = || -> Vec<Entity> {
        let queries = [Query::Groups { table: None, id: None }, Query::Multicast { id: None }];
        queries.iter().flat_map(|query| device.control.read(query).unwrap()).collect()
    };
    let before = read();
    device.link(TWO, false);
    assert_eq!(weights(&device.control, 1), [0, 1]);
    let after = read();
    assert!(after[0] != before[0] && after[1] != before[1], "{after:?}");
    let as_written: Vec<Entity> = after.into_iter().map(|one| device.as_written(one)).collect();
    assert_eq!(as_written, before);
}

#[test]
fn a_port_that_does_not_exist_is_down_and_the_cpu_port_is_not() {
    let mut watch = Watch::default();
    assert!(!watch.is_down(TWO));
    watch.links([TWO].into(), [THREE].into());
    assert!(!watch.is_down(TWO) && watch.is_down(THREE) && watch.is_down(PortNumber(4)));
    assert!(!watch.is_down(PortNumber(wireyard_pipeline::ir::CPU_PORT)));
}

#[test]
fn backups_have_instances_that_a_copy_can_have() {
    let (_core, device) = device();
    let results = write_all(&device, &[copies(2, 65_536)], Mode::Atomic);
    assert!(matches!(results[0], Err(ControlError::InvalidArgument(_))), "{results:?}");
}

/// Clients of P4Runtime 1.3 have no other field for the port of a copy.
#[test]
fn copies_with_numbers_of_ports_are_read_with_numbers() {
    let (_core, device) = device();
    #[expect(deprecated, reason = "what these clients send")]
    let numbers = [2, 3].map(|port| p4::Replica {
        port_kind: Some(p4::replica::PortKind::EgressPort(port)),
        instance: 1,
        backup_replicas: Vec::new(),
    });
    let session =
        p4::CloneSessionEntry { session_id: 6, replicas: numbers.to_vec(), ..Default::default() };
    let kind = p4::packet_replication_engine_entry::Type::CloneSessionEntry(session);
    let message = Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(kind),
    });
    assert!(write_all(&device, &[update(Type::Insert, message.clone())], Mode::Atomic).is_empty());
    assert_eq!(device.watch().wanted(watch::Name::Session(6)), Some(&message));
    assert!(device.watch().link(TWO, false).is_empty(), "no link changes them");
    let gone = [update(Type::Delete, message)];
    assert!(write_all(&device, &gone, Mode::Atomic).is_empty());
    assert!(!device.watch().has(|_| true));
}

/// Replaces the program as `wireyard swap` does.
fn swap(device: &Device, text: &str) {
    let loaded = from_text("next.yaml", text).unwrap_or_else(|rejected| panic!("{rejected}"));
    let swap = device.control.prepare(&loaded, Keep::WhatFits).unwrap();
    let schema = Arc::new(Schema::of(loaded.program.clone()));
    let pipeline = Pipeline { schema, blob: Vec::new(), cookie: 0, is_absent: false };
    exchange(device, swap, Arc::new(pipeline), Keep::WhatFits).unwrap();
}

#[test]
fn what_is_known_of_a_table_goes_with_its_contents() {
    let (_core, device) = device();
    filled(&device);
    let table = device.control.table("aging").unwrap();
    let call = device.control.call("nop", &[]).unwrap();
    let matches = vec![wireyard_tables::Match::Exact(1)];
    device.control.insert(crate::control::TableEntry::new(table, matches.clone(), call)).unwrap();
    let key = crate::control::EntryKey { table, matches, priority: 0 };
    let with_metadata = || {
        let schema = &device.pipeline().schema;
        let message = crate::p4runtime::translate::entry::key_message(schema, &key);
        let metadata = b"mine".to_vec();
        update(Type::Modify, Message::TableEntry(p4::TableEntry { metadata, ..message }))
    };
    assert!(write_all(&device, &[with_metadata()], Mode::Atomic).is_empty());
    swap(&device, PROGRAM);
    assert!(!device.kept().is_empty() && device.watch().all().count() == 1);
    swap(&device, "pipeline: other\ningress: [ std.egress_port = 2 ]\n");
    assert!(device.kept().is_empty());
    assert_eq!(device.watch().all().count(), 0);
}

#[test]
fn entries_are_written_without_is_const_and_with_timeouts_that_can_be_kept() {
    let (_core, device) = device();
    let table = device.control.table("aging").unwrap();
    let matches = vec![wireyard_tables::Match::Exact(1)];
    let key = crate::control::EntryKey { table, matches, priority: 0 };
    let schema = &device.pipeline().schema;
    let message = crate::p4runtime::translate::entry::key_message(schema, &key);
    let call = device.control.call("nop", &[]).unwrap();
    let action = crate::p4runtime::translate::action::action(schema, &call);
    let action = Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) });
    let entry = p4::TableEntry { action, ..message.clone() };
    for kind in [Type::Insert, Type::Modify, Type::Delete] {
        let constant = p4::TableEntry { is_const: true, ..entry.clone() };
        let results =
            write_all(&device, &[update(kind, Message::TableEntry(constant))], Mode::Atomic);
        assert!(matches!(results[0], Err(ControlError::InvalidArgument(_))), "{results:?}");
    }
    let long = p4::TableEntry { idle_timeout_ns: 10i64.pow(18), ..entry };
    let results =
        write_all(&device, &[update(Type::Insert, Message::TableEntry(long))], Mode::Atomic);
    assert!(matches!(results[0], Err(ControlError::OutOfRange(_))), "{results:?}");
    let negative = p4::TableEntry { priority: -1, ..p4::TableEntry::default() };
    let wanted = [p4::Entity { entity: Some(Message::TableEntry(negative)) }];
    let (_, read) =
        crate::p4runtime::read::read(&device, schema, &wanted, &Room::new(usize::MAX).share());
    assert!(matches!(read.unwrap_err()[0], Err(ControlError::InvalidArgument(_))));
}

/// P4Runtime has no field for it, and a link changes nothing but the replicas.
#[test]
fn a_pruned_group_stays_pruned_when_links_change() {
    let (_core, device) = device();
    let members = Members::List(vec![Member { port: PortNumber(2), instance: 0 }]);
    let group = Group { members, prune_ingress: true };
    let insert = Update::Insert(Entity::Multicast { id: 5, group });
    device.control.write(&[insert], Mode::Atomic).unwrap();
    let modify = p4::Update { r#type: Type::Modify as i32, ..copies(2, 0) };
    assert!(write_all(&device, &[modify], Mode::Atomic).is_empty());
    let is_pruned = || {
        let found = device.control.read(&Query::Multicast { id: Some(5) }).unwrap();
        let [found @ Entity::Multicast { group, .. }] = &found[..] else { panic!("{found:?}") };
        let Entity::Multicast { group: written, .. } = device.as_written(found.clone()) else {
            panic!("{found:?}")
        };
        (group.prune_ingress, written.prune_ingress)
    };
    assert_eq!(is_pruned(), (true, true));
    for is_up in [false, true] {
        device.link(PortNumber(3), is_up);
        assert_eq!(is_pruned(), (true, true), "{is_up}");
    }
}

#[test]
fn a_group_keeps_the_max_size_that_it_was_inserted_with_in_the_same_request() {
    let sized = |device: &Device, kind: Type, id: u32, max_size: i32| {
        let mut update = group(device, kind, id, &[]);
        if let Some(Message::ActionProfileGroup(group)) =
            update.entity.as_mut().and_then(|entity| entity.entity.as_mut())
        {
            group.max_size = max_size;
        }
        update
    };
    for mode in [Mode::Atomic, Mode::Continue] {
        let (_core, device) = device();
        let batch = [sized(&device, Type::Insert, 7, 0), sized(&device, Type::Modify, 7, 5)];
        let results = write_all(&device, &batch, mode);
        assert!(
            matches!(results[1], Err(ControlError::InvalidArgument(_))),
            "{mode:?}: {results:?}"
        );
    }
    // What was refused of an earlier update does not count.
    let (_core, device) = device();
    assert!(write_all(&device, &[sized(&device, Type::Insert, 7, 0)], Mode::Atomic).is_empty());
    let batch = [sized(&device, Type::Insert, 7, 7), sized(&device, Type::Modify, 7, 0)];
    let results = write_all(&device, &batch, Mode::Continue);
    assert!(matches!(results[..], [Err(ControlError::EntryExists(_)), Ok(())]), "{results:?}");
}

/// An entry with an action set that the device removed leaves nothing that follows links.
#[test]
fn what_follows_links_goes_with_an_idle_entry() {
    let (_core, device) = device();
    let shot = super::tests::shot(&device, Type::Insert, &[2, 3]);
    assert!(write_all(&device, &[shot], Mode::Atomic).is_empty());
    let schema = Arc::clone(&device.pipeline().schema);
    let table = device.control.table("spread").unwrap();
    let key = EntryKey { table, matches: vec![wireyard_tables::Match::Exact(1)], priority: 0 };
    let watched = || device.watch().has(|_| true);
    let found = device.control.read(&Query::Entry(key)).unwrap().remove(0);
    let Entity::TableEntry(entry) = found.clone() else { panic!("{found:?}") };
    let Target::Group(id) = entry.target else { panic!("{entry:?}") };
    let own = vec![Update::Delete(Entity::Group { table, id, members: Vec::new() })];
    // It is there: a controller inserted it again.
    device.removed_when_idle(&schema, entry.clone(), own.clone());
    assert!(watched());
    device.control.write(&[Update::Delete(found)], Mode::Atomic).unwrap();
    device.removed_when_idle(&schema, entry, own);
    assert!(!watched());
}
