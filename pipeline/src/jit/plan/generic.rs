//! The start and the end of a pass in generic code: whether they have code, or are steps of the interpreter.
//!
//! That code is for the usual packets of programs whose deparser is a list of headers of fixed length. It tests for
//! other packets and for requests to the device at run time ([`crate::jit::emit::generic`]).

use super::Control;
use crate::ir::{Half, Op, ParserOp, Program, Update, Verify};
use crate::jit::compiled::Facts;

/// Whether only headers of fixed length are in front of the body, and nothing behind it.
fn is_list_of_headers(program: &Program) -> bool {
    let of_one_length = |instance| {
        let declared = &program.instances[instance];
        let header = &program.headers[declared.header];
        declared.variable_bits.is_none() && header.fixed_bytes == header.max_bytes
    };
    program.deparser.after.is_empty() && program.deparser.emit.iter().all(|i| of_one_length(*i))
}

impl Control<'_> {
    /// Whether the work between parser and control of ingress, or before the control of egress, has code.
    pub(in crate::jit) fn start_has_code(&self) -> bool {
        let (program, ingress) = (self.program, self.half == Half::Ingress);
        let mut ops = program.parser.states.iter().flat_map(|state| &state.ops);
        let sums = program
            .checksums
            .iter()
            .any(|sum| sum.update == Update::Incremental || ingress && sum.verify != Verify::Off);
        let crcs = program.crcs.iter().any(|crc| ingress && crc.verify != Verify::Off);
        let parses = match self.half {
            Half::Ingress => ops.any(|op| matches!(op, ParserOp::BodyEnd(_))),
            Half::Egress => program.parser.egress.is_some(),
        };
        is_list_of_headers(program) && !sums && !crcs && !parses
    }

    /// Whether the work after the control has code, for a packet that is forwarded.
    pub(in crate::jit) fn end_has_code(&self, facts: &Facts) -> bool {
        let program = self.program;
        let sums = program.checksums.iter().any(|sum| sum.update != Update::Never);
        let crcs = program.crcs.iter().any(|crc| crc.update != Update::Never);
        let maps =
            self.half == Half::Ingress && (program.qos.dscp.is_some() || program.qos.pcp.is_some());
        let locks = facts.several_workers
            && program.uses(|op| matches!(op, Op::RegisterLoad { locked: true, .. }));
        is_list_of_headers(program) && !sums && !crcs && !maps && !locks
    }
}
