//! Who sends to whom: names, groups and patterns to single flows.

use std::collections::BTreeMap;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;
use wireyard_pipeline::source::{Loader, ReadError};
use wireyard_tables::time::{Span, Time};

use super::quantity::{bounded, instant, size, span};
use super::{FlowSpec, shapes};
use crate::lab::fabric::{Fabric, NodeKind};
use crate::tm::random::Stream;
use crate::units::Bytes;

/// Most flows of a scenario.
const FLOWS_MAX: usize = 100_000;
/// A message, where nothing is said.
const MESSAGE: Bytes = Bytes::new(1_000_000);
/// Longest message (IBTA 9.7.2: 2^31 bytes).
pub(in crate::lab) const MESSAGE_MAX: Bytes = Bytes::new(1 << 31);
const LONGEST: &str =
    "InfiniBand knows messages of up to 2^31 bytes; a flow may have any number of them";
/// Purpose of the stream that draws permutations.
const PERMUTATION: u64 = 0x7065_726d;

/// Where flows are read from and what they need to know.
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) seed: u64,
    /// When the run ends.
    pub(super) end: Time,
    pub(super) folder: &'a std::path::Path,
    pub(super) loader: &'a Loader,
}

/// Reads `flows`.
pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Vec<FlowSpec> {
    let mut flows = Vec::new();
    for (index, item) in decoder.one_or_more(node, "a flow").iter().enumerate() {
        let Some(fields) = decoder.map(item, &shapes::FLOW) else { continue };
        let more = match fields.get("file") {
            Some(file) => from_file(decoder, &fields, file, context),
            None => pattern(decoder, &fields, context, index as u64),
        };
        flows.extend(more.unwrap_or_default());
        if !few_enough(decoder, flows.len(), fields.span) {
            return Vec::new();
        }
    }
    let checked = flows.len();
    let mut hops = BTreeMap::new();
    flows.retain(|flow| {
        let hops = hops.entry(flow.to).or_insert_with(|| context.fabric.hops(flow.to));
        let found = hops[flow.from].is_some();
        reachable(decoder, flow, context.fabric, found) && in_time(decoder, flow, context.end)
    });
    if checked == 0 && !decoder.diagnostics.has_errors() {
        decoder.diagnostics.error(codes::SCENARIO, node.span, "no flow: nothing would be sent");
    }
    flows
}

/// A flow that starts when the run is over is a mistake of units, and would be silence.
fn in_time(decoder: &mut Decoder<'_>, flow: &FlowSpec, end: Time) -> bool {
    let starts = flow.start < end;
    if !starts {
        let (start, end) = (flow.start.since(Time::ZERO), end.since(Time::ZERO));
        let message = format!("a flow would start at {start}, and the run ends at {end}");
        decoder
            .diagnostics
            .error(codes::SCENARIO, flow.span, message)
            .help("start it earlier, or make `duration` longer");
    }
    starts
}

/// Whether so many flows can be; known before they are made.
fn few_enough(decoder: &mut Decoder<'_>, flows: usize, span: SourceSpan) -> bool {
    if flows > FLOWS_MAX {
        let message = format!("{flows} flows: at most {FLOWS_MAX}");
        decoder.diagnostics.error(codes::LIMIT, span, message);
    }
    flows <= FLOWS_MAX
}

fn reachable(decoder: &mut Decoder<'_>, flow: &FlowSpec, fabric: &Fabric, found: bool) -> bool {
    if !found {
        let name = |node: usize| &fabric.nodes[node].name;
        let message = format!("there is no way from `{}` to `{}`", name(flow.from), name(flow.to));
        decoder
            .diagnostics
            .error(codes::SCENARIO, flow.span, message)
            .note("ways lead over links and switches; hosts forward nothing");
    }
    found
}

