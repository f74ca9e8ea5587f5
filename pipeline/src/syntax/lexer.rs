//! Words, numbers, addresses and symbols, with nom.

use std::net::{Ipv4Addr, Ipv6Addr};

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while, take_while1};
use nom::character::complete::{char, digit1};
use nom::combinator::{map, peek, recognize, verify};
use nom::error::{ErrorKind, ParseError};
use nom::sequence::{pair, preceded};
use nom::{IResult, Parser as _};

use super::{SyntaxError, TOKENS_MAX, Text, shown};
use crate::diag::{Code, codes};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A name or a word of the language.
    Word(&'a str),
    /// A number, or an address with the width of its family.
    Number { value: u128, bits: Option<u32> },
    /// An operator or a bracket.
    Sign(&'static str),
    /// Behind the last one.
    End,
}

/// A token and its bytes in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The end of the message about `1.5`.
pub(super) const FRACTION: &str = "begins a fraction, and numbers are whole";

/// Symbols, longer ones before their prefixes.
const SIGNS: &[&str] = &[
    "&&&", "|+|", "|-|", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "++", "..", "+", "-", "*",
    "/", "%", "!", "~", "<", ">", "&", "|", "^", "?", ":", "(", ")", "[", "]", ",", "=", ".", "@",
];

/// A failure of the lexer, at the rest of the text.
struct Failure<'a> {
    rest: &'a str,
    code: Code,
    message: String,
    help: Option<&'static str>,
    /// Bytes of the text that are wrong.
    len: usize,
}

impl Failure<'_> {
    /// With a message, if none of the parsers had one.
    fn explained(self) -> Self {
        if !self.message.is_empty() {
            return self;
        }
        let found = self.rest.chars().next();
        Failure {
            message: match found {
                Some(c) => format!("unexpected character `{}`", c.escape_debug()),
                None => "unexpected end".into(),
            },
            help: match found {
                Some('"' | '\'') => Some("the expression language has no strings"),
                Some(';') => Some("a statement is an item of a YAML list and ends without `;`"),
                Some('{' | '}') => Some("a block is a YAML list: `then: [..]`"),
                _ => None,
            },
            len: found.map_or(0, char::len_utf8),
            ..self
        }
    }
}

impl<'a> ParseError<&'a str> for Failure<'a> {
    fn from_error_kind(rest: &'a str, _: ErrorKind) -> Self {
        // Nearly always the next alternative is tried: only the last one gets a message, see `Failure::explained`.
        Failure { rest, code: codes::SYNTAX, message: String::new(), help: None, len: 0 }
    }

    fn append(_: &'a str, _: ErrorKind, other: Self) -> Self {
        other
    }
}

type Lexed<'a, T> = IResult<&'a str, T, Failure<'a>>;

/// All tokens of a text and one [`Kind::End`].
pub(super) fn tokens<'a>(text: Text<'a>) -> Result<Vec<Token<'a>>, SyntaxError> {
    let whole = text.text;
    let mut found = Vec::with_capacity(6);
    let mut rest = whole;
    loop {
        rest = rest.trim_start();
        let start = whole.len() - rest.len();
        if rest.is_empty() {
            let end = whole.trim_end().len();
            found.push(Token { kind: Kind::End, start: end, end });
            return Ok(found);
        }
        if found.len() == TOKENS_MAX {
            return Err(SyntaxError {
                code: codes::LIMIT,
                span: text.whole,
                message: format!("an expression of more than {TOKENS_MAX} words and signs"),
                help: Some("split it with `let` or a metadata field".into()),
            });
        }
        match token(rest) {
            Ok((after, kind)) => {
                let end = whole.len() - after.len();
                found.push(Token { kind, start, end });
                rest = after;
            }
            Err(nom::Err::Error(failure) | nom::Err::Failure(failure)) => {
                let failure = failure.explained();
                let at = whole.len() - failure.rest.len();
                return Err(SyntaxError {
                    code: failure.code,
                    span: text.span(at..at + failure.len),
                    message: failure.message,
                    help: failure.help.map(Into::into),
                });
            }
            // These are nom's complete parsers, which never return `Incomplete`.
            Err(nom::Err::Incomplete(_)) => rest = "",
        }
    }
}

