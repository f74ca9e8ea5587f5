use proptest::prelude::*;

use super::*;
use crate::ports::layers::built::{Checksum, Kind, Tunnel, shapes};

#[test]
fn a_tag_goes_between_the_addresses_and_the_type() {
    let mut chunk = [0; 32];
    chunk[8..22].copy_from_slice(b"DDDDDDSSSSSS\x08\x00");
    assert_eq!(insert_tag(&mut chunk, 8, 14, (0x88a8, 0x6064)), Some(4));
    assert_eq!(&chunk[4..22], b"DDDDDDSSSSSS\x88\xa8\x60\x64\x08\x00");
    assert_eq!(insert_tag(&mut chunk, 3, 14, (0x8100, 1)), None);
    assert_eq!(insert_tag(&mut chunk, 8, 11, (0x8100, 1)), None);
    assert_eq!(insert_tag(&mut chunk, 24, 14, (0x8100, 1)), None);
}

#[test]
fn a_sum_of_0_is_all_ones_in_udp_only() {
    for (offset, written) in [(UDP_CHECKSUM_AT, [0xff; 2]), (16, [0; 2])] {
        let mut frame = [0; 20];
        frame[..2].copy_from_slice(&[0xff; 2]);
        assert!(finish_checksum(&mut frame, 0, offset));
        assert_eq!(frame[usize::from(offset)..][..2], written, "at {offset}");
    }
}

proptest! {
    #[test]
    fn a_finished_checksum_verifies(
        mut frame in prop::collection::vec(any::<u8>(), 46..200), start in 0u16..30, offset in 0u16..8,
    ) {
        let field = usize::from(start + offset * 2);
        prop_assert!(finish_checksum(&mut frame, start, offset * 2));
        let pseudo_and_all = ones_complement_sum(&frame[usize::from(start)..]);
        // The field contained part of the sum, so only its replacement is checked: compute the sum again.
        let stored = u16::from_be_bytes([frame[field], frame[field + 1]]);
        frame[field] = 0;
        frame[field + 1] = 0;
        let rest = ones_complement_sum(&frame[usize::from(start)..]);
        let folded = u32::from(rest) + u32::from(stored);
        prop_assert_eq!(u32::from(pseudo_and_all), (folded & 0xffff) + (folded >> 16));
    }

    #[test]
    fn the_sum_is_that_of_words(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut slow = 0u32;
        for pair in bytes.chunks(2) {
            slow += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            slow = (slow & 0xffff) + (slow >> 16);
        }
        prop_assert_eq!(u32::from(ones_complement_sum(&bytes)), slow);
    }
}

proptest! {
    /// A frame that a sender's kernel left unfinished becomes the frame sent without offloads; that frame, and one with
    /// a wrong checksum, stay unchanged.
    #[test]
    fn open_checksums_are_recognised_and_finished_once(
        shape in shapes(), payload in prop::collection::vec(any::<u8>(), 0..600), padding in 0usize..20, change in any::<prop::sample::Index>(),
    ) {
        let known = !matches!(&shape.tunnel, Some(Tunnel { kind: Kind::Vxlan(1234, _), .. }));
        let place = (0, 0, shape.flags);
        let right = shape.frame(&payload, place, Checksum::Right, Checksum::Right);
        // The checksum of a tunnel is correct once the inner packet is finished.
        let mut open = right.clone();
        let field = shape.transport() + if shape.is_udp { 6 } else { 16 };
        let left = shape.frame(&payload, place, Checksum::Open, Checksum::Right);
        open[field..field + 2].copy_from_slice(&left[field..field + 2]);
        let pad = |mut frame: Vec<u8>| {
            frame.extend(std::iter::repeat_n(0x55, padding));
            frame
        };
        let (right, mut open) = (pad(right), pad(open));
        let was_open = open != right;
        prop_assert_eq!(finish_unmarked_checksum(&mut open), known && was_open);
        if known {
            prop_assert_eq!(&open, &right);
            prop_assert!(!finish_unmarked_checksum(&mut open), "it is right now");
            prop_assert_eq!(&open, &right);
            let at = shape.transport() + change.index(shape.header() + payload.len());
            open[at] ^= 1;
            let wrong = open.clone();
            if !finish_unmarked_checksum(&mut open) {
                prop_assert_eq!(open, wrong, "a wrong one stays wrong");
            }
        }
    }

    #[test]
    fn short_random_and_broken_frames_are_left_alone(
        mut frame in prop::collection::vec(any::<u8>(), 0..80), shape in shapes(), changes in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        left in 0usize..200, start in any::<u16>(), offset in 0u16..20,
    ) {
        let mut broken = shape.frame(&[3; 40], (0, 0, 0), Checksum::Right, Checksum::Right);
        for (at, value) in changes {
            if let Some(place) = broken.get_mut(at) {
                *place = value;
            }
        }
        broken.truncate(left);
        for frame in [&mut frame, &mut broken] {
            let before = frame.clone();
            if !finish_unmarked_checksum(frame) {
                prop_assert_eq!(&*frame, &before);
            }
            let len = frame.len() as u16;
            finish_checksum(frame, start % (len + 4), offset);
        }
    }
}

