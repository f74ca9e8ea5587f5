//! The grammar inside the strings: expressions, statements, patterns, word slices.
//!
//! Tokens come from a nom lexer (`lexer`), patterns of keys are nom parsers (`pattern`). Expressions and statements are
//! parsed from tokens by precedence climbing: one loop over a table of operators, where nom 8 has none of its own, with
//! a bound on nesting in one place, and with an error that has the token and what is expected there. Every function
//! takes a [`Text`], which has the place of its bytes in the file, so that an error points at the exact character, also
//! through YAML quotes. Nesting and length are limited: later stages may recurse over the result.

mod expression;
mod lexer;
pub(crate) mod p4;
mod pattern;
mod statement;

use std::ops::Range;

use crate::ast::{Ast, AstExpr, Name, PathPart, PatternDecl, Sp, StmtKind, WordSlice};
use crate::diag::{Code, codes};
use crate::ir::SourceSpan;
use expression::Parser;
pub(crate) use pattern::not_an_operation;

/// Deepest nesting of parentheses, indices, calls and signs of one operand.
pub const DEPTH_MAX: u32 = 64;
/// Most words and signs in one string.
pub const TOKENS_MAX: usize = 2048;

/// Reserved names of the language.
pub(crate) const RESERVED: &[&str] = &[
    "std",
    "meta",
    "error",
    "link",
    "path",
    "cursor",
    "CPU_PORT",
    "true",
    "false",
    "drop",
    "nop",
    "punt",
    "exit",
    "return",
    "let",
    "hash",
    "signed",
    "bit",
    "lookahead",
    "random",
    "execute",
    "set_valid",
    "set_invalid",
    "push",
    "pop",
    "count",
    "digest",
    "clone",
    "resubmit",
    "resubmit_received",
    "recirculate",
    "truncate",
    "update_crc",
    "extract",
    "extract_at",
    "advance",
    "body_end",
    "verify",
    "accept",
    "reject",
    "member",
    "group",
    "body",
];

/// A string of the program with its place.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The string, without YAML's quotes and escapes.
    pub text: &'a str,
    /// The scalar in the file.
    pub whole: SourceSpan,
    /// Offset in the file of the first byte of `text`, if the file has the same bytes; `None` when escapes or line
    /// folding changed them: then every error points at the whole scalar.
    pub start: Option<u32>,
}

impl Text<'_> {
    /// The place of a part of the text in the file.
    pub fn span(&self, part: Range<usize>) -> SourceSpan {
        match self.start {
            Some(start) => SourceSpan {
                file: self.whole.file,
                start: start.saturating_add(part.start as u32),
                end: start.saturating_add(part.end as u32),
            },
            None => self.whole,
        }
    }
}

/// Why a string cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The violated rule.
    pub code: Code,
    /// Its place in the file.
    pub span: SourceSpan,
    /// The error.
    pub message: String,
    /// A remedy, if one is known.
    pub help: Option<String>,
}

/// What the functions of this module return.
pub type Parsed<T> = Result<T, SyntaxError>;

/// The help for a text that should match every value.
pub(crate) const ANY_VALUE: &str =
    "`_` matches any value, and so does a key that is left out; an exact key needs a value";

/// `ipv4.ttl - 1`.
pub fn expression(text: Text<'_>) -> Parsed<AstExpr> {
    let whole = |mut parser: Parser<'_>| {
        let found = parser.expression()?;
        parser.end("an operator or the end of the expression")?;
        Ok(found)
    };
    advised(text, Parser::new(text).and_then(whole))
}

/// `name`, or `name(1, meta.x)`.
pub fn call(text: Text<'_>) -> Parsed<(Name, Vec<AstExpr>)> {
    if is_name(text.text.trim()) {
        return name(text).map(|name| (name, Vec::new()));
    }
    let mut parser = Parser::new(text)?;
    let name = parser.word("the name of a control")?;
    let arguments = parser.arguments()?;
    parser.end("the end of the call")?;
    Ok((name, arguments))
}

/// The action of an entry with its arguments: `name`, `name(1, 2)`, or with the blocks of a P4 source in front of the name,
/// `ingress.sub.name(1)`.
pub fn action(text: Text<'_>) -> Parsed<AstExpr> {
    let name = text.text.split('(').next().unwrap_or_default();
    if !name.contains('.') || dotted(Text { text: name, ..text }, usize::MAX).is_err() {
        return expression(text);
    }
    let mut parser = Parser::new(text)?;
    let path = parser.path()?;
    let name = Sp::new(name.trim().to_owned(), path.span);
    let arguments =
        if parser.peek().kind == lexer::Kind::End { Vec::new() } else { parser.arguments()? };
    parser.end("the end of the action")?;
    Ok(Sp::new(Ast::Call(name, arguments), trimmed_span(text)))
}

/// `1, 2, 5`: expressions with commas between them.
pub fn expressions(text: Text<'_>) -> Parsed<Vec<AstExpr>> {
    let whole = |mut parser: Parser<'_>| {
        let mut found = vec![parser.expression()?];
        while parser.eat(",") {
            found.push(parser.expression()?);
        }
        parser.end("an operator, `,` or the end of the labels")?;
        Ok(found)
    };
    advised(text, Parser::new(text).and_then(whole))
}

/// `a, b`: names with commas between them.
pub fn names(text: Text<'_>) -> Parsed<Vec<Name>> {
    if !text.text.contains(',') {
        return name(text).map(|name| vec![name]);
    }
    let mut parser = Parser::new(text)?;
    let mut found = vec![parser.word("a name")?];
    while parser.eat(",") {
        found.push(parser.word("a name")?);
    }
    parser.end("`,` or the end of the names")?;
    Ok(found)
}

