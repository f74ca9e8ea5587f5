//! Actions and tables, registers, counters, meters.

use super::header::{SIZE, WIDTH, size, width};
use super::statement::statements;
use crate::ast::{
    ActionDecl, AstExpr, ControlDecl, ControlParam, CounterDecl, Direction, EntryDecl, KeyDecl,
    MeterDecl, MeterRates, Name, Named, PatternDecl, RegisterDecl, SelectorDecl, Size, Sp,
    TableDecl,
};
use crate::diag::codes;
use crate::source::decode::{Decoder, Fields};
use crate::source::entries::{COUNT, count};
use crate::source::node::{Key, Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};
use crate::syntax;

/// An action.
pub(crate) static ACTION: MapShape = MapShape {
    name: "action",
    what: "an action",
    keys: &[
        key("params", Shape::MapOf(&WIDTH), "Parameters: name and width."),
        key("do", Shape::OneOrMore(&Shape::Statement), "Statements."),
    ],
};
/// A control with parameters.
pub(crate) static CONTROL: MapShape = MapShape {
    name: "control",
    what: "a control",
    keys: &[
        key(
            "params",
            Shape::MapOf(&Shape::Either(&[WIDTH, Shape::Map(&CONTROL_PARAM)])),
            "Parameters: name and width.",
        ),
        needed("do", Shape::OneOrMore(&Shape::Statement), "Statements."),
    ],
};
/// A parameter that is copied in, out, or both.
pub(crate) static CONTROL_PARAM: MapShape = MapShape {
    name: "control_param",
    what: "a parameter of a control",
    keys: &[
        needed("bits", WIDTH, "Width."),
        key("direction", Shape::Choice(DIRECTIONS), "What a call copies; `in` when absent."),
    ],
};
const DIRECTIONS: &[&str] = &["in", "out", "inout"];
/// A table.
pub(crate) static TABLE: MapShape = MapShape {
    name: "table",
    what: "a table",
    keys: &[
        needed(
            "key",
            Shape::Either(&[
                Shape::MapOf(&Shape::Choice(KINDS)),
                Shape::List(&Shape::Map(&TABLE_KEY)),
            ]),
            "What is looked up, and how it matches.",
        ),
        needed("actions", Shape::OneOrMore(&Shape::Name), "Actions that entries may have."),
        key("default", Shape::Expression, "The action after a miss: a name or a call."),
        key("const_default", Shape::Flag, "The default never changes."),
        key("size", SIZE, "Most entries; 1024 when absent."),
        key("entries", Shape::List(&Shape::Map(&ENTRY)), "Entries of the program."),
        key("const_entries", Shape::Flag, "The entries never change."),
        key("counters", Shape::Flag, "Packets and bytes for each entry."),
        key("meter", Shape::Map(&METER_KIND), "A meter for each entry."),
        key("idle_timeout_ms", Shape::Count, "Entries without a hit for so long are idle."),
        key("on_idle", Shape::Choice(ON_IDLE), "What becomes of them: `notify` when absent."),
        key("selector", Shape::Map(&SELECTOR), "Members and groups, chosen by a hash."),
    ],
};
const KINDS: &[&str] = &["exact", "lpm", "ternary", "range", "optional", "selector"];
/// Only a notification, as in PSA, or the switch removes the entry.
const ON_IDLE: &[&str] = &["notify", "remove"];
/// `{ value: "hash(crc16, ipv4.src)", kind: exact, name: h }`.
pub(crate) static TABLE_KEY: MapShape = MapShape {
    name: "table_key",
    what: "a key of a table",
    keys: &[
        needed("value", Shape::Expression, "What is looked up."),
        needed("kind", Shape::Choice(KINDS), "How it matches."),
        key("name", Shape::Text, "Its name; the text of `value` when absent."),
    ],
};
/// A table entry.
pub(crate) static ENTRY: MapShape = MapShape {
    name: "entry",
    what: "an entry",
    keys: &[
        key(
            "match",
            Shape::MapOf(&Shape::Pattern),
            "Keys and patterns; what is left out matches, and exact keys cannot be.",
        ),
        needed("action", Shape::Expression, "The action: a name or a call."),
        key("priority", Shape::Count, "Of two entries that match, the higher wins."),
        key("idle_timeout_ms", Shape::Count, "Idle after so long without a hit."),
        key("idle_timeout_ns", Shape::Count, "The same, exact; in an entries file."),
        key("meter", Shape::Map(&RATES), "Rates of its meter; without them all hits are green."),
        key("counter", Shape::Map(&COUNT), "What it has counted; in an entries file."),
        key("const", Shape::Flag, "It never changes; in a program."),
    ],
};
/// Rates of a meter.
pub(crate) static RATES: MapShape = MapShape {
    name: "rates",
    what: "the rates of a meter",
    keys: &[
        needed("cir", Shape::Text, "Committed information rate: `1Gbit/s`."),
        needed("cbs", Shape::Text, "Committed burst size: `16KB`."),
        key("pir", Shape::Text, "Peak information rate, of a two-rate meter."),
        key("pbs", Shape::Text, "Peak burst size, of a two-rate meter."),
        key("ebs", Shape::Text, "Excess burst size, of a single-rate meter; 0 when absent."),
    ],
};
/// `{ hash: crc16, members: 256, groups: 64 }`.
pub(crate) static SELECTOR: MapShape = MapShape {
    name: "selector",
    what: "a selector",
    keys: &[
        needed("hash", Shape::Name, "Hash algorithm."),
        key("members", SIZE, "Most members."),
        key("groups", SIZE, "Most groups."),
        key("empty", Shape::Expression, "What an empty group does; the default when absent."),
    ],
};
/// A register array.
pub(crate) static REGISTER: MapShape = MapShape {
    name: "register",
    what: "a register",
    keys: &[
        key("bits", WIDTH, "Width of an entry."),
        key("struct", Shape::MapOf(&WIDTH), "Cells of an entry."),
        needed("size", SIZE, "Number of entries."),
    ],
};
/// An array of counters.
pub(crate) static COUNTER: MapShape = MapShape {
    name: "counter",
    what: "a counter",
    keys: &[needed("size", SIZE, "Number of counters.")],
};
const METER_TYPE: Shape = Shape::Choice(METER_TYPES);
const METER_TYPES: &[&str] = &["trtcm", "srtcm"];
const METER_UNIT: Shape = Shape::Choice(METER_UNITS);
const METER_UNITS: &[&str] = &["bytes", "packets"];
/// An array of meters.
pub(crate) static METER: MapShape = MapShape {
    name: "meter",
    what: "a meter",
    keys: &[
        needed("size", SIZE, "Number of meters."),
        key("type", METER_TYPE, "Two rates (RFC 2698, default), or one (RFC 2697)."),
        key("unit", METER_UNIT, "What is metered; bytes when absent."),
    ],
};
/// The meter of a table, one for each entry.
pub(crate) static METER_KIND: MapShape = MapShape {
    name: "table_meter",
    what: "the meter of a table",
    keys: &[
        key("type", METER_TYPE, "Two rates (RFC 2698, default), or one (RFC 2697)."),
        key("unit", METER_UNIT, "What is metered; bytes when absent."),
    ],
};

