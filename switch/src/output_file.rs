//! The file that a command writes its result into: never one that it read, and the whole result or the old file.
//!
//! The result goes into a new file beside the old one, which then takes its name, so that a full disk or a signal leaves
//! the old one. The target of a symbolic link is replaced, not the link. What is no regular file (`/dev/null`, a FIFO)
//! and what is open already (`/dev/stdout`) is written into.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::safe::shown;

use crate::file_identity::Identity;
#[cfg(feature = "lab")]
use crate::folder::can_write;
use crate::folder::{FileError, create_output};

/// Names that are tried for the new file.
const NAMES_MAX: u32 = 64;

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
        "{file}: no other file can be put in its place: {source}; name a file in another folder",
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
    let Some(identity) = place(path)? else { return Ok(into(path, bytes).map_err(failed)?) };
    if sources.iter().any(|source| Identity::known(source).as_ref() == Some(&identity)) {
        return Err(OutputError::Source(path.to_owned()));
    }
    match identity {
        Identity::NotYet(target) => Ok(put(&target, bytes, None).map_err(failed)?),
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

/// Checks that a result can be written, before the work that makes it. Nothing is changed.
///
/// # Errors
/// The file cannot be written.
#[cfg(feature = "lab")]
pub(crate) fn check(path: &Path) -> Result<(), OutputError> {
    let can_be = match place(path)? {
        None => Ok(()),
        Some(Identity::NotYet(target)) => can_write(&target),
        Some(Identity::There(..)) => can_write(path),
    };
    Ok(can_be.map_err(|source| FileError { path: path.to_owned(), source })?)
}

/// Which file a result goes into; `None` for what is no regular file.
fn place(path: &Path) -> Result<Option<Identity>, OutputError> {
    if path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir() {
        return Err(OutputError::Folder(path.to_owned()));
    }
    Identity::of(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OutputError::NoFolder(path.to_owned()),
        _ => FileError { path: path.to_owned(), source }.into(),
    })
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
    let (mut file, beside) = create_beside(target, old.is_some())?;
    let written = (|| {
        if let Some(old) = old.map(File::metadata).transpose()? {
            // Only root gives files away; those of others in a shared folder become the user's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        // A disk of the network reports here that it is full.
        file.sync_all()?;
        fs::rename(&beside, target)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file beside `target`, for its owner alone where it replaces another, whose mode may be as narrow. A process that was killed may
/// have left one of the same name, and processes of two containers may have the same number.
fn create_beside(target: &Path, replaces: bool) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(if replaces { 0o600 } else { 0o666 });
    let mut last = io::ErrorKind::AlreadyExists.into();
    for n in 0..NAMES_MAX {
        let beside = target.with_file_name(format!(".wireyard-{}-{n}.new", std::process::id()));
        match options.open(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                last = io::Error::new(error.kind(), format!("{} is there already", shown(&beside)));
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;
