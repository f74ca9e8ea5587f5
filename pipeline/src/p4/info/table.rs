//! Tables, and the calls in a body.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Const, Type};
use super::ids::{full_name, numbers, text_of};
use super::notes::others;
use super::types::bytes;
use super::walk::{Bound, Called, Walk};
use super::{ActionRef, Key, Table};

/// Entries of a table without a size.
const SIZE: i64 = 1024;

impl Walk<'_> {
    /// Each call in statements that can be run, outermost last.
    pub(super) fn calls(&self, statements: &[Stmt], each: &mut dyn FnMut(&Expr)) {
        for statement in statements {
            match &statement.kind {
                StmtKind::Block(block) => self.calls(&block.statements, each),
                StmtKind::Assign(to, _, value) => {
                    calls_in(to, each);
                    calls_in(value, each);
                }
                StmtKind::Call(call) => calls_in(call, each),
                StmtKind::If(condition, then, other) => {
                    calls_in(condition, each);
                    let known = match self.checked.consts.get(&condition.id) {
                        Some(Const::Bool(holds)) => Some(*holds),
                        _ => None,
                    };
                    if known != Some(false) {
                        self.calls(std::slice::from_ref(then), each);
                    }
                    if let Some(other) = other.as_ref().filter(|_| known != Some(true)) {
                        self.calls(std::slice::from_ref(other), each);
                    }
                }
                StmtKind::Switch(value, cases) => {
                    calls_in(value, each);
                    let bodies =
                        self.taken(value, cases).iter().filter_map(|one| one.body.as_ref());
                    bodies.for_each(|body| self.calls(&body.statements, each));
                }
                StmtKind::Return(Some(value)) => calls_in(value, each),
                StmtKind::For { init, condition, update, body } => {
                    self.calls(init, each);
                    calls_in(condition, each);
                    self.calls(update, each);
                    self.calls(std::slice::from_ref(body), each);
                }
                StmtKind::ForIn(_, list, body) => {
                    calls_in(list, each);
                    self.calls(std::slice::from_ref(body), each);
                }
                StmtKind::Declare(decl) => {
                    if let DeclKind::Variable(_, Some(value)) = &decl.kind {
                        calls_in(value, each);
                    }
                }
                StmtKind::Return(None) | StmtKind::Exit | StmtKind::Break | StmtKind::Continue => {}
            }
        }
    }

    /// The cases that a `switch` may take: of a value that is known it is one.
    fn taken<'s>(&self, value: &Expr, cases: &'s [SwitchCase]) -> &'s [SwitchCase] {
        let Some(value) = self.checked.consts.get(&value.id) else { return cases };
        let is_it = |case: &SwitchCase| match &case.label {
            Some(label) => self.checked.consts.get(&label.id) == Some(value),
            None => false,
        };
        let is_default = |case: &SwitchCase| match &case.label {
            Some(label) => matches!(*label.kind, ExprKind::Any),
            None => true,
        };
        let labels_known = cases.iter().filter_map(|case| case.label.as_ref()).all(|label| {
            matches!(*label.kind, ExprKind::Any) || self.checked.consts.contains_key(&label.id)
        });
        if !labels_known {
            return cases;
        }
        let first = cases.iter().position(is_it).or_else(|| cases.iter().position(is_default));
        let Some(first) = first else { return &[] };
        let len = cases[first..].iter().position(|case| case.body.is_some());
        len.map_or(&[], |len| &cases[first..=first + len])
    }

    pub(super) fn table(&mut self, decl: &Rc<Decl>, table: &TableDecl, prefix: &str) {
        let name = full_name(prefix, &decl.annotations, &decl.name.value);
        if !self.tables.insert(name.clone()) {
            return;
        }
        if annotation(&decl.annotations, "hidden").is_some() {
            self.also.push(name);
            return;
        }
        let preamble = self.preamble(name, &decl.annotations, &[]);
        let mut made = Table { preamble, ..Table::default() };
        // Keys of a selector take a number, though they are not listed.
        let ids = numbers(table.keys.iter().map(|key| key.annotations.as_slice()));
        for (id, key) in ids.into_iter().zip(&table.keys) {
            if &*key.kind.value == "selector" {
                continue;
            }
            let ty = self.checked.types.get(key.value.id as usize).cloned().unwrap_or(Type::Any);
            let name = text_of(&key.annotations, "name");
            let name = name.unwrap_or_else(|| self.key_name(&key.value));
            let field = self.param(id, name, &key.annotations, &[], &ty);
            made.keys.push(Key { field, kind: key.kind.value.to_string() });
        }
        let mut refs: Vec<(u32, usize)> = Vec::new();
        for one in &table.actions {
            let Some(action) = self.action_decl(&one.action) else { continue };
            let Some(at) = self.action(&action, prefix, Called::ByTable) else { continue };
            refs.push((action.id, at));
            made.actions.push(ActionRef {
                action: at,
                annotations: others(&one.annotations, &[]),
                structured: self.structured(&one.annotations, &[]),
            });
        }
        self.default_action(table, prefix, &refs, &mut made);
        made.size = match self.property(table, &["size"]) {
            Some(Bound::Const(Const::Int(size))) => i64::try_from(&size).unwrap_or_default(),
            _ => 0,
        };
        if made.size == 0 {
            made.size = SIZE;
        }
        self.attached(table, &mut made);
        made.is_const = table.entries.as_ref().is_some_and(|entries| entries.is_const);
        made.has_entries = table.entries.as_ref().is_some_and(|entries| !entries.list.is_empty());
        self.info.tables.push(made);
    }

    fn default_action(
        &mut self,
        table: &TableDecl,
        prefix: &str,
        refs: &[(u32, usize)],
        made: &mut Table,
    ) {
        let Some(default) = &table.default else {
            let is_none = |decl: &&Rc<Decl>| &*decl.name.value == "NoAction";
            let Some(none) = self.checked.decls.iter().find(is_none).cloned() else { return };
            let Some(at) = self.action(&none, prefix, Called::ByTable) else { return };
            if !refs.iter().any(|(id, _)| *id == none.id) {
                let annotations = vec!["@defaultonly".to_owned()];
                made.actions.push(ActionRef { action: at, annotations, structured: Vec::new() });
            }
            made.default = Some((at, Vec::new(), false));
            return;
        };
        let Some(action) = self.action_decl(default) else { return };
        let Some(at) = self.action(&action, prefix, Called::ByTable) else { return };
        let DeclKind::Action { params, .. } = &action.kind else { return };
        let args = match &*default.kind {
            ExprKind::Call { args, .. } => self.ordered(default.id, args),
            _ => Vec::new(),
        };
        let mut values = Vec::new();
        for (param, value) in params.iter().zip(&args) {
            if param.direction != Direction::None {
                continue;
            }
            let bits = self.checked.declared.get(&param.id).and_then(Type::bits).unwrap_or(0);
            match value.as_ref().and_then(|value| self.bound(value)) {
                Some(Bound::Const(Const::Int(value))) => values.push(bytes(&value, bits)),
                Some(Bound::Const(Const::Bool(value))) => values.push(vec![u8::from(value)]),
                _ => {}
            }
        }
        made.default = Some((at, values, table.const_default));
    }

    /// Its action profile, counters, meters and timeouts.
    fn attached(&mut self, table: &TableDecl, made: &mut Table) {
        let object = |bound| match bound {
            Some(Bound::Object(at)) => Some(at),
            _ => None,
        };
        let names = ["implementation", "psa_implementation"];
        made.implementation = object(self.property(table, &names));
        if made.implementation.is_none() {
            made.implementation = self.in_place(table, &names);
        }
        for names in [["counters", "psa_direct_counter"], ["meters", "psa_direct_meter"]] {
            let declared = object(self.property(table, &names));
            made.direct.extend(declared.or_else(|| self.in_place(table, &names)));
        }
        let timeout = self.property(table, &["support_timeout", "psa_idle_timeout"]);
        made.has_timeouts = match timeout {
            Some(Bound::Const(Const::Bool(has))) => has,
            Some(Bound::Const(Const::Enum(_, name))) => &*name == "NOTIFY_CONTROL",
            _ => false,
        };
    }

    fn property(&self, table: &TableDecl, names: &[&str]) -> Option<Bound> {
        let is_it = |name: &Ident| names.contains(&&*name.value);
        let (_, value, _) = table.properties.iter().find(|(name, ..)| is_it(name))?;
        self.bound(value)
    }

    /// `@name("x") implementation = action_selector(..)`, `@name("x") counters = direct_counter(..)`.
    fn in_place(&mut self, table: &TableDecl, names: &[&str]) -> Option<usize> {
        let is_it = |name: &Ident| names.contains(&&*name.value);
        let (property, value, _) = table.properties.iter().find(|(name, ..)| is_it(name))?;
        let given = table.property_annotations.iter().find(|(name, _)| *name == property.value);
        let annotations = given.map(|(_, annotations)| annotations.clone()).unwrap_or_default();
        let name = text_of(&annotations, "name")?;
        let ExprKind::Call { args, .. } = &*value.kind else { return None };
        let Some(Type::Extern(of, types)) = self.checked.types.get(value.id as usize).cloned()
        else {
            return None;
        };
        let args = self.ordered(value.id, args);
        self.new_object(&of, &types, &args, name.trim_start_matches('.').to_owned(), &annotations)
    }

    fn action_decl(&self, expr: &Expr) -> Option<Rc<Decl>> {
        let callee = match &*expr.kind {
            ExprKind::Call { callee, .. } => callee,
            _ => expr,
        };
        match self.checked.types.get(callee.id as usize) {
            Some(Type::Action(decl)) => Some(decl.clone()),
            _ => None,
        }
    }
}

/// Each call in an expression.
pub(super) fn calls_in(expr: &Expr, each: &mut dyn FnMut(&Expr)) {
    expr.each_part(&mut |part| calls_in(part, each));
    if matches!(&*expr.kind, ExprKind::Call { .. }) {
        each(expr);
    }
}
