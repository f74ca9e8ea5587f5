//! Whether egress of a program leaves every packet as ingress left it.
//!
//! Then no checksum is computed and nothing is deparsed: only the headers are located again, because the descriptor
//! depends on them.

use crate::ids::*;
use crate::ir::eval::{may_end, reads};
use crate::ir::{Body, Covered, ExprKind, Program, Term, Update};

/// True when the control does nothing, nothing is written in every egress, nothing is behind the body, and no condition
/// of a checksum can end the pass. Slack that must be stripped is checked for each packet.
pub(super) fn egress(program: &Program) -> bool {
    let sums = program.checksums.iter().map(|sum| (sum.update, sum.when, &sum.over));
    let crcs = program.crcs.iter().map(|crc| (crc.update, crc.when, &crc.over));
    let mut covered = sums.chain(crcs);
    does_nothing(&program.egress)
        && program.parser.egress.is_none()
        && program.deparser.after.is_empty()
        && covered.all(|(update, when, over)| {
            let values = over.iter().filter_map(|part| match part {
                Covered::Value(value) => Some(*value),
                _ => None,
            });
            update != Update::Always
                && values.chain(when).all(|value| !may_end(&program.exprs, value))
        })
}

/// The metadata that has the length of a header: the parser gave it.
pub(super) fn given_lengths(program: &Program) -> Box<[MetaId]> {
    let is_given = |meta: &MetaId| {
        let is_read = |kind: &ExprKind| matches!(kind, ExprKind::Meta(id) if id == meta);
        let mut lengths = program.instances.iter().filter_map(|instance| instance.variable_bits);
        lengths.any(|length| reads(program, length, &is_read))
    };
    program.metadata.ids().filter(is_given).collect()
}

fn does_nothing(body: &Body) -> bool {
    let ends = |term: &Term| matches!(term, Term::Jump(_) | Term::Return | Term::Exit);
    body.blocks.iter().all(|block| block.ops.is_empty() && ends(&block.term))
}
