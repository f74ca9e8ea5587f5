//! Why the ports are not those of their file.

use std::fmt;
use std::io;
use std::path::PathBuf;

use wireyard_pipeline::diag::Rejected;

use crate::control::ControlError;
use crate::ports::files::OutputError;
use crate::ports::{PortError, PortNumber, SpecError};

/// An error of a file of ports, or of one of its ports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortFileError {
    /// It is a FIFO, a device or a folder.
    #[error("{}: it is no regular file; no port was changed", .0.display())]
    NoFile(PathBuf),
    /// It cannot be read, or is no configuration: with the places.
    #[error("no port was changed:\n{0}")]
    Rejected(#[source] Box<Rejected>),
    /// Its content is invalid, or cannot change while the switch runs.
    #[error("{}: {problem}; no port was changed", .file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// The error.
        #[source]
        problem: ContentError,
    },
    /// A device that was built without a control handle.
    #[error("the device has no control handle")]
    NoControl,
    /// The system has no more threads.
    #[error("a thread for ports: {0}; no port was changed")]
    Thread(#[source] io::Error),
    /// A defect of this program.
    #[error("reading the file of ports failed, by a defect of this program; please report it")]
    Defect,
    /// A port that cannot be opened.
    #[error("port {port}: {source}; no port was changed")]
    Open {
        /// Its number.
        port: PortNumber,
        /// The cause.
        source: PortError,
    },
    /// The workers do not accept requests about their ports.
    #[error("{0}; no port was changed")]
    Control(#[source] ControlError),
    /// The workers did not report the result of the change: the next reading of the file finds it.
    #[error(transparent)]
    Exchange(ControlError),
    /// Ports that were removed to make room could not be added again. The next reading of the file adds them again.
    #[error("{source}{}", lines(.lost))]
    Lost {
        /// Why the new ports could not be added.
        source: Box<PortFileError>,
        /// The ports, and why each could not be opened again.
        lost: Vec<(PortNumber, String)>,
    },
}

/// An error in the content of a file of ports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// It has more than ports.
    #[error("only `ports` is read here: write the rest in switch.yaml")]
    More,
    /// It is empty, as while an editor writes it.
    #[error("it is empty: write `ports: {{}}` for a switch without ports")]
    Empty,
    /// A port with rates or queues.
    #[error(
        "port {0}: rates and queues are made when the switch starts: write them in switch.yaml"
    )]
    Queues(PortNumber),
    /// A port on nothing.
    #[error("port {0} has no `interface`")]
    NoInterface(PortNumber),
    /// An invalid port, or one with the number, interface or file of another.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A file that a port cannot write.
    #[error(transparent)]
    Output(#[from] OutputError),
}

fn lines(lost: &[(PortNumber, String)]) -> impl fmt::Display {
    let lost =
        lost.iter().map(|(port, why)| format!(", but port {port} could not come back: {why}"));
    lost.collect::<String>()
}
