//! The tunnel end point of the library, with its own entries and hosts that it has learned, and its rival.

use crate::hand::{
    Count, Decided, Hand, HandPacket, WordMap, be16, be32, checksum, count, decide, follow,
};
use crate::rig::{Input, PACKETS, apply_entries, insert, library};
use crate::router::mix;
use wireyard_pipeline::state::State;
use wireyard_tables::{ActionCall, Entry, Match, Target, Update};

const VNI: u32 = 5000;
const HOSTS: u64 = 1024;
/// Ethernet, IPv4, UDP, VXLAN.
const OUTER: usize = 14 + 20 + 8 + 8;
const US: u32 = 0xc000_0201;

fn mac(host: u64) -> u64 {
    0x0200_0000_0000 | (host * 3)
}

/// Port and tunnel of a host: half are here, on two ports, half behind two end points.
fn place(host: u64) -> (u16, u16) {
    match host % 4 {
        0 => (1, 0),
        1 => (2, 0),
        2 => (3, 1),
        _ => (3, 2),
    }
}

pub(crate) fn fill(state: &State) {
    apply_entries(&library().join("vxlan_gateway/entries.yaml"), state);
    let fdb = state.tables().find_table("fdb").expect("a table");
    let host = |host: u64| {
        let (port, tunnel) = place(host);
        let call = match tunnel {
            0 => ActionCall { action: 0, data: vec![port.into()] },
            _ => ActionCall { action: 1, data: vec![port.into(), tunnel.into()] },
        };
        let matches = vec![Match::Exact(VNI.into()), Match::Exact(mac(host).into())];
        Update::Insert(
            fdb,
            Entry {
                matches,
                priority: 0,
                target: Target::Action(call),
                idle_timeout: None,
                meter: None,
            },
        )
    };
    insert(state, &(0..HOSTS).map(host).collect::<Vec<Update>>());
}

