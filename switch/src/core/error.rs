//! Errors of a device about ports, queues, captures and traces. A refused request has changed nothing.

use std::path::PathBuf;

use crate::config::PORT_MAX;
use crate::folder::FileError;
use crate::ports::PortNumber;
use crate::tm;
use crate::units::BitsPerSec;

/// Why a device refuses a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A number above 65532, which are reserved.
    #[error("port {0}: use 0 to {PORT_MAX}")]
    PortNumber(PortNumber),
    /// Another port has the number.
    #[error("port {0} already exists")]
    PortTaken(PortNumber),
    /// No port has the number.
    #[error("there is no port {0}")]
    NoPort(PortNumber),
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
        port: PortNumber,
        /// Its configured rate.
        most: BitsPerSec,
    },
    /// The port has no rate that could be changed: it sends at once.
    #[error("port {0} has no rate to be changed: give it one in switch.yaml")]
    NoRate(PortNumber),
    /// A capture file that cannot be written.
    #[error("port {port}: capture {source}")]
    Capture {
        /// The port.
        port: PortNumber,
        /// The file, and the operating system's error.
        source: FileError,
    },
    /// A port that is recorded into one file is not moved to another silently.
    #[error("port {port} is being recorded into {}: `wireyard capture stop {port}` first", file.display())]
    Recorded {
        /// The port.
        port: PortNumber,
        /// Its file.
        file: PathBuf,
    },
    /// The file is already used by another capture.
    #[error("{} is being written already", .0.display())]
    CaptureTaken(PathBuf),
    /// The program is not the one that the request was made for.
    #[error("the program was replaced meanwhile: begin again")]
    ProgramReplaced,
    /// Only one trace at a time, and no sampling during it.
    #[error("a trace of packets goes on: wait for its end")]
    Traced,
}
