//! Tokens of P4-16, with nom: words, numbers with their widths, strings and signs.
//!
//! The preprocessor works on tokens, so a token records whether it begins a line and whether blanks precede it. `>` is
//! always a sign of its own, since `>>` may close two lists of type arguments; the expression parser joins neighbours.

use std::rc::Rc;

use nom::branch::alt;
use nom::bytes::complete::{is_not, tag, take_until, take_while, take_while1};
use nom::character::complete::{char, none_of, one_of};
use nom::combinator::{all_consuming, map, opt, recognize, verify};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Parser as _};
use num_bigint::BigInt;

use crate::diag::{Diagnostics, codes};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Most digits of a number.
const DIGITS_MAX: usize = 4096;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tok {
    /// A name or a keyword.
    Word(Rc<str>),
    /// A number; its width and whether it is signed, when written.
    Number(Rc<Number>),
    /// Begins as a number and is none: `8w`, of which `##` makes one; or `'A'`, which is a number of `#if` alone.
    Unfinished(Rc<str>),
    /// A string, without its quotes.
    Text(Rc<str>),
    /// The quote of a string that does not end on its line.
    Open,
    /// What no token begins with: an error where the preprocessor does not skip it, but in annotations.
    Wrong(char),
    /// A number over a limit, and which: an error likewise.
    TooLong(Rc<str>),
    /// An operator, a bracket, `@`, `#`.
    Sign(&'static str),
    /// Behind the last one.
    End,
}

/// A number as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// Value.
    pub(super) value: BigInt,
    /// `8w`: 8, unsigned; `8s`: 8, signed.
    pub(super) width: Option<(u32, bool)>,
    /// Its characters.
    pub(super) text: Rc<str>,
}

/// A token at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) span: SourceSpan,
    /// It is the first of its line.
    pub(super) first: bool,
    /// Blanks or a comment stand before it.
    pub(super) spaced: bool,
}

impl Token {
    /// True for this sign.
    pub(super) fn is(&self, sign: &str) -> bool {
        matches!(self.tok, Tok::Sign(found) if found == sign)
    }

    /// True for this word.
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(&self.tok, Tok::Word(found) if **found == *word)
    }

    /// Its characters; a string has none outside its quotes.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.tok {
            Tok::Word(text) | Tok::Unfinished(text) => Some(text),
            Tok::Number(number) => Some(&number.text),
            Tok::Sign(sign) => Some(sign),
            Tok::Text(_) | Tok::Open | Tok::Wrong(_) | Tok::TooLong(_) | Tok::End => None,
        }
    }

    /// What to report about characters that are no token.
    pub(super) fn complaint(&self) -> Option<String> {
        match &self.tok {
            Tok::Wrong(c) => Some(format!("unexpected character `{}`", c.escape_debug())),
            Tok::TooLong(text) => Some(text.to_string()),
            Tok::Open => Some("this string has no end".to_owned()),
            _ => None,
        }
    }

    /// The word.
    pub(super) fn word(&self) -> Option<&Rc<str>> {
        if let Tok::Word(word) = &self.tok { Some(word) } else { None }
    }
}

/// Signs, longer ones before their beginnings.
const SIGNS: &[&str] = &[
    "|+|=", "|-|=", "&&&", "|+|", "|-|", "<<=", "...", "==", "!=", "<=", ">=", "<<", "&&", "||",
    "++", "..", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", "+", "-", "*", "/", "%", "!",
    "~", "<", ">", "&", "|", "^", "?", ":", "(", ")", "[", "]", "{", "}", ",", "=", ".", ";", "@",
    "#", "'", "$", "`", "\\",
];

type Lexed<'a, T> = IResult<&'a str, T>;

/// All tokens of a file, without one for its end.
pub(super) fn tokens(file: FileId, text: &str, report: &mut Diagnostics) -> Vec<Token> {
    read(file, text, 0, report)
}

/// A string that goes on over the ends of lines, from its quote at `start` on, and the tokens behind it on its last line.
pub(super) fn long_string(
    file: FileId,
    text: &str,
    start: u32,
    report: &mut Diagnostics,
) -> Option<(Token, Vec<Token>)> {
    let (behind, inside) = string(text.get(start as usize..)?, true).ok()?;
    let end = text.len() - behind.len();
    let span = SourceSpan { file, start, end: end as u32 };
    let token = Token { tok: Tok::Text(inside.into()), span, first: false, spaced: true };
    Some((token, read(file, text, end, report)))
}

