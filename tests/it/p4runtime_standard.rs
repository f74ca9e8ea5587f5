//! What the P4Runtime specification says of groups, action sets, const entries and saved configurations, as a controller meets it.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::p4client::{Controller, codes, insert, update};
use wireyard_tests::workspace_root;

use crate::p4runtime::{Rig, frame, rig};
use crate::p4runtime_entries::choice;
use crate::rig::private_network;
use p4::entity::Entity as Message;
use p4::field_match::{Exact, FieldMatchType, Ternary};
use p4::set_forwarding_pipeline_config_request::Action;
use p4::table_action::Type as Does;
use p4::update::Type::{Delete, Insert, Modify};
use p4::write_request::Atomicity::DataplaneAtomic;

const PROGRAM: &str = "tests/data/p4runtime/entries.p4";
const EMPTY_GROUP: &str = "tests/data/p4runtime/empty_group.p4";
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

fn start(program: &str) -> (Rig, Controller) {
    let rig = rig(program, &[]);
    let controller = rig.primary();
    (rig, controller)
}

fn leave(controller: &Controller, action: &str, port: u8) -> p4::Action {
    let param = p4::action::Param { param_id: 1, value: vec![port] };
    p4::Action { action_id: controller.id(action), params: vec![param] }
}

/// An entry of a table with one exact key.
fn entry(controller: &Controller, table: &str, does: Option<Does>) -> p4::TableEntry {
    let found = FieldMatchType::Exact(Exact { value: A.to_vec() });
    p4::TableEntry {
        table_id: controller.id(table),
        r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: Some(found) }],
        action: does.map(|does| p4::TableAction { r#type: Some(does) }),
        ..Default::default()
    }
}

/// An entry with a set of two actions, and a port that one of them watches.
fn action_set(controller: &Controller, watch: &[u8]) -> Message {
    use p4::action_profile_action::WatchKind;
    let one = |watch: Option<&[u8]>| p4::ActionProfileAction {
        action: Some(leave(controller, "Entries.leave", 2)),
        weight: 1,
        watch_kind: watch.map(|port| WatchKind::WatchPort(port.to_vec())),
    };
    let set = p4::ActionProfileActionSet {
        action_profile_actions: vec![one(None), one(Some(watch))],
        ..Default::default()
    };
    let does = Does::ActionProfileActionSet(set);
    Message::TableEntry(entry(controller, "Entries.chosen", Some(does)))
}

fn member(controller: &Controller, profile: &str, action: &str) -> Message {
    Message::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id: controller.id(profile),
        member_id: 1,
        action: Some(leave(controller, action, 2)),
    })
}

fn group(controller: &Controller, profile: &str, members: &[u32], max_size: i32) -> Message {
    let members: Vec<(u32, i32)> = members.iter().map(|id| (*id, 1)).collect();
    choice(controller, profile, &members, max_size)
}

/// An entry of the table with const ones.
fn mixed(controller: &Controller, value: [u8; 2], mask: [u8; 2], priority: i32) -> p4::TableEntry {
    let ternary = Ternary { value: value.to_vec(), mask: mask.to_vec() };
    let found = Some(FieldMatchType::Ternary(ternary));
    p4::TableEntry {
        table_id: controller.id("Entries.mixed"),
        r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: found }],
        priority,
        action: None,
        ..Default::default()
    }
}

fn done(controller: &mut Controller, updates: Vec<p4::Update>) -> Vec<Code> {
    controller.write(updates).err().map_or(Vec::new(), |status| codes(&status))
}

