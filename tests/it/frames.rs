//! The frames that this device builds itself, against `../shared/reference/vectors.json`, byte for byte.

use serde_json::Value;
use wireyard_switch::decode::{Dissector, Frame};
use wireyard_switch::frames::cnp::{CnpConfig, headers as cnp_headers};
use wireyard_switch::frames::envelope::{Address, Class, Encap, Refused};
use wireyard_switch::frames::{Frames, Mac};
use wireyard_switch::ports::LinkType;
use wireyard_switch::roce::opcode::Op;
use wireyard_switch::roce::packet::InPacket;
use wireyard_tests::{shared, skip};

use crate::packets::{bytes, dissector};

fn vectors(test: &str) -> Option<Vec<(String, Vec<u8>, LinkType)>> {
    let Some(shared) = shared() else {
        skip(test, "../shared is not there");
        return None;
    };
    let text = std::fs::read_to_string(shared.join("reference/vectors.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let found = all["vectors"].as_array().unwrap().iter().filter_map(|vector| {
        let id = vector["id"].as_str().unwrap();
        let link = match id.split('-').next().unwrap() {
            "ib" => LinkType::Infiniband,
            "opa" => return None,
            _ => LinkType::Ethernet,
        };
        Some((id.to_owned(), bytes(vector["hex"].as_str()?), link))
    });
    Some(found.collect())
}

