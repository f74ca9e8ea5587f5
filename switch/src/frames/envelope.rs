//! The headers in front of a BTH and the trailers behind the payload, in every encapsulation.
//!
//! RoCEv2 over IPv4 and IPv6, RoCEv1, and InfiniBand with and without a GRH; the Ethernet ones with and without a VLAN
//! tag. An [`Envelope`] is the finished headers of one [`Address`] and [`Class`]; a packet copies it and writes
//! lengths, checksum and CRCs. Received frames are checked for the same.
//!
//! Choices: IPv4 has DF set and identification 0 (RFC 6864), UDP has checksum 0, as Linux rxe sends them. A received
//! UDP checksum is ignored: the ICRC covers the same bytes.

mod shape;
mod slots;

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Mac;
pub(super) use shape::{Shape, shapes};
pub(super) use slots::{BthSlots, EthernetSlots, Ipv6Slots, TagSlots, slots};

/// Maximum length of the headers up to and including the BTH: Ethernet, tag, IPv6, UDP, BTH.
pub(super) const HEAD_BYTES_MAX: usize = 80;
/// UDP port of RoCEv2 (IANA).
pub(super) const ROCE_UDP_PORT: u16 = 4791;
/// EtherType of RoCEv1 (IBTA A16).
pub(super) const ETHER_TYPE_ROCEV1: u16 = 0x8915;
/// EtherType of IPv4.
pub(super) const ETHER_TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub(super) const ETHER_TYPE_IPV6: u16 = 0x86dd;
/// EtherType of a VLAN tag (802.1Q).
pub(super) const ETHER_TYPE_VLAN: u16 = 0x8100;
/// IP protocol of UDP.
const PROTOCOL_UDP: u8 = 17;
/// GRH next header: a BTH follows (IBTA 8.3).
const NEXT_HEADER_BTH: u8 = 0x1b;
/// LNH: a BTH follows the LRH (IBTA 7.7.2).
pub(super) const LNH_LOCAL: u64 = 2;
/// LNH: a GRH follows the LRH.
pub(super) const LNH_GLOBAL: u64 = 3;
/// IPv4 flag "do not fragment".
const DO_NOT_FRAGMENT: u64 = 0b010;

/// The encapsulation of a BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encap {
    /// UDP over IPv4 over Ethernet.
    RoceV2Ipv4,
    /// UDP over IPv6 over Ethernet.
    RoceV2Ipv6,
    /// GRH over Ethernet.
    RoceV1,
    /// InfiniBand within a subnet: LRH.
    IbLocal,
    /// InfiniBand with LRH and GRH.
    IbGlobal,
}

impl Encap {
    /// All of them.
    pub const ALL: [Encap; 5] =
        [Encap::RoceV2Ipv4, Encap::RoceV2Ipv6, Encap::RoceV1, Encap::IbLocal, Encap::IbGlobal];

    /// The name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Encap::RoceV2Ipv4 => "rocev2_ipv4",
            Encap::RoceV2Ipv6 => "rocev2_ipv6",
            Encap::RoceV1 => "rocev1",
            Encap::IbLocal => "ib_local",
            Encap::IbGlobal => "ib_global",
        }
    }

    /// True for the two used on an InfiniBand link.
    pub const fn is_infiniband(self) -> bool {
        matches!(self, Encap::IbLocal | Encap::IbGlobal)
    }

    /// Bytes of a packet that are neither payload, pad nor extended header, without Ethernet's FCS.
    pub const fn overhead_bytes(self, tagged: bool) -> u32 {
        let front = match self {
            Encap::RoceV2Ipv4 => 14 + 20 + 8,
            Encap::RoceV2Ipv6 => 14 + 40 + 8,
            Encap::RoceV1 => 14 + 40,
            Encap::IbLocal => 8,
            Encap::IbGlobal => 8 + 40,
        };
        let tag = if tagged && !self.is_infiniband() { 4 } else { 0 };
        let vcrc = if self.is_infiniband() { 2 } else { 0 };
        front + tag + 12 + 4 + vcrc
    }
}

