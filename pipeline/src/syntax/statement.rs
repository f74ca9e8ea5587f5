//! Statements in one string.

use super::expression::Parser;
use super::lexer::Kind;
use super::{Parsed, SyntaxError, Text};
use crate::ast::{Name, StmtKind};

/// One statement and nothing after it.
pub(super) fn parse(text: Text<'_>) -> Parsed<StmtKind> {
    let mut parser = Parser::new(text)?;
    let next = parser.look(1).kind;
    let found = match parser.peek().kind {
        Kind::Word("let") if matches!(next, Kind::Word(_)) => {
            parser.take();
            let name = parser.word("a name")?;
            parser.need("=")?;
            StmtKind::Let(name, parser.expression()?)
        }
        Kind::Word(word @ ("drop" | "punt")) if matches!(next, Kind::Word(_) | Kind::End) => {
            parser.take();
            let reason = reason(&mut parser)?;
            if word == "drop" { StmtKind::Drop(reason) } else { StmtKind::Punt(reason) }
        }
        Kind::Word("exit") if next == Kind::End => {
            parser.take();
            StmtKind::Exit
        }
        Kind::Word("return") if next == Kind::End => {
            parser.take();
            StmtKind::Return
        }
        Kind::Word(_) => call_or_assignment(&mut parser)?,
        _ => return Err(parser.expected("a statement")),
    };
    parser.end("the end of the statement")?;
    Ok(found)
}

fn reason(parser: &mut Parser<'_>) -> Parsed<Option<Name>> {
    if parser.peek().kind == Kind::End {
        return Ok(None);
    }
    let name = parser.word("a reason")?;
    match parser.peek().kind {
        Kind::End => Ok(Some(name)),
        _ => {
            let help = "a reason is a name: a letter or `_`, then letters, digits and `_`";
            let error = parser.expected("the end of the statement");
            Err(SyntaxError { help: Some(help.to_owned()), ..error })
        }
    }
}

fn call_or_assignment(parser: &mut Parser<'_>) -> Parsed<StmtKind> {
    let target = parser.path()?;
    let single = target.value.single().cloned();
    match (parser.peek().kind, single) {
        (Kind::End, Some(name)) => return Ok(StmtKind::Call(name, Vec::new())),
        (Kind::Sign("("), Some(name)) => return Ok(StmtKind::Call(name, parser.arguments()?)),
        _ => {}
    }
    let slice = if parser.eat("[") { Some(parser.slice_bounds()?) } else { None };
    if !parser.eat("=") {
        let word = target.value.single().map(|name| name.value.as_str());
        return Err(not_an_assignment(parser, word));
    }
    Ok(StmtKind::Assign(target, slice, parser.expression()?))
}

/// Keys that make a map a statement.
const KEYS: [&str; 6] = ["if", "switch", "apply", "call", "update", "learn"];

/// The error for a token in place of `=` behind a word, with advice for keys without a colon and the operators of other
/// languages.
fn not_an_assignment(parser: &Parser<'_>, word: Option<&str>) -> SyntaxError {
    let help = match (parser.peek().kind, parser.look(1).kind) {
        (Kind::Word(next), behind) if word.is_some_and(|word| KEYS.contains(&word)) => {
            let value = if behind == Kind::End { next } else { ".." };
            Some(format!("a `:` is missing: `{}: {value}`", word.unwrap_or_default()))
        }
        (Kind::Sign("=="), _) => Some("`=` assigns; `==` compares, in an expression".to_owned()),
        (Kind::Sign(sign @ ("+" | "-" | "|" | "&" | "^" | "*" | "<<" | ">>")), Kind::Sign("=")) => {
            Some(format!("there is no `{sign}=`: write `x = x {sign} ..`"))
        }
        (Kind::Sign("++"), Kind::End) => Some("there is no `++`: write `x = x + 1`".to_owned()),
        (Kind::Sign(":"), Kind::Sign("=")) => Some("write `=`".to_owned()),
        (Kind::End, _) => Some("a statement assigns (`x = ..`) or calls (`name(..)`)".to_owned()),
        _ => None,
    };
    SyntaxError { help, ..parser.expected("`=`") }
}
