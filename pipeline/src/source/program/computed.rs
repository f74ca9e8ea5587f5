//! Checksums, CRCs, the deparser, the fields of DSCP and PCP.

use crate::ast::{
    AfterDecl, AstExpr, ChecksumDecl, CoveredDecl, CrcDecl, DeparserDecl, Name, QosDecl, Sp,
};
use crate::source::decode::{Decoder, Fields};
use crate::source::node::{Node, NodeKind};
use crate::source::shape::{MapShape, Shape, key, needed};

const VERIFY: &[&str] = &["off", "count", "drop"];
const CHECKSUM_UPDATE: &[&str] = &["incremental", "always", "never"];
const CRC_UPDATE: &[&str] = &["never", "on_request", "always"];
const SLACK: &[&str] = &["keep", "strip"];
const EXPRESSIONS: Shape = Shape::OneOrMore(&Shape::Expression);

/// A ones'-complement checksum.
pub(crate) static CHECKSUM: MapShape = MapShape {
    name: "checksum",
    what: "a checksum",
    keys: &[
        needed("field", Shape::Expression, "The field that holds it."),
        needed("over", Shape::OneOrMore(&COVERED), "What it covers, in order."),
        key("when", Shape::Expression, "Only when this is 1."),
        key("zero_means_none", Shape::Flag, "0 on the wire means that there is none."),
        key("verify", Shape::Choice(VERIFY), "What happens to a wrong one; `count` when absent."),
        key("update", Shape::Choice(CHECKSUM_UPDATE), "`incremental` when absent."),
    ],
};
/// A CRC.
pub(crate) static CRC: MapShape = MapShape {
    name: "crc",
    what: "a CRC",
    keys: &[
        key(
            "field",
            Shape::Expression,
            "The field that holds it; the header of its name when absent.",
        ),
        needed("params", Shape::Map(&CRC_PARAMS), "The algorithm."),
        needed("over", Shape::OneOrMore(&COVERED), "What it covers, in order."),
        key("when", Shape::Expression, "Only when this is 1."),
        key("verify", Shape::Choice(VERIFY), "What happens to a wrong one; `off` when absent."),
        key("update", Shape::Choice(CRC_UPDATE), "`never` when absent."),
    ],
};
/// Parameters of a CRC.
pub(crate) static CRC_PARAMS: MapShape = MapShape {
    name: "crc_params",
    what: "the parameters of a CRC",
    keys: &[
        needed("width", Shape::Count, "Bits of the remainder."),
        needed("poly", Shape::Count, "Polynomial without its highest bit."),
        key("init", Shape::Count, "Remainder at the start; 0 when absent."),
        key("reflect", Shape::Flag, "Lowest bit of a byte first."),
        key("xor_out", Shape::Count, "Applied at the end; 0 when absent."),
        key("store", Shape::Choice(&["big", "little"]), "Byte order on the wire."),
    ],
};
/// A part of the input of a checksum or CRC: a name, or a map.
pub(crate) const COVERED: Shape = Shape::Either(&[
    Shape::Name,
    Shape::Map(&ONES),
    Shape::Map(&VALUE),
    Shape::Map(&FIELDS),
    Shape::MapOf(&Shape::Map(&MASKED)),
]);
/// `{ ones: 8 }`.
pub(crate) static ONES: MapShape = MapShape {
    name: "covered_ones",
    what: "covered ones",
    keys: &[needed("ones", Shape::Count, "So many bytes of ones.")],
};
/// `{ value: ".." }`.
pub(crate) static VALUE: MapShape = MapShape {
    name: "covered_value",
    what: "a covered value",
    keys: &[needed("value", Shape::Expression, "A computed value.")],
};
/// `{ fields: [..] }`.
pub(crate) static FIELDS: MapShape = MapShape {
    name: "covered_fields",
    what: "covered fields",
    keys: &[needed("fields", EXPRESSIONS, "Fields, one by one.")],
};
/// `{ ipv4: { mask: [..] } }`.
pub(crate) static MASKED: MapShape = MapShape {
    name: "masked",
    what: "a masked header",
    keys: &[needed("mask", Shape::OneOrMore(&Shape::Name), "Fields that count as ones.")],
};
/// The deparser.
pub(crate) static DEPARSER: MapShape = MapShape {
    name: "deparser",
    what: "the deparser",
    keys: &[
        key(
            "emit",
            Shape::OneOrMore(&Shape::Name),
            "Headers, stacks and elements of stacks (`h[0]`) in order.",
        ),
        key(
            "after",
            Shape::OneOrMore(&Shape::Either(&[Shape::Name, Shape::Map(&PAD)])),
            "Trailers and pads behind the body.",
        ),
        key("discard", Shape::OneOrMore(&Shape::Name), "Headers that are meant not to leave."),
        key("slack", Shape::Choice(SLACK), "What is behind the last trailer; `keep` when absent."),
    ],
};
/// `{ pad: "bytes", fill: 0, when: .. }`.
pub(crate) static PAD: MapShape = MapShape {
    name: "pad",
    what: "a pad",
    keys: &[
        needed("pad", Shape::Expression, "Number of bytes."),
        key("fill", Shape::Count, "The byte; 0 when absent."),
        key("when", Shape::Expression, "Only when this is 1."),
        key("name", Shape::Name, "Its name; `pad` when absent."),
    ],
};
/// The fields of DSCP and PCP.
pub(crate) static QOS: MapShape = MapShape {
    name: "qos",
    what: "`qos`",
    keys: &[
        key("dscp", EXPRESSIONS, "Fields with a DSCP; the first valid header wins."),
        key("pcp", EXPRESSIONS, "Fields with a PCP; the first valid header wins."),
    ],
};

