//! Priority flow control between two devices, and against frames that lie.

use wireyard_switch::core::Core;
use wireyard_switch::frames::flow_control::FRAME_BYTES;
use wireyard_switch::frames::{Frames, Mac};
use wireyard_switch::ports::PortNumber;
use wireyard_switch::tm::{FlowControlFrame, PfcFrame};
use wireyard_switch::units::{BitsPerSec, Quanta};
use wireyard_tables::time::{Span, Time};
use wireyard_tests::wires::{Fabric, Far, link, open_line};

use super::{device, device_with_ports, frame};

/// Largest frame in memory; with its FCS it is the MTU of 1518 bytes.
const FULL: usize = 1514;
/// Two largest frames with preamble and gap, a PFC frame, and 2 x 5 m of cable at 100 Gbit/s.
const FORMULA: u64 = 2 * 1538 + 84 + 625;

/// Priority 3 is lossless between all ports, everything else is not.
pub(super) fn config(headroom: &str, ports: &str) -> String {
    format!(
        "ports: {ports}
qos:
  allow_lossy_headroom: true
  buffer_pools: {{ in: {{ direction: ingress, size: 4 MB }}, out: {{ direction: egress, size: 16 MB }} }}
  buffer_profiles:
    ingress_lossy: {{ pool: in, static_th: 200 KB }}
    egress_lossy: {{ pool: out, static_th: 200 KB }}
    lossless: {{ pool: in, static_th: 100 KB, headroom: {headroom}, xon_at: 60 KB }}
    egress_lossless: {{ pool: out, static_th: 16 MB }}
  dscp_to_tc_maps: {{ roce: {{ 26: 3, default: 0 }} }}
  port_defaults:
    dscp_to_tc_map: roce
    pfc_enable: [3]
    priority_groups: {{ 3: lossless, default: ingress_lossy }}
    queue_buffers: {{ 3: egress_lossless, default: egress_lossy }}
    mtu: 1518 B
    cable: 5 m
    peer_response: 0 ns
    interface_delay: 0 ns
"
    )
}

/// Two devices: 1 of the first is the source's, 2 of the second the sink's, at 1 Gbit/s; the cable
/// between them has 100 Gbit/s and 25 ns. Nothing leaves to the sink while a pause is on its way: that
/// is the case for which headroom is made.
struct Pair {
    fabric: Fabric,
    source: Far,
    sink: Far,
}

impl Pair {
    fn new(headroom: &str) -> Pair {
        let fast = config("auto", "{ 1: { rate: 100Gbps }, 2: { rate: 100Gbps } }");
        let slow = config(headroom, "{ 1: { rate: 100Gbps }, 2: { rate: 1Gbps } }");
        let mut one: Core = device("rocev2_lossless", &fast, &[1, 2]);
        let mut two: Core = device("rocev2_lossless", &slow, &[1, 2]);
        let (from_source, source) = open_line();
        let (to_sink, sink) = open_line();
        let (left, right) = link(Span::from_ns(25));
        one.add_port(PortNumber(1), Box::new(from_source)).unwrap();
        one.add_port(PortNumber(2), Box::new(left)).unwrap();
        two.add_port(PortNumber(1), Box::new(right)).unwrap();
        two.add_port(PortNumber(2), Box::new(to_sink)).unwrap();
        Pair { fabric: Fabric::new(vec![one, two]), source, sink }
    }

