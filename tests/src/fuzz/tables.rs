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

/// Does an input: its bytes are the random numbers of the strategies.
///
/// # Panics
/// An engine and the oracle differ.
pub fn run(data: &[u8]) {
    let source = TestRng::from_seed(RngAlgorithm::PassThrough, data);
    let mut runner = TestRunner::new_with_rng(Config::default(), source);
    let all = (machine::spec(), machine::spec(), vec(machine::step(), 0..STEPS_MAX));
    // Bytes that ran out are zeros, which some strategies reject for ever.
    let Ok(tree) = all.new_tree(&mut runner) else { return };
    let (one, two, steps) = tree.current();
    machine::run(&[one, two], &steps);
}