fn token(input: &str) -> Lexed<'_, Kind<'_>> {
    let word = recognize(pair(take_while1(is_word_start), take_while(is_word)));
    let mut word = map(word, Kind::Word);
    match input.bytes().next() {
        Some(b'0'..=b'9') => alt((address, number)).parse(input),
        // Letters that an address may begin with.
        Some(b'a'..=b'f' | b'A'..=b'F') => alt((address_with_colons, word)).parse(input),
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => word.parse(input),
        Some(b':') => alt((address_with_colons, sign)).parse(input),
        _ => sign(input),
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn sign(input: &str) -> Lexed<'_, Kind<'_>> {
    match SIGNS.iter().copied().find(|sign| input.starts_with(sign)) {
        Some(found) => map(tag(found), move |_| Kind::Sign(found)).parse(input),
        None => Err(nom::Err::Error(Failure::from_error_kind(input, ErrorKind::Tag))),
    }
}

fn failure<'a, T>(
    rest: &'a str,
    found: &str,
    message: String,
    help: Option<&'static str>,
) -> Lexed<'a, T> {
    Err(nom::Err::Failure(Failure {
        rest,
        code: codes::BAD_NUMBER,
        message,
        help,
        len: found.len(),
    }))
}

/// `02:00:00:00:00:01`, `10.0.0.1` or `ff02::1`.
fn address(input: &str) -> Lexed<'_, Kind<'_>> {
    alt((address_v4, address_with_colons)).parse(input)
}

fn address_v4(input: &str) -> Lexed<'_, Kind<'_>> {
    let part = || pair(char('.'), digit1);
    let mut dotted = recognize((digit1, part(), part(), part()));
    let (rest, found) = dotted.parse(input)?;
    match found.parse::<Ipv4Addr>() {
        Ok(ip) => Ok((rest, Kind::Number { value: u128::from(ip.to_bits()), bits: Some(32) })),
        Err(_) => failure(input, found, format!("`{found}` is not an IPv4 address"), None),
    }
}

fn address_with_colons(input: &str) -> Lexed<'_, Kind<'_>> {
    let start = peek(alt((tag("::"), take_while1(|c: char| c.is_ascii_hexdigit()))));
    let run = take_while1(|c: char| c.is_ascii_hexdigit() || c == ':' || c == '.');
    let mut run = verify(preceded(start, run), |run: &str| {
        let run = up_to_range(run);
        run.contains("::") || run.matches(':').count() >= 5
    });
    let (_, run) = run.parse(input)?;
    let run = up_to_range(run);
    let rest = &input[run.len()..];
    let colons = run.matches(':').count();
    if colons == 5
        && !run.contains("::")
        && let Some(value) = mac(run)
        && !rest.starts_with(is_word)
    {
        return Ok((rest, Kind::Number { value, bits: Some(48) }));
    }
    match run.parse::<Ipv6Addr>() {
        Ok(ip) if !rest.starts_with(is_word) => {
            Ok((rest, Kind::Number { value: ip.to_bits(), bits: Some(128) }))
        }
        _ => {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let found = &input[..run.len() + word];
            let message = format!("`{}` is not a MAC or IPv6 address", shown(found));
            let help = "a MAC address is six groups of two hexadecimal digits: `02:00:00:00:00:01`";
            failure(input, found, message, (colons == 5).then_some(help))
        }
    }
}

/// The part before `..`, which is the operator of a range.
fn up_to_range(run: &str) -> &str {
    let range = run.as_bytes().windows(2).position(|two| two == b"..");
    let run = &run[..range.unwrap_or(run.len())];
    run.strip_suffix('.').unwrap_or(run)
}

