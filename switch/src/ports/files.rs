//! Which files ports write: none takes the place of a file that is read, or that is written elsewhere.
//!
//! All of them are looked at before anything is opened, so that a mistake empties no file. A file is its device and
//! inode; one that is not there yet is its folder and name. What is no regular file (`/dev/null`, a FIFO) loses nothing
//! and may be named often. This opens no port and keeps nothing open.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{PortKind, PortSpec};
use crate::folder::FileError;

/// Symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// A file that a port cannot write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A port reads it.
    #[error("{}: the output is an input too: write another file", .0.display())]
    Input(PathBuf),
    /// The program is read from it.
    #[error("{}: the program is read from this file: write another one", .0.display())]
    Source(PathBuf),
    /// Two ports are recorded in it, which name it in two ways.
    #[error("{}: ports {one} and {two} are recorded in this one file: name it alike", .file.display())]
    TwoNames {
        /// The file, as the second names it.
        file: PathBuf,
        /// A port.
        one: u16,
        /// The port after it.
        two: u16,
    },
    /// It is the output of two ports.
    #[error("{}: two ports cannot write one file", .0.display())]
    TwoOutputs(PathBuf),
    /// It is the output of a port, and a capture.
    #[error("{}: an output and a capture cannot be one file", .0.display())]
    OutputAndCapture(PathBuf),
    /// The system refuses to write it.
    #[error("port {port}: {source}")]
    Refused {
        /// The port.
        port: u16,
        /// The file, and what the system says.
        source: FileError,
    },
}

impl OutputError {
    /// What the system says, where it refuses to write the file.
    pub fn refused(&self) -> Option<&io::Error> {
        match self {
            OutputError::Refused { source, .. } => Some(&source.source),
            _ => None,
        }
    }
}

/// What a file is, by whatever name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    There(u64, u64),
    /// Where it will be.
    NotYet(PathBuf),
}

/// A file that a port writes.
struct Output<'a> {
    port: u16,
    path: &'a Path,
    is_capture: bool,
    identity: Identity,
}

impl Output<'_> {
    /// The file itself, behind links to nothing.
    fn target(&self) -> &Path {
        match &self.identity {
            Identity::There(..) => self.path,
            Identity::NotYet(target) => target,
        }
    }
}

/// Checks the output and capture files of ports against each other, against the ports' inputs, and against `sources`, the
/// files that the program was read from. Each of them can be written, or is reported here.
///
/// # Errors
/// The file, with what is wrong.
pub fn check(ports: &[(u16, PortSpec)], sources: &[PathBuf]) -> Result<(), OutputError> {
    let mut outputs: Vec<Output<'_>> = Vec::new();
    for (port, spec) in ports {
        for (file, is_capture) in [(&spec.out, false), (&spec.capture, true)] {
            let Some(path) = file else { continue };
            let failed = |error| refused(*port, path, error);
            let Some(identity) = identity(path).map_err(failed)? else { continue };
            outputs.push(Output { port: *port, path, is_capture, identity });
        }
    }
    let inputs = ports.iter().filter(|(_, spec)| spec.kind == PortKind::Pcap);
    let inputs = inputs.map(|(_, spec)| Path::new(&spec.target));
    let inputs: Vec<Identity> = inputs.filter_map(known).collect();
    let sources: Vec<Identity> = sources.iter().filter_map(|path| known(path)).collect();
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

fn refused(port: u16, path: &Path, source: io::Error) -> OutputError {
    OutputError::Refused { port, source: FileError { path: path.to_owned(), source } }
}

/// Two ports may be recorded in one capture file; nothing else is shared.
fn clash(one: &Output<'_>, two: &Output<'_>) -> Result<(), OutputError> {
    let file = two.path.to_owned();
    match (one.is_capture, two.is_capture) {
        (true, true) if one.path == two.path => Ok(()),
        (true, true) => Err(OutputError::TwoNames { file, one: one.port, two: two.port }),
        (false, false) => Err(OutputError::TwoOutputs(file)),
        _ => Err(OutputError::OutputAndCapture(file)),
    }
}

/// `None`: no regular file, of which nothing is lost.
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() || meta.is_dir() => {
            Ok(Some(Identity::There(meta.dev(), meta.ino())))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let target = followed(path);
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
            let name = target.file_name().ok_or(error)?;
            Ok(Some(Identity::NotYet(folder.join(name))))
        }
        Err(error) => Err(error),
    }
}

/// Where a symbolic link to nothing leads.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// A file that is read, if it is there.
fn known(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Some(Identity::There(meta.dev(), meta.ino())),
        _ => None,
    }
}

/// Sees that a file can be written; what is in it stays, and one that was not there is not there after.
///
/// # Errors
/// What the system says.
pub fn can_write(file: &Path) -> io::Result<()> {
    let is_new = !file.exists();
    OpenOptions::new().append(true).create(true).open(file)?;
    if is_new { fs::remove_file(file) } else { Ok(()) }
}
