//! Senders and receivers: from names, groups and patterns to sources of flows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::{Files, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::{Span, Time};

use super::flow_file;
use super::quantity::{bounded, instant, size, span};
use super::rate_control::Controls;
use super::sheets::Sheets;
use super::{FlowSetup, FlowSpec, MESSAGE, hosts, loads, shapes};
use crate::lab::fabric::{Fabric, NodeKind};
use crate::lab::workload::{Permutation, Source};
use crate::units::Bytes;

/// Most flows of a scenario.
pub(super) const FLOWS_MAX: usize = 100_000;
/// Longest message (IBTA 9.7.2: 2^31 bytes).
pub(in crate::lab) const MESSAGE_MAX: Bytes = Bytes::new(1 << 31);
const LONGEST: &str =
    "InfiniBand has messages of up to 2^31 bytes; a flow may have any number of them";
/// Default number of messages in flight: so that the wire is busy between two.
const WINDOW: u32 = 2;
/// The most of them.
const WINDOW_MAX: u64 = 4096;
/// Names in a list of choices.
const NAMES_SHOWN: usize = 12;

/// The inputs of reading flows.
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    /// The end of the run.
    pub(super) end: Time,
    /// Files of flows that it names.
    pub(super) sheets: &'a Sheets,
    pub(super) files: &'a Files,
    /// Rate controls that it names.
    pub(super) controls: &'a Controls,
}

/// Reads `flows`.
pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Vec<Source> {
    let (mut sources, mut count) = (Vec::new(), 0);
    for (index, item) in decoder.one_or_more(node, "a flow").iter().enumerate() {
        let Some(fields) = decoder.map(item, &shapes::FLOW) else { continue };
        let more = match fields.get("file") {
            Some(file) => from_file(decoder, &fields, file, context),
            None => one(decoder, &fields, context, index as u64),
        };
        count += more.as_ref().map_or(0, |more| match more {
            Source::Listed(flows) | Source::Triggered(flows, _) => flows.len(),
            Source::Permutation(permutation) => permutation.flows.len(),
            Source::Arrivals(arrivals) => arrivals.expected(context.fabric) as usize,
            Source::Incasts(incasts) => incasts.expected(context.fabric) as usize,
            Source::Collective(_) => 0,
        });
        sources.extend(more);
        if !few_enough(decoder, count, fields.span) {
            return Vec::new();
        }
    }
    if sources.is_empty() && !decoder.diagnostics.has_errors() {
        decoder.diagnostics.error(codes::SCENARIO, node.span, "no flow: nothing would be sent");
    }
    sources
}

/// Checks that every flow has a route and begins before the end; the first of an item that does not is reported.
pub(super) fn check(decoder: &mut Decoder<'_>, flows: &[FlowSpec], context: &Context<'_>) {
    let mut hops = BTreeMap::new();
    let mut reported = BTreeSet::new();
    for flow in flows {
        let hops = hops.entry(flow.to).or_insert_with(|| context.fabric.hops(flow.to));
        let place = (flow.span.file, flow.span.start);
        if hops[flow.from].is_some() && flow.start < context.end || !reported.insert(place) {
            continue;
        }
        let found = hops[flow.from].is_some();
        if reachable(decoder, flow, context.fabric, found) {
            in_time(decoder, flow, context.end);
        }
    }
}

/// Refuses a flow that starts after the run: a mistake of units, without any traffic.
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

