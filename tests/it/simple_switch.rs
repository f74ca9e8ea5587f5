//! `simple-switch-grpc`: started as bmv2's switch is, by a link of its name, without a program until a controller pushes one.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::process::Command;
use std::time::Duration;

use prost::Message as _;
use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::config::v1::{Action, P4Info};
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::binary::{run, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, insert};
use wireyard_tests::{skip, workspace_root};

use crate::p4_controlled::outputs;
use crate::p4runtime::{Rig, address, frame};
use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::set_forwarding_pipeline_config_request::Action as SetAction;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

#[test]
fn a_switch_without_a_program_gets_one_from_its_controller() {
    let Some(_network) = private_network("simple-switch-grpc") else { return };
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let captures = tempfile::tempdir().unwrap();
    let folder = captures.path().to_str().unwrap();
    let switch = Switch::simple_switch_grpc(&[
        "-i",
        "1@a1",
        "-i",
        "2@b1",
        "--no-p4",
        "--pcap",
        folder,
        "--device-id",
        "1",
        "--log-console",
        "--thrift-port",
        "9090",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
        "--cpu-port",
        "255",
    ]);
    assert!(switch.err().contains("no Thrift server"), "{}", switch.err());
    let socket = switch.run_folder().join("device_1.sock");
    assert!(socket.exists(), "{}: {}", socket.display(), switch.err());
    let address = address(&switch);
    let wires = [Wire::open("raw:a0"), Wire::open("raw:b0")];
    let mut rig = Rig { switch, address, wires };
    let (mut controller, standing) = Controller::connect(&rig.address, 1).expect("a stream");
    assert_eq!(standing, 0);
    let absent = controller.try_pipeline().unwrap_err();
    assert_eq!(absent.code(), Code::FailedPrecondition);
    assert!(absent.message().contains("no forwarding pipeline config"), "{absent}");
    let read = controller.read(vec![Message::TableEntry(p4::TableEntry::default())]);
    assert_eq!(read.unwrap_err().code(), Code::FailedPrecondition);
    let entry = Message::TableEntry(p4::TableEntry::default());
    assert_eq!(controller.write(vec![insert(entry)]).unwrap_err().code(), Code::FailedPrecondition);
    let (info, blob) = outputs();
    let config = |p4_device_config| p4::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config,
        cookie: None,
    };
    let json =
        controller.push(SetAction::VerifyAndCommit, Some(config(b"{}".to_vec()))).unwrap_err();
    assert!(json.message().contains("no program for bmv2"), "{json}");
    assert!(rig.switch.err().contains("a pushed program was refused"), "{}", rig.switch.err());
    // What scripts of bmv2 push, which read text.
    let text = captures.path().join("program.json");
    run(&["pack", crate::p4_controlled::PROGRAM, "-o", text.to_str().unwrap()]).expect(0, &[]);
    let text = std::fs::read_to_string(text).expect("a text");
    controller.push(SetAction::VerifyAndCommit, Some(config(text.into_bytes()))).unwrap();
    assert_eq!(controller.pipeline().p4info.expect("a P4Info"), info);
    // As controllers of bmv2 wrap it: P4DeviceConfig, whose third field has the data.
    let mut wrapped = vec![8, 1, 0x1a];
    prost::encode_length_delimiter(blob.len(), &mut wrapped).unwrap();
    wrapped.extend(blob);
    controller.push(SetAction::VerifyAndCommit, Some(config(wrapped))).unwrap();
    controller.info = controller.pipeline().p4info.expect("a P4Info");
    assert_eq!(controller.info, info);
    let counted = controller.action("Steered.counted", &[&[2]]);
    let entry = controller.exact("Steered.fwd", &A, counted);
    controller.write(vec![insert(Message::TableEntry(entry))]).unwrap();
    let packet = frame(A, B, 0x0800);
    assert_eq!(rig.passes(&packet), [packet]);
    rig.switch.end("TERM").expect(0, &[]);
    let capture = captures.path().join("b1.pcapng");
    assert!(std::fs::metadata(&capture).is_ok_and(|file| file.len() > 100), "{capture:?}");
}

