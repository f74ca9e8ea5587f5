//! End points face to face: a link in memory between two ports, without a device between.

use std::net::Ipv4Addr;
use std::sync::Arc;

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_tables::time::{Deadline, Span, Time};

use crate::frames::envelope::{Address, Class, Encap, mapped};
use crate::frames::{Frames, Mac};
use crate::ports::{LinkType, Port, RxFrame, TxFrame};
use crate::roce::memory::{Access, Bytes, Synthetic};
use crate::roce::opcode::Service;
use crate::roce::packet::{Bth, Deth, Headers, Leading};
use crate::roce::psn::Psn;
use crate::roce::qp::{PathMtu, QpConfig};
use crate::roce::rp::RateAlgorithm;
use crate::roce::verbs::{Remote, SendOp, SendWr, Sge};
use crate::tm::pfc::{FlowControlFrame, PfcFrame};
use crate::units::{BitsPerSec, Quanta};

use super::*;

mod device;

const MESSAGE: u32 = 10_000;

fn ip(n: u8) -> u128 {
    mapped(Ipv4Addr::new(10, 0, 0, n))
}

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

/// Two end points, a link without delay, and the frames that crossed it.
struct Rig {
    mem: PacketMemory,
    ends: [EndPointPort; 2],
    now: Time,
    crossed: [u64; 2],
    /// Frames to lose, counted from the first that crosses from the first end point.
    lose: Vec<u64>,
    /// Sets CE in every IPv4 data frame from the first end point.
    mark: bool,
}

fn address(encap: Encap) -> Address {
    match encap {
        Encap::RoceV2Ipv4 => Address::new(encap, mac(1), mac(2), ip(1), ip(2)),
        Encap::IbLocal => Address::new(encap, mac(1), mac(2), 1, 2),
        _ => {
            Address { slid: 1, dlid: 2, ..Address::new(encap, mac(1), mac(2), 1 << 112, 2 << 112) }
        }
    }
}

fn rig(encap: Encap) -> Rig {
    let config = MemoryConfig { chunks: 256, chunk_bytes: 8192, headroom_bytes: 256 };
    let address = address(encap);
    let frames = Frames::shared().unwrap();
    let ends = [(1, address.src), (2, address.dst)].map(|(n, own)| {
        let mut config = HostConfig::ethernet(&format!("host{n}"), mac(n), own);
        if encap.is_infiniband() {
            config.link = LinkType::Infiniband;
            config.link_overhead_bytes = 0;
        }
        EndPointPort::new(config, Arc::clone(&frames))
    });
    let mem = PacketMemory::new(config).unwrap();
    Rig { mem, ends, now: Time::ZERO, crossed: [0; 2], lose: Vec::new(), mark: false }
}

impl Rig {
    fn connect(&mut self, encap: Encap, algorithm: &str) -> (u32, u32) {
        self.connect_as(Service::Rc, encap, algorithm)
    }

    fn connect_as(&mut self, service: Service, encap: Encap, algorithm: &str) -> (u32, u32) {
        let [a, b] = &mut self.ends;
        let rate = RateAlgorithm::by_name(algorithm, 100e9).unwrap();
        let spec = PairSpec {
            address: address(encap),
            service,
            qp: QpConfig { ack_every: 4, ..QpConfig::new(rate) },
            options: ConnectOptions::default(),
        };
        connect_pair(a, b, &spec).unwrap()
    }

    /// A region of verified bytes at both ends; the keys.
    fn memory(&mut self, bytes: u64) -> [u32; 2] {
        [0, 1].map(|side: usize| {
            let memory = Box::new(Synthetic::new(7, bytes));
            self.ends[side].roce_mut().memory_mut().register(0, Access::ALL, memory).unwrap()
        })
    }

    /// Delivers pending frames, then advances to the next deadline; false when nothing more will happen.
    fn step(&mut self) -> bool {
        for side in 0..2 {
            let mut rx: Vec<RxFrame> = Vec::new();
            self.ends[side].rx_burst(&mut self.mem, self.now, &mut rx, 32).unwrap();
            for frame in rx {
                self.cross(side, frame);
            }
        }
        let next = self.ends.iter_mut().filter_map(|end| end.next_arrival()).min();
        match next {
            Some(at) => {
                self.now = self.now.max(at);
                true
            }
            None => false,
        }
    }

