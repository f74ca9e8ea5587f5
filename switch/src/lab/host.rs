//! A lab host: the adapter's program on a core, with the wire on port 1 and the end point on port 2.
//!
//! Nothing here decides how a host behaves: that is [`crate::host`] and [`crate::roce`]. This gives it addresses, queues,
//! connections and flows, and reads its counters.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::{Deadline, Span, Time};

use super::addresses::{host_ip, host_lid, host_mac, port_mac};
use super::build::link_type;
use super::error::{FlowError, LabError, RateControlError};
use super::fabric::{Fabric, LinkSetup};
use super::queues::wire_overhead;
use super::scenario::{CnpPer, FlowSpec, HostSetup, Scenario, Transport};
use super::workload;
use crate::config::qos::{PortLink, PortSection, Problem, Qos, QosConfig};
use crate::core::Core;
use crate::frames::cnp::CnpConfig;
use crate::frames::envelope::{Address, Class, Encap, Refused, mapped, udp_src_port};
use crate::frames::{Frames, Mac};
use crate::host::{
    Classes, ConnectOptions, END_POINT_PORT, EndPointPort, FlowId, FlowOp, GateId, GateReport,
    HostConfig, Need, Peer, WIRE_PORT, end_point,
};
use crate::ports::Port;
use crate::program::{DeviceOptions, Loaded};
use crate::roce::memory::{Access, Synthetic};
use crate::roce::np::{NpConfig, Pacing, WindowEnd};
use crate::roce::opcode::Service;
use crate::roce::packet::{Bth, Headers};
use crate::roce::psn::Psn;
use crate::roce::qp::{PathMtu, QpConfig};
use crate::roce::rp::program::{Instance, Program, Sender};
use crate::roce::rp::{RateAlgorithm, RateState, dcqcn};
use crate::roce::telemetry::TELEMETRY_BYTES;
use crate::roce::verbs::{Remote, Sge};
use crate::tm::{FlowControlFrame, PfcFrame};
use crate::units::{BitsPerSec, Bytes, Length, Quanta};

/// The port of a host's end point.
pub(super) const END_POINT: u16 = END_POINT_PORT;

/// Queues of a host, where a scenario says nothing.
const QUEUES: &str = include_str!("host/queues.json");
/// A middle of a WRITE: data without more headers (RC RDMA WRITE Middle).
const PROBE_OPCODE: u8 = 0x07;
/// The way between the adapter and its end point is so much faster than the wire.
const INSIDE: u64 = 10;

/// What a flow has done, as both ends count it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStatus {
    /// When its first message was posted.
    pub started: Option<Time>,
    /// When its last one was completed.
    pub finished: Option<Time>,
    /// Messages posted.
    pub posted: u64,
    /// Messages completed.
    pub completed: u64,
    /// Sum of their times.
    pub total: Span,
    /// Shortest and longest of them.
    pub extremes: Option<(Span, Span)>,
    /// It ended in an error.
    pub failed: bool,
    /// Packets sent, repeats included.
    pub sent_packets: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// CNPs that its sender received.
    pub cnps: u64,
    /// Payload that its receiver took, once and in order.
    pub delivered_bytes: u64,
    /// Packets that its receiver took in.
    pub received_packets: u64,
    /// Packets that came ahead of their turn: behind a gap, or before one that was sent earlier.
    pub out_of_order: u64,
    /// Times the sender went back to send again.
    pub rewinds: u64,
    /// Packets that came behind one with a later sequence number: one at most for each time the sender went back, where none was
    /// overtaken.
    pub steps_back: u64,
    /// Times that nothing was heard for the ACK timeout.
    pub timeouts: u64,
    /// Packets that came trimmed.
    pub trimmed: u64,
    /// Packets that its sender took for lost because later ones came.
    pub overtaken: u64,
    /// How long it had nothing to send because so many messages were under way.
    pub waited: Span,
    /// State of its reaction point.
    pub rate: Option<RateState>,
}

/// A flow between two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Sending host.
    pub from: usize,
    /// Receiving host.
    pub to: usize,
    flow: FlowId,
    /// Queue pair of the sender.
    sender: u32,
    /// Queue pair of the receiver.
    receiver: u32,
    /// Key of the receiver's memory.
    rkey: u32,
}

impl Connection {
    /// What the flow has done, with its rate control as it is at `now`.
    pub fn status_at(&self, cores: &mut [Box<Core>], now: Time) -> FlowStatus {
        if let Some(end) = end_of(&mut cores[self.from]) {
            end.roce_mut().sync_rate(self.sender, now);
        }
        self.status(cores)
    }

