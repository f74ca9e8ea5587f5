//! Validity: which headers are known to be valid, or known not to be, at each block of a control that adds and
//! removes headers.
//!
//! Controls have no loops, so one forward pass is complete. Validity that differs between two predecessors of a block
//! is tested at run time.

use crate::ids::*;
use crate::ir::validity::order;
use crate::ir::{BinOp, Body, ExprKind, Op, OpAt, Program, Term, UnOp};
use crate::phv::bit;

/// Known validity of headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::jit) struct KnownValidity {
    /// Headers whose validity is known.
    pub(in crate::jit) mask: u64,
    /// Those of them that are valid.
    pub(in crate::jit) valid: u64,
}

impl KnownValidity {
    /// The validity of all headers is known.
    pub(in crate::jit) fn all(valid: u64) -> KnownValidity {
        KnownValidity { mask: !0, valid }
    }

    /// Whether a header is valid, if that is known.
    pub(in crate::jit) fn of(self, instance: InstanceId) -> Option<bool> {
        (self.mask & bit(instance) != 0).then_some(self.valid & bit(instance) != 0)
    }

    /// Records that a header becomes, or is found to be, valid or invalid.
    pub(in crate::jit) fn set(&mut self, instance: InstanceId, valid: bool) {
        self.mask |= bit(instance);
        match valid {
            true => self.valid |= bit(instance),
            false => self.valid &= !bit(instance),
        }
    }

    /// Drops the knowledge about these headers.
    fn forget(&mut self, headers: u64) {
        (self.mask, self.valid) = (self.mask & !headers, self.valid & !headers);
    }

    /// Applies the effect of an operation other than a call.
    pub(in crate::jit) fn step(&mut self, program: &Program, op: &Op) {
        match op {
            Op::SetValid(instance) => self.set(*instance, true),
            Op::SetInvalid(instance) => self.set(*instance, false),
            Op::CopyHeader { to, from } => match self.of(*from) {
                Some(valid) => self.set(*to, valid),
                None => self.forget(bit(*to)),
            },
            Op::PushFront(stack, _) | Op::PopFront(stack, _) => {
                let stack = &program.stacks[*stack];
                let elements = (stack.first.0..stack.first.0 + stack.len).map(InstanceId);
                self.forget(elements.fold(0, |mask, element| mask | bit(element)));
            }
            _ => {}
        }
    }

    fn meet(self, other: KnownValidity) -> KnownValidity {
        let mask = self.mask & other.mask & !(self.valid ^ other.valid);
        KnownValidity { mask, valid: self.valid & mask }
    }
}

/// The known validity at the start of each block of a body, and where the body returns; `None` if never reached.
pub(in crate::jit) struct Flow {
    pub(in crate::jit) blocks: Vec<Option<KnownValidity>>,
    pub(in crate::jit) returns: Option<KnownValidity>,
}

fn join(into: &mut Option<KnownValidity>, more: KnownValidity) {
    *into = Some(into.map_or(more, |known| known.meet(more)));
}

/// The flow through a body with this validity at its entry. A body has no cycles: each block is visited once, behind all that lead to it.
pub(in crate::jit) fn flow(program: &Program, body: &Body, entry: KnownValidity) -> Flow {
    let mut flow = Flow { blocks: vec![None; body.blocks.len()], returns: None };
    let Some(first) = flow.blocks.first_mut() else {
        flow.returns = Some(entry);
        return flow;
    };
    *first = Some(entry);
    for id in order(body) {
        let (block, start) = (&body.blocks[id], flow.blocks[id.index()]);
        let steps = |validity, op: &OpAt| step(program, &op.op, validity);
        let Some(end) = start.and_then(|start| block.ops.iter().try_fold(start, steps)) else {
            continue;
        };
        for (to, validity) in successors(program, &block.term, end) {
            match to.and_then(|to| flow.blocks.get_mut(to.index())) {
                Some(known) => join(known, validity),
                None => join(&mut flow.returns, validity),
            }
        }
    }
    flow
}

/// The validity after an operation; `None` if nothing runs after it.
fn step(program: &Program, op: &Op, mut validity: KnownValidity) -> Option<KnownValidity> {
    if let Op::Call(action, _) = op {
        return flow(program, &program.actions[*action].body, validity).returns;
    }
    validity.step(program, op);
    Some(validity)
}

/// The successors of a block with the validity there; `None` is the end of the body.
fn successors(
    program: &Program,
    term: &Term,
    validity: KnownValidity,
) -> Vec<(Option<BlockId>, KnownValidity)> {
    match term {
        Term::Return => vec![(None, validity)],
        Term::Exit | Term::Drop(_) | Term::Punt(_) => Vec::new(),
        Term::Branch { cond, then, otherwise } => [(*then, true), (*otherwise, false)]
            .into_iter()
            .filter_map(|(to, holds)| Some((Some(to), given(program, *cond, holds, validity)?)))
            .collect(),
        Term::Apply { table, by_action, hit, miss } => {
            let declared = &program.tables[*table];
            // A missing action does nothing.
            let mut successors = vec![(Some(*hit), validity), (Some(*miss), validity)];
            for action in declared.actions.iter().chain([&declared.default.action]) {
                let Some(after) = flow(program, &program.actions[*action].body, validity).returns
                else {
                    continue;
                };
                match by_action.iter().find(|(known, _)| known == action) {
                    Some((_, to)) => successors.push((Some(*to), after)),
                    None => successors.extend([(Some(*hit), after), (Some(*miss), after)]),
                }
            }
            successors
        }
        Term::Jump(_) | Term::Switch { .. } => {
            term.successors().into_iter().map(|to| (Some(to), validity)).collect()
        }
    }
}

/// The validity once a condition is true, or false; `None` if that is impossible.
pub(in crate::jit) fn given(
    program: &Program,
    id: ExprId,
    holds: bool,
    mut validity: KnownValidity,
) -> Option<KnownValidity> {
    match program.exprs[id].kind {
        ExprKind::Valid(instance) => match validity.of(instance) {
            Some(known) if known != holds => return None,
            _ => validity.set(instance, holds),
        },
        ExprKind::Unary(UnOp::Not, a) => return given(program, a, !holds, validity),
        ExprKind::Binary(BinOp::LogicalAnd, a, b) if holds => {
            return given(program, b, true, given(program, a, true, validity)?);
        }
        ExprKind::Binary(BinOp::LogicalOr, a, b) if !holds => {
            return given(program, b, false, given(program, a, false, validity)?);
        }
        _ => {}
    }
    Some(validity)
}
