//! Link time, pass-through, the two steps of a departure, shapers.

use super::*;

#[test]
fn back_to_back_frames_keep_the_exact_rate() {
    let mut tm = plain();
    for _ in 0..1_000 {
        tm.enqueue(Time::ZERO, 1_044, &to(0, 1_044)).unwrap();
    }
    let left = drain(&mut tm, Time::ZERO, Time::MAX);
    // 1044 + 4 + 20 bytes at 100 Gbit/s: 85,440 ps each.
    for (n, (_, transmission)) in left.iter().enumerate() {
        assert_eq!(transmission.start, Time::from_ps(85_440 * n as u64));
        assert_eq!(transmission.end, Time::from_ps(85_440 * (n as u64 + 1)));
    }
    assert_eq!(left.len(), 1_000);
    assert_eq!(tm.slots().0, 0);
    tm.seen().audit().unwrap();
}

#[test]
fn a_late_caller_catches_up_but_never_sends_early() {
    let mut tm = plain();
    let mut ideal = Time::ZERO;
    let mut now = Time::ZERO;
    let mut sent = 0u64;
    for _ in 0..2_000 {
        tm.enqueue(Time::ZERO, 1_476, &to(0, 1_476)).unwrap();
    }
    // 1500 bytes on the wire: 120 ns. The caller wakes every 700 ns.
    while sent < 2_000 {
        tm.advance(now);
        while tm.take(now, PortId(1)).is_some() {
            let transmission = tm.commit(now, PortId(1), 1_476).unwrap();
            assert_eq!(transmission.start, ideal);
            assert!(transmission.start <= now);
            ideal = transmission.end;
            sent += 1;
        }
        assert!(sent <= now.as_ns() / 120 + 1);
        now += Span::from_ns(700);
    }
    assert_eq!(ideal, Time::from_ns(2_000 * 120));
}

#[test]
fn catching_up_has_a_bound_and_no_frame_starts_before_it_arrived() {
    let mut config = port(100);
    config.max_catch_up = Span::from_ns(1_000);
    let mut tm = manager([(10_000_000, 0), (10_000_000, 0)], &[port(100), config]);
    for _ in 0..100 {
        tm.enqueue(Time::ZERO, 1_476, &to(0, 1_476)).unwrap();
    }
    let now = Time::from_ns(50_000);
    let first = tm.take(now, PortId(1)).unwrap();
    assert_eq!(first.start, Time::from_ns(49_000));
    tm.commit(now, PortId(1), 1_476).unwrap();
    tm.enqueue(now, 60, &to(7, 60)).unwrap();
    let mut starts = Vec::new();
    while let Some(departure) = tm.take(now, PortId(1)) {
        starts.push((departure.queue, departure.start));
        tm.commit(now, PortId(1), departure.packet).unwrap();
    }
    for (queue, start) in starts {
        assert!(queue != 7 || start >= now);
    }
    tm.seen().audit().unwrap();
}

/// A late caller never sends more frames at once than the far end can take; the rate holds from then on.
#[test]
fn a_late_caller_sends_no_more_frames_at_once_than_it_may() {
    let mut config = port(100);
    config.catch_up_frames = 5;
    let mut tm = manager([(10_000_000, 0), (10_000_000, 0)], &[port(100), config]);
    for _ in 0..100 {
        tm.enqueue(Time::ZERO, 1_476, &to(0, 1_476)).unwrap();
    }
    let sent_at = |tm: &mut Tm<u32>, now: Time| {
        tm.advance(now);
        let mut sent = 0;
        while tm.take(now, PortId(1)).is_some() {
            tm.commit(now, PortId(1), 1_476).unwrap();
            sent += 1;
        }
        sent
    };
    // Five late ones, and one on time; each lasts 120 ns.
    assert_eq!(sent_at(&mut tm, Time::from_ns(50_000)), 6);
    assert_eq!(sent_at(&mut tm, Time::from_ns(50_100)), 0);
    assert_eq!(sent_at(&mut tm, Time::from_ns(50_360)), 3);
    tm.seen().audit().unwrap();
}

/// Two ports of 100 Gbit/s, of which the first has a lossless group 3 without headroom.
fn lossless_pair() -> Tm<u32> {
    let mut lossless = port(100);
    lossless.groups[3].lossless =
        Some(LosslessConfig { headroom_bytes: 0, xon: Xon::BelowXoff(0) });
    lossless.flow_control.mode = FlowControl::Pfc;
    lossless.flow_control.enabled = 1 << 3;
    manager([(10_000_000, 0), (10_000_000, 0)], &[lossless, port(100)])
}

