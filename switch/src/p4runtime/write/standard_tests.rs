//! What the P4Runtime specification says of single fields of updates, and of reading them back.

use std::sync::Arc;

use super::tests::{device, shot, write_all};
use super::*;
use crate::p4runtime::read;
use crate::p4runtime::room::Room;
use p4::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4::packet_replication_engine_entry::Type as Replication;
use p4::replica::PortKind;
use p4::table_action::Type as Does;

fn update(kind: Type, message: Message) -> p4::Update {
    p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity: Some(message) }) }
}

/// The code of the result of a single update.
fn refused(device: &Device, update: p4::Update) -> Option<ControlError> {
    write_all(device, &[update], Mode::Continue).pop().and_then(Result::err)
}

fn read_all(device: &Device, wanted: Message) -> std::result::Result<Vec<Message>, ControlError> {
    let schema = Arc::clone(&device.pipeline().schema);
    let share = Room::new(1 << 20).share();
    let (answers, done) =
        read::read(device, &schema, &[p4::Entity { entity: Some(wanted) }], &share);
    match done {
        Ok(()) => {
            let entities = answers.into_iter().flat_map(|answer| answer.entities);
            Ok(entities.filter_map(|entity| entity.entity).collect())
        }
        Err(mut results) => Err(results.remove(0).unwrap_err()),
    }
}

fn table_id(device: &Device, name: &str) -> u32 {
    let table = device.control.table(name).unwrap();
    device.pipeline().schema.ids.tables[wireyard_pipeline::ids::Id::index(table)]
}

