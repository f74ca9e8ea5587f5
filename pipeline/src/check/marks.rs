//! Where a program writes a congestion mark: the statements that change a header because of `std.congestion_mark`.
//!
//! The traffic manager decides that a packet carries a mark, and the program writes it as its protocol has it. So that
//! the device can count written marks, [`Op::MarkWritten`] follows the first statement of a block that assigns a header
//! field, or changes the validity of a header, if that block runs because of the mark or the value depends on it.
//! Metadata and locals that depend on it count as the mark. A table that is applied because of the mark counts as
//! writing if one of its actions does.

use std::collections::BTreeSet;

use super::depend::{deciders, dependent};
use crate::ids::*;
use crate::ir::eval::reads;
use crate::ir::std_meta::StdField;
use crate::ir::verify::{op_exprs, op_target};
use crate::ir::{Body, ExprKind, LValue, Op, OpAt, Program, Term};

/// A body of egress; `None` is egress itself.
type Place = Option<ActionId>;

/// Metadata and locals that hold the mark, or a value that depends on it.
#[derive(Default, PartialEq)]
struct Tainted {
    metadata: BTreeSet<MetaId>,
    locals: BTreeSet<(Place, LocalId)>,
}

impl Tainted {
    fn has(&self, place: Place, kind: &ExprKind) -> bool {
        match kind {
            ExprKind::Std(StdField::CongestionMark) => true,
            ExprKind::Meta(id) => self.metadata.contains(id),
            ExprKind::Local(id) => self.locals.contains(&(place, *id)),
            _ => false,
        }
    }
}

/// Inserts [`Op::MarkWritten`] where marks are written.
pub(super) fn note(program: &mut Program) {
    let is_mark = |kind: &ExprKind| matches!(kind, ExprKind::Std(StdField::CongestionMark));
    if !program.exprs.iter().any(|expr| is_mark(&expr.kind)) {
        return;
    }
    let places = places(program);
    let mut tainted = Tainted::default();
    // Each round adds something, and the program bounds how much can be added.
    while places.iter().any(|place| spread(program, *place, &mut tainted)) {}
    let writers = writers(program);
    for place in places {
        let Some(body) = body_of(program, place) else { continue };
        let found = writes(program, place, body, &tainted, &writers);
        for (block, at) in found {
            let body = match place {
                None => &mut program.egress,
                Some(id) => &mut program.actions[id].body,
            };
            let block = &mut body.blocks[block];
            let span = at.checked_sub(1).and_then(|at| block.ops.get(at)).and_then(|op| op.span);
            block.ops.insert(at, OpAt { op: Op::MarkWritten, span });
        }
    }
}

/// Egress and the actions that it reaches.
fn places(program: &Program) -> Vec<Place> {
    let mut found: Vec<Place> = vec![None];
    let mut at = 0;
    while let Some(place) = found.get(at).copied() {
        at += 1;
        let Some(body) = body_of(program, place) else { continue };
        let new: Vec<Place> =
            body.blocks.iter().flat_map(|b| run_by(program, b)).map(Some).collect();
        for place in new {
            if !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

/// Actions that a block calls, or that its table may run.
fn run_by(program: &Program, block: &crate::ir::Block) -> Vec<ActionId> {
    let calls = block.ops.iter().filter_map(|op| match op.op {
        Op::Call(action, _) => Some(action),
        _ => None,
    });
    calls.chain(applied(program, &block.term)).collect()
}

fn applied(program: &Program, term: &Term) -> Vec<ActionId> {
    let Term::Apply { table, .. } = term else { return Vec::new() };
    let table = program.tables.get(*table);
    let actions =
        table.iter().flat_map(|table| table.actions.iter().chain([&table.default.action]));
    actions.copied().collect()
}

fn body_of(program: &Program, place: Place) -> Option<&Body> {
    match place {
        None => Some(&program.egress),
        Some(id) => program.actions.get(id).map(|action| &action.body),
    }
}

/// By block, whether it runs because of the mark.
fn because_of_it(program: &Program, place: Place, body: &Body, tainted: &Tainted) -> Vec<bool> {
    let by_mark = |term: &Term| {
        let mut deciders = deciders(program, term).into_iter();
        deciders.any(|expr| reads(program, expr, &|kind| tainted.has(place, kind)))
    };
    dependent(body, &by_mark)
}

/// Follows the mark through assignments; true if it reached anything new.
fn spread(program: &Program, place: Place, tainted: &mut Tainted) -> bool {
    let Some(body) = body_of(program, place) else { return false };
    let depends = because_of_it(program, place, body, tainted);
    let mut is_new = false;
    for (block, depends) in body.blocks.iter().zip(depends) {
        for op in &block.ops {
            let exprs = op_exprs(&op.op);
            let by_value = |expr| reads(program, expr, &|kind| tainted.has(place, kind));
            let from_mark: Vec<bool> = exprs.into_iter().map(|e| depends || by_value(e)).collect();
            if let Op::Call(action, _) = op.op {
                for (n, _) in from_mark.iter().enumerate().filter(|(_, from)| **from) {
                    is_new |= tainted.locals.insert((Some(action), LocalId::new(n)));
                }
            } else if from_mark.contains(&true) {
                is_new |= match op_target(&op.op) {
                    Some(LValue::Meta(id)) => tainted.metadata.insert(*id),
                    Some(LValue::Local(id)) => tainted.locals.insert((place, *id)),
                    _ => false,
                };
            }
        }
    }
    is_new
}

/// An operation that changes the packet's headers by itself.
fn changes_headers(op: &Op) -> bool {
    let field = |place: &LValue| {
        matches!(place, LValue::Field(..) | LValue::FieldSlice { .. } | LValue::Element { .. })
    };
    match op {
        Op::SetValid(_) | Op::SetInvalid(_) | Op::CopyHeader { .. } => true,
        Op::CopyBytes { .. } => true,
        Op::PushFront(..) | Op::PopFront(..) => true,
        op => op_target(op).is_some_and(field),
    }
}

/// Actions that change headers, with what they call.
fn writers(program: &Program) -> BTreeSet<ActionId> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (id, action) in program.actions.entries() {
            let writes = |op: &OpAt| match &op.op {
                Op::Call(action, _) => found.contains(action),
                op => changes_headers(op),
            };
            if action.body.blocks.iter().flat_map(|block| &block.ops).any(writes) {
                found.insert(id);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// In each block that writes because of the mark, the position after the first such operation.
fn writes(
    program: &Program,
    place: Place,
    body: &Body,
    tainted: &Tainted,
    writers: &BTreeSet<ActionId>,
) -> Vec<(BlockId, usize)> {
    let by_value = |expr| reads(program, expr, &|kind| tainted.has(place, kind));
    let depends = because_of_it(program, place, body, tainted);
    let mut found = Vec::new();
    for ((id, block), depends) in body.blocks.entries().zip(depends) {
        let writes = |op: &OpAt| {
            let changes = match &op.op {
                Op::Call(action, _) => writers.contains(action),
                op => changes_headers(op),
            };
            changes && (depends || op_exprs(&op.op).into_iter().any(by_value))
        };
        let applies = || {
            let by_mark = depends || deciders(program, &block.term).into_iter().any(by_value);
            by_mark && applied(program, &block.term).iter().any(|action| writers.contains(action))
        };
        match block.ops.iter().position(writes) {
            Some(at) => found.push((id, at + 1)),
            None if applies() => found.push((id, block.ops.len())),
            None => {}
        }
    }
    found
}
