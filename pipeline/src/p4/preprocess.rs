//! The preprocessor: `#include`, `#define` with and without arguments, `#undef`, `#if` and its relatives, over tokens.
//!
//! A token that comes from a macro has the place where the macro is used. `#pragma`, `#line`, lines
//! that begin with another word (W0116) and what stands in lines that are not read are skipped.

mod condition;
mod expand;
mod here;
mod paste;

use std::collections::HashMap;
use std::iter;
use std::rc::Rc;

use super::Sources;
use super::lex::{self, Number, Tok, Token};
use crate::diag::{Diagnostics, codes, suggest};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Most tokens of a program behind its macros.
const TOKENS_MAX: usize = 1 << 20;
/// Most steps of replacing macros: those that double each other and leave nothing never reach the bound on tokens.
const STEPS_MAX: usize = 1 << 23;

/// What a line may begin with behind `#`; the last three have no effect, but for `#pragma once`.
const DIRECTIVES: &[&str] = &[
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else",
    "endif", "error", "pragma", "line", "warning",
];
/// Those whose line is text for people or for other compilers.
const OF_TEXT: &[&str] = &["error", "pragma", "line", "warning"];

/// The macro that p4c defines for programs of v1model and PSA on bmv2.
const TARGET: (&str, &str) = ("__TARGET_BMV2__", "1");

/// The name of the argument `...`.
const REST: &str = "__VA_ARGS__";

/// A macro.
#[derive(Clone, Debug)]
pub(super) struct Macro {
    /// Names of its arguments; `None`: it is used without brackets.
    params: Option<Vec<Rc<str>>>,
    body: Vec<Token>,
}

impl Macro {
    /// Its last argument, `...`, is all that are left.
    fn is_variadic(&self) -> bool {
        let last = self.params.as_ref().and_then(|params| params.last());
        last.is_some_and(|last| &**last == REST)
    }
}

/// Reads a program and what it includes into one list of tokens.
pub(super) struct Preprocessor<'s> {
    sources: &'s mut dyn Sources,
    report: &'s mut Diagnostics,
    macros: HashMap<Rc<str>, Macro>,
    /// Files with `#pragma once`, which are read once.
    once: Vec<FileId>,
    /// The condition of an `#if` is being read: `defined` and `__has_include` are operators.
    in_condition: bool,
    /// Offsets of the lines of files in which `__LINE__` is used.
    lines: HashMap<FileId, Vec<u32>>,
    out: Vec<Token>,
    levels: usize,
    /// Steps of replacing macros so far.
    steps: usize,
    full: bool,
}

/// A `#if` that is open.
struct Branch {
    /// Its lines are read.
    active: bool,
    /// One of its branches was read already, or the whole lies in lines that are not.
    done: bool,
    /// What is around it is read.
    around: bool,
    /// It has its `#else`.
    has_else: bool,
    span: SourceSpan,
}

/// Whether lines are read here.
fn is_read(branches: &[Branch]) -> bool {
    branches.last().is_none_or(|branch| branch.around && branch.active)
}

impl<'s> Preprocessor<'s> {
    /// With these macros, as `-D` gives them.
    pub(super) fn new(
        sources: &'s mut dyn Sources,
        report: &'s mut Diagnostics,
        defines: &[(String, String)],
    ) -> Self {
        let mut macros = HashMap::new();
        let given = defines.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in iter::once(TARGET).chain(given) {
            let body = lex::tokens(FileId(0), value, report);
            let body = sound(&body, report);
            macros.insert(name.into(), Macro { params: None, body });
        }
        Preprocessor {
            sources,
            report,
            macros,
            once: Vec::new(),
            in_condition: false,
            lines: HashMap::new(),
            out: Vec::new(),
            levels: 0,
            steps: 0,
            full: false,
        }
    }

    /// The tokens, with one for the end.
    pub(super) fn run(mut self, file: FileId, text: &str) -> Vec<Token> {
        self.file(file, text);
        let end = text.len() as u32;
        let span = SourceSpan { file, start: end, end };
        self.out.push(Token { tok: Tok::End, span, first: true, spaced: true });
        self.out
    }

    fn file(&mut self, file: FileId, text: &str) {
        // The next token last.
        let mut rest = lex::tokens(file, text, self.report);
        rest.reverse();
        let mut branches: Vec<Branch> = Vec::new();
        // No string ends behind here.
        let mut all_end = true;
        let is_directive = |token: &Token| token.first && token.is("#");
        while !self.full
            && let Some(token) = rest.pop()
        {
            let mut lines = vec![token];
            if is_directive(&lines[0]) {
                lines.extend(std::iter::from_fn(|| rest.pop_if(|token| !token.first)));
                self.directive(&lines, &mut branches);
                continue;
            }
            let active = is_read(&branches);
            loop {
                if let Some(open) =
                    lines.pop_if(|token| active && all_end && token.tok == Tok::Open)
                {
                    match lex::long_string(file, text, open.span.start, self.report) {
                        Some((whole, behind)) => {
                            let end = behind.last().unwrap_or(&whole).span.end;
                            while rest.pop_if(|token| token.span.start < end).is_some() {}
                            rest.extend(behind.into_iter().rev());
                            lines.push(Token { first: open.first, spaced: open.spaced, ..whole });
                        }
                        None => {
                            all_end = false;
                            lines.push(open);
                        }
                    }
                }
                match rest.pop_if(|token| !is_directive(token)) {
                    Some(token) => lines.push(token),
                    None => break,
                }
            }
            if active {
                self.lines(&lines);
            }
        }
        if let Some(open) = branches.last() {
            self.report
                .error(codes::P4_PREPROCESSOR, open.span, "this `#if` has no `#endif`")
                .help("put `#endif` behind the lines that it is about");
        }
    }