fn ip(len: usize, tos: u8, src: u32, dst: u32) -> Vec<u8> {
    let mut ip = vec![0x45, tos, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0];
    ip.extend(src.to_be_bytes());
    ip.extend(dst.to_be_bytes());
    ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// Half come from the access side and are encapsulated, half the other way.
pub(crate) fn inputs() -> Vec<Input> {
    let input = |n: usize| {
        let r = mix(n as u64 + 5);
        let encap = n.is_multiple_of(2);
        let local = (r % (HOSTS / 4)) * 4 + (n % 4 / 2) as u64;
        let remote = (r >> 20) % (HOSTS / 4) * 4 + 2 + (r >> 40) % 2;
        let (from, to) = if encap { (local, remote) } else { (remote, local) };
        let len = 64 + n * 613 % 1025;
        let inner_len = if encap { len } else { len.max(64 + OUTER) - OUTER };
        let mut inner = mac(to).to_be_bytes()[2..].to_vec();
        inner.extend(&mac(from).to_be_bytes()[2..]);
        let (in_port, tunnel) = place(from);
        if encap && in_port == 2 {
            inner.extend([0x81, 0, 0, 100]);
        }
        inner.extend([8, 0]);
        let start = inner.len();
        let tos = if n.is_multiple_of(3) { 2 } else { 0x28 };
        inner.extend(ip(
            inner_len - start,
            tos,
            0x0a00_0000 | r as u32 >> 8,
            0x0a63_0000 | n as u32,
        ));
        inner.extend([0xc0, n as u8, 0x12, 0xb7, 0, 0, 0, 0]);
        inner.resize(inner_len, n as u8);
        let mark = n.is_multiple_of(5);
        if encap {
            return Input { bytes: inner, port: in_port, mark };
        }
        let mut bytes = vec![2, 0, 0, 0, 3, 1, 2, 0, 0, 0, 3, 2, 8, 0];
        let outer_tos = if tos == 2 { 2 + u8::from(n % 4 == 3) } else { 0 };
        bytes.extend(ip(inner_len + 36, outer_tos, 0xc000_0201 + u32::from(tunnel), US));
        bytes.extend([0xc1, n as u8, 0x12, 0xb5]);
        bytes.extend(((inner_len + 16) as u16).to_be_bytes());
        bytes.extend([0, 0, 8, 0, 0, 0, 0, 0x13, 0x88, 0]);
        bytes.extend(inner);
        Input { bytes, port: 3, mark }
    };
    (0..PACKETS).map(input).collect()
}

/// The rival. IPv6, options and flooding are for slower functions.
pub(crate) struct Gateway {
    /// Ports on the side of the IP network.
    underlay: Vec<bool>,
    /// Port and VLAN to VNI.
    access_in: WordMap<1>,
    /// Port and VNI to VLAN, 0 for none.
    access_out: WordMap<1>,
    our_addresses: WordMap<1>,
    vnis: WordMap<1>,
    /// Address and VNI to tunnel.
    remote: WordMap<1>,
    /// VNI and address to port, tunnel and number.
    fdb: WordMap<2>,
    last_hits: Vec<u64>,
    tunnels: Vec<Tunnel>,
    counts: Vec<Count>,
    drops: Vec<Count>,
}

/// Reasons to drop or punt, in the order of [`Gateway::drops`].
const REASONS: [&str; 14] = [
    "runt",
    "no_vni",
    "not_our_vtep",
    "no_vni_flag",
    "unknown_vni",
    "unknown_vtep",
    "bad_source",
    "same_side",
    "ce_on_not_ect",
    "no_tunnel",
    "port_not_in_vni",
    "underlay",
    "slow",
    "checksum",
];
const RUNT: u8 = 0;
const NO_VNI: u8 = 1;
const NOT_OURS: u8 = 2;
const NO_VNI_FLAG: u8 = 3;
const UNKNOWN_VNI: u8 = 4;
const UNKNOWN_VTEP: u8 = 5;
const BAD_SOURCE: u8 = 6;
const SAME_SIDE: u8 = 7;
const CE_ON_NOT_ECT: u8 = 8;
const NO_TUNNEL: u8 = 9;
const PORT_NOT_IN_VNI: u8 = 10;
const UNDERLAY: u8 = 11;
/// What is left to a slower function: what was never learned, IPv6, options.
const SLOW: u8 = 12;
const CHECKSUM: u8 = 13;

#[derive(Clone, Copy)]
struct Tunnel {
    src: u32,
    dst: u32,
    macs: [u8; 12],
}

impl Gateway {
    pub(crate) fn new() -> Gateway {
        let host = |host: u64| {
            let (port, tunnel) = place(host);
            let value = host << 32 | u64::from(tunnel) << 16 | u64::from(port);
            ([VNI.into(), mac(host)], value)
        };
        let tunnel = |n: u8| Tunnel {
            src: US,
            dst: US + u32::from(n),
            macs: [2, 0, 0, 0, 3, n + 1, 2, 0, 0, 0, 3, 1],
        };
        let vni = u64::from(VNI);
        let remote = |n: u32| ([u64::from(US + n) << 24 | vni], n.into());
        Gateway {
            underlay: (0..256).map(|port| port == 3).collect(),
            access_in: WordMap::new(&[([1 << 12], vni), ([2 << 12 | 100], vni)]),
            access_out: WordMap::new(&[([1 << 24 | vni], 0), ([2 << 24 | vni], 100)]),
            our_addresses: WordMap::new(&[([US.into()], 0)]),
            vnis: WordMap::new(&[([vni], 1)]),
            remote: WordMap::new(&[remote(1), remote(2)]),
            fdb: WordMap::new(&(0..HOSTS).map(host).collect::<Vec<_>>()),
            last_hits: vec![0; HOSTS as usize],
            tunnels: vec![tunnel(0), tunnel(1), tunnel(2)],
            counts: vec![[0; 2]; 4096],
            drops: vec![[0; 2]; REASONS.len()],
        }
    }

    /// Who sends is known, and stays known.
    #[inline(always)]
    fn refresh(&mut self, vni: u64, src: u64, place: u64, now_ns: u64) -> Result<(), u8> {
        match self.fdb.get([vni, src]) {
            Some(known) if known & 0xffff_ffff == place => {
                self.last_hits[(known >> 32) as usize] = now_ns;
                Ok(())
            }
            _ => Err(SLOW),
        }
    }

    #[inline(always)]
    fn find(&mut self, vni: u64, dst: u64, now_ns: u64) -> Result<(u16, u16), u8> {
        let found = self.fdb.get([vni, dst]).ok_or(SLOW)?;
        self.last_hits[(found >> 32) as usize] = now_ns;
        Ok((found as u16, (found >> 16) as u16))
    }

    #[inline(always)]
    fn forward(&mut self, memory: &mut [u8], packet: &mut HandPacket) -> Decided {
        match self.underlay.get(usize::from(packet.in_port)) {
            Some(true) => self.decapsulate(memory, packet),
            _ => self.encapsulate(memory, packet),
        }
    }

    #[inline(always)]
    fn encapsulate(&mut self, memory: &mut [u8], packet: &mut HandPacket) -> Decided {
        let (at, mut len, now_ns) = (packet.at as usize, packet.len as usize, packet.now_ns);
        let room = memory.get_mut(at.checked_sub(OUTER).ok_or(SLOW)?..at + len).ok_or(SLOW)?;
        let frame = &room[OUTER..];
        let (dst, src) = addresses(frame).ok_or(RUNT)?;
        let mut ether_type = be16(frame, 12);
        let (mut vid, mut start) = (0, 14);
        let tagged = ether_type == 0x8100;
        if tagged {
            let tag = frame.get(14..18).ok_or(RUNT)?;
            (vid, ether_type, start) = (be16(tag, 0) & 0xfff, be16(tag, 2), 18);
        }
        if ether_type != 0x0800 || frame.len() < start + 24 {
            return Err(SLOW);
        }
        if frame[start] != 0x45 || be16(frame, start + 6) & 0x3fff != 0 || frame[start + 9] != 17 {
            return Err(SLOW);
        }
        if src >> 40 & 1 == 1 {
            return Err(BAD_SOURCE);
        }
        let access = u64::from(packet.in_port) << 12 | u64::from(vid);
        let vni = self.access_in.get([access]).ok_or(NO_VNI)?;
        self.refresh(vni, src, packet.in_port.into(), now_ns)?;
        if dst >> 40 & 1 == 1 {
            return Err(SLOW);
        }
        let (out_port, tunnel) = self.find(vni, dst, now_ns)?;
        if out_port == packet.in_port {
            return Err(SAME_SIDE);
        }
        if tunnel == 0 {
            return Err(SLOW);
        }
        let entropy = entropy(frame, start);
        let tos = frame[start + 1];
        packet.ect = tos & 3 != 0;
        let to = *self.tunnels.get(usize::from(tunnel)).ok_or(NO_TUNNEL)?;
        count(&mut self.counts[usize::from(tunnel) - 1], packet.len);
        // The tag gives way to the addresses in front of it.
        let skip = if tagged { 4 } else { 0 };
        if tagged {
            room.copy_within(OUTER..OUTER + 12, OUTER + 4);
            len -= 4;
        }
        let outer = room.get_mut(skip..).and_then(|room| room.first_chunk_mut::<OUTER>());
        let outer = outer.ok_or(SLOW)?;
        outer[..12].copy_from_slice(&to.macs);
        outer[12..14].copy_from_slice(&[8, 0]);
        let tos = if packet.mark { tos | 3 } else { tos };
        let mut ip = [0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ip[2..4].copy_from_slice(&((len + 36) as u16).to_be_bytes());
        ip[12..16].copy_from_slice(&to.src.to_be_bytes());
        ip[16..20].copy_from_slice(&to.dst.to_be_bytes());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        outer[14..34].copy_from_slice(&ip);
        outer[34..36].copy_from_slice(&(0xc000 | entropy as u16).to_be_bytes());
        outer[36..38].copy_from_slice(&[0x12, 0xb5]);
        outer[38..40].copy_from_slice(&((len + 16) as u16).to_be_bytes());
        outer[40..46].copy_from_slice(&[0, 0, 8, 0, 0, 0]);
        outer[46..50].copy_from_slice(&((vni as u32) << 8).to_be_bytes());
        packet.at = (at - OUTER + skip) as u32;
        packet.len = (len + OUTER) as u32;
        Ok(out_port)
    }

    #[inline(always)]
    fn decapsulate(&mut self, memory: &mut [u8], packet: &mut HandPacket) -> Decided {
        let (at, len, now_ns) = (packet.at as usize, packet.len as usize, packet.now_ns);
        let all = memory.get_mut(at..at + len).ok_or(RUNT)?;
        let (outer, frame) = all.split_first_chunk_mut::<OUTER>().ok_or(UNDERLAY)?;
        if be16(outer, 12) != 0x0800 || outer[14] != 0x45 || outer[23] != 17 {
            return Err(UNDERLAY);
        }
        if be16(outer, 20) & 0x3fff != 0 || be16(outer, 36) != 4789 {
            return Err(UNDERLAY);
        }
        if checksum(&outer[14..34]) != 0 {
            return Err(CHECKSUM);
        }
        let (dst, src) = addresses(frame).ok_or(RUNT)?;
        if frame.len() < 38 || be16(frame, 12) != 0x0800 {
            return Err(SLOW);
        }
        if frame[14] != 0x45 || be16(frame, 20) & 0x3fff != 0 || frame[23] != 17 {
            return Err(SLOW);
        }
        if src >> 40 & 1 == 1 {
            return Err(BAD_SOURCE);
        }
        self.our_addresses.get([be32(outer, 30).into()]).ok_or(NOT_OURS)?;
        if outer[42] & 8 == 0 {
            return Err(NO_VNI_FLAG);
        }
        let vni = u64::from(be32(outer, 46) >> 8);
        self.vnis.get([vni]).ok_or(UNKNOWN_VNI)?;
        let from = u64::from(be32(outer, 26)) << 24 | vni;
        let tunnel = self.remote.get([from]).ok_or(UNKNOWN_VTEP)?;
        self.refresh(vni, src, tunnel << 16 | u64::from(packet.in_port), now_ns)?;
        let (mut ecn, old_ecn) = (frame[15] & 3, frame[15] & 3);
        match outer[15] & 3 {
            3 if ecn == 0 => return Err(CE_ON_NOT_ECT),
            3 => ecn = 3,
            1 if ecn == 2 => ecn = 1,
            _ => {}
        }
        if dst >> 40 & 1 == 1 {
            return Err(SLOW);
        }
        let (out_port, to) = self.find(vni, dst, now_ns)?;
        if to != 0 || out_port == packet.in_port {
            return Err(SAME_SIDE);
        }
        std::hint::black_box(entropy(frame, 14));
        packet.ect = ecn != 0;
        let vid = self.access_out.get([u64::from(out_port) << 24 | vni]).ok_or(PORT_NOT_IN_VNI)?;
        if packet.mark {
            ecn = 3;
        }
        if ecn != old_ecn {
            let old = be16(frame, 14);
            let new = old & !3 | u16::from(ecn);
            let sum = follow(be16(frame, 24), old, new);
            frame[14..16].copy_from_slice(&new.to_be_bytes());
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let mut gone = OUTER;
        if vid != 0 {
            // A tag: the addresses make room.
            all.copy_within(OUTER..OUTER + 12, OUTER - 4);
            all[OUTER + 8..OUTER + 10].copy_from_slice(&[0x81, 0]);
            all[OUTER + 10..OUTER + 12].copy_from_slice(&(vid as u16).to_be_bytes());
            gone -= 4;
        }
        packet.at = (at + gone) as u32;
        packet.len = (len - gone) as u32;
        Ok(out_port)
    }
}

#[inline(always)]
fn addresses(frame: &[u8]) -> Option<(u64, u64)> {
    let first = u64::from_be_bytes(*frame.first_chunk::<8>()?);
    let second = u64::from_be_bytes(*frame.get(6..)?.first_chunk::<8>()?);
    Some((first >> 16, second >> 16))
}

/// The program's hash: addresses of the frame, of IPv4, of no IPv6, and ports.
#[inline(always)]
fn entropy(frame: &[u8], start: usize) -> u32 {
    let mut bytes = [0; 56];
    bytes[..6].copy_from_slice(&frame[6..12]);
    bytes[6..12].copy_from_slice(&frame[..6]);
    bytes[12..20].copy_from_slice(&frame[start + 12..start + 20]);
    bytes[52..56].copy_from_slice(&frame[start + 20..start + 24]);
    crc32fast::hash(&bytes)
}

impl Hand for Gateway {
    fn burst(&mut self, memory: &mut [u8], packets: &mut [HandPacket]) {
        for packet in packets {
            let len = packet.len;
            let decided = self.forward(memory, packet);
            decide(packet, len, decided, &mut self.drops);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Count>)> {
        vec![("tunnels", self.counts.clone())]
    }

    fn drops(&self) -> Vec<(&'static str, Count)> {
        REASONS.into_iter().zip(self.drops.iter().copied()).collect()
    }
}