/// The tokens from a place on: of the whole file where it begins, of the rest of the line elsewhere.
fn read(file: FileId, text: &str, from: usize, report: &mut Diagnostics) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.get(from..).unwrap_or_default();
    let (mut first, mut spaced) = (from == 0, false);
    loop {
        let (behind, newline, blank) = blanks(rest);
        if behind.starts_with("/*") {
            let start = (text.len() - behind.len()) as u32;
            let span = SourceSpan { file, start, end: start + 2 };
            report
                .error(codes::P4_SYNTAX, span, "this comment has no end")
                .help("end it with `*/`");
            return found;
        }
        first |= newline;
        spaced |= blank;
        rest = behind;
        if rest.is_empty() || newline && from > 0 {
            return found;
        }
        let start = text.len() - rest.len();
        let (behind, tok) = match token(rest) {
            Ok(read) => read,
            Err(_) => {
                let c = rest.chars().next().unwrap_or(' ');
                let end = start + c.len_utf8();
                let span = SourceSpan { file, start: start as u32, end: end as u32 };
                let tok = match c {
                    '"' => Tok::Open,
                    c => Tok::Wrong(c),
                };
                found.push(Token { tok, span, first, spaced });
                (first, spaced) = (false, false);
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                continue;
            }
        };
        let end = text.len() - behind.len();
        let span = SourceSpan { file, start: start as u32, end: end as u32 };
        let written = rest.get(..end - start).unwrap_or_default();
        found.push(Token { tok: checked(tok, written), span, first, spaced });
        (first, spaced) = (false, false);
        rest = behind;
    }
}

/// Blanks within a line.
const BLANKS: [char; 5] = [' ', '\t', '\r', '\u{b}', '\u{c}'];

/// What stands behind the end of a line that goes on: behind `\`, blanks and the end, as for cpp.
fn next_line(rest: &str) -> Option<&str> {
    rest.strip_prefix('\\')?.trim_start_matches(BLANKS).strip_prefix('\n')
}

