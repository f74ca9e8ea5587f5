//! Completes frames whose sender left work to its network card: the VLAN tag beside the frame, the unfinished checksum.
//!
//! Both concern frames that never were on a wire (veth, TAP, virtual machines): their sender's kernel relied on a
//! network card. A packet socket delivers tag and checksum position beside the frame. An AF_XDP socket delivers nothing
//! about the checksum: an unfinished one is recognised by its value, in the packet or in the packet of a tunnel, see
//! [`finish_unmarked_checksum`].

use std::ops::Range;

use crc::{CRC_32_ISCSI, Crc};

use super::layers::{self, Network, SCTP};
use super::sums::{ones_complement_sum, sum_of};
use crate::frames::words::u16_at;

/// Bytes of headroom that a tag needs.
pub(super) const TAG_BYTES: usize = 4;

/// Puts a stripped tag back: the two addresses at `data_off` move 4 bytes to the front. Returns the new start of the
/// frame; `None` (nothing done) without room or without two addresses.
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

/// Offset of the UDP checksum. There a checksum of 0 is sent as all ones, because 0 means "none" (RFC 768); TCP sends 0
/// (RFC 1624, section 3).
const UDP_CHECKSUM_AT: u16 = 6;
/// Offset of the SCTP CRC-32C (RFC 9260, 3.1), which senders leave unfinished as well.
const SCTP_CHECKSUM_AT: u16 = 8;

/// Finishes a checksum: sums from `start` to the end of the frame (the sum of the pseudo-header is in the field
/// already) and stores the complement `offset` bytes behind `start` (virtio 1.x, 5.1.6.2). False (nothing done) if the
/// positions are outside the frame.
pub(super) fn finish_checksum(frame: &mut [u8], start: u16, offset: u16) -> bool {
    let start = usize::from(start);
    if offset == SCTP_CHECKSUM_AT
        && let Some(packet) = sctp_at(frame, start)
    {
        let end = packet.end(frame).unwrap_or(frame.len()).min(frame.len());
        return finish_crc(frame, start..end);
    }
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

/// The packet whose SCTP header is at `start`, in a tunnel or not. A `virtio_net_hdr` does not show that this checksum
/// is a CRC.
fn sctp_at(frame: &[u8], start: usize) -> Option<Network> {
    let outer = Network::of_frame(frame)?;
    match outer.transport == start {
        true => Some(outer).filter(|packet| packet.protocol == SCTP),
        false => outer.inside_at(frame, frame.len(), start, SCTP),
    }
}

/// Stores the CRC-32C of an SCTP packet (RFC 9260, appendix A).
fn finish_crc(frame: &mut [u8], packet: Range<usize>) -> bool {
    const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
    let Some(packet) = frame.get_mut(packet) else { return false };
    let at = usize::from(SCTP_CHECKSUM_AT);
    let Some(field) = packet.get_mut(at..at + 4) else { return false };
    field.fill(0);
    let value = CRC.checksum(packet);
    packet.get_mut(at..at + 4).is_some_and(|field| {
        field.copy_from_slice(&value.to_le_bytes());
        true
    })
}

/// Finishes the checksum of a frame without offload metadata, if it is unfinished: that of the packet, or else that of
/// the packet in a tunnel (see [`Network::inside`]). The checksum of a tunnel itself is correct once the inner packet
/// is finished (the kernel's local checksum offload). IPv4 and IPv6, behind up to two VLAN tags outside and inside.
pub(super) fn finish_unmarked_checksum(frame: &mut [u8]) -> bool {
    let Some(packet) = Network::of_frame(frame) else { return false };
    finish_unmarked(frame, &packet)
        || packet.inside(frame).is_some_and(|inner| finish_unmarked(frame, &inner))
}

/// A checksum of TCP or UDP is unfinished if it is wrong and equal to the sum of the pseudo-header, which a sender
/// stores in the field; one of SCTP if it is 0.
#[inline]
fn finish_unmarked(frame: &mut [u8], packet: &Network) -> bool {
    let Some((transport, pseudo, offset)) = open_checksum(frame, packet) else { return false };
    if packet.protocol == SCTP {
        return finish_crc(frame, transport);
    }
    let Some(segment) = frame.get_mut(transport) else { return false };
    let is_right = sum_of(&[ones_complement_sum(segment), pseudo]) == 0xffff;
    !is_right && finish_checksum(segment, 0, offset)
}

/// The segment of TCP, UDP or SCTP, the sum of its pseudo-header, and the offset of the checksum in the segment. `None`
/// if its value shows that it is finished, or not used.
#[inline]
fn open_checksum(frame: &[u8], packet: &Network) -> Option<(Range<usize>, u16, u16)> {
    let offset = match packet.protocol {
        layers::TCP => 16,
        layers::UDP => UDP_CHECKSUM_AT,
        SCTP => SCTP_CHECKSUM_AT,
        _ => return None,
    };
    let (start, end) = (packet.transport, packet.end(frame)?);
    let field = start + usize::from(offset);
    let stored = u16_at(frame, field)?;
    if end > frame.len() || end < field + 2 {
        return None;
    }
    let pseudo = match packet.protocol {
        SCTP if stored == 0 && u16_at(frame, field + 2)? == 0 => 0,
        SCTP => return None,
        _ if stored == 0 => return None,
        _ => packet.pseudo_sum(frame, end - start)?,
    };
    (stored == pseudo).then_some((start..end, pseudo, offset))
}

#[cfg(test)]
mod tests;
