//! Sources of files: the disk, a map in memory for tests, libraries inside the binary.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Cursor, Read as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::diag::safe::shown;

/// Most bytes of a program or library.
pub const PROGRAM_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a configuration or scenario.
pub const CONFIG_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of an entries file.
pub const DATA_BYTES_MAX: u64 = 64 << 20;

/// The pseudo-folder of the files inside the binary: `<embedded>/l2_switch/program.yaml`.
pub const EMBEDDED: &str = "<embedded>";

/// Reads files and finds libraries.
#[derive(Clone, Debug)]
pub struct Loader {
    folders: Vec<PathBuf>,
    /// Name and text. A library has a plain name (`ethernet`), any other file a path (`l2_switch/program.yaml`).
    pub(super) embedded: &'static [(&'static str, &'static str)],
    /// Macros of P4 programs.
    defines: Vec<(String, String)>,
    /// Instead of the disk.
    memory: Option<BTreeMap<PathBuf, Vec<u8>>>,
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It does not exist.
    #[error("there is no such file")]
    NotFound,
    /// It has more bytes than this.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The operating system's error.
    #[error("{0}")]
    Other(String),
}

/// A file that was found: its path, and its bytes.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) bytes: Result<Vec<u8>, ReadError>,
}

impl Loader {
    /// Files from the disk; libraries also from these folders, then from the embedded ones (name
    /// and text).
    pub fn new(folders: Vec<PathBuf>, embedded: &'static [(&'static str, &'static str)]) -> Self {
        Loader { folders, embedded, defines: Vec::new(), memory: None }
    }

    /// Files from memory only (path and bytes).
    pub fn in_memory<P: Into<PathBuf>, B: Into<Vec<u8>>>(
        files: impl IntoIterator<Item = (P, B)>,
        embedded: &'static [(&'static str, &'static str)],
    ) -> Self {
        let files = files.into_iter().map(|(path, bytes)| (path.into(), bytes.into()));
        let memory = Some(files.collect());
        Loader { folders: Vec::new(), embedded, defines: Vec::new(), memory }
    }

    /// With macros for P4 programs, name and value.
    pub fn with_defines(self, defines: Vec<(String, String)>) -> Self {
        Loader { defines, ..self }
    }

    /// With folders that are searched for any files.
    pub fn with_folders(self, folders: Vec<PathBuf>) -> Self {
        Loader { folders, ..self }
    }

    /// Macros for P4 programs.
    pub(super) fn defines(&self) -> &[(String, String)] {
        &self.defines
    }

