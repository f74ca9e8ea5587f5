//! `NAME.yaml` of a rate control to declarations: its keys and their forms.

use std::collections::BTreeSet;

use serde_json::Value;
use wireyard_pipeline::ast::{AstExpr, Name, Named, StmtKind};
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::schema;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::shape::{MapShape, Shape, key, needed};
use wireyard_pipeline::syntax;
use wireyard_tables::time::Span;

use super::parameter::{self, Unit};
use super::requires;
use crate::units::Interval;
use Shape::{Choice, Count, Either, Expression, Flag, Map, MapOf, OneOrMore, Real, Text};

const STATEMENTS: Shape = OneOrMore(&Shape::Statement);
const VALUE: Shape = Either(&[Real, Text]);

/// How the marks of the receiver's data are returned.
pub(super) const MARKS: &[&str] = &["cnp", "ack", "none"];

/// Telemetry that can be returned.
const TELEMETRY: &[&str] = &["none", "hpcc"];

/// A rate control.
pub static RATE_CONTROL: MapShape = MapShape {
    name: "rate_control",
    what: "a rate control",
    keys: &[
        needed("rate_control", Shape::Name, "Its name."),
        key("doc", Text, "What it is and where it is from."),
        key("notification", Map(&NOTIFICATION), "What it asks of the receiver."),
        key("parameters", MapOf(&Map(&PARAMETER)), "Its parameters."),
        key("requires", OneOrMore(&Expression), "Conditions that parameters fulfil, on each link."),
        key(
            "state",
            MapOf(&Either(&[Count, Map(&STATE)])),
            "What it keeps for each queue pair: bits, or more.",
        ),
        needed("on", Map(&EVENTS), "Statements by what happens."),
        key("timers", MapOf(&STATEMENTS), "Timers, and what happens when one ends."),
        key("bytes", MapOf(&STATEMENTS), "Byte counters of what leaves, likewise."),
        key("controls", MapOf(&STATEMENTS), "Blocks for `call`."),
        key("shows", Map(&SHOWS), "State that plots show."),
    ],
};

static NOTIFICATION: MapShape = MapShape {
    name: "rate_control_notification",
    what: "`notification`",
    keys: &[
        key("marks", Choice(MARKS), "Marks come back as CNPs (the usual), in the ACK, or not."),
        key("cnp_interval", Text, "Least time between two CNPs; 50 us."),
        key("ack_every", Count, "Packets for each acknowledgement; 1 with `on: ack`, else 64."),
        key(
            "telemetry",
            Choice(TELEMETRY),
            "What switches write into data and acknowledgements bring back; none.",
        ),
    ],
};

pub(super) static PARAMETER: MapShape = MapShape {
    name: "rate_control_parameter",
    what: "a parameter",
    keys: &[
        needed("unit", Choice(Unit::NAMES), "What it is counted in."),
        needed("default", VALUE, "A quantity with its unit, or an expression."),
        key("min", VALUE, "The least that it can be."),
        key("max", VALUE, "The most that it can be."),
        key("fraction", Count, "Bits of fraction of a number."),
        key("doc", Text, "What it is."),
    ],
};

static STATE: MapShape = MapShape {
    name: "rate_control_state",
    what: "a state",
    keys: &[
        needed("bits", Count, "Its width, 1 to 64."),
        key("signed", Flag, "It can be below zero."),
        key("fraction", Count, "Bits of fraction, of these."),
        key("start", VALUE, "What it is at first; 0."),
        key("per_hop", Flag, "There is one for each hop of telemetry; known in `each_hop`."),
    ],
};

static EVENTS: MapShape = MapShape {
    name: "rate_control_events",
    what: "`on`",
    keys: &[
        key("start", STATEMENTS, "A queue pair begins."),
        key("cnp", STATEMENTS, "A CNP came."),
        key("ack", STATEMENTS, "Packets were acknowledged."),
        key("nack", STATEMENTS, "A sequence error: packets go again."),
        key("trim", STATEMENTS, "A packet was trimmed and goes again; as `nack` when absent."),
        key("timeout", STATEMENTS, "No acknowledgement came in time."),
    ],
};

static SHOWS: MapShape = MapShape {
    name: "rate_control_shows",
    what: "`shows`",
    keys: &[
        key("target", Shape::Name, "A rate beside the sending rate."),
        key("estimate", Shape::Name, "An estimate of congestion."),
        key("unit", Choice(Unit::NAMES), "What the estimate is counted in; number."),
    ],
};

static IF: MapShape = MapShape {
    name: "rate_control_if",
    what: "an `if`",
    keys: &[
        needed("if", Expression, "The condition."),
        needed("then", STATEMENTS, "Statements when it holds."),
        key("else", STATEMENTS, "Statements when it does not."),
    ],
};

static CALL: MapShape = MapShape {
    name: "rate_control_call",
    what: "a `call`",
    keys: &[needed("call", Shape::Name, "The block of `controls` to run.")],
};

static EACH_HOP: MapShape = MapShape {
    name: "rate_control_each_hop",
    what: "an `each_hop`",
    keys: &[needed("each_hop", STATEMENTS, "Statements for each hop, the newest first.")],
};

