//! Path selection: whether a control has path-specialised code, and for which paths.

use super::facts::written_fields;
use super::path::next_free;
use super::{Control, Form, PATH_OPERATIONS_MAX, PATHS_MAX, STATES_MAX};
use crate::ids::*;
use crate::ir::{
    Body, Crc, Half, LValue, Op, ParserOp, Program, StdField, Target, Term, Update, Verify,
};
use crate::jit::compiled::Facts;
use crate::jit::error::{Budget, CompileError, NotSupported};
use crate::phv::bit;

/// The effects of a control that matter to the code around it.
#[derive(Clone, Debug)]
pub(in crate::jit) struct Effects {
    /// Sets of headers at its start.
    pub(in crate::jit) masks: Vec<u64>,
    /// Whether it learns.
    pub(in crate::jit) learns: bool,
    /// Whether it may set the time at which a packet leaves, or that it leaves more than once.
    pub(in crate::jit) may_wait: bool,
}

/// For egress, the sets of headers that ingress leaves; empty if not known.
pub(super) fn select<'p>(
    program: &'p Program,
    facts: &Facts,
    left: Option<Vec<u64>>,
) -> Form<(Control<'p>, Effects)> {
    let half = if left.is_some() { Half::Egress } else { Half::Ingress };
    let left = left.unwrap_or_default();
    supported(program, half)?;
    let states = program.parser.states.iter().flat_map(|state| &state.ops);
    let waits = |op: &ParserOp| matches!(op, ParserOp::Set(to, _) if decides_when(to));
    let mut cost = Cost { program, ops: 0, learns: false, may_wait: false, added: 0, removed: 0 };
    cost.may_wait = states.into_iter().any(waits);
    cost.body(program.control(half));
    let mut why = CompileError::from(Budget::Paths);
    // Elements of stacks multiply paths, and packets with many of them are rare.
    for elements_max in [u32::MAX, 1, 0] {
        let mut walk = Walk { program, elements_max, ends: 0, masks: Vec::new(), left: STATES_MAX };
        if let Err(error) = walk.from(StateId(0), 0, 0) {
            why = error;
            continue;
        }
        let masks = if left.is_empty() { walk.masks } else { left.clone() };
        let copies = if half == Half::Egress { masks.len() } else { walk.ends };
        if masks.len() > PATHS_MAX {
            why = Budget::Paths.into();
        } else if copies * cost.ops > PATH_OPERATIONS_MAX {
            why = Budget::PathOperations.into();
        } else {
            let Cost { learns, may_wait, added, removed, .. } = cost;
            let written = written_fields(program, half);
            let changes = added | removed;
            let control =
                Control { program, half, written, added, changes, empty_parts: 0, elements_max };
            control.has_code(facts)?;
            return Ok((control, Effects { masks, learns, may_wait }));
        }
    }
    Err(why)
}

/// Checks that the program needs nothing that path-specialised code does not support.
fn supported(program: &Program, half: Half) -> Form<()> {
    let crc_matters = |crc: &&Crc| match half {
        Half::Ingress => crc.verify != Verify::Off,
        Half::Egress => crc.update == Update::Always,
    };
    let bounds = |op: &ParserOp| {
        matches!(op, ParserOp::BodyEnd(_) | ParserOp::ExtractAt(..) | ParserOp::Advance(_))
    };
    if half == Half::Egress && program.parser.egress.is_some() {
        return Err(NotSupported::EgressParser.into());
    }
    if program.parser.states.is_empty() {
        return Err(NotSupported::NoParser.into());
    }
    if !program.deparser.after.is_empty() {
        return Err(NotSupported::AfterBody.into());
    }
    if let Some(crc) = program.crcs.iter().find(crc_matters) {
        return Err(NotSupported::Crc(crc.name.clone()).into());
    }
    match program.parser.states.iter().flat_map(|state| &state.ops).any(bounds) {
        true => Err(NotSupported::BodyBounds.into()),
        false => Ok(()),
    }
}

/// The size of a control's code, with every action where it is used.
struct Cost<'p> {
    program: &'p Program,
    ops: usize,
    learns: bool,
    may_wait: bool,
    added: u64,
    removed: u64,
}

impl Cost<'_> {
    fn body(&mut self, body: &Body) {
        if self.ops > PATH_OPERATIONS_MAX {
            return;
        }
        for block in &body.blocks {
            for op in &block.ops {
                self.ops += 3;
                match &op.op {
                    Op::Learn { .. } => self.learns = true,
                    Op::SetValid(instance) => self.added |= bit(*instance),
                    Op::SetInvalid(instance) => self.removed |= bit(*instance),
                    Op::Call(action, _) => self.body(&self.program.actions[*action].body),
                    Op::Set(to, _) | Op::Meter { to, .. } | Op::Random { to, .. } => {
                        self.may_wait |= decides_when(to);
                    }
                    _ => {}
                }
            }
            self.ops += 2;
            if let Term::Apply { table, .. } = &block.term {
                self.ops += 10;
                let declared = &self.program.tables[*table];
                for action in declared.actions.iter().chain([&declared.default.action]) {
                    self.body(&self.program.actions[*action].body);
                }
            }
        }
    }
}

/// Whether a nonzero value of this keeps a packet from leaving at once.
fn decides_when(to: &LValue) -> bool {
    use StdField::{HoldPackets, HoldTimeoutNs, MulticastGroup, NotBeforeNs};
    matches!(to, LValue::Std(NotBeforeNs | HoldPackets | HoldTimeoutNs | MulticastGroup))
}

/// A walk over the paths through a parser.
struct Walk<'p> {
    program: &'p Program,
    /// Most elements of stacks on a path.
    elements_max: u32,
    /// Paths that end in accept.
    ends: usize,
    /// The headers they leave.
    masks: Vec<u64>,
    left: u32,
}

impl Walk<'_> {
    /// The paths from a state.
    fn from(&mut self, id: StateId, mut valid: u64, mut elements: u32) -> Form<()> {
        self.left = self.left.checked_sub(1).ok_or(Budget::States)?;
        let program = self.program;
        let Some(state) = program.parser.states.get(id) else { return Ok(()) };
        for op in &state.ops {
            match op {
                // Packets that continue here run generic code.
                ParserOp::Extract(instance) | ParserOp::SetInvalid(instance)
                    if valid & bit(*instance) != 0 =>
                {
                    return Ok(());
                }
                ParserOp::Extract(instance) => valid |= bit(*instance),
                ParserOp::SetValid(_) => return Err(NotSupported::ParserAssignment.into()),
                ParserOp::ExtractNext(stack) => {
                    elements += 1;
                    match next_free(program, *stack, valid) {
                        Some(instance) if elements <= self.elements_max => valid |= bit(instance),
                        // An error from here on, or generic code.
                        _ => return Ok(()),
                    }
                }
                _ => {}
            }
        }
        for target in state.next.targets() {
            match target {
                Target::State(next) => self.from(next, valid, elements)?,
                Target::Accept => {
                    self.ends += 1;
                    if !self.masks.contains(&valid) {
                        self.masks.push(valid);
                    }
                }
                Target::Reject(_) => {}
            }
        }
        Ok(())
    }
}