/// Skips blanks and comments; whether a line ended in them, and whether there were any. An open comment is left.
fn blanks(mut rest: &str) -> (&str, bool, bool) {
    let (whole, mut newline) = (rest.len(), false);
    loop {
        let before = rest.len();
        rest = rest.trim_start_matches(BLANKS);
        if let Some(behind) = next_line(rest) {
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('\n') {
            newline = true;
            rest = behind;
        } else if rest.starts_with("//") {
            rest = line_comment_end(rest);
        } else if let Some(open) = rest.strip_prefix("/*")
            && let Ok((behind, _)) = take_until::<_, _, nom::error::Error<&str>>("*/")(open)
        {
            // The ends of lines in it end no directive: it is one blank.
            rest = behind.get(2..).unwrap_or_default();
        }
        if rest.len() == before {
            return (rest, newline, rest.len() != whole);
        }
    }
}

/// What stands behind a comment of one line, from the end of the line on. A line that ends with `\` goes on.
fn line_comment_end(rest: &str) -> &str {
    let mut ends = rest.match_indices('\n');
    let end = ends.find(|(at, _)| {
        !rest.get(..*at).unwrap_or_default().trim_end_matches(BLANKS).ends_with('\\')
    });
    end.and_then(|(at, _)| rest.get(at..)).unwrap_or_default()
}

/// A token's text before its value is computed.
enum Raw<'a> {
    Word(&'a str),
    Digits { width: Option<(&'a str, char)>, radix: u32, digits: &'a str },
    Unfinished(&'a str),
    Text(String),
    Sign(&'static str),
}

fn token(rest: &str) -> Lexed<'_, Raw<'_>> {
    alt((
        number,
        map(word, Raw::Word),
        map(character, Raw::Unfinished),
        map(|rest| string(rest, false), Raw::Text),
        map(sign, Raw::Sign),
    ))
    .parse(rest)
}

/// `'A'` or `'\n'`.
fn character(rest: &str) -> Lexed<'_, &str> {
    let escaped = recognize(preceded(char('\\'), none_of("\n")));
    recognize(delimited(char('\''), alt((escaped, recognize(none_of("'\\\n")))), char('\'')))
        .parse(rest)
}

fn word(rest: &str) -> Lexed<'_, &str> {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    recognize(pair(take_while1(begins), take_while(goes_on))).parse(rest)
}

fn goes_on(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A number ends where no letter or digit follows (ISO C17 6.4.8).
fn number(rest: &str) -> Lexed<'_, Raw<'_>> {
    let begins = |whole: &str| whole.starts_with(|c: char| c.is_ascii_digit());
    let (rest, whole) = verify(take_while1(goes_on), begins).parse(rest)?;
    let known = all_consuming(numeral).parse(whole);
    Ok((rest, known.map_or(Raw::Unfinished(whole), |(_, known)| known)))
}

fn numeral(rest: &str) -> Lexed<'_, Raw<'_>> {
    let width = |rest| pair(digits(10), one_of("ws")).parse(rest);
    let (rest, width) = opt(width).parse(rest)?;
    let marked = |letters: &'static str, radix: u32| {
        move |rest| {
            let (rest, _) = pair(char('0'), one_of(letters)).parse(rest)?;
            digits(radix)(rest).map(|(rest, digits)| (rest, (radix, digits)))
        }
    };
    let plain = map(digits(10), |digits| (10, digits));
    let mut value =
        alt((marked("xX", 16), marked("bB", 2), marked("oO", 8), marked("dD", 10), plain));
    let (rest, (radix, digits)) = value.parse(rest)?;
    Ok((rest, Raw::Digits { width, radix, digits }))
}

/// Digits and `_` behind them.
fn digits(radix: u32) -> impl Fn(&str) -> Lexed<'_, &str> {
    move |rest| {
        let digit = |c: char| c.is_digit(radix);
        let any = |c: char| digit(c) || c == '_';
        if radix != 10 {
            return verify(take_while1(any), |text: &str| text.contains(digit)).parse(rest);
        }
        recognize(pair(take_while1(digit), take_while(any))).parse(rest)
    }
}

/// A string, over the ends of lines too (`long`).
fn string(rest: &str, long: bool) -> Lexed<'_, String> {
    let (mut rest, _) = char('"')(rest)?;
    let mut text = String::new();
    let ends = if long { "\"\\" } else { "\"\\\n" };
    loop {
        let (behind, plain) = opt(is_not(ends)).parse(rest)?;
        text.push_str(plain.unwrap_or_default());
        let escaped = |rest| preceded(char('\\'), nom::character::complete::anychar).parse(rest);
        let (behind, end) = alt((map(escaped, Some), map(char('"'), |_| None))).parse(behind)?;
        rest = behind;
        match end {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some(c) => text.push(c),
            None => return Ok((rest, text)),
        }
    }
}

fn sign(rest: &str) -> Lexed<'_, &'static str> {
    for known in SIGNS {
        if let Ok((rest, _)) = tag::<_, _, nom::error::Error<&str>>(*known)(rest) {
            return Ok((rest, known));
        }
    }
    Err(nom::Err::Error(nom::error::Error::new(rest, nom::error::ErrorKind::Tag)))
}

/// The value of a number, or what is wrong about it.
fn checked(raw: Raw<'_>, written: &str) -> Tok {
    let (width, radix, digits) = match raw {
        Raw::Word(word) => return Tok::Word(word.into()),
        Raw::Text(text) => return Tok::Text(text.into()),
        Raw::Sign(sign) => return Tok::Sign(sign),
        Raw::Unfinished(text) => return Tok::Unfinished(text.into()),
        Raw::Digits { width, radix, digits } => (width, radix, digits),
    };
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    if plain.len() > DIGITS_MAX {
        return Tok::TooLong(format!("a number has at most {DIGITS_MAX} digits").into());
    }
    let value = BigInt::parse_bytes(plain.as_bytes(), radix).unwrap_or_default();
    let width = match width {
        None => None,
        Some((bits, kind)) => match bits.replace('_', "").parse::<u32>() {
            Ok(bits) if bits <= super::WIDTH_MAX => Some((bits, kind == 's')),
            _ => {
                let most = super::WIDTH_MAX;
                let text = format!("a width of {bits} bits is too much: at most {most}");
                return Tok::TooLong(text.into());
            }
        },
    };
    Tok::Number(Number { value, width, text: written.into() }.into())
}
