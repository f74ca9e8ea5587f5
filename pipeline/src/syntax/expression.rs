//! The parser of expressions: operators by precedence, then what an operand can be.

use super::lexer::{Kind, Token, tokens};
use super::{DEPTH_MAX, Parsed, SyntaxError, Text};
use crate::ast::{Ast, AstBin, AstExpr, AstUn, Path, PathPart, Sp};
use crate::diag::{Code, codes};
use crate::ir::SourceSpan;

/// Operators of two operands with their strength; higher binds stronger.
const BINARY: &[(&str, u8, AstBin)] = &[
    ("||", 1, AstBin::LogicalOr),
    ("&&", 2, AstBin::LogicalAnd),
    ("==", COMPARISON, AstBin::Eq),
    ("!=", COMPARISON, AstBin::Ne),
    ("<", COMPARISON, AstBin::Lt),
    ("<=", COMPARISON, AstBin::Le),
    (">", COMPARISON, AstBin::Gt),
    (">=", COMPARISON, AstBin::Ge),
    ("|", 4, AstBin::Or),
    ("^", 5, AstBin::Xor),
    ("&", 6, AstBin::And),
    ("++", 7, AstBin::Concat),
    ("<<", 8, AstBin::Shl),
    (">>", 8, AstBin::Shr),
    ("+", 9, AstBin::Add),
    ("-", 9, AstBin::Sub),
    ("|+|", 9, AstBin::SatAdd),
    ("|-|", 9, AstBin::SatSub),
    ("*", 10, AstBin::Mul),
    ("%", 10, AstBin::Rem),
];
/// Comparisons: the one level that does not chain.
const COMPARISON: u8 = 3;

