//! From tokens to the syntax tree: recursive descent, with precedence climbing for expressions.
//!
//! P4's grammar depends on whether a name is a type, so the parser keeps the scopes of type names, and nothing else of
//! them. After an error it continues after the statement or declaration, so that all errors of a file are reported at
//! once. Nesting is bounded.

mod decl;
mod expr;
mod hints;
mod operators;
mod stmt;
mod table;
mod types;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::lex::{Tok, Token};
use super::tree::*;
use crate::ast::Sp;
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::ir::SourceSpan;

/// Deepest nesting of expressions, types and statements together.
const DEPTH_MAX: usize = 200;

/// It is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed;

type Read<T> = Result<T, Failed>;

/// Words that are no names.
pub(crate) const KEYWORDS: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "package",
    "parser",
    "out",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "varbit",
    "value_set",
    "void",
    "_",
    "break",
    "continue",
];

/// Reads tokens; the last one is [`Tok::End`].
pub(super) struct Parser<'r> {
    tokens: Vec<Token>,
    at: usize,
    report: &'r mut Diagnostics,
    /// Names of each scope, and whether each is a type.
    scopes: Vec<HashMap<Rc<str>, bool>>,
    expressions: u32,
    declarations: u32,
    /// Expressions that are numbers not written in tens, with their base.
    radixes: HashMap<u32, u32>,
    depth: usize,
    /// The brace of the block of statements around all others that are open.
    block: Option<SourceSpan>,
    /// Types that are declared within a `typedef`, which stand in front of it.
    within: Vec<Rc<Decl>>,
    /// Names in declarations and statements that could not be read: what is not found may be among them.
    cut: HashSet<Rc<str>>,
    /// Set once something is nested deeper than `DEPTH_MAX`: the rest is skipped, and its syntax errors are not reported.
    unread: Option<Diagnostics>,
}

/// A program as it was read, with the numbers of its expressions and declarations.
pub(super) struct Tree {
    pub(super) decls: Vec<Rc<Decl>>,
    pub(super) expressions: u32,
    /// Numbers that are not written in tens, with their base.
    pub(super) radixes: HashMap<u32, u32>,
    /// Names in what could not be read.
    pub(super) cut: HashSet<Rc<str>>,
}

/// Reads a program.
pub(super) fn program(tokens: Vec<Token>, report: &mut Diagnostics) -> Tree {
    let scopes = vec![HashMap::new()];
    let mut parser = Parser {
        tokens,
        at: 0,
        report,
        scopes,
        expressions: 0,
        declarations: 0,
        radixes: HashMap::new(),
        depth: 0,
        block: None,
        within: Vec::new(),
        cut: HashSet::new(),
        unread: None,
    };
    let mut decls = Vec::new();
    while !parser.peek_is_end() {
        let before = parser.at;
        if parser.take(";") {
            continue;
        }
        let read = parser.declaration();
        decls.append(&mut parser.within);
        match read {
            Ok(decl) => decls.push(decl),
            Err(Failed) => parser.recover(before),
        }
    }
    let Parser { expressions, radixes, cut, .. } = parser;
    Tree { decls, expressions, radixes, cut }
}

