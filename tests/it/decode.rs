//! `wireyard decode` from outside: exit status, lines, trees, JSON, filters, sums, damaged and large
//! files, link types that are refused by name.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::{capture, has_tool, scripts, shared, skip};

use crate::packets::bytes;

/// A CNP over IPv4 with a right ICRC.
const CNP: &str = concat!(
    "020000000002020000000001080045c2003c00014000401125ec0a0000010a000002c00012b700280000",
    "8100ffff40000118000000000000000000000000000000000000000022f0f941",
);
/// An ARP request, which has no CRC of its own.
const ARP: &str =
    "ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002";

/// Two CNPs, the second with one bit wrong, and an ARP request.
fn three_packets(folder: &Path) -> PathBuf {
    let (right, arp) = (bytes(CNP), bytes(ARP));
    let mut wrong = right.clone();
    wrong[60] ^= 1;
    let path = folder.join("three.pcap");
    let all = [(10, right.as_slice()), (20, wrong.as_slice()), (1_500_030, arp.as_slice())];
    scripts::write_pcap(&path, LinkType::Ethernet, all);
    path
}

fn decode(path: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec!["decode", path.to_str().unwrap()];
    arguments.extend(options);
    run(&arguments)
}

#[test]
fn a_line_for_each_packet() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let ended = decode(&path, &[]);
    ended.expect(0, &[]);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(
        lines,
        [
            "    1 0.000000 10.0.0.1 -> 10.0.0.2 ethernet:ipv4:udp:bth:cnp_reserved 74 ECT(0) CNP \
             QP 0x118 PSN 0 BECN",
            "    2 0.000010 10.0.0.1 -> 10.0.0.2 ethernet:ipv4:udp:bth:cnp_reserved 74 ECT(0) CNP \
             QP 0x118 PSN 0 BECN [icrc_rocev2 bad]",
            "    3 1.500020 02:00:00:00:00:01 -> ff:ff:ff:ff:ff:ff ethernet:arp:arp_ipv4 42 ARP \
             request",
        ]
    );
}

#[test]
fn the_bytes_of_each_packet_that_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let ended = decode(&path, &["--bytes", "--frame", "3"]);
    ended.expect(0, &[]);
    let rows = [
        "  0000  ff ff ff ff ff ff 02 00 00 00 00 01 08 06 00 01",
        "  0010  08 00 06 04 00 01 02 00 00 00 00 01 0a 00 00 01",
        "  0020  00 00 00 00 00 00 0a 00 00 02",
    ];
    assert_eq!(ended.out.lines().skip(1).collect::<Vec<_>>(), rows);
    let ended = decode(&path, &["--bytes", "--json", "--filter", "arp.valid"]);
    ended.expect(0, &[]);
    let packet: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(packet["bytes"], ARP);
}

#[test]
fn the_sums_of_crcs() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let ended = decode(&path, &["--verify-crc"]);
    ended.expect(1, &[]);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines[0].starts_with("    2 ") && lines[0].ends_with("[icrc_rocev2 bad]"), "{lines:?}");
    let sums =
        ["packets      3", "icrc_rocev2  1 ok, 1 bad", "none         1 packets without a CRC"];
    assert_eq!(lines[1..], sums);
    let ended = decode(&path, &["--verify-crc", "--frame", "1"]);
    ended.expect(0, &[]);
    assert_eq!(ended.out, "packets      1\nicrc_rocev2  1 ok, 0 bad\n");
    let ended = decode(&path, &["--verify-crc", "--json"]);
    ended.expect(1, &[]);
    let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["whole_file"], &last["sums"]["packets"]), (&true.into(), &3.into()));
    let crc = serde_json::json!([{ "name": "icrc_rocev2", "ok": 1, "bad": 1 }]);
    assert_eq!(last["sums"]["crcs"], crc);
    let ended = decode(&path, &["--verify-crc", "--json", "--frame", "1"]);
    ended.expect(0, &[]);
    let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["whole_file"], &last["sums"]["packets"]), (&false.into(), &1.into()));
}