#[test]
fn an_action_set_goes_with_its_entry_whoever_deletes_it() {
    let Some(_network) = private_network("action sets and commands") else { return };
    let (rig, mut controller) = start(PROGRAM);
    let key = "hdr.ethernet.dst=02:00:00:00:00:0a";
    for watch in [&[][..], &[9]] {
        let set = action_set(&controller, watch);
        assert_eq!(done(&mut controller, vec![insert(set)]), []);
        let plain = member(&controller, "Entries.ways", "Entries.leave");
        assert_eq!(done(&mut controller, vec![insert(plain.clone())]), [Code::InvalidArgument]);
        rig.switch.command(&["table", "delete", "chosen", key]).expect(0, &[]);
        assert!(rig.switch.objects(&["member", "dump"]).is_empty(), "its members are gone");
        assert!(rig.switch.objects(&["group", "dump"]).is_empty(), "and its group");
        // So the profile may have members of the controller.
        let both = vec![insert(plain.clone()), update(Delete, plain)];
        assert_eq!(done(&mut controller, both), []);
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn an_atomic_batch_that_mixes_members_and_action_sets_is_refused_whole() {
    let Some(_network) = private_network("atomic batches of profiles") else { return };
    let (rig, mut controller) = start(PROGRAM);
    let set = action_set(&controller, &[1]);
    let plain = member(&controller, "Entries.ways", "Entries.leave");
    let choice = group(&controller, "Entries.ways", &[], 0);
    let all = |controller: &mut Controller| {
        let ways = controller.id("Entries.ways");
        let table_id = controller.id("Entries.chosen");
        let of_table = p4::TableEntry { table_id, ..Default::default() };
        let of_profile = p4::ActionProfileMember { action_profile_id: ways, ..Default::default() };
        let wanted = vec![Message::TableEntry(of_table), Message::ActionProfileMember(of_profile)];
        controller.read(wanted).unwrap()
    };
    for (first, second) in [(&plain, &set), (&set, &plain), (&set, &choice), (&choice, &set)] {
        let updates = vec![insert(first.clone()), insert(second.clone())];
        let mut request = controller.write_request(updates);
        request.atomicity = DataplaneAtomic as i32;
        let refused = codes(&controller.request(request).unwrap_err());
        assert_eq!(refused, [Code::Aborted, Code::InvalidArgument]);
        assert_eq!(all(&mut controller), []);
    }
    // A batch that takes out the one may bring the other.
    assert_eq!(done(&mut controller, vec![insert(plain.clone())]), []);
    let mut request = controller.write_request(vec![update(Delete, plain), insert(set.clone())]);
    request.atomicity = DataplaneAtomic as i32;
    controller.request(request).unwrap();
    assert_eq!(all(&mut controller), [set]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn const_entries_of_a_list_stay_and_others_change() {
    let Some(_network) = private_network("const entries") else { return };
    let (rig, mut controller) = start(PROGRAM);
    let table_id = controller.id("Entries.mixed");
    let of_table = Message::TableEntry(p4::TableEntry { table_id, ..Default::default() });
    let found = controller.read(vec![of_table.clone()]).unwrap();
    let flags = found.iter().map(|found| match found {
        Message::TableEntry(entry) => entry.is_const,
        other => panic!("{other:?}"),
    });
    assert_eq!(flags.collect::<Vec<_>>(), [true, false]);
    let info = controller
        .info
        .tables
        .iter()
        .find(|table| table.preamble.as_ref().is_some_and(|preamble| preamble.id == table_id));
    assert!(info.is_some_and(|table| !table.is_const_table && table.has_initial_entries));
    let fixed = mixed(&controller, [0x11, 0x11], [0xff, 0xff], 2);
    let loose = mixed(&controller, [0x22, 0], [0xff, 0], 1);
    let action = leave(&controller, "Entries.leave", 2);
    let action = Some(p4::TableAction { r#type: Some(Does::Action(action)) });
    let with = |entry: &p4::TableEntry| {
        Message::TableEntry(p4::TableEntry { action: action.clone(), ..entry.clone() })
    };
    let noted = p4::TableEntry { metadata: b"mine".to_vec(), ..fixed.clone() };
    let batch = vec![
        update(Modify, with(&fixed)),
        update(Modify, Message::TableEntry(noted)),
        update(Delete, Message::TableEntry(fixed.clone())),
        update(Modify, with(&loose)),
        update(Delete, Message::TableEntry(loose.clone())),
        update(Insert, with(&mixed(&controller, [0x33, 0], [0xff, 0], 1))),
    ];
    let denied = Code::PermissionDenied;
    let expected = [denied, denied, denied, Code::Ok, Code::Ok, Code::Ok];
    assert_eq!(done(&mut controller, batch), expected);
    assert_eq!(controller.read(vec![of_table.clone()]).unwrap().len(), 2);
    // Without a priority a match is of every entry with it.
    let by_match = p4::TableEntry { priority: 0, ..fixed };
    assert_eq!(controller.read(vec![Message::TableEntry(by_match)]).unwrap(), found[..1]);
    rig.switch.command(&["table", "clear", "mixed"]).expect(0, &[]);
    assert_eq!(controller.read(vec![of_table]).unwrap(), found[..1], "the const one is left");
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn max_size_is_read_back_and_stays() {
    let Some(_network) = private_network("max_size") else { return };
    let (rig, mut controller) = start(PROGRAM);
    let plain = member(&controller, "Entries.ways", "Entries.leave");
    let sized = |members: &[u32], size| group(&controller, "Entries.ways", members, size);
    let (first, emptied) = (sized(&[1], 2), sized(&[], 2));
    let (other, none) = (sized(&[1], 3), sized(&[1], 0));
    let ways = p4::ActionProfileGroup {
        action_profile_id: controller.id("Entries.ways"),
        ..Default::default()
    };
    assert_eq!(done(&mut controller, vec![insert(plain), insert(first.clone())]), []);
    let wanted = vec![Message::ActionProfileGroup(ways)];
    assert_eq!(controller.read(wanted.clone()).unwrap(), [first]);
    let refused = done(&mut controller, vec![update(Modify, other), update(Modify, none)]);
    assert_eq!(refused, [Code::InvalidArgument, Code::InvalidArgument]);
    assert_eq!(done(&mut controller, vec![update(Modify, emptied.clone())]), []);
    assert_eq!(controller.read(wanted).unwrap(), [emptied]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn requests_between_save_and_commit_are_of_the_new_program() {
    let Some(_network) = private_network("saved configurations") else { return };
    let (mut rig, mut controller) = start(PROGRAM);
    let forward = |controller: &Controller, port| {
        let action = leave(controller, "Entries.forward", port);
        Message::TableEntry(entry(controller, "Entries.aged", Some(Does::Action(action))))
    };
    let (old, new) = (forward(&controller, 2), forward(&controller, 1));
    assert_eq!(done(&mut controller, vec![insert(old)]), []);
    let table_id = controller.id("Entries.aged");
    let all = || vec![Message::TableEntry(p4::TableEntry { table_id, ..Default::default() })];
    let config = controller.pipeline();
    controller.push(Action::VerifyAndSave, Some(config.clone())).unwrap();
    assert_eq!(controller.read(all()).unwrap(), [], "nothing was written since");
    // The entry is no duplicate there, and what is wrong is refused at once.
    let twice = vec![insert(new.clone()), insert(new.clone())];
    assert_eq!(done(&mut controller, twice), [Code::Ok, Code::AlreadyExists]);
    let counted = Message::CounterEntry(p4::CounterEntry {
        counter_id: controller.id("Entries.all"),
        index: Some(p4::Index { index: 3 }),
        data: Some(p4::CounterData { packet_count: 5, byte_count: 0 }),
    });
    assert_eq!(done(&mut controller, vec![update(Modify, counted.clone())]), []);
    assert_eq!(controller.read(all()).unwrap(), std::slice::from_ref(&new));
    let packet = frame(A, A, 0x1234);
    assert_eq!(rig.passes(&packet).len(), 1, "the old program forwards with its entry");
    controller.push(Action::Commit, None).unwrap();
    assert_eq!(controller.read(all()).unwrap(), [new]);
    assert_eq!(controller.read(vec![counted.clone()]).unwrap(), [counted]);
    rig.wires[0].send(&[packet]);
    assert!(rig.wires[1].receive_unexpected().is_empty(), "the new entry leads elsewhere");
    // A commit of something else ends the wait.
    controller.push(Action::VerifyAndSave, Some(config.clone())).unwrap();
    controller.push(Action::VerifyAndCommit, Some(config)).unwrap();
    assert_eq!(controller.push(Action::Commit, None).unwrap_err().code(), Code::NotFound);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn an_empty_group_runs_the_action_that_psa_gives_it() {
    let Some(_network) = private_network("empty groups") else { return };
    let (mut rig, mut controller) = start(EMPTY_GROUP);
    let packet = frame(A, A, 0x1234);
    rig.wires[0].send(std::slice::from_ref(&packet));
    assert!(rig.wires[1].receive_unexpected().is_empty(), "a miss drops");
    insert_empty_group(&mut controller);
    assert_eq!(rig.passes(&packet).len(), 1, "its group is empty");
    rig.switch.end("TERM").expect(0, &[]);
}

/// PSA 1.1, section 7.12: without the property it is `NoAction`, not the default action.
#[test]
fn an_empty_group_does_nothing_where_psa_names_no_action() {
    let Some(_network) = private_network("empty groups without an action") else { return };
    let text = std::fs::read_to_string(workspace_root().join(EMPTY_GROUP)).expect("the program");
    let text = text.replace("        psa_empty_group_action = leave(2);\n", "");
    let text = text.replace("default_action = stop();", "default_action = leave(2);");
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("empty_group.p4");
    std::fs::write(&program, text).expect("writes");
    let (mut rig, mut controller) = start(program.to_str().expect("a name"));
    let packet = frame(A, A, 0x1234);
    assert_eq!(rig.passes(&packet).len(), 1, "a miss leaves");
    insert_empty_group(&mut controller);
    rig.wires[0].send(std::slice::from_ref(&packet));
    assert!(rig.wires[1].receive_unexpected().is_empty(), "its group is empty");
    rig.switch.end("TERM").expect(0, &[]);
}

/// An entry for `A` with a group without members.
fn insert_empty_group(controller: &mut Controller) {
    let choice = group(controller, "In.ways", &[], 0);
    let named = entry(controller, "In.chosen", Some(Does::ActionProfileGroupId(1)));
    let batch = vec![insert(choice), insert(Message::TableEntry(named))];
    assert_eq!(done(controller, batch), []);
}

#[test]
fn what_the_standard_says_of_resources_of_entries() {
    let Some(_network) = private_network("resources of entries") else { return };
    let (rig, mut controller) = start(PROGRAM);
    let action = Does::Action(leave(&controller, "Entries.forward", 2));
    let there = entry(&controller, "Entries.aged", Some(action));
    assert_eq!(done(&mut controller, vec![insert(Message::TableEntry(there.clone()))]), []);
    let counter = |entry: &p4::TableEntry, data| {
        let table_entry = Some(p4::TableEntry { action: None, ..entry.clone() });
        Message::DirectCounterEntry(p4::DirectCounterEntry { table_entry, data })
    };
    let five = Some(p4::CounterData { packet_count: 5, byte_count: 6 });
    let mut absent = there.clone();
    absent.r#match = mixed(&controller, [0, 1], [0, 1], 0).r#match;
    absent.r#match[0].field_match_type = Some(FieldMatchType::Exact(Exact { value: vec![7] }));
    let table_id = controller.id("Entries.aged");
    let default = p4::TableEntry { table_id, is_default_action: true, ..Default::default() };
    let since = p4::TableEntry {
        time_since_last_hit: Some(p4::table_entry::IdleTimeout::default()),
        ..default.clone()
    };
    let colours = p4::TableEntry {
        meter_counter_data: Some(p4::MeterCounterData::default()),
        ..there.clone()
    };
    let batch = vec![
        update(Modify, counter(&there, five)),
        update(Modify, counter(&there, None)),
        update(Modify, counter(&absent, None)),
        insert(counter(&there, None)),
        update(Modify, counter(&default, five)),
        update(Modify, Message::TableEntry(since)),
        update(Modify, Message::TableEntry(colours)),
    ];
    let expected = [
        Code::Ok,
        Code::Ok,
        Code::NotFound,
        Code::InvalidArgument,
        Code::InvalidArgument,
        Code::InvalidArgument,
        Code::Unimplemented,
    ];
    assert_eq!(done(&mut controller, batch), expected);
    let read = |controller: &mut Controller, message| controller.read(vec![message]);
    assert_eq!(read(&mut controller, counter(&there, None)).unwrap(), [counter(&there, five)]);
    let missing = read(&mut controller, counter(&absent, None)).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let refused = read(&mut controller, counter(&default, None)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    rig.switch.end("TERM").expect(0, &[]);
}
