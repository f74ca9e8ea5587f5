//! Inspects a packet without forwarding it: parses, then checks every checksum and CRC.
//!
//! The same parser and the same sums as in [`Interp::pass`]; nothing is written, nothing is emitted.

use super::Interp;
use super::bridge::Scalars;
use super::pass::{End, Pass};
use crate::engine::Context;
use crate::exec::{Descriptor, Intrinsic, NO_PORT};
use crate::ids::*;
use crate::ir::Half;

/// The result beside the headers, which stay in the worker's header vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The parser error, if it failed.
    pub(crate) error: Option<ErrorId>,
    /// Offset of the body.
    pub(crate) body_start: u32,
    /// Offset of its end.
    pub(crate) body_end: u32,
    /// Offset of the bytes behind the last trailer.
    pub(crate) slack_at: u32,
    /// Checksums that were checked, and those that were right, bit by id.
    pub(crate) checksums: (u64, u64),
    /// The same for CRCs.
    pub(crate) crcs: (u64, u64),
    /// Ingress decided on a port.
    pub(crate) picked: bool,
}

impl Interp {
    /// Parses a packet, checks every checksum and CRC that it has, also those that the program does not
    /// verify, and runs ingress. `missing`: bytes of it that a capture left out. It has its length with them, and
    /// a trailer among them is not valid.
    pub(crate) fn look(
        &self,
        cx: &mut Context<'_>,
        packet: &mut Descriptor,
        meta: &mut Intrinsic,
        missing: u32,
    ) -> Seen {
        cx.worker.scratch.missing = missing;
        let mut scalars = Scalars::new(packet.len);
        let mut pass = self.begin(cx, packet, meta, &mut scalars, Half::Ingress, false);
        let mut seen = Seen::default();
        if let Err(end) = pass.parse() {
            let error = match end {
                End::Reject(error) => error,
                // The only other end of a parser is an index out of range; it has no error of its own.
                _ => crate::ir::BuiltinError::NoMatch.id(),
            };
            seen.error = Some(error);
            pass.meta.parser_error = error.0 as u8;
        }
        (seen.body_start, seen.body_end) = (pass.scalars.body_start, pass.scalars.body_end);
        seen.slack_at = pass.scalars.slack_at;
        pass.note_sums(&mut seen);
        let ended = pass.run(&self.program.ingress);
        seen.picked = ended.is_ok() && pass.packet.egress_port != NO_PORT;
        seen
    }
}

impl Pass<'_> {
    fn note_sums(&mut self, seen: &mut Seen) {
        let program = self.program;
        let note = |masks: &mut (u64, u64), bit: u64, right: bool| {
            masks.0 |= bit;
            masks.1 |= if right { bit } else { 0 };
        };
        for (id, checksum) in program.checksums.entries() {
            let bit = 1u64.checked_shl(id.0).unwrap_or(0);
            // A condition that cannot be evaluated counts as false.
            if let Ok(Some(right)) = self.checksum_right(checksum) {
                note(&mut seen.checksums, bit, right);
                self.meta.checksum_error |= if right { 0 } else { bit as u32 };
            }
        }
        for (id, crc) in program.crcs.entries() {
            let bit = 1u64.checked_shl(id.0).unwrap_or(0);
            if let Ok(Some(right)) = self.crc_right(id, crc) {
                note(&mut seen.crcs, bit, right);
                self.meta.crc_error |= if right { 0 } else { bit as u32 };
            }
        }
    }
}