/// The tokens of one text and the position of the reader.
pub(super) struct Parser<'t> {
    text: Text<'t>,
    tokens: Vec<Token<'t>>,
    at: usize,
    depth: u32,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: Text<'t>) -> Parsed<Self> {
        Ok(Parser { text, tokens: tokens(text)?, at: 0, depth: 0 })
    }

    /// The next token; [`Kind::End`] always after the last one.
    pub(super) fn peek(&self) -> Token<'t> {
        self.look(0)
    }

    /// The token `ahead` of the next one.
    pub(super) fn look(&self, ahead: usize) -> Token<'t> {
        let end = Token { kind: Kind::End, start: self.text.text.len(), end: self.text.text.len() };
        self.tokens.get(self.at + ahead).or(self.tokens.last()).copied().unwrap_or(end)
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Takes the next token if it is this symbol.
    pub(super) fn eat(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().kind, Kind::Sign(found) if found == sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn span(&self, start: usize, end: usize) -> SourceSpan {
        self.text.span(start..end)
    }

    /// The end of the last token taken.
    fn last_end(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.end)
    }

    /// An error at the next token.
    pub(super) fn error(&self, message: impl Into<String>) -> SyntaxError {
        let token = self.peek();
        self.error_at(token, codes::SYNTAX, message)
    }

    pub(super) fn error_at(
        &self,
        token: Token<'_>,
        code: Code,
        message: impl Into<String>,
    ) -> SyntaxError {
        let span = self.span(token.start, token.end);
        SyntaxError { code, span, message: message.into(), help: None }
    }

    /// `expected WHAT, found TOKEN`, with the token before when nothing follows.
    pub(super) fn expected(&self, what: &str) -> SyntaxError {
        let found = match self.peek().kind {
            Kind::End => None,
            _ => Some(self.source(self.peek())),
        };
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at).copied());
        let after = before.map(|token| format!(" after `{}`", self.source(token)));
        let after = after.unwrap_or_default();
        self.error(match found {
            Some(found) => format!("expected {what}{after}, found `{found}`"),
            None if before.is_some() => format!("expected {what}{after}"),
            None => format!("expected {what}, found nothing"),
        })
    }

    /// The text of a token.
    fn source(&self, token: Token<'_>) -> &'t str {
        self.text.text.get(token.start..token.end).unwrap_or_default()
    }

    /// The text of a span; of an inexact one, the whole.
    pub(super) fn source_of(&self, span: SourceSpan) -> &'t str {
        let Some(start) = self.text.start else { return self.text.text };
        let at = |offset: u32| offset.saturating_sub(start) as usize;
        self.text.text.get(at(span.start)..at(span.end)).unwrap_or_default()
    }

    /// Nothing may follow.
    pub(super) fn end(&self, what: &str) -> Parsed<()> {
        let token = self.peek();
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|one| one.kind);
        let help = match token.kind {
            Kind::End => return Ok(()),
            // `route 1`, as the command line has it.
            Kind::Number { .. } if self.at == 1 && matches!(before, Some(Kind::Word(_))) => {
                Some("arguments stand in parentheses: `name(1)`")
            }
            Kind::Sign("/")
                if matches!(before, Some(Kind::Number { bits: Some(32 | 128), .. })) =>
            {
                Some(
                    "a prefix is a pattern, for entries and cases of the parser; compare with a mask: `x & 255.0.0.0 == 10.0.0.0`, `x & ffff:: == 2001::`",
                )
            }
            Kind::Sign("/") => Some(
                "there is no `/`; shift with `>>` (`x >> 1` is a half), or in a rate control write `div(a, b)`",
            ),
            Kind::Sign("=") => Some("`==` compares; `=` assigns, in a statement"),
            Kind::Sign("&&&" | "..") => Some("masks and ranges belong to patterns"),
            Kind::Word("and") => Some("write `&&`"),
            Kind::Word("or") => Some("write `||`"),
            _ => None,
        };
        Err(SyntaxError { help: help.map(Into::into), ..self.expected(what) })
    }

    /// Takes this sign or fails.
    pub(super) fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.eat(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    /// An expression of any kind.
    pub(super) fn expression(&mut self) -> Parsed<AstExpr> {
        self.deeper(|parser| {
            let condition = parser.binary(1)?;
            if !parser.eat("?") {
                return Ok(condition);
            }
            let yes = parser.expression()?;
            parser.need(":")?;
            let no = parser.expression()?;
            let span = join(condition.span, no.span);
            let [condition, yes, no] = [condition, yes, no].map(Box::new);
            Ok(Sp::new(Ast::Mux(condition, yes, no), span))
        })
    }

    /// Runs `inner` one level deeper, within the limit.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            let message = format!("an expression nested deeper than {DEPTH_MAX} levels");
            return Err(self.error_at(self.peek(), codes::LIMIT, message));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    /// Operands with operators of at least this strength between them.
    fn binary(&mut self, least: u8) -> Parsed<AstExpr> {
        let mut left = self.unary()?;
        while let Some((strength, operator)) = self.operator()
            && strength >= least
        {
            self.at += 1;
            let right = self.binary(strength + 1)?;
            if strength == COMPARISON
                && let Some((COMPARISON, _)) = self.operator()
            {
                return Err(SyntaxError {
                    help: Some("write `a < b && b < c`, or use parentheses".into()),
                    ..self.error("comparisons do not chain")
                });
            }
            let span = join(left.span, right.span);
            left = Sp::new(Ast::Binary(operator, Box::new(left), Box::new(right)), span);
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(u8, AstBin)> {
        let Kind::Sign(sign) = self.peek().kind else { return None };
        BINARY.iter().find(|(text, ..)| *text == sign).map(|(_, strength, op)| (*strength, *op))
    }

    fn unary(&mut self) -> Parsed<AstExpr> {
        let token = self.peek();
        let operator = match token.kind {
            Kind::Sign("!") => AstUn::Not,
            Kind::Sign("~") => AstUn::Complement,
            Kind::Sign("-") => AstUn::Negate,
            _ => return self.postfix(),
        };
        self.at += 1;
        let operand = self.deeper(Self::unary)?;
        let span = join(self.span(token.start, token.end), operand.span);
        Ok(Sp::new(Ast::Unary(operator, Box::new(operand)), span))
    }

    /// An operand and the slices behind it.
    fn postfix(&mut self) -> Parsed<AstExpr> {
        let start = self.peek().start;
        let mut value = self.operand()?;
        while self.eat("[") {
            let (high, low) = self.slice_bounds()?;
            let span = self.span(start, self.last_end());
            let [inner, high, low] = [value, high, low].map(Box::new);
            value = Sp::new(Ast::Slice { value: inner, high, low }, span);
        }
        Ok(value)
    }

    /// `high:low]`, behind the bracket.
    pub(super) fn slice_bounds(&mut self) -> Parsed<(AstExpr, AstExpr)> {
        let high = self.expression()?;
        if !self.eat(":") {
            return Err(SyntaxError {
                help: Some("a slice is `value[high:low]`; one bit is `value[3:3]`".into()),
                ..self.expected("`:`")
            });
        }
        let low = self.expression()?;
        self.need("]")?;
        Ok((high, low))
    }

    fn operand(&mut self) -> Parsed<AstExpr> {
        let token = self.peek();
        let here = self.span(token.start, token.end);
        match token.kind {
            Kind::Number { value, bits } => {
                self.at += 1;
                Ok(Sp::new(Ast::Number { value, bits }, here))
            }
            Kind::Sign("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.need(")")?;
                Ok(Sp::new(inner.value, self.span(token.start, self.last_end())))
            }
            Kind::Word("true" | "false") => {
                self.at += 1;
                Ok(Sp::new(Ast::Bool(token.kind == Kind::Word("true")), here))
            }
            Kind::Word("bit") if self.look(1).kind == Kind::Sign("<") => self.cast(),
            Kind::Word(name) if self.look(1).kind == Kind::Sign("(") => {
                self.at += 1;
                let mut arguments = self.arguments()?;
                let span = self.span(token.start, self.last_end());
                if name == "signed" && arguments.len() == 1 {
                    let value = Box::new(arguments.remove(0));
                    return Ok(Sp::new(Ast::Signed(value), span));
                }
                Ok(Sp::new(Ast::Call(Sp::new(name.to_owned(), here), arguments), span))
            }
            Kind::Word(_) => {
                let path = self.path()?;
                Ok(Sp::new(Ast::Path(path.value), path.span))
            }
            _ => Err(self.expected("an operand")),
        }
    }

    /// `bit<16>(value)`.
    fn cast(&mut self) -> Parsed<AstExpr> {
        let start = self.take().start;
        self.need("<")?;
        let token = self.peek();
        let Kind::Number { value: bits @ 1..=128, bits: None } = token.kind else {
            return Err(self.expected("a width of 1 to 128 bits"));
        };
        self.at += 1;
        let bits = Sp::new(bits as u64, self.span(token.start, token.end));
        self.need(">")?;
        self.need("(")?;
        let value = self.expression()?;
        self.need(")")?;
        let span = self.span(start, self.last_end());
        Ok(Sp::new(Ast::Cast(bits, Box::new(value)), span))
    }

    /// `(a, b)`.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<AstExpr>> {
        self.need("(")?;
        let mut found = Vec::new();
        if self.eat(")") {
            return Ok(found);
        }
        loop {
            found.push(self.argument()?);
            if self.eat(")") {
                return Ok(found);
            }
            if !self.eat(",") {
                return Err(self.expected("`,` or `)`"));
            }
        }
    }

    /// `value` or `name = value`.
    fn argument(&mut self) -> Parsed<AstExpr> {
        if !(matches!(self.peek().kind, Kind::Word(_)) && self.look(1).kind == Kind::Sign("=")) {
            return self.expression();
        }
        let name = self.word("a name")?;
        self.need("=")?;
        let value = self.expression()?;
        let span = join(name.span, value.span);
        Ok(Sp::new(Ast::Named(name, Box::new(value)), span))
    }

    /// `a.b[i].c`; stops before a slice, which is part of the expression.
    pub(super) fn path(&mut self) -> Parsed<Sp<Path>> {
        let start = self.peek().start;
        let mut parts = vec![PathPart::Name(self.word("a name")?)];
        loop {
            let before = self.at;
            if self.eat(".") {
                parts.push(PathPart::Name(self.word("a name")?));
            } else if self.eat("[") {
                let index = self.expression()?;
                if self.peek().kind == Kind::Sign(":") {
                    self.at = before;
                    break;
                }
                self.need("]")?;
                parts.push(PathPart::Index(index));
            } else {
                break;
            }
        }
        Ok(Sp::new(Path { parts }, self.span(start, self.last_end())))
    }

    /// A name.
    pub(super) fn word(&mut self, what: &str) -> Parsed<Sp<String>> {
        let token = self.peek();
        let Kind::Word(word) = token.kind else { return Err(self.expected(what)) };
        self.at += 1;
        Ok(Sp::new(word.to_owned(), self.span(token.start, token.end)))
    }
}

/// From the start of one to the end of the other.
pub(super) fn join(first: SourceSpan, last: SourceSpan) -> SourceSpan {
    SourceSpan { file: first.file, start: first.start, end: last.end.max(first.end) }
}
