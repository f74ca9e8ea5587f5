use std::any::Any;
use std::collections::VecDeque;

use wireyard_tables::time::{Deadline, Span};

use super::*;
use crate::roce::memory::{Access, Bytes, Synthetic};
use crate::roce::packet::{ClassHint, Headers};
use crate::roce::qp::PathMtu;
use crate::roce::rp::RateAlgorithm;
use crate::roce::verbs::{Remote, SendOp, Sge, Status};

/// Connects two queue pairs of two end points.
fn connect(a: &mut EndPoint, qa: u32, b: &mut EndPoint, qb: u32) {
    for (end, own, peer) in [(a, qa, qb), (b, qb, qa)] {
        let none = Attrs::default();
        let init = Attrs { pkey: Some(0xffff), port: Some(1), access: Some(Access::ALL), ..none };
        let rtr = Attrs {
            path: Some(0),
            path_mtu: PathMtu::new(1024),
            dest_qp: Some(peer),
            rq_psn: Some(0),
            max_dest_rd_atomic: Some(4),
            min_rnr_timer: Some(1),
            ..none
        };
        let rts = Attrs {
            sq_psn: Some(0),
            max_rd_atomic: Some(4),
            retry_count: Some(7),
            rnr_retry: Some(7),
            timeout: Some(14),
            ..none
        };
        for (to, attrs) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            end.modify(own, to, &attrs).unwrap().unwrap();
        }
    }
}

struct Wire {
    ends: [EndPoint; 2],
    flying: VecDeque<(Time, usize, Headers, Vec<u8>)>,
    now: Time,
    data_packets: u64,
}

impl Wire {
    fn new() -> Wire {
        let ends = [EndPoint::new(), EndPoint::new()];
        Wire { ends, flying: VecDeque::new(), now: Time::ZERO, data_packets: 0 }
    }

    fn send(&mut self, from: usize) -> bool {
        let Some(packet) = self.ends[from].poll_tx(self.now) else { return false };
        let mut bytes = Vec::new();
        if let Some(payload) = packet.payload {
            bytes.resize(payload.len as usize, 0);
            self.ends[from].memory().read(&payload, &mut bytes).unwrap();
        }
        self.data_packets += u64::from(packet.class == ClassHint::Data);
        self.flying.push_back((self.now + Span::from_us(1), 1 - from, packet.headers, bytes));
        true
    }

    fn run(&mut self) {
        loop {
            while self.send(0) || self.send(1) {}
            let arrival = Deadline::from(self.flying.front().map(|f| f.0));
            let due = self.ends.iter().map(EndPoint::next_deadline).fold(arrival, Deadline::min);
            let Some(due) = due.not_before(self.now).instant() else { return };
            self.now = due;
            while self.flying.front().is_some_and(|f| f.0 <= self.now) {
                if let Some((_, to, headers, bytes)) = self.flying.pop_front() {
                    let packet = InPacket { headers, payload: &bytes, path: 0, telemetry: None };
                    self.ends[to].on_packet(self.now, &packet);
                }
            }
        }
    }
}

fn config(rate_bps: f64) -> QpConfig {
    QpConfig::new(RateAlgorithm::fixed(rate_bps).unwrap())
}

#[test]
fn hundreds_of_queue_pairs_share_a_port_and_mix_nothing_up() {
    let mut wire = Wire::new();
    let pairs = 300u32;
    let size = u64::from(pairs) * 4096;
    let [a, b] = &mut wire.ends;
    let source: Vec<u8> = (0..size).map(|i| (i * 7 + i / 256) as u8).collect();
    let from = a.memory_mut().register(0, Access::ALL, Box::new(Bytes(source.clone()))).unwrap();
    let zero = Box::new(Bytes::zeroed(size as usize));
    let to = b.memory_mut().register(0, Access::ALL, zero).unwrap();
    for i in 0..pairs {
        let qa = a.create_qp(Service::Rc, &config(1e9)).unwrap();
        let qb = b.create_qp(Service::Rc, &config(1e9)).unwrap();
        connect(a, qa, b, qb);
        let va = u64::from(i) * 4096;
        let op = SendOp::Write(Remote { va, rkey: to });
        let wr = SendWr::new(u64::from(i), op, Sge { key: from, va, len: 4096 });
        a.post_send(qa, wr).unwrap().unwrap();
    }
    wire.run();
    let done: Vec<_> = std::iter::from_fn(|| wire.ends[0].poll_cq()).collect();
    assert_eq!(done.len(), pairs as usize);
    assert!(done.iter().all(|c| c.status == Status::Success));
    let target: &dyn Any = wire.ends[1].memory().backing(to).unwrap();
    assert!(target.downcast_ref::<Bytes>().unwrap().0 == source);
}

