//! Connection matrices of htsim (`.cm`): flows, and triggers that let one begin when another is done.
//!
//! `Nodes N`, `Connections N`, `Triggers N`; `A->B id N (start PS | trigger T) size BYTES [send_done_trigger T]
//! [recv_done_trigger T]`; `trigger id T oneshot` or `trigger id T barrier count N`. Numbers of hosts begin with 0,
//! times are picoseconds, a size of 0 is unlimited. A trigger is visible only at the host where it happens: the sender
//! of a connection that is done sending, the receiver of one that is received. So it can start connections of that host
//! alone; other simulators notify every host at once, which no network does.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_tables::time::{Span, Time};

use super::flow_file::{WRONG_MAX, listed, since, some_flows};
use super::flows::{MESSAGE_MAX, few_enough};
use super::hpcc::host;
use super::quantity::SIZE_MAX;
use super::sheets::{lines, number, whole};
use super::{FlowSpec, MESSAGE};
use crate::lab::fabric::Fabric;
use crate::lab::workload::collective::WINDOW;
use crate::lab::workload::{Gate, Need, Source};
use crate::units::Bytes;

/// Words of a connection after its ends, with a number each.
const KEYS: [&str; 7] =
    ["id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio"];

/// A trigger: how often it must happen, its place, its causes.
struct Trigger {
    count: usize,
    span: SourceSpan,
    needs: Vec<(usize, Need)>,
}

/// The content of a file, before it is combined.
#[derive(Default)]
struct Matrix {
    flows: Vec<FlowSpec>,
    /// Flow, its trigger, and their place.
    started: Vec<(usize, u64, SourceSpan)>,
    triggers: BTreeMap<u64, Trigger>,
    /// Trigger, host, need, and their place.
    done: Vec<(u64, usize, Need, SourceSpan)>,
}

/// The flows of a file, and their conditions.
pub(super) fn flows(
    decoder: &mut Decoder<'_>,
    (file, text): (FileId, &str),
    fabric: &Fabric,
    common: (&FlowSpec, Span),
) -> Option<Source> {
    let (mut matrix, mut wrong) = (Matrix::default(), 0);
    let mut announced = None;
    for words in lines(file, text) {
        let read = match words[0].value.as_str() {
            "Nodes" => nodes(decoder, &words, fabric),
            "Connections" => second(decoder, &words).and_then(|word| {
                announced =
                    Some((number::<usize>(decoder, word, "number of connections")?, word.span));
                Some(())
            }),
            "Triggers" | "Failures" => Some(()),
            "trigger" => matrix.trigger(decoder, &words),
            _ => matrix.connection(decoder, &words, fabric, common),
        };
        if read.is_none() {
            wrong += 1;
        }
        if wrong >= WRONG_MAX || !few_enough(decoder, matrix.flows.len(), common.0.span) {
            return None;
        }
    }
    if wrong > 0 {
        return None;
    }
    if let Some((count, span)) = announced.filter(|(count, _)| *count != matrix.flows.len()) {
        let message =
            format!("{count} connections are announced, and {} follow", matrix.flows.len());
        return decoder.refuse(codes::SCENARIO, span, message);
    }
    matrix.flows = some_flows(decoder, matrix.flows, common.0.span)?;
    matrix.joined(decoder)
}

/// The numbers of a connection, by name.
fn given(
    decoder: &mut Decoder<'_>,
    words: &[Sp<String>],
) -> Option<BTreeMap<&'static str, (u64, SourceSpan)>> {
    let mut given: BTreeMap<&'static str, (u64, SourceSpan)> = BTreeMap::new();
    for pair in words.chunks(2) {
        let [key, value] = pair else {
            return decoder.refuse(codes::SCENARIO, pair[0].span, "a word without its number");
        };
        let Some(known) = KEYS.into_iter().find(|known| *known == key.value) else {
            let message = format!("`{}` is unknown", key.value);
            decoder
                .diagnostics
                .error(codes::UNKNOWN, key.span, message)
                .did_you_mean(&key.value, KEYS);
            return None;
        };
        given.insert(known, (number(decoder, value, "whole number")?, value.span));
    }
    Some(given)
}

/// The number behind the first word; reported if missing.
fn second<'w>(decoder: &mut Decoder<'_>, words: &'w [Sp<String>]) -> Option<&'w Sp<String>> {
    if words.len() < 2 {
        decoder.diagnostics.error(codes::SCENARIO, whole(words), "a word without its number");
    }
    words.get(1)
}

