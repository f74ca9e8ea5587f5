//! Header types, instances, metadata, widths.

use crate::ast::{
    FieldDecl, HeaderDecl, InstanceDecl, MetaDecl, Size, Sp, TypeRef, ValueSetDecl, WordDecl,
};
use crate::diag::codes;
use crate::ir::ControllerHeader;
use crate::source::decode::Decoder;
use crate::source::node::{Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};
use crate::syntax;

/// A width: bits, or the name of a type.
pub(crate) const WIDTH: Shape = Shape::Either(&[Shape::Count, Shape::Name]);
/// A number or a constant.
pub(crate) const SIZE: Shape = Shape::Either(&[Shape::Count, Shape::Name]);

/// A header type.
pub(crate) static HEADER: MapShape = MapShape {
    name: "header",
    what: "a header",
    keys: &[
        needed(
            "fields",
            Shape::MapOf(&Shape::Either(&[
                WIDTH,
                Shape::OneOrMore(&Shape::Text),
                Shape::Map(&FIELD),
            ])),
            "Fields in order: a width, slices of words, an array, or a field of variable length.",
        ),
        key("bytes", Shape::Count, "Length in bytes, for fields that are slices."),
        key("word", Shape::Map(&WORD), "The words that slices refer to."),
        key(
            "controller",
            Shape::Choice(CONTROLLER),
            "Packets to the control plane, or from it, begin with this header: its fields are their metadata.",
        ),
    ],
};
const CONTROLLER: &[&str] = &["packet_in", "packet_out"];
/// `{ bits: 32, order: little }`.
pub(crate) static WORD: MapShape = MapShape {
    name: "word",
    what: "a `word`",
    keys: &[
        needed("bits", Shape::Count, "Bits of a word: 8, 16, 32 or 64."),
        needed("order", Shape::Choice(ORDERS), "Byte order inside of a word."),
    ],
};
const ORDERS: &[&str] = &["big", "little"];
/// A field that is an array or of variable length.
pub(crate) static FIELD: MapShape = MapShape {
    name: "field",
    what: "a field",
    keys: &[
        key("array", Shape::Count, "Number of elements."),
        key("bits", Shape::Count, "Bits of an element."),
        key("varbits", Shape::Count, "Longest length in bits."),
        key(
            "length",
            Shape::Expression,
            "Length in bits, over the fields of this header; without it `extract(h, bits)` says it.",
        ),
    ],
};
/// An instance that is a stack, or a type by another name.
pub(crate) static INSTANCE: MapShape = MapShape {
    name: "instance",
    what: "an instance",
    keys: &[
        needed("header", Shape::Name, "Header type."),
        key("stack", SIZE, "Number of elements."),
    ],
};
/// A metadata field.
pub(crate) static META: MapShape = MapShape {
    name: "meta",
    what: "a metadata field",
    keys: &[
        needed("bits", WIDTH, "Width."),
        key("carried", Shape::Flag, "It crosses the queue to egress."),
    ],
};
/// A value set.
pub(crate) static VALUE_SET: MapShape = MapShape {
    name: "value_set",
    what: "a value set",
    keys: &[
        needed("bits", WIDTH, "Width of a member."),
        needed("size", SIZE, "Most members."),
        key("values", Shape::OneOrMore(&Shape::Expression), "Members at the start."),
    ],
};

/// A number of bits or the name of a type.
pub(super) fn width(decoder: &mut Decoder<'_>, node: &Node) -> Option<TypeRef> {
    let text = decoder.scalar(node, "a width: bits, or the name of a type")?;
    if text.text.trim().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return decoder.count(node).map(TypeRef::Bits);
    }
    decoder.name(node).map(TypeRef::Named)
}

/// A number or the name of a constant.
pub(super) fn size(decoder: &mut Decoder<'_>, node: &Node) -> Option<Size> {
    let text = decoder.scalar(node, "a whole number, or the name of a constant")?;
    if text.text.trim().starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_') {
        return decoder.count(node).map(Size::Number);
    }
    decoder.name(node).map(Size::Const)
}

