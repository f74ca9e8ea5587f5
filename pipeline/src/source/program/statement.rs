//! Statements: strings by the grammar, maps by their identifying key.

use crate::ast::{ApplyStmt, Name, Stmt, StmtKind};
use crate::diag::codes;
use crate::source::decode::{Decoder, Fields};
use crate::source::node::{Map, Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};
use crate::syntax;

const STATEMENTS: Shape = Shape::OneOrMore(&Shape::Statement);

/// `{ if: c, then: [..], else: [..] }`.
pub(crate) static IF: MapShape = MapShape {
    name: "if",
    what: "an `if`",
    keys: &[
        needed("if", Shape::Expression, "The condition, one bit."),
        needed("then", STATEMENTS, "Statements when it is 1."),
        key("else", STATEMENTS, "Statements when it is 0."),
    ],
};
/// `{ switch: e, cases: { 1: [..], "2, 3": [..] }, default: [..] }`.
pub(crate) static SWITCH: MapShape = MapShape {
    name: "switch",
    what: "a `switch`",
    keys: &[
        needed("switch", Shape::Expression, "The value to compare."),
        needed(
            "cases",
            Shape::MapOf(&STATEMENTS),
            "Constants, `2, 3` for several, and their statements.",
        ),
        key("default", STATEMENTS, "Statements when no case is equal."),
    ],
};
/// `{ apply: table, hit: [..], miss: [..] }`.
pub(crate) static APPLY: MapShape = MapShape {
    name: "apply",
    what: "an `apply`",
    keys: &[
        needed("apply", Shape::Name, "The table to look up."),
        key("hit", STATEMENTS, "Statements after a hit."),
        key("miss", STATEMENTS, "Statements after a miss."),
        key(
            "actions",
            Shape::MapOf(&STATEMENTS),
            "Statements by the action that ran, `a, b` for several; `default` for the others.",
        ),
    ],
};
/// `{ call: "name(arguments)" }`.
pub(crate) static CALL: MapShape = MapShape {
    name: "call",
    what: "a `call`",
    keys: &[needed("call", Shape::Text, "The block of `controls` to run, and its arguments.")],
};
/// `{ update: "flow[i]", as: r, do: [..] }`.
pub(crate) static UPDATE: MapShape = MapShape {
    name: "update",
    what: "an `update`",
    keys: &[
        needed("update", Shape::Text, "The register entry: `register[index]`."),
        needed("as", Shape::Name, "Name of the entry inside of `do`."),
        needed("do", STATEMENTS, "Statements; they run as one."),
    ],
};
/// `{ learn: table, key: [..], action: call(..) }`.
pub(crate) static LEARN: MapShape = MapShape {
    name: "learn",
    what: "a `learn`",
    keys: &[
        needed("learn", Shape::Name, "The table to insert into."),
        needed("key", Shape::OneOrMore(&Shape::Expression), "A value for each key of the table."),
        needed("action", Shape::Expression, "The action of the entry, a call."),
    ],
};

/// Every statement that is a map; the first key of each identifies it.
pub(crate) static FORMS: &[&MapShape] = &[&IF, &SWITCH, &APPLY, &CALL, &UPDATE, &LEARN];

/// A list of statements, or one alone.
pub(super) fn statements(decoder: &mut Decoder<'_>, node: &Node) -> Vec<Stmt> {
    decoder.each(node, "a statement", statement)
}

/// The statements behind an optional key.
fn under(decoder: &mut Decoder<'_>, fields: &Fields<'_>, key: &str) -> Vec<Stmt> {
    fields.get(key).map(|node| statements(decoder, node)).unwrap_or_default()
}

fn statement(decoder: &mut Decoder<'_>, node: &Node) -> Option<Stmt> {
    match &node.kind {
        NodeKind::Scalar(_) => {
            let kind = decoder.read(node, "a statement", syntax::statement)?;
            Some(Stmt { kind, span: node.span })
        }
        NodeKind::Map(map) => {
            let has =
                |form: &&MapShape| map.pairs.iter().any(|(key, _)| key.scalar.text == form.name);
            // `call` may also be a key of a table action: the first form wins, and the second key is then reported as
            // unknown to it.
            let Some(form) = FORMS.iter().copied().find(has) else {
                return unknown(decoder, node);
            };
            let fields = decoder.map(node, form)?;
            let kind = block(decoder, form.name, &fields)?;
            Some(Stmt { kind, span: fields.span })
        }
        _ => decoder.wrong(node, "a statement"),
    }
}

fn unknown(decoder: &mut Decoder<'_>, node: &Node) -> Option<Stmt> {
    let NodeKind::Map(map) = &node.kind else { return None };
    if key_in_key(decoder, map) || decoder.torn(node) {
        return None;
    }
    let forms: Vec<String> = FORMS.iter().map(|form| format!("`{}`", form.name)).collect();
    let (span, found) = match map.pairs.first() {
        Some((key, _)) => (key.span, key.scalar.text.as_str()),
        None => (node.span, ""),
    };
    // `std.egress_port: 1`, of one value, is an assignment.
    let assigned = match map.pairs.as_slice() {
        [(_, value)] if found.contains('.') && found.split('.').all(syntax::is_name) => {
            value.text()
        }
        _ => None,
    };
    let message = match found {
        "" => "an empty map is no statement".to_owned(),
        found => format!("`{}` is not a statement", syntax::shown(found)),
    };
    let error = decoder.diagnostics.error(codes::UNKNOWN_STATEMENT, span, message);
    if let Some(value) = assigned {
        let value = syntax::shown(value.text);
        error.help(format!("an assignment has `=`: `{} = {value}`", syntax::shown(found)));
        return None;
    }
    error
        .did_you_mean(found, FORMS.iter().map(|form| form.name))
        .note(format!("a statement that is a map has one of the keys {}", forms.join(", ")));
    None
}

