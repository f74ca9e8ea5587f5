//! Why ports are not as their file says.

use std::fmt;
use std::io;
use std::path::PathBuf;

use wireyard_pipeline::diag::Rejected;

use crate::control::ControlError;
use crate::ports::files::OutputError;
use crate::ports::{PortError, SpecError};

/// What is wrong with a file of ports, or with a port that it has.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortFileError {
    /// It is a FIFO, a device or a folder.
    #[error("{}: it is no regular file; no port was changed", .0.display())]
    NoFile(PathBuf),
    /// It cannot be read, or is no configuration: with the places.
    #[error("no port was changed:\n{0}")]
    Rejected(#[source] Box<Rejected>),
    /// What it says cannot be, or cannot change while the switch runs.
    #[error("{}: {problem}; no port was changed", .file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
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
        port: u16,
        /// Why.
        source: PortError,
    },
    /// The workers cannot be asked for their ports.
    #[error("{0}; no port was changed")]
    Control(#[source] ControlError),
    /// The workers did not say what became of the ports: the next reading of the file shows it.
    #[error(transparent)]
    Exchange(ControlError),
    /// Ports that were taken out to make room did not come back. The next reading of the file adds them again.
    #[error("{source}{}", lines(.lost))]
    Lost {
        /// Why the others could not take their place.
        source: Box<PortFileError>,
        /// The ports, and why each could not be opened again.
        lost: Vec<(u16, String)>,
    },
}

/// What is wrong with what a file of ports says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// It has more than ports.
    #[error("only `ports` is read here: write the rest in switch.yaml")]
    More,
    /// It says nothing at all, as while an editor writes it.
    #[error("it is empty: write `ports: {{}}` for a switch without ports")]
    Empty,
    /// A port with rates or queues.
    #[error(
        "port {0}: rates and queues are made when the switch starts: write them in switch.yaml"
    )]
    Queues(u16),
    /// A port on nothing.
    #[error("port {0} has no `interface`")]
    NoInterface(u16),
    /// A port that is written wrongly, or has what another one has.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A file that a port cannot write.
    #[error(transparent)]
    Output(#[from] OutputError),
}

fn lines(lost: &[(u16, String)]) -> impl fmt::Display {
    let lost =
        lost.iter().map(|(port, why)| format!(", but port {port} could not come back: {why}"));
    lost.collect::<String>()
}
