//! Offsets of the headers of a frame: its own, and those of the packet in a tunnel.
//!
//! Ports finish what a sender's kernel left to its network card (checksums, segments). For that they parse no deeper
//! than the kernel: one tunnel, as its devices vxlan, geneve, gre, gretap, ipip, sit, ip6tnl and its SRv6 make them.

use super::sums::ones_complement_sum;
use crate::frames::words::{network_header_at, u16_at};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const SCTP: u8 = 132;
/// IPv4 in IP (RFC 2003), IPv6 in IP (RFC 4213, RFC 2473), GRE (RFC 2784).
const IPV4: u8 = 4;
const IPV6: u8 = 41;
pub(super) const GRE: u8 = 47;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
/// An Ethernet frame in GRE or Geneve.
const ETHER_BRIDGED: u16 = 0x6558;

/// Ports of VXLAN (RFC 7348) and the default of Linux; the port of Geneve (RFC 8926).
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;

/// GRE (RFC 2784, RFC 2890): a checksum, a key, a sequence number. All other bits are 0.
pub(super) const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
pub(super) const GRE_SEQUENCE: u16 = 0x1000;

/// Maximum number of IPv6 extension headers that are skipped.
const EXTENSIONS_MAX: usize = 8;
/// Maximum length of an IPv6 header with its extensions, when they are searched backwards.
const V6_HEADERS_MAX: usize = 512;

/// A network header, and the transport header behind it. Offsets are from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// Offset of the network header.
    pub(super) ip: usize,
    pub(super) is_v6: bool,
    /// Offset of the address of the last destination.
    destination: usize,
    /// Offset of the transport header.
    pub(super) transport: usize,
    /// Protocol of the transport header.
    pub(super) protocol: u8,
}

impl Network {
    /// The headers of a frame, behind up to two VLAN tags; `None` if it is not an IP packet, or is a fragment.
    #[inline(always)]
    pub(super) fn of_frame(frame: &[u8]) -> Option<Network> {
        Network::of_ethernet(frame, 0)
    }

    /// The headers behind the Ethernet header at `at`.
    #[inline(always)]
    fn of_ethernet(frame: &[u8], at: usize) -> Option<Network> {
        let ip = at + network_header_at(frame.get(at..)?)?;
        Network::of_packet(frame, u16_at(frame, ip - 2)?, ip)
    }

    /// The headers of the packet at `ip` with this EtherType.
    #[inline(always)]
    fn of_packet(frame: &[u8], kind: u16, ip: usize) -> Option<Network> {
        match kind {
            ETHER_IPV4 => {
                let fixed = frame.get(ip..)?.first_chunk::<10>()?;
                let header = usize::from(fixed[0] & 0x0f) * 4;
                let is_fragment = [fixed[6] & 0x3f, fixed[7]] != [0, 0];
                if fixed[0] >> 4 != 4 || header < 20 || is_fragment {
                    return None;
                }
                let (transport, protocol) = (ip + header, fixed[9]);
                Some(Network { ip, is_v6: false, destination: ip + 16, transport, protocol })
            }
            ETHER_IPV6 if frame.get(ip)? >> 4 == 6 => Network::of_v6(frame, ip),
            _ => None,
        }
    }

    /// Skips hop-by-hop, routing and destination options (RFC 8200, 4). While a routing header is in use, the
    /// pseudo-header contains the last address of its list.
    fn of_v6(frame: &[u8], ip: usize) -> Option<Network> {
        /// Mobility (RFC 6275, 6.4) and segment routing (RFC 8754): the first address of the list is the last
        /// destination.
        const FIRST_IS_LAST: [u8; 2] = [2, 4];
        let (mut at, mut next) = (ip + 40, *frame.get(ip + 6)?);
        let mut destination = ip + 24;
        for _ in 0..EXTENSIONS_MAX {
            if !matches!(next, 0 | 43 | 60) {
                break;
            }
            let [following, words, kind, left] = *frame.get(at..)?.first_chunk()?;
            if next == 43 && left > 0 {
                if !FIRST_IS_LAST.contains(&kind) {
                    return None;
                }
                destination = at + 8;
            }
            (at, next) = (at + 8 + usize::from(words) * 8, following);
        }
        Some(Network { ip, is_v6: true, destination, transport: at, protocol: next })
    }

