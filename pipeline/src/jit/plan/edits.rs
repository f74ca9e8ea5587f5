//! Header edits: which headers may be emitted on a path, and the edits of the packet.
//!
//! On a path, a header that came with the packet stays where it is in memory, valid or not; one that the control adds
//! is synthesized in registers, or in the worker's header vector. Which of them are valid at the end depends on the
//! path through the control, so validity of those that may change is a variable. For every set of valid headers at the
//! end of the control there is one tail, in which everything is constant again: it computes checksums in full and moves
//! headers that are not in place. The body never moves: headers grow into the headroom and shrink away from it.

use super::checksums::{self, Computed, Followed};
use super::{Control, Form, HEADER_SETS_MAX, Path};
use crate::ids::*;
use crate::ir::{BinOp, Body, ExprKind, FieldLayout, Half, Op, Program, Term, UnOp};
use crate::phv::bit;

/// Most steps to find the sets of headers that may be emitted.
const STEPS_MAX: u32 = 2000;

/// The end of a pass with one set of valid headers.
#[derive(Debug)]
pub(in crate::jit) struct Tail {
    /// Valid headers, and those of them that are emitted; a header may be discarded.
    pub(in crate::jit) valid: u64,
    pub(in crate::jit) leaving: u64,
    /// Bytes of the headers that leave.
    pub(in crate::jit) header_bytes: u32,
    /// Checksums of the path that are written if their input changed, by their index in the list.
    pub(in crate::jit) updated: Vec<usize>,
    /// Checksums of headers that the control added.
    pub(in crate::jit) computed: Vec<Computed>,
    /// The start of the packet relative to the received one; negative is in the headroom.
    pub(in crate::jit) start: i32,
    /// Headers that must be moved to their place in the emitted packet.
    pub(in crate::jit) moves: Vec<Move>,
}

/// A header that is put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) struct Move {
    pub(in crate::jit) instance: InstanceId,
    pub(in crate::jit) from: Source,
    /// Offset from the start of the received packet.
    pub(in crate::jit) to: i32,
    pub(in crate::jit) bytes: u32,
}

/// The place of a header at the end of the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) enum Source {
    Registers,
    /// Where it was received.
    Packet(u32),
    /// The worker's header vector.
    HeaderVector,
}

/// A walk over the paths through a control, for validity alone.
struct Walk<'p> {
    program: &'p Program,
    /// Masks at the end of a pass that does not drop.
    ends: Vec<u64>,
    left: u32,
}

fn note(masks: &mut Vec<u64>, mask: u64) {
    if !masks.contains(&mask) {
        masks.push(mask);
    }
}

/// Sets of valid headers after a control, for one before it; `None` when there are too many.
pub(super) fn masks_left(program: &Program, half: Half, valid: u64) -> Option<Vec<u64>> {
    let mut walk = Walk { program, ends: Vec::new(), left: STEPS_MAX };
    for mask in walk.body(program.control(half), valid)? {
        note(&mut walk.ends, mask);
    }
    (walk.ends.len() <= HEADER_SETS_MAX).then_some(walk.ends)
}