pub(super) fn checksum(decoder: &mut Decoder<'_>, node: &Node) -> Option<ChecksumDecl> {
    let fields = decoder.map(node, &CHECKSUM)?;
    let field = fields.get("field").and_then(|node| decoder.expression(node));
    let over = fields.get("over").map(|node| covered(decoder, node));
    let when = fields.get("when").and_then(|node| decoder.expression(node));
    let zero = fields.get("zero_means_none").and_then(|node| decoder.flag(node));
    let verify = word(decoder, &fields, "verify", VERIFY);
    let update = word(decoder, &fields, "update", CHECKSUM_UPDATE);
    let zero_means_none = zero.unwrap_or(false);
    let span = fields.span;
    Some(ChecksumDecl { field: field?, over: over?, when, zero_means_none, verify, update, span })
}

pub(super) fn crc(decoder: &mut Decoder<'_>, node: &Node) -> Option<CrcDecl> {
    let fields = decoder.map(node, &CRC)?;
    let field = fields.get("field").and_then(|node| decoder.expression(node));
    let params = fields.get("params").map(|node| params(decoder, node));
    let over = fields.get("over").map(|node| covered(decoder, node));
    let when = fields.get("when").and_then(|node| decoder.expression(node));
    let verify = word(decoder, &fields, "verify", VERIFY);
    let update = word(decoder, &fields, "update", CRC_UPDATE);
    let span = fields.span;
    Some(CrcDecl { field, params: params?, over: over?, when, verify, update, span })
}

fn word(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    key: &str,
    choices: &[&str],
) -> Option<Name> {
    fields.get(key).and_then(|node| decoder.choice(node, choices))
}

/// Names and texts; the checker reads the numbers, which have up to 128 bits.
fn params(decoder: &mut Decoder<'_>, node: &Node) -> Vec<(Name, Name)> {
    let Some(fields) = decoder.map(node, &CRC_PARAMS) else { return Vec::new() };
    let mut found = Vec::new();
    for key in CRC_PARAMS.keys {
        let (Some(place), Some(node)) = (fields.place(key.name), fields.get(key.name)) else {
            continue;
        };
        found.extend(decoder.word(node).map(|word| (Sp::new(key.name.to_owned(), place), word)));
    }
    found
}

