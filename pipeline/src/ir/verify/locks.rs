//! Locked register updates: on every path through a body a locked load is followed by its store, with
//! nothing between them that could take another lock.
//!
//! The end of a pass releases the lock; the end of a body does not.

use super::Verifier;
use super::code::Site;
use crate::ids::*;
use crate::ir::{Body, Op, Program, Term};
use petgraph::algo::toposort;

/// A lock: register, index and first cell must be the same at load and store.
type Lock = (RegisterId, ExprId, LocalId);

impl Verifier<'_> {
    /// Follows the lock over all paths; blocks form no cycle.
    pub(super) fn locks(&mut self, site: &Site<'_>) {
        let Ok(order) = toposort(&site.body.graph(), None) else { return };
        let mut entry: IdVec<BlockId, Option<Option<Lock>>> =
            site.body.blocks.iter().map(|_| None).collect();
        if !entry.is_empty() {
            entry[BlockId(0)] = Some(None);
        }
        for node in order {
            let id = BlockId(node.index() as u32);
            // An unreached block is reported elsewhere.
            let Some(mut held) = entry[id] else { continue };
            let place = format!("{}.{id}", site.name);
            let block = &site.body.blocks[id];
            for op in &block.ops {
                held = self.lock_after(&op.op, held, &place);
            }
            let applies = matches!(block.term, Term::Apply { .. });
            self.ensure(!(applies && held.is_some()), || format!("{place}: a table under a lock"));
            let returns = matches!(block.term, Term::Return);
            self.ensure(!(returns && held.is_some()), || {
                format!("{place}: a lock without its release")
            });
            for next in block.term.successors() {
                let known = entry[next].get_or_insert(held);
                let same = *known == held;
                self.ensure(same, || {
                    format!("{place}: a lock that is held on some ways to {next}")
                });
            }
        }
    }

    fn lock_after(&mut self, op: &Op, held: Option<Lock>, place: &str) -> Option<Lock> {
        match op {
            Op::RegisterLoad { register, index, first, locked: true } => {
                self.ensure(held.is_none(), || format!("{place}: a lock under a lock"));
                Some((*register, *index, *first))
            }
            Op::RegisterStore { register, index, first, locked: true, .. } => {
                let same = held == Some((*register, *index, *first));
                self.ensure(same, || format!("{place}: a release of what is not held"));
                None
            }
            Op::Call(action, _) => {
                let takes = held.is_some() && takes_lock(self.program, *action);
                self.ensure(!takes, || format!("{place}: {action} takes a lock under a lock"));
                held
            }
            _ => held,
        }
    }
}

/// Whether an action, or one that it calls, takes a lock. Requires that actions do not call themselves.
fn takes_lock(program: &Program, action: ActionId) -> bool {
    let none = Body::default();
    let body = program.actions.get(action).map_or(&none, |action| &action.body);
    body.blocks.iter().flat_map(|block| &block.ops).any(|op| match &op.op {
        Op::RegisterLoad { locked, .. } => *locked,
        Op::Call(inner, _) => *inner != action && takes_lock(program, *inner),
        _ => false,
    })
}
