//! Collective operations as messages that wait for each other.
//!
//! Every rank runs the algorithm as in a library (Thakur, Rabenseifner, Gropp, "Optimization of Collective
//! Communication Operations in MPICH", 2005; NCCL for ring and tree): a step is posted when the data that it sends has
//! arrived and the rank's step before is posted. Between two hosts all steps of one size are messages of one
//! connection, so rate control keeps its state. An iteration of a rank begins when its last one is complete there, with
//! the computing time; no rank waits for all, as in training without a barrier.

use std::collections::BTreeMap;

use wireyard_tables::time::{Span, Time};

use super::sizes::{below, uniform};
use super::{Gate, Need, Workload};
use crate::lab::scenario::FlowSpec;
use crate::tm::random::Stream;
use crate::units::Bytes;

/// Purpose of the stream of jitter and experts, with the number of the item below.
const COLLECTIVES: u64 = 0x636f_6c6c << 32;
/// Messages of one connection in flight at a time: no step waits for the acknowledgement of the one before.
pub const WINDOW: u32 = 64;

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Every rank has the sum of all.
    AllReduce,
    /// Every rank has its part of the sum.
    ReduceScatter,
    /// Every rank has the parts of all.
    AllGather,
    /// Every rank sends a part to every other.
    AllToAll,
    /// Mixture of experts: tokens go to the ranks of their experts, and back.
    Moe,
}

impl Operation {
    /// Names in scenarios.
    pub const NAMES: &'static [&'static str] =
        &["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "moe"];

    /// The operation of this name.
    pub fn by_name(name: &str) -> Option<Operation> {
        Some(match name {
            "all_reduce" => Operation::AllReduce,
            "reduce_scatter" => Operation::ReduceScatter,
            "all_gather" => Operation::AllGather,
            "all_to_all" => Operation::AllToAll,
            "moe" => Operation::Moe,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Operation::NAMES[self as usize]
    }

    /// Bytes over a link for each byte of the operation with `ranks` ranks, as nccl-tests' page on performance defines the bus
    /// bandwidth; a mixture of experts is two all-to-alls.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let part = (ranks as f64 - 1.0) / ranks as f64;
        match self {
            Operation::AllReduce | Operation::Moe => 2.0 * part,
            _ => part,
        }
    }
}

/// The algorithm of an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// 2 (N - 1) steps to the next neighbour, each of a part of N.
    Ring,
    /// Chunks up a binary tree and down.
    Tree,
    /// Recursive halving, then recursive doubling.
    HalvingDoubling,
}

impl Algorithm {
    /// Names in scenarios.
    pub const NAMES: &'static [&'static str] = &["ring", "tree", "halving_doubling"];

    /// The algorithm of this name.
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Some(match name {
            "ring" => Algorithm::Ring,
            "tree" => Algorithm::Tree,
            "halving_doubling" => Algorithm::HalvingDoubling,
            _ => return None,
        })
    }
}

/// A collective operation, iterated.
#[derive(Clone, Debug)]
pub struct Collective {
    /// Its name.
    pub name: String,
    /// The common settings of its flows; the first iteration begins at its start.
    pub common: FlowSpec,
    /// Hosts, by rank.
    pub ranks: Vec<usize>,
    /// The operation.
    pub operation: Operation,
    /// The algorithm of an all-reduce.
    pub algorithm: Algorithm,
    /// Bytes: of the result that every rank has (all-reduce, all-gather), of its input (the others).
    pub size: Bytes,
    /// Number of iterations.
    pub iterations: u32,
    /// Computing time of a rank before each iteration.
    pub compute: Span,
    /// Largest relative extension of that time, uniformly distributed.
    pub jitter: f64,
    /// Ranks that compute longer.
    pub stragglers: Vec<usize>,
    /// Factor by which it is slower.
    pub slower: f64,
    /// Parts of a tree's message.
    pub chunks: u32,
    /// Time that an expert computes.
    pub expert: Span,
    /// Experts' shares fall with their random order to this power (Zipf), a multiple of a half; 0 is even.
    pub skew: f64,
}

/// Flows and gates of one collective.
struct Builder<'w> {
    work: &'w mut Workload,
    of: &'w Collective,
    /// By sender, receiver and bytes.
    flows: BTreeMap<(usize, usize, u64), usize>,
    /// By rank and lane: the gate before. Steps of one lane are posted in order.
    before: BTreeMap<(usize, u32), usize>,
    iteration: u32,
}

