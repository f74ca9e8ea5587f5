//! Target `engines`: a random program with entries and packets, on every engine at every level ([`crate::differ`]).

use crate::differ::generate;
use crate::differ::random::Random;
use crate::differ::run::{Outcome, run as compare};

/// Packets of a case.
const PACKETS: usize = 40;

/// Does an input: its bytes are the decisions of the generator.
///
/// # Panics
/// Two engines or levels differ.
pub fn run(data: &[u8]) {
    let case = generate::case_by(Random::of(data), Some(PACKETS));
    match compare(&case) {
        Outcome::Differ(why) => panic!("{why}"),
        Outcome::Agree { .. } | Outcome::Refused(_) => {}
    }
}
