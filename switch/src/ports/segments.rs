//! Segments that a sender left to its network card to cut (TSO, USO), or that a card or the kernel put together (GRO): cut here.
//!
//! A packet socket hands such a frame over whole, with the bytes of a segment and the kind in its `virtio_net_hdr`. Here it becomes
//! the frames that would have been on the wire: TCP over IPv4 and IPv6 and UDP (as UDP_SEGMENT has it), behind VLAN tags and IPv6
//! extension headers. Sequence numbers and IPv4 identifications count up, FIN and PSH stay with the last segment, CWR with the
//! first, lengths and checksums are computed anew. What is inside a tunnel is not cut: its outer headers would need it too.

use wireyard_pipeline::packet::{Buf, PacketMemory};

use super::offload::{ones_complement_sum, sum_of};
use crate::frames::words::{network_header_at, u16_at};

/// Kinds of `virtio_net_hdr.gso_type` (virtio 1.3, 5.1.6).
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// Set beside the kind where CWR may be set.
const ECN: u8 = 0x80;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// What a `virtio_net_hdr` says of a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gso {
    /// `gso_type`.
    pub(super) kind: u8,
    /// Payload bytes of a segment.
    pub(super) segment_bytes: u16,
    /// Where the transport header is, if the sender left the checksum unfinished too.
    pub(super) checksum_from: Option<u16>,
}

/// A large frame, of which some segments were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutting {
    ip: usize,
    is_v6: bool,
    transport: usize,
    protocol: u8,
    /// Where the payload starts.
    payload: usize,
    len: usize,
    segment_bytes: usize,
    /// A UDP datagram over IPv4 without a checksum.
    is_unsummed: bool,
    next: usize,
}

impl Cutting {
    /// Of a frame of `len` bytes whose headers are all in `head`; `None`: not of a kind that is cut here.
    pub(super) fn of(head: &[u8], len: usize, gso: Gso) -> Option<Cutting> {
        let kind = gso.kind & !ECN;
        let ip = network_header_at(head)?;
        let (is_v6, transport, protocol) = match u16_at(head, ip - 2)? {
            0x0800 if kind != TCP_V6 => {
                let header = usize::from(head.get(ip)? & 0x0f) * 4;
                let is_fragment = u16_at(head, ip + 6)? & 0x3fff != 0;
                if header < 20 || is_fragment {
                    return None;
                }
                (false, ip + header, *head.get(ip + 9)?)
            }
            0x86dd if kind != TCP_V4 => {
                let (transport, protocol) = behind_extensions(head, ip)?;
                (true, transport, protocol)
            }
            _ => return None,
        };
        let header = match (kind, protocol) {
            (TCP_V4 | TCP_V6, PROTOCOL_TCP) => usize::from(head.get(transport + 12)? >> 4) * 4,
            (UDP, PROTOCOL_UDP) => 8,
            _ => return None,
        };
        // A transport header elsewhere is that of a packet inside this one.
        let is_inner = gso.checksum_from.is_some_and(|at| usize::from(at) != transport);
        let payload = transport + header;
        let is_short =
            protocol == PROTOCOL_TCP && header < 20 || payload >= len || payload > head.len();
        if is_inner || is_short || gso.segment_bytes == 0 {
            return None;
        }
        let is_unsummed = protocol == PROTOCOL_UDP
            && !is_v6
            && gso.checksum_from.is_none()
            && u16_at(head, transport + 6)? == 0;
        let segment_bytes = usize::from(gso.segment_bytes);
        Some(Cutting {
            ip,
            is_v6,
            transport,
            protocol,
            payload,
            len,
            segment_bytes,
            is_unsummed,
            next: 0,
        })
    }

    /// True when every segment was made.
    pub(super) fn is_done(&self) -> bool {
        self.payload + self.next * self.segment_bytes >= self.len
    }

    /// Bytes of the longest segment.
    pub(super) fn segment_len(&self) -> usize {
        self.payload + self.segment_bytes.min(self.len - self.payload)
    }

