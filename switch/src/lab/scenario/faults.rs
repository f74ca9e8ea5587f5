//! `faults` of a scenario: faults and changes, with their times.

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::Node;
use wireyard_tables::time::Time;

use super::quantity::{bounded, chance, instant, quantity, span};
use super::{Fault, FaultKind, Tuning, flows, shapes, topology};
use crate::lab::fabric::{Fabric, NodeKind};
use crate::units::Bytes;

/// Reads `faults`, in the order of time; none begins after the run, at `end`.
pub(super) fn read(
    decoder: &mut Decoder<'_>,
    node: &Node,
    fabric: &Fabric,
    end: Time,
) -> Vec<Fault> {
    let mut found = decoder.each(node, "a fault", |decoder, item| {
        let fault = fault(decoder, item, fabric)?;
        if fault.at >= end {
            let (at, end) = (fault.at.since(Time::ZERO), end.since(Time::ZERO));
            let message = format!("a fault would begin at {at}, and the run ends at {end}");
            decoder.diagnostics.error(codes::SCENARIO, item.span, message);
            return None;
        }
        Some(fault)
    });
    found.sort_by_key(|fault| fault.at);
    found.into_iter().fold(Vec::new(), together)
}

/// A fault that begins during the same one extends it: it ends with the later one. Changes of thresholds may overlap.
fn together(mut faults: Vec<Fault>, fault: Fault) -> Vec<Fault> {
    let lasts = |known: &&mut Fault| {
        fault.kind.stops_packets()
            && known.kind == fault.kind
            && known.until.is_none_or(|until| until >= fault.at)
    };
    match faults.iter_mut().find(lasts) {
        Some(known) => {
            known.until = known.until.zip(fault.until).map(|(one, other)| one.max(other));
        }
        None => faults.push(fault),
    }
    faults
}

fn fault(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Fault> {
    let fields = decoder.map(node, &shapes::FAULT)?;
    let at = Time::ZERO + instant(decoder, fields.get("at")?)?;
    let until = match fields.get("until") {
        Some(node) => {
            let until = Time::ZERO + instant(decoder, node)?;
            if until <= at {
                let message = "`until` is not after `at`";
                decoder.diagnostics.error(codes::SCENARIO, node.span, message);
                return None;
            }
            Some(until)
        }
        None => None,
    };
    let kinds = ["link_down", "pause_storm", "slow_receiver", "ecn_off", "thresholds"];
    let mut written = kinds.into_iter().filter(|kind| fields.get(kind).is_some());
    let (Some(kind), other) = (written.next(), written.next()) else {
        let message = format!("a fault of what kind? write one of `{}`", kinds.join("`, `"));
        decoder.diagnostics.error(codes::MISSING_KEY, fields.span, message);
        return None;
    };
    if let Some(other) = other {
        decoder.exclude(&fields, kind, other);
        return None;
    }
    let node = fields.get(kind)?;
    let host = |decoder: &mut Decoder<'_>| {
        let name = decoder.word(node)?;
        flows::host(decoder, &name, fabric)
    };
    let reroute_after = match fields.get("reroute_after") {
        Some(_) if kind != "link_down" => {
            decoder.needs(&fields, "reroute_after", "link_down");
            return None;
        }
        Some(node) => Some(span(decoder, node)?),
        None => None,
    };
    let kind = match kind {
        "link_down" => {
            let link = topology::link_named(decoder, node, fabric)?;
            FaultKind::LinkDown { link, reroute_after }
        }
        "pause_storm" => {
            let priority = match fields.get("priority") {
                Some(node) => bounded(decoder, node, "a priority", (0, 7))? as u8,
                None => 3,
            };
            FaultKind::PauseStorm { host: host(decoder)?, priority }
        }
        "slow_receiver" => FaultKind::SlowReceiver { host: host(decoder)? },
        "thresholds" => FaultKind::Thresholds(tuning(decoder, node, fabric)?),
        _ => {
            decoder.flag(node)?;
            FaultKind::EcnOff
        }
    };
    Some(Fault { at, until, kind, span: fields.span })
}

/// Thresholds of a fault.
fn tuning(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Tuning> {
    let fields = decoder.map(node, &shapes::TUNING)?;
    let mut found = Tuning::default();
    if let Some(node) = fields.get("switch") {
        let switch = topology::node_named(decoder, node, fabric)?;
        if fabric.nodes[switch].kind != NodeKind::Switch {
            let message =
                format!("`{}` is a host: it has no thresholds", fabric.nodes[switch].name);
            decoder.diagnostics.error(codes::WRONG_KIND, node.span, message);
            return None;
        }
        found.switch = Some(switch);
    }
    if let Some(node) = fields.get("neighbour") {
        let neighbour = topology::node_named(decoder, node, fabric)?;
        let Some(switch) = found.switch else {
            decoder.needs(&fields, "neighbour", "switch");
            return None;
        };
        let Some(link) = fabric.between(switch, neighbour) else {
            let [a, b] = [switch, neighbour].map(|node| &fabric.nodes[node].name);
            let message = format!("there is no link between `{a}` and `{b}`");
            decoder.diagnostics.error(codes::UNKNOWN, node.span, message);
            return None;
        };
        found.port = Some(fabric.port(switch, link));
    }
    if let Some(node) = fields.get("queue") {
        found.queue = Some(bounded(decoder, node, "a queue", (0, 7))? as u8);
    }
    let level = |decoder: &mut Decoder<'_>, name: &str| match fields.get(name) {
        Some(node) => quantity::<Bytes>(decoder, node).map(|found| Some(found.value)),
        None => Some(None),
    };
    found.kmin = level(decoder, "kmin")?;
    found.kmax = level(decoder, "kmax")?;
    found.xoff_at = level(decoder, "xoff_at")?;
    if let Some(node) = fields.get("pmax") {
        found.pmax = Some(chance(decoder, node)?);
    }
    let changes = [found.kmin, found.kmax, found.xoff_at].iter().any(Option::is_some);
    if !changes && found.pmax.is_none() {
        let message = "which thresholds? write `kmin`, `kmax`, `pmax` or `xoff_at`";
        decoder.diagnostics.error(codes::MISSING_KEY, fields.span, message);
        return None;
    }
    if let (Some(kmin), Some(kmax)) = (found.kmin, found.kmax)
        && kmin > kmax
    {
        let message = format!("kmin {kmin} is above kmax {kmax}");
        decoder.diagnostics.error(codes::SCENARIO, fields.span, message);
        return None;
    }
    Some(found)
}