impl Parser<'_> {
    fn token(&self, ahead: usize) -> &Token {
        let last = self.tokens.len().saturating_sub(1);
        &self.tokens[(self.at + ahead).min(last)]
    }

    fn peek_is_end(&self) -> bool {
        self.token(0).tok == Tok::End
    }

    fn span(&self) -> SourceSpan {
        self.token(0).span
    }

    /// From `start` to the last token that was read.
    fn since(&self, start: SourceSpan) -> SourceSpan {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        match last {
            Some(last) if last.span.file == start.file && last.span.end >= start.start => {
                SourceSpan { end: last.span.end, ..start }
            }
            _ => start,
        }
    }

    fn step(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn is(&self, sign: &str) -> bool {
        self.token(0).is(sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token(0).is_word(word)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.step();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.step();
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> Read<()> {
        if self.take(sign) {
            return Ok(());
        }
        self.wanted(&format!("`{sign}`"));
        Err(Failed)
    }

    /// Reports that something else stands here.
    fn wanted(&mut self, what: &str) -> &mut Diagnostic {
        let token = self.token(0).clone();
        let found = match &token.tok {
            Tok::Word(word) => format!("`{word}`"),
            Tok::Number(number) => format!("the number {}", number.value),
            Tok::Unfinished(text) => format!("`{text}`, which is not a number"),
            Tok::Text(_) => "a string".to_owned(),
            Tok::Open | Tok::Wrong(_) | Tok::TooLong(_) => token.complaint().unwrap_or_default(),
            Tok::Sign(sign) => format!("`{sign}`"),
            Tok::End => "the end of the program".to_owned(),
        };
        let hint = self.hint(what);
        let report = self.unread.as_mut().unwrap_or(&mut *self.report);
        let text = format!("expected {what}, found {found}");
        let error = report.error(codes::P4_SYNTAX, token.span, text);
        if let Some(hint) = hint {
            error.help(hint);
        }
        error
    }

    /// A name that may be declared.
    fn name(&mut self) -> Read<Ident> {
        let token = self.token(0);
        let span = token.span;
        match token.word() {
            Some(word) if !KEYWORDS.contains(&&**word) => {
                let word = word.clone();
                self.step();
                Ok(Sp::new(word, span))
            }
            _ => {
                self.wanted("a name");
                Err(Failed)
            }
        }
    }

    /// A name behind a dot: keywords that name something there are allowed.
    fn member_name(&mut self) -> Read<Ident> {
        let token = self.token(0).clone();
        match token.word() {
            Some(word) => {
                self.step();
                Ok(Sp::new(word.clone(), token.span))
            }
            None => {
                self.wanted("a name");
                Err(Failed)
            }
        }
    }

    /// One level more.
    fn deeper(&mut self) -> Read<()> {
        if self.depth >= DEPTH_MAX {
            let text = format!("this is nested deeper than {DEPTH_MAX} levels");
            let span = self.span();
            self.report.error(codes::LIMIT, span, text);
            return Err(self.stop());
        }
        self.depth += 1;
        Ok(())
    }

    /// Reads no more: everything behind it would be wrong too.
    fn stop(&mut self) -> Failed {
        self.unread = Some(Diagnostics::new());
        self.at = self.tokens.len().saturating_sub(1);
        Failed
    }

    /// Reports that the block of this brace has no end in front of the declaration that is read next, and reads no more.
    fn not_closed(&mut self, brace: SourceSpan) -> Failed {
        // What is declared behind it is not found, which is no error of its own.
        let behind = self.tokens.get(self.at..).unwrap_or_default();
        self.cut.extend(behind.iter().filter_map(|token| token.word().cloned()));
        let here = self.span();
        let report = self.unread.as_mut().unwrap_or(&mut *self.report);
        report
            .error(codes::P4_SYNTAX, brace, "this block is not closed")
            .label(here, "this does not belong into it");
        self.stop()
    }

    /// Whether a brace of the program has no end.
    fn has_open_brace(&self) -> bool {
        let count = |sign| self.tokens.iter().filter(|token| token.is(sign)).count();
        count("{") > count("}")
    }

    /// A parser or control begins here.
    fn begins_block(&self) -> bool {
        (self.is_word("control") || self.is_word("parser"))
            && self.token(1).word().is_some()
            && (self.token(2).is("(") || self.token(2).is("<"))
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.deeper()?;
        let read = inner(self);
        self.depth -= 1;
        read
    }

    /// Reads something whose names end with it.
    fn scoped<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let read = read(self);
        self.scopes.pop();
        read
    }

    /// A declaration whose name stands first, and which has a scope of its own behind it.
    fn scoped_decl<T>(
        &mut self,
        annotations: Annotations,
        kind: fn(T) -> DeclKind,
        read: impl FnOnce(&mut Self, &Ident) -> Read<T>,
    ) -> Read<Rc<Decl>> {
        let name = self.name()?;
        self.declare(&name, true);
        let decl = self.scoped(|parser| read(parser, &name))?;
        Ok(self.decl(annotations, name, kind(decl)))
    }

    /// The place behind the `>` that closes the `<` there; `None` at the end of the file.
    fn behind_angle(&self, mut ahead: usize) -> Option<usize> {
        let mut depth = 0usize;
        loop {
            match self.token(ahead).tok {
                Tok::Sign("<") => depth += 1,
                Tok::Sign(">") => depth = depth.saturating_sub(1),
                Tok::End => return None,
                _ => {}
            }
            ahead += 1;
            if depth == 0 {
                return Some(ahead);
            }
        }
    }

    fn declare(&mut self, name: &Ident, is_type: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.value.clone(), is_type);
        }
    }

    /// Whether this name is a type here.
    fn is_type_name(&self, name: &str) -> bool {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.copied().unwrap_or(false)
    }

    /// Whether `.name` is a type.
    fn is_type_at_top(&self, name: &str) -> bool {
        self.scopes.first().and_then(|scope| scope.get(name)) == Some(&true)
    }

    fn expr(&mut self, kind: ExprKind, span: SourceSpan) -> Expr {
        let id = self.expressions;
        self.expressions += 1;
        Expr { kind: Rc::new(kind), span, id }
    }

    fn decl(&mut self, annotations: Annotations, name: Ident, kind: DeclKind) -> Rc<Decl> {
        let id = self.declarations;
        self.declarations += 1;
        Rc::new(Decl { annotations, name, kind, id })
    }

    /// Items with commas between them, up to a closing sign, which is read; one comma may stand before it.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut items = Vec::new();
        loop {
            if self.take(close) {
                return Ok(items);
            }
            items.push(item(self)?);
            if !self.take(",") {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Goes on behind the declaration or statement that was begun at `before`.
    fn recover(&mut self, before: usize) {
        self.at = self.at.max(before);
        self.cut_names(before);
        let mut depth = 0usize;
        // Brackets that were opened before the error.
        for token in self.tokens.get(before..self.at).unwrap_or_default() {
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth = depth.saturating_sub(1);
            }
        }
        while !self.peek_is_end() {
            let token = self.token(0).clone();
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                if depth == 0 {
                    if self.at == before {
                        self.step();
                    }
                    return;
                }
                depth -= 1;
                if depth == 0 {
                    self.step();
                    return;
                }
            } else if token.is(";") && depth == 0 {
                self.step();
                return;
            }
            self.step();
        }
    }

    /// Notes the names in the head of what was begun there: up to its first bracket, value or end.
    fn cut_names(&mut self, begun: usize) {
        let tokens = self.tokens.get(begun..).unwrap_or_default();
        let is_end = |token: &Token| {
            ["{", "(", "=", ";", "}"].iter().any(|sign| token.is(sign)) || token.tok == Tok::End
        };
        // Annotations stand in front.
        let mut from = 0;
        while tokens.get(from).is_some_and(|token| token.is("@")) {
            from += 2;
            if tokens.get(from).is_some_and(|token| token.is("(")) {
                let close = tokens[from..].iter().position(|token| token.is(")"));
                from += close.map_or(1, |close| close + 1);
            }
        }
        let head = tokens.get(from..).unwrap_or_default().iter().take_while(|token| !is_end(token));
        let words = head.filter_map(|token| token.word());
        self.cut.extend(words.filter(|word| !KEYWORDS.contains(&&***word)).cloned());
    }

    /// Annotations before a declaration.
    fn annotations(&mut self) -> Read<Annotations> {
        let mut found = Vec::new();
        while self.take("@") {
            let name = self.member_name()?;
            if &*name.value == "pragma" {
                self.pragma();
                continue;
            }
            let mut annotation =
                Annotation { name, args: Vec::new(), text: "".into(), structured: false };
            if self.is("(") {
                let from = self.at + 1;
                annotation.text = self.raw("(", ")")?;
                annotation.args = match &*annotation.name.value {
                    "field_list" => self.listed_arguments(from),
                    _ => self.simple_arguments(from),
                };
            } else if self.take("[") {
                annotation.structured = true;
                annotation.args = self.list("]", Self::argument)?;
                let named = annotation.args.iter().filter(|arg| arg.name.is_some()).count();
                if named != 0 && named != annotation.args.len() {
                    let span = annotation.name.span;
                    let text =
                        "an annotation has a list of values, or of names with values, not both";
                    self.report.error(codes::P4_SYNTAX, span, text);
                }
            }
            found.push(annotation);
        }
        Ok(found)
    }

    /// `@pragma` applies to the rest of its line, which is skipped: it is for other compilers.
    fn pragma(&mut self) {
        while !self.token(0).first && !self.peek_is_end() {
            self.step();
        }
    }

    /// The words between brackets.
    fn raw(&mut self, open: &'static str, close: &'static str) -> Read<Rc<str>> {
        let start = self.span();
        self.expect(open)?;
        let (mut depth, mut text) = (0usize, String::new());
        let from = self.at;
        loop {
            let token = self.token(0).clone();
            match &token.tok {
                Tok::End => {
                    let text = "the brackets of this annotation have no end";
                    self.report.error(codes::P4_SYNTAX, start, text);
                    return Err(Failed);
                }
                Tok::Sign(sign) if *sign == open => depth += 1,
                Tok::Sign(sign) if *sign == close && depth == 0 => break,
                Tok::Sign(sign) if *sign == close => depth -= 1,
                _ => {}
            }
            if self.at > from && token.spaced {
                text.push(' ');
            }
            match &token.tok {
                Tok::Word(word) | Tok::Unfinished(word) => text.push_str(word),
                Tok::Text(word) => {
                    let quoted =
                        word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                    text += &format!("\"{quoted}\"");
                }
                Tok::Number(number) => text.push_str(&number.value.to_string()),
                Tok::Sign(sign) => text.push_str(sign),
                Tok::Wrong(c) => text.push(*c),
                Tok::Open | Tok::TooLong(_) | Tok::End => {}
            }
            self.step();
        }
        self.step();
        Ok(text.into())
    }

    /// Arguments of `@name("x")` and `@id(7, 8)`: strings and numbers between commas, else none. The bracket is read.
    fn simple_arguments(&mut self, from: usize) -> Vec<Arg> {
        let inner = self.tokens.get(from..self.at.saturating_sub(1)).unwrap_or_default().to_vec();
        let mut args = Vec::new();
        for (position, token) in inner.iter().enumerate() {
            let kind = match &token.tok {
                Tok::Sign(",") if position % 2 == 1 => continue,
                Tok::Text(text) if position % 2 == 0 => ExprKind::Text(text.clone()),
                Tok::Number(number) if position % 2 == 0 => {
                    ExprKind::Number(number.value.clone(), number.width)
                }
                _ => return Vec::new(),
            };
            let value = self.expr(kind, token.span);
            args.push(Arg { name: None, value });
        }
        args
    }

    /// Arguments that are numbers, names of constants and members of enums.
    fn listed_arguments(&mut self, from: usize) -> Vec<Arg> {
        let inner = self.tokens.get(from..self.at.saturating_sub(1)).unwrap_or_default().to_vec();
        let mut args = Vec::new();
        for part in inner.split(|token| token.is(",")) {
            let name = |token: &Token| match &token.tok {
                Tok::Word(word) => Some(Sp::new(word.clone(), token.span)),
                _ => None,
            };
            let Some(first) = part.first() else { return Vec::new() };
            let kind = match (&first.tok, part) {
                (Tok::Number(number), [_]) => ExprKind::Number(number.value.clone(), number.width),
                (_, [only]) => match name(only) {
                    Some(name) => ExprKind::Name(name, false),
                    None => return Vec::new(),
                },
                (_, [of, dot, member]) if dot.is(".") => match (name(of), name(member)) {
                    (Some(of), Some(member)) => {
                        let of = self.expr(ExprKind::Name(of, false), first.span);
                        ExprKind::Member(of, member)
                    }
                    _ => return Vec::new(),
                },
                _ => return Vec::new(),
            };
            let value = self.expr(kind, first.span);
            args.push(Arg { name: None, value });
        }
        args
    }
}
