//! Captures made by others (`../shared/captures`): what we decode against what is known of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wireyard_pipeline::decode::{Parsed, Value};
use wireyard_switch::decode::{DecodeError, Dissector, Frame};
use wireyard_switch::ports::LinkType;
use wireyard_tests::{shared, skip};

use crate::packets::{bytes, dissector, each_record, emit, files};

fn captures(test: &str) -> Option<PathBuf> {
    let folder = shared().map(|shared| shared.join("captures"));
    if folder.is_none() {
        skip(test, "../shared is not there");
    }
    folder
}

fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "pcap" || e == "pcapng")
}

#[test]
fn every_capture_decodes_and_emits_what_it_was() {
    let Some(folder) = captures("every_capture_decodes_and_emits_what_it_was") else { return };
    let mut dissector = dissector();
    let (mut packets, mut refused) = (0, 0);
    for path in files(&folder).iter().filter(|path| is_capture(path)) {
        each_record(path, |number, record| {
            let frame = match Frame::of(record) {
                Ok(frame) => frame,
                Err(why) => {
                    assert!(matches!(why, DecodeError::Link(_)), "{why}");
                    refused += 1;
                    return;
                }
            };
            packets += 1;
            let decoded = dissector.decode(frame).unwrap();
            assert_eq!(emit(&decoded.parsed), frame.bytes, "{} {number}", path.display());
            let place = wireyard_switch::decode::Position { number, time_ns: 0 };
            assert!(!decoded.line(place).contains('\n'));
            assert_eq!(decoded.json(place)["captured"], frame.bytes.len());
            assert!(decoded.tree(place).starts_with("packet"));
            // Cut short it is never more than a parser error.
            for len in [0, 1, 15, 21, 41, 57, frame.bytes.len() / 2, frame.bytes.len().max(1) - 1] {
                let cut = &frame.bytes[..len.min(frame.bytes.len())];
                let decoded = dissector.decode(Frame { bytes: cut, ..frame }).unwrap();
                assert_eq!(emit(&decoded.parsed), cut);
            }
        });
    }
    assert!(packets > 10_000 && refused > 0, "{packets} packets, {refused} refused");
}

/// The verdict on the CRCs whose names start so; `None` when the packet has none.
fn verdict(parsed: &Parsed<'_>, prefix: &str) -> Option<bool> {
    parsed.crcs().find(|crc| crc.name.starts_with(prefix)).map(|crc| crc.right)
}

#[test]
fn icrc_and_vcrc_verdicts_are_those_of_the_independent_checker() {
    let test = "icrc_and_vcrc_verdicts_are_those_of_the_independent_checker";
    let Some(folder) = captures(test) else { return };
    let table = std::fs::read_to_string(folder.join("icrc_verdicts.tsv")).unwrap();
    let mut by_file: BTreeMap<&str, BTreeMap<u64, (&str, &str)>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let packet = columns[1].parse().unwrap();
        by_file.entry(columns[0]).or_default().insert(packet, (columns[4], columns[5]));
    }
    let mut dissector = dissector();
    let mut compared = 0;
    for (file, wanted) in by_file {
        each_record(&folder.join(file), |number, record| {
            let decoded = dissector.decode(Frame::of(record).unwrap()).unwrap();
            let parsed = &decoded.parsed;
            let (icrc, vcrc) = wanted.get(&number).copied().unwrap_or(("None", "None"));
            for (prefix, wanted) in [("icrc", icrc), ("vcrc", vcrc)] {
                let found = verdict(parsed, prefix);
                let same = match wanted {
                    "ok" => found == Some(true),
                    // A flipped bit may also be one that the parser rejects the packet for.
                    "bad" => found == Some(false) || found.is_none() && parsed.error().is_some(),
                    "none" | "None" => found.is_none(),
                    _ => false,
                };
                assert!(same, "{file} {number}: {prefix} {wanted}, found {found:?}");
                compared += 1;
            }
        });
    }
    assert!(compared >= 2 * 2004, "{compared}");
}

