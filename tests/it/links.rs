//! Ports with a link type: raw InfiniBand and Omni-Path packets on veth pairs, the same as in captures,
//! and what becomes of a carrier's minimum length.
//!
//! Live tests need root; they skip loudly otherwise.

use std::path::{Path, PathBuf};

use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::run;
use wireyard_tests::live::Switch;
use wireyard_tests::{capture, scripts, skip, workspace_root};

use crate::rig::{Wire, private_network, veth};

/// Shortest frame of a carrier that pads, without FCS.
const CARRIER_BYTES_MIN: usize = 60;
/// Shortest frame that an interface sends.
const INTERFACE_BYTES_MIN: usize = 14;

fn program(name: &str) -> PathBuf {
    workspace_root().join("programs").join(name)
}

/// What a program's own tests send into a port; an interface takes no frame under 14 bytes.
fn sent_into(name: &str, script: &str, port: u16) -> Vec<Vec<u8>> {
    let all = scripts::sent(&program(name).join(script)).packets;
    let fits = |bytes: &Vec<u8>| bytes.len() >= INTERFACE_BYTES_MIN;
    all.into_iter().filter(|(to, _)| *to == port).map(|(_, bytes)| bytes).filter(fits).collect()
}

/// Zeros behind a short packet, as a carrier puts them there.
fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(CARRIER_BYTES_MIN), 0);
    frame
}

/// What `replay` makes of frames into a port: port and bytes.
fn replayed(name: &str, into: u16, frames: &[Vec<u8>], folder: &Path) -> Vec<(u16, Vec<Vec<u8>>)> {
    let ports = scripts::ports(&scripts::loaded(&program(name)));
    let link = ports.iter().find(|(port, _)| *port == into).unwrap().1;
    let from = folder.join("in.pcap");
    let numbered = frames.iter().enumerate().map(|(n, frame)| (n as u64, frame.as_slice()));
    scripts::write_pcap(&from, link, numbered);
    let out = |port: u16| folder.join(format!("out{port}.pcap"));
    let folder = program(name).display().to_string();
    let input = format!("{into}={}", from.display());
    let mut arguments = vec!["replay".into(), folder, "--in".into(), input];
    for (port, _) in &ports {
        arguments.extend(["--out".to_owned(), format!("{port}={}", out(*port).display())]);
    }
    run(&arguments).expect(0, &[]);
    let frames_of = |path: PathBuf| {
        let records = capture::read(&path).unwrap().records;
        records.into_iter().map(|(bytes, _)| bytes).collect()
    };
    ports.iter().map(|(port, _)| (*port, frames_of(out(*port)))).collect()
}

/// Runs a program between veth pairs; what leaves each port is what `replay` gives.
fn live_is_replay(test: &str, name: &str, kind: &str, into: u16, frames: &[Vec<u8>]) {
    let Some(_network) = private_network(test) else { return skip(test, "no private network") };
    let folder = tempfile::tempdir().unwrap();
    let expected = replayed(name, into, frames, folder.path());
    let sent: usize = expected.iter().map(|(_, frames)| frames.len()).sum();
    assert!(sent > 3, "{name} sends {sent} packets");
    let ports = scripts::ports(&scripts::loaded(&program(name)));
    let path = program(name).display().to_string();
    let mut arguments = vec![path, "--json".to_owned()];
    for (port, link) in &ports {
        veth(&format!("sw{port}"), &format!("host{port}"));
        let spec = format!("{port}={kind}sw{port},link={}", link.name());
        arguments.extend(["--port".to_owned(), spec]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let switch = Switch::start(&arguments);
    let mut hosts: Vec<_> =
        ports.iter().map(|(port, _)| Wire::open(&format!("raw:host{port}"))).collect();
    let sender = ports.iter().position(|(port, _)| *port == into).unwrap();
    hosts[sender].send(frames);
    for (host, (port, wanted)) in hosts.iter_mut().zip(&expected) {
        let got = host.receive(wanted.len());
        assert!(got == *wanted, "port {port}: {} packets for {}", got.len(), wanted.len());
        assert!(host.receive_unexpected().is_empty(), "port {port}: more than replay gives");
    }
    let ended = switch.end("INT");
    ended.expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["total"]["balanced"], true, "{report}");
    assert_eq!(report["total"]["received"], frames.len(), "{report}");
}

/// An acknowledgement has 30 bytes; a veth pair carries it as it is.
fn infiniband_frames() -> Vec<Vec<u8>> {
    let mut frames = sent_into("ib_switch", "unicast.stf", 1);
    let short = frames.iter().filter(|frame| frame.len() < CARRIER_BYTES_MIN).count();
    assert!(short > 2, "{short} short packets");
    let padded: Vec<_> = frames.iter().map(|frame| padded(frame)).collect();
    frames.extend(padded);
    frames
}

#[test]
fn infiniband_on_raw_ports() {
    live_is_replay("infiniband_on_raw_ports", "ib_switch", "raw:", 1, &infiniband_frames());
}

#[test]
fn infiniband_on_ports_named_only_by_their_interface() {
    let test = "infiniband_on_ports_named_only_by_their_interface";
    live_is_replay(test, "ib_switch", "", 1, &infiniband_frames());
}

#[test]
fn omni_path_on_raw_ports() {
    let frames = sent_into("opa_vnic_gateway", "encap.stf", 1);
    live_is_replay("omni_path_on_raw_ports", "opa_vnic_gateway", "raw:", 1, &frames);
    let frames = sent_into("opa_vnic_gateway", "decap.stf", 9);
    live_is_replay("omni_path_on_raw_ports", "opa_vnic_gateway", "raw:", 9, &frames);
}

/// What a carrier puts behind a short packet is known as slack by its length, and does not leave.
#[test]
fn the_pad_of_a_carrier_does_not_leave() {
    let folder = tempfile::tempdir().unwrap();
    let short: Vec<_> = sent_into("ib_switch", "unicast.stf", 1)
        .into_iter()
        .filter(|frame| frame.len() < CARRIER_BYTES_MIN)
        .collect();
    let padded: Vec<_> = short.iter().map(|frame| padded(frame)).collect();
    let plain = replayed("ib_switch", 1, &short, folder.path());
    let without = replayed("ib_switch", 1, &padded, folder.path());
    assert_eq!(without, plain);
    let count: usize = plain.iter().map(|(_, frames)| frames.len()).sum();
    assert!(count > 2, "{count} packets");
    assert!(plain.iter().flat_map(|(_, frames)| frames).all(|frame| frame.len() < 60));
    // Any other length that is not the LRH's is a lie.
    let longer: Vec<_> = short.iter().map(|frame| [frame.as_slice(), &[0]].concat()).collect();
    let refused = replayed("ib_switch", 1, &longer, folder.path());
    assert!(refused.iter().all(|(_, frames)| frames.is_empty()), "{refused:?}");
}

#[test]
fn a_capture_of_another_link_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let frame = sent_into("ib_switch", "unicast.stf", 1).remove(0);
    scripts::write_pcap(&path, LinkType::Infiniband, [(0, frame.as_slice())]);
    let spec = format!("1=pcap:{},link=ethernet", path.display());
    let ended = run(&["run", "programs/ib_switch", "--port", &spec]);
    ended.expect(2, &["infiniband (link type 247)", "link=ethernet"]);
}
