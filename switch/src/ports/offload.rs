//! Undoing what a sender left to its network card: the VLAN tag beside the frame, the checksum that is
//! not finished.
//!
//! Both concern frames that never were on a wire (veth, TAP, virtual machines): their sender's kernel
//! counted on a card. A packet socket gets where tag and checksum belong beside the frame. An AF_XDP socket gets
//! nothing about the checksum: there it is recognised by its value, see [`finish_unmarked_checksum`].

use crate::frames::words::{network_header_at, u16_at};

/// Bytes that a tag takes from the headroom.
pub(super) const TAG_BYTES: usize = 4;

/// Puts a stripped tag back: the two addresses at `data_off` move 4 bytes to the front. Gives the new
/// start of the frame; `None` (nothing done) without room or without two addresses.
pub(super) fn insert_tag(
    chunk: &mut [u8],
    data_off: usize,
    len: usize,
    tag: (u16, u16),
) -> Option<usize> {
    let start = data_off.checked_sub(TAG_BYTES)?;
    if len < 12 || chunk.len() < data_off + 12 {
        return None;
    }
    chunk.copy_within(data_off..data_off + 12, start);
    let (protocol, control) = tag;
    chunk.get_mut(start + 12..start + 14)?.copy_from_slice(&protocol.to_be_bytes());
    chunk.get_mut(start + 14..start + 16)?.copy_from_slice(&control.to_be_bytes());
    Some(start)
}

/// Where the checksum of UDP is. A checksum of 0 is sent there as all ones, because 0 means "none" (RFC 768); TCP sends 0 (RFC 1624,
/// section 3).
const UDP_CHECKSUM_AT: u16 = 6;

/// Finishes a checksum: sums from `start` to the end of the frame (the sum of the pseudo-header is in
/// the field already) and stores the complement `offset` bytes behind `start` (virtio 1.x, 5.1.6.2).
/// False (nothing done) if the positions lie outside the frame.
pub(super) fn finish_checksum(frame: &mut [u8], start: u16, offset: u16) -> bool {
    let start = usize::from(start);
    let field = start + usize::from(offset);
    if field + 2 > frame.len() {
        return false;
    }
    let sum = frame.get(start..).map_or(0, ones_complement_sum);
    let value = match !sum {
        0 if offset == UDP_CHECKSUM_AT => 0xffff,
        value => value,
    };
    match frame.get_mut(field..field + 2) {
        Some(place) => {
            place.copy_from_slice(&value.to_be_bytes());
            true
        }
        None => false,
    }
}

/// Finishes the TCP or UDP checksum of a frame of which nothing is said, if it is unfinished: that is,
/// if it is wrong, and is exactly the sum of the pseudo-header, which is what a sender leaves in it.
/// IPv4 and IPv6 without extension headers, behind up to two VLAN tags; not inside tunnels.
pub(super) fn finish_unmarked_checksum(frame: &mut [u8]) -> bool {
    let Some((start, end, pseudo, offset)) = transport(frame) else { return false };
    let stored = u16_at(frame, start + usize::from(offset));
    if stored != Some(pseudo) {
        return false;
    }
    let Some(segment) = frame.get_mut(start..end) else { return false };
    let whole = u32::from(ones_complement_sum(segment)) + u32::from(pseudo);
    let right = (whole & 0xffff) + (whole >> 16) == 0xffff;
    !right && finish_checksum(segment, 0, offset)
}

/// Start and end of the TCP or UDP segment, the sum of its pseudo-header, and where in the segment the
/// checksum is. `None` too where that is 0: it was finished, or is not used.
fn transport(frame: &[u8]) -> Option<(usize, usize, u16, u16)> {
    let ip = network_header_at(frame)?;
    let (start, end, addresses, protocol) = match u16_at(frame, ip - 2)? {
        0x0800 => {
            let header = usize::from(frame.get(ip)? & 0x0f) * 4;
            let fragment = u16_at(frame, ip + 6)? & 0x3fff != 0;
            if header < 20 || fragment {
                return None;
            }
            let end = ip + usize::from(u16_at(frame, ip + 2)?);
            (ip + header, end, frame.get(ip + 12..ip + 20)?, *frame.get(ip + 9)?)
        }
        0x86dd => {
            let end = ip + 40 + usize::from(u16_at(frame, ip + 4)?);
            (ip + 40, end, frame.get(ip + 8..ip + 40)?, *frame.get(ip + 6)?)
        }
        _ => return None,
    };
    let offset = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    let len = u32::try_from(end.checked_sub(start)?).ok()?;
    if end > frame.len() || u16_at(frame, start + usize::from(offset))? == 0 {
        return None;
    }
    let mut sum = u32::from(ones_complement_sum(addresses)) + u32::from(protocol) + len;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    Some((start, end, sum as u16, offset))
}

/// RFC 1071: the ones'-complement sum of big-endian 16-bit words, an odd byte padded with zero.
pub(super) fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut tail = [0; 4];
    for (to, from) in tail.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_be_bytes(tail));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The ones'-complement sum of sums.
pub(super) fn sum_of(sums: &[u16]) -> u16 {
    let mut sum: u32 = sums.iter().map(|sum| u32::from(*sum)).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            // The field held part of the sum, so only its replacement is checked: rebuild the sum.
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

    /// An IPv4 or IPv6 frame with a UDP datagram whose checksum is the sum of its pseudo-header.
    fn unfinished(v6: bool, tags: usize, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 9]));
        let len = 8 + payload.len() as u16;
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend((0..32).map(|i| i * 5));
        } else {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((len + 20).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        }
        frame.extend([0, 1, 0, 2]);
        frame.extend(len.to_be_bytes());
        frame.extend([1, 1]);
        frame.extend(payload);
        let (start, _, pseudo, _) = transport(&frame).unwrap();
        frame[start + 6..start + 8].copy_from_slice(&pseudo.to_be_bytes());
        // Padding to the shortest Ethernet frame is not summed.
        frame.extend([0x55; 9]);
        frame
    }

    #[test]
    fn unmarked_checksums_are_recognised_and_finished_once() {
        for (v6, tags) in [(false, 0), (false, 1), (true, 0), (true, 2)] {
            let mut frame = unfinished(v6, tags, b"payload");
            let (start, end, pseudo, _) = transport(&frame).unwrap();
            assert!(finish_unmarked_checksum(&mut frame));
            let sum = u32::from(ones_complement_sum(&frame[start..end])) + u32::from(pseudo);
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            let done = frame.clone();
            assert!(!finish_unmarked_checksum(&mut frame), "it is right now");
            frame[start + 8] ^= 1;
            assert!(!finish_unmarked_checksum(&mut frame), "a wrong one stays wrong");
            frame[start + 8] ^= 1;
            assert_eq!(frame, done);
        }
    }

    proptest! {
        #[test]
        fn short_and_random_frames_are_left_alone(mut frame in prop::collection::vec(any::<u8>(), 0..80)) {
            let before = frame.clone();
            if !finish_unmarked_checksum(&mut frame) {
                prop_assert_eq!(frame, before);
            }
        }
    }

    /// RFC 768 over 192.0.2.1 -> 192.0.2.2, ports 1 and 2, payload "ab": the sum of the pseudo-header
    /// (0xc000 + 0x0201 + 0xc000 + 0x0202 + 17 + 10 = 0x8 41f folded) is what a sender leaves.
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
}
