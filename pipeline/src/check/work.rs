//! The bound on a packet's work: the size of an action or a control once every call is inlined.
//!
//! Actions do not call themselves, but two calls of the previous action double its work, and forty such actions would
//! practically never end. So each body has at most [`OPS_MAX`] operations, those of the actions it calls counted at
//! every call, and a chain of calls has at most [`CHAIN_MAX`] actions. A table counts as the longest of its actions, as
//! one of them runs. This is the size of the code and not of its longest path: the checks and the engines that follow
//! the calls are bounded by it too.
//!
//! Each action is computed once, from those it calls; nothing here follows a call twice.

use super::cx::Cx;
use super::flow::OPS_MAX;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{Body, Op, Program, SourceSpan, Term};

/// Longest chain of actions that call the next.
const CHAIN_MAX: usize = 64;

/// The size of a body with all that it calls.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Operations, saturating.
    ops: usize,
    /// The longest chain of calls: 0 calls nothing.
    chain: usize,
}

impl Work {
    fn fits(self) -> bool {
        self.ops <= OPS_MAX && self.chain <= CHAIN_MAX
    }
}

impl Cx<'_> {
    /// Refuses actions and controls that are too large. Requires that nothing calls itself.
    pub(crate) fn check_work(&mut self) {
        let known = actions(&self.ir);
        let actions = self.ir.actions.entries().map(|(id, action)| {
            (
                format!("action `{}`", action.name),
                &action.body,
                known.get(id.index()).copied().flatten(),
            )
        });
        let controls = [("ingress", &self.ir.ingress), ("egress", &self.ir.egress)];
        let controls = controls
            .map(|(name, body)| (format!("`{name}`"), body, Some(work_of(&self.ir, body, &known))));
        for (name, body, work) in actions.chain(controls) {
            let (Some(work), Some((span, largest))) = (work, largest_part(&self.ir, body, &known))
            else {
                continue;
            };
            // A caller of too large an action is too large as well: only the first one is reported.
            if work.fits() || !largest.fits() {
                continue;
            }
            let text = if work.chain > CHAIN_MAX {
                format!("{name} begins a chain of more than {CHAIN_MAX} calls of actions")
            } else {
                format!(
                    "{name} has more than {OPS_MAX} operations, with those of the actions it runs"
                )
            };
            self.report
                .error(codes::TOO_DEEP, span, text)
                .note("a packet's work is bounded: an action counts at every call of it");
        }
    }
}

/// Every action, by id; those called before those that call them.
fn actions(program: &Program) -> Vec<Option<Work>> {
    let mut known: Vec<Option<Work>> = vec![None; program.actions.len()];
    for root in program.actions.ids() {
        let mut open = vec![root];
        while let Some(id) = open.last().copied() {
            let is_new = |to: &ActionId| known.get(to.index()).is_some_and(Option::is_none);
            let (before, body) = (open.len(), program.actions.get(id).map(|action| &action.body));
            if is_new(&id) {
                open.extend(body.into_iter().flat_map(called).filter(is_new));
            }
            if open.len() > before {
                continue;
            }
            open.pop();
            if let (true, Some(body)) = (is_new(&id), body) {
                let work = work_of(program, body, &known);
                if let Some(slot) = known.get_mut(id.index()) {
                    *slot = Some(work);
                }
            }
        }
    }
    known
}

fn called(body: &Body) -> impl Iterator<Item = ActionId> + '_ {
    body.blocks.iter().flat_map(|block| &block.ops).filter_map(|op| match op.op {
        Op::Call(action, _) => Some(action),
        _ => None,
    })
}

/// What runs at each place of a body: the operation or table itself, and what it calls.
fn parts<'p>(
    program: &'p Program,
    body: &'p Body,
    known: &'p [Option<Work>],
) -> impl Iterator<Item = (Option<SourceSpan>, Work)> + 'p {
    let of = |id: &ActionId| known.get(id.index()).copied().flatten().unwrap_or_default();
    body.blocks.iter().flat_map(move |block| {
        let ops = block.ops.iter().map(move |op| match &op.op {
            Op::Call(action, _) => (op.span, of(action)),
            _ => (op.span, Work::default()),
        });
        let longest = match &block.term {
            Term::Apply { table, .. } => program.tables.get(*table).map(|table| {
                let all = table.actions.iter().chain([&table.default.action]).map(of);
                all.fold(Work::default(), |a, b| Work {
                    ops: a.ops.max(b.ops),
                    chain: a.chain.max(b.chain),
                })
            }),
            _ => None,
        };
        ops.chain(longest.map(|work| (block.span, work)))
    })
}

fn work_of(program: &Program, body: &Body, known: &[Option<Work>]) -> Work {
    let mut work = Work::default();
    for (_, part) in parts(program, body, known) {
        work.ops = work.ops.saturating_add(part.ops).saturating_add(1);
        work.chain = work.chain.max(part.chain);
    }
    Work { chain: work.chain + usize::from(called(body).next().is_some()), ..work }
}

/// The operation in a body with the largest callee, for the caret.
fn largest_part(
    program: &Program,
    body: &Body,
    known: &[Option<Work>],
) -> Option<(SourceSpan, Work)> {
    let placed = parts(program, body, known).filter_map(|(span, work)| Some((span?, work)));
    placed.reduce(|a, b| if (b.1.chain, b.1.ops) > (a.1.chain, a.1.ops) { b } else { a })
}