/// A RoCEv2 SEND from its IP header on, with a right ICRC.
const SEND_V2: &str = concat!(
    "456a003000004000401126510a0000010a000002c00012b7001c00000440ffff00fc04070000000d",
    "61626364ab5b1878",
);
/// A RoCEv1 WRITE from its GRH on, with a right ICRC.
const WRITE_V1: &str = concat!(
    "6020000000301b4000000000000000000000ffff0a00000100000000000000000000ffff0a000002",
    "0a40ffff000000110000000700007f00000010000000222200000010",
    "000102030405060708090a0b0c0d0e0f9651ba4f",
);

/// A frame in a tunnel behind IPv4 and UDP.
fn in_tunnel(port: u16, header: &str, inner: &str) -> Vec<u8> {
    let inner = format!("020000000002020000000001{inner}");
    let udp = 16 + inner.len() / 2;
    let ip = format!("4500{:04x}000040004011", udp + 20);
    let addresses = "0000c0000201c0000202";
    let head = format!("0200000003020200000003010800{ip}{addresses}c48f{port:04x}{udp:04x}0000");
    bytes(&format!("{head}{header}{inner}").replace(' ', ""))
}

/// The mark of the packet inside a tunnel is shown as its own, and that of what carries it as the outer one.
#[test]
fn marks_in_tunnels_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marks.pcap");
    let plain = in_tunnel(4789, "0800000000138800", &format!("0800{SEND_V2}"));
    // Type of service of the outer header, and of the inner one behind UDP, VXLAN and Ethernet.
    let (outer, inner) = (15, 15 + 20 + 8 + 8 + 14);
    for (outer_ecn, inner_ecn, shown) in [(3, 2, "ECT(0) (outer CE)"), (0, 3, "CE (outer Not-ECT)")]
    {
        let mut packet = plain.clone();
        packet[outer] = packet[outer] & !3 | outer_ecn;
        packet[inner] = packet[inner] & !3 | inner_ecn;
        scripts::write_pcap(&path, LinkType::Ethernet, [(1, packet.as_slice())]);
        let ended = decode(&path, &[]);
        ended.expect(0, &[]);
        assert!(ended.out.contains(shown), "{shown}: {}", ended.out);
    }
}

/// Only what is wrong is shown with `--verify-crc`, as a tree too.
#[test]
fn trees_are_of_wrong_packets_where_sums_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let trees = |ended: &Ended| ended.out.matches("icrc_rocev2 bad").count();
    let (all, wrong) = (decode(&path, &["--tree"]), decode(&path, &["--tree", "--verify-crc"]));
    assert_eq!((trees(&all), trees(&wrong)), (1, 1), "{}", wrong.out);
    assert!(all.out.contains("ff:ff:ff:ff:ff:ff") && !wrong.out.contains("ff:ff:ff:ff:ff:ff"));
}

/// An ICRC behind a VLAN tag inside a tunnel is checked; behind two of them the packet counts as not checkable.
#[test]
fn tags_inside_a_tunnel_hide_no_crc() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tunnels.pcap");
    let v2 = ("icrc_inner_rocev2", " 1 ok, 1 bad", 1);
    let v1 = ("icrc_rocev1", " 1 ok, 1 bad", 1);
    let too_many = ("any", " 2 not checkable: tags_in_tunnel", 0);
    for (between, packet, (crc, counts, status)) in [
        ("0800", SEND_V2, v2),
        ("8100 0064 0800", SEND_V2, v2),
        ("88a8 0064 0800", SEND_V2, v2),
        ("9100 0064 0800", SEND_V2, v2),
        ("8915", WRITE_V1, v1),
        ("8100 0064 8915", WRITE_V1, v1),
        ("88a8 0005 8100 0064 0800", SEND_V2, too_many),
    ] {
        let between = between.replace(' ', "");
        for (port, header) in [(4789, "0800000000138800"), (6081, "0000655800000100")] {
            let right = in_tunnel(port, header, &format!("{between}{packet}"));
            let mut wrong = right.clone();
            let last = wrong.len() - 6;
            wrong[last] ^= 1;
            let all = [(1, right.as_slice()), (2, wrong.as_slice())];
            scripts::write_pcap(&path, LinkType::Ethernet, all);
            let ended = decode(&path, &["--verify-crc"]);
            ended.expect(status, &[]);
            let width = crc.len().max("packets".len());
            let sums = format!("{:width$}  2\n{crc:width$} {counts}\n", "packets");
            assert!(ended.out.ends_with(&sums), "{between} behind {port}: {}", ended.out);
        }
    }
}

