//! Whole devices in virtual time under one seed, against a model (`wireyard_tests::simulation`).
//!
//! `WIREYARD_SEEDS=100000` runs so many; `WIREYARD_FIRST_SEED` begins elsewhere; `WIREYARD_SEED=17` runs one again.

use std::time::{Duration, Instant};

use wireyard_tests::seeds::{self, number};
use wireyard_tests::simulation::{Defect, Done, run};

/// Seeds of an ordinary run, at least and at most, and how long it takes at most. Each reason is met in two seeds of five.
const SEEDS_LEAST: u64 = 20;
const SEEDS: u64 = 200;
const LONGEST: Duration = Duration::from_secs(6);
/// Seeds in which a planted defect must be found.
const SEEDS_OF_DEFECT: u64 = 20;

#[test]
fn whole_devices_keep_their_promises() {
    let (again, asked) = (number("WIREYARD_SEED"), number("WIREYARD_SEEDS"));
    let seeds = asked.unwrap_or(if again.is_some() { 1 } else { SEEDS });
    let first = seeds::first();
    eprintln!("from seed {first} on");
    let (began, mut all, mut ran) = (Instant::now(), Done::default(), 0);
    for seed in first..first + seeds {
        if asked.is_none() && ran >= SEEDS_LEAST && began.elapsed() > LONGEST {
            break;
        }
        let done = run(seed, None).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\nagain: WIREYARD_SEED={seed} cargo test -p wireyard-tests --test it whole_devices")
        });
        ran += 1;
        all.sent += done.sent;
        all.received += done.received;
        all.dropped += done.dropped;
        all.lossy.0 += done.lossy.0;
        all.lossy.1 += done.lossy.1;
        all.operations += done.operations;
        all.pauses += done.pauses;
        for (reason, count) in done.reasons {
            *all.reasons.entry(reason).or_default() += count;
        }
    }
    eprintln!("{ran} seeds in {:?}: {all:?}", began.elapsed());
    if ran >= SEEDS_LEAST {
        for reason in ["port_down", "port_removed", "no_such_port", "stopped", "ingress_threshold"]
        {
            assert!(all.reasons.contains_key(reason), "no frame was dropped as {reason}: {all:?}");
        }
        // Measured: 62 % arrive in 200 seeds, 48 % in the first 20 of them.
        let (arrived, full) = all.lossy;
        assert!(arrived * 3 > full, "most of the lossy class found no room: {all:?}");
        assert!(all.received > 0 && all.operations > 0 && all.pauses > 0, "{all:?}");
    }
    assert_eq!(all.sent, all.received + all.dropped, "{all:?}");
}

/// What the simulation is for: each defect is found within a few seeds, by the promise that it breaks.
#[test]
fn planted_defects_are_found() {
    for defect in Defect::ALL {
        let found =
            (1..=SEEDS_OF_DEFECT).find_map(|seed| Some((seed, run(seed, Some(defect)).err()?)));
        let (seed, why) = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
        eprintln!("{defect:?}, seed {seed}: {why}");
        let says = match defect {
            Defect::Twice => "was not sent, or came to an end before",
            Defect::Lost => "neither arrived nor were dropped",
            Defect::Overtake => "after number",
            Defect::Flip => "arrived changed",
            Defect::Leak => "free chunks of",
            Defect::NoPauses | Defect::Unclassed => "dropped Tag",
            Defect::LostWrite => "in force were",
            Defect::HalfSwap => "by two programs",
            Defect::Crossed => "arrived at host",
            Defect::Deaf => "a lossless frame began",
            Defect::Unheld => "held since",
            Defect::Early => "another ended at",
            Defect::Partial => "in force were",
            Defect::Excused => "without an outage",
            Defect::Shut => "of the lossy class",
        };
        assert!(why.contains(says), "{defect:?}: {why}");
    }
}

/// The same seed is the same run.
#[test]
fn a_seed_is_one_run() {
    let once = || run(7, None).unwrap_or_else(|why| panic!("seed 7: {why}"));
    let (one, other) = (once(), once());
    assert!(one.received > 0, "{one:?}");
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}
