//! [`Tm::pass_queue`] against [`Tm::enqueue`] and [`Tm::begin`]: the same traffic, the same everything.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Packet { ingress: u16, egress: u16, queue: u8, bytes: u32, ect: bool, abort: bool },
    Outside(Outside),
    Later { ns: u64 },
    ClearWatermarks,
    Hold { ns: u64 },
    Control { port: u16 },
    Copies { bytes: u32 },
    Limit { bytes: u64 },
}

fn ops() -> impl Strategy<Value = Op> {
    let port = 0u16..3;
    let packet = (port.clone(), port, 0u8..9, 1u32..3_000, any::<bool>(), any::<u8>());
    prop_oneof![
        12 => packet.prop_map(|(ingress, egress, queue, bytes, ect, n)| {
            Op::Packet { ingress, egress, queue, bytes, ect, abort: n < 20 }
        }),
        3 => outside().prop_map(Op::Outside),
        // As often long enough for a port to stand idle as not.
        12 => (0u64..4_000).prop_map(|ns| Op::Later { ns }),
    ]
}

/// Ports with everything that a packet may meet: strict queues, weights, guaranteed rates, marks at either end, a little
/// memory and a lossless class; the first has a watchdog, the last one is shaped.
fn traffic() -> Tm<u32> {
    let curve = |kmax| Curve::new(500, kmax, Probability::percent(60).unwrap());
    let wred = |decide_at| WredConfig {
        curves: [curve(4_000), None, None],
        decide_at,
        not_ect: NotEct::Drop,
    };
    let rate = ShaperConfig { rate: BitsPerSec::gbit(2), burst_bytes: 2_000 };
    let mut config = port(10);
    for number in 0..CLASSES {
        config.queues[number].account = account(EGRESS, Limit::Static(9_000));
        config.groups[number].account = account(INGRESS, Limit::Static(9_000));
        config.queues[number].service.service = match number {
            6.. => Service::Strict,
            number => Service::Dwrr { weight: 1 + number as u16 },
        };
    }
    config.queues[1].wred = Some(wred(DecideAt::Dequeue));
    config.queues[2].wred = Some(wred(DecideAt::Enqueue));
    config.queues[4].service.min = Some(rate);
    config.groups[3].lossless =
        Some(LosslessConfig { headroom_bytes: 4_000, xon: Xon::AtBytes(1_000) });
    config.groups[3].account.limit = Limit::Static(2_500);
    config.flow_control =
        FlowControlConfig { mode: FlowControl::Pfc, enabled: 0xff, ..FlowControlConfig::default() };
    let mut shaped = config.clone();
    shaped.queues[5].service.max = Some(rate);
    let mut watched = config.clone();
    watched.watchdog = Some(WatchdogConfig {
        queues: 0xff,
        detection: Span::from_us(4),
        restoration: Span::from_us(3),
        poll: Span::from_us(1),
        action: StormAction::Drop,
    });
    manager([(30_000, 8_000), (30_000, 0)], &[watched, config, shaped])
}

/// A traffic manager with what came out of it.
struct Side {
    tm: Tm<u32>,
    may_pass: bool,
    alone: u32,
    out: Vec<String>,
}

impl Side {
    fn new(may_pass: bool) -> Side {
        Side { tm: traffic(), may_pass, alone: 0, out: Vec::new() }
    }

    fn leave(&mut self, now: Time, id: PortId, departure: Departure<u32>, abort: bool) {
        if abort {
            self.tm.abort(now, id);
        } else {
            let sent = self.tm.commit(now, id, departure.packet);
            self.out.push(format!("{sent:?}"));
        }
        self.out.push(format!("{id:?} {departure:?}"));
    }

