use proptest::prelude::*;
use wireyard_pipeline::packet::MemoryConfig;

use super::*;

/// A frame with its headers written by hand, and what a sender leaves in it.
#[derive(Clone, Debug)]
struct Shape {
    is_v6: bool,
    tags: usize,
    is_udp: bool,
    options: usize,
    flags: u8,
    payload: Vec<u8>,
    segment_bytes: u16,
    id: u16,
    sequence: u32,
}

fn frame(shape: &Shape) -> Vec<u8> {
    let mut frame = vec![2; 12];
    (0..shape.tags).for_each(|_| frame.extend([0x81, 0, 0x60, 9]));
    let header = if shape.is_udp { 8 } else { 20 + shape.options * 4 };
    let protocol = if shape.is_udp { PROTOCOL_UDP } else { PROTOCOL_TCP };
    let length = (header + shape.payload.len()) as u16;
    if shape.is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((length + 8).to_be_bytes());
        // Destination options of 8 bytes.
        frame.extend([60, 64]);
        frame.extend((0..32).map(|i| i * 5));
        frame.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
    } else {
        frame.extend([0x08, 0, 0x45, 0]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend(shape.id.to_be_bytes());
        frame.extend([0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    frame.extend([0x13, 0x89, 0x13, 0x8a]);
    if shape.is_udp {
        frame.extend(length.to_be_bytes());
        frame.extend([0xaa, 0xbb]);
    } else {
        frame.extend(shape.sequence.to_be_bytes());
        frame.extend([1, 2, 3, 4, (header as u8 / 4) << 4, shape.flags, 0x20, 0, 0xaa, 0xbb, 0, 0]);
        frame.extend(std::iter::repeat_n(1, shape.options * 4));
    }
    frame.extend(&shape.payload);
    frame
}

fn kind(shape: &Shape) -> u8 {
    match (shape.is_udp, shape.is_v6) {
        (true, _) => UDP,
        (false, false) => TCP_V4 | ECN,
        (false, true) => TCP_V6,
    }
}

fn cut(frame: &[u8], at: usize, gso: Gso) -> Option<Vec<Vec<u8>>> {
    let config = MemoryConfig { chunks: 4, chunk_bytes: 16384, headroom_bytes: 256 };
    let mut mem = PacketMemory::new(config).unwrap();
    let (head, tail) = frame.split_at(at.min(frame.len()));
    let mut cutting = Cutting::of(head, frame.len(), gso)?;
    let mut all = Vec::new();
    while !cutting.is_done() {
        let mut buf = mem.alloc().unwrap();
        let len = cutting.write(&mem, [head, tail], &mut buf, 256)?;
        all.push(mem.frame(&buf, 256, len).to_vec());
        mem.free(buf);
    }
    let mut buf = mem.alloc().unwrap();
    assert_eq!(cutting.write(&mem, [head, tail], &mut buf, 256), None, "there is no more");
    mem.free(buf);
    Some(all)
}

/// By words, so that it shares nothing with the code.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn u16_of(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn shapes() -> impl Strategy<Value = Shape> {
    let headers = (any::<bool>(), 0usize..3, any::<bool>(), 0usize..11, any::<u8>());
    let content = (prop::collection::vec(any::<u8>(), 1..9000), 1u16..3000);
    let numbers = (any::<u16>(), any::<u32>());
    (headers, content, numbers).prop_map(|(headers, content, numbers)| {
        let ((is_v6, tags, is_udp, options, flags), (payload, size)) = (headers, content);
        let (segment_bytes, (id, sequence)) = (size.max(payload.len() as u16 / 40 + 1), numbers);
        Shape { is_v6, tags, is_udp, options, flags, payload, segment_bytes, id, sequence }
    })
}

proptest! {
    #[test]
    fn segments_are_the_frame_in_pieces(shape in shapes(), at in 150usize..9200, left in any::<bool>()) {
        let whole = frame(&shape);
        let ip = 14 + 4 * shape.tags;
        let transport = ip + if shape.is_v6 { 48 } else { 20 };
        let header = if shape.is_udp { 8 } else { 20 + 4 * shape.options };
        let checksum_from = left.then_some(transport as u16);
        let gso = Gso { kind: kind(&shape), segment_bytes: shape.segment_bytes, checksum_from };
        let all = cut(&whole, at, gso).expect("it is cut");
        prop_assert_eq!(all.len(), shape.payload.len().div_ceil(usize::from(shape.segment_bytes)));
        let mut payload = Vec::new();
        for (n, segment) in all.iter().enumerate() {
            prop_assert_eq!(&segment[..ip], &whole[..ip]);
            let is_last = n + 1 == all.len();
            if shape.is_v6 {
                prop_assert_eq!(usize::from(u16_of(segment, ip + 4)), segment.len() - ip - 40);
            } else {
                prop_assert_eq!(usize::from(u16_of(segment, ip + 2)), segment.len() - ip);
                prop_assert_eq!(u16_of(segment, ip + 4), shape.id.wrapping_add(n as u16));
                prop_assert_eq!(sum(&[&segment[ip..ip + 20]]), 0xffff);
            }
            let addresses = if shape.is_v6 { &segment[ip + 8..ip + 40] } else { &segment[ip + 12..ip + 20] };
            let length = ((segment.len() - transport) as u16).to_be_bytes();
            let protocol = [0, if shape.is_udp { 17 } else { 6 }];
            prop_assert_eq!(sum(&[addresses, &length, &protocol, &segment[transport..]]), 0xffff);
            if shape.is_udp {
                prop_assert_eq!(usize::from(u16_of(segment, transport + 4)), segment.len() - transport);
            } else {
                let sequence = u32::from_be_bytes(segment[transport + 4..transport + 8].try_into().unwrap());
                prop_assert_eq!(sequence, shape.sequence.wrapping_add(payload.len() as u32));
                let kept = if is_last { 0xff } else { !(FIN | PSH) } & if n == 0 { 0xff } else { !CWR };
                prop_assert_eq!(segment[transport + 13], shape.flags & kept);
                prop_assert_eq!(&segment[transport + 20..transport + header], &whole[transport + 20..transport + header]);
            }
            prop_assert!(is_last || segment.len() - transport - header == usize::from(shape.segment_bytes));
            payload.extend_from_slice(&segment[transport + header..]);
        }
        prop_assert_eq!(payload, shape.payload);
    }

    #[test]
    fn no_bytes_and_no_kind_are_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in any::<u8>(), segment_bytes in any::<u16>(),
        from in prop::option::of(any::<u16>()), at in 0usize..200, ether in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100]),
    ) {
        if let Some(place) = bytes.get_mut(12..14) {
            place.copy_from_slice(&ether.to_be_bytes());
        }
        let gso = Gso { kind: kind % 8, segment_bytes: segment_bytes % 50, checksum_from: from };
        let _ = cut(&bytes, at, gso);
    }
}