/// Sender and receiver of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The encapsulation.
    pub encap: Encap,
    /// Sender on Ethernet.
    pub src_mac: Mac,
    /// Next hop on Ethernet.
    pub dst_mac: Mac,
    /// VLAN; `None` for untagged.
    pub vlan: Option<u16>,
    /// Sender: IPv6, IPv4-mapped, GID, or LID for [`Encap::IbLocal`].
    pub src: u128,
    /// Receiver, same form.
    pub dst: u128,
    /// LID of the sender, with a GRH on InfiniBand.
    pub slid: u16,
    /// LID of the receiver, with a GRH on InfiniBand.
    pub dlid: u16,
    /// UDP source port, the input of ECMP hashes (by convention 0xc000 to 0xffff).
    pub udp_src_port: u16,
    /// IPv6 or GRH flow label, 20 bits.
    pub flow_label: u32,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// An IPv4 address in the form of [`Address::src`].
pub fn mapped(address: Ipv4Addr) -> u128 {
    address.to_ipv6_mapped().to_bits()
}

/// The IPv4 address in an IPv4-mapped one; `None` for any other.
pub fn unmapped(address: u128) -> Option<Ipv4Addr> {
    Ipv6Addr::from_bits(address).to_ipv4_mapped()
}

/// The UDP source port of a connection (Linux `rdma_flow_label_to_udp_sport` of the flow label that
/// `rdma_calc_flow_label` computes from the two queue pair numbers).
pub fn udp_src_port(local_qp: u32, remote_qp: u32) -> u16 {
    let mut v = u64::from(local_qp).wrapping_mul(u64::from(remote_qp));
    v ^= v >> 20;
    v ^= v >> 40;
    let label = (v & 0xf_ffff) as u32;
    ((label & 0x3fff) ^ (label & 0xf_c000) >> 14) as u16 | 0xc000
}

impl Address {
    /// RoCEv2 between two IP addresses of one family, with default values otherwise: untagged, hop limit 64.
    ///
    /// # Errors
    /// One is IPv4 and the other IPv6.
    pub fn rocev2(
        src_mac: Mac,
        dst_mac: Mac,
        src: u128,
        dst: u128,
    ) -> Result<Address, AddressError> {
        let encap = match (unmapped(src), unmapped(dst)) {
            (Some(_), Some(_)) => Encap::RoceV2Ipv4,
            (None, None) => Encap::RoceV2Ipv6,
            _ => return Err(AddressError::Family),
        };
        Ok(Address::new(encap, src_mac, dst_mac, src, dst))
    }

    /// An address with default values for everything else.
    pub fn new(encap: Encap, src_mac: Mac, dst_mac: Mac, src: u128, dst: u128) -> Address {
        Address {
            encap,
            src_mac,
            dst_mac,
            vlan: None,
            src,
            dst,
            slid: if encap == Encap::IbLocal { src as u16 } else { 0 },
            dlid: if encap == Encap::IbLocal { dst as u16 } else { 0 },
            udp_src_port: 0xc000,
            flow_label: 0,
            hop_limit: 64,
        }
    }

    /// The return address: sender and receiver exchanged.
    pub fn reversed(&self) -> Address {
        Address {
            src_mac: self.dst_mac,
            dst_mac: self.src_mac,
            src: self.dst,
            dst: self.src,
            slid: self.dlid,
            dlid: self.slid,
            ..*self
        }
    }

    pub(super) fn check(&self, class: &Class) -> Result<(), AddressError> {
        let four = [self.src, self.dst].map(|address| unmapped(address).is_some());
        if self.encap == Encap::RoceV2Ipv4 && four != [true, true] {
            return Err(AddressError::Family);
        }
        if self.encap == Encap::IbLocal && (self.src | self.dst) > 0xffff {
            return Err(AddressError::Lid);
        }
        if self.vlan.is_some_and(|vlan| vlan > 4094) {
            return Err(AddressError::Vlan);
        }
        if self.flow_label > 0xf_ffff {
            return Err(AddressError::FlowLabel);
        }
        if class.dscp > 63
            || class.ecn > 3
            || class.vl > 15
            || class.pcp > 15
            || class.pcp > 7 && !self.encap.is_infiniband()
        {
            return Err(AddressError::Class);
        }
        Ok(())
    }
}

/// The treatment of a packet by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// DSCP of the IP header or upper bits of the GRH's traffic class.
    pub dscp: u8,
    /// ECN of the IP header, low bits of the GRH's traffic class: 0 not capable, 2 ECT(0).
    pub ecn: u8,
    /// PCP of the VLAN tag, or SL of the LRH.
    pub pcp: u8,
    /// VL of the LRH; not used on Ethernet.
    pub vl: u8,
}

