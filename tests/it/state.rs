//! `run --state`: what was acknowledged is there after the process was killed, and nothing by half; stores that cannot be used.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise. `WIREYARD_KILLS=200` kills more often.

use std::path::Path;
use std::time::Duration;

use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, codes, insert, update};

use crate::p4runtime::{PROGRAM, address, forward, frame};
use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::update::Type::{Delete, Modify};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn cables() {
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
}

fn start_under(wrapper: &[&str], program: &str, state: &Path) -> Switch {
    let state = state.to_str().unwrap();
    let ports = ["--port", "1=raw:a1", "--port", "2=raw:b1"];
    let more = ["--p4runtime", "127.0.0.1:0", "--state", state];
    Switch::start_under(wrapper, &[&[program], &ports[..], &more].concat())
}

fn start(program: &str, state: &Path) -> Switch {
    start_under(&[], program, state)
}

fn primary(switch: &Switch) -> Controller {
    Controller::connect(&address(switch), 1).expect("a stream").0
}

/// Entries of a batch: which batch, and where in it.
const BATCH: u32 = 40;

fn key(batch: u32, at: u32) -> [u8; 6] {
    let [_, a, b, c] = batch.to_be_bytes();
    [2, a, b, c, 0, at as u8]
}

/// Batches of which entries of table fdb are there, with how many.
fn batches(controller: &mut Controller) -> std::collections::BTreeMap<u32, u32> {
    let table = p4::TableEntry { table_id: controller.id("fdb"), ..Default::default() };
    let mut found = std::collections::BTreeMap::new();
    for message in controller.read(vec![Message::TableEntry(table)]).unwrap() {
        let Message::TableEntry(entry) = message else { panic!("{message:?}") };
        let Some(p4::field_match::FieldMatchType::Exact(exact)) =
            &entry.r#match[0].field_match_type
        else {
            panic!("{entry:?}")
        };
        let batch = u32::from_be_bytes([0, exact.value[1], exact.value[2], exact.value[3]]);
        *found.entry(batch).or_insert(0) += 1;
    }
    found
}

#[test]
fn acknowledged_batches_survive_a_kill_and_none_is_half() {
    let Some(_network) = private_network("state after kills") else { return };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let kills = std::env::var("WIREYARD_KILLS").map_or(10, |n| n.parse::<u32>().expect("a number"));
    let (mut next, mut sure, mut cut) = (0u32, std::collections::BTreeSet::new(), 0);
    for round in 0..=kills {
        let switch = start(PROGRAM, &state);
        let mut controller = primary(&switch);
        let found = batches(&mut controller);
        assert!(found.values().all(|entries| *entries == BATCH), "half of a batch: {found:?}");
        let lost: Vec<&u32> = sure.iter().filter(|batch| !found.contains_key(batch)).collect();
        assert!(lost.is_empty(), "round {round}: lost {lost:?}");
        // What was not acknowledged may be there: whole.
        sure.extend(found.keys().copied());
        if round == kills {
            switch.end("TERM").expect(0, &[]);
            break;
        }
        // It dies in the middle of the stream, sooner or later in it.
        let pid = switch.pid().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(u64::from(5 + round * 37 % 120)));
            let done = std::process::Command::new("kill").args(["-s", "KILL", &pid]).status();
            assert!(done.unwrap().success());
        });
        loop {
            let entries = (0..BATCH)
                .map(|at| insert(Message::TableEntry(forward(&controller, key(next, at), 2))));
            let mut request = controller.write_request(entries.collect());
            request.atomicity = (next % 3) as i32;
            let done = controller.request(request);
            next += 1;
            if let Err(status) = done {
                assert!(codes_or_none(&status).is_empty(), "{status:?}");
                cut += 1;
                break;
            }
            sure.insert(next - 1);
        }
        killer.join().unwrap();
    }
    assert_eq!(cut, kills, "every kill was in the middle of the stream");
    assert!(sure.len() as u32 > kills, "batches were acknowledged: {}", sure.len());
}

/// Codes of updates: there are none where the switch has gone.
fn codes_or_none(status: &tonic::Status) -> Vec<Code> {
    if status.details().is_empty() { Vec::new() } else { codes(status) }
}

fn replication(entry: Replication) -> Message {
    let r#type = Some(entry);
    Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type })
}