impl Builder<'_> {
    /// The next message of this size from rank to rank: its flow, and its number.
    fn message(&mut self, from: usize, to: usize, bytes: u64) -> (usize, u32) {
        let bytes = bytes.max(1);
        let (work, of) = (&mut *self.work, self.of);
        let flow = *self.flows.entry((from, to, bytes)).or_insert_with(|| {
            let size = Bytes::new(bytes);
            work.flows.push(FlowSpec {
                from: of.ranks[from],
                to: of.ranks[to],
                size: Some(size),
                message: size,
                rounds: 0,
                window: WINDOW,
                is_gated: true,
                ..of.common.clone()
            });
            work.flows.len() - 1
        });
        work.flows[flow].rounds += 1;
        (flow, work.flows[flow].rounds)
    }

    /// A step of a rank, after its step before in the same lane.
    fn gate(
        &mut self,
        (rank, lane): (usize, u32),
        step: u32,
        needs: &[Need],
        delay: Span,
    ) -> usize {
        let number = self.work.gates.len();
        let before = self.before.insert((rank, lane), number);
        let mut needs = needs.to_vec();
        needs.extend(before.map(Need::Opened));
        self.work.gates.push(Gate {
            host: self.of.ranks[rank],
            needs,
            delay,
            releases: Vec::new(),
            iteration: self.iteration,
            step,
        });
        number
    }

    /// Lets a gate release the next message of a rank; returns the receiver's condition.
    fn send(&mut self, gate: usize, from: usize, to: usize, bytes: u64) -> Need {
        let (flow, number) = self.message(from, to, bytes);
        self.work.gates[gate].releases.push(flow);
        Need::Arrived(flow, number)
    }

    fn ranks(&self) -> usize {
        self.of.ranks.len()
    }

    /// Steps to the next neighbour: returns the conditions of each rank at the end, and the number of steps.
    fn ring(&mut self, rounds: u32) -> (Vec<Vec<Need>>, u32) {
        let count = self.ranks();
        let steps = rounds * (count as u32 - 1);
        let part = self.of.size.get().div_ceil(count as u64);
        let mut arrived: Vec<Vec<Need>> = vec![Vec::new(); count];
        for step in 1..=steps {
            let mut next = vec![Vec::new(); count];
            for (rank, needs) in arrived.iter().enumerate() {
                let gate = self.gate((rank, 0), step, needs, Span::ZERO);
                let to = (rank + 1) % count;
                next[to] = vec![self.send(gate, rank, to, part)];
            }
            arrived = next;
        }
        (arrived, steps)
    }

    /// Recursive halving of the vector with ever nearer partners, and doubling in reverse.
    fn halving_doubling(&mut self) -> (Vec<Vec<Need>>, u32) {
        let count = self.ranks();
        let depth = count.trailing_zeros();
        let levels: Vec<u32> = (0..depth).chain((0..depth).rev()).collect();
        let mut arrived: Vec<Vec<Need>> = vec![Vec::new(); count];
        for (step, level) in levels.iter().enumerate() {
            let bytes = self.of.size.get().div_ceil(2 << level);
            let mut next = vec![Vec::new(); count];
            for (rank, needs) in arrived.iter().enumerate() {
                let gate = self.gate((rank, 0), step as u32 + 1, needs, Span::ZERO);
                let to = rank ^ (count >> (level + 1));
                next[to] = vec![self.send(gate, rank, to, bytes)];
            }
            arrived = next;
        }
        (arrived, levels.len() as u32)
    }

    /// Chunks up a binary tree, where they are summed, and down; both directions at a time, as in a library with two
    /// channels.
    fn tree(&mut self, starts: &[usize]) -> (Vec<Vec<Need>>, u32) {
        let (count, chunks) = (self.ranks(), self.of.chunks);
        let bytes = self.of.size.get().div_ceil(u64::from(chunks));
        let children =
            |rank: usize| [2 * rank + 1, 2 * rank + 2].into_iter().filter(move |c| *c < count);
        let mut last: Vec<Vec<Need>> = vec![Vec::new(); count];
        for (rank, start) in starts.iter().enumerate() {
            self.before.insert((rank, 1), *start);
        }
        for chunk in 1..=chunks {
            let mut from_below: Vec<Vec<Need>> = vec![Vec::new(); count];
            for rank in (1..count).rev() {
                let gate = self.gate((rank, 0), chunk, &from_below[rank], Span::ZERO);
                let parent = (rank - 1) / 2;
                let need = self.send(gate, rank, parent, bytes);
                from_below[parent].push(need);
            }
            let mut from_above = from_below.swap_remove(0);
            let mut above: BTreeMap<usize, Need> = BTreeMap::new();
            for (rank, last) in last.iter_mut().enumerate() {
                from_above.extend(above.remove(&rank));
                let gate = self.gate((rank, 1), chunks + chunk, &from_above, Span::ZERO);
                *last = std::mem::take(&mut from_above);
                for child in children(rank) {
                    let need = self.send(gate, rank, child, bytes);
                    above.insert(child, need);
                }
            }
        }
        (last, 2 * chunks)
    }

    /// Every rank sends `bytes(from, to)` to every other, beginning with the next neighbour.
    fn exchange(
        &mut self,
        step: u32,
        needs: &[Vec<Need>],
        delay: Span,
        bytes: &dyn Fn(usize, usize) -> u64,
    ) -> Vec<Vec<Need>> {
        let count = self.ranks();
        let mut arrived: Vec<Vec<Need>> = vec![Vec::new(); count];
        for (rank, needs) in needs.iter().enumerate() {
            let gate = self.gate((rank, 0), step, needs, delay);
            for to in (1..count).map(|n| (rank + n) % count) {
                let need = self.send(gate, rank, to, bytes(rank, to));
                arrived[to].push(need);
            }
        }
        arrived
    }
}