    /// The folders that are searched.
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The bytes of a file of at most `most` bytes.
    pub fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
        let bytes = match (&self.memory, self.embedded_text(path)) {
            (_, Some(text)) => text.as_bytes().to_vec(),
            (Some(files), None) => files.get(path).cloned().ok_or(ReadError::NotFound)?,
            (None, None) => read_from_disk(path, most)?,
        };
        if bytes.len() as u64 > most { Err(ReadError::TooLarge(most)) } else { Ok(bytes) }
    }

    /// A reader of a file, which may be larger than the limit for reading at once.
    pub(super) fn open(&self, path: &Path) -> Result<Box<dyn BufRead>, ReadError> {
        match (&self.memory, self.embedded_text(path)) {
            (_, Some(text)) => Ok(Box::new(text.as_bytes())),
            (Some(files), None) => {
                let bytes = files.get(path).cloned().ok_or(ReadError::NotFound)?;
                Ok(Box::new(Cursor::new(bytes)))
            }
            (None, None) => Ok(Box::new(BufReader::with_capacity(1 << 16, open_on_disk(path)?))),
        }
    }

    /// Size of a file in bytes; `None` if it does not exist.
    pub(super) fn size(&self, path: &Path) -> Option<u64> {
        match (&self.memory, self.embedded_text(path)) {
            (_, Some(text)) => Some(text.len() as u64),
            (Some(files), None) => files.get(path).map(|bytes| bytes.len() as u64),
            (None, None) => std::fs::metadata(path).ok().map(|file| file.len()),
        }
    }

    /// Whether there is such a file, on the disk or inside the binary.
    pub fn is_file(&self, path: &Path) -> bool {
        self.embedded_text(path).is_some() || path.is_file()
    }

    /// Whether anything has this name, inside the binary or on the disk: also a pipe, a folder or a link to nothing, which
    /// reading reports.
    pub fn is_there(&self, path: &Path) -> bool {
        let is_stored = || match &self.memory {
            Some(files) => files.contains_key(path),
            None => path.symlink_metadata().is_ok(),
        };
        self.embedded_text(path).is_some() || is_stored()
    }

    /// Whether there is such a folder, on the disk or inside the binary.
    pub fn is_folder(&self, path: &Path) -> bool {
        let inside = embedded_name(path).map(|name| name + "/");
        inside.is_some_and(|inside| self.embedded.iter().any(|(name, _)| name.starts_with(&inside)))
            || path.is_dir()
    }

    /// The text of a file beneath [`EMBEDDED`].
    fn embedded_text(&self, path: &Path) -> Option<&'static str> {
        let wanted = embedded_name(path)?;
        self.embedded.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text)
    }

    /// The library of this name, for a program in this folder: beside it, in `headers/` beside it,
    /// in the folders, embedded.
    pub(super) fn library(&self, name: &str, beside: &Path) -> Option<Found> {
        let file = format!("{name}.yaml");
        let mut places = vec![beside.join(&file), beside.join("headers").join(&file)];
        places.extend(self.folders.iter().map(|folder| folder.join(&file)));
        for path in places {
            let bytes = self.read(&path, PROGRAM_BYTES_MAX);
            if bytes != Err(ReadError::NotFound) {
                return Some(Found { path, bytes });
            }
        }
        let (_, text) = self.embedded.iter().find(|(known, _)| *known == name)?;
        let bytes = Ok(text.as_bytes().to_vec());
        Some(Found { path: Path::new(EMBEDDED).join(file), bytes })
    }

    /// Names of the libraries that can be included, for suggestions.
    pub(super) fn known(&self, beside: &Path) -> Vec<String> {
        let libraries = self.embedded.iter().filter(|(name, _)| !name.contains('/'));
        let mut names: Vec<String> = libraries.map(|(name, _)| (*name).into()).collect();
        let folders = [beside.join("headers")].into_iter().chain(self.folders.iter().cloned());
        for folder in folders.filter(|_| self.memory.is_none()) {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.extend(files.filter_map(|file| file.strip_suffix(".yaml").map(str::to_owned)));
        }
        names.sort();
        names.dedup();
        names
    }

    /// The folders that are searched, for messages.
    pub(super) fn searched(&self, beside: &Path) -> String {
        let mut places =
            vec![shown(beside).into_owned(), shown(&beside.join("headers")).into_owned()];
        places.extend(self.folders.iter().map(|folder| shown(folder).into_owned()));
        let places: Vec<String> = places
            .into_iter()
            .map(|place| if place.is_empty() { ".".to_owned() } else { place })
            .collect();
        places.join(", ")
    }
}

/// The name of a file beneath [`EMBEDDED`], without `.` and `..`.
fn embedded_name(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix(EMBEDDED).ok()?.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts.join("/"))
}

/// Reads at most one byte more than allowed, so that a huge or endless file costs nothing.
fn read_from_disk(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let read = open_on_disk(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(other)?;
    Ok(bytes)
}

fn open_on_disk(path: &Path) -> Result<File, ReadError> {
    let file = open(path).map_err(other)?;
    // Checked on the open file: the name may refer to another file by now.
    let kind = file.metadata().map_err(other)?.file_type();
    if let Some(why) = refused(kind) {
        return Err(ReadError::Other(why.into()));
    }
    Ok(file)
}

fn other(error: std::io::Error) -> ReadError {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => ReadError::NotFound,
        _ => ReadError::Other(error.to_string()),
    }
}

/// Opens without waiting: a FIFO may never get another end.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    OpenOptions::new().read(true).custom_flags(flags as i32).open(path)
}

/// Why a file that is not regular is not read.
fn refused(kind: std::fs::FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("it is a folder")
    } else if kind.is_fifo() {
        Some(
            "it is a pipe, and only files are read: write what comes from it (`<(..)`, `| ..`) into a \
             file first",
        )
    } else {
        Some("it is a device or a socket, and only files are read")
    }
}

/// Reads a file of at most `most` bytes from the disk.
///
/// # Errors
/// [`ReadError`]; pipes and devices, which may never end, are refused.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    Loader::new(Vec::new(), &[]).read(path, most)
}

/// As [`read_bytes`], a text.
///
/// # Errors
/// [`ReadError`].
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    String::from_utf8(read_bytes(path, most)?)
        .map_err(|_| ReadError::Other("it is not UTF-8 text".into()))
}
