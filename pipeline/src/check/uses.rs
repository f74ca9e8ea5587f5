//! The declarations that a program uses, found from its parser and controls.
//!
//! A library contains more than one program needs: an unused declaration is not compiled and has no id. A header is
//! used when code may make it valid; reading alone does not count. Everything that the program's own file declares is
//! compiled, so that its errors are reported.

use super::names;
use super::scope::{Scope, Symbol};
use crate::ast::*;
use crate::ir::SourceSpan;
use std::collections::{BTreeMap, BTreeSet};

/// Instances of a sub-parser and those that replace them.
pub(crate) type Bind = Vec<(String, String)>;

/// How deep sub-parsers and names of names are followed.
const DEPTH_MAX: usize = 64;

/// The declarations in use.
#[derive(Default)]
pub(crate) struct Uses {
    /// Everything that is compiled.
    pub(crate) all: BTreeSet<Symbol>,
    /// Symbols that the parser and the controls reach; all others are unused.
    pub(crate) reached: BTreeSet<Symbol>,
    /// Headers that statements of controls and actions may make valid, with the first of these.
    pub(crate) made_by_code: BTreeMap<Symbol, SourceSpan>,
    /// Headers that code refers to, whether they are ever valid or not.
    pub(crate) mentioned: BTreeSet<Symbol>,
}

impl Uses {
    /// Follows every name.
    pub(crate) fn of(units: &[&Unit], scope: &Scope<'_>) -> Uses {
        let Some(root) = units.first() else { return Uses::default() };
        let mut walk = Walk {
            units,
            scope,
            seen: BTreeSet::new(),
            made_by_code: BTreeMap::new(),
            mentioned: BTreeSet::new(),
            calls: BTreeSet::new(),
        };
        for (_, state) in root.parser.iter().chain(&root.egress_parser) {
            walk.state(0, state, &[], 0);
        }
        for body in [&root.ingress, &root.egress].into_iter().flatten() {
            walk.statements(&body.value);
        }
        walk.follow();
        let reached = walk.seen.clone();
        walk.own_declarations(root);
        walk.follow();
        let Walk { seen, mentioned, made_by_code, .. } = walk;
        Uses { all: seen, reached, made_by_code, mentioned }
    }
}

struct Walk<'s, 'a> {
    units: &'s [&'a Unit],
    scope: &'s Scope<'a>,
    seen: BTreeSet<Symbol>,
    made_by_code: BTreeMap<Symbol, SourceSpan>,
    mentioned: BTreeSet<Symbol>,
    calls: BTreeSet<(usize, String, Bind)>,
}

