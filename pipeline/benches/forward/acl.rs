//! The firewall of the library, with its own entries, and its rival.

use crate::hand::{Count, Decided, Hand, HandPacket, be16, be32, checksum, count, decide};
use crate::rig::{Input, PACKETS, apply_entries, library};
use crate::router::mix;
use wireyard_pipeline::state::State;
use wireyard_tables::hash::Seed;

const FLOWS: u64 = 2048;

pub(crate) fn fill(state: &State) {
    apply_entries(&library().join("acl_firewall/entries.yaml"), state);
}

/// Every flow goes both ways; the answers come back through the session that the way out made. One
/// packet in 64 is for nobody.
pub(crate) fn inputs() -> Vec<Input> {
    let input = |n: usize| {
        let flow = mix(n as u64 / 2) % FLOWS;
        let stray = n % 64 == 33;
        let outward = n.is_multiple_of(2);
        let (client, server) = (0x0a00_0000 | flow as u32, 0xc633_6400 | (flow as u32 * 7) & 0xff);
        let (client_port, server_port) =
            (0x8000 | flow as u16, if flow.is_multiple_of(2) { 53 } else { 443 });
        let protocol: u8 = if flow.is_multiple_of(2) { 17 } else { 6 };
        let (src, dst) = if outward { (client, server) } else { (server, client) };
        let (from, to) =
            if outward { (client_port, server_port) } else { (server_port, client_port) };
        let src = if stray { 0x0808_0808 } else { src };
        let len = 64 + n * 613 % 1025;
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if n % 8 == 5 {
            bytes.extend([0x81, 0, 0x60, 7]);
        }
        bytes.extend([8, 0]);
        let start = bytes.len();
        let mut ip = vec![0x45, 0, 0, 0, n as u8, 1, 0x40, 0, 64, protocol, 0, 0];
        ip.extend(src.to_be_bytes());
        ip.extend(dst.to_be_bytes());
        ip[2..4].copy_from_slice(&((len - start) as u16).to_be_bytes());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(ip);
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
        if protocol == 6 {
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            bytes.extend(((len - start - 20) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.resize(len, n as u8);
        Input { bytes, port: if outward { 1 } else { 2 }, mark: false }
    };
    (0..PACKETS).map(input).collect()
}

/// What the list is asked for: in one word what is compared exactly, then addresses and ports.
#[derive(Clone, Copy)]
struct Flow {
    in_port: u16,
    src: u32,
    dst: u32,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
    flags: u8,
}

/// A rule of the list; a mask of 0 is anything.
struct Rule {
    in_port: Option<u16>,
    src: (u32, u32),
    dst: (u32, u32),
    protocol: Option<u8>,
    dst_ports: (u16, u16),
    flags: (u8, u8),
    /// Its place in the table.
    slot: usize,
    act: Act,
}

#[derive(Clone, Copy, PartialEq)]
enum Act {
    Permit,
    PermitAndReturn,
    Deny,
    DenyToCpu,
}

/// The rival: a list of rules is searched from the front; sessions are in an open table. IPv6 and options,
/// for which the program has tables and states of their own, are for slower functions.
pub(crate) struct Firewall {
    /// The partner of each port; 0 is none.
    wires: Vec<u16>,
    rules: Vec<Rule>,
    sessions: Vec<Session>,
    seed: Seed,
    learned: usize,
    acl4: Vec<Count>,
    sessions4: Vec<Count>,
    last_hits: Vec<u64>,
    passed: Vec<Count>,
    drops: Vec<Count>,
}

/// Reasons to drop or punt, in the order of [`Firewall::drops`].
const REASONS: [&str; 6] =
    ["acl_deny", "acl_default", "fragment", "not_ip", "malformed", "default"];
const ACL_DENY: u8 = 0;
const ACL_DEFAULT: u8 = 1;
const FRAGMENT: u8 = 2;
const NOT_IP: u8 = 3;
const MALFORMED: u8 = 4;
/// A port without a partner.
const NO_WIRE: u8 = 5;

#[derive(Clone, Copy)]
struct Session {
    key: [u64; 2],
    /// 0 is free.
    number: u32,
}

const SESSION_CELLS: usize = 1 << 14;

impl Firewall {
    pub(crate) fn new() -> Firewall {
        let any = (0, u16::MAX);
        let rule = |slot, act| Rule {
            in_port: None,
            src: (0, 0),
            dst: (0, 0),
            protocol: None,
            dst_ports: any,
            flags: (0, 0),
            slot,
            act,
        };
        // By priority, then by age, as in `programs/acl_firewall/entries.yaml`.
        let rules = vec![
            Rule { src: (0x7f00_0000, 0xff00_0000), ..rule(0, Act::Deny) },
            Rule {
                in_port: Some(1),
                protocol: Some(17),
                dst_ports: (137, 139),
                ..rule(1, Act::Deny)
            },
            Rule { in_port: Some(2), protocol: Some(6), flags: (3, 3), ..rule(2, Act::DenyToCpu) },
            Rule { in_port: Some(1), ..rule(3, Act::PermitAndReturn) },
            Rule {
                in_port: Some(2),
                dst: (0xc000_0250, u32::MAX),
                protocol: Some(6),
                dst_ports: (80, 81),
                ..rule(4, Act::PermitAndReturn)
            },
            Rule { in_port: Some(2), protocol: Some(1), ..rule(5, Act::Permit) },
        ];
        let mut wires = vec![0; 256];
        (wires[1], wires[2]) = (2, 1);
        Firewall {
            wires,
            rules,
            seed: Seed(std::hint::black_box([0x9216_d5d9_8979_fb1b, 0xd131_0ba6_98df_b5ad])),
            sessions: vec![Session { key: [0; 2], number: 0 }; SESSION_CELLS],
            learned: 0,
            acl4: vec![[0; 2]; 16384],
            sessions4: vec![[0; 2]; 65536],
            last_hits: vec![0; 65536],
            passed: vec![[0; 2]; 256],
            drops: vec![[0; 2]; REASONS.len()],
        }
    }

    #[inline(always)]
    fn key(flow: &Flow) -> [u64; 2] {
        let first = u64::from(flow.src) << 32 | u64::from(flow.dst);
        let ports = u64::from(flow.src_port) << 16 | u64::from(flow.dst_port);
        [first, u64::from(flow.in_port) << 40 | u64::from(flow.protocol) << 32 | ports]
    }

    /// The cell with a key, or the free one where it goes.
    #[inline(always)]
    fn find(&self, key: [u64; 2]) -> usize {
        let hash = wireyard_tables::hash::hash(&key, self.seed);
        let mut at = (hash >> 50) as usize % SESSION_CELLS;
        while self.sessions[at].number != 0 && self.sessions[at].key != key {
            at = (at + 1) % SESSION_CELLS;
        }
        at
    }

    #[inline(always)]
    fn list(&self, flow: &Flow) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.in_port.is_none_or(|port| port == flow.in_port)
                && (flow.src & rule.src.1) == rule.src.0
                && (flow.dst & rule.dst.1) == rule.dst.0
                && rule.protocol.is_none_or(|protocol| protocol == flow.protocol)
                && rule.dst_ports.0 <= flow.dst_port
                && flow.dst_port <= rule.dst_ports.1
                && (flow.flags & rule.flags.1) == rule.flags.0
        })
    }

    #[inline(always)]
    fn forward(&mut self, frame: &[u8], len: u32, in_port: u16, now_ns: u64) -> Decided {
        if frame.len() < 14 {
            return Err(MALFORMED);
        }
        match be16(frame, 12) {
            0x0800 => self.ip::<14>(frame, len, in_port, now_ns),
            0x8100 if frame.len() < 18 => Err(MALFORMED),
            0x8100 if be16(frame, 16) == 0x0800 => self.ip::<18>(frame, len, in_port, now_ns),
            _ => Err(NOT_IP),
        }
    }

    #[inline(always)]
    fn ip<const AT: usize>(
        &mut self,
        frame: &[u8],
        len: u32,
        in_port: u16,
        now_ns: u64,
    ) -> Decided {
        let ip = frame.get(AT..AT + 20).ok_or(MALFORMED)?;
        if ip[0] != 0x45 || be16(ip, 2) < 20 {
            return Err(MALFORMED);
        }
        if be16(ip, 6) & 0x3fff != 0 {
            return Err(FRAGMENT);
        }
        let protocol = ip[9];
        let (src, dst) = (be32(ip, 12), be32(ip, 16));
        let (mut src_port, mut dst_port, mut flags) = (0, 0, 0);
        match protocol {
            6 => {
                let tcp = frame.get(AT + 20..AT + 40).ok_or(MALFORMED)?;
                if tcp[12] >> 4 != 5 {
                    return Err(MALFORMED);
                }
                (src_port, dst_port, flags) = (be16(tcp, 0), be16(tcp, 2), tcp[13]);
            }
            17 => {
                let udp = frame.get(AT + 20..AT + 28).ok_or(MALFORMED)?;
                (src_port, dst_port) = (be16(udp, 0), be16(udp, 2));
            }
            _ => {}
        }
        let wire = self.wires.get(usize::from(in_port)).copied();
        let out_port = wire.filter(|port| *port != 0).ok_or(NO_WIRE)?;
        let flow = Flow { in_port, src, dst, protocol, src_port, dst_port, flags };
        let session = self.sessions[self.find(Firewall::key(&flow))];
        if session.number != 0 {
            let slot = session.number as usize - 1;
            count(&mut self.sessions4[slot], len);
            self.last_hits[slot] = now_ns;
        } else {
            let rule = self.list(&flow).ok_or(ACL_DEFAULT)?;
            let (slot, act) = (rule.slot, rule.act);
            count(&mut self.acl4[slot], len);
            match act {
                Act::Deny | Act::DenyToCpu => return Err(ACL_DENY),
                Act::Permit => {}
                Act::PermitAndReturn => self.learn(&flow, out_port, now_ns),
            }
        }
        if let Some(passed) = self.passed.get_mut(usize::from(in_port)) {
            count(passed, len);
        }
        Ok(out_port)
    }

    #[inline(always)]
    fn learn(&mut self, flow: &Flow, out_port: u16, now_ns: u64) {
        let back = Flow {
            in_port: out_port,
            src: flow.dst,
            dst: flow.src,
            src_port: flow.dst_port,
            dst_port: flow.src_port,
            ..*flow
        };
        let key = Firewall::key(&back);
        let at = self.find(key);
        if self.sessions[at].number == 0 {
            self.learned += 1;
            self.sessions[at] = Session { key, number: self.learned as u32 };
        }
        self.last_hits[self.sessions[at].number as usize - 1] = now_ns;
    }
}

impl Hand for Firewall {
    fn burst(&mut self, memory: &mut [u8], packets: &mut [HandPacket]) {
        for packet in packets {
            let Some(frame) = memory.get(packet.at as usize..) else { continue };
            let Some(frame) = frame.get(..packet.len as usize) else { continue };
            let decided = self.forward(frame, packet.len, packet.in_port, packet.now_ns);
            decide(packet, packet.len, decided, &mut self.drops);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Count>)> {
        let all = [("acl4", &self.acl4), ("sessions4", &self.sessions4), ("passed", &self.passed)];
        all.map(|(name, counts)| (name, counts.clone())).into()
    }

    fn drops(&self) -> Vec<(&'static str, Count)> {
        REASONS.into_iter().zip(self.drops.iter().copied()).collect()
    }
}
