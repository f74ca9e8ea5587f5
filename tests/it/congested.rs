//! The traffic manager on real interfaces: `wireyard run` between veth pairs, and hosts that stop its ports by PFC.
//!
//! What is exact in virtual time (`queues`) is shown here on frames that a kernel carried. Needs root; skips loudly
//! otherwise. Nothing depends on how fast the machine is: what a test needs to have happened it waits for.

mod marking;

use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::binary::Ended;

use crate::rig::Wire;

/// The longest that a frame may take through a switch on a busy machine.
const LATEST: Duration = Duration::from_secs(10);

/// Receives until `enough` says so.
///
/// # Panics
/// It does not within [`LATEST`].
#[track_caller]
fn receive_until(host: &mut Wire, mut enough: impl FnMut(Vec<u8>) -> bool) {
    let deadline = Instant::now() + LATEST;
    loop {
        for frame in host.poll().expect("the port works") {
            let bytes = host.bytes(frame);
            if enough(bytes) {
                return;
            }
        }
        assert!(Instant::now() < deadline, "frames do not arrive; {:?}", host.port.stats());
    }
}

/// The counters that a switch printed at its end, checked to add up.
#[track_caller]
fn counters(ended: &Ended) -> Value {
    ended.expect(0, &[]);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON counters");
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
    for port in report["ports"].as_array().expect("ports") {
        assert_eq!(port["ledger"]["balanced"], true, "{port:#}");
    }
    report
}