/// The FLUSH of this driver carries an ICRC over something else.
#[test]
fn linux_rxe_is_right_but_for_flush() {
    let Some(folder) = captures("linux_rxe_is_right_but_for_flush") else { return };
    let mut dissector = dissector();
    let (mut right, mut flush) = (0, 0);
    for path in files(&folder.join("linux-rxe-6.12")).iter().filter(|path| is_capture(path)) {
        each_record(path, |number, record| {
            let decoded = dissector.decode(Frame::of(record).unwrap()).unwrap();
            let Some(found) = verdict(&decoded.parsed, "icrc") else { return };
            let is_flush = decoded.parsed.field("bth.opcode") == Some(0x1c);
            assert_eq!(found, !is_flush, "{} {number}", path.display());
            *if is_flush { &mut flush } else { &mut right } += 1;
        });
    }
    assert!(right > 2000 && flush == 4, "{right} right, {flush} FLUSH");
}

/// tshark's columns and where the same is in the header libraries; the first header found counts.
const COLUMNS: &[(&str, &[&str])] = &[
    ("eth.dst", &["ethernet.dst"]),
    ("eth.src", &["ethernet.src"]),
    ("eth.type", &["ethernet.ether_type"]),
    ("vlan.id", &["vlan[2].vid", "vlan[1].vid", "vlan[0].vid"]),
    ("vlan.priority", &["vlan[2].pcp", "vlan[1].pcp", "vlan[0].pcp"]),
    ("vlan.etype", &["vlan[2].ether_type", "vlan[1].ether_type", "vlan[0].ether_type"]),
    ("ip.src", &["ipv4.src"]),
    ("ip.dst", &["ipv4.dst"]),
    ("ip.ttl", &["ipv4.ttl"]),
    ("ip.dsfield.dscp", &["ipv4.dscp"]),
    ("ip.dsfield.ecn", &["ipv4.ecn"]),
    ("ip.id", &["ipv4.id"]),
    ("ip.len", &["ipv4.total_len"]),
    ("ip.checksum", &["ipv4.checksum"]),
    ("ipv6.src", &["ipv6.src", "inner_ipv6.src"]),
    ("ipv6.dst", &["ipv6.dst", "inner_ipv6.dst"]),
    ("ipv6.plen", &["ipv6.payload_len", "inner_ipv6.payload_len"]),
    ("ipv6.hlim", &["ipv6.hop_limit", "inner_ipv6.hop_limit"]),
    ("ipv6.flow", &["ipv6.flow_label", "inner_ipv6.flow_label"]),
    ("udp.srcport", &["udp.src_port"]),
    ("udp.dstport", &["udp.dst_port"]),
    ("udp.length", &["udp.len"]),
    ("udp.checksum", &["udp.checksum"]),
    ("vxlan.vni", &["vxlan.vni"]),
    ("infiniband.lrh.vl", &["lrh.vl"]),
    ("infiniband.lrh.lver", &["lrh.lver"]),
    ("infiniband.lrh.sl", &["lrh.sl"]),
    ("infiniband.lrh.lnh", &["lrh.lnh"]),
    ("infiniband.lrh.dlid", &["lrh.dlid"]),
    ("infiniband.lrh.pktlen", &["lrh.pktlen"]),
    ("infiniband.lrh.slid", &["lrh.slid"]),
    ("infiniband.grh.ipver", &["grh.ipver"]),
    ("infiniband.grh.tclass", &["grh.tclass"]),
    ("infiniband.grh.flowlabel", &["grh.flowlabel"]),
    ("infiniband.grh.paylen", &["grh.paylen"]),
    ("infiniband.grh.nxthdr", &["grh.nexthdr"]),
    ("infiniband.grh.hoplmt", &["grh.hoplmt"]),
    ("infiniband.grh.sgid", &["grh.sgid"]),
    ("infiniband.grh.dgid", &["grh.dgid"]),
    ("infiniband.bth.opcode", &["bth.opcode"]),
    ("infiniband.bth.se", &["bth.solicited"]),
    ("infiniband.bth.m", &["bth.migreq"]),
    ("infiniband.bth.padcnt", &["bth.padcount"]),
    ("infiniband.bth.tver", &["bth.version"]),
    ("infiniband.bth.p_key", &["bth.pkey"]),
    ("infiniband.bth.destqp", &["bth.dqpn"]),
    ("infiniband.bth.a", &["bth.ackreq"]),
    ("infiniband.bth.psn", &["bth.psn"]),
    ("infiniband.deth.q_key", &["deth.qkey"]),
    ("infiniband.deth.srcqp", &["deth.sqpn"]),
    ("infiniband.reth.va", &["reth.va", "atomic_eth.va"]),
    ("infiniband.reth.r_key", &["reth.rkey", "atomic_eth.rkey"]),
    ("infiniband.reth.dmalen", &["reth.dma_len"]),
    ("infiniband.atomiceth.swapdt", &["atomic_eth.swap_add"]),
    ("infiniband.atomiceth.cmpdt", &["atomic_eth.compare"]),
    ("infiniband.aeth.syndrome", &["aeth.syndrome"]),
    ("infiniband.aeth.msn", &["aeth.msn"]),
    ("infiniband.atomicacketh.origremdt", &["atomic_ack_eth.original"]),
    ("infiniband.immdt", &["immdt.data"]),
    ("infiniband.ieth", &["ieth.rkey"]),
    ("infiniband.mad.baseversion", &["mad.base_version", "smp_dr.base_version"]),
    ("infiniband.mad.mgmtclass", &["mad.mgmt_class", "smp_dr.mgmt_class"]),
    ("infiniband.mad.classversion", &["mad.class_version", "smp_dr.class_version"]),
    ("infiniband.mad.method", &["mad.method", "smp_dr.method"]),
    ("infiniband.mad.transactionid", &["mad.tid", "smp_dr.tid"]),
    ("infiniband.mad.attributeid", &["mad.attr_id", "smp_dr.attr_id"]),
    ("infiniband.mad.attributemodifier", &["mad.attr_mod", "smp_dr.attr_mod"]),
    ("infiniband.smplid.mkey", &["smp.m_key", "smp_dr.m_key"]),
    ("infiniband.smpdirected.smpstatus", &["smp_dr.status"]),
    ("infiniband.smpdirected.hoppointer", &["smp_dr.hop_ptr"]),
    ("infiniband.smpdirected.hopcount", &["smp_dr.hop_cnt"]),
    ("infiniband.smpdirected.drslid", &["smp_dr.dr_slid"]),
    ("infiniband.smpdirected.drdlid", &["smp_dr.dr_dlid"]),
    ("infiniband.rwh.etype", &["rwh.ether_type", "ipoib.ether_type"]),
    ("infiniband.invariant.crc", &["icrc.value"]),
    ("infiniband.variant.crc", &["vcrc.value"]),
    ("macc.opcode", &["mac_control.opcode"]),
    ("macc.pause_time", &["pause.quanta"]),
    ("macc.cbfc.enbv", &["pfc.class_enable"]),
];