    /// Sends `packets` through, always as many as the first device can send, against full frames in
    /// the other direction so that pauses have to wait. Returns how many arrived.
    fn overload(&mut self, packets: u32) -> u32 {
        let (mut sent, mut back, mut arrived) = (0, 0, 0);
        loop {
            let now = self.fabric.now;
            let queued = |core: &Core, port, queue| {
                let id = core.ports().traffic_port(PortNumber(port));
                id.map_or(0, |id| core.manager().tm.queue_bytes(id, queue))
            };
            if sent < packets && queued(&self.fabric.cores[0], 2, 3) < 16 * FULL as u64 {
                for _ in 0..16.min(packets - sent) {
                    self.source.send(now, &frame(1, 2, 26, 2, sent, FULL));
                    sent += 1;
                }
            }
            let group = self.fabric.cores[1].port_status(PortNumber(1)).unwrap().groups[3];
            let pause_is_near = !group.xoff && group.account.total() > 75_000;
            let is_short = queued(&self.fabric.cores[1], 1, 0) < 4 * FULL as u64;
            if sent < packets && is_short && pause_is_near {
                // Another length, so that the phase between both directions moves.
                for _ in 0..4 {
                    self.sink.send(now, &frame(2, 1, 0, 0, back, FULL - 37));
                    back += 1;
                }
            }
            if !self.fabric.step(Time::MAX) {
                return arrived;
            }
            arrived += self.sink.count() as u32;
            self.source.count();
            let is_empty = self.fabric.cores.iter().all(|core| core.queued() == 0);
            if sent == packets && is_empty && self.fabric.now > now + Span::from_us(1) {
                return arrived;
            }
        }
    }
}

fn drops(core: &Core) -> Vec<(String, u64)> {
    core.report().dropped
}

/// With headroom by the formula nothing is lost, whatever the phase of frames.
#[test]
fn a_lossless_class_loses_nothing_with_headroom_by_the_formula() {
    let packets = if std::env::var_os("CI").is_some() { 1_000_000 } else { 200_000 };
    let mut pair = Pair::new("auto");
    assert_eq!(pair.overload(packets), packets);
    pair.fabric.check();
    let [one, two] = &mut pair.fabric.cores[..] else { unreachable!() };
    assert_eq!((drops(one), drops(two)), (vec![], vec![]));
    let group = two.port_status(PortNumber(1)).unwrap().groups[3];
    assert!(group.account.peak_headroom <= FORMULA, "{}", group.account.peak_headroom);
    assert!(group.account.peak_headroom > FORMULA - 1518, "{}", group.account.peak_headroom);
    assert!(group.counters.xoff > u64::from(packets) / 200, "{:?}", group.counters);
    assert_eq!(group.counters.not_honoured, 0);
    let (said, heard) = (
        two.port_status(PortNumber(1)).unwrap().pauses,
        one.port_status(PortNumber(2)).unwrap().pauses,
    );
    assert_eq!((said.tx_xoff, said.tx_xon), (heard.rx_xoff, heard.rx_xon));
    assert_eq!(one.report().consumed_for("mac_control"), said.tx_xoff[3] + said.tx_xon[3]);
}

/// With one largest frame less, packets are lost, by name: the edge is where the formula says.
#[test]
fn headroom_one_frame_too_small_loses() {
    let mut pair = Pair::new(&format!("{} B", FORMULA - 1518));
    let arrived = pair.overload(20_000);
    pair.fabric.check();
    let lost = pair.fabric.cores[1].report().dropped_for("headroom_exhausted");
    assert!(lost > 0);
    assert_eq!(u64::from(arrived) + lost, 20_000);
    assert_eq!(drops(&pair.fabric.cores[0]), []);
}

pub(crate) fn pfc(priority: u8, quanta: u16) -> [u8; FRAME_BYTES] {
    let frames = Frames::shared().unwrap();
    let frame = PfcFrame { vector: 1 << priority, quanta: [Quanta::new(quanta); 8] };
    frames.flow_control.build(Mac([2, 0, 0, 0, 0, 9]), &FlowControlFrame::Pfc(frame))
}

/// A device that sends both classes to port 2 at 100 Gbit/s for 100 us.
fn sending() -> (Fabric, Vec<Far>) {
    let config = config("auto", "{ 1: { rate: 100Gbps }, 2: { rate: 100Gbps } }");
    let (core, fars) = device_with_ports("rocev2_lossless", &config, 2);
    let mut fabric = Fabric::new(vec![core]);
    for n in 0..400u32 {
        let at = Time::from_ns(u64::from(n) * 246);
        fars[0].send(at, &frame(1, 2, if n.is_multiple_of(2) { 26 } else { 0 }, 2, n, FULL));
        fars[0].send(at, &frame(1, 2, if n.is_multiple_of(2) { 0 } else { 26 }, 2, n, FULL));
    }
    fabric.run_until(Time::from_ns(20_000));
    (fabric, fars)
}

