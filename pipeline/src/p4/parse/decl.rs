//! Declarations.

use std::rc::Rc;

use super::super::tree::*;
use super::{Failed, Parser, Read};
use crate::ast::Sp;
use crate::ir::SourceSpan;

/// Words that a declaration of P4-14 begins with, and none of P4-16.
const OF_P4_14: &[&str] = &[
    "header_type",
    "field_list",
    "field_list_calculation",
    "calculated_field",
    "primitive_action",
];
/// What to do with a program in P4-14.
const IN_P4_14: &str = "if this is P4-14: give `wireyard` the JSON that `p4c --std p4-14 --target bmv2 --arch v1model` makes of it";

impl Parser<'_> {
    /// A declaration of the program.
    pub(super) fn declaration(&mut self) -> Read<Rc<Decl>> {
        let annotations = self.annotations()?;
        let word = self.token(0).word().cloned();
        match word.as_deref() {
            Some("const") => self.constant(annotations),
            Some("error") if self.token(1).is("{") => self.names(annotations, DeclKind::Errors),
            Some("match_kind") if self.token(1).is("{") => {
                self.names(annotations, DeclKind::MatchKinds)
            }
            Some("enum") => self.enumeration(annotations),
            Some("typedef") => self.alias(annotations, false),
            Some("type") if self.token(1).word().is_some() => self.alias(annotations, true),
            Some("struct") => self.structure(annotations, StructKind::Struct),
            Some("header") => self.structure(annotations, StructKind::Header),
            Some("header_union") => self.structure(annotations, StructKind::Union),
            Some("extern") => self.external(annotations),
            Some("parser") => self.parser(annotations),
            Some("control") => self.control(annotations),
            Some("package") => self.package(annotations),
            Some("action") => self.action(annotations),
            _ => self.function_or_variable(annotations),
        }
    }

    pub(super) fn constant(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let ty = self.ty()?;
        let name = self.name()?;
        self.expect("=")?;
        let value = self.initializer()?;
        self.declare(&name, false);
        self.expect(";")?;
        Ok(self.decl(annotations, name, DeclKind::Const(ty, value)))
    }

    fn names(
        &mut self,
        annotations: Annotations,
        kind: fn(Vec<Ident>) -> DeclKind,
    ) -> Read<Rc<Decl>> {
        let span = self.span();
        self.step();
        self.expect("{")?;
        let names = self.list("}", |parser| {
            parser.annotations()?;
            parser.name()
        })?;
        self.some_members(names.len(), span);
        Ok(self.decl(annotations, Sp::new("".into(), span), kind(names)))
    }

    fn enumeration(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let base = if self.at_type() && !self.token(1).is("{") { Some(self.ty()?) } else { None };
        let name = self.name()?;
        self.declare(&name, true);
        self.expect("{")?;
        let members = self.list("}", |parser| {
            parser.annotations()?;
            let name = parser.name()?;
            let value = if parser.take("=") { Some(parser.expression()?) } else { None };
            Ok((name, value))
        })?;
        self.some_members(members.len(), name.span);
        Ok(self.decl(annotations, name, DeclKind::Enum(base, members)))
    }

    fn some_members(&mut self, count: usize, span: SourceSpan) {
        if count == 0 {
            let text = "at least one name stands between the braces";
            self.report.error(crate::diag::codes::P4_SYNTAX, span, text);
        }
    }

    /// `typedef T name;` and `type T name;`, also of a struct that is declared in it.
    fn alias(&mut self, annotations: Annotations, is_new: bool) -> Read<Rc<Decl>> {
        self.step();
        let ty = match self.inner_declaration()? {
            Some(decl) => {
                let name =
                    TypeKind::Name { name: decl.name.clone(), args: Vec::new(), global: false };
                let ty = Rc::new(Sp::new(name, decl.name.span));
                self.within.push(decl);
                ty
            }
            None => self.ty()?,
        };
        let name = self.name()?;
        self.declare(&name, true);
        self.expect(";")?;
        let kind = if is_new { DeclKind::NewType(ty) } else { DeclKind::Typedef(ty) };
        Ok(self.decl(annotations, name, kind))
    }

    /// The type that is declared in `typedef struct S { .. } T;`.
    fn inner_declaration(&mut self) -> Read<Option<Rc<Decl>>> {
        let before = self.at;
        let annotations = self.annotations()?;
        let word = self.token(0).word().cloned();
        let decl = match word.as_deref() {
            Some("enum") => self.enumeration(annotations)?,
            Some("struct") => self.structure(annotations, StructKind::Struct)?,
            Some("header") => self.structure(annotations, StructKind::Header)?,
            Some("header_union") => self.structure(annotations, StructKind::Union)?,
            _ => {
                self.at = before;
                return Ok(None);
            }
        };
        Ok(Some(decl))
    }

    fn structure(&mut self, annotations: Annotations, kind: StructKind) -> Read<Rc<Decl>> {
        self.step();
        self.scoped_decl(annotations, DeclKind::Struct, |parser, _| parser.structure_inner(kind))
    }

    fn structure_inner(&mut self, kind: StructKind) -> Read<StructDecl> {
        let type_params = self.type_params()?;
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let annotations = self.annotations()?;
            let ty = self.ty()?;
            let name = self.name()?;
            self.expect(";")?;
            fields.push(Field { annotations, ty, name });
        }
        Ok(StructDecl { kind, type_params, fields })
    }

    fn external(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let is_object = self.token(0).word().is_some()
            && (self.token(1).is("{")
                || self.token(1).is("<")
                    // Rather than a function whose result is `name<..>`.
                    && self.behind_angle(1).is_some_and(|behind| self.token(behind).is("{")));
        if !is_object {
            return self.function(annotations, true);
        }
        self.scoped_decl(annotations, DeclKind::Extern, Self::external_inner)
    }

    fn external_inner(&mut self, owner: &Ident) -> Read<ExternDecl> {
        let type_params = self.type_params()?;
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.take("}") {
            self.annotations()?;
            let is_abstract = self.take_word("abstract");
            methods.push(self.scoped(|parser| parser.method(owner, is_abstract))?);
            self.expect(";")?;
        }
        Ok(ExternDecl { type_params, methods })
    }

    fn method(&mut self, owner: &Ident, is_abstract: bool) -> Read<Method> {
        if self.is_word(&owner.value) && self.token(1).is("(") {
            let name = self.name()?;
            let params = self.params()?;
            return Ok(Method { name, is_abstract, result: None, type_params: Vec::new(), params });
        }
        // A type parameter may stand in the result, before it is declared.
        let before = self.at;
        self.skip_type();
        let name = self.name()?;
        let type_params = self.type_params()?;
        let behind = self.at;
        self.at = before;
        let result = self.ty()?;
        self.at = behind;
        let params = self.params()?;
        Ok(Method { name, is_abstract, result: Some(result), type_params, params })
    }

    /// Skips a type without resolving it.
    fn skip_type(&mut self) {
        self.take(".");
        self.step();
        let mut depth = 0usize;
        while !self.peek_is_end() {
            if self.is("<") || self.is("[") {
                depth += 1;
            } else if self.is(">") || self.is("]") {
                depth = depth.saturating_sub(1);
            } else if depth == 0 {
                return;
            }
            self.step();
            if depth == 0 && !self.is("<") && !self.is("[") {
                return;
            }
        }
    }

    /// A function, with its body unless it is an extern.
    fn function(&mut self, annotations: Annotations, is_extern: bool) -> Read<Rc<Decl>> {
        let (name, decl) = self.scoped(|parser| parser.function_inner(is_extern))?;
        self.declare(&name, false);
        Ok(self.decl(annotations, name, DeclKind::Function(decl)))
    }

    fn function_inner(&mut self, is_extern: bool) -> Read<(Ident, FunctionDecl)> {
        let owner = Sp::new("".into(), self.span());
        let Method { name, result, type_params, params, .. } = self.method(&owner, false)?;
        let result = match result {
            Some(result) => result,
            None => return Err(Failed),
        };
        let body = if is_extern {
            self.expect(";")?;
            None
        } else {
            Some(self.block()?)
        };
        Ok((name, FunctionDecl { result, type_params, params, body }))
    }

    fn parser(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        self.scoped_decl(annotations, DeclKind::Parser, |parser, _| parser.parser_inner())
    }

    fn parser_inner(&mut self) -> Read<ParserDecl> {
        let type_params = self.type_params()?;
        let params = self.params()?;
        if self.take(";") {
            let (constructor, locals) = (Vec::new(), Vec::new());
            return Ok(ParserDecl { type_params, params, constructor, locals, states: None });
        }
        let constructor = if self.is("(") { self.params()? } else { Vec::new() };
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        self.parts(|parser, annotations| {
            if parser.is_word("state") && parser.token(1).word().is_some() {
                parser.state().map(|state| states.push(state))
            } else {
                parser.no_local("action", "a parser has no actions");
                parser.in_front(states.is_empty(), "the states of a parser");
                parser.local(annotations).map(|decl| locals.push(decl))
            }
        })?;
        Ok(ParserDecl { type_params, params, constructor, locals, states: Some(states) })
    }

    fn state(&mut self) -> Read<State> {
        self.step();
        let name = self.name()?;
        self.block = Some(self.span());
        self.expect("{")?;
        let body = self.scoped(|parser| Block {
            statements: parser.statements_until(|parser| parser.is_word("transition")),
        });
        self.block = None;
        let next = if self.take_word("transition") { self.transition()? } else { Transition::None };
        self.expect("}")?;
        Ok(State { name, body, next })
    }

    fn transition(&mut self) -> Read<Transition> {
        if !self.take_word("select") {
            let name = self.name()?;
            self.expect(";")?;
            return Ok(Transition::To(name));
        }
        self.expect("(")?;
        let keys = self.list(")", Self::expression)?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.take("}") {
            let set = self.keyset()?;
            self.expect(":")?;
            let state = self.name()?;
            self.expect(";")?;
            cases.push((set, state));
        }
        Ok(Transition::Select(Select { keys, cases }))
    }

    fn control(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        self.scoped_decl(annotations, DeclKind::Control, |parser, _| parser.control_inner())
    }

    fn control_inner(&mut self) -> Read<ControlDecl> {
        let type_params = self.type_params()?;
        let params = self.params()?;
        if self.take(";") {
            let (constructor, locals) = (Vec::new(), Vec::new());
            return Ok(ControlDecl { type_params, params, constructor, locals, body: None });
        }
        let constructor = if self.is("(") { self.params()? } else { Vec::new() };
        let (mut locals, mut body) = (Vec::new(), None);
        self.parts(|parser, annotations| {
            if parser.is_word("apply") {
                if body.is_some() {
                    let text = "a control has one `apply`";
                    parser.report.error(crate::diag::codes::TWICE, parser.span(), text);
                }
                if let Some(one) = annotations.first() {
                    let text = "`apply` has no annotations: they stand behind it";
                    let span = one.name.span;
                    parser.report.error(crate::diag::codes::P4_SYNTAX, span, text);
                }
                parser.step();
                parser.block().map(|block| body = Some(block))
            } else {
                parser.no_local("value_set", "a value set stands in a parser");
                parser.in_front(body.is_none(), "the `apply` of a control");
                parser.local(annotations).map(|decl| locals.push(decl))
            }
        })?;
        if body.is_none() {
            self.report.error(
                crate::diag::codes::P4_SYNTAX,
                self.tokens[self.at.saturating_sub(1)].span,
                "a control needs `apply { .. }`",
            );
            return Err(Failed);
        }
        Ok(ControlDecl { type_params, params, constructor, locals, body })
    }

    /// Refuses what begins with this word.
    fn no_local(&mut self, word: &str, text: &str) {
        if self.is_word(word) {
            self.report.error(crate::diag::codes::WRONG_PLACE, self.span(), text);
        }
    }

    /// Declarations stand before what uses them (P4-16, parser and control declarations).
    fn in_front(&mut self, is_in_front: bool, of: &str) {
        if !is_in_front {
            let text = format!("declarations stand before {of}");
            self.report.error(crate::diag::codes::WRONG_PLACE, self.span(), text);
        }
    }

    /// The parts of a parser or control, in braces; behind one that cannot be read the next one is read.
    fn parts(&mut self, mut part: impl FnMut(&mut Self, Annotations) -> Read<()>) -> Read<()> {
        let brace = self.span();
        self.expect("{")?;
        while !self.take("}") {
            let before = self.at;
            let annotations = self.annotations()?;
            if self.begins_block() && self.has_open_brace() {
                return Err(self.not_closed(brace));
            }
            if part(self, annotations).is_err() {
                self.recover(before);
                if self.peek_is_end() {
                    return Err(Failed);
                }
            }
        }
        Ok(())
    }

    /// What a parser or control declares for itself.
    fn local(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        let word = self.token(0).word().cloned();
        match word.as_deref() {
            Some("const") => self.constant(annotations),
            Some("action") => self.action(annotations),
            Some("table") => self.table(annotations),
            Some("value_set") => self.value_set(annotations),
            _ => self.variable(annotations),
        }
    }

    fn value_set(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let begun = self.at;
        let read = self.value_set_inner(annotations);
        if read.is_err() {
            // The name stands last.
            let rest = self.tokens.get(begun..).unwrap_or_default();
            let last = rest.iter().take_while(|token| !token.is(";")).last();
            self.cut.extend(last.and_then(|token| token.word().cloned()));
        }
        read
    }

    fn value_set_inner(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.expect("<")?;
        let ty = self.ty()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.expression()?;
        self.expect(")")?;
        let name = self.name()?;
        self.declare(&name, false);
        self.expect(";")?;
        Ok(self.decl(annotations, name, DeclKind::ValueSet(ty, size)))
    }

    fn package(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let name = self.name()?;
        self.declare(&name, true);
        let (type_params, params) =
            self.scoped(|parser| Ok((parser.type_params()?, parser.params()?)))?;
        self.expect(";")?;
        Ok(self.decl(annotations, name, DeclKind::Package { type_params, params }))
    }

    fn action(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        self.step();
        let name = self.name()?;
        let (params, body) = self.scoped(|parser| Ok((parser.params()?, parser.block()?)))?;
        self.declare(&name, false);
        Ok(self.decl(annotations, name, DeclKind::Action { params, body }))
    }

    /// A function, or a variable or instance.
    fn function_or_variable(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        let before = self.at;
        self.skip_type();
        let is_function =
            self.token(0).word().is_some() && (self.token(1).is("(") || self.token(1).is("<"));
        self.at = before;
        if is_function {
            return self.function(annotations, false);
        }
        if !self.at_type() {
            let is_older = OF_P4_14.iter().any(|word| self.token(0).is_word(word));
            let error = self.wanted("a declaration");
            if is_older {
                error.help(IN_P4_14);
            }
            return Err(Failed);
        }
        self.variable(annotations)
    }

    /// `T name = value;`, or the instance `T(args) name;`.
    pub(super) fn variable(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        let decl = self.variable_without_end(annotations)?;
        // `= { .. }` with methods needs no `;`, in old programs.
        self.expect(";")?;
        Ok(decl)
    }

    pub(super) fn variable_without_end(&mut self, annotations: Annotations) -> Read<Rc<Decl>> {
        let ty = self.ty()?;
        if self.take("(") {
            let args = self.list(")", Self::argument)?;
            let name = self.name()?;
            let mut size = None;
            if self.take("[") {
                size = Some(self.expression()?);
                self.expect("]")?;
            }
            let methods = if self.take("=") { self.methods()? } else { Vec::new() };
            self.declare(&name, false);
            let kind = DeclKind::Instance { ty, args, size, methods };
            return Ok(self.decl(annotations, name, kind));
        }
        let name = self.name()?;
        let value = if self.take("=") { Some(self.initializer()?) } else { None };
        self.declare(&name, false);
        Ok(self.decl(annotations, name, DeclKind::Variable(ty, value)))
    }

    /// `{ .. }` with the abstract methods of an extern.
    fn methods(&mut self) -> Read<Vec<Rc<Decl>>> {
        self.expect("{")?;
        self.scoped(|parser| {
            let mut found = Vec::new();
            while !parser.take("}") {
                let annotations = parser.annotations()?;
                found.push(parser.function_or_variable(annotations)?);
            }
            Ok(found)
        })
    }
}
