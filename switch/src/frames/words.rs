//! Big-endian words of a frame at an offset, and the offset of its network header.

/// EtherTypes of a VLAN tag: 802.1Q clause 9.6, customer and service.
const TAG_TYPES: [u16; 2] = [0x8100, 0x88a8];
/// Offset of the first EtherType of an Ethernet frame.
const ETHER_TYPE_AT: usize = 12;
const TAG_BYTES: usize = 4;
/// Maximum number of tags that are skipped: two, as in 802.1ad.
const TAGS_MAX: usize = 2;

/// The 16 bits at `at`; `None` if the bytes end before.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// The offset of the network header of an Ethernet frame, behind up to two VLAN tags. Its EtherType is in the two bytes
/// before.
#[inline]
pub(crate) fn network_header_at(frame: &[u8]) -> Option<usize> {
    let mut at = ETHER_TYPE_AT;
    while at < ETHER_TYPE_AT + TAGS_MAX * TAG_BYTES && TAG_TYPES.contains(&u16_at(frame, at)?) {
        at += TAG_BYTES;
    }
    u16_at(frame, at).map(|_| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_header_is_behind_two_tags_at_most() {
        let mut frame = [0; 28];
        for (tags, at) in [(0, 14), (1, 18), (2, 22), (3, 22)] {
            for tag in 0..tags {
                frame[12 + 4 * tag..14 + 4 * tag].copy_from_slice(&[0x81, 0x00]);
            }
            assert_eq!(network_header_at(&frame), Some(at));
        }
        assert_eq!(network_header_at(&frame[..21]), None);
        assert_eq!((u16_at(&frame, 12), u16_at(&frame, 27)), (Some(0x8100), None));
    }
}
