//! Removes unreachable blocks and decisions with only one target, and bypasses blocks that only jump.

use crate::ids::*;
use crate::ir::eval::may_end;
use crate::ir::{Block, Body, Expr, Program, Term};

/// Runs on every body; true when something changed.
pub(super) fn run(program: &mut Program) -> bool {
    let exprs = &program.exprs;
    let mut changed = clear(exprs, &mut program.ingress);
    changed |= clear(exprs, &mut program.egress);
    for action in program.actions.iter_mut() {
        changed |= clear(exprs, &mut action.body);
    }
    changed
}

/// Repeats: a removed decision may leave a block that only jumps, and that another decision with one target.
fn clear(exprs: &IdVec<ExprId, Expr>, body: &mut Body) -> bool {
    let mut changed = prune(body);
    while undecided(exprs, body) {
        prune(body);
        changed = true;
    }
    changed
}

/// Replaces decisions with only one target by jumps, unless their value may end the pass.
fn undecided(exprs: &IdVec<ExprId, Expr>, body: &mut Body) -> bool {
    let mut changed = false;
    for block in body.blocks.iter_mut() {
        let (value, to) = match &block.term {
            Term::Branch { cond, then, otherwise } if then == otherwise => (*cond, *then),
            Term::Switch { value, cases, default } if cases.iter().all(|(_, to)| to == default) => {
                (*value, *default)
            }
            _ => continue,
        };
        if !may_end(exprs, value) {
            block.term = Term::Jump(to);
            changed = true;
        }
    }
    changed
}

/// Removes what is not reached from the entry; the others keep their order.
pub(crate) fn prune(body: &mut Body) -> bool {
    let threaded = thread(body);
    let mut reached = vec![false; body.blocks.len()];
    let mut open: Vec<BlockId> = body.blocks.ids().take(1).collect();
    while let Some(id) = open.pop() {
        let Some(seen) = reached.get_mut(id.index()) else { continue };
        if std::mem::replace(seen, true) {
            continue;
        }
        if let Some(block) = body.blocks.get(id) {
            open.extend(block.term.successors());
        }
    }
    if reached.iter().all(|reached| *reached) {
        return threaded;
    }
    let mut next = 0;
    let numbers: Vec<u32> = reached
        .iter()
        .map(|reached| {
            let number = next;
            next += u32::from(*reached);
            number
        })
        .collect();
    let renumber = |id: BlockId| BlockId(numbers.get(id.index()).copied().unwrap_or(0));
    let old = std::mem::take(&mut body.blocks);
    body.blocks = old
        .entries()
        .filter(|(id, _)| reached.get(id.index()).copied().unwrap_or(false))
        .map(|(_, block)| Block { term: map_targets(&block.term, renumber), ..block.clone() })
        .collect();
    true
}

/// Redirects every edge to an empty block that only jumps to the target of that jump.
fn thread(body: &mut Body) -> bool {
    let next: Vec<Option<BlockId>> = body
        .blocks
        .iter()
        .map(|block| match block.term {
            Term::Jump(to) if block.ops.is_empty() => Some(to),
            _ => None,
        })
        .collect();
    let through = |mut id: BlockId| {
        // Blocks are acyclic; the bound only keeps a broken body from hanging.
        for _ in 0..next.len() {
            match next.get(id.index()) {
                Some(Some(to)) => id = *to,
                _ => break,
            }
        }
        id
    };
    let mut changed = false;
    for block in body.blocks.iter_mut() {
        let term = map_targets(&block.term, through);
        changed |= term != block.term;
        block.term = term;
    }
    changed
}

/// The same terminator with other targets.
pub(crate) fn map_targets(term: &Term, map: impl Fn(BlockId) -> BlockId) -> Term {
    match term {
        Term::Jump(to) => Term::Jump(map(*to)),
        Term::Branch { cond, then, otherwise } => {
            Term::Branch { cond: *cond, then: map(*then), otherwise: map(*otherwise) }
        }
        Term::Switch { value, cases, default } => Term::Switch {
            value: *value,
            cases: cases.iter().map(|(case, to)| (*case, map(*to))).collect(),
            default: map(*default),
        },
        Term::Apply { table, by_action, hit, miss } => Term::Apply {
            table: *table,
            by_action: by_action.iter().map(|(action, to)| (*action, map(*to))).collect(),
            hit: map(*hit),
            miss: map(*miss),
        },
        Term::Return => Term::Return,
        Term::Exit => Term::Exit,
        Term::Drop(reason) => Term::Drop(*reason),
        Term::Punt(reason) => Term::Punt(*reason),
    }
}
