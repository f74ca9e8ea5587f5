//! Byte-exact frames with known fields and CRCs: `../shared/reference/vectors.json`.

use serde_json::Value;
use wireyard_pipeline::externs::crc::CrcEngine;
use wireyard_pipeline::ir::CrcParams;
use wireyard_switch::decode::{Decoded, Dissector, Frame};
use wireyard_switch::ports::LinkType;
use wireyard_tests::{shared, skip};

use crate::packets::{bytes, dissector, emit};

struct Vector {
    id: String,
    bytes: Vec<u8>,
    link: LinkType,
    expect: Vec<(String, Value)>,
}

fn vectors(test: &str) -> Option<Vec<Vector>> {
    let Some(shared) = shared() else {
        skip(test, "../shared is not there");
        return None;
    };
    let text = std::fs::read_to_string(shared.join("reference/vectors.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    for vector in all["vectors"].as_array().unwrap() {
        let id = vector["id"].as_str().unwrap();
        let link = match id.split('-').next().unwrap() {
            "ib" => LinkType::Infiniband,
            "opa" => LinkType::Opa,
            _ => LinkType::Ethernet,
        };
        for key in ["hex", "hex_driver_tail", "hex_doc_tail"] {
            if let Some(hex) = vector[key].as_str() {
                let expect = vector["expect"].as_object().unwrap().clone().into_iter().collect();
                found.push(Vector { id: format!("{id}/{key}"), bytes: bytes(hex), link, expect });
            }
        }
    }
    assert!(found.len() >= 60, "{} vectors", found.len());
    Some(found)
}

fn decode<'d>(dissector: &'d mut Dissector, bytes: &'d [u8], link: LinkType) -> Decoded<'d> {
    dissector.decode(Frame { bytes, wire_len: bytes.len() as u32, link }).unwrap()
}

/// The verdict on the ICRC, or on the VCRC.
fn right(decoded: &Decoded<'_>, prefix: &str) -> Option<bool> {
    decoded.parsed.crcs().find(|crc| crc.name.starts_with(prefix)).map(|crc| crc.right)
}

/// The legal frames: one is a vector for the CRC only.
const ILLEGAL: &str = "ib-mpga-global/hex";

#[test]
fn parse_then_emit_is_identical() {
    let Some(vectors) = vectors("parse_then_emit_is_identical") else { return };
    let mut dissector = dissector();
    for vector in &vectors {
        let decoded = decode(&mut dissector, &vector.bytes, vector.link);
        let error = match vector.id.as_str() {
            ILLEGAL => Some("bad_grh"),
            // The header alone.
            "opa-fecn-mark/hex" => Some("bad_opa_length"),
            _ => None,
        };
        assert_eq!(decoded.parsed.error(), error, "{}", vector.id);
        assert_eq!(emit(&decoded.parsed), vector.bytes, "{}", vector.id);
    }
}

/// Where the vectors' names are in the header libraries. Nothing: `special` names the field.
fn path(name: &str, link: LinkType) -> Option<&'static str> {
    if link == LinkType::Opa {
        return Some(match name {
            "SLID" => "opa16b.slid",
            "DLID" => "opa16b.dlid",
            "LenQW" => "opa16b.length_qw",
            "BECN" => "opa16b.becn",
            "FECN" => "opa16b.fecn",
            "L2" => "opa16b.l2",
            "LT_head" => "opa16b.lt",
            "SC" => "opa16b.sc",
            "RC" => "opa16b.rc",
            "L4" => "opa16b.l4",
            "PKey" => "opa16b.pkey",
            "Entropy" => "opa16b.entropy",
            "Age" => "opa16b.age",
            "VeswID" => "opa_vnic.vesw",
            "pad" => "opa_tail.pad",
            _ => return None,
        });
    }
    Some(match name {
        "VL" => "lrh.vl",
        "LVer" => "lrh.lver",
        "SL" => "lrh.sl",
        "LNH" => "lrh.lnh",
        "DLID" => "lrh.dlid",
        "SLID" => "lrh.slid",
        "PktLenWords" => "lrh.pktlen",
        "RWH_EtherType" => "rwh.ether_type",
        "GRH_IPVer" => "grh.ipver",
        "GRH_tclass" => "grh.tclass",
        "GRH_PayLen" => "grh.paylen",
        "GRH_NxtHdr" => "grh.nexthdr",
        "GRH_HopLmt" | "HopLmt" => "grh.hoplmt",
        "opcode" => "bth.opcode",
        "SE" => "bth.solicited",
        "M" => "bth.migreq",
        "PadCnt" => "bth.padcount",
        "TVer" => "bth.version",
        "PKey" => "bth.pkey",
        "FECN" => "bth.fecn",
        "BECN" => "bth.becn",
        "DestQP" => "bth.dqpn",
        "AckReq" => "bth.ackreq",
        "PSN" => "bth.psn",
        "QKey" => "deth.qkey",
        "SrcQP" => "deth.sqpn",
        "RETH_VA" => "reth.va",
        "RKey" => "reth.rkey",
        "DMALen" => "reth.dma_len",
        "ImmDt" => "immdt.data",
        "IETH" => "ieth.rkey",
        "Syndrome" | "syndrome" => "aeth.syndrome",
        "MSN" => "aeth.msn",
        "Method" => "smp_dr.method",
        "Status" => "smp_dr.status",
        "D" => "smp_dr.direction",
        "HopPtr" => "smp_dr.hop_ptr",
        "HopCnt" => "smp_dr.hop_cnt",
        "TID" => "smp_dr.tid",
        "AttrID" => "smp_dr.attr_id",
        "AttrMod" => "smp_dr.attr_mod",
        "MKey" => "smp_dr.m_key",
        "DrSLID" => "smp_dr.dr_slid",
        "DrDLID" => "smp_dr.dr_dlid",
        "IPoIB_type" => "ipoib.ether_type",
        "ARP_htype" => "arp.hw_type",
        "ARP_hlen" => "arp.hw_len",
        "ARP_op" => "arp.op",
        "ethertype" => "ethernet.ether_type",
        "PCP" => "vlan[0].pcp",
        "VID" => "vlan[0].vid",
        "ip_len" => "ipv4.total_len",
        "ttl" => "ipv4.ttl",
        "ip_csum" => "ipv4.checksum",
        "sport" => "udp.src_port",
        "dport" => "udp.dst_port",
        "udp_len" => "udp.len",
        "flow" => "ipv6.flow_label",
        "hlim" => "ipv6.hop_limit",
        "cev" => "pfc.class_enable",
        "pause_time" => "pause.quanta",
        _ => return None,
    })
}

