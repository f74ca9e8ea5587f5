//! A lab host: the adapter's program on a core, with the wire on port 1 and the end point on port 2.
//!
//! The behaviour of a host is in [`crate::host`] and [`crate::roce`]. This module sets its addresses, queues and rate
//! controls; `connection` adds flows.

mod connection;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Span, Time};

use super::addresses::{host_ip, host_lid, host_mac};
use super::build::link_type;
use super::error::{FlowError, LabError, RateControlError};
use super::fabric::LinkSetup;
use super::queues::wire_overhead;
use super::scenario::{CnpPer, FlowSpec, HostSetup, Scenario, Transport};
use crate::config::qos::{PortLink, PortSection, Problem, Qos, QosConfig};
use crate::core::Core;
use crate::frames::cnp::CnpConfig;
use crate::frames::envelope::{Class, Refused, mapped};
use crate::frames::{Frames, Mac};
use crate::host::{
    Classes, END_POINT_PORT, EndPointPort, GateId, GateReport, HostConfig, WIRE_PORT, end_point,
};
use crate::ports::Port;
use crate::ports::PortNumber;
use crate::program::{DeviceOptions, Loaded};
use crate::roce::np::{NpConfig, Pacing, WindowEnd};
use crate::roce::rp::program::{Instance, Program, Sender};
use crate::roce::rp::{RateAlgorithm, dcqcn};
use crate::tm::{FlowControlFrame, PfcFrame};
use crate::units::{BitsPerSec, Bytes, Length, Quanta};

pub use connection::{Connection, FlowStatus};
pub(super) use connection::{add_gates, connect, probe, wrong_bytes};

/// The port of a host's end point.
pub(super) const END_POINT: PortNumber = END_POINT_PORT;

/// Default queues of a host.
const QUEUES: &str = include_str!("host/queues.json");
/// Factor by which the link between adapter and end point is faster than the wire.
const INSIDE: u64 = 10;

/// Frames that the end point of a host discarded, by reason.
pub(super) fn discarded(core: &mut Core) -> Vec<(&'static str, u64)> {
    let Some(end) = end_of(core) else { return Vec::new() };
    let refused = Refused::ALL.iter().map(|why| why.name()).zip(end.counters().refused);
    refused.filter(|(_, count)| *count > 0).collect()
}

/// The end point of a host.
fn end_of(core: &mut Core) -> Option<&mut EndPointPort> {
    end_point(core, END_POINT_PORT)
}

/// Programs of adapters, each read once.
#[derive(Default)]
pub(super) struct Adapters(BTreeMap<Option<PathBuf>, Loaded>);

impl Adapters {
    pub(super) fn of(
        &mut self,
        setup: &HostSetup,
        max_state: Option<u64>,
    ) -> Result<&Loaded, LabError> {
        match self.0.entry(setup.program.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let loaded =
                    super::build::program(setup.program.as_deref(), "roce_nic", max_state, &[]);
                Ok(place.insert(loaded?))
            }
        }
    }
}

/// A host without flows.
pub(super) fn build(
    scenario: &Scenario,
    node: usize,
    base: &Loaded,
    memory: PacketMemory,
    device: DeviceOptions,
    wires: Vec<Box<dyn Port>>,
) -> Result<Core, LabError> {
    let fabric = &scenario.fabric;
    let name = &fabric.nodes[node].name;
    let no_link = || LabError::NoLink(name.clone());
    let link = *fabric.nodes[node].links.first().ok_or_else(no_link)?;
    let setup = fabric.links[link].setup;
    let mut core = base.device_on(memory, device)?;
    let qos = queues(scenario.host_of(node), &setup)
        .map_err(|problems| LabError::AdapterQueues { host: name.clone(), problems })?;
    core.set_qos(&qos)?;
    core.ports_mut().set_mac(WIRE_PORT, host_mac(node));
    core.ports_mut().set_mac(END_POINT_PORT, host_mac(node));
    let wire = wires.into_iter().next().ok_or_else(no_link)?;
    core.add_port(WIRE_PORT, wire)?;
    let config = host_config(scenario, node, setup.rate);
    let end = EndPointPort::new(config, Frames::shared()?);
    core.add_port(END_POINT_PORT, Box::new(end))?;
    Ok(core)
}

/// Queues of an adapter in the scenario, otherwise the lab's.
pub(super) fn queues_config(host: &HostSetup) -> serde_json::Result<QosConfig> {
    match &host.qos {
        Some(config) => Ok(config.clone()),
        None => serde_json::from_str(QUEUES),
    }
}

