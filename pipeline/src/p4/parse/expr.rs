//! Expressions, by precedence climbing, and the sets of values of `select` and entries.

use std::rc::Rc;

use super::super::lex::Tok;
use super::super::tree::*;
use super::{Failed, Parser, Read};
use crate::ast::Sp;
use crate::diag::codes;

impl Parser<'_> {
    /// An expression.
    pub(super) fn expression(&mut self) -> Read<Expr> {
        self.nested(|parser| parser.binary(0))
    }

    /// The width in `bit<..>`: no comparison, since `>` ends it.
    pub(super) fn shift_operand(&mut self) -> Read<Expr> {
        self.nested(|parser| parser.binary(9))
    }

    /// Operators of this strength and above; 0 takes `?:` too.
    pub(super) fn binary(&mut self, least: u8) -> Read<Expr> {
        let depth = self.depth;
        let read = self.operators(least);
        self.depth = depth;
        read
    }

    pub(super) fn unary(&mut self) -> Read<Expr> {
        let start = self.span();
        let operator = match self.token(0).tok {
            Tok::Sign("!") => Unary::Not,
            Tok::Sign("~") => Unary::Complement,
            Tok::Sign("-") => Unary::Minus,
            Tok::Sign("+") => Unary::Plus,
            Tok::Sign("(") => {
                if let Some(cast) = self.cast()? {
                    return Ok(cast);
                }
                return self.postfix();
            }
            _ => return self.postfix(),
        };
        self.step();
        let operand = self.nested(Self::unary)?;
        let span = self.since(start);
        Ok(self.expr(ExprKind::Unary(operator, operand), span))
    }

    /// `(T) x`, when what stands in the brackets is a type.
    fn cast(&mut self) -> Read<Option<Expr>> {
        let (start, before) = (self.span(), self.at);
        self.step();
        if !self.at_type() || self.is_word("error") && self.token(1).is(".") {
            self.at = before;
            return Ok(None);
        }
        // `(T.a)` is no cast.
        let dotted = self.token(0).word().is_some() && self.token(1).is(".");
        let called = self.token(0).word().is_some() && self.token(1).is("(");
        if dotted || called {
            self.at = before;
            return Ok(None);
        }
        let ty = self.ty()?;
        if !self.is(")") {
            self.at = before;
            return Ok(None);
        }
        self.step();
        let value = self.nested(Self::unary)?;
        let span = self.since(start);
        Ok(Some(self.expr(ExprKind::Cast(ty, value), span)))
    }

    fn postfix(&mut self) -> Read<Expr> {
        let depth = self.depth;
        let read = self.members();
        self.depth = depth;
        read
    }

    fn members(&mut self) -> Read<Expr> {
        let start = self.span();
        let mut value = self.primary()?;
        loop {
            self.deeper()?;
            if self.take(".") {
                let name = self.member_name()?;
                let span = self.since(start);
                value = self.expr(ExprKind::Member(value, name), span);
            } else if self.is("[") {
                value = self.index(value)?;
            } else if self.is("(") {
                self.step();
                let args = self.list(")", Self::argument)?;
                let span = self.since(start);
                value = self.expr(ExprKind::Call { callee: value, types: Vec::new(), args }, span);
            } else if self.is("<")
                && let Some(types) = self.call_types(&value)
            {
                self.expect("(")?;
                let args = self.list(")", Self::argument)?;
                let span = self.since(start);
                value = self.expr(ExprKind::Call { callee: value, types, args }, span);
            } else {
                return Ok(value);
            }
        }
    }

    /// `[i]`, `[7:0]`, `[i+:8]`.
    fn index(&mut self, value: Expr) -> Read<Expr> {
        let start = value.span;
        self.step();
        let first = self.expression()?;
        let kind = if self.take(":") {
            let low = self.expression()?;
            ExprKind::Slice(value, first, low)
        } else if self.is("+") && self.token(1).is(":") {
            self.step();
            self.step();
            let width = self.expression()?;
            ExprKind::PlusSlice(value, first, width)
        } else {
            ExprKind::Index(value, first)
        };
        self.expect("]")?;
        let span = self.since(start);
        Ok(self.expr(kind, span))
    }

    /// Type arguments of a call, if that is what begins with `<` here; else nothing is read.
    fn call_types(&mut self, callee: &Expr) -> Option<Vec<TypeExpr>> {
        if !matches!(&*callee.kind, ExprKind::Name(..) | ExprKind::Member(..) | ExprKind::Type(_)) {
            return None;
        }
        if !self.looks_like_types() {
            return None;
        }
        self.type_arguments().ok()
    }

    /// Whether from `<` on there are only words of types, up to `>` and `(`. `T` must be a type already.
    fn looks_like_types(&self) -> bool {
        let (mut depth, mut ahead) = (0usize, 0usize);
        loop {
            let token = self.token(ahead);
            match &token.tok {
                Tok::Sign("<") => depth += 1,
                Tok::Sign(">") => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return self.token(ahead + 1).is("(");
                    }
                }
                Tok::Sign("," | "." | "[" | "]") | Tok::Number(_) => {}
                Tok::Sign("(" | ")" | "+" | "-" | "*") if depth > 1 => {}
                Tok::Word(word) => {
                    let known = self.is_type_name(word)
                        || matches!(
                            &**word,
                            "bit"
                                | "int"
                                | "bool"
                                | "varbit"
                                | "tuple"
                                | "error"
                                | "string"
                                | "void"
                                | "_"
                                | "list"
                        )
                        || depth > 1;
                    if !known {
                        return false;
                    }
                }
                _ => return false,
            }
            ahead += 1;
            if ahead > 200 {
                return false;
            }
        }
    }

    pub(super) fn argument(&mut self) -> Read<Arg> {
        let is_name = self.token(0).word().is_some() && self.token(1).is("=");
        let name = if is_name {
            let name = self.member_name()?;
            self.step();
            Some(name)
        } else {
            None
        };
        if self.is_word("_") {
            let span = self.span();
            self.step();
            let value = self.expr(ExprKind::Any, span);
            return Ok(Arg { name, value });
        }
        Ok(Arg { name, value: self.initializer()? })
    }

    /// What a value begins with: an expression, or `...` for the default of its type (P4-16, initializing with default values).
    pub(super) fn initializer(&mut self) -> Read<Expr> {
        let start = self.span();
        if self.take("...") { Ok(self.expr(ExprKind::Dots, start)) } else { self.expression() }
    }

    fn primary(&mut self) -> Read<Expr> {
        let token = self.token(0).clone();
        let start = token.span;
        match &token.tok {
            Tok::Number(number) => {
                self.step();
                let read = self.expr(ExprKind::Number(number.value.clone(), number.width), start);
                let digits = number.text.split_once(['w', 's']).map_or(&*number.text, |(_, to)| to);
                let radix = match digits.get(..2) {
                    Some("0x" | "0X") => 16,
                    Some("0b" | "0B") => 2,
                    Some("0o" | "0O") => 8,
                    _ => 10,
                };
                if radix != 10 {
                    self.radixes.insert(read.id, radix);
                }
                Ok(read)
            }
            Tok::Text(text) => {
                self.step();
                Ok(self.expr(ExprKind::Text(text.clone()), start))
            }
            Tok::Sign("(") => {
                self.step();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(Expr { span: self.since(start), ..inner })
            }
            Tok::Sign("{") => self.braces(),
            Tok::Sign(".") => {
                self.step();
                let name = self.name()?;
                let span = self.since(start);
                if self.is_type_at_top(&name.value) {
                    self.at -= 2;
                    let ty = self.ty()?;
                    return Ok(self.expr(ExprKind::Type(ty), span));
                }
                Ok(self.expr(ExprKind::Name(name, true), span))
            }
            Tok::Word(word) => self.word_operand(&word.clone()),
            _ => {
                self.wanted("an expression");
                Err(Failed)
            }
        }
    }

    fn word_operand(&mut self, word: &Rc<str>) -> Read<Expr> {
        let start = self.span();
        match &**word {
            "true" | "false" => {
                self.step();
                Ok(self.expr(ExprKind::Bool(&**word == "true"), start))
            }
            "this" => {
                self.step();
                Ok(self.expr(ExprKind::Name(Sp::new(word.clone(), start), false), start))
            }
            _ if self.at_type() => {
                let ty = self.ty()?;
                let span = self.since(start);
                Ok(self.expr(ExprKind::Type(ty), span))
            }
            _ => {
                let name = self.name()?;
                Ok(self.expr(ExprKind::Name(name, false), start))
            }
        }
    }

    /// `{ a, b }`, `{ a = 1, ... }`, `{#}`.
    fn braces(&mut self) -> Read<Expr> {
        let start = self.span();
        self.step();
        if self.take("#") {
            self.expect("}")?;
            let span = self.since(start);
            return Ok(self.expr(ExprKind::Invalid, span));
        }
        let is_record = self.token(0).word().is_some() && self.token(1).is("=");
        let mut dots = false;
        let mut fields = Vec::new();
        let mut items = Vec::new();
        loop {
            if self.take("}") {
                break;
            }
            if self.is("...")
                && (self.token(1).is("}") || self.token(1).is(",") && self.token(2).is("}"))
            {
                self.step();
                dots = true;
            } else if is_record {
                let name = self.member_name()?;
                self.expect("=")?;
                fields.push((name, self.initializer()?));
            } else {
                items.push(self.initializer()?);
                if let Some(dots) = items.last().filter(|one| matches!(*one.kind, ExprKind::Dots)) {
                    let text = "`...` is the last of a list: what follows it has no place there";
                    self.report.error(codes::P4_SYNTAX, dots.span, text);
                }
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        let span = self.since(start);
        let kind =
            if is_record { ExprKind::Record(fields, dots) } else { ExprKind::List(items, dots) };
        Ok(self.expr(kind, span))
    }

    /// What a case of `select` or an entry matches: one set, or `(a, b)`.
    pub(super) fn keyset(&mut self) -> Read<Expr> {
        let start = self.span();
        if self.is("(") {
            let before = (self.at, self.expressions);
            self.step();
            let first = self.simple_keyset()?;
            if self.is(",")
                || !matches!(*first.kind, ExprKind::Name(..) | ExprKind::Number(..))
                    && self.is(")")
                    && self.ends_keyset()
            {
                let mut items = vec![first];
                while self.take(",") {
                    if self.is(")") {
                        break;
                    }
                    items.push(self.simple_keyset()?);
                }
                self.expect(")")?;
                let span = self.since(start);
                return Ok(self.expr(ExprKind::Tuple(items), span));
            }
            (self.at, self.expressions) = before;
        }
        self.simple_keyset()
    }

    /// Whether behind the `)` here the keyset is over.
    fn ends_keyset(&self) -> bool {
        self.token(1).is(":")
    }

    fn simple_keyset(&mut self) -> Read<Expr> {
        let start = self.span();
        if self.is_word("default") || self.is_word("_") {
            self.step();
            return Ok(self.expr(ExprKind::Any, start));
        }
        let first = self.expression()?;
        let kind = if self.take("&&&") {
            ExprKind::Mask(first, self.expression()?)
        } else if self.take("..") {
            ExprKind::Range(first, self.expression()?)
        } else {
            return Ok(first);
        };
        let span = self.since(start);
        Ok(self.expr(kind, span))
    }
}
