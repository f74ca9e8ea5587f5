//! The file that a command writes its result into: never one that it read, and the whole result or the old file.
//!
//! The result goes into a new file beside the old one, which then takes its name, so that a full disk or a signal leaves
//! the old one. The target of a symbolic link is replaced, not the link. What is no regular file (`/dev/null`, a FIFO)
//! and what is open already (`/dev/stdout`) is written into.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::safe::shown;

use crate::file_identity::Identity;
use crate::folder::{FileError, create_output};

/// A file that a result cannot be written into; it is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The result was made from it.
    #[error("{}: the program is read from this file: write another one", shown(.0))]
    Source(PathBuf),
    /// It is a folder.
    #[error("{}: it is a folder: name a file in it", shown(.0))]
    Folder(PathBuf),
    /// Its folder does not exist.
    #[error("{}: there is no such folder: make it first", shown(.0))]
    NoFolder(PathBuf),
    /// It is there, and nothing can take its place.
    #[error(
        "{file}: no other file can be put in its place: {source}; `-o - > {file}` writes into it",
        file = shown(.file)
    )]
    Stays {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The operating system's error, with the path.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Writes a result that was made from `sources`.
///
/// # Errors
/// The file is one of them, or cannot be written.
pub(crate) fn write(path: &Path, bytes: &[u8], sources: &[PathBuf]) -> Result<(), OutputError> {
    let failed = |source| FileError { path: path.to_owned(), source };
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(OutputError::Folder(path.to_owned()));
    }
    let identity = Identity::of(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OutputError::NoFolder(path.to_owned()),
        _ => failed(source).into(),
    })?;
    let Some(identity) = identity else { return Ok(into(path, bytes).map_err(failed)?) };
    if sources.iter().any(|source| Identity::known(source).as_ref() == Some(&identity)) {
        return Err(OutputError::Source(path.to_owned()));
    }
    match identity {
        Identity::NotYet(target) => Ok(put(&target, bytes, None).map_err(failed)?),
        Identity::There(..) if path.is_dir() => Err(OutputError::Folder(path.to_owned())),
        Identity::There(..) if is_open(path) => Ok(into(path, bytes).map_err(failed)?),
        Identity::There(..) => {
            // A file that is protected stays, whatever its folder allows.
            let old = OpenOptions::new().write(true).open(path).map_err(failed)?;
            let target = path.canonicalize().map_err(failed)?;
            put(&target, bytes, Some(&old)).map_err(|source| match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => failed(source).into(),
                _ => OutputError::Stays { file: path.to_owned(), source },
            })
        }
    }
}

/// True for the names of files that this process has open.
fn is_open(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|name| path.starts_with(name))
}

fn into(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_output(path)?.write_all(bytes)
}

/// Writes a file beside `target`, with the mode and owner of the old one, and gives it that name.
fn put(target: &Path, bytes: &[u8], old: Option<&File>) -> io::Result<()> {
    let beside = target.with_file_name(format!(".wireyard-{}.new", std::process::id()));
    let mut file = File::create_new(&beside)?;
    let written = file.write_all(bytes).and_then(|()| {
        if let Some(old) = old.map(File::metadata).transpose()? {
            // Only root gives files away; those of others in a shared folder become the user's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
        }
        fs::rename(&beside, target)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
