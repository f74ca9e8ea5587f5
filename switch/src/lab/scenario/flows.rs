//! Senders and receivers: from names, groups and patterns to sources of flows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::{Span, Time};

use super::quantity::{bounded, instant, size, span};
use super::reading::{Context, Reading};
use super::{FlowSetup, FlowSpec, MESSAGE, flow_file, hosts, hpcc, htsim, shapes};
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

/// Reads `flows`.
pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Vec<Source> {
    let (mut sources, mut count) = (Vec::new(), 0);
    for (index, item) in decoder.one_or_more(node, "a flow").iter().enumerate() {
        let Some(fields) = decoder.map(item, &shapes::FLOW) else { continue };
        let mut reading = Reading { decoder, fields: &fields, context };
        let more = match fields.get("file") {
            Some(file) => reading.file(file),
            None => reading.one(index as u64),
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
        let error = decoder.diagnostics.error(codes::SCENARIO, flow.span, message);
        error.help("start it earlier, or make `duration` longer");
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
        let error = decoder.diagnostics.error(codes::SCENARIO, flow.span, message);
        error.note("ways lead over links and switches; hosts forward nothing");
    }
    found
}

impl Reading<'_, '_> {
    /// What the flows of the item have in common.
    fn common(&mut self) -> Option<FlowSpec> {
        let total = self.given("size", |decoder, node| size(decoder, node, "a flow"))?;
        let usual = total.unwrap_or(MESSAGE).min(MESSAGE);
        let message =
            self.given_or("message", usual, |decoder, node| size(decoder, node, "a message"))?;
        let longest = self.get("message").or(self.get("size"));
        if let Some(node) = longest.filter(|_| message > MESSAGE_MAX) {
            let text = format!("a message of {message} is longer than {MESSAGE_MAX}");
            self.decoder.diagnostics.error(codes::SCENARIO, node.span, text).note(LONGEST);
            return None;
        }
        let plain = self.plain()?;
        let rounds = self.given_or("rounds", 1, |decoder, node| {
            bounded(decoder, node, "rounds", (1, u64::from(u32::MAX)))
        })? as u32;
        if total.is_none() {
            self.decoder.needs(self.fields, "rounds", "size");
        }
        if let Some(node) = self.get("message").filter(|_| rounds > 1) {
            let text = "a round is one message of `size`: with `rounds`, `message` means nothing";
            return self.decoder.refuse(codes::SCENARIO, node.span, text);
        }
        if rounds > 1 && total.is_some_and(|total| total > MESSAGE_MAX) {
            let span = self.get("size").map_or(self.fields.span, |node| node.span);
            let text = format!("a round is one message, and may not be longer than {MESSAGE_MAX}");
            self.decoder.diagnostics.error(codes::SCENARIO, span, text).note(LONGEST);
            return None;
        }
        let window = match self.get("window") {
            Some(node) if rounds > 1 => {
                let message = "a round begins when the one before is over: it has no window";
                return self.decoder.refuse(codes::SCENARIO, node.span, message);
            }
            Some(node) => {
                bounded(self.decoder, node, "messages under way", (1, WINDOW_MAX))? as u32
            }
            None if rounds > 1 => 1,
            None => WINDOW,
        };
        Some(FlowSpec { size: total, message, rounds, window, ..plain })
    }

    /// Keys that flows and collectives share.
    pub(super) fn plain(&mut self) -> Option<FlowSpec> {
        Some(FlowSpec {
            from: 0,
            to: 0,
            size: None,
            message: MESSAGE,
            start: Time::ZERO + self.given_or("start", Span::ZERO, instant)?,
            rounds: 1,
            window: WINDOW,
            own: self.own()?,
            is_gated: false,
            span: self.fields.span,
        })
    }

    /// The own settings of a flow.
    fn own(&mut self) -> Option<Option<Arc<FlowSetup>>> {
        let mut own = FlowSetup::default();
        if let Some(node) = self.get("rate_control") {
            let mut control = self.context.controls.named(self.decoder, node)?;
            if let Some(node) = self.get("parameters") {
                control.read_parameters(self.decoder, node);
            }
            own.rate_control = Some(control);
        } else if self.get("parameters").is_some() {
            self.decoder.needs(self.fields, "parameters", "rate_control");
            return None;
        }
        let dscp = self.given("dscp", |decoder, node| bounded(decoder, node, "a DSCP", (0, 63)))?;
        own.dscp = dscp.map(|dscp| dscp as u8);
        own.ecn = self.given("ecn", |decoder, node| decoder.flag(node))?;
        own.retransmission = hosts::retransmission(self.decoder, self.fields)?;
        own.spray = self.given("spray", hosts::spray)?;
        Some((own != FlowSetup::default()).then(|| Arc::new(own)))
    }

    /// The source of flows of one item without a file.
    fn one(&mut self, index: u64) -> Option<Source> {
        let common = self.common()?;
        let pattern = self.choice("pattern", shapes::PATTERNS, "each")?;
        self.only_with(&pattern)?;
        let (from, to) = (self.side("from")?, self.side("to")?);
        let is_loaded = self.get("load").is_some();
        if pattern == "incast" || is_loaded || pattern == "permutation" {
            self.once_each("from", &from)?;
            self.once_each("to", &to)?;
        }
        if pattern == "incast" {
            return self.incasts((common, from, to)).map(Source::Incasts);
        }
        if is_loaded {
            return self.arrivals((common, from, to)).map(Source::Arrivals);
        }
        if pattern == "each" && (self.get("from").is_none() || self.get("to").is_none()) {
            let message = "a flow needs `from` and `to`, or a `pattern`";
            return self.refuse(codes::MISSING_KEY, message);
        }
        let all = matches!(pattern.as_str(), "each" | "all_to_all");
        let count = from.len().saturating_mul(to.len());
        if all && !few_enough(self.decoder, count, self.fields.span) {
            return None;
        }
        let mut pairs: Vec<(usize, usize)> = match pattern.as_str() {
            "pairs" if from.len() != to.len() => {
                let (from, to) = (from.len(), to.len());
                let message = format!("`pairs` of {from} senders and {to} receivers");
                return self.refuse(codes::SCENARIO, message);
            }
            "pairs" => from.into_iter().zip(to).collect(),
            // Receivers are drawn later.
            "permutation" => {
                let next = from.iter().copied().cycle().skip(1);
                from.iter().copied().zip(next).collect()
            }
            _ => from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))).collect(),
        };
        if pattern == "all_to_all" {
            pairs.retain(|(a, b)| a != b);
        }
        self.check_pairs(&pairs)?;
        let stagger = self.given_or("stagger", Span::ZERO, span)?;
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

    /// A word of a list, or `absent`.
    fn choice(&mut self, key: &str, words: &[&str], absent: &str) -> Option<String> {
        let word = self.given(key, |decoder, node| decoder.choice(node, words))?;
        Some(word.map_or_else(|| absent.to_owned(), |word| word.value))
    }

    /// The senders or receivers, at least one: an item without them would send nothing.
    fn side(&mut self, name: &str) -> Option<Vec<usize>> {
        let fabric = self.context.fabric;
        let Some(node) = self.get(name) else { return Some(fabric.hosts().collect()) };
        let found = members(self.decoder, node, fabric)?;
        if found.is_empty() && !self.decoder.diagnostics.has_errors() {
            let message = format!("`{name}` has no host: nothing would be sent");
            self.decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        }
        (!found.is_empty()).then_some(found)
    }

    /// Checks that somebody sends, and nobody to itself.
    fn check_pairs(&mut self, pairs: &[(usize, usize)]) -> Option<()> {
        let message = match pairs.iter().find(|(a, b)| a == b) {
            Some((host, _)) => {
                format!("`{}` would send to itself", self.context.fabric.nodes[*host].name)
            }
            None if pairs.is_empty() => {
                "nothing to send to: senders and receivers are one host".to_owned()
            }
            None => return Some(()),
        };
        self.refuse(codes::SCENARIO, message)
    }

    /// Refuses keys that have no effect with other patterns.
    fn only_with(&mut self, pattern: &str) -> Option<()> {
        let loaded = self.get("load").is_some();
        let mut refused = false;
        let mut wrong = |key: &str, why: &str| {
            if let Some(node) = self.fields.get(key) {
                let message = format!("`{key}` {why}");
                self.decoder.diagnostics.error(codes::SCENARIO, node.span, message);
                refused = true;
            }
        };
        for key in ["format", "origin"] {
            wrong(key, "is about a `file`");
        }
        if pattern == "permutation" {
            let why =
                "means nothing with `pattern: permutation`: those of `from` send to each other";
            wrong("to", why);
        }
        if pattern == "incast" {
            wrong("sizes", "means nothing with `pattern: incast`, whose flows have one `size`");
        } else {
            for key in ["fan_in", "every"] {
                wrong(key, "needs `pattern: incast`");
            }
            if loaded {
                wrong("pattern", "stands against `load`, which draws who sends to whom");
            } else {
                for key in ["sizes", "until"] {
                    wrong(key, "needs a `load`");
                }
            }
        }
        if loaded || pattern == "incast" {
            for key in ["rounds", "stagger", "message"] {
                wrong(key, "means nothing where flows arrive by chance");
            }
        }
        (!refused).then_some(())
    }

    /// Hosts each named at most once, where flows are drawn: a duplicate would send to itself, or the same twice.
    fn once_each(&mut self, key: &str, hosts: &[usize]) -> Option<()> {
        let mut known = BTreeSet::new();
        let Some(host) = hosts.iter().find(|host| !known.insert(**host)) else { return Some(()) };
        let name = &self.context.fabric.nodes[*host].name;
        let message = format!("`{name}` is named twice, by itself or by groups");
        let place = self.get(key).map_or(self.fields.span, |node| node.span);
        self.decoder.refuse(codes::TWICE, place, message)
    }

    /// The flows of a file, which has all of them.
    fn file(&mut self, file: &Node) -> Option<Source> {
        self.decoder.word(file)?;
        let own = ["file", "format", "origin"];
        let mut others = shapes::FLOW.keys.iter().map(|key| key.name);
        let other = others.find(|name| !own.contains(name) && self.get(name).is_some());
        if let Some(other) = other {
            return self.exclude("file", other);
        }
        let common = self.common()?;
        let format = self.choice("format", shapes::FLOW_FORMATS, "csv")?;
        let origin = self.given_or("origin", Span::ZERO, instant)?;
        let (decoder, fabric) = (&mut *self.decoder, self.context.fabric);
        let id = self.context.sheets.text_of(decoder, file)?;
        let sheet = (id, self.context.files[id].text.as_str());
        match format.as_str() {
            "htsim" => htsim::flows(decoder, sheet, fabric, (&common, origin)),
            "hpcc" => hpcc::flows(decoder, sheet, fabric, (&common, origin)).map(Source::Listed),
            _ => flow_file::flows(decoder, sheet, fabric, (&common, origin)).map(Source::Listed),
        }
    }
}

/// Hosts by their names and the names of groups.
pub(super) fn members(
    decoder: &mut Decoder<'_>,
    node: &Node,
    fabric: &Fabric,
) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for name in decoder.each(node, "a host", Decoder::word) {
        if name.value == "hosts" {
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