    fn offer(&mut self, now: Time, arrival: &Arrival, abort: bool) {
        let (packet, is_quiet) = (arrival.bytes, self.tm.next_ready().is_none());
        // What would be dropped in egress never goes alone.
        let may_go_alone = self.may_pass && is_quiet && !abort;
        if may_go_alone && let Some(sent) = self.tm.pass_alone(now, arrival) {
            let departure = Departure::at_once(packet, arrival.queue, false, now);
            self.out.push(format!("{:?}", Some(sent)));
            self.out.push(format!("{:?} {departure:?}", arrival.egress));
            self.alone += 1;
            return;
        }
        // Packets that are no burst, copies among them, are queued at once.
        let passed = match self.may_pass && is_quiet && !arrival.bytes.is_multiple_of(5) {
            true => self.tm.pass_queue(now, arrival),
            false => None,
        };
        match passed {
            Some(Ok(mark)) => {
                let departure = Departure::at_once(packet, arrival.queue, mark, now);
                self.leave(now, arrival.egress, departure, abort);
            }
            Some(Err(reason)) => self.out.push(format!("{reason:?}")),
            None => {
                if let Err(refused) = self.tm.enqueue(now, packet, arrival) {
                    self.out.push(format!("{:?}", refused.reason));
                }
            }
        }
        self.serve(now, abort);
    }

    fn serve(&mut self, now: Time, abort: bool) {
        while let Some(id) = self.tm.next_ready() {
            if let Some(departure) = self.tm.begin(now, id) {
                self.leave(now, id, departure, abort);
            }
        }
    }

    /// One memory for two ports.
    fn copy(&mut self, now: Time, bytes: u32) {
        let charge = self.tm.charge_shared(now, PortId(0), 3, bytes);
        self.out.push(format!("{:?}", charge.map(drop)));
        let Ok(charge) = charge else { return };
        for egress in [1, 2] {
            let arrival = Arrival { egress: PortId(egress), ..to(3, bytes) };
            let copy = self.tm.enqueue_copy(now, bytes, charge, &arrival);
            self.out.push(format!("{copy:?}"));
        }
        self.tm.release_shared(now, charge);
    }

    fn step(&mut self, now: Time, op: &Op) {
        self.tm.advance(now);
        match *op {
            Op::Packet { ingress, egress, queue, bytes, ect, abort } => {
                let (ingress, egress) = (PortId(ingress), PortId(egress));
                let color = Color::Green;
                let group = queue % 8;
                let arrival = Arrival { ingress, egress, group, queue, bytes, ect, color };
                self.offer(now, &arrival, abort);
            }
            Op::Outside(what) => what.happen(&mut self.tm, now),
            Op::ClearWatermarks => self.tm.clear_watermarks(),
            Op::Hold { ns } => {
                let until = Wait::Until(now + Span::from_ns(ns));
                let held = self.tm.hold(now, 700, &to(3, 700), until);
                self.out.push(format!("{held:?}"));
            }
            Op::Control { port } => {
                let sent = self.tm.send_control(now, PortId(port), 64, 64);
                self.out.push(format!("{sent:?}"));
            }
            Op::Copies { bytes } => self.copy(now, bytes),
            Op::Limit { bytes } => {
                self.tm.set_group_limit(now, PortId(0), 3, Limit::Static(bytes));
            }
            Op::Later { .. } => {}
        }
        self.serve(now, false);
    }

    /// Everything that can be seen from outside. A copy is looked at: what goes alone is not booked because of it.
    fn seen(&mut self, now: Time) -> Vec<String> {
        let mut seen = std::mem::take(&mut self.out);
        while let Some(event) = self.tm.next_event() {
            seen.push(format!("{event:?}"));
        }
        seen.push(format!("{:?}", self.tm.next_effect()));
        // What has left is known to have left only when it is booked.
        let next = self.tm.clone().next_deadline().filter(|at| *at > now);
        seen.push(format!("{next:?}"));
        let mut tm = self.tm.clone();
        tm.book(now);
        seen.extend((0..3).map(|port| format!("{:?}", tm.port(PortId(port)))));
        seen.extend((0..2).map(|pool| format!("{:?}", tm.pool(PoolId(pool)))));
        seen.push(format!("{:?}", tm.audit()));
        seen
    }
}

