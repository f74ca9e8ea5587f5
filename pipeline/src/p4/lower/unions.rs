//! Stacks of header unions: each member of each element is an instance.

use std::rc::Rc;

use super::super::tree::*;
use super::Lower;
use super::build::{is, mux, named, number};
use super::env::{Header, Stack, Val};
use super::stacks::key;
use crate::ast::{Ast, AstExpr, PathPart, Sp};
use crate::ir::SourceSpan;

/// A header among the members of an element.
fn member(stack: &Stack, at: usize, name: &str) -> Option<Rc<Header>> {
    let Some(Val::Union(members)) = stack.elements.get(at) else { return None };
    members.iter().find_map(|(known, value)| match value {
        Val::Header(header) if **known == *name => Some(header.clone()),
        _ => None,
    })
}

impl Lower<'_> {
    /// `extract(s.next.member)`: a state for each element, and the error of a stack where there is none.
    pub(super) fn extract_of_union(
        &mut self,
        stack: &Rc<Stack>,
        name: &str,
        length: Option<AstExpr>,
        span: SourceSpan,
    ) {
        let counter = self.count_of(stack, span);
        let names = ("extracted", Some("reject(stack_overflow)"));
        self.state_for_each(&counter, stack.elements.len(), names, span, |lower, at| {
            if let Some(header) = member(stack, at, name) {
                if let [PathPart::Name(instance)] = header.path.parts.as_slice() {
                    lower.origin().counted_elements.insert(instance.value.clone());
                }
                let mut args = vec![Sp::new(Ast::Path(header.path.clone()), span)];
                args.extend(length.clone());
                lower.run("extract", args, span);
            }
            lower.set(&counter, number(at as u128 + 1, 32, span), span);
        });
        self.state.fill(key(stack));
    }

    /// `s.last.member`, or a field of it: a choice by how many there are.
    pub(super) fn last_of_unions(
        &mut self,
        expr: &Expr,
        stack: &Rc<Stack>,
        of: Option<&Rc<str>>,
        name: &Rc<str>,
    ) -> Val {
        let span = expr.span;
        let Some(of) = of else {
            return Val::Moving(stack.clone(), false, Some(name.clone()));
        };
        let ty = self.type_of(expr);
        let bits = self.bits(&ty, span);
        let counter = self.count_of(stack, span);
        let mut value = number(0, bits, span);
        for at in (0..stack.elements.len()).rev() {
            let Some(header) = member(stack, at, of) else { continue };
            let Val::Scalar(field) = self.header_part(&header, name, &ty, span) else { continue };
            let is_last = is(counter.clone(), at as u128 + 1, 32, span);
            value = mux(is_last, field, value, span);
        }
        Val::Scalar(value)
    }

    /// `s.last.member.isValid()`.
    pub(super) fn last_is_valid(
        &mut self,
        stack: &Rc<Stack>,
        of: &str,
        span: SourceSpan,
    ) -> AstExpr {
        let counter = self.count_of(stack, span);
        let mut value = number(0, 1, span);
        for at in (0..stack.elements.len()).rev() {
            let Some(header) = member(stack, at, of) else { continue };
            let is_last = is(counter.clone(), at as u128 + 1, 32, span);
            let Some(PathPart::Name(instance)) = header.path.parts.first() else { continue };
            let valid = named(&[&instance.value, "valid"], span);
            value = mux(is_last, valid, value, span);
        }
        value
    }
}
