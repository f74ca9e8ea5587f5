//! For any channel, every byte arrives exactly once, or the request fails.

use super::channel::Faults;
use super::requests::run;
use crate::roce::qp::QpState;
use crate::roce::verbs::Status;

#[test]
fn a_clean_channel_repeats_nothing() {
    for seed in 0..20 {
        let pair = run(seed, Faults::default(), 0);
        let (a, b) = (pair.sides[0].qp.counters(), pair.sides[1].qp.counters());
        assert_eq!(a.retransmitted_packets + b.retransmitted_packets, 0, "seed {seed}");
        assert_eq!(a.timeouts + b.duplicate_requests + b.sequence_naks_sent, 0, "seed {seed}");
    }
}

#[test]
fn a_lossy_channel_loses_nothing_for_the_user() {
    let mut survived = 0;
    for seed in 0..60 {
        let faults = Faults { loss_percent: 3 + seed % 10, ..Faults::default() };
        survived += u32::from(run(seed, faults, 0).sides[0].qp.state() == QpState::Rts);
    }
    assert!(survived >= 55, "{survived} of 60");
}

#[test]
fn a_channel_that_copies_and_reorders_executes_nothing_twice() {
    for seed in 0..60 {
        let faults = Faults { copy_percent: 20, jitter_us: seed % 8, ..Faults::default() };
        run(seed, faults, 0);
    }
}

#[test]
fn everything_at_once_across_the_wrap_of_the_psn() {
    for seed in 0..60 {
        let faults =
            Faults { loss_percent: 5, copy_percent: 10, jitter_us: 4, ..Faults::default() };
        run(seed, faults, 0x00ff_fff0);
    }
}

/// A longer search: `WIREYARD_SEEDS=10000 cargo test -p wireyard-switch --lib --release many_seeds`.
#[test]
fn many_seeds() {
    let wanted = std::env::var("WIREYARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 1000..1000 + wanted {
        let loss_percent = seed % 12;
        let faults = Faults {
            loss_percent,
            copy_percent: seed % 31,
            jitter_us: seed % 9,
            ..Faults::default()
        };
        run(seed, faults, 0x00ff_ff00 + (seed as u32 % 256));
    }
}

#[test]
fn a_dead_channel_ends_in_an_error_completion() {
    let faults = Faults { loss_percent: 100, ..Faults::default() };
    let pair = run(1, faults, 0);
    assert_eq!(pair.sides[0].done[0].status, Status::RetryExceeded);
    assert_eq!(pair.sides[0].qp.counters().timeouts, 8, "seven retries, then the end");
}