fn with_settings(device: &Device, mode: i32, size: i32) -> p4::Update {
    let mut update = shot(device, Type::Insert, &[2]);
    if let Some(Message::TableEntry(entry)) = update.entity.as_mut().and_then(|e| e.entity.as_mut())
        && let Some(Does::ActionProfileActionSet(set)) =
            entry.action.as_mut().and_then(|action| action.r#type.as_mut())
    {
        (set.action_selection_mode, set.size_semantics) = (mode, size);
    }
    update
}

#[test]
fn an_action_set_is_chosen_and_bounded_as_its_profile_and_read_back_as_written() {
    let (random, hash) = (ActionSelectionMode::Random as i32, ActionSelectionMode::Hash as i32);
    let members = SizeSemantics::SumOfMembers as i32;
    let weights = SizeSemantics::SumOfWeights as i32;
    let (_core, device) = device();
    for (mode, size, is_known) in
        [(random, 0, true), (0, members, true), (9, 0, false), (0, 9, false), (-1, 0, false)]
    {
        let found = refused(&device, with_settings(&device, mode, size));
        match is_known {
            true => assert!(matches!(found, Some(ControlError::Unimplemented(_))), "{found:?}"),
            false => assert!(matches!(found, Some(ControlError::InvalidArgument(_))), "{found:?}"),
        }
    }
    let spread = p4::TableEntry { table_id: table_id(&device, "spread"), ..Default::default() };
    let spread = Message::TableEntry(spread);
    assert_eq!(read_all(&device, spread.clone()), Ok(Vec::new()));
    for (mode, size) in [(0, 0), (hash, weights), (0, weights), (hash, 0)] {
        let insert = with_settings(&device, mode, size);
        let written = insert.entity.clone().unwrap().entity.unwrap();
        assert_eq!(refused(&device, insert), None);
        assert_eq!(read_all(&device, spread.clone()), Ok(vec![written]), "{mode} {size}");
        assert_eq!(refused(&device, shot(&device, Type::Delete, &[])), None);
    }
}

fn copies(kind: Type, replicas: Vec<p4::Replica>) -> p4::Update {
    let group = p4::MulticastGroupEntry { multicast_group_id: 5, replicas, metadata: Vec::new() };
    let of_group = Some(Replication::MulticastGroupEntry(group));
    let entry = p4::PacketReplicationEngineEntry { r#type: of_group };
    update(kind, Message::PacketReplicationEngineEntry(entry))
}

fn replica(port: &[u8], backup: Option<&[u8]>) -> p4::Replica {
    let backup = backup.map(|port| p4::BackupReplica { port: port.to_vec(), instance: 0 });
    p4::Replica {
        port_kind: Some(PortKind::Port(port.to_vec())),
        instance: 0,
        backup_replicas: backup.into_iter().collect(),
    }
}

#[test]
fn ports_of_replicas_are_read_in_their_shortest_form() {
    let (_core, device) = device();
    let long = vec![replica(&[0, 2], None), replica(&[0, 1], Some(&[0, 3]))];
    let short = vec![replica(&[2], None), replica(&[1], Some(&[3]))];
    assert_eq!(refused(&device, copies(Type::Insert, long)), None);
    let all = Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry::default());
    let expected = copies(Type::Insert, short).entity.unwrap().entity.unwrap();
    assert_eq!(read_all(&device, all), Ok(vec![expected]));
}

#[test]
fn a_deletion_reads_the_name_only() {
    let (_core, device) = device();
    let session = |kind, class_of_service, packet_length_bytes| {
        let replicas = vec![replica(&[2], None)];
        let session = p4::CloneSessionEntry {
            session_id: 7,
            replicas,
            class_of_service,
            packet_length_bytes,
        };
        let of_session = Some(Replication::CloneSessionEntry(session));
        let entry = p4::PacketReplicationEngineEntry { r#type: of_session };
        update(kind, Message::PacketReplicationEngineEntry(entry))
    };
    let profile = {
        let table = device.control.table("spread").unwrap();
        device.pipeline().schema.ids.profiles[wireyard_pipeline::ids::Id::index(table)]
    };
    let group = |kind, watched: &[u8]| {
        let member = p4::action_profile_group::Member {
            watch_kind: Some(p4::action_profile_group::member::WatchKind::WatchPort(
                watched.to_vec(),
            )),
            ..Default::default()
        };
        let members = if kind == Type::Delete { vec![member] } else { Vec::new() };
        let group = p4::ActionProfileGroup {
            action_profile_id: profile,
            group_id: 1,
            members,
            max_size: 0,
        };
        update(kind, Message::ActionProfileGroup(group))
    };
    let inserts = [
        session(Type::Insert, 0, 0),
        copies(Type::Insert, vec![replica(&[2], None)]),
        group(Type::Insert, &[]),
    ];
    assert_eq!(write_all(&device, &inserts, Mode::Atomic), []);
    let deletions = [
        session(Type::Delete, 99, -1),
        copies(Type::Delete, vec![replica(&[], Some(&[])), replica(&[2], Some(&[2]))]),
        group(Type::Delete, &[1, 1, 1]),
    ];
    assert_eq!(write_all(&device, &deletions, Mode::Continue), []);
}

#[test]
fn a_group_larger_than_the_switch_holds_finds_no_room() {
    let (_core, device) = device();
    let pipeline = device.pipeline();
    let mut schema = Schema::of(Arc::clone(&pipeline.schema.program));
    schema.info.action_profiles[0].max_group_size = 0;
    let table = device.control.table("spread").unwrap();
    assert_eq!(schema.check_group(table, &[1], 4096), Ok(()));
    let found = schema.check_group(table, &[1], 100_000);
    assert!(matches!(found, Err(ControlError::ResourceExhausted(_))), "{found:?}");
}

#[test]
fn a_default_entry_has_no_match_and_no_time_and_is_reset_with_its_metadata() {
    let (_core, device) = device();
    let plain = p4::TableEntry {
        table_id: table_id(&device, "aging"),
        is_default_action: true,
        ..Default::default()
    };
    let of = |entry: p4::TableEntry| Message::TableEntry(entry);
    let since = Some(p4::table_entry::IdleTimeout::default());
    for wrong in [
        p4::TableEntry { priority: 3, ..plain.clone() },
        p4::TableEntry { r#match: vec![p4::FieldMatch::default()], ..plain.clone() },
        p4::TableEntry { time_since_last_hit: since, ..plain.clone() },
    ] {
        let found = read_all(&device, of(wrong));
        assert!(matches!(found, Err(ControlError::InvalidArgument(_))), "{found:?}");
    }
    let reset = p4::TableEntry { metadata: b"mine".to_vec(), ..plain.clone() };
    assert_eq!(refused(&device, update(Type::Modify, of(reset))), None);
    let found = read_all(&device, of(plain.clone())).unwrap();
    assert!(matches!(&found[..], [Message::TableEntry(one)] if one.metadata.is_empty()));
    let empty = p4::TableEntry { action: Some(p4::TableAction { r#type: None }), ..plain };
    let found = refused(&device, update(Type::Modify, of(empty)));
    assert!(matches!(found, Some(ControlError::InvalidArgument(_))), "{found:?}");
}

#[test]
fn counters_and_meters_of_a_table_without_them_are_not_read() {
    let (_core, device) = device();
    let named = Some(p4::TableEntry { table_id: table_id(&device, "aging"), ..Default::default() });
    let counter = p4::DirectCounterEntry { table_entry: named.clone(), data: None };
    let meter = p4::DirectMeterEntry { table_entry: named, ..Default::default() };
    for wanted in [Message::DirectCounterEntry(counter), Message::DirectMeterEntry(meter)] {
        let found = read_all(&device, wanted);
        assert!(matches!(found, Err(ControlError::InvalidArgument(_))), "{found:?}");
    }
    let of_all = Message::DirectCounterEntry(p4::DirectCounterEntry::default());
    assert_eq!(read_all(&device, of_all), Ok(Vec::new()));
}

#[test]
fn a_refused_member_is_named_by_its_number() {
    let (_core, device) = device();
    let table = device.control.table("spread").unwrap();
    let missing = Update::Delete(Entity::Group { table, id: 3, members: Vec::new() });
    for mode in [Mode::Atomic, Mode::Continue] {
        let error = device.control.write(std::slice::from_ref(&missing), mode).unwrap_err();
        let text = error.results[0].clone().unwrap_err().to_string();
        assert!(text.starts_with("group 3 of table spread: not found"), "{text}");
    }
}