fn covered(decoder: &mut Decoder<'_>, node: &Node) -> Vec<CoveredDecl> {
    let mut found = Vec::new();
    for item in decoder.one_or_more(node, "what is covered") {
        match &item.kind {
            NodeKind::Map(map) => {
                let keys: Vec<&str> =
                    map.pairs.iter().map(|(key, _)| key.scalar.text.as_str()).collect();
                match keys.as_slice() {
                    keys if keys.contains(&"ones") => {
                        let fields = decoder.map(item, &ONES);
                        let ones = fields.and_then(|fields| decoder.count(fields.get("ones")?));
                        found.extend(ones.map(CoveredDecl::Ones));
                    }
                    keys if keys.contains(&"value") => {
                        let fields = decoder.map(item, &VALUE);
                        let value =
                            fields.and_then(|fields| decoder.expression(fields.get("value")?));
                        found.extend(value.map(CoveredDecl::Value));
                    }
                    keys if keys.contains(&"fields") => {
                        let fields = decoder.map(item, &FIELDS);
                        let values = fields
                            .and_then(|fields| fields.get("fields"))
                            .map(|node| decoder.each(node, "a field", Decoder::expression));
                        found
                            .extend(values.unwrap_or_default().into_iter().map(CoveredDecl::Value));
                    }
                    _ => found.extend(masked(decoder, item)),
                }
            }
            _ => found.extend(decoder.name(item).map(CoveredDecl::Name)),
        }
    }
    found
}

/// `{ ipv4: { mask: [tos, ttl] } }`, one or several headers in a map.
fn masked(decoder: &mut Decoder<'_>, node: &Node) -> Vec<CoveredDecl> {
    let headers = decoder.named(node, "a masked header", |decoder, _, node| {
        let fields = decoder.map(node, &MASKED)?;
        Some(decoder.each(fields.get("mask")?, "a field", Decoder::name))
    });
    headers.into_iter().map(|(instance, mask)| CoveredDecl::Masked { instance, mask }).collect()
}

pub(super) fn deparser(decoder: &mut Decoder<'_>, node: &Node) -> Option<DeparserDecl> {
    let fields = decoder.map(node, &DEPARSER)?;
    let emit = fields.get("emit").map(|node| decoder.each(node, "a header", Decoder::header));
    let after =
        fields.get("after").map(|node| decoder.each(node, "a trailer", after)).unwrap_or_default();
    let discard = fields
        .get("discard")
        .map(|node| decoder.each(node, "a header", Decoder::name))
        .unwrap_or_default();
    let slack = word(decoder, &fields, "slack", SLACK);
    let strip_slack = slack.is_some_and(|slack| slack.value == "strip");
    Some(DeparserDecl { emit, after, discard, strip_slack, span: fields.span })
}

fn after(decoder: &mut Decoder<'_>, node: &Node) -> Option<AfterDecl> {
    if let NodeKind::Map(_) = node.kind {
        let fields = decoder.map(node, &PAD)?;
        let bytes = fields.get("pad").and_then(|node| decoder.expression(node));
        let fill = fields.get("fill").and_then(|node| decoder.count(node));
        let when = fields.get("when").and_then(|node| decoder.expression(node));
        let name = fields.get("name").and_then(|node| decoder.name(node));
        return Some(AfterDecl::Pad { name, bytes: bytes?, fill, when });
    }
    decoder.name(node).map(AfterDecl::Header)
}

pub(super) fn qos(decoder: &mut Decoder<'_>, node: &Node) -> Option<QosDecl> {
    let fields = decoder.map(node, &QOS)?;
    let mut list = |key: &str| -> Vec<AstExpr> {
        fields
            .get(key)
            .map(|node| decoder.each(node, "a field", Decoder::expression))
            .unwrap_or_default()
    };
    Some(QosDecl { dscp: list("dscp"), pcp: list("pcp") })
}
