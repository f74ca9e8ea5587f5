//! `a ## b` in the body of a macro: one word of two (ISO C17 6.10.3.3).

use super::expand::Item;
use crate::diag::{Diagnostics, codes};
use crate::ir::SourceSpan;
use crate::p4::lex::{self, Token};

/// A token of a body, or the argument that stands there.
pub(super) struct Piece {
    pub(super) items: Vec<Item>,
    /// `##` stands before it.
    pub(super) joins: bool,
}

/// The tokens of all pieces, those with `##` between them as one. An argument of no tokens joins to nothing.
pub(super) fn paste(pieces: Vec<Piece>, span: SourceSpan, report: &mut Diagnostics) -> Vec<Item> {
    let mut out: Vec<(Item, Option<String>)> = Vec::new();
    let mut has_left = false;
    for Piece { items, joins } in pieces {
        let is_empty = items.is_empty();
        let mut items = items.into_iter();
        if joins
            && has_left
            && let Some((left, whole)) = out.last_mut()
            && let Some(right) = items.next()
        {
            let before = whole.take().or_else(|| left.token.text().map(str::to_owned));
            let (Some(before), Some(behind)) = (before, right.token.text()) else {
                report.error(codes::P4_PREPROCESSOR, span, "`##` does not join strings");
                return Vec::new();
            };
            *whole = Some(before + behind);
        }
        out.extend(items.map(|item| (item, None)));
        has_left = !is_empty || joins && has_left;
    }
    let made = out.into_iter().map(|(item, whole)| match whole {
        Some(whole) => word(item, &whole, span, report),
        None => item,
    });
    made.collect()
}

/// The one token that these characters are.
fn word(item: Item, whole: &str, span: SourceSpan, report: &mut Diagnostics) -> Item {
    let mut unread = Diagnostics::default();
    let mut tokens = lex::tokens(span.file, whole, &mut unread);
    let is_one = |token: &Token| token.text().is_some() && !unread.has_errors();
    match tokens.pop().filter(|token| tokens.is_empty() && is_one(token)) {
        Some(token) => {
            let Token { first, spaced, .. } = item.token;
            Item { token: Token { span, first, spaced, ..token }, ..item }
        }
        None => {
            let text = format!("`##` makes `{whole}`, which is not one word, number or sign");
            report.error(codes::P4_PREPROCESSOR, span, text);
            item
        }
    }
}
