//! The open-loop test of marking: a blocked port, packets in, unblocked, CE by position.

use wireyard_switch::core::Core;
use wireyard_switch::ports::PortNumber;
use wireyard_switch::program::EngineKind;
use wireyard_tables::time::{Span, Time};
use wireyard_tests::binary::run;
use wireyard_tests::wires::{Fabric, Far};

use super::{device_on, device_with_ports, frame, is_ce, with_ports};

pub(crate) struct Curve {
    pub(crate) kmin: u64,
    pub(crate) kmax: u64,
    pub(crate) pmax_percent: f64,
    pub(crate) packets: usize,
    pub(crate) bytes: usize,
}

impl Curve {
    /// `p` with so many bytes behind the packet.
    pub(crate) fn p(&self, q: u64) -> f64 {
        let ramp = (q.saturating_sub(self.kmin)) as f64 / (self.kmax - self.kmin) as f64;
        if q > self.kmax { 1.0 } else { ramp * self.pmax_percent / 100.0 }
    }

    fn device(&self, decide_at: &str) -> (Core, Vec<Far>) {
        let curve = format!(
            "{{ kmin: {} B, kmax: {} B, pmax: {} % }}",
            self.kmin, self.kmax, self.pmax_percent
        );
        let config = format!(
            "ports: {{ 1: {{}}, 2: {{ rate: 100Gbps }} }}\n\
             qos:\n  wred_profiles: {{ roce: {{ green: {curve}, decide_at: {decide_at} }} }}\n  \
             dscp_to_tc_maps: {{ roce: {{ 26: 3, default: 0 }} }}\n  \
             port_defaults: {{ dscp_to_tc_map: roce, queue_wred: {{ 3: roce }} }}\n"
        );
        device_with_ports("rocev2_lossless", &config, 2)
    }

    /// CE by position, 1 or 0 for each packet, summed over runs; and the totals of each run.
    fn run(&self, runs: u64, decide_at: &str) -> (Vec<u32>, Vec<u32>) {
        let (core, fars) = self.device(decide_at);
        let mut fabric = Fabric::new(vec![core]);
        let (mut by_position, mut totals) = (vec![0; self.packets], Vec::new());
        for run in 0..runs {
            let begin = Time::from_ns(run * 10_000_000);
            fabric.run_until(begin);
            fabric.cores[0].block(begin, PortNumber(2), true);
            for psn in 0..self.packets {
                fars[0].send(begin, &frame(1, 2, 26, 2, psn as u32, self.bytes));
            }
            fabric.run_until(begin + Span::from_us(10));
            assert_eq!(fars[1].count(), 0, "the port is blocked");
            let status = fabric.cores[0].port_status(PortNumber(2)).unwrap();
            assert_eq!(status.queues[3].bytes, (self.packets * self.bytes) as u64);
            fabric.cores[0].block(begin + Span::from_us(10), PortNumber(2), false);
            fabric.run_until(begin + Span::from_ms(5));
            let sent = fars[1].take();
            assert_eq!(sent.len(), self.packets);
            let marks: Vec<u32> = sent.iter().map(|f| u32::from(is_ce(&f.bytes))).collect();
            totals.push(marks.iter().sum());
            by_position.iter_mut().zip(&marks).for_each(|(sum, mark)| *sum += mark);
        }
        fabric.check();
        let counters = fabric.cores[0].port_status(PortNumber(2)).unwrap().queues[3].wred.unwrap();
        assert_eq!(counters.marked, u64::from(totals.iter().sum::<u32>()));
        assert_eq!(counters.written, counters.marked);
        assert_eq!(counters.eligible, runs * self.packets as u64);
        (by_position, totals)
    }

    /// Bytes behind packet `position` (from 0) when it leaves.
    pub(crate) fn behind(&self, position: usize) -> u64 {
        ((self.packets - 1 - position) * self.bytes) as u64
    }
}

/// The mean of `totals` is within four standard deviations of what binomials with these `p` give.
#[track_caller]
pub(crate) fn agrees(totals: &[u32], p: impl Iterator<Item = f64>) -> f64 {
    let (mean, variance) = p.fold((0.0, 0.0), |(m, v), p| (m + p, v + p * (1.0 - p)));
    let runs = totals.len() as f64;
    let measured = f64::from(totals.iter().sum::<u32>()) / runs;
    let limit = 4.0 * (variance / runs).sqrt();
    assert!((measured - mean).abs() <= limit, "{measured} marks, expected {mean} +- {limit}");
    mean
}