/// As control planes are tested: `simple_switch_grpc --no-p4 -- --grpc-server-addr ..`, with no interface. A shell or
/// Mininet that goes ends it by SIGHUP.
#[test]
fn a_switch_without_ports_serves_its_controller_and_ends_by_a_hangup() {
    let program = workspace_root().join("tests/data/bmv2/basic.json");
    let program = program.to_str().unwrap();
    let mut switch = Switch::simple_switch_grpc(&[
        program,
        "--device-id",
        "1",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
    ]);
    assert!(switch.err().contains("no port yet"), "{}", switch.err());
    assert!(switch.run_folder().join("device_1.sock").exists(), "{}", switch.err());
    let address = address(&switch);
    let (mut controller, standing) = Controller::connect(&address, 1).expect("a stream");
    assert_eq!(standing, 0);
    let config = p4::ForwardingPipelineConfig {
        p4info: Some(numbered_info()),
        p4_device_config: std::fs::read(program).unwrap(),
        cookie: None,
    };
    controller.push(SetAction::VerifyAndCommit, Some(config)).unwrap();
    controller.write(vec![insert(Message::TableEntry(route()))]).unwrap();
    switch.await_text("basic runs in the place of basic", Duration::from_secs(10));
    drop(controller);
    switch.end(hangup()).expect(0, &[]);
}

/// SIGHUP; SIGTERM where the tests run under nohup(1), whose children ignore the former as it wants.
fn hangup() -> &'static str {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    match u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 {
        0 => "HUP",
        _ => "TERM",
    }
}

#[test]
fn errors_of_the_start_name_the_options_that_were_given() {
    let start = |target: &str| {
        let words = format!("simple-switch-grpc --no-p4 -- {target}");
        run(&words.split(' ').collect::<Vec<_>>())
    };
    let files = "--grpc-server-cert nowhere.crt --grpc-server-key nowhere.key";
    start(&format!("--grpc-server-addr 127.0.0.1:0 --grpc-server-ssl {files}"))
        .expect(2, &["--grpc-server-cert nowhere.crt: No such file"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--grpc-server-addr {}", taken.local_addr().unwrap());
    start(&taken).expect(2, &[&format!("{taken}: ")]);
}

/// Starts a switch without a program, and two hosts that ping each other once a controller has pushed it.
fn hosts_ping(test: &str, controller: &str, info_of: &str, blob: impl Fn(&str)) {
    let python = workspace_root().join("target/tools/shell/bin/python");
    if !python.exists() {
        return skip(test, "p4runtime-shell is not there (`./ci.sh tools` installs it)");
    }
    let has = Command::new("/usr/bin/python3").args(["-c", "import mininet.net"]).output();
    if !has.is_ok_and(|done| done.status.success()) {
        return skip(test, "Mininet is not there (Debian: mininet)");
    }
    let Some(_network) = private_network(test) else { return };
    ip("link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(wireyard(), path("simple_switch_grpc")).unwrap();
    run(&["p4info", info_of, "-o", &path("info.txt")]).expect(0, &[]);
    blob(&path("blob"));
    let done = Command::new("timeout")
        .args(["90", "/usr/bin/python3", "tests/data/p4runtime/mininet_ping.py"])
        .arg(folder.path())
        .arg(python)
        .args([controller, &path("info.txt"), &path("blob")])
        .current_dir(workspace_root())
        .output()
        .expect("python runs");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let log = std::fs::read_to_string(path("switch.log")).unwrap_or_default();
    assert!(done.status.success() && out.contains("done"), "{out}{err}{log}");
}

#[test]
fn hosts_of_mininet_ping_through_a_switch_that_a_controller_programs() {
    let program = "tests/data/p4runtime/controlled.p4";
    let controller = "tests/data/p4runtime/ping_controller.py";
    hosts_ping("hosts of Mininet ping", controller, program, |blob| {
        run(&["pack", program, "-o", blob]).expect(0, &[]);
    });
}

#[test]
fn hosts_of_mininet_ping_through_json_of_bmv2_that_a_controller_pushes() {
    let source = "tests/data/bmv2/basic.p4";
    let controller = "tests/data/p4runtime/routes_controller.py";
    hosts_ping("hosts of Mininet ping through JSON", controller, source, |blob| {
        std::fs::copy(workspace_root().join("tests/data/bmv2/basic.json"), blob).unwrap();
    });
}

/// A P4Info as p4c makes it of a source with numbers of its own: a table, a key, an action and its parameters.
fn numbered_info() -> P4Info {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("info");
    let args = ["p4info", "tests/data/bmv2/basic.p4", "--format", "binary", "-o"];
    run(&[&args[..], &[path.to_str().unwrap()]].concat()).expect(0, &[]);
    let mut info = P4Info::decode(std::fs::read(path).unwrap().as_slice()).unwrap();
    let is_forward = |one: &&mut Action| one.preamble.as_ref().unwrap().alias == "ipv4_forward";
    let forward = info.actions.iter_mut().find(is_forward).unwrap();
    let preamble = forward.preamble.as_mut().unwrap();
    let old = std::mem::replace(&mut preamble.id, FORWARD);
    forward.params.iter_mut().for_each(|param| param.id += 6);
    let table = &mut info.tables[0];
    table.preamble.as_mut().unwrap().id = TABLE;
    table.match_fields[0].id = 4;
    table.action_refs.iter_mut().filter(|one| one.id == old).for_each(|one| one.id = FORWARD);
    info
}

const TABLE: u32 = 0x0200_0777;
const FORWARD: u32 = 0x0100_0888;

/// To 10.1.2.0/24 by port 2.
fn route() -> p4::TableEntry {
    let lpm = p4::field_match::Lpm { value: vec![10, 1, 2, 0], prefix_len: 24 };
    let field_match_type = Some(p4::field_match::FieldMatchType::Lpm(lpm));
    let param = |param_id, value: &[u8]| p4::action::Param { param_id, value: value.to_vec() };
    let params = vec![param(7, &B), param(8, &[2])];
    let action = p4::Action { action_id: FORWARD, params };
    p4::TableEntry {
        table_id: TABLE,
        r#match: vec![p4::FieldMatch { field_id: 4, field_match_type }],
        action: Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) }),
        ..Default::default()
    }
}