    /// The headers of the inner packet, if this one is a tunnel recognised by its protocol or its UDP port.
    pub(super) fn inside(&self, frame: &[u8]) -> Option<Network> {
        let at = self.transport;
        match self.protocol {
            IPV4 => Network::of_packet(frame, ETHER_IPV4, at),
            IPV6 => Network::of_packet(frame, ETHER_IPV6, at),
            GRE => Network::carried(frame, u16_at(frame, at + 2)?, at + gre_header(frame, at)?),
            UDP => match u16_at(frame, at + 2)? {
                port if VXLAN_PORTS.contains(&port) => {
                    // The flag for a valid identifier must be set.
                    let is_vxlan = frame.get(at + 8)? & 0x08 != 0;
                    Network::of_ethernet(frame, at + 16).filter(|_| is_vxlan)
                }
                GENEVE_PORT => {
                    let first = *frame.get(at + 8)?;
                    let behind = at + 16 + usize::from(first & 0x3f) * 4;
                    let kind = u16_at(frame, at + 10)?;
                    Network::carried(frame, kind, behind).filter(|_| first & 0xc0 == 0)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn carried(frame: &[u8], kind: u16, at: usize) -> Option<Network> {
        match kind {
            ETHER_BRIDGED => Network::of_ethernet(frame, at),
            kind => Network::of_packet(frame, kind, at),
        }
    }

    /// The headers of the inner packet in a frame of `len` bytes, whose header of `protocol` is at `transport`
    /// according to the kernel. So it is found in any tunnel: the inner network header ends at `transport`, and its
    /// packet at the end of the frame.
    pub(super) fn inside_at(
        &self,
        frame: &[u8],
        len: usize,
        transport: usize,
        protocol: u8,
    ) -> Option<Network> {
        if !matches!(self.protocol, IPV4 | IPV6 | GRE | UDP) {
            return None;
        }
        let is_it = |found: &Network| found.transport == transport && found.protocol == protocol;
        if let Some(found) = self.inside(frame).filter(is_it) {
            return Some(found);
        }
        let of_v4 = (20..=60).step_by(4).map(|header| (header, ETHER_IPV4));
        let of_v6 = (40..=V6_HEADERS_MAX).step_by(8).map(|headers| (headers, ETHER_IPV6));
        of_v4.chain(of_v6).find_map(|(headers, kind)| {
            let ip = transport.checked_sub(headers).filter(|ip| *ip >= self.transport)?;
            let found = Network::of_packet(frame, kind, ip).filter(is_it)?;
            let is_right = found.is_v6 || ones_complement_sum(frame.get(ip..transport)?) == 0xffff;
            // Packets of more than 64 KiB have no length field (RFC 2675; for IPv4 in Linux only).
            let is_whole = found.end(frame)? == len || len - ip > 0xffff;
            (is_right && is_whole).then_some(found)
        })
    }

    /// The end of the packet, by its own length field.
    #[inline]
    pub(super) fn end(&self, frame: &[u8]) -> Option<usize> {
        match self.is_v6 {
            true => Some(self.ip + 40 + usize::from(u16_at(frame, self.ip + 4)?)),
            false => Some(self.ip + usize::from(u16_at(frame, self.ip + 2)?)),
        }
    }

    /// The sum of the pseudo-header for `bytes` bytes of transport header and payload (RFC 9293, 3.1; RFC 8200, 8.1).
    #[inline]
    pub(super) fn pseudo_sum(&self, frame: &[u8], bytes: usize) -> Option<u16> {
        let addresses = match self.is_v6 {
            true => words::<16>(frame, self.ip + 8)? + words::<16>(frame, self.destination)?,
            // Source and destination are adjacent.
            false => words::<8>(frame, self.ip + 12)?,
        };
        let mut sum = addresses + u64::from(self.protocol) + bytes as u64;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        Some(sum as u16)
    }
}

/// The sum of the 32-bit words in the `N` bytes at `at`.
#[inline]
fn words<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let all = bytes.get(at..)?.first_chunk::<N>()?;
    let (words, _) = all.as_chunks::<4>();
    Some(words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum())
}

/// Bytes of the GRE header at `at`; `None` for unknown flags.
fn gre_header(frame: &[u8], at: usize) -> Option<usize> {
    let flags = u16_at(frame, at)?;
    let known = GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE;
    (flags & !known == 0).then(|| 4 + 4 * flags.count_ones() as usize)
}

#[cfg(test)]
pub(super) mod built;
