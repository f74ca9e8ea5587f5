//! Conditions of `#if`: integers, `defined`, and the operators of C.

use num_bigint::BigInt;

use super::Preprocessor;
use crate::diag::codes;
use crate::ir::SourceSpan;
use crate::p4::lex::{Tok, Token};

/// Deepest nesting of brackets.
const DEPTH_MAX: usize = 64;
/// Most bits of a value.
const VALUE_BITS_MAX: u64 = 4096;

/// Operators by strength, weakest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Preprocessor<'_> {
    /// Whether the lines behind an `#if`, `#ifdef` or `#ifndef` are read.
    pub(super) fn condition(&mut self, name: &str, rest: &[Token], span: SourceSpan) -> bool {
        if name != "if" {
            let Some(word) = rest.first().and_then(Token::word) else {
                self.report.error(codes::P4_PREPROCESSOR, span, format!("`#{name}` needs a name"));
                return false;
            };
            return self.macros.contains_key(word) == (name == "ifdef");
        }
        let tokens = self.with_defined(rest);
        let tokens = self.expand(&tokens);
        let mut reader = Reader { rest: &tokens, depth: 0 };
        let (read, rest) = (reader.choice(), reader.rest);
        match read {
            Some(Some(value)) if rest.is_empty() => value != BigInt::ZERO,
            Some(None) if rest.is_empty() => {
                let text = "this condition has no value";
                self.report.error(codes::P4_PREPROCESSOR, span, text).note(format!(
                    "it divides by zero, or a number has more than {VALUE_BITS_MAX} bits"
                ));
                false
            }
            _ => {
                let span = rest.first().map_or(span, |token| token.span);
                self.report
                    .error(codes::P4_PREPROCESSOR, span, "this condition cannot be read")
                    .note("numbers, names of macros, `defined(NAME)` and the operators of C are known");
                false
            }
        }
    }

    /// `defined(X)` and `defined X` as numbers, before macros are replaced.
    fn with_defined(&self, rest: &[Token]) -> Vec<Token> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(token) = rest.get(at) {
            at += 1;
            if !token.is_word("defined") {
                found.push(token.clone());
                continue;
            }
            let bracket = rest.get(at).is_some_and(|token| token.is("("));
            at += usize::from(bracket);
            let known = rest
                .get(at)
                .and_then(Token::word)
                .is_some_and(|word| self.macros.contains_key(word));
            at += 1 + usize::from(bracket);
            let (value, text) = (u8::from(known).into(), if known { "1" } else { "0" }.into());
            let number = crate::p4::lex::Number { value, width: None, text };
            found.push(Token { tok: Tok::Number(number.into()), ..token.clone() });
        }
        found
    }
}

/// What an operand is; `None`: it has no value, which is an error only where the condition depends on it.
type Value = Option<BigInt>;

struct Reader<'t> {
    rest: &'t [Token],
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, sign: &str) -> bool {
        // The lexer has no `>>`.
        if let (">>", [first, second, ..]) = (sign, self.rest) {
            let found = first.is(">") && second.is(">") && !second.spaced;
            self.rest = if found { &self.rest[2..] } else { self.rest };
            return found;
        }
        let found = self.rest.first().is_some_and(|token| token.is(sign));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// `a ? b : c`, or one of the operators. Nothing where it cannot be read.
    fn choice(&mut self) -> Option<Value> {
        let condition = self.level(0)?;
        if !self.take("?") {
            return Some(condition);
        }
        self.depth += 1;
        if self.depth >= DEPTH_MAX {
            return None;
        }
        let then = self.choice()?;
        let other = self.take(":").then(|| self.choice()).flatten()?;
        self.depth -= 1;
        Some(condition.and_then(|holds| if holds == BigInt::ZERO { other } else { then }))
    }

    fn level(&mut self, level: usize) -> Option<Value> {
        let Some(signs) = LEVELS.get(level) else { return self.operand() };
        let mut left = self.level(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.take(sign)) {
            let right = self.level(level + 1)?;
            left = left.and_then(|left| combined(sign, left, right));
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<Value> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let value = if self.take("!") {
            self.operand().map(|value| value.map(|value| truth(value == BigInt::ZERO)))
        } else if self.take("-") {
            self.operand().map(|value| value.map(|value| -value))
        } else if self.take("+") {
            self.operand()
        } else if self.take("~") {
            self.operand().map(|value| value.map(|value| !value))
        } else if self.take("(") {
            let value = self.choice();
            self.take(")").then_some(value).flatten()
        } else {
            let first = self.rest.first()?;
            self.rest = &self.rest[1..];
            match &first.tok {
                Tok::Number(number) => {
                    Some(Some(number_of_c(&number.text).unwrap_or_else(|| number.value.clone())))
                }
                Tok::Unfinished(text) => number_of_c(text).map(Some),
                // As in C: a name that is no macro is 0.
                Tok::Word(_) => Some(Some(BigInt::ZERO)),
                _ => None,
            }
        };
        self.depth -= 1;
        value
    }
}

/// A number with what only C knows: a suffix of its type, and base 8 where it begins with 0.
fn number_of_c(text: &str) -> Option<BigInt> {
    const SUFFIXES: [&str; 8] = ["", "u", "l", "ul", "lu", "ll", "ull", "llu"];
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(['u', 'l']);
    if !SUFFIXES.contains(&text.get(digits.len()..)?) {
        return None;
    }
    let (radix, digits) = match (digits.get(..2), digits.strip_prefix('0')) {
        (Some("0x"), _) => (16, digits.get(2..)?),
        (Some("0b"), _) => (2, digits.get(2..)?),
        (_, Some(octal)) if !octal.is_empty() => (8, octal),
        _ => (10, digits),
    };
    let is_digit = |c: char| c.is_digit(radix);
    (!digits.is_empty() && digits.chars().all(is_digit))
        .then(|| BigInt::parse_bytes(digits.as_bytes(), radix))
        .flatten()
}

fn truth(holds: bool) -> BigInt {
    BigInt::from(u8::from(holds))
}

/// One operator. `&&` and `||` look at what is right of them only where it matters.
fn combined(sign: &str, left: BigInt, right: Value) -> Value {
    let zero = BigInt::ZERO;
    match sign {
        "&&" if left == zero => return Some(truth(false)),
        "||" if left != zero => return Some(truth(true)),
        _ => {}
    }
    let right = right?;
    let value = match sign {
        "&&" | "||" => truth(right != zero),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => truth(left == right),
        "!=" => truth(left != right),
        "<" => truth(left < right),
        "<=" => truth(left <= right),
        ">" => truth(left > right),
        ">=" => truth(left >= right),
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" | "%" if right == zero => return None,
        "/" => left / right,
        "%" => left % right,
        shift => {
            let by = u64::try_from(&right).ok().filter(|by| *by < VALUE_BITS_MAX)?;
            if shift == "<<" { left << by } else { left >> by }
        }
    };
    (value.bits() <= VALUE_BITS_MAX).then_some(value)
}