pub(super) fn action(decoder: &mut Decoder<'_>, node: &Node) -> Option<ActionDecl> {
    if let NodeKind::List(_) = node.kind {
        decoder
            .diagnostics
            .error(codes::WRONG_TYPE, node.span, "expected an action, which is a map, found a list")
            .help("the statements stand behind `do`: `{ do: [..] }`");
        return None;
    }
    let fields = decoder.map(node, &ACTION)?;
    let params = fields
        .get("params")
        .map(|node| decoder.named(node, "the parameters", |decoder, _, node| width(decoder, node)))
        .unwrap_or_default();
    let body = fields.get("do").map(|node| statements(decoder, node)).unwrap_or_default();
    Some(ActionDecl { params, body })
}

/// A list of statements, or a map with `do`; an `update` is a statement that has that key too.
pub(super) fn control(decoder: &mut Decoder<'_>, node: &Node) -> Option<ControlDecl> {
    let has = |wanted: &str| match &node.kind {
        NodeKind::Map(map) => map.pairs.iter().any(|(key, _)| key.scalar.text == wanted),
        _ => false,
    };
    if !(has("do") || has("params")) || has("update") {
        return Some(ControlDecl { params: Vec::new(), body: statements(decoder, node) });
    }
    let fields = decoder.map(node, &CONTROL)?;
    let params = fields
        .get("params")
        .map(|node| decoder.named(node, "the parameters", |decoder, _, node| param(decoder, node)))
        .unwrap_or_default();
    let body = fields.get("do").map(|node| statements(decoder, node)).unwrap_or_default();
    Some(ControlDecl { params, body })
}

