//! The measurements while a lab runs: samples in even steps, counters from the end of the warm-up.
//!
//! Queues are sampled from the first sample that finds one in use. Everything is read from outside: from the traffic
//! managers of the cores and from the end points' own counters.
//!
//! Memory is bounded however long a run is: when [`VALUES_MAX`] values are kept, every second sample is dropped, and
//! from then on samples are half as frequent. The steps stay even, and checks are as frequent as before.

use std::collections::BTreeMap;
use std::sync::Arc;

use wireyard_tables::time::Time;

use super::fabric::Fabric;
use super::host::{Connection, FlowStatus};
use super::link::Direction;
use super::results::on_the_wire;
use super::scenario::Scenario;
use crate::core::Core;
use crate::ports::PortNumber;
use crate::tm::{CLASSES, MarkingHistogram, PortStatus};

/// Flows whose rates are kept over time; the others have their sums.
pub const FLOW_SERIES_MAX: usize = 64;
/// Queues whose depth is kept over time: those that are in use first. The others have their sums.
pub const QUEUE_SERIES_MAX: usize = 1024;
/// Pauses that are kept over time; time paused is counted for all.
pub const PAUSE_SERIES_MAX: usize = 256;
/// Links whose use is kept over time.
pub const LINK_SERIES_MAX: usize = 256;
/// Values of all series together, 8 bytes each.
pub const VALUES_MAX: usize = 16 << 20;
/// Buckets of depth from 0 to Kmax; reports join them.
const BUCKETS_TO_KMAX: u64 = 400;
/// Buckets in all, without the open one.
const BUCKETS: usize = 800;

/// A queue: node, port, queue.
pub type QueueKey = (usize, PortNumber, u8);

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
    /// Its estimate of congestion: alpha of DCQCN, or the state that its program shows.
    pub estimate: Vec<f64>,
    /// Window of its rate control in bytes.
    pub window: Vec<f64>,
    /// The newest round-trip time that its sender measured, in seconds.
    pub round_trip: Vec<f64>,
    /// CNPs, and packets acknowledged as marked, up to each sample.
    pub marks: Vec<f64>,
}

/// Series of a flow.
const FLOW_TRACKS: usize = 6;

impl FlowTrack {
    fn push(&mut self, status: &FlowStatus) {
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let round_trip = status.round_trip.map(|span| span.as_ps() as f64 / 1e12);
        let values = [
            status.delivered_bytes as f64,
            or_nan(status.rate.map(|rate| rate.rate_bps)),
            or_nan(status.rate.map(|rate| rate.estimate)),
            or_nan(status.window_bytes.map(|bytes| bytes as f64)),
            or_nan(round_trip),
            (status.cnps + status.marked_packets) as f64,
        ];
        self.all_mut().into_iter().zip(values).for_each(|(track, value)| track.push(value));
    }

    fn all_mut(&mut self) -> [&mut Vec<f64>; FLOW_TRACKS] {
        let FlowTrack { delivered, rate, estimate, window, round_trip, marks } = self;
        [delivered, rate, estimate, window, round_trip, marks]
    }
}

/// Everything measured.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// Instants.
    pub times: Vec<f64>,
    /// First sample that counts.
    pub first: usize,
    /// Every `stride`-th sample of the scenario is kept.
    pub stride: u64,
    /// Samples so far, kept or not.
    taken: u64,
    /// Most values kept.
    values_max: usize,
    /// Queues in use.
    pub queues: BTreeMap<QueueKey, QueueTrack>,
    /// Bytes in each queue, summed over the samples that count.
    pub waiting: BTreeMap<QueueKey, f64>,
    /// How many samples are in these sums; one of a longer step is several.
    summed: f64,
    /// Priorities that were paused.
    pub pauses: BTreeMap<QueueKey, PauseTrack>,
    /// Flows, by number.
    pub flows: Vec<FlowTrack>,
    /// Bytes on the wire up to each sample, of both directions of each link.
    pub links: Vec<Vec<f64>>,
    /// Counters of all ports at the end of the warm-up: node, port.
    pub base: BTreeMap<(usize, PortNumber), PortStatus>,
    /// Counters of all flows at the end of the warm-up.
    pub flow_base: Vec<FlowStatus>,
    /// When the warm-up ended.
    pub began: Option<Time>,
    /// Ports of each node that is a switch.
    ports: Vec<(usize, PortNumber)>,
    /// Kmax of queues with a congestion point.
    curves: BTreeMap<QueueKey, (u64, u64, f64)>,
}

