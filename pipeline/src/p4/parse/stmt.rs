//! Statements.

use super::super::lex::Tok;
use super::super::tree::*;
use super::{Failed, Parser, Read};
use crate::diag::codes;

/// Assignments with an operator.
fn compound(sign: &str) -> Option<Binary> {
    use AstBin::*;
    Some(Binary::Op(match sign {
        "+=" => Add,
        "-=" => Sub,
        "*=" => Mul,
        "/=" => return Some(Binary::Div),
        "%=" => Rem,
        "&=" => And,
        "|=" => Or,
        "^=" => Xor,
        "|+|=" => SatAdd,
        "|-|=" => SatSub,
        "<<=" => Shl,
        _ => return None,
    }))
}

impl Parser<'_> {
    /// `{ .. }`.
    pub(super) fn block(&mut self) -> Read<Block> {
        self.annotations()?;
        let brace = self.span();
        self.expect("{")?;
        let outer = self.block;
        self.block = outer.or(Some(brace));
        let statements = self.scoped(|parser| parser.statements_until(|parser| parser.is("}")));
        self.block = outer;
        self.expect("}")?;
        Ok(Block { statements })
    }

    /// Refuses a declaration where a statement is: the block before it has no end, and what follows is not in it.
    fn block_has_an_end(&mut self) -> Read<()> {
        let begins = match self.token(0).word().map(|word| &**word) {
            Some("apply") => self.token(1).is("{"),
            Some("table" | "state") => self.token(1).word().is_some() && self.token(2).is("{"),
            Some("action") => self.token(1).word().is_some() && self.token(2).is("("),
            _ => self.begins_block(),
        };
        match self.block {
            Some(brace) if begins && self.has_open_brace() => Err(self.not_closed(brace)),
            _ => Ok(()),
        }
    }

    /// Statements up to what ends them.
    pub(super) fn statements_until(&mut self, ends: impl Fn(&Self) -> bool) -> Vec<Stmt> {
        let mut statements = Vec::new();
        while !ends(self) && !self.is("}") && !self.peek_is_end() {
            let before = self.at;
            match self.statement() {
                Ok(Some(statement)) => statements.push(statement),
                Ok(None) => {}
                Err(Failed) => self.recover(before),
            }
        }
        statements
    }

    /// A statement; `None` for an empty one.
    fn statement(&mut self) -> Read<Option<Stmt>> {
        self.nested(Self::statement_inner)
    }

    fn statement_inner(&mut self) -> Read<Option<Stmt>> {
        let start = self.span();
        if self.take(";") {
            return Ok(None);
        }
        let annotations = self.annotations()?;
        self.block_has_an_end()?;
        let word = self.token(0).word().cloned();
        let kind = match word.as_deref() {
            None if self.is("{") => StmtKind::Block(self.block()?),
            Some("if") => self.conditional()?,
            Some("switch") => self.switch()?,
            Some("for") => self.for_loop()?,
            Some("return") => {
                self.step();
                let value = if self.is(";") { None } else { Some(self.initializer()?) };
                self.expect(";")?;
                StmtKind::Return(value)
            }
            Some("exit") => self.keyword(StmtKind::Exit)?,
            Some("break") => self.keyword(StmtKind::Break)?,
            Some("continue") => self.keyword(StmtKind::Continue)?,
            Some("const") => StmtKind::Declare(self.constant(annotations)?),
            _ if self.begins_declaration() => {
                let decl = self.variable(annotations)?;
                StmtKind::Declare(decl)
            }
            _ => {
                let kind = self.assignment()?;
                self.expect(";")?;
                kind
            }
        };
        Ok(Some(Stmt { kind, span: self.since(start) }))
    }

    fn keyword(&mut self, kind: StmtKind) -> Read<StmtKind> {
        self.step();
        self.expect(";")?;
        Ok(kind)
    }

    /// A type begins here, and it is not `T.apply(..)` or `error.X`.
    pub(super) fn begins_declaration(&self) -> bool {
        if !self.at_type() {
            return false;
        }
        let behind = if self.is(".") { 2 } else { 1 };
        if self.token(behind).is("<") {
            return self.behind_angle(behind).is_none_or(|behind| !self.token(behind).is("."));
        }
        !self.token(behind).is(".") && !self.token(behind).is("=")
    }

    /// `a = b`, `a += b`, or a call, without its `;`.
    fn assignment(&mut self) -> Read<StmtKind> {
        let target = self.expression()?;
        if self.take("=") {
            return Ok(StmtKind::Assign(target, None, self.initializer()?));
        }
        if self.is(">") && self.token(1).is(">=") {
            self.step();
            self.step();
            return Ok(StmtKind::Assign(target, Some(Binary::Op(AstBin::Shr)), self.expression()?));
        }
        let operator = match self.token(0).tok {
            Tok::Sign(sign) => compound(sign),
            _ => None,
        };
        if let Some(operator) = operator {
            self.step();
            return Ok(StmtKind::Assign(target, Some(operator), self.expression()?));
        }
        if matches!(&*target.kind, ExprKind::Call { .. }) {
            return Ok(StmtKind::Call(target));
        }
        self.wanted("`=`, or a call");
        Err(Failed)
    }

    fn conditional(&mut self) -> Read<StmtKind> {
        self.step();
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        let then = self.branch()?;
        let other = if self.take_word("else") { Some(Box::new(self.branch()?)) } else { None };
        Ok(StmtKind::If(condition, Box::new(then), other))
    }

    /// A statement as a branch or body, in a scope of its own.
    fn branch(&mut self) -> Read<Stmt> {
        let start = self.span();
        let statement = self.scoped(Self::statement)?;
        if let Some(Stmt { kind: StmtKind::Declare(decl), .. }) = &statement {
            let text = "a declaration stands in a block: put it in `{ }`";
            self.report.error(codes::P4_SYNTAX, decl.name.span, text);
        }
        Ok(statement.unwrap_or_else(|| {
            let block = Block { statements: Vec::new() };
            Stmt { kind: StmtKind::Block(block), span: start }
        }))
    }

    fn switch(&mut self) -> Read<StmtKind> {
        self.step();
        self.expect("(")?;
        let value = self.expression()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.take("}") {
            let start = self.span();
            let label = if self.take_word("default") { None } else { Some(self.expression()?) };
            self.expect(":")?;
            let has_body = self.is("{") || self.is("@");
            let body = if has_body { Some(self.block()?) } else { None };
            cases.push(SwitchCase { label, body, span: self.since(start) });
        }
        Ok(StmtKind::Switch(value, cases))
    }

    fn for_loop(&mut self) -> Read<StmtKind> {
        self.step();
        self.expect("(")?;
        self.scoped(Self::for_inner)
    }

    fn for_inner(&mut self) -> Read<StmtKind> {
        let annotations = self.annotations()?;
        if self.begins_declaration() {
            let before = (self.at, self.expressions, self.declarations);
            let ty = self.ty()?;
            let name = self.name()?;
            if self.take_word("in") {
                self.declare(&name, false);
                let decl = self.decl(annotations, name, DeclKind::Variable(ty, None));
                let values = self.range_or_list()?;
                self.expect(")")?;
                return Ok(StmtKind::ForIn(decl, values, Box::new(self.branch()?)));
            }
            (self.at, self.expressions, self.declarations) = before;
        } else if self.token(0).word().is_some() && self.token(1).is_word("in") {
            let span = self.span();
            let text = "the variable of a loop is declared in it: `for (bit<8> i in 0..7)`";
            self.report.error(codes::P4_SYNTAX, span, text);
            return Err(Failed);
        }
        let init = self.for_statements(";")?;
        let condition = self.expression()?;
        self.expect(";")?;
        let update = self.for_statements(")")?;
        let body = Box::new(self.branch()?);
        Ok(StmtKind::For { init, condition, update, body })
    }

    fn range_or_list(&mut self) -> Read<Expr> {
        let start = self.span();
        let first = self.expression()?;
        if self.take("..") {
            let last = self.expression()?;
            let span = self.since(start);
            return Ok(self.expr(ExprKind::Range(first, last), span));
        }
        Ok(first)
    }

    fn for_statements(&mut self, close: &'static str) -> Read<Vec<Stmt>> {
        let mut found = Vec::new();
        while !self.take(close) {
            let start = self.span();
            let annotations = self.annotations()?;
            let kind = if self.begins_declaration() {
                StmtKind::Declare(self.variable_without_end(annotations)?)
            } else {
                self.assignment()?
            };
            found.push(Stmt { kind, span: self.since(start) });
            if !self.take(",") {
                self.expect(close)?;
                return Ok(found);
            }
        }
        Ok(found)
    }
}
