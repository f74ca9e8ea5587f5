//! Changes a tree that is made: its lists of statements, and the paths in it.

use std::collections::HashMap;

use crate::ast::{
    ApplyStmt, Ast, AstExpr, NextDecl, Path, PathPart, PatternDecl, Stmt, StmtKind, Unit,
};

/// Every list of statements, those inside of a list before it.
pub(super) fn lists(unit: &mut Unit, does: &mut dyn FnMut(&mut Vec<Stmt>)) {
    let states = unit.parser.iter_mut().chain(&mut unit.egress_parser);
    states.for_each(|(_, state)| in_list(&mut state.statements, does));
    unit.actions.iter_mut().for_each(|(_, action)| in_list(&mut action.body, does));
    unit.controls.iter_mut().for_each(|(_, control)| in_list(&mut control.body, does));
    let halves = [&mut unit.ingress, &mut unit.egress];
    halves.into_iter().flatten().for_each(|half| in_list(&mut half.value, does));
}

fn in_list(list: &mut Vec<Stmt>, does: &mut dyn FnMut(&mut Vec<Stmt>)) {
    for statement in list.iter_mut() {
        match &mut statement.kind {
            StmtKind::If(_, then, other) => {
                in_list(then, does);
                in_list(other, does);
            }
            StmtKind::Switch(_, cases, default) => {
                cases.iter_mut().for_each(|(_, body)| in_list(body, does));
                in_list(default, does);
            }
            StmtKind::Apply(ApplyStmt { hit, miss, actions, .. }) => {
                in_list(hit, does);
                in_list(miss, does);
                actions.iter_mut().for_each(|(_, body)| in_list(body, does));
            }
            StmtKind::Update { body, .. } => in_list(body, does),
            _ => {}
        }
    }
    does(list);
}

/// Gives the values that these statements keep other names, so that they can stand once more in a block.
pub(super) fn rename_values(statements: &mut Vec<Stmt>, new_name: &mut dyn FnMut() -> String) {
    let kept = statements.iter().filter_map(|statement| match &statement.kind {
        StmtKind::Let(name, _) => Some(name.value.clone()),
        _ => None,
    });
    let names: HashMap<String, String> = kept.map(|name| (name, new_name())).collect();
    for statement in statements.iter_mut() {
        if let StmtKind::Let(name, _) = &mut statement.kind {
            name.value.clone_from(&names[&name.value]);
        }
    }
    in_list(statements, &mut |list| {
        for statement in list {
            in_statement(statement, &mut |path| {
                if let [PathPart::Name(name)] = &mut path.parts[..]
                    && let Some(new) = names.get(&name.value)
                {
                    name.value.clone_from(new);
                }
            });
        }
    });
}

/// Every path of the tree.
pub(super) fn paths(unit: &mut Unit, does: &mut dyn FnMut(&mut Path)) {
    lists(unit, &mut |list| list.iter_mut().for_each(|one| in_statement(one, does)));
    for (_, state) in unit.parser.iter_mut().chain(&mut unit.egress_parser) {
        state.verify.iter_mut().for_each(|(holds, _)| in_expr(holds, does));
        state.extract_at.iter_mut().for_each(|(_, at)| in_expr(at, does));
        if let Some(end) = &mut state.body_end {
            in_expr(end, does);
        }
        let NextDecl::Select { keys, cases, .. } = &mut state.next else { continue };
        keys.iter_mut().for_each(|key| in_expr(key, does));
        let patterns = cases.iter_mut().flat_map(|case| &mut case.patterns);
        for pattern in patterns {
            match &mut pattern.value {
                PatternDecl::Value(value) | PatternDecl::Prefix(value, _) => in_expr(value, does),
                PatternDecl::Mask(a, b) | PatternDecl::Range(a, b) => {
                    in_expr(a, does);
                    in_expr(b, does);
                }
                PatternDecl::Any | PatternDecl::Set(_) => {}
            }
        }
    }
    for (_, table) in &mut unit.tables {
        table.key.iter_mut().for_each(|key| in_expr(&mut key.value, does));
    }
    for (_, fields) in &mut unit.digests {
        fields.iter_mut().for_each(|(_, value)| in_expr(value, does));
    }
}

/// Paths of a statement, without those of the statements in it.
pub(super) fn in_statement(statement: &mut Stmt, does: &mut dyn FnMut(&mut Path)) {
    match &mut statement.kind {
        StmtKind::Assign(to, bounds, value) => {
            in_path(&mut to.value, does);
            if let Some((high, low)) = bounds {
                in_expr(high, does);
                in_expr(low, does);
            }
            in_expr(value, does);
        }
        StmtKind::Let(_, value) | StmtKind::If(value, ..) => in_expr(value, does),
        StmtKind::Call(_, args) | StmtKind::CallControl(_, args) => {
            args.iter_mut().for_each(|arg| in_expr(arg, does));
        }
        StmtKind::Switch(value, cases, _) => {
            in_expr(value, does);
            let labels = cases.iter_mut().flat_map(|(labels, _)| labels);
            labels.for_each(|label| in_expr(label, does));
        }
        StmtKind::Update { index, .. } => in_expr(index, does),
        StmtKind::Learn { key, action, .. } => {
            key.iter_mut().for_each(|part| in_expr(part, does));
            in_expr(action, does);
        }
        StmtKind::Drop(_)
        | StmtKind::Punt(_)
        | StmtKind::Exit
        | StmtKind::Return
        | StmtKind::Apply(_) => {}
    }
}

/// Paths of an expression, those of its indices first.
pub(super) fn in_expr(expr: &mut AstExpr, does: &mut dyn FnMut(&mut Path)) {
    match &mut expr.value {
        Ast::Path(path) => in_path(path, does),
        other => other.each_part_mut(&mut |part| in_expr(part, does)),
    }
}

fn in_path(path: &mut Path, does: &mut dyn FnMut(&mut Path)) {
    for part in &mut path.parts {
        if let PathPart::Index(index) = part {
            in_expr(index, does);
        }
    }
    does(path);
}

/// The first two names of a path that begins with two.
pub(super) fn two_names(path: &Path) -> Option<(&str, &str)> {
    match path.parts.as_slice() {
        [PathPart::Name(first), PathPart::Name(second), ..] => {
            Some((first.value.as_str(), second.value.as_str()))
        }
        _ => None,
    }
}
