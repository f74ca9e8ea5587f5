//! What the tree mentions: which metadata crosses the queue, and whether something is ever written.

use std::collections::BTreeSet;

use crate::ast::{Ast, AstExpr, Path, PathPart, StateDecl, Stmt, StmtKind, Unit};

/// Metadata that is read and written in a part of the program.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    pub(super) read: BTreeSet<String>,
    pub(super) written: BTreeSet<String>,
    /// First names of paths.
    pub(super) first: BTreeSet<String>,
    /// Fields of headers, as `header.field`.
    pub(super) fields_read: BTreeSet<String>,
    pub(super) fields_written: BTreeSet<String>,
    /// Headers that become valid or invalid, or are written whole.
    pub(super) validity: BTreeSet<String>,
    /// Functions and procedures that are called.
    pub(super) called: BTreeSet<String>,
    done: BTreeSet<String>,
}

impl Mentions {
    /// Statements with all that they run.
    pub(super) fn statements(&mut self, unit: &Unit, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.statement(unit, statement));
    }

    /// The states of the parser.
    pub(super) fn state(&mut self, unit: &Unit, state: &StateDecl) {
        self.statements(unit, &state.statements);
    }

    fn statement(&mut self, unit: &Unit, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Assign(path, slice, value) => {
                if let Some(name) = meta(&path.value) {
                    if slice.is_some() {
                        self.read.insert(name.clone());
                    }
                    self.written.insert(name);
                }
                match field(&path.value) {
                    (header, Some(field)) => {
                        self.fields_written.insert(format!("{header}.{field}"));
                    }
                    (header, None) => {
                        self.validity.insert(header);
                    }
                }
                self.path(&path.value, false);
                self.expr(value);
            }
            StmtKind::Let(_, value) => self.expr(value),
            StmtKind::Call(name, args) => {
                self.called.insert(name.value.clone());
                if matches!(name.value.as_str(), "set_valid" | "set_invalid" | "push" | "pop")
                    && let Some(Ast::Path(path)) = args.first().map(|arg| &arg.value)
                {
                    self.validity.insert(field(path).0);
                }
                args.iter().for_each(|arg| self.expr(arg));
                self.action(unit, &name.value);
            }
            StmtKind::If(condition, then, other) => {
                self.expr(condition);
                self.statements(unit, then);
                self.statements(unit, other);
            }
            StmtKind::Switch(value, cases, default) => {
                self.expr(value);
                cases.iter().for_each(|(_, body)| self.statements(unit, body));
                self.statements(unit, default);
            }
            StmtKind::Apply(apply) => {
                self.table(unit, &apply.table.value);
                self.statements(unit, &apply.hit);
                self.statements(unit, &apply.miss);
                apply.actions.iter().for_each(|(_, body)| self.statements(unit, body));
            }
            StmtKind::CallControl(name, _) => {
                if self.done.insert(format!("control {}", name.value))
                    && let Some((_, body)) =
                        unit.controls.iter().find(|(known, _)| known.value == name.value)
                {
                    self.statements(unit, &body.body);
                }
            }
            _ => {}
        }
    }

    fn table(&mut self, unit: &Unit, name: &str) {
        if !self.done.insert(format!("table {name}")) {
            return;
        }
        let Some((_, table)) = unit.tables.iter().find(|(known, _)| known.value == name) else {
            return;
        };
        table.key.iter().for_each(|key| self.expr(&key.value));
        table.actions.iter().for_each(|action| self.action(unit, &action.value));
        if let Some(default) = &table.default {
            self.expr(default);
        }
    }

    fn action(&mut self, unit: &Unit, name: &str) {
        if !self.done.insert(format!("action {name}")) {
            return;
        }
        if let Some((_, action)) = unit.actions.iter().find(|(known, _)| known.value == name) {
            self.statements(unit, &action.body);
        }
        if let Some((_, fields)) = unit.digests.iter().find(|(known, _)| known.value == name) {
            fields.iter().for_each(|(_, value)| self.expr(value));
        }
    }

    fn path(&mut self, path: &Path, reads: bool) {
        if let Some(PathPart::Name(name)) = path.parts.first() {
            self.first.insert(name.value.clone());
        }
        if reads && let Some(name) = meta(path) {
            self.read.insert(name);
        }
        if reads && let (header, Some(field)) = field(path) {
            self.fields_read.insert(format!("{header}.{field}"));
        }
        for part in &path.parts {
            if let PathPart::Index(index) = part {
                self.expr(index);
            }
        }
    }

    pub(super) fn expr(&mut self, expr: &AstExpr) {
        match &expr.value {
            Ast::Path(path) => self.path(path, true),
            Ast::Call(name, _) => {
                self.called.insert(name.value.clone());
            }
            _ => {}
        }
        expr.value.each_part(&mut |part| self.expr(part));
    }
}

/// The first name of a path, and its last where there is more than one; elements of a stack are one.
fn field(path: &Path) -> (String, Option<String>) {
    let mut names = path.parts.iter().filter_map(|part| match part {
        PathPart::Name(name) => Some(name.value.clone()),
        PathPart::Index(_) => None,
    });
    (names.next().unwrap_or_default(), names.next_back())
}

/// The name of a field of metadata, or `std.name`.
fn meta(path: &Path) -> Option<String> {
    match path.parts.as_slice() {
        [PathPart::Name(space), PathPart::Name(name), ..] if space.value == "meta" => {
            Some(name.value.clone())
        }
        [PathPart::Name(space), PathPart::Name(name), ..] if space.value == "std" => {
            Some(format!("std.{}", name.value))
        }
        _ => None,
    }
}