fn plain() -> Shape {
    Shape {
        is_v6: false,
        tags: 0,
        is_udp: false,
        options: 3,
        flags: 0x18,
        payload: vec![7; 4000],
        segment_bytes: 1448,
        id: 1,
        sequence: 1,
    }
}

#[test]
fn what_is_not_plain_is_not_cut() {
    let whole = frame(&plain());
    let gso = Gso { kind: TCP_V4, segment_bytes: 1448, checksum_from: Some(34) };
    assert_eq!(cut(&whole, 9000, gso).unwrap().len(), 3);
    for other in [
        Gso { kind: 3, ..gso },
        Gso { kind: UDP, ..gso },
        Gso { kind: TCP_V6, ..gso },
        Gso { segment_bytes: 0, ..gso },
        Gso { checksum_from: Some(84), ..gso },
    ] {
        assert_eq!(cut(&whole, 9000, other), None, "{other:?}");
    }
    let mut fragment = whole.clone();
    fragment[20] = 0x20;
    assert_eq!(cut(&fragment, 9000, gso), None);
    assert_eq!(cut(&whole[..66], 66, gso), None, "headers only");
}

/// Over IPv4 a UDP sender may leave the checksum out.
#[test]
fn no_checksum_stays_none() {
    let shape = Shape { is_udp: true, segment_bytes: 1000, ..plain() };
    let mut whole = frame(&shape);
    whole[40..42].fill(0);
    let gso = Gso { kind: UDP, segment_bytes: 1000, checksum_from: None };
    let all = cut(&whole, 9000, gso).unwrap();
    assert!(all.len() == 4 && all.iter().all(|segment| segment[40..42] == [0, 0]));
    let summed = cut(&whole, 9000, Gso { checksum_from: Some(34), ..gso }).unwrap();
    assert!(summed.iter().all(|segment| segment[40..42] != [0, 0]));
}
