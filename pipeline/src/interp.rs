//! The interpreter: the definition of a program's effect on a packet.
//!
//! It executes the IR, one packet at a time. Every other engine must have the same results: bytes, verdict, descriptor,
//! intrinsic metadata, counters, registers, tables. This page is that definition, as far as it is not in [`crate::ir`].
//!
//! # A pass
//! Ingress: parse, verify checksums then CRCs in order, run the control, conclude. Egress: find the headers again (of a
//! copy of the packet as received: parse, without counting errors), run the control, conclude. Conclude: verdict;
//! checksums, then CRCs, in order; deparser. The packet of a pass that ends with a drop is not deparsed, except in
//! egress for the requested clones.
//!
//! # Headers
//! The parser copies headers out of the packet; code works on the copies (`phv`); the deparser writes those that differ
//! back. A field of an invalid header reads as 0 and is not written, and then an array index is not evaluated. Operands
//! that `?:`, `&&` and `||` do not choose are not evaluated. An array index out of range ends the pass before the
//! operation has an effect. A header whose extraction fails is not valid, even if it was before.
//!
//! # Where things are
//! The body goes from the cursor, where the parser stopped, to `body_end`, to the first valid header of `after`, or to
//! the end of the packet, whichever is first. If that is before the cursor the error is `body_end`, trailers are not
//! valid, and the body goes to the end of the packet. Items of `after` follow each other from the end of the body;
//! slack is what is behind them. A pad with the place and the length that it was received with keeps its bytes,
//! otherwise it is filled. Bytes that the parser skipped are dropped. A cursor that is not at a whole byte at the end
//! of a state is the error `header_length`.
//!
//! # Across the queue
//! `carried` metadata comes with the packet: to egress from ingress, to ingress if it was resubmitted or recirculated,
//! to a copy from the pass that made it. Other metadata is zero when a pass begins.
//!
//! Egress walks `emit` by the validity mask, computing variable lengths from the headers' own fields, and
//! then `after` from the end of the body. So a pad may depend on headers in front of the body,
//! `std.emit_length` and carried metadata only. A header whose fields give another length than it has ends
//! the walk; it and the rest are then part of the body, and leave as they are. `truncate` cuts at the end
//! of the pass; headers that are not whole any more are part of the body then.
//!
//! # Checksums
//! `incremental` compares what is covered at the start of the pass with what is covered at its end, by
//! RFC 1624 equation 3; equal sums write nothing, and a result of ones' complement zero is 0x0000 (0xffff
//! where zero means none). In full instead if the header of the field was not received in this pass
//! (made valid, copied or moved by the program), or if the condition did not hold at its start. A field
//! that the program assigned is left alone, until its header is made new again. `always` is in full, in
//! egress, whatever was assigned. A header covers with all its bytes, its variable part included.
//!
//! # Others
//! Counters and meters count the bytes of the packet at the start of the pass. A direct meter colours from green. The
//! maps of `qos` read the packet as it leaves ingress. `random` takes two steps of the worker's stream. A learned entry
//! is found from the next packet on.
//!
//! Simplicity comes first. What it precomputes about a program (which values fit a word, the position of a field,
//! whether egress changes anything) saves work and never skips a case: the compiled engine is the fast one.

mod apply;
mod assign;
pub(crate) mod bridge;
mod carried;
mod checksum_input;
mod deparse;
mod effects;
mod eval;
mod identity;
mod look;
mod nodes;
mod parse;
mod pass;
mod run;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use look::Seen;

use crate::engine::{Context, Engine};
use crate::exec::{Descriptor, Intrinsic};
use crate::externs::crc::CrcEngine;
use crate::ids::*;
use crate::ir::sums::{SumId, write_order};
use crate::ir::{AfterBody, Half, Program};
use crate::phv;
use std::sync::Arc;

/// The interpreter of one program.
#[derive(Debug)]
pub struct Interp {
    program: Arc<Program>,
    /// By [`CrcId`].
    crcs: Box<[CrcEngine]>,
    /// Those that are written, in this order.
    sums: Box<[SumId]>,
    /// Field of each checksum, and its bit.
    checksum_fields: Box<[(InstanceId, FieldId, u64)]>,
    /// By [`ExprId`].
    nodes: Box<[nodes::Node]>,
    /// By instance and field: the place of a field that is read and written as one word.
    quick_fields: Box<[Box<[Option<phv::QuickField>]>]>,
    /// Metadata that crosses the queue.
    carried: carried::CarriedFields,
    /// Egress is the identity: a packet is not deparsed.
    egress_is_identity: bool,
    /// Metadata with lengths of headers, which came with the packet.
    given_lengths: Box<[MetaId]>,
    /// Instances in front of the body, in the order in which they are emitted, each with its bit.
    emit: Box<[(u64, InstanceId)]>,
    /// All their bits.
    emit_mask: u64,
    /// Instances behind it.
    after_mask: u64,
}

impl Interp {
    /// Prepares a program that the verifier accepts.
    pub fn new(program: Arc<Program>) -> Interp {
        let field = |(id, checksum): (ChecksumId, &crate::ir::Checksum)| {
            (checksum.field.0, checksum.field.1, 1u64.checked_shl(id.0).unwrap_or(0))
        };
        let trailer = |item: &AfterBody| match item {
            AfterBody::Header(instance) => phv::bit(*instance),
            AfterBody::Pad { .. } => 0,
        };
        let quick_fields = phv::quick_fields(&program);
        Interp {
            nodes: nodes::nodes(&program, &quick_fields),
            quick_fields,
            carried: carried::CarriedFields::new(&program),
            egress_is_identity: identity::egress(&program),
            given_lengths: identity::given_lengths(&program),
            crcs: program.crcs.iter().map(|crc| CrcEngine::new(crc.params)).collect(),
            sums: write_order(&program).0.into(),
            checksum_fields: program.checksums.entries().map(field).collect(),
            emit: program.deparser.emit.iter().map(|i| (phv::bit(*i), *i)).collect(),
            emit_mask: program.deparser.emit.iter().map(|i| phv::bit(*i)).fold(0, |a, b| a | b),
            after_mask: program.deparser.after.iter().map(trailer).fold(0, |a, b| a | b),
            program,
        }
    }

    /// The headers of a mask that are in front of the body, in the order of emission. A packet has few of a program's
    /// headers, usually the first ones: the search ends with the last of them.
    fn emitted(&self, valid: u64) -> impl Iterator<Item = InstanceId> {
        let (mut rest, mut left) = (self.emit.iter(), valid & self.emit_mask);
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let (bit, instance) = rest.find(|(bit, _)| left & bit != 0)?;
            left &= !bit;
            Some(*instance)
        })
    }

    /// The place of a field that is read and written as one word; `None` for other fields.
    fn quick(&self, instance: InstanceId, field: FieldId) -> Option<&phv::QuickField> {
        self.quick_fields.get(instance.index())?.get(field.index())?.as_ref()
    }
}

impl Engine for Interp {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        for (packet, meta) in packets.iter_mut().zip(meta) {
            self.pass(cx, packet, meta, Half::Ingress, false);
        }
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        for (packet, meta) in packets.iter_mut().zip(meta) {
            self.pass(cx, packet, meta, Half::Egress, false);
        }
    }
}
