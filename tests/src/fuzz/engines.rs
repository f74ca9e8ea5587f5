//! Target `engines`: a random program with entries and packets, on every engine at every level ([`crate::differ`]).

use crate::differ::random::Random;
use crate::differ::run::{Outcome, run as compare};
use crate::differ::{Case, generate};

/// Packets of a case.
const PACKETS: usize = 40;

/// The case of an input: its bytes are the decisions of the generator.
pub fn case(data: &[u8]) -> Case {
    generate::case_by(Random::of(data), Some(PACKETS))
}

/// Does an input.
///
/// # Panics
/// Two engines or levels differ.
pub fn run(data: &[u8]) {
    match compare(&case(data)) {
        Outcome::Differ(why) => panic!("{why}"),
        // How many may be refused is a test's matter (`tests/it/fuzz.rs`).
        Outcome::Agree { .. } | Outcome::Refused(_) => {}
    }
}
