//! Flows with random arrivals: a Poisson process at each sender, and incasts in addition.
//!
//! As in the public generator of HPCC (`traffic_gen.py`): the load is the payload that a host offers to its own link,
//! the time between two flows of a host is exponential, the receiver is drawn uniformly among the others, the size from
//! a distribution. An incast is several senders at once with one receiver, all random; its load is a part of the rate
//! of all senders' links.

use wireyard_tables::time::{Span, Time};

use super::sizes::{Sizes, below, exponential, uniform};
use crate::lab::fabric::Fabric;
use crate::lab::scenario::{FlowSpec, MESSAGE};
use crate::tm::random::Stream;
use crate::units::Bytes;

/// Purposes of the streams, with the number of the item above and of the host below.
const ARRIVALS: u64 = 0x6172_7276 << 32;
const INCASTS: u64 = 0x696e_6373 << 32;

/// Flows that arrive by a Poisson process.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Their common settings; the first may arrive from its start on.
    pub common: FlowSpec,
    /// Senders.
    pub from: Vec<usize>,
    /// Receivers.
    pub to: Vec<usize>,
    /// Payload, as a part of the rate of a sender's link.
    pub load: f64,
    /// Their sizes.
    pub sizes: Sizes,
    /// None arrives from here on.
    pub until: Time,
}

/// The frequency of incasts.
#[derive(Clone, Debug, PartialEq)]
pub enum FanIn {
    /// In even steps.
    Every(Span),
    /// By a Poisson process: payload, as a part of the total rate of all senders' links.
    Load(f64),
}

/// Many hosts send to one, repeatedly.
#[derive(Clone, Debug)]
pub struct Incasts {
    /// The common settings of the flows, including their size.
    pub common: FlowSpec,
    /// Possible senders.
    pub from: Vec<usize>,
    /// Possible receivers.
    pub to: Vec<usize>,
    /// Number of senders at a time.
    pub senders: usize,
    /// The frequency.
    pub rate: FanIn,
    /// None begins from here on.
    pub until: Time,
}

/// Bit rate of a host's link.
fn link_rate(fabric: &Fabric, host: usize) -> f64 {
    let link = fabric.nodes[host].links.first();
    link.map_or(0.0, |link| fabric.links[*link].setup.rate.get() as f64)
}

/// Later by `seconds`; never at the same instant, and never at the end of time.
fn after(at: Time, seconds: f64) -> Time {
    at + Span::from_ps(((seconds * 1e12) as u64).max(1))
}

impl Arrivals {
    /// Seconds between two flows of a sender.
    fn interval(&self, fabric: &Fabric, host: usize) -> f64 {
        self.sizes.mean() * 8.0 / (link_rate(fabric, host) * self.load)
    }

    /// Flows that are expected.
    pub fn expected(&self, fabric: &Fabric) -> f64 {
        let seconds = self.until.since(self.common.start).as_ps() as f64 / 1e12;
        self.from.iter().map(|host| seconds / self.interval(fabric, *host)).sum()
    }

    pub(super) fn flows(&self, fabric: &Fabric, (seed, index): (u64, u64)) -> Vec<FlowSpec> {
        let mut flows = Vec::new();
        for &from in &self.from {
            let others: Vec<usize> = self.to.iter().copied().filter(|to| *to != from).collect();
            if others.is_empty() {
                continue;
            }
            let mut stream = Stream::new(seed, ARRIVALS + (index << 16) + from as u64);
            let interval = self.interval(fabric, from);
            let mut at = after(self.common.start, exponential(&mut stream, interval));
            while at < self.until {
                let to = others[below(&mut stream, others.len())];
                let size = self.sizes.quantile(uniform(&mut stream));
                flows.push(FlowSpec { start: at, ..sized(&self.common, (from, to), size) });
                at = after(at, exponential(&mut stream, interval));
            }
        }
        flows.sort_by_key(|flow| (flow.start, flow.from));
        flows
    }
}

fn sized(common: &FlowSpec, (from, to): (usize, usize), size: Bytes) -> FlowSpec {
    FlowSpec { from, to, size: Some(size), message: size.min(MESSAGE), ..common.clone() }
}

impl Incasts {
    /// Seconds between two incasts, in the mean.
    pub fn interval(&self, fabric: &Fabric) -> f64 {
        match self.rate {
            FanIn::Every(span) => span.as_ps() as f64 / 1e12,
            FanIn::Load(load) => {
                let size = self.common.size.unwrap_or(MESSAGE).get() as f64;
                let all: f64 = self.from.iter().map(|host| link_rate(fabric, *host)).sum();
                size * 8.0 * self.senders as f64 / (all * load)
            }
        }
    }

    /// Flows that are expected.
    pub fn expected(&self, fabric: &Fabric) -> f64 {
        let seconds = self.until.since(self.common.start).as_ps() as f64 / 1e12;
        seconds / self.interval(fabric) * self.senders as f64
    }

    pub(super) fn flows(&self, fabric: &Fabric, (seed, index): (u64, u64)) -> Vec<FlowSpec> {
        let mut stream = Stream::new(seed, INCASTS + (index << 16));
        let (mut flows, mean) = (Vec::new(), self.interval(fabric));
        let next = |at: Time, stream: &mut Stream| match self.rate {
            FanIn::Every(span) => at + span,
            FanIn::Load(_) => after(at, exponential(stream, mean)),
        };
        let mut at = match self.rate {
            FanIn::Every(_) => self.common.start,
            FanIn::Load(_) => next(self.common.start, &mut stream),
        };
        while at < self.until {
            let to = self.to[below(&mut stream, self.to.len())];
            let mut senders: Vec<usize> =
                self.from.iter().copied().filter(|from| *from != to).collect();
            let count = self.senders.min(senders.len());
            for place in 0..count {
                let drawn = place + below(&mut stream, senders.len() - place);
                senders.swap(place, drawn);
            }
            senders.truncate(count);
            senders.sort_unstable();
            let flow = |from| FlowSpec { from, to, start: at, ..self.common.clone() };
            flows.extend(senders.into_iter().map(flow));
            at = next(at, &mut stream);
        }
        flows
    }
}
