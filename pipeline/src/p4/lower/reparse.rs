//! Whether egress may continue with the headers of ingress.
//!
//! The egress parser of PSA reads what the ingress deparser wrote. It finds the headers that ingress left if both parsers are the same
//! graph over the same headers, both deparsers emit the same, everything that is extracted is emitted in the order of its extraction, the parser
//! only extracts, and ingress changes neither which headers are valid nor a field that the parser decides by.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::types::Type;
use super::Lower;
use super::env::{BlockVal, Val};
use super::need::Need;
use super::parser::Current;
use super::psa::Beside;
use super::scan::Mentions;
use crate::ast::{self, AstExpr, NextDecl, StateDecl, Unit, element};

/// What the egress parser does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The same as the parser of ingress.
    Same,
    /// It extracts nothing.
    Nothing,
    /// It runs when egress begins.
    Again,
}

/// The same, and the headers of egress.
pub(super) struct Reparsed {
    pub(super) how: How,
    pub(super) hdr: Val,
}

/// Headers of ingress, their type, and the metadata of egress.
pub(super) struct Seen<'s> {
    pub(super) hdr: &'s Val,
    pub(super) headers: &'s Type,
    pub(super) meta: &'s Val,
}

impl Lower<'_> {
    /// Compares the egress parser with the one of ingress, whose states are in the tree; or makes it a parser of egress.
    pub(super) fn egress_parser(
        &mut self,
        block: &Rc<BlockVal>,
        seen: &Seen<'_>,
        beside: &Beside,
        flag: Option<&AstExpr>,
    ) -> Option<Reparsed> {
        let span = block.decl.name.span;
        let types = self.param_types(block);
        let same_headers = match (types.get(1)?, seen.headers) {
            (Type::Struct(a), Type::Struct(b)) => a.decl.id == b.decl.id,
            _ => false,
        };
        let parses_again = self.is_needed(&Need::ParsesInEgress);
        let hdr = match same_headers && !parses_again {
            true => seen.hdr.clone(),
            false => self.packet_storage(types.get(1)?, span),
        };
        let input = self.egress_input(types.get(3)?, flag, span);
        let (normal, i2e, e2e) = (&beside.normal, &beside.clone_i2e, &beside.clone_e2e);
        let along = [normal.clone(), i2e.clone(), e2e.clone()];
        let values = [Val::Packet, hdr.clone(), seen.meta.clone(), input];
        let values: Vec<Val> = values.into_iter().chain(along).collect();
        let ingress = std::mem::take(&mut self.unit.parser);
        self.state = Current::new(span);
        self.main_parser(block, &values, Vec::new());
        let egress = std::mem::replace(&mut self.unit.parser, ingress);
        if parses_again {
            self.unit.egress_parser = egress;
            return Some(Reparsed { how: How::Again, hdr });
        }
        if egress.iter().all(|(_, state)| is_empty(state)) {
            let hdr = match same_headers {
                true => self.packet_storage(types.get(1)?, span),
                false => hdr,
            };
            return Some(Reparsed { how: How::Nothing, hdr });
        }
        if same_headers && text(&egress) == text(&self.unit.parser) {
            return Some(Reparsed { how: How::Same, hdr });
        }
        self.need(Need::ParsesInEgress);
        None
    }

    /// Has egress parse if it would find other headers than those of ingress.
    pub(super) fn judge_reparse(&mut self, how: How, within: &[ast::Name], out: &[ast::Name]) {
        if how != How::Again && !self.finds_the_same(how, within, out) {
            self.need(Need::ParsesInEgress);
        }
    }

    fn finds_the_same(&self, how: How, within: &[ast::Name], out: &[ast::Name]) -> bool {
        let names = |list: &[ast::Name]| -> Vec<String> {
            list.iter().map(|name| name.value.clone()).collect()
        };
        let emitted = names(within);
        let in_order = in_order(&self.unit.parser, &emitted);
        if how == How::Nothing {
            // A copy is parsed as it was received, and leaves by the same list.
            return in_order || !self.lists.has_clones();
        }
        if emitted != names(out) || !in_order {
            return false;
        }
        let mut changes = Mentions::default();
        if let Some(body) = &self.unit.ingress {
            changes.statements(&self.unit, &body.value);
        }
        let is_header = |name: &str| {
            self.unit.instances.iter().any(|(known, _)| element(&known.value).0 == name)
        };
        let of_header = |field: &String| field.split('.').next().is_some_and(is_header);
        let mut decides = Mentions::default();
        for (_, state) in &self.unit.parser {
            decides.state(&self.unit, state);
            if let NextDecl::Select { keys, .. } = &state.next {
                keys.iter().for_each(|key| decides.expr(key));
            }
        }
        !changes.validity.iter().any(|name| is_header(name))
            && !changes_validity(&self.unit, &is_header)
            && !decides.fields_written.iter().any(of_header)
            && !["lookahead", "advance"].iter().any(|name| decides.called.contains(*name))
            && decides.fields_read.is_disjoint(&changes.fields_written)
    }
}

