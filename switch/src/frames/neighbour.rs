//! Address resolution: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861), as far as an end point needs them.
//!
//! Requests and replies are one value, [`Message`], for both protocols. A cache, and the times of requests, are not
//! here.

use std::net::Ipv4Addr;

use wireyard_pipeline::externs::checksum::Sum;

use super::Mac;
use super::envelope::{
    ETHER_TYPE_IPV6, ETHER_TYPE_VLAN, EthernetSlots, Ipv6Slots, TagSlots, mapped, slots, unmapped,
};
use super::layout::{LayoutError, Layouts, Slot, Wide};

/// Maximum length of a frame built here: tagged Ethernet, IPv6, ICMPv6, neighbour message, one option.
pub const FRAME_BYTES_MAX: usize = 14 + 4 + 40 + 4 + 20 + 8;
/// Minimum length of an Ethernet frame without FCS.
const FRAME_BYTES_MIN: usize = 60;
const ETHER_TYPE_ARP: u16 = 0x0806;
/// ARP hardware type, protocol type, and their address lengths, for IPv4 over Ethernet.
const ARP_KIND: [u64; 4] = [1, 0x0800, 6, 4];
const PROTOCOL_ICMPV6: u64 = 58;
const SOLICITATION: u64 = 135;
const ADVERTISEMENT: u64 = 136;
/// Flags of an advertisement: solicited, override.
const SOLICITED_OVERRIDE: u64 = 0x6000_0000;
const OVERRIDE: u64 = 0x2000_0000;
const OPTION_SOURCE: u64 = 1;
const OPTION_TARGET: u64 = 2;
/// ICMPv6 header, flags and target.
const MESSAGE_BYTES_MIN: usize = 24;
/// `ff02::1`
const ALL_NODES: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0001;
/// `ff02::1:ff00:0`, to which the low 24 bits of the target are added.
const SOLICITED_NODE: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;

/// Request or reply (RFC 826 `ar$op`, RFC 4861 4.3 and 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests the MAC address of `target`.
    Request,
    /// The MAC address of `sender` is `sender_mac`.
    Reply,
}

/// A request for an address, or a reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Request or reply.
    pub kind: Kind,
    /// VLAN of the frame.
    pub vlan: Option<u16>,
    /// The sender; in a reply, the owner of the requested address.
    pub sender_mac: Mac,
    /// Address of the sender; in a reply, the requested address. 0 while a host tests its own IPv6 address.
    pub sender: u128,
    /// Receiver of a reply; zero in a request.
    pub target_mac: Mac,
    /// The requested address; in a reply, that of the requester.
    pub target: u128,
}

impl Message {
    /// A request.
    pub fn ask(sender_mac: Mac, sender: u128, target: u128, vlan: Option<u16>) -> Message {
        let target_mac = Mac::default();
        Message { kind: Kind::Request, vlan, sender_mac, sender, target_mac, target }
    }

    /// The reply to a request: the requested address is at `mac`.
    pub fn answer(&self, mac: Mac) -> Message {
        Message {
            kind: Kind::Reply,
            vlan: self.vlan,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }
}

slots! {
    /// ARP, fixed part.
    ArpSlots { hw_type, proto_type, hw_len, proto_len, op }
    /// ARP for IPv4 over Ethernet.
    ArpIpv4Slots { sender_mac, sender_ip, target_mac, target_ip }
}

#[derive(Debug)]
struct NdSlots {
    kind: Slot,
    code: Slot,
    checksum: Slot,
    flags: Slot,
    target: Wide,
    option: Slot,
    option_len: Slot,
    mac: Slot,
    /// Offset of the ICMPv6 message, and its end with one option.
    at: usize,
    end: usize,
}

/// The two protocols after an Ethernet header, tagged or not.
#[derive(Debug)]
struct Form {
    ethernet: EthernetSlots,
    tag: Option<TagSlots>,
    arp: ArpSlots,
    arp_ipv4: ArpIpv4Slots,
    arp_bytes: usize,
    ipv6: Ipv6Slots,
    nd: NdSlots,
}

/// Builds and parses ARP and neighbour discovery frames.
#[derive(Debug)]
pub struct NeighbourFrames {
    plain: Form,
    tagged: Form,
}

impl NeighbourFrames {
    /// Resolves the fields in the layouts.
    ///
    /// # Errors
    /// The libraries lack a field.
    pub fn new(layouts: &Layouts) -> Result<NeighbourFrames, LayoutError> {
        Ok(NeighbourFrames {
            plain: Form::new(layouts, &["ethernet"])?,
            tagged: Form::new(layouts, &["ethernet", "vlan[0]"])?,
        })
    }

