//! Compares packets that depart at once with packets that are queued and chosen: the same traffic must give the same
//! state.

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
        // Half of the time long enough for a port to become idle.
        12 => (0u64..4_000).prop_map(|ns| Op::Later { ns }),
    ]
}

/// Ports with everything that can affect a packet: strict queues, weights, guaranteed rates, marks at enqueue and
/// dequeue, little memory and a lossless class; the first has a watchdog, the last one is shaped.
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
        queues: Some(0xff),
        detection: Span::from_us(4),
        restoration: Span::from_us(3),
        poll: Span::from_us(1),
        action: StormAction::Drop,
    });
    manager([(30_000, 8_000), (30_000, 0)], &[watched, config, shaped])
}

/// A traffic manager with its output.
struct Side {
    tm: Tm<u32>,
    /// Packets may depart at once.
    cuts: bool,
    /// Packets whose time on the wire was known at departure.
    uncontended: u32,
    out: Vec<String>,
}

impl Side {
    fn new(cuts: bool) -> Side {
        Side { tm: traffic(), cuts, uncontended: 0, out: Vec::new() }
    }

    fn leave(&mut self, now: Time, id: PortId, packet: u32, departure: Departure, abort: bool) {
        if let Some(sent) = departure.sent {
            self.out.push(format!("{:?}", Some(sent)));
            self.uncontended += 1;
        } else if abort {
            self.tm.abort(now, id);
        } else {
            let sent = self.tm.commit(now, id, packet);
            self.out.push(format!("{sent:?}"));
        }
        self.out.push(format!("{id:?} {packet} {:?}", Departure { sent: None, ..departure }));
    }

    fn offer(&mut self, now: Time, arrival: &Arrival, abort: bool) {
        let packet = arrival.bytes;
        // Some packets are followed by others; a packet that egress drops is not unchanged.
        let last = self.cuts && !arrival.bytes.is_multiple_of(25);
        let terms = Terms { last, unchanged: !abort, ..Terms::default() };
        match self.tm.offer(now, &Arrival { terms, ..*arrival }) {
            Offered::Departs(departure) => {
                self.leave(now, arrival.egress, packet, departure, abort);
            }
            Offered::Queued(slot) => self.tm.put(slot, packet),
            Offered::Refused(reason) => self.out.push(format!("{reason:?}")),
            Offered::Trims(trim) => self.out.push(format!("{trim:?}")),
        }
        self.serve(now, abort);
    }

    fn serve(&mut self, now: Time, abort: bool) {
        while let Some(id) = self.tm.next_ready() {
            if let Some((packet, departure)) = self.tm.begin(now, id) {
                self.leave(now, id, packet, departure, abort);
            }
        }
    }

    /// Sends copies with one memory to two ports.
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
                let terms = Terms::default();
                let arrival = Arrival { ingress, egress, group, queue, bytes, ect, color, terms };
                self.offer(now, &arrival, abort);
            }
            Op::Outside(what) => what.happen(&mut self.tm, now),
            Op::ClearWatermarks => self.tm.clear_watermarks(),
            Op::Hold { ns } => {
                let until = Release::At(now + Span::from_ns(ns));
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

    /// All state visible from outside, read from a copy: reading from it does not end deferred accounting.
    fn seen(&mut self, now: Time) -> Vec<String> {
        let mut seen = std::mem::take(&mut self.out);
        while let Some(event) = self.tm.next_event() {
            seen.push(format!("{event:?}"));
        }
        seen.push(format!("{:?}", self.tm.next_effect()));
        // The end of a frame that has left may be a deadline only until it is accounted.
        let next = Some(self.tm.clone().next_deadline()).filter(|due| !due.is_by(now));
        seen.push(format!("{next:?}"));
        let mut tm = self.tm.clone();
        tm.view(now);
        seen.extend((0..3).map(|port| format!("{:?}", tm.seen().port(PortId(port)))));
        seen.extend((0..2).map(|pool| format!("{:?}", tm.seen().pool(PoolId(pool)))));
        seen.push(format!("{:?}", tm.seen().audit()));
        seen
    }
}