/// One of every kind of object.
fn objects(controller: &Controller) -> Vec<p4::Update> {
    let profile = controller.id("ways.profile");
    let port = |port: u8| Some(p4::replica::PortKind::Port(vec![port]));
    let replica = |number: u8| p4::Replica { port_kind: port(number), ..Default::default() };
    let rates =
        Some(p4::MeterConfig { cir: 1000, cburst: 2000, pir: 3000, pburst: 4000, eburst: 0 });
    let bits =
        |bytes: &[u8]| p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(bytes.to_vec())) };
    let member = p4::ActionProfileMember {
        action_profile_id: profile,
        member_id: 3,
        action: Some(controller.action("forward", &[&[2]])),
    };
    let in_group = p4::action_profile_group::Member { member_id: 3, weight: 2, watch_kind: None };
    let group = p4::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 4,
        members: vec![in_group],
        max_size: 7,
    };
    let mut way = controller.exact("ways", &[1], controller.action("forward", &[&[1]]));
    let by = |kind| Some(p4::TableAction { r#type: Some(kind) });
    way.action = by(p4::table_action::Type::ActionProfileGroupId(4));
    let mut shot = controller.exact("shots", &[2], controller.action("forward", &[&[1]]));
    let one = p4::ActionProfileAction {
        action: Some(controller.action("forward", &[&[1]])),
        weight: 5,
        watch_kind: None,
    };
    let set =
        p4::ActionProfileActionSet { action_profile_actions: vec![one], ..Default::default() };
    shot.action = by(p4::table_action::Type::ActionProfileActionSet(set));
    let default = p4::TableEntry {
        table_id: controller.id("acl"),
        action: by(p4::table_action::Type::Action(controller.action("drop", &[]))),
        is_default_action: true,
        ..Default::default()
    };
    let value = p4::field_match::Exact { value: vec![8, 6] };
    let known = p4::FieldMatch {
        field_id: 1,
        field_match_type: Some(p4::field_match::FieldMatchType::Exact(value)),
    };
    let metered = p4::TableEntry {
        meter_config: rates,
        metadata: b"mine".to_vec(),
        ..forward(controller, A, 2)
    };
    let index = Some(p4::Index { index: 2 });
    vec![
        insert(Message::TableEntry(metered)),
        insert(Message::ActionProfileMember(member)),
        insert(Message::ActionProfileGroup(group)),
        insert(Message::TableEntry(way)),
        insert(Message::TableEntry(shot)),
        update(Modify, Message::TableEntry(default)),
        update(
            Modify,
            Message::ValueSetEntry(p4::ValueSetEntry {
                value_set_id: controller.id("known_types"),
                members: vec![p4::ValueSetMember { r#match: vec![known] }],
            }),
        ),
        insert(replication(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: 7,
            replicas: vec![replica(1), replica(2)],
            metadata: b"group".to_vec(),
        }))),
        insert(replication(Replication::CloneSessionEntry(p4::CloneSessionEntry {
            session_id: 8,
            replicas: vec![replica(2), replica(1)],
            class_of_service: 3,
            packet_length_bytes: 64,
        }))),
        update(
            Modify,
            Message::MeterEntry(p4::MeterEntry {
                meter_id: controller.id("police"),
                index,
                config: rates,
                counter_data: None,
            }),
        ),
        update(
            Modify,
            Message::CounterEntry(p4::CounterEntry {
                counter_id: controller.id("ports"),
                index: Some(p4::Index { index: 5 }),
                data: Some(p4::CounterData { byte_count: 11, packet_count: 12 }),
            }),
        ),
        update(
            Modify,
            Message::RegisterEntry(p4::RegisterEntry {
                register_id: controller.id("seen"),
                index,
                data: Some(bits(&[1, 2])),
            }),
        ),
    ]
}

/// Everything that a controller can read, but what packets change.
fn everything(controller: &mut Controller) -> Vec<Message> {
    let default = p4::TableEntry { is_default_action: true, ..Default::default() };
    let entries =
        p4::TableEntry { meter_config: Some(p4::MeterConfig::default()), ..Default::default() };
    let cell = |index| Some(p4::Index { index });
    let wanted = vec![
        Message::TableEntry(entries),
        Message::TableEntry(default),
        Message::ActionProfileMember(p4::ActionProfileMember::default()),
        Message::ActionProfileGroup(p4::ActionProfileGroup::default()),
        Message::ValueSetEntry(p4::ValueSetEntry::default()),
        Message::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry::default()),
        Message::MeterEntry(p4::MeterEntry::default()),
        Message::CounterEntry(p4::CounterEntry {
            counter_id: controller.id("ports"),
            index: cell(5),
            data: None,
        }),
        Message::RegisterEntry(p4::RegisterEntry {
            register_id: controller.id("seen"),
            index: cell(2),
            data: None,
        }),
    ];
    controller.read(wanted).unwrap()
}

