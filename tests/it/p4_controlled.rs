//! A P4 program that runs, steered by the names, ids and forms of its P4Info, as a controller that has p4c's does.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::Duration;

use prost::Message as _;
use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::config::v1::P4Info;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::binary::run;
use wireyard_tests::p4client::{Controller, codes, insert, update};

use crate::p4runtime::{Rig, frame, rig, session};
use crate::rig::private_network;
use p4::entity::Entity as Message;
use p4::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4::p4_data::Data;
use p4::set_forwarding_pipeline_config_request::Action;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;
use p4::table_action::Type as Does;
use p4::update::Type::{Insert, Modify};

pub(crate) const PROGRAM: &str = "tests/data/p4runtime/controlled.p4";
const CPU: [&str; 2] = ["--cpu-port", "255"];
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// What `p4info` and `pack` give of the program.
pub(crate) fn outputs() -> (P4Info, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (info, blob) = (path("info"), path("blob"));
    run(&["p4info", PROGRAM, "--format", "binary", "-o", &info]).expect(0, &[]);
    run(&["pack", PROGRAM, "-o", &blob]).expect(0, &[]);
    let info = std::fs::read(info).unwrap();
    (P4Info::decode(info.as_slice()).unwrap(), std::fs::read(blob).unwrap())
}