/// A value of tshark as a number; of several (an outer and an inner header), the first.
fn number(text: &str) -> u128 {
    let first = text.split(',').next().unwrap();
    if let Some(digits) = first.strip_prefix("0x") {
        return u128::from_str_radix(digits, 16).unwrap();
    }
    if let Ok(address) = first.parse::<std::net::Ipv4Addr>() {
        return address.to_bits().into();
    }
    if first.len() == 17 && first.bytes().filter(|byte| *byte == b':').count() == 5 {
        return u128::from_str_radix(&first.replace(':', ""), 16).unwrap();
    }
    match first.parse::<std::net::Ipv6Addr>() {
        Ok(address) => address.to_bits(),
        Err(_) => first.parse().unwrap_or_else(|_| panic!("{text}")),
    }
}

/// Opcodes of which tshark 4.0.17 does not know the headers behind the BTH: RD, CNP, XRC, FLUSH, ATOMIC WRITE.
fn unknown_to_tshark(opcode: u128) -> bool {
    matches!(opcode, 0x1c | 0x1d | 0x40..=0x5f | 0x80..)
}

/// Columns that say the same of any packet with a BTH.
fn behind_bth(column: &str) -> bool {
    column.starts_with("infiniband.")
        && !["lrh", "grh", "bth", "rwh"]
            .iter()
            .any(|h| column.starts_with(&format!("infiniband.{h}")))
}