    fn cross(&mut self, side: usize, mut frame: RxFrame) {
        self.crossed[side] += 1;
        if side == 0 && self.lose.contains(&self.crossed[0]) {
            return self.mem.free(frame.buf);
        }
        if self.mark && side == 0 {
            let bytes = self.mem.frame_mut(&mut frame.buf, frame.data_off, frame.len).unwrap();
            assert_eq!(bytes[15] & 3, 2, "ECT(0)");
            bytes[15] |= 3;
            // RFC 1624: the word grew by one.
            let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
            bytes[24..26].copy_from_slice(&sum.wrapping_sub(1).to_be_bytes());
        }
        let (buf, data_off, len) = (frame.buf, frame.data_off, frame.len);
        let mut sent = vec![TxFrame::at_once(buf, data_off, len, Time::ZERO)];
        self.ends[1 - side].tx_burst(&mut self.mem, self.now, &mut sent).unwrap();
    }

    fn run_until(&mut self, end: Time) {
        while self.now < end && self.step() {}
    }

    fn give(&mut self, side: usize, bytes: &[u8]) {
        let buf = self.mem.alloc_frame(bytes).unwrap();
        let len = bytes.len() as u32;
        let mut sent = vec![TxFrame::at_once(buf, 256, len, Time::ZERO)];
        self.ends[side].tx_burst(&mut self.mem, self.now, &mut sent).unwrap();
    }

    fn verified(&self, side: usize, key: u32) -> (u64, u64) {
        let backing: &dyn std::any::Any = self.ends[side].roce().memory().backing(key).unwrap();
        let memory = backing.downcast_ref::<Synthetic>().unwrap();
        (memory.verified_bytes(), memory.wrong_bytes())
    }
}

#[test]
fn messages_arrive_whole_in_every_encapsulation() {
    for encap in Encap::ALL {
        let mut rig = rig(encap);
        let (qa, qb) = rig.connect(encap, "fixed");
        let keys = rig.memory(MESSAGE.into());
        let local = Sge { key: keys[0], va: 0, len: MESSAGE };
        let remote = Remote { va: 0, rkey: keys[1] };
        let limits = |spec| FlowSpec { messages: Some(5), depth: 2, ..spec };
        rig.ends[1].keep_receiving(qb, Sge { key: keys[1], ..local }, 8);
        for op in [FlowOp::Write(remote), FlowOp::Send, FlowOp::Read(remote)] {
            let before = (rig.verified(1, keys[1]).0, rig.verified(0, keys[0]).0);
            let flow = rig.ends[0].add_flow(limits(FlowSpec::new(qa, op, local)));
            rig.run_until(Time::MAX);
            let report = rig.ends[0].flow(flow).unwrap();
            assert_eq!(report.stats.completed, 5, "{} {op:?}: {report:?}", encap.name());
            assert!(report.stats.finished.is_some());
            let side = if matches!(op, FlowOp::Read(_)) { 0 } else { 1 };
            let from = if side == 0 { before.1 } else { before.0 };
            assert_eq!(rig.verified(side, keys[side]), (from + 5 * u64::from(MESSAGE), 0));
        }
        assert_eq!(rig.ends[1].received(qb), (5, 5 * u64::from(MESSAGE)));
        assert_eq!(rig.mem.free_chunks(), 256, "{}: no chunk is lost", encap.name());
    }
}

#[test]
fn the_last_message_of_a_flow_may_be_shorter() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(MESSAGE.into());
    let local = Sge { key: keys[0], va: 0, len: MESSAGE };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    let spec = FlowSpec { messages: Some(3), last: 7, ..FlowSpec::new(qa, op, local) };
    let flow = rig.ends[0].add_flow(spec);
    rig.run_until(Time::MAX);
    let bytes = 2 * u64::from(MESSAGE) + 7;
    let stats = rig.ends[0].flow(flow).unwrap().stats;
    assert_eq!((stats.completed, stats.completed_bytes), (3, bytes));
    assert_eq!(rig.verified(1, keys[1]), (bytes, 0));
}

