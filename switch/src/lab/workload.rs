//! Workloads: the traffic of a scenario, and the flows that follow from it.
//!
//! A [`Source`] is one item of a scenario; [`expand`] makes flows of all of them, with gates where messages wait for
//! others. Random choices (hosts, times, sizes) depend only on the seed and the item, so another seed results in other
//! flows of the same kind, and an additional item changes no other item. There are no devices here: it is arithmetic
//! over a topology.

mod arrivals;
mod bound;
pub mod collective;
mod permutation;
pub mod sizes;

use wireyard_tables::time::{Span, Time};

use super::fabric::Fabric;
use super::scenario::FlowSpec;
use crate::units::Dilation;

pub use arrivals::{Arrivals, FanIn, Incasts};
pub use bound::{Bound, bound};
pub use collective::{Algorithm, Collective, Operation};
pub use permutation::Permutation;
pub use sizes::Sizes;

/// One item of a scenario's traffic.
#[derive(Clone, Debug)]
pub enum Source {
    /// Flows that are written out.
    Listed(Vec<FlowSpec>),
    /// Flows that wait for each other, from a file of triggers.
    Triggered(Vec<FlowSpec>, Vec<Gate>),
    /// A cycle through hosts in random order.
    Permutation(Permutation),
    /// Flows that arrive by a Poisson process.
    Arrivals(Arrivals),
    /// Many hosts send to one, repeatedly.
    Incasts(Incasts),
    /// A collective operation.
    Collective(Collective),
}

/// A condition of a gate of the workload: numbers of flows and gates of the whole workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A message of a flow to this host has arrived; the first is 1.
    Arrived(usize, u32),
    /// A message of a flow of this host is completed.
    Completed(usize, u32),
    /// Another gate of this host has opened.
    Opened(usize),
}

/// A point in the work of one host: when all needs are met and `delay` has passed, messages are released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The host.
    pub host: usize,
    /// Its conditions.
    pub needs: Vec<Need>,
    /// Computing time before the release.
    pub delay: Span,
    /// Flows of this host, each of which may send its next message.
    pub releases: Vec<usize>,
    /// Iteration, from 0.
    pub iteration: u32,
    /// Step of the algorithm, from 0; the last of an iteration is its end and releases nothing.
    pub step: u32,
}

/// The flows and gates of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRange {
    /// Its flows.
    pub flows: std::ops::Range<usize>,
    /// Its gates.
    pub gates: std::ops::Range<usize>,
}

/// Flows and gates of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// Gates; each after those that it waits for.
    pub gates: Vec<Gate>,
    /// By item.
    pub parts: Vec<ItemRange>,
}

/// Expands all items into flows.
pub fn expand(sources: &[Source], fabric: &Fabric, seed: u64) -> Workload {
    let mut work = Workload::default();
    for (index, source) in sources.iter().enumerate() {
        let (flow, gate) = (work.flows.len(), work.gates.len());
        match source {
            Source::Listed(flows) => work.flows.extend(flows.iter().cloned()),
            Source::Triggered(flows, gates) => {
                work.flows.extend(flows.iter().cloned());
                work.gates.extend(gates.iter().map(|own| own.shifted(flow, gate)));
            }
            Source::Permutation(permutation) => work.flows.extend(permutation.flows(seed)),
            Source::Arrivals(arrivals) => {
                work.flows.extend(arrivals.flows(fabric, (seed, index as u64)));
            }
            Source::Incasts(incasts) => {
                work.flows.extend(incasts.flows(fabric, (seed, index as u64)));
            }
            Source::Collective(collective) => {
                collective.add(&mut work, (seed, index as u64));
            }
        }
        work.parts.push(ItemRange { flows: flow..work.flows.len(), gates: gate..work.gates.len() });
    }
    work
}

impl Gate {
    /// The same in a workload with this many flows and gates before it.
    fn shifted(&self, flows: usize, gates: usize) -> Gate {
        let need = |need: &Need| match *need {
            Need::Arrived(flow, n) => Need::Arrived(flow + flows, n),
            Need::Completed(flow, n) => Need::Completed(flow + flows, n),
            Need::Opened(gate) => Need::Opened(gate + gates),
        };
        Gate {
            needs: self.needs.iter().map(need).collect(),
            releases: self.releases.iter().map(|flow| flow + flows).collect(),
            ..self.clone()
        }
    }
}

impl Source {
    /// Whether another seed results in other flows.
    pub fn is_drawn(&self) -> bool {
        match self {
            Source::Listed(_) | Source::Triggered(..) => false,
            Source::Collective(collective) => collective.is_drawn(),
            Source::Permutation(_) | Source::Arrivals(_) | Source::Incasts(_) => true,
        }
    }

    /// Whether another seed results in flows between other hosts.
    pub fn draws_hosts(&self) -> bool {
        matches!(self, Source::Permutation(_) | Source::Arrivals(_) | Source::Incasts(_))
    }

    /// The same, slower by this factor; rates follow from the links.
    pub fn dilated(&self, by: Dilation) -> Option<Source> {
        let mut slow = self.clone();
        let later = |at: &mut Time| {
            *at = Time::ZERO + by.span(at.since(Time::ZERO))?;
            Some(())
        };
        let longer = |span: &mut Span| {
            *span = by.span(*span)?;
            Some(())
        };
        match &mut slow {
            Source::Listed(flows) => {
                flows.iter_mut().try_for_each(|flow| later(&mut flow.start))?
            }
            Source::Triggered(flows, gates) => {
                flows.iter_mut().try_for_each(|flow| later(&mut flow.start))?;
                gates.iter_mut().try_for_each(|gate| longer(&mut gate.delay))?;
            }
            Source::Permutation(permutation) => {
                permutation.flows.iter_mut().try_for_each(|flow| later(&mut flow.start))?;
            }
            Source::Arrivals(arrivals) => {
                later(&mut arrivals.common.start)?;
                later(&mut arrivals.until)?;
            }
            Source::Incasts(incasts) => {
                later(&mut incasts.common.start)?;
                later(&mut incasts.until)?;
                if let FanIn::Every(span) = &mut incasts.rate {
                    longer(span)?;
                }
            }
            Source::Collective(collective) => {
                later(&mut collective.common.start)?;
                longer(&mut collective.compute)?;
                longer(&mut collective.expert)?;
            }
        }
        Some(slow)
    }
}
