//! The traffic manager on real interfaces: `wireyard run` between veth pairs, and hosts that stop its ports by PFC.
//!
//! What is exact in virtual time (`queues`) is shown here on frames that a kernel carried. Needs root; skips loudly
//! otherwise. Nothing depends on how fast the machine is: what a test needs to have happened it waits for.

mod adverse;
mod backpressure;
mod marking;
mod refused;
mod room;

use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::binary::Ended;
use wireyard_tests::live::Switch;

use crate::rig::Wire;

/// The longest that a frame may take through a switch on a busy machine.
const LATEST: Duration = Duration::from_secs(10);

/// Receives until `enough` says so, and nothing after that.
///
/// # Panics
/// It does not within [`LATEST`].
#[track_caller]
fn receive_until(host: &mut Wire, mut enough: impl FnMut(Vec<u8>) -> bool) {
    let deadline = Instant::now() + LATEST;
    while !host.next().is_some_and(&mut enough) {
        assert!(Instant::now() < deadline, "frames do not arrive; {:?}", host.port.stats());
    }
}

/// The counters that a switch printed so far; the last may still be on its way.
fn printed(out: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(out).into_iter().map_while(Result::ok).collect()
}

/// Asks a switch for its counters.
#[track_caller]
pub(crate) fn ask(switch: &Switch) -> Value {
    let before = printed(&switch.out()).len();
    switch.signal("USR1");
    let deadline = Instant::now() + LATEST;
    loop {
        if let Some(report) = printed(&switch.out()).into_iter().nth(before) {
            return report;
        }
        assert!(Instant::now() < deadline, "no counters");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The counters that a switch printed at its end, checked to add up.
#[track_caller]
pub(crate) fn counters(ended: &Ended) -> Value {
    ended.expect(0, &[]);
    let report = printed(&ended.out).pop().expect("JSON counters");
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
    for port in report["ports"].as_array().expect("ports") {
        assert_eq!(port["ledger"]["balanced"], true, "{port:#}");
    }
    report
}

/// A queue of a port in these counters; ports in the order in which they were given.
pub(crate) fn queue(report: &Value, port: usize, queue: u8) -> &Value {
    let queues = report["queueing"]["ports"][port]["queues"].as_array().expect("queues");
    queues.iter().find(|known| known["queue"] == queue).expect("a queue with packets")
}

/// Packets that a device dropped, of one reason, or of all.
pub(crate) fn dropped(report: &Value, reason: Option<&str>) -> u64 {
    let reasons = report["total"]["dropped"].as_array().expect("reasons");
    let wanted = reasons.iter().filter(|known| reason.is_none_or(|reason| known[0] == reason));
    wanted.map(|known| known[1].as_u64().expect("a count")).sum()
}
