//! Parsers: states of the tree, with sub-parsers and conditions as states of their own.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::build::{is, known, number, slice};
use super::env::{BlockVal, Env, Header, Stack, Val};
use super::names::plain;
use super::patterns::{Seen, around_zero};
use super::{Lower, Place};
use crate::ast::{self, CaseDecl, NextDecl, PatternDecl, Sp, StateDecl};
use crate::ir::SourceSpan;

/// Most states.
const STATES_MAX: usize = 1024;

/// The state that is being made, and the names that are taken.
#[derive(Debug)]
pub(super) struct Current {
    name: String,
    span: SourceSpan,
    taken: HashSet<String>,
    /// Stacks of which it is known here that there is a `last` element.
    filled: HashSet<String>,
}

impl Current {
    /// No state yet.
    pub(super) fn new(span: SourceSpan) -> Self {
        Current { name: String::new(), span, taken: HashSet::new(), filled: HashSet::new() }
    }

    pub(super) fn is_filled(&self, stack: &str) -> bool {
        self.filled.contains(stack)
    }

    pub(super) fn fill(&mut self, stack: &str) {
        self.filled.insert(stack.to_owned());
    }

    pub(super) fn forget(&mut self, stack: &str) {
        self.filled.remove(stack);
    }
}

/// Where `reject` goes that is written: without an error, which only a `select` that finds no case has (P4-16 1.2.5, section 13.6).
const REJECT: &str = "reject(none)";

