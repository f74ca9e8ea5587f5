//! Which header types are those of the controller's packets: JSON of bmv2 does not state it.

use super::HeaderType;
use crate::bmv2::read::Reader;
use crate::ir::SourceSpan;
use crate::p4info::Info;

/// The headers of the controller's packets.
pub(super) const KINDS: [&str; 2] = ["packet_in", "packet_out"];

/// Without a P4Info: the types whose names begin so.
pub(super) fn named(types: &[HeaderType]) -> [Option<usize>; 2] {
    KINDS.map(|kind| types.iter().position(|ty| ty.used && ty.name.starts_with(kind)))
}

/// The header types of a P4Info's controller headers: those with their fields. Of several, the name decides.
pub(super) fn described(
    types: &[HeaderType],
    info: &Info,
    reader: &mut Reader<'_>,
    span: SourceSpan,
) -> [Option<usize>; 2] {
    let mut found = [None; 2];
    for (at, kind) in KINDS.into_iter().enumerate() {
        let mut headers = info.controller_headers.iter();
        let Some((_, fields)) = headers.find(|(names, _)| names.name == kind) else { continue };
        let fits = |ty: &HeaderType| {
            fields.len() == ty.fields.len()
                && fields.iter().zip(&ty.fields).all(|(known, field)| {
                    // A translated type has a width of its own.
                    known.name == field.name
                        && (known.bits == field.bits || known.type_name.is_some())
                })
        };
        if !types.iter().any(fits) {
            let text = format!(
                "the P4Info has the controller header {kind}, and no header type has its fields"
            );
            reader.error(span, text);
        }
        let other = KINDS[1 - at];
        let rank = |place: &usize| {
            let name = &types[*place].name;
            (!name.starts_with(kind), name.starts_with(other))
        };
        let free = |place: &usize| {
            let ty = &types[*place];
            ty.used && fits(ty) && !found.contains(&Some(*place))
        };
        found[at] = (0..types.len()).filter(free).min_by_key(rank);
    }
    found
}
