//! Transport packets on the wire: `roce`'s values to bytes and back.
//!
//! Building copies an [`Envelope`], writes BTH, extended headers, payload and pad, then lengths and CRCs. Reading
//! checks everything that building writes; what passes is a packet as the sender meant it.

use std::fmt;

use crate::ports::LinkType;
use crate::roce::memory::{AccessError, MemoryTable};
use crate::roce::np::Mark;
use crate::roce::packet::{Bth, Headers, InPacket, OutPacket};
use crate::roce::psn::Psn;

use super::envelope::{
    Address, AddressError, BthSlots, Class, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_ROCEV1,
    ETHER_TYPE_VLAN, Encap, Envelope, HEAD_BYTES_MAX, Refused, Shape, shapes,
};
use super::extension::Extensions;
use super::layout::Layouts;

/// LNH: a BTH follows the LRH.
const LNH_LOCAL: u64 = 2;
/// LNH: a GRH follows the LRH.
const LNH_GLOBAL: u64 = 3;

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Sender and receiver as the packet has them.
    pub address: Address,
    /// The IP header says "congestion experienced".
    pub ip_ce: bool,
}

/// A transport packet that was received and is right.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Headers.
    pub headers: Headers,
    /// Payload without pad.
    pub payload: &'a [u8],
    /// Where it came from.
    pub origin: Origin,
}

impl<'a> Received<'a> {
    /// The congestion mark it carries: CE in IP, FECN on InfiniBand. RoCEv1 has none.
    pub fn mark(&self) -> Option<Mark> {
        let fecn = self.origin.address.encap.is_infiniband() && self.headers.bth.fecn;
        if self.origin.ip_ce { Some(Mark::IpCe) } else { fecn.then_some(Mark::Fecn) }
    }

    /// For the queue pair, with the caller's number of the path.
    pub fn packet(&self, path: u32) -> InPacket<'a> {
        InPacket { headers: self.headers, payload: self.payload, path }
    }
}

