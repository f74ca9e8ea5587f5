//! Events as text: one sentence and named values for each, with the program's names.

use super::Event;
use crate::exec::{PacketPath, Verdict};
use crate::ids::*;
use crate::ir::{Display, FieldLayout, LValue, Program, SourceSpan, Target};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An event in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of event, one word.
    pub kind: &'static str,
    /// The sentence.
    pub text: String,
    /// Named values that belong to it.
    pub values: Vec<(String, String)>,
    /// Its depth inside the pass: 0 for start and verdict.
    pub depth: usize,
}

/// A value in its display form.
pub fn value(display: Display, bits: u32, value: u128) -> String {
    match (display, bits) {
        (Display::Decimal, _) => value.to_string(),
        (Display::Mac, 48) => {
            let bytes: Vec<String> =
                value.to_be_bytes()[10..].iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(":")
        }
        (Display::Ipv4, 32) => Ipv4Addr::from(value as u32).to_string(),
        (Display::Ipv6, 128) => Ipv6Addr::from(value).to_string(),
        _ => format!("{value:#x}"),
    }
}

/// Bytes in hexadecimal, without gaps.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names and values of the fields of a header.
pub fn fields(program: &Program, instance: InstanceId, header: &[u8]) -> Vec<(String, String)> {
    let declared = program.headers[program.instances[instance].header].declared();
    let text = |field: &crate::ir::Field| match &field.layout {
        FieldLayout::Run { .. } | FieldLayout::Pieces(_) => {
            value(field.display, field.bits, field.layout.read(header))
        }
        FieldLayout::Array { bit, bits, count } => {
            let end = (bit + bits * count).div_ceil(8) as usize;
            hex(header.get((*bit / 8) as usize..end).unwrap_or_default())
        }
        FieldLayout::Variable { byte, .. } => hex(header.get(*byte as usize..).unwrap_or_default()),
        FieldLayout::Opaque { byte, bytes } => {
            hex(header.get(*byte as usize..(byte + bytes) as usize).unwrap_or_default())
        }
    };
    declared.map(|field| (field.name.clone(), text(field))).collect()
}

fn assigned(program: &Program, to: &LValue) -> (String, Display, u32) {
    let field = |instance: &InstanceId, field: &FieldId| {
        let instance = &program.instances[*instance];
        let field = &program.headers[instance.header].fields[*field];
        (format!("{}.{}", instance.name, field.name), field.display, field.bits)
    };
    match to {
        LValue::Field(instance, id) => field(instance, id),
        LValue::FieldSlice { instance, field: id, high, low } => {
            let (name, _, _) = field(instance, id);
            (format!("{name}[{high}:{low}]"), Display::Hex, high - low + 1)
        }
        LValue::Element { instance, field: id, .. } => {
            let (name, display, bits) = field(instance, id);
            (format!("{name}[..]"), display, bits)
        }
        LValue::Meta(id) => {
            let meta = &program.metadata[*id];
            (format!("meta.{}", meta.name), meta.display, meta.bits)
        }
        LValue::Std(std) => (format!("std.{}", std.name()), Display::Decimal, std.bits()),
        LValue::Local(id) => (id.to_string(), Display::Hex, 128),
    }
}

/// The instance that an assignment is to, if it is to a header.
fn header_of(to: &LValue) -> Option<InstanceId> {
    match to {
        LValue::Field(instance, _)
        | LValue::FieldSlice { instance, .. }
        | LValue::Element { instance, .. } => Some(*instance),
        _ => None,
    }
}

/// `file:line` of a place.
fn place(program: &Program, span: Option<SourceSpan>) -> Option<String> {
    let span = span?;
    let file = program.files.get(span.file)?;
    let before = file.text.as_bytes().get(..span.start as usize)?;
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    Some(format!("{}:{line}", file.name))
}

fn target(program: &Program, to: Target) -> String {
    match to {
        Target::State(id) => program.parser.states[id].name.clone(),
        Target::Accept => "accept".into(),
        Target::Reject(error) => format!("reject({})", program.errors[error]),
    }
}