/// The number at the start of a value: `14`, `"0x0a RC RDMA WRITE ONLY"`, `"0x375c"`.
fn number(value: &Value) -> u128 {
    if let Some(number) = value.as_u64() {
        return number.into();
    }
    let text = value.as_str().unwrap().split_whitespace().next().unwrap();
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap_or_else(|_| panic!("{text}")),
    }
}

fn wire(value: &Value) -> u128 {
    let text = value.as_str().unwrap().split_whitespace().next().unwrap();
    u128::from_str_radix(text, 16).unwrap()
}

/// Values that are no single field; false when the name is not known here either.
fn special(decoded: &Decoded<'_>, name: &str, value: &Value, id: &str) -> bool {
    let field = |path: &str| decoded.parsed.field(path).unwrap_or_else(|| panic!("{id}: {path}"));
    let text = value.as_str().unwrap_or_default();
    let same = |found: u128, wanted: u128| assert_eq!(found, wanted, "{id}: {name}");
    match name {
        "ICRC" | "ICRC_wire" if value.is_null() => same(right(decoded, "icrc").is_some().into(), 0),
        // The recomputed values of an illegal frame are checked by `crcs_of_the_illegal_frame`.
        "ICRC" | "ICRC_wire" if id == ILLEGAL => {}
        "ICRC" | "ICRC_wire" => {
            same(field("icrc.value"), wire(value));
            assert_eq!(right(decoded, "icrc"), Some(true), "{id}");
        }
        "VCRC" | "VCRC_wire" => {
            same(field("vcrc.value"), wire(value));
            assert_eq!(right(decoded, "vcrc"), Some(true), "{id}");
        }
        "ICRC_crc32_register" => {
            same((field("icrc.value") as u32).swap_bytes().into(), number(value))
        }
        "VCRC_register" => same((field("vcrc.value") as u16).swap_bytes().into(), number(value)),
        "icrc_ok" => assert_eq!(right(decoded, "icrc"), value.as_bool(), "{id}"),
        "tos" => same(field("ipv4.dscp") << 2 | field("ipv4.ecn"), number(value)),
        "tc" => same(field("ipv6.dscp") << 2 | field("ipv6.ecn"), number(value)),
        "DF" => same(field("ipv4.flags") >> 1 & 1, number(value)),
        "udp_csum" if value.is_number() => same(field("udp.checksum"), number(value)),
        "udp_csum" => assert!(text.starts_with("unchanged")),
        "payload_bytes" => {
            same(decoded.parsed.body().len() as u128 - field("bth.padcount"), number(value));
        }
        "frame_len_no_fcs" | "total" => same(decoded.parsed.bytes().len() as u128, number(value)),
        "AETH" if value.is_null() => assert!(decoded.parsed.header("aeth").is_none(), "{id}"),
        "AETH" => same(field("aeth.syndrome") << 24 | field("aeth.msn"), number(value)),
        "Status_raw" => {
            same(field("smp_dr.direction") << 15 | field("smp_dr.status"), number(value))
        }
        "DGID" | "SGID" => {
            let address: std::net::Ipv6Addr = text.parse().unwrap();
            same(field(if name == "DGID" { "grh.dgid" } else { "grh.sgid" }), address.to_bits());
        }
        "MAD" => {
            let all = ["base_version", "mgmt_class", "class_version", "method"];
            let found = all.map(|name| field(&format!("smp_dr.{name}")));
            assert_eq!(found, [1, 0x81, 1, 1], "{id}: {text}");
        }
        "InitialPath" => {
            let header = decoded.parsed.header("smp_dr").unwrap();
            let wireyard_pipeline::decode::Value::List(path) =
                header.field("initial_path").unwrap()
            else {
                panic!("{id}");
            };
            assert_eq!(path[..3], [0, 2, 3], "{id}: {text}");
        }
        "sender_ha" => {
            let found = field("arp_ipoib.sender_flags") << 24 | field("arp_ipoib.sender_qpn");
            let address = format!(
                "{:02x}|{:06x}|{:032x}",
                found >> 24,
                found & 0xff_ffff,
                field("arp_ipoib.sender_gid")
            );
            assert_eq!(address, text, "{id}");
        }
        // In connected mode nothing in the packet says that it is IPoIB.
        "IPoIB_type" if decoded.parsed.header("deth").is_none() => {
            let body = decoded.parsed.body();
            same(u128::from(body[0]) << 8 | u128::from(body[1]), number(value));
        }
        "t3" => {
            let header = decoded.parsed.header("pfc").unwrap();
            let Some(wireyard_pipeline::decode::Value::List(quanta)) = header.field("quanta")
            else {
                panic!("{id}");
            };
            same(quanta[3], number(value));
        }
        "reserved16" => same(field("cnp_reserved.zero"), 0),
        "swap" => same(field("atomic_eth.swap_add") >> 56, 0x11),
        "compare" => same(field("atomic_eth.compare") >> 56, 0x22),
        "FETH" => {
            assert_eq!(text, "SEL=1 PLT=1");
            same(field("feth.sel") << 4 | field("feth.plt"), 0x11);
        }
        "XRCETH" => {
            assert_eq!(text, "rsvd8=0 srqn=0x55");
            same(field("xrceth.reserved") << 24 | field("xrceth.srqn"), 0x55);
        }
        "order" => {
            let wanted: Vec<String> = text.split([',', ' ']).map(str::to_lowercase).collect();
            let wanted = wanted.iter().filter(|word| !word.is_empty() && *word != "then");
            let found: Vec<&str> = decoded.parsed.headers().iter().map(|h| h.name).collect();
            let at: Vec<_> = wanted
                .map(|name| found.iter().position(|known| known == name).expect(name))
                .collect();
            assert!(at.is_sorted() && at.len() == 2, "{id}: {found:?}");
        }
        "eth_len" => {
            let pad = field("opa_tail.pad");
            same(decoded.parsed.body_range().end as u128 - 20 - pad, number(value));
        }
        _ => return false,
    }
    true
}

