//! Second phase, the closed loop: senders with DCQCN share a bottleneck.
//!
//! Every host is a device in the role of a NIC, with an end point. They find each other by ARP, connect, and write to the
//! receiver's memory without end. What the loop settles at is compared with the model's fixed point.

use std::time::Duration;

use wireyard_tables::time::{Span, Time};

use super::cables::{HOSTS, RECEIVER, host_ip, host_mac, host_name, switch_port};
use super::setting::{self, DATA_CLASS, FLOWS_EACH, PAYLOAD_BYTES, SAMPLE, SENDERS, WARM_UP};
use super::{Options, Tell, devices};
use crate::core::Core;
use crate::frames::envelope::Address;
use crate::host::{
    ConnectOptions, END_POINT_PORT, EndPointPort, FlowId, FlowOp, FlowSpec, PairSpec, WIRE_PORT,
    connect_pair, end_point,
};
use crate::live::clock::{DeviceClock, Stalls};
use crate::ports::PortStats;
use crate::roce::memory::{Access, Synthetic};
use crate::roce::np::NpCounters;
use crate::roce::opcode::Service;
use crate::roce::qp::{PathMtu, QpConfig, QpCounters};
use crate::roce::rp::RateAlgorithm;
use crate::roce::verbs::{Remote, Sge};
use crate::stats::LedgerReport;
use crate::tm::PortStatus;
use crate::units::Bytes;

/// Bytes of a message.
const MESSAGE_BYTES: u32 = 1 << 16;
/// Messages posted at a time: the wire is busy between two.
const DEPTH: u32 = 4;
/// Packets for which one acknowledgement is asked.
const ACK_EVERY: u32 = 16;
/// 4.096 us x 2^20 = 4.3 s: retransmission timers are slowed down like all others.
const ACK_TIMEOUT: u8 = 20;
/// Steps after which an unanswered ARP request is an error.
const ANSWER_STEPS_MAX: u32 = 40_000;
/// Steps in which what is under way must arrive, at the end.
const QUIET_STEPS_MAX: u32 = 60_000;
/// Steps between two looks at the time of day.
const STEPS_PER_LOOK: u32 = 200;

/// A flow between a sender and the receiver.
#[derive(Clone, Copy, Debug)]
struct Flow {
    sender: usize,
    id: FlowId,
    /// Queue pair of the receiver.
    receiver_qp: u32,
    /// Key of the memory that it writes to.
    rkey: u32,
}

/// A flow over time.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// `sender 1, flow 2`.
    pub name: String,
    /// Payload bytes delivered up to each sample.
    pub delivered: Vec<f64>,
    /// Rate of its reaction point, bit/s.
    pub rate: Vec<f64>,
    /// CNPs that its sender received, up to each sample.
    pub cnps: Vec<f64>,
    /// Counters of the sender's queue pair, at the end.
    pub sent: QpCounters,
    /// Counters of the receiver's, at the end.
    pub received: QpCounters,
    /// Why it ended, if it did.
    pub failed: Option<String>,
}

/// A device at the end.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Where its packets went.
    pub ledger: LedgerReport,
    /// Its ports as the kernel and the port see them, by number.
    pub media: Vec<(u16, PortStats)>,
    /// Its ports as the traffic manager sees them, in the same order.
    pub ports: Vec<PortStatus>,
}

/// What the closed loop found.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Instants of the samples, seconds of the devices' clock since the flows began.
    pub times: Vec<f64>,
    /// The first sample that counts; past the end when the run was too short.
    pub first: usize,
    /// Bytes in the bottleneck's queue.
    pub queue: Vec<f64>,
    /// ECN-capable packets that left it, up to each sample.
    pub eligible: Vec<f64>,
    /// Of these, marked ones.
    pub marked: Vec<f64>,
    /// Seconds for which each sender was kept from sending, up to each sample.
    pub paused: Vec<Vec<f64>>,
    /// Flows.
    pub flows: Vec<Track>,
    /// Senders, the receiver, the switch.
    pub devices: Vec<Device>,
    /// The receiver's notification point.
    pub np: NpCounters,
    /// CNPs that the receiver put on its wire.
    pub cnps_sent: u64,
    /// Payload bytes that arrived with other values than were sent.
    pub wrong_bytes: u64,
    /// What the clock gave up.
    pub stalls: Stalls,
    /// Name of the engine.
    pub engine: &'static str,
}

