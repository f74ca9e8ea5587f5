//! Operators of two operands and `?:`, by precedence climbing.

use super::super::lex::Tok;
use super::super::tree::*;
use super::{Parser, Read};
use crate::ir::SourceSpan;

/// How strong an operator binds; `None`: no operator of two operands.
fn strength(sign: &str) -> Option<(u8, Binary)> {
    use AstBin::*;
    let (strength, operator) = match sign {
        "||" => (1, LogicalOr),
        "&&" => (2, LogicalAnd),
        "==" => (3, Eq),
        "!=" => (3, Ne),
        "<" => (4, Lt),
        ">" => (4, Gt),
        "<=" => (4, Le),
        ">=" => (4, Ge),
        "|" => (5, Or),
        "^" => (6, Xor),
        "&" => (7, And),
        "<<" => (8, Shl),
        ">>" => (8, Shr),
        "++" => (9, Concat),
        "+" => (9, Add),
        "-" => (9, Sub),
        "|+|" => (9, SatAdd),
        "|-|" => (9, SatSub),
        "*" => (10, Mul),
        "/" => return Some((10, Binary::Div)),
        "%" => (10, Rem),
        _ => return None,
    };
    Some((strength, Binary::Op(operator)))
}

/// Most operands of a chain that is read from the left: `((a + b) + c) + d`.
const CHAIN_MAX: usize = 32;

/// Operands with one operator between them. A long chain becomes a flat tree where the order does not matter.
struct Chain {
    operator: Option<Binary>,
    first: Expr,
    rest: Vec<Expr>,
}

impl Chain {
    fn of(first: Expr) -> Self {
        Chain { operator: None, first, rest: Vec::new() }
    }

    /// Whether this operator joins one more operand to it.
    fn goes_on(&self, operator: Binary) -> bool {
        use AstBin::*;
        let is_open = matches!(
            operator,
            Binary::Op(LogicalOr | LogicalAnd | Or | Xor | And | Concat | Add | Mul)
        );
        self.operator.is_none_or(|own| is_open && own == operator)
    }

    fn is_deeper_with_one_more(&self) -> bool {
        let count = self.rest.len() + 1;
        count < CHAIN_MAX || count.is_power_of_two()
    }
}

impl Parser<'_> {
    /// Operators of this strength and above. A chain of them counts as so many levels as its tree has.
    pub(super) fn operators(&mut self, least: u8) -> Read<Expr> {
        let start = self.span();
        let mut chain = Chain::of(self.unary()?);
        loop {
            if least == 0 && self.take("?") {
                self.deeper()?;
                let condition = self.joined(chain);
                let then = self.expression()?;
                self.expect(":")?;
                let other = self.expression()?;
                let span = self.since(start);
                chain = Chain::of(self.expr(ExprKind::Mux(condition, then, other), span));
                continue;
            }
            let Some((strength, operator)) = self.operator(least) else {
                return Ok(self.joined(chain));
            };
            if !chain.goes_on(operator) {
                chain = Chain::of(self.joined(chain));
            }
            if chain.is_deeper_with_one_more() {
                self.deeper()?;
            }
            chain.operator = Some(operator);
            chain.rest.push(self.nested(|parser| parser.binary(strength + 1))?);
        }
    }

    /// Reads the operator that stands here, if it is one of this strength or above.
    fn operator(&mut self, least: u8) -> Option<(u8, Binary)> {
        let Tok::Sign(sign) = self.token(0).tok else { return None };
        let joined =
            sign == ">" && self.token(1).is(">") && !self.token(1).spaced && !self.token(1).first;
        let sign = if joined { ">>" } else { sign };
        // `>>=` is an assignment.
        if joined && self.token(2).is("=") && !self.token(2).spaced
            || sign == ">" && self.token(1).is(">=") && !self.token(1).spaced
        {
            return None;
        }
        // `[base+:width]`.
        if sign == "+" && self.token(1).is(":") {
            return None;
        }
        let found = strength(sign).filter(|(strength, _)| *strength >= least.max(1))?;
        self.step();
        if joined {
            self.step();
        }
        Some(found)
    }

    /// The tree of a chain.
    fn joined(&mut self, chain: Chain) -> Expr {
        let Chain { operator: Some(operator), mut first, mut rest } = chain else {
            return chain.first;
        };
        while rest.len() >= CHAIN_MAX {
            let mut all = rest.into_iter();
            first = self.pair(operator, first, all.next());
            let mut halved = Vec::new();
            while let Some(left) = all.next() {
                halved.push(self.pair(operator, left, all.next()));
            }
            rest = halved;
        }
        rest.into_iter().fold(first, |left, right| self.pair(operator, left, Some(right)))
    }

    fn pair(&mut self, operator: Binary, left: Expr, right: Option<Expr>) -> Expr {
        let Some(right) = right else { return left };
        let end = match left.span.file == right.span.file {
            true => left.span.end.max(right.span.end),
            false => left.span.end,
        };
        let span = SourceSpan { end, ..left.span };
        self.expr(ExprKind::Binary(operator, left, right), span)
    }
}
