//! Diagnostics as text, in the layout of rustc: title, file:line:col, source line, caret.

use std::ops::Range;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet,
};

use super::excerpt::{Lines, NEAR_BYTES};
use super::safe::escape;
use super::{Diagnostic, Diagnostics, Files, Fix, Label, Severity};
use crate::ids::FileId;

/// Columns of a rendered line; longer source lines are cut around the caret.
const WIDTH_COLUMNS: usize = 120;
/// Longest replacement that is shown as one.
const PATCH_BYTES_MAX: usize = 400;

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
    let renderer = Renderer::plain().term_width(WIDTH_COLUMNS);
    rendered(diagnostic, files, &renderer, &mut Lines::new(files))
}

fn text(diagnostics: &Diagnostics, files: &Files, renderer: &Renderer) -> String {
    let (shown, more) = diagnostics.shown();
    let mut lines = Lines::new(files);
    let mut out = String::new();
    for diagnostic in shown {
        out.push_str(&rendered(diagnostic, files, renderer, &mut lines));
        out.push_str("\n\n");
    }
    if more > 0 {
        out.push_str(&format!("... and {}\n\n", super::more(more)));
    }
    out
}

fn rendered<'a>(
    diagnostic: &'a Diagnostic,
    files: &'a Files,
    renderer: &Renderer,
    lines: &mut Lines<'a>,
) -> String {
    let mut places = Vec::new();
    let mut out = renderer.render(&groups(diagnostic, files, lines, &mut places));
    for (found, place) in places {
        out = out.replacen(&found, &place, 1);
    }
    out
}

/// `places` gets the places that the renderer counts in a window, with those in the file.
fn groups<'a>(
    diagnostic: &'a Diagnostic,
    files: &'a Files,
    lines: &mut Lines<'a>,
    places: &mut Vec<(String, String)>,
) -> Vec<Group<'a>> {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(escape(&diagnostic.message)).id(diagnostic.code.id);
    let mut main = Group::with_title(title);
    if let Some(primary) = &diagnostic.primary {
        for labels in by_excerpt(primary, &diagnostic.secondary) {
            main = snippet(main, &labels, files, lines, places);
        }
    }
    main = main.elements(diagnostic.notes.iter().map(|note| Level::NOTE.message(escape(note))));
    main = main.elements(diagnostic.helps.iter().map(|help| Level::HELP.message(escape(help))));
    let mut groups = vec![main];
    groups.extend(diagnostic.fixes.iter().filter_map(|fix| suggestion(fix, files, lines)));
    groups
}

/// Labels that are shown together: those near the caret first, then those of other files in order, and
/// each that is far away by itself.
fn by_excerpt<'a>(
    primary: &'a Label,
    secondary: &'a [Label],
) -> Vec<Vec<(AnnotationKind, &'a Label)>> {
    let mut found = vec![vec![(AnnotationKind::Primary, primary)]];
    for label in secondary {
        let near = |group: &&mut Vec<(AnnotationKind, &Label)>| {
            group.iter().all(|(_, known)| {
                known.span.file == label.span.file
                    && known.span.start.abs_diff(label.span.start) as usize <= NEAR_BYTES
            })
        };
        match found.iter_mut().find(near) {
            Some(group) => group.push((AnnotationKind::Context, label)),
            None => found.push(vec![(AnnotationKind::Context, label)]),
        }
    }
    found
}

/// Adds the lines of some labels of one file.
fn snippet<'a>(
    group: Group<'a>,
    labels: &[(AnnotationKind, &'a Label)],
    files: &'a Files,
    lines: &mut Lines<'a>,
    counted: &mut Vec<(String, String)>,
) -> Group<'a> {
    let Some((_, first)) = labels.first() else { return group };
    let file = first.span.file;
    let Some(source) = files.get(file) else { return group };
    let name = escape(&source.name);
    if source.text.is_empty() {
        return group.element(Origin::path(name));
    }
    let places: Vec<Range<usize>> =
        labels.iter().map(|(_, label)| lines.range(label.span)).collect();
    let excerpt = lines.excerpt(file, &places);
    if excerpt.is_cut {
        let (line, column) = lines.line_column(file, first.span.start);
        counted.push((
            format!("{name}:{line}:{}", excerpt.column()),
            format!("{name}:{line}:{column}"),
        ));
    }
    let mut snippet = Snippet::source(excerpt.text).line_start(excerpt.first_line);
    for ((kind, label), place) in labels.iter().zip(excerpt.places) {
        snippet = snippet.annotation(annotation(*kind, label, place));
    }
    group.element(snippet.path(name))
}

fn annotation<'a>(kind: AnnotationKind, label: &'a Label, place: Range<usize>) -> Annotation<'a> {
    let annotation = kind.span(place);
    if label.text.is_empty() { annotation } else { annotation.label(escape(&label.text)) }
}

/// A fix with the corrected lines; with a long replacement only its title.
fn suggestion<'a>(fix: &'a Fix, files: &'a Files, lines: &mut Lines<'a>) -> Option<Group<'a>> {
    let file: FileId = fix.edits.first()?.0.file;
    let source = files.get(file)?;
    let group = Group::with_title(Level::HELP.secondary_title(escape(&fix.title)));
    if fix.edits.iter().any(|(_, new)| new.len() > PATCH_BYTES_MAX) {
        return Some(group.element(Origin::path(escape(&source.name))));
    }
    let places: Vec<Range<usize>> = fix.edits.iter().map(|(at, _)| lines.range(*at)).collect();
    let excerpt = lines.excerpt(file, &places);
    let patches = fix.edits.iter().zip(excerpt.places);
    let patches = patches.map(|((_, new), place)| Patch::new(place, escape(new)));
    let snippet = Snippet::source(excerpt.text).line_start(excerpt.first_line);
    Some(group.element(snippet.path(escape(&source.name)).patches(patches)))
}