fn nodes(decoder: &mut Decoder<'_>, words: &[Sp<String>], fabric: &Fabric) -> Option<()> {
    let count = second(decoder, words)?;
    let count: usize = number(decoder, count, "number of nodes")?;
    let hosts = fabric.hosts().count();
    if count > hosts {
        let message = format!("a matrix of {count} nodes, and the topology has {hosts} hosts");
        return decoder.refuse(codes::SCENARIO, whole(words), message);
    }
    Some(())
}

impl Matrix {
    fn trigger(&mut self, decoder: &mut Decoder<'_>, words: &[Sp<String>]) -> Option<()> {
        let texts: Vec<&str> = words.iter().map(|word| word.value.as_str()).collect();
        let count = match texts.as_slice() {
            ["trigger", "id", _, "oneshot"] => 1,
            ["trigger", "id", _, "barrier", "count", _] => {
                number(decoder, &words[5], "number of connections")?
            }
            _ => {
                let message = "expected `trigger id T oneshot` or `trigger id T barrier count N`";
                return decoder.refuse(codes::SCENARIO, whole(words), message);
            }
        };
        let id: u64 = number(decoder, &words[2], "number of a trigger")?;
        let trigger = Trigger { count, span: whole(words), needs: Vec::new() };
        if self.triggers.insert(id, trigger).is_some() {
            let message = format!("trigger {id} is declared twice");
            return decoder.refuse(codes::TWICE, words[2].span, message);
        }
        Some(())
    }

    fn connection(
        &mut self,
        decoder: &mut Decoder<'_>,
        words: &[Sp<String>],
        fabric: &Fabric,
        (common, origin): (&FlowSpec, Span),
    ) -> Option<()> {
        let Some((a, b)) = words[0].value.split_once("->") else {
            let message = format!("`{}` begins no line of a connection matrix", words[0].value);
            return decoder.refuse(codes::SCENARIO, words[0].span, message);
        };
        let end = |text: &str| Sp::new(text.to_owned(), words[0].span);
        let from = host(decoder, &end(a), fabric);
        let (from, to) = (from?, host(decoder, &end(b), fabric)?);
        if from == to {
            let message = format!("`{}` would send to itself", fabric.nodes[from].name);
            return decoder.refuse(codes::SCENARIO, words[0].span, message);
        }
        let given = given(decoder, &words[1..])?;
        let span = whole(words);
        let Some(&(bytes, at)) = given.get("size") else {
            return decoder.refuse(codes::MISSING_KEY, span, "a connection needs its `size`");
        };
        if bytes > SIZE_MAX.get() {
            return decoder.refuse(codes::LIMIT, at, "at most 10^18 bytes");
        }
        let start = match given.get("start") {
            Some((ps, place)) => since(decoder, *place, *ps, origin)?,
            None => Time::ZERO,
        };
        let size = Bytes::new(bytes.max(1));
        let flow = self.flows.len();
        let mut spec = listed(common, (from, to, size), start, span);
        if bytes == 0 {
            (spec.size, spec.message) = (None, MESSAGE);
        }
        self.flows.push(spec);
        if let Some((trigger, place)) = given.get("trigger") {
            self.started.push((flow, *trigger, *place));
        }
        if let Some((trigger, place)) = given.get("send_done_trigger") {
            self.done.push((*trigger, from, Need::Completed(flow, 1), *place));
        }
        if let Some((trigger, place)) = given.get("recv_done_trigger") {
            self.done.push((*trigger, to, Need::Arrived(flow, 1), *place));
        }
        Some(())
    }