/// Checks the number of flows, before they are created.
pub(super) fn few_enough(decoder: &mut Decoder<'_>, flows: usize, span: SourceSpan) -> bool {
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
fn common(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
) -> Option<FlowSpec> {
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
    let plain = plain(decoder, fields, context)?;
    let rounds = match fields.get("rounds") {
        Some(node) => bounded(decoder, node, "rounds", (1, u64::from(u32::MAX)))? as u32,
        None => 1,
    };
    if total.is_none() {
        decoder.needs(fields, "rounds", "size");
    }
    if let Some(node) = fields.get("message").filter(|_| rounds > 1) {
        let text = "a round is one message of `size`: with `rounds`, `message` means nothing";
        return decoder.refuse(codes::SCENARIO, node.span, text);
    }
    if rounds > 1 && total.is_some_and(|total| total > MESSAGE_MAX) {
        let span = fields.get("size").map_or(fields.span, |node| node.span);
        let text = format!("a round is one message, and may not be longer than {MESSAGE_MAX}");
        decoder.diagnostics.error(codes::SCENARIO, span, text).note(LONGEST);
        return None;
    }
    let window = match fields.get("window") {
        Some(node) if rounds > 1 => {
            let message = "a round begins when the one before is over: it has no window";
            return decoder.refuse(codes::SCENARIO, node.span, message);
        }
        Some(node) => bounded(decoder, node, "messages under way", (1, WINDOW_MAX))? as u32,
        None if rounds > 1 => 1,
        None => WINDOW,
    };
    Some(FlowSpec { size: total, message, rounds, window, ..plain })
}

/// Keys that flows and collectives share.
pub(super) fn plain(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
) -> Option<FlowSpec> {
    let start = match fields.get("start") {
        Some(node) => Time::ZERO + instant(decoder, node)?,
        None => Time::ZERO,
    };
    Some(FlowSpec {
        from: 0,
        to: 0,
        size: None,
        message: MESSAGE,
        start,
        rounds: 1,
        window: WINDOW,
        own: own(decoder, fields, context)?,
        is_gated: false,
        span: fields.span,
    })
}

/// The own settings of a flow.
fn own(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
) -> Option<Option<Arc<FlowSetup>>> {
    let mut own = FlowSetup::default();
    if let Some(node) = fields.get("rate_control") {
        let mut control = context.controls.named(decoder, node)?;
        if let Some(node) = fields.get("parameters") {
            control.read_parameters(decoder, node);
        }
        own.rate_control = Some(control);
    } else if fields.get("parameters").is_some() {
        decoder.needs(fields, "parameters", "rate_control");
        return None;
    }
    if let Some(node) = fields.get("dscp") {
        own.dscp = Some(bounded(decoder, node, "a DSCP", (0, 63))? as u8);
    }
    if let Some(node) = fields.get("ecn") {
        own.ecn = Some(decoder.flag(node)?);
    }
    own.retransmission = hosts::retransmission(decoder, fields)?;
    if let Some(node) = fields.get("spray") {
        own.spray = Some(hosts::spray(decoder, node)?);
    }
    Some((own != FlowSetup::default()).then(|| Arc::new(own)))
}

/// The source of flows of one item without a file.
fn one(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
    index: u64,
) -> Option<Source> {
    let common = common(decoder, fields, context)?;
    let pattern = match fields.get("pattern") {
        Some(node) => decoder.choice(node, shapes::PATTERNS)?.value,
        None => "each".to_owned(),
    };
    only_with(decoder, fields, &pattern)?;
    let hosts: Vec<usize> = context.fabric.hosts().collect();
    let mut side = |name: &str| match fields.get(name) {
        Some(node) => some_members(decoder, (name, node), context.fabric),
        None => Some(hosts.clone()),
    };
    let (from, to) = (side("from")?, side("to")?);
    if pattern == "incast" || fields.get("load").is_some() || pattern == "permutation" {
        for (name, hosts) in [("from", &from), ("to", &to)] {
            let place = fields.get(name).map_or(fields.span, |node| node.span);
            once_each(decoder, place, hosts, context)?;
        }
    }
    if pattern == "incast" {
        return loads::incasts(decoder, fields, context, (common, from, to)).map(Source::Incasts);
    }
    if fields.get("load").is_some() {
        return loads::arrivals(decoder, fields, context, (common, from, to)).map(Source::Arrivals);
    }
    if pattern == "each" && (fields.get("from").is_none() || fields.get("to").is_none()) {
        let message = "a flow needs `from` and `to`, or a `pattern`";
        return decoder.refuse(codes::MISSING_KEY, fields.span, message);
    }
    let all = matches!(pattern.as_str(), "each" | "all_to_all");
    if all && !few_enough(decoder, from.len().saturating_mul(to.len()), fields.span) {
        return None;
    }
    let pairs = match pattern.as_str() {
        "pairs" => pairs(decoder, fields.span, &from, &to)?,
        // Receivers are drawn later.
        "permutation" => {
            let next = from.iter().copied().cycle().skip(1);
            from.iter().copied().zip(next).collect()
        }
        _ => from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))).collect(),
    };
    let pairs: Vec<(usize, usize)> = match pattern.as_str() {
        "all_to_all" => pairs.into_iter().filter(|(a, b)| a != b).collect(),
        _ => pairs,
    };
    to_others(decoder, fields.span, &pairs, context)?;
    let stagger = match fields.get("stagger") {
        Some(node) => span(decoder, node)?,
        None => Span::ZERO,
    };
    let flow = |(n, (from, to)): (usize, (usize, usize))| {
        let later = Span::from_ps(stagger.as_ps().saturating_mul(n as u64));
        FlowSpec { from, to, start: common.start + later, ..common.clone() }
    };
    let hosts = pairs.iter().map(|pair| pair.0).collect();
    let flows = pairs.into_iter().enumerate().map(flow).collect();
    Some(match pattern.as_str() {
        "permutation" => Source::Permutation(Permutation { hosts, flows, index }),
        _ => Source::Listed(flows),
    })
}

