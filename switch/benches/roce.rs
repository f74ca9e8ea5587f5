//! Cost of the RoCE transport alone: requester and responder back to back, no frame, no memory copy but the
//! one into the receiver's region. `cargo bench -p wireyard-switch --bench roce`.
//!
//! One element is one data packet with everything it causes: pacing, rate control, the responder's work and
//! its share of acknowledgements.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wireyard_switch::roce::endpoint::EndPoint;
use wireyard_switch::roce::memory::{Access, Bytes};
use wireyard_switch::roce::opcode::Service;
use wireyard_switch::roce::packet::InPacket;
use wireyard_switch::roce::qp::{Attrs, PathMtu, QpConfig, QpState};
use wireyard_switch::roce::rp::RateAlgorithm;
use wireyard_switch::roce::verbs::{Remote, SendOp, SendWr, Sge};
use wireyard_tables::time::Time;

const MTU: u32 = 1024;
const MESSAGE: u32 = 64 * MTU;

struct Rig {
    ends: [EndPoint; 2],
    keys: [u32; 2],
    payload: Vec<u8>,
    now: Time,
    next_wr: u64,
}

fn connect(end: &mut EndPoint, own: u32, peer: u32) {
    let none = Attrs::default();
    let init = Attrs { pkey: Some(0xffff), port: Some(1), access: Some(Access::ALL), ..none };
    let rtr = Attrs {
        path: Some(0),
        path_mtu: PathMtu::new(MTU),
        dest_qp: Some(peer),
        rq_psn: Some(0),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(1),
        ..none
    };
    let rts = Attrs {
        sq_psn: Some(0),
        max_rd_atomic: Some(1),
        retry_count: Some(7),
        rnr_retry: Some(7),
        timeout: Some(18),
        ..none
    };
    for (to, attrs) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        end.modify(own, to, &attrs).expect("exists").expect("attributes are complete");
    }
}

fn rig(pairs: u32, algorithm: &str, ack_every: u32) -> Rig {
    let mut ends = [EndPoint::new(), EndPoint::new()];
    let keys = [0, 1].map(|side: usize| {
        let memory = Box::new(Bytes::zeroed(MESSAGE as usize));
        ends[side].memory_mut().register(0, Access::ALL, memory).expect("first region")
    });
    let rate = RateAlgorithm::by_name(algorithm, 100e9).expect("known name");
    let config = QpConfig { ack_every, ..QpConfig::new(rate) };
    for _ in 0..pairs {
        let qpns = [0, 1].map(|s: usize| ends[s].create_qp(Service::Rc, &config).expect("room"));
        connect(&mut ends[0], qpns[0], qpns[1]);
        connect(&mut ends[1], qpns[1], qpns[0]);
    }
    let mut rig = Rig { ends, keys, payload: vec![7; MTU as usize], now: Time::ZERO, next_wr: 0 };
    let qpns: Vec<u32> = rig.ends[0].qps().map(|qp| qp.qpn()).collect();
    for qpn in qpns {
        rig.post(qpn);
    }
    rig
}

impl Rig {
    fn post(&mut self, qpn: u32) {
        let op = SendOp::Write(Remote { va: 0, rkey: self.keys[1] });
        let local = Sge { key: self.keys[0], va: 0, len: MESSAGE };
        let wr = SendWr::new(self.next_wr, op, local);
        self.next_wr += 1;
        self.ends[0].post_send(qpn, wr).expect("exists").expect("room");
    }

    /// One data packet and what it causes.
    fn step(&mut self) {
        self.now = self.now.max(self.ends[0].next_deadline());
        let Some(packet) = self.ends[0].poll_tx(self.now) else { return };
        let len = packet.payload.map_or(0, |p| p.len as usize);
        let headers = packet.headers;
        let arrived = InPacket { headers, payload: &self.payload[..len], path: 0 };
        self.ends[1].on_packet(self.now, &arrived);
        while let Some(ack) = self.ends[1].poll_ack() {
            let arrived = InPacket { headers: ack.headers, payload: &[], path: 0 };
            self.ends[0].on_packet(self.now, &arrived);
        }
        while let Some(done) = self.ends[0].poll_cq() {
            self.post(done.qp);
        }
    }
}

fn transport(c: &mut Criterion) {
    let mut group = c.benchmark_group("roce_transport");
    group.throughput(Throughput::Elements(1));
    for (pairs, algorithm, ack_every) in [
        (1, "fixed", 64),
        (1, "fixed", 1),
        (1, "dcqcn", 1),
        (1024, "fixed", 64),
        (1024, "dcqcn", 1),
    ] {
        let name = format!("{pairs}_qp_{algorithm}_ack_every_{ack_every}");
        let mut rig = rig(pairs, algorithm, ack_every);
        group.bench_function(name, |b| b.iter(|| rig.step()));
    }
    group.finish();
}

criterion_group!(benches, transport);
criterion_main!(benches);
