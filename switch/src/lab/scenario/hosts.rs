//! `host` of a scenario: the settings of every host, and whether its links permit them.
//!
//! Queues are defined in [`crate::config`], parameters in [`crate::roce::rp`]; here they are read, with errors at their
//! places.

use std::collections::{BTreeMap, BTreeSet};

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::Node;

use super::quantity::{bounded, positive_span, quantity, span};
use super::read::Reader;
use super::{
    CnpPer, FlowSpec, HostSetup, Outstanding, RateSetup, Scenario, Transport, flows, nic, shapes,
};
use crate::lab::fabric::Fabric;
use crate::lab::host::rate_control as rate_control_of;
use crate::lab::ideal_completion::RETH_BYTES;
use crate::roce::qp::{AckTimer, PathMtu, Retransmission, SELECTIVE_MAX};
use crate::roce::rp::dcqcn::Setting;
use crate::roce::telemetry::{RATES_BPS, rate_code};
use crate::units::{BitsPerSec, Bytes, Dilation};

/// Reads `host`; the default hosts without it.
pub(super) fn read(
    reader: &Reader<'_>,
    decoder: &mut Decoder<'_>,
    node: Option<&Node>,
) -> Option<HostSetup> {
    with_adapter(reader, decoder, None, node)
}

/// The same with another adapter than it names.
fn with_adapter(
    reader: &Reader<'_>,
    decoder: &mut Decoder<'_>,
    other: Option<&Node>,
    node: Option<&Node>,
) -> Option<HostSetup> {
    let mut setup = plain();
    let Some(node) = node else { return adapter(reader, decoder, other, setup) };
    let fields = decoder.map(node, &shapes::HOST)?;
    if let Some(node) = fields.get("transport") {
        let name = decoder.choice(node, Transport::NAMES)?;
        setup.transport = Transport::by_name(&name.value)?;
    }
    let setup = adapter(reader, decoder, other.or(fields.get("nic")), setup)?;
    fill(reader, decoder, &fields, setup)
}

/// The default host.
fn plain() -> HostSetup {
    HostSetup {
        transport: Transport::default(),
        program: None,
        qos: None,
        rate_control: "dcqcn".to_owned(),
        rate_program: None,
        parameters: Vec::new(),
        cnp_interval: None,
        cnp_per: CnpPer::default(),
        path_mtu: Bytes::new(1024),
        data_dscp: 26,
        cnp_dscp: 48,
        data_pcp: 3,
        ecn: true,
        ack_every: None,
        ack_timeout: 14,
        ack_timer: AckTimer::default(),
        retransmission: Retransmission::GoBackN,
        outstanding: None,
        spray: 0,
        trimmed_dscps: 0,
        rate_span: None,
        qos_span: None,
        dilation: Dilation::ONE,
    }
}

/// The keys of `nic`, applied over `setup`.
fn adapter(
    reader: &Reader<'_>,
    decoder: &mut Decoder<'_>,
    nic: Option<&Node>,
    setup: HostSetup,
) -> Option<HostSetup> {
    let Some(node) = nic else { return Some(setup) };
    let profile = nic::find(&decoder.choice(node, nic::NAMES)?.value)?;
    let keys = profile.node(node.span);
    let fields = decoder.map(&keys, &shapes::HOST)?;
    fill(reader, decoder, &fields, setup)
}

/// Most early timeouts.
const EARLY_MAX: usize = 64;

/// Reads `hosts`: those that differ from `host`, which is read here again with another adapter for those that name one.
pub(super) fn read_own(
    reader: &Reader<'_>,
    decoder: &mut Decoder<'_>,
    node: &Node,
    (host, written): (&HostSetup, Option<&Node>),
    fabric: &Fabric,
) -> BTreeMap<usize, HostSetup> {
    let mut found = BTreeMap::new();
    for item in decoder.one_or_more(node, "hosts") {
        let Some(fields) = decoder.map(item, &shapes::OWN_HOST) else { continue };
        let Some(of) = fields.get("of") else { continue };
        let Some(nodes) = flows::members(decoder, of, fabric) else { continue };
        let base = match fields.get("nic") {
            Some(nic) => {
                let (qos_span, rate_span) = (host.qos_span, host.rate_span);
                with_adapter(reader, decoder, Some(nic), written).map(|of| HostSetup {
                    qos_span,
                    rate_span: of.rate_span.or(rate_span),
                    ..of
                })
            }
            None => Some(host.clone()),
        };
        let Some(setup) = base.and_then(|base| fill(reader, decoder, &fields, base)) else {
            continue;
        };
        for node in nodes {
            if found.insert(node, setup.clone()).is_some() {
                let message = format!("`{}` is in `hosts` twice", fabric.nodes[node].name);
                decoder.diagnostics.error(codes::TWICE, of.span, message);
            }
        }
    }
    found
}

