//! What entries of P4Runtime have beside a key and an action, and what the standard refuses of them (specification, section 9).
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::{Duration, SystemTime};

use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::p4client::{Controller, codes, insert, update};

use crate::p4runtime::{Rig, rig};
use crate::rig::private_network;
use p4::entity::Entity as Message;
use p4::field_match::{Exact, FieldMatchType};
use p4::packet_replication_engine_entry::Type as Replication;
use p4::replica::PortKind;
use p4::set_forwarding_pipeline_config_request::Action;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;
use p4::table_action::Type as Does;
use p4::update::Type::{Insert, Modify};

const PROGRAM: &str = "tests/data/p4runtime/entries.p4";
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

fn entry(
    controller: &Controller,
    table: &str,
    key: &[u8],
    action: Option<p4::Action>,
) -> p4::TableEntry {
    let found = FieldMatchType::Exact(Exact { value: key.to_vec() });
    p4::TableEntry {
        table_id: controller.id(table),
        r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: Some(found) }],
        action: action.map(|action| p4::TableAction { r#type: Some(Does::Action(action)) }),
        ..Default::default()
    }
}

fn start() -> (Rig, Controller) {
    let rig = rig(PROGRAM, &[]);
    let controller = rig.primary();
    (rig, controller)
}

fn forward(controller: &Controller) -> Option<p4::Action> {
    let param = p4::action::Param { param_id: 1, value: vec![2] };
    Some(p4::Action { action_id: controller.id("Entries.forward"), params: vec![param] })
}

fn rates() -> Option<p4::MeterConfig> {
    Some(p4::MeterConfig { cir: 10, cburst: 20, pir: 30, pburst: 40, eburst: 0 })
}

fn packets(packet_count: i64) -> Option<p4::CounterData> {
    Some(p4::CounterData { packet_count, byte_count: 0 })
}

/// An entry with its counter and its rates.
fn read(controller: &mut Controller, key: &p4::TableEntry) -> p4::TableEntry {
    let wanted = p4::TableEntry {
        counter_data: packets(0),
        meter_config: rates(),
        action: None,
        idle_timeout_ns: 0,
        ..key.clone()
    };
    let found = controller.read(vec![Message::TableEntry(wanted)]).unwrap();
    let [Message::TableEntry(found)] = found.as_slice() else { panic!("{found:?}") };
    found.clone()
}

