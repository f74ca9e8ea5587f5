//! Which headers are surely valid, or surely not, at each block of a control that adds and removes headers.
//!
//! Controls have no loops. What two ways into a block do not agree on is asked for when the packet is there.

use crate::ids::*;
use crate::interp::phv::bit;
use crate::ir::{BinOp, Body, ExprKind, Op, Program, Term, UnOp};

/// What is known about the validity of headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sure {
    /// Headers about which it is known.
    pub(super) mask: u64,
    /// Those of them that are valid.
    pub(super) valid: u64,
}

impl Sure {
    /// All is known.
    pub(super) fn all(valid: u64) -> Sure {
        Sure { mask: !0, valid }
    }

    /// Whether a header is valid, if that is known.
    pub(super) fn of(self, instance: InstanceId) -> Option<bool> {
        (self.mask & bit(instance) != 0).then_some(self.valid & bit(instance) != 0)
    }

    /// A header becomes, or is found to be, valid or not.
    pub(super) fn set(&mut self, instance: InstanceId, valid: bool) {
        self.mask |= bit(instance);
        match valid {
            true => self.valid |= bit(instance),
            false => self.valid &= !bit(instance),
        }
    }

    fn meet(self, other: Sure) -> Sure {
        let mask = self.mask & other.mask & !(self.valid ^ other.valid);
        Sure { mask, valid: self.valid & mask }
    }
}

/// What is known where each block of a body begins, and where the body returns; `None` for what is never
/// reached.
pub(super) struct Flow {
    pub(super) blocks: Vec<Option<Sure>>,
    pub(super) returns: Option<Sure>,
}

fn join(into: &mut Option<Sure>, more: Sure) -> bool {
    let met = into.map_or(more, |known| known.meet(more));
    let changed = *into != Some(met);
    *into = Some(met);
    changed
}

/// The flow through a body that is entered with this.
pub(super) fn flow(program: &Program, body: &Body, entry: Sure) -> Flow {
    let mut flow = Flow { blocks: vec![None; body.blocks.len()], returns: None };
    let Some(first) = flow.blocks.first_mut() else {
        flow.returns = Some(entry);
        return flow;
    };
    *first = Some(entry);
    let mut todo = vec![BlockId(0)];
    while let Some(id) = todo.pop() {
        let (Some(block), Some(Some(mut sure))) =
            (body.blocks.get(id), flow.blocks.get(id.index()).copied())
        else {
            continue;
        };
        let mut ends = false;
        for op in &block.ops {
            match &op.op {
                Op::SetValid(instance) => sure.set(*instance, true),
                Op::SetInvalid(instance) => sure.set(*instance, false),
                Op::Call(action, _) => {
                    match self::flow(program, &program.actions[*action].body, sure).returns {
                        Some(after) => sure = after,
                        None => ends = true,
                    }
                }
                _ => {}
            }
        }
        if ends {
            continue;
        }
        for (to, sure) in successors(program, &block.term, sure) {
            match to.and_then(|to| flow.blocks.get_mut(to.index()).map(|known| (to, known))) {
                Some((to, known)) => {
                    if join(known, sure) {
                        todo.push(to);
                    }
                }
                None => drop(join(&mut flow.returns, sure)),
            }
        }
    }
    flow
}

/// Where a block goes with what is known then; `None` is out of the body.
fn successors(program: &Program, term: &Term, sure: Sure) -> Vec<(Option<BlockId>, Sure)> {
    match term {
        Term::Return => vec![(None, sure)],
        Term::Exit | Term::Drop(_) | Term::Punt(_) => Vec::new(),
        Term::Branch { cond, then, otherwise } => [(*then, true), (*otherwise, false)]
            .into_iter()
            .filter_map(|(to, holds)| Some((Some(to), given(program, *cond, holds, sure)?)))
            .collect(),
        Term::Apply { table, by_action, hit, miss } => {
            let declared = &program.tables[*table];
            // An action that does not exist does nothing.
            let mut ways = vec![(Some(*hit), sure), (Some(*miss), sure)];
            for action in declared.actions.iter().chain([&declared.default.action]) {
                let Some(after) = flow(program, &program.actions[*action].body, sure).returns
                else {
                    continue;
                };
                match by_action.iter().find(|(known, _)| known == action) {
                    Some((_, to)) => ways.push((Some(*to), after)),
                    None => ways.extend([(Some(*hit), after), (Some(*miss), after)]),
                }
            }
            ways
        }
        Term::Jump(_) | Term::Switch { .. } => {
            term.successors().into_iter().map(|to| (Some(to), sure)).collect()
        }
    }
}

/// What is known once a condition has been found to hold, or not to; `None` where it cannot be so.
pub(super) fn given(program: &Program, id: ExprId, holds: bool, mut sure: Sure) -> Option<Sure> {
    match program.exprs[id].kind {
        ExprKind::Valid(instance) => match sure.of(instance) {
            Some(known) if known != holds => return None,
            _ => sure.set(instance, holds),
        },
        ExprKind::Unary(UnOp::Not, a) => return given(program, a, !holds, sure),
        ExprKind::Binary(BinOp::LogicalAnd, a, b) if holds => {
            return given(program, b, true, given(program, a, true, sure)?);
        }
        ExprKind::Binary(BinOp::LogicalOr, a, b) if !holds => {
            return given(program, b, false, given(program, a, false, sure)?);
        }
        _ => {}
    }
    Some(sure)
}
