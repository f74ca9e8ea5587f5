//! PFC in both directions, the headroom edge, PAUSE, watchdog, deadlock graph.

use std::collections::VecDeque;

use crate::config::qos::headroom::{HeadroomFormula, HeadroomInput};
use crate::units::{Bytes, Length};

use super::*;

pub(super) const CLASS: u8 = 3;
/// A 9216-byte frame without its FCS.
const JUMBO: u32 = 9_212;

pub(super) fn pfc() -> FlowControlConfig {
    FlowControlConfig {
        mode: FlowControl::Pfc,
        enabled: 1 << CLASS,
        ..FlowControlConfig::default()
    }
}

pub(super) fn pfc_port(gbit: u32) -> PortConfig {
    PortConfig { flow_control: pfc(), ..port(gbit) }
}

fn lossless_port(gbit: u32, xoff_bytes: u64, headroom_bytes: u64, xon: Xon) -> PortConfig {
    let mut config = pfc_port(gbit);
    config.groups[usize::from(CLASS)] = GroupConfig {
        account: account(INGRESS, Limit::Static(xoff_bytes)),
        lossless: Some(LosslessConfig { headroom_bytes, xon }),
    };
    config
}

fn link() -> HeadroomInput {
    HeadroomInput {
        formula: HeadroomFormula::Ieee,
        rate: BitsPerSec::gbit(100),
        nominal: BitsPerSec::gbit(100),
        cable: Length::metres(40),
        mtu: Bytes::new(u64::from(JUMBO) + 4),
        lossless_mtu: Bytes::new(u64::from(JUMBO) + 4),
        preamble_and_gap: Bytes::new(20),
        peer_response: None,
        process: None,
        interface_delay: Some(Span::ZERO),
        cell: Bytes::ZERO,
        small_packet_percent: 100,
    }
}

/// A peer with a slow response, a cable, and a switch with the observed lossless group.
struct Fabric {
    peer: Tm<u32>,
    switch: Tm<u32>,
    delay: Span,
    to_switch: VecDeque<(Time, u32)>,
    to_peer: VecDeque<(Time, PfcFrame)>,
    lost: u64,
    arrived: u64,
    /// Starts a jumbo frame of the switch's own at the instant the first frame arrives.
    busy_at_first: bool,
}

const CONTROL: u32 = 60;