/// Slots are kept for packets after XOFF: lossless groups stop their peers, other groups are refused.
#[test]
fn few_slots_stop_lossless_groups_and_turn_others_away() {
    let mut tm = lossless_pair();
    tm.config.stop_at_slots = 16;
    tm.set_few_elsewhere(false);
    tm.set_blocked(Time::ZERO, PortId(1), true);
    for n in 0..20 {
        tm.enqueue(Time::ZERO, n, &to(3, 100)).unwrap();
        assert_eq!(tm.seen().port(PortId(0)).unwrap().groups[3].xoff, n >= 16, "{n}");
    }
    let refused = tm.enqueue(Time::ZERO, 99, &to(0, 100)).unwrap_err();
    assert_eq!(refused.reason, DropReason::NoSlot);
    tm.set_blocked(Time::ZERO, PortId(1), false);
    let mut now = Time::ZERO;
    for left in (0..20).rev() {
        now += Span::from_ns(100);
        tm.advance(now);
        tm.take(now, PortId(1)).unwrap();
        tm.commit(now, PortId(1), 100).unwrap();
        tm.advance(now + Span::from_ns(50));
        let is_stopped = tm.seen().port(PortId(0)).unwrap().groups[3].xoff;
        assert_eq!(is_stopped, left >= 15, "{left}");
    }
    tm.seen().audit().unwrap();
}

/// Packets that are charged here may wait at another worker, which has few slots left.
#[test]
fn few_slots_at_another_worker_stop_lossless_groups_too() {
    let mut tm = lossless_pair();
    let is_stopped = |tm: &mut Tm<u32>| tm.seen().port(PortId(0)).unwrap().groups[3].xoff;
    tm.enqueue(Time::ZERO, 1, &to(3, 100)).unwrap();
    assert!(!is_stopped(&mut tm));
    tm.set_few_elsewhere(true);
    tm.enqueue(Time::ZERO, 2, &to(3, 100)).unwrap();
    assert!(is_stopped(&mut tm));
    let refused = tm.enqueue(Time::ZERO, 3, &to(0, 100)).unwrap_err();
    assert_eq!(refused.reason, DropReason::NoSlot);
    tm.set_few_elsewhere(false);
    tm.enqueue(Time::ZERO, 4, &to(0, 100)).unwrap();
    assert_eq!(drain(&mut tm, Time::ZERO, Time::from_ns(1_000)).len(), 3);
    assert!(!is_stopped(&mut tm));
    tm.seen().audit().unwrap();
}

#[test]
fn a_port_without_a_rate_passes_through_until_something_stands_in_the_way() {
    let mut tm = manager([(10_000, 0), (10_000, 0)], &[port(100), port(0)]);
    assert_eq!(tm.enqueue(Time::ZERO, 9, &to(2, 500)), Ok(Admitted::Departs(9)));
    tm.set_blocked(Time::ZERO, PortId(1), true);
    assert!(!tm.passes(PortId(1)));
    for _ in 0..3 {
        assert_eq!(tm.enqueue(Time::ZERO, 500, &to(2, 500)), Ok(Admitted::Queued));
    }
    tm.set_blocked(Time::ZERO, PortId(1), false);
    assert_eq!(tm.enqueue(Time::ZERO, 500, &to(2, 500)), Ok(Admitted::Queued));
    let left = drain(&mut tm, Time::ZERO, Time::MAX);
    assert_eq!(left.len(), 4);
    assert!(tm.passes(PortId(1)));
    assert_eq!(tm.enqueue(Time::ZERO, 9, &to(2, 500)), Ok(Admitted::Departs(9)));
    let counters = tm.seen().port(PortId(1)).unwrap().queues[2].counters;
    assert_eq!((counters.passed.packets, counters.departed.packets), (2, 4));
    tm.seen().audit().unwrap();
}