#[test]
fn a_lost_packet_is_sent_again() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(MESSAGE.into());
    rig.lose = vec![3, 11, 12];
    let local = Sge { key: keys[0], va: 0, len: MESSAGE };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    let flow = rig.ends[0].add_flow(FlowSpec { messages: Some(3), ..FlowSpec::new(qa, op, local) });
    rig.run_until(Time::MAX);
    let report = rig.ends[0].flow(flow).unwrap();
    assert_eq!((report.stats.completed, rig.verified(1, keys[1])), (3, (30_000, 0)));
    assert!(report.qp.retransmitted_packets > 0 && report.qp.sequence_naks_received > 0);
}

#[test]
fn the_link_is_never_overbooked_and_is_shared() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let mut flows = Vec::new();
    for end in &mut rig.ends {
        end.config.rate = Some(BitsPerSec::gbit(10));
    }
    let keys = rig.memory(1 << 20);
    for _ in 0..4 {
        let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
        let local = Sge { key: keys[0], va: 0, len: 1 << 20 };
        let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
        flows.push(rig.ends[0].add_flow(FlowSpec::new(qa, op, local)));
    }
    let end = Time::from_ns(20_000_000);
    rig.run_until(end);
    let sent: Vec<u64> =
        flows.iter().map(|flow| rig.ends[0].flow(*flow).unwrap().qp.sent_packets).collect();
    // 1,024 bytes of payload, 58 of headers and ICRC, 24 of Ethernet; one RETH for each message.
    let most = 10e9 / 8.0 * 0.02 / 1106.0;
    let total: u64 = sent.iter().sum();
    assert!((total as f64) < most + 2.0 && total as f64 > most * 0.998, "{total} of {most}");
    assert!(sent.iter().all(|n| n.abs_diff(total / 4) <= 2), "{sent:?}");
}

#[test]
fn marks_become_cnps_and_lower_the_rate() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "dcqcn");
    let keys = rig.memory(1 << 20);
    let local = Sge { key: keys[0], va: 0, len: 1 << 20 };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    let flow = rig.ends[0].add_flow(FlowSpec::new(qa, op, local));
    rig.run_until(Time::from_ns(100_000));
    assert_eq!(rig.ends[0].flow(flow).unwrap().rate.rate_bps, 100e9);
    rig.mark = true;
    rig.run_until(Time::from_ns(300_000));
    // One at once, then one each 50 us.
    assert_eq!(rig.ends[1].counters().cnps_sent, 4);
    let report = rig.ends[0].flow(flow).unwrap();
    assert_eq!(report.qp.cnps_received, 4);
    assert!(report.rate.rate_bps < 30e9 && report.rate.estimate > 0.9, "{:?}", report.rate);
}

/// The partition, and on InfiniBand the service level, of the marked packet: with another a CNP does not arrive.
#[test]
fn a_cnp_is_of_the_partition_and_service_level_of_the_mark() {
    for (encap, sl, lane) in
        [(Encap::RoceV2Ipv4, 3, None), (Encap::IbLocal, 9, Some(1)), (Encap::IbGlobal, 2, Some(4))]
    {
        let mut rig = rig(encap);
        rig.ends[1].config.cnp.sl_to_vl.0[2] = 4;
        let (qa, qb) = rig.connect(encap, "dcqcn");
        let transport = &Frames::shared().unwrap().transport;
        let class = Class { dscp: 26, ecn: 3, pcp: sl, vl: 0 };
        let bth = Bth {
            opcode: 0x07,
            solicited: false,
            pad: 0,
            pkey: 0x8123,
            fecn: encap.is_infiniband(),
            becn: false,
            dest_qp: qb,
            ack_req: false,
            psn: Psn::new(0),
        };
        let (mut out, to) = ([0; 128], address(encap));
        let envelope = transport.envelope(&to, &class).unwrap();
        let built = transport.build_with(&envelope, &Headers::new(bth), 4, &mut out, |_| Ok(()));
        rig.give(1, &out[..built.unwrap()]);
        let mut sent = Vec::new();
        rig.ends[1].rx_burst(&mut rig.mem, rig.now, &mut sent, 1).unwrap();
        let cnp = rig.mem.frame(&sent[0].buf, sent[0].data_off, sent[0].len).to_vec();
        let link = rig.ends[1].config().link;
        let seen = transport.parse(link, &cnp).unwrap().packet.headers.bth;
        let opcode = if encap.is_infiniband() { 0x80 } else { 0x81 };
        assert_eq!((seen.opcode, seen.dest_qp, seen.pkey), (opcode, qa, 0x8123), "{encap:?}");
        if let Some(lane) = lane {
            assert_eq!((cnp[1] >> 4, cnp[0] >> 4), (sl, lane), "{encap:?}");
        }
        sent.drain(..).for_each(|frame| rig.mem.free(frame.buf));
    }
}