/// The JSON Schema of a rate control: the statements of pipelines, and `each_hop`.
pub fn schema() -> Value {
    let mut schema = schema::root(&RATE_CONTROL, "Wireyard rate control");
    let mut each_hop = schema::root(&EACH_HOP, "");
    if let (Some(forms), Value::Object(each_hop)) =
        (schema["$defs"]["statement"]["anyOf"].as_array_mut(), &mut each_hop)
    {
        // Definitions are those of the whole schema.
        each_hop.retain(|key, _| !key.starts_with('$') && key != "title");
        forms.push(Value::Object(std::mem::take(each_hop)));
    }
    schema
}

/// Statements in order.
pub(super) type Block = Vec<Statement>;

/// A statement.
#[derive(Debug)]
pub(super) enum Statement {
    If { condition: AstExpr, then: Block, or: Block },
    Call(Name),
    EachHop(Block, SourceSpan),
    Plain(StmtKind, SourceSpan),
}

/// A state as it is declared.
#[derive(Debug)]
pub(super) struct State {
    pub(super) bits: u8,
    pub(super) signed: bool,
    pub(super) fraction: u8,
    pub(super) start: Option<AstExpr>,
    pub(super) per_hop: bool,
}

/// A rate control as it is declared.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) name: Name,
    pub(super) on_span: SourceSpan,
    pub(super) marks: Option<String>,
    pub(super) cnp_interval: Option<Span>,
    pub(super) ack_every: Option<u32>,
    pub(super) telemetry: bool,
    pub(super) parameters: Named<parameter::Declared>,
    /// Names of parameters and state whose declaration has an error.
    pub(super) broken: BTreeSet<String>,
    pub(super) requires: Vec<requires::Declared>,
    pub(super) state: Named<State>,
    /// `start`, `cnp`, `ack`, `nack`, `trim`, `timeout`.
    pub(super) events: [Option<Block>; 6],
    pub(super) timers: Named<Block>,
    pub(super) counters: Named<Block>,
    pub(super) controls: Named<Block>,
    pub(super) target: Option<Name>,
    pub(super) estimate: Option<Name>,
    pub(super) estimate_unit: Unit,
}

/// Reads a file.
pub(super) fn file(decoder: &mut Decoder<'_>, node: &Node) -> Option<Declared> {
    let fields = decoder.map(node, &RATE_CONTROL)?;
    let name = fields.get("rate_control").and_then(|node| decoder.name(node));
    let mut broken = BTreeSet::new();
    let parameters = named(decoder, (&fields, "parameters"), &mut broken, parameter::declared);
    let requires = fields.get("requires");
    let requires = requires.map(|node| decoder.each(node, "a condition", requires::declared));
    let state = named(decoder, (&fields, "state"), &mut broken, state);
    let mut blocks = |decoder: &mut Decoder<'_>, key: &'static str| {
        let block = |decoder: &mut Decoder<'_>, node: &Node| Some(statements(decoder, node));
        named(decoder, (&fields, key), &mut broken, block)
    };
    let (timers, counters) = (blocks(decoder, "timers"), blocks(decoder, "bytes"));
    let controls = blocks(decoder, "controls");
    let on = fields.get("on");
    let events = on.and_then(|node| decoder.map(node, &EVENTS));
    let of_cnps = events.as_ref().and_then(|of| of.place("cnp"));
    let events = events.map(|of| {
        ["start", "cnp", "ack", "nack", "trim", "timeout"]
            .map(|name| of.get(name).map(|node| statements(decoder, node)))
    });
    let (mut marks, mut cnp_interval, mut ack_every, mut telemetry) = (None, None, None, None);
    if let Some(of) = fields.get("notification").and_then(|node| decoder.map(node, &NOTIFICATION)) {
        marks = of.get("marks").and_then(|node| decoder.choice(node, MARKS)).map(|name| name.value);
        cnp_interval = of.get("cnp_interval").and_then(|node| interval(decoder, node));
        if let (Some(span), Some(marks @ ("ack" | "none"))) =
            (of.place("cnp_interval"), marks.as_deref())
        {
            let message = format!("with `marks: {marks}` no CNP comes: this time means nothing");
            let error = decoder.diagnostics.error(codes::RATE_CONTROL, span, message);
            error.help("leave it out, or write `marks: cnp`");
        }
        ack_every = of.get("ack_every").and_then(|node| bounded(decoder, node, (1, 1 << 20)));
        telemetry = of.get("telemetry").and_then(|node| decoder.choice(node, TELEMETRY));
    }
    if let (Some(span), Some(marks @ ("ack" | "none"))) = (of_cnps, marks.as_deref()) {
        let message = format!("with `marks: {marks}` no CNP comes: these statements never run");
        let error = decoder.diagnostics.error(codes::RATE_CONTROL, span, message);
        error.help("leave them out, or write `marks: cnp`");
    }
    let shows = fields.get("shows").and_then(|node| decoder.map(node, &SHOWS));
    let mut shown = |key: &str| {
        let node = shows.as_ref()?.get(key)?;
        decoder.name(node)
    };
    let (target, estimate) = (shown("target"), shown("estimate"));
    let unit = shows.as_ref().and_then(|of| of.get("unit"));
    let unit = unit.and_then(|node| decoder.choice(node, Unit::NAMES));
    let unit = Unit::ALL.into_iter().find(|of| unit.as_ref().is_some_and(|u| u.value == of.name()));
    Some(Declared {
        name: name?,
        on_span: fields.place("on").unwrap_or(fields.span),
        marks,
        cnp_interval,
        ack_every,
        telemetry: telemetry.is_some_and(|name| name.value == "hpcc"),
        parameters,
        broken,
        requires: requires.unwrap_or_default(),
        state,
        events: events?,
        timers,
        counters,
        controls,
        target,
        estimate,
        estimate_unit: unit.unwrap_or(Unit::Number),
    })
}

