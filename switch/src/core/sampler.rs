//! Samples of packets in a live device: which parser states and control blocks they go through.
//!
//! Machine code counts none of this, so the interpreter runs a few packets and traces them; all others are run as
//! usual. It is for pictures of a program, while one is shown: sampling ends by itself a few seconds after the last
//! request. Every pass has the same chance, whatever came before it: the number of passes between two samples is
//! random, with a mean that follows the load. So shares are those of all packets, and while few packets pass, all are
//! sampled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::ids::{BlockId, ErrorId, Id, StateId, TableId};
use wireyard_pipeline::ir::{Half, Program};
use wireyard_pipeline::trace::{Event, TraceSink};
use wireyard_tables::time::{Span, Time};

/// Target of samples per second of a worker, for ingress and for egress each: each costs some microseconds. Above twice
/// as many in a window the mean grows; four times as many are the maximum.
const RATE: u64 = 500;
/// Interval at which the mean is adjusted to the load.
const WINDOW: Span = Span::from_ms(100);
/// Windows in a second.
const WINDOWS: u64 = 10;
/// How long sampling continues after the last request.
const LEASE: Span = Span::from_ms(3_000);

/// Samples of a program, from all workers.
#[derive(Debug)]
pub struct Samples {
    /// The program as loaded.
    source: Arc<Program>,
    /// The program as the engine runs it, whose states and blocks are counted.
    program: Arc<Program>,
    states: Counts,
    errors: Counts,
    accepted: AtomicU64,
    blocks: [Counts; 2],
    hits: Counts,
    misses: Counts,
    passes: [AtomicU64; 2],
    sampled: [AtomicU64; 2],
}

type Counts = Box<[AtomicU64]>;