impl<'a> Walk<'_, 'a> {
    /// Notes a reference; not of a header, which only counts if code may make it valid.
    fn name(&mut self, name: &str) {
        match self.scope.symbol(name) {
            None => {}
            Some(symbol @ Symbol::Instance(_)) => {
                self.mentioned.insert(symbol);
            }
            Some(symbol) => {
                self.seen.insert(symbol);
            }
        }
    }

    /// Notes what may make a header valid.
    fn makes(&mut self, name: &str) {
        if let Some(symbol @ Symbol::Instance(_)) = self.scope.symbol(name) {
            self.seen.insert(symbol);
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        names::in_statements(statements, &mut |name| self.name(name));
        names::made_in_statements(statements, &mut |name, span| {
            self.makes(name);
            if let Some(symbol @ Symbol::Instance(_)) = self.scope.symbol(name) {
                self.made_by_code.entry(symbol).or_insert(span);
            }
        });
    }

    /// Follows references of actions, tables, controls and digests until nothing is new.
    fn follow(&mut self) {
        let mut done = BTreeSet::new();
        loop {
            let new: Vec<Symbol> = self.seen.difference(&done).copied().collect();
            if new.is_empty() {
                return;
            }
            for symbol in new {
                done.insert(symbol);
                self.symbol(symbol);
            }
        }
    }

    fn symbol(&mut self, symbol: Symbol) {
        let scope = self.scope;
        let mut found = |name: &str| self.name(name);
        match symbol {
            Symbol::Action(index) => {
                if let Some(item) = scope.actions.get(index) {
                    self.statements(&item.decl.body);
                }
            }
            Symbol::Control(index) => {
                if let Some(item) = scope.controls.get(index) {
                    self.statements(&item.decl.body);
                }
            }
            Symbol::Digest(index) => {
                for (_, value) in scope.digests.get(index).into_iter().flat_map(|item| item.decl) {
                    names::in_expr(value, &mut found);
                }
            }
            Symbol::Table(index) => {
                let Some(item) = scope.tables.get(index) else { return };
                item.decl.key.iter().for_each(|key| names::in_expr(&key.value, &mut found));
                item.decl.actions.iter().for_each(|name| found(&name.value));
                item.decl.default.iter().for_each(|call| names::in_expr(call, &mut found));
            }
            Symbol::Const(index) => {
                if let Some(item) = scope.consts.get(index) {
                    names::in_expr(item.decl, &mut found);
                }
            }
            _ => {}
        }
    }

    /// A parser state, through the bindings of the sub-parser that contains it.
    fn state(&mut self, unit: usize, state: &StateDecl, bind: &[(String, String)], depth: usize) {
        names::in_state(state, &mut |name| self.name(name));
        names::made_in_state(state, &mut |name| {
            let (header, _) = element(name);
            let bound = bind.iter().find(|(from, _)| from == header);
            self.makes(bound.map_or(header, |(_, to)| to));
        });
        let Some(call) = &state.call else { return };
        let Some((unit, states)) = sub_parser(self.units, unit, &call.target.value) else { return };
        let inner: Bind = bindings(&call.bind, bind);
        let key = (unit, call.target.value.clone(), inner.clone());
        if depth < DEPTH_MAX && self.calls.insert(key) {
            for (_, state) in states {
                self.state(unit, state, &inner, depth + 1);
            }
        }
    }

    /// Everything that the program's own file declares.
    fn own_declarations(&mut self, root: &'a Unit) {
        let own = [
            root.actions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            root.tables.iter().map(|(name, _)| name).collect(),
            root.controls.iter().map(|(name, _)| name).collect(),
            root.registers.iter().map(|(name, _)| name).collect(),
            root.counters.iter().map(|(name, _)| name).collect(),
            root.meters.iter().map(|(name, _)| name).collect(),
            root.digests.iter().map(|(name, _)| name).collect(),
            root.value_sets.iter().map(|(name, _)| name).collect(),
        ];
        own.into_iter().flatten().for_each(|name| self.name(&name.value));
        for (_, states) in &root.parsers {
            for (_, state) in states {
                self.state(0, state, &[], 0);
            }
        }
    }
}

/// The unit and the states of a sub-parser: `name` of the same unit, or `library.name`.
pub(crate) fn sub_parser<'a>(
    units: &[&'a Unit],
    unit: usize,
    target: &str,
) -> Option<(usize, &'a Named<StateDecl>)> {
    let (unit, name) = match target.split_once('.') {
        Some((library, name)) => {
            let named = |unit: &&Unit| unit.name.as_ref().is_some_and(|n| n.value == library);
            (units.iter().position(named)?, name)
        }
        None => (unit, target),
    };
    let parsers = &units.get(unit)?.parsers;
    let (_, states) = parsers.iter().find(|(known, _)| known.value == name)?;
    Some((unit, states))
}

/// The bindings inside a call: its own, mapped through those around it, then those around it.
pub(crate) fn bindings(own: &[(Name, Name)], outer: &[(String, String)]) -> Vec<(String, String)> {
    let through = |name: &str| {
        let bound = outer.iter().find(|(from, _)| from == name);
        bound.map_or(name, |(_, to)| to).to_string()
    };
    let mut all: Vec<(String, String)> =
        own.iter().map(|(from, to)| (from.value.clone(), through(&to.value))).collect();
    for (from, to) in outer {
        if !all.iter().any(|(known, _)| known == from) {
            all.push((from.clone(), to.clone()));
        }
    }
    all
}