/// Applies the keys to `setup`.
fn fill(
    reader: &Reader<'_>,
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    mut setup: HostSetup,
) -> Option<HostSetup> {
    if let Some(node) = fields.get("program") {
        setup.program = Some(reader.program(decoder, node)?);
    }
    if let Some(node) = fields.get("ack_timeout") {
        setup.ack_timeout = bounded(decoder, node, "an ACK timeout", (0, 31))? as u8;
    }
    fill_timer(decoder, fields, &mut setup)?;
    if let Some(node) = fields.get("ack_every") {
        let found = bounded(decoder, node, "packets for an acknowledgement", (1, 1 << 20))?;
        setup.ack_every = Some(found as u32);
    }
    fill_losses(decoder, fields, &mut setup)?;
    if let Some(node) = fields.get("qos") {
        setup.qos = Some(crate::config::read_qos(node, decoder.diagnostics)?);
        setup.qos_span = fields.place("qos");
    }
    if let Some(node) = fields.get("rate_control") {
        let control = reader.controls.named(decoder, node)?;
        (setup.rate_control, setup.rate_program) = (control.name, control.program);
        setup.parameters.clear();
    }
    if let Some(node) = fields.get("parameters") {
        setup.parameters = parameters(decoder, node, &setup);
    }
    let written = fields.place("parameters").or(fields.place("rate_control"));
    setup.rate_span = written.or(setup.rate_span);
    if let Some(node) = fields.get("cnp_interval") {
        setup.cnp_interval = Some(span(decoder, node)?);
    }
    if let Some(node) = fields.get("cnp_per") {
        setup.cnp_per = match decoder.choice(node, shapes::CNP_PER)?.value.as_str() {
            "flow" => CnpPer::Flow,
            "pair" => CnpPer::Pair,
            _ => CnpPer::Port,
        };
    }
    if let Some(node) = fields.get("path_mtu") {
        setup.path_mtu = path_mtu(decoder, node)?;
    }
    if let Some(node) = fields.get("packet") {
        if fields.get("path_mtu").is_some() {
            decoder.exclude(fields, "packet", "path_mtu");
            return None;
        }
        setup.path_mtu = packet(decoder, node)?;
    }
    if let Some(node) = fields.get("data_dscp") {
        setup.data_dscp = bounded(decoder, node, "a DSCP", (0, 63))? as u8;
    }
    if let Some(node) = fields.get("cnp_dscp") {
        setup.cnp_dscp = bounded(decoder, node, "a DSCP", (0, 63))? as u8;
    }
    if let Some(node) = fields.get("data_pcp") {
        setup.data_pcp = bounded(decoder, node, "a VLAN priority", (0, 7))? as u8;
    }
    if let Some(node) = fields.get("ecn") {
        setup.ecn = decoder.flag(node)?;
    }
    Some(setup)
}

/// Reads `parameters` of a host: in `hosts`, those of `host` are there already.
fn parameters(decoder: &mut Decoder<'_>, node: &Node, setup: &HostSetup) -> Vec<(String, Setting)> {
    let (name, program) = (setup.rate_control.clone(), setup.rate_program.clone());
    let mut control = RateSetup { name, program, parameters: setup.parameters.clone() };
    control.read_parameters(decoder, node);
    control.parameters
}

/// Reads the timeouts for acknowledgements.
fn fill_timer(decoder: &mut Decoder<'_>, fields: &Fields<'_>, setup: &mut HostSetup) -> Option<()> {
    if let Some(node) = fields.get("ack_timeout_min") {
        setup.ack_timer.code_min = bounded(decoder, node, "an ACK timeout", (0, 31))? as u8;
    }
    if let Some(node) = fields.get("ack_timeout_factor") {
        setup.ack_timer.factor = bounded(decoder, node, "a factor", (1, 4))? as u8;
    }
    if let Some(node) = fields.get("early_timeouts") {
        let waits = decoder.one_or_more(node, "early_timeouts");
        if waits.len() > EARLY_MAX {
            let message = format!("{} early timeouts: at most {EARLY_MAX}", waits.len());
            return decoder.refuse(codes::LIMIT, node.span, message);
        }
        let waits = waits.iter().map(|wait| positive_span(decoder, wait, "an early timeout"));
        setup.ack_timer.early = waits.collect::<Option<_>>()?;
    }
    Some(())
}

