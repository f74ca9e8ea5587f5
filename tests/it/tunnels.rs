//! Packets in tunnels, of which a sender's kernel leaves segments and the checksum inside to a veth pair: ports finish them.
//!
//! Needs root, for the first test a kernel with tunnels, for the second tshark and Python; skips loudly otherwise.

use std::process::Command;

use wireyard_tests::{has_tool, skip, workspace_root};

use crate::large_frames::{Rig, medium, tshark};
use crate::rig::ip;

/// A tunnel between the hosts by the kernel's own device; false if it has none of this kind.
fn tunnel(rig: &Rig, what: &'static str) -> bool {
    let ends = |here: u8, there: u8| {
        let ends = format!("link add tun9 type {what}");
        let ends = ends.replace("THERE", &format!("192.0.2.{there}"));
        ends.replace("HERE", &format!("192.0.2.{here}"))
    };
    let made = Command::new("ip").args(ends(1, 2).split_whitespace()).output().expect("ip runs");
    if !made.status.success() {
        eprintln!("ip: {}", String::from_utf8_lossy(&made.stderr));
        return false;
    }
    ip("addr add 198.51.100.1/24 dev tun9");
    ip("link set tun9 up");
    let there = ends(2, 1);
    rig.at_host_2(move || {
        ip(&there);
        ip("addr add 198.51.100.2/24 dev tun9");
        ip("link set tun9 up");
    });
    true
}

/// TCP in a tunnel had 0.2 Mbit/s by `raw:` and `pnet:`, and no connection by `xdp:`. That port 1234 is a tunnel
/// only the kernel says, beside a frame of a packet socket.
#[test]
fn tcp_in_a_tunnel_runs_at_speed() {
    let test = "tcp_in_a_tunnel_runs_at_speed";
    let gre = "gre local HERE remote THERE csum key 5";
    let geneve = "geneve id 9 remote THERE";
    for (kind, what, least) in [
        ("raw", "vxlan id 9 local HERE remote THERE dstport 4789 noudpcsum", 100e6),
        ("raw", "vxlan id 9 local HERE remote THERE dstport 1234 udpcsum", 100e6),
        ("raw", gre, 100e6),
        ("raw", "gretap local HERE remote THERE", 100e6),
        ("raw", "ipip local HERE remote THERE", 100e6),
        ("raw", geneve, 100e6),
        ("pnet", "vxlan id 9 local HERE remote THERE dstport 4789 udpcsum", 30e6),
        ("xdp", "vxlan id 9 local HERE remote THERE dstport 4789 udpcsum", 30e6),
        ("xdp", "vxlan id 9 local HERE remote THERE dstport 8472 noudpcsum", 30e6),
        ("xdp", gre, 30e6),
        ("xdp", geneve, 30e6),
    ] {
        let Some(rig) = Rig::new(test, kind, &[]) else { return };
        if !tunnel(&rig, what) {
            // A kernel may be built without them: the segments of every tunnel have unit tests (ports/segments/tests.rs).
            match what.starts_with("vxlan") {
                true => skip(test, "this kernel has no VXLAN"),
                false => println!("{kind} {what}: not in this kernel"),
            }
            continue;
        }
        rig.transfer_to("198.51.100.2", 1 << 20);
        let rate = rig.transfer_to("198.51.100.2", 32 << 20);
        println!("{kind} {what}: {:.0} Mbit/s", rate / 1e6);
        let (report, err) = rig.end();
        assert!(rate > least, "{kind} {what}: {:.1} Mbit/s: {report:#}", rate / 1e6);
        assert_eq!(medium(&report, 1, "rx_gso"), 0, "{kind} {what}: {report:#}");
        assert!(!err.contains("GSO"), "{err}");
        let counter = if kind == "xdp" { "rx_checksums_finished" } else { "rx_segmented" };
        assert!(medium(&report, 1, counter) > 100, "{kind} {what}: {report:#}");
    }
}

/// What tshark calls wrong.
const WRONG: &str = "frame.len > 1514 || tcp.checksum.status == 0 || udp.checksum.status == 0 || ip.checksum.status == 0 || \
                     sctp.checksum.status == 0 || gre.checksum.status == 0 || _ws.malformed";

/// An independent reader finds every sum right in the segments of the kernel's own tunnel.
#[test]
fn segments_in_a_tunnel_are_right_to_tshark() {
    let test = "segments_in_a_tunnel_are_right_to_tshark";
    if !has_tool("tshark") {
        return skip(test, "there is no tshark");
    }
    for kind in ["raw", "xdp"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.pcapng");
        let Some(rig) = Rig::new(test, kind, &["--capture", file.to_str().unwrap()]) else {
            return;
        };
        if !tunnel(&rig, "vxlan id 9 local HERE remote THERE dstport 4789 udpcsum") {
            return skip(test, "this kernel has no VXLAN");
        }
        rig.transfer_to("198.51.100.2", 2 << 20);
        drop(rig.end());
        let data = tshark(&file, "vxlan && tcp.len > 1000 && udp.checksum.status == 1");
        assert!(data.len() > 1400, "{kind}: {} segments", data.len());
        assert_eq!(tshark(&file, WRONG), Vec::<String>::new(), "{kind}");
    }
}

/// GRE, IP in IP, Geneve, VXLAN behind a tag, and SCTP, with the checksum inside left open.
#[test]
fn packets_of_every_tunnel_are_right_to_tshark() {
    let test = "packets_of_every_tunnel_are_right_to_tshark";
    if !has_tool("tshark") || !has_tool("python3") {
        return skip(test, "there is no tshark, or no python3");
    }
    for kind in ["raw", "pnet", "xdp"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.pcapng");
        let Some(rig) = Rig::new(test, kind, &["--capture", file.to_str().unwrap()]) else {
            return;
        };
        rig.transfer_to("192.0.2.2", 1000);
        let script = workspace_root().join("tests/data/tunnels/send.py");
        let sent = Command::new("python3").arg(script).arg("host1").status();
        assert!(sent.expect("python3 runs").success());
        // Behind them, so that they have passed.
        rig.transfer_to("192.0.2.2", 1000);
        let (report, _) = rig.end();
        for port in 7001..=7009 {
            let filter = match port {
                7008 => format!("udp.dstport == {port}"),
                7009 => "sctp.checksum.status == 1".to_owned(),
                _ => format!("tcp.dstport == {port} && tcp.checksum.status == 1"),
            };
            // In and out.
            let got = tshark(&file, &filter);
            assert_eq!(got.len(), 2, "{kind} {port}: {got:#?} {report:#}");
        }
        assert_eq!(tshark(&file, WRONG), Vec::<String>::new(), "{kind}");
    }
}
