//! What is wrong with the ports of a command line.

use std::path::PathBuf;

use super::PORT_MAX;

/// What is wrong with a port specification, or with a list of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// It cannot be read, or says what such a port does not have.
    #[error("port `{spec}`: {why}")]
    Form {
        /// The specification.
        spec: String,
        /// What was found, what is known, and the nearest known word.
        why: String,
    },
    /// A number that no port has.
    #[error("port `{0}`: use 0 to {PORT_MAX}")]
    Number(String),
    /// Another port of the list has the number.
    #[error("port `{spec}`: number {number} is taken")]
    NumberTaken {
        /// The specification.
        spec: String,
        /// Its number.
        number: u16,
    },
    /// Another port of the list is on the interface.
    #[error("port `{spec}`: its interface is port {port} already")]
    InterfaceTaken {
        /// The specification.
        spec: String,
        /// The other port.
        port: u16,
    },
    /// The port would be recorded over its own input or output.
    #[error("capture={}: the port uses this file", .0.display())]
    Capture(PathBuf),
    /// The port would be recorded to standard output.
    #[error(
        "capture -: standard output has the counters: give a file, or a named pipe (mkfifo PIPE) that a program reads, as `wireshark -k -i PIPE` does"
    )]
    CaptureToOutput,
}
