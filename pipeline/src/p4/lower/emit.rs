//! `emit`: headers leave in one order, whichever way a packet takes through the deparser.
//!
//! What is emitted under a condition notes that in metadata. Headers whose `emit` was not reached are made invalid behind the
//! deparser, when nothing reads them any more.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::build::{binary, number};
use super::env::{BlockVal, Val};
use super::stmt::leaves;
use crate::ast::{AstBin, AstExpr, Sp, Stmt, StmtKind as Made, element};
use crate::ir::SourceSpan;

/// What the deparser that is being made emits under conditions.
#[derive(Debug, Default)]
pub(super) struct Emitting {
    /// Statements at this level always run; `None`: none do.
    always: Option<usize>,
    /// A header or stack, and the bit that says that its `emit` was reached.
    sometimes: Vec<(AstExpr, Val)>,
}

impl Lower<'_> {
    /// The control that emits.
    pub(super) fn deparser(&mut self, block: &Rc<BlockVal>, values: &[Val]) -> Vec<Stmt> {
        let DeclKind::Control(control) = &block.decl.kind else { return Vec::new() };
        let span = block.decl.name.span;
        let leaves = control.body.as_ref().is_some_and(|body| leaves(&body.statements));
        // The body is one level below the control.
        let always = (!leaves).then_some(self.level + 2);
        self.emitting = Emitting { always, sometimes: Vec::new() };
        let ((), body) = self.apart(|lower| lower.architecture_block(block, values));
        let sometimes = std::mem::take(&mut self.emitting.sometimes);
        let ((), mut made) = self.apart(|lower| {
            for (reached, _) in &sometimes {
                lower.set(reached, number(0, 1, span), span);
            }
        });
        made.extend(body);
        let ((), removed) = self.apart(|lower| {
            for (reached, value) in &sometimes {
                let ((), removed) = lower.apart(|lower| lower.invalidate(value, span));
                let not = binary(AstBin::Eq, reached.clone(), number(0, 1, span), span);
                lower.push(Made::If(not, removed, Vec::new()), span);
            }
        });
        made.extend(removed);
        made
    }

    /// Headers leave in the order of `emit`.
    pub(super) fn emit(&mut self, value: &Val, span: SourceSpan) {
        match value {
            // Without fields it has no bytes.
            Val::Header(header) if header.ty.fields.is_empty() => {}
            Val::Header(header) => match super::parser::header_name(&header.path) {
                Some(name) => self.emit_one(name, value, span),
                None => {
                    self.unsupported(span, "`emit` of a computed element of a stack");
                }
            },
            Val::Stack(stack) if stack.elements.is_empty() => {
                self.emit_one(stack.name.clone(), value, span)
            }
            Val::Stack(stack) => stack.elements.clone().iter().for_each(|one| self.emit(one, span)),
            Val::Struct(fields) | Val::Union(fields) => {
                fields.clone().iter().for_each(|(_, value)| self.emit(value, span));
            }
            Val::Nothing => {}
            _ => {
                self.unsupported(span, "`emit` takes a header of the packet");
            }
        }
    }

    /// A header that is emitted already leaves once more as a copy, which is valid only where this `emit` is reached.
    fn emit_again(&mut self, value: &Val, span: SourceSpan) {
        for header in self.headers_in(value) {
            let ty = Type::Struct(header.ty.clone());
            let copy = self.storage(&ty, "emitted", span);
            self.assign(&copy, &Val::Header(header), &ty, span);
            if let Val::Header(copy) = &copy
                && let Some(name) = super::parser::header_name(&copy.path)
            {
                self.emits.push(Sp::new(name, span));
            }
        }
    }

    fn emit_one(&mut self, name: String, value: &Val, span: SourceSpan) {
        let whole = |name: &str| element(name).0.to_owned();
        let is_same = |known: &str| {
            known == name
                || whole(known) == whole(&name) && (known == whole(known) || name == whole(&name))
        };
        if self.emits.iter().any(|known| is_same(&known.value)) {
            return self.emit_again(value, span);
        }
        self.emits.push(Sp::new(name, span));
        if self.emitting.always != Some(self.level) {
            let reached = self.new_meta("emitted", 1, span);
            self.set(&reached, number(1, 1, span), span);
            self.emitting.sometimes.push((reached, value.clone()));
        }
    }
}