impl Fabric {
    fn new(frames: &[u32], switch: Tm<u32>, busy_at_first: bool) -> Fabric {
        let mut sender = pfc_port(100);
        let response_bits =
            u128::from(crate::config::qos::headroom::response_quanta(link().rate)) * 512;
        sender.flow_control.response = link().rate.time_for_bits(response_bits);
        let mut peer = manager([(u64::MAX >> 20, 0), (u64::MAX >> 20, 0)], &[port(100), sender]);
        for bytes in frames {
            peer.enqueue(Time::ZERO, *bytes, &to(CLASS, *bytes)).unwrap();
        }
        Fabric {
            peer,
            switch,
            delay: link().cable.delay(),
            to_switch: VecDeque::new(),
            to_peer: VecDeque::new(),
            lost: 0,
            arrived: 0,
            busy_at_first,
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let wires = self.to_switch.front().map(|(at, _)| *at).into_iter();
            let wires = wires.chain(self.to_peer.front().map(|(at, _)| *at));
            let deadlines = [self.peer.next_deadline(), self.switch.next_deadline()];
            let deadlines = deadlines.into_iter().filter_map(Deadline::instant);
            let next = wires.chain(deadlines).min();
            let Some(now) = next.filter(|at| *at <= until) else { return };
            self.switch.advance(now);
            while self.to_switch.front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = self.to_switch.pop_front().unwrap();
                self.arrive(now, bytes);
            }
            self.say(now);
            self.transmit(now);
            while self.to_peer.front().is_some_and(|(at, _)| *at <= now) {
                let (_, frame) = self.to_peer.pop_front().unwrap();
                self.peer.pfc_received(now, PortId(1), &frame);
            }
            self.peer.advance(now);
            while let Some(port) = self.peer.next_ready() {
                let Some(departure) = self.peer.take(now, port) else { continue };
                let sent = self.peer.commit(now, port, departure.packet).unwrap();
                self.to_switch.push_back((sent.end + self.delay, departure.packet));
            }
        }
    }

    fn arrive(&mut self, now: Time, bytes: u32) {
        if std::mem::take(&mut self.busy_at_first) {
            let ours = Arrival { ingress: PortId(1), egress: PortId(0), ..to(0, JUMBO) };
            self.switch.enqueue(now, JUMBO, &ours).unwrap();
            self.transmit(now);
        }
        self.arrived += 1;
        self.lost += u64::from(self.switch.enqueue(now, bytes, &to(CLASS, bytes)).is_err());
    }

    /// Sends flow control events as frames of 60 bytes on port 0.
    fn say(&mut self, now: Time) {
        while let Some(event) = self.switch.next_event() {
            let Event::FlowControl { port: PortId(0), frame: FlowControlFrame::Pfc(frame) } = event
            else {
                panic!("unexpected {event:?}");
            };
            // The integer that stands for the packet encodes the pause time: one class, two bytes.
            let quanta = u32::from(frame.quanta[usize::from(CLASS)].get());
            assert_eq!(frame.vector, 1 << CLASS);
            self.switch.send_control(now, PortId(0), quanta, CONTROL).unwrap();
        }
    }

    fn transmit(&mut self, now: Time) {
        while let Some(port) = self.switch.next_ready() {
            let Some(departure) = self.switch.take(now, port) else { continue };
            if departure.queue == CONTROL_QUEUE {
                let sent = self.switch.commit(now, port, CONTROL).unwrap();
                let quanta = [Quanta::new(departure.packet as u16); CLASSES];
                let frame = PfcFrame { vector: 1 << CLASS, quanta };
                self.to_peer.push_back((sent.end + self.delay, frame));
            } else {
                self.switch.commit(now, port, departure.packet).unwrap();
            }
            self.say(now);
        }
    }
}

/// Fills headroom in the worst way: the switch's own jumbo starts when XOFF is decided, the peer's last jumbo starts
/// one byte time before it must stop. Returns packets lost and the headroom used.
fn worst_case(headroom_bytes: u64) -> (u64, u64) {
    let needed = link().compute();
    let last = needed.parts.last().unwrap().bytes;
    let before_last = needed.bytes - last;
    let jumbo_wire = u64::from(JUMBO) + 24;
    let filler = before_last % jumbo_wire - 1 - 24;
    let mut frames = vec![JUMBO, filler as u32];
    frames.resize(40, JUMBO);
    let ingress = lossless_port(100, u64::from(JUMBO), headroom_bytes, Xon::AtBytes(0));
    let pools = [(1_000_000, headroom_bytes), (2_000_000, 0)];
    let mut switch = manager(pools, &[ingress, port(100)]);
    switch.set_blocked(Time::ZERO, PortId(1), true);
    let mut fabric = Fabric::new(&frames, switch, true);
    fabric.run(Time::from_ns(100_000));
    fabric.switch.seen().audit().unwrap();
    fabric.peer.seen().audit().unwrap();
    assert!(fabric.arrived < 10, "the peer did not stop");
    let group = fabric.switch.seen().port(PortId(0)).unwrap().groups[usize::from(CLASS)];
    assert_eq!(group.counters.refused.packets, fabric.lost);
    assert_eq!(group.counters.admitted.packets + fabric.lost, fabric.arrived);
    (fabric.lost, group.account.peak_headroom)
}

