//! Cuts frames of several segments: those that a sender left to its network card to cut (TSO, USO), or that a card or
//! the kernel merged (GRO).
//!
//! A packet socket delivers such a frame whole, with the bytes of a segment and the kind in its `virtio_net_hdr`. Here
//! it becomes the frames that would have been on the wire: TCP over IPv4 and IPv6, and UDP (as by UDP_SEGMENT), behind
//! VLAN tags and IPv6 extension headers, also in a tunnel over UDP, GRE or IP. Sequence numbers and IPv4
//! identifications count up, FIN and PSH stay with the last segment, CWR with the first if the kernel's header flags
//! it, lengths and checksums are computed anew, those of the tunnel too.

use wireyard_pipeline::packet::{Buf, PacketMemory};

use super::layers::{self, GRE, GRE_CHECKSUM, GRE_SEQUENCE, Network};
use super::sums::{ones_complement_sum, sum_of};
use crate::frames::words::u16_at;

/// Kinds of `virtio_net_hdr.gso_type` (virtio 1.3, 5.1.6).
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// Set in addition to the kind if CWR belongs to the first segment only (RFC 3168). Without it all segments have CWR
/// (AccECN, RFC 9768).
const ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The `virtio_net_hdr` of a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gso {
    /// `gso_type`.
    pub(super) kind: u8,
    /// Payload bytes of a segment.
    pub(super) segment_bytes: u16,
    /// Offset of the transport header, if the sender left the checksum unfinished too.
    pub(super) checksum_from: Option<u16>,
}

/// A large frame that is being cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutting {
    /// The packet that is cut.
    packet: Network,
    /// The tunnel around it.
    tunnel: Option<Network>,
    /// Offset of the payload.
    payload: usize,
    len: usize,
    segment_bytes: usize,
    /// A UDP datagram over IPv4 without a checksum.
    is_unsummed: bool,
    is_cwr_of_first: bool,
    next: usize,
}

impl Cutting {
    /// For a frame of `len` bytes whose headers are all in `head`; `None` if it is not of a kind that is cut here.
    pub(super) fn of(head: &[u8], len: usize, gso: Gso) -> Option<Cutting> {
        let kind = gso.kind & !ECN;
        let protocol = match kind {
            TCP_V4 | TCP_V6 => layers::TCP,
            UDP => layers::UDP,
            _ => return None,
        };
        let (packet, tunnel) = packet_of(head, len, gso, protocol)?;
        let transport = packet.transport;
        let header = match protocol {
            layers::TCP => usize::from(head.get(transport + 12)? >> 4) * 4,
            _ => 8,
        };
        let is_other = kind == TCP_V4 && packet.is_v6 || kind == TCP_V6 && !packet.is_v6;
        let payload = transport + header;
        let is_short =
            protocol == layers::TCP && header < 20 || payload >= len || payload > head.len();
        if is_other || is_short || gso.segment_bytes == 0 {
            return None;
        }
        let is_unsummed = protocol == layers::UDP
            && !packet.is_v6
            && gso.checksum_from.is_none()
            && u16_at(head, transport + 6)? == 0;
        let segment_bytes = usize::from(gso.segment_bytes);
        let is_cwr_of_first = gso.kind & ECN != 0;
        Some(Cutting {
            packet,
            tunnel,
            payload,
            len,
            segment_bytes,
            is_unsummed,
            is_cwr_of_first,
            next: 0,
        })
    }

    /// True when all segments were made.
    pub(super) fn is_done(&self) -> bool {
        self.payload + self.next * self.segment_bytes >= self.len
    }

    /// Length in bytes of the longest segment.
    pub(super) fn segment_len(&self) -> usize {
        self.payload + self.segment_bytes.min(self.len - self.payload)
    }

    /// Writes the next segment at `offset` of `buf`, from the two pieces of the frame. Returns its length; `None` where
    /// there is no more, or the chunk has no room for it.
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

    /// Completes the headers of a segment, copied from the whole frame. The inner ones first: the checksum of the
    /// tunnel covers them.
    fn finish(&self, frame: &mut [u8], is_last: bool) -> Option<()> {
        let Network { transport, protocol, .. } = self.packet;
        self.finish_network(frame, &self.packet)?;
        if protocol == layers::TCP {
            let place = frame.get_mut(transport + 4..transport + 8)?;
            let sequence = u32::from_be_bytes(place.try_into().ok()?);
            let here = sequence.wrapping_add((self.next * self.segment_bytes) as u32);
            place.copy_from_slice(&here.to_be_bytes());
            let flags = frame.get_mut(transport + 13)?;
            if !is_last {
                *flags &= !(FIN | PSH);
            }
            if self.next > 0 && self.is_cwr_of_first {
                *flags &= !CWR;
            }
        } else {
            put(frame, transport + 4, frame.len() - transport)?;
        }
        if !self.is_unsummed {
            let field = transport + if protocol == layers::TCP { 16 } else { 6 };
            put(frame, field, 0)?;
            let sums = [
                self.packet.pseudo_sum(frame, frame.len() - transport)?,
                ones_complement_sum(frame.get(transport..)?),
            ];
            put_checksum(frame, field, &sums, protocol)?;
        }
        match &self.tunnel {
            None => Some(()),
            Some(tunnel) => self.finish_tunnel(frame, tunnel),
        }
    }