fn param(decoder: &mut Decoder<'_>, node: &Node) -> Option<ControlParam> {
    let NodeKind::Map(_) = node.kind else {
        return Some(ControlParam { ty: width(decoder, node)?, direction: Direction::In });
    };
    let fields = decoder.map(node, &CONTROL_PARAM)?;
    let ty = fields.get("bits").and_then(|node| width(decoder, node));
    let word = fields.get("direction").and_then(|node| decoder.choice(node, DIRECTIONS));
    let known = word.and_then(|word| {
        Direction::ALL
            .iter()
            .find(|(known, _)| *known == word.value)
            .map(|(_, direction)| *direction)
    });
    Some(ControlParam { ty: ty?, direction: known.unwrap_or_default() })
}

pub(super) fn table(decoder: &mut Decoder<'_>, node: &Node) -> Option<TableDecl> {
    let fields = decoder.map(node, &TABLE)?;
    let key = fields.get("key").map(|node| keys(decoder, node));
    let actions = fields.get("actions").map(|node| decoder.each(node, "an action", Decoder::name));
    let default = fields.get("default").and_then(|node| decoder.expression(node));
    let list = fields.get("entries").map(|node| entries(decoder, node)).unwrap_or_default();
    let [const_default, const_entries, counters] = ["const_default", "const_entries", "counters"]
        .map(|key| fields.get(key).and_then(|node| flag(decoder, key, node)).unwrap_or(false));
    let size = fields.get("size").and_then(|node| size(decoder, node));
    let idle_timeout_ms = fields.get("idle_timeout_ms").and_then(|node| decoder.count(node));
    let meter = fields.get("meter").and_then(|node| {
        let fields = decoder.map(node, &METER_KIND)?;
        Some(meter_of(decoder, &fields, Size::new(1, node.span)))
    });
    let selector = fields.get("selector").and_then(|node| selector(decoder, node));
    decoder.needs(&fields, "on_idle", "idle_timeout_ms");
    let on_idle = fields.get("on_idle").and_then(|node| decoder.choice(node, ON_IDLE));
    let on_idle = on_idle.filter(|on_idle| on_idle.value == "remove");
    if on_idle.is_some() && const_entries {
        decoder.exclude(&fields, "const_entries", "on_idle");
    }
    Some(TableDecl {
        key: key?,
        actions: actions?,
        default,
        const_default,
        size,
        entries: list,
        const_entries,
        counters,
        meter,
        idle_timeout_ms,
        removes_idle: on_idle.is_some(),
        selector,
    })
}

/// A flag of a table. P4 writes constant entries behind a word of this name, so that a list there is probably meant.
fn flag(decoder: &mut Decoder<'_>, key: &str, node: &Node) -> Option<bool> {
    if key == "const_entries" && matches!(node.kind, NodeKind::List(_)) {
        decoder
            .diagnostics
            .error(
                codes::WRONG_TYPE,
                node.span,
                "`const_entries` is `true` or `false`, not the list of entries",
            )
            .help("write the list behind `entries`, and `const_entries: true` beside it");
        return None;
    }
    decoder.flag(node)
}

