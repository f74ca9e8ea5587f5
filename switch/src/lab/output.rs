//! The files of a run: report, series, captures, tables.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::sweep::Run;
use crate::report::{csv, html, json, parquet, text};

/// Makes the folder and sees that files can be written there, before a run that takes long.
///
/// # Errors
/// What the system says, with the file.
pub fn prepare(folder: &Path) -> Result<(), String> {
    let told = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| told(folder, error))?;
    let first = folder.join("report.html");
    can_write(&first).map_err(|error| told(&first, error))
}

/// Sees that a file can be written; what is in it stays, and one that was not there is not there after.
///
/// # Errors
/// What the system says.
pub fn can_write(file: &Path) -> io::Result<()> {
    let is_new = !file.exists();
    fs::OpenOptions::new().append(true).create(true).open(file)?;
    if is_new { fs::remove_file(file) } else { Ok(()) }
}

/// Writes everything into a folder, which is made; gives the names of the files.
///
/// # Errors
/// What the system says, with the file.
pub fn write(folder: &Path, run: &Run) -> Result<Vec<PathBuf>, String> {
    let mut written = Vec::new();
    let mut put = |name: String, bytes: &[u8]| {
        let path = folder.join(name);
        let result = path.parent().map_or(Ok(()), fs::create_dir_all);
        let result: io::Result<()> = result.and_then(|()| fs::write(&path, bytes));
        result.map_err(|error| format!("{}: {error}", path.display()))?;
        written.push(path);
        Ok::<(), String>(())
    };
    let report = &run.report;
    put("report.html".to_owned(), html::page(report).as_bytes())?;
    put("report.txt".to_owned(), text::summary(report).as_bytes())?;
    put("report.json".to_owned(), pretty(&json::value(report)).as_bytes())?;
    put("series.csv".to_owned(), csv::series(report).as_bytes())?;
    put("series.parquet".to_owned(), &parquet::series(report)?)?;
    if let Some(story) = &run.story {
        put("packet.txt".to_owned(), story.as_bytes())?;
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

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Letters, digits and dashes of a name.
fn file_name(text: &str) -> String {
    let kept =
        |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(kept).collect()
}
