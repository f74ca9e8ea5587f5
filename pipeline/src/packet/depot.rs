//! Free chunks that no worker holds: a lock-free stack of chains.
//!
//! Workers push and pop whole chains (a batch of chunks), so there is one compare-and-swap per batch and none per
//! packet. The head carries a generation number against the ABA problem. `tests/models` checks this file for every
//! interleaving of two workers.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// The most chunks in a chain.
pub(super) const BATCH_MAX: u32 = 64;

#[derive(Debug)]
pub(super) struct Depot {
    /// Generation in the upper half, first chunk of the topmost chain + 1 in the lower (0: empty).
    head: AtomicU64,
    /// Per chunk: the next chunk of its chain + 1, 0 at the end.
    next: Box<[AtomicU32]>,
    /// Per first chunk of a chain: the first chunk of the chain below + 1, 0 at the bottom.
    below: Box<[AtomicU32]>,
    batch: usize,
}

impl Depot {
    /// A depot that holds all `chunks`, in chains of at most `batch`.
    pub(super) fn full(chunks: u32, batch: u32) -> Depot {
        let zeros = || (0..chunks).map(|_| AtomicU32::new(0)).collect();
        // A small memory has small batches, so that one worker cannot hoard all of it.
        let batch = (chunks / 16).clamp(1, batch.clamp(1, BATCH_MAX)) as usize;
        let depot = Depot { head: AtomicU64::new(0), next: zeros(), below: zeros(), batch };
        let mut all: Vec<u32> = (0..chunks).collect();
        while !all.is_empty() {
            depot.give(&mut all);
        }
        depot
    }

    /// Chunks of a full chain.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Moves up to a batch from the end of `cache` into the depot.
    pub(super) fn give(&self, cache: &mut Vec<u32>) {
        let keep = cache.len().saturating_sub(self.batch);
        let mut first = 0;
        for index in cache.drain(keep..) {
            let Some(next) = self.next.get(index as usize) else { continue };
            next.store(first, Ordering::Relaxed);
            first = index + 1;
        }
        if let Some(below) = first.checked_sub(1).and_then(|i| self.below.get(i as usize)) {
            self.push(first, below);
        }
    }

    fn push(&self, first: u32, below: &AtomicU32) {
        let mut old = self.head.load(Ordering::Relaxed);
        loop {
            below.store(old as u32, Ordering::Relaxed);
            // Release: the chain's links and the contents of its chunks.
            match self.head.compare_exchange_weak(
                old,
                bumped(old, first),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Moves the topmost chain into `cache`; false if there is none.
    pub(super) fn take(&self, cache: &mut Vec<u32>) -> bool {
        let mut old = self.head.load(Ordering::Acquire);
        let mut at = loop {
            let first = old as u32;
            let Some(below) = first.checked_sub(1).and_then(|i| self.below.get(i as usize)) else {
                return false;
            };
            // Stale if another worker took this chain meanwhile; then the generation has changed.
            let under = below.load(Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                old,
                bumped(old, under),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break first,
                Err(now) => old = now,
            }
        };
        while let Some(index) = at.checked_sub(1) {
            cache.push(index);
            at = self.next.get(index as usize).map_or(0, |n| n.load(Ordering::Relaxed));
        }
        true
    }
}

/// The head after `old` that points at `first`.
fn bumped(old: u64, first: u32) -> u64 {
    ((old >> 32).wrapping_add(1) << 32) | u64::from(first)
}
