//! Replay: a device fed from capture files, in the time of the captures.
//!
//! The earliest record of all inputs is time zero. The device is polled at the time of each record,
//! so that ageing, meters and timestamps are those of the capture, and the same input gives the same
//! output. It reads no clock and needs no privileges.

use std::fmt;

use wireyard_tables::time::{Span, Time};

use crate::core::Core;
use crate::ports::capture::CapturePort;
use crate::ports::spec::Pace;
use crate::ports::{Port, PortSpec};

/// How often idle entries are looked for, as often as in a live switch.
const AGE_EVERY: Span = Span::from_ms(200);

/// Why a replay stopped.
#[derive(Debug)]
pub struct ReplayError(pub String);

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

/// Opens the capture ports and gives them to `core`; what is to be known about the files comes back.
///
/// # Errors
/// A file that cannot be opened or read. Nothing was written.
pub fn open(core: &mut Core, specs: Vec<(u16, PortSpec)>) -> Result<Vec<String>, ReplayError> {
    let mut ports = open_ports(specs)?;
    let notes = ports.iter().filter_map(|(_, port)| port.taken_note()).collect();
    let mut origin = None;
    for (_, port) in &mut ports {
        let first = port.next_timestamp().map_err(|e| ReplayError(e.to_string()))?;
        origin = [origin, first].into_iter().flatten().min_by_key(|time| time.as_ns());
    }
    for (number, mut port) in ports {
        if let Some(origin) = origin {
            port.set_origin(origin);
        }
        core.add_port(number, Box::new(port)).map_err(|error| ReplayError(error.to_string()))?;
    }
    Ok(notes)
}

/// Runs everything through `core` and closes its ports.
///
/// # Errors
/// A damaged file: what was before the damage has gone through. One that cannot be written on. `stop` said that the user wants an
/// end: what came before is in the outputs.
pub fn run(
    core: &mut Core,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(String),
) -> Result<(), ReplayError> {
    let failure = run_to_the_end(core, stop, tell);
    tell_of_inputs(core, tell);
    let errors = core.close();
    match failure.or_else(|| errors.first().map(ToString::to_string)) {
        Some(message) => Err(ReplayError(message)),
        None => Ok(()),
    }
}

/// Opens the inputs, and then the ports that only write: what no specification says of them, they take
/// from the inputs, so that frames which pass unchanged are of the same link type in the output.
fn open_ports(specs: Vec<(u16, PortSpec)>) -> Result<Vec<(u16, CapturePort)>, ReplayError> {
    let (inputs, outputs): (Vec<_>, Vec<_>) =
        specs.into_iter().partition(|(_, spec)| !spec.target.is_empty());
    let mut ports = Vec::new();
    for (number, spec) in inputs {
        ports.push((number, open_port(number, spec)?));
    }
    let mut links = ports.iter().map(|(_, port)| port.caps().link);
    let first = links.next();
    let common = first.filter(|first| links.all(|link| link == *first));
    for (number, mut spec) in outputs {
        spec.link = spec.link.or(common);
        ports.push((number, open_port(number, spec)?));
    }
    // Ports are polled in the order of their numbers, whatever the order of the arguments was.
    ports.sort_by_key(|(number, _)| *number);
    Ok(ports)
}

fn open_port(number: u16, mut spec: PortSpec) -> Result<CapturePort, ReplayError> {
    spec.pace = Pace::Recorded;
    CapturePort::open_as(&spec, Some(number)).map_err(|e| ReplayError(e.to_string()))
}

/// Says which inputs were held up (what came then came later than the capture says), and what was left out.
fn tell_of_inputs(core: &mut Core, tell: &mut dyn FnMut(String)) {
    for report in core.port_reports().iter().filter(|report| report.medium.rx_no_memory > 0) {
        let (port, name) = (report.port, &report.name);
        tell(format!(
            "port {port} ({name}): packet memory was full: packets came later than the capture says"
        ));
    }
    for report in core.port_reports().iter().filter(|report| report.medium.rx_errors > 0) {
        let (port, name, skipped) = (report.port, &report.name, report.medium.rx_errors);
        tell(format!(
            "port {port} ({name}): {skipped} ERF records skipped: they hold no frame, or one of another link type"
        ));
    }
}

/// Polls at the time of every record and of every timer, until all has left; the message of the first port that failed.
fn run_to_the_end(
    core: &mut Core,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(String),
) -> Option<String> {
    let mut now = Time::ZERO;
    let mut failure: Option<String> = None;
    let mut told_the_end = false;
    let mut age_at = Time::ZERO;
    loop {
        if now >= age_at {
            core.age(now);
            core.take_messages().into_iter().for_each(|message| tell(message.text));
            age_at = now + AGE_EVERY;
        }
        if stop() {
            let queued = core.queued();
            let why =
                format!("ended by a signal: the rest was not replayed ({queued} packets inside)");
            return Some(failure.unwrap_or(why));
        }
        let progress = core.poll(now, None);
        for message in core.take_messages() {
            tell(message.text.clone());
            failure.get_or_insert(message.text);
        }
        if progress.received > 0 {
            continue;
        }
        let arrival = core.next_arrival();
        if arrival.is_none() {
            // What has no end of its own ends with the input.
            core.end_generators(true);
        }
        // Without input, packets and generators, timers have nothing left to say.
        let has_more = arrival.is_some() || core.queued() > 0 || core.generates();
        let timer = core.next_timer().not_before(now).instant().filter(|_| has_more);
        // A record that is due and was not taken waits for packet memory: until something leaves.
        let is_held_up = arrival.is_some_and(|at| at <= now) && core.queued() > 0;
        let arrival = arrival.filter(|_| !is_held_up);
        match arrival.into_iter().chain(timer).min() {
            None if is_held_up => {
                let packets = core.queued();
                let why = "packet memory is full, and nothing that waits will ever leave";
                return Some(failure.unwrap_or(format!("{why} ({packets} packets)")));
            }
            // A capture may step back in time; the device does not.
            Some(next) => now = now.max(next),
            None if told_the_end => return failure,
            // Damage at the end of an input is reported by one more poll.
            None => told_the_end = true,
        }
    }
}
