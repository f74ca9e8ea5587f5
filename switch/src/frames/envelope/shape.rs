//! One encapsulation: its headers as slots, and the values to write into them. The checks of received frames are in
//! [`check`].

mod check;

use wireyard_pipeline::externs::checksum::{Sum, fold};

use crate::roce::telemetry::{TELEMETRY_BYTES, TELEMETRY_UDP_PORT, TelemetryBytes};

use super::super::crc::CrcPlan;
use super::super::layout::{LayoutError, Layouts, Stack};
use super::slots::{EthernetSlots, GrhSlots, Ipv4Slots, Ipv6Slots, LrhSlots, TagSlots, UdpSlots};
use super::*;
use check::FixedWord;

/// Bytes of the ICRC.
const ICRC_BYTES: usize = 4;
/// Bytes of the VCRC.
const VCRC_BYTES: usize = 2;
/// Bytes of an IPv4 header without options.
const IPV4_BYTES: usize = 20;

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
    /// There is room for telemetry between UDP and BTH, which the ICRC does not cover.
    telemetry: bool,
    front: Front,
    net: Net,
    /// Offset of the network header.
    net_at: usize,
    /// Offset of the UDP header, or of what follows the network header.
    behind_net: usize,
    /// End of the finished headers: at the telemetry, or the BTH.
    pub(in crate::frames) front_bytes: usize,
    /// Offset of the BTH.
    pub(in crate::frames) bth_at: usize,
    /// Offset of the extended headers.
    pub(in crate::frames) head_bytes: usize,
    /// Number of bytes after body and pad.
    pub(in crate::frames) trailer_bytes: usize,
    /// The values that [`Shape::check_fixed`] checks, and the type in front.
    fixed: Vec<FixedWord>,
    icrc: CrcPlan,
    vcrc: Option<CrcPlan>,
}

/// All shapes: the five encapsulations, then the three on Ethernet with a tag, then RoCEv2 with telemetry.
pub(in crate::frames) fn shapes(layouts: &Layouts) -> Result<Vec<Shape>, LayoutError> {
    let plain = Encap::ALL.into_iter().map(|encap| (encap, false));
    let tagged = Encap::ALL[..3].iter().map(|encap| (*encap, true));
    let plain = plain.chain(tagged).map(|(encap, tagged)| (encap, tagged, false));
    let rocev2 = [Encap::RoceV2Ipv4, Encap::RoceV2Ipv6];
    let telemetry =
        rocev2.into_iter().flat_map(|encap| [false, true].map(|tag| (encap, tag, true)));
    let all = plain.chain(telemetry);
    all.map(|(encap, tagged, telemetry)| Shape::new(layouts, encap, tagged, telemetry)).collect()
}