fn mac(text: &str) -> Option<u128> {
    let mut value = 0u128;
    for group in text.split(':') {
        if group.len() != 2 {
            return None;
        }
        value = value << 8 | u128::from_str_radix(group, 16).ok()?;
    }
    Some(value)
}

/// `02-00-00-00-00-01` at the start of a text.
fn mac_with_dashes(text: &str) -> Option<&str> {
    let dashed = text.get(..17)?;
    let ends = !text[17..].starts_with(is_word);
    (ends && mac(&dashed.replace('-', ":")).is_some() && !dashed.contains(':')).then_some(dashed)
}

/// `02:00:00:00:01` at the start of a text: bytes like those of a MAC address, three or more.
fn mac_of_wrong_length(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit() && c != ':').unwrap_or(text.len());
    let bytes = &text[..end];
    let is_one = bytes.split(':').all(|byte| byte.len() == 2);
    (is_one && bytes.matches(':').count() >= 2).then_some(bytes)
}

/// `42`, `0x2a`, `0b101010`, `1_000`, `8w42`.
fn number(input: &str) -> Lexed<'_, Kind<'_>> {
    let starts = |c: char| c.is_ascii_digit();
    let (rest, word) = recognize(pair(take_while1(starts), take_while(is_word))).parse(input)?;
    if rest.starts_with('.') && rest[1..].starts_with(starts) {
        let end = input.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(input.len());
        let dotted = &input[..end];
        if dotted.matches('.').count() > 1 {
            let message = format!("`{dotted}` is not an IPv4 address");
            return failure(
                input,
                dotted,
                message,
                Some("write four numbers from 0 to 255: `10.0.0.0`"),
            );
        }
        let message = format!("`{word}.` {FRACTION}");
        return failure(input, &input[..word.len() + 1], message, None);
    }
    let (bits, digits) = match word.split_once('w') {
        Some((bits, digits)) => match bits.parse::<u32>() {
            Ok(bits @ 1..=128) => (Some(bits), digits),
            _ => {
                let message = format!("`{bits}` is not a width");
                return failure(input, bits, message, Some("a width is 1 to 128 bits"));
            }
        },
        None => (None, word),
    };
    if let Some(dashed) = mac_with_dashes(input) {
        let message = format!("`{dashed}` is not a MAC address");
        return failure(input, dashed, message, Some("write it with colons: `02:00:00:00:00:01`"));
    }
    match value(digits) {
        Ok(value) if bits.is_some_and(|bits| bits < 128 && value >> bits != 0) => {
            let bits = bits.unwrap_or_default();
            failure(input, word, format!("{value} does not fit in {bits} bits"), None)
        }
        Ok(value) => Ok((rest, Kind::Number { value, bits })),
        Err(help) => match mac_of_wrong_length(input) {
            Some(wrong) => {
                let message = format!("`{}` is not a MAC address", shown(wrong));
                let help = "a MAC address has six bytes, each of two hexadecimal digits";
                failure(input, wrong, message, Some(help))
            }
            None => failure(input, word, format!("`{}` is not a number", shown(word)), help),
        },
    }
}

/// The value of digits with their base, or advice.
fn value(digits: &str) -> Result<u128, Option<&'static str>> {
    let (base, body) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let plain: String = body.chars().filter(|c| *c != '_').collect();
    if base == 10 && plain.len() > 1 && plain.starts_with('0') && plain.bytes().any(|c| c != b'0') {
        return Err(Some("a decimal number does not start with 0: octal numbers are not there"));
    }
    if plain.is_empty() || !plain.chars().all(|c| c.is_digit(base)) {
        return Err(Some("numbers are `42`, `0x2a`, `0b101010`, `1_000` and `8w42`"));
    }
    u128::from_str_radix(&plain, base).map_err(|_| Some("a number has at most 128 bits"))
}