/// Queues of an adapter: rate and cable of the wire, a fast link to the end point.
///
/// # Errors
/// Contradictions, with their numbers.
pub(super) fn queues(host: &HostSetup, link: &LinkSetup) -> Result<Qos, Vec<Problem>> {
    let (rate, mtu) = (link.rate, link.mtu);
    let cable = super::build::cable(link.delay);
    let mut config =
        queues_config(host).map_err(|error| vec![Problem::new("queues", error.to_string())])?;
    let longest = Some(Bytes::new(mtu.get() + 4));
    let overhead = wire_overhead(host.transport);
    let wire = PortSection { cable: Some(cable), mtu: longest, ..overhead.clone() };
    let zero = Some(crate::units::Interval::new(Span::ZERO));
    let inside = PortSection {
        cable: Some(Length::metres(0)),
        mtu: longest,
        peer_response: zero,
        interface_delay: zero,
        ..overhead
    };
    let fast = BitsPerSec::new(rate.get() * INSIDE).unwrap_or(rate);
    let mut links = Vec::new();
    for (number, section, rate) in [(WIRE_PORT, wire, rate), (END_POINT_PORT, inside, fast)] {
        let own = config.ports.entry(number.to_string()).or_default();
        *own = own.over(&config.port_defaults).over(&section);
        links.push(PortLink { number, rate: Some(rate) });
    }
    config.resolve(&links).map_err(|report| report.problems)
}

fn host_config(scenario: &Scenario, node: usize, rate: BitsPerSec) -> HostConfig {
    let setup = scenario.host_of(node);
    let base = match setup.transport {
        Transport::Infiniband => {
            HostConfig::infiniband(&scenario.fabric.nodes[node].name, host_lid(node))
        }
        _ => HostConfig::ethernet(
            &scenario.fabric.nodes[node].name,
            Mac(host_mac(node)),
            mapped(host_ip(node)),
        ),
    };
    let cnp =
        CnpConfig { class: Class { dscp: setup.cnp_dscp, ..Class::CNP }, ..CnpConfig::default() };
    HostConfig {
        link: link_type(setup.transport),
        classes: classes(setup),
        cnp,
        trimmed_dscps: setup.trimmed_dscps,
        rate: Some(rate),
        np: Some(notification(setup, rate)),
        ..base
    }
}

fn classes(setup: &HostSetup) -> Classes {
    let ecn = if setup.ecn { 2 } else { 0 };
    let plain = Classes::default();
    Classes {
        data: Class { dscp: setup.data_dscp, ecn, pcp: setup.data_pcp, vl: setup.data_pcp },
        ..plain
    }
}

/// Classes of a flow that has a DSCP of its own: the adapter's pauses refer to the class of that DSCP in its maps.
fn own_classes(setup: &HostSetup, link: &LinkSetup) -> Result<Classes, FlowError> {
    let qos = queues(setup, link).map_err(|_| FlowError::Queues)?;
    let wire = qos.ports.first().ok_or(FlowError::Queues)?;
    let pcp = wire.classifier.class(setup.data_dscp, u8::MAX);
    let classes = classes(setup);
    Ok(Classes { data: Class { pcp, ..classes.data }, ..classes })
}

/// The notification point: that of the preset, with the settings of the scenario.
fn notification(setup: &HostSetup, rate: BitsPerSec) -> NpConfig {
    let plain = NpConfig::default();
    let window_end = match setup.rate_control.as_str() {
        "connectx" => WindowEnd::Forget,
        _ => WindowEnd::SendPending,
    };
    let pacing = match setup.cnp_per {
        CnpPer::Flow => Pacing::PerFlow,
        CnpPer::Pair => Pacing::PerPair,
        CnpPer::Port => Pacing::PerPort,
    };
    NpConfig { interval: cnp_interval(setup, rate), pacing, window_end, ..plain }
}

/// Least time between two CNPs: the scenario's, the preset's, the paper's.
pub fn cnp_interval(setup: &HostSetup, rate: BitsPerSec) -> Span {
    let line = setup.dilation.undone(rate).get() as f64;
    let usual = match &setup.rate_program {
        Some(program) => program.notification().cnp_interval,
        None => dcqcn::preset::by_name(&setup.rate_control, line)
            .map_or(NpConfig::default().interval, |preset| preset.cnp_interval),
    };
    setup.cnp_interval.or(setup.dilation.span(usual)).unwrap_or(Span::MAX)
}