#[test]
fn json_of_bmv2_is_pushed_with_the_p4info_that_p4c_made_and_both_come_back() {
    let Some(_network) = private_network("JSON of bmv2, pushed") else { return };
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let start = || {
        let more = ["--p4runtime", "127.0.0.1:0", "--state", state.to_str().unwrap()];
        let first = "tests/data/p4runtime/program.yaml";
        let switch = Switch::on(first, &["1=raw:a1", "2=raw:b1"], &more);
        let address = address(&switch);
        Rig { switch, address, wires: [Wire::open("raw:a0"), Wire::open("raw:b0")] }
    };
    let rig = start();
    let mut controller = rig.primary();
    let json = std::fs::read(workspace_root().join("tests/data/bmv2/basic.json")).unwrap();
    let info = numbered_info();
    let config = |info: &P4Info, blob: &[u8]| p4::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: blob.to_vec(),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: 9 }),
    };
    let mut other = info.clone();
    other.tables[0].match_fields[0].bitwidth = 31;
    let wrong = String::from_utf8(json.clone()).unwrap().replace("0x0800", "0x0g00");
    for (config, why) in [
        (config(&other, &json), "other keys of the table MyIngress.ipv4_lpm"),
        (config(&info, wrong.as_bytes()), "basic.json:"),
        (config(&info, &json[..json.len() - 9]), "the JSON ends too early"),
    ] {
        let error = controller.push(SetAction::VerifyAndCommit, Some(config)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(why), "{why}: {}", error.message());
    }
    // Bare, and as controllers of bmv2 wrap it.
    let mut wrapped = vec![8, 1, 0x1a];
    prost::encode_length_delimiter(json.len(), &mut wrapped).unwrap();
    wrapped.extend(&json);
    for blob in [&json, &wrapped] {
        controller.push(SetAction::VerifyAndCommit, Some(config(&info, blob))).unwrap();
        assert_eq!(controller.pipeline(), config(&info, blob));
    }
    controller.write(vec![insert(Message::TableEntry(route()))]).unwrap();
    let head = [&A[..], &B, &[8, 0]].concat();
    let packet = |mac: &[u8], ttl: u8, sum: [u8; 2]| {
        let ip =
            [0x45, 0, 0, 0x14, 0, 1, 0, 0, ttl, 0x11, sum[0], sum[1], 10, 0, 0, 1, 10, 1, 2, 3];
        [mac, &head[12..], &ip, &[0; 26]].concat()
    };
    let (sent, wanted) =
        (packet(&head[..12], 64, [0x64, 0xd4]), packet(&[B, A].concat(), 63, [0x65, 0xd4]));
    let passes = |mut rig: Rig| {
        assert_eq!(rig.passes(&sent), std::slice::from_ref(&wanted));
        rig.switch
    };
    passes(rig).end("KILL");
    let rig = start();
    let mut controller = rig.primary();
    assert_eq!(controller.pipeline(), config(&info, &wrapped));
    let found = controller.read(vec![Message::TableEntry(p4::TableEntry::default())]).unwrap();
    assert_eq!(found, [Message::TableEntry(route())]);
    passes(rig).end("TERM").expect(0, &[]);
}