/// A packet from the first end point to a queue pair of the second that a switch marked.
fn marked(opcode: u8, dest_qp: u32, leading: Leading) -> Vec<u8> {
    let transport = &Frames::shared().unwrap().transport;
    let class = Class { dscp: 26, ecn: 3, pcp: 3, vl: 0 };
    let bth = Bth {
        opcode,
        solicited: false,
        pad: 0,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dest_qp,
        ack_req: false,
        psn: Psn::new(0),
    };
    let mut out = [0; 128];
    let envelope = transport.envelope(&address(Encap::RoceV2Ipv4), &class).unwrap();
    let headers = Headers { leading, ..Headers::new(bth) };
    let len = transport.build_with(&envelope, &headers, 4, &mut out, |_| Ok(())).unwrap();
    out[..len].to_vec()
}

/// Frames that an end point may send now.
fn sent(rig: &mut Rig, side: usize) -> Vec<Vec<u8>> {
    let mut rx: Vec<RxFrame> = Vec::new();
    rig.ends[side].rx_burst(&mut rig.mem, rig.now, &mut rx, 32).unwrap();
    let mut bytes = Vec::new();
    for frame in rx {
        bytes.push(rig.mem.frame(&frame.buf, frame.data_off, frame.len).to_vec());
        rig.mem.free(frame.buf);
    }
    bytes
}

#[test]
fn a_cnp_for_a_datagram_goes_to_its_source() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let back = address(Encap::RoceV2Ipv4).reversed();
    let other = Address { dst_mac: mac(9), dst: ip(9), ..back };
    rig.ends[1].add_path(&other).unwrap();
    rig.ends[1].add_path(&back).unwrap();
    let config = QpConfig::new(RateAlgorithm::fixed(1e9).unwrap());
    let qp = rig.ends[1].roce_mut().create_qp(Service::Ud, &config).unwrap();
    rig.give(1, &marked(0x64, qp, Leading::Deth(Deth { qkey: 0, src_qp: 0x55 })));
    let cnps = sent(&mut rig, 1);
    assert_eq!((cnps.len(), &cnps[0][..6]), (1, &mac(1).0[..]));
    let transport = &Frames::shared().unwrap().transport;
    let bth = transport.parse(LinkType::Ethernet, &cnps[0]).unwrap().packet.headers.bth;
    assert_eq!((bth.opcode, bth.dest_qp), (0x81, 0x55));
}

#[test]
fn a_pause_stops_cnps_of_its_class_and_one_of_all_classes_stops_requests_for_addresses() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (_, qb) = rig.connect_as(Service::Uc, Encap::RoceV2Ipv4, "dcqcn");
    let frames = Frames::shared().unwrap();
    let pause = |rig: &mut Rig, vector: u8| {
        let pfc = PfcFrame { vector, quanta: [Quanta::new(1000); 8] };
        rig.give(1, &frames.flow_control.build(mac(9), &FlowControlFrame::Pfc(pfc)));
        // 1,000 quanta at 100 Gbit/s.
        rig.now + Span::from_ns(5_120)
    };
    let end = pause(&mut rig, 1 << 6);
    rig.give(1, &marked(0x27, qb, Leading::None));
    assert_eq!((sent(&mut rig, 1).len(), rig.ends[1].next_arrival()), (0, Some(end)));
    rig.ends[1].ask(ip(1), None);
    assert_eq!(sent(&mut rig, 1).len(), 1, "the request");
    rig.now = end;
    assert_eq!(sent(&mut rig, 1).len(), 1, "the CNP");
    let end = pause(&mut rig, 0xff);
    rig.ends[1].ask(ip(1), None);
    assert_eq!((sent(&mut rig, 1).len(), rig.ends[1].next_arrival()), (0, Some(end)));
    rig.now = end;
    assert_eq!(sent(&mut rig, 1).len(), 1);
}

