//! Removes assignments that nothing reads: to locals that are not read later, to metadata that no expression reads and
//! that does not cross the queue, to fields of headers that are never emitted.
//!
//! An assignment stays if its value may end the pass (an array index, a lookahead), because that is an
//! effect. Operations that do more than assign stay.

use super::liveness::{Reads, that_matter};
use crate::ids::*;
use crate::ir::eval::may_end;
use crate::ir::{Body, LValue, ParserOp, Program};

/// Runs until nothing more is found: a removed assignment may have been the last reader of another.
pub(super) fn run(program: &mut Program) -> bool {
    let mut changed = false;
    while once(program) {
        changed = true;
    }
    changed
}

fn once(program: &mut Program) -> bool {
    let reads = Reads::of(program);
    let mut changed = false;
    for n in 0..program.actions.len() {
        let id = ActionId(n as u32);
        let mut body = std::mem::take(&mut program.actions[id].body);
        changed |= sweep(program, &reads, &mut body);
        program.actions[id].body = body;
    }
    let mut ingress = std::mem::take(&mut program.ingress);
    let mut egress = std::mem::take(&mut program.egress);
    changed |= sweep(program, &reads, &mut ingress);
    changed |= sweep(program, &reads, &mut egress);
    (program.ingress, program.egress) = (ingress, egress);
    changed | sweep_parser(program, &reads)
}

fn sweep(program: &Program, reads: &Reads, body: &mut Body) -> bool {
    let matter = that_matter(program, reads, body);
    let mut changed = false;
    for (block, matter) in body.blocks.iter_mut().zip(&matter) {
        let before = block.ops.len();
        let mut matter = matter.iter();
        block.ops.retain(|_| matter.next().is_none_or(|matters| *matters));
        changed |= block.ops.len() != before;
    }
    changed
}

/// Locals of the parser are few, and its states may be visited again: they stay.
fn sweep_parser(program: &mut Program, reads: &Reads) -> bool {
    let mut states = std::mem::take(&mut program.parser.states);
    let mut changed = false;
    for state in states.iter_mut() {
        let before = state.ops.len();
        state.ops.retain(|op| match op {
            ParserOp::Set(LValue::Local(_), _) => true,
            ParserOp::Set(to, value) => reads.place(to) || may_end(&program.exprs, *value),
            _ => true,
        });
        changed |= state.ops.len() != before;
    }
    program.parser.states = states;
    changed
}