/// What the flows of one item have in common.
fn common(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<FlowSpec> {
    let total = match fields.get("size") {
        Some(node) => Some(size(decoder, node, "a flow")?),
        None => None,
    };
    let message = match fields.get("message") {
        Some(node) => size(decoder, node, "a message")?,
        None => total.unwrap_or(MESSAGE).min(MESSAGE),
    };
    let longest = fields.get("message").filter(|_| message > MESSAGE_MAX);
    if let Some(node) = longest.or_else(|| fields.get("size").filter(|_| message > MESSAGE_MAX)) {
        let text = format!("a message of {message} is longer than {MESSAGE_MAX}");
        decoder.diagnostics.error(codes::SCENARIO, node.span, text).note(LONGEST);
        return None;
    }
    let start = match fields.get("start") {
        Some(node) => Time::ZERO + instant(decoder, node)?,
        None => Time::ZERO,
    };
    let rounds = match fields.get("rounds") {
        Some(node) => bounded(decoder, node, "rounds", (1, u64::from(u32::MAX)))? as u32,
        None => 1,
    };
    if total.is_none() {
        decoder.needs(fields, "rounds", "size");
    }
    if rounds > 1 && total.is_some_and(|total| total > MESSAGE_MAX) {
        let span = fields.get("size").map_or(fields.span, |node| node.span);
        let text = format!("a round is one message, and may not be longer than {MESSAGE_MAX}");
        decoder.diagnostics.error(codes::SCENARIO, span, text).note(LONGEST);
        return None;
    }
    Some(FlowSpec { from: 0, to: 0, size: total, message, start, rounds, span: fields.span })
}

fn pattern(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
    index: u64,
) -> Option<Vec<FlowSpec>> {
    let common = common(decoder, fields)?;
    let pattern = match fields.get("pattern") {
        Some(node) => decoder.choice(node, shapes::PATTERNS)?.value,
        None => "each".to_owned(),
    };
    let hosts: Vec<usize> = context.fabric.hosts().collect();
    let mut side = |name: &str| match fields.get(name) {
        Some(node) => members(decoder, node, context.fabric),
        None => Some(hosts.clone()),
    };
    let (from, to) = (side("from")?, side("to")?);
    if pattern == "each" && (fields.get("from").is_none() || fields.get("to").is_none()) {
        let message = "a flow needs `from` and `to`, or a `pattern`";
        decoder.diagnostics.error(codes::MISSING_KEY, fields.span, message);
        return None;
    }
    let all = matches!(pattern.as_str(), "each" | "all_to_all");
    if all && !few_enough(decoder, from.len().saturating_mul(to.len()), fields.span) {
        return None;
    }
    let pairs = match pattern.as_str() {
        "pairs" => pairs(decoder, fields.span, &from, &to)?,
        "permutation" => permutation(&from, context.seed, index),
        _ => from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))).collect(),
    };
    let pairs: Vec<(usize, usize)> = match pattern.as_str() {
        "all_to_all" => pairs.into_iter().filter(|(a, b)| a != b).collect(),
        _ => pairs,
    };
    if let Some((host, _)) = pairs.iter().find(|(a, b)| a == b) {
        let message = format!("`{}` would send to itself", context.fabric.nodes[*host].name);
        decoder.diagnostics.error(codes::SCENARIO, fields.span, message);
        return None;
    }
    let stagger = match fields.get("stagger") {
        Some(node) => span(decoder, node)?,
        None => Span::ZERO,
    };
    let flow = |(n, (from, to)): (usize, (usize, usize))| {
        let later = Span::from_ps(stagger.as_ps().saturating_mul(n as u64));
        FlowSpec { from, to, start: common.start + later, ..common.clone() }
    };
    Some(pairs.into_iter().enumerate().map(flow).collect())
}

fn pairs(
    decoder: &mut Decoder<'_>,
    span: SourceSpan,
    from: &[usize],
    to: &[usize],
) -> Option<Vec<(usize, usize)>> {
    if from.len() != to.len() {
        let message = format!("`pairs` of {} senders and {} receivers", from.len(), to.len());
        decoder.diagnostics.error(codes::SCENARIO, span, message);
        return None;
    }
    Some(from.iter().copied().zip(to.iter().copied()).collect())
}

/// A cycle through all hosts in drawn order: everybody sends to one, receives from one, nobody to itself.
fn permutation(hosts: &[usize], seed: u64, index: u64) -> Vec<(usize, usize)> {
    let mut stream = Stream::new(seed, PERMUTATION + index);
    let mut order = hosts.to_vec();
    for n in (1..order.len()).rev() {
        let chosen = (u64::from(stream.next_u32()) * (n as u64 + 1)) >> 32;
        order.swap(n, chosen as usize);
    }
    let next = order.iter().copied().cycle().skip(1);
    let mut pairs: Vec<(usize, usize)> = order.iter().copied().zip(next).collect();
    pairs.sort_unstable();
    pairs
}