/// The rate control of a sender on a link of this rate; with its DCQCN parameters, if it has them.
///
/// # Errors
/// An unknown name, or invalid parameters.
pub fn rate_control(
    setup: &HostSetup,
    rate: BitsPerSec,
) -> Result<(RateAlgorithm, Option<dcqcn::DcqcnParams>), RateControlError> {
    if let Some(program) = &setup.rate_program {
        let instance = rate_program(setup, program, rate)?;
        return Ok((RateAlgorithm::Program(Arc::new(instance)), None));
    }
    let line = rate.get() as f64;
    if setup.rate_control == "fixed" {
        return Ok((RateAlgorithm::fixed(line)?, None));
    }
    let nominal = setup.dilation.undone(rate).get() as f64;
    let mut parameters = dcqcn::preset::by_name(&setup.rate_control, nominal)?.rp;
    for (name, value) in &setup.parameters {
        parameters.apply(name, value)?;
    }
    let parameters = parameters.dilated(setup.dilation).ok_or(RateControlError::Periods)?;
    let profile = parameters.clone().profile()?;
    Ok((RateAlgorithm::Dcqcn(profile), Some(parameters)))
}

/// A program with the configured parameters, for a sender on a link of this rate.
///
/// # Errors
/// An unknown parameter, or an invalid value.
pub fn rate_program(
    setup: &HostSetup,
    program: &Arc<Program>,
    rate: BitsPerSec,
) -> Result<Instance, RateControlError> {
    let sender = Sender {
        line_rate_bps: rate.get(),
        packet_bytes: setup.path_mtu.get() as u32,
        dilation: setup.dilation,
    };
    let mut given = Vec::new();
    for (name, written) in &setup.parameters {
        let parameter = program.parameters().iter().find(|known| known.name == *name);
        let parameter = parameter.ok_or_else(|| RateControlError::NoParameter(name.clone()))?;
        given.push((name.clone(), parameter.parse(&written.to_string())?));
    }
    Ok(Instance::new(program, &sender, &given)?)
}

/// The report of a gate of a host.
pub(super) fn gate(cores: &mut [Box<Core>], host: usize, id: GateId) -> Option<GateReport> {
    end_of(&mut cores[host])?.gate(id)
}

/// Rates that the reaction point of a flow may have, bit/s.
pub(super) fn rate_bounds(scenario: &Scenario, spec: &FlowSpec) -> (f64, f64) {
    let link = scenario.fabric.nodes[spec.from].links[0];
    let line = scenario.fabric.links[link].setup.rate;
    match rate_control(&scenario.sender(spec), line) {
        Ok((_, Some(parameters))) => (parameters.min_rate_bps, parameters.line_rate_bps),
        _ => (0.0, line.get() as f64),
    }
}

/// Sends one pause from a host's wire, as a broken adapter does; returns the time of the next pause.
pub(super) fn pause_once(
    scenario: &Scenario,
    host: usize,
    priority: u8,
    core: &mut Core,
    now: Time,
) -> Span {
    let link = scenario.fabric.nodes[host].links[0];
    let rate = scenario.fabric.links[link].setup.rate;
    let mut pause = PfcFrame { vector: 1 << priority, quanta: [Quanta::ZERO; 8] };
    pause.quanta[usize::from(priority)] = Quanta::MAX;
    if let Ok(frames) = Frames::shared() {
        let frame = FlowControlFrame::Pfc(pause);
        // From the CPU port, independent of the traffic manager's own pauses.
        core.inject(&frames.flow_control.build(Mac(host_mac(host)), &frame), now);
    }
    Span::from_ps(Quanta::MAX.span(rate).as_ps() / 2)
}

/// Most packets of a flow without an acknowledgement.
pub(super) fn window_packets(scenario: &Scenario, spec: &FlowSpec) -> u64 {
    let Messages { count, length, .. } = messages(spec);
    let under_way = count.unwrap_or(u64::MAX).min(u64::from(spec.window));
    let packet = scenario.host_of(spec.from).path_mtu.get();
    u64::from(length).div_ceil(packet).max(1).saturating_mul(under_way)
}

/// The messages of a flow.
pub(super) struct Messages {
    /// How many; `None`: without end.
    pub(super) count: Option<u64>,
    /// Bytes of each but the last.
    pub(super) length: u32,
    /// Bytes of the last.
    pub(super) last: u32,
}

/// The messages of a flow; the reader has refused longer ones than possible.
pub(super) fn messages(spec: &FlowSpec) -> Messages {
    let equal = |count, length: Bytes| {
        let length = length.get() as u32;
        Messages { count, length, last: length }
    };
    let Some(size) = spec.size else { return equal(None, spec.message) };
    if spec.rounds > 1 || spec.is_gated {
        return equal(Some(spec.rounds.into()), size);
    }
    // As few as the configured length allows, of equal length; the last one has what is left.
    let count = size.get().div_ceil(spec.message.get()).max(1);
    let length = size.get().div_ceil(count);
    let last = size.get() - (count - 1) * length;
    Messages { count: Some(count), length: length as u32, last: last as u32 }
}
