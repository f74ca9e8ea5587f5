//! Diagnostics: the error, its place, and how to correct it.
//!
//! A [`Diagnostic`] has a [`Code`] from the one table in [`codes`], labelled places, notes, helps and
//! machine-applicable fixes. Every stage pushes into one [`Diagnostics`] and continues, so that a user gets all errors
//! of a program at once. Rendering ([`render`], [`json`]) needs the texts of the files and happens at the edge; nothing
//! here prints.

pub mod codes;
mod excerpt;
pub mod json;
pub mod render;
pub mod safe;
pub mod suggest;

pub use codes::Code;
pub use suggest::suggest;

use std::path::Path;

use crate::ids::{FileId, IdVec};
use crate::ir::{SourceFile, SourceSpan};

/// The files that spans refer to.
pub type Files = IdVec<FileId, SourceFile>;

impl SourceFile {
    /// The text of a file that was read.
    pub fn read_from(path: &Path, text: String) -> SourceFile {
        SourceFile { name: safe::shown(path).into_owned(), path: path.to_owned(), text }
    }

    /// A text that has this name in messages.
    pub fn named(name: &str, text: String) -> SourceFile {
        SourceFile::read_from(name.as_ref(), text)
    }
}

/// Most diagnostics that are shown; the others are counted.
pub const SHOWN_MAX: usize = 100;
/// Most names in a list of those that there are.
const NAMES_SHOWN_MAX: usize = 12;
/// Most errors, and most warnings, that are kept for selection.
const KEPT_MAX: usize = 1000;
/// Longest message, label, note or help, in bytes: names and values come from files.
const TEXT_BYTES_MAX: usize = 2000;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// The program is accepted, but probably does not do what its author meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A place with a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its place.
    pub span: SourceSpan,
    /// Its text; may be empty.
    pub text: String,
}

/// A change of the source that would repair the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What the change does, in the imperative: `quote the expression`.
    pub title: String,
    /// Replacements in one file, which do not overlap; an empty span inserts.
    pub edits: Vec<(SourceSpan, String)>,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its code.
    pub code: Code,
    /// One sentence without a full stop: the error, with the names.
    pub message: String,
    /// Its place; `None` when there is none (a file that cannot be read).
    pub primary: Option<Label>,
    /// Other places that explain it.
    pub secondary: Vec<Label>,
    /// Facts: what was expected, why the rule exists.
    pub notes: Vec<String>,
    /// Remedies in words.
    pub helps: Vec<String>,
    /// Remedies as edits.
    pub fixes: Vec<Fix>,
    /// It is counted and not kept, so that costly details for it can be skipped.
    is_counted_only: bool,
}

impl Diagnostic {
    /// A diagnostic at a place, or without one.
    pub fn new(code: Code, span: Option<SourceSpan>, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            message: cut(message.into()),
            primary: span.map(|span| Label { span, text: String::new() }),
            secondary: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
            fixes: Vec::new(),
            is_counted_only: false,
        }
    }

    /// Error or warning, by the letter of the code.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// The same under another code.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Words at the caret itself.
    pub fn here(&mut self, text: impl Into<String>) -> &mut Self {
        if let Some(primary) = &mut self.primary {
            primary.text = cut(text.into());
        }
        self
    }

    /// Another place.
    pub fn label(&mut self, span: SourceSpan, text: impl Into<String>) -> &mut Self {
        if !self.is_counted_only {
            self.secondary.push(Label { span, text: cut(text.into()) });
        }
        self
    }

    /// A fact.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.notes.push(cut(text.into()));
        self
    }

    /// Adds a help in words.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.helps.push(cut(text.into()));
        self
    }

    /// Adds a fix of one edit.
    pub fn fix(
        &mut self,
        title: impl Into<String>,
        span: SourceSpan,
        text: impl Into<String>,
    ) -> &mut Self {
        self.fixes.push(Fix { title: title.into(), edits: vec![(span, text.into())] });
        self
    }

    /// Offers the candidate most similar to `found`, if one is near, as a fix at the caret.
    pub fn did_you_mean<'c>(
        &mut self,
        found: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> &mut Self {
        if self.is_counted_only {
            return self;
        }
        if let Some(near) = suggest(found, candidates) {
            let title = format!("did you mean `{near}`?");
            match self.primary.as_ref().map(|primary| primary.span) {
                Some(span) => self.fix(title, span, near),
                None => self.help(title),
            };
        }
        self
    }

    /// As [`Diagnostic::did_you_mean`]; where no name is near, those that there are, if they are few. True if one was near.
    pub fn did_you_mean_or_list(&mut self, found: &str, names: &[&str]) -> bool {
        self.did_you_mean(found, names.iter().copied());
        let is_near = !self.fixes.is_empty();
        if !is_near && (1..=NAMES_SHOWN_MAX).contains(&names.len()) {
            self.note(format!("there are: {}", names.join(", ")));
        }
        is_near
    }

    /// Order of report: file, place, code, text. Diagnostics without a place are first.
    fn order(&self) -> (Option<(u32, u32, u32)>, &'static str, &str) {
        let place = self.primary.as_ref().map(|p| (p.span.file.0, p.span.start, p.span.end));
        (place, self.code.id, &self.message)
    }
}

/// Everything that was found so far.
///
/// The first thousand errors and warnings are kept, further ones counted: a file may be wrong in every byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    /// The last one that was only counted.
    surplus: Option<Box<Diagnostic>>,
}

