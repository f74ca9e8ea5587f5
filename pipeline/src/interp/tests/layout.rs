//! Positions of bytes: pushes and pops, trailers, pads, slack, the queue, truncation.

use super::build::{Build, Rig, ethernet_ipv4};
use super::ipv4_packet;
use crate::exec::Verdict;
use crate::ids::*;
use crate::ir::*;
use crate::packet::MemoryConfig;
use proptest::prelude::*;

/// Pushes a header of `bytes` bytes of 0xee in front in ingress; egress takes it off again.
fn tunnel(bytes: u32, memory: MemoryConfig) -> Rig {
    let mut build = Build::new();
    let (ethernet, ipv4) = ethernet_ipv4(&mut build);
    let fields: Vec<(String, u32)> = (0..bytes / 16).map(|n| (format!("f{n}"), 128)).collect();
    let fields: Vec<(&str, u32)> = fields.iter().map(|(n, bits)| (n.as_str(), *bits)).collect();
    let outer = build.header("outer", &fields);
    build.emit(&[outer, ethernet, ipv4]);
    let mut push = vec![build.set_std(StdField::EgressPort, 2), Op::SetValid(outer)];
    for (name, _) in fields {
        let value = build.num(u128::from_be_bytes([0xee; 16]), 128);
        push.push(build.set(outer, name, value));
    }
    build.ingress(push);
    build.egress(vec![Op::SetInvalid(outer)]);
    Rig::new(build.program, memory, 1)
}

#[test]
fn a_push_goes_into_the_headroom() {
    let mut rig = tunnel(48, MemoryConfig::default());
    let bytes = ipv4_packet(60);
    let after = rig.ingress(&bytes);
    assert_eq!(after.packet.data_off, 256 - 48);
    assert_eq!((after.packet.body_off, after.packet.body_len), (48 + 34, 60));
    let out = rig.bytes(&after);
    assert_eq!((&out[..48], &out[48..]), (&[0xee; 48][..], &bytes[..]));
    let after = rig.egress(after);
    assert_eq!(rig.bytes(&after), bytes);
    assert_eq!(after.packet.data_off, 256);
}

#[test]
fn without_headroom_the_body_moves() {
    let memory = MemoryConfig { chunks: 4, chunk_bytes: 1024, headroom_bytes: 16 };
    let mut rig = tunnel(64, memory);
    let bytes = ipv4_packet(300);
    let after = rig.ingress(&bytes);
    assert_eq!(after.meta.verdict(), Verdict::Forward);
    assert_eq!(rig.bytes(&after)[64..], bytes);
    let after = rig.egress(after);
    assert_eq!(rig.bytes(&after), bytes);
    rig.free(after);
    let after = rig.ingress(&ipv4_packet(1008 - 34));
    assert_eq!(after.meta.reason(), BuiltinReason::TooLong.id());
    rig.free(after);
    assert_eq!(rig.memory.free_chunks(), 4);
}

#[test]
fn no_chunk_for_the_copy_drops() {
    let memory = MemoryConfig { chunks: 1, chunk_bytes: 1024, headroom_bytes: 16 };
    let mut rig = tunnel(64, memory);
    let bytes = ipv4_packet(100);
    let after = rig.ingress(&bytes);
    assert_eq!(after.meta.reason(), BuiltinReason::NoMemory.id());
    assert_eq!(rig.bytes(&after), bytes);
    rig.free(after);
    assert_eq!(rig.memory.free_chunks(), 1);
}

/// The shape of Omni-Path: header with its length in quad words, Ethernet inside, pad, CRC, tail.
struct Padded {
    build: Build,
    outer: InstanceId,
    crc: InstanceId,
    tail: InstanceId,
}

