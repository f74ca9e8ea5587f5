//! P4 text in pieces, each with the place of the JSON that it comes from.

use crate::ir::SourceSpan;

/// Pieces of P4 text.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) pieces: Vec<(String, SourceSpan)>,
}

impl Code {
    pub(super) fn put(&mut self, text: &str, span: SourceSpan) {
        self.pieces.push((text.to_owned(), span));
    }

    pub(super) fn append(&mut self, other: Code) {
        self.pieces.extend(other.pieces);
    }
}