/// Whether a state extracts and decides nothing.
fn is_empty(state: &StateDecl) -> bool {
    state.extract.is_empty()
        && state.statements.is_empty()
        && !matches!(&state.next, NextDecl::To(Some(to)) if to.value == "reject" || to.value.starts_with("reject("))
        && matches!(&state.next, NextDecl::To(_))
}

/// States as text, without their places.
fn text(states: &ast::Named<StateDecl>) -> String {
    let unit = Unit { parser: states.clone(), ..Unit::default() };
    ast::print::units(&[unit])
}

/// What a statement extracts, if it does that: the header, if that has a name.
fn extracted_by(statement: &ast::Stmt) -> Option<Option<String>> {
    match &statement.kind {
        ast::StmtKind::Call(called, args) if called.value == "extract" => {
            Some(args.first().and_then(|arg| match &arg.value {
                ast::Ast::Path(path) => super::parser::header_name(path),
                _ => None,
            }))
        }
        _ => None,
    }
}

/// The states that may follow each state.
fn ways(states: &ast::Named<StateDecl>) -> BTreeMap<&str, Vec<&str>> {
    states.iter().map(|(name, state)| (name.value.as_str(), following(&state.next))).collect()
}

fn following(next: &NextDecl) -> Vec<&str> {
    match next {
        NextDecl::To(to) => to.iter().map(|to| to.value.as_str()).collect(),
        NextDecl::Select { cases, default, .. } => {
            let cases = cases.iter().map(|case| case.to.value.as_str());
            cases.chain(default.iter().map(|to| to.value.as_str())).collect()
        }
    }
}

/// Whether states make headers valid or invalid other than by extracting them. To make one invalid that is not extracted
/// yet changes nothing: sub-parsers begin so with their `out` parameters.
fn changes_validity(unit: &Unit, is_header: &dyn Fn(&str) -> bool) -> bool {
    let states = &unit.parser;
    let next = ways(states);
    let base = |name: &str| element(name).0.to_owned();
    let extracted = |state: &StateDecl| {
        let first = state.extract.iter().map(|name| base(&name.value));
        let then = state.statements.iter().filter_map(|one| extracted_by(one).flatten());
        let then = then.map(|name| base(&name));
        first.chain(then).collect::<Vec<_>>()
    };
    let mut before: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, state) in states {
        for later in reachable(&name.value, &next) {
            before.entry(later).or_default().extend(extracted(state));
        }
    }
    states.iter().any(|(name, state)| {
        let mut known = before.remove(name.value.as_str()).unwrap_or_default();
        known.extend(state.extract.iter().map(|name| base(&name.value)));
        state.statements.iter().any(|statement| {
            known.extend(extracted_by(statement).flatten().map(|name| base(&name)));
            let mut mentions = Mentions::default();
            mentions.statements(unit, std::slice::from_ref(statement));
            let invalid = matches!(&statement.kind, ast::StmtKind::Call(called, _) if called.value == "set_invalid");
            let harmless = |name: &String| invalid && !known.contains(&base(name));
            mentions.validity.iter().any(|name| is_header(name) && !harmless(name))
        })
    })
}

/// Whether all that is extracted is emitted, in the order of its extraction.
fn in_order(states: &ast::Named<StateDecl>, emitted: &[String]) -> bool {
    let place = |name: &str| emitted.iter().position(|one| element(one).0 == element(name).0);
    let next = ways(states);
    let extracted = |state: &StateDecl| {
        let first = state.extract.iter().map(|name| place(&name.value));
        let then = state.statements.iter().filter_map(extracted_by);
        let then = then.map(|name| name.and_then(|name| place(&name)));
        first.chain(then).collect::<Vec<_>>()
    };
    let extracted: BTreeMap<&str, Vec<Option<usize>>> =
        states.iter().map(|(name, state)| (name.value.as_str(), extracted(state))).collect();
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
