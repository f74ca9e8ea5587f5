//! A permutation: every host sends to one and receives from one, none to itself.

use crate::lab::scenario::FlowSpec;
use crate::tm::random::Stream;

/// Purpose of the stream that draws permutations.
const PERMUTATION: u64 = 0x7065_726d;

/// Flows of a permutation with random receivers.
#[derive(Clone, Debug)]
pub struct Permutation {
    /// The participating hosts.
    pub hosts: Vec<usize>,
    /// One for each host, in the order of the senders; senders and receivers are filled in.
    pub flows: Vec<FlowSpec>,
    /// Number of the item in the list, so that items draw differently.
    pub index: u64,
}

impl Permutation {
    /// A cycle through all hosts in random order.
    pub fn flows(&self, seed: u64) -> Vec<FlowSpec> {
        let flow =
            |(spec, (from, to)): (&FlowSpec, (usize, usize))| FlowSpec { from, to, ..spec.clone() };
        self.flows.iter().zip(self.pairs(seed)).map(flow).collect()
    }

    fn pairs(&self, seed: u64) -> Vec<(usize, usize)> {
        let mut stream = Stream::new(seed, PERMUTATION + self.index);
        let mut order = self.hosts.clone();
        for n in (1..order.len()).rev() {
            order.swap(n, super::sizes::below(&mut stream, n + 1));
        }
        let next = order.iter().copied().cycle().skip(1);
        let mut pairs: Vec<(usize, usize)> = order.iter().copied().zip(next).collect();
        pairs.sort_unstable();
        pairs
    }
}
