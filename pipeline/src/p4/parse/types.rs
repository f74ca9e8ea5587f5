//! Types, type parameters and parameters.

use std::rc::Rc;

use super::super::lex::Tok;
use super::super::tree::*;
use super::{Failed, Parser, Read};
use crate::ast::Sp;
use crate::diag::codes;

impl Parser<'_> {
    /// True if a type begins here.
    pub(super) fn at_type(&self) -> bool {
        let token = self.token(0);
        if token.is(".") {
            return self.token(1).word().is_some_and(|word| self.is_type_at_top(word));
        }
        match token.word().map(|word| &**word) {
            Some(
                "bit" | "int" | "bool" | "varbit" | "tuple" | "error" | "string" | "void"
                | "match_kind",
            ) => true,
            Some("list") => self.token(1).is("<"),
            Some(word) => self.is_type_name(word),
            None => false,
        }
    }

    pub(super) fn ty(&mut self) -> Read<TypeExpr> {
        let depth = self.depth;
        let read = self.nested(Self::type_inner);
        self.depth = depth;
        read
    }

    fn type_inner(&mut self) -> Read<TypeExpr> {
        let start = self.span();
        let word = self.token(0).word().cloned();
        let kind = match word.as_deref() {
            Some("bit") => self.sized(TypeKind::Bit)?,
            Some("int") if self.token(1).is("<") => self.sized(TypeKind::Int)?,
            Some("varbit") => self.sized(TypeKind::Varbit)?,
            Some("tuple") => {
                self.step();
                TypeKind::Tuple(self.type_arguments()?)
            }
            Some("list") if self.token(1).is("<") => {
                self.step();
                let mut args = self.type_arguments()?;
                match (args.pop(), args.is_empty()) {
                    (Some(one), true) => TypeKind::List(one),
                    _ => {
                        self.wanted("one type for `list<..>`");
                        return Err(Failed);
                    }
                }
            }
            Some("int") => self.simple(TypeKind::Integer),
            Some("bool") => self.simple(TypeKind::Bool),
            Some("error") => self.simple(TypeKind::Error),
            Some("match_kind") => self.simple(TypeKind::MatchKind),
            Some("string") => self.simple(TypeKind::Text),
            Some("void") => self.simple(TypeKind::Void),
            Some("_") => self.simple(TypeKind::Any),
            _ => {
                let global = self.take(".");
                let name = self.name()?;
                let args = if self.is("<") { self.type_arguments()? } else { Vec::new() };
                TypeKind::Name { name, args, global }
            }
        };
        let mut ty = Rc::new(Sp::new(kind, self.since(start)));
        while self.is("[") {
            self.deeper()?;
            self.step();
            let size = self.expression()?;
            self.expect("]")?;
            ty = Rc::new(Sp::new(TypeKind::Stack(ty, size), self.since(start)));
        }
        Ok(ty)
    }

    fn simple(&mut self, kind: TypeKind) -> TypeKind {
        self.step();
        kind
    }

    /// `bit<8>`, `bit<(W + 1)>`, `bit`.
    fn sized(&mut self, kind: fn(Expr) -> TypeKind) -> Read<TypeKind> {
        let span = self.span();
        self.step();
        if !self.take("<") {
            let one = self.expr(ExprKind::Number(1.into(), None), span);
            return Ok(kind(one));
        }
        let is_number = matches!(self.token(0).tok, Tok::Number(_)) && self.token(1).is(">");
        let is_plain = is_number || self.is("(");
        let size = self.shift_operand()?;
        if !is_plain {
            let text = "a width is a number, or a value in parentheses";
            let error = self.report.error(codes::P4_SYNTAX, size.span, text);
            error.help("write `bit<(W)>`");
        }
        self.expect(">")?;
        Ok(kind(size))
    }

    /// `<T, bit<8>>`.
    pub(super) fn type_arguments(&mut self) -> Read<Vec<TypeExpr>> {
        self.expect("<")?;
        self.list(">", Self::ty)
    }

    /// `<T, U>` of a declaration; the names are types from here on.
    pub(super) fn type_params(&mut self) -> Read<Vec<Ident>> {
        if !self.take("<") {
            return Ok(Vec::new());
        }
        let names = self.list(">", Self::name)?;
        for name in &names {
            self.declare(name, true);
        }
        Ok(names)
    }

    /// `(in bit<8> a, out B b)`.
    pub(super) fn params(&mut self) -> Read<Vec<Param>> {
        self.expect("(")?;
        self.list(")", Self::param)
    }

    fn param(&mut self) -> Read<Param> {
        let annotations = self.annotations()?;
        let direction = if self.take_word("in") {
            Direction::In
        } else if self.take_word("out") {
            Direction::Out
        } else if self.take_word("inout") {
            Direction::InOut
        } else {
            Direction::None
        };
        let ty = self.ty()?;
        let name = self.name()?;
        self.declare(&name, false);
        let default = if self.take("=") { Some(self.initializer()?) } else { None };
        let id = self.declarations;
        self.declarations += 1;
        Ok(Param { annotations, direction, ty, name, default, id })
    }
}
