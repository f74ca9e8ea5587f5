//! Diagnostics as text, in the layout of rustc: title, file:line:col, source line, caret.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet};

use super::{Diagnostic, Diagnostics, Files, Label, Severity};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Columns of a rendered line; longer source lines are cut around the caret.
const WIDTH_COLUMNS: usize = 120;

/// Without colour, for files and pipes. The same input gives the same bytes.
pub fn plain(diagnostics: &Diagnostics, files: &Files) -> String {
    text(diagnostics, files, &Renderer::plain().term_width(WIDTH_COLUMNS))
}

/// With ANSI colour, for a terminal.
pub fn coloured(diagnostics: &Diagnostics, files: &Files) -> String {
    text(diagnostics, files, &Renderer::styled().term_width(WIDTH_COLUMNS))
}

/// One diagnostic without colour.
pub fn one(diagnostic: &Diagnostic, files: &Files) -> String {
    Renderer::plain().term_width(WIDTH_COLUMNS).render(&groups(diagnostic, files))
}

fn text(diagnostics: &Diagnostics, files: &Files, renderer: &Renderer) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics.sorted() {
        out.push_str(&renderer.render(&groups(diagnostic, files)));
        out.push_str("\n\n");
    }
    out
}

fn groups<'a>(diagnostic: &'a Diagnostic, files: &'a Files) -> Vec<Group<'a>> {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.id);
    let mut main = Group::with_title(title);
    if let Some(primary) = &diagnostic.primary {
        for file in files_of(primary, &diagnostic.secondary) {
            if let Some(snippet) = snippet(diagnostic, primary, file, files) {
                main = main.element(snippet);
            }
        }
    }
    main = main.elements(diagnostic.notes.iter().map(|note| Level::NOTE.message(note.as_str())));
    main = main.elements(diagnostic.helps.iter().map(|help| Level::HELP.message(help.as_str())));
    let mut groups = vec![main];
    for fix in &diagnostic.fixes {
        let Some((span, _)) = fix.edits.first() else { continue };
        let Some(file) = files.get(span.file) else { continue };
        let patches =
            fix.edits.iter().map(|(at, new)| Patch::new(range(*at, &file.text), new.as_str()));
        let snippet = Snippet::source(file.text.as_str()).path(file.name.as_str()).patches(patches);
        groups.push(Level::HELP.secondary_title(fix.title.as_str()).element(snippet));
    }
    groups
}

/// The file of the caret first, then the others in order.
fn files_of(primary: &Label, secondary: &[Label]) -> Vec<FileId> {
    let mut files = vec![primary.span.file];
    for label in secondary {
        if !files.contains(&label.span.file) {
            files.push(label.span.file);
        }
    }
    files
}

fn snippet<'a>(
    diagnostic: &'a Diagnostic,
    primary: &'a Label,
    file: FileId,
    files: &'a Files,
) -> Option<annotate_snippets::Element<'a>> {
    let source = files.get(file)?;
    if source.text.is_empty() {
        return Some(Origin::path(source.name.as_str()).into());
    }
    let annotate = |kind: AnnotationKind, label: &'a Label| {
        let annotation = kind.span(range(label.span, &source.text));
        if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
    };
    let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
    if primary.span.file == file {
        snippet = snippet.annotation(annotate(AnnotationKind::Primary, primary));
    }
    let others = diagnostic.secondary.iter().filter(|label| label.span.file == file);
    Some(snippet.annotations(others.map(|label| annotate(AnnotationKind::Context, label))).into())
}

/// The bytes of a span, made safe for a text it may not come from: inside the text, on characters.
fn range(span: SourceSpan, text: &str) -> std::ops::Range<usize> {
    let floor = |at: u32| {
        let mut at = (at as usize).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    start..floor(span.end).max(start)
}