    /// Triggers become gates of the hosts where they happen.
    fn joined(mut self, decoder: &mut Decoder<'_>) -> Option<Source> {
        for (id, host, need, span) in std::mem::take(&mut self.done) {
            let Some(trigger) = self.triggers.get_mut(&id) else {
                return decoder.refuse(codes::UNKNOWN, span, format!("there is no trigger {id}"));
            };
            trigger.needs.push((host, need));
            self.gated(decoder, need, span)?;
        }
        let started = std::mem::take(&mut self.started);
        // A file may have a million triggers: an index avoids a search for each.
        let mut by_trigger: BTreeMap<u64, Vec<&(usize, u64, SourceSpan)>> = BTreeMap::new();
        for one in &started {
            by_trigger.entry(one.1).or_default().push(one);
        }
        let mut gates = Vec::new();
        for (id, trigger) in &self.triggers {
            let Some(flows) = by_trigger.get(id) else { continue };
            let Some((first, _, place)) = flows.first() else { continue };
            let (happen, count) = (trigger.needs.len(), trigger.count);
            if happen != count {
                let message = format!(
                    "trigger {id} waits for {count} connections, and {happen} make it happen"
                );
                return decoder.refuse(codes::SCENARIO, trigger.span, message);
            }
            let host = self.flows[*first].from;
            let here = |(at, _): &(usize, Need)| *at == host;
            if !trigger.needs.iter().all(here)
                || flows.iter().any(|(flow, ..)| self.flows[*flow].from != host)
            {
                let message =
                    format!("trigger {id} happens at one host, and starts a connection of another");
                decoder.diagnostics.error(codes::SCENARIO, *place, message).note(
                    "a host knows what it has sent and received; what others know has to be sent to it, as a connection of its own",
                );
                return None;
            }
            gates.push(Gate {
                host,
                needs: trigger.needs.iter().map(|(_, need)| *need).collect(),
                delay: Span::ZERO,
                releases: flows.iter().map(|(flow, ..)| *flow).collect(),
                iteration: 0,
                step: 0,
            });
        }
        for (flow, id, span) in &started {
            if !self.triggers.contains_key(id) {
                return decoder.refuse(codes::UNKNOWN, *span, format!("there is no trigger {id}"));
            }
            self.gated(decoder, Need::Completed(*flow, 1), *span)?;
        }
        if let Some(id) = self.circle(&started) {
            let message = format!(
                "trigger {id} never happens: it waits for connections that wait for it, by themselves or through other \
                 triggers"
            );
            return decoder.refuse(codes::SCENARIO, self.triggers[&id].span, message);
        }
        self.start_gates(&started, &mut gates);
        Some(Source::Triggered(self.flows, gates))
    }

    /// A trigger that waits for itself, through the connections `started` by triggers.
    fn circle(&self, started: &[(usize, u64, SourceSpan)]) -> Option<u64> {
        let by: BTreeMap<usize, u64> = started.iter().map(|(flow, id, _)| (*flow, *id)).collect();
        let by = &by;
        // The triggers without which a trigger does not happen.
        let causes = |id: u64| {
            let needs = self.triggers.get(&id).into_iter().flat_map(|trigger| &trigger.needs);
            needs.filter_map(move |(_, need)| match need {
                Need::Completed(flow, _) | Need::Arrived(flow, _) => by.get(flow).copied(),
                Need::Opened(_) => None,
            })
        };
        let mut effects: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut missing: BTreeMap<u64, usize> = BTreeMap::new();
        for &id in self.triggers.keys() {
            missing.insert(id, causes(id).count());
            causes(id).for_each(|cause| effects.entry(cause).or_default().push(id));
        }
        let mut happen: Vec<u64> =
            missing.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
        while let Some(id) = happen.pop() {
            missing.remove(&id);
            for effect in effects.remove(&id).unwrap_or_default() {
                let Some(count) = missing.get_mut(&effect) else { continue };
                *count -= 1;
                if *count == 0 {
                    happen.push(effect);
                }
            }
        }
        // Each that is left waits for another one: following them leads into a circle.
        let (mut at, mut seen) = (*missing.keys().next()?, BTreeSet::new());
        while seen.insert(at) {
            at = causes(at).find(|cause| missing.contains_key(cause))?;
        }
        Some(at)
    }

    /// Makes a connection that waits, or that another waits for, one message of which its receiver is notified.
    fn gated(&mut self, decoder: &mut Decoder<'_>, need: Need, span: SourceSpan) -> Option<()> {
        let (Need::Arrived(flow, _) | Need::Completed(flow, _)) = need else { return Some(()) };
        let spec = &mut self.flows[flow];
        let Some(size) = spec.size.filter(|size| *size <= MESSAGE_MAX) else {
            let message = "a connection with a trigger is one message, of 1 to 2^31 bytes";
            return decoder.refuse(codes::SCENARIO, span, message);
        };
        (spec.is_gated, spec.message, spec.window) = (true, size, WINDOW);
        Some(())
    }

    /// Adds gates for connections that others wait for and that have a start time of their own.
    fn start_gates(&self, started: &[(usize, u64, SourceSpan)], gates: &mut Vec<Gate>) {
        let waiting: BTreeSet<usize> = started.iter().map(|(flow, ..)| *flow).collect();
        for (flow, spec) in self.flows.iter().enumerate() {
            if spec.is_gated && !waiting.contains(&flow) {
                gates.push(Gate {
                    host: spec.from,
                    needs: Vec::new(),
                    delay: spec.start.since(Time::ZERO),
                    releases: vec![flow],
                    iteration: 0,
                    step: 0,
                });
            }
        }
    }
}
