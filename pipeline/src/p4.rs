//! P4-16 as a second language of programs: source text to the project's own syntax tree.
//!
//! The stages: `preprocess` makes one list of tokens of a program and its includes, `parse` a syntax tree (`tree`),
//! `types` resolves names, infers types and reports type errors, `lower` makes the tree that YAML makes
//! ([`crate::ast`]), with the places in the P4 text. Everything behind that tree, from the checker to the engines, has
//! no notion of P4: a feature that the tree cannot express is an error at its place, never an approximation.
//!
//! It reads no files: the caller gives it [`Sources`].

pub mod info;
mod lex;
mod limits;
mod lower;
mod parse;
mod preprocess;
mod tree;
mod types;

use crate::ast::Unit;
use crate::diag::Diagnostics;
use crate::ids::FileId;
use crate::ir::SourceSpan;

pub use limits::only_limits;
pub(crate) use parse::KEYWORDS;

/// Widest value that the front end counts with, as `bit<W>`.
const WIDTH_MAX: u32 = 2048 * 32;
/// Most files that include one another.
const INCLUDE_LEVELS_MAX: usize = 16;

/// Where the text of files comes from.
pub trait Sources {
    /// Finds a file that `#include` names; `system` for `<name>`. Errors are reported.
    fn include(
        &mut self,
        name: &str,
        system: bool,
        at: SourceSpan,
        report: &mut Diagnostics,
    ) -> Option<(FileId, String)>;

    /// The name and the text of a file that was read.
    fn file(&self, file: FileId) -> Option<(&str, &str)>;
}

/// A program that was read and checked, before it is lowered.
pub struct Checked(types::Checked);

/// Reads and checks a program. `None`: the errors are in `report`.
pub fn check(
    file: FileId,
    text: &str,
    defines: &[(String, String)],
    sources: &mut dyn Sources,
    report: &mut Diagnostics,
) -> Option<Checked> {
    let before = report.counts().0;
    let tokens = preprocess::Preprocessor::new(sources, report, defines).run(file, text);
    let tree = parse::program(tokens, report);
    let checked = types::check(tree, report);
    (report.counts().0 == before).then_some(Checked(checked))
}

/// The same of P4 text in pieces that other text was made into, each with its place there, behind the declarations of
/// an architecture.
pub(crate) fn check_pieces(
    architecture: &str,
    pieces: &[(String, SourceSpan)],
    sources: &mut dyn Sources,
    report: &mut Diagnostics,
) -> Option<Checked> {
    let before = report.counts().0;
    let place = pieces.first()?.1;
    let (declarations, text) = sources.include(architecture, true, place, report)?;
    let mut tokens = preprocess::Preprocessor::new(sources, report, &[]).run(declarations, &text);
    let end = tokens.pop();
    for (text, span) in pieces {
        let placed = |token: lex::Token| lex::Token { span: *span, ..token };
        let read = lex::tokens(place.file, text, report);
        tokens.extend(preprocess::sound(&read, report).into_iter().map(placed));
    }
    tokens.extend(end.map(|token| lex::Token { span: place, ..token }));
    let tree = parse::program(tokens, report);
    let checked = types::check(tree, report);
    (report.counts().0 == before).then_some(Checked(checked))
}

/// Why a program that is right cannot run here; `None`: it is of an architecture that runs.
pub fn not_run(checked: &Checked) -> Option<String> {
    lower::not_run(&checked.0)
}

/// What P4Info lists of a program; `None` for an architecture without P4Runtime.
pub fn info(checked: &Checked) -> Option<info::Info> {
    info::info(&checked.0)
}

/// The project's syntax tree of a program. `None`: the errors are in `report`.
pub fn lower(checked: &Checked, name: &str, report: &mut Diagnostics) -> Option<Unit> {
    let before = report.counts().0;
    let mut unit = lower::program(&checked.0, name, report)?;
    unit.origin.get_or_insert_default().info = info(checked).unwrap_or_default();
    (report.counts().0 == before).then_some(unit)
}
