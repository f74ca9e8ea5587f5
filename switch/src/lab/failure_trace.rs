//! The packet that broke a check: finds it, and its trace as of `wireyard trace`.
//!
//! A run keeps no traces: they would cost more than the run. It is a function of build, seed and scenario instead, so
//! it is run again: once to find the event after which the check fails, once more with the trace on at that device and
//! instant. The checks themselves are in [`super::checks`]. A check that no single packet breaks (memory that is full,
//! the rate of a link) has no trace.

use std::fmt::Write;
use std::sync::Arc;

use wireyard_pipeline::ir::Half;
use wireyard_pipeline::trace::{Event, Recorder, TraceSink, text};
use wireyard_tables::time::Time;

use super::build::Options;
use super::checks::{Violation, port_name};
use super::engine::{Lab, Outcome, Pulse};

use crate::ports::PortNumber;

/// Passes that are shown if the packet is not identified.
const PASSES_MAX: usize = 4;
/// Bytes of a packet that are shown.
const BYTES_MAX: usize = 96;

/// A packet by its device's data.
#[derive(Clone, Debug)]
struct Suspect {
    /// Its ingress port.
    ingress_port: PortNumber,
    /// Its bytes, as queued or dropped.
    bytes: Vec<u8>,
    /// Its outcome.
    outcome: String,
}

/// The node and instant to trace.
#[derive(Clone, Debug)]
struct Moment {
    node: usize,
    at: Time,
    /// `None`: any packet of that instant.
    suspect: Option<Suspect>,
}

/// The target of a second run.
#[derive(Debug)]
enum Look {
    /// The first event after which the device breaks a check; not before this instant.
    Break { after: Time },
    /// Passes of packets at a device, at an instant.
    Trace { moment: Moment, recorder: Recorder },
}

/// Watches a run, event by event.
#[derive(Debug)]
pub(super) struct Watch {
    look: Look,
    found: Option<Moment>,
}

impl Watch {
    /// The receiver of the events of this poll.
    pub(super) fn sink(&mut self, node: usize, now: Time) -> Option<&mut dyn TraceSink> {
        match &mut self.look {
            // A device has its packets' times in nanoseconds.
            Look::Trace { moment, recorder }
                if moment.node == node && moment.at.as_ns() == now.as_ns() =>
            {
                Some(recorder)
            }
            _ => None,
        }
    }
}

/// The trace of the packet that broke a check, found by running `lab`'s scenario again; `None` if there is no such
/// packet, or `pulse` stopped it.
pub fn of(
    lab: &mut Lab,
    options: Options,
    violation: &Violation,
    pulse: &mut dyn FnMut(Pulse) -> bool,
) -> Option<String> {
    let waiting = match violation.check {
        // These checks concern all packets together, or a device: a second run over every event would find nothing.
        "memory" | "progress" | "lookahead" => return None,
        "liveness" => lab.waiting(),
        _ => None,
    };
    let moment = match waiting {
        Some(moment) => moment,
        None => {
            let after = match violation.check {
                // Nothing waits, so drops are the reason that nothing arrives.
                "liveness" => Time::ZERO,
                _ => lab.checks.held,
            };
            let watch = again(lab, options, Look::Break { after }, violation.check, pulse)?;
            watch.found?
        }
    };
    let look = Look::Trace { moment, recorder: Recorder::default() };
    match again(lab, options, look, violation.check, pulse)?.look {
        Look::Trace { moment, recorder } => Some(lab.words(&moment, &recorder.events)),
        Look::Break { .. } => None,
    }
}

/// Runs the scenario once more with a watch, which is returned.
fn again(
    lab: &Lab,
    options: Options,
    look: Look,
    check: &'static str,
    pulse: &mut dyn FnMut(Pulse) -> bool,
) -> Option<Watch> {
    // A watch of every event needs them one after the other.
    let options = Options { workers: 1, captures: false, ..options };
    let mut second = Lab::new(Arc::clone(&lab.scenario), options).ok()?;
    second.cores.iter_mut().for_each(|core| core.outcomes_mut().listen_to_drops());
    second.watch = Some(Box::new(Watch { look, found: None }));
    second.watched_check = check;
    match second.run(pulse) {
        Outcome::Interrupted => None,
        _ => second.watch.map(|watch| *watch),
    }
}

impl Lab {
    /// After a poll of a node, in a run that is watched: an error ends the run, because the search is done.
    pub(super) fn look(&mut self, node: usize) -> Result<(), Violation> {
        let dropped = self.cores[node].outcomes_mut().take_dropped();
        let (now, check) = (self.now(), self.watched_check);
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let after = match &watch.look {
            Look::Break { after } => *after,
            Look::Trace { moment, .. } if now.as_ns() > moment.at.as_ns() => {
                return Err(Violation::new(check, now, "traced"));
            }
            Look::Trace { .. } => return Ok(()),
        };
        let is_broken = match check {
            "liveness" => !dropped.is_empty(),
            "lossless" => !dropped.is_empty() && self.check_node(node).is_err(),
            _ => now >= after && self.check_node(node).is_err(),
        };
        if !is_broken {
            return Ok(());
        }
        let suspect = dropped.into_iter().next().map(|packet| Suspect {
            ingress_port: packet.ingress_port,
            bytes: packet.bytes,
            outcome: format!("dropped: {}", packet.reason),
        });
        if let Some(watch) = &mut self.watch {
            watch.found = Some(Moment { node, at: now, suspect });
        }
        Err(Violation::new(check, now, "found"))
    }