impl Class {
    /// RoCE data: DSCP 26 (priority 3), ECT(0).
    pub const DATA: Class = Class { dscp: 26, ecn: 2, pcp: 3, vl: 3 };
    /// CNPs as ConnectX sends them: DSCP 48 (priority 6), ECT(0).
    pub const CNP: Class = Class { dscp: 48, ecn: 2, pcp: 6, vl: 6 };
}

/// Why an address or class cannot be written into headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Addresses of two families, or IPv4 headers without two IPv4-mapped addresses.
    #[error("both addresses must be IPv4, or both IPv6")]
    Family,
    /// A LID has 16 bits.
    #[error("a LID has 16 bits")]
    Lid,
    /// A VLAN number is at most 4094.
    #[error("a VLAN number is at most 4094")]
    Vlan,
    /// A flow label has 20 bits.
    #[error("a flow label has 20 bits")]
    FlowLabel,
    /// DSCP at most 63, ECN at most 3, PCP at most 7 (SL and VL at most 15).
    #[error("DSCP is at most 63, ECN 3, PCP 7, SL and VL 15")]
    Class,
    /// Only RoCEv2 can have telemetry.
    #[error("telemetry is only in RoCEv2 over IPv4 or IPv6")]
    Telemetry,
}

/// The finished headers of one address and class, up to and with a BTH of zeros.
#[derive(Clone, Debug)]
pub struct Envelope {
    pub(super) shape: u8,
    pub(super) head: [u8; HEAD_BYTES_MAX],
    /// The sum of the IPv4 header, without its length.
    pub(super) ip_sum: u64,
    pub(super) encap: Encap,
}

impl Envelope {
    /// The encapsulation.
    pub fn encap(&self) -> Encap {
        self.encap
    }
}

/// Why a received frame is not a transport packet for this device. The names are for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not RoCE or InfiniBand transport at all.
    NotTransport,
    /// It ends inside its headers.
    TooShort,
    /// The IP version or header length is wrong, or there are IP options or fragments.
    BadIp,
    /// The IP length is more than the frame has, or less than a RoCE packet.
    BadIpLength,
    /// The IPv4 header checksum is wrong.
    BadIpChecksum,
    /// The UDP length does not match the IP length.
    BadUdpLength,
    /// GRH version or next header is wrong.
    BadGrh,
    /// The GRH's length does not match the frame.
    BadGrhLength,
    /// LRH version is wrong.
    BadLrh,
    /// The LRH's length does not match the frame.
    BadPktLen,
    /// The BTH's transport version is not 0.
    BadVersion,
    /// The pad count is larger than the body.
    BadPadCount,
    /// An unsupported opcode.
    UnknownOpcode,
    /// The ICRC is wrong.
    BadIcrc,
    /// The VCRC is wrong.
    BadVcrc,
}

impl Refused {
    /// All of them, in the order of the enum.
    pub const ALL: [Refused; 15] = [
        Refused::NotTransport,
        Refused::TooShort,
        Refused::BadIp,
        Refused::BadIpLength,
        Refused::BadIpChecksum,
        Refused::BadUdpLength,
        Refused::BadGrh,
        Refused::BadGrhLength,
        Refused::BadLrh,
        Refused::BadPktLen,
        Refused::BadVersion,
        Refused::BadPadCount,
        Refused::UnknownOpcode,
        Refused::BadIcrc,
        Refused::BadVcrc,
    ];

    /// The name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Refused::NotTransport => "not_transport",
            Refused::TooShort => "too_short",
            Refused::BadIp => "bad_ip",
            Refused::BadIpLength => "bad_ip_length",
            Refused::BadIpChecksum => "bad_ip_checksum",
            Refused::BadUdpLength => "bad_udp_length",
            Refused::BadGrh => "bad_grh",
            Refused::BadGrhLength => "bad_grh_length",
            Refused::BadLrh => "bad_lrh",
            Refused::BadPktLen => "bad_pktlen",
            Refused::BadVersion => "bad_version",
            Refused::BadPadCount => "bad_pad_count",
            Refused::UnknownOpcode => "unknown_opcode",
            Refused::BadIcrc => "bad_icrc",
            Refused::BadVcrc => "bad_vcrc",
        }
    }
}