fn params(params: &[crate::ir::Param], args: &[u128]) -> Vec<(String, String)> {
    let pairs = params.iter().zip(args);
    pairs.map(|(p, arg)| (p.name.clone(), value(p.display, p.bits, *arg))).collect()
}

fn numbered(values: &[u128]) -> Vec<(String, String)> {
    values.iter().enumerate().map(|(n, v)| (format!("{n}"), format!("{v:#x}"))).collect()
}

fn right(right: bool) -> &'static str {
    if right { "right" } else { "wrong" }
}

/// An event in words.
pub fn step(program: &Program, event: &Event) -> Step {
    parser_step(program, event)
        .or_else(|| control_step(program, event))
        .or_else(|| effect_step(program, event))
        .unwrap_or_else(|| end_step(program, event))
}

fn words(kind: &'static str, depth: usize, text: String, values: Vec<(String, String)>) -> Step {
    Step { kind, text, values, depth }
}

fn parser_step(program: &Program, event: &Event) -> Option<Step> {
    Some(match event {
        Event::Start { half, port, path, now_ns, bytes } => {
            let control = half.name();
            let path = PacketPath::ALL.get(usize::from(*path)).map_or("unknown", |(name, _)| name);
            let text =
                format!("{control}: port {port}, {path}, {} bytes, at {now_ns} ns", bytes.len());
            words("start", 0, text, vec![("bytes".into(), hex(bytes))])
        }
        Event::State(id) => {
            words("state", 1, format!("state {}", program.parser.states[*id].name), vec![])
        }
        Event::Extract { instance, at, header } => {
            let name = &program.instances[*instance].name;
            let text = format!("extract {name}, {} bytes at {at}", header.len());
            words("extract", 2, text, fields(program, *instance, header))
        }
        Event::Select { keys, to } => {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:#x}")).collect();
            let text = format!("select {} -> {}", keys.join(", "), target(program, *to));
            words("select", 2, text, vec![])
        }
        Event::ParserError(error) => {
            words("parser_error", 1, format!("parser error {}", program.errors[*error]), vec![])
        }
        Event::Body { at, len, slack } => {
            let text = format!("body: {len} bytes at {at}, {slack} bytes of slack");
            words("body", 1, text, vec![])
        }
        Event::Checksum { checksum, right: is } => {
            let name = &program.checksums[*checksum].name;
            words("checksum", 1, format!("checksum {name} is {}", right(*is)), vec![])
        }
        Event::Crc { crc, right: is } => {
            let name = &program.crcs[*crc].name;
            words("crc", 1, format!("crc {name} is {}", right(*is)), vec![])
        }
        _ => return None,
    })
}

fn control_step(program: &Program, event: &Event) -> Option<Step> {
    Some(match event {
        Event::Apply { table, keys, slot, color } => {
            let table = &program.tables[*table];
            let keys = table.keys.iter().zip(keys);
            let values = keys.map(|(k, v)| (k.name.clone(), value(k.display, k.bits, *v)));
            let text = match slot {
                Some(slot) => format!("table {}: hit, entry {slot}", table.name),
                None => format!("table {}: miss", table.name),
            };
            let metered =
                color.map_or_else(String::new, |color| format!(", {}", color_name(color)));
            words("apply", 1, text + &metered, values.collect())
        }
        Event::Action { action, args } => {
            let action = &program.actions[*action];
            let values = params(&action.params, args);
            words("action", 2, format!("action {}", action.name), values)
        }
        Event::Set { to, value: new, valid, span } => {
            let (name, display, bits) = assigned(program, to);
            let ignored = header_of(to).is_some_and(|i| valid >> i.0 & 1 == 0);
            let ignored = if ignored { " (ignored: the header is not valid)" } else { "" };
            let text = format!("{name} = {}{ignored}", value(display, bits, *new));
            let place = place(program, *span).map(|place| ("at".to_owned(), place));
            words("set", 2, text, place.into_iter().collect())
        }
        _ => return None,
    })
}

fn color_name(color: u8) -> &'static str {
    ["green", "yellow", "red"].get(usize::from(color)).unwrap_or(&"?")
}

