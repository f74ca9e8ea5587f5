//! The terminal: tables in columns, verdicts last.

use std::fmt::Write;

use super::{Report, Table};

/// Rows of a table that a terminal shows; the files have all of them.
const ROWS_MAX: usize = 24;

/// The whole report except its series and pictures.
pub fn summary(report: &Report) -> String {
    let mut out = format!("{}\n", report.title);
    for (name, value) in &report.facts {
        let _ = writeln!(out, "  {name}: {value}");
    }
    for table in &report.tables {
        out.push('\n');
        out.push_str(&self::table(table));
    }
    if !report.verdicts.is_empty() {
        out.push('\n');
    }
    for verdict in &report.verdicts {
        let word = match (verdict.skipped, verdict.passed) {
            (true, _) => "SKIP",
            (false, true) => "PASS",
            (false, false) => "FAIL",
        };
        let _ = writeln!(out, "{word}  {}: {}", verdict.name, verdict.found);
    }
    out
}

/// One table; text to the left, numbers to the right.
pub fn table(table: &Table) -> String {
    let shown = table.rows.len().min(ROWS_MAX);
    let cells: Vec<Vec<String>> = (0..shown)
        .map(|row| (0..table.columns.len()).map(|column| table.shown(row, column)).collect())
        .collect();
    let width = |column: usize| {
        let longest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        longest.max(table.columns[column].name.chars().count())
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |texts: Vec<&str>| {
        let mut line = String::new();
        for ((text, width), column) in texts.iter().zip(&widths).zip(&table.columns) {
            let _ = match column.unit {
                None => write!(line, "  {text:<width$}"),
                Some(_) => write!(line, "  {text:>width$}"),
            };
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut out = format!("{}\n", table.title);
    out += &line(table.columns.iter().map(|column| column.name.as_str()).collect());
    for row in &cells {
        out += &line(row.iter().map(String::as_str).collect());
    }
    if shown < table.rows.len() {
        let _ = writeln!(
            out,
            "  ... and {} more rows; the files of a run (-o) have all of them",
            table.rows.len() - shown
        );
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "  {}", table.note);
    }
    out
}
