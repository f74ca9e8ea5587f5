//! Objects as JSON lines, or as tables.

use std::fmt::Write as _;
use std::io::IsTerminal;

use serde_json::{Map, Value};

use super::super::{note_written, print, say};
use super::reader_is_gone;
use crate::terminal;

/// Rows of a table that are kept for the width of its columns; later rows have those widths, as long as their columns
/// are the same.
const ROWS_KEPT: usize = 1000;
/// Widest column, in characters: what is longer moves the rest of its own row only.
const WIDTH_MAX: usize = 200;

/// One object as a line of JSON.
pub(super) fn line(value: &Value) {
    note_written(terminal::out_json(&format!("{value}\n")));
}

/// Clears the screen, on a terminal.
pub(super) fn clear_screen() {
    if std::io::stdout().is_terminal() {
        use std::io::Write as _;
        let _ = std::io::stdout().write_all(b"\x1b[H\x1b[2J");
    }
}

/// A value in a cell.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(is_weighted) => {
            let member = |one: &Value| match one["weight"].as_u64() {
                Some(1) => cell(&one["member"]),
                _ => format!("{}*{}", cell(&one["member"]), one["weight"]),
            };
            items.iter().map(member).collect::<Vec<_>>().join(" ")
        }
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(map) if is_action(value) => {
            let params = map.get("params").and_then(Value::as_array).into_iter().flatten();
            let params: Vec<String> = params.map(|param| cell(&param["name"])).collect();
            let name = map.get("name").map(cell).unwrap_or_default();
            if params.is_empty() { name } else { format!("{name}({})", params.join(", ")) }
        }
        Value::Object(map) if map.contains_key("name") && map.contains_key("bits") => {
            let kind = map.get("kind").map_or(String::new(), |kind| format!(" {}", cell(kind)));
            format!("{}:{}{kind}", cell(&map["name"]), cell(&map["bits"]))
        }
        Value::Object(map) if map.is_empty() => "any".to_owned(),
        Value::Object(map) if map.contains_key("unit") => rates(map),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key}={}", cell(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
        number => number.to_string(),
    }
}

/// A member of a group.
fn is_weighted(value: &Value) -> bool {
    value.get("member").is_some() && value.get("weight").is_some()
}

/// Rates of a meter with their unit, as in the input.
fn rates(map: &Map<String, Value>) -> String {
    let (rate, size) = match map.get("unit").and_then(Value::as_str) {
        Some("packets") => ("pps", ""),
        _ => ("B/s", "B"),
    };
    let pairs = map.iter().filter(|(name, _)| *name != "unit").map(|(name, value)| {
        let unit = if name.ends_with("ir") { rate } else { size };
        format!("{name}={value}{unit}")
    });
    pairs.collect::<Vec<_>>().join(" ")
}

fn is_action(value: &Value) -> bool {
    value.get("params").is_some() && value.get("name").is_some()
}

/// Objects that are printed as lines of JSON, or as a table whose columns are their members.
pub(super) struct Rows {
    as_json: bool,
    is_any: bool,
    columns: Vec<String>,
    kept: Vec<Value>,
    widths: Option<Vec<usize>>,
}

impl Rows {
    pub(super) fn new(as_json: bool) -> Rows {
        Rows { as_json, is_any: false, columns: Vec::new(), kept: Vec::new(), widths: None }
    }

    /// Adds an object; false when there is no reader any more.
    pub(super) fn add(&mut self, object: Value) -> bool {
        self.is_any = true;
        if self.as_json {
            line(&object);
            return !reader_is_gone();
        }
        let names = object.as_object().into_iter().flat_map(|map| map.keys());
        for name in names {
            if !self.columns.contains(name) {
                self.columns.push(name.clone());
                // After printed rows another set of columns needs another head.
                self.widths = None;
            }
        }
        self.kept.push(object);
        if self.kept.len() >= ROWS_KEPT {
            self.finish();
        }
        !reader_is_gone()
    }

    /// The rest; if no object was added, `nothing` on standard error, for people.
    pub(super) fn finish_or(&mut self, nothing: &str) {
        self.finish();
        if !self.is_any && !self.as_json {
            say(nothing);
        }
    }

    /// The rest.
    pub(super) fn finish(&mut self) {
        if self.as_json || self.kept.is_empty() {
            return;
        }
        let rows: Vec<Vec<String>> =
            self.kept.drain(..).map(|row| cells(&self.columns, &row)).collect();
        let is_first = self.widths.is_none();
        let widths = self.widths.get_or_insert_with(|| {
            let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
            let names = self.columns.iter().enumerate();
            names.map(|(n, name)| width(n).max(name.chars().count()).min(WIDTH_MAX)).collect()
        });
        let mut out = String::new();
        if is_first {
            row(&mut out, widths, &self.columns);
        }
        rows.iter().for_each(|cells| row(&mut out, widths, cells));
        print(&out);
    }
}

fn cells(columns: &[String], object: &Value) -> Vec<String> {
    columns.iter().map(|name| object.get(name).map_or(String::new(), cell)).collect()
}

fn row(out: &mut String, widths: &[usize], cells: &[String]) {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let _ = write!(text, "{cell:<width$}  ");
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_is_longer_than_any_line_is_printed_whole() {
        let ports: Vec<Value> = (0..20_000).map(Value::from).collect();
        let mut rows = Rows::new(false);
        rows.add(serde_json::json!({ "group": 6, "ports": ports, "prune_ingress": false }));
        rows.finish();
        assert_eq!(rows.widths, Some(vec![5, WIDTH_MAX, 13]));
        let mut out = String::new();
        row(&mut out, &[5, WIDTH_MAX], &["6".to_owned(), "x".repeat(70_000)]);
        assert_eq!(out.len(), 7 + 70_000 + 1);
    }
}
