//! From files to the syntax tree: loading, inclusion, YAML, decoding.
//!
//! [`parse_program`] reads a program and the libraries it includes, [`parse_entries`] an entries file. Both continue
//! after an error and report all of them. Other YAML files of Wireyard (switch configuration, scenarios) are read with
//! the helpers of [`decode`], with errors of the same form.

pub(crate) mod chunks;
pub mod decode;
mod entries;
mod include;
mod load;
pub mod node;
mod p4;
mod plain_list;
mod program;
pub mod shape;
mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::p4::only_limits;
pub use load::{
    CONFIG_BYTES_MAX, DATA_BYTES_MAX, EMBEDDED, Loader, PROGRAM_BYTES_MAX, ReadError, read_bytes,
    read_text,
};
pub use yaml::{ALIAS_NODES_MAX, NESTING_MAX};

use crate::ast::Unit;
use crate::ast::entries::EntriesFile;
use crate::diag::{Diagnostics, Files, Rejected};
use crate::ids::{FileId, Id};
use decode::Decoder;
use node::Node;

/// Most files of a program.
pub const FILES_MAX: usize = 64;
/// Most libraries that include one another.
pub const INCLUDE_LEVELS_MAX: usize = 16;

/// The shape of an entries file, for the JSON Schema.
pub(crate) use entries::ENTRIES as ENTRIES_SHAPE;
/// The shape of a program, for the JSON Schema.
pub(crate) use program::UNIT as PROGRAM_SHAPE;
/// The statements that are maps, for the JSON Schema.
pub(crate) use program::statement::FORMS as STATEMENT_FORMS;

/// A program that could be read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The program, then the libraries in the order of inclusion.
    pub units: Vec<Unit>,
    /// The files; the first is the program.
    pub files: Files,
    /// Of a program in P4: the searched folders, and the macros.
    pub searched: Searched,
    /// Warnings of the reader; [`compile_within`](crate::check::compile_within) adds its own.
    pub warnings: Diagnostics,
    /// Libraries that could have been included: name and text.
    pub embedded: &'static [(&'static str, &'static str)],
}

/// Inputs of a P4 program, beside its files.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Folders for `#include`.
    pub folders: Vec<PathBuf>,
    /// Macros: name and text.
    pub defines: Vec<(String, String)>,
}

/// Headers and instances of these libraries, each with the first library that declares it.
pub(crate) fn declared_in(
    libraries: &'static [(&'static str, &'static str)],
) -> BTreeMap<String, &'static str> {
    let mut names = BTreeMap::new();
    // Files with a path are programs and scenarios, which are never included.
    for (library, text) in libraries.iter().filter(|(name, _)| !name.contains('/')) {
        let (files, mut found) = (Files::new(), Diagnostics::new());
        let node = yaml::parse(FileId::new(0), text, &mut found);
        let mut decoder = Decoder::new(&files, &mut found);
        let unit = node.and_then(|node| program::file(&mut decoder, &node, Some(library)));
        let Some(unit) = unit.map(|file| file.unit) else { continue };
        let headers = unit.headers.into_iter().map(|(name, _)| name.value);
        for name in headers.chain(unit.instances.into_iter().map(|(name, _)| name.value)) {
            names.entry(name).or_insert(*library);
        }
    }
    names
}

/// Reads a program and what it includes. The error has every diagnostic of every file.
pub fn parse_program(path: &Path, loader: &Loader) -> Result<Parsed, Rejected> {
    if p4::is_p4(path) {
        return p4::program(path, loader);
    }
    let bytes = match loader.read(path, CONFIG_BYTES_MAX) {
        Ok(bytes) if crate::bmv2::is_bmv2(&bytes) => {
            return p4::bmv2(path, Ok(bytes), loader, None);
        }
        Ok(bytes) if bytes.len() as u64 > PROGRAM_BYTES_MAX => {
            Err(ReadError::TooLarge(PROGRAM_BYTES_MAX))
        }
        Err(ReadError::TooLarge(_)) => Err(ReadError::TooLarge(PROGRAM_BYTES_MAX)),
        read => read,
    };
    let mut reading = include::Reading::new(path, loader);
    reading.program(path, bytes);
    reading.finish()
}

/// Reads the JSON that p4c makes for bmv2, with the P4Info that came with it, if one did.
///
/// # Errors
/// All errors, with their places.
pub fn parse_bmv2(
    path: &Path,
    loader: &Loader,
    described: Option<&crate::p4info::Info>,
) -> Result<Parsed, Rejected> {
    p4::bmv2(path, loader.read(path, CONFIG_BYTES_MAX), loader, described)
}

/// True for a path that names a P4-16 program: `NAME.p4`.
pub fn is_p4(path: &Path) -> bool {
    p4::is_p4(path)
}

/// The P4Info of a P4-16 program, `None` for one without a `main` of v1model or PSA; and its files.
pub fn p4_info(
    path: &Path,
    loader: &Loader,
) -> Result<(Option<crate::p4::info::Info>, Files), Rejected> {
    p4::check(path, loader).map(|(checked, files, _)| (crate::p4::info(&checked), files))
}

/// A P4-16 program that is right.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedP4 {
    /// Why it cannot run here; `None`: its architecture runs.
    pub not_run: Option<String>,
    /// Its other diagnostics.
    pub warnings: Diagnostics,
    /// Its files.
    pub files: Files,
}

/// Reads and checks a P4-16 program of any architecture, without lowering it.
pub fn check_p4(path: &Path, loader: &Loader) -> Result<CheckedP4, Rejected> {
    let (checked, files, warnings) = p4::check(path, loader)?;
    Ok(CheckedP4 { not_run: crate::p4::not_run(&checked), warnings, files })
}

/// Reads an entries file. Its text is added to `files`, those of the program, so that a later error
/// can show both. `None`: the errors are in `diagnostics`.
pub fn parse_entries(
    path: &Path,
    loader: &Loader,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<EntriesFile> {
    let before = diagnostics.counts().0;
    let node = read_data(path, loader, DATA_BYTES_MAX, files, diagnostics)?;
    if node.kind == node::NodeKind::Null {
        return Some(EntriesFile::default());
    }
    let found = entries::file(&mut Decoder::new(files, diagnostics), &node)?;
    (diagnostics.counts().0 == before).then_some(found)
}

/// Reads a YAML file of at most [`CONFIG_BYTES_MAX`] bytes into a tree for [`decode`]. `None`: the
/// errors are in `diagnostics`.
pub fn read_yaml(
    path: &Path,
    loader: &Loader,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Node> {
    read_data(path, loader, CONFIG_BYTES_MAX, files, diagnostics)
}

fn read_data(
    path: &Path,
    loader: &Loader,
    most: u64,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Node> {
    let bytes = loader.read(path, most);
    let text = include::text(path, bytes, None, files, diagnostics)?;
    decode::from_file(path, &text, files, diagnostics)
}

#[cfg(test)]
pub(crate) mod tests;