impl Lower<'_> {
    /// The name of the state that is being made.
    pub(super) fn current_state(&self) -> String {
        self.state.name.clone()
    }

    /// A name for a state.
    pub(super) fn state_name(&mut self, wanted: &str, prefix: &str) -> String {
        let wanted = plain(wanted);
        let mut name = if prefix.is_empty() { wanted } else { format!("{prefix}_{wanted}") };
        while matches!(name.as_str(), "accept" | "reject") || !self.state.taken.insert(name.clone())
        {
            name.push('_');
        }
        name
    }

    pub(super) fn begin_state(&mut self, name: String, span: SourceSpan) {
        self.state.name = name;
        self.state.span = span;
        self.state.filled.clear();
    }

    pub(super) fn end_state(&mut self, next: NextDecl) {
        let span = self.state.span;
        // What stands around, in front of the expression that needs the state, is done first.
        let mut statements: Vec<ast::Stmt> =
            self.around.iter_mut().flat_map(std::mem::take).collect();
        statements.append(&mut self.out);
        let decl = StateDecl {
            extract: Vec::new(),
            verify: Vec::new(),
            statements,
            extract_at: Vec::new(),
            body_end: None,
            call: None,
            next,
            span,
        };
        let name = std::mem::take(&mut self.state.name);
        if self.states.len() > STATES_MAX {
            self.unsupported(span, format!("a parser has at most {STATES_MAX} states"));
            return;
        }
        self.states.push((Sp::new(name, span), decl));
    }

    /// The parser of the program, which begins with some statements.
    pub(super) fn main_parser(&mut self, block: &BlockVal, values: &[Val], begin: Vec<ast::Stmt>) {
        let DeclKind::Parser(parser) = &block.decl.kind else { return };
        let scope = self.block_scope(block, &parser.constructor);
        super::v1model::bind_all(&scope, &parser.params, values);
        let outer = std::mem::replace(&mut self.place, Place::Parser);
        let around = std::mem::take(&mut self.around);
        self.spare.clear();
        self.state.taken.insert("start".to_owned());
        self.with_types(&block.types, |lower| {
            lower.out.extend(begin);
            lower.parser_states(parser, scope, "", "start".to_owned(), "accept");
        });
        self.place = outer;
        self.around = around;
        let mut states = std::mem::take(&mut self.states);
        for (_, state) in &mut states {
            leading_extracts(state);
        }
        self.unit.parser = states;
    }

    /// The states of a parser; its `start` gets the name `first`, its `accept` is the state `accept`.
    fn parser_states(
        &mut self,
        parser: &ParserDecl,
        scope: Env,
        prefix: &str,
        first: String,
        accept: &str,
    ) {
        let states = parser.states.clone().unwrap_or_default();
        let outer = std::mem::replace(&mut self.env, scope);
        let span = states.first().map_or(self.span, |state| state.name.span);
        self.begin_state(first.clone(), span);
        for local in &parser.locals {
            if let DeclKind::ValueSet(_, size) = &local.kind {
                self.value_set(local, size);
            } else {
                self.local(local);
            }
        }
        let mut names: HashMap<Rc<str>, String> = HashMap::new();
        names.insert("accept".into(), accept.to_owned());
        names.insert("reject".into(), REJECT.to_owned());
        let loops = states.iter().any(|state| goes_to(state, "start"));
        // What initialises locals may need states of its own.
        let has_locals = !self.out.is_empty() && loops || self.state.name != first;
        let start = if has_locals { self.state_name("begin", prefix) } else { first };
        names.insert("start".into(), start.clone());
        if has_locals {
            self.end_state(NextDecl::To(Some(Sp::new(start, span))));
        }
        let (mut ordered, rest): (Vec<&State>, Vec<&State>) =
            states.iter().partition(|state| &*state.name.value == "start");
        ordered.extend(rest);
        for state in &ordered {
            if &*state.name.value != "start" {
                let name = self.state_name(&state.name.value, prefix);
                names.insert(state.name.value.clone(), name);
            }
        }
        for state in ordered {
            let name = names.get(&state.name.value).cloned().unwrap_or_default();
            self.begin_state(name, state.name.span);
            self.block(&state.body.statements);
            let next = self.next(&state.next, &names);
            self.end_state(next);
        }
        self.env = outer;
    }

    fn next(&mut self, next: &Transition, names: &HashMap<Rc<str>, String>) -> NextDecl {
        let target =
            |to: &Ident| Sp::new(names.get(&to.value).cloned().unwrap_or_default(), to.span);
        match next {
            Transition::None => NextDecl::To(Some(Sp::new(REJECT.to_owned(), self.span))),
            Transition::To(to) => NextDecl::To(Some(target(to))),
            Transition::Select(select) => {
                let mut keys = Vec::new();
                let mut types = Vec::new();
                let values = self.in_order(select.keys.iter());
                for (key, value) in select.keys.iter().zip(values) {
                    let ty = self.type_of(key);
                    self.select_key(&value, &ty, key, &mut keys, &mut types);
                }
                let (mut cases, mut default) = (Vec::new(), None);
                let mut seen = Seen::default();
                for (set, to) in &select.cases {
                    if default.is_some() {
                        break;
                    }
                    let patterns = self.case(set, &types);
                    let Some(patterns) = patterns else {
                        default = Some(target(to));
                        continue;
                    };
                    for patterns in around_zero(patterns, &types) {
                        if seen.is_first(&[], &patterns) {
                            cases.push(CaseDecl { patterns, to: target(to), span: set.span });
                        }
                    }
                }
                NextDecl::Select { keys, cases, default }
            }
        }
    }

    fn select_key(
        &mut self,
        value: &Val,
        ty: &Type,
        key: &Expr,
        keys: &mut Vec<ast::AstExpr>,
        types: &mut Vec<Type>,
    ) {
        match value {
            // It is 0, whatever is in it.
            _ if ty.has_no_bits() => {
                keys.push(number(0, 1, key.span));
                types.push(Type::Bit(1));
            }
            Val::Scalar(scalar) => {
                let bits = self.bits(ty, key.span);
                keys.push(match known(scalar) {
                    Some(value) => number(value, if bits == 0 { 128 } else { bits }, key.span),
                    None => scalar.clone(),
                });
                types.push(if bits == 0 { Type::Bit(128) } else { ty.clone() });
            }
            Val::Struct(fields) => {
                for (name, value) in fields.clone().iter() {
                    let of = super::storage::part(ty, name).unwrap_or(Type::Any);
                    self.select_key(value, &of, key, keys, types);
                }
            }
            _ => {
                self.unsupported(key.span, "`select` cannot look at this");
            }
        }
    }

    /// The patterns of a case; `None`: everything.
    fn case(&mut self, set: &Expr, types: &[Type]) -> Option<Vec<Sp<PatternDecl>>> {
        let mut items = Vec::new();
        flatten(set, &mut items);
        if items.len() == 1 && matches!(&*items[0].kind, ExprKind::Any) {
            return None;
        }
        let mut patterns = Vec::new();
        for (at, ty) in types.iter().enumerate() {
            let Some(item) = items.get(at) else { continue };
            let pattern = match &*item.kind {
                ExprKind::Name(..) if matches!(self.type_of(item), Type::Set(_)) => {
                    match self.eval(item) {
                        Val::Text(name) => PatternDecl::Set(Sp::new(name.to_string(), item.span)),
                        _ => PatternDecl::Any,
                    }
                }
                _ => self.pattern(item, ty).unwrap_or(PatternDecl::Any),
            };
            patterns.push(Sp::new(pattern, item.span));
        }
        if patterns.iter().all(|pattern| pattern.value == PatternDecl::Any) {
            return None;
        }
        Some(patterns)
    }

    /// A sub-parser that is applied in a state: its states, and a state for what follows.
    pub(super) fn call_parser(
        &mut self,
        block: &Rc<BlockVal>,
        parser: &ParserDecl,
        scope: Env,
        span: SourceSpan,
    ) {
        if self.place != Place::Parser {
            return;
        }
        let prefix = self.state.name.clone();
        let first = self.state_name(&block.name, &prefix);
        let behind = self.state_name("behind", &first);
        self.end_state(NextDecl::To(Some(Sp::new(first.clone(), span))));
        let inner = first.clone();
        self.inlined(span, |lower| lower.parser_states(parser, scope, &inner, first, &behind));
        self.begin_state(behind, span);
    }

    /// `if` in a state: states for both branches and for what follows.
    pub(super) fn parser_if(
        &mut self,
        condition: &Expr,
        then: &Stmt,
        other: &Stmt,
        span: SourceSpan,
    ) {
        let value = self.scalar(condition);
        if let Some(value) = known(&value) {
            self.scoped(if value != 0 { then } else { other });
            return;
        }
        self.branches(value, |lower, is_so| lower.scoped(if is_so { then } else { other }), span);
    }

    /// States for what is done where a value is 1, for what is done where it is 0, and for what follows.
    pub(super) fn branches(
        &mut self,
        value: ast::AstExpr,
        mut branch: impl FnMut(&mut Self, bool),
        span: SourceSpan,
    ) {
        let prefix = self.state.name.clone();
        let yes = self.state_name("then", &prefix);
        let no = self.state_name("else", &prefix);
        let join = self.state_name("join", &prefix);
        let one = Sp::new(PatternDecl::Value(number(1, 1, span)), span);
        let case = CaseDecl { patterns: vec![one], to: Sp::new(yes.clone(), span), span };
        let default = Some(Sp::new(no.clone(), span));
        self.end_state(NextDecl::Select { keys: vec![value], cases: vec![case], default });
        for (name, is_so) in [(yes, true), (no, false)] {
            self.begin_state(name, span);
            branch(self, is_so);
            self.end_state(NextDecl::To(Some(Sp::new(join.clone(), span))));
        }
        self.begin_state(join, span);
    }

    /// A header that becomes what another one is: as valid, with the same fields.
    pub(super) fn copy_in_parser(
        &mut self,
        to: &Rc<Header>,
        from: &Rc<Header>,
        ty: &Type,
        span: SourceSpan,
    ) {
        if to.ty.fields.iter().any(|(_, ty)| super::hash::is_bytes(ty)) {
            let text =
                "a copy of a header with a varbit, or with a field over 128 bits, in a parser";
            self.unsupported(span, text);
            return;
        }
        let is_valid = self.is_valid(from, span);
        let fields = (self.header_fields(to, span), self.header_fields(from, span));
        self.branches(
            is_valid,
            |lower, is_so| {
                if !is_so {
                    return lower.procedure("set_invalid", to, span);
                }
                lower.procedure("set_valid", to, span);
                lower.assign_parts(&fields.0, &fields.1, ty, span);
            },
            span,
        );
    }

    /// Methods of `packet_in`.
    pub(super) fn packet_in(&mut self, expr: &Expr, name: &str, args: &[Arg]) -> Val {
        let span = expr.span;
        match name {
            "extract" => {
                let Some(arg) = args.first() else { return Val::Nothing };
                self.extract(&arg.value, args.get(1).map(|arg| &arg.value), span);
                Val::Nothing
            }
            "lookahead" => {
                let ty = self.type_of(expr);
                self.lookahead(&ty, &mut 0, span)
            }
            "advance" => {
                if let Some(arg) = args.first() {
                    let bits = self.scalar(&arg.value);
                    if known(&bits).is_none() && !is_whole_bytes(&bits) {
                        self.verify_whole_bytes(&bits, &arg.value, span);
                    }
                    self.run("advance", vec![bits], span);
                }
                Val::Nothing
            }
            _ => Val::Scalar(super::build::named(&["std", "packet_length"], span)),
        }
    }

    fn extract(&mut self, header: &Expr, length: Option<&Expr>, span: SourceSpan) {
        if matches!(&*header.kind, ExprKind::Any) {
            let ty = self.type_of(header);
            match ty.bits() {
                Some(bits) => self.run("advance", vec![number(u128::from(bits), 32, span)], span),
                None => {
                    self.unsupported(span, "a header of unknown size cannot be skipped");
                }
            }
            return;
        }
        if let Some(stack) = self.whose_next(header) {
            let length = length.map(|length| self.length_in_bits(length, span));
            return self.extract_next(&stack, length, header, span);
        }
        let found = self.eval(header);
        if let Val::Moving(stack, true, Some(member)) = &found {
            let length = length.map(|length| self.length_in_bits(length, span));
            return self.extract_of_union(stack, member, length, span);
        }
        let length = length.map(|length| self.length_in_bits(length, span));
        if let Val::Choice(choice) = &found {
            let none = Some("reject(stack_overflow)");
            let does =
                |lower: &mut Self, one: &Val| lower.extract_one(one, length.clone(), header, span);
            return self.in_states(choice, none, span, does);
        }
        self.extract_one(&found, length, header, span);
    }

    /// The stack of headers that `next` is meant of.
    fn whose_next(&mut self, header: &Expr) -> Option<Rc<Stack>> {
        let ExprKind::Member(of, name) = &*header.kind else { return None };
        if &*name.value != "next" || !matches!(self.type_of(of), Type::Stack(..)) {
            return None;
        }
        match self.eval(of) {
            Val::Stack(stack) if stack.elements.is_empty() => Some(stack),
            _ => None,
        }
    }

    pub(super) fn extract_one(
        &mut self,
        found: &Val,
        length: Option<ast::AstExpr>,
        header: &Expr,
        span: SourceSpan,
    ) {
        let Val::Header(found) = found else {
            self.unsupported(header.span, "`extract` takes a header");
            return;
        };
        if found.ty.has_no_bits() || found.path.parts.len() > 1 {
            self.touch(found);
        }
        if found.ty.has_no_bits() {
            return self.procedure("set_valid", found, span);
        }
        if header_name(&found.path).is_none() {
            self.unsupported(header.span, "`extract` into a computed element of a stack")
                .help("extract `stack.next`");
            return;
        }
        let mut args = vec![Sp::new(ast::Ast::Path(found.path.clone()), header.span)];
        args.extend(length);
        self.run("extract", args, span);
    }

    /// The second argument of `extract`.
    fn length_in_bits(&mut self, length: &Expr, span: SourceSpan) -> ast::AstExpr {
        let bits = self.scalar(length);
        if !is_whole_bytes(&bits) {
            self.verify_whole_bytes(&bits, length, span);
        }
        bits
    }

    /// A length that is no whole number of bytes is an error of its own in P4.
    fn verify_whole_bytes(&mut self, bits: &ast::AstExpr, length: &Expr, span: SourceSpan) {
        let ty = self.type_of(length);
        let width = self.bits(&ty, span);
        if width < 3 {
            return;
        }
        let low = slice(bits.clone(), 2, 0, span);
        let whole = is(low, 0, 3, span);
        let error = self.error_value(&"ParserInvalidArgument".into(), span);
        self.run("verify", vec![whole, error], span);
    }
}

