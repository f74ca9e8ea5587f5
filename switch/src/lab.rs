//! The laboratory: scenarios in virtual time, with real frames through the real pipeline.
//!
//! It moves frames and time, and measures. It has no forwarding, marking, pausing or rate rule of its own: a lab switch
//! and a lab host are the same [`Core`](crate::core::Core) that a live switch is, with the same programs, traffic manager
//! and end points. What it has: a model of the topology ([`fabric`]), links with delay and faults ([`link`]), an agenda of who
//! is next ([`agenda`]), samples ([`sampler`]), checks that know nothing of the model ([`checks`]), a theory to compare with
//! ([`theory`]).
//!
//! A run is a function of (build, seed, scenario): time is an integer of picoseconds, events are totally ordered, everything
//! random has a stream of its own, and nothing here reads a clock. Two labs can live in one process.

pub mod addresses;
pub mod agenda;
pub mod board;
pub mod build;
pub mod cable;
pub mod checks;
pub mod compare;
pub mod engine;
pub mod fabric;
pub mod failure_trace;
pub mod foreign;
pub mod glance;
pub mod host;
mod least;
pub mod link;
pub mod live;
mod memory;
pub mod output;
pub mod queues;
mod reroute;
pub mod results;
pub mod sampler;
pub mod scenario;
mod station;
pub mod study;
pub mod sweep;
pub mod tap;
pub mod theory;
mod thresholds;
pub mod ways;

pub mod workload;

pub use engine::{Lab, Outcome, Pulse};
pub use scenario::Scenario;