impl Shape {
    fn new(
        layouts: &Layouts,
        encap: Encap,
        tagged: bool,
        telemetry: bool,
    ) -> Result<Shape, LayoutError> {
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
            return Err(LayoutError::TooLong(encap.name()));
        }
        let vcrc = match encap.is_infiniband() {
            true => Some(trailer(layouts, "vcrc_ib", "vcrc", VCRC_BYTES, &stack)?),
            false => None,
        };
        let room = if telemetry { TELEMETRY_BYTES } else { 0 };
        let front_bytes = stack.offset("bth")?;
        let mut shape = Shape {
            encap,
            tagged,
            telemetry,
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
            behind_net: stack.offset(if net.len() > 1 { "udp" } else { "bth" })?,
            front_bytes,
            bth_at: front_bytes + room,
            head_bytes: stack.bytes() + room,
            trailer_bytes: ICRC_BYTES + if vcrc.is_some() { VCRC_BYTES } else { 0 },
            fixed: Vec::new(),
            icrc: trailer(layouts, crc, "icrc", ICRC_BYTES, &stack)?.around(front_bytes, room),
            vcrc,
        };
        shape.fixed = shape.fixed_words();
        Ok(shape)
    }

    /// True for the shape with this encapsulation, tag and telemetry.
    pub(in crate::frames) fn is(&self, encap: Encap, tagged: bool, telemetry: bool) -> bool {
        self.encap == encap && self.tagged == tagged && self.telemetry == telemetry
    }

    /// The destination port for what follows UDP.
    fn udp_port(&self) -> u16 {
        if self.telemetry { TELEMETRY_UDP_PORT } else { ROCE_UDP_PORT }
    }

    fn fill_udp(&self, udp: &UdpSlots, head: &mut [u8], to: &Address) {
        udp.src_port.write(head, to.udp_src_port.into());
        udp.dst_port.write(head, u64::from(self.udp_port()));
    }

    /// The telemetry that switches wrote into a frame that is long enough; `None` if the shape has none.
    pub(in crate::frames) fn telemetry<'a>(&self, frame: &'a [u8]) -> Option<&'a TelemetryBytes> {
        if !self.telemetry {
            return None;
        }
        frame.get(self.front_bytes..self.bth_at)?.try_into().ok()
    }

    /// True for a frame of this encapsulation whose UDP port announces telemetry.
    pub(in crate::frames) fn has_telemetry(&self, frame: &[u8]) -> bool {
        match &self.net {
            Net::Ipv4(_, udp) | Net::Ipv6(_, udp) => {
                udp.dst_port.read(frame) == u64::from(TELEMETRY_UDP_PORT)
            }
            _ => false,
        }
    }

    /// Writes the fields that are the same in all packets of an address and class.
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
                lrh.lnh.write(head, self.lnh());
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
                self.fill_udp(udp, head, to);
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
                self.fill_udp(udp, head, to);
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

    /// Writes the UDP source port, if there is one.
    pub(in crate::frames) fn set_udp_source(&self, head: &mut [u8], port: u16) {
        if let Net::Ipv4(_, udp) | Net::Ipv6(_, udp) = &self.net {
            udp.src_port.write(head, port.into());
        }
    }

    /// DSCP of a frame with complete headers; `None` for InfiniBand and RoCEv1, which have none that switches write.
    pub(in crate::frames) fn dscp_of(&self, frame: &[u8]) -> Option<u8> {
        match &self.net {
            Net::Ipv4(ip, _) => Some(ip.dscp.read(frame) as u8),
            Net::Ipv6(ip, _) => Some(ip.dscp.read(frame) as u8),
            Net::Grh(_) | Net::None => None,
        }
    }

    fn ether_type(&self) -> u16 {
        match self.net {
            Net::Ipv4(..) => ETHER_TYPE_IPV4,
            Net::Ipv6(..) => ETHER_TYPE_IPV6,
            Net::Grh(_) | Net::None => ETHER_TYPE_ROCEV1,
        }
    }

    fn lnh(&self) -> u64 {
        if self.encap == Encap::IbGlobal { LNH_GLOBAL } else { LNH_LOCAL }
    }

    /// The sum of the IPv4 header in these finished headers, without its length; zero if there is none.
    pub(in crate::frames) fn ip_sum(&self, head: &[u8]) -> u64 {
        let mut sum = Sum::default();
        if let Net::Ipv4(..) = self.net {
            sum.add(&head[self.net_at..self.net_at + IPV4_BYTES]);
        }
        sum.total()
    }

    /// Writes lengths and checksum of a complete frame whose headers have this [`Self::ip_sum`].
    pub(in crate::frames) fn measure(&self, frame: &mut [u8], ip_sum: u64) {
        let end = frame.len() - self.trailer_bytes + ICRC_BYTES;
        if let Front::Infiniband(lrh) = &self.front {
            lrh.pktlen.write(frame, (end / 4) as u64);
        }
        let behind = (end - self.behind_net) as u64;
        match &self.net {
            Net::None => {}
            Net::Ipv4(ip, udp) => {
                let total = (end - self.net_at) as u64;
                ip.total_len.write(frame, total);
                udp.len.write(frame, behind);
                ip.checksum.write(frame, (!fold(ip_sum + total)).into());
            }
            Net::Ipv6(ip, udp) => {
                ip.payload_len.write(frame, behind);
                udp.len.write(frame, behind);
            }
            Net::Grh(grh) => grh.paylen.write(frame, behind),
        }
    }

    /// Writes the CRCs of a frame that is otherwise complete.
    pub(in crate::frames) fn seal(&self, frame: &mut [u8]) {
        let body_end = frame.len() - self.trailer_bytes;
        let end = body_end + ICRC_BYTES;
        let icrc = self.icrc.value(&frame[..body_end]) as u32;
        frame[body_end..end].copy_from_slice(&icrc.to_be_bytes());
        if let Some(vcrc) = &self.vcrc {
            let value = vcrc.value(&frame[..end]) as u16;
            frame[end..].copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// A CRC whose value is the whole header after the frame.
fn trailer(
    layouts: &Layouts,
    crc: &str,
    header: &str,
    bytes: usize,
    stack: &Stack<'_>,
) -> Result<CrcPlan, LayoutError> {
    match layouts.stack(&[header])?.slot(&format!("{header}.value"))?.is_all_of(bytes) {
        true => CrcPlan::new(layouts, crc, stack),
        false => {
            Err(LayoutError::Crc { crc: crc.to_owned(), problem: "its trailer has another length" })
        }
    }
}
