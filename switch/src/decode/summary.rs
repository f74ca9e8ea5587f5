//! `summary.yaml`: the fields of a program that are printed in one line, and names of their values.

use std::collections::BTreeMap;

use wireyard_pipeline::decode::{Parsed, Value};
use wireyard_pipeline::diag::{Diagnostics, Files, codes};
use wireyard_pipeline::ids::{CrcId, FieldId, InstanceId};
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::source::decode::{Decoder, from_text};
use wireyard_pipeline::source::node::Node;
use wireyard_pipeline::source::shape::{MapShape, Shape, key, needed};
use wireyard_pipeline::trace::names;

static SUMMARY: MapShape = MapShape {
    name: "summary",
    what: "a summary",
    keys: &[
        key("addresses", Shape::List(&Shape::List(&Shape::Text)), "Pairs of fields, source first."),
        key("values", Shape::MapOf(&Shape::MapOf(&Shape::Text)), "Names of values, by field."),
        key("info", Shape::List(&Shape::Map(&INFO)), "Texts by header."),
        key("expect", Shape::List(&Shape::Map(&EXPECT)), "CRCs that a packet must have."),
    ],
};

static INFO: MapShape = MapShape {
    name: "info",
    what: "a text about a header",
    keys: &[
        needed("header", Shape::Text, "The header."),
        needed("text", Shape::Text, "The text, with fields in braces."),
        key("with", Shape::OneOrMore(&Shape::Text), "Only if these headers are there too."),
        key("unless", Shape::OneOrMore(&Shape::Text), "Only if none of these headers is there."),
        key("weak", Shape::Flag, "Only the last one, and only when there is no other text."),
    ],
};

static EXPECT: MapShape = MapShape {
    name: "expect",
    what: "an expected CRC",
    keys: &[
        needed("header", Shape::Text, "A header that such a packet has."),
        needed("crc", Shape::Text, "What the CRC is called."),
        key("one_of", Shape::List(&Shape::Text), "CRCs of the program, of which it must have one."),
        key("never", Shape::Text, "Why it cannot be checked."),
    ],
};

type Field = (InstanceId, FieldId);
/// Lowest value, highest value, name.
type Named = Vec<(u128, u128, String)>;

/// The printed fields of a program's packets.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub(super) addresses: Vec<(Field, Field)>,
    values: BTreeMap<(u32, u32), Named>,
    pub(super) info: Vec<Info>,
    pub(super) expected: Vec<Expected>,
}

/// A text about a header.
#[derive(Clone, Debug)]
pub(super) struct Info {
    pub(super) header: InstanceId,
    pub(super) with: Vec<InstanceId>,
    pub(super) unless: Vec<InstanceId>,
    pub(super) weak: bool,
    pub(super) text: Vec<Piece>,
}

/// Part of a text.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Field(Field, Format),
    Flag(Field, String),
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// By its name in the summary, or in the field's display form.
    Natural,
    Decimal,
    Hex,
}

/// A CRC that a packet must have.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) header: InstanceId,
    pub(super) crc: String,
    pub(super) one_of: Vec<String>,
    pub(super) never: Option<String>,
}

impl Summary {
    /// Reads a summary of a program. `None`: the errors are in `found`.
    pub fn read(
        text: &str,
        program: &Program,
        files: &mut Files,
        found: &mut Diagnostics,
    ) -> Option<Summary> {
        let node = from_text("summary.yaml", text, files, found)?;
        let mut reader = Reader { program, decoder: Decoder::new(files, found) };
        let fields = reader.decoder.map(&node, &SUMMARY)?;
        let mut summary = Summary::default();
        let items = |node: Option<&Node>, reader: &mut Reader<'_>, what: &str| -> Vec<Node> {
            node.and_then(|node| reader.decoder.items(node, what)).unwrap_or_default().to_vec()
        };
        for pair in items(fields.get("addresses"), &mut reader, "pairs") {
            summary.addresses.extend(reader.pair(&pair));
        }
        if let Some(node) = fields.get("values") {
            for (path, table) in reader.decoder.pairs(node, "names by field").unwrap_or_default() {
                let field = reader.field(path.scalar.text.as_str(), table);
                let named = reader.named(table);
                if let Some((instance, field)) = field {
                    summary.values.insert((instance.0, field.0), named);
                }
            }
        }
        for node in items(fields.get("info"), &mut reader, "texts") {
            summary.info.extend(reader.info(&node));
        }
        for node in items(fields.get("expect"), &mut reader, "CRCs") {
            summary.expected.extend(reader.expected(&node));
        }
        Some(summary)
    }

    /// The name of a value of a field.
    pub fn name(&self, field: (InstanceId, FieldId), value: u128) -> Option<&str> {
        let named = self.values.get(&(field.0.0, field.1.0))?;
        let hit = named.iter().find(|(low, high, _)| (*low..=*high).contains(&value));
        hit.map(|(_, _, name)| name.as_str())
    }

    /// A field as text; empty if its header is not valid.
    pub(super) fn show(&self, parsed: &Parsed<'_>, field: Field, format: Format) -> String {
        match parsed.value(field.0, field.1) {
            None => String::new(),
            Some(Value::Number { value, bits, display }) => match format {
                Format::Decimal => value.to_string(),
                Format::Hex => format!("{value:#x}"),
                Format::Natural => match self.name(field, value) {
                    Some(name) => name.to_owned(),
                    None => names::value(display, bits, value),
                },
            },
            Some(Value::List(values)) => {
                let values: Vec<String> = values.iter().map(u128::to_string).collect();
                values.join(" ")
            }
            Some(Value::Bytes(bytes)) => names::hex(bytes),
        }
    }
}

