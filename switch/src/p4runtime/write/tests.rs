//! Action sets in batches: the objects of an entry are deleted with it, whichever update of the batch created it. Groups
//! while links are down.

use std::sync::Arc;

use wireyard_pipeline::ir::ActionCall;
use wireyard_tables::selector::FIRST_OWNED_ID;

use super::*;
use crate::control::{Entity, EntryKey, Query, TableEntry, Target};
use crate::core::Core;
use crate::p4runtime::persist::Begun;
use crate::p4runtime::translate::entry;
use crate::ports::PortNumber;
use crate::program::started;
use crate::replicate::{Group, Member, Members};

pub(super) const PROGRAM: &str = "
pipeline: sets
include: [ethernet]
parser:
  start: { extract: ethernet, next: accept }
tables:
  spread:
    key: { std.ingress_port: exact, ethernet.src: selector }
    actions: [out, nop]
    default: nop
    size: 4
    selector: { hash: crc16, members: 8, groups: 4 }
  aging:
    key: { ethernet.dst: exact }
    actions: [nop]
    default: nop
    size: 4
    idle_timeout_ms: 1000
actions:
  out: { params: { to: port }, do: [ std.egress_port = to ] }
ingress:
  - apply: spread
  - apply: aging
deparser: { emit: [ethernet] }
";

/// The core is returned so that the device stays alive.
pub(super) fn device() -> (Core, Device) {
    let (loaded, core, control) = started("sets.yaml", PROGRAM);
    let device = Device::new(1, control, &loaded.parsed, Begun::default());
    (core, device)
}

