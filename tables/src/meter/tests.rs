use super::*;
use crate::time::Span;
use Color::{Green, Red, Yellow};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// (time in us, bytes, colour before) -> colour
fn run(config: MeterConfig, packets: &[(u64, u64, Color, Color)]) {
    let mut meter = Meter::new(config, Time::ZERO).unwrap();
    for (i, &(us, bytes, before, after)) in packets.iter().enumerate() {
        assert_eq!(meter.color(bytes, before, at_us(us)), after, "packet {i}");
    }
}

#[test]
fn single_rate_by_hand() {
    // 1 byte per us, 1000 committed, 500 excess.
    let config = MeterConfig::SingleRate { cir: 1_000_000, cbs: 1000, ebs: 500 };
    run(
        config,
        &[
            (0, 600, Green, Green),      // Tc 400, Te 500
            (0, 500, Green, Yellow),     // Tc 400, Te 0: larger than Tc, taken from Te
            (0, 500, Green, Red),        // nothing is taken by a red packet
            (0, 400, Green, Green),      // Tc 0
            (99, 100, Green, Red),       // Tc 99
            (100, 100, Green, Green),    // Tc 0
            (1350, 1000, Green, Green),  // 1250 arrived: Tc 1000, Te 250; Tc 0
            (1350, 251, Green, Red),     // Te 250
            (1350, 250, Green, Yellow),  // Te 0
            (9999, 1, Red, Red),         // colour-aware: red stays red, both buckets full again
            (9999, 500, Yellow, Yellow), // yellow never uses Tc
            (9999, 1, Yellow, Red),      // Te empty, Tc is not used
            (9999, 1000, Green, Green),  // Tc was untouched
        ],
    );
}

#[test]
fn two_rate_by_hand() {
    // 1 byte per us committed, 2 peak; bursts 1000 and 1500.
    let config = MeterConfig::TwoRate { cir: 1_000_000, cbs: 1000, pir: 2_000_000, pbs: 1500 };
    run(
        config,
        &[
            (0, 1000, Green, Green),     // Tc 0, Tp 500
            (0, 501, Green, Red),        // over Tp
            (0, 500, Green, Yellow),     // Tp 0
            (100, 200, Green, Yellow),   // Tc 100, Tp 200 -> 0
            (100, 1, Green, Red),        // Tp 0 although Tc 100
            (200, 200, Green, Green),    // Tc 200, Tp 200 -> 0, 0
            (5000, 300, Yellow, Yellow), // full; yellow takes Tp only: 1200
            (5000, 1000, Green, Green),  // Tc was untouched; Tp 200
            (5000, 100, Red, Red),
            (5000, 200, Green, Yellow),
        ],
    );
}

#[test]
fn long_run_rate_is_exact() {
    // 333,333,333 bytes/s offered twice as fast, in steps of 100,003 ps that divide nothing.
    let cir = 333_333_333;
    for config in [
        MeterConfig::SingleRate { cir, cbs: 200, ebs: 0 },
        MeterConfig::TwoRate { cir, cbs: 200, pir: 3 * cir, pbs: 1000 },
    ] {
        let mut meter = Meter::new(config, Time::ZERO).unwrap();
        let (step_ps, packets, bytes) = (100_003u64, 1_000_000u64, 67u64);
        let mut green = 0;
        for i in 0..=packets {
            let now = Time::from_ps(i * step_ps);
            green += bytes * u64::from(meter.color(bytes, Green, now) == Green);
        }
        let arrived = (u128::from(cir) * u128::from(packets * step_ps) / 1_000_000_000_000) as u64;
        // All that arrived and the initial burst were spent, but for less than a packet.
        let spendable = arrived + 200;
        assert!(green <= spendable && green + bytes > spendable, "{green} of {spendable}");
    }
}

#[test]
fn small_steps_equal_one_large_step() {
    let config = MeterConfig::TwoRate { cir: 7, cbs: 50, pir: 11, pbs: 90 };
    let drained = || {
        let mut meter = Meter::new(config, Time::ZERO).unwrap();
        meter.color(50, Green, Time::ZERO);
        meter.color(40, Yellow, Time::ZERO);
        meter
    };
    let (mut small, mut large) = (drained(), drained());
    let end_ps = 3_000_000_000_000u64;
    for i in 1..=30_011 {
        small.color(0, Yellow, Time::from_ps(end_ps / 30_011 * i));
    }
    small.color(0, Yellow, Time::from_ps(end_ps));
    large.color(0, Yellow, Time::from_ps(end_ps));
    assert_eq!((small.committed.tokens, small.second.tokens), (21, 33));
    assert_eq!((large.committed.tokens, large.second.tokens), (21, 33));
}