proptest! {
    #[test]
    fn a_packet_that_passes_is_as_one_that_was_queued(ops in prop::collection::vec(ops(), 1..300)) {
        let (mut fast, mut plain) = (Side::new(true), Side::new(false));
        let mut now = Time::ZERO;
        for op in ops {
            if let Op::Later { ns } = op {
                now += Span::from_ns(ns);
            }
            fast.step(now, &op);
            plain.step(now, &op);
            prop_assert_eq!(fast.seen(now), plain.seen(now), "{:?}", op);
        }
    }
}

/// The same for few ways and long pauses, where frames follow each other alone.
#[test]
fn packets_that_go_alone_are_as_those_that_were_queued() {
    let alone = Cell::new(0);
    let config = ProptestConfig::with_cases(600);
    proptest!(config, |(ops in prop::collection::vec(lonely(), 1..200))| {
        let (mut fast, mut plain) = (Side::new(true), Side::new(false));
        let mut now = Time::ZERO;
        for op in ops {
            now += Span::from_ns(match op {
                // Nearly always after the one before it has left.
                Op::Packet { bytes, .. } if bytes % 7 != 0 => 2_500,
                Op::Later { ns } => ns,
                _ => 300,
            });
            fast.step(now, &op);
            plain.step(now, &op);
            prop_assert_eq!(fast.seen(now), plain.seen(now), "{:?}", op);
        }
        alone.set(alone.get() + fast.alone);
    });
    assert!(alone.get() > 2_000, "{} went alone", alone.get());
}

/// Packets of nearly one way, one after the other.
fn lonely() -> impl Strategy<Value = Op> {
    let queue = prop::sample::select(vec![0u8, 3, 3, 3, 3, 3, 7, 4, 4, 1]);
    let packet = (0u16..20, queue, 1u32..2_400, any::<u8>());
    // Longer than the time to the next packet.
    let pause = (0u16..2, any::<u8>(), 0u16..400);
    let pause = pause.prop_map(|(port, vector, quanta)| Outside::Pause { port, vector, quanta });
    prop_oneof![
        80 => packet.prop_map(|(way, queue, bytes, n)| {
            let (ingress, egress) = if way < 4 { (1, 0) } else { (0, 1) };
            Op::Packet { ingress, egress, queue, bytes, ect: true, abort: n < 4 }
        }),
        2 => outside().prop_map(Op::Outside),
        4 => pause.prop_map(Op::Outside),
        4 => Just(Op::ClearWatermarks),
        1 => (0u64..9_000).prop_map(|ns| Op::Hold { ns }),
        1 => (0u16..2).prop_map(|port| Op::Control { port }),
        1 => (1u32..2_400).prop_map(|bytes| Op::Copies { bytes }),
        1 => (100u64..4_000).prop_map(|bytes| Op::Limit { bytes }),
        2 => (0u64..2_500).prop_map(|ns| Op::Later { ns }),
    ]
}

#[test]
fn what_went_alone_is_booked_when_it_is_looked_at() {
    let mut tm = plain();
    let mut now = Time::ZERO;
    let mut alone = 0;
    for bytes in [1_000, 900, 800, 1_200, 1_000] {
        tm.advance(now);
        let arrival = to(3, bytes);
        match tm.pass_alone(now, &arrival) {
            Some(sent) => {
                assert_eq!(sent.end, now + Span::from_ps((u64::from(bytes) + 24) * 80));
                alone += 1;
            }
            None => {
                assert_eq!(tm.pass_queue(now, &arrival), Some(Ok(false)));
                tm.commit(now, PortId(1), bytes);
            }
        }
        now += Span::from_us(1);
    }
    // The first, and the first of those that were longer, went the whole way.
    assert_eq!(alone, 3);
    tm.book(now);
    let port = tm.port(PortId(1)).unwrap();
    assert_eq!(port.queues[3].counters.departed, Count { packets: 5, bytes: 4_900 });
    assert_eq!((port.queues[3].peak_bytes, port.queues[3].account.peak), (1_200, 1_200));
    let port = tm.port(PortId(0)).unwrap();
    assert_eq!(port.groups[3].counters.released, Count { packets: 5, bytes: 4_900 });
    tm.audit().unwrap();

    // On the wire: charged until it has left, for whoever looks meanwhile.
    assert!(tm.pass_alone(now, &to(3, 1_000)).is_some());
    assert_eq!(tm.pass_alone(now, &to(3, 1_000)), None, "the link is not free");
    assert_eq!(tm.next_effect(), None);
    assert_eq!(tm.next_deadline(), Some(now + Span::from_ps(1_024 * 80)));
    assert_eq!(tm.pool(EGRESS).unwrap().shared, 1_000);
    tm.advance(now + Span::from_ns(100));
    assert_eq!(tm.pool(EGRESS).unwrap().shared, 0);
}

