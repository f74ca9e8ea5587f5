//! The laboratory: scenarios in virtual time, with real frames through the real pipeline.
//!
//! It moves frames and time, and measures. It has no forwarding, marking, pausing or rate rule of its own: a lab switch
//! and a lab host are the same [`Core`](crate::core::Core) as a live switch, with the same programs, traffic manager
//! and end points. It has a model of the topology ([`fabric`]), links with delay and faults ([`link`]), an event queue
//! ([`event_queue`]), samples ([`sampler`]), checks that are independent of the model ([`checks`]), a theory to compare
//! with ([`theory`]).
//!
//! A run is a function of (build, seed, scenario): time is an integer of picoseconds, events are totally ordered,
//! everything random has a stream of its own, and nothing here reads a clock. Two labs can run in one process.

pub mod addresses;
pub mod arrival_index;
pub mod build;
pub mod cable;
pub mod checks;
pub mod compare;
pub mod engine;
mod error;
pub mod event_queue;
pub mod fabric;
pub mod failure_trace;
mod fault_effects;
mod fault_schedule;
pub mod foreign;
pub mod host;
mod ideal_completion;
mod lease;
pub mod link;
pub mod live;
mod memory;
mod node_state;
pub mod output;
mod parallel;
mod part;
pub mod partition;
mod probe;
pub mod queues;
mod reroute;
pub mod results;
pub mod routes;
pub mod sampler;
pub mod scenario;
pub mod snapshot;
pub mod study;
pub mod sweep;
pub mod tap;
pub mod theory;
mod thresholds;
mod workers;
pub mod workload;

pub use engine::{Lab, Outcome, Pulse};
pub use error::{FlowError, LabError, RateControlError};
pub use scenario::Scenario;
