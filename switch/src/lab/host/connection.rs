//! Flows between two hosts: their queue pairs, paths, memory and work; and their progress.

use wireyard_tables::time::{Deadline, Span, Time};

use super::{Messages, classes, end_of, messages, own_classes, rate_control};
use crate::core::Core;
use crate::frames::envelope::{Address, Encap, mapped, udp_src_port};
use crate::frames::{Frames, Mac};
use crate::host::{Classes, ConnectOptions, EndPointPort, FlowId, FlowOp, GateId, Need, Peer};
use crate::lab::addresses::{host_ip, host_lid, host_mac, port_mac};
use crate::lab::error::{FlowError, LabError};
use crate::lab::fabric::Fabric;
use crate::lab::scenario::{FlowSpec, HostSetup, Scenario, Transport};
use crate::lab::workload;
use crate::roce::memory::{Access, Synthetic};
use crate::roce::opcode::{Extra, Kind, Op, Position, Service};
use crate::roce::packet::{Bth, Headers};
use crate::roce::psn::Psn;
use crate::roce::qp::{PathMtu, QpConfig};
use crate::roce::rp::{RateAlgorithm, RateState};
use crate::roce::telemetry::TELEMETRY_BYTES;
use crate::roce::verbs::{Remote, Sge, Status};

/// The progress of a flow, counted by both ends.
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
    /// When an error ended it, and which.
    pub failed: Option<(Time, Status)>,
    /// Packets sent, repeats included.
    pub sent_packets: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// CNPs that its sender received.
    pub cnps: u64,
    /// Packets that acknowledgements reported as marked.
    pub marked_packets: u64,
    /// The newest round-trip time that its sender measured.
    pub round_trip: Option<Span>,
    /// Most payload that its rate control leaves without an acknowledgement.
    pub window_bytes: Option<u64>,
    /// Payload that its receiver accepted, once and in order.
    pub delivered_bytes: u64,
    /// Packets that its receiver took in.
    pub received_packets: u64,
    /// Packets that arrived out of order: after a gap, or before one that was sent earlier.
    pub out_of_order: u64,
    /// Times the sender went back to send again.
    pub rewinds: u64,
    /// Packets that arrived after one with a later sequence number: at most one for each rewind of the sender, if none
    /// was overtaken.
    pub steps_back: u64,
    /// ACK timeouts: times without any response.
    pub timeouts: u64,
    /// Packets that arrived trimmed.
    pub trimmed: u64,
    /// Packets that its sender considered lost because later ones arrived.
    pub overtaken: u64,
    /// How long it had nothing to send because too many messages were in flight.
    pub waited: Span,
    /// State of its reaction point.
    pub rate: Option<RateState>,
}

impl FlowStatus {
    /// When it ended, by its last completion or by an error.
    pub fn ended(&self) -> Option<Time> {
        self.finished.or(self.failed.map(|(at, _)| at))
    }
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
    /// The progress of the flow, with its rate control as of `now`.
    pub fn status_at(&self, cores: &mut [Box<Core>], now: Time) -> FlowStatus {
        if let Some(end) = end_of(&mut cores[self.from]) {
            end.roce_mut().sync_rate(self.sender, now);
        }
        self.status(cores)
    }

    /// The progress of the flow.
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
            failed: report.stats.failed,
            waited: report.stats.waited,
            sent_packets: report.qp.sent_packets,
            retransmitted: report.qp.retransmitted_packets,
            cnps: report.qp.cnps_received,
            marked_packets: report.qp.marked_packets,
            round_trip: report.qp.round_trip,
            window_bytes: report.window_bytes,
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
    pub(in crate::lab) fn first_bytes(&self, cores: &mut [Box<Core>]) -> Option<[u8; 64]> {
        let mut bytes = [0; 64];
        let memory = end_of(&mut cores[self.to])?.roce().memory();
        memory.backing(self.rkey)?.read(0, &mut bytes);
        Some(bytes)
    }
}

/// Bytes that a flow wrote into its receiver's memory and that differ from those sent.
pub(in crate::lab) fn wrong_bytes(flow: &Connection, cores: &mut [Box<Core>]) -> u64 {
    let end = end_of(&mut cores[flow.to]);
    let backing = end.and_then(|end| end.roce().memory().backing(flow.rkey));
    let memory = backing.and_then(|b| (b as &dyn std::any::Any).downcast_ref::<Synthetic>());
    memory.map_or(0, Synthetic::wrong_bytes)
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
pub(in crate::lab) fn connect(
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
    let Messages { count, length, last } = messages(spec);
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
    // Numbers of queue pairs are per host: with the host, no two flows have the same bytes.
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
        messages: count,
        last,
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

/// A packet without payload on the path of a flow's data, as its host sends it.
pub(in crate::lab) fn probe(
    scenario: &Scenario,
    spec: &FlowSpec,
    flow: &Connection,
) -> Option<Vec<u8>> {
    let to = address(&scenario.fabric, (spec.from, spec.to), scenario.host.transport);
    let udp_src_port = udp_src_port(flow.sender, flow.receiver);
    let (transport, mut out) = (&Frames::shared().ok()?.transport, vec![0; 512]);
    let data = classes(&scenario.sender(spec)).data;
    let envelope = transport.envelope(&Address { udp_src_port, ..to }, &data).ok()?;
    // Data without more headers.
    let middle = Op {
        service: Service::Rc,
        kind: Kind::Write,
        position: Position::Middle,
        extra: Extra::None,
    };
    let bth = Bth {
        opcode: middle.encode()?,
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

/// Adds the gates of a scenario to the hosts; returns the number of each at its host.
pub(in crate::lab) fn add_gates(
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

/// Takes one end of a connection to RTS. Each end has its own path: next hops differ.
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