fn effect_step(program: &Program, event: &Event) -> Option<Step> {
    Some(match event {
        Event::Headers { valid } => {
            let names = program.instances.entries();
            let names = names.filter(|(id, _)| valid >> id.0 & 1 == 1);
            let names: Vec<&str> = names.map(|(_, instance)| instance.name.as_str()).collect();
            words("headers", 2, format!("valid headers: {}", names.join(", ")), vec![])
        }
        Event::Count { counter, index } => {
            let counter = &program.counters[*counter];
            let outside = outside(*index, counter.size, " (ignored: outside)");
            words("count", 2, format!("count {}[{index}]{outside}", counter.name), vec![])
        }
        Event::Metered { meter, index, color } => {
            let meter = &program.meters[*meter];
            let color = color_name(*color);
            let outside = outside(*index, meter.size, " (outside)");
            words("meter", 2, format!("meter {}[{index}]: {color}{outside}", meter.name), vec![])
        }
        Event::RegisterLoad { register, index, cells } => {
            let register = &program.registers[*register];
            let cells = register.cells.iter().zip(cells);
            let values = cells.map(|(cell, v)| (cell.name.clone(), format!("{v:#x}"))).collect();
            let outside = outside((*index).into(), register.size, " (outside: it reads as 0)");
            let text = format!("read {}[{index}]{outside}", register.name);
            words("register_load", 2, text, values)
        }
        Event::RegisterStore { register, index, cell, value } => {
            let register = &program.registers[*register];
            let cell = register.cells.get(*cell as usize).map_or("?", |cell| cell.name.as_str());
            let outside = outside((*index).into(), register.size, " (ignored: outside)");
            let text = format!("{}[{index}].{cell} = {value:#x}{outside}", register.name);
            words("register_store", 2, text, vec![])
        }
        Event::Digest { digest, values } => {
            let digest = &program.digests[*digest];
            let values = params(&digest.fields, values);
            words("digest", 2, format!("digest {}", digest.name), values)
        }
        Event::Learn { table, action, args } => {
            let action = &program.actions[*action];
            let text = format!("learn into {}: {}", program.tables[*table].name, action.name);
            words("learn", 2, text, params(&action.params, args))
        }
        Event::Extern { external, args, result } => {
            let external = &program.externs[*external];
            let text = format!("{} returns {result:#x}", external.name);
            words("extern", 2, text, numbered(args))
        }
        _ => return None,
    })
}

/// `text` for an index that is out of range, otherwise empty.
fn outside(index: u128, size: u32, text: &'static str) -> &'static str {
    if index < size.into() { "" } else { text }
}

fn end_step(program: &Program, event: &Event) -> Step {
    match event {
        Event::ChecksumWritten { checksum, value } => {
            let name = &program.checksums[*checksum].name;
            words("checksum_written", 1, format!("checksum {name} becomes {value:#x}"), vec![])
        }
        Event::CrcWritten { crc, value } => {
            let name = &program.crcs[*crc].name;
            words("crc_written", 1, format!("crc {name} becomes {value:#x}"), vec![])
        }
        Event::Verdict { verdict, reason, egress_port, multicast_group, clones, bytes } => {
            let reason = program.reasons.get(*reason).map_or("unknown", |name| name.as_str());
            let mut text = match verdict {
                Verdict::Forward if *multicast_group != 0 => {
                    format!("forward to multicast group {multicast_group}")
                }
                Verdict::Forward => format!("forward to port {egress_port}"),
                Verdict::Drop | Verdict::Punt => format!("{}: {reason}", verdict.name()),
                verdict => verdict.name().into(),
            };
            if *verdict != Verdict::Drop {
                text += &format!(", {} bytes", bytes.len());
            }
            let mut values = vec![("bytes".to_owned(), hex(bytes))];
            if !clones.is_empty() {
                let sessions: Vec<String> = clones.iter().map(u16::to_string).collect();
                values.push(("clones".into(), sessions.join(" ")));
            }
            words("verdict", 0, text, values)
        }
        // Every other event is in one of the groups above.
        _ => words("event", 0, format!("{event:?}"), vec![]),
    }
}
