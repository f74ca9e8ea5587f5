//! The difference between a frame and the expected one, byte by byte, with the names of fields.

use std::collections::BTreeSet;
use std::fmt::Write;

use wireyard_pipeline::decode::{Decoder, Parsed};
use wireyard_pipeline::ir::{FieldLayout, Header, Program};

use super::script::PatternBytes;

/// Fields that a byte may belong to, at most as many in a message.
const NAMES_MAX: usize = 4;
/// Most rows of 16 bytes that are shown.
const ROWS_MAX: usize = 64;

/// The rows that differ from the expected ones, the differing bytes marked, and the field of the first byte of each, as
/// the parser reads a frame of this link (`std.ingress_link`).
pub(super) fn difference(
    program: &Program,
    pattern: &PatternBytes,
    frame: &[u8],
    link: u8,
) -> String {
    let mut out = String::new();
    let mut differing = 0;
    let mut decoder = Decoder::of_parser(program).ok();
    let parsed = decoder.as_mut().and_then(|decoder| decoder.parse(frame, link));
    let rows = pattern.bytes.len().max(frame.len()).div_ceil(16);
    for row in 0..rows {
        let places = row * 16..row * 16 + 16;
        let differs = |at: usize| match (pattern.bytes.get(at), frame.get(at)) {
            (Some((value, mask)), Some(byte)) => byte & mask != value & mask,
            (Some(_), None) => true,
            (None, Some(_)) => pattern.ends,
            (None, None) => false,
        };
        if !places.clone().any(differs) {
            continue;
        }
        differing += 1;
        if differing > ROWS_MAX {
            continue;
        }
        let expected: Vec<String> = places.clone().map(|at| expected_byte(pattern, at)).collect();
        let found: Vec<String> = places
            .clone()
            .map(|at| frame.get(at).map_or("  ".into(), |byte| format!("{byte:02x}")))
            .collect();
        let marks: Vec<&str> =
            places.clone().map(|at| if differs(at) { "^^" } else { "  " }).collect();
        let _ = writeln!(out, "  {:04x} expected  {}", row * 16, expected.join(" "));
        let _ = writeln!(out, "       found     {}", found.join(" "));
        let _ = writeln!(out, "                 {}", marks.join(" ").trim_end());
        for at in places.filter(|at| differs(*at)).take(1) {
            let place = parsed.as_ref().and_then(|parsed| place_in(program, parsed, at));
            let place = place.unwrap_or_else(|| field_at(program, at));
            let _ = writeln!(out, "       byte {at} is {place}");
        }
    }
    if differing > ROWS_MAX {
        let _ = writeln!(out, "  and {} more rows of 16 bytes", differing - ROWS_MAX);
    }
    if frame.len() != pattern.bytes.len() {
        let _ = writeln!(out, "  expected {} bytes, found {}", pattern.bytes.len(), frame.len());
    }
    out
}

fn expected_byte(pattern: &PatternBytes, at: usize) -> String {
    let Some((value, mask)) = pattern.bytes.get(at) else { return "  ".into() };
    let digit = |value: u8, mask: u8| {
        if mask == 0 { '*' } else { char::from_digit(value.into(), 16).unwrap_or('?') }
    };
    [digit(value >> 4, mask >> 4), digit(value & 0xf, mask & 0xf)].into_iter().collect()
}

/// The field at a byte of a frame, as the program's parser reads it; `None` where it does not read the frame to the end.
fn place_in(program: &Program, parsed: &Parsed<'_>, at: usize) -> Option<String> {
    let headers = parsed.headers();
    let found = headers.iter().find(|one| {
        let start = one.at as usize;
        (start..start + one.bytes.len()).contains(&at)
    });
    let Some(header) = found else {
        return (parsed.error().is_none() && at < parsed.bytes().len())
            .then(|| "in the body".into());
    };
    let declared = &program.headers[program.instances[header.instance].header];
    Some(format!("{}.{}", header.name, field_name(declared, at - header.at as usize)))
}

/// The field at a byte of a header.
fn field_name(header: &Header, at: usize) -> &str {
    let bit = at as u32 * 8;
    let field = header.declared().find(|field| match field.layout {
        FieldLayout::Run { bit: first, bits } => (first..first + bits).contains(&bit),
        FieldLayout::Opaque { byte, bytes } => (byte..byte + bytes).contains(&(at as u32)),
        _ => false,
    });
    field.map_or("?", |field| field.name.as_str())
}

/// The field at a byte, if the headers of the deparser follow each other in their fixed sizes. The bytes alone do not
/// determine which are valid, so all possible fields are named, those of the first headers first.
fn field_at(program: &Program, at: usize) -> String {
    let mut names = Vec::new();
    let mut ends = vec![0usize];
    for instance in &program.deparser.emit {
        let instance = &program.instances[*instance];
        let header = &program.headers[instance.header];
        let starts = ends.clone();
        for start in starts {
            let end = start + header.fixed_bytes as usize;
            if (start..end).contains(&at) {
                names.push(format!("{}.{}", instance.name, field_name(header, at - start)));
            }
            if end <= at && !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    match names.len() {
        0 => "in the body".into(),
        1..=NAMES_MAX => names.join(" or "),
        more => format!("{} or {} others", names[..NAMES_MAX].join(" or "), more - NAMES_MAX),
    }
}
