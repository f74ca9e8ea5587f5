//! Delays, holds, copies, control frames, ports that are removed and added.

use super::*;

#[test]
fn a_delayed_packet_leaves_at_its_time_and_is_charged_meanwhile() {
    let mut tm = plain();
    let until = Time::from_ns(5_000);
    tm.hold(Time::ZERO, 100, &to(1, 100), Release::At(until)).unwrap();
    assert_eq!(tm.seen().pool(INGRESS).unwrap().shared, 100);
    assert_eq!((tm.next_deadline(), tm.next_ready()), (Deadline::at(until), None));
    tm.seen().audit().unwrap();
    let left = drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(left[0].1.start, until);
    tm.seen().audit().unwrap();
}

#[test]
fn a_held_packet_goes_behind_n_others_or_times_out() {
    let mut tm = plain();
    let behind = |packets| Release::AfterPackets { packets, timeout: Span::from_us(10) };
    tm.hold(Time::ZERO, 1, &to(1, 101), behind(2)).unwrap();
    tm.hold(Time::ZERO, 2, &to(1, 102), behind(9)).unwrap();
    for packet in [3, 4, 5] {
        tm.enqueue(Time::ZERO, packet, &to(1, 103)).unwrap();
        tm.enqueue(Time::ZERO, 60, &to(2, 60)).unwrap();
    }
    let order = |left: Vec<(Departed, Transmission)>| -> Vec<u32> {
        let of_queue = left.iter().filter(|(departed, _)| departed.queue == 1);
        of_queue.map(|(departed, _)| departed.packet).collect()
    };
    assert_eq!(order(drain(&mut tm, Time::ZERO, Time::from_ns(9_000))), [3, 4, 1, 5]);
    assert_eq!(order(drain(&mut tm, Time::from_ns(9_000), Time::MAX)), [2]);
    assert_eq!(tm.slots().0, 0);
    tm.seen().audit().unwrap();
}

#[test]
fn the_hold_store_is_bounded() {
    let mut tm = plain();
    for n in 0..64 {
        tm.hold(Time::ZERO, n, &to(1, 60), Release::At(Time::from_ns(10))).unwrap();
    }
    let refused = tm.hold(Time::ZERO, 64, &to(1, 60), Release::At(Time::from_ns(10))).unwrap_err();
    assert_eq!((refused.packet, refused.reason), (64, DropReason::HoldFull));
    tm.seen().audit().unwrap();
    assert_eq!(drain(&mut tm, Time::ZERO, Time::MAX).len(), 64);
}

/// What was released by count is no longer in the store, however far off its timeout is.
#[test]
fn packets_released_by_count_leave_room() {
    let mut tm = plain();
    let release = Release::AfterPackets { packets: 1, timeout: Span::from_ms(10_000) };
    for n in 0..1_000u64 {
        let now = Time::from_ns(1_000 * n);
        tm.hold(now, 60, &to(1, 60), release).unwrap_or_else(|refused| panic!("{n}: {refused:?}"));
        tm.enqueue(now, 60, &to(1, 60)).unwrap();
        assert_eq!(drain(&mut tm, now, Time::from_ns(1_000 * (n + 1))).len(), 2, "{n}");
    }
    assert_eq!(tm.slots().0, 0);
    tm.seen().audit().unwrap();
}

#[test]
fn copies_are_charged_once_and_released_by_the_last() {
    let mut tm = manager([(10_000, 0), (10_000, 0)], &[port(100), port(100), port(100)]);
    let memory = tm.charge_shared(Time::ZERO, PortId(0), 2, 1_000).unwrap();
    for egress in [1, 2] {
        let arrival = Arrival { egress: PortId(egress), ..to(4, 1_000) };
        tm.enqueue_copy(Time::ZERO, 1_000, memory, &arrival).unwrap();
    }
    let nowhere = Arrival { egress: PortId(7), ..to(4, 1_000) };
    assert!(tm.enqueue_copy(Time::ZERO, 1_000, memory, &nowhere).is_err());
    tm.seen().audit().unwrap();
    tm.release_shared(Time::ZERO, memory);
    tm.release_shared(Time::ZERO, SharedCharge(99));
    assert_eq!(
        (tm.seen().pool(INGRESS).unwrap().shared, tm.seen().pool(EGRESS).unwrap().shared),
        (1_000, 2_000)
    );
    tm.set_blocked(Time::ZERO, PortId(2), true);
    drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(
        (tm.seen().pool(INGRESS).unwrap().shared, tm.seen().pool(EGRESS).unwrap().shared),
        (1_000, 1_000)
    );
    tm.set_blocked(Time::ZERO, PortId(2), false);
    drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(tm.seen().pool(INGRESS).unwrap().shared, 0);
    let again = tm.charge_shared(Time::ZERO, PortId(0), 2, 1_000).unwrap();
    assert_eq!(again, memory);
    tm.seen().audit().unwrap();
}