    /// What the flow has done.
    pub fn status(&self, cores: &mut [Box<Core>]) -> FlowStatus {
        let Some(report) = end_of(&mut cores[self.from]).and_then(|end| end.flow(self.flow)) else {
            return FlowStatus::default();
        };
        let receiver = end_of(&mut cores[self.to]).and_then(|end| end.roce().qp(self.receiver));
        let received = receiver.map(|qp| *qp.counters()).unwrap_or_default();
        FlowStatus {
            started: report.stats.started,
            finished: report.stats.finished,
            posted: report.stats.posted,
            completed: report.stats.completed,
            total: report.stats.total,
            extremes: report.stats.shortest.zip(report.stats.longest),
            failed: report.stats.failed.is_some(),
            waited: report.stats.waited,
            sent_packets: report.qp.sent_packets,
            retransmitted: report.qp.retransmitted_packets,
            cnps: report.qp.cnps_received,
            delivered_bytes: received.accepted_payload_bytes,
            received_packets: received.received_packets,
            out_of_order: received.out_of_sequence,
            rewinds: report.qp.rewinds,
            steps_back: received.steps_back,
            timeouts: report.qp.timeouts,
            trimmed: received.trimmed_packets,
            overtaken: report.qp.overtaken_packets,
            rate: Some(report.rate),
        }
    }
}

#[cfg(test)]
impl Connection {
    /// The first bytes that the receiver expects.
    pub(super) fn first_bytes(&self, cores: &mut [Box<Core>]) -> Option<[u8; 64]> {
        let mut bytes = [0; 64];
        let memory = end_of(&mut cores[self.to])?.roce().memory();
        memory.backing(self.rkey)?.read(0, &mut bytes);
        Some(bytes)
    }
}

/// Bytes that a flow wrote into its receiver's memory and that are not those that were sent.
pub(super) fn wrong_bytes(flow: &Connection, cores: &mut [Box<Core>]) -> u64 {
    let end = end_of(&mut cores[flow.to]);
    let backing = end.and_then(|end| end.roce().memory().backing(flow.rkey));
    let memory = backing.and_then(|b| (b as &dyn std::any::Any).downcast_ref::<Synthetic>());
    memory.map_or(0, Synthetic::wrong_bytes)
}

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
    core.set_mac(WIRE_PORT, host_mac(node));
    core.set_mac(END_POINT_PORT, host_mac(node));
    let wire = wires.into_iter().next().ok_or_else(no_link)?;
    core.add_port(WIRE_PORT, wire)?;
    let config = host_config(scenario, node, setup.rate);
    let end = EndPointPort::new(config, Frames::shared()?);
    core.add_port(END_POINT_PORT, Box::new(end))?;
    Ok(core)
}

/// Queues of an adapter as the scenario says, or the lab's.
pub(super) fn queues_config(host: &HostSetup) -> serde_json::Result<QosConfig> {
    match &host.qos {
        Some(config) => Ok(config.clone()),
        None => serde_json::from_str(QUEUES),
    }
}

/// Queues of an adapter: rate and cable of the wire, a fast way to the end point.
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
        links.push(PortLink { name: number.to_string(), rate: Some(rate) });
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

/// Classes of a flow that has a DSCP of its own: pauses of the adapter are about the class that it gives to that DSCP.
fn own_classes(setup: &HostSetup, link: &LinkSetup) -> Result<Classes, FlowError> {
    let qos = queues(setup, link).map_err(|_| FlowError::Queues)?;
    let wire = qos.ports.first().ok_or(FlowError::Queues)?;
    let pcp = wire.classifier.class(setup.data_dscp, u8::MAX);
    let classes = classes(setup);
    Ok(Classes { data: Class { pcp, ..classes.data }, ..classes })
}

/// The notification point: that of the preset, with what the scenario says.
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

/// The rate control of a sender on a link of this rate; DCQCN parameters too, where it has them.
///
/// # Errors
/// An unknown name, or parameters that cannot be.
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

/// A program with the parameters that are written, for a sender on a link of this rate.
///
/// # Errors
/// A parameter that there is not, or that cannot be.
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

/// Both queue pairs of a flow.
fn queue_pair(
    setup: &HostSetup,
    spec: &FlowSpec,
    frame_overhead_bytes: u32,
    algorithm: RateAlgorithm,
) -> QpConfig {
    let usual = QpConfig::new(algorithm);
    let outstanding = setup.outstanding_packets();
    QpConfig {
        ack_every: setup.acks_every(),
        sq_depth: (spec.window as usize).max(128),
        frame_overhead_bytes,
        retransmission: setup.retransmission,
        ack_timer: setup.ack_timer.clone(),
        max_outstanding_packets: outstanding.unwrap_or(usual.max_outstanding_packets),
        ..usual
    }
}