impl Collective {
    pub(super) fn is_drawn(&self) -> bool {
        self.jitter > 0.0 || self.skew > 0.0
    }

    /// The longest message that a rank sends.
    pub fn longest(&self) -> Bytes {
        let (count, size) = (self.ranks.len() as u64, self.size.get());
        Bytes::new(match (self.operation, self.algorithm) {
            (Operation::AllReduce, Algorithm::Tree) => size.div_ceil(u64::from(self.chunks)),
            (Operation::AllReduce, Algorithm::HalvingDoubling) => size.div_ceil(2),
            (Operation::Moe, _) if self.skew > 0.0 => size,
            _ => size.div_ceil(count),
        })
    }

    /// Number of gates and connections, computed before they are created.
    pub fn extent(&self) -> (u64, u64) {
        let (count, iterations) = (self.ranks.len() as u64, u64::from(self.iterations));
        let ring = |rounds: u64| (rounds * (count - 1) + 2, count);
        let (steps, flows) = match (self.operation, self.algorithm) {
            (Operation::AllReduce, Algorithm::Ring) => ring(2),
            (Operation::AllReduce, Algorithm::Tree) => (2 * u64::from(self.chunks) + 2, 2 * count),
            (Operation::AllReduce, Algorithm::HalvingDoubling) => {
                let depth = u64::from(count.ilog2());
                (2 * depth + 2, depth * count)
            }
            (Operation::ReduceScatter | Operation::AllGather, _) => ring(1),
            (Operation::AllToAll, _) => (3, count * (count - 1)),
            (Operation::Moe, _) => (4, 2 * count * (count - 1)),
        };
        // Each exchange has a need for each message.
        let needs = flows.max(count * steps);
        (needs.saturating_mul(iterations), flows)
    }

    /// Computing time of a rank before an iteration.
    fn computes(&self, rank: usize, stream: &mut Stream) -> Span {
        let factor = if self.stragglers.contains(&self.ranks[rank]) { self.slower } else { 1.0 };
        let factor = factor * (1.0 + self.jitter * uniform(stream));
        Span::from_ps((self.compute.as_ps() as f64 * factor) as u64)
    }

    /// Share of the tokens that each expert gets, in billionths.
    fn shares(&self, stream: &mut Stream) -> Vec<u64> {
        let count = self.ranks.len();
        let mut order: Vec<usize> = (0..count).collect();
        for n in (1..count).rev() {
            order.swap(n, below(stream, n + 1));
        }
        let weights: Vec<f64> = order.iter().map(|place| self.weight(*place)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / sum * 1e9) as u64).collect()
    }

    /// 1 / (place + 1)^skew, by operations that are exact on every system: the skew is a multiple of a half.
    fn weight(&self, place: usize) -> f64 {
        let rank = place as f64 + 1.0;
        let whole = (0..self.skew as u32).fold(1.0, |power, _| power * rank);
        1.0 / if self.skew.fract() > 0.0 { whole * rank.sqrt() } else { whole }
    }

    pub(super) fn add(&self, work: &mut Workload, (seed, index): (u64, u64)) {
        let mut stream = Stream::new(seed, COLLECTIVES + index);
        let count = self.ranks.len();
        let shares =
            if self.operation == Operation::Moe { self.shares(&mut stream) } else { Vec::new() };
        let mut builder = Builder {
            work,
            of: self,
            flows: BTreeMap::new(),
            before: BTreeMap::new(),
            iteration: 0,
        };
        let begins = self.common.start.since(Time::ZERO);
        for iteration in 0..self.iterations {
            builder.iteration = iteration;
            let first = if iteration == 0 { begins } else { Span::ZERO };
            let starts: Vec<usize> = (0..count)
                .map(|rank| {
                    builder.gate((rank, 0), 0, &[], first + self.computes(rank, &mut stream))
                })
                .collect();
            let none = vec![Vec::new(); count];
            let (arrived, steps) = match (self.operation, self.algorithm) {
                (Operation::AllReduce, Algorithm::Ring) => builder.ring(2),
                (Operation::AllReduce, Algorithm::Tree) => builder.tree(&starts),
                (Operation::AllReduce, Algorithm::HalvingDoubling) => builder.halving_doubling(),
                (Operation::ReduceScatter | Operation::AllGather, _) => builder.ring(1),
                (Operation::AllToAll, _) => {
                    let part = self.size.get().div_ceil(count as u64);
                    (builder.exchange(1, &none, Span::ZERO, &|_, _| part), 1)
                }
                (Operation::Moe, _) => {
                    let part = |expert: usize| {
                        (u128::from(self.size.get()) * u128::from(shares[expert]) / 1_000_000_000)
                            as u64
                    };
                    let there = builder.exchange(1, &none, Span::ZERO, &|_, to| part(to));
                    (builder.exchange(2, &there, self.expert, &|from, _| part(from)), 2)
                }
            };
            for (rank, needs) in arrived.iter().enumerate() {
                builder.gate((rank, 0), steps + 1, needs, Span::ZERO);
            }
        }
    }
}
