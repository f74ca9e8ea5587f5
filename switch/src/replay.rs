//! Replay: a device fed from capture files, in the time of the captures.
//!
//! The earliest record of all inputs is time zero. The device is polled at the time of each record, so that ageing,
//! meters and timestamps are those of the capture, and the same input has the same output. It reads no clock and needs
//! no privileges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wireyard_tables::time::{Span, Time};

use crate::core::{Core, DeviceError, PortReport};
use crate::pcap::Timestamp;
use crate::ports::capture::CapturePort;
use crate::ports::spec::Pace;
use crate::ports::{Port, PortError, PortNumber, PortSpec};

/// Interval of checking idle entries, as in a live switch.
pub(crate) const AGE_EVERY: Span = Span::from_ms(200);

/// Records that the device's time does not reach.
pub(crate) const SPAN_NOTE: &str = "records that are more than 212 days after the first one have the time of day 212, and so do \
    the frames sent for them: a device's time goes no further; `editcap -A` and `-B` divide a capture by time";

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A file that cannot be opened or read, or written further.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A number that no port can have, or that another port has.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A port failed during the run: the device's message.
    #[error("{0}")]
    Failed(String),
    /// The caller stopped it.
    #[error("ended by a signal: the rest was not replayed ({0} packets inside)")]
    Stopped(usize),
    /// Packets that wait for each other hold all packet memory.
    #[error("packet memory is full, and nothing that waits will ever leave ({0} packets)")]
    MemoryFull(usize),
}

/// Opens the capture ports and adds them to `core`; returns notices about the files. When `stop` is set, now or in
/// [`run`], an input that has to be waited for is at its end.
///
/// # Errors
/// A file that cannot be opened or read. Nothing was written.
pub fn open(
    core: &mut Core,
    specs: Vec<(PortNumber, PortSpec)>,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<String>, ReplayError> {
    let opened = open_ports(specs, stop);
    if stop.load(Ordering::Relaxed) {
        return Err(ReplayError::Stopped(0));
    }
    let mut ports = opened?;
    let notes = ports.iter().filter_map(|(_, port)| port.taken_note()).collect();
    let mut origin = None;
    for (_, port) in &mut ports {
        let first = port.next_timestamp()?;
        origin = [origin, first].into_iter().flatten().min_by_key(|time| time.as_ns());
    }
    for (number, mut port) in ports {
        if let Some(origin) = origin {
            port.set_origin(origin);
        }
        core.add_port(number, Box::new(port))?;
    }
    Ok(notes)
}

/// Runs all inputs through `core` and closes its ports.
///
/// # Errors
/// A damaged file: the records before the damage were processed. One that cannot be written further. `stop` returned
/// true: the outputs have the packets until then.
pub fn run(
    core: &mut Core,
    stop: &dyn Fn() -> bool,
    report: &mut dyn FnMut(String),
) -> Result<(), ReplayError> {
    let failure = run_to_the_end(core, stop, report);
    report_inputs(core, report);
    let errors = core.close();
    let lost = errors.into_iter().next().map(ReplayError::Port);
    failure.or(lost).map_or(Ok(()), Err)
}

/// Opens the inputs, and then the ports that only write: properties without a specification are taken from the inputs,
/// so that unchanged frames have the same link type in the output.
fn open_ports(
    specs: Vec<(PortNumber, PortSpec)>,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<(PortNumber, CapturePort)>, ReplayError> {
    let (inputs, outputs): (Vec<_>, Vec<_>) =
        specs.into_iter().partition(|(_, spec)| spec.input.is_some());
    let mut ports = Vec::new();
    for (number, spec) in inputs {
        ports.push((number, open_port(number, spec, stop)?));
    }
    let mut links = ports.iter().map(|(_, port)| port.caps().link);
    let first = links.next();
    let common = first.filter(|first| links.all(|link| link == *first));
    for (number, mut spec) in outputs {
        spec.link = spec.link.or(common);
        ports.push((number, open_port(number, spec, stop)?));
    }
    // Ports are polled in the order of their numbers, regardless of the order of the arguments.
    ports.sort_by_key(|(number, _)| *number);
    Ok(ports)
}

fn open_port(
    number: PortNumber,
    mut spec: PortSpec,
    stop: &Arc<AtomicBool>,
) -> Result<CapturePort, ReplayError> {
    spec.pace = Pace::Recorded;
    Ok(CapturePort::open_as(&spec, Some(number), Some(Arc::clone(stop)))?)
}

/// Reports inputs that were held up (packets came later than in the capture), out of order, and left out records.
fn report_inputs(core: &mut Core, report: &mut dyn FnMut(String)) {
    core.ports_mut().take_last_messages().into_iter().for_each(|message| report(message.text));
    for port in PortReport::all(core).iter().filter(|port| port.medium.rx_no_memory > 0) {
        let (port, name) = (port.port, &port.name);
        report(format!(
            "port {port} ({name}): packet memory was full: packets came later than the capture says"
        ));
    }
    for port in PortReport::all(core).iter().filter(|port| port.medium.rx_errors > 0) {
        let (port, name, skipped) = (port.port, &port.name, port.medium.rx_errors);
        report(format!(
            "port {port} ({name}): {skipped} ERF records skipped: they hold no frame, or one of another link type"
        ));
    }
}

/// Polls at the time of every record and of every timer, until all packets have left; returns the error of the first
/// port that failed.
fn run_to_the_end(
    core: &mut Core,
    stop: &dyn Fn() -> bool,
    report: &mut dyn FnMut(String),
) -> Option<ReplayError> {
    let mut now = Time::ZERO;
    let mut failure: Option<ReplayError> = None;
    let mut end_was_reported = false;
    let mut age_at = Time::ZERO;
    loop {
        if now >= age_at {
            core.age(now);
            core.ports_mut().take_messages().into_iter().for_each(|message| report(message.text));
            age_at = now + AGE_EVERY;
        }
        let progress = core.poll(now, None);
        if stop() {
            // A record that a signal cut is no failure of its input.
            return Some(failure.unwrap_or(ReplayError::Stopped(core.queued())));
        }
        for message in core.ports_mut().take_messages() {
            // The first one is returned, and reported by the caller.
            match failure {
                None => failure = Some(ReplayError::Failed(message.text)),
                Some(_) => report(message.text),
            }
        }
        if progress.received > 0 {
            continue;
        }
        let arrival = core.ports_mut().next_arrival();
        if arrival.is_none() {
            // Generators without an end of their own end with the input.
            core.generators().end(true);
        }
        // Without input, packets and generators, timers have no further effect.
        let has_more = arrival.is_some() || core.queued() > 0 || core.generators().have_frames();
        let timer = core.next_timer().not_before(now).instant().filter(|_| has_more);
        // A record that is due and was not read waits for packet memory, until a packet leaves.
        let is_held_up = arrival.is_some_and(|at| at <= now) && core.queued() > 0;
        let arrival = arrival.filter(|_| !is_held_up);
        match arrival.into_iter().chain(timer).min() {
            None if is_held_up => {
                return Some(failure.unwrap_or(ReplayError::MemoryFull(core.queued())));
            }
            // Timestamps of a capture may decrease; the device's time does not.
            Some(next) => {
                let is_past = now >= Timestamp::SPAN_MAX;
                now = now.max(next);
                if arrival == Some(Timestamp::SPAN_MAX) && now >= Timestamp::SPAN_MAX && !is_past {
                    report(SPAN_NOTE.to_owned());
                }
            }
            None if end_was_reported => return failure,
            // Damage at the end of an input is reported by one more poll.
            None => end_was_reported = true,
        }
    }
}
