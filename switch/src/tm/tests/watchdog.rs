//! The PFC watchdog: storms that it detects, what it does with packets meanwhile, and how they end.

use super::flow_control::{CLASS, pfc_port};
use super::*;

/// Keeps priority 3 of port 1 paused until `until`, starting at `from`.
fn storm(tm: &mut Tm<u32>, from: Time, until: Time) {
    let mut now = from;
    while now < until {
        tm.advance(now);
        tm.pfc_received(now, PortId(1), &PfcFrame { vector: 8, quanta: [Quanta::MAX; CLASSES] });
        now += Span::from_us(300);
    }
    tm.advance(until);
}

fn watched(action: StormAction) -> Tm<u32> {
    let mut out = pfc_port(100);
    let ms = Span::from_ms;
    out.watchdog = Some(WatchdogConfig {
        queues: Some(1 << CLASS),
        detection: ms(200),
        restoration: ms(200),
        poll: ms(100),
        action,
    });
    let mut tm = manager([(500_000, 0), (500_000, 0)], &[port(100), out]);
    for _ in 0..5 {
        tm.enqueue(Time::ZERO, 1_000, &to(CLASS, 1_000)).unwrap();
    }
    tm.enqueue(Time::ZERO, 1_000, &to(0, 1_000)).unwrap();
    tm
}

#[test]
fn the_watchdog_detects_drops_and_restores() {
    let mut tm = watched(StormAction::Drop);
    let at = |ms: u64| Time::from_ns(ms * 1_000_000);
    storm(&mut tm, Time::ZERO, at(150));
    assert_eq!(tm.next_event(), None);
    storm(&mut tm, at(150), at(250));
    let detected =
        Event::StormDetected { port: PortId(1), queue: CLASS, action: StormAction::Drop };
    assert_eq!(tm.next_event(), Some(detected));
    let drops = std::iter::from_fn(|| tm.next_event()).count();
    assert_eq!(drops, 5);
    let refused = tm.enqueue(at(250), 1, &to(CLASS, 1_000)).unwrap_err();
    assert_eq!(refused.reason, DropReason::WatchdogStorm);
    // Packets of its own peer in that class are discarded too; other classes pass.
    let inward = Arrival { ingress: PortId(1), egress: PortId(0), ..to(CLASS, 1_000) };
    assert_eq!(tm.enqueue(at(250), 1, &inward).unwrap_err().reason, DropReason::WatchdogStorm);
    assert!(tm.enqueue(at(250), 1, &to(0, 1_000)).is_ok());
    drain(&mut tm, at(250), at(900));
    assert_eq!(tm.next_event(), Some(Event::StormRestored { port: PortId(1), queue: CLASS }));
    assert!(tm.enqueue(at(900), 1, &to(CLASS, 1_000)).is_ok());
    let counters = tm.seen().port(PortId(1)).unwrap().watchdog.unwrap()[3];
    let expected = WatchdogCounters { detected: 1, restored: 1, tx_dropped: 6, rx_dropped: 1 };
    assert_eq!(counters, expected);
    drain(&mut tm, at(900), Time::MAX);
    assert_eq!(tm.next_deadline(), Deadline::NEVER, "a quiet watchdog sets no timer");
    tm.seen().audit().unwrap();
}

#[test]
fn the_watchdog_may_forward_or_only_tell() {
    for (action, forwarded) in [(StormAction::Forward, 5), (StormAction::Alert, 0)] {
        let mut tm = watched(action);
        let end = Time::from_ns(350_000_000);
        storm(&mut tm, Time::ZERO, end);
        assert!(matches!(tm.next_event(), Some(Event::StormDetected { .. })));
        let left = drain(&mut tm, end, end + Span::from_us(100));
        let stuck = left.iter().filter(|(departure, _)| departure.queue == CLASS).count();
        assert_eq!(stuck, forwarded);
        tm.seen().audit().unwrap();
    }
}

#[test]
fn a_storm_ends_with_the_link() {
    let mut tm = watched(StormAction::Drop);
    let at = |ms: u64| Time::from_ns(ms * 1_000_000);
    storm(&mut tm, Time::ZERO, at(350));
    assert!(matches!(tm.next_event(), Some(Event::StormDetected { .. })));
    while tm.next_event().is_some() {}
    tm.port_down(at(351), PortId(1));
    let over = Event::StormRestored { port: PortId(1), queue: CLASS };
    assert!(std::iter::from_fn(|| tm.next_event()).any(|event| event == over));
    let counters = tm.seen().port(PortId(1)).unwrap().watchdog.unwrap()[3];
    assert_eq!((counters.detected, counters.restored), (1, 1));
    tm.port_up(at(352), PortId(1));
    assert!(tm.enqueue(at(352), 1, &to(CLASS, 1_000)).is_ok());
    tm.seen().audit().unwrap();
}

#[test]
fn the_watchdog_follows_the_priorities_with_pfc() {
    let mut tm = watched(StormAction::Alert);
    tm.ports[1].config.watchdog.as_mut().unwrap().queues = None;
    let at = |ms: u64| Time::from_ns(ms * 1_000_000);
    storm(&mut tm, Time::ZERO, at(350));
    assert!(matches!(tm.next_event(), Some(Event::StormDetected { queue: CLASS, .. })));
    tm.set_pfc_enabled(at(350), PortId(1), 1 << 5);
    let over = Event::StormRestored { port: PortId(1), queue: CLASS };
    assert_eq!(tm.next_event(), Some(over), "its pauses are not watched any more");
    tm.enqueue(at(350), 1, &to(5, 1_000)).unwrap();
    let mut now = at(351);
    while now < at(800) {
        tm.advance(now);
        let quanta = [Quanta::MAX; CLASSES];
        tm.pfc_received(now, PortId(1), &PfcFrame { vector: 1 << 5, quanta });
        now += Span::from_us(300);
    }
    assert!(matches!(tm.next_event(), Some(Event::StormDetected { queue: 5, .. })));
    assert_eq!(tm.next_event(), None);
    tm.seen().audit().unwrap();
}

#[test]
fn a_queue_that_makes_progress_is_no_storm() {
    let mut tm = watched(StormAction::Drop);
    let mut now = Time::ZERO;
    // Paused most of the time, with one frame now and then.
    for n in 0..20 {
        let until = now + Span::from_ms(90);
        storm(&mut tm, now, until);
        tm.pfc_received(until, PortId(1), &PfcFrame { vector: 8, quanta: [Quanta::ZERO; CLASSES] });
        tm.enqueue(until, n, &to(CLASS, 1_000)).unwrap();
        now = until + Span::from_us(1);
        drain(&mut tm, until, now);
    }
    assert_eq!(tm.next_event(), None);
    assert_eq!(tm.seen().port(PortId(1)).unwrap().watchdog.unwrap()[3].detected, 0);
}
