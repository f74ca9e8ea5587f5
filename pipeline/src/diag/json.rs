//! Diagnostics as JSON, for `check --json` and editors.
//!
//! Lines and columns count from 1, columns in characters; offsets are bytes of the file without a
//! byte order mark.

use serde::Serialize;

use super::{Diagnostic, Diagnostics, Files, Label};
use crate::ir::SourceSpan;

/// A diagnostic as it is written.
#[derive(Serialize)]
struct Item<'a> {
    code: &'static str,
    severity: &'static str,
    message: &'a str,
    place: Option<Place<'a>>,
    labels: Vec<Place<'a>>,
    notes: &'a [String],
    helps: &'a [String],
    fixes: Vec<Fix<'a>>,
}

/// A labelled span.
#[derive(Serialize)]
struct Place<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    start_byte: u32,
    end_byte: u32,
    label: &'a str,
}

/// A title and its edits.
#[derive(Serialize)]
struct Fix<'a> {
    title: &'a str,
    edits: Vec<Edit<'a>>,
}

/// A replacement.
#[derive(Serialize)]
struct Edit<'a> {
    at: Option<Place<'a>>,
    text: &'a str,
}

/// A list with an object for each diagnostic, in the order of [`Diagnostics::sorted`].
pub fn to_json(diagnostics: &Diagnostics, files: &Files) -> serde_json::Value {
    let items: Vec<Item> = diagnostics.sorted().iter().map(|one| item(one, files)).collect();
    serde_json::to_value(items).unwrap_or_default()
}

fn item<'a>(diagnostic: &'a Diagnostic, files: &'a Files) -> Item<'a> {
    let place_of = |label: &'a Label| place(label.span, &label.text, files);
    Item {
        code: diagnostic.code.id,
        severity: diagnostic.severity().word(),
        message: &diagnostic.message,
        place: diagnostic.primary.as_ref().and_then(place_of),
        labels: diagnostic.secondary.iter().filter_map(place_of).collect(),
        notes: &diagnostic.notes,
        helps: &diagnostic.helps,
        fixes: diagnostic
            .fixes
            .iter()
            .map(|fix| Fix {
                title: &fix.title,
                edits: fix
                    .edits
                    .iter()
                    .map(|(span, text)| Edit { at: place(*span, "", files), text })
                    .collect(),
            })
            .collect(),
    }
}

fn place<'a>(span: SourceSpan, label: &'a str, files: &'a Files) -> Option<Place<'a>> {
    let file = files.get(span.file)?;
    let (line, column) = line_column(&file.text, span.start);
    let (end_line, end_column) = line_column(&file.text, span.end);
    Some(Place {
        file: &file.name,
        line,
        column,
        end_line,
        end_column,
        start_byte: span.start,
        end_byte: span.end,
        label,
    })
}

/// Line and column, both from 1, of a byte offset; the column counts characters.
pub fn line_column(text: &str, offset: u32) -> (usize, usize) {
    let before = text.get(..offset as usize).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
