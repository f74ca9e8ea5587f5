//! Transport packets on the wire: conversion of `roce`'s values to bytes and back.
//!
//! Building copies an [`Envelope`], writes BTH, extended headers, payload and pad, then lengths and CRCs. Parsing
//! checks everything that building writes, so a packet that passes is as its sender built it.

use crate::link_type::LinkType;
use crate::roce::memory::{AccessError, MemoryTable};
use crate::roce::np::{Mark, Marked};
use crate::roce::packet::{Bth, Headers, InPacket, OutPacket};
use crate::roce::psn::Psn;

use super::envelope::{
    Address, AddressError, BthSlots, Class, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_ROCEV1,
    ETHER_TYPE_VLAN, Encap, Envelope, HEAD_BYTES_MAX, LNH_GLOBAL, LNH_LOCAL, Refused, Shape,
    shapes,
};
use super::extension::Extensions;
use super::layout::{LayoutError, Layouts, Packed, Slot};

/// A received transport packet that is valid.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Headers, and payload without pad. Its path is 0: [`TransportFrames::address_of`] returns the sender.
    pub packet: InPacket<'a>,
    /// The receiver, in the form of [`Address::dst`].
    pub dst: u128,
    /// The congestion mark: CE in IP, FECN on InfiniBand. RoCEv1 has none.
    pub mark: Option<Mark>,
}

/// Why a packet could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The opcode is not supported, or the headers are not those of the opcode.
    #[error("the headers are not those of the opcode")]
    Headers,
    /// The pad count does not match the payload.
    #[error("payload and pad are not a multiple of 4 bytes")]
    PadCount,
    /// The frame does not fit its buffer.
    #[error("the frame does not fit its buffer")]
    NoRoom,
    /// The payload cannot be read.
    #[error("payload: {0}")]
    Memory(AccessError),
}

/// Length of a BTH, and of the first of its two words, in bytes.
const BTH_BYTES: usize = 12;
const FRONT_BYTES: usize = 8;

/// The fields of a BTH, which is written and read as two words: the last two fields are in the second.
#[derive(Debug)]
struct BthFields {
    opcode: Packed,
    solicited: Packed,
    migreq: Packed,
    padcount: Packed,
    version: Packed,
    pkey: Packed,
    fecn: Packed,
    becn: Packed,
    dqpn: Packed,
    ackreq: Packed,
    psn: Packed,
}

impl BthFields {
    fn new(layouts: &Layouts) -> Result<BthFields, LayoutError> {
        let stack = layouts.stack(&["bth"])?;
        if stack.bytes() != BTH_BYTES {
            return Err(LayoutError::Bth);
        }
        let slots = BthSlots::new(&stack, "bth")?;
        let packed = |slot: Slot, word| slot.packed(word).ok_or(LayoutError::Bth);
        let front = |slot: Slot| packed(slot, 0..FRONT_BYTES);
        let back = |slot: Slot| packed(slot, FRONT_BYTES..BTH_BYTES);
        Ok(BthFields {
            opcode: front(slots.opcode)?,
            solicited: front(slots.solicited)?,
            migreq: front(slots.migreq)?,
            padcount: front(slots.padcount)?,
            version: front(slots.version)?,
            pkey: front(slots.pkey)?,
            fecn: front(slots.fecn)?,
            becn: front(slots.becn)?,
            dqpn: front(slots.dqpn)?,
            ackreq: back(slots.ackreq)?,
            psn: back(slots.psn)?,
        })
    }

    /// Writes a BTH.
    fn write(&self, bth: &Bth, to: &mut [u8; BTH_BYTES]) {
        let front = self.opcode.of(bth.opcode.into())
            | self.solicited.of(bth.solicited.into())
            // "Migrated" is the normal state of a path; CNPs have it clear (IBTA 9.2; CNPs: IBTA annex A17.9.3).
            | self.migreq.of((bth.opcode >> 5 != 0b100).into())
            | self.padcount.of(bth.pad.into())
            | self.pkey.of(bth.pkey.into())
            | self.fecn.of(bth.fecn.into())
            | self.becn.of(bth.becn.into())
            | self.dqpn.of(bth.dest_qp.into());
        let back = self.ackreq.of(bth.ack_req.into()) | self.psn.of(bth.psn.get().into());
        to[..FRONT_BYTES].copy_from_slice(&front.to_be_bytes());
        to[FRONT_BYTES..].copy_from_slice(&(back as u32).to_be_bytes());
    }

    /// The partition key of a BTH.
    fn pkey(&self, bytes: &[u8; BTH_BYTES]) -> u16 {
        let [a, b, c, d, e, f, g, h, ..] = *bytes;
        self.pkey.read(u64::from_be_bytes([a, b, c, d, e, f, g, h])) as u16
    }