    /// Sets length, identification and checksum of a network header.
    fn finish_network(&self, frame: &mut [u8], packet: &Network) -> Option<()> {
        let (ip, bytes) = (packet.ip, frame.len());
        if packet.is_v6 {
            return put(frame, ip + 4, bytes - ip - 40);
        }
        let header = ip..ip + usize::from(frame.get(ip)? & 0x0f) * 4;
        put(frame, ip + 2, bytes - ip)?;
        let id = u16_at(frame, ip + 4)?.wrapping_add(self.next as u16);
        put(frame, ip + 4, usize::from(id))?;
        put(frame, ip + 10, 0)?;
        let sum = !ones_complement_sum(frame.get(header)?);
        put(frame, ip + 10, usize::from(sum))
    }

    /// Completes the headers of the tunnel: IP, and the UDP or GRE behind it. A UDP checksum of 0 stays: there is none
    /// (RFC 768, RFC 6935).
    fn finish_tunnel(&self, frame: &mut [u8], tunnel: &Network) -> Option<()> {
        self.finish_network(frame, tunnel)?;
        let (at, bytes) = (tunnel.transport, frame.len() - tunnel.transport);
        match tunnel.protocol {
            layers::UDP => {
                put(frame, at + 4, bytes)?;
                if u16_at(frame, at + 6)? == 0 {
                    return Some(());
                }
                put(frame, at + 6, 0)?;
                let sums = [tunnel.pseudo_sum(frame, bytes)?, self.sum_from(frame, at)?];
                put_checksum(frame, at + 6, &sums, layers::UDP)
            }
            GRE if u16_at(frame, at)? & GRE_CHECKSUM != 0 => {
                put(frame, at + 4, 0)?;
                let sums = [self.sum_from(frame, at)?];
                put_checksum(frame, at + 4, &sums, GRE)
            }
            _ => Some(()),
        }
    }

    /// The sum from `at`, in the headers, to the end. From the transport header on it is the complement of the
    /// pseudo-header's sum, as the checksum there is finished: the payload is not summed twice (the kernel's local
    /// checksum offload).
    fn sum_from(&self, frame: &[u8], at: usize) -> Option<u16> {
        let transport = self.packet.transport;
        if self.is_unsummed || !(transport - at).is_multiple_of(2) {
            return Some(ones_complement_sum(frame.get(at..)?));
        }
        let pseudo = self.packet.pseudo_sum(frame, frame.len() - transport)?;
        Some(sum_of(&[ones_complement_sum(frame.get(at..transport)?), !pseudo]))
    }
}

/// The packet to be cut, and its tunnel. The kernel's position of the transport header, if given, decides.
fn packet_of(
    head: &[u8],
    len: usize,
    gso: Gso,
    protocol: u8,
) -> Option<(Network, Option<Network>)> {
    let packet = Network::of_frame(head)?;
    let inner = match gso.checksum_from.map(usize::from) {
        Some(from) if from == packet.transport => None,
        Some(from) => Some(packet.inside_at(head, len, from, protocol)?),
        None if packet.protocol == protocol => None,
        None => Some(packet.inside(head)?),
    };
    let is_numbered = |tunnel: &Network| {
        tunnel.protocol == GRE
            && u16_at(head, tunnel.transport).is_none_or(|flags| flags & GRE_SEQUENCE != 0)
    };
    match inner {
        None => (packet.protocol == protocol).then_some((packet, None)),
        // The segments would need sequence numbers of the tunnel, which only its sender can assign.
        Some(_) if is_numbered(&packet) => None,
        Some(inner) => (inner.protocol == protocol).then_some((inner, Some(packet))),
    }
}

/// Copies bytes starting at `from` of the two pieces together.
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

/// Stores the checksum over these sums. One of 0 means "none" in UDP; both zeros are the same number.
fn put_checksum(frame: &mut [u8], at: usize, sums: &[u16], protocol: u8) -> Option<()> {
    let sum = match !sum_of(sums) {
        0 if protocol == layers::UDP => 0xffff,
        sum => sum,
    };
    put(frame, at, usize::from(sum))
}

#[cfg(test)]
mod tests;
