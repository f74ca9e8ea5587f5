//! Built packets are parsed, for any headers in any encapsulation; any bytes are parsed or refused.

use std::sync::Arc;

use proptest::prelude::*;

use crate::roce::opcode::{CNP_NATIVE, CNP_ROCEV2, Op};
use crate::roce::packet::{Aeth, AtomicEth, Deth, Leading, Reth, Trailing};

use super::super::envelope::mapped;
use super::super::{Frames, Mac};
use super::*;

fn frames() -> Arc<Frames> {
    Frames::shared().unwrap()
}

fn link_of(encap: Encap) -> LinkType {
    if encap.is_infiniband() { LinkType::Infiniband } else { LinkType::Ethernet }
}

prop_compose! {
    fn any_address()(
        encap in prop::sample::select(Encap::ALL.to_vec()), macs in any::<[[u8; 6]; 2]>(),
        ends in any::<[u128; 2]>(), vlan in proptest::option::of(0u16..4095), lids in any::<[u16; 2]>(),
        udp_src_port in any::<u16>(), flow_label in 0u32..1 << 20, hop_limit in any::<u8>(),
    ) -> Address {
        let end = |n: usize| match encap {
            Encap::RoceV2Ipv4 => mapped((ends[n] as u32).into()),
            Encap::IbLocal => lids[n].into(),
            // Never by chance an IPv4-mapped address.
            _ => ends[n] | 1 << 127,
        };
        let to = Address::new(encap, Mac(macs[0]), Mac(macs[1]), end(0), end(1));
        let infiniband = encap.is_infiniband();
        Address {
            vlan: vlan.filter(|_| !infiniband),
            slid: if infiniband { lids[0] } else { 0 },
            dlid: if infiniband { lids[1] } else { 0 },
            src_mac: if infiniband { Mac::default() } else { to.src_mac },
            dst_mac: if infiniband { Mac::default() } else { to.dst_mac },
            udp_src_port: match encap {
                Encap::RoceV2Ipv4 | Encap::RoceV2Ipv6 => udp_src_port,
                _ => to.udp_src_port,
            },
            flow_label: match encap {
                Encap::RoceV2Ipv4 | Encap::IbLocal => 0,
                _ => flow_label,
            },
            hop_limit: if encap == Encap::IbLocal { to.hop_limit } else { hop_limit },
            ..to
        }
    }
}

fn opcodes() -> Vec<u8> {
    let spoken = (0..=255).filter(|opcode| Op::decode(*opcode).is_some());
    spoken.chain([CNP_NATIVE, CNP_ROCEV2]).collect()
}

prop_compose! {
    /// Headers that fit the opcode.
    fn any_headers()(
        opcode in prop::sample::select(opcodes()), bits in any::<[bool; 4]>(), pkey in any::<u16>(),
        dest_qp in 0u32..1 << 24, psn in 0u32..1 << 24, words in any::<[u64; 4]>(), pad in 0u8..4,
    ) -> Headers {
        let (low, service) = (opcode & 0x1f, opcode >> 5);
        let mut headers = Headers::new(Bth {
            opcode, solicited: bits[0], pad, pkey, fecn: bits[1], becn: bits[2], dest_qp,
            ack_req: bits[3], psn: Psn::new(psn),
        });
        if service == 0b100 {
            return headers;
        }
        let key = words[1] as u32;
        if [0x06, 0x0a, 0x0b, 0x0c].contains(&low) {
            let len_bytes = words[2] as u32;
            headers.leading = Leading::Reth(Reth { va: words[0], rkey: key, len_bytes });
        }
        if [0x0d, 0x0f, 0x10, 0x11, 0x12].contains(&low) {
            headers.leading = Leading::Aeth(Aeth { syndrome: words[0] as u8, msn: key >> 8 });
        }
        if low == 0x12 {
            headers.trailing = Trailing::AtomicAck(words[3]);
        }
        if [0x13, 0x14].contains(&low) {
            let (swap_or_add, compare) = (words[2], words[3]);
            headers.leading = Leading::Atomic(AtomicEth { va: words[0], rkey: key, swap_or_add, compare });
        }
        if [0x03, 0x05, 0x09, 0x0b].contains(&low) {
            headers.trailing = Trailing::Imm(words[3] as u32);
        }
        if [0x16, 0x17].contains(&low) {
            headers.trailing = Trailing::Ieth(words[3] as u32);
        }
        if service == 3 {
            headers.leading = Leading::Deth(Deth { qkey: key, src_qp: words[2] as u32 & 0xff_ffff });
        }
        headers
    }
}

