//! Flows with random arrivals; and the check that the links can carry the load of all items.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Time;

use super::quantity::{bounded, instant, positive_span, quantity};
use super::reading::{Context, Reading};
use super::sheets::{is_file, lines, number};
use super::{FlowSpec, HostSetup, Scenario};
use crate::lab::fabric::Fabric;
use crate::lab::ideal_completion::wire_bytes;
use crate::lab::workload::{Arrivals, FanIn, Incasts, Sizes, Source};
use crate::units::{Bytes, Probability};

/// The common settings of an item's flows, its senders and its receivers.
type Item = (FlowSpec, Vec<usize>, Vec<usize>);

impl Reading<'_, '_> {
    /// `load`: flows by a Poisson process.
    pub(super) fn arrivals(&mut self, (common, from, to): Item) -> Option<Arrivals> {
        let load = share(self.decoder, self.fields.get("load")?)?;
        let sizes = match (self.get("sizes"), common.size) {
            (Some(_), Some(_)) => return self.exclude("sizes", "size"),
            (Some(node), None) => sizes(self.decoder, node, self.context)?,
            (None, Some(size)) => Sizes::fixed(size),
            (None, None) => {
                let message = "a `load` needs `sizes` (or one `size`)";
                let place = self.fields.span;
                let error = self.decoder.diagnostics.error(codes::MISSING_KEY, place, message);
                error.help(format!("one of {}, or a file", Sizes::NAMES.join(", ")));
                return None;
            }
        };
        let until = self.until(common.start)?;
        if !to.iter().any(|to| from.iter().any(|from| from != to)) {
            let message = "nothing to send to: senders and receivers are one host";
            return self.refuse(codes::SCENARIO, message);
        }
        Some(Arrivals { common, from, to, load, sizes, until })
    }

    /// `pattern: incast`: several hosts send to one, repeatedly.
    pub(super) fn incasts(&mut self, (common, from, to): Item) -> Option<Incasts> {
        if common.size.is_none() {
            return self.refuse(codes::MISSING_KEY, "an incast needs the `size` of its flows");
        }
        let Some(node) = self.get("fan_in") else {
            let message = "an incast needs `fan_in`: how many send at a time";
            return self.refuse(codes::MISSING_KEY, message);
        };
        let others = |to: &usize| from.iter().filter(|from| *from != to).count();
        let most = to.iter().map(others).min().unwrap_or(0) as u64;
        let what = "senders of an incast, of those that are not its receiver";
        let senders = bounded(self.decoder, node, what, (1, most))? as usize;
        let rate = match (self.get("every"), self.get("load")) {
            (Some(_), Some(_)) => return self.exclude("every", "load"),
            (Some(node), None) => {
                FanIn::Every(positive_span(self.decoder, node, "the time between incasts")?)
            }
            (None, Some(node)) => FanIn::Load(share(self.decoder, node)?),
            (None, None) => {
                return self.refuse(codes::MISSING_KEY, "an incast needs `every` or a `load`");
            }
        };
        let until = self.until(common.start)?;
        Some(Incasts { common, from, to, senders, rate, until })
    }

    /// When the last flow may begin.
    fn until(&mut self, start: Time) -> Option<Time> {
        let end = self.context.end;
        if start >= end {
            let (start, end) = (start.since(Time::ZERO), end.since(Time::ZERO));
            let message = format!("flows would arrive from {start} on, and the run ends at {end}");
            let place = self.get("start").map_or(self.fields.span, |node| node.span);
            let error = self.decoder.diagnostics.error(codes::SCENARIO, place, message);
            error.help("start them earlier, or make `duration` longer");
            return None;
        }
        let Some(node) = self.get("until") else { return Some(end) };
        let until = Time::ZERO + instant(self.decoder, node)?;
        if until > end {
            let message = "`until` is after the end of the run";
            let error = self.decoder.diagnostics.error(codes::SCENARIO, node.span, message);
            error.help(
                "make it at most `duration`, or leave it out: flows arrive until the end then",
            );
            return None;
        }
        if until <= start {
            let message = "nothing arrives: `until` is not after `start`";
            return self.decoder.refuse(codes::SCENARIO, node.span, message);
        }
        Some(until)
    }
}

/// A part of a link, above zero.
fn share(decoder: &mut Decoder<'_>, node: &Node) -> Option<f64> {
    let text = decoder.scalar(node, "a load")?.text;
    let percent = text.trim().strip_suffix('%').and_then(|text| text.trim().parse::<f64>().ok());
    // More than 100 % is no probability, and is reported with the number where all items are known.
    let found = match percent.filter(|percent| *percent > 100.0 && percent.is_finite()) {
        Some(percent) => percent / 100.0,
        None => quantity::<Probability>(decoder, node)?.value.get() as f64 / 4_294_967_296.0,
    };
    if found <= 0.0 {
        return decoder.refuse(codes::SCENARIO, node.span, "a load of zero sends nothing");
    }
    Some(found)
}

