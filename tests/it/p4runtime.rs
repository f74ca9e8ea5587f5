//! `run --p4runtime`: controllers over gRPC, with packets as witnesses.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::time::Duration;

use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::config::v1::PlatformProperties;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, codes, insert, update};

use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;
use p4::update::Type::{Delete, Insert, Modify};

pub(crate) const PROGRAM: &str = "tests/data/p4runtime/program.yaml";
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

pub(crate) fn frame(dst: [u8; 6], src: [u8; 6], ether_type: u16) -> Vec<u8> {
    [&dst[..], &src, &ether_type.to_be_bytes(), &[0; 50]].concat()
}

/// A switch between two ports that a controller steers; the far ends of its ports.
pub(crate) struct Rig {
    pub(crate) switch: Switch,
    pub(crate) address: String,
    pub(crate) wires: [Wire; 2],
}

pub(crate) fn rig(program: &str, more: &[&str]) -> Rig {
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let more = [&["--p4runtime", "127.0.0.1:0", "--json"], more].concat();
    let switch = Switch::on(program, &["1=raw:a1", "2=raw:b1"], &more);
    let address = address(&switch);
    Rig { switch, address, wires: [Wire::open("raw:a0"), Wire::open("raw:b0")] }
}

/// Where a switch listens.
pub(crate) fn address(switch: &Switch) -> String {
    let err = switch.err();
    let line = err.lines().find_map(|line| line.split("P4Runtime on ").nth(1));
    line.and_then(|line| line.split(',').next()).expect("an address").to_owned()
}

impl Rig {
    pub(crate) fn primary(&self) -> Controller {
        let (controller, standing) = Controller::connect(&self.address, 1).expect("a stream");
        assert_eq!(standing, 0, "it is primary");
        controller
    }

    pub(crate) fn passes(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.wires[0].send(&[bytes.to_vec()]);
        self.comes_out()
    }

    /// What comes out of port 2, within ten seconds.
    fn comes_out(&mut self) -> Vec<Vec<u8>> {
        let wire = &mut self.wires[1];
        (0..10).map(|_| wire.receive(1)).find(|frames| !frames.is_empty()).unwrap_or_default()
    }
}

pub(crate) fn forward(controller: &Controller, dst: [u8; 6], port: u8) -> p4::TableEntry {
    controller.exact("fdb", &dst, controller.action("forward", &[&[0, port]]))
}

