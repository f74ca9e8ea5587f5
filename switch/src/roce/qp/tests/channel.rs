//! Two queue pairs back to back over a channel that may lose, copy and delay packets.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use wireyard_tables::time::{Deadline, Span, Time};

use crate::roce::memory::{Access, Bytes, MemoryTable};
use crate::roce::opcode::Service;
use crate::roce::packet::{Headers, InPacket, OutPacket, Trailing};
use crate::roce::qp::{Attrs, PathMtu, QpConfig, QpState, QueuePair, Retransmission};
use crate::roce::rp::RateAlgorithm;
use crate::roce::verbs::{Completion, RecvWr, Sge};

pub(super) const MTU: u32 = 256;
pub(super) const BASE: u64 = 0x1_0000;

/// SplitMix64.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) loss_percent: u64,
    pub(super) copy_percent: u64,
    /// Largest extra delay in us, which reorders.
    pub(super) jitter_us: u64,
    /// Requests that arrive without their payload.
    pub(super) trim_percent: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) headers: Headers,
    pub(super) payload: Vec<u8>,
    pub(super) trimmed: bool,
}

pub(super) struct Side {
    pub(super) qp: QueuePair,
    pub(super) memory: MemoryTable,
    pub(super) key: u32,
    pub(super) done: Vec<Completion>,
}

type Drop = Box<dyn FnMut(usize, &Frame) -> bool>;

pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) sides: [Side; 2],
    pub(super) faults: Faults,
    random: Random,
    in_flight: BTreeMap<Reverse<(Time, u64)>, (usize, Frame)>,
    sequence: u64,
    /// Every frame that was sent, by sender.
    pub(super) log: Vec<(usize, Frame)>,
    /// Ranges that a test compares at the end.
    pub(super) expected: Vec<std::ops::Range<usize>>,
    /// Deliberate loss: true drops the frame of that sender.
    pub(super) drop: Option<Drop>,
    /// Receives without memory that the second side still posts, one per completion.
    pub(super) refills: u64,
}

pub(super) struct Setup {
    pub(super) service: Service,
    pub(super) psn: u32,
    pub(super) memory_bytes: usize,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) access: Access,
    pub(super) ack_every: u32,
    pub(super) retransmission: Retransmission,
    pub(super) seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            service: Service::Rc,
            psn: 0,
            memory_bytes: 1 << 16,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 4,
            access: Access::ALL,
            ack_every: 8,
            retransmission: Retransmission::GoBackN,
            seed: 1,
        }
    }
}

pub(super) fn ready(qp: &mut QueuePair, dest_qp: u32, s: &Setup) {
    let rc = s.service == Service::Rc;
    let ud = s.service == Service::Ud;
    let init = Attrs {
        pkey: Some(0xffff),
        port: Some(1),
        access: (!ud).then_some(s.access),
        qkey: ud.then_some(0x11),
        ..Attrs::default()
    };
    qp.modify(QpState::Init, &init).unwrap();
    let rtr = Attrs {
        path: (!ud).then_some(0),
        path_mtu: PathMtu::new(MTU),
        dest_qp: (!ud).then_some(dest_qp),
        rq_psn: (!ud).then_some(s.psn),
        max_dest_rd_atomic: rc.then_some(s.max_rd_atomic),
        min_rnr_timer: rc.then_some(1),
        ..Attrs::default()
    };
    qp.modify(QpState::Rtr, &rtr).unwrap();
    let rts = Attrs {
        sq_psn: Some(s.psn),
        max_rd_atomic: rc.then_some(s.max_rd_atomic),
        retry_count: rc.then_some(s.retry_count),
        rnr_retry: rc.then_some(s.rnr_retry),
        timeout: rc.then_some(5), // 131 us
        ..Attrs::default()
    };
    qp.modify(QpState::Rts, &rts).unwrap();
}

impl Pair {
    pub(super) fn new(setup: &Setup) -> Pair {
        let mut random = Random(setup.seed);
        let sides = [0usize, 1].map(|side| {
            let mut config = QpConfig::new(RateAlgorithm::fixed(10e9).unwrap());
            config.ack_every = setup.ack_every;
            config.retransmission = setup.retransmission;
            let mut qp = QueuePair::new(10 + side as u32, setup.service, &config);
            ready(&mut qp, 11 - side as u32, setup);
            let bytes = (0..setup.memory_bytes).map(|_| random.next() as u8).collect();
            let mut memory = MemoryTable::new();
            let key = memory.register(BASE, Access::ALL, Box::new(Bytes(bytes))).unwrap();
            Side { qp, memory, key, done: Vec::new() }
        });
        Pair {
            now: Time::ZERO,
            sides,
            faults: Faults::default(),
            random,
            in_flight: BTreeMap::new(),
            sequence: 0,
            log: Vec::new(),
            expected: Vec::new(),
            drop: None,
            refills: 0,
        }
    }