#[test]
fn control_frames_go_first_and_are_bounded() {
    let mut tm = plain();
    tm.enqueue(Time::ZERO, 1_000, &to(7, 1_000)).unwrap();
    assert_eq!(tm.send_control(Time::ZERO, PortId(1), 60, 60), Ok(Admitted::Queued));
    let left = drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!((left[0].0.queue, left[1].0.queue), (CONTROL_QUEUE, 7));
    tm.set_blocked(Time::ZERO, PortId(1), true);
    let refused =
        (0..100).filter(|n| tm.send_control(Time::ZERO, PortId(1), *n, 60).is_err()).count();
    assert_eq!(refused, 36);
    tm.seen().audit().unwrap();
}

#[test]
fn a_port_that_goes_down_drops_its_own_and_nothing_else() {
    let mut tm = manager([(1_000_000, 0), (1_000_000, 0)], &[port(100), port(100), port(100)]);
    for _ in 0..10 {
        tm.enqueue(Time::ZERO, 500, &to(3, 500)).unwrap();
        tm.enqueue(Time::ZERO, 500, &Arrival { egress: PortId(2), ..to(3, 500) }).unwrap();
    }
    tm.port_down(Time::ZERO, PortId(1));
    let reasons: Vec<_> = std::iter::from_fn(|| tm.next_event()).collect();
    assert_eq!(reasons.len(), 10);
    let down =
        |event: &Event<u32>| matches!(event, Event::Drop { reason: DropReason::PortDown, .. });
    assert!(reasons.iter().all(down));
    assert_eq!(tm.enqueue(Time::ZERO, 5, &to(3, 500)).unwrap_err().reason, DropReason::PortDown);
    tm.seen().audit().unwrap();
    assert_eq!(drain(&mut tm, Time::ZERO, Time::MAX).len(), 10);
    tm.port_up(Time::ZERO, PortId(1));
    assert!(tm.enqueue(Time::ZERO, 5, &to(3, 500)).is_ok());
    assert_eq!(tm.restore_port(PortId(1), port(10)), Err(PortError::NoSuchPort));
    tm.take(Time::ZERO, PortId(1)).unwrap();
    tm.commit(Time::ZERO, PortId(1), 5).unwrap();
    assert_ne!(tm.next_deadline(), Deadline::NEVER, "a frame is on the wire");
    tm.port_down(Time::from_ns(9), PortId(1));
    assert_eq!(tm.next_deadline(), Deadline::NEVER, "and is nobody's business any more");
    tm.restore_port(PortId(1), port(10)).unwrap();
    tm.seen().audit().unwrap();
}

#[test]
fn wrong_numbers_are_named_refusals() {
    let mut tm = plain();
    let wrong = [
        Arrival { egress: PortId(9), ..to(0, 60) },
        to(8, 60),
        Arrival { group: 8, ..to(0, 60) },
        Arrival { ingress: PortId(9), ..to(0, 60) },
    ];
    for arrival in wrong {
        assert_eq!(
            tm.enqueue(Time::ZERO, 1, &arrival).unwrap_err().reason,
            DropReason::NoSuchQueue
        );
    }
    assert!(
        tm.take(Time::ZERO, PortId(9)).is_none() && tm.commit(Time::ZERO, PortId(9), 1).is_none()
    );
    tm.port_down(Time::ZERO, PortId(9));
    tm.pause_received(Time::ZERO, PortId(9), Quanta::MAX);
    tm.seen().audit().unwrap();
}

#[test]
fn a_port_may_go_down_between_begin_and_commit() {
    let mut tm = plain();
    tm.enqueue(Time::ZERO, 1, &to(0, 1_000)).unwrap();
    tm.take(Time::ZERO, PortId(1)).unwrap();
    tm.port_down(Time::ZERO, PortId(1));
    assert_eq!(tm.commit(Time::ZERO, PortId(1), 1_000), None);
    assert_eq!(tm.seen().pool(INGRESS).unwrap().shared, 0);
    tm.restore_port(PortId(1), port(10)).unwrap();
    tm.seen().audit().unwrap();
}

