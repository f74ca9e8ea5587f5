//! `emit`: headers leave in one order, whichever way a packet takes through the deparser.
//!
//! What is emitted under a condition notes that in metadata. Headers whose `emit` was not reached are made invalid behind the
//! deparser, when nothing reads them any more. A header leaves as it is when the deparser ends, so one that is written behind its `emit`
//! leaves as a copy.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::build::{is, number};
use super::env::{BlockVal, Val};
use super::need::Need;
use super::scan::Mentions;
use super::stmt::returns;
use crate::ast::{ApplyStmt, AstExpr, Sp, Stmt, StmtKind as Made, element};
use crate::ir::SourceSpan;

/// What the deparser that is being made has emitted.
#[derive(Debug, Default)]
pub(super) struct Emitting {
    /// Every statement of its body runs: nothing returns or exits.
    is_whole: bool,
    /// A header or stack that is emitted under a condition, and the bit that says that its `emit` was reached.
    sometimes: Vec<(AstExpr, Val)>,
    /// What leaves as it is at the end.
    in_place: Vec<String>,
}

impl Lower<'_> {
    /// The control that emits.
    pub(super) fn deparser(&mut self, block: &Rc<BlockVal>, values: &[Val]) -> Vec<Stmt> {
        let DeclKind::Control(control) = &block.decl.kind else { return Vec::new() };
        let span = block.decl.name.span;
        let returns = control.body.as_ref().is_some_and(|body| returns(&body.statements));
        let is_whole = !returns && !self.is_needed(&Need::Exits(block.number));
        self.emitting = Emitting { is_whole, ..Emitting::default() };
        let ((), body) = self.apart(|lower| lower.block_alone(block, values));
        let Emitting { sometimes, .. } = std::mem::take(&mut self.emitting);
        let ((), mut made) = self.apart(|lower| {
            for (reached, _) in &sometimes {
                lower.set(reached, number(0, 1, span), span);
            }
        });
        made.extend(body);
        let ((), removed) = self.apart(|lower| {
            for (reached, value) in &sometimes {
                let ((), removed) = lower.apart(|lower| lower.invalidate(value, span));
                let not = is(reached.clone(), 0, 1, span);
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
            Val::Header(header) if header.ty.has_no_bits() => {}
            Val::Header(header) => match super::parser::header_name(&header.path) {
                Some(name) => self.emit_one(name, value, span),
                None => {
                    self.unsupported(span, "`emit` of a computed element of a stack");
                }
            },
            Val::Stack(stack) if stack.elements.is_empty() => {
                if self.emits.iter().any(|known| element(&known.value).0 == stack.name) {
                    // Some elements are emitted already.
                    let elements = self.elements_of(stack, span);
                    elements.iter().for_each(|one| self.emit(one, span));
                } else {
                    self.emit_one(stack.name.clone(), value, span);
                }
            }
            Val::Stack(stack) => stack.elements.clone().iter().for_each(|one| self.emit(one, span)),
            Val::Struct(fields) | Val::Union(fields) => {
                fields.clone().iter().for_each(|(_, value)| self.emit(value, span));
            }
            Val::Literal(None) | Val::Nothing => {}
            _ => {
                self.unsupported(span, "`emit` takes a header of the packet");
            }
        }
    }

    fn emit_one(&mut self, name: String, value: &Val, span: SourceSpan) {
        // The stack of an element that is emitted is too.
        let is_emitted = |known: &str| known == name || known == element(&name).0;
        if self.emits.iter().any(|known| is_emitted(&known.value))
            || self.is_needed(&Need::WrittenLate(name.clone()))
        {
            return self.emit_copy(value, span);
        }
        self.emits.push(Sp::new(name.clone(), span));
        self.emitting.in_place.push(name);
        if !self.emitting.is_whole || self.around.len() != self.body_level {
            let reached = self.new_meta("emitted", 1, span);
            self.set(&reached, number(1, 1, span), span);
            self.emitting.sometimes.push((reached, value.clone()));
        }
    }

    /// A header that is emitted already, or that is written later, leaves as a copy, which is valid only where this `emit` is reached.
    fn emit_copy(&mut self, value: &Val, span: SourceSpan) {
        for header in self.headers_in(value) {
            let ty = Type::Struct(header.ty.clone());
            let copy = self.copied(&Val::Header(header), &ty, "emitted", span);
            if let Val::Header(copy) = &copy
                && let Some(name) = super::parser::header_name(&copy.path)
            {
                self.emits.push(Sp::new(name, span));
            }
        }
    }

    /// A statement that is made: what it writes cannot leave as it is at the end, if it was emitted before.
    pub(super) fn note_late(&mut self, made: &Made, span: SourceSpan) {
        if self.emitting.in_place.is_empty() {
            return;
        }
        let kind = match made {
            // What is in these was noted when it was made.
            Made::If(..) | Made::Switch(..) => return,
            Made::Apply(apply) => Made::Apply(ApplyStmt {
                table: apply.table.clone(),
                hit: Vec::new(),
                miss: Vec::new(),
                actions: Vec::new(),
            }),
            other => other.clone(),
        };
        let mut seen = Mentions::default();
        seen.statements(&self.unit, &[Stmt { kind, span }]);
        let fields = seen.fields_written.iter().filter_map(|field| field.split_once('.'));
        let mut written: BTreeSet<&str> = fields.map(|(header, _)| header).collect();
        written.extend(seen.validity.iter().map(String::as_str));
        for (_, members) in &self.unit.unions {
            // One becomes valid, the others invalid.
            if members.iter().any(|member| seen.validity.contains(&member.value)) {
                written.extend(members.iter().map(|member| member.value.as_str()));
            }
        }
        let late = self.emitting.in_place.iter().filter(|name| written.contains(element(name).0));
        let late: Vec<Need> = late.map(|name| Need::WrittenLate(name.clone())).collect();
        late.into_iter().for_each(|need| self.need(need));
    }
}
