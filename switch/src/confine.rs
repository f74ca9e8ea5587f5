//! The privileges that a running switch drops before it opens a port or starts a thread: capabilities, system calls,
//! files.
//!
//! An attacker who exploits a defect in a parser of packets, files or requests then has only what a switch needs. It is
//! done before ports are open, not after, for two reasons: threads inherit it, and each port, capture and store is
//! opened at the start under the same rules as when it is opened again (SIGHUP, `port add`, an interface that comes
//! back), so that a switch that starts can reload. What needs more privileges is done before: the socket and the
//! addresses of the control plane, the network namespace of `--linux`.
//!
//! * `capabilities`: those of live ports stay, because ports come and go; all others are dropped, in every set.
//! * `files`: Landlock (landlock(7)), as far as the kernel supports it: the named folders, and no others. No TCP
//!   connections.
//! * `calls`: seccomp (seccomp(2)): a list of the system calls that a switch makes. Others fail with EPERM and are
//!   reported once each.
//!
//! It is no protection against a defect in the kernel's networking, which the switch must reach, and none for the
//! contents of packets. The commands other than `run` are not confined: they end.

mod calls;
mod capabilities;
mod files;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use caps::Capability;
use caps::errors::CapsError;
use landlock::RulesetError;

pub use calls::Refusals;
pub use files::Extent;

/// A failure of a confinement that the system supports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The rules of files.
    #[error("Landlock: {0}")]
    Files(#[from] RulesetError),
    /// A set of capabilities that cannot be read or lowered.
    #[error("capabilities: {0}")]
    Capabilities(#[from] CapsError),
    /// The signal of a refused system call cannot be caught.
    #[error("SIGSYS: {0}")]
    Signal(#[source] io::Error),
}

/// Folders that the confined process may write, once it is confined.
static WRITABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The remaining access of a process, to be entered once.
#[derive(Clone, Debug)]
pub struct Confinement {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// A path of it belongs to another user.
    is_foreign: bool,
    /// Threads become real-time ones later.
    is_realtime: bool,
}

/// The result of entering a confinement.
#[derive(Debug)]
pub struct Entered {
    /// Extent of the confinement of files.
    pub files: Extent,
    /// Deviations, as warnings.
    pub warnings: Vec<String>,
    /// System calls that were refused.
    pub refusals: Refusals,
}

impl Default for Confinement {
    fn default() -> Confinement {
        Confinement::new()
    }
}

impl Confinement {
    /// Only what every switch reads of the system.
    pub fn new() -> Confinement {
        Confinement { read: Vec::new(), write: Vec::new(), is_foreign: false, is_realtime: false }
    }

    /// Threads of the confined process may become real-time ones, if they could.
    pub fn allow_realtime(&mut self) {
        self.is_realtime = true;
    }

    /// Files in the folder of this one can be read: an editor replaces the file. So can those in the folder of a
    /// symbolic link to it, and beneath: a link that is set anew leads elsewhere (a ConfigMap of Kubernetes).
    pub fn read_beside(&mut self, file: &Path) {
        let place = place_of(file);
        let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let beside = beside.filter(|_| file.is_symlink()).filter(|folder| **folder != *place);
        beside.into_iter().for_each(|folder| self.read_beneath(folder));
        self.read_beneath(&place);
    }

    /// Everything beneath this folder can be read.
    pub fn read_beneath(&mut self, folder: &Path) {
        self.is_foreign |= is_foreign(folder);
        self.read.push(folder.to_owned());
    }

    /// This file, and others in its folder, can be written.
    pub fn write_beside(&mut self, file: &Path) {
        self.is_foreign |= is_foreign(file);
        self.write_beneath(&place_of(file));
    }

    /// Everything beneath this folder can be read and written.
    pub fn write_beneath(&mut self, folder: &Path) {
        self.is_foreign |= is_foreign(folder);
        self.write.push(folder.to_owned());
    }

    /// The folder of temporary files can be written, and the folder that the process was started in, unless it is the
    /// root or the user's home.
    pub fn write_here(&mut self) {
        self.write_beneath(&env::temp_dir());
        let Ok(here) = env::current_dir() else { return };
        if here != Path::new("/") && env::home_dir().is_none_or(|home| home != here) {
            self.write_beneath(&here);
        }
    }

    /// Confines the calling thread and those that it starts later to its files and capabilities, for good.
    ///
    /// # Errors
    /// The system refuses a confinement that it supports.
    pub fn enter_thread(&self) -> Result<Extent, ConfineError> {
        let extent = files::restrict(&self.read, &self.write)?;
        // In folders that the kernel confines it to, root still reads files of others, as before.
        let reads_others = self.is_foreign && extent != Extent::Nothing;
        let more = [
            reads_others.then_some(Capability::CAP_DAC_OVERRIDE),
            self.is_realtime.then_some(Capability::CAP_SYS_NICE),
        ];
        capabilities::keep(&more.into_iter().flatten().collect::<Vec<_>>())?;
        Ok(extent)
    }

    /// Confines the calling thread and those that it starts later as [`Confinement::enter_thread`] does, and the system
    /// calls of every thread of the process, for good.
    ///
    /// # Errors
    /// The system refuses a confinement that it supports.
    pub fn enter(&self) -> Result<Entered, ConfineError> {
        let refusals = Refusals::catch().map_err(ConfineError::Signal)?;
        let files = self.enter_thread()?;
        let mut warnings = Vec::new();
        if files == Extent::Nothing {
            warnings.push("this kernel has no Landlock: files are not confined".to_owned());
        }
        if let Err(why) = calls::restrict() {
            warnings.push(format!("system calls are not confined: {why}"));
        }
        let _ = WRITABLE.set(self.write.clone());
        Ok(Entered { files, warnings, refusals })
    }
}

/// The folders that a confined process may write, for the message about a refused file: empty if it is not confined, or
/// for another error.
pub fn advice(error: &io::Error) -> String {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let Some(folders) = WRITABLE.get().filter(|_| is_denied) else { return String::new() };
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    format!(
        ": the sandbox of this switch lets it write beneath {}; `run --writable DIR` adds a folder, --no-sandbox ends it",
        folders.join(", ")
    )
}

/// The folder that a file is in, behind symbolic links; another kind of file, such as `/dev/null`, is its own place.
fn place_of(file: &Path) -> PathBuf {
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return file.to_owned();
    }
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Whether the path, or a folder on the way to it, belongs to another user than that of the process, who may have
/// denied reading it.
fn is_foreign(path: &Path) -> bool {
    let Ok(own) = fs::metadata("/proc/self").map(|found| found.uid()) else { return false };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut owners = path.ancestors().filter_map(|part| fs::metadata(part).ok());
    owners.any(|part| part.uid() != own && part.uid() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_reached_by_its_folder_and_a_device_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("one.pcap");
        assert_eq!(place_of(&file), root, "a file that is not there yet");
        fs::write(&file, "x").unwrap();
        assert_eq!(place_of(&file), root);
        let other = tempfile::tempdir().unwrap();
        let link = other.path().join("link.pcap");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(place_of(&link), root, "where the link leads");
        let mut rules = Confinement::new();
        rules.read_beside(&link);
        assert_eq!(rules.read, [other.path(), &root], "and where it is");
        assert_eq!(place_of(Path::new("/dev/null")), Path::new("/dev/null"));
        assert_eq!(place_of(Path::new("new.pcap")), Path::new("."));
    }
}