#[test]
fn the_final_length_pays_and_a_drop_in_egress_costs_no_link_time() {
    let mut tm = plain();
    for _ in 0..3 {
        tm.enqueue(Time::ZERO, 0, &to(0, 1_000)).unwrap();
    }
    assert!(tm.take(Time::ZERO, PortId(1)).is_some());
    assert!(tm.take(Time::ZERO, PortId(1)).is_none(), "one departure at a time");
    assert!(tm.abort(Time::ZERO, PortId(1)));
    assert!(!tm.abort(Time::ZERO, PortId(1)));
    assert!(tm.commit(Time::ZERO, PortId(1), 1).is_none());
    let departure = tm.take(Time::ZERO, PortId(1)).unwrap();
    assert_eq!((departure.start, departure.depth_at_dequeue.bytes), (Time::ZERO, 1_000));
    // Encapsulated to 1976 bytes: 2000 on the wire, 160 ns.
    let transmission = tm.commit(Time::ZERO, PortId(1), 1_976).unwrap();
    assert_eq!(transmission.end, Time::from_ns(160));
    // The buffer stays charged until the last bit has left.
    assert_eq!(tm.seen().pool(EGRESS).unwrap().shared, 2_000);
    tm.advance(Time::from_ns(159));
    assert_eq!(tm.seen().pool(EGRESS).unwrap().shared, 2_000);
    tm.advance(Time::from_ns(160));
    assert_eq!(tm.seen().pool(EGRESS).unwrap().shared, 1_000);
    let status = tm.seen().port(PortId(1)).unwrap();
    assert_eq!(status.drops[DropReason::EgressProcessing as usize].packets, 1);
    tm.seen().audit().unwrap();
}

#[test]
fn queue_and_port_shapers_hold_their_rates() {
    let shaper = |gbit| ShaperConfig { rate: BitsPerSec::gbit(gbit), burst_bytes: 0 };
    let mut out = port(100);
    out.queues[5].service.max = Some(shaper(10));
    out.max = Some(shaper(50));
    let mut tm = manager([(100_000_000, 0), (100_000_000, 0)], &[port(100), out]);
    for _ in 0..3_000 {
        tm.enqueue(Time::ZERO, 1_226, &to(5, 1_226)).unwrap();
        tm.enqueue(Time::ZERO, 1_226, &to(0, 1_226)).unwrap();
    }
    // 1250 bytes on the wire: 200 ns at 50 Gbit/s.
    let left = drain(&mut tm, Time::ZERO, Time::from_ns(200 * 2_000 - 1));
    let shaped = left.iter().filter(|(departure, _)| departure.queue == 5).count();
    assert_eq!((left.len(), shaped), (2_000, 400));
}

#[test]
fn dwrr_and_strict_share_a_link() {
    let mut out = port(100);
    out.queues[0].service.service = Service::Dwrr { weight: 14 };
    out.queues[3].service.service = Service::Dwrr { weight: 15 };
    out.queues[6].service.service = Service::Strict;
    let mut tm = manager([(100_000_000, 0), (100_000_000, 0)], &[port(100), out]);
    for n in 0..2_000 {
        for queue in [0, 3] {
            tm.enqueue(Time::ZERO, 976, &to(queue, 976)).unwrap();
        }
        if n < 100 {
            tm.enqueue(Time::ZERO, 976, &to(6, 976)).unwrap();
        }
    }
    let left = drain(&mut tm, Time::ZERO, Time::from_ns(80 * 3_000 - 1));
    let queues: Vec<u8> = left.iter().map(|(departure, _)| departure.queue).collect();
    assert!(queues[..100].iter().all(|q| *q == 6));
    let third = queues[100..].iter().filter(|q| **q == 3).count();
    assert_eq!((queues.len(), third), (3_000, 1_500));
}

/// The fraction of a picosecond that a frame leaves is in units of its rate: at another rate it would be far more.
#[test]
fn a_frame_at_another_rate_takes_its_time_at_that_rate() {
    let rate = |bits| BitsPerSec::new(bits).unwrap();
    let (fast, slow) = (rate(99_999_999_977), rate(1_000_000));
    let config = PortConfig { rate: Some(fast), ..port(100) };
    let mut tm = manager([(100_000, 0), (100_000, 0)], &[port(100), config]);
    for _ in 0..2 {
        tm.enqueue(Time::ZERO, 1_000, &to(1, 1_000)).unwrap();
    }
    tm.take(Time::ZERO, PortId(1)).unwrap();
    let first = tm.commit(Time::ZERO, PortId(1), 1_000).unwrap();
    assert!(tm.set_rate(Time::ZERO, PortId(1), slow));
    tm.advance(first.end);
    tm.take(first.end, PortId(1)).unwrap();
    let second = tm.commit(first.end, PortId(1), 1_000).unwrap();
    assert_eq!(second.end, first.end + slow.time_for(crate::units::Bytes::new(1_024)));
}
