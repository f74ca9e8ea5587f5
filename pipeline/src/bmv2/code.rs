//! P4 text in pieces, each with the place of the JSON that it comes from.

use crate::ir::SourceSpan;

/// Most bytes of P4 that a program becomes. Steps that branches share before they join, and actions that several
/// steps call, are written more than once, so a small JSON may become any amount of text.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that a piece counts in addition to its text.
const PIECE_BYTES: usize = 16;

/// Pieces of P4 text.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) pieces: Vec<(String, SourceSpan)>,
    bytes: usize,
    /// The limit that the code reached first, and where. Nothing is written from there on.
    pub(super) refused: Option<(SourceSpan, String)>,
}

impl Code {
    pub(super) fn put(&mut self, text: &str, span: SourceSpan) {
        self.charge(text.len() + PIECE_BYTES, span);
        if self.refused.is_none() {
            self.pieces.push((text.to_owned(), span));
        }
    }

    pub(super) fn append(&mut self, other: Code) {
        let place = other.pieces.first().or(self.pieces.last()).map(|(_, span)| *span);
        if let Some((span, why)) = other.refused {
            self.refuse(span, why);
        }
        if let Some(span) = place {
            self.charge(other.bytes, span);
        }
        if self.refused.is_none() {
            self.pieces.extend(other.pieces);
        }
    }

    /// Counts a primitive or step, which may write nothing.
    pub(super) fn step(&mut self, span: SourceSpan) {
        self.charge(PIECE_BYTES, span);
    }

    /// Ends the writing at a limit.
    pub(super) fn refuse(&mut self, span: SourceSpan, why: String) {
        self.refused.get_or_insert((span, why));
    }

    fn charge(&mut self, bytes: usize, span: SourceSpan) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAX {
            let why = format!("the program becomes more than {} MiB of P4 here", BYTES_MAX >> 20);
            self.refuse(span, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn text_beyond_the_limit_is_refused_at_its_place_and_not_kept() {
        let at = |start| SourceSpan { file: FileId(0), start, end: start };
        let (mut code, mut part) = (Code::default(), Code::default());
        part.put(&"x".repeat(BYTES_MAX / 3), at(1));
        for _ in 0..3 {
            code.append(part.clone());
        }
        let (span, why) = code.refused.clone().expect("a limit");
        assert_eq!((span, why.contains("8 MiB")), (at(1), true));
        code.put("y", at(2));
        code.refuse(at(3), "another".into());
        assert_eq!((code.pieces.len(), code.refused), (2, Some((span, why))));
    }
}
