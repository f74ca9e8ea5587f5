//! Whether egress may continue with the headers of ingress.
//!
//! The egress parser of PSA reads what the ingress deparser wrote. It finds the headers that ingress left if both parsers are the same
//! graph over the same headers, both deparsers emit the same, everything that is extracted is emitted in the order of its extraction, and ingress changes
//! neither which headers are valid nor a field that the parser decides by.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::tree::DeclKind;
use super::super::types::Type;
use super::Lower;
use super::env::{BlockVal, Val};
use super::parser::Current;
use super::scan::Mentions;
use super::v1model::bind_all;
use crate::ast::{self, NextDecl, StateDecl, Unit, element};
use crate::ir::SourceSpan;

/// What the egress parser does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reparsed {
    /// The same as the parser of ingress.
    Same,
    /// It extracts nothing.
    Nothing,
}

impl Lower<'_> {
    /// Compares the egress parser with the one of ingress, whose states are in the tree.
    pub(super) fn egress_parser(
        &mut self,
        block: &Rc<BlockVal>,
        hdr: &Val,
        headers: &Type,
    ) -> Option<Reparsed> {
        let DeclKind::Parser(parser) = &block.decl.kind else { return None };
        let span = block.decl.name.span;
        let (types, params) = self.parser_types(block)?;
        params.iter().skip(4).for_each(|param| self.no_fields(param));
        let same_headers = match (types.get(1)?, headers) {
            (Type::Struct(a), Type::Struct(b)) => a.decl.id == b.decl.id,
            _ => false,
        };
        let of_egress =
            if same_headers { hdr.clone() } else { self.storage(types.get(1)?, "", span) };
        let meta = self.storage(types.get(2)?, "", span);
        let input = self.storage(types.get(3)?, "istd", span);
        let scope = self.block_scope(block, &parser.constructor);
        bind_all(&scope, params, &[Val::Packet, of_egress, meta, input]);
        let ingress = std::mem::take(&mut self.unit.parser);
        self.state = Current::new(span);
        self.main_parser(parser, scope);
        let egress = std::mem::replace(&mut self.unit.parser, ingress);
        if egress.iter().all(|(_, state)| is_empty(state)) {
            return Some(Reparsed::Nothing);
        }
        if same_headers && text(&egress) == text(&self.unit.parser) {
            return Some(Reparsed::Same);
        }
        self.refuse(span, "differs from the parser of ingress");
        None
    }

    fn refuse(&mut self, span: SourceSpan, why: &str) {
        self.unsupported(span, format!("this egress parser cannot run: it {why}"))
            .note("a packet is parsed once here: egress continues with the headers that ingress leaves")
            .help("extract in egress what ingress extracts, or nothing; `wireyard explain E0025`");
    }

    /// Reports what makes the headers that egress would find others than those of ingress.
    pub(super) fn judge_reparse(
        &mut self,
        reparsed: Reparsed,
        parser: &Rc<BlockVal>,
        within: &[ast::Name],
        out: &[ast::Name],
    ) {
        let span = parser.decl.name.span;
        let names = |list: &[ast::Name]| -> Vec<String> {
            list.iter().map(|name| name.value.clone()).collect()
        };
        let emitted = names(within);
        let in_order = in_order(&self.unit.parser, &emitted);
        if reparsed == Reparsed::Nothing {
            // A copy is parsed as it was received, and leaves by the same list.
            if !self.clones.is_empty() && !in_order {
                let why = "extracts nothing, and a clone would lose the headers that ingress does not emit in their order";
                self.refuse(span, why);
            }
            return;
        }
        if emitted != names(out) {
            return self
                .refuse(span, "follows a deparser that emits other headers than that of egress");
        }
        if !in_order {
            return self.refuse(
                span,
                "follows a deparser that does not emit all that is extracted, in its order",
            );
        }
        let mut changes = Mentions::default();
        if let Some(body) = &self.unit.ingress {
            changes.statements(&self.unit, &body.value);
        }
        let is_header = |name: &&String| {
            self.unit.instances.iter().any(|(known, _)| element(&known.value).0 == name.as_str())
        };
        if let Some(header) = changes.validity.iter().find(is_header) {
            let why =
                format!("decides which headers there are, and ingress changes that of `{header}`");
            return self.refuse(span, &why);
        }
        let mut decides = Mentions::default();
        for (_, state) in &self.unit.parser {
            decides.state(&self.unit, state);
            if let NextDecl::Select { keys, .. } = &state.next {
                keys.iter().for_each(|key| decides.expr(key));
            }
        }
        if decides.called.contains("lookahead") {
            return self.refuse(span, "looks ahead, at bytes that ingress may have changed");
        }
        if let Some(field) = decides.fields_read.intersection(&changes.fields_written).next() {
            let why = format!("decides by `{field}`, which ingress changes");
            self.refuse(span, &why);
        }
    }
}

/// Whether a state extracts and decides nothing.
fn is_empty(state: &StateDecl) -> bool {
    state.extract.is_empty()
        && state.statements.is_empty()
        && matches!(&state.next, NextDecl::To(to) if to.as_ref().is_none_or(|to| to.value != "reject"))
}

/// States as text, without their places.
fn text(states: &ast::Named<StateDecl>) -> String {
    let unit = Unit { parser: states.clone(), ..Unit::default() };
    ast::print::units(&[unit])
}

/// Whether all that is extracted is emitted, in the order of its extraction.
fn in_order(states: &ast::Named<StateDecl>, emitted: &[String]) -> bool {
    let place = |name: &str| emitted.iter().position(|one| element(one).0 == element(name).0);
    let mut extracted: BTreeMap<&str, Vec<Option<usize>>> = BTreeMap::new();
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, state) in states {
        let mut all: Vec<Option<usize>> =
            state.extract.iter().map(|name| place(&name.value)).collect();
        for statement in &state.statements {
            if let ast::StmtKind::Call(called, args) = &statement.kind
                && called.value == "extract"
            {
                let header = args.first().and_then(|arg| match &arg.value {
                    ast::Ast::Path(path) => super::parser::header_name(path),
                    _ => None,
                });
                all.push(header.and_then(|name| place(&name)));
            }
        }
        extracted.insert(&name.value, all);
        let to = match &state.next {
            NextDecl::To(to) => to.iter().map(|to| to.value.as_str()).collect(),
            NextDecl::Select { cases, default, .. } => {
                let cases = cases.iter().map(|case| case.to.value.as_str());
                cases.chain(default.iter().map(|to| to.value.as_str())).collect()
            }
        };
        next.insert(&name.value, to);
    }
    extracted.iter().all(|(state, first)| {
        first.iter().all(Option::is_some)
            && first.is_sorted()
            && reachable(state, &next).iter().all(|later| {
                let later = extracted.get(later).map_or(&[][..], |all| all.as_slice());
                first.iter().all(|one| later.iter().all(|two| one <= two))
            })
    })
}

/// States that follow a state.
fn reachable<'a>(from: &str, next: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<&str> = next.get(from).cloned().unwrap_or_default();
    while let Some(state) = todo.pop() {
        if found.insert(state) {
            todo.extend(next.get(state).into_iter().flatten());
        }
    }
    found
}