/// A reflected CRC that starts with all ones and is inverted at its end, bit by bit.
fn reflected_crc(poly: u32, ones: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { poly } else { 0 };
    !bytes.iter().fold(ones, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
        & ones
}

/// The expected ICRC and, on InfiniBand, VCRC of a frame, from the table of masks of IBTA vol. 1, 7.8, and of RoCE
/// annexes A16 and A17.
fn crcs(to: &Address, frame: &[u8]) -> Vec<u8> {
    let infiniband = to.encap.is_infiniband();
    let end = frame.len() - if infiniband { 6 } else { 4 };
    let front = if infiniband { 0 } else { 14 + if to.vlan.is_some() { 4 } else { 0 } };
    let mut covered = if infiniband { Vec::new() } else { vec![0xff; 8] };
    covered.extend_from_slice(&frame[front..end]);
    let (whole, bth): (&[usize], _) = match to.encap {
        Encap::IbLocal => (&[], 8),
        Encap::IbGlobal => (&[0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 15], 48),
        Encap::RoceV1 => (&[9, 10, 11, 15], 48),
        Encap::RoceV2Ipv4 => (&[9, 16, 18, 19, 34, 35], 36),
        Encap::RoceV2Ipv6 => (&[9, 10, 11, 15, 54, 55], 56),
    };
    whole.iter().chain([&(bth + 4)]).for_each(|at| covered[*at] = 0xff);
    match to.encap {
        Encap::IbLocal => covered[0] |= 0xf0,
        Encap::RoceV2Ipv4 => {}
        _ => covered[8] |= 0x0f,
    }
    let icrc = reflected_crc(0xedb8_8320, u32::MAX, &covered).to_le_bytes();
    let vcrc = reflected_crc(0xd008, 0xffff, &frame[..end + 4]).to_le_bytes();
    if infiniband { [&icrc[..], &vcrc[..2]].concat() } else { icrc.to_vec() }
}

#[test]
fn what_is_built_is_read() {
    let frames = frames();
    let config = ProptestConfig::with_cases(400);
    proptest!(config, |(
        to in any_address(), headers in any_headers(), words in 0usize..300,
        dscp in 0u8..64, ecn in 0u8..4, pcp in 0u8..8, slack in 0usize..9, cut in any::<u16>(),
    )| {
        let envelope = frames.transport.envelope(&to, &Class { dscp, ecn, pcp, vl: pcp }).unwrap();
        let payload: Vec<u8> = (0..words * 4 + 4 - usize::from(headers.bth.pad))
            .map(|n| (n * 7) as u8)
            .collect();
        let mut out = vec![0xee; 1600];
        let fill = |to: &mut [u8]| -> Result<(), BuildError> {
            to.copy_from_slice(&payload);
            Ok(())
        };
        let bytes = frames
            .transport
            .build_with(&envelope, &headers, payload.len(), &mut out, fill)
            .unwrap();
        prop_assert!(out[bytes..].iter().all(|byte| *byte == 0xee));
        prop_assert!(out[..bytes].ends_with(&crcs(&to, &out[..bytes])));
        // Ethernet pads short frames; bytes after the ICRC are not part of the packet.
        let slack = if to.encap.is_infiniband() { 0 } else { slack };
        let link = link_of(to.encap);
        let seen = frames.transport.parse(link, &out[..bytes + slack]).unwrap();
        prop_assert_eq!(seen.packet.headers, headers);
        prop_assert_eq!(seen.packet.payload, &payload[..]);
        prop_assert_eq!(frames.transport.address_of(link, &out[..bytes + slack]), Ok(to));
        prop_assert_eq!(seen.dst, to.dst);
        let ip = matches!(to.encap, Encap::RoceV2Ipv4 | Encap::RoceV2Ipv6);
        let fecn = to.encap.is_infiniband() && headers.bth.fecn;
        let mark = if ip && ecn == 3 { Some(Mark::IpCe) } else { fecn.then_some(Mark::Fecn) };
        prop_assert_eq!(seen.mark, mark);
        let short = usize::from(cut) % bytes;
        prop_assert!(frames.transport.parse(link, &out[..short]).is_err());
    });
}

/// With room for telemetry: its contents have no effect on the rest, whose CRC is computed without it.
#[test]
fn what_is_built_with_telemetry_is_read_with_it() {
    let frames = frames();
    let config = ProptestConfig::with_cases(200);
    proptest!(config, |(
        to in any_address(), headers in any_headers(), words in 0usize..300, written in any::<u8>(),
        (at, with) in (0usize..42, 1u8..), covered in any::<prop::sample::Index>(),
    )| {
        let transport = &frames.transport;
        let envelope = transport.envelope_with_telemetry(&to, &Class::DATA);
        if !matches!(to.encap, Encap::RoceV2Ipv4 | Encap::RoceV2Ipv6) {
            prop_assert_eq!(envelope.err(), Some(AddressError::Telemetry));
            return Ok(());
        }
        let payload = words * 4 + 4 - usize::from(headers.bth.pad);
        let mut out = vec![0xee; 1600];
        let fill = |to: &mut [u8]| -> Result<(), BuildError> {
            to.fill(written);
            Ok(())
        };
        let bytes = transport.build_with(&envelope.unwrap(), &headers, payload, &mut out, fill).unwrap();
        let front = to.encap.overhead_bytes(to.vlan.is_some()) as usize - 12 - 4;
        prop_assert_eq!(&out[front..front + 42], &[0; 42]);
        prop_assert_eq!(&out[front - 6..front - 4], &54_322_u16.to_be_bytes());
        let without = [&out[..front], &out[front + 42..bytes]].concat();
        prop_assert!(out[..bytes].ends_with(&crcs(&to, &without)));
        out[front + at] ^= with;
        let seen = transport.parse(LinkType::Ethernet, &out[..bytes]).unwrap();
        prop_assert_eq!(seen.packet.headers, headers);
        prop_assert_eq!(seen.packet.payload, &vec![written; payload][..]);
        prop_assert_eq!(seen.packet.telemetry.unwrap()[at], with);
        prop_assert_eq!(transport.address_of(LinkType::Ethernet, &out[..bytes]), Ok(to));
        for at in [front + 42 + 12, bytes - 1 - covered.index(bytes - front - 42 - 12)] {
            out[at] ^= with;
            prop_assert!(transport.parse(LinkType::Ethernet, &out[..bytes]).is_err(), "byte {}", at);
            out[at] ^= with;
        }
    });
}

#[test]
fn any_bytes_are_read_or_refused() {
    let frames = frames();
    let start = |n: u8| -> Vec<u8> {
        let mut head = vec![0; 12];
        head.extend(match n % 4 {
            0 => [0x08, 0x00, 0x45],
            1 => [0x86, 0xdd, 0x60],
            2 => [0x89, 0x15, 0x60],
            _ => [0x81, 0x00, 0x00],
        });
        head
    };
    let config = ProptestConfig::with_cases(2000);
    proptest!(config, |(
        n in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..160), ib in any::<bool>(),
    )| {
        let mut frame = if ib { Vec::new() } else { start(n) };
        frame.extend(bytes);
        let link = if ib { LinkType::Infiniband } else { LinkType::Ethernet };
        let _ = frames.transport.parse(link, &frame);
    });
}

