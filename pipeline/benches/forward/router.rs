//! The RoCEv2 router and its rival.

use crate::hand::{
    Count, Decided, Hand, HandPacket, WordMap, be16, be32, checksum, count, decide, follow,
};
use crate::rig::{Input, PACKETS, insert};
use wireyard_pipeline::state::State;
use wireyard_tables::{ActionCall, Entry, Match, TableId, Target, Update};

const ADDRESSES: u64 = 4096;
const ROUTES: u32 = 10_000;
const NEXT_HOPS: u32 = 64;

/// A hash for choosing test data.
pub(crate) fn mix(n: u64) -> u64 {
    let z = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn address(n: u64) -> u64 {
    0x0200_0000_0000 | (n * 7)
}

/// Most are of 24 bits, as in the Internet; the rest from 12 to 32.
fn route(n: u32) -> (u32, u32) {
    let len = match n % 10 {
        0 => 16,
        1 => 22,
        2 => 30,
        3 => 32,
        _ => 24,
    };
    let bits = 0x0a00_0000 | (mix(n.into()) as u32 & 0x03ff_ffff);
    (bits & u32::MAX << (32 - len), len)
}

fn routes() -> Vec<(u32, u32, u32)> {
    let mut seen = std::collections::BTreeMap::new();
    let mut n = 0;
    while seen.len() < ROUTES as usize {
        seen.entry(route(n)).or_insert(n % NEXT_HOPS);
        n += 1;
    }
    seen.into_iter().map(|((bits, len), hop)| (bits, len, hop)).collect()
}

/// Port, source, destination.
fn next_hop(n: u32) -> (u16, u64, u64) {
    (n as u16 % 32 + 1, 0x0200_0000_1000 | u64::from(n % 32), 0x0200_0001_0000 | u64::from(n))
}

pub(crate) fn fill(state: &State) {
    let table = |name: &str| state.tables().find_table(name).expect("a table");
    let entry = |matches, action, data| Entry {
        matches: vec![matches],
        priority: 0,
        target: Target::Action(ActionCall { action, data }),
        idle_timeout: None,
        meter: None,
    };
    let mac = |n| entry(Match::Exact(address(n).into()), 0, vec![]);
    let macs: Vec<Update> = (0..ADDRESSES).map(|n| Update::Insert(table("macs"), mac(n))).collect();
    insert(state, &macs);
    let fib: TableId = table("fib");
    let path = |(bits, prefix_len, hop): (u32, u32, u32)| {
        let (port, src, dst) = next_hop(hop);
        let value = bits.into();
        Update::Insert(fib, entry(Match::Lpm { value, prefix_len }, 0, vec![port.into(), src, dst]))
    };
    insert(state, &routes().into_iter().map(path).collect::<Vec<Update>>());
}

/// Most are RoCEv2; some have a tag, some are other UDP; one in 64 is dropped for some reason.
pub(crate) fn inputs() -> Vec<Input> {
    let routes = routes();
    let input = |n: usize| {
        let r = mix(n as u64 + 1);
        let len = 64 + n * 613 % 1025;
        let dst = if n % 256 == 3 { 0x0600_0000_0001 } else { address(r % ADDRESSES) };
        let mut bytes = dst.to_be_bytes()[2..].to_vec();
        bytes.extend([2, 0, 0, 9, 9, 9]);
        if n % 8 == 5 {
            bytes.extend([0x81, 0, 0x60, 7]);
        }
        bytes.extend([8, 0]);
        let start = bytes.len();
        let (prefix, prefix_len, _) = routes[(r >> 20) as usize % routes.len()];
        let host = (r >> 40) as u32 & !(u32::MAX.checked_shl(32 - prefix_len).unwrap_or(0));
        let to = if n % 256 == 7 { 0x7f00_0001 } else { prefix | host };
        let ttl = if n % 256 == 11 { 1 } else { 64 };
        let ecn = 0x02 * u8::from(!n.is_multiple_of(4));
        let mut ip = vec![0x45, ecn, 0, 0, n as u8, 1, 0x40, 0, ttl, 17, 0, 0, 10, 0, 0, 1];
        ip.extend(to.to_be_bytes());
        ip[2..4].copy_from_slice(&((len - start) as u16).to_be_bytes());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(ip);
        let port: u16 = if n % 16 == 9 { 53 } else { 4791 };
        bytes.extend([0xc0, n as u8]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        let qp = (r >> 8) as u32 & 0xf_ffff;
        bytes.extend([4, 0, 0xff, 0xff, 0]);
        bytes.extend(&qp.to_be_bytes()[1..]);
        bytes.resize(len, n as u8);
        Input { bytes, port: 1, mark: n.is_multiple_of(3) }
    };
    (0..PACKETS).map(input).collect()
}

/// The rival: DIR-24-8 with 16-bit cells, addresses in a map, next hops in an array.
pub(crate) struct Router {
    macs: WordMap<1>,
    first: Vec<u16>,
    second: Vec<u16>,
    hops: Vec<NextHop>,
    queue_pairs: Vec<Count>,
    ports: Vec<Count>,
    drops: Vec<Count>,
}

/// Reasons to drop, in the order of [`Router::drops`].
const REASONS: [&str; 6] =
    ["not_ip", "not_for_us", "ttl_expired", "no_route", "bad_packet", "too_short"];
const NOT_IP: u8 = 0;
const NOT_FOR_US: u8 = 1;
const TTL_EXPIRED: u8 = 2;
const NO_ROUTE: u8 = 3;
/// What the parser refuses; no packet of the bench.
const BAD: u8 = 4;
const SHORT: u8 = 5;

#[derive(Clone, Copy)]
struct NextHop {
    port: u16,
    macs: [u8; 12],
}

/// Set in a cell of the first array that leads to the second one.
const MORE: u16 = 0x8000;

impl Router {
    pub(crate) fn new() -> Router {
        let hop = |n| {
            let (port, src, dst) = next_hop(n);
            let mut macs = [0; 12];
            macs[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
            macs[6..].copy_from_slice(&src.to_be_bytes()[2..]);
            NextHop { port, macs }
        };
        let mut router = Router {
            macs: WordMap::new(&(0..ADDRESSES).map(|n| ([address(n)], 0)).collect::<Vec<_>>()),
            first: vec![0; 1 << 24],
            second: Vec::new(),
            hops: (0..NEXT_HOPS).map(hop).collect(),
            queue_pairs: vec![[0; 2]; 4096],
            ports: vec![[0; 2]; 256],
            drops: vec![[0; 2]; REASONS.len()],
        };
        let mut routes = routes();
        routes.sort_by_key(|(_, len, _)| *len);
        for (bits, len, hop) in routes {
            router.add(bits, len, hop as u16 + 1);
        }
        router
    }

    /// Shorter prefixes first.
    fn add(&mut self, bits: u32, len: u32, cell: u16) {
        let at = (bits >> 8) as usize;
        if len <= 24 {
            self.first[at..at + (1 << (24 - len))].fill(cell);
            return;
        }
        if self.first[at] & MORE == 0 {
            let group = self.second.len() / 256;
            self.second.extend([self.first[at]; 256]);
            self.first[at] = MORE | group as u16;
        }
        let start = usize::from(self.first[at] & !MORE) * 256 + (bits & 0xff) as usize;
        self.second[start..start + (1 << (32 - len))].fill(cell);
    }

    #[inline(always)]
    fn route(&self, to: u32) -> Option<&NextHop> {
        let mut cell = self.first[(to >> 8) as usize];
        if cell & MORE != 0 {
            cell = self.second[usize::from(cell & !MORE) << 8 | (to & 0xff) as usize];
        }
        self.hops.get(usize::from(cell).wrapping_sub(1))
    }

    #[inline(always)]
    fn forward(&mut self, frame: &mut [u8], len: u32, mark: bool) -> Decided {
        if frame.len() < 14 {
            return Err(SHORT);
        }
        match be16(frame, 12) {
            0x0800 => self.ip::<14>(frame, len, mark),
            0x8100 if frame.len() < 18 => Err(SHORT),
            0x8100 if be16(frame, 16) == 0x0800 => self.ip::<18>(frame, len, mark),
            _ => Err(NOT_IP),
        }
    }

    #[inline(always)]
    fn ip<const AT: usize>(&mut self, frame: &mut [u8], len: u32, mark: bool) -> Decided {
        let ip = frame.get(AT..AT + 20).ok_or(SHORT)?;
        // Options are for a slower function, which these packets do not need.
        if ip[0] != 0x45 || be16(ip, 2) < 20 {
            return Err(BAD);
        }
        let is_udp = ip[9] == 17 && be16(ip, 6) & 0x3fff == 0;
        let mut pair = None;
        if is_udp {
            let udp = frame.get(AT + 20..AT + 28).ok_or(SHORT)?;
            if be16(udp, 2) == 4791 {
                let bth = frame.get(AT + 28..AT + 40).ok_or(SHORT)?;
                pair = Some(be16(bth, 6) & 0xfff);
            }
        }
        let mac = frame.first_chunk::<8>().ok_or(SHORT)?;
        self.macs.get([u64::from_be_bytes(*mac) >> 16]).ok_or(NOT_FOR_US)?;
        let (tos, ttl, to) = (frame[AT + 1], frame[AT + 8], be32(frame, AT + 16));
        if ttl <= 1 {
            return Err(TTL_EXPIRED);
        }
        let hop = *self.route(to).ok_or(NO_ROUTE)?;
        let old = be16(frame, AT + 8);
        let mut sum = follow(be16(frame, AT + 10), old, old - 0x0100);
        frame[AT + 8] = ttl - 1;
        if let Some(macs) = frame.first_chunk_mut::<12>() {
            *macs = hop.macs;
        }
        if let Some(pair) = pair {
            count(&mut self.queue_pairs[usize::from(pair)], len);
        }
        if let Some(port) = self.ports.get_mut(usize::from(hop.port)) {
            count(port, len);
        }
        if mark && tos & 3 != 0 {
            let old = be16(frame, AT);
            sum = follow(sum, old, old | 3);
            frame[AT + 1] = tos | 3;
        }
        frame[AT + 10..AT + 12].copy_from_slice(&sum.to_be_bytes());
        Ok(hop.port)
    }
}

impl Hand for Router {
    fn burst(&mut self, memory: &mut [u8], packets: &mut [HandPacket]) {
        for packet in packets {
            let Some(frame) = memory.get_mut(packet.at as usize..) else { continue };
            let Some(frame) = frame.get_mut(..packet.len as usize) else { continue };
            let decided = self.forward(frame, packet.len, packet.mark);
            decide(packet, packet.len, decided, &mut self.drops);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Count>)> {
        vec![("queue_pairs", self.queue_pairs.clone()), ("ports", self.ports.clone())]
    }

    fn drops(&self) -> Vec<(&'static str, Count)> {
        REASONS.into_iter().zip(self.drops.iter().copied()).collect()
    }
}