fn compare(
    parsed: &Parsed<'_>,
    link: LinkType,
    (column, wanted): (&str, &str),
    place: &str,
    wrong: &mut Vec<String>,
) -> bool {
    let Some((_, paths)) = COLUMNS.iter().find(|(known, _)| *known == column) else { return false };
    // IP inside IPoIB is payload here.
    let ip = ["ip.", "ipv6.", "udp."].iter().any(|start| column.starts_with(start));
    if ip
        && link == LinkType::Infiniband
        && parsed.header("rwh").is_none()
        && parsed.header("ipv6").is_none()
    {
        return false;
    }
    // Nor is the packet that an ICMP error quotes decoded.
    let quotes = parsed.header("icmp").is_some() || parsed.header("icmpv6").is_some();
    if column.starts_with("udp.") && quotes {
        return false;
    }
    if behind_bth(column) && parsed.field("bth.opcode").is_some_and(unknown_to_tshark) {
        return false;
    }
    let mut found = paths.iter().find_map(|path| parsed.field(path));
    if column == "infiniband.smpdirected.smpstatus" {
        // With the D bit, which the column for it shows as 0 always.
        let direction = parsed.field("smp_dr.direction").unwrap_or(0);
        found = found.map(|status| direction << 15 | status);
    }
    // In connected mode (RC) nothing in the packet says that it is IPoIB.
    if column == "infiniband.rwh.etype" && parsed.field("bth.opcode").is_some_and(|op| op >> 5 == 0)
    {
        return false;
    }
    // The outer one of two tags is another protocol there.
    let wanted = match column.starts_with("vlan.") {
        true => wanted.rsplit(',').next().unwrap_or(wanted),
        false => wanted,
    };
    // Bytes are shown without 0x.
    let is_bytes = matches!(column, "infiniband.immdt" | "infiniband.ieth");
    let wanted =
        if is_bytes { format!("0x{}", wanted.trim_start_matches("0x")) } else { wanted.into() };
    if found != Some(number(&wanted)) {
        wrong.push(format!("{place}: {column} = {wanted}, found {found:x?}"));
    }
    true
}

#[test]
fn fields_are_those_of_tshark() {
    let Some(folder) = captures("fields_are_those_of_tshark") else { return };
    let mut dissector = dissector();
    let mut tables: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in files(&folder).into_iter().filter(|path| is_capture(path)) {
        let name = path.strip_prefix(&folder).unwrap().with_extension("");
        tables.insert(name.display().to_string().replace('/', "_"), path);
    }
    let (mut files_seen, mut compared) = (0, 0);
    let mut wrong = Vec::new();
    for table in files(&folder.join("decode")) {
        let stem = table.file_stem().unwrap().to_str().unwrap();
        let capture = tables.get(stem).unwrap_or_else(|| panic!("no capture for {stem}"));
        compared += compare_table(&mut dissector, capture, &table, &mut wrong);
        files_seen += 1;
    }
    let count = wrong.len();
    wrong.truncate(40);
    assert!(count == 0, "{count} of {compared} differ:\n{}", wrong.join("\n"));
    assert!(files_seen >= 70 && compared > 100_000, "{files_seen} files, {compared} values");
}

fn compare_table(
    dissector: &mut Dissector,
    capture: &Path,
    table: &Path,
    wrong: &mut Vec<String>,
) -> usize {
    let text = std::fs::read_to_string(table).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let mut rows: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let row: Vec<&str> = line.split('\t').collect();
        rows.insert(row[0].parse().unwrap(), row);
    }
    let mut compared = 0;
    each_record(capture, |packet, record| {
        let Some(row) = rows.get(&packet) else { return };
        let frame = Frame::of(record).unwrap();
        let decoded = dissector.decode(frame).unwrap();
        let place = format!("{} packet {packet}", table.file_name().unwrap().display());
        // What is rejected has only the headers before the error; the verdicts say that it is bad.
        if decoded.parsed.error().is_some() {
            return;
        }
        for (column, wanted) in columns.iter().zip(row).filter(|(_, wanted)| !wanted.is_empty()) {
            compared +=
                usize::from(compare(&decoded.parsed, frame.link, (column, wanted), &place, wrong));
        }
        let quanta =
            columns.iter().zip(row).filter(|(c, w)| c.contains("pause_time.c") && !w.is_empty());
        for (class, (_, wanted)) in quanta.enumerate() {
            let header = decoded.parsed.header("pfc").expect("a PFC header");
            let Some(Value::List(found)) = header.field("quanta") else { panic!("{place}") };
            assert_eq!(found[class], number(wanted), "{place}: class {class}");
        }
    });
    compared
}

