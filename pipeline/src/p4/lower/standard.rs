//! `standard_metadata` of v1model: what each field is in the parser, in ingress and in egress.
//!
//! A field that the device sets is read where it is. A program may write it all the same, and other statements must read what was written then:
//! such a field gets metadata of its own, filled when the control begins. What only ingress has, and egress reads, is carried.

use std::rc::Rc;

use super::super::types::Type;
use super::Lower;
use super::build::{binary, cast, known, mux, named, number, path_is};
use super::env::Val;
use super::need::Need;
use super::operate::quotient;
use super::storage::part;
use crate::ast::{self, AstBin, AstExpr};
use crate::ir::SourceSpan;

/// Fields that egress cannot read from the device, with their names there.
pub(super) const INGRESS_ONLY: [(&str, &str); 2] =
    [("mcast_grp", "multicast_group"), ("parser_error", "parser_error")];

/// Where the fields are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Half {
    Parser,
    Ingress,
    Egress,
}

impl Lower<'_> {
    /// The fields, and the statements that fill those with storage of their own when the control begins. What is carried from ingress is
    /// filled by statements that are added to `epilogue`.
    pub(super) fn standard(
        &mut self,
        ty: &Type,
        spec: &AstExpr,
        error: &AstExpr,
        half: Half,
        span: SourceSpan,
    ) -> (Val, Vec<ast::Stmt>) {
        let Type::Struct(of) = ty else { return (Val::Nothing, Vec::new()) };
        let mut fields = Vec::new();
        let mut begin = Vec::new();
        for (name, _) in &of.fields {
            let value = match &**name {
                "egress_spec" => spec.clone(),
                "checksum_error" => error.clone(),
                name => {
                    let of = part(ty, name).unwrap_or(Type::Any);
                    let bits = self.bits(&of, span);
                    self.standard_field(name, bits, half, &mut begin, span)
                }
            };
            fields.push((name.clone(), Val::Scalar(value)));
        }
        let fields = Rc::new(fields);
        self.standards.push((half, fields.clone()));
        (Val::Struct(fields), begin)
    }

    fn standard_field(
        &mut self,
        name: &str,
        bits: u32,
        half: Half,
        begin: &mut Vec<ast::Stmt>,
        span: SourceSpan,
    ) -> AstExpr {
        // What ingress wrote of these, egress reads.
        if half == Half::Egress
            && matches!(name, "ingress_port" | "ingress_global_timestamp")
            && let Some(kept) = self.standard_kept.get(name)
        {
            return kept.clone();
        }
        let value = match (name, half) {
            // The packet has no place to go to, and no error, before ingress.
            ("mcast_grp" | "priority", Half::Parser) => number(0, bits, span),
            ("parser_error", Half::Parser) => named(&["error", "none"], span),
            _ => of_device(name, bits, half == Half::Egress, span),
        };
        let need = Need::Written(half, name.to_owned());
        // The error is the device's, whatever the parser wrote.
        if half == Half::Ingress
            && name != "parser_error"
            && let Some(parsed) = self.standard_parsed.get(name).cloned()
        {
            return self.as_parsed(name, value, parsed, begin, span);
        }
        if !self.is_needed(&need) {
            if half != Half::Ingress || !is_of_ingress(name) {
                self.device_set.push((need, value.clone()));
            }
            return value;
        }
        let kept = self.new_meta(name, bits, span);
        match half {
            Half::Parser => _ = self.standard_parsed.insert(name.to_owned(), kept.clone()),
            Half::Ingress => _ = self.standard_kept.insert(name.to_owned(), kept.clone()),
            Half::Egress => {}
        }
        if half == Half::Parser && known(&value) == Some(0) {
            // Metadata begins as 0.
            return kept;
        }
        let ((), mut set) = self.apart(|lower| lower.set(&kept, value, span));
        if half == Half::Egress && INGRESS_ONLY.iter().any(|(known, _)| *known == name) {
            self.epilogue.append(&mut set);
        } else {
            begin.append(&mut set);
        }
        kept
    }

    /// A field in ingress that the parser has written: what it has written, which the device takes from there where ingress could write it.
    fn as_parsed(
        &mut self,
        name: &str,
        device: AstExpr,
        parsed: AstExpr,
        begin: &mut Vec<ast::Stmt>,
        span: SourceSpan,
    ) -> AstExpr {
        if is_of_ingress(name) {
            let ((), mut set) = self.apart(|lower| lower.set(&device, parsed, span));
            begin.append(&mut set);
            return device;
        }
        self.standard_kept.insert(name.to_owned(), parsed.clone());
        parsed
    }
}

/// Fields that ingress writes where the device has them.
fn is_of_ingress(name: &str) -> bool {
    matches!(name, "mcast_grp" | "priority")
}

/// The value of a field from the device, in the units of v1model.p4: microseconds and packets. The queue is behind
/// ingress: what it measures is 0 there, and so is the port that it leads to.
fn of_device(name: &str, bits: u32, egress: bool, span: SourceSpan) -> AstExpr {
    let std = |name: &str| named(&["std", name], span);
    let us = |ns: AstExpr| quotient(ns, 1000, 64, span);
    match name {
        "ingress_port" => cast(9, std("ingress_port")),
        "egress_port" if egress => cast(9, std("egress_port")),
        "instance_type" => instance_type(span),
        "packet_length" => std("packet_length"),
        "enq_timestamp" if egress => cast(32, us(std("enqueue_ns"))),
        "enq_qdepth" if egress => cast(19, std("enqueue_depth_packets")),
        "deq_timedelta" if egress => {
            cast(32, us(binary(AstBin::Sub, std("dequeue_ns"), std("enqueue_ns"), span)))
        }
        "deq_qdepth" if egress => cast(19, std("dequeue_depth_packets")),
        "ingress_global_timestamp" => cast(48, us(std("ingress_ns"))),
        "egress_global_timestamp" if egress => cast(48, us(std("now_ns"))),
        "mcast_grp" => std("multicast_group"),
        "egress_rid" if egress => std("instance"),
        "parser_error" => std("parser_error"),
        "priority" => std("traffic_class"),
        "qid" if egress => cast(5, std("traffic_class")),
        _ => number(0, bits.max(1), span),
    }
}

/// The value of `instance_type` for the packet's path. In egress a packet that entered ingress again is a normal one, as on bmv2.
fn instance_type(span: SourceSpan) -> AstExpr {
    let kinds = [
        ("clone_ingress", 1),
        ("clone_egress", 2),
        ("recirculate", 4),
        ("multicast", 5),
        ("resubmit", 6),
    ];
    kinds.into_iter().fold(number(0, 32, span), |other, (kind, value)| {
        mux(path_is(kind, span), number(value, 32, span), other, span)
    })
}
