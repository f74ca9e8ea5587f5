//! Warnings and refusals that need the whole program: headers that cannot be valid where they are
//! used, actions that call themselves, declarations that nothing uses.

use super::cx::Cx;
use super::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::validity::{self, Touch, Validity, Watch};
use crate::ir::{Body, Op, SourceSpan};
use std::collections::{BTreeMap, HashSet};

/// Every use of a header that is reached: its place, the header, whether it may be valid there.
#[derive(Default)]
struct Uses {
    reads: BTreeMap<ExprId, (InstanceId, bool)>,
    writes: BTreeMap<(u32, u32, u32), (SourceSpan, InstanceId, bool)>,
}

impl Watch for Uses {
    fn touch(&mut self, touch: Touch, instance: InstanceId, now: Validity) {
        let may = now.may(instance);
        match touch {
            Touch::Read(expr) => {
                self.reads.entry(expr).or_insert((instance, false)).1 |= may;
            }
            Touch::Write(Some(span)) => {
                let key = (span.file.0, span.start, span.end);
                self.writes.entry(key).or_insert((span, instance, false)).2 |= may;
            }
            Touch::Write(None) => {}
        }
    }
}

impl Cx<'_> {
    /// Uses of headers that cannot be valid on any path to them.
    pub(crate) fn check_reads(&mut self) {
        let mut uses = Uses::default();
        validity::controls(&self.ir, &mut uses);
        let mut found: Vec<(SourceSpan, InstanceId, bool)> = Vec::new();
        // A place of P4 is several where it stands for the elements of a stack: of these one that may be valid is enough.
        let mut valid: HashSet<SourceSpan> = HashSet::new();
        for (expr, (instance, may)) in &uses.reads {
            match self.ir.exprs.get(*expr).and_then(|expr| expr.span) {
                Some(span) if *may => _ = valid.insert(span),
                Some(span) => found.push((span, *instance, false)),
                None => {}
            }
        }
        for (span, instance, may) in uses.writes.values() {
            match may {
                true => _ = valid.insert(*span),
                false => found.push((*span, *instance, true)),
            }
        }
        found.retain(|(span, ..)| !valid.contains(span));
        for (span, instance, is_write) in found {
            let Some(instance) = self.ir.instances.get(instance) else { continue };
            let origin = self.ir.origin.as_ref();
            let called = origin.and_then(|origin| origin.any_header(&instance.name));
            let name = called.as_ref().unwrap_or(&instance.name);
            let (text, note) = if is_write {
                (format!("`{name}` cannot be valid here"), "assigning to it does nothing")
            } else {
                (format!("`{name}` cannot be valid here"), "it reads as 0")
            };
            self.report.warning(codes::INVALID_HERE, span, text).note(note);
        }
    }

    /// No action reaches itself by calls.
    pub(crate) fn check_recursion(&mut self) {
        let calls: Vec<Vec<(ActionId, Option<SourceSpan>)>> =
            self.ir.actions.iter().map(|action| calls_of(&action.body)).collect();
        for (id, action) in self.ir.actions.entries() {
            let mut seen = vec![false; calls.len()];
            let mut open: Vec<ActionId> = vec![id];
            let mut circle = false;
            while let Some(next) = open.pop() {
                for (to, _) in calls.get(next.index()).into_iter().flatten() {
                    circle |= *to == id;
                    if let Some(slot) = seen.get_mut(to.index())
                        && !std::mem::replace(slot, true)
                    {
                        open.push(*to);
                    }
                }
            }
            let span =
                calls.get(id.index()).and_then(|calls| calls.first()).and_then(|(_, span)| *span);
            if let (true, Some(span)) = (circle, span) {
                let text = format!("action `{}` calls itself", action.name);
                self.report
                    .error(codes::RECURSION, span, text)
                    .note("a packet's work is bounded: there are no loops outside the parser");
            }
        }
    }

    /// Declarations of the program's own file that nothing uses.
    pub(crate) fn check_unused(&mut self) {
        let root = self.units.first();
        if root.is_none_or(|root| root.is_library) {
            return;
        }
        let mut unused: Vec<(SourceSpan, String)> = Vec::new();
        // A header type of P4 is used where a variable or metadata has it, of which nothing is left here.
        let is_p4 = self.in_words_of(false, true);
        let origin = self.ir.origin.clone();
        for (name, (symbol, span)) in &self.scope.symbols {
            let Some(span) = span.filter(|span| span.file == FileId(0)) else { continue };
            if origin.as_ref().is_some_and(|origin| origin.outside.contains(*name)) {
                continue;
            }
            let implied = matches!(symbol, Symbol::Instance(at)
                if self.scope.instances.get(*at).is_none_or(|instance| instance.implied));
            let by_type = implied
                && self.scope.instances.iter().enumerate().any(|(at, instance)| {
                    instance.header.value == *name
                        && self.uses.reached.contains(&Symbol::Instance(at))
                });
            let mentioned = self.uses.mentioned.contains(symbol);
            // A constant may be there for the entries file.
            let constant = matches!(symbol, Symbol::Const(_));
            let by_type = by_type || implied && is_p4;
            if !self.uses.reached.contains(symbol) && !mentioned && !by_type && !constant {
                let kind = symbol.kind().trim_start_matches("an ").trim_start_matches("a ");
                unused.push((span, format!("{kind} `{name}` is never used")));
            }
        }
        for (unit, name) in root.iter().flat_map(|root| &root.parsers).map(|(name, _)| (0, name)) {
            if !self.called.contains(&(unit, name.value.clone())) {
                unused.push((name.span, format!("sub-parser `{}` is never called", name.value)));
            }
        }
        for (span, text) in unused {
            self.report.warning(codes::UNUSED, span, text);
        }
    }
}

fn calls_of(body: &Body) -> Vec<(ActionId, Option<SourceSpan>)> {
    let ops = body.blocks.iter().flat_map(|block| &block.ops);
    ops.filter_map(|op| match op.op {
        Op::Call(action, _) => Some((action, op.span)),
        _ => None,
    })
    .collect()
}