    /// Parses a BTH; `None` for a version other than 0.
    fn read(&self, bytes: &[u8; BTH_BYTES]) -> Option<Bth> {
        let [a, b, c, d, e, f, g, h, back @ ..] = *bytes;
        let front = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let back = u64::from(u32::from_be_bytes(back));
        (self.version.read(front) == 0).then(|| Bth {
            opcode: self.opcode.read(front) as u8,
            solicited: self.solicited.read(front) != 0,
            pad: self.padcount.read(front) as u8,
            pkey: self.pkey.read(front) as u16,
            fecn: self.fecn.read(front) != 0,
            becn: self.becn.read(front) != 0,
            dest_qp: self.dqpn.read(front) as u32,
            ack_req: self.ackreq.read(back) != 0,
            psn: Psn::new(self.psn.read(back) as u32),
        })
    }
}

/// Builds and parses transport packets.
#[derive(Debug)]
pub struct TransportFrames {
    shapes: Vec<Shape>,
    bth: BthFields,
    extensions: Extensions,
}

impl TransportFrames {
    /// Resolves the fields in the layouts.
    ///
    /// # Errors
    /// The libraries lack a field.
    pub fn new(layouts: &Layouts) -> Result<TransportFrames, LayoutError> {
        Ok(TransportFrames {
            shapes: shapes(layouts)?,
            bth: BthFields::new(layouts)?,
            extensions: Extensions::new(layouts)?,
        })
    }

    /// The finished headers of an address and class.
    ///
    /// # Errors
    /// Why they cannot be built.
    pub fn envelope(&self, to: &Address, class: &Class) -> Result<Envelope, AddressError> {
        self.envelope_of(to, class, false)
    }

    /// Like [`Self::envelope`], with room for the telemetry of HPCC between UDP and BTH.
    ///
    /// # Errors
    /// Why they cannot be built: telemetry is only in RoCEv2.
    pub fn envelope_with_telemetry(
        &self,
        to: &Address,
        class: &Class,
    ) -> Result<Envelope, AddressError> {
        match to.encap {
            Encap::RoceV2Ipv4 | Encap::RoceV2Ipv6 => self.envelope_of(to, class, true),
            _ => Err(AddressError::Telemetry),
        }
    }

    fn envelope_of(
        &self,
        to: &Address,
        class: &Class,
        telemetry: bool,
    ) -> Result<Envelope, AddressError> {
        to.check(class)?;
        let tagged = to.vlan.is_some() && !to.encap.is_infiniband();
        let wanted = |shape: &&Shape| shape.is(to.encap, tagged, telemetry);
        let index = self.shapes.iter().position(|shape| wanted(&shape)).unwrap_or_default();
        let mut head = [0; HEAD_BYTES_MAX];
        let shape = &self.shapes[index];
        shape.fill(&mut head, to, class);
        Ok(Envelope { shape: index as u8, head, ip_sum: shape.ip_sum(&head), encap: to.encap })
    }

    /// Length of the frame of a packet with these headers and `payload` bytes of payload; `None` for an unknown opcode.
    pub fn frame_bytes(
        &self,
        envelope: &Envelope,
        headers: &Headers,
        payload: usize,
    ) -> Option<usize> {
        let shape = &self.shapes[usize::from(envelope.shape)];
        let extended = self.extensions.bytes(headers.bth.opcode)?;
        let body = payload + usize::from(headers.bth.pad);
        Some(shape.head_bytes + extended + body + shape.trailer_bytes)
    }

    /// Builds a packet of the transport into `out` and returns its length.
    ///
    /// # Errors
    /// The reason; the content of `out` is then undefined.
    pub fn build(
        &self,
        envelope: &Envelope,
        packet: &OutPacket,
        memory: &MemoryTable,
        out: &mut [u8],
    ) -> Result<usize, BuildError> {
        let len = packet.payload.map_or(0, |payload| payload.len);
        debug_assert!(!packet.echo, "its payload is the caller's");
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
        frame[..shape.front_bytes].copy_from_slice(&envelope.head[..shape.front_bytes]);
        if shape.front_bytes < shape.bth_at {
            frame[shape.front_bytes..shape.bth_at].fill(0);
        }
        // The headers first: the CRC reads them as wide words, which must not wait for recent narrow stores.
        shape.measure(frame, envelope.ip_sum);
        let behind = &mut frame[shape.bth_at..];
        let (bth, rest) = behind.split_first_chunk_mut().ok_or(BuildError::NoRoom)?;
        self.bth.write(&headers.bth, bth);
        let body = self.extensions.write(headers, rest).ok_or(BuildError::Headers)?;
        let (body, behind) = body.split_at_mut(payload);
        fill(body)?;
        if pad > 0 {
            behind[..pad].fill(0);
        }
        shape.seal(frame);
        Ok(bytes)
    }

