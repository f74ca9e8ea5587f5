//! Walks over declarations and statements of the source with all that is in them. Nothing is evaluated here.

use super::super::tree::*;

/// Something that is met on the way.
#[derive(Clone, Copy)]
pub(super) enum Met<'a> {
    Statement(&'a Stmt),
    Expr(&'a Expr),
}

/// Whether something in these statements is what is looked for. Bodies of what they call are not looked at.
pub(super) fn any<'a>(statements: &'a [Stmt], is: &mut dyn FnMut(Met<'a>) -> bool) -> bool {
    statements.iter().any(|one| in_statement(one, is))
}

/// The same for one statement.
pub(super) fn in_statement<'a>(statement: &'a Stmt, is: &mut dyn FnMut(Met<'a>) -> bool) -> bool {
    if is(Met::Statement(statement)) {
        return true;
    }
    match &statement.kind {
        StmtKind::Block(block) => any(&block.statements, is),
        StmtKind::Assign(target, _, value) => in_expr(target, is) || in_expr(value, is),
        StmtKind::Call(call) => in_expr(call, is),
        StmtKind::If(condition, then, other) => {
            in_expr(condition, is)
                || in_statement(then, is)
                || other.as_ref().is_some_and(|other| in_statement(other, is))
        }
        StmtKind::Switch(value, cases) => {
            in_expr(value, is)
                || cases
                    .iter()
                    .any(|case| case.body.as_ref().is_some_and(|body| any(&body.statements, is)))
        }
        StmtKind::Return(value) => value.as_ref().is_some_and(|value| in_expr(value, is)),
        StmtKind::For { init, condition, update, body } => {
            any(init, is) || in_expr(condition, is) || any(update, is) || in_statement(body, is)
        }
        StmtKind::ForIn(_, values, body) => in_expr(values, is) || in_statement(body, is),
        StmtKind::Declare(decl) => match &decl.kind {
            DeclKind::Variable(_, Some(value)) | DeclKind::Const(_, value) => in_expr(value, is),
            _ => false,
        },
        StmtKind::Exit | StmtKind::Break | StmtKind::Continue => false,
    }
}

/// The same for everything that a declaration runs, and those in it.
pub(super) fn in_decl<'a>(decl: &'a Decl, is: &mut dyn FnMut(Met<'a>) -> bool) -> bool {
    let in_body = |body: &'a Option<Block>, is: &mut dyn FnMut(Met<'a>) -> bool| {
        body.as_ref().is_some_and(|body| any(&body.statements, is))
    };
    match &decl.kind {
        DeclKind::Action { body, .. } => any(&body.statements, is),
        DeclKind::Function(inner) => in_body(&inner.body, is),
        DeclKind::Parser(inner) => {
            inner.states.iter().flatten().any(|state| any(&state.body.statements, is))
                || inner.locals.iter().any(|local| in_decl(local, is))
        }
        DeclKind::Control(inner) => {
            in_body(&inner.body, is) || inner.locals.iter().any(|local| in_decl(local, is))
        }
        DeclKind::Table(table) => {
            let keys = table.keys.iter().map(|key| &key.value);
            let actions = table.actions.iter().map(|one| &one.action);
            keys.chain(actions).chain(&table.default).any(|one| in_expr(one, is))
        }
        DeclKind::Instance { methods, .. } => methods.iter().any(|method| in_decl(method, is)),
        _ => false,
    }
}

/// The name that a place begins with.
pub(super) fn root(place: &Expr) -> &Expr {
    match &*place.kind {
        ExprKind::Slice(of, ..)
        | ExprKind::PlusSlice(of, ..)
        | ExprKind::Member(of, _)
        | ExprKind::Index(of, _) => root(of),
        _ => place,
    }
}

/// The same for an expression.
pub(super) fn in_expr<'a>(expr: &'a Expr, is: &mut dyn FnMut(Met<'a>) -> bool) -> bool {
    if is(Met::Expr(expr)) {
        return true;
    }
    let mut is_met = false;
    expr.each_part(&mut |part| is_met = is_met || in_expr(part, is));
    is_met
}
