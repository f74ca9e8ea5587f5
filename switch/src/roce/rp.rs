//! The reaction point: the sending rate of a queue pair.
//!
//! [`RateControl`] has the present rate and the events that may change it. [`fixed`] and [`dcqcn`] are written in Rust,
//! every other one is a YAML file that [`program`] runs. [`pacer`] turns the rate into departure instants.
//!
//! Rates are bits per second in `f64`, and only `+ - x /` and comparisons are used on them, so a trace
//! is the same on every machine.

use std::fmt;
use std::sync::Arc;

use wireyard_tables::time::{Deadline, Span, Time};

pub mod dcqcn;
pub mod fixed;
pub mod pacer;
pub mod program;

use super::telemetry::TelemetryBytes;
use dcqcn::Profile;

/// Measurements of the path in an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct AckSample<'a> {
    /// Packets newly acknowledged.
    pub packets: u32,
    /// From the departure of the newest acknowledged packet to now; `None` after a retransmission.
    pub round_trip: Option<Span>,
    /// The acknowledgement carried BECN.
    pub becn: bool,
    /// Packets acknowledged since the connection began, including these.
    pub acked: u64,
    /// Packets sent since then, each counted once.
    pub sent: u64,
    /// Telemetry of the newest received packet, if the acknowledgement has it.
    pub telemetry: Option<&'a TelemetryBytes>,
}

/// The state for plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateState {
    /// Sending rate R_C in bit/s.
    pub rate_bps: f64,
    /// Target rate R_T in bit/s; the sending rate if the algorithm has none.
    pub target_bps: f64,
    /// Congestion estimate, in seconds if it is a time; zero if the algorithm has none.
    pub estimate: f64,
    /// Increase events by timer since the last cut.
    pub time_stage: u32,
    /// Increase events by the byte counter since the last cut.
    pub byte_stage: u32,
}

/// A rate control algorithm of one queue pair.
pub trait RateControl: fmt::Debug + Send {
    /// The sending rate in bit/s, as of the last event.
    fn rate_bps(&self) -> f64;
    /// A CNP (or BECN) arrived.
    fn on_cnp(&mut self, now: Time);
    /// `bytes` left for the wire.
    fn on_bytes_sent(&mut self, now: Time, bytes: u64);
    /// An acknowledgement arrived.
    fn on_ack(&mut self, _now: Time, _sample: &AckSample<'_>) {}
    /// `lost` packets were detected as lost, and are retransmitted; 1 with go-back-N, where the number is unknown.
    fn on_nack(&mut self, _now: Time, _lost: u32) {}
    /// A packet was trimmed on its path and is retransmitted.
    fn on_trim(&mut self, now: Time) {
        self.on_nack(now, 1);
    }
    /// No acknowledgement came in time. `lost` packets count as lost; 1 with go-back-N.
    fn on_timeout(&mut self, _now: Time, _lost: u32) {}
    /// Most payload without an acknowledgement; `None` without such a limit.
    fn window_bytes(&self) -> Option<u64> {
        None
    }
    /// Least time from the departure of a packet to the next, whatever their length.
    fn gap(&self) -> Span {
        Span::ZERO
    }
    /// When the rate may next change by itself.
    fn next_deadline(&self) -> Deadline;
    /// Applies the timers that were due up to and including `now`.
    fn poll(&mut self, now: Time);
    /// Applies timers that were due before `now` and that change neither rate nor window, so that [`Self::state`] is
    /// that of `now`.
    fn sync(&mut self, _now: Time) {}
    /// The state for plots and traces, as of the last event.
    fn state(&self) -> RateState;
}

/// An algorithm with its settings, from which each queue pair starts its own state.
#[derive(Clone, Debug)]
pub enum RateAlgorithm {
    /// A constant rate in bit/s.
    Fixed(f64),
    /// DCQCN with checked parameters.
    Dcqcn(Profile),
    /// A program with its parameters.
    Program(Arc<program::Instance>),
}

impl RateAlgorithm {
    /// `fixed` (at line rate) or the name of a DCQCN preset ([`dcqcn::preset::names`]).
    ///
    /// # Errors
    /// An unknown name, with the valid names, or a line rate that is no positive number.
    pub fn by_name(name: &str, line_rate_bps: f64) -> Result<RateAlgorithm, ParamError> {
        if name == "fixed" {
            return RateAlgorithm::fixed(line_rate_bps);
        }
        let preset = dcqcn::preset::by_name(name, line_rate_bps)?;
        Ok(RateAlgorithm::Dcqcn(preset.rp.profile()?))
    }

    /// A constant rate.
    ///
    /// # Errors
    /// A rate that is not a positive number.
    pub fn fixed(rate_bps: f64) -> Result<RateAlgorithm, ParamError> {
        if rate_bps.is_finite() && rate_bps >= 1.0 {
            return Ok(RateAlgorithm::Fixed(rate_bps));
        }
        Err(ParamError::new("rate_bps", rate_bps.to_string(), "at least 1 bit/s"))
    }

    /// The treatment of a gap between two packets while the rate changes.
    pub(super) fn gap(&self) -> pacer::Gap {
        match self {
            RateAlgorithm::Fixed(_) | RateAlgorithm::Program(_) => pacer::Gap::Rest,
            RateAlgorithm::Dcqcn(profile) => profile.pacing_gap,
        }
    }

    /// The state of a new queue pair.
    pub fn start(&self) -> Box<dyn RateControl> {
        match self {
            RateAlgorithm::Fixed(rate_bps) => Box::new(fixed::Fixed::new(*rate_bps)),
            RateAlgorithm::Dcqcn(profile) => Box::new(dcqcn::Dcqcn::new(profile)),
            RateAlgorithm::Program(instance) => Box::new(instance.start()),
        }
    }

    /// Data packets have room for telemetry, and acknowledgements return it.
    pub fn telemetry(&self) -> bool {
        match self {
            RateAlgorithm::Program(instance) => instance.program().notification().telemetry,
            _ => false,
        }
    }

    /// How marks are returned to the sender.
    pub fn marks(&self) -> program::Marks {
        match self {
            RateAlgorithm::Program(instance) => instance.program().notification().marks,
            _ => program::Marks::Cnp,
        }
    }
}

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{param} is {found}, expected {expected}")]
pub struct ParamError {
    /// The parameter, spelt as in the configuration.
    pub param: &'static str,
    /// The value found.
    pub found: String,
    /// A valid value.
    pub expected: String,
}

impl ParamError {
    pub(crate) fn new(param: &'static str, found: String, expected: impl Into<String>) -> Self {
        ParamError { param, found, expected: expected.into() }
    }
}