impl Incast {
    /// The switch.
    pub fn switch(&self) -> &Device {
        &self.devices[HOSTS]
    }

    /// The bottleneck at the end.
    pub fn bottleneck(&self) -> &PortStatus {
        &self.switch().ports[RECEIVER]
    }

    /// True when there is enough to judge behind the warm-up.
    pub fn is_long_enough(&self) -> bool {
        let began = self.times.get(self.first).copied().unwrap_or(f64::INFINITY);
        let end = self.times.last().copied().unwrap_or(0.0);
        end - began >= setting::MEASURED_MIN.as_ps() as f64 / 1e12
    }
}

/// How it goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    /// Bytes in the bottleneck's queue.
    pub queue_bytes: u64,
    /// Marks so far.
    pub marked: u64,
    /// CNPs that senders received.
    pub cnps: u64,
    /// XOFFs sent by the switch.
    pub xoffs: u64,
    /// Packets dropped anywhere.
    pub dropped: u64,
    /// Sum of the rates of all reaction points, bit/s.
    pub rate_bps: f64,
}

/// The devices: hosts first, the switch last.
struct World {
    cores: Vec<Core>,
    clock: DeviceClock,
    flows: Vec<Flow>,
    found: Incast,
    began: Time,
}

/// Runs the incast for so long a time of day.
///
/// # Errors
/// What cannot be opened, or answered.
pub(super) fn run(
    options: &Options,
    duration: Duration,
    tell: &mut dyn Tell,
) -> Result<Incast, String> {
    let mut world = World::new(options)?;
    world.find_each_other()?;
    world.connect()?;
    let mut next_sample = world.clock.now();
    world.began = next_sample;
    let mut steps = 0u32;
    loop {
        let now = world.step();
        if now >= next_sample {
            world.sample(now);
            next_sample += SAMPLE;
        }
        steps += 1;
        if steps.is_multiple_of(STEPS_PER_LOOK) {
            let real = world.clock.real();
            if real >= duration || tell.is_stopped() {
                break;
            }
            let pulse = world.pulse();
            tell.incast(&pulse, real.as_secs_f64() / duration.as_secs_f64());
        }
    }
    world.finish()
}

impl World {
    fn new(options: &Options) -> Result<World, String> {
        let seed = |n: usize| options.seed.wrapping_mul(1 << 8).wrapping_add(n as u64);
        let host = |host: usize| devices::host(host, options.engine, seed(host + 1));
        let mut cores = (0..HOSTS).map(host).collect::<Result<Vec<_>, _>>()?;
        let xoff = Bytes::new(setting::XOFF_BYTES[1]);
        cores.push(devices::switch(setting::rate(), xoff, options.engine, options.seed)?);
        let engine = cores[HOSTS].generation().map_or("none", |g| g.engine.name());
        let found = Incast {
            times: Vec::new(),
            first: usize::MAX,
            queue: Vec::new(),
            eligible: Vec::new(),
            marked: Vec::new(),
            paused: vec![Vec::new(); SENDERS],
            flows: Vec::new(),
            devices: Vec::new(),
            np: NpCounters::default(),
            cnps_sent: 0,
            wrong_bytes: 0,
            stalls: Stalls::default(),
            engine,
        };
        let clock = DeviceClock::start(1);
        Ok(World { cores, clock, flows: Vec::new(), found, began: Time::ZERO })
    }

    /// One step of the clock. Senders first, so that a packet can reach the switch within the step.
    fn step(&mut self) -> Time {
        let now = self.clock.step(setting::STEP);
        for core in &mut self.cores[..SENDERS] {
            core.poll(now, None);
        }
        self.cores[HOSTS].poll(now, None);
        self.cores[RECEIVER].poll(now, None);
        now
    }

    fn end(&mut self, host: usize) -> Result<&mut EndPointPort, String> {
        let end = end_point(&mut self.cores[host], END_POINT_PORT);
        end.ok_or_else(|| format!("{} has no end point", host_name(host)))
    }

    /// Every host asks for the address of its peer; the switch learns where all of them are.
    fn find_each_other(&mut self) -> Result<(), String> {
        let peer = |host: usize| if host == RECEIVER { 0 } else { RECEIVER };
        for host in 0..HOSTS {
            self.end(host)?.ask(host_ip(peer(host)), None);
        }
        for _ in 0..ANSWER_STEPS_MAX {
            self.step();
            let mut all = true;
            for host in 0..HOSTS {
                let answer = self.end(host)?.neighbour(host_ip(peer(host)));
                all &= answer == Some(host_mac(peer(host)));
            }
            if all {
                return Ok(());
            }
        }
        Err("the hosts do not find each other: no answer to ARP came through the switch".to_owned())
    }

