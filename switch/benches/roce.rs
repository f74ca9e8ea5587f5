//! Cost of the RoCE transport: `cargo bench -p wireyard-switch --bench roce`.
//!
//! `roce_transport` is requester and responder back to back, no frame, no memory copy but the one into the
//! receiver's region. `host` is two end points as ports, with frames: payload made and verified, CRCs, both ways.
//! One element is one data packet with everything it causes: pacing, rate control, the responder's work and
//! its share of acknowledgements.

use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::frames::envelope::{Address, mapped};
use wireyard_switch::frames::{Frames, Mac};
use wireyard_switch::host::{
    ConnectOptions, EndPointPort, FlowOp, FlowSpec, HostConfig, PairSpec, connect_pair,
};
use wireyard_switch::ports::{Port, RxFrame, TxFrame};
use wireyard_switch::roce::endpoint::EndPoint;
use wireyard_switch::roce::memory::{Access, Bytes, Synthetic};
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
        let due = self.ends[0].next_deadline().not_before(self.now);
        self.now = due.instant().expect("a packet is under way");
        let Some(packet) = self.ends[0].poll_tx(self.now) else { return };
        let len = packet.payload.map_or(0, |p| p.len as usize);
        let headers = packet.headers;
        let arrived = InPacket { headers, payload: &self.payload[..len], path: 0, telemetry: None };
        self.ends[1].on_packet(self.now, &arrived);
        while let Some(ack) = self.ends[1].poll_ack() {
            let arrived = InPacket { headers: ack.headers, payload: &[], path: 0, telemetry: None };
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

/// Two end points as ports, frame by frame.
struct Hosts {
    mem: PacketMemory,
    ends: [EndPointPort; 2],
    now: Time,
    rx: Vec<RxFrame>,
    tx: Vec<TxFrame>,
}

fn hosts(pairs: u32, ack_every: u32, payload: u32) -> Hosts {
    let frames = Frames::shared().expect("tested");
    let address = |n: u8| mapped(Ipv4Addr::new(10, 0, 0, n));
    let mac = |n: u8| Mac([2, 0, 0, 0, 0, n]);
    let mut ends = [1, 2].map(|n| {
        EndPointPort::new(HostConfig::ethernet("host", mac(n), address(n)), frames.clone())
    });
    let [a, b] = &mut ends;
    let keys = [&mut *a, b].map(|end| {
        let memory = Box::new(Synthetic::new(7, 1 << 20));
        end.roce_mut().memory_mut().register(0, Access::ALL, memory).expect("first region")
    });
    let spec = PairSpec {
        address: Address::rocev2(mac(1), mac(2), address(1), address(2)).expect("one family"),
        service: Service::Rc,
        qp: QpConfig {
            ack_every,
            ..QpConfig::new(RateAlgorithm::by_name("dcqcn", 100e9).expect("known name"))
        },
        options: ConnectOptions {
            path_mtu: PathMtu::new(payload).expect("a path MTU"),
            ..ConnectOptions::default()
        },
    };
    for _ in 0..pairs {
        let (qp, _) = connect_pair(a, b, &spec).expect("complete");
        let local = Sge { key: keys[0], va: 0, len: 1 << 20 };
        let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
        a.add_flow(FlowSpec { depth: 2, ..FlowSpec::new(qp, op, local) });
    }
    let config = MemoryConfig { chunks: 64, chunk_bytes: 8192, headroom_bytes: 256 };
    let mem = PacketMemory::new(config).expect("memory");
    Hosts { mem, ends, now: Time::ZERO, rx: Vec::new(), tx: Vec::new() }
}

impl Hosts {
    fn cross(&mut self, side: usize) -> usize {
        self.ends[side].rx_burst(&mut self.mem, self.now, &mut self.rx, 1).expect("up");
        let (start, end) = (self.now, self.now);
        for frame in self.rx.drain(..) {
            let (buf, data_off, len) = (frame.buf, frame.data_off, frame.len);
            self.tx.push(TxFrame { buf, data_off, len, wire_len: len, start, end });
        }
        let crossed = self.tx.len();
        self.ends[1 - side].tx_burst(&mut self.mem, self.now, &mut self.tx).expect("up");
        crossed
    }

    /// One data packet and what it causes.
    fn step(&mut self) {
        let next = self.ends[0].next_arrival().unwrap_or(self.now);
        self.now = self.now.max(next);
        self.cross(0);
        while self.cross(1) > 0 {}
    }
}

fn host(c: &mut Criterion) {
    let mut group = c.benchmark_group("host");
    group.throughput(Throughput::Elements(1));
    for (pairs, ack_every, payload) in [(1, 64, 1024), (1, 1, 1024), (64, 1, 1024), (64, 1, 256)] {
        let name = format!("{pairs}_qp_ack_every_{ack_every}_payload_{payload}");
        let mut hosts = hosts(pairs, ack_every, payload);
        group.bench_function(name, |b| b.iter(|| hosts.step()));
    }
    group.finish();
}

criterion_group!(benches, transport, host);
criterion_main!(benches);