/// Whether a number of bits is always one of whole bytes, as it is written.
fn is_whole_bytes(bits: &ast::AstExpr) -> bool {
    match &bits.value {
        ast::Ast::Number { value, .. } => value % 8 == 0,
        ast::Ast::Cast(_, value) => is_whole_bytes(value),
        ast::Ast::Binary(ast::AstBin::Mul, left, right) => {
            is_whole_bytes(left) || is_whole_bytes(right)
        }
        ast::Ast::Binary(ast::AstBin::Shl, _, by) => known(by).is_some_and(|by| by >= 3),
        ast::Ast::Binary(ast::AstBin::Concat, _, low) => match &low.value {
            ast::Ast::Number { value, bits } => {
                value % 8 == 0 && bits.is_some_and(|bits| bits >= 3)
            }
            _ => false,
        },
        ast::Ast::Binary(ast::AstBin::Add | ast::AstBin::Sub, left, right) => {
            is_whole_bytes(left) && is_whole_bytes(right)
        }
        _ => false,
    }
}

/// Whether a state goes to the one of this name.
fn goes_to(state: &State, name: &str) -> bool {
    match &state.next {
        Transition::None => false,
        Transition::To(to) => &*to.value == name,
        Transition::Select(select) => select.cases.iter().any(|(_, to)| &*to.value == name),
    }
}

