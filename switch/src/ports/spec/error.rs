//! Errors in the ports of a command line.

use std::path::PathBuf;

use super::{PORT_MAX, PortNumber};
use wireyard_pipeline::diag::safe::shown;

/// An error in a port specification, or in a list of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// It cannot be parsed, or has an option that this kind of port does not have.
    #[error("port `{spec}`: {why}")]
    Form {
        /// The specification.
        spec: String,
        /// What was found, the valid words, and the nearest of them.
        why: String,
    },
    /// A number outside the range of ports.
    #[error("port `{0}`: use 0 to {PORT_MAX}")]
    Number(String),
    /// Another port of the list has the number.
    #[error("port `{spec}`: number {number} is taken")]
    NumberTaken {
        /// The specification.
        spec: String,
        /// Its number.
        number: PortNumber,
    },
    /// Another port of the list uses the interface.
    #[error("port `{spec}`: its interface is port {port} already")]
    InterfaceTaken {
        /// The specification.
        spec: String,
        /// The other port.
        port: PortNumber,
    },
    /// The port would be recorded over its own input or output.
    #[error("capture={}: the port uses this file", shown(.0))]
    Capture(PathBuf),
    /// The port would be recorded to standard output.
    #[error(
        "capture -: standard output has the counters: give a file, or a named pipe (mkfifo PIPE) that a program reads, as `wireshark -k -i PIPE` does"
    )]
    CaptureToOutput,
}