/// An SCTP packet of one chunk, 192.0.2.1 -> 192.0.2.2, in a VXLAN tunnel or not, with padding behind it; returns the
/// offset of the SCTP header too.
fn sctp(in_tunnel: bool) -> (Vec<u8>, usize) {
    let chunk = [0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    let bytes = [&[0, 7, 0, 9, 1, 1, 1, 1, 0, 0, 0, 0][..], &chunk].concat();
    let ip = |protocol: u8, bytes: &[u8]| {
        let length = (20 + bytes.len()) as u8;
        let mut header =
            vec![0x45, 0, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let right = !ones_complement_sum(&header);
        header[10..12].copy_from_slice(&right.to_be_bytes());
        [&[2; 12][..], &[8, 0], &header, bytes].concat()
    };
    let mut frame = ip(132, &bytes);
    let mut at = 34;
    if in_tunnel {
        let length = (16 + frame.len()) as u8;
        frame = ip(
            17,
            &[&[0xc0, 1, 0x12, 0xb5, 0, length, 0, 0, 8, 0, 0, 0, 0, 0, 9, 0][..], &frame].concat(),
        );
        at += 50;
    }
    frame.extend([0; 6]);
    (frame, at)
}

/// RFC 9260, appendix A, bit by bit.
fn crc_32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 });
    }
    !crc
}

/// A packet socket marks SCTP as it marks UDP; an AF_XDP socket marks nothing: the field is 0.
#[test]
fn an_open_checksum_of_sctp_is_its_crc() {
    for in_tunnel in [false, true] {
        let (open, at) = sctp(in_tunnel);
        let crc = crc_32c(&open[at..at + 32]).to_le_bytes();
        let (mut marked, mut unmarked) = (open.clone(), open.clone());
        assert!(finish_checksum(&mut marked, at as u16, 8));
        assert!(finish_unmarked_checksum(&mut unmarked));
        for frame in [&marked, &unmarked] {
            assert_eq!(frame[at + 8..at + 12], crc);
            assert!(frame[..at + 8] == open[..at + 8] && frame[at + 12..] == open[at + 12..]);
        }
        assert!(!finish_unmarked_checksum(&mut unmarked), "it is not 0");
    }
}

/// RFC 768 over 192.0.2.1 -> 192.0.2.2, ports 1 and 2, payload "ab": the sum of the pseudo-header (0xc000 + 0x0201 +
/// 0xc000 + 0x0202 + 17 + 10 = 0x8 41f folded) is what a sender stores in the field.
#[test]
fn a_udp_checksum_is_finished() {
    let pseudo = [0xc0, 0, 2, 1, 0xc0, 0, 2, 2, 0, 17, 0, 10];
    let left = ones_complement_sum(&pseudo).to_be_bytes();
    let mut udp = vec![0, 1, 0, 2, 0, 10, left[0], left[1], b'a', b'b'];
    assert!(finish_checksum(&mut udp, 0, 6));
    let whole: Vec<u8> = pseudo.iter().chain(&udp).copied().collect();
    assert_eq!(ones_complement_sum(&whole), 0xffff);
    assert!(!finish_checksum(&mut udp, 0, 9) && !finish_checksum(&mut udp, 60_000, 60_000));
}