/// Reads a host's handling of losses, and of several paths.
fn fill_losses(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
    setup: &mut HostSetup,
) -> Option<()> {
    if let Some(found) = retransmission(decoder, fields)? {
        setup.retransmission = found;
    }
    if let Some(node) = fields.get("outstanding") {
        setup.outstanding = Some(outstanding(decoder, node)?);
    }
    for key in ["spray", "trimmed_dscp"] {
        if fields.get(key).is_some() && setup.transport != Transport::RoceV2 {
            decoder.needs(fields, key, "transport: rocev2");
            return None;
        }
    }
    if let Some(node) = fields.get("spray") {
        setup.spray = spray(decoder, node)?;
    }
    if let Some(node) = fields.get("trimmed_dscp") {
        setup.trimmed_dscps = 0;
        for item in decoder.one_or_more(node, "trimmed_dscp") {
            setup.trimmed_dscps |= 1 << bounded(decoder, item, "a DSCP", (0, 63))?;
        }
    }
    Some(())
}

/// `outstanding`: payload, or `N packets`.
fn outstanding(decoder: &mut Decoder<'_>, node: &Node) -> Option<Outstanding> {
    let text = decoder.word(node)?.value;
    let Some(count) = text.strip_suffix("packets") else {
        let payload = quantity::<Bytes>(decoder, node)?.value;
        if payload.get() == 0 {
            let message = "nothing may be under way: expected a packet or more";
            return decoder.refuse(codes::SCENARIO, node.span, message);
        }
        return Some(Outstanding::Payload(payload));
    };
    let count = count.trim().parse().ok().filter(|count| (1..1 << 23).contains(count));
    if count.is_none() {
        let message = format!("`{text}`: expected 1 to 8388607 packets");
        decoder.diagnostics.error(codes::SCENARIO, node.span, message);
    }
    count.map(Outstanding::Packets)
}

/// `retransmission` with `reordering`; `Some(None)` if absent.
pub(super) fn retransmission(
    decoder: &mut Decoder<'_>,
    fields: &Fields<'_>,
) -> Option<Option<Retransmission>> {
    let found = match fields.get("retransmission") {
        Some(node) => Some(decoder.choice(node, shapes::RETRANSMISSION)?.value),
        None => None,
    };
    let selective = found.as_deref() == Some("selective");
    let reordering = match fields.get("reordering") {
        Some(_) if !selective => {
            decoder.needs(fields, "reordering", "retransmission: selective");
            return None;
        }
        Some(node) => {
            bounded(decoder, node, "packets that may overtake one", (0, u64::from(SELECTIVE_MAX)))?
                as u32
        }
        None => 0,
    };
    Some(found.map(|_| match selective {
        true => Retransmission::Selective { reordering },
        false => Retransmission::GoBackN,
    }))
}

/// `spray`: a power of two.
pub(super) fn spray(decoder: &mut Decoder<'_>, node: &Node) -> Option<u16> {
    let found = bounded(decoder, node, "UDP source ports", (1, 1 << 14))?;
    if !found.is_power_of_two() {
        let message = format!("{found} UDP source ports");
        let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        error.help("give a power of two, 1 to 16384: 1 sends all packets of a flow the same way");
        return None;
    }
    Some(found as u16)
}

/// Checks that every link accepts a full packet of the hosts: otherwise none would ever arrive.
pub(super) fn frames_fit(decoder: &mut Decoder<'_>, fields: &Fields<'_>, scenario: &Scenario) {
    let fabric = &scenario.fabric;
    // The packet with a RETH is the longest one (IBTA 9.3.3); frames of RoCEv1 are counted with it.
    let longest = |host: &HostSetup| match host.transport {
        Transport::RoceV1 => host.frame(),
        Transport::RoceV2 | Transport::Infiniband => {
            host.frame().saturating_add(Bytes::new(RETH_BYTES))
        }
    };
    let of_flows = scenario.flows.iter().map(|flow| longest(&scenario.sender(flow)));
    let Some(frame) = scenario.host_setups().map(longest).chain(of_flows).max() else { return };
    let Some(link) = (0..fabric.links.len()).find(|&n| fabric.links[n].setup.mtu < frame) else {
        return;
    };
    let span = fields.place("link").or(fields.place("topology")).unwrap_or(fields.span);
    let (name, mtu) = (fabric.link_name(link), fabric.links[link].setup.mtu);
    let message = format!(
        "link `{name}` takes frames of {mtu}, and a full packet of the hosts has {frame}: none would arrive"
    );
    let error = decoder.diagnostics.error(codes::SCENARIO, span, message);
    error.help("make `mtu` of the link larger, or `path_mtu` of the hosts smaller");
}

/// Checks that the rate control is valid on the link of every host that sends.
pub(super) fn rates_fit(decoder: &mut Decoder<'_>, scenario: &Scenario) {
    for RateProblem { span, message } in rate_problems(scenario) {
        decoder.diagnostics.error(codes::SCENARIO, span, message);
    }
}

/// A rate control that is invalid on a link.
pub(super) struct RateProblem {
    pub(super) span: SourceSpan,
    pub(super) message: String,
}

