//! Reading a program and the libraries it includes.

use std::path::{Path, PathBuf};

use super::decode::Decoder;
use super::load::{Loader, ReadError};
use super::{FILES_MAX, INCLUDE_LEVELS_MAX, Parsed, Searched, program, yaml};
use crate::ast::{Name, Unit};
use crate::diag::safe::shown;
use crate::diag::{Diagnostic, Diagnostics, Files, Rejected, codes};
use crate::ids::{FileId, Id};
use crate::ir::{SourceFile, SourceSpan};

/// The files read so far.
pub(super) struct Reading<'l> {
    loader: &'l Loader,
    /// Folder of the program.
    beside: PathBuf,
    files: Files,
    diagnostics: Diagnostics,
    units: Vec<Unit>,
    /// Files that are being read, with the include that led to each.
    chain: Vec<(PathBuf, Option<SourceSpan>)>,
}

impl<'l> Reading<'l> {
    pub(super) fn new(path: &Path, loader: &'l Loader) -> Self {
        Reading {
            loader,
            beside: path.parent().map(Path::to_path_buf).unwrap_or_default(),
            files: Files::new(),
            diagnostics: Diagnostics::new(),
            units: Vec::new(),
            chain: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Result<Parsed, Rejected> {
        let Reading { loader, files, diagnostics, units, .. } = self;
        if diagnostics.has_errors() {
            return Err(Rejected { diagnostics, files });
        }
        let (searched, embedded) = (Searched::default(), loader.embedded);
        Ok(Parsed { units, files, searched, warnings: diagnostics, embedded })
    }

    pub(super) fn program(&mut self, path: &Path, bytes: Result<Vec<u8>, ReadError>) {
        self.file(path, bytes, None, None);
    }

    /// Reads one file, then those it includes.
    fn file(
        &mut self,
        path: &Path,
        bytes: Result<Vec<u8>, ReadError>,
        library: Option<&str>,
        by: Option<SourceSpan>,
    ) {
        let Some(text) = text(path, bytes, by, &mut self.files, &mut self.diagnostics) else {
            return;
        };
        let file = self.files.push(SourceFile::read_from(path, text.clone()));
        let Some(node) = yaml::parse(file, &text, &mut self.diagnostics) else { return };
        let mut decoder = Decoder::new(&self.files, &mut self.diagnostics);
        let Some(found) = program::file(&mut decoder, &node, library) else { return };
        self.units.push(found.unit);
        self.chain.push((path.to_owned(), by));
        if let Some(surplus) = found.include.get(FILES_MAX) {
            self.too_many(surplus);
        }
        for include in found.include.iter().take(FILES_MAX) {
            self.include(include);
        }
        self.chain.pop();
    }

    fn include(&mut self, include: &Name) {
        let Some(found) = self.loader.library(&include.value, &self.beside) else {
            self.not_found(include);
            return;
        };
        if let Some(at) = self.chain.iter().position(|(path, _)| *path == found.path) {
            self.circle(include, at);
            return;
        }
        if self.files.iter().any(|file| file.path == found.path) {
            return;
        }
        if self.files.len() >= FILES_MAX || self.chain.len() > INCLUDE_LEVELS_MAX {
            self.too_many(include);
            return;
        }
        self.file(&found.path, found.bytes, Some(&include.value), Some(include.span));
    }

    fn too_many(&mut self, include: &Name) {
        let message =
            format!("a program has at most {FILES_MAX} files, {INCLUDE_LEVELS_MAX} levels deep");
        self.diagnostics.error(codes::LIMIT, include.span, message);
    }

    fn not_found(&mut self, include: &Name) {
        let message = format!("there is no library `{}`", include.value);
        let known = self.loader.known(&self.beside);
        let error = self.diagnostics.error(codes::INCLUDE_NOT_FOUND, include.span, message);
        error.did_you_mean(&include.value, known.iter().map(String::as_str));
        error.note(format!(
            "searched `{}.yaml` in {}",
            include.value,
            self.loader.searched(&self.beside)
        ));
        if error.fixes.is_empty() && !known.is_empty() {
            error.note(format!("the libraries there are {}", known.join(", ")));
        }
    }

    /// The chain of includes from the file at `at` back to itself.
    fn circle(&mut self, include: &Name, at: usize) {
        let names: Vec<_> = self.chain[at..].iter().map(|(path, _)| shown(path)).collect();
        let first = names.first().map(|name| &**name).unwrap_or_default();
        let message = format!("`{}` includes itself", include.value);
        let note = format!("the circle is {} -> {first}", names.join(" -> "));
        let error = self.diagnostics.error(codes::INCLUDE_CIRCLE, include.span, message);
        error.here("closes the circle").note(note);
        for (_, by) in &self.chain[at + 1..] {
            if let Some(by) = by {
                error.label(*by, "included here");
            }
        }
    }
}

/// The bytes of a file as text without a byte order mark; errors are reported at the include of the file, or in the
/// file.
pub(super) fn text(
    path: &Path,
    bytes: Result<Vec<u8>, ReadError>,
    by: Option<SourceSpan>,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let (code, why) = match bytes {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return Some(without_mark(text)),
            Err(error) => {
                not_utf8(path, error, files, diagnostics);
                return None;
            }
        },
        Err(why @ ReadError::TooLarge(_)) => (codes::LIMIT, why.to_string()),
        Err(why) => (codes::FILE_NOT_READ, why.to_string()),
    };
    let name = shown(path);
    diagnostics.push(Diagnostic::new(code, by, format!("cannot read {name}: {why}")));
    None
}

fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Points to the end of the last valid character.
fn not_utf8(
    path: &Path,
    error: std::string::FromUtf8Error,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) {
    let good = error.utf8_error().valid_up_to();
    let bytes = error.into_bytes();
    let utf16 = matches!(bytes.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff]));
    let message = format!("{} is not UTF-8: byte {} cannot be read", shown(path), good + 1);
    let text: String = String::from_utf8_lossy(&bytes[..good]).into_owned();
    let file: FileId = files.push(SourceFile::read_from(path, text));
    debug_assert!(file.index() < files.len());
    let span = SourceSpan { file, start: good as u32, end: good as u32 };
    let found = diagnostics.error(codes::NOT_UTF8, span, message);
    if utf16 {
        found.help("the file is UTF-16: save it as UTF-8");
    }
}