fn is_lossless(frame: &[u8]) -> bool {
    frame[15] >> 2 == 26
}

/// A pause holds from the next frame on, for as long as it says, and only its priority.
#[test]
fn quanta_are_obeyed_within_one_frame_time() {
    let (mut fabric, fars) = sending();
    let begin = fabric.now;
    let pause = Quanta::new(2000).span(BitsPerSec::gbit(100));
    fars[1].send(begin, &pfc(3, 2000));
    fabric.run_until(Time::from_ns(100_000));
    let sent = fars[1].take();
    let one_frame = Span::from_ns(124);
    let paused = begin + one_frame..begin + pause;
    let inside = |f: &&wireyard_tests::wires::Passing| paused.contains(&f.start);
    assert_eq!(sent.iter().filter(inside).filter(|f| is_lossless(&f.bytes)).count(), 0);
    let lossy = sent.iter().filter(inside).filter(|f| !is_lossless(&f.bytes)).count();
    assert!(lossy > 35, "{lossy} lossy frames went on");
    let after = begin + pause..begin + pause + one_frame + one_frame;
    let resumed = sent.iter().filter(|f| after.contains(&f.start) && is_lossless(&f.bytes));
    assert!(resumed.count() > 0, "it resumes when the time is over");
    assert_eq!(drops(&fabric.cores[0]), []);
    let pauses = fabric.cores[0].port_status(PortNumber(2)).unwrap().pauses;
    assert_eq!((pauses.rx_xoff[3], pauses.paused[3]), (1, pause));
    fabric.check();
}

/// Zero quanta resume at once; a pause for a priority that is not enabled is counted and ignored.
#[test]
fn zero_resumes_and_other_priorities_are_ignored() {
    let (mut fabric, fars) = sending();
    let begin = fabric.now;
    fars[1].send(begin, &pfc(3, 65_535));
    fars[1].send(begin, &pfc(0, 65_535));
    fars[1].send(begin + Span::from_us(10), &pfc(3, 0));
    fabric.run_until(Time::from_ns(150_000));
    let pauses = fabric.cores[0].port_status(PortNumber(2)).unwrap().pauses;
    assert_eq!((pauses.paused[3], pauses.rx_ignored), (Span::from_us(10), 1));
    assert_eq!((fabric.cores[0].queued(), drops(&fabric.cores[0])), (0, vec![]));
    fabric.check();
}

/// Pauses of priority 3 that are not right, and what they are counted as.
pub(crate) fn wrong_pauses() -> Vec<(&'static str, Vec<u8>)> {
    type Spoil = fn(&mut Vec<u8>);
    let wrong: [(&str, Spoil); 5] = [
        ("mac_control_length", |b| b.truncate(40)),
        ("mac_control_length", |b| b.resize(1000, 0)),
        ("mac_control_address", |b| b[5] = 2),
        ("mac_control_opcode", |b| b[15] = 2),
        ("pfc_vector", |b| b[16] = 1),
    ];
    let spoilt = |(name, change): (&'static str, Spoil)| {
        let mut bytes = pfc(3, u16::MAX).to_vec();
        change(&mut bytes);
        (name, bytes)
    };
    wrong.into_iter().map(spoilt).collect()
}

/// What is not a right pause is consumed under its name and never obeyed.
#[test]
fn wrong_pauses_are_not_obeyed() {
    for (name, bytes) in wrong_pauses() {
        let (mut fabric, fars) = sending();
        fars[1].send(fabric.now, &bytes);
        fabric.run_until(Time::from_ns(150_000));
        let core = &mut fabric.cores[0];
        assert_eq!(
            (core.report().consumed_for(name), core.report().consumed_for("mac_control")),
            (1, 0),
            "{name}"
        );
        assert_eq!(core.port_status(PortNumber(2)).unwrap().pauses.paused[3], Span::ZERO);
        assert_eq!(core.queued(), 0, "{name}: everything was sent");
        fabric.check();
    }
}