fn padded(strip_slack: bool, update: Update) -> Padded {
    let mut build = Build::new();
    let outer = build.header("outer", &[("quads", 16), ("kind", 16)]);
    let crc = build.header("crc", &[("value", 32)]);
    let tail = build.header("tail", &[("pad", 8)]);
    let quads = build.field(outer, "quads");
    let bytes = {
        let eight = build.num(8, 32);
        let wide = build.expr(ExprKind::Cast(quads), 32);
        build.bin(BinOp::Mul, wide, eight)
    };
    let back = |build: &mut Build, n: u128| {
        let n = build.num(n, 32);
        build.bin(BinOp::Sub, bytes, n)
    };
    let (tail_at, crc_at) = (back(&mut build, 1), back(&mut build, 5));
    let pad = build.field(tail, "pad");
    let pad = build.expr(ExprKind::Cast(pad), 32);
    let end = build.bin(BinOp::Sub, crc_at, pad);
    build.accept(vec![
        ParserOp::Extract(outer),
        ParserOp::ExtractAt(tail, tail_at),
        ParserOp::ExtractAt(crc, crc_at),
        ParserOp::BodyEnd(end),
    ]);
    build.emit(&[outer]);
    // (8 - ((emit_length + 5) & 7)) & 7
    let (five, seven, eight) = (build.num(5, 32), build.num(7, 32), build.num(8, 32));
    let length = build.std(StdField::EmitLength);
    let length = build.bin(BinOp::Add, length, five);
    let odd = build.bin(BinOp::And, length, seven);
    let pad = build.bin(BinOp::Sub, eight, odd);
    let bytes = build.bin(BinOp::And, pad, seven);
    let when = Some(build.valid(tail));
    build.program.deparser.after = vec![
        AfterBody::Pad { bytes, fill: 0, when },
        AfterBody::Header(crc),
        AfterBody::Header(tail),
    ];
    build.program.deparser.strip_slack = strip_slack;
    let params = CrcParams {
        width: 32,
        poly: 0x04c1_1db7,
        init: 0xffff_ffff,
        reflect: true,
        xor_out: 0xffff_ffff,
        store_little_endian: true,
    };
    build.program.crcs.push(Crc {
        name: "crc".into(),
        field: (crc, build.fid(crc, "value")),
        params,
        over: vec![
            Covered::Ones(2),
            Covered::Header { instance: outer, ones: vec![0, 0, 0xff, 0] },
            Covered::Body,
            Covered::After(0),
        ],
        when: None,
        verify: Verify::Count,
        update,
    });
    Padded { build, outer, crc, tail }
}

/// A packet of that shape, its CRC computed independently.
fn padded_packet(body: &[u8], slack: &[u8]) -> Vec<u8> {
    let pad = (8 - (4 + body.len() + 5) % 8) % 8;
    let quads = ((4 + body.len() + pad + 5) / 8) as u16;
    let mut packet = quads.to_be_bytes().to_vec();
    packet.extend([7, 7]);
    packet.extend(body);
    packet.extend(vec![0; pad]);
    let mut covered = vec![0xff, 0xff];
    covered.extend(&packet);
    covered[4] = 0xff;
    packet.extend(crc32fast::hash(&covered).to_le_bytes());
    packet.push(pad as u8);
    packet.extend(slack);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn trailers_pads_and_slack_leave_as_they_came(
        body in proptest::collection::vec(any::<u8>(), 0..100),
        slack in proptest::collection::vec(any::<u8>(), 0..5),
        strip in any::<bool>(),
    ) {
        let mut padded = padded(strip, Update::OnRequest);
        let port = padded.build.set_std(StdField::EgressPort, 2);
        padded.build.ingress(vec![port]);
        let mut rig = padded.build.rig();
        let bytes = padded_packet(&body, &slack);
        let after = rig.ingress(&bytes);
        prop_assert_eq!(after.meta.parser_error, 0);
        prop_assert_eq!(after.meta.crc_error, 0);
        prop_assert_eq!(after.packet.body_len as usize, body.len());
        let after = rig.egress(after);
        let expected = if strip { padded_packet(&body, &[]) } else { bytes };
        prop_assert_eq!(rig.bytes(&after), expected);
    }

    #[test]
    fn an_inserted_header_moves_pad_and_crc(
        body in proptest::collection::vec(any::<u8>(), 0..100),
        slack in proptest::collection::vec(any::<u8>(), 0..5),
    ) {
        let Padded { mut build, outer, crc, tail } = padded(false, Update::OnRequest);
        let extra = build.header("extra", &[("a", 24)]);
        build.emit(&[outer, extra]);
        build.program.crcs[CrcId(0)].over.insert(2, Covered::Header { instance: extra, ones: vec![] });
        let a = build.num(0x010203, 24);
        // quads = (emit_length + 5 + 7) >> 3; tail.pad = the rest
        let (twelve, three, eight) = (build.num(12, 32), build.num(3, 32), build.num(8, 32));
        let length = build.std(StdField::EmitLength);
        let up = build.bin(BinOp::Add, length, twelve);
        let quads = build.bin(BinOp::Shr, up, three);
        let total = build.bin(BinOp::Mul, quads, eight);
        let five = build.num(5, 32);
        let used = build.bin(BinOp::Add, length, five);
        let pad = build.bin(BinOp::Sub, total, used);
        let (quads, pad) = (build.expr(ExprKind::Cast(quads), 16), build.expr(ExprKind::Cast(pad), 8));
        let ops = vec![
            build.set_std(StdField::EgressPort, 2),
            Op::SetValid(extra),
            build.set(extra, "a", a),
            build.set(outer, "quads", quads),
            build.set(tail, "pad", pad),
            Op::UpdateCrc(CrcId(0)),
        ];
        let _ = crc;
        build.ingress(ops);
        let mut rig = build.rig();
        let after = rig.ingress(&padded_packet(&body, &slack));
        let mut longer = vec![1, 2, 3];
        longer.extend(&body);
        let expected = padded_packet(&longer, &slack);
        prop_assert_eq!(rig.bytes(&after), &expected[..]);
        let after = rig.egress(after);
        prop_assert_eq!(rig.bytes(&after), &expected[..]);
    }
}