/// A map of expressions and kinds, or a list of maps.
fn keys(decoder: &mut Decoder<'_>, node: &Node) -> Vec<KeyDecl> {
    if let NodeKind::List(items) = &node.kind {
        return items.iter().filter_map(|item| long_key(decoder, item)).collect();
    }
    let mut found = Vec::new();
    for (key, kind) in decoder.pairs(node, "the key of a table").unwrap_or_default() {
        let value = decoder.key(key, syntax::expression);
        let kind = decoder.choice(kind, KINDS);
        if let (Some(value), Some(kind)) = (value, kind) {
            found.push(KeyDecl { value, name: Some(key_name(key)), kind });
        }
    }
    found
}

/// The text of a key as a name.
pub(super) fn key_name(key: &Key) -> Name {
    Sp::new(key.scalar.text.trim().to_owned(), key.span)
}

fn long_key(decoder: &mut Decoder<'_>, node: &Node) -> Option<KeyDecl> {
    let fields = decoder.map(node, &TABLE_KEY)?;
    let value = fields.get("value").and_then(|node| decoder.expression(node));
    let text = fields.get("value").and_then(|node| decoder.word(node));
    let kind = fields.get("kind").and_then(|node| decoder.choice(node, KINDS));
    let name = fields.get("name").and_then(|node| decoder.word(node));
    Some(KeyDecl { value: value?, name: name.or(text), kind: kind? })
}

/// The action of an entry; `{ fwd: 1 }` is what others write for `fwd(1)`.
fn entry_action(decoder: &mut Decoder<'_>, node: &Node) -> Option<AstExpr> {
    if let NodeKind::Map(map) = &node.kind
        && let [(name, value)] = map.pairs.as_slice()
        && let Some(value) = value.text()
    {
        let (name, value) = (syntax::shown(&name.scalar.text), syntax::shown(value.text));
        decoder
            .diagnostics
            .error(codes::WRONG_TYPE, node.span, "an action is a name or a call, not a map")
            .help(format!("write `{name}({value})`"));
        return None;
    }
    decoder.action(node)
}

/// Keys and patterns.
pub(super) fn matches(
    decoder: &mut Decoder<'_>,
    node: &Node,
    what: &str,
) -> Named<Sp<PatternDecl>> {
    if let Some(value) = node.text() {
        let message = format!("expected {what}, which is a map, found {}", node.what());
        let value = syntax::shown(value.text);
        let error = decoder.diagnostics.error(codes::WRONG_TYPE, node.span, message);
        error.help(format!("name the key that has this value: `{{ KEY: {value} }}`"));
        return Vec::new();
    }
    let pairs = decoder.pairs(node, what).unwrap_or_default();
    let one = |(key, pattern): &(Key, Node)| Some((key_name(key), decoder.pattern(pattern)?));
    pairs.iter().filter_map(one).collect()
}

/// A list of entries, of a table or of an entries file.
pub(crate) fn entries(decoder: &mut Decoder<'_>, node: &Node) -> Vec<EntryDecl> {
    let items = decoder.items(node, "entries").unwrap_or_default();
    items.iter().filter_map(|item| entry(decoder, item)).collect()
}

