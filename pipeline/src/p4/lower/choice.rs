//! An element whose number is computed: of an array, of a stack of unions, and in a parser of any stack. It is all elements and the number, until
//! it is read (a choice of values), written (a `switch`) or used in a parser (a state for each element).

use super::super::tree::*;
use super::build::{INDEX_BITS, is, mux, number};
use super::env::{Choice, Val};
use super::{Lower, Place};
use crate::ast::{self, AstExpr, CaseDecl, NextDecl, PatternDecl, Sp};
use crate::ir::SourceSpan;
use std::rc::Rc;

/// A choice among parts of the elements.
pub(super) fn of_each(choice: &Choice, part: impl FnMut(&Val) -> Val) -> Val {
    let elements = choice.elements.iter().map(part).collect();
    Val::Choice(Rc::new(Choice { at: choice.at.clone(), elements }))
}

impl Lower<'_> {
    /// The element `at` of some; `at` has 32 bits.
    pub(super) fn choice(&mut self, at: AstExpr, elements: Vec<Val>) -> Val {
        // A parser keeps no values from state to state.
        let at = if self.place == Place::Parser { at } else { self.keep(at) };
        Val::Choice(Rc::new(Choice { at, elements }))
    }

    /// The value of an expression, to be read: one number where it is a choice of numbers.
    pub(super) fn eval(&mut self, expr: &Expr) -> Val {
        match self.place_of(expr) {
            Val::Choice(choice) => self.read(&choice, expr.span),
            other => other,
        }
    }

    /// A choice of numbers as one number. An element that is not there is the last one.
    pub(super) fn read(&mut self, choice: &Rc<Choice>, span: SourceSpan) -> Val {
        let mut value: Option<AstExpr> = None;
        for (at, element) in choice.elements.iter().enumerate().rev() {
            let Val::Scalar(element) = element else { return Val::Choice(choice.clone()) };
            value = Some(match value {
                None => element.clone(),
                Some(rest) => mux(is_at(choice, at, span), element.clone(), rest, span),
            });
        }
        value.map_or(Val::Nothing, Val::Scalar)
    }

    /// Whether the header of a choice is valid.
    pub(super) fn chosen_is_valid(&mut self, choice: &Choice, span: SourceSpan) -> AstExpr {
        let mut value = number(0, 1, span);
        for (at, element) in choice.elements.iter().enumerate().rev() {
            let Val::Header(header) = element else { continue };
            let valid = self.is_valid(header, span);
            value = mux(is_at(choice, at, span), valid, value, span);
        }
        value
    }

    /// Does something with the element that is chosen; nothing where it is not there.
    pub(super) fn with_chosen(
        &mut self,
        choice: &Choice,
        span: SourceSpan,
        mut does: impl FnMut(&mut Self, &Val),
    ) {
        if self.place == Place::Parser {
            return self.in_states(choice, None, span, does);
        }
        let mut cases = Vec::new();
        for (at, element) in choice.elements.iter().enumerate() {
            let ((), body) = self.apart(|lower| does(lower, element));
            cases.push((vec![number(at as u128, INDEX_BITS, span)], body));
        }
        self.push(ast::StmtKind::Switch(choice.at.clone(), cases, Vec::new()), span);
    }

    /// A state for each element, and one for what follows. `otherwise` is where an element that is not there leads.
    pub(super) fn in_states(
        &mut self,
        choice: &Choice,
        otherwise: Option<&str>,
        span: SourceSpan,
        mut does: impl FnMut(&mut Self, &Val),
    ) {
        let elements = &choice.elements;
        let names = ("chosen", otherwise);
        self.state_for_each(&choice.at, elements.len(), names, span, |lower, at| {
            does(lower, &elements[at]);
        });
    }

    /// A state for each of the first values of a number, and one for what follows, which begins. The names are that one's, and where any
    /// other value leads, if it is not there.
    pub(super) fn state_for_each(
        &mut self,
        number_at: &AstExpr,
        count: usize,
        (behind, otherwise): (&str, Option<&str>),
        span: SourceSpan,
        mut does: impl FnMut(&mut Self, usize),
    ) {
        let prefix = self.current_state();
        let behind = self.state_name(behind, &prefix);
        let names: Vec<String> =
            (0..count).map(|at| self.state_name(&format!("element_{at}"), &prefix)).collect();
        let case = |(at, to): (usize, &String)| {
            let value = number(at as u128, INDEX_BITS, span);
            let patterns = vec![Sp::new(PatternDecl::Value(value), span)];
            CaseDecl { patterns, to: Sp::new(to.clone(), span), span }
        };
        let cases = names.iter().enumerate().map(case).collect();
        let default = Some(Sp::new(otherwise.unwrap_or(&behind).to_owned(), span));
        self.end_state(NextDecl::Select { keys: vec![number_at.clone()], cases, default });
        for (at, state) in names.into_iter().enumerate() {
            self.begin_state(state, span);
            does(self, at);
            self.end_state(NextDecl::To(Some(Sp::new(behind.clone(), span))));
        }
        self.begin_state(behind, span);
    }
}

fn is_at(choice: &Choice, at: usize, span: SourceSpan) -> AstExpr {
    is(choice.at.clone(), at as u128, INDEX_BITS, span)
}
