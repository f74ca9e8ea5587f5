//! A folder that a command fills: everything is created, written and removed beneath it.
//!
//! Another user may have placed a symbolic link, a FIFO or a device where a file will be written. Each part of a name
//! is therefore opened from the folder before it, and never through a link: as the kernel's `openat2` does for
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, in steps that older kernels and sandboxes support too. The folder
//! itself is the one that the user named, wherever that leads.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use wireyard_pipeline::diag::safe::shown;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
    path: PathBuf,
}

/// An error of the operating system, with the path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", shown(.path), in_words(.path, .source))]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// An error of the operating system about a file, without its number and with a remedy.
pub(crate) fn in_words(path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let remedy = match error.kind() {
        io::ErrorKind::IsADirectory => ": name a file in it",
        io::ErrorKind::ReadOnlyFilesystem => ": name a place elsewhere",
        io::ErrorKind::PermissionDenied => match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                ": no file can be made in its folder; name another one"
            }
            _ => "",
        },
        _ => "",
    };
    format!("{text}{remedy}")
}

/// Opens a file to write it anew. A named pipe must have a reader already: otherwise opening would block without a
/// message.
///
/// # Errors
/// The operating system's error.
pub fn create_output(file: &Path) -> io::Result<File> {
    let is_pipe = std::fs::metadata(file).is_ok_and(|meta| meta.file_type().is_fifo());
    if !is_pipe {
        return create_alone(file);
    }
    let at_once = OFlags::NONBLOCK.bits() as i32;
    let opened = File::options().write(true).custom_flags(at_once).open(file);
    let pipe = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("nobody reads this pipe: start its reader first"),
        _ => error,
    })?;
    // The thread that writes to it waits for a slow reader.
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe)
}

/// The mode of a file with packets of others.
const OWNER_ALONE: u32 = 0o600;

/// Empties a file, or creates it, under a lock: of two processes that write one file, each would destroy what the other
/// has written. A new one is for its owner alone, as it has the packets of others; one that is there keeps its mode.
fn create_alone(file: &Path) -> io::Result<File> {
    let mut how = File::options();
    let opened = how.write(true).create(true).truncate(false).mode(OWNER_ALONE).open(file)?;
    if opened.metadata()?.is_file() {
        lock_alone(&opened)?;
        opened.set_len(0)?;
    }
    Ok(opened)
}

/// Creates a file for its owner alone, under a lock.
///
/// # Errors
/// It exists, or the operating system's error.
pub(crate) fn create_new(file: &Path) -> io::Result<File> {
    let mut how = File::options();
    let new = how.write(true).create_new(true).mode(OWNER_ALONE).open(file)?;
    lock_alone(&new)?;
    Ok(new)
}

/// Takes the advisory lock of an open file, which is released when it is closed.
///
/// # Errors
/// Another process has it.
pub(crate) fn lock_alone(file: &File) -> io::Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            Err(io::Error::other("it is being written already: name another file"))
        }
        // Some file systems of a network have no locks.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Checks that no other process writes a file.
///
/// # Errors
/// One does.
pub(crate) fn is_unwritten(file: &Path) -> io::Result<()> {
    // Opening a FIFO would wait for its reader.
    if !std::fs::metadata(file).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    File::options().append(true).open(file).map_or(Ok(()), |opened| lock_alone(&opened))
}

/// Renames a file with contents to `FILE.1`, in the place of an earlier one, and returns that name; `None` if there is
/// none to keep.
///
/// # Errors
/// One of both is being written; the operating system's error.
pub(crate) fn keep_old(file: &Path) -> io::Result<Option<PathBuf>> {
    let has_contents = |found: std::fs::Metadata| found.is_file() && found.len() > 0;
    if !std::fs::metadata(file).is_ok_and(has_contents) {
        return Ok(None);
    }
    is_unwritten(file)?;
    // Behind its symbolic links, because it is not the link that is renamed.
    let file = file.canonicalize()?;
    let mut old = file.clone().into_os_string();
    old.push(".1");
    let old = PathBuf::from(old);
    is_unwritten(&old)?;
    std::fs::rename(&file, &old)?;
    Ok(Some(old))
}

/// Checks that a regular file can be written. Its contents stay, and one that did not exist is removed again: name it
/// behind its symbolic links, because it is not the link that is removed.
///
/// # Errors
/// The operating system's error.
pub(crate) fn can_write(file: &Path) -> io::Result<()> {
    let is_new = !file.exists();
    File::options().append(true).create(true).open(file)?;
    if is_new { std::fs::remove_file(file) } else { Ok(()) }
}

