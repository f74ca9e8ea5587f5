//! Help for authors with P4 habits: the spelling of this language for P4 syntax and names.
//!
//! It is used only for a text that cannot be parsed, or for an undeclared name, so it has no effect on valid programs.

use super::Text;
use super::lexer::{Kind, Token, tokens};

/// Help with the spelling of this language, for a text that cannot be parsed and is P4.
pub(super) fn help(text: Text<'_>) -> Option<String> {
    let tokens = tokens(text).ok()?;
    (0..tokens.len()).find_map(|at| method(&tokens, at).or_else(|| phrase(&tokens, at)))
}

/// `object.method(..)`.
fn method(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let kind = |at: usize| tokens.get(at).map(|token| token.kind);
    let (Some(Kind::Sign(".")), Some(Kind::Word(method)), Some(Kind::Sign("("))) =
        (kind(at), kind(at + 1), kind(at + 2))
    else {
        return None;
    };
    let object = match at.checked_sub(1).and_then(kind) {
        Some(Kind::Word(word)) => word,
        _ => "h",
    };
    Some(match method {
        "apply" => format!(
            "a table is applied by a statement of its own: `apply: {object}`, with `hit:`, `miss:` or \
             `actions:` beside it"
        ),
        "isValid" => format!("write `{object}.valid`"),
        "setValid" => format!("write `set_valid({object})`"),
        "setInvalid" => format!("write `set_invalid({object})`"),
        "read" => format!("a register is read as `{object}[index]`, or `{object}[index].cell`"),
        "write" => format!("a register is written as `{object}[index] = value`"),
        "count" => format!("write `count({object}, index)`"),
        "execute" | "execute_meter" => format!("write `std.color = execute({object}, index)`"),
        "extract" => "a parser state says `extract: ethernet`".into(),
        "emit" => "headers leave in the order of `deparser: { emit: [ethernet, ipv4] }`".into(),
        "advance" => "in a parser state write `advance(bits)`".into(),
        "lookahead" => "write `lookahead(bits)`".into(),
        "push_front" => format!("write `push({object}, n)`"),
        "pop_front" => format!("write `pop({object}, n)`"),
        "pack" => format!("write `digest({object})`"),
        "get" => "write `hash(crc32, a, b)`".into(),
        _ => return None,
    })
}

/// Words of P4 for which this language has YAML keys.
fn phrase(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let kind = |at: usize| tokens.get(at).map_or(Kind::End, |token| token.kind);
    match (kind(at), kind(at + 1), kind(at + 2)) {
        (Kind::Sign("("), Kind::Word("bit"), Kind::Sign("<")) if kind(at + 5) == Kind::Sign(")") => {
            let Kind::Number { value, .. } = kind(at + 3) else { return None };
            Some(format!("a cast is `bit<{value}>(x)`"))
        }
        (Kind::Word("bit"), Kind::Sign("<"), Kind::Number { value, .. }) if at == 0 => {
            let Kind::Word(name) = kind(at + 4) else { return None };
            Some(format!("a local is `let {name} = bit<{value}>(x)`; a field that stays is `metadata:`"))
        }
        (Kind::Word("transition"), ..) | (Kind::Word("select"), Kind::Sign("("), _) => Some(
            "a parser state says where it goes by keys: `next: accept`, or `select: ipv4.protocol` with \
             `cases: { 17: udp }` and `default: accept`"
                .into(),
        ),
        (Kind::Sign("&&&"), ..) if at > 0 => Some(
            "a mask belongs to a pattern, in `cases:` and entries; in an expression write \
             `x & mask == value`"
                .into(),
        ),
        (Kind::Word("return"), next, _) if at == 0 && next != Kind::End => {
            Some("an action returns nothing: assign to metadata or a header".into())
        }
        _ => None,
    }
}

/// The name of this language for a field of P4's standard metadata.
pub(crate) fn std_field(of_p4: &str) -> Option<&'static str> {
    Some(match of_p4 {
        "egress_spec" | "egress_port" => "egress_port",
        "ingress_port" => "ingress_port",
        "mcast_grp" | "multicast_group" => "multicast_group",
        "packet_length" | "pkt_length" => "packet_length",
        "instance_type" | "packet_path" => "packet_path",
        "priority" | "class_of_service" | "qid" => "traffic_class",
        "egress_rid" | "instance" => "instance",
        "parser_error" => "parser_error",
        "checksum_error" => "checksum_error",
        "enq_qdepth" => "enqueue_depth_packets",
        "deq_qdepth" => "dequeue_depth_packets",
        "enq_timestamp" => "enqueue_ns",
        "ingress_global_timestamp" | "ingress_timestamp" => "ingress_ns",
        "egress_global_timestamp" | "egress_timestamp" => "now_ns",
        _ => return None,
    })
}

