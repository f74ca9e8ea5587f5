//! Open-loop marking (SONiC's test plan for the accuracy of ECN): block, fill, unblock, count.

use super::*;

struct Case {
    packets: u64,
    bytes: u64,
    kmin: u64,
    kmax: u64,
    percent: u64,
    /// Published expectation for decisions at dequeue.
    expected: f64,
}

const CASES: [Case; 5] = [
    Case {
        packets: 2_010,
        bytes: 1_000,
        kmin: 500_000,
        kmax: 2_000_000,
        percent: 5,
        expected: 46.525,
    },
    Case { packets: 910, bytes: 1_024, kmin: 500_000, kmax: 900_000, percent: 5, expected: 40.745 },
    Case {
        packets: 2_058,
        bytes: 1_024,
        kmin: 1 << 20,
        kmax: 2 << 20,
        percent: 5,
        expected: 34.625,
    },
    Case { packets: 210, bytes: 1_000, kmin: 5_000, kmax: 200_000, percent: 1, expected: 9.98 },
    Case {
        packets: 1_610,
        bytes: 1_048,
        kmin: 400_000,
        kmax: 1_600_000,
        percent: 20,
        expected: 197.46,
    },
];

impl Case {
    /// Mean and variance of the CE count; `position` returns the depth at which packet i (from 1) is decided.
    fn oracle(&self, position: impl Fn(u64) -> u64) -> (f64, f64) {
        let (mut mean, mut variance) = (0.0, 0.0);
        for i in 1..=self.packets {
            let q = position(i) * self.bytes;
            let p = match q {
                q if q <= self.kmin => 0.0,
                q if q > self.kmax => 1.0,
                q => {
                    (q - self.kmin) as f64 / (self.kmax - self.kmin) as f64 * self.percent as f64
                        / 100.0
                }
            };
            mean += p;
            variance += p * (1.0 - p);
        }
        (mean, variance)
    }

    fn run(&self, seed: u64, decide_at: DecideAt) -> Vec<bool> {
        let pmax = Probability::percent(self.percent).unwrap();
        let curve = Curve::new(self.kmin, self.kmax, pmax).unwrap();
        let mut out = port(100);
        let wred = WredConfig { curves: [Some(curve); 3], decide_at, not_ect: NotEct::Pass };
        out.queues[3].wred = Some(wred);
        let pools = vec![PoolConfig { shared_bytes: 10_000_000, headroom_bytes: 0 }; 2];
        let mut tm = Tm::new(Config {
            seed,
            packet_slots: 4096,
            stop_at_slots: u32::MAX,
            hold_slots: 0,
            cell_bytes: 0,
            pools,
        });
        tm.add_port(port(100)).unwrap();
        tm.add_port(out).unwrap();
        tm.set_blocked(Time::ZERO, PortId(1), true);
        for _ in 0..self.packets {
            let bytes = self.bytes as u32;
            assert_eq!(tm.enqueue(Time::ZERO, bytes, &to(3, bytes)), Ok(Admitted::Queued));
        }
        assert_eq!(tm.take(Time::ZERO, PortId(1)), None);
        tm.set_blocked(Time::ZERO, PortId(1), false);
        let left = drain(&mut tm, Time::ZERO, Time::MAX);
        let marks: Vec<bool> = left.iter().map(|(departure, _)| departure.mark).collect();
        let counters = tm.seen().port(PortId(1)).unwrap().queues[3].wred.unwrap();
        assert_eq!(counters.marked, marks.iter().filter(|mark| **mark).count() as u64);
        assert_eq!((counters.eligible, counters.dropped), (self.packets, 0));
        tm.seen().audit().unwrap();
        marks
    }

    fn judge(&self, decide_at: DecideAt, runs: u64, (mean, variance): (f64, f64)) {
        let total: usize = (0..runs)
            .map(|seed| self.run(seed, decide_at).into_iter().filter(|mark| *mark).count())
            .sum();
        let (mean, sd) = (mean * runs as f64, (variance * runs as f64).sqrt());
        assert!((total as f64 - mean).abs() < 4.0 * sd, "{total} marks, expected {mean} +- {sd}");
    }
}

#[test]
fn at_dequeue_the_first_is_marked_and_the_last_is_not() {
    for case in &CASES {
        let (mean, variance) = case.oracle(|i| case.packets - i);
        assert!((mean - case.expected).abs() < 0.01, "oracle {mean}, published {}", case.expected);
        case.judge(DecideAt::Dequeue, 50, (mean, variance));
        let marks = case.run(7, DecideAt::Dequeue);
        assert_eq!((marks.first(), marks.last()), (Some(&true), Some(&false)));
    }
}