pub(super) fn header(decoder: &mut Decoder<'_>, node: &Node) -> Option<HeaderDecl> {
    let fields = decoder.map(node, &HEADER)?;
    let list = fields
        .get("fields")
        .map(|node| decoder.named(node, "the fields", |decoder, _, node| field(decoder, node)));
    let bytes = fields.get("bytes").and_then(|node| decoder.count(node));
    let word = fields.get("word").and_then(|node| word(decoder, node));
    let controller = fields.get("controller").and_then(|node| decoder.choice(node, CONTROLLER));
    let controller = controller.map(|choice| {
        let is_out = choice.value == ControllerHeader::PacketOut.name();
        let value = if is_out { ControllerHeader::PacketOut } else { ControllerHeader::PacketIn };
        Sp::new(value, choice.span)
    });
    Some(HeaderDecl { fields: list?, bytes, word, controller })
}

fn word(decoder: &mut Decoder<'_>, node: &Node) -> Option<WordDecl> {
    let fields = decoder.map(node, &WORD)?;
    let bits = fields.get("bits").and_then(|node| decoder.count(node));
    let order = fields.get("order").and_then(|node| decoder.choice(node, ORDERS));
    Some(WordDecl { bits: bits?, little: order?.value == "little" })
}

fn field(decoder: &mut Decoder<'_>, node: &Node) -> Option<FieldDecl> {
    match &node.kind {
        NodeKind::Scalar(scalar) if scalar.text.contains('[') => {
            let slice = decoder.read(node, "a slice", syntax::word_slice)?;
            Some(FieldDecl::Slices(vec![slice]))
        }
        NodeKind::List(_) => {
            let read = |decoder: &mut Decoder<'_>, node: &Node| {
                decoder.read(node, "a slice of a word", syntax::word_slice)
            };
            Some(FieldDecl::Slices(decoder.each(node, "a slice", read)))
        }
        NodeKind::Map(_) => long_field(decoder, node),
        _ => width(decoder, node).map(FieldDecl::Bits),
    }
}

/// `{ array: 64, bits: 8 }` or `{ varbits: 320, length: ".." }`.
fn long_field(decoder: &mut Decoder<'_>, node: &Node) -> Option<FieldDecl> {
    let fields = decoder.map(node, &FIELD)?;
    for (one, other) in [("array", "varbits"), ("array", "length"), ("bits", "varbits")] {
        decoder.exclude(&fields, one, other);
    }
    for (one, other) in [("array", "bits"), ("length", "varbits")] {
        decoder.needs(&fields, one, other);
    }
    let [count, bits, max_bits] = ["array", "bits", "varbits"]
        .map(|key| fields.get(key).and_then(|node| decoder.count(node)));
    let length = fields.get("length").and_then(|node| decoder.expression(node));
    match (count, bits, max_bits, length) {
        (Some(count), Some(bits), ..) => Some(FieldDecl::Array { count, bits }),
        (_, _, Some(max_bits), length) => Some(FieldDecl::Variable { max_bits, length }),
        _ => {
            if fields.get("array").is_none() && fields.get("varbits").is_none() {
                decoder
                    .diagnostics
                    .error(codes::MISSING_KEY, fields.span, "a field needs `array` or `varbits`")
                    .help("a plain field is only its width: `ttl: 8`");
            }
            None
        }
    }
}

pub(super) fn instance(decoder: &mut Decoder<'_>, node: &Node) -> Option<InstanceDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &INSTANCE)?;
        let header = fields.get("header").and_then(|node| decoder.name(node));
        let stack = fields.get("stack").and_then(|node| size(decoder, node));
        return Some(InstanceDecl { header: header?, stack });
    }
    Some(InstanceDecl { header: decoder.name(node)?, stack: None })
}

pub(super) fn meta(decoder: &mut Decoder<'_>, node: &Node) -> Option<MetaDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &META)?;
        let ty = fields.get("bits").and_then(|node| width(decoder, node));
        let carried = fields.get("carried").and_then(|node| decoder.flag(node));
        return Some(MetaDecl { ty: ty?, carried: carried.unwrap_or(false) });
    }
    Some(MetaDecl { ty: width(decoder, node)?, carried: false })
}

pub(super) fn value_set(decoder: &mut Decoder<'_>, node: &Node) -> Option<ValueSetDecl> {
    let fields = decoder.map(node, &VALUE_SET)?;
    let ty = fields.get("bits").and_then(|node| width(decoder, node));
    let size = fields.get("size").and_then(|node| size(decoder, node));
    let values = fields
        .get("values")
        .map(|node| decoder.each(node, "a value", Decoder::expression))
        .unwrap_or_default();
    Some(ValueSetDecl { ty: ty?, size: size?, values })
}
