//! One encapsulation: its headers as slots, what to write into them, and what to check.

use wireyard_pipeline::externs::checksum::Sum;

use super::super::crc::CrcPlan;
use super::super::layout::{Layouts, Slot};
use super::super::transport::Origin;
use super::slots::{EthernetSlots, GrhSlots, Ipv4Slots, Ipv6Slots, LrhSlots, TagSlots, UdpSlots};
use super::*;

/// Bytes of the ICRC.
const ICRC_BYTES: usize = 4;
/// Bytes of the VCRC.
const VCRC_BYTES: usize = 2;
/// Bytes of an IPv4 header without options.
const IPV4_BYTES: usize = 20;
/// Shortest Ethernet frame without FCS, to which a carrier may pad an InfiniBand packet.
const FRAME_BYTES_MIN: usize = 60;
/// ECN field "congestion experienced".
const CE: u64 = 3;

#[derive(Debug)]
enum Front {
    Ethernet(EthernetSlots, Option<TagSlots>),
    Infiniband(LrhSlots),
}

#[derive(Debug)]
enum Net {
    None,
    Ipv4(Ipv4Slots, UdpSlots),
    Ipv6(Ipv6Slots, UdpSlots),
    Grh(GrhSlots),
}

/// One encapsulation, tagged or not.
#[derive(Debug)]
pub(in crate::frames) struct Shape {
    pub(in crate::frames) encap: Encap,
    pub(in crate::frames) tagged: bool,
    front: Front,
    net: Net,
    /// Where the network header begins.
    net_at: usize,
    /// Where the BTH begins.
    pub(in crate::frames) bth_at: usize,
    /// Where the extended headers begin.
    pub(in crate::frames) head_bytes: usize,
    icrc: CrcPlan,
    icrc_value: Slot,
    vcrc: Option<(CrcPlan, Slot)>,
}

/// Every shape: the five encapsulations, the three on Ethernet also with a tag behind them.
pub(in crate::frames) fn shapes(layouts: &Layouts) -> Result<Vec<Shape>, String> {
    let plain = Encap::ALL.into_iter().map(|encap| (encap, false));
    let tagged = Encap::ALL[..3].iter().map(|encap| (*encap, true));
    plain.chain(tagged).map(|(encap, tagged)| Shape::new(layouts, encap, tagged)).collect()
}

impl Shape {
    fn new(layouts: &Layouts, encap: Encap, tagged: bool) -> Result<Shape, String> {
        let (net, crc): (&[&str], _) = match encap {
            Encap::RoceV2Ipv4 => (&["ipv4", "udp"], "icrc_rocev2"),
            Encap::RoceV2Ipv6 => (&["ipv6", "udp"], "icrc_rocev2"),
            Encap::RoceV1 => (&["grh"], "icrc_rocev1"),
            Encap::IbLocal => (&[], "icrc_ib_local"),
            Encap::IbGlobal => (&["grh"], "icrc_ib_global"),
        };
        let front: &[&str] = match (encap.is_infiniband(), tagged) {
            (true, _) => &["lrh"],
            (false, true) => &["ethernet", "vlan[0]"],
            (false, false) => &["ethernet"],
        };
        let stack = layouts.stack(&[front, net, &["bth"]].concat())?;
        if stack.bytes() > HEAD_BYTES_MAX {
            return Err(format!("the headers of {} are over {HEAD_BYTES_MAX} bytes", encap.name()));
        }
        let vcrc = match encap.is_infiniband() {
            true => Some((
                CrcPlan::new(layouts, "vcrc_ib", &stack)?,
                layouts.stack(&["vcrc"])?.slot("vcrc.value")?,
            )),
            false => None,
        };
        Ok(Shape {
            encap,
            tagged,
            front: match encap.is_infiniband() {
                true => Front::Infiniband(LrhSlots::new(&stack, "lrh")?),
                false => {
                    let tag = tagged.then(|| TagSlots::new(&stack, "vlan[0]")).transpose()?;
                    Front::Ethernet(EthernetSlots::new(&stack, "ethernet")?, tag)
                }
            },
            net: match net {
                ["ipv4", ..] => {
                    Net::Ipv4(Ipv4Slots::new(&stack, "ipv4")?, UdpSlots::new(&stack, "udp")?)
                }
                ["ipv6", ..] => {
                    Net::Ipv6(Ipv6Slots::new(&stack, "ipv6")?, UdpSlots::new(&stack, "udp")?)
                }
                ["grh"] => Net::Grh(GrhSlots::new(&stack, "grh")?),
                _ => Net::None,
            },
            net_at: stack.offset(net.first().unwrap_or(&"bth"))?,
            bth_at: stack.offset("bth")?,
            head_bytes: stack.bytes(),
            icrc: CrcPlan::new(layouts, crc, &stack)?,
            icrc_value: layouts.stack(&["icrc"])?.slot("icrc.value")?,
            vcrc,
        })
    }