#[test]
fn headroom_by_the_formula_loses_nothing_and_one_frame_less_loses() {
    let needed = link().compute().bytes;
    let (lost, used) = worst_case(needed);
    // The formula counts bytes on the wire, the buffer holds 24 fewer per frame (preamble, gap, FCS).
    assert_eq!(lost, 0);
    assert!(used <= needed && needed - used <= 24 * 7, "used {used} of {needed}");
    assert_eq!(worst_case(used), (0, used));
    assert!(worst_case(used - 1).0 > 0);
    assert!(worst_case(needed - u64::from(JUMBO) - 4).0 > 0);
}

#[test]
fn overload_with_pfc_loses_nothing_and_resumes() {
    let headroom = link().compute().bytes;
    let ingress = lossless_port(100, 200_000, headroom, Xon::BelowXoff(20_000));
    let switch = manager([(1_000_000, headroom), (2_000_000, 0)], &[ingress, port(40)]);
    let frames = vec![JUMBO; 8_000];
    let mut fabric = Fabric::new(&frames, switch, false);
    fabric.run(Time::MAX);
    let status = fabric.switch.seen().port(PortId(0)).unwrap();
    let group = status.groups[usize::from(CLASS)];
    assert_eq!((fabric.lost, fabric.arrived), (0, 8_000));
    assert_eq!(
        fabric.switch.seen().port(PortId(1)).unwrap().queues[3].counters.departed.packets,
        8_000
    );
    assert!(group.counters.xoff > 100 && group.counters.xoff == group.counters.xon);
    assert_eq!(status.pauses.tx_xon[3], group.counters.xon);
    let paused = fabric.peer.seen().port(PortId(1)).unwrap().pauses;
    assert_eq!(paused.rx_xoff[3], status.pauses.tx_xoff[3]);
    assert!(paused.paused[3] > Span::from_us(1));
    fabric.switch.seen().audit().unwrap();
}

#[test]
fn xoff_is_refreshed_at_half_its_time_and_lossy_classes_are_not_paused() {
    let mut ingress = lossless_port(100, 1_000, 100_000, Xon::AtBytes(0));
    ingress.flow_control.honoured_within = Span::from_ns(500);
    let mut tm = manager([(500_000, 100_000), (500_000, 0)], &[ingress, port(100)]);
    tm.set_blocked(Time::ZERO, PortId(1), true);
    tm.enqueue(Time::ZERO, 1, &to(1, 50_000)).unwrap();
    assert_eq!(tm.next_event(), None);
    tm.enqueue(Time::ZERO, 1, &to(CLASS, 1_000)).unwrap();
    let quanta = std::array::from_fn(|p| if p == 3 { Quanta::MAX } else { Quanta::ZERO });
    let xoff = PfcFrame { vector: 0b1000, quanta };
    let said =
        |frame| Some(Event::FlowControl { port: PortId(0), frame: FlowControlFrame::Pfc(frame) });
    assert_eq!(tm.next_event(), said(xoff));
    let half = Quanta::MAX.span(BitsPerSec::gbit(100)).as_ps() / 2;
    for n in 1..=3 {
        assert_eq!(tm.next_deadline(), Deadline::at(Time::from_ps(n * half)));
        tm.advance(Time::from_ps(n * half));
        assert_eq!((tm.next_event(), tm.next_event()), (said(xoff), None));
    }
    // A caller that is late by many refreshes sends one.
    let late = Time::from_ps(200 * half);
    tm.advance(late);
    assert_eq!((tm.next_event(), tm.next_event()), (said(xoff), None));
    assert_eq!(tm.next_deadline(), Deadline::at(Time::from_ps(201 * half)));
    // Arrivals within the response time are expected, later ones come from a peer that does not obey.
    tm.enqueue(late, 1, &to(CLASS, 1_000)).unwrap();
    let counters = tm.seen().port(PortId(0)).unwrap().groups[3].counters;
    assert_eq!((counters.after_xoff, counters.not_honoured), (1, 1));
    tm.set_blocked(late, PortId(1), false);
    drain(&mut tm, late, Time::MAX);
    let xon = PfcFrame { vector: 0b1000, quanta: [Quanta::ZERO; CLASSES] };
    assert_eq!((tm.next_event(), tm.next_event()), (said(xon), None));
    assert_eq!(tm.next_deadline(), Deadline::NEVER);
    tm.seen().audit().unwrap();
}

