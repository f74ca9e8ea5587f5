//! The identity of a file, by whatever name: device and inode, or folder and name where it does not exist yet.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// The identity of a file, independent of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Device and inode of an existing file.
    There(u64, u64),
    /// Path of a file that does not exist yet.
    NotYet(PathBuf),
}

impl Identity {
    /// The identity of a file; `None` if it is not regular, so that no data can be lost.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Identity>> {
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

    /// The identity of an input file, if it exists.
    pub(crate) fn known(path: &Path) -> Option<Identity> {
        match fs::metadata(path) {
            Ok(meta) if meta.is_file() => Some(Identity::There(meta.dev(), meta.ino())),
            _ => None,
        }
    }
}

/// The target of a symbolic link whose end does not exist.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}