#[test]
fn fields_are_as_expected() {
    let Some(vectors) = vectors("fields_are_as_expected") else { return };
    let mut dissector = dissector();
    let mut compared = 0;
    for vector in &vectors {
        let id = &vector.id;
        let decoded = decode(&mut dissector, &vector.bytes, vector.link);
        for (name, value) in &vector.expect {
            compared += 1;
            if special(&decoded, name, value, id) {
                continue;
            }
            let path =
                path(name, vector.link).unwrap_or_else(|| panic!("{id}: {name} is not known"));
            let text = value.as_str().unwrap_or_default();
            if text.starts_with("unchanged") {
                continue;
            }
            let found = decoded.parsed.field(path);
            if vector.id == ILLEGAL && found.is_none() {
                continue;
            }
            assert_eq!(found, Some(number(value)), "{id}: {name}");
        }
    }
    assert!(compared > 300, "{compared} values");
}

/// The GRH of this frame is not legal, so it is rejected; its CRCs are still known.
#[test]
fn crcs_of_the_illegal_frame() {
    let Some(vectors) = vectors("crcs_of_the_illegal_frame") else { return };
    let frame = &vectors.iter().find(|vector| vector.id == ILLEGAL).unwrap().bytes;
    let end = frame.len() - 6;
    let mut masked = vec![0xff; 8];
    masked.extend(&frame[8..end]);
    masked[8] |= 0x0f;
    for at in [9, 10, 11, 15, 52] {
        masked[at] = 0xff;
    }
    let params = |width, poly| {
        let ones = if width == 16 { 0xffff } else { 0xffff_ffff };
        let (reflect, store_little_endian) = (true, true);
        CrcParams { width, poly, init: ones, reflect, xor_out: ones, store_little_endian }
    };
    let crc = |params, bytes: &[u8]| {
        let engine = CrcEngine::new(params);
        let mut run = engine.start();
        run.add(bytes);
        run.field_value()
    };
    assert_eq!(crc(params(32, 0x04c1_1db7), &masked), 0x1493_ec46);
    assert_eq!(crc(params(16, 0x100b), &frame[..end + 4]), 0x7c44);
}