    /// Makes the next segment at `offset` of `buf`, from the frame in two pieces. Its length; `None` where there is no more, or a
    /// chunk has no room for it.
    pub(super) fn write(
        &mut self,
        mem: &PacketMemory,
        source: [&[u8]; 2],
        buf: &mut Buf,
        offset: usize,
    ) -> Option<u32> {
        let from = self.payload + self.next * self.segment_bytes;
        let to = (from + self.segment_bytes).min(self.len);
        let count = to.checked_sub(from).filter(|count| *count > 0)?;
        let end = offset + self.payload + count;
        let frame = mem.bytes_mut(buf)?.get_mut(offset..end)?;
        let (headers, payload) = frame.split_at_mut_checked(self.payload)?;
        headers.copy_from_slice(source[0].get(..self.payload)?);
        copy_pieces(source, from, payload)?;
        self.finish(frame, to == self.len)?;
        self.next += 1;
        Some(frame.len() as u32)
    }

    /// The headers of a segment, which are those of the whole frame so far.
    fn finish(&self, frame: &mut [u8], is_last: bool) -> Option<()> {
        let (ip, transport) = (self.ip, self.transport);
        let bytes = frame.len();
        if self.is_v6 {
            put(frame, ip + 4, bytes - ip - 40)?;
        } else {
            put(frame, ip + 2, bytes - ip)?;
            let id = u16_at(frame, ip + 4)?.wrapping_add(self.next as u16);
            put(frame, ip + 4, usize::from(id))?;
            put(frame, ip + 10, 0)?;
            let sum = !ones_complement_sum(frame.get(ip..transport)?);
            put(frame, ip + 10, usize::from(sum))?;
        }
        let field = transport + if self.protocol == PROTOCOL_TCP { 16 } else { 6 };
        if self.protocol == PROTOCOL_TCP {
            let place = frame.get_mut(transport + 4..transport + 8)?;
            let sequence = u32::from_be_bytes(place.try_into().ok()?);
            let here = sequence.wrapping_add((self.next * self.segment_bytes) as u32);
            place.copy_from_slice(&here.to_be_bytes());
            let flags = frame.get_mut(transport + 13)?;
            if !is_last {
                *flags &= !(FIN | PSH);
            }
            if self.next > 0 {
                *flags &= !CWR;
            }
        } else {
            put(frame, transport + 4, bytes - transport)?;
        }
        if self.is_unsummed {
            return Some(());
        }
        put(frame, field, 0)?;
        let addresses = if self.is_v6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let pseudo = [
            ones_complement_sum(frame.get(addresses)?),
            u16::from(self.protocol),
            (bytes - transport) as u16,
            ones_complement_sum(frame.get(transport..)?),
        ];
        // A UDP checksum of 0 means "none"; both zeros are the same number.
        let sum = match !sum_of(&pseudo) {
            0 if self.protocol == PROTOCOL_UDP => 0xffff,
            sum => sum,
        };
        put(frame, field, usize::from(sum))
    }
}

/// Where the transport header starts behind hop-by-hop, routing and destination options, and what it is.
fn behind_extensions(head: &[u8], ip: usize) -> Option<(usize, u8)> {
    let (mut at, mut next) = (ip + 40, *head.get(ip + 6)?);
    while matches!(next, 0 | 43 | 60) {
        let [following, words] = *head.get(at..)?.first_chunk()?;
        (at, next) = (at + 8 + usize::from(words) * 8, following);
    }
    Some((at, next))
}

/// Copies from `from` on of the two pieces together.
fn copy_pieces(source: [&[u8]; 2], from: usize, to: &mut [u8]) -> Option<()> {
    let [head, tail] = source;
    let of_head = head.get(from..).unwrap_or_default();
    let count = of_head.len().min(to.len());
    let (first, second) = to.split_at_mut_checked(count)?;
    first.copy_from_slice(of_head.get(..count)?);
    let start = from.saturating_sub(head.len());
    second.copy_from_slice(tail.get(start..start + second.len())?);
    Some(())
}

/// Stores the lower 16 bits.
fn put(frame: &mut [u8], at: usize, value: usize) -> Option<()> {
    frame.get_mut(at..at + 2)?.copy_from_slice(&(value as u16).to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
