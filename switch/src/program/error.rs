//! Why no device can be built of a program that was read and checked.

use wireyard_pipeline::entries::ApplyError;
use wireyard_pipeline::generation::PrepareError;
use wireyard_pipeline::packet::MemoryError;

use crate::config::GeneratorError;
use crate::config::qos::{PartError, Report};
use crate::core::DeviceError;
use crate::frames::layout::LayoutError;
use crate::replicate::ReplicationError;

/// A program, entries or a configuration that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No packet memory of this size.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No packet memory for the configured number of packets.
    #[error("{source} (`packet_slots` of `qos:`: {packets} packets)")]
    Slots {
        /// The cause.
        source: MemoryError,
        /// The configured number.
        packets: u32,
    },
    /// The state is larger than is allowed.
    #[error(
        "the state of {program} takes {bytes} bytes with {workers} workers, and {most} are allowed: {largest}; use \
         fewer workers, or --max-state"
    )]
    State {
        /// The program.
        program: String,
        /// Its state, in bytes.
        bytes: u64,
        /// Counters have a lane for each.
        workers: usize,
        /// The limit in bytes.
        most: u64,
        /// The largest parts.
        largest: String,
    },
    /// An invalid table, or the compiled engine was requested, and does not support this program or machine.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// An entry that its table refuses.
    #[error(transparent)]
    Entries(#[from] ApplyError),
    /// An invalid multicast group or mirror session.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// The queues of the configuration contradict each other: the whole report.
    #[error("the queues of this configuration:\n{}", .0.refusal())]
    Queues(Box<Report>),
    /// A part of the buffer that is too small for a worker's ports.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A generator for a port that does not exist.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// A device of no worker.
    #[error("a device has at least one worker")]
    NoWorker,
    /// A refusal of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The embedded header libraries.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
