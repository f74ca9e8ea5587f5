//! End points in their devices: `programs/roce_nic` on both sides of a wire, with queues and PFC.

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};

use crate::config::qos::{PortLink, QosConfig};
use crate::core::Core;
use crate::ports::memory::pair;
use crate::program::DeviceOptions;

use super::*;

/// The queues of a laboratory host: its end point is paused above 16 KB.
const QUEUES: &str = include_str!("../../lab/host/queues.json");

fn device(mem: &PacketMemory, n: u8, wire: Box<dyn Port>) -> Core {
    let program = nic_program().unwrap();
    let mut core = program.device_on(mem.worker(), DeviceOptions::default()).unwrap();
    let config: QosConfig = serde_json::from_str(QUEUES).unwrap();
    let link = |number, gbit| PortLink { number, rate: Some(BitsPerSec::gbit(gbit)) };
    let qos = config.resolve(&[link(WIRE_PORT, 10), link(END_POINT_PORT, 100)]).unwrap();
    core.set_qos(&qos).unwrap();
    core.ports_mut().set_mac(END_POINT_PORT, mac(n).0);
    core.add_port(WIRE_PORT, wire).unwrap();
    // Without a link rate of its own only the device can stop this end point.
    let config = HostConfig { rate: None, ..HostConfig::ethernet("end", mac(n), ip(n)) };
    let end = EndPointPort::new(config, Frames::shared().unwrap());
    core.add_port(END_POINT_PORT, Box::new(end)).unwrap();
    core
}

fn end(core: &mut Core) -> &mut EndPointPort {
    end_point(core, END_POINT_PORT).unwrap()
}

#[test]
fn its_own_device_holds_an_end_point_back_and_loses_nothing() {
    let config = MemoryConfig { chunks: 4096, chunk_bytes: 2048, headroom_bytes: 256 };
    let mem = PacketMemory::new(config).unwrap();
    let (one, two) = pair(&mem, ("one", "two"), LinkType::Ethernet, 1024);
    let mut cores = [device(&mem, 1, Box::new(one)), device(&mem, 2, Box::new(two))];
    let keys = [0, 1].map(|side: usize| {
        let memory = Box::new(Synthetic::new(7, 1 << 20));
        end(&mut cores[side]).roce_mut().memory_mut().register(0, Access::ALL, memory).unwrap()
    });
    // Four queue pairs at 10 Gbit/s each into a wire of 10 Gbit/s.
    let [a, b] = &mut cores;
    let mut qps = Vec::new();
    for _ in 0..4 {
        let rate = RateAlgorithm::by_name("fixed", 10e9).unwrap();
        let spec = PairSpec {
            address: address(Encap::RoceV2Ipv4),
            service: Service::Rc,
            qp: QpConfig::new(rate),
            options: ConnectOptions::default(),
        };
        let (qa, _) = connect_pair(end(a), end(b), &spec).unwrap();
        let local = Sge { key: keys[0], va: 0, len: 1 << 20 };
        let op = FlowOp::Write(Remote { va: 0, rkey: keys[1] });
        end(a).add_flow(FlowSpec { depth: 2, ..FlowSpec::new(qa, op, local) });
        qps.push(qa);
    }
    let (mut now, stop) = (Time::ZERO, Time::from_ns(10_000_000));
    while now < stop {
        for core in &mut cores {
            core.poll(now, None);
        }
        let next = cores.iter_mut().filter_map(|core| core.next_event_at(now)).min();
        now = next.unwrap_or(stop);
    }
    for core in &mut cores {
        let report = core.report();
        assert!(report.balanced && report.dropped.is_empty(), "{report:?}");
    }
    let sender = end(&mut cores[0]);
    let pauses = sender.counters().pauses;
    let sent: Vec<u64> =
        qps.iter().map(|qp| sender.roce().qp(*qp).unwrap().counters().sent_packets).collect();
    let again: u64 =
        qps.iter().map(|qp| sender.roce().qp(*qp).unwrap().counters().retransmitted_packets).sum();
    assert!(pauses > 100 && again == 0, "{pauses} pauses, {again} packets sent again");
    // 1,106 bytes on the wire for 1,024 of payload: the wire was never idle, and every queue pair had its share.
    let most = 10e9 / 8.0 * 0.01 / 1106.0;
    let total: u64 = sent.iter().sum();
    assert!(total as f64 > most * 0.99 && (total as f64) < most + 64.0, "{total} of {most}");
    assert!(sent.iter().all(|n| n.abs_diff(total / 4) < total / 40), "{sent:?}");
}