#[test]
fn opa_headers_of_the_kernel() {
    let Some(folder) = captures("opa_headers_of_the_kernel") else { return };
    let text =
        std::fs::read_to_string(folder.join("opa-vnic-16b/opa_vnic_hdr_given.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut dissector = dissector();
    let names = [
        ("slid", "opa16b.slid"),
        ("dlid", "opa16b.dlid"),
        ("len_qw", "opa16b.length_qw"),
        ("pkey", "opa16b.pkey"),
        ("entropy", "opa16b.entropy"),
        ("sc", "opa16b.sc"),
        ("rc", "opa16b.rc"),
        ("l4_type", "opa16b.l4"),
        ("vesw_id", "opa_vnic.vesw"),
    ];
    let vectors = all.as_array().unwrap();
    assert!(vectors.len() > 5);
    for vector in vectors {
        let mut packet = bytes(vector["hdr20_hex"].as_str().unwrap());
        packet.resize(vector["len_qw"].as_u64().unwrap() as usize * 8, 0);
        let frame = Frame { bytes: &packet, wire_len: packet.len() as u32, link: LinkType::Opa };
        let decoded = dissector.decode(frame).unwrap();
        for (name, path) in names {
            let found = decoded.parsed.field(path);
            assert_eq!(found, vector[name].as_u64().map(u128::from), "{vector}: {name}");
        }
    }
}

#[test]
fn opa_lengths_of_the_kernel() {
    let Some(folder) = captures("opa_lengths_of_the_kernel") else { return };
    let path = folder.join("opa-vnic-16b/opa_vnic_wire_length.json");
    let all: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut dissector = dissector();
    let rows = all.as_array().unwrap();
    assert!(rows.len() >= 70, "{}", rows.len());
    for row in rows {
        let of = |name: &str| row[name].as_u64().unwrap();
        let (eth, pad, words) = (of("eth_frame_len"), of("pad_bytes"), of("wire_len_qwords"));
        // Word 0: the length; word 1: 16B; word 2: L4 0x78.
        let mut packet = ((words as u32) << 20).to_le_bytes().to_vec();
        packet.extend((2u32 << 29).to_le_bytes());
        packet.extend(0x78u32.to_le_bytes());
        packet.resize((20 + eth + pad + 4) as usize, 0);
        // An EtherType for experiments, so that nothing is read behind the Ethernet header.
        packet[32..34].copy_from_slice(&[0x88, 0xb5]);
        packet.push(pad as u8);
        let frame = Frame { bytes: &packet, wire_len: packet.len() as u32, link: LinkType::Opa };
        let decoded = dissector.decode(frame).unwrap();
        let parsed = &decoded.parsed;
        assert!(!matches!(parsed.error(), Some("bad_opa_length")), "{row}");
        assert_eq!(parsed.field("opa_tail.pad"), Some(pad.into()), "{row}");
        assert_eq!(parsed.field("opa16b.length_qw"), Some(words.into()), "{row}");
        assert_eq!(u64::from(parsed.body_range().end), 20 + eth + pad, "{row}");
        packet.push(0);
        let frame = Frame { bytes: &packet, wire_len: packet.len() as u32, link: LinkType::Opa };
        let longer = dissector.decode(frame).unwrap();
        let short_carrier = packet.len() == 60;
        assert!(short_carrier || longer.parsed.error() == Some("bad_opa_length"), "{row}");
    }
}