#[test]
fn pfc_stops_a_class_until_it_ends() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(1 << 20);
    let local = Sge { key: keys[0], va: 0, len: 1 << 20 };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    rig.ends[0].add_flow(FlowSpec::new(qa, op, local));
    rig.run_until(Time::from_ns(10_000));
    let frames = Frames::shared().unwrap();
    let pause = |vector: u8, quanta: u16| {
        let pfc = PfcFrame { vector, quanta: [Quanta::new(quanta); 8] };
        frames.flow_control.build(mac(9), &FlowControlFrame::Pfc(pfc))
    };
    // Another priority changes nothing.
    rig.give(0, &pause(1 << 2, 0xffff));
    let before = rig.crossed[0];
    rig.run_until(Time::from_ns(20_000));
    assert!(rig.crossed[0] > before + 50, "{}", rig.crossed[0]);
    // 1,000 quanta at 100 Gbit/s are 5.12 us; nothing leaves before they are over.
    let (start, before) = (rig.now, rig.crossed[0]);
    rig.give(0, &pause(1 << 3, 1000));
    while rig.crossed[0] == before && rig.step() {}
    let stopped = rig.now.since(start);
    assert!(stopped >= Span::from_ns(5_120) && stopped < Span::from_ns(5_400), "{stopped:?}");
    rig.give(0, &pause(1 << 3, 0xffff));
    rig.step();
    let before = rig.crossed[0];
    rig.run_until(Time::from_ns(40_000));
    assert_eq!(rig.crossed[0], before);
    rig.give(0, &pause(1 << 3, 0));
    rig.run_until(rig.now + Span::from_us(2));
    assert!(rig.crossed[0] > before && rig.ends[0].counters().pauses == 4);
    // A MAC control frame that is no flow control is counted.
    let mut bad = pause(1, 1);
    bad[14] = 9;
    rig.give(0, &bad);
    assert_eq!(rig.ends[0].counters().bad_mac_control, 1);
}

/// After changes by every source: a flow, the end of an unacknowledged message, the caller.
#[test]
fn what_comes_next_is_told_after_every_change() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, qb) = rig.connect_as(Service::Uc, Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(64);
    assert_eq!(rig.ends[0].next_arrival(), None);
    let local = Sge { key: keys[0], va: 0, len: 64 };
    let remote = Remote { va: 0, rkey: keys[1] };
    let start = Time::from_ns(5_000);
    let spec = FlowSpec { start, ..FlowSpec::new(qa, FlowOp::Write(remote), local) };
    rig.ends[0].add_flow(spec);
    assert_eq!(rig.ends[0].next_arrival(), Some(start));
    let mut frames = Vec::new();
    assert_eq!(rig.ends[0].rx_burst(&mut rig.mem, start, &mut frames, 9).unwrap(), 1, "a message");
    rig.cross(0, frames.remove(0));
    let next = rig.ends[0].next_arrival().expect("the next message");
    assert!(next > start, "{next:?}");
    assert_eq!(rig.verified(1, keys[1]), (64, 0));
    assert_eq!(rig.ends[1].next_arrival(), None);
    let (local, remote) = (Sge { key: keys[1], ..local }, Remote { rkey: keys[0], ..remote });
    let request = SendWr::new(1, SendOp::Write(remote), local);
    rig.ends[1].roce_mut().post_send(qb, request).unwrap().unwrap();
    let at = rig.ends[1].next_arrival().expect("the request of a caller");
    assert!(rig.ends[1].rx_burst(&mut rig.mem, at.max(start), &mut frames, 9).unwrap() > 0);
}

