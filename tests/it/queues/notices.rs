//! CNPs: what a program reports, what the device sends, when, and where to.

use std::fs;

use wireyard_switch::core::Statistics;
use wireyard_switch::frames::Frames;
use wireyard_switch::ports::LinkType;
use wireyard_tables::time::{Span, Time};
use wireyard_tests::wires::{Fabric, Far, Passing};

use super::{device_with_ports, frame};

/// Forwards by destination address; reports CE in ingress, or marks and reports in egress.
fn program(in_ingress: bool, sender_qp: u32) -> String {
    let report = format!(
        "notify_congestion(80w0 ++ 16w0xffff ++ ipv4.src, 80w0 ++ 16w0xffff ++ ipv4.dst, bth.dqpn, \
         bth.opcode, 0, {sender_qp})"
    );
    let (ingress, egress) = match in_ingress {
        true => (
            format!("ipv4.ecn == 3 && bth.valid\n    then: [ \"{report}\" ]"),
            "1 == 2\n    then: [ exit ]".into(),
        ),
        false => (
            "1 == 2\n    then: [ exit ]".into(),
            format!("std.congestion_mark == 1\n    then: [ ipv4.ecn = 3, \"{report}\" ]"),
        ),
    };
    format!(
        "pipeline: notices
include: [ethernet, ip, l4, infiniband]
parser:
  start: {{ extract: ethernet, select: ethernet.ether_type, cases: {{ 0x0800: ipv4 }}, default: accept }}
  ipv4: {{ extract: ipv4, select: ipv4.protocol, cases: {{ 17: udp }}, default: accept }}
  udp: {{ extract: udp, select: udp.dst_port, cases: {{ 4791: bth }}, default: accept }}
  bth: {{ extract: bth }}
ingress:
  - std.ect = ipv4.ecn != 0
  - std.egress_port = bit<16>(ethernet.dst[7:0])
  - if: {ingress}
egress:
  - if: {egress}
deparser: {{ emit: [ethernet, ipv4, udp, bth] }}
checksums:
  - {{ field: ipv4.checksum, over: ipv4, when: ipv4.valid, verify: off, update: incremental }}
qos: {{ dscp: ipv4.dscp }}
"
    )
}

/// Runs the program on two ports; host n is behind port n.
fn rig(text: &str, config: &str) -> (Fabric, Vec<Far>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notices.yaml");
    fs::write(&path, text).unwrap();
    let (core, fars) = device_with_ports(path.to_str().unwrap(), config, 2);
    (Fabric::new(vec![core]), fars)
}

/// Times of the CNPs among these frames, each checked: a right ICRC, from `from` to `to`, to QP 0x118.
fn cnps(frames: &[Passing], from: u8, to: u8) -> Vec<Time> {
    let all = Frames::shared().unwrap();
    let mut times = Vec::new();
    for passing in frames.iter().filter(|f| f.bytes[42] == 0x81) {
        let seen = all.transport.parse(LinkType::Ethernet, &passing.bytes).unwrap();
        let address = all.transport.address_of(LinkType::Ethernet, &passing.bytes).unwrap();
        let ip = |host: u8| 0xffff_0a00_0000 | u128::from(host);
        assert_eq!((address.src, address.dst), (ip(from), ip(to)));
        assert_eq!((address.src_mac.0[5], address.dst_mac.0[5]), (from, to));
        let bth = seen.packet.headers.bth;
        assert_eq!((bth.dest_qp, bth.becn, bth.psn.get()), (0x118, true, 0));
        assert_eq!(bth.pkey, 0x8123, "that of the marked packet");
        assert_eq!(passing.bytes[15], 46 << 2 | 2, "DSCP and ECN as configured");
        times.push(passing.start);
    }
    times
}

/// A packet of partition 0x123.
fn of_partition(mut frame: Vec<u8>) -> Vec<u8> {
    frame[44..46].copy_from_slice(&[0x81, 0x23]);
    frame
}

const CONFIG: &str = "ports: { 1: {}, 2: {} }\ncongestion_notification: { dscp: 46 }\n";

/// Ingress saw CE: the first is answered at once out of the same port, the others once at the end of
/// the interval (SIGCOMM 2015, section 3.2).
#[test]
fn marks_that_arrive_are_answered_by_the_port_they_came_by() {
    let (mut fabric, fars) = rig(&program(true, 0x118), CONFIG);
    for us in [10, 20, 30, 200, 260] {
        let marked = of_partition(frame(1, 2, 26, 3, us as u32, 300));
        fars[0].send(Time::from_ns(us * 1000), &marked);
    }
    fars[0].send(Time::from_ns(25_000), &frame(1, 2, 26, 2, 0, 300));
    fabric.run_until(Time::from_ns(1_000_000));
    let us = |times: Vec<Time>| times.iter().map(|t| t.as_ns() / 1000).collect::<Vec<_>>();
    assert_eq!(us(cnps(&fars[0].take(), 2, 1)), [10, 60, 200, 260]);
    assert_eq!(fars[1].count(), 6);
    let report = fabric.cores[0].report();
    assert_eq!((report.received, report.generated, report.sent), (6, 4, 10));
    let notes = Statistics::of(&mut fabric.cores[0]).notification.unwrap();
    assert_eq!((notes.reported, notes.cnp_sent, notes.cnp_suppressed), (5, 4, 1));
    fabric.check();
}

/// Egress marked: the CNP is routed by the program as if the receiver had sent it.
#[test]
fn marks_that_egress_writes_are_answered_through_ingress() {
    let config = "ports: { 1: { rate: 100Gbps }, 2: { rate: 10Gbps } }
qos:
  wred_profiles: { roce: { green: { kmin: 1 KB, kmax: 1 KB, pmax: 100 % } } }
  port_defaults: { queue_wred: { 0: roce } }
congestion_notification: { dscp: 46, interval: 5 us }
";
    let (mut fabric, fars) = rig(&program(false, 0x118), config);
    for psn in 0..20 {
        fars[0].send(Time::ZERO, &of_partition(frame(1, 2, 26, 2, psn, 1000)));
    }
    fabric.run_until(Time::from_ns(1_000_000));
    let sent = fars[1].take();
    let marked: Vec<Time> = sent.iter().filter(|f| f.bytes[15] & 3 == 3).map(|f| f.start).collect();
    assert_eq!((sent.len(), marked.len()), (20, 18), "all but the two with 1 KB or less behind");
    let answered = cnps(&fars[0].take(), 2, 1);
    assert_eq!(answered[0], marked[0], "the first at once");
    let gaps: Vec<Span> = answered.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(gaps.iter().all(|gap| *gap >= Span::from_us(5)), "{gaps:?}");
    assert_eq!(
        answered.len(),
        4,
        "{answered:?}: 18 marks in 14.7 us, and the end of the last interval"
    );
    let report = fabric.cores[0].report();
    assert_eq!((report.received, report.generated, report.sent), (20, 4, 24));
    fabric.check();
}

/// Without the sender's queue pair no CNP can be addressed; that is counted.
#[test]
fn an_unknown_sender_is_counted() {
    let (mut fabric, fars) = rig(&program(true, 0), CONFIG);
    fars[0].send(Time::ZERO, &frame(1, 2, 26, 3, 1, 300));
    fabric.run_until(Time::from_ns(1_000_000));
    assert_eq!((fars[0].count(), fars[1].count()), (0, 1));
    let notes = Statistics::of(&mut fabric.cores[0]).notification.unwrap();
    assert_eq!((notes.cnp_sent, notes.cnp_no_qp_pair), (0, 1));
    fabric.check();
}