impl Walk<'_> {
    /// Masks with which a body returns.
    fn body(&mut self, body: &Body, valid: u64) -> Option<Vec<u64>> {
        let mut returned = Vec::new();
        let mut todo = vec![(BlockId(0), valid)];
        let mut seen = Vec::new();
        if body.blocks.is_empty() {
            return Some(vec![valid]);
        }
        while let Some((id, valid)) = todo.pop() {
            if seen.contains(&(id, valid)) {
                continue;
            }
            seen.push((id, valid));
            self.left = self.left.checked_sub(1)?;
            let Some(block) = body.blocks.get(id) else {
                note(&mut returned, valid);
                continue;
            };
            let mut masks = vec![valid];
            for op in &block.ops {
                masks = self.op(&op.op, masks)?;
            }
            for mask in masks {
                self.term(&block.term, mask, &mut todo, &mut returned)?;
            }
        }
        Some(returned)
    }

    fn op(&mut self, op: &Op, mut masks: Vec<u64>) -> Option<Vec<u64>> {
        match op {
            Op::SetValid(instance) => masks.iter_mut().for_each(|mask| *mask |= bit(*instance)),
            Op::SetInvalid(instance) => masks.iter_mut().for_each(|mask| *mask &= !bit(*instance)),
            Op::Call(action, _) => {
                let mut after = Vec::new();
                for mask in masks {
                    let program = self.program;
                    for mask in self.body(&program.actions[*action].body, mask)? {
                        note(&mut after, mask);
                    }
                }
                masks = after;
            }
            _ => {}
        }
        Some(masks)
    }

    fn term(
        &mut self,
        term: &Term,
        valid: u64,
        todo: &mut Vec<(BlockId, u64)>,
        returned: &mut Vec<u64>,
    ) -> Option<()> {
        match term {
            Term::Jump(to) => todo.push((*to, valid)),
            Term::Branch { cond, then, otherwise } => {
                let known = self.known(*cond, valid);
                if known != Some(false) {
                    todo.push((*then, valid));
                }
                if known != Some(true) {
                    todo.push((*otherwise, valid));
                }
            }
            Term::Apply { table, by_action, hit, miss } => {
                let program = self.program;
                let declared = &program.tables[*table];
                // A missing action does nothing.
                let mut after = vec![(None, valid)];
                for action in declared.actions.iter().chain([&declared.default.action]) {
                    for mask in self.body(&program.actions[*action].body, valid)? {
                        after.push((Some(*action), mask));
                    }
                }
                for (action, mask) in after {
                    match by_action.iter().find(|(known, _)| Some(*known) == action) {
                        Some((_, to)) => todo.push((*to, mask)),
                        None => todo.extend([(*hit, mask), (*miss, mask)]),
                    }
                }
            }
            Term::Return => note(returned, valid),
            Term::Exit | Term::Punt(_) => note(&mut self.ends, valid),
            Term::Drop(_) => {}
            Term::Switch { .. } => todo.extend(term.successors().into_iter().map(|to| (to, valid))),
        }
        Some(())
    }

    fn known(&self, id: ExprId, valid: u64) -> Option<bool> {
        match &self.program.exprs[id].kind {
            ExprKind::Const(value) => Some(*value == 1),
            ExprKind::Valid(instance) => Some(valid & bit(*instance) != 0),
            ExprKind::Unary(UnOp::Not, a) => Some(!self.known(*a, valid)?),
            ExprKind::Binary(BinOp::LogicalAnd, a, b) => {
                match (self.known(*a, valid), self.known(*b, valid)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
            ExprKind::Binary(BinOp::LogicalOr, a, b) => {
                match (self.known(*a, valid), self.known(*b, valid)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Headers that the control may add on this path and that fit registers: all fields are runs of bits.
pub(super) fn synthesized(control: &Control<'_>, path: &Path) -> Vec<InstanceId> {
    let program = control.program;
    let run = |layout: &FieldLayout| matches!(layout, FieldLayout::Run { bits: 1.., .. });
    let fits = |instance: &InstanceId| {
        let header = &program.headers[program.instances[*instance].header];
        let is_new = control.added & !path.received & bit(*instance) != 0;
        is_new && header.fields.iter().all(|field| run(&field.layout))
    };
    program.instances.ids().filter(fits).collect()
}

/// The tail of a path for one set of valid headers.
pub(super) fn tail(
    control: &Control<'_>,
    before: &Path,
    valid: u64,
    followed: &[Followed],
    synthesized: &[InstanceId],
) -> Form<Tail> {
    let path = before.left_with(valid);
    let updated = checksums::updated(control, before.valid, &path, followed)?;
    let computed = checksums::computed(control, before.valid, &path)?;
    let header_bytes = control.emitted_bytes(valid);
    let start = path.cursor as i32 - header_bytes as i32;
    let mut moves = Vec::new();
    let mut to = start;
    for instance in control.program.deparser.emit.iter().copied() {
        if valid & bit(instance) == 0 {
            continue;
        }
        let bytes = control.fixed_bytes(instance);
        let from = if synthesized.contains(&instance) {
            Source::Registers
        } else if path.received & bit(instance) != 0 {
            Source::Packet(path.at[instance.index()])
        } else {
            Source::HeaderVector
        };
        if !matches!(from, Source::Packet(at) if at as i32 == to) {
            moves.push(Move { instance, from, to, bytes });
        }
        to += bytes as i32;
    }
    let leaving = control.leaving(valid);
    Ok(Tail { valid, leaving, header_bytes, updated, computed, start, moves })
}

impl Control<'_> {
    pub(in crate::jit) fn fixed_bytes(&self, instance: InstanceId) -> u32 {
        self.program.headers[self.program.instances[instance].header].fixed_bytes
    }

    /// Those of these headers that are emitted; a header may be discarded.
    fn leaving(&self, valid: u64) -> u64 {
        let emitted = self.program.deparser.emit.iter();
        valid & emitted.fold(0, |mask, instance| mask | bit(*instance))
    }

    /// Bytes of the emitted headers of this mask.
    pub(in crate::jit) fn emitted_bytes(&self, valid: u64) -> u32 {
        let emitted = self.program.deparser.emit.iter().filter(|i| valid & bit(**i) != 0);
        emitted.map(|instance| self.fixed_bytes(*instance)).sum()
    }
}
