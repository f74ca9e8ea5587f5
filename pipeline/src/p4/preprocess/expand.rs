//! Replacing macros by what they stand for, as C does (ISO C17 6.10.3).
//!
//! What a macro stands for is read again together with what follows it. Each token records the macros that it comes
//! from, which are not replaced in it again (Prosser's algorithm, X3J11/86-196).

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::paste::{Piece, paste};
use super::{Macro, Preprocessor, STEPS_MAX, TOKENS_MAX};
use crate::diag::{codes, counted};
use crate::ir::SourceSpan;
use crate::p4::lex::{Tok, Token};

/// Deepest nesting of macros in arguments of macros.
const DEPTH_MAX: usize = 64;

/// A token and the macros that are not replaced in it.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) token: Token,
    pub(super) hidden: Hidden,
}

/// Macros that are not replaced in a token.
pub(super) type Hidden = Rc<BTreeSet<Rc<str>>>;

/// What follows, first token first.
pub(super) type Input = VecDeque<Item>;

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
            if let Some(token) = self.operator(token, &mut input) {
                out.push(Item { token, hidden: Rc::clone(hidden) });
                continue;
            }
            let word = token.word().filter(|word| !hidden.contains(*word));
            let found = word.and_then(|word| self.macros.get_key_value(word));
            let Some((name, known)) = found.map(|(name, known)| (name.clone(), known.clone()))
            else {
                self.refuse_paste(token);
                match self.here(token) {
                    Some(token) => out.push(Item { token, hidden: Rc::clone(hidden) }),
                    None => out.push(item),
                }
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

    fn refuse_paste(&mut self, token: &Token) {
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
        let args = if known.is_variadic() { with_rest(args, params.len(), span) } else { args };
        let none = params.is_empty() && args.iter().all(Vec::is_empty);
        if params.len() != args.len() && !none {
            let takes = counted(params.len(), "argument");
            let text = format!("`{name}` takes {takes}, not {}", args.len());
            return self.report.refuse(codes::P4_PREPROCESSOR, span, text);
        }
        if depth >= DEPTH_MAX {
            let text = format!("macros are nested deeper than {DEPTH_MAX} levels in arguments");
            return self.report.refuse(codes::LIMIT, span, text);
        }
        let expanded: Vec<Vec<Item>> = args
            .iter()
            .map(|arg| self.expand_items(arg.iter().cloned().collect(), depth + 1))
            .collect();
        let (mut pieces, mut count) = (Vec::<Piece>::new(), 0);
        for position in 0..known.body.len() {
            let Some(piece) = piece(known, position, &args, &expanded) else { continue };
            count += piece.items.len();
            if count > TOKENS_MAX || self.is_too_much(piece.items.len() + 1, span) {
                return self.report.refuse(codes::LIMIT, span, "this macro makes too many tokens");
            }
            pieces.push(piece);
        }
        Some(paste(pieces, span, self.report))
    }
}

/// What stands for a token of a macro's body; nothing for the signs `##` and `#`.
fn piece(known: &Macro, at: usize, args: &[Vec<Item>], expanded: &[Vec<Item>]) -> Option<Piece> {
    let token = known.body.get(at)?;
    let param_at = |at: usize| {
        let word = known.body.get(at)?.word()?;
        known.params.as_ref()?.iter().position(|param| param == word)
    };
    let is_sign = |at: Option<usize>, sign: &str| {
        at.and_then(|at| known.body.get(at)).is_some_and(|token| token.is(sign))
    };
    if token.is("##") || token.is("#") && param_at(at + 1).is_some() {
        return None;
    }
    let before = at.checked_sub(1);
    let is_text = is_sign(before, "#");
    let joins = is_sign(if is_text { at.checked_sub(2) } else { before }, "##");
    let plain = |token: Token| vec![Item { token, hidden: Hidden::default() }];
    let items = match param_at(at) {
        None => plain(token.clone()),
        Some(param) if is_text => {
            let tok = Tok::Text(text_of(args.get(param)?).into());
            plain(Token { tok, ..token.clone() })
        }
        // What is joined is joined as it is written.
        Some(param) if joins || is_sign(Some(at + 1), "##") => args.get(param)?.clone(),
        Some(param) => expanded.get(param)?.clone(),
    };
    Some(Piece { items, joins })
}

/// The arguments with all from the last parameter on as one, and their commas in it.
fn with_rest(mut args: Vec<Vec<Item>>, params: usize, span: SourceSpan) -> Vec<Vec<Item>> {
    let token = Token { tok: Tok::Sign(","), span, first: false, spaced: false };
    let comma = Item { token, hidden: Hidden::default() };
    let from = params.saturating_sub(1).min(args.len());
    let rest = args.split_off(from);
    let mut joined = Vec::new();
    for (at, arg) in rest.into_iter().enumerate() {
        if at > 0 {
            joined.push(comma.clone());
        }
        joined.extend(arg);
    }
    args.push(joined);
    args
}

/// `#x`: the characters of an argument, one blank where there were some (ISO C17 6.10.3.2).
fn text_of(arg: &[Item]) -> String {
    let mut text = String::new();
    for (at, item) in arg.iter().enumerate() {
        if at > 0 && item.token.spaced {
            text.push(' ');
        }
        match &item.token.tok {
            Tok::Text(inner) => text += &format!("\"{inner}\""),
            _ => text += item.token.text().unwrap_or_default(),
        }
    }
    text
}