/// Reports `if ipv4.valid: [..]`, where YAML takes the word of the statement for a part of its key. False for any other
/// map.
fn key_in_key(decoder: &mut Decoder<'_>, map: &Map) -> bool {
    let Some((key, _)) = map.pairs.first() else { return false };
    let Some((word, rest)) = key.scalar.text.split_once(' ') else { return false };
    let Some(form) = FORMS.iter().find(|form| form.name == word) else { return false };
    // An assignment to what is called like a statement; an expression that YAML cut at its `:`.
    let is_whole = rest.matches('(').count() == rest.matches(')').count() && !rest.contains('?');
    if rest.trim_start().starts_with('=') || !is_whole {
        return false;
    }
    let (word_behind, before) = match rest.trim().rsplit_once(' ') {
        Some((before, last)) => (last, before),
        None => ("", rest.trim()),
    };
    let rest = if form.keys[1..].iter().any(|key| key.name == word_behind) { before } else { rest };
    let message = format!("`{}` is not a statement", syntax::shown(&key.scalar.text));
    let more: Vec<String> = form.keys[1..].iter().map(|key| format!("`{}:`", key.name)).collect();
    let more = match more.as_slice() {
        [] => String::new(),
        more => format!("; {} stand in lines of their own below it", more.join(", ")),
    };
    decoder
        .diagnostics
        .error(codes::UNKNOWN_STATEMENT, key.span, message)
        .help(format!("`{word}` is a key: `- {word}: {}`{more}", syntax::shown(rest.trim())));
    true
}

fn block(decoder: &mut Decoder<'_>, form: &str, fields: &Fields<'_>) -> Option<StmtKind> {
    let at = |key: &str| fields.get(key);
    match form {
        "if" => {
            let condition = at("if").and_then(|node| decoder.expression(node));
            let [then, or] = ["then", "else"].map(|key| under(decoder, fields, key));
            Some(StmtKind::If(condition?, then, or))
        }
        "switch" => {
            let value = at("switch").and_then(|node| decoder.expression(node));
            let cases = at("cases").map(|node| cases(decoder, node)).unwrap_or_default();
            let default = under(decoder, fields, "default");
            Some(StmtKind::Switch(value?, cases, default))
        }
        "apply" => apply(decoder, fields).map(StmtKind::Apply),
        "call" => {
            let (name, arguments) = decoder.read(at("call")?, "a control", syntax::call)?;
            Some(StmtKind::CallControl(name, arguments))
        }
        "update" => {
            let cell =
                at("update").and_then(|node| decoder.read(node, "`register[index]`", syntax::cell));
            let alias = at("as").and_then(|node| decoder.name(node));
            let body = under(decoder, fields, "do");
            let (register, index) = cell?;
            Some(StmtKind::Update { register, index, alias: alias?, body })
        }
        "learn" => {
            let table = at("learn").and_then(|node| decoder.name(node));
            let key = at("key")
                .map(|node| decoder.each(node, "an expression", Decoder::expression))
                .unwrap_or_default();
            let action = at("action").and_then(|node| decoder.expression(node));
            Some(StmtKind::Learn { table: table?, key, action: action? })
        }
        _ => None,
    }
}

fn cases(decoder: &mut Decoder<'_>, node: &Node) -> Vec<(Vec<crate::ast::AstExpr>, Vec<Stmt>)> {
    let mut found = Vec::new();
    for (key, body) in decoder.pairs(node, "the cases").unwrap_or_default() {
        let labels = decoder.key(key, syntax::expressions);
        let body = statements(decoder, body);
        found.extend(labels.map(|labels| (labels, body)));
    }
    found
}

fn apply(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<ApplyStmt> {
    decoder.exclude(fields, "hit", "actions");
    decoder.exclude(fields, "miss", "actions");
    let table = fields.get("apply").and_then(|node| decoder.name(node));
    let [hit, miss] = ["hit", "miss"].map(|key| under(decoder, fields, key));
    let actions = fields.get("actions").map(|node| by_action(decoder, node)).unwrap_or_default();
    Some(ApplyStmt { table: table?, hit, miss, actions })
}

fn by_action(decoder: &mut Decoder<'_>, node: &Node) -> Vec<(Vec<Name>, Vec<Stmt>)> {
    let mut found = Vec::new();
    for (key, body) in decoder.pairs(node, "the actions").unwrap_or_default() {
        let names = decoder.key(key, syntax::names);
        let body = statements(decoder, body);
        found.extend(names.map(|names| (names, body)));
    }
    found
}