    /// Lines without directives.
    fn lines(&mut self, lines: &[Token]) {
        let lines = sound(lines, self.report);
        let expanded = self.expand(&lines);
        if self.out.len() + expanded.len() > TOKENS_MAX {
            if let Some(first) = lines.first() {
                let text = format!("a program has at most {TOKENS_MAX} tokens");
                self.report.error(codes::LIMIT, first.span, text);
            }
            self.full = true;
            return;
        }
        self.out.extend(expanded);
    }

    fn directive(&mut self, line: &[Token], branches: &mut Vec<Branch>) {
        let Some(word) = line.get(1) else { return };
        let name = word.word().cloned().unwrap_or_else(|| "".into());
        let active = is_read(branches);
        let rest = line.get(2..).unwrap_or_default();
        // `# 5 "file"`: the place of what follows in another file.
        if matches!(word.tok, Tok::Number(_)) {
            return;
        }
        if !DIRECTIVES.contains(&&*name) {
            if active {
                self.skipped(word, &name);
            }
            return;
        }
        let is_code = active && !OF_TEXT.contains(&&*name);
        let rest = if is_code { sound(rest, self.report) } else { rest.to_vec() };
        let rest = rest.as_slice();
        match &*name {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.condition(&name, rest, word.span);
                let (done, around) = (holds || !active, active);
                let span = word.span;
                branches.push(Branch { active: holds, done, around, has_else: false, span });
            }
            "elif" | "elifdef" | "elifndef" | "else" | "endif" => {
                self.alternative(&name, rest, word.span, branches)
            }
            _ if !active => {}
            "include" => self.include(rest, word.span),
            "define" => self.define(rest, word.span),
            "undef" => match rest.first().and_then(Token::word) {
                Some(name) => drop(self.macros.remove(name)),
                None => {
                    self.report.error(codes::P4_PREPROCESSOR, word.span, "`#undef` needs a name");
                }
            },
            "pragma" if rest.first().is_some_and(|what| what.is_word("once")) => {
                self.once.push(word.span.file);
            }
            "error" => {
                let text = "the program refuses itself here, by `#error`";
                self.report.error(codes::P4_PREPROCESSOR, word.span, text);
            }
            _ => {}
        }
    }

    /// A line that is no directive: p4c skips it too.
    fn skipped(&mut self, word: &Token, name: &str) {
        let text = "this line is skipped: no directive begins like this";
        let warning = self.report.warning(codes::SKIPPED_LINE, word.span, text);
        match suggest(name, DIRECTIVES.iter().copied()) {
            Some(near) => {
                warning.fix(format!("did you mean `#{near}`?"), word.span, near);
            }
            None => {
                warning.help("a comment begins with `//`");
            }
        }
    }

    fn alternative(
        &mut self,
        name: &str,
        rest: &[Token],
        span: SourceSpan,
        branches: &mut Vec<Branch>,
    ) {
        let Some(mut branch) = branches.pop() else {
            let text = format!("`#{name}` without an `#if` before it");
            self.report.error(codes::P4_PREPROCESSOR, span, text);
            return;
        };
        if name == "endif" {
            return;
        }
        if branch.has_else {
            let text = format!("`#{name}` behind the `#else` of its `#if`");
            self.report.error(codes::P4_PREPROCESSOR, span, text);
        }
        branch.has_else |= name == "else";
        // `elif`, `elifdef` or `elifndef`, as the `if` behind `el`.
        let asks = name.strip_prefix("el").unwrap_or(name);
        let holds = !branch.done && (name == "else" || self.condition(asks, rest, span));
        branch.active = holds;
        branch.done |= holds;
        branches.push(branch);
    }

    fn define(&mut self, rest: &[Token], span: SourceSpan) {
        let Some(name) = rest.first().and_then(Token::word).cloned() else {
            self.report.error(codes::P4_PREPROCESSOR, span, "`#define` needs a name");
            return;
        };
        let has_params = rest.get(1).is_some_and(|open| open.is("(") && !open.spaced);
        let (params, body) = if has_params {
            let inner = rest.get(2..).unwrap_or_default();
            let Some(close) = inner.iter().position(|token| token.is(")")) else {
                let text = "the names of the arguments have no end";
                self.report.error(codes::P4_PREPROCESSOR, span, text);
                return;
            };
            let (names, body) = inner.split_at(close);
            (Some(self.params(names)), body.get(1..))
        } else {
            (None, rest.get(1..))
        };
        let body = body.unwrap_or_default().to_vec();
        if let Some(open) =
            [body.first(), body.last()].into_iter().flatten().find(|end| end.is("##"))
        {
            let text = "`##` joins what stands on both sides of it";
            self.report.error(codes::P4_PREPROCESSOR, open.span, text);
            return;
        }
        self.macros.insert(name, Macro { params, body });
    }

    /// The names of the arguments of a macro; what is wrong about them is reported.
    fn params(&mut self, names: &[Token]) -> Vec<Rc<str>> {
        let mut params: Vec<Rc<str>> = Vec::new();
        for name in names.split(|token| token.is(",")).filter(|_| !names.is_empty()) {
            let (param, is_sound) = match name {
                [rest] if rest.is("...") => (Rc::from(REST), true),
                [Token { tok: Tok::Word(name), .. }] => (name.clone(), true),
                // `a...` of GNU: what `a` leaves is dropped.
                [Token { tok: Tok::Word(name), .. }, rest] if rest.is("...") => {
                    params.push(name.clone());
                    (Rc::from(REST), true)
                }
                _ => (Rc::from(""), false),
            };
            let at = name.first().unwrap_or(&names[0]).span;
            if !is_sound || params.contains(&param) {
                let text = match is_sound {
                    true => format!("`{param}` is an argument of this macro already"),
                    false => "an argument of a macro is a name, or `...`".to_owned(),
                };
                self.report.error(codes::P4_PREPROCESSOR, at, text);
            }
            params.push(param);
        }
        params
    }

    /// Whether this file has `#pragma once` and was read before; by its name and text, as cpp has it, since paths to one file differ.
    fn is_read_already(&self, file: FileId) -> bool {
        let Some((name, text)) = self.sources.file(file) else { return false };
        self.once
            .iter()
            .filter_map(|known| self.sources.file(*known))
            .any(|(known, same)| text == same && last_part(name) == last_part(known))
    }

    fn include(&mut self, rest: &[Token], span: SourceSpan) {
        let is_macro = rest.first().is_some_and(|token| token.word().is_some());
        let rest = if is_macro { self.expand(rest) } else { rest.to_vec() };
        let (name, system) = match rest.first().map(|token| (&token.tok, token)) {
            Some((Tok::Text(name), _)) => (name.to_string(), false),
            Some((Tok::Sign("<"), open)) => {
                let Some(close) = rest.iter().rposition(|token| token.is(">")) else {
                    let text = "the name of the file has no `>` behind it";
                    self.report.error(codes::P4_PREPROCESSOR, open.span, text);
                    return;
                };
                let inside = rest.get(1..close).unwrap_or_default();
                (inside.iter().filter_map(Token::text).collect(), true)
            }
            _ => {
                let text = "`#include` needs the name of a file: `<core.p4>` or `\"mine.p4\"`";
                self.report.error(codes::P4_PREPROCESSOR, span, text);
                return;
            }
        };
        let place = match rest.as_slice() {
            [first, .., last] if system && first.span.file == last.span.file => {
                SourceSpan { end: last.span.end.max(first.span.end), ..first.span }
            }
            [first, ..] => first.span,
            [] => span,
        };
        if self.levels >= super::INCLUDE_LEVELS_MAX {
            let text = format!("files include each other {} levels deep", self.levels);
            self.report.error(codes::LIMIT, place, text).help("does a file include itself?");
            return;
        }
        let Some((file, text)) = self.sources.include(&name, system, place, self.report) else {
            return;
        };
        if self.is_read_already(file) {
            return;
        }
        self.levels += 1;
        self.file(file, &text);
        self.levels -= 1;
    }
}

