//! Programs in P4-16, and in p4c's JSON for bmv2: finds their files and passes them to [`crate::p4`] and
//! [`crate::bmv2`].

use std::path::{Path, PathBuf};

use super::include::text;
use super::load::{Loader, PROGRAM_BYTES_MAX, ReadError};
use super::{Parsed, Searched};
use crate::diag::safe::shown;
use crate::diag::{Diagnostics, Files, Rejected, codes, suggest};
use crate::ids::{FileId, Id};
use crate::ir::{SourceFile, SourceSpan};
use crate::p4;
use crate::p4info::Info;

/// Most files of a P4 program.
const FILES_MAX: usize = 256;

/// Declarations of the language and of the architectures, by the last part of the name that includes them.
const DECLARATIONS: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../../programs/p4/core.p4")),
    ("v1model.p4", include_str!("../../../programs/p4/v1model.p4")),
    ("psa.p4", include_str!("../../../programs/p4/psa.p4")),
];

/// Declarations of other targets, which come with their compilers.
const OTHER_ARCHITECTURES: &[&str] = &[
    "tna.p4",
    "t2na.p4",
    "t5na.p4",
    "tofino.p4",
    "tofino2.p4",
    "pna.p4",
    "ebpf_model.p4",
    "ubpf_model.p4",
    "xdp_model.p4",
    "tc_model.p4",
    "sume_switch.p4",
    "xsa.p4",
];

/// True for a path that names a P4 program.
pub(super) fn is_p4(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("p4"))
}

/// The files of a program while it is read.
struct Reader<'l> {
    loader: &'l Loader,
    files: Files,
}

impl Reader<'_> {
    /// The number of a file: one, however often it is asked for and included.
    fn file_of(&mut self, read: SourceFile) -> FileId {
        let is_same = |known: &SourceFile| known.name == read.name && known.text == read.text;
        match self.files.iter().position(is_same) {
            Some(known) => FileId::new(known),
            None => self.files.push(read),
        }
    }
}

impl p4::Sources for Reader<'_> {
    fn include(
        &mut self,
        name: &str,
        system: bool,
        at: SourceSpan,
        report: &mut Diagnostics,
    ) -> Option<(FileId, String)> {
        let beside = self.files.get(at.file).map(|file| file.path.clone());
        let beside = beside.and_then(|path| path.parent().map(Path::to_path_buf));
        let mut places: Vec<PathBuf> = Vec::new();
        if !system {
            places.extend(beside.clone().map(|folder| folder.join(name)));
        }
        places.extend(self.loader.folders().iter().map(|folder| folder.join(name)));
        let last = name.rsplit('/').next().unwrap_or(name);
        let is_ours = DECLARATIONS.iter().any(|(known, _)| *known == last);
        if !system && !is_ours && last != name {
            // A path that leads out of a tree of folders that does not exist here.
            places.extend(beside.clone().map(|folder| folder.join(last)));
        }
        if self.files.len() >= FILES_MAX {
            let text = format!("a program has at most {FILES_MAX} files");
            return report.refuse(codes::LIMIT, at, text);
        }
        for path in &places {
            let bytes = self.loader.read(path, PROGRAM_BYTES_MAX);
            if bytes == Err(ReadError::NotFound) {
                continue;
            }
            let text = text(path, as_utf8(bytes), Some(at), &mut self.files, report)?;
            let file = self.file_of(SourceFile::read_from(path, text.clone()));
            return Some((file, text));
        }
        if let Some((known, text)) = DECLARATIONS.iter().find(|(known, _)| *known == last) {
            let name = format!("<embedded>/{known}");
            let file = self.file_of(SourceFile::named(&name, (*text).to_owned()));
            return Some((file, (*text).to_owned()));
        }
        let searched: Vec<String> = places.iter().map(|path| shown(path).into_owned()).collect();
        let error =
            report.error(codes::INCLUDE_NOT_FOUND, at, format!("there is no file `{name}`"));
        if !searched.is_empty() {
            error.note(format!("searched {}", searched.join(", ")));
        }
        error.note("core.p4, v1model.p4 and psa.p4 are inside of the binary");
        if OTHER_ARCHITECTURES.contains(&last) {
            error
                .note("this is the architecture of another target: its programs are checked only")
                .help("give the folder of its declarations with -I");
        } else if let Some(near) = suggest(last, DECLARATIONS.iter().map(|(known, _)| *known)) {
            let written = if system { format!("<{near}>") } else { format!("\"{near}\"") };
            error.fix(format!("did you mean `{near}`?"), at, written);
        }
        None
    }

    fn file(&self, file: FileId) -> Option<(&str, &str)> {
        self.files.get(file).map(|file| (file.name.as_str(), file.text.as_str()))
    }
}