/// The spelling of this language for a name that is defined in P4; `behind` is the first name after a dot.
pub(crate) fn name(first: &str, behind: Option<&str>) -> Option<String> {
    let std = |field: &str| Some(format!("intrinsic metadata is `std.{field}`"));
    match (first, behind) {
        ("mark_to_drop" | "drop_packet" | "ingress_drop" | "egress_drop", _) => {
            Some("write `drop`, or `drop reason`".into())
        }
        ("if", _) => Some("a condition is a map: `{ if: cond, then: [..], else: [..] }`".into()),
        ("switch", _) => {
            Some("a choice is a map: `{ switch: value, cases: { 1: [..] }, default: [..] }`".into())
        }
        ("NoAction" | "no_action", _) => Some("the action that does nothing is `nop`".into()),
        ("send_to_port" | "send_to_unicast_port", _) => {
            Some("write `std.egress_port = port`".into())
        }
        ("multicast", None) => Some("write `std.multicast_group = group`".into()),
        ("clone3" | "clone_preserving_field_list" | "mirror_packet", _) => {
            Some("write `clone(session)`; what goes with it is metadata that is `carried`".into())
        }
        ("resubmit_preserving_field_list", _) => Some(
            "write `resubmit_received()`; what goes with it is metadata that is `carried`".into(),
        ),
        ("recirculate_preserving_field_list", _) => Some("write `recirculate()`".into()),
        ("add_entry", _) => {
            Some("write `{ learn: table, key: [..], action: \"forward(1)\" }`".into())
        }
        ("verify_checksum" | "update_checksum" | "verify_checksum_with_payload", _)
        | ("update_checksum_with_payload", _) => {
            Some("a checksum is declared once, in `checksums:`".into())
        }
        ("isValid" | "setValid" | "setInvalid", _) => {
            Some("write `ipv4.valid`, `set_valid(ipv4)`, `set_invalid(ipv4)`".into())
        }
        ("hdr" | "headers" | "hdrs", Some(header)) => {
            Some(format!("a header has its name alone: `{header}`, as in `{header}.valid`"))
        }
        (
            "standard_metadata" | "std_meta" | "smeta" | "istd" | "ostd" | "ig_intr_md"
            | "eg_intr_md",
            field,
        ) => match field {
            Some("drop") => Some("write `drop`, or `drop reason`".into()),
            _ => match field.and_then(std_field) {
                Some(field) => std(field),
                None => Some("intrinsic metadata is `std`, as in `std.egress_port`".into()),
            },
        },
        ("_", _) => Some("`_` is a pattern, for `cases:` and entries; it is no value".into()),
        ("packet" | "pkt", Some("extract" | "lookahead" | "advance" | "emit")) => Some(
            "a parser state says `extract: ethernet`; headers leave by `deparser: { emit: [..] }`"
                .into(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;
    use crate::ir::SourceSpan;
    use crate::syntax::{expression, pattern, statement};

    fn text(text: &str) -> Text<'_> {
        let whole = SourceSpan { file: FileId(0), start: 0, end: text.len() as u32 };
        Text { text, whole, start: Some(0) }
    }

    #[test]
    fn what_p4_writes_has_a_way_out() {
        let says = |wrong: &str, help: &str| {
            let error = statement(text(wrong)).expect_err(wrong);
            let found = error.help.unwrap_or_default();
            assert!(found.contains(help), "{wrong}: {} / {found}", error.message);
        };
        says("fib.apply()", "`apply: fib`");
        says("hdr.ipv4.setValid()", "`set_valid(ipv4)`");
        says("ipv4.setInvalid()", "`set_invalid(ipv4)`");
        says("flow.read(meta.x, 3)", "`flow[index]`");
        says("flow.write(3, meta.x)", "`flow[index] = value`");
        says("hits.count(3)", "`count(hits, index)`");
        says("limit.execute_meter(1, meta.x)", "`std.color = execute(limit, index)`");
        says("meta.x = (bit<8>)ipv4.ttl", "`bit<8>(x)`");
        says("bit<8> x = 1", "`let x = bit<8>(x)`");
        says("transition accept", "`next: accept`");
        says("transition select(ethernet.ether_type)", "`select: ");

        says("vlan.push_front(1)", "`push(vlan, n)`");
        let error = expression(text("ipv4.isValid() && x")).expect_err("a method");
        assert!(error.help.unwrap_or_default().contains("`ipv4.valid`"));
        let error = expression(text("x &&& 3")).expect_err("a mask");
        assert!(error.help.is_some());
    }

    #[test]
    fn names_of_p4_have_a_way_out() {
        let says = |first, behind, help: &str| {
            let found = name(first, behind).unwrap_or_default();
            assert!(found.contains(help), "{first}: {found}");
        };
        says("mark_to_drop", None, "`drop`");
        says("standard_metadata", Some("egress_spec"), "`std.egress_port`");
        says("standard_metadata", Some("no_such"), "`std`");
        says("send_to_port", None, "`std.egress_port = port`");
        says("hdr", Some("ipv4"), "`ipv4.valid`");
        says("if", None, "{ if: cond");
        says("_", None, "pattern");
        assert_eq!(name("ipv4", None), None);
    }

    #[test]
    fn a_range_with_a_dash_is_refused() {
        for (wrong, right) in [
            ("5000-5999", "`5000..5999`"),
            ("0x10 - 0x20", "`0x10..0x20`"),
            ("10.0.0.0-10.0.0.255", "`10.0.0.0..10.0.0.255`"),
        ] {
            let error = pattern(text(wrong)).expect_err(wrong);
            assert!(error.help.unwrap_or_default().contains(right), "{wrong}");
        }
        for fine in ["5000..5999", "(8-1)", "a-1", "8-a", "8-1..9"] {
            assert!(pattern(text(fine)).is_ok(), "{fine}");
        }
    }
}