fn action(controller: &Controller, name: &str, params: &[(u32, &[u8])]) -> Option<p4::TableAction> {
    let param = |(param_id, value): &(u32, &[u8])| p4::action::Param {
        param_id: *param_id,
        value: value.to_vec(),
    };
    let params = params.iter().map(param).collect();
    let action = p4::Action { action_id: controller.id(name), params };
    Some(p4::TableAction { r#type: Some(Does::Action(action)) })
}

fn entry(
    controller: &Controller,
    table: &str,
    matches: Vec<(u32, FieldMatchType)>,
    action: Option<p4::TableAction>,
) -> p4::TableEntry {
    let one = |(field_id, found)| p4::FieldMatch { field_id, field_match_type: Some(found) };
    p4::TableEntry {
        table_id: controller.id(table),
        r#match: matches.into_iter().map(one).collect(),
        action,
        ..Default::default()
    }
}

fn exact(value: &[u8]) -> FieldMatchType {
    FieldMatchType::Exact(Exact { value: value.to_vec() })
}

/// An entry of the first table: to port 2.
fn forward(controller: &Controller, dst: [u8; 6]) -> p4::TableEntry {
    let counted = action(controller, "Steered.counted", &[(1, &[0, 2])]);
    entry(controller, "Steered.fwd", vec![(1, exact(&dst))], counted)
}

fn start() -> (Rig, Controller) {
    let rig = rig(PROGRAM, &CPU);
    let controller = rig.primary();
    (rig, controller)
}

#[test]
fn the_p4info_that_is_printed_is_served_and_fits_what_is_pushed() {
    let Some(_network) = private_network("P4Info of a P4 program that runs") else { return };
    let (rig, mut controller) = start();
    let (info, blob) = outputs();
    assert_eq!(controller.info, info);
    assert_eq!(controller.id("Steered.fwd"), 0x0200_1234, "@id of the source");
    let config = |p4info: P4Info| p4::ForwardingPipelineConfig {
        p4info: Some(p4info),
        p4_device_config: blob.clone(),
        cookie: None,
    };
    controller.push(Action::VerifyAndCommit, Some(config(info.clone()))).unwrap();
    assert_eq!(controller.pipeline(), config(info.clone()));
    let refused = |change: fn(&mut P4Info)| {
        let mut other = info.clone();
        change(&mut other);
        config(other)
    };
    for (wrong, why) in [
        (refused(|info| info.tables[0].preamble.as_mut().unwrap().id += 1), "table Steered.fwd"),
        (refused(|info| info.tables[0].match_fields[0].bitwidth = 32), "of 32 bits, exact"),
        (refused(|info| info.registers[0].preamble.as_mut().unwrap().name += "x"), "register"),
        (refused(|info| _ = info.actions[0].params.pop()), "action Steered"),
    ] {
        let error = controller.push(Action::VerifyAndCommit, Some(wrong)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(why), "{why}: {}", error.message());
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn entries_of_every_kind_of_match_are_written_and_read_by_the_ids_of_p4() {
    let Some(_network) = private_network("entries of a P4 program") else { return };
    let (mut rig, mut controller) = start();
    let packet = frame(A, B, 0x0801);
    let entries = [forward(&controller, A), {
        let matches = vec![
            (
                1,
                FieldMatchType::Ternary(Ternary {
                    value: vec![0, 2, 0, 0, 0, 0, 0],
                    mask: vec![0xff, 0, 0, 0, 0, 0],
                }),
            ),
            (2, FieldMatchType::Range(Range { low: vec![8, 0], high: vec![0, 8, 0xff] })),
            (3, FieldMatchType::Optional(Optional { value: A.to_vec() })),
        ];
        let deny = action(&controller, "Steered.deny", &[]);
        p4::TableEntry { priority: 3, ..entry(&controller, "Steered.acl", matches, deny) }
    }];
    controller.write(vec![insert(Message::TableEntry(entries[0].clone()))]).unwrap();
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    controller.write(vec![insert(Message::TableEntry(entries[1].clone()))]).unwrap();
    rig.wires[0].send(std::slice::from_ref(&packet));
    assert!(rig.wires[1].receive_unexpected().is_empty(), "the list denies it");
    let lpm = FieldMatchType::Lpm(Lpm { value: vec![2, 0, 0, 0, 0, 0], prefix_len: 40 });
    let way = action(&controller, "Steered.forward", &[(9, &[2])]);
    let route = entry(&controller, "Steered.routes", vec![(4, lpm)], way);
    let by_name = action(&controller, "Steered.by_name", &[(1, b"2")]);
    let named = entry(&controller, "Steered.by.name", vec![(1, exact(b"1"))], by_name);
    for (one, why) in [(&route, "the route"), (&named, "the port's name")] {
        controller.write(vec![insert(Message::TableEntry(one.clone()))]).unwrap();
        assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet), "{why}");
        controller
            .write(vec![update(p4::update::Type::Delete, Message::TableEntry(one.clone()))])
            .unwrap();
    }
    controller
        .write(vec![insert(Message::TableEntry(named)), insert(Message::TableEntry(route.clone()))])
        .unwrap();
    // Everything that has a name, in the shortest form; nothing of the hidden table.
    let found = controller.read(vec![Message::TableEntry(p4::TableEntry::default())]).unwrap();
    let found: Vec<p4::TableEntry> = found
        .into_iter()
        .map(|one| match one {
            Message::TableEntry(entry) => entry,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    let of = |table: &str| {
        let id = controller.id(table);
        found.iter().find(|entry| entry.table_id == id).expect("an entry")
    };
    assert_eq!(of("Steered.routes"), &route);
    let kinds: Vec<_> =
        of("Steered.acl").r#match.iter().map(|one| one.field_match_type.clone().unwrap()).collect();
    assert_eq!(
        kinds[0],
        FieldMatchType::Ternary(Ternary {
            value: vec![2, 0, 0, 0, 0, 0],
            mask: vec![0xff, 0, 0, 0, 0, 0]
        })
    );
    assert_eq!(kinds[1], FieldMatchType::Range(Range { low: vec![8, 0], high: vec![8, 0xff] }));
    assert_eq!(of("Steered.fwd").action, action(&controller, "Steered.counted", &[(1, &[2])]));
    assert_eq!(of("Steered.by.name").action, action(&controller, "Steered.by_name", &[(1, b"2")]));
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn what_the_source_forbids_is_refused_with_the_status_of_the_standard() {
    let Some(_network) = private_network("statuses of a P4 program") else { return };
    let (rig, mut controller) = start();
    let none = action(&controller, "NoAction", &[]);
    let in_acl = vec![(3, FieldMatchType::Optional(Optional { value: A.to_vec() }))];
    let default_only =
        p4::TableEntry { priority: 1, ..entry(&controller, "Steered.acl", in_acl, none) };
    let deny = action(&controller, "Steered.deny", &[]);
    let table_only = p4::TableEntry {
        is_default_action: true,
        ..entry(&controller, "Steered.acl", Vec::new(), deny)
    };
    let by_name = action(&controller, "Steered.by_name", &[(1, b"eth0")]);
    let text = entry(&controller, "Steered.by.name", vec![(1, exact(b"1"))], by_name);
    let wide = action(&controller, "Steered.counted", &[(1, &[2, 0])]);
    let wide = entry(&controller, "Steered.fwd", vec![(1, exact(&A))], wide);
    let other = action(&controller, "Steered.by_name", &[(1, b"2")]);
    let other = entry(&controller, "Steered.fwd", vec![(1, exact(&A))], other);
    let failed = controller.write(vec![
        insert(Message::TableEntry(default_only)),
        update(Modify, Message::TableEntry(table_only)),
        insert(Message::TableEntry(text)),
        insert(Message::TableEntry(wide)),
        insert(Message::TableEntry(other)),
    ]);
    let wanted = [
        Code::PermissionDenied,
        Code::PermissionDenied,
        Code::InvalidArgument,
        Code::OutOfRange,
        Code::InvalidArgument,
    ];
    assert_eq!(codes(&failed.unwrap_err()), wanted);
    assert_eq!(controller.read(vec![Message::TableEntry(p4::TableEntry::default())]).unwrap(), []);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn counters_registers_and_a_selector_have_the_ids_and_types_of_p4() {
    let Some(_network) = private_network("objects of a P4 program") else { return };
    let (mut rig, mut controller) = start();
    controller.write(vec![insert(Message::TableEntry(forward(&controller, A)))]).unwrap();
    let packet = frame(A, B, 0x8100);
    assert_eq!(rig.passes(&packet).len(), 1);
    let index = |index| Some(p4::Index { index });
    let seen =
        p4::CounterEntry { counter_id: controller.id("Steered.seen"), index: index(1), data: None };
    let [Message::CounterEntry(seen)] =
        &controller.read(vec![Message::CounterEntry(seen)]).unwrap()[..]
    else {
        panic!("no counter")
    };
    assert_eq!(seen.data.map(|data| data.packet_count), Some(1));
    let hits = p4::DirectCounterEntry { table_entry: Some(forward(&controller, A)), data: None };
    let [Message::DirectCounterEntry(hits)] =
        &controller.read(vec![Message::DirectCounterEntry(hits)]).unwrap()[..]
    else {
        panic!("no direct counter")
    };
    assert_eq!(hits.data.map(|data| data.packet_count), Some(1));
    let register = |controller: &Controller, name: &str, at, data| p4::RegisterEntry {
        register_id: controller.id(name),
        index: index(at),
        data,
    };
    let marks = register(&controller, "Steered.marks", 0, None);
    let flags = register(&controller, "Steered.flags", 1, None);
    let found = controller
        .read(vec![Message::RegisterEntry(marks), Message::RegisterEntry(flags.clone())])
        .unwrap();
    let data: Vec<Data> = found
        .into_iter()
        .map(|one| match one {
            Message::RegisterEntry(entry) => entry.data.unwrap().data.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(data, [Data::Bitstring(vec![0x81, 0]), Data::Bool(true)]);
    let set =
        |data| register(&controller, "Steered.flags", 1, Some(p4::P4Data { data: Some(data) }));
    let (good, bad) = (set(Data::Bool(false)), set(Data::Bitstring(vec![0])));
    let done = controller.write(vec![
        update(Modify, Message::RegisterEntry(good.clone())),
        update(Modify, Message::RegisterEntry(bad)),
    ]);
    assert_eq!(codes(&done.unwrap_err()), [Code::Ok, Code::InvalidArgument]);
    assert_eq!(
        controller.read(vec![Message::RegisterEntry(flags)]).unwrap(),
        [Message::RegisterEntry(good)]
    );
    // A group of two members, one of which leads to port 2: the table's name for the profile is that of the source.
    let profile = controller.id("Steered.ways_profile");
    let member = |id, port: u8| {
        let Some(p4::TableAction { r#type: Some(Does::Action(action)) }) =
            action(&controller, "Steered.forward", &[(9, &[port])])
        else {
            panic!("no action")
        };
        insert(Message::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: profile,
            member_id: id,
            action: Some(action),
        }))
    };
    let weighted =
        |member_id| p4::action_profile_group::Member { member_id, weight: 1, watch_kind: None };
    let group = p4::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 5,
        members: vec![weighted(1), weighted(2)],
        max_size: 0,
    };
    let to_group = Some(p4::TableAction { r#type: Some(Does::ActionProfileGroupId(5)) });
    let way = entry(&controller, "Steered.ways", vec![(1, exact(&[0x88, 0xb7]))], to_group);
    let batch = vec![
        member(1, 2),
        member(2, 2),
        update(Insert, Message::ActionProfileGroup(group.clone())),
        insert(Message::TableEntry(way)),
    ];
    controller.write(batch).unwrap();
    assert_eq!(rig.passes(&frame(B, A, 0x88b7)).len(), 1, "B has no entry but the group's");
    let all = Message::ActionProfileGroup(p4::ActionProfileGroup::default());
    assert_eq!(controller.read(vec![all]).unwrap(), [Message::ActionProfileGroup(group)]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn packets_and_digests_have_the_metadata_and_types_of_p4() {
    let Some(_network) = private_network("packets of a P4 program") else { return };
    let (mut rig, mut controller) = start();
    let to_controller = action(&controller, "Steered.to_controller", &[(1, &[0x55])]);
    let punt = entry(&controller, "Steered.fwd", vec![(1, exact(&A))], to_controller);
    let digest = p4::DigestEntry {
        digest_id: controller.id("learn_t"),
        config: Some(p4::digest_entry::Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: 1 << 40,
        }),
    };
    controller
        .write(vec![insert(Message::TableEntry(punt)), insert(Message::DigestEntry(digest))])
        .unwrap();
    let configured =
        controller.read(vec![Message::DigestEntry(p4::DigestEntry::default())]).unwrap();
    assert_eq!(configured, [Message::DigestEntry(digest)], "two places send it, it is one digest");
    let metadata =
        |metadata_id, value: &[u8]| p4::PacketMetadata { metadata_id, value: value.to_vec() };
    let packet = frame(A, B, 0x0800);
    rig.wires[0].send(std::slice::from_ref(&packet));
    let Ok(FromDevice::Packet(packet_in)) = controller.next_message() else { panic!("no packet") };
    assert_eq!(packet_in.payload, packet);
    assert_eq!(packet_in.metadata, [metadata(1, &[1]), metadata(5, &[0x55])]);
    let out = p4::PacketOut {
        payload: packet.clone(),
        metadata: vec![metadata(1, &[2]), metadata(2, &[0])],
    };
    controller.send(ToDevice::Packet(out));
    assert_eq!(rig.wires[1].receive(1), [packet]);
    for (kind, tagged, mac) in [(0x88b5, false, A), (0x88b6, true, B)] {
        rig.wires[0].send(&[frame(B, A, kind)]);
        let Some(FromDevice::Digest(list)) = controller.message_within(Duration::from_secs(10))
        else {
            panic!("no digest")
        };
        assert_eq!(list.digest_id, controller.id("learn_t"));
        let Some(Data::Struct(learned)) = &list.data[0].data else { panic!("{list:?}") };
        let members: Vec<Data> =
            learned.members.iter().map(|one| one.data.clone().unwrap()).collect();
        assert_eq!(
            members,
            [Data::Bitstring(mac.to_vec()), Data::Bitstring(vec![1]), Data::Bool(tagged)]
        );
        let ack = p4::DigestListAck { digest_id: list.digest_id, list_id: list.list_id };
        controller.send(ToDevice::DigestAck(ack));
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn p4runtime_shell_steers_a_p4_program() {
    session("shell", "shell_p4_session", PROGRAM, &CPU);
}

#[test]
fn members_of_a_value_set_of_several_keys_have_a_match_for_each() {
    let Some(_network) = private_network("a value set of several keys") else { return };
    let mut rig = rig("tests/data/p4/parsed.p4", &[]);
    let mut controller = rig.primary();
    let member = |matches: &[(u32, &[u8])]| p4::ValueSetMember {
        r#match: matches
            .iter()
            .map(|(field_id, value)| p4::FieldMatch {
                field_id: *field_id,
                field_match_type: Some(exact(value)),
            })
            .collect(),
    };
    let value_set_id = controller.id("Parse.known");
    let set = |members| Message::ValueSetEntry(p4::ValueSetEntry { value_set_id, members });
    // The program adds 0x13 to what it finds in the fourth byte, and 0xaa is there where the set has the first three.
    let packet = frame([0x0a, 0x12, 0x34, 0, 0, 1], B, 0x0801);
    let with = |byte: u8| {
        let mut changed = packet.clone();
        changed[3] = byte;
        changed
    };
    assert_eq!(rig.passes(&packet), [with(0x13)]);
    let members =
        vec![member(&[(1, &[1]), (2, &[2])]), member(&[(1, &[0x0a]), (2, &[0x12, 0x34])])];
    controller.write(vec![update(Modify, set(members.clone()))]).unwrap();
    assert_eq!(rig.passes(&packet), [with(0xbd)]);
    let read = controller.read(vec![set(Vec::new())]).unwrap();
    assert_eq!(read, [set(members)]);
    for (wrong, code) in [
        (member(&[(1, &[1])]), Code::InvalidArgument),
        (member(&[(1, &[1]), (3, &[2])]), Code::InvalidArgument),
        (member(&[(1, &[1, 0]), (2, &[2])]), Code::OutOfRange),
    ] {
        let refused = controller.write(vec![update(Modify, set(vec![wrong]))]).unwrap_err();
        assert_eq!(codes(&refused), [code]);
    }
    assert_eq!(rig.passes(&packet), [with(0xbd)]);
    rig.switch.end("TERM").expect(0, &[]);
}

/// The program with idle timeouts in its first table, and with another id of it.
fn variant(folder: &std::path::Path, name: &str, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(wireyard_tests::workspace_root().join(PROGRAM)).unwrap();
    let changed = text.replace(from, to);
    assert_ne!(text, changed, "{from}");
    let path = folder.join(name);
    std::fs::write(&path, changed).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn commands_keep_the_timeouts_and_scopes_of_a_program_in_p4() {
    let Some(_network) = private_network("P4: commands") else { return };
    let folder = tempfile::tempdir().unwrap();
    let with = "counters = hits; support_timeout = true;";
    let program = variant(folder.path(), "timed.p4", "counters = hits;", with);
    let mut rig = rig(&program, &CPU);
    // The language of the source has no `on_idle`.
    let idle = "table add fwd dst=0xb counted 2 --idle-timeout-ms 20";
    rig.switch.command(&idle.split(' ').collect::<Vec<_>>()).expect(0, &[]);
    rig.switch.await_text("such entries are counted\n", Duration::from_secs(10));
    let command = |words: &str| rig.switch.command(&words.split(' ').collect::<Vec<_>>());
    command("table add Steered.fwd dst=0xa Steered.counted 2 --idle-timeout-ms 5000")
        .expect(0, &[]);
    command("table modify fwd dst=0xa deny").expect(0, &[]);
    let found = rig.switch.objects(&["table", "dump", "fwd", "dst=0xa"]).remove(0);
    assert_eq!((&found["action"], &found["idle_timeout_ms"]), (&"deny".into(), &5000.into()));
    command("table default acl deny")
        .expect(2, &["`deny` is @tableonly in table", "cannot be the default action"]);
    command("table add acl hdr.ethernet.src=1 NoAction --priority 1")
        .expect(2, &["`NoAction` is @defaultonly in table", "cannot be an entry"]);
    command("table add acl hdr.ethernet.src=1 deny --priority 1").expect(0, &[]);
    // The names of P4Info, and of the command lines of other switches, have the control in front.
    command("table default Steered.routes Steered.forward 2").expect(0, &[]);
    command("table delete Steered.fwd dst=0xa").expect(0, &[]);
    command("register set Steered.marks 1 7").expect(0, &[]);
    let cell = rig.switch.objects(&["register", "dump", "Steered.marks", "1"]).remove(0);
    assert_eq!(cell["cells"]["value"], 7);
    command("member add Steered.ways 3 Steered.forward 2").expect(0, &[]);
    command("table add Steered.ways hdr.ethernet.kind=5 member(3)").expect(0, &[]);
    command("mirror set 0 port=1").expect(2, &["mirror session 0", "1 to 65535"]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_p4info_with_other_arrays_is_refused() {
    let Some(_network) = private_network("P4: another P4Info") else { return };
    let (rig, mut controller) = start();
    let (info, blob) = outputs();
    let mut push = |info: P4Info| {
        let config = p4::ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: blob.clone(),
            ..Default::default()
        };
        controller.push(Action::Verify, Some(config))
    };
    push(info.clone()).unwrap();
    let changes: [fn(&mut P4Info); 3] = [
        |info| info.registers[0].size += 1,
        |info| info.counters[0].size -= 1,
        |info| info.counters[0].spec.as_mut().unwrap().unit = 2,
    ];
    for change in changes {
        let mut other = info.clone();
        change(&mut other);
        let refused = push(other).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("wireyard p4info"), "{}", refused.message());
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn metadata_of_a_table_with_another_id_is_not_lost_without_a_word() {
    let Some(_network) = private_network("P4: another id") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = variant(folder.path(), "other.p4", "@id(0x1234)", "@id(0x1235)");
    let blob = folder.path().join("blob").to_str().unwrap().to_owned();
    run(&["pack", &program, "-o", &blob]).expect(0, &[]);
    let other = p4::ForwardingPipelineConfig {
        p4_device_config: std::fs::read(blob).unwrap(),
        ..Default::default()
    };
    let (rig, mut controller) = start();
    let plain = forward(&controller, A);
    let labelled = p4::TableEntry { metadata: b"mine".to_vec(), ..plain.clone() };
    controller.write(vec![insert(Message::TableEntry(labelled.clone()))]).unwrap();
    let refused = controller.push(Action::ReconcileAndCommit, Some(other.clone())).unwrap_err();
    assert!(
        refused.message().contains("metadata of entries would be lost"),
        "{}",
        refused.message()
    );
    let table = p4::TableEntry { table_id: plain.table_id, ..Default::default() };
    let read = controller.read(vec![Message::TableEntry(table)]).unwrap();
    let [Message::TableEntry(found)] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!(found.metadata, b"mine");
    controller.write(vec![update(Modify, Message::TableEntry(plain))]).unwrap();
    controller.push(Action::ReconcileAndCommit, Some(other)).unwrap();
    rig.switch.end("TERM").expect(0, &[]);
}