#[test]
fn addresses_are_asked_for_and_told() {
    for encap in [Encap::RoceV2Ipv4, Encap::RoceV2Ipv6] {
        let mut rig = rig(encap);
        let (a, b) = (address(encap).src, address(encap).dst);
        rig.ends[0].ask(b, None);
        rig.run_until(Time::MAX);
        assert_eq!(rig.ends[0].neighbour(b), Some(mac(2)));
        assert_eq!(rig.ends[1].counters().neighbour_answers, 1);
        rig.ends[0].ask(a ^ 77, None);
        rig.run_until(Time::MAX);
        assert_eq!(
            (rig.ends[0].neighbour(a ^ 77), rig.ends[1].counters().neighbour_answers),
            (None, 1)
        );
    }
}

#[test]
fn what_is_not_ours_or_not_right_is_counted() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(64);
    let local = Sge { key: keys[0], va: 0, len: 64 };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    rig.ends[0].add_flow(FlowSpec { messages: Some(1), ..FlowSpec::new(qa, op, local) });
    let mut rx = Vec::new();
    let now = rig.now;
    rig.ends[0].rx_burst(&mut rig.mem, now, &mut rx, 8).unwrap();
    let frame = rx.pop().unwrap();
    let mut bytes = rig.mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
    rig.mem.free(frame.buf);
    rig.give(0, &bytes);
    assert_eq!(rig.ends[0].counters().not_for_us, 1);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    rig.give(1, &bytes);
    let counters = rig.ends[1].counters().clone();
    assert_eq!(counters.refused[crate::frames::envelope::Refused::BadIcrc as usize], 1);
    rig.give(1, &[0; 60]);
    rig.give(1, &[]);
    assert_eq!(rig.ends[1].counters().refused.iter().sum::<u64>(), 3);
    assert_eq!(rig.ends[1].counters().delivered, 0);
}

#[test]
fn a_flow_starts_and_ends_on_time() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let keys = rig.memory(4096);
    let local = Sge { key: keys[0], va: 0, len: 4096 };
    let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
    let (start, end) = (Time::from_ns(5_000), Time::from_ns(50_000));
    let late = FlowSpec { start, end: Deadline::at(end), ..FlowSpec::new(qa, op, local) };
    let flow = rig.ends[0].add_flow(late);
    assert_eq!(rig.ends[0].next_arrival(), Some(start));
    rig.run_until(Time::from_ns(4_999));
    rig.run_until(Time::MAX);
    let stats = rig.ends[0].flow(flow).unwrap().stats;
    assert_eq!(stats.started, Some(start));
    assert_eq!(stats.posted, stats.completed);
    assert!(stats.last_completed.unwrap() < end + Span::from_us(1));
    // Four packets of 1,106 bytes (RETH in one) at 100 Gbit/s take 355 ns: 45 us have room for 127 messages.
    assert!((126..=128).contains(&stats.completed), "{stats:?}");
    assert!(stats.shortest.unwrap() >= Span::from_ns(250));
}

#[test]
fn real_memory_is_copied() {
    let mut rig = rig(Encap::RoceV2Ipv4);
    let (qa, _) = rig.connect(Encap::RoceV2Ipv4, "fixed");
    let from: Vec<u8> = (0..MESSAGE).map(|n| ((n * 31) >> 3) as u8).collect();
    let of = |end: &mut EndPointPort, bytes: Vec<u8>| {
        end.roce_mut().memory_mut().register(0x1000, Access::ALL, Box::new(Bytes(bytes))).unwrap()
    };
    let key = of(&mut rig.ends[0], from.clone());
    let rkey = of(&mut rig.ends[1], vec![0; MESSAGE as usize]);
    let local = Sge { key, va: 0x1000, len: MESSAGE };
    let op = FlowOp::Write(Remote { va: 0x1000, rkey });
    rig.ends[0].add_flow(FlowSpec { messages: Some(1), ..FlowSpec::new(qa, op, local) });
    rig.run_until(Time::MAX);
    let backing: &dyn std::any::Any = rig.ends[1].roce().memory().backing(rkey).unwrap();
    assert!(backing.downcast_ref::<Bytes>().unwrap().0 == from);
    assert_eq!(PathMtu::DEFAULT.packets(MESSAGE), 10);
}
