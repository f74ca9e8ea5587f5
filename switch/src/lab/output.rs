//! The files of a run: report, series, captures, tables.
//!
//! A folder holds one run, or one sweep: the files of the previous one, which `files.txt` lists, are removed before the
//! next is written, and no others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::sweep::Run;
use crate::folder::{FileError, Folder};
#[cfg(feature = "parquet")]
use crate::report::parquet;
use crate::report::{Report, Table, csv, html, json, text};

/// Results that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The operating system's error, with the path.
    #[error(transparent)]
    File(#[from] FileError),
    /// Data that the format of the series cannot have.
    #[cfg(feature = "parquet")]
    #[error("series as Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// The list of written files, beside them.
const LIST: &str = "files.txt";
/// Most bytes of that list.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Creates the folder and checks that files can be written there, before a run that takes long.
///
/// # Errors
/// The operating system's error, with the path.
pub fn prepare(folder: &Path) -> Result<(), OutputError> {
    Ok(Folder::make(folder)?.can_write("report.html")?)
}

/// Writes everything into an open folder, or one below it (`seed-3/`); returns the paths of the files.
///
/// # Errors
/// The operating system's error, with the path.
pub fn write(folder: &Folder, below: &str, run: &Run) -> Result<Vec<PathBuf>, OutputError> {
    let mut written = Vec::new();
    let mut names = FileNames::default();
    let mut put = |name: String, bytes: &[u8]| {
        written.push(folder.write(&format!("{below}{name}"), bytes)?);
        Ok::<(), OutputError>(())
    };
    let report = &run.report;
    put("report.html".to_owned(), html::page(report).as_bytes())?;
    put("report.txt".to_owned(), text::summary(report).as_bytes())?;
    put("report.json".to_owned(), pretty(&json::value(report)).as_bytes())?;
    put("series.csv".to_owned(), csv::series(report).as_bytes())?;
    #[cfg(feature = "parquet")]
    put("series.parquet".to_owned(), &parquet::series(report)?)?;
    for (name, text) in &run.foreign {
        put((*name).to_owned(), text.as_bytes())?;
    }
    if let Some(trace) = &run.packet_trace {
        put("packet.txt".to_owned(), trace.as_bytes())?;
    }
    for table in &report.tables {
        put(names.of("tables/", &table.title, ".csv"), csv::table(table).as_bytes())?;
    }
    for (link, bytes) in &run.captures {
        put(names.of("captures/", link, ".pcapng"), bytes)?;
    }
    for (switch, text) in &run.entries {
        put(names.of("entries/", switch, ".yaml"), text.as_bytes())?;
    }
    Ok(written)
}

/// Writes a report that is no run, with its tables and more files, in place of a folder's previous files.
///
/// # Errors
/// The operating system's error, with the path.
pub fn replace(path: &Path, report: &Report, more: &[(&str, String)]) -> Result<(), OutputError> {
    clear(path)?;
    let folder = Folder::make(path)?;
    let mut written = vec![
        folder.write("report.html", html::page(report).as_bytes())?,
        folder.write("report.json", pretty(&json::value(report)).as_bytes())?,
    ];
    let mut names = FileNames::default();
    for table in &report.tables {
        let name = names.of("tables/", &table.title, ".csv");
        written.push(folder.write(&name, csv::table(table).as_bytes())?);
    }
    for (name, text) in more {
        written.push(folder.write(name, text.as_bytes())?);
    }
    list(path, &written)
}

/// Removes the files of the last run in this folder, and the folders that are empty then.
///
/// # Errors
/// The operating system's error, with the path.
pub fn clear(folder: &Path) -> Result<(), OutputError> {
    let folder = Folder::make(folder)?;
    let Some(text) = folder.read(LIST, LIST_BYTES_MAX) else { return Ok(()) };
    // The list is only a file and not trusted: names outside of the folder are ignored.
    let names = text.lines().chain([LIST]).filter(|name| is_below(name));
    for name in names {
        folder.remove(name)?;
    }
    Ok(())
}

fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Writes the list of the files written into a folder.
///
/// # Errors
/// The operating system's error, with the path.
pub fn list(folder: &Path, written: &[PathBuf]) -> Result<(), OutputError> {
    let names = written.iter().filter_map(|path| path.strip_prefix(folder).ok());
    let text: String = names.map(|name| format!("{}\n", name.display())).collect();
    Folder::make(folder)?.write(LIST, text.as_bytes())?;
    Ok(())
}

/// Writes the figures of all seeds; returns its path.
///
/// # Errors
/// The operating system's error, with the path.
pub fn write_seeds(folder: &Path, seeds: &Table) -> Result<PathBuf, OutputError> {
    Ok(Folder::make(folder)?.write("seeds.csv", csv::table(seeds).as_bytes())?)
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The names of the files of a run. Two things whose names differ in case or in punctuation have two files.
#[derive(Default)]
struct FileNames(BTreeSet<String>);

impl FileNames {
    /// `FOLDER/NAME.KIND` with the letters, digits, dots and dashes of a name; with a number behind it where another
    /// has it.
    fn of(&mut self, folder: &str, name: &str, kind: &str) -> String {
        let kept = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
            true => c.to_ascii_lowercase(),
            false => '-',
        };
        let name: String = name.chars().map(kept).collect();
        let numbered = (2..).map(|number| format!("{folder}{name}-{number}{kind}"));
        let mut names = std::iter::once(format!("{folder}{name}{kind}")).chain(numbered);
        names.find(|name| self.0.insert(name.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_become_one_have_two_files() {
        let mut names = FileNames::default();
        let of: Vec<String> =
            ["S_1", "s-1", "s-1-2"].map(|name| names.of("entries/", name, ".yaml")).into();
        assert_eq!(of, ["entries/s-1.yaml", "entries/s-1-2.yaml", "entries/s-1-2-2.yaml"]);
        assert_eq!(names.of("captures/", "s-1", ".yaml"), "captures/s-1.yaml");
    }
}
