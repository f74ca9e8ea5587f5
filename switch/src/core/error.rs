//! What a device refuses: ports, queues, captures and traces that cannot be. Nothing has changed then.

use std::path::PathBuf;

use crate::config::PORT_MAX;
use crate::folder::FileError;
use crate::tm;
use crate::units::BitsPerSec;

/// Why a device refuses what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A number above 65532: those are reserved.
    #[error("port {0}: use 0 to {PORT_MAX}")]
    PortNumber(u16),
    /// Another port has the number.
    #[error("port {0} already exists")]
    PortTaken(u16),
    /// No port has the number.
    #[error("there is no port {0}")]
    NoPort(u16),
    /// The traffic manager refuses the port.
    #[error(transparent)]
    Queues(#[from] tm::PortError),
    /// Queues can be replaced only while they are empty.
    #[error("the queues cannot change while packets are in them")]
    PacketsInside,
    /// The headroom of a lossless class was computed for a lower rate.
    #[error(
        "port {port} has a lossless class, whose headroom is for {most}: more than that is set in switch.yaml"
    )]
    LosslessRate {
        /// The port.
        port: u16,
        /// Its configured rate.
        most: BitsPerSec,
    },
    /// A port that sends at once, without a rate.
    #[error("port {0} has no rate to be changed: give it one in switch.yaml")]
    NoRate(u16),
    /// A capture file that cannot be written.
    #[error("port {port}: capture {source}")]
    Capture {
        /// The port.
        port: u16,
        /// The file, and what the system says.
        source: FileError,
    },
    /// A port that is in one capture file is not moved to another silently.
    #[error("port {port} is being recorded into {}: `wireyard capture stop {port}` first", file.display())]
    Recorded {
        /// The port.
        port: u16,
        /// Its file.
        file: PathBuf,
    },
    /// Two captures of one file.
    #[error("{} is being written already", .0.display())]
    CaptureTaken(PathBuf),
    /// The program is another one than it was when this was asked.
    #[error("the program was replaced meanwhile: begin again")]
    ProgramReplaced,
    /// One trace at a time, and no samples beside it.
    #[error("packets are traced already: wait for its end")]
    Traced,
}