#[test]
fn one_packet_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let ended = decode(&path, &["--frame", "2", "--tree"]);
    ended.expect(0, &[]);
    for text in
        ["packet 2", "ipv4", "    dscp: ", "    dqpn: 0x118 (280)", "cnp_reserved", "icrc", "bad"]
    {
        assert!(ended.out.contains(text), "no `{text}` in {}", ended.out);
    }
    assert!(!ended.out.contains("packet 1") && !ended.out.contains("packet 3"), "{}", ended.out);
    decode(&path, &["--frame", "4"]).expect(2, &["three.pcap", "it has 3 frames, not 4"]);
    decode(&path, &["--frame", "0"]).expect(2, &["counted from 1"]);
    decode(&path, &["--tree", "--json"]).expect(2, &["--json"]);
}

#[test]
fn json_has_every_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let ended = decode(&path, &["--json"]);
    ended.expect(0, &[]);
    let packets: Vec<Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(packets.len(), 3);
    let names: Vec<&Value> =
        packets[0]["headers"].as_array().unwrap().iter().map(|h| &h["name"]).collect();
    assert_eq!(names, ["ethernet", "ipv4", "udp", "bth", "cnp_reserved", "icrc"]);
    let bth = &packets[0]["headers"][3];
    assert_eq!((&bth["at"], &bth["length"]), (&42.into(), &12.into()));
    assert_eq!((&bth["fields"]["becn"], &bth["names"]["opcode"]), (&1.into(), &"CNP".into()));
    let crcs = packets.iter().map(|p| p["crcs"]["icrc_rocev2"].as_str());
    assert_eq!(crcs.collect::<Vec<_>>(), [Some("ok"), Some("bad"), None]);
    assert_eq!(packets[1]["time_ns"], 10_000);
}

#[test]
fn filters_are_expressions_of_the_language() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    for (filter, numbers) in [
        ("bth.opcode == 0x81", &["1", "2"][..]),
        ("std.crc_error != 0", &["2"]),
        ("bth.opcode == 0x81 && std.crc_error == 0 || arp.op == 1", &["1", "3"]),
        ("ipv4.src == 10.0.0.1 && bth.dqpn[7:0] == 0x18", &["1", "2"]),
        ("bth.psn == 0", &["1", "2"]),
        ("grh.valid", &[]),
    ] {
        let ended = decode(&path, &["--filter", filter]);
        ended.expect(0, &[]);
        let found: Vec<_> =
            ended.out.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(found, numbers, "{filter}");
    }
    let sums = decode(&path, &["--verify-crc", "--filter", "std.crc_error == 0"]);
    sums.expect(0, &[]);
    assert!(sums.out.starts_with("packets      2\n"), "{}", sums.out);
    decode(&path, &["--filter", "bth.opcod == 1"]).expect(2, &["--filter", "did you mean"]);
    decode(&path, &["--filter", "bth.opcode =="]).expect(2, &["--filter:1:"]);
    decode(&path, &["--filter", "bth.opcode"]).expect(2, &["--filter:1:1"]);
}

/// What is before the damage is decoded and summed up; the offset says where it ended.
#[test]
fn a_broken_file_stops_with_its_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let whole = std::fs::read(&path).unwrap();
    // Header 24 bytes, two records of 16 + 74.
    for cut in [205, 210, 219, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let ended = decode(&path, &["--verify-crc"]);
        ended.expect(2, &["three.pcap", "offset 204"]);
        assert!(ended.out.contains("packets      2\n"), "{}", ended.out);
        let ended = decode(&path, &["--verify-crc", "--json"]);
        let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
        assert_eq!(last["whole_file"], false, "{last}");
    }
    let mut long = whole.clone();
    long[114 + 8..114 + 12].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    std::fs::write(&path, &long).unwrap();
    let ended = decode(&path, &[]);
    ended.expect(2, &["three.pcap", "offset 114"]);
    assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
}