/// `h`, or `h[2]` for an element of a stack whose number is known.
pub(super) fn header_name(path: &ast::Path) -> Option<String> {
    match path.parts.as_slice() {
        [ast::PathPart::Name(name)] => Some(name.value.clone()),
        [ast::PathPart::Name(name), ast::PathPart::Index(at)] => {
            known(at).map(|at| format!("{}[{at}]", name.value))
        }
        _ => None,
    }
}

fn flatten(set: &Expr, into: &mut Vec<Expr>) {
    match &*set.kind {
        ExprKind::Tuple(items) | ExprKind::List(items, _) => {
            items.iter().for_each(|item| flatten(item, into))
        }
        _ => into.push(set.clone()),
    }
}

/// Extractions at the beginning of a state, as `extract:` says them.
fn leading_extracts(state: &mut StateDecl) {
    let count = state
        .statements
        .iter()
        .take_while(|one| matches!(&one.kind, ast::StmtKind::Call(name, args) if name.value == "extract" && args.len() == 1))
        .count();
    for statement in state.statements.drain(..count) {
        let ast::StmtKind::Call(_, args) = statement.kind else { continue };
        if let Some(Sp { value: ast::Ast::Path(path), span }) = args.into_iter().next()
            && let Some(name) = header_name(&path)
        {
            state.extract.push(Sp::new(name, span));
        }
    }
}