/// A distribution by name, or from a file of lines `bytes percent`.
fn sizes(decoder: &mut Decoder<'_>, node: &Node, context: &Context<'_>) -> Option<Sizes> {
    let name = decoder.word(node)?;
    if !is_file(node) {
        return Sizes::named(&name.value);
    }
    if !name.value.contains(['.', '/']) {
        let message = format!("there is no distribution `{}`", name.value);
        let error = decoder.diagnostics.error(codes::UNKNOWN, name.span, message);
        error.note(format!("there are {}; another one is a file", Sizes::NAMES.join(", ")));
        error.did_you_mean(&name.value, Sizes::NAMES.iter().copied());
        return None;
    }
    let id = context.sheets.text_of(decoder, node)?;
    let lines = lines(id, &context.files[id].text);
    let mut points = Vec::new();
    for words in &lines {
        let [bytes, percent] = words.as_slice() else {
            let message = format!("{} words, expected bytes and percent", words.len());
            return decoder.refuse(codes::SCENARIO, words[0].span, message);
        };
        points.push((
            number(decoder, bytes, "number of bytes")?,
            number(decoder, percent, "percentage")?,
        ));
    }
    match Sizes::new(&name.value, points) {
        Ok(sizes) => Some(sizes),
        Err((place, why)) => {
            let span = lines.get(place).map_or(node.span, |words| words[0].span);
            decoder.refuse(codes::SCENARIO, span, why)
        }
    }
}

/// Bits per second on the wire that one item offers, by host: sent and received.
type Offered = BTreeMap<usize, [f64; 2]>;

/// Reports links of hosts that would be overloaded: such a run never reaches a steady state.
pub(super) fn fit(decoder: &mut Decoder<'_>, scenario: &Scenario) {
    let items: Vec<_> =
        scenario.sources.iter().filter_map(|source| offered(source, scenario)).collect();
    let mut worst: Option<(f64, usize, usize)> = None;
    let mut place = None;
    // The sum of those at one time is largest when one of them has just begun.
    for at in items.iter().map(|(_, common, _)| common.start).collect::<BTreeSet<Time>>() {
        let mut all = Offered::new();
        let now = items.iter().filter(|(_, common, until)| common.start <= at && at < *until);
        for (offered, common, _) in now {
            for (host, parts) in offered {
                let sum = all.entry(*host).or_default();
                for side in 0..2 {
                    sum[side] += parts[side];
                    let load = sum[side] / rate(&scenario.fabric, *host);
                    if load > worst.map_or(1.0, |(most, ..)| most) {
                        (worst, place) = (Some((load, *host, side)), Some(common.span));
                    }
                }
            }
        }
    }
    let (Some((load, host, side)), Some(span)) = (worst, place) else { return };
    let name = &scenario.fabric.nodes[host].name;
    let does = ["send", "receive"][side];
    let message = format!(
        "a load of {:.1} %: `{name}` would {does} {:.3} Gbit/s, headers among them, over a link of {:.3} Gbit/s",
        load * 100.0,
        load * rate(&scenario.fabric, host) / 1e9,
        rate(&scenario.fabric, host) / 1e9
    );
    let error = decoder.diagnostics.error(codes::SCENARIO, span, message);
    error.help("at most 100 % of a host's link, all items of one time together: flows would wait longer and longer, and no figure be that of a steady state");
}

fn rate(fabric: &Fabric, host: usize) -> f64 {
    let link = fabric.nodes[host].links.first();
    link.map_or(1.0, |link| fabric.links[*link].setup.rate.get() as f64)
}

/// What an item offers, with its common settings and its end.
fn offered<'s>(source: &'s Source, scenario: &Scenario) -> Option<(Offered, &'s FlowSpec, Time)> {
    let fabric = &scenario.fabric;
    let wire = |setup: &HostSetup, size: Bytes| wire_bytes(setup, size.get()) as f64;
    let mut offered = Offered::new();
    match source {
        Source::Arrivals(load) => {
            for &from in &load.from {
                let setup = scenario.host_of(from);
                let more = load.sizes.mean_of(|size| wire(setup, size))
                    / load.sizes.mean_of(|size| size.get() as f64);
                let sent = rate(fabric, from) * load.load * more;
                let others: Vec<usize> = load.to.iter().copied().filter(|to| *to != from).collect();
                if others.is_empty() {
                    continue;
                }
                offered.entry(from).or_default()[0] += sent;
                for to in &others {
                    offered.entry(*to).or_default()[1] += sent / others.len() as f64;
                }
            }
            Some((offered, &load.common, load.until))
        }
        Source::Incasts(incasts) => {
            let size = incasts.common.size?;
            let flows = incasts.senders as f64 / incasts.interval(fabric);
            let each = flows / incasts.from.len() as f64;
            let mut all = 0.0;
            for from in &incasts.from {
                let bits = wire(scenario.host_of(*from), size) * 8.0 * each;
                offered.entry(*from).or_default()[0] += bits;
                all += bits;
            }
            for to in &incasts.to {
                offered.entry(*to).or_default()[1] += all / incasts.to.len() as f64;
            }
            Some((offered, &incasts.common, incasts.until))
        }
        _ => None,
    }
}
