//! Packets in tunnels, of which a sender's kernel leaves segments and the checksum inside to a veth pair: ports finish them.
//!
//! Needs root, a kernel with VXLAN, tshark and Python; skips loudly otherwise.

use std::process::Command;

use wireyard_tests::{has_tool, skip, workspace_root};

use crate::large_frames::{Rig, medium, tshark};
use crate::rig::ip;

const TUNNEL: &str = "link add vx type vxlan id 9 remote 192.0.2.";

/// The kernel's own VXLAN devices at both hosts; false if it has none.
fn tunnel(rig: &Rig, more: &'static str) -> bool {
    let arguments = format!("{TUNNEL}2 local 192.0.2.1 {more}");
    let made = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip runs");
    if !made.status.success() {
        return false;
    }
    ip("addr add 198.51.100.1/24 dev vx");
    ip("link set vx up");
    rig.at_host_2(move || {
        ip(&format!("{TUNNEL}1 local 192.0.2.2 {more}"));
        ip("addr add 198.51.100.2/24 dev vx");
        ip("link set vx up");
    });
    true
}

/// TCP in a tunnel had 0.2 Mbit/s by `raw:` and `pnet:`, and no connection by `xdp:`. The port is one that only the kernel's word
/// makes a tunnel, where there is such a word.
#[test]
fn tcp_in_a_tunnel_runs_at_speed() {
    let test = "tcp_in_a_tunnel_runs_at_speed";
    for (kind, more, least) in [
        ("raw", "dstport 4789 noudpcsum", 100e6),
        ("raw", "dstport 1234 udpcsum", 100e6),
        ("pnet", "dstport 4789 udpcsum", 30e6),
        ("xdp", "dstport 4789 udpcsum", 30e6),
        ("xdp", "dstport 8472 noudpcsum", 30e6),
    ] {
        let Some(rig) = Rig::new(test, kind, &[]) else { return };
        if !tunnel(&rig, more) {
            return skip(test, "this kernel has no VXLAN");
        }
        rig.transfer_to("198.51.100.2:5001", 1 << 20);
        let rate = rig.transfer_to("198.51.100.2:5001", 32 << 20);
        println!("{kind} {more}: {:.0} Mbit/s", rate / 1e6);
        let (report, err) = rig.end();
        assert!(rate > least, "{kind} {more}: {:.1} Mbit/s: {report:#}", rate / 1e6);
        assert_eq!(medium(&report, 1, "rx_gso"), 0, "{kind}: {report:#}");
        assert!(!err.contains("GSO"), "{err}");
        let counter = if kind == "xdp" { "rx_checksums_finished" } else { "rx_segmented" };
        assert!(medium(&report, 1, counter) > 100, "{kind}: {report:#}");
    }
}

/// GRE, IP in IP, Geneve and VXLAN as an independent reader sees them: every segment there, every sum and CRC right.
#[test]
fn packets_of_every_tunnel_are_right_to_tshark() {
    let test = "packets_of_every_tunnel_are_right_to_tshark";
    if !has_tool("tshark") || !has_tool("python3") {
        return skip(test, "there is no tshark, or no python3");
    }
    for (kind, size, pieces) in
        [("raw", "large", 4), ("raw", "small", 1), ("pnet", "large", 4), ("xdp", "small", 1)]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.pcapng");
        let more = ["--capture", file.to_str().unwrap()];
        let Some(rig) = Rig::new(test, kind, &more) else { return };
        rig.transfer_to("192.0.2.2:5001", 1000);
        let script = workspace_root().join("tests/data/tunnels/send.py");
        let mut send = Command::new("python3");
        send.arg(script).args(["host1", size]);
        assert!(send.status().expect("python3 runs").success());
        // Behind them, so that they have passed.
        rig.transfer_to("192.0.2.2:5001", 1000);
        let (report, _) = rig.end();
        for port in 7001..=7009 {
            // Each in and out once.
            let (filter, count) = match port {
                7008 => (format!("udp.dstport == {port}"), 2 * pieces),
                7009 => ("sctp.checksum.status == 1".to_owned(), 2),
                _ => (format!("tcp.dstport == {port} && tcp.checksum.status == 1"), 2 * pieces),
            };
            let got = tshark(&file, &filter);
            assert_eq!(got.len(), count, "{kind} {size} {port}: {got:#?} {report:#}");
        }
        let wrong = "frame.len > 1514 || tcp.checksum.status == 0 || udp.checksum.status == 0 || ip.checksum.status == 0 || \
                     sctp.checksum.status == 0 || gre.checksum.status == 0 || _ws.malformed";
        assert_eq!(tshark(&file, wrong), Vec::<String>::new(), "{kind} {size}");
    }
}