struct Reader<'a> {
    program: &'a Program,
    decoder: Decoder<'a>,
}

impl Reader<'_> {
    fn unknown<T>(&mut self, node: &Node, what: &str) -> Option<T> {
        let message = format!("the program has no {what}");
        self.decoder.refuse(codes::UNKNOWN, node.span, message)
    }

    fn instance(&mut self, name: &str, node: &Node) -> Option<InstanceId> {
        let found = self.program.instances.entries().find(|(_, known)| known.name == name);
        match found {
            Some((id, _)) => Some(id),
            None => self.unknown(node, &format!("header `{name}`")),
        }
    }

    fn field(&mut self, path: &str, node: &Node) -> Option<Field> {
        let Some((header, field)) = path.rsplit_once('.') else {
            return self.unknown(node, &format!("field `{path}`"));
        };
        let instance = self.instance(header, node)?;
        let fields = &self.program.headers[self.program.instances[instance].header].fields;
        match fields.entries().find(|(_, known)| known.name == field) {
            Some((id, _)) => Some((instance, id)),
            None => self.unknown(node, &format!("field `{path}`")),
        }
    }

    fn pair(&mut self, node: &Node) -> Option<(Field, Field)> {
        let items = self.decoder.items(node, "two fields")?;
        let [source, destination] = items else {
            return self.decoder.wrong(node, "two fields");
        };
        let source = self.decoder.word(source)?;
        let destination = self.decoder.word(destination)?;
        Some((self.field(&source.value, node)?, self.field(&destination.value, node)?))
    }

    fn named(&mut self, table: &Node) -> Named {
        let mut named = Vec::new();
        let pairs = self.decoder.pairs(table, "names of values").unwrap_or_default();
        for (key, node) in pairs {
            let range = key.scalar.text.as_str();
            let (low, high) = range.split_once("..").unwrap_or((range, range));
            let word = self.decoder.word(node);
            match (number(low), number(high), word) {
                (Some(low), Some(high), Some(word)) => named.push((low, high, word.value)),
                _ => {
                    let message = format!("`{range}` is not a value or a range");
                    self.decoder.diagnostics.error(codes::BAD_NUMBER, key.span, message);
                }
            }
        }
        named
    }

    fn info(&mut self, node: &Node) -> Option<Info> {
        let fields = self.decoder.map(node, &INFO)?;
        let header = self.decoder.word(fields.get("header")?)?;
        let text = self.decoder.word(fields.get("text")?)?;
        let with = self.instances(fields.get("with"))?;
        let unless = self.instances(fields.get("unless"))?;
        let weak = fields.get("weak").and_then(|node| self.decoder.flag(node)).unwrap_or(false);
        let header = self.instance(&header.value, node)?;
        Some(Info { header, with, unless, weak, text: self.pieces(&text.value, node)? })
    }

    /// The headers of a list of names.
    fn instances(&mut self, names: Option<&Node>) -> Option<Vec<InstanceId>> {
        let names =
            names.map_or_else(Vec::new, |node| self.decoder.one_or_more(node, "headers").to_vec());
        names
            .iter()
            .map(|node| {
                let name = self.decoder.word(node)?;
                self.instance(&name.value, node)
            })
            .collect()
    }

    /// `text {field} text {field:x}{field? text}`.
    fn pieces(&mut self, text: &str, node: &Node) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((inside, after)) = after.split_once('}') else {
                return self.decoder.wrong(node, "a text whose braces are closed");
            };
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(if let Some((path, shown)) = inside.split_once('?') {
                Piece::Flag(self.field(path, node)?, shown.to_owned())
            } else if let Some(path) = inside.strip_suffix(":d") {
                Piece::Field(self.field(path, node)?, Format::Decimal)
            } else if let Some(path) = inside.strip_suffix(":x") {
                Piece::Field(self.field(path, node)?, Format::Hex)
            } else {
                Piece::Field(self.field(inside, node)?, Format::Natural)
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Some(pieces)
    }

    fn expected(&mut self, node: &Node) -> Option<Expected> {
        let fields = self.decoder.map(node, &EXPECT)?;
        let header = self.decoder.word(fields.get("header")?)?;
        let header = self.instance(&header.value, node)?;
        let crc = self.decoder.word(fields.get("crc")?)?.value;
        let never = fields.get("never").and_then(|node| self.decoder.word(node));
        let mut one_of = Vec::new();
        if let Some(list) = fields.get("one_of") {
            for item in self.decoder.items(list, "CRCs").unwrap_or_default() {
                let name = self.decoder.word(item)?.value;
                if !self.program.crcs.entries().any(|(_, crc): (CrcId, _)| crc.name == name) {
                    return self.unknown(item, &format!("CRC `{name}`"));
                }
                one_of.push(name);
            }
        }
        Some(Expected { header, crc, one_of, never: never.map(|word| word.value) })
    }
}

fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