/// The last part of the name of a file.
fn last_part(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// The tokens, with an error for each that is none. A number that is too long becomes 0; an annotation has any characters in its brackets.
pub(super) fn sound(tokens: &[Token], report: &mut Diagnostics) -> Vec<Token> {
    let (mut found, mut depth) = (Vec::new(), 0usize);
    for (at, token) in tokens.iter().enumerate() {
        let is_annotation = || {
            let before = at.checked_sub(2).and_then(|from| tokens.get(from..at));
            matches!(before, Some([sign, name]) if sign.is("@") && name.word().is_some())
        };
        if token.is("(") && (depth > 0 || is_annotation()) {
            depth += 1;
        } else if token.is(")") {
            depth = depth.saturating_sub(1);
        }
        let is_any = depth > 0 && matches!(token.tok, Tok::Wrong(_));
        let Some(text) = token.complaint().filter(|_| !is_any) else {
            found.push(token.clone());
            continue;
        };
        if matches!(token.tok, Tok::TooLong(_)) {
            report.error(codes::LIMIT, token.span, text);
            let zero = Number { value: 0.into(), width: None, text: "0".into() };
            found.push(Token { tok: Tok::Number(zero.into()), ..token.clone() });
        } else {
            report.error(codes::P4_SYNTAX, token.span, text);
        }
    }
    found
}
