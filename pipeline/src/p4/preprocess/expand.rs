//! Replacing macros by what they stand for.

use std::rc::Rc;

use super::{Macro, Preprocessor, STEPS_MAX, TOKENS_MAX};
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::p4::lex::{self, Token};

/// Deepest nesting of macros in macros.
const DEPTH_MAX: usize = 64;

impl Preprocessor<'_> {
    /// The tokens with all macros replaced.
    pub(super) fn expand(&mut self, tokens: &[Token]) -> Vec<Token> {
        let (mut out, mut used) = (Vec::new(), Vec::new());
        self.expand_into(tokens, None, &mut used, &mut out);
        out
    }

    fn expand_into(
        &mut self,
        tokens: &[Token],
        at: Option<SourceSpan>,
        used: &mut Vec<Rc<str>>,
        out: &mut Vec<Token>,
    ) {
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            position += 1;
            let span = at.unwrap_or(token.span);
            if out.len() > TOKENS_MAX || self.is_too_much(1, span) {
                return;
            }
            let known = token
                .word()
                .filter(|word| !used.contains(word))
                .and_then(|word| self.macros.get(word).map(|found| (word.clone(), found.clone())));
            let Some((name, known)) = known.filter(|_| used.len() < DEPTH_MAX) else {
                if token.is("##") {
                    let text = "`##` joins two words of a macro, and stands nowhere else";
                    self.report.error(codes::P4_PREPROCESSOR, span, text);
                }
                out.push(Token { span, ..token.clone() });
                continue;
            };
            let params = known.params.as_ref().map_or(1, |params| params.len().max(1));
            if self.is_too_much(known.body.len().saturating_mul(params), span) {
                return;
            }
            let body = if known.params.is_none() {
                self.joined(known.body, span)
            } else if tokens.get(position).is_some_and(|open| open.is("(")) {
                let (args, behind) = arguments(tokens, position + 1);
                position = behind;
                match self.substitute(&name, &known, &args, span, used) {
                    Some(body) => body,
                    None => continue,
                }
            } else {
                out.push(Token { span, ..token.clone() });
                continue;
            };
            used.push(name);
            let from = out.len();
            self.expand_into(&body, Some(span), used, out);
            if let Some(first) = out.get_mut(from) {
                (first.first, first.spaced) = (token.first, true);
            }
            used.pop();
        }
    }

    /// Counts steps; true, and an error, where there are too many.
    fn is_too_much(&mut self, steps: usize, span: SourceSpan) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > STEPS_MAX && !self.full {
            let text = format!("replacing macros takes more than {STEPS_MAX} steps");
            self.report.error(codes::LIMIT, span, text);
            self.full = true;
        }
        self.full
    }

    /// The body with the arguments in place of their names.
    fn substitute(
        &mut self,
        name: &str,
        known: &Macro,
        args: &[Vec<Token>],
        span: SourceSpan,
        used: &mut Vec<Rc<str>>,
    ) -> Option<Vec<Token>> {
        let params = known.params.as_deref().unwrap_or_default();
        let none = params.is_empty() && args.iter().all(Vec::is_empty);
        if params.len() != args.len() && !none {
            let text = format!("`{name}` takes {} arguments, not {}", params.len(), args.len());
            self.report.error(codes::P4_PREPROCESSOR, span, text);
            return None;
        }
        let mut expanded = Vec::new();
        for arg in args {
            let mut out = Vec::new();
            self.expand_into(arg, None, used, &mut out);
            expanded.push(out);
        }
        let mut body = Vec::new();
        for (position, token) in known.body.iter().enumerate() {
            let at = token.word().and_then(|word| params.iter().position(|param| param == word));
            let joins = |at: Option<usize>| {
                at.and_then(|at| known.body.get(at)).is_some_and(|other| other.is("##"))
            };
            // What is joined is joined as it is written.
            let is_joined = joins(position.checked_sub(1)) || joins(Some(position + 1));
            let from = if is_joined { args } else { &expanded };
            match at.and_then(|at| from.get(at)) {
                Some(arg) => body.extend(arg.iter().cloned()),
                None => body.push(token.clone()),
            }
            if body.len() > TOKENS_MAX {
                self.report.error(codes::LIMIT, span, "this macro makes too many tokens");
                return None;
            }
        }
        Some(self.joined(body, span))
    }

    /// The tokens with `a ## b` as one word.
    fn joined(&mut self, tokens: Vec<Token>, span: SourceSpan) -> Vec<Token> {
        if !tokens.iter().any(|token| token.is("##")) {
            return tokens;
        }
        let mut made: Vec<(Token, String)> = Vec::new();
        let mut rest = tokens.into_iter();
        while let Some(token) = rest.next() {
            let text = |token: &Token| self.sources.text(token.span).to_owned();
            if !token.is("##") {
                let text = text(&token);
                made.push((token, text));
                continue;
            }
            let (left, right) = (made.pop(), rest.next());
            let behind = right.as_ref().map(text).unwrap_or_default();
            let whole = left.as_ref().map_or("", |(_, text)| text).to_owned() + &behind;
            let place = left.map(|(token, _)| token).or(right);
            let (first, spaced) = place.map_or((false, true), |token| (token.first, token.spaced));
            for token in lex::tokens(span.file, &whole, self.report) {
                made.push((Token { span, first, spaced, ..token }, whole.clone()));
            }
        }
        made.into_iter().map(|(token, _)| token).collect()
    }
}

/// The arguments from behind the bracket at `from`, and where the tokens go on.
fn arguments(tokens: &[Token], from: usize) -> (Vec<Vec<Token>>, usize) {
    let (mut args, mut depth, mut at) = (vec![Vec::new()], 0usize, from);
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            if depth == 0 {
                break;
            }
            depth -= 1;
        } else if token.is(",") && depth == 0 {
            args.push(Vec::new());
            continue;
        }
        if let Some(last) = args.last_mut() {
            last.push(token.clone());
        }
    }
    (args, at)
}