/// P4 text, and JSON with pieces of it, as UTF-8. A byte that is none is taken as Latin-1: comments are in many
/// encodings, and p4c reads bytes.
fn as_utf8(bytes: Result<Vec<u8>, ReadError>) -> Result<Vec<u8>, ReadError> {
    let bytes = bytes?;
    if std::str::from_utf8(&bytes).is_ok() || bytes.contains(&0) {
        return Ok(bytes);
    }
    let text = bytes.utf8_chunks().fold(String::new(), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().copied().map(char::from));
        text
    });
    Ok(text.into_bytes())
}

/// What `does` makes of a file's text.
fn read<T>(
    path: &Path,
    bytes: Result<Vec<u8>, ReadError>,
    loader: &Loader,
    does: impl FnOnce(FileId, &str, &mut Reader<'_>, &mut Diagnostics) -> Option<T>,
) -> Result<(T, Files, Diagnostics), Rejected> {
    let mut report = Diagnostics::new();
    let mut reader = Reader { loader, files: Files::new() };
    let bytes = as_utf8(bytes);
    let read = text(path, bytes, None, &mut reader.files, &mut report).and_then(|text| {
        let file = reader.files.push(SourceFile::read_from(path, text.clone()));
        does(file, &text, &mut reader, &mut report)
    });
    match read {
        Some(read) => Ok((read, reader.files, report)),
        None => Err(Rejected { diagnostics: report, files: reader.files }),
    }
}

/// The name of a program: that of its file.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads and checks a program, without lowering it: of any architecture.
pub(super) fn check(
    path: &Path,
    loader: &Loader,
) -> Result<(p4::Checked, Files, Diagnostics), Rejected> {
    let bytes = loader.read(path, PROGRAM_BYTES_MAX);
    read(path, bytes, loader, |file, text, reader, report| {
        p4::check(file, text, loader.defines(), reader, report)
    })
}

/// Reads the JSON of bmv2 into the tree that YAML makes.
pub(super) fn bmv2(
    path: &Path,
    bytes: Result<Vec<u8>, ReadError>,
    loader: &Loader,
    described: Option<&Info>,
) -> Result<Parsed, Rejected> {
    let name = &*stem(path);
    let (unit, files, warnings) = read(path, bytes, loader, |file, text, reader, report| {
        crate::bmv2::program(crate::bmv2::Named { file, text, name }, described, reader, report)
    })?;
    let (units, searched, embedded) = (vec![unit], Searched::default(), loader.embedded);
    Ok(Parsed { units, files, searched, warnings, embedded })
}

/// Reads a program into the tree that YAML makes.
pub(super) fn program(path: &Path, loader: &Loader) -> Result<Parsed, Rejected> {
    let (checked, files, mut report) = check(path, loader)?;
    match p4::lower(&checked, &stem(path), &mut report) {
        Some(unit) => {
            let searched =
                Searched { folders: loader.folders().to_vec(), defines: loader.defines().to_vec() };
            let (units, embedded) = (vec![unit], loader.embedded);
            Ok(Parsed { units, files, searched, warnings: report, embedded })
        }
        None => Err(Rejected { diagnostics: report, files }),
    }
}
