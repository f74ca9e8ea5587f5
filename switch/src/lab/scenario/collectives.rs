//! `collectives` of a scenario.

use std::collections::BTreeSet;

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Span;

use super::flows::{FLOWS_MAX, MESSAGE_MAX, members};
use super::quantity::{bounded, chance, size, span};
use super::reading::{Context, Reading};
use super::shapes;
use crate::lab::workload::{Algorithm, Collective, Operation, Source};
use crate::units::Probability;

/// Most messages and steps of all ranks together.
const STEPS_MAX: u64 = 4_000_000;
/// Default number of chunks of a tree.
const CHUNKS: u64 = 8;

/// Reads `collectives`.
pub(super) fn read(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Vec<Source> {
    let mut found: Vec<Collective> = Vec::new();
    for item in decoder.one_or_more(node, "a collective") {
        let Some(fields) = decoder.map(item, &shapes::COLLECTIVE) else { continue };
        let one = Reading { decoder, fields: &fields, context }.collective();
        let Some(one) = one else { continue };
        if found.iter().any(|known| known.name == one.name) {
            let message = format!("there is a collective `{}` already", one.name);
            let error = decoder.diagnostics.error(codes::TWICE, fields.span, message);
            error.help("give it a `name` of its own");
            continue;
        }
        found.push(one);
    }
    found.into_iter().map(Source::Collective).collect()
}

impl Reading<'_, '_> {
    fn collective(&mut self) -> Option<Collective> {
        let operation = self.decoder.choice(self.fields.get("operation")?, Operation::NAMES)?;
        let kind = Operation::by_name(&operation.value)?;
        let common = self.plain()?;
        let bytes = size(self.decoder, self.fields.get("size")?, "a collective")?;
        let name = match self.get("name") {
            Some(node) => self.decoder.name(node)?.value,
            None => operation.value.clone(),
        };
        let algorithm = match self.get("algorithm") {
            Some(node) if kind != Operation::AllReduce => {
                let message = format!(
                    "`{}` has one algorithm: only `all_reduce` has others",
                    operation.value
                );
                return self.decoder.refuse(codes::SCENARIO, node.span, message);
            }
            Some(node) => Algorithm::by_name(&self.decoder.choice(node, Algorithm::NAMES)?.value)?,
            None => Algorithm::Ring,
        };
        let ranks = match self.get("ranks") {
            Some(node) => members(self.decoder, node, self.context.fabric)?,
            None => self.context.fabric.hosts().collect(),
        };
        self.ranks_fit(&ranks, algorithm, kind)?;
        let compute = self.given_or("compute", Span::ZERO, span)?;
        let expert = self.given_or("expert", Span::ZERO, span)?;
        let jitter = self.given_or("jitter", Probability::ZERO, chance)?;
        let iterations = self.given_or("iterations", 1, |decoder, node| {
            bounded(decoder, node, "iterations", (1, 1_000_000))
        })? as u32;
        let chunks = self.given_or("chunks", CHUNKS, |decoder, node| {
            bounded(decoder, node, "chunks", (1, 4096))
        })? as u32;
        self.only_of("chunks", algorithm == Algorithm::Tree, "`algorithm: tree`")?;
        self.only_of("skew", kind == Operation::Moe, "`operation: moe`")?;
        self.only_of("expert", kind == Operation::Moe, "`operation: moe`")?;
        self.only_of("jitter", !compute.is_zero(), "`compute`")?;
        let (stragglers, slower) = self.stragglers(&ranks, compute)?;
        let collective = Collective {
            name,
            common,
            ranks,
            operation: kind,
            algorithm,
            size: bytes,
            iterations,
            compute,
            jitter: jitter.get() as f64 / 4_294_967_296.0,
            stragglers,
            slower,
            chunks,
            expert,
            skew: self.given_or("skew", 0.0, skew)?,
        };
        self.not_too_much(&collective)?;
        Some(collective)
    }

    /// Refuses a key without effect.
    fn only_of(&mut self, key: &str, fits: bool, what: &str) -> Option<()> {
        let Some(node) = self.get(key).filter(|_| !fits) else { return Some(()) };
        let message = format!("`{key}` means nothing without {what}");
        self.decoder.refuse(codes::SCENARIO, node.span, message)
    }

    fn ranks_fit(
        &mut self,
        ranks: &[usize],
        algorithm: Algorithm,
        operation: Operation,
    ) -> Option<()> {
        let mut known = BTreeSet::new();
        let twice = ranks.iter().find(|host| !known.insert(**host));
        let halves = algorithm == Algorithm::HalvingDoubling && operation == Operation::AllReduce;
        let problem = match twice {
            Some(host) => {
                let name = &self.context.fabric.nodes[*host].name;
                format!("`{name}` is in this collective twice")
            }
            None if ranks.len() < 2 => format!("a collective of {} ranks: at least 2", ranks.len()),
            None if halves && !ranks.len().is_power_of_two() => {
                format!("`halving_doubling` of {} ranks: expected a power of two", ranks.len())
            }
            None => return Some(()),
        };
        let place = self.fields.place("ranks").unwrap_or(self.fields.span);
        self.decoder.refuse(codes::SCENARIO, place, problem)
    }

    fn stragglers(&mut self, ranks: &[usize], compute: Span) -> Option<(Vec<usize>, f64)> {
        let Some(node) = self.get("stragglers") else { return Some((Vec::new(), 1.0)) };
        self.only_of("stragglers", !compute.is_zero(), "`compute`")?;
        let (decoder, fabric) = (&mut *self.decoder, self.context.fabric);
        let own = decoder.map(node, &shapes::STRAGGLERS)?;
        let of = members(decoder, own.get("of")?, fabric)?;
        if let Some(other) = of.iter().find(|host| !ranks.contains(host)) {
            let message = format!("`{}` is no rank of this collective", fabric.nodes[*other].name);
            return decoder.refuse(codes::SCENARIO, own.span, message);
        }
        let slower = decoder.real(own.get("slower")?)?;
        if !(1.0..=1000.0).contains(&slower.value) {
            let message = format!("{} times slower: expected 1 to 1000", slower.value);
            return decoder.refuse(codes::SCENARIO, slower.span, message);
        }
        Some((of, slower.value))
    }

    fn not_too_much(&mut self, collective: &Collective) -> Option<()> {
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
        self.refuse(codes::LIMIT, problem)
    }
}

fn skew(decoder: &mut Decoder<'_>, node: &Node) -> Option<f64> {
    let skew = decoder.real(node)?;
    if !(0.0..=4.0).contains(&skew.value) || (skew.value * 2.0).fract() != 0.0 {
        let message = format!("a skew of {}: expected 0 to 4 in steps of 0.5", skew.value);
        return decoder.refuse(codes::SCENARIO, skew.span, message);
    }
    Some(skew.value)
}
