//! Parser states.

use super::statement::statements;
use crate::ast::{AstExpr, CallDecl, CaseDecl, Name, Named, NextDecl, StateDecl};
use crate::source::decode::{Decoder, Fields};
use crate::source::node::{Key, Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};
use crate::syntax;

/// A parser state.
pub(crate) static STATE: MapShape = MapShape {
    name: "state",
    what: "a parser state",
    keys: &[
        key(
            "extract",
            Shape::OneOrMore(&Shape::Name),
            "Instances, stacks or elements of stacks (`h[0]`) to extract.",
        ),
        key("verify", Shape::MapOf(&Shape::Name), "Conditions, and the error when one is 0."),
        key("do", Shape::OneOrMore(&Shape::Statement), "Statements."),
        key(
            "extract_at",
            Shape::MapOf(&Shape::Expression),
            "Trailers, and the byte of the packet where each begins.",
        ),
        key("body_end", Shape::Expression, "The byte of the packet where the body ends."),
        key("call", Shape::Text, "A sub-parser: `name` or `library.name`."),
        key("bind", Shape::MapOf(&Shape::Name), "Its instances, and what stands for each."),
        key("select", Shape::OneOrMore(&Shape::Expression), "What decides the next state."),
        key(
            "cases",
            Shape::Either(&[Shape::MapOf(&Shape::Text), Shape::List(&Shape::Map(&CASE))]),
            "Patterns and the next state; the first that matches wins.",
        ),
        key("default", Shape::Text, "The next state when no case matches."),
        key("next", Shape::Text, "The next state; `accept` when nothing is written."),
    ],
};
/// `{ match: [0x8100, _], next: vlan }`.
pub(crate) static CASE: MapShape = MapShape {
    name: "case",
    what: "a case",
    keys: &[
        needed("match", Shape::OneOrMore(&Shape::Pattern), "A pattern for each value of `select`."),
        needed("next", Shape::Text, "The next state."),
    ],
};

/// The states of a parser.
pub(super) fn states(decoder: &mut Decoder<'_>, node: &Node) -> Named<StateDecl> {
    decoder.named(node, "a parser", state)
}

fn state(decoder: &mut Decoder<'_>, name: &Key, node: &Node) -> Option<StateDecl> {
    let fields = decoder.map(node, &STATE)?;
    let extract = fields
        .get("extract")
        .map(|node| decoder.each(node, "an instance", Decoder::header))
        .unwrap_or_default();
    let verify = fields.get("verify").map(|node| verify(decoder, node)).unwrap_or_default();
    let body = fields.get("do").map(|node| statements(decoder, node)).unwrap_or_default();
    let extract_at = fields
        .get("extract_at")
        .map(|node| decoder.named(node, "the trailers", |decoder, _, at| decoder.expression(at)))
        .unwrap_or_default();
    let body_end = fields.get("body_end").and_then(|node| decoder.expression(node));
    decoder.needs(&fields, "bind", "call");
    let call = fields.get("call").and_then(|node| call(decoder, node, fields.get("bind")));
    let next = next(decoder, &fields);
    Some(StateDecl {
        extract,
        statements: body,
        verify,
        extract_at,
        body_end,
        call,
        next: next?,
        span: name.span,
    })
}

fn verify(decoder: &mut Decoder<'_>, node: &Node) -> Vec<(AstExpr, Name)> {
    let mut found = Vec::new();
    for (key, error) in decoder.pairs(node, "`verify`").unwrap_or_default() {
        let condition = decoder.key(key, syntax::expression);
        let error = decoder.name(error);
        found.extend(condition.zip(error));
    }
    found
}

fn call(decoder: &mut Decoder<'_>, node: &Node, bind: Option<&Node>) -> Option<CallDecl> {
    let target = decoder.read(node, "a sub-parser", syntax::name_in_library);
    let bind = bind
        .map(|node| decoder.named(node, "`bind`", |decoder, _, node| decoder.name(node)))
        .unwrap_or_default();
    Some(CallDecl { target: target?, bind })
}

fn target(decoder: &mut Decoder<'_>, node: &Node) -> Option<Name> {
    decoder.read(node, "the name of a state", syntax::target)
}

fn next(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<NextDecl> {
    decoder.exclude(fields, "select", "next");
    for key in ["cases", "default"] {
        decoder.needs(fields, key, "select");
    }
    let Some(select) = fields.get("select") else {
        return match fields.get("next") {
            Some(node) => Some(NextDecl::To(Some(target(decoder, node)?))),
            None => Some(NextDecl::To(None)),
        };
    };
    let keys = decoder.each(select, "an expression", Decoder::expression);
    let cases = fields.get("cases").map(|node| cases(decoder, node)).unwrap_or_default();
    let default = match fields.get("default") {
        Some(node) => Some(target(decoder, node)?),
        None => None,
    };
    Some(NextDecl::Select { keys, cases, default })
}

fn cases(decoder: &mut Decoder<'_>, node: &Node) -> Vec<CaseDecl> {
    if let NodeKind::List(items) = &node.kind {
        return items.iter().filter_map(|item| case(decoder, item)).collect();
    }
    let mut found = Vec::new();
    for (key, to) in decoder.pairs(node, "the cases").unwrap_or_default() {
        let pattern = decoder.key(key, syntax::pattern);
        let to = target(decoder, to);
        if let (Some(pattern), Some(to)) = (pattern, to) {
            found.push(CaseDecl { patterns: vec![pattern], to, span: key.span });
        }
    }
    found
}

fn case(decoder: &mut Decoder<'_>, node: &Node) -> Option<CaseDecl> {
    let fields = decoder.map(node, &CASE)?;
    let patterns =
        fields.get("match").map(|node| decoder.each(node, "a pattern", Decoder::pattern));
    let to = fields.get("next").and_then(|node| target(decoder, node));
    Some(CaseDecl { patterns: patterns?, to: to?, span: fields.span })
}