/// Why a packet could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The opcode is not spoken here, or the headers are not those that it has.
    Headers,
    /// The pad count is not that of the payload.
    PadCount,
    /// The frame does not fit its buffer.
    NoRoom,
    /// The payload cannot be read.
    Memory(AccessError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Headers => f.write_str("the headers are not those of the opcode"),
            BuildError::PadCount => f.write_str("payload and pad are not a multiple of 4 bytes"),
            BuildError::NoRoom => f.write_str("the frame does not fit its buffer"),
            BuildError::Memory(why) => write!(f, "payload: {why}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Builds and reads transport packets.
#[derive(Debug)]
pub struct TransportFrames {
    shapes: Vec<Shape>,
    bth: BthSlots,
    extensions: Extensions,
}

impl TransportFrames {
    /// Takes the layouts.
    ///
    /// # Errors
    /// The libraries lack a field.
    pub fn new(layouts: &Layouts) -> Result<TransportFrames, String> {
        Ok(TransportFrames {
            shapes: shapes(layouts)?,
            bth: BthSlots::new(&layouts.stack(&["bth"])?, "bth")?,
            extensions: Extensions::new(layouts)?,
        })
    }

    /// The finished headers of an address and class.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn envelope(&self, to: &Address, class: &Class) -> Result<Envelope, AddressError> {
        to.check(class)?;
        let tagged = to.vlan.is_some() && !to.encap.is_infiniband();
        let wanted = |shape: &&Shape| shape.encap == to.encap && shape.tagged == tagged;
        let index = self.shapes.iter().position(|shape| wanted(&shape)).unwrap_or_default();
        let mut head = [0; HEAD_BYTES_MAX];
        self.shapes[index].fill(&mut head, to, class);
        Ok(Envelope { shape: index as u8, head, encap: to.encap })
    }

    /// Bytes of the frame of a packet with these headers and so much payload; `None` for an unknown opcode.
    pub fn frame_bytes(
        &self,
        envelope: &Envelope,
        headers: &Headers,
        payload: usize,
    ) -> Option<usize> {
        let shape = &self.shapes[usize::from(envelope.shape)];
        let extended = self.extensions.bytes(headers.bth.opcode)?;
        let body = payload + usize::from(headers.bth.pad);
        Some(shape.head_bytes + extended + body + shape.trailer_bytes())
    }

    /// Builds a packet of the transport into `out` and says how long it is.
    ///
    /// # Errors
    /// Why not; `out` then has undefined content.
    pub fn build(
        &self,
        envelope: &Envelope,
        packet: &OutPacket,
        memory: &MemoryTable,
        out: &mut [u8],
    ) -> Result<usize, BuildError> {
        let len = packet.payload.map_or(0, |payload| payload.len);
        self.build_with(envelope, &packet.headers, len as usize, out, |to| match &packet.payload {
            Some(payload) => memory.read(payload, to).map_err(BuildError::Memory),
            None => Ok(()),
        })
    }

    /// Builds a packet whose `payload` bytes are written by `fill`.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_with(
        &self,
        envelope: &Envelope,
        headers: &Headers,
        payload: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<(), BuildError>,
    ) -> Result<usize, BuildError> {
        let shape = &self.shapes[usize::from(envelope.shape)];
        let pad = usize::from(headers.bth.pad);
        if pad > 3 || !(payload + pad).is_multiple_of(4) {
            return Err(BuildError::PadCount);
        }
        let bytes = self.frame_bytes(envelope, headers, payload).ok_or(BuildError::Headers)?;
        let frame = out.get_mut(..bytes).ok_or(BuildError::NoRoom)?;
        let (head, rest) = frame.split_at_mut(shape.head_bytes);
        head.copy_from_slice(&envelope.head[..shape.head_bytes]);
        self.write_bth(&headers.bth, &mut head[shape.bth_at..]);
        self.extensions.write(headers, rest).ok_or(BuildError::Headers)?;
        let body_at = bytes - shape.trailer_bytes() - pad - payload;
        let (body, behind) = frame[body_at..].split_at_mut(payload);
        fill(body)?;
        behind[..pad].fill(0);
        shape.finish(frame);
        Ok(bytes)
    }

    fn write_bth(&self, bth: &Bth, to: &mut [u8]) {
        let slots = &self.bth;
        slots.opcode.write(to, bth.opcode.into());
        slots.solicited.write(to, bth.solicited.into());
        // "Migrated" is the normal state of a path; CNPs have it clear (wire.md 3 and 9).
        slots.migreq.write(to, (bth.opcode >> 5 != 0b100).into());
        slots.padcount.write(to, bth.pad.into());
        slots.pkey.write(to, bth.pkey.into());
        slots.fecn.write(to, bth.fecn.into());
        slots.becn.write(to, bth.becn.into());
        slots.dqpn.write(to, bth.dest_qp.into());
        slots.ackreq.write(to, bth.ack_req.into());
        slots.psn.write(to, bth.psn.get().into());
    }

    fn read_bth(&self, from: &[u8]) -> Bth {
        let slots = &self.bth;
        Bth {
            opcode: slots.opcode.read(from) as u8,
            solicited: slots.solicited.read(from) != 0,
            pad: slots.padcount.read(from) as u8,
            pkey: slots.pkey.read(from) as u16,
            fecn: slots.fecn.read(from) != 0,
            becn: slots.becn.read(from) != 0,
            dest_qp: slots.dqpn.read(from) as u32,
            ack_req: slots.ackreq.read(from) != 0,
            psn: Psn::new(slots.psn.read(from) as u32),
        }
    }

    /// The shape of a received frame.
    fn shape_of(&self, link: LinkType, frame: &[u8]) -> Result<&Shape, Refused> {
        let find = |encap: Encap, tagged: bool| {
            let found = self.shapes.iter().find(|s| s.encap == encap && s.tagged == tagged);
            found.ok_or(Refused::NotTransport)
        };
        match link {
            LinkType::Infiniband => {
                let local = find(Encap::IbLocal, false)?;
                match local.lnh_of(frame) {
                    LNH_LOCAL => Ok(local),
                    LNH_GLOBAL => find(Encap::IbGlobal, false),
                    _ => Err(Refused::NotTransport),
                }
            }
            LinkType::Ethernet => {
                let plain = find(Encap::RoceV2Ipv4, false)?.ether_type_of(frame);
                let tagged = plain == ETHER_TYPE_VLAN;
                let inner = match tagged {
                    true => find(Encap::RoceV2Ipv4, true)?.ether_type_of(frame),
                    false => plain,
                };
                match inner {
                    ETHER_TYPE_IPV4 => find(Encap::RoceV2Ipv4, tagged),
                    ETHER_TYPE_IPV6 => find(Encap::RoceV2Ipv6, tagged),
                    ETHER_TYPE_ROCEV1 => find(Encap::RoceV1, tagged),
                    _ => Err(Refused::NotTransport),
                }
            }
            LinkType::Opa | LinkType::Erf => Err(Refused::NotTransport),
        }
    }

    /// Who sends a frame to whom, without a look at its CRCs: for packets on their way.
    ///
    /// # Errors
    /// It is no transport packet, or too short for one.
    pub fn address_of(&self, link: LinkType, frame: &[u8]) -> Result<Address, Refused> {
        let shape = self.shape_of(link, frame)?;
        if frame.len() < shape.head_bytes {
            return Err(Refused::TooShort);
        }
        Ok(shape.origin(frame).address)
    }

    /// Reads and checks a received frame.
    ///
    /// # Errors
    /// Why it is no transport packet, or not a right one.
    pub fn parse<'a>(&self, link: LinkType, frame: &'a [u8]) -> Result<Received<'a>, Refused> {
        let shape = self.shape_of(link, frame)?;
        let body_end = shape.check(frame)?;
        let bth_bytes = frame.get(shape.bth_at..body_end).ok_or(Refused::TooShort)?;
        if self.bth.version.read(bth_bytes) != 0 {
            return Err(Refused::BadVersion);
        }
        let bth = self.read_bth(bth_bytes);
        let behind = frame.get(shape.head_bytes..body_end).ok_or(Refused::TooShort)?;
        let (headers, extended) = self.extensions.read(bth, behind)?;
        let body = &behind[extended..];
        let len = body.len().checked_sub(bth.pad.into()).ok_or(Refused::BadPadCount)?;
        shape.check_crcs(frame, body_end)?;
        Ok(Received { headers, payload: &body[..len], origin: shape.origin(frame) })
    }
}

#[cfg(test)]
mod tests;
