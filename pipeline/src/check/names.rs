//! Every name that a piece of the syntax tree mentions, unresolved.
//!
//! The walk is an over-approximation on purpose: a local with the name of a counter counts as a mention of the counter.
//! It decides what is numbered and what is unused, never what is correct.

use crate::ast::*;
use crate::ir::SourceSpan;

/// Calls `found` with every first name of a path and every name of a statement.
pub(crate) fn in_statements<'a>(statements: &'a [Stmt], found: &mut dyn FnMut(&'a str)) {
    for statement in statements {
        in_statement(statement, found);
    }
}

fn in_statement<'a>(statement: &'a Stmt, found: &mut dyn FnMut(&'a str)) {
    match &statement.kind {
        StmtKind::Assign(path, slice, value) => {
            in_path(&path.value, found);
            if let Some((high, low)) = slice {
                in_expr(high, found);
                in_expr(low, found);
            }
            in_expr(value, found);
        }
        StmtKind::Let(_, value) => in_expr(value, found),
        StmtKind::Call(name, args) => {
            found(&name.value);
            args.iter().for_each(|arg| in_expr(arg, found));
        }
        StmtKind::Drop(_) | StmtKind::Punt(_) | StmtKind::Exit | StmtKind::Return => {}
        StmtKind::If(cond, then, otherwise) => {
            in_expr(cond, found);
            in_statements(then, found);
            in_statements(otherwise, found);
        }
        StmtKind::Switch(value, cases, default) => {
            in_expr(value, found);
            for (labels, body) in cases {
                labels.iter().for_each(|label| in_expr(label, found));
                in_statements(body, found);
            }
            in_statements(default, found);
        }
        StmtKind::Apply(apply) => {
            found(&apply.table.value);
            in_statements(&apply.hit, found);
            in_statements(&apply.miss, found);
            apply.actions.iter().for_each(|(_, body)| in_statements(body, found));
        }
        StmtKind::CallControl(name, args) => {
            found(&name.value);
            args.iter().for_each(|arg| in_expr(arg, found));
        }
        StmtKind::Update { register, index, body, .. } => {
            found(&register.value);
            in_expr(index, found);
            in_statements(body, found);
        }
        StmtKind::Learn { table, key, action } => {
            found(&table.value);
            key.iter().for_each(|part| in_expr(part, found));
            in_expr(action, found);
        }
    }
}

/// Names in an expression; those of functions too.
pub(crate) fn in_expr<'a>(expr: &'a AstExpr, found: &mut dyn FnMut(&'a str)) {
    match &expr.value {
        Ast::Path(path) => in_path(path, found),
        Ast::Call(name, _) => found(&name.value),
        _ => {}
    }
    expr.value.each_part(&mut |part| in_expr(part, found));
}

fn in_path<'a>(path: &'a Path, found: &mut dyn FnMut(&'a str)) {
    for (position, part) in path.parts.iter().enumerate() {
        match part {
            PathPart::Name(name) if position == 0 => found(&name.value),
            PathPart::Name(_) => {}
            PathPart::Index(index) => in_expr(index, found),
        }
    }
}

/// Headers whose validity an expression tests: `h.valid`.
pub(crate) fn asked_in_expr<'a>(expr: &'a AstExpr, asked: &mut dyn FnMut(&'a str)) {
    match &expr.value {
        Ast::Path(path) => {
            if let (Some(PathPart::Name(first)), Some(PathPart::Name(last))) =
                (path.parts.first(), path.parts.last())
                && last.value == "valid"
            {
                asked(&first.value);
            }
        }
        Ast::Unary(_, value) => asked_in_expr(value, asked),
        Ast::Binary(_, left, right) => {
            asked_in_expr(left, asked);
            asked_in_expr(right, asked);
        }
        _ => {}
    }
}

/// Names in a parser state, value sets included; targets and errors are left out.
pub(crate) fn in_state<'a>(state: &'a StateDecl, found: &mut dyn FnMut(&'a str)) {
    state.extract.iter().for_each(|name| found(&name.value));
    in_statements(&state.statements, found);
    state.verify.iter().for_each(|(cond, _)| in_expr(cond, found));
    for (name, offset) in &state.extract_at {
        found(&name.value);
        in_expr(offset, found);
    }
    if let Some(end) = &state.body_end {
        in_expr(end, found);
    }
    if let NextDecl::Select { keys, cases, .. } = &state.next {
        keys.iter().for_each(|key| in_expr(key, found));
        for pattern in cases.iter().flat_map(|case| &case.patterns) {
            in_pattern(&pattern.value, found);
        }
    }
}

/// Names in a pattern.
pub(crate) fn in_pattern<'a>(pattern: &'a PatternDecl, found: &mut dyn FnMut(&'a str)) {
    match pattern {
        PatternDecl::Any => {}
        PatternDecl::Value(value) | PatternDecl::Prefix(value, _) => in_expr(value, found),
        PatternDecl::Mask(left, right) | PatternDecl::Range(left, right) => {
            in_expr(left, found);
            in_expr(right, found);
        }
        PatternDecl::Set(name) => found(&name.value),
    }
}

/// Headers that these statements may make valid, each with its statement.
pub(crate) fn made_in_statements<'a>(
    statements: &'a [Stmt],
    made: &mut dyn FnMut(&'a str, SourceSpan),
) {
    const MAKERS: [&str; 3] = ["extract", "extract_at", "set_valid"];
    for statement in statements {
        match &statement.kind {
            StmtKind::Call(name, args) if MAKERS.contains(&name.value.as_str()) => {
                if let Some(Ast::Path(path)) = args.first().map(|arg| &arg.value) {
                    first_name(path, &mut |name| made(name, statement.span));
                }
            }
            StmtKind::Assign(path, None, value) => {
                let fields = path.value.parts.iter().skip(1);
                let whole = fields.clone().all(|part| matches!(part, PathPart::Index(_)));
                if whole && matches!(value.value, Ast::Path(_)) {
                    first_name(&path.value, &mut |name| made(name, statement.span));
                }
            }
            StmtKind::If(_, then, otherwise) => {
                made_in_statements(then, made);
                made_in_statements(otherwise, made);
            }
            StmtKind::Switch(_, cases, default) => {
                cases.iter().for_each(|(_, body)| made_in_statements(body, made));
                made_in_statements(default, made);
            }
            StmtKind::Apply(apply) => {
                made_in_statements(&apply.hit, made);
                made_in_statements(&apply.miss, made);
                apply.actions.iter().for_each(|(_, body)| made_in_statements(body, made));
            }
            StmtKind::Update { body, .. } => made_in_statements(body, made),
            _ => {}
        }
    }
}

/// Headers that a parser state may make valid.
pub(crate) fn made_in_state<'a>(state: &'a StateDecl, made: &mut dyn FnMut(&'a str)) {
    state.extract.iter().for_each(|name| made(&name.value));
    state.extract_at.iter().for_each(|(name, _)| made(&name.value));
    made_in_statements(&state.statements, &mut |name, _| made(name));
}

fn first_name<'a>(path: &'a Path, found: &mut dyn FnMut(&'a str)) {
    if let Some(PathPart::Name(name)) = path.parts.first() {
        found(&name.value);
    }
}
