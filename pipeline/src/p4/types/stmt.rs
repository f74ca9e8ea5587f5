//! Statements.

use std::rc::Rc;

use super::super::tree::*;
use super::check::{Checker, Name, Place};
use super::{CallInfo, Callee, Const, Type};
use crate::diag::codes;

impl Checker<'_> {
    /// The type of the result of a call that goes nowhere is known from its arguments.
    fn types_found(&mut self, call: &Expr) {
        // One of an optional parameter without an argument stays open.
        if matches!(self.known(&self.noted(call)), Type::Infer(_)) {
            let text = "the type of the result does not follow from the arguments";
            self.type_error(call.span, text).help("give it: `f<bit<8>>()`");
        }
    }

    /// A block: a scope of its own.
    pub(super) fn block(&mut self, block: &Block) {
        self.open();
        self.statements(&block.statements);
        self.close();
    }

    pub(super) fn statements(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Block(block) => self.block(block),
            StmtKind::Assign(target, operator, value) => {
                self.assign(statement, target, *operator, value)
            }
            StmtKind::Call(call) => {
                self.value(call);
                self.types_found(call);
            }
            StmtKind::If(condition, then, other) => {
                self.value_as(condition, &Type::Bool);
                self.scoped(then);
                if let Some(other) = other {
                    self.scoped(other);
                }
            }
            StmtKind::Switch(value, cases) => self.switch(statement, value, cases),
            StmtKind::Return(value) => self.return_statement(statement, value.as_ref()),
            StmtKind::Exit => {
                if matches!(self.place, Place::Parser | Place::Function(_)) {
                    let text = "`exit` stands in controls and actions";
                    self.error(codes::WRONG_PLACE, statement.span, text);
                }
            }
            StmtKind::Break | StmtKind::Continue => {
                if self.loops == 0 {
                    let text = "`break` and `continue` stand in loops";
                    self.error(codes::WRONG_PLACE, statement.span, text);
                }
            }
            StmtKind::For { init, condition, update, body } => {
                self.open();
                self.statements(init);
                self.value_as(condition, &Type::Bool);
                self.statements(update);
                self.loops += 1;
                self.scoped(body);
                self.loops -= 1;
                self.close();
            }
            StmtKind::ForIn(decl, values, body) => self.for_in(decl, values, body),
            StmtKind::Declare(decl) => self.declaration(decl),
        }
    }

    fn scoped(&mut self, statement: &Stmt) {
        self.open();
        self.statement(statement);
        self.close();
    }

    fn for_in(&mut self, decl: &Rc<Decl>, values: &Expr, body: &Stmt) {
        self.open();
        self.declaration(decl);
        let want = self.declared.get(&decl.id).cloned().unwrap_or(Type::Any);
        // An empty range is a loop without iterations.
        self.is_loop_range = matches!(&*values.kind, ExprKind::Range(..));
        let ty = self.value(values);
        self.is_loop_range = false;
        match self.known(&ty) {
            Type::Set(_) => {
                if let ExprKind::Range(low, high) = &*values.kind {
                    let (low, high) = (low.clone(), high.clone());
                    self.fit(&low, &want);
                    self.fit(&high, &want);
                }
            }
            Type::Stack(of, _) | Type::List(of) => {
                let of = (*of).clone();
                if !self.unify(&of, &want) {
                    self.type_error(values.span, format!("expected values of {want}, found {of}"));
                }
            }
            Type::Listed(..) => {
                if let ExprKind::List(items, _) = &*values.kind {
                    for item in items.clone() {
                        self.fit(&item, &want);
                    }
                }
            }
            Type::Any => {}
            other => {
                self.type_error(values.span, format!("a loop cannot go over {other}"));
            }
        }
        self.loops += 1;
        self.scoped(body);
        self.loops -= 1;
        self.close();
    }

    fn assign(&mut self, statement: &Stmt, target: &Expr, operator: Option<Binary>, value: &Expr) {
        let ty = self.value(target);
        let ty = self.known(&ty);
        if matches!(
            ty,
            Type::Method
                | Type::Table(_)
                | Type::Action(_)
                | Type::Extern(..)
                | Type::Name(_)
                | Type::Integer
        ) {
            self.error(codes::NOT_ASSIGNABLE, target.span, format!("{ty} cannot be assigned"));
            self.value(value);
            return;
        }
        self.must_be_place(target);
        let Some(operator) = operator else {
            self.value_as(value, &ty);
            return;
        };
        // The result has the type of the target, as in `a = a op b`.
        let got = self.value(value);
        let got = self.known(&got);
        if ty.is_any() || got.is_any() {
            return;
        }
        let fits = matches!(ty, Type::Bit(_) | Type::Int(_))
            && match operator {
                Binary::Op(AstBin::Shl | AstBin::Shr) => {
                    matches!(got, Type::Bit(_) | Type::Integer)
                        && self.shift(value, &ty, &got).is_some()
                }
                Binary::Div | Binary::Op(AstBin::Rem) => {
                    self.division(target, value, &ty, &got).is_some()
                }
                _ => self.converts(value, &got, &ty),
            };
        if !fits {
            let text = format!("`{}=` cannot be applied to {ty} and {got}", operator.symbol());
            self.type_error(statement.span, text);
        }
    }

    fn return_statement(&mut self, statement: &Stmt, value: Option<&Expr>) {
        match (self.place.clone(), value) {
            (Place::Function(Type::Void), Some(value)) => {
                self.type_error(value.span, "this function returns nothing");
            }
            (Place::Function(Type::Void), None) => {}
            (Place::Function(want), Some(value)) => {
                self.value_as(value, &want);
            }
            (Place::Function(want), None) => {
                self.type_error(statement.span, format!("`return` needs a value of {want}"));
            }
            (Place::Parser, _) => {
                self.error(codes::WRONG_PLACE, statement.span, "a parser does not return");
            }
            (_, Some(value)) => {
                self.error(codes::WRONG_PLACE, value.span, "only a function returns a value");
            }
            (_, None) => {}
        }
    }

    fn switch(&mut self, statement: &Stmt, value: &Expr, cases: &[SwitchCase]) {
        let ty = self.value(value);
        let ty = self.known(&ty);
        // P4-16 1.2.5, section 12.7.2: no truth, and no `type` of its own.
        let is_value = matches!(
            ty,
            Type::Bit(_) | Type::Int(_) | Type::Enum(..) | Type::Error | Type::Integer
        );
        if !is_value && !matches!(ty, Type::ActionRun(_) | Type::Any) {
            self.type_error(value.span, format!("`switch` cannot look at {ty}"));
        }
        let mut seen = Vec::new();
        for (at, case) in cases.iter().enumerate() {
            match &case.label {
                None if at + 1 < cases.len() => {
                    self.error(codes::WRONG_PLACE, case.span, "`default` is the last case");
                }
                None => {}
                Some(label) => {
                    if let Some(known) = self.case_label(&ty, label) {
                        if seen.contains(&known) {
                            let text = format!("case {} already exists", known.0);
                            self.error(codes::DUPLICATE_CASE, label.span, text);
                        }
                        seen.push(known);
                    }
                }
            }
            if let Some(body) = &case.body {
                self.block(body);
            }
        }
        if matches!(self.place, Place::Parser) {
            self.error(codes::WRONG_PLACE, statement.span, "a parser has no `switch`");
        }
        if matches!(ty, Type::ActionRun(_)) && !matches!(self.place, Place::Control) {
            self.error(codes::WRONG_PLACE, statement.span, "a table is applied by controls only");
        }
    }

    /// A label; its text, and the number of the action that it names, to find duplicates.
    fn case_label(&mut self, ty: &Type, label: &Expr) -> Option<(String, Option<u32>)> {
        let Type::ActionRun(table) = ty else {
            self.value(label);
            if !self.fit(label, ty) {
                return None;
            }
            let text = match self.consts.get(&label.id) {
                Some(Const::Int(value)) => value.to_string(),
                Some(Const::Bool(value)) => value.to_string(),
                Some(Const::Enum(_, name) | Const::Error(name)) => name.to_string(),
                _ => {
                    let text = "a case must be known when the program is compiled";
                    return self.report.refuse(codes::NOT_CONSTANT, label.span, text);
                }
            };
            return Some((text, None));
        };
        let DeclKind::Table(inner) = &table.kind else { return None };
        let ExprKind::Name(name, global) = &*label.kind else {
            self.type_error(label.span, "a case of `action_run` is the name of an action");
            return None;
        };
        let found = self.find(&name.value, *global).and_then(<[_]>::first).cloned();
        let action_of = |one: &ActionRef| match self.calls.get(&one.action.id) {
            Some(CallInfo { callee: Callee::Decl(action), .. }) => Some(action.clone()),
            _ => None,
        };
        let is_found = |one: &&ActionRef| match (&found, action_of(one)) {
            (Some(Name::Decl(found)), Some(action)) => found.id == action.id,
            _ => false,
        };
        let is_written = |one: &&ActionRef| {
            let action = match &*one.action.kind {
                ExprKind::Call { callee, .. } => callee,
                _ => &one.action,
            };
            matches!(&*action.kind, ExprKind::Name(known, at_top) if known.value == name.value && at_top == global)
        };
        let mut actions = inner.actions.iter();
        let Some(listed) = actions.clone().find(is_found).or_else(|| actions.find(is_written))
        else {
            let names: Vec<String> =
                inner.actions.iter().filter_map(|one| action_name(&one.action)).collect();
            let text = format!("`{}` is not an action of `{}`", name.value, table.name.value);
            self.report
                .error(codes::NOT_LISTED, label.span, text)
                .did_you_mean(&name.value, names.iter().map(String::as_str));
            return None;
        };
        let action = action_of(listed)?;
        let number = action.id;
        self.defs.insert(label.id, super::Def::Decl(action));
        Some((name.value.to_string(), Some(number)))
    }
}

/// The name of an action in the list of a table.
pub(super) fn action_name(action: &Expr) -> Option<String> {
    match &*action.kind {
        ExprKind::Name(name, _) => Some(name.value.to_string()),
        ExprKind::Call { callee, .. } => action_name(callee),
        _ => None,
    }
}

/// True if no path goes behind these statements.
pub(super) fn always_returns(statements: &[Stmt]) -> bool {
    statements.iter().any(|statement| match &statement.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(block) => always_returns(&block.statements),
        StmtKind::If(_, then, Some(other)) => {
            always_returns(std::slice::from_ref(then))
                && always_returns(std::slice::from_ref(other))
        }
        StmtKind::Switch(_, cases) => {
            cases.iter().any(|case| case.label.is_none())
                && cases
                    .iter()
                    .filter_map(|case| case.body.as_ref())
                    .all(|body| always_returns(&body.statements))
        }
        _ => false,
    })
}
