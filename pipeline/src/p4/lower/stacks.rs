//! `next`, `last` and `lastIndex` of stacks in a parser. Where only `extract(s.next)` makes elements valid, how many are valid says which
//! they are, and the language has them. Where the parser does more to elements, and for stacks of unions, metadata counts.

use std::rc::Rc;

use super::super::tree::Expr;
use super::super::types::Type;
use super::build::{binary, mux, named, number, path};
use super::env::{Choice, Header, Stack, Val};
use super::need::Need;
use super::parser::header_name;
use super::{Lower, Place};
use crate::ast::{AstBin, AstExpr, PathPart};
use crate::ir::SourceSpan;

/// The first name of a stack's storage, which no other stack has.
pub(super) fn key(stack: &Stack) -> &str {
    let Some(Val::Union(members)) = stack.elements.first() else { return &stack.name };
    let first = members.iter().find_map(|(_, value)| match value {
        Val::Header(header) => match header.path.parts.first() {
            Some(PathPart::Name(name)) => Some(name.value.as_str()),
            _ => None,
        },
        _ => None,
    });
    first.unwrap_or_default()
}

impl Lower<'_> {
    /// Whether metadata counts the elements of this stack.
    fn is_counted(&self, stack: &Stack) -> bool {
        !stack.elements.is_empty() || self.is_needed(&Need::Counted(stack.name.clone()))
    }

    /// The number of `next`.
    pub(super) fn count_of(&mut self, stack: &Stack, span: SourceSpan) -> AstExpr {
        if !self.is_counted(stack) {
            return named(&[&stack.name, "depth"], span);
        }
        if let Some(known) = self.counters.get(key(stack)) {
            return known.clone();
        }
        let counter = self.new_meta(&format!("{}_next", stack.name), 32, span);
        self.counters.insert(key(stack).to_owned(), counter.clone());
        counter
    }

    /// Notes what the parser does to a header beside `extract(s.next)`: of an element it has the stack counted.
    pub(super) fn touch(&mut self, header: &Header) {
        let (Place::Parser, Some(PathPart::Name(first))) = (self.place, header.path.parts.first())
        else {
            return;
        };
        let mut all = self.unit.instances.iter();
        if all.any(|(name, decl)| name.value == first.value && decl.stack.is_some()) {
            self.need(Need::Counted(first.value.clone()));
        }
    }

    /// `s.next`, `s.last`, `s.lastIndex`.
    pub(super) fn member_of_stack(
        &mut self,
        stack: &Rc<Stack>,
        name: &str,
        span: SourceSpan,
    ) -> Val {
        let is_of_unions = !stack.elements.is_empty();
        let count = self.count_of(stack, span);
        let last = binary(AstBin::Sub, count.clone(), number(1, 32, span), span);
        match name {
            "next" if is_of_unions => Val::Moving(stack.clone(), true, None),
            "next" => {
                // The language has no `next` but to extract.
                self.need(Need::Counted(stack.name.clone()));
                let size = number(stack.size.into(), 32, span);
                self.verify_within(binary(AstBin::Lt, count.clone(), size, span), span);
                self.counted_element(stack, count, span)
            }
            "last" => {
                if !self.state.is_filled(key(stack)) {
                    let zero = number(0, 32, span);
                    self.verify_within(binary(AstBin::Ne, count, zero, span), span);
                    self.state.fill(key(stack));
                }
                if is_of_unions {
                    Val::Moving(stack.clone(), false, None)
                } else if self.is_counted(stack) {
                    self.counted_element(stack, last, span)
                } else {
                    self.header_of(stack, &[&stack.name, "last"], span)
                }
            }
            _ => Val::Scalar(last),
        }
    }

    fn header_of(&self, stack: &Stack, parts: &[&str], span: SourceSpan) -> Val {
        let Type::Struct(ty) = &stack.of else { return Val::Nothing };
        Val::Header(Rc::new(Header { path: path(parts, span), ty: ty.clone() }))
    }

    fn counted_element(&mut self, stack: &Stack, at: AstExpr, span: SourceSpan) -> Val {
        let elements = self.elements_of(stack, span);
        Val::Choice(Rc::new(Choice { at, elements }))
    }

    /// An element that is not there is an error of the parser (P4-16 1.2.5, section 8.18).
    fn verify_within(&mut self, is_there: AstExpr, span: SourceSpan) {
        let error = self.error_value(&"StackOutOfBounds".into(), span);
        self.run("verify", vec![is_there, error], span);
    }

    /// `extract(s.next)`.
    pub(super) fn extract_next(
        &mut self,
        stack: &Stack,
        length: Option<AstExpr>,
        header: &Expr,
        span: SourceSpan,
    ) {
        if !self.is_counted(stack) {
            let next = self.header_of(stack, &[&stack.name], header.span);
            self.extract_one(&next, length, header, span);
            return self.state.fill(key(stack));
        }
        let count = self.count_of(stack, span);
        let elements = self.elements_of(stack, header.span);
        let choice = Choice { at: count.clone(), elements };
        let mut extracted = 0;
        self.in_states(&choice, Some("reject(stack_overflow)"), span, |lower, one| {
            if let Val::Header(one) = one {
                lower.origin().counted_elements.extend(header_name(&one.path));
            }
            lower.extract_one(one, length.clone(), header, span);
            extracted += 1;
            lower.set(&count, number(extracted, 32, span), span);
        });
        self.state.fill(key(stack));
    }

    /// `push_front` and `pop_front`, one element after the other, and in a parser what is counted.
    pub(super) fn move_elements(&mut self, stack: &Stack, name: &str, by: usize, span: SourceSpan) {
        let is_push = name == "push_front";
        let elements = self.elements_of(stack, span);
        let pairs: Vec<(usize, Option<usize>)> = if is_push {
            (0..elements.len()).rev().map(|at| (at, at.checked_sub(by))).collect()
        } else {
            (0..elements.len()).map(|at| (at, Some(at + by))).collect()
        };
        for (to, from) in pairs {
            let to = &elements[to];
            match from.and_then(|from| elements.get(from)) {
                Some(from) => self.assign(to, from, &stack.of, span),
                None => self.assign(to, &Val::Literal(None), &stack.of, span),
            }
        }
        if self.place != Place::Parser {
            return;
        }
        let count = self.count_of(stack, span);
        let size = elements.len();
        let (op, edge, end) = match is_push {
            true => (AstBin::Add, size.saturating_sub(by), size),
            false => (AstBin::Sub, by, 0),
        };
        let number = |value: usize| number(value as u128, 32, span);
        let is_inside = if is_push { AstBin::Lt } else { AstBin::Gt };
        let is_inside = binary(is_inside, count.clone(), number(edge), span);
        let moved = mux(is_inside, binary(op, count.clone(), number(by), span), number(end), span);
        self.recount(stack, moved, span);
    }

    /// Copies the elements, and in a parser what is counted.
    pub(super) fn copy_stack(&mut self, to: &Stack, from: &Stack, span: SourceSpan) {
        let elements = (self.elements_of(to, span), self.elements_of(from, span));
        for (left, right) in elements.0.iter().zip(&elements.1) {
            self.assign(left, right, &to.of, span);
        }
        if self.place != Place::Parser {
            return;
        }
        for stack in [to, from].into_iter().filter(|stack| stack.elements.is_empty()) {
            self.need(Need::Counted(stack.name.clone()));
        }
        let count = self.count_of(from, span);
        self.recount(to, count, span);
    }

    /// Stacks in a value that has become invalid.
    pub(super) fn forget_counts(&mut self, value: &Val, span: SourceSpan) {
        match value {
            Val::Struct(fields) => {
                fields.iter().for_each(|(_, field)| self.forget_counts(field, span));
            }
            Val::Stack(stack) if self.place == Place::Parser => {
                self.recount(stack, number(0, 32, span), span);
            }
            _ => {}
        }
    }

    fn recount(&mut self, stack: &Stack, count: AstExpr, span: SourceSpan) {
        self.state.forget(key(stack));
        if self.is_counted(stack) {
            let counter = self.count_of(stack, span);
            self.set(&counter, count, span);
        }
    }
}