/// Connects the two hosts of a flow and gives the sender its work.
pub(super) fn connect(
    scenario: &Scenario,
    spec: &FlowSpec,
    cores: &mut [Box<Core>],
) -> Result<Connection, FlowError> {
    let fabric = &scenario.fabric;
    let link = fabric.nodes[spec.from].links.first().ok_or(FlowError::NoLink)?;
    let link = &fabric.links[*link].setup;
    let setup = scenario.sender(spec);
    let (algorithm, _) = rate_control(&setup, link.rate)?;
    let mtu = PathMtu::any(setup.path_mtu.get() as u32).ok_or(FlowError::PathMtu)?;
    let there = address(fabric, (spec.from, spec.to), scenario.host.transport);
    let back = address(fabric, (spec.to, spec.from), scenario.host.transport);
    let telemetry = algorithm.telemetry();
    let queue_pair = queue_pair(&setup, spec, overhead(&there, telemetry), algorithm);
    let options =
        ConnectOptions { path_mtu: mtu, timeout: setup.ack_timeout, ..ConnectOptions::default() };
    let (messages, length) = messages(spec);
    let [sender, receiver] = cores
        .get_disjoint_mut([spec.from, spec.to])?
        .map(|core| end_of(core).ok_or(FlowError::NoEndPoint));
    let (sender, receiver) = (sender?, receiver?);
    let create = |end: &mut EndPointPort| {
        let created = end.roce_mut().create_qp(Service::Rc, &queue_pair);
        created.ok_or(FlowError::Full("no number for a queue pair"))
    };
    let (qp, receiver_qp) = (create(sender)?, create(receiver)?);
    let own = spec.own.as_ref().filter(|own| own.dscp.is_some() || own.ecn.is_some());
    let own = match own.map(|own| own.dscp) {
        Some(Some(_)) => Some(own_classes(&setup, link)?),
        Some(None) => Some(classes(&setup)),
        None => None,
    };
    join(sender, (qp, receiver_qp), &there, &options, (own, telemetry, setup.spray))?;
    join(receiver, (receiver_qp, qp), &back, &options, (None, telemetry, 0))?;
    // Numbers of queue pairs are the host's: with it, no two flows have the same bytes.
    let seed = (spec.from as u64) << 32 | u64::from(qp);
    let region = |end: &mut EndPointPort| {
        let backing = Synthetic::new(seed, u64::from(length));
        let key = end.roce_mut().memory_mut().register(0, Access::ALL, Box::new(backing));
        key.ok_or(FlowError::Full("no key"))
    };
    let (key, rkey) = (region(sender)?, region(receiver)?);
    let local = Sge { key, va: 0, len: length };
    let remote = Remote { va: 0, rkey };
    let plain = crate::host::FlowSpec {
        qp,
        op: FlowOp::Write(remote),
        local,
        messages,
        depth: spec.window,
        start: spec.start,
        end: Deadline::NEVER,
    };
    let flow = if spec.is_gated {
        // The receiver is notified of every message: its next steps wait for them.
        let posted =
            receiver.keep_receiving(receiver_qp, Sge { key: rkey, va: 0, len: 0 }, spec.window);
        posted.then_some(()).ok_or(FlowError::Full("a queue pair that takes no receives"))?;
        sender.add_gated_flow(crate::host::FlowSpec { op: FlowOp::WriteImm(remote), ..plain })
    } else {
        sender.add_flow(plain)
    };
    Ok(Connection { from: spec.from, to: spec.to, flow, sender: qp, receiver: receiver_qp, rkey })
}

/// A packet without payload on the way of a flow's data, as its host sends it.
pub(super) fn probe(scenario: &Scenario, spec: &FlowSpec, flow: &Connection) -> Option<Vec<u8>> {
    let to = address(&scenario.fabric, (spec.from, spec.to), scenario.host.transport);
    let udp_src_port = udp_src_port(flow.sender, flow.receiver);
    let (transport, mut out) = (&Frames::shared().ok()?.transport, vec![0; 512]);
    let data = classes(&scenario.sender(spec)).data;
    let envelope = transport.envelope(&Address { udp_src_port, ..to }, &data).ok()?;
    let bth = Bth {
        opcode: PROBE_OPCODE,
        solicited: false,
        pad: 0,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dest_qp: flow.receiver,
        ack_req: false,
        psn: Psn::new(0),
    };
    let built = transport.build_with(&envelope, &Headers::new(bth), 0, &mut out, |_| Ok(()));
    out.truncate(built.ok()?);
    Some(out)
}