/// A map from names to anything; names of what has an error are added to `broken`.
fn named<T>(
    decoder: &mut Decoder<'_>,
    (fields, name): (&Fields<'_>, &str),
    broken: &mut BTreeSet<String>,
    mut read: impl FnMut(&mut Decoder<'_>, &Node) -> Option<T>,
) -> Named<T> {
    let Some(node) = fields.get(name) else { return Vec::new() };
    decoder.named(node, &format!("`{name}`"), |decoder, key, node| {
        let found = read(decoder, node);
        if found.is_none() {
            broken.insert(key.scalar.text.clone());
        }
        found
    })
}

fn interval(decoder: &mut Decoder<'_>, node: &Node) -> Option<Span> {
    let text = decoder.scalar(node, "a time")?.text;
    match text.parse::<Interval>() {
        Ok(found) => Some(found.span()),
        Err(error) => decoder.refuse(codes::BAD_NUMBER, node.span, error.to_string()),
    }
}

/// A count within bounds.
pub(super) fn bounded(decoder: &mut Decoder<'_>, node: &Node, range: (u64, u64)) -> Option<u32> {
    let found = decoder.count(node)?;
    if found.value < range.0 || found.value > range.1 {
        let message = format!("{}: expected {} to {}", found.value, range.0, range.1);
        return decoder.refuse(codes::BAD_WIDTH, node.span, message);
    }
    Some(found.value as u32)
}

fn state(decoder: &mut Decoder<'_>, node: &Node) -> Option<State> {
    if matches!(node.kind, NodeKind::Scalar(_)) {
        let bits = bounded(decoder, node, (1, 64))? as u8;
        return Some(State { bits, signed: false, fraction: 0, start: None, per_hop: false });
    }
    let fields = decoder.map(node, &STATE)?;
    let bits = bounded(decoder, fields.get("bits")?, (1, 64))? as u8;
    let most = u64::from(bits.min(super::expr::FRACTION_MAX));
    let fraction = match fields.get("fraction") {
        Some(node) => bounded(decoder, node, (0, most))? as u8,
        None => 0,
    };
    let mut flag = |key: &str| match fields.get(key) {
        Some(node) => decoder.flag(node),
        None => Some(false),
    };
    let (signed, per_hop) = (flag("signed")?, flag("per_hop")?);
    let start = match fields.get("start") {
        Some(node) => Some(decoder.expression(node)?),
        None => None,
    };
    Some(State { bits, signed, fraction, start, per_hop })
}

fn statements(decoder: &mut Decoder<'_>, node: &Node) -> Block {
    decoder.each(node, "a statement", statement)
}

fn statement(decoder: &mut Decoder<'_>, node: &Node) -> Option<Statement> {
    let map = match &node.kind {
        NodeKind::Scalar(_) => {
            let kind = decoder.read(node, "a statement", syntax::statement)?;
            return Some(Statement::Plain(kind, node.span));
        }
        NodeKind::Map(map) => map,
        _ => return decoder.wrong(node, "a statement"),
    };
    let has = |name: &str| map.pairs.iter().any(|(key, _)| key.scalar.text == name);
    if has("if") {
        let fields = decoder.map(node, &IF)?;
        let condition = fields.get("if").and_then(|node| decoder.expression(node));
        let mut under =
            |key: &str| fields.get(key).map(|node| statements(decoder, node)).unwrap_or_default();
        let (then, or) = (under("then"), under("else"));
        return Some(Statement::If { condition: condition?, then, or });
    }
    if has("call") {
        let fields = decoder.map(node, &CALL)?;
        return decoder.name(fields.get("call")?).map(Statement::Call);
    }
    if has("each_hop") {
        let fields = decoder.map(node, &EACH_HOP)?;
        let block = statements(decoder, fields.get("each_hop")?);
        return Some(Statement::EachHop(block, fields.place("each_hop").unwrap_or(node.span)));
    }
    if !decoder.torn(node) {
        let span = map.pairs.first().map_or(node.span, |(key, _)| key.span);
        let message = "a statement that is a map has the key `if`, `call` or `each_hop`";
        decoder.diagnostics.error(codes::UNKNOWN_STATEMENT, span, message);
    }
    None
}