pub(crate) const DCQCN: Curve =
    Curve { kmin: 5_000, kmax: 200_000, pmax_percent: 1.0, packets: 210, bytes: 1000 };

/// By the binomial law: 9.98 +- 0.99 marks of 210 packets.
#[test]
fn marks_follow_the_curve_at_dequeue() {
    let (by_position, totals) = DCQCN.run(200, "dequeue");
    let mean = agrees(&totals, (0..DCQCN.packets).map(|i| DCQCN.p(DCQCN.behind(i))));
    assert!((mean - 9.98).abs() < 0.01, "{mean}");
    assert_eq!(by_position[..9], [200; 9], "above kmax every packet is marked");
    assert_eq!(by_position[205..], [0; 5], "at kmin and below none is");
}

/// By the binomial law: 400K/1600K/20 %, 197.46 +- 9.96 marks of 1610 packets; and by depth.
#[test]
fn marks_follow_the_curve_in_every_bucket_of_depth() {
    let curve =
        Curve { kmin: 400_000, kmax: 1_600_000, pmax_percent: 20.0, packets: 1610, bytes: 1048 };
    let runs = 50;
    let (by_position, totals) = curve.run(runs, "dequeue");
    let mean = agrees(&totals, (0..curve.packets).map(|i| curve.p(curve.behind(i))));
    assert!((mean - 197.46).abs() < 0.6, "{mean}");
    for bucket in 0..8u64 {
        let depths = bucket * 200_000..(bucket + 1) * 200_000;
        let inside = |i: &usize| depths.contains(&curve.behind(*i));
        let positions: Vec<usize> = (0..curve.packets).filter(inside).collect();
        let (mut mean, mut variance) = (0.0, 0.0);
        for &i in &positions {
            let p = curve.p(curve.behind(i));
            (mean, variance) = (mean + p, variance + p * (1.0 - p));
        }
        let (mean, variance) = (mean * runs as f64, variance * runs as f64);
        let marks: u32 = positions.iter().map(|&i| by_position[i]).sum();
        let off = (f64::from(marks) - mean).abs();
        assert!(off <= 4.0 * variance.sqrt() + 1e-9, "{depths:?}: {marks} marks, expected {mean}");
    }
}

#[test]
fn marks_at_enqueue_are_those_of_the_last_packets() {
    let (by_position, totals) = DCQCN.run(100, "enqueue");
    agrees(&totals, (0..DCQCN.packets).map(|i| DCQCN.p((i * DCQCN.bytes) as u64)));
    assert_eq!((by_position[0], by_position[209]), (0, 100));
}

#[test]
fn the_same_seed_gives_the_same_marks() {
    assert_eq!(DCQCN.run(3, "dequeue"), DCQCN.run(3, "dequeue"));
}

/// A packet that cannot be marked is not, and a port at a rate sends at that rate.
#[test]
fn not_ect_is_left_alone_and_the_rate_is_kept() {
    let (core, fars) = DCQCN.device("dequeue");
    let mut fabric = Fabric::new(vec![core]);
    for psn in 0..210 {
        fars[0].send(Time::ZERO, &frame(1, 2, 26, 0, psn, 1000));
    }
    fabric.run_until(Time::from_ns(100_000));
    let sent = fars[1].take();
    assert!(sent.iter().all(|f| !is_ce(&f.bytes)));
    // 1000 bytes, 4 of FCS, 20 of preamble and gap at 100 Gbit/s: 81,920 ps each.
    let starts: Vec<u64> = sent.iter().map(|f| f.start.as_ps()).collect();
    assert_eq!(starts, (0..210).map(|n| n * 81_920).collect::<Vec<_>>());
    fabric.check();
}

