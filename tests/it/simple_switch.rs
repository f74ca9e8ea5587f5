//! `simple-switch-grpc`: started as bmv2's switch is, by a link of its name, without a program until a controller pushes one.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::process::Command;

use tonic::Code;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::binary::{run, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, insert};
use wireyard_tests::{skip, workspace_root};

use crate::p4_controlled::outputs;
use crate::p4runtime::{Rig, address, frame};
use crate::rig::{Wire, ip, private_network, veth};
use p4::entity::Entity as Message;
use p4::set_forwarding_pipeline_config_request::Action;

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
    let json = controller.push(Action::VerifyAndCommit, Some(config(b"{}".to_vec()))).unwrap_err();
    assert!(json.message().contains("JSON of bmv2"), "{json}");
    // As controllers of bmv2 wrap it: P4DeviceConfig, whose third field has the data.
    let mut wrapped = vec![8, 1, 0x1a];
    prost::encode_length_delimiter(blob.len(), &mut wrapped).unwrap();
    wrapped.extend(blob);
    controller.push(Action::VerifyAndCommit, Some(config(wrapped))).unwrap();
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

#[test]
fn hosts_of_mininet_ping_through_a_switch_that_a_controller_programs() {
    let test = "hosts of Mininet ping";
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
    let program = "tests/data/p4runtime/controlled.p4";
    run(&["p4info", program, "-o", &path("info.txt")]).expect(0, &[]);
    run(&["pack", program, "-o", &path("blob")]).expect(0, &[]);
    let done = Command::new("timeout")
        .args(["90", "/usr/bin/python3", "tests/data/p4runtime/mininet_ping.py"])
        .arg(folder.path())
        .arg(python)
        .args(["tests/data/p4runtime/ping_controller.py", &path("info.txt"), &path("blob")])
        .current_dir(workspace_root())
        .output()
        .expect("python runs");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let log = std::fs::read_to_string(path("switch.log")).unwrap_or_default();
    assert!(done.status.success() && out.contains("done"), "{out}{err}{log}");
}
