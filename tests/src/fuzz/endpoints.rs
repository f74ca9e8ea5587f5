//! Target `endpoints`: two RC end points with random requests over a channel that loses, copies and reorders; every byte of both
//! memories and every completion against a slow model.

#[path = "../../../switch/src/roce/qp/tests/channel.rs"]
#[allow(dead_code, reason = "its other users send single packets")]
mod channel;
#[path = "../../../switch/src/roce/qp/tests/requests.rs"]
mod requests;

use super::text::Decisions;
use channel::Faults;

/// Does an input: chances of faults, the first PSN, and the seed of requests and channel.
///
/// # Panics
/// Something was lost, done twice or done in another order.
pub fn run(data: &[u8]) {
    let mut decisions = Decisions::new(data);
    let faults = Faults {
        loss_percent: u64::from(decisions.byte() % 30),
        copy_percent: u64::from(decisions.byte() % 60),
        jitter_us: u64::from(decisions.byte() % 16),
        // Switches trim for selective retransmission alone.
        trim_percent: 0,
    };
    // Near the wrap, half of the time.
    let near = u32::from(decisions.byte());
    let psn = if near % 2 == 0 { 0x00ff_ff00 + near } else { near << 14 };
    let seed =
        decisions.rest().iter().fold(0u64, |sum, byte| sum.rotate_left(7) ^ u64::from(*byte));
    requests::run(seed, faults, psn);
}
