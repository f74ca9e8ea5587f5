//! The tunnel end point of the library, with its own entries and hosts that it has learned, and its rival.

use crate::hand::{Count, DROPPED, Hand, HandPacket, WordMap, be16, be32, checksum, count, follow};
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
            Entry { matches, priority: 0, target: Target::Action(call), idle_timeout: None },
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

/// The rival.
pub(crate) struct Gateway {
    /// VNI and address to port, tunnel and number.
    fdb: WordMap,
    last_hits: Vec<u64>,
    tunnels: Vec<Tunnel>,
    counts: Vec<Count>,
}

#[derive(Clone, Copy)]
struct Tunnel {
    src: u32,
    dst: u32,
    macs: [u8; 12],
}

fn fdb_key(vni: u32, mac: u64) -> u64 {
    // One VNI is served; with more, two words would have to be compared.
    mac ^ u64::from(vni) << 40
}

impl Gateway {
    pub(crate) fn new() -> Gateway {
        let host = |host: u64| {
            let (port, tunnel) = place(host);
            let value = host << 32 | u64::from(tunnel) << 16 | u64::from(port);
            (fdb_key(VNI, mac(host)), value)
        };
        let tunnel = |n: u8| Tunnel {
            src: US,
            dst: US + u32::from(n),
            macs: [2, 0, 0, 0, 3, n + 1, 2, 0, 0, 0, 3, 1],
        };
        Gateway {
            fdb: WordMap::new((0..HOSTS).map(host).collect::<Vec<_>>().into_iter()),
            last_hits: vec![0; HOSTS as usize],
            tunnels: vec![tunnel(0), tunnel(1), tunnel(2)],
            counts: vec![[0; 2]; 4096],
        }
    }

    /// Who sends is known, and stays known.
    #[inline(always)]
    fn refresh(&mut self, vni: u32, src: u64, place: u64) -> bool {
        match self.fdb.get(fdb_key(vni, src)) {
            Some(known) if known & 0xffff_ffff == place => {
                self.last_hits[(known >> 32) as usize] = 0;
                true
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn find(&mut self, vni: u32, dst: u64) -> Option<(u16, u16)> {
        let found = self.fdb.get(fdb_key(vni, dst))?;
        self.last_hits[(found >> 32) as usize] = 0;
        Some((found as u16, (found >> 16) as u16))
    }

    #[inline(always)]
    fn forward(&mut self, memory: &mut [u8], packet: &mut HandPacket) -> Option<u16> {
        match packet.in_port {
            3 => self.decapsulate(memory, packet),
            port => self.encapsulate(memory, packet, port),
        }
    }

    #[inline(always)]
    fn encapsulate(
        &mut self,
        memory: &mut [u8],
        packet: &mut HandPacket,
        port: u16,
    ) -> Option<u16> {
        let (at, mut len) = (packet.at as usize, packet.len as usize);
        let room = memory.get_mut(at - OUTER..at + len)?;
        let frame = &room[OUTER..];
        let (dst, src) = addresses(frame)?;
        let (tagged, start) = match be16(frame, 12) {
            0x8100 if be16(frame, 14) & 0xfff == 100 => (true, 18),
            0x0800 => (false, 14),
            _ => return None,
        };
        if tagged != (port == 2) || be16(frame, start - 2) != 0x0800 || frame.len() < start + 24 {
            return None;
        }
        if src >> 40 & 1 == 1 || dst >> 40 & 1 == 1 || !self.refresh(VNI, src, port.into()) {
            return None;
        }
        let (out_port, tunnel) = self.find(VNI, dst)?;
        if tunnel == 0 {
            return None;
        }
        let entropy = entropy(frame, start);
        let tos = frame[start + 1];
        // The tag gives way to the addresses in front of it.
        let skip = if tagged { 4 } else { 0 };
        if tagged {
            room.copy_within(OUTER..OUTER + 12, OUTER + 4);
            len -= 4;
        }
        let to = self.tunnels[usize::from(tunnel)];
        count(&mut self.counts[usize::from(tunnel) - 1], packet.len);
        let outer = room.get_mut(skip..)?.first_chunk_mut::<OUTER>()?;
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
        outer[40..].copy_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0x13, 0x88, 0]);
        packet.at = (at - OUTER + skip) as u32;
        packet.len = (len + OUTER) as u32;
        Some(out_port)
    }

    #[inline(always)]
    fn decapsulate(&mut self, memory: &mut [u8], packet: &mut HandPacket) -> Option<u16> {
        let (at, len) = (packet.at as usize, packet.len as usize);
        let all = memory.get_mut(at..at + len)?;
        let (outer, frame) = all.split_first_chunk_mut::<OUTER>()?;
        if be16(outer, 12) != 0x0800 || outer[14] != 0x45 || outer[23] != 17 {
            return None;
        }
        if be16(outer, 20) & 0x3fff != 0 || be16(outer, 36) != 4789 || outer[42] & 8 == 0 {
            return None;
        }
        if checksum(&outer[14..34]) != 0 || be32(outer, 30) != US {
            return None;
        }
        let vni = be32(outer, 46) >> 8;
        let tunnel = be32(outer, 26).wrapping_sub(US);
        if vni != VNI || !(1..=2).contains(&tunnel) || frame.len() < 38 {
            return None;
        }
        let (dst, src) = addresses(frame)?;
        if be16(frame, 12) != 0x0800 || src >> 40 & 1 == 1 || dst >> 40 & 1 == 1 {
            return None;
        }
        if !self.refresh(vni, src, u64::from(tunnel) << 16 | 3) {
            return None;
        }
        let (mut ecn, old_ecn) = (frame[15] & 3, frame[15] & 3);
        match outer[15] & 3 {
            3 if ecn == 0 => return None,
            3 => ecn = 3,
            1 if ecn == 2 => ecn = 1,
            _ => {}
        }
        let (out_port, tunnel) = self.find(vni, dst)?;
        if tunnel != 0 || out_port == 3 {
            return None;
        }
        std::hint::black_box(entropy(frame, 14));
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
        if out_port == 2 {
            // A tag: the addresses make room.
            all.copy_within(OUTER..OUTER + 12, OUTER - 4);
            all[OUTER + 8..OUTER + 12].copy_from_slice(&[0x81, 0, 0, 100]);
            gone -= 4;
        }
        packet.at = (at + gone) as u32;
        packet.len = (len - gone) as u32;
        Some(out_port)
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
            let port = self.forward(memory, packet);
            packet.out_port = port.unwrap_or(DROPPED);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Count>)> {
        vec![("tunnels", self.counts.clone())]
    }
}
