//! The files of a run: report, series, captures, tables.
//!
//! A folder holds one run, or one sweep: what the one before it wrote, which `files.txt` lists, is removed before the next is
//! written, and nothing else is.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::sweep::Run;
use crate::ports::files::can_write;
use crate::report::{Table, csv, html, json, parquet, text};

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

/// The list of what was written, beside it.
const LIST: &str = "files.txt";

/// Removes what the last run wrote into this folder, and the folders that are empty then.
///
/// # Errors
/// What the system says, with the file.
pub fn clear(folder: &Path) -> Result<(), String> {
    let list = folder.join(LIST);
    let Ok(text) = fs::read_to_string(&list) else { return Ok(()) };
    // The list is only a file: it leads nowhere but into the folder.
    let is_below = |name: &&str| {
        let mut parts = Path::new(name).components().peekable();
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    for path in text.lines().filter(is_below).map(|name| folder.join(name)).chain([list.clone()]) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", path.display()));
            }
            _ => {}
        }
        // A folder that still holds something stays.
        let above = path.ancestors().skip(1).take_while(|above| *above != folder);
        above.take_while(|above| fs::remove_dir(above).is_ok()).for_each(drop);
    }
    Ok(())
}

/// Writes the list of what was written into a folder.
///
/// # Errors
/// What the system says, with the file.
pub fn list(folder: &Path, written: &[PathBuf]) -> Result<(), String> {
    let names = written.iter().filter_map(|path| path.strip_prefix(folder).ok());
    let text: String = names.map(|name| format!("{}\n", name.display())).collect();
    let path = folder.join(LIST);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the figures of all seeds; gives the file.
///
/// # Errors
/// What the system says, with the file.
pub fn write_seeds(folder: &Path, seeds: &Table) -> Result<PathBuf, String> {
    let path = folder.join("seeds.csv");
    let told = |error: io::Error| format!("{}: {error}", path.display());
    fs::write(&path, csv::table(seeds)).map_err(told)?;
    Ok(path)
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