#[test]
fn a_flow_over_four_gib_is_many_messages_and_every_byte_is_verified() {
    // 64 KiB at each end of a 5 GiB region, with the two messages between them 2 GiB apart in address.
    let mut wire = Wire::new();
    let size = 5u64 << 30;
    let [a, b] = &mut wire.ends;
    let rights = Access::ALL;
    let from = a.memory_mut().register(0, rights, Box::new(Synthetic::new(3, size))).unwrap();
    let to = b.memory_mut().register(0, rights, Box::new(Synthetic::new(3, size))).unwrap();
    let qa = a.create_qp(Service::Rc, &config(100e9)).unwrap();
    let qb = b.create_qp(Service::Rc, &config(100e9)).unwrap();
    connect(a, qa, b, qb);
    let len = 1u32 << 16;
    for va in [0, (1 << 32) - 4096, (1 << 32) + (1 << 20) + 1, size - u64::from(len)] {
        let op = SendOp::Write(Remote { va, rkey: to });
        a.post_send(qa, SendWr::new(va, op, Sge { key: from, va, len })).unwrap().unwrap();
    }
    wire.run();
    let target: &dyn Any = wire.ends[1].memory().backing(to).unwrap();
    let target = target.downcast_ref::<Synthetic>().unwrap();
    assert_eq!((target.verified_bytes(), target.wrong_bytes()), (4 * u64::from(len), 0));
}

#[test]
fn queue_pairs_at_one_rate_take_turns() {
    let mut wire = Wire::new();
    let [a, b] = &mut wire.ends;
    let zero = || Box::new(Bytes::zeroed(1 << 16));
    let from = a.memory_mut().register(0, Access::ALL, zero()).unwrap();
    let to = b.memory_mut().register(0, Access::ALL, zero()).unwrap();
    for id in 0..3 {
        let qa = a.create_qp(Service::Rc, &config(10e9)).unwrap();
        let qb = b.create_qp(Service::Rc, &config(10e9)).unwrap();
        connect(a, qa, b, qb);
        let op = SendOp::Write(Remote { va: 0, rkey: to });
        let wr = SendWr::new(id, op, Sge { key: from, va: 0, len: 32 * 1024 });
        a.post_send(qa, wr).unwrap().unwrap();
    }
    // A link that is three times too slow for the three together.
    let mut order = Vec::new();
    while order.len() < 60 {
        wire.now += Span::from_us(1);
        order.extend(wire.ends[0].poll_data(wire.now).map(|packet| packet.src_qp));
    }
    let turns = order.chunks(3).filter(|c| c[0] != c[1] && c[1] != c[2] && c[0] != c[2]).count();
    assert!(turns >= 19, "{order:?}");
}

#[test]
fn packets_for_nobody_are_counted() {
    let mut wire = Wire::new();
    let qp = wire.ends[0].create_qp(Service::Ud, &config(1e9)).unwrap();
    let bth = crate::roce::packet::Bth {
        opcode: 0x64,
        solicited: false,
        pad: 0,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dest_qp: qp,
        ack_req: false,
        psn: crate::roce::psn::Psn::new(0),
    };
    let send = |end: &mut EndPoint, dest_qp| {
        let headers = Headers::new(crate::roce::packet::Bth { dest_qp, ..bth });
        end.on_packet(Time::ZERO, &InPacket { headers, payload: &[], path: 0, telemetry: None });
    };
    for dest_qp in [0, 1, qp + 1, 0xff_ffff] {
        send(&mut wire.ends[0], dest_qp);
    }
    assert_eq!(wire.ends[0].unknown_qp_packets(), 4);
}

#[test]
fn a_queue_pair_stays_small() {
    // One laboratory has thousands of them.
    let bytes = std::mem::size_of::<QueuePair>();
    assert!(bytes <= 1024, "{bytes} bytes");
}