/// A caller that follows `next_effect` is not called only to free memory, but for packets behind a frame, and for a
/// peer that may resume.
#[test]
fn the_end_of_a_frame_is_an_effect_only_where_it_can_be_seen() {
    let ingress = lossless_port(100, 3_000, 100_000, Xon::AtBytes(0));
    let mut tm = manager([(500_000, 100_000), (500_000, 0)], &[ingress, port(100)]);
    let send = |tm: &mut Tm<u32>, now: Time, bytes: u32| {
        tm.enqueue(now, bytes, &to(CLASS, bytes)).unwrap();
        tm.advance(now);
        let port = tm.next_ready().unwrap();
        let bytes = tm.take(now, port).unwrap().packet;
        tm.commit(now, port, bytes).unwrap().end
    };
    let first = send(&mut tm, Time::ZERO, 1_000);
    assert_eq!((tm.next_effect(), tm.next_deadline()), (Deadline::NEVER, Deadline::at(first)));
    tm.enqueue(Time::ZERO, 1_000, &to(CLASS, 1_000)).unwrap();
    assert_eq!(tm.next_effect(), Deadline::at(first), "a packet waits for the link");
    drain(&mut tm, first, Time::MAX);
    // All bytes are charged, so the peer is paused; it resumes when they have left.
    let now = Time::from_ns(10_000);
    let last = send(&mut tm, now, 4_000);
    assert!(tm.has_events() && tm.next_event().is_some());
    assert_eq!(tm.next_effect(), Deadline::at(last), "the memory of this frame lets a peer resume");
    tm.advance(last);
    assert!(tm.has_events() && tm.next_event().is_some());
    assert_eq!((tm.next_effect(), tm.next_deadline()), (Deadline::NEVER, Deadline::NEVER));
    tm.seen().audit().unwrap();
}

#[test]
fn a_received_pause_stops_one_queue_at_the_frame_boundary() {
    let mut tm = manager([(500_000, 0), (500_000, 0)], &[port(100), pfc_port(100)]);
    for queue in [CLASS, 0] {
        for _ in 0..3 {
            tm.enqueue(Time::ZERO, 1_226, &to(queue, 1_226)).unwrap();
        }
    }
    let first = tm.take(Time::ZERO, PortId(1)).unwrap();
    tm.commit(Time::ZERO, PortId(1), 1_226).unwrap();
    let mut quanta = [Quanta::new(500); CLASSES];
    quanta[1] = Quanta::ZERO;
    let during = Time::from_ns(10);
    // Only priority 3 is enabled; the other bit is ignored and counted.
    tm.pfc_received(during, PortId(1), &PfcFrame { vector: 0b1010, quanta });
    tm.pause_received(during, PortId(1), Quanta::MAX);
    let left = drain(&mut tm, during, Time::MAX);
    let late: Vec<_> =
        left.iter().filter(|(d, _)| d.queue == CLASS).map(|(_, t)| t.start).collect();
    let resumed = during + Quanta::new(500).span(BitsPerSec::gbit(100));
    let own: usize = if first.queue == CLASS { 2 } else { 3 };
    assert_eq!((late.len(), late[0]), (own, resumed));
    let pauses = tm.seen().port(PortId(1)).unwrap().pauses;
    assert_eq!((pauses.rx_xoff[3], pauses.rx_ignored), (1, 2));
    tm.seen().audit().unwrap();
}