#[test]
fn other_link_types_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = three_packets(folder.path());
    let whole = std::fs::read(&path).unwrap();
    for (number, name) in [(113_u32, "LINUX_SLL"), (101, "RAW"), (276, "LINUX_SLL2")] {
        let mut file = whole.clone();
        file[20..24].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, &file).unwrap();
        let known = "known are Ethernet (1), InfiniBand (247) and ERF (197)";
        let ended = decode(&path, &[]);
        ended.expect(2, &[&format!("link type {number}, {name}"), "is not supported", known]);
        assert!(ended.out.is_empty());
    }
    std::fs::write(&path, "no capture").unwrap();
    decode(&path, &[]).expect(2, &["three.pcap", "not a pcap or pcapng file"]);
    decode(&folder.path().join("none.pcap"), &[]).expect(2, &["none.pcap", "No such file"]);
}

#[test]
fn infiniband_and_omni_path_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    for (program, script, port, link, texts) in [
        (
            "ib_switch",
            "unicast.stf",
            1,
            LinkType::Infiniband,
            ["lrh:bth", "icrc_ib_local", "vcrc_ib"],
        ),
        (
            "opa_vnic_gateway",
            "decap.stf",
            9,
            LinkType::Opa,
            ["opa16b:opa_vnic:", "16B ICRC", "no published algorithm"],
        ),
    ] {
        let script = wireyard_tests::workspace_root().join("programs").join(program).join(script);
        let sent = scripts::sent(&script).packets;
        let own = sent.iter().filter(|(to, _)| *to == port).map(|(_, bytes)| (0, bytes.as_slice()));
        let path = folder.path().join(format!("{program}.pcap"));
        scripts::write_pcap(&path, link, own);
        let lines = decode(&path, &[]).out;
        let sums = decode(&path, &["--verify-crc"]).out;
        for text in texts {
            assert!(lines.contains(text) || sums.contains(text), "no `{text}`:\n{lines}{sums}");
        }
    }
}

/// The sums over every capture of Linux hosts: all right, but for four FLUSH requests of that driver.
#[test]
fn the_sums_of_stored_captures() {
    let Some(shared) = shared() else {
        return skip("the_sums_of_stored_captures", "no ../shared/captures");
    };
    let (mut right, mut wrong) = (0, 0);
    for path in capture::files(&shared.join("captures/linux-rxe-6.12/given"), &["pcap"]) {
        let ended = decode(&path, &["--verify-crc", "--json", "--filter", "bth.valid"]);
        let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
        let mut here = 0;
        for crc in last["sums"]["crcs"].as_array().unwrap() {
            right += crc["ok"].as_u64().unwrap();
            here += crc["bad"].as_u64().unwrap();
        }
        assert_eq!(ended.status, Some(if here > 0 { 1 } else { 0 }), "{}", path.display());
        let flush = path.to_string_lossy().contains("_rc_flush_");
        assert!(here == 0 || flush, "{}: {here} wrong", path.display());
        wrong += here;
    }
    assert!(right > 2000 && wrong == 4, "{right} right, {wrong} wrong");
}

/// A file of 17 MB on a terminal: percent and packets go by, and the line is cleared at the end.
#[test]
fn large_files_show_their_progress() {
    let test = "large_files_show_their_progress";
    if !has_tool("script") {
        return skip(test, "no `script`, which gives a terminal");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pcap");
    let mut frame = bytes(ARP);
    frame.resize(9000, 0);
    scripts::write_pcap(&path, LinkType::Ethernet, (0..1900).map(|n| (n, frame.as_slice())));
    let on_terminal = |path: &Path| {
        let command = format!("{} decode {} --verify-crc", wireyard().display(), path.display());
        let mut script = std::process::Command::new("script");
        let done = script.args(["-qec", &command, "/dev/null"]).output().expect("script runs");
        assert!(done.status.success());
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let shown = on_terminal(&path);
    assert!(shown.contains(" 50 %, ") && shown.contains(" packets\r"), "{shown:?}");
    assert!(shown.contains("\x1b[K") && shown.contains("packets  1900"), "{shown:?}");
    let small = three_packets(folder.path());
    let mut script = std::process::Command::new("script");
    let command = format!("{} decode {}", wireyard().display(), small.display());
    let done = script.args(["-qec", &command, "/dev/null"]).output().expect("script runs");
    assert!(!String::from_utf8_lossy(&done.stdout).contains('%'));
}