    /// Where the UDP header, or what is in its place, begins.
    fn behind_net(&self) -> usize {
        match self.net {
            Net::Ipv4(..) | Net::Ipv6(..) => self.bth_at - 8,
            _ => self.bth_at,
        }
    }

    /// Writes what is the same in every packet of an address and class.
    pub(in crate::frames) fn fill(&self, head: &mut [u8], to: &Address, class: &Class) {
        let (dscp, ecn, pcp) = (class.dscp.into(), class.ecn.into(), class.pcp.into());
        match &self.front {
            Front::Ethernet(ethernet, tag) => {
                ethernet.dst.write(head, to.dst_mac.into());
                ethernet.src.write(head, to.src_mac.into());
                let last = tag.map_or(ethernet.ether_type, |tag| tag.ether_type);
                last.write(head, self.ether_type().into());
                if let Some(tag) = tag {
                    ethernet.ether_type.write(head, ETHER_TYPE_VLAN.into());
                    tag.pcp.write(head, pcp);
                    tag.vid.write(head, to.vlan.unwrap_or(0).into());
                }
            }
            Front::Infiniband(lrh) => {
                lrh.vl.write(head, class.vl.into());
                lrh.sl.write(head, pcp);
                lrh.lnh.write(head, if self.encap == Encap::IbGlobal { 3 } else { 2 });
                lrh.slid.write(head, to.slid.into());
                lrh.dlid.write(head, to.dlid.into());
            }
        }
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                ip.version.write(head, 4);
                ip.ihl.write(head, (IPV4_BYTES / 4) as u64);
                ip.dscp.write(head, dscp);
                ip.ecn.write(head, ecn);
                ip.flags.write(head, DO_NOT_FRAGMENT);
                ip.ttl.write(head, to.hop_limit.into());
                ip.protocol.write(head, u64::from(PROTOCOL_UDP));
                ip.src.write(head, to.src as u32 as u64);
                ip.dst.write(head, to.dst as u32 as u64);
                fill_udp(udp, head, to);
            }
            Net::Ipv6(ip, udp) => {
                ip.version.write(head, 6);
                ip.dscp.write(head, dscp);
                ip.ecn.write(head, ecn);
                ip.flow_label.write(head, to.flow_label.into());
                ip.next_header.write(head, u64::from(PROTOCOL_UDP));
                ip.hop_limit.write(head, to.hop_limit.into());
                ip.src.write(head, to.src);
                ip.dst.write(head, to.dst);
                fill_udp(udp, head, to);
            }
            Net::Grh(grh) => {
                grh.ipver.write(head, 6);
                grh.tclass.write(head, dscp << 2 | ecn);
                grh.flowlabel.write(head, to.flow_label.into());
                grh.nexthdr.write(head, u64::from(NEXT_HEADER_BTH));
                grh.hoplmt.write(head, to.hop_limit.into());
                grh.sgid.write(head, to.src);
                grh.dgid.write(head, to.dst);
            }
        }
    }

    fn ether_type(&self) -> u16 {
        match self.net {
            Net::Ipv4(..) => ETHER_TYPE_IPV4,
            Net::Ipv6(..) => ETHER_TYPE_IPV6,
            Net::Grh(_) | Net::None => ETHER_TYPE_ROCEV1,
        }
    }

    /// Bytes behind body and pad.
    pub(in crate::frames) fn trailer_bytes(&self) -> usize {
        ICRC_BYTES + if self.vcrc.is_some() { VCRC_BYTES } else { 0 }
    }

    /// Writes lengths, checksum and CRCs of a whole frame.
    pub(in crate::frames) fn finish(&self, frame: &mut [u8]) {
        let body_end = frame.len() - self.trailer_bytes();
        let end = body_end + ICRC_BYTES;
        if let Front::Infiniband(lrh) = &self.front {
            lrh.pktlen.write(frame, (end / 4) as u64);
        }
        let behind = (end - self.behind_net()) as u64;
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                ip.total_len.write(frame, (end - self.net_at) as u64);
                udp.len.write(frame, behind);
                let mut sum = Sum::default();
                sum.add(&frame[self.net_at..self.net_at + IPV4_BYTES]);
                ip.checksum.write(frame, sum.checksum().into());
            }
            Net::Ipv6(ip, udp) => {
                ip.payload_len.write(frame, behind);
                udp.len.write(frame, behind);
            }
            Net::Grh(grh) => grh.paylen.write(frame, behind),
        }
        let icrc = self.icrc.value(&frame[..body_end]);
        self.icrc_value.write(&mut frame[body_end..], icrc);
        if let Some((vcrc, slot)) = &self.vcrc {
            let value = vcrc.value(&frame[..end]);
            slot.write(&mut frame[end..], value);
        }
    }

    /// Checks everything up to the BTH, and says where body and pad end.
    pub(in crate::frames) fn check(&self, frame: &[u8]) -> Result<usize, Refused> {
        let least = self.head_bytes + self.trailer_bytes();
        if frame.len() < least {
            return Err(Refused::TooShort);
        }
        let end = match &self.front {
            Front::Infiniband(lrh) => check_lrh(lrh, frame)?,
            Front::Ethernet(..) => frame.len(),
        };
        let end = match &self.net {
            Net::None => end,
            Net::Ipv4(ip, udp) => self.check_ipv4(ip, udp, frame)?,
            Net::Ipv6(ip, udp) => self.check_ipv6(ip, udp, frame)?,
            Net::Grh(grh) => {
                if grh.ipver.read(frame) != 6
                    || grh.nexthdr.read(frame) != u64::from(NEXT_HEADER_BTH)
                {
                    return Err(Refused::BadGrh);
                }
                let stated = self.bth_at + grh.paylen.read(frame) as usize;
                let fits = match self.encap {
                    Encap::IbGlobal => stated == end,
                    _ => stated <= end,
                };
                if fits { stated } else { return Err(Refused::BadGrhLength) }
            }
        };
        if end < self.head_bytes + ICRC_BYTES {
            return Err(Refused::TooShort);
        }
        Ok(end - ICRC_BYTES)
    }

    fn check_ipv4(&self, ip: &Ipv4Slots, udp: &UdpSlots, frame: &[u8]) -> Result<usize, Refused> {
        if ip.protocol.read(frame) != u64::from(PROTOCOL_UDP) {
            return Err(Refused::NotTransport);
        }
        let more_fragments = ip.flags.read(frame) & 1 != 0 || ip.frag_offset.read(frame) != 0;
        if ip.version.read(frame) != 4 || ip.ihl.read(frame) != 5 || more_fragments {
            return Err(Refused::BadIp);
        }
        if udp.dst_port.read(frame) != u64::from(ROCE_UDP_PORT) {
            return Err(Refused::NotTransport);
        }
        let mut sum = Sum::default();
        sum.add(&frame[self.net_at..self.net_at + IPV4_BYTES]);
        if sum.folded() != 0xffff {
            return Err(Refused::BadIpChecksum);
        }
        let end = self.net_at + ip.total_len.read(frame) as usize;
        if end > frame.len() {
            return Err(Refused::BadIpLength);
        }
        self.check_udp(udp, frame, end)
    }

    fn check_ipv6(&self, ip: &Ipv6Slots, udp: &UdpSlots, frame: &[u8]) -> Result<usize, Refused> {
        if ip.version.read(frame) != 6 {
            return Err(Refused::BadIp);
        }
        let udp_port = udp.dst_port.read(frame);
        if ip.next_header.read(frame) != u64::from(PROTOCOL_UDP)
            || udp_port != u64::from(ROCE_UDP_PORT)
        {
            return Err(Refused::NotTransport);
        }
        let end = self.behind_net() + ip.payload_len.read(frame) as usize;
        if end > frame.len() {
            return Err(Refused::BadIpLength);
        }
        self.check_udp(udp, frame, end)
    }

    fn check_udp(&self, udp: &UdpSlots, frame: &[u8], end: usize) -> Result<usize, Refused> {
        let stated = self.behind_net() + udp.len.read(frame) as usize;
        if stated == end { Ok(end) } else { Err(Refused::BadUdpLength) }
    }

    /// Checks the CRCs of a frame whose body and pad end at `body_end`.
    pub(in crate::frames) fn check_crcs(
        &self,
        frame: &[u8],
        body_end: usize,
    ) -> Result<(), Refused> {
        let end = body_end + ICRC_BYTES;
        if let Some((vcrc, slot)) = &self.vcrc
            && slot.read(&frame[end..]) != vcrc.value(&frame[..end])
        {
            return Err(Refused::BadVcrc);
        }
        match self.icrc_value.read(&frame[body_end..]) == self.icrc.value(&frame[..body_end]) {
            true => Ok(()),
            false => Err(Refused::BadIcrc),
        }
    }

    /// Who sent a frame that passed [`Self::check`], to whom, and whether IP says it met congestion.
    pub(in crate::frames) fn origin(&self, frame: &[u8]) -> Origin {
        let mut origin = Origin {
            address: Address::new(self.encap, Mac::default(), Mac::default(), 0, 0),
            ip_ce: false,
        };
        let address = &mut origin.address;
        match &self.front {
            Front::Ethernet(ethernet, tag) => {
                address.src_mac = Mac::from(ethernet.src.read(frame));
                address.dst_mac = Mac::from(ethernet.dst.read(frame));
                address.vlan = tag.map(|tag| tag.vid.read(frame) as u16);
            }
            Front::Infiniband(lrh) => {
                address.slid = lrh.slid.read(frame) as u16;
                address.dlid = lrh.dlid.read(frame) as u16;
                (address.src, address.dst) = (address.slid.into(), address.dlid.into());
            }
        }
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                address.src = mapped(Ipv4Addr::from_bits(ip.src.read(frame) as u32));
                address.dst = mapped(Ipv4Addr::from_bits(ip.dst.read(frame) as u32));
                address.hop_limit = ip.ttl.read(frame) as u8;
                address.udp_src_port = udp.src_port.read(frame) as u16;
                origin.ip_ce = ip.ecn.read(frame) == CE;
            }
            Net::Ipv6(ip, udp) => {
                (address.src, address.dst) = (ip.src.read(frame), ip.dst.read(frame));
                address.hop_limit = ip.hop_limit.read(frame) as u8;
                address.flow_label = ip.flow_label.read(frame) as u32;
                address.udp_src_port = udp.src_port.read(frame) as u16;
                origin.ip_ce = ip.ecn.read(frame) == CE;
            }
            Net::Grh(grh) => {
                (address.src, address.dst) = (grh.sgid.read(frame), grh.dgid.read(frame));
                address.hop_limit = grh.hoplmt.read(frame) as u8;
                address.flow_label = grh.flowlabel.read(frame) as u32;
            }
        }
        origin
    }

    /// The type of what follows the Ethernet header, or its tag.
    pub(in crate::frames) fn ether_type_of(&self, frame: &[u8]) -> u16 {
        match &self.front {
            Front::Ethernet(ethernet, tag) => {
                tag.map_or(ethernet.ether_type, |tag| tag.ether_type).read(frame) as u16
            }
            Front::Infiniband(_) => 0,
        }
    }

    /// What follows the LRH.
    pub(in crate::frames) fn lnh_of(&self, frame: &[u8]) -> u64 {
        match &self.front {
            Front::Infiniband(lrh) => lrh.lnh.read(frame),
            Front::Ethernet(..) => 0,
        }
    }
}

fn fill_udp(udp: &UdpSlots, head: &mut [u8], to: &Address) {
    udp.src_port.write(head, to.udp_src_port.into());
    udp.dst_port.write(head, u64::from(ROCE_UDP_PORT));
}

/// Where the ICRC of an InfiniBand packet ends. A carrier may have padded it to the shortest Ethernet frame.
fn check_lrh(lrh: &LrhSlots, frame: &[u8]) -> Result<usize, Refused> {
    if lrh.lver.read(frame) != 0 {
        return Err(Refused::BadLrh);
    }
    let end = lrh.pktlen.read(frame) as usize * 4;
    let wire = end + VCRC_BYTES;
    let padded = wire < FRAME_BYTES_MIN && frame.len() == FRAME_BYTES_MIN;
    if wire == frame.len() || padded { Ok(end) } else { Err(Refused::BadPktLen) }
}
