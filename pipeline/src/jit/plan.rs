//! The plan: all decisions about a program before code is emitted.
//!
//! A program has generic code, for any packet, and where possible path-specialised code: one copy of a control for each
//! path through the parser, with headers at constant offsets of the packet. The analyses here decide which, in this
//! order:
//!
//! * [`operations`]: which operations have code, and which are steps of the interpreter; [`generic`]: the same of the
//!   start and the end of a pass;
//! * [`selection`]: whether a control has path-specialised code, and how many stack elements a path may have;
//! * [`path`]: each path through the parser, with [`facts`] that its comparisons establish;
//! * [`edits`]: which headers may be emitted on a path, and the edits of the packet;
//! * [`checksums`]: which are verified, updated by changes, or computed in full;
//! * [`fusing`]: egress after ingress in the same code;
//! * [`tables`]: how each table is searched.
//!
//! [`validity`] is an analysis that emission runs block by block. Emission decides nothing else: it reads this value,
//! and a contradiction to it is an internal error. [`print`] is the text form, `wireyard dump --stage plan`.

pub(super) mod checksums;
pub(super) mod edits;
pub(super) mod facts;
mod fusing;
mod generic;
pub(super) mod operations;
pub(super) mod path;
mod print;
mod selection;
pub(super) mod tables;
pub(super) mod validity;

pub(super) use edits::{Source, Tail};
pub(super) use fusing::Fused;
pub(super) use path::{EmptyPart, Extract, Leaf, Path, Specialised, Step, Visit, Way};
pub use print::Forms;
pub(super) use selection::Effects;

use super::compiled::Facts;
use super::error::{CompileError, NotSupported};
use crate::ids::*;
use crate::ir::{Half, Program};
use tables::Search;

/// Most operations and expressions of all paths of a control together.
pub(super) const PATH_OPERATIONS_MAX: usize = 30_000;
/// Most sets of headers that the parser may leave.
pub(super) const PATHS_MAX: usize = 48;
/// Most states on all paths.
pub(super) const STATES_MAX: u32 = 4096;
/// Most sets of valid headers that a control may leave on a path.
pub(super) const HEADER_SETS_MAX: usize = 8;

/// A control, with the facts for analyses.
#[derive(Clone, Debug)]
pub(super) struct Control<'p> {
    pub(super) program: &'p Program,
    pub(super) half: Half,
    /// Header fields that the control, its actions or the parser before it may assign.
    pub(super) written: Vec<(InstanceId, FieldId)>,
    /// Headers that it may add, and those that it may add or remove.
    pub(super) added: u64,
    pub(super) changes: u64,
    /// Headers whose variable part is known to be empty at its start.
    pub(super) empty_parts: u64,
    /// Most elements of stacks on a path.
    pub(super) elements_max: u32,
}

impl<'p> Control<'p> {
    /// For generic code, without further facts.
    pub(super) fn generic(program: &'p Program, half: Half) -> Control<'p> {
        let (written, elements_max) = (Vec::new(), u32::MAX);
        Control { program, half, written, added: 0, changes: 0, empty_parts: 0, elements_max }
    }
}

/// The decisions about a program.
#[derive(Debug)]
pub(super) struct Plan<'p> {
    pub(super) ingress: Form<ControlPlan<'p>>,
    /// Egress after ingress, in the code of ingress.
    pub(super) fused: Form<Fused<'p>>,
    pub(super) egress: Form<ControlPlan<'p>>,
    /// How each table is searched.
    pub(super) tables: Vec<Search>,
    /// Operations of generic code that are steps of the interpreter, in ingress and in egress.
    pub(super) interpreted: [Vec<&'static str>; 2],
}

/// A form of code, or why it does not exist.
pub(super) type Form<T> = Result<T, CompileError>;

/// Path-specialised code of a control.
#[derive(Debug)]
pub(super) struct ControlPlan<'p> {
    pub(super) control: Control<'p>,
    pub(super) effects: Effects,
    pub(super) start: Start,
}

/// How a control finds the path of a packet.
#[derive(Debug)]
pub(super) enum Start {
    /// Ingress: through the parser.
    Parser(Box<Way>),
    /// Egress: by the headers that ingress left.
    Headers(Vec<EgressCopy>),
}

/// Egress of packets with one set of headers.
#[derive(Debug)]
pub(super) struct EgressCopy {
    /// The headers.
    pub(super) valid: u64,
    /// Located one after the other.
    pub(super) extracts: Vec<Extract>,
    pub(super) end: Way,
}

impl<'p> Plan<'p> {
    /// Plans a program for states with these facts. Level 0 has generic code only.
    pub(super) fn new(
        program: &'p Program,
        facts: &Facts,
        level: u8,
    ) -> Result<Plan<'p>, CompileError> {
        let tables = facts.tables.iter().map(|table| Search::of(table.layout)).collect();
        let interpreted = Half::BOTH.map(|half| operations::interpreted(program, facts, half));
        let none = || CompileError::from(NotSupported::Level);
        let (ingress, fused, egress) = match level {
            0 => (Err(none()), Err(none()), Err(none())),
            _ => {
                let ingress = ControlPlan::ingress(program, facts);
                let fused = match &ingress {
                    Ok(ingress) => Fused::new(ingress, facts),
                    Err(why) => Err(why.clone()),
                };
                let left = ingress.as_ref().map_or(Vec::new(), ControlPlan::headers_left);
                (ingress, fused, ControlPlan::egress(program, facts, left))
            }
        };
        let plan = Plan { ingress, fused, egress, tables, interpreted };
        for form in
            [plan.ingress.as_ref().err(), plan.fused.as_ref().err(), plan.egress.as_ref().err()]
        {
            if let Some(why @ CompileError::Internal(_)) = form {
                return Err(why.clone());
            }
        }
        Ok(plan)
    }

    /// Drops path-specialised code of ingress: egress can then not rely on the header sets that it leaves.
    pub(super) fn give_up_ingress(
        &mut self,
        program: &'p Program,
        facts: &Facts,
        why: CompileError,
    ) {
        (self.ingress, self.fused) = (Err(why.clone()), Err(why));
        self.egress = ControlPlan::egress(program, facts, Vec::new());
    }
}

impl<'p> ControlPlan<'p> {
    fn ingress(program: &'p Program, facts: &Facts) -> Form<ControlPlan<'p>> {
        let (control, effects) = selection::select(program, facts, None)?;
        let start = Start::Parser(Box::new(path::from_parser(&control)?));
        Ok(ControlPlan { control, effects, start })
    }

    /// `left` are the sets of headers that ingress leaves; empty if not known.
    fn egress(program: &'p Program, facts: &Facts, left: Vec<u64>) -> Form<ControlPlan<'p>> {
        let (control, effects) = selection::select(program, facts, Some(left))?;
        let copies = effects.masks.iter().map(|valid| path::egress_copy(&control, *valid));
        let start = Start::Headers(copies.collect::<Result<_, _>>()?);
        Ok(ControlPlan { control, effects, start })
    }

    /// Sets of headers at the end of the control, in the order of paths.
    pub(super) fn headers_left(&self) -> Vec<u64> {
        let mut left = Vec::new();
        let Start::Parser(way) = &self.start else { return left };
        way.each_leaf(&mut |leaf| {
            for tail in leaf.code.iter().flat_map(|code| &code.tails) {
                if !left.contains(&tail.leaving) {
                    left.push(tail.leaving);
                }
            }
        });
        left
    }
}
