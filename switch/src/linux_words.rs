//! The words of a program's `linux:` and their rules: the words of each mapping, and the widths of its keys and
//! parameters.
//!
//! The check of the language finds tables, keys and actions and is independent of these words; their use is in
//! [`linux`](crate::linux).

use wireyard_pipeline::diag::{Diagnostics, codes};
use wireyard_pipeline::ir::{MappedValue, Mapping, Program};
use wireyard_tables::MatchKind;

/// Least width of a word in bits. `port` and `number` may have any width: it limits how many there can be.
const BITS: [(&str, u32); 3] = [("mtu", 14), ("mac", 48), ("neighbour", 48)];

/// The words of a mapping, and the roles that it requires beside `action`.
fn law(name: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "interfaces" => (&["port", "mac", "mtu"], &[]),
        "neighbours" => (&["number", "port", "mac", "neighbour", "mtu"], &[]),
        "routes4" | "routes6" => (&["prefix", "number"], &["kernel"]),
        _ => (&["address"], &[]),
    }
}

/// Adds all errors of a program's `linux:` to `found`.
pub(crate) fn check(program: &Program, found: &mut Diagnostics) {
    program.linux.iter().for_each(|mapping| check_mapping(program, mapping, found));
    let has_hops = program.linux.iter().any(|mapping| mapping.name == "neighbours");
    let routes = program.linux.iter().find(|mapping| mapping.name.starts_with("routes"));
    if let (false, Some(routes)) = (has_hops, routes) {
        let text = "routes need `neighbours`, the table of their next hops";
        found.error(codes::MISSING_KEY, routes.span, text);
    }
}

fn check_mapping(program: &Program, mapping: &Mapping, found: &mut Diagnostics) {
    let table = &program.tables[mapping.table];
    for (key, value) in table.keys.iter().zip(&mapping.keys) {
        let is_exact = !matches!(key.kind, MatchKind::Lpm | MatchKind::Ternary);
        value.iter().for_each(|value| check_value(mapping, value, key.bits, is_exact, found));
    }
    for call in &mapping.calls {
        let params = &program.actions[call.action].params;
        for (param, value) in params.iter().zip(&call.args) {
            check_value(mapping, value, param.bits, false, found);
        }
    }
    let (_, roles) = law(&mapping.name);
    let has = |role: &str| mapping.calls.iter().any(|call| call.role == role);
    for role in roles.iter().filter(|role| !has(role)) {
        let name = &mapping.name;
        let text = format!("`{name}` needs `{role}:`, an action that sends packets to the kernel");
        found.error(codes::MISSING_KEY, mapping.span, text);
    }
    let names_hop = |value: &MappedValue| matches!(value, MappedValue::Word(w, _) if w == "number");
    if mapping.name == "neighbours" && !mapping.keys.iter().flatten().any(names_hop) {
        let text = "the key of `neighbours` needs `number`, by which routes name a next hop";
        found.error(codes::MISSING_KEY, mapping.span, text);
    }
}

fn check_value(
    mapping: &Mapping,
    value: &MappedValue,
    bits: u32,
    is_exact: bool,
    found: &mut Diagnostics,
) {
    let MappedValue::Word(word, span) = value else { return };
    let (words, _) = law(&mapping.name);
    if !words.contains(&word.as_str()) {
        let text = format!("`{}` knows no `{word}`", mapping.name);
        let error = found.error(codes::UNKNOWN, *span, text);
        error.did_you_mean(word, words.iter().copied());
        if error.fixes.is_empty() {
            error.note(format!("it knows {}", words.join(", ")));
        }
        return;
    }
    let of_address = if mapping.name.ends_with('6') { 128 } else { 32 };
    let is_address = ["address", "prefix"].contains(&word.as_str());
    let known = BITS.iter().find(|(known, _)| known == word).map_or(0, |(_, bits)| *bits);
    let wanted = if is_address { of_address } else { known };
    if bits < wanted || is_address && bits != wanted {
        let text = format!("`{word}` has {wanted} bits, and this has {bits}");
        found.error(codes::WIDTHS, *span, text);
    } else if word == "prefix" && is_exact {
        let text = "a prefix needs a key that is lpm or ternary";
        found.error(codes::WRONG_KIND, *span, text);
    }
}