/// Creates a folder and those above it, if they do not exist.
///
/// # Errors
/// The operating system's error, with the path; something else stands there.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(path).map_err(|source| FileError {
        path: path.to_owned(),
        source: match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                io::Error::new(source.kind(), "a file stands there: name a folder")
            }
            _ => source,
        },
    })
}

/// Flags for opening intermediate folders.
const ON_THE_WAY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

impl Folder {
    /// Creates the folder, if it does not exist.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    pub fn make(path: &Path) -> Result<Folder, FileError> {
        let failed = |source: io::Error| FileError { path: path.to_owned(), source };
        make_folder(path)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        Ok(Folder { root, path: path.to_owned() })
    }

    /// The folder by name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, and creates its folders; returns its path.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
        let file = self.open(name, OFlags::WRONLY | OFlags::CREATE);
        let written = file.and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(bytes)
        });
        self.named(name, written)?;
        Ok(self.path.join(name))
    }

    /// Checks that a file can be written; its contents stay, and a new one is removed again.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    pub fn can_write(&self, name: &str) -> Result<(), FileError> {
        let is_new = matches!(self.open(name, OFlags::RDONLY), Err(e) if e.kind() == io::ErrorKind::NotFound);
        let opened = self.open(name, OFlags::WRONLY | OFlags::CREATE).map(drop);
        self.named(name, opened)?;
        if is_new { self.remove(name) } else { Ok(()) }
    }

    /// The text of a file, up to `most` bytes; `None` if it cannot be read.
    pub fn read(&self, name: &str, most: u64) -> Option<String> {
        let mut text = String::new();
        let file = self.open(name, OFlags::RDONLY).ok()?;
        file.take(most).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Removes a file, or the link that stands in its place, and the folders above it that are empty then. A missing
    /// file is no error, nor is one behind a link, which is in another folder.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        let removed = self
            .parent(name, false)
            .and_then(|(folder, file)| Ok(rustix::fs::unlinkat(&folder, &file, AtFlags::empty())?));
        match removed {
            Err(error) if !is_elsewhere(&error) => return self.named(name, Err(error)),
            _ => {}
        }
        for above in Path::new(name).ancestors().skip(1) {
            let Some(above) = above.to_str().filter(|above| !above.is_empty()) else { break };
            let removed = self.parent(above, false).and_then(|(folder, own)| {
                Ok(rustix::fs::unlinkat(&folder, &own, AtFlags::REMOVEDIR)?)
            });
            if removed.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn named(&self, name: &str, result: io::Result<()>) -> Result<(), FileError> {
        result.map_err(|error| self.failed(name, error))
    }

    fn failed(&self, name: &str, source: io::Error) -> FileError {
        FileError { path: self.path.join(name), source }
    }

    /// Opens a file to read it and to add to it; it is created, with its folders, if it does not exist.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    pub fn open_to_extend(&self, name: &str) -> Result<File, FileError> {
        let file = self.open(name, OFlags::RDWR | OFlags::CREATE);
        file.map_err(|error| self.failed(name, error))
    }

    /// Opens a regular file; if it may be created, its folders are too.
    fn open(&self, name: &str, how: OFlags) -> io::Result<File> {
        let (folder, file) = self.parent(name, how.contains(OFlags::CREATE))?;
        // A FIFO may never get another end.
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o666);
        let opened =
            rustix::fs::openat(&folder, &file, flags, mode).map_err(|errno| match errno {
                Errno::LOOP => linked(),
                Errno::NXIO => not_a_file(),
                other => other.into(),
            })?;
        let opened = File::from(opened);
        if opened.metadata()?.is_file() { Ok(opened) } else { Err(not_a_file()) }
    }

    /// The folder of a file beneath this one, and the file's own name.
    fn parent(&self, name: &str, make: bool) -> io::Result<(OwnedFd, String)> {
        let mut folder = self.root.try_clone()?;
        let mut parts = Path::new(name).components().peekable();
        while let Some(Component::Normal(part)) = parts.next() {
            if parts.peek().is_none() {
                return Ok((folder, part.to_string_lossy().into_owned()));
            }
            let open = || rustix::fs::openat(&folder, part, ON_THE_WAY, Mode::empty());
            let next = match open() {
                Err(Errno::NOENT) if make => {
                    rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777))?;
                    open()
                }
                other => other,
            };
            folder = next.map_err(|errno| match errno {
                Errno::LOOP | Errno::NOTDIR => linked(),
                other => other.into(),
            })?;
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a name beneath this folder"))
    }
}

fn linked() -> io::Error {
    let text = "a symbolic link, or no folder, stands there: nothing is written through it; remove it first";
    io::Error::new(io::ErrorKind::NotADirectory, text)
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is there and is no file: remove it first")
}

/// The path is not a file of this folder.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