#[test]
fn pause_stops_the_whole_link_both_ways() {
    let mut both = lossless_port(100, 1_000, 10_000, Xon::AtBytes(0));
    both.flow_control.mode = FlowControl::Pause;
    let mut tm = manager([(500_000, 10_000), (500_000, 0)], &[both.clone(), both]);
    tm.pause_received(Time::ZERO, PortId(1), Quanta::new(10));
    tm.pfc_received(
        Time::ZERO,
        PortId(1),
        &PfcFrame { vector: 0xff, quanta: [Quanta::MAX; CLASSES] },
    );
    tm.enqueue(Time::ZERO, 1, &to(0, 1_000)).unwrap();
    tm.enqueue(Time::ZERO, 1, &to(CLASS, 1_000)).unwrap();
    let said = |quanta| {
        Some(Event::FlowControl { port: PortId(0), frame: FlowControlFrame::Pause(quanta) })
    };
    assert_eq!((tm.next_event(), tm.next_event()), (said(Quanta::MAX), None));
    assert_eq!(tm.take(Time::ZERO, PortId(1)), None);
    let edges = tm.seen().wait_edges();
    let waits: Vec<_> = edges.iter().map(|e| (e.whole_link, e.priorities, e.queue)).collect();
    assert_eq!(waits, [(true, 0xff, 0), (true, 0xff, CLASS)], "packets of any class are held");
    let left = drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(left[0].1.start, Time::ZERO + Quanta::new(10).span(BitsPerSec::gbit(100)));
    assert_eq!(tm.next_event(), said(Quanta::ZERO));
    assert_eq!(tm.seen().port(PortId(1)).unwrap().pauses.rx_ignored, 8);
}

#[test]
fn a_cyclic_buffer_dependency_shows_as_a_cycle() {
    // Each port's class waits for the other port: the smallest deadlock, in one switch.
    let config = lossless_port(100, 1_000, 10_000, Xon::AtBytes(0));
    let mut tm = manager([(500_000, 20_000), (500_000, 0)], &[config.clone(), config]);
    let stop = PfcFrame { vector: 8, quanta: [Quanta::MAX; CLASSES] };
    for (from, egress) in [(PortId(0), PortId(1)), (PortId(1), PortId(0))] {
        tm.pfc_received(Time::ZERO, egress, &stop);
        tm.enqueue(Time::ZERO, 1, &Arrival { ingress: from, egress, ..to(CLASS, 1_000) }).unwrap();
    }
    let edges = tm.seen().wait_edges();
    assert_eq!(edges.len(), 2);
    assert!(edges.iter().all(|edge| edge.priorities == 8 && edge.bytes == 1_000));
    let graph: Vec<_> = edges.iter().map(|edge| (edge.ingress, edge.egress)).collect();
    assert_eq!(super::super::pfc::find_cycle(&graph), Some(vec![PortId(0), PortId(1)]));
}

/// Pauses sent since the last call, as quanta of the class.
fn pauses(tm: &mut Tm<u32>) -> Vec<Quanta> {
    let events = std::iter::from_fn(|| tm.next_event());
    let quanta = events.filter_map(|event| match event {
        Event::FlowControl { port: PortId(0), frame: FlowControlFrame::Pfc(frame) } => {
            Some(frame.quanta[usize::from(CLASS)])
        }
        _ => None,
    });
    quanta.collect()
}

