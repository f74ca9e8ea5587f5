//! Variables that are never written: they have the value that they begin with, so that one that begins with a constant is one.

use std::collections::HashSet;

use super::super::tree::*;
use super::super::types::{Checked, Def};
use super::walk::{self, Met};

/// Numbers of the declarations that something may write.
pub(super) fn written(checked: &Checked) -> HashSet<u32> {
    let mut found = HashSet::new();
    let mut see = |met: Met<'_>| {
        note(checked, met, &mut found);
        false
    };
    checked.decls.iter().for_each(|decl| _ = walk::in_decl(decl, &mut see));
    found
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
