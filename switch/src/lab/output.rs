//! The files of a run: report, series, captures, tables.
//!
//! A folder holds one run, or one sweep: the files of the previous one, which `files.txt` lists, are removed before the
//! next is written, and no others.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

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

/// True if results that are written into a folder take the place of those in another, which may be below it
/// (`seed-3`), or above it.
pub fn is_of(folder: &Path, results: &Path) -> bool {
    let (Ok(folder), Ok(results)) = (folder.canonicalize(), results.canonicalize()) else {
        return false;
    };
    // The list of the outer folder names files of the inner one.
    let (outer, below) = match (results.strip_prefix(&folder), folder.strip_prefix(&results)) {
        (Ok(below), _) => (&folder, below),
        (_, Ok(below)) => (&results, below),
        _ => return false,
    };
    let Ok(open) = Folder::make(outer) else { return false };
    let list = open.read(LIST, LIST_BYTES_MAX).unwrap_or_default();
    below == Path::new("") || list.lines().any(|name| Path::new(name).starts_with(below))
}

/// A file to be written: its name and its contents.
type Planned<'a> = (String, Cow<'a, [u8]>);

/// Writes files into a folder. Their names are on its list before the first is there, so that the next run removes what
/// a kill leaves.
fn put(folder: &Folder, files: &[Planned<'_>]) -> Result<(), OutputError> {
    let names: String = files.iter().map(|(name, _)| format!("{name}\n")).collect();
    let failed = |source| FileError { path: folder.path().join(LIST), source };
    let mut list = folder.open_to_extend(LIST)?;
    let listed = list.seek(SeekFrom::End(0)).and_then(|_| list.write_all(names.as_bytes()));
    listed.map_err(failed)?;
    for (name, bytes) in files {
        folder.write(name, bytes)?;
    }
    Ok(())
}

/// Writes everything into an open folder, or one below it (`seed-3/`); returns the number of the files.
///
/// # Errors
/// The operating system's error, with the path.
pub fn write(folder: &Folder, below: &str, run: &Run) -> Result<usize, OutputError> {
    let mut files = Vec::<Planned<'_>>::new();
    let mut names = FileNames::default();
    let mut add = |name: String, bytes| files.push((format!("{below}{name}"), bytes));
    let report = &run.report;
    let owned = |text: String| Cow::Owned(text.into_bytes());
    add("report.html".to_owned(), owned(html::page(report)));
    add("report.txt".to_owned(), owned(text::summary(report)));
    add("report.json".to_owned(), owned(pretty(&json::value(report))));
    add("series.csv".to_owned(), owned(csv::series(report)));
    #[cfg(feature = "parquet")]
    add("series.parquet".to_owned(), Cow::Owned(parquet::series(report)?));
    for (name, text) in &run.foreign {
        add((*name).to_owned(), Cow::Borrowed(text.as_bytes()));
    }
    if let Some(trace) = &run.packet_trace {
        add("packet.txt".to_owned(), Cow::Borrowed(trace.as_bytes()));
    }
    for table in &report.tables {
        add(names.of("tables/", &table.title, ".csv"), owned(csv::table(table)));
    }
    for (link, bytes) in &run.captures {
        add(names.of("captures/", link, ".pcapng"), Cow::Borrowed(bytes));
    }
    for (switch, text) in &run.entries {
        add(names.of("entries/", switch, ".yaml"), Cow::Borrowed(text.as_bytes()));
    }
    put(folder, &files)?;
    Ok(files.len())
}

/// Writes a report that is no run, with its tables and more files, in place of a folder's previous files.
///
/// # Errors
/// The operating system's error, with the path.
pub fn replace(path: &Path, report: &Report, more: &[(&str, String)]) -> Result<(), OutputError> {
    clear(path)?;
    let owned = |text: String| Cow::Owned(text.into_bytes());
    let mut files: Vec<Planned<'_>> = vec![
        ("report.html".to_owned(), owned(html::page(report))),
        ("report.json".to_owned(), owned(pretty(&json::value(report)))),
    ];
    let mut names = FileNames::default();
    for table in &report.tables {
        files.push((names.of("tables/", &table.title, ".csv"), owned(csv::table(table))));
    }
    let more = more.iter().map(|(name, text)| ((*name).to_owned(), Cow::Borrowed(text.as_bytes())));
    files.extend(more);
    put(&Folder::make(path)?, &files)
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

/// Writes the figures of all seeds.
///
/// # Errors
/// The operating system's error, with the path.
pub fn write_seeds(folder: &Folder, seeds: &Table) -> Result<(), OutputError> {
    put(folder, &[("seeds.csv".to_owned(), Cow::Owned(csv::table(seeds).into_bytes()))])
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

    #[test]
    fn a_file_is_on_the_list_before_it_is_there() {
        let path = tempfile::tempdir().unwrap();
        let folder = Folder::make(path.path()).unwrap();
        // A folder stands where the second file would be written, as if a kill came before it.
        std::fs::create_dir(path.path().join("b")).unwrap();
        let file = |name: &str| (name.to_owned(), Cow::Borrowed(&b"x"[..]));
        put(&folder, &[file("a")]).unwrap();
        put(&folder, &[file("b")]).unwrap_err();
        assert_eq!(folder.read(LIST, LIST_BYTES_MAX).unwrap(), "a\nb\n");
        std::fs::remove_dir(path.path().join("b")).unwrap();
        clear(path.path()).unwrap();
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 0);
    }
}