/// Bytes of a frame that are neither payload, pad nor extended header.
fn overhead(to: &Address, telemetry: bool) -> u32 {
    let fcs = if to.encap.is_infiniband() { 0 } else { 4 };
    let room = if telemetry { TELEMETRY_BYTES as u32 } else { 0 };
    to.encap.overhead_bytes(to.vlan.is_some()) + fcs + room
}

/// Gives the hosts the gates of a scenario, and the number that each has at its host.
pub(super) fn add_gates(
    scenario: &Scenario,
    flows: &[Connection],
    cores: &mut [Box<Core>],
) -> Result<Vec<GateId>, LabError> {
    let mut made: Vec<GateId> = Vec::new();
    for gate in &scenario.gates {
        let need = |need: &workload::Need| match *need {
            workload::Need::Arrived(flow, message) => {
                Need::Arrived { qp: flows[flow].receiver, message: message.into() }
            }
            workload::Need::Completed(flow, message) => {
                Need::Completed { flow: flows[flow].flow, message: message.into() }
            }
            workload::Need::Opened(gate) => Need::Opened(made[gate]),
        };
        let needs: Vec<Need> = gate.needs.iter().map(need).collect();
        let releases = gate.releases.iter().map(|flow| flows[*flow].flow).collect();
        let end = end_of(&mut cores[gate.host]).ok_or(LabError::NoEndPoint)?;
        made.push(end.add_gate(&needs, gate.delay, releases));
    }
    Ok(made)
}

/// What became of a gate of a host.
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

/// Sends one pause from a host's wire, as a broken adapter does; gives the time after which it says so again.
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
        // From the CPU port, past the traffic manager's own idea of pauses.
        core.inject(&frames.flow_control.build(Mac(host_mac(host)), &frame), now);
    }
    Span::from_ps(Quanta::MAX.span(rate).as_ps() / 2)
}

/// Takes one end of a connection to RTS. Its way is its own: next hops differ.
fn join(
    end: &mut EndPointPort,
    (local, remote): (u32, u32),
    address: &Address,
    options: &ConnectOptions,
    (own, telemetry, spray): (Option<Classes>, bool, u16),
) -> Result<(), FlowError> {
    let address = Address { udp_src_port: udp_src_port(local, remote), ..*address };
    let classes = Classes { telemetry, spray, ..own.unwrap_or(end.config().classes) };
    let path = end.add_path_as(&address, &classes)?;
    let peer = Peer { qpn: remote, psn: options.psn, path };
    Ok(end.connect(local, &peer, options)?)
}

/// Packets of a flow that can be without an acknowledgement.
pub(super) fn window_packets(scenario: &Scenario, spec: &FlowSpec) -> u64 {
    let (messages, length) = messages(spec);
    let under_way = messages.unwrap_or(u64::MAX).min(u64::from(spec.window));
    let packet = scenario.host_of(spec.from).path_mtu.get();
    u64::from(length).div_ceil(packet).max(1).saturating_mul(under_way)
}

/// Number and length of the messages of a flow; the reader let none pass that is longer than a message can be.
pub(super) fn messages(spec: &FlowSpec) -> (Option<u64>, u32) {
    let Some(size) = spec.size else {
        return (None, spec.message.get() as u32);
    };
    if spec.rounds > 1 || spec.is_gated {
        return (Some(spec.rounds.into()), size.get() as u32);
    }
    // Messages of equal length, as near to what was asked as the size allows.
    let count = size.get().div_ceil(spec.message.get());
    (Some(count), size.get().div_ceil(count) as u32)
}

fn address(fabric: &Fabric, (from, to): (usize, usize), transport: Transport) -> Address {
    let link = fabric.nodes[from].links[0];
    let far = fabric.far(link, from);
    // Switches route IP: the next hop is the switch's port. RoCEv1 is bridged.
    let next_hop = match transport {
        Transport::RoceV2 if far != to => port_mac(far, fabric.port(far, link)),
        _ => host_mac(to),
    };
    let (encap, src, dst) = match transport {
        Transport::RoceV2 => (Encap::RoceV2Ipv4, mapped(host_ip(from)), mapped(host_ip(to))),
        Transport::RoceV1 => (Encap::RoceV1, mapped(host_ip(from)), mapped(host_ip(to))),
        Transport::Infiniband => (Encap::IbLocal, host_lid(from).into(), host_lid(to).into()),
    };
    Address {
        encap,
        src_mac: Mac(host_mac(from)),
        dst_mac: Mac(next_hop),
        vlan: (transport == Transport::RoceV1).then_some(0),
        src,
        dst,
        slid: host_lid(from),
        dlid: host_lid(to),
        udp_src_port: 0,
        flow_label: 0,
        hop_limit: 64,
    }
}
