//! Frames built header by header, for tests: as sent by a sender without offloads. No code is shared with the code
//! under test.

use proptest::prelude::*;

/// A frame of TCP or UDP, in a tunnel or not.
#[derive(Clone, Debug)]
pub(in crate::ports) struct Shape {
    pub(in crate::ports) tags: usize,
    pub(in crate::ports) tunnel: Option<Tunnel>,
    pub(in crate::ports) is_v6: bool,
    /// The IPv6 extension: 0 for none, 1 for destination options, 2 for a segment routing header in use.
    pub(in crate::ports) extension: u8,
    pub(in crate::ports) is_udp: bool,
    pub(in crate::ports) options: usize,
    pub(in crate::ports) flags: u8,
    pub(in crate::ports) id: u16,
    pub(in crate::ports) sequence: u32,
}

#[derive(Clone, Debug)]
pub(in crate::ports) struct Tunnel {
    pub(in crate::ports) kind: Kind,
    pub(in crate::ports) is_v6: bool,
    /// With a checksum, if the kind has one.
    pub(in crate::ports) is_summed: bool,
    pub(in crate::ports) id: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ports) enum Kind {
    /// UDP port, and number of VLAN tags inside.
    Vxlan(u16, usize),
    /// Number of words of options, and whether there is an Ethernet header inside.
    Geneve(usize, bool),
    /// Whether there is a key, and whether there is an Ethernet header inside.
    Gre(bool, bool),
    Ip,
}

/// The checksum, by 16-bit words.
pub(in crate::ports) fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn be(value: usize) -> [u8; 2] {
    (value as u16).to_be_bytes()
}

/// The value in a checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ports) enum Checksum {
    Right,
    /// The sum of the pseudo-header.
    Open,
    None,
}

