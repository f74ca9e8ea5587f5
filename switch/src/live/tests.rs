//! How the loop of a live switch ends.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wireyard_pipeline::packet::PacketMemory;

use super::*;
use crate::ports::{LinkState, LinkType, Port, PortCaps, PortStats, RxFrame, TxDone, TxFrame};
use crate::program::{DeviceOptions, from_text};

const PROGRAM: &str = "
pipeline: ends
include: [ethernet]
parser: { start: { extract: ethernet, next: accept } }
ingress: [ std.egress_port = 1 ]
deparser: { emit: [ethernet] }
";

/// A port that nothing can wait on: its descriptor is not open.
struct BadPort {
    is_closed: Arc<AtomicBool>,
}

impl Port for BadPort {
    fn name(&self) -> &str {
        "bad"
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: LinkType::Ethernet, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        _: &mut PacketMemory,
        _: Time,
        _: &mut Vec<RxFrame>,
        _: usize,
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn tx_burst(
        &mut self,
        _: &mut PacketMemory,
        _: Time,
        _: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        Ok(TxDone::default())
    }

    fn poll_fd(&self) -> Option<RawFd> {
        Some(RawFd::MAX)
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }

    fn link_state(&mut self, _: Time) -> LinkState {
        LinkState::Up
    }

    fn close(&mut self, _: &mut PacketMemory) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_loop_that_fails_closes_its_ports() {
    let loaded = from_text("ends.yaml", PROGRAM).unwrap_or_else(|rejected| panic!("{rejected}"));
    let mut core = loaded.device(DeviceOptions::small()).unwrap();
    let is_closed = Arc::new(AtomicBool::new(false));
    core.add_port(1, Box::new(BadPort { is_closed: Arc::clone(&is_closed) })).unwrap();
    let mut workers = Workers::one().unwrap();
    let signals =
        Signals { stop: Arc::default(), counters: Arc::default(), reload: Arc::default() };
    let result = run_until(&mut core, &mut workers, None, &signals, &mut |_, _| ());
    assert!(matches!(result, Err(LiveError::System(_))), "{result:?}");
    assert!(is_closed.load(Ordering::Relaxed));
}

#[test]
fn a_run_ends_an_hour_before_its_clock_does() {
    let hour = Span::from_ms(3_600_000);
    assert!(check_clock(Time::MAX - hour - Span::from_ps(1)).is_ok());
    let ended = check_clock(Time::MAX - hour);
    assert!(matches!(ended, Err(LiveError::ClockEnds)), "{ended:?}");
    assert_eq!(Time::MAX.as_ps() / 1_000_000_000_000 / 86_400, 213);
}