    /// The shape of a received frame.
    fn shape_of(&self, link: LinkType, frame: &[u8]) -> Result<&Shape, Refused> {
        let find = |encap: Encap, tagged: bool| {
            let plain = self.shapes.iter().find(|shape| shape.is(encap, tagged, false));
            let plain = plain.ok_or(Refused::NotTransport)?;
            let telemetry = plain.has_telemetry(frame);
            let same = || self.shapes.iter().find(|shape| shape.is(encap, tagged, true));
            Ok(if telemetry { same().unwrap_or(plain) } else { plain })
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

    /// Sender and receiver of a frame, without a check of its CRCs: for packets in transit.
    ///
    /// # Errors
    /// It is not a transport packet, or too short for one.
    pub fn address_of(&self, link: LinkType, frame: &[u8]) -> Result<Address, Refused> {
        let shape = self.shape_of(link, frame)?;
        if frame.len() < shape.head_bytes {
            return Err(Refused::TooShort);
        }
        Ok(shape.address(frame))
    }

    /// Like [`Self::address_of`], with the values that a CNP takes over.
    ///
    /// # Errors
    /// As [`Self::address_of`].
    pub fn marked(&self, link: LinkType, frame: &[u8]) -> Result<(Address, Marked), Refused> {
        let shape = self.shape_of(link, frame)?;
        let bth = frame.get(shape.bth_at..).and_then(|behind| behind.first_chunk());
        let pkey = self.bth.pkey(bth.ok_or(Refused::TooShort)?);
        Ok((shape.address(frame), Marked { pkey, sl: shape.sl_of(frame) }))
    }

    /// Receiver, DSCP and BTH of a frame that was trimmed after its headers, whose lengths and CRCs are therefore
    /// wrong. `None` if even the headers are incomplete.
    pub fn trimmed(&self, link: LinkType, frame: &[u8]) -> Option<(u128, u8, Bth)> {
        let shape = self.shape_of(link, frame).ok()?;
        if frame.len() < shape.head_bytes {
            return None;
        }
        let bth = frame.get(shape.bth_at..)?.first_chunk()?;
        Some((shape.address(frame).dst, shape.dscp_of(frame)?, self.bth.read(bth)?))
    }

    /// Changes the UDP source port of finished headers; the packet's lengths and sums do not depend on it.
    pub fn set_udp_source(&self, envelope: &mut Envelope, port: u16) {
        self.shapes[usize::from(envelope.shape)].set_udp_source(&mut envelope.head, port);
    }

    /// The shape of a received frame whose fixed fields are valid.
    fn right_shape_of(&self, link: LinkType, frame: &[u8]) -> Result<&Shape, Refused> {
        if let Some(shape) = self.shapes.iter().find(|shape| shape.holds(link, frame)) {
            return Ok(shape);
        }
        let shape = self.shape_of(link, frame)?;
        shape.check_fixed(frame)?;
        Ok(shape)
    }

    /// Parses and checks a received frame.
    ///
    /// # Errors
    /// Why it is not a transport packet, or not a valid one.
    pub fn parse<'a>(&self, link: LinkType, frame: &'a [u8]) -> Result<Received<'a>, Refused> {
        let shape = self.right_shape_of(link, frame)?;
        let network = shape.network(frame)?;
        let behind = frame.get(shape.bth_at..network.body_end).ok_or(Refused::TooShort)?;
        let (bth, behind) = behind.split_first_chunk().ok_or(Refused::TooShort)?;
        let bth = self.bth.read(bth).ok_or(Refused::BadVersion)?;
        let packet =
            InPacket { headers: Headers::new(bth), payload: &[], path: 0, telemetry: None };
        let fecn = bth.fecn && shape.encap.is_infiniband();
        let mark = if network.ip_ce { Some(Mark::IpCe) } else { fecn.then_some(Mark::Fecn) };
        let mut received = Received { packet, dst: network.dst, mark };
        received.packet.telemetry = shape.telemetry(frame);
        let body = self.extensions.read(&mut received.packet.headers, behind)?;
        let len = body.len().checked_sub(bth.pad.into()).filter(|_| body.len().is_multiple_of(4));
        let len = len.ok_or(Refused::BadPadCount)?;
        received.packet.payload = &body[..len];
        shape.check_crcs(frame, network.body_end)?;
        Ok(received)
    }
}

#[cfg(test)]
mod tests;