/// Checks that somebody sends, and nobody to itself.
fn to_others(
    decoder: &mut Decoder<'_>,
    span: SourceSpan,
    pairs: &[(usize, usize)],
    context: &Context<'_>,
) -> Option<()> {
    let message = match pairs.iter().find(|(a, b)| a == b) {
        Some((host, _)) => {
            format!("`{}` would send to itself", context.fabric.nodes[*host].name)
        }
        None if pairs.is_empty() => {
            "nothing to send to: senders and receivers are one host".to_owned()
        }
        None => return Some(()),
    };
    decoder.refuse(codes::SCENARIO, span, message)
}

/// Refuses keys that have no effect with other patterns.
fn only_with(decoder: &mut Decoder<'_>, fields: &Fields<'_>, pattern: &str) -> Option<()> {
    let loaded = fields.get("load").is_some();
    let wrong = |decoder: &mut Decoder<'_>, key: &str, why: &str| {
        let node = fields.get(key)?;
        decoder.diagnostics.error(codes::SCENARIO, node.span, format!("`{key}` {why}"));
        Some(())
    };
    let mut refused = false;
    for key in ["format", "origin"] {
        refused |= wrong(decoder, key, "is about a `file`").is_some();
    }
    if pattern == "permutation" {
        let why = "means nothing with `pattern: permutation`: those of `from` send to each other";
        refused |= wrong(decoder, "to", why).is_some();
    }
    if pattern == "incast" {
        let why = "means nothing with `pattern: incast`, whose flows have one `size`";
        refused |= wrong(decoder, "sizes", why).is_some();
    } else {
        for key in ["fan_in", "every"] {
            refused |= wrong(decoder, key, "needs `pattern: incast`").is_some();
        }
        if loaded && fields.get("pattern").is_some() {
            refused |=
                wrong(decoder, "pattern", "stands against `load`, which draws who sends to whom")
                    .is_some();
        }
        if !loaded {
            for key in ["sizes", "until"] {
                refused |= wrong(decoder, key, "needs a `load`").is_some();
            }
        }
    }
    if loaded || pattern == "incast" {
        for key in ["rounds", "stagger", "message"] {
            refused |= wrong(decoder, key, "means nothing where flows arrive by chance").is_some();
        }
    }
    (!refused).then_some(())
}