/// The comparison of words finds the same shapes as the comparison of fields: for valid frames, and for frames with a
/// few wrong bits.
#[test]
fn words_say_what_fields_say() {
    let frames = frames();
    let config = ProptestConfig::with_cases(2000);
    let (held, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    proptest!(config, |(
        to in any_address(), mut headers in any_headers(), short in 0usize..40, any_link in any::<bool>(),
        flips in proptest::collection::vec(0usize..70 * 8, 0..3),
    )| {
        headers.bth.pad = 0;
        let transport = &frames.transport;
        let envelope = transport.envelope(&to, &Class::DATA).unwrap();
        let mut out = vec![0; 400];
        let bytes = transport.build_with(&envelope, &headers, 8, &mut out, |_| Ok(())).unwrap();
        flips.iter().for_each(|bit| out[bit / 8] ^= 0x80 >> (bit % 8));
        let frame = &out[..bytes.saturating_sub(short)];
        let link = link_of(if any_link { Encap::IbLocal } else { to.encap });
        let by_fields = transport.shape_of(link, frame).ok().filter(|shape| shape.check_fixed(frame).is_ok());
        let by_words: Vec<_> = transport.shapes.iter().filter(|s| s.holds(link, frame)).collect();
        let kinds = |shape: &Shape| (shape.encap, shape.tagged, shape.telemetry(&[0; 400]).is_some());
        let count = if by_fields.is_some() { &held } else { &refused };
        count.set(count.get() + 1);
        let (by_fields, by_words) = (by_fields.map(kinds), by_words.into_iter().map(kinds));
        prop_assert_eq!(by_fields.into_iter().collect::<Vec<_>>(), by_words.collect::<Vec<_>>());
    });
    assert!(held.get() > 300 && refused.get() > 300, "{held:?} {refused:?}");
}

/// A frame that is valid except for one byte, at any position, must not cause a panic either.
#[test]
fn one_changed_byte_never_panics() {
    let frames = frames();
    let config = ProptestConfig::with_cases(300);
    proptest!(config, |(to in any_address(), mut headers in any_headers(), with in 1u8..)| {
        headers.bth.pad = 0;
        let envelope = frames.transport.envelope(&to, &Class::DATA).unwrap();
        let mut out = vec![0; 400];
        let bytes =
            frames.transport.build_with(&envelope, &headers, 8, &mut out, |_| Ok(())).unwrap();
        for at in 0..bytes {
            out[at] ^= with;
            let _ = frames.transport.parse(link_of(to.encap), &out[..bytes]);
            out[at] ^= with;
        }
    });
}

#[test]
fn wrong_requests_are_refused() {
    let frames = frames();
    let ip = |n: u8| mapped(std::net::Ipv4Addr::new(10, 0, 0, n));
    let to = Address::rocev2(Mac([2; 6]), Mac([4; 6]), ip(1), ip(2)).unwrap();
    let envelope = |to: &Address, class: &Class| frames.transport.envelope(to, class).err();
    assert_eq!(envelope(&to, &Class::DATA), None);
    assert_eq!(envelope(&Address { src: 1, ..to }, &Class::DATA), Some(AddressError::Family));
    assert_eq!(
        envelope(&Address { vlan: Some(4095), ..to }, &Class::DATA),
        Some(AddressError::Vlan)
    );
    let steep = Class { dscp: 64, ..Class::DATA };
    assert_eq!(envelope(&to, &steep), Some(AddressError::Class));
    assert_eq!(Address::rocev2(Mac([2; 6]), Mac([4; 6]), ip(1), 9), Err(AddressError::Family));
    let lid = Address { encap: Encap::IbLocal, src: 1 << 16, ..to };
    assert_eq!(envelope(&lid, &Class::DATA), Some(AddressError::Lid));

    let good = frames.transport.envelope(&to, &Class::DATA).unwrap();
    let mut headers = super::super::cnp::headers(Encap::RoceV2Ipv4, 5, 0xffff);
    let build = |headers: &Headers, payload: usize, room: usize| {
        let mut out = vec![0; room];
        frames.transport.build_with(&good, headers, payload, &mut out, |_| Ok(())).err()
    };
    assert_eq!(build(&headers, 0, 73), Some(BuildError::NoRoom));
    assert_eq!(build(&headers, 0, 74), None);
    assert_eq!(build(&headers, 3, 100), Some(BuildError::PadCount));
    headers.bth.opcode = 0x0c;
    assert_eq!(build(&headers, 0, 100), Some(BuildError::Headers), "a READ request has a RETH");
    headers.bth.opcode = 0x15;
    assert_eq!(build(&headers, 0, 100), Some(BuildError::Headers));
}

/// Payload and pad are a multiple of 4 bytes (IBTA 9.2), even if the ICRC is correct.
#[test]
fn a_payload_without_its_pad_is_refused() {
    let bare = concat!(
        "0200000000aa02000000000108004500002f00014000401126bb0a0000010a000002c12312b7001b",
        "00000440ffff00000011000000016162638290fd85",
    );
    let padded = concat!(
        "0200000000aa02000000000108004500003000014000401126ba0a0000010a000002c12312b7001c",
        "00000450ffff000000110000000161626300a5b9115d",
    );
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = (0..hex.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let frames = frames();
    let (bare, padded) = (bytes(bare), bytes(padded));
    let right = frames.transport.parse(LinkType::Ethernet, &padded).unwrap();
    assert_eq!(right.packet.payload, b"abc");
    let wrong = frames.transport.parse(LinkType::Ethernet, &bare);
    assert_eq!(wrong.unwrap_err(), Refused::BadPadCount);
}