#[test]
fn at_enqueue_the_depth_is_what_was_before() {
    for case in &CASES {
        case.judge(DecideAt::Enqueue, 50, case.oracle(|i| i - 1));
        let marks = case.run(7, DecideAt::Enqueue);
        assert_eq!((marks.first(), marks.last()), (Some(&false), Some(&true)));
    }
}

#[test]
fn without_ect_wred_drops_or_leaves_alone() {
    for (not_ect, decide_at) in [
        (NotEct::Drop, DecideAt::Dequeue),
        (NotEct::Drop, DecideAt::Enqueue),
        (NotEct::Pass, DecideAt::Dequeue),
    ] {
        let mut out = port(100);
        let curve = Curve::new(5_000, 5_000, Probability::ONE);
        out.queues[0].wred = Some(WredConfig { curves: [curve, None, None], decide_at, not_ect });
        let mut tm = manager([(1_000_000, 0), (1_000_000, 0)], &[port(100), out]);
        tm.set_blocked(Time::ZERO, PortId(1), true);
        let mut refused = 0;
        for i in 0..30 {
            let color = if i % 3 == 0 { Color::Red } else { Color::Green };
            let arrival = Arrival { ect: false, color, ..to(0, 1_000) };
            refused += usize::from(tm.enqueue(Time::ZERO, 1_000, &arrival).is_err());
        }
        tm.set_blocked(Time::ZERO, PortId(1), false);
        let left = drain(&mut tm, Time::ZERO, Time::MAX);
        let status = tm.seen().port(PortId(1)).unwrap();
        let dropped = status.queues[0].wred.unwrap().dropped;
        assert_eq!(status.drops[DropReason::Wred as usize].packets, dropped);
        assert!(left.iter().all(|(departure, _)| !departure.mark));
        assert_eq!(left.len() as u64 + dropped, 30);
        tm.seen().audit().unwrap();
        match (not_ect, decide_at) {
            (NotEct::Pass, _) => assert_eq!((dropped, refused), (0, 0)),
            // Depth 6 and more at enqueue; reds are never chosen. Each drop keeps the queue at that depth.
            (NotEct::Drop, DecideAt::Enqueue) => assert_eq!((dropped, refused), (16, 16)),
            // Depth after removal above 5: all greens among the first 24.
            (NotEct::Drop, DecideAt::Dequeue) => {
                assert_eq!((dropped, refused), (16, 0));
                let events = std::iter::from_fn(|| tm.next_event());
                assert_eq!(events.count(), 16);
            }
        }
    }
}

#[test]
fn marks_are_counted_by_depth_for_who_asks() {
    let mut out = port(100);
    let curve = Curve::new(5_000, 5_000, Probability::ONE);
    out.queues[3].wred = Some(WredConfig {
        curves: [curve; 3],
        decide_at: DecideAt::Dequeue,
        not_ect: NotEct::Pass,
    });
    let mut tm = manager([(1_000_000, 0), (1_000_000, 0)], &[port(100), out]);
    tm.observe_marking(PortId(1), 3, Some(MarkingHistogram::new(2_000, 4)));
    for ect in [true, true, true, true, true, true, true, true, true, true, true, true, false] {
        tm.enqueue(Time::ZERO, 1_000, &Arrival { ect, ..to(3, 1_000) }).unwrap();
    }
    drain(&mut tm, Time::ZERO, Time::MAX);
    // Depths of 1 to 12 KB behind the packets with ECT: marked above 5; from 8 KB on it is one bucket.
    let counted = tm.marking(PortId(1), 3).unwrap().buckets();
    assert_eq!(counted, [(1, 0), (2, 0), (2, 0), (2, 2), (5, 5)]);
    tm.set_wred(PortId(1), 3, WredConfig { curves: [None; 3], ..tm.wred(PortId(1), 3).unwrap() });
    assert_eq!(tm.wred(PortId(1), 3).unwrap().curves, [None; 3]);
    assert_eq!(tm.seen().port(PortId(1)).unwrap().queues[3].wred.unwrap().marked, 7);
    tm.observe_marking(PortId(1), 3, None);
    assert!(tm.marking(PortId(1), 3).is_none());
}
