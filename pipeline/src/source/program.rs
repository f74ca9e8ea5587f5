//! A program or library as a tree of nodes, to the syntax tree: one function for each declaration.

pub(crate) mod computed;
pub(crate) mod header;
pub(crate) mod mapping;
pub(crate) mod parser;
pub(crate) mod statement;
pub(crate) mod table;

use super::decode::{Decoder, Fields};
use super::node::Node;
use super::shape::{MapShape, Shape, key};
use crate::ast::{Name, Named, Sp, Unit};
use crate::diag::codes;
use computed::{CHECKSUM, CRC, DEPARSER, QOS};
use header::{HEADER, INSTANCE, META, SIZE, VALUE_SET, WIDTH};
use mapping::LINUX;
use parser::STATE;
use table::{ACTION, CONTROL, COUNTER, METER, REGISTER, TABLE};

const STATEMENTS: Shape = Shape::OneOrMore(&Shape::Statement);
const ON_PARSER_ERROR: &[&str] = &["ingress", "drop"];
/// Keys that only a program may have.
const PROGRAM_ONLY: &[&str] = &[
    "ingress",
    "egress",
    "deparser",
    "qos",
    "linux",
    "parser",
    "egress_parser",
    "on_parser_error",
    "ids",
];

/// A program, or a library.
pub(crate) static UNIT: MapShape = MapShape {
    name: "program",
    what: "a program",
    keys: &[
        key("pipeline", Shape::Name, "The name of the program."),
        key("library", Shape::Name, "The name of the library: that of its file."),
        key("doc", Shape::Text, "A text for people."),
        key("include", Shape::OneOrMore(&Shape::Name), "Libraries."),
        key("const", Shape::MapOf(&Shape::Expression), "Constants."),
        key("types", Shape::MapOf(&WIDTH), "Names for widths."),
        key("headers", Shape::MapOf(&Shape::Map(&HEADER)), "Header types."),
        key(
            "instances",
            Shape::MapOf(&Shape::Either(&[Shape::Name, Shape::Map(&INSTANCE)])),
            "Further instances of header types, and stacks.",
        ),
        key(
            "unions",
            Shape::MapOf(&Shape::OneOrMore(&Shape::Name)),
            "Instances of which one is valid at most.",
        ),
        key(
            "metadata",
            Shape::MapOf(&Shape::Either(&[WIDTH, Shape::Map(&META)])),
            "Fields of the program's own.",
        ),
        key(
            "value_sets",
            Shape::MapOf(&Shape::Map(&VALUE_SET)),
            "Sets that the parser selects on.",
        ),
        key("errors", Shape::OneOrMore(&Shape::Name), "Parser errors of the program's own."),
        key("parser", Shape::MapOf(&Shape::Map(&STATE)), "The parser; it begins in `start`."),
        key(
            "egress_parser",
            Shape::MapOf(&Shape::Map(&STATE)),
            "Parses every packet again when egress begins, in `start`.",
        ),
        key("parsers", Shape::MapOf(&Shape::MapOf(&Shape::Map(&STATE))), "Sub-parsers."),
        key(
            "on_parser_error",
            Shape::Choice(ON_PARSER_ERROR),
            "Run ingress with `std.parser_error` (default), or drop.",
        ),
        key("actions", Shape::MapOf(&Shape::Map(&ACTION)), "Actions."),
        key("tables", Shape::MapOf(&Shape::Map(&TABLE)), "Match-action tables."),
        key(
            "controls",
            Shape::MapOf(&Shape::Either(&[STATEMENTS, Shape::Map(&CONTROL)])),
            "Named blocks of statements, with parameters or without.",
        ),
        key("registers", Shape::MapOf(&Shape::Map(&REGISTER)), "Register arrays."),
        key(
            "counters",
            Shape::MapOf(&Shape::Either(&[SIZE, Shape::Map(&COUNTER)])),
            "Arrays of counters.",
        ),
        key(
            "meters",
            Shape::MapOf(&Shape::Either(&[SIZE, Shape::Map(&METER)])),
            "Arrays of meters.",
        ),
        key(
            "digests",
            Shape::MapOf(&Shape::MapOf(&Shape::Expression)),
            "Messages to the control plane.",
        ),
        key("ingress", STATEMENTS, "Runs for every packet that came in."),
        key("egress", STATEMENTS, "Runs for every packet that leaves its queue."),
        key("deparser", Shape::Map(&DEPARSER), "What leaves, in which order."),
        key("checksums", Shape::OneOrMore(&Shape::Map(&CHECKSUM)), "Ones'-complement checksums."),
        key("crcs", Shape::MapOf(&Shape::Map(&CRC)), "CRCs."),
        key("ids", Shape::MapOf(&Shape::Count), "Ids of objects for P4Runtime, by name."),
        key("qos", Shape::Map(&QOS), "Where DSCP and PCP are, for the maps of the device."),
        key(
            "linux",
            Shape::Map(&LINUX),
            "Tables for addresses, neighbours and routes of the system.",
        ),
    ],
};