/// What the ICRC says about a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bit {
    Covered,
    Masked,
    /// Not covered, but the parser goes elsewhere or rejects when it changes.
    Shape,
}

/// Every bit of a frame with an ICRC.
fn bits(frame: &[u8], link: LinkType) -> Vec<Bit> {
    let mut bits = vec![Bit::Covered; frame.len() * 8];
    let mut set = |from: usize, to: usize, bit: Bit| bits[from..to].fill(bit);
    let grh = |set: &mut dyn FnMut(usize, usize, Bit), at: usize| {
        set(at * 8 + 4, at * 8 + 32, Bit::Masked);
        set((at + 7) * 8, (at + 8) * 8, Bit::Masked);
    };
    let bth = if link == LinkType::Infiniband {
        let end = frame.len() * 8;
        set(end - 16, end, Bit::Masked);
        set(0, 4, Bit::Masked);
        if frame[1] & 3 == 2 {
            8
        } else {
            set(0, 64, Bit::Masked);
            set(4, 8, Bit::Shape);
            set(14, 16, Bit::Shape);
            set(37, 48, Bit::Shape);
            grh(&mut set, 8);
            48
        }
    } else {
        set(0, 12 * 8, Bit::Masked);
        set(12 * 8, 14 * 8, Bit::Shape);
        let mut at = 14;
        if frame[12..14] == [0x81, 0x00] {
            set(14 * 8, 16 * 8, Bit::Masked);
            set(16 * 8, 18 * 8, Bit::Shape);
            at = 18;
        }
        match frame[at - 2..at] {
            [0x89, 0x15] => {
                grh(&mut set, at);
                at + 40
            }
            [0x08, 0x00] => {
                for byte in [1, 8, 10, 11, 26, 27] {
                    set((at + byte) * 8, (at + byte + 1) * 8, Bit::Masked);
                }
                at + 28
            }
            _ => {
                grh(&mut set, at);
                set((at + 46) * 8, (at + 48) * 8, Bit::Masked);
                at + 48
            }
        }
    };
    set((bth + 4) * 8, (bth + 5) * 8, Bit::Masked);
    bits
}

#[test]
fn every_covered_bit_is_detected_and_no_masked_one() {
    let test = "every_covered_bit_is_detected_and_no_masked_one";
    let Some(vectors) = vectors(test) else { return };
    let mut dissector = dissector();
    let (mut frames, mut covered, mut masked) = (0, 0, 0);
    for vector in &vectors {
        let mut frame = vector.bytes.clone();
        if right(&decode(&mut dissector, &frame, vector.link), "icrc") != Some(true) {
            continue;
        }
        frames += 1;
        for (at, bit) in bits(&frame, vector.link).into_iter().enumerate() {
            frame[at / 8] ^= 0x80 >> (at % 8);
            let decoded = decode(&mut dissector, &frame, vector.link);
            let icrc = right(&decoded, "icrc");
            let place = format!("{}: byte {} bit {}", vector.id, at / 8, 7 - at % 8);
            match bit {
                Bit::Covered => {
                    covered += 1;
                    assert_ne!(icrc, Some(true), "{place} is covered");
                }
                Bit::Masked => {
                    masked += 1;
                    assert_eq!(icrc, Some(true), "{place} is masked");
                }
                Bit::Shape => {}
            }
            if vector.link == LinkType::Infiniband {
                assert_ne!(right(&decoded, "vcrc"), Some(true), "{place}: VCRC covers all");
            }
            frame[at / 8] ^= 0x80 >> (at % 8);
        }
    }
    assert!(frames >= 47 && covered > 25_000 && masked > 4_000, "{frames} {covered} {masked}");
}
