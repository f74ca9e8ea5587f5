//! Checks of the files that ports write: none may be a file that is also read, or that is written elsewhere.
//!
//! All are checked before anything is opened, so that a mistake empties no file. A file that is not regular
//! (`/dev/null`, a FIFO) loses no data and may be named several times. This module opens no port and keeps no file
//! open.

use std::io;
use std::path::{Path, PathBuf};

use super::{PortNumber, PortSpec};
use crate::file_identity::Identity;
use crate::folder::{FileError, can_write, is_unwritten};
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
    /// A capture is written into it.
    #[error("{}: a capture is written into this file: name another one", shown(.0))]
    Recorded(PathBuf),
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

/// Files that a switch reads and writes while ports are added to it.
#[derive(Debug, Default)]
pub struct InUse {
    /// Files that no port may write, as those that the program was read from.
    pub sources: Vec<PathBuf>,
    /// The ports that stay.
    pub ports: Vec<(PortNumber, PortSpec)>,
    /// Captures that are being written.
    pub captures: Vec<CaptureFile>,
}

/// A capture that is being written.
#[derive(Clone, Debug)]
pub struct CaptureFile {
    /// The path by which it was opened.
    pub path: PathBuf,
    /// A port whose specification names it by this path is recorded into it.
    pub takes_ports: bool,
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
    check_beside(ports, &InUse { sources: sources.to_vec(), ..InUse::default() })
}

/// Checks that no other process writes the files that these ports, none of which is open, will write.
///
/// # Errors
/// The file that one writes.
pub fn check_unwritten(ports: &[(PortNumber, PortSpec)]) -> Result<(), OutputError> {
    files_of(ports).try_for_each(|(port, path, _)| {
        is_unwritten(path).map_err(|error| refused(port, path, error))
    })
}

/// Like [`check`] for ports that are added to a running switch: also against the files that it has in use.
///
/// # Errors
/// The file and the conflict.
pub fn check_beside(ports: &[(PortNumber, PortSpec)], used: &InUse) -> Result<(), OutputError> {
    let outputs = files_of(ports).map(|(port, path, is_capture)| {
        let identity = Identity::of(path).map_err(|error| refused(port, path, error))?;
        Ok(identity.map(|identity| Output { port, path, is_capture, identity }))
    });
    let outputs = outputs.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
    let (inputs, present_inputs) = (inputs(ports), inputs(&used.ports));
    let present = files_of(&used.ports).filter_map(|(port, path, is_capture)| {
        // It is open, whatever became of its folder.
        let identity = Identity::of(path).ok().flatten()?;
        Some(Output { port, path, is_capture, identity })
    });
    let present: Vec<Output<'_>> = present.collect();
    if let Some(output) = present.iter().find(|output| inputs.contains(&output.identity)) {
        return Err(OutputError::Input(output.path.to_owned()));
    }
    let sources: Vec<Identity> =
        used.sources.iter().filter_map(|path| Identity::known(path)).collect();
    for (place, output) in outputs.iter().enumerate() {
        if inputs.contains(&output.identity) || present_inputs.contains(&output.identity) {
            return Err(OutputError::Input(output.path.to_owned()));
        }
        if sources.contains(&output.identity) {
            return Err(OutputError::Source(output.path.to_owned()));
        }
        check_recorded(output, &used.captures)?;
        let mut others = present.iter().chain(&outputs[..place]);
        if let Some(other) = others.find(|other| other.identity == output.identity) {
            clash(other, output)?;
        }
        can_write(output.target()).map_err(|error| refused(output.port, output.path, error))?;
    }
    Ok(())
}

/// The files that ports write, and whether each is a capture.
fn files_of(ports: &[(PortNumber, PortSpec)]) -> impl Iterator<Item = (PortNumber, &Path, bool)> {
    ports.iter().flat_map(|(port, spec)| {
        let files = [(&spec.out, false), (&spec.capture, true)];
        files
            .into_iter()
            .filter_map(|(file, is_capture)| Some((*port, file.as_deref()?, is_capture)))
    })
}

fn inputs(ports: &[(PortNumber, PortSpec)]) -> Vec<Identity> {
    let inputs = ports.iter().filter_map(|(_, spec)| spec.input.as_deref());
    inputs.map(input_path).filter_map(Identity::known).collect()
}

/// The file of an input: `-` is standard input, which may be a regular file too.
pub(super) fn input_path(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// Checks an output against the captures that are being written.
fn check_recorded(output: &Output<'_>, captures: &[CaptureFile]) -> Result<(), OutputError> {
    let is_it =
        |capture: &&CaptureFile| Identity::known(&capture.path).as_ref() == Some(&output.identity);
    let joins = |capture: &CaptureFile| {
        output.is_capture && capture.takes_ports && capture.path == output.path
    };
    match captures.iter().find(is_it).is_none_or(joins) {
        true => Ok(()),
        false => Err(OutputError::Recorded(output.path.to_owned())),
    }
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
