//! The files of a run: report, series, captures, tables.
//!
//! A folder holds one run, or one sweep: what the one before it wrote, which `files.txt` lists, is removed before the next is
//! written, and nothing else is.

use std::path::{Path, PathBuf};

use super::sweep::Run;
use crate::folder::{FileError, Folder};
use crate::report::{Report, Table, csv, html, json, parquet, text};

/// Results that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// What the system says, with the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// What the format of the series cannot hold.
    #[error("series as Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// The list of what was written, beside it.
const LIST: &str = "files.txt";
/// Most bytes of that list.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Makes the folder and sees that files can be written there, before a run that takes long.
///
/// # Errors
/// What the system says, with the file.
pub fn prepare(folder: &Path) -> Result<(), OutputError> {
    Ok(Folder::make(folder)?.can_write("report.html")?)
}

/// Writes everything into an open folder, or one below it (`seed-3/`); gives the names of the files.
///
/// # Errors
/// What the system says, with the file.
pub fn write(folder: &Folder, below: &str, run: &Run) -> Result<Vec<PathBuf>, OutputError> {
    let mut written = Vec::new();
    let mut put = |name: String, bytes: &[u8]| {
        written.push(folder.write(&format!("{below}{name}"), bytes)?);
        Ok::<(), OutputError>(())
    };
    let report = &run.report;
    put("report.html".to_owned(), html::page(report).as_bytes())?;
    put("report.txt".to_owned(), text::summary(report).as_bytes())?;
    put("report.json".to_owned(), pretty(&json::value(report)).as_bytes())?;
    put("series.csv".to_owned(), csv::series(report).as_bytes())?;
    put("series.parquet".to_owned(), &parquet::series(report)?)?;
    for (name, text) in &run.foreign {
        put((*name).to_owned(), text.as_bytes())?;
    }
    if let Some(trace) = &run.packet_trace {
        put("packet.txt".to_owned(), trace.as_bytes())?;
    }
    for table in &report.tables {
        put(format!("tables/{}.csv", file_name(&table.title)), csv::table(table).as_bytes())?;
    }
    for (link, bytes) in &run.captures {
        put(format!("captures/{}.pcapng", file_name(link)), bytes)?;
    }
    for (switch, text) in &run.entries {
        put(format!("entries/{}.yaml", file_name(switch)), text.as_bytes())?;
    }
    Ok(written)
}

/// Writes a report that is no run, with its tables and more files, in place of what a folder held.
///
/// # Errors
/// What the system says, with the file.
pub fn replace(path: &Path, report: &Report, more: &[(&str, String)]) -> Result<(), OutputError> {
    clear(path)?;
    let folder = Folder::make(path)?;
    let mut written = vec![
        folder.write("report.html", html::page(report).as_bytes())?,
        folder.write("report.json", pretty(&json::value(report)).as_bytes())?,
    ];
    for table in &report.tables {
        let name = format!("tables/{}.csv", file_name(&table.title));
        written.push(folder.write(&name, csv::table(table).as_bytes())?);
    }
    for (name, text) in more {
        written.push(folder.write(name, text.as_bytes())?);
    }
    list(path, &written)
}

/// Removes what the last run wrote into this folder, and the folders that are empty then.
///
/// # Errors
/// What the system says, with the file.
pub fn clear(folder: &Path) -> Result<(), OutputError> {
    let folder = Folder::make(folder)?;
    let Some(text) = folder.read(LIST, LIST_BYTES_MAX) else { return Ok(()) };
    // The list is only a file: it leads nowhere but into the folder.
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

/// Writes the list of what was written into a folder.
///
/// # Errors
/// What the system says, with the file.
pub fn list(folder: &Path, written: &[PathBuf]) -> Result<(), OutputError> {
    let names = written.iter().filter_map(|path| path.strip_prefix(folder).ok());
    let text: String = names.map(|name| format!("{}\n", name.display())).collect();
    Folder::make(folder)?.write(LIST, text.as_bytes())?;
    Ok(())
}

/// Writes the figures of all seeds; gives the file.
///
/// # Errors
/// What the system says, with the file.
pub fn write_seeds(folder: &Path, seeds: &Table) -> Result<PathBuf, OutputError> {
    Ok(Folder::make(folder)?.write("seeds.csv", csv::table(seeds).as_bytes())?)
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Letters, digits and dashes of a name.
fn file_name(text: &str) -> String {
    let kept =
        |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(kept).collect()
}