impl Sampler {
    /// Nothing measured yet.
    pub fn new(scenario: &Scenario) -> Sampler {
        let fabric = &scenario.fabric;
        let flows = scenario.flows.len().min(FLOW_SERIES_MAX);
        Sampler {
            stride: 1,
            values_max: VALUES_MAX,
            ports: all_ports(fabric),
            flows: vec![FlowTrack::default(); flows],
            links: vec![Vec::new(); 2 * fabric.links.len().min(LINK_SERIES_MAX)],
            ..Sampler::default()
        }
    }

    /// Starts counting marks by depth at every congestion point, and recording pauses.
    pub fn prepare(&mut self, cores: &mut [Box<Core>]) {
        cores.iter_mut().for_each(|core| core.manager_mut().tm.observe_pauses());
        for &(node, port) in &self.ports {
            let core = &mut cores[node];
            let Some(id) = core.ports().traffic_port(port) else { continue };
            for queue in 0..CLASSES as u8 {
                let Some(wred) = core.manager().tm.wred(id, queue) else { continue };
                let Some((kmin, kmax, pmax)) = wred.curves[0].map(|curve| curve.parts()) else {
                    continue;
                };
                let share = pmax.get() as f64 / 4_294_967_296.0;
                self.curves.insert((node, port, queue), (kmin, kmax, share));
            }
        }
        self.restart(cores);
    }

    fn restart(&self, cores: &mut [Box<Core>]) {
        for (&(node, port, queue), (_, kmax, _)) in &self.curves {
            let Some(id) = cores[node].ports().traffic_port(port) else { continue };
            let width = (kmax / BUCKETS_TO_KMAX).max(1);
            let histogram = MarkingHistogram::new(width, BUCKETS);
            cores[node].manager_mut().tm.observe_marking(id, queue, Some(histogram));
        }
    }

    /// The marking curves that were found: Kmin, Kmax, Pmax.
    pub fn curve(&self, key: QueueKey) -> Option<(u64, u64, f64)> {
        self.curves.get(&key).copied()
    }

    /// The mean of a queue's bytes over the samples that count.
    pub fn mean_bytes(&self, key: QueueKey) -> f64 {
        self.waiting.get(&key).map_or(0.0, |sum| sum / self.summed)
    }

    /// True after the warm-up.
    pub fn is_warm(&self) -> bool {
        self.began.is_some()
    }

    /// Figures count from here.
    pub fn begin(&mut self, now: Time, cores: &mut [Box<Core>], flows: &[Connection]) {
        self.began = Some(now);
        self.first = self.times.len();
        (self.waiting, self.summed) = (BTreeMap::new(), 0.0);
        self.restart(cores);
        for &(node, port) in &self.ports {
            cores[node].manager_mut().tm.clear_watermarks();
            let core = &mut cores[node];
            let status = core.ports().traffic_port(port).and_then(|id| core.view(now).port(id));
            self.base.extend(status.map(|status| ((node, port), status)));
        }
        self.flow_base = flows.iter().map(|flow| flow.status(cores)).collect();
    }

    /// Samples the use of links, after a sample that was kept.
    pub(super) fn sample_links(&mut self, links: &[[Arc<Direction>; 2]], is_infiniband: bool) {
        for (track, direction) in self.links.iter_mut().zip(links.iter().flatten()) {
            let counters = direction.counters();
            track.push(on_the_wire(counters.sent, counters.sent_bytes, is_infiniband));
        }
    }

    /// Takes a sample; true if it is kept.
    pub fn sample(&mut self, now: Time, cores: &mut [Box<Core>], flows: &[Connection]) -> bool {
        self.taken += 1;
        if !(self.taken - 1).is_multiple_of(self.stride) {
            return false;
        }
        if self.times.len() >= 2 && self.values() >= self.values_max {
            self.thin();
            if !(self.taken - 1).is_multiple_of(self.stride) {
                return false;
            }
        }
        let index = self.times.len();
        self.times.push(seconds(now));
        self.summed += self.stride as f64;
        for place in 0..self.ports.len() {
            let (node, port) = self.ports[place];
            self.sample_port(index, (node, port), &mut cores[node], now);
        }
        for (track, flow) in self.flows.iter_mut().zip(flows) {
            track.push(&flow.status_at(cores, now));
        }
        true
    }

