//! Diagnostics as JSON, for `check --json` and editors.
//!
//! Lines and columns count from 1, columns in characters; offsets are bytes of the file without a byte order mark. If
//! there are more than are shown, a last object of severity `note` has their number in `more`.

use serde::Serialize;

use super::excerpt::Lines;
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
    let (shown, more) = diagnostics.shown();
    let mut places = Places { files, lines: Lines::new(files) };
    let mut items: Vec<serde_json::Value> = shown
        .iter()
        .map(|one| serde_json::to_value(places.item(one)).unwrap_or_default())
        .collect();
    if more > 0 {
        items.push(serde_json::json!({
            "code": null, "severity": "note", "message": super::more(more), "place": null,
            "labels": [], "notes": [], "helps": [], "fixes": [], "more": more,
        }));
    }
    items.into()
}

/// Spans to places.
struct Places<'a> {
    files: &'a Files,
    lines: Lines<'a>,
}

impl<'a> Places<'a> {
    fn item(&mut self, diagnostic: &'a Diagnostic) -> Item<'a> {
        let place = diagnostic.primary.as_ref().and_then(|label| self.label(label));
        let labels = diagnostic.secondary.iter().filter_map(|label| self.label(label)).collect();
        let mut fixes = Vec::new();
        for fix in &diagnostic.fixes {
            let edits = fix.edits.iter();
            let edits =
                edits.map(|(span, text)| Edit { at: self.place(*span, ""), text }).collect();
            fixes.push(Fix { title: &fix.title, edits });
        }
        Item {
            code: diagnostic.code.id,
            severity: diagnostic.severity().word(),
            message: &diagnostic.message,
            place,
            labels,
            notes: &diagnostic.notes,
            helps: &diagnostic.helps,
            fixes,
        }
    }

    fn label(&mut self, label: &'a Label) -> Option<Place<'a>> {
        self.place(label.span, &label.text)
    }

    fn place(&mut self, span: SourceSpan, label: &'a str) -> Option<Place<'a>> {
        let file = self.files.get(span.file)?;
        let (line, column) = self.lines.line_column(span.file, span.start);
        let (end_line, end_column) = self.lines.line_column(span.file, span.end);
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
}