#[test]
fn a_modified_entry_keeps_the_action_and_loses_the_rates_that_it_is_not_given() {
    let Some(_network) = private_network("P4Runtime: modified entries") else { return };
    let (rig, mut controller) = start();
    let whole = p4::TableEntry {
        meter_config: rates(),
        ..entry(&controller, "Entries.aged", &A, forward(&controller))
    };
    let modify = |entry: p4::TableEntry| vec![update(Modify, Message::TableEntry(entry))];
    let bare = entry(&controller, "Entries.aged", &A, None);
    let missing = controller.write(modify(bare.clone())).unwrap_err();
    assert_eq!(codes(&missing), [Code::NotFound]);
    controller.write(vec![insert(Message::TableEntry(whole.clone()))]).unwrap();
    assert_eq!(read(&mut controller, &whole).meter_config, rates());
    let counted =
        p4::TableEntry { counter_data: packets(7), meter_config: rates(), ..bare.clone() };
    controller.write(modify(counted)).unwrap();
    let found = read(&mut controller, &whole);
    assert_eq!((found.action, found.counter_data), (whole.action.clone(), packets(7)));
    assert_eq!(found.meter_config, rates());
    // Rates that are not given are those of a new entry.
    controller.write(modify(p4::TableEntry { meter_config: None, ..whole.clone() })).unwrap();
    assert_eq!(read(&mut controller, &whole).meter_config, None);
    // Of a constant entry the counter may be written, and nothing else.
    let constant = entry(&controller, "Entries.constant", &[0x12, 0x34], None);
    controller
        .write(modify(p4::TableEntry { counter_data: packets(9), ..constant.clone() }))
        .unwrap();
    assert_eq!(read(&mut controller, &constant).counter_data, packets(9));
    let seen = p4::Action { action_id: controller.id("Entries.seen"), params: Vec::new() };
    let changed = entry(&controller, "Entries.constant", &[0x12, 0x34], Some(seen));
    assert_eq!(codes(&controller.write(modify(changed)).unwrap_err()), [Code::PermissionDenied]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn an_idle_entry_of_a_p4_program_is_told_with_the_time_of_day() {
    let Some(_network) = private_network("P4Runtime: idle entries of P4") else { return };
    let (rig, mut controller) = start();
    let aged = p4::TableEntry {
        idle_timeout_ns: 100_000_000,
        ..entry(&controller, "Entries.aged", &A, forward(&controller))
    };
    controller.write(vec![insert(Message::TableEntry(aged))]).unwrap();
    let message = controller.next_message();
    let Ok(FromDevice::IdleTimeoutNotification(idle)) = message else { panic!("{message:?}") };
    assert_eq!(idle.table_entry[0].table_id, controller.id("Entries.aged"));
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let told = Duration::from_nanos(idle.timestamp.try_into().unwrap());
    assert!(day.abs_diff(told) < Duration::from_secs(60), "{told:?} of {day:?}");
    rig.switch.end("TERM").expect(0, &[]);
}

fn replica(port: &[u8], instance: u32, backup_replicas: &[(&[u8], u32)]) -> p4::Replica {
    let backup = |(port, instance): &(&[u8], u32)| p4::BackupReplica {
        port: port.to_vec(),
        instance: *instance,
    };
    p4::Replica {
        port_kind: Some(PortKind::Port(port.to_vec())),
        instance,
        backup_replicas: backup_replicas.iter().map(backup).collect(),
    }
}

fn replicated(kind: Replication) -> Message {
    Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn group(multicast_group_id: u32, replicas: Vec<p4::Replica>) -> Message {
    let group = p4::MulticastGroupEntry { multicast_group_id, replicas, metadata: Vec::new() };
    replicated(Replication::MulticastGroupEntry(group))
}

fn session(session_id: u32, replicas: Vec<p4::Replica>) -> Message {
    let session =
        p4::CloneSessionEntry { session_id, replicas, class_of_service: 0, packet_length_bytes: 0 };
    replicated(Replication::CloneSessionEntry(session))
}

#[test]
fn what_the_standard_refuses_of_entries_groups_and_sessions_is_refused() {
    let Some(_network) = private_network("P4Runtime: refused entries") else { return };
    let (rig, mut controller) = start();
    let good = entry(&controller, "Entries.aged", &A, forward(&controller));
    let nothing = p4::Action { action_id: controller.id("Entries.nothing"), params: Vec::new() };
    let keyless = p4::TableEntry {
        r#match: Vec::new(),
        ..entry(&controller, "Entries.keyless", &[], Some(nothing.clone()))
    };
    let since = Some(p4::table_entry::IdleTimeout { elapsed_ns: 1 });
    let two = [2_u8];
    let cases = [
        ("an entry of a table without a key", Message::TableEntry(keyless)),
        (
            "time_since_last_hit",
            Message::TableEntry(p4::TableEntry { time_since_last_hit: since, ..good.clone() }),
        ),
        (
            "an action of another table",
            Message::TableEntry(entry(&controller, "Entries.aged", &A, Some(nothing))),
        ),
        ("group 0", group(0, vec![replica(&two, 1, &[])])),
        ("session 0", session(0, vec![replica(&two, 1, &[])])),
        ("instance 65536", group(1, vec![replica(&two, 65_536, &[])])),
        ("a backup by the same port", group(1, vec![replica(&two, 1, &[(&two, 2)])])),
        (
            "a backup that is another replica",
            group(1, vec![replica(&two, 1, &[(&[1], 5)]), replica(&[1], 5, &[])]),
        ),
    ];
    for (what, message) in cases {
        let failed = controller.write(vec![update(Insert, message)]);
        let found = failed.as_ref().err().map(|status| codes(status)[0]);
        assert_eq!(found, Some(Code::InvalidArgument), "{what}");
    }
    // The port of the control plane has a number of the standard, which is read back.
    let to_cpu = session(5, vec![replica(&[0xff, 0xff, 0xff, 0xfd], 1, &[])]);
    controller.write(vec![insert(to_cpu.clone())]).unwrap();
    assert_eq!(controller.read(vec![session(5, Vec::new())]).unwrap(), [to_cpu]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn streams_refuse_what_is_not_there_and_a_refused_commit_loses_nothing() {
    let Some(_network) = private_network("P4Runtime: refused messages") else { return };
    let (rig, mut controller) = start();
    let long = p4::PacketOut { payload: vec![0; 20_000], metadata: Vec::new() };
    let ack = p4::DigestListAck { digest_id: 0x1234, list_id: 1 };
    for message in [ToDevice::Packet(long), ToDevice::DigestAck(ack)] {
        controller.send(message);
        let found = controller.next_message();
        let Ok(FromDevice::Error(error)) = found else { panic!("{found:?}") };
        assert_eq!(Code::from(error.canonical_code), Code::InvalidArgument, "{}", error.message);
    }
    // Modified without data a counter stays as it is; inserted it is refused, as beyond its end.
    let counter = |index, data| {
        let counter_id = controller.id("Entries.all");
        Message::CounterEntry(p4::CounterEntry {
            counter_id,
            index: Some(p4::Index { index }),
            data,
        })
    };
    let batch = vec![
        update(Modify, counter(1, packets(5))),
        update(Modify, counter(1, None)),
        update(Modify, counter(4, None)),
        insert(counter(1, None)),
    ];
    let wanted = counter(1, None);
    let kept = counter(1, packets(5));
    let found = codes(&controller.write(batch).unwrap_err());
    assert_eq!(found, [Code::Ok, Code::Ok, Code::OutOfRange, Code::InvalidArgument]);
    assert_eq!(controller.read(vec![wanted]).unwrap(), [kept]);
    let config = controller.pipeline();
    controller.push(Action::VerifyAndSave, Some(config.clone())).unwrap();
    let refused = controller.push(Action::Commit, Some(config)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    controller.push(Action::Commit, None).unwrap();
    rig.switch.end("TERM").expect(0, &[]);
}

/// An action set of these weights.
fn action_set(controller: &Controller, table: &str, key: u8, weights: &[i32]) -> Message {
    let param = p4::action::Param { param_id: 1, value: vec![2] };
    let leave = p4::Action { action_id: controller.id("Entries.leave"), params: vec![param] };
    let one = |weight: &i32| p4::ActionProfileAction {
        action: Some(leave.clone()),
        weight: *weight,
        watch_kind: None,
    };
    let set = p4::ActionProfileActionSet {
        action_profile_actions: weights.iter().map(one).collect(),
        ..Default::default()
    };
    let mut entry = entry(controller, table, &[2, 0, 0, 0, 0, key], None);
    entry.action = Some(p4::TableAction { r#type: Some(Does::ActionProfileActionSet(set)) });
    Message::TableEntry(entry)
}

fn member(controller: &Controller, profile: &str, member_id: u32) -> Message {
    let param = p4::action::Param { param_id: 1, value: vec![2] };
    let leave = p4::Action { action_id: controller.id("Entries.leave"), params: vec![param] };
    let action_profile_id = controller.id(profile);
    Message::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id,
        member_id,
        action: Some(leave),
    })
}

/// A group of members with weights.
pub(crate) fn choice(
    controller: &Controller,
    profile: &str,
    members: &[(u32, i32)],
    max_size: i32,
) -> Message {
    let one = |(member_id, weight): &(u32, i32)| p4::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    };
    Message::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: controller.id(profile),
        group_id: 1,
        members: members.iter().map(one).collect(),
        max_size,
    })
}

#[test]
fn groups_are_bounded_and_a_profile_has_members_or_action_sets() {
    let Some(_network) = private_network("P4Runtime: bounds of groups") else { return };
    // One is asked for ids, the other one writes.
    let (rig, one) = start();
    let mut controller = Controller::connect(&rig.address, 7).unwrap().0;
    let mut status = |message: Message| {
        controller.write(vec![insert(message)]).err().map_or(Code::Ok, |status| codes(&status)[0])
    };
    // Weights together: three at most. Action sets, so no members.
    for (weights, expected) in
        [(&[1, 2][..], Code::Ok), (&[2, 2], Code::InvalidArgument), (&[0], Code::InvalidArgument)]
    {
        let key = weights.len() as u8;
        let found = status(action_set(&one, "Entries.chosen", key, weights));
        assert_eq!(found, expected, "{weights:?}");
    }
    assert_eq!(status(member(&one, "Entries.ways", 1)), Code::InvalidArgument);
    // Members: two at most, of weight 10 each. Members, so no action sets.
    for id in 1..=3 {
        assert_eq!(status(member(&one, "Entries.heavy", id)), Code::Ok);
    }
    for (members, max_size, expected) in [
        (&[(1, 1), (2, 1), (3, 1)][..], 0, Code::ResourceExhausted),
        (&[(1, 11)], 0, Code::InvalidArgument),
        (&[(1, 1)], 3, Code::InvalidArgument),
        (&[(1, 1), (2, 1)], 1, Code::InvalidArgument),
        (&[(1, 10), (2, 10)], 2, Code::Ok),
    ] {
        let found = status(choice(&one, "Entries.heavy", members, max_size));
        assert_eq!(found, expected, "{members:?} {max_size}");
    }
    assert_eq!(status(action_set(&one, "Entries.weighed", 1, &[1])), Code::InvalidArgument);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_read_gives_the_entries_of_an_action_and_of_metadata_and_defaults_have_theirs() {
    let Some(_network) = private_network("P4Runtime: filtered reads") else { return };
    let (rig, mut controller) = start();
    let mut first = entry(&controller, "Entries.aged", &A, forward(&controller));
    first.metadata = b"mine".to_vec();
    let none = p4::Action { action_id: controller.id("NoAction"), params: Vec::new() };
    let other = [2, 0, 0, 0, 0, 0xb];
    let second = entry(&controller, "Entries.aged", &other, Some(none.clone()));
    let both = [&first, &second].map(|one| insert(Message::TableEntry(one.clone())));
    controller.write(both.to_vec()).unwrap();
    let all = p4::TableEntry { table_id: first.table_id, ..Default::default() };
    let does = |action: p4::Action| Some(p4::TableAction { r#type: Some(Does::Action(action)) });
    let by_action = p4::TableEntry { action: does(none.clone()), ..all.clone() };
    let by_metadata = p4::TableEntry { metadata: b"mine".to_vec(), ..all.clone() };
    let nobodys = p4::TableEntry { metadata: b"yours".to_vec(), ..all.clone() };
    for (wanted, expected) in [
        (by_action, vec![second.clone()]),
        (by_metadata, vec![first.clone()]),
        (nobodys, Vec::new()),
        (all.clone(), vec![first, second]),
    ] {
        let expected: Vec<Message> = expected.into_iter().map(Message::TableEntry).collect();
        assert_eq!(controller.read(vec![Message::TableEntry(wanted)]).unwrap(), expected);
    }
    // The default entry.
    let default = p4::TableEntry { is_default_action: true, ..all };
    let written =
        p4::TableEntry { action: does(none), metadata: b"default".to_vec(), ..default.clone() };
    controller.write(vec![update(Modify, Message::TableEntry(written.clone()))]).unwrap();
    let read = controller.read(vec![Message::TableEntry(default.clone())]).unwrap();
    assert_eq!(read, [Message::TableEntry(written)]);
    controller.write(vec![update(Modify, Message::TableEntry(default.clone()))]).unwrap();
    let read = controller.read(vec![Message::TableEntry(default)]).unwrap();
    assert!(matches!(&read[..], [Message::TableEntry(one)] if one.metadata.is_empty()), "{read:?}");
    rig.switch.end("TERM").expect(0, &[]);
}
