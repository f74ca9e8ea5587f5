//! The verifier: the properties that every pass and engine may rely on.
//!
//! # Contract
//!
//! * Ids are inside their lists: instances, stacks, fields, metadata, states, blocks, locals, actions,
//!   tables, registers, counters, meters, digests, CRCs, externs, reasons, errors, value sets.
//! * At most 64 instances; elements of a stack follow each other and have its header type.
//! * The operands of an expression have smaller ids than the expression (it is a tree, or shares operands).
//! * Widths are 1 to 128; a constant fits; a node has the width that follows from its operands and operator; operands
//!   of arithmetic and comparison are equally wide; conditions are one bit; slices are inside; offsets, lengths and
//!   indices have 32 bits; a field, element, metadata field, intrinsic field and local is read with its own width.
//! * `lookahead` and `cursor` occur only in the parser.
//! * An assignment has the width of its target; so do arguments and parameters, table keys, action
//!   data, meter colours, random bounds, digest values.
//! * Blocks form a graph without cycles, every block is reached, jumps stay inside the body, the cases of a switch fit
//!   and differ; only controls apply tables; a locked load is followed by its store, with the same index, on every path
//!   through its body that does not end the pass, and nothing between them takes a lock.
//! * Actions do not call themselves; `nop` and `drop` are the first two; parameters are the first
//!   locals; defaults and entries name actions of the table with fitting data.
//! * Parser states are all reached; a select has a pattern of fitting width for each key.
//! * Carried metadata is in its bytes without overlap, each field in the descriptor or in the chunk; each header is
//!   emitted at most once.
//! * A pad depends on headers in front of the body, on which headers are valid, on carried metadata and on
//!   `std.emit_length` and `std.body_length`: on values that are the same in egress.
//!
//! Not checked: that a loop of parser states moves the cursor, that intrinsic fields are used where they are defined
//! (the checker checks both).

mod code;
mod decls;
mod exprs;
mod locks;
mod pads;

#[cfg(test)]
mod tests;

pub use code::{op_exprs, op_target};
pub use pads::pad_must_not_read;

use super::Program;

/// All violations, as text with ids; empty for a correct program.
pub fn verify(program: &Program) -> Vec<String> {
    let mut verifier = Verifier { program, found: Vec::new() };
    verifier.exprs();
    verifier.decls();
    verifier.pads();
    verifier.parser();
    verifier.controls();
    verifier.found
}

struct Verifier<'p> {
    program: &'p Program,
    found: Vec<String>,
}

impl Verifier<'_> {
    /// Records a violation unless `holds`.
    fn ensure(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(what());
        }
    }
}
