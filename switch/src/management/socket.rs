//! The unix sockets of running switches: creates, finds and removes them.
//!
//! A switch listens at `DIR/NAME.sock`, where NAME is the name of its program, followed by a number if another switch
//! uses that name. DIR is `$WIREYARD_RUN_DIR`; else /run/wireyard for root; else `$XDG_RUNTIME_DIR/wireyard`; else a
//! folder of the user's in /tmp. A service that runs as a user of its own listens in a folder in /run/wireyard. A socket without a listener, left by a switch that was killed, is replaced. The socket
//! gets its mode before its name, so that other users can open it at no moment. Nor can they keep a switch from its start: the lock is a file of its own user.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use wireyard_pipeline::diag::safe::shown;

use crate::folder::FileError;

/// Maximum number of switches with one program.
const NAMES_MAX: usize = 1000;
/// Maximum length in bytes of the path of a socket (sockaddr_un), without the closing zero.
const PATH_BYTES_MAX: usize = 107;

/// The folder of root's switches, with folders of services that run as users of their own.
const SYSTEM_FOLDER: &str = "/run/wireyard";
/// Bits of a mode: writable by the group or others.
const OTHERS_WRITE: u32 = 0o022;

/// Where `run` listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// In the folder, under the name of the program, if possible.
    #[default]
    Default,
    /// At this path; otherwise it is an error.
    Path(PathBuf),
    /// No socket.
    Nowhere,
}

/// An empty text, which is not a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a path for the socket, or `none`")]
pub struct NoChoice;

impl std::str::FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Choice, NoChoice> {
        match text {
            "" => Err(NoChoice),
            "none" => Ok(Choice::Nowhere),
            path => Ok(Choice::Path(PathBuf::from(path))),
        }
    }
}

/// Why a switch has no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The operating system refuses the folder or the socket.
    #[error(transparent)]
    Refused(#[from] FileError),
    /// The folder of the sockets belongs to another user, who could replace sockets in it.
    #[error("{}: the folder belongs to another user", .0.display())]
    ForeignFolder(PathBuf),
    /// Other users could replace sockets in the folder.
    #[error("{}: others can write into the folder: `chmod go-w` it", .0.display())]
    OpenFolder(PathBuf),
    /// All names for switches with this program are in use.
    #[error("{}: {NAMES_MAX} switches are called {name} already", .folder.display())]
    NamesTaken {
        /// The folder of the sockets.
        folder: PathBuf,
        /// The name of the program.
        name: String,
    },
    /// A path that is too long for a socket.
    #[error("{}: a socket's path has at most {PATH_BYTES_MAX} bytes", .0.display())]
    LongPath(PathBuf),
    /// There is a file at the path that is not a socket.
    #[error("{}: a file is there that is no socket", .0.display())]
    NoSocket(PathBuf),
    /// Another switch listens at the path.
    #[error("{}: another switch listens there", .0.display())]
    InUse(PathBuf),
    /// Another process has the lock of the path.
    #[error(
        "{}: another process has this lock: end the switch that does not come to an end of its start (`fuser` on this \
         file names its process), or give --control PATH",
        shown(.0)
    )]
    Locked(PathBuf),
    /// An unknown group.
    #[error("--control-group {0}: there is no such group in /etc/group")]
    NoGroup(String),
}

/// A listening socket; its file is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: Option<UnixListener>,
    file: SocketFile,
}

/// The file of a socket, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode: another file at the path is not removed.
    id: (u64, u64),
}

impl SocketFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Socket {
    /// Starts to listen under this name in the folder of the sockets.
    ///
    /// # Errors
    /// The folder or the socket cannot be created, or belongs to another user.
    pub fn named(name: &str, group: Option<u32>) -> Result<Socket, SocketError> {
        let folder = folder();
        let failed = |source| FileError { path: folder.clone(), source };
        let mode = if user() == 0 { 0o755 } else { 0o700 };
        DirBuilder::new().recursive(true).mode(mode).create(&folder).map_err(failed)?;
        let found = fs::metadata(&folder).map_err(failed)?;
        if found.uid() != user() {
            return Err(SocketError::ForeignFolder(folder));
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return Err(SocketError::OpenFolder(folder));
        }
        for number in 1..=NAMES_MAX {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            match Socket::at(&folder.join(format!("{name}.sock")), group) {
                Err(SocketError::InUse(_)) => {}
                other => return other,
            }
        }
        Err(SocketError::NamesTaken { folder, name: name.to_owned() })
    }

    /// Starts to listen at this path; a socket there without a listener is replaced.
    ///
    /// # Errors
    /// It cannot be created, is in use, or is a file of another kind.
    pub fn at(path: &Path, group: Option<u32>) -> Result<Socket, SocketError> {
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(SocketError::LongPath(path.to_owned()));
        }
        let lock = Lock::of(path)?;
        match fs::symlink_metadata(path) {
            Ok(found) if !is_socket(&found) => {
                return Err(SocketError::NoSocket(path.to_owned()));
            }
            Ok(_) if is_served(path) => {
                return Err(SocketError::InUse(path.to_owned()));
            }
            _ => {}
        }
        let failed = |source| FileError { path: path.to_owned(), source };
        let (listener, id) = bind(path, group, &lock).map_err(failed)?;
        let file = SocketFile { path: path.to_owned(), id };
        Ok(Socket { listener: Some(listener), file })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The socket, to be served, and its file, which must be kept as long.
    pub fn split(self) -> (Option<UnixListener>, SocketFile) {
        (self.listener, self.file)
    }
}

