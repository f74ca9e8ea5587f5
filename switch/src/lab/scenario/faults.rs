//! `faults` of a scenario: faults and changes, with their times.

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::source::decode::{Decoder, Fields};
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
            return decoder.refuse(codes::SCENARIO, item.span, message);
        }
        Some(fault)
    });
    found.sort_by_key(|fault| fault.at);
    found.into_iter().fold(Vec::new(), together)
}

/// A fault that begins during one of the same link, host or storm extends it: both end with the later one. Changes of
/// thresholds may overlap.
fn together(mut faults: Vec<Fault>, mut fault: Fault) -> Vec<Fault> {
    let (mut is_known, mut until) = (false, fault.until);
    let mut during: Vec<&mut Fault> = faults
        .iter_mut()
        .filter(|known| {
            is_of_same(&known.kind, &fault.kind)
                && known.until.is_none_or(|until| until >= fault.at)
        })
        .collect();
    for known in &during {
        until = until.zip(known.until).map(|(one, other)| one.max(other));
        is_known |= known.kind == fault.kind;
    }
    during.iter_mut().for_each(|known| known.until = until);
    // A second cut of a link stays with a `reroute_after` of its own.
    if !is_known {
        fault.until = until;
        faults.push(fault);
    }
    faults
}

/// Whether both stop the same packets.
fn is_of_same(one: &FaultKind, other: &FaultKind) -> bool {
    match (one, other) {
        (FaultKind::LinkDown { link, .. }, FaultKind::LinkDown { link: other, .. }) => {
            link == other
        }
        _ => one.stops_packets() && one == other,
    }
}

fn fault(decoder: &mut Decoder<'_>, node: &Node, fabric: &Fabric) -> Option<Fault> {
    let fields = decoder.map(node, &shapes::FAULT)?;
    let at = Time::ZERO + instant(decoder, fields.get("at")?)?;
    let until = match fields.get("until") {
        Some(node) => {
            let until = Time::ZERO + instant(decoder, node)?;
            if until <= at {
                let message = "`until` is not after `at`";
                return decoder.refuse(codes::SCENARIO, node.span, message);
            }
            Some(until)
        }
        None => None,
    };
    let kinds = ["link_down", "pause_storm", "slow_receiver", "ecn_off", "thresholds"];
    let mut written = kinds.into_iter().filter(|kind| fields.get(kind).is_some());
    let (Some(kind), other) = (written.next(), written.next()) else {
        let message = format!("a fault of what kind? write one of `{}`", kinds.join("`, `"));
        return decoder.refuse(codes::MISSING_KEY, fields.span, message);
    };
    if let Some(other) = other {
        decoder.exclude(&fields, kind, other);
        return None;
    }
    for (key, of) in [("reroute_after", "link_down"), ("priority", "pause_storm")] {
        if fields.get(key).is_some() && kind != of {
            decoder.needs(&fields, key, of);
            return None;
        }
    }
    let kind = read_kind(decoder, &fields, kind, fabric)?;
    Some(Fault { at, until, kind, span: fields.span })
}

/// What a fault does: its key is one of the kinds.
fn read_kind(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    kind: &str,
    fabric: &Fabric,
) -> Option<FaultKind> {
    let node = fields.get(kind)?;
    let host = |decoder: &mut Decoder<'_>| {
        let name = decoder.word(node)?;
        flows::host(decoder, &name, fabric)
    };
    Some(match kind {
        "link_down" => {
            let link = topology::link_named(decoder, node, fabric)?;
            let reroute_after = match fields.get("reroute_after") {
                Some(node) => Some(span(decoder, node)?),
                None => None,
            };
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
        _ if decoder.flag(node)? => FaultKind::EcnOff,
        _ => {
            let message = "a fault that does not switch marking off: it changes nothing";
            decoder.diagnostics.error(codes::SCENARIO, node.span, message).help(
                "give the one with `ecn_off: true` an `until`: switches mark again from then on",
            );
            return None;
        }
    })
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
            return decoder.refuse(codes::WRONG_KIND, node.span, message);
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
            return decoder.refuse(codes::UNKNOWN, node.span, message);
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
        return decoder.refuse(codes::MISSING_KEY, fields.span, message);
    }
    if let (Some(kmin), Some(kmax)) = (found.kmin, found.kmax)
        && kmin > kmax
    {
        let message = format!("kmin {kmin} is above kmax {kmax}");
        return decoder.refuse(codes::SCENARIO, fields.span, message);
    }
    Some(found)
}
