//! Files of HPCC's simulator and of those that follow it (conweave-ns3, SimAI): flows and topologies.
//!
//! Flows: the first line is their number, each other one `src dst priority [port] bytes start_s`. Topology: nodes,
//! switches and links; the numbers of the switches; then `src dst rate delay loss` for each link. Numbers of nodes
//! begin with 0. Nodes of such a topology are `n0`, `n1`, ...; in another topology a number of a flow is that of the
//! host in the order of the hosts.

use std::collections::BTreeSet;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_tables::time::Span;

use super::FlowSpec;
use super::flow_file::{WRONG_MAX, listed, since, some_flows};
use super::flows::few_enough;
use super::quantity::SIZE_MAX;
use super::sheets::{lines, number, whole};
use crate::lab::fabric::{Fabric, LinkSetup, NodeKind};
use crate::units::{BitsPerSec, Bytes, Probability};

/// Most nodes and links that are read; whether a lab can be so large is checked later.
const NUMBERS_MAX: usize = 1 << 16;

/// The host of a number.
pub(super) fn host(decoder: &mut Decoder<'_>, word: &Sp<String>, fabric: &Fabric) -> Option<usize> {
    let count: usize = number(decoder, word, "number of a host")?;
    let found = match fabric.is_numbered {
        true => fabric.find(&format!("n{count}")),
        false => fabric.hosts().nth(count),
    };
    let problem = match found.map(|node| fabric.nodes[node].kind) {
        Some(NodeKind::Host) => return found,
        Some(NodeKind::Switch) => format!("{count} is a switch: only hosts send and receive"),
        None => {
            format!("there is no host {count}: numbers go to {}", fabric.hosts().count().max(1) - 1)
        }
    };
    decoder.refuse(codes::UNKNOWN, word.span, problem)
}

/// The flows of a file.
pub(super) fn flows(
    decoder: &mut Decoder<'_>,
    (file, text): (FileId, &str),
    fabric: &Fabric,
    common: (&FlowSpec, Span),
) -> Option<Vec<FlowSpec>> {
    let lines = lines(file, text);
    let Some((head, rest)) = lines.split_first() else {
        return some_flows(decoder, Vec::new(), common.0.span);
    };
    let count: usize = number(decoder, &head[0], "number of flows")?;
    if !few_enough(decoder, rest.len(), common.0.span) {
        return None;
    }
    let (mut flows, mut wrong) = (Vec::new(), 0);
    for words in rest {
        match line(decoder, words, fabric, common) {
            Some(flow) => flows.push(flow),
            None => wrong += 1,
        }
        if wrong >= WRONG_MAX {
            break;
        }
    }
    if wrong == 0 && flows.len() != count {
        let message = format!("{count} flows are announced, and {} follow", flows.len());
        return decoder.refuse(codes::SCENARIO, head[0].span, message);
    }
    if wrong > 0 {
        return None;
    }
    some_flows(decoder, flows, common.0.span)
}

fn line(
    decoder: &mut Decoder<'_>,
    words: &[Sp<String>],
    fabric: &Fabric,
    (common, origin): (&FlowSpec, Span),
) -> Option<FlowSpec> {
    let (from, to, bytes, start) = match words {
        [from, to, _, bytes, start] | [from, to, _, _, bytes, start] => (from, to, bytes, start),
        _ => {
            let message =
                format!("{} words, expected `src dst priority [port] bytes start`", words.len());
            return decoder.refuse(codes::SCENARIO, whole(words), message);
        }
    };
    let (a, b) = (host(decoder, from, fabric), host(decoder, to, fabric));
    let size: u64 = number(decoder, bytes, "number of bytes")?;
    let seconds: f64 = number(decoder, start, "number of seconds")?;
    let (a, b) = (a?, b?);
    let problem = match () {
        () if a == b => Some((whole(words), format!("`{}` would send to itself", from.value))),
        () if !(1..=SIZE_MAX.get()).contains(&size) => {
            Some((bytes.span, format!("a flow of {size} bytes: expected 1 to 10^18")))
        }
        () if !(0.0..1e6).contains(&seconds) => {
            Some((start.span, format!("a start at {seconds} s: expected 0 to 10^6")))
        }
        () => None,
    };
    if let Some((place, message)) = problem {
        return decoder.refuse(codes::SCENARIO, place, message);
    }
    let at = since(decoder, start.span, (seconds * 1e12).round() as u64, origin)?;
    Some(listed(common, (a, b, Bytes::new(size)), at, whole(words)))
}

