//! Checks of a received frame up to its BTH and after its body, and the addresses in its headers.
//!
//! The fixed fields of a shape are compared as words, which is sufficient for a valid frame; only a frame that differs
//! is checked field by field, to find the reason. BTH and extended headers are not checked here.

use wireyard_pipeline::externs::checksum::Sum;

use crate::link_type::LinkType;

use super::super::super::layout::Slot;
use super::super::slots::{LrhSlots, UdpSlots};
use super::*;

/// Minimum length of an Ethernet frame without FCS, to which a carrier may pad an InfiniBand packet.
const FRAME_BYTES_MIN: usize = 60;
/// ECN field "congestion experienced".
const CE: u64 = 3;

/// The value of 8 bytes of every valid frame, where the mask has ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedWord {
    /// Index of the word of 8 bytes.
    index: usize,
    mask: u64,
    bytes: u64,
}

/// Properties of a packet from the headers in front of its BTH.
#[derive(Clone, Copy, Debug)]
pub(in crate::frames) struct Network {
    /// End of body and pad.
    pub(in crate::frames) body_end: usize,
    /// The receiver, in the form of [`Address::dst`].
    pub(in crate::frames) dst: u128,
    /// The ECN field of the IP header is "congestion experienced".
    pub(in crate::frames) ip_ce: bool,
}

