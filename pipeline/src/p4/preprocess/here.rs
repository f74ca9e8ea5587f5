//! `__LINE__` and `__FILE__`: where a token stands (ISO C17 6.10.8.1).

use std::rc::Rc;

use super::Preprocessor;
use crate::p4::lex::{Number, Tok, Token};

impl Preprocessor<'_> {
    /// The line or the file of a token `__LINE__` or `__FILE__`; in a macro's replacement, where the macro is used.
    pub(super) fn here(&mut self, token: &Token) -> Option<Token> {
        let span = token.span;
        let tok = match token.word().map(|word| &**word) {
            Some("__LINE__") => {
                let sources = &*self.sources;
                let starts = self.lines.entry(span.file).or_insert_with(|| {
                    let text = sources.file(span.file).map_or("", |(_, text)| text);
                    text.match_indices('\n').map(|(at, _)| at as u32).collect()
                });
                let line = starts.partition_point(|start| *start < span.start) + 1;
                let text: Rc<str> = line.to_string().into();
                Tok::Number(Rc::new(Number { value: line.into(), width: None, text }))
            }
            Some("__FILE__") => Tok::Text(self.sources.file(span.file)?.0.into()),
            _ => return None,
        };
        Some(Token { tok, ..token.clone() })
    }
}
