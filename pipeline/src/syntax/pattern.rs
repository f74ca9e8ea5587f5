//! Patterns of select cases, table entries and value sets; slices of words.

use nom::character::complete::{char, digit1, space0};
use nom::combinator::{all_consuming, map_res, opt};
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser as _};

use super::expression::{Parser, join};
use super::lexer::Kind;
use super::{Parsed, SyntaxError, Text, shown, trimmed_span};
use crate::ast::{Ast, AstBin, AstExpr, PatternDecl, Sp, WordSlice};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// One pattern and nothing behind it.
pub(super) fn parse(text: Text<'_>) -> Parsed<Sp<PatternDecl>> {
    let mut parser = Parser::new(text)?;
    let token = parser.peek();
    let here = parser.span(token.start, token.end);
    let found = match token.kind {
        Kind::Word("_") => {
            parser.take();
            Sp::new(PatternDecl::Any, here)
        }
        Kind::Sign("@") => {
            parser.take();
            let name = parser.word("the name of a value set")?;
            let span = join(here, name.span);
            Sp::new(PatternDecl::Set(name), span)
        }
        Kind::Sign("*") if parser.look(1).kind == Kind::End => {
            let help = Some(super::ANY_VALUE.to_owned());
            return Err(SyntaxError { help, ..parser.expected("a pattern") });
        }
        _ => value(&mut parser)?,
    };
    parser.end("the end of the pattern")?;
    Ok(found)
}

/// `v`, `v &&& mask`, `low..high` or `v/length`.
fn value(parser: &mut Parser<'_>) -> Parsed<Sp<PatternDecl>> {
    let first = parser.expression()?;
    let start = first.span;
    if parser.eat("&&&") {
        let mask = parser.expression()?;
        let span = join(start, mask.span);
        return Ok(Sp::new(PatternDecl::Mask(first, mask), span));
    }
    if parser.eat("..") {
        let high = parser.expression()?;
        let span = join(start, high.span);
        return Ok(Sp::new(PatternDecl::Range(first, high), span));
    }
    if parser.eat("/") {
        let token = parser.peek();
        let Kind::Number { value: length @ 0..=128, bits: None } = token.kind else {
            let most = match first.value {
                Ast::Number { bits: Some(bits), .. } => bits,
                _ => 128,
            };
            return Err(parser.expected(&format!("a prefix length of 0 to {most}")));
        };
        parser.take();
        let span = parser.span(token.start, token.end);
        let length = Sp::new(length as u64, span);
        return Ok(Sp::new(PatternDecl::Prefix(first, length), join(start, span)));
    }
    if parser.peek().kind == Kind::End {
        not_an_operation(&first, |span| parser.source_of(span))?;
    }
    Ok(Sp::new(PatternDecl::Value(first), start))
}

/// Refuses `5000-5999` and `10.0.0.0 & 255.0.0.0`: of two numbers a range and a mask are nearly always meant. In
/// parentheses they are a difference and a number.
pub(crate) fn not_an_operation<'t>(
    value: &AstExpr,
    source: impl Fn(SourceSpan) -> &'t str,
) -> Parsed<()> {
    let Ast::Binary(operator @ (AstBin::Sub | AstBin::And), first, second) = &value.value else {
        return Ok(());
    };
    let is_number = |expr: &AstExpr| matches!(expr.value, Ast::Number { .. });
    let in_parentheses = value.span.start < first.span.start;
    if !is_number(first) || !is_number(second) || in_parentheses {
        return Ok(());
    }
    let (first, second) = (source(first.span), source(second.span));
    let (message, meant) = match operator {
        AstBin::Sub => (
            format!("`{first}-{second}` is a subtraction and not a range"),
            format!("{first}..{second}"),
        ),
        _ => (
            format!("`{first} & {second}` is one number and not a number with a mask"),
            format!("{first} &&& {second}"),
        ),
    };
    let help = Some(format!("write `{meant}`"));
    Err(SyntaxError { code: codes::BAD_PATTERN, span: value.span, message, help })
}

/// `w2[11:8]` or `w2[3]`.
pub(super) fn word_slice(text: Text<'_>) -> Parsed<Sp<WordSlice>> {
    let trimmed = text.text.trim();
    let span = trimmed_span(text);
    let error = |message: String| SyntaxError {
        code: codes::SYNTAX,
        span,
        message,
        help: Some("a slice is `w2[11:8]`: word 2, bits 11 down to 8; one bit is `w2[3]`".into()),
    };
    let (_, (word, high, low)) = all_consuming(slice_parts)
        .parse(trimmed)
        .map_err(|_| error(format!("`{}` is not a slice of a word", shown(trimmed))))?;
    let low = low.unwrap_or(high);
    if high < low {
        return Err(error(format!("the slice `{trimmed}` has its low bit first")));
    }
    Ok(Sp::new(WordSlice { word, high, low }, span))
}

fn slice_parts(input: &str) -> IResult<&str, (u32, u32, Option<u32>)> {
    let number = |input| map_res(delimited(space0, digit1, space0), str::parse::<u32>).parse(input);
    let (input, _) = char('w').parse(input)?;
    let (input, word) = map_res(digit1, str::parse::<u32>).parse(input)?;
    let low = opt(preceded(char(':'), number));
    let (input, (high, low)) = delimited(char('['), (number, low), char(']')).parse(input)?;
    Ok((input, (word, high, low)))
}