impl Diagnostics {
    /// None yet.
    pub fn new() -> Self {
        Diagnostics::default()
    }

    /// Adds an error; returns it, to add labels, notes and help.
    pub fn error(
        &mut self,
        code: Code,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        debug_assert_eq!(code.severity(), Severity::Error);
        self.push(Diagnostic::new(code, Some(span), message))
    }

    /// Adds an error, for a reader that has no value then.
    pub fn refuse<T>(
        &mut self,
        code: Code,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> Option<T> {
        self.error(code, span, message);
        None
    }

    /// Adds a warning; returns it, to add labels, notes and help.
    pub fn warning(
        &mut self,
        code: Code,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        debug_assert_eq!(code.severity(), Severity::Warning);
        self.push(Diagnostic::new(code, Some(span), message))
    }

    /// Adds an error that has no place in a file.
    pub fn error_without_place(
        &mut self,
        code: Code,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.push(Diagnostic::new(code, None, message))
    }

    /// Adds a diagnostic; returns it.
    pub fn push(&mut self, mut diagnostic: Diagnostic) -> &mut Diagnostic {
        let count = match diagnostic.severity() {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count > KEPT_MAX {
            diagnostic.is_counted_only = true;
            return self.surplus.insert(Box::new(diagnostic));
        }
        let at = self.items.len();
        self.items.push(diagnostic);
        &mut self.items[at]
    }

    /// The same, where their files are behind this many others in a list.
    pub fn behind(mut self, count: u32) -> Diagnostics {
        for item in &mut self.items {
            let labels = item.primary.iter_mut().chain(&mut item.secondary);
            let edits = item.fixes.iter_mut().flat_map(|fix| &mut fix.edits);
            let spans = labels.map(|label| &mut label.span).chain(edits.map(|(span, _)| span));
            spans.for_each(|span| span.file.0 += count);
        }
        self
    }

    /// Adds the diagnostics of another stage.
    pub fn append(&mut self, other: Diagnostics) {
        let (errors, warnings) = (self.errors + other.errors, self.warnings + other.warnings);
        other.items.into_iter().for_each(|item| {
            self.push(item);
        });
        (self.errors, self.warnings) = (errors, warnings);
    }

    /// True when nothing was found.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True when the program must be refused.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many errors, and how many warnings.
    pub fn counts(&self) -> (usize, usize) {
        (self.errors, self.warnings)
    }

    /// `1 error, 2 warnings`, with duplicates counted once; a zero count is left out.
    pub fn summary(&self) -> String {
        let (mut errors, mut warnings) = self.counts();
        let mut items: Vec<&Diagnostic> = self.items.iter().collect();
        items.sort_by(|a, b| a.order().cmp(&b.order()));
        for pair in items.windows(2).filter(|pair| pair[0] == pair[1]) {
            match pair[0].severity() {
                Severity::Error => errors -= 1,
                Severity::Warning => warnings -= 1,
            }
        }
        let counts = [(errors, Severity::Error), (warnings, Severity::Warning)];
        let some = counts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some.map(|(count, kind)| counted(*count, kind.word())).collect();
        words.join(", ")
    }

    /// Those that are kept, in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Those that are kept, by file and place, without duplicates. This is the order of every output.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut items: Vec<&Diagnostic> = self.items.iter().collect();
        items.sort_by(|a, b| a.order().cmp(&b.order()));
        items.dedup();
        items
    }

    /// Those that are shown, in the order of [`Diagnostics::sorted`], and the number of the others: at most
    /// [`SHOWN_MAX`], errors before warnings.
    pub fn shown(&self) -> (Vec<&Diagnostic>, usize) {
        let mut items = self.sorted();
        let kept = items.len();
        let is_error = |item: &&Diagnostic| item.severity() == Severity::Error;
        let errors = items.iter().filter(|item| is_error(item)).count().min(SHOWN_MAX);
        let (mut errors, mut warnings) = (errors, SHOWN_MAX - errors);
        items.retain(|item| {
            let left = if is_error(item) { &mut errors } else { &mut warnings };
            let shown = *left > 0;
            *left -= usize::from(shown);
            shown
        });
        let uncounted = self.errors + self.warnings - self.items.len();
        let more = kept - items.len() + uncounted;
        (items, more)
    }
}

/// The text, or its beginning.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}

/// The message for `count` diagnostics that are not shown.
fn more(count: usize) -> String {
    format!("{count} more, which are not shown")
}

/// Line and column of the starts of spans, both from 1; the column counts characters. They are sorted by place, so that
/// a long line is counted only once.
pub fn line_columns(files: &Files, spans: &[SourceSpan]) -> Vec<(usize, usize)> {
    let mut lines = excerpt::Lines::new(files);
    spans.iter().map(|span| lines.line_column(span.file, span.start)).collect()
}

/// A count with its noun: `1 warning`, `2 warnings`.
pub fn counted(count: usize, thing: &str) -> String {
    match (count, thing.ends_with("ch")) {
        (1, _) => format!("1 {thing}"),
        (_, true) => format!("{count} {thing}es"),
        (_, false) => format!("{count} {thing}s"),
    }
}

/// A refused program: its diagnostics, and the files they refer to.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// At least one error.
    pub diagnostics: Diagnostics,
    /// The files that were read.
    pub files: Files,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&render::plain(&self.diagnostics, &self.files))
    }
}

impl std::error::Error for Rejected {}

#[cfg(test)]
mod tests;