    pub(super) fn bytes(&self, side: usize) -> Vec<u8> {
        let side = &self.sides[side];
        let backing: &dyn Any = side.memory.backing(side.key).unwrap();
        backing.downcast_ref::<Bytes>().unwrap().0.clone()
    }

    pub(super) fn sge(&self, side: usize, offset: u64, len: u32) -> Sge {
        Sge { key: self.sides[side].key, va: BASE + offset, len }
    }

    pub(super) fn recv(&mut self, side: usize, wr_id: u64, offset: u64, len: u32) {
        let local = self.sge(side, offset, len);
        let s = &mut self.sides[side];
        s.qp.post_recv(RecvWr { wr_id, local }, &s.memory).unwrap();
    }

    /// Delivers a frame to a side at once.
    pub(super) fn deliver(&mut self, to: usize, frame: &Frame) {
        let side = &mut self.sides[to];
        if frame.trimmed {
            let bth = &frame.headers.bth;
            return side.qp.on_trimmed(bth.opcode, bth.psn);
        }
        let packet =
            InPacket { headers: frame.headers, payload: &frame.payload, path: 0, telemetry: None };
        side.qp.on_packet(self.now, &packet, &mut side.memory);
    }

    /// Takes one packet that a side may send now.
    pub(super) fn take(&mut self, from: usize) -> Option<Frame> {
        let side = &mut self.sides[from];
        let OutPacket { mut headers, payload, .. } = side.qp.poll_tx(self.now, &side.memory)?;
        let mut bytes = Vec::new();
        if let Trailing::Sack(bits) = headers.trailing {
            // Payload on the wire.
            headers.trailing = Trailing::None;
            bytes.extend(bits.to_be_bytes());
        }
        if let Some(payload) = payload {
            bytes.resize(payload.len as usize, 0);
            side.memory.read(&payload, &mut bytes).unwrap();
        }
        Some(Frame { headers, payload: bytes, trimmed: false })
    }

    pub(super) fn transmit(&mut self, from: usize, frame: Frame) {
        self.log.push((from, frame.clone()));
        if self.drop.as_mut().is_some_and(|drop| drop(from, &frame)) {
            return;
        }
        if self.random.below(100) < self.faults.loss_percent {
            return;
        }
        let copies = 1 + u64::from(self.random.below(100) < self.faults.copy_percent);
        for _ in 0..copies {
            let jitter = Span::from_us(self.random.below(self.faults.jitter_us + 1));
            let at = self.now + Span::from_us(1) + jitter;
            self.sequence += 1;
            let mut frame = frame.clone();
            frame.trimmed = from == 0 && self.random.below(100) < self.faults.trim_percent;
            self.in_flight.insert(Reverse((at, self.sequence)), (1 - from, frame));
        }
    }

    fn reap(&mut self) {
        let before = self.sides[1].done.len();
        for side in &mut self.sides {
            while let Some(done) = side.qp.poll_cq() {
                side.done.push(done);
            }
        }
        for _ in before..self.sides[1].done.len() {
            if self.refills > 0 {
                self.refills -= 1;
                self.recv(1, 0, 0, 0);
            }
        }
    }

    /// Runs until nothing more happens, or panics after `limit` steps.
    pub(super) fn run(&mut self, limit: usize) {
        for _ in 0..limit {
            if !self.step() {
                return;
            }
        }
        panic!("not finished at {} after {limit} steps", self.now);
    }

    /// Sends what can be sent now, and goes on to the next arrival or timer; false if there is none.
    pub(super) fn step(&mut self) -> bool {
        for from in [0, 1] {
            while let Some(frame) = self.take(from) {
                self.transmit(from, frame);
            }
        }
        self.reap();
        let arrival = self.in_flight.last_key_value().map(|(key, _)| key.0.0);
        let arrival = Deadline::from(arrival);
        let timers = self.sides.iter().map(|side| side.qp.next_deadline());
        let next = timers.fold(arrival, Deadline::min);
        let Some(next_at) = next.not_before(self.now).instant() else { return false };
        let moves = !next.is_by(self.now) || arrival.is_by(self.now);
        assert!(moves, "no progress at {}", self.now);
        self.now = next_at;
        while let Some(entry) = self.in_flight.last_entry() {
            if entry.key().0.0 > self.now {
                break;
            }
            let (to, frame) = entry.remove();
            self.deliver(to, &frame);
        }
        true
    }

    /// AETH syndromes sent by a side.
    pub(super) fn syndromes(&self, from: usize) -> Vec<u8> {
        let aeth = |(_, f): &(usize, Frame)| f.headers.aeth().map(|a| a.syndrome);
        self.log.iter().filter(|(side, _)| *side == from).filter_map(aeth).collect()
    }

    /// Opcodes sent by a side.
    pub(super) fn opcodes(&self, from: usize) -> Vec<u8> {
        let sent = self.log.iter().filter(|(side, _)| *side == from);
        sent.map(|(_, frame)| frame.headers.bth.opcode).collect()
    }
}