/// The result, with help added to a syntax error if the text is P4.
fn advised<T>(text: Text<'_>, read: Parsed<T>) -> Parsed<T> {
    read.map_err(|error| match p4::help(text).filter(|_| error.code == codes::SYNTAX) {
        Some(help) => SyntaxError { help: Some(help), ..error },
        None => error,
    })
}

/// `ipv4.ttl = ipv4.ttl - 1`, `drop ttl_expired`, `route(3)`.
pub fn statement(text: Text<'_>) -> Parsed<StmtKind> {
    advised(text, statement::parse(text)).map_err(|error| match is_fraction(&error) {
        true => SyntaxError { help: Some(FRACTIONS.into()), ..error },
        false => error,
    })
}

/// The help for a fraction in a calculation.
const FRACTIONS: &str =
    "`x >> 1` is a half of `x`; a rate control has other fractions as a parameter with `fraction`";

fn is_fraction(error: &SyntaxError) -> bool {
    error.message.ends_with(lexer::FRACTION)
}

/// `0x0800 &&& 0xff00`, `1..5`, `10.0.0.0/8`, `_`, `@known`, or an expression.
pub fn pattern(text: Text<'_>) -> Parsed<Sp<PatternDecl>> {
    advised(text, pattern::parse(text))
}

/// `w2[11:8]` or `w2[3]`.
pub fn word_slice(text: Text<'_>) -> Parsed<Sp<WordSlice>> {
    pattern::word_slice(text)
}

/// A name: a letter or `_`, then letters, digits and `_`.
pub fn name(text: Text<'_>) -> Parsed<Name> {
    dotted(text, 1)
}

/// `name`, or `name[2]` for an element of a stack.
pub fn header(text: Text<'_>) -> Parsed<Name> {
    let trimmed = text.text.trim();
    let (stack, at) = crate::ast::element(trimmed);
    if at.is_none() {
        return name(text);
    }
    name(Text { text: stack, ..text })?;
    Ok(Sp::new(trimmed.to_owned(), trimmed_span(text)))
}

/// `name` or `library.name`.
pub fn name_in_library(text: Text<'_>) -> Parsed<Name> {
    dotted(text, 2)
}

/// `name`, or in a P4 source with the blocks around it: `ingress.sub.name`.
pub fn object_name(text: Text<'_>) -> Parsed<Name> {
    dotted(text, usize::MAX)
}

fn dotted(text: Text<'_>, parts: usize) -> Parsed<Name> {
    let trimmed = text.text.trim();
    let bad = |part: &str| !is_name(part) || matches!(part, "true" | "false");
    if trimmed.split('.').count() > parts || trimmed.split('.').any(bad) {
        return Err(SyntaxError {
            code: codes::BAD_NAME,
            span: text.whole,
            message: format!("`{}` is not a name", shown(trimmed)),
            help: Some("a name is a letter or `_`, then letters, digits and `_`".into()),
        });
    }
    Ok(Sp::new(trimmed.to_owned(), trimmed_span(text)))
}

/// The target of a transition: `accept`, `reject`, `reject(error)` or a state.
pub fn target(text: Text<'_>) -> Parsed<Name> {
    let trimmed = text.text.trim();
    let error = trimmed
        .strip_prefix("reject")
        .and_then(|rest| rest.trim_start().strip_prefix('(')?.strip_suffix(')').map(str::trim));
    match error {
        Some(error) if is_name(error) => {
            Ok(Sp::new(format!("reject({error})"), trimmed_span(text)))
        }
        _ => name(text).map_err(|error| SyntaxError {
            message: format!("`{}` is not a state", shown(trimmed)),
            help: Some(
                "a target is the name of a state, `accept`, `reject` or `reject(error)`".into(),
            ),
            ..error
        }),
    }
}

/// `flow[meta.i]`: a register and one index.
pub fn cell(text: Text<'_>) -> Parsed<(Name, AstExpr)> {
    let mut parser = Parser::new(text)?;
    let path = parser.path()?;
    parser.end("the end of `register[index]`")?;
    let mut parts = path.value.parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(PathPart::Name(register)), Some(PathPart::Index(index)), None) => {
            Ok((register, index))
        }
        _ => Err(SyntaxError {
            code: codes::SYNTAX,
            span: path.span,
            message: "expected a register and an index".into(),
            help: Some("write `register[index]`, as in `flow[meta.i]`".into()),
        }),
    }
}

/// A whole number from 0: `42`, `0x2a`, `0b101010`, `1_000`.
pub fn count(text: Text<'_>) -> Parsed<Sp<u64>> {
    let wrong = |span: SourceSpan| SyntaxError {
        code: codes::BAD_NUMBER,
        span,
        message: format!("expected a whole number, found `{}`", shown(text.text.trim())),
        help: None,
    };
    let found = expression(text).map_err(|error| match is_fraction(&error) {
        true => wrong(trimmed_span(text)),
        false => error,
    })?;
    match found.value {
        Ast::Number { value, bits: None } if value <= u128::from(u64::MAX) => {
            Ok(Sp::new(value as u64, found.span))
        }
        _ => Err(wrong(found.span)),
    }
}

/// True for a letter or `_`, then letters, digits and `_`.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// A found text, short enough for a message.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.len() && line.chars().count() <= MOST {
        return line.to_owned();
    }
    line.chars().take(MOST).chain("...".chars()).collect()
}

/// The span of a text without the blanks around it.
fn trimmed_span(text: Text<'_>) -> SourceSpan {
    let start = text.text.len() - text.text.trim_start().len();
    text.span(start..start + text.text.trim().len())
}

#[cfg(test)]
mod tests;
