//! Why the loop of a live switch ended early.

use std::io;

use crate::ports::PortError;

/// An early end of the loop of a live switch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The system refuses to catch signals, or to report or wait for frames.
    #[error("a call of the system failed: {0}")]
    System(#[from] io::Error),
    /// The same for another worker than the first.
    #[error("worker {worker}: {source}")]
    Worker {
        /// Number of the worker, from 2.
        worker: usize,
        /// The operating system's error.
        source: io::Error,
    },
    /// The thread of another worker has panicked.
    #[error("a worker ended by a defect of this program")]
    Defect,
    /// The clock of this run comes to its end ([`Time::MAX`](wireyard_tables::time::Time::MAX)): the loop itself ended
    /// correctly.
    #[error(
        "this run has lasted 213 days, the most that its clock of picoseconds counts: start it again (the systemd unit does); \
         --state keeps what controllers wrote"
    )]
    ClockEnds,
    /// A file could not store the rest of the sent or recorded frames: the loop itself ended correctly.
    #[error(transparent)]
    Output(PortError),
}