    /// Builds a message into `out` ([`FRAME_BYTES_MAX`] is always enough) and returns its length; `None` if there is no
    /// room or one address is IPv4 and the other IPv6.
    pub fn build(&self, message: &Message, out: &mut [u8]) -> Option<usize> {
        let form = if message.vlan.is_some() { &self.tagged } else { &self.plain };
        match (unmapped(message.sender), unmapped(message.target)) {
            (Some(sender), Some(target)) => form.build_arp(message, sender, target, out),
            (None, None) => form.build_nd(message, out),
            _ => None,
        }
    }

    /// Parses a frame; `None` if it is neither a request nor a reply, or not a valid one.
    pub fn parse(&self, frame: &[u8]) -> Option<Message> {
        let tagged = self.plain.ethernet.ether_type.read(frame) == u64::from(ETHER_TYPE_VLAN);
        let form = if tagged { &self.tagged } else { &self.plain };
        match form.ether_type().read(frame) as u16 {
            ETHER_TYPE_ARP => form.parse_arp(frame),
            ETHER_TYPE_IPV6 => form.parse_nd(frame),
            _ => None,
        }
    }
}

impl Form {
    fn new(layouts: &Layouts, front: &[&str]) -> Result<Form, LayoutError> {
        let arp = layouts.stack(&[front, &["arp", "arp_ipv4"]].concat())?;
        let nd = layouts.stack(&[front, &["ipv6", "icmpv6", "nd", "nd_link_address"]].concat())?;
        let tag = front.contains(&"vlan[0]").then(|| TagSlots::new(&arp, "vlan[0]"));
        Ok(Form {
            ethernet: EthernetSlots::new(&arp, "ethernet")?,
            tag: tag.transpose()?,
            arp: ArpSlots::new(&arp, "arp")?,
            arp_ipv4: ArpIpv4Slots::new(&arp, "arp_ipv4")?,
            arp_bytes: arp.bytes(),
            ipv6: Ipv6Slots::new(&nd, "ipv6")?,
            nd: NdSlots {
                kind: nd.slot("icmpv6.type")?,
                code: nd.slot("icmpv6.code")?,
                checksum: nd.slot("icmpv6.checksum")?,
                flags: nd.slot("nd.flags")?,
                target: nd.wide("nd.target")?,
                option: nd.slot("nd_link_address.type")?,
                option_len: nd.slot("nd_link_address.len")?,
                mac: nd.slot("nd_link_address.mac")?,
                at: nd.offset("icmpv6")?,
                end: nd.bytes(),
            },
        })
    }

    fn ether_type(&self) -> Slot {
        self.tag.map_or(self.ethernet.ether_type, |tag| tag.ether_type)
    }

    fn build_front(&self, message: &Message, dst: Mac, ether_type: u16, out: &mut [u8]) {
        self.ethernet.dst.write(out, dst.into());
        self.ethernet.src.write(out, message.sender_mac.into());
        if let Some(tag) = &self.tag {
            self.ethernet.ether_type.write(out, ETHER_TYPE_VLAN.into());
            tag.vid.write(out, message.vlan.unwrap_or(0).into());
        }
        self.ether_type().write(out, ether_type.into());
    }