#[test]
fn a_wrong_crc_is_told_and_kept() {
    let mut padded = padded(false, Update::OnRequest);
    let port = padded.build.set_std(StdField::EgressPort, 2);
    padded.build.ingress(vec![port]);
    let mut rig = padded.build.rig();
    let mut bytes = padded_packet(&[1, 2, 3], &[]);
    bytes[5] ^= 1;
    let after = rig.ingress(&bytes);
    assert_eq!(after.meta.crc_error, 1);
    assert_eq!(rig.bytes(&after), bytes);
    assert_eq!(rig.state.statistics().crc_errors.read(0).unwrap().packets, 1);
}

#[test]
fn always_repairs_in_egress() {
    let mut padded = padded(false, Update::Always);
    let port = padded.build.set_std(StdField::EgressPort, 2);
    padded.build.ingress(vec![port]);
    let mut rig = padded.build.rig();
    let right = padded_packet(&[1, 2, 3], &[9]);
    let mut bytes = right.clone();
    bytes[11] ^= 0x55;
    let after = rig.ingress(&bytes);
    assert_eq!(rig.bytes(&after), bytes);
    let after = rig.egress(after);
    assert_eq!(rig.bytes(&after), right);
}

#[test]
fn truncation_tells_what_is_whole() {
    for (cut, body_off, body_len, valid) in [
        (100, 34, 66, 3),
        (34, 34, 0, 3),
        (33, 14, 19, 1),
        (5, 0, 5, 0),
        (0, 0, 0, 0),
        (9999, 34, 200, 3),
    ] {
        let mut build = Build::new();
        ethernet_ipv4(&mut build);
        let bytes = build.num(cut, 32);
        let ops = vec![build.set_std(StdField::EgressPort, 2), Op::Truncate(bytes)];
        build.ingress(ops);
        let mut rig = build.rig();
        let bytes = ipv4_packet(200);
        let after = rig.ingress(&bytes);
        let packet = &after.packet;
        assert_eq!((packet.body_off, packet.body_len, packet.valid), (body_off, body_len, valid));
        let after = rig.egress(after);
        let whole = bytes.len().min(cut as usize);
        assert_eq!(rig.bytes(&after), bytes[..whole]);
    }
}

#[test]
fn carried_metadata_crosses_the_queue_and_the_rest_is_zero() {
    let mut build = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut build);
    let carried = build.meta("carried", 12, Some(3));
    let lost = build.meta("lost", 16, None);
    let (a, b) = (build.num(0xabc, 12), build.num(0xffff, 16));
    let ops = vec![
        build.set_std(StdField::EgressPort, 2),
        Op::Set(LValue::Meta(carried), a),
        Op::Set(LValue::Meta(lost), b),
    ];
    build.ingress(ops);
    let (c, l) = (build.expr(ExprKind::Meta(carried), 12), build.expr(ExprKind::Meta(lost), 16));
    let wide = build.expr(ExprKind::Cast(c), 16);
    let both = build.bin(BinOp::Or, wide, l);
    let ops = vec![build.set(ipv4, "id", both)];
    build.egress(ops);
    let mut rig = build.rig();
    let after = rig.ingress(&ipv4_packet(0));
    let after = rig.egress(after);
    assert_eq!(rig.bytes(&after)[18..20], [0x0a, 0xbc]);
}

