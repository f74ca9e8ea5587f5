//! `collectives` of a scenario.

use std::collections::BTreeSet;

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Span;

use super::flows::{Context, FLOWS_MAX, MESSAGE_MAX, members, plain};
use super::quantity::{bounded, quantity, size, span};
use super::shapes;
use crate::lab::workload::{Algorithm, Collective, Operation, Source};
use crate::units::Probability;

/// Most messages and steps of all ranks together.
const STEPS_MAX: u64 = 4_000_000;
/// Default number of chunks of a tree.
const CHUNKS: u32 = 8;

/// Reads `collectives`.
pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Vec<Source> {
    let mut found: Vec<Collective> = Vec::new();
    for item in decoder.one_or_more(node, "a collective") {
        let Some(fields) = decoder.map(item, &shapes::COLLECTIVE) else { continue };
        let Some(one) = one(decoder, &fields, context) else { continue };
        if found.iter().any(|known| known.name == one.name) {
            let message = format!("there is a collective `{}` already", one.name);
            decoder
                .diagnostics
                .error(codes::TWICE, fields.span, message)
                .help("give it a `name` of its own");
            continue;
        }
        found.push(one);
    }
    found.into_iter().map(Source::Collective).collect()
}

fn one(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    context: &Context<'_>,
) -> Option<Collective> {
    let operation = decoder.choice(fields.get("operation")?, Operation::NAMES)?;
    let kind = Operation::by_name(&operation.value)?;
    let common = plain(decoder, fields, context)?;
    let bytes = size(decoder, fields.get("size")?, "a collective")?;
    let name = match fields.get("name") {
        Some(node) => decoder.name(node)?.value,
        None => operation.value.clone(),
    };
    let algorithm = match fields.get("algorithm") {
        Some(node) if kind != Operation::AllReduce => {
            let message =
                format!("`{}` has one algorithm: only `all_reduce` has others", operation.value);
            return decoder.refuse(codes::SCENARIO, node.span, message);
        }
        Some(node) => Algorithm::by_name(&decoder.choice(node, Algorithm::NAMES)?.value)?,
        None => Algorithm::Ring,
    };
    let ranks = match fields.get("ranks") {
        Some(node) => members(decoder, node, context.fabric)?,
        None => context.fabric.hosts().collect(),
    };
    ranks_fit(decoder, fields, (&ranks, algorithm, kind), context)?;
    let time = |decoder: &mut Decoder<'_>, key: &str| match fields.get(key) {
        Some(node) => span(decoder, node),
        None => Some(Span::ZERO),
    };
    let (compute, expert) = (time(decoder, "compute")?, time(decoder, "expert")?);
    let jitter = match fields.get("jitter") {
        Some(node) => quantity::<Probability>(decoder, node)?.value.get() as f64 / 4_294_967_296.0,
        None => 0.0,
    };
    let iterations = match fields.get("iterations") {
        Some(node) => bounded(decoder, node, "iterations", (1, 1_000_000))? as u32,
        None => 1,
    };
    let chunks = match fields.get("chunks") {
        Some(node) => bounded(decoder, node, "chunks", (1, 4096))? as u32,
        None => CHUNKS,
    };
    only_of(decoder, fields, "chunks", algorithm == Algorithm::Tree, "`algorithm: tree`")?;
    only_of(decoder, fields, "skew", kind == Operation::Moe, "`operation: moe`")?;
    only_of(decoder, fields, "expert", kind == Operation::Moe, "`operation: moe`")?;
    only_of(decoder, fields, "jitter", !compute.is_zero(), "`compute`")?;
    let (stragglers, slower) = stragglers(decoder, fields, (&ranks, compute), context)?;
    let skew = skew(decoder, fields)?;
    let collective = Collective {
        name,
        common,
        ranks,
        operation: kind,
        algorithm,
        size: bytes,
        iterations,
        compute,
        jitter,
        stragglers,
        slower,
        chunks,
        expert,
        skew,
    };
    not_too_much(decoder, fields, &collective)?;
    Some(collective)
}

/// Refuses a key without effect.
fn only_of(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    key: &str,
    fits: bool,
    what: &str,
) -> Option<()> {
    match fields.get(key).filter(|_| !fits) {
        None => Some(()),
        Some(node) => {
            let message = format!("`{key}` means nothing without {what}");
            decoder.refuse(codes::SCENARIO, node.span, message)
        }
    }
}

fn ranks_fit(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    (ranks, algorithm, operation): (&[usize], Algorithm, Operation),
    context: &Context<'_>,
) -> Option<()> {
    let place = fields.place("ranks").unwrap_or(fields.span);
    let mut known = BTreeSet::new();
    let twice = ranks.iter().find(|host| !known.insert(**host));
    let halves = algorithm == Algorithm::HalvingDoubling && operation == Operation::AllReduce;
    let problem = match twice {
        Some(host) => format!("`{}` is in this collective twice", context.fabric.nodes[*host].name),
        None if ranks.len() < 2 => format!("a collective of {} ranks: at least 2", ranks.len()),
        None if halves && !ranks.len().is_power_of_two() => {
            format!("`halving_doubling` of {} ranks: expected a power of two", ranks.len())
        }
        None => return Some(()),
    };
    decoder.refuse(codes::SCENARIO, place, problem)
}

fn stragglers(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    (ranks, compute): (&[usize], Span),
    context: &Context<'_>,
) -> Option<(Vec<usize>, f64)> {
    let Some(node) = fields.get("stragglers") else { return Some((Vec::new(), 1.0)) };
    only_of(decoder, fields, "stragglers", !compute.is_zero(), "`compute`")?;
    let own = decoder.map(node, &shapes::STRAGGLERS)?;
    let of = members(decoder, own.get("of")?, context.fabric)?;
    if let Some(other) = of.iter().find(|host| !ranks.contains(host)) {
        let message =
            format!("`{}` is no rank of this collective", context.fabric.nodes[*other].name);
        return decoder.refuse(codes::SCENARIO, own.span, message);
    }
    let slower = decoder.real(own.get("slower")?)?;
    if !(1.0..=1000.0).contains(&slower.value) {
        let message = format!("{} times slower: expected 1 to 1000", slower.value);
        return decoder.refuse(codes::SCENARIO, slower.span, message);
    }
    Some((of, slower.value))
}

fn skew(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<f64> {
    let Some(node) = fields.get("skew") else { return Some(0.0) };
    let skew = decoder.real(node)?;
    if !(0.0..=4.0).contains(&skew.value) || (skew.value * 2.0).fract() != 0.0 {
        let message = format!("a skew of {}: expected 0 to 4 in steps of 0.5", skew.value);
        return decoder.refuse(codes::SCENARIO, skew.span, message);
    }
    Some(skew.value)
}

fn not_too_much(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    collective: &Collective,
) -> Option<()> {
    let ((steps, flows), longest) = (collective.extent(), collective.longest());
    let problem = if steps > STEPS_MAX {
        format!("{steps} steps of all ranks and iterations: at most {STEPS_MAX}")
    } else if flows > FLOWS_MAX as u64 {
        format!("{flows} connections: at most {FLOWS_MAX}")
    } else if longest > MESSAGE_MAX {
        format!("messages of {longest}: at most {MESSAGE_MAX}")
    } else {
        return Some(());
    };
    decoder.refuse(codes::LIMIT, fields.span, problem)
}