/// A group without room drops a packet also where its queue trims it first.
#[test]
fn a_trimmed_packet_that_its_group_refuses_has_that_reason() {
    let mut small = port(100);
    small.groups[0].account.limit = Limit::Static(1_050);
    let mut trims = port(100);
    trims.queues[0].account.limit = Limit::Static(1_000);
    trims.queues[0].trim = Some(Trim { bytes: 128, queue: 1 });
    let mut tm = manager([(100_000, 0), (100_000, 0)], &[small, trims]);
    tm.enqueue(Time::ZERO, 1, &to(0, 1_000)).unwrap();
    let offered = tm.offer(Time::ZERO, &to(0, 1_000));
    assert!(matches!(offered, Offered::Trims(_)), "{offered:?}");
    let rest = Arrival { queue: 1, ..to(0, 128) };
    let refused = tm.offer_trimmed(Time::ZERO, 0, &rest);
    assert_eq!(refused, Offered::Refused(DropReason::IngressThreshold));
    let counters = tm.ports[1].queues[0].counters;
    assert_eq!((counters.trimmed.packets, counters.trim_dropped.packets), (1, 0));
    // Where the other queue has no room, it is counted as such.
    tm.ports[1].queues[1].account.config.limit = Limit::Static(100);
    let refused = tm.offer_trimmed(Time::ZERO, 0, &rest);
    assert_eq!(refused, Offered::Refused(DropReason::TrimRefused));
    assert_eq!(tm.ports[1].queues[0].counters.trim_dropped.packets, 1);
}

#[test]
fn packet_slots_are_a_named_limit() {
    let pools = vec![PoolConfig { shared_bytes: 1_000_000, headroom_bytes: 0 }; 2];
    let mut tm: Tm<u32> = Tm::new(Config {
        seed: 1,
        packet_slots: 2,
        stop_at_slots: u32::MAX,
        hold_slots: 0,
        cell_bytes: 0,
        pools,
    });
    tm.add_port(port(100)).unwrap();
    tm.add_port(port(100)).unwrap();
    for _ in 0..2 {
        tm.enqueue(Time::ZERO, 1, &to(0, 100)).unwrap();
    }
    assert_eq!(tm.enqueue(Time::ZERO, 1, &to(0, 100)).unwrap_err().reason, DropReason::NoSlot);
    assert_eq!(tm.send_control(Time::ZERO, PortId(1), 2, 60), Ok(Admitted::Queued), "a pause");
    assert_eq!(tm.seen().pool(INGRESS).unwrap().shared, 200);
    tm.seen().audit().unwrap();
}

#[test]
fn the_counters_of_a_removed_port_go_on() {
    let mut tm = plain();
    let watchdog = Some(WatchdogConfig {
        queues: Some(0xff),
        detection: Span::from_ms(200),
        restoration: Span::from_ms(200),
        poll: Span::from_ms(100),
        action: StormAction::Drop,
    });
    let port = || PortConfig { watchdog, ..port(10) };
    tm.port_down(Time::ZERO, PortId(1));
    tm.restore_port(PortId(1), port()).unwrap();
    let entry = &mut tm.ports[1];
    entry.pauses.rx_xoff[3] = 5;
    entry.control_counters.admitted.packets = 2;
    entry.control_counters.departed.packets = 2;
    entry.watchdog.as_mut().unwrap().counters[3].detected = 1;
    tm.port_down(Time::ZERO, PortId(1));
    tm.restore_port(PortId(1), port()).unwrap();
    let entry = &tm.ports[1];
    assert_eq!((entry.pauses.rx_xoff[3], entry.control_counters.departed.packets), (5, 2));
    assert_eq!(entry.watchdog.as_ref().unwrap().counters[3].detected, 1);
    tm.seen().audit().unwrap();
}

/// The entry of a packet that was released by count stays in the store until its time. What is due behind it comes in
/// order of time: the frame on the wire leaves, and then there is room.
#[test]
fn a_stale_hold_does_not_bring_a_later_one_forward() {
    let mut tm = manager([(100_000, 0), (1_200, 0)], &[port(1), port(1)]);
    let us = |us: u64| Time::from_ns(us * 1_000);
    let behind = Release::AfterPackets { packets: 1, timeout: Span::from_us(4) };
    tm.hold(Time::ZERO, 1, &to(1, 101), behind).unwrap();
    tm.hold(Time::ZERO, 2, &to(1, 200), Release::At(us(9))).unwrap();
    // 8.192 us on the wire; it releases the first one.
    tm.enqueue(Time::ZERO, 1_000, &to(1, 1_000)).unwrap();
    tm.take(Time::ZERO, PortId(1)).unwrap();
    tm.commit(Time::ZERO, PortId(1), 1_000).unwrap();
    tm.advance(us(10));
    assert_eq!(tm.next_event(), None, "a packet was refused");
    assert_eq!(tm.seen().port(PortId(1)).unwrap().queues[1].packets, 2);
    tm.seen().audit().unwrap();
}