fn entry(decoder: &mut Decoder<'_>, node: &Node) -> Option<EntryDecl> {
    let fields = decoder.map(node, &ENTRY)?;
    let matches = fields.get("match").map(|node| matches(decoder, node, "`match`"));
    let matches = matches.unwrap_or_default();
    let action = fields.get("action").and_then(|node| entry_action(decoder, node));
    decoder.exclude(&fields, "idle_timeout_ms", "idle_timeout_ns");
    let [priority, idle_timeout_ms, idle_timeout_ns] =
        ["priority", "idle_timeout_ms", "idle_timeout_ns"]
            .map(|key| fields.get(key).and_then(|node| decoder.count(node)));
    let meter = fields.get("meter").and_then(|node| Some((rates(decoder, node)?, node.span)));
    let counter = fields.get("counter").and_then(|node| Some((count(decoder, node)?, node.span)));
    let is_const = fields.get("const").is_some_and(|node| decoder.flag(node).unwrap_or(false));
    let (action, span) = (action?, fields.span);
    Some(EntryDecl {
        matches,
        action,
        priority,
        idle_timeout_ms,
        idle_timeout_ns,
        meter,
        counter,
        is_const,
        span,
    })
}

/// Rates of a meter of an array, or of an entry.
pub(crate) fn rates(decoder: &mut Decoder<'_>, node: &Node) -> Option<MeterRates> {
    let fields = decoder.map(node, &RATES)?;
    let mut word = |key: &str| -> Option<Name> { decoder.word(fields.get(key)?) };
    let [cir, cbs, pir, pbs, ebs] = ["cir", "cbs", "pir", "pbs", "ebs"].map(&mut word);
    Some(MeterRates { cir: cir?, cbs: cbs?, pir, pbs, ebs })
}

fn selector(decoder: &mut Decoder<'_>, node: &Node) -> Option<SelectorDecl> {
    let fields = decoder.map(node, &SELECTOR)?;
    let hash = fields.get("hash").and_then(|node| decoder.name(node));
    let [members, groups] =
        ["members", "groups"].map(|key| fields.get(key).and_then(|node| size(decoder, node)));
    let empty = fields.get("empty").and_then(|node| decoder.expression(node));
    Some(SelectorDecl { hash: hash?, members, groups, empty })
}

pub(super) fn register(decoder: &mut Decoder<'_>, node: &Node) -> Option<RegisterDecl> {
    let fields = decoder.map(node, &REGISTER)?;
    decoder.exclude(&fields, "bits", "struct");
    let size = fields.get("size").and_then(|node| size(decoder, node));
    let cells = match (fields.get("struct"), fields.get("bits")) {
        (Some(node), _) => {
            decoder.named(node, "the cells", |decoder, _, node| width(decoder, node))
        }
        (None, Some(node)) => {
            let place = fields.place("bits").unwrap_or(node.span);
            vec![(Sp::new("value".to_owned(), place), width(decoder, node)?)]
        }
        (None, None) => {
            let text = "a register needs `bits`, or `struct` with its cells";
            return decoder.refuse(codes::MISSING_KEY, fields.span, text);
        }
    };
    Some(RegisterDecl { cells, size: size? })
}

pub(super) fn counter(decoder: &mut Decoder<'_>, node: &Node) -> Option<CounterDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &COUNTER)?;
        let size = fields.get("size").and_then(|node| size(decoder, node));
        return Some(CounterDecl { size: size? });
    }
    Some(CounterDecl { size: size(decoder, node)? })
}

pub(super) fn meter(decoder: &mut Decoder<'_>, node: &Node) -> Option<MeterDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &METER)?;
        let size = fields.get("size").and_then(|node| size(decoder, node))?;
        return Some(meter_of(decoder, &fields, size));
    }
    Some(MeterDecl { size: size(decoder, node)?, two_rates: true, packets: false })
}

fn meter_of(decoder: &mut Decoder<'_>, fields: &Fields<'_>, size: Size) -> MeterDecl {
    let kind = fields.get("type").and_then(|node| decoder.choice(node, METER_TYPES));
    let unit = fields.get("unit").and_then(|node| decoder.choice(node, METER_UNITS));
    MeterDecl {
        size,
        two_rates: kind.is_none_or(|kind| kind.value == "trtcm"),
        packets: unit.is_some_and(|unit| unit.value == "packets"),
    }
}