/// An IP packet around `bytes`, whose checksum field is at `checksum`.
fn packet(
    (is_v6, extension, id, seed): (bool, u8, u16, u8),
    protocol: u8,
    mut bytes: Vec<u8>,
    checksum: Option<(usize, Checksum)>,
) -> Vec<u8> {
    let width = if is_v6 { 16 } else { 4 };
    let source: Vec<u8> = (0..width).map(|i| seed ^ (i * 5)).collect();
    let destination: Vec<u8> = (0..width).map(|i| seed ^ 0x80 ^ (i * 7)).collect();
    let next: Vec<u8> = (0..width).map(|i| seed ^ 0x40 ^ (i * 3)).collect();
    if let Some((at, checksum)) = checksum {
        bytes[at..at + 2].fill(0);
        let pseudo = [&source[..], &destination, &be(bytes.len()), &[0, protocol]].concat();
        let value = match checksum {
            Checksum::Right => match !sum(&[&pseudo, &bytes]) {
                0 if protocol == 17 => 0xffff,
                value => value,
            },
            Checksum::Open => sum(&[&pseudo]),
            Checksum::None => 0,
        };
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    if !is_v6 {
        let mut header = vec![0x45, 3];
        header.extend(be(20 + bytes.len()));
        header.extend(id.to_be_bytes());
        header.extend([0x40, 0, 63, protocol, 0, 0]);
        header.extend(source.iter().chain(&destination));
        let right = !sum(&[&header]);
        header[10..12].copy_from_slice(&right.to_be_bytes());
        return [header, bytes].concat();
    }
    let behind = match extension {
        0 => Vec::new(),
        1 => vec![protocol, 0, 1, 4, 0, 0, 0, 0],
        _ => [&[protocol, 4, 4, 1, 1, 0, 0, 0], &destination[..], &next].concat(),
    };
    let first = [protocol, 60, 43][usize::from(extension)];
    let to = if extension == 2 { next } else { destination };
    let length = be(behind.len() + bytes.len());
    [&[0x60, 1, 2, 3], &length[..], &[first, 64], &source, &to, &behind, &bytes].concat()
}

fn ethernet(tags: usize, is_v6: bool, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    (0..tags).for_each(|_| frame.extend([0x81, 0, 0x60, 9]));
    frame.extend(be(if is_v6 { 0x86dd } else { 0x0800 }));
    frame.extend(packet);
    frame
}

impl Shape {
    /// Segment `n` with this payload, whose first byte is at offset `at` of the stream. `checksum` is that of the
    /// innermost transport header, `around` that of a tunnel with one.
    pub(in crate::ports) fn frame(
        &self,
        payload: &[u8],
        (n, at, flags): (u16, u32, u8),
        checksum: Checksum,
        around: Checksum,
    ) -> Vec<u8> {
        let mut bytes = vec![0x13, 0x89, 0x13, 0x8a];
        if self.is_udp {
            bytes.extend(be(8 + payload.len()));
            bytes.extend([0; 2]);
        } else {
            bytes.extend(self.sequence.wrapping_add(at).to_be_bytes());
            bytes.extend([1, 2, 3, 4, (5 + self.options as u8) << 4, flags, 0x20, 0, 0, 0, 0, 0]);
            bytes.extend(std::iter::repeat_n(1, self.options * 4));
        }
        bytes.extend(payload);
        let (protocol, field) = if self.is_udp { (17, 6) } else { (6, 16) };
        let headers = (self.is_v6, self.extension, self.id.wrapping_add(n), 0x1d);
        let inner = packet(headers, protocol, bytes, Some((field, checksum)));
        match &self.tunnel {
            None => ethernet(self.tags, self.is_v6, &inner),
            Some(tunnel) => {
                ethernet(self.tags, tunnel.is_v6, &tunnel.around(self.is_v6, &inner, n, around))
            }
        }
    }

    /// Offset of the innermost transport header.
    pub(in crate::ports) fn transport(&self) -> usize {
        let frame = self.frame(&[], (0, 0, 0), Checksum::None, Checksum::None);
        frame.len() - self.header()
    }

    /// Length of that header.
    pub(in crate::ports) fn header(&self) -> usize {
        if self.is_udp { 8 } else { 20 + 4 * self.options }
    }
}

impl Tunnel {
    fn around(&self, carries_v6: bool, inner: &[u8], n: u16, around: Checksum) -> Vec<u8> {
        let bridged = |tags| ethernet(tags, carries_v6, inner);
        let ether_type = |is_bridged| match (is_bridged, carries_v6) {
            (true, _) => [0x65, 0x58],
            (_, true) => [0x86, 0xdd],
            (_, false) => [0x08, 0x00],
        };
        let content = |is_bridged| if is_bridged { bridged(0) } else { inner.to_vec() };
        let headers = (self.is_v6, u8::from(self.is_v6), self.id.wrapping_add(n), 0xc3);
        let (to, body) = match self.kind {
            Kind::Vxlan(port, tags) => {
                (port, [&[8, 0, 0, 0, 0, 0, 9, 0][..], &bridged(tags)].concat())
            }
            Kind::Geneve(words, is_bridged) => {
                let kind = ether_type(is_bridged);
                let header = [words as u8, 0, kind[0], kind[1], 0, 0, 9, 0];
                (6081, [&header[..], &vec![7; 4 * words], &content(is_bridged)].concat())
            }
            Kind::Gre(has_key, is_bridged) => {
                let flags = u8::from(self.is_summed) << 7 | u8::from(has_key) << 5;
                let mut header = vec![flags, 0];
                header.extend(ether_type(is_bridged));
                header.extend(std::iter::repeat_n(0, 4 * usize::from(self.is_summed)));
                header.extend(std::iter::repeat_n(5, 4 * usize::from(has_key)));
                let mut bytes = [header, content(is_bridged)].concat();
                if self.is_summed && around == Checksum::Right {
                    let value = !sum(&[&bytes]);
                    bytes[4..6].copy_from_slice(&value.to_be_bytes());
                }
                return packet(headers, 47, bytes, None);
            }
            Kind::Ip => {
                return packet(headers, if carries_v6 { 41 } else { 4 }, inner.to_vec(), None);
            }
        };
        let header = [&[0xc0, 1], &be(usize::from(to))[..], &be(8 + body.len()), &[0, 0]].concat();
        let checksum = if self.is_summed { around } else { Checksum::None };
        packet(headers, 17, [header, body].concat(), Some((6, checksum)))
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (prop::sample::select(vec![4789, 8472, 1234]), 0usize..3)
            .prop_map(|(port, tags)| Kind::Vxlan(port, tags)),
        (0usize..20, any::<bool>()).prop_map(|(words, eth)| Kind::Geneve(words, eth)),
        (any::<bool>(), any::<bool>()).prop_map(|(key, eth)| Kind::Gre(key, eth)),
        Just(Kind::Ip),
    ]
}

pub(in crate::ports) fn shapes() -> impl Strategy<Value = Shape> {
    let tunnel = (kinds(), any::<bool>(), any::<bool>(), any::<u16>())
        .prop_map(|(kind, is_v6, is_summed, id)| Tunnel { kind, is_v6, is_summed, id });
    let headers = (0usize..3, prop::option::of(tunnel), any::<bool>(), 0u8..3, any::<bool>());
    (headers, 0usize..11, any::<u8>(), any::<u16>(), any::<u32>()).prop_map(
        |((tags, tunnel, is_v6, extension, is_udp), options, flags, id, sequence)| Shape {
            tags,
            tunnel,
            is_v6,
            extension,
            is_udp,
            options,
            flags,
            id,
            sequence,
        },
    )
}