/// Binds beside the path, in a folder that no other user can enter, and moves the socket to its place once it has its
/// mode.
fn bind(path: &Path, group: Option<u32>, lock: &Lock) -> io::Result<(UnixListener, (u64, u64))> {
    // By what the lock is of: processes of two containers may have the same number.
    let private = folder_of(path).join(format!(".{:x}", lock.open.metadata()?.ino()));
    let _ = fs::remove_dir_all(&private);
    DirBuilder::new().mode(0o700).create(&private)?;
    let made = (|| {
        let beside = private.join("s");
        // By its descriptor, as the path of the folder may be longer than a socket's may be.
        let folder = File::open(&private)?;
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/s", folder.as_raw_fd()))?;
        listener.set_nonblocking(true)?;
        if let Some(group) = group {
            chown(&beside, None, Some(group))?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&beside, Permissions::from_mode(mode))?;
        fs::rename(&beside, path)?;
        Ok((listener, identity(path)?))
    })();
    let _ = fs::remove_dir_all(&private);
    made
}

fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

fn is_socket(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
}

/// True if there is a listener at this path.
fn is_served(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        // There is a listener that is busy, or that this user may not connect to.
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::PermissionDenied),
    }
}

/// How often, and at which interval, a lock that another process has is tried again.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The lock of a path, so that of two switches that start at the same time one has it: a file beside it that no other
/// user can open, as whoever opens a file can lock it. It is removed when this is dropped.
#[derive(Debug)]
struct Lock {
    file: PathBuf,
    open: File,
}

impl Lock {
    fn of(path: &Path) -> Result<Lock, SocketError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = folder_of(path).join(format!(".{name}.lock"));
        let failed = |source: io::Error| {
            // It is the folder that is missing, not the lock.
            let is_missing = source.kind() == ErrorKind::NotFound;
            FileError { path: if is_missing { path.to_owned() } else { file.clone() }, source }
        };
        for _ in 0..LOCK_TRIES {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
            let mut how = File::options();
            how.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let open = how.open(&file).map_err(failed)?;
            match flock(&open, FlockOperation::NonBlockingLockExclusive) {
                // Who had it before may have removed the file meanwhile.
                Ok(()) if is_at(&open, &file) => return Ok(Lock { file, open }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => thread::sleep(LOCK_PAUSE),
                Err(errno) => return Err(failed(errno.into()).into()),
            }
        }
        Err(SocketError::Locked(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn is_at(open: &File, path: &Path) -> bool {
    let id = open.metadata().map(|found| (found.dev(), found.ino())).ok();
    id.is_some() && identity(path).ok() == id
}

fn of_environment(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The effective user of this process, the owner of its folder in /proc; `u32::MAX` if that cannot be read.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// The folder for the sockets of this user's switches.
pub fn folder() -> PathBuf {
    let user = user();
    if let Some(folder) = of_environment("WIREYARD_RUN_DIR") {
        return folder;
    }
    if user == 0 {
        return PathBuf::from(SYSTEM_FOLDER);
    }
    match of_environment("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join("wireyard"),
        None => env::temp_dir().join(format!("wireyard-{user}")),
    }
}

/// Folders that a client searches: the configured one; otherwise its own, and that of root, whose switches may be open
/// to a group, with the folders in it. A folder of another user, as anyone can create in /tmp, is skipped.
fn folders() -> Vec<PathBuf> {
    let own = folder();
    if of_environment("WIREYARD_RUN_DIR").is_some() {
        return vec![own];
    }
    let users = [user(), 0];
    let system = Path::new(SYSTEM_FOLDER);
    let mut all = vec![own, system.to_owned()];
    all.dedup();
    all.retain(|folder| fs::metadata(folder).is_ok_and(|found| users.contains(&found.uid())));
    all.extend(folders_in(system, 0));
    all
}

/// The folders in one that only `owner` can write, so that they are there by its will, whoever has them.
fn folders_in(folder: &Path, owner: u32) -> Vec<PathBuf> {
    let is_safe = |found: fs::Metadata| found.uid() == owner && found.mode() & OTHERS_WRITE == 0;
    if !fs::metadata(folder).is_ok_and(is_safe) {
        return Vec::new();
    }
    let inside = fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path());
    inside.filter(|path| path.is_dir()).collect()
}

/// The running switches: names and sockets.
pub fn running() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in folders() {
        let Ok(files) = fs::read_dir(folder) else { continue };
        for path in files.flatten().map(|file| file.path()) {
            let is_ours = path.extension().is_some_and(|end| end == "sock");
            if let Some(name) = path.file_stem().filter(|_| is_ours && is_served(&path)) {
                found.push((name.to_string_lossy().into_owned(), path));
            }
        }
    }
    found.sort();
    found
}

/// The number of a group, by its name in /etc/group or as a number.
///
/// # Errors
/// There is no such group.
pub fn group(name: &str) -> Result<u32, SocketError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut lines = groups.lines().map(|line| line.split(':'));
    let found = lines.find_map(|mut fields| {
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| SocketError::NoGroup(name.to_owned()))
}

#[cfg(test)]
mod tests;