impl Shape {
    /// The values that [`Self::check_fixed`] and the type in front require, as words to compare.
    pub(super) fn fixed_words(&self) -> Vec<FixedWord> {
        let (mut mask, mut bytes) = ([0; HEAD_BYTES_MAX], [0; HEAD_BYTES_MAX]);
        let mut is = |slot: Slot, value: u64| {
            slot.write(&mut mask, u64::MAX);
            slot.write(&mut bytes, value);
        };
        match &self.front {
            Front::Ethernet(ethernet, None) => is(ethernet.ether_type, self.ether_type().into()),
            Front::Ethernet(ethernet, Some(tag)) => {
                is(ethernet.ether_type, ETHER_TYPE_VLAN.into());
                is(tag.ether_type, self.ether_type().into());
            }
            Front::Infiniband(lrh) => {
                is(lrh.lver, 0);
                is(lrh.lnh, self.lnh());
            }
        }
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                is(ip.version, 4);
                is(ip.ihl, (IPV4_BYTES / 4) as u64);
                is(ip.flags.low_bits(1), 0);
                is(ip.frag_offset, 0);
                is(ip.protocol, u64::from(PROTOCOL_UDP));
                is(udp.dst_port, u64::from(self.udp_port()));
            }
            Net::Ipv6(ip, udp) => {
                is(ip.version, 6);
                is(ip.next_header, u64::from(PROTOCOL_UDP));
                is(udp.dst_port, u64::from(self.udp_port()));
            }
            Net::Grh(grh) => {
                is(grh.ipver, 6);
                is(grh.nexthdr, u64::from(NEXT_HEADER_BTH));
            }
        }
        let words = mask.as_chunks().0.iter().zip(bytes.as_chunks().0).enumerate();
        let words = words.map(|(index, (mask, bytes))| {
            let (mask, bytes) = (u64::from_ne_bytes(*mask), u64::from_ne_bytes(*bytes));
            FixedWord { index, mask, bytes }
        });
        words.filter(|word| word.mask != 0).collect()
    }

    /// True for a frame of this link with the shape's types that passes [`Self::check_fixed`], by a comparison of
    /// words.
    pub(in crate::frames) fn holds(&self, link: LinkType, frame: &[u8]) -> bool {
        let own_link = match self.front {
            Front::Ethernet(..) => LinkType::Ethernet,
            Front::Infiniband(_) => LinkType::Infiniband,
        };
        let words = frame.as_chunks().0;
        let is_right = |fixed: &FixedWord| {
            let word = words.get(fixed.index).map(|word| u64::from_ne_bytes(*word));
            word.is_some_and(|word| (word ^ fixed.bytes) & fixed.mask == 0)
        };
        link == own_link
            && frame.len() >= self.head_bytes + self.trailer_bytes
            && self.fixed.iter().all(is_right)
    }

    /// Checks the fixed fields one by one, to find the reason why [`Self::holds`] is false.
    pub(in crate::frames) fn check_fixed(&self, frame: &[u8]) -> Result<(), Refused> {
        if frame.len() < self.head_bytes + self.trailer_bytes {
            return Err(Refused::TooShort);
        }
        if let Front::Infiniband(lrh) = &self.front
            && lrh.lver.read(frame) != 0
        {
            return Err(Refused::BadLrh);
        }
        let not_roce = |udp: &UdpSlots| udp.dst_port.read(frame) != u64::from(self.udp_port());
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                if ip.protocol.read(frame) != u64::from(PROTOCOL_UDP) {
                    return Err(Refused::NotTransport);
                }
                let is_fragment = ip.flags.read(frame) & 1 != 0 || ip.frag_offset.read(frame) != 0;
                if ip.version.read(frame) != 4 || ip.ihl.read(frame) != 5 || is_fragment {
                    return Err(Refused::BadIp);
                }
                if not_roce(udp) {
                    return Err(Refused::NotTransport);
                }
            }
            Net::Ipv6(ip, udp) => {
                if ip.version.read(frame) != 6 {
                    return Err(Refused::BadIp);
                }
                if ip.next_header.read(frame) != u64::from(PROTOCOL_UDP) || not_roce(udp) {
                    return Err(Refused::NotTransport);
                }
            }
            Net::Grh(grh) => {
                if grh.ipver.read(frame) != 6
                    || grh.nexthdr.read(frame) != u64::from(NEXT_HEADER_BTH)
                {
                    return Err(Refused::BadGrh);
                }
            }
        }
        Ok(())
    }

    /// Checks the other headers before the BTH of a frame that passed [`Self::check_fixed`]: that lengths match each
    /// other, and the IPv4 checksum.
    #[inline]
    pub(in crate::frames) fn network(&self, frame: &[u8]) -> Result<Network, Refused> {
        let end = match &self.front {
            Front::Infiniband(lrh) => check_pktlen(lrh, frame)?,
            Front::Ethernet(..) => frame.len(),
        };
        let (end, ecn) = match &self.net {
            Net::None => (end, 0),
            Net::Ipv4(ip, udp) => {
                let mut sum = Sum::default();
                sum.add(&frame[self.net_at..self.net_at + IPV4_BYTES]);
                if sum.folded() != 0xffff {
                    return Err(Refused::BadIpChecksum);
                }
                let end = self.net_at + ip.total_len.read(frame) as usize;
                (self.check_udp(udp, frame, end)?, ip.ecn.read(frame))
            }
            Net::Ipv6(ip, udp) => {
                let end = self.behind_net + ip.payload_len.read(frame) as usize;
                (self.check_udp(udp, frame, end)?, ip.ecn.read(frame))
            }
            Net::Grh(grh) => {
                let stated = self.bth_at + grh.paylen.read(frame) as usize;
                let fits = match self.encap {
                    Encap::IbGlobal => stated == end,
                    _ => stated <= end,
                };
                if !fits {
                    return Err(Refused::BadGrhLength);
                }
                (stated, 0)
            }
        };
        if end < self.head_bytes + ICRC_BYTES {
            return Err(Refused::TooShort);
        }
        Ok(Network { body_end: end - ICRC_BYTES, dst: self.dst(frame), ip_ce: ecn == CE })
    }

    fn check_udp(&self, udp: &UdpSlots, frame: &[u8], end: usize) -> Result<usize, Refused> {
        if end > frame.len() {
            return Err(Refused::BadIpLength);
        }
        let stated = self.behind_net + udp.len.read(frame) as usize;
        if stated == end { Ok(end) } else { Err(Refused::BadUdpLength) }
    }

    /// Checks the CRCs of a frame whose body and pad end at `body_end`.
    pub(in crate::frames) fn check_crcs(
        &self,
        frame: &[u8],
        body_end: usize,
    ) -> Result<(), Refused> {
        let end = body_end + ICRC_BYTES;
        if let Some(vcrc) = &self.vcrc {
            let value = vcrc.value(&frame[..end]) as u16;
            if frame[end..].first_chunk() != Some(&value.to_be_bytes()) {
                return Err(Refused::BadVcrc);
            }
        }
        let icrc = self.icrc.value(&frame[..body_end]) as u32;
        match frame[body_end..].first_chunk() == Some(&icrc.to_be_bytes()) {
            true => Ok(()),
            false => Err(Refused::BadIcrc),
        }
    }

    /// The receiver, in the form of [`Address::dst`].
    fn dst(&self, frame: &[u8]) -> u128 {
        match (&self.net, &self.front) {
            (Net::Ipv4(ip, _), _) => mapped(Ipv4Addr::from_bits(ip.dst.read(frame) as u32)),
            (Net::Ipv6(ip, _), _) => ip.dst.read(frame),
            (Net::Grh(grh), _) => grh.dgid.read(frame),
            (Net::None, Front::Infiniband(lrh)) => lrh.dlid.read(frame).into(),
            (Net::None, Front::Ethernet(..)) => 0,
        }
    }

    /// Sender and receiver of a frame that is long enough.
    pub(in crate::frames) fn address(&self, frame: &[u8]) -> Address {
        let mut address = Address::new(self.encap, Mac::default(), Mac::default(), 0, 0);
        match &self.front {
            Front::Ethernet(ethernet, tag) => {
                address.src_mac = Mac::from(ethernet.src.read(frame));
                address.dst_mac = Mac::from(ethernet.dst.read(frame));
                address.vlan = tag.map(|tag| tag.vid.read(frame) as u16);
            }
            Front::Infiniband(lrh) => {
                address.slid = lrh.slid.read(frame) as u16;
                address.dlid = lrh.dlid.read(frame) as u16;
                address.src = address.slid.into();
            }
        }
        address.dst = self.dst(frame);
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                address.src = mapped(Ipv4Addr::from_bits(ip.src.read(frame) as u32));
                address.hop_limit = ip.ttl.read(frame) as u8;
                address.udp_src_port = udp.src_port.read(frame) as u16;
            }
            Net::Ipv6(ip, udp) => {
                address.src = ip.src.read(frame);
                address.hop_limit = ip.hop_limit.read(frame) as u8;
                address.flow_label = ip.flow_label.read(frame) as u32;
                address.udp_src_port = udp.src_port.read(frame) as u16;
            }
            Net::Grh(grh) => {
                address.src = grh.sgid.read(frame);
                address.hop_limit = grh.hoplmt.read(frame) as u8;
                address.flow_label = grh.flowlabel.read(frame) as u32;
            }
        }
        address
    }

    /// The service level of the LRH; zero on Ethernet.
    pub(in crate::frames) fn sl_of(&self, frame: &[u8]) -> u8 {
        match &self.front {
            Front::Infiniband(lrh) => lrh.sl.read(frame) as u8,
            Front::Ethernet(..) => 0,
        }
    }

    /// The type after the Ethernet header, or after its tag.
    pub(in crate::frames) fn ether_type_of(&self, frame: &[u8]) -> u16 {
        match &self.front {
            Front::Ethernet(ethernet, tag) => {
                tag.map_or(ethernet.ether_type, |tag| tag.ether_type).read(frame) as u16
            }
            Front::Infiniband(_) => 0,
        }
    }

    /// The next header of the LRH.
    pub(in crate::frames) fn lnh_of(&self, frame: &[u8]) -> u64 {
        match &self.front {
            Front::Infiniband(lrh) => lrh.lnh.read(frame),
            Front::Ethernet(..) => 0,
        }
    }
}

/// The end of the ICRC of an InfiniBand packet. A carrier may have padded the packet to the minimum Ethernet frame.
fn check_pktlen(lrh: &LrhSlots, frame: &[u8]) -> Result<usize, Refused> {
    let end = lrh.pktlen.read(frame) as usize * 4;
    let wire = end + VCRC_BYTES;
    let padded = wire < FRAME_BYTES_MIN && frame.len() == FRAME_BYTES_MIN;
    if wire == frame.len() || padded { Ok(end) } else { Err(Refused::BadPktLen) }
}