/// Rate controls that are invalid on the links of hosts that send.
pub(super) fn rate_problems(scenario: &Scenario) -> Vec<RateProblem> {
    let fabric = &scenario.fabric;
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for flow in &scenario.flows {
        let Some(&link) = fabric.nodes[flow.from].links.first() else { continue };
        let rate = fabric.links[link].setup.rate;
        let own = flow.own.as_ref().map(|_| flow.span.start);
        let host = scenario.hosts.contains_key(&flow.from).then_some(flow.from);
        if !known.insert((rate.get(), own, host)) {
            continue;
        }
        let host = scenario.sender(flow);
        let problem = match rate_control_of(&host, rate) {
            Err(problem) => problem.to_string(),
            Ok((_, Some(parameters))) if parameters.line_rate_bps > rate.get() as f64 => format!(
                "line_rate_bps {} is above the rate of the link, which nothing exceeds: leave it out",
                parameters.line_rate_bps
            ),
            Ok(_) => continue,
        };
        let name = &fabric.nodes[flow.from].name;
        let message = format!("`{name}` on its link of {rate}: {problem}");
        found.push(RateProblem { span: host.rate_span.unwrap_or(flow.span), message });
    }
    found
}

/// Flows spray over UDP source ports.
pub(super) fn sprays_fit(decoder: &mut Decoder<'_>, scenario: &Scenario) {
    let transport = scenario.host.transport;
    let sprays = |flow: &&FlowSpec| flow.own.as_ref().is_some_and(|own| own.spray.is_some());
    let Some(flow) = scenario.flows.iter().find(sprays) else { return };
    if transport != Transport::RoceV2 {
        let name = transport.name();
        let message = format!("`spray` needs UDP source ports, and frames of {name} have none");
        let error = decoder.diagnostics.error(codes::SCENARIO, flow.span, message);
        error.help("`transport: rocev2` has");
    }
}

/// Checks that a rate control that needs telemetry gets it: from switches that write it, in packets that have room,
/// about rates with a code.
pub(super) fn telemetry_fits(decoder: &mut Decoder<'_>, scenario: &Scenario) {
    let needs = scenario.flows.iter().find(|flow| scenario.sender(flow).telemetry());
    let Some(flow) = needs else { return };
    let (fabric, host) = (&scenario.fabric, scenario.sender(flow));
    let span = host.rate_span.unwrap_or(flow.span);
    let name = &host.rate_control;
    let mut wrong = |message: String, help: &str| {
        decoder.diagnostics.error(codes::SCENARIO, span, message).help(help.to_owned());
    };
    if scenario.host.transport != Transport::RoceV2 {
        let transport = scenario.host.transport.name();
        let message = format!("`{name}` needs telemetry, and frames of {transport} have no room");
        return wrong(message, "`transport: rocev2` has");
    }
    if scenario.switch.program.is_none() {
        let message = format!(
            "`{name}` needs telemetry, and switches without `program` run `rocev2_lossless`, which writes none"
        );
        return wrong(message, "name one that does: `switch: { program: hpcc_int }`");
    }
    let rate = |link: usize| host.dilation.undone(fabric.links[link].setup.rate);
    let links = fabric.switches().flat_map(|switch| fabric.nodes[switch].links.iter().copied());
    let without = links.into_iter().find(|&link| rate_code(rate(link).get()).is_none());
    if let Some(link) = without {
        let known = RATES_BPS[1..].iter().filter_map(|rate| BitsPerSec::new(*rate));
        let known: Vec<String> = known.map(|rate| rate.to_string()).collect();
        let message = format!(
            "`{name}` needs telemetry, which has no code for the {} of link `{}`",
            rate(link),
            fabric.link_name(link)
        );
        wrong(message, &format!("there are {}", known.join(", ")));
    }
}

/// Any size that needs no pad, for comparison with others.
fn packet(decoder: &mut Decoder<'_>, node: &Node) -> Option<Bytes> {
    let found = quantity::<Bytes>(decoder, node)?.value;
    if u32::try_from(found.get()).ok().and_then(PathMtu::any).is_none() {
        let message = format!("packets of {found}");
        let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        error.note("a full packet has a multiple of 4 bytes of payload, from 256 B to 16384 B");
        return None;
    }
    Some(found)
}

/// The sizes of IBTA 9.7.2.
fn path_mtu(decoder: &mut Decoder<'_>, node: &Node) -> Option<Bytes> {
    let found = quantity::<Bytes>(decoder, node)?.value;
    if ![256, 512, 1024, 2048, 4096].contains(&found.get()) {
        let message = format!("a path MTU of {found}");
        let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        error
            .note("InfiniBand has path MTUs of 256 B, 512 B, 1024 B, 2048 B and 4096 B of payload");
        return None;
    }
    Some(found)
}
