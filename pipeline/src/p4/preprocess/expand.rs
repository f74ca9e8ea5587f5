//! Replacing macros by what they stand for.

use std::rc::Rc;

use super::{Macro, Preprocessor, STEPS_MAX, TOKENS_MAX};
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::p4::lex::Token;

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
                    let text = "`##` is not supported: write the whole name";
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
                known.body
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
        for token in &known.body {
            let at = token.word().and_then(|word| params.iter().position(|param| param == word));
            match at.and_then(|at| expanded.get(at)) {
                Some(arg) => body.extend(arg.iter().cloned()),
                None => body.push(token.clone()),
            }
            if body.len() > TOKENS_MAX {
                self.report.error(codes::LIMIT, span, "this macro makes too many tokens");
                return None;
            }
        }
        Some(body)
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
