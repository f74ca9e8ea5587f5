//! Sends a P4Runtime device requests with random bytes in them, for long: nothing may panic, and what is refused may have changed nothing.
//!
//! `cargo run --release -p wireyard-tests --example p4requests -- [REQUESTS] [SEED]`
//!
//! In batches, each with a seed and a device of its own; a line says what came of all of them so far. A batch that fails panics behind its seed:
//! `p4requests BATCH SEED` runs it again.

use std::process::ExitCode;

use wireyard_tests::differ::random::Random;
use wireyard_tests::fuzz::control;

/// Requests of a device.
const BATCH: usize = 100_000;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (count, seed) =
        match (numbers.next().unwrap_or(Ok(1_000_000)), numbers.next().unwrap_or(Ok(1))) {
            (Ok(count), Ok(seed)) => (count as usize, seed),
            _ => {
                eprintln!("p4requests [REQUESTS] [SEED]");
                return ExitCode::from(2);
            }
        };
    let (mut done, mut refused) = (0, 0);
    for (seed, begun) in (seed..).zip((0..count).step_by(BATCH)) {
        let requests = BATCH.min(count - begun);
        eprintln!("seed {seed}");
        let ended = control::requests(Random::new(seed), requests);
        done += ended.done;
        refused += ended.refused;
        let all = begun + requests;
        println!(
            "{all} requests: {done} were done, {refused} were refused and changed nothing, {} were no messages",
            all - done - refused
        );
    }
    ExitCode::SUCCESS
}