/// A topology; properties that it does not have (the MTU) are those of `base`.
pub(super) fn topology(
    decoder: &mut Decoder<'_>,
    (file, text): (FileId, &str),
    base: &LinkSetup,
) -> Option<Fabric> {
    let lines = lines(file, text);
    let [head, rest @ ..] = lines.as_slice() else { return empty(decoder, file) };
    let [nodes, switches, links] = head.as_slice() else {
        let message = "expected the numbers of nodes, of switches and of links";
        return decoder.refuse(codes::SCENARIO, whole(head), message);
    };
    let place = nodes.span;
    let nodes: usize = number(decoder, nodes, "number of nodes")?;
    let switches: usize = number(decoder, switches, "number of switches")?;
    let links: usize = number(decoder, links, "number of links")?;
    if nodes > NUMBERS_MAX || links > NUMBERS_MAX {
        let message = format!("{nodes} nodes and {links} links: at most {NUMBERS_MAX} are read");
        return decoder.refuse(codes::LIMIT, place, message);
    }
    // The numbers of the switches may be on several lines.
    let mut numbers = Vec::new();
    let mut rest = rest.iter();
    while numbers.len() < switches {
        let Some(words) = rest.next() else {
            let message = format!("{switches} switches are announced, and {} named", numbers.len());
            return decoder.refuse(codes::SCENARIO, place, message);
        };
        for word in words {
            numbers.push(below(decoder, word, nodes)?);
        }
    }
    let numbers: BTreeSet<usize> = numbers.into_iter().collect();
    let mut fabric = Fabric { is_numbered: true, ..Fabric::default() };
    for node in 0..nodes {
        let kind = if numbers.contains(&node) { NodeKind::Switch } else { NodeKind::Host };
        fabric.add(format!("n{node}"), kind);
    }
    for words in rest {
        join(decoder, words, base, &mut fabric)?;
    }
    if fabric.links.len() != links {
        let message = format!("{links} links are announced, and {} follow", fabric.links.len());
        return decoder.refuse(codes::SCENARIO, place, message);
    }
    let lonely = fabric.nodes.iter().find(|node| node.links.is_empty());
    if let Some(node) = lonely {
        let message = format!("`{}` has no link", node.name);
        return decoder.refuse(codes::SCENARIO, place, message);
    }
    Some(fabric)
}

fn empty(decoder: &mut Decoder<'_>, file: FileId) -> Option<Fabric> {
    let place = SourceSpan { file, start: 0, end: 0 };
    decoder.refuse(codes::SCENARIO, place, "an empty file is no topology")
}

fn below(decoder: &mut Decoder<'_>, word: &Sp<String>, nodes: usize) -> Option<usize> {
    let found: usize = number(decoder, word, "number of a node")?;
    if found >= nodes {
        let message = format!("there is no node {found}: numbers are below {nodes}");
        return decoder.refuse(codes::UNKNOWN, word.span, message);
    }
    Some(found)
}

fn join(
    decoder: &mut Decoder<'_>,
    words: &[Sp<String>],
    base: &LinkSetup,
    fabric: &mut Fabric,
) -> Option<()> {
    let [a, b, rate, delay, loss @ ..] = words else {
        let message = format!("{} words, expected `src dst rate delay loss`", words.len());
        return decoder.refuse(codes::SCENARIO, whole(words), message);
    };
    let nodes = fabric.nodes.len();
    let ends = (below(decoder, a, nodes)?, below(decoder, b, nodes)?);
    let mut setup = *base;
    let bps = with_unit(decoder, rate, RATES)?;
    let Some(bps) = BitsPerSec::new(bps.round() as u64) else {
        let message = format!("`{}`: a link has 1 bit/s at least", rate.value);
        return decoder.refuse(codes::BAD_NUMBER, rate.span, message);
    };
    setup.rate = bps;
    setup.delay = Span::from_ps(with_unit(decoder, delay, TIMES)?.round() as u64);
    if let Some(word) = loss.first() {
        let share: f64 = number(decoder, word, "share of frames")?;
        let Ok(loss) = format!("{} %", share * 100.0).parse::<Probability>() else {
            let message =
                format!("`{}` is no share of frames: 0 to 1, in steps of 10^-10", word.value);
            return decoder.refuse(codes::BAD_NUMBER, word.span, message);
        };
        setup.loss = loss;
    }
    let host = |node: &usize| fabric.nodes[*node].kind == NodeKind::Host;
    let taken = [ends.0, ends.1]
        .into_iter()
        .filter(host)
        .find(|node| !fabric.nodes[*node].links.is_empty());
    if let Some(host) = taken.or((ends.0 == ends.1).then_some(ends.0)) {
        let message = format!(
            "another link of `{}`: a host has one, to another node",
            fabric.nodes[host].name
        );
        return decoder.refuse(codes::SCENARIO, whole(words), message);
    }
    fabric.join(ends.0, ends.1, setup);
    Some(())
}

/// Units of rates in bit/s and of times in picoseconds, longest names first.
const RATES: &[(&str, f64)] = &[
    ("Gbps", 1e9),
    ("Mbps", 1e6),
    ("Kbps", 1e3),
    ("Gb/s", 1e9),
    ("Mb/s", 1e6),
    ("Kb/s", 1e3),
    ("bps", 1.0),
];
const TIMES: &[(&str, f64)] = &[("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("ps", 1.0), ("s", 1e12)];

fn with_unit(decoder: &mut Decoder<'_>, word: &Sp<String>, units: &[(&str, f64)]) -> Option<f64> {
    let found = units.iter().find_map(|(unit, factor)| {
        let number: f64 = word.value.strip_suffix(unit)?.parse().ok()?;
        (number >= 0.0 && number * factor < 1e18).then_some(number * factor)
    });
    if found.is_none() {
        let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        let message =
            format!("`{}` is no number with one of the units {}", word.value, names.join(", "));
        decoder.diagnostics.error(codes::BAD_NUMBER, word.span, message);
    }
    found
}
