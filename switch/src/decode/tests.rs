use super::*;

/// A RoCEv2 CNP.
const CNP: &str = concat!(
    "020000000002020000000001080045c2003c00014000401125ec0a0000010a000002c00012b700280000",
    "8100ffff40000118000000000000000000000000000000000000000022f0f941",
);

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame { bytes, wire_len: bytes.len() as u32, link: LinkType::Ethernet }
}

#[test]
fn the_embedded_program_and_its_summary_are_right() {
    let dissector = Dissector::new(None).unwrap_or_else(|e| panic!("{e}"));
    assert!(dissector.decoder.program().instances.len() > 40);
}

#[test]
fn a_cnp_in_one_line() {
    let mut dissector = Dissector::new(None).unwrap();
    let cnp = bytes(CNP);
    let decoded = dissector.decode(frame(&cnp)).unwrap();
    assert_eq!(
        decoded.line(Position { number: 7, time_ns: 1_500_000 }),
        "    7 0.001500 10.0.0.1 -> 10.0.0.2 ethernet:ipv4:udp:bth:cnp_reserved 74 ECT(0) CNP QP \
         0x118 PSN 0 BECN"
    );
    let verdict = decoded.verdict();
    assert_eq!((verdict.right, verdict.unchecked), (vec!["icrc_rocev2".to_owned()], vec![]));
    let json = decoded.json(Position::default());
    assert_eq!(json["headers"][3]["fields"]["dqpn"], 0x118);
    assert_eq!(json["headers"][3]["names"]["opcode"], "CNP");
    assert_eq!(json["crcs"]["icrc_rocev2"], "ok");
    assert!(decoded.tree(Position::default()).contains("    dqpn: 0x118 (280)\n"));
}

#[test]
fn what_is_wrong_is_told() {
    let mut dissector = Dissector::new(None).unwrap();
    let mut cnp = bytes(CNP);
    cnp[60] ^= 1;
    let decoded = dissector.decode(frame(&cnp)).unwrap();
    assert!(decoded.line(Position::default()).ends_with("[icrc_rocev2 bad]"));
    let mut sums = Sums::default();
    sums.add(&decoded.verdict());
    cnp.truncate(70);
    let cut = Frame { wire_len: 74, ..frame(&cnp) };
    let decoded = dissector.decode(cut).unwrap();
    assert!(decoded.line(Position::default()).ends_with(" BECN [captured 70 of 74]"));
    sums.add(&decoded.verdict());
    assert_eq!((sums.packets, sums.wrong(), sums.unchecked.len()), (2, 1, 1));
    assert!(sums.text().contains("ICRC         1 not checkable: cut by the capture\n"));
}

/// On InfiniBand, with a GRH whose PayLen is not that of the packet, and a correct VCRC.
const WRONG_PAYLEN: &str = concat!(
    "00030002001100016000000000181b4000000000000000000000ffff0a00000100000000000000000000",
    "ffff0a0000020440ffff0000001100000001616263644e29ef99c76b",
);

#[test]
fn a_crc_that_the_parser_did_not_reach_is_listed_beside_one_that_is_right() {
    let mut dissector = Dissector::new(None).unwrap();
    let packet = bytes(WRONG_PAYLEN);
    let frame = Frame { link: LinkType::Infiniband, ..frame(&packet) };
    let verdict = dissector.decode(frame).unwrap().verdict();
    assert_eq!(verdict.right, ["vcrc_ib"]);
    let unchecked = Unchecked { crc: "any".to_owned(), reason: "bad_paylen".to_owned() };
    assert_eq!(verdict.unchecked, [unchecked]);
}

/// The first 44 of 90 bytes on InfiniBand: an RDMA WRITE Last.
const CUT: &str = concat!(
    "8022b534001641060807513000012d0e00ff6665dd8fdbecc7777382da96302f",
    "cd8379a19dcb2f18724d2417",
);

#[test]
fn a_frame_cut_by_the_capture_is_read_up_to_the_cut() {
    let packet = bytes(CUT);
    let cut = Frame { bytes: &packet, wire_len: 90, link: LinkType::Infiniband };
    let mut dissector = Dissector::new(Some("std.packet_length > 80")).unwrap();
    let decoded = dissector.decode(cut).unwrap();
    let line = decoded.line(Position::default());
    assert!(line.contains(" lrh:bth 90 ") && line.ends_with(" [captured 44 of 90]"), "{line}");
    assert_eq!((decoded.parsed.error(), decoded.parsed.picked()), (None, true));
    let reasons = decoded.verdict().unchecked.into_iter().map(|crc| crc.reason);
    assert!(reasons.eq(["cut by the capture", "cut by the capture"]));
    // A length that the packet contradicts is wrong as before.
    let decoded = dissector.decode(Frame { wire_len: 91, ..cut }).unwrap();
    assert_eq!(decoded.parsed.error(), Some("bad_pktlen"));
}

#[test]
fn an_array_is_shown_up_to_its_last_value() {
    let mut dissector = Dissector::new(None).unwrap();
    for (last, shown) in [
        ("00070008", ": 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n"),
        ("00070000", ": 0x1 0x2 0x3 0x4 0x5 0x6 0x7, the rest 0\n"),
    ] {
        let packet = format!(
            "0180c200000102000000000188080101{}{last}{}",
            "00ff000100020003000400050006",
            "00".repeat(26)
        );
        let packet = bytes(&packet);
        let decoded = dissector.decode(frame(&packet)).unwrap();
        let tree = decoded.tree(Position::default());
        assert!(tree.contains(shown), "{tree}");
    }
}

#[test]
fn a_time_just_before_the_first_packet_is_0() {
    assert_eq!(super::line::seconds(-1), "0.000000");
    assert_eq!(super::line::seconds(-1_500), "-0.000001");
    assert_eq!(super::line::seconds(1_500_000_000), "1.500000");
}

#[test]
fn a_filter_picks() {
    let cnp = bytes(CNP);
    for (filter, wanted) in [
        ("bth.opcode == 0x81 && ipv4.dscp == 48", true),
        ("bth.becn", true),
        ("bth.becn == 0", false),
        ("grh.hoplmt == 0", false),
        ("udp.dst_port == 4791 && std.crc_error == 0", true),
        ("std.crc_error != 0", false),
    ] {
        let mut dissector = Dissector::new(Some(filter)).unwrap_or_else(|e| panic!("{e}"));
        let decoded = dissector.decode(frame(&cnp)).unwrap();
        assert_eq!(decoded.parsed.picked(), wanted, "{filter}");
    }
    let error = Dissector::new(Some("bth.opcod == 1")).unwrap_err().to_string();
    assert!(error.contains("--filter") && error.contains("did you mean `opcode`"), "{error}");
}