/// An update of the entry of ingress port 1, with an action set whose actions watch these ports.
pub(super) fn shot(device: &Device, kind: Type, watched: &[u16]) -> p4::Update {
    let schema = Arc::clone(&device.pipeline().schema);
    let table = device.control.table("spread").unwrap();
    let matches = vec![wireyard_tables::Match::Exact(1)];
    let mut message = entry::key_message(&schema, &EntryKey { table, matches, priority: 0 });
    let action_id = schema.info.actions.iter().find(|action| {
        action.preamble.as_ref().is_some_and(|preamble| preamble.name.ends_with("out"))
    });
    let action_id = action_id.and_then(|action| action.preamble.as_ref()).unwrap().id;
    let param = p4::action::Param { param_id: 1, value: vec![2] };
    let out = p4::Action { action_id, params: vec![param] };
    let one = |port: &u16| p4::ActionProfileAction {
        action: Some(out.clone()),
        weight: 1,
        watch_kind: Some(p4::action_profile_action::WatchKind::WatchPort(vec![*port as u8])),
    };
    let set = p4::ActionProfileActionSet {
        action_profile_actions: watched.iter().map(one).collect(),
        ..Default::default()
    };
    let does = p4::table_action::Type::ActionProfileActionSet(set);
    message.action = Some(p4::TableAction { r#type: Some(does) });
    let entity = Some(p4::Entity { entity: Some(Message::TableEntry(message)) });
    p4::Update { r#type: kind as i32, entity }
}

/// Numbers of members and groups in the device.
fn made(device: &Device) -> (usize, usize) {
    let count = |query: Query| device.control.read(&query).unwrap().len();
    let members = count(Query::Members { table: None, id: None });
    (members, count(Query::Groups { table: None, id: None }))
}

pub(super) fn write_all(device: &Device, updates: &[p4::Update], mode: Mode) -> Vec<Result<()>> {
    let schema = Arc::clone(&device.pipeline().schema);
    let (ticket, done) = write(device, &schema, updates, mode);
    ticket.wait().unwrap();
    done.err().unwrap_or_default()
}

#[test]
fn an_action_set_goes_when_a_later_update_of_its_batch_replaces_or_deletes_it() {
    // With and without a member that is not in its group because the watched link is down.
    for (mode, down) in [
        (Mode::Atomic, false),
        (Mode::Atomic, true),
        (Mode::Continue, false),
        (Mode::Continue, true),
    ] {
        let (_core, device) = device();
        if down {
            device.link(PortNumber(3), false);
        }
        let shot = |kind, watched: &[u16]| shot(&device, kind, watched);
        let replaced = [shot(Type::Insert, &[2, 3]), shot(Type::Modify, &[2, 3, 3])];
        assert!(write_all(&device, &replaced, mode).is_empty());
        assert_eq!(made(&device), (3, 1), "{mode:?}");
        let again = [shot(Type::Delete, &[]), shot(Type::Insert, &[3]), shot(Type::Delete, &[])];
        assert!(write_all(&device, &again, mode).is_empty());
        assert_eq!(made(&device), (0, 0), "{mode:?}");
    }
}

#[test]
fn numbers_of_action_sets_begin_anew_behind_the_last_one() {
    let (_core, device) = device();
    let table = device.control.table("spread").unwrap();
    let action = ActionCall { action: Id::new(0), args: Vec::new() };
    let (group, member) = (u32::MAX - 2, u32::MAX - 1);
    let members = vec![wireyard_tables::GroupMember { member, weight: 1 }];
    let matches = vec![wireyard_tables::Match::Exact(2)];
    let mut entry = TableEntry::new(table, matches, action.clone());
    entry.target = Target::Group(group);
    let last = [
        Entity::Member { table, id: member, action },
        Entity::Group { table, id: group, members },
        Entity::TableEntry(entry),
    ];
    device.control.write(&last.map(Update::Insert), Mode::Atomic).unwrap();
    let insert = shot(&device, Type::Insert, &[2, 3]);
    assert!(write_all(&device, &[insert], Mode::Atomic).is_empty());
    let groups = device.control.read(&Query::Groups { table: Some(table), id: None }).unwrap();
    let ids = groups.iter().map(|group| match group {
        Entity::Group { id, .. } => *id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [FIRST_OWNED_ID, group]);
}

#[test]
fn a_refused_update_leaves_the_action_set_that_the_entry_has() {
    let (_core, device) = device();
    let shot = |kind, watched: &[u16]| shot(&device, kind, watched);
    let updates = [
        shot(Type::Insert, &[2, 3]),
        // More members than the profile allows.
        shot(Type::Modify, &[2; 7]),
        shot(Type::Delete, &[]),
    ];
    let results = write_all(&device, &updates, Mode::Continue);
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(made(&device), (0, 0));
}

#[test]
fn a_group_that_somebody_else_wrote_follows_no_link_and_its_metadata_go_with_it() {
    let (_core, device) = device();
    let device = Arc::new(device);
    device.follow_writes();
    let of_port = |port: u8| Some(p4::replica::PortKind::Port(vec![port]));
    let backup = p4::BackupReplica { port: vec![3], instance: 0 };
    let replica = p4::Replica { port_kind: of_port(2), instance: 0, backup_replicas: vec![backup] };
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 5,
        replicas: vec![replica],
        metadata: b"mine".to_vec(),
    };
    let of_group = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(of_group) };
    let entity = Some(p4::Entity { entity: Some(Message::PacketReplicationEngineEntry(entry)) });
    let insert = p4::Update { r#type: Type::Insert as i32, entity };
    assert!(write_all(&device, &[insert], Mode::Atomic).is_empty());
    let members = Members::List(vec![Member { port: PortNumber(4), instance: 0 }]);
    let group = Group { members, prune_ingress: false };
    let theirs = Entity::Multicast { id: 5, group };
    device.control.write(&[Update::Modify(theirs.clone())], Mode::Atomic).unwrap();
    device.link(PortNumber(2), false);
    let query = Query::Multicast { id: Some(5) };
    assert_eq!(device.control.read(&query).unwrap(), std::slice::from_ref(&theirs));
    assert!(!device.kept().is_empty());
    device.control.write(&[Update::Delete(theirs)], Mode::Atomic).unwrap();
    assert!(device.kept().is_empty());
}
