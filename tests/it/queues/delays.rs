//! What a program asks of the buffer: later, behind others, more than once, somewhere else too.

use wireyard_switch::ports::PortNumber;
use wireyard_tables::time::Time;
use wireyard_tests::wires::Fabric;

use super::{device_with_ports, frame};

/// PSNs of RoCE frames.
fn psns(frames: &[wireyard_tests::wires::Passing]) -> Vec<u32> {
    frames.iter().map(|f| u32::from_be_bytes([0, f.bytes[51], f.bytes[52], f.bytes[53]])).collect()
}

/// entries.yaml of event_injector: 1006 is delayed by 50 us, 1007 is held until two more passed.
#[test]
fn the_event_injector_delays_and_reorders() {
    for config in ["ports: { 1: {}, 2: {}, 3: {} }", "ports: { 1: {}, 2: { rate: 10Gbps }, 3: {} }"]
    {
        let (core, fars) = device_with_ports("event_injector", config, 3);
        let mut fabric = Fabric::new(vec![core]);
        let at = |us: u64| Time::from_ns(us * 1000);
        // Iteration 1 up to 1000, then 1000 again: iteration 2.
        for (us, psn) in [(0, 1000), (10, 1000), (20, 1006), (30, 1007), (40, 1008), (50, 1009)] {
            fars[0].send(at(us), &frame(1, 2, 0, 0, psn, 200));
        }
        fars[0].send(at(60), &frame(1, 2, 0, 0, 1010, 200));
        fabric.run_until(at(69));
        assert_eq!(psns(&fars[1].take()), [1000, 1000, 1008, 1009, 1007, 1010], "{config}");
        fabric.run_until(at(200));
        let late = fars[1].take();
        assert_eq!(psns(&late), [1006], "{config}");
        assert_eq!(late[0].start, at(70), "50 us after it came");
        fabric.check();
    }
}

/// The longest hold ends a wait for packets that never come.
#[test]
fn a_held_packet_leaves_when_its_time_is_over() {
    let (core, fars) = device_with_ports("event_injector", "ports: { 1: {}, 2: {}, 3: {} }", 3);
    let mut fabric = Fabric::new(vec![core]);
    for (ns, psn) in [(0, 1000), (10, 1000), (20, 1007)] {
        fars[0].send(Time::from_ns(ns), &frame(1, 2, 0, 0, psn, 200));
    }
    fabric.run_until(Time::from_ns(1_000_019));
    assert_eq!(psns(&fars[1].take()), [1000, 1000]);
    assert_eq!(fabric.cores[0].queued(), 1);
    fabric.run_until(Time::from_ns(1_000_020));
    assert_eq!(psns(&fars[1].take()), [1007]);
    fabric.check();
}

/// Copies are queued three times and charged once; the mirror of the event injector too.
#[test]
fn copies_are_charged_once() {
    let config = "ports: { 1: {}, 2: { rate: 1Gbps }, 3: { rate: 1Gbps }, 4: { rate: 1Gbps } }";
    let (core, fars) = device_with_ports("rocev2_lossless", config, 4);
    let mut fabric = Fabric::new(vec![core]);
    for number in 2..=4 {
        fabric.cores[0].block(Time::ZERO, PortNumber(number), true);
    }
    fars[0].send(Time::ZERO, &frame(1, 9, 0, 0, 1, 500));
    fabric.run_until(Time::from_ns(1));
    let status =
        |fabric: &mut Fabric, number| fabric.cores[0].port_status(PortNumber(number)).unwrap();
    let charged = |fabric: &mut Fabric| status(fabric, 1).groups[0].account.total();
    assert_eq!((charged(&mut fabric), fabric.cores[0].queued()), (500, 3));
    assert!((2..=4).all(|n| status(&mut fabric, n).queues[0].bytes == 500));
    fabric.check();
    for number in 2..=3 {
        fabric.cores[0].block(Time::from_ns(2), PortNumber(number), false);
    }
    fabric.run_until(Time::from_ns(100_000));
    assert_eq!((charged(&mut fabric), fabric.cores[0].queued()), (500, 1), "one copy still waits");
    fabric.cores[0].block(fabric.now, PortNumber(4), false);
    fabric.run_until(Time::from_ns(200_000));
    assert_eq!((charged(&mut fabric), fabric.cores[0].queued()), (0, 0));
    assert_eq!(fars.iter().map(|far| far.count()).collect::<Vec<_>>(), [0, 1, 1, 1]);
    fabric.check();

    let config = "ports: { 1: {}, 2: { rate: 1Gbps }, 3: { rate: 1Gbps } }";
    let (core, fars) = device_with_ports("event_injector", config, 3);
    let mut fabric = Fabric::new(vec![core]);
    (2..=3).for_each(|number| fabric.cores[0].block(Time::ZERO, PortNumber(number), true));
    fars[0].send(Time::ZERO, &frame(1, 2, 0, 0, 1, 500));
    fabric.run_until(Time::from_ns(1));
    assert_eq!((charged(&mut fabric), fabric.cores[0].queued()), (500, 2));
    fabric.check();
}

/// Packets for a port that cannot take them are dropped under a name; other ports lose nothing.
#[test]
fn a_full_queue_drops_by_name() {
    let config = "ports: { 1: {}, 2: { rate: 1Gbps }, 3: { rate: 1Gbps } }\nqos:\n  \
                  buffer_profiles: { egress_lossy: { pool: egress_lossy_pool, static_th: 5000 B } }";
    let (core, fars) = device_with_ports("event_injector", config, 3);
    let mut fabric = Fabric::new(vec![core]);
    fabric.cores[0].block(Time::ZERO, PortNumber(2), true);
    for psn in 0..20 {
        fars[0].send(Time::from_ns(psn * 10_000), &frame(1, 2, 0, 0, psn as u32, 500));
    }
    fabric.run_until(Time::from_ns(1_000_000));
    assert_eq!(fabric.cores[0].report().dropped_for("queue_threshold"), 10);
    assert_eq!((fars[1].count(), fars[2].count()), (0, 20));
    fabric.check();
}