    /// A packet that waits for ever: one in a cycle of pauses, or in any queue that is paused.
    fn waiting(&mut self) -> Option<Moment> {
        let circle = self.circle().unwrap_or_default();
        let places = circle.into_iter().chain(self.paused());
        for (node, port, queue) in places {
            let core = &self.cores[node];
            let mut queued = core.manager().tm.packets();
            let Some(packet) = queued.find(|p| p.egress_port == port.0 && p.ingress_ns > 0) else {
                continue;
            };
            let Some(buf) = &packet.buf else { continue };
            let bytes = self.mem.frame(buf, packet.data_off, packet.len).to_vec();
            let place = port_name(&self.scenario.fabric, node, port);
            let outcome = format!("it has been waiting since in {place} queue {queue}");
            let ingress_port = PortNumber(packet.ingress_port);
            let suspect = Suspect { ingress_port, bytes, outcome };
            let at = Time::from_ns(packet.ingress_ns);
            return Some(Moment { node, at, suspect: Some(suspect) });
        }
        None
    }

    /// The trace in words.
    fn words(&self, moment: &Moment, events: &[Event]) -> String {
        let name = &self.scenario.fabric.nodes[moment.node].name;
        let passes = passes(events, moment.suspect.as_ref());
        let mut out = match &moment.suspect {
            Some(suspect) => format!(
                "the packet, {} bytes, came into `{name}` by port {} at {}:\n",
                suspect.bytes.len(),
                suspect.ingress_port,
                moment.at
            ),
            None => format!("what happened in `{name}` at {}:\n", moment.at),
        };
        let Some(program) = self.cores[moment.node].generation().map(|g| Arc::clone(&g.program))
        else {
            return out;
        };
        for pass in passes.iter().take(PASSES_MAX) {
            out.push_str(&text::packet_trace(&program, pass));
        }
        if passes.is_empty() {
            out.push_str("  no packet passed the program\n");
        }
        if let Some(suspect) = &moment.suspect {
            let _ = writeln!(out, "{}", suspect.outcome);
            let shown = &suspect.bytes[..suspect.bytes.len().min(BYTES_MAX)];
            for (row, bytes) in shown.chunks(16).enumerate() {
                let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
                let _ = writeln!(out, "  {:04x}  {}", row * 16, digits.join(" "));
            }
            if shown.len() < suspect.bytes.len() {
                let _ = writeln!(out, "  and {} bytes more", suspect.bytes.len() - shown.len());
            }
        }
        out
    }
}

/// The passes of a suspect; all of them if it is not among them, or not known.
fn passes<'e>(events: &'e [Event], suspect: Option<&Suspect>) -> Vec<&'e [Event]> {
    let is_start = |event: &Event| matches!(event, Event::Start { .. });
    let starts: Vec<usize> = (0..events.len()).filter(|&n| is_start(&events[n])).collect();
    let ends = starts.iter().skip(1).copied().chain([events.len()]);
    let all: Vec<&[Event]> = starts.iter().zip(ends).map(|(&from, to)| &events[from..to]).collect();
    let Some(suspect) = suspect else { return all };
    let is_it = |pass: &&&[Event]| {
        let came = matches!(&pass[0], Event::Start { port, half: Half::Ingress, .. } if *port == suspect.ingress_port.0);
        let same = |event: &Event| match event {
            Event::Start { bytes, .. } | Event::Verdict { bytes, .. } => *bytes == suspect.bytes,
            _ => false,
        };
        came && pass.iter().any(same)
    };
    match all.iter().find(is_it) {
        Some(pass) => vec![pass],
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wireyard_tables::time::Span;

    use crate::lab::engine::tests::lab;

    const INCAST: &str = "
lab: full
duration: 100 us
sample: 10 us
topology: { incast: { senders: 2 } }
flows: { from: senders, to: sink }
";

    /// A second run of a large laboratory takes long, as it stops at every event.
    #[test]
    fn what_no_packet_breaks_is_not_looked_for() {
        for check in ["memory", "progress", "lookahead", "conservation"] {
            let mut full = lab(INCAST, 1);
            let violation = Violation::new(check, Time::ZERO + Span::from_us(50), "");
            let mut runs = 0;
            let options = Options { workers: 1, ..Options::default() };
            let found = of(&mut full, options, &violation, &mut |_| {
                runs += 1;
                true
            });
            assert_eq!((found, runs > 0), (None, check == "conservation"), "{check}");
        }
    }
}