/// Decisions to mark are counted as marks only where the program writes one, by whatever way its code takes.
#[test]
fn what_is_counted_as_marked_was_written() {
    let never = [
        "",
        "egress: [ ethernet.src = 5 ]",
        "egress: [ { if: std.congestion_mark == 1, then: [ meta.a = 1 ] }, ethernet.src = 5 ]",
        "egress: [ { if: std.congestion_mark == 1, then: [ drop ] } ]",
    ];
    let always = [
        "egress: [ { if: std.congestion_mark == 1, then: [ ethernet.src = 5 ] } ]",
        "egress: [ { if: std.congestion_mark == 0, then: [ nop ], else: [ ethernet.src = 5 ] } ]",
        "egress: [ 'ethernet.src[0:0] = std.congestion_mark' ]",
        "egress: [ { if: std.congestion_mark == 1, then: [ mark(5) ] } ]",
        "egress: [ mark(47w0 ++ std.congestion_mark) ]",
        "egress: [ meta.a = std.congestion_mark, { if: meta.a == 1, then: [ ethernet.src = 5 ] } ]",
        "egress: [ { apply: marks } ]",
    ];
    for (egress, is_written) in
        never.iter().map(|e| (e, false)).chain(always.iter().map(|e| (e, true)))
    {
        for engine in [EngineKind::Interp, EngineKind::Jit] {
            let (decided, written) = count_marks(egress, engine);
            let expected = if is_written { decided } else { 0 };
            assert!(decided > 0, "{egress}");
            assert_eq!(written, expected, "{egress} [{}]", engine.name());
        }
    }
}

/// Decisions and marks of a queue with 20 packets, all above `kmax` but the last.
fn count_marks(egress: &str, engine: EngineKind) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.yaml");
    let text = format!(
        "pipeline: example\ninclude: [ethernet]\nmetadata: {{ a: 1 }}\n\
         parser: {{ start: {{ extract: ethernet, next: accept }} }}\n\
         actions: {{ mark: {{ params: {{ src: 48 }}, do: [ ethernet.src = src ] }} }}\n\
         tables: {{ marks: {{ key: {{ std.congestion_mark: exact }}, actions: [mark, nop], default: nop, \
         entries: [ {{ match: {{ std.congestion_mark: 1 }}, action: mark(5) }} ] }} }}\n\
         ingress: [ std.ect = 1, std.egress_port = 2 ]\n{egress}\n"
    );
    std::fs::write(&program, text).unwrap();
    let config = "ports: { 1: {}, 2: { rate: 10Gbps } }\nqos:\n  \
        wred_profiles: { all: { green: { kmin: 1 B, kmax: 2 B, pmax: 100 % } } }\n  \
        port_defaults: { queue_wred: { 0: all } }\n";
    let core = device_on(program.to_str().unwrap(), config, &[1, 2], engine);
    let (core, fars) = with_ports(core, &[1, 2]);
    let mut fabric = Fabric::new(vec![core]);
    for psn in 0..20 {
        fars[0].send(Time::ZERO, &frame(1, 2, 0, 2, psn, 100));
    }
    fabric.run_until(Time::from_ns(100_000));
    fabric.check();
    let wred = fabric.cores[0].port_status(PortNumber(2)).unwrap().queues[0].wred.unwrap();
    (wred.marked, wred.written)
}

/// `check` says that a curve marks nothing: the program does not ask for it, or makes nothing of it.
#[test]
fn check_warns_of_curves_that_mark_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let curve = "qos:\n  wred_profiles: { all: { green: { kmin: 1 KB, kmax: 2 KB, pmax: 100 % } } }\n  \
                 port_defaults: { queue_wred: { 0: all } }\n";
    let check = |ingress: &str, egress: &str, rate: &str| {
        let program = folder.path().join("program.yaml");
        let text = format!(
            "pipeline: example\ninclude: [ethernet]\n\
             parser: {{ start: {{ extract: ethernet, next: accept }} }}\n\
             ingress: [ {ingress}std.egress_port = 2 ]\negress: [ {egress} ]\n"
        );
        std::fs::write(&program, text).unwrap();
        std::fs::write(&config, format!("ports: {{ 2: {{ {rate} }} }}\n{curve}")).unwrap();
        run(&["check", program.to_str().unwrap(), "--config", config.to_str().unwrap()])
    };
    let (ect, mark) =
        ("std.ect = 1, ", "{ if: std.congestion_mark == 1, then: [ ethernet.src = 5 ] }");
    let rate = "rate: 1Gbps";
    let good = check(ect, mark, rate).expect(0, &[]).out.clone();
    assert!(good.contains("0 warnings"), "{good}");
    for (ingress, egress, rate, why) in [
        (ect, "nop", rate, "never reads std.congestion_mark"),
        ("", mark, rate, "never assigns std.ect"),
        (ect, mark, "", "has no rate"),
    ] {
        let ended = check(ingress, egress, rate);
        let out = &ended.expect(0, &[]).out;
        assert!(out.contains(why) && out.contains("1 warning"), "{why}: {out}");
    }
}