fn counts(len: usize) -> Counts {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

fn add(counts: &Counts, at: usize) {
    if let Some(count) = counts.get(at) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(counts: &Counts, at: usize) -> u64 {
    counts.get(at).map_or(0, |count| count.load(Ordering::Relaxed))
}

impl Samples {
    /// Zero samples of a program as loaded, and as its engine runs it.
    pub(crate) fn new(source: Arc<Program>, program: Arc<Program>) -> Samples {
        let tables = program.tables.len();
        Samples {
            states: counts(program.parser.states.len()),
            errors: counts(program.errors.len()),
            accepted: AtomicU64::new(0),
            blocks: [counts(program.ingress.blocks.len()), counts(program.egress.blocks.len())],
            hits: counts(tables),
            misses: counts(tables),
            passes: Default::default(),
            sampled: Default::default(),
            source,
            program,
        }
    }

    /// The program as loaded.
    pub fn source(&self) -> &Arc<Program> {
        &self.source
    }

    /// The program as the engine runs it: states and blocks refer to it.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Passes through ingress, or egress, since sampling began.
    pub fn passes(&self, half: Half) -> u64 {
        self.passes[half as usize].load(Ordering::Relaxed)
    }

    /// Of these, the sampled ones. To be read before [`Samples::passes`], which is then not lower.
    pub fn sampled(&self, half: Half) -> u64 {
        self.sampled[half as usize].load(Ordering::Acquire)
    }

    /// Sampled packets that reached this state of the ingress parser.
    pub fn state(&self, state: StateId) -> u64 {
        read(&self.states, state.index())
    }

    /// Sampled packets that the ingress parser accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Sampled packets that the ingress parser refused for a reason.
    pub fn refused(&self, error: ErrorId) -> u64 {
        read(&self.errors, error.index())
    }

    /// Sampled packets that entered a block of a control.
    pub fn block(&self, half: Half, block: BlockId) -> u64 {
        read(&self.blocks[half as usize], block.index())
    }

    /// Sampled packets that hit an entry of a table, and that missed.
    pub fn table(&self, table: TableId) -> (u64, u64) {
        (read(&self.hits, table.index()), read(&self.misses, table.index()))
    }
}

/// Passes of one direction.
#[derive(Debug)]
struct PassSampler {
    /// Passes until the next sample.
    skip: u64,
    /// One more than the mean of `skip`.
    mean: u64,
    /// Passes in this window.
    passes: u64,
    /// Of `passes`, those already added to the samples.
    counted: u64,
    /// Samples in this window.
    samples: u64,
}

impl PassSampler {
    const NEW: PassSampler = PassSampler { skip: 0, mean: 1, passes: 0, counted: 0, samples: 0 };

    /// True if this pass is to be sampled; `draw` returns 64 uniform random bits.
    fn takes(&mut self, draw: impl FnOnce() -> u64) -> bool {
        self.passes += 1;
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.samples >= 2 * RATE / WINDOWS {
            // The load is higher than in the previous window: the mean doubles, so that a window has a bounded number
            // of samples.
            self.mean = (self.mean * 2).min(1 << 32);
        }
        self.skip = draw() % (2 * self.mean - 1);
        self.samples += 1;
        self.samples <= 4 * RATE / WINDOWS
    }

    /// Passes since the last call.
    fn uncounted(&mut self) -> u64 {
        let more = self.passes - self.counted;
        self.counted = self.passes;
        more
    }

    fn end_window(&mut self) {
        self.mean = (self.passes * WINDOWS).div_ceil(RATE).max(1);
        self.skip = self.skip.min(2 * self.mean - 2);
        (self.passes, self.counted, self.samples) = (0, 0, 0);
    }
}

/// A worker's part of the sampling.
#[derive(Debug)]
pub(super) struct Sampler {
    samples: Arc<Samples>,
    /// The generation number that packets carry.
    generation: u16,
    until: Time,
    since: Time,
    halves: [PassSampler; 2],
    random: u64,
    /// The pass in progress.
    half: Half,
    is_refused: bool,
}

impl Sampler {
    /// Samples into `samples` for some seconds from `now` on; `generation` is the number that packets of the program
    /// carry.
    pub(super) fn new(samples: Arc<Samples>, generation: u16, now: Time) -> Sampler {
        // Any seed other than zero: no result depends on it.
        let random = now.as_ns() | 1;
        let (until, halves) = (now + LEASE, [PassSampler::NEW, PassSampler::NEW]);
        let (half, is_refused) = (Half::Ingress, false);
        Sampler { samples, generation, until, since: now, halves, random, half, is_refused }
    }

    /// Continues for some seconds from `now` on, if it samples into `samples`; false otherwise.
    pub(super) fn extend(&mut self, samples: &Arc<Samples>, now: Time) -> bool {
        let is_same = Arc::ptr_eq(&self.samples, samples);
        if is_same {
            self.until = now + LEASE;
        }
        is_same
    }

    /// Begins another poll; false if sampling has ended.
    pub(super) fn begin(&mut self, now: Time, generation: Option<u16>) -> bool {
        if now.since(self.since) >= WINDOW {
            self.since = now;
            for (half, passes) in self.halves.iter_mut().zip(&self.samples.passes) {
                passes.fetch_add(half.uncounted(), Ordering::Relaxed);
                half.end_window();
            }
        }
        generation == Some(self.generation) && now < self.until
    }
}

/// Marsaglia, "Xorshift RNGs" (2003).
fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl TraceSink for Sampler {
    fn wants(&mut self, packet: &Descriptor, _: &[u8], half: Half) -> bool {
        if packet.generation != self.generation {
            return false;
        }
        let random = &mut self.random;
        let takes = self.halves[half as usize].takes(|| xorshift(random));
        if takes {
            (self.half, self.is_refused) = (half, false);
        }
        takes
    }

    fn event(&mut self, event: Event) {
        let samples = &*self.samples;
        match event {
            // Egress parses the headers of copies again; the picture is of packets as received.
            Event::State(state) if self.half == Half::Ingress => {
                add(&samples.states, state.index())
            }
            Event::ParserError(error) if self.half == Half::Ingress => {
                self.is_refused = true;
                add(&samples.errors, error.index());
            }
            Event::Apply { table, slot, .. } => {
                let counts = if slot.is_some() { &samples.hits } else { &samples.misses };
                add(counts, table.index());
            }
            _ => {}
        }
    }

    fn block(&mut self, block: BlockId) {
        add(&self.samples.blocks[self.half as usize], block.index());
    }

    fn end(&mut self, _: &Descriptor) {
        if self.half == Half::Ingress && !self.is_refused {
            self.samples.accepted.fetch_add(1, Ordering::Relaxed);
        }
        let half = self.half as usize;
        self.samples.passes[half].fetch_add(self.halves[half].uncounted(), Ordering::Relaxed);
        self.samples.sampled[half].fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_sampled_while_few_pass_and_an_even_share_of_many() {
        let mut half = PassSampler::NEW;
        let mut random = 1;
        let mut take = |half: &mut PassSampler| half.takes(|| xorshift(&mut random));
        for _ in 0..30 {
            assert_eq!((0..40).filter(|_| take(&mut half)).count(), 40);
            half.end_window();
        }
        // A million passes a second: 500 samples, as many in one half of a pattern as in the other.
        let (mut halves, mut all) = ([0u64; 2], 0);
        for window in 0..60 {
            let before = halves;
            for pass in 0..100_000usize {
                halves[pass / 64 % 2] += u64::from(take(&mut half));
            }
            half.end_window();
            all = halves[0] + halves[1];
            let taken = all - before[0] - before[1];
            assert!(taken <= 4 * RATE / WINDOWS, "window {window}: {taken}");
        }
        let expected = 60 * RATE / WINDOWS;
        assert!(all.abs_diff(expected) < expected / 5, "{all} of {expected}");
        assert!(halves[0].abs_diff(halves[1]) < all / 10, "{halves:?}");
    }
}