    fn build_arp(
        &self,
        message: &Message,
        sender: Ipv4Addr,
        target: Ipv4Addr,
        out: &mut [u8],
    ) -> Option<usize> {
        let bytes = self.arp_bytes.max(FRAME_BYTES_MIN);
        let out = out.get_mut(..bytes)?;
        out.fill(0);
        let (dst, op) = match message.kind {
            Kind::Request => (Mac([0xff; 6]), 1),
            Kind::Reply => (message.target_mac, 2),
        };
        self.build_front(message, dst, ETHER_TYPE_ARP, out);
        for (slot, value) in self.arp_kind().into_iter().zip(ARP_KIND) {
            slot.write(out, value);
        }
        self.arp.op.write(out, op);
        self.arp_ipv4.sender_mac.write(out, message.sender_mac.into());
        self.arp_ipv4.sender_ip.write(out, sender.to_bits().into());
        self.arp_ipv4.target_mac.write(out, message.target_mac.into());
        self.arp_ipv4.target_ip.write(out, target.to_bits().into());
        Some(bytes)
    }

    fn arp_kind(&self) -> [Slot; 4] {
        [self.arp.hw_type, self.arp.proto_type, self.arp.hw_len, self.arp.proto_len]
    }

    fn parse_arp(&self, frame: &[u8]) -> Option<Message> {
        if frame.len() < self.arp_bytes || self.arp_kind().map(|slot| slot.read(frame)) != ARP_KIND
        {
            return None;
        }
        let address = |slot: Slot| mapped(Ipv4Addr::from_bits(slot.read(frame) as u32));
        Some(Message {
            kind: match self.arp.op.read(frame) {
                1 => Kind::Request,
                2 => Kind::Reply,
                _ => return None,
            },
            vlan: self.vlan(frame),
            sender_mac: Mac::from(self.arp_ipv4.sender_mac.read(frame)),
            sender: address(self.arp_ipv4.sender_ip),
            target_mac: Mac::from(self.arp_ipv4.target_mac.read(frame)),
            target: address(self.arp_ipv4.target_ip),
        })
    }

    fn vlan(&self, frame: &[u8]) -> Option<u16> {
        self.tag.map(|tag| tag.vid.read(frame) as u16)
    }

    fn build_nd(&self, message: &Message, out: &mut [u8]) -> Option<usize> {
        let (nd, ip) = (&self.nd, &self.ipv6);
        let out = out.get_mut(..nd.end)?;
        out.fill(0);
        // The reply to a host that tests its own address is sent to all nodes.
        let (dst_mac, dst, kind, flags, asked, option) = match message.kind {
            Kind::Request => {
                let dst = SOLICITED_NODE | message.target & 0xff_ffff;
                (multicast_mac(dst), dst, SOLICITATION, 0, message.target, OPTION_SOURCE)
            }
            Kind::Reply if message.target == 0 => {
                let dst = ALL_NODES;
                (multicast_mac(dst), dst, ADVERTISEMENT, OVERRIDE, message.sender, OPTION_TARGET)
            }
            Kind::Reply => {
                let (mac, dst) = (message.target_mac, message.target);
                (mac, dst, ADVERTISEMENT, SOLICITED_OVERRIDE, message.sender, OPTION_TARGET)
            }
        };
        self.build_front(message, dst_mac, ETHER_TYPE_IPV6, out);
        ip.version.write(out, 6);
        ip.payload_len.write(out, (nd.end - nd.at) as u64);
        ip.next_header.write(out, PROTOCOL_ICMPV6);
        ip.hop_limit.write(out, 255);
        ip.src.write(out, message.sender);
        ip.dst.write(out, dst);
        nd.kind.write(out, kind);
        nd.flags.write(out, flags);
        nd.target.write(out, asked);
        nd.option.write(out, option);
        nd.option_len.write(out, 1);
        nd.mac.write(out, message.sender_mac.into());
        let sum = self.icmp_sum(out, nd.end).checksum();
        nd.checksum.write(out, sum.into());
        Some(nd.end)
    }

    /// The sum over pseudo-header and message (RFC 8200 8.1).
    fn icmp_sum(&self, frame: &[u8], end: usize) -> Sum {
        let mut sum = Sum::default();
        for address in [self.ipv6.src, self.ipv6.dst] {
            sum.add(&address.read(frame).to_be_bytes());
        }
        sum.add(&((end - self.nd.at) as u32).to_be_bytes());
        sum.add(&(PROTOCOL_ICMPV6 as u32).to_be_bytes());
        sum.add(frame.get(self.nd.at..end).unwrap_or_default());
        sum
    }

