//! Variables that are never written: they have the value that they begin with, so that one that begins with a constant is one.

use std::collections::HashSet;

use super::super::tree::*;
use super::super::types::{Checked, Def};
use super::walk::{self, Met};

/// Numbers of the declarations that something may write.
pub(super) fn written(checked: &Checked) -> HashSet<u32> {
    let mut found = HashSet::new();
    checked.decls.iter().for_each(|decl| in_decl(checked, decl, &mut found));
    found
}

fn in_decl(checked: &Checked, decl: &Decl, found: &mut HashSet<u32>) {
    let mut see = |met: Met<'_>| {
        note(checked, met, found);
        false
    };
    match &decl.kind {
        DeclKind::Action { body, .. } => {
            let _ = walk::any(&body.statements, &mut see);
        }
        DeclKind::Function(inner) => {
            let body = inner.body.iter().flat_map(|body| &body.statements);
            body.for_each(|one| _ = walk::in_statement(one, &mut see));
        }
        DeclKind::Parser(inner) => {
            let bodies = inner.states.iter().flatten().flat_map(|state| &state.body.statements);
            bodies.for_each(|one| _ = walk::in_statement(one, &mut see));
            inner.locals.iter().for_each(|local| in_decl(checked, local, found));
        }
        DeclKind::Control(inner) => {
            let body = inner.body.iter().flat_map(|body| &body.statements);
            body.for_each(|one| _ = walk::in_statement(one, &mut see));
            inner.locals.iter().for_each(|local| in_decl(checked, local, found));
        }
        DeclKind::Table(table) => {
            let keys = table.keys.iter().map(|key| &key.value);
            let actions = table.actions.iter().map(|one| &one.action);
            let all = keys.chain(actions).chain(&table.default);
            all.for_each(|one| _ = walk::in_expr(one, &mut see));
        }
        DeclKind::Instance { methods, .. } => {
            methods.iter().for_each(|method| in_decl(checked, method, found));
        }
        _ => {}
    }
}

/// What is assigned, given to a call as it is, or has a method called.
fn note(checked: &Checked, met: Met<'_>, found: &mut HashSet<u32>) {
    let mut place = |expr: &Expr| {
        if let Some(Def::Decl(decl)) = checked.defs.get(&walk::root(expr).id) {
            found.insert(decl.id);
        }
    };
    match met {
        Met::Statement(Stmt { kind: StmtKind::Assign(target, ..), .. }) => place(target),
        Met::Expr(expr) => {
            if let ExprKind::Call { callee, args, .. } = &*expr.kind {
                place(callee);
                args.iter().for_each(|arg| place(&arg.value));
            }
        }
        Met::Statement(_) => {}
    }
}
