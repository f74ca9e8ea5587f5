//! Header types, instances, metadata, widths.

use super::table::{key_name, matches};
use crate::ast::{
    FieldDecl, HeaderDecl, InstanceDecl, MemberDecl, MetaDecl, Name, SetKeyDecl, Size, Sp, TypeRef,
    ValueSetDecl, WordDecl,
};
use crate::diag::{codes, suggest};
use crate::ir::ControllerHeader;
use crate::source::decode::{Decoder, Fields};
use crate::source::node::{Key, Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};
use crate::syntax;
use wireyard_tables::MatchKind;

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
        key("bits", WIDTH, "Width of a member; or give `key`."),
        key("kind", Shape::Choice(&MatchKind::NAMES), "How a member matches; `exact` when absent."),
        key(
            "key",
            Shape::MapOf(&Shape::Either(&[Shape::Count, Shape::Name, Shape::Map(&SET_KEY)])),
            "Several keys: their widths, and how they match.",
        ),
        needed("size", SIZE, "Most members."),
        key("values", Shape::OneOrMore(&MEMBER), "Members at the start."),
    ],
};
/// `{ bits: 16, kind: range }`.
static SET_KEY: MapShape = MapShape {
    name: "set_key",
    what: "a key of a value set",
    keys: &[
        needed("bits", WIDTH, "Its width."),
        key("kind", Shape::Choice(&MatchKind::NAMES), "How it matches; `exact` when absent."),
    ],
};
/// A member of a value set: a pattern, or one for each key.
pub(crate) const MEMBER: Shape = Shape::Either(&[Shape::Pattern, Shape::MapOf(&Shape::Pattern)]);

/// A number of bits or the name of a type.
pub(super) fn width(decoder: &mut Decoder<'_>, node: &Node) -> Option<TypeRef> {
    const WHAT: &str = "a width: bits, or the name of a type";
    if node.kind == NodeKind::Null {
        let message = format!("expected {WHAT}, found nothing");
        let error = decoder.diagnostics.error(codes::WRONG_TYPE, node.span, message);
        error.help("write it behind the name: `name: 16`");
        return None;
    }
    let text = decoder.scalar(node, WHAT)?;
    let p4 = text.text.trim().strip_prefix("bit<").and_then(|rest| rest.strip_suffix('>'));
    if let Some(bits) = p4 {
        let message = "a width is written without `bit<..>`";
        let error = decoder.diagnostics.error(codes::BAD_NAME, node.span, message);
        error.fix("write the number of bits", node.span, bits.trim());
        return None;
    }
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
    if fields_without_key(decoder, node) {
        return None;
    }
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

/// Reports `{ a: 8, b: 16 }`: fields that stand where the keys of a header do.
fn fields_without_key(decoder: &mut Decoder<'_>, node: &Node) -> bool {
    let NodeKind::Map(map) = &node.kind else { return false };
    let Some((first, _)) = map.pairs.first() else { return false };
    let is_like_a_key =
        |name: &str| suggest(name, HEADER.keys.iter().map(|key| key.name)).is_some();
    if map.pairs.iter().any(|(key, _)| is_like_a_key(&key.scalar.text)) {
        return false;
    }
    let help = format!("as in `fields: {{ {}: .. }}`", syntax::shown(&first.scalar.text));
    decoder
        .diagnostics
        .error(codes::MISSING_KEY, first.span, "the fields of a header stand behind `fields`")
        .help(help);
    true
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
    decoder.exclude(&fields, "bits", "key");
    decoder.exclude(&fields, "kind", "key");
    let keys = match (fields.get("key"), fields.get("bits")) {
        (Some(keys), _) => {
            let pairs = decoder.pairs(keys, "the keys of a value set").unwrap_or_default();
            let one = |(name, node): &(Key, Node)| named_key(decoder, name, node);
            pairs.iter().filter_map(one).collect()
        }
        (None, Some(_)) => vec![set_key(decoder, &fields, None)?],
        (None, None) => {
            let text = "a value set needs `bits`, or `key` with its keys";
            return decoder.refuse(codes::MISSING_KEY, fields.span, text);
        }
    };
    let size = fields.get("size").and_then(|node| size(decoder, node));
    let values =
        fields.get("values").map(|node| decoder.each(node, "a value", member)).unwrap_or_default();
    Some(ValueSetDecl { keys, size: size?, values })
}

fn set_key(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    name: Option<Name>,
) -> Option<SetKeyDecl> {
    let ty = fields.get("bits").and_then(|node| width(decoder, node));
    let kind = fields.get("kind").and_then(|node| decoder.choice(node, &MatchKind::NAMES));
    Some(SetKeyDecl { name, ty: ty?, kind })
}

fn named_key(decoder: &mut Decoder<'_>, name: &Key, node: &Node) -> Option<SetKeyDecl> {
    let name = Some(key_name(name));
    if matches!(node.kind, NodeKind::Map(_)) {
        let fields = decoder.map(node, &SET_KEY)?;
        return set_key(decoder, &fields, name);
    }
    Some(SetKeyDecl { name, ty: width(decoder, node)?, kind: None })
}

/// A member of a value set, of a program or an entries file.
pub(crate) fn member(decoder: &mut Decoder<'_>, node: &Node) -> Option<MemberDecl> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return decoder.pattern(node).map(MemberDecl::One);
    }
    let matches = matches(decoder, node, "a member of a value set");
    Some(MemberDecl::Keys(Sp::new(matches, node.span)))
}
