//! Replacing macros by what they stand for, as C does (ISO C17 6.10.3).
//!
//! What a macro stands for is read again together with what follows it. Each token knows the macros that it comes from,
//! which are not replaced in it again (Prosser's algorithm, X3J11/86-196).

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::paste::{Piece, paste};
use super::{Macro, Preprocessor, STEPS_MAX, TOKENS_MAX};
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::p4::lex::Token;

/// Deepest nesting of macros in arguments of macros.
const DEPTH_MAX: usize = 64;

/// A token and the macros that are not replaced in it.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) token: Token,
    pub(super) hidden: Hidden,
}

pub(super) type Hidden = Rc<BTreeSet<Rc<str>>>;

/// What follows, first token first.
type Input = VecDeque<Item>;

impl Preprocessor<'_> {
    /// The tokens with all macros replaced.
    pub(super) fn expand(&mut self, tokens: &[Token]) -> Vec<Token> {
        let hidden = Rc::new(BTreeSet::new());
        let item = |token: &Token| Item { token: token.clone(), hidden: Rc::clone(&hidden) };
        let found = self.expand_items(tokens.iter().map(item).collect(), 0);
        found.into_iter().map(|item| item.token).collect()
    }

    fn expand_items(&mut self, mut input: Input, depth: usize) -> Vec<Item> {
        let mut out = Vec::new();
        while let Some(item) = input.pop_front() {
            let Item { token, hidden } = &item;
            if out.len() > TOKENS_MAX || self.is_too_much(1 + hidden.len(), token.span) {
                break;
            }
            let word = token.word().filter(|word| !hidden.contains(*word));
            let found = word.and_then(|word| self.macros.get_key_value(word));
            let Some((name, known)) = found.map(|(name, known)| (name.clone(), known.clone()))
            else {
                self.is_no_paste(token);
                out.push(item);
                continue;
            };
            let is_call = input.front().is_some_and(|next| next.token.is("("));
            let (args, mut hidden) = match &known.params {
                None => (Vec::new(), BTreeSet::clone(hidden)),
                Some(_) if !is_call => {
                    out.push(item);
                    continue;
                }
                Some(_) => match self.arguments(&name, token.span, &mut input) {
                    Some((args, close)) => {
                        (args, hidden.intersection(&close.hidden).cloned().collect())
                    }
                    None => break,
                },
            };
            hidden.insert(name.clone());
            let Some(body) = self.substitute(&name, &known, args, token.span, depth) else {
                continue;
            };
            let hidden = Rc::new(hidden);
            for (at, made) in body.into_iter().enumerate().rev() {
                let hidden = self.both(&hidden, &made.hidden, token.span);
                let mut made = Token { span: token.span, ..made.token };
                if at == 0 {
                    (made.first, made.spaced) = (token.first, true);
                }
                input.push_front(Item { token: made, hidden });
            }
        }
        out
    }

    /// The macros of two sets.
    fn both(&mut self, one: &Hidden, other: &Hidden, span: SourceSpan) -> Hidden {
        if other.is_empty() || self.is_too_much(one.len() + other.len(), span) {
            return Rc::clone(one);
        }
        Rc::new(one.union(other).cloned().collect())
    }

    fn is_no_paste(&mut self, token: &Token) {
        if token.is("##") {
            let text = "`##` joins two words of a macro, and stands nowhere else";
            self.report.error(codes::P4_PREPROCESSOR, token.span, text);
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

    /// Takes the arguments of a macro, and the bracket behind them, from what follows.
    fn arguments(
        &mut self,
        name: &str,
        span: SourceSpan,
        input: &mut Input,
    ) -> Option<(Vec<Vec<Item>>, Item)> {
        let (mut args, mut depth) = (vec![Vec::new()], 0usize);
        input.pop_front();
        while let Some(item) = input.pop_front() {
            match item.token.text() {
                Some(")") if depth == 0 => return Some((args, item)),
                Some(",") if depth == 0 => {
                    args.push(Vec::new());
                    continue;
                }
                Some("(") => depth += 1,
                Some(")") => depth -= 1,
                _ => {}
            }
            if let Some(last) = args.last_mut() {
                last.push(item);
            }
        }
        let text = format!("the arguments of the macro `{name}` have no end");
        self.report
            .error(codes::P4_PREPROCESSOR, span, text)
            .help("put `)` behind them, before the next `#` directive");
        None
    }

    /// The body with the arguments in place of their names.
    fn substitute(
        &mut self,
        name: &str,
        known: &Macro,
        args: Vec<Vec<Item>>,
        span: SourceSpan,
        depth: usize,
    ) -> Option<Vec<Item>> {
        let params = known.params.as_deref().unwrap_or_default();
        let none = params.is_empty() && args.iter().all(Vec::is_empty);
        if params.len() != args.len() && !none {
            let text = format!("`{name}` takes {} arguments, not {}", params.len(), args.len());
            self.report.error(codes::P4_PREPROCESSOR, span, text);
            return None;
        }
        if depth >= DEPTH_MAX {
            let text = format!("macros are nested deeper than {DEPTH_MAX} levels in arguments");
            self.report.error(codes::LIMIT, span, text);
            return None;
        }
        let expanded: Vec<Vec<Item>> = args
            .iter()
            .map(|arg| self.expand_items(arg.iter().cloned().collect(), depth + 1))
            .collect();
        let hidden = Rc::new(BTreeSet::new());
        let (mut pieces, mut count, mut joins) = (Vec::<Piece>::new(), 0, false);
        for (position, token) in known.body.iter().enumerate() {
            if token.is("##") {
                joins = true;
                continue;
            }
            let at = token.word().and_then(|word| params.iter().position(|param| param == word));
            // What is joined is joined as it is written.
            let is_joined = joins || known.body.get(position + 1).is_some_and(|next| next.is("##"));
            let from = if is_joined { &args } else { &expanded };
            let items = match at.and_then(|at| from.get(at)) {
                Some(arg) => arg.clone(),
                None => vec![Item { token: token.clone(), hidden: Rc::clone(&hidden) }],
            };
            count += items.len();
            if count > TOKENS_MAX || self.is_too_much(items.len() + 1, span) {
                self.report.error(codes::LIMIT, span, "this macro makes too many tokens");
                return None;
            }
            pieces.push(Piece { items, joins: std::mem::take(&mut joins) });
        }
        Some(paste(pieces, span, self.report))
    }
}