/// A group that is refused before it reaches its threshold stops its peer all the same: other groups fill the pool, or
/// no slot is left. One without bytes resumes at the next repetition.
#[test]
fn a_lossless_group_that_is_refused_stops_its_peer() {
    let config = || lossless_port(100, 4_000, 2_000, Xon::AtBytes(500));
    let ports = [config(), port(100), config()];
    let mut tm = manager([(1_500, 0), (1_000_000, 0)], &ports);
    tm.set_blocked(Time::ZERO, PortId(1), true);
    let other = Arrival { ingress: PortId(2), ..to(CLASS, 1_000) };
    tm.enqueue(Time::ZERO, 1, &other).unwrap();
    assert_eq!(pauses(&mut tm), []);
    let refused = tm.enqueue(Time::ZERO, 2, &to(CLASS, 1_000)).unwrap_err();
    assert_eq!(refused.reason, DropReason::HeadroomExhausted);
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    tm.seen().audit().unwrap();
    // Half of 65535 quanta at 100 Gbit/s are 168 us.
    tm.advance(Time::from_ns(200_000));
    assert_eq!(pauses(&mut tm), [Quanta::ZERO]);

    let mut tm = manager([(1_000_000, 10_000), (1_000_000, 0)], &ports);
    let config = Config { packet_slots: 1, ..tm.config.clone() };
    tm = Tm::new(config);
    for port in ports {
        tm.add_port(port).unwrap();
    }
    tm.enqueue(Time::ZERO, 1, &to(CLASS, 1_000)).unwrap();
    assert_eq!(pauses(&mut tm), []);
    let refused = tm.enqueue(Time::ZERO, 2, &to(CLASS, 1_000)).unwrap_err();
    assert_eq!(refused.reason, DropReason::NoSlot);
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    drain(&mut tm, Time::ZERO, Time::from_ns(10_000));
    assert_eq!(pauses(&mut tm), [Quanta::ZERO]);
    tm.seen().audit().unwrap();
}

/// Packets received by the removed port still fill the headroom: the new peer has to stop before it sends.
#[test]
fn a_port_that_is_added_again_pauses_its_peer_at_once() {
    let config = || lossless_port(100, 4_000, 20_000, Xon::AtBytes(2_000));
    let mut tm = manager([(1_000_000, 20_000), (1_000_000, 0)], &[config(), port(100)]);
    for _ in 0..10 {
        tm.enqueue(Time::ZERO, 1_000, &to(CLASS, 1_000)).unwrap();
    }
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    tm.port_down(Time::ZERO, PortId(0));
    assert_eq!(pauses(&mut tm), []);
    tm.restore_port(PortId(0), config()).unwrap();
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    tm.seen().audit().unwrap();
    assert_eq!(drain(&mut tm, Time::ZERO, Time::MAX).len(), 10);
    assert_eq!(pauses(&mut tm).last(), Some(&Quanta::ZERO));
}

/// A pause whose response time has not passed belongs to the priority that has no PFC any more.
#[test]
fn pauses_under_way_end_with_pfc() {
    let mut config = pfc_port(100);
    config.flow_control.enabled = 0b11_1000;
    config.flow_control.response = Span::from_ns(300);
    let mut tm = manager([(100_000, 0), (100_000, 0)], &[port(100), config]);
    let at = Time::from_ns;
    let stop = |vector| PfcFrame { vector, quanta: [Quanta::MAX; CLASSES] };
    tm.pfc_received(at(0), PortId(1), &stop(0b1_0000));
    tm.pfc_received(at(350), PortId(1), &stop(0b10_1000));
    tm.set_pfc_enabled(at(400), PortId(1), 0b10_0000);
    tm.advance(at(2_000));
    let paused = tm.seen().port(PortId(1)).unwrap().queues.map(|queue| queue.paused);
    let expected: [bool; CLASSES] = std::array::from_fn(|queue| queue == 5);
    assert_eq!(paused, expected, "only the priority that still has PFC is paused");
    assert_eq!(tm.seen().port(PortId(1)).unwrap().pauses.paused[4], Span::from_ns(100));
}