/// A file: its declarations and what it includes.
pub(super) struct File {
    pub(super) unit: Unit,
    pub(super) include: Vec<Name>,
}

/// Reads a program, or a library when `library` is its expected name.
pub(super) fn file(decoder: &mut Decoder<'_>, node: &Node, library: Option<&str>) -> Option<File> {
    let fields = decoder.map(node, &UNIT)?;
    let name = heading(decoder, &fields, library);
    let include = fields
        .get("include")
        .map(|node| decoder.each(node, "a library", Decoder::name))
        .unwrap_or_default();
    let mut unit = Unit { name, is_library: library.is_some(), ..Unit::default() };
    if library.is_some() {
        for key in PROGRAM_ONLY.iter().filter_map(|key| fields.place(key)) {
            decoder
                .diagnostics
                .error(codes::NOT_IN_LIBRARY, key, "only a program may have this key")
                .note("a library has no `ingress` and `egress`, no deparser, no `qos`, no `linux`, no `ids` and no `parser`")
                .help("a parser that programs may call is one of `parsers`");
        }
    }
    types(decoder, &fields, &mut unit);
    parsers(decoder, &fields, &mut unit);
    code(decoder, &fields, &mut unit);
    state(decoder, &fields, &mut unit);
    computed(decoder, &fields, &mut unit);
    unit.ids = fields.get("ids").map(|node| ids(decoder, node)).unwrap_or_default();
    Some(File { unit, include })
}

/// `pipeline:` or `library:`.
fn heading(decoder: &mut Decoder<'_>, fields: &Fields<'_>, library: Option<&str>) -> Option<Name> {
    let (expected, other) = match library {
        Some(_) => ("library", "pipeline"),
        None => ("pipeline", "library"),
    };
    let Some(node) = fields.get(expected) else {
        let what = if library.is_some() { "a library" } else { "a program" };
        let place = fields.place(other).unwrap_or(fields.span);
        let message = format!("{what} begins with `{expected}: name`");
        let error = decoder.diagnostics.error(codes::MISSING_KEY, place, message);
        if fields.get(other).is_some() {
            error.here(format!(
                "this file is a {}",
                if library.is_some() { "program" } else { other }
            ));
        }
        return None;
    };
    decoder.exclude(fields, "pipeline", "library");
    let name = decoder.name(node)?;
    if let Some(library) = library.filter(|library| *library != name.value) {
        let message =
            format!("this library is included as `{library}` and calls itself `{}`", name.value);
        decoder.diagnostics.error(codes::BAD_NAME, name.span, message).fix(
            "use the name of the file",
            name.span,
            library,
        );
    }
    Some(name)
}

