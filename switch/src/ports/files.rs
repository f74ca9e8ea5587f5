//! Checks of the files that ports write: none may be a file that is also read, or that is written elsewhere.
//!
//! All are checked before anything is opened, so that a mistake empties no file. A file that is not regular
//! (`/dev/null`, a FIFO) loses no data and may be named several times. This module opens no port and keeps no file
//! open.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{PortNumber, PortSpec};
use crate::file_identity::Identity;
use crate::folder::FileError;
use wireyard_pipeline::diag::safe::shown;

/// A file that a port cannot write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A port reads it.
    #[error("{}: the output is an input too: write another file", shown(.0))]
    Input(PathBuf),
    /// The program is read from it.
    #[error("{}: the program is read from this file: write another one", shown(.0))]
    Source(PathBuf),
    /// Two ports are recorded into it under two different paths.
    #[error("{}: ports {one} and {two} are recorded in this one file: name it alike", shown(.file))]
    TwoNames {
        /// The path of the second port.
        file: PathBuf,
        /// A port.
        one: PortNumber,
        /// The port after it.
        two: PortNumber,
    },
    /// It is the output of two ports.
    #[error("{}: two ports cannot write one file", shown(.0))]
    TwoOutputs(PathBuf),
    /// It is the output of a port, and a capture.
    #[error("{}: an output and a capture cannot be one file", shown(.0))]
    OutputAndCapture(PathBuf),
    /// The operating system refuses to write it.
    #[error("port {port}: {source}")]
    Refused {
        /// The port.
        port: PortNumber,
        /// The file, and the operating system's error.
        source: FileError,
    },
}

impl OutputError {
    /// The operating system's error, if it refuses to write the file.
    pub fn refused(&self) -> Option<&io::Error> {
        match self {
            OutputError::Refused { source, .. } => Some(&source.source),
            _ => None,
        }
    }
}

/// A file that a port writes.
struct Output<'a> {
    port: PortNumber,
    path: &'a Path,
    is_capture: bool,
    identity: Identity,
}

impl Output<'_> {
    /// The file itself, behind symbolic links.
    fn target(&self) -> &Path {
        match &self.identity {
            Identity::There(..) => self.path,
            Identity::NotYet(target) => target,
        }
    }
}

/// Checks the output and capture files of ports against each other, against the ports' inputs, and against `sources`,
/// the files that the program was read from. Reports a file that cannot be written.
///
/// # Errors
/// The file and the conflict.
pub fn check(ports: &[(PortNumber, PortSpec)], sources: &[PathBuf]) -> Result<(), OutputError> {
    let mut outputs: Vec<Output<'_>> = Vec::new();
    for (port, spec) in ports {
        for (file, is_capture) in [(&spec.out, false), (&spec.capture, true)] {
            let Some(path) = file else { continue };
            let failed = |error| refused(*port, path, error);
            let Some(identity) = Identity::of(path).map_err(failed)? else { continue };
            outputs.push(Output { port: *port, path, is_capture, identity });
        }
    }
    // `-` is standard input.
    let inputs = ports.iter().filter_map(|(_, spec)| spec.input.as_deref());
    let inputs = inputs.filter(|path| *path != Path::new("-"));
    let inputs: Vec<Identity> = inputs.filter_map(Identity::known).collect();
    let sources: Vec<Identity> = sources.iter().filter_map(|path| Identity::known(path)).collect();
    for (place, output) in outputs.iter().enumerate() {
        if inputs.contains(&output.identity) {
            return Err(OutputError::Input(output.path.to_owned()));
        }
        if sources.contains(&output.identity) {
            return Err(OutputError::Source(output.path.to_owned()));
        }
        let mut before = outputs[..place].iter();
        if let Some(other) = before.find(|other| other.identity == output.identity) {
            clash(other, output)?;
        }
        can_write(output.target()).map_err(|error| refused(output.port, output.path, error))?;
    }
    Ok(())
}

fn refused(port: PortNumber, path: &Path, source: io::Error) -> OutputError {
    OutputError::Refused { port, source: FileError { path: path.to_owned(), source } }
}

/// Checks two outputs of the same file: two ports may be recorded into one capture file; nothing else may be shared.
fn clash(one: &Output<'_>, two: &Output<'_>) -> Result<(), OutputError> {
    let file = two.path.to_owned();
    match (one.is_capture, two.is_capture) {
        (true, true) if one.path == two.path => Ok(()),
        (true, true) => Err(OutputError::TwoNames { file, one: one.port, two: two.port }),
        (false, false) => Err(OutputError::TwoOutputs(file)),
        _ => Err(OutputError::OutputAndCapture(file)),
    }
}

/// Checks that a file can be written. Its contents stay, and a file that did not exist is removed again.
///
/// # Errors
/// The operating system's error.
pub fn can_write(file: &Path) -> io::Result<()> {
    let is_new = !file.exists();
    OpenOptions::new().append(true).create(true).open(file)?;
    if is_new { fs::remove_file(file) } else { Ok(()) }
}
