//! The end of the loop of a live switch.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::ports::PortNumber;
use crate::ports::scripted::ScriptedPort;
use crate::program::{DeviceOptions, one_way};

#[test]
fn a_loop_that_fails_closes_its_ports() {
    let mut core = one_way().device(DeviceOptions::small()).unwrap();
    // Nothing can wait on a descriptor that is not open.
    let port = ScriptedPort { poll_fd: Some(RawFd::MAX), ..ScriptedPort::default() };
    let is_closed = Arc::clone(&port.is_closed);
    core.add_port(PortNumber(1), Box::new(port)).unwrap();
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
