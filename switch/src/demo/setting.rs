//! The experiment: an incast of the published evaluations, slowed down until a laptop can run it.
//!
//! It is a scenario of the laboratory, `programs/lab/demo.yaml`, inside the binary: the closed loop runs it live, 200
//! times slower; the open loop takes its marking curve and its switch. An open loop has no dynamics: it runs on
//! wall-clock time.

use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::source::Loader;
use wireyard_tables::time::Span;

use super::judge::Law;
use crate::lab::scenario::{self, Scenario};
use crate::library::LIBRARIES;
use crate::units::{BitsPerSec, Bytes};

/// Wall-clock seconds for one of the closed loop.
pub const DILATION: u64 = 200;
/// Hosts that send.
pub const SENDERS: usize = 5;
/// Payload of a full packet.
pub const PAYLOAD_BYTES: u32 = 1024;
/// Ethernet, IPv4, UDP, BTH, ICRC.
pub const FRAME_BYTES: u32 = PAYLOAD_BYTES + 14 + 20 + 8 + 12 + 4;
/// Class, queue and PFC priority of data.
pub const DATA_CLASS: u8 = 3;
/// Steps of the clock of the open loop.
pub const STEP: Span = Span::from_us(50);
/// Least time of the closed loop after its warm-up to be judged.
pub const MEASURED_MIN: Span = Span::from_ms(25);
/// Bytes of one sender in the buffer at which it is paused in the open loop, whose senders ignore pauses: a level that
/// is not reached.
pub const OPEN_XOFF: Bytes = Bytes::new(600_000);
/// MTU of the cables of the open loop.
pub const MTU_BYTES: u32 = 1500;
/// The marking curve of both phases: that of the scenario, which a test compares with it.
pub const LAW: Law = Law { kmin: 5e3, kmax: 2000e3, pmax: 0.1 };

/// The scenario's name as a file, and its text.
const SCENARIO: (&str, &str) =
    ("programs/lab/demo.yaml", include_str!("../../../programs/lab/demo.yaml"));

/// Rate of the links of the open loop: fast enough to cause no wait.
pub fn open_rate() -> BitsPerSec {
    BitsPerSec::gbit(2)
}

/// The scenario; it names no program, so it runs those inside the binary.
///
/// # Errors
/// Its errors, which do not occur in a build that passed its tests.
pub fn scenario() -> Result<Scenario, Rejected> {
    let loader = Loader::in_memory([SCENARIO], LIBRARIES);
    let read = scenario::read(SCENARIO.0.as_ref(), &loader);
    read.map(|(scenario, _)| scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::queues::switch_qos;

    /// The judged law is the configured one.
    #[test]
    fn the_law_is_that_of_the_scenario() {
        let scenario = scenario().unwrap();
        let switch = scenario.fabric.switches().next().unwrap();
        let qos = switch_qos(&scenario, switch).unwrap();
        let wred = qos.ports[0].tm.queues[usize::from(DATA_CLASS)].wred.unwrap();
        let (kmin, kmax, pmax) = wred.curves[0].unwrap().parts();
        let pmax = pmax.get() as f64 / 4_294_967_296.0;
        assert!((pmax - LAW.pmax).abs() < 1e-9);
        assert_eq!(Law { kmin: kmin as f64, kmax: kmax as f64, ..LAW }, LAW);
        assert_eq!(scenario.fabric.hosts().count(), SENDERS + 1);
        assert_eq!(scenario.host.path_mtu, Bytes::new(PAYLOAD_BYTES.into()));
        assert!(scenario.duration > scenario.warm_up + MEASURED_MIN);
    }
}
