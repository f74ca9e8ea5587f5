//! What is measured while a lab runs: samples in even steps, counters from the end of the warm-up.
//!
//! Queues are followed from the first sample that finds one in use. Everything is read from outside: from the traffic
//! managers of the cores and from the end points' own counters.

use std::collections::BTreeMap;

use wireyard_tables::time::Time;

use super::fabric::Fabric;
use super::host::{Connection, FlowStatus};
use super::scenario::Scenario;
use crate::core::Core;
use crate::tm::{CLASSES, MarkingHistogram, PortStatus};

/// Flows whose rates are kept over time; the others have their sums.
pub const FLOW_SERIES_MAX: usize = 64;
/// Queues whose depth is kept over time.
pub const QUEUE_SERIES_MAX: usize = 256;
/// Buckets of depth from 0 to Kmax; reports join them.
const BUCKETS_TO_KMAX: u64 = 400;
/// Buckets in all, the open one aside.
const BUCKETS: usize = 800;

/// A queue: node, port, queue.
pub type QueueKey = (usize, u16, u8);

/// A queue over time.
#[derive(Clone, Debug, Default)]
pub struct QueueTrack {
    /// Bytes that wait, at each sample.
    pub bytes: Vec<f64>,
    /// Marks up to each sample.
    pub marked: Vec<f64>,
}

/// Pauses that a port received, over time: node, port, priority.
#[derive(Clone, Debug, Default)]
pub struct PauseTrack {
    /// Seconds spent paused up to each sample.
    pub paused: Vec<f64>,
}

/// A flow over time.
#[derive(Clone, Debug, Default)]
pub struct FlowTrack {
    /// Payload bytes delivered up to each sample.
    pub delivered: Vec<f64>,
    /// Rate of its reaction point, bit/s.
    pub rate: Vec<f64>,
    /// Alpha of its reaction point.
    pub alpha: Vec<f64>,
}

/// Everything measured.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// Instants.
    pub times: Vec<f64>,
    /// First sample that counts.
    pub first: usize,
    /// Queues in use.
    pub queues: BTreeMap<QueueKey, QueueTrack>,
    /// Priorities that were paused.
    pub pauses: BTreeMap<QueueKey, PauseTrack>,
    /// Flows, by number.
    pub flows: Vec<FlowTrack>,
    /// Counters of all ports at the end of the warm-up: node, port.
    pub base: BTreeMap<(usize, u16), PortStatus>,
    /// Counters of all flows at the end of the warm-up.
    pub flow_base: Vec<FlowStatus>,
    /// When the warm-up ended.
    pub began: Option<Time>,
    /// Ports of each node that is a switch.
    ports: Vec<(usize, u16)>,
    /// Kmax of queues with a congestion point.
    curves: BTreeMap<QueueKey, (u64, u64, f64)>,
}

impl Sampler {
    /// Nothing measured yet.
    pub fn new(scenario: &Scenario) -> Sampler {
        let fabric = &scenario.fabric;
        let flows = scenario.flows.len().min(FLOW_SERIES_MAX);
        Sampler {
            ports: all_ports(fabric),
            flows: vec![FlowTrack::default(); flows],
            ..Sampler::default()
        }
    }

    /// Counts marks by depth wherever there is a congestion point.
    pub fn prepare(&mut self, cores: &mut [Core]) {
        for &(node, port) in &self.ports {
            let core = &mut cores[node];
            let Some(id) = core.traffic_port(port) else { continue };
            for queue in 0..CLASSES as u8 {
                let Some(wred) = core.traffic().wred(id, queue) else { continue };
                let Some((kmin, kmax, pmax)) = wred.curves[0].map(|curve| curve.parts()) else {
                    continue;
                };
                let share = pmax.get() as f64 / 4_294_967_296.0;
                self.curves.insert((node, port, queue), (kmin, kmax, share));
            }
        }
        self.restart(cores);
    }

    fn restart(&self, cores: &mut [Core]) {
        for (&(node, port, queue), (_, kmax, _)) in &self.curves {
            let Some(id) = cores[node].traffic_port(port) else { continue };
            let width = (kmax / BUCKETS_TO_KMAX).max(1);
            let histogram = MarkingHistogram::new(width, BUCKETS);
            cores[node].traffic_mut().observe_marking(id, queue, Some(histogram));
        }
    }

    /// The marking curves that were found: Kmin, Kmax, Pmax.
    pub fn curve(&self, key: QueueKey) -> Option<(u64, u64, f64)> {
        self.curves.get(&key).copied()
    }

    /// True after the warm-up.
    pub fn is_warm(&self) -> bool {
        self.began.is_some()
    }

    /// Figures count from here.
    pub fn begin(&mut self, now: Time, cores: &mut [Core], flows: &[Connection]) {
        self.began = Some(now);
        self.first = self.times.len();
        self.restart(cores);
        for &(node, port) in &self.ports {
            cores[node].traffic_mut().clear_watermarks();
            let core = &cores[node];
            let status = core.traffic_port(port).and_then(|id| core.traffic().port(id));
            self.base.extend(status.map(|status| ((node, port), status)));
        }
        self.flow_base = flows.iter().map(|flow| flow.status(cores)).collect();
    }

    /// Takes a sample.
    pub fn sample(&mut self, now: Time, cores: &mut [Core], flows: &[Connection]) {
        let index = self.times.len();
        self.times.push(seconds(now));
        for place in 0..self.ports.len() {
            let (node, port) = self.ports[place];
            self.sample_port(index, (node, port), &cores[node], now);
        }
        for (track, flow) in self.flows.iter_mut().zip(flows) {
            let status = flow.status(cores);
            track.delivered.push(status.delivered_bytes as f64);
            track.rate.push(status.rate.map_or(f64::NAN, |rate| rate.rate_bps));
            track.alpha.push(status.rate.map_or(f64::NAN, |rate| rate.dcqcn_alpha));
        }
    }

    fn sample_port(&mut self, index: usize, (node, port): (usize, u16), core: &Core, now: Time) {
        let Some(id) = core.traffic_port(port) else { return };
        let tm = core.traffic();
        for queue in 0..CLASSES as u8 {
            let (bytes, key) = (tm.queue_bytes(id, queue), (node, port, queue));
            let full = self.queues.len() >= QUEUE_SERIES_MAX;
            if bytes == 0 && !self.queues.contains_key(&key)
                || full && !self.queues.contains_key(&key)
            {
                continue;
            }
            let marked = tm.marked(id, queue);
            let track = self.queues.entry(key).or_default();
            track.bytes.resize(index, 0.0);
            track.bytes.push(bytes as f64);
            track.marked.resize(index, 0.0);
            track.marked.push(marked as f64);
        }
        let Some(paused) = tm.paused_time(id, now) else { return };
        for (priority, span) in paused.into_iter().enumerate() {
            let key = (node, port, priority as u8);
            if span.is_zero() && !self.pauses.contains_key(&key) {
                continue;
            }
            let track = self.pauses.entry(key).or_default();
            track.paused.resize(index, 0.0);
            track.paused.push(span.as_ps() as f64 / 1e12);
        }
    }
}

/// Every port of every node that has a link: hosts too, their wire can be paused.
fn all_ports(fabric: &Fabric) -> Vec<(usize, u16)> {
    let ports = |(node, description): (usize, &super::fabric::Node)| {
        (1..=description.links.len() as u16).map(move |port| (node, port)).collect::<Vec<_>>()
    };
    fabric.nodes.iter().enumerate().flat_map(ports).collect()
}

/// In seconds.
pub fn seconds(at: Time) -> f64 {
    at.as_ps() as f64 / 1e12
}
