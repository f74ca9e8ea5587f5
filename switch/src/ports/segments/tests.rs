use proptest::prelude::*;
use wireyard_pipeline::packet::MemoryConfig;

use super::*;
use crate::ports::layers::built::{Checksum, Kind, Shape, Tunnel, shapes};

fn kind(shape: &Shape) -> u8 {
    match (shape.is_udp, shape.is_v6) {
        (true, _) => UDP,
        (false, false) => TCP_V4,
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

/// A whole frame as a sender's kernel leaves it, with the kernel's description of it.
fn whole(shape: &Shape, payload: &[u8], segment_bytes: u16, ecn: u8) -> (Vec<u8>, Gso) {
    let frame = shape.frame(payload, (0, 0, shape.flags), Checksum::Open, Checksum::Open);
    let checksum_from = Some(shape.transport() as u16);
    (frame, Gso { kind: kind(shape) | ecn, segment_bytes, checksum_from })
}

proptest! {
    /// Each segment is, byte for byte, the frame that a sender makes of that part of the payload.
    #[test]
    fn segments_are_those_of_a_sender_that_cuts(
        shape in shapes(), payload in prop::collection::vec(any::<u8>(), 1..9000), size in 1u16..3000, at in 300usize..9300,
        ecn in prop::sample::select(vec![0, ECN]),
    ) {
        let segment_bytes = size.max(payload.len() as u16 / 40 + 1);
        let (frame, gso) = whole(&shape, &payload, segment_bytes, ecn);
        let all = cut(&frame, at, gso).expect("it is cut");
        let pieces: Vec<&[u8]> = payload.chunks(usize::from(segment_bytes)).collect();
        prop_assert_eq!(all.len(), pieces.len());
        for (n, (segment, piece)) in all.iter().zip(&pieces).enumerate() {
            let kept = if n + 1 == pieces.len() { 0xff } else { !(FIN | PSH) };
            let kept = kept & if n == 0 || ecn == 0 { 0xff } else { !CWR };
            let place = (n as u16, n as u32 * u32::from(segment_bytes), shape.flags & kept);
            let built = shape.frame(piece, place, Checksum::Right, Checksum::Right);
            prop_assert_eq!(segment, &built, "segment {}", n);
        }
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

    /// Valid frames with some bytes changed reach more of the code than random ones.
    #[test]
    fn no_broken_tunnel_is_a_panic(
        shape in shapes(), changes in prop::collection::vec((0usize..200, any::<u8>()), 1..6), at in 0usize..400, shift in -4i32..5,
        is_marked in any::<bool>(), left in 0usize..400,
    ) {
        let (mut frame, mut gso) = whole(&shape, &[9; 300], 90, ECN);
        for (at, value) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = value;
            }
        }
        frame.truncate(left);
        gso.checksum_from = gso.checksum_from.filter(|_| is_marked).map(|from| (i32::from(from) + shift) as u16);
        let _ = cut(&frame, at, gso);
    }
}

fn plain() -> Shape {
    Shape {
        tags: 0,
        tunnel: None,
        is_v6: false,
        extension: 0,
        is_udp: false,
        options: 3,
        flags: 0x18,
        id: 1,
        sequence: 1,
    }
}

fn tunnelled(kind: Kind) -> Shape {
    Shape { tunnel: Some(Tunnel { kind, is_v6: false, is_summed: true, id: 7 }), ..plain() }
}

#[test]
fn what_is_not_known_is_not_cut() {
    let (frame, gso) = whole(&plain(), &[7; 4000], 1448, 0);
    assert_eq!((cut(&frame, 9000, gso).unwrap().len(), gso.checksum_from), (3, Some(34)));
    for other in [
        Gso { kind: 3, ..gso },
        Gso { kind: UDP, ..gso },
        Gso { kind: TCP_V6, ..gso },
        Gso { segment_bytes: 0, ..gso },
        Gso { checksum_from: Some(84), ..gso },
    ] {
        assert_eq!(cut(&frame, 9000, other), None, "{other:?}");
    }
    let mut fragment = frame.clone();
    fragment[20] = 0x20;
    assert_eq!(cut(&fragment, 9000, gso), None);
    assert_eq!(cut(&frame[..66], 66, gso), None, "headers only");
}

#[test]
fn a_tunnel_that_only_its_sender_can_make_is_not_cut() {
    let (frame, gso) = whole(&tunnelled(Kind::Gre(true, false)), &[7; 4000], 1400, 0);
    assert_eq!(cut(&frame, 9000, gso).unwrap().len(), 3);
    let with = |at: usize, value: u8| {
        let mut other = frame.clone();
        other[at] = value;
        cut(&other, 9000, gso)
    };
    assert_eq!(with(34, 0xb0), None, "GRE with sequence numbers");
    assert_eq!(with(23, 50), None, "ESP");
    assert_eq!(with(46, 0x55), None, "the packet inside is no IP");
    // Without a position of the checksum, the tunnel is recognised by its headers.
    let unmarked = Gso { checksum_from: None, ..gso };
    assert_eq!(cut(&frame, 9000, unmarked), cut(&frame, 9000, gso));
    let (frame, gso) = whole(&tunnelled(Kind::Vxlan(1234, 0)), &[7; 4000], 1400, 0);
    assert_eq!(cut(&frame, 9000, gso).unwrap().len(), 3, "the kernel says where the packet is");
    assert_eq!(cut(&frame, 9000, Gso { checksum_from: None, ..gso }), None);
}

/// Over IPv4 a UDP sender may omit the checksum.
#[test]
fn no_checksum_stays_none() {
    let shape = Shape { is_udp: true, ..plain() };
    let whole = shape.frame(&[7; 4000], (0, 0, 0), Checksum::None, Checksum::None);
    let gso = Gso { kind: UDP, segment_bytes: 1000, checksum_from: None };
    let all = cut(&whole, 9000, gso).unwrap();
    assert!(all.len() == 4 && all.iter().all(|segment| segment[40..42] == [0, 0]));
    let summed = cut(&whole, 9000, Gso { checksum_from: Some(34), ..gso }).unwrap();
    assert!(summed.iter().all(|segment| segment[40..42] != [0, 0]));
}