/// Hosts each named at most once, where flows are drawn: a duplicate would send to itself, or the same twice.
fn once_each(
    decoder: &mut Decoder<'_>,
    span: SourceSpan,
    hosts: &[usize],
    context: &Context<'_>,
) -> Option<()> {
    let mut known = BTreeSet::new();
    let twice = hosts.iter().find(|host| !known.insert(**host)).copied();
    if let Some(host) = twice {
        let name = &context.fabric.nodes[host].name;
        let message = format!("`{name}` is named twice, by itself or by groups");
        return decoder.refuse(codes::TWICE, span, message);
    }
    Some(())
}

fn pairs(
    decoder: &mut Decoder<'_>,
    span: SourceSpan,
    from: &[usize],
    to: &[usize],
) -> Option<Vec<(usize, usize)>> {
    if from.len() != to.len() {
        let message = format!("`pairs` of {} senders and {} receivers", from.len(), to.len());
        return decoder.refuse(codes::SCENARIO, span, message);
    }
    Some(from.iter().copied().zip(to.iter().copied()).collect())
}

/// The same, at least one: an item without senders or receivers would send nothing.
fn some_members(
    decoder: &mut Decoder<'_>,
    (name, node): (&str, &Node),
    fabric: &Fabric,
) -> Option<Vec<usize>> {
    let found = members(decoder, node, fabric)?;
    if found.is_empty() && !decoder.diagnostics.has_errors() {
        let message = format!("`{name}` has no host: nothing would be sent");
        decoder.diagnostics.error(codes::SCENARIO, node.span, message);
    }
    (!found.is_empty()).then_some(found)
}

/// Hosts by their names and the names of groups.
pub(super) fn members(
    decoder: &mut Decoder<'_>,
    node: &Node,
    fabric: &Fabric,
) -> Option<Vec<usize>> {
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

/// Existing names, the first of many.
fn choices(names: &[&str]) -> String {
    let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
    names[..names.len().min(NAMES_SHOWN)].join(", ") + more
}

/// The host of this name.
pub(super) fn host(decoder: &mut Decoder<'_>, name: &Sp<String>, fabric: &Fabric) -> Option<usize> {
    let Some(node) = fabric.find(&name.value) else {
        let names = fabric.hosts().map(|host| fabric.nodes[host].name.as_str());
        let names: Vec<&str> = fabric.groups.keys().map(String::as_str).chain(names).collect();
        decoder
            .diagnostics
            .error(codes::UNKNOWN, name.span, format!("there is no host `{}`", name.value))
            .note(format!("there are {}", choices(&names)))
            .did_you_mean(&name.value, names);
        return None;
    };
    if fabric.nodes[node].kind != NodeKind::Host {
        let message = format!("`{}` is a switch: only hosts send and receive", name.value);
        return decoder.refuse(codes::WRONG_KIND, name.span, message);
    }
    Some(node)
}

/// The flows of a file, which has all of them.
fn from_file(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    file: &Node,
    context: &Context<'_>,
) -> Option<Source> {
    decoder.word(file)?;
    let own = ["file", "format", "origin"];
    let others = shapes::FLOW.keys.iter().map(|key| key.name).filter(|name| !own.contains(name));
    if let Some(other) = others.into_iter().find(|name| fields.get(name).is_some()) {
        decoder.exclude(fields, "file", other);
        return None;
    }
    let common = common(decoder, fields, context)?;
    let format = match fields.get("format") {
        Some(node) => decoder.choice(node, shapes::FLOW_FORMATS)?.value,
        None => "csv".to_owned(),
    };
    let origin = match fields.get("origin") {
        Some(node) => instant(decoder, node)?,
        None => Span::ZERO,
    };
    let id = context.sheets.text_of(decoder, file)?;
    let sheet = (id, context.files[id].text.as_str());
    match format.as_str() {
        "htsim" => super::htsim::flows(decoder, sheet, context.fabric, (&common, origin)),
        "hpcc" => super::hpcc::flows(decoder, sheet, context.fabric, (&common, origin))
            .map(Source::Listed),
        _ => {
            flow_file::flows(decoder, sheet, context.fabric, (&common, origin)).map(Source::Listed)
        }
    }
}