#[test]
fn every_kind_of_object_and_the_pushed_program_come_back() {
    use p4::set_forwarding_pipeline_config_request::Action;
    let Some(_network) = private_network("state of every kind") else { return };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let switch = start(PROGRAM, &state);
    let mut controller = primary(&switch);
    let other = wireyard_tests::binary::run(&[
        "run",
        PROGRAM,
        "--port",
        "1=raw:b0",
        "--state",
        state.to_str().unwrap(),
    ]);
    other.expect(2, &["another process has it"]);
    let objects = objects(&controller);
    controller.write(objects).unwrap();
    let gone = forward(&controller, B, 2);
    controller.write(vec![insert(Message::TableEntry(gone.clone()))]).unwrap();
    controller.write(vec![update(Delete, Message::TableEntry(gone))]).unwrap();
    let before = everything(&mut controller);
    assert!(before.len() >= 20, "{before:?}");
    switch.end("KILL");
    let switch = start(PROGRAM, &state);
    let mut controller = primary(&switch);
    assert_eq!(everything(&mut controller), before);
    let mut wires = [Wire::open("raw:a0"), Wire::open("raw:b0")];
    // The kept default of the access list drops; without it packets go by the kept entry.
    wires[0].send(&[frame(A, B, 0x1234)]);
    assert!(wires[1].receive_unexpected().is_empty(), "packets meet the default");
    let access = |controller: &Controller, name: &str| {
        let action = p4::table_action::Type::Action(controller.action(name, &[]));
        let entry = p4::TableEntry {
            table_id: controller.id("acl"),
            action: Some(p4::TableAction { r#type: Some(action) }),
            is_default_action: true,
            ..Default::default()
        };
        update(Modify, Message::TableEntry(entry))
    };
    controller.write(vec![access(&controller, "nop")]).unwrap();
    wires[0].send(&[frame(A, B, 0x1234)]);
    assert_eq!(wires[1].receive(1).len(), 1, "packets meet the entries");
    controller.write(vec![access(&controller, "drop")]).unwrap();
    // A pushed program runs again; what was written to it is there.
    let text = std::fs::read_to_string(wireyard_tests::workspace_root().join(PROGRAM)).unwrap();
    let text = text.replace("pipeline: controlled", "pipeline: pushed");
    let pushed = folder.path().join("pushed.yaml");
    std::fs::write(&pushed, text).unwrap();
    let blob = folder.path().join("blob");
    let (pushed, blob_path) = (pushed.to_str().unwrap(), blob.to_str().unwrap());
    wireyard_tests::binary::run(&["pack", pushed, "-o", blob_path]).expect(0, &[]);
    let config = p4::ForwardingPipelineConfig {
        p4_device_config: std::fs::read(&blob).unwrap(),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: 77 }),
        ..Default::default()
    };
    controller.push(Action::VerifyAndCommit, Some(config)).unwrap();
    let counted = p4::CounterEntry {
        counter_id: controller.id("ports"),
        index: Some(p4::Index { index: 5 }),
        data: Some(p4::CounterData { byte_count: 11, packet_count: 12 }),
    };
    let entry = insert(Message::TableEntry(forward(&controller, B, 1)));
    controller.write(vec![entry, update(Modify, Message::CounterEntry(counted))]).unwrap();
    let before = everything(&mut controller);
    switch.end("KILL");
    let switch = start(PROGRAM, &state);
    let mut controller = primary(&switch);
    let config = controller.pipeline();
    assert_eq!(config.cookie.map(|cookie| cookie.cookie), Some(77));
    assert_eq!(config.p4info.unwrap().pkg_info.unwrap().name, "pushed");
    assert_eq!(everything(&mut controller), before);
    switch.end("TERM").expect(0, &[]);
    // The user changes the program: it runs, and what fits of the entries is there.
    let changed = std::fs::read_to_string(pushed).unwrap();
    let changed = changed.replace("ports: { size: 8 }", "ports: { size: 4 }");
    // Under another name it is another program, and the store is not emptied for it.
    let named = changed.replace("pipeline: pushed", "pipeline: new");
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, named).unwrap();
    let (other, state_path) = (other.to_str().unwrap(), state.to_str().unwrap());
    let run = ["run", other, "--port", "1=raw:a1", "--port", "2=raw:b1", "--state", state_path];
    let refused = wireyard_tests::binary::run(&run);
    refused.expect(2, &["of program pushed", "do not fit new", "nothing is changed"]);
    std::fs::write(pushed, changed).unwrap();
    let switch = start(pushed, &state);
    let mut controller = primary(&switch);
    let err = switch.err();
    for text in [
        "in the place of the one that a controller pushed",
        "not kept: counter ports has 4 cells and no cell 5",
    ] {
        assert!(err.contains(text), "{err}");
    }
    assert_eq!(batches(&mut controller).len(), 1, "the entry of fdb");
    switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_store_that_cannot_be_used_is_told_and_no_write_is_acknowledged() {
    let Some(_network) = private_network("state that is damaged") else { return };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let state = |name: &str| folder.path().join(name);
    let file = |name: &str| state(name).join("state.redb");
    for name in ["good", "newer", "corrupt", "garbage"] {
        std::fs::create_dir(state(name)).unwrap();
    }
    let switch = start(PROGRAM, &state("good"));
    let mut controller = primary(&switch);
    controller.write(vec![insert(Message::TableEntry(forward(&controller, A, 2)))]).unwrap();
    switch.end("TERM").expect(0, &[]);
    let bytes = std::fs::read(file("good")).unwrap();
    std::fs::write(file("garbage"), [7; 70_000]).unwrap();
    // All pages but the first are lost.
    let zeros = bytes.iter().enumerate().map(|(at, byte)| if at < 4096 { *byte } else { 0 });
    std::fs::write(file("corrupt"), zeros.collect::<Vec<u8>>()).unwrap();
    std::fs::write(file("newer"), &bytes).unwrap();
    wireyard_tests::store::set_format(&file("newer"), 2);
    for (name, why) in [
        ("garbage", "cannot be read"),
        ("corrupt", "cannot be read"),
        ("newer", "format 2, and this switch reads format 1"),
    ] {
        let before = std::fs::read(file(name)).unwrap();
        let switch = start(PROGRAM, &state(name));
        let err = switch.err();
        assert!(err.contains(why) && err.contains("refuses writes"), "{name}: {err}");
        refuses(&switch, name);
        switch.end("TERM").expect(0, &[]);
        if name != "newer" {
            assert_eq!(before, std::fs::read(file(name)).unwrap(), "{name} is left as it is");
        }
    }
    let switch = start(PROGRAM, &state("newer"));
    assert!(switch.err().contains("format 2"), "it was left as it is");
    switch.end("TERM").expect(0, &[]);
    // A disk that is full after some writes: a file of 8 MiB is as large as one may be.
    let limit = ["bash", "-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "full"];
    let mut switch = start_under(&limit, PROGRAM, &state("full"));
    let mut controller = primary(&switch);
    let (mut good, mut refused) = (0, None);
    for batch in 0..400 {
        let metadata = vec![1; 1000];
        let entries = (0..BATCH).map(|at| p4::TableEntry {
            metadata: metadata.clone(),
            ..forward(&controller, key(batch, at), 2)
        });
        let request = entries.map(|entry| insert(Message::TableEntry(entry))).collect();
        match controller.write(request) {
            Ok(()) => good += 1,
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
    }
    let refused = refused.expect("8 MiB are not enough");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(refused.message().contains("not kept"), "{refused:?}");
    // The log is written beside the answer.
    switch.await_text("writes are refused from now on", Duration::from_secs(5));
    refuses(&switch, "full");
    switch.end("TERM").expect(0, &[]);
    let switch = start(PROGRAM, &state("full"));
    let mut controller = primary(&switch);
    let found = batches(&mut controller);
    assert!(good > 0 && found.len() >= good, "{good} of {}", found.len());
    assert!(found.values().all(|entries| *entries == BATCH), "{found:?}");
    switch.end("TERM").expect(0, &[]);
}

/// It forwards, is read, and writes nothing.
fn refuses(switch: &Switch, name: &str) {
    let mut controller = Controller::connect(&address(switch), 9).expect("a stream").0;
    let entry = insert(Message::TableEntry(forward(&controller, B, 2)));
    let refused = controller.write(vec![entry]).unwrap_err();
    assert_eq!(codes(&refused), [Code::Unavailable], "{name}");
    assert!(!everything(&mut controller).is_empty(), "{name}");
}

/// Settings of queues and ports that were made by command are in force after a kill; what the configuration does not allow any more is said.
#[test]
fn settings_of_queues_and_ports_come_back() {
    let Some(_network) = private_network("state of settings") else { return };
    cables();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let ports = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }\n";
    std::fs::write(&config, format!("{ports}qos: {{ preset: sonic_azure }}\n")).unwrap();
    let [state, config_text] =
        [folder.path().join("state"), config.clone()].map(|it| it.display().to_string());
    let start = || {
        let arguments = ["--config", &config_text, "--state", &state];
        Switch::on(PROGRAM, &["1=raw:a1", "2=raw:b1"], &arguments)
    };
    let switch = start();
    let does = |switch: &Switch, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        switch.command(&words).expect(0, &[]);
    };
    does(&switch, "queue set 2 4 kmin=10KB kmax=20KB pmax=50% alpha=1/4");
    does(&switch, "queue set 2 4 limit=100KB xon_at=50KB");
    does(&switch, "queue set 2 port rate=100Mbit/s pfc=3");
    does(&switch, "port down 1");
    does(&switch, "port down 2");
    does(&switch, "port up 2");
    switch.command(&["queue", "set", "2", "4", "xon_at=200KB"]).expect(2, &["XON"]);
    let list = |switch: &Switch| switch.objects(&["queue", "list", "2"]);
    let before = list(&switch);
    assert_eq!((&before[4]["kmin"], &before[4]["limit"]), (&"10 KB".into(), &"100 KB".into()));
    switch.end("KILL");
    let mut switch = start();
    switch.await_text("3 settings of queues and ports are back", Duration::from_secs(10));
    let (said, place) = (switch.err(), |text: &str| switch.err().find(text));
    assert!(
        place("3 settings of queues and ports are back") < place(" runs on "),
        "they are there before anybody is answered: {said}"
    );
    assert_eq!(list(&switch), before);
    let shut: Vec<_> =
        switch.objects(&["port", "list"]).iter().map(|port| port["shut"].clone()).collect();
    assert_eq!(shut, [true, false]);
    switch.end("TERM").expect(0, &[]);
    // Without queues they mean nothing, and stay for a configuration that has some.
    std::fs::write(&config, ports).unwrap();
    let mut switch = start();
    switch.await_text("settings: not made: port 2", Duration::from_secs(10));
    // What is saved is what this switch has, so that it takes the file.
    let saved = folder.path().join("saved.yaml").display().to_string();
    does(&switch, &format!("save -o {saved}"));
    let text = std::fs::read_to_string(&saved).unwrap();
    assert!(text.contains("settings:\n  - { port: 1, set: [\"shut=true\"] }\n#"), "{text}");
    assert!(text.contains("could not be made: port 2 queue 4: kmax=20KB"), "{text}");
    does(&switch, &format!("restore {saved}"));
    switch.end("TERM").expect(0, &[]);
    std::fs::write(&config, format!("{ports}qos: {{ preset: sonic_azure }}\n")).unwrap();
    let mut switch = start();
    switch.await_text("3 settings of queues and ports are back", Duration::from_secs(10));
    assert_eq!(list(&switch), before);
    switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_file_in_the_place_of_the_folder_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state").display().to_string();
    std::fs::write(&file, "notes").unwrap();
    let output = format!("1=pcap:,out={}", folder.path().join("out.pcap").display());
    let ended = wireyard_tests::binary::run(&[
        "run",
        PROGRAM,
        "--port",
        &output,
        "--control",
        "none",
        "--state",
        &file,
    ]);
    ended.expect(2, &[&format!("--state {file}: it is a file: name a folder")]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
}