/// Ids of the vectors that `gen_vectors.py` computed: those of captures have what their sender chose.
fn computed() -> Vec<String> {
    let text = std::fs::read_to_string(shared().unwrap().join("reference/vectors.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let ours = |vector: &&Value| {
        let cite = vector["cite"].as_str().unwrap_or_default();
        cite.starts_with("gen_vectors.py") || cite.contains("return_cnp")
    };
    let found = all["vectors"].as_array().unwrap().iter().filter(ours);
    found.map(|vector| vector["id"].as_str().unwrap().to_owned()).collect()
}

/// The class that a frame was sent with, as the decoder reads it.
fn class_of(dissector: &mut Dissector, frame: &[u8], link: LinkType) -> Class {
    let decoded =
        dissector.decode(Frame { bytes: frame, wire_len: frame.len() as u32, link }).unwrap();
    let field = |path: &str| decoded.parsed.field(path).map(|value| value as u8);
    let grh = field("grh.tclass").unwrap_or(0);
    Class {
        dscp: field("ipv4.dscp").or(field("ipv6.dscp")).unwrap_or(grh >> 2),
        ecn: field("ipv4.ecn").or(field("ipv6.ecn")).unwrap_or(grh & 3),
        pcp: field("vlan[0].pcp").or(field("lrh.sl")).unwrap_or(0),
        vl: field("lrh.vl").unwrap_or(0),
    }
}

/// Builds again what was read.
fn build(frames: &Frames, seen: &InPacket<'_>, to: &Address, class: &Class) -> Vec<u8> {
    let envelope = frames.transport.envelope(to, class).unwrap();
    let mut out = vec![0; 5000];
    let fill = |to: &mut [u8]| {
        to.copy_from_slice(seen.payload);
        Ok(())
    };
    let length = seen.payload.len();
    let bytes =
        frames.transport.build_with(&envelope, &seen.headers, length, &mut out, fill).unwrap();
    out.truncate(bytes);
    out
}

#[test]
fn transport_vectors_are_built_byte_for_byte() {
    let Some(vectors) = vectors("transport_vectors_are_built_byte_for_byte") else { return };
    let (frames, mut dissector) = (Frames::new().unwrap(), dissector());
    let built_here = computed();
    let (mut built, mut refused) = (Vec::new(), Vec::new());
    for (id, frame, link) in &vectors {
        let seen = match frames.transport.parse(*link, frame) {
            Ok(seen) => seen.packet,
            Err(why) => {
                refused.push((id.as_str(), why));
                continue;
            }
        };
        let class = class_of(&mut dissector, frame, *link);
        let address = frames.transport.address_of(*link, frame).unwrap();
        let again = build(&frames, &seen, &address, &class);
        // Others choose a VL that is not the SL, leave MigReq clear, number their IPv4 packets: those frames have
        // the right length and fields, and the computed ones are equal.
        if !built_here.contains(id) {
            assert_eq!(again.len(), frame.len(), "{id}");
            let same = frames.transport.parse(*link, &again).unwrap().packet;
            assert_eq!((same.headers, same.payload), (seen.headers, seen.payload), "{id}");
            continue;
        }
        assert_eq!(again, *frame, "{id}");
        built.push(id.as_str());
    }
    assert!(built.len() >= 25, "{built:?}");
    for id in [
        "rocev2-v4-rc-ack",
        "rocev2-v6-rc-ack",
        "rocev2-v4-cnp",
        "rocev1-vlan-cnp",
        "ib-cnp-0x80",
        "rocev1-vlan-rc-write-first-256",
        "ib-grh-rc-read-req",
        "rocev2-v4-ud-send-only-imm",
    ] {
        assert!(built.contains(&id), "{id} in {built:?}");
    }
    let spoken = |frame: &[u8], link: LinkType| {
        let wire_len = frame.len() as u32;
        let decoded = dissector.decode(Frame { bytes: frame, wire_len, link }).unwrap();
        let opcode = decoded.parsed.field("bth.opcode").map(|opcode| opcode as u8);
        let right = decoded.parsed.crcs().all(|crc| crc.right) && decoded.parsed.error().is_none();
        right && opcode.is_some_and(|op| Op::decode(op).is_some() || op == 0x80 || op == 0x81)
    };
    let mut spoken = spoken;
    for (id, frame, link) in &vectors {
        let known = refused.iter().find(|(refused, _)| refused == id);
        assert_eq!(known.is_none(), spoken(frame, *link), "{id}: {known:?}");
    }
}

#[test]
fn cnp_vectors_are_built_from_a_decision() {
    let Some(vectors) = vectors("cnp_vectors_are_built_from_a_decision") else { return };
    let frames = Frames::new().unwrap();
    for (id, class) in [
        ("rocev2-v4-cnp", Class { dscp: 26, ecn: 2, pcp: 0, vl: 0 }),
        ("rocev1-vlan-cnp", Class { dscp: 0, ecn: 0, pcp: 3, vl: 0 }),
        ("ib-cnp-0x80", Class { dscp: 0, ecn: 0, pcp: 0, vl: 0 }),
    ] {
        let (_, frame, link) = vectors.iter().find(|vector| vector.0 == id).unwrap();
        let seen = frames.transport.parse(*link, frame).unwrap().packet;
        let address = frames.transport.address_of(*link, frame).unwrap();
        assert_eq!(seen.headers, cnp_headers(address.encap, 0x118, 0xffff), "{id}");
        let envelope = frames.transport.envelope(&address, &class).unwrap();
        let mut out = [0; 128];
        let bytes = frames.transport.build_cnp_in(&envelope, 0x118, 0xffff, &mut out).unwrap();
        assert_eq!(out[..bytes], frame[..], "{id}");
    }
    let config = CnpConfig::default();
    assert_eq!((config.class.dscp, config.class.ecn, config.udp_src_port), (48, 2, 0));
}

#[test]
fn flow_control_vectors_are_built_byte_for_byte() {
    let Some(vectors) = vectors("flow_control_vectors_are_built_byte_for_byte") else { return };
    let frames = Frames::new().unwrap();
    let ids = ["pfc-xoff-p3", "pfc-xon-p3", "pause-1234"];
    for id in ids {
        let (_, frame, _) = vectors.iter().find(|vector| vector.0 == id).unwrap();
        let said = frames.flow_control.parse(frame).unwrap();
        let from = Mac(frame[6..12].try_into().unwrap());
        assert_eq!(frames.flow_control.build(from, &said)[..], frame[..], "{id}");
    }
}

/// Flipping any bit that ICRC, VCRC or a checksum covers is noticed.
#[test]
fn a_flipped_covered_bit_is_refused() {
    let Some(vectors) = vectors("a_flipped_covered_bit_is_refused") else { return };
    let frames = Frames::new().unwrap();
    let (mut flipped, mut passed) = (0, 0);
    for (id, frame, link) in &vectors {
        let mut frame = frame.clone();
        if frames.transport.parse(*link, &frame).is_err() {
            continue;
        }
        let address = frames.transport.address_of(*link, &frame).unwrap();
        let encap = address.encap;
        let front = match (encap.is_infiniband(), address.vlan) {
            (true, _) => 0,
            (false, None) => 14,
            (false, Some(_)) => 18,
        };
        let mut masked = Vec::new();
        for bit in front * 8..frame.len() * 8 {
            frame[bit / 8] ^= 0x80 >> (bit % 8);
            match frames.transport.parse(*link, &frame) {
                Err(Refused::NotTransport) | Err(_) => flipped += 1,
                Ok(_) => masked.push(bit - front * 8),
            }
            frame[bit / 8] ^= 0x80 >> (bit % 8);
        }
        passed += masked.len();
        // What may pass is what a switch may change: traffic class, flow label, hop limit, UDP checksum, FECN,
        // BECN and the reserved bits beside them.
        let allowed: &[std::ops::Range<usize>] = match encap {
            // The IPv4 header has a checksum of its own.
            Encap::RoceV2Ipv4 => &[26 * 8..28 * 8, 32 * 8..33 * 8],
            Encap::RoceV2Ipv6 => &[4..32, 56..64, 46 * 8..48 * 8, 52 * 8..53 * 8],
            Encap::RoceV1 => &[4..32, 56..64, 44 * 8..45 * 8],
            Encap::IbLocal | Encap::IbGlobal => &[],
        };
        let wrong: Vec<_> =
            masked.iter().filter(|bit| !allowed.iter().any(|range| range.contains(bit))).collect();
        assert!(wrong.is_empty(), "{id}: bits {wrong:?} behind the Ethernet header");
    }
    assert!(flipped > 20_000 && passed > 500, "{flipped} {passed}");
}