/// IPv4 with options: the variable part is found again behind the queue.
#[test]
fn a_variable_header_is_found_again() {
    let mut build = Build::new();
    let (ethernet, ipv4) = ethernet_ipv4(&mut build);
    let header = build.type_of(ipv4);
    let options = build.program.headers[header].fields.push(Field {
        name: "options".into(),
        bits: 0,
        layout: FieldLayout::Variable { byte: 20, max_bytes: 40 },
        display: Display::Hex,
        part_of: None,
    });
    build.program.headers[header].variable = Some(options);
    build.program.headers[header].max_bytes = 60;
    let ihl = build.field(ipv4, "ihl");
    let (wide, five, words) =
        (build.expr(ExprKind::Cast(ihl), 32), build.num(5, 32), build.num(32, 32));
    let over = build.bin(BinOp::Sub, wide, five);
    let bits = build.bin(BinOp::Mul, over, words);
    build.program.instances[ipv4].variable_bits = Some(bits);
    let (two, dst) = (build.set_std(StdField::EgressPort, 2), build.num(0x0a0a_0a0a, 32));
    let set = build.set(ipv4, "dst", dst);
    build.ingress(vec![two]);
    build.egress(vec![set]);
    let _ = ethernet;
    let mut rig = build.rig();
    let mut bytes = ipv4_packet(8);
    bytes[14] = 0x47;
    let after = rig.ingress(&bytes);
    assert_eq!(after.packet.body_off, 42);
    let after = rig.egress(after);
    assert_eq!(rig.bytes(&after)[30..34], [10; 4]);
    assert_eq!(rig.bytes(&after)[34..], bytes[34..]);
    bytes[14] = 0x44;
    let after = rig.ingress(&bytes);
    assert_eq!(u32::from(after.meta.parser_error), BuiltinError::HeaderLength.id().0);
}

/// A header of two bytes, a body, a pad up to four bytes, a trailer of two; the parser does this after the header.
fn filled(parse: impl FnOnce(&mut Build, InstanceId) -> Vec<ParserOp>) -> Rig {
    let mut build = Build::new();
    let header = build.header("h", &[("a", 16)]);
    let tail = build.header("tail", &[("c", 16)]);
    let mut ops = vec![ParserOp::Extract(header)];
    ops.extend(parse(&mut build, tail));
    build.accept(ops);
    build.emit(&[header]);
    let (three, four) = (build.num(3, 32), build.num(4, 32));
    let length = build.std(StdField::EmitLength);
    let odd = build.bin(BinOp::And, length, three);
    let rest = build.bin(BinOp::Sub, four, odd);
    let bytes = build.bin(BinOp::And, rest, three);
    build.program.deparser.after =
        vec![AfterBody::Pad { bytes, fill: 0xee, when: None }, AfterBody::Header(tail)];
    build.program.deparser.strip_slack = true;
    let port = build.set_std(StdField::EgressPort, 2);
    build.ingress(vec![port]);
    build.rig()
}

fn through(rig: &mut Rig, bytes: &[u8]) -> Vec<u8> {
    let after = rig.ingress(bytes);
    assert_eq!(after.meta.parser_error, 0);
    let after = rig.egress(after);
    let out = rig.bytes(&after);
    rig.free(after);
    out
}

#[test]
fn bytes_of_a_trailer_are_no_pad() {
    let mut rig = filled(|build, tail| {
        let (length, two) = (build.std(StdField::PacketLength), build.num(2, 32));
        let at = build.bin(BinOp::Sub, length, two);
        vec![ParserOp::ExtractAt(tail, at), ParserOp::BodyEnd(at)]
    });
    assert_eq!(through(&mut rig, &[0, 1, 2, 0xaa, 0xbb]), [0, 1, 2, 0xee, 0xaa, 0xbb]);
    assert_eq!(through(&mut rig, &[0, 1, 2, 3, 0xaa, 0xbb]), [0, 1, 2, 3, 0xaa, 0xbb]);
}

#[test]
fn a_trailer_that_the_parser_makes_valid_is_not_in_the_packet() {
    let mut rig = filled(|_, tail| vec![ParserOp::SetValid(tail)]);
    assert_eq!(through(&mut rig, &[0, 1, 2, 3]), [0, 1, 2, 3, 0, 0]);
    assert_eq!(through(&mut rig, &[0, 1, 2, 3, 4, 5, 6]), [0, 1, 2, 3, 4, 5, 6, 0xee, 0, 0]);
}
