//! `setInvalid` behind the reads that follow it.
//!
//! P4 leaves open what a field of an invalid header reads as. bmv2 has what it was, and programs count on it: `h.setInvalid();
//! count(h.f)`. So `setInvalid` goes behind the assignments and counts that only read fields of its header. Nothing else is moved.

use std::borrow::Cow;

use super::super::tree::*;
use super::walk::{self, Met};

/// Calls that read their arguments and look at no header.
const READERS: [&str; 2] = ["count", "write"];

/// The names of a place: `hdr.tunnel`. `None` where it is computed.
fn names(place: &Expr) -> Option<Vec<&str>> {
    match &*place.kind {
        ExprKind::Name(name, _) => Some(vec![&*name.value]),
        ExprKind::Member(of, name) => {
            let mut all = names(of)?;
            all.push(&*name.value);
            Some(all)
        }
        _ => None,
    }
}

/// The header of a statement `h.setInvalid();`.
fn made_invalid(statement: &Stmt) -> Option<Vec<&str>> {
    let StmtKind::Call(call) = &statement.kind else { return None };
    let ExprKind::Call { callee, .. } = &*call.kind else { return None };
    match &*callee.kind {
        ExprKind::Member(header, name) if &*name.value == "setInvalid" => names(header),
        _ => None,
    }
}

/// What a statement has to do with a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It reads fields.
    Reads,
    None,
    /// Something else, or that cannot be seen here.
    Other,
}

fn use_of(header: &[&str], statement: &Stmt) -> Use {
    let calls_allowed = match &statement.kind {
        StmtKind::Assign(target, ..) => {
            let place = names(target);
            if place.is_none_or(|place| place.starts_with(header) || header.starts_with(&place)) {
                return Use::Other;
            }
            0
        }
        StmtKind::Call(call) => match &*call.kind {
            ExprKind::Call { callee, .. } => match &*callee.kind {
                ExprKind::Member(_, name) if READERS.contains(&&*name.value) => 1,
                _ => return Use::Other,
            },
            _ => return Use::Other,
        },
        _ => return Use::Other,
    };
    let (mut calls, mut reads) = (0, 0);
    // How often the header, and each struct that it is in, is named; and how often only for a member.
    let (mut named, mut for_members) = (0, 0);
    walk::in_statement(statement, &mut |met| {
        let Met::Expr(expr) = met else { return false };
        if matches!(&*expr.kind, ExprKind::Call { .. }) {
            calls += 1;
        }
        let is_above = |place: &Expr| names(place).is_some_and(|place| header.starts_with(&place));
        named += usize::from(is_above(expr));
        if let ExprKind::Member(of, _) = &*expr.kind {
            for_members += usize::from(is_above(of));
            reads += usize::from(names(of).is_some_and(|of| of == header));
        }
        false
    });
    match calls > calls_allowed || named != for_members {
        true => Use::Other,
        false if reads > 0 => Use::Reads,
        false => Use::None,
    }
}

/// The statements, with each `setInvalid` behind the reads that follow it.
pub(super) fn behind_reads(statements: &[Stmt]) -> Cow<'_, [Stmt]> {
    let mut all = Cow::Borrowed(statements);
    // From the last: what was moved is not moved again.
    for at in (0..statements.len()).rev() {
        let Some(header) = made_invalid(&statements[at]) else { continue };
        let uses = all[at + 1..].iter().map(|next| use_of(&header, next));
        let near: Vec<Use> = uses.take_while(|one| *one != Use::Other).collect();
        if let Some(last) = near.iter().rposition(|one| *one == Use::Reads) {
            all.to_mut()[at..=at + 1 + last].rotate_left(1);
        }
    }
    all
}