/// Hosts by their names and the names of groups.
fn members(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for name in decoder.each(node, "a host", Decoder::word) {
        if name.value == "hosts" && fabric.find("hosts").is_none() {
            found.extend(fabric.hosts());
        } else if let Some(group) = fabric.groups.get(&name.value) {
            found.extend(group);
        } else {
            found.push(host(decoder, &name, fabric)?);
        }
    }
    Some(found)
}

/// The host of this name.
pub(super) fn host(decoder: &mut Decoder<'_>, name: &Sp<String>, fabric: &Fabric) -> Option<usize> {
    let Some(node) = fabric.find(&name.value) else {
        let names = fabric.hosts().map(|host| fabric.nodes[host].name.as_str());
        let groups = fabric.groups.keys().map(String::as_str);
        decoder
            .diagnostics
            .error(codes::UNKNOWN, name.span, format!("there is no host `{}`", name.value))
            .did_you_mean(&name.value, names.chain(groups));
        return None;
    };
    if fabric.nodes[node].kind != NodeKind::Host {
        let message = format!("`{}` is a switch: only hosts send and receive", name.value);
        decoder.diagnostics.error(codes::WRONG_KIND, name.span, message);
        return None;
    }
    Some(node)
}

/// Why a file was not read.
fn why(error: &ReadError) -> String {
    match error {
        ReadError::NotFound => "there is no such file".to_owned(),
        ReadError::TooLarge(most) => format!("it has more than {most} bytes"),
        ReadError::Other(text) => text.clone(),
    }
}

/// Lines `from,to,bytes,start_us`; a first line of words is a heading.
fn from_file(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    file: &Node,
    context: &Context<'_>,
) -> Option<Vec<FlowSpec>> {
    let common = common(decoder, fields)?;
    let name = decoder.word(file)?;
    let path = context.folder.join(&name.value);
    let bytes = match context.loader.read(&path, wireyard_pipeline::source::DATA_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = format!("{}: {}", path.display(), why(&error));
            decoder.diagnostics.error(codes::FILE_NOT_READ, name.span, message);
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut flows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let heading = number == 0 && cells.last().is_some_and(|cell| cell.parse::<f64>().is_err());
        if line.trim().is_empty() || heading {
            continue;
        }
        let parsed = match cells.as_slice() {
            [from, to, bytes, start] => parsed_line(from, to, bytes, start, context.fabric),
            _ => Err(format!("{} cells, expected 4: from,to,bytes,start_us", cells.len())),
        };
        match parsed {
            Ok((from, to, bytes, start)) => flows.push(FlowSpec {
                from,
                to,
                size: Some(bytes),
                message: bytes.min(MESSAGE),
                start,
                ..common.clone()
            }),
            Err(problem) => {
                let message = format!("{} line {}: {problem}", path.display(), number + 1);
                decoder.diagnostics.error(codes::SCENARIO, name.span, message);
                return None;
            }
        }
    }
    Some(flows)
}

fn parsed_line(
    from: &str,
    to: &str,
    bytes: &str,
    start: &str,
    fabric: &Fabric,
) -> Result<(usize, usize, Bytes, Time), String> {
    let host = |name: &str| {
        let found = fabric.find(name).filter(|node| fabric.nodes[*node].kind == NodeKind::Host);
        found.ok_or_else(|| format!("there is no host `{name}`"))
    };
    let bytes = bytes.parse::<u64>().ok().filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or("the size is no number of bytes above zero")?;
    let start = start.parse::<f64>().ok().filter(|us| *us >= 0.0 && *us < 1e12);
    let start = start.ok_or("the start is no number of microseconds from 0")?;
    let start = Time::from_ps((start * 1e6).round() as u64);
    let (from, to) = (host(from)?, host(to)?);
    if from == to {
        return Err("a host would send to itself".to_owned());
    }
    Ok((from, to, Bytes::new(bytes), start))
}
