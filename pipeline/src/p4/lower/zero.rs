//! Warnings of standard metadata that is 0 wherever it is read (W0115).

use std::rc::Rc;

use super::Lower;
use super::env::Val;
use super::need::Need;
use super::standard::Half;
use crate::diag::codes;
use crate::ir::SourceSpan;

/// Why a field has no value in a part of the program; `None`: it has one.
fn reason(name: &str, half: Half) -> Option<&'static str> {
    let queue = "the queue, which is behind ingress, sets it: read it in egress";
    match name {
        "ingress_port"
        | "instance_type"
        | "packet_length"
        | "ingress_global_timestamp"
        | "parser_error" => None,
        "mcast_grp" | "priority" | "checksum_error" => {
            (half == Half::Parser).then_some("what follows the parser sets it")
        }
        "egress_spec" => {
            (half == Half::Egress).then_some("in egress the port of the packet is `egress_port`")
        }
        "egress_port" => {
            (half != Half::Egress).then_some("`egress_spec` is the port that ingress decides for")
        }
        "enq_timestamp"
        | "enq_qdepth"
        | "deq_timedelta"
        | "deq_qdepth"
        | "egress_rid"
        | "qid"
        | "egress_global_timestamp" => (half != Half::Egress).then_some(queue),
        _ => Some(
            "v1model.p4 has no such field: nothing sets it here, and what another part of the program writes to it does not arrive",
        ),
    }
}

impl Lower<'_> {
    /// Warns of a field that nothing sets, where it is first read. `value` is what it is a field of.
    pub(super) fn note_zero(&mut self, value: &Val, name: &str, span: SourceSpan) {
        let Val::Struct(fields) = value else { return };
        let known = self.standards.iter().find(|(_, known)| Rc::ptr_eq(known, fields));
        let Some((half, _)) = known else { return };
        let half = *half;
        let Some(reason) = reason(name, half) else { return };
        let parsed = half == Half::Ingress && self.standard_parsed.contains_key(name);
        let is_written = parsed || self.is_needed(&Need::Written(half, name.to_owned()));
        if is_written || !self.noted_zero.insert((half, name.to_owned())) {
            return;
        }
        let place = match half {
            Half::Parser => "the parser",
            Half::Ingress => "ingress",
            Half::Egress => "egress",
        };
        let text = format!("`{name}` is always 0 in {place}");
        self.report.warning(codes::ALWAYS_ZERO, span, text).note(reason);
    }
}