    /// Values kept.
    fn values(&self) -> usize {
        let queues = 2 * self.queues.len() + self.pauses.len();
        let series = 1 + queues + FLOW_TRACKS * self.flows.len() + self.links.len();
        series * self.times.len()
    }

    /// Drops every second sample.
    fn thin(&mut self) {
        self.stride *= 2;
        self.first = self.first.div_ceil(2);
        thin(&mut self.times);
        for track in self.queues.values_mut() {
            [&mut track.bytes, &mut track.marked].into_iter().for_each(thin);
        }
        self.pauses.values_mut().for_each(|track| thin(&mut track.paused));
        self.links.iter_mut().for_each(thin);
        for track in &mut self.flows {
            track.all_mut().into_iter().for_each(thin);
        }
    }

    fn sample_port(
        &mut self,
        index: usize,
        (node, port): (usize, PortNumber),
        core: &mut Core,
        now: Time,
    ) {
        let Some(id) = core.ports().traffic_port(port) else { return };
        let view = core.view(now);
        for queue in 0..CLASSES as u8 {
            let (bytes, key) = (view.queue_bytes(id, queue), (node, port, queue));
            if bytes > 0 {
                *self.waiting.entry(key).or_default() += bytes as f64 * self.stride as f64;
            }
            let full = self.queues.len() >= QUEUE_SERIES_MAX;
            if (bytes == 0 || full) && !self.queues.contains_key(&key) {
                continue;
            }
            let marked = view.marked(id, queue);
            let track = self.queues.entry(key).or_default();
            track.bytes.resize(index, 0.0);
            track.bytes.push(bytes as f64);
            track.marked.resize(index, 0.0);
            track.marked.push(marked as f64);
        }
        let Some(paused) = view.paused_time(id, now) else { return };
        for (priority, span) in paused.into_iter().enumerate() {
            let key = (node, port, priority as u8);
            let is_new = !self.pauses.contains_key(&key);
            if is_new && (span.is_zero() || self.pauses.len() >= PAUSE_SERIES_MAX) {
                continue;
            }
            let track = self.pauses.entry(key).or_default();
            track.paused.resize(index, 0.0);
            track.paused.push(span.as_ps() as f64 / 1e12);
        }
    }
}

/// Keeps the samples at even places.
fn thin(values: &mut Vec<f64>) {
    let kept = values.len().div_ceil(2);
    (0..kept).for_each(|place| values[place] = values[2 * place]);
    values.truncate(kept);
}

/// Every port with a link, of every node: also of hosts, whose wire can be paused.
fn all_ports(fabric: &Fabric) -> Vec<(usize, PortNumber)> {
    let ports = |(node, description): (usize, &super::fabric::Node)| {
        description.ports().map(move |port| (node, port)).collect::<Vec<_>>()
    };
    fabric.nodes.iter().enumerate().flat_map(ports).collect()
}

/// In seconds.
pub fn seconds(at: Time) -> f64 {
    at.as_ps() as f64 / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory stops growing, and the kept samples are evenly spaced over the run.
    #[test]
    fn a_long_run_keeps_every_second_sample() {
        let flow = FlowTrack::default();
        let mut sampler =
            Sampler { stride: 1, values_max: 400, flows: vec![flow], ..Sampler::default() };
        for n in 0..10_000u64 {
            if n == 1_000 {
                sampler.began = Some(Time::from_ns(1_000 * n));
                sampler.first = sampler.times.len();
            }
            // As `sample` does, without devices.
            sampler.sample(Time::from_ns(1_000 * n), &mut [], &[]);
            if sampler.flows[0].rate.len() < sampler.times.len() {
                let track = &mut sampler.flows[0];
                track.all_mut().into_iter().for_each(|values| values.push(n as f64));
            }
            assert!(sampler.values() <= 400 + 1 + FLOW_TRACKS, "{n}: {} values", sampler.values());
        }
        assert!(sampler.stride >= 64 && sampler.stride.is_power_of_two());
        let step = sampler.stride as f64 * 1e-6;
        for (place, time) in sampler.times.iter().enumerate() {
            assert!((time - place as f64 * step).abs() < 1e-12, "{place}: {time}");
            assert!((sampler.flows[0].rate[place] - time * 1e6).abs() < 1e-6);
        }
        // The first sample that counts is the first after the warm-up.
        assert!(sampler.times[sampler.first] >= 1e-3 - 1e-12);
        assert!(sampler.times[sampler.first - 1] < 1e-3);
    }
}