    fn parse_nd(&self, frame: &[u8]) -> Option<Message> {
        let (nd, ip) = (&self.nd, &self.ipv6);
        let end = nd.at.checked_add(ip.payload_len.read(frame) as usize)?;
        // Hop limit 255: it was not forwarded (RFC 4861 7.1).
        if frame.len() < end
            || end < nd.at + MESSAGE_BYTES_MIN
            || ip.version.read(frame) != 6
            || ip.next_header.read(frame) != PROTOCOL_ICMPV6
            || ip.hop_limit.read(frame) != 255
            || nd.code.read(frame) != 0
            || self.icmp_sum(frame, end).folded() != 0xffff
        {
            return None;
        }
        let has_option = end >= nd.end && nd.option_len.read(frame) == 1;
        let link_address = |kind: u64| {
            let found = has_option && nd.option.read(frame) == kind;
            found.then(|| Mac::from(nd.mac.read(frame)))
        };
        let (asked, src) = (nd.target.read(frame), ip.src.read(frame));
        let from = Mac::from(self.ethernet.src.read(frame));
        let vlan = self.vlan(frame);
        match nd.kind.read(frame) {
            SOLICITATION => {
                let sender_mac = link_address(OPTION_SOURCE).unwrap_or(from);
                Some(Message::ask(sender_mac, src, asked, vlan))
            }
            ADVERTISEMENT => Some(Message {
                kind: Kind::Reply,
                vlan,
                sender_mac: link_address(OPTION_TARGET).unwrap_or(from),
                sender: asked,
                target_mac: Mac::from(self.ethernet.dst.read(frame)),
                target: ip.dst.read(frame),
            }),
            _ => None,
        }
    }
}

/// The MAC address of an IPv6 multicast group (RFC 2464).
fn multicast_mac(group: u128) -> Mac {
    Mac::from(0x3333_0000_0000 | (group as u32 as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> NeighbourFrames {
        NeighbourFrames::new(&Layouts::new().unwrap()).unwrap()
    }

    #[test]
    fn a_question_and_its_answer_in_both_protocols() {
        let frames = frames();
        let ip = |v6: bool, n: u8| match v6 {
            true => 0x2001_0db8_u128 << 96 | u128::from(n),
            false => mapped(Ipv4Addr::new(10, 0, 0, n)),
        };
        proptest!(|(
            v6 in any::<bool>(), a in 1u8.., b in 1u8.., macs in any::<[[u8; 6]; 2]>(),
            vlan in proptest::option::of(0u16..4095),
        )| {
            let mut out = [0xee; FRAME_BYTES_MAX];
            let question = Message::ask(Mac(macs[0]), ip(v6, a), ip(v6, b), vlan);
            let bytes = frames.build(&question, &mut out).unwrap();
            prop_assert_eq!(frames.parse(&out[..bytes]), Some(question));
            let answer = question.answer(Mac(macs[1]));
            let bytes = frames.build(&answer, &mut out).unwrap();
            prop_assert_eq!(frames.parse(&out[..bytes]), Some(answer));
            prop_assert_eq!((answer.sender, answer.sender_mac), (ip(v6, b), Mac(macs[1])));
        });
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let frames = frames();
        let types = prop_oneof![Just(0x0806u16), Just(0x86dd), Just(0x8100), any::<u16>()];
        proptest!(|(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), of in types)| {
            if let Some(to) = bytes.get_mut(12..14) {
                to.copy_from_slice(&of.to_be_bytes());
            }
            let _ = frames.parse(&bytes);
        });
    }

    #[test]
    fn a_changed_byte_of_a_neighbour_message_is_refused() {
        let frames = frames();
        let mut out = [0; FRAME_BYTES_MAX];
        let question = Message::ask(Mac([2; 6]), 1 << 120, 3 << 120, None);
        let bytes = frames.build(&question, &mut out).unwrap();
        for at in 22..bytes {
            out[at] ^= 0x10;
            assert_eq!(frames.parse(&out[..bytes]), None, "byte {at}");
            out[at] ^= 0x10;
        }
    }
}