#[test]
fn extremes_do_not_overflow() {
    let config =
        MeterConfig::TwoRate { cir: u64::MAX, cbs: u64::MAX, pir: u64::MAX, pbs: u64::MAX };
    let mut meter = Meter::new(config, Time::ZERO).unwrap();
    assert_eq!(meter.color(u64::MAX, Green, Time::MAX), Green);
    assert_eq!(meter.color(1, Green, Time::ZERO), Red);
}

#[test]
fn bad_configurations_are_refused() {
    let new = |config| Meter::new(config, Time::ZERO).map(|_| ());
    assert_eq!(new(MeterConfig::SingleRate { cir: 1, cbs: 0, ebs: 0 }), Err(MeterError::NoBurst));
    assert_eq!(
        new(MeterConfig::TwoRate { cir: 2, cbs: 1, pir: 1, pbs: 1 }),
        Err(MeterError::PeakBelowCommitted { cir: 2, pir: 1 })
    );
}

#[test]
fn arrays_count_packets_or_bytes_and_pass_without_configuration() {
    let config = MeterConfig::SingleRate { cir: 1, cbs: 2, ebs: 0 };
    for (unit, passed) in [(MeterUnit::Packets, 2), (MeterUnit::Bytes, 0)] {
        let meters = MeterArray::new(2, unit);
        meters.configure(1, Some(config), Time::ZERO).unwrap();
        let colors = (0..5).map(|_| meters.execute(1, 100, Green, Time::ZERO));
        assert_eq!(colors.filter(|&c| c == Green).count(), passed);
        assert_eq!(meters.execute(0, 100, Yellow, Time::ZERO), Yellow);
        assert_eq!(meters.execute(9, 100, Yellow, Time::ZERO), Yellow);
        assert!(meters.configure(2, None, Time::ZERO).is_err());
    }
}

/// A worker that the system has preempted inside a meter stops neither the others nor the control plane.
#[test]
fn nobody_waits_for_a_worker_inside() {
    let config = MeterConfig::SingleRate { cir: 1, cbs: 1, ebs: 0 };
    let meters = Arc::new(MeterArray::new(1, MeterUnit::Packets));
    meters.configure(0, Some(config), Time::ZERO).unwrap();
    assert_eq!(meters.execute(0, 100, Green, Time::ZERO), Green);
    assert_eq!(meters.execute(0, 100, Green, Time::ZERO), Red);
    let (answer, answers) = std::sync::mpsc::channel();
    let inside = meters.meters[0].running.lock().unwrap();
    let theirs = Arc::clone(&meters);
    std::thread::spawn(move || {
        let color = theirs.execute(0, 100, Green, Time::ZERO);
        let larger = MeterConfig::SingleRate { cir: 1, cbs: 2, ebs: 0 };
        theirs.configure(0, Some(larger), Time::ZERO).unwrap();
        answer.send((color, theirs.config(0) == Some(larger)))
    });
    let answered = answers.recv_timeout(std::time::Duration::from_secs(20));
    drop(inside);
    assert_eq!(
        answered,
        Ok((Green, true)),
        "the colour stays, and the control plane reads its own"
    );
    let colors = [(); 3].map(|()| meters.execute(0, 100, Green, Time::ZERO));
    assert_eq!(colors, [Green, Green, Red], "with the next packet");
}

/// A packet that comes while a change is being published puts it in place once.
#[test]
fn a_change_fills_the_buckets_once() {
    let config = MeterConfig::SingleRate { cir: 1, cbs: 2, ebs: 0 };
    let meters = MeterArray::new(1, MeterUnit::Packets);
    meters.configure(0, Some(config), Time::ZERO).unwrap();
    let one = || meters.execute(0, 100, Green, Time::ZERO);
    assert_eq!([one(), one()], [Green; 2]);
    // It has seen the change before it was marked.
    meters.meters[0].is_changed.store(true, Ordering::Relaxed);
    assert_eq!(one(), Red);
    // The same rates once more are a change, and none are.
    meters.configure(0, Some(config), Time::ZERO).unwrap();
    assert_eq!([one(), one(), one()], [Green, Green, Red]);
    meters.configure(0, None, Time::ZERO).unwrap();
    assert_eq!((one(), meters.config(0)), (Green, None));
}