#[test]
fn a_controller_writes_entries_and_packets_meet_them() {
    let Some(_network) = private_network("P4Runtime entries") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let packet = frame(A, B, 0x1234);
    rig.wires[0].send(std::slice::from_ref(&packet));
    assert!(rig.wires[1].receive_unexpected().is_empty(), "the default drops");
    let entry = forward(&controller, A, 2);
    controller.write(vec![insert(Message::TableEntry(entry.clone()))]).unwrap();
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    // Read back: the shortest form, with the counter that was asked for.
    let wanted = p4::TableEntry {
        table_id: entry.table_id,
        counter_data: Some(p4::CounterData::default()),
        ..Default::default()
    };
    let found = controller.read(vec![Message::TableEntry(wanted)]).unwrap();
    let [Message::TableEntry(found)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(found.counter_data.map(|data| (data.packet_count, data.byte_count)), Some((1, 64)));
    let action = controller.action("forward", &[&[2]]);
    let does = Some(p4::table_action::Type::Action(action));
    assert_eq!(found.action.clone().and_then(|action| action.r#type), does);
    assert!(found.time_since_last_hit.is_none() && found.meter_config.is_none());
    // Again, absent, deleted.
    let again = controller.write(vec![insert(Message::TableEntry(entry.clone()))]).unwrap_err();
    assert_eq!((again.code(), codes(&again)), (Code::Unknown, vec![Code::AlreadyExists]));
    let absent = forward(&controller, B, 2);
    let failed = controller.write(vec![
        update(Modify, Message::TableEntry(absent.clone())),
        insert(Message::TableEntry(absent.clone())),
        update(Delete, Message::TableEntry(entry.clone())),
        update(Delete, Message::TableEntry(entry)),
    ]);
    let failed = failed.unwrap_err();
    assert_eq!(codes(&failed), [Code::NotFound, Code::Ok, Code::Ok, Code::NotFound]);
    rig.wires[0].send(&[packet]);
    assert!(rig.wires[1].receive_unexpected().is_empty(), "the entry is gone");
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn an_atomic_batch_is_done_whole_or_not_at_all() {
    let Some(_network) = private_network("P4Runtime batches") else { return };
    let rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let (good, twice) = (forward(&controller, A, 2), forward(&controller, B, 2));
    let batch = vec![
        insert(Message::TableEntry(good)),
        insert(Message::TableEntry(twice.clone())),
        insert(Message::TableEntry(twice.clone())),
    ];
    for atomicity in [1, 2] {
        let mut request = controller.write_request(batch.clone());
        request.atomicity = atomicity;
        let failed = controller.request(request).unwrap_err();
        assert_eq!(codes(&failed), [Code::Aborted, Code::Aborted, Code::AlreadyExists]);
        let table = p4::TableEntry { table_id: twice.table_id, ..Default::default() };
        assert_eq!(controller.read(vec![Message::TableEntry(table)]).unwrap(), []);
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn wrong_requests_have_the_statuses_of_the_standard_and_change_nothing() {
    let Some(_network) = private_network("P4Runtime statuses") else { return };
    let rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let good = forward(&controller, A, 2);
    let with = |change: &dyn Fn(&mut p4::TableEntry)| {
        let mut entry = good.clone();
        change(&mut entry);
        Message::TableEntry(entry)
    };
    let key = |value: &[u8]| {
        let value = value.to_vec();
        Some(p4::field_match::FieldMatchType::Exact(p4::field_match::Exact { value }))
    };
    let action = |action: p4::Action| {
        let r#type = Some(p4::table_action::Type::Action(action));
        Some(p4::TableAction { r#type })
    };
    let fixed = controller.exact("fixed", &[0x88, 0xb7], controller.action("nop", &[]));
    let default = |table: &str, call: Option<p4::Action>| {
        Message::TableEntry(p4::TableEntry {
            table_id: controller.id(table),
            is_default_action: true,
            action: call.and_then(action),
            ..Default::default()
        })
    };
    let cases = [
        (Insert, with(&|e| e.table_id = 0x0200_0001), Code::NotFound),
        (Insert, with(&|e| e.r#match.clear()), Code::InvalidArgument),
        (Insert, with(&|e| e.r#match[0].field_id = 9), Code::InvalidArgument),
        (Insert, with(&|e| e.r#match[0].field_match_type = key(&[])), Code::OutOfRange),
        (Insert, with(&|e| e.r#match[0].field_match_type = key(&[1; 7])), Code::OutOfRange),
        (Insert, with(&|e| e.priority = 1), Code::InvalidArgument),
        (Insert, with(&|e| e.priority = -1), Code::InvalidArgument),
        (Insert, with(&|e| e.idle_timeout_ns = 5), Code::InvalidArgument),
        (Insert, with(&|e| e.action = None), Code::InvalidArgument),
        (
            Insert,
            with(&|e| e.action = action(p4::Action { action_id: 7, params: vec![] })),
            Code::InvalidArgument,
        ),
        (
            Insert,
            with(&|e| e.action = action(controller.action("nop", &[]))),
            Code::InvalidArgument,
        ),
        (
            Insert,
            with(&|e| e.action = action(controller.action("forward", &[]))),
            Code::InvalidArgument,
        ),
        (
            Insert,
            with(&|e| e.action = action(controller.action("forward", &[&[1, 0, 0]]))),
            Code::OutOfRange,
        ),
        (Insert, Message::TableEntry(fixed), Code::PermissionDenied),
        (Insert, default("fdb", Some(controller.action("drop", &[]))), Code::InvalidArgument),
        (Modify, default("fixed", Some(controller.action("drop", &[]))), Code::PermissionDenied),
        (
            Insert,
            Message::CounterEntry(p4::CounterEntry {
                counter_id: controller.id("ports"),
                index: Some(p4::Index { index: 1 }),
                data: Some(p4::CounterData::default()),
            }),
            Code::InvalidArgument,
        ),
        (
            Modify,
            Message::CounterEntry(p4::CounterEntry {
                counter_id: controller.id("ports"),
                index: Some(p4::Index { index: -1 }),
                data: Some(p4::CounterData::default()),
            }),
            Code::InvalidArgument,
        ),
        (
            Modify,
            Message::CounterEntry(p4::CounterEntry {
                counter_id: controller.id("ports"),
                index: Some(p4::Index { index: 8 }),
                data: Some(p4::CounterData::default()),
            }),
            Code::OutOfRange,
        ),
        (Insert, Message::ExternEntry(p4::ExternEntry::default()), Code::Unimplemented),
    ];
    let mut wrong = Vec::new();
    for (at, (kind, entity, expected)) in cases.into_iter().enumerate() {
        let failed = controller.write(vec![update(kind, entity)]);
        let found = failed.as_ref().err().map(|status| codes(status)[0]);
        if found != Some(expected) {
            wrong.push(format!("case {at}: {found:?} and not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let everything = p4::TableEntry { table_id: good.table_id, ..Default::default() };
    assert_eq!(controller.read(vec![Message::TableEntry(everything)]).unwrap(), []);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn packets_digests_and_registers_reach_the_controller() {
    let Some(_network) = private_network("P4Runtime streams") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    // A packet in, with its metadata.
    let entry = controller.exact("fdb", &A, controller.action("to_controller", &[]));
    controller.write(vec![insert(Message::TableEntry(entry))]).unwrap();
    let packet = frame(A, B, 0x1234);
    rig.wires[0].send(std::slice::from_ref(&packet));
    let FromDevice::Packet(found) = controller.next_message().unwrap() else { panic!("no packet") };
    assert_eq!(found.payload, packet);
    let metadata: Vec<_> =
        found.metadata.iter().map(|one| (one.metadata_id, one.value[0])).collect();
    assert_eq!(metadata, [(1, 1), (2, 3)], "port 1, reason 3");
    // A packet out.
    let metadata = |metadata_id, value: u8| p4::PacketMetadata { metadata_id, value: vec![value] };
    let out =
        p4::PacketOut { payload: packet.clone(), metadata: vec![metadata(1, 2), metadata(2, 0)] };
    controller.send(ToDevice::Packet(out));
    assert_eq!(rig.comes_out(), std::slice::from_ref(&packet));
    let short = p4::PacketOut { payload: packet.clone(), metadata: vec![metadata(1, 2)] };
    controller.send(ToDevice::Packet(short));
    let FromDevice::Error(error) = controller.next_message().unwrap() else { panic!("no error") };
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    // A digest, acknowledged.
    let digest_id = controller.id("learn");
    let config = p4::digest_entry::Config {
        max_timeout_ns: 0,
        max_list_size: 1,
        ack_timeout_ns: 60_000_000_000,
    };
    let digest = Message::DigestEntry(p4::DigestEntry { digest_id, config: Some(config) });
    let acl = p4::TableEntry {
        table_id: controller.id("acl"),
        r#match: Vec::new(),
        priority: 5,
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(controller.action("learn_it", &[]))),
        }),
        ..Default::default()
    };
    let out = Message::TableEntry(forward(&controller, B, 2));
    controller.write(vec![insert(digest), insert(out), insert(Message::TableEntry(acl))]).unwrap();
    let other = frame(B, A, 0x1234);
    for _ in 0..3 {
        rig.wires[0].send(std::slice::from_ref(&other));
    }
    let FromDevice::Digest(list) = controller.next_message().unwrap() else { panic!("no digest") };
    assert_eq!((list.digest_id, list.data.len()), (digest_id, 1));
    assert!(controller.message_within(Duration::from_millis(200)).is_none(), "not twice");
    controller.send(ToDevice::DigestAck(p4::DigestListAck { digest_id, list_id: list.list_id }));
    std::thread::sleep(Duration::from_millis(100));
    rig.wires[0].send(&[other]);
    let FromDevice::Digest(next) = controller.next_message().unwrap() else { panic!("no digest") };
    assert_ne!(next.list_id, list.list_id);
    // A register that packets count in, and that is written.
    let register_id = controller.id("seen");
    let cell = |data| {
        Message::RegisterEntry(p4::RegisterEntry {
            register_id,
            index: Some(p4::Index { index: 0 }),
            data,
        })
    };
    let bits = |value: &[u8]| {
        Some(p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(value.to_vec())) })
    };
    // 5 packets came in by port 1, and one packet out went through ingress too.
    assert_eq!(controller.read(vec![cell(None)]).unwrap(), [cell(bits(&[6]))]);
    controller.write(vec![update(Modify, cell(bits(&[1, 0])))]).unwrap();
    assert_eq!(controller.read(vec![cell(None)]).unwrap(), [cell(bits(&[1, 0]))]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn groups_members_action_sets_and_replicas_are_written_and_read_back() {
    let Some(_network) = private_network("P4Runtime groups") else { return };
    let rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let action_profile_id = controller.id("ways.profile");
    let member = |id: u32, port: u8| {
        Message::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id,
            member_id: id,
            action: Some(controller.action("forward", &[&[port]])),
        })
    };
    let in_group = |member_id, weight| p4::action_profile_group::Member {
        member_id,
        weight,
        watch_kind: None,
    };
    let group = Message::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id,
        group_id: 7,
        members: vec![in_group(1, 1), in_group(2, 3)],
        max_size: 0,
    });
    let mut way = controller.exact("ways", &[1], controller.action("forward", &[&[1]]));
    way.action =
        Some(p4::TableAction { r#type: Some(p4::table_action::Type::ActionProfileGroupId(7)) });
    let mut set = controller.exact("shots", &[2], controller.action("forward", &[&[1]]));
    let one = |port: u8, weight| p4::ActionProfileAction {
        action: Some(controller.action("forward", &[&[port]])),
        weight,
        watch_kind: None,
    };
    let actions = p4::ActionProfileActionSet {
        action_profile_actions: vec![one(1, 2), one(2, 5)],
        ..Default::default()
    };
    let does = p4::table_action::Type::ActionProfileActionSet(actions);
    set.action = Some(p4::TableAction { r#type: Some(does) });
    let replica = |port: u8| p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![port])),
        instance: port.into(),
        backup_replicas: Vec::new(),
    };
    let replication = |entry| {
        Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
            r#type: Some(entry),
        })
    };
    let multicast = replication(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(
        p4::MulticastGroupEntry {
            multicast_group_id: 9,
            replicas: vec![replica(1), replica(2)],
            metadata: vec![],
        },
    ));
    let session = replication(p4::packet_replication_engine_entry::Type::CloneSessionEntry(
        p4::CloneSessionEntry {
            session_id: 3,
            replicas: vec![replica(2)],
            class_of_service: 1,
            packet_length_bytes: 64,
        },
    ));
    let set_id = controller.id("known_types");
    let one_value = |value: &[u8]| p4::ValueSetMember {
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(
                p4::field_match::Exact { value: value.to_vec() },
            )),
        }],
    };
    let values = Message::ValueSetEntry(p4::ValueSetEntry {
        value_set_id: set_id,
        members: vec![one_value(&[8, 0]), one_value(&[0x86, 0xdd])],
    });
    let all = [
        member(1, 1),
        member(2, 2),
        group.clone(),
        Message::TableEntry(way.clone()),
        Message::TableEntry(set.clone()),
        multicast.clone(),
        session.clone(),
    ];
    let mut updates: Vec<p4::Update> = all.iter().cloned().map(insert).collect();
    updates.push(update(Modify, values.clone()));
    let members = [member(1, 1), member(2, 2)];
    controller.write(updates).unwrap();
    let empty =
        |message| controller_read(&mut Controller::connect(&rig.address, 1000).unwrap().0, message);
    assert_eq!(empty(Message::ActionProfileMember(Default::default())), members);
    assert_eq!(empty(Message::ActionProfileGroup(Default::default())), [group]);
    let of = |table_id| Message::TableEntry(p4::TableEntry { table_id, ..Default::default() });
    let shots = of(set.table_id);
    assert_eq!(empty(of(way.table_id)), [Message::TableEntry(way)]);
    assert_eq!(empty(shots.clone()), [Message::TableEntry(set.clone())]);
    assert_eq!(
        empty(Message::PacketReplicationEngineEntry(Default::default())),
        [multicast, session]
    );
    assert_eq!(empty(Message::ValueSetEntry(Default::default())), [values]);
    // What belongs to an action set goes with it.
    drop(controller);
    let mut controller = Controller::connect(&rig.address, 2000).unwrap().0;
    controller.write(vec![update(Delete, Message::TableEntry(set))]).unwrap();
    assert_eq!(controller_read(&mut controller, shots), []);
    rig.switch.end("TERM").expect(0, &[]);
}

fn controller_read(controller: &mut Controller, message: Message) -> Vec<Message> {
    controller.read(vec![message]).unwrap()
}

#[test]
fn a_pushed_program_runs_and_a_wrong_one_changes_nothing() {
    use p4::set_forwarding_pipeline_config_request::Action;
    let Some(_network) = private_network("P4Runtime pipelines") else { return };
    let mut rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    let entry = forward(&controller, A, 2);
    controller.write(vec![insert(Message::TableEntry(entry))]).unwrap();
    let before = controller.pipeline();
    let wrong = p4::ForwardingPipelineConfig {
        p4_device_config: b"nonsense".to_vec(),
        ..Default::default()
    };
    let refused = controller.push(Action::VerifyAndCommit, Some(wrong)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("wireyard pack"), "{}", refused.message());
    let mut demanding = before.clone();
    let properties =
        PlatformProperties { multicast_group_table_size: i32::MAX, ..Default::default() };
    let package = demanding.p4info.get_or_insert_default().pkg_info.get_or_insert_default();
    package.platform_properties = Some(properties);
    let refused = controller.push(Action::VerifyAndCommit, Some(demanding)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("multicast_group_table_size"), "{}", refused.message());
    assert_eq!(controller.push(Action::Commit, None).unwrap_err().code(), Code::NotFound);
    let packet = frame(A, B, 0x1234);
    assert_eq!(rig.passes(&packet).len(), 1, "the entry is there");
    // The same program again keeps its state, or begins anew.
    let cookie = Some(p4::forwarding_pipeline_config::Cookie { cookie: 42 });
    let same = p4::ForwardingPipelineConfig { cookie, ..before.clone() };
    controller.push(Action::ReconcileAndCommit, Some(same.clone())).unwrap();
    assert_eq!(rig.passes(&packet).len(), 1, "reconciling keeps entries");
    assert_eq!(controller.pipeline().cookie.map(|cookie| cookie.cookie), Some(42));
    controller.push(Action::VerifyAndSave, Some(same)).unwrap();
    assert_eq!(rig.passes(&packet).len(), 1, "what is saved does not run");
    controller.push(Action::Commit, None).unwrap();
    rig.wires[0].send(&[packet]);
    assert!(rig.wires[1].receive_unexpected().is_empty(), "a committed program begins anew");
    rig.switch.end("TERM").expect(0, &[]);
}

/// Runs a session of somebody else's controller with the switch.
pub(crate) fn session(client: &str, script: &str, program: &str, more: &[&str]) {
    let test = format!("a session of {client}: {script}");
    let python = wireyard_tests::workspace_root().join(format!("target/tools/{client}/bin/python"));
    if !python.exists() {
        let why = format!("there is no {} (`./ci.sh tools` installs it)", python.display());
        return wireyard_tests::skip(&test, &why);
    }
    let Some(_network) = private_network(&test) else { return };
    let rig = rig(program, more);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (info, blob) = (path("p4info.txt"), path("program.bin"));
    wireyard_tests::binary::run(&["p4info", program, "-o", &info]).expect(0, &[]);
    wireyard_tests::binary::run(&["pack", program, "-o", &blob]).expect(0, &[]);
    let script = format!("tests/data/p4runtime/{script}.py");
    let done = std::process::Command::new("timeout")
        .arg("60")
        .arg(python)
        .args([&script, &rig.address, &info, &blob])
        .current_dir(wireyard_tests::workspace_root())
        .output()
        .expect("python runs");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("done"), "{out}{err}");
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn finsy_steers_the_switch() {
    session("finsy", "finsy_session", PROGRAM, &[]);
}

#[test]
fn p4runtime_shell_steers_the_switch() {
    session("shell", "shell_session", PROGRAM, &[]);
}

#[test]
fn finsy_pushes_json_of_bmv2_and_steers_it() {
    session("finsy", "finsy_bmv2", "tests/data/bmv2/state.json", &[]);
}

#[test]
fn p4runtime_shell_pushes_json_of_bmv2_and_steers_it() {
    session("shell", "shell_bmv2", "tests/data/bmv2/ways.json", &[]);
}

#[test]
fn finsy_with_a_p4info_of_its_own_and_gnmi() {
    session("finsy", "finsy_own_info", "tests/data/p4runtime/basic.yaml", &["--gnmi"]);
}

#[test]
fn the_program_of_the_page_has_the_metadata_that_it_says() {
    let page = wireyard_tests::workspace_root().join("programs/p4runtime.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("the end of the example");
    let loaded = wireyard_switch::program::from_text("page.yaml", example).unwrap();
    let info = wireyard_switch::p4runtime::info::p4info(&loaded.program);
    let names: Vec<(String, Vec<String>)> = info
        .controller_packet_metadata
        .iter()
        .map(|one| {
            let fields =
                one.metadata.iter().map(|field| format!("{}:{}", field.name, field.bitwidth));
            (one.preamble.as_ref().unwrap().name.clone(), fields.collect())
        })
        .collect();
    let one = |name: &str, field: &str| (name.to_owned(), vec![field.to_owned()]);
    assert_eq!(names, [one("packet_in", "ingress_port:16"), one("packet_out", "egress_port:16")]);
}

#[test]
fn p4info_has_the_same_ids_whatever_the_order_of_declarations() {
    let text = |tables: [&str; 2]| {
        let [one, two] = tables.map(|name| {
            format!("  {name}: {{ key: {{ std.ingress_port: exact }}, actions: [nop], default: nop, size: 4 }}\n")
        });
        format!(
            "pipeline: p\ntables:\n{one}{two}ingress: [ {{ apply: a }}, {{ apply: b }}, drop ]\n"
        )
    };
    let ids = |tables: [&str; 2]| {
        let loaded = wireyard_switch::program::from_text("p.yaml", &text(tables)).unwrap();
        let info = wireyard_switch::p4runtime::info::p4info(&loaded.program);
        let tables = info.tables.iter().filter_map(|table| table.preamble.clone());
        let mut ids: Vec<_> = tables.map(|preamble| (preamble.name, preamble.id)).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(["a", "b"]), ids(["b", "a"]));
}
