//! Target `tables`: random tables and batches against the linear oracle, with the machine of `tables/tests/oracle.rs`.

#[path = "../../../tables/tests/oracle/linear.rs"]
mod linear;
#[path = "../../../tables/tests/oracle/machine.rs"]
mod machine;

use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Steps of an input, at most.
const STEPS_MAX: usize = 60;

/// Does an input: its bytes are the seed of the strategies' random numbers. (As the numbers themselves they run out, and zeros are rejected
/// for ever by some strategies.)
///
/// # Panics
/// An engine and the oracle differ.
pub fn run(data: &[u8]) {
    let mut seed = [0u8; 32];
    for (at, byte) in data.iter().enumerate() {
        seed[at % 32] = seed[at % 32].rotate_left(3) ^ byte;
    }
    let source = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), source);
    let all = (machine::spec(), machine::spec(), vec(machine::step(), 0..STEPS_MAX));
    let Ok(tree) = all.new_tree(&mut runner) else { return };
    let (one, two, steps) = tree.current();
    machine::run(&[one, two], &steps);
}
