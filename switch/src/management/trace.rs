//! Traces of packets, as documents.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::Status;
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::trace::{json, text};
use wireyard_tables::time::{Span, Time};

use super::filter::Filter;
use crate::control::{Control, ControlError, LiveTrace};
use crate::core::{DeviceError, PassTrace, TraceRequest};
use crate::p4runtime::proto::wireyard::v1 as wire;

/// Maximum number of packets of one trace.
const PACKETS_MAX: u32 = 10_000;
/// Default number of packets that a worker examines in a second.
const RATE: u32 = 1000;
/// Maximum of that: each packet costs some microseconds, for which all others wait.
const RATE_MAX: u32 = 20_000;
/// Maximum duration of a trace, in milliseconds.
const LONGEST_MS: u32 = 3_600_000;
/// Interval at which the trace checks whether its client has disconnected.
const LOOK: Duration = Duration::from_millis(100);
/// Number of such intervals that egress of the last packet may take.
const LAST_LOOKS: u32 = 3;

type Sender = mpsc::Sender<Result<wire::Documents, Status>>;

/// A trace in progress.
#[derive(Debug)]
pub struct Traced {
    trace: LiveTrace,
    control: Control,
    program: Arc<Program>,
    count: u32,
    until: Time,
    /// Time after which a client that reads nothing is disconnected.
    patience: Duration,
}

/// Begins a trace.
///
/// # Errors
/// The filter is wrong, a number is out of range, or another trace is in progress.
pub fn begin(
    control: &Control,
    request: &wire::TraceRequest,
    patience: Duration,
) -> Result<Traced, ControlError> {
    let within = |name: &str, value: u32, most: u32| match value {
        0 => Err(ControlError::OutOfRange(format!("{name} 0: give 1 to {most}"))),
        value if value > most => {
            Err(ControlError::OutOfRange(format!("{name} {value}: give 1 to {most}")))
        }
        value => Ok(value),
    };
    let program = control.program();
    let filter = Filter::read(&request.filter, &program)?;
    let count = within("count", request.count, PACKETS_MAX)?;
    let rate = within("rate", if request.rate == 0 { RATE } else { request.rate }, RATE_MAX)?;
    let milliseconds = within("milliseconds", request.milliseconds, LONGEST_MS)?;
    let most = Span::from_ms(milliseconds.into());
    let until = control.now() + most;
    let (scope, needles) = (filter.scope(), filter.needles());
    let filter = Arc::new(move |events: &[_]| filter.is_met(events));
    let of = Arc::clone(&program);
    let request = TraceRequest { program: of, scope, needles, filter, count, rate };
    let mut begun = control.trace(request.clone(), most)?;
    // A trace whose reader was dropped ends with its next check.
    for _ in 0..LAST_LOOKS {
        if begun.is_none() {
            std::thread::sleep(LOOK);
            begun = control.trace(request.clone(), most)?;
        }
    }
    let traced = || ControlError::FailedPrecondition(DeviceError::Traced.to_string());
    let trace = begun.ok_or_else(traced)?;
    Ok(Traced { trace, control: control.clone(), program, count, until, patience })
}

impl Traced {
    /// Passes on the trace until there were enough packets, the time is over, the program is replaced or the client has
    /// disconnected. Blocks, so it needs a thread of its own.
    pub fn pass_on(&self, to: &Sender) {
        let (mut packets, mut quiet) = (0, 0);
        while packets < self.count || quiet < LAST_LOOKS {
            if to.is_closed() {
                return;
            }
            match self.trace.passes().recv_timeout(LOOK) {
                Ok(pass) => {
                    (packets, quiet) = (packets.max(pass.packet), 0);
                    if !self.send(to, vec![self.document(&pass)]) {
                        return;
                    }
                }
                // All workers have ended it: the time is over, or the program was replaced.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.control.now() >= self.until => break,
                Err(RecvTimeoutError::Timeout) => quiet += 1,
            }
        }
        let (skipped, lost) = (self.trace.skipped(), self.trace.lost());
        self.send(to, vec![json!({ "skipped": skipped, "lost": lost }).to_string()]);
        if packets < self.count && !Arc::ptr_eq(&self.program, &self.control.program()) {
            let why = "the program was replaced, and the trace ended with it: begin again";
            let _ = to.blocking_send(Err(Status::aborted(why)));
        }
    }

    fn send(&self, to: &Sender, json: Vec<String>) -> bool {
        let sent = async {
            let sent = to.send(Ok(wire::Documents { json }));
            tokio::time::timeout(self.patience, sent).await
        };
        matches!(Handle::current().block_on(sent), Ok(Ok(())))
    }

    fn document(&self, pass: &PassTrace) -> String {
        let document = json!({
            "packet": pass.packet,
            "pass": pass.half.name(),
            "events": json::packet_trace(&self.program, &pass.events),
            "text": text::packet_trace(&self.program, &pass.events),
        });
        document.to_string()
    }
}