proptest! {
    #[test]
    fn a_packet_that_departs_at_once_is_as_one_that_was_queued(ops in prop::collection::vec(ops(), 1..300)) {
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

/// Like the test above, for few routes and long pauses, where frames are uncontended.
#[test]
fn uncontended_packets_are_as_those_that_were_queued() {
    let uncontended = Cell::new(0);
    let config = ProptestConfig::with_cases(600);
    proptest!(config, |(ops in prop::collection::vec(one_route(), 1..200))| {
        let (mut fast, mut plain) = (Side::new(true), Side::new(false));
        let mut now = Time::ZERO;
        for op in ops {
            now += Span::from_ns(match op {
                // Nearly always after the packet before it has left.
                Op::Packet { bytes, .. } if bytes % 7 != 0 => 2_500,
                Op::Later { ns } => ns,
                _ => 300,
            });
            fast.step(now, &op);
            plain.step(now, &op);
            prop_assert_eq!(fast.seen(now), plain.seen(now), "{:?}", op);
        }
        uncontended.set(uncontended.get() + fast.uncontended);
    });
    assert!(uncontended.get() > 2_000, "{} were uncontended", uncontended.get());
}

/// Packets mostly of one route, one after the other.
fn one_route() -> impl Strategy<Value = Op> {
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

/// Offers a packet that is the last of its instant and that egress leaves unchanged, and commits it if needed.
/// `Ok(Some(_))`: it departed, with its time on the wire known at once or not; `Ok(None)`: it waits.
fn send(tm: &mut Tm<u32>, now: Time, arrival: &Arrival) -> Result<Option<bool>, DropReason> {
    let terms = Terms { last: true, unchanged: true, ..Terms::default() };
    match tm.offer(now, &Arrival { terms, ..*arrival }) {
        Offered::Refused(reason) => Err(reason),
        Offered::Trims(_) => Err(DropReason::QueueThreshold),
        Offered::Queued(slot) => {
            tm.put(slot, arrival.bytes);
            Ok(None)
        }
        Offered::Departs(departure) => {
            if departure.sent.is_none() {
                tm.commit(now, arrival.egress, arrival.bytes).unwrap();
            }
            Ok(Some(departure.sent.is_some()))
        }
    }
}

#[test]
fn deferred_frames_are_accounted_when_they_are_read() {
    let mut tm = plain();
    let mut now = Time::ZERO;
    let mut deferred = 0;
    for bytes in [1_000, 900, 800, 1_200, 1_000] {
        tm.advance(now);
        deferred += u32::from(send(&mut tm, now, &to(3, bytes)).unwrap().unwrap());
        now += Span::from_us(1);
    }
    // The first packet, and the first of those that were longer, took the full path.
    assert_eq!(deferred, 3);
    tm.view(now);
    let port = tm.seen().port(PortId(1)).unwrap();
    assert_eq!(port.queues[3].counters.departed, Count { packets: 5, bytes: 4_900 });
    assert_eq!((port.queues[3].peak_bytes, port.queues[3].account.peak), (1_200, 1_200));
    let port = tm.seen().port(PortId(0)).unwrap();
    assert_eq!(port.groups[3].counters.released, Count { packets: 5, bytes: 4_900 });
    tm.seen().audit().unwrap();

    // A frame on the wire stays charged until it has left, for any reader.
    assert_eq!(send(&mut tm, now, &to(3, 1_000)), Ok(Some(true)));
    assert_eq!(tm.next_effect(), Deadline::NEVER);
    assert_eq!(tm.next_deadline(), Deadline::at(now + Span::from_ps(1_024 * 80)));
    assert_eq!(tm.seen().pool(EGRESS).unwrap().shared, 1_000);
    assert_eq!(send(&mut tm, now, &to(3, 1_000)), Ok(None), "the link is not free");
    tm.advance(now + Span::from_ns(100));
    drain(&mut tm, now + Span::from_ns(100), Time::MAX);
    assert_eq!(tm.seen().pool(EGRESS).unwrap().shared, 0);
}

#[test]
fn only_one_packet_at_a_time_cuts_through() {
    let mut tm = plain();
    let arrival = to(3, 1_000);
    let last = Terms { last: true, ..Terms::default() };
    let last = Arrival { terms: last, ..arrival };
    let departs = |offered| matches!(offered, Offered::Departs(Departure { sent: None, .. }));
    assert!(!departs(tm.offer(Time::ZERO, &arrival)), "others follow");
    drain(&mut tm, Time::ZERO, Time::from_ns(1_000));
    let start = Time::from_ns(1_000);
    assert!(departs(tm.offer(start, &last)));
    assert!(!departs(tm.offer(start, &last)), "the first one is on its way");
    let sent = tm.commit(start, PortId(1), 1_000).unwrap();
    assert!(!departs(tm.offer(sent.end - Span::from_ps(1), &last)), "it is on the wire");
    drain(&mut tm, sent.end, Time::from_ns(9_000));
    let later = Time::from_ns(9_000);
    assert!(departs(tm.offer(later, &last)));
    assert_eq!(tm.send_control(later, PortId(1), 64, 64), Ok(Admitted::Queued));
    tm.abort(later, PortId(1));
    assert!(!departs(tm.offer(later, &last)), "a pause goes first");
    assert!(tm.take(later, PortId(1)).is_some_and(|first| first.queue == CONTROL_QUEUE));
    tm.abort(later, PortId(1));
    drain(&mut tm, later, Time::from_ns(20_000));
    let hairpin = Arrival { ingress: PortId(1), ..last };
    assert!(!departs(tm.offer(Time::from_ns(20_000), &hairpin)), "its own XOFF would come first");
}

#[test]
fn another_port_that_may_send_goes_first() {
    let mut tm = manager([(10_000, 0), (10_000, 0)], &[port(100), port(100), port(100)]);
    tm.enqueue(Time::ZERO, 500, &to(3, 500)).unwrap();
    let terms = Terms { last: true, ..Terms::default() };
    let other = Arrival { egress: PortId(2), terms, ..to(3, 500) };
    assert!(matches!(tm.offer(Time::ZERO, &other), Offered::Queued(_)));
}

#[test]
fn where_something_is_counted_or_discarded_every_packet_takes_the_full_path() {
    let mut tm = traffic();
    let mut now = Time::ZERO;
    let mut is_deferred = |tm: &mut Tm<u32>, queue: u8| {
        now += Span::from_us(5);
        tm.advance(now);
        (send(tm, now, &to(queue, 500)).unwrap() == Some(true), now)
    };
    assert!(!is_deferred(&mut tm, 3).0 && is_deferred(&mut tm, 3).0);
    let metered = "its guaranteed rate counts every frame";
    assert!(!is_deferred(&mut tm, 4).0 && !is_deferred(&mut tm, 4).0, "{metered}");
    assert!(!is_deferred(&mut tm, 3).0 && is_deferred(&mut tm, 3).0);

    // A storm on the ingress port: its peer keeps it paused, and itself does not stop.
    let (_, now) = is_deferred(&mut tm, 3);
    let frame = PfcFrame { vector: 1 << 3, quanta: [Quanta::MAX; CLASSES] };
    tm.pfc_received(now, PortId(0), &frame);
    let stopped = Arrival { ingress: PortId(1), egress: PortId(0), ..to(3, 500) };
    assert_eq!(tm.enqueue(now, 500, &stopped), Ok(Admitted::Queued));
    tm.advance(now + Span::from_us(12));
    let events: Vec<_> = std::iter::from_fn(|| tm.next_event()).collect();
    assert!(events.iter().any(|e| matches!(e, Event::StormDetected { .. })), "{events:?}");
    assert_eq!(tm.slots().0, 0, "what was stopped is discarded");
    let later = now + Span::from_us(13);
    assert_eq!(send(&mut tm, later, &to(3, 500)), Err(DropReason::WatchdogStorm));
}
