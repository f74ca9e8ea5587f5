//! Help for slips: words and signs of other languages where P4 has others.

use num_bigint::BigInt;

use super::super::lex::{Tok, Token};
use super::Parser;

impl Parser<'_> {
    /// What to write instead of what stands here, or in front of it, where `what` is expected.
    pub(super) fn hint(&self, what: &str) -> Option<String> {
        let here = self.token(0);
        let before = |back: usize| self.at.checked_sub(back).and_then(|at| self.tokens.get(at));
        let is_before = |back: usize, sign: &str| before(back).is_some_and(|token| token.is(sign));
        let word_before = before(1).and_then(Token::word).map(|word| &**word);
        let ends = here.is(";") || here.is(")");
        let text = match (here.word().map(|word| &**word), word_before) {
            (Some("and"), _) => "write `&&`",
            (Some("or"), _) => "write `||`",
            (Some(_), Some("not")) => "write `!` in front of a condition",
            (_, Some("case")) => "a case begins with its label, without `case`",
            (Some(_), Some(word)) if what == "`=`, or a call" => {
                return Some(format!("`{word}` is no type here; numbers are `bit<8>`, `int<8>`"));
            }
            _ if here.is("=") && what == "`)`" => "two values are compared by `==`",
            _ if ends && is_before(1, "++") => "write `x = x + 1`",
            _ if ends && is_before(1, "-") && is_before(2, "-") => "write `x = x - 1`",
            _ if here.is("{") && is_before(1, ")") => match self.word_of_brackets()? {
                "while" => "P4 has no `while`; this is one: `for (; condition; ) { .. }`",
                "elif" | "elsif" | "elseif" => "write `else if`",
                _ => return None,
            },
            _ => return self.address(),
        };
        Some(text.to_owned())
    }

    /// The word in front of the brackets that end before this token.
    fn word_of_brackets(&self) -> Option<&str> {
        let mut depth = 0usize;
        for at in (1..self.at).rev() {
            let token = self.tokens.get(at)?;
            if token.is(")") {
                depth += 1;
            } else if token.is("(") {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return self.tokens.get(at - 1)?.word().map(|word| &**word);
                }
            }
        }
        None
    }

    /// An address of four numbers, of which the second stands here.
    fn address(&self) -> Option<String> {
        let first = self.at.checked_sub(2)?;
        let part = |number: usize| match &self.tokens.get(first + 2 * number)?.tok {
            Tok::Number(part) if part.value <= BigInt::from(255) => u32::try_from(&part.value).ok(),
            _ => None,
        };
        let has_dots = [1, 3, 5]
            .iter()
            .all(|at| self.tokens.get(first + at).is_some_and(|token| token.is(".")));
        let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
        let address = parts.iter().fold(0u32, |all, part| all << 8 | part);
        has_dots.then(|| format!("an address is a number: write 0x{address:08x}"))
    }
}