#[test]
fn only_one_packet_at_a_time_passes() {
    let mut tm = plain();
    let arrival = to(3, 1_000);
    assert_eq!(tm.pass_queue(Time::ZERO, &arrival), Some(Ok(false)));
    assert_eq!(tm.pass_queue(Time::ZERO, &arrival), None, "the first one is on its way");
    let sent = tm.commit(Time::ZERO, PortId(1), 1_000).unwrap();
    let last = sent.end - Span::from_ps(1);
    assert_eq!(tm.pass_queue(last, &arrival), None, "it is on the wire");
    tm.advance(sent.end);
    assert_eq!(tm.pass_queue(sent.end, &arrival), Some(Ok(false)));
    let frames = tm.send_control(sent.end, PortId(1), 64, 64);
    assert!(matches!(frames, Ok(Admitted::Queued)));
    tm.abort(sent.end, PortId(1));
    assert_eq!(tm.pass_queue(sent.end, &arrival), None, "a pause goes first");
    assert!(tm.begin(sent.end, PortId(1)).is_some_and(|first| first.queue == CONTROL_QUEUE));
    let hairpin = Arrival { ingress: PortId(1), ..arrival };
    tm.abort(sent.end, PortId(1));
    assert_eq!(tm.pass_queue(sent.end, &hairpin), None, "its own XOFF would come first");
}

#[test]
fn where_something_is_counted_or_discarded_packets_go_the_whole_way() {
    let mut tm = traffic();
    let mut now = Time::ZERO;
    let mut send = |tm: &mut Tm<u32>, queue: u8| {
        now += Span::from_us(5);
        tm.advance(now);
        let alone = tm.pass_alone(now, &to(queue, 500)).is_some();
        if !alone && tm.pass_queue(now, &to(queue, 500)) == Some(Ok(false)) {
            tm.commit(now, PortId(1), 500);
        }
        (alone, now)
    };
    assert!(!send(&mut tm, 3).0 && send(&mut tm, 3).0);
    assert!(!send(&mut tm, 4).0 && !send(&mut tm, 4).0, "its guaranteed rate counts every frame");
    assert!(!send(&mut tm, 3).0 && send(&mut tm, 3).0);

    // A storm on the ingress port: its peer pauses it, and does not stop.
    let (_, now) = send(&mut tm, 3);
    let frame = PfcFrame { vector: 1 << 3, quanta: [Quanta::MAX; CLASSES] };
    tm.pfc_received(now, PortId(0), &frame);
    let stopped = Arrival { ingress: PortId(1), egress: PortId(0), ..to(3, 500) };
    assert_eq!(tm.enqueue(now, 500, &stopped), Ok(Admitted::Queued));
    tm.advance(now + Span::from_us(12));
    let events: Vec<_> = std::iter::from_fn(|| tm.next_event()).collect();
    assert!(events.iter().any(|e| matches!(e, Event::StormDetected { .. })), "{events:?}");
    assert_eq!(tm.slots().0, 0, "what was stopped is discarded");
    let later = now + Span::from_us(13);
    assert_eq!(tm.pass_alone(later, &to(3, 500)), None);
    assert_eq!(tm.pass_queue(later, &to(3, 500)), Some(Err(DropReason::WatchdogStorm)));
}
