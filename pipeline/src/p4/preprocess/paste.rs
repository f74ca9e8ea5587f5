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

/// The tokens of all pieces, those with `##` between them as one where they are one token. Others stay two, as for p4c, whose
/// preprocessor is that of assembler (`hdr. ## name ## _t` is `hdr`, `.` and the word). An argument of no tokens joins to nothing.
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
            let before = whole.as_deref().or_else(|| left.token.text());
            let (Some(before), Some(behind)) = (before, right.token.text()) else {
                report.error(codes::P4_PREPROCESSOR, span, "`##` does not join strings");
                return Vec::new();
            };
            let joined = format!("{before}{behind}");
            if is_word(&joined) || one_token(&joined, span).is_some() {
                *whole = Some(joined);
            } else {
                out.push((right, None));
            }
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

/// Whether these characters may be a part of a word or number, which is read when all of it is there.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The one token that these characters are.
fn one_token(text: &str, span: SourceSpan) -> Option<Token> {
    let mut unread = Diagnostics::default();
    let mut tokens = lex::tokens(span.file, text, &mut unread);
    let token = tokens.pop()?;
    (tokens.is_empty() && token.text().is_some() && !unread.has_errors()).then_some(token)
}

/// The joined word in the place of its first part.
fn word(item: Item, whole: &str, span: SourceSpan, report: &mut Diagnostics) -> Item {
    match one_token(whole, span) {
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
