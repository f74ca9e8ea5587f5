//! Conditions of `#if`: integers, `defined`, and the operators of C.

use num_bigint::BigInt;

use super::Preprocessor;
use super::expand::Input;
use crate::diag::{Diagnostics, codes};
use crate::ir::SourceSpan;
use crate::p4::lex::{Number, Tok, Token};

/// The operator that asks for a file.
const HAS_INCLUDE: &str = "__has_include";

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
            return self.is_defined(word) == (name == "ifdef");
        }
        self.in_condition = true;
        let tokens = self.expand(rest);
        self.in_condition = false;
        let mut reader = Reader { rest: &tokens, depth: 0 };
        let (read, rest) = (reader.choice(), reader.rest);
        match read {
            Some(Some(value)) if rest.is_empty() => value.holds(),
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
                    .note("it is made of numbers, names of macros, `defined(NAME)`, `__has_include(<FILE>)` and the operators of C");
                false
            }
        }
    }

    fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || name == HAS_INCLUDE
    }

    /// `defined(X)`, `defined X` or `__has_include(<x>)` in a condition as a number, of which `word` is read already.
    pub(super) fn operator(&mut self, word: &Token, input: &mut Input) -> Option<Token> {
        if !self.in_condition || !word.is_word("defined") && !word.is_word(HAS_INCLUDE) {
            return None;
        }
        let has_bracket = input.front().is_some_and(|next| next.token.is("("));
        if has_bracket {
            input.pop_front();
        }
        let operand = input.pop_front().map(|item| item.token);
        let holds = if word.is_word(HAS_INCLUDE) {
            match operand.as_ref().map(|operand| &operand.tok) {
                Some(Tok::Text(name)) => self.has_file(name, false, word.span),
                Some(Tok::Sign("<")) => {
                    let parts = std::iter::from_fn(|| input.pop_front().map(|item| item.token));
                    let parts: Vec<Token> = parts.take_while(|part| !part.is(">")).collect();
                    let name: String = parts.iter().filter_map(Token::text).collect();
                    self.has_file(&name, true, word.span)
                }
                _ => false,
            }
        } else {
            operand.and_then(|operand| Some(self.is_defined(operand.word()?))).unwrap_or(false)
        };
        if has_bracket && !input.pop_front().is_some_and(|next| next.token.is(")")) {
            // It has no end: a bracket alone cannot be read.
            return Some(Token { tok: Tok::Sign("("), ..word.clone() });
        }
        let (value, text) = (u8::from(holds).into(), if holds { "1" } else { "0" }.into());
        let number = Number { value, width: None, text };
        Some(Token { tok: Tok::Number(number.into()), ..word.clone() })
    }

    fn has_file(&mut self, name: &str, system: bool, at: SourceSpan) -> bool {
        self.sources.include(name, system, at, &mut Diagnostics::new()).is_some()
    }
}

/// What an operand is; `None`: it has no value, which is an error only where the condition depends on it.
type Value = Option<Int>;

/// A number; one that is unsigned, as `1u` is, has 64 bits and makes the others of an operation unsigned too.
#[derive(Clone)]
struct Int {
    value: BigInt,
    unsigned: bool,
}

impl Int {
    fn new(value: BigInt, unsigned: bool) -> Self {
        Int { value: if unsigned { value & BigInt::from(u64::MAX) } else { value }, unsigned }
    }

    fn holds(&self) -> bool {
        self.value != BigInt::ZERO
    }
}

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
        Some(condition.and_then(|condition| if condition.holds() { then } else { other }))
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
            self.operand().map(|value| value.map(|value| truth(!value.holds())))
        } else if self.take("-") {
            self.operand().map(|of| of.map(|of| Int::new(-of.value, of.unsigned)))
        } else if self.take("+") {
            self.operand()
        } else if self.take("~") {
            self.operand().map(|of| of.map(|of| Int::new(!of.value, of.unsigned)))
        } else if self.take("(") {
            let value = self.choice();
            self.take(")").then_some(value).flatten()
        } else {
            let first = self.rest.first()?;
            self.rest = &self.rest[1..];
            match &first.tok {
                Tok::Number(number) => {
                    let value = || Int::new(number.value.clone(), false);
                    Some(Some(number_of_c(&number.text).unwrap_or_else(value)))
                }
                Tok::Unfinished(text) => number_of_c(text).map(Some),
                // As in C: a name that is no macro is 0.
                Tok::Word(_) => Some(Some(truth(false))),
                _ => None,
            }
        };
        self.depth -= 1;
        value
    }
}

/// A number as only C has it: a character, or digits with a suffix of their type, to base 8 where they begin with 0.
fn number_of_c(text: &str) -> Option<Int> {
    if let Some(inner) = text.strip_prefix('\'') {
        let written = inner.strip_suffix('\'')?;
        let value = match written.strip_prefix('\\') {
            Some("n") => '\n',
            Some("t") => '\t',
            Some("0") => '\0',
            escaped => escaped.unwrap_or(written).chars().next()?,
        };
        return Some(Int::new(u32::from(value).into(), false));
    }
    const SUFFIXES: [&str; 8] = ["", "u", "l", "ul", "lu", "ll", "ull", "llu"];
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(['u', 'l']);
    let suffix = text.get(digits.len()..).filter(|suffix| SUFFIXES.contains(suffix))?;
    let (radix, digits) = match (digits.get(..2), digits.strip_prefix('0')) {
        (Some("0x"), _) => (16, digits.get(2..)?),
        (Some("0b"), _) => (2, digits.get(2..)?),
        (_, Some(octal)) if !octal.is_empty() => (8, octal),
        _ => (10, digits),
    };
    let is_digit = |c: char| c.is_digit(radix);
    let is_number = !digits.is_empty() && digits.chars().all(is_digit);
    let value = is_number.then(|| BigInt::parse_bytes(digits.as_bytes(), radix)).flatten()?;
    Some(Int::new(value, suffix.contains('u')))
}

fn truth(holds: bool) -> Int {
    Int::new(BigInt::from(u8::from(holds)), false)
}

/// One operator. `&&` and `||` look at what is right of them only where it matters.
fn combined(sign: &str, left: Int, right: Value) -> Value {
    match sign {
        "&&" if !left.holds() => return Some(truth(false)),
        "||" if left.holds() => return Some(truth(true)),
        "&&" | "||" => return right.map(|right| truth(right.holds())),
        _ => {}
    }
    let right = right?;
    // What is shifted alone decides the type of the result.
    let unsigned = left.unsigned || right.unsigned && !matches!(sign, "<<" | ">>");
    let zero = BigInt::ZERO;
    let (left, right) =
        (Int::new(left.value, unsigned).value, Int::new(right.value, unsigned).value);
    let value = match sign {
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => return Some(truth(left == right)),
        "!=" => return Some(truth(left != right)),
        "<" => return Some(truth(left < right)),
        "<=" => return Some(truth(left <= right)),
        ">" => return Some(truth(left > right)),
        ">=" => return Some(truth(left >= right)),
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
    (value.bits() <= VALUE_BITS_MAX).then(|| Int::new(value, unsigned))
}