    fn connect(&mut self) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let (parameters, _) = setting::rate_control().map_err(|e| text(&e))?;
        let profile = parameters.profile().map_err(|e| text(&e))?;
        let mtu = PathMtu::new(PAYLOAD_BYTES).ok_or("no such path MTU")?;
        let start = self.clock.now() + Span::from_ms(5);
        for n in 0..SENDERS * FLOWS_EACH {
            let sender = n / FLOWS_EACH;
            let next_hop = self.end(sender)?.neighbour(host_ip(RECEIVER)).ok_or("no neighbour")?;
            let address =
                Address::rocev2(host_mac(sender), next_hop, host_ip(sender), host_ip(RECEIVER))
                    .map_err(|e| text(&e))?;
            let rate = RateAlgorithm::Dcqcn(profile.clone());
            let spec = PairSpec {
                address,
                service: Service::Rc,
                qp: QpConfig { ack_every: ACK_EVERY, ..QpConfig::new(rate) },
                options: ConnectOptions {
                    path_mtu: mtu,
                    timeout: ACK_TIMEOUT,
                    ..ConnectOptions::default()
                },
            };
            let pair = self.cores.get_disjoint_mut([sender, RECEIVER]).map_err(|e| text(&e))?;
            let [from, to] = pair.map(|core| end_point(core, END_POINT_PORT));
            let (from, to) = (from.ok_or("no end point")?, to.ok_or("no end point")?);
            let (qp, receiver_qp) = connect_pair(from, to, &spec).map_err(|e| text(&e))?;
            let region = |end: &mut EndPointPort| {
                let memory = Box::new(Synthetic::new(n as u64, u64::from(MESSAGE_BYTES)));
                end.roce_mut().memory_mut().register(0, Access::ALL, memory).ok_or("no key")
            };
            let (key, rkey) = (region(from)?, region(to)?);
            let local = Sge { key, va: 0, len: MESSAGE_BYTES };
            let op = FlowOp::Write(Remote { va: 0, rkey });
            let flow = FlowSpec { depth: DEPTH, start, ..FlowSpec::new(qp, op, local) };
            let id = from.add_flow(flow);
            self.flows.push(Flow { sender, id, receiver_qp, rkey });
            let name = format!("{}, flow {}", host_name(sender), n % FLOWS_EACH + 1);
            self.found.flows.push(Track { name, ..Track::default() });
        }
        Ok(())
    }

    fn port(&self, core: usize, port: u16) -> Option<PortStatus> {
        let core = &self.cores[core];
        core.traffic_port(port).and_then(|id| core.traffic().port(id))
    }

    fn sample(&mut self, now: Time) {
        let since = now.since(self.began);
        if since >= WARM_UP {
            self.found.first = self.found.first.min(self.found.times.len());
        }
        self.found.times.push(seconds(since));
        let queue =
            self.port(HOSTS, switch_port(RECEIVER)).map(|p| p.queues[usize::from(DATA_CLASS)]);
        let wred = queue.and_then(|queue| queue.wred).unwrap_or_default();
        self.found.queue.push(queue.map_or(0.0, |queue| queue.bytes as f64));
        self.found.eligible.push(wred.eligible as f64);
        self.found.marked.push(wred.marked as f64);
        for sender in 0..SENDERS {
            let paused = self
                .port(sender, WIRE_PORT)
                .map_or(0.0, |port| seconds(port.pauses.paused[usize::from(DATA_CLASS)]));
            self.found.paused[sender].push(paused);
        }
        for (n, flow) in self.flows.iter().enumerate() {
            let report = end_point(&mut self.cores[flow.sender], END_POINT_PORT)
                .and_then(|end| end.flow(flow.id));
            let received = end_point(&mut self.cores[RECEIVER], END_POINT_PORT)
                .and_then(|end| end.roce().qp(flow.receiver_qp))
                .map(|qp| *qp.counters())
                .unwrap_or_default();
            let track = &mut self.found.flows[n];
            track.received = received;
            track.delivered.push(received.accepted_payload_bytes as f64);
            track.rate.push(report.map_or(f64::NAN, |report| report.rate.rate_bps));
            track.cnps.push(report.map_or(0.0, |report| report.qp.cnps_received as f64));
            if let Some(report) = report {
                track.sent = report.qp;
                track.failed = report.stats.failed.map(|why| format!("{why:?}"));
            }
        }
    }

    fn pulse(&self) -> Pulse {
        let last = |values: &[f64]| values.last().copied().unwrap_or(0.0);
        let status = |port| self.port(HOSTS, port);
        let xoffs = (0..HOSTS).filter_map(|host| status(switch_port(host)));
        let xoffs = xoffs.map(|port| port.pauses.tx_xoff.iter().sum::<u64>()).sum();
        let dropped = self.cores.iter().map(|core| core.ledger().dropped()).sum();
        Pulse {
            queue_bytes: last(&self.found.queue) as u64,
            marked: last(&self.found.marked) as u64,
            cnps: self.found.flows.iter().map(|flow| last(&flow.cnps) as u64).sum(),
            xoffs,
            dropped,
            rate_bps: self.found.flows.iter().map(|flow| last(&flow.rate)).sum(),
        }
    }

    /// Stops the senders' work, lets what is under way arrive, and takes the counters.
    fn finish(mut self) -> Result<Incast, String> {
        self.found.stalls = self.clock.stalls();
        for flow in &self.flows {
            if let Some(end) = end_point(&mut self.cores[flow.sender], END_POINT_PORT) {
                end.stop_flow(flow.id);
            }
        }
        for _ in 0..QUIET_STEPS_MAX {
            self.step();
            if self.is_quiet() {
                break;
            }
        }
        let now = self.clock.now();
        self.sample(now);
        self.forget_last_sample();
        let names: Vec<String> = (0..HOSTS).map(host_name).chain(["switch".to_owned()]).collect();
        for (core, name) in self.cores.iter_mut().zip(names) {
            let reports = core.port_reports();
            let media = reports.iter().map(|report| (report.port, report.medium)).collect();
            let ports = reports
                .iter()
                .filter_map(|r| core.traffic_port(r.port).and_then(|id| core.traffic().port(id)))
                .collect();
            self.found.devices.push(Device { name, ledger: core.report(), media, ports });
        }
        let keys: Vec<u32> = self.flows.iter().map(|flow| flow.rkey).collect();
        let end = self.end(RECEIVER)?;
        let (np, cnps_sent) = (end.np_counters(), end.counters().cnps_sent);
        let wrong = keys.iter().map(|key| wrong_bytes(end, *key)).sum();
        (self.found.np, self.found.cnps_sent, self.found.wrong_bytes) = (np, cnps_sent, wrong);
        for core in &mut self.cores {
            core.close();
        }
        Ok(self.found)
    }

    /// No message is under way, and no packet in a device.
    fn is_quiet(&mut self) -> bool {
        let is_done = |flow: &Flow, core: &mut Core| {
            let report = end_point(core, END_POINT_PORT).and_then(|end| end.flow(flow.id));
            report.is_none_or(|r| r.stats.completed == r.stats.posted || r.stats.failed.is_some())
        };
        let flows = &self.flows;
        let cores = &mut self.cores;
        flows.iter().all(|flow| is_done(flow, &mut cores[flow.sender]))
            && cores.iter().all(|core| core.queued() == 0)
    }

    /// The last look at the counters was no sample: it is not one interval behind the one before.
    fn forget_last_sample(&mut self) {
        let found = &mut self.found;
        found.times.pop();
        for values in [&mut found.queue, &mut found.eligible, &mut found.marked] {
            values.pop();
        }
        for values in &mut found.paused {
            values.pop();
        }
        for flow in &mut found.flows {
            for values in [&mut flow.delivered, &mut flow.rate, &mut flow.cnps] {
                values.pop();
            }
        }
    }
}

/// Bytes written to a region that are not what its seed says.
fn wrong_bytes(end: &EndPointPort, key: u32) -> u64 {
    let backing = end.roce().memory().backing(key);
    let memory = backing.and_then(|b| (b as &dyn std::any::Any).downcast_ref::<Synthetic>());
    memory.map_or(0, Synthetic::wrong_bytes)
}

fn seconds(span: Span) -> f64 {
    span.as_ps() as f64 / 1e12
}