/// A peer that hears of an XOFF later has its time from then on, and one that hears of none breaks no promise.
#[test]
fn a_pause_is_honoured_from_when_the_peer_hears_of_it() {
    let mut config = lossless_port(100, 4_000, 100_000, Xon::AtBytes(2_000));
    config.flow_control.honoured_within = Span::from_us(1);
    let mut tm = manager([(1_000_000, 100_000), (1_000_000, 0)], &[config, port(100)]);
    tm.set_blocked(Time::ZERO, PortId(1), true);
    let us = |us: u64| Time::from_ns(us * 1_000);
    let not_honoured = |tm: &mut Tm<u32>, at: Time| {
        tm.enqueue(at, 1_000, &to(CLASS, 1_000)).unwrap();
        tm.seen().port(PortId(0)).unwrap().groups[usize::from(CLASS)].counters.not_honoured
    };
    tm.set_pfc_enabled(Time::ZERO, PortId(0), 0);
    for _ in 0..8 {
        assert_eq!(not_honoured(&mut tm, us(10)), 0);
    }
    assert_eq!(not_honoured(&mut tm, us(20)), 0, "it had no PFC");
    tm.set_pfc_enabled(us(30), PortId(0), 1 << CLASS);
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    assert_eq!(not_honoured(&mut tm, us(31)), 0, "the pause was sent 1 us before");
    assert_eq!(not_honoured(&mut tm, us(32)), 1);
    tm.set_pfc_enabled(us(33), PortId(0), 0);
    assert_eq!(pauses(&mut tm), [Quanta::ZERO]);
    assert_eq!(not_honoured(&mut tm, us(40)), 1, "the pause was ended");
    tm.port_down(us(50), PortId(0));
    tm.set_pfc_enabled(us(50), PortId(0), 1 << CLASS);
    tm.port_up(us(60), PortId(0));
    assert_eq!(not_honoured(&mut tm, us(61)), 1, "the link is up again");
    tm.seen().audit().unwrap();
}

/// The peer does not hear of another rate: it counts quanta as before.
#[test]
fn a_quantum_keeps_its_length_at_another_rate() {
    let config = || lossless_port(100, 4_000, 20_000, Xon::AtBytes(2_000));
    let mut tm = manager([(1_000_000, 40_000), (1_000_000, 0)], &[config(), config()]);
    let quanta = Quanta::new(100);
    let pause = PfcFrame { vector: 8, quanta: [quanta; CLASSES] };
    let lasts = quanta.span(BitsPerSec::gbit(100));
    for port in [0, 1] {
        assert!(tm.set_rate(Time::ZERO, PortId(port), BitsPerSec::gbit(1)));
    }
    tm.pfc_received(Time::ZERO, PortId(1), &pause);
    for _ in 0..10 {
        tm.enqueue(Time::ZERO, 1_000, &to(CLASS, 1_000)).unwrap();
    }
    assert_eq!(tm.next_deadline(), Deadline::at(Time::ZERO + lasts));
    tm.set_blocked(Time::ZERO, PortId(1), true);
    tm.advance(Time::ZERO + lasts);
    let half = Span::from_ps(Quanta::MAX.span(BitsPerSec::gbit(100)).as_ps() / 2);
    assert_eq!(tm.next_deadline(), Deadline::at(Time::ZERO + half), "the pause is repeated");
}

/// Slots that are few stop the peer too: other thresholds do not let it go on.
#[test]
fn thresholds_resume_no_peer_while_slots_are_few() {
    let config = lossless_port(100, 1_000_000, 20_000, Xon::AtBytes(2_000));
    let pool = |headroom_bytes| PoolConfig { shared_bytes: 2_000_000, headroom_bytes };
    let mut tm: Tm<u32> = Tm::new(Config {
        seed: 1,
        packet_slots: 32,
        stop_at_slots: 16,
        hold_slots: 0,
        cell_bytes: 0,
        pools: vec![pool(20_000), pool(0)],
    });
    tm.add_port(config).unwrap();
    tm.add_port(port(100)).unwrap();
    for _ in 0..20 {
        tm.enqueue(Time::ZERO, 100, &to(CLASS, 100)).unwrap();
    }
    assert_eq!(pauses(&mut tm), [Quanta::MAX]);
    tm.set_group_xon(Time::ZERO, PortId(0), CLASS, Xon::AtBytes(900_000));
    tm.set_group_limit(Time::ZERO, PortId(0), CLASS, Limit::Static(2_000_000));
    assert_eq!(pauses(&mut tm), [], "20 packets are inside");
    drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(pauses(&mut tm), [Quanta::ZERO]);
    assert!(!tm.stops);
}