/// Reads the map of a key, if it is present.
fn under<'d, T>(
    decoder: &mut Decoder<'d>,
    fields: &Fields<'_>,
    key: &str,
    read: impl Fn(&mut Decoder<'d>, &Node) -> Option<T>,
) -> Named<T> {
    let Some(node) = fields.get(key) else { return Vec::new() };
    let what = format!("`{key}`");
    decoder.named(node, &what, |decoder, _, node| read(decoder, node))
}

/// `ids:`; a name may be that of an object of a table, `fib.profile`.
fn ids(decoder: &mut Decoder<'_>, node: &Node) -> Named<u64> {
    let mut found = Vec::new();
    for (key, value) in decoder.pairs(node, "`ids`").unwrap_or_default() {
        let text = key.text();
        let name = Sp::new(text.text.trim().to_owned(), text.whole);
        if let Some(id) = decoder.count(value) {
            found.push((name, id.value));
        }
    }
    found
}

fn types(decoder: &mut Decoder<'_>, fields: &Fields<'_>, unit: &mut Unit) {
    unit.doc = fields.get("doc").and_then(|node| decoder.word(node));
    unit.consts = under(decoder, fields, "const", Decoder::expression);
    unit.types = under(decoder, fields, "types", header::width);
    unit.headers = under(decoder, fields, "headers", header::header);
    unit.instances = under(decoder, fields, "instances", header::instance);
    unit.unions = under(decoder, fields, "unions", |decoder, node| {
        Some(decoder.each(node, "a header", Decoder::name))
    });
    unit.metadata = under(decoder, fields, "metadata", header::meta);
    unit.value_sets = under(decoder, fields, "value_sets", header::value_set);
}

fn parsers(decoder: &mut Decoder<'_>, fields: &Fields<'_>, unit: &mut Unit) {
    if let Some(node) = fields.get("errors") {
        unit.errors = decoder.each(node, "a name", Decoder::name);
    }
    if let Some(node) = fields.get("parser") {
        unit.parser = parser::states(decoder, node);
    }
    if let Some(node) = fields.get("egress_parser") {
        unit.egress_parser = parser::states(decoder, node);
    }
    unit.parsers =
        under(decoder, fields, "parsers", |decoder, node| Some(parser::states(decoder, node)));
    unit.on_parser_error =
        fields.get("on_parser_error").and_then(|node| decoder.choice(node, ON_PARSER_ERROR));
}

fn code(decoder: &mut Decoder<'_>, fields: &Fields<'_>, unit: &mut Unit) {
    unit.actions = under(decoder, fields, "actions", table::action);
    unit.tables = under(decoder, fields, "tables", table::table);
    unit.controls = under(decoder, fields, "controls", table::control);
    let mut control = |key: &str| {
        let node = fields.get(key)?;
        let place = fields.place(key).unwrap_or(node.span);
        Some(Sp::new(statement::statements(decoder, node), place))
    };
    unit.ingress = control("ingress");
    unit.egress = control("egress");
}

fn state(decoder: &mut Decoder<'_>, fields: &Fields<'_>, unit: &mut Unit) {
    unit.registers = under(decoder, fields, "registers", table::register);
    unit.counters = under(decoder, fields, "counters", table::counter);
    unit.meters = under(decoder, fields, "meters", table::meter);
    unit.digests = under(decoder, fields, "digests", |decoder, node| {
        Some(decoder.named(node, "a digest", |decoder, _, node| decoder.expression(node)))
    });
}

fn computed(decoder: &mut Decoder<'_>, fields: &Fields<'_>, unit: &mut Unit) {
    if let Some(node) = fields.get("checksums") {
        unit.checksums = decoder.each(node, "a checksum", computed::checksum);
    }
    unit.crcs = under(decoder, fields, "crcs", computed::crc);
    unit.qos = fields.get("qos").and_then(|node| computed::qos(decoder, node)).unwrap_or_default();
    unit.linux = fields.get("linux").map(|node| mapping::linux(decoder, node)).unwrap_or_default();
    unit.deparser = fields.get("deparser").and_then(|node| computed::deparser(decoder, node));
}
